//! What must hold for campaign files, for campaigns as callers send them and stores keep them, and
//! for ids.

use std::collections::BTreeMap;

use prost::Message as _;

use super::{
    Campaign, CampaignId, EnvelopeId, Moment, OperatorId, Pattern, PoolId, PoolKind, PrizeId,
    RequestId, UserId, change,
    convert::{campaign_from_proto, campaign_to_proto, decode, encode},
    deck::{CardCount, Deck},
    file,
    id::ID_BYTES_MAX,
    number::{PoolNo, Quantities},
    personal::PoolProgress,
    schedule::Schedule,
    summary::{plan_summary, planned_units},
    text::visible,
};
use crate::{
    chance::{Fill, Seed, UserChance, deal, scatter, take, totals},
    fuzzing::assert_json_reads_back,
    proto,
    store::{Unit, redis::KeyPrefix},
};

/// The most bytes of a file that must be read back: an accepted file with aliases may be longer
/// when it is written out.
const FILE_BYTES_MAX: usize = 1 << 20;
/// Windows of a schedule that are filled.
const WINDOWS_MAX: usize = 30;
/// Units that are scattered, and cards that are dealt, at once.
const UNITS_MAX: u64 = 1_000;
/// Draws of one user from a personal pool.
const DRAWS_ALONE: usize = 300;
/// Windows over which totals are shared out.
const SPANS_MAX: usize = 2_000;

/// A campaign file: text. What is accepted is written back to the same campaigns, and its plan can
/// be carried out.
pub(crate) fn campaign_file(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else {
        return false;
    };
    let checked = file::check(text);
    let Ok(campaigns) = file::parse(text) else {
        assert!(checked.is_err(), "what cannot be read is not right either");
        return false;
    };
    if let Ok(checked) = checked {
        assert_eq!(checked, campaigns);
    }
    for message in &campaigns {
        let yaml = file::to_yaml(message);
        if yaml.len() <= FILE_BYTES_MAX {
            assert_eq!(file::parse(&yaml).as_deref(), Ok(&[message.clone()][..]));
        }
        let json = file::to_json("tombola.v1.Campaign", message).to_string();
        if json.len() <= FILE_BYTES_MAX {
            assert_eq!(file::parse(&json).as_deref(), Ok(&[message.clone()][..]));
        }
    }
    // Each is checked, also those after one that is refused.
    let accepted: Vec<bool> = campaigns.iter().map(holds).collect();
    accepted.iter().all(|accepted| *accepted)
}

/// A campaign as a message. What is accepted is stored and read back, and its plan can be carried
/// out.
pub(crate) fn definition(data: &[u8]) -> bool {
    if let Ok(campaign) = decode(data) {
        assert_eq!(decode(&encode(&campaign)).as_ref(), Ok(&campaign));
    }
    proto::Campaign::decode(data).is_ok_and(|message| holds(&message))
}

/// Whether a campaign is accepted; what must hold for it then.
fn holds(message: &proto::Campaign) -> bool {
    let Ok(campaign) = campaign_from_proto(message) else {
        return false;
    };
    let shown = campaign_to_proto(&campaign);
    assert_eq!(campaign_from_proto(&shown).as_ref(), Ok(&campaign));
    assert_eq!(campaign_to_proto(&campaign), shown);
    assert_eq!(decode(&encode(&campaign)).as_ref(), Ok(&campaign));
    let yaml = file::to_yaml(&shown);
    if yaml.len() <= FILE_BYTES_MAX {
        assert_eq!(file::check(&yaml).as_deref(), Ok(&[shown][..]), "{yaml}");
    }
    assert_eq!(change::differences(&campaign, &campaign), []);
    carry_out(&campaign);
    true
}

/// Expands the plan of a campaign: first in numbers, then in units.
fn carry_out(campaign: &Campaign) {
    let needed = planned_units(campaign, campaign.start);
    for (prize, units) in &needed {
        let stock = campaign.prize(*prize).stock;
        assert!(*units <= stock, "{units} of {stock} of prize {prize:?}");
    }
    let (dealt, start) = (BTreeMap::new(), campaign.start);
    let summary = plan_summary(campaign, &needed, &dealt, start, WINDOWS_MAX);
    assert_eq!(summary.prizes.len(), campaign.prizes.len());
    assert!(summary.hours.len() <= WINDOWS_MAX);
    let seed = Seed::from_bytes([7; 32]);
    for (no, pool) in campaign.numbered_pools() {
        match &pool.kind {
            PoolKind::Schedule(schedule) => fill_windows(campaign, &pool.id, schedule, &seed),
            PoolKind::Deck(deck) => {
                deal_rounds(campaign, &pool.id, deck, &seed);
                assert!(summary.decks.iter().any(|plan| plan.pool == no));
            }
            PoolKind::Personal(_) => draw_alone(campaign, no, &seed),
        }
    }
}

