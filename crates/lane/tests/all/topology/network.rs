//! Tests of findings about what leaves a machine: bonds, addresses, queueing disciplines.

use lane::probe::{
    Address, DefaultRoute, Finding, Network, Qdisc, Redirect, SourceRule, Verdict, examine_network,
};
use lane::topology::Napi;

use crate::topology::fixture::{Machine, TWO_NODES};

/// Makes a machine with eth0 (index 2, node 0) and eth1 (index 3, node 1) below bond0 (index 4).
fn bonded(mode: &str) -> Machine {
    let machine = Machine::new(&format!("{TWO_NODES}\n stacked bond0 index=4 lower=eth0,eth1"));
    machine.write("sys/class/net/bond0/bonding/mode", mode);
    machine.write("sys/class/net/bond0/bonding/miimon", "100\n");
    machine
}

fn finding(machine: &Machine, network: &Network, name: &str) -> Finding {
    let found = examine_network(machine.root(), &machine.read().unwrap(), network);
    let one = found.iter().find(|finding| finding.name == name);
    one.unwrap_or_else(|| panic!("no finding about {name} in {found:?}")).clone()
}

fn address(ifindex: u32, ip: &str, prefix: u8) -> Address {
    Address { ifindex, ip: ip.parse().unwrap(), prefix }
}

fn default_route(table: u32, ifindex: u32, gateway: &str, metric: u32) -> DefaultRoute {
    DefaultRoute { table, ifindex, gateway: Some(gateway.parse().unwrap()), metric }
}

fn qdisc(ifindex: u32, root: bool, kind: &str) -> Qdisc {
    Qdisc { ifindex, root, kind: kind.to_owned() }
}

#[test]
fn bond_comes_with_filters_for_each_nic_and_the_marks_that_go_with_them() {
    let egress = finding(&bonded("balance-xor 2\n"), &Network::default(), "bond0 egress");
    assert_eq!(
        (egress.verdict, egress.found.as_str()),
        (Verdict::Warn, "balance-xor, by mark: eth0 -, eth1 -")
    );
    assert_eq!(
        egress.commands,
        [
            "tc qdisc add dev bond0 clsact",
            "tc filter replace dev bond0 egress protocol all prio 100 handle 101 fw \
             action mirred egress redirect dev eth0",
            "tc filter replace dev bond0 egress protocol all prio 100 handle 102 fw \
             action mirred egress redirect dev eth1",
        ]
    );
    assert_eq!(egress.config.unwrap(), "[server]\negress_marks = { eth0 = 101, eth1 = 102 }");
}

#[test]
fn filters_that_are_there_are_kept_and_only_missing_ones_are_advised() {
    let machine = bonded("802.3ad 4\n");
    let mut network = Network {
        qdiscs: vec![qdisc(4, false, "clsact")],
        redirects: vec![Redirect { ifindex: 4, mark: 101, to: 3 }],
        ..Network::default()
    };
    let egress = finding(&machine, &network, "bond0 egress");
    assert_eq!(egress.found, "802.3ad, by mark: eth0 -, eth1 101");
    assert_eq!(egress.commands.len(), 1, "{:?}", egress.commands);
    assert!(egress.commands[0].contains("handle 102 fw") && egress.commands[0].ends_with("dev eth0"));
    assert_eq!(egress.config.unwrap(), "[server]\negress_marks = { eth0 = 102, eth1 = 101 }");

    network.redirects.push(Redirect { ifindex: 4, mark: 102, to: 2 });
    let egress = finding(&machine, &network, "bond0 egress");
    assert_eq!((egress.verdict, egress.commands.len(), egress.config), (Verdict::Good, 0, None));
}

#[test]
fn mode_in_which_slaves_cannot_be_chosen_gets_another_advised_and_no_filters() {
    let egress = finding(&bonded("active-backup 1\n"), &Network::default(), "bond0 egress");
    assert_eq!((egress.verdict, egress.commands.len()), (Verdict::Warn, 0));
    assert!(egress.advice.unwrap().contains("balance-xor or 802.3ad"));
}

#[test]
fn bond_that_does_not_look_after_its_links_is_told() {
    let machine = bonded("balance-xor 2\n");
    assert_eq!(finding(&machine, &Network::default(), "bond0 link watch").verdict, Verdict::Good);
    machine.write("sys/class/net/bond0/bonding/miimon", "0\n");
    let watch = finding(&machine, &Network::default(), "bond0 link watch");
    assert_eq!(watch.commands, ["ip link set bond0 type bond miimon 100"]);
}

#[test]
fn what_tells_a_connections_nic_behind_a_bond_is_said() {
    let machine = bonded("balance-xor 2\n");
    let silent = finding(&machine, &Network::default(), "bond0 arrivals");
    assert_eq!(silent.verdict, Verdict::Warn, "eth1 does not tell its interrupts: {silent:?}");
    let network = Network { napis: vec![Napi { id: 8193, ifindex: 2 }], ..Network::default() };
    let told = finding(&machine, &network, "bond0 arrivals");
    assert_eq!(
        (told.verdict, told.found.as_str()),
        (Verdict::Good, "the NAPI instance tells a connection's NIC")
    );
}

