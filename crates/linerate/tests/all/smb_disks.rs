//! SMB on disks of their own: full ones, volumes over quota, and file systems that share extents.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use lane::buffer::BufClass;
use lane::runtime::{RuntimeOptions, run_here};
use smb_client::{Error, Open, OpenParams, Tree};
use smb_wire::Status;
use smb_wire::body::query_info::info_type;
use smb_wire::chain::EntryWriter;
use smb_wire::create::Disposition;
use smb_wire::create::context::{ContextWriter, tag};
use smb_wire::fixed::prefix;
use smb_wire::fsctl::code;
use smb_wire::info::ea::{self, Ea};
use smb_wire::info::file::class;
use smb_wire::info::file_system::{self, AttributeFixed, attribute};
use testkit::Disk;

use crate::support::share::Share;
use crate::support::{patterned, raw, wait_for};

const MIB: usize = 1 << 20;

/// Returns what a client is told by something that it asks.
fn status<T>(done: Result<T, Error>) -> Status {
    match done {
        Ok(_) => Status::SUCCESS,
        Err(error) => error.status().unwrap_or_else(|| panic!("{error}")),
    }
}

async fn write(open: &Open, offset: u64, bytes: &[u8]) -> Status {
    for (at, part) in bytes.chunks(64 << 10).enumerate() {
        let mut buf = lane::current().buffers().get(BufClass::Large).await;
        assert_eq!(buf.append(part), part.len());
        let written = status(open.write(offset + (at as u64) * (64 << 10), vec![buf]).await.0);
        if written != Status::SUCCESS {
            return written;
        }
    }
    Status::SUCCESS
}

async fn set(open: &Open, class: u8, size: u64) -> Status {
    status(open.set(info_type::FILE, class, 0, &size.to_le_bytes()).await)
}

/// A file that is made with so much set aside for it.
async fn make(tree: &Tree, name: &str, allocation: u64) -> Status {
    let mut contexts = ContextWriter::new();
    contexts.push(tag::ALLOCATION_SIZE, &allocation.to_le_bytes());
    let (disposition, contexts) = (Disposition::Create, contexts.bytes().to_vec());
    let made =
        Open::create(tree, name, &OpenParams { disposition, contexts, ..OpenParams::overwrite() }).await;
    if let Ok(open) = &made {
        open.close(0).await.unwrap();
    }
    status(made)
}

async fn opened(tree: &Tree, name: &str) -> Open {
    Open::create(tree, name, &OpenParams { disposition: Disposition::Open, ..OpenParams::overwrite() })
        .await
        .unwrap()
}

/// Asks for more than there is, in each way that there is: `more` bytes at once, `huge` ones beyond all bounds.
async fn too_much(tree: &Tree, open: &Open, more: usize, huge: u64) {
    assert_eq!(write(open, MIB as u64, &vec![9; more]).await, Status::DISK_FULL);
    assert_eq!(set(open, class::ALLOCATION, huge).await, Status::DISK_FULL);
    assert_eq!(make(tree, "none", huge).await, Status::DISK_FULL);
    assert_eq!(status(Open::create(tree, "none", &OpenParams::read()).await), Status::OBJECT_NAME_NOT_FOUND);
}

