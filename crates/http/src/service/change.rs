//! PUT and DELETE: what they name, the user, and its rights.
//!
//! Both are of the name that the request's path ends in. A symbolic link that has it is replaced or removed itself, and what it
//! leads to stays; on the way to it links count as for GET. Conditions are judged of what has the name: the version that GET
//! tells of a link is that of its far end, so a change of the link that asks for it is refused.

use identity::Rights;
use vfs::{Caller, Error, RelPath, Resolved};

use super::authenticate::{authenticate, challenge_if_anonymous};
use super::change_target::ChangeTarget;
use super::client::Client;
use super::put_file::put_file;
use super::refuse::of_change;
use super::remove::remove;
use super::reply::Reply;
use super::request_body::RequestBody;
use super::shared::Service;
use super::site::{Mount, Site};
use crate::path::{self, RelativePath};
use crate::request::{Head, Method};
use crate::request_error::RequestError;

/// Makes the change that a request asks for.
pub(super) async fn change(
    service: &Service,
    site: &Site,
    head: &Head<'_>,
    raw_path: &[u8],
    client: &Client,
    body: &mut RequestBody<'_>,
) -> Result<Reply, RequestError> {
    let path = path::decode(raw_path)?;
    let Some((mount, below)) = site.resolve(&path.bytes) else { return Err(RequestError::MethodNotAllowed) };
    if !mount.volume.is_writable() {
        return Err(RequestError::MethodNotAllowed);
    }
    let caller = authenticate(service, site, mount, &head.fields, client).await?;
    let changed = async {
        let target = resolve_target(site, mount, &path, below, &caller).await?;
        match head.method {
            Method::Put => put_file(service, site, head, client, target, body).await,
            _ => remove(site, head, target).await,
        }
    };
    changed.await.map_err(|refusal| challenge_if_anonymous(refusal, mount, client))
}

async fn resolve_target<'a>(
    site: &Site,
    mount: &'a Mount,
    path: &'a RelativePath<'_>,
    below: &'a [u8],
    caller: &'a Caller,
) -> Result<ChangeTarget<'a>, RequestError> {
    let relative = RelPath::parse(below).map_err(|error| of_change(error.into()))?;
    let (Some(parent), Some(name)) = (relative.parent(), relative.file_name()) else {
        return Err(RequestError::MethodNotAllowed);
    };
    // What is mounted below it makes it a directory, whatever the volume has there.
    if !site.mounted_below(&path.bytes).is_empty() {
        return Err(RequestError::IsDirectory);
    }
    let is_served = mount.volume.options().serve_hidden || !relative.is_hidden();
    if !is_served || relative.is_reserved() {
        return Err(RequestError::NameRefused);
    }
    let directory = match mount.volume.lookup_as(caller, parent, Rights::NONE).await {
        Ok(Resolved::Directory(directory, _)) => directory,
        Ok(Resolved::File(..)) => return Err(RequestError::DirectoryMissing),
        Err(error) => return Err(of_parent(error)),
    };
    let is_directory = path.directory;
    Ok(ChangeTarget { caller, mount, url: &path.bytes, path: relative, directory, name, is_directory })
}

/// Returns the error of a change whose parent directory cannot be reached.
fn of_parent(error: Error) -> RequestError {
    match error {
        Error::NotFound | Error::NotADirectory | Error::SymlinkRefused | Error::Escapes => {
            RequestError::DirectoryMissing
        }
        other => of_change(other),
    }
}
