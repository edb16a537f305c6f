//! Requests of those who try to get in.

use tombola::proto::GetCampaignRequest;
use tonic::{Code, Request, Status, metadata::MetadataValue};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest,
};

use super::{Gate, is_denied, is_unknown};

const POLICY: &str = r#"
roles: {reader: [read], admin: [admin]}
identities:
  - {name: audit, tokens: [{sha256: <good>}]}
  - {name: root, tokens: [{sha256: <root>}]}
bindings:
  - {identity: audit, role: reader, campaigns: ["spring-*", "CAFÉ"], senders: ["*"]}
  - {identity: root, role: admin, campaigns: ["*"], senders: ["*"]}
"#;

/// Asks for a campaign with these values of the header `authorization`.
async fn get(gate: &Gate, campaign: &str, values: &[&[u8]]) -> Result<(), Status> {
    let channel = gate.server.connect().await;
    let mut client = tombola::proto::campaign_service_client::CampaignServiceClient::new(channel);
    let mut request = Request::new(GetCampaignRequest {
        campaign_id: campaign.into(),
        version: 0,
    });
    for value in values {
        let value = MetadataValue::try_from(*value).unwrap();
        request.metadata_mut().append("authorization", value);
    }
    client.get_campaign(request).await.map(drop)
}

#[tokio::test]
async fn only_one_well_formed_header_with_a_known_token_counts() {
    let gate = Gate::new(POLICY);
    for good in ["Bearer good", "bearer good", "BEARER good", "Bearer  good "] {
        let status = get(&gate, "spring-1", &[good.as_bytes()])
            .await
            .unwrap_err();
        assert_eq!(status.code(), Code::NotFound, "{good}: {status:?}");
    }
    let long = format!("Bearer {}", "x".repeat(10_000));
    for values in [
        &[b"Bearer good".as_slice(), b"Bearer bad"][..],
        &[b"Bearer good", b"Bearer good"],
        &[b"Bearer bad", b"Bearer good"],
        &[b"good"],
        &[b"Bearer"],
        &[b"Bearer Good"],
        &[b"Bearer good,Bearer good"],
        &[b"Bearer good\xff"],
        &[b"Basic good"],
        &[b"Bearer ed968e840d10d2d313a870bc131a4e2c311d7ad09bdf32b3418147221f51a6e2"],
        &[long.as_bytes()],
    ] {
        is_unknown(get(&gate, "spring-1", values).await, "CREDENTIALS_INVALID");
    }
    // A token that is larger than all headers may be.
    let huge = format!("Bearer {}", "x".repeat(30_000));
    let status = get(&gate, "spring-1", &[huge.as_bytes()])
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    // Binary metadata is another header.
    let channel = gate.server.connect().await;
    let mut client = tombola::proto::campaign_service_client::CampaignServiceClient::new(channel);
    let mut request = Request::new(GetCampaignRequest::default());
    let value = MetadataValue::from_bytes(b"Bearer good");
    request
        .metadata_mut()
        .insert_bin("authorization-bin", value);
    is_unknown(client.get_campaign(request).await, "CREDENTIALS_MISSING");
}

#[tokio::test]
async fn patterns_are_matched_by_bytes() {
    let gate = Gate::new(POLICY);
    for other in [
        "Spring-1",
        "SPRING-1",
        "spring",
        "xspring-1",
        "cafe\u{301}",
        "café",
        "*",
        "",
    ] {
        is_denied(get(&gate, other, &[b"Bearer good"]).await);
    }
    let status = get(&gate, "spring-*", &[b"Bearer good"]).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
}

#[tokio::test]
async fn health_is_for_everybody_and_tells_nothing_else() {
    let gate = Gate::with(POLICY, "--reflection admin");
    let mut health = HealthClient::new(gate.server.connect().await);
    let request = HealthCheckRequest::default();
    health.check(request).await.unwrap();
}

/// Whether reflection answers.
async fn reflects(gate: &Gate, token: Option<&str>) -> Result<(), Status> {
    let calls = match token {
        Some(token) => gate.by(token).await,
        None => gate.by_nobody().await,
    };
    let mut client = ServerReflectionClient::new(calls.connection());
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let answer = client
        .server_reflection_info(tokio_stream::iter([request]))
        .await?;
    let message = answer.into_inner().message().await?;
    message
        .map(drop)
        .ok_or_else(|| Status::unknown("it says nothing"))
}

#[tokio::test]
async fn reflection_is_on_or_off_or_by_permission() {
    let gate = Gate::new(POLICY);
    reflects(&gate, None).await.unwrap();
    let gate = Gate::with(POLICY, "--reflection off");
    for token in [None, Some("root")] {
        let status = reflects(&gate, token).await.unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented, "{status:?}");
    }
    let gate = Gate::with(POLICY, "--reflection admin");
    is_unknown(reflects(&gate, None).await, "CREDENTIALS_MISSING");
    is_denied(reflects(&gate, Some("good")).await);
    reflects(&gate, Some("root")).await.unwrap();
}
