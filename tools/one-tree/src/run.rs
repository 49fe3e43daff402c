//! One run: does its steps, one after the other, and holds what comes of each against the model.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use lane::time;

use crate::afs::CacheManager;
use crate::expected::Expected;
use crate::http::Browser;
use crate::known::Known;
use crate::model::{Model, Object, ROOT};
use crate::operation::{DIRECTORIES, Looks, Operation, Path, SLOTS, Step};
use crate::site::{Place, Site};
use crate::smb::Redirector;

/// A run on a server, from its first client's sign-in to its stop.
pub(crate) struct Run {
    pub(crate) site: Box<dyn Site>,
    pub(crate) place: Place,
    pub(crate) model: Model,
    pub(crate) smb: [Redirector; 2],
    /// Two clients that cache, and one that looks.
    pub(crate) afs: [CacheManager; 2],
    pub(crate) observer: CacheManager,
    pub(crate) http: Browser,
    pub(crate) known: Vec<Known>,
    /// Until when what a local program did last may not show yet.
    pub(crate) settled: Instant,
    /// Objects that the step touches.
    pub(crate) touched: Touched,
    /// The index may have what the tree has not, as no check has mended since.
    pub(crate) is_to_mend: bool,
    /// A server that was killed may have left files that it had not named yet; the next ones take them away in their
    /// time.
    pub(crate) has_left: bool,
    turn: usize,
}

/// Names and files that a step is about.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    pub(crate) paths: BTreeSet<Path>,
    pub(crate) objects: BTreeSet<Object>,
}

/// Answer of the server to an operation.
pub(crate) enum Answer {
    Done,
    Refused(String),
}

impl Run {
    /// Begins on the current lane.
    ///
    /// # Errors
    /// The server does not answer as it should to begin with.
    pub(crate) async fn new(site: Box<dyn Site>, known: Vec<Known>) -> anyhow::Result<Self> {
        let place = site.place();
        let smb = [Redirector::new(&place, 0).await?, Redirector::new(&place, 1).await?];
        let afs = [CacheManager::new(&place, 0)?, CacheManager::new(&place, 1)?];
        let mut observer = CacheManager::new(&place, 2)?;
        let mut model = Model::new();
        // Calls are aborted with RX_RESTARTING until every lane serves; clients try again.
        let give_up = time::now() + SIGNED_IN_WITHIN;
        let names = loop {
            match observer.list(observer.root).await {
                Err(_) if time::now() < give_up => time::sleep(Duration::from_millis(20)).await,
                listed => break listed?.0,
            }
        };
        model.objects[ROOT].fid = Some(observer.root);
        for (object, directory) in DIRECTORIES.iter().enumerate().skip(1) {
            model.objects[object].fid = Some(*names.get(*directory).context("a directory of the tree")?);
        }
        let http = Browser::new(place.http);
        let (settled, touched) = (time::now(), Touched::default());
        let mut run = Self {
            site,
            place,
            model,
            smb,
            afs,
            observer,
            http,
            known,
            settled,
            touched,
            is_to_mend: false,
            has_left: false,
            turn: 0,
        };
        // Which directory is which is told by their inodes after a loss of power.
        run.file_system()?;
        Ok(run)
    }

    /// Does a step, and looks. `false`: its parties were not there.
    ///
    /// # Errors
    /// What was found.
    pub(crate) async fn step(&mut self, step: &Step) -> anyhow::Result<bool> {
        let expected = self.model.expects(&step.operation);
        if expected == Expected::Nothing {
            return Ok(false);
        }
        self.touched = Touched::default();
        self.touches(&step.operation);
        if step.operation.is_local() {
            // What is written in the tick of a change of the server's leaves no trace (docs/design/index.md, "Versions").
            time::sleep(TICK).await;
        }
        let answer = self.act(step).await?;
        match (expected, &answer) {
            (Expected::Done, Answer::Refused(why)) => bail!("it is refused: {why}"),
            (Expected::Refused, Answer::Done) => bail!("it is done, and was to be refused"),
            _ => {}
        }
        self.touches(&step.operation);
        self.touched.objects.iter().for_each(|object| self.model.objects[*object].is_known = false);
        if step.operation.is_local() {
            let model = &mut self.model;
            let directories: Vec<_> =
                self.touched.paths.iter().map(|path| model.directory(path.directory())).collect();
            for object in self.touched.objects.iter().chain(&directories) {
                model.objects[*object].is_unseen = true;
            }
            self.settled = time::now() + LOCAL_BOUND;
        }
        if step.looks.by_fid {
            let asked = self.in_time(self.settled, async |run| run.by_fid().await).await;
            asked.context("asked for by AFS, before any name")?;
        }
        self.in_time(time::now() + BREAK_BOUND, async |run| run.have_given_back()).await?;
        self.in_time(self.settled, async |run| run.have_given_back_names()).await?;
        self.in_time(self.settled, async |run| run.are_told()).await?;
        self.in_time(self.settled, async |run| run.looks(step.looks).await).await?;
        Ok(true)
    }

