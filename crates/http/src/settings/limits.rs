//! `[http.limits]`: what one connection may take, and how fast it is served.

use std::time::Duration;

use serde::Deserialize;
use service::config::{ConfigError, Size};

use crate::limits::{HEAD_BYTES_CAP, HEADERS_CAP, Limits};

/// `[http.limits]`
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsSection {
    /// Open connections of each lane.
    pub connections_per_lane: usize,
    /// Bytes of a request's line and headers.
    #[serde(deserialize_with = "service::config::bytes")]
    pub header_bytes: usize,
    /// Header lines of a request.
    pub headers: usize,
    /// Bytes of a request body that is read and thrown away.
    #[serde(deserialize_with = "service::config::bytes")]
    pub body_bytes: u64,
    /// Seconds from the first byte of a request to the end of its headers.
    pub header_seconds: u64,
    /// Seconds for a request body that is discarded.
    pub body_seconds: u64,
    /// Seconds between two requests.
    pub idle_seconds: u64,
    /// Seconds without the client taking a byte.
    pub stall_seconds: u64,
    /// Slowest rate of taking a body, bytes per second on average over each `stall_seconds`; 0: no floor.
    #[serde(deserialize_with = "service::config::bytes")]
    pub send_rate_min: u64,
    /// Slowest average rate of an upload, bytes per second, judged after `stall_seconds`; 0: no floor.
    #[serde(deserialize_with = "service::config::bytes")]
    pub upload_rate_min: u64,
    /// Uploads at once of one connection.
    pub uploads_per_connection: usize,
    /// Uploads at once of one address on each lane.
    pub uploads_per_address: usize,
    /// Uploads at once of each lane.
    pub uploads_per_lane: usize,
    /// Seconds for the TLS handshake.
    pub handshake_seconds: u64,
    /// Requests on one connection before it is closed; 0: no bound.
    pub requests_per_connection: u64,
    /// Ranges of one request; more are answered with the whole file.
    pub ranges: usize,
    /// Entries of a listed directory.
    pub listing_entries: usize,
    /// Entries of a directory that are sorted; more are listed in the order of the file system.
    pub listing_sorted: usize,
    /// Sending rate of each connection, bytes per second; absent: no bound.
    pub pacing_bytes_per_second: Option<Size>,
}

impl LimitsSection {
    /// Returns the limits as the HTTP service takes them.
    pub fn to_http(&self) -> Limits {
        Limits {
            head_bytes_max: self.header_bytes,
            headers_max: self.headers,
            body_discard_bytes_max: self.body_bytes,
            ranges_max: self.ranges,
            listing_entries_max: self.listing_entries,
            listing_sorted_max: self.listing_sorted,
            keep_alive_requests_max: self.requests_per_connection,
            header_timeout: Duration::from_secs(self.header_seconds),
            body_timeout: Duration::from_secs(self.body_seconds),
            idle_timeout: Duration::from_secs(self.idle_seconds),
            write_stall_timeout: Duration::from_secs(self.stall_seconds),
            send_rate_min: self.judged_send_rate(),
            upload_rate_min: self.upload_rate_min,
            uploads_per_connection: self.uploads_per_connection,
            uploads_per_address: self.uploads_per_address,
            uploads_max: self.uploads_per_lane,
            handshake_timeout: Duration::from_secs(self.handshake_seconds),
            connections_max: self.connections_per_lane,
            ..Limits::default()
        }
    }

    /// Returns the floor that clients are held to: that of the default is no reason to refuse a slow pace.
    fn judged_send_rate(&self) -> u64 {
        match self.pacing_bytes_per_second {
            Some(Size(rate)) if self.has_default_floor() => self.send_rate_min.min(rate / 2),
            _ => self.send_rate_min,
        }
    }

    fn has_default_floor(&self) -> bool {
        self.send_rate_min == Limits::default().send_rate_min
    }

