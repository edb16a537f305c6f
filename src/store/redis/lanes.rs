//! The lanes of draws: while one batch of a lane is at Redis, arriving draws queue; the next batch takes them all, up to a bound.
//!
//! A user is always in the same lane of a partition, so the user's draws are never reordered; a few lanes keep a few batches in
//! flight. No timer, no added wait.

use std::{collections::HashMap, sync::Arc};

use tokio::sync::{mpsc, oneshot};

use super::{
    campaign::Layout,
    codec::{self, Unpacker},
    core::{Core, letter, told},
    keys::{Field, Place, request_field},
    record::{self, Remembered},
    reply::{self, Parts, unexpected},
    scripts,
    words::Words,
};
use crate::{
    model::{CampaignId, Moment, PoolNo},
    store::{
        DrawAnswer, DrawCommand, Drawn, Executed, LedgerId, Need, Refusal, Result, StoreError,
        view::Lifecycle,
    },
};

/// Batches of a partition that are at Redis at once.
const LANES: usize = 2;
/// Calls that may wait in a lane; one more is refused at once.
const WAITING_MAX: usize = 8192;
/// Draws of one batch (a call of `count` draws is that many): a script of about two milliseconds. More would save little, and the
/// kind of each is told in a byte.
const BATCH_UNITS_MAX: usize = 256;
/// Room for the key of a user's bucket, and for what is told of a draw.
const KEY_BYTES: usize = 48;
const ARG_BYTES: usize = 64;
/// How often a batch is sent again since a version or a day has changed in between.
const ROUNDS_MAX: usize = 8;

/// A draw on its way.
struct Job {
    user: Place,
    request: Field,
    command: DrawCommand,
    reply: oneshot::Sender<Result<Drawn>>,
}

/// The lanes of all partitions.
pub(super) struct Lanes {
    senders: Vec<mpsc::Sender<Job>>,
}

impl Lanes {
    /// Starts the lanes; they end when they are dropped and what waits is done.
    pub(super) fn start(core: &Arc<Core>) -> Self {
        let lanes = (0..core.partitions.len() * LANES).map(|_| {
            let (sender, receiver) = mpsc::channel(WAITING_MAX);
            tokio::spawn(run(Arc::clone(core), receiver));
            sender
        });
        Self {
            senders: lanes.collect(),
        }
    }

    /// Sends a draw through its lane. A caller that goes away leaves nothing half done: the draw is made whole, or not begun.
    pub(super) async fn draw(&self, core: &Core, command: DrawCommand) -> Result<Drawn> {
        let partition = core.partition(&command.campaign).number as usize;
        let user = Place::user(&command.user);
        let lane = &self.senders[partition * LANES + usize::from(user.field[0]) % LANES];
        let (reply, answer) = oneshot::channel();
        let job = Job {
            request: request_field(&command.user, &command.request),
            user,
            command,
            reply,
        };
        lane.try_send(job).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => StoreError::Overloaded,
            mpsc::error::TrySendError::Closed(_) => stopped(Executed::No),
        })?;
        let drawn = answer
            .await
            .unwrap_or_else(|_| Err(stopped(Executed::Unknown)))?;
        match drawn {
            Drawn::Done(answer) if answer.replayed => {
                let id = &answer.campaign.id;
                // Boxed, as it is rare: else every draw's future has room for it.
                let campaign = Box::pin(core.definition(id, answer.entry.version)).await;
                let campaign = campaign.map_err(|error| error.with_executed(Executed::Unknown))?;
                Ok(Drawn::Done(DrawAnswer { campaign, ..answer }))
            }
            drawn => Ok(drawn),
        }
    }
}

fn stopped(executed: Executed) -> StoreError {
    StoreError::Unavailable {
        executed,
        detail: "its lane has stopped".into(),
    }
}

async fn run(core: Arc<Core>, mut receiver: mpsc::Receiver<Job>) {
    let mut waiting = Vec::new();
    while !waiting.is_empty() || receiver.recv_many(&mut waiting, BATCH_UNITS_MAX).await > 0 {
        while waiting.len() < BATCH_UNITS_MAX
            && let Ok(job) = receiver.try_recv()
        {
            waiting.push(job);
        }
        let batch = next_batch(&mut waiting);
        draw_batch(&core, batch).await;
    }
}

