//! Every operation through an open whose name another has moved, replaced or removed: what moved is acted on where it is now, what is not in
//! the volume any more has no name to act on, and what has the name instead stays as it is.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use identity::Rights;
use lane::backend::sim::Fs;
use lane::time;
use smb_tree::{Open, RequestContext};
use smb_wire::Status;
use smb_wire::body::change_notify::{ChangeNotifyRequest, filter};
use smb_wire::body::query_info::{QueryInfoRequest, QueryInfoRequestFixed, info_type, security_information};
use smb_wire::body::set_info::{SetInfoRequest, SetInfoRequestFixed};
use smb_wire::chain::EntryWriter;
use smb_wire::create::access::{attributes, rights};
use smb_wire::create::{Disposition, options};
use smb_wire::fixed::Fixed;
use smb_wire::fsctl::code;
use smb_wire::fsctl::copy::{Chunk, Copy, ResumeKeyResponse};
use smb_wire::fsctl::reparse::Symlink;
use smb_wire::info::directory::Class;
use smb_wire::info::ea::{self, Ea};
use smb_wire::info::file::{BasicInformation, class, disposition, plain};
use smb_wire::info::security::{Ace, Descriptor, Sid, ace_type};
use smb_wire::text::encoded;
use smb_wire::time::from_unix;
use vfs::{Expect, Name, RelPath, Replace};
use zerocopy::{FromZeros, IntoBytes};

use super::directories::list;
use super::information::{file, full, renamed, set};
use super::locks::{AT_ONCE, lock};
use super::own_file::put_in;
use super::{Side, Wish, beside_programs, request_context};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    Directory,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::File => "n",
            Self::Directory => "s",
        }
    }

    fn options(self) -> u32 {
        match self {
            Self::File => 0,
            Self::Directory => options::DIRECTORY_FILE,
        }
    }
}

/// What becomes of the name while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Nothing,
    Moved,
    MovedAway,
    ParentMoved,
    UpperMoved,
    MovedAndMadeAnew,
    ParentMovedAndMadeAnew,
    MovedOut,
    ParentMovedOut,
    Replaced,
    Put,
    RenamedOver,
    Removed,
    RemovedBeside,
}

const FATES: [Fate; 13] = [
    Fate::Moved,
    Fate::MovedAway,
    Fate::ParentMoved,
    Fate::UpperMoved,
    Fate::MovedAndMadeAnew,
    Fate::ParentMovedAndMadeAnew,
    Fate::MovedOut,
    Fate::ParentMovedOut,
    Fate::Replaced,
    Fate::Put,
    Fate::RenamedOver,
    Fate::Removed,
    Fate::RemovedBeside,
];

