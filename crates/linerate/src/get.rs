//! `linerate get afs://HOST/VOLUME/PATH` and `linerate get smb://HOST/SHARE/PATH`.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use lane::fs::Dir;

use crate::afs::{self, Bulk, sum_there};
use crate::remote::{self, Remote};
use crate::smb::{self, There};
use crate::transfer_cmd::Timed;
use crate::transferred::{Tell, Transferred, same_sum, tell};

use self::target::Target;

mod target;

/// Flags of `linerate get`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to fetch, such as afs://10.0.0.1/files/dir/file or smb://alice@10.0.0.1/files/dir/file
    #[arg(value_name = "ADDRESS", value_parser = remote::of_bytes::<Remote>())]
    address: Remote,
    /// Where to, a directory or a new name, or - for standard output; without it the same name, here
    ///
    /// A symbolic link is followed. A device, a pipe and standard output are written to once the file is whole, which takes its length in
    /// $TMPDIR meanwhile; a disk with --overwrite alone. What is told of a file on standard output goes to standard error.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// A directory with all beneath it; mount points and reparse points are left alone
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
    /// What came of it as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten, next_help_heading = "AFS")]
    reach: afs::Reach,
    #[command(flatten)]
    bulk: Bulk,
    #[command(flatten, next_help_heading = "SMB")]
    share: smb::Reach,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let name = match &args.address {
        Remote::Afs(address) => address.name().to_vec(),
        Remote::Smb(address) => {
            smb_client::local_name(address.path.last().unwrap_or(&address.share))?.into_bytes()
        }
    };
    if let Some(output) =
        args.output.as_deref().filter(|output| !args.recursive && is_missing_directory(output))
    {
        bail!(
            "there is no directory {}: make it first, or leave the slash out to give the file a name",
            output.display()
        );
    }
    let is_of_one = !args.recursive && !args.resume;
    let target = Target::of(args.output.as_deref(), &name, args.overwrite, is_of_one)?;
    let (dir, name, path) = (target.dir.clone(), target.name.clone(), target.path());
    let done = match &args.address {
        Remote::Afs(address) => of_cell(args, address, dir, name, path)?,
        Remote::Smb(address) => of_share(args, address, dir, name, path)?,
    };
    let (shown, to) = (target.shown.clone(), if target.is_stdout() { Tell::Error } else { Tell::Output });
    target.finish()?;
    Ok(tell(&done, "path", &shown.display(), args.json, to))
}

fn of_cell(
    args: &Args,
    address: &afs_client::Address,
    dir: PathBuf,
    name: CString,
    local: PathBuf,
) -> anyhow::Result<Timed<Transferred>> {
    let (recursive, verify) = (args.recursive, args.verify);
    let (overwrite, resume) = (args.overwrite, args.resume);
    let reach = &args.reach;
    let told = address.clone();
    reach.run(address, Some(args.bulk), async move |reached| {
        let get = afs_client::Get { overwrite, resume, progress: reached.progress.clone() };
        let found = reached.cell.find(&told.volume, &told.path, true).await?;
        let dir = Dir::open_root(&dir).with_context(|| format!("cannot open {}", dir.display()))?;
        if found.metadata.is_directory() {
            if !recursive {
                bail!("{told} is a directory; --recursive fetches it with all beneath it");
            }
            return Ok(Transferred::tree(get.tree(&found, &dir, &name).await?));
        }
        let bytes = get.file(&found, &dir, &name).await?;
        let sum = if verify { Some(same_sum(&local, sum_there(&found).await?)?) } else { None };
        Ok(Transferred::file(bytes, sum))
    })
}

/// Returns whether a path is of a directory, as it ends with a slash, and there is none.
fn is_missing_directory(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b"/") && !path.is_dir()
}

fn of_share(
    args: &Args,
    address: &smb_client::Address,
    dir: PathBuf,
    name: CString,
    local: PathBuf,
) -> anyhow::Result<Timed<Transferred>> {
    let (recursive, verify) = (args.recursive, args.verify);
    let (overwrite, resume) = (args.overwrite, args.resume);
    let told = address.clone();
    args.share.run(address, async move |reached| {
        let get = smb_client::Get { overwrite, resume, progress: reached.progress.clone() };
        let path = told.name();
        let dir = Dir::open_root(&dir).with_context(|| format!("cannot open {}", dir.display()))?;
        match reached.look(&path).await? {
            There::Nothing => bail!("{told}: no such file or directory"),
            There::Directory if !recursive => {
                bail!("{told} is a directory; --recursive fetches it with all beneath it")
            }
            There::Directory => Ok(Transferred::tree(get.tree(&reached.tree, &path, &dir, &name).await?)),
            There::File { .. } => {
                let bytes = get.file(&reached.tree, &path, &dir, &name).await?;
                let sum =
                    if verify { Some(same_sum(&local, reached.sum_there(&path).await?)?) } else { None };
                Ok(Transferred::file(bytes, sum))
            }
        }
    })
}
