//! Response bodies as HTTP/2 streams, and the log record that their end writes.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Instant;

use bytes::{Buf, Bytes};
use httptypes::{Request, header};
use lane::buffer::BufClass;
use lane::time::now;

use super::progress::Progress;
use super::{host_of, method_of};
use crate::listing::Rendering;
use crate::log::{Protocol, Record};
use crate::multipart::{Multipart, PART_HEAD_BYTES_MAX};
use crate::range::ByteRange;
use crate::request::Method;
use crate::response::Writer;
use crate::service::abort::Abort;
use crate::service::connection::unix_us;
use crate::service::listener::Service;
use crate::service::reply::{Body, Version};
use service::memory::{Account, Charge};

/// A body that is read as far as the client's windows are open.
pub(super) struct StreamBody {
    pieces: VecDeque<Piece>,
    version: Option<Version>,
}

enum Piece {
    Memory(Bytes),
    Content(Rc<[u8]>, ByteRange),
    File(ByteRange),
    /// A listing, and what was rendered of it beyond the window.
    Listing(Box<Rendering>, Bytes),
}

/// Bytes of a body between their reading and the socket.
pub(super) struct Chunk {
    bytes: Vec<u8>,
    at: usize,
    _held: Charge,
}

/// Ends a request's books when its body is done with, however that comes about.
pub(super) struct Finish {
    service: Rc<Service>,
    progress: Rc<Progress>,
    started: Instant,
    peer: IpAddr,
    method: Method,
    pub(super) status: u16,
    pub(super) sent: u64,
    target: Box<[u8]>,
    host: Box<[u8]>,
    referer: Box<[u8]>,
    user_agent: Box<[u8]>,
    _held: Charge,
}

impl StreamBody {
    pub(super) fn new(body: Body) -> Self {
        let mut pieces = VecDeque::with_capacity(1);
        let version = match body {
            Body::Empty => None,
            Body::Memory(bytes) => {
                pieces.push_back(Piece::Memory(bytes.into()));
                None
            }
            Body::Content(content, range) => {
                pieces.push_back(Piece::Content(content, range));
                None
            }
            Body::File(version, range) => {
                pieces.push_back(Piece::File(range));
                Some(version)
            }
            Body::Listing(rendering) => {
                pieces.push_back(Piece::Listing(rendering, Bytes::new()));
                None
            }
            Body::Multipart(version, multipart) => {
                push_parts(&multipart, &mut pieces);
                Some(version)
            }
        };
        Self { pieces, version }
    }

