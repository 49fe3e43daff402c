//! Frames that lie: message ids far ahead, compounds that loop or overrun, lengths beyond the end, sealed within sealed.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};

use smb_wire::header::HEADER_LEN;
use smb_wire::{Command, Header};
use zerocopy::IntoBytes;

use super::ATTACKER;
use super::raw::Raw;
use crate::hostile::net::{connect_from, source};
use crate::hostile::scenario::{Field, Findings, Scenario, Service};
use crate::hostile::server::SMB;

pub(crate) struct Lies;

impl Scenario for Lies {
    fn name(&self) -> &'static str {
        "smb-lies"
    }

    fn about(&self) -> &'static str {
        "message ids far ahead, compounds that loop, lengths beyond the end, on connection after connection"
    }

    fn service(&self) -> Service {
        Service::Smb
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let [told, open] = [const { AtomicU64::new(0) }; 2];
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (told, open) = (&told, &open);
                scope.spawn(move || {
                    for n in (thread..).step_by(THREADS) {
                        if field.is_over() {
                            return;
                        }
                        match tell(n) {
                            Ok(true) => _ = told.fetch_add(1, Ordering::Relaxed),
                            Ok(false) => _ = open.fetch_add(1, Ordering::Relaxed),
                            // It came to no client.
                            Err(_) => {}
                        }
                    }
                });
            }
        });
        let [told, open] = [told, open].map(AtomicU64::into_inner);
        Ok(Findings::default()
            .with("lies", told)
            .expect(open == 0, || format!("{open} connections went on after a lie, unanswered"))
            .expect(told > 0, || "no lie reached the server".to_owned()))
    }
}

/// Sends one lie; returns whether it was answered, or ended its connection, in time.
fn tell(n: usize) -> anyhow::Result<bool> {
    let stream = connect_from(source(n), SMB)?;
    // Every second one comes as far as a share.
    let mut raw = match n % 2 {
        0 => Raw::over(stream)?,
        _ => Raw::arrive(stream, ATTACKER, false)?,
    };
    raw.send_frame(&lie(n / 2))?;
    Ok(is_answered_or_ended(&raw.stream))
}

fn is_answered_or_ended(stream: &TcpStream) -> bool {
    match stream.peek(&mut [0; 1]) {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}

fn lie(kind: usize) -> Vec<u8> {
    let echo = |id: u64, next: u32| {
        let mut header = Header::request(Command::Echo, id);
        header.next_command.set(next);
        [header.as_bytes(), &[4, 0, 0, 0, 0, 0, 0, 0]].concat()
    };
    match kind % 8 {
        // Far ahead of the window.
        0 => echo(1 << 40, 0),
        // The next message is this one.
        1 => [echo(6, 72), echo(7, u32::MAX - 71)].concat(),
        // Behind the end of the frame.
        2 => echo(6, 1 << 20),
        // Amid this one.
        3 => echo(6, 8),
        // Not where a message may begin.
        4 => [echo(6, 75), vec![0; 3], echo(7, 0)].concat(),
        // A header cut short.
        5 => echo(6, 0)[..HEADER_LEN - 1].to_vec(),
        // Said to be sealed, for a session that does not exist.
        6 => [&[0xfd, b'S', b'M', b'B'][..], &[7; 120]].concat(),
        // Of no protocol at all.
        _ => vec![0x5a; 4096],
    }
}

const THREADS: usize = 4;
