//! Personal pools and their guarantees.

use std::collections::BTreeMap;

use super::{
    deck,
    odds::{self, Odds},
    prizes::Prizes,
    report::{at, noted},
    wire::deck_to_proto,
};
use crate::{
    model::{
        campaign::PoolKind,
        id::GuaranteeId,
        number::PrizeNo,
        personal::{
            GUARANTEES_MAX, Guarantee, GuaranteeKey, PERSONAL_DECK_MAX, Personal, PersonalKind,
            PersonalOdds, RAMP_MAX, Ramp, Share, WITHIN_MAX, odds as shares,
        },
        problem::Problems,
        text::grouped,
    },
    proto,
};

/// The highest common denominator of odds, so that products with shares stay exact.
const DENOMINATOR_MAX: u64 = 1_000_000_000_000;
/// The same of shares that ramps add.
const SHARE_MAX: u64 = 1_000_000;

/// Reads a personal pool and notes its problems; none if it says of no draw what it gives.
pub(super) fn read(
    path: &str,
    message: &proto::PersonalPool,
    prizes: &Prizes<'_>,
    problems: &mut Problems,
) -> Option<Personal> {
    let kind = match (&message.deck, message.odds.is_empty()) {
        (None, false) => read_odds(&at(path, "odds"), &message.odds, prizes, problems),
        (Some(deck), true) => read_deck(&at(path, "deck"), deck, prizes, problems),
        (None, true) => {
            problems.add(path, "has neither odds nor a deck: add one of them");
            None
        }
        (Some(_), false) => {
            problems.add(path, "has both odds and a deck: leave one of them out");
            None
        }
    };
    if message.deck.is_some() && !message.guarantees.is_empty() {
        problems.add(
            at(path, "guarantees"),
            "go with odds only: a deck is exact without them",
        );
    }
    let mut guarantees = Vec::new();
    let read = (0..).zip(&message.guarantees);
    // A campaign has fewer in all; how many too many is noted there.
    for (i, message) in read.take(GUARANTEES_MAX) {
        let path = format!("{}[{i}]", at(path, "guarantees"));
        guarantees.extend(read_guarantee(&path, message, prizes, problems));
    }
    check_splits(&at(path, "guarantees"), &guarantees, prizes, problems);
    let fallback = read_fallback(path, &message.fallback, &guarantees, prizes, problems);
    let personal = Personal {
        kind: kind?,
        fallback,
        guarantees,
    };
    check_codes(path, &personal, prizes, problems);
    Some(personal)
}

fn read_odds(
    path: &str,
    map: &BTreeMap<String, String>,
    prizes: &Prizes<'_>,
    problems: &mut Problems,
) -> Option<PersonalKind> {
    let before = problems.0.len();
    let odds = prizes.read_map(path, map, problems, |path, text, problems| {
        let odds = odds::parse(text);
        odds.map_err(|message| problems.add(path, message)).ok()
    });
    let weights = odds::weights(&odds).map_err(|message| problems.add(path, message));
    let mut weights = weights.ok().filter(|_| problems.0.len() == before)?;
    let all: u64 = weights.iter().sum();
    if all > DENOMINATOR_MAX {
        let (all, most) = (grouped(all), grouped(DENOMINATOR_MAX));
        let text = format!("have the common denominator {all}: at most {most}, write fewer digits");
        problems.add(path, text);
        return None;
    }
    let blanks = weights.pop()?;
    let written = odds
        .keys()
        .map(|no| (*no, map[prizes.id(*no)].trim().to_owned()));
    Some(PersonalKind::Odds(PersonalOdds {
        written: written.collect(),
        weights: odds.into_keys().zip(weights).collect(),
        blanks,
    }))
}

