//! Symlink (139) and Link (140).

use afs_wire::code::{EPERM, EXDEV};
use afs_wire::rxafs::{Link, Symlink};
use identity::Rights;
use vfs::Name;

use super::call_context::{ATTEMPTS_MAX, CallContext, Reply, name};
use super::{Call, CallFailure, ServedCall};

impl ServedCall {
    /// Makes a symbolic link with the same text on disk as for clients: its text makes it a mount point, whatever its
    /// mode.
    pub(super) async fn make_symlink(
        &self,
        call: &Call,
        request: Symlink<'_>,
    ) -> Result<Reply<Symlink<'static>>, CallFailure> {
        let context = self.change_context(call, request.directory).await?;
        let name = name(&request.name)?;
        let directory = context.directory(request.directory).await?;
        self.check_room(&directory, name)?;
        directory.symlink(&context.caller, name, &request.target).await?;
        let link = directory.symbolic_link(&context.caller, name).await?;
        let created = self.created(&context, link.object.number(), request.directory).await?;
        Ok(Reply::<Symlink<'static>> {
            fid: created.fid,
            status: created.file.status,
            directory_status: created.directory,
            sync: context.sync(),
        })
    }

    /// Makes a hard link in the directory that the file is in: elsewhere it would have other rights.
    pub(super) async fn make_link(
        &self,
        call: &Call,
        request: Link<'_>,
    ) -> Result<Reply<Link<'static>>, CallFailure> {
        let context = self.change_context(call, request.directory).await?;
        if request.existing.volume != request.directory.volume {
            return Err(EXDEV.into());
        }
        if request.existing.is_directory() {
            return Err(EPERM.into());
        }
        let name = name(&request.name)?;
        let directory = context.directory(request.directory).await?;
        self.check_room(&directory, name)?;
        let which = context.number(request.existing)?;
        for _ in 0..ATTEMPTS_MAX {
            let volume = &context.volume.volume;
            let placed = volume.find_with_parent(&context.caller, which, Rights::NONE, Rights::NONE).await?;
            if placed.directory.id() != directory.id() {
                return Err(EXDEV.into());
            }
            match directory.link_if(&context.caller, which, Name::parse(&placed.name)?, name).await {
                // It has been renamed since.
                Err(vfs::Error::Unexpected | vfs::Error::NotFound) => {}
                linked => {
                    linked?;
                    return self.linked(&context, &request).await;
                }
            }
        }
        Err(vfs::Error::Busy.into())
    }

    async fn linked(
        &self,
        context: &CallContext,
        request: &Link<'_>,
    ) -> Result<Reply<Link<'static>>, CallFailure> {
        let status = self.status_after_change(context, request.existing).await?.status;
        let directory_status = self.directory_status(context, request.directory).await?;
        Ok(Reply::<Link<'static>> { status, directory_status, sync: context.sync() })
    }
}
