//! Request bodies of HTTP/1.1 as they arrive (RFC 9112 6 and 7): which bytes are content, and where a body ends.
//!
//! What becomes of the content is the caller's: a body without a handler is read too, since the connection
//! goes on after it.

use std::ops::Range;

use crate::request::BodyLength;
use crate::request_error::RequestError;

/// Finds one request body's content in what its connection brings. Nothing is copied.
#[derive(Clone, Debug)]
pub struct BodyReader {
    state: BodyState,
    /// Bytes of content that may still come.
    content_left: u64,
    /// Bytes of chunk sizes, extensions and trailers that may still come.
    framing_left: u64,
    /// Bytes that no handler reads: extensions and trailers.
    ignored_left: u64,
}

/// Result of [`BodyReader::feed`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// Bytes of the input that belonged to the body.
    pub consumed: usize,
    /// Bytes that are content; what is between two runs of content needs another call.
    pub content: Range<usize>,
    /// The body has ended; the rest of the input is the next request.
    pub done: bool,
}

impl BodyReader {
    /// Begins a body with at most `content_max` bytes of content, and `framing_max` of what chunks have around it. One
    /// announced to be longer is refused at once, and a chunk when its size is known.
    pub fn new(length: BodyLength, content_max: u64, framing_max: u64) -> Result<Self, RequestError> {
        let state = match length {
            BodyLength::None => BodyState::Done,
            BodyLength::Exact(length) if length > content_max => return Err(RequestError::BodyTooLarge),
            BodyLength::Exact(length) => BodyState::Exact(length),
            BodyLength::Chunked => BodyState::Size { value: 0, digits: 0 },
        };
        let ignored_left = IGNORED_BYTES_MAX;
        Ok(Self { state, content_left: content_max, framing_left: framing_max, ignored_left })
    }

    /// Returns whether nothing is left to come.
    pub fn is_done(&self) -> bool {
        matches!(self.state, BodyState::Done)
    }

    /// Returns the number of bytes of content that come next without anything between them.
    pub fn run_left(&self) -> u64 {
        match self.state {
            BodyState::Exact(left) | BodyState::Data(left) => left,
            _ => 0,
        }
    }

    /// Returns whether its end is known, and at most `bytes` away.
    pub fn is_shorter_than(&self, bytes: u64) -> bool {
        match self.state {
            BodyState::Done => true,
            BodyState::Exact(left) => left <= bytes,
            _ => false,
        }
    }

    /// Passes over content that was received elsewhere, at most [`BodyReader::run_left`] bytes.
    pub fn pass(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.run_left());
        if let BodyState::Exact(left) | BodyState::Data(left) = &mut self.state {
            *left -= bytes;
            let is_over = *left == 0;
            self.content_left -= bytes;
            if is_over {
                self.end_run();
            }
        }
    }

    fn end_run(&mut self) {
        self.state = match self.state {
            BodyState::Data(_) => BodyState::DataCr,
            _ => BodyState::Done,
        };
    }

    /// Takes what has arrived up to the end of the first run of content, or all of it where there is none. After an
    /// error the connection must be closed.
    pub fn feed(&mut self, input: &[u8]) -> Result<Content, RequestError> {
        let mut at = 0;
        while let Some(&byte) = input.get(at).filter(|_| !self.is_done()) {
            if let BodyState::Exact(left) | BodyState::Data(left) = &mut self.state {
                let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len() - at);
                *left -= taken as u64;
                if *left == 0 {
                    self.end_run();
                }
                self.content_left -= taken as u64;
                let content = at..at + taken;
                return Ok(Content { consumed: content.end, content, done: self.is_done() });
            }
            self.framing_left = self.framing_left.checked_sub(1).ok_or(RequestError::BodyTooLarge)?;
            if self.state.is_ignored() {
                self.ignored_left = self.ignored_left.checked_sub(1).ok_or(RequestError::HeadTooLarge)?;
            }
            self.state = self.state.framing_byte(byte)?;
            if matches!(self.state, BodyState::Data(size) if size > self.content_left) {
                return Err(RequestError::BodyTooLarge);
            }
            at += 1;
        }
        Ok(Content { consumed: at, content: at..at, done: self.is_done() })
    }
}

/// State in the grammar of RFC 9112 7.1 before the next byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyState {
    Exact(u64),
    Size { value: u64, digits: u8 },
    Extension { size: u64, at: Extension },
    SizeLf { size: u64 },
    Data(u64),
    DataCr,
    DataLf,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    EndLf,
    Done,
}

