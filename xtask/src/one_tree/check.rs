//! Looks: what each protocol and the file system show of all names is held against the model.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;

use afs_wire::rxafs;
use anyhow::{Context, bail, ensure};
use rx_lane::CallError;
use smb_wire::create::access::attributes;
use xdr::rpc::Failure;

use super::afs::failed;
use super::model::Object;
use super::operation::{DIRECTORIES, Looks, Path};
use super::run::{Allowed, Run, unlike};

impl Run {
    /// Who was promised something that has changed was told.
    pub(super) fn are_told(&mut self) -> anyhow::Result<()> {
        for client in 0..self.afs.len() {
            for kept in self.afs[client].believes() {
                let node = &self.model.objects[kept.object];
                let is_so = match self.allows(Allowed::UntoldStatus) {
                    true => node.contents == kept.contents,
                    false => node.changes == kept.changes,
                };
                ensure!(is_so, "AFS {client} was not told that {} has changed", self.name(kept.object));
            }
        }
        Ok(())
    }

    pub(super) async fn looks(&mut self, looks: Looks) -> anyhow::Result<()> {
        self.file_system().context("file system")?;
        if looks.smb {
            self.by_smb_all().await.context("seen by SMB")?;
        }
        if looks.http {
            self.by_http_all().await.context("seen by HTTP")?;
        }
        if looks.afs {
            self.by_afs_all().await.context("seen by AFS")?;
        }
        Ok(())
    }

