//! A request out of its header block (RFC 9113 8.2 and 8.3).

use std::ops::Range;

use super::hpack::{Decoder, HpackError};
use crate::host::is_host;
use crate::limits::Limits;
use crate::request::{BodyLength, Fields, Head, Method, Target, Version, decimal, path_and_query};
use crate::request_error::RequestError;

/// A well-formed request. It may hold a password: its text is never printed.
pub(crate) struct Request {
    text: Vec<u8>,
    method: Range<usize>,
    path: Range<usize>,
    authority: Option<Range<usize>>,
    fields: Vec<Field>,
    /// Value of Content-Length.
    pub(crate) body_length: Option<u64>,
    /// Some of its fields are not kept: there were too many or they were too long.
    is_too_large: bool,
}

/// Place of a field's name and value: one behind the other.
#[derive(Debug)]
struct Field {
    start: usize,
    value: usize,
    end: usize,
}

/// Kind of a header block.
#[derive(Debug)]
pub(crate) enum Block {
    Request(Box<Request>),
    /// Fields behind a body, which are not used.
    Trailers,
    /// RFC 9113 8.1.1.
    Malformed,
}

/// Reads a request's header block, keeping `bytes_max` bytes of fields at most, as SETTINGS_MAX_HEADER_LIST_SIZE counts
/// them (RFC 9113 6.5.2), and `fields_max` fields.
pub(crate) fn read_request(
    decoder: &mut Decoder,
    block: &[u8],
    bytes_max: usize,
    fields_max: usize,
) -> Result<Block, HpackError> {
    let mut reader = Reader { bytes_max, fields_max, ..Reader::default() };
    decoder.decode(block, |name, value| reader.take(name, value))?;
    Ok(reader.request())
}

/// Reads the fields behind a request's body.
pub(crate) fn read_trailers(decoder: &mut Decoder, block: &[u8]) -> Result<Block, HpackError> {
    let mut is_malformed = false;
    decoder.decode(block, |name, _| is_malformed |= name.starts_with(b":"))?;
    Ok(if is_malformed { Block::Malformed } else { Block::Trailers })
}

#[derive(Default)]
struct Reader {
    bytes_max: usize,
    fields_max: usize,
    /// Size of the fields, as SETTINGS_MAX_HEADER_LIST_SIZE counts.
    bytes: usize,
    text: Vec<u8>,
    method: Option<Range<usize>>,
    scheme: Option<Range<usize>>,
    path: Option<Range<usize>>,
    authority: Option<Range<usize>>,
    fields: Vec<Field>,
    has_regular: bool,
    body_length: Option<u64>,
    is_too_large: bool,
    is_malformed: bool,
}

impl Reader {
    fn take(&mut self, name: &[u8], value: &[u8]) {
        // The block is read to its end for the table's sake alone.
        if self.is_too_large || self.is_malformed {
            return;
        }
        self.bytes += name.len() + value.len() + FIELD_BYTES;
        if self.bytes > self.bytes_max || self.fields.len() == self.fields_max {
            self.is_too_large = true;
            return;
        }
        let is_good = is_value(value)
            && match name.strip_prefix(b":") {
                Some(name) => self.take_pseudo(name, value),
                None => self.take_regular(name, value),
            };
        self.is_malformed |= !is_good;
    }

    fn take_pseudo(&mut self, name: &[u8], value: &[u8]) -> bool {
        let place = self.text.len()..self.text.len() + value.len();
        let slot = match name {
            b"method" => &mut self.method,
            b"scheme" => &mut self.scheme,
            b"path" => &mut self.path,
            b"authority" => &mut self.authority,
            _ => return false,
        };
        self.text.extend_from_slice(value);
        !self.has_regular && slot.replace(place).is_none()
    }

