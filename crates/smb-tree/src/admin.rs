//! Administration of opens: listing and closing them.

use futures_util::future::LocalBoxFuture;
use grants::RangeLock;

use crate::open::Open;
use crate::tree::Tree;

impl Open {
    /// Ranges that it has locked.
    pub fn locked(&self) -> Vec<RangeLock> {
        self.grants().locked()
    }
}

impl Tree {
    /// Returns the present path of what is open, from the root of its share, with slashes; `None` once it has
    /// no name.
    pub fn path_of(&self, open: &Open) -> Option<String> {
        let share = self.share(open.share_name())?;
        let path = open.grants().path(share.volume())?;
        Some(open.root.inside(path.as_path())?.to_string())
    }

    /// Closes the open of this FileId.Volatile, whosever it is; `false` where there is none. Its client finds that it is closed.
    pub fn close_by_administrator<'a>(&'a self, volatile: u64) -> LocalBoxFuture<'a, bool> {
        Box::pin(async move {
            let Some(open) = self.opens().find_any(volatile) else { return false };
            self.opens().disconnected().claim(&open);
            self.lane_state().closer().close(open).await;
            true
        })
    }
}
