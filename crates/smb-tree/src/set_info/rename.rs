//! Another name, or one more (MS-FSCC 2.4.42, 2.4.28, MS-FSA 2.1.5.15.11).

use std::sync::Arc;

use identity::Rights;
use smb_wire::Status;
use smb_wire::create::access::{attributes, rights};
use smb_wire::info::file::{Rename, class};
use smb_wire::name::Name as WireName;
use vfs::{Directory, Error, Name, Over, RelPath, Resolved};

use crate::asker::Asker;
use crate::hand::{Hand, VALUE_MAX};
use crate::names::{self, to_stored};
use crate::open::{Open, OpenKind, Renamed};
use crate::share::Share;
use crate::status;
use crate::streams::{self, Change};

/// Where a name is to lead to what is open.
struct Target {
    directory: Directory,
    /// As it was asked for,
    name: Vec<u8>,
    /// and as it is there, if anything has it in some case.
    stored: Vec<u8>,
    /// What has it now.
    replaced: Option<Resolved>,
}

impl Share {
    pub(super) async fn rename(
        &self,
        asker: &Asker,
        open: &Arc<Open>,
        data: &[u8],
        class: u8,
    ) -> Result<(), Status> {
        let rename = Rename::parse(data).map_err(super::mismatch)?;
        //= MS-SMB2 3.3.5.21.1
        //# A rename takes DELETE.
        if !open.may(rights::DELETE) {
            return Err(Status::ACCESS_DENIED);
        }
        let replaces = if class == class::RENAME_EX { rename.flags & 1 != 0 } else { rename.replace };
        let text = rename.name.decode().ok_or(Status::OBJECT_NAME_INVALID)?;
        if text.starts_with(':') {
            return self.rename_stream(asker, open, &text, replaces).await;
        }
        if open.kind() == OpenKind::Stream {
            return Err(Status::NOT_SUPPORTED);
        }
        let name = WireName::parse(rename.name)?;
        if name.stream.is_some() {
            return Err(Status::NOT_SUPPORTED);
        }
        for _ in 0..ATTEMPTS_MAX {
            if self.try_rename(asker, open, &name, replaces).await? {
                return Ok(());
            }
        }
        Err(Status::OBJECT_NAME_COLLISION)
    }

    /// Whether it is renamed: else the name is taken by now by what is to be replaced, which is looked for anew.
    async fn try_rename(
        &self,
        asker: &Asker,
        open: &Arc<Open>,
        name: &WireName,
        replaces: bool,
    ) -> Result<bool, Status> {
        let caller = asker.by(open);
        let from = open.grants().path(self.volume()).ok_or(Status::FILE_DELETED)?;
        let from_name = from.as_path().file_name().ok_or(Status::ACCESS_DENIED)?;
        let target = self.target(open, &caller, name).await?;
        let here = self.directory_at(&caller, from.as_path().parent()).await?;
        let (name, over) = match &target.replaced {
            // It has that name already: who keeps it for later is asked for it all the same, as with Windows. Or another name of its own is
            // to be written otherwise.
            Some(it) if is_it(it, open) && target.name == target.stored => (&target.name, Over::Anything),
            Some(it) if is_it(it, open) => (&target.name, Over::Nothing),
            Some(_) if !replaces => return Err(Status::OBJECT_NAME_COLLISION),
            Some(it) => {
                self.may_replace(it).await?;
                (&target.stored, Over::Anything)
            }
            None => (&target.name, Over::Nothing),
        };
        //= MS-FSA 2.1.5.15.11
        //# In a directory that somebody has open to delete it nothing is renamed: STATUS_SHARING_VIOLATION. Nor where what lies beneath what
        //# moves is open, or what is replaced is open to be read or written, or by somebody who does not share its deletion:
        //# STATUS_ACCESS_DENIED. Who keeps opens for later is asked for them first.
        // By the letter any open of what is replaced is in the way. One that renames or deletes, or looks at attributes, is not here: it has a file
        // without a name then, and of several who rename onto one name none is refused.
        let to = Name::parse(name).map_err(|_| Status::OBJECT_NAME_INVALID)?;
        let hand = self.hand(asker, open).await?;
        let before = hand.attributes()?;
        // The name may have come to lead to another file, which the open has nothing to do with.
        let which = open.grants().object().number();
        match here.rename_if(&caller, which, from_name, &target.directory, to, over).await {
            // Somebody else has made what is to be replaced since it was looked for.
            Err(Error::Exists) if replaces && target.replaced.is_none() => return Ok(false),
            renamed => renamed.map_err(status::of)?,
        }
        if let Ok(now) = hand.attributes() {
            let mut state = open.state();
            let first = state.renamed.filter(|renamed| renamed.holds(&before));
            let before = first.map_or(before.ctime, |renamed| renamed.before);
            state.renamed = Some(Renamed { before, left: now.ctime, written: now.mtime });
        }
        Ok(true)
    }

