//! Values that are kept in memory while there is room.

use std::{
    borrow::Borrow,
    fmt,
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
};

use hashlink::LruCache;

/// At most `MAX` values by key, which threads share. When there are more, the one that was not used
/// for the longest time is dropped. Whoever does not find a value reads it again.
pub(crate) struct Cache<K, V, const MAX: usize>(Mutex<LruCache<K, V>>);

impl<K: Eq + Hash, V, const MAX: usize> Default for Cache<K, V, MAX> {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(MAX)))
    }
}

impl<K: Eq + Hash, V: Clone, const MAX: usize> Cache<K, V, MAX> {
    /// The value of a key, if it is kept.
    pub(crate) fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.lock().get(key).cloned()
    }

    /// Keeps a value instead of an earlier one of the same key.
    pub(crate) fn put(&self, key: K, value: V) {
        self.lock().insert(key, value);
    }

    /// Drops the value of a key, so that it is read again.
    pub(crate) fn forget<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.lock().remove(key);
    }

    /// Drops all values.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<K, V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K, V, const MAX: usize> fmt::Debug for Cache<K, V, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_longest_makes_room() {
        let kept = Cache::<String, u32, 2>::default();
        kept.put("one".to_owned(), 1);
        kept.put("two".to_owned(), 2);
        assert_eq!(kept.get("one"), Some(1));
        kept.put("three".to_owned(), 3);
        let found = ["one", "two", "three"].map(|key| kept.get(key));
        assert_eq!(found, [Some(1), None, Some(3)]);
    }

    #[test]
    fn a_value_is_replaced_or_forgotten() {
        let kept = Cache::<String, u32, 2>::default();
        kept.put("one".to_owned(), 1);
        kept.put("one".to_owned(), 5);
        assert_eq!(kept.get("one"), Some(5));
        kept.forget("one");
        assert_eq!(kept.get("one"), None);
        kept.put("two".to_owned(), 2);
        kept.clear();
        assert_eq!(kept.get("two"), None);
    }
}
