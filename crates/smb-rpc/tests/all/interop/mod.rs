//! impacket over TCP, where DCE/RPC is the same stream of fragments: whether what is answered here is what others read.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use smb_rpc::Pipe;

use crate::pipes::world::World;

/// Serves a pipe to each that connects, until the process ends.
fn serve(name: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            std::thread::spawn(move || serve_one(stream, name));
        }
    });
    port.to_string()
}

fn serve_one(mut stream: TcpStream, name: &str) {
    let world = World::new("root");
    let mut pipe = Pipe::open(name).unwrap();
    let mut bytes = [0; 3];
    // Three bytes at a time: fragments are put together.
    while let Ok(len @ 1..) = stream.read(&mut bytes) {
        let is_broken = pipe.write(&bytes[..len], &world.facts()).is_err();
        while let Some(Ok(answer)) = pipe.read(1000) {
            if stream.write_all(&answer.data).is_err() {
                return;
            }
        }
        if is_broken {
            return;
        }
    }
}

#[test]
fn impacket_reads_what_is_answered() {
    let is_here = Command::new("/usr/bin/python3").args(["-c", "import impacket"]).output();
    if !is_here.is_ok_and(|output| output.status.success()) {
        testkit::skip("the Debian package python3-impacket is not installed; `cargo xtask test` installs it");
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/interop/asks.py");
    let output = Command::new("/usr/bin/python3")
        .arg(script)
        .args(["srvsvc", "wkssvc", "lsarpc"].map(serve))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
