//! Shares that begin further down: a directory of the volume is their root, the same for every user, or
//! another one by user and time of the connect. To the tree all paths are the volume's; to clients they begin
//! there, and nothing beside it is theirs, whatever links lead to.

use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use identity::Rights;
use smb_wire::Status;
use vfs::{Directory, Error, FoundWithRights, RelPath, RelPathBuf, Resolved};

use crate::open::Open;
use crate::request_context::RequestContext;
use crate::share::Share;
use crate::status;

/// The root of a share, as a tree connect has it.
#[derive(Debug)]
pub struct Root {
    path: RelPathBuf,
    varies: bool,
}

impl Root {
    /// Returns the volume's own directory.
    pub fn whole() -> Arc<Self> {
        Arc::new(Self { path: RelPathBuf::root(), varies: false })
    }

    /// Returns whether other connections may have another one under the share's name, so that a client cannot
    /// know that what has the same path is another file.
    pub(crate) fn varies(&self) -> bool {
        self.varies
    }

    /// Returns the path of the root from the volume's own directory on.
    pub(crate) fn path(&self) -> RelPath<'_> {
        self.path.as_path()
    }

    /// Returns a path of the volume from here on; `None` for one that lies elsewhere.
    pub(crate) fn inside<'a>(&self, path: RelPath<'a>) -> Option<RelPath<'a>> {
        let root = self.path().as_bytes();
        let rest = match path.as_bytes().strip_prefix(root)? {
            rest if root.is_empty() || rest.is_empty() => rest,
            rest => rest.strip_prefix(b"/")?,
        };
        RelPath::parse(rest).ok()
    }
}

/// The directory of the volume that a tree connect has as its root.
#[derive(Clone, Debug)]
pub struct RootSpec {
    /// The directory, from the volume's own on.
    pub path: RelPathBuf,
    /// The root differs by user, or by time.
    pub varies: bool,
    /// The root is made on a connect where it does not exist, and its own name is all that is missing.
    pub makes: bool,
}

