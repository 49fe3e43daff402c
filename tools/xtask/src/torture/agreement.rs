//! Whether index and tree agree after an end, or do after one repair: what `linerate volume check` does.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use lane::runtime::{RuntimeOptions, run_here};
use vfs::{CheckOptions, CheckReport, ProblemKind};

use super::child::open_index;
use crate::process;

/// Returns what did not agree and was mended, by kind. What the index remembers of lists may be some moments older
/// than the tree after a kill, and younger after a loss of power. A directory may then be taken for one that lost its
/// list, until an operator accepts that, as happens here.
///
/// # Errors
/// When something else could not be mended, or there is more to mend after that.
pub(super) fn compare(state: &Path, tree: &Path, boot: u8) -> anyhow::Result<BTreeMap<&'static str, u64>> {
    let index = Arc::new(open_index(state, boot)?);
    let volumes = index.volumes();
    ensure!(volumes.len() <= 1, "{volumes:?}");
    // A server that was killed before it had made its volume.
    let Some((volume, _)) = volumes.into_iter().next() else { return Ok(BTreeMap::new()) };
    let check = || -> anyhow::Result<CheckReport> {
        let checked = Arc::clone(&index);
        Ok(run_here(RuntimeOptions::default(), async move {
            let options = CheckOptions { repair: true, trusted_attributes: true };
            vfs::check(&checked, volume, options, Arc::default()).await
        })??)
    };
    let first = check()?;
    for problem in first.problems.iter().filter(|problem| !problem.mended) {
        match &problem.trouble {
            ProblemKind::AccessList { path, .. } => accept(&tree.join(path))?,
            _ => bail!("not mended: {first:?}"),
        }
    }
    let second = check()?;
    index.put_back().context("closing the index")?;
    ensure!(second.is_clean(), "{second:?} after {first:?}");
    let mut mended = BTreeMap::new();
    for problem in &first.problems {
        *mended.entry(problem.trouble.word()).or_default() += 1;
    }
    Ok(mended)
}

/// Accepts, as an operator does, that a directory has no list of its own.
fn accept(dir: &Path) -> anyhow::Result<()> {
    let program = process::tested_binary()?;
    let output = Command::new(program).args(["acl", "accept"]).arg(dir).output()?;
    ensure!(output.status.success(), "acl accept: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