    pub(super) fn is_done(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Whether the next bytes cost the lane's time.
    pub(super) fn is_rendered(&self) -> bool {
        matches!(self.pieces.front(), Some(Piece::Listing(_, rest)) if rest.is_empty())
    }

    /// How many bytes the next frame would have if all windows were open.
    pub(super) fn wanted(&self) -> usize {
        let left = match self.pieces.front() {
            None => 0,
            Some(Piece::Memory(bytes)) => bytes.len(),
            Some(Piece::Content(_, range) | Piece::File(range)) => {
                usize::try_from(range.len()).unwrap_or(usize::MAX)
            }
            Some(Piece::Listing(..)) => FRAME_BYTES_MAX,
        };
        left.min(FRAME_BYTES_MAX)
    }

    /// The next bytes, at most `max`, which is not 0. The last bytes of a file come only if it is still the version
    /// that the head announced.
    pub(super) async fn next(&mut self, max: usize) -> Result<Vec<u8>, Abort> {
        let Some(piece) = self.pieces.front_mut() else { return Ok(Vec::new()) };
        let (bytes, is_done) = match piece {
            Piece::Memory(bytes) => (bytes.split_to(max.min(bytes.len())).to_vec(), bytes.is_empty()),
            Piece::Content(content, range) => {
                let part = ByteRange { start: range.start, end: range.end.min(range.start + max as u64) };
                range.start = part.end;
                (Body::of_content(content, &part).to_vec(), range.start == range.end)
            }
            Piece::Listing(rendering, rest) => {
                if rest.is_empty() {
                    let mut text = String::new();
                    rendering.render(max, &mut text);
                    *rest = text.into();
                }
                let bytes = rest.split_to(max.min(rest.len())).to_vec();
                // What stays shares memory with all of it.
                *rest = Bytes::copy_from_slice(rest);
                (bytes, rest.is_empty() && rendering.is_done())
            }
            Piece::File(range) => {
                let Some(version) = &self.version else { return Err(Abort::FileChanged) };
                let bytes = read(version, range.start, max.min(range.len() as usize)).await?;
                if bytes.is_empty() {
                    return Err(Abort::FileChanged);
                }
                range.start += bytes.len() as u64;
                match range.start == range.end {
                    true => version.check()?,
                    false => version.check_now_and_then()?,
                }
                (bytes, range.start == range.end)
            }
        };
        if is_done {
            self.pieces.pop_front();
        }
        Ok(bytes)
    }
}

impl Chunk {
    pub(super) fn new(bytes: Vec<u8>, held: Charge) -> Self {
        Self { bytes, at: 0, _held: held }
    }
}

impl Buf for Chunk {
    fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    fn advance(&mut self, n: usize) {
        assert!(n <= self.remaining(), "advanced {n} of {} bytes", self.remaining());
        self.at += n;
    }
}

impl Finish {
    /// Opens the books of a request.
    pub(super) fn new<B>(
        service: Rc<Service>,
        progress: Rc<Progress>,
        account: &Rc<Account>,
        peer: IpAddr,
        request: &Request<B>,
    ) -> Self {
        progress.stream_opened();
        // What the log would cut need not be kept while the client takes its time.
        let cut = |text: &[u8], max: usize| -> Box<[u8]> { text[..text.len().min(max)].into() };
        let field = |name| request.headers().get(name).map_or(&b""[..], |value| value.as_bytes());
        let target = request.uri().path_and_query().map_or("", |target| target.as_str()).as_bytes();
        let target = cut(target, Record::TARGET_MAX);
        let host = cut(host_of(request), Record::FIELD_MAX);
        let referer = cut(field(header::REFERER), Record::FIELD_MAX);
        let user_agent = cut(field(header::USER_AGENT), Record::FIELD_MAX);
        let texts = target.len() + host.len() + referer.len() + user_agent.len();
        Self {
            service,
            progress,
            started: now(),
            peer,
            method: method_of(request.method()),
            status: 0,
            sent: 0,
            target,
            host,
            referer,
            user_agent,
            _held: account.charge(STREAM_BYTES + texts),
        }
    }
}

impl Drop for Finish {
    fn drop(&mut self) {
        self.progress.stream_closed();
        self.service.counters.body_bytes.add(self.sent);
        self.service.log(&Record {
            peer: self.peer,
            unix_us: unix_us(),
            duration_us: u32::try_from(now().duration_since(self.started).as_micros()).unwrap_or(u32::MAX),
            status: self.status,
            body_bytes: self.sent,
            method: self.method,
            protocol: Protocol::Http2,
            tls: true,
            target: &self.target,
            host: &self.host,
            referer: &self.referer,
            user_agent: &self.user_agent,
        });
    }
}

fn push_parts(multipart: &Multipart, pieces: &mut VecDeque<Piece>) {
    let mut text = [0; 2 * PART_HEAD_BYTES_MAX];
    for (index, range) in multipart.ranges.iter().enumerate() {
        let mut out = Writer::new(&mut text);
        multipart.put_part_head(index, &mut out);
        pieces.push_back(Piece::Memory(Bytes::copy_from_slice(out.written())));
        pieces.push_back(Piece::File(*range));
    }
    let mut out = Writer::new(&mut text);
    multipart.put_trailer(&mut out);
    pieces.push_back(Piece::Memory(Bytes::copy_from_slice(out.written())));
}

/// Up to `want` bytes of the file, at once if the page cache has them.
async fn read(version: &Version, at: u64, want: usize) -> Result<Vec<u8>, Abort> {
    let mut bytes = vec![0; want];
    if let Some(read) = version.file.try_read_at(at, &mut bytes).map_err(Abort::Disk)? {
        bytes.truncate(read);
        return Ok(bytes);
    }
    drop(bytes);
    let buffers = lane::current().buffers().clone();
    let buf = buffers.get(BufClass::Small).await;
    let (read, buf) = version.file.read_at(at, want, buf).await;
    let read = read.map_err(Abort::Disk)?;
    Ok(buf[..read].to_vec())
}

/// With its head a data frame is one TLS record.
const FRAME_BYTES_MAX: usize = 16 * 1024 - 9;
/// What a stream costs beside its texts and data: its task, its request's fields, its place at h2.
const STREAM_BYTES: usize = 2048;
