//! The load itself: connections shared out over lanes, counted while they run, summed up at the end.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::digest;
use lane::layout::Layout;
use lane::runtime::{RuntimeOptions, StartError};
use rustls::ClientConfig;
use serde::Serialize;
use tls::{ClientTrust, Versions, client_config};

use super::client::Connection;
use super::error::ClientError;
use super::target::Target;
use crate::Progress;
use crate::latency::{Latencies, Percentiles};
use crate::share::on_lanes;

/// Options of the load.
#[derive(Clone, Debug)]
pub struct Options {
    /// Target of the requests.
    pub target: Target,
    /// Connections in all, shared out over the lanes.
    pub connections: usize,
    /// Time for which to ask.
    pub duration: Duration,
    /// Set to compare every body with the first.
    pub verify: bool,
    /// TLS servers that are trusted.
    pub trust: ClientTrust,
    /// A new connection for every request.
    pub reconnect: bool,
}

/// Report of the load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Connections asked on.
    pub connections: usize,
    /// Seconds from the first request to the last answer counted.
    pub seconds: f64,
    /// Answers.
    pub requests: u64,
    /// Answers per second.
    pub requests_per_second: f64,
    /// Body bits per second.
    pub bits_per_second: f64,
    /// Body bytes.
    pub body_bytes: u64,
    /// Answers whose status was not 200.
    pub other_statuses: u64,
    /// Bodies compared with the first; 0 without verification.
    pub verified: u64,
    /// Failed requests by reason.
    pub errors: std::collections::BTreeMap<String, u64>,
    /// SHA-256 of the body, hexadecimal; all verified bodies are the same.
    pub body_sha256: Option<String>,
    /// Time from the request to the last byte of the answer.
    pub latency: Percentiles,
}

/// A load that could not begin.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The lanes.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The TLS configuration.
    #[error(transparent)]
    Tls(#[from] tls::ConfigError),
    /// The first request, made alone to learn the body.
    #[error("the first request failed: {0}")]
    First(ClientError),
    /// The first answer.
    #[error("the first answer had status {0}, not 200")]
    Status(u16),
}

/// Runs the load on the lanes of `layout`; `progress` counts along.
///
/// # Errors
/// [`LoadError`]; failures after the first request are counted in the report instead.
pub fn run(options: &Options, layout: &Layout, progress: &Arc<Progress>) -> Result<Report, LoadError> {
    let tls = match options.target.tls {
        true => Some(Arc::new(client_config(&options.trust, Versions::default(), &[tls::Alpn::Http11])?)),
        false => None,
    };
    let reference = Arc::new(first(options, tls.clone())?);
    let shared = options.clone();
    let expected = options.verify.then(|| Arc::clone(&reference));
    let progress = Arc::clone(progress);
    let tallies = on_lanes(layout, options.connections, move |share| {
        let lane = LaneLoad {
            options: shared.clone(),
            tls: tls.clone(),
            expected: expected.clone(),
            progress: Arc::clone(&progress),
            tally: Rc::default(),
        };
        async move { lane.run(share.clients.len()).await }
    })?;
    let mut total = Tally::default();
    tallies.into_iter().for_each(|tally| total.merge(tally));
    Ok(total.report(options, &reference))
}

/// One lane's share.
struct LaneLoad {
    options: Options,
    tls: Option<Arc<ClientConfig>>,
    expected: Option<Arc<Reference>>,
    progress: Arc<Progress>,
    tally: Rc<RefCell<Tally>>,
}

/// The body fetched first.
#[derive(Debug)]
struct Reference {
    body: Vec<u8>,
}

#[derive(Debug, Default)]
struct Tally {
    requests: u64,
    body_bytes: u64,
    other_statuses: u64,
    verified: u64,
    errors: std::collections::BTreeMap<String, u64>,
    latencies: Latencies,
    elapsed: Duration,
}

impl LaneLoad {
    async fn run(self, connections: usize) -> Tally {
        let began = lane::time::now();
        let end = began + self.options.duration;
        let request: Arc<[u8]> = self.options.target.request().into();
        let tally = Rc::clone(&self.tally);
        let this = Rc::new(self);
        let tasks: Vec<_> = (0..connections)
            .map(|_| {
                let (this, request) = (Rc::clone(&this), Arc::clone(&request));
                lane::spawn(async move { this.connection(end, request).await })
            })
            .collect();
        for task in tasks {
            task.await;
        }
        let mut tally = tally.take();
        tally.elapsed = lane::time::now() - began;
        tally
    }

