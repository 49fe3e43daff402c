//! Operations of SMB clients.

use anyhow::{Context, bail, ensure};

use crate::model::{Object, Opened};
use crate::operation::{Disposition, Operation, Path, Step};
use crate::run::{Answer, Run, bytes};
use crate::smb;

impl Run {
    pub(crate) async fn by_smb(&mut self, step: &Step) -> anyhow::Result<Answer> {
        let model = &mut self.model;
        let done = match step.operation {
            Operation::SmbOpen { client, slot, path, disposition, writes, shares, lease } => {
                let smb = &mut self.smb[usize::from(client)];
                let done = smb.opens(slot, path, smb::how(disposition, writes, shares), lease).await;
                if done.is_ok() {
                    let object = match model.names.get(&path) {
                        Some(object) => *object,
                        None => model.makes(path, false, Vec::new()),
                    };
                    if matches!(disposition, Disposition::Overwrite | Disposition::OverwriteIf) {
                        model.cuts(object, 0);
                    }
                    let contents = model.objects[object].contents;
                    let opened = opened(object, path, writes, shares, contents);
                    model.opens[usize::from(client)][usize::from(slot)] = Some(opened);
                }
                done
            }
            Operation::SmbOpenDirectory { client, slot, path, shares, lease } => {
                let how = smb::how_directory(shares, path.as_directory().is_none());
                let done = self.smb[usize::from(client)].opens(slot, path, how, lease).await;
                if done.is_ok() {
                    let object = *model.names.get(&path).context("a name")?;
                    let contents = model.objects[object].contents;
                    let opened = opened(object, path, false, shares, contents);
                    model.opens[usize::from(client)][usize::from(slot)] = Some(opened);
                }
                done
            }
            Operation::SmbWrite { client, slot, offset, len } => {
                let object = model.open(client, slot).context("an open")?.object;
                let bytes = bytes(step.index, len);
                let open = self.smb[usize::from(client)].open(slot).context("an open")?;
                let done = smb::writes(open, offset.into(), bytes.clone()).await;
                if done.is_ok() {
                    model.writes(object, offset.into(), &bytes);
                    model.knows(client, slot);
                }
                done
            }
            Operation::SmbTruncate { client, slot, len } => {
                let object = model.open(client, slot).context("an open")?.object;
                let done =
                    smb::cuts(self.smb[usize::from(client)].open(slot).context("an open")?, len.into()).await;
                if done.is_ok() {
                    model.cuts(object, len.into());
                    model.knows(client, slot);
                }
                done
            }
            Operation::SmbRename { client, slot, to, replace } => {
                let from = model.open(client, slot).context("an open")?.path;
                let done = self.smb[usize::from(client)]
                    .open(slot)
                    .context("an open")?
                    .rename(&to.smb(), replace)
                    .await;
                if done.is_ok() {
                    ensure!(model.names.contains_key(&from), "a name that is gone was renamed");
                    model.moves_name(from, to);
                }
                done
            }
            Operation::SmbLink { client, slot, to } => {
                let object = model.open(client, slot).context("an open")?.object;
                let done = smb::links(self.smb[usize::from(client)].open(slot).context("an open")?, to).await;
                if done.is_ok() {
                    model.links(object, to);
                }
                done
            }
            Operation::SmbDispose { client, slot } => {
                let object = model.open(client, slot).context("an open")?.object;
                let done = smb::disposes(self.smb[usize::from(client)].open(slot).context("an open")?).await;
                if done.is_ok() {
                    model.objects[object].is_pending = true;
                }
                done
            }
            Operation::SmbClose { client, slot } => {
                model.closes(client, slot);
                self.smb[usize::from(client)].closes(slot).await
            }
            Operation::SmbMove { client, from, to, replace } => {
                let done = self.smb[usize::from(client)].moves(from, to, replace).await;
                if done.is_ok() {
                    model.moves_name(from, to);
                }
                done
            }
            Operation::SmbLinkName { client, from, to } => {
                let done = self.smb[usize::from(client)].links_name(from, to).await;
                if done.is_ok() {
                    model.links(*model.names.get(&from).context("a name")?, to);
                }
                done
            }
            Operation::SmbRemove { client, path } => {
                let done = self.smb[usize::from(client)].removes(path).await;
                if done.is_ok() {
                    model.removes(path);
                }
                done
            }
            Operation::SmbMakeDirectory { client, path } => {
                let done = self.smb[usize::from(client)].makes_directory(path).await;
                if done.is_ok() {
                    model.makes_with_list(path);
                }
                done
            }
            operation => bail!("{operation} is no operation of SMB"),
        };
        match done {
            Ok(()) => Ok(Answer::Done),
            Err(error) if error.status().is_some() => Ok(Answer::Refused(error.to_string())),
            Err(error) => Err(error.into()),
        }
    }
}

fn opened(object: Object, path: Path, writes: bool, shares: bool, contents: u64) -> Opened {
    Opened { object, path, writes, shares, is_lost: false, is_taken: false, contents }
}
