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
    /// Range specs of one request. More: the Range field is ignored (RFC 9110 14.2) and the file sent whole. rsync-like clients
    /// (zsync) ask for 127 and more at once.
    pub ranges_max: usize,
    /// Entries of one directory listing. A larger directory is not listed, or its listing is cut where it shows late; its files are
    /// still served.
    pub listing_entries_max: usize,
    /// Entries of a directory that are sorted. A larger one is listed in the order of its file system.
    pub listing_sorted_max: usize,
    /// Requests served on one connection before it is closed; 0 means no bound.
    pub keep_alive_requests_max: u64,
    /// Time from the first byte of a request head to its end.
    pub header_timeout: Duration,
    /// Time for the whole of a request body that is being discarded.
    pub body_timeout: Duration,
    /// Time between two requests of a connection, and before the first byte of the first one.
    pub idle_timeout: Duration,
    /// A response send that moves no byte for this long ends the connection.
    pub write_stall_timeout: Duration,
    /// Slowest rate of a response body, bytes per second; 0 means no floor. It is an average over each
    /// [`Limits::write_stall_timeout`], so a short hiccup does not end a transfer.
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
    /// Time from accept to the end of the TLS handshake.
    pub handshake_timeout: Duration,
    /// Connections of one lane. More are answered 503 (plain) or closed (TLS).
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
            //@ limit: an HTTP/1.1 request head
            //@ section: HTTP
            //@ unit: byte
            //@ connection: 16 KiB, a target of {target_bytes_max:b}, {headers_max} fields
            //@ empty: 431 or 414, and the connection ends; others feel nothing
            //@ counter: http_refused{reason="head_too_large"}, http_refused{reason="target_too_long"}
            //@ attack: http-edges
            head_bytes_max: HEAD_BYTES_CAP,
            headers_max: 100,
            body_discard_bytes_max: 64 * 1024,
            ranges_max: 256,
            listing_entries_max: 100_000_000,
            listing_sorted_max: 10_000,
            keep_alive_requests_max: 0,
            //@ limit: time for a request head or an HTTP/2 frame that is none of a body
            //@ section: HTTP
            //@ unit: time
            //@ connection: `header_seconds` ({})
            //@ empty: 408, or GOAWAY (ENHANCE_YOUR_CALM), and the connection ends; others feel nothing
            //@ counter: http_closed{reason="header_timeout"}, http_refused{reason="header_timeout"}
            //@ attack: http-drips-160
            header_timeout: Duration::from_secs(15),
            body_timeout: Duration::from_secs(15),
            idle_timeout: Duration::from_secs(65),
            //@ limit: time in which a client takes nothing
            //@ section: HTTP
            //@ unit: time
            //@ connection: `stall_seconds` ({}), by what its host acknowledged
            //@ empty: the connection is reset; others feel nothing
            //@ counter: http_aborted{cause="write_stalled"}, http_reply_memory_bytes
            //@ attack: http-stalled-files
            write_stall_timeout: Duration::from_secs(30),
            //@ limit: rate at which a client takes a body
            //@ section: HTTP
            //@ unit: bytes a second
            //@ connection: `send_rate_min` ({}), on average over each `stall_seconds` in which it was sent more than it took
            //@ empty: the connection is reset; others feel nothing
            //@ counter: http_aborted{cause="too_slow"}
            //@ attack: http-edges
            send_rate_min: 1024,
            //@ limit: an upload's length
            //@ section: HTTP
            //@ unit: byte
            //@ connection: `http.upload_max` ({:b}), judged before its body is asked for where it is known
            //@ all: process: the file system, and the volume's quota
            //@ empty: 413 or 507, and nothing is left; others feel nothing
            //@ counter: http_refused{reason="upload_too_large"}, http_refused{reason="quota_used_up"},
            //@ http_refused{reason="no_space"}
            //@ attack: http-edges
            upload_bytes_max: 64 << 30,
            //@ limit: rate of an upload, and time in which it brings nothing
            //@ section: HTTP
            //@ unit: bytes a second
            //@ connection: `upload_rate_min` ({}), on average; `stall_seconds`
            //@ empty: 408, and the connection ends; others feel nothing
            //@ counter: http_refused{reason="upload_slow"}
            //@ attack: http-slow-uploads
            upload_rate_min: 1024,
            uploads_per_connection: 16,
            uploads_per_address: 64,
            //@ limit: uploads at once
            //@ section: HTTP
            //@ unit: upload, with a staged file
            //@ connection: `uploads_per_connection` ({uploads_per_connection}) of HTTP/2, one of HTTP/1.1
            //@ address: `uploads_per_address` ({uploads_per_address})
            //@ all: lane: `uploads_per_lane` ({})
            //@ empty: 503; when the lane has none left, the slowest of the address with most ends for one with fewer
            //@ counter: http_refused{reason="uploads_too_many"}, http_uploads_evicted, http_uploads_open
            //@ attack: http-slow-uploads
            uploads_max: 1024,
            handshake_timeout: Duration::from_secs(10),
            //@ limit: places of connections
            //@ section: HTTP
            //@ unit: connection
            //@ connection: one
            //@ address: what is free; when places are short the address that holds most gives up its own, those that do nothing
            //@ first
            //@ all: lane: `http.limits.connections_per_lane` ({}), and no more than there are descriptors for
            //@ empty: the client that holds most gets 503 (TLS: a close) for its next; newcomers are taken at once
            //@ counter: http_connections_evicted, http_connections_refused, http_connections
            //@ attack: http-places-taken
            connections_max: 16_384,
        }
    }
}
