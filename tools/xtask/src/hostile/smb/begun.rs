//! Sign-ins that are begun and never ended, by connections of many addresses.

use smb_wire::Status;

use super::ATTACKER;
use super::raw::Raw;
use crate::hostile::net::{connect_from, source};
use crate::hostile::scenario::{Field, Findings, Scenario, Service};
use crate::hostile::server::SMB;

pub(crate) struct Begun;

impl Scenario for Begun {
    fn name(&self) -> &'static str {
        "smb-begun-sign-ins"
    }

    fn about(&self) -> &'static str {
        "sign-ins that stop after their first message, as many as go, from hundreds of addresses"
    }

    fn service(&self) -> Service {
        Service::Smb
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let mut clients = Vec::new();
        let mut begun = 0;
        for n in 0..CONNECTIONS {
            if field.is_over() {
                break;
            }
            let stream = connect_from(source(n), SMB).map_err(anyhow::Error::from);
            let client = stream.and_then(Raw::over).and_then(|mut raw| raw.negotiate().map(|()| raw));
            clients.extend(client);
        }
        let mut at = 0;
        while !field.is_over() && !clients.is_empty() {
            at = (at + 1) % clients.len();
            match clients[at].begin_sign_in(ATTACKER) {
                Ok(Status::MORE_PROCESSING_REQUIRED) => begun += 1,
                Ok(_) => {}
                Err(_) => drop(clients.swap_remove(at)),
            }
        }
        Ok(Findings::default()
            .with("sign-ins", begun)
            .expect(begun > 0, || "no sign-in was begun".to_owned()))
    }
}

const CONNECTIONS: usize = 400;