/// Takes as many jobs as a batch holds, at least one; those whose callers are gone are dropped.
fn next_batch(waiting: &mut Vec<Job>) -> Vec<Job> {
    waiting.retain(|job| !job.reply.is_closed());
    let mut units = 0;
    let fits = |job: &Job| {
        units += job.command.count as usize;
        units <= BATCH_UNITS_MAX
    };
    let jobs = waiting.iter().map(fits).take_while(|fits| *fits).count();
    let taken = jobs.max(1).min(waiting.len());
    waiting.drain(..taken).collect()
}

/// The draws of a campaign in a batch.
struct Group {
    layout: Arc<Layout>,
    jobs: Vec<Job>,
}

async fn draw_batch(core: &Core, jobs: Vec<Job>) {
    let mut pending = jobs;
    for _ in 0..ROUNDS_MAX {
        if pending.is_empty() {
            return;
        }
        let groups = group(core, pending).await;
        pending = match send(core, &groups).await {
            Ok(replies) => answer(core, groups, replies),
            Err(fault) => {
                fail(groups.into_iter().flat_map(|group| group.jobs), &fault);
                return;
            }
        };
    }
    let fault = super::steps::contended();
    fail(pending.into_iter(), &fault);
}

fn fail(jobs: impl Iterator<Item = Job>, fault: &StoreError) {
    for job in jobs {
        // A receiver that is gone is a caller that is gone.
        let _ = job.reply.send(Err(fault.clone()));
    }
}

/// Sorts jobs by campaign, each campaign's in their order. Those of campaigns that are not there, or that come too late, are answered.
async fn group(core: &Core, jobs: Vec<Job>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut places: HashMap<CampaignId, usize> = HashMap::new();
    // What cannot be read is not tried again for each job: others wait for this batch.
    let mut unread: HashMap<CampaignId, StoreError> = HashMap::new();
    for job in jobs {
        if core.clock.hint() > job.command.not_after {
            let _ = job.reply.send(Err(Refusal::DeadlineExceeded.into()));
            continue;
        }
        if let Some(&place) = places.get(&job.command.campaign) {
            groups[place].jobs.push(job);
            continue;
        }
        if let Some(error) = unread.get(&job.command.campaign) {
            fail(std::iter::once(job), error);
            continue;
        }
        let layout = match core.layouts.get(&job.command.campaign) {
            Some(layout) => Ok(layout),
            None => core
                .read(&job.command.campaign)
                .await
                .map(|(.., layout)| layout),
        };
        match layout {
            Ok(layout) => {
                places.insert(job.command.campaign.clone(), groups.len());
                groups.push(Group {
                    layout,
                    jobs: vec![job],
                });
            }
            Err(error) => {
                unread.insert(job.command.campaign.clone(), error.clone());
                fail(std::iter::once(job), &error);
            }
        }
    }
    groups
}

/// One call of the draw script; the store's time and a reply for each group.
async fn send(core: &Core, groups: &[Group]) -> Result<Option<(Moment, Parts)>> {
    let Some(first) = groups.first() else {
        return Ok(None);
    };
    let partition = &first.layout.partition;
    let draws: usize = groups.iter().map(|group| group.jobs.len()).sum();
    let mut keys = Words::with_capacity(draws + 32, draws * KEY_BYTES + 1024);
    let mut args = Words::with_capacity(draws * 2 + 32, draws * ARG_BYTES + 1024);
    keys.push(&partition.partition);
    keys.push(&partition.ledger);
    args.write(format_args!("{}", core.request_memory.as_micros()));
    args.write(format_args!("{}", groups.len()));
    for group in groups {
        group.tell(core, &mut keys, &mut args);
    }
    let (now, mut parts) = core.run(partition, &scripts::DRAW, keys, args).await?;
    let first = parts.next()?;
    if letter(&first) == Some(b'L') {
        return Err(core.lost());
    }
    parts.put_back(first);
    Ok(Some((now, parts)))
}

