//! `AdminService`: a backup of the embedded store as a stream.

use std::{io, pin::Pin, sync::Arc, time::Duration};

use sha2::{Digest as _, Sha256};
use tokio::{
    fs::File,
    io::AsyncReadExt as _,
    sync::{Mutex, mpsc, watch},
    time::{sleep, timeout},
};
use tokio_stream::{Stream, wrappers::ReceiverStream};
use tonic::{Request, Response, Status};
use tracing::info;

use super::{
    access::{
        Caller, Denial, Rpc,
        table::{Scope, permission},
    },
    desk::{Desk, Reply},
    status::{CallError, status},
};
use crate::{
    model::convert::moment_to_proto,
    proto::{self, admin_service_server::AdminService, backup_response::Part},
    store::{Backup, Executed, StoreError},
    trace,
};

/// Bytes of the file in a message.
const CHUNK_BYTES: usize = 64 * 1024;
/// Messages that are ready before the client takes them.
const READY_MAX: usize = 4;
/// How long a client may take for the next message: the file takes up room meanwhile.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often the caller's rights are looked at: the stream may last for hours.
const LOOK_PAUSE: Duration = Duration::from_millis(500);

/// The service.
pub(super) struct Admin {
    desk: Arc<Desk>,
    /// Locked while a backup is made and sent.
    turn: Arc<Mutex<()>>,
    stopping: watch::Receiver<bool>,
}

type Parts = Pin<Box<dyn Stream<Item = Result<proto::BackupResponse, Status>> + Send>>;
type Sender = mpsc::Sender<Result<proto::BackupResponse, Status>>;

impl Admin {
    pub(super) fn new(desk: Arc<Desk>, stopping: watch::Receiver<bool>) -> Self {
        Self {
            desk,
            turn: Arc::default(),
            stopping,
        }
    }
}

#[tonic::async_trait]
impl AdminService for Admin {
    type BackupStream = Parts;

    async fn backup(&self, request: Request<proto::BackupRequest>) -> Reply<Parts> {
        let caller = Caller::of(&request)?;
        let (sender, receiver) = mpsc::channel(READY_MAX);
        let (desk, turn) = (Arc::clone(&self.desk), Arc::clone(&self.turn));
        let mut stopping = self.stopping.clone();
        // A backup may take minutes until its first byte, so the stream begins before it.
        tokio::spawn(trace::inherit(async move {
            let (work, lost) = (run(&desk, &turn, &sender), lost(caller));
            let sent = until_gone(work, lost, &sender, &mut stopping).await;
            if let Err(error) = sent {
                give(&sender, Err(status(&error, ""))).await;
            }
        }));
        let parts: Parts = Box::pin(ReceiverStream::new(receiver));
        Ok(Response::new(parts))
    }
}

/// Works until the client goes away or loses its rights, or the server stops: then the copy ends,
/// and others have their turn.
async fn until_gone(
    work: impl Future<Output = Result<(), CallError>>,
    lost: impl Future<Output = Denial>,
    sender: &Sender,
    stopping: &mut watch::Receiver<bool>,
) -> Result<(), CallError> {
    tokio::select! {
        done = work => done,
        () = sender.closed() => Ok(()),
        denial = lost => Err(denial.into()),
        _ = stopping.wait_for(|is_stopping| *is_stopping) => Err(CallError::WatchEnded),
    }
}

/// Waits until the caller may have no backup any more, and says why: a token may end, a binding may
/// be taken away.
async fn lost(caller: Caller) -> Denial {
    loop {
        sleep(LOOK_PAUSE).await;
        let may = caller.again().await;
        let may = may.and_then(|it| it.may(permission(Rpc::Backup), Scope::Store, None));
        match may {
            // The keys of the issuer may be there again soon.
            Ok(()) | Err(Denial::Unverifiable) => {}
            Err(denial) => return denial,
        }
    }
}

/// Makes a backup and sends it, once no other one is under way.
async fn run(desk: &Desk, turn: &Mutex<()>, sender: &Sender) -> Result<(), CallError> {
    let _turn = turn.lock().await;
    let Some(backup) = desk.store().backup().await? else {
        let text = "this store is not embedded: back up Redis by its own means, as \
                    docs/operations.md says";
        return Err(CallError::Unimplemented(text.into()));
    };
    info!(
        bytes = backup.bytes,
        entry = backup.head,
        "a backup is made: it has {} bytes and the entries up to {}",
        backup.bytes,
        backup.head
    );
    let store_id = desk.store().info().store_id.clone();
    send(sender, store_id, &backup).await
}

/// Sends a backup; a client that goes away or takes too long ends it.
async fn send(sender: &Sender, store_id: String, backup: &Backup) -> Result<(), CallError> {
    let header = proto::BackupHeader {
        store_id,
        size_bytes: backup.bytes,
        last_entry: backup.head,
        last_entry_time: (backup.head > 0).then(|| moment_to_proto(backup.at)),
    };
    if !give(sender, Ok(part(Part::Header(header)))).await {
        return Ok(());
    }
    let mut file = File::open(backup.path()).await.map_err(unreadable)?;
    let mut digest = Sha256::new();
    loop {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        let mut rest = (&mut file).take(CHUNK_BYTES as u64);
        rest.read_to_end(&mut chunk).await.map_err(unreadable)?;
        if chunk.is_empty() {
            break;
        }
        digest.update(&chunk);
        if !give(sender, Ok(part(Part::Chunk(chunk)))).await {
            return Ok(());
        }
    }
    let trailer = proto::BackupTrailer {
        sha256: digest.finalize().to_vec(),
    };
    give(sender, Ok(part(Part::Trailer(trailer)))).await;
    Ok(())
}

fn part(part: Part) -> proto::BackupResponse {
    proto::BackupResponse { part: Some(part) }
}

/// Whether the client took a message in time.
async fn give(sender: &Sender, message: Result<proto::BackupResponse, Status>) -> bool {
    matches!(timeout(PATIENCE, sender.send(message)).await, Ok(Ok(())))
}

fn unreadable(error: io::Error) -> CallError {
    let detail = format!("the file of a backup cannot be read: {error}");
    StoreError::Unavailable {
        executed: Executed::No,
        detail,
    }
    .into()
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test]
    async fn a_backup_ends_when_its_client_goes_away_or_the_server_stops() {
        let (stop, mut stopping) = watch::channel(false);
        let (sender, receiver) = mpsc::channel(READY_MAX);
        let gone = async { drop(receiver) };
        let ended = until_gone(pending(), pending(), &sender, &mut stopping);
        let (ended, ()) = tokio::join!(ended, gone);
        assert!(ended.is_ok());
        let (sender, _receiver) = mpsc::channel(READY_MAX);
        let denied = async { Denial::Expired };
        let ended = until_gone(pending(), denied, &sender, &mut stopping).await;
        assert_eq!(ended, Err(CallError::Denied(Denial::Expired)));
        stop.send(true).unwrap();
        let ended = until_gone(pending(), pending(), &sender, &mut stopping).await;
        assert!(matches!(ended, Err(CallError::WatchEnded)), "{ended:?}");
    }
}
