//! The load itself: connections shared out over lanes, each with calls that follow one another.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lane::layout::Layout;
use lane::runtime::RuntimeOptions;
use rx_lane::{Anonymous, CallError, Connection, Driver, DriverConfig};
use rxperf::{Outbound, Plan, Reply, Request, SERVICE, Work};
use serde::Serialize;

use crate::Progress;
use crate::latency::{Latencies, Percentiles};
use crate::share::on_lanes;
use crate::start::StartLine;

/// Options of the load.
#[derive(Clone, Debug)]
pub struct Options {
    /// The rxperf service.
    pub server: SocketAddr,
    /// Connections in all, shared out over the lanes.
    pub connections: usize,
    /// Calls at once on each connection, 1 to 4.
    pub calls: usize,
    /// Work of every call.
    pub work: Work,
    /// Time for which to make calls.
    pub duration: Duration,
    /// Limits, timers and socket of each lane.
    pub driver: DriverConfig,
}

/// Report of the load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Connections.
    pub connections: usize,
    /// Seconds before that: a first call made alone, every lane's packet buffers, and a small call on every
    /// connection, so that it stands.
    pub startup_seconds: f64,
    /// Seconds from the first call to the last.
    pub seconds: f64,
    /// Calls that ended well.
    pub calls: u64,
    /// Calls per second.
    pub calls_per_second: f64,
    /// Payload bytes sent to the server.
    pub bytes_sent: u64,
    /// Payload bytes received, those of calls that were cut off at the end among them.
    pub bytes_received: u64,
    /// Payload bits per second, both ways together.
    pub bits_per_second: f64,
    /// Failed calls by reason.
    pub errors: BTreeMap<String, u64>,
    /// DATA packets that this side sent again, and how many of them needlessly.
    pub resends: u64,
    /// See [`resends`](Self::resends).
    pub resends_spurious: u64,
    /// Time from opening a call to the last byte of its reply.
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
    /// The work of the calls is not possible.
    #[error(transparent)]
    Work(#[from] rxperf::Error),
    /// The first call, made alone.
    #[error("the first call to {0} failed: {1}")]
    First(SocketAddr, CallFailure),
}

