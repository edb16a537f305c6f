//! `WatchEntries`: a stream of entries from a cursor on.
//!
//! A task reads a few entries ahead and waits until the client takes them. So a slow client slows
//! only its own stream.

use std::{collections::HashSet, pin::Pin, sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep, timeout},
};
use tokio_stream::{Stream, wrappers::ReceiverStream};
use tonic::{Request, Response, Status};

use super::{
    Ledger, cursor,
    slots::{Slot, Slots},
    watch_access::WatchAccess,
    watched::Watched,
};
use crate::{
    grpc::{
        access::{Caller, Denial, Senders},
        request::Fields,
        status::{CallError, status},
    },
    ledger::follow::{FollowError, Heads, Positions, Source},
    model::{CampaignId, PrizeId, Problems},
    proto,
    store::{Entry, StoreError, entry::Body},
};

/// Messages that are ready before the client takes them.
const READY_MAX: usize = 16;
/// How long a client may take to read why its stream ends.
const FAREWELL_MAX: Duration = Duration::from_secs(5);
/// The pause after a look that found nothing.
const IDLE_PAUSE: Duration = Duration::from_millis(100);
/// How often a cursor is sent alone, if entries are passed over.
const CURSOR_INTERVAL: Duration = Duration::from_secs(5);

pub(super) type Watch =
    Pin<Box<dyn Stream<Item = Result<proto::WatchEntriesResponse, Status>> + Send>>;

/// What all streams share.
pub(super) struct Watches {
    slots: Slots,
    heads: Arc<Heads>,
    stopping: watch::Receiver<bool>,
    senders: Arc<Senders>,
}

impl Watches {
    pub(super) fn new(stopping: watch::Receiver<bool>, senders: Arc<Senders>) -> Self {
        Self {
            slots: Slots::default(),
            heads: Arc::default(),
            stopping,
            senders,
        }
    }
}

/// What a stream gives.
struct Filter {
    campaign: Option<CampaignId>,
    prize: Option<String>,
    kinds: HashSet<String>,
}

/// Where a stream begins.
enum Start {
    At(Positions),
    End,
}

fn parse(
    message: &proto::WatchEntriesRequest,
    store_id: &str,
) -> Result<(Filter, Start), Problems> {
    let mut fields = Fields::default();
    let mut campaign = None;
    if !message.campaign_id.is_empty() {
        campaign = fields.campaign(&message.campaign_id);
    }
    let prize = (!message.prize_id.is_empty()).then(|| message.prize_id.clone());
    if let Some(prize) = &prize {
        fields.take(PrizeId::parse("prize_id", prize));
        if message.campaign_id.is_empty() {
            fields.add("campaign_id", "is empty: name the campaign of the prize");
        }
    }
    for (index, kind) in message.kinds.iter().enumerate() {
        if !Body::KINDS.contains(&kind.as_str()) {
            fields.add(
                &format!("kinds[{index}]"),
                format!(
                    "is no kind of entry: name some of {}",
                    Body::KINDS.join(", ")
                ),
            );
        }
    }
    let start = match message.cursor.as_str() {
        "" if message.from_end => Some(Start::End),
        "" => Some(Start::At(Positions::new())),
        text => match cursor::decode(text, store_id) {
            Some(positions) => Some(Start::At(positions)),
            None => {
                fields.add(
                    "cursor",
                    "is not a cursor that this service gave for this store: begin without one",
                );
                None
            }
        },
    };
    let filter = Filter {
        campaign,
        prize,
        kinds: message.kinds.iter().cloned().collect(),
    };
    fields.finish(start.map(|start| (filter, start)))
}

impl Filter {
    /// Whether the stream gives this entry, as far as it is known without its definition.
    fn admits(&self, entry: &Entry) -> bool {
        let campaign = self.campaign.as_ref();
        let of_prize = ["draw", "delivered", "revoked"];
        let kind = entry.body.kind();
        campaign.is_none_or(|campaign| entry.subject.campaign() == Some(campaign))
            && (self.kinds.is_empty() || self.kinds.contains(kind))
            && (self.prize.is_none() || of_prize.contains(&kind))
    }
}

impl From<FollowError> for CallError {
    fn from(error: FollowError) -> Self {
        match error {
            FollowError::Sink(error) => error.into(),
            FollowError::Store(error) => error.into(),
            FollowError::Lost(_) => Self::CursorLost(error.to_string()),
        }
    }
}

impl Ledger {
    pub(super) async fn watch(
        &self,
        request: Request<proto::WatchEntriesRequest>,
    ) -> Result<Response<Watch>, Status> {
        let caller = Caller::of(&request)?;
        let access = WatchAccess::new(caller, request.get_ref(), &self.watches.senders);
        match self.begin(request.get_ref(), access).await {
            Ok(watch) => Ok(Response::new(watch)),
            Err(error) => Err(status(&error, "")),
        }
    }

