//! The lanes of draws (see [`batch`]): the arguments of the draw script, and how its replies are
//! read.

use std::sync::Arc;

use tracing::error;

use super::{
    bonus::{Answer, Ask, lifecycle, read_grant},
    guesses::{learned, plans},
};
use crate::store::redis::{
    batch::{self, Call},
    core::Core,
    format::{
        codec::Unpacker,
        keys::{IdDigest, RequestField, request_field},
        plans::{Over, decode_guess},
        record::{self, Remembered},
        reply::{self, Parts, unexpected},
        scripts,
        words::Words,
    },
    lane,
    step::{decide::contended, layout::Layout},
};
use crate::{
    model::{CampaignId, Moment, PoolNo},
    store::{
        DrawAnswer, DrawCommand, Drawn, LedgerId, Need, Refusal, Result, StoreError, rules,
        view::Lifecycle,
    },
};

/// Estimates for allocation: the bytes of a bucket's key, and of the arguments of one draw.
const KEY_BYTES: usize = 48;
const ARG_BYTES: usize = 64;
/// How often a draw is planned anew because another service has drawn for the same user, prizes
/// were held or released in between each time, or one of its own wins makes the budget hold a
/// prize.
const GUESSES_MAX: usize = 64;

/// A draw or a grant that waits for its reply.
pub(crate) struct Job {
    pub(super) user: IdDigest,
    request: RequestField,
    pub(super) ask: Ask,
    /// What earlier attempts of the draw have found the budget to hold.
    pub(super) over: Vec<Over>,
}

impl Job {
    pub(super) fn new(ask: Ask) -> Self {
        let (user, request) = ask.name();
        Self {
            request: request_field(user, request),
            user: IdDigest::user(user),
            ask,
            over: Vec::new(),
        }
    }
}

impl Call for Job {
    type Answer = Answer;
    type Subject = CampaignId;
    type Known = Arc<Layout>;
    const SCRIPT: &'static str = "draw";

    fn subject(&self) -> &CampaignId {
        self.ask.campaign()
    }

    fn units(&self) -> usize {
        self.ask.units()
    }

    fn is_late(&self, now: Moment) -> bool {
        now > self.ask.not_after()
    }

    fn known(&self, core: &Core) -> Option<Arc<Layout>> {
        core.layouts.get(self.subject())
    }

    async fn read(core: &Core, ids: &[CampaignId]) -> Vec<Result<Arc<Layout>>> {
        core.read_layouts(ids).await
    }

    async fn send(core: &Core, groups: &mut [Group]) -> Result<(Moment, Parts)> {
        send(core, groups).await
    }

    fn answers(
        core: &Core,
        group: &Group,
        now: Moment,
        reply: redis::Value,
    ) -> Result<Option<Vec<Result<Answer>>>> {
        let id = &group.known.campaign.id;
        let about = |error: StoreError| error.about(format_args!("campaign {id}"));
        let mut answers = read_group(core, group, now, reply).map_err(about)?;
        for answer in answers.iter_mut().flatten() {
            if let Err(error) = answer {
                *error = about(error.clone());
            }
        }
        Ok(answers)
    }

    fn repeated(answer: &Answer) -> Option<&LedgerId> {
        match answer {
            Answer::Drawn(Drawn::Done(drawn)) if drawn.replayed => Some(&drawn.ledger),
            Answer::Granted(granted) if granted.replayed => Some(&granted.ledger),
            _ => None,
        }
    }
}

/// The draws of a campaign in a batch.
pub(super) type Group = batch::Group<Job>;

/// The lanes of draws.
pub(crate) type Lanes = lane::Lanes<Job>;

impl Lanes {
    /// Sends a draw through its lane, again if it was planned from something else than what is
    /// stored.
    pub(crate) async fn draw(&self, core: &Core, command: &Arc<DrawCommand>) -> Result<Drawn> {
        let partition = core.partition(&command.campaign).number;
        let mut over = Vec::new();
        for _ in 0..GUESSES_MAX {
            let job = Job {
                over: over.clone(),
                ..Job::new(Ask::Draw(Arc::clone(command)))
            };
            match self.call(partition, job.user.hash(), job).await? {
                // Boxed, as it is rare: else every draw's future has room for it.
                Answer::Drawn(Drawn::Done(answer)) if answer.replayed => {
                    return Box::pin(replayed(core, answer)).await;
                }
                Answer::Drawn(drawn) => return Ok(drawn),
                // Only draws that can be planned can be planned again.
                Answer::WrongGuess(_) if command.chance.is_none() => return Ok(Drawn::NeedChance),
                Answer::WrongGuess(found) => over = learned(over, found),
                Answer::Granted(_) => return Err(unexpected("draw").after_write()),
            }
        }
        Err(contended())
    }
}

