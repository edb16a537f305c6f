//! `tombola-bench`: measures the throughput of a machine. It makes draws and other calls on any
//! store, and empty calls for comparison, in one run.
//!
//! It measures from outside: services are processes, called over gRPC. It asks Redis only for
//! figures that Redis alone has. However it ends, it removes all that it made: processes,
//! directories, keys and campaigns.
//!
//! The files in layers; a file may use only those above it, or of its own row:
//!
//! | files | purpose |
//! |---|---|
//! | `failure`, `output` | errors and exit codes, text |
//! | `process`, `program`, `tls`, `link`, `service` | child processes, the server program, connections |
//! | `record`, `load` | the generator and what it measures; they know nothing of what is called |
//! | `scenario`, `envelopes`, `calls` | what is called |
//! | `redis_server`, `postgres`, `protections`, `campaigns`, `subject`, `empty`, `rig` | the services under test |
//! | `baselines` | published methods to do the same, and which promises they break |
//! | `host`, `figures`, `table`, `page` | the results |
//! | `options`, `round`, `run` | one run |
//! | `cost` | another kind of run: bytes and microseconds per draw, user and unit |
//! | `overload` | another kind of run: more load than a service can answer |
//! | `soak` | another kind of run: days of a campaign in hours |

mod baselines;
mod calls;
mod campaigns;
mod collector;
mod cost;
mod empty;
mod envelopes;
mod failure;
mod figures;
mod host;
mod link;
mod load;
mod options;
mod output;
mod overload;
mod page;
mod postgres;
mod process;
mod program;
mod protections;
mod record;
mod redis_server;
mod rig;
mod round;
mod run;
mod scenario;
mod service;
mod soak;
mod subject;
mod table;
mod tls;
mod tls_args;
mod token_args;

use std::{
    fs,
    future::pending,
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Parser, Subcommand, builder::BoolishValueParser};
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};

use cost::CostArgs;
use failure::{Exit, Failure, Outcome};
use options::BenchArgs;
use output::{note, say};
use overload::OverloadArgs;
use rig::Rig;
use soak::SoakArgs;

/// The same allocator as the server's, so that an empty call costs here what it costs there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures the throughput of this machine, or of a running server.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "tombola-bench",
    version,
    long_version = tombola::LONG_VERSION,
    args_conflicts_with_subcommands = true,
    after_help = "Without --server it starts its own services, in a temporary directory, and removes
everything at the end. A service that --server names is put under real load: the bench creates its
own campaigns there, and closes them at the end.
Every option has a variable, e.g. TOMBOLA_BENCH_RATE for --rate. Variables of other programs, such
as TOMBOLA_SERVER, have no effect here.
Exit codes: 0 done, 1 refused or failed, 64 wrong usage, 69 server or Redis not available.

Example:
  tombola-bench
  tombola-bench --scenario draw,check --store embedded,redis,redis-fast --report bench.html
  tombola-bench --rate 20000 --duration 30s
  tombola-bench --baselines
  tombola-bench --server http://127.0.0.1:50051 --scenario mix"
)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    bench: BenchArgs,
    #[command(subcommand)]
    command: Option<BenchCommand>,
}

/// Options of all commands.
#[derive(Args, Clone, Debug)]
struct Common {
    /// The server program, of the same build [default: tombola in this program's directory]
    #[arg(
        long,
        global = true,
        env = "TOMBOLA_BENCH_TOMBOLA",
        value_name = "PATH"
    )]
    tombola: Option<PathBuf>,
    /// Print the figures, or the error, as JSON
    #[arg(
        long,
        global = true,
        env = "TOMBOLA_BENCH_JSON",
        value_parser = BoolishValueParser::new()
    )]
    json: bool,
}

/// The commands besides the default one.
#[derive(Subcommand, Clone, Debug)]
enum BenchCommand {
    /// Measure the processor time, memory and disk space that a draw, a user and a waiting unit
    /// need, and how they grow
    Cost(CostArgs),
    /// Measure what a service still answers at more load than it can answer, with a core for the
    /// load and another for the service
    Overload(OverloadArgs),
    /// Run days of a campaign in hours, on a fast clock, with services that come and go, and see
    /// whether memory, files and latencies stay flat and the sums add up
    Soak(SoakArgs),
    /// Run the server that answers empty calls
    #[command(name = empty::COMMAND, hide = true)]
    EmptyServer,
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return explain(&error),
    };
    let json = cli.common.json;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(run(cli)),
        Err(error) => Err(Failure::refused(
            "NO_RUNTIME",
            format!("cannot start: {error}"),
        )),
    };
    let Err(failure) = outcome else {
        return ExitCode::SUCCESS;
    };
    note(&if json {
        format!("{:#}", failure.to_json())
    } else {
        failure.to_string()
    });
    failure.exit.into()
}

/// Help and version go to standard output and are no failure; every other parser error is wrong
/// usage.
fn explain(error: &clap::Error) -> ExitCode {
    drop(error.print());
    if error.use_stderr() {
        Exit::Usage.into()
    } else {
        ExitCode::SUCCESS
    }
}