impl Group {
    /// Adds what the script is told of a campaign and its draws.
    fn tell(&self, core: &Core, keys: &mut Words, args: &mut Words) {
        let layout = &self.layout;
        keys.push(&layout.keys.campaign);
        keys.push(&layout.keys.blocked);
        keys.push(&layout.keys.long);
        for pool in &layout.pools {
            if !pool.is_deck {
                keys.push(&pool.wins);
            }
            for queue in &pool.queues {
                keys.push(&queue.key);
            }
        }
        args.push(layout.campaign.id.as_str());
        args.write(format_args!("{}", layout.version));
        args.push(&layout.blob);
        args.push(layout.days(core.clock.told(layout.partition.number)));
        args.write(format_args!("{}", self.jobs.len()));
        let requests = Requests::of(&self.jobs);
        args.write(format_args!("{}", requests.earliest.as_micros()));
        for blob in [
            &requests.not_after,
            &requests.kinds,
            &requests.kind_of,
            &requests.parts,
            &requests.lengths,
        ] {
            args.push(blob);
        }
        for job in &self.jobs {
            layout.keys.push_users(keys, job.user.bucket);
            args.push(job.user.field);
            args.push(job.request);
        }
    }
}

/// What the draws of a group ask for, one after another.
struct Requests {
    earliest: Moment,
    not_after: Vec<u8>,
    kinds: Vec<u8>,
    kind_of: Vec<u8>,
    parts: Vec<u8>,
    lengths: Vec<u8>,
}

impl Requests {
    fn of(jobs: &[Job]) -> Self {
        let mut told = Self {
            earliest: record::LAST_MOMENT,
            not_after: Vec::with_capacity(jobs.len() * 8),
            kinds: Vec::new(),
            kind_of: Vec::with_capacity(jobs.len()),
            parts: Vec::with_capacity(jobs.len() * ARG_BYTES),
            lengths: Vec::with_capacity(jobs.len() * 2),
        };
        let mut kinds: Vec<Vec<u8>> = Vec::new();
        for job in jobs {
            let not_after = job.command.not_after.min(record::LAST_MOMENT);
            told.earliest = told.earliest.min(not_after);
            told.not_after
                .extend(not_after.as_micros().unsigned_abs().to_be_bytes());
            let kind = record::encode_kind(&job.command);
            let known = kinds.iter().position(|known| *known == kind);
            let place = known.unwrap_or_else(|| {
                kinds.push(kind);
                kinds.len() - 1
            });
            // A batch has at most as many jobs as a byte has values.
            told.kind_of.push(u8::try_from(place).unwrap_or(u8::MAX));
            let before = told.parts.len();
            record::encode_part(&job.command, &mut told.parts);
            let length = u16::try_from(told.parts.len() - before).unwrap_or(u16::MAX);
            told.lengths.extend(length.to_be_bytes());
        }
        told.kinds = kinds.concat();
        told
    }
}

/// Answers the jobs; those that must be sent again are given back.
fn answer(core: &Core, groups: Vec<Group>, replies: Option<(Moment, Parts)>) -> Vec<Job> {
    let Some((now, mut parts)) = replies else {
        return groups.into_iter().flat_map(|group| group.jobs).collect();
    };
    let mut again = Vec::new();
    for group in groups {
        match parts
            .next()
            .and_then(|reply| read_group(core, &group, now, reply))
        {
            Ok(Some(answers)) => {
                for (job, answer) in group.jobs.into_iter().zip(answers) {
                    let _ = job.reply.send(answer);
                }
            }
            Ok(None) => again.extend(group.jobs),
            Err(fault) => fail(group.jobs.into_iter(), &fault),
        }
    }
    again
}

