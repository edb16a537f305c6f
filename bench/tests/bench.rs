//! Tests of the bench: its figures, its errors, and that it leaves nothing behind. No test asks how
//! fast anything is.

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a test binary has no public face, and a test that cannot go on panics"
)]

mod process;
mod secured;
mod soak;
mod support;

use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use process::{Ended, Output, PATIENCE, Server};
use support::RedisServer;

/// A campaign that does not belong to the bench.
const WHEEL: &str = "{id: wheel, timeZone: UTC, startTime: '2026-01-01T00:00:00Z', endTime: \
    '2030-01-01T00:00:00Z', consolation: {id: points}, prizes: [{id: coupon, stock: 1000}], \
    pools: [{id: deck, deck: {size: 100, cards: {coupon: 9}, onExhausted: RESHUFFLE}}]}";
/// The shortest possible run: few calls, small pools.
const SHORT: &str =
    "--duration 100ms --warm-up 50ms --rounds 2 --connections 2 --outstanding 4 --units 10000";

/// Runs the bench with its temporary data in `directory`.
fn bench(directory: &Path, line: &str) -> Ended {
    Ended::of(&mut command(directory, line))
}

/// The command for that run.
fn command(directory: &Path, line: &str) -> Command {
    let mut command = process::bench();
    command.arg("--directory").arg(directory);
    command.args(line.split_whitespace());
    command
}

/// Runs the bench, checks the sums in its JSON output, and returns that output.
#[track_caller]
fn figures(directory: &Path, line: &str) -> Value {
    let said = bench(directory, &format!("{line} --json")).well();
    let figures: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(figures["balanced"], true, "{said}");
    for series in figures["series"].as_array().unwrap() {
        let calls = series["calls"].as_u64().unwrap();
        let rounds = series["rounds"].as_array().unwrap();
        let of_rounds: u64 = rounds
            .iter()
            .map(|round| round["calls"].as_u64().unwrap())
            .sum();
        let errors = series["errors"].as_object().unwrap().values();
        let errors: u64 = errors.map(|calls| calls.as_u64().unwrap()).sum();
        assert_eq!(calls, of_rounds, "{series:#}");
        assert!(
            series["wins"].as_u64().unwrap() + errors <= calls,
            "{series:#}"
        );
        let rate = &series["per_second"];
        let [min, median, max] = ["min", "median", "max"].map(|name| rate[name].as_f64().unwrap());
        assert!(min <= median && median <= max, "{series:#}");
    }
    is_empty(directory);
    figures
}