/// Runs the command that the arguments name, and prints the result.
async fn run(cli: Cli) -> Outcome {
    let Common { tombola, json } = cli.common;
    match cli.command {
        None => {
            let settings = cli.bench.read(tombola)?;
            let figures = with_cleanup(async |rig| run::measure(&settings, rig).await).await?;
            // Neither is lost if the other cannot be written.
            let shown = show(json, &figures, table::render);
            write_report(settings.report.as_deref(), || page::render(&figures))?;
            shown?;
            balanced(figures.balanced)?;
            kept(&figures.broken())
        }
        Some(BenchCommand::Cost(args)) => {
            let costs = with_cleanup(async |rig| cost::measure(&args, tombola, rig).await).await?;
            show(json, &costs, cost::render)?;
            balanced(costs.balanced)?;
            match costs.failed.as_slice() {
                [] => Ok(()),
                failed => Err(Failure::refused(
                    "NOT_MEASURED",
                    format!("not measured: {}", failed.join("; ")),
                )),
            }
        }
        Some(BenchCommand::Overload(args)) => {
            let figures =
                with_cleanup(async |rig| overload::measure(&args, tombola, rig).await).await?;
            show(json, &figures, overload::render)?;
            balanced(figures.balanced)
        }
        Some(BenchCommand::Soak(args)) => {
            let found = with_cleanup(async |rig| soak::measure(&args, tombola, rig).await).await?;
            let shown = show(json, &found, soak::render);
            write_report(args.report.as_deref(), || soak::render(&found))?;
            shown?;
            match found.faults().as_slice() {
                [] => Ok(()),
                faults => Err(Failure::refused("SOAK", faults.join("\n"))),
            }
        }
        Some(BenchCommand::EmptyServer) => empty::run().await,
    }
}

/// Does the work, unless a signal comes first, and removes all that was made.
async fn with_cleanup<T>(work: impl AsyncFnOnce(&mut Rig) -> Outcome<T>) -> Outcome<T> {
    let stop = stop()
        .map_err(|error| Failure::refused("SIGNALS", format!("cannot take signals: {error}")))?;
    let mut rig = Rig::default();
    let done = tokio::select! {
        done = work(&mut rig) => Some(done),
        () = stop => None,
    };
    if done.is_none() {
        note("stopping: the bench removes what it made");
    }
    let done = done.map(|done| done.map_err(|failure| rig.explain(failure)));
    let is_all_gone = rig.leave().await;
    done.unwrap_or_else(|| {
        let left = match is_all_gone {
            true => "nothing of the bench is left",
            false => "the bench could not remove all that it made",
        };
        let message = format!("stopped before the end; {left}");
        Err(Failure::refused("STOPPED", message))
    })
}

/// Writes the report if a file is named.
fn write_report(file: Option<&Path>, report: impl FnOnce() -> String) -> Outcome {
    let Some(file) = file else { return Ok(()) };
    let name = file.display();
    fs::write(file, report()).map_err(|error| {
        let message = format!("--report: {name} cannot be written: {error}");
        Failure::refused("NO_REPORT", message)
    })?;
    note(&format!("the report is in {name}"));
    Ok(())
}

/// Prints the figures.
fn show<T: Serialize>(json: bool, figures: &T, text: impl FnOnce(&T) -> String) -> Outcome {
    if !json {
        return say(&text(figures));
    }
    let json = serde_json::to_string_pretty(figures);
    say(&json.map_err(|error| Failure::refused("BUG", error.to_string()))?)
}

fn balanced(balanced: bool) -> Outcome {
    if balanced {
        return Ok(());
    }
    Err(Failure::refused(
        "NOT_BALANCED",
        "the sums of a campaign do not add up: this must never happen; please report it",
    ))
}

/// Fails if Tombola has broken promises.
fn kept(broken: &[String]) -> Outcome {
    match broken {
        [] => Ok(()),
        broken => {
            let broken = broken.join("; ");
            let message = format!("{broken}: this must never happen; please report it");
            Err(Failure::refused("PROMISE_BROKEN", message))
        }
    }
}

/// Ends with the first signal to stop. Further signals are ignored, so that the bench can remove
/// what it made.
fn stop() -> io::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = match ignores_hang_up() {
        true => None,
        false => Some(signal(SignalKind::hangup())?),
    };
    Ok(async move {
        let hung_up = async {
            match &mut hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hung_up => {}
        }
    })
}

/// Whether it shall go on when its terminal is closed: `nohup` starts programs so.
fn ignores_hang_up() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let ignored = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|signals| u64::from_str_radix(signals.trim(), 16).ok());
    // The lowest bit is SIGHUP's.
    ignored.is_some_and(|signals| signals & 1 == 1)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_option_has_a_variable() {
        let mut cli = Cli::command();
        cli.build();
        for command in std::iter::once(&cli).chain(cli.get_subcommands()) {
            for arg in command.get_arguments() {
                let Some(long) = arg.get_long() else { continue };
                let name = arg.get_env().and_then(|name| name.to_str());
                let ending = long.replace('-', "_").to_uppercase();
                let named = name.is_some_and(|name| {
                    name.starts_with("TOMBOLA_BENCH_") && name.ends_with(&ending)
                });
                assert!(
                    named || ["help", "version"].contains(&long),
                    "--{long}: {name:?}"
                );
            }
        }
    }

    #[test]
    fn every_example_parses() {
        let cli = Cli::command();
        let mut examples = 0;
        for command in std::iter::once(&cli).chain(cli.get_subcommands()) {
            let help = command.get_after_help().map(ToString::to_string);
            for line in help.unwrap_or_default().lines() {
                let Some(line) = line.strip_prefix("  tombola-bench") else {
                    continue;
                };
                examples += 1;
                let words = std::iter::once("tombola-bench").chain(line.split_whitespace());
                let parsed = Cli::try_parse_from(words);
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
        }
        assert!(examples >= 7, "{examples} examples");
    }
}
