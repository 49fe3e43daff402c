//! Status of files, volumes and the server itself.

use afs_wire::code::{ENOENT, VNOVNODE, VNOVOL};
use afs_wire::{CallBack, Fid, Fids, Status, rxafs};
use vfs::Number;
use xdr::List;

use super::bed::{code, run};

fn length(status: &Status) -> u64 {
    u64::from(status.length_high) << 32 | u64::from(status.length_low)
}

#[test]
fn a_status_is_that_of_the_tree_and_carries_a_promise() {
    run(async |bed| {
        bed.fs.write("/srv/page", "text").unwrap();
        let client = bed.client();
        let root = client.call(&rxafs::FetchStatus { fid: bed.root() }).await.unwrap();
        let told = root.get();
        assert_eq!((told.status.file_type, told.status.interface_version), (2, 1));
        // Itself: OpenAFS's clients take a status without a parent for a broken one.
        assert_eq!((told.status.parent_vnode, told.status.parent_uniquifier), (1, 1));
        assert_eq!(length(&told.status), 2048, "one page of names");
        assert!(told.call_back.expires > 60 && told.call_back.r#type == 2, "{:?}", told.call_back);
        // Every user may write here, and read.
        assert_eq!(told.status.anonymous_access & 0x3f, 0x3f);
        let (_, pages) =
            (client.status(bed.root()).await.unwrap(), client.fetch(bed.root(), 0, 4096).await.unwrap());
        let directory = afs_wire::directory::Directory::parse(&pages.0).unwrap();
        let page = directory.lookup(b"page").unwrap();
        let fid = Fid { vnode: page.vnode, uniquifier: page.uniquifier, ..bed.root() };
        let status = client.status(fid).await.unwrap();
        assert_eq!((status.file_type, length(&status), status.link_count), (1, 4, 1));
        assert_eq!((status.parent_vnode, status.parent_uniquifier), (1, 1));
    });
}

#[test]
fn names_of_copies_lead_to_the_same_files_of_which_nothing_can_be_changed() {
    run(async |bed| {
        bed.fs.write("/srv/page", "text").unwrap();
        let client = bed.client();
        for copy in 1..3 {
            let root = Fid { volume: bed.root().volume + copy, ..bed.root() };
            let status = client.status(root).await.unwrap();
            assert_eq!(status.caller_access & 0x7f, 9, "read and look up");
            assert_eq!(code(client.create(root, "new").await), afs_wire::code::EROFS);
        }
        let beyond = Fid { volume: bed.root().volume + 3, ..bed.root() };
        assert_eq!(code(client.status(beyond).await), VNOVOL);
    });
}

#[test]
fn fifty_files_are_told_of_at_once_and_what_is_wrong_with_one_is_told_in_its_place() {
    run(async |bed| {
        let client = bed.client();
        let mut fids = vec![bed.root()];
        // Directories, of which nothing is at hand, are told of like files.
        bed.fs.create_dir_all("/srv/d").unwrap();
        let pages = client.fetch(bed.root(), 0, 4096).await.unwrap().0;
        let d = afs_wire::directory::Directory::parse(&pages).unwrap().lookup(b"d").unwrap();
        fids.push(Fid { vnode: d.vnode, uniquifier: d.uniquifier, ..bed.root() });
        for n in 0..47 {
            fids.push(client.create(bed.root(), &format!("f{n}")).await.unwrap().fid);
        }
        let forged = Fid { uniquifier: 99, ..fids[5] };
        fids.push(forged);
        let inline =
            client.call(&rxafs::InlineBulkStatus { fids: Fids::from(List(fids.clone())) }).await.unwrap();
        let told = inline.get();
        assert_eq!((told.statuses.0.len(), told.call_backs.0.len()), (50, 50));
        assert_eq!(told.statuses.0[49].error_code, VNOVNODE as u32);
        assert_eq!(told.call_backs.0[49].expires, 0);
        for (status, call_back) in told.statuses.0.iter().zip(&told.call_backs.0).take(49) {
            assert_eq!(status.error_code, 0);
            assert!(call_back.expires > 60);
        }
        let whole = client.call(&rxafs::BulkStatus { fids: List(fids.clone()) }).await;
        assert_eq!(code(whole), VNOVNODE, "of this call one refusal is that of all");
        fids.pop();
        let whole = client.call(&rxafs::BulkStatus { fids: List(fids.clone()) }).await.unwrap();
        assert_eq!(whole.get().statuses.0[..], told.statuses.0[..49]);
        fids.extend([bed.root(); 2]);
        let mut call = client.connection.call().await.unwrap();
        // Fifty-one break the interface, whatever a client thinks of it.
        let mut bytes = Vec::new();
        let mut request = xdr::Writer::new(&mut bytes);
        request.u32(rxafs::opcode::BULK_STATUS).unwrap();
        request.value(&List::<Fid>(fids)).unwrap();
        call.write(&bytes).await.unwrap();
        call.finish().await.unwrap();
        let refused = call.read_to_end(1 << 16).await;
        assert_eq!(refused, Err(rx_lane::CallError::Aborted(xdr::rpc::code::SS_UNMARSHAL)));
    });
}

#[test]
fn the_server_tells_of_itself_and_of_volumes() {
    run(async |bed| {
        let client = bed.client();
        let time = client.call(&rxafs::GetTime).await.unwrap().get();
        assert!(time.microseconds < 1_000_000);
        let capabilities = client.call(&rxafs::GetCapabilities).await.unwrap();
        assert_eq!(capabilities.get().capabilities.0, [7]);
        let root = client.call(&rxafs::GetRootVolume).await.unwrap();
        assert_eq!(&*root.get().name, b"files");
        let volume = bed.root().volume;
        let status = client.call(&rxafs::GetVolumeStatus { volume }).await.unwrap();
        let told = status.get();
        assert_eq!((&*told.name, told.status.online, told.status.r#type), (&b"files"[..], 1, 1));
        assert!(told.status.partition_blocks >= told.status.partition_blocks_free);
        let copy = client.call(&rxafs::GetVolumeStatus { volume: volume + 2 }).await.unwrap();
        assert_eq!((&*copy.get().name, copy.get().status.r#type), (&b"files.backup"[..], 0));
        let nothing = client.call(&rxafs::GetVolumeStatus { volume: 7 }).await;
        assert_eq!(code(nothing), VNOVOL);
        client.call(&rxafs::GiveUpAllCallBacks).await.unwrap();
        client.call(&rxafs::CallBackRxConnAddr { address: 1 }).await.unwrap();
        client.call(&rxafs::FlushCPS::default()).await.unwrap();
        bed.server.attach(Default::default());
        assert_eq!(code(client.call(&rxafs::GetRootVolume).await), ENOENT);
        assert_eq!(code(client.status(bed.root()).await), VNOVOL);
    });
}

/// Linux's client takes a promise for void that comes by a call during which it hears so, for as long as it keeps the file; it begins by
/// asking what the server can do.
#[test]
fn who_asks_what_the_server_can_do_is_met_before_it_is_answered() {
    run(async |bed| {
        let client = bed.client();
        client.call(&rxafs::GetCapabilities).await.unwrap();
        assert_eq!(client.voided(), 1);
        client.status(bed.root()).await.unwrap();
        assert_eq!(
            client.voided(),
            1,
            "no promise is under way while a client hears that it relies on nothing"
        );

        let deaf = bed.client();
        deaf.be_deaf();
        let told = deaf.call(&rxafs::GetCapabilities).await.unwrap();
        assert_eq!(told.get().capabilities.0, [7], "everybody may ask");
        assert_eq!(code(deaf.status(bed.root()).await), -1);
    });
}

#[test]
fn statistics_have_the_sizes_that_stock_tools_know_and_count_calls() {
    run(async |bed| {
        let client = bed.client();
        for _ in 0..3 {
            client.status(bed.root()).await.unwrap();
        }
        let told = client.call(&rxafs::GetStatistics).await.unwrap();
        assert_eq!(told.get().statistics.total_fetches, 3);
        assert!(told.get().statistics.disks[0].name.0.starts_with(b"/vicepa\0"));
        let told = client.call(&rxafs::GetStatistics64 { count: 99 }).await.unwrap();
        assert_eq!((told.get().statistics.0.len(), told.get().statistics.0[4]), (16, 3));
        assert_eq!(client.call(&rxafs::XStatsVersion).await.unwrap().get().version, 2);
        for (collection, words) in [(0, 0), (1, 98), (2, 424), (3, 16), (-1, 0)] {
            let told = client.call(&rxafs::GetXStats { client_version: 2, collection }).await.unwrap();
            assert_eq!(told.get().data.0.len(), words, "{collection}");
        }
        let full = client.call(&rxafs::GetXStats { client_version: 2, collection: 2 }).await.unwrap();
        // The third procedure's calls, behind 98 words and the time.
        assert_eq!(full.get().data.0[100 + 2 * 10], 3);
        // Promises: made, of so many files, there now.
        let promises = async || {
            let told = client.call(&rxafs::GetXStats { client_version: 2, collection: 3 }).await.unwrap();
            let words = &told.get().data.0;
            [3, 6, 7, 2].map(|at| words[at])
        };
        assert_eq!(promises().await, [1, 1, 1, 0]);
        bed.client().make_dir(bed.root(), "d").await.unwrap();
        assert_eq!(client.broken(), [bed.root()]);
        let [added, _, given, broken] = promises().await;
        assert_eq!((added, broken), (given + 1, 1));
    });
}

/// The client may have asked for one of them again since, by a call that came before this one.
#[test]
fn what_clients_give_up_is_counted_and_they_are_told_of_it_all_the_same() {
    run(async |bed| {
        let (client, other) = (bed.client(), bed.client());
        let fid = client.create(bed.root(), "f").await.unwrap().fid;
        let given_up = async || {
            let told = client.call(&rxafs::GetXStats { client_version: 2, collection: 3 }).await.unwrap();
            [1, 5].map(|at| told.get().data.0[at])
        };
        let one = CallBack::default();
        let give_up = |fids: Vec<Fid>, call_backs: Vec<CallBack>| rxafs::GiveUpCallBacks {
            fids: List(fids),
            call_backs: List(call_backs),
        };
        client.call(&give_up(vec![fid, bed.root()], vec![one; 2])).await.unwrap();
        // Of files without callbacks, and without what was promised.
        client.call(&give_up(vec![Fid { volume: 1, ..fid }], vec![])).await.unwrap();
        client.call(&give_up(vec![], vec![])).await.unwrap();
        assert_eq!(given_up().await, [3, 0]);
        let more = client.call(&give_up(vec![fid], vec![one; 2])).await;
        assert_eq!(code(more), afs_wire::code::EINVAL);
        assert_eq!(given_up().await, [3, 0]);
        other.store(fid, 0, b"new", 3).await.unwrap();
        assert_eq!(client.broken(), [fid]);
        client.status(fid).await.unwrap();
        client.call(&rxafs::GiveUpAllCallBacks).await.unwrap();
        assert_eq!(given_up().await, [3, 1]);
        other.store(fid, 0, b"old", 3).await.unwrap();
        assert_eq!(client.broken(), [], "that is more than a hint");
    });
}

#[test]
fn numbers_that_nothing_has_are_refused() {
    run(async |bed| {
        let client = bed.client();
        let fid = |vnode, uniquifier| Fid { vnode, uniquifier, ..bed.root() };
        for wrong in [fid(0, 0), fid(1, 2), fid(3, 1), fid(2, 1), fid(u32::MAX, u32::MAX), fid(4, 0)] {
            assert_eq!(code(client.status(wrong).await), VNOVNODE, "{wrong}");
            assert_eq!(code(client.fetch(wrong, 0, 1).await), VNOVNODE, "{wrong}");
        }
        assert_eq!(code(client.status(Fid { volume: 1, ..bed.fid(Number::ROOT) }).await), VNOVOL);
    });
}
