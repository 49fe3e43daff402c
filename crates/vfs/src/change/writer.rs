//! A file open for writing.

use std::rc::Rc;
use std::sync::Arc;

use coherence::{ChangeKind, LockSharer};
use lane::fs::SyncOf;

use super::lease_breaks::LeaseBreakWait;
use super::located_directory::Interrupted;
use super::store::Raised;
use super::transaction::{ChangeKeepAlive, run_to_completion};
use crate::caller::Caller;
use crate::error::Error;
use crate::file::OpenFile;
use crate::object::{EventMask, Object, SharedChangeLock};
use crate::volume::Volume;

/// A file open for reading and writing, by a caller that had the right to when it opened the file. Each change of it
/// is under the file's change lock.
#[derive(Clone, Debug)]
pub struct Writer {
    volume: Volume,
    file: Rc<OpenFile>,
    /// Number of the writer, which no other of the process has; clones have the same.
    number: u64,
}

/// A step of changing a file.
#[derive(Default)]
pub(super) struct WriteStep<'a> {
    /// Object whose change lock the step takes too, to read it.
    pub(super) reads: Option<&'a Arc<Object>>,
    /// Set if the step excludes all others at the file, the caller's own too.
    pub(super) alone: bool,
    /// Set if the step gives the file the DOS attribute "archive", as no other step does for it.
    pub(super) archives: bool,
    pub(super) raises: VersionBump,
}

/// Effect of a step on the version.
#[derive(Default)]
pub(super) enum VersionBump {
    /// The version rises by one.
    #[default]
    Alone,
    /// The version rises by one for this step and others together.
    With(Rc<Raised>),
    /// The version does not rise: bytes and size stay as they are, and the file has another change time.
    Nothing,
}

impl Writer {
    pub(super) fn new(volume: Volume, file: Rc<OpenFile>) -> Self {
        let number = volume.cache().number_writer();
        Self { volume, file, number }
    }

    /// Returns the file, for reading.
    pub fn file(&self) -> &Rc<OpenFile> {
        &self.file
    }

    /// Makes what was written safe: with [`SyncOf::Data`] its content and what reading it back needs.
    ///
    /// # Errors
    /// What was written since the last success may be lost then.
    pub async fn sync(&self, what: SyncOf) -> Result<(), Error> {
        self.volume.counted(self.file.lane_file().sync(what).await.map_err(Error::of_write))
    }

