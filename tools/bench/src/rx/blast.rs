//! Measurement of UDP between two lanes with GSO and GRO and nothing above it: the limit of any protocol on
//! it.
//!
//! The receiver asks with one datagram and then says how many bytes have come, after every batch; the sender keeps
//! at most [`WINDOW_BYTES`] under way, so that nothing is lost for want of a reader and both sides count the same.
//!
//! ```text
//! question, progress    "blast" 0 0 0 | milliseconds to go, u64 | bytes received, u64      (big-endian)
//! answer                datagrams of 1444 bytes, in bursts of 45
//! ```

use std::fs::File;
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use lane::backend::{Datagram, DatagramBatch, UdpOptions};
use lane::net::UdpSocket;
use lane::runtime::{RuntimeOptions, StartError, run_here};
use serde::Serialize;

/// Report of the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BlastReport {
    /// Seconds from the first datagram to the last.
    pub seconds: f64,
    /// Payload bytes.
    pub bytes: u64,
    /// Datagrams.
    pub datagrams: u64,
    /// Payload bits per second.
    pub bits_per_second: f64,
}

/// Receives a blast from `server` for `duration`, on the calling thread.
///
/// # Errors
/// The lane's, and the socket's: `TimedOut` when nothing comes.
pub fn blast(
    server: SocketAddr,
    duration: Duration,
    socket: UdpOptions,
) -> Result<io::Result<BlastReport>, StartError> {
    run_here(RuntimeOptions::default(), async move { receive(server, duration, &socket).await })
}

/// Answers blasts at `listen`, one after the other, until the process ends; `started` gets the address. What
/// is sent is read from `file` burst by burst, as a file server has to, or the same zeros each time.
///
/// # Errors
/// The lane's, the socket's and the file's.
pub fn serve_blast(
    listen: SocketAddr,
    socket: UdpOptions,
    file: Option<File>,
    started: impl FnOnce(SocketAddr) + 'static,
) -> Result<io::Result<()>, StartError> {
    run_here(RuntimeOptions::default(), async move {
        let socket = UdpSocket::bind(listen, &socket)?;
        let mut payload = Payload { bytes: vec![0; SEGMENT_BYTES * SEGMENTS], file, at: 0 };
        started(socket.local_addr()?);
        loop {
            send(&socket, &mut payload).await?;
        }
    })
}

async fn receive(server: SocketAddr, duration: Duration, options: &UdpOptions) -> io::Result<BlastReport> {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any, options)?;
    tell(&socket, server, duration, 0)?;
    let (mut batch, mut bytes, mut datagrams) = (Vec::<Datagram>::new(), 0, 0);
    let mut began: Option<Instant> = None;
    loop {
        let left =
            began.map_or(duration, |began| (began + duration).saturating_duration_since(Instant::now()));
        if left.is_zero() {
            break;
        }
        match lane::time::timeout(PATIENCE, socket.recv(&mut batch, BATCH_MAX)).await {
            Ok(received) => received?,
            Err(_) if bytes == 0 => return Err(io::ErrorKind::TimedOut.into()),
            // The last progress was lost; say it again.
            Err(_) => {}
        }
        began.get_or_insert_with(Instant::now);
        for datagram in batch.drain(..) {
            bytes += datagram.buf.len() as u64;
            datagrams += datagram.segments().count() as u64;
        }
        tell(&socket, server, left, bytes)?;
    }
    let seconds = duration.as_secs_f64();
    Ok(BlastReport { seconds, bytes, datagrams, bits_per_second: bytes as f64 * 8.0 / seconds })
}

fn tell(socket: &UdpSocket, server: SocketAddr, left: Duration, bytes: u64) -> io::Result<()> {
    let mut message = [0; MESSAGE_LEN];
    message[..8].copy_from_slice(MAGIC);
    let ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
    message[8..16].copy_from_slice(&ms.to_be_bytes());
    message[16..].copy_from_slice(&bytes.to_be_bytes());
    let segment = MESSAGE_LEN as u16;
    socket.try_send(&DatagramBatch::new(server, segment, &[IoSlice::new(&message)]))?;
    Ok(())
}

