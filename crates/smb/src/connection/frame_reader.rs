//! Reads frames from a connection: in place, if they came in one piece, else into memory of their own.

use std::io;
use std::ops::{Deref, DerefMut, Range};
use std::rc::Rc;
use std::time::Duration;

use lane::buffer::{Buf, RecvBuf};
use lane::net::TcpStream;
use lane::time::timeout;
use service::memory::{Account, Charge};
use smb_wire::Malformed;
use smb_wire::framing::{self, Frame as Announced, PREFIX_LEN};

use crate::memory::{Piece, Pieces};

/// A frame without its prefix.
pub(crate) struct Frame {
    bytes: FrameBytes,
    /// Offset in them where it begins.
    start: usize,
    /// Charge of the memory of a long frame.
    charge: Option<Charge>,
}

enum FrameBytes {
    Received(RecvBuf),
    Own(Vec<u8>),
    Long(Piece),
}

impl Deref for Frame {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let bytes: &[u8] = match &self.bytes {
            FrameBytes::Received(bytes) => bytes,
            FrameBytes::Own(bytes) => bytes,
            FrameBytes::Long(piece) => piece,
        };
        &bytes[self.start..]
    }
}

impl DerefMut for Frame {
    fn deref_mut(&mut self) -> &mut [u8] {
        let bytes: &mut [u8] = match &mut self.bytes {
            FrameBytes::Received(bytes) => bytes,
            FrameBytes::Own(bytes) => bytes,
            FrameBytes::Long(piece) => piece,
        };
        &mut bytes[self.start..]
    }
}

impl Frame {
    /// Creates a frame of these bytes.
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        Self { bytes: FrameBytes::Own(bytes), start: 0, charge: None }
    }

    /// Moves the start of the frame by so many bytes.
    pub(crate) fn skip(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.len());
        self.start += bytes;
    }

    /// Returns the number of bytes of memory that it was granted.
    pub(crate) fn held(&self) -> usize {
        self.charge.as_ref().map_or(0, Charge::bytes)
    }

    /// Returns a part of it as a buffer, without a copy, and what was paid for it.
    pub(crate) fn into_part(self, part: Range<usize>) -> (Buf, Option<Charge>) {
        let part = self.start + part.start..self.start + part.end;
        let buf = match self.bytes {
            FrameBytes::Received(mut bytes) => {
                bytes.truncate(part.end);
                bytes.advance(part.start);
                Buf::from(bytes)
            }
            FrameBytes::Own(mut bytes) => {
                bytes.truncate(part.end);
                bytes.drain(..part.start);
                Buf::from(bytes)
            }
            FrameBytes::Long(piece) => piece.into_part(part),
        };
        (buf, self.charge)
    }
}

/// Longest frame that a connection takes, which says how far its client has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameMax {
    /// Only a NEGOTIATE is expected.
    Negotiate,
    /// Only sign-ins are expected.
    SignIn,
    /// Data of so many bytes is taken, as it has a session.
    Data(usize),
}

impl FrameMax {
    /// Returns it in bytes.
    fn bytes(self) -> usize {
        match self {
            Self::Negotiate => NEGOTIATE_MAX,
            Self::SignIn => SIGN_IN_MAX,
            Self::Data(bytes) => bytes + HEADERS_MAX,
        }
    }

    fn is_signed_in(self) -> bool {
        matches!(self, Self::Data(_))
    }
}

/// The reason why a connection has no further frame.
pub(crate) enum ReceiveEnd {
    /// The client has gone.
    Gone,
    /// Something else came.
    Malformed(Malformed),
    /// The frame did not go on in time.
    Late,
    /// No memory for the frame came in time.
    Short,
}

impl From<io::Error> for ReceiveEnd {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

/// Splits the bytes of a connection into frames.
#[derive(Default)]
pub(crate) struct FrameReader {
    unread: Option<RecvBuf>,
    /// The last frame was a long one, and so may be the next: prefix and frame are received alone, where they stay. What the
    /// lane's own receive brought of a long one would have to be copied.
    is_alone: bool,
}

impl FrameReader {
    /// Waits until something of the next frame is there.
    pub(crate) async fn begun(&mut self, stream: &TcpStream) -> Result<(), ReceiveEnd> {
        if self.unread.as_ref().is_none_or(|unread| unread.is_empty()) {
            let received = match self.is_alone {
                true => {
                    let (result, prefix) = stream.recv_alone(Vec::new(), PREFIX_LEN).await;
                    result?;
                    RecvBuf::from_vec(prefix)
                }
                false => stream.recv().await?,
            };
            if received.is_empty() {
                return Err(ReceiveEnd::Gone);
            }
            self.unread = Some(received);
        }
        Ok(())
    }

    /// Reads the next frame, of at most `most` bytes.
    pub(crate) async fn frame(
        &mut self,
        stream: &TcpStream,
        most: FrameMax,
        account: &Rc<Account>,
        pieces: &Rc<Pieces>,
    ) -> Result<Frame, ReceiveEnd> {
        loop {
            self.begun(stream).await?;
            let mut unread = self.unread.take().expect("something is there");
            let prefix = match unread.first_chunk::<PREFIX_LEN>() {
                Some(prefix) => *prefix,
                None => {
                    let (result, all) = within(PREFIX_LEN, stream, unread.to_vec()).await?;
                    result?;
                    unread = RecvBuf::from_vec(all);
                    *unread.first_chunk().expect("it was received")
                }
            };
            unread.advance(PREFIX_LEN);
            match framing::parse(prefix, most.bytes()).map_err(ReceiveEnd::Malformed)? {
                Announced::KeepAlive => self.unread = Some(unread),
                Announced::Message(len) => {
                    let taking = self.take(stream, unread, len, most, account, pieces);
                    if most.is_signed_in() {
                        return taking.await;
                    }
                    // Where memory is short a stranger that does not go on with its frame gives way.
                    return account.unless_short(taking).await.unwrap_or(Err(ReceiveEnd::Short));
                }
            }
        }
    }

