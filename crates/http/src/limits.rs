//! Every bound on what one client may ask of the server, in one place, with the defaults.

use std::time::Duration;

/// Bounds of one connection. All sizes are bytes.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Request target (path and query). Longer: 414.
    pub target_bytes_max: usize,
    /// Request line and all header fields together. Longer: 431. At most [`HEAD_BYTES_CAP`].
    pub head_bytes_max: usize,
    /// Header fields of one request. More: 431. At most [`HEADERS_CAP`].
    pub headers_max: usize,
    /// Request body that is read and thrown away to keep the connection usable. Longer: 413 and close.
    pub body_discard_bytes_max: u64,
    /// Range specs of one request. More: the Range field is ignored (RFC 9110 14.2) and the file sent whole.
    pub ranges_max: usize,
    /// Entries of one directory listing. A larger directory is not listed, or its listing is cut where it shows late; its files are
    /// still served.
    pub listing_entries_max: usize,
    /// Entries of a directory that are sorted. A larger one is listed in the order of its file system.
    pub listing_sorted_max: usize,
    /// Requests served on one connection before it is closed; 0 means no bound.
    pub keep_alive_requests_max: u64,
    /// From the first byte of a request head to its end.
    pub header_timeout: Duration,
    /// For the whole of a request body that is being discarded.
    pub body_timeout: Duration,
    /// Between two requests of a connection, and before the first byte of the first one.
    pub idle_timeout: Duration,
    /// A response send that moves no byte for this long ends the connection.
    pub write_stall_timeout: Duration,
    /// Slowest average rate of a response body, bytes per second; 0 means no floor. It is judged
    /// only after [`Limits::write_stall_timeout`], so a short hiccup does not end a transfer.
    pub send_rate_min: u64,
    /// Longest file that is uploaded. Longer: 413.
    pub upload_bytes_max: u64,
    /// Slowest average rate of an upload, bytes per second; 0 means no floor. It is judged only after
    /// [`Limits::write_stall_timeout`], which is also how long an upload may stand still.
    pub upload_rate_min: u64,
    /// Uploads at once of one connection (HTTP/2).
    pub uploads_per_connection: usize,
    /// Uploads at once of one address, on one lane.
    pub uploads_per_address: usize,
    /// Uploads at once of one lane.
    pub uploads_max: usize,
    /// From accept to the end of the TLS handshake.
    pub handshake_timeout: Duration,
    /// Connections of one lane. More are told 503 (plain) or closed (TLS).
    pub connections_max: usize,
}

/// Largest head any configuration may allow: it must fit one receive buffer.
pub const HEAD_BYTES_CAP: usize = 16 * 1024;
/// Most header fields any configuration may allow: the parser's table lives on the stack.
pub const HEADERS_CAP: usize = 128;

impl Default for Limits {
    fn default() -> Self {
        Self {
            target_bytes_max: 8 * 1024,
            head_bytes_max: HEAD_BYTES_CAP,
            headers_max: 100,
            body_discard_bytes_max: 64 * 1024,
            ranges_max: 32,
            listing_entries_max: 100_000_000,
            listing_sorted_max: 10_000,
            keep_alive_requests_max: 0,
            header_timeout: Duration::from_secs(15),
            body_timeout: Duration::from_secs(15),
            idle_timeout: Duration::from_secs(65),
            write_stall_timeout: Duration::from_secs(30),
            send_rate_min: 0,
            upload_bytes_max: 64 << 30,
            upload_rate_min: 1024,
            uploads_per_connection: 16,
            uploads_per_address: 64,
            uploads_max: 1024,
            handshake_timeout: Duration::from_secs(10),
            connections_max: 16_384,
        }
    }
}
