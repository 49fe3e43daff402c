//! Calls of one lane to clients: from the port that they know the server by, over one connection to each.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use afs_wire::{Fid, rxafscb};
use lane::time;
use rx::{ConnectOptions, Limits};
use rx_lane::{Anonymous, CallError, Connection, Driver};
use xdr::List;
use xdr::afs::AfsUuid;
use xdr::rpc::{Call, Failure, Received, code};

use super::told::{Place, Told};

/// The lane's connections to clients.
pub(super) struct Calls {
    driver: Driver,
    open: RefCell<HashMap<(SocketAddr, Option<IpAddr>), Open>>,
}

struct Open {
    connection: Connection,
    used: Instant,
}

/// A call that came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failed {
    /// The client does not offer such a call.
    Unknown,
    /// It refused, answered nothing, or not what it should.
    Else,
}

impl Calls {
    pub(super) fn new(driver: Driver) -> Self {
        Self { driver, open: RefCell::default() }
    }

    /// Who is there; `None` where nobody answers as a client does.
    pub(super) async fn who(&self, at: Place, patience: Duration) -> Option<Told> {
        match self.call(at, &rxafscb::TellMeAboutYourself {}, patience).await {
            Ok(reply) => return Some(Told::of(&reply.get().interfaces)),
            Err(Failed::Unknown) => {}
            Err(Failed::Else) => return None,
        }
        match self.call(at, &rxafscb::WhoAreYou {}, patience).await {
            Ok(reply) => Some(Told::of(&reply.get().interfaces)),
            // There it is known by its address alone.
            Err(Failed::Unknown) => Some(Told::default()),
            Err(Failed::Else) => None,
        }
    }

    /// Whether the client of an identity is there; of a client without one, whether anybody is.
    pub(super) async fn probe(&self, at: Place, uuid: Option<AfsUuid>, patience: Duration) -> bool {
        match uuid {
            Some(client) => self.call(at, &rxafscb::ProbeUuid { client }, patience).await.is_ok(),
            None => self.call(at, &rxafscb::Probe {}, patience).await.is_ok(),
        }
    }

    /// Tells a client that it relies on nothing of the server of this identity; says whether it has heard.
    pub(super) async fn reset(&self, at: Place, server: AfsUuid, patience: Duration) -> bool {
        match self.call(at, &rxafscb::InitCallBackState3 { server }, patience).await {
            Ok(_) => true,
            Err(Failed::Unknown) => self.call(at, &rxafscb::InitCallBackState {}, patience).await.is_ok(),
            Err(Failed::Else) => false,
        }
    }

    /// Tells a client that what it was promised of these files is over; says whether it has heard.
    pub(super) async fn break_promises(&self, at: Place, files: Vec<Fid>, patience: Duration) -> bool {
        let request = rxafscb::CallBack { files: List(files), call_backs: List(Vec::new()) };
        self.call(at, &request, patience).await.is_ok()
    }

    /// Closes connections that have not been used since `before`.
    pub(super) fn close_idle(&self, before: Instant) {
        self.open.borrow_mut().retain(|_, open| open.used >= before);
    }

    async fn call<P: Call>(&self, at: Place, request: &P, patience: Duration) -> Result<Received<P>, Failed> {
        let connection = self.connection(at, patience).ok_or(Failed::Else)?;
        let answer = time::timeout(patience, async {
            let mut call = connection.call().await?;
            xdr::rpc::call(&mut call, request).await
        });
        match answer.await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(Failure::Stream(CallError::Aborted(code::OPCODE)))) => Err(Failed::Unknown),
            _ => {
                // Whatever is wrong with the connection, the next call has another.
                self.open.borrow_mut().remove(&(at.address, at.local));
                Err(Failed::Else)
            }
        }
    }

    fn connection(&self, at: Place, patience: Duration) -> Option<Connection> {
        let mut open = self.open.borrow_mut();
        let used = time::clock();
        if let Some(open) =
            open.get_mut(&(at.address, at.local)).filter(|open| open.connection.id().is_some())
        {
            open.used = used;
            return Some(open.connection.clone());
        }
        let options = ConnectOptions { local_ip: at.local, ..ConnectOptions::default() };
        let connection = self.driver.connect_with(at.address, SERVICE, &Anonymous, options).ok()?;
        let (idle_time, hard_time) = (Some(patience), Some(patience));
        connection.set_limits(Limits { dead_time: patience, idle_time, hard_time });
        open.insert((at.address, at.local), Open { connection: connection.clone(), used });
        Some(connection)
    }
}

/// RXAFSCB.
const SERVICE: u16 = 1;
