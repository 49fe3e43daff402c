//! Large pieces of files over TCP beside the call (docs/design/oob.md), where the server can: connections that are kept for the next
//! transfer, and the way back to Rx.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use afs_wire::code::oob::{OOB_BROKEN, is_out_of_band};
use afs_wire::{
    OOB_FAMILY_IPV4, OOB_FAMILY_IPV6, OOB_FAMILY_SAME, OOB_VERSION, OobEndpoints, OobGrant, OobStream,
    OobWish, rxafs,
};
use futures_util::future::{Either, join_all, select};
use lane::backend::SocketOption;
use lane::buffer::Buf;
use lane::net::TcpStream;
use lane::time::{now, timeout};
use oob::{Claim, Part, Receiving, STREAMS_MAX, Sending, TOKEN_BYTES, Token};
use oob_lane::{Broken, Memory, NoPace, Patience, Received, Sent, Stop, receive_part, send_part};
use rx_lane::{Call, CallError};
use xdr::rpc::{self, Failure};
use xdr::{List, Reader};

use crate::code::Code;
use crate::content::{Piece, Range, Sink, Source};
use crate::error::Error;
use crate::file_server::FileServer;
use crate::oob_connections::{Connection, OobUse, Support};
use crate::status::Metadata;

/// Reason why an attempt came to nothing.
enum Failed {
    /// The transfer would fail over Rx too.
    For(Error),
    /// A connection failed, or the server has no such procedures: Rx may do it.
    OverTcp { was_kept: bool },
}

/// Result of the streams of an attempt.
struct Streams {
    connections: Vec<Connection>,
    failed: Option<Error>,
    broken: bool,
}

impl FileServer {
    /// Returns what moved over TCP so far.
    pub fn out_of_band(&self) -> OobUse {
        self.oob().used()
    }

    /// Returns whether pieces of so many bytes go over TCP, as far as is known. The server is asked where
    /// that is not known.
    pub(crate) async fn goes_out_of_band(&self, length: u64) -> bool {
        self.oob().wants(length) && self.support().await.is_some()
    }

    /// Connections of one transfer at most, and how long idle ones are good for.
    async fn support(&self) -> Option<(usize, Duration)> {
        let known = self.oob().support.borrow().clone();
        match known {
            Support::Has { streams_max, idle } => return Some((streams_max, idle)),
            Support::HasNot { until } if now() < until => return None,
            _ => {}
        }
        let asked = async {
            let mut call = self.open(self.turn()).await?;
            let asked = rpc::call(&mut call, &rxafs::GetOutOfBand {}).await;
            asked.map_err(|failure| self.failed(call, failure))
        };
        let Ok(facts) = asked.await.map(|reply| reply.get().facts) else {
            // Whatever it was: the calls that matter say so as well.
            self.oob().has_not();
            return None;
        };
        if !(facts.version_min..=facts.version_max).contains(&OOB_VERSION) {
            self.oob().has_not();
            return None;
        }
        let streams_max = (facts.streams_max as usize).clamp(1, STREAMS_MAX);
        // One that the server is about to close is not worth naming.
        let idle = Duration::from_secs((facts.idle_seconds / 2).into());
        *self.oob().support.borrow_mut() = Support::Has { streams_max, idle };
        Some((streams_max, idle))
    }
}

/// Fetches a range over TCP; `None` where it is to be fetched over Rx.
///
/// # Errors
/// Those that it would meet over Rx too; the sink's own.
pub(crate) async fn fetch(
    server: &FileServer,
    connection: usize,
    fid: afs_wire::Fid,
    (offset, length): (u64, u64),
    sink: &impl Sink,
) -> Result<Option<Range>, Error> {
    // Names are read over Rx: a directory's pages are no file.
    if fid.is_directory() {
        return Ok(None);
    }
    let streams = if sink.is_in_order() { 1 } else { server.oob().options.streams };
    attempts(server, length, streams, async |wish, named| {
        let transfer = wish.transfer;
        let request = rxafs::FetchDataOOB { fid, offset, length, wish };
        let receive = async |connection: &Connection, part: Part, stop: &Stop| {
            let mut receiving = Receiving::new(transfer, part);
            let take = async |offset: u64, bytes: Buf| sink.take_bytes(offset, bytes).await;
            let (stream, memory) = (&connection.stream, &connection.memory);
            match receive_part(stream, &mut receiving, stop, memory, &Patience::default(), take).await {
                Ok(Received::Whole) => Ok(Ok(())),
                Ok(Received::Refused(error)) => Ok(Err(error)),
                Ok(Received::Stopped(_) | Received::Over(_)) => Err(Broken::Stalled),
                Err(broken) => Err(broken),
            }
        };
        let status = |reply: rxafs::FetchDataOOBReply| reply.status;
        let (length, metadata) =
            exchange(server, connection, &request, status, (offset, length), named, receive).await?;
        Ok(Range { length, metadata })
    })
    .await
}

