//! What a store answers when it does not do what was asked.

use thiserror::Error;

use super::proposal::OPEN_PROPOSALS_MAX;
use crate::model::{
    Campaign, Moment, OperatorId, Problems,
    limits::{LimitKind, LimitReached},
    text::grouped,
};

/// A result of the store.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Whether a failed command may have had its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executed {
    /// Nothing happened.
    No,
    /// It may have happened: retry with the same request id.
    Unknown,
}

/// Why a command was not done.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum StoreError {
    /// A rule forbids it: nothing happened.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// More commands wait than the service takes, or this one has waited for too long: nothing
    /// happened.
    #[error("the service is overloaded: back off, then retry with the same request id")]
    Overloaded,
    /// The store cannot be reached, read or written. Transient.
    #[error("the store is unavailable ({detail})")]
    Unavailable {
        /// Whether it may have happened.
        executed: Executed,
        /// What the store said, for operators.
        detail: String,
    },
    /// The store was rolled back, and entries that were acknowledged are lost: nothing happens any
    /// more until an operator decides.
    #[error("{0}")]
    Halted(String),
    /// The store's data contradict themselves, or its reply cannot be read. Permanent.
    #[error("the stored data contradict themselves: {detail}")]
    Corrupt {
        /// Whether the command may have happened.
        executed: Executed,
        /// What contradicts what, for operators.
        detail: String,
    },
}

impl StoreError {
    /// Contradicting data that were found before anything was written.
    pub fn corrupt(detail: impl Into<String>) -> Self {
        Self::Corrupt {
            executed: Executed::No,
            detail: detail.into(),
        }
    }

    /// Contradicting data, or a reply that cannot be read, found after the command may have been
    /// carried out.
    pub fn corrupt_after(detail: impl Into<String>) -> Self {
        Self::Corrupt {
            executed: Executed::Unknown,
            detail: detail.into(),
        }
    }

    /// A name for the error, for spans.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Refused(_) => "refused",
            Self::Overloaded => "overloaded",
            Self::Unavailable { .. } => "unavailable",
            Self::Halted(_) => "halted",
            Self::Corrupt { .. } => "corrupt",
        }
    }

    /// Whether the command may have happened.
    pub fn executed(&self) -> Executed {
        match self {
            Self::Refused(_) | Self::Overloaded | Self::Halted(_) => Executed::No,
            Self::Unavailable { executed, .. } | Self::Corrupt { executed, .. } => *executed,
        }
    }

    /// The same error of a command of which it is known whether it may have happened.
    pub(crate) fn with_executed(self, executed: Executed) -> Self {
        match self {
            Self::Unavailable { detail, .. } => Self::Unavailable { executed, detail },
            Self::Corrupt { detail, .. } => Self::Corrupt { executed, detail },
            refused @ (Self::Refused(_) | Self::Overloaded | Self::Halted(_)) => refused,
        }
    }

    /// The same error with the campaign or the envelope that it is about, for the log.
    pub(super) fn about(self, subject: impl std::fmt::Display) -> Self {
        match self {
            Self::Corrupt { executed, detail } => {
                let subject = subject.to_string();
                let detail = if detail.contains(&subject) {
                    detail
                } else {
                    format!("{subject}: {detail}")
                };
                Self::Corrupt { executed, detail }
            }
            other => other,
        }
    }

    /// The same error of looking for the version that a recorded draw was made from: it must be
    /// there.
    pub(super) fn of_recorded_version(self) -> Self {
        match self {
            Self::Refused(Refusal::VersionNotFound(version)) => Self::corrupt(format!(
                "version {version}, from which a draw was made, is missing"
            )),
            other => other,
        }
    }

    /// The same error, found in the reply of a command that may have been carried out.
    pub(super) fn after_write(self) -> Self {
        self.with_executed(Executed::Unknown)
    }
}

