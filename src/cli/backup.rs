//! `tombola backup`: copies an embedded store into a file, while its server works.

use std::{
    fs::File,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use clap::Args;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{
    client::{Client, Outcome},
    failure::Failure,
    output::say,
    stop::interrupted,
};
use crate::{
    model::{convert::moment_from_proto, text::grouped},
    proto::{BackupHeader, BackupRequest, backup_response::Part},
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  tombola backup monday.backup\n
The file has all that the store had at one moment: campaigns, users, the ledger. It does not have \
the master key: back that up once, apart from it. `tombola restore` makes a store of it.")]
pub(super) struct BackupArgs {
    /// The file to make, readable only by its owner; an existing file is never changed
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) async fn run(client: &Client, args: BackupArgs) -> Outcome {
    let interrupted = interrupted()?;
    tokio::select! {
        made = make(client, &args.file) => made,
        () = interrupted => {
            Err(refused("stopped before the backup was whole: nothing is left of it"))
        }
    }
}

/// Makes the backup under another name first. That file is removed unless this comes to its end.
async fn make(client: &Client, file: &Path) -> Outcome {
    if file.exists() {
        return Err(refused(&format!(
            "{} is there already and is not changed: name another file",
            file.display()
        )));
    }
    let directory = file
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let mut server = client.admin().await?;
    let parts = server.backup(BackupRequest {}).await;
    let mut parts = parts.map_err(Failure::read)?.into_inner();
    let written = |cause: io::Error| {
        refused(&format!(
            "{} cannot be written: {cause}; make room, or name another file",
            file.display()
        ))
    };
    let mut out = tempfile::NamedTempFile::new_in(directory).map_err(written)?;
    let (mut header, mut digest, mut bytes) = (None, Sha256::new(), 0);
    let is_whole = loop {
        let next = parts.message().await.map_err(Failure::read)?;
        match next.and_then(|next| next.part) {
            Some(Part::Header(first)) => header = Some(first),
            Some(Part::Chunk(chunk)) => {
                out.write_all(&chunk).map_err(written)?;
                digest.update(&chunk);
                bytes += chunk.len() as u64;
            }
            Some(Part::Trailer(trailer)) => break trailer.sha256 == digest.finalize()[..],
            None => break false,
        }
    };
    let header = header.filter(|header| is_whole && header.size_bytes == bytes);
    let Some(header) = header else {
        return Err(refused("the backup did not arrive whole: try again"));
    };
    out.as_file().sync_all().map_err(written)?;
    let persisted = out.persist_noclobber(file);
    persisted.map_err(|error| written(error.error))?;
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(written)?;
    show(client, file, &header);
    Ok(())
}

fn show(client: &Client, file: &Path, header: &BackupHeader) {
    let BackupHeader {
        store_id,
        size_bytes,
        last_entry,
        last_entry_time,
    } = header;
    let time = last_entry_time.as_ref();
    let time = time.and_then(|time| moment_from_proto("last_entry_time", time).ok());
    if client.json {
        let shown = json!({
            "file": file.display().to_string(),
            "storeId": store_id,
            "sizeBytes": size_bytes.to_string(),
            "lastEntry": last_entry.to_string(),
            "lastEntryTime": time.map(|time| time.to_string()),
        });
        say(&format!("{shown:#}"));
        return;
    }
    let end = match time {
        Some(time) => format!("the entries up to {} of {time}", grouped(*last_entry)),
        None => "no entry yet".into(),
    };
    say(&format!(
        "backed up the store {store_id} into {}: {} MiB, with {end}\n\
         The master key is not in it.",
        file.display(),
        size_bytes >> 20
    ));
}

fn refused(text: &str) -> Box<Failure> {
    Failure::refused("NO_BACKUP", text.to_owned())
}
