//! Grabs: envelopes are created by whoever first finds them missing, as creating them is idempotent, and grabbed by users of their own.

use tonic::Code;

use super::{
    load::Answer,
    scenario::{Grpc, GrpcCaller, reason},
};
use crate::proto::{CreateEnvelopeRequest, GrabEnvelopeRequest, GrabOutcome, Split};

/// What a packet holds on average, in minor units.
const PACKET_MINOR: i64 = 100;
const CURRENCY: &str = "CNY";
/// A service that goes on after the bench refunds and removes them by itself.
const TTL: prost_types::Duration = prost_types::Duration {
    seconds: 3600,
    nanos: 0,
};

/// Envelopes of a kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Envelopes {
    /// Packets of each.
    packets: u32,
    /// Users who grab from each.
    users: u64,
}

impl Envelopes {
    /// Each user gets a packet.
    pub(super) const LARGE: Self = Self {
        packets: 100_000,
        users: 100_000,
    };
    /// One user of twenty does.
    pub(super) const STORMED: Self = Self {
        packets: 500,
        users: 10_000,
    };
    /// As in a chat.
    pub(super) const SMALL: Self = Self {
        packets: 4,
        users: 4,
    };
}

impl GrpcCaller {
    /// The grab of a number; it creates the envelope where that is not there yet.
    pub(super) async fn grab(&mut self, calls: &Grpc, kind: Envelopes, number: u64) -> Answer {
        let envelope_id = format!("{}-{}", calls.campaign(0), number / kind.users);
        let grab = || GrabEnvelopeRequest {
            envelope_id: envelope_id.clone(),
            user_id: calls.user(number),
        };
        let mut grabbed = self.envelopes.grab_envelope(grab()).await;
        if let Err(status) = &grabbed
            && status.code() == Code::NotFound
        {
            let create = CreateEnvelopeRequest {
                envelope_id: envelope_id.clone(),
                sender_id: "bench".into(),
                total_minor: i64::from(kind.packets) * PACKET_MINOR,
                currency: CURRENCY.into(),
                packets: kind.packets,
                split: Split::Random.into(),
                ttl: Some(TTL),
                ..CreateEnvelopeRequest::default()
            };
            if let Err(status) = self.envelopes.create_envelope(create).await {
                return Answer::Failed(reason(&status));
            }
            grabbed = self.envelopes.grab_envelope(grab()).await;
        }
        match grabbed {
            Ok(answer) if answer.get_ref().outcome() == GrabOutcome::Grabbed => Answer::Won,
            Ok(_) => Answer::Done,
            Err(status) => Answer::Failed(reason(&status)),
        }
    }
}
