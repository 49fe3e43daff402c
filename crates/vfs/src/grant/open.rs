//! An open as SMB has it: with access, share modes, and what its client may cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use budget::Consumer;
use futures_util::future::LocalBoxFuture;
use grants::conflict::RangeUse;
use grants::{
    Access, BadAcknowledgement, Caching, CachingRequest, ExemptHolder, Holder, Home, Kind, LeaseKey,
    LeaseRef, OpenId, Opened, Range, Refused, Request, Share, StatOpen,
};
use identity::Rights;
use index::Kind as NumberKind;
use lane::fs::File;

use super::requests::{LeasePlace, When, at_once, name_of, retry_until_decided};
use super::{Link, OpenError};
use crate::cache::Cache;
use crate::caller::Caller;
use crate::directory::Directory;
use crate::error::Error;
use crate::name::{RelPath, RelPathBuf};
use crate::object::Object;
use crate::volume::{Resolved, Volume};
use crate::which_name::WhichName;

/// An open of one stream of a file or directory, for as long as this lives; any lane may use it. The service
/// [closes](Open::close) it: dropped without, what it holds is given back all the same, but a name that would go with
/// it stays.
pub struct Open {
    pub(super) object: Arc<Object>,
    pub(super) id: OpenId,
    pub(super) link: Arc<Link>,
    opened: Opened,
    lease: Option<LeaseRef<LeasePlace>>,
    /// The key of the directory's lease that its changes spare.
    pub(super) parent: Option<[u8; 16]>,
    access: Access,
    /// Consumer in whose share the open counts.
    pub(super) consumer: Consumer,
    /// The open has changed the content: leases of the directory go when it is closed.
    pub(super) is_modified: AtomicBool,
    pub(super) is_closed: AtomicBool,
    /// The open is of a symbolic link itself.
    pub(super) is_link: bool,
}

/// Options of opening a file (MS-SMB2 2.2.13).
#[derive(Clone, Copy, Debug)]
pub struct OpenHow<'a> {
    /// A named stream; empty for the file's own data, and for directories.
    pub stream: &'a [u8],
    /// Access that the open is for.
    pub access: Access,
    /// Access that others may have beside it.
    pub share: Share,
    /// Rights that the caller needs over it, as [`Volume::lookup_as`] has them. To delete or rename it the
    /// caller needs them in the directory, which is checked then.
    pub need: Rights,
    /// Kind of access to attributes alone, if the open is for no more.
    pub looks: StatOpen,
    /// Set if the caller is going to replace the content.
    pub overwrites: bool,
    /// Consumer in whose share of bounded resources the open counts.
    pub consumer: Consumer,
    /// Caching that the client asks for.
    pub wanted: Option<RequestedCaching>,
}

/// Caching that a client requests: a lease or an oplock.
#[derive(Clone, Copy, Debug)]
pub enum RequestedCaching {
    /// An oplock: [`Caching::R`], [`Caching::RW`] or [`Caching::RWH`] for level II, exclusive and batch.
    Oplock(Caching),
    /// A lease.
    Lease {
        /// Key of the lease.
        key: LeaseKey,
        /// Kinds of caching.
        caching: Caching,
        /// Epoch of the request, for version 2 of the context.
        epoch: Option<u16>,
        /// The key of leases of the directory, whichever client's, that this open's changes spare.
        parent: Option<[u8; 16]>,
    },
}