/// A rule that forbids a command. Nothing happened.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum Refusal {
    /// No such campaign.
    #[error("there is no campaign of this id: apply one first, or check the id")]
    CampaignNotFound,
    /// No such pool in the campaign.
    #[error("the campaign has no pool `{0}`")]
    PoolNotFound(String),
    /// The pool is a deck, not a schedule.
    #[error("the pool `{0}` is a deck: only a schedule has hours")]
    NotASchedule(String),
    /// No such prize in the campaign.
    #[error("the campaign has no prize `{0}`")]
    PrizeNotFound(String),
    /// No such version of the campaign.
    #[error("the campaign has no version {0}")]
    VersionNotFound(u32),
    /// No draw is remembered under this request id.
    #[error("no draw is remembered under this request id")]
    DrawNotFound,
    /// No injected window starts at this moment.
    #[error("no injected hour of this pool starts at {0}: read the schedule for those there are")]
    WindowNotFound(Moment),
    /// The campaign has not started.
    #[error("the campaign starts at {0}")]
    NotStarted(Moment),
    /// The campaign's end has passed.
    #[error("the campaign ended at {0}")]
    Ended(Moment),
    /// The campaign is paused.
    #[error("the campaign is paused")]
    Paused,
    /// The campaign was closed.
    #[error("the campaign was closed for good: its id is not used again")]
    Closed,
    /// The campaign's data have left the store, as they do some time after its close.
    #[error(
        "the campaign was closed, and its data have left the store: it can be read and listed, but \
         not changed, and its id is not used again"
    )]
    Removed {
        /// The campaign's end.
        end: Moment,
    },
    /// A limit of the user's draws, or of the bonus draws that callers grant the user.
    #[error("{}", limit_text(.reached))]
    Limit {
        /// Which one.
        reached: LimitReached,
        /// When the same draw would be admitted, if it ever would.
        retry_at: Option<Moment>,
        /// The store's clock.
        now: Moment,
    },
    /// The request id was used for something else.
    #[error(
        "this request id was used for another request: use a new id for a new request, the same \
         contents for a retry"
    )]
    RequestIdReused,
    /// The request's own `expire_time` has passed.
    #[error("the request expired at {0}")]
    Expired(Moment),
    /// Too many entries of the ledger wait to be settled, or one for too long.
    #[error(
        "too many entries of the ledger wait to be settled: see that its sink works, then retry \
         the same request"
    )]
    LedgerBacklog,
    /// The command came too late: its caller's time is over.
    #[error("the request was not begun within its deadline")]
    DeadlineExceeded,
    /// Another version than the one named is current.
    #[error("{}", stale_text(*.named, *.current))]
    VersionStale {
        /// The version the command named; 0 for a new campaign.
        named: u32,
        /// The current version; 0 if there is no campaign.
        current: u32,
    },
    /// No such envelope, or none any more.
    #[error("there is no envelope of this id, or none any more: create one first, or check the id")]
    EnvelopeNotFound,
    /// The id is, or was, another envelope's.
    #[error(
        "this id is, or was, another envelope's: use a new id for a new envelope, the same \
         contents for a retry"
    )]
    EnvelopeExists,
    /// An envelope that could never be grabbed, or whose id is for nothing new.
    #[error("{0}")]
    EnvelopeRefused(Problems),
    /// The sink of the ledger has no such win.
    #[error("the campaign has no win of the unit `{0}`: list the wins for their unit ids")]
    WinNotFound(String),
    /// The win was delivered under another reference.
    #[error(
        "the win was delivered already, under the reference `{0}`: a win is delivered once, \
         compare the references"
    )]
    WinDelivered(String),
    /// The win was revoked.
    #[error("the win was revoked at {0}, which is final")]
    WinRevoked(Moment),
    /// The store's data are in the format of an earlier version, which does not know this.
    #[error(
        "the store's data are still in the format of an earlier version, which does not know this: \
         update every service, then run `tombola upgrade --finish`"
    )]
    UpgradeNeeded,
    /// The change needs a proposal and an approval.
    #[error(
        "this change of the campaign needs two people: propose it with ProposeChange, then another \
         identity approves it"
    )]
    ApprovalNeeded,
    /// Identities are not known, and proposals and approvals need them.
    #[error(
        "approvals need identities, and this server knows none: start every service with \
         --access FILE"
    )]
    IdentityNeeded,
    /// No such proposal, or none any more.
    #[error("the campaign has no proposal `{0}`, or none any more: list its proposals")]
    ProposalNotFound(String),
    /// The proposal cannot be approved or rejected any more.
    #[error("the proposal {id} {why}: if the change is still wanted, propose it again")]
    ProposalVoid {
        /// Which.
        id: String,
        /// What happened to it.
        why: String,
    },
    /// The one who proposed it would approve it.
    #[error("{0} proposed this change: another identity has to approve it")]
    OwnProposal(OperatorId),
    /// The campaign has too many open proposals.
    #[error(
        "the campaign has {OPEN_PROPOSALS_MAX} open proposals, and no more at once: approve or \
         reject some first"
    )]
    TooManyProposals,
    /// A change that the campaign may not undergo.
    #[error("{0}")]
    ChangeRefused(Problems),
}

