//! `smbclient`: whole sessions of its own commands.

use std::fs;
use std::process::Command;

use super::{PASSWORD, Site, USER, said};

/// Has smbclient do `commands` in the share, with more flags.
fn run(site: &Site, flags: &[&str], commands: &str) -> (String, bool) {
    let mut command = site.client("smbclient", &format!("{USER}%{PASSWORD}"));
    said(&command.args(flags).args(["-c", commands, "//127.0.0.1/tree"]).output().unwrap())
}

/// Has it do them, and nothing may be refused.
fn done(site: &Site, flags: &[&str], commands: &str) -> String {
    let (told, is_well) = run(site, flags, commands);
    assert!(is_well && !told.contains("NT_STATUS"), "{flags:?} {commands}: {told}");
    told
}

pub(crate) fn sign_in(site: &Site) {
    for who in ["anne%wrong", "nobody%Secret007", "%"] {
        let mut command: Command = site.client("smbclient", who);
        let (told, is_well) = said(&command.args(["-c", "ls", "//127.0.0.1/tree"]).output().unwrap());
        let is_refused = told.contains("NT_STATUS_LOGON_FAILURE") || told.contains("NT_STATUS_ACCESS_DENIED");
        assert!(!is_well && is_refused, "{who}: {told}");
    }
    let (told, is_well) = {
        let mut command = site.client("smbclient", &format!("{USER}%{PASSWORD}"));
        said(&command.args(["-c", "ls", "//127.0.0.1/nowhere"]).output().unwrap())
    };
    assert!(!is_well && told.contains("NT_STATUS_BAD_NETWORK_NAME"), "{told}");
}

/// By every dialect, signed or not, sealed or not, files are stored.
pub(crate) fn stores(site: &Site) {
    let bytes: Vec<u8> = (0..9_000_001u32).map(|at| (at * 31 + at / 253) as u8).collect();
    fs::write(site.beside("large"), &bytes).unwrap();
    fs::write(site.beside("small"), "small").unwrap();
    fs::write(site.beside("empty"), "").unwrap();
    for way in WAYS {
        done(site, way, "put large; put small; put empty; mkdir sub; cd sub; put small other");
        assert!(fs::read(site.in_tree("large")).unwrap() == bytes, "{way:?}");
        assert_eq!(fs::read(site.in_tree("small")).unwrap(), b"small");
        assert_eq!(fs::read(site.in_tree("empty")).unwrap(), b"");
        assert_eq!(fs::read(site.in_tree("sub/other")).unwrap(), b"small");
        fs::remove_dir_all(site.in_tree("sub")).unwrap();
        for name in ["large", "small", "empty"] {
            fs::remove_file(site.in_tree(name)).unwrap();
        }
    }
}

const WAYS: [&[&str]; 8] = [
    &["-m", "SMB2_02"],
    &["-m", "SMB2_10"],
    &["-m", "SMB3_00"],
    &["-m", "SMB3_02"],
    &["-m", "SMB3_11"],
    &["-m", "SMB3_11", "--option=client signing=off"],
    &["-m", "SMB3_11", "--option=client signing=required"],
    &["-m", "SMB3_11", "--client-protection=encrypt"],
];
