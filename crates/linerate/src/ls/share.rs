//! Listing of a directory of an SMB share.

use std::process::ExitCode;

use anyhow::{Context, bail};
use serde_json::json;
use smb_client::Address;
use smb_wire::create::access::attributes;
use smb_wire::time::to_unix;

use super::{Args, time};
use crate::output::{json_line, keep_names, printable, say, table};
use crate::smb::There;

/// One line.
struct ShareLine {
    name: String,
    length: u64,
    /// 100 ns since 1601.
    written: u64,
    attributes: u32,
}

pub(super) fn run(args: &Args, address: &Address) -> anyhow::Result<ExitCode> {
    let told = address.clone();
    let lines = args.share.run(address, async move |reached| {
        let path = told.name();
        Ok(match reached.look(&path).await? {
            There::Nothing => bail!("{told}: no such file or directory"),
            There::File { length, written, attributes } => {
                let name = told.path.last().cloned().unwrap_or_default();
                vec![ShareLine { name, length, written, attributes }]
            }
            There::Directory => {
                let mut names =
                    reached.tree.names(&path).await.with_context(|| format!("cannot list {told}"))?;
                names.sort_by(|one, other| one.name.cmp(&other.name));
                let line = |listed: smb_client::ListEntry| ShareLine {
                    name: listed.name,
                    length: listed.length,
                    written: listed.written,
                    attributes: listed.attributes,
                };
                names.into_iter().map(line).collect()
            }
        })
    })?;
    if args.json {
        lines.value.iter().for_each(|line| say!("{}", json_line(&as_json(line))));
    } else {
        print(&lines.value);
    }
    Ok(ExitCode::SUCCESS)
}

fn print(lines: &[ShareLine]) {
    let mut table = table(["attributes", "size", "modified", "name"], &[1]);
    for line in lines {
        let (seconds, _) = to_unix(line.written);
        let name = printable(line.name.as_bytes());
        table.add_row([letters(line.attributes), line.length.to_string(), time(seconds), name]);
    }
    keep_names(&mut table, 3);
    say!("{table}");
}

fn as_json(line: &ShareLine) -> serde_json::Value {
    json!({
        "name": line.name,
        "type": kind(line.attributes),
        "size": line.length,
        "modified": to_unix(line.written).0,
        "attributes": letters(line.attributes),
    })
}

fn kind(bits: u32) -> &'static str {
    match bits {
        reparse if reparse & attributes::REPARSE_POINT != 0 => "reparse point",
        directory if directory & attributes::DIRECTORY != 0 => "directory",
        _ => "file",
    }
}

/// Formats the attributes by their letters, as DOS has them; `-` where there are none.
fn letters(bits: u32) -> String {
    let has = LETTERS.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, letter)| letter);
    let letters: String = has.collect();
    if letters.is_empty() { "-".to_owned() } else { letters }
}

const LETTERS: [(u32, char); 6] = [
    (attributes::DIRECTORY, 'D'),
    (attributes::REPARSE_POINT, 'L'),
    (attributes::READONLY, 'R'),
    (attributes::HIDDEN, 'H'),
    (attributes::SYSTEM, 'S'),
    (attributes::ARCHIVE, 'A'),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_told_by_letters() {
        assert_eq!(letters(attributes::DIRECTORY | attributes::HIDDEN), "DH");
        assert_eq!(letters(0x80), "-");
        assert_eq!(
            (kind(attributes::DIRECTORY), kind(0x20), letters(0x21).as_str()),
            ("directory", "file", "RA")
        );
    }
}
