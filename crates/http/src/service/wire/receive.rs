//! Bodies into a connection: as they were received, or straight into memory of their own.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Instant;

use lane::buffer::RecvBuf;
use lane::time::Elapsed;
use tls::TlsEvent;

use super::super::abort::Abort;
use super::{Wire, timed_out};

impl Wire {
    /// Returns what comes next, as it was received, and of what else is at hand so many buffers that all are
    /// at most `max`; none where the stream has ended. With TLS they hold records: [`Wire::open_records`].
    ///
    /// # Errors
    /// [`Abort::Io`] with `TimedOut` when the deadline passes.
    pub(in crate::service) async fn receive_lent(
        &mut self,
        max: usize,
        deadline: Instant,
    ) -> Result<Vec<RecvBuf>, Abort> {
        self.flush(false).await?;
        let mut all = Vec::new();
        if self.ended {
            return Ok(all);
        }
        let mut next =
            Some(self.alarm.race(deadline, self.stream.recv()).await.map_err(|Elapsed| timed_out())??);
        while let Some(received) = next.take() {
            if received.is_empty() {
                self.ended = true;
                break;
            }
            all.push(received);
            if all.len() < max {
                let stream = &self.stream;
                next = poll_fn(|cx| match stream.poll_recv(cx) {
                    Poll::Ready(received) => Poll::Ready(Some(received)),
                    Poll::Pending => Poll::Ready(None),
                })
                .await
                .transpose()?;
            }
        }
        Ok(all)
    }

    /// Receives exactly `len` bytes of a stream without TLS, in one piece; `None` when they do not come in time, and
    /// are to be received as any others.
    pub(in crate::service) async fn receive_whole(
        &mut self,
        len: usize,
        deadline: Instant,
    ) -> Result<Option<Vec<u8>>, Abort> {
        debug_assert!(self.tls.is_none());
        self.flush(false).await?;
        let receive = self.stream.recv_exact(Vec::new(), len);
        match self.alarm.race(deadline, receive).await {
            Ok((Ok(()), bytes)) => Ok(Some(bytes)),
            Ok((Err(error), _)) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(Abort::PeerClosed)
            }
            Ok((Err(error), _)) => Err(Abort::Io(error)),
            Err(Elapsed) => Ok(None),
        }
    }

    /// Gives `each` the plaintext of a received buffer, piece by piece.
    pub(in crate::service) async fn open_records(
        &mut self,
        mut received: RecvBuf,
        mut each: impl FnMut(&[u8]),
    ) -> Result<(), Abort> {
        let Some(tls) = &mut self.tls else {
            each(&received);
            return Ok(());
        };
        let mut cursor = tls.receive(&mut received);
        let outcome = loop {
            match cursor.next() {
                Ok(Some(TlsEvent::Data(plain))) => each(plain),
                Ok(Some(TlsEvent::Established)) => {}
                Ok(Some(TlsEvent::PeerClosed)) => self.ended = true,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        drop(received);
        self.send_tls_output().await?;
        Ok(outcome?)
    }
}
