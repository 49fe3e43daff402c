//! Opens act on their own file, whatever has the name by then; and a counter that clients of three protocols
//! keep in a file, each in its own way, loses nothing.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use identity::Rights;
use lane::backend::sim::{Config, Fs, World};
use lane::buffer::BufClass;
use lane::time;
use smb_tree::{Open, OpensLimits, RequestContext};
use smb_wire::body::query_info::info_type;
use smb_wire::chain::EntryWriter;
use smb_wire::create::Disposition;
use smb_wire::create::access::{attributes, rights};
use smb_wire::create::options;
use smb_wire::info::ea::{self, Ea};
use smb_wire::info::file::{BasicInformation, class};
use smb_wire::info::security::{Ace, Descriptor, Sid, ace_type};
use smb_wire::{Status, time::from_unix};
use vfs::{Directory, Error, Expect, Name, RelPath, Replace, VersionCertainty};
use zerocopy::{FromZeros, IntoBytes};

use super::information::{descriptor, file, full, renamed, set, set_of};
use super::{Side, Wish, beside_programs, in_world, request_context};

/// Way in which another file comes to have the name.
#[derive(Clone, Copy, Debug)]
enum Taken {
    Put,
    RenamedOver,
    LinkedOver,
    MadeAnew,
    RenamedByAnother,
    ReplacedBeside,
    MovedAndMadeBeside,
}

const ALL_TAKEN: [Taken; 7] = [
    Taken::Put,
    Taken::RenamedOver,
    Taken::LinkedOver,
    Taken::MadeAnew,
    Taken::RenamedByAnother,
    Taken::ReplacedBeside,
    Taken::MovedAndMadeBeside,
];

/// Action through the open.
#[derive(Clone, Copy, Debug)]
enum Act {
    Write,
    Cut,
    SetTimes,
    SetAttributes,
    SetExtended,
    WriteStream,
    RemoveStream,
    SetDescriptor,
    Rename,
    Link,
    Delete,
}

const ALL_ACTS: [Act; 11] = [
    Act::Write,
    Act::Cut,
    Act::SetTimes,
    Act::SetAttributes,
    Act::SetExtended,
    Act::WriteStream,
    Act::RemoveStream,
    Act::SetDescriptor,
    Act::Rename,
    Act::Link,
    Act::Delete,
];

fn name(text: &str) -> Name<'_> {
    Name::parse(text.as_bytes()).unwrap()
}

async fn top(side: &Side, who: &RequestContext) -> Directory {
    let found = side.volume.lookup_as(&who.caller, RelPath::ROOT, Rights::NONE).await.unwrap();
    found.into_directory().unwrap().0
}

pub(super) async fn put(
    side: &Side,
    who: &RequestContext,
    at: &str,
    text: &[u8],
    expect: Expect<'_>,
) -> Result<(), Error> {
    put_in(&top(side, who).await, who, at, text, expect).await
}

pub(super) async fn put_in(
    directory: &Directory,
    who: &RequestContext,
    at: &str,
    text: &[u8],
    expect: Expect<'_>,
) -> Result<(), Error> {
    let staged = directory.stage(&who.caller, 0o644).await?;
    let mut buf = lane::current().buffers().get(BufClass::Small).await;
    assert_eq!(buf.append(text), text.len());
    staged.write_at(0, buf).await.0?;
    staged.stamp().await?;
    staged.publish(&who.caller, name(at), expect).await.map(drop)
}

impl Taken {
    async fn happens(self, side: &Side, fs: &Fs) {
        let (who, other) = (request_context(1), request_context(2));
        let top = top(side, &who).await;
        match self {
            Self::Put => put(side, &who, "page", b"another", Expect::Anything).await.unwrap(),
            Self::RenamedOver => {
                side.make(&who, "other", b"another").await;
                top.rename(&who.caller, name("other"), &top, name("page"), Replace::Existing).await.unwrap();
            }
            Self::LinkedOver => {
                side.make(&who, "other", b"another").await;
                let found = top.lookup(name("other")).await.unwrap();
                let which = found.object().unwrap().number();
                let (from, over) = (name("other"), Replace::Existing);
                top.link_to(&who.caller, which, from, &top, name("page"), over).await.unwrap();
            }
            Self::MadeAnew => {
                top.remove(&who.caller, name("page")).await.unwrap();
                side.make(&who, "page", b"another").await;
            }
            Self::RenamedByAnother => {
                let moved = side.open(&other, "page", &Wish::new(Disposition::Open)).await;
                set(side, &other, &moved, class::RENAME, &renamed("aside", false)).await.unwrap();
                side.share.close(&other, &moved, 0).await.unwrap();
                side.make(&who, "page", b"another").await;
            }
            Self::ReplacedBeside => fs.replace("/srv/page", "another").unwrap(),
            Self::MovedAndMadeBeside => {
                fs.rename("/srv/page", "/srv/aside").unwrap();
                fs.write("/srv/page", "another").unwrap();
            }
        }
    }
}

