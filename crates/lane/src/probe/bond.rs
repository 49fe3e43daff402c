//! Bonds over NICs of several nodes: what tells a connection's NIC, whether marked packets leave by the NIC
//! of their mark, and whether a lost link is noticed.

use super::{Area, Finding, Network, Verdict};
use crate::topology::table::or_dash;
use crate::topology::{Evidence, Nic, NicKind, Origins, Topology, Tree};

/// Returns findings about every bond that has a link, and NICs of more than one node.
pub(super) fn all(tree: &Tree, topology: &Topology, network: &Network) -> Vec<Finding> {
    let nics =
        topology.nics.iter().filter(|nic| nic.up && nic.kind == NicKind::Stacked && nic.node.is_none());
    let bonds = nics.filter_map(|nic| Some(Bond { nic, mode: mode(tree, nic)?, topology }));
    let mut findings: Vec<Finding> = bonds.flat_map(|bond| bond.findings(tree, network)).collect();
    if !findings.is_empty() {
        findings.push(marks(network));
    }
    findings
}

/// Checks whether this process, in place of the server, may mark packets. A service may have fewer rights
/// than the shell that asks.
fn marks(network: &Network) -> Finding {
    let found = if network.may_mark { "allowed" } else { "refused" };
    let advice = "the server needs CAP_NET_ADMIN to mark what it sends by a bond's NICs: AmbientCapabilities=CAP_NET_ADMIN \
                  in the service file, --cap-add NET_ADMIN for docker";
    Finding::new(Area::Network, "packet marks", found, "allowed").unless(
        network.may_mark,
        Verdict::Warn,
        advice,
    )
}

struct Bond<'a> {
    nic: &'a Nic,
    mode: String,
    topology: &'a Topology,
}

