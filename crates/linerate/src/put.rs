//! `linerate put FILE afs://HOST/VOLUME/PATH` and `linerate put FILE smb://HOST/SHARE/PATH`.

use std::ffi::{CStr, CString};
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use afs_client::{Address, Error, Found};
use anyhow::{Context, bail, ensure};
use lane::fs::Dir;
use rustix::fs::{FileType, OFlags};

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
        if args.share.reads_stdin() {
            bail!("standard input is the file to store: give the password in LINERATE_PASSWORD instead");
        }
        require_input()?;
        return of_stream(args, io::stdin().lock(), None);
    }
    let given = std::path::absolute(&args.file)?;
    let unread = || format!("cannot read {}", given.display());
    let kind = given.metadata().with_context(unread)?.file_type();
    if kind.is_dir() && !args.recursive {
        bail!("{} is a directory; --recursive stores it with all beneath it", args.file.display());
    }
    let name_of = |path: &Path| -> anyhow::Result<CString> {
        let name = path.file_name().with_context(|| format!("{} has no name", path.display()))?;
        Ok(CString::new(name.as_bytes())?)
    };
    let stored_as = name_of(&given)?;
    if !kind.is_dir() && !kind.is_file() {
        // A FIFO or a device has no length to tell.
        return of_stream(args, File::open(&given).with_context(unread)?, Some(stored_as));
    }
    // What a symbolic link leads to is stored by the link's name.
    let local = if given.is_symlink() { given.canonicalize().with_context(unread)? } else { given };
    let (dir, name) = (local.parent().unwrap_or(Path::new("/")).to_owned(), name_of(&local)?);
    put(args, From { dir, name, local, is_directory: kind.is_dir(), stored_as: Some(stored_as) })
}

/// Refuses a standard input that was closed, in whose place the runtime has opened the null device to read and write.
fn require_input() -> anyhow::Result<()> {
    let input = io::stdin();
    let stat = rustix::fs::fstat(&input).context("cannot read standard input")?;
    let null = std::fs::metadata("/dev/null").map(|null| null.rdev()).ok();
    let is_null =
        FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && Some(stat.st_rdev) == null;
    let mode = rustix::fs::fcntl_getfl(&input).context("cannot read standard input")? & OFlags::RWMODE;
    ensure!(!is_null || mode != OFlags::RDWR, "standard input is closed: nothing was stored");
    Ok(())
}

/// Stores what is read to its end, once it is whole.
fn of_stream(args: &Args, mut input: impl Read, stored_as: Option<CString>) -> anyhow::Result<ExitCode> {
    let source = match stored_as {
        Some(_) => args.file.display().to_string(),
        None => "standard input".to_owned(),
    };
    if args.recursive {
        bail!("{source} is one file: leave --recursive out");
    }
    let staging = Staging::new().context("cannot make a private directory in $TMPDIR")?;
    let local = staging.file();
    let mut file = File::create_new(&local)?;
    io::copy(&mut input, &mut file).with_context(|| format!("cannot read {source}"))?;
    let (dir, name) = staging.place();
    put(args, From { dir, name, local, is_directory: false, stored_as })
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
    /// Name of the file in a directory that it is stored in; `None` for standard input.
    stored_as: Option<CString>,
}

impl From {
    /// Returns its name in the directory `address`.
    fn name_in(&self, address: &dyn Display) -> anyhow::Result<&CStr> {
        let name = self.stored_as.as_deref();
        name.with_context(|| {
            format!("{address} is a directory, and standard input has no name: give one behind it")
        })
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
        let is_directory = from.is_directory;
        let path = match there {
            There::Directory => {
                smb_client::joined(&told.name(), &smb_client::remote_name(from.name_in(&told)?.to_bytes())?)
            }
            There::File { .. } if is_directory => bail!("{told}: not a directory"),
            There::File { .. } if !overwrite => bail!("{told} is there already; --overwrite replaces it"),
            There::File { .. } | There::Nothing => told.name(),
        };
        let From { dir, name, local, .. } = from;
        let dir = Dir::open_root(&dir).with_context(|| format!("cannot open {}", dir.display()))?;
        if is_directory {
            return Ok(Transferred::tree(put.tree(&reached.tree, &dir, &name, &path).await?));
        }
        let bytes = put.file(&reached.tree, &dir, &name, &path).await?;
        let sum = if verify { Some(same_sum(&local, reached.sum_there(&path).await?)?) } else { None };
        Ok(Transferred::file(bytes, sum))
    })
}

/// Finds the directory of the cell, and the name in it: that of the local file where the address is a directory.
async fn place(reached: &Reached, address: &Address, from: &From) -> anyhow::Result<(Found, Vec<u8>)> {
    let Address { volume, path, .. } = address;
    match reached.cell.find(volume, path, true).await {
        Ok(found) if found.metadata.is_directory() => {
            return Ok((found, from.name_in(address)?.to_bytes().to_vec()));
        }
        Ok(_) if address.directory => return Err(Error::NotADirectory(address.to_string()).into()),
        Ok(_) => {}
        Err(error) if error.is_not_found() && !address.directory && !path.is_empty() => {}
        Err(error) => return Err(error.into()),
    }
    let Some((last, above)) = path.split_last() else { bail!("{address} is no directory") };
    Ok((reached.cell.find(volume, above, true).await?, last.clone()))
}

/// Returns the sum of what the server has now, if it is the local file's as well.
async fn verified(local: &Path, to: &Found, name: &[u8]) -> anyhow::Result<String> {
    let fid = afs_client::directory::look_up(&to.server, to.fid, name).await?;
    let fid = fid.context("the file is gone again")?;
    let metadata = to.server.status(fid).await?;
    let there = sum_there(&Found { server: to.server.clone(), fid, metadata }).await?;
    same_sum(local, there)
}
