//! Compiles `proto/` without protoc and keeps the descriptors for reflection and the JSON mapping.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message as _;

const PROTOS: [&str; 6] = [
    "tombola/v1/common.proto",
    "tombola/v1/campaign.proto",
    "tombola/v1/lottery_service.proto",
    "tombola/v1/campaign_service.proto",
    "tombola/v1/envelope.proto",
    "tombola/v1/envelope_service.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(PROTOS, ["proto"])?;
    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(
        out_dir.join("tombola_v1.binpb"),
        descriptors.encode_to_vec(),
    )?;
    tonic_prost_build::configure()
        .btree_map(".")
        .compile_fds(descriptors)?;
    Ok(())
}
