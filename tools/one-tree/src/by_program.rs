//! Operations of local programs beneath the server.

use std::time::Duration;

use anyhow::{Context, bail};
use lane::time;

use crate::operation::{Operation, Path, Step};
use crate::run::{LOCAL_BOUND, Run, bytes};

impl Run {
    pub(crate) async fn by_program(&mut self, step: &Step) -> anyhow::Result<()> {
        let Operation::LocalSwapThen { after_us, .. } = step.operation else {
            return self.acts(&step.operation, step.index);
        };
        self.acts(&Operation::LocalSwap, step.index)?;
        if after_us > 0 {
            time::sleep(Duration::from_micros(after_us.into())).await;
        }
        let then = step.operation.after_swap().context("what is done then")?;
        self.acts(&then, step.index)
    }

    fn acts(&mut self, operation: &Operation, index: usize) -> anyhow::Result<()> {
        let until = time::now() + LOCAL_BOUND;
        // What is not open then keeps its record until a check (docs/design/index.md, "The check").
        let has_last_name = |path: &Path| {
            let object = self.model.names.get(path);
            object.is_some_and(|object| self.model.names_of(*object).count() == 1)
        };
        self.is_to_mend |= match operation {
            Operation::LocalReplace { path, .. } | Operation::LocalRemove { path } => has_last_name(path),
            Operation::LocalRename { to, .. } => has_last_name(to),
            _ => false,
        };
        let (disk, model) = (self.site.disk(), &mut self.model);
        // A clock of whole seconds may have stood still, so nothing shows alone there (docs/design/index.md, "Versions").
        let is_fine = |path: Path| !disk.is_of_whole_second(&path.text()).unwrap_or_default();
        match *operation {
            Operation::LocalCreate { path, len } => {
                let content = bytes(index, len);
                disk.make(&path.text(), &content)?;
                model.makes(path, false, content);
            }
            Operation::LocalWrite { path, offset, len } => {
                let content = bytes(index, len);
                disk.write_at(&path.text(), offset.into(), &content)?;
                model.writes(model.names[&path], offset.into(), &content);
            }
            Operation::LocalTruncate { path, len } => {
                disk.cut(&path.text(), len.into())?;
                model.cuts(model.names[&path], len.into());
            }
            Operation::LocalSwap => {
                let [from, to] = [1, 2].map(|place| Path::of_directory(place).text());
                for (from, to) in [(from.as_str(), ASIDE), (&to, &from), (ASIDE, &to)] {
                    disk.rename(from, to)?;
                }
                model.swaps();
            }
            Operation::LocalReplace { path, len } => {
                let content = bytes(index, len);
                let aside = aside(path);
                model.changes_beside(path, is_fine(path), until);
                disk.make(&aside, &content)?;
                disk.rename(&aside, &path.text())?;
                model.takes(path);
                model.makes(path, false, content);
            }
            Operation::LocalChmod { path, mode } => {
                let has = disk.tree()?.get(&path.text()).context("a file")?.mode;
                model.changes_beside(path, has != u32::from(mode) && is_fine(path), until);
                disk.set_mode(&path.text(), mode.into())?;
                if has != u32::from(mode) {
                    let object = model.names[&path];
                    model.objects[object].changes += 1;
                }
            }
            Operation::LocalRename { from, to } => {
                model.changes_beside(from, false, until);
                model.changes_beside(to, is_fine(to), until);
                disk.rename(&from.text(), &to.text())?;
                model.takes(from);
                model.takes(to);
                model.misses(from);
                model.misses(to);
                model.moves_name(from, to);
                model.loses(to);
            }
            Operation::LocalLink { from, to } => {
                model.changes_beside(from, is_fine(from), until);
                disk.link(&from.text(), &to.text())?;
                model.links(model.names[&from], to);
            }
            Operation::LocalRemove { path } => {
                model.changes_beside(path, is_fine(path), until);
                disk.remove(&path.text())?;
                model.takes(path);
                model.misses(path);
                model.removes(path);
            }
            Operation::LocalMakeDirectory { path } => {
                disk.make_directory(&path.text())?;
                model.makes(path, true, Vec::new());
            }
            Operation::LocalSync => {
                disk.sync()?;
                model.is_synced();
            }
            operation => bail!("{operation} is no operation of a local program"),
        }
        Ok(())
    }
}

/// Returns a name in the same directory, for a file that is to replace another.
fn aside(path: Path) -> String {
    let text = path.text();
    match text.rsplit_once('/') {
        Some((directory, _)) => format!("{directory}/{ASIDE}"),
        None => ASIDE.to_owned(),
    }
}

const ASIDE: &str = ".aside";
