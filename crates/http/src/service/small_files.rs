//! The content of small files that are asked for again and again, for a moment each.
//!
//! For a small file the read costs a tenth of the request. Each request still asks the kernel for the
//! file's attributes, so a change shows at once, also one after which its writer sets the time stamp back; the time
//! to live is for writes through a memory map, which may leave both times as they were.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use lane::time::{now, wall_clock};
use quick_cache::Weighter;
use quick_cache::unsync::Cache;
use vfs::{Attributes, ChangeToken, FileId, OpenFile, Timestamp};

use super::wire::SMALL_BODY_MAX;

/// One lane's small files.
pub(super) struct SmallFiles {
    cache: RefCell<Cache<FileId, Small, Bytes>>,
}

#[derive(Clone)]
struct Small {
    token: ChangeToken,
    /// Last change of content or attributes, which cannot be set.
    changed: Timestamp,
    content: Rc<[u8]>,
    read_at: Instant,
}

#[derive(Clone)]
struct Bytes;

impl Weighter<FileId, Small> for Bytes {
    fn weight(&self, _: &FileId, small: &Small) -> u64 {
        small.content.len() as u64 + ENTRY_OVERHEAD_BYTES
    }
}

impl SmallFiles {
    pub(super) fn new() -> Self {
        let files_estimated = (BYTES_MAX / 4096) as usize;
        Self { cache: RefCell::new(Cache::with_weighter(files_estimated, BYTES_MAX, Bytes)) }
    }

    /// Returns the content of this version of a file, if it is small and at hand without waiting.
    pub(super) fn content(&self, file: &OpenFile, attributes: &Attributes) -> Option<Rc<[u8]>> {
        if attributes.size > SMALL_BODY_MAX || attributes.size == 0 {
            return None;
        }
        let token = attributes.change_token();
        let mut cache = self.cache.borrow_mut();
        if let Some(small) = cache.get(&token.id)
            && (small.token, small.changed) == (token, attributes.ctime)
            && now().duration_since(small.read_at) < TIME_TO_LIVE
        {
            return Some(Rc::clone(&small.content));
        }
        let content = read_whole(file, attributes)?;
        let changed = attributes.ctime;
        cache.insert(token.id, Small { token, changed, content: Rc::clone(&content), read_at: now() });
        Some(content)
    }
}

/// Reads a version that will not change again under the same time stamp.
fn read_whole(file: &OpenFile, attributes: &Attributes) -> Option<Rc<[u8]>> {
    if !attributes.is_settled(wall_clock()) {
        return None;
    }
    let mut content = vec![0; attributes.size as usize];
    let read = file.try_read_at(0, &mut content).ok()??;
    let whole = read == content.len() && file.check_unchanged(&attributes.change_token()).is_ok();
    whole.then(|| content.into())
}

/// Memory of one lane for small files.
const BYTES_MAX: u64 = 16 << 20;
/// Cost of an entry beside its content, about.
const ENTRY_OVERHEAD_BYTES: u64 = 160;
/// Time for which content is believed without a look at the file's pages.
const TIME_TO_LIVE: Duration = Duration::from_secs(1);
