//! The server is killed during many grabs from an envelope, and between the envelope's end and its
//! refund, again and again on the same data.
//!
//! `TOMBOLA_KILLS` sets the number of rounds. `TOMBOLA_SEED` decides when the server is killed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::{task::JoinSet, time::sleep};
use tombola::proto::{
    CreateEnvelopeRequest, Envelope, EnvelopeState, GetEnvelopeRequest, GetStatsRequest, Grab,
    GrabEnvelopeRequest, GrabEnvelopeResponse, GrabOutcome, ListGrabsRequest,
    envelope_service_client::EnvelopeServiceClient,
};
use tonic::transport::Channel;

use super::{kill::setting, redis::House};
use crate::process::{Server, Start};

pub(super) type Envelopes = EnvelopeServiceClient<Channel>;

const TOTAL: u64 = 1_000_000;
const PACKETS: u32 = 400;
/// Connections; each makes one grab after the other.
const CONNECTIONS: usize = 16;

/// A grab, and its response if there was one.
struct Attempt {
    request: GrabEnvelopeRequest,
    response: Option<GrabEnvelopeResponse>,
}

pub(super) fn clock(hours: i64) -> String {
    let begin: Timestamp = "2026-12-05T04:00:00Z".parse().unwrap();
    (begin + SignedDuration::from_hours(hours)).to_string()
}

pub(super) async fn envelopes(server: &Server) -> Envelopes {
    EnvelopeServiceClient::new(server.connect().await)
}

/// Data on which servers are started, one after the other.
pub(super) trait Data {
    fn start(&self) -> Start<'_>;
    /// Creates the store, unless the service does so itself.
    fn make(&self, _start: &Start<'_>) {}
    /// The number of refunds of an envelope in the ledger.
    fn refunds(&self, id: &str) -> u64;
}

impl Data for TempDir {
    fn start(&self) -> Start<'_> {
        Start::on(self.path())
    }

    fn refunds(&self, id: &str) -> u64 {
        let db = Connection::open(self.path().join("tombola.sqlite3")).unwrap();
        let sql = "SELECT COUNT(*) FROM ledger WHERE envelope = ?1 AND json_extract(body, \
            '$.kind') = 'refund'";
        db.query_row(sql, [id], |row| row.get(0)).unwrap()
    }
}