#[test]
fn right_to_mark_is_asked_for_where_a_bond_needs_it() {
    let machine = bonded("balance-xor 2\n");
    let refused = finding(&machine, &Network::default(), "packet marks");
    assert!(refused.advice.unwrap().contains("CAP_NET_ADMIN"));
    let allowed = Network { may_mark: true, ..Network::default() };
    assert_eq!(finding(&machine, &allowed, "packet marks").verdict, Verdict::Good);
}

#[test]
fn bond_of_one_nodes_nics_needs_nothing() {
    let machine = Machine::new(&format!("{TWO_NODES}\n stacked bond0 index=4 lower=eth0"));
    machine.write("sys/class/net/bond0/bonding/mode", "balance-xor 2\n");
    let found = examine_network(machine.root(), &machine.read().unwrap(), &Network::default());
    assert_eq!(found, []);
}

#[test]
fn nics_in_one_network_get_tables_of_their_own() {
    let machine = Machine::new(TWO_NODES);
    let mut network = Network {
        addresses: vec![address(2, "10.0.0.1", 24), address(3, "10.0.0.2", 24)],
        default_routes: vec![default_route(254, 2, "10.0.0.254", 0), default_route(102, 9, "10.9.9.9", 0)],
        ..Network::default()
    };
    let replies = finding(&machine, &network, "eth1 replies from 10.0.0.2");
    assert_eq!(replies.verdict, Verdict::Warn);
    assert_eq!(
        replies.commands,
        [
            "ip route replace 10.0.0.0/24 dev eth1 src 10.0.0.2 table 103",
            "ip route replace default via 10.0.0.254 dev eth1 src 10.0.0.2 table 103",
            "ip rule add from 10.0.0.2 lookup 103",
            "sysctl -w net.ipv4.conf.eth1.arp_ignore=1 net.ipv4.conf.eth1.arp_announce=2",
        ],
        "table 102 is taken"
    );
    network.source_rules.push(SourceRule { source: "10.0.0.2".parse().unwrap(), table: 103 });
    network.default_routes.push(default_route(103, 3, "10.0.0.254", 0));
    assert_eq!(finding(&machine, &network, "eth1 replies from 10.0.0.2").verdict, Verdict::Good);
    network.default_routes.push(default_route(103, 2, "10.0.0.254", 0));
    assert_eq!(finding(&machine, &network, "eth1 replies from 10.0.0.2").verdict, Verdict::Warn);
}

#[test]
fn default_route_of_the_smallest_metric_draws_the_replies_of_the_other_nic() {
    let machine = Machine::new(TWO_NODES);
    let mut network = Network {
        addresses: vec![address(2, "10.0.0.1", 24), address(3, "fd00:1::1", 64), address(3, "10.1.0.1", 24)],
        default_routes: vec![
            default_route(254, 3, "10.1.0.254", 200),
            default_route(254, 2, "10.0.0.254", 100),
        ],
        ..Network::default()
    };
    assert_eq!(finding(&machine, &network, "eth0 replies from 10.0.0.1").verdict, Verdict::Good);
    assert_eq!(finding(&machine, &network, "eth1 replies from fd00:1::1").verdict, Verdict::Good);
    let astray = finding(&machine, &network, "eth1 replies from 10.1.0.1");
    assert_eq!(astray.found, "routed by the main table; the default route is by eth0");
    assert!(astray.commands[1].starts_with("ip route replace default via 10.1.0.254 dev eth1"));
    network.default_routes.remove(0);
    let astray = finding(&machine, &network, "eth1 replies from 10.1.0.1");
    assert!(astray.commands[1].starts_with("ip route replace default via GATEWAY dev eth1"));
}

#[test]
fn fq_before_every_queue_is_wanted() {
    let machine = Machine::new(TWO_NODES);
    let queueing =
        |qdiscs: Vec<Qdisc>| finding(&machine, &Network { qdiscs, ..Network::default() }, "eth0 queueing");
    assert_eq!(queueing(vec![qdisc(2, true, "fq"), qdisc(2, false, "clsact")]).verdict, Verdict::Good);
    let many = |kind: &str| vec![qdisc(2, true, "mq"), qdisc(2, false, "fq"), qdisc(2, false, kind)];
    assert_eq!(queueing(many("fq")).verdict, Verdict::Good);
    assert_eq!(queueing(many("fq_codel")).found, "mq over fq, fq_codel");
    let plain = queueing(vec![qdisc(2, true, "fq_codel")]);
    assert_eq!(plain.commands, ["tc qdisc replace dev eth0 root fq"]);
}
