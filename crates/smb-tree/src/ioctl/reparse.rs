//! FSCTL_GET_REPARSE_POINT and FSCTL_SET_REPARSE_POINT (MS-FSCC 2.3.28, 2.3.77): where a symbolic link leads, and files that become links.

use std::rc::Rc;
use std::sync::Arc;

use grants::Share as Shares;
use identity::Rights;
use smb_wire::Status;
use smb_wire::create::access::rights::{WRITE_ATTRIBUTES, WRITE_DATA};
use smb_wire::create::{create_action, options};
use smb_wire::fsctl::reparse::{self, Symlink};
use vfs::{Error, OpenHow, RelPath};

use super::whole;
use crate::by_name::NamedOpen;
use crate::create::link::wire_symlink;
use crate::lane_handle::LaneHandle;
use crate::open::{Open, OpenKind};
use crate::request_context::RequestContext;
use crate::share::Share;
use crate::{Answer, access, names, status};

impl Share {
    /// Returns where a symbolic link leads.
    pub(super) async fn reparse_point(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        len_max: usize,
    ) -> Result<Answer, Status> {
        let handle = self.handle(ctx, open).await?;
        //= MS-FSCC 2.3.28
        //# A file that is no reparse point: STATUS_NOT_A_REPARSE_POINT.
        let link = handle.link().ok_or(Status::NOT_A_REPARSE_POINT)?;
        whole(wire_symlink(ctx, link).to_bytes().ok_or(Status::IO_REPARSE_DATA_INVALID)?, len_max)
    }

    /// Makes the empty file that is open a symbolic link. The open is one of that from then on.
    ///
    /// # Errors
    /// `STATUS_IO_REPARSE_TAG_NOT_HANDLED` for links of other kinds, devices and sockets; `STATUS_IO_REPARSE_DATA_INVALID` for what is no
    /// link or leads to a drive of the client's; `STATUS_NOT_SUPPORTED` of what is no file, is not empty, has other names or is a link already.
    pub(super) async fn set_reparse_point(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        input: &[u8],
    ) -> Result<(), Status> {
        //= MS-FSA 2.1.5.10.37
        //# It takes the right to write data or attributes.
        if !open.may(WRITE_DATA | WRITE_ATTRIBUTES) {
            return Err(Status::ACCESS_DENIED);
        }
        let (tag, data) = reparse::parse(input).map_err(|_| Status::IO_REPARSE_DATA_INVALID)?;
        if tag != reparse::SYMLINK {
            return Err(Status::IO_REPARSE_TAG_NOT_HANDLED);
        }
        let link = Symlink::parse(data).map_err(|_| Status::IO_REPARSE_DATA_INVALID)?;
        let target = stored(&link).ok_or(Status::IO_REPARSE_DATA_INVALID)?;
        // A name that is to go with its open would be the link's by then.
        let goes = open.has_options(options::DELETE_ON_CLOSE) || open.named().is_deleting();
        if open.kind() != OpenKind::File || goes {
            return Err(Status::NOT_SUPPORTED);
        }
        let is_new = open.action == create_action::CREATED;
        let (caller, object) = (ctx.by(open), open.grants().object());
        let handle = self.handle(ctx, open).await?;
        let named = NamedOpen::of_file(open, &handle);
        // Confirmed first, so that `Unexpected` below means a file that may not become a link.
        self.confirm_name(&caller, named).await?;
        let became = self.by_name(&caller, named, async |directory, name| {
            match directory.become_link(&caller, name, object, is_new, &target).await {
                Ok(()) => Ok(()),
                Err(Error::Unexpected) => Err(Status::NOT_SUPPORTED.into()),
                Err(Error::Name(_) | Error::NameTooLong) => Err(Status::IO_REPARSE_DATA_INVALID.into()),
                Err(error) => Err(error.into()),
            }
        });
        became.await?;
        let path = open.grants().path(self.volume()).ok_or(Status::FILE_DELETED)?;
        self.open_what_it_became(ctx, open, path.as_path()).await
    }

    async fn open_what_it_became(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        path: RelPath<'_>,
    ) -> Result<(), Status> {
        let how = OpenHow {
            stream: b"",
            access: access::borne(open.access),
            share: Shares::from_bits(open.share_access as u8),
            need: Rights::NONE,
            looks: access::looks(open.access),
            overwrites: false,
            consumer: ctx.consumer(),
            wanted: None,
        };
        let opened = self.volume().open_link(&ctx.caller, path, &how, &mut |_| {}).await;
        let (link_open, link) = opened.map_err(status::of_open)?;
        // No other request has made a link of the same file.
        if open.became.set(link_open).is_ok() {
            self.lane_state().keep_handle(open, Rc::new(LaneHandle::of_link(link)), None);
        }
        Ok(())
    }
}

/// Returns the target of a link as it is stored; `None` for what means nothing here: a path of the client's
/// drives (`\??\C:\`), and one that says of itself that it is relative, and is not, or the other way round.
fn stored(link: &Symlink) -> Option<Vec<u8>> {
    let target = link.target.replace('\\', "/");
    let is_fine =
        target.starts_with('/') != link.relative && !target.starts_with("/??/") && !target.contains('\0');
    let target = names::to_bytes(&target, |c| c, |_| false).filter(|_| is_fine)?;
    (target.len() <= TARGET_MAX).then_some(target)
}

/// Longest target of a link on Linux, in bytes.
const TARGET_MAX: usize = 4095;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_drives_of_clients_and_those_that_lie_are_none() {
        for (target, relative, expected) in [
            (r"..\a\b", true, Some("../a/b")),
            ("a/b", true, Some("a/b")),
            (r"\srv\pub", false, Some("/srv/pub")),
            ("\u{efc3}\u{efa9}", true, None),
            (r"\srv", true, None),
            ("srv", false, None),
            (r"\??\C:\x", false, None),
            ("a\0b", true, None),
        ] {
            let link = Symlink { target: target.to_owned(), relative };
            assert_eq!(stored(&link).as_deref(), expected.map(str::as_bytes), "{target}");
        }
        assert_eq!(stored(&Symlink { target: "x".repeat(TARGET_MAX + 1), relative: true }), None);
    }
}
