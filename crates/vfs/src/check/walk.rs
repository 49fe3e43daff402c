//! The part of a check that begins with the tree.

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use identity::Acl;
use index::{Kind, Known, Number, Place};
use lane::fs::{Dir, DirEntry, File, FileKind, OpenHow, OpenKind, Stat};
use lane::offload::offload;

use super::{Check, CheckError, ENTRIES_MAX, ProblemKind, is_gone};
use crate::attributes::Attributes;
use crate::cache::staging_process;
use crate::descriptor;
use crate::error::Error;
use crate::name::{Name, RelPathBuf};
use crate::object::{By, Identity, identity_of, is_accepted, kind_of};
use crate::usage::{UsageTally, attribute_bytes};

/// State of the walk.
#[derive(Default)]
pub(super) struct Walked {
    /// Vnodes of files that were found.
    pub(super) seen: HashSet<u32>,
    /// First path that could not be looked at, and why.
    pub(super) unread: Option<(String, String)>,
    /// Usage of the tree, so far as it could be looked at.
    pub(super) tally: UsageTally,
    /// A file has extended attributes that count.
    pub(super) has_attributes: bool,
    /// Files of several names, by vnode: they were recorded under one of them.
    linked: HashMap<u32, Linked>,
    /// Devices and inodes of directories, each of which is looked into once, wherever else it is mounted.
    entered: HashSet<(u64, u64)>,
    /// Directories that are to be looked into, with their vnodes.
    left: Vec<(RelPathBuf, u32)>,
}

/// A file of several names.
struct Linked {
    known: Known,
    /// Path of one such directory, as it would be recorded.
    path: RelPathBuf,
    place: Place,
    is_where_recorded: bool,
}

/// A name in a directory, and what the index knows of what it leads to.
struct WalkedName {
    path: RelPathBuf,
    place: Place,
    kind: Kind,
    file: (u64, u64),
    has_other_names: bool,
    known: Option<Known>,
}

impl Check {
    /// Looks into every directory.
    pub(super) async fn walk(&mut self) -> Result<Walked, CheckError> {
        let mut walked = Walked::default();
        let root = self.look_at_root(&mut walked).await?;
        walked.left.push((RelPathBuf::root(), root));
        while let Some((path, vnode)) = walked.left.pop() {
            match self.look_into(&path, vnode, &mut walked).await? {
                Ok(()) => {}
                Err(error) if is_gone(&error) => {}
                Err(error) => walked.note_unread(&path, &error),
            }
        }
        for (vnode, linked) in std::mem::take(&mut walked.linked) {
            walked.seen.insert(vnode);
            if !linked.is_where_recorded {
                self.note_moved(&linked.known, &linked.path, linked.place).await?;
            }
        }
        self.flush_if_repairing().await?;
        Ok(walked)
    }

    /// Returns the vnode by which the volume's own directory is known; 0 where it is not yet.
    async fn look_at_root(&mut self, walked: &mut Walked) -> Result<u32, CheckError> {
        let dir = self.root.dir();
        let stat = dir.stat().map_err(|error| self.at_root(&error))?;
        walked.entered.insert((stat.dev, stat.ino));
        let identity =
            identity_of(By::Open(dir.as_file()), &stat).await.map_err(|error| self.at_root(&error))?;
        let words: Vec<Box<[u8]>> = vec![identity.words(self.home)[..].into()];
        let known = self.known(words).await?.pop().flatten();
        let Some(known) = known else { return Ok(0) };
        if self.is_of_its_kind(&known, Kind::Root, &RelPathBuf::root()) {
            walked.seen.insert(known.object.number.vnode);
            return Ok(known.object.number.vnode);
        }
        Ok(0)
    }

    /// Looks into one directory; the inner error is of its own.
    async fn look_into(
        &mut self,
        path: &RelPathBuf,
        vnode: u32,
        walked: &mut Walked,
    ) -> Result<Result<(), Error>, CheckError> {
        let dir = match self.root.open_real_directory(path.as_path()).await {
            Ok(dir) => dir,
            Err(error) => return Ok(Err(error)),
        };
        let entries = match dir.entries_with_handles(ENTRIES_MAX).await {
            Ok(entries) => entries,
            Err(error) => return Ok(Err(error.into())),
        };
        self.report.directories += 1;
        walked.tally.add_attributes(attribute_bytes(dir.as_file()).await.unwrap_or(0));
        self.look_at_access_list(&dir, path).await?;
        self.look_at_descriptor(dir.as_file(), path).await;
        let mut entries = entries.into_iter().peekable();
        while entries.peek().is_some() {
            let part: Vec<_> = entries.by_ref().take(AT_ONCE).collect();
            let seen = self.identify(&dir, path, vnode, part, walked).await?;
            for seen in seen {
                self.compare(seen, walked).await?;
            }
            self.flush_if_repairing().await?;
        }
        Ok(Ok(()))
    }

