//! The part of a check that begins with the index.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use index::Known;
use lane::offload::offload;

use super::walk::Walked;
use super::{Check, CheckError, ProblemKind};

impl Check {
    /// Compares the records with each other.
    pub(super) async fn look_at_records(&mut self) -> Result<(), CheckError> {
        let (index, volume, repair) = (Arc::clone(&self.index), self.volume, self.options.repair);
        let found = offload(None, move || index.check(volume, repair)).await??;
        self.report.records = found.objects;
        let unlisted = found.count - found.findings.len() as u64;
        found.findings.into_iter().for_each(|finding| self.report.add(ProblemKind::Index(finding), repair));
        self.report.found += unlisted;
        self.report.mended += if repair { unlisted } else { 0 };
        Ok(())
    }

    /// Looks for records of which the walk has seen no file.
    pub(super) async fn look_for_gone(&mut self, walked: Walked) -> Result<(), CheckError> {
        let Walked { seen, unread, .. } = walked;
        let (mut after, mut unjudged) = (0, 0);
        loop {
            let (index, volume) = (Arc::clone(&self.index), self.volume);
            let page = offload(None, move || index.objects(volume, after, PAGE)).await??;
            let Some(last) = page.last() else { break };
            after = last.object.number.vnode;
            self.progress.records.fetch_add(page.len() as u64, Ordering::Relaxed);
            for known in page.into_iter().filter(|known| !seen.contains(&known.object.number.vnode)) {
                match &unread {
                    None => self.forget_gone(&known),
                    Some(_) => unjudged += 1,
                }
            }
            self.flush_if_repairing().await?;
        }
        if let Some((path, why)) = unread.filter(|_| unjudged > 0) {
            self.report.add(ProblemKind::Unjudged { records: unjudged, path, why }, false);
        }
        Ok(())
    }

    fn forget_gone(&mut self, known: &Known) {
        let (number, place) = (known.object.number, &known.object.place);
        if self.options.repair {
            self.index.forget(self.volume, &known.identity, number, None);
        }
        let name = (!place.name.is_empty()).then(|| String::from_utf8_lossy(&place.name).into_owned());
        self.report.add(ProblemKind::Gone { number, name }, self.options.repair);
    }

    /// Flushes what the index was given, which waits in memory, so that it is not too much at once.
    pub(super) async fn flush_if_repairing(&self) -> Result<(), CheckError> {
        if self.options.repair {
            let index = Arc::clone(&self.index);
            offload(None, move || index.flush()).await??;
        }
        Ok(())
    }
}

/// Records that are read at once.
const PAGE: usize = 4_096;