impl Share {
    /// Finds the root that a tree connect has from now on, also where the directory was reached by a link.
    ///
    /// # Errors
    /// `STATUS_BAD_NETWORK_NAME` where there is no such directory; `STATUS_ACCESS_DENIED` for a client that
    /// may not go there, or not make it; those of a directory that is made.
    pub fn enter<'a>(
        &'a self,
        ctx: &'a RequestContext,
        root_spec: &'a RootSpec,
    ) -> LocalBoxFuture<'a, Result<Arc<Root>, Status>> {
        Box::pin(async move {
            let path = root_spec.path.as_path();
            let mut makes = root_spec.makes;
            loop {
                let found = self.volume().lookup_with_rights(&ctx.caller, path, Rights::NONE).await;
                match found {
                    Ok(FoundWithRights { resolved: Resolved::File(..), .. }) => {
                        return Err(Status::BAD_NETWORK_NAME);
                    }
                    Ok(found) => {
                        let path = found.directory().ok_or(Status::BAD_NETWORK_NAME)?;
                        return Ok(Arc::new(Root { path, varies: root_spec.varies }));
                    }
                    Err(Error::NotFound) if makes => self.make_root(ctx, path).await?,
                    Err(error) => return Err(of_root_spec(error)),
                }
                makes = false;
            }
        })
    }

    /// Makes the root's directory, which only the connecting user may enter until it grants more; unless
    /// access lists decide.
    async fn make_root(&self, ctx: &RequestContext, path: RelPath<'_>) -> Result<(), Status> {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
        let above = self.volume().lookup_as(&ctx.caller, above, Rights::NONE).await;
        let (above, _) = above.and_then(Resolved::into_directory).map_err(of_root_spec)?;
        match above.make_directory(&ctx.caller, name, ROOT_MODE).await {
            // Another connect was faster.
            Ok(_) | Err(Error::Exists) => Ok(()),
            Err(error) => Err(of_root_spec(error)),
        }
    }

    /// Returns the path as a tree connect with this root has it.
    pub fn beneath(&self, root: &Arc<Root>) -> Self {
        Self { inner: self.inner.clone(), root: Arc::clone(root) }
    }

    /// Returns the path that names below the share begin with.
    pub(crate) fn root_path(&self) -> RelPath<'_> {
        self.root.path()
    }

    /// Returns whether all of the volume is the share's.
    pub(crate) fn is_whole(&self) -> bool {
        self.root_path().is_root()
    }

    /// Returns whether an open is of the share's root.
    pub(crate) fn is_root(&self, open: &Open) -> bool {
        let path = open.grants().path(self.volume());
        path.is_some_and(|path| path.as_path() == self.root_path())
    }

    /// Returns whether an open is of what lies below the share's root.
    pub(crate) fn has(&self, open: &Open) -> bool {
        self.is_whole() || self.holds(open.grants().path(self.volume())).is_ok()
    }

    /// Checks that what was found lies below the share's root.
    ///
    /// # Errors
    /// `STATUS_ACCESS_DENIED`.
    pub(crate) fn holds_found(&self, found: &FoundWithRights) -> Result<(), Status> {
        if self.is_whole() { Ok(()) } else { self.holds(found.directory()).map(drop) }
    }

    /// Checks that a directory in which something is to be changed lies there.
    ///
    /// # Errors
    /// `STATUS_ACCESS_DENIED`.
    pub(crate) fn holds_directory(&self, directory: &Directory) -> Result<(), Status> {
        if self.is_whole() {
            return Ok(());
        }
        self.holds(directory.object().and_then(|object| self.volume().path_of(object))).map(drop)
    }

    /// Checks that a name leads to what was opened by it just now, and that lies there: a link on the way may have come
    /// to lead elsewhere.
    ///
    /// # Errors
    /// `STATUS_ACCESS_DENIED`.
    pub(crate) async fn holds_opened(
        &self,
        ctx: &RequestContext,
        path: RelPath<'_>,
        object: &Arc<vfs::Object>,
    ) -> Result<(), Status> {
        if self.is_whole() {
            return Ok(());
        }
        let found = self.volume().lookup_with_rights(&ctx.caller, path, Rights::NONE).await;
        let found = found.map_err(status::of)?;
        let is_it = found.resolved.object().is_some_and(|now| Arc::ptr_eq(now, object));
        if is_it { self.holds_found(&found) } else { Err(Status::ACCESS_DENIED) }
    }

    /// Returns a path that lies there.
    pub(crate) fn holds(&self, path: Option<RelPathBuf>) -> Result<RelPathBuf, Status> {
        path.filter(|path| self.root.inside(path.as_path()).is_some()).ok_or(Status::ACCESS_DENIED)
    }
}

fn of_root_spec(error: Error) -> Status {
    match error {
        //= MS-SMB2 3.3.5.7
        //# What there is not cannot be connected to: STATUS_BAD_NETWORK_NAME.
        Error::NotFound | Error::Hidden | Error::NotADirectory | Error::IsADirectory | Error::Escapes => {
            Status::BAD_NETWORK_NAME
        }
        error => status::of(error),
    }
}

/// Mode of a directory that is made for a tree connect: its owner's alone.
const ROOT_MODE: u32 = 0o700;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_inside_by_whole_names() {
        let root = |path: &str| Root { path: RelPath::parse(path.as_bytes()).unwrap().into(), varies: false };
        for (at, path, inside) in [
            ("", "a/b", Some("a/b")),
            ("", "", Some("")),
            ("home/al", "home/al/x", Some("x")),
            ("home/al", "home/al", Some("")),
            ("home/al", "home/alice", None),
            ("home/al", "home", None),
            ("home/al", "", None),
        ] {
            let path = RelPath::parse(path.as_bytes()).unwrap();
            let found = root(at).inside(path).map(|inside| inside.to_string());
            assert_eq!(found.as_deref(), inside, "{path} in {at}");
        }
    }
}
