//! Listing of a directory of an AFS cell.

use std::process::ExitCode;

use afs_client::directory::{self, Entry};
use afs_client::{Address, Error, FileType, Found, Metadata, TEXT_MAX, addressed, fetch};
use anyhow::Context;
use serde_json::{Value, json};

use super::{Args, time};
use crate::output::{json_line, keep_names, printable, say, table};

/// One line.
struct CellLine {
    name: Vec<u8>,
    fid: afs_wire::Fid,
    /// Status of the entry, or why it cannot be had.
    status: Result<Metadata, String>,
    /// Target of a link.
    target: Option<Vec<u8>>,
}

pub(super) fn run(args: &Args, address: &Address) -> anyhow::Result<ExitCode> {
    let told = address.clone();
    let lines = args.reach.run(address, None, async move |reached| {
        let found = reached.cell.find(&told.volume, &told.path, true).await?;
        lines(&found, told.name()).await.with_context(|| format!("cannot list {told}"))
    })?;
    let lines = lines.value;
    let unknown = lines.iter().any(|line| line.status.is_err());
    if args.json {
        lines.iter().for_each(|line| say!("{}", json_line(&as_json(line))));
    } else {
        print(&lines);
    }
    Ok(if unknown { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn lines(found: &Found, name: &[u8]) -> anyhow::Result<Vec<CellLine>> {
    if !found.metadata.is_directory() {
        let (name, status) = (name.to_vec(), Ok(found.metadata));
        return Ok(vec![CellLine { name, fid: found.fid, status, target: None }]);
    }
    let mut lines = Vec::new();
    for (Entry { name, fid }, status) in directory::list_status(&found.server, found.fid).await? {
        let mut status = status.map_err(|code| code.to_string());
        let kind = status.as_ref().ok().map(|metadata| metadata.kind);
        let target = match kind {
            Some(FileType::Link | FileType::MountPoint) => {
                match fetch::small(&found.server, fid, TEXT_MAX).await {
                    Ok(target) => Some(target),
                    Err(Error::Refused(code)) => {
                        status = Err(code.to_string());
                        None
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            _ => None,
        };
        lines.push(CellLine { name, fid, status, target });
    }
    Ok(lines)
}

fn print(lines: &[CellLine]) {
    let mut table = table(["mode", "links", "owner", "size", "modified", "version", "name"], &[1, 2, 3, 5]);
    for line in lines {
        let name = addressed(&line.name);
        let name = match (&line.target, &line.status) {
            (Some(target), _) => format!("{name} -> {}", printable(target)),
            (None, Err(reason)) => format!("{name}: {reason}"),
            (None, Ok(_)) => name,
        };
        match &line.status {
            Ok(metadata) => table.add_row([
                mode(metadata),
                metadata.links.to_string(),
                metadata.owner.to_string(),
                metadata.length.to_string(),
                time(metadata.modified.into()),
                metadata.data_version.to_string(),
                name,
            ]),
            Err(_) => table.add_row(["?", "", "", "", "", "", &name]),
        };
    }
    keep_names(&mut table, 6);
    say!("{table}");
}

fn as_json(line: &CellLine) -> Value {
    let mut value = json!({
        "name": String::from_utf8_lossy(&line.name), "path": addressed(&line.name),
        "volume": line.fid.volume, "vnode": line.fid.vnode, "uniquifier": line.fid.uniquifier,
    });
    match &line.status {
        Ok(metadata) => {
            value["type"] = json!(type_of(metadata.kind));
            value["size"] = json!(metadata.length);
            value["mode"] = json!(format!("{:04o}", metadata.mode));
            value["modified"] = json!(metadata.modified);
            value["data_version"] = json!(metadata.data_version);
            value["links"] = json!(metadata.links);
            value["owner"] = json!(metadata.owner);
            value["group"] = json!(metadata.group);
        }
        Err(reason) => value["error"] = json!(reason),
    }
    if let Some(target) = &line.target {
        value["target"] = json!(String::from_utf8_lossy(target));
    }
    value
}

fn type_of(kind: FileType) -> &'static str {
    match kind {
        FileType::File => "file",
        FileType::Directory => "directory",
        FileType::Link => "link",
        FileType::MountPoint => "mount point",
        FileType::Other(_) => "unknown",
    }
}

/// Formats type and permission bits as `ls -l` writes them; a mount point is an `m`.
fn mode(metadata: &Metadata) -> String {
    let kind = match metadata.kind {
        FileType::File => '-',
        FileType::Directory => 'd',
        FileType::Link => 'l',
        FileType::MountPoint => 'm',
        FileType::Other(_) => '?',
    };
    let bits = (0..9).map(|at| match metadata.mode >> (8 - at) & 1 {
        0 => '-',
        _ => ['r', 'w', 'x'][at % 3],
    });
    std::iter::once(kind).chain(bits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_and_names_are_shown_as_by_ls() {
        let status = afs_wire::Status { file_type: 2, unix_mode_bits: 0o750, ..afs_wire::Status::default() };
        assert_eq!(mode(&Metadata::of(&status)), "drwxr-x---");
        let status = afs_wire::Status { file_type: 3, unix_mode_bits: 0o644, ..status };
        assert_eq!(mode(&Metadata::of(&status)), "mrw-r--r--");
        assert_eq!(printable(b"a\x1b[31mb\n"), "a\\u{1b}[31mb\\n");
    }
}
