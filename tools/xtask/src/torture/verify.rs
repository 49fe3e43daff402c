//! Whether what is there after the end is what may be there.

use std::collections::BTreeMap;

use anyhow::{Context, bail, ensure};

use super::model::{Model, Node, parent};
use super::step::{Bytes, Step};

/// Steps that a worker asked for since the state its life began with.
#[derive(Debug)]
pub(super) struct History {
    pub(super) base: Model,
    pub(super) steps: Vec<Step>,
    /// Number of them that were acknowledged: all, or all but the last.
    pub(super) acknowledged: usize,
}

/// End of a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The process was killed: what was acknowledged is there.
    Killed,
    /// The file system lost its power: what was acknowledged as synced is there, and of names and attributes, which
    /// journals keep in order, a beginning of what was asked for.
    PowerCut,
}

impl History {
    pub(super) fn new(base: Model) -> Self {
        Self { base, steps: Vec::new(), acknowledged: 0 }
    }

    /// Returns how many of the steps must show, and whether `found` is what comes of them. Answers how many
    /// do show.
    pub(super) fn explain(&self, found: &Model, end: End) -> anyhow::Result<usize> {
        let mut model = self.base.clone();
        let first = match end {
            End::Killed => self.acknowledged,
            End::PowerCut => self.names_synced(),
        };
        let (mut why, mut nearest) = (String::new(), 0);
        for shown in 0..=self.steps.len() {
            if shown >= first {
                let compared = self.compare(&model, shown, found, end);
                match compared {
                    Ok(()) => return Ok(shown),
                    // The differences of the last are told, but for those of content, where names agree.
                    Err(error) => {
                        let error = format!("{error:#}");
                        if nearest == 0 || error.starts_with("content") {
                            (why, nearest) = (error, shown);
                        }
                    }
                }
            }
            if let Some(step) = self.steps.get(shown) {
                model.apply(step).with_context(|| format!("step {shown}: {step:?}"))?;
            }
        }
        let tail: Vec<_> = self.steps.iter().enumerate().skip(first.saturating_sub(8)).collect();
        bail!(
            "{} steps, {} acknowledged, at least {first} must show; nearest is {nearest}: {why}\n{tail:#?}",
            self.steps.len(),
            self.acknowledged
        )
    }

    /// Steps up to the last one that changed names of a directory which was then synced.
    fn names_synced(&self) -> usize {
        let last_change = |at: usize, directory: &str| {
            let before = self.steps[..at].iter().enumerate().rev();
            // Further back the path may have been another directory's.
            let mut its_own = before.take_while(|(_, step)| !step.moves(directory));
            its_own.find(|(_, step)| step.changes_names_of(directory)).map_or(0, |(at, _)| at + 1)
        };
        let acknowledged = self.steps[..self.acknowledged].iter().enumerate();
        let syncs = acknowledged.map(|(at, step)| match step {
            Step::SyncDirectory { path } => last_change(at, path),
            _ => 0,
        });
        syncs.max().unwrap_or(0)
    }

    fn compare(&self, model: &Model, shown: usize, found: &Model, end: End) -> anyhow::Result<()> {
        let torn = match self.steps.get(shown) {
            // The list of a new directory follows it; without, that of the one above counts, which is the same.
            Some(Step::MakeDirectory { path }) => Some(path),
            _ => None,
        };
        for (path, node) in &model.nodes {
            let other = found.nodes.get(path).with_context(|| format!("{path} is missing"))?;
            match (node, other) {
                (Node::File(_), Node::File(_)) => {}
                _ => ensure!(node == other, "{path} is {other:?} and not {node:?}"),
            }
        }
        let more = found.nodes.iter().find(|(path, _)| !model.nodes.contains_key(*path));
        if let Some((path, node)) = more {
            let is_torn = Some(path) == torn && *node == Node::Directory(None);
            ensure!(is_torn, "{path} is there: {node:?}");
        }
        let links = |model: &Model| -> Vec<Vec<String>> {
            let mut links: Vec<_> = model
                .links()
                .into_values()
                .map(|names| names.into_iter().map(str::to_owned).collect())
                .collect();
            links.sort();
            links
        };
        ensure!(
            links(model) == links(found),
            "names lead to others: {:?}, not {:?}",
            links(found),
            links(model)
        );
        for (file, names) in model.links() {
            let is = &found.files[&found.file_at(names[0]).context("compared above")?];
            let attribute = &model.files[&file].extended;
            ensure!(is.extended == *attribute, "the attribute of {} differs", names[0]);
            self.content_of(file, end)?
                .allows(&is.content)
                .with_context(|| format!("content of {}", names[0]))?;
        }
        Ok(())
    }

