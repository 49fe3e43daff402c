//! Makes what is not there (MS-FSA 2.1.5.1.1).

use std::rc::Rc;
use std::sync::Arc;

use identity::{Accounts, Rights};
use smb_wire::Status;
use smb_wire::create::access::{attributes, rights};
use smb_wire::create::{create_action, options};
use smb_wire::info::security::Descriptor;
use vfs::{Error, Expect, How, Resolved, Writer};

use super::ask::{Ask, GIVEN};
use super::granted::{Granted, It, Unopened};
use crate::asker::Asker;
use crate::hand::Hand;
use crate::names::Spot;
use crate::opens::Room;
use crate::share::Share;
use crate::status;
use crate::streams::Change;
use smb_wire::dos::Dos;

impl Share {
    pub(super) async fn make_new(
        &self,
        asker: &Asker,
        ask: &Ask<'_>,
        room: &Room,
        spot: &Spot,
    ) -> Result<Granted, Unopened> {
        let is_directory = ask.has(options::DIRECTORY_FILE);
        if is_directory && ask.name.stream.is_some() {
            return Err(Status::NOT_A_DIRECTORY.into());
        }
        //= MS-FSA 2.1.5.1
        //# A name with a backslash at its end is no file's: STATUS_OBJECT_NAME_INVALID.
        if ask.name.is_directory && !is_directory {
            return Err(Status::OBJECT_NAME_INVALID.into());
        }
        //= MS-FSA 2.1.5.1.1
        //# What is made not to be written is not deleted on close.
        if ask.attributes & attributes::READONLY != 0 && ask.has(options::DELETE_ON_CLOSE) {
            return Err(Status::CANNOT_DELETE.into());
        }
        if let Some(bytes) = ask.wishes.allocation.filter(|_| !is_directory) {
            //= MS-FSA 2.1.5.1.1
            //# Nothing is made where there is no room for what is to be set aside: STATUS_DISK_FULL.
            self.volume().fits(bytes).map_err(status::of)?;
            self.has_room_for(bytes).await?;
        }
        let secured = self.secured(asker, ask, spot, is_directory).await?;
        let writer = self.make(asker, ask, spot, is_directory, secured.own()).await?;
        let access = match ask.access & rights::MAXIMUM_ALLOWED {
            0 => ask.access,
            _ => rights::FILE_ALL,
        };
        let share_access = ask.share_access;
        let it = It {
            path: spot.path.as_path(),
            mask: access,
            share_access,
            is_new: true,
            is_directory,
            is_linked: false,
        };
        let (open, resolved, tellable) = self.open_beside(asker, ask, room, &it).await?;
        let caller = open.caller(&asker.caller);
        let hand = Rc::new(Hand::new(resolved, writer));
        // Who makes something says what it is, whatever its descriptor leaves him afterwards.
        let operator = Accounts::none().local_administrator();
        let operator = vfs::Caller { principal: operator, ..caller.clone() };
        let fitted = match self.give_list(&caller, &hand, &secured).await {
            Ok(()) => self.fit_out(&operator, &hand, open.object(), ask).await,
            refused => refused,
        };
        if let Err(status) = fitted {
            self.take_back(&operator, &open, is_directory).await;
            return Err(status.into());
        }
        let action = create_action::CREATED;
        let who = &asker.caller.principal;
        let granted = |own: Arc<Descriptor>| self.options().sids.granted(who, &own);
        let maximal_access = open.object().descriptor().map_or(rights::FILE_ALL, granted);
        let stream = ask.name.stream.clone();
        let by_link = None;
        Ok(Granted { open, by_link, hand, stream, access, maximal_access, share_access, action, tellable })
    }

