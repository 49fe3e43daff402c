//! The state that one server process persists for the next: its ServerGuid, and the durable opens that clients may reconnect to.
//! docs/design/smb.md tells which of it the next one believes.

use std::sync::{Mutex, MutexGuard};

use smb_wire::Guid;
use zerocopy::IntoBytes;

/// The state of the previous server process, until it is restored, and the state for the next one.
#[derive(Debug, Default)]
pub(crate) struct PersistedState {
    previous: Mutex<Option<Vec<u8>>>,
    next: Mutex<Option<Vec<u8>>>,
}

impl PersistedState {
    /// Imports the state of the previous server process.
    pub(crate) fn import(&self, left: Vec<u8>) {
        *lock(&self.previous) = Some(left);
    }

    /// Takes the previous server's page of opens and its ServerGuid; `None` when they were taken before.
    pub(crate) fn take_previous(&self) -> Option<(Vec<u8>, Guid)> {
        let left = lock(&self.previous).take()?;
        let Some((guid, page)) = left.split_first_chunk() else {
            return Some((Vec::new(), Guid::default()));
        };
        Some((page.to_vec(), Guid::new(*guid)))
    }

    /// Sets the state for the next server process; without a page there is none.
    pub(crate) fn set_next(&self, page: Option<Vec<u8>>, guid: Guid) {
        *lock(&self.next) = page.map(|page| [guid.as_bytes(), &page].concat());
    }

    /// Takes the state for the next server process.
    pub(crate) fn take_next(&self) -> Option<Vec<u8>> {
        lock(&self.next).take()
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
        let (old, new) = (PersistedState::default(), PersistedState::default());
        assert_eq!(old.take_next(), None);
        old.set_next(Some(b"page".to_vec()), Guid::new([7; 16]));
        new.import(old.take_next().unwrap());
        assert_eq!(new.take_previous(), Some((b"page".to_vec(), Guid::new([7; 16]))));
        assert_eq!((new.take_previous(), old.take_next()), (None, None));
        new.import(b"too short".to_vec());
        assert_eq!(new.take_previous(), Some((Vec::new(), Guid::default())), "no page at all");
    }
}
