//! One client takes as much as it gets of what all share: opens, watches of directories, locks that wait.

use smb_wire::Command;
use smb_wire::body::change_notify::{ChangeNotifyRequest, filter};
use smb_wire::body::lock::flags;
use smb_wire::create::Disposition;
use smb_wire::create::access::{rights, share};
use smb_wire::fixed::Fixed;

use super::ATTACKER;
use super::raw::{How, Raw, lock_request};
use crate::hostile::arena::ATTACKER as ADDRESS;
use crate::hostile::net::connect_from;
use crate::hostile::scenario::{Field, Findings, Scenario, Service};
use crate::hostile::server::SMB;

pub(crate) struct Hoards;

impl Scenario for Hoards {
    fn name(&self) -> &'static str {
        "smb-hoards"
    }

    fn about(&self) -> &'static str {
        "one client's opens, watches and waiting locks, as many as it gets, over 32 connections"
    }

    fn service(&self) -> Service {
        Service::Smb
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let mut hoard = Hoard::default();
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            if field.is_over() {
                break;
            }
            // A refusal is the server's right; what it does not refuse must not harm it.
            let stream = connect_from(ADDRESS, SMB).map_err(anyhow::Error::from);
            clients.extend(stream.and_then(|stream| Raw::arrive(stream, ATTACKER, false)));
        }
        let mut is_refused = vec![false; clients.len()];
        while !field.is_over() && is_refused.contains(&false) {
            for (client, is_refused) in
                clients.iter_mut().zip(&mut is_refused).filter(|(_, is_refused)| !**is_refused)
            {
                *is_refused = hoard.take_from(client).is_err();
            }
        }
        field.sit_out();
        let opens = hoard.opens;
        Ok(Findings::default()
            .with("connections", clients.len())
            .with("opens", opens)
            .with("watches and locks asked", hoard.waiting)
            .expect(opens > 0, || "nothing was opened".to_owned()))
    }
}

#[derive(Default)]
struct Hoard {
    opens: u64,
    waiting: u64,
}

impl Hoard {
    /// Takes one more open, a watch of the share's root, and a lock that waits for the one before.
    fn take_from(&mut self, client: &mut Raw) -> anyhow::Result<()> {
        let all = share::READ | share::WRITE | share::DELETE;
        let file = How {
            access: rights::READ_DATA | rights::WRITE_DATA,
            share: all,
            disposition: Disposition::OpenIf,
        };
        let root = How { access: rights::READ_DATA, share: all, disposition: Disposition::Open };
        let file = client.create("contended", file)?.map_err(|status| anyhow::anyhow!("{status}"))?;
        let root = client.create("", root)?.map_err(|status| anyhow::anyhow!("{status}"))?;
        self.opens += 2;
        if client.credits < 64 {
            // What waits keeps its credit, and the opens go on.
            return Ok(());
        }
        let watch = ChangeNotifyRequest {
            output_buffer_length: 4096.into(),
            file_id: root,
            completion_filter: filter::LAST_ACCESS.into(),
            ..ChangeNotifyRequest::blank()
        };
        client.send(Command::ChangeNotify, 1, |body| body.push(&watch))?;
        client.send(Command::Lock, 1, |body| lock_request(body, file, flags::EXCLUSIVE))?;
        self.waiting += 2;
        Ok(())
    }
}

const CLIENTS: usize = 32;