/// Draws for a user: each result is a prize of the pool, and no guarantee is passed over.
fn draw_alone(campaign: &Campaign, pool: PoolNo, seed: &Seed) {
    let PoolKind::Personal(personal) = &campaign.pool(pool).kind else {
        return;
    };
    let user = UserChance::new(seed.clone(), "0".repeat(64));
    let mut progress = PoolProgress::default();
    for _ in 0..DRAWS_ALONE {
        let due = progress.counters(&personal.guarantees);
        let due = personal
            .guarantees
            .iter()
            .zip(due)
            .find(|(guarantee, counter)| {
                guarantee
                    .within
                    .is_some_and(|within| counter.since + 1 >= within)
            });
        let Some(draw) = user.draw(campaign, pool, &progress, |_| false) else {
            let is_grand = |prize| campaign.prize(prize).grand;
            assert!(personal.is_used_up(progress.position, is_grand));
            return;
        };
        if let Some((guarantee, _)) = due {
            let is_kept = draw
                .prize
                .is_some_and(|prize| guarantee.prizes.contains(&prize));
            assert!(is_kept, "{} is not kept: {draw:?}", guarantee.id);
        }
        assert!(
            draw.prize
                .is_none_or(|prize| personal.prizes().any(|own| own == prize))
        );
        progress = draw.after;
    }
}

fn fill_windows(campaign: &Campaign, pool: &PoolId, schedule: &Schedule, seed: &Seed) {
    let (start, end) = (campaign.start, campaign.end);
    let mut last = start;
    for window in campaign.zone.windows(start, start, end).take(WINDOWS_MAX) {
        assert!(window.start == last && window.start < window.end && window.end <= end);
        last = window.end;
        let granted = schedule.hourly(&window);
        let units: u64 = granted.values().sum();
        if units > UNITS_MAX {
            continue;
        }
        let (from, until) = (window.start, window.end);
        let releases = scatter(
            seed,
            &Fill {
                pool,
                window_start: window.start,
                generation: 0,
                from,
                until,
                granted: &granted,
            },
        );
        assert_eq!(releases.len() as u64, units);
        assert!(releases.is_sorted());
        assert!(releases.iter().all(|unit| (from..until).contains(&unit.at)));
    }
    share_out(campaign, pool, &schedule.total, seed);
}

fn share_out(campaign: &Campaign, pool: &PoolId, total: &Quantities, seed: &Seed) {
    if total.is_empty() {
        return;
    }
    let windows = campaign
        .zone
        .windows(campaign.start, campaign.start, campaign.end);
    let spans: Vec<(Moment, Moment)> = windows
        .take(SPANS_MAX)
        .map(|window| (window.start, window.end))
        .collect();
    for (prize, quantity) in total {
        if *quantity <= UNITS_MAX {
            let counts = totals(seed, pool, *prize, 1, *quantity, &spans);
            assert_eq!(counts.iter().sum::<u64>(), *quantity);
        }
    }
}

fn deal_rounds(campaign: &Campaign, pool: &PoolId, deck: &Deck, seed: &Seed) {
    let later = deck.later_round(|no| campaign.prize(no).grand);
    let size = |round: &[CardCount]| round.iter().map(|kind| kind.cards).sum::<u64>();
    let first = deck.first_round();
    assert_eq!(size(&first), deck.size);
    assert!(later.is_empty() || size(&later) == deck.size);
    for (number, round) in (1..).zip([first, later]) {
        let mut left = round.clone();
        for chunk in 0..2 {
            let most = size(&left).min(UNITS_MAX);
            let cards = deal(seed, pool, number, chunk, &left, UNITS_MAX as usize);
            assert_eq!(cards.len() as u64, most);
            let after = take(&left, &cards);
            assert_eq!(size(&after) + most, size(&left));
            left = after;
        }
    }
}

/// An id: text. What is accepted stays the same to the byte wherever it is written.
pub(crate) fn id(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else {
        return false;
    };
    let shown = visible(text);
    assert!(!shown.chars().any(char::is_control), "{shown:?}");
    assert!(shown.trim().len() == shown.len(), "{shown:?}");
    macro_rules! accepts {
        ($($id:ty),+) => {[$(
            <$id>::parse("id", text).is_ok_and(|id| {
                assert_eq!(id.as_str(), text);
                assert!(!id.to_string().is_empty());
                assert_json_reads_back(&id);
                true
            })
        ),+]};
    }
    let names = accepts!(CampaignId, EnvelopeId, PrizeId, PoolId);
    let foreign = accepts!(UserId, RequestId, OperatorId);
    assert!(names.iter().all(|accepted| *accepted == names[0]));
    assert!(foreign.iter().all(|accepted| *accepted == foreign[0]));
    assert!(
        foreign[0] || !names[0],
        "a name may be the id of a user too"
    );
    assert!(!foreign[0] || (1..=ID_BYTES_MAX).contains(&text.len()));
    if names[0] {
        assert_eq!(shown, text, "a name is shown as it is");
    }
    let pattern = Pattern::parse(text);
    if let Ok(pattern) = &pattern {
        assert_eq!(pattern.to_string(), text);
        let beginning = text.strip_suffix('*').unwrap_or(text);
        assert!(pattern.matches(beginning));
        assert_eq!(
            pattern.matches(&format!("{beginning}x")),
            text.ends_with('*')
        );
    }
    let unit = holds_for_units(text);
    let prefix = KeyPrefix::parse(text).is_ok_and(|prefix| prefix.as_str() == text);
    foreign[0] || pattern.is_ok() || unit || prefix
}

/// Whether a text is the id of a unit of some pool, which is then written back to the same text.
fn holds_for_units(text: &str) -> bool {
    let colons = text.match_indices(':').map(|(index, _)| index);
    let unit = |index: usize| {
        let pool = PoolId::parse("pool", &text[..index]).ok()?;
        let unit = Unit::from_id(text, pool.as_str())?;
        assert_eq!(unit.id(pool.as_str()), text);
        Some(unit)
    };
    colons.filter_map(unit).count() > 0
}
