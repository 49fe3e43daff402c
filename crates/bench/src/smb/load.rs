//! The load itself: sessions shared out over lanes, each with requests under way at once.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lane::layout::Layout;
use lane::runtime::{RuntimeOptions, run_here};
use serde::Serialize;
use smb_auth::Credentials;
use smb_client::{Error, Sealing, Signing, Tree};
use smb_wire::{Dialect, Guid};

use super::actor::{Actor, Failure, look, sums};
use super::session::{Board, Session, new_client};
use crate::Progress;
use crate::cpu::CpuClock;
use crate::latency::{Latencies, Percentiles};
use crate::share::{Share, on_lanes};
use crate::start::StartLine;

/// What every session does.
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

/// What to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server.
    pub server: SocketAddr,
    /// Where its further interfaces are: the channels of a session go to these in turn, the first to the first.
    pub interfaces: Vec<SocketAddr>,
    /// All sessions are those of one client.
    pub one_client: bool,
    /// `\\server\share`.
    pub unc: String,
    /// In it a file to read or open, or a directory to write in.
    pub name: String,
    /// Who signs in.
    pub credentials: Credentials,
    /// What every session does.
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
    /// How long to ask.
    pub duration: Duration,
    /// Compare all bytes with what they were at first, or with what was written.
    pub verify: bool,
    /// Whether to sign.
    pub signing: Signing,
    /// Whether to encrypt.
    pub sealing: Sealing,
    /// The newest dialect that is offered.
    pub dialect_max: Dialect,
    /// Process whose CPU time is told, which is the server's.
    pub pid: Option<u32>,
}

