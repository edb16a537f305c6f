//! Reads the settings that a store's level stands on, again and again while the store lives.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time::sleep;

use super::{core::Core, link::checks::recheck};

/// How often the settings are read.
const INTERVAL: Duration = Duration::from_secs(2);
/// The replicas are looked at in every second reading.
const REPLICAS_EACH: u32 = 2;

/// Reads the settings again and again, for as long as the store lives.
pub(super) async fn watch_settings(core: Weak<Core>) {
    let mut readings = 0;
    loop {
        sleep(INTERVAL).await;
        let Some(core) = core.upgrade() else {
            return;
        };
        readings += 1;
        let with_replicas = readings % REPLICAS_EACH == 0;
        look_again(&core, with_replicas).await;
    }
}

async fn look_again(core: &Arc<Core>, with_replicas: bool) {
    let level = &core.level;
    // Without an answer nothing can be said; calls find out for themselves.
    if let Ok(findings) = recheck(&core.connections, level.promised(), with_replicas).await {
        level.note(findings, with_replicas);
    }
}