fn read_deck(
    path: &str,
    message: &proto::Deck,
    prizes: &Prizes<'_>,
    problems: &mut Problems,
) -> Option<PersonalKind> {
    let deck = deck::read(path, message, prizes, problems)?;
    if deck.size > PERSONAL_DECK_MAX {
        let (size, most) = (grouped(deck.size), grouped(PERSONAL_DECK_MAX));
        let text = format!("{size} is too much: a personal deck has at most {most} cards");
        problems.add(at(path, "size"), text);
        return None;
    }
    Some(PersonalKind::Deck(deck))
}

/// Reads the guarantees of a campaign, with which its pools decide what else a draw gives: there is
/// no chance that could be raised, or split.
pub(super) fn read_of_campaign(
    messages: &[proto::Guarantee],
    prizes: &Prizes<'_>,
    problems: &mut Problems,
) -> Vec<Guarantee> {
    let mut guarantees = Vec::new();
    let read = (0..).zip(messages);
    for (i, message) in read.take(GUARANTEES_MAX) {
        let (path, before) = (format!("guarantees[{i}]"), problems.0.len());
        let (id, listed) = read_promise(&path, message, prizes, problems);
        if message.within == 0 {
            let text = "is missing: write the number of the draw that gives one of the prizes";
            problems.add(at(&path, "within"), text);
        }
        for (name, is_empty) in [
            ("ramp", message.ramp.is_empty()),
            ("among", message.among.is_empty()),
        ] {
            if !is_empty {
                let text = "goes with personal pools only: the pools of a campaign decide what \
                            else a draw gives; move the guarantee into a personal pool, or leave \
                            it out";
                problems.add(at(&path, name), text);
            }
        }
        for (i, prize) in (0..).zip(&listed) {
            if prizes.has_codes(*prize) {
                let text = "has codes: prizes with codes are not supported here";
                problems.add(format!("{}[{i}]", at(&path, "prizes")), text);
            }
        }
        let is_sound = problems.0.len() == before;
        guarantees.extend(id.filter(|_| is_sound).map(|id| Guarantee {
            id,
            prizes: listed,
            within: Some(message.within),
            ramp: Vec::new(),
            among: Vec::new(),
        }));
    }
    guarantees
}

/// Reads what every guarantee has: its id and its prizes. Checks the bound of `within`.
fn read_promise(
    path: &str,
    message: &proto::Guarantee,
    prizes: &Prizes<'_>,
    problems: &mut Problems,
) -> (Option<GuaranteeId>, Vec<PrizeNo>) {
    let id = noted(GuaranteeId::parse(&at(path, "id"), &message.id), problems);
    let listed = prizes.read_list(&at(path, "prizes"), &message.prizes, problems);
    if message.prizes.is_empty() {
        problems.add(at(path, "prizes"), "is empty: name the prizes that keep it");
    }
    if message.within > WITHIN_MAX {
        let most = grouped(WITHIN_MAX.into());
        problems.add(at(path, "within"), format!("is too much: at most {most}"));
    }
    (id, listed)
}

fn read_guarantee(
    path: &str,
    message: &proto::Guarantee,
    prizes: &Prizes<'_>,
    problems: &mut Problems,
) -> Option<Guarantee> {
    let before = problems.0.len();
    let (id, listed) = read_promise(path, message, prizes, problems);
    let among = prizes.read_list(&at(path, "among"), &message.among, problems);
    if let Some(i) = among.iter().position(|prize| !listed.contains(prize)) {
        problems.add(
            format!("{}[{i}]", at(path, "among")),
            "is not one of the guarantee's prizes: add it there, or leave it out",
        );
    } else if !among.is_empty() && among.len() >= listed.len() {
        problems.add(
            at(path, "among"),
            "has all of the guarantee's prizes: leave it out, or some of them",
        );
    }
    let ramp = read_ramp(&at(path, "ramp"), &message.ramp, problems);
    if message.within == 0 && message.ramp.is_empty() && message.among.is_empty() {
        problems.add(path, "promises nothing: add within, ramp or among");
    }
    for (i, prize) in (0..).zip(&listed) {
        if let Some(flaw) = prizes.not_guaranteed(*prize) {
            problems.add(format!("{}[{i}]", at(path, "prizes")), flaw);
        }
    }
    (problems.0.len() == before).then_some(Guarantee {
        id: id?,
        prizes: listed,
        within: Some(message.within).filter(|within| *within > 0),
        ramp,
        among,
    })
}

