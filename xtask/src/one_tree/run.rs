//! One run: does its steps, one after the other, and holds what comes of each against the model.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path as FsPath;
use std::time::{Duration, Instant};

use afs_wire::{Fid, StoreStatus, rxafs};
use anyhow::{Context, anyhow, bail, ensure};
use rx_lane::CallError;
use xdr::rpc::Failure;

use super::afs::{CacheManager, failed};
use super::http::Browser;
use super::model::{Expected, Model, Object, Opened};
use super::operation::{Condition, DIRECTORIES, Disposition, End, Looks, Operation, Path, SLOTS, Step};
use super::site::Site;
use super::smb::{self, Redirector};

pub(super) struct Run {
    pub(super) site: Site,
    pub(super) model: Model,
    pub(super) smb: [Redirector; 2],
    /// Two clients that cache, and one that looks.
    pub(super) afs: [CacheManager; 2],
    pub(super) observer: CacheManager,
    pub(super) http: Browser,
    pub(super) allowed: Vec<Allowed>,
    /// Until when what a local program did last may not show yet.
    settled: Instant,
}

/// A defect that is known, to look past it for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Allowed {
    /// Removed files stay open.
    RemovedFiles,
    /// The version of a file rises when a local program changes its names or mode alone.
    LocalVersions,
    /// Listings tell an old length.
    ListedLengths,
    /// Removed files are found by their numbers.
    FoundWhenGone,
    /// AFS clients are not told of what changes a status alone (names and mode), nor that a file is gone.
    UntoldStatus,
    /// The index has records of files that are gone.
    Records,
}

/// What the server made of an operation.
enum Answer {
    Done,
    Refused(String),
}

impl Run {
    /// Begins on the current lane.
    pub(super) async fn new(site: Site, allowed: Vec<Allowed>) -> anyhow::Result<Self> {
        let smb = [Redirector::new(site.smb, 0).await?, Redirector::new(site.smb, 1).await?];
        let afs = [CacheManager::new(&site, 0).await?, CacheManager::new(&site, 1).await?];
        let mut observer = CacheManager::new(&site, 2).await?;
        let mut model = Model::new();
        // Calls are aborted with RX_RESTARTING until every lane serves; clients try again.
        let give_up = Instant::now() + SIGNED_IN_WITHIN;
        let names = loop {
            match observer.list(observer.root).await {
                Err(_) if Instant::now() < give_up => lane::time::sleep(Duration::from_millis(20)).await,
                listed => break listed?.0,
            }
        };
        model.objects[0].fid = Some(observer.root);
        for (object, directory) in DIRECTORIES.iter().enumerate().skip(1) {
            model.objects[object].fid = Some(*names.get(*directory).context("a directory of the tree")?);
        }
        let http = Browser::new(site.http);
        Ok(Self { site, model, smb, afs, observer, http, allowed, settled: Instant::now() })
    }

    /// Does a step, and looks. `false`: its parties were not there.
    pub(super) async fn step(&mut self, step: &Step) -> anyhow::Result<bool> {
        let expected = self.model.expects(&step.operation);
        if expected == Expected::Nothing {
            return Ok(false);
        }
        let answer = self.act(step).await?;
        match (expected, &answer) {
            (Expected::Done, Answer::Refused(why)) => bail!("it is refused: {why}"),
            (Expected::Refused, Answer::Done) => bail!("it is done, and was to be refused"),
            _ => {}
        }
        if step.operation.is_local() {
            self.settled = Instant::now() + LOCAL_BOUND;
        }
        self.in_time(self.settled, async |run| run.are_told()).await?;
        self.in_time(self.settled, async |run| run.looks(step.looks).await).await?;
        Ok(true)
    }

