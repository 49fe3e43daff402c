//! Async stubs over the two byte streams of a call, whatever carries them.
//!
//! A split procedure's raw bytes follow its parameters in the same stream, so parameters are read without a byte too
//! many: a decode that ends too soon says how much it lacks at least, and no more than that is asked for.

use core::fmt;
use core::marker::PhantomData;
use core::ops::DerefMut;
use std::time::Instant;

use super::{Call, Fault, Procedure, SplitCall, decode_opcode, decode_reply, encode_request};
use crate::{Decode, Error, Reader, UNIT, Writer};

/// Byte streams of a call as stubs use them: ours to write and the peer's to read.
pub trait CallStream {
    /// Error of a stream, which ends the call.
    type Error;

    /// Reads up to `into.len()` bytes of the peer's stream, waiting for the first; 0 at its end.
    fn read(&mut self, into: &mut [u8]) -> impl Future<Output = Result<usize, Self::Error>>;

    /// Writes all of `bytes`.
    fn write(&mut self, bytes: &[u8]) -> impl Future<Output = Result<(), Self::Error>>;

    /// Ends our stream: the peer reads its end behind the last byte.
    fn finish(&mut self) -> impl Future<Output = Result<(), Self::Error>>;

    /// Returns the time, for statistics.
    fn now(&self) -> Instant;
}

/// Passes calls on, so that a pointer to a stream, such as a box, is a stream too.
impl<T: DerefMut<Target: CallStream>> CallStream for T {
    type Error = <T::Target as CallStream>::Error;

    fn read(&mut self, into: &mut [u8]) -> impl Future<Output = Result<usize, Self::Error>> {
        (**self).read(into)
    }

    fn write(&mut self, bytes: &[u8]) -> impl Future<Output = Result<(), Self::Error>> {
        (**self).write(bytes)
    }

    fn finish(&mut self) -> impl Future<Output = Result<(), Self::Error>> {
        (**self).finish()
    }

    fn now(&self) -> Instant {
        (**self).now()
    }
}

/// Reason why a call did not succeed; `?` converts a stream's error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Failure<E> {
    /// The call's stream failed, which ends the call.
    #[error("{0}")]
    Stream(E),
    /// A stub gave up, over parameters that break the interface or an unknown opcode.
    #[error("{0}")]
    Fault(Fault),
    /// Server: the procedure refuses with this abort code.
    #[error("refused with code {0}")]
    Refused(i32),
}

impl<E> Failure<E> {
    /// Returns the code to abort the call with; `None` where the call has ended already.
    pub const fn abort_code(&self) -> Option<i32> {
        match self {
            Self::Stream(_) => None,
            Self::Fault(fault) => Some(fault.abort_code()),
            Self::Refused(code) => Some(*code),
        }
    }
}

impl<E> From<E> for Failure<E> {
    fn from(error: E) -> Self {
        Self::Stream(error)
    }
}

/// Makes a plain call on a fresh stream, as the client, and reads the reply.
///
/// # Errors
/// [`Failure`]; after [`Failure::Fault`] the call is to be aborted with its code.
pub async fn call<P: Call, C: CallStream>(
    stream: &mut C,
    request: &P,
) -> Result<Received<P>, Failure<C::Error>> {
    write_request(stream, request).await?;
    stream.finish().await?;
    receive(stream).await
}

/// Begins a split call, as the client, by writing its opcode and parameters. The caller moves the raw bytes
/// next, and finishes the stream when it has written all.
///
/// # Errors
/// As [`call`].
pub async fn start<P: SplitCall, C: CallStream>(
    stream: &mut C,
    request: &P,
) -> Result<(), Failure<C::Error>> {
    write_request(stream, request).await
}

/// Ends a split call, as the client: reads the parameters behind the raw bytes, of which the caller has read
/// all.
///
/// # Errors
/// As [`call`].
pub async fn end<P: SplitCall, C: CallStream>(stream: &mut C) -> Result<Received<P>, Failure<C::Error>> {
    receive(stream).await
}

