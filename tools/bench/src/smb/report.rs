//! Figures of a load.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use smb_client::Error;

use super::actor::Failure;
use super::options::{Options, Work};
use crate::latency::{Latencies, Percentiles};

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
    /// Requests per second.
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
    /// CPU time of the server's process meanwhile, if its id was given.
    pub server_cpu_seconds: Option<f64>,
    /// CPU time of this process meanwhile.
    pub client_cpu_seconds: Option<f64>,
    /// Time from a request to its answer.
    pub latency: Percentiles,
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

    pub(super) fn merge(&mut self, other: Self) {
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

    pub(super) fn report(self, options: &Options, startup: Duration) -> Report {
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
