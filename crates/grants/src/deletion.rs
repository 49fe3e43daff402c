//! Deletion when the last open is closed: by name, as another name of the same file stays (MS-FSA 2.1.5.5).

/// Close with which a name goes that is to be deleted (MS-FSCC 2.4.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameEnd {
    /// The last close of an open by that name.
    LastClose,
    /// The close of the open that has the name deleted, whatever else is open by it
    /// (FILE_DISPOSITION_POSIX_SEMANTICS).
    OwnClose,
}

/// Names to delete when their last opens are closed.
#[derive(Debug)]
pub(crate) struct Deletions<L> {
    links: Vec<Deletion<L>>,
}

#[derive(Debug)]
struct Deletion<L> {
    link: L,
    /// Key of the parent directory's lease, as the last open that set the deletion gave it.
    parent: Option<[u8; 16]>,
    /// Set once the last open is closed and the name is being deleted.
    is_due: bool,
}

impl<L: Eq> Deletions<L> {
    pub(crate) fn new() -> Self {
        Self { links: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    pub(crate) fn has(&self, link: &L) -> bool {
        self.links.iter().any(|deletion| deletion.link == *link)
    }

    /// Returns whether a name is being deleted.
    pub(crate) fn has_due(&self) -> bool {
        self.links.iter().any(|deletion| deletion.is_due)
    }

    pub(crate) fn set(&mut self, link: L, parent: Option<[u8; 16]>) {
        match self.links.iter_mut().find(|deletion| deletion.link == link) {
            Some(deletion) => deletion.parent = parent,
            None => self.links.push(Deletion { link, parent, is_due: false }),
        }
    }

    /// Forgets the deletion of a name, which stays after all or is gone.
    pub(crate) fn clear(&mut self, link: &L) {
        self.links.retain(|deletion| deletion.link != *link);
    }

    /// Cancels a deletion that is not under way yet.
    pub(crate) fn take_back(&mut self, link: &L) {
        self.links.retain(|deletion| deletion.is_due || deletion.link != *link);
    }

    /// Notes that the last open by this name was closed. Returns, once, the parent key of the deletion when
    /// the name is to be deleted now.
    pub(crate) fn fall_due(&mut self, link: &L) -> Option<Option<[u8; 16]>> {
        let deletion = self.links.iter_mut().find(|deletion| deletion.link == *link && !deletion.is_due)?;
        deletion.is_due = true;
        Some(deletion.parent)
    }

    /// Notes that a name has become another.
    pub(crate) fn renamed(&mut self, from: &L, to: &L)
    where
        L: Clone,
    {
        self.clear(to);
        for deletion in self.links.iter_mut().filter(|deletion| deletion.link == *from) {
            deletion.link = to.clone();
        }
    }
}
