//! `tombola user forget`: erases what names a user from the settled ledger.

use clap::Args;
use serde_json::json;

use super::{
    client::{AuthorArgs, Client, Outcome, user_id},
    failure::Failure,
    ledger_args::{LedgerArgs, Place},
    output::{self, counted},
    terminal::confirm,
};
use crate::{
    ledger::forget::{Erasable, Erased, Eraser, ForgetError, Reason, forget, look},
    model::text::{grouped, visible},
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola user forget user-1 --data /var/lib/tombola --dry-run
  tombola user forget user-1 --postgres-url postgres://eraser@127.0.0.1/ledger

It erases the user's id from the settled ledger, with the request ids and payment references of
their draws, the references of deliveries to them, and the attributes of their envelopes. Entries
keep their bytes, in which pseudonyms stand for people, so sums, limits and `tombola audit` stay as
they are. It cannot be undone, and may be done again.

Wins of an erased user may still be delivered or revoked, and these entries name the user by a
pseudonym. So each run, for whichever user, also erases the references and reasons in such entries
of all users who were erased before.

The store itself keeps what it needs of the user: the output says what that is.")]
pub(super) struct ForgetArgs {
    /// The user
    #[arg(value_name = "USER", value_parser = user_id)]
    user: String,
    #[command(flatten)]
    ledger: LedgerArgs,
    /// Show what would be erased, and erase nothing
    #[arg(long, env = "TOMBOLA_DRY_RUN")]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    author: AuthorArgs,
}

/// What the ledger's erasure leaves.
const STAYS: &str = "\
What stays, and until when:
  the user's records and blocks, for limits   as long as the store has the campaign
  the user's latest requests                  as long as the store remembers them
  envelopes, grabs and who may grab           as long as the store keeps the envelope
  operators' acts in an embedded store        as long as the store has the campaign
  entries that are not settled yet            until they are: then run this again
  later draws, deliveries and revocations     until you run this again
  old pages of the database, and backups      until they are overwritten, see docs/ledger.md";

pub(super) async fn run(client: &Client, args: ForgetArgs) -> Outcome {
    let mut sink = open(&args.ledger).await?;
    let failed = |error: ForgetError| match error {
        ForgetError::Sink(error) => args.ledger.failed(&error),
        other => Failure::refused("SINK", other.to_string()),
    };
    let found = look(&mut *sink, &args.user).await.map_err(failed)?;
    if args.dry_run || found.entries == 0 {
        show(client, &args, &found);
        return Ok(());
    }
    let mut whom = Vec::new();
    if found.entries > found.later_entries {
        let own = counts_of_user(&found);
        whom.push(format!("user {} from {own}", visible(&args.user)));
    }
    if found.later_entries > 0 {
        let later = counts_of_others(&found);
        whom.push(format!("users who were erased before from {later}"));
    }
    let question = format!("Erase {}? This cannot be undone.", whom.join(", and "));
    confirm(&question, args.yes)?;
    let (operator, text) = args.author.resolve_here();
    let reason = Reason { operator, text };
    let erased = forget(&mut *sink, &args.user, &reason).await;
    show(client, &args, &erased.map_err(failed)?);
    Ok(())
}

async fn open(ledger: &LedgerArgs) -> Outcome<Box<dyn Eraser>> {
    let erasable = match ledger.place()? {
        Place::File(data) => Erasable::File(data),
        Place::Database(url) => Erasable::Database(url),
    };
    let opened = erasable.open().await;
    opened.map_err(|error| ledger.failed(&error))
}

fn show(client: &Client, args: &ForgetArgs, erased: &Erased) {
    if !client.json {
        return output::say(&text(args, erased));
    }
    let answer = json!({
        "isDryRun": args.dry_run,
        "entries": erased.entries,
        "wins": erased.wins,
        "laterEntries": erased.later_entries,
        "laterWins": erased.later_wins,
        "campaigns": erased.campaigns,
        "envelopes": erased.envelopes,
        "pseudonyms": erased.pseudonyms,
        "entriesOfFormat1": erased.in_bytes,
    });
    output::say(&format!("{answer:#}"));
}

fn text(args: &ForgetArgs, erased: &Erased) -> String {
    let user = visible(&args.user);
    let [is, are] = match args.dry_run {
        true => ["would be"; 2],
        false => ["is", "are"],
    };
    let mut lines = vec![match erased.is_nothing() {
        true => format!("nothing of user {user} was found in the settled ledger"),
        false => format!("user {user} {is} erased from {}", counts_of_user(erased)),
    }];
    if erased.later_entries > 0 {
        let later = counts_of_others(erased);
        lines.push(format!(
            "users who were erased before {are} erased from {later} that came later"
        ));
    }
    if !erased.campaigns.is_empty() {
        let campaigns: Vec<_> = erased.campaigns.iter().map(String::as_str).collect();
        lines.push(format!("campaigns: {}", campaigns.join(", ")));
    }
    if !erased.envelopes.is_empty() {
        let envelopes = erased.envelopes.len() as u64;
        lines.push(format!("envelopes: {}", grouped(envelopes)));
    }
    if erased.in_bytes > 0 {
        lines.push(format!(
            "not erased: {} entries of format 1, which earlier versions wrote with the id in \
             their bytes",
            grouped(erased.in_bytes)
        ));
    }
    lines.push(STAYS.into());
    lines.join("\n")
}

fn counts_of_user(erased: &Erased) -> String {
    let entries = erased.entries - erased.later_entries;
    counts(entries, erased.wins - erased.later_wins)
}

/// Those of deliveries and revocations that came after their users were erased.
fn counts_of_others(erased: &Erased) -> String {
    counts(erased.later_entries, erased.later_wins)
}

/// `12 entries and 3 wins`
fn counts(entries: u64, wins: u64) -> String {
    format!("{} and {}", counted(entries, "entry"), counted(wins, "win"))
}
