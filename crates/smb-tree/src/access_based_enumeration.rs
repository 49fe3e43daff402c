//! Listings without the names of what the caller may not read: access-based enumeration.

use identity::Rights;
use smb_wire::create::access::rights::{READ_ATTRIBUTES, READ_CONTROL, READ_DATA, READ_EA};
use vfs::{Entry, Error, FileKind, Name, RelPath};

use crate::access::Allowed;
use crate::open::Open;
use crate::request_context::RequestContext;
use crate::share::Share;

impl Share {
    /// Returns whether a name is in the listing of the open directory. A link that is listed as one has nothing to be
    /// read.
    pub(crate) async fn is_listed(&self, ctx: &RequestContext, open: &Open, entry: &Entry) -> bool {
        entry.attributes.kind == FileKind::Symlink || self.is_shown(ctx, open, &entry.name).await
    }

    /// Returns whether a name is shown that is no link, or is listed as what it leads to.
    pub(crate) async fn is_shown(&self, ctx: &RequestContext, open: &Open, name: &[u8]) -> bool {
        !self.options().hide_unreadable || self.may_read(ctx, open, name).await.unwrap_or(false)
    }

    /// Checks whether the caller may read an entry; `None` for what is gone or cannot be looked at.
    async fn may_read(&self, ctx: &RequestContext, open: &Open, name: &[u8]) -> Option<bool> {
        let above = open.grants().path(self.volume())?;
        let path = above.as_path().join(Name::parse(name).ok()?).ok()?;
        self.reads(ctx, path.as_path()).await.ok()
    }

    /// Returns whether the user may read what has this path of the volume.
    ///
    /// # Errors
    /// Those of the look-up.
    pub(crate) async fn reads(&self, ctx: &RequestContext, path: RelPath<'_>) -> Result<bool, Error> {
        let found = self.volume().lookup_with_rights(&ctx.caller, path, Rights::NONE).await?;
        let who = &ctx.caller.principal;
        //= MS-SMB2 3.3.5.18
        //# Where the share enumerates by access, what the user has no GENERIC_READ of is left out. Its descriptor alone counts here: that
        //# the directory shows attributes is what is switched off.
        let granted = found.granted(who);
        let is_directory = found.resolved.attributes().is_directory();
        let mask = granted.unwrap_or_else(|| Allowed::new(who, found.rights(who), None, is_directory).mask());
        Ok(mask & READS == READS)
    }
}

/// GENERIC_READ of a file, as far as it reads.
const READS: u32 = READ_DATA | READ_EA | READ_ATTRIBUTES | READ_CONTROL;
