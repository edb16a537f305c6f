//! The lanes of draws (see [`batch`]): what the draw script is told, and what its replies mean.

use std::sync::Arc;

use super::{
    batch::{self, Call},
    campaign::Layout,
    codec::{self, Unpacker},
    core::{Core, letter, told},
    keys::{Place, RequestField, request_field},
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

/// Room for the key of a bucket, and for what is told of a draw.
const KEY_BYTES: usize = 48;
const ARG_BYTES: usize = 64;

/// A draw on its way.
pub(super) struct Job {
    user: Place,
    request: RequestField,
    command: DrawCommand,
}

impl Call for Job {
    type Answer = Drawn;
    type Subject = CampaignId;
    type Known = Arc<Layout>;

    fn subject(&self) -> &CampaignId {
        &self.command.campaign
    }

    fn units(&self) -> usize {
        self.command.count as usize
    }

    fn is_late(&self, now: Moment) -> bool {
        now > self.command.not_after
    }

    fn known(core: &Core, id: &CampaignId) -> Option<Arc<Layout>> {
        core.layouts.get(id)
    }

    async fn read(core: &Core, ids: &[CampaignId]) -> Vec<Result<Arc<Layout>>> {
        core.read_layouts(ids).await
    }

    fn send(core: &Core, groups: &[Group]) -> impl Future<Output = Result<(Moment, Parts)>> + Send {
        send(core, groups)
    }

    fn answers(
        core: &Core,
        group: &Group,
        now: Moment,
        reply: redis::Value,
    ) -> Result<Option<Vec<Result<Drawn>>>> {
        read_group(core, group, now, reply)
    }
}

/// The draws of a campaign in a batch.
type Group = batch::Group<Job>;

/// The lanes of draws.
pub(super) type Lanes = batch::Lanes<Job>;

impl Lanes {
    /// Sends a draw through its lane.
    pub(super) async fn draw(&self, core: &Core, command: DrawCommand) -> Result<Drawn> {
        let partition = core.partition(&command.campaign).number;
        let user = Place::user(&command.user);
        let job = Job {
            request: request_field(&command.user, &command.request),
            user,
            command,
        };
        match self.call(partition, user.hash(), job).await? {
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

/// One call of the draw script; the store's time and a reply for each group.
async fn send(core: &Core, groups: &[Group]) -> Result<(Moment, Parts)> {
    let partition = &groups[0].known.partition;
    let draws: usize = groups.iter().map(Group::len).sum();
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
    Ok((now, parts))
}

impl Group {
    /// Adds what the script is told of a campaign and its draws.
    fn tell(&self, core: &Core, keys: &mut Words, args: &mut Words) {
        let layout = &self.known;
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
        let (hashes, hash_of) = layout
            .keys
            .push_users(keys, self.calls().map(|job| job.user));
        args.write(format_args!("{hashes}"));
        args.write(format_args!("{}", self.len()));
        args.push(hash_of);
        let requests = Requests::of(self);
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
        for job in self.calls() {
            layout.keys.push_older(keys, job.user.bucket);
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
    fn of(group: &Group) -> Self {
        let jobs = group.len();
        let mut told = Self {
            earliest: record::LAST_MOMENT,
            not_after: Vec::with_capacity(jobs * 8),
            kinds: Vec::new(),
            kind_of: Vec::with_capacity(jobs),
            parts: Vec::with_capacity(jobs * ARG_BYTES),
            lengths: Vec::with_capacity(jobs * 2),
        };
        let mut kinds: Vec<Vec<u8>> = Vec::new();
        for job in group.calls() {
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

/// The answers of a group; none where it must be sent again.
fn read_group(
    core: &Core,
    group: &Group,
    now: Moment,
    value: redis::Value,
) -> Result<Option<Vec<Result<Drawn>>>> {
    let id = &group.known.campaign.id;
    if let redis::Value::BulkString(_) = value {
        let text = told(value);
        return match text.as_bytes().first() {
            // It is read again, which tells why it is not there.
            Some(b'M' | b'V') => {
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
    let mut answers = Vec::with_capacity(group.len());
    for job in group.calls() {
        let told = next_reply(&mut replies)?;
        answers.push(read_draw(&group.known, job, now, told, &mut running_low));
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
