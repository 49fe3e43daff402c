//! Response bodies as HTTP/2 streams, and the log record that their end writes.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
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

/// A body that hyper asks for, frame by frame.
pub(super) struct StreamBody {
    pieces: VecDeque<Piece>,
    version: Option<Version>,
    reading: Option<Reading>,
    /// `None` where only the end shows how much it is.
    left: Option<u64>,
    finish: Finish,
}

/// A read that the disk has to answer.
type Reading = Pin<Box<dyn Future<Output = Result<Bytes, Abort>>>>;

enum Piece {
    Memory(Bytes),
    File(ByteRange),
    Listing(Box<Rendering>),
}

/// Ends a request's books when its body is done with, however that comes about.
pub(super) struct Finish {
    service: Rc<Service>,
    progress: Rc<Progress>,
    started: Instant,
    peer: IpAddr,
    method: Method,
    pub(super) status: u16,
    sent: u64,
    target: Box<[u8]>,
    host: Box<[u8]>,
    referer: Box<[u8]>,
    user_agent: Box<[u8]>,
}

impl StreamBody {
    pub(super) fn new(body: Body, head_only: bool, finish: Finish) -> Self {
        let mut pieces = VecDeque::new();
        let version = match body {
            _ if head_only => None,
            Body::Empty => None,
            Body::Memory(bytes) => {
                pieces.push_back(Piece::Memory(bytes.into()));
                None
            }
            Body::Content(content, range) => {
                let bytes = Bytes::copy_from_slice(Body::of_content(&content, &range));
                pieces.push_back(Piece::Memory(bytes));
                None
            }
            Body::File(version, range) => {
                pieces.push_back(Piece::File(range));
                Some(version)
            }
            Body::Listing(rendering) => {
                pieces.push_back(Piece::Listing(rendering));
                None
            }
            Body::Multipart(version, multipart) => {
                push_parts(&multipart, &mut pieces);
                Some(version)
            }
        };
        let left = pieces.iter().map(Piece::len).sum();
        Self { pieces, version, reading: None, left, finish }
    }

    /// Up to [`FRAME_BYTES_MAX`] bytes of the file, at once if the page cache has them.
    fn poll_read(&mut self, cx: &mut Context<'_>, range: ByteRange) -> Poll<Result<Bytes, Abort>> {
        let Some(version) = &self.version else { return Poll::Ready(Err(Abort::FileChanged)) };
        if self.reading.is_none() {
            let want = range.len().min(FRAME_BYTES_MAX) as usize;
            let mut bytes = vec![0; want];
            match version.file.try_read_at(range.start, &mut bytes).map_err(Abort::Disk)? {
                Some(read) => {
                    bytes.truncate(read);
                    return Poll::Ready(Ok(bytes.into()));
                }
                None => self.reading = Some(Box::pin(read_cold(version.clone(), range.start, want))),
            }
        }
        let Some(reading) = &mut self.reading else { return Poll::Pending };
        let bytes = ready!(reading.as_mut().poll(cx));
        self.reading = None;
        Poll::Ready(bytes)
    }

    /// Takes `n` bytes off the file piece at the front. The last bytes of all go out only if the file is
    /// still the version that the head announced.
    fn advance(&mut self, range: ByteRange, n: u64) -> Result<(), Abort> {
        if n == 0 {
            return Err(Abort::FileChanged);
        }
        self.pieces.pop_front();
        if n < range.len() {
            self.pieces.push_front(Piece::File(ByteRange { start: range.start + n, end: range.end }));
        } else if let Some(version) = &self.version {
            version.file.check_unchanged(&version.token).map_err(|_| Abort::FileChanged)?;
        }
        Ok(())
    }
}

impl HttpBody for StreamBody {
    type Data = Bytes;
    type Error = Abort;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Abort>>> {
        let bytes = match self.pieces.front_mut() {
            None => return Poll::Ready(None),
            Some(Piece::Listing(rendering)) => {
                let mut text = String::new();
                rendering.render(FRAME_BYTES_MAX as usize, &mut text);
                if rendering.is_done() {
                    self.pieces.pop_front();
                }
                Ok(text.into())
            }
            Some(Piece::Memory(bytes)) => {
                let bytes = bytes.clone();
                self.pieces.pop_front();
                Ok(bytes)
            }
            Some(Piece::File(range)) => {
                let range = *range;
                let read = ready!(self.poll_read(cx, range));
                read.and_then(|bytes| self.advance(range, bytes.len() as u64).map(|()| bytes))
            }
        };
        match bytes {
            Ok(bytes) => {
                self.left = self.left.map(|left| left - bytes.len() as u64);
                self.finish.sent += bytes.len() as u64;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Err(abort) => {
                self.finish.service.counters.abort(&abort);
                self.pieces.clear();
                Poll::Ready(Some(Err(abort)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Piece {
    fn len(&self) -> Option<u64> {
        match self {
            Self::Memory(bytes) => Some(bytes.len() as u64),
            Self::File(range) => Some(range.len()),
            Self::Listing(_) => None,
        }
    }
}

impl Finish {
    /// Opens the books of a request.
    pub(super) fn new<B>(
        service: Rc<Service>,
        progress: Rc<Progress>,
        peer: IpAddr,
        request: &Request<B>,
    ) -> Self {
        progress.stream_opened();
        let field =
            |name| request.headers().get(name).map_or_else(Box::default, |value| value.as_bytes().into());
        Self {
            service,
            progress,
            started: now(),
            peer,
            method: method_of(request.method()),
            status: 0,
            sent: 0,
            target: request.uri().path_and_query().map_or("", |target| target.as_str()).as_bytes().into(),
            host: host_of(request).into(),
            referer: field(header::REFERER),
            user_agent: field(header::USER_AGENT),
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

async fn read_cold(version: Version, at: u64, want: usize) -> Result<Bytes, Abort> {
    let buffers = lane::current().buffers().clone();
    let buf = buffers.get(BufClass::Small).await;
    let (read, buf) = version.file.read_at(at, want, buf).await;
    let read = read.map_err(Abort::Disk)?;
    Ok(Bytes::copy_from_slice(&buf[..read]))
}

/// A data frame of hyper's default size.
const FRAME_BYTES_MAX: u64 = 16 * 1024;
