//! FILE_ATTRIBUTE_ARCHIVE: off where it was turned off, and on again whatever changes the file (MS-FSA
//! 2.1.4.17), by SMB or another protocol. The table of docs/design/smb.md.

use std::sync::Arc;

use identity::Rights;
use lane::buffer::BufClass;
use lane::fs::{AttributeChange, SetTime, Timestamp};
use smb_tree::{Open, RequestContext};
use smb_wire::Status;
use smb_wire::body::query_info::info_type;
use smb_wire::chain::EntryWriter;
use smb_wire::create::access::{attributes, rights};
use smb_wire::create::{Disposition, options};
use smb_wire::dos::Dos;
use smb_wire::fsctl::code;
use smb_wire::fsctl::copy::{Chunk, Copy, ResumeKeyResponse};
use smb_wire::info::ea::{self, Ea};
use smb_wire::info::file::{BasicInformation, class, plain};
use smb_wire::info::security::{Ace, Descriptor, Sid, ace_type};
use smb_wire::time::from_unix;
use vfs::{Expect, Name, RelPath, Replace};
use zerocopy::{FromZeros, IntoBytes};

use super::information::{file, full, renamed, set, set_of};
use super::own_file::put;
use super::{Side, Wish, alone, beside_programs, on_lanes, request_context};

/// Action through an open of `page`.
#[derive(Clone, Copy, Debug)]
enum Act {
    Write,
    WriteLast,
    Extend,
    Cut,
    CutToTheSame,
    AllocateMore,
    AllocateLess,
    Zero,
    Copy,
    Rename,
    Link,
    SetEa,
    WriteStream,
    MakeStream,
    EmptyStream,
    RenameStream,
    SetDescriptor,
    Overwrite,
    Supersede,
    // What leaves it off.
    Read,
    SetTimes,
    SetOthers,
    SetSparse,
    Query,
    Flush,
}

const CHANGES: [Act; 19] = [
    Act::Write,
    Act::WriteLast,
    Act::Extend,
    Act::Cut,
    Act::CutToTheSame,
    Act::AllocateMore,
    Act::AllocateLess,
    Act::Zero,
    Act::Copy,
    Act::Rename,
    Act::Link,
    Act::SetEa,
    Act::WriteStream,
    Act::MakeStream,
    Act::EmptyStream,
    Act::RenameStream,
    Act::SetDescriptor,
    Act::Overwrite,
    Act::Supersede,
];

const LEAVES: [Act; 6] = [Act::Read, Act::SetTimes, Act::SetOthers, Act::SetSparse, Act::Query, Act::Flush];

async fn attributes_of(side: &Side, who: &RequestContext, open: &Arc<Open>) -> u32 {
    let told = file(side, who, open, class::BASIC).await.unwrap();
    plain::<BasicInformation>(&told).unwrap().file_attributes.get()
}

async fn set_attributes(side: &Side, who: &RequestContext, open: &Arc<Open>, bits: u32) {
    let mut basic = BasicInformation::new_zeroed();
    basic.file_attributes.set(bits);
    set(side, who, open, class::BASIC, basic.as_bytes()).await.unwrap();
}

