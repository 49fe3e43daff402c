//! Operations of AFS clients.

use afs_wire::{Fid, StoreStatus, rxafs};
use anyhow::{Context, bail, ensure};
use rx_lane::CallError;
use xdr::rpc::Failure;

use crate::afs::failed;
use crate::operation::{Operation, Path, Step};
use crate::run::{Answer, Run, bytes, unlike};

impl Run {
    pub(crate) async fn by_afs(&mut self, step: &Step) -> anyhow::Result<Answer> {
        let done = self.ask_afs(step).await?;
        match done {
            Ok(()) => Ok(Answer::Done),
            Err(Failure::Stream(CallError::Aborted(code))) => {
                let code = afs_client::Code(code);
                Ok(Answer::Refused(format!("AFS aborts with {code}")))
            }
            Err(failure) => Err(failed(failure)),
        }
    }

    async fn ask_afs(&mut self, step: &Step) -> anyhow::Result<Result<(), Failure<CallError>>> {
        let operation = step.operation;
        /// The reply, or the refusal for the caller.
        macro_rules! reply {
            ($asked:expr) => {
                match $asked {
                    Ok(reply) => reply,
                    Err(failure) => return Ok(Err(failure)),
                }
            };
        }
        match operation {
            Operation::AfsRead { client, path } => {
                let Some(&object) = self.model.names.get(&path) else {
                    return self.list_by(client, path.directory()).await.map(Ok);
                };
                let fid = self.fid(path).await?;
                let (content, reply) = reply!(self.afs[usize::from(client)].fetch(fid).await);
                let node = &self.model.objects[object];
                ensure!(content == node.content, "AFS {client} reads {}", unlike(&content, &node.content));
                self.is_version(object, reply.status.data_version())?;
                self.afs[usize::from(client)].keeps(fid, object, &self.model, &reply.call_back);
            }
            Operation::AfsList { client, directory } => self.list_by(client, directory).await?,
            Operation::AfsCreate { client, path } => {
                let (directory, name) = (self.directory(path), path.name().as_bytes().into());
                let request = rxafs::CreateFile { directory, name, change: StoreStatus::default() };
                let reply = reply!(self.afs[usize::from(client)].call(&request).await).get();
                let object = self.model.makes(path, false, Vec::new());
                self.is_called(object, reply.fid)?;
                self.is_version(object, reply.status.data_version())?;
                self.own(client, path);
                self.afs[usize::from(client)].keeps(reply.fid, object, &self.model, &reply.call_back);
            }
            Operation::AfsMakeDirectory { client, path } => {
                let (directory, name) = (self.directory(path), path.name().as_bytes().into());
                let request = rxafs::MakeDir { directory, name, change: StoreStatus::default() };
                let reply = reply!(self.afs[usize::from(client)].call(&request).await).get();
                let object = self.model.makes_with_list(path);
                self.is_called(object, reply.fid)?;
                self.own(client, path);
            }
            Operation::AfsStore { client, path, offset, len } => {
                let fid = self.fid(path).await?;
                let object = self.model.names[&path];
                let bytes = bytes(step.index, len);
                let has = self.model.objects[object].content.len();
                let length = has.max(usize::from(offset) + bytes.len());
                let manager = &mut self.afs[usize::from(client)];
                let status = reply!(manager.store(fid, offset.into(), &bytes, length as u64).await);
                self.model.writes(object, offset.into(), &bytes);
                manager.has_changed(object, &self.model);
                self.is_version(object, status.data_version())?;
            }
            Operation::AfsTruncate { client, path, len } => {
                let fid = self.fid(path).await?;
                let object = self.model.names[&path];
                let manager = &mut self.afs[usize::from(client)];
                let status = reply!(manager.store(fid, 0, &[], len.into()).await);
                self.model.cuts(object, len.into());
                manager.has_changed(object, &self.model);
                self.is_version(object, status.data_version())?;
            }
            Operation::AfsRename { client, from, to } => {
                let request = rxafs::Rename {
                    from: self.directory(from),
                    old_name: from.name().as_bytes().into(),
                    to: self.directory(to),
                    new_name: to.name().as_bytes().into(),
                };
                reply!(self.afs[usize::from(client)].call(&request).await);
                let moved =
                    self.model.names.get(&from).copied().context("a name that is gone was renamed")?;
                let replaced = self.model.names.get(&to).copied();
                self.model.moves_name(from, to);
                for object in [Some(moved), replaced].into_iter().flatten() {
                    self.afs[usize::from(client)].forgets(object);
                }
                self.own(client, from);
                self.own(client, to);
            }
            Operation::AfsLink { client, from, to } => {
                let (directory, existing) = (self.directory(to), self.fid(from).await?);
                let request = rxafs::Link { directory, name: to.name().as_bytes().into(), existing };
                reply!(self.afs[usize::from(client)].call(&request).await);
                let object = self.model.names[&from];
                self.model.links(object, to);
                self.afs[usize::from(client)].forgets(object);
                self.own(client, to);
            }
            Operation::AfsRemove { client, path } => {
                let (directory, name) = (self.directory(path), path.name().as_bytes().into());
                reply!(self.afs[usize::from(client)].call(&rxafs::RemoveFile { directory, name }).await);
                self.is_removed(client, path)?;
            }
            Operation::AfsRemoveDirectory { client, path } => {
                let (directory, name) = (self.directory(path), path.name().as_bytes().into());
                reply!(self.afs[usize::from(client)].call(&rxafs::RemoveDir { directory, name }).await);
                self.is_removed(client, path)?;
            }
            Operation::AfsGiveUp { client } => {
                self.afs[usize::from(client)].forgets_all();
                reply!(self.afs[usize::from(client)].call(&rxafs::GiveUpAllCallBacks {}).await);
            }
            operation => bail!("{operation} is no operation of AFS"),
        }
        Ok(Ok(()))
    }

    fn is_removed(&mut self, client: u8, path: Path) -> anyhow::Result<()> {
        let object = self.model.names.get(&path).copied().context("a name that is gone was removed")?;
        self.model.removes(path);
        self.afs[usize::from(client)].forgets(object);
        self.own(client, path);
        Ok(())
    }

    /// Notes the client's own change of a name, as its reply has reported it.
    fn own(&mut self, client: u8, path: Path) {
        let directory = self.model.directory(path.directory());
        self.afs[usize::from(client)].has_changed(directory, &self.model);
    }

    async fn list_by(&mut self, client: u8, directory: u8) -> anyhow::Result<()> {
        let object = self.model.directory(directory);
        let fid = self.model.objects[object].fid.context("a directory's FID")?;
        let (names, reply) = self.afs[usize::from(client)].list(fid).await?;
        self.are_names(&format!("AFS {client}"), directory, names.keys().map(String::as_str))?;
        self.is_version(object, reply.status.data_version())?;
        self.afs[usize::from(client)].keeps(fid, object, &self.model, &reply.call_back);
        Ok(())
    }

    fn directory(&self, path: Path) -> Fid {
        self.model.objects[self.model.directory(path.directory())]
            .fid
            .expect("directories' FIDs are asked for first")
    }

    /// Returns what AFS calls a file, which is asked for by its name where it is not known yet.
    pub(crate) async fn fid(&mut self, path: Path) -> anyhow::Result<Fid> {
        let object = self.model.names[&path];
        if let Some(fid) = self.model.objects[object].fid {
            return Ok(fid);
        }
        let directory = self.directory(path);
        let (names, _) = self.observer.list(directory).await?;
        let fid = *names.get(path.name()).with_context(|| format!("AFS does not list {path}"))?;
        self.is_called(object, fid)?;
        Ok(fid)
    }
}