impl Volume {
    /// Opens what `path` names, beside what others hold of it: waits for what has to be given back first. The caller
    /// needs the rights that `how` says. `holder` gets the number by which the client is notified of breaks, before
    /// there can be any: again with each attempt.
    ///
    /// # Errors
    /// [`OpenError`]; on a volume without objects [`Error::ReadOnly`].
    pub fn open_shared<'a>(
        &'a self,
        caller: &'a Caller,
        path: RelPath<'a>,
        how: &'a OpenHow<'a>,
        holder: &'a mut dyn FnMut(Holder),
    ) -> LocalBoxFuture<'a, Result<(Open, Resolved), OpenError>> {
        Box::pin(async move {
            let opened = self.try_open_shared(caller, path, how, holder).await;
            opened.inspect_err(|error| match error {
                OpenError::Refused(Refused::TooMany) => self.counters().grants_refused_limit.increment(),
                OpenError::Refused(_) | OpenError::LeaseOfOtherFile(_) => {
                    self.counters().grants_refused.increment()
                }
                OpenError::Failed(_) => {}
            })
        })
    }

    async fn try_open_shared(
        &self,
        caller: &Caller,
        path: RelPath<'_>,
        how: &OpenHow<'_>,
        holder: &mut dyn FnMut(Holder),
    ) -> Result<(Open, Resolved), OpenError> {
        for _ in 0..ATTEMPTS_MAX {
            let found = self.lookup_as(caller, path, how.need).await?;
            let object = Arc::clone(found.object().ok_or(Error::ReadOnly)?);
            let is_directory = matches!(found, Resolved::Directory(..));
            if how.wanted.is_some() {
                self.watch_by_all_names(&found);
            }
            let open = self.open_object(path, &object, is_directory, how, holder).await?;
            // The name may have come to lead elsewhere meanwhile.
            let again = self.lookup_as(caller, path, how.need).await;
            match again {
                Ok(again) if again.object().is_some_and(|now| Arc::ptr_eq(now, &object)) => {
                    self.note_look(path, &again);
                    return Ok((open, again));
                }
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(self.unsettled(path, "opening a file").into())
    }

    pub(super) async fn open_object(
        &self,
        path: RelPath<'_>,
        object: &Arc<Object>,
        is_directory: bool,
        how: &OpenHow<'_>,
        tell: &mut dyn FnMut(Holder),
    ) -> Result<Open, OpenError> {
        let request_of = self.request_of(path, object, is_directory, how).await?;
        let request = &request_of.request;
        tell(request.want.map_or(Holder(request.open.0), |want| want.holder));
        let opened = retry_until_decided(self, object, When::Unchanging, |grants, now, ticket, events| {
            grants.open(now, how.stream, request.clone(), ticket, events)
        });
        let opened = opened.await?;
        Ok(request_of.granted(object, opened))
    }

    /// Makes the request to the object's grants, with a number for the open and the lease named.
    pub(super) async fn request_of(
        &self,
        path: RelPath<'_>,
        object: &Arc<Object>,
        is_directory: bool,
        how: &OpenHow<'_>,
    ) -> Result<OpenRequest, OpenError> {
        let leases = object.volume().objects().leases();
        let (id, link) = (leases.next_open(), self.link(path, object, how.wanted.is_some()).await?);
        let (mut lease, mut parent, mut want) = (None, None, None);
        match how.wanted {
            None => {}
            Some(RequestedCaching::Oplock(caching)) => {
                let home = self.cache().home();
                want = Some(CachingRequest {
                    holder: Holder(id.0),
                    kind: Kind::Oplock,
                    caching,
                    home,
                    key: None,
                });
            }
            Some(RequestedCaching::Lease { key, caching, epoch, parent: above }) => {
                let mut named = leases.name(key)?;
                named.bind(LeasePlace { object: Arc::clone(object), stream: how.stream.into() })?;
                let (holder, home) = (named.holder(), self.cache().home());
                let kind = Kind::Lease { epoch };
                want = Some(CachingRequest { holder, kind, caching, home, key: Some(key.key) });
                lease = Some(named);
                parent = above;
            }
        }
        let request = Request {
            open: id,
            consumer: how.consumer,
            access: how.access,
            share: how.share,
            looks: how.looks,
            overwrites: how.overwrites,
            is_directory,
            link,
            parent,
            want,
        };
        Ok(OpenRequest { request, lease })
    }

    /// Returns the name of an object that a path ends with, in the directory above. `caches`: it is kept watched, as
    /// what is there may be cached.
    async fn link(&self, path: RelPath<'_>, object: &Arc<Object>, caches: bool) -> Result<Arc<Link>, Error> {
        let Some(name) = path.file_name() else { return Ok(Link::root()) };
        let validity = self.cache().validity_above(self.root(), self.key(path)).await;
        let directory = validity.object().ok_or(Error::Stale)?;
        if let Some(watched) = validity.watched().filter(|_| caches) {
            self.cache().pin_for_opens(watched);
        }
        Ok(Link::new(directory, name.as_bytes(), object))
    }

    /// Acknowledges a break: the holder says what it keeps of a lease, by whichever connection.
    ///
    /// # Errors
    /// [`BadAcknowledgement`].
    pub fn acknowledge(&self, key: &LeaseKey, keeps: Caching) -> Result<Caching, BadAcknowledgement> {
        let shared = self.shared().ok_or(BadAcknowledgement::NoHolder)?;
        let (holder, place) = shared.objects().leases().find(key).ok_or(BadAcknowledgement::NoHolder)?;
        acknowledge(self.cache(), &place.object, holder, keeps)
    }

    /// Returns where the file or directory is that a lease with this key is of; `None` where there is none in
    /// the volume.
    pub fn leased_path(&self, key: &LeaseKey) -> Option<RelPathBuf> {
        let (_, place) = self.shared()?.objects().leases().find(key)?;
        self.path_of(&place.object)
    }

    /// Recalls a lease, whatever it is of: its client is notified, and not waited for.
    pub fn recall_lease<'a>(&'a self, key: &'a LeaseKey) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            let Some((holder, place)) = self.shared().and_then(|shared| shared.objects().leases().find(key))
            else {
                return;
            };
            at_once(self.cache(), &place.object, |grants, now, events| grants.recall(now, holder, events));
            place.object.grants().all_breaks_sent().await;
        })
    }
}

