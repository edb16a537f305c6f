//! Redis is rolled back while a service runs: what the service notices, and how an operator lets it
//! go on.

use tombola::{
    proto::{
        CancelEnvelopeRequest, CreateEnvelopeRequest, GetDrawRequest, GrabEnvelopeRequest,
        GrabOutcome, GrantBonusRequest, PauseCampaignRequest,
        envelope_service_client::EnvelopeServiceClient,
    },
    store::{Entry, entry::Body},
};
use tonic::{Code, Status};
use tonic_health::pb::health_check_response::ServingStatus::{NotServing, Serving};

use super::{PARTITIONS, assert_not_executed, draws, request, whole, witness::Witness};
use crate::{
    process::{Server, Start},
    support::{network::Link, program::Program, redis_server::until, replicated::Replicated},
};

/// A primary with one replica, and a service that reaches the primary through a proxy.
struct Pair {
    nodes: Replicated,
    witness: Witness,
}

impl Pair {
    async fn new() -> Self {
        let nodes = Replicated::start(Program::System, 1);
        let mut witness = Witness::start(&nodes.url()).await;
        witness.draw("before", 20).await;
        nodes.wait_until_followed(0);
        Self { nodes, witness }
    }

    /// The primary dies, and its replica takes over with what it has.
    fn fail_over(&mut self) {
        self.nodes.nodes[0].server.kill();
        let replica = self.nodes.nodes[1].server.port();
        let promoted = self.nodes.nodes[1]
            .server
            .command(&["REPLICAOF", "NO", "ONE"]);
        assert_eq!(promoted, "OK");
        self.nodes.nodes[0].proxy.lead_to(replica);
        self.nodes.nodes[0].proxy.reset();
    }