    /// Checks the limits; `egress_rate` is that of the server.
    pub(super) fn check(&self, egress_rate: Option<u64>) -> Result<(), ConfigError> {
        let bounds = [
            ("connections_per_lane", self.connections_per_lane as u64, 1, 1 << 22),
            ("header_bytes", self.header_bytes as u64, 1 << 10, HEAD_BYTES_CAP as u64),
            ("headers", self.headers as u64, 8, HEADERS_CAP as u64),
            ("header_seconds", self.header_seconds, 1, 3600),
            ("body_seconds", self.body_seconds, 1, 86_400),
            ("idle_seconds", self.idle_seconds, 1, 86_400),
            ("stall_seconds", self.stall_seconds, 1, 86_400),
            ("handshake_seconds", self.handshake_seconds, 1, 3600),
            ("ranges", self.ranges as u64, 1, 1024),
            ("uploads_per_connection", self.uploads_per_connection as u64, 1, 1 << 16),
            ("uploads_per_address", self.uploads_per_address as u64, 1, 1 << 16),
            ("uploads_per_lane", self.uploads_per_lane as u64, 1, 1 << 16),
            ("listing_entries", self.listing_entries as u64, 1, 1 << 32),
            ("listing_sorted", self.listing_sorted as u64, 1, 1 << 20),
            (
                "pacing_bytes_per_second",
                self.pacing_bytes_per_second.map_or(1, |Size(rate)| rate),
                1,
                u64::MAX,
            ),
        ];
        for (key, value, least, most) in bounds {
            if !(least..=most).contains(&value) {
                return Err(ConfigError::invalid(
                    format!("http.limits.{key}"),
                    format!("{value} is not within {least} to {most}"),
                ));
            }
        }
        self.check_rates(egress_rate)
    }

    /// Checks the rates: a client can take no more than the server sends.
    fn check_rates(&self, egress_rate: Option<u64>) -> Result<(), ConfigError> {
        // The time in which the server's rate keeps a client waiting does not count.
        if self.has_default_floor() {
            return Ok(());
        }
        let refuse = |bound: &str, rate: u64| {
            let problem = format!(
                "{} is not below {bound}, which is {rate}: the server would cut off every client as too \
                 slow that it slows down itself; lower the one or raise the other",
                self.send_rate_min
            );
            Err(ConfigError::invalid("http.limits.send_rate_min", problem))
        };
        match (self.pacing_bytes_per_second, egress_rate) {
            // A paced connection comes close to its rate and never goes beyond.
            (Some(Size(rate)), _) if self.send_rate_min >= rate => {
                refuse("http.limits.pacing_bytes_per_second", rate)
            }
            (_, Some(rate)) if self.send_rate_min >= rate => refuse("server.egress_rate", rate),
            _ => Ok(()),
        }
    }
}

impl Default for LimitsSection {
    fn default() -> Self {
        let limits = Limits::default();
        Self {
            connections_per_lane: limits.connections_max,
            header_bytes: limits.head_bytes_max,
            headers: limits.headers_max,
            body_bytes: limits.body_discard_bytes_max,
            header_seconds: limits.header_timeout.as_secs(),
            body_seconds: limits.body_timeout.as_secs(),
            idle_seconds: limits.idle_timeout.as_secs(),
            stall_seconds: limits.write_stall_timeout.as_secs(),
            send_rate_min: limits.send_rate_min,
            upload_rate_min: limits.upload_rate_min,
            uploads_per_connection: limits.uploads_per_connection,
            uploads_per_address: limits.uploads_per_address,
            uploads_per_lane: limits.uploads_max,
            handshake_seconds: limits.handshake_timeout.as_secs(),
            requests_per_connection: limits.keep_alive_requests_max,
            ranges: limits.ranges_max,
            listing_entries: limits.listing_entries_max,
            listing_sorted: limits.listing_sorted_max,
            pacing_bytes_per_second: None,
        }
    }
}
