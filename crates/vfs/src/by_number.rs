//! Files found by number, as AFS's clients name them: at first use by the index, from then on by the path that this lane remembers for
//! the number, which has to lead to that very file.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::LocalBoxFuture;
use identity::{Principal, Rights, Writable};
use index::Number;
use lane::offload::offload;
use smb_wire::create::access::rights::{FILE_EXECUTE, FILE_READ};

use crate::cache::WatchedDir;
use crate::callback::{Client, LookupWithCallback};
use crate::caller::Caller;
use crate::directory::Directory;
use crate::error::Error;
use crate::guarded::LookupResult;
use crate::name::{RelPath, RelPathBuf};
use crate::object::{By, Identity, identity_of};
use crate::volume::{Resolved, Volume};

/// Result of a look-up by number or path, with the caller's rights, at one moment. No callback comes with it.
pub struct FoundWithRights {
    /// The file, with its attributes.
    pub resolved: Resolved,
    /// Real path of the file, past all links by which it was found; `None` where there was no link on the
    /// way.
    pub real: Option<RelPathBuf>,
    volume: Volume,
    directory: Rc<WatchedDir>,
}

impl FoundWithRights {
    /// Returns the principal's rights over the file, or in it if it is a directory.
    pub fn rights(&self, principal: &Principal) -> Rights {
        rights_there(&self.volume, &self.directory, &self.resolved, principal)
    }

    /// Returns whether the file belongs to the principal, which may then change its access list.
    pub fn ownership(&self, principal: &Principal) -> Ownership {
        let root = self.volume.root();
        let (Some(policy), Some(shared)) = (root.policy(), root.shared()) else { return Ownership::Others };
        let attributes = self.resolved.attributes();
        let options = shared.objects().options();
        if policy.writable == Writable::Nobody || !principal.is_user() {
            return Ownership::Others;
        }
        if attributes.owner().is(principal, policy.privileged) {
            return Ownership::Own;
        }
        let is_servers = attributes.maker.is_none() && attributes.uid == options.user && !options.gives_files;
        if is_servers { Ownership::Servers } else { Ownership::Others }
    }

    /// Returns whether the caller owns it by its mode bits, and so may remove its name from a sticky
    /// directory.
    pub fn is_own(&self, principal: &Principal) -> bool {
        self.resolved.attributes().owner().is_by_mode(principal)
    }

    /// Returns the present path of the directory that it lies in, or that it is, past all links by which it
    /// was found.
    pub fn directory(&self) -> Option<RelPathBuf> {
        self.volume.path_of(self.directory.object()?)
    }

    /// Returns the number of the directory that it was found in; `None` for a volume's own.
    pub fn above(&self) -> Option<Number> {
        self.directory.number_above(self.resolved.object()?)
    }
}

impl FoundWithRights {
    /// Returns everything that the principal is granted over what has a security descriptor of its own, as an
    /// access mask of SMB; `None` for what has none.
    pub fn granted(&self, principal: &Principal) -> Option<u32> {
        let policy = self.volume.root().policy()?;
        let granted = match &self.resolved {
            Resolved::Directory(..) => self.directory.granted_here(principal, policy)?,
            Resolved::File(file, _) => self.directory.granted_of(principal, policy, &file.own()?),
        };
        Some(if policy.writable == Writable::Nobody { granted & UNCHANGING } else { granted })
    }
}

/// Ownership of a file, seen from one principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// The principal owns the file: by its record, or by its uid where mode bits count.
    Own,
    /// The server's own user owns it and gives no files away: the maker counts.
    Servers,
    /// Another user owns it, or the volume is read-only.
    Others,
}

impl std::fmt::Debug for FoundWithRights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Found").field("resolved", &self.resolved).finish_non_exhaustive()
    }
}

/// Returns a principal's rights over what a look has found, or in it if it is a directory.
pub(crate) fn rights_there(
    volume: &Volume,
    directory: &WatchedDir,
    resolved: &Resolved,
    principal: &Principal,
) -> Rights {
    let Some(policy) = volume.root().policy() else { return Rights::NONE };
    match resolved {
        Resolved::Directory(..) => directory.rights(principal, policy),
        Resolved::File(file, attributes) => {
            directory.rights_of(principal, policy, attributes, file.own().as_ref())
        }
    }
}

