//! Facts of the network that sysfs does not tell: addresses, routes, rules, queueing disciplines and filters,
//! asked of the kernel by rtnetlink(7).

use std::io;
use std::net::IpAddr;

use crate::netlink::{Attributes, NLM_F_DUMP, Netlink, u32_of};
use crate::socket::options::can_mark;
use crate::topology::{Napi, napis};

/// The network of a machine at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// NAPI instances of the NICs' queues; none before Linux 6.8.
    pub napis: Vec<Napi>,
    /// Addresses of interfaces, those of one link alone left out.
    pub addresses: Vec<Address>,
    /// Default routes of all tables.
    pub default_routes: Vec<DefaultRoute>,
    /// Rules that choose a table by a single source address.
    pub source_rules: Vec<SourceRule>,
    /// Queueing disciplines of every interface.
    pub qdiscs: Vec<Qdisc>,
    /// Filters that send marked packets out by another interface.
    pub redirects: Vec<Redirect>,
    /// True if this process may mark packets.
    pub may_mark: bool,
}

/// Address of an interface, with its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Index of the interface that has the address.
    pub ifindex: u32,
    /// Address of the interface in its network.
    pub ip: IpAddr,
    /// Bits of the address that stand for the network.
    pub prefix: u8,
}

/// Route for packets that no other route fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultRoute {
    /// Number of the table; 254 is the main one.
    pub table: u32,
    /// Index of the interface by which packets leave.
    pub ifindex: u32,
    /// Next hop, where there is one.
    pub gateway: Option<IpAddr>,
    /// Metric of the route; of several in a table that with the smallest is taken.
    pub metric: u32,
}

/// Rule `ip rule from SOURCE lookup TABLE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceRule {
    /// Source address of a packet.
    pub source: IpAddr,
    /// Table by which the packet is routed.
    pub table: u32,
}

/// Queueing discipline of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qdisc {
    /// Index of the interface whose packets are queued.
    pub ifindex: u32,
    /// True if the discipline is the root and not a class's or a hook.
    pub root: bool,
    /// Kind, such as `fq`.
    pub kind: String,
}

/// Filter `tc filter … egress handle MARK fw action mirred egress redirect dev TO`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// Index of the interface with the packets that are looked at.
    pub ifindex: u32,
    /// Mark of the packets that the rule is about.
    pub mark: u32,
    /// Index of the interface by which the packets leave.
    pub to: u32,
}

impl Network {
    /// Reads the state of this network namespace. What the kernel does not tell is left empty.
    pub fn of_this_machine() -> Self {
        let may_mark = can_mark().is_ok();
        let mut network = Self { napis: napis().unwrap_or_default(), may_mark, ..Self::default() };
        // Some sandboxes forbid netlink; then there is nothing to say about the network.
        if let Ok(kernel) = Netlink::route() {
            network.ask(kernel);
        }
        network
    }

    pub(super) fn addresses_of(&self, ifindex: u32) -> impl Iterator<Item = &Address> {
        self.addresses.iter().filter(move |address| address.ifindex == ifindex)
    }

    /// Asks the kernel for all tables; each question stands alone, as kernels are built without rules, or
    /// without filters.
    fn ask(&mut self, mut kernel: Netlink) {
        let _ = kernel.ask(RTM_GETADDR, NLM_F_DUMP, &[0; IFADDR_BYTES], |answer| {
            self.addresses.extend(Address::parse(answer));
        });
        let _ = kernel.ask(RTM_GETROUTE, NLM_F_DUMP, &[0; RT_BYTES], |answer| {
            self.default_routes.extend(DefaultRoute::parse(answer));
        });
        let _ = kernel.ask(RTM_GETRULE, NLM_F_DUMP, &[0; RT_BYTES], |answer| {
            self.source_rules.extend(SourceRule::parse(answer));
        });
        let _ = kernel.ask(RTM_GETQDISC, NLM_F_DUMP, &[0; TC_BYTES], |answer| {
            self.qdiscs.extend(Qdisc::parse(answer));
        });
        let hooked: Vec<u32> =
            self.qdiscs.iter().filter(|qdisc| qdisc.kind == "clsact").map(|qdisc| qdisc.ifindex).collect();
        for ifindex in hooked {
            let mut question = [0; TC_BYTES];
            question[4..8].copy_from_slice(&ifindex.to_ne_bytes());
            question[12..16].copy_from_slice(&CLSACT_EGRESS.to_ne_bytes());
            let _ = kernel.ask(RTM_GETTFILTER, NLM_F_DUMP, &question, |answer| {
                self.redirects.extend(Redirect::parse(answer));
            });
        }
    }
}

