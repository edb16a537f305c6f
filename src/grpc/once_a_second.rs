//! A limiter for lines of the log.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use crate::store::clock::{Clock as _, SystemClock};

/// The most causes that are counted separately; after that counting begins again.
const CAUSES_MAX: usize = 256;

/// Lets one line a second and cause into the log: a store that is away or damaged fails every draw,
/// and the log must not be what fills the disk.
#[derive(Default)]
pub(super) struct OnceASecond {
    /// By cause, the second of the last line, and how many were left out since.
    causes: Mutex<HashMap<String, (i64, u64)>>,
}

impl OnceASecond {
    /// Whether to log now, and how many lines of this cause were left out since the last one.
    pub(super) fn pass(&self, cause: &str) -> Option<u64> {
        let now = SystemClock.now().as_seconds();
        let mut causes = self.causes.lock().unwrap_or_else(PoisonError::into_inner);
        match causes.get_mut(cause) {
            Some((last, unlogged)) if *last == now => {
                *unlogged += 1;
                None
            }
            Some(line) => Some(std::mem::replace(line, (now, 0)).1),
            None => {
                if causes.len() >= CAUSES_MAX {
                    causes.clear();
                }
                causes.insert(cause.to_owned(), (now, 0));
                Some(0)
            }
        }
    }
}
