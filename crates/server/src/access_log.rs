//! The thread that writes the access log: lanes hand batches over and never wait for the disk.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use http::log::{Format, LaneLog, LogReader};

use crate::config::{LogFormat, LogSection};

/// The running log. Dropping it writes what is queued and ends the thread.
#[derive(Debug)]
pub(crate) struct AccessLog {
    lanes: LaneLog,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct State {
    stop: AtomicBool,
    reopen: AtomicBool,
}

impl AccessLog {
    /// Opens the file that `section` names and starts the thread; `None` when there is no access log.
    pub(crate) fn start(section: &LogSection) -> io::Result<Option<Self>> {
        let Some(path) = &section.access else { return Ok(None) };
        let output = Output::open(path)?;
        let format = match section.format {
            LogFormat::Combined => Format::Combined,
            LogFormat::Json => Format::Json,
        };
        let (lanes, reader) = http::log::channel(BATCHES_MAX);
        let state = Arc::new(State::default());
        let writer = Writer { reader, format, output, state: Arc::clone(&state), lost: 0 };
        let thread = std::thread::Builder::new().name("access-log".to_owned()).spawn(|| writer.run())?;
        Ok(Some(Self { lanes, state, thread: Some(thread) }))
    }

    /// A lane's end of the queue.
    pub(crate) fn lane(&self) -> LaneLog {
        self.lanes.clone()
    }

    /// Opens the file anew, after a log rotation moved it.
    pub(crate) fn reopen(&self) {
        self.state.reopen.store(true, Ordering::Release);
        self.unpark();
    }

    fn unpark(&self) {
        if let Some(thread) = self.thread.as_ref().map(JoinHandle::thread) {
            Thread::unpark(thread);
        }
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.lanes.flush();
        self.state.stop.store(true, Ordering::Release);
        self.unpark();
        if let Some(thread) = self.thread.take() {
            // A writer that panicked has lost its lines; there is nobody left to tell.
            let _ = thread.join();
        }
    }
}

struct Writer {
    reader: LogReader,
    format: Format,
    output: Output,
    state: Arc<State>,
    lost: u64,
}

impl Writer {
    fn run(mut self) {
        self.reader.attach();
        let mut lines = Vec::new();
        loop {
            // Looked at before the last read: what was queued before the stop is written.
            let stop = self.state.stop.load(Ordering::Acquire);
            if self.state.reopen.swap(false, Ordering::AcqRel) {
                self.output.reopen();
            }
            while self.reader.read(self.format, &mut lines) {
                self.output.write(&lines);
                lines.clear();
            }
            let lost = self.reader.dropped();
            if lost > self.lost {
                tracing::warn!(lines = lost - self.lost, "the access log cannot keep up; lines were lost");
                self.lost = lost;
            }
            if stop {
                return;
            }
            std::thread::park_timeout(Duration::from_secs(1));
        }
    }
}

/// A file that can be opened again, or standard output.
struct Output {
    path: Option<PathBuf>,
    file: Option<File>,
    failed: bool,
}

impl Output {
    fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self { path: None, file: None, failed: false });
        }
        let file = append(path).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot open the access log {}: {error}", path.display()))
        })?;
        Ok(Self { path: Some(path.to_owned()), file: Some(file), failed: false })
    }

    fn reopen(&mut self) {
        let Some(path) = &self.path else { return };
        match append(path) {
            Ok(file) => self.file = Some(file),
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "cannot open the access log anew; going on with the old one")
            }
        }
    }

    fn write(&mut self, lines: &[u8]) {
        let written = match &mut self.file {
            Some(file) => file.write_all(lines),
            None => io::stdout().write_all(lines),
        };
        // Told once for each spell of failures: a full disk must not fill the server's own log too.
        if let Err(error) = &written
            && !self.failed
        {
            tracing::error!(%error, "cannot write the access log; lines are lost until it can be written again");
        }
        self.failed = written.is_err();
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// Batches of 32 KiB that may wait: 8 MiB for all lanes.
const BATCHES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use http::log::{Protocol, Record};

    fn record(target: &[u8]) -> Record<'_> {
        Record {
            peer: std::net::IpAddr::from([127, 0, 0, 1]),
            unix_us: 1_700_000_000_000_000,
            duration_us: 5,
            status: 200,
            body_bytes: 3,
            method: http::request::Method::Get,
            protocol: Protocol::Http11,
            tls: false,
            target,
            host: b"",
            referer: b"",
            user_agent: b"",
        }
    }

    #[test]
    fn every_line_is_written_before_the_log_ends_and_a_rotated_file_is_opened_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.log");
        let section = LogSection { access: Some(path.clone()), format: LogFormat::Json };
        let log = AccessLog::start(&section).unwrap().unwrap();
        let mut lane = log.lane();
        lane.push(&record(b"/one"));
        lane.flush();
        while std::fs::read_to_string(&path).unwrap().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::fs::rename(&path, dir.path().join("old.log")).unwrap();
        log.reopen();
        while !path.exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        lane.push(&record(b"/two"));
        drop(lane);
        drop(log);
        let (old, new) = (dir.path().join("old.log"), path);
        assert!(std::fs::read_to_string(old).unwrap().contains("/one"));
        let new = std::fs::read_to_string(new).unwrap();
        assert!(new.contains("/two") && !new.contains("/one") && new.ends_with('\n'));
    }
}
