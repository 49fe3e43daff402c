//! The target of a PUT or DELETE, and the conditions under which the request may change it.

use identity::Rights;
use vfs::{Attributes, Caller, Directory, Error, Expect, Name, RelPath, Resolved};

use super::refuse::of_change;
use super::site::Mount;
use crate::conditional::{self, Validators};
use crate::request::Fields;
use crate::request_error::RequestError;

/// The target of a PUT or DELETE: the name, its directory, and the caller that changes it.
pub(super) struct ChangeTarget<'a> {
    pub(super) caller: &'a Caller,
    pub(super) mount: &'a Mount,
    /// Path within the site, decoded.
    pub(super) url: &'a [u8],
    /// Path within the volume.
    pub(super) path: RelPath<'a>,
    pub(super) directory: Directory,
    pub(super) name: Name<'a>,
    /// The request's path ends in a slash.
    pub(super) is_directory: bool,
}

impl ChangeTarget<'_> {
    /// Returns whether the request's conditions hold of what has the name.
    pub(super) fn allows(&self, fields: &Fields<'_>, found: Option<&Attributes>) -> bool {
        let validators = found.map(|found| self.validators(found));
        conditional::allows_change(fields, validators.as_ref())
    }

    /// Returns the validators of a version for a client that wants to change it.
    pub(super) fn validators(&self, attributes: &Attributes) -> Validators {
        let distrusted = self.mount.volume.distrusts_before();
        Validators::of_upload(attributes, distrusted, lane::time::wall_clock())
    }

    /// Returns what has the name now, for a caller with these rights over it.
    pub(super) async fn found(&self, need: Rights) -> Result<Option<Resolved>, RequestError> {
        match self.mount.volume.lookup_as(self.caller, self.path, need).await {
            Ok(found) => Ok(Some(found)),
            Err(Error::NotFound) => Ok(None),
            Err(error) => Err(of_change(error)),
        }
    }
}

/// Returns whether a request depends on what has the name.
pub(super) fn is_conditional(fields: &Fields<'_>) -> bool {
    fields.if_match.is_some() || fields.if_none_match.is_some() || fields.if_unmodified_since.is_some()
}

/// Returns what has the name has to be as `allows` wants it, where the request depends on that.
pub(super) fn expect<'e>(fields: &Fields<'_>, allows: &'e dyn Fn(Option<&Attributes>) -> bool) -> Expect<'e> {
    if is_conditional(fields) { Expect::Like(allows) } else { Expect::Anything }
}
