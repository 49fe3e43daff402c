//! The addresses a server listens at: one listener group each, opened before any lane starts, so that a
//! taken address is an error of the start and not of a lane.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use http::service::Role;
use lane::layout::Layout;
use lane::socket::reuseport::{Group, GroupConfig, GroupError, Steering, SteeringError, Transport};

use crate::config::Config;

/// Every open group and what is spoken there.
pub(crate) struct Listeners {
    open: Vec<OpenListener>,
    next_id: ListenerId,
}

/// What a configuration makes of the listeners: decided and opened by [`Listeners::change`], in force with
/// [`Listeners::commit`]. Dropped before, it leaves everything as it was.
pub(crate) struct Change {
    open: Vec<OpenListener>,
    close: Vec<ListenerId>,
}

/// A listener's name in messages to the lanes. Addresses would not do: port 0 may stand several times.
pub(crate) type ListenerId = u64;

struct OpenListener {
    id: ListenerId,
    /// As configured: port 0 stays 0, so that a reload recognises it.
    asked: SocketAddr,
    role: Role,
    /// Shared by the old and the new listener while an address changes its role.
    group: Arc<Group>,
}

/// A listening socket for one lane.
#[derive(Debug)]
pub(crate) struct LaneListener {
    pub(crate) id: ListenerId,
    pub(crate) role: Role,
    pub(crate) socket: OwnedFd,
}

/// An address that cannot be listened at.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The sockets or their selector.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The layout's silos.
    #[error(transparent)]
    Steering(#[from] SteeringError),
}

impl Listeners {
    pub(crate) fn none() -> Self {
        Self { open: Vec::new(), next_id: 0 }
    }

    /// Opens what `config` asks for and is not open yet, for every lane, and says what it asks for no more.
    /// Nothing is kept when one address fails.
    pub(crate) fn change(&mut self, config: &Config, layout: &Layout) -> Result<Change, ListenError> {
        let (mut open, mut kept) = (Vec::new(), Vec::new());
        for address in &config.https.listen {
            self.want(*address, Role::Tls, layout, &mut open, &mut kept)?;
        }
        let role = if config.http.redirect_to_https {
            // Only what is open knows the port that the kernel chose.
            let https = open.iter().chain(self.open.iter().filter(|listener| kept.contains(&listener.id)));
            let port = https.map(|listener| listener.group.address().port()).next();
            Role::Redirect { https_port: config.https.public_port.or(port).unwrap_or(443) }
        } else {
            Role::Plain
        };
        for address in &config.http.listen {
            self.want(*address, role, layout, &mut open, &mut kept)?;
        }
        let close = self.open.iter().map(|listener| listener.id).filter(|id| !kept.contains(id)).collect();
        Ok(Change { open, close })
    }

    /// Puts a change in force, after the lanes have been told.
    pub(crate) fn commit(&mut self, change: Change) {
        self.open.retain(|listener| !change.close.contains(&listener.id));
        self.open.extend(change.open);
    }

    pub(crate) fn close_all(&mut self) {
        self.open.clear();
    }

    /// Where HTTP is answered, with the ports the kernel chose.
    pub(crate) fn http(&self) -> Vec<SocketAddr> {
        self.addresses(|role| role != Role::Tls)
    }

    /// Where HTTPS is answered.
    pub(crate) fn https(&self) -> Vec<SocketAddr> {
        self.addresses(|role| role == Role::Tls)
    }

    fn want(
        &mut self,
        asked: SocketAddr,
        role: Role,
        layout: &Layout,
        open: &mut Vec<OpenListener>,
        kept: &mut Vec<ListenerId>,
    ) -> Result<(), ListenError> {
        let mut here = self.open.iter().filter(|listener| listener.asked == asked);
        if let Some(same) = here.clone().find(|listener| listener.role == role) {
            kept.push(same.id);
            return Ok(());
        }
        // A port the kernel chose belongs to the listener it was chosen for.
        let group = match here.next().filter(|_| asked.port() != 0) {
            Some(other_role) => Arc::clone(&other_role.group),
            None => {
                let transport = Transport::Tcp { backlog: BACKLOG };
                let config = GroupConfig { address: asked, transport, prepare: Box::new(|_| Ok(())) };
                Arc::new(Group::open(config, Steering::by_layout(layout)?)?)
            }
        };
        open.push(OpenListener { id: self.next_id, asked, role, group });
        self.next_id += 1;
        Ok(())
    }

    fn addresses(&self, which: impl Fn(Role) -> bool) -> Vec<SocketAddr> {
        self.open.iter().filter(|open| which(open.role)).map(|open| open.group.address()).collect()
    }
}

impl Change {
    /// One lane's sockets of the new listeners.
    pub(crate) fn for_lane(&self, lane: usize) -> Result<Vec<LaneListener>, ListenError> {
        let listener = |open: &OpenListener| {
            Ok(LaneListener { id: open.id, role: open.role, socket: open.group.descriptor(lane)? })
        };
        self.open.iter().map(listener).collect()
    }

    /// The listeners that end.
    pub(crate) fn closed(&self) -> &[ListenerId] {
        &self.close
    }
}

/// Connections that may wait at each lane to be accepted; the kernel caps it at net.core.somaxconn.
const BACKLOG: i32 = 4096;
