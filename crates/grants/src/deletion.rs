//! Deletion when the last open is closed: by name, as another name of the same file stays (MS-FSA 2.1.5.5).

/// Names that go when their last open does.
#[derive(Debug)]
pub(crate) struct Deletions<L> {
    links: Vec<Deletion<L>>,
}

#[derive(Debug)]
struct Deletion<L> {
    link: L,
    /// Key of the directory's lease that its last setter has named.
    parent: Option<[u8; 16]>,
    /// No client has it open any more: it is being taken away.
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

    /// Returns whether a name is being taken away.
    pub(crate) fn has_due(&self) -> bool {
        self.links.iter().any(|deletion| deletion.is_due)
    }

    pub(crate) fn set(&mut self, link: L, parent: Option<[u8; 16]>) {
        match self.links.iter_mut().find(|deletion| deletion.link == link) {
            Some(deletion) => deletion.parent = parent,
            None => self.links.push(Deletion { link, parent, is_due: false }),
        }
    }

    /// Notes that the name stays after all, or is gone.
    pub(crate) fn clear(&mut self, link: &L) {
        self.links.retain(|deletion| deletion.link != *link);
    }

    /// Takes a deletion back that is not under way yet.
    pub(crate) fn take_back(&mut self, link: &L) {
        self.links.retain(|deletion| deletion.is_due || deletion.link != *link);
    }

    /// Notes that the last open by this name was closed. Returns whether the name goes now, and by which
    /// open. It says so once.
    pub(crate) fn fall_due(&mut self, link: &L) -> Option<Option<[u8; 16]>> {
        let deletion = self.links.iter_mut().find(|deletion| deletion.link == *link && !deletion.is_due)?;
        deletion.is_due = true;
        Some(deletion.parent)
    }

    /// The name has become another.
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
