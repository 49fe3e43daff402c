//! The room a file takes: taken ahead, given back, copied without coming to the lane.

use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use lane::fs::Allocate;

use super::Writer;
use super::writer::WriteStep;
use crate::caller::Caller;
use crate::error::Error;
use crate::file::OpenFile;
use crate::usage::Reach;

impl Writer {
    /// Takes room for `len` bytes from `offset` on, or gives it back so that it reads as zeros, as `what` says.
    /// Nothing is set aside beyond the end of the file, where it would not be charged to any user. There the file
    /// system only needs to have room at the moment.
    ///
    /// # Errors
    /// As [`Writer::write_at`]; [`Error::Io`] where the file system cannot do it so. [`Error::Quota`] also for what is
    /// more than the volume may hold.
    pub fn allocate<'a>(
        &'a self,
        caller: &'a Caller,
        what: Allocate,
        offset: u64,
        len: u64,
    ) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let mut end = offset.saturating_add(len);
            if what == Allocate::KeepSize {
                self.volume().counted(self.volume().writable())?;
                self.volume().counted(self.volume().has_room(self.file(), end))?;
                end = end.min(self.file().attributes()?.size);
            }
            let len = end.saturating_sub(offset);
            let reach = match what {
                Allocate::Extend | Allocate::Zero => Reach::To(end),
                Allocate::KeepSize | Allocate::Punch => Reach::AsItWas,
            };
            let volume = self.volume().clone();
            self.change_content(caller, WriteStep::default(), reach, async move |file, _| {
                if what != Allocate::Punch {
                    volume.spare(file.lane_file(), offset, len).await?;
                }
                // Those that hold leases or oplocks on it are told also where nothing is set aside.
                if what == Allocate::KeepSize && len == 0 {
                    return Ok(());
                }
                file.lane_file().allocate(what, offset, len).await.map_err(Error::of_write)
            })
            .await
        })
    }

    /// Copies `len` bytes of `from`, from `offset` on, to `to_offset` here, under the change locks of both. Returns
    /// how many: fewer only at its end. The file system may share room instead.
    ///
    /// # Errors
    /// As [`Writer::write_at`]; [`Error::CrossDevice`] where the file systems cannot.
    pub fn copy_from<'a>(
        &'a self,
        caller: &'a Caller,
        from: &'a Rc<OpenFile>,
        offset: u64,
        to_offset: u64,
        len: u64,
    ) -> LocalBoxFuture<'a, Result<u64, Error>> {
        Box::pin(async move {
            let source = Rc::clone(from);
            // What comes to it from here on is not copied: there is no room taken for that.
            let len = len.min(from.attributes()?.size.saturating_sub(offset));
            let step = WriteStep { reads: from.object(), ..WriteStep::default() };
            let reach = Reach::Within(if len == 0 { 0 } else { to_offset.saturating_add(len) });
            let volume = self.volume().clone();
            self.change_content(caller, step, reach, async move |file, _| {
                volume.spare(file.lane_file(), to_offset, len).await?;
                let copied = source.lane_file().copy_range(offset, file.lane_file(), to_offset, len).await;
                copied.map_err(|error| match error.raw_os_error() {
                    Some(libc::EXDEV) => Error::CrossDevice,
                    _ => Error::of_write(error),
                })
            })
            .await
        })
    }
}
