//! A store whose memory is bounded and whose ledger nobody settles: the log says how long the
//! memory will last.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;
use tracing::warn;

use crate::store::{Durability, Memory, Store};

/// After the first warning, when the rate is known.
const FIRST_PAUSE: Duration = Duration::from_secs(120);
/// How often the log repeats it.
const PAUSE: Duration = Duration::from_secs(3600);

/// Warns for as long as nothing settles the ledger of a store on Redis.
pub async fn watch(store: Arc<dyn Store>) {
    let is_bounded = match store.info().durability {
        Durability::Fast | Durability::Local | Durability::Strict => true,
        Durability::Embedded | Durability::Volatile => false,
    };
    if !is_bounded {
        return;
    }
    let mut pause = FIRST_PAUSE;
    loop {
        if !has_sink(&*store).await {
            warn!(
                "nothing settles the ledger, so it grows until the memory of Redis is full: name \
                 a database with --postgres-url, or run `tombola settle`{}",
                outlook(store.memory())
            );
        }
        sleep(pause).await;
        pause = PAUSE;
    }
}

/// Whether anything was ever settled; true also while the store cannot say it.
async fn has_sink(store: &dyn Store) -> bool {
    for partition in 0..store.info().partitions {
        match store.backlog(partition).await {
            Ok(backlog) if !backlog.has_sink => {}
            Ok(_) | Err(_) => return true,
        }
    }
    false
}

fn outlook(memory: Option<Memory>) -> String {
    let lasts = memory.and_then(|memory| memory.lasts);
    lasts.map_or_else(String::new, |lasts| {
        format!(
            "; at the present rate the memory lasts for another {} hours",
            lasts.as_secs() / 3600
        )
    })
}
