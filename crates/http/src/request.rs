//! The request head: bytes in, a borrowed [`Head`] out, or the reason it is refused.
//!
//! Where RFC 9112 lets a server be lenient and leniency has led to request smuggling, this parser
//! refuses: bare LF, folded lines, space before a colon, Content-Length beside Transfer-Encoding.

use std::mem::MaybeUninit;

use crate::host::is_host;
use crate::limits::{HEADERS_CAP, Limits};
use crate::request_error::RequestError;

pub use self::fields::{Credentials, Fields, List};

mod fields;

/// One request head. Every slice points into the receive buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head<'b> {
    /// Method of the request.
    pub method: Method,
    /// The method as sent, for logs, where it is [`Method::Other`]; empty in HTTP/2.
    pub method_name: &'b [u8],
    /// Target of the request.
    pub target: Target<'b>,
    /// The target as sent, for logs.
    pub raw_target: &'b [u8],
    /// Minor version: HTTP/1.0 or HTTP/1.1.
    pub version: Version,
    /// Host and optional port from the target's authority or the Host field; empty only in HTTP/1.0.
    pub host: &'b [u8],
    /// Set if the client lets the connection live on after this request (RFC 9112 9.3).
    pub keep_alive: bool,
    /// Length of the body that follows the head on the wire.
    pub body: BodyLength,
    /// The client waits for `100 Continue` before it sends the body (RFC 9110 10.1.1).
    pub expect_continue: bool,
    /// Fields that handlers look at.
    pub fields: Fields<'b>,
}

/// Method (RFC 9110 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET
    Get,
    /// HEAD
    Head,
    /// OPTIONS
    Options,
    /// PUT
    Put,
    /// DELETE
    Delete,
    /// A registered method that a file service answers with 405.
    Other,
}

/// Version of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}

/// Request target (RFC 9112 3.2), still percent-encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'b> {
    /// Path, beginning with `/`, and the query without its `?`.
    Path {
        /// Path as sent.
        path: &'b [u8],
        /// Query as sent.
        query: Option<&'b [u8]>,
    },
    /// `OPTIONS *`: the server as a whole.
    Asterisk,
}

/// Length of a request body (RFC 9112 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    /// Nothing follows the head.
    None,
    /// This many bytes, at least one.
    Exact(u64),
    /// Chunked transfer coding.
    Chunked,
}

/// Parses the head at the start of `buf`.
///
/// `Ok(None)` asks for more bytes. `Ok(Some((head, n)))` says that the head took `n` bytes, counted
/// with any empty line before it. After an error the connection must be closed: where the next
/// request would begin is not known.
pub fn parse<'b>(buf: &'b [u8], limits: &Limits) -> Result<Option<(Head<'b>, usize)>, RequestError> {
    let mut table = [const { MaybeUninit::uninit() }; HEADERS_CAP];
    let mut raw = httparse::Request::new(&mut []);
    let slots = &mut table[..limits.headers_max.min(HEADERS_CAP)];
    let head_len = match raw.parse_with_uninit_headers(buf, slots) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) => return partial(buf, limits).map(|()| None),
        Err(httparse::Error::Version) => return parse_later_minor(buf, limits),
        Err(error) => return Err(refusal_of(error)),
    };
    let version = if raw.version == Some(0) { Version::Http10 } else { Version::Http11 };
    let line = (raw.method.unwrap_or_default(), raw.path.unwrap_or_default().as_bytes(), version);
    checked(line, raw.headers, &buf[..head_len], limits).map(Some)
}

