//! The volumes of an AFS cell, as its location service tells them.

use std::process::ExitCode;

use afs_client::{Address, Listed};
use anyhow::Context;
use serde_json::{Value, json};

use super::Args;
use crate::output::{json_line, keep_names, printable, say, table};

pub(super) fn run(args: &Args, address: &Address) -> anyhow::Result<ExitCode> {
    let told = address.clone();
    let listed = args.reach.run(address, None, async move |reached| {
        let listed = reached.cell.volumes().await;
        listed.with_context(|| format!("cannot list the volumes of {told}; {told}VOLUME lists one of them"))
    })?;
    let mut listed = listed.value;
    listed.sort_by(|one, other| one.name.cmp(&other.name));
    if args.json {
        listed.iter().for_each(|volume| say!("{}", json_line(&as_json(volume))));
    } else {
        print(&listed);
    }
    Ok(ExitCode::SUCCESS)
}

fn print(listed: &[Listed]) {
    let mut table = table(["volume", "read-only", "backup", "hosts", "name"], &[0, 1, 2]);
    let number = |id: Option<u32>| id.map_or_else(|| "-".to_owned(), |id| id.to_string());
    for volume in listed {
        let hosts: Vec<_> = volume.hosts.iter().map(ToString::to_string).collect();
        table.add_row([
            number(volume.read_write),
            number(volume.read_only),
            number(volume.backup),
            hosts.join(" "),
            printable(volume.name.as_bytes()),
        ]);
    }
    keep_names(&mut table, 4);
    say!("{table}");
}

fn as_json(volume: &Listed) -> Value {
    json!({
        "name": volume.name,
        "type": "volume",
        "volume": volume.read_write,
        "read_only": volume.read_only,
        "backup": volume.backup,
        "hosts": volume.hosts,
    })
}
