//! A stock AFS cell and Linerate beside each other in one guest, each in a network namespace of its own, to be used in the same way.

use std::fs;
use std::path::Path;

use anyhow::Context;
use testkit::stock_cell::StockCell;

use crate::lab::guest::net::{self, Namespace};
use crate::lab::guest::server::Server;
use crate::lab::guest::{Guest, modprobe};

/// A cell with a volume that every user writes to.
pub(super) struct Site {
    pub(super) name: &'static str,
    pub(super) address: &'static str,
    pub(super) cell: &'static str,
    pub(super) volume: &'static str,
    /// The guest's end of the way to it.
    pub(super) device: &'static str,
}

pub(super) const STOCK: Site = Site {
    name: "dafileserver",
    address: "10.79.0.1",
    cell: "test.local",
    volume: "pub",
    device: StockCell::OUTSIDE,
};
pub(super) const OURS: Site =
    Site { name: "Linerate", address: "10.80.0.1", cell: "linerate.test", volume: "tree", device: "ours1" };

/// Both servers; they end with this value.
pub(super) struct Sites {
    _ours: Server,
    _stock: StockCell,
}

impl Sites {
    /// Starts both. The guest forwards between all that join it.
    pub(super) fn start(guest: &mut Guest) -> anyhow::Result<Self> {
        modprobe(&["veth"])?;
        fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
        for limit in ["rmem_max", "wmem_max"] {
            fs::write(Path::new("/proc/sys/net/core").join(limit), "67108864")?;
        }
        // Stock daemons do not start on a host whose name has no address.
        fs::write("/proc/sys/kernel/hostname", "localhost")?;
        let ours = Namespace::new("ours")?;
        join(ours, "ours", 80)?;
        fs::create_dir_all(TREE)?;
        let server = guest.serve_as(ours.command(guest.linerate().get_program()), &config(), &[])?;
        let stock = Namespace::new("stock")?;
        let cell = stock.within(|| StockCell::with_flags(FLAGS).context("there is no stock cell here"))?;
        stock.ip(&format!("link set {} netns 1", StockCell::OUTSIDE))?;
        lead_out(stock, "cell0", StockCell::OUTSIDE, 79)?;
        guest.note("both servers run")?;
        Ok(Self { _ours: server, _stock: cell })
    }
}

/// Joins a namespace to the guest, which is the way to all others: 10.NET.0.1 by the device NAME1.
pub(super) fn join(namespace: Namespace, name: &str, net: u8) -> anyhow::Result<()> {
    let (near, far) = (format!("{name}0"), format!("{name}1"));
    net::ip(&format!("link add {far} type veth peer name {near} netns {name}"))?;
    namespace.ip(&format!("addr add 10.{net}.0.1/24 dev {near}"))?;
    namespace.ip(&format!("link set {near} up"))?;
    lead_out(namespace, &near, &far, net)
}

/// Packets leave the namespace as they are to travel, none larger: what a queue in the guest loses is one packet.
fn lead_out(namespace: Namespace, near: &str, far: &str, net: u8) -> anyhow::Result<()> {
    net::set_up(far, &format!("10.{net}.0.254/24"))?;
    namespace.ip(&format!("link set {near} gso_max_segs 1"))?;
    namespace.ip(&format!("route add default via 10.{net}.0.254"))?;
    Ok(())
}

fn config() -> String {
    let Site { address, cell, volume, .. } = OURS;
    format!(
        "[server]\nstate_dir = \"/tmp/state\"\n[http]\nlisten = []\n[https]\nlisten = []\n\
         [afs]\nlisten = \"{address}:7000\"\ncell = \"{cell}\"\n\
         [[volume]]\nname = \"{volume}\"\npath = \"{TREE}\"\nwritable = \"anyone\"\n"
    )
}

pub(super) const PACKAGES: &[&str] =
    &["openafs-fileserver", "openafs-dbserver", "openafs-client", "openssl", "gcc", "libc6-dev"];
const TREE: &str = "/tmp/tree";
const FLAGS: &str = "-L -p 32 -udpsize 16777216 -nojumbo";
