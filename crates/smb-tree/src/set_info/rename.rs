//! Renames and hard links (MS-FSCC 2.4.42, 2.4.28, MS-FSA 2.1.5.15.11).

use std::sync::Arc;

use identity::Rights;
use smb_wire::Status;
use smb_wire::create::access::{attributes, rights};
use smb_wire::info::file::{Rename, class};
use smb_wire::malformed::Malformed;
use smb_wire::name::{COMPONENT_MAX, Name as WireName};
use smb_wire::text::Text;
use vfs::{Directory, Error, Name, Object, RelPath, Replace, Resolved};

use crate::by_name::{NameRefusal, NamedOpen};
use crate::lane_handle::{LaneHandle, VALUE_MAX};
use crate::names::{self, PathLookup, to_stored};
use crate::open::{Open, OpenKind, Renamed};
use crate::request_context::RequestContext;
use crate::share::Share;
use crate::status;
use crate::streams::{self, StreamChange};

/// The directory and name that a rename or link is to lead to, and the file that has the name now.
struct RenameTarget {
    directory: Directory,
    /// Name as it was asked for.
    name: Vec<u8>,
    /// Name as it is there, if anything has it in some case.
    stored: Vec<u8>,
    /// File that has the new name now.
    replaced: Option<Replaced>,
}

/// File with a name that is to lead elsewhere.
enum Replaced {
    /// A symbolic link, whatever it leads to: it is replaced itself, as by rename(2).
    Link(Arc<Object>),
    It(Resolved),
}

impl Replaced {
    fn is(&self, object: &Arc<Object>) -> bool {
        let own = match self {
            Self::Link(link) => Some(link),
            Self::It(it) => it.object(),
        };
        own.is_some_and(|own| Arc::ptr_eq(own, object))
    }
}

impl Share {
    pub(super) async fn rename(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        data: &[u8],
        class: u8,
    ) -> Result<(), Status> {
        let rename = parse(data)?;
        //= MS-SMB2 3.3.5.21.1
        //# A rename takes DELETE.
        if !open.may(rights::DELETE) {
            return Err(Status::ACCESS_DENIED);
        }
        let replaces = if class == class::RENAME_EX { rename.flags & 1 != 0 } else { rename.replace };
        let text = rename.name.decode().ok_or(Status::OBJECT_NAME_INVALID)?;
        if text.starts_with(':') {
            return self.rename_stream(ctx, open, &text, replaces).await;
        }
        //= MS-FSA 2.1.5.15.11
        //# A stream's new name begins with a colon; it stays in its file.
        if open.kind() == OpenKind::Stream {
            return Err(Status::INVALID_PARAMETER);
        }
        let name = new_name(rename.name, replaces)?;
        for attempt in 0..ATTEMPTS_MAX {
            if self.try_rename(ctx, open, &name, replaces, attempt > 0).await? {
                return Ok(());
            }
        }
        Err(Status::OBJECT_NAME_COLLISION)
    }

    /// Returns whether it is renamed: else the name is taken by now by what is to be replaced, which is
    /// looked for anew.
    async fn try_rename(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        name: &WireName,
        replaces: bool,
        is_taken: bool,
    ) -> Result<bool, Status> {
        // A Mac, and a client of the POSIX extensions, goes on by its opens wherever they are.
        let moves_opens = ctx.posix || ctx.apple.is_spoken();
        let caller = vfs::Caller { moves_opens, ..ctx.by(open) };
        let handle = self.handle(ctx, open).await?;
        let before = handle.attributes()?;
        let is_renamed = self.by_name(&caller, NamedOpen::of_name(open, &handle), async |here, from_name| {
            let target = self.target(open, &caller, name, is_taken).await?;
            self.rename_here(open, &caller, (here, from_name), &target, replaces).await
        });
        if !is_renamed.await? {
            return Ok(false);
        }
        if open.by_link.is_some() {
            // The file has not moved.
            return Ok(true);
        }
        self.archive(ctx, open, &handle).await;
        if let Ok(now) = handle.attributes() {
            let mut state = open.state();
            let first = state.renamed.filter(|renamed| renamed.holds(&before));
            let before = first.map_or(before.ctime, |renamed| renamed.before);
            state.renamed = Some(Renamed { before, left: now.ctime, written: now.mtime });
        }
        Ok(true)
    }