/// The answers of a group; none where it must be sent again.
fn read_group(
    core: &Core,
    group: &Group,
    now: Moment,
    value: redis::Value,
) -> Result<Option<Vec<Result<Drawn>>>> {
    let id = &group.layout.campaign.id;
    if let redis::Value::BulkString(_) = value {
        let text = told(value);
        return match text.as_bytes().first() {
            Some(b'M') => {
                core.layouts.forget(id);
                Err(Refusal::CampaignNotFound.into())
            }
            Some(b'V') => {
                core.layouts.forget(id);
                Ok(None)
            }
            // The reply has told the partition's time.
            Some(b'Y') => Ok(None),
            _ => Err(unreadable(id, text.get(1..).unwrap_or_default())),
        };
    }
    let mut parts = Parts::of(value)?;
    let replies = reply::bytes(parts.next()?)?;
    let mut replies = Unpacker::new(&replies);
    let low = reply::bytes(parts.next()?)?;
    let mut low = Unpacker::new(&low);
    let mut running_low = Vec::new();
    while !low.is_done() {
        running_low.push(PoolNo(low.int()?));
    }
    let mut answers = Vec::with_capacity(group.jobs.len());
    for job in &group.jobs {
        let told = next_reply(&mut replies)?;
        answers.push(read_draw(&group.layout, job, now, told, &mut running_low));
    }
    Ok(Some(answers))
}

/// What became of one draw.
enum Told<'a> {
    /// It was made: the user's record.
    Made(Remembered),
    /// A letter, and what is told with it.
    Other(u8, &'a [u8]),
}

/// The next of several replies.
fn next_reply<'a>(replies: &mut Unpacker<'a>) -> Result<Told<'a>> {
    match replies.letter() {
        None => record::decode_drawn(replies).map(Told::Made),
        Some(letter) => Ok(Told::Other(letter, replies.told()?)),
    }
}

/// What a script found under the keys of a campaign is not what it left there; it has written nothing.
fn unreadable(id: &CampaignId, text: &str) -> StoreError {
    StoreError::Corrupt(format!(
        "the keys of campaign {id} in Redis hold something else than tombola wrote ({text}); nothing is drawn from it until \
         they are restored"
    ))
}

fn read_draw(
    layout: &Layout,
    job: &Job,
    now: Moment,
    told: Told<'_>,
    running_low: &mut Vec<PoolNo>,
) -> Result<Drawn> {
    let command = &job.command;
    let campaign = &layout.campaign;
    let done = |remembered: Remembered, replayed, running_low| {
        Ok(Drawn::Done(DrawAnswer {
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
        }))
    };
    let (letter, rest) = match told {
        Told::Made(drawn) => return done(drawn, false, std::mem::take(running_low)),
        Told::Other(letter, rest) => (letter, rest),
    };
    match letter {
        b'R' => done(record::decode_remembered(rest)?, true, Vec::new()),
        b'F' => {
            let mut need = Unpacker::new(rest);
            Ok(Drawn::NeedFill(vec![Need {
                pool: PoolNo(need.int()?),
                cards: need.int()?,
            }]))
        }
        b'U' => Err(Refusal::RequestIdReused.into()),
        b'P' => Err(Refusal::DeadlineExceeded.into()),
        b'E' => Err(Refusal::Expired(command.expire.unwrap_or(now)).into()),
        b'A' => {
            let code = std::str::from_utf8(rest)
                .ok()
                .and_then(|text| text.parse().ok());
            let lifecycle = codec::lifecycle_of(code.unwrap_or(-1))?;
            Err(not_admitted(layout, lifecycle, now))
        }
        b'Q' => {
            let today = campaign.zone.day(now);
            let admitted = record::decode_record(rest)?.record.on(today, now).admit(
                &campaign.limits,
                command.funding,
                command.count,
            );
            Err(match admitted {
                Err(reached) => Refusal::Limit {
                    reached,
                    retry_at: reached.resets.then(|| campaign.zone.next_day_start(now)),
                    now,
                }
                .into(),
                Ok(_) => StoreError::Corrupt("a limit that was reached is not".into()),
            })
        }
        _ => Err(unexpected("known code of a draw")),
    }
}

fn not_admitted(layout: &Layout, lifecycle: Lifecycle, now: Moment) -> StoreError {
    match lifecycle.admits_draws(&layout.campaign, now) {
        Err(refusal) => refusal.into(),
        Ok(()) => StoreError::Corrupt("a campaign that takes draws refused one".into()),
    }
}
