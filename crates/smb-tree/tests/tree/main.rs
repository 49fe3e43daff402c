//! Commands of SMB on a volume in a simulated world: what each answers, on one lane and on several.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use identity::{Accounts, Writable};
use lane::backend::sim::{Config, Fs, FsConfig, Host, Remains, World};
use smb_tree::{
    Breaks, CreateError, Created, LeaseBroken, Open, Opens, OpensLimits, ReadSource, RequestContext, Share,
    ShareOptions, Tree,
};
use smb_wire::create::access::rights;
use smb_wire::create::context::Contexts;
use smb_wire::create::{CreateRequest, CreateRequestFixed, Disposition};
use smb_wire::fixed::Fixed;
use smb_wire::text::{Text, encoded};
use smb_wire::{Dialect, FileId, Guid, Status};
use vfs::{Cache, CacheOptions, Caller, Objects, ObjectsOptions, Volume, VolumeOptions, VolumeSpec};

mod allocation;
mod allowed;
mod archive;
mod boundaries;
mod coherence;
mod creates;
mod data;
mod directories;
mod dispositions;
mod durable;
mod followed;
mod full;
mod information;
mod ioctls;
mod large;
mod leases;
mod link_names;
mod links;
mod locks;
mod moved;
mod notifies;
mod overheard;
mod own_file;
mod persisted;
mod renames;
mod restarts;
mod roots;
mod sessions;
mod shown;
mod undone;
mod write_times;

/// Breaks that were told on a lane.
#[derive(Default)]
struct Heard {
    oplocks: RefCell<Vec<(FileId, u8)>>,
    leases: RefCell<Vec<LeaseBroken>>,
}

impl Breaks for Heard {
    fn oplock(&self, open: FileId, _: u64, level: u8) {
        self.oplocks.borrow_mut().push((open, level));
    }

    fn lease(&self, broken: &LeaseBroken) {
        self.leases.borrow_mut().push(*broken);
    }
}

/// One lane of a process that shows `/srv`.
#[derive(Clone)]
struct Side {
    volume: Volume,
    share: Share,
    tree: Tree,
    heard: Rc<Heard>,
}

/// A CREATE in the making.
#[derive(Clone)]
struct Wish {
    access: u32,
    share: u32,
    disposition: Disposition,
    options: u32,
    attributes: u32,
    oplock: u8,
    contexts: Vec<u8>,
}

const EVERYTHING: u32 = rights::FILE_READ | rights::FILE_WRITE | rights::DELETE;

impl Wish {
    fn new(disposition: Disposition) -> Self {
        Self {
            access: EVERYTHING,
            share: 7,
            disposition,
            options: 0,
            attributes: 0,
            oplock: 0,
            contexts: Vec::new(),
        }
    }

    fn with(self, options: u32) -> Self {
        Self { options, ..self }
    }
}

fn request_context(session: u64) -> RequestContext {
    RequestContext {
        caller: Caller::new(Accounts::none().local_administrator()),
        session,
        tree: 1,
        client: Guid::new([session as u8; 16]),
        address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, session as u8)),
        dialect: Dialect::Smb311,
        posix: false,
        apple: Arc::default(),
    }
}

/// Makes a context ([`request_context`]) of a user that is given rights by lists and descriptors alone.
fn mary(session: u64) -> RequestContext {
    let accounts = Accounts::parse("version = 1\n[user.mary]\nid = 7\n").unwrap();
    RequestContext { caller: Caller::new(accounts.user("mary").unwrap()), ..request_context(session) }
}

impl Side {
    async fn create(
        &self,
        request_context: &RequestContext,
        name: &str,
        wish: &Wish,
    ) -> Result<Created, CreateError> {
        self.create_or_replay(request_context, name, wish, false).await
    }

    async fn replay(
        &self,
        request_context: &RequestContext,
        name: &str,
        wish: &Wish,
    ) -> Result<Created, CreateError> {
        self.create_or_replay(request_context, name, wish, true).await
    }

