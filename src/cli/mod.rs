//! The command line: parsing and dispatch. Each subcommand has a file.
//!
//! All commands except `serve`, `init`, `recover`, `restore`, `upgrade`, `migrate`, `settle`,
//! `key`, `access`, `simulate` and `demo` are clients: they use only the API `tombola.v1`. Input
//! files are checked in full before anything is sent. Only `failure` turns errors into text and
//! exit codes, and only `output` writes to standard output.

mod access;
mod access_args;
mod admin_args;
mod alerts;
mod apply;
mod audit;
mod audit_view;
mod backup;
mod bench;
mod block;
mod bonus;
mod campaigns;
mod change_view;
mod check;
mod client;
mod code_file;
mod codes;
mod codes_import;
mod completions;
mod connection_args;
mod console_args;
mod demo;
mod draw;
mod envelope;
mod envelope_view;
mod errand;
mod exposure;
mod failure;
mod forget;
mod grant;
mod house;
mod init;
mod input;
mod key;
mod ledger_args;
mod lifecycle;
mod listen;
mod lists;
mod log;
mod log_ids;
mod lost;
mod migrate;
mod odds;
mod oidc_args;
mod output;
mod overload_args;
mod phrases;
mod plan;
mod plan_view;
mod private;
mod proposals;
mod recall;
mod recover;
mod restore;
mod schedule;
mod serve;
mod settle;
mod settling;
mod shell;
mod simulate;
mod sink_args;
mod spoken;
mod stats;
mod stop;
mod store_args;
mod store_id;
mod stranger;
mod terminal;
mod time;
mod tls_args;
mod tls_failure;
mod token_args;
mod trace_args;
mod tries;
mod upgrade;
mod user;
mod users;
mod wait;
mod watch;
mod win;

use std::process::ExitCode;

use clap::{
    ArgAction, Command as ClapCommand, CommandFactory as _, FromArgMatches as _, Parser,
    Subcommand, builder::BoolishValueParser, error::ErrorKind,
};

use client::{Client, Outcome};
use failure::{Exit, Failure, Subject};

/// Hands out prizes over gRPC: the server, and the commands of its operators.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "tombola",
    version,
    long_version = crate::LONG_VERSION,
    arg_required_else_help = true,
    after_help = "Every option has a variable, e.g. TOMBOLA_SERVER for --server, except --count,
--yes and --request-id, which are for a single command.
Exit codes: 0 done, 1 refused or failed, 64 wrong usage, 69 server not available.

