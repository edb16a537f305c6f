//! Grants of bonus draws by callers. They go through the lanes of draws, so that a user's draws and
//! grants keep their order, and share the memory of requests.

use std::sync::Arc;

use super::lanes::{Job, Lanes, Reply};
use crate::store::redis::{
    core::Core,
    format::{
        asked,
        plans::Over,
        record::{self, Remembered},
        reply::unexpected,
    },
    step::layout::Layout,
};
use crate::{
    model::{Campaign, CampaignId, Moment, RequestId, SegmentId, UserId},
    store::{
        BonusAnswer, BonusCommand, DrawCommand, Drawn, LedgerId, Refusal, Result, StoreError,
        rules, view::Lifecycle,
    },
};

/// What a call asks for.
pub(crate) enum Ask {
    Draw(Arc<DrawCommand>),
    Grant(BonusCommand),
}

/// What it was answered.
pub(crate) enum Answer {
    Drawn(Drawn),
    Granted(BonusAnswer),
    /// Nothing happened: the draw was planned from something else than what is stored, which the
    /// service knows now: besides other things, what the budget holds in a step.
    WrongGuess(Option<Over>),
}

impl Ask {
    /// Who asks, and the name of the request.
    pub(super) fn name(&self) -> (&UserId, &RequestId) {
        match self {
            Self::Draw(command) => (&command.user, &command.request),
            Self::Grant(command) => (&command.user, &command.request),
        }
    }

    pub(super) fn campaign(&self) -> &CampaignId {
        match self {
            Self::Draw(command) => &command.campaign,
            Self::Grant(command) => &command.campaign,
        }
    }

    /// Its room in a batch: a grant is as much work as a draw.
    pub(super) fn units(&self) -> usize {
        match self {
            Self::Draw(command) => command.count as usize,
            Self::Grant(_) => 1,
        }
    }

    pub(super) fn not_after(&self) -> Moment {
        match self {
            Self::Draw(command) => command.not_after,
            Self::Grant(command) => command.not_after,
        }
    }

    /// What it asks for, in a number.
    pub(super) fn what(&self) -> u64 {
        match self {
            Self::Draw(command) => asked::what(command),
            Self::Grant(_) => asked::A_GRANT,
        }
    }

    /// The segments that count in the campaign.
    fn segments<'a>(&'a self, campaign: &Campaign) -> &'a [SegmentId] {
        match self {
            Self::Draw(command) => campaign.known_segments(&command.segments),
            Self::Grant(_) => &[],
        }
    }

    /// What it asks for, as the script wants it.
    pub(super) fn encode_kind(&self, campaign: &Campaign) -> Vec<u8> {
        let mut kind = match self {
            Self::Draw(command) => asked::encode_kind(command),
            Self::Grant(command) => asked::encode_bonus_kind(command),
        };
        if campaign.names_segments() {
            kind.extend(asked::encode_view(campaign, self.segments(campaign)));
        }
        kind
    }

    /// What the ledger keeps of it.
    pub(super) fn encode_part(&self, campaign: &Campaign, parts: &mut Vec<u8>) {
        match self {
            Self::Draw(command) => asked::encode_part(command, self.segments(campaign), parts),
            Self::Grant(command) => asked::encode_bonus_part(command, parts),
        }
    }
}

impl Lanes {
    /// Sends a grant through its user's lane.
    pub(crate) async fn grant_bonus(
        &self,
        core: &Core,
        command: BonusCommand,
    ) -> Result<BonusAnswer> {
        let partition = core.partition(&command.campaign).number;
        let job = Job::new(Ask::Grant(command));
        let Answer::Granted(answer) = self.call(partition, job.user.hash(), job).await? else {
            return Err(unexpected("grant").after_write());
        };
        if !answer.replayed {
            return Ok(answer);
        }
        let campaign = core.definition(&answer.campaign.id, answer.entry.version);
        // The grant was made before, whatever hides its answer now.
        let campaign = campaign.await;
        let campaign = campaign.map_err(|error| error.of_recorded_version().after_write())?;
        Ok(BonusAnswer { campaign, ..answer })
    }
}

/// Reads the reply to a grant.
pub(super) fn read_grant(
    layout: &Layout,
    command: &BonusCommand,
    now: Moment,
    reply: Reply<'_>,
) -> Result<BonusAnswer> {
    let campaign = &layout.campaign;
    let done = |remembered: Remembered, replayed| {
        let (at, sequence) = (remembered.at, remembered.sequence);
        let entry = remembered.into_bonus(command.user.clone(), command.request.clone());
        let entry = entry.filter(|entry| entry.draws == command.draws);
        Ok(BonusAnswer {
            ledger: LedgerId {
                partition: layout.partition.number,
                sequence,
            },
            at,
            replayed,
            campaign: Arc::clone(campaign),
            entry: Arc::new(entry.ok_or_else(|| unexpected("grant"))?),
        })
    };
    let (letter, rest) = match reply {
        Reply::Made(granted) => return done(granted, false).map_err(StoreError::after_write),
        Reply::Other(letter, rest) => (letter, rest),
    };
    match letter {
        // It was made by an earlier attempt.
        b'R' => record::decode_remembered(rest)
            .and_then(|remembered| done(remembered, true))
            .map_err(StoreError::after_write),
        b'U' => Err(Refusal::RequestIdReused.into()),
        b'B' => Err(Refusal::LedgerBacklog.into()),
        b'P' => Err(Refusal::DeadlineExceeded.into()),
        b'O' => Err(Refusal::UpgradeNeeded.into()),
        b'A' => {
            let lifecycle = lifecycle(rest)?;
            match lifecycle.admits_bonus(campaign, now) {
                Err(refusal) => Err(refusal.into()),
                Ok(()) => Err(StoreError::corrupt(
                    "a campaign that takes grants refused one",
                )),
            }
        }
        b'Q' => {
            let stored = record::decode_record(rest)?.record;
            match rules::grant_bonus(campaign, command, Some(stored), now) {
                Err(refused) => Err(refused),
                Ok(_) => Err(StoreError::corrupt("a grant that is admitted was refused")),
            }
        }
        _ => Err(unexpected("known code of a grant").after_write()),
    }
}

/// The lifecycle in the reply to a call that the campaign does not admit.
pub(super) fn lifecycle(rest: &[u8]) -> Result<Lifecycle> {
    let text = std::str::from_utf8(rest).ok();
    let code = text.and_then(|text| text.parse().ok());
    Lifecycle::from_code(code.unwrap_or(-1))
}
