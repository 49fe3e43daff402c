//! Times and attributes (MS-FSCC 2.4.7, MS-FSA 2.1.5.15.2). The time of creation and the attributes are kept in `user.DOSATTRIB`.

use std::sync::Arc;

use lane::fs::{AttributeChange, SetTime as Set, Timestamp};
use smb_wire::Status;
use smb_wire::create::access::attributes;
use smb_wire::info::file::BasicInformation;
use smb_wire::time::SetTime;

use crate::asker::Asker;
use crate::dos::{self, Dos, KEPT};
use crate::hand::{Hand, What, is_unsupported};
use crate::open::Open;
use crate::share::Share;
use crate::status;

impl Share {
    pub(super) async fn set_basic(
        &self,
        asker: &Asker,
        open: &Arc<Open>,
        hand: &Hand,
        basic: &BasicInformation,
    ) -> Result<(), Status> {
        let bits = basic.file_attributes.get();
        let is_directory = hand.directory().is_some();
        //= MS-FSA 2.1.5.15.2
        //# A file is not made a directory, and a directory not temporary.
        if (bits & attributes::DIRECTORY != 0 && !is_directory)
            || (bits & attributes::TEMPORARY != 0 && is_directory)
        {
            return Err(Status::INVALID_PARAMETER);
        }
        let created = SetTime::from_wire(basic.creation_time.get());
        let written = SetTime::from_wire(basic.last_write_time.get());
        let accessed = SetTime::from_wire(basic.last_access_time.get());
        let caller = asker.by(open);
        let object = open.grants().object();
        let now = self.dos_of(hand).await?;
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
        if dos != now {
            self.keep_dos(&caller, hand, object, dos).await?;
        }
        let (atime, mtime) = (to_set(accessed), to_set(written));
        if (atime, mtime) != (Set::Keep, Set::Keep) {
            let set = match &hand.what {
                What::Directory(directory) => directory.set_times(&caller, atime, mtime).await,
                What::File(_) => {
                    let writer = hand.writer(self.volume(), &caller, object).await.map_err(status::of)?;
                    let change = AttributeChange { atime, mtime, ..AttributeChange::NONE };
                    writer.set_attributes(&caller, change).await
                }
            };
            set.map_err(status::of)?;
        }
        match written {
            //= MS-FSA 2.1.5.15.2
            //# A time that was set, or frozen, is not moved by what this open writes.
            SetTime::To(secs, nanos) => open.state().sticky = Some(Timestamp { secs, nanos }),
            SetTime::Freeze => open.state().sticky = Some(hand.attributes()?.mtime),
            SetTime::Thaw => open.state().sticky = None,
            SetTime::Keep => {}
        }
        Ok(())
    }

    /// Keeps attributes and time of creation with a file.
    pub(crate) async fn keep_dos(
        &self,
        caller: &vfs::Caller,
        hand: &Hand,
        object: &vfs::Object,
        dos: Dos,
    ) -> Result<(), Status> {
        let set = hand.set_extended(self.volume(), caller, object, dos::NAME, dos.to_bytes()).await;
        match set {
            Err(error) if is_unsupported(&error) => Err(Status::NOT_SUPPORTED),
            set => set.map_err(status::of),
        }
    }

    /// Before an open is closed: the time of change that it has set is what it was set to.
    pub(crate) async fn keep_sticky(&self, asker: &Asker, open: &Arc<Open>) {
        let sticky = open.state().sticky.take();
        let Some(mtime) = sticky else { return };
        let Ok(hand) = self.hand(asker, open).await else { return };
        let is_moved = hand.attributes().is_ok_and(|now| now.mtime != mtime);
        if !is_moved || hand.directory().is_some() {
            return;
        }
        let caller = asker.by(open);
        if let Ok(writer) = hand.writer(self.volume(), &caller, open.grants().object()).await {
            let change = AttributeChange { mtime: Set::At(mtime), ..AttributeChange::NONE };
            // Whoever closes is not told why a time moved.
            let _ = writer.set_attributes(&caller, change).await;
        }
    }
}

fn to_set(time: SetTime) -> Set {
    match time {
        SetTime::To(secs, nanos) => Set::At(Timestamp { secs, nanos }),
        SetTime::Keep | SetTime::Freeze | SetTime::Thaw => Set::Keep,
    }
}
