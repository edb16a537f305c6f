//! Helpers to write tests of envelopes.

use std::{collections::BTreeMap, sync::Arc};

use prost_types::Duration;
use tombola::{
    model::{EnvelopeId, Moment, convert::envelope_from_proto},
    proto::{CreateEnvelopeRequest, Split},
    store::{
        CancelEnvelope, EnvelopeReply, EnvelopeView, GrabAnswer, GrabCommand, GrabOutcome,
        GrabView, Refusal, Result, StoreError, envelope::Packet,
    },
};

use super::{World, author, user, words::new_request};

/// Acknowledged packets, by envelope and user.
pub type Acknowledged = BTreeMap<(EnvelopeId, String), Packet>;

pub fn envelope_id(id: &str) -> EnvelopeId {
    EnvelopeId::parse("envelope", id).unwrap()
}

/// An envelope of this amount, in this many packets, for a day from its creation.
pub fn envelope(id: &str, total_minor: i64, packets: u32) -> CreateEnvelopeRequest {
    CreateEnvelopeRequest {
        envelope_id: id.into(),
        sender_id: "sender".into(),
        total_minor,
        currency: "CNY".into(),
        packets,
        ..CreateEnvelopeRequest::default()
    }
}

/// Further properties of an envelope.
pub trait EnvelopeWords {
    fn equal(self) -> Self;
    fn at_least(self, min_minor: i64) -> Self;
    fn starting(self, at: Moment) -> Self;
    fn lasting(self, seconds: i64) -> Self;
    fn raining(self, seconds: i64) -> Self;
    fn only_for(self, users: &[&str]) -> Self;
    fn in_currency(self, code: &str) -> Self;
}

impl EnvelopeWords for CreateEnvelopeRequest {
    fn equal(mut self) -> Self {
        self.set_split(Split::Equal);
        self
    }

    fn at_least(mut self, min_minor: i64) -> Self {
        self.min_minor = min_minor;
        self
    }

    fn starting(mut self, at: Moment) -> Self {
        self.start_time = Some(tombola::model::convert::moment_to_proto(at));
        self
    }

    fn lasting(mut self, seconds: i64) -> Self {
        self.ttl = Some(Duration { seconds, nanos: 0 });
        self
    }

    fn raining(mut self, seconds: i64) -> Self {
        self.rain = Some(Duration { seconds, nanos: 0 });
        self
    }

    fn only_for(mut self, users: &[&str]) -> Self {
        self.allowed_user_ids = users.iter().map(|id| (*id).to_owned()).collect();
        self
    }

    fn in_currency(mut self, code: &str) -> Self {
        self.currency = code.into();
        self
    }
}

/// Reads the outcome of a grab.
pub trait Outcome {
    /// The packet that the user has, from this grab or an earlier one.
    fn packet(&self) -> Option<Packet>;
    /// The packet that this grab took.
    fn got(&self) -> Option<Packet>;
}

impl Outcome for GrabOutcome {
    fn packet(&self) -> Option<Packet> {
        match self {
            Self::Grabbed(packet) | Self::AlreadyGrabbed(packet) => Some(*packet),
            _ => None,
        }
    }

    fn got(&self) -> Option<Packet> {
        match self {
            Self::Grabbed(packet) => Some(*packet),
            _ => None,
        }
    }
}

/// A grab by this user without a deadline.
pub fn grab_command(id: &str, user_id: &str) -> GrabCommand {
    GrabCommand {
        envelope: envelope_id(id),
        user: user(user_id),
        not_after: Moment::FAR_FUTURE,
    }
}

impl World {
    pub async fn try_create(&self, request: &CreateEnvelopeRequest) -> Result<EnvelopeReply> {
        let (envelope, users) = envelope_from_proto(request).unwrap();
        self.injector()
            .create_envelope(Arc::new(envelope), users, None)
            .await
    }

    pub async fn create(&self, request: &CreateEnvelopeRequest) -> EnvelopeView {
        let reply = self.try_create(request).await.unwrap();
        assert!(!reply.replayed, "{request:?}");
        reply.view
    }

    pub async fn try_grab_with(&self, command: GrabCommand) -> Result<GrabAnswer> {
        let name = (command.envelope.clone(), command.user.as_str().to_owned());
        let answer = self.injector().grab(command).await?;
        if let Some(packet) = answer.outcome.packet() {
            let mut acknowledged = self.grabs.lock().unwrap();
            let first = acknowledged.entry(name).or_insert(packet);
            assert_eq!(*first, packet, "a user has one packet, for ever the same");
        }
        Ok(answer)
    }

    pub async fn try_grab(&self, id: &str, user: &str) -> Result<GrabOutcome> {
        let answer = self.try_grab_with(grab_command(id, user)).await?;
        Ok(answer.outcome)
    }

    pub async fn grab(&self, id: &str, user: &str) -> GrabOutcome {
        self.try_grab(id, user).await.unwrap()
    }

    /// Like [`Self::grab`], but retries while the store is overloaded.
    pub async fn grab_patiently(&self, id: &str, user: &str) -> GrabOutcome {
        loop {
            match self.try_grab(id, user).await {
                Err(StoreError::Overloaded) => tokio::task::yield_now().await,
                outcome => return outcome.unwrap(),
            }
        }
    }

    pub async fn cancel(&self, id: &str) -> EnvelopeReply {
        let command = CancelEnvelope {
            envelope: envelope_id(id),
            author: author(&new_request()),
        };
        self.injector().cancel_envelope(command).await.unwrap()
    }

    /// Reads an envelope from the store, without the refund that reading through the injector
    /// causes.
    pub async fn envelope(&self, id: &str) -> EnvelopeView {
        self.store().envelope(&envelope_id(id)).await.unwrap()
    }

    pub async fn is_no_envelope(&self, id: &str) -> bool {
        let found = self.store().envelope(&envelope_id(id)).await;
        matches!(found, Err(StoreError::Refused(Refusal::EnvelopeNotFound)))
    }

    /// All grabs of an envelope.
    pub async fn grabs_of(&self, id: &str) -> Vec<GrabView> {
        let id = envelope_id(id);
        self.store().grabs(&id, 0, 200_000).await.unwrap()
    }
}
