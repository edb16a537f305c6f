//! The operations of a simulation.

use proptest::{prelude::*, sample::Index};

use super::envelopes;

/// One step.
#[derive(Clone, Debug)]
pub enum Step {
    /// One call.
    Draw {
        user: u8,
        count: u32,
        paid: bool,
        consolation_only: bool,
        /// The user is in the segment `gold`.
        gold: bool,
    },
    /// The same calls at once, under different request ids.
    Storm {
        user: u8,
        calls: u32,
    },
    /// An earlier call again, perhaps with another count.
    Retry {
        pick: Index,
        other: bool,
    },
    /// Time passes.
    Advance {
        seconds: u64,
    },
    /// The clock is set back.
    SetBack {
        seconds: u64,
    },
    /// Settles every campaign, and forgets old requests.
    Tick,
    /// Settles the campaign.
    Settle,
    Pause,
    Resume,
    PausePrize {
        prize: u16,
    },
    ResumePrize {
        prize: u16,
    },
    /// More stock, another plan, or both.
    Apply {
        restock: u64,
        per_hour: u64,
    },
    /// Codes of the prize that has them.
    Import {
        codes: u64,
    },
    Grant {
        user: u8,
        draws: u32,
        hours: u64,
    },
    /// A caller's grant.
    Bonus {
        user: u8,
        draws: u32,
        hours: u64,
    },
    /// An earlier grant of a caller again.
    RetryBonus {
        pick: Index,
        other: bool,
    },
    Block {
        user: u8,
    },
    Unblock {
        user: u8,
    },
    Recall {
        prize: Option<u16>,
        withdraw: bool,
    },
    /// Delivers a win, or one that was delivered again, perhaps under another reference.
    Deliver {
        pick: Index,
        reference: u8,
    },
    Revoke {
        pick: Index,
        withdraw: bool,
    },
    Close,
    /// A step with envelopes.
    Envelope(envelopes::Step),
    /// The store is closed and opened again.
    Reopen,
}

/// There are few users, so that they reach their limits.
pub const USERS: u8 = 4;

/// Any step.
pub fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => of_campaigns(),
        1 => envelopes::any_step().prop_map(Step::Envelope),
    ]
}

/// Any step of a campaign; steps that end the campaign are rare.
fn of_campaigns() -> impl Strategy<Value = Step> {
    let user = || 0..USERS;
    let prize = || 0..7_u16;
    prop_oneof![
        12 => (
            user(),
            1..=7_u32,
            prop::bool::weighted(0.3),
            prop::bool::weighted(0.1),
            prop::bool::weighted(0.3),
        ).prop_map(
            |(user, count, paid, consolation_only, gold)| Step::Draw {
                user,
                count,
                paid,
                consolation_only,
                gold,
            }
        ),
        4 => (user(), 2..=12_u32).prop_map(|(user, calls)| Step::Storm { user, calls }),
        6 => (any::<Index>(), prop::bool::weighted(0.2))
            .prop_map(|(pick, other)| Step::Retry { pick, other }),
        5 => (1..3_600_u64).prop_map(|seconds| Step::Advance { seconds }),
        5 => (1..12_u64).prop_map(|hours| Step::Advance { seconds: hours * 3600 }),
        1 => (1..3_u64).prop_map(|days| Step::Advance { seconds: days * 86_400 }),
        1 => (1..100_000_u64).prop_map(|seconds| Step::SetBack { seconds }),
        4 => Just(Step::Tick),
        3 => Just(Step::Settle),
        1 => Just(Step::Pause),
        2 => Just(Step::Resume),
        2 => prize().prop_map(|prize| Step::PausePrize { prize }),
        2 => prize().prop_map(|prize| Step::ResumePrize { prize }),
        3 => (prop_oneof![Just(0), 1..500_u64], 0..6_u64)
            .prop_map(|(restock, per_hour)| Step::Apply { restock, per_hour }),
        3 => (1..80_u64).prop_map(|codes| Step::Import { codes }),
        3 => (user(), 1..6_u32, 1..60_u64)
            .prop_map(|(user, draws, hours)| Step::Grant { user, draws, hours }),
        4 => (user(), 1..4_u32, 0..60_u64)
            .prop_map(|(user, draws, hours)| Step::Bonus { user, draws, hours }),
        2 => (any::<Index>(), prop::bool::weighted(0.2))
            .prop_map(|(pick, other)| Step::RetryBonus { pick, other }),
        1 => user().prop_map(|user| Step::Block { user }),
        1 => user().prop_map(|user| Step::Unblock { user }),
        2 => (prop::option::of(prize()), any::<bool>())
            .prop_map(|(prize, withdraw)| Step::Recall { prize, withdraw }),
        3 => (any::<Index>(), 0..2_u8)
            .prop_map(|(pick, reference)| Step::Deliver { pick, reference }),
        3 => (any::<Index>(), any::<bool>())
            .prop_map(|(pick, withdraw)| Step::Revoke { pick, withdraw }),
        1 => prop::bool::weighted(0.2)
            .prop_map(|close| if close { Step::Close } else { Step::Tick }),
        2 => Just(Step::Reopen),
    ]
}
