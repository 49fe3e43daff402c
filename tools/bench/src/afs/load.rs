//! The load itself: clients shared out over lanes, each with calls that follow one another.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use afs_client::fetch::{self, Plan};
use afs_client::{Cell as AfsCell, Client, Error, FileServer, Found};
use afs_wire::Fid;
use lane::layout::Layout;
use lane::runtime::RuntimeOptions;
use serde::Serialize;

use super::actor::Actor;
use super::clients::give_up;
pub use super::options::{Load, Options, Work};
use super::pattern::{Against, Check, PatternFile};
use crate::Progress;
use crate::cpu::CpuClock;
use crate::latency::{Latencies, Percentiles};
use crate::share::{Share, on_lanes};
use crate::start::{Arrival, StartLine};

/// Report of the load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Work of every client.
    pub work: Work,
    /// Clients.
    pub clients: usize,
    /// Bytes of a call.
    pub chunk: u64,
    /// Seconds before the first call: until every client is known to the server, and has its file.
    pub startup_seconds: f64,
    /// Seconds from the first call to the last.
    pub seconds: f64,
    /// Calls that ended well.
    pub calls: u64,
    /// Calls per second.
    pub calls_per_second: f64,
    /// Bytes of files sent to the server.
    pub bytes_sent: u64,
    /// Bytes of files received, those of calls that were cut off at the end among them.
    pub bytes_received: u64,
    /// Bits of files per second, both ways together.
    pub bits_per_second: f64,
    /// Calls, or files at the end, whose bytes were compared and are right.
    pub verified: u64,
    /// Failed calls by reason.
    pub errors: BTreeMap<String, u64>,
    /// Files that servers said had changed.
    pub files_broken: u64,
    /// DATA packets that the clients sent again, and how many of them needlessly.
    pub resends: u64,
    /// See [`resends`](Self::resends).
    pub resends_spurious: u64,
    /// Pieces of files that went over TCP beside their call, or came so.
    pub over_tcp: u64,
    /// Connections that were opened for them.
    pub tcp_connections: u64,
    /// Pieces that were tried over TCP and went over Rx in the end.
    pub fell_back: u64,
    /// CPU time of the server's process meanwhile, if its id was given.
    pub server_cpu_seconds: Option<f64>,
    /// CPU time of this process meanwhile.
    pub client_cpu_seconds: Option<f64>,
    /// Time from making a call to its end.
    pub latency: Percentiles,
}

