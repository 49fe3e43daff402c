//! Response heads: what they say ([`Answer`]) and how HTTP/1.1 writes it ([`Writer`]).
//!
//! An [`Answer`] names its fields once; HTTP/1.1 and HTTP/2 both take them from [`Answer::each_field`].

use httptypes::StatusCode;

use crate::conditional::Validators;
use crate::date;
use crate::range::ByteRange;

/// Longest head, not counting Location and configured fields.
pub const HEAD_BYTES_MAX: usize = 1024;

/// Fields of a response head, less the date and the state of the connection.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Status code.
    pub status: StatusCode,
    /// Media type of the body.
    pub content_type: Option<&'static str>,
    /// Boundary of a multipart body, a parameter of its media type.
    pub boundary: Option<[u8; BOUNDARY_LEN]>,
    /// Length of the body that GET gives; `None` writes no Content-Length (204, 304).
    pub content_length: Option<u64>,
    /// Content-Range.
    pub content_range: Option<ContentRange>,
    /// `br`, `zstd` or `gzip`.
    pub content_encoding: Option<&'static str>,
    /// ETag and Last-Modified.
    pub validators: Option<Validators>,
    /// The file may be asked for in ranges.
    pub accept_ranges: bool,
    /// Request field that chose among variants.
    pub vary: Option<&'static str>,
    /// Address to go to instead.
    pub location: Option<Vec<u8>>,
    /// The methods offered here.
    pub allow: Option<&'static str>,
    /// Challenge by which a user may authenticate (WWW-Authenticate).
    pub challenge: Option<&'static str>,
    /// Cache-Control.
    pub cache_control: Option<&'static str>,
    /// Content-Security-Policy.
    pub content_security_policy: Option<&'static str>,
    /// HTTP/1.1 sends the body in chunks (RFC 9112 7.1), since its length is not known.
    pub chunked: bool,
    /// Seconds the client should wait.
    pub retry_after_s: Option<u32>,
}

/// Content-Range (RFC 9110 14.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentRange {
    /// A range of a file of this size.
    Part(ByteRange, u64),
    /// None of the ranges lies in a file of this size.
    Unsatisfied(u64),
}

/// State of the connection after this response (RFC 9112 9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// HTTP/1.1's default: nothing is said.
    KeepAlive,
    /// An HTTP/1.0 client asked to go on, and the answer says that it may.
    KeepAliveSaid,
    /// `Connection: close`.
    Close,
}

impl Answer {
    /// Calls `each` with every field but Date, Server and Connection.
    #[inline]
    pub fn each_field(&self, mut each: impl FnMut(&'static str, &[u8])) {
        if let Some(media_type) = self.content_type {
            match self.boundary {
                None => each("Content-Type", media_type.as_bytes()),
                Some(boundary) => {
                    let mut text = [0; 80];
                    let mut out = Writer::new(&mut text);
                    out.put(media_type.as_bytes());
                    out.put(b"; boundary=");
                    out.put(&boundary);
                    each("Content-Type", out.written());
                }
            }
        }
        if let Some(length) = self.content_length {
            each("Content-Length", Decimal::new(length).as_bytes());
        }
        if let Some(range) = self.content_range {
            let mut text = [0; 80];
            let mut out = Writer::new(&mut text);
            range.put(&mut out);
            each("Content-Range", out.written());
        }
        if let Some(coding) = self.content_encoding {
            each("Content-Encoding", coding.as_bytes());
        }
        if let Some(validators) = &self.validators {
            if let Some(modified_s) = validators.modified_s {
                each("Last-Modified", &date::imf_fixdate(modified_s));
            }
            each("ETag", validators.etag.as_bytes());
        }
        if self.accept_ranges {
            each("Accept-Ranges", b"bytes");
        }
        if let Some(field) = self.vary {
            each("Vary", field.as_bytes());
        }
        if let Some(location) = &self.location {
            each("Location", location);
        }
        if let Some(methods) = self.allow {
            each("Allow", methods.as_bytes());
        }
        if let Some(challenge) = self.challenge {
            each("WWW-Authenticate", challenge.as_bytes());
        }
        if let Some(directives) = self.cache_control {
            each("Cache-Control", directives.as_bytes());
        }
        if let Some(policy) = self.content_security_policy {
            each("Content-Security-Policy", policy.as_bytes());
        }
        if let Some(seconds) = self.retry_after_s {
            each("Retry-After", Decimal::new(seconds.into()).as_bytes());
        }
        if self.content_type.is_some() {
            each("X-Content-Type-Options", b"nosniff");
        }
    }

    /// Writes the HTTP/1.1 head, with the empty line that ends it.
    pub fn put_http1(&self, date: &[u8; date::LEN], persistence: Persistence, out: &mut Writer<'_>) {
        out.status_line(self.status);
        out.field("Server", SERVER.as_bytes());
        out.field("Date", date);
        self.each_field(|name, value| out.field(name, value));
        if self.chunked {
            out.put(b"Transfer-Encoding: chunked\r\n");
        }
        match persistence {
            Persistence::KeepAlive => {}
            Persistence::KeepAliveSaid => out.put(b"Connection: keep-alive\r\n"),
            Persistence::Close => out.put(b"Connection: close\r\n"),
        }
        out.put(b"\r\n");
    }

    /// Returns an upper bound of the bytes that [`Answer::put_http1`] writes.
    pub fn http1_len_max(&self) -> usize {
        HEAD_BYTES_MAX + self.location.as_ref().map_or(0, Vec::len)
    }
}

impl ContentRange {
    fn put(self, out: &mut Writer<'_>) {
        out.put(b"bytes ");
        let size = match self {
            Self::Part(range, size) => {
                out.put_u64(range.start);
                out.put(b"-");
                out.put_u64(range.end - 1);
                size
            }
            Self::Unsatisfied(size) => {
                out.put(b"*");
                size
            }
        };
        out.put(b"/");
        out.put_u64(size);
    }
}

/// Appends to a fixed buffer. What does not fit is dropped and remembered, never half a response sent.
#[derive(Debug)]
pub struct Writer<'a> {
    buf: &'a mut [u8],
    len: usize,
    overflowed: bool,
}

