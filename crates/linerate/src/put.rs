//! `linerate put FILE afs://HOST/VOLUME/PATH` and `linerate put FILE smb://HOST/SHARE/PATH`.

use std::ffi::CString;
use std::fmt::Display;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use afs_client::{Address, Error, Found};
use anyhow::{Context, bail, ensure};
use lane::fs::Dir;

use crate::afs::{self, Bulk, Reached, sum_there};
use crate::remote::{self, Remote};
use crate::smb::{self, There};
use crate::staging::Staging;
use crate::transfer_cmd::Timed;
use crate::transferred::{Tell, Transferred, same_sum, tell};

/// Flags of `linerate put`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to store: a file, a directory with --recursive, or - for standard input, which takes its length in $TMPDIR meanwhile
    file: PathBuf,
    /// Where to: a directory that is there, or a new name in one, such as afs://10.0.0.1/files/dir/file or
    /// smb://alice@10.0.0.1/files/dir/file
    #[arg(value_name = "ADDRESS", value_parser = remote::of_bytes::<Remote>())]
    address: Remote,
    /// A directory with all beneath it
    #[arg(short, long)]
    recursive: bool,
    /// Over files that have the name
    #[arg(long)]
    overwrite: bool,
    /// Fetch the file back and compare SHA-256 sums
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
    if args.file == Path::new("-") {
        return of_input(args);
    }
    let local = std::path::absolute(&args.file)?;
    let is_directory = local.metadata().with_context(|| format!("cannot read {}", local.display()))?.is_dir();
    if is_directory && !args.recursive {
        bail!("{} is a directory; --recursive stores it with all beneath it", args.file.display());
    }
    let name = local.file_name().with_context(|| format!("{} has no name", local.display()))?;
    let name = CString::new(name.as_bytes())?;
    let dir = local.parent().unwrap_or(Path::new("/")).to_owned();
    put(args, From { dir, name, local, is_directory, is_named: true })
}

/// Stores standard input, once it is whole.
fn of_input(args: &Args) -> anyhow::Result<ExitCode> {
    if args.recursive {
        bail!("standard input is one file: leave --recursive out");
    }
    let staging = Staging::new().context("cannot make a directory for standard input")?;
    let local = staging.file();
    let mut file = File::create_new(&local)?;
    io::copy(&mut io::stdin().lock(), &mut file).context("cannot read standard input")?;
    let (dir, name) = staging.place();
    put(args, From { dir, name, local, is_directory: false, is_named: false })
}

fn put(args: &Args, from: From) -> anyhow::Result<ExitCode> {
    let done = match &args.address {
        Remote::Afs(address) => to_cell(args, address, from)?,
        Remote::Smb(address) => to_share(args, address, from)?,
    };
    Ok(tell(&done, "address", &args.address, args.json, Tell::Output))
}

/// Source that is stored.
struct From {
    dir: PathBuf,
    name: CString,
    local: PathBuf,
    is_directory: bool,
    /// False for what has no name of its own, and so none in a directory.
    is_named: bool,
}

impl From {
    fn check(&self, is_into_directory: bool, address: &dyn Display) -> anyhow::Result<()> {
        ensure!(
            self.is_named || !is_into_directory,
            "{address} is a directory, and standard input has no name: give one behind it"
        );
        Ok(())
    }
}

fn to_cell(args: &Args, address: &Address, from: From) -> anyhow::Result<Timed<Transferred>> {
    let (told, verify, overwrite) = (address.clone(), args.verify, args.overwrite);
    args.reach.run(address, Some(args.bulk), async move |reached| {
        let put = afs_client::Put { overwrite, progress: reached.progress.clone() };
        let (to, there) = place(reached, &told, &from).await?;
        let From { dir, name, local, is_directory, .. } = from;
        let dir = Dir::open_root(&dir).with_context(|| format!("cannot open {}", dir.display()))?;
        if is_directory {
            return Ok(Transferred::tree(put.tree(&dir, &name, &to, &there).await?));
        }
        let metadata = put.file(&dir, &name, &to, &there).await?;
        let sum = if verify { Some(verified(&local, &to, &there).await?) } else { None };
        Ok(Transferred::file(metadata.length, sum))
    })
}

fn to_share(args: &Args, address: &smb_client::Address, from: From) -> anyhow::Result<Timed<Transferred>> {
    let (told, verify, overwrite) = (address.clone(), args.verify, args.overwrite);
    args.share.run(address, async move |reached| {
        let put = smb_client::Put { overwrite, progress: reached.progress.clone() };
        let there = reached.look(&told.name()).await?;
        from.check(matches!(there, There::Directory), &told)?;
        let From { dir, name, local, is_directory, .. } = from;
        let path = match there {
            There::Directory => smb_client::joined(&told.name(), &smb_client::remote_name(name.as_bytes())?),
            There::File { .. } if is_directory => bail!("{told}: not a directory"),
            There::File { .. } if !overwrite => bail!("{told} is there already; --overwrite replaces it"),
            There::File { .. } | There::Nothing => told.name(),
        };
        let dir = Dir::open_root(&dir).with_context(|| format!("cannot open {}", dir.display()))?;
        if is_directory {
            return Ok(Transferred::tree(put.tree(&reached.tree, &dir, &name, &path).await?));
        }
        let bytes = put.file(&reached.tree, &dir, &name, &path).await?;
        let sum = if verify { Some(same_sum(&local, reached.sum_there(&path).await?)?) } else { None };
        Ok(Transferred::file(bytes, sum))
    })
}

/// The directory of the cell, and the name in it: that of the local file where the address is a directory.
async fn place(reached: &Reached, address: &Address, from: &From) -> anyhow::Result<(Found, Vec<u8>)> {
    let Address { volume, path, .. } = address;
    match reached.cell.find(volume, path, true).await {
        Ok(found) if found.metadata.is_directory() => {
            from.check(true, address)?;
            return Ok((found, from.name.as_bytes().to_vec()));
        }
        Ok(_) if address.directory => return Err(Error::NotADirectory(address.to_string()).into()),
        Ok(_) => {}
        Err(error) if error.is_not_found() && !address.directory && !path.is_empty() => {}
        Err(error) => return Err(error.into()),
    }
    let Some((last, above)) = path.split_last() else { bail!("{address} is no directory") };
    Ok((reached.cell.find(volume, above, true).await?, last.clone()))
}

/// The sum of what the server has now, if it is the local file's as well.
async fn verified(local: &Path, to: &Found, name: &[u8]) -> anyhow::Result<String> {
    let fid = afs_client::directory::look_up(&to.server, to.fid, name).await?;
    let fid = fid.context("the file is gone again")?;
    let metadata = to.server.status(fid).await?;
    let there = sum_there(&Found { server: to.server.clone(), fid, metadata }).await?;
    same_sum(local, there)
}
