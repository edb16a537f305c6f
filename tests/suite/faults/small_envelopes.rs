//! The server is killed while callers create small envelopes and grab them empty, again and again
//! on the same data.
//!
//! `TOMBOLA_KILLS` sets the number of rounds. `TOMBOLA_SEED` decides when the server is killed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tokio::{task::JoinSet, time::sleep};
use tombola::proto::{CreateEnvelopeResponse, EnvelopeState, GetStatsRequest};

use super::{
    envelopes::{Data, Envelopes, clock, envelopes, grab},
    kill::setting,
    redis::House,
};
use crate::{process::Server, support::envelope};

const TOTAL: i64 = 1_000;
const PACKETS: u32 = 4;
/// Connections; each creates and empties one envelope after the other.
const CONNECTIONS: usize = 16;

#[tokio::test(flavor = "multi_thread")]
async fn small_envelopes_survive_every_kill() {
    survive(&tempfile::tempdir().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn small_envelopes_on_redis_survive_every_kill() {
    survive(&House::with(&[])).await;
}

async fn survive(data: &impl Data) {
    let rounds = setting("TOMBOLA_KILLS").unwrap_or(8).cast_signed();
    let seed = setting("TOMBOLA_SEED").unwrap_or_else(rand::random);
    eprintln!("to repeat: TOMBOLA_SEED={seed} TOMBOLA_KILLS={rounds}");
    let mut rng = StdRng::seed_from_u64(seed);
    data.make(&data.start().at(clock(0)));
    for round in 0..rounds {
        let mut server = data.start().at(clock(0)).serve();
        let answered = Arc::<AtomicUsize>::default();
        let mut hands = JoinSet::new();
        for hand in 0..CONNECTIONS {
            let server = envelopes(&server).await;
            hands.spawn(send(server, format!("{round}-{hand}"), answered.clone()));
        }
        let count = rng.random_range(0..100);
        while answered.load(Ordering::SeqCst) < count {
            sleep(Duration::from_millis(1)).await;
        }
        server.kill();
        let sent: Vec<_> = hands.join_all().await.into_iter().flatten().collect();

        let server = data.start().at(clock(0)).serve();
        for sent in &sent {
            check(&server, sent).await;
        }
        let stats = server.campaigns().await;
        let stats = { stats }.get_stats(GetStatsRequest::default()).await;
        assert!(stats.unwrap().into_inner().balanced);
        eprintln!("round {round}: {} envelopes", sent.len());
    }
}

/// An envelope that was asked for.
struct Sent {
    id: String,
    /// The response, if there was one.
    created: Option<CreateEnvelopeResponse>,
    /// The amounts of packets that users were told of.
    grabbed: Vec<u64>,
}

/// Creates envelopes and grabs each until it is empty or the server is gone.
async fn send(mut server: Envelopes, prefix: String, answered: Arc<AtomicUsize>) -> Vec<Sent> {
    let mut all = Vec::new();
    for n in 0.. {
        let id = format!("{prefix}-{n}");
        let created = server.create_envelope(envelope(&id, TOTAL, PACKETS)).await;
        let mut sent = Sent {
            created: created.ok().map(tonic::Response::into_inner),
            grabbed: Vec::new(),
            id,
        };
        let is_created = sent.created.is_some();
        for user in 0..PACKETS {
            match grab(&mut server, &sent.id, &format!("u{user}")).await {
                Ok(got) if is_created => sent.grabbed.push(got.amount_minor),
                _ => break,
            }
        }
        let is_gone = sent.grabbed.len() < PACKETS as usize;
        all.push(sent);
        if is_gone {
            break;
        }
        answered.fetch_add(1, Ordering::SeqCst);
    }
    all
}

/// What was acknowledged is still so; the rest can be done again, and adds up to the unit.
async fn check(server: &Server, sent: &Sent) {
    let mut server = envelopes(server).await;
    let again = server.create_envelope(envelope(&sent.id, TOTAL, PACKETS));
    let again = again.await.unwrap().into_inner();
    if let Some(created) = &sent.created {
        assert!(again.replayed, "{}", sent.id);
        let (first, again) = (created.envelope.as_ref(), again.envelope.as_ref());
        let (first, again) = (first.unwrap(), again.unwrap());
        assert_eq!(first.seed_commitment, again.seed_commitment, "{}", sent.id);
        assert_eq!(first.create_time, again.create_time, "{}", sent.id);
    }
    let mut sum = 0;
    for user in 0..PACKETS {
        let got = grab(&mut server, &sent.id, &format!("u{user}"))
            .await
            .unwrap();
        if let Some(first) = sent.grabbed.get(user as usize) {
            assert_eq!(got.amount_minor, *first, "{}: u{user}", sent.id);
        }
        sum += got.amount_minor;
    }
    assert_eq!(sum, TOTAL.unsigned_abs(), "{}", sent.id);
    let retry = server.create_envelope(envelope(&sent.id, TOTAL, PACKETS));
    let retry = retry.await.unwrap().into_inner().envelope.unwrap();
    assert_eq!(retry.state(), EnvelopeState::Empty, "{}", sent.id);
}