    /// Gives what was made all that was asked for with it.
    async fn fit_out(
        &self,
        caller: &vfs::Caller,
        hand: &Hand,
        object: &vfs::Object,
        ask: &Ask<'_>,
    ) -> Result<(), Status> {
        self.give_attributes(caller, hand, object, ask).await?;
        //= MS-FSA 2.1.5.1.1
        //# FILE_NO_COMPRESSION: what is made is not compressed, whatever the directory says.
        if ask.has(options::NO_COMPRESSION) {
            self.have_compressed(caller, hand, object, false).await?;
        }
        if let Some(list) = ask.wishes.ea {
            self.set_eas(caller, hand, object, list).await?;
        }
        if let (Some(bytes), Ok(writer)) =
            (ask.wishes.allocation, hand.writer(self.volume(), caller, object).await)
        {
            // A file system that cannot set room aside writes as well without.
            let room = writer.allocate(caller, lane::fs::Allocate::KeepSize, 0, bytes).await;
            if let Err(error @ (Error::NoSpace | Error::Quota)) = room {
                return Err(status::of(error));
            }
        }
        if let Some(stream) = &ask.name.stream {
            self.change_stream(caller, hand, object, stream, Change::Make).await?;
        }
        Ok(())
    }

    /// Takes away what was made, whose CREATE fails all the same. It stays where somebody else has it by now: it would be taken from him.
    async fn take_back(&self, caller: &vfs::Caller, open: &vfs::Open, is_directory: bool) {
        let Some(path) = open.path(self.volume()) else { return };
        let Some(name) = path.as_path().file_name() else { return };
        let Ok(above) = self.directory_at(caller, path.as_path().parent()).await else { return };
        // Nobody hears why it stayed.
        let _ = match is_directory {
            true => above.remove_directory(caller, name).await,
            false => {
                let is_empty = |found: Option<&vfs::Attributes>| found.is_some_and(|found| found.size == 0);
                above.remove_if(caller, name, Expect::Like(&is_empty)).await
            }
        };
    }

    async fn make(
        &self,
        asker: &Asker,
        ask: &Ask<'_>,
        spot: &Spot,
        is_directory: bool,
        own: Option<&Arc<Descriptor>>,
    ) -> Result<Option<Writer>, Unopened> {
        let wanted = super::granted::wanted(asker, ask, is_directory);
        let intent = self.volume().intending(&asker.caller, wanted).map_err(status::of_open)?;
        let caller = intent.caller();
        let (Some(above), Some(name)) = (&spot.above, spot.path.as_path().file_name()) else {
            return Err(Status::OBJECT_NAME_COLLISION.into());
        };
        if self.volume().options().serve_hidden || !name.is_hidden() {
            let above = self.volume().lookup_as(caller, above.as_path(), Rights::NONE).await;
            let (directory, _) = above.and_then(Resolved::into_directory).map_err(of_way)?;
            self.holds_directory(&directory)?;
            let made = if is_directory {
                let mode = ask.wishes.posix.unwrap_or(DIRECTORY_MODE) & 0o777;
                directory.make_directory_described(caller, name, mode, own).await.map(|_| None)
            } else {
                let mode = ask.wishes.posix.unwrap_or(FILE_MODE) & 0o777;
                let made = directory.create_described(caller, name, How { exclusive: true, mode }, own).await;
                made.map(|made| Some(made.writer))
            };
            return made.map_err(|error| match error {
                Error::Exists => Unopened::Again,
                error => of_way(error),
            });
        }
        Err(Status::ACCESS_DENIED.into())
    }

    /// Gives a file that was made or emptied the attributes that were asked for.
    pub(super) async fn give_attributes(
        &self,
        caller: &vfs::Caller,
        hand: &Hand,
        object: &vfs::Object,
        ask: &Ask<'_>,
    ) -> Result<(), Status> {
        let is_directory = hand.directory().is_some();
        let default = if is_directory { 0 } else { attributes::ARCHIVE };
        let given = (ask.attributes & GIVEN) | default;
        let now = self.dos_of(hand).await?;
        if now.attributes.unwrap_or(default) == given {
            return Ok(());
        }
        let dos = Dos { attributes: Some(given), changed: None, ..now };
        match self.keep_dos(caller, hand, object, dos).await {
            // Without a place for them there are none.
            Err(Status::NOT_SUPPORTED) => Ok(()),
            kept => kept,
        }
    }
}

fn of_way(error: Error) -> Unopened {
    Unopened::Refused(match error {
        //= MS-SMB2 3.3.5.9
        //# Where nothing may be changed nothing is made.
        Error::ReadOnly => Status::ACCESS_DENIED,
        error => status::of_way(error),
    })
}

/// Of which the process's umask takes some.
const FILE_MODE: u32 = 0o666;
const DIRECTORY_MODE: u32 = 0o777;