impl<'a> Writer<'a> {
    /// Starts at the beginning of `buf`.
    pub fn new(buf: &'a mut [u8]) -> Self {
        Self { buf, len: 0, overflowed: false }
    }

    /// Returns what has been written.
    pub fn written(&self) -> &[u8] {
        &self.buf[..self.len]
    }

    /// Returns the length written, or `None` when something did not fit and the output must not be sent.
    pub fn finish(self) -> Option<usize> {
        (!self.overflowed).then_some(self.len)
    }

    /// Appends bytes.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        match self.buf.get_mut(self.len..self.len + bytes.len()) {
            Some(slot) if !self.overflowed => {
                slot.copy_from_slice(bytes);
                self.len += bytes.len();
            }
            _ => self.overflowed = true,
        }
    }

    /// Appends a decimal number.
    #[inline]
    pub fn put_u64(&mut self, value: u64) {
        self.put(Decimal::new(value).as_bytes());
    }

    /// Appends `name: value` and a line end.
    #[inline]
    pub fn field(&mut self, name: &str, value: &[u8]) {
        self.put(name.as_bytes());
        self.put(b": ");
        self.put(value);
        self.put(b"\r\n");
    }

    /// Appends what stands before a chunk of so many bytes (RFC 9112 7.1), which are more than none.
    pub fn chunk_head(&mut self, len: usize) {
        let digits = (usize::BITS - len.leading_zeros()).div_ceil(4).max(1);
        for digit in (0..digits).rev() {
            self.put(&[b"0123456789abcdef"[len >> (4 * digit) & 15]]);
        }
        self.put(b"\r\n");
    }

    /// Appends a Content-Range line.
    pub fn content_range(&mut self, range: ByteRange, size: u64) {
        self.put(b"Content-Range: ");
        ContentRange::Part(range, size).put(self);
        self.put(b"\r\n");
    }

    fn status_line(&mut self, status: StatusCode) {
        match status {
            StatusCode::OK => self.put(b"HTTP/1.1 200 OK\r\n"),
            StatusCode::PARTIAL_CONTENT => self.put(b"HTTP/1.1 206 Partial Content\r\n"),
            StatusCode::NOT_MODIFIED => self.put(b"HTTP/1.1 304 Not Modified\r\n"),
            _ => {
                self.put(b"HTTP/1.1 ");
                self.put(status.as_str().as_bytes());
                self.put(b" ");
                self.put(status.canonical_reason().unwrap_or_default().as_bytes());
                self.put(b"\r\n");
            }
        }
    }
}

