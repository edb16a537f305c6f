//! Grabs: envelopes are created by whoever first finds them missing, as creating them is
//! idempotent, and grabbed by users of their own.

use tombola::proto::{
    CreateEnvelopeRequest, GrabEnvelopeRequest, GrabOutcome, Split,
    envelope_service_client::EnvelopeServiceClient,
};
use tonic::{Code, transport::Channel};

use crate::{failure::reason, record::Answer};

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
pub(crate) struct Envelopes {
    /// Packets of each.
    packets: u32,
    /// Users who grab from each.
    users: u64,
}

impl Envelopes {
    /// Each user gets a packet.
    pub(crate) const LARGE: Self = Self {
        packets: 100_000,
        users: 100_000,
    };
    /// One user of twenty does.
    pub(crate) const STORMED: Self = Self {
        packets: 500,
        users: 10_000,
    };
    /// As in a chat.
    pub(crate) const SMALL: Self = Self {
        packets: 4,
        users: 4,
    };
}

impl Envelopes {
    /// The grab of a number; it creates the envelope if that does not exist yet. Ids of envelopes
    /// begin with `prefix`.
    pub(crate) async fn grab(
        self,
        service: &mut EnvelopeServiceClient<Channel>,
        prefix: &str,
        user_id: String,
        number: u64,
    ) -> Answer {
        let envelope_id = format!("{prefix}-{}", number / self.users);
        let grab = || GrabEnvelopeRequest {
            envelope_id: envelope_id.clone(),
            user_id: user_id.clone(),
        };
        let mut grabbed = service.grab_envelope(grab()).await;
        if let Err(status) = &grabbed
            && status.code() == Code::NotFound
        {
            let create = CreateEnvelopeRequest {
                envelope_id: envelope_id.clone(),
                sender_id: "bench".into(),
                total_minor: i64::from(self.packets) * PACKET_MINOR,
                currency: CURRENCY.into(),
                packets: self.packets,
                split: Split::Random.into(),
                ttl: Some(TTL),
                ..CreateEnvelopeRequest::default()
            };
            if let Err(status) = service.create_envelope(create).await {
                return Answer::Failed(reason(&status));
            }
            grabbed = service.grab_envelope(grab()).await;
        }
        match grabbed {
            Ok(answer) if answer.get_ref().outcome() == GrabOutcome::Grabbed => Answer::Won,
            Ok(_) => Answer::Done,
            Err(status) => Answer::Failed(reason(&status)),
        }
    }
}
