//! Reports of a change to the clients that watch directories: under its change locks, so that changes of one
//! name are reported in order.

use coherence::ChangeKind;

use super::name_edits::NameEdits;
use crate::callback::Invalidation;
use crate::object::{Echo, Edit, EventKind, EventMask, Object, OwnChange, Watches};

/// Reports a change to the watches.
pub(super) fn report(watches: &Watches, invalidations: &[Invalidation], edited: &[NameEdits]) {
    let of = |is: fn(&ChangeKind) -> bool| {
        invalidations.iter().find(move |invalidation| is(&invalidation.what)).map(|it| &*it.object)
    };
    let change = ReportedChange {
        watches,
        moved: of(|what| matches!(what, ChangeKind::Place | ChangeKind::Subtree)),
        gone: of(|what| *what == ChangeKind::Gone),
        is_of_two: edited.len() > 1,
    };
    // Where a name goes to another directory it is told to go first.
    let (comes, goes): (Vec<_>, Vec<_>) =
        edited.iter().partition(|edited| edited.edits().iter().any(is_added));
    goes.into_iter().chain(comes).for_each(|edited| change.report(edited));
    for invalidation in invalidations {
        match &invalidation.what {
            ChangeKind::Content => watches.report_modified(&invalidation.object, EventMask::CONTENT),
            ChangeKind::Attributes => watches.report_modified(&invalidation.object, EventMask::ATTRIBUTES),
            ChangeKind::Rights => watches.report_modified(&invalidation.object, EventMask::RIGHTS),
            ChangeKind::Gone => watches.report_going(&invalidation.object),
            ChangeKind::Unknown => {
                watches.report_seen(&invalidation.object);
                watches.report_modified(&invalidation.object, EventMask::CONTENT | EventMask::ATTRIBUTES);
            }
            ChangeKind::Names(_) | ChangeKind::Place | ChangeKind::Subtree => {}
        }
    }
}

struct ReportedChange<'a> {
    watches: &'a Watches,
    /// Object that has another name now,
    moved: Option<&'a Object>,
    /// and what has lost one.
    gone: Option<&'a Object>,
    is_of_two: bool,
}

impl ReportedChange<'_> {
    fn report(&self, edited: &NameEdits) {
        let edits = edited.edits();
        if edits.is_empty() {
            return self.watches.report_lost(&edited.object);
        }
        let mut gone = edits.iter().filter(|edit| !is_added(edit)).map(name_of).collect::<Vec<_>>();
        let added = edits.iter().find_map(|edit| match edit {
            Edit::Added { name, number } => Some((&**name, EventMask::of_name(*number))),
            Edit::Removed { .. } => None,
        });
        // Another file has taken the name, or the file another content.
        if let (Some((name, kinds)), [one], None) = (added, &*gone, self.moved)
            && *one == name
        {
            let kinds = kinds | EventMask::CONTENT | EventMask::ATTRIBUTES;
            let replaced = OwnChange { name, what: EventKind::Modified, kinds, echo: Echo::Came };
            return self.watches.report_own(&edited.object, &[replaced]);
        }
        let either = EventMask::FILES | EventMask::DIRECTORIES;
        let of =
            |object: Option<&Object>| object.map_or(either, |object| EventMask::of_name(object.number()));
        let moved = self.moved.filter(|_| !gone.is_empty() && (added.is_none() || !self.is_of_two));
        let from = moved.map(|moved| (gone.remove(0), of(Some(moved))));
        let same = |name, what, kinds| OwnChange { name, what, kinds, echo: Echo::Same };
        let mut changes: Vec<_> =
            gone.iter().map(|name| same(*name, EventKind::Removed, of(self.gone))).collect();
        // Of what was replaced the kernel tells that the other came.
        let is_replaced = |change: &&mut OwnChange<'_>| added.is_some_and(|(name, _)| name == change.name);
        changes.iter_mut().filter(is_replaced).for_each(|change| change.echo = Echo::None);
        match (from, added) {
            (Some((from, kinds)), Some((to, _))) => {
                changes.extend([
                    same(from, EventKind::RenamedFrom, kinds),
                    same(to, EventKind::RenamedTo, kinds),
                ]);
            }
            (Some((from, kinds)), None) => changes.push(same(from, EventKind::Removed, kinds)),
            (None, Some((to, kinds))) => changes.push(same(to, EventKind::Added, kinds)),
            (None, None) => {}
        }
        self.watches.report_own(&edited.object, &changes);
        if let (Some(_), Some((to, EventMask::FILES))) = (self.moved, added) {
            self.watches.report(&edited.object, to, EventKind::Modified, EventMask::MOVED);
        }
    }
}

fn is_added(edit: &Edit) -> bool {
    matches!(edit, Edit::Added { .. })
}

fn name_of(edit: &Edit) -> &[u8] {
    match edit {
        Edit::Added { name, .. } | Edit::Removed { name } => name,
    }
}
