//! smb-rs, a client with several channels that scripts use: its own program is in `interop/smb-rs`.

use std::process::Command;

use super::{PASSWORD, USER, said, serve};

/// Variable in which `cargo xtask interop smb-rs` names the program that it has built. Nothing else does:
/// that takes minutes.
const PROGRAM: &str = "LINERATE_SMB_RS";

/// Left out by name and said to be, not skipped: no machine lacks anything for it.
#[test]
#[ignore = "its client takes minutes to build: cargo xtask interop smb-rs"]
fn smb_rs_uses_four_channels() {
    let program = std::env::var_os(PROGRAM).expect("run it by `cargo xtask interop smb-rs`");
    serve("", |site| {
        let mut command = Command::new(program);
        command.args([&site.port.to_string(), USER, PASSWORD]);
        let (told, is_well) = said(&command.output().unwrap());
        assert!(is_well && told.matches(" bytes there and back over ").count() == 2, "{told}");
        let length = |name: &str| std::fs::metadata(site.in_tree(name)).unwrap().len();
        assert!(length("smb-rs-4") > 8 << 20);
        assert_eq!(length("smb-rs-4"), length("smb-rs-1"));
    });
}
