//! The rows: what is done, and what Linerate has to reach there beside smbd.

use crate::compare::turns::Bar;

/// A load, and its bars.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) bar: Bar,
    pub(super) client: Client,
}

/// The client that makes the load.
#[derive(Clone, Copy)]
pub(super) enum Client {
    /// `linerate bench smb` with these flags, on a name of the tree; each request moves so many bytes of files.
    Bench { flags: &'static [&'static str], name: &'static str, bytes: u64, connections: &'static str },
    /// smbclient gets the large file.
    Get,
    /// The client puts the file.
    Put,
}

/// Returns all rows.
pub(super) fn all() -> impl Iterator<Item = Row> {
    let bench = |load, bars: (f64, f64), connections, name, bytes, flags| Row {
        bar: Bar { load, throughput_least: Some(bars.0), cpu_most: Some(bars.1) },
        client: Client::Bench { flags, name, bytes, connections },
    };
    let read = |load, least, connections, flags| bench(load, (least, 0.5), connections, FILE, 1 << 20, flags);
    let beside = |load, client| Row { bar: Bar { load, throughput_least: None, cpu_most: None }, client };
    [
        read("read 1 MiB, 1 connection", 1.0, "1", READ),
        read("read 1 MiB, 4 connections", 1.3, "4", READ),
        read("read 1 MiB, 16 connections", 1.5, "16", READ),
        read("read 1 MiB signed, 1 connection", 1.5, "1", READ_SIGNED),
        read("read 1 MiB signed, 4 connections", 1.5, "4", READ_SIGNED),
        read("read 1 MiB signed, 16 connections", 1.5, "16", READ_SIGNED),
        read("read 1 MiB encrypted, 1 connection", 1.5, "1", READ_SEALED),
        read("read 1 MiB encrypted, 4 connections", 1.5, "4", READ_SEALED),
        read("read 1 MiB encrypted, 16 connections", 1.5, "16", READ_SEALED),
        bench("write 1 MiB, 1 connection", (1.2, 0.6), "1", WRITTEN, 1 << 20, WRITE),
        bench("write 1 MiB, 16 connections", (1.2, 0.6), "16", WRITTEN, 1 << 20, WRITE),
        bench("random read 4 KiB, 16 connections", (3.0, 0.35), "16", FILE, 4 << 10, RANDOM),
        bench("open and close, 16 connections", (4.0, 0.25), "16", SMALL, 0, OPEN),
        beside("smbclient get", Client::Get),
        beside("smbclient put", Client::Put),
        channels("read 1 MiB, 4 channels", (1.5, 0.5), FILE, CHANNELS),
        channels("read 1 MiB signed, 4 channels", (2.0, 0.5), FILE, CHANNELS_SIGNED),
        channels("read 1 MiB encrypted, 4 channels", (2.0, 0.5), FILE, CHANNELS_SEALED),
        channels("write 1 MiB, 4 channels", (1.5, 1.0), WRITTEN, CHANNELS_WRITE),
    ]
    .into_iter()
}

fn channels(load: &'static str, bars: (f64, f64), name: &'static str, flags: &'static [&'static str]) -> Row {
    Row {
        bar: Bar { load, throughput_least: Some(bars.0), cpu_most: Some(bars.1) },
        client: Client::Bench { flags, name, bytes: 1 << 20, connections: "1" },
    }
}

impl Row {
    /// Returns whether one session has several connections.
    pub(super) fn is_multichannel(&self) -> bool {
        matches!(self.client, Client::Bench { flags, .. } if flags.contains(&"--channels"))
    }
}

const READ: &[&str] = &["--mode", "read", "--size", "1M", "--depth", "4"];
const READ_SIGNED: &[&str] = &["--mode", "read", "--size", "1M", "--depth", "4", "--sign"];
const READ_SEALED: &[&str] = &["--mode", "read", "--size", "1M", "--depth", "4", "--seal"];
const WRITE: &[&str] = &["--mode", "write", "--size", "1M", "--depth", "4", "--file-size", "16M"];
const RANDOM: &[&str] = &["--mode", "random", "--size", "4K", "--depth", "32"];
const OPEN: &[&str] = &["--mode", "open-close", "--depth", "4"];
const CHANNELS: &[&str] = &["--mode", "read", "--size", "1M", "--depth", "4", "--channels", "4"];
const CHANNELS_SIGNED: &[&str] =
    &["--mode", "read", "--size", "1M", "--depth", "4", "--channels", "4", "--sign"];
const CHANNELS_SEALED: &[&str] =
    &["--mode", "read", "--size", "1M", "--depth", "4", "--channels", "4", "--seal"];
const CHANNELS_WRITE: &[&str] =
    &["--mode", "write", "--size", "1M", "--depth", "4", "--file-size", "16M", "--channels", "4"];

/// File in the tree.
pub(super) const FILE: &str = "big";
pub(super) const FILE_BYTES: u64 = 2 << 30;
pub(super) const SMALL: &str = "small";
pub(super) const WRITTEN: &str = "written";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_names_of_their_own_and_those_of_channels_are_told_apart() {
        let names: std::collections::BTreeSet<_> = all().map(|row| row.bar.load).collect();
        assert_eq!(names.len(), all().count());
        assert_eq!(all().filter(Row::is_multichannel).count(), 4);
    }
}
