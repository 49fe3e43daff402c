//! Looks: what each protocol and the file system show is held against the model.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use lane::time;
use smb_wire::create::lease::state;

use crate::known::Known;
use crate::model::Object;
use crate::operation::{DIRECTORIES, Look, Looks, Path};
use crate::run::{BREAK_BOUND, OWN, Run, unlike};

impl Run {
    /// Checks that no lease stands on what is so no more.
    pub(crate) fn have_given_back(&self) -> anyhow::Result<()> {
        for (client, opens) in self.model.opens.iter().enumerate() {
            for (slot, opened) in opens.iter().enumerate() {
                let Some(opened) = opened else { continue };
                let left = self.smb[client].lease(slot as u8);
                let node = &self.model.objects[opened.object];
                let name = || self.name(opened.object);
                ensure!(
                    left & state::READ == 0 || node.contents == opened.contents || node.is_unseen,
                    "SMB {client} has a read lease by open {slot} of {}, which another has changed",
                    name()
                );
                ensure!(
                    left & state::WRITE == 0 || self.model.opens_of(opened.object).count() == 1,
                    "SMB {client} has a write lease by open {slot} of {}, which another has open",
                    name()
                );
            }
        }
        Ok(())
    }

    /// Checks that no lease stands on what a local program has taken from the name by which it is open.
    pub(crate) fn have_given_back_names(&self) -> anyhow::Result<()> {
        for (client, opens) in self.model.opens.iter().enumerate() {
            for (slot, opened) in opens.iter().enumerate() {
                let Some(opened) = opened.filter(|opened| opened.is_taken) else { continue };
                let left = self.smb[client].lease(slot as u8);
                ensure!(
                    left == 0,
                    "SMB {client} has lease {left} by open {slot} of {}, whose name a local program took",
                    self.name(opened.object)
                );
            }
        }
        Ok(())
    }

    /// Checks that clients with a callback on something that has changed were notified.
    pub(crate) fn are_told(&mut self) -> anyhow::Result<()> {
        for client in 0..self.afs.len() {
            for kept in self.afs[client].believes() {
                let node = &self.model.objects[kept.object];
                let is_so = match self.allows(Known::UntoldStatus) {
                    true => node.contents == kept.contents,
                    false => node.changes == kept.changes,
                };
                ensure!(is_so, "AFS {client} was not told that {} has changed", self.name(kept.object));
            }
        }
        Ok(())
    }

    /// Looks, and holds leases against what was found that local programs have changed.
    pub(crate) async fn looks(&mut self, looks: Looks) -> anyhow::Result<()> {
        self.file_system().context("file system")?;
        match looks.smb {
            Look::Nothing => {}
            Look::Touched => self.by_smb_touched().await.context("seen by SMB")?,
            Look::All => self.by_smb_all().await.context("seen by SMB")?,
        }
        match looks.http {
            Look::Nothing => {}
            Look::Touched => {
                for path in self.touched.paths.clone() {
                    self.is_sent(path).await.context("seen by HTTP")?;
                }
            }
            Look::All => self.by_http_all().await.context("seen by HTTP")?,
        }
        match looks.afs {
            Look::Nothing => {}
            Look::Touched => self.by_afs_touched().await.context("seen by AFS")?,
            Look::All => self.by_afs_all().await.context("seen by AFS")?,
        }
        if [looks.smb, looks.http, looks.afs].iter().any(|look| *look != Look::Nothing) {
            self.model.are_seen(&self.touched.objects);
            // Its names are looked at by listings alone.
            if looks.afs != Look::Nothing || [looks.smb, looks.http].contains(&Look::All) {
                let paths = self.touched.paths.iter();
                let directories = paths.map(|path| self.model.directory(path.directory())).collect();
                self.model.are_seen(&directories);
            }
            let soon = time::now() + BREAK_BOUND;
            self.in_time(soon, async |run| run.have_given_back()).await?;
        }
        Ok(())
    }