/// Stores a range over TCP; `None` where it is to be stored over Rx.
///
/// # Errors
/// Those that it would meet over Rx too; the source's own, and [`Error::Short`].
pub(crate) async fn store(
    server: &FileServer,
    connection: usize,
    piece: Piece,
    source: &impl Source,
) -> Result<Option<Metadata>, Error> {
    if source.file()?.is_none() {
        return Ok(None);
    }
    let Piece { fid, change, offset, length, file_length } = piece;
    attempts(server, length, server.oob().options.streams, async |wish, named| {
        let transfer = wish.transfer;
        let request = rxafs::StoreDataOOB { fid, change, offset, length, file_length, wish };
        let send = async |connection: &Connection, part: Part, stop: &Stop| {
            let Some(file) = source.file().map_err(|_| Broken::Stalled)? else { return Err(Broken::Stalled) };
            let mut sending = Sending::new(transfer, part, FRAME_BYTES);
            let refused = RefCell::new(None);
            let progress = |_| {
                if let Err(error) = source.file() {
                    refused.borrow_mut().get_or_insert(error);
                    stop.stop(rx::abort::USER_ABORT);
                }
            };
            let (stream, patience) = (&connection.stream, Patience::default());
            let sent = send_part(stream, file, &mut sending, stop, &mut NoPace, &patience, progress).await;
            if let Some(error) = refused.into_inner() {
                return Ok(Err(error));
            }
            match sent? {
                Sent::Whole { short: false } => Ok(Ok(())),
                Sent::Whole { short: true } => Ok(Err(Error::Short { got: 0, wanted: part.len })),
                Sent::Unreadable(error) => Ok(Err(Error::Local("the local file".to_owned(), error))),
                Sent::Stopped(_) => Err(Broken::Stalled),
            }
        };
        let status = |reply: rxafs::StoreDataOOBReply| reply.status;
        let done = exchange(server, connection, &request, status, (offset, length), named, send).await?;
        Ok(done.1)
    })
    .await
}

/// Transfers over `streams` connections that were kept, or over new ones where those were dead; else returns `None`.
async fn attempts<T>(
    server: &FileServer,
    length: u64,
    streams: usize,
    mut attempt: impl AsyncFnMut(OobWish, Vec<Connection>) -> Result<T, Failed>,
) -> Result<Option<T>, Error> {
    if !server.goes_out_of_band(length).await {
        return Ok(None);
    }
    let oob = server.oob();
    for _ in 0..ATTEMPTS {
        let Some((streams_max, keep)) = server.support().await else { return Ok(None) };
        let most = usize::try_from(length / PART_MIN).unwrap_or(usize::MAX).max(1);
        let streams = streams.clamp(1, streams_max).min(most);
        let named = oob.take(streams, keep);
        let transfer = oob.next.get();
        oob.next.set(transfer + 1);
        let connections = List(named.iter().map(|connection| connection.number).collect());
        let wish = OobWish { version: OOB_VERSION, flags: 0, streams: streams as u32, transfer, connections };
        match attempt(wish, named).await {
            Ok(done) => {
                oob.note(|used| {
                    used.transfers += 1;
                    used.bytes += length;
                });
                return Ok(Some(done));
            }
            Err(Failed::For(error)) => return Err(error),
            Err(Failed::OverTcp { was_kept: true }) => {}
            Err(Failed::OverTcp { was_kept: false }) => break,
        }
    }
    oob.note(|used| used.fell_back += 1);
    Ok(None)
}

