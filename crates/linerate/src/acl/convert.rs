//! `linerate acl convert`: lists and descriptors are moved to where their volume keeps them.

use std::ffi::{CStr, OsStr};
use std::io::{IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use afs_client::addressed;
use anyhow::{Context, bail, ensure};
use identity::{ATTRIBUTE_PRIVILEGED, ATTRIBUTE_UNPRIVILEGED, ATTRIBUTE_WITNESS};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, XattrFlags};
use rustix::io::Errno;
use serde_json::json;
use server::lists::{self, RightsIn};

use super::{Attribute, take_away};
use crate::output::{complain, counted, say};

/// Arguments of `linerate acl convert`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The directory
    dir: PathBuf,
    /// Have the volume keep them there from now on; DIR is its own directory, and its server is stopped
    #[arg(long, value_enum, value_name = "WHERE")]
    to: Option<Attribute>,
    /// Only say what would be moved
    #[arg(long)]
    dry_run: bool,
    /// JSON for scripts
    #[arg(long)]
    json: bool,
}

/// Counts of what was found and moved.
#[derive(Default)]
struct ConvertedCounts {
    names: u64,
    lists: u64,
    descriptors: u64,
    /// Files that have two that differ.
    conflicts: Vec<PathBuf>,
    /// Directories of which a list was lost.
    lost: Vec<PathBuf>,
    /// Files that could not be looked at or moved, and why.
    failed: Vec<(PathBuf, String)>,
}

