//! Request bodies that nobody wants: their bytes are counted, checked and thrown away.
//!
//! A file service needs no request body, but one may come, and the connection goes on after it.

use crate::refusal::Refusal;
use crate::request::BodyLength;

/// Discards one request body as its bytes arrive.
#[derive(Clone, Debug)]
pub struct BodyDiscard {
    state: State,
    /// Bytes of any kind that may still come: data, chunk framing and trailers alike.
    budget: u64,
}

/// What [`BodyDiscard::feed`] made of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fed {
    /// Bytes of the input that belonged to the body.
    pub consumed: usize,
    /// The body has ended; the rest of the input is the next request.
    pub done: bool,
}

impl BodyDiscard {
    /// Begins a body. One announced to be longer than `bytes_max` is refused at once.
    pub fn new(length: BodyLength, bytes_max: u64) -> Result<Self, Refusal> {
        let state = match length {
            BodyLength::None => State::Done,
            BodyLength::Exact(length) if length > bytes_max => return Err(Refusal::BodyTooLarge),
            BodyLength::Exact(length) => State::Exact(length),
            BodyLength::Chunked => State::Size { value: 0, digits: 0 },
        };
        Ok(Self { state, budget: bytes_max })
    }

    /// Whether nothing is left to come.
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Takes what has arrived. After an error the connection must be closed.
    pub fn feed(&mut self, input: &[u8]) -> Result<Fed, Refusal> {
        let mut rest = input;
        while !self.is_done() && !rest.is_empty() {
            let taken = match &mut self.state {
                State::Exact(left) | State::Data(left) => {
                    let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                    *left -= taken as u64;
                    if *left == 0 {
                        self.state =
                            if matches!(self.state, State::Data(_)) { State::DataCr } else { State::Done };
                    }
                    taken
                }
                _ => {
                    self.state = self.state.framing_byte(rest[0])?;
                    1
                }
            };
            self.budget = self.budget.checked_sub(taken as u64).ok_or(Refusal::BodyTooLarge)?;
            rest = &rest[taken..];
        }
        Ok(Fed { consumed: input.len() - rest.len(), done: self.is_done() })
    }
}

/// Where in the grammar of RFC 9112 7.1 the next byte stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
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

/// Where in `*( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )` (RFC 9112 7.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extension {
    /// After blanks that a semicolon must follow.
    Blank,
    /// After a semicolon and perhaps blanks.
    Semicolon,
    Name,
    /// After a name and blanks: an equals sign or the next semicolon must follow.
    NameBlank,
    /// After an equals sign and perhaps blanks.
    Equals,
    Token,
    Quoted,
    /// After a backslash within quotes.
    Escape,
    /// After the closing quote.
    Unquoted,
}

impl Extension {
    /// The place after one byte that is not the CR; `None` when it may not stand here.
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

impl State {
    /// The state after one byte of framing. Extensions and trailers are skipped, not understood, but must
    /// be well-formed: a byte out of place is where two parsers come apart.
    fn framing_byte(self, byte: u8) -> Result<Self, Refusal> {
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
                Self::Extension { size, at: at.next(byte).ok_or(Refusal::ChunkedBody)? }
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
            _ => return Err(Refusal::ChunkedBody),
        };
        Ok(next)
    }
}

fn is_field_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// `tchar` (RFC 9110 5.6.2).
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Enough for any size a `u64` holds.
const SIZE_DIGITS_MAX: u8 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn discard(length: BodyLength, input: &[u8]) -> Result<Fed, Refusal> {
        BodyDiscard::new(length, 1024)?.feed(input)
    }

    #[test]
    fn chunked_body_ends_at_the_empty_line_after_the_last_chunk() {
        let body = b"5\r\nhello\r\nA;name=\"v\"\r\n0123456789\r\n0\r\nX: y\r\n\r\n";
        let mut wire = body.to_vec();
        wire.extend_from_slice(b"GET /");
        let fed = discard(BodyLength::Chunked, &wire).unwrap();
        assert_eq!(fed, Fed { consumed: body.len(), done: true });
    }

    #[test]
    fn body_may_arrive_one_byte_at_a_time() {
        let body = b"3\r\nabc\r\n00\r\n\r\n";
        let mut discard = BodyDiscard::new(BodyLength::Chunked, 1024).unwrap();
        for (position, byte) in body.iter().enumerate() {
            let fed = discard.feed(std::slice::from_ref(byte)).unwrap();
            assert_eq!(fed, Fed { consumed: 1, done: position + 1 == body.len() });
        }
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
            let fed = discard(BodyLength::Chunked, body.as_bytes());
            assert_eq!(fed, Ok(Fed { consumed: body.len(), done: true }), "{extensions:?}");
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
            let fed = discard(BodyLength::Chunked, body.as_bytes());
            assert_eq!(fed, Err(Refusal::ChunkedBody), "{extensions:?}");
        }
    }

    #[test]
    fn exact_body_leaves_the_next_request() {
        assert_eq!(discard(BodyLength::Exact(3), b"abcGET"), Ok(Fed { consumed: 3, done: true }));
        assert_eq!(discard(BodyLength::Exact(3), b"ab"), Ok(Fed { consumed: 2, done: false }));
        assert_eq!(discard(BodyLength::None, b"GET"), Ok(Fed { consumed: 0, done: true }));
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
                discard(BodyLength::Chunked, body),
                Err(Refusal::ChunkedBody),
                "{}",
                body.escape_ascii()
            );
        }
    }

    #[test]
    fn too_long_bodies_are_refused_early_or_when_the_budget_ends() {
        assert_eq!(discard(BodyLength::Exact(1025), b""), Err(Refusal::BodyTooLarge));
        let huge = [&b"ffffffffffffffff\r\n"[..], &[b'x'; 1024]].concat();
        assert_eq!(discard(BodyLength::Chunked, &huge), Err(Refusal::BodyTooLarge));
        let endless_extension = [&b"1;"[..], &[b'x'; 1024]].concat();
        assert_eq!(discard(BodyLength::Chunked, &endless_extension), Err(Refusal::BodyTooLarge));
    }
}