impl Act {
    async fn happens(self, side: &Side, open: &Arc<Open>, stream: &Arc<Open>) -> Result<(), Status> {
        let who = &request_context(1);
        let basic = |change: &dyn Fn(&mut BasicInformation)| {
            let mut basic = BasicInformation::new_zeroed();
            change(&mut basic);
            basic.as_bytes().to_vec()
        };
        match self {
            Self::Write => side.share.write_bytes(who, open, 0, b"by the open", false).await.map(drop),
            Self::Cut => set(side, who, open, class::END_OF_FILE, &1_u64.to_le_bytes()).await,
            Self::SetTimes => {
                let told = basic(&|basic| basic.last_write_time = from_unix(1_000_000_000, 0).into());
                set(side, who, open, class::BASIC, &told).await
            }
            Self::SetAttributes => {
                let told = basic(&|basic| basic.file_attributes = attributes::HIDDEN.into());
                set(side, who, open, class::BASIC, &told).await
            }
            Self::SetExtended => {
                let mut list = Vec::new();
                let mut entries = EntryWriter::new(&mut list, 4, 4096);
                assert!(ea::write(&mut entries, &Ea { name: b"COLOUR", value: b"red" }));
                set(side, who, open, class::FULL_EA, &list).await
            }
            Self::WriteStream => side.share.write_bytes(who, stream, 0, b"stream", false).await.map(drop),
            Self::RemoveStream => set(side, who, stream, class::DISPOSITION, &[1]).await,
            Self::SetDescriptor => {
                let unheard = Sid::new(5, &[21, 1, 2, 3, 500]).unwrap();
                let only =
                    Ace { kind: ace_type::ACCESS_ALLOWED, flags: 0, mask: rights::FILE_READ, sid: unheard };
                let told = Descriptor { dacl: Some(vec![only]), ..Descriptor::default() };
                set_of(side, who, open, info_type::SECURITY, 0, &told.to_bytes()).await
            }
            Self::Rename => set(side, who, open, class::RENAME, &renamed("moved", true)).await,
            Self::Link => set(side, who, open, class::LINK, &renamed("moved", true)).await,
            Self::Delete => set(side, who, open, class::DISPOSITION, &[1]).await,
        }
    }
}

/// All that is told of what has a name.
async fn told(side: &Side, at: &str) -> (Vec<u8>, Vec<u8>, Vec<u8>, Vec<u8>, Vec<u8>) {
    let who = request_context(3);
    let content = side.content(&who, at).await.unwrap_or_else(|status| panic!("{at}: {status:?}"));
    let open = side.open(&who, at, &Wish { access: rights::FILE_ALL, ..Wish::new(Disposition::Open) }).await;
    let basic = file(side, &who, &open, class::BASIC).await.unwrap();
    let streams = file(side, &who, &open, class::STREAM).await.unwrap();
    let extended = file(side, &who, &open, class::FULL_EA).await.unwrap_or_default();
    let rights = descriptor(side, &who, &open).await.to_bytes();
    side.share.close(&who, &open, 0).await.unwrap();
    // But for the time of the last reading.
    let basic = [&basic[..8], &basic[16..]].concat();
    (content, basic, streams, extended, rights)
}

