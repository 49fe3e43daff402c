//! State of a link: whether packets pass at this moment.

use std::path::Path;

use super::Tree;

/// Returns whether packets given to an interface leave it now and are taken at the other end. Its link is up
/// and, where it is a slave of a bond, the bond uses it, which it does later than the link comes up
/// (`miimon`, `updelay`, LACP). False for interfaces that do not exist. `root` holds `sys`.
pub fn carries(root: &Path, interface: &str) -> bool {
    let tree = Tree::new(root);
    let text = |file: &str| tree.text(&format!("sys/class/net/{interface}/{file}"));
    let up = matches!(text("operstate").as_deref(), Some("up" | "unknown"));
    // Bonds of other modes write N/A.
    let lacp = text("bonding_slave/ad_actor_oper_port_state").and_then(|state| state.parse::<u8>().ok());
    up && text("bonding_slave/mii_status").is_none_or(|status| status == "up")
        && lacp.is_none_or(|state| state & LACP_DISTRIBUTING != 0)
}

/// State bit of a port that sends what is given to the aggregation (IEEE 802.1AX 6.4.2.3,
/// Actor_Oper_Port_State).
const LACP_DISTRIBUTING: u8 = 0x20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slave_carries_once_its_link_is_up_and_its_bond_uses_it() {
        let root = tempfile::tempdir().unwrap();
        let nic = root.path().join("sys/class/net/eth0");
        assert!(!carries(root.path(), "eth0"), "it does not exist");
        std::fs::create_dir_all(nic.join("bonding_slave")).unwrap();
        for (operstate, status, expected) in
            [("up", "up", true), ("up", "going back", false), ("down", "up", false), ("down", "down", false)]
        {
            std::fs::write(nic.join("operstate"), format!("{operstate}\n")).unwrap();
            std::fs::write(nic.join("bonding_slave/mii_status"), format!("{status}\n")).unwrap();
            assert_eq!(carries(root.path(), "eth0"), expected, "{operstate}, {status}");
        }
        for (lacp, expected) in [("N/A", true), ("63", true), ("7", false)] {
            std::fs::write(nic.join("operstate"), "up\n").unwrap();
            std::fs::write(nic.join("bonding_slave/mii_status"), "up\n").unwrap();
            std::fs::write(nic.join("bonding_slave/ad_actor_oper_port_state"), format!("{lacp}\n")).unwrap();
            assert_eq!(carries(root.path(), "eth0"), expected, "LACP state {lacp}");
        }
        std::fs::remove_dir_all(nic.join("bonding_slave")).unwrap();
        std::fs::write(nic.join("operstate"), "unknown\n").unwrap();
        assert!(carries(root.path(), "eth0"), "an interface that keeps no state, in no bond");
    }
}
