//! Expected outcome of an operation: done, refused, or what a rule decides that the model does not have.

use self::Expected::{Done, Either, Nothing, Refused};
use crate::model::{Model, Object};
use crate::operation::{Amid, Condition, Disposition, Operation, Path};

/// Expected outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// The step's parties are not there, or its outcome does not matter: it is left out.
    Nothing,
    Done,
    Refused,
    /// Some rule that this model does not have decides it.
    Either,
}

fn done_if(is_so: bool) -> Expected {
    if is_so { Done } else { Refused }
}

fn done_or_nothing(is_so: bool) -> Expected {
    if is_so { Done } else { Nothing }
}

impl Model {
    /// Returns what must come of an operation now.
    pub(crate) fn expects(&self, operation: &Operation) -> Expected {
        match *operation {
            // Which name goes with the last open is no question for a model.
            Operation::SmbMove { from, .. }
            | Operation::SmbLinkName { from, .. }
            | Operation::AfsRename { from, .. }
            | Operation::AfsLink { from, .. }
            | Operation::LocalRename { from, .. }
            | Operation::LocalLink { from, .. }
                if self.is_pending(from) =>
            {
                Nothing
            }
            // As is whether the list that is missed there is taken for this one's.
            Operation::SmbMove { from, to, .. } | Operation::AfsRename { from, to, .. }
                if self.names.get(&from).is_some_and(|object| self.is_closed_at(to, Some(*object))) =>
            {
                Nothing
            }
            Operation::SmbOpen { .. }
            | Operation::SmbOpenDirectory { .. }
            | Operation::SmbMove { .. }
            | Operation::SmbLinkName { .. }
            | Operation::SmbRemove { .. }
            | Operation::SmbMakeDirectory { .. } => self.expects_of_smb(operation),
            Operation::SmbWrite { client, slot, .. }
            | Operation::SmbTruncate { client, slot, .. }
            | Operation::SmbRename { client, slot, .. }
            | Operation::SmbLink { client, slot, .. }
            | Operation::SmbDispose { client, slot }
            | Operation::SmbClose { client, slot } => self.expects_of_open(client, slot, operation),
            Operation::Put { .. } | Operation::Delete { .. } => self.expects_of_http(operation),
            Operation::Restart { .. } => Done,
            Operation::KillAmid { path, .. } if self.is_directory(path) || self.is_pending(path) => Nothing,
            Operation::KillAmid { change, path, .. } => {
                done_or_nothing(change == Amid::Put || self.is_there(path))
            }
            _ if operation.is_local() => self.expects_of_program(operation),
            _ => self.expects_of_afs(operation),
        }
    }

    fn is_there(&self, path: Path) -> bool {
        self.names.contains_key(&path)
    }

    /// Returns whether some client's open may be in the way of a change.
    fn is_in_the_way(&self, path: Path) -> bool {
        self.is_pending(path) || self.names.get(&path).is_some_and(|object| self.is_held(*object))
    }

    /// Returns whether what this name leads to has other names elsewhere.
    fn is_in_several_directories(&self, path: Path) -> bool {
        let Some(object) = self.names.get(&path) else { return false };
        self.names_of(*object).any(|other| other.directory() != path.directory())
    }

    fn expects_of_smb(&self, operation: &Operation) -> Expected {
        match *operation {
            Operation::SmbOpen { client, slot, path, disposition, shares, .. } => {
                let there = self.is_there(path);
                match disposition {
                    _ if self.open(client, slot).is_some() => Nothing,
                    Disposition::Create if there => Refused,
                    Disposition::Open | Disposition::Overwrite if !there => Refused,
                    _ if self.is_directory(path) || self.is_pending(path) => Refused,
                    // Every open asks for the right to rename.
                    _ if self.is_open(path) && (!shares || self.is_in_the_way(path)) => Either,
                    _ => Done,
                }
            }
            Operation::SmbOpenDirectory { client, slot, path, shares, .. } => match self.at(path) {
                _ if self.open(client, slot).is_some() => Nothing,
                None => Refused,
                Some(node) if !node.is_directory || node.is_pending => Refused,
                Some(_) if self.is_open(path) && (!shares || self.is_in_the_way(path)) => Either,
                Some(_) => Done,
            },
            Operation::SmbMove { from, to, replace, .. } => {
                let Some(&object) = self.names.get(&from) else { return Refused };
                match self.names.get(&to) {
                    Some(target) if *target == object => Nothing,
                    Some(_) if !replace || self.is_directory(to) => Refused,
                    _ if self.is_open(from) || self.is_open(to) => Either,
                    // A directory over a file.
                    Some(_) if self.is_directory(from) => Nothing,
                    _ => self.moves(object, from, to),
                }
            }
            Operation::SmbLinkName { from, to, .. } => match self.names.get(&from) {
                None => Refused,
                Some(object) if self.names.get(&to) == Some(object) => Nothing,
                Some(_) => done_if(!self.is_there(to) && !self.is_directory(from)),
            },
            Operation::SmbRemove { path, .. } if self.is_open(path) => Nothing,
            Operation::SmbRemove { path, .. } => done_if(self.is_there(path)),
            Operation::SmbMakeDirectory { path, .. } => done_if(!self.is_there(path)),
            _ => unreachable!("{operation} is no operation of SMB by names"),
        }
    }