/// A walk downwards on one file system; no link is followed.
struct TreeWalk {
    device: u64,
    to: RightsIn,
    is_dry: bool,
    moved: ConvertedCounts,
    told: Option<Instant>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let dir = std::fs::canonicalize(&args.dir);
    let dir = dir.with_context(|| format!("cannot find {}", args.dir.display()))?;
    ensure!(
        lists::writes_trusted_attributes(),
        "to move access lists takes CAP_SYS_ADMIN, as one kind of their attributes does: run this command as root (sudo)"
    );
    let marked = super::marked_above(&dir)?;
    let asked = args.to.map(|to| match to {
        Attribute::Trusted => RightsIn::Trusted,
        Attribute::User => RightsIn::User,
    });
    let to = match (&marked, asked) {
        (None, None) => bail!(
            "no volume's mark lies at or above {}, so that lists of either kind count there: say by --to where they are to lie",
            dir.display()
        ),
        (None, Some(to)) => to,
        (Some(volume), None) => volume.rights,
        (Some(volume), Some(to)) if volume.rights == to => to,
        (Some(volume), Some(to)) => {
            ensure!(
                volume.root == dir,
                "the volume at {} keeps its lists elsewhere: give its own directory to have all of them moved",
                volume.root.display()
            );
            if !args.dry_run {
                // What is not moved yet counts as a denial from here on, whatever server serves it.
                let marked = lists::mark_rights(&dir, to);
                marked.with_context(|| format!("cannot mark {}", dir.display()))?;
            }
            to
        }
    };
    let root = std::fs::File::open(&dir).with_context(|| format!("cannot open {}", dir.display()))?;
    let device = rustix::fs::fstat(&root)?.st_dev;
    let told = std::io::stderr().is_terminal().then(Instant::now);
    let mut walk = TreeWalk { device, to, is_dry: args.dry_run, moved: ConvertedCounts::default(), told };
    walk.directory(root.into(), &dir);
    if walk.told.is_some() {
        progress(format_args!(""));
    }
    let moved = walk.moved;
    tell(args, &dir, to, &moved)?;
    let is_done = moved.conflicts.is_empty() && moved.lost.is_empty() && moved.failed.is_empty();
    Ok(if is_done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn tell(args: &Args, dir: &Path, to: RightsIn, moved: &ConvertedCounts) -> anyhow::Result<()> {
    let word = Attribute::from(to).word();
    if args.json {
        // Of names that are no UTF-8 what is shown stands for several.
        let of = |path: &PathBuf| {
            let exact = addressed(path.as_os_str().as_bytes());
            json!({ "name": path.display().to_string(), "path": exact })
        };
        let all = |paths: &[PathBuf]| paths.iter().map(of).collect::<Vec<_>>();
        let failed = moved.failed.iter().map(|(path, why)| {
            let mut shown = of(path);
            shown["why"] = why.as_str().into();
            shown
        });
        let shown = json!({
            "directory": dir.display().to_string(),
            "path": addressed(dir.as_os_str().as_bytes()),
            "to": word,
            "dry_run": args.dry_run,
            "names": moved.names,
            "lists": moved.lists,
            "descriptors": moved.descriptors,
            "conflicts": all(&moved.conflicts),
            "lost": all(&moved.lost),
            "failed": failed.collect::<Vec<_>>(),
        });
        say!("{}", serde_json::to_string_pretty(&shown)?);
        return Ok(());
    }
    let done = if args.dry_run { "would be moved" } else { "moved" };
    say!(
        "{}: {} and {} {done} to {word}. attributes, of {}",
        dir.display(),
        counted(moved.lists, "access list", "access lists"),
        counted(moved.descriptors, "security descriptor", "security descriptors"),
        counted(moved.names, "name", "names")
    );
    for path in &moved.conflicts {
        complain!(
            "linerate: {} has two that differ, and stays closed to all but administrators: set one anew, as by `linerate acl set`",
            path.display()
        );
    }
    for path in &moved.lost {
        complain!(
            "linerate: {} had an access list that is gone, and stays closed to all but administrators: `linerate acl set` gives it one",
            path.display()
        );
    }
    for (path, why) in &moved.failed {
        complain!("linerate: {} cannot be converted: {why}", path.display());
    }
    Ok(())
}

impl TreeWalk {
    /// Converts a directory and all that is in it. As many descriptors are open as it goes down.
    fn directory(&mut self, top: OwnedFd, path: &Path) {
        let mut way = Vec::new();
        self.enter(&mut way, top, path.to_owned());
        while let Some((dir, path)) = way.last_mut() {
            let entry = match dir.read() {
                Some(Ok(entry)) => entry,
                ended => {
                    let path = path.clone();
                    if let Some(Err(error)) = ended {
                        self.fail(&path, error);
                    }
                    way.pop();
                    continue;
                }
            };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let below = path.join(OsStr::from_bytes(name.to_bytes()));
            let found = dir.fd().and_then(|dir| self.open(dir, name));
            match found {
                Ok(Some((open, FileType::Directory))) => self.enter(&mut way, open, below),
                Ok(Some((open, _))) => self.look_at(open.as_fd(), &below, false),
                Ok(None) => {}
                Err(error) => self.fail(&below, error),
            }
        }
    }

    fn enter(&mut self, way: &mut Vec<(Dir, PathBuf)>, dir: OwnedFd, path: PathBuf) {
        self.look_at(dir.as_fd(), &path, true);
        match Dir::new(dir) {
            Ok(dir) => way.push((dir, path)),
            Err(error) => self.fail(&path, error),
        }
    }

    /// Opens a directory or file, if that is what has the name.
    fn open(&self, dir: BorrowedFd<'_>, name: &CStr) -> Result<Option<(OwnedFd, FileType)>, Errno> {
        let stat = match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(None),
            stat => stat?,
        };
        let kind = FileType::from_raw_mode(stat.st_mode);
        if stat.st_dev != self.device || !matches!(kind, FileType::Directory | FileType::RegularFile) {
            return Ok(None);
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let open = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            open => open?,
        };
        // It may be another by now.
        let now = rustix::fs::fstat(&open)?;
        Ok(((now.st_dev, now.st_ino) == (stat.st_dev, stat.st_ino)).then_some((open, kind)))
    }

    fn look_at(&mut self, file: BorrowedFd<'_>, path: &Path, is_directory: bool) {
        self.moved.names += 1;
        if self.told.is_some_and(|told| told.elapsed() > PERIOD) {
            self.told = Some(Instant::now());
            let ConvertedCounts { names, lists, descriptors, .. } = &self.moved;
            progress(format_args!(
                "{} looked at, {} and {} moved",
                counted(*names, "name", "names"),
                counted(*lists, "list", "lists"),
                counted(*descriptors, "descriptor", "descriptors")
            ));
        }
        if is_directory && let Err(error) = self.list(file, path) {
            self.fail(path, error);
        }
        match self.one(file, [Attribute::Trusted, Attribute::User].map(Attribute::descriptor)) {
            Ok(AttributeOutcome::ConvertedCounts) => self.moved.descriptors += 1,
            Ok(AttributeOutcome::Conflict) => self.moved.conflicts.push(path.to_owned()),
            Ok(AttributeOutcome::Nothing | AttributeOutcome::There) => {}
            Err(error) => self.fail(path, error),
        }
    }

    fn list(&mut self, file: BorrowedFd<'_>, path: &Path) -> Result<(), Errno> {
        let found = self.one(file, [ATTRIBUTE_PRIVILEGED, ATTRIBUTE_UNPRIVILEGED])?;
        match found {
            AttributeOutcome::Conflict => self.moved.conflicts.push(path.to_owned()),
            AttributeOutcome::ConvertedCounts => self.moved.lists += 1,
            AttributeOutcome::Nothing if value(file, ATTRIBUTE_WITNESS)?.is_some() => {
                self.moved.lost.push(path.to_owned())
            }
            AttributeOutcome::Nothing | AttributeOutcome::There => {}
        }
        if self.is_dry || !matches!(found, AttributeOutcome::ConvertedCounts | AttributeOutcome::There) {
            return Ok(());
        }
        match self.to {
            // Where there is no room for it, it is not needed.
            RightsIn::Trusted => {
                let _ = rustix::fs::fsetxattr(file, ATTRIBUTE_WITNESS, b"1", XattrFlags::empty());
                Ok(())
            }
            RightsIn::User => take_away(file, ATTRIBUTE_WITNESS),
        }
    }

    /// Moves what lies in one attribute to the other; the first is the one that takes a privilege.
    fn one(&self, file: BorrowedFd<'_>, [trusted, user]: [&CStr; 2]) -> Result<AttributeOutcome, Errno> {
        let (to, from) = if self.to == RightsIn::Trusted { (trusted, user) } else { (user, trusted) };
        let Some(moving) = value(file, from)? else {
            return Ok(if value(file, to)?.is_some() {
                AttributeOutcome::There
            } else {
                AttributeOutcome::Nothing
            });
        };
        match value(file, to)? {
            Some(there) if there != moving => return Ok(AttributeOutcome::Conflict),
            _ if self.is_dry => {}
            there => {
                if there.is_none() {
                    rustix::fs::fsetxattr(file, to, &moving, XattrFlags::CREATE)?;
                    rustix::fs::fsync(file)?;
                }
                take_away(file, from)?;
            }
        }
        Ok(AttributeOutcome::ConvertedCounts)
    }

    fn fail(&mut self, path: &Path, error: Errno) {
        self.moved.failed.push((path.to_owned(), std::io::Error::from(error).to_string()));
    }
}

/// Outcome for an attribute.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AttributeOutcome {
    Nothing,
    /// The list lay where it should.
    There,
    ConvertedCounts,
    /// Two attributes differ.
    Conflict,
}

fn value(file: BorrowedFd<'_>, name: &CStr) -> Result<Option<Vec<u8>>, Errno> {
    let mut bytes = vec![0; VALUE_BYTES_USUAL];
    let got = match rustix::fs::fgetxattr(file, name, &mut bytes[..]) {
        Err(Errno::RANGE) => {
            bytes.resize(VALUE_BYTES_MAX, 0);
            rustix::fs::fgetxattr(file, name, &mut bytes[..])
        }
        got => got,
    };
    match got {
        Ok(len) => {
            bytes.truncate(len);
            Ok(Some(bytes))
        }
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces the text of the terminal's line.
fn progress(text: std::fmt::Arguments<'_>) {
    let _ = write!(std::io::stderr(), "\r\x1b[K{text}");
}

const VALUE_BYTES_USUAL: usize = 2_048;
/// XATTR_SIZE_MAX.
const VALUE_BYTES_MAX: usize = 65_536;
const PERIOD: Duration = Duration::from_millis(500);
