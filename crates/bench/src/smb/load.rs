//! The load itself: sessions shared out over lanes, each with requests under way at once.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lane::layout::Layout;
use lane::runtime::{RuntimeOptions, run_here};
use serde::Serialize;
use smb_auth::Credentials;
use smb_client::{Channels, Error, Sealing, Signing, Tree};
use smb_wire::{Dialect, Guid};

use super::actor::{Failure, look, sums};
use super::lane_load::LaneLoad;
use super::session::{Board, Session, new_client};
use crate::Progress;
use crate::latency::{Latencies, Percentiles};
use crate::share::on_lanes;
use crate::start::StartLine;

/// Work of every session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Reads one file from start to end, over and over.
    Read,
    /// Reads one file here and there.
    Random,
    /// Writes files of its own, over and over.
    Write,
    /// Opens one file and closes it.
    OpenClose,
    /// Of ten requests seven ask for information of a file of its own, two read it and one writes it.
    Mixed,
    /// Nothing, but for one ECHO at the end.
    Idle,
}

/// Options of the load.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server.
    pub server: SocketAddr,
    /// Addresses of its further interfaces: the channels of a session go to these in turn, the first to the
    /// first.
    pub interfaces: Vec<SocketAddr>,
    /// All sessions are those of one client.
    pub one_client: bool,
    /// `\\server\share`.
    pub unc: String,
    /// In it a file to read or open, or a directory to write in.
    pub name: String,
    /// Credentials of the user.
    pub credentials: Credentials,
    /// Work of every session.
    pub work: Work,
    /// Sessions in all, shared out over the lanes.
    pub sessions: usize,
    /// Connections of each session.
    pub channels: usize,
    /// Requests under way on each connection.
    pub depth: usize,
    /// Bytes of a request.
    pub size: u32,
    /// Bytes that are written before it begins at the start again.
    pub file_size: u64,
    /// Time for which to ask.
    pub duration: Duration,
    /// Compare all bytes with what they were at first, or with what was written.
    pub verify: bool,
    /// Whether to sign.
    pub signing: Signing,
    /// Whether to encrypt.
    pub sealing: Sealing,
    /// The newest dialect that is offered.
    pub dialect_max: Dialect,
    /// Interval at which each session has one of its channels killed, which is bound again.
    pub kill_every: Option<Duration>,
    /// Process whose CPU time is told, which is the server's.
    pub pid: Option<u32>,
}

impl Options {
    /// A session's channels on a lane. Where channels are killed, none is waited for in vain.
    pub(super) fn channels_of(&self, first: Tree) -> Channels {
        Channels::new(first, self.kill_every.map(|_| CHANNEL_PATIENCE))
    }

    /// Returns where this channel of a session goes to.
    pub(super) fn address_of(&self, channel: usize) -> SocketAddr {
        match self.interfaces.len() {
            0 => self.server,
            count => self.interfaces[channel % count],
        }
    }
}

/// Report of the load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Work of every session.
    pub work: Work,
    /// Sessions that signed in.
    pub sessions: usize,
    /// Connections of each.
    pub channels: usize,
    /// Requests under way on each connection.
    pub depth: usize,
    /// Bytes of a request.
    pub size: u32,
    /// Seconds until all had signed in.
    pub startup_seconds: f64,
    /// Seconds of the sign-in or binding that took longest.
    pub slowest_sign_in_seconds: f64,
    /// Seconds from the first request to the last.
    pub seconds: f64,
    /// Requests, or pairs of open and close, that ended well.
    pub requests: u64,
    /// Of them a second.
    pub requests_per_second: f64,
    /// Bytes of files written.
    pub bytes_sent: u64,
    /// Bytes of files read.
    pub bytes_received: u64,
    /// Bits of files a second, both ways together.
    pub bits_per_second: f64,
    /// Requests, or files at the end, whose bytes were compared and are right.
    pub verified: u64,
    /// Failed requests by reason.
    pub errors: BTreeMap<String, u64>,
    /// Answers with a wrong signature, or none where one must be.
    pub wrong_signatures: u64,
    /// Channels that were killed.
    pub kills: u64,
    /// Requests that went again by another channel.
    pub replays: u64,
    /// CPU time of the server's process meanwhile, if it was told which.
    pub server_cpu_seconds: Option<f64>,
    /// CPU time of this process meanwhile.
    pub client_cpu_seconds: Option<f64>,
    /// From a request to its answer.
    pub latency: Percentiles,
}

/// A load that could not begin.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The lanes.
    #[error(transparent)]
    Lanes(#[from] lane::runtime::StartError),
    /// The first session, or the file.
    #[error(transparent)]
    Target(#[from] Error),
    /// The file is of the wrong kind.
    #[error("{0} is wanted for this load")]
    Kind(&'static str),
}

/// State that all actors of a lane share.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) work: Work,
    pub(super) name: String,
    pub(super) length: u64,
    pub(super) size: u32,
    pub(super) file_size: u64,
    pub(super) verify: bool,
    /// SHA-256 of each piece as it was at first.
    pub(super) sums: Option<Arc<Vec<Vec<u8>>>>,
    /// Tells the names of one load from those of another.
    pub(super) run: u64,
}

/// Target of the load, found before it begins.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) length: u64,
    pub(super) sums: Option<Arc<Vec<Vec<u8>>>>,
    pub(super) run: u64,
    /// GUID of the client, where all sessions are one client's.
    pub(super) client: Guid,
    pub(super) board: Board,
}

