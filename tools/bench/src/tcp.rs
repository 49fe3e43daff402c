//! Measurement of one TCP connection between a file and a peer with nothing above it: a thread that sends a
//! file by sendfile(2) over and over, one that writes what it receives into a file, and their clients. The
//! limit of any protocol that moves files over TCP.
//!
//! There is no protocol: the server's side says which way the bytes go, and they go until the client closes.

use std::fs::File;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::sendfile;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// Action of a server on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bare {
    /// Sends this file over and over.
    Send(PathBuf),
    /// Writes what comes into this file, of so many bytes, over and over.
    Receive(PathBuf, u64),
}

/// Report of a client.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BareReport {
    /// Seconds from the first byte to the last.
    pub seconds: f64,
    /// Bytes moved.
    pub bytes: u64,
    /// Bits a second.
    pub bits_per_second: f64,
    /// CPU time of the server's process meanwhile, if its id was given.
    pub server_cpu_seconds: Option<f64>,
    /// CPU time of this thread meanwhile.
    pub client_cpu_seconds: f64,
}

/// Serves connections, each by a thread, until the process ends.
///
/// # Errors
/// The socket's and the file's.
pub fn serve(listener: &TcpListener, what: &Bare) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept()?;
        let work: Box<dyn FnOnce() -> io::Result<()> + Send> = match what {
            Bare::Send(path) => {
                let file = File::open(path)?;
                Box::new(move || send_file(&stream, &file, |_| true))
            }
            Bare::Receive(path, len) => {
                let (file, len) =
                    (File::options().write(true).create(true).truncate(false).open(path)?, *len);
                Box::new(move || receive_file(&stream, &file, len))
            }
        };
        // It ends as its client does, which is no error of the server's.
        std::thread::spawn(move || drop(work()));
    }
}

/// Receives from `server` for so long, in pieces of 256 KiB.
///
/// # Errors
/// The socket's; `UnexpectedEof` when the server ends first.
pub fn receive(server: SocketAddr, duration: Duration, pid: Option<u32>) -> io::Result<BareReport> {
    let mut stream = TcpStream::connect(server)?;
    let mut piece = vec![0; PIECE];
    // The first bytes start the clock: a connection is slow at its beginning.
    stream.read_exact(&mut piece)?;
    let mut run = Run::begin(duration, pid);
    while run.goes_on() {
        stream.read_exact(&mut piece)?;
        run.bytes += PIECE as u64;
    }
    Ok(run.report())
}

/// Sends the file at `path` to `server` for so long.
///
/// # Errors
/// The socket's and the file's.
pub fn send(server: SocketAddr, path: &Path, duration: Duration, pid: Option<u32>) -> io::Result<BareReport> {
    let (stream, file) = (TcpStream::connect(server)?, File::open(path)?);
    let mut run = Run::begin(duration, pid);
    send_file(&stream, &file, |count| {
        run.bytes += count as u64;
        run.goes_on()
    })?;
    Ok(run.report())
}

/// Sends a file over and over, as long as `goes_on` says so of what was taken.
fn send_file(stream: &TcpStream, file: &File, mut goes_on: impl FnMut(usize) -> bool) -> io::Result<()> {
    let len = file.metadata()?.len();
    let mut offset = 0;
    loop {
        let wanted = (len - offset).min(SENT_AT_ONCE) as usize;
        let count = sendfile(stream, file, Some(&mut offset), wanted)?;
        if count == 0 || !goes_on(count) {
            return Ok(());
        }
        offset = if offset < len { offset } else { 0 };
    }
}

/// Writes what comes into a file, from its start again after `len` bytes.
fn receive_file(mut stream: &TcpStream, file: &File, len: u64) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    let mut offset = 0;
    loop {
        let count = (len - offset).min(PIECE as u64) as usize;
        stream.read_exact(&mut piece[..count])?;
        file.write_all_at(&piece[..count], offset)?;
        offset += count as u64;
        offset = if offset < len { offset } else { 0 };
    }
}

/// A client's run.
struct Run {
    began: Instant,
    end: Instant,
    bytes: u64,
    pid: Option<u32>,
    before: (Option<f64>, f64),
}

impl Run {
    fn begin(duration: Duration, pid: Option<u32>) -> Self {
        let began = Instant::now();
        Self {
            began,
            end: began + duration,
            bytes: 0,
            pid,
            before: (pid.and_then(crate::cpu_seconds), own_cpu()),
        }
    }

    fn goes_on(&self) -> bool {
        Instant::now() < self.end
    }

    fn report(self) -> BareReport {
        let seconds = self.began.elapsed().as_secs_f64().max(1e-6);
        let server = |before: f64| Some(crate::cpu_seconds(self.pid?)? - before);
        BareReport {
            seconds,
            bytes: self.bytes,
            bits_per_second: self.bytes as f64 * 8.0 / seconds,
            server_cpu_seconds: self.before.0.and_then(server),
            client_cpu_seconds: own_cpu() - self.before.1,
        }
    }
}

fn own_cpu() -> f64 {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9
}

/// Bytes received and written at once, as by the server of out-of-band TCP.
const PIECE: usize = 256 << 10;
/// Bytes of the file that are sent by one call.
const SENT_AT_ONCE: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn serving(what: Bare) -> SocketAddr {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let at = listener.local_addr().unwrap();
        std::thread::spawn(move || serve(&listener, &what));
        at
    }

    #[test]
    fn what_is_sent_is_counted_by_who_receives_it() {
        let (dir, own) = (std::env::temp_dir(), std::process::id());
        let (from, to) = (dir.join(format!("bare-from-{own}")), dir.join(format!("bare-to-{own}")));
        std::fs::write(&from, vec![b'x'; 1 << 20]).unwrap();
        let brief = Duration::from_millis(1);
        let received = receive(serving(Bare::Send(from.clone())), brief, Some(own)).unwrap();
        assert!(received.bytes > 0 && received.server_cpu_seconds.is_some());
        let sent = send(serving(Bare::Receive(to.clone(), 1 << 20)), &from, brief, None).unwrap();
        assert!(sent.bytes > 0 && sent.server_cpu_seconds.is_none());
        // The server makes the file and writes a whole piece at least; it may be at it still.
        while std::fs::metadata(&to).map_or(0, |file| file.len()) < PIECE as u64 {
            std::thread::yield_now();
        }
        assert!(std::fs::read(&to).unwrap()[..PIECE].iter().all(|byte| *byte == b'x'));
        std::fs::remove_file(from).unwrap();
        std::fs::remove_file(to).unwrap();
    }
}