fn read_ramp(path: &str, messages: &[proto::Ramp], problems: &mut Problems) -> Vec<Ramp> {
    if messages.len() > RAMP_MAX {
        let count = messages.len();
        problems.add(path, format!("has {count} entries: at most {RAMP_MAX}"));
        return Vec::new();
    }
    let (mut ramp, mut last) = (Vec::new(), 0);
    for (i, message) in messages.iter().enumerate() {
        let path = format!("{path}[{i}]");
        if message.from == 0 || message.from > WITHIN_MAX {
            let most = grouped(WITHIN_MAX.into());
            let text = format!("{} is not a draw's number: 1 to {most}", message.from);
            problems.add(at(&path, "from"), text);
        } else if message.from <= last {
            let text = format!("{} is not after {last}, the entry before", message.from);
            problems.add(at(&path, "from"), text);
        }
        last = last.max(message.from);
        match odds::parse(&message.add) {
            Ok(Odds { denominator, .. }) if denominator > SHARE_MAX => {
                problems.add(at(&path, "add"), "has more than four decimals");
            }
            Ok(add) => ramp.push(Ramp {
                from: message.from,
                add: Share {
                    numerator: add.numerator,
                    denominator: add.denominator,
                },
                written: message.add.trim().to_owned(),
            }),
            Err(flaw) => problems.add(at(&path, "add"), flaw),
        }
    }
    // Each share is a number of millionths, so their common denominator is no more than that.
    if ramp
        .iter()
        .any(|it| !SHARE_MAX.is_multiple_of(it.add.denominator))
    {
        problems.add(
            path,
            "adds a fraction that is no percentage with four decimals",
        );
    }
    ramp
}

/// What is given surely after it was missed must be clear.
fn check_splits(
    path: &str,
    guarantees: &[Guarantee],
    prizes: &Prizes<'_>,
    problems: &mut Problems,
) {
    let split = || guarantees.iter().filter(|it| !it.among.is_empty());
    for (index, guarantee) in split().enumerate() {
        let mut others = split().skip(index + 1).flat_map(|other| &other.prizes);
        if let Some(prize) = others.find(|prize| guarantee.prizes.contains(prize)) {
            let id = prizes.id(*prize);
            let text = format!("{id} is in two guarantees with `among`: leave it in one of them");
            problems.add(path, text);
        }
    }
}

fn read_fallback(
    path: &str,
    id: &str,
    guarantees: &[Guarantee],
    prizes: &Prizes<'_>,
    problems: &mut Problems,
) -> Option<PrizeNo> {
    if id.is_empty() {
        return None;
    }
    let path = at(path, "fallback");
    let Some(known) = prizes.no(id) else {
        problems.add(path, prizes.unknown(id));
        return None;
    };
    if guarantees.iter().any(|it| it.prizes.contains(&known)) {
        problems.add(
            path,
            "is a prize of a guarantee: name one that no guarantee has",
        );
        return None;
    }
    Some(known)
}

/// A code must be given once even after draws were lost, which units off stock cannot promise.
fn check_codes(path: &str, personal: &Personal, prizes: &Prizes<'_>, problems: &mut Problems) {
    let mut coded = personal.prizes().filter(|prize| prizes.has_codes(*prize));
    if let Some(prize) = coded.next() {
        let id = prizes.id(prize);
        let text = format!("gives {id}, which has codes: prizes with codes are not supported here");
        problems.add(path, text);
    }
}

