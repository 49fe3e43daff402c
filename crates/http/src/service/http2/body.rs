//! Response bodies as HTTP/2 streams: read as far as the client's windows are open, where they will be sealed.

use std::collections::VecDeque;
use std::rc::Rc;

use bytes::{Buf, Bytes};
use lane::buffer::BufClass;
use service::memory::Account;

use super::outgoing::OutgoingBytes;
use crate::http2::frame::{FRAME_BYTES, data_head};
use crate::listing::Rendering;
use crate::multipart::{Multipart, PART_HEAD_BYTES_MAX};
use crate::range::ByteRange;
use crate::response::Writer;
use crate::service::abort::Abort;
use crate::service::reply::{Body, Version};

/// Rest of a body.
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

/// Outcome of [`StreamBody::put`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// A frame with so many bytes, perhaps the last.
    Frame { len: usize, ends: bool },
    /// The next part must be waited for: [`StreamBody::fetch`].
    Later,
    /// The gathered output must be sent first.
    Full,
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

    /// Returns whether the next bytes cost the lane's time.
    pub(super) fn is_rendered(&self) -> bool {
        matches!(self.pieces.front(), Some(Piece::Listing(_, rest)) if rest.is_empty())
    }

    /// Returns how many bytes [`StreamBody::fetch`] would take if all windows were open.
    pub(super) fn wanted(&self) -> usize {
        let left = match self.pieces.front() {
            None => 0,
            Some(Piece::Memory(bytes)) => bytes.len(),
            Some(Piece::Content(_, range) | Piece::File(range)) => {
                usize::try_from(range.len()).unwrap_or(usize::MAX)
            }
            Some(Piece::Listing(..)) => FRAME_BYTES,
        };
        left.min(FRAME_BYTES)
    }

    /// Puts the next frame, of at most `max` bytes, which is not 0, behind what has gathered, if it is at hand. The last
    /// bytes of a file go only if it is still the version that the head announced.
    pub(super) fn put(&mut self, stream: u32, max: usize, out: &mut OutgoingBytes) -> Result<Put, Abort> {
        let is_last = self.pieces.len() == 1;
        let Some(piece) = self.pieces.front_mut() else { return Ok(Put::Later) };
        let left = match piece {
            Piece::Memory(bytes) => bytes.len(),
            Piece::Content(_, range) | Piece::File(range) => {
                usize::try_from(range.len()).unwrap_or(usize::MAX)
            }
            Piece::Listing(..) => return Ok(Put::Later),
        };
        let len = out.frame_room(left.min(max));
        if len == 0 {
            return Ok(Put::Full);
        }
        let is_done = len == left;
        let ends = is_done && is_last;
        let head = data_head(stream, len, ends);
        match piece {
            Piece::Memory(bytes) => {
                out.append(&head);
                out.append(&bytes[..len]);
                bytes.advance(len);
            }
            Piece::Content(content, range) => {
                let part = ByteRange { start: range.start, end: range.start + len as u64 };
                out.append(&head);
                out.append(Body::of_content(content, &part));
                range.start = part.end;
            }
            Piece::File(range) => {
                let Some(version) = &self.version else { return Err(Abort::FileChanged) };
                let mark = out.mark();
                out.append(&head);
                let read = out.fill(len, |at, slot| version.file.try_read_at(range.start + at as u64, slot));
                let is_whole = matches!(read, Ok(Some(read)) if read == len);
                let checked = match read {
                    Ok(None) => {
                        out.rewind(mark);
                        return Ok(Put::Later);
                    }
                    Ok(Some(0)) => Err(Abort::FileChanged),
                    Ok(Some(_)) if is_whole && is_done => version.check().map(|()| len),
                    Ok(Some(read)) => version.check_now_and_then().map(|()| read),
                    Err(error) => Err(Abort::Disk(error)),
                };
                let len = match checked {
                    Ok(len) => len,
                    Err(abort) => {
                        out.rewind(mark);
                        return Err(abort);
                    }
                };
                range.start += len as u64;
                if !is_whole {
                    // The page cache had no more: the rest comes in a frame of its own.
                    out.patch(mark.1, &data_head(stream, len, false));
                    return Ok(Put::Frame { len, ends: false });
                }
            }
            Piece::Listing(..) => return Ok(Put::Later),
        }
        if is_done {
            self.pieces.pop_front();
        }
        Ok(Put::Frame { len, ends })
    }

    /// Brings what is to be rendered next: before [`StreamBody::fetch`], and before the lane's time is taken for that.
    pub(super) async fn prepare(&mut self, account: &Rc<Account>) -> Result<(), Abort> {
        match self.pieces.front_mut() {
            Some(Piece::Listing(rendering, rest)) if rest.is_empty() => {
                rendering.prepare(Some(account)).await.map_err(Abort::Listing)
            }
            _ => Ok(()),
        }
    }

    /// Reads the next bytes, at most `max`, which is not 0, of what is not at hand; none of anything else.
    pub(super) async fn fetch(&mut self, max: usize) -> Result<Vec<u8>, Abort> {
        let (bytes, is_done) = match self.pieces.front_mut() {
            Some(Piece::Listing(rendering, rest)) => {
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
            Some(Piece::File(range)) => {
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
            Some(Piece::Memory(_) | Piece::Content(..)) | None => return Ok(Vec::new()),
        };
        if is_done {
            self.pieces.pop_front();
        }
        Ok(bytes)
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

/// Reads up to `want` bytes of the file, which the page cache did not have.
async fn read(version: &Version, at: u64, want: usize) -> Result<Vec<u8>, Abort> {
    let buffers = lane::current().buffers().clone();
    let buf = buffers.get(BufClass::Small).await;
    let (read, buf) = version.file.read_at(at, want, buf).await;
    let read = read.map_err(Abort::Disk)?;
    Ok(buf[..read].to_vec())
}