    /// Returns what the content of a file may be.
    fn content_of(&self, file: u64, end: End) -> anyhow::Result<Content> {
        let mut model = self.base.clone();
        let mut content = model.files.get(&file).map(|file| Content::of(file.content.clone()));
        for (number, step) in self.steps.iter().enumerate() {
            let is_of_it = step.path_of_file().and_then(|path| model.file_at(path)) == Some(file);
            model.apply(step)?;
            let is_acknowledged = number < self.acknowledged;
            let is_safe = match (end, step) {
                (End::Killed, _) => is_acknowledged,
                (End::PowerCut, Step::SyncFile { .. }) => is_acknowledged && is_of_it,
                (End::PowerCut, _) => false,
            };
            let now = model.files.get(&file).map(|file| &file.content);
            match (step, now, &mut content) {
                // It comes into being, whole where it was synced before it got its name.
                (Step::Publish { synced, bytes, .. }, Some(now), empty @ None) => {
                    let mut born = Content::of(if *synced || is_safe { now.clone() } else { Vec::new() });
                    if !*synced && !is_safe {
                        born.write(0, *bytes, now.len());
                    }
                    *empty = Some(born);
                }
                (_, Some(now), empty @ None) => *empty = Some(Content::of(now.clone())),
                (_, Some(now), Some(content)) if is_of_it && is_safe => *content = Content::of(now.clone()),
                (Step::Write { offset, bytes, .. }, Some(now), Some(content)) if is_of_it => {
                    content.write(*offset as usize, *bytes, now.len());
                }
                (Step::Append { bytes, .. }, Some(now), Some(content)) if is_of_it => {
                    content.write(now.len() - bytes.len, *bytes, now.len());
                }
                (Step::Truncate { len, .. }, Some(_), Some(content)) if is_of_it => {
                    content.truncate(*len as usize);
                }
                _ => {}
            }
        }
        content.with_context(|| format!("file {file} is of nobody's making"))
    }
}

impl Step {
    /// Returns the file whose content is changed or made safe.
    pub(super) fn path_of_file(&self) -> Option<&str> {
        match self {
            Self::Write { path, .. }
            | Self::Append { path, .. }
            | Self::Truncate { path, .. }
            | Self::SyncFile { path } => Some(path),
            _ => None,
        }
    }

    /// Returns whether names come to this directory, or go.
    fn changes_names_of(&self, directory: &str) -> bool {
        match self {
            Self::Create { path }
            | Self::Publish { path, .. }
            | Self::Symlink { path, .. }
            | Self::Link { to: path, .. }
            | Self::Remove { path }
            | Self::MakeDirectory { path }
            | Self::RemoveDirectory { path } => parent(path) == directory,
            Self::Rename { from, to } => parent(from) == directory || parent(to) == directory,
            _ => false,
        }
    }

    /// Returns whether it has another directory called so from then on, or none.
    fn moves(&self, directory: &str) -> bool {
        let concerns = |path: &str| path == directory || directory.starts_with(&format!("{path}/"));
        match self {
            Self::Rename { from, to } => concerns(from) || concerns(to),
            Self::RemoveDirectory { path } => concerns(path),
            _ => false,
        }
    }

