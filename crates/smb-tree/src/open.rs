//! An open, as every lane knows it (MS-SMB2 3.3.1.10).

use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use grants::Caching;
use smb_proto::channel_word::ChannelWord;
use smb_wire::create::options;
use smb_wire::{FileId, Guid};

use crate::app_instances::AppInstanceMember;
use crate::breaks::GrantedCaching;
use crate::create::lease_key_conflict::SharedLeaseKey;
use crate::disconnected::Durability;
use crate::names::Case;
use crate::opens::{BreakRegistration, Room};
use crate::replays::ReplayEntry;
use crate::request_context::RequestContext;
use crate::root::Root;

/// Kind of an open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenKind {
    /// A file's own data.
    File,
    /// A directory.
    Directory,
    /// A named stream of a file or directory.
    Stream,
    /// A symbolic link itself.
    Link,
}

/// An open of a file, directory or stream. Immutable but for the channel word and what is under a rarely taken lock; any lane may
/// use it.
pub struct Open {
    pub(crate) grants: vfs::Open,
    /// The symbolic link that the file has become by this open: from then on this is an open of that.
    pub(crate) became: OnceLock<vfs::Open>,
    /// The symbolic link whose name it was opened by, where it may delete or rename that: the name is the link's, all else that of what
    /// it leads to.
    pub(crate) by_link: Option<vfs::Open>,
    pub(crate) room: Room,
    /// Registration by which the open's client gets breaks.
    pub(crate) _break_registration: Option<BreakRegistration>,
    /// The key of its lease is another file's too for as long as this lives.
    pub(crate) _shared_lease_key: Option<Arc<SharedLeaseKey>>,
    /// 0 while it has no session.
    pub(crate) tree: AtomicU32,
    pub(crate) made_by: RequestContext,
    pub(crate) share: Arc<str>,
    /// Root of the share for its maker. Of one that a server has taken up from the last it is not known: the
    /// volume's own directory.
    pub(crate) root: Arc<Root>,
    pub(crate) kind: OpenKind,
    pub(crate) access: u32,
    pub(crate) maximal_access: u32,
    pub(crate) share_access: u32,
    pub(crate) options: u32,
    /// Case rule of its client's names.
    pub(crate) case: Case,
    pub(crate) held: GrantedCaching,
    /// CreateAction of the response.
    pub(crate) action: u32,
    /// Room that was asked for when the file was made.
    pub(crate) allocation: u64,
    pub(crate) durability: Option<Durability>,
    /// CreateGuid; zero where the request named none.
    pub(crate) create_guid: Guid,
    /// Entry by which the CREATE is recognised when it comes again.
    pub(crate) replay: Option<ReplayEntry>,
    pub(crate) app_instance: Option<AppInstanceMember>,
    pub(crate) word: ChannelWord,
    /// CurrentByteOffset: behind what was read last, or as it was set. The server never uses it.
    pub(crate) position: AtomicU64,
    /// Writes that were begun and whose end was not seen; that of a cancelled request never is.
    pub(crate) writes: AtomicU32,
    pub(crate) state: Mutex<OpenState>,
}

/// The state of an open that changes with use.
#[derive(Debug, Default)]
pub(crate) struct OpenState {
    pub(crate) enumeration: Option<crate::query_directory::Enumeration>,
    /// The named stream that it is of, as it is stored.
    pub(crate) stream: Option<Arc<str>>,
    /// FILE_MODE_INFORMATION, as it was set.
    pub(crate) mode: Option<u32>,
    /// The open was made to delete on close, and is not to after all.
    pub(crate) stays_on_close: bool,
    /// Index of the extended attribute that is listed next.
    pub(crate) ea_next: usize,
    /// Time of the last write that was set by this open, which its writes do not move.
    pub(crate) sticky: Option<lane::fs::Timestamp>,
    /// Time of change that was set by this open, 100 ns since 1601.
    pub(crate) sticky_change: Option<u64>,
    /// Delayed time of the last write, where it tells that late.
    pub(crate) late: Option<crate::write_time::DelayedWriteTime>,
    pub(crate) renamed: Option<Renamed>,
    pub(crate) directory_watch: crate::notify::DirectoryWatch,
    pub(crate) lock_sequences: crate::lock_sequences::Sequences,
}

/// The kernel's times of change before a rename by this open, and as it left it. The renaming open reports the former:
/// to it a name is no part of the file, as with Samba. A new open reports the kernel's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Renamed {
    pub(crate) before: lane::fs::Timestamp,
    pub(crate) left: lane::fs::Timestamp,
    /// The time of the last write, which tells what is written within the same tick.
    pub(crate) written: lane::fs::Timestamp,
}

