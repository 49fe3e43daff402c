//! An address for each NIC: whether replies leave by the NIC that has their address. The main routing table
//! does not see to that where NICs share a network or a default route.

use std::net::IpAddr;

use super::network::{Address, DefaultRoute};
use super::{Area, Finding, Network, Verdict};
use crate::topology::{Nic, NicKind, Topology};

/// Returns findings about every address of a NIC of known node, on machines with addresses on several nodes.
pub(super) fn all(topology: &Topology, network: &Network) -> Vec<Finding> {
    let placed = |nic: &&Nic| nic.up && nic.kind != NicKind::Virtual && nic.node.is_some();
    let nics: Vec<&Nic> = topology
        .nics
        .iter()
        .filter(placed)
        .filter(|nic| network.addresses_of(nic.ifindex).next().is_some())
        .collect();
    let mut nodes: Vec<_> = nics.iter().map(|nic| nic.node).collect();
    nodes.dedup();
    if nodes.len() < 2 {
        return Vec::new();
    }
    let replies = Replies { topology, nics: &nics, network };
    let in_use = |table: &u32| {
        network.source_rules.iter().any(|rule| rule.table == *table)
            || network.default_routes.iter().any(|route| route.table == *table)
    };
    let tables = (FIRST_TABLE..).filter(|table| !in_use(table));
    nics.iter().zip(tables).flat_map(|(nic, table)| replies.of_nic(nic, table)).collect()
}

struct Replies<'a> {
    topology: &'a Topology,
    /// NICs that are looked at.
    nics: &'a [&'a Nic],
    network: &'a Network,
}

impl Replies<'_> {
    fn of_nic(&self, nic: &Nic, table: u32) -> Vec<Finding> {
        self.network.addresses_of(nic.ifindex).map(|address| self.of_address(nic, address, table)).collect()
    }

    fn of_address(&self, nic: &Nic, address: &Address, table: u32) -> Finding {
        let rule = self.network.source_rules.iter().find(|rule| rule.source == address.ip);
        let shared = self.shares_network(address);
        let (holds, found) = match rule {
            Some(rule) => (self.leads_out(rule.table, nic), format!("routed by table {}", rule.table)),
            None if shared => {
                (false, "routed by the main table; another NIC is in the same network".to_owned())
            }
            None => match self.default_by_other(nic, address) {
                Some(other) => (false, format!("routed by the main table; the default route is by {other}")),
                None => (true, "routed by the main table, out by it".to_owned()),
            },
        };
        let advice = "replies leave by another NIC than the requests came by, across nodes. These lines route by source \
                      address, until the next boot; put the router on that NIC's side where they say GATEWAY";
        let name = format!("{} replies from {}", nic.name, address.ip);
        Finding::new(Area::Nic, name, found, format!("out by {}", nic.name))
            .unless(holds, Verdict::Warn, advice)
            .with_commands(self.commands(nic, address, table, shared))
    }

    fn commands(&self, nic: &Nic, address: &Address, table: u32, shared: bool) -> Vec<String> {
        let (name, ip, prefix) = (&nic.name, address.ip, address.prefix);
        let six = if ip.is_ipv6() { "-6 " } else { "" };
        let mut commands = vec![format!(
            "ip {six}route replace {}/{prefix} dev {name} src {ip} table {table}",
            address.network()
        )];
        // Which router is beside the NIC only its operator knows, where no default route by it is set.
        let gateway = self.gateway(address).map_or_else(|| "GATEWAY".to_owned(), |hop| hop.to_string());
        commands
            .push(format!("ip {six}route replace default via {gateway} dev {name} src {ip} table {table}"));
        commands.push(format!("ip {six}rule add from {ip} lookup {table}"));
        if shared && ip.is_ipv4() {
            // Otherwise either NIC answers for the other's address, and clients send to the wrong one.
            commands.push(format!(
                "sysctl -w net.ipv4.conf.{name}.arp_ignore=1 net.ipv4.conf.{name}.arp_announce=2"
            ));
        }
        commands
    }

    fn shares_network(&self, address: &Address) -> bool {
        let others = self.nics.iter().filter(|nic| nic.ifindex != address.ifindex);
        let mut addresses = others.flat_map(|nic| self.network.addresses_of(nic.ifindex));
        addresses.any(|other| address.reaches(other.ip) || other.reaches(address.ip))
    }

    /// Returns whether a table leads packets to elsewhere out by this NIC, as far as it leads any there.
    fn leads_out(&self, table: u32, nic: &Nic) -> bool {
        let mut of_table = self.network.default_routes.iter().filter(|route| route.table == table);
        of_table.all(|route| route.ifindex == nic.ifindex)
    }

    /// Returns the name of the NIC of the main table's default route, where that is another.
    fn default_by_other(&self, nic: &Nic, address: &Address) -> Option<&str> {
        let taken = self.main_routes(address.ip).min_by_key(|route| route.metric)?.ifindex;
        let other = self.topology.nics.iter().find(|other| other.ifindex == taken)?;
        (taken != nic.ifindex).then_some(other.name.as_str())
    }

    /// Returns the next hop of a default route that this address' network reaches.
    fn gateway(&self, address: &Address) -> Option<IpAddr> {
        self.main_routes(address.ip).filter_map(|route| route.gateway).find(|hop| address.reaches(*hop))
    }

    /// Returns the default routes of the main table, of the address' family.
    fn main_routes(&self, like: IpAddr) -> impl Iterator<Item = &DefaultRoute> {
        let same_family = move |route: &&DefaultRoute| {
            route.gateway.is_none_or(|gateway| gateway.is_ipv4() == like.is_ipv4())
        };
        self.network.default_routes.iter().filter(|route| route.table == MAIN_TABLE).filter(same_family)
    }
}

/// First number of the tables in the commands.
const FIRST_TABLE: u32 = 101;
const MAIN_TABLE: u32 = 254;
