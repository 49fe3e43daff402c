//! Packets with a connection's ids from another address than its client's.
//!
//! Ids are no secret: any host that was on the path once knows them. So what such a packet may do depends on
//! which hosts can have made it:
//! ```text
//! security class checks packets   dropped, but for DATA; once it accepts some, the client may have moved
//! no class, client known to roam  taken as if it came from the client's address; it may have moved
//! no class                        belongs to another connection, which has the same ids and an address of its own
//! ```
//! A client that may have moved is asked at the new address by a VERSION packet whose call number is a cookie, once its
//! old address has been silent for a while. Until the answer repeats that number, the old address stays in force, gets
//! all replies, and nothing is stored. Serials then jump by a random distance, so that ACKs prove that their sender sees
//! what goes to the new address; before the first one it gets no more than any newcomer (`Core::may_send`).
//!
//! DATA that came before is not asked of the class again: it may be a recording. So a client with a key is followed by the
//! first new DATA it sends, at the latest by its next call; a reply that was on its way when it moved dies.
//! Without a class a client behind a NAT that has forgotten it goes on by its next call, on a connection of its own; the
//! call under way dies. A call that was begun at one address is never run a second time for another.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use super::Endpoint;
use super::connection_key::ConnectionKey;
use super::unvalidated::{begins_call, holder};
use crate::event::Side;
use crate::header::{HEADER_LEN, Header, PacketType, flags};
use crate::security::SECURITY_NULL;

/// Treatment of a packet from another address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stray {
    /// The packet is dropped and counted.
    Refused,
    /// The packet belongs to this new connection.
    NewConnection(u32),
    /// The packet is the connection's; `follows` says that its sender may be where the client is now,
    /// whatever the packet holds.
    Taken { follows: bool },
}

impl Endpoint {
    pub(super) fn on_stray(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        local_ip: Option<IpAddr>,
        header: &Header,
        index: u32,
        len: usize,
    ) -> Stray {
        let connection = &self.connections[index as usize];
        let core = &connection.core;
        if core.security_index != header.security {
            self.shared.stats.wrong_security += 1;
            return Stray::Refused;
        }
        if core.side == Side::Server && core.security_index != SECURITY_NULL {
            let accepted = core.accepted_from == Some(remote);
            if accepted || header.kind == PacketType::Data && core.validation.authentic {
                return Stray::Taken { follows: accepted };
            }
        } else if core.side == Side::Server {
            if self.shared.config.roaming.iter().any(|range| range.contains(core.remote.ip())) {
                return Stray::Taken { follows: true };
            }
            let channel = &connection.channels[header.channel()];
            if begins_call(header) && header.call > channel.number.max(channel.elsewhere) {
                let key = ConnectionKey::at(header.epoch, header.cid, remote);
                if let Some(new_connection) = self.accept(now, remote, local_ip, header, key, len) {
                    self.connections[index as usize].channels[header.channel()].elsewhere = header.call;
                    return Stray::NewConnection(new_connection);
                }
                return Stray::Refused;
            }
        }
        self.shared.stats.strays += 1;
        Stray::Refused
    }

    /// Notes a call on a connection whose ids another one has too: calls that are run here are not run for a
    /// third address.
    pub(super) fn note_elsewhere(&mut self, header: &Header, remote: SocketAddr) {
        let key = ConnectionKey::server(header.epoch, header.cid, remote);
        if let Some(&first) = self.by_key.get(&key) {
            let channel = &mut self.connections[first as usize].channels[header.channel()];
            channel.elsewhere = channel.elsewhere.max(header.call);
        }
    }

    /// Asks for a sign of life at an address that a client may have moved to, for no more bytes than came
    /// from there.
    pub(super) fn ask_new_address(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        local_ip: Option<IpAddr>,
        index: u32,
        len: usize,
    ) {
        let core = &self.connections[index as usize].core;
        let asked = core.asked.is_some_and(|(address, at)| address == remote && now < at + ASK_AGAIN);
        if asked || now < core.heard_at + OLD_ADDRESS_SILENT {
            return;
        }
        if !self.may_answer_stranger(self.hash_of_source(remote.ip())) {
            return;
        }
        let core = &mut self.connections[index as usize].core;
        core.asked = Some((remote, now));
        let mut header = Header {
            epoch: core.epoch,
            cid: core.cid,
            call: 0,
            seq: 0,
            serial: 0,
            kind: PacketType::Version,
            flags: flags::CLIENT_INITIATED,
            user_status: 0,
            security: 0,
            checksum: 0,
            service: core.service,
        };
        header.call = self.cookies.nonce(now, &holder(&header, remote));
        // Linux answers only if there is a byte of payload.
        let payload = if len > HEADER_LEN { &[0][..] } else { &[] };
        if self.send_loose(remote, local_ip, &header, payload) {
            self.shared.stats.moves_asked += 1;
        }
    }

    /// Takes a VERSION answer, by which the client of a connection may be found at a new address.
    pub(super) fn on_version_answer(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        local_ip: Option<IpAddr>,
        header: &Header,
    ) {
        if !self.cookies.is_nonce(now, &holder(header, remote), header.call) {
            return;
        }
        let key = ConnectionKey::server(header.epoch, header.cid, remote);
        let Some(&index) = self.by_key.get(&key) else { return };
        let connection = &mut self.connections[index as usize];
        let core = &connection.core;
        if core.remote == remote || core.by_address || now < core.heard_at + OLD_ADDRESS_SILENT {
            return;
        }
        connection.move_to(now, remote, local_ip, &mut self.shared);
        self.shared.mark_ready(&mut connection.core);
    }
}

/// Silence of a client's address after which it may have moved.
const OLD_ADDRESS_SILENT: Duration = Duration::from_millis(200);
//@ limit: packets from other addresses
//@ section: Rx
//@ unit: question, no longer than the packet
//@ connection: one in {} for each address
//@ empty: dropped; the client's own address stays in force
//@ counter: rx_refused{reason="stray"}, rx_moves_asked, rx_connections_rebound
//@ attack: rx-theft
/// Time between two questions to the same new address.
const ASK_AGAIN: Duration = Duration::from_millis(20);