/// A replayed draw with the definition of its version.
async fn replayed(core: &Core, answer: DrawAnswer) -> Result<Drawn> {
    let campaign = core.definition(&answer.campaign.id, answer.entry.version);
    // The draw was made before, whatever hides its answer now.
    let campaign = campaign
        .await
        .map_err(|error| error.of_recorded_version().after_write())?;
    let checked = answer.entry.check(&campaign);
    checked.map_err(StoreError::after_write)?;
    Ok(Drawn::Done(DrawAnswer { campaign, ..answer }))
}

/// Learns from a reply how far a user is in personal pools. The answer if it is the reply to a draw
/// that was planned from something else.
fn learn(core: &Core, group: &Group, user: IdDigest, reply: &Reply<'_>) -> Result<Option<Answer>> {
    let guessed = group.known.guessed.as_ref();
    match reply {
        Reply::Made(drawn) => {
            if let Some(guessed) = guessed {
                core.recent.put(guessed, user, drawn.progress());
            }
            Ok(None)
        }
        Reply::Other(b'G', stored) => {
            let guessed = guessed.ok_or_else(|| unexpected("personal pool"))?;
            let stored = decode_guess(stored, guessed.is_watched())?;
            guessed.put(stored.held, stored.over.as_ref());
            core.recent.put(guessed, user, &stored.progress);
            Ok(Some(Answer::WrongGuess(stored.over)))
        }
        Reply::Other(..) => Ok(None),
    }
}

/// One call of the draw script; the store's time and a reply for each group.
async fn send(core: &Core, groups: &[Group]) -> Result<(Moment, Parts)> {
    let partition = &groups[0].known.partition;
    let draws: usize = groups.iter().map(Group::len).sum();
    let mut keys = Words::with_capacity(draws + 32, draws * KEY_BYTES + 1024);
    let mut args = Words::with_capacity(draws * 2 + 32, draws * ARG_BYTES + 1024);
    keys.push(&partition.partition);
    keys.push(&partition.ledger);
    args.write(format_args!("{}", core.request_memory.as_micros()));
    args.push(&*core.backlog_argument());
    args.write(format_args!("{}", groups.len()));
    for group in groups {
        group.push_arguments(core, &mut keys, &mut args)?;
    }
    core.run(partition, &scripts::DRAW, keys, args).await
}

impl Group {
    /// Adds the keys and arguments of a campaign and its draws.
    fn push_arguments(&self, core: &Core, keys: &mut Words, args: &mut Words) -> Result<()> {
        let layout = &self.known;
        keys.push(&layout.keys.campaign);
        keys.push(&layout.keys.blocked);
        keys.push(&layout.keys.long);
        for pool in &layout.pools {
            if pool.is_schedule {
                keys.push(&pool.wins);
            }
            for queue in &pool.queues {
                keys.push(&queue.key);
            }
        }
        args.push(layout.campaign.id.as_str());
        args.write(format_args!("{}", layout.version));
        args.push(&layout.blob);
        args.push(layout.days(core.clock.last_seen(layout.partition.number)));
        let (hashes, hash_of) = layout
            .keys
            .push_users(keys, self.calls().map(|job| job.user));
        args.write(format_args!("{hashes}"));
        args.write(format_args!("{}", self.len()));
        args.push(hash_of);
        let requests = Requests::of(self)?;
        args.write(format_args!("{}", requests.earliest.as_micros()));
        for blob in [
            &requests.not_after,
            &requests.kinds,
            &requests.kind_of,
            &requests.parts,
            &requests.lengths,
            &plans(&core.recent, self),
        ] {
            args.push(blob);
        }
        for job in self.calls() {
            layout.keys.push_older(keys, job.user.bucket);
            args.push(job.user.field);
            args.push(job.request);
        }
        Ok(())
    }
}

/// The requests of a group's draws, as the script takes them: each field has one value per draw.
struct Requests {
    earliest: Moment,
    not_after: Vec<u8>,
    kinds: Vec<u8>,
    kind_of: Vec<u8>,
    parts: Vec<u8>,
    lengths: Vec<u8>,
}

