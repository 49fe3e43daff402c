//! Which handler a request needs.

use httptypes::StatusCode;
use vfs::{Error, RelPath, Resolved};

use super::get_file::{self, Found};
use super::list_directory::{list_directory, list_mounts};
use super::listener::Service;
use super::options::options;
use super::refuse::refuse;
use super::reply::{Body, Reply};
use super::site::{Mount, Site};
use crate::path;
use crate::redirect;
use crate::refusal::Refusal;
use crate::request::{Head, Method, Target};
use crate::response::Answer;

/// The answer to a request, whatever becomes of it.
pub(super) async fn dispatch(service: &Service, site: &Site, head: &Head<'_>) -> Reply {
    service.counters.request(head.method);
    let reply = match (head.method, head.target) {
        (Method::Options, _) => Ok(options()),
        (Method::Get | Method::Head, Target::Path { path, query }) => {
            get(service, site, head, path, query).await
        }
        (Method::Get | Method::Head, Target::Asterisk) => Err(Refusal::Target),
        (Method::Other, _) => Err(Refusal::MethodNotAllowed),
    };
    let reply = reply.unwrap_or_else(|refusal| refuse(service, refusal, &head.fields));
    service.counters.response(reply.answer.status.as_u16());
    reply
}

/// GET and HEAD: finds what the path names.
async fn get(
    service: &Service,
    site: &Site,
    head: &Head<'_>,
    raw_path: &[u8],
    query: Option<&[u8]>,
) -> Result<Reply, Refusal> {
    let path = path::decode(raw_path)?;
    let Some((mount, below)) = site.resolve(&path.bytes) else {
        return list_mounts(site, head, &path, query).await;
    };
    let relative = RelPath::parse(below)?;
    let resolved = match mount.volume.lookup(relative).await {
        Ok(resolved) => resolved,
        // The way to a mount need not exist in the volume around it.
        Err(Error::NotFound | Error::Hidden) if !site.mounted_below(&path.bytes).is_empty() => {
            return if mount.listings {
                list_mounts(site, head, &path, query).await
            } else {
                Err(Refusal::Forbidden)
            };
        }
        Err(error) => return Err(error.into()),
    };
    match resolved {
        // A file's name with a slash behind it names nothing.
        Resolved::File(..) if path.directory => Err(Refusal::NotFound),
        Resolved::File(file, attributes) => {
            let found = Found { mount, path: relative, file, attributes };
            get_file::get_file(service, site, head, found).await
        }
        Resolved::Directory(..) if !path.directory => Ok(to_directory(&path.bytes, query)),
        Resolved::Directory(directory, _) => match index_file(site, mount, relative).await? {
            Some(index) => {
                let found = Found {
                    path: index.path.as_path(),
                    mount,
                    file: index.file,
                    attributes: index.attributes,
                };
                get_file::get_file(service, site, head, found).await
            }
            None if mount.listings => list_directory(site, head, &path.bytes, &directory, query).await,
            None => Err(Refusal::Forbidden),
        },
    }
}

/// Sends the client to the name with a slash, so that relative links in the directory's page work.
pub(super) fn to_directory(path: &[u8], query: Option<&[u8]>) -> Reply {
    let answer = Answer {
        status: StatusCode::MOVED_PERMANENTLY,
        location: Some(redirect::to_directory(path, query)),
        content_length: Some(0),
        ..Answer::default()
    };
    Reply { answer, body: Body::Empty }
}

struct Index {
    path: vfs::RelPathBuf,
    file: std::rc::Rc<vfs::OpenFile>,
    attributes: vfs::Attributes,
}

/// The first index file that a directory has.
async fn index_file(site: &Site, mount: &Mount, directory: RelPath<'_>) -> Result<Option<Index>, Refusal> {
    for name in &site.index {
        let path = directory.join(vfs::Name::parse(name.as_bytes())?)?;
        match mount.volume.lookup(path.as_path()).await {
            Ok(Resolved::File(file, attributes)) => return Ok(Some(Index { path, file, attributes })),
            Ok(Resolved::Directory(..)) | Err(vfs::Error::NotFound | vfs::Error::Hidden) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}
