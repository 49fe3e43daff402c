//! Ends of the server, and what is left of the tree then.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use lane::time;

use crate::model::{Model, Object, ROOT};
use crate::operation::{Amid, DIRECTORIES, End, Operation, Path, Step};
use crate::run::{LOCAL_BOUND, OWN, Run, SIGNED_IN_WITHIN, bytes};
use crate::site::{Place, Seen};
use crate::smb::Redirector;

/// State of the disk, by path.
type Tree = BTreeMap<String, Seen>;

impl Run {
    /// Stops the server in order: index and tree agree.
    pub(crate) async fn stops(&mut self) -> anyhow::Result<()> {
        // What is idle is closed by its client, as soon as it hears of the stop.
        self.http.disconnects();
        self.site.ends(End::Stop).await?;
        let mends = std::mem::take(&mut self.is_to_mend);
        self.site.checks(mends).await
    }

    pub(crate) async fn restarts(&mut self, end: End) -> anyhow::Result<()> {
        if end == End::Stop {
            self.stops().await?;
            for (path, object) in self.model.names.clone() {
                // What was to go with the stop is gone.
                let is_coarse = self.site.disk().is_of_whole_second(&path.text()).unwrap_or_default();
                self.model.objects[object].may_rise |= is_coarse;
            }
        } else {
            self.site.ends(end).await?;
        }
        self.starts_again(end).await
    }

    /// Kills the server amid a change, which it has made then or not; of a store in place, perhaps a part.
    pub(crate) async fn dies_amid(&mut self, step: &Step) -> anyhow::Result<()> {
        let Operation::KillAmid { change, path, offset, len, after_us } = step.operation else {
            bail!("{} is no kill amid a change", step.operation);
        };
        let (new, after) = (bytes(step.index, len), Duration::from_micros(after_us.into()));
        let before = self.model.at(path).map(|node| node.content.clone());
        let is_answered = match change {
            Amid::Put => {
                let name = path.text();
                let mut asked = pin!(self.http.ask("PUT", &name, "", &new));
                let answered = time::timeout(after, asked.as_mut()).await.ok().transpose()?;
                self.site.ends(End::Kill).await?;
                answered.map(|response| (200..300).contains(&response.status))
            }
            Amid::Store => {
                let fid = self.fid(path).await?;
                let length = before.as_ref().map_or(0, Vec::len).max(usize::from(offset) + new.len());
                let mut asked = pin!(self.afs[0].store(fid, offset.into(), &new, length as u64));
                let answered = time::timeout(after, asked.as_mut()).await.ok();
                self.site.ends(End::Kill).await?;
                answered.map(|answered| answered.is_ok())
            }
        };
        let left = self.site.disk().tree()?.get(&path.text()).map(|seen| seen.content.clone());
        let new = match change {
            Amid::Put => new,
            Amid::Store => stored(before.as_deref().unwrap_or_default(), offset.into(), &new),
        };
        let is_whole = left == before || left.as_ref() == Some(&new);
        let is_part = change == Amid::Store
            && before.as_ref().zip(left.as_ref()).is_some_and(|(before, left)| is_part(left, before, &new));
        ensure!(is_whole || is_part, "{path} has neither what it had nor what it was to have");
        ensure!(is_answered != Some(true) || left.as_ref() == Some(&new), "what was answered is lost");
        ensure!(is_answered != Some(false) || left == before, "what was refused is done");
        match (change, left) {
            (_, left) if left == before => {}
            (Amid::Put, Some(left)) => drop(self.model.makes(path, false, left)),
            (Amid::Store, Some(left)) => {
                let object = self.model.names[&path];
                self.model.objects[object].content = left;
                self.model.content_changed(object);
            }
            (_, None) => bail!("{path} is gone"),
        }
        // An upload that has not its name yet may leave a record (docs/design/vfs.md, "Checked from outside").
        self.is_to_mend |= change == Amid::Put;
        self.starts_again(End::Kill).await
    }

