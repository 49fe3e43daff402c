//! The service of OpenAFS's rxperf tool, version 3, as a codec without I/O: what `linerate bench rx` speaks.
//!
//! Service 147 on UDP port 7009, security index 0 (null). A call does one piece of [`Work`]; all integers are
//! big-endian words and "send" and "receive" are meant from the client:
//!
//! ```text
//!           word 0    1         2            3            4 …                        then
//! request   version   command   read chunk   write chunk  0 send     bytes           bytes from the client
//!           3         0 1 3 4   <= 512 KiB   <= 512 KiB   1 receive  bytes
//!                                                         3 rpc      send, receive   send bytes from the client
//!                                                         4 file     n, n steps      what the steps say
//! reply     the bytes to the client, then the cookie 0x4711 (not after a file)
//! ```
//!
//! The chunk sizes say how much the server is to move with each read and write call; they shape nothing on the wire. A
//! step of a file is a number of words that the client sends; a step of 0 turns the direction round. An Rx call turns
//! round once only, so a list that goes back to the client sending fails in rxperf and is refused here. Payload is
//! zeros. What the server cannot take it aborts with −1. Source: OpenAFS `src/tools/rxperf/rxperf.c`.

mod service;
mod transfer;

use xdr::{Reader, Writer};

pub use service::serve;
pub use transfer::{Inbound, Outbound, Reply};

/// The Rx service id.
pub const SERVICE: u16 = 147;
/// The UDP port that stock server and client use unless told otherwise.
pub const PORT: u16 = 7009;
/// The version of the request layout. A stock server takes this one only.
pub const VERSION: u32 = 3;
/// The word that ends a reply.
pub const COOKIE: u32 = 0x4711;
/// The code that a call is aborted with, whatever was wrong with it.
pub const ABORT_CODE: i32 = -1;
/// The largest chunk size that a stock server takes, in bytes, and what a stock client asks for.
pub const MAX_CHUNK: u32 = 512 * 1024;
/// The most bytes that one number of a request can ask for: stock peers keep them in a signed 32-bit integer.
pub const MAX_BYTES: u32 = i32::MAX as u32;
/// The most steps of a file taken here. A stock server has no limit and allocates what it is told.
pub const MAX_STEPS: usize = 16 * 1024;

/// A step of a file that turns the direction round.
const TURN: u32 = 0;
/// Bytes of a step's unit.
const WORD: u32 = 4;

/// Work of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// The client sends bytes.
    Send {
        /// Number of bytes.
        bytes: u32,
    },
    /// The client receives bytes.
    Receive {
        /// Number of bytes.
        bytes: u32,
    },
    /// The client sends bytes, then receives bytes.
    Rpc {
        /// Bytes that the client sends.
        send: u32,
        /// Bytes that the client receives.
        receive: u32,
    },
    /// The client and the server follow a list: how many words to send, one way until a 0, then the other.
    File(Vec<u32>),
}

/// Command words.
mod command {
    pub(super) const SEND: u32 = 0;
    pub(super) const RECEIVE: u32 = 1;
    pub(super) const RPC: u32 = 3;
    pub(super) const FILE: u32 = 4;
}

/// The bytes that a piece of work moves, without the request's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Plan {
    /// Payload from the client.
    pub from_client: u64,
    /// Payload to the client.
    pub to_client: u64,
    /// Set if the cookie follows the payload to the client.
    pub cookie: bool,
}

/// The head of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Bytes that the server is to take with each read, at most [`MAX_CHUNK`].
    pub read_chunk: u32,
    /// Bytes that the server is to give with each write, at most [`MAX_CHUNK`].
    pub write_chunk: u32,
    /// Work of the call.
    pub work: Work,
}

/// Reason why a request or reply is refused. The call is aborted with [`ABORT_CODE`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The head of the request ends too soon or lists too many steps.
    #[error("bad rxperf request: {0}")]
    Head(#[from] xdr::Error),
    /// The client speaks another version.
    #[error("rxperf version {0} is not {VERSION}")]
    Version(u32),
    /// The command is none of the four.
    #[error("rxperf has no command {0}")]
    Command(u32),
    /// A chunk size is above [`MAX_CHUNK`].
    #[error("chunk size {0} is above {MAX_CHUNK}")]
    Chunk(u32),
    /// A number of bytes is above [`MAX_BYTES`].
    #[error("{0} bytes are more than {MAX_BYTES}")]
    Bytes(u64),
    /// A file makes the client send again after it has received.
    #[error("step {0} lets the client send after it has received: an Rx call turns round once only")]
    TurnsBack(usize),
    /// A line of a file's text is neither empty nor a number.
    #[error("line {0} is neither empty nor a number of words")]
    Line(usize),
    /// The peer ended its side with payload missing.
    #[error("{0} bytes of payload are missing")]
    Missing(u64),
    /// The peer sent more than was asked for.
    #[error("bytes beyond the payload asked for")]
    Excess,
    /// The word at the end of the reply is not the cookie.
    #[error("reply ends in {0:#x} instead of the cookie")]
    Cookie(u32),
}

