//! Dispatch of requests to handlers.

use vfs::{Caller, Error, RelPath, Resolved};

use super::authenticate::{authenticate, challenge_if_anonymous};
use super::change::change;
use super::client::Client;
use super::get_file::{self, FoundFile};
use super::list_directory::{list_directory, list_mounts, to_directory};
use super::options::{allowed, options};
use super::refuse::refuse;
use super::reply::{Body, Reply};
use super::request_body::RequestBody;
use super::shared::Service;
use super::site::{Mount, Site};
use crate::path::{self, RelativePath};
use crate::request::{Head, Method, Target};
use crate::request_error::RequestError;

/// Answers a request, whatever becomes of it.
pub(super) async fn dispatch(
    service: &Service,
    site: &Site,
    head: &Head<'_>,
    mut client: Client,
    body: &mut RequestBody<'_>,
) -> Reply {
    service.counters.request(head.method);
    let reply = match (head.method, head.target) {
        (Method::Options, target) => Ok(options(site, target)),
        (Method::Get | Method::Head, Target::Path { path, query }) => {
            get(service, site, head, path, query, &client).await
        }
        (Method::Put | Method::Delete, Target::Path { path, .. }) => {
            Box::pin(change(service, site, head, path, &client, body)).await
        }
        (Method::Other, _) => Err(RequestError::MethodNotAllowed),
        (_, Target::Asterisk) => Err(RequestError::Target),
    };
    let mut reply = reply.unwrap_or_else(|refusal| {
        let mut reply = refuse(service, refusal, &head.fields);
        if refusal == RequestError::MethodNotAllowed && !matches!(head.method, Method::Put | Method::Delete) {
            reply.answer.allow = Some(allowed(site, head.target));
        }
        reply
    });
    reply.principal = client.principal.take();
    // A refusal is for everybody.
    if reply.answer.status.is_success() && !matches!(reply.body, Body::Empty) {
        reply.running = client.running.take();
    }
    service.counters.response(reply.answer.status.as_u16());
    reply
}

/// Answers GET and HEAD: finds what the path names.
async fn get(
    service: &Service,
    site: &Site,
    head: &Head<'_>,
    raw_path: &[u8],
    query: Option<&[u8]>,
    client: &Client,
) -> Result<Reply, RequestError> {
    let path = path::decode(raw_path)?;
    let Some((mount, below)) = site.resolve(&path.bytes) else {
        return Box::pin(list_mounts(site, head, &path, query)).await;
    };
    let caller = authenticate(service, site, mount, &head.fields, client).await?;
    let target = ReadTarget { mount, path: &path, query, below, caller: &caller, client };
    read(service, site, head, target).await.map_err(|refusal| challenge_if_anonymous(refusal, mount, client))
}

/// The target of a GET or HEAD: the path within a mount, and the caller that reads it.
struct ReadTarget<'a> {
    mount: &'a Mount,
    path: &'a RelativePath<'a>,
    query: Option<&'a [u8]>,
    /// The path within the volume.
    below: &'a [u8],
    caller: &'a Caller,
    client: &'a Client,
}

/// Reads what most requests have no need of, apart: the memory of one that finds what it asks for at hand is
/// small.
async fn read(
    service: &Service,
    site: &Site,
    head: &Head<'_>,
    target: ReadTarget<'_>,
) -> Result<Reply, RequestError> {
    let ReadTarget { mount, path, query, below, caller, client } = target;
    let relative = RelPath::parse(below)?;
    let resolved = match mount.lookup(caller, relative).await {
        Ok(resolved) => resolved,
        // The way to a mount need not exist in the volume around it.
        Err(Error::NotFound | Error::Hidden) if !site.mounted_below(&path.bytes).is_empty() => {
            return if mount.listings {
                Box::pin(list_mounts(site, head, path, query)).await
            } else {
                Err(RequestError::Forbidden)
            };
        }
        Err(error) => return Err(error.into()),
    };
    match resolved {
        // A file's name with a slash behind it names nothing.
        Resolved::File(..) if path.directory => Err(RequestError::NotFound),
        Resolved::File(file, attributes) => {
            let found = FoundFile { caller, mount, path: relative, file, attributes, client };
            get_file::get_file(service, site, head, found).await
        }
        Resolved::Directory(..) if !path.directory => Ok(to_directory(&path.bytes, query)),
        Resolved::Directory(directory, _) => match Box::pin(index_file(site, mount, caller, relative)).await?
        {
            Some(index) => {
                let found = FoundFile {
                    path: index.path.as_path(),
                    caller,
                    mount,
                    file: index.file,
                    attributes: index.attributes,
                    client,
                };
                get_file::get_file(service, site, head, found).await
            }
            None if mount.listings => {
                let caller = &caller.clone().charged_to(client.consumer());
                Box::pin(list_directory(site, head, caller, &path.bytes, &directory, query)).await
            }
            None => Err(RequestError::Forbidden),
        },
    }
}

struct Index {
    path: vfs::RelPathBuf,
    file: std::rc::Rc<vfs::OpenFile>,
    attributes: vfs::Attributes,
}

/// Finds the first index file that a directory has.
async fn index_file(
    site: &Site,
    mount: &Mount,
    caller: &Caller,
    directory: RelPath<'_>,
) -> Result<Option<Index>, RequestError> {
    for name in &site.index {
        let path = directory.join(vfs::Name::parse(name.as_bytes())?)?;
        match mount.lookup(caller, path.as_path()).await {
            Ok(Resolved::File(file, attributes)) => return Ok(Some(Index { path, file, attributes })),
            Ok(Resolved::Directory(..)) | Err(vfs::Error::NotFound | vfs::Error::Hidden) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}
