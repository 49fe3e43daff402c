//! Defects that are known: a run can look past them for others.

/// A defect, by what is seen of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// AFS clients are not notified of what changes a status alone (names and mode), nor that a file is gone.
    UntoldStatus,
}

impl Known {
    /// All of them.
    pub const ALL: [Self; 1] = [Self::UntoldStatus];

    /// Returns the name on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::UntoldStatus => "untold-status",
        }
    }
}