/// Bytes of a reply whose parameters are known to decode.
pub struct Received<P> {
    bytes: Vec<u8>,
    procedure: PhantomData<fn() -> P>,
}

impl<P: Procedure> Received<P> {
    /// Decodes the reply's parameters, which borrow from the bytes.
    pub fn get(&self) -> P::Reply<'_> {
        decode_reply::<P>(&mut Reader::lenient(&self.bytes)).expect("decoded when it came")
    }
}

impl<P> fmt::Debug for Received<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Received").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

/// Bytes of a request's parameters that are known to decode.
pub struct Arguments<P> {
    bytes: Vec<u8>,
    procedure: PhantomData<fn() -> P>,
}

impl<P: Procedure> Arguments<P> {
    /// Decodes the parameters, which borrow from the bytes.
    pub fn get(&self) -> P::Request<'_> {
        Self::decode(&self.bytes).expect("decoded when it came")
    }

    /// Reads the parameters of a plain call, as the server. Bytes behind them are left unread, or thrown
    /// away.
    ///
    /// # Errors
    /// [`Fault::DecodeRequest`] as soon as what has come breaks the interface's bounds, and beyond [`ARGUMENTS_MAX`].
    pub async fn plain<C: CallStream>(stream: &mut C) -> Result<Self, Failure<C::Error>> {
        let mut bytes = Vec::new();
        let mut wanted = Self::min_size();
        loop {
            let more = read_up_to(stream, &mut bytes, wanted).await?;
            match Self::decode(&bytes).map(drop) {
                Ok(()) => return Ok(Self { bytes, procedure: PhantomData }),
                // A request that drips in is looked at only when it has doubled, or is whole.
                Err(Error::Truncated { missing, .. }) if more => {
                    wanted =
                        Self::bounded(&bytes, missing)?.max(bytes.len()).min(ARGUMENTS_MAX - bytes.len());
                }
                Err(error) => return Err(Self::fault(error)),
            }
        }
    }

    /// Reads the parameters of a split call, as the server, and not a byte more.
    ///
    /// # Errors
    /// As [`plain`](Self::plain).
    pub async fn split<C: CallStream>(stream: &mut C) -> Result<Self, Failure<C::Error>> {
        let mut bytes = Vec::new();
        let mut missing = Self::min_size();
        for _ in 0..ROUNDS_MAX {
            let more = read_up_to(stream, &mut bytes, missing).await?;
            match Self::decode(&bytes).map(drop) {
                Ok(()) => return Ok(Self { bytes, procedure: PhantomData }),
                Err(Error::Truncated { missing: lacking, .. }) if more => {
                    missing = Self::bounded(&bytes, lacking)?;
                }
                Err(error) => return Err(Self::fault(error)),
            }
        }
        Err(Self::fault(Error::TooDeep { offset: bytes.len(), max: ROUNDS_MAX }))
    }

    fn min_size() -> usize {
        <P::Request<'static> as Decode<'static>>::MIN_SIZE
    }

    fn decode(bytes: &[u8]) -> crate::Result<P::Request<'_>> {
        // Stock clients send what their buffer held as padding.
        Reader::lenient(bytes).value()
    }

    /// Returns how many more bytes to read; fails beyond [`ARGUMENTS_MAX`].
    fn bounded<E>(bytes: &[u8], missing: usize) -> Result<usize, Failure<E>> {
        let len = bytes.len().saturating_add(missing);
        if len > ARGUMENTS_MAX {
            return Err(Self::fault(Error::TooLong { offset: bytes.len(), len, max: ARGUMENTS_MAX }));
        }
        Ok(missing)
    }

    fn fault<E>(error: Error) -> Failure<E> {
        Failure::Fault(Fault::DecodeRequest { procedure: P::NAME, error })
    }
}

impl<P> fmt::Debug for Arguments<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arguments").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

