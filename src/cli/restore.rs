//! `tombola restore`: makes an embedded store of a backup.
//!
//! Everything is done in a directory of its own, and the finished store is moved at last: whatever
//! goes wrong, the data directory has either no store or a whole one.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::Args;
use serde_json::json;

use super::{
    client::{ChangeArgs, Client, Outcome},
    failure::Failure,
    key, lost,
    output::say,
    private::make_files_private,
    recover::{author, withdrawn_json, withdrawn_table},
    sink_args::SinkArgs,
    store_args::HomeArgs,
    terminal::confirm,
};
use crate::{
    ledger::lost::Lost,
    model::text::grouped,
    store::{
        Author, Lifecycle, Result as Stored, Store as _,
        clock::SystemClock,
        sqlite::{
            BegunFork, DATABASE_FILE, DirectoryLock, Inspected, OpenError, Options, SqliteStore,
        },
        withdrawal::{Withdrawn, withdraw_due},
    },
};

/// This command makes no requests that need remembering.
const REQUEST_MEMORY: Duration = Duration::from_secs(86_400);
/// What the names of directories begin with in which a store is made.
const UNFINISHED: &str = ".unfinished-restore-";
/// Campaigns that are read at a time.
const PAGE: usize = 100;
/// The one partition of an embedded store.
const PARTITION: u32 = 0;

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola restore monday.backup --data tombola-data --withdraw-due
  tombola restore monday.backup --data tombola-data --accept \
      --postgres-url postgres://reader@127.0.0.1/ledger

The data directory must have no store, but the store's master.key. What happened after the backup
is lost: users may have won units that the store takes for waiting ones. Choose what becomes of
these. With --postgres-url the command names what was lost of the settled ledger, and withdraws
also what was due when the last of it was written, if the clock was ahead then. The store goes on
with entry numbers and units that were never given out.")]
pub(super) struct RestoreArgs {
    /// The backup, as `tombola backup` has made it
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    home: HomeArgs,
    /// Withdraw every unit that can be won now, so that none is won twice: of prizes of personal
    /// pools and guarantees, all that are in stock. Open envelopes end, and the packets that nobody
    /// has grabbed are refunded
    #[arg(long, env = "TOMBOLA_WITHDRAW_DUE", conflicts_with = "accept")]
    withdraw_due: bool,
    /// Go on as if nothing had happened: units that were won after the backup may be won again
    #[arg(long, env = "TOMBOLA_ACCEPT")]
    accept: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    sink: SinkArgs,
    #[command(flatten)]
    change: ChangeArgs,
}

/// What was done.
struct Restored {
    backup: Inspected,
    fork: BegunFork,
    withdrawn: Option<Withdrawn>,
    lost: Option<Lost>,
}

pub(super) async fn run(client: &Client, args: RestoreArgs) -> Outcome {
    make_files_private();
    if !args.withdraw_due && !args.accept {
        return Err(Failure::usage(
            "choose what becomes of units that may have been won after the backup: withdraw those \
             that can be won now with --withdraw-due, or let them be won again with --accept",
        ));
    }
    let author = author(&args.change)?;
    let clock = args.home.clock();
    let clock = clock.map_err(|text| Failure::usage(format!("--clock-start {text}")))?;
    let clock = clock.unwrap_or_else(|| Arc::new(SystemClock));
    let lock = DirectoryLock::take(&args.home.data).map_err(|error| refused(&error.to_string()))?;
    let has_store = SqliteStore::exists(&lock, &args.home.data);
    if has_store.map_err(|error| refused(&error.to_string()))? {
        return Err(refused(&format!(
            "{} has a store already, which is not changed: name a directory without one",
            args.home.data.display()
        )));
    }
    // SQLite would apply the log of another file to the restored one.
    for end in ["-wal", "-shm", "-journal"] {
        let left = args.home.data.join(format!("{DATABASE_FILE}{end}"));
        if left.exists() {
            return Err(refused(&format!(
                "{} is left of another store, and may have its last draws: move it away, or name \
                 an empty directory",
                left.display()
            )));
        }
    }
    let key = key::file(&args.home.data, args.home.master_key.as_deref());
    let key = key::read(&key).map_err(|error| Failure::refused("NO_KEY", error.to_string()))?;
    let backup = inspect(&args.file)?;
    let kept = vec![(PARTITION, backup.head)];
    let lost = lost::find(&args.sink, &backup.store_id, kept, false).await?;
    let lost = lost.and_then(|mut lost| lost.remove(&PARTITION));
    confirm(&question(&args, &backup), args.yes)?;
    remove_unfinished(&args.home.data).map_err(|cause| unusable(&args.home.data, &cause))?;
    let work = tempfile::Builder::new()
        .prefix(UNFINISHED)
        .tempdir_in(&args.home.data)
        .map_err(|cause| unusable(&args.home.data, &cause))?;
    let made = work.path().join(DATABASE_FILE);
    copy(&args.file, &made).map_err(|cause| unusable(work.path(), &cause))?;
    let options = Options {
        directory: work.path().to_owned(),
        clock,
        request_memory: REQUEST_MEMORY,
        key_fingerprint: key.fingerprint(),
    };
    let store = SqliteStore::open_backup(options).map_err(|error| refused(&error.to_string()))?;
    let done = go_on(&store, &author, args.withdraw_due, lost.as_ref()).await;
    let (fork, withdrawn) = done.map_err(|error| refused(&error.to_string()))?;
    drop(store); // its last connection moves the log into the file
    put(&made, &args.home.data).map_err(|cause| unusable(&args.home.data, &cause))?;
    drop(lock);
    let restored = Restored {
        backup,
        fork,
        withdrawn,
        lost,
    };
    show(client, &args, &restored);
    Ok(())
}

