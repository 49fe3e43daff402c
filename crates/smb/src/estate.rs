//! What one server leaves to the next: its name to clients, and what durable opens they may come back for. docs/design/smb.md tells what of
//! it the next one believes.

use std::sync::{Mutex, MutexGuard};

use smb_wire::Guid;
use zerocopy::IntoBytes;

/// What was left by the last server, until it is heard of; and what this one leaves.
#[derive(Debug, Default)]
pub(crate) struct Estate {
    heard: Mutex<Option<Vec<u8>>>,
    left: Mutex<Option<Vec<u8>>>,
}

impl Estate {
    /// The last server has left this.
    pub(crate) fn hear(&self, left: Vec<u8>) {
        *lock(&self.heard) = Some(left);
    }

    /// What it left: a page of opens, and the ServerGuid that it was known by. Once: nobody has them twice.
    pub(crate) fn heard(&self) -> Option<(Vec<u8>, Guid)> {
        let left = lock(&self.heard).take()?;
        let Some((guid, page)) = left.split_first_chunk() else {
            return Some((Vec::new(), Guid::default()));
        };
        Some((page.to_vec(), Guid::new(*guid)))
    }

    /// Leaves this page, if there is one.
    pub(crate) fn leave(&self, page: Option<Vec<u8>>, guid: Guid) {
        *lock(&self.left) = page.map(|page| [guid.as_bytes(), &page].concat());
    }

    /// What is left for the next.
    pub(crate) fn left(&self) -> Option<Vec<u8>> {
        lock(&self.left).take()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics while holding it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_heard_once() {
        let (old, new) = (Estate::default(), Estate::default());
        assert_eq!(old.left(), None);
        old.leave(Some(b"page".to_vec()), Guid::new([7; 16]));
        new.hear(old.left().unwrap());
        assert_eq!(new.heard(), Some((b"page".to_vec(), Guid::new([7; 16]))));
        assert_eq!((new.heard(), old.left()), (None, None));
        new.hear(b"too short".to_vec());
        assert_eq!(new.heard(), Some((Vec::new(), Guid::default())), "no page at all");
    }
}