impl Work {
    /// Parses the text of a file as rxperf reads it. Each line has a number of words in decimal, octal (`0…`) or
    /// hexadecimal (`0x…`); an empty line turns the direction round.
    pub fn file(text: &str) -> Result<Self, Error> {
        let step = |(index, line): (usize, &str)| match line.trim() {
            "" => Ok(TURN),
            line => number(line).ok_or(Error::Line(index + 1)),
        };
        let work = Self::File(text.lines().enumerate().map(step).collect::<Result<_, _>>()?);
        work.plan().map(|_| work)
    }

    /// Returns the bytes that the work moves. Fails with [`Error::Bytes`] or [`Error::TurnsBack`] if stock peers could
    /// not do it.
    pub fn plan(&self) -> Result<Plan, Error> {
        let (from_client, to_client) = match *self {
            Self::Send { bytes } => (bytes, 0),
            Self::Receive { bytes } => (0, bytes),
            Self::Rpc { send, receive } => (send, receive),
            Self::File(ref steps) => return file_plan(steps),
        };
        if let Some(bytes) = [from_client, to_client].into_iter().find(|&bytes| bytes > MAX_BYTES) {
            return Err(Error::Bytes(bytes.into()));
        }
        Ok(Plan { from_client: from_client.into(), to_client: to_client.into(), cookie: true })
    }
}

impl Request {
    /// Makes a request with the chunk sizes of a stock client.
    pub const fn new(work: Work) -> Self {
        Self { read_chunk: MAX_CHUNK, write_chunk: MAX_CHUNK, work }
    }

    /// Encodes the head as it goes on the wire, before the client's payload. Fails where [`Request::decode`] would.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        self.check()?;
        let mut head = Vec::new();
        let mut writer = Writer::new(&mut head);
        let mut words = |words: &[u32]| words.iter().try_for_each(|&word| writer.u32(word));
        let command = match self.work {
            Work::Send { .. } => command::SEND,
            Work::Receive { .. } => command::RECEIVE,
            Work::Rpc { .. } => command::RPC,
            Work::File(_) => command::FILE,
        };
        words(&[VERSION, command, self.read_chunk, self.write_chunk])?;
        match self.work {
            Work::Send { bytes } | Work::Receive { bytes } => words(&[bytes])?,
            Work::Rpc { send, receive } => words(&[send, receive])?,
            Work::File(ref steps) => writer.value::<xdr::List<u32, MAX_STEPS>>(&steps.clone().into())?,
        }
        Ok(head)
    }

    /// Reads the head; the reader then stands at the client's payload. [`Error::is_incomplete`] tells whether more
    /// bytes could help.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let version = reader.u32()?;
        if version != VERSION {
            return Err(Error::Version(version));
        }
        let command = reader.u32()?;
        let (read_chunk, write_chunk) = (reader.u32()?, reader.u32()?);
        let work = match command {
            command::SEND => Work::Send { bytes: reader.u32()? },
            command::RECEIVE => Work::Receive { bytes: reader.u32()? },
            command::RPC => Work::Rpc { send: reader.u32()?, receive: reader.u32()? },
            command::FILE => Work::File(reader.value::<xdr::List<u32, MAX_STEPS>>()?.0),
            command => return Err(Error::Command(command)),
        };
        let request = Self { read_chunk, write_chunk, work };
        request.check()?;
        Ok(request)
    }

    fn check(&self) -> Result<(), Error> {
        if let Some(chunk) = [self.read_chunk, self.write_chunk].into_iter().find(|&chunk| chunk > MAX_CHUNK)
        {
            return Err(Error::Chunk(chunk));
        }
        self.work.plan().map(drop)
    }
}