    async fn create_or_replay(
        &self,
        request_context: &RequestContext,
        name: &str,
        wish: &Wish,
        replay: bool,
    ) -> Result<Created, CreateError> {
        let mut fixed = CreateRequestFixed::blank();
        fixed.requested_oplock_level = wish.oplock;
        fixed.impersonation_level.set(2);
        fixed.desired_access.set(wish.access);
        fixed.file_attributes.set(wish.attributes);
        fixed.share_access.set(wish.share);
        fixed.create_disposition.set(wish.disposition as u32);
        fixed.create_options.set(wish.options);
        let name = encoded(name);
        let request = CreateRequest {
            fixed: &fixed,
            name: Text::new(&name).unwrap(),
            contexts: Contexts::parse(&wish.contexts).map_err(|why| why.status())?,
        };
        self.share.create(request_context, &request, 0, replay).await
    }

    async fn open(&self, request_context: &RequestContext, name: &str, wish: &Wish) -> Arc<Open> {
        let created = self.create(request_context, name, wish).await;
        created.unwrap_or_else(|error| panic!("{name}: {:?}", error.status)).open
    }

    async fn status(&self, request_context: &RequestContext, name: &str, wish: &Wish) -> Status {
        match self.create(request_context, name, wish).await {
            Ok(created) => {
                self.share.close(request_context, &created.open, 0).await.unwrap();
                Status::SUCCESS
            }
            Err(error) => error.status,
        }
    }

    async fn make(&self, request_context: &RequestContext, name: &str, content: &[u8]) {
        let open = self.open(request_context, name, &Wish::new(Disposition::Create)).await;
        self.share.write_bytes(request_context, &open, 0, content, false).await.unwrap();
        self.share.close(request_context, &open, 0).await.unwrap();
    }

    async fn read(
        &self,
        request_context: &RequestContext,
        open: &Arc<Open>,
        offset: u64,
        len: u32,
    ) -> Result<Vec<u8>, Status> {
        match self.share.read(request_context, open, offset, len, 0).await? {
            ReadSource::Bytes(bytes) => Ok(bytes),
            ReadSource::File { file, offset, len } => {
                let buf = lane::current().buffers().get(lane::buffer::BufClass::Large).await;
                let (read, buf) = file.read_at(offset, len as usize, buf).await;
                assert_eq!(read.unwrap(), len as usize, "what was promised is there");
                Ok(buf.to_vec())
            }
        }
    }

    async fn content(&self, request_context: &RequestContext, name: &str) -> Result<Vec<u8>, Status> {
        let reading = Wish { access: rights::FILE_READ, ..Wish::new(Disposition::Open) };
        let created = self.create(request_context, name, &reading).await.map_err(|error| error.status)?;
        let read = self.read(request_context, &created.open, 0, 65_536).await;
        self.share.close(request_context, &created.open, 0).await.unwrap();
        match read {
            Err(Status::END_OF_FILE) => Ok(Vec::new()),
            read => read,
        }
    }
}

/// Returns what a task comes to, and how often others of the lane had their turn meanwhile.
async fn turns_of<T>(task: impl Future<Output = T>) -> (T, usize) {
    let mut task = std::pin::pin!(task);
    let mut turns = 0;
    let output = std::future::poll_fn(|cx| {
        let polled = task.as_mut().poll(cx);
        turns += usize::from(polled.is_pending());
        polled
    });
    (output.await, turns)
}

/// Runs `each` on every lane of a process at once, until all have ended, and looks that nothing is left.
fn on_lanes<F: Future<Output = ()> + 'static>(seed: u64, lanes: usize, each: impl Fn(usize, Side) -> F) {
    on_lanes_within(OpensLimits::default(), seed, lanes, each);
}

fn on_lanes_within<F: Future<Output = ()> + 'static>(
    limits: OpensLimits,
    seed: u64,
    lanes: usize,
    each: impl Fn(usize, Side) -> F,
) {
    in_world(World::new(seed, Config::clean()), limits, lanes, each);
}