Example:
  tombola serve
  tombola apply spring-wheel.yaml
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
    Serve(Box<serve::ServeArgs>),
    /// Create a store on Redis for services to use
    Init(init::InitArgs),
    /// Make a master key
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Run a server with a sample campaign and simulated users
    Demo(demo::DemoArgs),
    /// Say that the bench is a separate program
    #[command(hide = true)]
    Bench(bench::BenchArgs),
    /// Play a campaign file through before its first draw: prizes, costs and limits to expect
    Simulate(simulate::SimulateArgs),
    /// Create or change campaigns from a file
    Apply(apply::ApplyArgs),
    /// List the campaigns
    Campaigns(campaigns::ListArgs),
    /// Show a campaign
    Campaign(campaigns::GetArgs),
    /// Refuse draws until the campaign is resumed
    Pause(lifecycle::PauseArgs),
    /// Accept draws again
    Resume(lifecycle::ResumeArgs),
    /// End a campaign for good
    Close(lifecycle::CloseArgs),
    /// Hold or release a prize
    #[command(subcommand)]
    Prize(lifecycle::PrizeCommand),
    /// Import codes of a prize, or write the unused ones
    #[command(subcommand)]
    Codes(codes::CodesCommand),
    /// List proposed changes, or show one
    Proposals(proposals::ListArgs),
    /// Approve a change that another identity has proposed, which makes it
    Approve(proposals::DecideArgs),
    /// End a proposal without its change
    Reject(proposals::DecideArgs),
    /// Replace the schedule of a pool
    Plan(plan::PlanArgs),
    /// Show what is planned, injected, released and won, hour by hour
    Schedule(schedule::ScheduleArgs),
    /// Take unreleased units back
    Recall(recall::RecallArgs),
    /// Show and end the halt of Redis partitions that lost entries in a failover
    Recover(recover::RecoverArgs),
    /// Copy an embedded store into a file, while its server works
    Backup(backup::BackupArgs),
    /// Make an embedded store of a backup
    Restore(restore::RestoreArgs),
    /// Raise the format of a Redis store's data, once all services are new enough
    Upgrade(upgrade::UpgradeArgs),
    /// Make the tables of the ledger in PostgreSQL, or bring them to this version
    Migrate(migrate::MigrateArgs),
    /// Settle the ledger of a store on Redis into PostgreSQL
    Settle(settle::SettleArgs),
    /// Check that the ledger adds up, and that nothing settled was changed
    Audit(audit::AuditArgs),
    /// Give users bonus draws
    Grant(grant::GrantArgs),
    /// Give a user bonus draws as a caller does
    Bonus(bonus::BonusArgs),
    /// Exclude users from the pools; they get the consolation prize
    Block(block::BlockArgs),
    /// Undo a block
    Unblock(block::UnblockArgs),
    /// List units that were won
    Wins(lists::wins::WinsArgs),
    /// List draws and how they came out
    Draws(lists::draws::DrawsArgs),
    /// List what operators did
    Operations(lists::operations::OperationsArgs),
    /// List envelopes, grabs and refunds
    Envelopes(lists::envelopes::EnvelopesArgs),
    /// Show a user, what a user did, or the blocked users
    #[command(subcommand)]
    User(user::UserCommand),
    /// Draw for a user
    Draw(draw::DrawArgs),
    /// Show the result of an earlier draw
    GetDraw(draw::GetDrawArgs),
    /// Show what a user may still draw
    Check(check::CheckArgs),
    /// Show the odds that may be published
    Odds(odds::OddsArgs),
    /// Deliver or revoke a win
    #[command(subcommand)]
    Win(win::WinCommand),
    /// Follow the ledger, as JSON lines
    Watch(watch::WatchArgs),
    /// Create, grab, show or cancel an envelope
    #[command(subcommand)]
    Envelope(envelope::EnvelopeCommand),
    /// List what needs a look, in all campaigns
    Alerts(alerts::AlertsArgs),
    /// Show the state of every unit, or all money in envelopes
    Stats(stats::StatsArgs),
    /// Check an access file, or make a token for one
    #[command(subcommand)]
    Access(access::AccessCommand),
    /// Write the completion script of a shell
    Completions(completions::CompletionsArgs),
}

/// Runs the command that the arguments name.
pub fn run() -> ExitCode {
    crate::ending::say_by(log::say_last);
    let matches = command().try_get_matches();
    let parsed = matches.and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches)?;
        Ok((cli, Subject::of(&matches), spoken::check(&matches)))
    });
    let (cli, subject, spoken) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return explain(&error),
    };
    let json = cli.client.json;
    if spoken.is_err() {
        return finish(json, spoken);
    }
    // What the writer of the embedded store has done wakes tasks from outside the runtime. Without
    // this bound they would wait behind new calls, of which there are always some under overload.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .global_queue_interval(1)
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => runtime.block_on(dispatch(cli, subject)),
        Err(error) => {
            let message = format!("the process cannot start its threads: {error}");
            finish(json, Err(Failure::start(Exit::Failed, "INTERNAL", message)))
        }
    }
}

/// The parser. Variables of flags accept 1, true, yes and on.
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

/// Help and version go to standard output and are no failure; every other parser error is wrong
/// usage.
fn explain(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        if !wants_json() {
            drop(error.print());
            return Exit::Usage.into();
        }
        return finish(true, Err(misuse(error)));
    }
    output::say(&error.render().to_string());
    finish(false, Ok(()))
}

/// Whether an invalid command line asks for JSON, by its flag or by its variable.
fn wants_json() -> bool {
    let mut words = std::env::args_os().take_while(|word| word != "--");
    let variable = std::env::var("TOMBOLA_JSON").unwrap_or_default();
    let is_on = matches!(
        variable.to_lowercase().as_str(),
        "1" | "true" | "yes" | "on" | "y" | "t"
    );
    is_on || words.any(|word| word == "--json")
}

