//! Requests for long names beside an audit log that goes to a FIFO without a reader.

use std::path::Path;

use smb_wire::create::Disposition;
use smb_wire::create::access::{rights, share};

use super::ATTACKER;
use super::raw::{How, Raw};
use crate::hostile::arena::ATTACKER as ADDRESS;
use crate::hostile::net::connect_from;
use crate::hostile::scenario::{Field, Findings, Scenario, Service};
use crate::hostile::server::{SMB, Wishes};
use crate::process;

pub(crate) struct UnreadAuditLog;

impl Scenario for UnreadAuditLog {
    fn name(&self) -> &'static str {
        "smb-unread-audit-log"
    }

    fn about(&self) -> &'static str {
        "CREATEs of names of control characters, as fast as they are refused, beside an audit log that nobody reads"
    }

    fn service(&self) -> Service {
        Service::Smb
    }

    fn prepare(&self, work: &Path) -> anyhow::Result<Wishes> {
        let fifo = work.join("audit.fifo");
        process::output("mkfifo", &[&fifo])?;
        Ok(Wishes { config: format!("[log]\naudit = '{}'", fifo.display()), ..Wishes::default() })
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let mut client = Raw::arrive(connect_from(ADDRESS, SMB)?, ATTACKER, false)?;
        let all = share::READ | share::WRITE | share::DELETE;
        let how = How { access: rights::READ_DATA, share: all, disposition: Disposition::Open };
        // Each is escaped.
        let name = "\u{85}".repeat(NAME_CHARACTERS);
        let [mut refused, mut opened] = [0, 0];
        while !field.is_over() {
            for _ in 0..REQUESTS_A_TURN {
                match client.create(&name, how)? {
                    Err(_) => refused += 1,
                    Ok(_) => opened += 1,
                }
            }
        }
        Ok(Findings::default()
            .with("requests refused", refused)
            .expect(refused > 0 && opened == 0, || format!("{opened} of the names were opened")))
    }
}

const NAME_CHARACTERS: usize = 2000;
const REQUESTS_A_TURN: usize = 50;