/// Runs a test on one lane whose disk takes its time, and does things in another order than they were asked for.
fn on_slow_disk<F: Future<Output = ()> + 'static>(seed: u64, test: impl Fn(Side) -> F) {
    let mut config = Config::clean();
    config.fs.delay = Duration::from_micros(10)..Duration::from_millis(20);
    in_world(World::new(seed, config), OpensLimits::default(), 1, |_, side| test(side));
}

/// Runs a test on one lane with another disk than usual.
fn on_disk<F: Future<Output = ()> + 'static>(config: impl Fn(&mut FsConfig), test: impl Fn(Side) -> F) {
    let mut world = Config::clean();
    config(&mut world.fs);
    in_world(World::new(1, world), OpensLimits::default(), 1, |_, side| test(side));
}

fn in_world<F: Future<Output = ()> + 'static>(
    world: World,
    limits: OpensLimits,
    lanes: usize,
    each: impl Fn(usize, Side) -> F,
) {
    let host = world.host("10.0.0.1");
    in_world_beside(world, &host, limits, lanes, |n, side, _| each(n, side));
}

/// Runs a test ([`alone`]) beside other programs that use the file system.
fn beside_programs<F: Future<Output = ()> + 'static>(test: impl Fn(Side, Fs) -> F) {
    let world = World::new(1, Config::clean());
    let host = world.host("10.0.0.1");
    in_world_beside(world, &host, OpensLimits::default(), 1, |_, side, fs| test(side, fs));
}

fn in_world_beside<F: Future<Output = ()> + 'static>(
    world: World,
    host: &Host,
    limits: OpensLimits,
    lanes: usize,
    each: impl Fn(usize, Side, Fs) -> F,
) {
    host.fs().create_dir_all("/srv").unwrap();
    let objects = Objects::in_memory(ObjectsOptions { lanes_max: lanes, ..Default::default() });
    let opens = Opens::new(limits);
    let numbers: Vec<usize> = std::iter::once(0).chain((1..lanes).map(|_| host.add_lane())).collect();
    let mut tasks = Vec::new();
    for (n, &number) in numbers.iter().enumerate() {
        let (objects, opens) = (objects.clone(), Arc::clone(&opens));
        let opened = host.start_on(number, async move { side(&objects, opens) });
        let side = world.block_on(host, opened);
        tasks.push(host.start_on(number, each(n, side, host.fs())));
    }
    world.block_on(host, async move {
        for task in tasks {
            task.await;
        }
    });
    assert_eq!(opens.usage().opens, 0, "an open outlived its test");
    assert_eq!(world.end(), Remains::default());
    assert_eq!(objects.in_use(), 0, "an object outlived its users");
}

fn side(objects: &Objects, opens: Arc<Opens>) -> Side {
    side_for(objects, opens, Accounts::none())
}

/// Makes a side ([`side`]) for these users.
fn side_for(objects: &Objects, opens: Arc<Opens>, accounts: Arc<Accounts>) -> Side {
    let options = VolumeOptions { serve_hidden: true, ..Default::default() };
    let spec = VolumeSpec::new("test".parse().unwrap(), "/srv", options);
    let spec = spec.with_objects().writable_by(Writable::anyone());
    let cache = Cache::sharing(CacheOptions::default(), objects);
    let volume = Volume::open(&cache, &spec).unwrap();
    let heard = Rc::new(Heard::default());
    let tree = Tree::new(opens, Rc::clone(&heard) as _);
    let options = ShareOptions { accounts, ..ShareOptions::default() };
    objects.call_by(options.sids.clone());
    let share = tree.add_share("test", volume.clone(), options);
    Side { volume, share, tree, heard }
}

/// Runs a test on one lane.
fn alone<F: Future<Output = ()> + 'static>(test: impl Fn(Side) -> F) {
    on_lanes(1, 1, |_, side| test(side));
}

/// Runs a test ([`alone`]) with these limits.
fn limited<F: Future<Output = ()> + 'static>(limits: OpensLimits, test: impl Fn(Side) -> F) {
    on_lanes_within(limits, 1, 1, |_, side| test(side));
}
