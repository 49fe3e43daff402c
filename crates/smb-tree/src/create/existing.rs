//! Opens what is there, and empties it if that was asked for (MS-FSA 2.1.5.1.2).

use std::rc::Rc;

use identity::Rights;
use smb_wire::Status;
use smb_wire::create::access::{attributes, rights};
use smb_wire::create::{create_action, options};
use vfs::{Found, Resolved, Writer};

use super::ask::Ask;
use super::granted::{Granted, It, Unopened, action};
use crate::access::Allowed;
use crate::asker::Asker;
use crate::hand::Hand;
use crate::names::Spot;
use crate::opens::Room;
use crate::share::Share;
use crate::status;
use crate::streams::{self, Change};

impl Share {
    pub(super) async fn open_existing(
        &self,
        asker: &Asker,
        ask: &Ask<'_>,
        room: &Room,
        spot: &Spot,
        found: &Found,
    ) -> Result<Granted, Unopened> {
        let is_directory = matches!(found.resolved, Resolved::Directory(..));
        let hand = Hand::new(found.resolved.clone(), None);
        let stream = self.stream_there(ask, &hand).await?;
        if ask.name.stream.is_some() {
            if ask.has(options::DIRECTORY_FILE) {
                return Err(Status::NOT_A_DIRECTORY.into());
            }
            if ask.name.is_directory {
                return Err(Status::OBJECT_NAME_INVALID.into());
            }
            if stream.is_none() && !ask.makes() {
                return Err(Status::OBJECT_NAME_NOT_FOUND.into());
            }
        }
        let is_there = ask.name.stream.is_none() || stream.is_some();
        if is_there && !ask.opens() {
            return Err(Status::OBJECT_NAME_COLLISION.into());
        }
        if ask.name.stream.is_none() {
            check_kind(ask, is_directory)?;
        }
        let allowed = self.allowed(asker, spot, found, is_directory).await?;
        let link = self.link_of(asker, ask, spot).await?;
        let mut mask = allowed.mask();
        if let Some(link) = &link {
            mask = (mask & !rights::DELETE) | link.allowed;
        }
        let empties = ask.overwrites() && is_there;
        let kept = self.dos_of(&hand).await?.attributes.unwrap_or_default();
        let (access, maximal_access) =
            access_of(ask, (mask, allowed.beside(&asker.caller.principal)), kept, is_directory, empties)?;
        let share_access = allowed.shared(ask.share_access);
        // What the name is a link to stays: who has it open is not asked for its deletion.
        let mask = if link.is_some() { access & !rights::DELETE } else { access };
        let (path, is_linked) = (spot.path.as_path(), link.is_some());
        let it = It { path, mask, share_access, is_new: false, is_directory, is_linked };
        let (open, resolved, tellable) = self.open_beside(asker, ask, room, &it).await?;
        let by_link = match link.filter(|_| access & rights::DELETE != 0) {
            Some(link) => Some(self.open_named_link(asker, ask, &link).await?),
            None => None,
        };
        let caller = match empties {
            true => open.overwriting_caller(&asker.caller),
            false => open.caller(&asker.caller),
        };
        let writes = access & (rights::WRITE_DATA | rights::APPEND_DATA) != 0 || empties;
        let writer = match (&resolved, writes && ask.name.stream.is_none()) {
            (Resolved::File(..), true) => Some(self.writer_of(&caller, spot).await?),
            _ => None,
        };
        let hand = Rc::new(Hand::new(resolved, writer));
        let object = open.object();
        let stream = match (&ask.name.stream, stream) {
            (Some(_), Some(stored)) if empties => {
                self.change_stream(&caller, &hand, object, &stored, Change::Empty).await?;
                self.archive_by(&caller, &hand, object).await;
                Some(stored)
            }
            (Some(wanted), None) => {
                self.change_stream(&caller, &hand, object, wanted, Change::Make).await?;
                self.archive_by(&caller, &hand, object).await;
                Some(wanted.clone())
            }
            (_, stream) => stream,
        };
        if empties && ask.name.stream.is_none() {
            self.empty(&caller, &hand, object, ask).await?;
        }
        let action = if is_there { action(ask) } else { create_action::CREATED };
        Ok(Granted { open, by_link, hand, stream, access, maximal_access, share_access, action, tellable })
    }

    /// The stream that is asked for as it is stored, if it is there.
    async fn stream_there(&self, ask: &Ask<'_>, hand: &Hand) -> Result<Option<String>, Status> {
        match &ask.name.stream {
            Some(stream) => streams::find(hand, stream).await,
            None => Ok(None),
        }
    }

    /// What somebody may do with what was found.
    pub(crate) async fn allowed(
        &self,
        asker: &Asker,
        spot: &Spot,
        found: &Found,
        is_directory: bool,
    ) -> Result<Allowed, Status> {
        let who = &asker.caller.principal;
        let above = self.rights_above(asker, spot).await?;
        Ok(Allowed::of(who, found, above, is_directory))
    }

