//! SQLite's own cache of pages, in which one page has another key.
//!
//! When SQLite splits pages of a tree, it may swap the numbers of two pages. While it does so, one
//! of them has the number [`SWAP_PAGE`]. In a file with pages of 4,096 bytes, no other page has it.
//! SQLite's cache notes the highest number that a page in it has had. At the end of the transaction
//! it must forget pages past the end of the file. In a file of less than 1 GiB, where the swap page
//! would be, it therefore looked at each page it held. This was up to a fifth of the service's
//! processor time.
//!
//! Here the page has the key 0 instead, which SQLite uses for no page. The cache behaves as before,
//! also for files with smaller pages, in which `SWAP_PAGE` can be a page like any other.
//!
//! SQLite takes the functions of a cache as pointers to C functions, so this module has unsafe
//! code. Each function hands SQLite's own one what SQLite hands to it; only keys differ.
#![allow(unsafe_code)]

use std::{
    ffi::{c_int, c_uint},
    mem::MaybeUninit,
    ptr,
    sync::OnceLock,
};

use rusqlite::ffi::{
    SQLITE_CONFIG_GETPCACHE2, SQLITE_CONFIG_PCACHE2, SQLITE_OK, sqlite3_config, sqlite3_pcache,
    sqlite3_pcache_methods2, sqlite3_pcache_page,
};

/// The page of 4,096 bytes at 1 GiB. SQLite locks bytes there, and so never uses the page.
const SWAP_PAGE: c_uint = 0x4000_0000 / 4096 + 1;
/// The key of that page: pages are numbered from 1.
const SWAP_KEY: c_uint = 0;

/// The functions of SQLite's cache that are called from here.
static OWN: OnceLock<Own> = OnceLock::new();

type Rekey = unsafe extern "C" fn(*mut sqlite3_pcache, *mut sqlite3_pcache_page, c_uint, c_uint);

struct Own {
    fetch: unsafe extern "C" fn(*mut sqlite3_pcache, c_uint, c_int) -> *mut sqlite3_pcache_page,
    unpin: unsafe extern "C" fn(*mut sqlite3_pcache, *mut sqlite3_pcache_page, c_int),
    rekey: Rekey,
    truncate: unsafe extern "C" fn(*mut sqlite3_pcache, c_uint),
}

/// Lets SQLite use this cache. If the process has opened a database before, SQLite refuses and goes
/// on with its own.
///
/// # Safety
/// No other thread may use SQLite meanwhile: it reads and writes its settings without a lock.
pub unsafe fn install() {
    // SAFETY: the caller keeps other threads away.
    let installed = unsafe { own_cache() }.and_then(|mut methods| {
        use_swap_key(&mut methods)?;
        // SAFETY: the argument has the type that the option asks for, and SQLite copies it. The
        // caller keeps other threads away.
        let code = unsafe { sqlite3_config(SQLITE_CONFIG_PCACHE2, &raw mut methods) };
        (code == SQLITE_OK).then_some(())
    });
    debug_assert!(installed.is_some(), "SQLite was in use before");
}

/// The cache that SQLite uses; none once a database was opened.
///
/// # Safety
/// As for [`install`].
unsafe fn own_cache() -> Option<sqlite3_pcache_methods2> {
    let mut methods = MaybeUninit::<sqlite3_pcache_methods2>::uninit();
    // SAFETY: the argument has the type that the option asks for. SQLite fills all of it, unless it
    // returns an error.
    unsafe {
        let code = sqlite3_config(SQLITE_CONFIG_GETPCACHE2, methods.as_mut_ptr());
        (code == SQLITE_OK).then(|| methods.assume_init())
    }
}

/// Puts the functions of this module before those of SQLite's cache; `None` if it lacks one.
fn use_swap_key(methods: &mut sqlite3_pcache_methods2) -> Option<()> {
    let own = Own {
        fetch: methods.xFetch?,
        unpin: methods.xUnpin?,
        rekey: methods.xRekey?,
        truncate: methods.xTruncate?,
    };
    OWN.get_or_init(|| own);
    methods.xFetch = Some(fetch);
    methods.xRekey = Some(rekey);
    methods.xTruncate = Some(truncate);
    Some(())
}

const fn key_of(page: c_uint) -> c_uint {
    if page == SWAP_PAGE { SWAP_KEY } else { page }
}

