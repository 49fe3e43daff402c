//! Whether the index and the tree of a volume agree, and the repair of what does not: for `linerate volume check`, while
//! nothing else uses either. docs/design/index.md says what is compared.
//!
//! First the mark on the root: a tree that is not the volume's is not compared. Then the records with each other, then the
//! tree, directory by directory, with the records, what it holds with what is recorded of that, and last the records that no
//! file was found for.

mod problem;
mod records;
mod used;
mod walk;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::LocalBoxFuture;
use index::{Index, Mark, Number, Standing, Usage, VolumeId, VolumeRecord};
use lane::offload::{OffloadError, offload};

pub use self::problem::{Problem, ProblemKind};

use crate::error::Error;
use crate::object::{By, MarkAttributes, RootMark, enter, identity_of};
use crate::rights_storage::RightsStorage;
use crate::root::Root;
use crate::spec::{VolumeOptions, VolumeSpec};

/// Options of a volume's check.
#[derive(Clone, Copy, Debug)]
pub struct CheckOptions {
    /// Set to mend what is wrong, rather than only to report it.
    pub repair: bool,
    /// The server's [`ObjectsOptions::trusted_attributes`](crate::ObjectsOptions::trusted_attributes).
    pub trusted_attributes: bool,
}

/// Progress of a check, for a caller that shows it.
#[derive(Debug, Default)]
pub struct CheckProgress {
    names: AtomicU64,
    records: AtomicU64,
}

/// Result of a check.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// Directories that were looked into.
    pub directories: u64,
    /// Names that were found in them.
    pub names: u64,
    /// Files and directories that have a security descriptor of their own.
    pub descriptors: u64,
    /// Records of files in the index.
    pub records: u64,
    /// Usage of the tree; `None` where part of it could not be looked at, or nothing was.
    pub holds: Option<Usage>,
    /// Problems that were found, at most [`CheckReport::PROBLEMS_MAX`].
    pub problems: Vec<Problem>,
    /// All that is wrong.
    pub found: u64,
    /// Number of problems that were mended.
    pub mended: u64,
}

/// Reason why a volume could not be checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The volume's directory.
    #[error("{}: {problem}", path.display())]
    Root {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem.
        problem: String,
    },
    /// The index.
    #[error(transparent)]
    Index(#[from] index::Error),
    /// A helper did not do its work: a defect.
    #[error(transparent)]
    Helper(#[from] OffloadError),
}

impl CheckProgress {
    /// Returns the number of names of the tree that were compared so far.
    pub fn names(&self) -> u64 {
        self.names.load(Ordering::Relaxed)
    }

    /// Records that were compared so far, after all names.
    pub fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }
}

impl CheckReport {
    /// Problems that are listed.
    pub const PROBLEMS_MAX: usize = 1_000;

    /// Returns whether there was nothing to do.
    pub fn is_clean(&self) -> bool {
        self.found == 0
    }

    /// Returns whether nothing is left to do.
    pub fn is_mended(&self) -> bool {
        self.found == self.mended
    }

    fn add(&mut self, trouble: ProblemKind, mended: bool) {
        self.found += 1;
        self.mended += u64::from(mended);
        if self.problems.len() < Self::PROBLEMS_MAX {
            self.problems.push(Problem { trouble, mended });
        }
    }
}

/// Compares what `index` has of a volume with the tree where it was last opened; mends what is wrong where
/// that is asked for. No other process has the volume open. Runs on a lane; its memory is a few bytes for
/// each file, and the names of one directory.
///
/// # Errors
/// [`CheckError`]: nothing is known then, though something may have been mended.
pub fn check<'a>(
    index: &'a Arc<Index>,
    volume: VolumeId,
    options: CheckOptions,
    progress: Arc<CheckProgress>,
) -> LocalBoxFuture<'a, Result<CheckReport, CheckError>> {
    Box::pin(async move {
        let record = index.volumes().into_iter().find(|(id, _)| *id == volume);
        let (_, record) = record.ok_or_else(|| index::Error::NoVolume(volume.to_string()))?;
        let at = |problem: &dyn std::fmt::Display| CheckError::Root {
            path: record.path.clone().into(),
            problem: problem.to_string(),
        };
        let name = record.name.parse().map_err(|error| at(&error))?;
        let spec = VolumeSpec::new(name, &record.path, VolumeOptions::default());
        let root = Root::open(&spec).map_err(|error| at(&error))?;
        let home = root.dir().stat().map_err(|error| at(&error))?.dev;
        let index = Arc::clone(index);
        let keeping = RightsStorage::new(None, options.trusted_attributes);
        let mut check = Check {
            index,
            volume,
            options,
            keeping,
            spec,
            root,
            home,
            report: CheckReport::default(),
            progress,
        };
        if check.look_at_mark(&record).await? {
            check.look_at_records().await?;
            let walked = check.walk().await?;
            check.look_at_usage(&walked)?;
            check.look_for_gone(walked).await?;
        }
        let index = Arc::clone(&check.index);
        offload(None, move || index.flush()).await??;
        Ok(check.report)
    })
}

