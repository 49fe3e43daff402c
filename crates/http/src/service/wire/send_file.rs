//! Files out of a connection: page cache to socket where the kernel can, copied or sealed where it cannot.

use std::rc::Rc;

use lane::buffer::BufClass;
use lane::resident::Resident;
use vfs::OpenFile;

use super::super::abort::Abort;
use super::super::reply::Version;
use super::super::send_error;
use super::{SMALL_BODY_MAX, Wire};
use crate::range::ByteRange;

impl Wire {
    /// Sends part of a file: copied behind what waits if it is small or TLS, else page cache to socket.
    ///
    /// # Errors
    /// [`Abort::FileChanged`] when the bytes are no longer those of the version. The check comes
    /// before the last bytes leave, so a client never has the announced length of mixed content.
    pub(in crate::service) async fn send_file(
        &mut self,
        version: &Version,
        range: ByteRange,
    ) -> Result<(), Abort> {
        self.widen(range.len());
        match self.send_buffer.layout.is_some() || range.len() <= SMALL_BODY_MAX {
            true => self.send_file_copied(version, range).await,
            false => self.send_file_uncopied(version, range).await,
        }
    }

    /// Sends from the page cache to the socket, but for what waits before it.
    async fn send_file_uncopied(&mut self, version: &Version, range: ByteRange) -> Result<(), Abort> {
        let file = &version.file;
        self.flush(true).await?;
        let last = range.end - LAST_PART_BYTES.min(range.len());
        let mut resident = Resident::new(range.end);
        self.send_file_pages(version, ByteRange { start: range.start, end: last }, &mut resident).await?;
        let granted = self.permit((range.end - last) as usize).await;
        // Nothing is waited for between the look at the file and the last bytes.
        let in_memory = match resident.ensure(file.lane_file(), last, granted).await {
            Ok(in_memory) => in_memory,
            Err(error) => return Err(send_error::cause(file, last, error).await),
        };
        version.check()?;
        let sent = match self.tls {
            None => match self.stream.try_send_file(file.lane_file(), last, in_memory) {
                Ok(sent) => sent,
                Err(error) => return Err(send_error::cause(file, last, error).await),
            },
            Some(_) => None,
        };
        let sent = sent.unwrap_or(0);
        self.ticket.give_back(granted - sent);
        self.sent += sent as u64;
        let rest = ByteRange { start: last + sent as u64, end: range.end };
        self.send_file_pages(version, rest, &mut resident).await
    }

    /// Copies the range into the send buffer, sending each time it is full.
    async fn send_file_copied(&mut self, version: &Version, range: ByteRange) -> Result<(), Abort> {
        let file = &version.file;
        let mut at = range.start;
        yield_to_short_replies(range).await;
        while at < range.end {
            let left = usize::try_from(range.end - at).unwrap_or(usize::MAX);
            let class = if left > LARGE_FROM { BufClass::Large } else { BufClass::Small };
            self.reserve(1, class).await?;
            let spare = self.send_buffer.contiguous();
            let want = spare.len().min(left);
            let read = match file.try_read_at(at, &mut spare[..want]).map_err(Abort::Disk)? {
                Some(read) => {
                    self.send_buffer.grow(read);
                    read
                }
                None => self.read_cold(file, at, want).await?,
            };
            if read == 0 {
                return Err(Abort::FileChanged);
            }
            at += read as u64;
            if self.send_buffer.room() == 0 && at < range.end {
                self.flush(true).await?;
                self.judge_transfer()?;
                version.check_now_and_then()?;
                // A client that takes all at once must not keep the lane to itself.
                lane::yield_if_due().await;
            }
        }
        // A small file was read in one step right after its attributes.
        if range.len() > SMALL_BODY_MAX {
            version.check()?;
        }
        Ok(())
    }

    /// Reads what the page cache does not hold, through a buffer of its own.
    async fn read_cold(&mut self, file: &OpenFile, at: u64, want: usize) -> Result<usize, Abort> {
        let buf = lane::current().buffers().clone().get(BufClass::Small).await;
        let (read, buf) = file.read_at(at, want.min(BufClass::Small.bytes()), buf).await;
        let read = read.map_err(Abort::Disk)?;
        let copied = self.send_buffer.append(&buf[..read]);
        debug_assert_eq!(copied, read, "no more was asked for than fits");
        Ok(copied)
    }

    /// Sends from the page cache to the socket, a grant of the pacer's at a time and no more than the socket takes. In
    /// between others of the lane have their turns, and the file and the client are looked at.
    async fn send_file_pages(
        &mut self,
        version: &Version,
        range: ByteRange,
        resident: &mut Resident,
    ) -> Result<(), Abort> {
        let stream = Rc::clone(&self.stream);
        let mut at = range.start;
        yield_to_short_replies(range).await;
        while at < range.end {
            let left = usize::try_from(range.end - at).unwrap_or(usize::MAX);
            let granted = self.permit(left).await;
            if let Some(tls) = &mut self.tls {
                tls.count_kernel_tx(granted as u64)?;
                self.send_tls_output().await?;
            }
            let granted_end = at + granted as u64;
            while at < granted_end {
                let part = (granted_end - at) as usize;
                let handed = self.sent;
                let send = stream.send_file_part(version.file.lane_file(), at, part, resident);
                let sent = match self.unless_stalled(send, || handed).await? {
                    Ok(0) => return Err(Abort::FileChanged),
                    Ok(sent) => sent,
                    Err(error) => return Err(send_error::cause(&version.file, at, error).await),
                };
                self.sent += sent as u64;
                at += sent as u64;
                self.judge_transfer()?;
                if at < range.end {
                    version.check_now_and_then()?;
                    lane::yield_if_due().await;
                }
            }
        }
        Ok(())
    }
}

/// Yields to short replies. A thousand that ask for long files at once are in a line of their own from their first step
/// on.
async fn yield_to_short_replies(range: ByteRange) {
    if range.len() > PATIENT_FROM {
        lane::yield_if_due().await;
    }
}

/// A transfer with more to go than this is worth a large buffer.
const LARGE_FROM: usize = 32 * 1024;
/// Longer bodies give way to what is shorter.
const PATIENT_FROM: u64 = 256 * 1024;
/// The part of a file that is held back until the file is known to be unchanged.
const LAST_PART_BYTES: u64 = 16 * 1024;
