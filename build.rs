//! Compiles `proto/` without protoc, keeps the descriptors for reflection and the JSON mapping, and
//! computes the build id.

use std::{
    env,
    error::Error,
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

use prost::Message as _;
use sha2::{Digest as _, Sha256};

const PROTOS: [&str; 7] = [
    "tombola/v1/common.proto",
    "tombola/v1/campaign.proto",
    "tombola/v1/lottery_service.proto",
    "tombola/v1/campaign_service.proto",
    "tombola/v1/envelope.proto",
    "tombola/v1/envelope_service.proto",
    "tombola/v1/ledger_service.proto",
];

/// All that the library and the server are made of.
const SOURCES: [&str; 5] = ["Cargo.lock", "Cargo.toml", "build.rs", "proto", "src"];
/// Bytes of the digest in a build id.
const BUILD_ID_BYTES: usize = 8;

fn main() -> Result<(), Box<dyn Error>> {
    let descriptors = protox::compile(PROTOS, ["proto"])?;
    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(
        out_dir.join("tombola_v1.binpb"),
        descriptors.encode_to_vec(),
    )?;
    tonic_prost_build::configure()
        .btree_map(".")
        .compile_fds(descriptors)?;
    println!("cargo::rustc-env=TOMBOLA_BUILD_ID={}", build_id()?);
    Ok(())
}

/// Digests the sources. It needs neither git nor its history, and says the same for the same
/// sources wherever they lie; a commit would say nothing of changes that are not committed.
fn build_id() -> Result<String, Box<dyn Error>> {
    let mut files = Vec::new();
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
        list(Path::new(source), &mut files)?;
    }
    files.sort();
    let mut digest = Sha256::new();
    for file in files {
        let bytes = fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let name = file.to_str().ok_or("a source's name is not UTF-8")?;
        digest.update(name.replace('\\', "/"));
        digest.update((bytes.len() as u64).to_be_bytes());
        digest.update(bytes);
    }
    let mut id = String::new();
    for byte in &digest.finalize()[..BUILD_ID_BYTES] {
        write!(id, "{byte:02x}")?;
    }
    Ok(id)
}

/// The files at and below a path.
fn list(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        list(&entry?.path(), files)?;
    }
    Ok(())
}
