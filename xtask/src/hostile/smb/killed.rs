//! Clients that are killed with a file open to nobody else and locked: the next one must have it at once.

use std::time::{Duration, Instant};

use socket2::SockRef;

use smb_wire::body::lock::flags;
use smb_wire::create::Disposition;
use smb_wire::create::access::rights;

use super::ATTACKER;
use super::raw::{How, Raw};
use crate::hostile::net::{connect_from, source};
use crate::hostile::scenario::{Field, Findings, Scenario, Service};
use crate::hostile::server::SMB;

pub(crate) struct Killed;

impl Scenario for Killed {
    fn name(&self) -> &'static str {
        "smb-killed"
    }

    fn about(&self) -> &'static str {
        "clients that go with a file open to nobody else and locked, one after the other"
    }

    fn service(&self) -> Service {
        Service::Smb
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let (mut killed, mut longest) = (0u64, Duration::ZERO);
        while !field.is_over() {
            let began = Instant::now();
            let mut raw = Raw::arrive(connect_from(source(killed as usize), SMB)?, ATTACKER, false)?;
            let file = loop {
                match raw.create("held", ALONE)? {
                    Ok(file) => break file,
                    Err(_) if began.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(2)),
                    Err(status) => anyhow::bail!("{status}, {PATIENCE:?} after who had the file was killed"),
                }
            };
            longest = longest.max(began.elapsed());
            raw.lock(file, flags::EXCLUSIVE)?;
            // As by a kernel whose process died with bytes unread: no good-bye.
            SockRef::from(&raw.stream).set_linger(Some(Duration::ZERO))?;
            drop(raw);
            killed += 1;
        }
        Ok(Findings::default()
            .with("killed", killed)
            .with("longest wait, ms", longest.as_millis())
            .expect(longest < AT_ONCE, || format!("a file was held {longest:?} by a client that was gone")))
    }
}

const ALONE: How =
    How { access: rights::READ_DATA | rights::WRITE_DATA, share: 0, disposition: Disposition::OpenIf };
const PATIENCE: Duration = Duration::from_secs(5);
/// With a sign-in in it, on a machine that does much else.
const AT_ONCE: Duration = Duration::from_secs(1);
