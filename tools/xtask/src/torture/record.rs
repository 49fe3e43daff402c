//! Record that the tortured process writes: a line before each change begins, and one when it is
//! acknowledged. A line is one write to a pipe, so what was acknowledged is known however the process ends,
//! and in which order.

use serde::{Deserialize, Serialize};

use super::step::Step;

/// A line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Record {
    /// A worker found one of its files so, before it changed anything.
    Found { worker: usize, path: String, version: FileVersion },
    /// A worker asks for a change.
    Begin { worker: usize, step: Step },
    /// The step is acknowledged. Of a change of a file's content, what that has come to.
    Done { worker: usize, version: Option<FileVersion> },
    /// The step is refused, which none of them should be.
    Refused { worker: usize, why: String },
}

/// Number of a file, and the version of its content.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) struct FileVersion {
    /// The file's number: vnode and uniquifier.
    pub(super) file: (u32, u32),
    pub(super) identity: String,
    pub(super) generation: u32,
    pub(super) count: u32,
}

/// Writes the record: in one piece, as it is shorter than what a pipe takes at once.
pub(super) fn tell(record: &Record) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(record)?;
    line.push(b'\n');
    anyhow::ensure!(line.len() <= rustix::pipe::PIPE_BUF, "a line of {} bytes", line.len());
    let written = rustix::io::write(std::io::stdout(), &line)?;
    anyhow::ensure!(written == line.len(), "a line was cut");
    Ok(())
}