impl Fate {
    /// Returns the directory and name that the open's object has afterwards, beneath the volume; `None` where it has none.
    fn place(self, kind: Kind) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Nothing => Some(("up/d", kind.name())),
            Self::Moved => Some(("up/d", "moved")),
            Self::MovedAway | Self::MovedAndMadeAnew => Some(("other", "moved")),
            Self::ParentMoved | Self::ParentMovedAndMadeAnew => Some(("up/e", kind.name())),
            Self::UpperMoved => Some(("other/up/d", kind.name())),
            Self::MovedOut
            | Self::ParentMovedOut
            | Self::Replaced
            | Self::Put
            | Self::RenamedOver
            | Self::Removed
            | Self::RemovedBeside => None,
        }
    }

    /// Returns whether that is how it can go with such a thing: no protocol puts anything in the place of a directory with names.
    fn befalls(self, kind: Kind) -> bool {
        kind == Kind::File || !matches!(self, Self::Put | Self::RenamedOver | Self::Removed)
    }

    async fn comes(self, side: &Side, fs: &Fs, kind: Kind) {
        let who = request_context(9);
        let at = format!("/srv/up/d/{}", kind.name());
        let anew = |at: &str| match kind {
            Kind::File => fs.write(at, "another").unwrap(),
            Kind::Directory => {
                fs.create_dir_all(at).unwrap();
                fs.write(&format!("{at}/another"), "another").unwrap();
            }
        };
        let directory = async || {
            let path = RelPath::parse(b"up/d").unwrap();
            let found = side.volume.lookup_as(&who.caller, path, Rights::NONE).await.unwrap();
            found.into_directory().unwrap().0
        };
        let name = |text: &'static str| Name::parse(text.as_bytes()).unwrap();
        match self {
            Self::Nothing => {}
            Self::Moved => fs.rename(&at, "/srv/up/d/moved").unwrap(),
            Self::MovedAway => fs.rename(&at, "/srv/other/moved").unwrap(),
            Self::ParentMoved => fs.rename("/srv/up/d", "/srv/up/e").unwrap(),
            Self::UpperMoved => fs.rename("/srv/up", "/srv/other/up").unwrap(),
            Self::MovedAndMadeAnew => {
                fs.rename(&at, "/srv/other/moved").unwrap();
                anew(&at);
            }
            Self::ParentMovedAndMadeAnew => {
                fs.rename("/srv/up/d", "/srv/up/e").unwrap();
                fs.create_dir_all("/srv/up/d").unwrap();
                anew(&at);
            }
            Self::MovedOut => fs.rename(&at, "/out/moved").unwrap(),
            Self::ParentMovedOut => fs.rename("/srv/up/d", "/out/d").unwrap(),
            Self::Replaced if kind == Kind::File => fs.replace(&at, "another").unwrap(),
            Self::Replaced => {
                fs.remove(&at).unwrap();
                anew(&at);
            }
            Self::Put => {
                put_in(&directory().await, &who, kind.name(), b"another", Expect::Anything).await.unwrap();
            }
            Self::RenamedOver => {
                side.make(&who, "up\\d\\over", b"another").await;
                let d = directory().await;
                d.rename(&who.caller, name("over"), &d, name(kind.name()), Replace::Existing).await.unwrap();
            }
            Self::Removed => directory().await.remove(&who.caller, name(kind.name())).await.unwrap(),
            Self::RemovedBeside => fs.remove(&at).unwrap(),
        }
    }
}

/// What is done through the open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    QueryFile(u8),
    QueryFileSystem(u8),
    QuerySecurity(u32),
    Read,
    Write,
    Flush,
    Lock,
    SetTimes,
    SetAttributes,
    SetExtended,
    SetPosition,
    SetMode,
    Cut,
    Allocate,
    SetValid,
    SetSecurity,
    Rename,
    RenameEx,
    RenameWithin,
    Link,
    Delete,
    DeleteEx,
    DeletePosix,
    WriteStream,
    MakeStream,
    CreateWithin,
    List,
    ListOne,
    ListInOtherCase,
    Notify,
    CopyWithin,
    Zero,
    Sparse,
    AllocatedRanges,
    GetReparse,
    BecomeLink,
    ObjectId,
}

fn acts() -> Vec<Act> {
    let file = [
        class::BASIC,
        class::STANDARD,
        class::INTERNAL,
        class::EA,
        class::ACCESS,
        class::POSITION,
        class::MODE,
        class::ALIGNMENT,
        class::ALL,
        class::ALTERNATE_NAME,
        class::STREAM,
        class::COMPRESSION,
        class::NETWORK_OPEN,
        class::ATTRIBUTE_TAG,
        class::NORMALIZED_NAME,
        class::ID,
        class::FULL_EA,
        class::POSIX,
    ];
    let security = [security_information::OWNER, security_information::GROUP, security_information::DACL];
    let mut acts: Vec<_> = file.into_iter().map(Act::QueryFile).collect();
    acts.extend([1, 3, 5].map(Act::QueryFileSystem));
    acts.extend(security.map(Act::QuerySecurity));
    acts.extend([
        Act::Read,
        Act::Write,
        Act::Flush,
        Act::Lock,
        Act::SetTimes,
        Act::SetAttributes,
        Act::SetExtended,
        Act::SetPosition,
        Act::SetMode,
        Act::Cut,
        Act::Allocate,
        Act::SetValid,
        Act::SetSecurity,
        Act::Rename,
        Act::RenameEx,
        Act::RenameWithin,
        Act::Link,
        Act::Delete,
        Act::DeleteEx,
        Act::DeletePosix,
        Act::WriteStream,
        Act::MakeStream,
        Act::CreateWithin,
        Act::List,
        Act::ListOne,
        Act::ListInOtherCase,
        Act::Notify,
        Act::CopyWithin,
        Act::Zero,
        Act::Sparse,
        Act::AllocatedRanges,
        Act::GetReparse,
        Act::BecomeLink,
        Act::ObjectId,
    ]);
    acts
}