    async fn begin(
        &self,
        message: &proto::WatchEntriesRequest,
        access: WatchAccess,
    ) -> Result<Watch, CallError> {
        let (filter, start) = parse(message, self.store_id())?;
        let slot = self.watches.slots.take(access.identity());
        let slot = slot.ok_or(StoreError::Overloaded)?;
        let source = Source {
            store: Arc::clone(self.desk.injector().store()),
            reader: Arc::clone(&self.settled()?.reader),
            heads: Arc::clone(&self.watches.heads),
            unsettled: message.unsettled,
        };
        let partitions = match &filter.campaign {
            Some(id) => vec![source.store.partition_of(id.as_str())],
            None => (0..source.store.info().partitions).collect(),
        };
        let begins_at_end = matches!(start, Start::End);
        let positions = match start {
            Start::End => source.end(&partitions).await?,
            Start::At(positions) => {
                source.check(&positions).await?;
                positions
            }
        };
        let (messages, receiver) = mpsc::channel(READY_MAX);
        let stream = WatchTask {
            watched: Watched::new(filter.prize.clone(), Arc::clone(&self.definitions)),
            source,
            access,
            filter,
            partitions,
            positions,
            messages,
            sent: Instant::now(),
            is_behind: begins_at_end,
            _slot: slot,
        };
        tokio::spawn(stream.run(self.watches.stopping.clone()));
        Ok(Box::pin(ReceiverStream::new(receiver)))
    }
}

/// A stream at work.
struct WatchTask {
    source: Source,
    access: WatchAccess,
    filter: Filter,
    watched: Watched,
    partitions: Vec<u32>,
    positions: Positions,
    messages: mpsc::Sender<Result<proto::WatchEntriesResponse, Status>>,
    /// When the last message was sent.
    sent: Instant,
    /// The client's cursor is behind the position, or the client has none of the end yet.
    is_behind: bool,
    _slot: Slot,
}

/// The client has gone.
struct Gone;

impl WatchTask {
    /// Gives entries until the client goes away, the server stops, or something cannot be read.
    async fn run(mut self, mut stopping: watch::Receiver<bool>) {
        let messages = self.messages.clone();
        let error = tokio::select! {
            biased;
            // An error means that the other half is gone: the server stops as well.
            _ = stopping.wait_for(|stopping| *stopping) => CallError::WatchEnded,
            () = messages.closed() => return,
            error = self.access.clone().lost() => error,
            error = self.follow() => match error {
                Ok(Gone) => return,
                Err(error) => error,
            },
        };
        // A client that does not read does not learn it.
        drop(timeout(FAREWELL_MAX, messages.send(Err(status(&error, "")))).await);
    }

    async fn follow(&mut self) -> Result<Gone, CallError> {
        // The cursor of the end comes before any entry. Without it, a client whose stream breaks
        // would begin again at a later end, and miss the entries in between.
        if self.is_behind && self.send(None).await.is_err() {
            return Ok(Gone);
        }
        loop {
            match self.access.renew().await {
                Ok(()) | Err(Denial::Unverifiable) => {}
                Err(denial) => return Err(denial.into()),
            }
            let before = self.positions.clone();
            let found = self
                .source
                .next(&self.partitions, &mut self.positions)
                .await?;
            match found.first() {
                // The others come first next time, however busy this one is.
                Some(entry) => {
                    let partition = entry.id.partition;
                    self.partitions.retain(|other| *other != partition);
                    self.partitions.push(partition);
                }
                None => sleep(IDLE_PAUSE).await,
            }
            let after = std::mem::replace(&mut self.positions, before);
            for entry in &found {
                if self.give(entry).await?.is_err() {
                    return Ok(Gone);
                }
            }
            self.positions = after;
            if self.is_behind
                && self.sent.elapsed() >= CURSOR_INTERVAL
                && self.send(None).await.is_err()
            {
                return Ok(Gone);
            }
        }
    }

    /// Moves past an entry, and gives it if it was asked for.
    async fn give(&mut self, entry: &Entry) -> Result<Result<(), Gone>, CallError> {
        let position = self.positions.entry(entry.id.partition).or_default();
        position.sequence = entry.id.sequence;
        position.fork = entry.fork;
        self.is_behind = true;
        if !self.filter.admits(entry) || !self.access.shows(entry).await? {
            return Ok(Ok(()));
        }
        match self.watched.message(&self.source, entry).await? {
            Some(entry) => Ok(self.send(Some(entry)).await),
            None => Ok(Ok(())),
        }
    }

    async fn send(&mut self, entry: Option<proto::WatchedEntry>) -> Result<(), Gone> {
        let store_id = &self.source.store.info().store_id;
        let response = proto::WatchEntriesResponse {
            entry,
            cursor: cursor::encode(&self.positions, store_id),
        };
        self.sent = Instant::now();
        self.is_behind = false;
        self.messages.send(Ok(response)).await.map_err(|_| Gone)
    }
}
