//! Checks of the tree by SMB.

use anyhow::{Context, bail, ensure};
use smb_client::Open;
use smb_wire::Status;
use smb_wire::create::access::attributes;

use crate::model::Object;
use crate::operation::{DIRECTORIES, Path};
use crate::run::{Run, unlike};

impl Run {
    pub(crate) async fn by_smb_all(&mut self) -> anyhow::Result<()> {
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
                        is_directory || listed.length == len,
                        "SMB {client} lists {path} with {} bytes, and it has {len}",
                        listed.length
                    );
                }
            }
            for path in self.model.names.clone().into_keys() {
                self.is_read(client, path).await?;
            }
            self.are_read(client, |_| true).await?;
        }
        Ok(())
    }

    /// Checks what the step touched, by one of the clients, and by all opens of that.
    pub(crate) async fn by_smb_touched(&mut self) -> anyhow::Result<()> {
        let client = self.turn();
        for path in self.touched.paths.clone() {
            self.is_read(client, path).await?;
        }
        for client in 0..self.smb.len() {
            let is_touched =
                |object| self.touched.objects.contains(&object) || self.model.objects[object].is_directory;
            self.are_read(client, is_touched).await?;
        }
        Ok(())
    }

    /// Checks that an open of a name reads what it leads to.
    async fn is_read(&self, client: usize, path: Path) -> anyhow::Result<()> {
        let tree = self.smb[client].tree();
        let read = async || tree.read(&path.smb(), LEN_MAX).await;
        let gone = |error: &smb_client::Error| {
            matches!(error.status(), Some(Status::OBJECT_NAME_NOT_FOUND | Status::DELETE_PENDING))
        };
        match self.model.at(path) {
            Some(node) if node.is_directory => {}
            Some(node) if !node.is_pending => {
                let content = read().await.with_context(|| path.text())?;
                ensure!(*content == *node.content, "{path} has {}", unlike(&content, &node.content));
            }
            _ => match read().await {
                Err(error) if gone(&error) => {}
                Err(error) => return Err(error).with_context(|| path.text()),
                Ok(_) => bail!("{path} is not there, or about to go, and SMB {client} opens it"),
            },
        }
        Ok(())
    }

    /// Checks that an open of a directory lists what that has now.
    async fn is_listed_by(&self, client: usize, slot: usize, open: &Open) -> anyhow::Result<()> {
        let opened = self.model.opens[client][slot].context("an open")?;
        let mut listed = open.list("*").await.with_context(|| self.name(opened.object))?;
        listed.retain(|listed| listed.name != "." && listed.name != "..");
        let names = listed.iter().map(|listed| listed.name.as_str());
        let who = format!("open {slot} of SMB {client}");
        match opened.path.as_directory() {
            Some(place) => self.are_names(&who, place, names),
            None => {
                ensure!(
                    listed.is_empty(),
                    "{who} lists {:?} in {}",
                    names.collect::<Vec<_>>(),
                    self.name(opened.object)
                );
                Ok(())
            }
        }
    }

    /// Opens of these files read what these have.
    async fn are_read(&self, client: usize, which: impl Fn(Object) -> bool) -> anyhow::Result<()> {
        for (slot, opened) in self.model.opens[client].iter().enumerate() {
            let Some(opened) = opened.filter(|opened| which(opened.object)) else { continue };
            let open = self.smb[client].open(slot as u8).context("an open")?;
            if self.model.objects[opened.object].is_directory {
                // What a removed directory lists is nobody's to say.
                if self.model.names_of(opened.object).next().is_some() {
                    self.is_listed_by(client, slot, open).await?;
                }
                continue;
            }
            let content = open.read(0, LEN_MAX).await?;
            let node = &self.model.objects[opened.object];
            ensure!(
                *content == *node.content,
                "open {slot} of SMB {client} has {}",
                unlike(&content, &node.content)
            );
        }
        Ok(())
    }
}

/// Bytes of a read: more than any file of a run has.
const LEN_MAX: u32 = 32 << 10;