fn who() -> RequestContext {
    RequestContext { posix: true, ..request_context(1) }
}

/// The opens of a client: of the file or directory, and of a stream of it.
struct Opens {
    open: Arc<Open>,
    stream: Arc<Open>,
}

impl Act {
    fn deletes(self) -> bool {
        matches!(self, Self::Delete | Self::DeleteEx | Self::DeletePosix)
    }

    /// Returns whether it acts on the object's name, of which there is none for what has left the volume.
    fn needs_name(self) -> bool {
        matches!(
            self,
            Self::Rename
                | Self::RenameEx
                | Self::RenameWithin
                | Self::Link
                | Self::MakeStream
                | Self::CreateWithin
        )
    }

    /// `place` is where the object is now.
    async fn happens(
        self,
        side: &Side,
        fs: &Fs,
        opens: &Opens,
        place: Option<(&str, &str)>,
    ) -> Result<Vec<u8>, Status> {
        let (who, open) = (&who(), &opens.open);
        let nothing = |_: ()| Vec::new();
        let basic = |change: &dyn Fn(&mut BasicInformation)| {
            let mut basic = BasicInformation::new_zeroed();
            change(&mut basic);
            basic.as_bytes().to_vec()
        };
        let control = async |code: u32, input: &[u8], room: u32| {
            let answer = side.share.ioctl(who, open, code, input, room).await?;
            if answer.status == Status::SUCCESS { Ok(answer.output) } else { Err(answer.status) }
        };
        let wire = |path: &str| path.replace('/', "\\");
        match self {
            Self::QueryFile(class) => match file(side, who, open, class).await {
                // Its path.
                Ok(told) if is_path(class) => Ok(told),
                told => told.map(drop).map(nothing),
            },
            Self::QueryFileSystem(class) => {
                let mut fixed = QueryInfoRequestFixed::blank();
                fixed.info_type = info_type::FILE_SYSTEM;
                fixed.file_info_class = class;
                fixed.output_buffer_length.set(4096);
                let request = QueryInfoRequest { fixed: &fixed, input: &[] };
                side.share.query_info(who, open, &request).await.map(drop).map(nothing)
            }
            Self::QuerySecurity(part) => {
                let mut fixed = QueryInfoRequestFixed::blank();
                fixed.info_type = info_type::SECURITY;
                fixed.additional_information.set(part);
                fixed.output_buffer_length.set(4096);
                let request = QueryInfoRequest { fixed: &fixed, input: &[] };
                side.share.query_info(who, open, &request).await.map(|answer| answer.output)
            }
            Self::Read => side.read(who, open, 0, 100).await,
            Self::Write => {
                side.share.write_bytes(who, open, 0, b"by the open", false).await.map(drop).map(nothing)
            }
            Self::Flush => side.share.flush(who, open).await.map(nothing),
            Self::Lock => lock(side, who, open, 0, AT_ONCE).await.map(nothing),
            Self::SetTimes => {
                let told = basic(&|basic| basic.last_write_time = from_unix(1_000_000_000, 0).into());
                set(side, who, open, class::BASIC, &told).await.map(nothing)
            }
            Self::SetAttributes => {
                let told = basic(&|basic| basic.file_attributes = attributes::HIDDEN.into());
                set(side, who, open, class::BASIC, &told).await.map(nothing)
            }
            Self::SetExtended => {
                let mut list = Vec::new();
                let mut entries = EntryWriter::new(&mut list, 4, 4096);
                assert!(ea::write(&mut entries, &Ea { name: b"SHAPE", value: b"round" }));
                set(side, who, open, class::FULL_EA, &list).await.map(nothing)
            }
            Self::SetPosition => {
                set(side, who, open, class::POSITION, &7_u64.to_le_bytes()).await.map(nothing)
            }
            Self::SetMode => set(side, who, open, class::MODE, &0_u32.to_le_bytes()).await.map(nothing),
            Self::Cut => set(side, who, open, class::END_OF_FILE, &1_u64.to_le_bytes()).await.map(nothing),
            Self::Allocate => {
                set(side, who, open, class::ALLOCATION, &9999_u64.to_le_bytes()).await.map(nothing)
            }
            Self::SetValid => {
                set(side, who, open, class::VALID_DATA_LENGTH, &1_u64.to_le_bytes()).await.map(nothing)
            }
            Self::SetSecurity => {
                let unheard = Sid::new(5, &[21, 1, 2, 3, 500]).unwrap();
                let only =
                    Ace { kind: ace_type::ACCESS_ALLOWED, flags: 0, mask: rights::FILE_READ, sid: unheard };
                let told = Descriptor { dacl: Some(vec![only]), ..Descriptor::default() }.to_bytes();
                let mut fixed = SetInfoRequestFixed::blank();
                fixed.info_type = info_type::SECURITY;
                fixed.additional_information.set(security_information::DACL);
                let request = SetInfoRequest { fixed: &fixed, data: &told };
                side.share.set_info(who, open, &request).await.map(nothing)
            }
            Self::Rename => set(side, who, open, class::RENAME, &renamed("given", false)).await.map(nothing),
            Self::RenameEx => {
                set(side, who, open, class::RENAME_EX, &renamed("given", true)).await.map(nothing)
            }
            Self::RenameWithin => {
                let above = wire(place.map_or("up/d", |(above, _)| above));
                let to = renamed(&format!("{above}\\given"), false);
                set(side, who, open, class::RENAME, &to).await.map(nothing)
            }
            Self::Link => set(side, who, open, class::LINK, &renamed("given", false)).await.map(nothing),
            Self::Delete => set(side, who, open, class::DISPOSITION, &[1]).await.map(nothing),
            Self::DeleteEx => set(side, who, open, class::DISPOSITION_EX, &disposition::DELETE.to_le_bytes())
                .await
                .map(nothing),
            Self::DeletePosix => {
                let bits = disposition::DELETE | disposition::POSIX_SEMANTICS;
                set(side, who, open, class::DISPOSITION_EX, &bits.to_le_bytes()).await.map(nothing)
            }
            Self::WriteStream => {
                side.share.write_bytes(who, &opens.stream, 0, b"more", false).await.map(drop).map(nothing)
            }
            Self::MakeStream => {
                let (above, name) = place.ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
                let (made, wish) = (wire(&format!("{above}/{name}:two")), Wish::new(Disposition::Create));
                accepted(side.status(who, &made, &wish).await).map(nothing)
            }
            Self::CreateWithin => {
                let (above, name) = place.ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
                let (made, wish) = (wire(&format!("{above}/{name}/new")), Wish::new(Disposition::Create));
                accepted(side.status(who, &made, &wish).await).map(nothing)
            }
            Self::List | Self::ListOne | Self::ListInOtherCase => {
                let pattern = match self {
                    Self::List => "*",
                    Self::ListOne => "in",
                    _ => "IN",
                };
                let names = list(side, who, open, (pattern, 1, Class::IdBothDirectory, 4096)).await?;
                Ok(names.join("/").into_bytes())
            }
            Self::Notify => {
                let mut request = ChangeNotifyRequest::blank();
                request.completion_filter.set(filter::FILE_NAME);
                request.output_buffer_length.set(4096);
                let mut told = pin!(side.share.change_notify(who, open, &request));
                // None, or where it ends otherwise than by what is told.
                let mut within = async |time: Duration| {
                    let mut over = pin!(time::sleep(time));
                    std::future::poll_fn(|cx| match told.as_mut().poll(cx) {
                        Poll::Ready(answer) => Poll::Ready(Some(answer.map(|answer| answer.output))),
                        Poll::Pending => over.as_mut().poll(cx).map(|()| None),
                    })
                    .await
                };
                // The kernel's watch may have to begin where it is now.
                if let Some(ended) = within(Duration::from_secs(1)).await {
                    return ended;
                }
                let made =
                    place.and_then(|(above, name)| fs.write(&format!("/srv/{above}/{name}/told"), "").ok());
                // Where there is no such directory nothing happens.
                made.ok_or(GONE[0])?;
                within(Duration::from_secs(5)).await.unwrap_or(Err(Status::CANCELLED))
            }
            Self::CopyWithin => {
                let key = control(code::SRV_REQUEST_RESUME_KEY, &[], 32).await?;
                let key = plain::<ResumeKeyResponse>(&key).unwrap().resume_key;
                let chunk = Chunk {
                    source_offset: 0.into(),
                    target_offset: 100.into(),
                    length: 2.into(),
                    reserved: 0.into(),
                };
                let input = Copy { source_key: &key, chunks: &[chunk] }.to_bytes();
                control(code::SRV_COPYCHUNK, &input, 12).await.map(drop).map(nothing)
            }
            Self::Zero => {
                let range = [0_u64.to_le_bytes(), 2_u64.to_le_bytes()].concat();
                control(code::SET_ZERO_DATA, &range, 0).await.map(drop).map(nothing)
            }
            Self::Sparse => control(code::SET_SPARSE, &[], 0).await.map(drop).map(nothing),
            Self::AllocatedRanges => {
                let range = [0_u64.to_le_bytes(), 100_u64.to_le_bytes()].concat();
                control(code::QUERY_ALLOCATED_RANGES, &range, 64).await.map(drop).map(nothing)
            }
            Self::GetReparse => control(code::GET_REPARSE_POINT, &[], 64).await.map(drop).map(nothing),
            Self::BecomeLink => {
                set(side, who, open, class::END_OF_FILE, &0_u64.to_le_bytes()).await?;
                let link = Symlink { target: "in".to_owned(), relative: true }.to_bytes().unwrap();
                control(code::SET_REPARSE_POINT, &link, 0).await.map(drop).map(nothing)
            }
            Self::ObjectId => control(code::CREATE_OR_GET_OBJECT_ID, &[], 64).await.map(drop).map(nothing),
        }
    }
}