    /// Starts the server again after this end, on what it has left.
    async fn starts_again(&mut self, end: End) -> anyhow::Result<()> {
        self.model.opens = Default::default();
        let tree = self.site.disk().tree()?;
        if end != End::Stop {
            self.http.disconnects();
            self.has_left = true;
            // Tree and index lose different changes with the power; and what has a name of the server's own is taken away by a check, or in time.
            let has_left = tree.keys().any(|path| path.split('/').any(|name| name.starts_with(OWN)));
            self.is_to_mend |= end == End::Power || has_left;
            self.model.objects.iter_mut().for_each(|node| node.may_rise = true);
        }
        if end == End::Power {
            self.model.adopts(&tree)?;
        }
        self.model.pending_ends(&tree);
        self.site.starts().await?;
        for (number, smb) in self.smb.iter_mut().enumerate() {
            let signed_in = signs_in_again(&self.place, number as u8).await;
            *smb = signed_in.with_context(|| format!("the server has said: {}", self.site.said()))?;
        }
        for manager in self.afs.iter_mut().chain([&mut self.observer]) {
            manager.connects(self.place.afs)?;
        }
        // Calls are aborted with RX_RESTARTING until every lane serves; clients try again.
        let root = self.observer.root;
        let soon = time::now() + SIGNED_IN_WITHIN;
        self.in_time(soon, async |run| run.observer.list(root).await.map(drop)).await?;
        if end == End::Power {
            let (names, _) = self.observer.list(root).await?;
            self.model.is_called(ROOT, root);
            for (place, directory) in DIRECTORIES.iter().enumerate().skip(1) {
                let object = self.model.directory(place as u8);
                self.is_called(object, *names.get(*directory).context("a directory of the tree")?)?;
            }
            self.settled = time::now() + LOCAL_BOUND;
        }
        Ok(())
    }
}

impl Model {
    /// Notes which files that were to go with their last open have gone with the server, and which stay.
    fn pending_ends(&mut self, tree: &Tree) {
        for object in 0..self.objects.len() {
            if !std::mem::take(&mut self.objects[object].is_pending) {
                continue;
            }
            let names: Vec<_> = self.names_of(object).collect();
            for path in names.into_iter().filter(|path| !tree.contains_key(&path.text())) {
                self.removes(path);
            }
        }
    }

    /// Adopts what a loss of power has left as the truth. What was synced and not changed since is there.
    fn adopts(&mut self, tree: &Tree) -> anyhow::Result<()> {
        let mut names: BTreeMap<Path, Object> = BTreeMap::new();
        for path in Path::all() {
            let Some(seen) = tree.get(&path.text()) else { continue };
            let object = self.objects.iter().rposition(|node| node.inode == Some(seen.inode));
            let object = object.with_context(|| format!("after a loss of power nobody knows {path}"))?;
            names.insert(path, object);
        }
        let is_safe = |object: Object| {
            self.synced.contents.get(&object).is_some_and(|synced| *synced == self.objects[object].contents)
        };
        let lost = self.synced.names.iter().find(|(path, object)| {
            is_safe(self.directory(path.directory())) && names.get(path) != Some(object)
        });
        ensure!(lost.is_none(), "a name that was synced is lost: {lost:?}");
        let safe: Vec<_> = names.values().map(|object| is_safe(*object)).collect();
        for ((path, object), is_safe) in names.iter().zip(safe) {
            if self.objects[*object].is_directory {
                continue;
            }
            let content = tree[&path.text()].content.clone();
            let is_as_before = content == self.objects[*object].content;
            ensure!(is_as_before || !is_safe, "what was synced of {path} is lost");
            if !is_as_before {
                self.objects[*object].content = content;
                self.content_changed(*object);
            }
        }
        for (directory, name) in DIRECTORIES.iter().enumerate() {
            ensure!(name.is_empty() || tree.contains_key(*name), "/{name} is lost");
            let here = |names: &BTreeMap<Path, Object>| -> Vec<_> {
                let here = names.iter().filter(|(path, _)| usize::from(path.directory()) == directory);
                here.map(|(path, object)| (*path, *object)).collect()
            };
            if here(&self.names) != here(&names) {
                self.content_changed(self.directory(directory as u8));
            }
        }
        // A file may have lost its number with the record of that; another never gets it.
        self.objects.iter_mut().for_each(|node| node.fid = None);
        self.names = names;
        self.is_synced();
        Ok(())
    }
}

/// Returns what was there, with these bytes over it.
fn stored(before: &[u8], offset: usize, bytes: &[u8]) -> Vec<u8> {
    let mut content = before.to_vec();
    content.resize(content.len().max(offset + bytes.len()), 0);
    content[offset..offset + bytes.len()].copy_from_slice(bytes);
    content
}

/// Returns whether each byte is of the content before or after, or of a hole that the rest was to fill.
fn is_part(left: &[u8], before: &[u8], after: &[u8]) -> bool {
    let is_of_one = |(at, byte): (usize, &u8)| {
        *byte == after[at] || before.get(at).map_or(*byte == 0, |before| byte == before)
    };
    (before.len()..=after.len()).contains(&left.len()) && left.iter().enumerate().all(is_of_one)
}

/// Signs in again, as a client does whose server has just started: one that was killed resets connections in
/// its first moments.
async fn signs_in_again(place: &Place, number: u8) -> anyhow::Result<Redirector> {
    let give_up = time::now() + SIGNED_IN_WITHIN;
    loop {
        match Redirector::new(place, number).await {
            Err(_) if time::now() < give_up => time::sleep(Duration::from_millis(50)).await,
            signed_in => return signed_in,
        }
    }
}