/// Parses a head ([`parse`]) whose version is none that is known here. A later minor version of HTTP/1 is
/// read as HTTP/1.1 is (RFC 9110 2.5).
fn parse_later_minor<'b>(buf: &'b [u8], limits: &Limits) -> Result<Option<(Head<'b>, usize)>, RequestError> {
    // An empty line may come before it.
    let start = buf.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(buf.len());
    let Some(end) = buf[start..].iter().position(|byte| *byte == b'\n') else {
        // What is a version is known before its line has ended.
        return if is_later_minor(&buf[start..]) {
            partial(buf, limits).map(|()| None)
        } else {
            Err(version_refusal(buf))
        };
    };
    let (line, rest) = buf[start..].split_at(end + 1);
    if !is_later_minor(line) {
        return Err(version_refusal(buf));
    }
    let line = line.strip_suffix(b"\r\n").ok_or(RequestError::BareLf)?;
    // What else there is to say of the line the parser says of the same line of HTTP/1.1.
    let mut known_line = line.to_vec();
    known_line.pop();
    known_line.extend_from_slice(b"1\r\n\r\n");
    let mut known = httparse::Request::new(&mut []);
    known.parse(&known_line).map_err(refusal_of)?;
    let (Some(method), Some(target)) = (known.method, known.path) else {
        return Err(RequestError::RequestLine);
    };
    let at = |part: &str| part.as_ptr() as usize - known_line.as_ptr() as usize;
    let target = &line[at(target)..at(target) + target.len()];
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_CAP];
    let slots = &mut headers[..limits.headers_max.min(HEADERS_CAP)];
    match httparse::parse_headers(rest, slots) {
        Ok(httparse::Status::Partial) => partial(buf, limits).map(|()| None),
        Ok(httparse::Status::Complete((len, headers))) => {
            let head = &buf[..start + end + 1 + len];
            checked((method, target, Version::Http11), headers, head, limits).map(Some)
        }
        Err(error) => Err(refusal_of(error)),
    }
}

/// Returns the head made of what the parser has found in it.
fn checked<'b>(
    (method_text, target_text, version): (&str, &'b [u8], Version),
    headers: &[httparse::Header<'b>],
    head: &'b [u8],
    limits: &Limits,
) -> Result<(Head<'b>, usize), RequestError> {
    let head_len = head.len();
    if head_len > limits.head_bytes_max {
        return Err(RequestError::HeadTooLarge);
    }
    if has_bare_lf(head) {
        return Err(RequestError::BareLf);
    }
    let method = method(method_text)?;
    if target_text.len() > limits.target_bytes_max {
        return Err(RequestError::TargetTooLong);
    }
    let (target, authority) = target(target_text, method)?;

    let mut seen = FieldWalk::default();
    for header in headers {
        seen.field(header.name.as_bytes(), header.value)?;
    }
    if seen.host.is_none() && version == Version::Http11 {
        return Err(RequestError::Host);
    }
    let body = seen.body_length(version)?;
    let keep_alive = !seen.close && (version == Version::Http11 || seen.keep_alive);
    let head = Head {
        method,
        method_name: if method == Method::Other { first_word(head) } else { b"" },
        target,
        raw_target: target_text,
        version,
        // RFC 9112 3.2.2: an absolute target's authority replaces Host.
        host: authority.or(seen.host).unwrap_or_default(),
        keep_alive,
        body,
        expect_continue: seen.expect_continue && version == Version::Http11 && body != BodyLength::None,
        fields: seen.fields,
    };
    Ok((head, head_len))
}

impl<'b> Target<'b> {
    /// Returns the path as sent; `*` for the whole server.
    pub fn raw_path(&self) -> &'b [u8] {
        match self {
            Self::Path { path, .. } => path,
            Self::Asterisk => b"*",
        }
    }

    /// Returns the query as sent.
    pub fn query(&self) -> Option<&'b [u8]> {
        match self {
            Self::Path { query, .. } => *query,
            Self::Asterisk => None,
        }
    }
}

impl Method {
    /// Returns the name on the wire; `-` for one that is not offered.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Options => "OPTIONS",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Other => "-",
        }
    }
}

/// The fields of a request head that were met so far.
#[derive(Default)]
struct FieldWalk<'b> {
    fields: Fields<'b>,
    host: Option<&'b [u8]>,
    content_length: Option<u64>,
    transfer_encoding: Option<&'b [u8]>,
    close: bool,
    keep_alive: bool,
    expect_continue: bool,
}