/// Last part that was read of `*( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )` (RFC 9112 7.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extension {
    /// Blanks that a semicolon must follow.
    Blank,
    /// A semicolon and perhaps blanks.
    Semicolon,
    Name,
    /// A name and blanks: an equals sign or the next semicolon must follow.
    NameBlank,
    /// An equals sign and perhaps blanks.
    Equals,
    Token,
    Quoted,
    /// A backslash within quotes.
    Escape,
    /// The closing quote.
    Unquoted,
}

impl Extension {
    /// Returns the place after one byte that is not the CR; `None` when it may not stand here.
    fn next(self, byte: u8) -> Option<Self> {
        let is_blank = matches!(byte, b' ' | b'\t');
        match (self, byte) {
            (Self::Quoted, b'"') => Some(Self::Unquoted),
            (Self::Quoted, b'\\') => Some(Self::Escape),
            (Self::Quoted | Self::Escape, _) if is_field_byte(byte) => Some(Self::Quoted),
            (Self::Quoted | Self::Escape, _) => None,
            (Self::Blank | Self::Semicolon | Self::NameBlank | Self::Equals, _) if is_blank => Some(self),
            (Self::Semicolon | Self::Name, _) if is_token_byte(byte) => Some(Self::Name),
            (Self::Name, _) if is_blank => Some(Self::NameBlank),
            (Self::Name | Self::NameBlank, b'=') => Some(Self::Equals),
            (Self::Equals, b'"') => Some(Self::Quoted),
            (Self::Equals | Self::Token, _) if is_token_byte(byte) => Some(Self::Token),
            (Self::Token | Self::Unquoted, _) if is_blank => Some(Self::Blank),
            (Self::Blank | Self::Name | Self::NameBlank | Self::Token | Self::Unquoted, b';') => {
                Some(Self::Semicolon)
            }
            _ => None,
        }
    }

    fn may_end(self) -> bool {
        matches!(self, Self::Name | Self::Token | Self::Unquoted)
    }
}

impl BodyState {
    /// Returns whether the next byte is of an extension or of a trailer.
    fn is_ignored(self) -> bool {
        matches!(
            self,
            Self::Extension { .. }
                | Self::TrailerStart
                | Self::TrailerName
                | Self::TrailerValue
                | Self::TrailerLf
        )
    }

    /// Returns the state after one byte of framing. Extensions and trailers are skipped, not understood, but must be
    /// well-formed: a byte out of place is where two parsers come apart.
    fn framing_byte(self, byte: u8) -> Result<Self, RequestError> {
        let next = match (self, byte) {
            (Self::Size { value, digits }, _) if byte.is_ascii_hexdigit() && digits < SIZE_DIGITS_MAX => {
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                Self::Size { value: value << 4 | u64::from(digit), digits: digits + 1 }
            }
            (Self::Size { value, digits: 1.. }, b'\r') => Self::SizeLf { size: value },
            (Self::Size { value, digits: 1.. }, b';') => {
                Self::Extension { size: value, at: Extension::Semicolon }
            }
            (Self::Size { value, digits: 1.. }, b' ' | b'\t') => {
                Self::Extension { size: value, at: Extension::Blank }
            }
            (Self::Extension { size, at }, b'\r') if at.may_end() => Self::SizeLf { size },
            (Self::Extension { size, at }, _) => {
                Self::Extension { size, at: at.next(byte).ok_or(RequestError::ChunkedBody)? }
            }
            (Self::SizeLf { size: 0 }, b'\n') => Self::TrailerStart,
            (Self::SizeLf { size }, b'\n') => Self::Data(size),
            (Self::DataCr, b'\r') => Self::DataLf,
            (Self::DataLf, b'\n') => Self::Size { value: 0, digits: 0 },
            (Self::TrailerStart, b'\r') => Self::EndLf,
            (Self::TrailerStart | Self::TrailerName, _) if is_token_byte(byte) => Self::TrailerName,
            (Self::TrailerName, b':') => Self::TrailerValue,
            (Self::TrailerValue, b'\r') => Self::TrailerLf,
            (Self::TrailerValue, _) if is_field_byte(byte) => self,
            (Self::TrailerLf, b'\n') => Self::TrailerStart,
            (Self::EndLf, b'\n') => Self::Done,
            _ => return Err(RequestError::ChunkedBody),
        };
        Ok(next)
    }
}

fn is_field_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// Returns true for `tchar` (RFC 9110 5.6.2).
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