    fn take_regular(&mut self, name: &[u8], value: &[u8]) -> bool {
        self.has_regular = true;
        let is_good = is_name(name)
            && match name {
                b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding" | b"upgrade" => {
                    false
                }
                b"te" => value == b"trailers",
                b"content-length" => match decimal(value) {
                    None => false,
                    length => {
                        self.body_length.is_none_or(|_| self.body_length == length) && {
                            self.body_length = length;
                            true
                        }
                    }
                },
                _ => true,
            };
        let start = self.text.len();
        self.text.extend_from_slice(name);
        let at = self.text.len();
        self.text.extend_from_slice(value);
        self.fields.push(Field { start, value: at, end: self.text.len() });
        is_good
    }

    fn request(self) -> Block {
        if self.is_malformed {
            return Block::Malformed;
        }
        let is_connect = self.method.as_ref().is_some_and(|method| self.text[method.clone()] == *b"CONNECT");
        let is_whole = match is_connect {
            // RFC 9113 8.5.
            true => self.scheme.is_none() && self.path.is_none() && self.authority.is_some(),
            false => {
                self.method.is_some()
                    && self.scheme.is_some()
                    && self.path.as_ref().is_some_and(|path| !path.is_empty())
            }
        };
        if !is_whole && !self.is_too_large {
            return Block::Malformed;
        }
        Block::Request(Box::new(Request {
            method: self.method.unwrap_or_default(),
            path: self.path.unwrap_or_default(),
            authority: self.authority,
            text: self.text,
            fields: self.fields,
            body_length: self.body_length,
            is_too_large: self.is_too_large,
        }))
    }
}

impl Request {
    pub(crate) fn method(&self) -> Method {
        match &self.text[self.method.clone()] {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"OPTIONS" => Method::Options,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            _ => Method::Other,
        }
    }

    /// Returns the method as sent.
    pub(crate) fn method_name(&self) -> &[u8] {
        &self.text[self.method.clone()]
    }

    /// Returns path and query as sent.
    pub(crate) fn target(&self) -> &[u8] {
        &self.text[self.path.clone()]
    }

    /// Returns host and port: the authority, else what the Host field says; empty if neither is there.
    pub(crate) fn host(&self) -> &[u8] {
        match &self.authority {
            Some(authority) => &self.text[authority.clone()],
            None => self.field(b"host").unwrap_or_default(),
        }
    }

    /// Returns the first field of this name, which is in small letters.
    pub(crate) fn field(&self, name: &[u8]) -> Option<&[u8]> {
        self.fields().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields
            .iter()
            .map(|field| (&self.text[field.start..field.value], &self.text[field.value..field.end]))
    }

    /// Returns the request in the form that the handlers know.
    pub(crate) fn head(&self, limits: &Limits) -> Result<Head<'_>, RequestError> {
        let raw_target = self.target();
        if raw_target.len() > limits.target_bytes_max {
            return Err(RequestError::TargetTooLong);
        }
        if self.is_too_large {
            return Err(RequestError::HeadTooLarge);
        }
        let method = self.method();
        let target = match raw_target {
            b"*" => Target::Asterisk,
            [b'/', ..] if !raw_target.contains(&b'#') => path_and_query(raw_target),
            // CONNECT has none.
            [] => return Err(RequestError::MethodNotAllowed),
            _ => return Err(RequestError::Target),
        };
        let host = self.host();
        if !host.is_empty() && !is_host(host) {
            return Err(RequestError::Host);
        }
        let mut fields = Fields::default();
        let mut expect_continue = false;
        for (name, value) in self.fields() {
            fields.take(name, value)?;
            expect_continue |= name == b"expect" && value.eq_ignore_ascii_case(b"100-continue");
        }
        Ok(Head {
            method,
            method_name: b"",
            target,
            raw_target,
            version: Version::Http11,
            host,
            keep_alive: true,
            body: BodyLength::None,
            expect_continue,
            fields,
        })
    }
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request").field("method", &self.method()).finish_non_exhaustive()
    }
}

