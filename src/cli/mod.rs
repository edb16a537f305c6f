//! The command line: parse and dispatch, one file a subcommand.
//!
//! Commands other than `serve`, `init`, `recover`, `upgrade`, `key` and `demo` are clients: all they know of a
//! server is `tombola.v1`. What they read from files is checked in full before anything is sent.
//! Errors become text and exit codes in `failure` only, and only `output` writes.

mod apply;
mod bench;
mod block;
mod campaigns;
mod change_view;
mod check;
mod client;
mod demo;
mod draw;
mod envelope;
mod envelope_view;
mod failure;
mod grant;
mod house;
mod init;
mod input;
mod key;
mod lifecycle;
mod listen;
mod log;
mod odds;
mod output;
mod plan;
mod plan_view;
mod recall;
mod recover;
mod schedule;
mod serve;
mod stats;
mod store_args;
mod store_id;
mod terminal;
mod time;
mod upgrade;
mod users;
mod wait;

use std::process::ExitCode;

use clap::{
    ArgAction, Command as ClapCommand, CommandFactory as _, FromArgMatches as _, Parser,
    Subcommand, builder::BoolishValueParser,
};

use client::{Client, Outcome};
use failure::{Exit, Failure};

/// Hands out prizes, over gRPC: a server, and the commands of its operators.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "tombola",
    version,
    long_version = crate::LONG_VERSION,
    arg_required_else_help = true,
    after_help = "Every option has a variable, e.g. TOMBOLA_SERVER for --server.
Exit codes: 0 done, 1 refused or failed, 64 wrong usage, 69 server not available.

Example:
  tombola serve
  tombola apply -f spring-wheel.yaml
  tombola draw spring-wheel user-1"
)]
struct Cli {
    #[command(flatten)]
    client: Client,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Clone, Debug)]
enum Command {
    /// Run the server
    Serve(serve::ServeArgs),
    /// Make a store on Redis, from which services then serve
    Init(init::InitArgs),
    /// Make a master key
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Run a server with a campaign and users who draw
    Demo(demo::DemoArgs),
    /// Say that the bench is a program of its own
    #[command(hide = true)]
    Bench(bench::BenchArgs),
    /// Create or change campaigns from a file
    Apply(apply::ApplyArgs),
    /// List the campaigns
    Campaigns(campaigns::ListArgs),
    /// Show a campaign
    Campaign(campaigns::GetArgs),
    /// Refuse draws until resume
    Pause(lifecycle::PauseArgs),
    /// Take draws again
    Resume(lifecycle::ResumeArgs),
    /// End a campaign for good
    Close(lifecycle::CloseArgs),
    /// Hold or release a prize
    #[command(subcommand)]
    Prize(lifecycle::PrizeCommand),
    /// Replace the schedule of a pool
    Plan(plan::PlanArgs),
    /// Show what is planned, injected, released and won, hour by hour
    Schedule(schedule::ScheduleArgs),
    /// Take unreleased units back
    Recall(recall::RecallArgs),
    /// Let a store on Redis go on that has lost entries in a failover
    Recover(recover::RecoverArgs),
    /// Raise the format of a Redis store's data once all services are new enough
    Upgrade(upgrade::UpgradeArgs),
    /// Give users bonus draws
    Grant(grant::GrantArgs),
    /// Keep users from the pools, without their notice
    Block(block::BlockArgs),
    /// Undo block
    Unblock(block::UnblockArgs),
    /// Draw for a user
    Draw(draw::DrawArgs),
    /// Show what an earlier draw gave
    GetDraw(draw::GetDrawArgs),
    /// Show what a user may still draw
    Check(check::CheckArgs),
    /// Show the odds as they may be published
    Odds(odds::OddsArgs),
    /// Create, grab, show or cancel an envelope
    #[command(subcommand)]
    Envelope(envelope::EnvelopeCommand),
    /// Show where every unit is, or all money of envelopes
    Stats(stats::StatsArgs),
}