/// Reads the time left and the bytes received from a receiver's message.
fn parse(message: &[u8]) -> Option<(Duration, u64)> {
    let message: &[u8; MESSAGE_LEN] = message.try_into().ok()?;
    let word = |at: usize| u64::from_be_bytes(message[at..at + 8].try_into().expect("eight bytes"));
    (message[..8] == *MAGIC).then(|| (Duration::from_millis(word(8).min(MS_MAX)), word(16)))
}

/// Payload of a burst.
struct Payload {
    bytes: Vec<u8>,
    file: Option<File>,
    /// Offset where the file is read next.
    at: u64,
}

impl Payload {
    fn next(&mut self) -> io::Result<&[u8]> {
        if let Some(file) = &self.file {
            // The rest of the last burst before the file's end stays as it was: what is sent is not looked at.
            match file.read_at(&mut self.bytes, self.at)? {
                0 if self.at == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                0 => self.at = 0,
                count => self.at += count as u64,
            }
        }
        Ok(&self.bytes)
    }
}

/// Waits for one receiver and answers it until its time is up.
async fn send(socket: &UdpSocket, payload: &mut Payload) -> io::Result<()> {
    let mut batch = Vec::new();
    socket.recv(&mut batch, 1).await?;
    let Some(question) = batch.pop() else { return Ok(()) };
    let Some((duration, 0)) = parse(&question.buf) else { return Ok(()) };
    let receiver = question.from;
    let end = Instant::now() + duration;
    let (mut sent, mut received) = (0u64, 0u64);
    while Instant::now() < end {
        while sent < received + WINDOW_BYTES {
            // As an Rx burst is: one slice a packet.
            let parts: Vec<IoSlice<'_>> = payload.next()?.chunks(SEGMENT_BYTES).map(IoSlice::new).collect();
            match socket.try_send(&DatagramBatch::new(receiver, SEGMENT_BYTES as u16, &parts))? {
                Some(bytes) => sent += bytes as u64,
                None => socket.writable().await?,
            }
        }
        let Ok(got) = lane::time::timeout(PATIENCE, socket.recv(&mut batch, BATCH_MAX)).await else {
            // Something was lost: start counting anew.
            received = sent;
            continue;
        };
        got?;
        for datagram in batch.drain(..) {
            let newest = datagram.segments().filter_map(parse).map(|(_, bytes)| bytes).max();
            received = received.max(newest.unwrap_or(0));
        }
    }
    Ok(())
}

const MAGIC: &[u8; 8] = b"blast\0\0\0";
const MESSAGE_LEN: usize = 24;
/// Payload of Rx's common packet.
const SEGMENT_BYTES: usize = 1444;
/// Segments of one burst.
const SEGMENTS: usize = 45;
/// Largest number of bytes under way: several bursts, well below the receive buffer.
const WINDOW_BYTES: u64 = 2 << 20;
const BATCH_MAX: usize = 64;
const PATIENCE: Duration = Duration::from_millis(200);
/// Longest time that a receiver may ask for: an hour.
const MS_MAX: u64 = 3_600_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blast_arrives_whole_in_datagrams_of_rx_size_from_memory_or_a_file() {
        blast_arrives_whole(None);
        let own = std::env::current_exe().and_then(File::open);
        blast_arrives_whole(Some(own.expect("the test's own program")));
    }

    fn blast_arrives_whole(file: Option<File>) {
        let (tell, address) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let listen = (Ipv4Addr::LOCALHOST, 0).into();
            serve_blast(listen, UdpOptions::default(), file, move |at| tell.send(at).expect("the test waits"))
        });
        let server = address.recv().expect("the sender starts");
        let report = blast(server, Duration::from_millis(300), UdpOptions::default());
        let report = report.expect("a lane starts").expect("datagrams come");
        assert_eq!(report.bytes, report.datagrams * SEGMENT_BYTES as u64);
        assert!(report.bytes > 10 * WINDOW_BYTES, "{report:?}");
    }
}