/// Decimal digits of a number, on the stack.
pub(crate) struct Decimal {
    digits: [u8; 20],
    start: usize,
}

impl Decimal {
    pub(crate) fn new(mut value: u64) -> Self {
        let mut digits = [b'0'; 20];
        let mut start = digits.len() - 1;
        digits[start] = b'0' + (value % 10) as u8;
        while value >= 10 {
            value /= 10;
            start -= 1;
            digits[start] = b'0' + (value % 10) as u8;
        }
        Self { digits, start }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.digits[self.start..]
    }
}

/// Value of Server: the name alone, since a version helps attackers alone.
pub const SERVER: &str = "linerate";
/// Length of a boundary.
pub const BOUNDARY_LEN: usize = 24;
/// Upper bound of the bytes that [`Writer::chunk_head`] appends.
pub const CHUNK_HEAD_BYTES_MAX: usize = 18;
/// Bytes behind a chunk.
pub const CHUNK_END: &[u8] = b"\r\n";
/// Bytes behind the last chunk.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";
/// Value of Allow where no user may change anything.
pub const ALLOW_READING: &str = "GET, HEAD, OPTIONS";
/// Value of Allow where some user may change something.
pub const ALLOW_CHANGES: &str = "GET, HEAD, OPTIONS, PUT, DELETE";
/// Value of WWW-Authenticate (RFC 7617 2): names and passwords are UTF-8.
pub const CHALLENGE: &str = "Basic realm=\"linerate\", charset=\"UTF-8\"";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etag::ETag;
    use crate::etag::tests::version;

    fn head(answer: &Answer, persistence: Persistence) -> String {
        let mut buffer = [0; HEAD_BYTES_MAX];
        let mut out = Writer::new(&mut buffer);
        answer.put_http1(&date::imf_fixdate(784_111_777), persistence, &mut out);
        String::from_utf8(out.written().to_vec()).unwrap()
    }

    #[test]
    fn file_head_says_all_a_cache_needs() {
        let etag = ETag::strong(&version(3, 4), None);
        let validators = Validators { etag, modified_s: Some(784_111_777), is_date_strong: true };
        let answer = Answer {
            status: StatusCode::PARTIAL_CONTENT,
            content_type: Some("text/css; charset=utf-8"),
            content_length: Some(3),
            content_range: Some(ContentRange::Part(ByteRange { start: 0, end: 3 }, u64::MAX)),
            content_encoding: Some("gzip"),
            validators: Some(validators),
            accept_ranges: true,
            vary: Some("Accept-Encoding"),
            ..Answer::default()
        };
        insta::assert_snapshot!(head(&answer, Persistence::KeepAlive).replace('\r', ""));
    }

    #[test]
    fn unsatisfied_range_names_the_size() {
        let answer = Answer {
            status: StatusCode::RANGE_NOT_SATISFIABLE,
            content_range: Some(ContentRange::Unsatisfied(47)),
            ..Answer::default()
        };
        let text = head(&answer, Persistence::Close);
        assert!(text.starts_with("HTTP/1.1 416 Range Not Satisfiable\r\n"), "{text}");
        assert!(text.contains("\r\nContent-Range: bytes */47\r\n"), "{text}");
        assert!(text.ends_with("\r\nConnection: close\r\n\r\n"), "{text}");
    }

    #[test]
    fn writer_that_overflowed_yields_nothing() {
        let mut buffer = [0; 4];
        let mut out = Writer::new(&mut buffer);
        out.put(b"abc");
        out.put(b"de");
        out.put(b"f");
        assert_eq!(out.written(), b"abc");
        assert_eq!(out.finish(), None);
    }

    #[test]
    fn chunk_heads_are_hexadecimal_without_leading_zeros() {
        for len in [1, 15, 16, 255, 4096, 16_385, usize::MAX] {
            let mut buffer = [0; CHUNK_HEAD_BYTES_MAX];
            let mut out = Writer::new(&mut buffer);
            out.chunk_head(len);
            assert_eq!(out.written(), format!("{len:x}\r\n").as_bytes());
        }
    }

    #[test]
    fn decimals_cover_the_whole_range() {
        for value in [0, 7, 10, 99, 100, 12_345, u64::MAX] {
            assert_eq!(Decimal::new(value).as_bytes(), value.to_string().as_bytes());
        }
    }
}