    /// Returns the file whose content it makes.
    pub(super) fn path_of_content(&self) -> Option<&str> {
        match self {
            Self::Create { path } | Self::Publish { path, .. } => Some(path),
            _ => self.path_of_file(),
        }
    }

    /// Returns whether it makes something safe.
    pub(super) fn is_sync(&self) -> bool {
        matches!(
            self,
            Self::SyncFile { .. } | Self::SyncDirectory { .. } | Self::Publish { synced: true, .. }
        )
    }
}

/// Contents that a file may have: what is safe, with any part of what came after.
struct Content {
    safe: Vec<u8>,
    later: Vec<(usize, Vec<u8>)>,
    /// Shortest and longest length that the file may have.
    len: (usize, usize),
    /// Offset from which zeros may show: beyond what is safe, and behind where the file was cut.
    zeros_from: usize,
}

impl Content {
    fn of(safe: Vec<u8>) -> Self {
        let len = safe.len();
        Self { safe, later: Vec::new(), len: (len, len), zeros_from: len }
    }

    fn write(&mut self, offset: usize, bytes: Bytes, len_after: usize) {
        self.later.push((offset, bytes.make()));
        self.len.1 = self.len.1.max(len_after);
    }

    fn truncate(&mut self, len: usize) {
        self.len = (self.len.0.min(len), self.len.1.max(len));
        self.zeros_from = self.zeros_from.min(len);
    }

    fn allows(&self, found: &[u8]) -> anyhow::Result<()> {
        let (shortest, longest) = self.len;
        ensure!(
            (shortest..=longest).contains(&found.len()),
            "{} bytes, where {shortest} to {longest} may be",
            found.len()
        );
        for (at, byte) in found.iter().enumerate() {
            let is_safe = self.safe.get(at) == Some(byte) || (*byte == 0 && at >= self.zeros_from);
            let is_later = || {
                let of = |(offset, bytes): &(usize, Vec<u8>)| {
                    at.checked_sub(*offset).and_then(|at| bytes.get(at).copied())
                };
                self.later.iter().any(|later| of(later) == Some(*byte))
            };
            ensure!(is_safe || is_later(), "byte {at} of {} is nobody's: {byte}", found.len());
        }
        Ok(())
    }
}

/// File that all workers fought for.
#[derive(Debug, Default)]
pub(super) struct Contest {
    /// Content at the beginning.
    pub(super) base: Option<Vec<u8>>,
    /// Each file for it, with when it was asked for and, if ever, acknowledged.
    pub(super) published: Vec<(usize, Option<usize>, Bytes)>,
}

impl Contest {
    /// Checks whether it may be what it is: whole, and none that was over before another began that was
    /// acknowledged.
    pub(super) fn explain(&self, found: Option<&[u8]>, end: End) -> anyhow::Result<()> {
        let last_begun =
            self.published.iter().filter(|(_, done, _)| done.is_some()).map(|(begun, ..)| *begun).max();
        let is_over = |done: Option<usize>| match (end, done, last_begun) {
            (End::Killed, Some(done), Some(begun)) => done < begun,
            _ => false,
        };
        let is_one = self
            .published
            .iter()
            .any(|(_, done, bytes)| !is_over(*done) && found.is_some_and(|found| found == bytes.make()));
        let is_base = found == self.base.as_deref() && (end == End::PowerCut || last_begun.is_none());
        ensure!(is_one || is_base, "the name that all fight for leads to none of theirs, or to an old one");
        Ok(())
    }
}

/// Each number named one file, and each version of a file had one content, whatever process told of it.
#[derive(Debug, Default)]
pub(super) struct Versions {
    /// Files by number.
    files: BTreeMap<(u32, u32), String>,
    contents: BTreeMap<super::record::FileVersion, u64>,
}

