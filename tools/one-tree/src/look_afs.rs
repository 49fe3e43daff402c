//! Checks of the tree by AFS: names and FIDs, status and content, and versions.

use std::collections::BTreeSet;

use afs_wire::{Fid, rxafs};
use anyhow::{Context, bail, ensure};
use rx_lane::CallError;
use xdr::rpc::Failure;

use crate::afs::failed;
use crate::model::Object;
use crate::operation::DIRECTORIES;
use crate::run::{Run, unlike};

impl Run {
    pub(crate) async fn by_afs_all(&mut self) -> anyhow::Result<()> {
        for directory in 0..DIRECTORIES.len() {
            self.is_listed(directory as u8).await?;
        }
        let objects: BTreeSet<_> = self.model.names.values().copied().collect();
        for &object in &objects {
            let (fid, name) = (self.model.objects[object].fid.context("a FID")?, self.name(object));
            let reply = self.observer.call(&rxafs::FetchStatus { fid }).await;
            let status =
                reply.map_err(failed).with_context(|| format!("FetchStatus of {name}"))?.get().status;
            if self.model.objects[object].is_directory {
                continue;
            }
            let length = u64::from(status.length_high) << 32 | u64::from(status.length_low);
            let there = self.model.objects[object].content.len() as u64;
            ensure!(length == there, "FetchStatus tells {length} bytes of {name}, which has {there}");
            self.is_version(object, status.data_version())?;
            self.is_fetched(object).await?;
        }
        self.are_gone(&objects).await
    }

    /// Checks the files that the step touched by the identifiers that are known.
    pub(crate) async fn by_fid(&mut self) -> anyhow::Result<()> {
        for object in self.touched.objects.clone() {
            let node = &self.model.objects[object];
            if node.fid.is_some() && !node.is_directory && self.model.names_of(object).next().is_some() {
                self.is_fetched(object).await?;
            }
        }
        Ok(())
    }

    /// Checks what the step touched.
    pub(crate) async fn by_afs_touched(&mut self) -> anyhow::Result<()> {
        let directories: BTreeSet<_> = self.touched.paths.iter().map(|path| path.directory()).collect();
        for directory in directories {
            self.is_listed(directory).await?;
        }
        for object in self.touched.objects.clone() {
            let has_name = self.model.names_of(object).next().is_some();
            if has_name && !self.model.objects[object].is_directory {
                self.is_fetched(object).await?;
            }
        }
        Ok(())
    }

    /// Checks a directory's names, and their FIDs.
    async fn is_listed(&mut self, directory: u8) -> anyhow::Result<()> {
        let object = self.model.directory(directory);
        let fid = self.model.objects[object].fid.context("a directory's FID")?;
        let (names, reply) = self.observer.list(fid).await?;
        self.are_names("AFS", directory, names.keys().map(String::as_str))?;
        self.is_version(object, reply.status.data_version())?;
        for (path, object) in self.paths_of(directory) {
            self.is_called(object, names[path.name()])?;
        }
        Ok(())
    }

    /// Checks that a file keeps its FID, and no other has had it.
    pub(crate) fn is_called(&mut self, object: Object, fid: Fid) -> anyhow::Result<()> {
        let name = self.name(object);
        let text = |fid: Fid| format!("{}.{}", fid.vnode, fid.uniquifier);
        let known = self.model.objects[object].fid;
        ensure!(
            known.is_none_or(|known| known == fid),
            "{name} is {}, and was {}",
            text(fid),
            known.map(text).unwrap_or_default()
        );
        let first = *self.model.fids.entry((fid.vnode, fid.uniquifier)).or_insert(object);
        ensure!(first == object, "{name} is called {}, as {} was", text(fid), self.name(first));
        self.model.is_called(object, fid);
        Ok(())
    }

    async fn is_fetched(&mut self, object: Object) -> anyhow::Result<()> {
        let (fid, name) = (self.model.objects[object].fid.context("a FID")?, self.name(object));
        let fetched = self.observer.fetch(fid).await.map_err(failed);
        let (content, reply) = fetched.with_context(|| format!("FetchData of {name}"))?;
        let there = &self.model.objects[object].content;
        ensure!(content == *there, "{name} has {}", unlike(&content, there));
        let links = self.model.names_of(object).count();
        let told = reply.status.link_count;
        ensure!(told as usize == links, "AFS tells {told} names of {name}, which has {links}");
        self.is_version(object, reply.status.data_version())
    }

    /// Checks that the files that were lately removed, and are not open, are not found by their numbers.
    async fn are_gone(&mut self, living: &BTreeSet<Object>) -> anyhow::Result<()> {
        let is_gone =
            |object: &Object| !living.contains(object) && self.model.opens_of(*object).next().is_none();
        let gone: Vec<_> =
            (DIRECTORIES.len()..self.model.objects.len()).rev().filter(is_gone).take(GONE).collect();
        for object in gone {
            let Some(fid) = self.model.objects[object].fid else { continue };
            match self.observer.call(&rxafs::FetchStatus { fid }).await {
                Err(Failure::Stream(CallError::Aborted(_))) => {}
                Err(failure) => return Err(failed(failure)),
                Ok(_) => bail!("file {object} is gone, and {}.{} answers", fid.vnode, fid.uniquifier),
            }
        }
        Ok(())
    }

    /// Compares a version that AFS reported with the last one.
    pub(crate) fn is_version(&mut self, object: Object, version: u64) -> anyhow::Result<()> {
        let name = self.name(object);
        let node = &mut self.model.objects[object];
        let is_soon = node.may_rise_until.is_some_and(|until| lane::time::now() <= until);
        if let Some((before, contents)) = node.version {
            ensure!(version >= before, "the version of {name} goes back from {before} to {version}");
            let is_same = contents == node.contents;
            ensure!(is_same || version > before, "{name} has changed, and has still version {version}");
            // A directory's may rise for what its pages say otherwise (docs/design/vfs.md, "Images of directories").
            let may_rise = node.may_rise || node.is_directory;
            ensure!(
                !is_same || version == before || may_rise,
                "the version of {name} rises from {before} to {version}, and it has not changed"
            );
        }
        (node.version, node.may_rise) = (Some((version, node.contents)), is_soon && node.may_rise);
        Ok(())
    }
}

/// Removed files that are asked for.
const GONE: usize = 4;