    /// Notes what an operation is about, as the names lead there now.
    fn touches(&mut self, operation: &Operation) {
        let Touched { paths, objects } = &mut self.touched;
        paths.extend(operation.paths().into_iter().flatten());
        if operation.swaps() {
            paths.extend([1, 2].map(Path::of_directory));
            paths.extend(operation.after_swap().iter().flat_map(Operation::paths).flatten());
            paths.extend(self.model.names.keys().filter(|path| path.swapped() != **path));
        }
        if let Some((client, slot)) = operation.slot()
            && let Some(opened) = self.model.open(client, slot)
        {
            objects.insert(opened.object);
            paths.insert(opened.path);
        }
        objects.extend(paths.iter().filter_map(|path| self.model.names.get(path)));
        for object in &*objects {
            paths.extend(self.model.names_of(*object));
        }
    }

    /// Looks until all is as it is to be, or the time is over.
    pub(crate) async fn in_time(
        &mut self,
        until: Instant,
        mut look: impl AsyncFnMut(&mut Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut pause = PAUSE;
        loop {
            match look(self).await {
                Err(_) if time::now() < until => time::sleep(pause).await,
                looked => return looked,
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Ends all clients, and stops the server: nothing is left open, and index and tree agree.
    ///
    /// # Errors
    /// What was found.
    pub(crate) async fn ends(&mut self, closed_within: Duration) -> anyhow::Result<()> {
        let settled = self.settled;
        self.in_time(settled, async |run| run.looks(Looks::ALL).await).await.context("at the end")?;
        for client in 0..2u8 {
            for slot in 0..SLOTS {
                self.smb[usize::from(client)].closes(slot).await?;
                self.model.closes(client, slot);
            }
        }
        let give_up = time::now() + closed_within;
        loop {
            let removed = self.site.removed_files()?;
            if removed.is_empty() {
                break;
            }
            ensure!(
                time::now() < give_up,
                "removed files are open {closed_within:?} after the end: {removed:?}"
            );
            time::sleep(Duration::from_millis(50)).await;
        }
        self.stops().await?;
        self.file_system()
    }

    /// Returns the SMB client whose turn it is to look.
    pub(crate) fn turn(&mut self) -> usize {
        self.turn += 1;
        self.turn % self.smb.len()
    }

    pub(crate) fn allows(&self, defect: Known) -> bool {
        self.known.contains(&defect)
    }

    /// Has the operation done, and the model with it.
    async fn act(&mut self, step: &Step) -> anyhow::Result<Answer> {
        match step.operation {
            Operation::SmbOpen { .. }
            | Operation::SmbOpenDirectory { .. }
            | Operation::SmbWrite { .. }
            | Operation::SmbTruncate { .. }
            | Operation::SmbRename { .. }
            | Operation::SmbLink { .. }
            | Operation::SmbDispose { .. }
            | Operation::SmbClose { .. }
            | Operation::SmbMove { .. }
            | Operation::SmbLinkName { .. }
            | Operation::SmbRemove { .. }
            | Operation::SmbMakeDirectory { .. } => self.by_smb(step).await,
            Operation::Put { .. } | Operation::Delete { .. } => self.by_http(step).await,
            Operation::Restart { end } => self.restarts(end).await.map(|()| Answer::Done),
            Operation::KillAmid { .. } => self.dies_amid(step).await.map(|()| Answer::Done),
            operation if operation.is_local() => self.by_program(step).await.map(|()| Answer::Done),
            _ => self.by_afs(step).await,
        }
    }

    /// Returns the name of an object in messages.
    pub(crate) fn name(&self, object: Object) -> String {
        if object == ROOT {
            return "/".to_owned();
        }
        let names: Vec<_> = self.model.names_of(object).map(Path::text).collect();
        if names.is_empty() { format!("file {object} without a name") } else { names.join(" = ") }
    }
}

/// Returns what a step writes: like nothing that another one does.
pub(crate) fn bytes(index: usize, len: u16) -> Vec<u8> {
    let mut state = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let noise = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8 | 1
    });
    noise.take(len.into()).collect()
}

/// Returns how what was read differs from what is there.
pub(crate) fn unlike(read: &[u8], there: &[u8]) -> String {
    let at = read.iter().zip(there).position(|(read, there)| read != there);
    let at = at.unwrap_or(read.len().min(there.len()));
    format!("{} bytes, unlike the {} that are there from byte {at} on", read.len(), there.len())
}

pub(crate) const SIGNED_IN_WITHIN: Duration = Duration::from_secs(5);
/// Time within which a local program's change shows.
pub(crate) const LOCAL_BOUND: Duration = Duration::from_millis(1200);
/// Time within which a break comes, as it goes by another connection than the answer that it came before.
pub(crate) const BREAK_BOUND: Duration = Duration::from_millis(200);
/// Prefix of the server's own names.
pub(crate) const OWN: &str = ".linerate-";
/// Longest time for which the clock of a file system's time stamps stands still.
const TICK: Duration = Duration::from_millis(20);
/// Time between the first two looks; it doubles up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(10);
/// Longest time between two looks.
const PAUSE_MAX: Duration = Duration::from_millis(200);
