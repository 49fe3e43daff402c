//! impacket, whose messages are its own.

use std::process::Command;

use super::{PASSWORD, Site, USER, said};

pub(crate) fn uses_the_tree(site: &Site) {
    let is_here = Command::new("/usr/bin/python3").args(["-c", "import impacket"]).output();
    if !is_here.is_ok_and(|output| output.status.success()) {
        testkit::skip("the Debian package python3-impacket is not installed; `cargo xtask test` installs it");
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/tree.py");
    let mut command = Command::new("/usr/bin/python3");
    command.args([script, &site.port.to_string(), USER, PASSWORD]).current_dir(site.directory.path());
    let (told, is_well) = said(&command.output().unwrap());
    assert!(is_well, "{told}");
    assert_eq!(std::fs::read(site.in_tree("left")).unwrap(), b"left by impacket");
}