    /// Checks that the names of a directory are those of the model.
    pub(crate) fn are_names<'a>(
        &self,
        who: &str,
        directory: u8,
        names: impl Iterator<Item = &'a str>,
    ) -> anyhow::Result<()> {
        let seen: BTreeSet<_> = names.collect();
        let there: BTreeSet<_> = self.paths_of(directory).into_iter().map(|(path, _)| path.name()).collect();
        ensure!(
            seen == there,
            "{who} lists {seen:?} in /{}, where {there:?} are",
            DIRECTORIES[usize::from(directory)]
        );
        Ok(())
    }

    pub(crate) fn paths_of(&self, directory: u8) -> Vec<(Path, Object)> {
        let names = self.model.names.iter().filter(|(path, _)| path.directory() == directory);
        names.map(|(path, object)| (*path, *object)).collect()
    }

    /// Checks what is on the disk.
    pub(crate) fn file_system(&mut self) -> anyhow::Result<()> {
        let tree = self.site.disk().tree()?;
        for (directory, name) in DIRECTORIES.iter().enumerate() {
            let here = tree.keys().filter_map(|path| match path.rsplit_once('/') {
                Some((above, below)) => (above == *name).then_some(below),
                None => name.is_empty().then_some(path),
            });
            let here = here.filter(|name| !(self.has_left && name.starts_with(OWN)));
            self.are_names("the file system", directory as u8, here)?;
        }
        for (path, object) in self.model.names.clone() {
            let seen = &tree[&path.text()];
            let links = self.model.names_of(object).count();
            let node = &mut self.model.objects[object];
            ensure!(seen.is_directory == node.is_directory, "{path} is of another type");
            let inode = *node.inode.get_or_insert(seen.inode);
            ensure!(inode == seen.inode, "{path} is another file");
            if !node.is_directory {
                ensure!(seen.links as usize == links, "{path} has {} names", seen.links);
                ensure!(seen.content == node.content, "{path} has {}", unlike(&seen.content, &node.content));
            }
        }
        Ok(())
    }

    async fn by_http_all(&mut self) -> anyhow::Result<()> {
        for (directory, name) in DIRECTORIES.iter().enumerate() {
            let listed = self.http.list(name).await?;
            self.are_names("HTTP", directory as u8, listed.keys().map(String::as_str))?;
            for (path, object) in self.paths_of(directory as u8) {
                let node = &self.model.objects[object];
                let length = listed[path.name()];
                let len = node.content.len() as u64;
                ensure!(
                    node.is_directory || length == Some(len),
                    "HTTP lists {path} with {length:?} bytes, and it has {len}"
                );
            }
        }
        for path in Path::all() {
            let there = match self.model.at(path) {
                Some(node) if !node.is_directory => node.content.clone(),
                _ => {
                    self.is_sent(path).await?;
                    continue;
                }
            };
            let length = self.http.length(path).await?;
            ensure!(
                length == Some(there.len()),
                "HEAD of {path} tells {length:?}, and it has {}",
                there.len()
            );
            self.is_sent(path).await?;
            let (from, len) = (there.len() / 3, there.len() / 3);
            if len > 0
                && let Some(part) = self.http.part(path, from, len).await?
            {
                ensure!(
                    part == there[from..from + len],
                    "a part of {path} has {}",
                    unlike(&part, &there[from..from + len])
                );
            }
        }
        Ok(())
    }

    /// Checks that GET sends what a name leads to.
    async fn is_sent(&mut self, path: Path) -> anyhow::Result<()> {
        let there = match self.model.at(path) {
            None => {
                ensure!(self.http.read(path).await?.is_none(), "{path} is not there, and is sent");
                return Ok(());
            }
            Some(node) if node.is_directory => return Ok(()),
            Some(node) => node.content.clone(),
        };
        let content =
            self.http.read(path).await?.with_context(|| format!("{path} is there, and not found"))?;
        ensure!(content == there, "{path} has {}", unlike(&content, &there));
        Ok(())
    }
}
