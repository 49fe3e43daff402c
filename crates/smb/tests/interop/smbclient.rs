//! `smbclient`: whole sessions of its own commands.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
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
    // It signs where the server says so, whatever it was told.
    done(site, &["--option=client signing=off"], "ls");
}

/// By every dialect, signed and sealed.
pub(crate) const SIGNED: [&[&str]; 7] = [
    &["-m", "SMB2_02"],
    &["-m", "SMB2_10"],
    &["-m", "SMB3_00"],
    &["-m", "SMB3_02"],
    &["-m", "SMB3_11"],
    &["-m", "SMB3_11", "--option=client signing=required"],
    &["-m", "SMB3_11", "--client-protection=encrypt"],
];

/// Neither.
pub(crate) const UNSIGNED: [&[&str]; 2] =
    [&["-m", "SMB2_10", "--option=client signing=off"], &["-m", "SMB3_11", "--option=client signing=off"]];

/// In each of these ways files go there and back.
pub(crate) fn transfers(site: &Site, ways: &[&[&str]]) {
    let bytes: Vec<u8> = (0..9_000_001u32).map(|at| (at * 31 + at / 253) as u8).collect();
    fs::write(site.beside("large"), &bytes).unwrap();
    fs::write(site.beside("small"), "small").unwrap();
    fs::write(site.beside("empty"), "").unwrap();
    for way in ways {
        let beside = site.directory.path();
        done(site, way, "put large; put small; put empty; mkdir sub; cd sub; put small other; cd ..");
        assert!(fs::read(site.in_tree("large")).unwrap() == bytes, "{way:?}");
        let list = done(site, way, "ls");
        assert!(list.contains("9000001") && list.contains("sub"), "{way:?}: {list}");
        done(site, way, "get large large.back; get small small.back; get empty empty.back");
        assert!(fs::read(beside.join("large.back")).unwrap() == bytes, "{way:?}");
        assert_eq!(fs::read(beside.join("small.back")).unwrap(), b"small");
        assert_eq!(fs::read(beside.join("empty.back")).unwrap(), b"");
        fs::create_dir(beside.join("fetched")).unwrap();
        done(site, way, "lcd fetched; prompt off; recurse on; mget *");
        assert_eq!(fs::read(beside.join("fetched/sub/other")).unwrap(), b"small", "{way:?}");
        assert!(fs::read(beside.join("fetched/large")).unwrap() == bytes, "{way:?}");
        fs::remove_dir_all(beside.join("fetched")).unwrap();
        done(site, way, "rename small sub/renamed; del large; del empty; deltree sub");
        assert_eq!(fs::read_dir(site.in_tree("")).unwrap().count(), 0, "{way:?}");
    }
    let (told, _) = run(site, &[], "get none; rmdir none; cd none; put small a*b");
    for status in ["NT_STATUS_OBJECT_NAME_NOT_FOUND", "NT_STATUS_OBJECT_NAME_INVALID"] {
        assert!(told.contains(status), "{told}");
    }
}

/// A directory whose names are no UTF-8 is listed, emptied and deleted.
/// What has the name of a symbolic link is the link: what it leads to stays, as beside smbd.
pub(crate) fn names_of_links(site: &Site) {
    let make = |name: &str, target: &str| std::os::unix::fs::symlink(target, site.in_tree(name)).unwrap();
    let has = |name: &str| fs::symlink_metadata(site.in_tree(name)).is_ok();
    fs::create_dir(site.in_tree("linked")).unwrap();
    fs::create_dir(site.in_tree("linked/d")).unwrap();
    fs::write(site.in_tree("linked/f"), "f").unwrap();
    for (name, target) in [("s", "f"), ("chain", "f"), ("from", "f"), ("ld", "d")] {
        make(&format!("linked/{name}"), target);
    }
    done(site, &[], "cd linked; del s; del chain; rmdir ld; rename from to");
    for gone in ["s", "chain", "ld", "from"] {
        assert!(!has(&format!("linked/{gone}")), "{gone}");
    }
    assert_eq!(fs::read_link(site.in_tree("linked/to")).unwrap(), std::path::Path::new("f"));
    let (told, _) = run(site, &[], "cd linked; rename to f -f");
    assert!(told.contains("NT_STATUS_ACCESS_DENIED"), "{told}");
    assert_eq!(fs::read(site.in_tree("linked/f")).unwrap(), b"f");
    assert!(has("linked/d"));
    fs::remove_dir_all(site.in_tree("linked")).unwrap();
}

pub(crate) fn names_of_bytes(site: &Site) {
    let directory = site.in_tree("").join(OsStr::from_bytes(b"caf\xe9"));
    fs::create_dir(&directory).unwrap();
    let stored: [&[u8]; 4] = [b"\xff", b"a\xc3.txt", "\u{efc3}".as_bytes(), "\u{f022}".as_bytes()];
    for name in stored {
        fs::write(directory.join(OsStr::from_bytes(name)), name).unwrap();
    }
    let list = done(site, &[], "ls caf\u{efe9}/*");
    for shown in ["\u{efff} ", "a\u{efc3}.txt ", "\u{efee}\u{efbf}\u{ef83} ", "\u{efef}\u{ef80}\u{efa2} "] {
        assert!(list.contains(shown), "{shown:?}: {list}");
    }
    done(site, &[], "get caf\u{efe9}/\u{efff} bytes; rename caf\u{efe9}/\u{efff} caf\u{efe9}/b\u{ef80}");
    assert_eq!(fs::read(site.beside("bytes")).unwrap(), b"\xff");
    assert!(directory.join(OsStr::from_bytes(b"b\x80")).exists());
    done(site, &[], "deltree caf\u{efe9}");
    assert!(!directory.exists());
}

/// A large tree is listed to its end.
pub(crate) fn many_names(site: &Site) {
    for directory in 0..10 {
        let path = site.in_tree("many").join(directory.to_string());
        fs::create_dir_all(&path).unwrap();
        for number in 0..1000 {
            fs::write(path.join(format!("a file, number {number}")), "").unwrap();
        }
    }
    let list = done(site, &[], "recurse on; ls many/*");
    assert_eq!(list.matches("a file, number ").count(), 10_000);
    let list = done(site, &[], "ls \"many/3/a file, number 99?\"");
    assert_eq!(list.matches("a file, number ").count(), 10);
    fs::remove_dir_all(site.in_tree("many")).unwrap();
}