    /// What somebody may do in the directory above; `None` for a share's root.
    pub(super) async fn rights_above(&self, asker: &Asker, spot: &Spot) -> Result<Option<Rights>, Status> {
        let Some(above) = &spot.above else { return Ok(None) };
        let above = self.volume().lookup_with_rights(&asker.caller, above.as_path(), Rights::NONE).await;
        Ok(Some(above.map_err(status::of_way)?.rights(&asker.caller.principal)))
    }

    async fn writer_of(&self, caller: &vfs::Caller, spot: &Spot) -> Result<Writer, Unopened> {
        let Some(above) = &spot.above else { return Err(Status::FILE_IS_A_DIRECTORY.into()) };
        let name = spot.path.as_path().file_name().ok_or(Status::FILE_IS_A_DIRECTORY)?;
        let above = self.volume().lookup_as(caller, above.as_path(), Rights::NONE).await;
        let (directory, _) = above.and_then(Resolved::into_directory).map_err(again_or)?;
        self.holds_directory(&directory)?;
        directory.open_writer(caller, name).await.map_err(again_or)
    }

    /// Takes the content away, and what was kept with it.
    async fn empty(
        &self,
        caller: &vfs::Caller,
        hand: &Hand,
        object: &vfs::Object,
        ask: &Ask<'_>,
    ) -> Result<(), Status> {
        let writer = hand.writer(self.volume(), caller, object).await.map_err(status::of)?;
        writer.truncate(caller, 0).await.map_err(status::of)?;
        //= MS-FSA 2.1.5.1.2.1
        //# Named streams and extended attributes go with the content.
        for stream in streams::all(hand).await? {
            self.change_stream(caller, hand, object, &stream.name, Change::Remove).await?;
        }
        self.give_attributes(caller, hand, object, ask).await
    }
}

pub(super) fn again_or(error: vfs::Error) -> Unopened {
    match error {
        vfs::Error::NotFound | vfs::Error::Stale => Unopened::Again,
        error => Unopened::Refused(status::of(error)),
    }
}

fn check_kind(ask: &Ask<'_>, is_directory: bool) -> Result<(), Status> {
    match is_directory {
        //= MS-FSA 2.1.5.1
        //# A directory has no data: `::$DATA` of one fails as a file does where a directory is wanted, and the other way round.
        true if ask.name.is_data && ask.has(options::DIRECTORY_FILE) => Err(Status::NOT_A_DIRECTORY),
        true if ask.name.is_data => Err(Status::FILE_IS_A_DIRECTORY),
        //= MS-FSA 2.1.5.1.2
        //# A file where a directory was asked for, and the other way round.
        false if ask.has(options::DIRECTORY_FILE) => Err(Status::NOT_A_DIRECTORY),
        //= MS-FSA 2.1.5.1
        //# A name with a backslash at its end is no file's.
        false if ask.name.is_directory => Err(Status::OBJECT_NAME_INVALID),
        true if ask.has(options::NON_DIRECTORY_FILE) => Err(Status::FILE_IS_A_DIRECTORY),
        true if ask.overwrites() => Err(Status::INVALID_PARAMETER),
        _ => Ok(()),
    }
}

/// What an open is granted of what it asks for, and the most that it could be, of what it is allowed and what beside if it says so; `kept` are the attributes of what is there.
pub(super) fn access_of(
    ask: &Ask<'_>,
    (allowed, beside): (u32, u32),
    kept: u32,
    is_directory: bool,
    empties: bool,
) -> Result<(u32, u32), Status> {
    let is_readonly = kept & attributes::READONLY != 0 && !is_directory;
    let writes = rights::WRITE_DATA | rights::APPEND_DATA;
    let usable = if is_readonly { allowed & !writes } else { allowed };
    let mut access = ask.access;
    if access & rights::MAXIMUM_ALLOWED != 0 {
        access = (access & !rights::MAXIMUM_ALLOWED) | usable;
    }
    //= MS-FSA 2.1.5.1.2
    //# A file that is not to be written is opened for no writing, and not emptied; nor is a directory deleted on close, or a file.
    if is_readonly && (access & writes != 0 || empties) {
        return Err(Status::ACCESS_DENIED);
    }
    if access & !(allowed | beside) != 0 {
        return Err(Status::ACCESS_DENIED);
    }
    if kept & attributes::READONLY != 0 && ask.has(options::DELETE_ON_CLOSE) {
        return Err(Status::CANNOT_DELETE);
    }
    if ask.has(options::DELETE_ON_CLOSE) && access & rights::DELETE == 0 {
        return Err(Status::ACCESS_DENIED);
    }
    let guarded = kept & (attributes::HIDDEN | attributes::SYSTEM);
    //= MS-FSA 2.1.5.1.2.1
    //# What is hidden or the system's is emptied only by who says so; and it takes the right to write.
    if empties && (guarded & !ask.attributes != 0 || allowed & rights::WRITE_DATA == 0) {
        return Err(Status::ACCESS_DENIED);
    }
    Ok((access, usable))
}