#[test]
fn nothing_that_is_done_through_an_open_is_done_to_another_file_that_has_its_name_by_then() {
    for taken in ALL_TAKEN {
        for act in ALL_ACTS {
            for (is_at_once, is_busy) in [(true, false), (true, true), (false, false), (false, true)] {
                beside_programs(move |side, fs| async move {
                    let what = format!("{taken:?}, {act:?}, at once: {is_at_once}, busy: {is_busy}");
                    let who = request_context(1);
                    // A directory of which so many changes are this server's is not watched for a while.
                    for _ in 0..if is_busy { 100 } else { 0 } {
                        let wish = Wish::new(Disposition::Create).with(options::DELETE_ON_CLOSE);
                        let open = side.open(&who, "b", &wish).await;
                        side.share.close(&who, &open, 0).await.unwrap();
                    }
                    side.make(&who, "page", b"first").await;
                    let open = side.open(&who, "page", &full()).await;
                    let stream = side.open(&who, "page:one", &full()).await;
                    side.share.write_bytes(&who, &stream, 0, b"1", false).await.unwrap();
                    time::sleep(Duration::from_millis(50)).await;
                    taken.happens(&side, &fs).await;
                    // What another program does need not have been told of yet.
                    if !is_at_once {
                        time::sleep(Duration::from_secs(2)).await;
                    }
                    let before = if is_at_once { None } else { Some(told(&side, "page").await) };
                    let came = act.happens(&side, &open, &stream).await;
                    assert!(came.is_ok() || is_gone(came), "{what}: {came:?}");
                    side.share.close(&who, &stream, 0).await.unwrap();
                    side.share.close(&who, &open, 0).await.unwrap();
                    // A name there is believed for a second, whatever other programs do.
                    if is_busy {
                        time::sleep(Duration::from_secs(2)).await;
                    }
                    let now = told(&side, "page").await;
                    assert_eq!(now.0, b"another", "{what}: {came:?}");
                    if let Some(before) = before {
                        assert_eq!(now, before, "{what}: {came:?}");
                    }
                    let moved = side.content(&who, "moved").await;
                    assert_ne!(moved, Ok(b"another".to_vec()), "{what}");
                });
            }
        }
    }
}

fn is_gone(came: Result<(), Status>) -> bool {
    [Err(Status::OBJECT_NAME_NOT_FOUND), Err(Status::FILE_DELETED)].contains(&came)
}

/// Updates by all clients together.
const UPDATES: u32 = 10_000;

/// Changes of all clients to the counter.
#[derive(Default)]
struct Done {
    updates: Cell<u32>,
    /// Stores to a file that had lost its name by the time of the answer, perhaps to a client that had read
    /// what was stored: they are refused.
    doubtful: Cell<u32>,
    refused: RefCell<[u32; 3]>,
    at_it: Cell<u32>,
}

impl Done {
    fn is_enough(&self) -> bool {
        self.updates.get() >= UPDATES
    }

    fn count(&self, client: usize, came: Result<(), Again>) {
        match came {
            Ok(()) => self.updates.set(self.updates.get() + 1),
            Err(Again) => self.refused.borrow_mut()[client] += 1,
        }
    }
}

/// An update that was refused, and changed nothing.
struct Again;

/// Saves as many programs do: the new content under another name, the old file moved out of the way by the open that it was read through, the
/// new one in its place, the old one deleted.
async fn swap(side: &Side, who: &RequestContext, n: u32) -> Result<(), Again> {
    let shares_deletion = if n.is_multiple_of(2) { 5 } else { 1 };
    let reading = Wish {
        access: rights::FILE_READ | rights::DELETE,
        share: shares_deletion,
        ..Wish::new(Disposition::Open)
    };
    let open = side.create(who, "counter", &reading).await.map_err(|_| Again)?.open;
    let saved = async {
        let text = side.read(who, &open, 0, 99).await.map_err(|_| Again)?;
        side.make(who, "temporary", &next(&text)).await;
        let [old, new] = [renamed(&format!("old-{n}"), false), renamed("counter", false)];
        let made = side.open(who, "temporary", &Wish::new(Disposition::Open)).await;
        let moved = set(side, who, &open, class::RENAME, &old).await;
        if moved.is_ok() {
            set(side, who, &made, class::RENAME, &new).await.expect("nobody makes the counter anew");
            set(side, who, &open, class::DISPOSITION, &[1]).await.unwrap();
        } else {
            assert!(is_gone(moved), "{moved:?}");
            set(side, who, &made, class::DISPOSITION, &[1]).await.unwrap();
        }
        side.share.close(who, &made, 0).await.unwrap();
        moved.map_err(|_| Again)
    };
    let saved = saved.await;
    side.share.close(who, &open, 0).await.unwrap();
    saved
}

