//! `tombola watch`: entries of the ledger as JSON lines, as they come.

use std::{
    fs,
    io::{ErrorKind, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use tokio::time::sleep;
use tonic::Code;

use super::{
    client::{Client, Outcome, campaign_id},
    failure::{Exit, Failure},
    output::{self, note, say},
    stop::interrupted,
};
use crate::{
    model::file,
    proto::{WatchEntriesRequest, WatchEntriesResponse},
};

/// The pause before a stream that has ended is begun again.
const RESUME_PAUSE: Duration = Duration::from_secs(1);

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Each line is a WatchEntriesResponse. If the server stops, watch begins again
by itself at the last cursor. Ctrl-C ends it, with code 0, and so does a reader that closes the
output: the cursor file is never ahead of what was written.

Example:
  tombola watch --campaign spring-wheel --kind draw --cursor-file wins.cursor"
)]
pub(super) struct WatchArgs {
    /// Entries of this campaign
    #[arg(long, env = "TOMBOLA_CAMPAIGN", value_name = "ID", value_parser = campaign_id)]
    campaign: Option<String>,
    /// Entries of this kind, such as draw, delivered or revoked; may be given many times
    #[arg(long, env = "TOMBOLA_KIND", value_name = "KIND")]
    kind: Vec<String>,
    /// Draws that won this prize of the campaign, and its deliveries
    #[arg(long, env = "TOMBOLA_PRIZE", value_name = "ID", requires = "campaign")]
    prize: Option<String>,
    /// Also entries that are not settled yet, which a rollback may undo
    #[arg(long, env = "TOMBOLA_UNSETTLED")]
    unsettled: bool,
    /// Begin after this cursor instead of at the first entry
    #[arg(long, env = "TOMBOLA_CURSOR", value_name = "CURSOR")]
    cursor: Option<String>,
    /// Begin after what is there now
    #[arg(long, env = "TOMBOLA_FROM_END", conflicts_with = "cursor")]
    from_end: bool,
    /// Keep the last cursor in this file, and begin after it the next time
    #[arg(long, env = "TOMBOLA_CURSOR_FILE", value_name = "FILE")]
    cursor_file: Option<PathBuf>,
}

pub(super) async fn run(client: &Client, args: WatchArgs) -> Outcome {
    let kept = match &args.cursor_file {
        Some(file) => read_cursor(file)?,
        None => None,
    };
    let mut request = WatchEntriesRequest {
        cursor: kept.or(args.cursor).unwrap_or_default(),
        unsettled: args.unsettled,
        campaign_id: args.campaign.unwrap_or_default(),
        kinds: args.kind,
        prize_id: args.prize.unwrap_or_default(),
        from_end: args.from_end,
    };
    let interrupted = interrupted()?;
    tokio::select! {
        ended = follow_for_ever(client, &mut request, args.cursor_file.as_deref()) => ended,
        // The cursor of every line that was printed is in the file.
        () = interrupted => Ok(()),
    }
}

/// Follows one stream after the other.
async fn follow_for_ever(
    client: &Client,
    request: &mut WatchEntriesRequest,
    cursor_file: Option<&Path>,
) -> Outcome {
    let mut has_begun = false;
    loop {
        let ended = follow(client, request, cursor_file, &mut has_begun);
        let failure = match ended.await {
            // Nobody reads any more, or the output cannot be written.
            Ok(()) if !output::is_open() => return Ok(()),
            Ok(()) => None,
            Err(failure) if has_begun && failure.exit == Exit::Unavailable => Some(failure),
            Err(failure) => return Err(failure),
        };
        if let Some(failure) = failure {
            note(&format!("watching again in a moment: {failure}"));
        }
        sleep(RESUME_PAUSE).await;
    }
}

/// Follows one stream to its end.
async fn follow(
    client: &Client,
    request: &mut WatchEntriesRequest,
    cursor_file: Option<&Path>,
    has_begun: &mut bool,
) -> Outcome {
    let mut server = client.ledger().await?;
    let stream = server.watch_entries(request.clone()).await;
    let mut stream = stream.map_err(Failure::read)?.into_inner();
    *has_begun = true;
    loop {
        let next = stream.message().await;
        let response = match next {
            Ok(Some(response)) => response,
            Ok(None) => return Ok(()),
            // A connection that breaks is no answer of the server.
            Err(status) if status.code() == Code::Unknown => return Ok(()),
            Err(status) => return Err(Failure::read(status)),
        };
        show(&response);
        if !output::is_open() {
            // The line was not written, so the cursor stays before it.
            return Ok(());
        }
        request.cursor.clone_from(&response.cursor);
        if let Some(file) = cursor_file {
            write_cursor(file, &response.cursor)?;
        }
    }
}

fn show(response: &WatchEntriesResponse) {
    if response.entry.is_some() {
        say(&file::to_json("tombola.v1.WatchEntriesResponse", response).to_string());
    }
}

fn read_cursor(file: &Path) -> Outcome<Option<String>> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(file_failure(file, &error)),
    }
}

/// Writes the cursor beside the file first, so that the file always has a whole one. The name of
/// the file beside it contains the whole name, so that watchers with other files write others.
fn write_cursor(file: &Path, cursor: &str) -> Outcome {
    let mut next = file.as_os_str().to_owned();
    next.push(".next");
    let written = fs::File::create(&next).and_then(|mut next| {
        writeln!(next, "{cursor}")?;
        next.sync_data()
    });
    let written = written.and_then(|()| fs::rename(&next, file));
    written.map_err(|error| file_failure(file, &error))
}

fn file_failure(file: &Path, error: &std::io::Error) -> Box<Failure> {
    let file = file.display();
    Failure::usage(format!("--cursor-file {file}: {error}"))
}