    async fn connection(&self, end: Instant, request: Arc<[u8]>) {
        let mut open = None;
        while lane::time::now() < end {
            // What is not answered when time is up does not count, and is not waited for.
            let Ok(result) = lane::time::timeout_at(end, self.ask(&mut open, &request)).await else { return };
            if let Err(error) = result {
                open = None;
                self.progress.count_error();
                *self.tally.borrow_mut().errors.entry(error.to_string()).or_default() += 1;
                // A server that is down must not be hammered.
                lane::time::sleep(RETRY_DELAY).await;
            }
        }
    }

    async fn ask(&self, open: &mut Option<Connection>, request: &Arc<[u8]>) -> Result<(), ClientError> {
        let connection = match open {
            Some(connection) => connection,
            None => {
                let (target, tls) = (&self.options.target, self.tls.as_ref());
                open.insert(Connection::open(target, tls, Arc::clone(request)).await?)
            }
        };
        let asked = Instant::now();
        let mut seen = 0;
        let expected = self.expected.as_deref();
        let answer = connection.ask(|part| check(expected, &mut seen, part)).await?;
        if expected.is_some_and(|reference| reference.body.len() != seen) {
            return Err(ClientError::WrongBody);
        }
        let mut tally = self.tally.borrow_mut();
        tally.latencies.record(asked.elapsed());
        tally.requests += 1;
        tally.body_bytes += answer.body_bytes;
        tally.other_statuses += u64::from(answer.status != 200);
        tally.verified += u64::from(expected.is_some());
        self.progress.count(answer.body_bytes);
        if !answer.keep_alive || self.options.reconnect {
            *open = None;
        }
        Ok(())
    }
}

impl Tally {
    fn merge(&mut self, other: Self) {
        self.requests += other.requests;
        self.body_bytes += other.body_bytes;
        self.other_statuses += other.other_statuses;
        self.verified += other.verified;
        for (reason, count) in other.errors {
            *self.errors.entry(reason).or_default() += count;
        }
        self.latencies.merge(&other.latencies);
        self.elapsed = self.elapsed.max(other.elapsed);
    }

    fn report(self, options: &Options, reference: &Reference) -> Report {
        let seconds = self.elapsed.as_secs_f64().max(1e-6);
        let hex = || {
            digest::digest(&digest::SHA256, &reference.body)
                .as_ref()
                .iter()
                .map(|b| format!("{b:02x}"))
                .collect()
        };
        Report {
            connections: options.connections,
            seconds,
            requests: self.requests,
            requests_per_second: self.requests as f64 / seconds,
            bits_per_second: self.body_bytes as f64 * 8.0 / seconds,
            body_bytes: self.body_bytes,
            other_statuses: self.other_statuses,
            verified: self.verified,
            errors: self.errors,
            body_sha256: options.verify.then(hex),
            latency: self.latencies.percentiles(),
        }
    }
}

/// Fetches the body once: the reference for all others, and an early end when no server answers.
fn first(options: &Options, tls: Option<Arc<ClientConfig>>) -> Result<Reference, LoadError> {
    let options = options.clone();
    let fetched = lane::runtime::run_here(RuntimeOptions::default(), async move {
        let request: Arc<[u8]> = options.target.request().into();
        let mut connection = Connection::open(&options.target, tls.as_ref(), request).await?;
        let mut body = Vec::new();
        let keep = options.verify;
        let answer = connection
            .ask(|part| {
                if keep {
                    body.extend_from_slice(part);
                }
                Ok(())
            })
            .await?;
        Ok::<_, ClientError>((answer.status, body))
    })?;
    match fetched.map_err(LoadError::First)? {
        (200, body) => Ok(Reference { body }),
        (status, _) => Err(LoadError::Status(status)),
    }
}

fn check(expected: Option<&Reference>, seen: &mut usize, part: &[u8]) -> Result<(), ClientError> {
    if let Some(reference) = expected {
        if reference.body.get(*seen..*seen + part.len()) != Some(part) {
            return Err(ClientError::WrongBody);
        }
        *seen += part.len();
    }
    Ok(())
}

const RETRY_DELAY: Duration = Duration::from_millis(100);
