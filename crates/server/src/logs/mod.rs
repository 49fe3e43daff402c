//! Output of the server for administrators: the access log, the audit log, and the diagnostics.
//!
//! No lane, no signal and no end of the process ever waits for a log. A message goes into a bounded queue; a
//! thread for each log takes it out and waits for the file, pipe or terminal. What finds the queue full is
//! lost and counted, and a line says how many there were. The end waits a second for what is queued.

mod diagnostics;
mod limit;
mod pace;
mod passed_on;
pub(crate) mod place;
mod requests;
mod sink;

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Instant;

use service::log::LaneLog;
use vfs::Withheld;

pub(crate) use self::diagnostics::add_to;
pub use self::diagnostics::{Diagnostics, finish};
pub(crate) use self::pace::counted;
use self::pace::{FAREWELL_MAX, STEP};
pub(crate) use self::passed_on::error;
pub use self::passed_on::warn;
pub(crate) use self::place::is_one;
use self::requests::{Kind, RequestLog};
use self::sink::Sink;
use crate::config::{ConfigError, LogSection};
use crate::health::Health;
use crate::metrics::Blocks;

/// Logs of requests that the configuration wants. Their drop writes what is queued.
#[derive(Debug, Default)]
pub(crate) struct RequestLogs {
    access: Option<RequestLog>,
    audit: Option<RequestLog>,
}

/// Lane's ends of the logs.
#[derive(Clone, Debug, Default)]
pub(crate) struct LaneLogs {
    pub(crate) access: Option<LaneLog>,
    pub(crate) audit: Option<LaneLog>,
}

impl RequestLogs {
    /// Opens the logs and starts their threads. The files are `withheld`; what keeps one from being written
    /// is shown in `health`.
    pub(crate) fn start(
        section: &LogSection,
        blocks: &Blocks,
        health: &Arc<Health>,
        withheld: &Arc<Withheld>,
    ) -> Result<Self, ConfigError> {
        let start = |kind| RequestLog::start(kind, section, blocks, health, withheld);
        Ok(Self { access: start(Kind::Access)?, audit: start(Kind::Audit)? })
    }

    /// Returns a lane's ends of the logs.
    pub(crate) fn lane(&self) -> LaneLogs {
        let [access, audit] = [&self.access, &self.audit].map(|log| log.as_ref().map(RequestLog::lane));
        LaneLogs { access, audit }
    }

    /// Opens the files again, after a log rotation moved them.
    pub(crate) fn reopen(&self) {
        [&self.access, &self.audit].into_iter().flatten().for_each(RequestLog::reopen);
    }
}

/// Removes the message's name in brackets from the end of a line.
pub(crate) fn without_name(line: &str) -> &str {
    line.rsplit_once(" [").map_or(line, |(text, _)| text)
}

/// Writes a message for the user on standard output, or gives up after a second: the process that started the
/// server may not read.
pub fn announce(text: &str) {
    write_within(Sink::standard(io::stdout().as_fd()), text);
}

/// Writes a message on standard error ([`announce`]): the last words of a server that could not start or go
/// on.
pub fn complain(text: &str) {
    write_within(Sink::standard(io::stderr().as_fd()), text);
}

/// Checks whether the logs of requests could be opened, as the start of a server would. Files that are not
/// there yet are not made.
///
/// # Errors
/// The system's, with the log's key and path.
pub(crate) fn check(section: &LogSection) -> Result<(), ConfigError> {
    let paths = Kind::ALL.into_iter().filter_map(|kind| Some((kind, kind.wanted(section)?.0)));
    let mut files = paths.filter(|(_, path)| *path != Path::new("-"));
    files.try_for_each(|(kind, path)| sink::check(path).map_err(|error| kind.refused(&error)))
}

fn write_within(sink: io::Result<Sink>, text: &str) {
    let Ok(mut sink) = sink else { return };
    sink.put(text.as_bytes());
    let (done, ended) = mpsc::channel::<()>();
    let write = move || {
        let _done = done;
        let deadline = Instant::now() + FAREWELL_MAX;
        while sink.step().is_err() && Instant::now() < deadline {}
    };
    // Even a write that poll(2) promised to take at once may wait, where others write to the same pipe.
    if std::thread::Builder::new().name("announcement".to_owned()).spawn(write).is_ok() {
        let _ = ended.recv_timeout(FAREWELL_MAX + STEP);
    }
}
