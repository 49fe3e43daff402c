//! A part of a file out of a connection, page cache to socket.

use std::io::{self, IoSlice};
use std::pin::pin;
use std::time::Instant;

use futures_util::future::{Either, select};
use lane::fs::File;
use lane::net::TcpStream;
use lane::resident::Resident;
use lane::time::{now, timeout};
use oob::{Sending, Step};

use crate::{Broken, Patience, Stop};

/// Leave to send, for a sender that obeys a rate.
pub trait Pace {
    /// Waits for leave to send some of `want` bytes; returns how many.
    fn grant(&mut self, want: usize) -> impl Future<Output = usize>;

    /// Gives back granted bytes that were not sent.
    fn give_back(&self, bytes: usize);
}

/// Pace that grants all at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPace;

impl Pace for NoPace {
    async fn grant(&mut self, want: usize) -> usize {
        want
    }

    fn give_back(&self, _: usize) {}
}

/// End of a sent part. The connection is idle in each case.
#[derive(Debug)]
pub enum Sent {
    /// The part was sent as a whole; `short` where the file has become shorter, and zeros took the place of
    /// its bytes.
    Whole {
        /// True when the file became shorter and zeros were sent.
        short: bool,
    },
    /// The transfer is over: the other end got this code, or the part ended at the same time.
    Stopped(i32),
    /// The file could not be read. The other end was asked to stop, or has zeros in its last frame.
    Unreadable(io::Error),
}

/// Sends what is left of a part. `progress` hears of each run of bytes that the stream took. Once `stop` is given the
/// frame that was begun is ended and the other end is asked to stop, for which it has [`Patience::grace`].
///
/// # Errors
/// [`Broken`]: the connection is to be closed.
pub async fn send_part(
    stream: &TcpStream,
    file: &File,
    sending: &mut Sending,
    stop: &Stop,
    pace: &mut impl Pace,
    patience: &Patience,
    progress: impl FnMut(u64),
) -> Result<Sent, Broken> {
    let mut sender = Sender {
        stream,
        file,
        resident: Resident::new(sending.at() + sending.left()),
        stop,
        pace,
        patience,
        progress,
        began: now(),
        sent: 0,
        short: false,
        unreadable: None,
    };
    let run = pin!(sender.run(sending));
    match select(run, pin!(stop.stopped())).await {
        Either::Left((ended, _)) => ended,
        Either::Right((_, run)) => timeout(patience.grace, run).await.unwrap_or(Err(Broken::Stalled)),
    }
}

struct Sender<'a, P, F> {
    stream: &'a TcpStream,
    file: &'a File,
    resident: Resident,
    stop: &'a Stop,
    pace: &'a mut P,
    patience: &'a Patience,
    progress: F,
    began: Instant,
    sent: u64,
    short: bool,
    unreadable: Option<io::Error>,
}

impl<P: Pace, F: FnMut(u64)> Sender<'_, P, F> {
    async fn run(&mut self, sending: &mut Sending) -> Result<Sent, Broken> {
        loop {
            if let Some(code) = self.stop.code() {
                sending.stop(code);
            }
            match sending.step() {
                Step::Header { bytes, from, more } => {
                    match self.stream.try_send(&[IoSlice::new(&bytes[from..])], more)? {
                        Some(count) => sending.sent(count),
                        None => self.wait().await?,
                    }
                }
                Step::Bytes { len, .. } if self.short || self.unreadable.is_some() => {
                    let zeros = &ZEROS[..ZEROS.len().min(len as usize)];
                    match self.stream.try_send(&[IoSlice::new(zeros)], false)? {
                        Some(count) => sending.sent(count),
                        None => self.wait().await?,
                    }
                }
                Step::Bytes { offset, len } => self.bytes(sending, offset, len as usize).await?,
                Step::Ended | Step::Stopped(_) if self.unreadable.is_some() => {
                    return Ok(self.unreadable.take().map_or(Sent::Whole { short: true }, Sent::Unreadable));
                }
                Step::Ended => return Ok(Sent::Whole { short: self.short }),
                Step::Stopped(code) => return Ok(Sent::Stopped(code)),
            }
        }
    }

    /// Sends some of the file's bytes.
    async fn bytes(&mut self, sending: &mut Sending, offset: u64, len: usize) -> Result<(), Broken> {
        let granted = self.pace.grant(len).await;
        let sent = match self.resident.ensure(self.file, offset, granted).await {
            Ok(part) => self.stream.try_send_file(self.file, offset, part),
            Err(error) => Err(error),
        };
        self.pace.give_back(granted - sent.as_ref().ok().copied().flatten().unwrap_or(0));
        match sent {
            Ok(None) => return self.wait().await,
            Ok(Some(0)) => self.short = true,
            Ok(Some(count)) => {
                sending.sent(count);
                self.sent += count as u64;
                (self.progress)(count as u64);
                // Others of this lane get their turn between the runs of a long part.
                if sending.left() > 0 {
                    lane::yield_if_due().await;
                }
            }
            Err(error) if is_of_stream(&error) => return Err(error.into()),
            Err(error) => {
                sending.stop(UNREADABLE);
                self.unreadable = Some(error);
            }
        }
        Ok(())
    }

    /// Waits until the stream takes something.
    async fn wait(&self) -> Result<(), Broken> {
        timeout(self.patience.stall, self.stream.writable()).await.map_err(|_| Broken::Stalled)??;
        if self.patience.is_too_slow(self.began, self.sent) { Err(Broken::Stalled) } else { Ok(()) }
    }
}

/// Returns whether the error of a send from a file is the stream's, not the file's.
fn is_of_stream(error: &io::Error) -> bool {
    use io::ErrorKind::*;
    matches!(
        error.kind(),
        ConnectionReset
            | ConnectionAborted
            | BrokenPipe
            | NotConnected
            | TimedOut
            | HostUnreachable
            | NetworkUnreachable
            | NetworkDown
    )
}

/// Abort code of a STOP for a file that cannot be read: EIO of `unified_afs.et`. The call says why.
const UNREADABLE: i32 = 0x02f6_df04;
/// Zeros sent in place of bytes that the file has lost.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