/// Reads the opcode, as the server.
///
/// # Errors
/// [`Fault::NoOpcode`] where the request ends before.
pub async fn opcode<C: CallStream>(stream: &mut C) -> Result<u32, Failure<C::Error>> {
    let (mut word, mut filled) = ([0; UNIT], 0);
    while filled < UNIT {
        match stream.read(&mut word[filled..]).await? {
            0 => break,
            count => filled += count,
        }
    }
    decode_opcode(&mut Reader::new(&word[..filled])).map_err(Failure::Fault)
}

/// Writes the reply, as the server, and ends the stream; in a split call that is the part behind the raw
/// bytes.
///
/// # Errors
/// [`Fault::EncodeReply`] where a value breaks the interface's bounds.
pub async fn reply<P: Procedure, C: CallStream>(
    stream: &mut C,
    reply: &P::Reply<'_>,
) -> Result<(), Failure<C::Error>> {
    let mut bytes = Vec::with_capacity(TYPICAL);
    P::encode_reply(reply, &mut Writer::new(&mut bytes)).map_err(Failure::Fault)?;
    if !bytes.is_empty() {
        stream.write(&bytes).await?;
    }
    stream.finish().await?;
    Ok(())
}

async fn write_request<P: Procedure, C: CallStream>(
    stream: &mut C,
    request: &P,
) -> Result<(), Failure<C::Error>> {
    let mut bytes = Vec::with_capacity(TYPICAL);
    encode_request(request, &mut Writer::new(&mut bytes)).map_err(Failure::Fault)?;
    stream.write(&bytes).await?;
    Ok(())
}

async fn receive<P: Procedure, C: CallStream>(stream: &mut C) -> Result<Received<P>, Failure<C::Error>> {
    let mut bytes = Vec::with_capacity(TYPICAL);
    while bytes.len() < REPLY_MAX && read_up_to(stream, &mut bytes, PIECE).await? {}
    if bytes.len() >= REPLY_MAX {
        let error = Error::TooLong { offset: 0, len: bytes.len(), max: REPLY_MAX };
        return Err(Failure::Fault(Fault::DecodeReply { procedure: P::NAME, error }));
    }
    decode_reply::<P>(&mut Reader::lenient(&bytes)).map(drop).map_err(Failure::Fault)?;
    Ok(Received { bytes, procedure: PhantomData })
}

/// Appends `count` bytes of the peer's stream; false when the stream ended before. Memory grows with what
/// comes, not with what is announced.
async fn read_up_to<C: CallStream>(
    stream: &mut C,
    bytes: &mut Vec<u8>,
    count: usize,
) -> Result<bool, Failure<C::Error>> {
    let target = bytes.len() + count;
    while bytes.len() < target {
        let known = bytes.len();
        // As much again as has come: most replies are small, and what is asked for is written with zeros first.
        bytes.resize(target.min(known + known.clamp(TYPICAL / 2, PIECE)), 0);
        let outcome = stream.read(&mut bytes[known..]).await;
        bytes.truncate(known + outcome.as_ref().copied().unwrap_or(0));
        if outcome? == 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

//@ limit: parameters of a request to generated stubs
//@ section: Rx
//@ unit: byte
//@ connection: what the interface declares, else {:b}; decoded at most {ROUNDS_MAX} times as they come
//@ empty: RXGEN_SS_UNMARSHAL before what a length announces comes; others feel nothing
//@ counter: none
//@ attack: afs-pools
/// Longest parameters of a request that a server reads, in bytes, where the interface sets no lower bound.
pub const ARGUMENTS_MAX: usize = 256 * 1024;
/// Longest parameters of a reply that a client reads, in bytes.
pub const REPLY_MAX: usize = 16 << 20;
/// Largest number of bytes read at a time.
const PIECE: usize = 4096;
/// Number of bytes that most requests and replies fit in.
const TYPICAL: usize = 512;
/// Largest number of times that a split request's parameters are decoded as they come: one for each item of
/// variable length, and a few. More would let a client make the server decode a long list once for each of
/// its elements.
const ROUNDS_MAX: u32 = 300;
