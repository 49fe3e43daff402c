//! The mark on a volume's root (docs/design/index.md, "The volume's mark"): read and written as the volume is opened, and again when
//! its numbers run low.

use std::ffi::{CStr, CString};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use index::{MARK_LEN, Mark, Number, RightsIn};
use lane::fs::{Dir, XattrHow};
use lane::offload::offload;

use super::SharedVolume;

/// The attributes of a root that hold the volume's mark, as a process may use them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MarkAttributes {
    sees_trusted: bool,
}

/// Mark of a volume's root.
#[derive(Clone, Debug, Default)]
pub(crate) struct RootMark {
    /// The mark, from a run with other privileges too: the later one.
    pub(crate) mark: Option<Vec<u8>>,
    /// Storage of the volume's lists and descriptors; `None` without a mark.
    pub(crate) rights: Option<RightsIn>,
    /// The mark that takes a privilege is gone, and so is perhaps all that lay in such attributes.
    pub(crate) is_lost: bool,
}

impl MarkAttributes {
    pub(crate) fn new(sees_trusted: bool) -> Self {
        Self { sees_trusted }
    }

    /// Returns what the root bears. Blocks.
    pub(crate) fn read(self, root: &Dir) -> Result<RootMark, String> {
        let at = |name: &CStr| match root.xattr_at_start(&name.into(), MARK_LEN) {
            Ok(found) => Ok(Some(found)),
            Err(error) => match error.raw_os_error() {
                Some(libc::ENODATA | libc::EOPNOTSUPP) => Ok(None),
                // Longer than a mark: one that cannot be understood.
                Some(libc::ERANGE) => Ok(Some(Vec::new())),
                _ => Err(format!("the mark on its directory cannot be read: {error}")),
            },
        };
        let (user, trusted) = (at(USER)?, at(TRUSTED)?);
        let generation = |mark: &Option<Vec<u8>>| Some(Mark::parse(mark.as_deref()?)?.generation);
        let is_later = generation(&user) > generation(&trusted);
        let rights = Mark::rights_of(trusted.as_deref(), user.as_deref());
        let is_lost = self.sees_trusted && trusted.is_none() && rights == Some(RightsIn::Trusted);
        let mark = if is_later || trusted.is_none() { user } else { trusted };
        Ok(RootMark { mark, rights, is_lost })
    }

    /// Has the root bear a mark that says where rights lie, synced. What was lost is not made up for. Blocks.
    pub(crate) fn write(
        self,
        root: &Dir,
        mark: &Mark,
        rights: RightsIn,
        is_lost: bool,
    ) -> Result<(), String> {
        let bytes = Mark { rights: Some(rights), ..*mark }.encode();
        for (name, is_needed) in self.written(rights, is_lost) {
            match root.set_xattr_at_start(&name.into(), &bytes) {
                Err(error) if is_needed => {
                    let why = match error.raw_os_error() {
                        Some(libc::EOPNOTSUPP) => "its file system keeps no extended attributes".to_owned(),
                        _ => error.to_string(),
                    };
                    return Err(format!(
                        "the server cannot set the extended attribute by which it knows the directory again: {why}"
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the attributes that hold the mark, and whether they must. What takes a privilege stands in the other
    /// too, so that processes without that see it.
    fn written(self, rights: RightsIn, is_lost: bool) -> impl Iterator<Item = (&'static CStr, bool)> {
        let in_trusted = self.sees_trusted && !is_lost && rights == RightsIn::Trusted;
        let trusted = in_trusted.then_some((TRUSTED, true));
        trusted.into_iter().chain([(USER, !in_trusted)])
    }
}

impl SharedVolume {
    /// Has more numbers reserved when half of those at hand are used, in a task of this lane. `root` is the volume's
    /// directory.
    pub(crate) fn reserve_numbers(self: &Arc<Self>, root: &Rc<Dir>) {
        if self.index.wants_mark(self.id()) && !self.is_marking.swap(true, Ordering::Acquire) {
            let (marking, root) = (Marking(Arc::clone(self)), Rc::clone(root));
            lane::spawn(async move {
                if let Err(why) = marking.mark(&root).await {
                    //@ cause: Half of the numbers that the volume has reserved for its files are used. Reserving more failed, as the mark on
                    //@ the volume's directory could not be written, or the index could not.
                    //@ remedy: See that the volume's file system is mounted writable, has room, and lets the server set extended attributes
                    //@ on the directory. It is tried again with the next new file.
                    tracing::error!(
                        volume = %marking.0.name(),
                        "volume {}: numbers for new files run low and no more can be reserved: {why}; once they are used up, new files \
                         are refused; let the server write to the volume's directory [volume-numbers-low]",
                        marking.0.name()
                    );
                }
            })
            .detach();
        }
    }
}

/// Guard of the only task that marks the volume.
struct Marking(Arc<SharedVolume>);

impl Marking {
    async fn mark(&self, root: &Dir) -> Result<(), String> {
        let Self(volume) = self;
        let (index, id) = (Arc::clone(&volume.index), volume.id());
        let mark = offload(None, move || index.next_mark(id)).await.map_err(|error| error.to_string())?;
        let Some(mark) = mark.map_err(|error| error.to_string())? else { return Ok(()) };
        let (file, rights) = (root.as_file(), volume.rights_storage().written());
        let bytes = Mark { rights: Some(rights), ..mark }.encode();
        // It changes nothing that a client is told of, but gives the directory another change time.
        let object = volume.in_use_as(Number::ROOT);
        let aside =
            object.zip(root.stat().ok()).and_then(|(object, before)| object.begin_metadata_change(&before));
        let mut set = Ok(());
        for (name, is_needed) in volume.bearer.written(rights, volume.is_lost()) {
            let written = file.set_xattr(&CString::from(name), bytes.to_vec(), XattrHow::Any).await;
            if set.is_ok() && is_needed {
                set = written;
            }
        }
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

/// The attributes of a volume's root that may hold its mark. The first does in any case; the second too where rights
/// lie in attributes that take CAP_SYS_ADMIN. Where both are there the later mark counts.
pub const MARK_ATTRIBUTES: [&CStr; 2] = [USER, TRUSTED];
const TRUSTED: &CStr = c"trusted.linerate.volume";
const USER: &CStr = c"user.linerate.volume";
