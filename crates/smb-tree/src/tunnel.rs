//! Long names of what was just found by short ones (`TunnelCacheList` of MS-FSA 2.1.1.1): a program that knows short names alone takes a
//! file away and makes it anew, and its long name is to stay.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use vfs::{RelPath, RelPathBuf};

/// Names by share, directory and short name.
#[derive(Debug, Default)]
pub(crate) struct Tunnel(Mutex<HashMap<TunnelKey, LongName>>);

/// The short name is in capitals.
type TunnelKey = (Box<str>, RelPathBuf, Box<str>);

#[derive(Debug)]
struct LongName {
    name: Box<[u8]>,
    found: Instant,
}

impl Tunnel {
    /// Keeps the long name, as it is stored, of a file that was found by its short one.
    pub(crate) fn keep(&self, share: &str, above: RelPath<'_>, short: &str, name: &[u8]) {
        let now = lane::time::now();
        let mut known = self.lock();
        if known.len() >= NAMES_MAX {
            known.retain(|_, long| now.duration_since(long.found) < KEPT);
        }
        // A name that is not remembered is made as it is asked for.
        if known.len() < NAMES_MAX {
            known.insert(key(share, above, short), LongName { name: name.into(), found: now });
        }
    }

    /// Takes the long name of what had this short one a moment ago, and has it no more.
    pub(crate) fn take(&self, share: &str, above: RelPath<'_>, short: &str) -> Option<Box<[u8]>> {
        let long = self.lock().remove(&key(share, above, short))?;
        (lane::time::now().duration_since(long.found) < KEPT).then_some(long.name)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TunnelKey, LongName>> {
        self.0.lock().expect("nobody panics while holding it")
    }
}

fn key(share: &str, above: RelPath<'_>, short: &str) -> TunnelKey {
    (share.into(), above.into(), short.to_ascii_uppercase().into())
}

/// Time for which a name is kept: as long as Windows does.
const KEPT: Duration = Duration::from_secs(15);
/// Names that are kept: some 200 bytes each.
const NAMES_MAX: usize = 4096;