impl Requests {
    fn of(group: &Group) -> Result<Self> {
        let too_much = |_| StoreError::corrupt("a draw asks for more than its batch can hold");
        let (jobs, campaign) = (group.len(), &*group.known.campaign);
        let mut requests = Self {
            earliest: record::LAST_MOMENT,
            not_after: Vec::with_capacity(jobs * 8),
            kinds: Vec::new(),
            kind_of: Vec::with_capacity(jobs),
            parts: Vec::with_capacity(jobs * ARG_BYTES),
            lengths: Vec::with_capacity(jobs * 2),
        };
        let mut kinds: Vec<Vec<u8>> = Vec::new();
        for job in group.calls() {
            let not_after = job.ask.not_after().min(record::LAST_MOMENT);
            requests.earliest = requests.earliest.min(not_after);
            requests
                .not_after
                .extend(not_after.as_micros().unsigned_abs().to_be_bytes());
            let kind = job.ask.encode_kind(campaign);
            let known = kinds.iter().position(|known| *known == kind);
            let index = known.unwrap_or_else(|| {
                kinds.push(kind);
                kinds.len() - 1
            });
            // A batch has at most as many jobs as a byte has values.
            requests
                .kind_of
                .push(u8::try_from(index).map_err(too_much)?);
            let before = requests.parts.len();
            job.ask.encode_part(campaign, &mut requests.parts);
            let length = u16::try_from(requests.parts.len() - before).map_err(too_much)?;
            requests.lengths.extend(length.to_be_bytes());
        }
        requests.kinds = kinds.concat();
        Ok(requests)
    }
}

/// The answers of a group; none if it must be sent again.
fn read_group(
    core: &Core,
    group: &Group,
    now: Moment,
    value: redis::Value,
) -> Result<Option<Vec<Result<Answer>>>> {
    let id = &group.known.campaign.id;
    if let redis::Value::BulkString(text) = &value {
        return match text.split_first() {
            // It is read again, which says why it is not there.
            Some((b'M' | b'V', _)) => {
                core.layouts.forget(id);
                Ok(None)
            }
            // Another day: the reply has brought the partition's time, so the next call has it.
            Some((b'Y', _)) => Ok(None),
            Some((b'X', flaw)) => Err(unreadable(id, &String::from_utf8_lossy(flaw))),
            _ => Err(unexpected("known letter of a campaign").after_write()),
        };
    }
    // From here on the script may have written: what cannot be read may have been drawn.
    let (replies, low) = read_parts(value).map_err(StoreError::after_write)?;
    let mut running_low = read_pools(&low).unwrap_or_else(|error| {
        error!(campaign = %id, %error, "campaign {id}: which decks run low cannot be read");
        Vec::new()
    });
    let mut replies = Replies {
        rest: Unpacker::new(&replies),
        lost: None,
    };
    let mut answers = Vec::with_capacity(group.len());
    for job in group.calls() {
        let reply = replies.next(job);
        answers.push(reply.and_then(|reply| match &job.ask {
            Ask::Draw(command) => {
                let wrong = learn(core, group, job.user, &reply);
                if let Some(wrong) = wrong.map_err(StoreError::after_write)? {
                    return Ok(wrong);
                }
                let drawn = read_draw(&group.known, command, now, reply, &mut running_low);
                drawn.map(Answer::Drawn)
            }
            Ask::Grant(command) => {
                read_grant(&group.known, command, now, reply).map(Answer::Granted)
            }
        }));
    }
    if let (Some(last), Some(error)) = (answers.last_mut(), replies.left_over()) {
        *last = Err(error);
    }
    Ok(Some(answers))
}

fn read_parts(value: redis::Value) -> Result<(Vec<u8>, Vec<u8>)> {
    let mut parts = Parts::of(value)?;
    Ok((reply::bytes(parts.next()?)?, reply::bytes(parts.next()?)?))
}

fn read_pools(bytes: &[u8]) -> Result<Vec<PoolNo>> {
    let mut low = Unpacker::new(bytes);
    let mut pools = Vec::new();
    while !low.is_done() {
        pools.push(PoolNo(low.int()?));
    }
    Ok(pools)
}

