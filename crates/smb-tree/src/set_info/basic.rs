//! Times and attributes (MS-FSCC 2.4.7, MS-FSA 2.1.5.15.2). The attributes, the time of creation and a time of change that was set
//! are kept in `user.DOSATTRIB`.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use futures_util::future::{LocalBoxFuture, OptionFuture};
use identity::Accounts;
use lane::fs::{AttributeChange, SetTime as Set, Timestamp};
use smb_wire::Status;
use smb_wire::create::access::attributes;
use smb_wire::info::file::BasicInformation;
use smb_wire::time::{SetTime, from_unix};

use crate::attributes::wire_time;
use crate::by_name::NamedOpen;
use crate::lane_handle::{HandleKind, LaneHandle, is_unsupported};
use crate::open::Open;
use crate::request_context::RequestContext;
use crate::share::Share;
use crate::status;
use smb_wire::dos::{self, Dos, KEPT, SetChange};

/// Work that is still to be done, if any.
pub(crate) type Archiving<'a> = OptionFuture<LocalBoxFuture<'a, ()>>;

impl Share {
    pub(super) async fn set_basic(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        handle: &LaneHandle,
        basic: &BasicInformation,
    ) -> Result<(), Status> {
        let bits = basic.file_attributes.get();
        let is_directory = handle.directory().is_some();
        //= MS-FSA 2.1.5.15.2
        //# A file, or a stream of whatever, is not made a directory, and a directory not temporary.
        if (bits & attributes::DIRECTORY != 0 && !open.is_directory())
            || (bits & attributes::TEMPORARY != 0 && is_directory)
        {
            return Err(Status::INVALID_PARAMETER);
        }
        //= MS-FSA 2.1.5.15.2
        //# A time below -2 is none: STATUS_INVALID_PARAMETER.
        let time = |wire: u64| SetTime::from_wire(wire).ok_or(Status::INVALID_PARAMETER);
        let created = time(basic.creation_time.get())?;
        let written = time(basic.last_write_time.get())?;
        let accessed = time(basic.last_access_time.get())?;
        let changed = time(basic.change_time.get())?;
        let caller = ctx.by(open);
        let object = open.grants().object();
        if handle.link().is_some() {
            // A link has no place for attributes; clients that clear them before they delete it lose nothing.
            let change =
                AttributeChange { atime: to_set(accessed), mtime: to_set(written), ..AttributeChange::NONE };
            return self.set_link_times(&caller, open, handle, change).await;
        }
        // Whatever is set moves the kernel's time of change, and ends what one that was set before rests on.
        let now = Dos { changed: None, ..self.dos_of(handle).await? };
        let mut dos = now;
        if bits != 0 {
            let default = if is_directory { 0 } else { attributes::ARCHIVE };
            // NORMAL says that none of the others is wanted. Whether there are holes is the file's to say.
            let sparse = now.attributes.unwrap_or_default() & attributes::SPARSE_FILE;
            let wanted = (bits & KEPT & !attributes::SPARSE_FILE) | sparse;
            if now.attributes.unwrap_or(default) != wanted {
                dos.attributes = Some(wanted);
            }
        }
        if let SetTime::To(..) = created {
            dos.created = Some(basic.creation_time.get());
        }
        let sets_change = matches!(changed, SetTime::To(..));
        if dos != now && !sets_change {
            self.keep_dos(&caller, handle, object, dos).await?;
        }
        let (atime, mtime) = (to_set(accessed), to_set(written));
        if (atime, mtime) != (Set::Keep, Set::Keep) {
            self.set_times(&caller, handle, object, (atime, mtime)).await?;
        }
        if sets_change {
            let told = basic.change_time.get();
            match self.keep_change(&caller, handle, object, dos, told).await {
                // Without a place for it the time of change is the kernel's, as it always was; a listing
                // client looks again all the same.
                Err(Status::NOT_SUPPORTED) if dos == now => {
                    open.grants().break_directory_lease(self.volume()).await;
                }
                kept => kept?,
            }
        }
        self.stick(open, handle, written, changed, basic.change_time.get()).await
    }

