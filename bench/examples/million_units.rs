//! Measures large operations on Redis: injecting a million units, closing the campaign that holds
//! them, recalling another million, and granting draws to a thousand users. It prints the units per
//! second and the longest scripts of each.
//!
//! Run it with `cargo run --release -p tombola-bench --example million_units`. It needs
//! redis-server and starts a server of its own; every write is on disk before its reply. It exits
//! with an error if a count is not exact.

#![allow(clippy::print_stdout, reason = "an example prints what it found")]

use std::{
    error::Error,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tombola::{
    chance::MasterKey,
    injector::Injector,
    model::{
        Campaign, CampaignId, Moment, OperatorId, PoolNo, RequestId, UserId,
        convert::campaign_from_proto, file, limits::Funding,
    },
    store::{
        Author, DrawCommand, Durability, OperateCommand, Operation, Store,
        clock::ManualClock,
        redis::{FORK_PAUSE, Found, KeyPrefix, LevelOptions, Options, RedisStore, RedisUrl},
    },
};

#[path = "../tests/support/mod.rs"]
mod support;
use support::RedisServer;

const UNITS: u64 = 1_000_000;
/// Scripts that take longer than this are listed.
const SLOW_MICROS: &str = "1000";
const SLOW_SHOWN: usize = 5;

type Fault = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Fault> {
    let server = RedisServer::start(&[
        ("slowlog-log-slower-than", SLOW_MICROS),
        ("slowlog-max-len", "10000"),
    ]);
    let clock = Arc::new(ManualClock::at(at("2026-11-20T00:00:00Z")?));
    let key = MasterKey::from_bytes(rand::random());
    let mut found = Found::look(Options {
        url: RedisUrl::parse(&server.url())?,
        prefix: KeyPrefix::parse("tombola")?,
        partitions: 4,
        durability: Durability::Local,
        level: LevelOptions::default(),
        clock: Some(clock.clone()),
        request_memory: Duration::from_secs(3600),
        fork_pause: FORK_PAUSE,
        store_id: None,
    })
    .await?;
    found.init(&key.fingerprint()).await?;
    let store: Arc<dyn Store> = Arc::new(RedisStore::open(found, &key.fingerprint()).await?);
    let hour = Duration::from_secs(3600);
    let injector = Arc::new(Injector::new(store, key, hour));

    let (closed, recalled) = (campaign("closed")?, campaign("recalled")?);
    for campaign in [&closed, &recalled] {
        let begun = Instant::now();
        injector
            .apply(Arc::clone(campaign), 0, author("apply")?)
            .await?;
        injector.settle(&campaign.id).await?;
        let waiting = waiting(&injector, campaign).await?;
        report(&server, "injected", waiting, begun);
        expect(waiting, UNITS)?;
    }

    let begun = Instant::now();
    operate(&injector, &closed.id, Operation::Close).await?;
    report(&server, "closed", UNITS, begun);
    expect(waiting(&injector, &closed).await?, 0)?;

    let begun = Instant::now();
    let recall = Operation::Recall {
        pool: PoolNo(0),
        window: Some(recalled.start),
        prize: None,
        withdraw: false,
    };
    operate(&injector, &recalled.id, recall).await?;
    report(&server, "recalled", UNITS, begun);
    expect(waiting(&injector, &recalled).await?, 0)?;

    clock.set(recalled.start);
    let begun = Instant::now();
    let users = (0..1000).map(|n| UserId::parse("user", &format!("user-{n:0>100}")));
    let users: Vec<_> = users.collect::<Result<_, _>>().map_err(|p| p.message)?;
    for _ in 0..2 {
        let grant = Operation::Grant {
            users: users.clone(),
            draws: 1,
            expires: recalled.end,
        };
        operate(&injector, &recalled.id, grant).await?;
    }
    report(&server, "granted to users", 2000, begun);

    let begun = Instant::now();
    for user in users.iter().take(100) {
        let command = DrawCommand {
            campaign: recalled.id.clone(),
            user: user.clone(),
            request: RequestId::parse("request", "once").map_err(|p| p.message)?,
            count: 100,
            funding: Funding::Free,
            payment_ref: String::new(),
            consolation_only: false,
            segments: Vec::new(),
            expire: None,
            not_after: Moment::FAR_FUTURE,
            chance: None,
        };
        injector.draw(command).await?;
    }
    report(&server, "drawn", 10_000, begun);
    clock.set(recalled.end + hour * 48);
    let begun = Instant::now();
    injector.tick().await?;
    injector.tick().await?;
    report(&server, "forgotten", 100, begun);
    for campaign in [&closed, &recalled] {
        if !injector.store().stats(&campaign.id).await?.balanced() {
            return Err("the sums do not add up".into());
        }
    }
    Ok(())
}

fn at(time: &str) -> Result<Moment, Fault> {
    Ok(Moment::from_timestamp(time.parse()?))
}

/// A campaign that releases a million units of twenty prizes in its first hour.
fn campaign(id: &str) -> Result<Arc<Campaign>, Fault> {
    let each = UNITS / 20;
    let list = |of: &dyn Fn(u64) -> String| (0..20).map(of).collect::<Vec<_>>().join(", ");
    let yaml = format!(
        "{{id: {id}, timeZone: UTC, startTime: '2026-11-20T01:00:00Z', endTime: \
         '2026-11-20T03:00:00Z', consolation: {{id: points}}, prizes: [{}], pools: [{{id: hours, \
         schedule: {{special: [{{from: 2026-11-20T01:00, to: 2026-11-20T02:00, perHour: \
         {{{}}}}}]}}}}]}}",
        list(&|n| format!("{{id: p{n}, stock: {each}}}")),
        list(&|n| format!("p{n}: {each}")),
    );
    let message = file::parse(&yaml)?.pop().ok_or("no campaign")?;
    Ok(Arc::new(campaign_from_proto(&message)?))
}

fn author(request: &str) -> Result<Author, Fault> {
    Ok(Author::named(
        RequestId::parse("request", request).map_err(|p| p.message)?,
        OperatorId::parse("operator", "example").map_err(|p| p.message)?,
        "",
    ))
}

/// Runs the operation, and all injector steps that follow from it.
async fn operate(
    injector: &Arc<Injector>,
    campaign: &CampaignId,
    operation: Operation,
) -> Result<(), Fault> {
    let request = format!("{:x}", rand::random::<u64>());
    let command = OperateCommand {
        campaign: campaign.clone(),
        operation,
        blocks: Vec::new(),
        author: author(&request)?,
    };
    injector.operate(command).await?;
    injector.settle(campaign).await?;
    Ok(())
}

async fn waiting(injector: &Injector, campaign: &Campaign) -> Result<u64, Fault> {
    let stats = injector.store().stats(&campaign.id).await?;
    Ok(stats.prizes.iter().map(|prize| prize.waiting).sum())
}

fn expect(found: u64, expected: u64) -> Result<(), Fault> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{found} units wait, not {expected}").into())
}

