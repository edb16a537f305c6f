//! Checks regularly that Redis has the settings that the durability level needs.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use tokio::time::sleep;

use super::{core::Core, link::checks::recheck};

/// How often the settings are read.
const INTERVAL: Duration = Duration::from_secs(2);
/// The replicas are checked in every second reading.
const REPLICAS_EACH: u32 = 2;

/// Reads the settings regularly until the store is dropped.
pub(super) async fn watch_settings(core: Weak<Core>) {
    let mut readings = 0;
    loop {
        sleep(INTERVAL).await;
        let Some(core) = core.upgrade() else {
            return;
        };
        readings += 1;
        let with_replicas = readings % REPLICAS_EACH == 0;
        check_again(&core, with_replicas).await;
    }
}

async fn check_again(core: &Arc<Core>, with_replicas: bool) {
    let level = &core.level;
    // Without an answer nothing is known of the settings; calls meet the fault themselves.
    if let Ok(findings) = recheck(&core.connections, level.promised(), with_replicas).await {
        if let Some(memory) = findings.memory {
            core.memory.add(Instant::now(), memory);
        }
        level.note(findings, with_replicas);
    }
}