//@ limit: chunk extensions and trailers of a request body
//@ section: HTTP
//@ unit: byte
//@ connection: {:b} of one body
//@ empty: 431, and the connection ends; others feel nothing
//@ counter: http_refused{reason="head_too_large"}
//@ attack: http-edges
/// Most bytes of extensions and trailers, none of which are used (RFC 9112 7.1.1 asks for a bound).
const IGNORED_BYTES_MAX: u64 = 16 * 1024;
/// Enough for any size a `u64` holds.
const SIZE_DIGITS_MAX: u8 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what one body took of the input, and whether it ended.
    fn read(length: BodyLength, input: &[u8]) -> Result<(usize, bool), RequestError> {
        let mut body = BodyReader::new(length, 1024, 1024)?;
        let mut taken = 0;
        while taken < input.len() && !body.is_done() {
            taken += body.feed(&input[taken..])?.consumed;
        }
        Ok((taken, body.is_done()))
    }

    #[test]
    fn chunked_body_ends_at_the_empty_line_after_the_last_chunk() {
        let body = b"5\r\nhello\r\nA;name=\"v\"\r\n0123456789\r\n0\r\nX: y\r\n\r\n";
        let mut wire = body.to_vec();
        wire.extend_from_slice(b"GET /");
        let fed = read(BodyLength::Chunked, &wire).unwrap();
        assert_eq!(fed, (body.len(), true));
    }

    #[test]
    fn extensions_are_names_with_or_without_values() {
        for extensions in [
            "",
            ";a",
            ";a;b",
            " ;\ta",
            ";a=b",
            ";a=\"\"",
            "; a = b ; c\t=\t\"d;e = \\\" \\\\\";f",
            ";a=\"\u{fc}\t\"",
        ] {
            let body = format!("3{extensions}\r\nabc\r\n0{extensions}\r\nTrailer:\r\n\r\n");
            let fed = read(BodyLength::Chunked, body.as_bytes());
            assert_eq!(fed, Ok((body.len(), true)), "{extensions:?}");
        }
        for extensions in [
            ";",
            " ",
            ";;a",
            ";a;",
            ";a ",
            ";a=",
            ";a= ",
            ";=b",
            ";a==b",
            ";a=b c",
            ";a b",
            ";a=\"",
            ";a=\"b\"c",
            ";a=\"b\\\"",
            ";a=b\"c\"",
            ";a=b ",
            ";\u{fc}",
            ";a=(b)",
            ";a,b",
            ";a=\"\u{7f}\"",
            ";a=\"\u{1}\"",
            " a",
            "\u{b}",
        ] {
            let body = format!("3{extensions}\r\nabc\r\n0\r\n\r\n");
            let fed = read(BodyLength::Chunked, body.as_bytes());
            assert_eq!(fed, Err(RequestError::ChunkedBody), "{extensions:?}");
        }
    }

    #[test]
    fn exact_body_leaves_the_next_request() {
        assert_eq!(read(BodyLength::Exact(3), b"abcGET"), Ok((3, true)));
        assert_eq!(read(BodyLength::Exact(3), b"ab"), Ok((2, false)));
        assert_eq!(read(BodyLength::None, b"GET"), Ok((0, true)));
    }

    #[test]
    fn malformed_framing_is_refused() {
        for body in [
            &b"\r\n"[..],
            b"g\r\n",
            b"-1\r\n",
            b"0x5\r\n",
            b" 5\r\n",
            b"5 \r\n",
            b"5\n",
            b"5\r\r",
            b"3\r\nabcd\r\n",
            b"3\r\nabc\n",
            b"3\r\nabcX",
            b"0\r\n\n",
            b"0\r\nA: b\n",
            b"0\r\n A: b\r\n",
            b"1;a\nb\r\n",
            b"1;a\0\r\n",
            b";a\r\n",
            b"0\r\nA\r\n",
            b"0\r\nA : b\r\n",
            b"0\r\n: b\r\n",
            b"00000000000000001\r\n",
        ] {
            assert_eq!(
                read(BodyLength::Chunked, body),
                Err(RequestError::ChunkedBody),
                "{}",
                body.escape_ascii()
            );
        }
    }

    #[test]
    fn too_long_bodies_are_refused_early_or_when_the_budget_ends() {
        assert_eq!(read(BodyLength::Exact(1025), b""), Err(RequestError::BodyTooLarge));
        let huge = [&b"ffffffffffffffff\r\n"[..], &[b'x'; 1024]].concat();
        assert_eq!(read(BodyLength::Chunked, &huge), Err(RequestError::BodyTooLarge));
        let endless_extension = [&b"1;"[..], &[b'x'; 1024]].concat();
        assert_eq!(read(BodyLength::Chunked, &endless_extension), Err(RequestError::BodyTooLarge));
    }

    /// The content of a body that comes in pieces of `step` bytes, and how many bytes it took.
    fn content_of(length: BodyLength, input: &[u8], step: usize) -> Result<(Vec<u8>, usize), RequestError> {
        let mut body = BodyReader::new(length, 1024, 64)?;
        let (mut content, mut taken) = (Vec::new(), 0);
        for mut piece in input.chunks(step) {
            while !piece.is_empty() && !body.is_done() {
                let fed = body.feed(piece)?;
                assert!(fed.consumed > 0 && fed.content.end <= fed.consumed);
                content.extend_from_slice(&piece[fed.content]);
                piece = &piece[fed.consumed..];
                taken += fed.consumed;
                assert_eq!(fed.done, body.is_done());
            }
        }
        Ok((content, taken))
    }

    #[test]
    fn content_is_what_the_client_sent_however_it_is_cut() {
        let chunked = b"5;a=b\r\nhello\r\n1\r\n \r\nA\r\n0123456789\r\n0\r\nX: y\r\n\r\n";
        let wire = [&chunked[..], b"GET /"].concat();
        for step in 1..wire.len() {
            let found = content_of(BodyLength::Chunked, &wire, step).unwrap();
            assert_eq!(found, (b"hello 0123456789".to_vec(), chunked.len()), "{step}");
            let found = content_of(BodyLength::Exact(3), b"abcGET", step).unwrap();
            assert_eq!(found, (b"abc".to_vec(), 3));
        }
        assert_eq!(content_of(BodyLength::None, b"GET", 3).unwrap(), (Vec::new(), 0));
    }

    #[test]
    fn chunk_that_would_be_too_much_is_refused_by_its_size_and_framing_without_end_by_its_own_bound() {
        let refused = |wire: &[u8]| content_of(BodyLength::Chunked, wire, 7).unwrap_err();
        assert_eq!(refused(b"401\r\n"), RequestError::BodyTooLarge);
        let one_and_more = [&b"3ff\r\n"[..], &[b'x'; 1023], b"\r\n2\r\n"].concat();
        assert_eq!(refused(&one_and_more), RequestError::BodyTooLarge);
        // Content of one byte a chunk is more framing than content.
        assert_eq!(refused(&b"1\r\nx\r\n".repeat(20)), RequestError::BodyTooLarge);
        assert_eq!(
            BodyReader::new(BodyLength::Exact(1025), 1024, 0).unwrap_err(),
            RequestError::BodyTooLarge
        );
    }

    #[test]
    fn extensions_and_trailers_have_a_bound_of_their_own_however_long_the_body_is() {
        let read = |wire: &[u8]| {
            let mut body = BodyReader::new(BodyLength::Chunked, 1 << 30, 1 << 30)?;
            let mut taken = 0;
            while taken < wire.len() && !body.is_done() {
                taken += body.feed(&wire[taken..])?.consumed;
            }
            Ok(body.is_done())
        };
        let line = |len: usize| vec![b'x'; len];
        let extended = |len, chunks| [&b"1;"[..], &line(len), b"\r\nx\r\n"].concat().repeat(chunks);
        let end = b"0\r\n\r\n";
        assert_eq!(read(&[&extended(15 << 10, 1)[..], end].concat()), Ok(true));
        assert_eq!(read(&extended(17 << 10, 1)), Err(RequestError::HeadTooLarge));
        assert_eq!(read(&extended(1000, 17)), Err(RequestError::HeadTooLarge), "of all chunks together");
        let trailer = |len| [&b"0\r\na: "[..], &line(len), b"\r\n\r\n"].concat();
        assert_eq!(read(&trailer(15 << 10)), Ok(true));
        assert_eq!(read(&trailer(17 << 10)), Err(RequestError::HeadTooLarge));
        assert_eq!(
            read(&[&b"0\r\n"[..], &b"a: b\r\n".repeat(3000)].concat()),
            Err(RequestError::HeadTooLarge)
        );
        assert_eq!(
            read(&[&extended(9 << 10, 1)[..], &trailer(9 << 10)].concat()),
            Err(RequestError::HeadTooLarge)
        );
        // Chunks themselves are not meant.
        assert_eq!(read(&[&b"1\r\nx\r\n".repeat(20_000)[..], end].concat()), Ok(true));
    }
}
