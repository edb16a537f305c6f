//! The scenarios, and the ids of their users. To add a scenario: a variant of [`Scenario`], its
//! campaigns in `campaigns`, and its call in `calls`; grabs are in `envelopes`.

use clap::ValueEnum;

/// The calls of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Scenario {
    /// A fixed response of a bare gRPC server, for comparison
    Empty,
    /// Draws from a schedule's released units, each by another user
    Draw,
    /// The same with user ids that are spread over the whole id space
    Scattered,
    /// The same by 20,000 users in turn
    Again,
    /// A draw from a deck in which 60 of 100 cards win
    Deck,
    /// The same where each user may win a number of cards a day and in all
    Capped,
    /// Draws from a personal pool with odds of 60% and a guarantee, each by another user
    Personal,
    /// The same by 20,000 users in turn
    PersonalAgain,
    /// CheckLimit for users who have drawn
    Check,
    /// A mix: of twenty calls 14 draws, 4 CheckLimit, 1 retry and 1 GetDraw
    Mix,
    /// Draws while units are injected
    Inject,
    /// All draws by one user
    HotUser,
    /// 15 of 16 draws from one campaign, the others from 15 more
    HotCampaign,
    /// Draws from 64 campaigns in turn
    ManyCampaigns,
    /// Grabs from envelopes of 100,000 packets, one envelope after another, each by another user
    Grab,
    /// Grabs from envelopes of 500 packets, each by 10,000 users
    GrabStorm,
    /// Envelopes of 4 packets: each is created and grabbed until it is empty
    SmallEnvelopes,
}

impl Scenario {
    /// The name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Draw => "draw",
            Self::Scattered => "scattered",
            Self::Again => "again",
            Self::Deck => "deck",
            Self::Capped => "capped",
            Self::Personal => "personal",
            Self::PersonalAgain => "personal-again",
            Self::Check => "check",
            Self::Mix => "mix",
            Self::Inject => "inject",
            Self::HotUser => "hot-user",
            Self::HotCampaign => "hot-campaign",
            Self::ManyCampaigns => "many-campaigns",
            Self::Grab => "grab",
            Self::GrabStorm => "grab-storm",
            Self::SmallEnvelopes => "small-envelopes",
        }
    }

    /// Whether it grabs packets from envelopes.
    pub(crate) fn grabs(self) -> bool {
        matches!(self, Self::Grab | Self::GrabStorm | Self::SmallEnvelopes)
    }

    /// Whether its draws take the schedule's units.
    pub(crate) fn draws_from_the_schedule(self) -> bool {
        matches!(
            self,
            Self::Draw | Self::Scattered | Self::Again | Self::Mix | Self::Inject | Self::HotUser
        )
    }
}

/// The form of user ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ids {
    /// The scenario's name and a number; consecutive numbers give consecutive ids.
    Following,
    /// 8 characters.
    Short,
    /// A UUID: 36 characters.
    Uuid,
}

impl Ids {
    /// An id of this form; each number gives another one.
    pub(crate) fn of(self, number: u64) -> String {
        match self {
            Self::Uuid => {
                let (high, low) = (scramble(number), scramble(!number));
                format!(
                    "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
                    high >> 32,
                    (high >> 16) & 0xffff,
                    high & 0xfff,
                    low >> 52,
                    low & 0xffff_ffff_ffff
                )
            }
            Self::Following | Self::Short => format!("{number:08}"),
        }
    }
}

/// Spreads consecutive numbers over all 64-bit numbers, as real users' ids are spread (the
/// finaliser of SplitMix64).
pub(crate) fn scramble(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_the_length_that_is_asked_for() {
        assert_eq!(Ids::Short.of(7).len(), 8);
        assert_eq!(Ids::Uuid.of(7).len(), 36);
    }
}