/// A load that could not begin.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The lanes.
    #[error(transparent)]
    Lanes(#[from] lane::runtime::StartError),
    /// Rx on a lane.
    #[error(transparent)]
    Rx(#[from] rx_lane::StartError),
    /// The file or directory.
    #[error(transparent)]
    Target(#[from] Error),
    /// The file that is stored could not be made.
    #[error("cannot make a file to store: {0}")]
    Local(#[from] std::io::Error),
    /// The file is of the wrong kind.
    #[error("{0} is wanted for this load")]
    Kind(&'static str),
}

/// Target of the load, found before it begins.
#[derive(Clone, Debug)]
struct Target {
    server: SocketAddr,
    fid: Fid,
    length: u64,
    sums: Option<Arc<Vec<Vec<u8>>>>,
    file: Option<Arc<PatternFile>>,
}

/// Runs the load on the lanes of `layout`; `progress` counts along.
///
/// # Errors
/// [`LoadError`]; failures after that are counted in the report instead.
pub fn run(options: &Options, layout: &Layout, progress: &Arc<Progress>) -> Result<Report, LoadError> {
    let started = Instant::now();
    let look = options.clone();
    let target = lane::runtime::run_here(RuntimeOptions::default(), async move { target(&look).await })??;
    let line = StartLine::new(layout.lane_count());
    let (shared, counted, common) = (options.clone(), Arc::clone(progress), Arc::clone(&line));
    let tallies = on_lanes(layout, options.clients.count, move |share| {
        let (options, target, progress) = (shared.clone(), target.clone(), Arc::clone(&counted));
        let line = Arc::clone(&common);
        async move { LaneLoad { options, target, progress, share }.run(&line).await }
    })?;
    let mut total = Tally::default();
    for tally in tallies {
        total.merge(tally?);
    }
    let startup = line.began().map_or_else(|| started.elapsed(), |began| began - started);
    Ok(total.report(options, startup))
}

/// Finds what the load is about, and sums it up where it is compared later.
async fn target(options: &Options) -> Result<Target, LoadError> {
    let client = options.clients.start(options.clients.count)?;
    let cell = AfsCell::new(&client, options.clients.cell.clone())?;
    let found = cell.find(&options.clients.volume, &options.clients.path, true).await?;
    let directory = found.metadata.is_directory();
    match options.work {
        Work::Fetch if directory => return Err(LoadError::Kind("a file")),
        Work::Fetch if found.metadata.length == 0 => return Err(LoadError::Kind("a file with bytes in it")),
        Work::Store | Work::Mixed | Work::Names if !directory => {
            return Err(LoadError::Kind("a directory"));
        }
        _ => {}
    }
    let sums = if options.work == Work::Fetch && options.verify {
        Some(Arc::new(sums(&found, options.chunk).await?))
    } else {
        None
    };
    let (server, length) = (found.server.address(), found.metadata.length);
    cell.close().await;
    let stores = matches!(options.work, Work::Store | Work::Mixed);
    let file = match stores && options.clients.oob.threshold.is_some() {
        true => Some(Arc::new(PatternFile::make(options.file_size.max(options.chunk))?)),
        false => None,
    };
    Ok(Target { server, fid: found.fid, length, sums, file })
}

async fn sums(found: &Found, chunk: u64) -> Result<Vec<Vec<u8>>, Error> {
    let mut sums = Vec::new();
    let (whole, ignored) = (Plan::of(found.fid, &found.metadata), Cell::new(0));
    for from in (0..whole.to).step_by(usize::try_from(chunk).unwrap_or(usize::MAX)) {
        let check = Check { came: &ignored, against: Against::sum() };
        let part = Plan { from, to: (from + chunk).min(whole.to), piece: chunk, ..whole };
        fetch::in_order(&found.server, part, |offset, bytes| check.check(offset, [bytes].into_iter()))
            .await?;
        if let Against::Sum(context) = check.against {
            sums.extend(context.take().map(|context| context.finish().as_ref().to_vec()));
        }
    }
    Ok(sums)
}

struct LaneLoad {
    options: Options,
    target: Target,
    progress: Arc<Progress>,
    share: Share,
}

impl LaneLoad {
    async fn run(self, line: &Arc<StartLine>) -> Result<Tally, LoadError> {
        let tally = Rc::new(RefCell::new(Tally::default()));
        let (clients, actors) = self.begin(line.arrival(), &tally).await?;
        let began = line.wait().await;
        let cpu = (self.share.lane == 0).then(|| CpuClock::start(self.options.clients.pid));
        let resends = sent_again(&clients);
        let end = began + self.options.duration;
        let tasks: Vec<_> = actors
            .iter()
            .map(|actor| {
                let (actor, tally) = (Rc::clone(actor), Rc::clone(&tally));
                let progress = Arc::clone(&self.progress);
                lane::spawn(async move { calls(&actor, end, &tally, &progress).await })
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
        let after = sent_again(&clients);
        (done.resends, done.resends_spurious) = (after.0 - resends.0, after.1 - resends.1);
        for (_, server) in &clients {
            let used = server.out_of_band();
            done.over_tcp += used.transfers;
            done.tcp_connections += used.connections;
            done.fell_back += used.fell_back;
        }
        done.received_in_all = actors.iter().map(|actor| actor.received.get()).sum();
        self.end(&actors, &mut done).await;
        done.files_broken = clients.iter().map(|(client, _)| client.manager().heard().files).sum();
        give_up(&clients).await;
        Ok(done)
    }

    /// Starts the clients, each known to the server afterwards. One that fails is counted.
    async fn begin(
        &self,
        arrival: Arrival,
        tally: &Rc<RefCell<Tally>>,
    ) -> Result<(Vec<(Client, FileServer)>, Vec<Rc<Actor>>), LoadError> {
        let (options, target) = (&self.options, &self.target);
        let load = Rc::new(Load {
            work: options.work,
            fid: target.fid,
            length: target.length,
            chunk: options.chunk,
            file_size: options.file_size,
            verify: options.verify,
            sums: target.sums.clone(),
            run: options.clients.uuid.to_string()[..8].to_owned(),
            file: match &target.file {
                Some(file) => Some(file.open().await?),
                None => None,
            },
        });
        let mut clients = Vec::with_capacity(self.share.clients.len());
        let mut starting = Vec::new();
        for number in self.share.clients.clone() {
            let client = options.clients.start(number)?;
            let server = client.file_server(target.server)?;
            for call in 0..options.calls {
                let (server, load) = (server.clone(), Rc::clone(&load));
                let actor = (number * options.calls + call) as u64;
                starting.push(lane::spawn(async move { Actor::new(server, load, actor, call).await }));
            }
            clients.push((client, server));
        }
        let mut actors = Vec::with_capacity(starting.len());
        for actor in starting {
            match actor.await {
                Ok(actor) => actors.push(Rc::new(actor)),
                Err(error) => tally.borrow_mut().count_error(&error),
            }
        }
        drop(arrival);
        Ok((clients, actors))
    }

    /// Takes away what was made, all clients at once.
    async fn end(&self, actors: &[Rc<Actor>], done: &mut Tally) {
        let ending: Vec<_> = actors
            .iter()
            .map(|actor| {
                let actor = Rc::clone(actor);
                lane::spawn(async move { lane::time::timeout(ENDING_MAX, actor.end()).await })
            })
            .collect();
        for end in ending {
            match end.await {
                Ok(Ok(verified)) => done.verified += u64::from(verified),
                Ok(Err(error)) => done.count_error(&error),
                Err(_) => done.count("the server does not answer at the end".to_owned()),
            }
        }
    }
}

/// Calls that follow one another until `end`.
async fn calls(actor: &Actor, end: Instant, tally: &RefCell<Tally>, progress: &Progress) {
    while lane::time::now() < end {
        let asked = Instant::now();
        // A call that is not done when time is up does not count, and is not waited for; what it has brought does.
        let Ok(result) = lane::time::timeout_at(end, actor.call()).await else { return };
        match result {
            Ok(moved) => {
                let mut tally = tally.borrow_mut();
                tally.latencies.record(asked.elapsed());
                tally.calls += 1;
                tally.sent += moved.sent;
                tally.verified += u64::from(moved.verified);
                progress.count(moved.sent + moved.received);
            }
            Err(error) => {
                progress.count_error();
                tally.borrow_mut().count_error(&error);
                // A server that is down must not be hammered.
                lane::time::sleep(RETRY_DELAY).await;
            }
        }
    }
}

/// Returns how many DATA packets were sent again, and how many of them needlessly.
fn sent_again(clients: &[(Client, FileServer)]) -> (u64, u64) {
    let of = |(client, _): &(Client, FileServer)| {
        let endpoint = client.driver().endpoint();
        (endpoint.stats().resends, endpoint.stats().resends_spurious)
    };
    clients.iter().map(of).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

#[derive(Debug, Default)]
struct Tally {
    calls: u64,
    sent: u64,
    received_in_all: u64,
    verified: u64,
    errors: BTreeMap<String, u64>,
    latencies: Latencies,
    files_broken: u64,
    resends: u64,
    resends_spurious: u64,
    over_tcp: u64,
    tcp_connections: u64,
    fell_back: u64,
    server_cpu: Option<f64>,
    client_cpu: Option<f64>,
    elapsed: Duration,
}

impl Tally {
    fn count_error(&mut self, error: &Error) {
        self.count(error.to_string());
    }

    fn count(&mut self, reason: String) {
        *self.errors.entry(reason).or_default() += 1;
    }

    fn merge(&mut self, other: Self) {
        self.calls += other.calls;
        self.sent += other.sent;
        self.received_in_all += other.received_in_all;
        self.verified += other.verified;
        for (reason, count) in other.errors {
            *self.errors.entry(reason).or_default() += count;
        }
        self.latencies.merge(&other.latencies);
        self.files_broken += other.files_broken;
        self.resends += other.resends;
        self.resends_spurious += other.resends_spurious;
        self.over_tcp += other.over_tcp;
        self.tcp_connections += other.tcp_connections;
        self.fell_back += other.fell_back;
        self.server_cpu = self.server_cpu.or(other.server_cpu);
        self.client_cpu = self.client_cpu.or(other.client_cpu);
        self.elapsed = self.elapsed.max(other.elapsed);
    }

    fn report(self, options: &Options, startup: Duration) -> Report {
        let seconds = self.elapsed.as_secs_f64().max(1e-6);
        Report {
            work: options.work,
            clients: options.clients.count,
            chunk: options.chunk,
            startup_seconds: startup.as_secs_f64(),
            seconds,
            calls: self.calls,
            calls_per_second: self.calls as f64 / seconds,
            bytes_sent: self.sent,
            bytes_received: self.received_in_all,
            bits_per_second: (self.sent + self.received_in_all) as f64 * 8.0 / seconds,
            verified: self.verified,
            errors: self.errors,
            files_broken: self.files_broken,
            resends: self.resends,
            resends_spurious: self.resends_spurious,
            over_tcp: self.over_tcp,
            tcp_connections: self.tcp_connections,
            fell_back: self.fell_back,
            server_cpu_seconds: self.server_cpu,
            client_cpu_seconds: self.client_cpu,
            latency: self.latencies.percentiles(),
        }
    }
}

const RETRY_DELAY: Duration = Duration::from_millis(100);
/// Time for which a client has at the end for its own file.
const ENDING_MAX: Duration = Duration::from_secs(30);
