//! The server's end of a connection: a challenge, the check of its answer, and packets.

use std::ops::Range;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use krb::{Acceptor, Client, OpenTicket, Time};
use rx::security::{
    ConnectionContext, Expiry, PacketContext, Principal, Sealed, Security, SecurityError, SecurityFactory,
    SecurityStats, Surroundings,
};
use subtle::ConstantTimeEq as _;

use crate::stats::Counts;
use crate::token::DES_CBC_CRC;
use crate::wire::{Challenge, KVNO_ENCRYPTED_PART, KVNO_TICKET, Response};
use crate::{Code, DesKey, Level, Observer, PacketKey, Policy, Refused, ServiceKeys, afs_name, name_of};

/// Makes the server's ends of connections; `rx::Endpoint::add_security` takes it.
#[derive(Clone, Debug)]
pub struct RxkadServer {
    shared: Arc<Shared>,
}

/// State that all connections of a server share.
#[derive(Debug)]
struct Shared {
    keys: ServiceKeys,
    acceptor: Acceptor,
    policy: Policy,
    observer: Option<Arc<dyn Observer>>,
}

impl RxkadServer {
    /// Makes the ends of a server with these keys and this policy.
    pub fn new(keys: ServiceKeys, policy: Policy) -> Self {
        Self::with_observer(keys, policy, None)
    }

    /// Makes the ends of a server that tells an observer of each proof.
    pub fn with_observer(keys: ServiceKeys, policy: Policy, observer: Option<Arc<dyn Observer>>) -> Self {
        let acceptor = Acceptor::new(policy.tickets.clone());
        Self { shared: Arc::new(Shared { keys, acceptor, policy, observer }) }
    }

    /// Makes the end of a new connection.
    pub fn connection(&self) -> ServerConnection {
        ServerConnection {
            shared: Arc::clone(&self.shared),
            nonce: None,
            proved: None,
            counts: Counts::default(),
        }
    }
}

impl SecurityFactory for RxkadServer {
    fn index(&self) -> u8 {
        crate::INDEX
    }

    fn accept(&mut self, _: u32, _: u32) -> Box<dyn Security> {
        Box::new(self.connection())
    }
}

/// The server's end of one connection.
#[derive(Debug)]
pub struct ServerConnection {
    shared: Arc<Shared>,
    /// Nonce of the challenge, once there is one.
    nonce: Option<u32>,
    proved: Option<Proved>,
    counts: Counts,
}

/// Result of a proof that was accepted.
#[derive(Debug)]
struct Proved {
    packets: PacketKey,
    level: Level,
    principal: Principal,
    end: Time,
}

impl ServerConnection {
    /// Checks a response. Nothing of the connection changes unless all is right.
    fn check(
        &mut self,
        unix: Option<Duration>,
        connection: &ConnectionContext,
        response: &[u8],
    ) -> Result<[u32; 4], Refused> {
        let asked = self.nonce.ok_or(Code::OutOfSequence)?;
        let response = Response::parse(response)?;
        let now = unix.and_then(|unix| i64::try_from(unix.as_secs()).ok()).ok_or(Refused::NoTimeOfDay)?;
        let ticket = self.shared.open(&response, Time::from_seconds(now))?;
        let key = key_of(&ticket)?;
        let proof = response.open(&key, connection)?;
        if !bool::from(proof.nonce.ct_eq(&asked.wrapping_add(1))) {
            return Err(Code::OutOfSequence.into());
        }
        let level = Level::from_number(proof.level)?;
        if level < self.shared.policy.min_level {
            return Err(Code::LevelFail.into());
        }
        if let Some(observer) = &self.shared.observer {
            observer.accepted(connection, &ticket, level);
        }
        self.proved = Some(Proved {
            packets: PacketKey::new(&key, connection.epoch, connection.cid),
            level,
            principal: Principal {
                name: name_of(&ticket.client),
                level: level as u8,
                expires_unix_s: u64::try_from(ticket.end_time.seconds).ok(),
            },
            end: ticket.end_time,
        });
        Ok(proof.calls)
    }

