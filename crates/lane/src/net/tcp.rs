//! TCP listeners and streams.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::backend::operation as op;
use crate::backend::{Descriptor, Fd, Incoming, ListenOptions, OpFuture, Released, SocketKind, SocketOption};
use crate::buffer::{Buf, RecvBuf};
use crate::context;
use crate::fs::File;
use crate::resident::Resident;
use crate::socket::control::{CONTROL_BYTES, ControlWriter};
use crate::socket::ktls::{self, KtlsRefusal};

/// A listening TCP socket of the current lane.
#[derive(Debug)]
pub struct TcpListener {
    fd: Descriptor,
}

/// A connected TCP stream. Bytes come in buffers that the lane provides; an idle stream holds none.
#[derive(Debug)]
pub struct TcpStream {
    fd: Descriptor,
    peer: SocketAddr,
}

/// Outcome of sending file pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentFile {
    /// All bytes wanted were sent.
    All,
    /// The file ended after this many bytes, truncated since its length was announced.
    EndedAfter(u64),
}

impl TcpListener {
    /// Listens on `addr` with the options given.
    pub fn bind(addr: SocketAddr, options: &ListenOptions) -> io::Result<Self> {
        context::with(|lane| lane.backend().tcp_listen(addr, options)).map(|fd| Self { fd })
    }

    /// Takes over a listening socket made elsewhere.
    pub fn adopt(socket: OwnedFd) -> io::Result<Self> {
        context::with(|lane| lane.backend().adopt(socket, SocketKind::Listener)).map(|fd| Self { fd })
    }

    /// Accepts the next connection.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`, `ENOBUFS`, `ENOMEM`: resources ran out; the listener stays usable and the caller
    /// should wait before it asks again. Others concern one connection only.
    pub async fn accept(&self) -> io::Result<TcpStream> {
        let (fd, peer) =
            poll_fn(|cx| context::with(|lane| lane.backend().poll_accept(self.fd.fd(), cx))).await?;
        Ok(TcpStream { fd, peer })
    }

    /// Returns the listener's address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        context::with(|lane| lane.backend().local_addr(self.fd.fd()))
    }
}

impl TcpStream {
    /// Connects to `peer` from an address that the kernel chooses.
    pub async fn connect(peer: SocketAddr) -> io::Result<Self> {
        let socket = context::with(|lane| lane.backend().tcp_socket(peer))?;
        OpFuture::submit(op::Connect::new(socket.fd(), peer)).await?;
        Ok(Self { fd: socket, peer })
    }

    /// Takes over a connection that another lane gave away.
    pub fn adopt(connection: Released, peer: SocketAddr) -> io::Result<Self> {
        context::with(|lane| lane.backend().adopt_stream(connection)).map(|fd| Self { fd, peer })
    }

    /// Releases the connection, for another lane to adopt.
    ///
    /// # Errors
    /// The stream itself, when bytes were asked for already, but for those that [`TcpStream::recv_alone`] has brought.
    pub fn release(self) -> Result<Released, Self> {
        match context::with(|lane| lane.backend().release(self.fd.fd())) {
            Ok(connection) => {
                self.fd.forget();
                Ok(connection)
            }
            Err(_) => Err(self),
        }
    }

    /// Returns a trace of the connection's way in, by one system call, or three for the interface of an IPv6
    /// connection.
    pub fn incoming(&self, what: Incoming) -> Option<u32> {
        context::with(|lane| lane.backend().incoming(self.fd.fd(), self.peer, what))
    }