    /// One more name for a file, in any directory of the share where nobody gets or loses rights by it.
    pub(super) async fn link(&self, asker: &Asker, open: &Arc<Open>, data: &[u8]) -> Result<(), Status> {
        let link = Rename::parse(data).map_err(super::mismatch)?;
        if open.kind() != OpenKind::File {
            return Err(Status::FILE_IS_A_DIRECTORY);
        }
        let name = WireName::parse(link.name)?;
        let caller = asker.by(open);
        let from = open.grants().path(self.volume()).ok_or(Status::FILE_DELETED)?;
        let from_name = from.as_path().file_name().ok_or(Status::ACCESS_DENIED)?;
        let target = self.target(open, &caller, &name).await?;
        let here = self.directory_at(&caller, from.as_path().parent()).await?;
        let (to, over) = match &target.replaced {
            Some(it) if is_it(it, open) => return Ok(()),
            Some(_) if !link.replace => return Err(Status::OBJECT_NAME_COLLISION),
            Some(it) => {
                self.may_replace(it).await?;
                (&target.stored, Over::Anything)
            }
            None => (&target.name, Over::Nothing),
        };
        let to = Name::parse(to).map_err(|_| Status::OBJECT_NAME_INVALID)?;
        let which = open.grants().object().number();
        here.link_to(&caller, which, from_name, &target.directory, to, over).await.map_err(status::of)
    }

    /// Where the new name lies.
    async fn target(&self, open: &Open, caller: &vfs::Caller, name: &WireName) -> Result<Target, Status> {
        let last = name.path.last().ok_or(Status::OBJECT_NAME_COLLISION)?;
        let spot = names::find(self, caller, name, open.case).await?;
        // The name is what is taken, whatever it leads to: a link that has it is replaced itself, as by rename(2).
        let path = spot.by_link.as_ref().unwrap_or(&spot.path).as_path();
        let is_root = path == self.root_path();
        let directory = self.directory_at(caller, path.parent().filter(|_| !is_root)).await?;
        let stored = path.file_name().ok_or(Status::OBJECT_NAME_COLLISION)?;
        Ok(Target {
            directory,
            name: to_stored(last).ok_or(Status::OBJECT_NAME_INVALID)?,
            stored: stored.as_bytes().to_vec(),
            replaced: spot.found.map(|found| found.resolved),
        })
    }

    pub(crate) async fn directory_at(
        &self,
        caller: &vfs::Caller,
        path: Option<RelPath<'_>>,
    ) -> Result<Directory, Status> {
        let found = self.volume().lookup_as(caller, path.unwrap_or(RelPath::ROOT), Rights::NONE).await;
        let (directory, _) = found.and_then(Resolved::into_directory).map_err(|error| match error {
            Error::NotFound | Error::NotADirectory => Status::OBJECT_PATH_NOT_FOUND,
            error => status::of(error),
        })?;
        // A link on the way may have come to lead elsewhere.
        self.holds_directory(&directory)?;
        Ok(directory)
    }

    //= MS-FSA 2.1.5.15.11
    //# A directory, and a file that is not to be written, is not replaced: STATUS_ACCESS_DENIED.
    async fn may_replace(&self, replaced: &Resolved) -> Result<(), Status> {
        if matches!(replaced, Resolved::Directory(..)) {
            return Err(Status::ACCESS_DENIED);
        }
        let kept = self.dos_of(&Hand::new(replaced.clone(), None)).await?.attributes.unwrap_or_default();
        if kept & attributes::READONLY == 0 { Ok(()) } else { Err(Status::ACCESS_DENIED) }
    }

    /// Gives a stream another name, within its file.
    async fn rename_stream(
        &self,
        asker: &Asker,
        open: &Arc<Open>,
        text: &str,
        replaces: bool,
    ) -> Result<(), Status> {
        let name = text.trim_start_matches(':').split(':').next().unwrap_or_default();
        let from = open.stream().ok_or(Status::NOT_SUPPORTED)?;
        if name.is_empty() || name.contains(['\\', '/', '\0']) {
            return Err(Status::OBJECT_NAME_INVALID);
        }
        let hand = self.hand(asker, open).await?;
        if name == &*from {
            return Ok(());
        }
        let there = streams::find(&hand, name).await?.filter(|there| *there != *from);
        if there.is_some() && !replaces {
            return Err(Status::OBJECT_NAME_COLLISION);
        }
        // What others have open stays where it is, as files that are open are not replaced.
        let call = |stream: &str| {
            let named = open.grants().rename_stream(self.volume(), streams::folded(stream).as_bytes());
            named.map_err(|_| Status::SHARING_VIOLATION)
        };
        call(name)?;
        let moved = self.move_stream(asker, open, &hand, (&from, name), there.as_deref()).await;
        match moved {
            Ok(()) => open.state().stream = Some(name.into()),
            // It has its old name again, which nobody had meanwhile.
            Err(_) => call(&from)?,
        }
        moved
    }

    async fn move_stream(
        &self,
        asker: &Asker,
        open: &Open,
        hand: &Hand,
        (from, to): (&str, &str),
        replaced: Option<&str>,
    ) -> Result<(), Status> {
        let (caller, object) = (asker.by(open), open.grants().object());
        let value = hand.extended(&streams::attribute(from), VALUE_MAX).await?;
        let value = value.ok_or(Status::FILE_DELETED)?;
        if let Some(replaced) = replaced {
            self.change_stream(&caller, hand, object, replaced, Change::Remove).await?;
        }
        let set = hand.set_extended(self.volume(), &caller, object, &streams::attribute(to), value).await;
        set.map_err(status::of)?;
        self.change_stream(&caller, hand, object, from, Change::Remove).await
    }
}

fn is_it(found: &Resolved, open: &Open) -> bool {
    found.object().is_some_and(|object| Arc::ptr_eq(object, open.grants().object()))
}

/// Looks for what has the new name while others give it to something, or take it away.
const ATTEMPTS_MAX: u32 = 16;