impl Bond<'_> {
    fn findings(&self, tree: &Tree, network: &Network) -> Vec<Finding> {
        if self.topology.nodes.len() < 2 {
            return Vec::new();
        }
        let mut findings = vec![self.arrivals(network), self.egress(network)];
        findings.extend(self.link_watch(tree));
        findings
    }

    /// Checks what tells on which node a connection arrived. That decides which silo serves it.
    fn arrivals(&self, network: &Network) -> Finding {
        let nodes: Vec<u32> = self.topology.nodes.iter().map(|node| node.id).collect();
        let evidence = Origins::new(self.topology, &network.napis, &nodes).best_evidence(self.nic.ifindex);
        let found = match evidence {
            Some(Evidence::Interface) => "the interface tells a connection's NIC",
            Some(Evidence::Napi) => "the NAPI instance tells a connection's NIC",
            Some(Evidence::Cpu) => "the CPU that got it tells a connection's NIC",
            None => "nothing tells a connection's NIC",
        };
        let advice = "connections are served by any silo: send the interrupts of NICs of different nodes to different \
                      CPUs, or boot Linux 6.8 or later, which tells; best give each NIC an address of its own";
        self.finding("arrivals", found, "each connection's NIC is told").unless(
            evidence.is_some(),
            Verdict::Warn,
            advice,
        )
    }

    fn egress(&self, network: &Network) -> Finding {
        let wanted = "marks of its NICs redirected";
        if !STEERED_MODES.contains(&self.mode.as_str()) {
            let advice = "replies leave by whatever NIC this mode chooses: take balance-xor or 802.3ad, behind a link \
                          aggregation of the switch, or give each NIC an address of its own";
            return self.finding("egress", self.mode.clone(), wanted).unless(false, Verdict::Warn, advice);
        }
        let marks: Vec<Option<u32>> = self.slaves().map(|slave| self.mark_of(slave, network)).collect();
        let told =
            self.slaves().zip(&marks).map(|(slave, mark)| format!("{} {}", slave.name, or_dash(*mark)));
        let found = format!("{}, by mark: {}", self.mode, told.collect::<Vec<_>>().join(", "));
        let holds = marks.iter().all(Option::is_some);
        let advice = "replies leave by the NIC that the bond's hash chooses, half of them across nodes. These lines \
                      send what a silo has marked out by its NIC (until the next boot), and the server takes a mark \
                      away when the NIC's link is lost; it needs CAP_NET_ADMIN for it";
        let (commands, config) = self.recipe(&marks, network);
        let finding = self.finding("egress", found, wanted).unless(holds, Verdict::Warn, advice);
        finding.with_commands(commands).with_config(config)
    }

    /// Checks whether the bond watches its links. Without it the bond goes on giving packets to a NIC whose
    /// cable is out.
    fn link_watch(&self, tree: &Tree) -> Option<Finding> {
        let name = &self.nic.name;
        let setting = |file: &str| tree.number::<u32>(&format!("sys/class/net/{name}/bonding/{file}"));
        let (miimon, arp) = (setting("miimon")?, setting("arp_interval").unwrap_or(0));
        let found = if arp > 0 { format!("every {arp} ms by ARP") } else { format!("every {miimon} ms") };
        let finding = self.finding("link watch", found, "on, by link state");
        let advice = "a bond that does not look after its links sends into those that are lost";
        Some(
            finding
                .unless(miimon > 0 || arp > 0, Verdict::Warn, advice)
                .with_commands(vec![format!("ip link set {name} type bond miimon {MIIMON_MS}")]),
        )
    }

    /// Returns the commands and the text that make marked packets leave by the NIC of their mark. Marks that
    /// are free take their numbers from [`FIRST_MARK`] on.
    fn recipe(&self, marks: &[Option<u32>], network: &Network) -> (Vec<String>, String) {
        let bond = &self.nic.name;
        let mut commands = Vec::new();
        let hooked =
            network.qdiscs.iter().any(|qdisc| qdisc.ifindex == self.nic.ifindex && qdisc.kind == "clsact");
        if !hooked {
            commands.push(format!("tc qdisc add dev {bond} clsact"));
        }
        let mut free =
            (FIRST_MARK..).filter(|mark| !network.redirects.iter().any(|taken| taken.mark == *mark));
        let mut config = Vec::new();
        for (slave, mark) in self.slaves().zip(marks) {
            let name = &slave.name;
            let mark = mark.or_else(|| {
                let mark = free.next()?;
                commands.push(format!(
                    "tc filter replace dev {bond} egress protocol all prio {PRIORITY} handle {mark} fw \
                     action mirred egress redirect dev {name}"
                ));
                Some(mark)
            });
            config.push(format!("{name} = {}", mark.unwrap_or(FIRST_MARK)));
        }
        (commands, format!("[server]\negress_marks = {{ {} }}", config.join(", ")))
    }

    fn mark_of(&self, slave: &Nic, network: &Network) -> Option<u32> {
        let leads = |(ifindex, to)| (ifindex, to) == (self.nic.ifindex, slave.ifindex);
        let redirect = network.redirects.iter().find(|redirect| leads((redirect.ifindex, redirect.to)));
        redirect.map(|redirect| redirect.mark)
    }

    fn slaves(&self) -> impl Iterator<Item = &Nic> {
        self.nic.lower.iter().filter_map(|name| self.topology.nic(name))
    }

    fn finding(&self, what: &str, found: impl Into<String>, wanted: &str) -> Finding {
        Finding::new(Area::Nic, format!("{} {what}", self.nic.name), found, wanted)
    }
}

/// Returns the mode of a bond, such as `balance-xor` of `balance-xor 2`; `None` for an interface that is no
/// bond.
pub(super) fn mode(tree: &Tree, nic: &Nic) -> Option<String> {
    let mode = tree.text(&format!("sys/class/net/{}/bonding/mode", nic.name))?;
    mode.split_whitespace().next().map(str::to_owned)
}

/// Modes in which every slave may send with the bond's own hardware address at any time.
const STEERED_MODES: [&str; 2] = ["balance-xor", "802.3ad"];
const FIRST_MARK: u32 = 101;
/// Priority of the filters among those of the bond.
const PRIORITY: u32 = 100;
const MIIMON_MS: u32 = 100;