fn accepted(status: Status) -> Result<(), Status> {
    if status == Status::SUCCESS { Ok(()) } else { Err(status) }
}

/// How all looks beneath the volume, by paths.
fn looks(fs: &Fs) -> BTreeMap<String, (u64, String)> {
    let tree = fs.tree();
    let told = |found: &lane::backend::sim::Found| {
        let kept: BTreeMap<_, _> =
            found.xattrs.iter().filter(|(name, _)| name.starts_with(b"user.")).collect();
        format!("{:?} {kept:?}", found.kind)
    };
    tree.iter().map(|(path, found)| (path.clone(), (found.ino, told(found)))).collect()
}

/// Outcome of an act, with the object's look and its path afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    came: Result<Vec<u8>, Status>,
    /// Paths of the object, each relative to the directory where it was before, and how it looks.
    left: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timing {
    AtOnce,
    Later,
    /// The directory is not watched, as so many changes there are the server's.
    Busy,
}

/// Runs one case, and checks what holds for all of them.
fn outcome(kind: Kind, fate: Fate, act: Act, timing: Timing) -> Outcome {
    let result = std::rc::Rc::new(std::cell::RefCell::new(None));
    let put = std::rc::Rc::clone(&result);
    beside_programs(move |side, fs| {
        let put = std::rc::Rc::clone(&put);
        async move {
            let what = format!("{kind:?} {fate:?} {act:?} {timing:?}");
            let who = who();
            fs.create_dir_all("/srv/up/d/s").unwrap();
            fs.create_dir_all("/srv/other").unwrap();
            fs.create_dir_all("/out").unwrap();
            fs.write("/srv/up/d/n", "first").unwrap();
            fs.write("/srv/up/d/s/in", "inside").unwrap();
            if timing == Timing::Busy {
                for _ in 0..100 {
                    let wish = Wish::new(Disposition::Create).with(options::DELETE_ON_CLOSE);
                    let open = side.open(&who, "up\\d\\b", &wish).await;
                    side.share.close(&who, &open, 0).await.unwrap();
                }
            }
            let path = format!("up\\d\\{}", kind.name());
            let wish = Wish { disposition: Disposition::Open, ..full() };
            let open = side.open(&who, &path, &wish.clone().with(kind.options())).await;
            let stream = side.open(&who, &format!("{path}:one"), &full()).await;
            side.share.write_bytes(&who, &stream, 0, b"1", false).await.unwrap();
            let opens = Opens { open, stream };
            if kind == Kind::Directory && timing != Timing::Later {
                // A listing says nothing about where it is afterwards.
                assert!(list(&side, &who, &opens.open, ("*", 1, Class::IdBothDirectory, 4096)).await.is_ok());
            }
            let ino = fs.stat(&format!("/srv/up/d/{}", kind.name())).unwrap().ino;
            time::sleep(Duration::from_millis(50)).await;
            if act.deletes() && kind == Kind::Directory {
                fs.remove("/srv/up/d/s/in").unwrap();
            }
            fate.comes(&side, &fs, kind).await;
            let place = fate.place(kind);
            if timing == Timing::Later {
                time::sleep(Duration::from_secs(2)).await;
            }
            let before = looks(&fs);
            let came = act.happens(&side, &fs, &opens, place).await;
            side.share.close(&who, &opens.stream, 0).await.unwrap();
            side.share.close(&who, &opens.open, 0).await.unwrap();
            time::sleep(Duration::from_secs(2)).await;
            assert_ne!(came, Err(Status::INSUFFICIENT_RESOURCES), "{what}");
            let after = looks(&fs);
            // Whatever else there is stays as it is.
            let own = place.map(|(above, name)| format!("/srv/{above}/{name}"));
            let is_own = |path: &String, ino_of: u64| {
                ino_of == ino
                    || own.as_ref().is_some_and(|own| path.starts_with(&format!("{own}/")))
                    || path.starts_with("/srv/given")
                    || path.ends_with("/given/in")
            };
            for (path, (other, look)) in before.iter().filter(|(path, (other, _))| !is_own(path, *other)) {
                let now = after.get(path);
                let is_directory = look.starts_with("Directory");
                assert!(
                    now.is_some_and(|now| is_directory && now.0 == *other || now == &(*other, look.clone())),
                    "{what}: {path} was {look}, is {now:?}; {came:?}"
                );
            }
            let above = place.map(|(above, _)| format!("/srv/{above}/"));
            let mut left: Vec<_> = after
                .iter()
                .filter(|(_, (other, _))| *other == ino)
                .map(|(path, (_, look))| {
                    let told = above.as_deref().and_then(|above| path.strip_prefix(above)).unwrap_or(path);
                    let told = if place.is_some_and(|(_, name)| name == told) { "itself" } else { told };
                    (told.to_owned(), look.clone())
                })
                .collect();
            left.sort();
            put.replace(Some(Outcome { came, left }));
        }
    });
    result.take().unwrap()
}