    async fn take(
        &mut self,
        stream: &TcpStream,
        mut unread: RecvBuf,
        len: usize,
        most: FrameMax,
        account: &Rc<Account>,
        pieces: &Rc<Pieces>,
    ) -> Result<Frame, ReceiveEnd> {
        let was_alone = std::mem::replace(&mut self.is_alone, len > SHORT_MAX);
        if unread.len() == len {
            return Ok(Frame { bytes: FrameBytes::Received(unread), start: 0, charge: None });
        }
        if unread.len() > len {
            let frame = Frame::of(unread[..len].to_vec());
            unread.advance(len);
            self.unread = Some(unread);
            return Ok(frame);
        }
        if !self.is_alone {
            // Until it is all there. What it keeps while it is served is charged by itself.
            let _charge = match most.is_signed_in() {
                true => account.charge(len),
                false => acquire(account, len).await?,
            };
            let (result, bytes) = within(len, stream, unread.to_vec()).await?;
            result?;
            return Ok(Frame::of(bytes));
        }
        // Small requests of others go first; and the piece of the long one before is free by then, and hot.
        lane::yield_if_due().await;
        let charge = acquire(account, Pieces::size(len)).await?;
        let mut piece = pieces.take(len);
        piece.extend_from_slice(&unread);
        drop(unread);
        let (result, piece) = match was_alone {
            true => long_within(len, stream, piece).await?,
            false => within(len, stream, piece).await?,
        };
        let frame =
            Frame { bytes: FrameBytes::Long(Piece::new(piece, pieces)), start: 0, charge: Some(charge) };
        result?;
        Ok(frame)
    }
}

/// Charges the connection for a frame. Requests of the connection may keep what there is while they wait, some without a limit of time,
/// and it is not seen meanwhile that the client has gone.
async fn acquire(account: &Rc<Account>, bytes: usize) -> Result<Charge, ReceiveEnd> {
    timeout(MEMORY_WITHIN, account.acquire(bytes)).await.map_err(|_| ReceiveEnd::Short)
}

/// Receives until there are `len` bytes.
async fn within(
    len: usize,
    stream: &TcpStream,
    bytes: Vec<u8>,
) -> Result<(io::Result<()>, Vec<u8>), ReceiveEnd> {
    let missing = len - bytes.len();
    timeout(patience(missing), stream.recv_exact(bytes, missing)).await.map_err(|_| ReceiveEnd::Late)
}

/// Receives within a time limit ([`within`]), without the lane's own receive.
async fn long_within(
    len: usize,
    stream: &TcpStream,
    bytes: Vec<u8>,
) -> Result<(io::Result<()>, Vec<u8>), ReceiveEnd> {
    let missing = len - bytes.len();
    timeout(patience(missing), stream.recv_alone(bytes, missing)).await.map_err(|_| ReceiveEnd::Late)
}

/// Returns how long so many bytes may take.
fn patience(missing: usize) -> Duration {
    PATIENCE + Duration::from_millis(missing as u64 / RATE_MIN_PER_MS)
}

/// Longest frame without a piece of the lane's memory, for which a longer one waits.
const SHORT_MAX: usize = 64 << 10;
/// Bytes of a frame beside the longest data: headers, names, a compound's other requests.
const HEADERS_MAX: usize = 128 << 10;
/// Longest frame before a dialect is negotiated. Clients send some hundred bytes: dialects, negotiate contexts, the server's name.
const NEGOTIATE_MAX: usize = 4 << 10;
//@ limit: frame of a client that has not signed in
//@ section: SMB
//@ unit: byte
//@ connection: {NEGOTIATE_MAX:b} before NEGOTIATE is answered, then {:b}; charged before it is all there
//@ address: as the memory of long WRITEs
//@ all: lane: as the memory of long WRITEs
//@ empty: a longer one ends the connection, as does one that does not go on while memory is short; others feel nothing
//@ counter: smb_ended_malformed, smb_ended_unserved, smb_reply_memory_bytes
//@ attack: smb-pools
/// Longest frame before the first session: a token of 64 KiB, as long as its field can tell, with headers.
const SIGN_IN_MAX: usize = 65 << 10;
//@ limit: frame that was begun
//@ section: SMB
//@ unit: time
//@ connection: {}, and {RATE_MIN_PER_MS} KB/ms beyond
//@ empty: closed; others feel nothing
//@ counter: smb_ended_late, lane_recv_held_bytes
//@ attack: smb-pools
/// Time for which a frame that was begun may take.
const PATIENCE: Duration = Duration::from_secs(30);
//@ limit: wait of a long frame for memory
//@ section: SMB
//@ unit: time
//@ connection: {}
//@ empty: the connection ends; others feel nothing
//@ counter: smb_ended_unserved
//@ attack: smb-padded
/// Time for which one may wait for memory: clients give up by then.
const MEMORY_WITHIN: Duration = Duration::from_secs(120);
/// Rate at which a long frame must come beyond that, in bytes per millisecond.
const RATE_MIN_PER_MS: u64 = 8;