impl Refusal {
    /// A draw, or a grant of bonus draws, that a limit refuses now.
    pub(super) fn limit(reached: LimitReached, campaign: &Campaign, now: Moment) -> Self {
        let retry_at = reached.resets.then(|| match reached.limit {
            LimitKind::DrawsPerHour => campaign.zone.hour(now).1,
            _ => campaign.zone.next_day_start(now),
        });
        Self::Limit {
            reached,
            retry_at,
            now,
        }
    }
}

fn stale_text(named: u32, current: u32) -> String {
    if current == 0 {
        return format!(
            "there is no campaign of this id, so none at version {named}: base_version must be 0 \
             for a new one"
        );
    }
    format!("the campaign is at version {current}, not {named}: read it again, then decide again")
}

fn limit_text(reached: &LimitReached) -> String {
    use LimitKind::{DrawsPerDay, DrawsPerHour, DrawsPerUser, GrantedPerDay, PaidDrawsPerDay};
    let limit = match reached.limit {
        DrawsPerHour => "the user's free draws of the hour and bonus draws do not suffice",
        DrawsPerDay => "the user's free draws of the day and bonus draws do not suffice",
        PaidDrawsPerDay => "the user's paid draws of the day do not suffice",
        DrawsPerUser => "the user's draws in this campaign do not suffice",
        GrantedPerDay => "the bonus draws that the user may be granted on a day do not suffice",
    };
    let hope = match (reached.resets, reached.limit) {
        (false, _) => "",
        (true, DrawsPerHour) => ": they come back with the next hour",
        (true, _) => ": they come back with the new day",
    };
    let (asked, left) = (grouped(reached.asked.into()), grouped(reached.left.into()));
    format!("{limit}, {asked} asked, {left} left{hope}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_version_tells_what_there_is() {
        let none = stale_text(3, 0);
        assert!(none.contains("no campaign"), "{none}");
        assert!(none.contains("base_version must be 0"), "{none}");
        let other = stale_text(1, 2);
        assert!(other.contains("at version 2, not 1"), "{other}");
    }

    #[test]
    fn a_spent_limit_tells_what_is_left_of_it() {
        let text = |limit, resets| {
            limit_text(&LimitReached {
                limit,
                resets,
                asked: 3,
                left: 2,
            })
        };
        assert_eq!(
            text(LimitKind::DrawsPerDay, true),
            "the user's free draws of the day and bonus draws do not suffice, 3 asked, 2 left: \
             they come back with the new day"
        );
        assert!(text(LimitKind::DrawsPerHour, true).ends_with("with the next hour"));
        for limit in [LimitKind::PaidDrawsPerDay, LimitKind::DrawsPerUser] {
            let message = text(limit, false);
            assert!(
                message.ends_with("do not suffice, 3 asked, 2 left"),
                "{message}"
            );
        }
    }
}
