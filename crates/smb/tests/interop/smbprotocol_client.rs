//! smbprotocol, whose high-level part does what programs do with files.

use std::process::Command;

use super::{PASSWORD, Site, USER, made, said};

pub(crate) fn uses_the_tree(site: &Site) {
    let python = made("python/bin/python3");
    let is_here = Command::new(&python).args(["-c", "import smbprotocol"]).output();
    if !is_here.is_ok_and(|output| output.status.success()) {
        testkit::skip("smbprotocol is not installed; `cargo xtask test` installs it");
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/smbprotocol_client.py");
    let mut command = Command::new(python);
    command.args([script, &site.port.to_string(), USER, PASSWORD]).arg(site.in_tree(""));
    let (told, is_well) = said(&command.current_dir(site.directory.path()).output().unwrap());
    assert!(is_well, "{told}");
}