impl Act {
    async fn is_done(self, side: &Side, who: &RequestContext, open: &Arc<Open>) {
        let share = &side.share;
        let stream = async |disposition| {
            let stream = side
                .open(who, "page:one", &Wish { access: rights::FILE_ALL, ..Wish::new(disposition) })
                .await;
            share.write_bytes(who, &stream, 0, b"abc", false).await.unwrap();
            stream
        };
        match self {
            Self::Write => drop(share.write_bytes(who, open, 0, b"x", false).await.unwrap()),
            Self::WriteLast => {
                share.write_bytes(who, open, 0, b"x", false).await.unwrap();
                set_attributes(side, who, open, attributes::HIDDEN).await;
                share.write_bytes(who, open, 1, b"y", false).await.unwrap();
            }
            Self::Extend => set(side, who, open, class::END_OF_FILE, &99u64.to_le_bytes()).await.unwrap(),
            Self::Cut => set(side, who, open, class::END_OF_FILE, &1u64.to_le_bytes()).await.unwrap(),
            Self::CutToTheSame => {
                set(side, who, open, class::END_OF_FILE, &5u64.to_le_bytes()).await.unwrap()
            }
            Self::AllocateMore => {
                set(side, who, open, class::ALLOCATION, &(1u64 << 20).to_le_bytes()).await.unwrap();
            }
            Self::AllocateLess => set(side, who, open, class::ALLOCATION, &1u64.to_le_bytes()).await.unwrap(),
            Self::Zero => {
                let range = [0u64.to_le_bytes(), 3u64.to_le_bytes()].concat();
                share.ioctl(who, open, code::SET_ZERO_DATA, &range, 0).await.unwrap();
            }
            Self::Copy => {
                let from = side.open(who, "from", &full()).await;
                share.write_bytes(who, &from, 0, b"12345", false).await.unwrap();
                let key = share.ioctl(who, &from, code::SRV_REQUEST_RESUME_KEY, &[], 32).await.unwrap();
                let key = *plain::<ResumeKeyResponse>(&key.output).unwrap();
                let chunk = Chunk {
                    source_offset: 0.into(),
                    target_offset: 0.into(),
                    length: 5.into(),
                    reserved: 0.into(),
                };
                let input = Copy { source_key: &key.resume_key, chunks: &[chunk] }.to_bytes();
                let done = share.ioctl(who, open, code::SRV_COPYCHUNK, &input, 12).await.unwrap();
                assert_eq!(done.status, Status::SUCCESS);
                share.close(who, &from, 0).await.unwrap();
            }
            Self::Rename => set(side, who, open, class::RENAME, &renamed("other", false)).await.unwrap(),
            Self::Link => set(side, who, open, class::LINK, &renamed("other", false)).await.unwrap(),
            Self::SetEa => {
                let mut list = Vec::new();
                assert!(ea::write(&mut EntryWriter::new(&mut list, 4, 99), &Ea { name: b"A", value: b"1" }));
                set(side, who, open, class::FULL_EA, &list).await.unwrap();
            }
            Self::WriteStream => {
                let stream = stream(Disposition::OpenIf).await;
                set_attributes(side, who, open, attributes::HIDDEN).await;
                share.write_bytes(who, &stream, 0, b"x", false).await.unwrap();
                share.close(who, &stream, 0).await.unwrap();
            }
            Self::MakeStream => {
                let made = side.open(who, "page:one", &Wish::new(Disposition::Create)).await;
                share.close(who, &made, 0).await.unwrap();
            }
            Self::EmptyStream => {
                let first = stream(Disposition::OpenIf).await;
                share.close(who, &first, 0).await.unwrap();
                set_attributes(side, who, open, attributes::HIDDEN).await;
                // What is hidden is emptied by a client that says so.
                let wish = Wish { attributes: attributes::HIDDEN, ..Wish::new(Disposition::Overwrite) };
                let emptied = side.open(who, "page:one", &wish).await;
                share.close(who, &emptied, 0).await.unwrap();
            }
            Self::RenameStream => {
                let stream = stream(Disposition::OpenIf).await;
                set_attributes(side, who, open, attributes::HIDDEN).await;
                set(side, who, &stream, class::RENAME, &renamed(":two", false)).await.unwrap();
                share.close(who, &stream, 0).await.unwrap();
            }
            Self::SetDescriptor => {
                let mask = rights::FILE_ALL;
                let ace = Ace { kind: ace_type::ACCESS_ALLOWED, flags: 0, mask, sid: Sid::EVERYONE };
                let descriptor = Descriptor { dacl: Some(vec![ace]), ..Descriptor::default() }.to_bytes();
                set_of(side, who, open, info_type::SECURITY, 0, &descriptor).await.unwrap();
            }
            Self::Overwrite | Self::Supersede => {
                let disposition = match self {
                    Self::Overwrite => Disposition::Overwrite,
                    _ => Disposition::Supersede,
                };
                let wish = Wish { attributes: attributes::HIDDEN, ..Wish::new(disposition) };
                let emptied = side.open(who, "page", &wish).await;
                share.close(who, &emptied, 0).await.unwrap();
            }
            Self::Read => drop(side.read(who, open, 0, 5).await.unwrap()),
            Self::SetTimes => {
                let mut basic = BasicInformation::new_zeroed();
                basic.creation_time.set(from_unix(1_000_000, 0));
                basic.last_write_time.set(from_unix(2_000_000, 0));
                set(side, who, open, class::BASIC, basic.as_bytes()).await.unwrap();
            }
            Self::SetOthers => set_attributes(side, who, open, attributes::HIDDEN).await,
            Self::SetSparse => drop(share.ioctl(who, open, code::SET_SPARSE, &[], 0).await.unwrap()),
            Self::Query => drop(file(side, who, open, class::ALL).await.unwrap()),
            Self::Flush => drop(share.flush(who, open).await),
        }
    }
}

