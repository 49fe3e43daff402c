//! Tree connects: a session's use of a share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use smb_tree::{Apple, RequestContext, Root, Share};

use super::{Session, TreeConnectSlot};

/// A tree connect as all lanes know it.
#[derive(Debug)]
pub(crate) struct TreeConnect {
    pub(crate) id: u32,
    /// The share's name, as the configuration has it.
    pub(crate) share: Arc<str>,
    /// Root in its volume for this connect, if not at the volume's own directory.
    pub(crate) root: Option<Arc<Root>>,
    /// Extensions of macOS that were agreed on in it.
    pub(crate) apple: Arc<Apple>,
    is_open: AtomicBool,
    _room: TreeConnectSlot,
}

/// A tree connect with what this lane serves it from.
pub(crate) struct LaneTree {
    pub(crate) connect: Arc<TreeConnect>,
    pub(crate) kind: TreeKind,
    /// Generation of the site that it was made of.
    pub(crate) generation: u64,
    /// Count of the user's sign-ins that the rights here are of.
    pub(crate) renewals: u32,
    /// Delay of its data, for tests.
    pub(crate) test_delay: Option<Duration>,
}

impl LaneTree {
    /// Returns whether it still stands: not disconnected, and of this site and the session's user of now.
    pub(crate) fn is_of(&self, generation: u64, session: &Session) -> bool {
        self.connect.is_open() && self.generation == generation && self.renewals == session.renewals()
    }
}

/// The kind of a tree connect: a volume's files, or named pipes.
#[derive(Clone)]
pub(crate) enum TreeKind {
    /// Named pipes.
    Pipes,
    /// Files.
    Disk {
        /// The volume on this lane.
        share: Share,
        /// Context of its requests: the caller that they act for.
        ctx: RequestContext,
    },
}

impl TreeConnect {
    pub(crate) fn new(id: u32, share: &str, root: Option<Arc<Root>>, room: TreeConnectSlot) -> Self {
        let (apple, is_open) = (Arc::default(), AtomicBool::new(true));
        Self { id, share: share.into(), root, apple, is_open, _room: room }
    }

    /// Returns whether it was disconnected, by whatever channel.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    pub(crate) fn close(&self) {
        self.is_open.store(false, Ordering::Release);
    }
}
