//! A core for the load and another for the service. Processes and threads inherit the cores of the
//! thread that starts them.

use std::fs;

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

/// The cores that are used.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(super) struct Cores {
    pub(super) load: usize,
    pub(super) service: usize,
}

impl Cores {
    /// Two cores on which this process may run, if it may use as many.
    pub(super) fn find() -> Option<Self> {
        let allowed = sched_getaffinity(None).ok()?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
        Some(Self {
            load: cores.next()?,
            service: cores.next()?,
        })
    }
}

/// Lets all threads of this process, and what they start from now on, run on one core only.
pub(super) fn stay_on(core: usize) {
    let mut only = CpuSet::new();
    only.set(core);
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten();
    for thread in threads.flatten() {
        let name = thread.file_name();
        let number = name.to_str().and_then(|name| name.parse().ok());
        if let Some(thread) = number.and_then(Pid::from_raw) {
            // A thread that has ended meanwhile needs no core.
            sched_setaffinity(Some(thread), &only).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_and_the_service_get_different_cores() {
        if let Some(cores) = Cores::find() {
            assert_ne!(cores.load, cores.service);
        }
    }
}
