//! Whether the state directory is the server's alone: who else may change it can put another index there.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Returns what keeps a server of this user from using the directory, with the remedy: it belongs to another user, or
/// others may write to it. `None` where it is good, or not there yet.
pub fn trouble(state: &Path) -> Option<String> {
    let meta = std::fs::metadata(state).ok()?;
    let own = rustix::process::geteuid().as_raw();
    trouble_of(state, meta.is_dir(), meta.uid(), meta.mode(), own)
}

fn trouble_of(state: &Path, is_dir: bool, owner: u32, mode: u32, own: u32) -> Option<String> {
    let (state, mode) = (state.display(), mode & 0o7777);
    if !is_dir {
        return None;
    }
    if owner != 0 && owner != own {
        return Some(format!(
            "{state}: it belongs to the user {owner}, who could put another index there, and the server runs as the user {own}: run it as \
             the owner, or chown -R {own} it"
        ));
    }
    // A sticky bit keeps what is there, and lets others add files that the server would take for its own.
    (mode & WRITABLE_BY_OTHERS != 0).then(|| {
        format!("{state}: others than its owner may write to it (mode {mode:04o}), and could put another index there: chmod go-w it")
    })
}

/// Write bits of a group and of all others.
pub(crate) const WRITABLE_BY_OTHERS: u32 = 0o022;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_directory_is_the_servers_or_roots_and_nobody_else_may_write_there() {
        let told = |owner, mode, own| trouble_of(Path::new("/var/lib/linerate"), true, owner, mode, own);
        for (owner, mode, own) in
            [(0, 0o40_700, 0), (0, 0o40_755, 1000), (1000, 0o40_750, 1000), (1000, 0o42_700, 1000)]
        {
            assert_eq!(told(owner, mode, own), None, "{owner} {mode:o} {own}");
        }
        for (owner, mode, own, words) in [
            (1000, 0o40_700, 0, "belongs to the user 1000"),
            (1000, 0o40_777, 1001, "belongs to the user 1000"),
            (0, 0o40_777, 0, "(mode 0777)"),
            (0, 0o41_777, 0, "(mode 1777)"),
            (1000, 0o40_770, 1000, "(mode 0770)"),
            (1000, 0o40_702, 1000, "chmod go-w it"),
        ] {
            let said = told(owner, mode, own).unwrap_or_default();
            assert!(said.starts_with("/var/lib/linerate: ") && said.contains(words), "{said}");
        }
        assert_eq!(trouble(Path::new("/nothing/of/that/name")), None);
    }
}
