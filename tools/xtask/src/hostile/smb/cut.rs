//! A file that is cut and made longer again while it is read: each reply is as long as it says, and its frame whole.

use std::fs::OpenOptions;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use smb_wire::create::Disposition;
use smb_wire::create::access::{rights, share};

use super::ATTACKER;
use super::raw::{How, Raw};
use crate::hostile::net::{connect_from, source};
use crate::hostile::scenario::{Field, Findings, Scenario, Service};
use crate::hostile::server::SMB;

pub(crate) struct Cut;

impl Scenario for Cut {
    fn name(&self) -> &'static str {
        "smb-cut"
    }

    fn about(&self) -> &'static str {
        "reads of 1 MiB of a file that is cut to nothing and made long again all the while"
    }

    fn service(&self) -> Service {
        Service::Smb
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let path = field.tree.join("cut");
        let file = OpenOptions::new().create(true).truncate(true).write(true).open(&path)?;
        let is_over = AtomicBool::new(false);
        let outcomes = std::thread::scope(|scope| {
            let cutting = scope.spawn(|| {
                let mut cuts = 0u64;
                while !is_over.load(Ordering::Relaxed) {
                    file.set_len(LENGTH).and_then(|()| file.set_len(0))?;
                    cuts += 1;
                    std::thread::sleep(Duration::from_micros(500));
                }
                std::io::Result::Ok(cuts)
            });
            let readers: Vec<_> = (0..READERS).map(|n| scope.spawn(move || read(n, field))).collect();
            let read: Vec<_> =
                readers.into_iter().map(|reader| reader.join().expect("readers do not panic")).collect();
            is_over.store(true, Ordering::Relaxed);
            (cutting.join().expect("it does not panic"), read)
        });
        let (cuts, readers) = outcomes;
        let mut findings = Findings::default().with("cuts", cuts?);
        let mut replies = 0;
        for reader in readers {
            match reader {
                Ok(taken) => replies += taken,
                Err(error) => findings.failures.push(format!("a reader lost its connection: {error:#}")),
            }
        }
        Ok(findings.with("replies", replies).expect(replies > 0, || "nothing was read".to_owned()))
    }
}

/// Reads to the end; how many answers came.
fn read(n: usize, field: &Field<'_>) -> anyhow::Result<u64> {
    let mut raw = Raw::arrive(connect_from(source(n), SMB)?, ATTACKER, n % 2 == 1)?;
    let how =
        How { access: rights::READ_DATA, share: share::READ | share::WRITE, disposition: Disposition::Open };
    let file = raw.create("cut", how)?.map_err(|status| anyhow::anyhow!("{status}"))?;
    let mut replies = 0;
    while !field.is_over() {
        for at in 0..LENGTH / u64::from(READ_BYTES) {
            raw.read(file, at * u64::from(READ_BYTES), READ_BYTES)?;
            replies += 1;
        }
    }
    Ok(replies)
}

const READERS: usize = 4;
const READ_BYTES: u32 = 1 << 20;
const LENGTH: u64 = 8 << 20;