    /// The replica receives nothing more while the service goes on; then it takes over.
    async fn fail_over_with_loss(&mut self) {
        self.nodes.link_replicas(0, Link::Cut);
        self.witness.draw("lost", 20).await;
        self.fail_over();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_that_loses_nothing_is_a_fork_and_no_halt() {
    let mut pair = Pair::new().await;
    pair.fail_over();
    let forked = |entries: &[Entry]| {
        let forks = entries
            .iter()
            .filter(|e| matches!(e.body, Body::Forked { .. }));
        forks.count()
    };
    // A connection that breaks at that moment leaves the outcome of its draw open, so the draw is
    // repeated.
    while pair
        .witness
        .lottery
        .draw(request("wheel", "after", "after"))
        .await
        .is_err()
    {}
    pair.witness.draw("after", 150).await;
    assert_eq!(forked(&pair.witness.ledger().await), PARTITIONS as usize);
    pair.witness.assert_numbers_differ();
    assert_eq!(pair.witness.doubled(), [""; 0]);
    pair.witness.audit().await;
    let shown = pair.witness.recover("");
    assert!(shown.stdout.contains("no partition is halted"), "{shown:?}");
}

/// Services learn of a fork one after another. What a caller asks of one, another may have written
/// under a fork that the first does not know yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_draw_of_another_service_just_after_a_failover_is_no_loss() {
    let mut pair = Pair::new().await;
    let another = Start::on_redis(pair.witness.data.path(), &pair.nodes.url()).serve();
    let mut lottery = another.lottery().await;
    draws(&mut lottery, "wheel", "other", "other").await;
    pair.fail_over();
    while lottery
        .draw(request("wheel", "after", "after"))
        .await
        .is_err()
    {}
    let names = GetDrawRequest {
        campaign_id: "wheel".into(),
        user_id: "after".into(),
        request_id: "after".into(),
    };
    // Connections of the witness that broke meanwhile say so once.
    while pair.witness.lottery.get_draw(names.clone()).await.is_err() {}
    pair.witness.draw("after", 20).await;
    whole(&pair.witness.server, Serving).await;
    assert!(pair.witness.loss().is_none());
    pair.witness.audit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_that_loses_acknowledged_draws_halts_their_partition() {
    let mut pair = Pair::new().await;
    pair.fail_over_with_loss().await;
    pair.witness.is_halted().await;
    let loss = pair.witness.loss().unwrap();
    assert!(loss.last_acknowledged >= loss.last_kept + 20, "{loss:?}");
    // A restarted service is no witness, but the halt stays.
    let another = Start::on_redis(pair.witness.data.path(), &pair.nodes.url()).serve();
    let mut lottery = another.lottery().await;
    let refused = lottery.draw(request("wheel", "late", "late")).await;
    assert_not_executed(&refused.unwrap_err(), Code::Unavailable);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_could_be_won_is_withdrawn_so_that_none_is_won_twice() {
    let mut pair = Pair::new().await;
    pair.fail_over_with_loss().await;
    pair.witness.is_halted().await;
    let recovered = pair
        .witness
        .recover("--withdraw-due --yes --operator ops --reason failover");
    assert_eq!(recovered.code, Some(0), "{recovered:?}");
    assert!(recovered.stdout.contains("wheel"), "{recovered:?}");
    whole(&pair.witness.server, Serving).await;
    pair.witness.draw("after", 150).await;
    pair.witness.assert_numbers_differ();
    assert_eq!(pair.witness.doubled(), [""; 0], "P1");
    let entries = pair.witness.ledger().await;
    let recovered = entries
        .iter()
        .filter(|e| matches!(e.body, Body::Recovered { .. }));
    assert_eq!(recovered.count(), 1);
    pair.witness.audit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loss_that_is_accepted_doubles_units_and_no_number() {
    let mut pair = Pair::new().await;
    pair.fail_over_with_loss().await;
    pair.witness.is_halted().await;
    let recovered = pair.witness.recover("--accept --yes");
    assert_eq!(recovered.code, Some(0), "{recovered:?}");
    whole(&pair.witness.server, Serving).await;
    pair.witness.draw("after", 100).await;
    pair.witness.assert_numbers_differ();
    assert_ne!(
        pair.witness.doubled(),
        [""; 0],
        "the deck's next cards are those of the lost draws"
    );
    pair.witness.audit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_halted_partition_goes_on_by_itself_once_its_data_are_restored() {
    let mut pair = Pair::new().await;
    pair.fail_over_with_loss().await;
    pair.witness.is_halted().await;
    // The old primary comes back with all its data.
    pair.nodes.nodes[0].server.restart();
    let port = pair.nodes.nodes[0].server.port();
    pair.nodes.nodes[0].proxy.lead_to(port);
    pair.nodes.nodes[0].proxy.reset();
    until("the service reaches it", || {
        pair.witness.recover("").stdout.contains("no partition")
    });
    whole(&pair.witness.server, Serving).await;
    for number in 0..20 {
        let id = format!("lost-{number}");
        let again = draws(&mut pair.witness.lottery, "wheel", &id, &id).await;
        assert!(again.replayed, "P3: {id}");
    }
    pair.witness.draw("after", 20).await;
    pair.witness.assert_numbers_differ();
    assert_eq!(pair.witness.doubled(), [""; 0]);
    pair.witness.audit().await;
}

/// A call whose answer may come from what another service has written.
#[derive(Clone, Copy, Debug)]
enum Call {
    Draw,
    GetDraw,
    GrantBonus,
    CreateEnvelope,
    CancelEnvelope,
    GrabEnvelope,
    PauseCampaign,
}

impl Call {
    /// Makes it; whether its answer was there before.
    async fn make(self, server: &Server) -> Result<bool, Status> {
        let mut lottery = server.lottery().await;
        let (user_id, request_id) = ("user".to_owned(), "request".to_owned());
        match self {
            Self::Draw => {
                let drawn = lottery
                    .draw(request("wheel", &user_id, &request_id))
                    .await?;
                Ok(drawn.into_inner().replayed)
            }
            Self::GetDraw => {
                let asked = GetDrawRequest {
                    campaign_id: "wheel".into(),
                    user_id,
                    request_id,
                };
                lottery.get_draw(asked).await?;
                Ok(true)
            }
            Self::GrantBonus => {
                let grant = GrantBonusRequest {
                    campaign_id: "wheel".into(),
                    user_id,
                    request_id,
                    draws: 1,
                    expire_time: None,
                };
                let granted = lottery.grant_bonus(grant).await?;
                Ok(granted.into_inner().replayed)
            }
            Self::CreateEnvelope => {
                let mut envelopes = EnvelopeServiceClient::new(server.connect().await);
                let created = envelopes.create_envelope(envelope("new")).await?;
                Ok(created.into_inner().replayed)
            }
            Self::CancelEnvelope => {
                let cancel = CancelEnvelopeRequest {
                    envelope_id: "envelope".into(),
                    operator: "ops".into(),
                    ..CancelEnvelopeRequest::default()
                };
                let mut envelopes = EnvelopeServiceClient::new(server.connect().await);
                let cancelled = envelopes.cancel_envelope(cancel).await?;
                Ok(cancelled.into_inner().replayed)
            }
            Self::GrabEnvelope => {
                let grab = GrabEnvelopeRequest {
                    envelope_id: "envelope".into(),
                    user_id,
                };
                let mut envelopes = EnvelopeServiceClient::new(server.connect().await);
                let grabbed = envelopes.grab_envelope(grab).await?;
                Ok(grabbed.into_inner().outcome() == GrabOutcome::AlreadyGrabbed)
            }
            Self::PauseCampaign => {
                let pause = PauseCampaignRequest {
                    campaign_id: "wheel".into(),
                    request_id,
                    operator: "ops".into(),
                    reason: String::new(),
                };
                let paused = server.campaigns().await.pause_campaign(pause).await?;
                Ok(paused.into_inner().replayed)
            }
        }
    }
}

fn envelope(id: &str) -> CreateEnvelopeRequest {
    CreateEnvelopeRequest {
        envelope_id: id.into(),
        sender_id: "sender".into(),
        currency: "CNY".into(),
        total_minor: 1000,
        packets: 10,
        ..CreateEnvelopeRequest::default()
    }
}

/// One service writes, and another one repeats the answer to a caller before the entry is lost.
async fn what_was_only_repeated_is_a_loss(written: Call, repeated: Call) {
    let mut pair = Pair::new().await;
    let witness = &pair.witness;
    let mut envelopes = EnvelopeServiceClient::new(witness.server.connect().await);
    let created = envelopes.create_envelope(envelope("envelope")).await;
    created.unwrap();
    pair.nodes.wait_until_followed(0);
    pair.nodes.link_replicas(0, Link::Cut);
    let another = Start::on_redis(witness.data.path(), &pair.nodes.url()).serve();
    assert!(!written.make(&another).await.unwrap());
    drop(another);
    assert!(repeated.make(&pair.witness.server).await.unwrap());
    pair.fail_over();
    whole(&pair.witness.server, NotServing).await;
    let refused = repeated.make(&pair.witness.server).await.unwrap_err();
    assert_not_executed(&refused, Code::Unavailable);
    assert!(refused.message().contains("is halted"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draw_that_was_only_repeated_is_a_loss() {
    what_was_only_repeated_is_a_loss(Call::Draw, Call::Draw).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draw_that_was_only_read_is_a_loss() {
    what_was_only_repeated_is_a_loss(Call::Draw, Call::GetDraw).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_was_only_repeated_is_a_loss() {
    what_was_only_repeated_is_a_loss(Call::GrantBonus, Call::GrantBonus).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grab_that_was_only_repeated_is_a_loss() {
    what_was_only_repeated_is_a_loss(Call::GrabEnvelope, Call::GrabEnvelope).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envelope_whose_creation_was_only_repeated_is_a_loss() {
    what_was_only_repeated_is_a_loss(Call::CreateEnvelope, Call::CreateEnvelope).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancellation_that_was_only_repeated_is_a_loss() {
    what_was_only_repeated_is_a_loss(Call::CancelEnvelope, Call::CancelEnvelope).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_that_was_only_repeated_is_a_loss() {
    what_was_only_repeated_is_a_loss(Call::PauseCampaign, Call::PauseCampaign).await;
}
