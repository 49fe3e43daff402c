//! The process that is killed: several lanes, each with workers that change the tree at random and tell of it.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use identity::{Accounts, Writable};
use index::{Committer, FileStorage, Index, Options};
use lane::buffer::Buf;
use lane::fs::{SyncOf, XattrHow};
use lane::layout::{LaneCount, Layout, Wishes};
use lane::runtime::{Runtime, RuntimeOptions};
use lane::topology::Topology;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use vfs::{
    Cache, CacheOptions, Caller, CreateOptions, Directory, Expect, Name, Objects, ObjectsOptions, RelPath,
    Replace, Volume, VolumeOptions, VolumeSpec, Writer,
};

use super::model::{Model, Node, access_list, parent};
use super::record::{FileVersion, Record, tell};
use super::step::{Bytes, Step};

/// Flags of the tortured process.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(long)]
    tree: PathBuf,
    #[arg(long)]
    state: PathBuf,
    /// Another one after each loss of power
    #[arg(long)]
    boot: u8,
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    lanes: usize,
    #[arg(long)]
    workers: usize,
}

/// Changes the tree until it is killed.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let topology = Topology::of_this_machine()?;
    let wishes = Wishes { lanes: LaneCount::Total(args.lanes), ..Wishes::default() };
    let layout = Layout::new(&topology, &wishes)?;
    let options = ObjectsOptions { privileged: true, trusted_attributes: true, ..Default::default() };
    let index = Arc::new(open_index(&args.state, args.boot)?);
    let _committer = Committer::start(&index, COMMIT_PERIOD)?;
    let objects = Objects::new(options, index);
    let (lanes, args) = (layout.lane_count(), args.clone());
    let runtime = Runtime::start(&layout, RuntimeOptions::default(), move |spec| {
        let (objects, args) = (objects.clone(), args.clone());
        async move {
            let own: Vec<_> = (0..args.workers).filter(|worker| worker % lanes == spec.id).collect();
            if let Err(error) = lane_main(&objects, &args, &own).await {
                // Only a lost power makes this: what is told by then counts.
                eprintln!("lane {}: {error:#}", spec.id);
            }
        }
    })?;
    runtime.join().map_err(|_| anyhow::anyhow!("a lane panicked"))
}

/// Opens the index on the disk of the tree.
pub(super) fn open_index(state: &Path, boot: u8) -> anyhow::Result<Index> {
    std::fs::create_dir_all(state)?;
    let options = Options { boot: [boot; 16], ..Options::default() };
    Ok(Index::open(FileStorage::in_directory(state), options)?)
}

async fn lane_main(objects: &Objects, args: &Args, workers: &[usize]) -> anyhow::Result<()> {
    let cache = Cache::sharing(CacheOptions::default(), objects);
    let spec = VolumeSpec::new("torture".parse()?, &args.tree, VolumeOptions::default());
    let volume = Volume::open(&cache, &spec.writable_by(Writable::anyone()))?;
    let shared = volume.shared().context("it is writable")?;
    anyhow::ensure!(shared.trouble().is_none(), "{:?}", shared.trouble());
    let start = |&worker: &usize| {
        let model = Model::of_tree(&args.tree, worker)?;
        let seed = args.seed.wrapping_mul(31).wrapping_add(worker as u64);
        let worker = Worker {
            number: worker,
            volume: volume.clone(),
            caller: Caller::new(Accounts::none().local_administrator()),
            model,
            rng: SmallRng::seed_from_u64(seed),
        };
        Ok(lane::spawn(worker.run()))
    };
    let tasks: Vec<_> = workers.iter().map(start).collect::<anyhow::Result<_>>()?;
    for task in tasks {
        task.await?;
    }
    Ok(())
}

struct Worker {
    number: usize,
    volume: Volume,
    caller: Caller,
    model: Model,
    rng: SmallRng,
}

impl Worker {
    async fn run(mut self) -> anyhow::Result<()> {
        self.tell_what_is_there().await?;
        loop {
            let is_contest = self.rng.random_bool(0.06);
            let step = match is_contest {
                true => Step::contest(&mut self.rng),
                false => Step::at_random(&self.model, &mut self.rng),
            };
            tell(&Record::Begin { worker: self.number, step: step.clone() })?;
            match self.make_at_last(&step).await {
                Ok(file) => {
                    let version = file.as_deref().and_then(version_of);
                    tell(&Record::Done { worker: self.number, version: version.filter(|_| !is_contest) })?;
                }
                Err(error) => {
                    tell(&Record::Refused { worker: self.number, why: error.to_string() })?;
                    return Err(error.into());
                }
            }
            if !is_contest {
                self.model.apply(&step)?;
            }
        }
    }

    async fn tell_what_is_there(&self) -> anyhow::Result<()> {
        for path in self.model.paths_of(Node::is_file) {
            let found = self.volume.lookup_as(&self.caller, rel(&path), identity::Rights::READ).await?;
            let (file, _) = found.into_file()?;
            if let Some(version) = version_of(&file) {
                tell(&Record::Found { worker: self.number, path, version })?;
            }
        }
        Ok(())
    }