/// Reads all of the backup.
fn inspect(file: &Path) -> Outcome<Inspected> {
    let name = file.display();
    File::open(file).map_err(|cause| refused(&format!("{name} cannot be read: {cause}")))?;
    let inspected = SqliteStore::inspect(file).map_err(|error| match error {
        OpenError::NotOurs(_) => refused(&format!(
            "{name} is not a tombola database: name a file that `tombola backup` has made"
        )),
        OpenError::Damaged { what, .. } => refused(&format!(
            "the backup {name} is damaged: {what}; restore another one"
        )),
        error => refused(&error.to_string()),
    })?;
    // The copy would lack what the log has, and a store that is in use changes while it is copied.
    let log = log_of(file);
    if fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        return Err(refused(&format!(
            "{} has a part of what {name} should have: a process has this store open, or its disk \
             cannot be written. Make the file with `tombola backup`, or copy both files to where \
             they can be written, once no process has them open",
            log.display()
        )));
    }
    Ok(inspected)
}

/// Lets the store go on under a fork, and withdraws what is due if that is wanted. `lost` is what
/// is known of the lost entries.
async fn go_on(
    store: &SqliteStore,
    author: &Author,
    withdraw: bool,
    lost: Option<&Lost>,
) -> Stored<(BegunFork, Option<Withdrawn>)> {
    let fork = store
        .begin_fork(author, lost.map_or(0, |lost| lost.last))
        .await?;
    if !withdraw {
        return Ok((fork, None));
    }
    let mut campaigns = Vec::new();
    let mut after = None;
    loop {
        let page = store.campaigns(after.as_deref(), PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.campaign.id.to_string());
        let open = page
            .iter()
            .filter(|view| view.lifecycle != Lifecycle::Closed);
        campaigns.extend(open.map(|view| view.campaign.id.clone()));
    }
    let envelopes = store.open_envelopes().await?;
    let now = store.now().await?;
    // If the clock was ahead when the last lost entry was written, more was due then than is now.
    let until = lost.and_then(|lost| lost.at).map_or(now, |at| at.max(now));
    let withdrawn = withdraw_due(store, &campaigns, &envelopes, until, author).await?;
    Ok((fork, Some(withdrawn)))
}

/// Copies the backup into a new file. Who may read and write that does not follow from the backup.
fn copy(backup: &Path, made: &Path) -> io::Result<()> {
    io::copy(&mut File::open(backup)?, &mut File::create_new(made)?)?;
    Ok(())
}

/// The directories that killed restores have left in a data directory.
pub(super) fn unfinished(data: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for left in fs::read_dir(data)? {
        let left = left?;
        if left.file_name().to_string_lossy().starts_with(UNFINISHED) {
            found.push(left.path());
        }
    }
    Ok(found)
}

/// Removes what a restore that was killed has left.
fn remove_unfinished(data: &Path) -> io::Result<()> {
    for left in unfinished(data)? {
        fs::remove_dir_all(left)?;
    }
    Ok(())
}

/// The log of a database.
fn log_of(database: &Path) -> PathBuf {
    let mut log = database.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

/// Moves the finished file to where `serve` finds it. The file must be all there is: without its
/// log, the store would lack the fork.
fn put(made: &Path, data: &Path) -> io::Result<()> {
    if log_of(made).exists() {
        return Err(io::Error::other("the log was not moved into the file"));
    }
    File::open(made)?.sync_all()?;
    fs::rename(made, data.join(DATABASE_FILE))?;
    File::open(data)?.sync_all()
}

fn question(args: &RestoreArgs, backup: &Inspected) -> String {
    let units = match args.withdraw_due {
        true => "and withdraw every unit that can be won now",
        false => "and let units that were won since be won again",
    };
    format!(
        "Restore the store {} as it was at {} into {}, {units}?",
        backup.store_id,
        backup.at,
        args.home.data.display()
    )
}

fn refused(text: &str) -> Box<Failure> {
    Failure::refused("NOT_RESTORED", text.to_owned())
}

fn unusable(path: &Path, cause: &io::Error) -> Box<Failure> {
    refused(&format!(
        "{} cannot be written: {cause}; make room, fix its permissions, or name another directory",
        path.display()
    ))
}

fn show(client: &Client, args: &RestoreArgs, restored: &Restored) {
    let Restored {
        backup,
        fork,
        withdrawn,
        lost,
    } = restored;
    if client.json {
        let shown = json!({
            "storeId": backup.store_id,
            "backupTime": backup.at.to_string(),
            "lastKept": fork.base.to_string(),
            "firstEntry": fork.first.to_string(),
            "fork": format!("{:06x}", fork.mark),
            "withdrawn": withdrawn.as_ref().map(withdrawn_json),
            "lost": lost.as_ref().map(lost::to_json),
        });
        say(&format!("{shown:#}"));
        return;
    }
    let mut lines = vec![format!(
        "the store {} is restored in {} as it was at {}: it has the entries up to {}, and goes on \
         with {} under fork {:06x}",
        backup.store_id,
        args.home.data.display(),
        backup.at,
        grouped(fork.base),
        grouped(fork.first),
        fork.mark
    )];
    if let Some(lost) = lost {
        lines.push("lost entries that were settled:".into());
        lines.push(lost::text(lost, lost.last));
    }
    lines.extend(withdrawn_table(withdrawn));
    say(&lines.join("\n"));
}
