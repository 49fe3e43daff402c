//! Sessions, opens and locks of SMB, for `linerate smb`: sessions are looked at where lanes share them; opens
//! and locks have names that only a lane can tell, and what is to be ended ends on one.

mod report;
mod requests;

use std::net::SocketAddr;
use std::sync::Arc;

use lane::probe::Address;
use lane::topology::Nic;
use serde::Serialize;
use service::admin_endpoint::AdminEndpoint;
use smb_proto::sealing::Cipher;
use smb_proto::signing::SigningAlgorithm;
use smb_wire::Dialect;

pub use self::report::{ChannelReport, LockReport, OpenReport, SessionReport};
pub(crate) use self::requests::{AdminCommand, AdminRequest, AdminRequests};
use crate::server::ServerState;
use crate::session::{Session, SessionState};

/// The administrator's requests about SMB, answered by the lanes.
pub(crate) struct SmbAdmin(pub(crate) Arc<ServerState>);

impl AdminEndpoint for SmbAdmin {
    fn show(&self, path: &str) -> Option<String> {
        match path {
            "sessions" => Some(json(&self.sessions())),
            "opens" => self.0.admin_requests.ask(AdminCommand::Opens),
            "locks" => self.0.admin_requests.ask(AdminCommand::Locks),
            _ => None,
        }
    }

    fn end(&self, path: &str) -> bool {
        let Some((kind, id)) = path.split_once('/') else { return false };
        let Ok(id) = id.parse() else { return false };
        let command = match kind {
            "sessions" => AdminCommand::EndSession(id),
            "opens" => AdminCommand::CloseOpen(id),
            _ => return false,
        };
        self.0.admin_requests.ask(command).is_some()
    }
}

impl SmbAdmin {
    /// Returns every session that is signed in, by its number.
    fn sessions(&self) -> Vec<SessionReport> {
        let interfaces = LocalInterfaces::of_this_machine();
        let sessions =
            self.0.sessions.all().into_iter().filter(|session| session.state() == SessionState::Valid);
        let mut all: Vec<_> = sessions.filter_map(|session| self.session(&session, &interfaces)).collect();
        all.sort_by_key(|session| session.id);
        all
    }

    fn session(&self, session: &Session, interfaces: &LocalInterfaces) -> Option<SessionReport> {
        let signed_in = session.signed_in()?;
        let channel = |entry: crate::session::ChannelEntry| {
            let stats = self.0.stats.of(entry.connection)?;
            let (interface, interface_node) = interfaces.to(stats.local);
            Some(ChannelReport {
                connection: entry.connection,
                peer: stats.peer,
                local: stats.local,
                lane: entry.lane.index(),
                node: self.0.node_of(entry.lane),
                interface,
                interface_node,
                requests: stats.requests.get(),
                bytes_in: stats.bytes_in.get(),
                bytes_out: stats.bytes_out.get(),
            })
        };
        Some(SessionReport {
            id: session.id,
            user: session.principal().map(|principal| principal.name().to_owned()).unwrap_or_default(),
            client: session.client.to_string(),
            dialect: dialect(session.agreed.dialect).to_owned(),
            signing: signing(session.agreed.signing).to_owned(),
            cipher: session.agreed.cipher.map(|agreed| cipher(agreed).to_owned()),
            must_sign: signed_in.signing_required,
            must_seal: signed_in.sealing_required,
            shares: session.shares(),
            opens: self.0.opens().count_of(session.id),
            channels: session.channels().into_iter().filter_map(channel).collect(),
        })
    }
}

/// The machine's addresses and interfaces, to find the interface of a connection and its NUMA node.
struct LocalInterfaces {
    addresses: Vec<Address>,
    nics: Vec<Nic>,
}

impl LocalInterfaces {
    fn of_this_machine() -> Self {
        Self { addresses: Address::of_this_machine().unwrap_or_default(), nics: Nic::of_this_machine() }
    }

    fn to(&self, local: Option<SocketAddr>) -> (Option<String>, Option<u32>) {
        let ip = local.map(|local| local.ip().to_canonical());
        let address = self.addresses.iter().find(|address| Some(address.ip) == ip);
        let nic = address.and_then(|address| self.nics.iter().find(|nic| nic.ifindex == address.ifindex));
        (nic.map(|nic| nic.name.clone()), nic.and_then(|nic| nic.node))
    }
}

pub(crate) fn json(what: &impl Serialize) -> String {
    serde_json::to_string(what).expect("figures and names make JSON")
}

fn dialect(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Smb202 => "2.0.2",
        Dialect::Smb210 => "2.1",
        Dialect::Smb300 => "3.0",
        Dialect::Smb302 => "3.0.2",
        Dialect::Smb311 => "3.1.1",
    }
}

fn signing(algorithm: SigningAlgorithm) -> &'static str {
    match algorithm {
        SigningAlgorithm::HmacSha256 => "HMAC-SHA256",
        SigningAlgorithm::AesCmac => "AES-CMAC",
        SigningAlgorithm::AesGmac => "AES-GMAC",
    }
}

fn cipher(cipher: Cipher) -> &'static str {
    match cipher {
        Cipher::Aes128Ccm => "AES-128-CCM",
        Cipher::Aes128Gcm => "AES-128-GCM",
        Cipher::Aes256Ccm => "AES-256-CCM",
        Cipher::Aes256Gcm => "AES-256-GCM",
    }
}
