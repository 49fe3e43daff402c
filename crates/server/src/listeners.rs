//! The addresses a server listens at: one listener group each, opened before any lane starts, so that a
//! taken address is an error of the start and not of a lane.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use http::service::Role;
use lane::layout::Layout;
use lane::socket::reuseport::{Group, GroupConfig, GroupError, Steering, SteeringError, Transport};

use crate::config::Config;

/// Every open group and what is spoken there.
pub(crate) struct Listeners {
    open: Vec<OpenListener>,
}

struct OpenListener {
    /// As configured: port 0 stays 0, so that a reload recognises it.
    asked: SocketAddr,
    role: Role,
    group: Group,
}

/// A listening socket for one lane.
#[derive(Debug)]
pub(crate) struct LaneListener {
    /// The address as configured: its name in messages to the lane.
    pub(crate) asked: SocketAddr,
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
        Self { open: Vec::new() }
    }

    /// Opens what `config` asks for and is not open with the same role, for every lane. Nothing is kept
    /// when one of them fails.
    pub(crate) fn open_missing(
        &mut self,
        config: &Config,
        layout: &Layout,
    ) -> Result<Vec<SocketAddr>, ListenError> {
        let mut opened = Vec::new();
        for (asked, role) in wanted(config, self) {
            if self.open.iter().any(|open| open.asked == asked && open.role == role) {
                continue;
            }
            let transport = Transport::Tcp { backlog: BACKLOG };
            let group_config = GroupConfig { address: asked, transport, prepare: Box::new(|_| Ok(())) };
            let group = Group::open(group_config, Steering::by_layout(layout)?)?;
            opened.push(OpenListener { asked, role, group });
        }
        let addresses = opened.iter().map(|open| open.asked).collect();
        self.open.extend(opened);
        Ok(addresses)
    }

    /// One lane's sockets of the groups at `addresses`.
    pub(crate) fn for_lane(
        &self,
        lane: usize,
        addresses: &[SocketAddr],
    ) -> Result<Vec<LaneListener>, ListenError> {
        let chosen = self.open.iter().filter(|open| addresses.contains(&open.asked));
        chosen
            .map(|open| {
                Ok(LaneListener { asked: open.asked, role: open.role, socket: open.group.descriptor(lane)? })
            })
            .collect()
    }

    /// Closes what `config` asks for no more; says which. Lanes must close theirs too.
    pub(crate) fn close_unwanted(&mut self, config: &Config) -> Vec<SocketAddr> {
        let wanted = wanted(config, self);
        let (keep, close) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|open| wanted.contains(&(open.asked, open.role)));
        self.open = keep;
        let close: Vec<OpenListener> = close;
        close.iter().map(|open| open.asked).collect()
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

    fn addresses(&self, which: impl Fn(Role) -> bool) -> Vec<SocketAddr> {
        self.open.iter().filter(|open| which(open.role)).map(|open| open.group.address()).collect()
    }
}

/// HTTPS first: redirects need to know the port the kernel chose for it.
fn wanted(config: &Config, listeners: &Listeners) -> Vec<(SocketAddr, Role)> {
    let mut wanted: Vec<_> = config.https.listen.iter().map(|addr| (*addr, Role::Tls)).collect();
    let role = if config.http.redirect_to_https {
        let open = listeners.https().first().map(SocketAddr::port);
        let configured = config.https.listen.first().map(SocketAddr::port);
        let https_port = config.https.public_port.or(open).or(configured).unwrap_or(443);
        Role::Redirect { https_port }
    } else {
        Role::Plain
    };
    wanted.extend(config.http.listen.iter().map(|addr| (*addr, role)));
    wanted
}

/// Connections that may wait at each lane to be accepted; the kernel caps it at net.core.somaxconn.
const BACKLOG: i32 = 4096;