#[track_caller]
fn is_empty(directory: &Path) {
    let left: Vec<_> = std::fs::read_dir(directory).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

fn calls(figures: &Value) -> Vec<String> {
    let series = figures["series"].as_array().unwrap().iter();
    series
        .map(|one| {
            format!(
                "{} on {}",
                one["call"].as_str().unwrap(),
                one["store"].as_str().unwrap()
            )
        })
        .collect()
}

#[test]
fn every_scenario_is_measured_on_the_embedded_store_and_the_report_needs_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let reports = tempfile::tempdir().unwrap();
    let report = reports.path().join("report.html");
    let scenarios = "draw,scattered,again,deck,capped,personal,personal-again,check,mix,inject,\
                     hot-user,hot-campaign,many-campaigns";
    let line = format!(
        "{SHORT} --scenario {scenarios} --inject-rate 1000 --report {}",
        report.display()
    );
    let figures = figures(directory.path(), &line);
    let called = calls(&figures);
    assert_eq!(called[0], "empty on -");
    let expected: Vec<_> = scenarios
        .split(',')
        .map(|name| format!("{name} on embedded"))
        .collect();
    assert_eq!(called[1..], expected);
    for series in &figures["series"].as_array().unwrap()[1..] {
        let (calls, wins) = (
            series["calls"].as_u64().unwrap(),
            series["wins"].as_u64().unwrap(),
        );
        assert_eq!(series["errors"], serde_json::json!({}));
        // With so few cards of a deck drawn, less than half of them may win.
        if ["draw", "scattered", "again", "inject", "hot-user"]
            .contains(&series["call"].as_str().unwrap())
        {
            assert!(wins * 2 >= calls, "{series:#}");
        }
    }
    let page = std::fs::read_to_string(report).unwrap();
    assert!(
        page.starts_with("<!doctype html>")
            && page.contains("<svg")
            && page.contains("draw on embedded")
    );
    for outside in [
        "http:", "https:", "src=", "<script", "<link", "@import", "url(",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn stores_take_turns_and_redis_is_a_process_of_the_bench() {
    let directory = tempfile::tempdir().unwrap();
    let figures = figures(
        directory.path(),
        &format!(
            "{SHORT} --scenario draw --store embedded,redis,redis-strict,redis-fast,redis-settled"
        ),
    );
    let called = calls(&figures);
    assert_eq!(
        called,
        [
            "empty on -",
            "draw on embedded",
            "draw on redis",
            "draw on redis-strict",
            "draw on redis-fast",
            "draw on redis-settled"
        ]
    );
    let stores = figures["stores"].as_array().unwrap();
    assert_eq!(stores[1]["appendonly"], "yes");
    assert_eq!(stores[1]["appendfsync"], "always");
    assert_eq!(stores[2]["appendonly"], "yes");
    assert_eq!(stores[3]["appendfsync"], "everysec");
    let postgres = stores[4]["postgres_version"].as_str().unwrap();
    assert!(postgres.contains("PostgreSQL"), "{postgres}");
    let ratios = figures["ratios"].as_array().unwrap();
    let over = |name: &str| {
        ratios
            .iter()
            .any(|ratio| ratio["name"].as_str().unwrap().contains(name))
    };
    assert!(over("draw on redis over empty"));
    assert!(over("draw on redis-strict over the same without a replica"));
    assert!(over(
        "draw on redis over the same with the append-only file synced each second"
    ));
    assert!(over("draw on redis-settled over the same without settling"));
    let settled = &figures["series"][5];
    // The system counts in hundredths of a second, which few draws may not take.
    assert!(settled["postgres_cpu_us"].is_number(), "{settled:#}");
}

#[test]
fn baselines_run_on_the_same_redis_whose_other_keys_stay() {
    let redis = RedisServer::start(&[]);
    redis.command(&["SET", "someone", "else"]);
    let directory = tempfile::tempdir().unwrap();
    let line = format!(
        "{SHORT} --scenario draw --baselines --redis-url {}",
        redis.url()
    );
    let figures = figures(directory.path(), &line);
    assert_eq!(calls(&figures).len(), 7);
    // The script is called as its author measured it, and as the draws are called.
    let series = figures["series"].as_array().unwrap().iter();
    let scripts = series.filter(|one| one["call"] == "red-packet script");
    let concurrency: Vec<_> = scripts.map(|one| one["concurrency"].as_str()).collect();
    assert_eq!(concurrency, [Some("20 × 1"), Some("2 × 4")]);
    let promises = figures["promises"].as_array().unwrap();
    for promise in promises {
        let (times, of) = (
            promise["times"].as_u64().unwrap(),
            promise["of"].as_u64().unwrap(),
        );
        assert!(times <= of, "{promise:#}");
        if promise["way"].as_str().unwrap().starts_with("tombola") {
            assert_eq!(times, 0, "{promise:#}");
        }
    }
    let broken = |way: &str| {
        let mut of_way = promises.iter().filter(|promise| promise["way"] == way);
        of_way.any(|promise| promise["times"].as_u64().unwrap() > 0)
    };
    for way in ["red-packet script", "JSON table, WATCH", "INCR, EXPIRE"] {
        assert!(broken(way), "{way}: {promises:#?}");
    }
    assert_eq!(redis.command(&["DBSIZE"]), "1");
}

#[test]
fn at_a_fixed_rate_every_call_has_its_moment() {
    let directory = tempfile::tempdir().unwrap();
    let line =
        "--duration 500ms --warm-up 50ms --rounds 1 --connections 2 --rate 200 --units 10000";
    let figures = figures(directory.path(), line);
    for series in figures["series"].as_array().unwrap() {
        assert_eq!(series["calls"], 100, "{series:#}");
        // Each has the rate that was asked for, so a ratio would always be 1.
        assert!(series["over_empty"].is_null(), "{series:#}");
    }
    assert_eq!(figures["ratios"], serde_json::json!([]));
}

#[test]
fn draws_that_found_no_unit_are_noted() {
    let directory = tempfile::tempdir().unwrap();
    let line = "--scenario draw --duration 100ms --warm-up 50ms --rounds 1 --connections 2 \
                --outstanding 4 --units 10";
    let ended = bench(directory.path(), line);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(
        ended.stderr.contains("the schedule on embedded ran out"),
        "{ended:#?}"
    );
    assert!(ended.stderr.contains("--units"), "{ended:#?}");
}

#[test]
fn a_running_server_gets_campaigns_of_the_bench_which_are_closed_at_the_end() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path());
    let wheel = data.path().join("wheel.yaml");
    std::fs::write(&wheel, WHEEL).unwrap();
    server.run(&format!("apply -f {}", wheel.display())).well();
    let directory = tempfile::tempdir().unwrap();
    let line = format!(
        "{SHORT} --scenario mix,hot-campaign --json --server {}",
        server.url
    );
    let said = bench(directory.path(), &line).well();
    let figures: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        calls(&figures)[1..],
        ["mix on server", "hot-campaign on server"]
    );
    let listed: Value = serde_json::from_str(&server.run("campaigns --json").well()).unwrap();
    let campaigns = listed["campaigns"].as_array().unwrap();
    assert!(campaigns.len() > 16, "{listed:#}");
    for campaign in campaigns {
        let text = campaign.to_string();
        assert!(
            text.contains("\"wheel\"") || text.contains("CLOSED"),
            "{campaign:#}"
        );
    }
}

