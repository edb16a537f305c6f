//! The streams that may be open at once: in all, and of one identity. The last ones are for
//! identities that have none, so that a few identities cannot keep all others out.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::model::OperatorId;

/// The most streams at once.
const STREAMS_MAX: usize = 64;
/// Of these, the most of one identity.
const IDENTITY_STREAMS_MAX: usize = STREAMS_MAX / 2;
/// Of these, those that only an identity without a stream gets.
const FIRST_STREAMS: usize = STREAMS_MAX / 4;

/// Who has how many streams.
#[derive(Default)]
struct Taken {
    all: usize,
    by_identity: HashMap<OperatorId, usize>,
}

/// The slots of all streams.
#[derive(Clone, Default)]
pub(super) struct Slots(Arc<Mutex<Taken>>);

impl Slots {
    /// A slot for a stream of an identity, if the server knows identities; none if too many are
    /// open.
    pub(super) fn take(&self, identity: Option<&OperatorId>) -> Option<Slot> {
        let mut taken = self.taken();
        let of_identity = |identity| taken.by_identity.get(identity).copied().unwrap_or(0);
        let own = identity.map_or(0, of_identity);
        let all_max = if own == 0 {
            STREAMS_MAX
        } else {
            STREAMS_MAX - FIRST_STREAMS
        };
        if taken.all >= all_max || own >= IDENTITY_STREAMS_MAX {
            return None;
        }
        taken.all += 1;
        if let Some(identity) = identity {
            taken.by_identity.insert(identity.clone(), own + 1);
        }
        Some(Slot {
            slots: self.clone(),
            identity: identity.cloned(),
        })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A slot, which is free again when this is dropped.
pub(super) struct Slot {
    slots: Slots,
    identity: Option<OperatorId>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken();
        taken.all -= 1;
        let Some(identity) = &self.identity else {
            return;
        };
        match taken.by_identity.get_mut(identity) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                taken.by_identity.remove(identity);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn identities_that_take_many_streams_leave_some_for_those_without() {
        let slots = Slots::default();
        let name = |name: &str| OperatorId::parse("identity", name).unwrap();
        let (greedy, other) = (name("greedy"), name("other"));
        let take = |who| std::iter::from_fn(|| slots.take(who)).collect::<Vec<_>>();
        let mut of_greedy = take(Some(&greedy));
        assert_eq!(of_greedy.len(), IDENTITY_STREAMS_MAX);
        let of_other = take(Some(&other));
        let taken = of_greedy.len() + of_other.len();
        assert_eq!(taken, STREAMS_MAX - FIRST_STREAMS);
        let mut of_new = Vec::new();
        for number in 0..FIRST_STREAMS {
            let new = name(&format!("new-{number}"));
            of_new.extend(slots.take(Some(&new)));
            assert!(slots.take(Some(&new)).is_none());
        }
        assert_eq!(of_new.len(), FIRST_STREAMS);
        assert!(slots.take(Some(&name("late"))).is_none());
        drop(of_new);
        of_greedy.pop();
        assert!(slots.take(Some(&greedy)).is_some());
        drop((of_greedy, of_other));
        assert_eq!(slots.taken().all, 0);
        assert!(slots.taken().by_identity.is_empty());
    }

    #[test]
    fn the_page_of_limits_has_the_numbers_of_streams() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/limits.md");
        let page = fs::read_to_string(page).unwrap();
        let row = format!(
            "| streams of `WatchEntries` at once | {STREAMS_MAX}, at most {IDENTITY_STREAMS_MAX} \
             of them for one identity, the last {FIRST_STREAMS} for identities that have none;"
        );
        assert!(page.contains(&row), "docs/limits.md has no {row:?}");
    }

    #[test]
    fn without_identities_all_streams_are_anybodys() {
        let slots = Slots::default();
        let all: Vec<_> = std::iter::from_fn(|| slots.take(None)).collect();
        assert_eq!(all.len(), STREAMS_MAX);
    }
}