    /// The names of a directory are those of the model.
    pub(super) fn are_names<'a>(
        &self,
        who: &str,
        directory: u8,
        names: impl Iterator<Item = &'a str>,
    ) -> anyhow::Result<()> {
        let mut seen: BTreeSet<_> = names.collect();
        if directory == 0 {
            for name in &DIRECTORIES[1..] {
                ensure!(seen.remove(name), "{who} does not list {name}");
            }
        }
        let there: BTreeSet<_> = self.paths_of(directory).into_iter().map(|(path, _)| path.name()).collect();
        ensure!(
            seen == there,
            "{who} lists {seen:?} in /{}, where {there:?} are",
            DIRECTORIES[usize::from(directory)]
        );
        Ok(())
    }

    fn paths_of(&self, directory: u8) -> Vec<(Path, Object)> {
        let names = self.model.names.iter().filter(|(path, _)| path.directory() == directory);
        names.map(|(path, object)| (*path, *object)).collect()
    }

    /// What is on the disk.
    pub(super) fn file_system(&mut self) -> anyhow::Result<()> {
        let tree = self.site.tree();
        for (directory, name) in DIRECTORIES.iter().enumerate() {
            let mut names = Vec::new();
            for entry in std::fs::read_dir(tree.join(name))? {
                names.push(entry?.file_name().to_string_lossy().into_owned());
            }
            self.are_names("the file system", directory as u8, names.iter().map(String::as_str))?;
        }
        for (path, object) in self.model.names.clone() {
            let at = tree.join(path.text());
            let metadata = std::fs::symlink_metadata(&at)?;
            let links = self.model.names_of(object).count();
            let node = &mut self.model.objects[object];
            ensure!(metadata.is_dir() == node.is_directory, "{path} is of another type");
            let inode = *node.inode.get_or_insert(metadata.ino());
            ensure!(inode == metadata.ino(), "{path} is another file");
            if !node.is_directory {
                ensure!(metadata.nlink() as usize == links, "{path} has {} names", metadata.nlink());
                let content = std::fs::read(&at)?;
                ensure!(content == node.content, "{path} has {}", unlike(&content, &node.content));
            }
        }
        Ok(())
    }

    async fn by_smb_all(&mut self) -> anyhow::Result<()> {
        for client in 0..self.smb.len() {
            let tree = self.smb[client].tree().clone();
            for (directory, name) in DIRECTORIES.iter().enumerate() {
                let listed = tree.names(name).await?;
                let names = listed.iter().map(|listed| listed.name.as_str());
                self.are_names(&format!("SMB {client}"), directory as u8, names)?;
                for (path, object) in self.paths_of(directory as u8) {
                    let listed = listed.iter().find(|listed| listed.name == path.name()).context("a name")?;
                    let node = &self.model.objects[object];
                    let is_directory = listed.attributes & attributes::DIRECTORY != 0;
                    ensure!(is_directory == node.is_directory, "{path} is listed as of another type");
                    let len = node.content.len() as u64;
                    ensure!(
                        is_directory || listed.length == len || self.allows(Allowed::ListedLengths),
                        "SMB {client} lists {path} with {} bytes, and it has {len}",
                        listed.length
                    );
                }
            }
            for (path, object) in self.model.names.clone() {
                let node = &self.model.objects[object];
                if node.is_directory {
                    continue;
                }
                let content = tree.read(&path.smb(), LEN_MAX).await.with_context(|| path.text())?;
                ensure!(*content == *node.content, "{path} has {}", unlike(&content, &node.content));
            }
            for (slot, opened) in self.model.opens[client].iter().enumerate() {
                let Some(opened) = opened else { continue };
                let open = self.smb[client].open(slot as u8).context("an open")?;
                let content = open.read(0, LEN_MAX).await?;
                let node = &self.model.objects[opened.object];
                ensure!(
                    *content == *node.content,
                    "open {slot} of SMB {client} has {}",
                    unlike(&content, &node.content)
                );
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
                    node.is_directory || length == Some(len) || self.allows(Allowed::ListedLengths),
                    "HTTP lists {path} with {length:?} bytes, and it has {len}"
                );
            }
        }
        for path in Path::all() {
            let Some(node) = self.model.at(path) else {
                ensure!(self.http.read(path).await?.is_none(), "{path} is not there, and is sent");
                continue;
            };
            if node.is_directory {
                continue;
            }
            let there = node.content.clone();
            let length = self.http.length(path).await?;
            ensure!(
                length == Some(there.len()),
                "HEAD of {path} tells {length:?}, and it has {}",
                there.len()
            );
            let content =
                self.http.read(path).await?.with_context(|| format!("{path} is there, and not found"))?;
            ensure!(content == there, "{path} has {}", unlike(&content, &there));
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

    async fn by_afs_all(&mut self) -> anyhow::Result<()> {
        for directory in 0..DIRECTORIES.len() {
            let fid = self.model.objects[directory].fid.context("a directory's FID")?;
            let (names, reply) = self.observer.list(fid).await?;
            self.are_names("AFS", directory as u8, names.keys().map(String::as_str))?;
            self.is_version(directory, reply.status.data_version())?;
            for (path, object) in self.paths_of(directory as u8) {
                let fid = names[path.name()];
                let known = *self.model.objects[object].fid.get_or_insert(fid);
                ensure!(
                    known == fid,
                    "{path} is {}.{}, and was {}.{}",
                    fid.vnode,
                    fid.uniquifier,
                    known.vnode,
                    known.uniquifier
                );
                let others = self.model.objects.iter().enumerate().filter(|(other, _)| *other != object);
                for (other, node) in others {
                    ensure!(node.fid != Some(fid), "{path} is called as {} is", self.name(other));
                }
            }
        }
        let objects: BTreeSet<_> = self.model.names.values().copied().collect();
        for &object in &objects {
            let fid = self.model.objects[object].fid.context("a FID")?;
            let name = self.name(object);
            let reply = self.observer.call(&rxafs::FetchStatus { fid }).await;
            let status =
                reply.map_err(failed).with_context(|| format!("FetchStatus of {name}"))?.get().status;
            if self.model.objects[object].is_directory {
                continue;
            }
            let length = u64::from(status.length_high) << 32 | u64::from(status.length_low);
            let there = self.model.objects[object].content.len() as u64;
            ensure!(length == there, "FetchStatus tells {length} bytes of {name}, which has {there}");
            let links = self.model.names_of(object).count();
            ensure!(
                status.link_count as usize == links,
                "FetchStatus tells {} names of {name}",
                status.link_count
            );
            self.is_version(object, status.data_version())?;
            let (content, reply) = self
                .observer
                .fetch(fid)
                .await
                .map_err(failed)
                .with_context(|| format!("FetchData of {name}"))?;
            let there = &self.model.objects[object].content;
            ensure!(content == *there, "{name} has {}", unlike(&content, there));
            self.is_version(object, reply.status.data_version())?;
        }
        self.are_gone(&objects).await
    }

    /// The files that were lately removed, and are not open, are not found by their numbers.
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
                Ok(_) if self.allows(Allowed::FoundWhenGone) => {}
                Ok(_) => bail!("file {object} is gone, and {}.{} answers", fid.vnode, fid.uniquifier),
            }
        }
        Ok(())
    }
}

/// Longer than any file of a run.
const LEN_MAX: u32 = 32 << 10;
/// Removed files that are asked for.
const GONE: usize = 4;