unsafe extern "C" fn fetch(
    cache: *mut sqlite3_pcache,
    page: c_uint,
    create: c_int,
) -> *mut sqlite3_pcache_page {
    let Some(own) = OWN.get() else {
        return ptr::null_mut(); // what a cache without memory answers
    };
    // SAFETY: SQLite's own arguments.
    unsafe { (own.fetch)(cache, key_of(page), create) }
}

unsafe extern "C" fn rekey(
    cache: *mut sqlite3_pcache,
    page: *mut sqlite3_pcache_page,
    old: c_uint,
    new: c_uint,
) {
    if let Some(own) = OWN.get() {
        // SAFETY: SQLite's own arguments; the page has the key of its old number.
        unsafe { (own.rekey)(cache, page, key_of(old), key_of(new)) }
    }
}

/// Forgets the pages from this one on, pinned or not.
unsafe extern "C" fn truncate(cache: *mut sqlite3_pcache, first: c_uint) {
    let Some(own) = OWN.get() else { return };
    // SAFETY: SQLite's own cache. A page that it has is pinned by `fetch`, which creates none here,
    // and `unpin` then discards it.
    unsafe {
        if first <= SWAP_PAGE {
            let page = (own.fetch)(cache, SWAP_KEY, 0);
            if !page.is_null() {
                (own.unpin)(cache, page, 1);
            }
        }
        (own.truncate)(cache, first);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        process::Command,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use rand::{RngExt as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
    use rusqlite::{Connection, params};

    use super::*;

    static SQLITE_REKEY: OnceLock<Rekey> = OnceLock::new();
    /// How often SQLite's cache gave a page the key 0.
    static SWAPS: AtomicUsize = AtomicUsize::new(0);
    /// How often it gave a page the number of the swap page.
    static UNCHANGED: AtomicUsize = AtomicUsize::new(0);

    unsafe extern "C" fn counting_rekey(
        cache: *mut sqlite3_pcache,
        page: *mut sqlite3_pcache_page,
        old: c_uint,
        new: c_uint,
    ) {
        SWAPS.fetch_add(usize::from(new == SWAP_KEY), Ordering::Relaxed);
        UNCHANGED.fetch_add(usize::from(new == SWAP_PAGE), Ordering::Relaxed);
        // SAFETY: SQLite's own arguments.
        unsafe { SQLITE_REKEY.get().unwrap()(cache, page, old, new) }
    }

    /// A database that grows, changes and shrinks at random, and what must be in it.
    struct World {
        db: Connection,
        rows: BTreeMap<i64, Vec<u8>>,
        rng: StdRng,
    }

    impl World {
        fn new(db: Connection) -> Self {
            db.execute_batch(
                "PRAGMA auto_vacuum = INCREMENTAL;
                 PRAGMA journal_mode = WAL;
                 PRAGMA synchronous = OFF;
                 PRAGMA cache_size = 300;
                 CREATE TABLE items (key INTEGER PRIMARY KEY, value BLOB) STRICT, WITHOUT ROWID;",
            )
            .unwrap();
            let (rows, rng) = (BTreeMap::new(), StdRng::seed_from_u64(1));
            Self { db, rows, rng }
        }

        fn change(&mut self, at_once: usize) {
            self.db.execute_batch("BEGIN").unwrap();
            for _ in 0..at_once {
                let (key, size) = (
                    self.rng.random_range(0..9_000),
                    self.rng.random_range(0..200),
                );
                let value = vec![self.rng.random(); size];
                let sql = "INSERT OR REPLACE INTO items (key, value) VALUES (?1, ?2)";
                let mut insert = self.db.prepare_cached(sql).unwrap();
                insert.execute(params![key, value]).unwrap();
                self.rows.insert(key, value);
            }
            for key in self.keys(at_once / 2) {
                let mut delete = self
                    .db
                    .prepare_cached("DELETE FROM items WHERE key = ?1")
                    .unwrap();
                delete.execute([key]).unwrap();
                self.rows.remove(&key);
            }
            self.db.execute_batch("COMMIT").unwrap();
        }

        fn keys(&mut self, count: usize) -> Vec<i64> {
            let keys: Vec<i64> = self.rows.keys().copied().collect();
            keys.sample(&mut self.rng, count).copied().collect()
        }

        fn shrink(&self) {
            let mut vacuum = self.db.prepare("PRAGMA incremental_vacuum").unwrap();
            let mut pages = vacuum.query([]).unwrap();
            while pages.next().unwrap().is_some() {}
            drop(pages);
            self.db
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
                .unwrap();
        }

        fn check(&self) {
            let sql = "PRAGMA integrity_check";
            let check: String = self.db.query_row(sql, [], |row| row.get(0)).unwrap();
            assert_eq!(check, "ok");
            let mut select = self.db.prepare("SELECT key, value FROM items").unwrap();
            let found = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
            let found: BTreeMap<i64, Vec<u8>> = found.unwrap().map(Result::unwrap).collect();
            assert!(found == self.rows, "rows are lost or changed");
        }
    }

    /// SQLite takes a cache only before anything else of it is used: a process that runs nothing
    /// but this test.
    #[test]
    fn files_stay_right_and_the_cache_sees_no_swap_page() {
        const ALONE: &str = "TOMBOLA_TEST_ALONE";
        let name = "store::sqlite::page_cache::tests::\
                    files_stay_right_and_the_cache_sees_no_swap_page";
        if std::env::var_os(ALONE).is_none() {
            let mut test = Command::new(std::env::current_exe().unwrap());
            let output = test
                .args([name, "--exact"])
                .env(ALONE, "1")
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(
                output.status.success() && said.contains("1 passed"),
                "{said}"
            );
            return;
        }
        // SAFETY: no other test runs in this process.
        let mut methods = unsafe { own_cache() }.unwrap();
        SQLITE_REKEY.get_or_init(|| methods.xRekey.unwrap());
        methods.xRekey = Some(counting_rekey);
        use_swap_key(&mut methods).unwrap();
        // SAFETY: the argument has the type that the option asks for, and SQLite copies it.
        let code = unsafe { sqlite3_config(SQLITE_CONFIG_PCACHE2, &raw mut methods) };
        assert_eq!(code, SQLITE_OK);

        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("database");
        let mut world = World::new(Connection::open(file).unwrap());
        for _ in 0..40 {
            world.change(500);
            world.shrink();
        }
        world.check();
        let swaps = SWAPS.load(Ordering::Relaxed);
        assert!(swaps > 20, "{swaps}");
        assert_eq!(UNCHANGED.load(Ordering::Relaxed), 0);
        behaves_as_any_cache(&methods);
    }

    /// Also for pages of another size, with the swap page as a page like any other.
    fn behaves_as_any_cache(methods: &sqlite3_pcache_methods2) {
        const PAGES: [c_uint; 7] = [1, 2, 3, 40, SWAP_PAGE - 1, SWAP_PAGE, SWAP_PAGE + 1];
        let (fetch, unpin) = (methods.xFetch.unwrap(), methods.xUnpin.unwrap());
        let mut rng = StdRng::seed_from_u64(7);
        let mut kept: BTreeMap<c_uint, *mut sqlite3_pcache_page> = BTreeMap::new();
        // SAFETY: SQLite is initialised. As it does itself, this unpins and numbers only pages that
        // were just fetched, and gives no page a number that another has.
        unsafe {
            let cache = methods.xCreate.unwrap()(512, 64, 1);
            methods.xCachesize.unwrap()(cache, 100);
            for _ in 0..20_000 {
                let page = *PAGES.choose(&mut rng).unwrap();
                let other = *PAGES.choose(&mut rng).unwrap();
                if rng.random_ratio(1, 10) {
                    methods.xTruncate.unwrap()(cache, page);
                    kept.retain(|kept, _| *kept < page);
                }
                let create = rng.random_bool(0.5);
                let found = fetch(cache, page, if create { 2 } else { 0 });
                let known = kept.get(&page).copied();
                match (known, found.is_null()) {
                    (None, true) => assert!(!create),
                    (None, false) => assert!(create),
                    (Some(known), _) => assert_eq!(found, known, "{page}"),
                }
                if !found.is_null() {
                    kept.insert(page, found);
                    match rng.random_range(0..5) {
                        0 => {
                            unpin(cache, found, 1);
                            kept.remove(&page);
                        }
                        1 | 2 if !kept.contains_key(&other) => {
                            methods.xRekey.unwrap()(cache, found, page, other);
                            kept.remove(&page);
                            kept.insert(other, found);
                        }
                        3 => unpin(cache, found, 0),
                        _ => {}
                    }
                }
                assert_eq!(methods.xPagecount.unwrap()(cache), kept.len() as c_int);
            }
            methods.xDestroy.unwrap()(cache);
        }
    }

    #[test]
    fn once_sqlite_is_in_use_its_cache_stays() {
        Connection::open_in_memory().unwrap();
        // SAFETY: SQLite is in use, so it only says that it changes nothing.
        assert!(unsafe { own_cache() }.is_none());
    }
}
