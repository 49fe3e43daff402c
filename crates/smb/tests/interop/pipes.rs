//! `rpcclient` and `smbclient -L` over the pipes.

use super::{ADMINISTRATOR, PASSWORD, Site, USER, said};

/// Returns what rpcclient says of a command.
fn rpcclient(site: &Site, who: &str, words: &str) -> String {
    let mut command = site.client("rpcclient", &format!("{who}%{PASSWORD}"));
    said(&command.args(["-c", words, "127.0.0.1"]).output().unwrap()).0
}

pub(crate) fn are_answered(site: &Site) {
    let mut list = site.client("smbclient", &format!("{USER}%{PASSWORD}"));
    let (list, is_well) = said(&list.args(["-L", "127.0.0.1", "-m", "SMB3"]).output().unwrap());
    assert!(
        is_well && list.contains("tree            Disk") && list.contains("IPC$            IPC"),
        "{list}"
    );
    let name = rpcclient(site, USER, "lookupnames anne");
    let sid = name.split_whitespace().nth(1).expect("an identifier").to_owned();
    assert!(sid.starts_with("S-1-5-21-"), "{name}");
    let path = format!("path:\t{}", site.in_tree("").display());
    for (who, command, expected) in [
        (USER, "srvinfo", &["FILES", "os version      :\t6.1"][..]),
        (USER, "netshareenumall 1", &["netname: tree", "netname: IPC$"]),
        (USER, "netshareenumall 502", &["WERR_ACCESS_DENIED"]),
        (ADMINISTRATOR, "netshareenumall 502", &[path.trim_end_matches('/')]),
        (ADMINISTRATOR, "netsharegetinfo TREE 2", &["netname: tree"]),
        (USER, "netsharegetinfo none 1", &["WERR_NERR_NETNAMENOTFOUND"]),
        (ADMINISTRATOR, "netsessenum", &["WERR_ACCESS_DENIED"]),
        (ADMINISTRATOR, "netsharedel tree", &["ACCESS_DENIED"]),
        (USER, "lsaquery", &["Domain Name: WORKGROUP", "Domain Sid: (NULL SID)"]),
        (USER, "getusername", &["Account Name: anne, Authority Name: FILES"]),
        (USER, "lookupnames nobody", &["NT_STATUS_NONE_MAPPED"]),
        (USER, &format!("lookupsids {sid} S-1-1-0"), &["FILES\\anne (1)", "S-1-1-0 \\Everyone (5)"]),
        (USER, "enumdomusers", &["NT_STATUS_OBJECT_NAME_NOT_FOUND"]),
    ] {
        let told = rpcclient(site, who, command);
        for words in expected {
            assert!(told.contains(words), "{command} lacks {words:?}: {told}");
        }
    }
}