/// Notes what is wrong with all guarantees together: how many there are, ids that are there twice,
/// and counters with too many states.
pub(super) fn check_guarantees(message: &proto::Campaign, problems: &mut Problems) {
    let mut known = BTreeMap::<u32, String>::new();
    let mut lists = vec![("guarantees".to_owned(), &message.guarantees)];
    for (i, pool) in message.pools.iter().enumerate() {
        if let Some(proto::pool::Kind::Personal(personal)) = &pool.kind {
            lists.push((
                format!("pools[{i}].personal.guarantees"),
                &personal.guarantees,
            ));
        }
    }
    let mut count = 0;
    for (path, guarantees) in &lists {
        for (j, guarantee) in guarantees.iter().enumerate() {
            count += 1;
            let path = format!("{path}[{j}]");
            let Ok(id) = GuaranteeId::parse("", &guarantee.id) else {
                continue;
            };
            if let Some(first) = known.insert(GuaranteeKey::of(&id).0, path.clone()) {
                // Two ids with the same key would share their counters.
                let text = format!("{id:?} is already the id of {first}: ids are unique");
                problems.add(at(&path, "id"), text);
            }
        }
    }
    if count > GUARANTEES_MAX {
        let path = match message.guarantees.is_empty() {
            true => "pools",
            false => "guarantees",
        };
        let text =
            format!("{count} guarantees are too many: a campaign has at most {GUARANTEES_MAX}");
        problems.add(path, text);
    }
}

/// Notes personal pools whose odds cannot be computed.
pub(super) fn check_states(kinds: &[Option<PoolKind>], problems: &mut Problems) {
    for (i, kind) in kinds.iter().enumerate() {
        if let Some(PoolKind::Personal(personal)) = kind
            && let PersonalKind::Odds(odds) = &personal.kind
            && shares::check(personal, odds).is_err()
        {
            // A ramp alone counts until the chance has risen to 1.
            let by_ramp = personal.guarantees.iter().filter(|guarantee| {
                let within = guarantee.within.unwrap_or(1);
                guarantee.last_draw() > within
            });
            let by_ramp = by_ramp.map(|guarantee| {
                let last = grouped(guarantee.last_draw().into());
                format!("the ramp of {} counts up to draw {last}", guarantee.id)
            });
            let by_ramp: Vec<_> = by_ramp.collect();
            let advice = match by_ramp.is_empty() {
                true => "lower `within`, or have fewer of them".to_owned(),
                false => format!(
                    "{}: let it rise faster or begin earlier, lower `within`, or have fewer \
                     guarantees",
                    by_ramp.join(", ")
                ),
            };
            problems.add(
                format!("pools[{i}].personal.guarantees"),
                format!("have more counters together than odds can be computed of: {advice}"),
            );
        }
    }
}

/// A personal pool as a proto message.
pub(super) fn to_proto(personal: &Personal, id: impl Fn(PrizeNo) -> String) -> proto::PersonalPool {
    let mut message = proto::PersonalPool {
        fallback: personal.fallback.map(&id).unwrap_or_default(),
        guarantees: guarantees_to_proto(&personal.guarantees, &id),
        ..proto::PersonalPool::default()
    };
    match &personal.kind {
        PersonalKind::Odds(odds) => {
            let written = odds.written.iter();
            message.odds = written.map(|(no, text)| (id(*no), text.clone())).collect();
        }
        PersonalKind::Deck(deck) => message.deck = Some(deck_to_proto(deck, &id)),
    }
    message
}

/// Guarantees as proto messages, with the ids that `id` has for prizes.
pub fn guarantees_to_proto(
    guarantees: &[Guarantee],
    id: impl Fn(PrizeNo) -> String,
) -> Vec<proto::Guarantee> {
    let ids = |prizes: &[PrizeNo]| prizes.iter().copied().map(&id).collect();
    let guarantees = guarantees.iter().map(|guarantee| proto::Guarantee {
        id: guarantee.id.to_string(),
        prizes: ids(&guarantee.prizes),
        within: guarantee.within.unwrap_or(0),
        ramp: guarantee
            .ramp
            .iter()
            .map(|ramp| proto::Ramp {
                from: ramp.from,
                add: ramp.written.clone(),
            })
            .collect(),
        among: ids(&guarantee.among),
    });
    guarantees.collect()
}