    fn level(&self) -> Level {
        self.proved.as_ref().map_or(Level::Clear, |proved| proved.level)
    }
}

impl Shared {
    /// Opens the ticket of a response, whose holder must still show that it has the session key.
    fn open(&self, response: &Response<'_>, now: Time) -> Result<OpenTicket, Refused> {
        let keys = self.keys.current();
        let ticket = match response.kvno {
            KVNO_TICKET => self.acceptor.open_ticket(response.ticket, &keys, now)?,
            KVNO_ENCRYPTED_PART => self.acceptor.open_encrypted_part(response.ticket, &keys, now)?,
            other => return Err(Refused::Kvno(other)),
        };
        if let Client::Principal(principal) = &ticket.client
            && afs_name(principal, |_| true, self.policy.has_dotted_principals).is_none()
        {
            return Err(Refused::Name(principal.clone()));
        }
        Ok(ticket)
    }
}

/// Returns the key of a connection. That of a local superuser's ticket is one of DES, which no KDC issues any more.
fn key_of(ticket: &OpenTicket) -> Result<DesKey, Refused> {
    let session = &ticket.session_key;
    match (&ticket.client, <[u8; 8]>::try_from(session.bytes())) {
        (Client::LocalAuth, Ok(bytes)) if session.etype() == DES_CBC_CRC => Ok(DesKey::from_bytes(bytes)),
        _ => Ok(DesKey::derive(session)?),
    }
}

impl Security for ServerConnection {
    fn expiry(&self) -> Option<Expiry> {
        let end = u64::try_from(self.proved.as_ref()?.end.seconds).unwrap_or(0);
        Some(Expiry { unix: Duration::from_secs(end), code: Code::Expired.number() })
    }

    fn header_room(&self) -> usize {
        self.level().header_len()
    }

    fn trailer_room(&self) -> usize {
        self.level().padding_max()
    }

    fn seal(
        &mut self,
        context: &PacketContext,
        payload: &mut [u8],
        data_len: usize,
    ) -> Result<Sealed, SecurityError> {
        let proved = self.proved.as_ref().ok_or(Code::NoAuth)?;
        let sealed = proved.packets.seal(proved.level, context, payload, data_len)?;
        self.counts.count_sent(data_len);
        Ok(sealed)
    }

    fn open(
        &mut self,
        context: &PacketContext,
        checksum: u16,
        payload: &mut [u8],
    ) -> Result<Range<usize>, SecurityError> {
        let proved = self.proved.as_ref().ok_or(Code::NoAuth)?;
        let data = proved.packets.open(proved.level, context, checksum, payload)?;
        self.counts.count_received(data.len());
        Ok(data)
    }

    fn needs_challenge(&self) -> bool {
        self.proved.is_none()
    }

    fn challenge(&mut self, around: &mut Surroundings<'_>, out: &mut Vec<u8>) {
        let nonce = *self.nonce.get_or_insert_with(|| around.random.next_u32());
        let min_level = self.shared.policy.min_level as u32;
        Challenge { nonce, min_level }.encode(out);
    }

    fn check_response(
        &mut self,
        around: &mut Surroundings<'_>,
        connection: &ConnectionContext,
        response: &[u8],
        _: &Waker,
    ) -> Poll<Result<[u32; 4], SecurityError>> {
        Poll::Ready(self.check(around.unix, connection, response).map_err(|refused| {
            if let Some(observer) = &self.shared.observer {
                observer.refused(connection, &refused);
            }
            SecurityError { code: refused.code() }
        }))
    }

    fn statistics(&self) -> Option<SecurityStats> {
        let proved = self.proved.as_ref();
        let expires = proved.and_then(|proved| proved.principal.expires_unix_s);
        Some(self.counts.statistics(proved.map(|proved| proved.level), expires))
    }

    fn principal(&self) -> Option<&Principal> {
        self.proved.as_ref().map(|proved| &proved.principal)
    }
}
