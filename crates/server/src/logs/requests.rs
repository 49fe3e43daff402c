//! Thread that writes a log of requests: lanes hand batches over and never wait for the disk. There are two
//! such logs: the access log of what was served, the audit log of users and their operations.

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::Thread;
use std::time::{Duration, Instant};

use service::log::{Format, LaneLog, LogReader};
use vfs::Withheld;

use super::pace::{FAREWELL_MAX, STEP, counted};
use super::sink::{Sink, count_lines};
use crate::config::{ConfigError, LogSection};
use crate::health::Health;
use crate::metrics::Blocks;

lane::counter_block! {
    /// Counters of a log's thread.
    struct LogCounters {
        count lines_lost: "Lines of this log that were lost because it could not be written fast enough.",
        count lines_limited: "Lines of this log left out, as requests or sign-ins of their client had failed too often.",
        gauge stalled: "1 while this log cannot be written.",
    }
}

/// Kind of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Access,
    Audit,
}

/// Running log. Its drop writes what is queued, for [`FAREWELL_MAX`] at most, and ends the thread.
#[derive(Debug)]
pub(super) struct RequestLog {
    kind: Kind,
    lanes: LaneLog,
    state: Arc<LogState>,
    thread: Thread,
    /// Channel that closes when the thread has ended.
    ended: mpsc::Receiver<()>,
}

#[derive(Debug, Default)]
struct LogState {
    stop: AtomicBool,
    reopen: AtomicBool,
}

impl Kind {
    pub(super) const ALL: [Self; 2] = [Self::Access, Self::Audit];

    /// Returns the path of the log in the configuration, and the format of its lines.
    pub(super) fn wanted(self, section: &LogSection) -> Option<(&Path, Format)> {
        let (path, format) = match self {
            Self::Access => (&section.access, section.format.into()),
            Self::Audit => (&section.audit, section.audit_format.into()),
        };
        path.as_deref().map(|path| (path, format))
    }

    /// Puts the key that names the log before an error of opening it.
    pub(super) fn refused(self, error: &io::Error) -> ConfigError {
        ConfigError::invalid(self.key(), error.to_string())
    }