/// Statuses of what has no name any more.
const GONE: [Status; 2] = [Status::OBJECT_NAME_NOT_FOUND, Status::FILE_DELETED];

/// Acts of which nothing depends on when they happen: they ask the open file.
fn asks(act: Act) -> bool {
    match act {
        Act::QueryFile(class) => !is_path(class),
        Act::QueryFileSystem(_) => true,
        _ => false,
    }
}

fn is_path(class: u8) -> bool {
    matches!(class, class::ALL | class::NORMALIZED_NAME | class::ALTERNATE_NAME)
}

fn check(kind: Kind, timing: Timing) {
    let mut wrong = Vec::new();
    for act in acts().into_iter().filter(|act| timing == Timing::Later || !asks(*act)) {
        let alone = outcome(kind, Fate::Nothing, act, Timing::Later);
        for fate in FATES.into_iter().filter(|fate| fate.befalls(kind)) {
            let came = outcome(kind, fate, act, timing);
            let status = |outcome: &Outcome| outcome.came.clone().err();
            let is_right = match (fate.place(kind), act) {
                (Some(_), Act::QueryFile(class)) if is_path(class) => {
                    came.left == alone.left && tells_place(kind, fate, class, timing, &came.came)
                }
                (Some(_), _) => came == alone,
                (None, _) => {
                    let is_gone = status(&came).is_some_and(|status| GONE.contains(&status));
                    let has_left = matches!(fate, Fate::MovedOut | Fate::ParentMovedOut);
                    // The watch ends; and where the directory was nothing is made.
                    let ends = act == Act::Notify && came.came.is_ok()
                        || act == Act::RenameWithin
                            && fate == Fate::ParentMovedOut
                            && status(&came) == Some(Status::OBJECT_PATH_NOT_FOUND);
                    let is_as_alone =
                        status(&came) == status(&alone) && (came.came.is_err() || !act.needs_name());
                    is_gone && !has_left || status(&came) == Some(GONE[0]) || is_as_alone || ends
                }
            };
            if !is_right {
                wrong.push(format!(
                    "{kind:?} {fate:?} {act:?} {timing:?}:\n    came {came:?}\n    alone {alone:?}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Returns whether a path, or the last name of one that is short, is that of the object's place: within a moment of the move it may be of before.
fn tells_place(kind: Kind, fate: Fate, class: u8, timing: Timing, told: &Result<Vec<u8>, Status>) -> bool {
    let Some((above, name)) = fate.place(kind) else { return false };
    let Ok(told) = told else { return false };
    let path = format!("{above}/{name}").replace('/', "\\");
    let expected = encoded(if class == class::ALTERNATE_NAME { name } else { &path });
    timing != Timing::Later || told.ends_with(&expected)
}

#[test]
fn what_is_done_through_an_open_file_is_done_to_it_wherever_it_is() {
    check(Kind::File, Timing::Later);
}

#[test]
fn what_is_done_at_once_through_an_open_file_is_done_to_it_wherever_it_is() {
    check(Kind::File, Timing::AtOnce);
}

#[test]
fn what_is_done_through_an_open_file_in_a_busy_directory_is_done_to_it_wherever_it_is() {
    check(Kind::File, Timing::Busy);
}

#[test]
fn what_is_done_through_an_open_directory_is_done_to_it_wherever_it_is() {
    check(Kind::Directory, Timing::Later);
}

#[test]
fn what_is_done_at_once_through_an_open_directory_is_done_to_it_wherever_it_is() {
    check(Kind::Directory, Timing::AtOnce);
}

#[test]
fn what_is_done_through_an_open_directory_in_a_busy_directory_is_done_to_it_wherever_it_is() {
    check(Kind::Directory, Timing::Busy);
}