impl Options {
    /// Where this channel of a session goes to.
    pub(super) fn address_of(&self, channel: usize) -> SocketAddr {
        match self.interfaces.len() {
            0 => self.server,
            count => self.interfaces[channel % count],
        }
    }
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// What every session did.
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
    /// It is of the wrong kind.
    #[error("{0} is wanted for this load")]
    Kind(&'static str),
}

/// What all actors of a lane share.
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

/// What the load is about, found before it begins.
#[derive(Clone)]
struct Target {
    length: u64,
    sums: Option<Arc<Vec<Vec<u8>>>>,
    run: u64,
    /// Who asks, where all sessions are one client's.
    client: Guid,
    board: Board,
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
    let tree = &session.tree;
    let mut target = Target { length: 0, sums: None, run: run_number(), client, board: Board::default() };
    if options.work != Work::Idle {
        let (length, is_directory) = look(tree, &options.name).await?;
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
            target.sums = Some(Arc::new(sums(tree, &options.name, options.size).await?));
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

struct LaneLoad {
    options: Options,
    target: Target,
    progress: Arc<Progress>,
    share: Share,
}

impl LaneLoad {
    async fn run(self, line: &Arc<StartLine>, finish: &Arc<StartLine>) -> Tally {
        let finished = finish.arrival();
        let tally = Rc::new(RefCell::new(Tally::default()));
        let arrival = line.arrival();
        let sessions = self.sign_in(&tally).await;
        let trees = self.trees(&sessions, &tally).await;
        let actors = self.actors(&trees, &tally).await;
        drop(arrival);
        let began = line.wait().await;
        let cpu = (self.share.lane == 0).then(|| CpuClock::start(self.options.pid));
        let end = began + self.options.duration;
        if self.options.work == Work::Idle {
            lane::time::sleep_until(end).await;
        }
        let idle = self.options.work == Work::Idle;
        let tasks: Vec<_> = actors
            .iter()
            .map(|actor| {
                let (actor, tally) = (Rc::clone(actor), Rc::clone(&tally));
                let progress = Arc::clone(&self.progress);
                lane::spawn(async move {
                    if idle {
                        once(&actor, &tally, &progress).await;
                    } else {
                        calls(&actor, end, &tally, &progress).await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
        let mut done = tally.take();
        done.elapsed = lane::time::now() - began;
        if let Some(cpu) = cpu {
            (done.server_cpu, done.client_cpu) = cpu.spent();
        }
        for actor in &actors {
            match lane::time::timeout(ENDING_MAX, actor.end()).await {
                Ok(Ok(verified)) => done.verified += u64::from(verified),
                Ok(Err(failure)) => done.count(failure.to_string()),
                Err(_) => done.count("the server does not answer at the end".to_owned()),
            }
        }
        for (_, tree) in &trees {
            let counters = tree.channel().connection().counters();
            done.wrong_signatures +=
                counters.wrong_signatures.get() + counters.unsigned.get() + counters.unsealed.get();
        }
        // A session ends when no lane uses it any more.
        drop(finished);
        finish.wait().await;
        for (_, session) in &sessions {
            let _ = lane::time::timeout(FAREWELL, session.end()).await;
        }
        done
    }

    /// Signs in, so many at a time that none is refused for the others' sake. One that fails is counted.
    async fn sign_in(&self, tally: &RefCell<Tally>) -> Vec<(usize, Session)> {
        let mut sessions = Vec::with_capacity(self.share.clients.len());
        let numbers: Vec<usize> = self.share.clients.clone().collect();
        // One client's come all at once: that is what is looked at.
        let at_once = if self.options.one_client { usize::MAX } else { SIGN_INS_AT_ONCE };
        for some in numbers.chunks(at_once) {
            let starting: Vec<_> = some
                .iter()
                .map(|number| {
                    let (options, number) = (self.options.clone(), *number);
                    let client = if options.one_client { self.target.client } else { new_client() };
                    lane::spawn(async move { (number, timed(Session::open(&options, client)).await) })
                })
                .collect();
            for one in starting {
                let (number, (took, opened)) = one.await;
                let session = tally.borrow_mut().count_sign_in(took, opened);
                self.target.board.tell(number, session.as_ref());
                sessions.extend(session.map(|session| (number, session)));
            }
        }
        tally.borrow_mut().sessions = sessions.len();
        sessions
    }

    /// The share over each channel that this lane has, of whichever session: the first channel is on the lane where its session
    /// signed in, each other on the lane behind the one before.
    async fn trees(&self, sessions: &[(usize, Session)], tally: &RefCell<Tally>) -> Vec<(usize, Tree)> {
        let channels = self.options.channels;
        let mut trees: Vec<_> =
            sessions.iter().map(|(number, session)| (number * channels, session.tree.clone())).collect();
        let mut binding = Vec::new();
        for number in 0..if channels > 1 { self.options.sessions } else { 0 } {
            let first = self.share.lane_of(number, self.options.sessions);
            for channel in (1..channels).filter(|at| (first + at) % self.share.lanes == self.share.lane) {
                let (options, board) = (self.options.clone(), self.target.board.clone());
                binding.push(lane::spawn(async move {
                    (number * channels + channel, timed(board.bind(&options, number, channel)).await)
                }));
            }
        }
        for one in binding {
            let (number, (took, bound)) = one.await;
            let bound = tally.borrow_mut().count_sign_in(took, bound).flatten();
            trees.extend(bound.map(|tree| (number, tree)));
        }
        trees
    }

    async fn actors(&self, trees: &[(usize, Tree)], tally: &RefCell<Tally>) -> Vec<Rc<Actor>> {
        let (options, target) = (&self.options, &self.target);
        let load = Rc::new(Load {
            work: options.work,
            name: options.name.clone(),
            length: target.length,
            size: options.size,
            file_size: options.file_size.max(options.size.into()),
            verify: options.verify,
            sums: target.sums.clone(),
            run: target.run,
        });
        let depth = if options.work == Work::Idle { 1 } else { options.depth };
        let of = (options.sessions * options.channels * depth) as u64;
        let mut starting = Vec::new();
        for (number, tree) in trees {
            for at in 0..depth {
                let (tree, load, actor) = (tree.clone(), Rc::clone(&load), (number * depth + at) as u64);
                starting.push(lane::spawn(async move { Actor::new(tree, load, actor, of).await }));
            }
        }
        let mut actors = Vec::with_capacity(starting.len());
        for actor in starting {
            match actor.await {
                Ok(actor) => actors.push(Rc::new(actor)),
                Err(error) => tally.borrow_mut().count(error.to_string()),
            }
        }
        actors
    }
}

/// How long a sign-in took, and what came of it; `None` is no answer.
async fn timed<T>(
    signing_in: impl Future<Output = Result<T, Error>>,
) -> (Duration, Option<Result<T, Error>>) {
    let began = Instant::now();
    let done = lane::time::timeout(SIGN_IN_MAX, signing_in).await.ok();
    (began.elapsed(), done)
}

/// Requests that follow one another until `end`.
async fn calls(actor: &Actor, end: Instant, tally: &RefCell<Tally>, progress: &Progress) {
    while lane::time::now() < end {
        // A request under way when time is up is waited for: what is measured ends with it.
        if !once(actor, tally, progress).await {
            // A server that is down must not be hammered.
            lane::time::sleep(RETRY_DELAY).await;
        }
    }
}

async fn once(actor: &Actor, tally: &RefCell<Tally>, progress: &Progress) -> bool {
    let asked = Instant::now();
    match lane::time::timeout(ANSWER_MAX, actor.call()).await {
        Ok(Ok(moved)) => {
            let mut tally = tally.borrow_mut();
            tally.latencies.record(asked.elapsed());
            tally.requests += 1;
            tally.sent += moved.sent;
            tally.received += moved.received;
            tally.verified += u64::from(moved.verified);
            progress.count(moved.sent + moved.received);
            return true;
        }
        Ok(Err(failure)) => tally.borrow_mut().count_failure(&failure),
        Err(_) => tally.borrow_mut().count("no answer".to_owned()),
    }
    progress.count_error();
    false
}

#[derive(Debug, Default)]
struct Tally {
    sessions: usize,
    requests: u64,
    sent: u64,
    received: u64,
    verified: u64,
    wrong_signatures: u64,
    errors: BTreeMap<String, u64>,
    latencies: Latencies,
    slowest_sign_in: Duration,
    server_cpu: Option<f64>,
    client_cpu: Option<f64>,
    elapsed: Duration,
}

impl Tally {
    fn count_failure(&mut self, failure: &Failure) {
        self.count(failure.to_string());
    }

    fn count(&mut self, reason: String) {
        *self.errors.entry(reason).or_default() += 1;
    }

    fn count_sign_in<T>(&mut self, took: Duration, done: Option<Result<T, Error>>) -> Option<T> {
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
            server_cpu_seconds: self.server_cpu,
            client_cpu_seconds: self.client_cpu,
            latency: self.latencies.percentiles(),
        }
    }
}

const RETRY_DELAY: Duration = Duration::from_millis(100);
/// Sign-ins under way on a lane.
const SIGN_INS_AT_ONCE: usize = 64;
const SIGN_IN_MAX: Duration = Duration::from_secs(60);
/// How long an answer is waited for.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// How long an actor has at the end for its own file.
const ENDING_MAX: Duration = Duration::from_secs(60);
/// How long the answer to a good-bye is waited for.
const FAREWELL: Duration = Duration::from_secs(2);