    /// Returns whether it is renamed ([`Share::try_rename`]).
    async fn rename_here(
        &self,
        open: &Open,
        caller: &vfs::Caller,
        (here, from_name): (&Directory, Name<'_>),
        target: &RenameTarget,
        replaces: bool,
    ) -> Result<bool, NameRefusal> {
        let own = open.named().object();
        let (name, over) = match &target.replaced {
            Some(it) if it.is(own) && self.gives_way(open, caller, target, (here, from_name)).await? => {
                (&target.name, Replace::Never)
            }
            // It has that name already: a client that keeps it for later is asked for it all the same, as
            // with Windows. Or another name of its own is to be written otherwise.
            Some(it) if it.is(own) && target.name == target.stored => (&target.name, Replace::Existing),
            Some(it) if it.is(own) => (&target.name, Replace::Never),
            Some(_) if !replaces => return Err(Status::OBJECT_NAME_COLLISION.into()),
            // A link takes the place of anything but of what it leads to, which the open is of: the content would be lost.
            Some(Replaced::It(it)) if is_it(it, open) => return Err(Status::ACCESS_DENIED.into()),
            Some(it) => {
                self.may_replace(it).await?;
                // A directory takes the place of nothing but a directory, as with Samba. A link that leads to one is none.
                if open.is_directory() && open.by_link.is_none() {
                    return Err(Status::OBJECT_NAME_COLLISION.into());
                }
                (&target.stored, Replace::Existing)
            }
            None => (&target.name, Replace::Never),
        };
        //= MS-FSA 2.1.5.15.11
        //# In a directory that a client has open to delete it nothing is renamed: STATUS_SHARING_VIOLATION. Nor where what lies beneath what
        //# moves is open, or what is replaced is open to be read or written, or by an open that does not share its deletion:
        //# STATUS_ACCESS_DENIED. Clients that keep opens for later are asked for them first.
        // By the letter any open of what is replaced is in the way. One that renames or deletes, or looks at
        // attributes, is not here: it has a file without a name then, and of several that rename onto one
        // name none is refused.
        let to = Name::parse(name).map_err(|_| Status::OBJECT_NAME_INVALID)?;
        // The name may have come to lead to another file, which the open has nothing to do with.
        match here.rename_if(caller, own.number(), from_name, &target.directory, to, over).await {
            // Another client has made what is to be replaced since it was looked for.
            Err(Error::Exists) if replaces && target.replaced.is_none() => Ok(false),
            renamed => Ok(renamed.map(|()| true)?),
        }
    }

    /// Takes another name of the same file away, which this one is to become: the kernel would leave both.
    async fn gives_way(
        &self,
        open: &Open,
        caller: &vfs::Caller,
        target: &RenameTarget,
        (here, from): (&Directory, Name<'_>),
    ) -> Result<bool, Status> {
        let is_here = match (here.object(), target.directory.object()) {
            (Some(here), Some(there)) => Arc::ptr_eq(here, there),
            _ => true,
        };
        if open.kind() != OpenKind::File
            || open.by_link.is_some()
            || (is_here && target.stored == from.as_bytes())
        {
            return Ok(false);
        }
        //= MS-FSA 2.1.5.15.12
        //# Onto another name of the same file, whether that is to be replaced or not: one name is left, the new one.
        let name = Name::parse(&target.stored).map_err(|_| Status::OBJECT_NAME_INVALID)?;
        let which = open.grants().object().number();
        match target.directory.remove_which(caller, which, name, false).await {
            Ok(()) => Ok(true),
            // It leads to something else by now.
            Err(Error::Unexpected) => Ok(false),
            Err(error) => Err(status::of(error)),
        }
    }

    /// Makes a hard link, in any directory of the share where no user gets or loses rights by it.
    pub(super) async fn link(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        data: &[u8],
    ) -> Result<(), Status> {
        let link = parse(data)?;
        //= MS-FSA 2.1.5.15.7
        //# A stream has no further names, and a directory has none.
        match open.kind() {
            OpenKind::File => {}
            OpenKind::Stream => return Err(Status::INVALID_PARAMETER),
            OpenKind::Directory | OpenKind::Link => return Err(Status::FILE_IS_A_DIRECTORY),
        }
        let name = new_name(link.name, link.replace)?;
        let (caller, handle) = (ctx.by(open), self.handle(ctx, open).await?);
        let linked = self.by_name(&caller, NamedOpen::of_file(open, &handle), async |here, from_name| {
            self.link_here(open, &caller, (here, from_name), (&name, link.replace)).await
        });
        linked.await
    }

    async fn link_here(
        &self,
        open: &Open,
        caller: &vfs::Caller,
        (here, from_name): (&Directory, Name<'_>),
        (name, replaces): (&WireName, bool),
    ) -> Result<(), NameRefusal> {
        let mut linked = Err(Error::Exists);
        for is_taken in [false, true] {
            let target = self.target(open, caller, name, is_taken).await?;
            let (to, over) = match &target.replaced {
                //= MS-FSA 2.1.5.15.7
                //# A name that is there is replaced where that was asked for, the file's own with itself.
                Some(_) if !replaces => return Err(Status::OBJECT_NAME_COLLISION.into()),
                Some(Replaced::It(it)) if is_it(it, open) => return Ok(()),
                Some(it) => {
                    self.may_replace(it).await?;
                    (&target.stored, Replace::Existing)
                }
                None => (&target.name, Replace::Never),
            };
            let to = Name::parse(to).map_err(|_| Status::OBJECT_NAME_INVALID)?;
            let which = open.grants().object().number();
            linked = here.link_to(caller, which, from_name, &target.directory, to, over).await;
            // Nothing was found of a link that leads nowhere and has the name.
            if !(matches!(linked, Err(Error::Exists)) && replaces && target.replaced.is_none()) {
                break;
            }
        }
        Ok(linked?)
    }

    /// Returns where the new name lies.
    ///
    /// `is_taken` says that something has the name of which nothing was found.
    async fn target(
        &self,
        open: &Open,
        caller: &vfs::Caller,
        name: &WireName,
        is_taken: bool,
    ) -> Result<RenameTarget, Status> {
        let lookup = names::find(self, caller, name, open.case).await;
        // The name is what is taken, whatever it leads to.
        let link = match &lookup {
            Ok(PathLookup { by_link: Some(path), found: Some(_), .. }) => {
                self.link_at(caller, path.as_path()).await?
            }
            Ok(PathLookup { found: None, .. }) if is_taken => self.link_named(caller, name).await?,
            // One that leads out of the share, or round in a circle.
            Err(Status::ACCESS_DENIED) => self.link_named(caller, name).await?,
            _ => None,
        };
        let (path, replaced) = match link {
            Some((path, found)) => (path, Some(Replaced::Link(found.link.object))),
            None => {
                let lookup = lookup?;
                (
                    lookup.by_link.unwrap_or(lookup.path),
                    lookup.found.map(|found| Replaced::It(found.resolved)),
                )
            }
        };
        let path = path.as_path();
        let is_root = path == self.root_path();
        let directory = self.directory_at(caller, path.parent().filter(|_| !is_root)).await?;
        let (last, stored) = name.path.last().zip(path.file_name()).ok_or(Status::OBJECT_NAME_INVALID)?;
        Ok(RenameTarget {
            directory,
            name: to_stored(last).ok_or(Status::OBJECT_NAME_INVALID)?,
            stored: stored.as_bytes().to_vec(),
            replaced,
        })
    }

    pub(crate) async fn directory_at(
        &self,
        caller: &vfs::Caller,
        path: Option<RelPath<'_>>,
    ) -> Result<Directory, Status> {
        let found = self.volume().lookup_as(caller, path.unwrap_or(RelPath::ROOT), Rights::NONE).await;
        let (directory, _) = found.and_then(Resolved::into_directory).map_err(status::of_way)?;
        // A link on the way may have come to lead elsewhere.
        self.holds_directory(&directory)?;
        Ok(directory)
    }

    //= MS-FSA 2.1.5.15.11
    //# A directory, and a file that is not to be written, is not replaced: STATUS_ACCESS_DENIED.
    async fn may_replace(&self, replaced: &Replaced) -> Result<(), Status> {
        let Replaced::It(replaced) = replaced else { return Ok(()) };
        if matches!(replaced, Resolved::Directory(..)) {
            return Err(Status::ACCESS_DENIED);
        }
        let kept =
            self.dos_of(&LaneHandle::new(replaced.clone(), None)).await?.attributes.unwrap_or_default();
        if kept & attributes::READONLY == 0 { Ok(()) } else { Err(Status::ACCESS_DENIED) }
    }

    /// Gives a stream another name, within its file.
    async fn rename_stream(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        text: &str,
        replaces: bool,
    ) -> Result<(), Status> {
        let name = stream_named(text)?;
        let handle = self.handle(ctx, open).await?;
        let Some(from) = open.stream() else {
            // A directory's own stream has no other name. A file's content stays where it is, as with Samba.
            return Err(if open.is_directory() { Status::INVALID_PARAMETER } else { Status::NOT_SUPPORTED });
        };
        if name.is_empty() {
            return Err(self.as_content(open, &handle, replaces).await?);
        }
        if name == &*from {
            return Ok(());
        }
        let there = streams::find(&handle, name).await?.filter(|there| *there != *from);
        if there.is_some() && !replaces {
            return Err(Status::OBJECT_NAME_COLLISION);
        }
        // What others have open stays where it is, as files that are open are not replaced.
        let call = |stream: &str| {
            let named = open.grants().rename_stream(self.volume(), streams::folded(stream).as_bytes());
            named.map_err(|_| Status::SHARING_VIOLATION)
        };
        call(name)?;
        let moved = self.move_stream(ctx, open, &handle, (&from, name), there.as_deref()).await;
        match moved {
            Ok(()) => {
                open.state().stream = Some(name.into());
                self.archive(ctx, open, &handle).await;
            }
            // It has its old name again, which nothing had meanwhile.
            Err(_) => call(&from)?,
        }
        moved
    }

    /// Returns why a stream does not become the content of its file.
    async fn as_content(&self, open: &Open, handle: &LaneHandle, replaces: bool) -> Result<Status, Status> {
        debug_assert_eq!(open.kind(), OpenKind::Stream);
        //= MS-FSA 2.1.5.15.12.1
        //# A directory has no unnamed stream. A file's is there, and is replaced on request where it is empty.
        Ok(match handle.directory() {
            Some(_) => Status::INVALID_PARAMETER,
            None if !replaces => Status::OBJECT_NAME_COLLISION,
            None if handle.attributes()?.size != 0 => Status::INVALID_PARAMETER,
            // The open would become one of a file.
            None => Status::NOT_SUPPORTED,
        })
    }

    async fn move_stream(
        &self,
        ctx: &RequestContext,
        open: &Open,
        handle: &LaneHandle,
        (from, to): (&str, &str),
        replaced: Option<&str>,
    ) -> Result<(), Status> {
        let (caller, object) = (ctx.by(open), open.grants().object());
        let value = handle.extended(&streams::attribute(from), VALUE_MAX).await?;
        let value = value.ok_or(Status::FILE_DELETED)?;
        if let Some(replaced) = replaced {
            self.change_stream(&caller, handle, object, replaced, StreamChange::Remove).await?;
        }
        let set = handle.set_extended(self.volume(), &caller, object, &streams::attribute(to), value).await;
        set.map_err(status::of)?;
        self.change_stream(&caller, handle, object, from, StreamChange::Remove).await
    }
}

/// Parses the name in `:name` or `:name:$DATA`; empty for the file's own content.
fn stream_named(text: &str) -> Result<&str, Status> {
    let mut parts = text.split(':').skip(1);
    let (name, kind, more) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    //= MS-FSA 2.1.5.15.12.1
    //# A colon at the end, too many of them, and characters that no stream's name has: STATUS_INVALID_PARAMETER.
    let is_wrong = text.ends_with(':')
        || more.is_some()
        || name.contains(['\\', '/', '\0'])
        || name.encode_utf16().count() > COMPONENT_MAX;
    if is_wrong {
        return Err(Status::INVALID_PARAMETER);
    }
    //= MS-FSA 2.1.5.15.12.1
    //# Another type than a stream of data has: STATUS_OBJECT_TYPE_MISMATCH.
    match kind {
        Some(kind) if !kind.eq_ignore_ascii_case("$DATA") => Err(Status::OBJECT_TYPE_MISMATCH),
        _ => Ok(name),
    }
}

/// Returns what a rename or link asks for.
fn parse(data: &[u8]) -> Result<Rename<'_>, Status> {
    let asked = Rename::parse(data).map_err(|why| match why {
        Malformed::Short => Status::INFO_LENGTH_MISMATCH,
        //= MS-FSA 2.1.5.15.12
        //# A name of odd length, one that is longer than its buffer, and a root directory: STATUS_INVALID_PARAMETER.
        _ => Status::INVALID_PARAMETER,
    })?;
    //= MS-FSA 2.1.5.15.12
    //# And so is none.
    if asked.name.is_empty() { Err(Status::INVALID_PARAMETER) } else { Ok(asked) }
}

/// Returns the new name of a file or directory, which is neither a stream's nor the share's root.
fn new_name(text: Text<'_>, replaces: bool) -> Result<WireName, Status> {
    let name = WireName::parse(text)?;
    if name.stream.is_some() || name.is_data {
        return Err(Status::OBJECT_NAME_INVALID);
    }
    //= MS-FSA 2.1.5.15.11
    //# Nothing takes the place of a root.
    match name.path.is_empty() {
        true if replaces => Err(Status::ACCESS_DENIED),
        true => Err(Status::OBJECT_NAME_COLLISION),
        false => Ok(name),
    }
}

fn is_it(found: &Resolved, open: &Open) -> bool {
    found.object().is_some_and(|object| Arc::ptr_eq(object, open.grants().object()))
}

/// Looks for what has the new name while others give it to something, or take it away.
const ATTEMPTS_MAX: u32 = 16;