    fn expects_of_open(&self, client: u8, slot: u8, operation: &Operation) -> Expected {
        let Some(opened) = self.open(client, slot) else { return Nothing };
        let object = opened.object;
        let has_name = self.names.get(&opened.path) == Some(&object);
        let is_pending = self.objects[object].is_pending;
        let is_directory = self.objects[object].is_directory;
        match *operation {
            Operation::SmbClose { .. } => Done,
            // Those below the root stay; and directories have neither content nor further names.
            _ if opened.path.as_directory().is_some() => Nothing,
            Operation::SmbWrite { .. } | Operation::SmbTruncate { .. } | Operation::SmbLink { .. }
                if is_directory =>
            {
                Nothing
            }
            Operation::SmbWrite { .. } | Operation::SmbTruncate { .. } => done_if(opened.writes),
            Operation::SmbDispose { .. } => {
                let is_plain = has_name && !opened.is_lost && self.names_of(object).count() == 1;
                done_or_nothing(is_plain)
            }
            Operation::SmbRename { .. } | Operation::SmbLink { .. } if is_pending => Nothing,
            Operation::SmbRename { to, replace, .. } => match self.names.get(&to) {
                Some(target) if *target == object => Nothing,
                Some(_) if !replace || self.is_directory(to) => Refused,
                Some(_) if is_directory => Nothing,
                None if self.is_closed_at(to, Some(object)) => Nothing,
                // Which of several names moves is the server's to choose.
                _ if opened.is_lost && self.names_of(object).count() > 1 => Nothing,
                // The file that the open has may have another name, which moves, or none.
                _ if !has_name && self.names_of(object).next().is_some() => Nothing,
                _ if !has_name => Refused,
                Some(_) => Either,
                None if opened.is_lost || self.opens_of(object).count() > 1 => Either,
                None => self.moves(object, opened.path, to),
            },
            Operation::SmbLink { to, .. } => match self.names.get(&to) {
                Some(target) if *target == object => Nothing,
                Some(_) => Refused,
                None if opened.is_lost => Either,
                None if !has_name && self.names_of(object).next().is_some() => Either,
                None => done_if(has_name),
            },
            _ => unreachable!("{operation} is no operation by an open"),
        }
    }

    fn expects_of_afs(&self, operation: &Operation) -> Expected {
        match *operation {
            Operation::AfsMakeDirectory { path, .. } | Operation::AfsCreate { path, .. } => {
                done_if(!self.is_there(path))
            }
            Operation::AfsRead { path, .. } => done_or_nothing(!self.is_directory(path)),
            Operation::AfsList { .. } | Operation::AfsGiveUp { .. } => Done,
            Operation::AfsStore { path, .. } | Operation::AfsTruncate { path, .. } => match self.at(path) {
                None => Nothing,
                Some(node) if node.is_directory => Refused,
                Some(_) if self.is_in_the_way(path) => Either,
                Some(_) => Done,
            },
            Operation::AfsRename { from, to, .. } => {
                let Some(&object) = self.names.get(&from) else { return Refused };
                match self.names.get(&to) {
                    Some(target) if *target == object => Nothing,
                    Some(_) if self.is_directory(from) != self.is_directory(to) => Refused,
                    _ if self.is_open(from) || self.is_open(to) => Either,
                    Some(_) if self.is_directory(from) => Either,
                    _ => self.moves(object, from, to),
                }
            }
            Operation::AfsLink { from, to, .. } => match self.at(from) {
                None => Nothing,
                Some(node) if self.is_there(to) || node.is_directory => Refused,
                // The server takes it for a file of one of them.
                Some(_) if self.is_in_several_directories(from) => Either,
                Some(_) => Done,
            },
            Operation::AfsRemove { path, .. } if self.is_directory(path) => Refused,
            Operation::AfsRemoveDirectory { path, .. } if !self.is_directory(path) => Refused,
            Operation::AfsRemove { path, .. } if self.is_in_the_way(path) => Either,
            Operation::AfsRemoveDirectory { path, .. } if self.is_open(path) && self.is_in_the_way(path) => {
                Either
            }
            Operation::AfsRemove { path, .. } | Operation::AfsRemoveDirectory { path, .. } => {
                done_if(self.is_there(path))
            }
            _ => unreachable!("{operation} is no operation of AFS"),
        }
    }

