//! Look-ups on volumes with objects: by which caller, and with what right. What is found rests on promises of
//! every directory on its way, so a symbolic link is followed here, name by name, to the real place of what
//! it leads to: there its rights are.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::ffi::CString;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use identity::Rights;

use crate::access::require;
use crate::attributes::Attributes;
use crate::cache::{CachedLookup, Node, Validity, WatchedDir};
use crate::caller::Caller;
use crate::descriptor::Own;
use crate::error::Error;
use crate::name::{Name, NameError, RelPath, RelPathBuf};
use crate::object::{ChangeLockSet, Object, Place};
use crate::object_attributes::attributes_of;
use crate::volume::{Resolved, Volume};

impl Volume {
    /// Looks up `path`, if the caller may pass through every directory on the way and has the rights `need` over what
    /// it leads to. Of a directory [`Rights::READ`] means its names ([`Rights::LOOKUP`]).
    ///
    /// # Errors
    /// [`Error::Denied`]; else as [`Volume::lookup`].
    pub async fn lookup_as(
        &self,
        caller: &Caller,
        path: RelPath<'_>,
        need: Rights,
    ) -> Result<Resolved, Error> {
        if !self.has_objects() {
            return self.lookup_plain(path).await;
        }
        Ok(self.look_as(caller, path, need).await?.resolved)
    }

    /// Notes that a client is about to read what was found by this path. Where others may cache it, and it looks as
    /// another program has left it, they are notified soon.
    pub fn note_look(&self, path: RelPath<'_>, found: &Resolved) {
        if let Some(object) = found.object()
            && object.grants().is_in_use()
            && object.looks_foreign(found.attributes())
        {
            self.cache().revalidate_open(self.key(path));
        }
    }

    /// Looks up a path ([`Volume::lookup_as`]) on a volume with objects, with the directory that the caller's
    /// rights rest on.
    pub(crate) async fn look_as(
        &self,
        caller: &Caller,
        path: RelPath<'_>,
        need: Rights,
    ) -> Result<LookupResult, Error> {
        self.look_within(caller, path, need, &Steps::of_lookup()).await
    }

    /// Looks up a path ([`Volume::look_as`]) in so many steps through symbolic links.
    pub(crate) async fn look_within(
        &self,
        caller: &Caller,
        path: RelPath<'_>,
        need: Rights,
        steps: &Steps<'_>,
    ) -> Result<LookupResult, Error> {
        if let Some(answer) = self.try_seen(caller, path, need) {
            let answer = answer.map(|(resolved, directory)| LookupResult { resolved, directory, real: None });
            return self.counted(answer);
        }
        // Apart, so that look-ups on read-only volumes do not carry its memory.
        let found = self.lookup_guarded(caller, path, need, steps).await;
        self.report_failure(path, "it cannot be opened", found)
    }

