//! The audit log: a line for each call that asks for files, whatever came of it.

use afs_wire::code::EEXIST;
use afs_wire::rxafs;

use super::bed::{code, run};

#[test]
fn every_call_for_files_leaves_a_line() {
    run(async |bed| {
        let (client, root) = (bed.client(), bed.root());
        let volume = root.volume;
        let d = client.make_dir(root, "d").await.unwrap().fid;
        let f = client.create(d, "a file").await.unwrap().fid;
        assert_eq!(code(client.create(d, "a file").await), EEXIST);
        client.status(f).await.unwrap();
        client.call(&rxafs::FetchACL { fid: d }).await.unwrap();
        let fids = vec![f, d].try_into().unwrap();
        client.call(&rxafs::BulkStatus { fids }).await.unwrap();
        let rename = rxafs::Rename { from: d, old_name: "a file".into(), to: root, new_name: "b".into() };
        client.call(&rename).await.unwrap();
        client.call(&rxafs::GetVolumeStatus { volume }).await.unwrap();
        let gone = afs_wire::Fid { vnode: 4000, ..f };
        let stale = code(client.status(gone).await);
        // Files of an unauthenticated client.
        client.call(&rxafs::GetTime).await.unwrap();

        let at = |fid: afs_wire::Fid| format!("FID {volume}:{}:{}", fid.vnode, fid.uniquifier);
        let (root, d, f, gone) = (at(root), at(d), at(f), at(gone));
        let who = "NAME --UnAuth-- HOST 10.0.0.1 ID 32766";
        let wanted = [
            format!("MakeDir CODE 0 {who} {root} STR d {d}"),
            format!("CrFile CODE 0 {who} {d} STR a\\x20file {f}"),
            format!("CrFile CODE {EEXIST} {who} {d} STR a\\x20file"),
            format!("FchStat CODE 0 {who} {f}"),
            format!("FchACL CODE 0 {who} {d}"),
            format!("BFchSta CODE 0 {who} FIDS 2 {f} {d}"),
            format!("RNmFile CODE 0 {who} {d} STR a\\x20file {root} STR b"),
            format!("GetVolS CODE 0 {who} LONG {volume}"),
            format!("FchStat CODE {stale} {who} {gone}"),
        ];
        let lines = bed.audited();
        assert_eq!(lines.len(), wanted.len(), "{lines:#?}");
        for (line, wanted) in lines.iter().zip(&wanted) {
            assert!(line.starts_with(wanted), "{line}\n{wanted}");
        }
        assert_eq!(bed.audited(), Vec::<String>::new());
    });
}