/// Reason why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum CallFailure {
    /// The call.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The reply was an error.
    #[error(transparent)]
    Reply(#[from] rxperf::Error),
    /// No connection could be opened.
    #[error(transparent)]
    Connect(#[from] rx::ConnectError),
}

/// Runs the load on the lanes of `layout`; `progress` counts along.
///
/// # Errors
/// [`LoadError`]; failures after the first call are counted in the report instead.
pub fn run(options: &Options, layout: &Layout, progress: &Arc<Progress>) -> Result<Report, LoadError> {
    let started = Instant::now();
    let plan = options.work.plan()?;
    first(options, plan)?;
    let line = StartLine::new(layout.lane_count());
    let (shared, progress, common) = (options.clone(), Arc::clone(progress), Arc::clone(&line));
    let tallies = on_lanes(layout, options.connections, move |share| {
        let (options, progress, line) = (shared.clone(), Arc::clone(&progress), Arc::clone(&common));
        async move { run_lane(options, plan, progress, share.clients.len(), &line).await }
    })?;
    let mut total = Tally::default();
    for tally in tallies {
        total.merge(tally?);
    }
    let startup = line.began().map_or_else(|| started.elapsed(), |began| began - started);
    Ok(total.report(options, plan, startup))
}

/// Makes one call, to fail early and clearly.
fn first(options: &Options, plan: Plan) -> Result<(), LoadError> {
    let options = options.clone();
    lane::runtime::run_here(RuntimeOptions::default(), async move {
        let driver = bind(&options)?;
        let call = async {
            let connection = driver.connect(options.server, SERVICE, &Anonymous)?;
            call(&connection, &options.work, plan, &Cell::new(0)).await
        };
        call.await.map_err(|failure| LoadError::First(options.server, failure))
    })?
}

fn bind(options: &Options) -> Result<Driver, rx_lane::StartError> {
    let any: SocketAddr = match options.server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    Driver::bind(any, options.driver.clone())
}

#[derive(Debug, Default)]
struct Tally {
    calls: u64,
    errors: BTreeMap<String, u64>,
    latencies: Latencies,
    bytes_cut_off: u64,
    resends: u64,
    resends_spurious: u64,
    elapsed: Duration,
}

async fn run_lane(
    options: Options,
    plan: Plan,
    progress: Arc<Progress>,
    connections: usize,
    line: &Arc<StartLine>,
) -> Result<Tally, LoadError> {
    let arrival = line.arrival();
    let driver = bind(&options)?;
    let tally = Rc::new(RefCell::new(Tally::default()));
    let connections = connect(&driver, options.server, connections, &tally).await?;
    drop(arrival);
    let began = line.wait().await;
    let sent_again = |driver: &Driver| {
        let endpoint = driver.endpoint();
        (endpoint.stats().resends, endpoint.stats().resends_spurious)
    };
    let (resends, spurious) = sent_again(&driver);
    let end = began + options.duration;
    let load = Rc::new(LaneLoad { options, plan, progress, tally });
    let mut tasks = Vec::new();
    for connection in connections {
        for _ in 0..load.options.calls {
            let (load, connection) = (Rc::clone(&load), connection.clone());
            tasks.push(lane::spawn(async move { load.calls(&connection, end).await }));
        }
    }
    for task in tasks {
        task.await;
    }
    let mut tally = load.tally.take();
    tally.elapsed = lane::time::now() - began;
    let (resends_after, spurious_after) = sent_again(&driver);
    tally.resends = resends_after - resends;
    tally.resends_spurious = spurious_after - spurious;
    Ok(tally)
}

/// Opens connections and lets each make a call as small as can be: the server knows it then, and has its client's
/// address proved. One that fails is counted, and tried again by the load.
async fn connect(
    driver: &Driver,
    server: SocketAddr,
    connections: usize,
    tally: &Rc<RefCell<Tally>>,
) -> Result<Vec<Connection>, LoadError> {
    let plan = SMALL_WORK.plan()?;
    let mut all = Vec::with_capacity(connections);
    let mut tasks = Vec::with_capacity(connections);
    for _ in 0..connections {
        let connection = driver
            .connect(server, SERVICE, &Anonymous)
            .map_err(|full| LoadError::First(server, full.into()))?;
        all.push(connection.clone());
        let tally = Rc::clone(tally);
        tasks.push(lane::spawn(async move {
            if let Err(failure) = call(&connection, &SMALL_WORK, plan, &Cell::new(0)).await {
                tally.borrow_mut().count_error(&failure);
            }
        }));
    }
    for task in tasks {
        task.await;
    }
    Ok(all)
}

/// State that the calls of one lane share.
struct LaneLoad {
    options: Options,
    plan: Plan,
    progress: Arc<Progress>,
    tally: Rc<RefCell<Tally>>,
}

impl LaneLoad {
    /// Calls that follow one another until `end`.
    async fn calls(&self, connection: &Connection, end: Instant) {
        while lane::time::now() < end {
            let asked = Instant::now();
            // A call that is not done when time is up does not count, and is not waited for; what it has brought does: a
            // thousand calls of a megabyte under way are more than a second's work.
            let read = Cell::new(0);
            let call = call(connection, &self.options.work, self.plan, &read);
            let Ok(result) = lane::time::timeout_at(end, call).await else {
                self.tally.borrow_mut().bytes_cut_off += read.get();
                return;
            };
            match result {
                Ok(()) => {
                    let mut tally = self.tally.borrow_mut();
                    tally.latencies.record(asked.elapsed());
                    tally.calls += 1;
                    self.progress.count(self.plan.from_client + self.plan.to_client);
                }
                Err(failure) => {
                    self.progress.count_error();
                    self.tally.borrow_mut().count_error(&failure);
                    // A server that is down must not be hammered.
                    lane::time::sleep(RETRY_DELAY).await;
                }
            }
        }
    }
}

/// Makes a call; `read` tells how much of its reply has come, should it be cut off.
async fn call(connection: &Connection, work: &Work, plan: Plan, read: &Cell<u64>) -> Result<(), CallFailure> {
    let mut outbound = Outbound::request(&Request::new(work.clone()))?;
    let mut reply = Reply::new(&plan);
    let mut call = connection.call().await?;
    call.write_with(outbound.remaining(), |room| {
        outbound.fill(room);
    })
    .await?;
    call.finish().await?;
    let mut refused = Ok(());
    loop {
        let count = call
            .read(|part| refused = std::mem::replace(&mut refused, Ok(())).and(reply.handle(part)))
            .await?;
        read.set(read.get() + count as u64);
        if count == 0 || refused.is_err() {
            break;
        }
    }
    refused?;
    Ok(reply.finish()?)
}

impl Tally {
    fn count_error(&mut self, failure: &CallFailure) {
        *self.errors.entry(failure.to_string()).or_default() += 1;
    }

    fn merge(&mut self, other: Self) {
        self.calls += other.calls;
        for (reason, count) in other.errors {
            *self.errors.entry(reason).or_default() += count;
        }
        self.latencies.merge(&other.latencies);
        self.bytes_cut_off += other.bytes_cut_off;
        self.resends += other.resends;
        self.resends_spurious += other.resends_spurious;
        self.elapsed = self.elapsed.max(other.elapsed);
    }

    fn report(self, options: &Options, plan: Plan, startup: Duration) -> Report {
        let seconds = self.elapsed.as_secs_f64().max(1e-6);
        let bytes_sent = self.calls * plan.from_client;
        let bytes_received = self.calls * plan.to_client + self.bytes_cut_off;
        Report {
            connections: options.connections,
            startup_seconds: startup.as_secs_f64(),
            seconds,
            calls: self.calls,
            calls_per_second: self.calls as f64 / seconds,
            bytes_sent,
            bytes_received,
            bits_per_second: (bytes_sent + bytes_received) as f64 * 8.0 / seconds,
            errors: self.errors,
            resends: self.resends,
            resends_spurious: self.resends_spurious,
            latency: self.latencies.percentiles(),
        }
    }
}

const RETRY_DELAY: Duration = Duration::from_millis(100);
/// Work of a connection's first call.
const SMALL_WORK: Work = Work::Rpc { send: 1, receive: 1 };
