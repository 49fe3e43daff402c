//! Clients of other authors that tests use and Debian has no package of: each is made below the build directory, of versions that are
//! pinned in the tree. `cargo xtask interop` has those that take long to build.

use std::fs;

use anyhow::Context;
use clap::ValueEnum;

use crate::process;

/// Flags of `cargo xtask interop`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The client
    client: Client,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Client {
    /// The crate `smb`: a session of four channels, and an encrypted one
    SmbRs,
}

/// Builds a client, and runs the tests that have a use for it.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match args.client {
        Client::SmbRs => {
            let program = smb_rs().context("smb-rs, from crates.io")?;
            let tests =
                ["test", "--package", "smb", "--test", "interop", "smb_rs", "--", "--ignored", "--nocapture"];
            process::run_with("cargo", &tests, &[("LINERATE_SMB_RS", &program)])
        }
    }
}

/// Makes those that are missing or of other versions and take no time.
pub(crate) fn install() -> anyhow::Result<()> {
    python().context("smbprotocol, from the Python package index")
}

/// Makes an environment of Python's with smbprotocol.
fn python() -> anyhow::Result<()> {
    let wanted = process::root().join("crates/smb/tests/interop/requirements.txt");
    let (place, wanted_text) = (process::target().join("python"), fs::read(&wanted)?);
    let stamp = place.join("requirements.txt");
    if fs::read(&stamp).is_ok_and(|installed| installed == wanted_text) {
        return Ok(());
    }
    let text = |path: &std::path::Path| path.to_str().map(str::to_owned).context("the path is not UTF-8");
    process::run("python3", &["-m", "venv", &text(&place)?])?;
    let args = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", &text(&wanted)?];
    process::run(&text(&place.join("bin/python3"))?, &args)?;
    Ok(fs::write(stamp, wanted_text)?)
}

/// Builds a program that uses the crate `smb`, and returns its path. Its packages are those of a workspace of its own.
fn smb_rs() -> anyhow::Result<String> {
    let manifest = process::root().join("interop/smb-rs/Cargo.toml");
    let (manifest, place) = (manifest.to_str(), process::target().join("interop"));
    let (manifest, place) =
        manifest.zip(place.to_str()).context("the path of the tree or the build directory is not UTF-8")?;
    process::run("cargo", &["build", "--locked", "--manifest-path", manifest, "--target-dir", place])?;
    Ok(format!("{place}/debug/smb-rs-interop"))
}
