//! The mark on a volume's root (docs/index.md, "The volume's mark"): read and written as the volume is opened, and again when
//! its numbers run low.

use std::ffi::{CStr, CString};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use index::{MARK_LEN, Mark, Number};
use lane::fs::{Dir, XattrHow};
use lane::offload::offload;

use super::SharedVolume;

/// The attribute of the root that holds the mark.
#[derive(Debug)]
pub(crate) struct Bearer {
    written: &'static CStr,
}

impl Bearer {
    pub(crate) fn new(trusted: bool) -> Self {
        Self { written: if trusted { TRUSTED } else { USER } }
    }

    /// The mark that the root bears, from a run with other privileges too: the later one. Blocks.
    pub(crate) fn read(&self, root: &Dir) -> Result<Option<Vec<u8>>, String> {
        let generation = |bytes: &Vec<u8>| Mark::parse(bytes).map(|mark| mark.generation);
        let mut latest: Option<Vec<u8>> = None;
        for name in MARK_ATTRIBUTES {
            match root.xattr_at_start(&name.into(), MARK_LEN) {
                Ok(found) => {
                    let is_later =
                        latest.as_ref().is_none_or(|latest| generation(latest) < generation(&found));
                    latest = if is_later { Some(found) } else { latest };
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::ENODATA | libc::EOPNOTSUPP) => {}
                    // Longer than a mark: one that cannot be understood.
                    Some(libc::ERANGE) => latest = Some(Vec::new()),
                    _ => return Err(format!("the mark on its directory cannot be read: {error}")),
                },
            }
        }
        Ok(latest)
    }

    /// Has the root bear a mark, synced. Blocks.
    pub(crate) fn write(&self, root: &Dir, mark: &Mark) -> Result<(), String> {
        root.set_xattr_at_start(&self.written.into(), &mark.encode()).map_err(|error| {
            let why = match error.raw_os_error() {
                Some(libc::EOPNOTSUPP) => "its file system keeps no extended attributes".to_owned(),
                _ => error.to_string(),
            };
            format!("its directory cannot bear the volume's mark: {why}")
        })
    }
}

impl SharedVolume {
    /// Has more numbers reserved when half of those at hand are used, in a task of this lane. `root` is the volume's directory.
    pub(crate) fn reserve_numbers(self: &Arc<Self>, root: &Rc<Dir>) {
        if self.index.wants_mark(self.id()) && !self.is_marking.swap(true, Ordering::Acquire) {
            let (marking, root) = (Marking(Arc::clone(self)), Rc::clone(root));
            lane::spawn(async move {
                if let Err(why) = marking.mark(&root).await {
                    tracing::error!(volume = %marking.0.name(), "numbers run low, and no more can be had: {why}");
                }
            })
            .detach();
        }
    }
}

/// The only one who is at it.
struct Marking(Arc<SharedVolume>);

impl Marking {
    async fn mark(&self, root: &Dir) -> Result<(), String> {
        let Self(volume) = self;
        let (index, id) = (Arc::clone(&volume.index), volume.id());
        let mark = offload(None, move || index.next_mark(id)).await.map_err(|error| error.to_string())?;
        let Some(mark) = mark.map_err(|error| error.to_string())? else { return Ok(()) };
        let (file, name) = (root.as_file(), CString::from(volume.bearer.written));
        // It changes nothing that anybody is told of, but gives the directory another change time.
        let object = volume.in_use_as(Number::ROOT);
        let aside = object.zip(root.stat().ok()).and_then(|(object, before)| object.begin_aside(&before));
        let set = file.set_xattr(&name, mark.encode().to_vec(), XattrHow::Any).await;
        drop(aside);
        set.map_err(|error| error.to_string())?;
        root.sync().await.map_err(|error| error.to_string())?;
        volume.index.marked(id, &mark);
        Ok(())
    }
}

impl Drop for Marking {
    fn drop(&mut self) {
        self.0.is_marking.store(false, Ordering::Release);
    }
}

/// The attributes of a volume's root that may hold its mark: the second where the process may write such
/// (CAP_SYS_ADMIN), else the first. Where both are there the later mark counts.
pub const MARK_ATTRIBUTES: [&CStr; 2] = [USER, TRUSTED];
const TRUSTED: &CStr = c"trusted.linerate.volume";
const USER: &CStr = c"user.linerate.volume";
