//! `linerate acl accept`: an operator has looked at what lists a restored tree has.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use server::lists::{self, RightsIn};

use super::{open, tell_server};
use crate::output::say;

/// Arguments of `linerate acl accept`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The volume's directory, or one in it
    dir: PathBuf,
    /// Admin address of the server that is told, so that it counts at once
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8090")]
    server: SocketAddr,
    /// State directory of the server, whose owner is believed to run it: for root, where another user does
    #[arg(long, value_name = "DIR", env = "LINERATE_STATE")]
    state: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let dir = fs::canonicalize(&args.dir).with_context(|| format!("cannot find {}", args.dir.display()))?;
    let marked = super::marked_above(&dir)?;
    let cannot = || format!("cannot mark {}", dir.display());
    if let Some(marked) = &marked
        && marked.rights == RightsIn::Trusted
        && !lists::writes_trusted_attributes()
    {
        anyhow::bail!(
            "the volume at {} keeps its access lists in trusted. attributes, which take CAP_SYS_ADMIN to write: run this command as root \
             (sudo)",
            marked.root.display()
        )
    }
    lists::accept(&open(&dir)?, true).with_context(cannot)?;
    let is_root = marked.as_ref().is_none_or(|marked| marked.root == dir);
    if is_root && marked.is_some_and(|marked| marked.is_half) {
        lists::mark_rights(&dir, RightsIn::Trusted).with_context(cannot)?;
    }
    tell_server(args.server, args.state.as_deref());
    say!(
        "the access lists of {} count as they lie now, and those of all directories beneath it: one that has lost its own goes by that of \
         the directory above. Without a list everybody may read what the server can",
        dir.display()
    );
    if is_root {
        say!("a server that serves all of it to administrators alone opens it at its next start");
    }
    Ok(())
}
