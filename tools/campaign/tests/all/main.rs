//! The cases that the campaign has kept, and those in which it once found something, once more.

use std::path::PathBuf;
use std::time::Duration;

use campaign::case::{Bounds, Protocol, run};
use campaign::{corpus, log};

#[global_allocator]
static ALLOCATOR: lane::memory::Counting = lane::memory::Counting;

fn replay(protocol: Protocol, what: &str) {
    log::listen();
    // This is built without much optimisation.
    let bounds = Bounds { turn: Duration::from_millis(400), ..Bounds::default() };
    // The first case makes what a process makes once.
    run(protocol, &[], &bounds);
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(what).join(protocol.name());
    for (name, input) in corpus::load(&directory).unwrap() {
        let seen = run(protocol, &input, &bounds);
        let path = directory.join(&name);
        let again = format!("campaign --protocol {} --replay {}", protocol.name(), path.display());
        assert!(seen.findings.is_empty(), "{:?}; repeat: {again}", seen.findings);
    }
}

#[test]
fn no_kept_case_of_smb_finds_anything() {
    replay(Protocol::Smb, "corpus");
}

#[test]
fn no_kept_case_of_afs_finds_anything() {
    replay(Protocol::Afs, "corpus");
}

#[test]
fn what_was_found_of_smb_is_mended() {
    replay(Protocol::Smb, "regressions");
}

#[test]
fn what_was_found_of_afs_is_mended() {
    replay(Protocol::Afs, "regressions");
}