    pub(crate) fn lookup_guarded<'a>(
        &'a self,
        caller: &'a Caller,
        path: RelPath<'a>,
        need: Rights,
        steps: &'a Steps<'a>,
    ) -> LocalBoxFuture<'a, Result<LookupResult, Error>> {
        Box::pin(async move {
            let mut real: RelPathBuf = path.into();
            let mut is_followed = false;
            for _ in 0..ATTEMPTS_MAX {
                let seen = match self.try_seen(caller, real.as_path(), need) {
                    Some(answer) => {
                        let (resolved, directory) = answer?;
                        SeenAs::Resolved(resolved, directory)
                    }
                    None => match self.open_guarded(caller, real.as_path(), need).await {
                        Err(Error::SymlinkRefused) if self.options().follow_symlinks => {
                            real = self.real_path(Some(caller), real.as_path(), steps).await?.path;
                            is_followed = true;
                            continue;
                        }
                        seen => seen?,
                    },
                };
                match seen {
                    SeenAs::Resolved(resolved, directory) => {
                        return Ok(LookupResult { resolved, directory, real: is_followed.then_some(real) });
                    }
                    SeenAs::Moving(Some(object)) => self.wait_for(&object).await?,
                    SeenAs::Moving(None) => {}
                }
            }
            Err(self.unsettled(path, "looking up a name"))
        })
    }

    /// Returns the answer if it is at hand; never waits.
    pub(crate) fn try_guarded(
        &self,
        caller: &Caller,
        path: RelPath<'_>,
        need: Rights,
    ) -> Option<Result<Resolved, Error>> {
        Some(self.try_seen(caller, path, need)?.map(|(resolved, _)| resolved))
    }

    /// Tries a guarded look-up ([`Volume::try_guarded`]), with the directory that the caller's rights rest
    /// on.
    pub(crate) fn try_seen(
        &self,
        caller: &Caller,
        path: RelPath<'_>,
        need: Rights,
    ) -> Option<Result<(Resolved, Rc<WatchedDir>), Error>> {
        if self.hides(path) {
            return Some(Err(Error::Hidden));
        }
        let key = self.key(path);
        let (found, above) = self.cache().find_seen(key)?;
        if let Err(denied) = self.may_pass(caller, above.as_ref(), path)? {
            return Some(Err(denied));
        }
        let CachedLookup::Open(node) = found else {
            self.counters().lookup_absent_hits.increment();
            return Some(Err(Error::NotFound));
        };
        let resolved = self.refresh(path, &node)?;
        let directory = match node {
            Node::File(_) => above?,
            Node::Directory(_) => {
                // Nothing tells of a directory that takes its place: what lies there is opened anew.
                let directory = self.cache().known(key)?;
                let is_told = directory.is_watched() || above.is_none_or(|above| above.is_watched());
                is_told.then_some(directory)?
            }
        };
        let own = own_of(&resolved);
        let allowed = self.allowed(caller, &directory, resolved.attributes(), own.as_ref(), need);
        self.counters().lookup_hits.increment();
        Some(allowed.map(|()| (resolved, directory)))
    }

    async fn open_guarded(&self, caller: &Caller, path: RelPath<'_>, need: Rights) -> Result<SeenAs, Error> {
        self.counters().lookup_misses.increment();
        let (cache, key) = (self.cache(), self.key(path));
        let validity = cache.validity_above(self.root(), key).await;
        match self.may_pass(caller, validity.watched(), path) {
            Some(passed) => passed?,
            // The way cannot be relied on: it ends before, leads through a link, or is just changing.
            None => {
                let blocking_change = validity.blocking_change().cloned();
                return self.root().open_real(path).await.map(|_| SeenAs::Moving(blocking_change));
            }
        }
        let (node, stat, validity) = self.open_seen(path, validity).await?;
        // A directory's rights are its own.
        let inside = match &node {
            Node::File(_) => None,
            Node::Directory(_) => Some(cache.validity(self.root(), key).await),
        };
        let at = inside.as_ref().unwrap_or(&validity);
        let is_it = inside.is_none()
            || at.object().zip(node.object()).is_some_and(|(at, node)| Arc::ptr_eq(at, node));
        let directory = at.watched().filter(|_| is_it && validity.is_current() && at.is_current());
        let Some(directory) = directory.cloned() else {
            if !is_it && at.object().is_some() && at.is_current() {
                // Another program has put this directory in the place of one that is remembered, and the kernel has not told of it.
                cache.forget_at(key);
            }
            return Ok(SeenAs::Moving(at.blocking_change().cloned()));
        };
        note_place(&node, &validity, path, cache.options().ttl);
        let node = cache.keep_open(key, node, validity);
        let resolved = self.resolved(&node, attributes_of(&stat, node.object()));
        self.allowed(caller, &directory, resolved.attributes(), own_of(&resolved).as_ref(), need)?;
        Ok(SeenAs::Resolved(resolved, directory))
    }

    /// Waits until a change that is under way is over.
    pub(crate) async fn wait_for(&self, object: &Arc<Object>) -> Result<(), Error> {
        drop(ChangeLockSet::take(vec![Arc::clone(object)], self.waiting_max()?).await?);
        Ok(())
    }

    /// Returns whether the caller may go into the directory above; `None` where the lane is no sharer of that.
    fn may_pass(
        &self,
        caller: &Caller,
        above: Option<&Rc<WatchedDir>>,
        path: RelPath<'_>,
    ) -> Option<Result<(), Error>> {
        if path.is_root() {
            return Some(Ok(()));
        }
        let directory = above.filter(|above| above.is_coherent())?;
        if directory.withholds(path.file_name().map(|name| name.as_bytes())) {
            return Some(Err(Error::Hidden));
        }
        let policy = self.root().policy()?;
        Some(require(directory.rights(&caller.principal, policy), Rights::TRAVERSE))
    }

    /// Checks whether the caller has the rights that it takes, over a file in `directory` or over that
    /// itself.
    fn allowed(
        &self,
        caller: &Caller,
        directory: &WatchedDir,
        of: &Attributes,
        own: Option<&Own>,
        need: Rights,
    ) -> Result<(), Error> {
        let Some(policy) = self.root().policy() else { return Ok(()) };
        if !of.is_directory() {
            return require(directory.rights_of(&caller.principal, policy, of, own), need);
        }
        let names = if need.contains(Rights::READ) { Rights::LOOKUP } else { Rights::NONE };
        require(directory.rights(&caller.principal, policy), need.without(Rights::READ) | names)
    }

    /// Returns the real path of `path`, every link on its way put in place.
    pub(crate) async fn real_path(
        &self,
        caller: Option<&Caller>,
        path: RelPath<'_>,
        steps: &Steps<'_>,
    ) -> Result<RealPath, Error> {
        let mut left: VecDeque<Box<[u8]>> = path.components().map(|name| name.as_bytes().into()).collect();
        let mut real = RelPathBuf::root();
        // From where each name of it was seen, and what else it rests on.
        let (mut names, mut rests_on) = (Vec::new(), Vec::new());
        let mut is_directory = true;
        while let Some(next) = left.pop_front() {
            if matches!(&*next, b"." | b"..") {
                if !is_directory {
                    self.require_directory(real.as_path()).await?;
                    is_directory = true;
                }
                if *next == *b"." {
                    continue;
                }
                if !real.pop() {
                    return Err(Error::Escapes);
                }
                rests_on.extend(names.pop().flatten());
                continue;
            }
            real.push(Name::parse(&next).map_err(of_link)?)?;
            let known = steps.known(&real);
            if let Err(used_up) = steps.take(known.is_some()) {
                self.counters().link_steps_used_up.increment();
                return Err(used_up);
            }
            let (target, validity) = match known {
                Some(target) => (target, None),
                None => {
                    let (target, validity) = self.read_link(caller, real.as_path()).await?;
                    steps.learn(&real, target.as_ref(), &validity);
                    (target, Some(validity))
                }
            };
            let Some(target) = target else {
                names.push(validity);
                is_directory = false;
                continue;
            };
            steps.follow()?;
            real.pop();
            is_directory = true;
            rests_on.extend(validity);
            let relative = match target.strip_prefix(b"/") {
                None => &target[..],
                Some(_) => {
                    (real, names) = (RelPathBuf::root(), Vec::new());
                    self.root().beneath(&target).ok_or(Error::Escapes)?
                }
            };
            let wants_directory = matches!(relative, [.., b'/'] | [.., b'/', b'.']);
            if wants_directory && left.is_empty() {
                left.push_front(Box::from(&b"."[..]));
            }
            let names = relative.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
            names.rev().for_each(|name| left.push_front(name.into()));
        }
        rests_on.extend(names.pop().flatten());
        Ok(RealPath { path: real, rests_on })
    }

    /// Checks that the real path leads to a directory, which a link says by a slash at its end, or by going on from
    /// there. A link that says so of a file leads to nothing.
    ///
    /// # Errors
    /// [`Error::NotFound`]; those of the file system.
    async fn require_directory(&self, path: RelPath<'_>) -> Result<(), Error> {
        let inside = CString::new([path.as_bytes(), b"/."].concat());
        match self.root().read_link(&inside.expect("a RelPath holds no zero byte")).await {
            // Reached, and no link.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            Err(error) if error.raw_os_error() != Some(libc::ENOTDIR) => Err(error.into()),
            // A file, or what another program has put there since.
            _ => Err(Error::NotFound),
        }
    }

    /// Returns the target of a link, `None` for what is none, or is not there; and from where that was seen.
    pub(crate) async fn read_link(
        &self,
        caller: Option<&Caller>,
        path: RelPath<'_>,
    ) -> Result<(Option<Vec<u8>>, Validity), Error> {
        let validity = self.cache().validity_above(self.root(), self.key(path)).await;
        if let Some(passed) = caller.and_then(|caller| self.may_pass(caller, validity.watched(), path)) {
            passed?;
        }
        let name = CString::new(path.as_bytes()).expect("a RelPath holds no zero byte");
        match self.root().read_link(&name).await {
            Ok(target) => Ok((Some(target), validity)),
            Err(error) => match error.raw_os_error() {
                Some(libc::EINVAL | libc::ENOENT | libc::ENOTDIR) => Ok((None, validity)),
                _ => Err(error.into()),
            },
        }
    }
}