#[test]
fn whatever_changes_a_file_turns_archive_on_and_nothing_else_does() {
    for act in CHANGES.into_iter().chain(LEAVES) {
        alone(move |side| async move {
            let who = request_context(1);
            side.make(&who, "page", b"12345").await;
            let open = side.open(&who, "page", &full()).await;
            set_attributes(&side, &who, &open, attributes::HIDDEN).await;
            assert_eq!(attributes_of(&side, &who, &open).await, attributes::HIDDEN);
            act.is_done(&side, &who, &open).await;
            let told = attributes_of(&side, &who, &open).await & !attributes::SPARSE_FILE;
            let is_changed = CHANGES.iter().any(|change| format!("{change:?}") == format!("{act:?}"));
            let archive = if is_changed { attributes::ARCHIVE } else { 0 };
            assert_eq!(told, attributes::HIDDEN | archive, "{act:?}");
            side.share.close(&who, &open, 0).await.unwrap();
        });
    }
}

#[test]
fn archive_that_one_open_turns_off_another_turns_on() {
    on_lanes(1, 2, |lane, side| async move {
        let (who, page) = (request_context(lane as u64 + 1), "page");
        if lane == 0 {
            side.make(&who, page, b"12345").await;
            let open = side.open(&who, page, &full()).await;
            // The other lane has it open by then.
            lane::time::sleep(std::time::Duration::from_secs(1)).await;
            set_attributes(&side, &who, &open, attributes::NORMAL).await;
            assert_eq!(attributes_of(&side, &who, &open).await, attributes::NORMAL);
            lane::time::sleep(std::time::Duration::from_secs(2)).await;
            assert_eq!(attributes_of(&side, &who, &open).await, attributes::ARCHIVE);
            side.share.close(&who, &open, 0).await.unwrap();
        } else {
            lane::time::sleep(std::time::Duration::from_millis(500)).await;
            let open = side.open(&who, page, &full()).await;
            lane::time::sleep(std::time::Duration::from_millis(1500)).await;
            side.share.write_bytes(&who, &open, 0, b"x", false).await.unwrap();
            side.share.close(&who, &open, 0).await.unwrap();
        }
    });
}

#[test]
fn a_directory_has_no_archive_but_what_is_set() {
    alone(|side| async move {
        let who = request_context(1);
        let sub = side.open(&who, "sub", &full().with(options::DIRECTORY_FILE)).await;
        let stream = side.open(&who, "sub:one", &full()).await;
        side.share.write_bytes(&who, &stream, 0, b"x", false).await.unwrap();
        side.make(&who, "sub\\page", b"1").await;
        assert_eq!(attributes_of(&side, &who, &sub).await, attributes::DIRECTORY);
        for open in [&stream, &sub] {
            side.share.close(&who, open, 0).await.unwrap();
        }
    });
}

/// Way in which a file that is complete takes the place of another.
#[derive(Clone, Copy, Debug)]
enum Upload {
    /// PUT by HTTP.
    Put,
    /// `linerate put` to an AFS address.
    Afs,
    /// `linerate put` to an SMB address.
    Smb,
    /// A rename over it by another program's temporary name.
    Rename,
}

