//! FetchData (130) and FetchData64 (65537): a file's bytes by one vectored read for as many packets as may leave, laid where they are
//! sent from; a directory's pages; what a link says.

use std::io;
use std::rc::Rc;

use afs_wire::code::{EINVAL, EIO, VBUSY};
use afs_wire::directory::Directory;
use afs_wire::{CALL_BACK_DROPPED, CALL_BACK_VERSION, CallBack, Fid};
use identity::Rights;
use rx_lane::PacketBuffers;
use vfs::{Attributes, Confirmed, OpenFile, Resolved};

use super::call_context::{ATTEMPTS_MAX, CallContext};
use super::status_and_callback::{FileLookup, Size, StatusAndCallback};
use super::{Call, CallFailure, ServedCall, charged};
use crate::host::CallbackPromise;

/// Form in which a reply tells its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    /// One word: no more than a signed one holds.
    Word,
    /// Two.
    Long,
}

/// Content that is sent.
pub(super) enum FetchContent {
    File(Rc<OpenFile>),
    Directory(Directory),
    Link(Vec<u8>),
}

/// A look at it, before any of it is sent.
pub(super) struct Fetch {
    lookup: FileLookup,
    promise: CallbackPromise,
    version: vfs::Version,
    attributes: Attributes,
    pub(super) content: FetchContent,
    pub(super) size: u64,
}

impl ServedCall {
    pub(super) async fn fetch(
        &self,
        call: &mut Call,
        fid: Fid,
        (offset, len): (i64, i64),
        length: Length,
    ) -> Result<StatusAndCallback, CallFailure> {
        let (offset, len) =
            (u64::try_from(offset).map_err(|_| EINVAL)?, u64::try_from(len).map_err(|_| EINVAL)?);
        if let Some((found, content)) = self.synthetic(call, fid).await? {
            self.send(call, &content, (offset, len.min(content.size().saturating_sub(offset))), length)
                .await?;
            return Ok(found);
        }
        let context = self.call_context(call, fid).await?;
        let fetch = self.begin_fetch(&context, fid).await?;
        let len = len.min(fetch.size.saturating_sub(offset));
        charged(call.remote(), len, self.send(call, &fetch.content, (offset, len), length)).await?;
        Ok(self.end_fetch(&context, &fetch))
    }

    /// Sends how many bytes follow, and these.
    async fn send(
        &self,
        call: &mut Call,
        content: &FetchContent,
        (offset, len): (u64, u64),
        length: Length,
    ) -> Result<(), CallFailure> {
        match length {
            Length::Word => {
                let len = len.min(i32::MAX as u64) as u32;
                call.write(&len.to_be_bytes()).await?;
                content.send(call, offset, u64::from(len)).await?;
            }
            Length::Long => {
                call.write(&len.to_be_bytes()).await?;
                content.send(call, offset, len).await?;
            }
        }
        self.server.inner.counters.fetched_bytes.add(len);
        Ok(())
    }

    /// Begins a fetch: callback, version and size come first, the bytes after.
    pub(super) async fn begin_fetch(&self, context: &CallContext, fid: Fid) -> Result<Fetch, CallFailure> {
        let inner = &self.server.inner;
        for _ in 0..ATTEMPTS_MAX {
            let promise = inner.hosts.promise();
            let lookup = self.lookup(context, fid, Rights::READ, promise.until).await?;
            let Some(Confirmed { version, attributes, .. }) = lookup.confirm() else { continue };
            let attributes = *attributes;
            let content = match &lookup {
                FileLookup::Node(promised) => match promised.resolved() {
                    Resolved::File(file, _) => FetchContent::File(Rc::clone(file)),
                    Resolved::Directory(directory, _) => {
                        let snapshot =
                            inner.dir_pages.of(&context.caller, directory, &inner.counters).await?;
                        if snapshot.version != version {
                            inner.counters.replies_rebuilt.increment();
                            continue;
                        }
                        FetchContent::Directory(snapshot.directory)
                    }
                },
                FileLookup::Link(link) => FetchContent::Link(link.link().target.clone()),
            };
            let size = match &content {
                FetchContent::File(_) => attributes.size,
                content => content.size(),
            };
            return Ok(Fetch { lookup, promise, version, attributes, content, size });
        }
        Err(vfs::Error::Busy.into())
    }

    /// Returns the status and callback behind the bytes. Where the file changed while they were sent, they get the
    /// version before that and no callback, so that the client asks for them anew.
    pub(super) fn end_fetch(&self, context: &CallContext, fetch: &Fetch) -> StatusAndCallback {
        let size = Size { bytes: fetch.size, of: Some(fetch.version) };
        if let Some(found) = fetch.lookup.status_and_callback(self, context, &fetch.promise, size) {
            self.hold_in_flight(context, &fetch.lookup);
            return found;
        }
        self.server.inner.counters.fetches_overtaken.increment();
        let before =
            Confirmed { version: fetch.version, attributes: &fetch.attributes, until: fetch.promise.until };
        let status = fetch.lookup.status(self, context, &before, fetch.size);
        let call_back = CallBack { version: CALL_BACK_VERSION, expires: 0, r#type: CALL_BACK_DROPPED };
        StatusAndCallback { status, call_back }
    }
}

impl FetchContent {
    /// Returns the bytes of what is at hand whole; those of a file are known from its look.
    fn size(&self) -> u64 {
        match self {
            Self::File(_) => 0,
            Self::Directory(directory) => directory.size() as u64,
            Self::Link(target) => target.len() as u64,
        }
    }

    /// Sends `len` bytes, which there were at the look. VBUSY where the file has become shorter since: no version had what could be sent
    /// in place of the missing bytes, and the client asks again.
    async fn send(&self, call: &mut Call, offset: u64, len: u64) -> Result<(), CallFailure> {
        let mut done = 0;
        while done < len {
            let left = usize::try_from(len - done).unwrap_or(usize::MAX);
            let mut packet_buffers = call.packet_buffers(left).await?;
            let filled = packet_buffers.len();
            self.fill(&mut packet_buffers, offset + done).await?;
            packet_buffers.commit(filled)?;
            done += filled as u64;
        }
        Ok(())
    }

    /// Reads a file: what the page cache has is copied on the spot; what it lacks the ring reads.
    async fn read(file: &OpenFile, packet_buffers: &mut PacketBuffers, at: u64) -> io::Result<usize> {
        let len = packet_buffers.len();
        if let Some(len) =
            file.lane_file().try_read_vectored_at(at, &mut packet_buffers.io_slices())?.filter(|&n| n == len)
        {
            return Ok(len);
        }
        let (read, bufs) = file.lane_file().read_vectored_at(at, len, packet_buffers.bufs()).await;
        drop(bufs);
        read
    }

    async fn fill(&self, packet_buffers: &mut PacketBuffers, at: u64) -> Result<(), CallFailure> {
        let mut at_end = at as usize;
        match self {
            Self::File(file) => {
                let read = Self::read(file, packet_buffers, at).await;
                let read = read.inspect_err(|error| file.note_failure(at, error)).map_err(|_| EIO)?;
                if read < packet_buffers.len() {
                    return Err(VBUSY.into());
                }
            }
            Self::Directory(directory) => packet_buffers.slices_mut().for_each(|room| {
                at_end += directory.read_at(at_end, room);
            }),
            Self::Link(target) => packet_buffers.slices_mut().for_each(|room| {
                room.copy_from_slice(&target[at_end..at_end + room.len()]);
                at_end += room.len();
            }),
        }
        Ok(())
    }
}
