//! Operations of tests on the network while the world runs.

use std::rc::Rc;

use super::ports::{Protocol, Steered};
use super::stats::NetStats;
use super::stream::Side;
use crate::backend::sim::config::LinkConfig;
use crate::backend::sim::core::Core;
use crate::backend::sim::host::Host;

/// A handle on the network of a world. Clones act on the same network; futures may hold one.
#[derive(Clone)]
pub struct Net {
    core: Rc<Core>,
}

impl Net {
    pub(in crate::backend::sim) fn new(core: Rc<Core>) -> Self {
        Self { core }
    }

    /// Cuts both ways between two hosts: datagrams vanish, streams stall and in the end time out.
    pub fn partition(&self, a: &Host, b: &Host) {
        self.partition_oneway(a, b);
        self.partition_oneway(b, a);
    }

    /// Cuts the way from one host to another only.
    pub fn partition_oneway(&self, from: &Host, to: &Host) {
        self.core.with_net(|net| net.links.set_cut(from.id(), to.id(), true));
    }

    /// Mends both ways between two hosts.
    pub fn heal(&self, a: &Host, b: &Host) {
        self.core.with_net(|net| {
            net.links.set_cut(a.id(), b.id(), false);
            net.links.set_cut(b.id(), a.id(), false);
        });
    }

    /// Mends every cut between hosts.
    pub fn heal_all(&self) {
        self.core.with_net(|net| net.links.heal_all());
    }

    /// Sets the link settings of both ways between two hosts.
    pub fn set_link(&self, a: &Host, b: &Host, config: LinkConfig) {
        self.set_link_oneway(a, b, config.clone());
        self.set_link_oneway(b, a, config);
    }

    /// Sets the link settings of one way. What is on the way already keeps its time.
    pub fn set_link_oneway(&self, from: &Host, to: &Host, config: LinkConfig) {
        self.core.with_net(|net| net.links.set(from.id(), to.id(), config));
    }

    /// Returns the link settings of one way.
    pub fn link(&self, from: &Host, to: &Host) -> LinkConfig {
        self.core.with_net(|net| net.links.config(from.id(), to.id()))
    }

    /// Puts an address translator before a host. Others see the host's datagrams come from `public`, at ports
    /// of the translator's choice, and reach it only there or directly. Streams pass untranslated.
    ///
    /// # Panics
    /// When another host has the address, or `public` is no IP address.
    pub fn put_behind_nat(&self, host: &Host, public: &str) {
        let public = public.parse().unwrap_or_else(|_| panic!("{public:?} is no IP address"));
        self.core.with_net(|net| {
            net.ports.lead_to(host.id(), public);
            net.nats.install(host.id(), public);
        });
    }

    /// Makes the translator before a host forget its ports: other hosts see new ports from now on.
    pub fn rebind_nat(&self, host: &Host) {
        self.core.with_net(|net| net.nats.rebind(host.id()));
    }

    /// Resets every connection between two hosts at both ends, as a middlebox that lost its state does.
    /// Returns the number of connections reset.
    pub fn reset_connections(&self, a: &Host, b: &Host) -> usize {
        let (a, b) = (a.id(), b.id());
        self.core.with_net_and_engine(|net, engine| {
            let between = |c: &super::Conn| {
                let [one, other] = [c.ends[0].host, c.ends[1].host];
                (one, other) == (a, b) || (one, other) == (b, a)
            };
            let hit: Vec<_> = net.conns.iter().filter(|(_, c)| between(c)).map(|(&id, _)| id).collect();
            for &id in &hit {
                net.with_conn(id, engine, |c, around| {
                    c.break_end(Side::Client, libc::ECONNRESET, around);
                    c.break_end(Side::Server, libc::ECONNRESET, around);
                });
            }
            net.stats.resets += 2 * hit.len() as u64;
            hit.len()
        })
    }

    /// Steers datagrams for a port of `host` among the sockets of its SO_REUSEPORT group. The hook returns a
    /// place in the group: the order in which the sockets bound. `None`, or a place that does not exist,
    /// falls back to the hash. The hook sees packets of groups only, and must not touch the world.
    pub fn steer_udp(
        &self,
        host: &Host,
        port: u16,
        steer: impl FnMut(Steered<'_>) -> Option<usize> + 'static,
    ) {
        self.core.with_net(|net| {
            net.ports.set_steering(host.id(), Protocol::Udp, port, Some(Box::new(steer)));
        });
    }

    /// Steers new TCP connections ([`Net::steer_udp`]).
    pub fn steer_tcp(
        &self,
        host: &Host,
        port: u16,
        steer: impl FnMut(Steered<'_>) -> Option<usize> + 'static,
    ) {
        self.core.with_net(|net| {
            net.ports.set_steering(host.id(), Protocol::Tcp, port, Some(Box::new(steer)));
        });
    }

    /// Returns the statistics of the network so far.
    pub fn stats(&self) -> NetStats {
        self.core.with_net(|net| net.stats)
    }

    /// Returns the number of connections that still hold state at either end.
    pub fn connections(&self) -> usize {
        self.core.with_net(|net| net.connections())
    }
}