/// Request for an open.
pub(super) struct OpenRequest {
    pub(super) request: Request<Arc<Link>>,
    lease: Option<LeaseRef<LeasePlace>>,
}

impl OpenRequest {
    /// Makes the result for a file that exists.
    pub(super) fn granted(self, object: &Arc<Object>, opened: Opened) -> Open {
        let Request { open: id, link, parent, access, consumer, .. } = self.request;
        Open {
            object: Arc::clone(object),
            id,
            link,
            opened,
            lease: self.lease,
            parent,
            access,
            consumer,
            is_modified: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            is_link: false,
        }
    }
}

fn acknowledge(
    cache: &Cache,
    object: &Arc<Object>,
    holder: Holder,
    keeps: Caching,
) -> Result<Caching, BadAcknowledgement> {
    at_once(cache, object, |grants, now, events| grants.acknowledge(now, holder, keeps, events))
}

/// Directory that has a name, and that name.
type DirectoryAndName = Result<(Directory, Box<[u8]>), Error>;

impl Open {
    /// Returns the object.
    pub fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// Returns the directory that has the name by which it was opened, or that this has become, wherever it is now,
    /// and that name. What has the name there is for the caller to look at: another program may have moved the file.
    ///
    /// # Errors
    /// [`Error::Stale`] for a closed open, and where the directory has left the volume; [`Error::AccessDenied`] for
    /// the volume's own directory, which has no name; as [`Volume::lookup_as`].
    pub fn directory_and_name<'a>(
        &'a self,
        volume: &'a Volume,
        caller: &'a Caller,
    ) -> LocalBoxFuture<'a, DirectoryAndName> {
        Box::pin(async move {
            let link = self.object.grants().ask_if_any(|grants, _| grants.link(self.id).cloned());
            let link = link.and_then(|link| link.value).ok_or(Error::Stale)?;
            let (directory, name) = name_of(&link).ok_or(Error::AccessDenied)?;
            Ok((volume.directory_of(caller, directory).await?, name.into()))
        })
    }

    /// Finds the name that another program has given to the file since it was opened, and goes on by that. So do all
    /// opens that were made by the same name. `open` is the file, where the lane has it open.
    ///
    /// # Errors
    /// [`Error::Stale`] where it has no name in the volume any more, or another besides and it cannot be known which
    /// is meant.
    pub fn follow<'a>(
        &'a self,
        volume: &'a Volume,
        open: Option<&'a File>,
    ) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let is_directory = self.object.number().kind() == NumberKind::Directory;
            let which = if is_directory { WhichName::Any } else { WhichName::Opened };
            let path = volume.find_moved(&self.object, open, which).await?;
            let name = path.as_path().file_name().ok_or(Error::Stale)?;
            let operator = Caller::operator();
            let above = path.as_path().parent().unwrap_or(RelPath::ROOT);
            let above = volume.lookup_as(&operator, above, Rights::NONE).await?.into_directory()?.0;
            let above = above.object().ok_or(Error::ReadOnly)?;
            let link = self.object.grants().ask_if_any(|grants, _| grants.link(self.id).cloned());
            if let Some(from) = link.and_then(|link| link.value) {
                let to = Link::new(above, name.as_bytes(), &self.object);
                self.object.grants().ask_if_any(|grants, _| grants.renamed(&from, &to));
            }
            Ok(())
        })
    }

    /// Returns the key of leases of the directory that its changes spare.
    pub fn parent_key(&self) -> Option<[u8; 16]> {
        self.parent
    }

    /// Returns the open's number, which no other open of the process ever has.
    pub fn id(&self) -> OpenId {
        self.id
    }

    /// Returns what it was given when it was made: what its client may cache, the epoch, whether a break was
    /// under way.
    pub fn opened(&self) -> Opened {
        self.opened
    }

    /// Returns what it is for.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Returns the holder that is notified of breaks: the number of its lease, or its own.
    pub fn holder(&self) -> Holder {
        self.lease.as_ref().map_or(Holder(self.id.0), LeaseRef::holder)
    }

    /// Returns what its client may cache now; `None` if nothing.
    pub fn caching(&self) -> Option<Caching> {
        self.object.grants().ask_if_any(|grants, _| grants.held(self.holder()))?.value
    }

    /// Returns whether it has locked any range.
    pub fn has_locked(&self) -> bool {
        let ranges = self.object.grants();
        ranges.is_ranged() && ranges.ask(|grants, _| grants.has_locked(self.id)).value
    }

    /// Returns the ranges that it has locked.
    pub fn locked(&self) -> Vec<grants::RangeLock> {
        let ranges = self.object.grants();
        if ranges.is_ranged() { ranges.ask(|grants, _| grants.locked_by(self.id)).value } else { Vec::new() }
    }

    /// Renames the named stream of the open.
    ///
    /// # Errors
    /// [`Refused::Sharing`] beside other opens of it, or where a stream of that name is open.
    pub fn rename_stream(&self, volume: &Volume, to: &[u8]) -> Result<(), Refused> {
        at_once(volume.cache(), &self.object, |grants, _, events| grants.rename_stream(self.id, to, events))
    }

    /// Returns what its client has of its lease or oplock now.
    pub fn standing(&self) -> Opened {
        let asked = self.object.grants().ask_if_any(|grants, _| grants.standing(self.holder()));
        asked.map_or_else(Opened::default, |told| told.value)
    }

    /// Returns the caller marked as the owner of this open: its changes spare the open's lease, and those of
    /// the directory with the key that it named.
    pub fn caller(&self, caller: &Caller) -> Caller {
        let open = OpenCaller { own: self.holder(), parent: self.parent, content: Content::Written };
        Caller { open: Some(open), ..caller.clone() }
    }

    /// Returns the caller marked as opening this and replacing the content. Even a lease of the kind that its
    /// own writes break is spared, since it was granted for the new content alone.
    pub fn overwriting_caller(&self, caller: &Caller) -> Caller {
        self.caller_with(caller, Content::Overwritten)
    }

    /// Returns the caller marked as setting the file's length by this open: leases of the directory, which shows that,
    /// are broken at once and not when the open is closed.
    pub fn resizing_caller(&self, caller: &Caller) -> Caller {
        self.caller_with(caller, Content::Resized)
    }

    fn caller_with(&self, caller: &Caller, content: Content) -> Caller {
        let caller = self.caller(caller);
        let open = caller.open.map(|open| OpenCaller { content, ..open });
        Caller { open, ..caller }
    }

    /// Says what its client keeps of its oplock.
    ///
    /// # Errors
    /// [`BadAcknowledgement`].
    pub fn acknowledge(&self, cache: &Cache, keeps: Caching) -> Result<Caching, BadAcknowledgement> {
        acknowledge(cache, &self.object, self.holder(), keeps)
    }

    /// Makes this lane the one from which the open's client is notified of breaks.
    pub fn set_home_lane(&self, cache: &Cache) {
        let home = cache.home();
        at_once(cache, &self.object, |grants, _, _| grants.move_home(self.holder(), home));
    }

    /// Checks whether these bytes may be read or written beside what others have locked. Asked before each of
    /// its reads and writes: one look at a flag where nothing is locked.
    ///
    /// # Errors
    /// [`Refused::Locked`].
    pub fn check(&self, range: Range, wants: RangeUse) -> Result<(), Refused> {
        if wants == RangeUse::Writing && !self.is_modified.load(Ordering::Relaxed) {
            self.is_modified.store(true, Ordering::Relaxed);
        }
        self.check_ranges(range, wants)
    }

    /// Checks locks ([`Open::check`]) for a change that the directory shows [at once](Open::resizing_caller).
    ///
    /// # Errors
    /// [`Refused::Locked`].
    pub fn check_to_resize(&self, range: Range) -> Result<(), Refused> {
        self.check_ranges(range, RangeUse::Writing)
    }

    fn check_ranges(&self, range: Range, wants: RangeUse) -> Result<(), Refused> {
        if !self.object.grants().is_ranged() {
            return Ok(());
        }
        self.object.grants().ask(|grants, _| grants.check(self.id, range, wants)).value
    }
}

