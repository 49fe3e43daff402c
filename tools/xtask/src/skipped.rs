//! Tests that are skipped on this machine: gathered in a file, told at the end, refused in CI.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// The file in which every test that cannot run here leaves a line.
pub(crate) struct Skipped {
    path: PathBuf,
}

impl Skipped {
    /// Begins an empty list.
    pub(crate) fn new(path: PathBuf) -> anyhow::Result<Self> {
        std::fs::create_dir_all(path.parent().context("a file lies in a directory")?)?;
        std::fs::write(&path, "").with_context(|| path.display().to_string())?;
        Ok(Self { path })
    }

    /// Returns where tests write to.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reports what was skipped, by the tests or as `more`. Fails where nothing may be skipped.
    pub(crate) fn tell(&self, more: impl IntoIterator<Item = String>) -> anyhow::Result<()> {
        let mut skipped = self.read()?;
        skipped.extend(more);
        if skipped.is_empty() {
            eprintln!("\nNothing was skipped.");
            return Ok(());
        }
        eprintln!("\nSKIPPED, {} in all:", skipped.len());
        skipped.iter().for_each(|line| eprintln!("  {line}"));
        if in_ci() {
            bail!("CI skips nothing, and {} were skipped", skipped.len());
        }
        Ok(())
    }

    fn read(&self) -> anyhow::Result<Vec<String>> {
        let text = std::fs::read_to_string(&self.path)?;
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines.dedup();
        Ok(lines)
    }
}

/// Returns whether nothing may be skipped.
pub(crate) fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_of_skips_begins_empty_and_tells_each_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("below").join("skipped");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "of the last run\n").unwrap();
        let list = Skipped::new(path).unwrap();
        assert!(list.read().unwrap().is_empty());
        std::fs::write(&list.path, "b: why\na: why\nb: why\n").unwrap();
        assert_eq!(list.read().unwrap(), ["a: why", "b: why"]);
    }
}