impl<'b> FieldWalk<'b> {
    fn field(&mut self, name: &'b [u8], value: &'b [u8]) -> Result<(), RequestError> {
        match name.len() {
            4 if is(name, b"host") => {
                if self.host.is_some() || !is_host(value) {
                    return Err(RequestError::Host);
                }
                self.host = Some(value);
                Ok(())
            }
            6 if is(name, b"expect") => self.expect(value),
            10 if is(name, b"connection") => {
                self.connection(value);
                Ok(())
            }
            14 if is(name, b"content-length") => self.content_length(value),
            17 if is(name, b"transfer-encoding") => self.transfer_encoding(value),
            // The lengths of the fields that handlers look at: all others cost one jump.
            5..=8 | 10 | 13 | 15..=17 | 19 => self.fields.take(name, value),
            _ => Ok(()),
        }
    }

    fn expect(&mut self, value: &[u8]) -> Result<(), RequestError> {
        for expectation in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            match expectation {
                b"" => {}
                _ if is(expectation, b"100-continue") => self.expect_continue = true,
                _ => return Err(RequestError::Expectation),
            }
        }
        Ok(())
    }

    fn connection(&mut self, value: &[u8]) {
        for token in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            self.close |= is(token, b"close");
            self.keep_alive |= is(token, b"keep-alive");
        }
    }

    /// Takes a Content-Length (RFC 9112 6.3): a list of equal numbers counts as that number; anything else is
    /// ambiguous.
    fn content_length(&mut self, value: &[u8]) -> Result<(), RequestError> {
        for text in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            let length = decimal(text).ok_or(RequestError::BodyLength)?;
            if self.content_length.replace(length).is_some_and(|earlier| earlier != length) {
                return Err(RequestError::BodyLength);
            }
        }
        Ok(())
    }

    fn transfer_encoding(&mut self, value: &'b [u8]) -> Result<(), RequestError> {
        if self.transfer_encoding.replace(value).is_some() { Err(RequestError::BodyLength) } else { Ok(()) }
    }

    fn body_length(&self, version: Version) -> Result<BodyLength, RequestError> {
        match (self.transfer_encoding, self.content_length) {
            (None, None | Some(0)) => Ok(BodyLength::None),
            (None, Some(length)) => Ok(BodyLength::Exact(length)),
            (Some(_), Some(_)) => Err(RequestError::BodyLength),
            // RFC 9112 6.1: Transfer-Encoding in HTTP/1.0 means that the framing is faulty.
            (Some(_), None) if version == Version::Http10 => Err(RequestError::BodyLength),
            (Some(coding), None) if is(coding, b"chunked") => Ok(BodyLength::Chunked),
            (Some(_), None) => Err(RequestError::TransferCoding),
        }
    }
}

/// Decides whether an unfinished head may still become a good one.
fn partial(buf: &[u8], limits: &Limits) -> Result<(), RequestError> {
    let line_slack = "OPTIONS  HTTP/1.1\r\n".len();
    let first_line = &buf[..buf.len().min(limits.target_bytes_max + line_slack + 1)];
    if first_line.len() > limits.target_bytes_max + line_slack && !first_line.contains(&b'\n') {
        return Err(RequestError::TargetTooLong);
    }
    if buf.len() >= limits.head_bytes_max {
        return Err(RequestError::HeadTooLarge);
    }
    Ok(())
}

fn refusal_of(error: httparse::Error) -> RequestError {
    match error {
        httparse::Error::HeaderName | httparse::Error::HeaderValue => RequestError::HeaderField,
        httparse::Error::TooManyHeaders => RequestError::HeadTooLarge,
        _ => RequestError::RequestLine,
    }
}

/// Returns why a version that is unknown here is refused.
fn version_refusal(buf: &[u8]) -> RequestError {
    let line = buf.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii_end();
    match version_of(line) {
        Some([b'1', _]) | None => RequestError::RequestLine,
        Some(_) => RequestError::Version,
    }
}