impl Address {
    /// Reads the addresses of this network namespace, as they are now, by a blocking question to the kernel.
    ///
    /// # Errors
    /// The kernel's, or that it does not answer.
    pub fn of_this_machine() -> io::Result<Vec<Self>> {
        let mut addresses = Vec::new();
        Netlink::route()?.ask(RTM_GETADDR, NLM_F_DUMP, &[0; IFADDR_BYTES], |answer| {
            addresses.extend(Self::parse(answer));
        })?;
        Ok(addresses)
    }

    /// Returns whether `ip` is in the network of this address.
    pub(super) fn reaches(&self, ip: IpAddr) -> bool {
        network_of(self.ip, self.prefix) == network_of(ip, self.prefix)
    }

    /// Returns the network's own address.
    pub(super) fn network(&self) -> IpAddr {
        network_of(self.ip, self.prefix)
    }

    /// Parses a struct ifaddrmsg: `u8 family, u8 prefix, u8 flags, u8 scope, u32 index`.
    fn parse(body: &[u8]) -> Option<Self> {
        let (prefix, scope) = (*body.get(1)?, *body.get(3)?);
        let attributes = Attributes::after(body, IFADDR_BYTES);
        // IPv6 has no local address beside the address; on point-to-point links of IPv4 the local one is ours.
        let ip = attributes.data(IFA_LOCAL).or_else(|| attributes.data(IFA_ADDRESS)).and_then(ip_of)?;
        let address = Self { ifindex: u32_of(body.get(4..8)?)?, ip, prefix };
        (scope == RT_SCOPE_UNIVERSE && !ip.is_loopback()).then_some(address)
    }
}

impl DefaultRoute {
    /// Parses a struct rtmsg: `u8 family, u8 dst_len, u8 src_len, u8 tos, u8 table, ..., u32 flags`.
    fn parse(body: &[u8]) -> Option<Self> {
        let attributes = Attributes::after(body, RT_BYTES);
        let number = |kind| attributes.data(kind).and_then(u32_of);
        let table = number(RTA_TABLE).unwrap_or(u32::from(*body.get(4)?));
        let gateway = attributes.data(RTA_GATEWAY).and_then(ip_of);
        (*body.get(1)? == 0 && *body.get(7)? == RTN_UNICAST).then_some(())?;
        let metric = number(RTA_PRIORITY).unwrap_or(0);
        Some(Self { table, ifindex: number(RTA_OIF)?, gateway, metric })
    }
}

impl SourceRule {
    /// Parses a struct fib_rule_hdr, which is like rtmsg with the action last before the flags.
    fn parse(body: &[u8]) -> Option<Self> {
        let attributes = Attributes::after(body, RT_BYTES);
        let source = attributes.data(FRA_SRC).and_then(ip_of)?;
        let table = attributes.data(FRA_TABLE).and_then(u32_of).unwrap_or(u32::from(*body.get(4)?));
        let whole = *body.get(2)? == if source.is_ipv4() { 32 } else { 128 };
        (whole && *body.get(7)? == FR_ACT_TO_TBL).then_some(Self { source, table })
    }
}

impl Qdisc {
    /// Parses a struct tcmsg: `u8 family, 3 of padding, i32 ifindex, u32 handle, u32 parent, u32 info`.
    fn parse(body: &[u8]) -> Option<Self> {
        let (ifindex, parent) = (u32_of(body.get(4..8)?)?, u32_of(body.get(12..16)?)?);
        let kind = text_of(Attributes::after(body, TC_BYTES).data(TCA_KIND)?)?;
        Some(Self { ifindex, root: parent == TC_H_ROOT, kind })
    }
}

impl Redirect {
    fn parse(body: &[u8]) -> Option<Self> {
        let (ifindex, mark) = (u32_of(body.get(4..8)?)?, u32_of(body.get(8..12)?)?);
        let attributes = Attributes::after(body, TC_BYTES);
        (text_of(attributes.data(TCA_KIND)?)? == "fw").then_some(())?;
        let actions = Attributes::after(attributes.data(TCA_OPTIONS)?, 0).data(TCA_FW_ACT)?;
        let redirect = |action: &[u8]| {
            let action = Attributes::after(action, 0);
            let options = Attributes::after(action.data(TCA_ACT_OPTIONS)?, 0);
            // struct tc_mirred: 20 bytes that all actions have, `i32 eaction, u32 ifindex`.
            let mirred = options.data(TCA_MIRRED_PARMS)?;
            let redirects = u32_of(mirred.get(20..24)?)? == TCA_EGRESS_REDIR;
            (text_of(action.data(TCA_ACT_KIND)?)? == "mirred" && redirects)
                .then_some(u32_of(mirred.get(24..28)?)?)
        };
        let to = Attributes::after(actions, 0).find_map(|(_, action)| redirect(action))?;
        Some(Self { ifindex, mark, to })
    }
}

