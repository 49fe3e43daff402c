//! interop: the same bytes over Rx, over TCP beside it and over HTTP; a stock cell, which has no such thing.

use std::io::Write;
use std::path::Path;

use serde_json::Value;
use testkit::netns::Namespace;
use testkit::stock_cell::StockCell;

use crate::support::site::Site;
use crate::support::{linerate, output, patterned, tool};

const MIB: usize = 1 << 20;

fn json(command: &mut std::process::Command) -> Value {
    serde_json::from_slice(&output(command)).expect("one JSON object")
}

fn sum(path: &Path) -> String {
    let told = output(tool("sha256sum", "coreutils").arg(path));
    String::from_utf8_lossy(&told).split(' ').next().unwrap().to_owned()
}

/// Bytes that say where they are, made once for what is long.
fn write(path: &Path, len: usize) {
    let (mut file, piece) = (std::fs::File::create(path).unwrap(), patterned(len.min(PIECE)));
    for at in (0..len).step_by(PIECE) {
        file.write_all(&piece[..(len - at).min(PIECE)]).unwrap();
    }
}

/// Not a power of two, so that pieces of files differ which begin at one.
const PIECE: usize = 4_000_037;

#[test]
fn files_have_the_same_sums_over_rx_over_tcp_and_over_http() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    let site = Site::new(&[], "");
    let text = "[http]\nlisten = ['127.0.0.1:0']\n[https]\nlisten = ['127.0.0.1:0']\n[admin]\nlisten = '127.0.0.1:0'\n\
                [afs]\nlisten = '127.0.0.1:7000'\n";
    std::fs::write(
        site.config(),
        format!("{text}[[volume]]\nname = 'files'\npath = 'root'\nwritable = 'anyone'\n"),
    )
    .unwrap();
    let server = site.start();
    let there = |name: &str| format!("afs://127.0.0.1/files/{name}");
    for (name, len) in
        [("one", 1), ("below", MIB - 1), ("at", MIB), ("long", 40 * MIB + 7), ("sparse", 0), ("gib", 1 << 30)]
    {
        let local = site.beside(name);
        write(&local, len);
        if name == "sparse" {
            std::fs::File::options().write(true).open(&local).unwrap().set_len(100 << 20).unwrap();
        }
        let expected = sum(&local);
        let moved = || {
            (
                server.counted("linerate_oob_fetched_bytes", ""),
                server.counted("linerate_oob_stored_bytes", ""),
            )
        };
        let length = std::fs::metadata(&local).unwrap().len();
        let over_tcp = if length >= MIB as u64 { length } else { 0 };
        // Up and down over TCP from the threshold on.
        let before = moved();
        json(linerate(["put", "--json"]).arg(&local).arg(there("")));
        assert_eq!(sum(&site.path(name)), expected, "{name} as it was stored");
        let back = site.beside("back");
        json(linerate(["get", "--json", "--overwrite", &there(name), "-o"]).arg(&back));
        assert_eq!(sum(&back), expected, "{name} as it was fetched");
        let after = moved();
        assert_eq!((after.0 - before.0, after.1 - before.1), (over_tcp, over_tcp), "{name}");
        // The same over Rx alone.
        json(linerate(["put", "--json", "--overwrite", "--oob-threshold", "0"]).arg(&local).arg(there("")));
        assert_eq!(sum(&site.path(name)), expected, "{name} as it was stored over Rx");
        json(
            linerate(["get", "--json", "--overwrite", "--oob-threshold", "0", &there(name), "-o"]).arg(&back),
        );
        assert_eq!(sum(&back), expected, "{name} as it was fetched over Rx");
        assert_eq!(moved(), after, "nothing over TCP");
        output(
            tool("curl", "curl")
                .args(["--silent", "--fail", "-o"])
                .arg(&back)
                .arg(server.url(&format!("/{name}"))),
        );
        assert_eq!(sum(&back), expected, "{name} as it was fetched over HTTP");
        for file in [local, back, site.path(name)] {
            std::fs::remove_file(file).unwrap();
        }
    }
}

#[test]
fn a_stock_cell_is_asked_in_vain_and_served_over_rx() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    let Some(_cell) = StockCell::start_or_skip() else { return };
    let home = tempfile::tempdir().unwrap();
    let (file, back) = (home.path().join("file"), home.path().join("back"));
    std::fs::write(&file, patterned(5 * MIB + 3)).unwrap();
    let there = format!("afs://{}/pub/file", StockCell::ADDRESS);
    json(linerate(["put", "--verify", "--json", "--oob-threshold", "1"]).arg(&file).arg(&there));
    json(linerate(["get", "--verify", "--json", "--oob-threshold", "1", &there, "-o"]).arg(&back));
    assert_eq!(sum(&back), sum(&file));
}
