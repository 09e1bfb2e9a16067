//! Compiles the protocol without a `protoc` on the machine.

use std::env;
use std::error::Error;
use std::fs;
use std::path::PathBuf;

use prost::Message as _;

const FOLDER: &str = "proto";
const FILE: &str = "failsketch/v1/failsketch.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={FOLDER}");
    let descriptors = protox::compile([FILE], [FOLDER])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .bytes(".failsketch.v1")
        .compile_fds(descriptors)?;
    Ok(())
}