/// Makes one call and its streams: the bytes that it granted, and the file's status with its end.
async fn exchange<P: rpc::SplitCall>(
    server: &FileServer,
    connection: usize,
    request: &P,
    status: impl FnOnce(P::Reply<'_>) -> afs_wire::Status,
    (offset, length): (u64, u64),
    named: Vec<Connection>,
    work: impl AsyncFn(&Connection, Part, &Stop) -> Result<Result<(), Error>, Broken>,
) -> Result<(u64, Metadata), Failed> {
    let was_kept = !named.is_empty();
    let mut call = server.open(connection).await.map_err(Failed::For)?;
    let begun = async {
        rpc::start(&mut call, request).await?;
        call.finish().await?;
        granted(&mut call).await
    };
    let bytes = match begun.await {
        Ok(bytes) => bytes,
        Err(failure) => return Err(refused(server, call, failure, was_kept)),
    };
    let grant =
        Reader::lenient(&bytes).value::<OobGrant<'_>>().ok().filter(|grant| is_sound(grant, offset, length));
    let Some(grant) = grant else {
        call.abort(OOB_BROKEN);
        server.oob().has_not();
        return Err(Failed::OverTcp { was_kept: false });
    };
    let stop = Stop::default();
    let ended = {
        let streams = std::pin::pin!(streams(server, &grant, named, &stop, &work));
        let end = std::pin::pin!(rpc::end::<P, _>(&mut call));
        match select(streams, end).await {
            Either::Left((streams, end)) if streams.is_whole() => (Some(end.await), streams),
            Either::Left((streams, _)) => (None, streams),
            // What has left its server arrives, or its connection breaks.
            Either::Right((Ok(reply), streams)) => (Some(Ok(reply)), streams.await),
            Either::Right((Err(failure), streams)) => {
                stop.stop(OOB_BROKEN);
                (Some(Err(failure)), streams.await)
            }
        }
    };
    match ended {
        (Some(Err(failure)), _) => Err(refused(server, call, failure, was_kept)),
        (Some(Ok(reply)), streams) if streams.is_whole() => {
            server.oob().keep(streams.connections);
            Ok((grant.length, Metadata::of(&status(reply.get()))))
        }
        (_, Streams { failed: Some(error), .. }) => {
            call.abort(rx::abort::USER_ABORT);
            Err(Failed::For(error))
        }
        _ => {
            call.abort(OOB_BROKEN);
            Err(Failed::OverTcp { was_kept })
        }
    }
}

impl Streams {
    fn is_whole(&self) -> bool {
        !self.broken && self.failed.is_none()
    }
}

/// Reads the grant's bytes.
async fn granted(call: &mut Call) -> Result<Vec<u8>, Failure<CallError>> {
    let mut word = [0; 4];
    call.read_exact(&mut word).await?;
    let len = u32::from_be_bytes(word) as usize;
    if len > GRANT_MAX {
        return Err(Failure::Refused(OOB_BROKEN));
    }
    let mut bytes = vec![0; len];
    call.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// Returns why the call was refused.
fn refused(server: &FileServer, call: Call, failure: Failure<CallError>, was_kept: bool) -> Failed {
    let error = server.failed(call, failure);
    match error {
        Error::Refused(code) if code.is_unknown_procedure() => {
            server.oob().has_not();
            Failed::OverTcp { was_kept: false }
        }
        Error::Refused(Code(code)) if is_out_of_band(code) => {
            Failed::OverTcp { was_kept: was_kept && code == OOB_BROKEN }
        }
        error => Failed::For(error),
    }
}

/// Returns whether a grant is one of what was asked for.
fn is_sound(grant: &OobGrant<'_>, offset: u64, length: u64) -> bool {
    let mut at = offset;
    let follow = grant.streams.0.iter().all(|stream| {
        let follows = stream.offset == at && stream.length > 0;
        at = at.saturating_add(stream.length);
        follows && (stream.token.is_empty() || stream.token.len() == TOKEN_BYTES)
    });
    grant.version == OOB_VERSION
        && grant.flags == 0
        && follow
        && grant.length <= length
        && at - offset == grant.length
}

/// Moves all parts, each over its connection.
async fn streams(
    server: &FileServer,
    grant: &OobGrant<'_>,
    mut named: Vec<Connection>,
    stop: &Stop,
    work: &impl AsyncFn(&Connection, Part, &Stop) -> Result<Result<(), Error>, Broken>,
) -> Streams {
    let parts = grant.streams.0.iter().map(|stream| {
        let at = named.iter().position(|connection| connection.number == stream.connection);
        let kept = at.filter(|_| stream.token.is_empty()).map(|at| named.swap_remove(at));
        async move {
            let connection = match kept {
                Some(connection) => connection,
                None => claimed(server, &grant.endpoints, stream).await?,
            };
            let part = Part { offset: stream.offset, len: stream.length };
            let done = work(&connection, part, stop).await?;
            Ok::<_, Broken>((connection, done))
        }
    });
    let parts: Vec<_> = parts.collect();
    if grant.streams.0.iter().all(|stream| stream.token.is_empty()) {
        // The server knows them still and had no need of them.
        server.oob().keep(named);
    }
    let parts = parts.into_iter().map(|part| async {
        let outcome = part.await;
        // One that fails ends the others.
        if !matches!(outcome, Ok((_, Ok(())))) {
            stop.stop(OOB_BROKEN);
        }
        outcome
    });
    let mut streams = Streams { connections: Vec::new(), failed: None, broken: false };
    for outcome in join_all(parts).await {
        match outcome {
            Ok((connection, Ok(()))) => streams.connections.push(connection),
            Ok((_, Err(error))) => {
                streams.failed.get_or_insert(error);
            }
            Err(_) => streams.broken = true,
        }
    }
    streams
}

/// Opens a connection and makes its claim.
async fn claimed(
    server: &FileServer,
    endpoints: &OobEndpoints,
    stream: &OobStream<'_>,
) -> Result<Connection, Broken> {
    let token: [u8; TOKEN_BYTES] = stream.token.as_ref().try_into().map_err(|_| Broken::Stalled)?;
    let claim = Claim { token: Token::from_bytes(token) }.encode();
    let mut last = Broken::Stalled;
    for address in addresses(endpoints, server.address()) {
        let opened = match timeout(CONNECT_WITHIN, TcpStream::connect(address)).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(error)) => {
                last = error.into();
                continue;
            }
            Err(_) => continue,
        };
        server.oob().note(|used| used.connections += 1);
        // Its last frame leaves at once; a connection that does not take the option is slower.
        let _ = opened.set_option(SocketOption::NoDelay(true));
        let mut sent = 0;
        while sent < claim.len() {
            match opened.try_send(&[std::io::IoSlice::new(&claim[sent..])], false)? {
                Some(count) => sent += count,
                None => opened.writable().await?,
            }
        }
        return Ok(Connection { number: stream.connection, stream: opened, memory: Memory::default() });
    }
    Err(last)
}

/// Returns the addresses to connect to, in the order of the grant.
fn addresses(endpoints: &OobEndpoints, called: SocketAddr) -> Vec<SocketAddr> {
    let address = |endpoint: &afs_wire::OobEndpoint| {
        let ip = match endpoint.family {
            OOB_FAMILY_SAME => called.ip(),
            OOB_FAMILY_IPV4 => {
                let [a, b, c, d, ..] = endpoint.address.0;
                IpAddr::V4(Ipv4Addr::new(a, b, c, d))
            }
            OOB_FAMILY_IPV6 => IpAddr::V6(Ipv6Addr::from(endpoint.address.0)),
            _ => return None,
        };
        Some(SocketAddr::new(ip, u16::try_from(endpoint.port).ok().filter(|port| *port > 0)?))
    };
    endpoints.0.iter().filter_map(address).collect()
}

/// Attempts: over what was kept, then over new connections.
const ATTEMPTS: usize = 2;
/// Bytes of each part at least, where there are several.
const PART_MIN: u64 = 1 << 20;
/// Bytes of a frame that is sent.
const FRAME_BYTES: u32 = 1 << 20;
/// Bytes of a grant at most.
const GRANT_MAX: usize = 4096;
/// A server that answers over Rx is there.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