    async fn set_times(
        &self,
        caller: &vfs::Caller,
        handle: &LaneHandle,
        object: &vfs::Object,
        (atime, mtime): (Set, Set),
    ) -> Result<(), Status> {
        let set = match &handle.what {
            HandleKind::Directory(directory) => directory.set_times(caller, atime, mtime).await,
            HandleKind::File(_) | HandleKind::Link(_) => {
                let writer = handle.writer(self.volume(), caller, object).await.map_err(status::of)?;
                let change = AttributeChange { atime, mtime, ..AttributeChange::NONE };
                writer.set_attributes(caller, change).await
            }
        };
        set.map_err(status::of)
    }

    /// Sets the times that this open leaves alone from now on.
    async fn stick(
        &self,
        open: &Open,
        handle: &LaneHandle,
        written: SetTime,
        changed: SetTime,
        told: u64,
    ) -> Result<(), Status> {
        match written {
            //= MS-FSA 2.1.5.15.2
            //# A time that was set, or frozen, is not moved by what this open writes.
            SetTime::To(secs, nanos) => open.state().sticky = Some(Timestamp { secs, nanos }),
            SetTime::Freeze => open.state().sticky = Some(handle.attributes()?.mtime),
            SetTime::Thaw => open.state().sticky = None,
            SetTime::Keep => {}
        }
        match changed {
            SetTime::To(..) => open.state().sticky_change = Some(told),
            SetTime::Freeze => {
                let now = self.info(handle, None).await?.changed;
                open.state().sticky_change = Some(now);
            }
            SetTime::Thaw => open.state().sticky_change = None,
            SetTime::Keep => {}
        }
        Ok(())
    }

    /// Sets the times of a symbolic link, which lie with its name.
    async fn set_link_times(
        &self,
        caller: &vfs::Caller,
        open: &Open,
        handle: &LaneHandle,
        change: AttributeChange,
    ) -> Result<(), Status> {
        if (change.atime, change.mtime) == (Set::Keep, Set::Keep) {
            return Ok(());
        }
        let which = open.grants().object().number();
        let set = self.by_name(caller, NamedOpen::of_file(open, handle), async |above, name| {
            Ok(above.set_attributes_if(caller, which, name, change).await?)
        });
        set.await
    }

    /// Keeps attributes and time of creation with a file.
    pub(crate) async fn keep_dos(
        &self,
        caller: &vfs::Caller,
        handle: &LaneHandle,
        object: &vfs::Object,
        dos: Dos,
    ) -> Result<(), Status> {
        let set = handle.set_extended(self.volume(), caller, object, dos::NAME, dos.to_bytes()).await;
        match set {
            Err(error) if is_unsupported(&error) => return Err(Status::NOT_SUPPORTED),
            set => set.map_err(status::of)?,
        }
        if handle.directory().is_none() {
            object.note_backed_up(dos.is_backed_up());
        }
        Ok(())
    }