/// Prints how long the work since `begun` took, and the longest scripts since the last report.
fn report(server: &RedisServer, what: &str, units: u64, begun: Instant) {
    let seconds = begun.elapsed().as_secs_f64();
    let speed = units as f64 / seconds;
    println!("{units:>9} {what:<18} {seconds:>6.1} s {speed:>9.0} a second");
    let (scripts, micros) = scripts(server);
    println!("          {scripts} scripts, {micros:.0} us of processor time each");
    // The third field of a slow log entry is its duration in microseconds; the fourth is the
    // command.
    let length = server.command(&["SLOWLOG", "LEN"]);
    let slow = server.command(&[
        "EVAL",
        "local found = {}
         for _, entry in ipairs(redis.call('SLOWLOG', 'GET', '-1')) do
             local command = string.sub(entry[4][1] .. ' ' .. entry[4][2], 1, 24)
             found[#found + 1] = { entry[3], command .. ' ' .. #entry[4] .. ' arguments' }
         end
         table.sort(found, function(a, b) return a[1] > b[1] end)
         local lines = {}
         for index = 1, math.min(#found, tonumber(ARGV[1])) do
             lines[index] = found[index][1] .. ' us ' .. found[index][2]
         end
         if #found > 0 then
             local p50, p99 = found[math.ceil(#found / 2)][1], found[math.ceil(#found / 100)][1]
             lines[#lines + 1] = 'half of them take at most ' .. p50 .. ' us, 99 in 100 at most '
                 .. p99 .. ' us'
         end
         return lines",
        "0",
        &SLOW_SHOWN.to_string(),
    ]);
    println!("          {length} slower than {SLOW_MICROS} us; the longest:");
    for line in slow.lines() {
        println!("          {line}");
    }
    server.command(&["SLOWLOG", "RESET"]);
}

/// The number of scripts since the last call, and the processor time that Redis spent per script in
/// microseconds. Processor time does not depend on other load on the machine.
fn scripts(server: &RedisServer) -> (u64, f64) {
    static BEFORE: Mutex<f64> = Mutex::new(0.0);
    let number = |text: String, name: &str, until: &[char]| {
        let rest = text.split(name).nth(1).unwrap_or("0").to_owned();
        let digits = rest.split(until).next().unwrap_or("0").to_owned();
        digits.parse::<f64>().unwrap_or(0.0)
    };
    let info = |section: &str| server.command(&["INFO", section]);
    let part = |name: &str| number(info("cpu"), name, &['\r', '\n']);
    let cpu = part("used_cpu_user_main_thread:") + part("used_cpu_sys_main_thread:");
    let calls = number(info("commandstats"), "cmdstat_evalsha:calls=", &[',']);
    server.command(&["CONFIG", "RESETSTAT"]);
    let mut before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
    let micros = (cpu - *before) * 1e6 / calls.max(1.0);
    *before = cpu;
    (calls as u64, micros)
}