fn network_of(ip: IpAddr, prefix: u8) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(prefix.into())).unwrap_or(0);
            IpAddr::V4((ip.to_bits() & mask).into())
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(prefix.into())).unwrap_or(0);
            IpAddr::V6((ip.to_bits() & mask).into())
        }
    }
}

fn ip_of(data: &[u8]) -> Option<IpAddr> {
    if let Ok(bytes) = <[u8; 4]>::try_from(data) {
        return Some(bytes.into());
    }
    <[u8; 16]>::try_from(data).ok().map(IpAddr::from)
}

fn text_of(data: &[u8]) -> Option<String> {
    let text = data.split(|&byte| byte == 0).next()?;
    Some(str::from_utf8(text).ok()?.to_owned())
}

// linux/rtnetlink.h, if_addr.h, fib_rules.h
const RTM_GETADDR: u16 = 22;
const RTM_GETROUTE: u16 = 26;
const RTM_GETRULE: u16 = 34;
const RTM_GETQDISC: u16 = 38;
const RTM_GETTFILTER: u16 = 46;
const IFADDR_BYTES: usize = 8;
const RT_BYTES: usize = 12;
const TC_BYTES: usize = 20;
const RT_SCOPE_UNIVERSE: u8 = 0;
const RTN_UNICAST: u8 = 1;
const FR_ACT_TO_TBL: u8 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_TABLE: u16 = 15;
const FRA_SRC: u16 = 2;
const FRA_TABLE: u16 = 15;
// linux/pkt_sched.h, pkt_cls.h, tc_act/tc_mirred.h
const TC_H_ROOT: u32 = u32::MAX;
const CLSACT_EGRESS: u32 = 0xffff_fff3;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_FW_ACT: u16 = 4;
const TCA_ACT_KIND: u16 = 1;
const TCA_ACT_OPTIONS: u16 = 2;
const TCA_MIRRED_PARMS: u16 = 2;
const TCA_EGRESS_REDIR: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::attribute;

    #[test]
    fn networks_are_compared_by_their_prefix() {
        let address = |ip: &str, prefix| Address { ifindex: 1, ip: ip.parse().unwrap(), prefix };
        let (four, six) = (address("10.1.2.3", 20), address("fd00:1::5", 64));
        assert_eq!(four.network().to_string(), "10.1.0.0");
        assert!(four.reaches("10.1.15.9".parse().unwrap()) && !four.reaches("10.1.16.1".parse().unwrap()));
        assert_eq!(six.network().to_string(), "fd00:1::");
        assert!(!six.reaches("10.1.2.3".parse().unwrap()));
        assert_eq!(address("10.1.2.3", 0).network().to_string(), "0.0.0.0");
        assert_eq!(address("10.1.2.3", 32).network().to_string(), "10.1.2.3");
    }

    #[test]
    fn filter_that_redirects_a_mark_is_read_and_truncated_ones_are_not() {
        let mut mirred = [0; 28];
        mirred[20] = TCA_EGRESS_REDIR as u8;
        mirred[24] = 9;
        let options = attribute(TCA_ACT_OPTIONS, &attribute(TCA_MIRRED_PARMS, &mirred));
        let action = [attribute(TCA_ACT_KIND, b"mirred\0"), options].concat();
        let filter = attribute(TCA_OPTIONS, &attribute(TCA_FW_ACT, &attribute(1, &action)));
        let mut header = [0; TC_BYTES];
        (header[4], header[8]) = (3, 101);
        let body = [&header[..], &attribute(TCA_KIND, b"fw\0"), &filter].concat();
        assert_eq!(Redirect::parse(&body), Some(Redirect { ifindex: 3, mark: 101, to: 9 }));
        for length in 0..body.len() {
            assert_eq!(Redirect::parse(&body[..length]), None, "{length} bytes");
        }
    }

    #[test]
    fn running_kernel_tells_qdiscs_of_interfaces_that_exist() {
        let network = Network::of_this_machine();
        for qdisc in &network.qdiscs {
            assert!(qdisc.ifindex > 0 && !qdisc.kind.is_empty(), "{qdisc:?}");
        }
    }
}
