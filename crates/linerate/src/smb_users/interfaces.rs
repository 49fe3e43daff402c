//! `linerate smb interfaces`: by which addresses a server has its clients make more connections.

use std::process::ExitCode;

use anyhow::Context;
use serde_json::json;
use smb_client::Address;
use smb_wire::fsctl::interfaces::{Interface, RSS_CAPABLE};
use smb_wire::negotiate::capabilities::MULTI_CHANNEL;

use crate::output::{bit_rate, say, table};
use crate::smb::Reach;
use crate::transfer_cmd::ended;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A share of the server, whichever, such as smb://alice@10.0.0.1/files
    address: Address,
    /// JSON for scripts
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reach: Reach,
}

/// The interfaces that a server lists.
struct InterfaceList {
    interfaces: Vec<Interface>,
    /// Sessions may have several connections.
    has_channels: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let told = args.address.to_string();
    let done = args.reach.run(&args.address, async move |reached| {
        let asked = reached.tree.interfaces().await;
        let interfaces = asked.with_context(|| format!("{told}: it does not tell its interfaces"))?;
        let negotiated = reached.tree.channel().connection().negotiated();
        Ok(InterfaceList { interfaces, has_channels: negotiated.capabilities & MULTI_CHANNEL != 0 })
    });
    let told = match done {
        Ok(done) => done.value,
        Err(error) => return ended(Err(error)),
    };
    if args.json {
        let interfaces: Vec<_> = told.interfaces.iter().map(as_json).collect();
        let all = json!({ "multichannel": told.has_channels, "interfaces": interfaces });
        say!("{}", serde_json::to_string_pretty(&all)?);
    } else {
        print(&told);
    }
    Ok(ExitCode::SUCCESS)
}

fn print(told: &InterfaceList) {
    let mut table = table(["Interface", "Speed", "RSS", "RDMA", "Address"], &[0, 1]);
    let or_no = |is_so: bool| if is_so { "yes" } else { "no" }.to_owned();
    for interface in &told.interfaces {
        table.add_row([
            interface.index.to_string(),
            bit_rate(interface.link_speed as f64),
            or_no(interface.capability & RSS_CAPABLE != 0),
            or_no(interface.capability & RDMA_CAPABLE != 0),
            interface.address.to_string(),
        ]);
    }
    say!("{table}");
    if !told.has_channels {
        say!("\nA session has one connection all the same: the server agrees on no more.");
    }
}

fn as_json(interface: &Interface) -> serde_json::Value {
    json!({
        "index": interface.index,
        "bits_per_second": interface.link_speed,
        "rss": interface.capability & RSS_CAPABLE != 0,
        "rdma": interface.capability & RDMA_CAPABLE != 0,
        "address": interface.address,
    })
}

/// Bit of `Capability` (MS-SMB2 2.2.32.5): SMB Direct, which ours does not have.
const RDMA_CAPABLE: u32 = 2;