#[test]
fn a_full_disk_is_told_as_such_and_serves_again_when_something_is_deleted() {
    let disk = match Disk::in_memory(16) {
        Ok(disk) => disk,
        Err(error) => return testkit::skip(format_args!("nothing can be mounted ({error})")),
    };
    let home = tempfile::tempdir().unwrap();
    // A tmpfs is mounted sticky: what others made could not be deleted.
    fs::set_permissions(disk.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let share = Share::new(home.path(), &disk.path(), "", "");
    fs::write(disk.path().join("filler"), patterned(8 * MIB)).unwrap();
    fs::write(disk.path().join("page"), patterned(MIB)).unwrap();
    fs::write(home.path().join("large"), patterned(12 * MIB)).unwrap();
    let said = share.asks("put large");
    assert!(said.contains("NT_STATUS_DISK_FULL"), "{said}");
    share.does("del large");
    let page = disk.path().join("page");
    run_here(RuntimeOptions::default(), full(share.address, disk.path().to_owned())).unwrap();
    let bytes = fs::read(&page).unwrap();
    assert!(bytes[..MIB] == patterned(MIB) && bytes[MIB..] == vec![9; 10 * MIB], "{}", bytes.len());
    share.does("del page; put large; get large back");
    assert!(fs::read(home.path().join("back")).unwrap() == patterned(12 * MIB));
}

async fn full(address: SocketAddr, there: PathBuf) {
    let tree = Share::tree(address).await;
    let open = opened(&tree, "page").await;
    too_much(&tree, &open, 10 * MIB, 1 << 30).await;
    // What was acknowledged before is as it was, and stays changeable in place.
    assert!(fs::read(there.join("page")).unwrap()[..MIB] == patterned(MIB));
    assert_eq!(write(&open, 0, &patterned(MIB)).await, Status::SUCCESS);
    tree.remove("filler").await.unwrap();
    assert_eq!(write(&open, MIB as u64, &vec![9; 10 * MIB]).await, Status::SUCCESS);
    assert_eq!(make(&tree, "made", MIB as u64).await, Status::SUCCESS);
    tree.remove("made").await.unwrap();
    open.close(0).await.unwrap();
}

#[test]
fn what_would_be_over_quota_is_a_full_disk_to_clients_and_leaves_the_file_as_it_is() {
    // A directory whose file system keeps attributes, which that of temporary files may not.
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let home = &home.path().canonicalize().unwrap();
    let tree = home.join("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("filler"), patterned(MIB)).unwrap();
    fs::write(tree.join("page"), patterned(MIB)).unwrap();
    fs::write(home.join("large"), patterned(3 * MIB)).unwrap();
    let share = Share::new(home, &tree, "", "quota = '4M'\nmax_files = 4");
    wait_for("the count", || {
        let used = share.server.counted("linerate_volume_used_bytes", "volume=\"tree\"");
        (used == 2 * MIB as u64).then_some(())
    });
    let tag = || raw::get(share.server.http[0], "/page").expect("etag").to_owned();
    let before = tag();
    run_here(RuntimeOptions::default(), over_quota(share.address)).unwrap();
    assert!(fs::read(tree.join("page")).unwrap() == patterned(MIB));
    assert_eq!(tag(), before, "nor is it another to whoever caches it");
    assert!(share.server.counted("linerate_vfs_refused", "reason=\"quota\"") >= 4);
    let said = share.asks("put large");
    assert!(said.contains("NT_STATUS_DISK_FULL"), "{said}");
    // Room that is given back serves again.
    share.does("del large; del filler; put large; get large back");
    assert!(fs::read(home.join("back")).unwrap() == patterned(3 * MIB));
    fs::write(home.join("small"), "small").unwrap();
    share.does("del large; put small a; put small b; put small c");
    let said = share.asks("put small d");
    assert!(said.contains("NT_STATUS_DISK_FULL"), "a file too many: {said}");
}

async fn over_quota(address: SocketAddr) {
    let tree = Share::tree(address).await;
    let open = opened(&tree, "page").await;
    // All of it at once: of several writes the first would fit.
    let mut bufs = Vec::new();
    for _ in 0..16 {
        let mut buf = lane::current().buffers().get(BufClass::Large).await;
        buf.append(&[9; 256 << 10]);
        bufs.push(buf);
    }
    assert_eq!(status(open.write(MIB as u64, bufs).await.0), Status::DISK_FULL);
    assert_eq!(set(&open, class::END_OF_FILE, 8 << 20).await, Status::DISK_FULL);
    assert_eq!(set(&open, class::ALLOCATION, 8 << 20).await, Status::DISK_FULL);
    assert_eq!(make(&tree, "none", 8 << 20).await, Status::DISK_FULL);
    assert_eq!(status(Open::create(&tree, "none", &OpenParams::read()).await), Status::OBJECT_NAME_NOT_FOUND);
    open.close(0).await.unwrap();
}

#[test]
fn attributes_and_streams_count_against_the_quota_and_give_their_room_back() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let home = &home.path().canonicalize().unwrap();
    let tree = home.join("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("page"), patterned(MIB - 300)).unwrap();
    let share = Share::new(home, &tree, "", "quota = '1M'");
    let is_used = |bytes: usize| {
        let used = || share.server.counted("linerate_volume_used_bytes", "volume=\"tree\"");
        wait_for("the room to be what it should", || (used() == bytes as u64).then_some(()));
    };
    is_used(MIB - 300);
    let keep = |value: usize, wanted| {
        let told = run_here(RuntimeOptions::default(), keep_attribute(share.address, value)).unwrap();
        assert_eq!(told, wanted, "{value}");
    };
    keep(500, Status::DISK_FULL);
    keep(200, Status::SUCCESS);
    // As it lies in the tree: `user.COLOUR`.
    is_used(MIB - 300 + 11 + 200);
    keep(290, Status::DISK_FULL);
    assert_eq!(run_here(RuntimeOptions::default(), keep_stream(share.address)).unwrap(), Status::DISK_FULL);
    share.does("del page");
    is_used(0);
}

async fn keep_attribute(address: SocketAddr, value: usize) -> Status {
    let tree = Share::tree(address).await;
    let open = opened(&tree, "page").await;
    let mut list = Vec::new();
    let mut entries = EntryWriter::new(&mut list, 4, 4096);
    assert!(ea::write(&mut entries, &Ea { name: b"COLOUR", value: &vec![7; value] }));
    let told = status(open.set(info_type::FILE, class::FULL_EA, 0, &list).await);
    open.close(0).await.unwrap();
    told
}

async fn keep_stream(address: SocketAddr) -> Status {
    let tree = Share::tree(address).await;
    let open = Open::create(&tree, "page:stream", &OpenParams::overwrite()).await.unwrap();
    let told = write(&open, 0, &[7; 500]).await;
    open.close(0).await.unwrap();
    told
}

#[test]
fn whoever_changes_a_programs_content_by_smb_or_http_takes_its_set_id_bits_with_it_whatever_the_way() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let home = &home.path().canonicalize().unwrap();
    let tree = home.join("tree");
    fs::create_dir(&tree).unwrap();
    fs::set_permissions(&tree, fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(tree.join("other"), patterned(MIB)).unwrap();
    fs::write(home.join("new"), "new").unwrap();
    let share = Share::new(home, &tree, "", "");
    let program = tree.join("program");
    let made_anew = || {
        fs::write(&program, patterned(MIB)).unwrap();
        // The kernel cleared them as it was written.
        fs::set_permissions(&program, fs::Permissions::from_mode(0o6777)).unwrap();
        assert_eq!(fs::metadata(&program).unwrap().mode() & 0o6000, 0o6000);
    };
    let bits = || fs::metadata(&program).unwrap().mode() & 0o6000;
    for way in SMB_WAYS {
        made_anew();
        let changed = run_here(RuntimeOptions::default(), change(share.address, way)).unwrap();
        // Of extents most file systems share none, and nothing is changed then.
        assert!(changed == Status::SUCCESS || way == "extents", "{way}: {changed:?}");
        assert!(bits() == 0 || changed != Status::SUCCESS, "{way}: {:o}", bits());
    }
    made_anew();
    share.does("put new program");
    assert_eq!(bits(), 0, "put");
    made_anew();
    share.put_by_http("new", "/program");
    assert_eq!(bits(), 0, "PUT");
    // A look alone changes nothing.
    made_anew();
    share.does("get program back");
    assert_eq!(bits(), 0o6000);
}

/// Ways to change what is in a file.
const SMB_WAYS: [&str; 9] =
    ["write", "append", "cut", "lengthen", "allocation", "zero", "copy", "extents", "overwrite"];

async fn change(address: SocketAddr, way: &str) -> Status {
    let tree = Share::tree(address).await;
    if way == "overwrite" {
        for disposition in [Disposition::Overwrite, Disposition::Supersede] {
            let how = OpenParams { disposition, ..OpenParams::overwrite() };
            let Ok(open) = Open::create(&tree, "program", &how).await else { return Status::ACCESS_DENIED };
            open.close(0).await.unwrap();
        }
        return Status::SUCCESS;
    }
    let (open, other) = (opened(&tree, "program").await, opened(&tree, "other").await);
    let done = match way {
        "write" => write(&open, 0, b"changed").await,
        "append" => write(&open, MIB as u64, b"more").await,
        "cut" => set(&open, class::END_OF_FILE, 10).await,
        "lengthen" => set(&open, class::END_OF_FILE, 2 * MIB as u64).await,
        "allocation" => set(&open, class::ALLOCATION, 4096).await,
        "zero" => {
            let range = [0, 4096u64].map(u64::to_le_bytes).concat();
            status(open.control(code::SET_ZERO_DATA, &range, 0).await)
        }
        "copy" => {
            let key = other.control(code::SRV_REQUEST_RESUME_KEY, &[], 32).await.unwrap();
            // The key, one chunk: from where, to where, how much (MS-SMB2 2.2.31.1).
            let mut chunks = key[..24].to_vec();
            chunks.extend([1u32, 0].map(u32::to_le_bytes).concat());
            chunks.extend([8u64, 0].map(u64::to_le_bytes).concat());
            chunks.extend([4096u32, 0].map(u32::to_le_bytes).concat());
            status(open.control(code::SRV_COPYCHUNK_WRITE, &chunks, 12).await)
        }
        "extents" => {
            let id = other.id();
            let extents =
                [id.persistent.get(), id.volatile.get(), 0, 0, MIB as u64].map(u64::to_le_bytes).concat();
            status(open.control(code::DUPLICATE_EXTENTS_TO_FILE, &extents, 0).await)
        }
        other => panic!("{other}"),
    };
    for open in [open, other] {
        open.close(0).await.unwrap();
    }
    done
}

/// Has a file cloned by a client, and says whether the server tells that it can, what came of it, and whether they are the same.
fn cloned(disk: &Disk) -> (bool, Status, bool) {
    let home = tempfile::tempdir().unwrap();
    fs::write(disk.path().join("from"), patterned(CLONED)).unwrap();
    let share = Share::new(home.path(), &disk.path(), "", "");
    let told = run_here(RuntimeOptions::default(), clone(share.address)).unwrap();
    let content = |name: &str| fs::read(disk.path().join(name)).unwrap();
    (told.0, told.1, content("from") == content("to"))
}

async fn clone(address: SocketAddr) -> (bool, Status) {
    let tree = Share::tree(address).await;
    let from = opened(&tree, "from").await;
    let to = Open::create(&tree, "to", &OpenParams::overwrite()).await.unwrap();
    // What is behind the end is not cloned into.
    assert_eq!(set(&to, class::END_OF_FILE, CLONED as u64).await, Status::SUCCESS);
    let told = from.query(info_type::FILE_SYSTEM, file_system::class::ATTRIBUTE, 0, 1024).await.unwrap();
    let (told, _) = prefix::<AttributeFixed>(&told).unwrap();
    let shares = told.attributes.get() & attribute::SUPPORTS_BLOCK_REFCOUNTING != 0;
    // Of which file, from where to where, and how much (MS-FSCC 2.3.7.2).
    let id = from.id();
    let extents =
        [id.persistent.get(), id.volatile.get(), 0, 0, CLONED as u64].map(u64::to_le_bytes).concat();
    let done = to.control(code::DUPLICATE_EXTENTS_TO_FILE, &extents, 0).await;
    for open in [from, to] {
        open.close(0).await.unwrap();
    }
    (shares, status(done))
}

/// Returns what is free of a disk.
fn free(at: &Path) -> u64 {
    let stat = rustix::fs::statvfs(at).unwrap();
    stat.f_bavail * stat.f_frsize
}

#[test]
fn extents_are_shared_and_told_to_be_where_the_file_system_can_alone() {
    let Some(disk) = Disk::new_or_skip("xfs", 300, &["-m", "reflink=1"]) else { return };
    // xfs keeps room back as files grow: a first one has taken that before the count.
    let before = {
        fs::write(disk.path().join("from"), patterned(CLONED)).unwrap();
        rustix::fs::sync();
        free(&disk.path())
    };
    assert_eq!(cloned(&disk), (true, Status::SUCCESS, true));
    rustix::fs::sync();
    let taken = before.saturating_sub(free(&disk.path()));
    assert!(taken < CLONED as u64 / 2, "{taken} bytes more are used by a copy of {CLONED}");
    drop(disk);
    for (kind, options) in [("xfs", &["-m", "reflink=0"][..]), ("ext4", &[])] {
        let Some(disk) = Disk::new_or_skip(kind, 300, options) else { return };
        assert_eq!(cloned(&disk), (false, Status::INVALID_DEVICE_REQUEST, false), "{kind}");
    }
}

const CLONED: usize = 32 << 20;