/// A usage error for programs: the mistake, without the usage text that people get.
fn misuse(error: &clap::Error) -> Box<Failure> {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let text = ["\n\nUsage:", "\n\nFor more information"]
        .iter()
        .fold(text, |text, end| text.split(end).next().unwrap_or(text));
    let message = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "no command is named".to_owned(),
        _ => text.split_whitespace().collect::<Vec<_>>().join(" "),
    };
    Failure::usage(message).advise("see --help")
}

async fn dispatch(cli: Cli, subject: Subject) -> ExitCode {
    let client = cli.client;
    let outcome = match cli.command {
        Command::Serve(args) => return serve::run(&client, &args).await,
        Command::Demo(args) => demo::run(&client, args).await,
        Command::Init(args) => init::run(&client, args).await,
        Command::Key(command) => key::run(&client, command),
        Command::Bench(args) => bench::run(args),
        Command::Simulate(args) => simulate::run(&client, args).await,
        Command::Alerts(args) => alerts::run(&client, args).await,
        Command::Apply(args) => apply::run(&client, args).await,
        Command::Campaigns(args) => campaigns::list(&client, args).await,
        Command::Campaign(args) => campaigns::get(&client, args).await,
        Command::Pause(args) => lifecycle::pause(&client, args).await,
        Command::Resume(args) => lifecycle::resume(&client, args).await,
        Command::Close(args) => lifecycle::close(&client, args).await,
        Command::Prize(command) => lifecycle::prize(&client, command).await,
        Command::Codes(command) => codes::run(&client, command).await,
        Command::Proposals(args) => proposals::list(&client, args).await,
        Command::Approve(args) => proposals::approve(&client, args).await,
        Command::Reject(args) => proposals::reject(&client, args).await,
        Command::Plan(args) => plan::run(&client, args).await,
        Command::Schedule(args) => schedule::run(&client, args).await,
        Command::Recall(args) => recall::run(&client, args).await,
        Command::Recover(args) => recover::run(&client, args).await,
        Command::Backup(args) => backup::run(&client, args).await,
        Command::Restore(args) => restore::run(&client, args).await,
        Command::Upgrade(args) => upgrade::run(&client, args).await,
        Command::Migrate(args) => migrate::run(&client, args).await,
        Command::Settle(args) => settle::run(args).await,
        Command::Audit(args) => audit::run(&client, args).await,
        Command::Grant(args) => grant::run(&client, args).await,
        Command::Bonus(args) => bonus::run(&client, args).await,
        Command::Block(args) => block::block(&client, args).await,
        Command::Unblock(args) => block::unblock(&client, args).await,
        Command::Wins(args) => lists::wins::run(&client, args).await,
        Command::Draws(args) => lists::draws::run(&client, args).await,
        Command::Operations(args) => lists::operations::run(&client, args).await,
        Command::Envelopes(args) => lists::envelopes::run(&client, args).await,
        Command::User(command) => user::run(&client, command).await,
        Command::Draw(args) => draw::run(&client, args).await,
        Command::GetDraw(args) => draw::get(&client, args).await,
        Command::Check(args) => check::run(&client, args).await,
        Command::Odds(args) => odds::run(&client, args).await,
        Command::Win(command) => win::run(&client, command).await,
        Command::Watch(args) => watch::run(&client, args).await,
        Command::Envelope(command) => envelope::run(&client, command).await,
        Command::Stats(args) => stats::run(&client, args).await,
        Command::Access(command) => access::run(&client, command),
        Command::Completions(args) => completions::run(&args, command()),
    };
    let outcome = match outcome {
        Ok(()) => Ok(()),
        Err(failure) => Err(explained(&client, failure, subject).await),
    };
    finish(client.json, outcome)
}

/// Names the objects that the command is about in the failure. If no Tombola answered, finds out
/// what else is at the address.
async fn explained(client: &Client, mut failure: Box<Failure>, subject: Subject) -> Box<Failure> {
    if failure.is_unsigned
        && let Ok(url) = client::server_url(&client.server)
        && let Some(stranger) = stranger::at(&url).await
    {
        return failure.of_stranger(&url, &stranger);
    }
    if failure.is_unsigned
        && let Ok(url) = client::server_url(&client.server)
        && let Ok(uri) = url.parse()
        && let Some(fault) = client.tls.fault(&uri).await
    {
        failure.is_of_tls(&url, fault);
    }
    failure.about(subject);
    failure
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
mod tests;
