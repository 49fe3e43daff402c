//! Problems of a volume.

use std::fmt;

use index::{Finding, Number, Usage};

/// Problem that the check has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Kind of the problem.
    pub trouble: ProblemKind,
    /// Set once the check has mended the problem.
    pub mended: bool,
}

/// Disagreement between index and tree.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProblemKind {
    /// The mark on the directory cannot be read; never mended by guess.
    MarkUnreadable {
        /// Reason of the failure.
        why: String,
    },
    /// The directory bears no mark. Mended by a new one where the index knows the directory.
    NoMark {
        /// The index knows it.
        is_ours: bool,
    },
    /// The directory bears the mark of another volume.
    OtherMark,
    /// The mark knows more than the index, which was set back. Mended as the next opening would.
    IndexBehind,
    /// The directory bore a later mark: the tree was set back. Mended as the next opening would.
    TreeBehind,
    /// A finding of [`index::Index::check`].
    Index(Finding),
    /// No file has this number any more. Mended by forgetting it.
    Gone {
        /// Number of the file.
        number: Number,
        /// The name it was last seen by, where that is known.
        name: Option<String>,
    },
    /// A file is not where it was recorded. Mended by recording where it is.
    Moved {
        /// Number of the file.
        number: Number,
        /// Path of the file.
        path: String,
    },
    /// A directory has a file's number, or a file a directory's. Mended by forgetting it: it gets another.
    Kind {
        /// The number.
        number: Number,
        /// Path of the file.
        path: String,
    },
    /// A file under a name of the server's own, which a crash left, or one that `linerate put` did not finish. Mended
    /// by removing it.
    Leftover {
        /// Path of the file.
        path: String,
    },
    /// A directory's access list cannot be read, so that administrators alone are let in: for them to set
    /// anew.
    AccessList {
        /// The directory.
        path: String,
        /// Description of the problem.
        why: String,
    },
    /// The security descriptor of a file or directory cannot be read, so that administrators alone get at it,
    /// and can set another: for them to set anew.
    Descriptor {
        /// Path of the file that has it.
        path: String,
        /// Description of the problem.
        why: String,
    },
    /// The tree holds something else than is recorded of it, and would be limited by that. Mended by recording what it
    /// holds.
    Usage {
        /// Recorded usage.
        recorded: Usage,
        /// Usage of the tree.
        held: Usage,
    },
    /// Part of the tree could not be looked at, and files that are recorded were not found elsewhere.
    Unjudged {
        /// Number of records.
        records: u64,
        /// Path that could not be looked at; the first where there is more.
        path: String,
        /// Reason of the failure.
        why: String,
    },
}

impl ProblemKind {
    /// Returns one word for it, the same in each version.
    pub fn word(&self) -> &'static str {
        match self {
            Self::MarkUnreadable { .. } => "mark-unreadable",
            Self::NoMark { .. } => "no-mark",
            Self::OtherMark => "other-mark",
            Self::IndexBehind => "index-behind",
            Self::TreeBehind => "tree-behind",
            Self::Index(Finding::Stray { .. }) => "stray-record",
            Self::Index(Finding::Dangling { .. }) => "dangling-identity",
            Self::Index(Finding::Unreserved { .. }) => "unreserved-number",
            Self::Index(Finding::Ahead { .. }) => "version-ahead",
            Self::Index(Finding::NoParent { .. }) => "no-parent",
            Self::Gone { .. } => "gone",
            Self::Moved { .. } => "moved",
            Self::Kind { .. } => "kind",
            Self::Leftover { .. } => "leftover",
            Self::AccessList { .. } => "access-list",
            Self::Descriptor { .. } => "descriptor",
            Self::Usage { .. } => "usage",
            Self::Unjudged { .. } => "unjudged",
        }
    }
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MarkUnreadable { why } => write!(f, "the mark on its directory: {why}"),
            Self::NoMark { is_ours: true } => f.write_str("its directory bears no mark any more"),
            Self::NoMark { is_ours: false } => {
                f.write_str("its directory bears no mark, and is not the one that it was")
            }
            Self::OtherMark => f.write_str("its directory bears the mark of another volume"),
            Self::IndexBehind => f.write_str("the index does not know all that it knew: it was set back"),
            Self::TreeBehind => f.write_str("the tree is as it was some time ago: it was set back"),
            Self::Index(Finding::Stray { vnode }) => write!(f, "record {vnode}: nothing leads to it"),
            Self::Index(Finding::Dangling { vnode }) => {
                write!(f, "record {vnode}: another file's words lead to it")
            }
            Self::Index(Finding::Unreserved { number }) => write!(f, "{number} was never reserved"),
            Self::Index(Finding::Ahead { number, generation }) => {
                write!(f, "{number} is of generation {generation}, which is yet to come")
            }
            Self::Index(Finding::NoParent { number, parent }) => {
                write!(f, "{number} was seen in directory {parent}, which is not recorded")
            }
            Self::Gone { number, name: Some(name) } => write!(f, "{number}, last seen as {name}, is gone"),
            Self::Gone { number, name: None } => write!(f, "{number} is gone"),
            Self::Moved { number, path } => write!(f, "{number} is not where it was seen, but {path}"),
            Self::Kind { number, path } => write!(f, "{path} has {number}, which is no number of its kind"),
            Self::Leftover { path } => write!(f, "{path} was left by a crash"),
            Self::AccessList { path, why } => write!(f, "the access list of {path}: {why}"),
            Self::Descriptor { path, why } => write!(
                f,
                "the security descriptor of {path}: {why}. Nobody gets at it but administrators, who can set another"
            ),
            Self::Usage { recorded, held } => write!(
                f,
                "{} bytes in {} files are recorded, and it holds {} bytes in {} files",
                recorded.bytes, recorded.files, held.bytes, held.files
            ),
            Self::Unjudged { records, path, why } => {
                write!(f, "{records} recorded files were not found, and {path} cannot be looked at: {why}")
            }
        }
    }
}
