//! Lease keys where a share begins in another directory for others: a client names its leases by paths, and cannot know that the same
//! path is another file by another connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use budget::give_back;
use grants::LeaseKey;
use vfs::RelPath;

use super::ask::{Ask, lease_key};
use crate::asker::Asker;
use crate::names;
use crate::share::Share;

/// Keys by which clients have two files open, as many times as the later one: nothing is cached by these.
#[derive(Default)]
pub(crate) struct KeysOfTwo(Mutex<HashMap<LeaseKey, usize>>);

/// An open that makes a key one of two files, for as long as this lives.
pub(crate) struct KeyOfTwo {
    keys: Arc<KeysOfTwo>,
    key: LeaseKey,
}

impl KeysOfTwo {
    fn has(&self, key: &LeaseKey) -> bool {
        self.0.lock().expect("nobody panics while holding it").contains_key(key)
    }

    fn join(self: &Arc<Self>, key: LeaseKey) -> KeyOfTwo {
        *self.0.lock().expect("nobody panics while holding it").entry(key).or_default() += 1;
        KeyOfTwo { keys: Arc::clone(self), key }
    }
}

impl Drop for KeyOfTwo {
    fn drop(&mut self) {
        let mut keys = self.keys.0.lock().expect("nobody panics while holding it");
        give_back(&mut keys, self.key, 1);
    }
}

impl Share {
    /// Where the key of the lease that is asked for is in use for the same name below another root of the share, that lease is given
    /// back, and as long as both are open a lease by the key is one of nothing: what the client keeps by it would be of two files. So
    /// does Samba. Any other use of a key for two files fails.
    pub(super) async fn look_for_alike(&self, asker: &Asker, ask: &Ask<'_>) -> Option<Arc<KeyOfTwo>> {
        if !self.root.varies() {
            return None;
        }
        let key = lease_key(asker, ask.wishes.lease.as_ref()?.key());
        let leased = self.volume().leased_path(&key)?;
        // What hinders the look hinders the one that follows, which says so.
        let spot = names::find(self, &asker.caller, &ask.name, ask.case()).await.ok()?;
        let keys = self.opens().keys_of_two();
        let is_of_two = self.root.inside(leased.as_path()).is_none() || keys.has(&key);
        let name = self.root.inside(spot.path.as_path())?;
        if !is_of_two || !ends_with(leased.as_path(), name) {
            return None;
        }
        self.volume().recall_lease(&key).await;
        self.counters().lease_key_conflicts.increment();
        Some(Arc::new(keys.join(key)))
    }
}

/// Whether a path is that of this name below some directory.
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
