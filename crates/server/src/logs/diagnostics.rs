//! Diagnostics of the server: `tracing` events and panics, as lines on standard error.
//!
//! Lanes, helpers and the control thread put them into one queue and go on. A thread writes it out as the reader
//! takes it; while the reader takes nothing the newest lines are lost, and one line tells how many once it goes on.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread::Thread;
use std::time::{Duration, Instant};

use crossbeam_queue::ArrayQueue;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::limit::{Limit, Limiter};
use super::sink::{Sink, Trouble};
use super::{FAREWELL_MAX, STEP, counted};
use crate::metrics::Blocks;

lane::counter_block! {
    /// Counters of the diagnostics' thread.
    struct DiagnosticsCounters {
        count lines_lost: "Lines of the server's own messages that were lost because nobody read them.",
        count lines_limited: "Messages left out because the same place in the code said too many.",
        gauge stalled: "1 while the server's own messages cannot be written.",
    }
}

/// Guard of the running diagnostics; its drop is [`finish`].
#[derive(Debug)]
pub struct Diagnostics(());

impl Diagnostics {
    /// Sends this process's messages from now on to standard error, panics included. Once for a process.
    /// `filter` is the user's, as `tracing_subscriber::filter::Targets` reads it: `debug`, or
    /// `info,rustls=off`. On a terminal lines have colours unless they are to be `plain`.
    ///
    /// # Errors
    /// A filter that cannot be read, a thread that cannot be started.
    pub fn start(filter: Option<&str>, plain: bool) -> io::Result<Self> {
        let filter: Targets = filter.unwrap_or(FILTER).parse().map_err(io::Error::other)?;
        let shared = Arc::new(DiagnosticsShared {
            queue: ArrayQueue::new(LINES_MAX),
            lost: AtomicU64::new(0),
            limit: Arc::default(),
            writer: OnceLock::new(),
            stop: AtomicBool::new(false),
        });
        let counters = Arc::new(DiagnosticsCounters::default());
        let (done, ended) = mpsc::channel();
        let writer = Writer {
            shared: Arc::clone(&shared),
            sink: Sink::standard(io::stderr().as_fd())?,
            counters: Arc::clone(&counters),
            lost_told: 0,
            limited_told: 0,
            given_up: 0,
            stop_at: None,
            _done: done,
        };
        let running = RunningWriter { shared: Arc::clone(&shared), counters, ended: Mutex::new(ended) };
        RUNNING.set(running).map_err(|_| io::Error::other("the diagnostics were started before"))?;
        std::thread::Builder::new().name("diagnostics".to_owned()).spawn(|| writer.run())?;
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(Lines(Arc::clone(&shared)))
            .with_ansi(!plain && io::stderr().is_terminal())
            .with_target(false);
        tracing_subscriber::registry()
            .with(filter)
            .with(Limiter(Arc::clone(&shared.limit)))
            .with(lines)
            .try_init()
            .map_err(io::Error::other)?;
        std::panic::set_hook(Box::new(tell_panic));
        Ok(Self(()))
    }
}

impl Drop for Diagnostics {
    fn drop(&mut self) {
        finish();
    }
}

/// Writes queued lines, for a second at most, and ends the thread, before the process ends. Later messages
/// are lost.
pub fn finish() {
    let Some(RunningWriter { shared, ended, .. }) = RUNNING.get() else { return };
    shared.stop.store(true, Ordering::Release);
    shared.wake();
    if let Ok(ended) = ended.lock() {
        let _ = ended.recv_timeout(FAREWELL_MAX + 2 * STEP);
    }
}

/// Adds the counters of the diagnostics, where they run.
pub(crate) fn add_to(blocks: &Blocks) {
    if let Some(running) = RUNNING.get() {
        blocks.add_of_process("diagnostics", Arc::clone(&running.counters) as _);
    }
}

/// Writer that `tracing` uses, process-wide as well.
static RUNNING: OnceLock<RunningWriter> = OnceLock::new();

struct RunningWriter {
    shared: Arc<DiagnosticsShared>,
    counters: Arc<DiagnosticsCounters>,
    ended: Mutex<mpsc::Receiver<()>>,
}

#[derive(Debug)]
struct DiagnosticsShared {
    queue: ArrayQueue<Vec<u8>>,
    lost: AtomicU64,
    limit: Arc<Limit>,
    writer: OnceLock<Thread>,
    stop: AtomicBool,
}

impl DiagnosticsShared {
    fn push(&self, line: &[u8]) {
        let mut kept = line[..line.len().min(LINE_BYTES_MAX)].to_vec();
        if kept.len() < line.len() {
            kept.extend_from_slice(b" [...]\n");
        }
        if self.queue.push(kept).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        self.wake();
    }

    fn wake(&self) {
        if let Some(writer) = self.writer.get() {
            writer.unpark();
        }
    }
}

/// Sink of the formatter: each line whole, in one call.
struct Lines(Arc<DiagnosticsShared>);

impl<'a> MakeWriter<'a> for Lines {
    type Writer = DiagnosticsLine<'a>;

    fn make_writer(&'a self) -> DiagnosticsLine<'a> {
        DiagnosticsLine(&self.0)
    }
}

struct DiagnosticsLine<'a>(&'a DiagnosticsShared);

impl Write for DiagnosticsLine<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Writer {
    shared: Arc<DiagnosticsShared>,
    sink: Sink,
    counters: Arc<DiagnosticsCounters>,
    lost_told: u64,
    limited_told: u64,
    /// Number of lines that the thread itself could not write.
    given_up: u64,
    stop_at: Option<Instant>,
    _done: mpsc::Sender<()>,
}

