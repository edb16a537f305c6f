//! The bounds of metrics: how many series there are, and what they never say.

use std::{collections::BTreeSet, time::Duration};

use prost::Message as _;
use prost_types::FileDescriptorSet;
use tombola::proto::{
    BlockUsersRequest, FILE_DESCRIPTOR_SET, GrabEnvelopeRequest,
    envelope_service_client::EnvelopeServiceClient,
};
use tonic::transport::Channel;

use super::metrics::{Metrics, served};
use crate::{
    faults::{load, redis::request},
    support::redis_server::until,
};

const SECRET: &str = "u-secret";
const CAMPAIGNS: usize = 300;
/// How long a stream is listened to.
const LISTENED: Duration = Duration::from_millis(200);

/// The paths of all methods.
fn methods() -> Vec<String> {
    let set = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap();
    let services = set.file.iter().flat_map(|file| {
        let package = file.package();
        file.service.iter().map(move |service| (package, service))
    });
    let methods = services.flat_map(|(package, service)| {
        let methods = service.method.iter();
        methods.map(move |method| format!("/{package}.{}/{}", service.name(), method.name()))
    });
    methods.collect()
}

/// Calls a method with an empty request, whatever it answers.
async fn call(channel: &Channel, path: &str) {
    let mut grpc = tonic::client::Grpc::new(channel.clone());
    grpc.ready().await.unwrap();
    let codec = tonic_prost::ProstCodec::<(), ()>::default();
    let called = grpc.server_streaming(tonic::Request::new(()), path.parse().unwrap(), codec);
    if let Ok(answer) = called.await {
        let mut answer = answer.into_inner();
        // A stream may say nothing for long.
        drop(tokio::time::timeout(LISTENED, answer.message()).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scrape_of_many_campaigns_and_all_methods_is_bounded_and_names_no_user() {
    let data = tempfile::tempdir().unwrap();
    let server = served(&data);
    load::apply(&server).await;
    let one = "
id: many-#
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2027-01-01T00:00:00+08:00
prizes: [{id: mug, stock: 1}, {id: cup, stock: 1}]
pools: [{id: deck, deck: {size: 2, cards: {mug: 1, cup: 1}}}]
";
    let all: Vec<_> = (0..CAMPAIGNS)
        .map(|number| one.replace('#', &number.to_string()))
        .collect();
    load::apply_all(&server, &all.join("---")).await;
    let channel = server.connect().await;
    let methods = methods();
    assert!(methods.len() > 40, "{methods:?}");
    for method in &methods {
        call(&channel, method).await;
    }
    let mut lottery = server.lottery().await;
    lottery.draw(request("flow", SECRET, "r-1")).await.unwrap();
    lottery
        .draw(request("none", SECRET, "r-2"))
        .await
        .unwrap_err();
    let block = BlockUsersRequest {
        campaign_id: "flow".into(),
        user_ids: vec![SECRET.into()],
        operator: "sight".into(),
        ..Default::default()
    };
    server.campaigns().await.block_users(block).await.unwrap();
    // Who is blocked gets the consolation prize.
    lottery.draw(request("flow", SECRET, "r-3")).await.unwrap();
    let envelope = [
        "envelope",
        "create",
        "packet-1",
        "--sender",
        SECRET,
        "--total",
        "500",
        "--currency",
        "CNY",
        "--packets",
        "5",
    ];
    server.run(&envelope).well();
    let mut envelopes = EnvelopeServiceClient::new(channel);
    for envelope_id in ["packet-1", "packet-1", "none"] {
        let grab = GrabEnvelopeRequest {
            envelope_id: envelope_id.into(),
            user_id: SECRET.into(),
        };
        drop(envelopes.grab_envelope(grab).await);
    }

    // A stream that was left is counted when its connection has noticed.
    until("all methods are counted", || {
        let metrics = Metrics::of(&server);
        let labels = metrics.samples.keys().map(|(_, labels)| labels);
        let called: BTreeSet<_> = labels
            .filter_map(|labels| labels.get("rpc_method"))
            .map(|name| format!("/{name}"))
            .collect();
        methods.iter().all(|path| called.contains(path))
    });
    let metrics = Metrics::of(&server);
    assert!(metrics.samples.len() < 10_000, "{}", metrics.samples.len());
    let of_campaigns = metrics.samples.keys();
    let of_campaigns = of_campaigns.filter(|(_, labels)| labels.contains_key("campaign"));
    assert!(of_campaigns.count() < 2_100);
    let (campaign, state) = (("campaign", "_OTHER"), ("state", "left"));
    let labels = [campaign, ("prize", "_OTHER"), state];
    assert!(metrics.value("tombola_prize_units", &labels).is_some());
    for (name, labels) in metrics.samples.keys() {
        let is_histogram = name.ends_with("_bucket") || name.ends_with("_sum");
        let has_campaign = labels.contains_key("campaign");
        assert!(!(is_histogram && has_campaign), "{name}");
    }
    for secret in [SECRET, "packet-1"] {
        assert!(!metrics.text.contains(secret), "{secret}");
    }
}
