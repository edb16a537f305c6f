//! What the writer keeps in memory between batches. All of it can be read back from the database.

use std::{hash::Hash, mem};

use hashlink::LruCache;

/// The most values that [`Kept::tidy`] leaves.
const MAX: usize = 4096;

/// Values by key. A step takes one, changes it and puts it back.
pub(super) struct Kept<K, V> {
    /// Without a bound while a batch is made: none that it has changed may be dropped.
    values: LruCache<K, Value<V>>,
}

struct Value<V> {
    /// It was put since those that were put were asked for.
    is_new: bool,
    value: V,
}

impl<K: Eq + Hash, V> Default for Kept<K, V> {
    fn default() -> Self {
        Self {
            values: LruCache::new_unbounded(),
        }
    }
}

impl<K: Eq + Hash, V> Kept<K, V> {
    /// Takes a value out.
    pub(super) fn take(&mut self, key: &K) -> Option<V> {
        self.values.remove(key).map(|kept| kept.value)
    }

    /// Brings it back, or keeps a new one.
    pub(super) fn put(&mut self, key: K, value: V) {
        let is_new = true;
        self.values.insert(key, Value { is_new, value });
    }

    /// A value that is kept.
    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.values.peek(key).map(|kept| &kept.value)
    }

    /// The values that were put since this was asked last. However many others are kept, it looks
    /// at none of them. Whoever stops before the last one must clear all.
    pub(super) fn new_values(&mut self) -> impl Iterator<Item = &mut V> {
        // What was put last is at the end.
        let newest_first = self.values.iter_mut().rev();
        newest_first.map_while(|(_, kept)| mem::take(&mut kept.is_new).then_some(&mut kept.value))
    }

    /// After a commit: drops what was not used for the longest time.
    pub(super) fn tidy(&mut self) {
        while self.values.len() > MAX {
            self.values.remove_lru();
        }
    }

    /// After a rollback, unless values were asked for since the last commit: drops those that were
    /// put. The others are as they were committed.
    pub(super) fn undo(&mut self) {
        self.values.retain(|_, kept| !kept.is_new);
    }

    /// After a rollback: drops all.
    pub(super) fn clear(&mut self) {
        self.values.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_new_once_and_what_was_used_last_stays() {
        let mut kept = Kept::default();
        for key in 0..MAX + 2 {
            kept.put(key, 'a');
        }
        assert_eq!(kept.new_values().count(), MAX + 2);
        assert_eq!(kept.new_values().count(), 0);
        for key in [0, 7, 0] {
            let value = kept.take(&key);
            assert_eq!((value, kept.get(&key)), (Some('a'), None));
            kept.put(key, 'a');
        }
        kept.new_values().for_each(|value| *value = 'b');
        assert_eq!(kept.new_values().count(), 0);
        kept.tidy();
        let of_key = |key| kept.get(&key).copied();
        assert_eq!(
            [0, 1, 2, 3, 7].map(of_key),
            [Some('b'), None, None, Some('a'), Some('b')]
        );
        assert_eq!(of_key(MAX + 1), Some('a'));
        kept.clear();
        assert_eq!(kept.get(&0), None);
    }

    #[test]
    fn what_was_taken_or_put_and_is_undone_is_dropped_and_the_rest_stays() {
        let mut kept = Kept::default();
        for key in 0..3 {
            kept.put(key, 'a');
        }
        assert_eq!(kept.new_values().count(), 3);
        assert_eq!(kept.take(&0), Some('a'));
        assert_eq!(kept.take(&1), Some('a'));
        kept.put(1, 'b');
        kept.put(3, 'b');
        kept.undo();
        let of_key = |key| kept.get(&key).copied();
        assert_eq!([0, 1, 2, 3].map(of_key), [None, None, Some('a'), None]);
        assert_eq!(kept.new_values().count(), 0);
    }
}
