//! Sending of buffers as messages: several at once, with control messages, copied or out of the memory where
//! the bytes lie.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::{TcpStream, UdpSocket};
use crate::backend::OpFuture;
use crate::backend::operation as op;
use crate::buffer::Buf;
use crate::context;

impl TcpStream {
    /// Sends all bytes of the buffers, one after another, and returns the buffers in every case. `control`
    /// are control messages as [`crate::socket::control`] writes them, sent with the first of the bytes;
    /// `more` says that bytes follow at once. When the future is dropped early an unknown part has been sent.
    pub async fn send_message(
        &self,
        bufs: Vec<Buf>,
        control: &[u8],
        more: bool,
    ) -> (io::Result<()>, Vec<Buf>) {
        self.send_rest(bufs, 0, control.to_vec(), more).await
    }

    /// Sends a message out of the memory that the bytes lie in ([`TcpStream::send_message`]): for long ones,
    /// as the kernel has work with each page. It resolves when the stream has taken all; the buffers come
    /// back when the peer has acknowledged it, by [`InKernel::buffers`].
    ///
    /// Where the kernel cannot (before Linux 6.1, or on a stream with kernel TLS) it copies; see the counters
    /// `zero_copy_refused` and, for what it copied in spite of all, `zero_copy_copied`.
    pub async fn send_zero_copy(&self, mut bufs: Vec<Buf>, more: bool) -> (io::Result<()>, InKernel) {
        let total: usize = bufs.iter().map(|buf| buf.len()).sum();
        let mut done = 0;
        while done < total {
            let mut lent = InKernel::begin(self, bufs, done, more);
            match lent.sent().await {
                Ok(n) if done + n == total => return (Ok(()), lent),
                Ok(0) => return (Err(io::ErrorKind::WriteZero.into()), lent),
                Ok(n) => {
                    done += n;
                    bufs = lent.buffers().await;
                }
                Err(error) if is_refusal(&error) => {
                    context::with(|lane| lane.counters().zero_copy_refused.increment());
                    let (result, bufs) = self.send_rest(lent.buffers().await, done, Vec::new(), more).await;
                    return (result, InKernel::back(bufs));
                }
                Err(error) => return (Err(error), lent),
            }
        }
        (Ok(()), InKernel::back(bufs))
    }

    async fn send_rest(
        &self,
        mut bufs: Vec<Buf>,
        from: usize,
        mut control: Vec<u8>,
        more: bool,
    ) -> (io::Result<()>, Vec<Buf>) {
        let total: usize = bufs.iter().map(|buf| buf.len()).sum();
        let mut done = from;
        while done < total {
            let control = std::mem::take(&mut control);
            let result;
            (result, bufs) =
                OpFuture::submit(op::SendMessage::on_stream(self.fd(), bufs, done, control, more)).await;
            match result {
                Ok(n) => done += n,
                Err(error) => return (Err(error), bufs),
            }
        }
        (Ok(()), bufs)
    }
}

impl UdpSocket {
    /// Sends the bytes of the buffers as one datagram to `to`, or cut every `segment` bytes (UDP_SEGMENT),
    /// from `source` where a certain address of this host is needed. Waits while the socket takes none, and
    /// gives the buffers back in every case.
    ///
    /// # Errors
    /// The kernel's: `EMSGSIZE` and `EINVAL` for what is too much; where the route cannot segment `EIO`.
    pub async fn send_message(
        &self,
        to: SocketAddr,
        source: Option<IpAddr>,
        segment: Option<u16>,
        bufs: Vec<Buf>,
    ) -> (io::Result<usize>, Vec<Buf>) {
        match op::datagram_control(source, segment) {
            Ok(control) => OpFuture::submit(op::SendMessage::to(self.fd(), to, bufs, control)).await,
            Err(error) => (Err(error), bufs),
        }
    }
}

/// Buffers with bytes that a stream has taken and the kernel still reads. Dropped, they go back to their pool
/// when the kernel has let go of them.
#[must_use = "buffers that nobody takes back go to their pool"]
pub struct InKernel {
    operation: Option<(OpFuture<op::SendZeroCopy>, Rc<op::FirstStep>)>,
    back: Option<Vec<Buf>>,
}

impl InKernel {
    /// Waits until the kernel has let go of the buffers, which takes long where a peer does not acknowledge.
    pub async fn buffers(mut self) -> Vec<Buf> {
        poll_fn(|cx| self.poll_back(cx)).await;
        self.back.take().expect("they are back")
    }

    fn begin(stream: &TcpStream, bufs: Vec<Buf>, from: usize, more: bool) -> Self {
        let (operation, first) = op::SendZeroCopy::new(stream.fd(), bufs, from, more);
        Self { operation: Some((OpFuture::submit(operation), first)), back: None }
    }

    fn back(bufs: Vec<Buf>) -> Self {
        Self { operation: None, back: Some(bufs) }
    }

    /// Waits until the stream has taken bytes.
    async fn sent(&mut self) -> io::Result<usize> {
        let (_, first) = self.operation.as_ref().expect("just begun");
        let first = Rc::clone(first);
        poll_fn(|cx| {
            // It may end without a second step.
            let _ = self.poll_back(cx);
            first.take(cx.waker()).map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    fn poll_back(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some((operation, _)) = &mut self.operation {
            let Poll::Ready(bufs) = Pin::new(operation).poll(cx) else { return Poll::Pending };
            (self.operation, self.back) = (None, Some(bufs));
        }
        Poll::Ready(())
    }
}

impl std::fmt::Debug for InKernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InKernel").field("back", &self.back).finish_non_exhaustive()
    }
}

/// Returns whether the kernel or the socket cannot send without a copy.
fn is_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS | libc::ENOMEM))
}