impl Upload {
    async fn replaces(self, side: &Side, who: &RequestContext, name: &'static str, content: &[u8]) {
        let own = transfer::staged_name(name);
        let staged = if matches!(self, Self::Rename) { "temporary" } else { &own };
        if !matches!(self, Self::Put) {
            side.make(who, staged, content).await;
        }
        match self {
            Self::Put => put(side, who, name, content, Expect::Anything).await.unwrap(),
            Self::Afs | Self::Rename => {
                let top = side.volume.lookup_as(&who.caller, RelPath::ROOT, Rights::NONE).await.unwrap();
                let top = top.into_directory().unwrap().0;
                let [from, to] = [staged, name].map(|name| Name::parse(name.as_bytes()).unwrap());
                top.rename(&who.caller, from, &top, to, Replace::Existing).await.unwrap();
            }
            Self::Smb => {
                let open = side.open(who, staged, &full()).await;
                set(side, who, &open, class::RENAME, &renamed(name, true)).await.unwrap();
                side.share.close(who, &open, 0).await.unwrap();
            }
        }
    }
}

#[test]
fn what_is_kept_with_a_file_stays_where_put_replaces_it() {
    for upload in [Upload::Put, Upload::Afs, Upload::Smb] {
        what_is_kept_stays(upload);
    }
}

/// As POSIX and Windows have it: an editor that saves by a rename says itself what the file has.
#[test]
fn what_is_kept_with_a_file_goes_with_it_where_a_rename_replaces_it() {
    alone(|side| async move {
        let who = request_context(1);
        side.make(&who, "page", b"12345").await;
        let open = side.open(&who, "page", &full()).await;
        let stream = side.open(&who, "page:one", &full()).await;
        set_attributes(&side, &who, &open, attributes::HIDDEN).await;
        for open in [&stream, &open] {
            side.share.close(&who, open, 0).await.unwrap();
        }
        Upload::Rename.replaces(&side, &who, "page", b"another").await;
        let open = side.open(&who, "page", &full()).await;
        assert_eq!(attributes_of(&side, &who, &open).await, attributes::ARCHIVE);
        side.share.close(&who, &open, 0).await.unwrap();
        assert_eq!(side.content(&who, "page:one").await, Err(Status::OBJECT_NAME_NOT_FOUND));
    });
}

fn what_is_kept_stays(upload: Upload) {
    alone(move |side| async move {
        let who = request_context(1);
        for (bits, left) in [
            (attributes::HIDDEN, attributes::HIDDEN | attributes::ARCHIVE),
            (attributes::NORMAL, attributes::ARCHIVE),
            (
                attributes::SYSTEM | attributes::READONLY,
                attributes::SYSTEM | attributes::READONLY | attributes::ARCHIVE,
            ),
        ] {
            // No open of SMB replaces what is not to be written.
            if matches!(upload, Upload::Smb) && bits & attributes::READONLY != 0 {
                continue;
            }
            side.make(&who, "page", b"12345").await;
            let open = side.open(&who, "page", &full()).await;
            let stream = side.open(&who, "page:one", &full()).await;
            side.share.write_bytes(&who, &stream, 0, b"abc", false).await.unwrap();
            let mut list = Vec::new();
            assert!(ea::write(&mut EntryWriter::new(&mut list, 4, 99), &Ea { name: b"A", value: b"1" }));
            set(&side, &who, &open, class::FULL_EA, &list).await.unwrap();
            set_attributes(&side, &who, &open, bits).await;
            let before = file(&side, &who, &open, class::BASIC).await.unwrap();
            let created = plain::<BasicInformation>(&before).unwrap().creation_time.get();
            for open in [&stream, &open] {
                side.share.close(&who, open, 0).await.unwrap();
            }
            lane::time::sleep(std::time::Duration::from_secs(5)).await;
            for content in [&b"another"[..], b"a third"] {
                upload.replaces(&side, &who, "page", content).await;
                let reads = Wish { access: rights::FILE_READ, ..Wish::new(Disposition::Open) };
                let open = side.open(&who, "page", &reads).await;
                let told = file(&side, &who, &open, class::BASIC).await.unwrap();
                let told = plain::<BasicInformation>(&told).unwrap();
                assert_eq!(
                    (told.file_attributes.get(), told.creation_time.get()),
                    (left, created),
                    "{upload:?} {bits:x}"
                );
                let eas = file(&side, &who, &open, class::FULL_EA).await.unwrap();
                assert_eq!(ea::parse(&eas).next(), Some(Ok(Ea { name: b"A", value: b"1" })));
                side.share.close(&who, &open, 0).await.unwrap();
                assert_eq!(side.content(&who, "page").await, Ok(content.to_vec()));
                assert_eq!(side.content(&who, "page:one").await, Ok(b"abc".to_vec()));
            }
            let open = side
                .open(
                    &who,
                    "page",
                    &Wish {
                        access: rights::WRITE_ATTRIBUTES | rights::READ_ATTRIBUTES | rights::DELETE,
                        ..Wish::new(Disposition::Open)
                    },
                )
                .await;
            set_attributes(&side, &who, &open, attributes::NORMAL).await;
            set(&side, &who, &open, class::DISPOSITION, &[1]).await.unwrap();
            side.share.close(&who, &open, 0).await.unwrap();
        }
        // What nothing is kept with is as any new file is.
        side.make(&who, "plain", b"1").await;
        upload.replaces(&side, &who, "plain", b"2").await;
        let open = side.open(&who, "plain", &full()).await;
        assert_eq!(attributes_of(&side, &who, &open).await, attributes::ARCHIVE);
        side.share.close(&who, &open, 0).await.unwrap();
    });
}