/// Target of a path through symbolic links.
pub(crate) struct RealPath {
    /// The path without links.
    pub(crate) path: RelPathBuf,
    /// Validities of the looks at its links, at the names that they go back over, and at its last name.
    pub(crate) rests_on: Vec<Validity>,
}

/// Budget of a look through symbolic links: links that are followed, and names that are looked at on their
/// ways.
pub(crate) struct Steps<'l> {
    links: Cell<u32>,
    names: Cell<u32>,
    /// Budget of the listing that the look-up is for.
    listing: Option<&'l LinkBudget>,
}

/// Common budget of looks through the symbolic links of one listing. A name that another of them has come by
/// costs little.
pub(crate) struct LinkBudget {
    left: Cell<usize>,
    /// Targets of the names on the ways that are known; `None` for a name that is no link.
    known: RefCell<HashMap<RelPathBuf, Option<Vec<u8>>>>,
    /// Validities of the names of each directory: they keep its watch until the listing is done. Making a watch takes
    /// time in proportion to the directory's names in the kernel's cache.
    held: RefCell<HashMap<RelPathBuf, Validity>>,
}

impl<'l> Steps<'l> {
    /// Makes the budget of one look-up.
    pub(crate) fn of_lookup() -> Self {
        Self { links: Cell::new(LINKS_MAX), names: Cell::new(NAMES_MAX), listing: None }
    }

