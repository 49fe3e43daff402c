//! `linerate get afs://HOST/VOLUME/PATH`.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use afs_client::{Address, Get};
use anyhow::{Context, bail};
use lane::fs::Dir;

use crate::afs::{Bulk, Reach, sum_there};
use crate::transferred::{Transferred, same_sum, tell};

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
    #[command(flatten)]
    bulk: Bulk,
    /// What came of it as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (dir, name) = place(args.output.as_deref(), args.address.name())?;
    let target = dir.join(OsStr::from_bytes(name.as_bytes()));
    let (address, local) = (args.address.clone(), target.clone());
    let (recursive, verify) = (args.recursive, args.verify);
    let (overwrite, resume) = (args.overwrite, args.resume);
    let done = args.reach.run(&args.address, Some(args.bulk), async move |reached| {
        let get = Get { overwrite, resume, progress: reached.progress.clone() };
        let found = reached.cell.find(&address.volume, &address.path, true).await?;
        let dir = Dir::open_root(&dir).with_context(|| format!("cannot open {}", dir.display()))?;
        if found.metadata.is_directory() {
            if !recursive {
                bail!("{address} is a directory; --recursive fetches it with all beneath it");
            }
            return Ok(Transferred::tree(get.tree(&found, &dir, &name).await?));
        }
        let bytes = get.file(&found, &dir, &name).await?;
        let sum = if verify { Some(same_sum(&local, sum_there(&found).await?)?) } else { None };
        Ok(Transferred::file(bytes, sum))
    })?;
    tell(&done, "path", &target.display(), args.json);
    Ok(ExitCode::SUCCESS)
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