impl Data for House {
    fn start(&self) -> Start<'_> {
        House::start(self)
    }

    fn make(&self, start: &Start<'_>) {
        start.init().well();
    }

    fn refunds(&self, id: &str) -> u64 {
        let count = r#"
            local refunds = 0
            for _, ledger in ipairs(redis.call('KEYS', '*:ledger')) do
                for _, item in ipairs(redis.call('XRANGE', ledger, '-', '+')) do
                    local fields = item[2]
                    local is_refund = string.find(fields[8], '"kind":"refund"', 1, true)
                    if fields[1] == 'e' and fields[2] == ARGV[1] and is_refund then
                        refunds = refunds + 1
                    end
                end
            end
            return refunds"#;
        let reply = self.redis.command(&["EVAL", count, "0", id]);
        reply.parse().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn envelopes_survive_every_kill_to_the_unit() {
    survive(&tempfile::tempdir().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn envelopes_on_redis_survive_every_kill_to_the_unit() {
    survive(&House::with(&[])).await;
}

async fn survive(data: &impl Data) {
    let rounds = setting("TOMBOLA_KILLS").unwrap_or(8).cast_signed();
    let seed = setting("TOMBOLA_SEED").unwrap_or_else(rand::random);
    eprintln!("to repeat: TOMBOLA_SEED={seed} TOMBOLA_KILLS={rounds}");
    let mut rng = StdRng::seed_from_u64(seed);
    data.make(&data.start().at(clock(0)));
    let start = |hours: i64| data.start().at(clock(hours)).serve();
    for round in 0..rounds {
        let id = format!("envelope-{round}");
        // Killed during many grabs.
        let mut server = start(round * 50);
        create(&server, &id).await;
        let storm = Grabbers::start(&server, &id).await;
        storm.answered(rng.random_range(0..500)).await;
        server.kill();
        let attempts = storm.end().await;

        // After the restart, everyone who got a packet still has it.
        let mut server = start(round * 50 + 1);
        let count = attempts.len();
        settle(&server, attempts).await;
        let (envelope, grabs) = read(&server, &id).await;
        let grabbed: u64 = grabs.iter().map(|grab| grab.amount_minor).sum();
        assert_eq!((envelope.grabbed_minor, envelope.refund), (grabbed, None));
        assert_eq!(grabbed + envelope.waiting_minor, TOTAL);
        server.kill();

        // Killed before, during or after the refund.
        let mut server = start(round * 50 + 30);
        if rng.random_bool(0.5) {
            let late = grab(&mut envelopes(&server).await, &id, "late").await;
            let expected = [GrabOutcome::Expired, GrabOutcome::Empty];
            assert!(expected.contains(&late.unwrap().outcome()));
        }
        server.kill();
        let server = start(round * 50 + 31);
        let (envelope, grabs_after) = read(&server, &id).await;
        assert_eq!(grabs_after, grabs);
        let refunded = envelope.refund.map_or(0, |refund| refund.amount_minor);
        assert_eq!(grabbed + refunded, TOTAL, "to the unit");
        assert_eq!(envelope.waiting_minor, 0);
        assert_eq!(data.refunds(&id), u64::from(refunded > 0), "once");
        let request = GetStatsRequest::default();
        let stats = server.campaigns().await.get_stats(request).await.unwrap();
        assert!(stats.into_inner().balanced);
        eprintln!("round {round}: {count} attempts, {grabbed} grabbed, {refunded} refunded");
    }
}

async fn create(server: &Server, id: &str) {
    let request = CreateEnvelopeRequest {
        envelope_id: id.into(),
        sender_id: "sender".into(),
        total_minor: TOTAL.cast_signed(),
        currency: "CNY".into(),
        packets: PACKETS,
        ..CreateEnvelopeRequest::default()
    };
    envelopes(server)
        .await
        .create_envelope(request)
        .await
        .unwrap();
}

pub(super) async fn grab(
    server: &mut Envelopes,
    id: &str,
    user: &str,
) -> Result<GrabEnvelopeResponse, tonic::Status> {
    let request = GrabEnvelopeRequest {
        envelope_id: id.into(),
        user_id: user.into(),
    };
    Ok(server.grab_envelope(request).await?.into_inner())
}

/// Users who grab until the server is gone.
struct Grabbers {
    hands: JoinSet<Vec<Attempt>>,
    answered: Arc<AtomicUsize>,
}

impl Grabbers {
    async fn start(server: &Server, id: &str) -> Self {
        let answered = Arc::<AtomicUsize>::default();
        let mut hands = JoinSet::new();
        for hand in 0..CONNECTIONS {
            let mut server = envelopes(server).await;
            let (id, answered) = (id.to_owned(), answered.clone());
            hands.spawn(async move {
                let mut attempts = Vec::new();
                for n in 0.. {
                    // Every other call is sent twice at once.
                    let user = format!("u{hand}-{}", n / 2);
                    let response = grab(&mut server, &id, &user).await.ok();
                    let is_gone = response.is_none();
                    attempts.push(Attempt {
                        request: GrabEnvelopeRequest {
                            envelope_id: id.clone(),
                            user_id: user,
                        },
                        response,
                    });
                    if is_gone {
                        break;
                    }
                    answered.fetch_add(1, Ordering::SeqCst);
                }
                attempts
            });
        }
        Self { hands, answered }
    }

    /// Waits until `count` grabs were answered.
    async fn answered(&self, count: usize) {
        while self.answered.load(Ordering::SeqCst) < count {
            sleep(Duration::from_millis(1)).await;
        }
    }

    async fn end(self) -> Vec<Attempt> {
        self.hands.join_all().await.into_iter().flatten().collect()
    }
}

/// Grabs again for everyone: a user who got a packet gets the same one.
async fn settle(server: &Server, attempts: Vec<Attempt>) {
    let mut server = envelopes(server).await;
    for Attempt { request, response } in attempts {
        let again = server.grab_envelope(request.clone()).await.unwrap();
        let again = again.into_inner();
        let Some(first) = response.filter(|response| response.packet > 0) else {
            continue;
        };
        assert_eq!(again.outcome(), GrabOutcome::AlreadyGrabbed, "{request:?}");
        let packet =
            |it: &GrabEnvelopeResponse| (it.packet, it.amount_minor, it.grab_time, it.ledger_id);
        assert_eq!(packet(&again), packet(&first), "{request:?}");
    }
}

/// Reads an envelope and its grabs, page by page.
async fn read(server: &Server, id: &str) -> (Envelope, Vec<Grab>) {
    let mut server = envelopes(server).await;
    let request = GetEnvelopeRequest {
        envelope_id: id.into(),
    };
    let envelope = server.get_envelope(request).await.unwrap().into_inner();
    let envelope = envelope.envelope.unwrap();
    assert_ne!(envelope.state(), EnvelopeState::Unspecified);
    let (mut grabs, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = ListGrabsRequest {
            envelope_id: id.into(),
            page_size: 90,
            page_token,
        };
        let page = server.list_grabs(request).await.unwrap().into_inner();
        grabs.extend(page.grabs);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(grabs.len(), envelope.packets_grabbed as usize);
    (envelope, grabs)
}