    fn expects_of_http(&self, operation: &Operation) -> Expected {
        match *operation {
            Operation::Put { path, .. } if self.is_directory(path) => Refused,
            Operation::Put { path, condition: Condition::Nothing, .. } => done_if(!self.is_there(path)),
            Operation::Put { path, condition: Condition::AsRead, .. } if !self.is_there(path) => Refused,
            Operation::Put { condition: Condition::AsRead, .. } => Either,
            Operation::Put { path, .. } if self.is_in_the_way(path) => Either,
            Operation::Put { .. } => Done,
            Operation::Delete { path } if self.is_directory(path) || self.is_in_the_way(path) => Either,
            Operation::Delete { path } => done_if(self.is_there(path)),
            _ => unreachable!("{operation} is no operation of HTTP"),
        }
    }

    /// Returns what is expected of a local program, which nothing keeps from what it may do: the others are
    /// left out.
    fn expects_of_program(&self, operation: &Operation) -> Expected {
        let is_file = |path: Path| self.at(path).is_some_and(|node| !node.is_directory);
        let can_be = match *operation {
            Operation::LocalCreate { path, .. } => !self.is_there(path),
            Operation::LocalMakeDirectory { path } => !self.is_there(path) && !self.is_closed_at(path, None),
            Operation::LocalSwap => self.can_swap(),
            Operation::LocalSwapThen { .. } => {
                let mut after = self.clone();
                after.swaps();
                let then = operation.after_swap();
                self.can_swap() && then.is_some_and(|then| after.expects(&then) != Nothing)
            }
            Operation::LocalWrite { path, .. }
            | Operation::LocalTruncate { path, .. }
            | Operation::LocalChmod { path, .. } => is_file(path),
            Operation::LocalReplace { path, .. } => !self.is_directory(path),
            Operation::LocalRename { from, to } => match (self.names.get(&from), self.names.get(&to)) {
                (None, _) => false,
                (Some(object), Some(target)) if object == target => false,
                (Some(object), _) if self.is_closed_at(to, Some(*object)) => false,
                (Some(object), Some(target)) => {
                    let (node, there) = (&self.objects[*object], &self.objects[*target]);
                    // A directory without a list would be closed in place of one that has one.
                    node.is_directory == there.is_directory && (node.has_list || !there.has_list)
                }
                (Some(_), None) => true,
            },
            Operation::LocalLink { from, to } => is_file(from) && !self.is_there(to),
            Operation::LocalRemove { path } => self.is_there(path),
            _ => true,
        };
        done_or_nothing(can_be)
    }

    /// Returns whether a local program may have the directories below the root change places.
    fn can_swap(&self) -> bool {
        let mut moving = self.names.iter().filter(|(path, _)| path.directory() != 0);
        moving.all(|(path, object)| {
            let (to, node) = (path.swapped(), &self.objects[*object]);
            let takes_place = self.at(to).is_some_and(|there| there.has_list);
            let is_closed =
                self.is_closed_at(to, Some(*object)) || takes_place && node.is_directory && !node.has_list;
            // What is to go by its name has that no more.
            !is_closed && !node.is_pending
        })
    }

    /// Returns what is expected of a rename to a name that is free, or may be replaced.
    fn moves(&self, object: Object, from: Path, to: Path) -> Expected {
        let has_several = self.names_of(object).count() > 1;
        // One of several names stays in its directory where rights might differ (docs/design/vfs.md, "Names in several directories").
        if has_several && from.directory() != to.directory() { Either } else { Done }
    }
}
