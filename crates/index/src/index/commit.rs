//! Commits, each one transaction for all that waits.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use redb::{Database, ReadableTable, WriteTransaction};

use super::IndexShared;
use crate::object::ObjectEntry;
use crate::pending::{ObjectChange, Pending};
use crate::run_state::RunState;
use crate::tables::{self, HOSTS, IDENTITIES, OBJECTS, STATE, VOLUMES};
use crate::{Error, VolumeId};
use crate::{clean_shutdown, lists};

impl IndexShared {
    /// Commits all changes that were recorded before the call, unless another task does it meanwhile.
    pub(crate) fn flush(&self) -> Result<(), Error> {
        let wanted = self.state().told;
        let _turn = self.committing.lock().expect("nobody panics while holding it");
        let (batch, told, number, began) = {
            let mut state = self.state();
            if state.committed >= wanted && state.failing.is_none() {
                return Ok(());
            }
            let batch = Arc::new(std::mem::take(&mut state.pending));
            state.underway = Some(Arc::clone(&batch));
            let began = SystemTime::now();
            state.underway_since = Some(began);
            (batch, state.told, state.commits + 1, began)
        };
        self.journal.iter().for_each(|journal| journal.begin_commit(number));
        let result = self.with_database(|database| write(database, &batch, self.options.boot, number));
        let mut state = self.state();
        state.underway = None;
        state.underway_since = None;
        match result {
            Ok(()) => {
                state.committed = told;
                state.commits = number;
                state.failing = None;
                if let Some(journal) = &self.journal {
                    journal.committed(number, batch.slots());
                }
                self.commits.fetch_add(1, Ordering::Relaxed);
                self.count(&state);
                Ok(())
            }
            Err(error) => {
                let since = state.failing.take().map_or(began, |(_, since)| since);
                state.failing = Some((error.to_string(), since));
                let batch =
                    Arc::into_inner(batch).expect("who reads it does so under the lock, and keeps none");
                let overtaken = state.pending.put_back(batch);
                state.free(overtaken);
                self.failures.fetch_add(1, Ordering::Relaxed);
                Err(error)
            }
        }
    }

    /// Commits the state of this run, with all that waits.
    pub(crate) fn commit_run(&self, run: RunState) -> Result<(), Error> {
        {
            let mut state = self.state();
            state.pending.run = Some(run);
            state.tell();
        }
        self.flush()
    }

    /// Commits the end of the run, clean or not; `is_whole` lets versions count on from here.
    pub(crate) fn end_run(&self, is_over: bool, is_whole: bool) -> Result<(), Error> {
        let marker = clean_shutdown::draw();
        self.commit_run(RunState { is_over, marker: is_whole.then_some(marker) })?;
        // After it: a note is never of an index that is not yet as it says.
        if is_whole {
            self.storage.leave_marker(&marker);
        }
        self.storage.remove_journal();
        Ok(())
    }
}

fn write(database: &Database, batch: &Pending, boot: [u8; 16], number: u64) -> Result<(), Error> {
    let write = database.begin_write()?;
    write_volumes(&write, batch)?;
    write_objects(&write, batch)?;
    lists::write(&write, &batch.lists, boot)?;
    {
        let mut hosts = write.open_table(HOSTS)?;
        for (host, record) in &batch.hosts {
            match record {
                Some(record) => hosts.insert(host, &record.encode()?[..])?,
                None => hosts.remove(host)?,
            };
        }
        let mut state = write.open_table(STATE)?;
        if let Some(next) = batch.next_volume {
            state.insert(tables::NEXT_VOLUME_KEY, &next.to_le_bytes()[..])?;
        }
        state.insert(tables::COMMITS_KEY, &number.to_le_bytes()[..])?;
        if let Some(RunState { is_over, marker }) = batch.run {
            state.insert(tables::FORMAT_KEY, &tables::FORMAT.to_le_bytes()[..])?;
            let mut run = vec![is_over.into()];
            run.extend(boot);
            run.extend(marker.unwrap_or_default());
            state.insert(tables::RUN_KEY, &run[..])?;
        }
    }
    Ok(write.commit()?)
}

fn write_volumes(write: &WriteTransaction, batch: &Pending) -> Result<(), Error> {
    let mut volumes = write.open_table(VOLUMES)?;
    for (volume, record) in &batch.volumes {
        match record {
            Some(record) => {
                volumes.insert(volume.0, &record.encode()[..])?;
            }
            None => {
                volumes.remove(volume.0)?;
                clear(write, *volume)?;
                lists::clear(write, *volume)?;
            }
        }
    }
    batch.cleared.iter().try_for_each(|volume| clear(write, *volume))
}

/// Removes all objects of a volume.
fn clear(write: &WriteTransaction, VolumeId(volume): VolumeId) -> Result<(), Error> {
    let mut objects = write.open_table(OBJECTS)?;
    objects.retain_in((volume, 0)..=(volume, u32::MAX), |_, _| false)?;
    let mut identities = write.open_table(IDENTITIES)?;
    let after = volume.checked_add(1).expect("volumes are numbered below the last");
    identities.retain_in((volume, &[][..])..(after, &[][..]), |_, _| false)?;
    Ok(())
}

fn write_objects(write: &WriteTransaction, batch: &Pending) -> Result<(), Error> {
    let mut objects = write.open_table(OBJECTS)?;
    let mut identities = write.open_table(IDENTITIES)?;
    let mut sorted: Vec<_> = batch.objects().collect();
    // In the order of the keys: neighbours share pages.
    sorted.sort_unstable_by_key(|(volume, identity, _)| (*volume, *identity));
    for (VolumeId(volume), identity, change) in sorted {
        let before = identities.get((volume, identity))?.map(|vnode| vnode.value());
        let now = match change {
            ObjectChange::Recorded(entry) => Some(entry),
            ObjectChange::Forgotten { .. } => None,
        };
        if let Some(vnode) =
            before.filter(|vnode| now.is_none_or(|entry| entry.object.number.vnode != *vnode))
        {
            objects.remove((volume, vnode))?;
        }
        match now {
            Some(entry) => {
                let vnode = entry.object.number.vnode;
                let encoded = match entry.keeps_place {
                    true => {
                        let committed = objects.get((volume, vnode))?;
                        let committed = committed.map(|record| ObjectEntry::decode(vnode, record.value()));
                        entry.clone().over(committed.transpose()?).encode()
                    }
                    false => entry.encode(),
                };
                objects.insert((volume, vnode), &encoded[..])?;
                if before != Some(vnode) {
                    identities.insert((volume, identity), vnode)?;
                }
            }
            None => {
                identities.remove((volume, identity))?;
            }
        }
    }
    Ok(())
}
