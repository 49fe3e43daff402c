//! Bytes of files from servers: a range by one call, a whole file by ranges over all connections.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use afs_wire::{Fid, Status, rxafs};
use lane::buffer::Buf;
use rx_lane::{Call, CallError, Held};
use xdr::rpc::{self, Failure};

pub use crate::content::{Range, Sink};
use crate::error::Error;
use crate::file_server::FileServer;
use crate::out_of_band;
use crate::status::Metadata;

/// A sink that gives each byte once, in the order of the file.
struct InOrder<F> {
    /// First byte that was not given yet.
    next: Cell<u64>,
    give: F,
}

/// A file, or the rest of one, to be fetched.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The file.
    pub fid: Fid,
    /// First byte.
    pub from: u64,
    /// End of the bytes: the file's length.
    pub to: u64,
    /// The data version that it must have throughout.
    pub version: u64,
    /// Bytes of one call.
    pub piece: u64,
}

/// Outcome of a plan that was not fetched to its end.
#[derive(Debug)]
pub struct Interrupted {
    /// Reason of the interruption.
    pub error: Error,
    /// All bytes before this one have been taken.
    pub upto: u64,
}

/// Fetches up to `length` bytes from `offset` on by one call of one of the connections, again while the volume is busy.
///
/// # Errors
/// [`Error`]; the sink's own.
pub async fn range(
    server: &FileServer,
    connection: usize,
    fid: Fid,
    (offset, length): (u64, u64),
    sink: &impl Sink,
) -> Result<Range, Error> {
    server
        .patiently(async || {
            if let Some(range) = out_of_band::fetch(server, connection, fid, (offset, length), sink).await? {
                return Ok(range);
            }
            if !server.is_old() {
                match new(server, connection, fid, (offset, length), sink).await {
                    Err(Error::Refused(code)) if code.is_unknown_procedure() => server.note_old(),
                    done => return done,
                }
            }
            old(server, connection, fid, (offset, length), sink).await
        })
        .await
}

async fn new(
    server: &FileServer,
    connection: usize,
    fid: Fid,
    (offset, length): (u64, u64),
    sink: &impl Sink,
) -> Result<Range, Error> {
    let request = rxafs::FetchData64 { fid, offset: offset.cast_signed(), length: length.cast_signed() };
    let status = |reply: rxafs::FetchData64Reply| reply.status;
    exchange::<_, 8>(server, connection, &request, status, (offset, length), sink).await
}

/// Fetches a range by the procedure of 32 bits.
async fn old(
    server: &FileServer,
    connection: usize,
    fid: Fid,
    (from, count): (u64, u64),
    sink: &impl Sink,
) -> Result<Range, Error> {
    let offset = i32::try_from(from).map_err(|_| Error::NoLargeFiles)?;
    let length = i32::try_from(count).unwrap_or(i32::MAX).min(i32::MAX - offset);
    let request = rxafs::FetchData { fid, offset, length };
    let status = |reply: rxafs::FetchDataReply| reply.status;
    exchange::<_, 4>(server, connection, &request, status, (from, count), sink).await
}