    pub(super) fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Runs `work` to its end under the change lock of the file, and of a file that it reads, once all clients were
    /// notified.
    pub(super) async fn change<T: 'static>(
        &self,
        caller: &Caller,
        what: ChangeKind,
        reads: Option<&Arc<Object>>,
        work: impl AsyncFnOnce(Rc<OpenFile>) -> Result<T, Error> + 'static,
    ) -> Result<T, Error> {
        let raises = if what == ChangeKind::Attributes { VersionBump::Nothing } else { VersionBump::Alone };
        let step = WriteStep { reads, raises, ..WriteStep::default() };
        self.change_by(caller, what, step, |_, _| Ok(()), async move |file, ()| work(file).await).await
    }

    /// Changes the file in some other way than [`Writer::change`]. A step that `before` refuses is not begun. `before`
    /// runs when no other caller can change the file; the caller's own writes can, unless the step is
    /// [alone](WriteStep::alone).
    pub(super) async fn change_by<P: 'static, T: 'static>(
        &self,
        caller: &Caller,
        what: ChangeKind,
        step: WriteStep<'_>,
        before: impl FnOnce(&Volume, &Rc<OpenFile>) -> Result<P, Error> + 'static,
        work: impl AsyncFnOnce(Rc<OpenFile>, P) -> Result<T, Error> + 'static,
    ) -> Result<T, Error> {
        let WriteStep { reads, alone, raises, .. } = step;
        let changed = async {
            let object = self.file.object().ok_or(Error::ReadOnly)?;
            let sharer = caller.holder.map_or(LockSharer::Writer(self.number), LockSharer::Holder);
            // What holders of leases have to be asked each write asks by itself.
            let shares = what == ChangeKind::Content
                && !alone
                && reads.is_none()
                && !object.volume().objects().any_held();
            if shares && let Some(part) = SharedChangeLock::join(object, sharer, self.volume.pass().await?) {
                return self.write_shared(part, (raises, true), before, work).await;
            }
            let concerned: Vec<_> = std::iter::once(object).chain(reads).collect();
            let mut lease_wait = LeaseBreakWait::default();
            let transaction = loop {
                let (locks, ()) = self.volume.lock_objects(&concerned, async || Ok(((), Vec::new()))).await?;
                let unread = reads.map_or(Ok(()), |read| self.volume.break_leases_to_read(caller, read));
                let told = match unread {
                    Ok(()) => self.volume.prepare_change(caller, locks, vec![(object, what.clone())]).await,
                    Err(interrupted) => {
                        drop(locks);
                        Err(interrupted)
                    }
                };
                match told {
                    Ok(transaction) => break transaction,
                    Err(Interrupted::Refused(error)) => return Err(error),
                    Err(Interrupted::AwaitLease(pending)) => lease_wait.wait(&self.volume, pending).await?,
                    Err(Interrupted::Retry(_)) => {}
                }
            };
            if shares && transaction.breaks_no_directory_lease() {
                return self.write_shared(transaction.share(sharer), (raises, false), before, work).await;
            }
            let (file, volume) = (Rc::clone(&self.file), self.volume.clone());
            run_to_completion(transaction.keep_alive(), async move {
                let prepared = before(&volume, &file)?;
                let transaction = match (&raises, file.object()) {
                    (VersionBump::Alone, Some(_)) => transaction.bump_version(),
                    (VersionBump::With(raised), Some(object)) => {
                        let transaction = transaction.bump_version();
                        raised.note(object);
                        transaction
                    }
                    (VersionBump::Nothing, Some(object)) => {
                        file.lane_file().stat().iter().for_each(|before| object.note_metadata_change(before));
                        transaction.keep_versions()
                    }
                    (_, None) => transaction.keep_versions(),
                };
                let done = work(file, prepared).await?;
                transaction.committed().end(&volume);
                Ok(done)
            })
            .await
        };
        let changed = changed.await;
        self.volume.wait_for_directory_breaks(self.file.object()).await;
        self.volume.counted(changed)
    }

    /// Writes under a change lock that the caller's writes share and keep until another change needs it. So only the
    /// first of many in a row asks which clients rely on the file. `goes_on`: the lock was shared before.
    async fn write_shared<P: 'static, T: 'static>(
        &self,
        part: SharedChangeLock,
        (raises, goes_on): (VersionBump, bool),
        before: impl FnOnce(&Volume, &Rc<OpenFile>) -> Result<P, Error> + 'static,
        work: impl AsyncFnOnce(Rc<OpenFile>, P) -> Result<T, Error> + 'static,
    ) -> Result<T, Error> {
        let (file, volume, part) = (Rc::clone(&self.file), self.volume.clone(), Rc::new(part));
        run_to_completion(ChangeKeepAlive::shared(Rc::clone(&part), &self.volume), async move {
            let _part = part;
            let prepared = before(&volume, &file)?;
            let mut aside = None;
            if let Some(object) = file.object() {
                match &raises {
                    VersionBump::Alone => drop(object.bump_version()),
                    VersionBump::With(raised) => raised.raise(object, goes_on),
                    VersionBump::Nothing => {
                        aside = file
                            .lane_file()
                            .stat()
                            .ok()
                            .and_then(|before| object.begin_metadata_change(&before));
                    }
                }
            }
            let done = work(Rc::clone(&file), prepared).await;
            if let Some(object) = file.object() {
                if let Some(peer) = volume.cache().peer().filter(|_| !matches!(raises, VersionBump::Alone)) {
                    peer.callbacks.forget_observed(object);
                }
                drop(aside);
                if matches!(raises, VersionBump::Nothing) {
                    return done;
                }
                object.set_changed(done.is_ok().then(lane::time::wall_clock));
                let watches = object.volume().watches();
                if done.is_ok() && watches.any() {
                    watches.report_modified(object, EventMask::CONTENT);
                }
            }
            volume.counters().changes.add(u64::from(done.is_ok()));
            done
        })
        .await
    }
}