impl Error {
    /// Returns whether the input merely ended too soon, so that a caller can wait for more of the request.
    pub const fn is_incomplete(&self) -> bool {
        matches!(self, Self::Head(error) if error.is_truncated())
    }
}

fn file_plan(steps: &[u32]) -> Result<Plan, Error> {
    let mut plan = Plan::default();
    let mut turns = 0;
    for (index, &step) in steps.iter().enumerate() {
        let bytes = u64::from(step) * u64::from(WORD);
        match (step, turns) {
            (TURN, _) => turns += 1,
            _ if bytes > MAX_BYTES.into() => return Err(Error::Bytes(bytes)),
            (_, 0) => plan.from_client += bytes,
            // Turning to and fro with nothing between moves nothing: only the direction counts.
            (_, odd) if odd % 2 == 1 => plan.to_client += bytes,
            _ if plan.to_client > 0 => return Err(Error::TurnsBack(index)),
            _ => plan.from_client += bytes,
        }
    }
    Ok(plan)
}

/// Reads a number as C's `strtol` does with base 0, but takes nothing behind it.
fn number(text: &str) -> Option<u32> {
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return u32::from_str_radix(digits, 16).ok();
    }
    match text.strip_prefix('0') {
        Some(octal) if !octal.is_empty() => u32::from_str_radix(octal, 8).ok(),
        _ => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    fn head(work: Work) -> Vec<u8> {
        Request::new(work).encode().unwrap()
    }

    fn decode(bytes: &[u8]) -> Result<Request, Error> {
        Request::decode(&mut Reader::new(bytes))
    }

    #[test]
    fn heads_have_the_layout_of_rxperf_version_3() {
        let chunk = 0x80000;
        assert_eq!(head(Work::Send { bytes: 9 }), words(&[3, 0, chunk, chunk, 9]));
        assert_eq!(head(Work::Receive { bytes: 9 }), words(&[3, 1, chunk, chunk, 9]));
        assert_eq!(head(Work::Rpc { send: 3, receive: 30 }), words(&[3, 3, chunk, chunk, 3, 30]));
        assert_eq!(head(Work::File(vec![2, 0, 1])), words(&[3, 4, chunk, chunk, 3, 2, 0, 1]));
    }

    #[test]
    fn file_text_is_words_per_line_and_empty_lines_turn() {
        assert_eq!(Work::file("16\n0x10\n\n010\n"), Ok(Work::File(vec![16, 16, 0, 8])));
        assert_eq!(Work::file("16\nten\n"), Err(Error::Line(2)));
        assert_eq!(Work::file("1\n-2"), Err(Error::Line(2)));
    }

    #[test]
    fn file_may_turn_round_only_once() {
        assert_eq!(Work::File(vec![1, 0, 2, 0, 3]).plan(), Err(Error::TurnsBack(4)));
        let turned = Plan { from_client: 4, to_client: 8, cookie: false };
        assert_eq!(Work::File(vec![1, 0, 2, 0, 0]).plan(), Ok(turned));
        assert_eq!(Work::File(vec![0, 0, 1, 0, 2, 0]).plan(), Ok(turned));
    }

    #[test]
    fn what_a_stock_server_refuses_is_refused() {
        assert_eq!(decode(&words(&[2, 0, 0, 0, 0])), Err(Error::Version(2)));
        assert_eq!(decode(&words(&[3, 2, 0, 0, 0])), Err(Error::Command(2)));
        assert_eq!(decode(&words(&[3, 0, MAX_CHUNK + 1, 0, 0])), Err(Error::Chunk(MAX_CHUNK + 1)));
        assert_eq!(decode(&words(&[3, 0, 0, u32::MAX, 0])), Err(Error::Chunk(u32::MAX)));
        assert_eq!(decode(&words(&[3, 0, 0, 0, 1 << 31])), Err(Error::Bytes(1 << 31)));
        assert_eq!(decode(&words(&[3, 4, 0, 0, 1, 1 << 29])), Err(Error::Bytes(1 << 31)));
    }

    #[test]
    fn step_count_is_bounded_before_anything_is_allocated() {
        let error = decode(&words(&[3, 4, 0, 0, u32::MAX])).unwrap_err();
        assert!(matches!(error, Error::Head(xdr::Error::TooLong { .. })) && !error.is_incomplete());
        assert!(Request::new(Work::File(vec![1; MAX_STEPS + 1])).encode().is_err());
    }
}