/// Checks for a `token` in small letters (RFC 9113 8.2.1).
fn is_name(name: &[u8]) -> bool {
    let is_good = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9') || b"!#$%&'*+-.^_`|~".contains(byte);
    !name.is_empty() && name.iter().all(is_good)
}

/// Checks for visible characters with blanks between them (RFC 9110 5.5), and bytes above ASCII.
fn is_value(value: &[u8]) -> bool {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    !is_blank(value.first())
        && !is_blank(value.last())
        && value.iter().all(|byte| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f))
}

/// Size of a field beside its texts.
const FIELD_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http2::hpack::unindexed;

    /// Returns what a block of these fields holds.
    fn read(fields: &[(&str, &str)]) -> Block {
        let mut block = Vec::new();
        fields.iter().for_each(|(name, value)| unindexed(&mut block, name.as_bytes(), value.as_bytes()));
        read_request(&mut Decoder::new(), &block, 1000, 10).unwrap()
    }

    const GET: [(&str, &str); 3] = [(":method", "GET"), (":scheme", "https"), (":path", "/a?b")];

    #[test]
    fn good_request_has_the_head_that_handlers_know() {
        let fields =
            [&GET[..], &[(":authority", "host:1"), ("range", "bytes=1-2"), ("te", "trailers")]].concat();
        let Block::Request(request) = read(&fields) else { panic!() };
        let head = request.head(&Limits::default()).unwrap();
        assert_eq!(
            (head.method, head.host, head.fields.range),
            (Method::Get, &b"host:1"[..], Some(&b"bytes=1-2"[..]))
        );
        assert_eq!(head.target, Target::Path { path: b"/a", query: Some(b"b") });
    }

    #[test]
    fn malformed_requests_are_known() {
        let bad: &[&[(&str, &str)]] = &[
            &[(":scheme", "https"), (":path", "/")],
            &[(":method", "GET"), (":path", "/")],
            &[(":method", "GET"), (":scheme", "https")],
            &[(":method", "GET"), (":scheme", "https"), (":path", "")],
            &[(":method", "CONNECT"), (":path", "/"), (":authority", "a")],
            &[GET[0], GET[1], GET[2], (":method", "GET")],
            &[GET[0], GET[1], GET[2], (":status", "200")],
            &[GET[0], GET[1], GET[2], (":any", "x")],
            &[GET[0], GET[1], ("accept", "x"), GET[2]],
            &[GET[0], GET[1], GET[2], ("Accept", "x")],
            &[GET[0], GET[1], GET[2], ("", "x")],
            &[GET[0], GET[1], GET[2], ("a b", "x")],
            &[GET[0], GET[1], GET[2], ("a", " x")],
            &[GET[0], GET[1], GET[2], ("a", "x\t")],
            &[GET[0], GET[1], GET[2], ("a", "x\r\ny: z")],
            &[GET[0], GET[1], GET[2], ("a", "x\0")],
            &[GET[0], GET[1], GET[2], ("connection", "close")],
            &[GET[0], GET[1], GET[2], ("transfer-encoding", "chunked")],
            &[GET[0], GET[1], GET[2], ("te", "gzip")],
            &[GET[0], GET[1], GET[2], ("content-length", "1, 1")],
            &[GET[0], GET[1], GET[2], ("content-length", "1"), ("content-length", "2")],
        ];
        for fields in bad {
            assert!(matches!(read(fields), Block::Malformed), "{fields:?}");
        }
    }

    #[test]
    fn what_is_too_large_is_told_so_and_not_kept() {
        let long = "x".repeat(900);
        let many = [&GET[..], &[("a", "b"); 11]].concat();
        let large = [&GET[..], &[("a", &long)]].concat();
        for fields in [&many, &large] {
            let Block::Request(request) = read(fields) else { panic!() };
            assert_eq!(request.head(&Limits::default()).unwrap_err(), RequestError::HeadTooLarge);
            assert!(request.text.len() < 200);
        }
    }

    #[test]
    fn targets_that_name_nothing_here_are_refused() {
        for (method, path, refusal) in [
            ("GET", "x", RequestError::Target),
            ("GET", "/a#b", RequestError::Target),
            ("GET", "https://a/", RequestError::Target),
        ] {
            let Block::Request(request) = read(&[(":method", method), GET[1], (":path", path)]) else {
                panic!()
            };
            assert_eq!(request.head(&Limits::default()).unwrap_err(), refusal);
        }
        let connect = [(":method", "CONNECT"), (":authority", "a:1")];
        let Block::Request(request) = read(&connect) else { panic!() };
        assert_eq!(request.head(&Limits::default()).unwrap_err(), RequestError::MethodNotAllowed);
    }
}
