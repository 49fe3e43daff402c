//! The program as a user meets it.

use std::process::Command;

#[test]
fn every_load_says_what_it_measures() {
    for load in ["http", "afs", "callbacks", "oob", "smb", "rx", "rx-server", "udp", "tcp", "tcp-server"] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_linerate-bench")).args([load, "--help"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && text.contains(&format!("Usage: linerate bench {load}")),
            "{load}: {text}"
        );
    }
}
