//! Lease keys that name two files, in shares whose root depends on the user: a client makes its keys of paths, and cannot know that
//! the same path is another file by another connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use budget::give_back;
use grants::LeaseKey;
use vfs::RelPath;

use super::params::{CreateParams, lease_key};
use crate::names;
use crate::request_context::RequestContext;
use crate::share::Share;

/// Lease keys by which two files are open, with the number of opens of the later file. Nothing is cached by these keys.
#[derive(Default)]
pub(crate) struct SharedLeaseKeys(Mutex<HashMap<LeaseKey, usize>>);

/// Counts one open of the later of two files that share a lease key. Dropped, it is counted no more.
pub(crate) struct SharedLeaseKey {
    keys: Arc<SharedLeaseKeys>,
    key: LeaseKey,
}

impl SharedLeaseKeys {
    fn has(&self, key: &LeaseKey) -> bool {
        self.0.lock().expect("nobody panics while holding it").contains_key(key)
    }

    fn join(self: &Arc<Self>, key: LeaseKey) -> SharedLeaseKey {
        *self.0.lock().expect("nobody panics while holding it").entry(key).or_default() += 1;
        SharedLeaseKey { keys: Arc::clone(self), key }
    }
}

impl Drop for SharedLeaseKey {
    fn drop(&mut self) {
        let mut keys = self.keys.0.lock().expect("nobody panics while holding it");
        give_back(&mut keys, self.key, 1);
    }
}

impl Share {
    /// Finds a conflict of lease keys. Where the requested key is in use for the same name below another root
    /// of the share, that lease is given back. As long as both are open a lease by the key is one of nothing:
    /// what the client keeps by it would be of two files. So does Samba. Any other use of a key for two files
    /// fails.
    pub(super) async fn find_lease_key_conflict(
        &self,
        ctx: &RequestContext,
        params: &CreateParams<'_>,
    ) -> Option<Arc<SharedLeaseKey>> {
        if !self.root.varies() {
            return None;
        }
        let key = lease_key(ctx, params.contexts.lease.as_ref()?.key());
        let leased = self.volume().leased_path(&key)?;
        // What hinders the look hinders the one that follows, which says so.
        let lookup = names::find(self, &ctx.caller, &params.name, params.case()).await.ok()?;
        let keys = self.opens().shared_lease_keys();
        let is_conflict = self.root.inside(leased.as_path()).is_none() || keys.has(&key);
        let name = self.root.inside(lookup.path.as_path())?;
        if !is_conflict || !ends_with(leased.as_path(), name) {
            return None;
        }
        self.volume().recall_lease(&key).await;
        self.counters().lease_key_conflicts.increment();
        Some(Arc::new(keys.join(key)))
    }
}

/// Returns whether a path is that of this name below some directory.
fn ends_with(path: RelPath<'_>, name: RelPath<'_>) -> bool {
    let above = path.as_bytes().strip_suffix(name.as_bytes());
    !name.is_root() && above.is_some_and(|above| above.is_empty() || above.ends_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_ends_a_path_by_whole_names() {
        for (path, name, ends) in [
            ("now/f", "f", true),
            ("a/b/c", "b/c", true),
            ("f", "f", true),
            ("now/of", "f", false),
            ("now/f", "g", false),
            ("now/f", "", false),
            ("c", "b/c", false),
        ] {
            let [path, name] = [path, name].map(|path| RelPath::parse(path.as_bytes()).unwrap());
            assert_eq!(ends_with(path, name), ends, "{path} {name}");
        }
    }
}