    /// Looks until all is as it is to be, or the time is over.
    async fn in_time(
        &mut self,
        until: Instant,
        mut look: impl AsyncFnMut(&mut Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        loop {
            match look(self).await {
                Err(_) if Instant::now() < until => lane::time::sleep(Duration::from_millis(10)).await,
                looked => return looked,
            }
        }
    }

    /// Everybody leaves, and the server stops: nothing is left open, and index and tree agree.
    pub(super) async fn ends(&mut self, closed_within: Duration) -> anyhow::Result<()> {
        let settled = self.settled;
        self.in_time(settled, async |run| run.looks(Looks::ALL).await).await.context("at the end")?;
        for client in 0..2u8 {
            for slot in 0..SLOTS {
                self.smb[usize::from(client)].closes(slot).await?;
                self.model.opens[usize::from(client)][usize::from(slot)] = None;
            }
        }
        let give_up = Instant::now() + closed_within;
        loop {
            let removed = self.site.removed_files()?;
            if removed.is_empty() || self.allows(Allowed::RemovedFiles) {
                break;
            }
            ensure!(
                Instant::now() < give_up,
                "removed files are open {closed_within:?} after the end: {removed:?}"
            );
            lane::time::sleep(Duration::from_millis(50)).await;
        }
        // What is idle is closed by its client, as soon as it hears of the stop.
        self.http.disconnects();
        self.site.stops().await?;
        if !self.allows(Allowed::Records) {
            self.site.checks()?;
        }
        self.file_system()
    }

    pub(super) fn allows(&self, defect: Allowed) -> bool {
        self.allowed.contains(&defect)
    }

    /// Has the operation done, and the model with it.
    async fn act(&mut self, step: &Step) -> anyhow::Result<Answer> {
        match step.operation {
            Operation::SmbOpen { .. }
            | Operation::SmbWrite { .. }
            | Operation::SmbTruncate { .. }
            | Operation::SmbRename { .. }
            | Operation::SmbLink { .. }
            | Operation::SmbClose { .. }
            | Operation::SmbMove { .. }
            | Operation::SmbLinkName { .. }
            | Operation::SmbRemove { .. }
            | Operation::SmbMakeDirectory { .. } => self.by_smb(step).await,
            Operation::Put { .. } | Operation::Delete { .. } => self.by_http(step).await,
            Operation::Restart { end } => self.restart(end).await.map(|()| Answer::Done),
            operation if operation.is_local() => self.locally(step).map(|()| Answer::Done),
            _ => self.by_afs(step).await,
        }
    }

    async fn by_smb(&mut self, step: &Step) -> anyhow::Result<Answer> {
        let model = &mut self.model;
        let done = match step.operation {
            Operation::SmbOpen { client, slot, path, disposition, writes, shares } => {
                let smb = &mut self.smb[usize::from(client)];
                let done = smb.opens(slot, path, disposition, writes, shares).await;
                if done.is_ok() {
                    let object = match model.names.get(&path) {
                        Some(object) => *object,
                        None => model.makes(path, false, Vec::new()),
                    };
                    if matches!(disposition, Disposition::Overwrite | Disposition::OverwriteIf) {
                        model.cuts(object, 0);
                    }
                    let opened = Opened { object, path, writes, shares, is_lost: false };
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
                }
                done
            }
            Operation::SmbTruncate { client, slot, len } => {
                let object = model.open(client, slot).context("an open")?.object;
                let done =
                    smb::cuts(self.smb[usize::from(client)].open(slot).context("an open")?, len.into()).await;
                if done.is_ok() {
                    model.cuts(object, len.into());
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
            Operation::SmbClose { client, slot } => {
                model.opens[usize::from(client)][usize::from(slot)] = None;
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
                    model.makes(path, true, Vec::new());
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

    async fn by_afs(&mut self, step: &Step) -> anyhow::Result<Answer> {
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
                self.model.objects[object].fid = Some(reply.fid);
                self.is_version(object, reply.status.data_version())?;
                self.own(client, path);
                self.afs[usize::from(client)].keeps(reply.fid, object, &self.model, &reply.call_back);
            }
            Operation::AfsMakeDirectory { client, path } => {
                let (directory, name) = (self.directory(path), path.name().as_bytes().into());
                let request = rxafs::MakeDir { directory, name, change: StoreStatus::default() };
                let reply = reply!(self.afs[usize::from(client)].call(&request).await).get();
                let object = self.model.makes(path, true, Vec::new());
                self.model.objects[object].fid = Some(reply.fid);
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

    /// The client's own change of a name, which its reply told of.
    fn own(&mut self, client: u8, path: Path) {
        let directory = Object::from(path.directory());
        self.afs[usize::from(client)].has_changed(directory, &self.model);
    }

    async fn list_by(&mut self, client: u8, directory: u8) -> anyhow::Result<()> {
        let object = Object::from(directory);
        let fid = self.model.objects[object].fid.context("a directory's FID")?;
        let (names, reply) = self.afs[usize::from(client)].list(fid).await?;
        self.are_names(&format!("AFS {client}"), directory, names.keys().map(String::as_str))?;
        self.is_version(object, reply.status.data_version())?;
        self.afs[usize::from(client)].keeps(fid, object, &self.model, &reply.call_back);
        Ok(())
    }

    fn directory(&self, path: Path) -> Fid {
        self.model.objects[usize::from(path.directory())].fid.expect("directories' FIDs are asked for first")
    }

    /// What AFS calls a file, which is asked for by its name where it is not known yet.
    async fn fid(&mut self, path: Path) -> anyhow::Result<Fid> {
        let object = self.model.names[&path];
        if let Some(fid) = self.model.objects[object].fid {
            return Ok(fid);
        }
        let directory = self.directory(path);
        let (names, _) = self.observer.list(directory).await?;
        let fid = *names.get(path.name()).with_context(|| format!("AFS does not list {path}"))?;
        self.model.objects[object].fid = Some(fid);
        Ok(fid)
    }

    async fn by_http(&mut self, step: &Step) -> anyhow::Result<Answer> {
        let response = match step.operation {
            Operation::Put { path, condition, len } => {
                let mut is_another = false;
                let fields = match condition {
                    Condition::Anything => String::new(),
                    Condition::Nothing => "If-None-Match: *\r\n".to_owned(),
                    Condition::AsRead => match self.http.kept(path) {
                        Some((tag, content)) => {
                            is_another = self.model.at(path).is_none_or(|node| node.content != *content);
                            format!("If-Match: {tag}\r\n")
                        }
                        None => "If-Match: \"none\"\r\n".to_owned(),
                    },
                };
                let content = bytes(step.index, len);
                let response = self.http.ask("PUT", &path.text(), &fields, &content).await?;
                if (200..300).contains(&response.status) {
                    ensure!(!is_another, "If-Match let a content go that the client had not read");
                    if let Some(tag) = &response.tag {
                        self.http.is_tagged(path, tag, &content)?;
                    }
                    self.model.makes(path, false, content);
                }
                response
            }
            Operation::Delete { path } => {
                let response = self.http.ask("DELETE", &path.text(), "", &[]).await?;
                if (200..300).contains(&response.status) {
                    ensure!(self.model.names.contains_key(&path), "what is not there is removed");
                    self.model.removes(path);
                }
                response
            }
            operation => bail!("{operation} is no operation of HTTP"),
        };
        match response.status {
            200..300 => Ok(Answer::Done),
            400..500 => Ok(Answer::Refused(format!("HTTP answers {}", response.status))),
            status => bail!("HTTP answers {status}"),
        }
    }

    fn locally(&mut self, step: &Step) -> anyhow::Result<()> {
        if self.allows(Allowed::LocalVersions) {
            let (from, to) = step.operation.names();
            for object in [from, to].into_iter().flatten().filter_map(|path| self.model.names.get(&path)) {
                self.model.objects[*object].may_rise = true;
            }
        }
        let tree = self.site.tree();
        let at = |path: Path| tree.join(path.text());
        let model = &mut self.model;
        match step.operation {
            Operation::LocalCreate { path, len } => {
                let content = bytes(step.index, len);
                fs::write(at(path), &content)?;
                model.makes(path, false, content);
            }
            Operation::LocalWrite { path, offset, len } => {
                let content = bytes(step.index, len);
                let file = fs::OpenOptions::new().write(true).open(at(path))?;
                std::os::unix::fs::FileExt::write_all_at(&file, &content, offset.into())?;
                model.writes(model.names[&path], offset.into(), &content);
            }
            Operation::LocalTruncate { path, len } => {
                fs::OpenOptions::new().write(true).open(at(path))?.set_len(len.into())?;
                model.cuts(model.names[&path], len.into());
            }
            Operation::LocalReplace { path, len } => {
                let content = bytes(step.index, len);
                let aside = at(path).with_file_name(".aside");
                fs::write(&aside, &content)?;
                fs::rename(&aside, at(path))?;
                model.makes(path, false, content);
            }
            Operation::LocalChmod { path, mode } => {
                let object = model.names[&path];
                let has = fs::metadata(at(path))?.permissions().mode() & 0o7777;
                fs::set_permissions(at(path), fs::Permissions::from_mode(mode.into()))?;
                if has != u32::from(mode) {
                    model.objects[object].changes += 1;
                }
            }
            Operation::LocalRename { from, to } => {
                fs::rename(at(from), at(to))?;
                model.moves_name(from, to);
                model.loses(to);
            }
            Operation::LocalLink { from, to } => {
                fs::hard_link(at(from), at(to))?;
                model.links(model.names[&from], to);
            }
            Operation::LocalRemove { path } => {
                remove(&at(path))?;
                model.removes(path);
            }
            Operation::LocalMakeDirectory { path } => {
                fs::create_dir(at(path))?;
                model.makes(path, true, Vec::new());
            }
            operation => bail!("{operation} is no operation of a local program"),
        }
        Ok(())
    }

    async fn restart(&mut self, end: End) -> anyhow::Result<()> {
        self.http.disconnects();
        match end {
            End::Stop => {
                self.site.stops().await?;
                if !self.allows(Allowed::Records) {
                    self.site.checks()?;
                }
            }
            End::Kill => {
                self.site.kills()?;
                for node in &mut self.model.objects {
                    node.may_rise = true;
                }
            }
        }
        self.model.opens = Default::default();
        self.site.starts()?;
        for (number, smb) in self.smb.iter_mut().enumerate() {
            let signed_in = signs_in_again(self.site.smb, number as u8).await;
            *smb = signed_in.with_context(|| format!("the server has said: {}", self.site.said()))?;
        }
        for manager in self.afs.iter_mut().chain([&mut self.observer]) {
            manager.connects(self.site.afs)?;
        }
        // Calls are aborted with RX_RESTARTING until every lane serves; clients try again.
        let root = self.observer.root;
        self.in_time(Instant::now() + SIGNED_IN_WITHIN, async |run| run.observer.list(root).await.map(drop))
            .await
    }

    /// Holds a version that AFS told against the last one.
    pub(super) fn is_version(&mut self, object: Object, version: u64) -> anyhow::Result<()> {
        let name = self.name(object);
        let node = &mut self.model.objects[object];
        if let Some((before, contents)) = node.version {
            ensure!(version >= before, "the version of {name} goes back from {before} to {version}");
            let is_same = contents == node.contents;
            ensure!(is_same || version > before, "{name} has changed, and has still version {version}");
            // A directory's may rise for what its pages say otherwise (docs/vfs.md, "Images of directories").
            let may_rise = node.may_rise || node.is_directory;
            ensure!(
                !is_same || version == before || may_rise,
                "the version of {name} rises from {before} to {version}, and it has not changed"
            );
        }
        (node.version, node.may_rise) = (Some((version, node.contents)), false);
        Ok(())
    }

    /// An object, in messages.
    pub(super) fn name(&self, object: Object) -> String {
        if let Some(directory) = DIRECTORIES.get(object) {
            return format!("/{directory}");
        }
        let names: Vec<_> = self.model.names_of(object).map(Path::text).collect();
        if names.is_empty() { format!("file {object} without a name") } else { names.join(" = ") }
    }
}

impl Operation {
    /// The names that a local program's operation is about.
    fn names(&self) -> (Option<Path>, Option<Path>) {
        match *self {
            Self::LocalRename { from, to } | Self::LocalLink { from, to } => (Some(from), Some(to)),
            Self::LocalRemove { path } | Self::LocalReplace { path, .. } | Self::LocalChmod { path, .. } => {
                (Some(path), None)
            }
            _ => (None, None),
        }
    }

    pub(super) fn is_local(&self) -> bool {
        matches!(
            self,
            Self::LocalCreate { .. }
                | Self::LocalWrite { .. }
                | Self::LocalTruncate { .. }
                | Self::LocalReplace { .. }
                | Self::LocalChmod { .. }
                | Self::LocalRename { .. }
                | Self::LocalLink { .. }
                | Self::LocalRemove { .. }
                | Self::LocalMakeDirectory { .. }
        )
    }
}

/// As a client does whose server has just started: one that was killed resets connections in its first moments.
async fn signs_in_again(server: SocketAddr, number: u8) -> anyhow::Result<Redirector> {
    let give_up = Instant::now() + SIGNED_IN_WITHIN;
    loop {
        match Redirector::new(server, number).await {
            Err(_) if Instant::now() < give_up => lane::time::sleep(Duration::from_millis(50)).await,
            signed_in => return signed_in,
        }
    }
}

fn remove(path: &FsPath) -> anyhow::Result<()> {
    let is_directory = fs::symlink_metadata(path)?.is_dir();
    let removed = if is_directory { fs::remove_dir(path) } else { fs::remove_file(path) };
    removed.map_err(|error| anyhow!("{}: {error}", path.display()))
}

/// What a step writes: like nothing that another one does.
fn bytes(index: usize, len: u16) -> Vec<u8> {
    let mut state = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let noise = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8 | 1
    });
    noise.take(len.into()).collect()
}

/// How what was read differs from what is there.
pub(super) fn unlike(read: &[u8], there: &[u8]) -> String {
    let at = read.iter().zip(there).position(|(read, there)| read != there);
    let at = at.unwrap_or(read.len().min(there.len()));
    format!("{} bytes, unlike the {} that are there from byte {at} on", read.len(), there.len())
}

const SIGNED_IN_WITHIN: Duration = Duration::from_secs(5);
/// What a local program does shows within a second.
const LOCAL_BOUND: Duration = Duration::from_millis(1200);
