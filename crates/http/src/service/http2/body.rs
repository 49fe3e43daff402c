//! Response bodies as HTTP/2 streams, and the log record that their end writes.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::ops::Range;
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
    bytes: Part,
    at: usize,
    _held: Charge,
}

/// Some bytes of a body.
pub(super) enum Part {
    Own(Vec<u8>),
    /// Of a small file's content, which its cache shares.
    Shared(Rc<[u8]>, Range<usize>),
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
    texts: Texts,
    _held: Charge,
}

/// What the log wants of a request's head, in one piece of memory: target, host, referer and user agent.
#[derive(Default)]
struct Texts {
    all: Box<[u8]>,
    lens: [usize; 4],
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
    pub(super) async fn next(&mut self, max: usize) -> Result<Part, Abort> {
        let Some(piece) = self.pieces.front_mut() else { return Ok(Part::Own(Vec::new())) };
        let (bytes, is_done) = match piece {
            Piece::Memory(bytes) => {
                (Part::Own(bytes.split_to(max.min(bytes.len())).to_vec()), bytes.is_empty())
            }
            Piece::Content(content, range) => {
                let (start, end) = (range.start as usize, range.end.min(range.start + max as u64) as usize);
                range.start = end as u64;
                (Part::Shared(Rc::clone(content), start..end), range.start == range.end)
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
                (Part::Own(bytes), rest.is_empty() && rendering.is_done())
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
                (Part::Own(bytes), range.start == range.end)
            }
        };
        if is_done {
            self.pieces.pop_front();
        }
        Ok(bytes)
    }
}

impl Part {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Own(bytes) => bytes.len(),
            Self::Shared(_, range) => range.len(),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(content, range) => &content[range.clone()],
        }
    }
}

impl Chunk {
    pub(super) fn new(bytes: Part, held: Charge) -> Self {
        Self { bytes, at: 0, _held: held }
    }
}

impl Buf for Chunk {
    fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes.bytes()[self.at..]
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
        let texts = if service.keeps_log() { Texts::of(request) } else { Texts::default() };
        let bytes = STREAM_BYTES + texts.all.len();
        Self {
            service,
            progress,
            started: now(),
            peer,
            method: method_of(request.method()),
            status: 0,
            sent: 0,
            texts,
            _held: account.charge(bytes),
        }
    }
}

impl Texts {
    /// What the log would cut is not kept while the client takes its time.
    fn of<B>(request: &Request<B>) -> Self {
        let field = |name| request.headers().get(name).map_or(&b""[..], |value| value.as_bytes());
        let target = request.uri().path_and_query().map_or("", |target| target.as_str()).as_bytes();
        let parts = [target, host_of(request), field(header::REFERER), field(header::USER_AGENT)];
        let mut lens = parts.map(|part| part.len().min(Record::FIELD_MAX));
        lens[0] = target.len().min(Record::TARGET_MAX);
        let mut all = Vec::with_capacity(lens.iter().sum());
        parts.iter().zip(lens).for_each(|(part, len)| all.extend_from_slice(&part[..len]));
        Self { all: all.into(), lens }
    }

    fn parts(&self) -> [&[u8]; 4] {
        let mut at = 0;
        self.lens.map(|len| {
            at += len;
            &self.all[at - len..at]
        })
    }
}

impl Drop for Finish {
    fn drop(&mut self) {
        self.progress.stream_closed();
        self.service.counters.body_bytes.add(self.sent);
        if !self.service.keeps_log() {
            return;
        }
        let [target, host, referer, user_agent] = self.texts.parts();
        self.service.log(&Record {
            peer: self.peer,
            unix_us: unix_us(),
            duration_us: u32::try_from(now().duration_since(self.started).as_micros()).unwrap_or(u32::MAX),
            status: self.status,
            body_bytes: self.sent,
            method: self.method,
            protocol: Protocol::Http2,
            tls: true,
            target,
            host,
            referer,
            user_agent,
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

/// What every client takes in one frame (RFC 9113 4.2).
const FRAME_BYTES_MAX: usize = 16 * 1024;
/// What a stream costs beside its texts and data: its task, its request's fields, its place at h2.
const STREAM_BYTES: usize = 2048;
