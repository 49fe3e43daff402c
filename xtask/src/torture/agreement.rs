//! Whether index and tree agree after an end, or do after one repair: what `linerate volume check` does.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use lane::runtime::{RuntimeOptions, run_here};
use vfs::{CheckOptions, CheckReport};

use super::child::open_index;

/// What did not agree and was mended, by kind.
///
/// # Errors
/// When something could not be mended, or there is more to mend after that.
pub(super) fn compare(state: &Path, boot: u8) -> anyhow::Result<BTreeMap<&'static str, u64>> {
    let index = Arc::new(open_index(state, boot)?);
    let volumes = index.volumes();
    ensure!(volumes.len() <= 1, "{volumes:?}");
    // A server that was killed before it had made its volume.
    let Some((volume, _)) = volumes.into_iter().next() else { return Ok(BTreeMap::new()) };
    let checked = Arc::clone(&index);
    let reports: [CheckReport; 2] = run_here(RuntimeOptions::default(), async move {
        let options = CheckOptions { repair: true, trusted_attributes: true };
        let first = vfs::check(&checked, volume, options, Arc::default()).await?;
        Ok::<_, vfs::CheckError>([first, vfs::check(&checked, volume, options, Arc::default()).await?])
    })??;
    index.put_back().context("closing the index")?;
    let [first, second] = reports;
    ensure!(first.is_mended(), "not mended: {first:?}");
    ensure!(second.is_clean(), "{second:?} after {first:?}");
    let mut mended = BTreeMap::new();
    for problem in &first.problems {
        *mended.entry(problem.trouble.word()).or_default() += 1;
    }
    Ok(mended)
}
