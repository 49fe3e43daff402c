//! Calls of one lane to clients: from the port that they know the server by, over one connection to each.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use afs_wire::{Fid, rxafscb};
use lane::time;
use rx::{ConnectOptions, DeadReason, Limits};
use rx_lane::{Anonymous, CallError, Connection, Driver};
use vfs::NotifyOutcome;
use xdr::List;
use xdr::afs::AfsUuid;
use xdr::rpc::{Call, Failure, Received, code};

use super::host_identity::{HostAddress, HostIdentity};

/// The lane's connections to clients.
pub(super) struct Calls {
    driver: Driver,
    open: RefCell<HashMap<(SocketAddr, Option<IpAddr>), OpenConnection>>,
}

struct OpenConnection {
    connection: Connection,
    used: Instant,
}

/// A call that came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failed {
    /// The client does not offer such a call.
    Unknown,
    /// The client refused the call, with this code.
    Refused(i32),
    /// The client's own address reports the port closed.
    PortClosed,
    /// The client answered nothing, or not what it should.
    Else,
}

impl Failed {
    fn outcome(self) -> NotifyOutcome {
        match self {
            Self::PortClosed => NotifyOutcome::Gone,
            Self::Unknown | Self::Refused(_) | Self::Else => NotifyOutcome::NoReply,
        }
    }
}

impl Calls {
    pub(super) fn new(driver: Driver) -> Self {
        Self { driver, open: RefCell::default() }
    }

    /// Returns the identity of the client there; `None` where none answers as a client does.
    pub(super) async fn who_are_you(&self, at: HostAddress, patience: Duration) -> Option<HostIdentity> {
        match self.call(at, &rxafscb::TellMeAboutYourself {}, patience).await {
            Ok(reply) => return Some(HostIdentity::of(&reply.get().interfaces)),
            Err(Failed::Unknown) => {}
            Err(_) => return None,
        }
        match self.call(at, &rxafscb::WhoAreYou {}, patience).await {
            Ok(reply) => Some(HostIdentity::of(&reply.get().interfaces)),
            // There it is known by its address alone.
            Err(Failed::Unknown) => Some(HostIdentity::default()),
            Err(_) => None,
        }
    }

    /// Checks whether the client of an identity is there; of a client without one, whether any is. Gone, too,
    /// where another client says that it has the address by now.
    pub(super) async fn probe(
        &self,
        at: HostAddress,
        uuid: Option<AfsUuid>,
        patience: Duration,
    ) -> NotifyOutcome {
        let failed = match uuid {
            Some(client) => self.call(at, &rxafscb::ProbeUuid { client }, patience).await.err(),
            None => self.call(at, &rxafscb::Probe {}, patience).await.err(),
        };
        match failed {
            None => NotifyOutcome::Acknowledged,
            Some(Failed::Refused(ANOTHER)) if uuid.is_some() => NotifyOutcome::Gone,
            Some(failed) => failed.outcome(),
        }
    }

    /// Tells a client that it relies on nothing of the server of this identity.
    pub(super) async fn reset(&self, at: HostAddress, server: AfsUuid, patience: Duration) -> NotifyOutcome {
        let told = match self.call(at, &rxafscb::InitCallBackState3 { server }, patience).await {
            Err(Failed::Unknown) => self.call(at, &rxafscb::InitCallBackState {}, patience).await.err(),
            told => told.err(),
        };
        told.map_or(NotifyOutcome::Acknowledged, Failed::outcome)
    }

    /// Breaks a client's callbacks of these files.
    pub(super) async fn break_callbacks(
        &self,
        at: HostAddress,
        files: Vec<Fid>,
        patience: Duration,
    ) -> NotifyOutcome {
        let request = rxafscb::CallBack { files: List(files), call_backs: List(Vec::new()) };
        self.call(at, &request, patience).await.err().map_or(NotifyOutcome::Acknowledged, Failed::outcome)
    }

    /// Closes connections that have not been used since `before`.
    pub(super) fn close_idle(&self, before: Instant) {
        self.open.borrow_mut().retain(|_, open| open.used >= before);
    }

    async fn call<P: Call>(
        &self,
        at: HostAddress,
        request: &P,
        patience: Duration,
    ) -> Result<Received<P>, Failed> {
        let connection = self.connection(at, patience).ok_or(Failed::Else)?;
        let answer = time::timeout(patience, async {
            let mut call = connection.call().await?;
            xdr::rpc::call(&mut call, request).await
        });
        match answer.await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(Failure::Stream(CallError::Aborted(code::OPCODE)))) => Err(Failed::Unknown),
            failed => {
                // Whatever is wrong with the connection, the next call has another.
                self.open.borrow_mut().remove(&(at.address, at.local));
                Err(match failed {
                    Ok(Err(Failure::Stream(CallError::Aborted(code)))) => Failed::Refused(code),
                    Ok(Err(Failure::Stream(CallError::Dead(DeadReason::PortClosed)))) => Failed::PortClosed,
                    _ => Failed::Else,
                })
            }
        }
    }

    fn connection(&self, at: HostAddress, patience: Duration) -> Option<Connection> {
        let mut open = self.open.borrow_mut();
        let used = time::clock();
        if let Some(open) =
            open.get_mut(&(at.address, at.local)).filter(|open| open.connection.id().is_some())
        {
            open.used = used;
            return Some(open.connection.clone());
        }
        // A client's callbacks mean nothing to it once its socket is closed.
        let options = ConnectOptions { local_ip: at.local, ends_at_closed_port: true, upgrade: false };
        let connection = self.driver.connect_with(at.address, SERVICE, &Anonymous, options).ok()?;
        let (idle_time, hard_time) = (Some(patience), Some(patience));
        connection.set_limits(Limits { dead_time: patience, idle_time, hard_time });
        open.insert((at.address, at.local), OpenConnection { connection: connection.clone(), used });
        Some(connection)
    }
}

/// Answer of a client to ProbeUuid for another than itself.
const ANOTHER: i32 = 1;
/// RXAFSCB.
const SERVICE: u16 = 1;
