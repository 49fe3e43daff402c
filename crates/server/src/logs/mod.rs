//! What the server writes for people: the access log, and its own messages (the diagnostics).
//!
//! No lane, no signal and no end of the process ever waits for a log. Whoever says something puts it into a bounded
//! queue; a thread for each log takes it out and waits for the file, pipe or terminal. What finds the queue full is
//! lost and counted, and a line says how many there were. The end waits a second for what is queued.

mod access;
mod diagnostics;
mod limit;
mod sink;

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

pub(crate) use self::access::AccessLog;
pub(crate) use self::diagnostics::add_to;
pub use self::diagnostics::{Diagnostics, finish};
use self::sink::Sink;

/// Writes what a person should read on standard output, or gives up after a second: whoever started the
/// server may not read.
pub fn announce(text: &str) {
    write_within(Sink::standard(io::stdout().as_fd()), text);
}

/// As [`announce`], on standard error: the last words of a server that could not start or go on.
pub fn complain(text: &str) {
    write_within(Sink::standard(io::stderr().as_fd()), text);
}

/// Whether the access log could be opened at `path`, as the start of a server would. A file that is not there yet
/// is not made.
///
/// # Errors
/// The system's, with the path in its text.
pub(crate) fn check(path: &Path) -> io::Result<()> {
    sink::check(path)
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

/// How long the end of the process waits for each log.
const FAREWELL_MAX: Duration = Duration::from_secs(1);
/// How long a log's thread waits for a reader or a disk before it looks around.
const STEP: Duration = Duration::from_millis(100);