/// Runs the load on the lanes of `layout`; `progress` counts along.
///
/// # Errors
/// [`LoadError`]; failures after that are counted in the report instead.
pub fn run(options: &Options, layout: &Layout, progress: &Arc<Progress>) -> Result<Report, LoadError> {
    let look = options.clone();
    let target = run_here(RuntimeOptions::default(), async move { target(&look).await })??;
    let started = Instant::now();
    let line = StartLine::new(layout.lane_count());
    let finish = StartLine::new(layout.lane_count());
    let (shared, counted, common) = (options.clone(), Arc::clone(progress), (line.clone(), finish));
    let tallies = on_lanes(layout, options.sessions, move |share| {
        let (options, target, progress) = (shared.clone(), target.clone(), Arc::clone(&counted));
        let (line, finish) = common.clone();
        async move { LaneLoad { options, target, progress, share }.run(&line, &finish).await }
    })?;
    let mut total = Tally::default();
    tallies.into_iter().for_each(|tally| total.merge(tally));
    let startup = line.began().map_or_else(|| started.elapsed(), |began| began - started);
    Ok(total.report(options, startup))
}

/// Finds what the load is about, and sums it up where it is compared later.
async fn target(options: &Options) -> Result<Target, LoadError> {
    let client = new_client();
    let session = Session::open(options, client).await?;
    let channels = &session.channels;
    let mut target = Target { length: 0, sums: None, run: run_number(), client, board: Board::default() };
    if options.work != Work::Idle {
        let (length, is_directory) = look(channels, &options.name).await?;
        let reads = matches!(options.work, Work::Read | Work::Random);
        match options.work {
            Work::Write | Work::Mixed if !is_directory => return Err(LoadError::Kind("a directory")),
            Work::OpenClose if is_directory => return Err(LoadError::Kind("a file")),
            _ if reads && (is_directory || length < u64::from(options.size)) => {
                return Err(LoadError::Kind("a file as long as a request at least"));
            }
            _ => {}
        }
        target.length = length;
        if reads && options.verify {
            target.sums = Some(Arc::new(sums(channels, &options.name, options.size).await?));
        }
    }
    session.end().await;
    Ok(target)
}

/// Of this load, for the names of what it makes.
fn run_number() -> u64 {
    let since = lane::time::wall_clock().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) sessions: usize,
    pub(super) requests: u64,
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) verified: u64,
    pub(super) wrong_signatures: u64,
    pub(super) kills: u64,
    pub(super) replays: u64,
    pub(super) errors: BTreeMap<String, u64>,
    pub(super) latencies: Latencies,
    pub(super) slowest_sign_in: Duration,
    pub(super) server_cpu: Option<f64>,
    pub(super) client_cpu: Option<f64>,
    pub(super) elapsed: Duration,
}

impl Tally {
    pub(super) fn count_failure(&mut self, failure: &Failure) {
        self.count(failure.to_string());
    }

    pub(super) fn count(&mut self, reason: String) {
        *self.errors.entry(reason).or_default() += 1;
    }

    pub(super) fn count_sign_in<T>(&mut self, took: Duration, done: Option<Result<T, Error>>) -> Option<T> {
        self.slowest_sign_in = self.slowest_sign_in.max(took);
        match done {
            Some(Ok(made)) => return Some(made),
            Some(Err(error)) => self.count(error.to_string()),
            None => self.count("no answer to a sign-in".to_owned()),
        }
        None
    }

    fn merge(&mut self, other: Self) {
        self.slowest_sign_in = self.slowest_sign_in.max(other.slowest_sign_in);
        self.sessions += other.sessions;
        self.requests += other.requests;
        self.sent += other.sent;
        self.received += other.received;
        self.verified += other.verified;
        self.wrong_signatures += other.wrong_signatures;
        self.kills += other.kills;
        self.replays += other.replays;
        for (reason, count) in other.errors {
            *self.errors.entry(reason).or_default() += count;
        }
        self.latencies.merge(&other.latencies);
        self.server_cpu = self.server_cpu.or(other.server_cpu);
        self.client_cpu = self.client_cpu.or(other.client_cpu);
        self.elapsed = self.elapsed.max(other.elapsed);
    }

    fn report(self, options: &Options, startup: Duration) -> Report {
        let seconds = self.elapsed.as_secs_f64().max(1e-6);
        Report {
            work: options.work,
            sessions: self.sessions,
            channels: options.channels,
            depth: options.depth,
            size: options.size,
            startup_seconds: startup.as_secs_f64(),
            slowest_sign_in_seconds: self.slowest_sign_in.as_secs_f64(),
            seconds,
            requests: self.requests,
            requests_per_second: self.requests as f64 / seconds,
            bytes_sent: self.sent,
            bytes_received: self.received,
            bits_per_second: (self.sent + self.received) as f64 * 8.0 / seconds,
            verified: self.verified,
            errors: self.errors,
            wrong_signatures: self.wrong_signatures,
            kills: self.kills,
            replays: self.replays,
            server_cpu_seconds: self.server_cpu,
            client_cpu_seconds: self.client_cpu,
            latency: self.latencies.percentiles(),
        }
    }
}

/// As long a session that has lost all of its channels on a lane waits for another, and a request for its answer.
const CHANNEL_PATIENCE: Duration = Duration::from_secs(20);