/// Runs the command that the arguments name.
pub fn run() -> ExitCode {
    let matches = command().try_get_matches();
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return explain(&error),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => runtime.block_on(dispatch(cli)),
        Err(error) => {
            output::note(&format!("error: cannot start: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// The parser. Flags take 1, true, yes and on from their variables, not only `true`.
fn command() -> ClapCommand {
    fn boolish(command: ClapCommand) -> ClapCommand {
        command
            .mut_args(|arg| match arg.get_action() {
                ArgAction::SetTrue => arg.value_parser(BoolishValueParser::new()),
                _ => arg,
            })
            .mut_subcommands(boolish)
    }
    boolish(Cli::command())
}

/// Help and version go to standard output and are no failure; everything else is wrong usage.
fn explain(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        drop(error.print());
        return Exit::Usage.into();
    }
    output::say(&error.render().to_string());
    finish(false, Ok(()))
}

async fn dispatch(cli: Cli) -> ExitCode {
    let client = cli.client;
    let outcome = match cli.command {
        Command::Serve(args) => return serve::run(args).await,
        Command::Demo(args) => return demo::run(args).await,
        Command::Init(args) => init::run(&client, args).await,
        Command::Key(command) => key::run(&client, command),
        Command::Bench(args) => bench::run(args),
        Command::Apply(args) => apply::run(&client, args).await,
        Command::Campaigns(args) => campaigns::list(&client, args).await,
        Command::Campaign(args) => campaigns::get(&client, args).await,
        Command::Pause(args) => lifecycle::pause(&client, args).await,
        Command::Resume(args) => lifecycle::resume(&client, args).await,
        Command::Close(args) => lifecycle::close(&client, args).await,
        Command::Prize(command) => lifecycle::prize(&client, command).await,
        Command::Plan(args) => plan::run(&client, args).await,
        Command::Schedule(args) => schedule::run(&client, args).await,
        Command::Recall(args) => recall::run(&client, args).await,
        Command::Recover(args) => recover::run(&client, args).await,
        Command::Upgrade(args) => upgrade::run(&client, args).await,
        Command::Grant(args) => grant::run(&client, args).await,
        Command::Block(args) => block::block(&client, args).await,
        Command::Unblock(args) => block::unblock(&client, args).await,
        Command::Draw(args) => draw::run(&client, args).await,
        Command::GetDraw(args) => draw::get(&client, args).await,
        Command::Check(args) => check::run(&client, args).await,
        Command::Odds(args) => odds::run(&client, args).await,
        Command::Envelope(command) => envelope::run(&client, command).await,
        Command::Stats(args) => stats::run(&client, args).await,
    };
    finish(client.json, outcome)
}

fn finish(json: bool, outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(()) if output::failed() => Exit::Failed.into(),
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let failure: &Failure = &failure;
            let text = if json {
                format!("{:#}", failure.to_json())
            } else {
                failure.to_string()
            };
            output::note(&text);
            failure.exit.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each(command: &ClapCommand, check: &mut impl FnMut(&ClapCommand)) {
        check(command);
        for command in command.get_subcommands() {
            each(command, check);
        }
    }

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn every_option_has_a_variable() {
        each(&command(), &mut |command| {
            for arg in command.get_arguments() {
                let Some(long) = arg.get_long().filter(|long| *long != "help") else {
                    continue;
                };
                let name = arg
                    .get_env()
                    .and_then(|name| name.to_str())
                    .unwrap_or_default();
                let ending = long.replace('-', "_").to_uppercase();
                assert!(
                    name.starts_with("TOMBOLA_") && name.ends_with(&ending) || long == "version",
                    "--{long}: {name}"
                );
            }
        });
    }

    #[test]
    fn every_example_parses() {
        let mut examples = 0;
        each(&command(), &mut |command| {
            let help = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            let leaf = command.get_subcommands().next().is_none();
            assert!(
                !leaf || help.contains("Example:"),
                "{} has no example",
                command.get_name()
            );
            for line in help.lines().filter(|line| line.starts_with("  tombola ")) {
                examples += 1;
                let line = line.split(" > ").next().unwrap_or_default();
                let quotes = line.split('"').enumerate();
                let words = quotes.flat_map(|(index, part)| match index % 2 {
                    0 => part.split_whitespace().collect(),
                    _ => vec![part],
                });
                let parsed = self::command().try_get_matches_from(words);
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
        });
        assert!(examples > 20, "{examples} examples");
    }

    #[test]
    fn wrong_usage_is_found_before_anything_is_sent() {
        for line in [
            "tombola draw spring-wheel",
            "tombola draw a{b} user",
            "tombola draw spring-wheel user-1 --count 101",
            "tombola grant spring-wheel --draws 1",
            "tombola grant spring-wheel --draws 0 user-1",
            "tombola schedule spring-wheel --from tomorrow",
            "tombola fly",
        ] {
            let parsed = command().try_get_matches_from(line.split_whitespace());
            assert!(parsed.is_err(), "{line}");
        }
    }
}
