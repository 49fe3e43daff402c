//! `linerate get afs://HOST/VOLUME/PATH`.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use afs_client::{Address, Get, Tree};
use anyhow::{Context, bail};
use lane::fs::Dir;

use crate::afs::{Done, Reach, sum_here, sum_there};
use crate::output::{self, bit_rate, say};

/// Flags of `linerate get`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to fetch, such as afs://10.0.0.1/root.cell/dir/file
    #[arg(value_name = "ADDRESS")]
    address: Address,
    /// Where to, a directory or a new name; without it the same name, here
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// A directory with all beneath it; mount points are left alone
    #[arg(short, long)]
    recursive: bool,
    /// Over local files that have the name
    #[arg(long)]
    overwrite: bool,
    /// Go on where an earlier attempt at the same version of the file broke off
    #[arg(long)]
    resume: bool,
    /// Fetch the file once more and compare SHA-256 sums
    #[arg(long, conflicts_with = "recursive")]
    verify: bool,
    #[command(flatten)]
    reach: Reach,
    /// What came of it as JSON
    #[arg(long)]
    json: bool,
}

/// What was got.
struct Got {
    tree: Tree,
    sum: Option<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (dir, name) = place(args.output.as_deref(), args.address.name())?;
    let target = dir.join(OsStr::from_bytes(name.as_bytes()));
    let (address, local) = (args.address.clone(), target.clone());
    let (recursive, verify) = (args.recursive, args.verify);
    let (overwrite, resume) = (args.overwrite, args.resume);
    let done = args.reach.run(&args.address, async move |reached| {
        let get = Get { overwrite, resume, progress: reached.progress.clone() };
        let found = reached.cell.find(&address.volume, &address.path, true).await?;
        let dir = Dir::open_root(&dir).with_context(|| format!("cannot open {}", dir.display()))?;
        if found.metadata.is_directory() {
            if !recursive {
                bail!("{address} is a directory; --recursive fetches it with all beneath it");
            }
            return Ok(Got { tree: get.tree(&found, &dir, &name).await?, sum: None });
        }
        let bytes = get.file(&found, &dir, &name).await?;
        let sum = if verify { Some(verified(&local, sum_there(&found).await?)?) } else { None };
        Ok(Got { tree: Tree { files: 1, bytes, ..Tree::default() }, sum })
    })?;
    tell(&done, &target, args.json);
    Ok(ExitCode::SUCCESS)
}

/// The sum, if it is the local file's as well.
fn verified(local: &Path, there: String) -> anyhow::Result<String> {
    let here = sum_here(local)?;
    if here != there {
        bail!("{} has another SHA-256 sum ({here}) than the server's file ({there})", local.display());
    }
    Ok(there)
}

/// The local directory and the name in it.
fn place(output: Option<&Path>, name: &[u8]) -> anyhow::Result<(PathBuf, CString)> {
    let output = output.unwrap_or(Path::new("."));
    let (dir, name) = if output.is_dir() {
        (output, OsStr::from_bytes(name))
    } else {
        let name = output.file_name().with_context(|| format!("{} is no name", output.display()))?;
        let dir = output.parent().filter(|dir| !dir.as_os_str().is_empty());
        (dir.unwrap_or(Path::new(".")), name)
    };
    Ok((dir.to_owned(), CString::new(name.as_bytes())?))
}

fn tell(done: &Done<Got>, target: &Path, json: bool) {
    let Got { tree, sum } = &done.value;
    let bits = tree.bytes as f64 * 8.0 / done.seconds.max(1e-6);
    if json {
        let report = serde_json::json!({
            "path": target.to_string_lossy(), "files": tree.files, "directories": tree.directories,
            "links": tree.links, "skipped": tree.skipped, "bytes": tree.bytes,
            "seconds": done.seconds, "bits_per_second": bits, "sha256": sum,
        });
        say!("{report}");
        return;
    }
    say!(
        "{}: {} in {:.2} s, {}{}",
        target.display(),
        output::bytes(tree.bytes),
        done.seconds,
        bit_rate(bits),
        of_tree(tree)
    );
    if let Some(sum) = sum {
        say!("sha256 {sum}, as at the server");
    }
}

/// What more there is to say of a tree.
pub(crate) fn of_tree(tree: &Tree) -> String {
    if tree.directories == 0 {
        return String::new();
    }
    let Tree { directories, files, links, skipped, .. } = tree;
    format!("; {files} files, {directories} directories, {links} links, {skipped} left alone")
}
