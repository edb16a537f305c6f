//! The records of users, recomputed from their draws and grants (P5), and whom their pseudonyms
//! stand for.
//!
//! There may be as many users as entries. So what each did is noted, and read again once all
//! entries were seen, some users at a time.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{BuildHasher as _, RandomState},
    io,
};

use serde::{Deserialize, Serialize};

use super::{
    acts::{Act, Counted, stated},
    books::Books,
    findings::{Check, Findings},
    journal::Journal,
    own::OwnDraws,
};
use crate::{
    model::{Moment, UserId, limits::UserRecord, zone::Day},
    store::{
        LedgerId, Operation,
        entry::{Body, DrawEntry},
    },
};

/// A campaign of the audit, by a number of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) struct CampaignNo(pub(super) u32);

/// When something happened: the entry, its moment, and the local day of its campaign.
#[derive(Clone, Copy, Debug)]
pub(super) struct When {
    pub(super) entry: LedgerId,
    pub(super) at: Moment,
    pub(super) today: Day,
}

/// What an entry says of a user.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    /// A digest of the user and of where the user's id means the same person.
    user: u64,
    partition: u32,
    sequence: u64,
    what: What,
}

#[derive(Debug, Serialize, Deserialize)]
enum What {
    Acted {
        campaign: CampaignNo,
        at: Moment,
        today: i32,
        act: Act,
    },
    /// The column with the clear id has this digest.
    Named(u64),
}

/// The users of all campaigns and envelopes.
#[derive(Debug, Default)]
pub(super) struct Users {
    hasher: RandomState,
    notes: Journal<Note>,
    /// Pseudonyms whose earlier entries have clear ids: the user's key there. None if it is not
    /// known.
    earlier: HashMap<u64, Option<u64>>,
}

impl Users {
    /// Says who a user of a campaign was in earlier entries, which have clear ids; none if that is
    /// erased. Then the limits of the user's draws cannot be checked.
    pub(super) fn link(&mut self, campaign: CampaignNo, pseudonym: &str, clear: Option<&str>) {
        let before = clear.map(|clear| self.hasher.hash_one((campaign, clear)));
        let key = self.hasher.hash_one((campaign, pseudonym));
        self.earlier.entry(key).or_insert(before);
    }

    /// The key of a user; none if it is not known which earlier draws are theirs.
    fn key(&self, campaign: CampaignNo, user: &UserId) -> Option<u64> {
        let key = self.hasher.hash_one((campaign, user.as_str()));
        self.earlier.get(&key).copied().unwrap_or(Some(key))
    }

    /// Notes a draw, its wins that limits count, and its results if there are personal pools; false
    /// if its limits cannot be checked.
    pub(super) fn draw(
        &mut self,
        campaign: CampaignNo,
        when: When,
        draw: &DrawEntry,
        (counted, own): (Counted, Option<OwnDraws>),
    ) -> bool {
        let Some(user) = self.key(campaign, &draw.user) else {
            return false;
        };
        let act = Act::Draw {
            version: draw.version,
            funding: draw.funding,
            draws: draw.results.len() as u32,
            counted,
            stated: stated(&draw.counts),
            own: own.map(Box::new),
        };
        self.act(user, campaign, when, act);
        true
    }

    /// Notes the bonus draws of an entry, granted by an operator or by a caller.
    pub(super) fn grants(&mut self, campaign: CampaignNo, when: When, body: &Body) {
        match body {
            Body::Operated {
                operation:
                    Operation::Grant {
                        users,
                        draws,
                        expires,
                    },
                ..
            } => {
                let (draws, expires) = (*draws, *expires);
                for user in users {
                    let Some(user) = self.key(campaign, user) else {
                        continue;
                    };
                    self.act(user, campaign, when, Act::Grant { draws, expires });
                }
            }
            Body::Bonus(bonus) => {
                let act = Act::Bonus {
                    version: bonus.version,
                    draws: bonus.draws,
                    expires: bonus.expires,
                    stated: stated(&bonus.counts),
                };
                if let Some(user) = self.key(campaign, &bonus.user) {
                    self.act(user, campaign, when, act);
                }
            }
            _ => {}
        }
    }

