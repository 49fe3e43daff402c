//! A volume as a share, on one lane.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use identity::{Accounts, Rights};
use smb_sid::Sids;
use smb_wire::Status;
use smb_wire::info::directory::fits;
use vfs::Volume;

use crate::access::Allowed;
use crate::counters::TreeCounters;
use crate::lane_handle::{LaneHandle, REOPENED};
use crate::open::{Open, OpenKind};
use crate::opens::Opens;
use crate::query_directory::folded;
use crate::request_context::RequestContext;
use crate::root::Root;
use crate::status;
use crate::tree::LaneState;

/// Options of showing a volume.
#[derive(Clone, Debug)]
pub struct ShareOptions {
    /// Files whose names begin with a dot have the attribute "hidden" (Samba's `hide dot files`).
    pub hide_dot_files: bool,
    /// Names that fit one of these patterns have the attribute too (`hide files`), of
    /// [`ShareOptions::patterns`].
    pub hide: Arc<[Box<[char]>]>,
    /// Extended attributes that clients neither see nor set, beside the server's own, in any case.
    pub hide_attributes: Arc<[String]>,
    /// Long names have short ones beside them, by which they are found too.
    pub short_names: bool,
    /// Listings leave out what the caller may not read (`hide unreadable`).
    pub hide_unreadable: bool,
    /// Set if a descriptor keeps a client's word that a list was inherited, asked for or not (`acl flag
    /// inherited canonicalization = no`).
    pub keep_inherited: bool,
    /// Time for which after its first write an open goes on to tell the time of the last write from before;
    /// 0: not at all.
    pub write_time_delay: Duration,
    /// Names of a directory that are read to find one in another case, or to list it.
    pub names_max: usize,
    /// Names of the largest directory whose listing is made whole and remembered; a larger one is listed page by page.
    pub whole_names_max: usize,
    /// Bytes of the names of a large directory that an open has at hand.
    pub page_bytes_max: usize,
    /// Users and groups of security descriptors.
    pub accounts: Arc<Accounts>,
    /// Identifiers of these users and groups.
    pub sids: Sids,
}

impl Default for ShareOptions {
    fn default() -> Self {
        Self {
            hide_dot_files: true,
            hide: Arc::default(),
            hide_attributes: Arc::default(),
            short_names: false,
            hide_unreadable: false,
            keep_inherited: false,
            write_time_delay: Duration::ZERO,
            //@ limit: names of a directory that are read to list it
            //@ section: SMB
            //@ unit: name
            //@ connection: {} of one directory (`ShareOptions::names_max`); of more than 10,000 the names alone, page by page
            //@ all: lane: the entries of listings (`listing_entries_max`), and the bytes of pages
            //@ empty: STATUS_INSUFFICIENT_RESOURCES; others feel nothing
            //@ counter: smb_listings_refused, vfs_listings
            //@ attack: smb-patterns
            names_max: 1_000_000,
            whole_names_max: 10_000,
            page_bytes_max: 32 << 20,
            accounts: Accounts::none(),
            sids: Sids::new("linerate"),
        }
    }
}

impl ShareOptions {
    /// Patterns as clients' are compared: `*` is anything, `?` one character, and case is none.
    pub fn patterns(patterns: &[String]) -> Arc<[Box<[char]>]> {
        patterns.iter().map(|pattern| folded(pattern).into_boxed_slice()).collect()
    }

    /// Returns whether a name has the attribute "hidden" without it having been set.
    pub(crate) fn hides(&self, name: &[u8]) -> bool {
        let is_dotted = name.starts_with(b".") && name.len() > 1 && name != b"..";
        if is_dotted && self.hide_dot_files {
            return true;
        }
        let mut patterns = self.hide.iter().peekable();
        if patterns.peek().is_none() {
            return false;
        }
        let name = folded(&String::from_utf8_lossy(name));
        patterns.any(|pattern| fits(pattern, &name))
    }
}

/// A volume as a share, on this lane. Cloning it is cheap.
#[derive(Clone)]
pub struct Share {
    pub(crate) inner: Rc<ShareInner>,
    /// Root of clients' paths.
    pub(crate) root: Arc<Root>,
}

pub(crate) struct ShareInner {
    pub(crate) name: Arc<str>,
    pub(crate) volume: Volume,
    pub(crate) options: ShareOptions,
    pub(crate) lane_state: Rc<LaneState>,
    /// Set if files of the volume can share their room; `None` until that is known.
    pub(crate) shares_room: Cell<Option<bool>>,
}

impl Share {
    /// Returns how clients name it.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns what it shows.
    pub fn volume(&self) -> &Volume {
        &self.inner.volume
    }

    /// Returns whether no client may change anything.
    pub fn is_read_only(&self) -> bool {
        !self.inner.volume.is_writable()
    }

    /// Returns whether listings leave out what the caller may not read.
    pub fn hides_unreadable(&self) -> bool {
        self.options().hide_unreadable
    }

