//! Trees and locked ranges, as many as one user gets.

use smb_wire::Command;
use smb_wire::body::lock::{LockElement, LockRequest, LockRequestFixed, flags};
use smb_wire::create::Disposition;
use smb_wire::create::access::{rights, share};
use smb_wire::fixed::Fixed;

use super::ATTACKER;
use super::raw::{How, Raw};
use crate::hostile::arena::ATTACKER as ADDRESS;
use crate::hostile::net::connect_from;
use crate::hostile::scenario::{Field, Findings, Scenario, Service};
use crate::hostile::server::SMB;

pub(crate) struct Trees;

impl Scenario for Trees {
    fn name(&self) -> &'static str {
        "smb-trees"
    }

    fn about(&self) -> &'static str {
        "trees of many sessions, and a thousand locked ranges of each open, as many as one user gets"
    }

    fn service(&self) -> Service {
        Service::Smb
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let mut clients = Vec::new();
        let [mut trees, mut ranges] = [0u64; 2];
        while clients.len() < CLIENTS && !field.is_over() {
            let stream = connect_from(ADDRESS, SMB).map_err(anyhow::Error::from);
            // A refusal is the server's right; what it does not refuse must not harm it.
            let Ok(client) = stream.and_then(|stream| Raw::arrive(stream, ATTACKER, true)) else { break };
            clients.push(client);
        }
        let mut goes_on = vec![[true; 2]; clients.len()];
        while !field.is_over() && goes_on.iter().flatten().any(|goes_on| *goes_on) {
            for (client, [more_trees, more_ranges]) in clients.iter_mut().zip(&mut goes_on) {
                *more_trees = *more_trees && client.connect_tree().is_ok();
                trees += u64::from(*more_trees);
                *more_ranges = *more_ranges && lock_many(client, ranges).is_ok();
                ranges += RANGES * u64::from(*more_ranges);
            }
        }
        field.sit_out();
        Ok(Findings::default()
            .with("connections", clients.len())
            .with("trees", trees)
            .with("ranges", ranges)
            .expect(trees > 0 && ranges > 0, || "nothing was taken".to_owned()))
    }
}

/// Takes one more open with so many ranges from an offset on.
fn lock_many(client: &mut Raw, from: u64) -> anyhow::Result<()> {
    let all = share::READ | share::WRITE | share::DELETE;
    let how =
        How { access: rights::READ_DATA | rights::WRITE_DATA, share: all, disposition: Disposition::OpenIf };
    let file = client.create("ranges", how)?.map_err(|status| anyhow::anyhow!("{status}"))?;
    let fixed = LockRequestFixed { file_id: file, ..LockRequestFixed::blank() };
    let kind = flags::EXCLUSIVE | flags::FAIL_IMMEDIATELY;
    let element = |n: u64| LockElement {
        offset: (2 * (from + n)).into(),
        length: 1.into(),
        flags: kind.into(),
        reserved: 0.into(),
    };
    let elements: Vec<_> = (0..RANGES).map(element).collect();
    client.done(Command::Lock, |body| LockRequest::write(body, fixed, &elements))
}

const CLIENTS: usize = 8;
/// Ranges of one request.
const RANGES: u64 = 256;