    /// Makes the budget of a look-up for a listing.
    pub(crate) fn of_listing(listing: &'l LinkBudget) -> Self {
        Self { listing: Some(listing), ..Self::of_lookup() }
    }

    fn follow(&self) -> Result<(), Error> {
        // The link of the listing itself is looked at once, as any name of it.
        if let Some(listing) = self.listing.filter(|_| self.links.get() == LINKS_MAX) {
            listing.left.set(listing.left.get() + LOOK_COST);
        }
        Self::take_from(&self.links)
    }

    fn take(&self, is_known: bool) -> Result<(), Error> {
        let cost = if is_known { 1 } else { LOOK_COST };
        self.listing.map_or(Ok(()), |listing| listing.take(cost))?;
        Self::take_from(&self.names)
    }

    fn take_from(left: &Cell<u32>) -> Result<(), Error> {
        left.set(left.get().checked_sub(1).ok_or(Error::SymlinkRefused)?);
        Ok(())
    }

    fn known(&self, path: &RelPathBuf) -> Option<Option<Vec<u8>>> {
        self.listing?.known.borrow().get(path).cloned()
    }

    fn learn(&self, path: &RelPathBuf, target: Option<&Vec<u8>>, seen: &Validity) {
        let Some(listing) = self.listing else { return };
        listing.known.borrow_mut().insert(path.clone(), target.cloned());
        if let Some(above) = path.as_path().parent() {
            listing.held.borrow_mut().entry(above.into()).or_insert_with(|| seen.clone());
        }
    }
}

