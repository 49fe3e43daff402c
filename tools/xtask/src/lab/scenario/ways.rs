//! Cost of the ways between page cache and socket on the guest's kernel, over a card that takes pages as they
//! lie: where a zero-copy send saves a copy, which over loopback and veth it does not.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use super::Scenario;
use crate::compare::ways::{Program, start_peer};
use crate::lab::guest::Guest;
use crate::lab::guest::net::{self, Namespace};
use crate::lab::machine::Machine;
use crate::process;

pub(crate) struct Ways;

impl Scenario for Ways {
    fn name(&self) -> &'static str {
        "ways"
    }

    fn about(&self) -> &'static str {
        "what 1 MiB between page cache and socket costs in each way that this kernel has, over loopback and over a card"
    }

    fn packages(&self) -> &'static [&'static str] {
        &["gcc", "libc6-dev"]
    }

    fn machines(&self) -> Vec<Machine> {
        let two_nodes = Machine::two_nodes();
        let nics = two_nodes.nics.into_iter().filter(|nic| nic.wire == "w0").collect();
        vec![Machine { nodes: 1, nics, ..two_nodes }]
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(1200)
    }

    fn run(&self, guest: &mut Guest) -> anyhow::Result<()> {
        std::fs::create_dir_all(DIR)?;
        process::output("mount", &["-t", "tmpfs", "ways", DIR])?;
        let program = Program::compile(Path::new(DIR))?;
        measure(guest, &program, Command::new(program.path()), ("loopback", Ipv4Addr::LOCALHOST))?;
        net::set_up("n0", "10.74.0.1/24")?;
        let clients = Namespace::new("clients")?;
        clients.take("c0", "10.74.0.2/24")?;
        measure(
            guest,
            &program,
            clients.command(program.path()),
            ("a virtio card", Ipv4Addr::new(10, 74, 0, 2)),
        )
    }
}

/// Figures against the first way of their direction: an emulated processor's own say nothing.
fn measure(
    guest: &mut Guest,
    program: &Program,
    peer: Command,
    (link, ip): (&str, Ipv4Addr),
) -> anyhow::Result<()> {
    let address = SocketAddrV4::new(ip, 7999);
    let _peer = start_peer(peer, address)?;
    for way in program.measure(address, MESSAGES, ROUNDS).with_context(|| format!("over {link}"))? {
        let what = format!("{link}: {}", way.load);
        match (way.ratio_cpu, way.lacks) {
            (Some(ratio), None) => guest.figure(&what, ratio, "of the first")?,
            (_, why) => {
                guest.note(format!("{what}: the kernel does not have it ({})", why.unwrap_or_default()))?
            }
        }
    }
    Ok(())
}

const DIR: &str = "/run/ways";
/// Number of messages that an emulated processor gets through in minutes.
const MESSAGES: u32 = 24;
const ROUNDS: u32 = 5;