impl Versions {
    pub(super) fn note(
        &mut self,
        version: &super::record::FileVersion,
        content: &[u8],
    ) -> anyhow::Result<()> {
        let hash = std::hash::BuildHasher::hash_one(&FixedHash::default(), content);
        let known = self.files.entry(version.file).or_insert_with(|| version.identity.clone());
        ensure!(*known == version.identity, "{:?} names two files: {known} and {version:?}", version.file);
        let before = self.contents.insert(version.clone(), hash);
        ensure!(before.is_none_or(|before| before == hash), "{version:?} names two contents");
        Ok(())
    }

    pub(super) fn count(&self) -> usize {
        self.contents.len()
    }
}

type FixedHash = std::hash::BuildHasherDefault<std::hash::DefaultHasher>;

#[cfg(test)]
mod tests {
    use super::*;

    fn history(steps: Vec<Step>, acknowledged: usize) -> History {
        History { base: Model::default(), steps, acknowledged }
    }

    fn created(path: &str) -> Step {
        Step::Create { path: path.into() }
    }

    fn written(path: &str, seed: u64) -> Step {
        Step::Append { path: path.into(), bytes: Bytes { seed, len: 100 } }
    }

    fn found(steps: &[Step]) -> Model {
        let mut model = Model::default();
        steps.iter().for_each(|step| model.apply(step).unwrap());
        model
    }

    #[test]
    fn what_was_acknowledged_and_is_not_there_is_noticed() {
        let steps = vec![created("a"), written("a", 1), created("b")];
        let history = history(steps.clone(), 2);
        for shown in 0..=3 {
            let explained = history.explain(&found(&steps[..shown]), End::Killed);
            assert_eq!(explained.ok(), (shown >= 2).then_some(shown));
        }
    }

    #[test]
    fn a_loss_of_power_keeps_what_was_synced_and_a_beginning_of_names() {
        let directory = Step::SyncDirectory { path: String::new() };
        let steps = vec![created("a"), directory, created("b"), created("c")];
        let history = history(steps.clone(), 4);
        assert!(history.explain(&found(&steps[..2]), End::PowerCut).is_ok());
        assert!(history.explain(&found(&steps[..3]), End::PowerCut).is_ok());
        assert!(history.explain(&found(&[]), End::PowerCut).is_err());
        let out_of_order = [created("a"), created("c")];
        assert!(history.explain(&found(&out_of_order), End::PowerCut).is_err());
    }

    #[test]
    fn bytes_that_nobody_wrote_are_noticed() {
        let file = Step::SyncFile { path: "a".into() };
        let steps = vec![created("a"), written("a", 1), file, written("a", 2)];
        let history = history(steps.clone(), 4);
        let mut cut = found(&steps[..2]);
        assert!(history.explain(&cut, End::PowerCut).is_ok());
        let content = &mut cut.files.values_mut().next().unwrap().content;
        content[50] ^= 2;
        assert!(history.explain(&cut, End::PowerCut).is_err());
    }

    #[test]
    fn an_old_winner_of_the_contest_is_noticed() {
        let bytes = |seed| Bytes { seed, len: 10 };
        let mut contest =
            Contest { base: None, published: vec![(0, Some(1), bytes(1)), (2, Some(3), bytes(2))] };
        let explained =
            |contest: &Contest, seed| contest.explain(Some(&bytes(seed).make()), End::Killed).is_ok();
        assert!(!explained(&contest, 1) && explained(&contest, 2));
        contest.published[1].1 = None;
        assert!(explained(&contest, 1) && explained(&contest, 2) && !explained(&contest, 3));
    }

    #[test]
    fn a_version_with_two_contents_is_noticed() {
        let version =
            super::super::record::FileVersion { file: (2, 1), identity: "x".into(), generation: 1, count: 1 };
        let mut versions = Versions::default();
        versions.note(&version, b"a").unwrap();
        versions.note(&version, b"a").unwrap();
        assert!(versions.note(&version, b"b").is_err());
        let other = super::super::record::FileVersion { identity: "y".into(), count: 2, ..version };
        assert!(versions.note(&other, b"c").is_err(), "a number with two files");
    }
}
