//! The lanes of draws: while one batch of a lane is at Redis, arriving draws queue; the next batch takes them all, up to a bound.
//!
//! A user is always in the same lane of a partition, so the user's draws are never reordered; a few lanes keep a few batches in
//! flight. No timer, no added wait.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
};

use tokio::sync::{mpsc, oneshot};

use super::{
    campaign::Layout,
    codec,
    core::{Core, letter, told},
    keys::{Key, Place},
    reply::{self, Parts, unexpected},
    scripts,
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
/// Draws of one batch (a call of `count` draws is that many): a script of about two milliseconds. More would save little.
const BATCH_UNITS_MAX: usize = 256;
/// How often a batch is sent again since a version, a day or a generation of requests has changed in between.
const ROUNDS_MAX: usize = 8;

/// A draw on its way, with what the script will be told of it.
struct Job {
    user: Place,
    request: Place,
    head: Vec<u8>,
    part: Vec<u8>,
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
            request: Place::request(&command.campaign, &command.user, &command.request),
            head: codec::encode_head(&command),
            part: codec::encode_part(&command),
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

/// One call of the draw script; the store's time and a reply for each group, none where the generation has changed.
async fn send(core: &Core, groups: &[Group]) -> Result<Option<(Moment, Parts)>> {
    let Some(first) = groups.first() else {
        return Ok(None);
    };
    let partition = &first.layout.partition;
    let number = partition.number as usize;
    let generation = core.generations[number].load(Ordering::Relaxed);
    let draws: usize = groups.iter().map(|group| group.jobs.len()).sum();
    let mut keys: Vec<Key> = Vec::with_capacity(draws * 3 + 32);
    let mut args: Vec<Vec<u8>> = Vec::with_capacity(draws * 4 + 16);
    keys.extend([
        partition.partition.clone(),
        partition.ledger.clone(),
        partition.long_requests(generation),
        partition.long_requests(generation + 2), // the slot of the one before
    ]);
    args.push(generation.to_string().into());
    args.push(core.request_memory.as_micros().to_string().into());
    args.push(groups.len().to_string().into());
    for group in groups {
        let layout = &group.layout;
        keys.extend([layout.keys.campaign.clone(), layout.keys.blocked.clone()]);
        for pool in &layout.pools {
            if !pool.is_deck {
                keys.push(pool.wins.clone());
            }
            keys.extend(pool.queues.iter().map(|queue| queue.key.clone()));
        }
        args.push(layout.campaign.id.as_str().into());
        args.push(layout.version.to_string().into());
        args.push(layout.blob.clone());
        args.push(layout.days(core.clock.told(partition.number)));
        args.push(group.jobs.len().to_string().into());
        for job in &group.jobs {
            keys.push(layout.keys.users(job.user.bucket));
            keys.push(partition.requests(generation, job.request.bucket));
            keys.push(partition.requests(generation + 2, job.request.bucket));
            args.push(job.user.field.into());
            args.push(job.request.field.into());
            args.push(job.head.clone());
            args.push(job.part.clone());
        }
    }
    let (now, mut parts) = core.run(partition, &scripts::DRAW, &keys, args).await?;
    let first = parts.next()?;
    match letter(&first) {
        Some(b'L') => Err(core.lost()),
        Some(b'G') => {
            let current: u64 = reply::number(parts.next()?)?;
            core.generations[number].store(current, Ordering::Relaxed);
            Ok(None)
        }
        _ => {
            parts.put_back(first);
            Ok(Some((now, parts)))
        }
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
    let mut replies = replies.as_slice();
    let low = reply::bytes(parts.next()?)?;
    let mut low = codec::Unpacker::new(&low);
    let mut running_low = Vec::new();
    while !low.is_done() {
        running_low.push(PoolNo(low.int()?));
    }
    let mut answers = Vec::with_capacity(group.jobs.len());
    for job in &group.jobs {
        let reply = next_reply(&mut replies).ok_or_else(|| unexpected("draw"))?;
        answers.push(read_draw(&group.layout, job, now, reply, &mut running_low));
    }
    Ok(Some(answers))
}

/// The next of several replies, each after its length in two bytes.
fn next_reply<'a>(replies: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = replies.split_first_chunk()?;
    let (reply, rest) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
    *replies = rest;
    Some(reply)
}

/// A record begins with the draw's moment, packed as a number of eight bytes.
const DRAWN: u8 = 0xcf;

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
    reply: &[u8],
    running_low: &mut Vec<PoolNo>,
) -> Result<Drawn> {
    let command = &job.command;
    let campaign = &layout.campaign;
    let (code, rest) = reply.split_first().ok_or_else(|| unexpected("draw"))?;
    match code {
        &DRAWN | b'R' => {
            let is_new = *code == DRAWN;
            let remembered = codec::decode_remembered(if is_new { reply } else { rest })?;
            Ok(Drawn::Done(DrawAnswer {
                ledger: LedgerId {
                    partition: layout.partition.number,
                    sequence: remembered.sequence,
                },
                at: remembered.at,
                replayed: !is_new,
                campaign: Arc::clone(campaign),
                entry: Arc::new(remembered.into_entry(
                    command.user.clone(),
                    command.request.clone(),
                    command.payment_ref.clone(),
                )),
                running_low: if is_new {
                    std::mem::take(running_low)
                } else {
                    Vec::new()
                },
            }))
        }
        b'F' => {
            let mut need = codec::Unpacker::new(rest);
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
            let (record, _) = codec::decode_record(rest)?;
            let today = campaign.zone.day(now);
            let admitted =
                record
                    .on(today, now)
                    .admit(&campaign.limits, command.funding, command.count);
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