struct Check {
    index: Arc<Index>,
    volume: VolumeId,
    options: CheckOptions,
    /// Place of its lists and descriptors, once its mark was looked at.
    keeping: RightsStorage,
    spec: VolumeSpec,
    root: Root,
    /// The device of the volume's directory.
    home: u64,
    report: CheckReport,
    progress: Arc<CheckProgress>,
}

impl Check {
    /// Looks at the mark on the root. Whether the tree is the volume's.
    async fn look_at_mark(&mut self, record: &VolumeRecord) -> Result<bool, CheckError> {
        let bearer = MarkAttributes::new(self.options.trusted_attributes);
        let borne = match bearer.read(self.root.dir()) {
            Ok(borne) => borne,
            Err(why) => {
                self.report.add(ProblemKind::MarkUnreadable { why }, false);
                return Ok(false);
            }
        };
        self.keeping = RightsStorage::new(borne.rights, self.options.trusted_attributes);
        let Some(bytes) = borne.mark.clone() else {
            let is_ours = self.is_known_root().await?;
            let mended = is_ours && self.options.repair && {
                let mark = self.index.mark_of(self.volume)?;
                let written = bearer.write(self.root.dir(), &mark, self.keeping.written(), borne.is_lost);
                written.map(|()| self.index.marked(self.volume, &mark)).is_ok()
            };
            self.report.add(ProblemKind::NoMark { is_ours }, mended);
            return Ok(is_ours);
        };
        let Some(mark) = Mark::parse(&bytes) else {
            let why = "it cannot be understood".to_owned();
            self.report.add(ProblemKind::MarkUnreadable { why }, false);
            return Ok(false);
        };
        let trouble = match self.index.standing(self.volume, &mark)? {
            Standing::Agrees => return Ok(true),
            Standing::Another => {
                self.report.add(ProblemKind::OtherMark, false);
                return Ok(false);
            }
            Standing::IndexBehind => ProblemKind::IndexBehind,
            Standing::TreeBehind => ProblemKind::TreeBehind,
        };
        let mended = self.options.repair && self.reopen(bearer, &borne, record).is_ok();
        self.report.add(trouble, mended);
        Ok(true)
    }

    /// Opens the volume as a server does: what was set back goes on above all that was given out.
    fn reopen(&self, bearer: MarkAttributes, borne: &RootMark, record: &VolumeRecord) -> Result<(), String> {
        let now = lane::time::wall_clock();
        let (dir, rights) = (self.root.dir(), self.keeping.written());
        let write = |mark: &Mark| bearer.write(dir, mark, rights, borne.is_lost);
        let opened = enter(&self.index, &record.name, &self.spec, borne.mark.clone(), Some(&write), now)?;
        self.index.close_volume(opened.volume);
        Ok(())
    }

    /// Returns whether the index knows the directory as this volume's own.
    async fn is_known_root(&self) -> Result<bool, CheckError> {
        let (dir, at) = (self.root.dir(), |error: Error| self.at_root(&error));
        let stat = dir.stat().map_err(|error| self.at_root(&error))?;
        let words = identity_of(By::Open(dir.as_file()), &stat).await.map_err(at)?.words(self.home);
        let (index, volume) = (Arc::clone(&self.index), self.volume);
        let known = offload(None, move || index.look_up(volume, &words)).await?;
        Ok(known.ok().flatten().is_some_and(|known| known.number == Number::ROOT))
    }

    fn at_root(&self, problem: &dyn std::fmt::Display) -> CheckError {
        CheckError::Root { path: self.spec.path.clone(), problem: problem.to_string() }
    }
}

/// A directory whose names are more than this is too large to compare: its files are not judged.
const ENTRIES_MAX: usize = 1 << 24;

/// Returns whether what had a name has it no more: another program changes the tree meanwhile.
fn is_gone(error: &Error) -> bool {
    matches!(error, Error::NotFound | Error::NotADirectory | Error::Stale | Error::SymlinkRefused)
}