impl Renamed {
    /// Returns whether nothing has changed the file since.
    pub(crate) fn holds(&self, now: &vfs::Attributes) -> bool {
        self.left == now.ctime && self.written == now.mtime
    }
}

impl Open {
    /// Returns the open's id.
    pub fn id(&self) -> FileId {
        self.room.id()
    }

    /// Returns the SessionId; 0 for a durable open whose session has ended.
    pub fn session(&self) -> u64 {
        self.room.session()
    }

    /// Returns the TreeId.
    pub fn tree(&self) -> u32 {
        self.tree.load(Ordering::Acquire)
    }

    /// Returns the ClientGuid of its maker.
    pub fn client(&self) -> Guid {
        self.made_by.client
    }

    /// Returns whether what its client may cache is a lease.
    pub fn is_leased(&self) -> bool {
        matches!(self.held, GrantedCaching::Lease { .. })
    }

    /// Returns whether it stays for a while when its session ends, as long as its client keeps a handle.
    pub fn is_durable(&self) -> bool {
        self.durability.is_some()
    }

    /// Returns where it was made from.
    pub fn address(&self) -> IpAddr {
        self.made_by.address
    }

    /// Returns the name of the user that made the open.
    pub fn user(&self) -> &str {
        self.made_by.caller.principal.name()
    }

    /// Returns the share that it is in.
    pub fn share_name(&self) -> &str {
        &self.share
    }

    /// Returns what it is of.
    pub fn kind(&self) -> OpenKind {
        if self.became.get().is_some() { OpenKind::Link } else { self.kind }
    }

    /// Returns whether it is of a directory.
    pub fn is_directory(&self) -> bool {
        self.kind == OpenKind::Directory
    }

    /// Returns the named stream that it is of, by the name that it has now.
    pub fn stream(&self) -> Option<Arc<str>> {
        if self.kind == OpenKind::Stream { self.state().stream.clone() } else { None }
    }

    /// Returns the rights that it was granted: [`smb_wire::create::access::rights`].
    pub fn granted_access(&self) -> u32 {
        self.access
    }

    /// Returns what others may do meanwhile.
    pub fn share_access(&self) -> u32 {
        self.share_access
    }

    /// Returns which of its requests come too late (MS-SMB2 3.3.5.2.10).
    pub fn word(&self) -> &ChannelWord {
        &self.word
    }

    /// Returns what its client may cache now.
    pub fn caching(&self) -> Caching {
        self.grants().caching().unwrap_or_default()
    }

    pub(crate) fn grants(&self) -> &vfs::Open {
        self.became.get().unwrap_or(&self.grants)
    }

    /// Returns what it holds of what has the name that it was opened by, which is deleted and renamed by it:
    /// of the symbolic link, where that is one.
    pub(crate) fn named(&self) -> &vfs::Open {
        self.by_link.as_ref().unwrap_or_else(|| self.grants())
    }

    /// Returns what it holds of the file that has become a link by it.
    pub(crate) fn grants_before(&self) -> Option<&vfs::Open> {
        self.became.get().map(|_| &self.grants)
    }

    /// Ends the replay of the open, as it is used: the CREATE that made it does not come again.
    pub(crate) fn end_replay(&self) {
        //= MS-SMB2 3.3.5.12
        //# A request about the open sets Open.IsReplayEligible to FALSE.
        if let Some(replay) = &self.replay {
            replay.end();
        }
    }

    /// Returns whether it was made with any of these options.
    pub(crate) fn has_options(&self, options: u32) -> bool {
        self.options & options != 0
    }

    /// Returns whether its name goes when it is closed, and whatever else is open by it.
    pub(crate) fn deletes_on_close(&self) -> bool {
        self.has_options(options::DELETE_ON_CLOSE) && !self.state().stays_on_close
    }

    /// Returns whether it was granted any of these rights.
    pub(crate) fn may(&self, any: u32) -> bool {
        self.access & any != 0
    }

    /// Returns whether the kernel may be at work on writes by it.
    pub(crate) fn is_writing(&self) -> bool {
        self.writes.load(Ordering::Acquire) != 0
    }

    pub(crate) fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }

    pub(crate) fn set_position(&self, offset: u64) {
        self.position.store(offset, Ordering::Relaxed);
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, OpenState> {
        self.state.lock().expect("nobody panics while holding it")
    }
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Open")
            .field("id", &self.id())
            .field("session", &self.session())
            .finish_non_exhaustive()
    }
}