    /// Returns whether copies within it can share their room, as Windows' block cloning wants: the file
    /// system can, and something may be changed.
    pub(crate) async fn shares_room(&self) -> bool {
        if self.is_read_only() {
            return false;
        }
        let known = &self.inner.shares_room;
        if known.get().is_none() {
            // A check that failed for want of room or memory is made again.
            known.set(self.volume().shares_room().await.ok());
        }
        known.get().unwrap_or(false)
    }

    /// Returns whether its files can be compressed one by one. On a read-only volume this has no meaning.
    pub(crate) async fn compresses(&self) -> bool {
        !self.is_read_only() && self.volume().room().await.is_ok_and(|room| room.compresses)
    }

    /// Returns the most rights that the caller may have in its root: `MaximalAccess` of TREE_CONNECT.
    pub fn maximal_access<'a>(&'a self, ctx: &'a RequestContext) -> LocalBoxFuture<'a, Result<u32, Status>> {
        Box::pin(async move {
            let found = self.volume().lookup_with_rights(&ctx.caller, self.root_path(), Rights::NONE).await;
            let found = found.map_err(status::of)?;
            let who = &ctx.caller.principal;
            Ok(Allowed::of(who, &found, None, true).mask())
        })
    }

    /// Returns the path of an open below the share as it is stored, with its stream: `/directory/file:stream`. `None`
    /// once it cannot be reached, or is closed.
    pub fn stored_path(&self, open: &Open) -> Option<String> {
        let path = open.grants().path(self.volume())?;
        let mut text = String::new();
        for name in self.root.inside(path.as_path())?.components() {
            text.push('/');
            text.push_str(&String::from_utf8_lossy(name.as_bytes()));
        }
        if text.is_empty() {
            text.push('/');
        }
        if let Some(stream) = open.stream() {
            text.push(':');
            text.push_str(&stream);
        }
        Some(text)
    }

    pub(crate) fn options(&self) -> &ShareOptions {
        &self.inner.options
    }

    pub(crate) fn lane_state(&self) -> &LaneState {
        &self.inner.lane_state
    }

    pub(crate) fn opens(&self) -> &Arc<Opens> {
        self.inner.lane_state.opens()
    }

    pub(crate) fn counters(&self) -> &Arc<TreeCounters> {
        self.inner.lane_state.counters()
    }

    /// Returns this lane's handle of an open: opened again where another lane has made the open.
    pub(crate) async fn handle(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
    ) -> Result<Rc<LaneHandle>, Status> {
        let is_link = open.kind() == OpenKind::Link;
        // What has become a link is a file still to lanes that had it at hand before.
        if let Some(handle) =
            self.lane_state().handle(open).filter(|handle| handle.link().is_some() == is_link)
        {
            return Ok(handle);
        }
        if is_link {
            return self.link_handle(ctx, open).await;
        }
        let descriptors = self.opens().descriptors_of(ctx.consumer())?;
        let identity = open.grants().object().identity();
        let found = self.volume().reopen(&ctx.caller, identity, REOPENED).await;
        self.counters().lane_handles_reopened.increment();
        let handle = Rc::new(LaneHandle::new(found.map_err(status::of)?, None));
        // Where it was closed meanwhile nothing would drop what is kept for it.
        if self.opens().find_any(open.id().volatile.get()).is_none() {
            return Ok(handle);
        }
        Ok(self.lane_state().keep_handle(open, handle, Some(descriptors)))
    }

    async fn link_handle(&self, ctx: &RequestContext, open: &Arc<Open>) -> Result<Rc<LaneHandle>, Status> {
        let path = open.grants().path(self.volume()).ok_or(Status::FILE_DELETED)?;
        let found = self.volume().find_link(&ctx.caller, path.as_path()).await.map_err(status::of)?;
        let is_it = |found: &vfs::LinkWithRights| Arc::ptr_eq(&found.link.object, open.grants().object());
        let found = found.filter(is_it).ok_or(Status::FILE_DELETED)?;
        Ok(self.lane_state().keep_handle(open, Rc::new(LaneHandle::of_link(found.link)), None))
    }
}

impl std::fmt::Debug for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Share").field("name", &self.inner.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_hidden_by_their_dot_or_by_a_pattern_in_any_case() {
        let hide = ShareOptions::patterns(&["~*".to_owned(), "Desktop.ini".to_owned()]);
        let options = ShareOptions { hide, ..ShareOptions::default() };
        for (name, is_hidden) in
            [(".x", true), (".", false), ("..", false), ("~lock", true), ("DESKTOP.INI", true), ("a~", false)]
        {
            assert_eq!(options.hides(name.as_bytes()), is_hidden, "{name}");
        }
        let shown = ShareOptions { hide_dot_files: false, ..ShareOptions::default() };
        assert!(!shown.hides(b".x"));
    }
}