    /// Makes the change, however many others are at work.
    async fn make_at_last(&self, step: &Step) -> Result<Option<Rc<vfs::OpenFile>>, vfs::Error> {
        loop {
            match self.make(step).await {
                Err(vfs::Error::Busy | vfs::Error::Overloaded) => lane::yield_if_due().await,
                made => return made,
            }
        }
    }

    /// Makes the change; answers the file whose content it made.
    async fn make(&self, step: &Step) -> Result<Option<Rc<vfs::OpenFile>>, vfs::Error> {
        let caller = &self.caller;
        match step {
            Step::Create { path } => {
                let how = CreateOptions { exclusive: true, mode: 0o644 };
                let created = self.above(path).await?.create(caller, last(path), how).await?;
                return Ok(Some(Rc::clone(created.writer.file())));
            }
            Step::Write { path, offset, bytes } => {
                let writer = self.writer(path).await?;
                writer.write_at(caller, *offset, buf(*bytes)).await.0?;
                return Ok(Some(Rc::clone(writer.file())));
            }
            Step::Append { path, bytes } => {
                let writer = self.writer(path).await?;
                writer.append(caller, buf(*bytes)).await.0?;
                return Ok(Some(Rc::clone(writer.file())));
            }
            Step::Truncate { path, len } => {
                let writer = self.writer(path).await?;
                writer.truncate(caller, *len).await?;
                return Ok(Some(Rc::clone(writer.file())));
            }
            Step::SyncFile { path } => self.writer(path).await?.sync(SyncOf::Data).await?,
            Step::SyncDirectory { path } => self.directory(path).await?.sync().await?,
            Step::Publish { path, bytes, synced } => {
                let staged = self.above(path).await?.stage(caller, 0o644).await?;
                staged.write_at(0, buf(*bytes)).await.0?;
                if *synced {
                    staged.sync().await?;
                }
                return Ok(Some(staged.publish(caller, last(path), Expect::Anything).await?.file));
            }
            Step::Rename { from, to } => {
                let (here, there) = (self.above(from).await?, self.above(to).await?);
                here.rename(caller, last(from), &there, last(to), Replace::Existing).await?;
            }
            Step::Link { from, to } => self.above(from).await?.link(caller, last(from), last(to)).await?,
            Step::Symlink { path, target } => {
                self.above(path).await?.symlink(caller, last(path), target.as_bytes()).await?;
            }
            Step::Remove { path } => self.above(path).await?.remove(caller, last(path)).await?,
            Step::MakeDirectory { path } => {
                self.above(path).await?.make_directory(caller, last(path), 0o755).await?;
            }
            Step::RemoveDirectory { path } => {
                self.above(path).await?.remove_directory(caller, last(path)).await?;
            }
            Step::SetExtended { path, value } => {
                let writer = self.writer(path).await?;
                writer.set_extended(caller, b"torture", value.make(), XattrHow::Any).await?;
            }
            Step::RemoveExtended { path } => {
                self.writer(path).await?.remove_extended(caller, b"torture").await?;
            }
            Step::SetAccessList { path, user } => {
                let list = user.map(access_list);
                self.directory(path).await?.set_access_list(caller, list.as_ref()).await?;
            }
        }
        Ok(None)
    }

    async fn directory(&self, path: &str) -> Result<Directory, vfs::Error> {
        let found = self.volume.lookup_as(&self.caller, rel(path), identity::Rights::LOOKUP).await?;
        Ok(found.into_directory()?.0)
    }

    /// Opens the directory that a name lies in.
    async fn above(&self, path: &str) -> Result<Directory, vfs::Error> {
        self.directory(parent(path)).await
    }

    async fn writer(&self, path: &str) -> Result<Writer, vfs::Error> {
        self.above(path).await?.open_writer(&self.caller, last(path)).await
    }
}

/// Often, so that ends fall into commits and between them.
const COMMIT_PERIOD: Duration = Duration::from_millis(3);

fn version_of(file: &vfs::OpenFile) -> Option<FileVersion> {
    let object = file.object()?;
    let version = object.version();
    let number = object.number();
    let file = (number.vnode, number.uniquifier);
    let identity = format!("{:?}", object.identity());
    // An image that lost its power may be mounted again on another loop device.
    let identity = identity.split_once(':').map_or(identity.clone(), |(_, of_file)| of_file.to_owned());
    Some(FileVersion { file, identity, generation: version.generation, count: version.count })
}

fn rel(path: &str) -> RelPath<'_> {
    RelPath::parse(path.as_bytes()).expect("steps name paths")
}

fn last(path: &str) -> Name<'_> {
    let name = path.rsplit('/').next().expect("there is a last one");
    Name::parse(name.as_bytes()).expect("steps name names")
}

fn buf(bytes: Bytes) -> Buf {
    Buf::from(bytes.make())
}