/// A file and the directory that it is in.
#[derive(Debug)]
pub struct FileWithParent {
    /// The file.
    pub file: Resolved,
    /// The directory that it is in. What was [last seen](crate::Object::seen_in) of the file is no more than a hint of
    /// that.
    pub directory: Directory,
    /// Name of the file in that directory.
    pub name: Box<[u8]>,
}

impl Volume {
    /// Finds the file or directory of this number, wherever it is in the volume now. The caller has to be allowed
    /// through every directory on the way, and needs the rights `need` there, as [`Volume::lookup_as`] has them.
    ///
    /// # Errors
    /// [`Error::Stale`] for a number that nothing has, or no longer, and for what has left the volume or cannot be
    /// found in it; [`Error::ReadOnly`] for a volume [without objects](crate::VolumeSpec::with_objects); else as
    /// [`Volume::reopen`].
    pub async fn find(&self, caller: &Caller, number: Number, need: Rights) -> Result<Resolved, Error> {
        match self.try_find(caller, number, need) {
            Some(found) => Ok(found),
            None => Ok(self.find_at(caller, number, need).await?.1),
        }
    }

    /// Looks up a path, with the rights that count there, on a volume [with
    /// objects](crate::VolumeSpec::with_objects) ([`Volume::lookup_as`]).
    ///
    /// # Errors
    /// As there; [`Error::ReadOnly`] on a volume without.
    pub fn lookup_with_rights<'a>(
        &'a self,
        caller: &'a Caller,
        path: RelPath<'a>,
        need: Rights,
    ) -> LocalBoxFuture<'a, Result<FoundWithRights, Error>> {
        Box::pin(async move {
            if !self.has_objects() {
                return self.counted(Err(Error::ReadOnly));
            }
            let LookupResult { resolved, directory, real } = self.look_as(caller, path, need).await?;
            Ok(FoundWithRights { resolved, real, volume: self.clone(), directory })
        })
    }

    /// Finds a file by number, with the rights that count there ([`Volume::find`]).
    ///
    /// # Errors
    /// As [`Volume::find`]; [`Error::Unsettled`] for what moves again and again.
    pub fn find_with_rights<'a>(
        &'a self,
        caller: &'a Caller,
        number: Number,
        need: Rights,
    ) -> LocalBoxFuture<'a, Result<FoundWithRights, Error>> {
        Box::pin(async move {
            let mut known = self.cache().path_of_number(self.key(RelPath::ROOT), number);
            for _ in 0..ATTEMPTS_MAX {
                let path = match known.take() {
                    Some(path) => path,
                    None => Rc::new(self.find_at(caller, number, need).await?.0),
                };
                match self.look_as(caller, path.as_path(), need).await {
                    Ok(LookupResult { resolved, directory, real }) if is_it(&resolved, number) => {
                        return Ok(FoundWithRights { resolved, real, volume: self.clone(), directory });
                    }
                    // It has moved since.
                    Ok(_) | Err(Error::NotFound | Error::NotADirectory | Error::Denied(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            self.counted(Err(self.unsettled(RelPath::ROOT, "finding a file by its number")))
        })
    }

    /// Finds a file by number if the answer is at hand ([`Volume::find`]): never waits. `None` means "ask
    /// `find`", which says too why it is refused.
    pub fn try_find(&self, caller: &Caller, number: Number, need: Rights) -> Option<Resolved> {
        self.where_it_was(number, |path| self.try_guarded(caller, path, need), |found| found)
    }

    /// Finds what is no volume's own directory by number, with the directory that it is in if the caller has the
    /// rights `above` there.
    ///
    /// # Errors
    /// As [`Volume::find`]; [`Error::Stale`] for the volume's own directory; [`Error::Unsettled`] when it moves again
    /// and again.
    pub fn find_with_parent<'a>(
        &'a self,
        caller: &'a Caller,
        number: Number,
        need: Rights,
        above: Rights,
    ) -> LocalBoxFuture<'a, Result<FileWithParent, Error>> {
        Box::pin(async move {
            for _ in 0..ATTEMPTS_MAX {
                let known = self.cache().path_of_number(self.key(RelPath::ROOT), number);
                let path = match known.filter(|_| self.try_find(caller, number, need).is_some()) {
                    Some(path) => (*path).clone(),
                    None => self.find_at(caller, number, need).await?.0,
                };
                let (Some(to), Some(name)) = (path.as_path().parent(), path.as_path().file_name()) else {
                    return self.counted(Err(Error::Stale));
                };
                let directory = match self.lookup_as(caller, to, above).await {
                    Ok(found) => found.into_directory()?.0,
                    // It has moved since.
                    Err(Error::NotFound | Error::NotADirectory) => continue,
                    Err(error) => return Err(error),
                };
                match directory.lookup_as(caller, name, need).await {
                    Ok(file) if is_it(&file, number) => {
                        return Ok(FileWithParent { file, directory, name: name.as_bytes().into() });
                    }
                    Ok(_) | Err(Error::NotFound | Error::NotADirectory | Error::Stale | Error::Denied(_)) => {
                    }
                    Err(error) => return Err(error),
                }
            }
            self.counted(Err(self.unsettled(RelPath::ROOT, "finding a file by its number")))
        })
    }

    /// Finds a file by number, and gives `client` a callback on the object until `until`, as
    /// [`Volume::lookup_with_callback`] does.
    ///
    /// # Errors
    /// As [`Volume::find`] and [`Volume::lookup_with_callback`].
    pub fn find_with_callback<'a>(
        &'a self,
        caller: &'a Caller,
        client: &'a Arc<Client>,
        number: Number,
        need: Rights,
        until: Instant,
    ) -> LocalBoxFuture<'a, Result<LookupWithCallback, Error>> {
        Box::pin(async move {
            for _ in 0..ATTEMPTS_MAX {
                if let Some(promised) = self.try_find_with_callback(caller, client, number, need, until) {
                    return Ok(promised);
                }
                let (path, _) = self.find_at(caller, number, need).await?;
                match self.lookup_with_callback(caller, client, path.as_path(), need, until).await {
                    Ok(promised) if is_it(promised.resolved(), number) => return Ok(promised),
                    // It has moved since.
                    Ok(_) | Err(Error::NotFound | Error::NotADirectory | Error::Denied(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            self.counted(Err(self.unsettled(RelPath::ROOT, "finding a file by its number")))
        })
    }

    /// Finds a file with a callback where nothing has to be waited for, else `None`
    /// ([`Volume::find_with_callback`]).
    pub fn try_find_with_callback(
        &self,
        caller: &Caller,
        client: &Arc<Client>,
        number: Number,
        need: Rights,
        until: Instant,
    ) -> Option<LookupWithCallback> {
        let look = |path: RelPath<'_>| self.try_lookup_with_callback(caller, client, path, need, until);
        self.where_it_was(number, look, LookupWithCallback::resolved)
    }

    /// Returns what a look finds where this lane saw the file of this number last, if that is it still.
    fn where_it_was<T>(
        &self,
        number: Number,
        look: impl FnOnce(RelPath<'_>) -> Option<Result<T, Error>>,
        resolved: impl FnOnce(&T) -> &Resolved,
    ) -> Option<T> {
        let path = self.cache().path_of_number(self.key(RelPath::ROOT), number)?;
        let found = look(path.as_path())?.ok()?;
        is_it(resolved(&found), number).then_some(found)
    }

    /// Finds a file by number, with the path that leads there ([`Volume::find`]).
    fn find_at<'a>(
        &'a self,
        caller: &'a Caller,
        number: Number,
        need: Rights,
    ) -> LocalBoxFuture<'a, Result<(RelPathBuf, Resolved), Error>> {
        Box::pin(async move {
            let identity = self.counted(self.identity_of(number).await)?;
            let (path, found) = self.reopen_at(caller, &identity, need).await?;
            // A file has one number in its life, but the index may have known others by it.
            if !is_it(&found, number) {
                return self.counted(Err(Error::Stale));
            }
            self.cache().keep_number(self.key(path.as_path()), number);
            Ok((path, found))
        })
    }

    pub(crate) async fn identity_of(&self, number: Number) -> Result<Identity, Error> {
        let shared = self.shared().ok_or(Error::ReadOnly)?;
        // It may not have been looked at yet, so that the index does not know it.
        if number == Number::ROOT {
            let root = self.root().dir();
            return identity_of(By::Open(root.as_file()), &root.stat()?).await;
        }
        if let Some(object) = shared.in_use_as(number) {
            return Ok(object.identity().clone());
        }
        let shared = Arc::clone(shared);
        offload(None, move || shared.identity_of(number)).await.map_err(|_| Error::Overloaded)?
    }
}

fn is_it(found: &Resolved, number: Number) -> bool {
    found.object().is_some_and(|object| object.number() == number)
}

/// Bits of a mask that change nothing.
const UNCHANGING: u32 = FILE_READ | FILE_EXECUTE;
/// Searches for something that moves again and again.
const ATTEMPTS_MAX: u32 = 16;
