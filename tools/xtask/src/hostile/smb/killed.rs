//! Clients that are killed with all that can be held of files: one open without sharing and locked, one
//! leased to read, write and keep the handle, one with a batch oplock. The next must have each at once, not
//! when a break without an answer runs out (35 s).

use std::time::{Duration, Instant};

use socket2::SockRef;

use smb_wire::Status;
use smb_wire::body::lock::flags;
use smb_wire::create::Disposition;
use smb_wire::create::access::{rights, share};

use super::ATTACKER;
use super::raw::{How, Keeps, Raw};
use crate::hostile::net::{connect_from, source};
use crate::hostile::scenario::{Field, Findings, Scenario, Service};
use crate::hostile::server::SMB;

pub(crate) struct Killed;

impl Scenario for Killed {
    fn name(&self) -> &'static str {
        "smb-killed"
    }

    fn about(&self) -> &'static str {
        "clients that go with a lock, a file open to nobody else, a lease and an oplock, one after the other"
    }

    fn service(&self) -> Service {
        Service::Smb
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let mut killed = 0u64;
        let mut longest = [Duration::ZERO; 3];
        while !field.is_over() {
            let mut raw = Raw::arrive(connect_from(source(killed as usize), SMB)?, ATTACKER, false)?;
            for (longest, held) in longest.iter_mut().zip(&ALL) {
                *longest = held.waited_for(&mut raw)?.max(*longest);
            }
            // As by a kernel whose process died with bytes unread: no good-bye.
            SockRef::from(&raw.stream).set_linger(Some(Duration::ZERO))?;
            drop(raw);
            killed += 1;
        }
        let mut findings = Findings::default().with("killed", killed);
        for (held, longest) in ALL.iter().zip(longest) {
            findings = findings
                .with(held.shown, longest.as_millis())
                .expect(longest < AT_ONCE, || format!("{} was held {longest:?} by who was gone", held.name));
        }
        Ok(findings)
    }
}

/// Something that a client holds when it is killed.
struct Held {
    name: &'static str,
    shown: &'static str,
    share: u32,
    keeps: Keeps,
    locks: bool,
}

impl Held {
    /// Takes it over from the killed client, and returns how long that took.
    fn waited_for(&self, raw: &mut Raw) -> anyhow::Result<Duration> {
        let how = How {
            access: rights::READ_DATA | rights::WRITE_DATA,
            share: self.share,
            disposition: Disposition::OpenIf,
        };
        let began = Instant::now();
        let (file, is_granted) = loop {
            match raw.create_keeping(self.name, how, self.keeps)? {
                Ok(opened) => break opened,
                Err(Status::SHARING_VIOLATION) if began.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(status) => anyhow::bail!("{}: {status} after {:?}", self.name, began.elapsed()),
            }
        };
        anyhow::ensure!(is_granted, "{} is kept for nobody, though nobody else has it open", self.name);
        if self.locks {
            raw.lock(file, flags::EXCLUSIVE)?;
        }
        Ok(began.elapsed())
    }
}

const ALL: [Held; 3] = [
    Held { name: "held", shown: "longest wait, locked, ms", share: 0, keeps: Keeps::Nothing, locks: true },
    Held {
        name: "leased",
        shown: "longest wait, leased, ms",
        share: share::ALL,
        keeps: Keeps::Lease(*b"what is to break"),
        locks: false,
    },
    Held {
        name: "oplocked",
        shown: "longest wait, oplock, ms",
        share: share::ALL,
        keeps: Keeps::BatchOplock,
        locks: true,
    },
];
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest time that counts as at once, on a machine that does much else.
const AT_ONCE: Duration = Duration::from_secs(1);