#[test]
fn costs_are_shown_by_store_and_kind() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = process::bench();
    command.args(["cost", "--json", "--directory"]);
    command.arg(directory.path());
    let options = "--users 200 --units 1000,2000 --injected 2000 --idle 20 --duration 100ms";
    let said = Ended::of(command.args(options.split_whitespace())).well();
    let costs: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(costs["balanced"], true);
    let costs = costs["costs"].as_array().unwrap();
    for (store, what) in [
        ("redis", "ledger not yet settled"),
        ("redis", "Redis's time"),
        ("redis", "longest script of an injection"),
        ("redis", "one draw over that script and an empty call"),
        ("embedded", "on disk, its won unit with it"),
        ("embedded", "idle connections"),
    ] {
        let found = costs.iter().any(|cost| {
            cost["store"] == store && cost["what"] == what && cost["value"].as_f64().is_some()
        });
        assert!(found, "{store}, {what}: {said}");
    }
    is_empty(directory.path());
}

#[test]
fn an_overload_is_measured_in_phases_and_the_sums_add_up() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = process::bench();
    command.args(["overload", "--json", "--directory"]);
    command.arg(directory.path());
    let options = "--connections 2 --outstanding 2 --duration 1s";
    let said = Ended::of(command.args(options.split_whitespace())).well();
    let found: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(found["balanced"], true);
    let phases = found["phases"].as_array().unwrap();
    let times: Vec<_> = phases.iter().map(|phase| phase["times"].as_f64()).collect();
    assert_eq!(times, [Some(0.8), Some(1.0), Some(3.0)]);
    for phase in phases {
        assert!(phase["per_second"].as_f64().unwrap() > 0.0, "{phase:#}");
        let errors = phase["errors"].as_object().unwrap().keys();
        let known = ["OVERLOADED", "DEADLINE_EXCEEDED", "NOT_SENT", "Cancelled"];
        for error in errors {
            assert!(known.contains(&&**error), "{phase:#}");
        }
    }
    for name in ["goodput_over_peak", "p99_over_normal", "peak_per_second"] {
        assert!(found[name].as_f64().unwrap() > 0.0, "{found:#}");
    }
    assert!(
        found["recovery"]["before"].as_f64().unwrap() > 0.0,
        "{found:#}"
    );
    is_empty(directory.path());
}

#[test]
fn what_cannot_be_measured_is_refused_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let bench = |line: &str| bench(directory.path(), line);
    bench("--scenario fly").badly(64, &["fly", "many-campaigns"]);
    bench("--rate 0").badly(64, &["--rate", "1.."]);
    bench("--rate 10 --outstanding 3").badly(64, &["--rate", "--outstanding"]);
    bench("--duration 5").badly(64, &["5s"]);
    bench("--store disk").badly(64, &["embedded", "redis"]);
    bench("--store embedded --baselines").badly(64, &["--store", "redis"]);
    bench("--store redis-fast --redis-url redis://127.0.0.1:1")
        .badly(64, &["leave out", "--redis-url"]);
    bench("--store redis,redis-strict --redis-url redis://127.0.0.1:1")
        .badly(64, &["replica", "leave out --redis-url"]);
    bench("--redis-url redis+cluster://a:1").badly(64, &["redis://", "--server"]);
    bench("--redis-url redis://127.0.0.1:1").badly(69, &["--redis-url", "--store redis"]);
    bench("--server http://127.0.0.1:1").badly(69, &["127.0.0.1:1", "tombola serve"]);
    bench("--server http://127.0.0.1:port").badly(64, &["HOST:PORT"]);
    bench("--server http://127.0.0.1:1 --baselines").badly(64, &["leave out --server"]);
    bench("--report /nowhere/at/all.html").badly(64, &["/nowhere/at"]);
    // Nobody may make a file there.
    bench("--report /proc/all.html").badly(64, &["--report", "/proc/all.html"]);
    bench("--tls-cert a.pem --tls-key b.pem").badly(64, &["--server"]);
    is_empty(directory.path());
    let mut too_many = process::bench();
    too_many.args(["cost", "--users", "20000000"]);
    Ended::of(&mut too_many).badly(64, &["--users", "20000000"]);
    let nowhere = Path::new("/nowhere/at/all");
    Ended::of(&mut command(nowhere, "")).badly(64, &["--directory", "/nowhere/at/all"]);
    let mut without = command(directory.path(), "--store redis");
    Ended::of(without.env("PATH", "/nowhere")).badly(1, &["install", "--redis-url"]);
}