    fn act(&mut self, user: u64, campaign: CampaignNo, when: When, act: Act) {
        let what = What::Acted {
            campaign,
            at: when.at,
            today: when.today.0,
            act,
        };
        self.note(user, when.entry, what);
    }

    /// Notes that a clear id stands beside a pseudonym. `scope` is where they belong together.
    pub(super) fn name(
        &mut self,
        scope: (u32, Option<&str>),
        entry: LedgerId,
        pseudonym: &str,
        clear: &str,
    ) {
        let [user, clear] = [pseudonym, clear].map(|id| self.hasher.hash_one((scope, id)));
        self.note(user, entry, What::Named(clear));
    }

    fn note(&mut self, user: u64, entry: LedgerId, what: What) {
        let note = Note {
            user,
            partition: entry.partition,
            sequence: entry.sequence,
            what,
        };
        self.notes.add(user, &note);
    }

    /// Whether everything was noted.
    ///
    /// # Errors
    /// A temporary file could not be written.
    pub(super) fn check(&mut self) -> io::Result<()> {
        self.notes.check()
    }

    /// Recomputes all records, and compares the limits of each version with them. `campaigns` has
    /// the books by number. Returns how many users of each campaign have drawn or were granted
    /// draws.
    ///
    /// # Errors
    /// A temporary file cannot be written or read.
    pub(super) fn finish(
        self,
        campaigns: &[&Books],
        findings: &mut Findings,
    ) -> io::Result<BTreeMap<CampaignNo, u64>> {
        let mut second = SecondLook {
            campaigns,
            findings,
            users: BTreeMap::new(),
            clear_ids: Journal::default(),
        };
        for part in self.notes.into_parts()? {
            let mut known = HashMap::<u64, Known>::new();
            for note in part? {
                let note = note?;
                second.take(known.entry(note.user).or_default(), note);
            }
        }
        let mut shared = 0;
        for part in second.clear_ids.into_parts()? {
            shared += repeated(part?.collect::<io::Result<_>>()?);
        }
        if shared > 0 {
            let text = format!("{shared} ids in the column user_id have several pseudonyms each");
            second.findings.add(Check::Sink, None, text);
        }
        Ok(second.users)
    }
}

/// How many digests are there several times.
fn repeated(mut ids: Vec<u64>) -> usize {
    ids.sort_unstable();
    let same = ids.chunk_by(|one, other| one == other);
    same.filter(|same| same.len() > 1).count()
}

/// What is known of a user while the notes are read.
#[derive(Debug, Default)]
struct Known {
    record: Option<UserRecord>,
    /// The digest of the clear id.
    clear: Option<u64>,
}

/// The notes are read again.
struct SecondLook<'a> {
    campaigns: &'a [&'a Books],
    findings: &'a mut Findings,
    users: BTreeMap<CampaignNo, u64>,
    /// The digest of each clear id, once for each of its pseudonyms.
    clear_ids: Journal<u64>,
}

impl SecondLook<'_> {
    fn take(&mut self, user: &mut Known, note: Note) {
        let entry = LedgerId {
            partition: note.partition,
            sequence: note.sequence,
        };
        match note.what {
            What::Acted {
                campaign,
                at,
                today,
                act,
            } => {
                let record = user.record.take().unwrap_or_else(|| {
                    *self.users.entry(campaign).or_default() += 1;
                    UserRecord::default()
                });
                let mut record = record.on(Day(today), at);
                let books = self.campaigns[campaign.0 as usize];
                for (check, text) in act.book(&mut record, books, at) {
                    let text = format!("campaign {}: {text}", books.id());
                    self.findings.add(check, Some(entry), text);
                }
                user.record = Some(record);
            }
            What::Named(clear) => match user.clear {
                None => {
                    user.clear = Some(clear);
                    self.clear_ids.add(clear, &clear);
                }
                Some(known) if known == clear => {}
                Some(_) => {
                    let text =
                        "its column user_id is not that of other entries of the same pseudonym";
                    self.findings.add(Check::Sink, Some(entry), text);
                }
            },
        }
    }
}