    fn key(self) -> &'static str {
        match self {
            Self::Access => "log.access",
            Self::Audit => "log.audit",
        }
    }

    /// Returns the log's name in messages.
    fn words(self) -> &'static str {
        match self {
            Self::Access => "access log",
            Self::Audit => "audit log",
        }
    }

    /// Returns the area of the log's counters.
    fn block(self) -> &'static str {
        match self {
            Self::Access => "access_log",
            Self::Audit => "audit_log",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

impl RequestLog {
    /// Opens the file that `section` names and starts the thread; `None` when there is no such log. What
    /// keeps it from being written is told in `health`.
    pub(super) fn start(
        kind: Kind,
        section: &LogSection,
        blocks: &Blocks,
        health: &Arc<Health>,
        withheld: &Arc<Withheld>,
    ) -> Result<Option<Self>, ConfigError> {
        let Some((path, format)) = kind.wanted(section) else { return Ok(None) };
        let refused = |error| kind.refused(&error);
        let sink = match path == Path::new("-") {
            true => Sink::standard(io::stdout().as_fd()),
            false => Sink::open(path, Some(Arc::clone(withheld))),
        };
        let sink = sink.map_err(refused)?;
        let (lanes, reader) = service::log::channel(BATCHES_MAX);
        let state = Arc::new(LogState::default());
        let counters = Arc::new(LogCounters::default());
        blocks.add_of_process(kind.block(), Arc::clone(&counters) as _);
        let (done, ended) = mpsc::channel();
        let writer = LogWriter {
            kind,
            reader,
            format,
            sink,
            state: Arc::clone(&state),
            counters,
            health: Arc::clone(health),
            lost: 0,
            stop_at: None,
            trouble: None,
            is_removed: false,
            _done: done,
        };
        let thread = std::thread::Builder::new().name(kind.block().to_owned()).spawn(|| writer.run());
        let thread = thread.map_err(refused)?;
        Ok(Some(Self { kind, lanes, state, thread: thread.thread().clone(), ended }))
    }

    /// Returns a lane's end of the queue.
    pub(super) fn lane(&self) -> LaneLog {
        self.lanes.clone()
    }

    /// Opens the file again, after a log rotation moved it.
    pub(super) fn reopen(&self) {
        self.state.reopen.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

impl Drop for RequestLog {
    fn drop(&mut self) {
        self.lanes.flush();
        self.state.stop.store(true, Ordering::Release);
        self.thread.unpark();
        // A thread that a disk keeps in a write ends with the process.
        if self.ended.recv_timeout(FAREWELL_MAX + 2 * STEP) == Err(mpsc::RecvTimeoutError::Timeout) {
            //@ cause: The disk or the reader of an access or audit log did not take the last lines before the server's end.
            //@ remedy: Look at the disk of the log, or at the program that reads it.
            tracing::error!(
                "log: the last lines of the {} are lost, as writing them did not end; look at its disk or reader [log-end-hangs]",
                self.kind
            );
        }
    }
}

struct LogWriter {
    kind: Kind,
    reader: LogReader,
    format: Format,
    sink: Sink,
    state: Arc<LogState>,
    counters: Arc<LogCounters>,
    health: Arc<Health>,
    /// Number of lines given up here; the queue counts its own.
    lost: u64,
    /// Time at which to give up, once the end was asked for.
    stop_at: Option<Instant>,
    /// Spell in which nothing can be written.
    trouble: Option<Spell>,
    /// Set if the file is gone from its directory, which was reported.
    is_removed: bool,
    _done: mpsc::Sender<()>,
}

struct Spell {
    since: Instant,
    told: bool,
    lost_before: u64,
}

impl LogWriter {
    fn run(mut self) {
        self.reader.attach();
        let (mut lines, mut told_lost, mut told_at) = (Vec::new(), 0, None);
        let (mut told_left_out, mut left_out_told_at) = (0, None);
        loop {
            // Looked at before the last read: what was queued before the stop is written.
            let stop = self.stops();
            self.reopen_if_asked();
            while self.reader.read(self.format, &mut lines) {
                self.sink.put(&lines);
                lines.clear();
                if !self.write() {
                    return self.give_up();
                }
            }
            let lost = self.lost();
            let is_time = told_at.is_none_or(|at: Instant| at.elapsed() >= TELL_PERIOD) || stop;
            if lost > told_lost && is_time {
                //@ cause: Requests came faster than the disk or the reader of the log took their lines.
                //@ remedy: Give the log a faster disk or reader, or log to a file. Requests are served as ever.
                tracing::warn!(
                    "log: {} of the {} {} lost, as its disk or reader is too slow; requests are served as ever [log-too-slow]",
                    counted(lost - told_lost, "line", "lines"),
                    self.kind,
                    if lost - told_lost == 1 { "was" } else { "were" }
                );
                (told_lost, told_at) = (lost, Some(Instant::now()));
            }
            let (left_out, of) = self.reader.left_out();
            self.counters.lines_limited.set(left_out);
            let is_time = left_out_told_at.is_none_or(|at: Instant| at.elapsed() >= TELL_PERIOD) || stop;
            if let Some(of) = of.filter(|_| left_out > told_left_out && is_time) {
                //@ cause: Requests or sign-ins of a client failed more often than the audit log tells of each: 100 at once and 5 a second
                //@ on each lane. The line names the last such client. What was done is told of all the same.
                //@ remedy: Look at the lines of the client before. Where it guesses passwords, keep its address out.
                tracing::warn!(
                    "log: {} of the {} {} left out, as {of} and perhaps others failed too often; look at its lines before \
                     [log-failures-limited]",
                    counted(left_out - told_left_out, "line", "lines"),
                    self.kind,
                    if left_out - told_left_out == 1 { "was" } else { "were" }
                );
                (told_left_out, left_out_told_at) = (left_out, Some(Instant::now()));
            }
            if stop {
                return;
            }
            self.look_at_file();
            std::thread::park_timeout(Duration::from_secs(1));
        }
    }

    /// Writes queued lines, however long it takes; false when the end came first.
    fn write(&mut self) -> bool {
        loop {
            match self.sink.step() {
                Ok(()) => {
                    self.recover();
                    return true;
                }
                Err(super::sink::Trouble::Gone) => {
                    self.lost += self.sink.discard();
                    self.counters.lines_lost.set(self.lost());
                    let told = "the reader of standard output has left, and its lines are lost";
                    self.health.note(self.kind.words(), told);
                    return true;
                }
                Err(trouble) => self.suffer(&trouble),
            }
            if self.stops() && self.stop_at.is_some_and(|at| Instant::now() >= at) {
                return false;
            }
            self.reopen_if_asked();
        }
    }

    /// Reports once for each spell that nothing can be written: a full disk must not fill the server's own
    /// log too.
    fn suffer(&mut self, trouble: &super::sink::Trouble) {
        self.counters.lines_lost.set(self.lost());
        let lost_before = self.lost();
        let spell =
            self.trouble.get_or_insert_with(|| Spell { since: Instant::now(), told: false, lost_before });
        // A reader that is a moment late is no trouble.
        if !spell.told && spell.since.elapsed() >= TROUBLE_MIN {
            spell.told = true;
            self.counters.stalled.set(1);
            let told =
                format!("it cannot be written: {trouble}; later lines are lost; look at its disk or reader");
            self.health.note(self.kind.words(), told);
            //@ cause: The file, pipe or socket of an access or audit log takes nothing: the disk is full, or its reader has stopped.
            //@ remedy: Make room, or start the reader again. Lines beyond what waits are lost, and their number is logged.
            tracing::error!(
                "log: the {} cannot be written: {trouble}; {} MiB of lines wait, later ones are lost; look at its disk or reader \
                 [log-not-written]",
                self.kind,
                (service::log::BATCH_BYTES * BATCHES_MAX) >> 20
            );
        }
    }

    /// Reports what the next lines would meet, before there are any.
    fn look_at_file(&mut self) {
        let is_removed = self.sink.is_removed();
        if is_removed == self.is_removed {
            return;
        }
        self.is_removed = is_removed;
        let subject = format!("{}, file", self.kind);
        if !is_removed {
            return self.health.clear(&subject);
        }
        let told = "its file was removed, and lines go where nobody reads them; SIGUSR1 makes it again";
        self.health.note(&subject, told);
        //@ cause: The file of an access or audit log was removed while the server had it open.
        //@ remedy: Send SIGUSR1, which makes the file again. To rotate a log, rename its file and then send SIGUSR1.
        tracing::error!(
            "log: the file of the {} was removed, and lines go where nobody reads them; send SIGUSR1, which makes it again \
             [log-file-removed]",
            self.kind
        );
    }

    fn recover(&mut self) {
        let lost = self.lost();
        self.counters.lines_lost.set(lost);
        if let Some(spell) = self.trouble.take().filter(|spell| spell.told) {
            self.counters.stalled.set(0);
            self.health.clear(self.kind.words());
            tracing::info!(lost_lines = lost - spell.lost_before, "the {} is written again", self.kind);
        }
    }

    /// Ends the thread, and counts the lines that could not be written.
    fn give_up(mut self) {
        let mut lost = self.sink.discard();
        let mut lines = Vec::new();
        while self.reader.read(self.format, &mut lines) {
            lost += count_lines(&lines);
            lines.clear();
        }
        self.lost += lost;
        self.counters.lines_lost.set(self.lost());
        //@ cause: The server ended while the file, pipe or socket of an access or audit log took nothing.
        //@ remedy: Make room on the disk, or start the log's reader again.
        tracing::error!(
            "log: {} of the {} {} lost, as it could not be written at the server's end; look at its disk or reader [log-end-lost]",
            counted(self.lost(), "line", "lines"),
            self.kind,
            if self.lost() == 1 { "is" } else { "are" }
        );
    }

    fn lost(&self) -> u64 {
        self.lost + self.reader.dropped()
    }

    fn stops(&mut self) -> bool {
        let stop = self.state.stop.load(Ordering::Acquire);
        if stop {
            self.stop_at.get_or_insert_with(|| Instant::now() + FAREWELL_MAX);
        }
        stop
    }

    fn reopen_if_asked(&mut self) {
        if !self.state.reopen.swap(false, Ordering::AcqRel) {
            return;
        }
        let subject = format!("{}, reopening", self.kind);
        if let Err(error) = self.sink.reopen() {
            let told = format!("its file cannot be opened again: {error}; lines go to the old file");
            self.health.note(&subject, told);
            //@ cause: After a log rotation the server could not open the file by its name: a directory is gone, or it may not write there.
            //@ remedy: Make the directory, or let the server's user write there, and send SIGHUP or SIGUSR1 again.
            tracing::error!(
                "log: the {} cannot be opened again: {error}; lines go to the old file; mend its directory and reload [log-not-reopened]",
                self.kind
            );
        } else {
            self.health.clear(&subject);
        }
    }
}

//@ limit: access log
//@ section: Logs, control and descriptors
//@ unit: batch of 32 KiB
//@ connection: a record of at most 4.1 KiB for each request
//@ all: process: {} (8 MiB)
//@ empty: the newest lines are lost, and a line says how many; others feel nothing
//@ counter: access_log_lines_lost, access_log_stalled
//@ attack: http-unread-access-log
//@ limit: audit log
//@ section: Logs, control and descriptors
//@ unit: batch of 32 KiB
//@ connection: a record of at most 8.8 KiB for each call or request, a name of 4 KiB in its line, escapes counted
//@ all: process: {} (8 MiB)
//@ empty: the newest lines are lost, and a line says how many; others feel nothing
//@ counter: audit_log_lines_lost, audit_log_stalled
//@ attack: smb-unread-audit-log
/// Most batches that wait: 8 MiB for all lanes.
const BATCHES_MAX: usize = 256;
/// Time between two complaints about lost lines.
const TELL_PERIOD: Duration = Duration::from_secs(10);
/// Shortest spell that is reported.
const TROUBLE_MIN: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;
    /// Record with the line of a test.
    struct Line<'a>(&'a [u8]);

    impl service::log::LogRecord for Line<'_> {
        const PACKED_MAX: usize = 128;

        fn pack(&self, batch: &mut Vec<u8>) {
            batch.extend_from_slice(self.0);
            batch.push(b'\n');
        }

        fn put_lines(_: Format, batch: &[u8], lines: &mut Vec<u8>) {
            lines.extend_from_slice(batch);
        }
    }

    fn record(target: &[u8]) -> Line<'_> {
        Line(target)
    }

    fn start(path: &Path) -> (RequestLog, Blocks) {
        start_told(Kind::Access, path, &Arc::default())
    }

    fn start_told(kind: Kind, path: &Path, health: &Arc<Health>) -> (RequestLog, Blocks) {
        let path = Some(path.to_owned());
        let section = LogSection { access: path.clone(), audit: path, ..LogSection::default() };
        let blocks = Blocks::default();
        let log = RequestLog::start(kind, &section, &blocks, health, &Arc::default());
        (log.unwrap().unwrap(), blocks)
    }

    fn counted(blocks: &Blocks, name: &str) -> u64 {
        blocks.samples().iter().filter(|sample| sample.reading.name == name).map(|s| s.reading.value).sum()
    }

    fn wait_for(mut done: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !done() {
            assert!(Instant::now() < deadline, "waited in vain");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn every_line_is_written_before_the_log_ends_and_a_rotated_file_is_opened_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.log");
        let (log, _) = start(&path);
        let mut lane = log.lane();
        lane.push(&record(b"/one"));
        lane.flush();
        wait_for(|| !std::fs::read_to_string(&path).unwrap().is_empty());
        std::fs::rename(&path, dir.path().join("old.log")).unwrap();
        log.reopen();
        wait_for(|| path.exists());
        lane.push(&record(b"/two"));
        drop(lane);
        drop(log);
        let (old, new) = (dir.path().join("old.log"), path);
        assert!(std::fs::read_to_string(old).unwrap().contains("/one"));
        let new = std::fs::read_to_string(new).unwrap();
        assert!(new.contains("/two") && !new.contains("/one") && new.ends_with('\n'));
    }

    #[test]
    fn lines_left_out_are_counted_and_those_of_what_was_done_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        let (log, blocks) = start_told(Kind::Audit, &path, &Arc::default());
        let mut lane = log.lane();
        let peer = "192.0.2.1".parse().unwrap();
        for _ in 0..1000 {
            lane.push_failed(peer, Instant::now(), &record(b"refused"));
            lane.push(&record(b"done"));
        }
        drop(lane);
        wait_for(|| counted(&blocks, "lines_limited") > 0);
        drop(log);
        let left_out = counted(&blocks, "lines_limited");
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = |of: &str| text.lines().filter(|line| *line == of).count() as u64;
        assert_eq!((lines("done"), lines("refused") + left_out), (1000, 1000));
        // As many as come at once, and what a slow machine takes time for.
        assert!((100..200).contains(&lines("refused")), "{}", lines("refused"));
    }

    #[test]
    fn full_disk_keeps_what_the_queue_holds_counts_the_rest_and_recovers() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.log");
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        let (log, blocks) = start(&path);
        let mut lane = log.lane();
        lane.push(&record(b"/first"));
        lane.flush();
        wait_for(|| counted(&blocks, "stalled") == 1);
        // One batch is with the thread, 256 are in the queue; each holds some hundred records.
        let pushed = 400_000;
        let line = [b'x'; 64];
        (0..pushed).for_each(|_| lane.push(&record(&line)));
        lane.flush();
        wait_for(|| counted(&blocks, "lines_lost") > 0);
        std::fs::remove_file(&path).unwrap();
        log.reopen();
        wait_for(|| counted(&blocks, "stalled") == 0);
        let written = || std::fs::read(&path).map_or(0, |bytes| count_lines(&bytes));
        wait_for(|| written() + counted(&blocks, "lines_lost") == pushed + 1);
        assert!(std::fs::read_to_string(&path).unwrap().contains("/first"), "what waited is written");
    }

    #[test]
    fn a_disk_that_stays_full_does_not_keep_the_end_and_what_it_cost_is_counted() {
        let (log, blocks) = start(Path::new("/dev/full"));
        let mut lane = log.lane();
        (0..10).for_each(|_| lane.push(&record(b"/")));
        drop(lane);
        let begun = Instant::now();
        drop(log);
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        assert_eq!(counted(&blocks, "lines_lost"), 10);
    }

    #[test]
    fn a_file_that_is_removed_is_told_of_before_a_line_is_lost_until_it_is_opened_anew() {
        for kind in Kind::ALL {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a.log");
            let health = Arc::<Health>::default();
            let (log, _) = start_told(kind, &path, &health);
            // A rotation renames it, and what has a name is not lost.
            std::fs::rename(&path, dir.path().join("old.log")).unwrap();
            std::thread::sleep(Duration::from_millis(1500));
            assert_eq!(health.lines(), "");
            std::fs::remove_file(dir.path().join("old.log")).unwrap();
            let told = format!("{kind}, file: its file was removed, and lines go where nobody reads them");
            wait_for(|| health.lines().starts_with(&told));
            log.reopen();
            wait_for(|| health.lines().is_empty());
            assert!(path.exists());
        }
    }

    #[test]
    fn health_tells_which_log_cannot_be_written_or_opened_again_until_it_can() {
        for kind in Kind::ALL {
            let dir = tempfile::tempdir().unwrap();
            let logs = dir.path().join("logs");
            std::fs::create_dir(&logs).unwrap();
            let path = logs.join("a.log");
            std::os::unix::fs::symlink("/dev/full", &path).unwrap();
            let health = Arc::<Health>::default();
            let (log, _) = start_told(kind, &path, &health);
            let mut lane = log.lane();
            assert_eq!(health.lines(), "");
            lane.push(&record(b"/"));
            lane.flush();
            let begins = format!("{kind}: it cannot be written: No space left on device");
            wait_for(|| health.lines().starts_with(&begins));
            std::fs::remove_file(&path).unwrap();
            log.reopen();
            wait_for(|| health.lines().is_empty());

            // A rotation that took the directory too.
            std::fs::rename(&logs, dir.path().join("aside")).unwrap();
            log.reopen();
            let begins = format!("{kind}, reopening: its file cannot be opened again: ");
            wait_for(|| health.lines().starts_with(&begins));
            std::fs::create_dir(&logs).unwrap();
            log.reopen();
            wait_for(|| health.lines().is_empty());
        }
    }
}
