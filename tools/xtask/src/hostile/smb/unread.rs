//! Clients that ask for much and take nothing: what is read and signed for them is work in vain.

use std::path::Path;

use smb_wire::Command;
use smb_wire::create::Disposition;
use smb_wire::create::access::{rights, share};

use super::ATTACKER;
use super::raw::{How, Raw, charge, read_request};
use crate::hostile::net::{connect_from, source};
use crate::hostile::scenario::{Field, Findings, Scenario, Service};
use crate::hostile::server::{SMB, Wishes};

pub(crate) struct Unread;

impl Scenario for Unread {
    fn name(&self) -> &'static str {
        "smb-unread"
    }

    fn about(&self) -> &'static str {
        "200 clients that ask for 64 signed replies of 8 MiB each and take none of them"
    }

    fn service(&self) -> Service {
        Service::Smb
    }

    /// Sets so little memory that the server stays under the bar of every scenario with it.
    fn prepare(&self, _: &Path) -> anyhow::Result<Wishes> {
        Ok(Wishes { smb: "memory_per_lane = '160M'", ..Wishes::default() })
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let (mut held, mut asked) = (Vec::new(), 0u64);
        for n in 0..CLIENTS {
            if field.is_over() {
                break;
            }
            // A refusal is the server's right; what it does not refuse must not harm it.
            let client = connect_from(source(n), SMB).map_err(anyhow::Error::from).and_then(|stream| {
                let mut client = Raw::arrive(stream, ATTACKER, true)?;
                asked += ask(&mut client)?;
                Ok(client)
            });
            held.extend(client);
        }
        field.sit_out();
        Ok(Findings::default()
            .with("connections", held.len())
            .with("replies asked for", asked)
            .expect(asked > 0, || "nothing was asked for".to_owned()))
    }
}

/// Asks for all that the client's credits pay for; how many replies.
fn ask(client: &mut Raw) -> anyhow::Result<u64> {
    let how =
        How { access: rights::READ_DATA, share: share::READ | share::WRITE, disposition: Disposition::Open };
    let file = client.create("large", how)?.map_err(|status| anyhow::anyhow!("{status}"))?;
    let (cost, mut asked) = (charge(REPLY_BYTES), 0);
    while asked < REPLIES && client.credits >= u64::from(cost) {
        let request = read_request(file, asked * u64::from(REPLY_BYTES) % LENGTH, REPLY_BYTES);
        client.send(Command::Read, cost, |body| body.push(&request))?;
        asked += 1;
    }
    Ok(asked)
}

const CLIENTS: usize = 200;
const REPLIES: u64 = 64;
const REPLY_BYTES: u32 = 8 << 20;
/// Bytes that are read: less than the file has, by whole replies.
const LENGTH: u64 = 16 * REPLY_BYTES as u64;
