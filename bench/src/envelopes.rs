//! Grabs from envelopes. Each grab has a user of its own. Small envelopes are created some time
//! before their users grab, as senders do. The caller who finds that an envelope does not exist
//! creates it, since creating is idempotent.

use tombola::proto::{
    CreateEnvelopeRequest, GrabEnvelopeRequest, GrabOutcome, Split,
    envelope_service_client::EnvelopeServiceClient,
};
use tonic::{Code, Status};

use crate::{failure::reason, record::Answer, service::TokenLink};

/// The average amount of a packet in minor units.
const PACKET_MINOR: i64 = 100;
const CURRENCY: &str = "CNY";
/// If the service keeps running after the bench, it refunds and removes the envelopes by itself.
const TTL: prost_types::Duration = prost_types::Duration {
    seconds: 3600,
    nanos: 0,
};

/// The shape of a scenario's envelopes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Envelopes {
    /// Packets per envelope.
    packets: u32,
    /// Users who grab from each envelope.
    users: u64,
    /// How many envelopes are created before their users grab; 0: the first of these creates it.
    ahead: u64,
}

impl Envelopes {
    /// Every user gets a packet.
    pub(crate) const LARGE: Self = Self {
        packets: 100_000,
        users: 100_000,
        ahead: 0,
    };
    /// One user in twenty gets a packet.
    pub(crate) const STORMED: Self = Self {
        packets: 500,
        users: 10_000,
        ahead: 0,
    };
    /// Small envelopes, as in a chat. A load has about a thousand calls in progress, so an envelope
    /// is there when its users grab.
    pub(crate) const SMALL: Self = Self {
        packets: 4,
        users: 4,
        ahead: 2_000,
    };
}

impl Envelopes {
    /// Makes the grab with this number; the first of an envelope creates a later one before.
    /// Envelope ids begin with `prefix`.
    pub(crate) async fn grab(
        self,
        service: &mut EnvelopeServiceClient<TokenLink>,
        prefix: &str,
        user_id: String,
        number: u64,
    ) -> Answer {
        if self.ahead > 0 && number.is_multiple_of(self.users) {
            let later = format!("{prefix}-{}", number / self.users + self.ahead);
            if let Err(status) = self.create(service, later).await {
                return Answer::Failed(reason(&status));
            }
        }
        match self.try_grab(service, prefix, user_id, number).await {
            Ok(true) => Answer::Won,
            Ok(false) => Answer::Done,
            Err(status) => Answer::Failed(reason(&status)),
        }
    }

    /// Makes the grab with this number, and creates its envelope if that does not exist yet.
    /// Whether it got a packet.
    pub(crate) async fn try_grab(
        self,
        service: &mut EnvelopeServiceClient<TokenLink>,
        prefix: &str,
        user_id: String,
        number: u64,
    ) -> Result<bool, Status> {
        let envelope_id = format!("{prefix}-{}", number / self.users);
        let grab = || GrabEnvelopeRequest {
            envelope_id: envelope_id.clone(),
            user_id: user_id.clone(),
        };
        let mut grabbed = service.grab_envelope(grab()).await;
        if let Err(status) = &grabbed
            && status.code() == Code::NotFound
        {
            self.create(service, envelope_id.clone()).await?;
            grabbed = service.grab_envelope(grab()).await;
        }
        Ok(grabbed?.get_ref().outcome() == GrabOutcome::Grabbed)
    }

    async fn create(
        self,
        service: &mut EnvelopeServiceClient<TokenLink>,
        envelope_id: String,
    ) -> Result<(), Status> {
        let create = CreateEnvelopeRequest {
            envelope_id,
            sender_id: "bench".into(),
            total_minor: i64::from(self.packets) * PACKET_MINOR,
            currency: CURRENCY.into(),
            packets: self.packets,
            split: Split::Random.into(),
            ttl: Some(TTL),
            ..CreateEnvelopeRequest::default()
        };
        service.create_envelope(create).await?;
        Ok(())
    }
}