    /// Has a file that an open has changed the attribute "archive", where that was turned off. Nothing is
    /// made for what is so nearly always: each WRITE would have room for it.
    pub(crate) fn archive<'a>(
        &'a self,
        ctx: &'a RequestContext,
        open: &'a Open,
        handle: &'a LaneHandle,
    ) -> Archiving<'a> {
        let object = open.grants().object();
        let archiving = object.is_backed_up().then(|| -> LocalBoxFuture<'a, ()> {
            Box::pin(async move { self.turn_archive_on(&ctx.by(open), handle, object).await })
        });
        archiving.into()
    }

    /// Turns on the attribute "archive" of a file without an open yet ([`Share::archive`]).
    pub(crate) fn archive_by<'a>(
        &'a self,
        caller: &'a vfs::Caller,
        handle: &'a LaneHandle,
        object: &'a vfs::Object,
    ) -> Archiving<'a> {
        let archiving = object
            .is_backed_up()
            .then(|| -> LocalBoxFuture<'a, ()> { Box::pin(self.turn_archive_on(caller, handle, object)) });
        archiving.into()
    }

    //= MS-FSA 2.1.4.17
    //# A file that is modified has FILE_ATTRIBUTE_ARCHIVE.
    async fn turn_archive_on(&self, caller: &vfs::Caller, handle: &LaneHandle, object: &vfs::Object) {
        let Ok(now) = self.dos_of(handle).await else { return };
        if handle.directory().is_some() || !now.is_backed_up() {
            return object.note_backed_up(false);
        }
        let bits = now.attributes.unwrap_or_default() | attributes::ARCHIVE;
        let dos = Dos { attributes: Some(bits), changed: None, ..now };
        // It follows from the change, which was allowed; its caller does not learn why it stays off.
        let operator = Accounts::none().local_administrator();
        let operator = vfs::Caller { principal: operator, ..caller.clone() };
        let _ = self.keep_dos(&operator, handle, object, dos).await;
    }

    /// Keeps a time of change with a file, and what else is kept with it. Keeping it moves the kernel's time of change,
    /// to a moment that is known only afterwards. A change up to a tick later can therefore not be distinguished from
    /// it, and more on a machine that takes longer for it.
    async fn keep_change(
        &self,
        caller: &vfs::Caller,
        handle: &LaneHandle,
        object: &vfs::Object,
        dos: Dos,
        told: u64,
    ) -> Result<(), Status> {
        let mut window = TICK_MAX;
        for _ in 0..KEEP_TRIES {
            let now = lane::time::wall_clock().duration_since(UNIX_EPOCH).unwrap_or_default();
            let wire = |at: Duration| from_unix(at.as_secs() as i64, at.subsec_nanos());
            let (from, until) = (wire(now.saturating_sub(TICK_MAX)), wire(now + window));
            let written = wire_time(handle.attributes()?.mtime);
            let set = SetChange { told, from, until, written };
            self.keep_dos(caller, handle, object, Dos { changed: Some(set), ..dos }).await?;
            if set.holds(written, wire_time(handle.attributes()?.ctime)) {
                return Ok(());
            }
            window *= 2;
        }
        self.counters().change_times_lost.increment();
        Ok(())
    }

    /// Restores the times that an open has set or frozen, before it is closed.
    pub(crate) async fn keep_sticky(&self, ctx: &RequestContext, open: &Arc<Open>) {
        let (written, changed) = {
            let mut state = open.state();
            (state.sticky.take(), state.sticky_change.take())
        };
        if written.is_none() && changed.is_none() {
            return;
        }
        let Ok(handle) = self.handle(ctx, open).await else { return };
        if handle.directory().is_some() {
            return;
        }
        // The closing client does not learn why a time moved.
        let (caller, object) = (ctx.by(open), open.grants().object());
        if let Some(mtime) = written
            && handle.attributes().is_ok_and(|now| now.mtime != mtime)
        {
            let _ = self.set_times(&caller, &handle, object, (Set::Keep, Set::At(mtime))).await;
        }
        if let Some(told) = changed
            && self.info(&handle, None).await.is_ok_and(|now| now.changed != told)
            && let Ok(dos) = self.dos_of(&handle).await
        {
            let _ = self.keep_change(&caller, &handle, object, dos, told).await;
        }
    }
}

fn to_set(time: SetTime) -> Set {
    match time {
        SetTime::To(secs, nanos) => Set::At(Timestamp { secs, nanos }),
        SetTime::Keep | SetTime::Freeze | SetTime::Thaw => Set::Keep,
    }
}

/// Longest tick of the clock that file systems stamp with.
const TICK_MAX: Duration = Duration::from_millis(20);
/// Number of times that a time of change is kept anew where the machine was slower than thought: the last
/// within two and a half seconds.
const KEEP_TRIES: u32 = 8;