#[test]
fn a_variable_for_other_commands_puts_no_server_under_load() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = command(directory.path(), SHORT);
    command
        .env("TOMBOLA_SERVER", "http://127.0.0.1:1")
        .env("TOMBOLA_REDIS_URL", "redis://127.0.0.1:1");
    Ended::of(&mut command).well();
}

#[test]
fn a_server_program_of_another_build_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let other = directory.path().join("tombola");
    let path = other.to_str().unwrap();
    // Another process writes the file. A file that this process, or a fork of it, still has open
    // for writing cannot be executed.
    let script = |version: &str| {
        const WRITE: &str = r#"printf '#!/bin/sh\necho "%s"\n' "$1" >"$2"; chmod 755 "$2""#;
        let mut write = Command::new("sh");
        write.args(["-c", WRITE, "sh", version, path]);
        assert!(write.status().unwrap().success());
    };
    let run = |line: &str| Ended::of(process::bench().args(line.split_whitespace()));
    run(&format!("--tombola {path}")).badly(64, &[path, "cargo build", "--tombola"]);
    script("tombola 0.1.0");
    run(&format!("--tombola {path}")).badly(64, &[path, "unknown build", "cargo build"]);
    script("tombola 0.1.0\nbuild 0123456789abcdef");
    for line in [
        format!("--tombola {path}"),
        format!("cost --tombola {path}"),
    ] {
        run(&line).badly(64, &[path, "0123456789abcdef", tombola::BUILD_ID]);
    }
}

#[test]
fn both_programs_show_the_build_that_they_must_share() {
    let expected = |name: &str| format!("{name} {}\n", tombola::LONG_VERSION);
    let shown = |mut command: Command| Ended::of(command.arg("--version")).well();
    assert_eq!(shown(process::bench()), expected("tombola-bench"));
    assert_eq!(shown(process::tombola()), expected("tombola"));
}

#[test]
fn who_stops_it_finds_nothing_left() {
    let redis = RedisServer::start(&[]);
    for store in [
        "embedded,redis".to_owned(),
        format!("redis --redis-url {}", redis.url()),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let mut command = command(directory.path(), &format!("--duration 10m --store {store}"));
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id();
        let output = Output::of(&mut child);
        let deadline = Instant::now() + PATIENCE;
        // Both services run once both directories exist.
        while children(pid).len() < 2 {
            assert!(Instant::now() < deadline, "{}", output.text());
            std::thread::sleep(Duration::from_millis(20));
        }
        let children = children(pid);
        let kill = format!("kill -INT {pid}");
        assert!(
            Command::new("sh")
                .args(["-c", &kill])
                .status()
                .unwrap()
                .success()
        );
        output.wait_for_end();
        assert_eq!(child.wait().unwrap().code(), Some(1), "{}", output.text());
        assert!(
            output.text().contains("nothing of the bench is left"),
            "{}",
            output.text()
        );
        is_empty(directory.path());
        for child in children {
            assert!(
                !Path::new(&format!("/proc/{child}")).exists(),
                "{child} runs on"
            );
        }
    }
    assert_eq!(redis.command(&["DBSIZE"]), "0");
}

#[test]
fn what_nohup_starts_goes_on_when_its_terminal_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let line = "--scenario deck --duration 1s --warm-up 50ms --rounds 1 --connections 2 \
                --outstanding 4";
    let bench = command(directory.path(), line);
    let mut nohup = Command::new("sh");
    nohup.args(["-c", r#"trap "" HUP; exec "$@""#, "sh"]);
    nohup.arg(bench.get_program()).args(bench.get_args());
    for (name, value) in bench.get_envs() {
        match value {
            Some(value) => nohup.env(name, value),
            None => nohup.env_remove(name),
        };
    }
    let mut child = nohup
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let output = Output::of(&mut child);
    let deadline = Instant::now() + PATIENCE;
    // It takes signals before it starts its servers.
    while children(pid).len() < 2 {
        assert!(Instant::now() < deadline, "{}", output.text());
        std::thread::sleep(Duration::from_millis(20));
    }
    let kill = format!("kill -HUP {pid}");
    assert!(
        Command::new("sh")
            .args(["-c", &kill])
            .status()
            .unwrap()
            .success()
    );
    output.wait_for_end();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{}", output.text());
    is_empty(directory.path());
}

/// The child processes of a process.
fn children(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let mut all: Vec<u32> = Vec::new();
    all.extend(
        text.unwrap_or_default()
            .split_whitespace()
            .filter_map(|one| one.parse::<u32>().ok()),
    );
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        all.extend(
            text.split_whitespace()
                .filter_map(|one| one.parse::<u32>().ok()),
        );
    }
    all.sort_unstable();
    all.dedup();
    all
}
