//! Ends of the server, and what is left of the tree then.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use lane::time;

use crate::known::Known;
use crate::model::{Model, Object};
use crate::operation::{DIRECTORIES, End, Path};
use crate::run::{LOCAL_BOUND, Run, SIGNED_IN_WITHIN};
use crate::site::{Place, Seen};
use crate::smb::Redirector;

/// What is on the disk, by path.
type Tree = BTreeMap<String, Seen>;

impl Run {
    /// The server stops in order: index and tree agree.
    pub(crate) async fn stops(&mut self) -> anyhow::Result<()> {
        // What is idle is closed by its client, as soon as it hears of the stop.
        self.http.disconnects();
        self.site.ends(End::Stop).await?;
        if !self.allows(Known::Records) {
            let mends = std::mem::take(&mut self.is_to_mend);
            self.site.checks(mends).await?;
        }
        Ok(())
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
            self.http.disconnects();
            // Tree and index lose different changes with the power.
            self.is_to_mend |=
                end == End::Power || (self.model.has_removed() && self.allows(Known::RecordsOfOpens));
            self.has_left = true;
            self.site.ends(end).await?;
            self.model.objects.iter_mut().for_each(|node| node.may_rise = true);
        }
        self.model.opens = Default::default();
        let tree = self.site.disk().tree()?;
        if end == End::Power {
            let doubtful = self.model.adopts(&tree)?;
            if self.allows(Known::TagsAfterPower) {
                doubtful.into_iter().for_each(|path| self.http.forgets(path));
            }
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
            self.model.is_called(0, root);
            for (object, directory) in DIRECTORIES.iter().enumerate().skip(1) {
                self.is_called(object, *names.get(*directory).context("a directory of the tree")?)?;
            }
            self.settled = time::now() + LOCAL_BOUND;
        }
        Ok(())
    }
}

impl Model {
    /// A file that has no name any more is open.
    fn has_removed(&self) -> bool {
        let mut opens = self.opens.iter().flatten().flatten();
        opens.any(|opened| self.names_of(opened.object).next().is_none())
    }

    /// Files that were to go with their last open have gone with the server, or stay.
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

    /// What a loss of power has left is what is true from now on. What was synced and not changed since is there.
    /// Says which names lead to what was changed since.
    fn adopts(&mut self, tree: &Tree) -> anyhow::Result<Vec<Path>> {
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
        let lost = self
            .synced
            .names
            .iter()
            .find(|(path, object)| is_safe(path.directory().into()) && names.get(path) != Some(object));
        ensure!(lost.is_none(), "a name that was synced is lost: {lost:?}");
        let safe: Vec<_> = names.values().map(|object| is_safe(*object)).collect();
        let mut doubtful = Vec::new();
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
            if !is_safe {
                doubtful.extend(self.names_of(*object).chain([*path]));
            }
        }
        for (directory, name) in DIRECTORIES.iter().enumerate() {
            ensure!(name.is_empty() || tree.contains_key(*name), "/{name} is lost");
            let here = |names: &BTreeMap<Path, Object>| -> Vec<_> {
                let here = names.iter().filter(|(path, _)| usize::from(path.directory()) == directory);
                here.map(|(path, object)| (*path, *object)).collect()
            };
            if here(&self.names) != here(&names) {
                self.content_changed(directory);
            }
        }
        // A file may have lost its number with the record of that; another never gets it.
        self.objects.iter_mut().for_each(|node| node.fid = None);
        self.names = names;
        self.is_synced();
        Ok(doubtful)
    }
}

/// As a client does whose server has just started: one that was killed resets connections in its first moments.
async fn signs_in_again(place: &Place, number: u8) -> anyhow::Result<Redirector> {
    let give_up = time::now() + SIGNED_IN_WITHIN;
    loop {
        match Redirector::new(place, number).await {
            Err(_) if time::now() < give_up => time::sleep(std::time::Duration::from_millis(50)).await,
            signed_in => return signed_in,
        }
    }
}