    /// Returns what the index knows of these names.
    async fn identify(
        &mut self,
        dir: &Dir,
        path: &RelPathBuf,
        parent: u32,
        entries: Vec<DirEntry>,
        walked: &mut Walked,
    ) -> Result<Vec<WalkedName>, CheckError> {
        let (mut found, mut words) = (Vec::with_capacity(entries.len()), Vec::with_capacity(entries.len()));
        for DirEntry { name, stat, handle } in entries {
            self.report.names += 1;
            self.progress.names.fetch_add(1, Ordering::Relaxed);
            // It has vanished, or has a name that is not served.
            let (Some(stat), Ok(parsed)) = (stat, Name::parse(&name)) else { continue };
            let Ok(below) = path.as_path().join(parsed) else {
                walked.note_unread(path, &"names beneath it are too long");
                continue;
            };
            // It is neither served nor counted.
            if parsed.is_reserved() {
                if matches!(stat.kind, FileKind::File | FileKind::Symlink) && staging_process(&name).is_some()
                {
                    self.take_away(dir, parsed, &below).await;
                }
                continue;
            }
            // Nor is an upload resumed that a client did not finish.
            if stat.kind == FileKind::File
                && transfer::is_staged(&name)
                && self.take_away(dir, parsed, &below).await
            {
                continue;
            }
            let is_counted = walked.tally.add(Attributes::from(stat));
            if stat.kind == FileKind::File {
                let attributes = self.look_at_file(dir, parsed, &below).await;
                walked.tally.add_attributes(if is_counted { attributes } else { 0 });
                walked.has_attributes |= attributes > 0;
            }
            let identity = match handle {
                Some(handle) => Ok(Identity::of_handle(stat.dev, handle.kind, &handle.bytes)),
                None => identity_of(By::Name(dir, &c_name(parsed)), &stat).await,
            };
            match identity {
                Ok(identity) => {
                    words.push(Box::from(&identity.words(self.home)[..]));
                    found.push((name, below, stat));
                }
                Err(Error::NotFound | Error::Stale) => {}
                Err(error) => walked.note_unread(&below, &error),
            }
        }
        let known = self.known(words).await?;
        let seen = found.into_iter().zip(known).map(|((name, path, stat), known)| {
            let place = if parent == 0 { Place::default() } else { Place { parent, name } };
            let kind = kind_of(stat.kind);
            let file = (stat.dev, stat.ino);
            WalkedName { path, place, kind, file, has_other_names: has_other_names(&stat), known }
        });
        Ok(seen.collect())
    }

    /// Compares a name with what is known of it.
    async fn compare(&mut self, seen: WalkedName, walked: &mut Walked) -> Result<(), CheckError> {
        let WalkedName { path, place, kind, file, has_other_names, known } = seen;
        let known = known.filter(|known| self.is_of_its_kind(known, kind, &path));
        let number = known.as_ref().map(|known| known.object.number);
        if kind == Kind::Directory && walked.entered.insert(file) {
            walked.left.push((path.clone(), number.map_or(0, |number| number.vnode)));
        }
        let Some((known, Number { vnode, .. })) = known.zip(number) else { return Ok(()) };
        // Without a name it is a hint, of where a name was that is no more.
        let recorded = &known.object.place;
        let is_where_recorded = recorded.parent == 0 || recorded.name.is_empty() || *recorded == place;
        if has_other_names {
            let linked = Linked { known, path, place, is_where_recorded };
            walked.linked.entry(vnode).or_insert(linked).is_where_recorded |= is_where_recorded;
            return Ok(());
        }
        // What is mounted at two places is recorded under one of them.
        if walked.seen.insert(vnode) && !is_where_recorded {
            self.note_moved(&known, &path, place).await?;
        }
        Ok(())
    }

    /// Notes it where it has a number of another kind, which goes: then nothing is known of it.
    fn is_of_its_kind(&mut self, known: &Known, kind: Kind, path: &RelPathBuf) -> bool {
        let number = known.object.number;
        if number.kind() == kind {
            return true;
        }
        if self.options.repair {
            self.index.forget(self.volume, &known.identity, number, None);
        }
        self.report.add(ProblemKind::Kind { number, path: shown(path) }, self.options.repair);
        false
    }

