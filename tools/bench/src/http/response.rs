//! Takes answers apart as bytes come in, whatever the cuts: a state machine without sockets.

use super::error::ClientError;

/// Reads one answer after another.
#[derive(Debug)]
pub(super) struct ResponseReader {
    head: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    Body { left: u64 },
}

/// Result of [`ResponseReader::feed`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    /// Nothing yet: it takes more bytes.
    Nothing,
    /// The answer's head.
    Head { status: u16, length: u64, keep_alive: bool },
    /// The next bytes of the body; `last` ends the answer.
    Body { bytes: &'a [u8], last: bool },
}

impl ResponseReader {
    pub(super) fn new() -> Self {
        Self { head: Vec::new(), state: State::Head }
    }

    /// Takes bytes off the front of `input`; says how many and what they were. An answer without a body is
    /// reported as its head, then as an empty last part.
    pub(super) fn feed<'a>(&mut self, input: &'a [u8]) -> Result<(usize, Found<'a>), ClientError> {
        match self.state {
            State::Head => self.feed_head(input),
            State::Body { left } => {
                if input.is_empty() && left > 0 {
                    return Ok((0, Found::Nothing));
                }
                let n = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                let left = left - n as u64;
                self.state = if left == 0 { State::Head } else { State::Body { left } };
                Ok((n, Found::Body { bytes: &input[..n], last: left == 0 }))
            }
        }
    }

    fn feed_head<'a>(&mut self, input: &'a [u8]) -> Result<(usize, Found<'a>), ClientError> {
        // Answers mostly come whole: then nothing is copied.
        if self.head.is_empty() {
            if let Some((used, found)) = parse(input)? {
                return Ok((used, self.begin(found)));
            }
            self.head.extend_from_slice(input);
            return self.check_size().map(|()| (input.len(), Found::Nothing));
        }
        let before = self.head.len();
        self.head.extend_from_slice(input);
        match parse(&self.head)? {
            Some((used, found)) => {
                self.head.clear();
                Ok((used - before, self.begin(found)))
            }
            None => self.check_size().map(|()| (input.len(), Found::Nothing)),
        }
    }

    fn begin<'a>(&mut self, found: Found<'a>) -> Found<'a> {
        if let Found::Head { length, .. } = found {
            self.state = State::Body { left: length };
        }
        found
    }

    fn check_size(&self) -> Result<(), ClientError> {
        if self.head.len() > HEAD_MAX { Err(ClientError::BadAnswer("a head above 64 KiB")) } else { Ok(()) }
    }
}

fn parse(bytes: &[u8]) -> Result<Option<(usize, Found<'static>)>, ClientError> {
    let mut headers = [httparse::EMPTY_HEADER; 100];
    let mut response = httparse::Response::new(&mut headers);
    let used = match response.parse(bytes) {
        Ok(httparse::Status::Complete(used)) => used,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(ClientError::BadAnswer("a head that is not HTTP/1.1")),
    };
    let status = response.code.ok_or(ClientError::BadAnswer("no status"))?;
    let mut length = None;
    let mut keep_alive = response.version == Some(1);
    for header in response.headers.iter() {
        if header.name.eq_ignore_ascii_case("content-length") {
            let text = std::str::from_utf8(header.value).ok().and_then(|text| text.trim().parse().ok());
            length = Some(text.ok_or(ClientError::BadAnswer("a Content-Length that is no number"))?);
        } else if header.name.eq_ignore_ascii_case("connection") {
            keep_alive &= !header.value.eq_ignore_ascii_case(b"close");
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(ClientError::BadAnswer("a body without a length (Transfer-Encoding)"));
        }
    }
    let length = length.ok_or(ClientError::BadAnswer("a body without a length"))?;
    Ok(Some((used, Found::Head { status, length, keep_alive })))
}

const HEAD_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_the_same_whatever_the_cuts() {
        let wire =
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n";
        for step in 1..=wire.len() {
            let mut reader = ResponseReader::new();
            let (mut statuses, mut body, mut ends) = (Vec::new(), Vec::new(), 0);
            for mut chunk in wire.chunks(step) {
                loop {
                    let (used, found) = reader.feed(chunk).unwrap();
                    chunk = &chunk[used..];
                    match found {
                        Found::Nothing => break,
                        Found::Head { status, .. } => statuses.push(status),
                        Found::Body { bytes, last } => {
                            body.extend_from_slice(bytes);
                            ends += u32::from(last);
                        }
                    }
                }
            }
            assert_eq!(
                (statuses, body.as_slice(), ends),
                (vec![200, 404], &b"hello"[..], 2),
                "in steps of {step}"
            );
            assert!(reader.state == State::Head && reader.head.is_empty());
        }
    }

    #[test]
    fn an_endless_head_is_refused() {
        let mut reader = ResponseReader::new();
        let line = b"HTTP/1.1 200 OK\r\n";
        reader.feed(line).unwrap();
        let flood = vec![b'a'; HEAD_MAX + 1];
        assert!(reader.feed(&flood).is_err());
    }
}
