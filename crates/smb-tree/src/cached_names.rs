//! Directory names that a lane has read for the scan of an open: the whole listing of a small directory, or a page of a large one.
//! A page can be read again at any time, so the pages read longest ago make room.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use smb_wire::Status;
use vfs::{Caller, Directory, Error, Listing, NamePage, PageLimits};

use crate::lane_handle::LaneHandle;
use crate::request_context::RequestContext;
use crate::share::Share;
use crate::status;

/// Names of a directory, from some name on.
#[derive(Clone)]
pub(crate) enum DirectoryNames {
    Whole(Listing),
    Page(Rc<NamePage>),
}

/// The directory names that a lane's handle keeps, with the scan that they were read for.
#[derive(Clone)]
pub(crate) struct CachedNames {
    /// Number of the open's scan that they were read for.
    pub(crate) scan: u64,
    pub(crate) names: DirectoryNames,
}

/// The handles of a lane that keep a page of names, the one read longest ago first.
#[derive(Default)]
pub(crate) struct PageLru {
    handles: RefCell<VecDeque<Weak<LaneHandle>>>,
}

impl DirectoryNames {
    fn covers(&self, after: Option<&[u8]>) -> bool {
        match self {
            Self::Whole(_) => true,
            Self::Page(page) => page.covers(after),
        }
    }

    /// Returns the number of bytes of a page.
    pub(crate) fn page_bytes(&self) -> usize {
        match self {
            Self::Whole(_) => 0,
            Self::Page(page) => page.memory(),
        }
    }
}

impl PageLru {
    /// Forgets the pages read longest ago, until there is room for one more of so many bytes.
    fn make_room(&self, bytes: usize) {
        let mut handles = self.handles.borrow_mut();
        let mut held: Vec<_> = handles.drain(..).filter_map(|handle| handle.upgrade()).collect();
        held.retain(|handle| handle.page_bytes() > 0);
        let mut free = PAGE_BYTES_MAX.saturating_sub(held.iter().map(|handle| handle.page_bytes()).sum());
        for handle in held {
            if free < bytes {
                free += handle.page_bytes();
                handle.forget_names();
            } else {
                handles.push_back(Rc::downgrade(&handle));
            }
        }
    }

    fn push(&self, handle: &Rc<LaneHandle>) {
        self.handles.borrow_mut().push_back(Rc::downgrade(handle));
    }
}

impl Share {
    /// Returns the names behind `after` of the directory that an open is of, as the lane has read them for this scan.
    pub(crate) async fn names_behind(
        &self,
        ctx: &RequestContext,
        handle: &Rc<LaneHandle>,
        directory: &Directory,
        (scan, after): (u64, Option<&[u8]>),
    ) -> Result<DirectoryNames, Status> {
        let kept = handle.names().filter(|kept| kept.scan == scan);
        let is_large = matches!(&kept, Some(CachedNames { names: DirectoryNames::Page(_), .. }));
        if let Some(CachedNames { names, .. }) = kept.filter(|kept| kept.names.covers(after)) {
            return Ok(names);
        }
        // Before the next ones are read: the memory holds one page.
        handle.forget_names();
        let caller = ctx.caller.clone().charged_to(ctx.consumer());
        let names = self.read_names(&caller, directory, after, is_large).await.map_err(|error| {
            if matches!(error, Error::TooLarge { .. } | Error::Overloaded) {
                self.counters().listings_refused.increment();
            }
            status::of(error)
        })?;
        handle.keep_names(CachedNames { scan, names: names.clone() });
        if names.page_bytes() > 0 {
            let pages = self.lane_state().page_lru();
            pages.push(handle);
            // Several may have been read at once, each into the room that was there.
            pages.make_room(0);
        }
        Ok(names)
    }

    /// Reads the names behind `after` as they are now; a whole listing only where the directory was not found to be
    /// large before.
    ///
    /// # Errors
    /// As [`Directory::entries_as`] and [`Directory::page_after`].
    pub(crate) async fn read_names(
        &self,
        caller: &Caller,
        directory: &Directory,
        after: Option<&[u8]>,
        is_large: bool,
    ) -> Result<DirectoryNames, Error> {
        let options = self.options();
        let (names_max, whole_max) = (options.names_max, options.whole_names_max);
        if !is_large {
            match directory.entries_as(caller, whole_max.min(names_max)).await {
                Err(Error::TooLarge { .. }) if whole_max < names_max => {}
                listing => return Ok(DirectoryNames::Whole(listing?)),
            }
        }
        let limits = PageLimits { names_max, bytes_max: options.page_bytes_max };
        self.lane_state().page_lru().make_room(limits.bytes_max);
        let page = directory.page_after(caller, after, limits).await?;
        Ok(DirectoryNames::Page(Rc::new(page)))
    }
}

//@ limit: names of large directories that opens have at hand
//@ section: SMB
//@ unit: byte, five beside each name
//@ connection: a page of 32 MiB of each open (`ShareOptions::page_bytes_max`)
//@ all: lane: {:b}
//@ empty: the one read longest ago is forgotten; its client waits for another reading
//@ counter: vfs_listings
//@ attack: smb-patterns
/// Bytes of pages beside the one that is being read, and with it.
const PAGE_BYTES_MAX: usize = 64 << 20;