/// Action on `page` without an open of SMB, as AFS does it.
#[derive(Clone, Copy, Debug)]
enum Beside {
    Store,
    StoreNothing,
    Cut,
    Lengthen,
    SetMode,
    SetTimes,
    Rename,
    RenameOver,
    // What leaves it off.
    Fetch,
    Look,
    MadeAnother,
}

const BESIDE: [Beside; 11] = [
    Beside::Store,
    Beside::StoreNothing,
    Beside::Cut,
    Beside::Lengthen,
    Beside::SetMode,
    Beside::SetTimes,
    Beside::Rename,
    Beside::RenameOver,
    Beside::Fetch,
    Beside::Look,
    Beside::MadeAnother,
];

impl Beside {
    fn is_change(self) -> bool {
        !matches!(self, Self::Fetch | Self::Look | Self::MadeAnother)
    }

    fn name_after(self) -> &'static str {
        if matches!(self, Self::Rename | Self::RenameOver) { "other" } else { "page" }
    }

    async fn is_done(self, side: &Side, who: &RequestContext) {
        let (caller, name) = (&who.caller, |text: &'static str| Name::parse(text.as_bytes()).unwrap());
        let top = side.volume.lookup_as(caller, RelPath::ROOT, Rights::NONE).await.unwrap();
        let top = top.into_directory().unwrap().0;
        let file = async || {
            let found = side.volume.lookup_as(caller, RelPath::parse(b"page").unwrap(), Rights::READ).await;
            found.unwrap().into_file().unwrap().0
        };
        let store = async || {
            let object = Arc::clone(file().await.object().unwrap());
            side.volume.reopen_writer(caller, object.identity()).await.unwrap().store(caller)
        };
        let bytes = async |bytes: &[u8]| {
            let mut buf = lane::current().buffers().get(BufClass::Small).await;
            assert_eq!(buf.append(bytes), bytes.len());
            buf
        };
        let change = |change: AttributeChange| top.set_attributes_of(caller, name("page"), change);
        match self {
            Self::Store => {
                store()
                    .await
                    .write_vectored_at(1, vec![bytes(b"x").await, bytes(b"y").await])
                    .await
                    .0
                    .unwrap();
            }
            Self::StoreNothing | Self::Cut | Self::Lengthen => {
                let len = match self {
                    Self::StoreNothing => 5,
                    Self::Cut => 1,
                    _ => 99,
                };
                store().await.truncate(len).await.unwrap();
            }
            Self::SetMode => {
                change(AttributeChange { mode: Some(0o600), ..AttributeChange::NONE }).await.unwrap()
            }
            Self::SetTimes => {
                let mtime = SetTime::At(Timestamp { secs: 1_000_000, nanos: 0 });
                change(AttributeChange { mtime, ..AttributeChange::NONE }).await.unwrap();
            }
            Self::Rename | Self::RenameOver => {
                if matches!(self, Self::RenameOver) {
                    side.make(who, "other", b"1").await;
                }
                top.rename(caller, name("page"), &top, name("other"), Replace::Existing).await.unwrap();
            }
            Self::Fetch => drop(file().await.read_at(0, 5, bytes(b"").await).await.0.unwrap()),
            Self::Look => drop(top.lookup(name("page")).await.unwrap()),
            Self::MadeAnother => side.make(who, "another", b"1").await,
        }
    }
}