/// Fetches, and puts if the counter has the tag that it had: HTTP's If-Match, which no weak tag meets.
async fn put_if_match(side: &Side, who: &RequestContext) -> Result<(), Again> {
    let found = side.volume.lookup_as(&who.caller, RelPath::parse(b"counter").unwrap(), Rights::READ).await;
    let (file, before) = found.map_err(|_| Again)?.into_file().map_err(|_| Again)?;
    if before.version_certainty(time::wall_clock()) != VersionCertainty::Settled {
        return Err(Again);
    }
    let buf = lane::current().buffers().get(BufClass::Small).await;
    let (read, buf) = file.read_at(0, 99, buf).await;
    read.unwrap();
    file.check_unchanged(&before.change_token()).map_err(|_| Again)?;
    let is_it = |now: Option<&vfs::Attributes>| now.is_some_and(|now| now.version(0) == before.version(0));
    put(side, who, "counter", &next(&buf), Expect::Like(&is_it)).await.map_err(|error| {
        assert!(matches!(error, Error::Unexpected | Error::Locked), "{error:?}");
        Again
    })
}

/// Fetches and stores by number, as a client of AFS whose only user this is: refused where the file has no name by the time of the answer.
async fn fetch_and_store(side: &Side, who: &RequestContext, done: &Done) -> Result<(), Again> {
    let (volume, caller) = (&side.volume, &who.caller);
    let found = volume.lookup_as(caller, RelPath::parse(b"counter").unwrap(), Rights::READ).await;
    let (file, before) = found.map_err(|_| Again)?.into_file().map_err(|_| Again)?;
    let object = Arc::clone(file.object().unwrap());
    let version = object.version();
    let buf = lane::current().buffers().get(BufClass::Small).await;
    let (read, buf) = file.read_at(0, 99, buf).await;
    read.unwrap();
    if object.version() != version || file.check_unchanged(&before.change_token()).is_err() {
        return Err(Again);
    }
    let writer = volume.reopen_writer(caller, object.identity()).await.map_err(|_| Again)?;
    let store = writer.store(caller);
    let mut new = lane::current().buffers().get(BufClass::Small).await;
    new.append(&next(&buf));
    store.write_vectored_at(0, vec![new]).await.0.map_err(|_| Again)?;
    // The status in the answer.
    let found = volume.find(caller, object.number(), Rights::LOOKUP).await;
    found.map(drop).map_err(|error| {
        assert!(matches!(error, Error::Stale), "{error:?}");
        done.doubtful.set(done.doubtful.get() + 1);
        Again
    })
}

/// As long whatever it counts, so that nothing but its version tells one content from another.
fn next(text: &[u8]) -> Vec<u8> {
    let count: u32 = std::str::from_utf8(text).unwrap().parse().unwrap();
    format!("{:08}", count + 1).into_bytes()
}

#[test]
fn a_counter_that_is_kept_by_swaps_by_conditional_puts_and_by_stores_loses_nothing() {
    let done: Rc<Done> = Rc::default();
    let counted = Rc::clone(&done);
    let mut config = Config::clean();
    config.fs.delay = Duration::ZERO..Duration::from_micros(300);
    let world = World::new(1, config);
    in_world(world, OpensLimits::default(), 3, move |client, side| {
        let done = Rc::clone(&counted);
        async move {
            let who = request_context(client as u64 + 1);
            done.at_it.set(done.at_it.get() + 1);
            if client == 0 {
                side.make(&who, "counter", b"00000000").await;
            }
            time::sleep(Duration::from_millis(20)).await;
            let mut n = 0;
            while !done.is_enough() {
                let came = match client {
                    0 => swap(&side, &who, n).await,
                    1 => put_if_match(&side, &who).await,
                    _ => fetch_and_store(&side, &who, &done).await,
                };
                done.count(client, came);
                n += 1;
                time::sleep(Duration::from_micros(500 * (client as u64 + 1) + u64::from(n % 7) * 300)).await;
            }
            done.at_it.set(done.at_it.get() - 1);
            while done.at_it.get() > 0 {
                time::sleep(Duration::from_millis(1)).await;
            }
            if client == 0 {
                let count: u32 = std::str::from_utf8(&side.content(&who, "counter").await.unwrap())
                    .unwrap()
                    .parse()
                    .unwrap();
                let (updates, doubtful) = (done.updates.get(), done.doubtful.get());
                assert!(count >= updates, "{updates} updates came to {count}; refused: {:?}", done.refused);
                assert!(count <= updates + doubtful, "{updates} and {doubtful} came to {count}");
            }
        }
    });
    let refused = done.refused.take();
    assert!(refused[1..].iter().all(|refused| *refused > 10), "they were in each other's way: {refused:?}");
}