    async fn note_moved(&mut self, known: &Known, path: &RelPathBuf, place: Place) -> Result<(), CheckError> {
        if self.options.repair {
            let (index, volume, identity) = (Arc::clone(&self.index), self.volume, known.identity.clone());
            offload(None, move || index.set_place(volume, &identity, place)).await??;
        }
        let trouble = ProblemKind::Moved { number: known.object.number, path: shown(path) };
        self.report.add(trouble, self.options.repair);
        Ok(())
    }

    /// Reports a staged file or a partial upload, which is not open, whichever server it belonged to, and removes it
    /// where the check repairs. Returns whether it is gone.
    async fn take_away(&mut self, dir: &Dir, name: Name<'_>, path: &RelPathBuf) -> bool {
        let mended = self.options.repair && dir.unlink(&c_name(name)).await.is_ok();
        self.report.add(ProblemKind::Leftover { path: shown(path) }, mended);
        mended
    }

    async fn look_at_access_list(&mut self, dir: &Dir, path: &RelPathBuf) -> Result<(), CheckError> {
        let why = match self.keeping.list_of(dir.as_file()).await {
            Ok(Some(list)) if list.is_empty() => Some(self.keeping.why_list(dir.as_file()).await),
            Ok(None) if self.has_lost_list(dir, path).await? => Some(LOST.to_owned()),
            Ok(list) => list.and_then(|list| Acl::decode(&list).err()).map(|error| error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(why) = why {
            self.report.add(ProblemKind::AccessList { path: shown(path), why }, false);
        }
        Ok(())
    }

    /// Returns whether the index remembers a list, or descriptor, of a directory that has none.
    async fn has_lost_list(&self, dir: &Dir, path: &RelPathBuf) -> Result<bool, CheckError> {
        if descriptor::look_at(dir.as_file(), self.keeping).await.is_some() {
            return Ok(false);
        }
        let (index, volume, at) = (Arc::clone(&self.index), self.volume, path.as_path().as_bytes().to_vec());
        let Some(record) = offload(None, move || index.list_at(volume, &at)).await?? else {
            return Ok(false);
        };
        let sees_trusted = self.keeping.sees_trusted();
        Ok(!is_accepted(self.root.dir(), dir, path.as_path(), record.seen_ms, sees_trusted).await)
    }

    /// Looks at the descriptor of a file ([`Check::look_at_descriptor`]), and returns the bytes of its attributes. What the server may
    /// not open is not served, whatever its descriptor says.
    async fn look_at_file(&mut self, dir: &Dir, name: Name<'_>, path: &RelPathBuf) -> u64 {
        let how = OpenHow { kind: OpenKind::Any, symlinks: false, write: false };
        let Ok(file) = dir.open(&c_name(name), how).await else { return 0 };
        self.look_at_descriptor(&file, path).await;
        attribute_bytes(&file).await.unwrap_or(0)
    }

    async fn look_at_descriptor(&mut self, file: &File, path: &RelPathBuf) {
        let Some(found) = descriptor::look_at(file, self.keeping).await else { return };
        self.report.descriptors += 1;
        if let Err(why) = found {
            self.report.add(ProblemKind::Descriptor { path: shown(path), why }, false);
        }
    }

    /// Returns what the index knows of files of these identities. A record that cannot be read is found by
    /// its own check.
    async fn known(&self, words: Vec<Box<[u8]>>) -> Result<Vec<Option<Known>>, CheckError> {
        let (index, volume) = (Arc::clone(&self.index), self.volume);
        let known = offload(None, move || {
            let known = |identity: Box<[u8]>| match index.look_up(volume, &identity) {
                Err(index::Error::Damaged(_)) => Ok(None),
                found => Ok(found?.map(|object| Known { identity, object })),
            };
            words.into_iter().map(known).collect::<Result<Vec<_>, index::Error>>()
        });
        Ok(known.await??)
    }
}

impl Walked {
    fn note_unread(&mut self, path: &RelPathBuf, why: &dyn std::fmt::Display) {
        self.unread.get_or_insert_with(|| (shown(path), why.to_string()));
    }
}

/// Returns whether a file has other names; a directory's links are its own entries.
fn has_other_names(stat: &Stat) -> bool {
    stat.kind != FileKind::Directory && stat.nlink > 1
}

fn shown(path: &RelPathBuf) -> String {
    if path.as_path().is_root() { ".".to_owned() } else { path.to_string() }
}

fn c_name(name: Name<'_>) -> CString {
    CString::new(name.as_bytes()).expect("a Name holds no zero byte")
}

/// Description of a directory that had a list when a server last looked at it, or a descriptor.
const LOST: &str = "it is gone, as after a copy that leaves extended attributes out: restore it, or say that there need be none by `linerate acl \
                    accept DIR`";
/// Names of a directory that the index is asked for at once.
const AT_ONCE: usize = 1_024;