/// The caller of a change by an open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenCaller {
    pub(crate) own: Holder,
    pub(crate) parent: Option<[u8; 16]>,
    pub(crate) content: Content,
}

/// Effect of an open on the content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Content {
    /// The file is written, as often as the client likes before the open is closed.
    #[default]
    Written,
    /// The file is truncated, or lengthened, to a length.
    Resized,
    /// The open is being made, and puts an end to it.
    Overwritten,
}

impl OpenCaller {
    /// Returns the holder that is exempt at the object that the open is of.
    pub(crate) fn by(self) -> ExemptHolder {
        ExemptHolder::Holder(self.own)
    }

    /// Returns the holder that is exempt at the directory above.
    pub(crate) fn by_above(self) -> Option<ExemptHolder> {
        self.parent.map(ExemptHolder::ParentKey)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !std::mem::replace(self.is_closed.get_mut(), true) {
            self.abandon();
        }
    }
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Open").field("object", &self.object).field("id", &self.id).finish_non_exhaustive()
    }
}

/// Names that come to lead elsewhere between a look and an open.
pub(super) const ATTEMPTS_MAX: u32 = 16;

/// Returns the home of this lane's holders, from which they are notified.
pub(crate) fn home_of(member: lane::mesh::Member) -> Home {
    Home(u16::try_from(member.index()).expect("a process has at most 256 lanes"))
}