impl LinkBudget {
    /// Makes the budget of a listing that begins.
    pub(crate) fn new() -> Self {
        Self::with(COST_MIN)
    }

    /// Makes a budget with what is [left](Self::left) of an earlier one.
    pub(crate) fn with(left: usize) -> Self {
        Self { left: Cell::new(left), known: RefCell::default(), held: RefCell::default() }
    }

    /// Adds the share of so many more links that are listed, and forgets the names that are known.
    pub(crate) fn add_links(&self, links: usize) {
        self.left.set(self.left.get().saturating_add(links.saturating_mul(COST_PER_LINK)));
        self.known.borrow_mut().clear();
    }

    /// Returns the cost that may still be spent.
    pub(crate) fn left(&self) -> usize {
        self.left.get()
    }

    /// Returns whether nothing is looked at any more for this listing.
    pub(crate) fn is_used_up(&self) -> bool {
        self.left.get() < LOOK_COST
    }

    fn take(&self, cost: usize) -> Result<(), Error> {
        match self.left.get().checked_sub(cost) {
            Some(left) => self.left.set(left),
            None => {
                // What costs less would only prolong it.
                self.left.set(0);
                return Err(Error::SymlinkRefused);
            }
        }
        Ok(())
    }
}

/// Returns a file's own descriptor; those of directories are looked at with their lists.
fn own_of(resolved: &Resolved) -> Option<Own> {
    match resolved {
        Resolved::File(file, _) => file.own(),
        Resolved::Directory(..) => None,
    }
}

/// Result of a look.
pub(crate) struct LookupResult {
    pub(crate) resolved: Resolved,
    /// Directory that the caller's rights rest on.
    pub(crate) directory: Rc<WatchedDir>,
    /// Real path of what was found; `None` where the path holds no link.
    pub(crate) real: Option<RelPathBuf>,
}

/// Outcome of one look.
enum SeenAs {
    Resolved(Resolved, Rc<WatchedDir>),
    /// Something moves or changes: to be waited for, if it is known.
    Moving(Option<Arc<Object>>),
}

/// Notes where a file was found, if it is still there: this lane is notified first of what is renamed from here on.
fn note_place(node: &Node, validity: &Validity, path: RelPath<'_>, ttl: Duration) {
    let Node::File(file) = node else { return };
    let place = file.object().zip(validity.object()).zip(path.file_name());
    if let Some(((object, above), name)) = place.filter(|_| validity.keeps(ttl)) {
        object.found_at(Place { directory: Arc::clone(above), name: name.as_bytes().into() });
    }
}

/// Returns what a link says that is no name.
fn of_link(error: NameError) -> Error {
    match error {
        NameError::NameTooLong | NameError::PathTooLong => Error::NameTooLong,
        _ => Error::NotFound,
    }
}

/// Attempts while names on the way change; a link that is followed is one.
const ATTEMPTS_MAX: u32 = 64;
/// Number of links that one look-up follows, as the kernel does (path_resolution(7)).
const LINKS_MAX: u32 = 40;
/// Names looked at for one look-up that goes through links: of forty links each may have a way of two dozen.
const NAMES_MAX: u32 = 1024;
//@ limit: looks through the symbolic links of one listing
//@ section: Files and listings
//@ unit: look at a name on the way of a link, which costs 16, and 1 where another link of the listing has come by it
//@ connection: {COST_MIN}, and {COST_PER_LINK} more for each link
//@ all: process: the helpers' queue
//@ empty: further links are listed as themselves, not as what they lead to, also those that lead nowhere; others feel nothing
//@ counter: vfs_link_steps_used_up
//@ attack: http-link-chains
/// Cost of looking at a name on the way of a link, for a listing.
const LOOK_COST: usize = 16;
/// Cost that a listing may spend for each of its links: a link to a file of another directory takes a look
/// beyond its own.
const COST_PER_LINK: usize = 24;
/// Cost that a listing may spend besides.
const COST_MIN: usize = 32_768;