#[test]
fn what_is_changed_without_an_open_has_archive_too_whoever_has_it_open_or_has_never_looked() {
    for act in BESIDE {
        for (is_open, is_hidden) in [(true, true), (false, true), (false, false)] {
            beside_programs(move |side, fs| async move {
                let who = request_context(1);
                let bits = if is_hidden { attributes::HIDDEN } else { attributes::SYSTEM };
                let open = match is_hidden {
                    true => {
                        side.make(&who, "page", b"12345").await;
                        let open = side.open(&who, "page", &full()).await;
                        set_attributes(&side, &who, &open, bits).await;
                        Some(open)
                    }
                    // As another server has left it, so that no client has asked for it.
                    false => {
                        fs.write("/srv/page", "12345").unwrap();
                        let dos = Dos { attributes: Some(bits), ..Dos::default() };
                        fs.set_xattr("/srv/page", "user.DOSATTRIB", &dos.to_bytes()).unwrap();
                        None
                    }
                };
                if let Some(open) = open.as_ref().filter(|_| !is_open) {
                    side.share.close(&who, open, 0).await.unwrap();
                }
                lane::time::sleep(std::time::Duration::from_secs(3)).await;
                act.is_done(&side, &request_context(2)).await;
                let reads = Wish { access: rights::FILE_READ, ..Wish::new(Disposition::Open) };
                let now = side.open(&who, act.name_after(), &reads).await;
                let told = attributes_of(&side, &who, &now).await;
                let archive = if act.is_change() { attributes::ARCHIVE } else { 0 };
                assert_eq!(told, bits | archive, "{act:?}, open: {is_open}, {bits:x}");
                side.share.close(&who, &now, 0).await.unwrap();
                if let Some(open) = open.filter(|_| is_open) {
                    side.share.close(&who, &open, 0).await.unwrap();
                }
            });
        }
    }
}

#[test]
fn what_is_not_to_be_written_is_put_over_and_deleted_by_other_protocols() {
    alone(|side| async move {
        let who = request_context(1);
        side.make(&who, "page", b"12345").await;
        let open = side.open(&who, "page", &full()).await;
        set_attributes(&side, &who, &open, attributes::READONLY).await;
        side.share.close(&who, &open, 0).await.unwrap();
        put(&side, &who, "page", b"another", Expect::Anything).await.unwrap();
        let open = side.open(&who, "page", &Wish { access: rights::FILE_READ, ..full() }).await;
        let left = attributes_of(&side, &who, &open).await;
        assert_eq!(left, attributes::READONLY | attributes::ARCHIVE);
        side.share.close(&who, &open, 0).await.unwrap();
        let writes = Wish { access: rights::FILE_WRITE, ..Wish::new(Disposition::Open) };
        assert_eq!(side.status(&who, "page", &writes).await, Status::ACCESS_DENIED);
        let top = side.volume.lookup_as(&who.caller, RelPath::ROOT, Rights::NONE).await.unwrap();
        let top = top.into_directory().unwrap().0;
        top.remove(&who.caller, Name::parse(b"page").unwrap()).await.unwrap();
        assert_eq!(side.content(&who, "page").await, Err(Status::OBJECT_NAME_NOT_FOUND));
    });
}