/// The script's reply to one draw.
#[expect(
    clippy::large_enum_variant,
    reason = "one lives at a time, and most are the large one"
)]
pub(super) enum Reply<'a> {
    /// The draw was made; this is what the user's record keeps of it.
    Made(Remembered),
    /// A letter (see `draw.lua`), and the bytes that follow it.
    Other(u8, &'a [u8]),
}

/// The replies to the draws of a campaign, one after another.
struct Replies<'a> {
    rest: Unpacker<'a>,
    /// Why one of them could not be read. Its end, and so the begin of the next one, is unknown.
    lost: Option<StoreError>,
}

impl<'a> Replies<'a> {
    /// The reply to the next draw.
    fn next(&mut self, job: &Job) -> Result<Reply<'a>> {
        if let Some(lost) = &self.lost {
            return Err(lost.clone());
        }
        let reply = match self.rest.letter() {
            None => {
                record::decode_drawn(&mut self.rest, &job.request, job.ask.what()).map(Reply::Made)
            }
            Some(letter) => self
                .rest
                .detail()
                .map(|detail| Reply::Other(letter, detail)),
        };
        reply.map_err(|error| {
            let error = error.after_write();
            self.lost = Some(error.clone());
            error
        })
    }

    /// The error if the reply goes on after the last draw.
    fn left_over(self) -> Option<StoreError> {
        let is_over = self.lost.is_some() || self.rest.is_done();
        (!is_over).then(|| unexpected("end").after_write())
    }
}

/// What a script found under the keys of a campaign is not what it left there; it has written
/// nothing.
fn unreadable(id: &CampaignId, text: &str) -> StoreError {
    StoreError::corrupt(format!(
        "the keys of campaign {id} in Redis hold something else than tombola wrote ({text}); \
         nothing is drawn from it until they are restored"
    ))
}

fn read_draw(
    layout: &Layout,
    command: &DrawCommand,
    now: Moment,
    reply: Reply<'_>,
    running_low: &mut Vec<PoolNo>,
) -> Result<Drawn> {
    let campaign = &layout.campaign;
    let done = |remembered: Remembered, replayed, running_low| DrawAnswer {
        ledger: LedgerId {
            partition: layout.partition.number,
            sequence: remembered.sequence,
        },
        at: remembered.at,
        replayed,
        campaign: Arc::clone(campaign),
        entry: Arc::new(remembered.into_entry(
            command.user.clone(),
            command.request.clone(),
            command.payment_ref.clone(),
        )),
        running_low,
    };
    let (letter, rest) = match reply {
        Reply::Made(drawn) => {
            let answer = done(drawn, false, std::mem::take(running_low));
            let checked = answer.entry.check(campaign);
            checked.map_err(StoreError::after_write)?;
            return Ok(Drawn::Done(answer));
        }
        Reply::Other(letter, rest) => (letter, rest),
    };
    match letter {
        // It was made by an earlier attempt.
        b'R' => record::decode_remembered(rest)
            .map(|remembered| Drawn::Done(done(remembered, true, Vec::new())))
            .map_err(StoreError::after_write),
        b'F' => {
            let mut need = Unpacker::new(rest);
            let need = Need {
                pool: PoolNo(need.int()?),
                cards: need.int()?,
            };
            Ok(Drawn::NeedFill(vec![need]))
        }
        b'U' => Err(Refusal::RequestIdReused.into()),
        b'B' => Err(Refusal::LedgerBacklog.into()),
        b'P' => Err(Refusal::DeadlineExceeded.into()),
        b'E' => Err(match command.expire {
            Some(expire) => Refusal::Expired(expire).into(),
            None => StoreError::corrupt("a draw that does not expire has expired"),
        }),
        b'A' => Err(not_admitted(layout, lifecycle(rest)?, now)),
        b'Q' => {
            let stored = record::decode_record(rest)?.record;
            Err(
                match rules::admit_user(campaign, command, Some(stored), now) {
                    Err(refused) => refused,
                    Ok(_) => StoreError::corrupt("a limit that was reached is not"),
                },
            )
        }
        _ => Err(unexpected("known code of a draw").after_write()),
    }
}

fn not_admitted(layout: &Layout, lifecycle: Lifecycle, now: Moment) -> StoreError {
    match lifecycle.admits_draws(&layout.campaign, now) {
        Err(refusal) => refusal.into(),
        Ok(()) => StoreError::corrupt("a campaign that takes draws refused one"),
    }
}

#[cfg(test)]
#[path = "lanes_tests.rs"]
mod tests;
