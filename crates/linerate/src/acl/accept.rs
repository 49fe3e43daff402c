//! `linerate acl accept`: an operator has looked at what lists a restored tree has.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use rustix::fs::XattrFlags;
use server::lists::{self, RightsIn};

use super::{explain, open};
use crate::output::say;

/// Arguments of `linerate acl accept`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The volume's directory
    dir: PathBuf,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let dir = fs::canonicalize(&args.dir).with_context(|| format!("cannot find {}", args.dir.display()))?;
    let marked = super::marked_above(&dir)?.filter(|marked| marked.root == dir);
    let cannot = || format!("cannot mark {}", dir.display());
    match marked {
        Some(marked) if marked.is_half && lists::writes_trusted_attributes() => {
            lists::mark_rights(&dir, RightsIn::Trusted).with_context(cannot)?;
        }
        Some(marked) if marked.rights == RightsIn::Trusted && !lists::writes_trusted_attributes() => {
            anyhow::bail!(
                "the volume at {} keeps its access lists in trusted. attributes, which take CAP_SYS_ADMIN to write: run this command as root \
             (sudo)",
                dir.display()
            )
        }
        Some(_) => {
            say!("{} has all that its mark says; there is nothing to accept", dir.display());
            return Ok(());
        }
        None => {
            let file = open(&dir)?;
            let accepted =
                [(lists::ACCEPTED_USER, true), (lists::ACCEPTED_TRUSTED, lists::writes_trusted_attributes())];
            for (name, _) in accepted.into_iter().filter(|(_, is_possible)| *is_possible) {
                let set = rustix::fs::fsetxattr(&file, name, b"1", XattrFlags::empty());
                set.map_err(explain).with_context(cannot)?;
            }
            file.sync_all().with_context(cannot)?;
        }
    }
    say!(
        "the access lists of {} count as they lie now; start its server anew. Without a list everybody may read what the server can",
        dir.display()
    );
    Ok(())
}