/// Makes one call, whose reply has how many bytes come in its first `WIDTH`, and the file's status behind them.
async fn exchange<P: rpc::SplitCall, const WIDTH: usize>(
    server: &FileServer,
    connection: usize,
    request: &P,
    status: impl FnOnce(P::Reply<'_>) -> Status,
    (offset, asked): (u64, u64),
    sink: &impl Sink,
) -> Result<Range, Error> {
    let mut call = server.open(connection).await?;
    let outcome = async {
        rpc::start(&mut call, request).await?;
        call.finish().await?;
        let mut coming = [0; WIDTH];
        call.read_exact(&mut coming).await?;
        let coming = coming.iter().fold(0, |length, &byte| length << 8 | u64::from(byte));
        if let Err(error) = data(&mut call, offset, asked, coming, sink).await? {
            return Ok(Err(error));
        }
        let reply = rpc::end::<P, _>(&mut call).await?;
        Ok(Ok(Range { length: coming, metadata: Metadata::of(&status(reply.get())) }))
    };
    outcome.await.map_err(|failure| server.failed(call, failure))?
}

/// Gives the sink the `coming` bytes that the server said will come.
async fn data(
    call: &mut Call,
    offset: u64,
    asked: u64,
    coming: u64,
    sink: &impl Sink,
) -> Result<Result<(), Error>, Failure<CallError>> {
    if coming > asked {
        return Ok(Err(Error::Short { got: coming, wanted: asked }));
    }
    let mut at = 0;
    while at < coming {
        let held = call.read_held(usize::try_from(coming - at).unwrap_or(usize::MAX).min(HELD_MAX)).await?;
        let count = held.len() as u64;
        if count == 0 {
            return Err(CallError::Short.into());
        }
        if let Err(error) = sink.take(offset + at, held).await {
            return Ok(Err(error));
        }
        at += count;
    }
    Ok(Ok(()))
}

/// Fetches what `plan` says over all connections of the server, a piece at a time on each.
///
/// # Errors
/// The first one, with how far the file has come without a gap. [`Error::Changed`] when it changed on the way.
pub async fn whole<S: Sink + 'static>(
    server: &FileServer,
    plan: Plan,
    sink: Rc<S>,
    progress: Rc<dyn Fn(u64)>,
) -> Result<(), Interrupted> {
    let (plan, at_once) = plan.over(server).await;
    let work = Rc::new(Work {
        plan,
        next: Cell::new(plan.from),
        done: RefCell::new(BTreeMap::new()),
        error: RefCell::new(None),
        progress,
    });
    let pieces = (plan.to - plan.from).div_ceil(plan.piece.max(1));
    let workers = at_once.min(usize::try_from(pieces).unwrap_or(usize::MAX));
    let tasks: Vec<_> = (0..workers)
        .map(|connection| {
            let (server, work, sink) = (server.clone(), Rc::clone(&work), Rc::clone(&sink));
            lane::spawn(async move { work.pieces(&server, connection, &*sink).await })
        })
        .collect();
    for task in tasks {
        task.await;
    }
    let failed = work.error.borrow_mut().take();
    match failed {
        Some(error) => Err(Interrupted { error, upto: work.upto() }),
        None => Ok(()),
    }
}

/// Fetches the whole file, one piece after the other ([`whole`]): `give` gets each byte once, in order, with
/// its place in the file.
///
/// # Errors
/// As there.
pub async fn in_order(server: &FileServer, plan: Plan, give: impl Fn(u64, &[u8])) -> Result<(), Error> {
    let connection = server.turn();
    let (plan, _) = plan.over(server).await;
    let sink = InOrder { next: Cell::new(plan.from), give };
    let mut at = plan.from;
    while at < plan.to {
        let count = plan.piece.max(1).min(plan.to - at);
        plan.piece(server, connection, (at, count), &sink).await?;
        at += count;
    }
    Ok(())
}

impl Plan {
    /// Plans to fetch all of a file as it was found.
    pub fn of(fid: Fid, metadata: &Metadata) -> Self {
        Self { fid, from: 0, to: metadata.length, version: metadata.data_version, piece: PIECE }
    }

    /// Returns the plan in pieces that suit what the bytes come over, and the number of pieces that come at once.
    async fn over(self, server: &FileServer) -> (Self, usize) {
        if server.goes_out_of_band(self.to - self.from).await {
            let (piece, at_once) = (self.piece.max(OOB_PIECE), server.connections().min(OOB_AT_ONCE));
            return (Self { piece, ..self }, at_once);
        }
        (self, server.connections())
    }

    async fn piece(
        &self,
        server: &FileServer,
        connection: usize,
        (from, count): (u64, u64),
        sink: &impl Sink,
    ) -> Result<(), Error> {
        let range = range(server, connection, self.fid, (from, count), sink).await?;
        if range.metadata.data_version != self.version {
            return Err(Error::Changed(self.version, range.metadata.data_version));
        }
        if range.length != count {
            return Err(Error::Short { got: range.length, wanted: count });
        }
        Ok(())
    }
}

struct Work {
    plan: Plan,
    /// First byte that no task has taken on.
    next: Cell<u64>,
    /// Pieces that came: first byte, and the one behind the last.
    done: RefCell<BTreeMap<u64, u64>>,
    error: RefCell<Option<Error>>,
    progress: Rc<dyn Fn(u64)>,
}

