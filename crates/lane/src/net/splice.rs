//! Sending of file pages to a stream through a pipe: kernel threads wait for the disk, not the lane.

use std::io;

use super::TcpStream;
use super::tcp::SentFile;
use crate::backend::OpFuture;
use crate::backend::operation as op;
use crate::context;
use crate::fs::File;

impl TcpStream {
    /// Sends `len` bytes of a file from `offset`, page cache to socket, by splice(2) on the ring. Unlike
    /// [`TcpStream::send_file`] it does not ask what is in memory, and pays for it with two operations of a
    /// kernel thread for each pipe's worth, 8,200 system calls per GiB beside 1,800: for files that are
    /// hardly ever in memory. With all pipes of the lane in use it is [`TcpStream::send_file`].
    pub async fn splice_file(&self, file: &File, offset: u64, len: u64) -> io::Result<SentFile> {
        let Some(mut pipe) = context::with(|lane| lane.backend().pipe())? else {
            return self.send_file(file, offset, len, |_| ()).await;
        };
        let mut sent = 0;
        while sent < len {
            let wanted = usize::try_from(len - sent).unwrap_or(usize::MAX).min(pipe.capacity());
            let way = op::SpliceDirection::In { file: file.fd(), offset: offset + sent };
            let moved;
            (moved, pipe) = OpFuture::submit(op::Splice { pipe, way, len: wanted }).await;
            let moved = moved? as u64;
            if moved == 0 {
                return Ok(SentFile::EndedAfter(sent));
            }
            context::with(|lane| lane.note_served(file.fd(), offset + sent, moved as usize));
            sent += moved;
            while pipe.held() > 0 {
                let way = op::SpliceDirection::Out { socket: self.fd(), more: sent < len };
                let (len, out) = (pipe.held(), pipe);
                let moved;
                (moved, pipe) = OpFuture::submit(op::Splice { pipe: out, way, len }).await;
                match moved {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable().await?,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(SentFile::All)
    }
}