/// Returns whether a line, or what there is of it, ends in a minor version of HTTP/1 that came after 1.1.
fn is_later_minor(line: &[u8]) -> bool {
    version_of(line.trim_ascii_end()).is_some_and(|[major, minor]| major == b'1' && minor > b'1')
}

/// Returns the major and minor number of the well-formed version that a line ends in.
fn version_of(line: &[u8]) -> Option<[u8; 2]> {
    let at = line.len().checked_sub("HTTP/1.1".len())?;
    match line[at..] {
        [b'H', b'T', b'T', b'P', b'/', major @ b'0'..=b'9', b'.', minor @ b'0'..=b'9'] => {
            Some([major, minor])
        }
        _ => None,
    }
}

/// Checks for a line that ends in LF without CR: httparse lets a lone LF end a line but never a lone CR, so the counts
/// differ exactly then.
fn has_bare_lf(head: &[u8]) -> bool {
    // Blocks short enough for 8-bit sums let the compiler count 16 bytes at a step, if it need not check them.
    head.chunks(255).fold(0i64, |balance, block| {
        let (mut cr, mut lf) = (0u8, 0u8);
        for byte in block {
            cr = cr.wrapping_add(u8::from(*byte == b'\r'));
            lf = lf.wrapping_add(u8::from(*byte == b'\n'));
        }
        balance + i64::from(lf) - i64::from(cr)
    }) != 0
}

/// Returns what stands before the first blank.
fn first_word(head: &[u8]) -> &[u8] {
    head.trim_ascii_start().split(|byte| *byte == b' ').next().unwrap_or_default()
}

fn method(name: &str) -> Result<Method, RequestError> {
    match name {
        "GET" => Ok(Method::Get),
        "HEAD" => Ok(Method::Head),
        "OPTIONS" => Ok(Method::Options),
        "PUT" => Ok(Method::Put),
        "DELETE" => Ok(Method::Delete),
        "POST" | "PATCH" | "TRACE" | "PROPFIND" | "PROPPATCH" | "MKCOL" | "COPY" | "MOVE" | "LOCK"
        | "UNLOCK" => Ok(Method::Other),
        // What follows a CONNECT is not HTTP, so the connection cannot go on.
        "CONNECT" => Err(RequestError::MethodNotAllowed),
        _ => Err(RequestError::MethodUnknown),
    }
}

fn target(text: &[u8], method: Method) -> Result<(Target<'_>, Option<&[u8]>), RequestError> {
    if text.contains(&b'#') {
        return Err(RequestError::Target);
    }
    if text.first() == Some(&b'/') {
        return Ok((path_and_query(text), None));
    }
    if text == b"*" {
        return if method == Method::Options {
            Ok((Target::Asterisk, None))
        } else {
            Err(RequestError::Target)
        };
    }
    let rest = strip_prefix_ignore_case(text, b"http://")
        .or_else(|| strip_prefix_ignore_case(text, b"https://"))
        .ok_or(RequestError::Target)?;
    let authority_len = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(authority_len);
    if !is_host(authority) {
        return Err(RequestError::Target);
    }
    let target = match rest.first() {
        Some(b'/') => path_and_query(rest),
        Some(_) => Target::Path { path: b"/", query: Some(&rest[1..]) },
        None => Target::Path { path: b"/", query: None },
    };
    Ok((target, Some(authority)))
}

pub(crate) fn path_and_query(text: &[u8]) -> Target<'_> {
    match text.iter().position(|byte| *byte == b'?') {
        Some(at) => Target::Path { path: &text[..at], query: Some(&text[at + 1..]) },
        None => Target::Path { path: text, query: None },
    }
}

fn strip_prefix_ignore_case<'b>(text: &'b [u8], prefix: &[u8]) -> Option<&'b [u8]> {
    let (head, rest) = text.split_at_checked(prefix.len())?;
    is(head, prefix).then_some(rest)
}

fn is(text: &[u8], lower: &[u8]) -> bool {
    text.eq_ignore_ascii_case(lower)
}

/// Digits only: no sign, no space, no overflow.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |value, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests;