    /// Returns the address of the other end.
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    /// Returns the address of this end.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        context::with(|lane| lane.backend().local_addr(self.fd.fd()))
    }

    /// Receives the next bytes; an empty buffer is the end of the stream. Dropping the future loses no bytes.
    pub async fn recv(&self) -> io::Result<RecvBuf> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Polls for received bytes, for hand-written futures ([`TcpStream::recv`]).
    pub fn poll_recv(&self, cx: &mut std::task::Context<'_>) -> std::task::Poll<io::Result<RecvBuf>> {
        context::with(|lane| lane.backend().poll_recv(self.fd.fd(), cx))
    }

    /// Sends all of `buf` and returns `buf` in every case. The kernel is entered once for the sends of a
    /// whole turn, which makes this the cheap way for short answers to many clients. `more` says that bytes
    /// follow at once, so that the kernel may fill segments. When the future is dropped early an unknown part
    /// has been sent.
    pub async fn send(&self, mut buf: Buf, more: bool) -> (io::Result<()>, Buf) {
        let mut sent = 0;
        while sent < buf.len() {
            let send = op::Send { socket: self.fd.fd(), buf, from: sent, more };
            let result;
            (result, buf) = OpFuture::submit(send).await;
            match result {
                Ok(n) => sent += n,
                Err(error) => return (Err(error), buf),
            }
        }
        (Ok(()), buf)
    }

    /// Sends as many bytes as the socket takes now; returns `None` when the socket takes none.
    pub fn try_send(&self, parts: &[IoSlice<'_>], more: bool) -> io::Result<Option<usize>> {
        context::with(|lane| lane.backend().try_send(self.fd.fd(), parts, more))
    }

    /// Sends as many bytes of a file as the socket takes now; see [`TcpStream::send_file`].
    pub fn try_send_file(&self, file: &File, offset: u64, len: usize) -> io::Result<Option<usize>> {
        context::with(|lane| {
            let sent = lane.backend().try_send_file(self.fd.fd(), file.fd(), offset, len)?;
            lane.note_served(file.fd(), offset, sent.unwrap_or(0));
            Ok(sent)
        })
    }

    /// Sends some of `len` bytes of a file from `offset`, page cache to socket, without a copy in user space.
    /// It sends what the socket takes at once of what is in memory, and waits until that is some; 0 is the
    /// end of the file.
    pub async fn send_file_part(
        &self,
        file: &File,
        offset: u64,
        len: usize,
        resident: &mut Resident,
    ) -> io::Result<usize> {
        loop {
            let part = resident.ensure(file, offset, len).await?;
            match self.try_send_file(file, offset, part)? {
                Some(sent) => return Ok(sent),
                None => self.writable().await?,
            }
        }
    }

    /// Sends `len` bytes of a file from `offset` as [`TcpStream::send_file_part`] does. `progress` is called after every
    /// part with its size.
    pub async fn send_file(
        &self,
        file: &File,
        offset: u64,
        len: u64,
        mut progress: impl FnMut(u64),
    ) -> io::Result<SentFile> {
        let mut sent = 0;
        let mut resident = Resident::new(offset + len);
        while sent < len {
            let part = usize::try_from(len - sent).unwrap_or(usize::MAX);
            match self.send_file_part(file, offset + sent, part, &mut resident).await? {
                0 => return Ok(SentFile::EndedAfter(sent)),
                n => {
                    sent += n as u64;
                    progress(n as u64);
                    // Others of this lane get their turn between the parts of a long file. A part that was
                    // cut short is no sign of a full socket: one that is sealed as it goes drains meanwhile.
                    if sent < len {
                        crate::executor::yield_if_due().await;
                    }
                }
            }
        }
        Ok(SentFile::All)
    }

    /// Makes the kernel write the TLS records of this stream from now on, or gives the kernel the next key;
    /// see [`ktls::set_transmit_key`]. What is sent is then plaintext, each call's bytes as one record or
    /// more.
    pub fn set_tls_key(&self, crypto_info: &[u8]) -> Result<(), KtlsRefusal> {
        context::with(|lane| lane.backend().set_ktls_key(self.fd.fd(), crypto_info))
    }

    /// Returns whether [`TcpStream::set_tls_key`] takes a second key here.
    pub fn can_change_tls_key(&self) -> bool {
        context::with(|lane| lane.backend().can_change_ktls_key())
    }

    /// Sends a record that is not application data on a stream with kernel TLS, whole; returns `false` when
    /// the socket takes nothing now. What was sent before leaves in records of its own first.
    pub fn try_send_record(&self, record_type: u8, payload: &[u8]) -> io::Result<bool> {
        let mut bytes = [0; CONTROL_BYTES];
        let mut control = ControlWriter::new(&mut bytes);
        ktls::push_record_type(&mut control, record_type).map_err(io::Error::other)?;
        let len = control.len();
        let control = &bytes[..len];
        match context::with(|lane| lane.backend().try_send_control(self.fd.fd(), payload, control))? {
            Some(sent) if sent == payload.len() => Ok(true),
            // The rest would be a second record: half an alert each.
            Some(_) => Err(io::ErrorKind::WriteZero.into()),
            None => Ok(false),
        }
    }

    /// Waits until the socket takes bytes again.
    pub async fn writable(&self) -> io::Result<()> {
        OpFuture::submit(op::Ready { socket: self.fd.fd() }).await
    }

    /// Returns the bytes handed to the socket that the peer has not acknowledged yet, by one system call.
    pub fn unacknowledged(&self) -> io::Result<u64> {
        context::with(|lane| lane.backend().unacknowledged(self.fd.fd()))
    }

    /// Returns the time that the socket now waits for an acknowledgment before it sends again, by one system
    /// call.
    pub fn retransmission_timeout(&self) -> io::Result<Duration> {
        context::with(|lane| lane.backend().retransmission_timeout(self.fd.fd()))
    }

    /// Ends one or both directions.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        context::with(|lane| lane.backend().shutdown(self.fd.fd(), how))
    }

    /// Sets an option of the socket.
    pub fn set_option(&self, option: SocketOption) -> io::Result<()> {
        context::with(|lane| lane.backend().set_option(self.fd.fd(), option))
    }

    /// Closes by reset: the peer learns at once that the bytes received are not the whole.
    pub fn reset(self) {
        // If the option cannot be set the socket is broken already, and closing it tells the peer too.
        let _ = self.set_option(SocketOption::ResetOnClose);
    }

    /// Returns the descriptor, for operations that the backend offers beyond this type.
    pub fn fd(&self) -> Fd {
        self.fd.fd()
    }
}