impl Work {
    /// Fetches one piece after the other, until there is none or another task failed.
    async fn pieces(&self, server: &FileServer, connection: usize, sink: &impl Sink) {
        while self.error.borrow().is_none() {
            let from = self.next.get();
            let count = self.plan.piece.max(1).min(self.plan.to - from);
            if count == 0 {
                return;
            }
            self.next.set(from + count);
            match self.plan.piece(server, connection, (from, count), sink).await {
                Ok(()) => {
                    self.done.borrow_mut().insert(from, from + count);
                    (self.progress)(count);
                }
                Err(error) => {
                    self.error.borrow_mut().get_or_insert(error);
                }
            }
        }
    }

    /// Returns the byte before which there is no gap.
    fn upto(&self) -> u64 {
        let mut upto = self.plan.from;
        for (&from, &to) in &*self.done.borrow() {
            if from > upto {
                break;
            }
            upto = to;
        }
        upto
    }
}

impl<F: Fn(u64, &[u8])> InOrder<F> {
    fn give(&self, offset: u64, bytes: &[u8]) {
        let next = self.next.get();
        debug_assert!(offset <= next, "a range came with a gap");
        // Of a range that came in part and then again.
        let known = usize::try_from(next.saturating_sub(offset)).unwrap_or(usize::MAX);
        if let Some(new) = bytes.get(known..).filter(|new| !new.is_empty()) {
            (self.give)(next, new);
            self.next.set(next + new.len() as u64);
        }
    }
}

impl<F: Fn(u64, &[u8])> Sink for InOrder<F> {
    async fn take(&self, mut offset: u64, held: Held) -> Result<(), Error> {
        for slice in held.slices() {
            self.give(offset, slice);
            offset += slice.len() as u64;
        }
        Ok(())
    }

    async fn take_bytes(&self, offset: u64, buf: Buf) -> Result<(), Error> {
        self.give(offset, &buf);
        Ok(())
    }

    fn is_in_order(&self) -> bool {
        true
    }
}

/// Bytes in memory; for what is small, such as directories and links.
#[derive(Debug, Default)]
pub struct InMemory {
    bytes: RefCell<Vec<u8>>,
}

impl InMemory {
    /// Returns what came.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes.into_inner()
    }
}

impl Sink for InMemory {
    async fn take(&self, offset: u64, held: Held) -> Result<(), Error> {
        let mut bytes = self.bytes.borrow_mut();
        bytes.truncate(usize::try_from(offset).unwrap_or(usize::MAX));
        held.slices().for_each(|slice| bytes.extend_from_slice(slice));
        Ok(())
    }

    async fn take_bytes(&self, offset: u64, buf: Buf) -> Result<(), Error> {
        let mut bytes = self.bytes.borrow_mut();
        bytes.truncate(usize::try_from(offset).unwrap_or(usize::MAX));
        bytes.extend_from_slice(&buf);
        Ok(())
    }

    fn is_in_order(&self) -> bool {
        true
    }
}

/// Fetches all of a small file: at most `max` bytes of it, in memory.
///
/// # Errors
/// As [`range`].
pub async fn small(server: &FileServer, fid: Fid, max: u64) -> Result<Vec<u8>, Error> {
    let sink = InMemory::default();
    range(server, server.turn(), fid, (0, max), &sink).await?;
    Ok(sink.into_bytes())
}

//@ limit: pieces of files under way
//@ section: Clients of AFS
//@ unit: piece
//@ connection: `--connections` (4, at most 64), {:b} in hand of each; small files of a directory 8 at once
//@ empty: the others wait
//@ counter: none
//@ attack: none, a client's own limit, against servers
//@ reach: server
/// Bytes taken at a time.
const HELD_MAX: usize = 1 << 20;
/// Bytes of one call whose bytes come over TCP.
pub(crate) const OOB_PIECE: u64 = 32 << 20;
/// Some that fill the link while another waits for its server, and what one connection has under way on a
/// long link is bounded: 4 MiB on Linux by default.
const OOB_AT_ONCE: usize = 4;
/// Bytes of one call of a large file: long beside a round trip, short beside the file.
pub const PIECE: u64 = 4 << 20;