impl Writer {
    fn run(mut self) {
        // It is set here alone.
        let _ = self.shared.writer.set(std::thread::current());
        loop {
            let stop = self.stops();
            while let Some(line) = self.shared.queue.pop() {
                self.sink.put(&line);
                if self.sink.pending() >= BATCH_BYTES && !self.write() {
                    return;
                }
            }
            if !self.write() {
                return;
            }
            self.tell_what_is_missing();
            if stop && self.write() {
                return;
            }
            std::thread::park_timeout(if self.sink.pending() > 0 { Duration::ZERO } else { PERIOD });
        }
    }

    /// Writes queued lines, however long it takes; false when the end came first.
    fn write(&mut self) -> bool {
        let since = Instant::now();
        loop {
            match self.sink.step() {
                Ok(()) => {
                    self.counters.stalled.set(0);
                    return true;
                }
                Err(Trouble::Gone) => self.given_up += self.sink.discard(),
                Err(_) if since.elapsed() >= STALL_MIN => self.counters.stalled.set(1),
                Err(_) => {}
            }
            self.count();
            if self.stops() && self.stop_at.is_some_and(|at| Instant::now() >= at) {
                return false;
            }
        }
    }

    /// Writes how many lines were lost or left out, behind those that were queued before them.
    fn tell_what_is_missing(&mut self) {
        self.count();
        let (lost, limited) = (self.lost(), self.shared.limit.refused());
        if lost > self.lost_told {
            let lines = lost - self.lost_told;
            //@ level: WARN
            //@ cause: The server's standard error was not read for a while, so that it could not write its messages.
            //@ remedy: Look at what reads them (journald, a pipe). They are written again by now.
            self.say(format_args!(
                "log: {} lost while nothing read them; later ones are written again [messages-lost]",
                counted(lines, "message was", "messages were")
            ));
            self.lost_told = lost;
        }
        if limited > self.limited_told {
            let messages = limited - self.limited_told;
            //@ level: WARN
            //@ cause: One place in the server had more messages within a time than it may log.
            //@ remedy: Look at the lines before. `linerate_diagnostics_lines_limited` counts those left out.
            self.say(format_args!(
                "log: {} left out, as others of their kind had come too often; look at the lines before [messages-limited]",
                counted(messages, "message was", "messages were")
            ));
            self.limited_told = limited;
        }
    }

    /// Writes a line of its own ahead of the queue, which may be full.
    fn say(&mut self, text: std::fmt::Arguments<'_>) {
        let mut time = String::new();
        // Without the time the line still says what it has to.
        let _ = SystemTime.format_time(&mut format::Writer::new(&mut time));
        self.sink.put(format!("{time}  WARN {text}\n").as_bytes());
    }

    fn count(&self) {
        self.counters.lines_lost.set(self.lost());
        self.counters.lines_limited.set(self.shared.limit.refused());
    }

    fn lost(&self) -> u64 {
        self.given_up + self.shared.lost.load(Ordering::Relaxed)
    }

    fn stops(&mut self) -> bool {
        let stop = self.shared.stop.load(Ordering::Acquire);
        if stop {
            self.stop_at.get_or_insert_with(|| Instant::now() + FAREWELL_MAX);
        }
        stop
    }
}

/// Queues a panic as a message like others: the default hook would write it from the lane's thread, and wait.
fn tell_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let payload = panic.payload();
    let text =
        payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
    let thread = std::thread::current();
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    // Empty unless RUST_BACKTRACE asks for it.
    let backtrace = std::backtrace::Backtrace::capture();
    let backtrace = match backtrace.status() {
        std::backtrace::BacktraceStatus::Captured => format!("\n{backtrace}"),
        _ => String::new(),
    };
    let thread = thread.name().unwrap_or("unnamed");
    let text = text.unwrap_or("without a message");
    //@ cause: A defect of Linerate. A task or thread of the server has ended; what it means for clients is logged after it.
    //@ remedy: Report the line, with a backtrace if there is one (`RUST_BACKTRACE=1`).
    tracing::error!(
        thread,
        "thread {thread}: panicked at {place}: {text}; report this as a defect [thread-panicked]{backtrace}"
    );
}

/// Default filter: libraries are silent, as they log clients' actions from the lanes' threads.
///
/// HTTP/2, for example, warns of each acknowledgement that was not asked for; what matters of it comes back
/// as errors and is counted.
const FILTER: &str = "info,http2=off,hyper=off,hyper_util=off,rustls=off,axum=off,tokio=off,mio=off";
//@ limit: the server's own messages
//@ section: Logs, control and descriptors
//@ unit: line of at most {LINE_BYTES_MAX:b}
//@ all: process: {} that wait; 100 at once and 5 a second of each place in the code
//@ empty: what comes more often is left out, and while it is not read the newest are lost; others feel nothing
//@ counter: diagnostics_lines_limited, diagnostics_lines_lost, diagnostics_stalled
//@ attack: http2-pings
/// Most lines that wait.
const LINES_MAX: usize = 512;
/// Longest line in bytes; the rest is cut.
const LINE_BYTES_MAX: usize = 8 * 1024;
/// Bytes up to which lines are joined.
const BATCH_BYTES: usize = 64 * 1024;
/// Longest delay of the counters when nothing is logged.
const PERIOD: Duration = Duration::from_secs(1);
/// Shortest stall that is reported.
const STALL_MIN: Duration = Duration::from_millis(500);
