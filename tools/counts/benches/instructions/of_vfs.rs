//! Instructions that a change of a writable volume takes, and a look-up there, beside the simulated file system's own, which are
//! the same every time.

use std::cell::RefCell;
use std::hint::black_box;
use std::rc::Rc;
use std::time::Duration;

use gungraun::{library_benchmark, library_benchmark_group};
use identity::{Rights, Writable};
use lane::backend::sim::{Config, Host, World};
use lane::buffer::BufClass;
use vfs::{
    Cache, CacheOptions, Caller, CreateOptions, Directory, Name, Objects, ObjectsOptions, RelPath, Volume,
    VolumeOptions, VolumeSpec, Writer,
};

// Each file is made, kept by the lane's cache, and removed.
#[library_benchmark]
#[bench::in_one_directory(Tree::new())]
fn create_and_remove_64_files(tree: Tree) -> Tree {
    tree.run(async |root, _| {
        for name in names() {
            come_and_go(root, &name).await;
        }
    });
    tree
}

#[library_benchmark]
#[bench::one_kib(Tree::new())]
fn write_64_times(tree: Tree) -> Tree {
    tree.run(async |_, writer| {
        let caller = Caller::anonymous();
        for n in 0..ROUNDS {
            let mut buf = lane::current().buffers().get(BufClass::Small).await;
            buf.append(&[7; 1024]);
            let (written, _) = writer.write_at(&caller, n * 1024, buf).await;
            black_box(written).expect("room");
        }
    });
    tree
}

// What a lane relies on already it answers from its own memory: no lock, and nothing that another lane reads is written.
#[library_benchmark]
#[bench::known(Tree::new())]
fn look_up_64_promised_files(tree: Tree) -> Tree {
    tree.run(async |root, _| {
        let (caller, volume) = (Caller::anonymous(), root.volume());
        let path = RelPath::parse(b"kept").expect("a path");
        for _ in 0..ROUNDS {
            black_box(volume.lookup_as(&caller, path, Rights::READ).await).expect("it is there");
        }
    });
    tree
}

/// Writable volume with one file, on each of whose paths an operation has gone before.
struct Tree {
    open: Rc<RefCell<Option<(Directory, Writer)>>>,
    host: Host,
    world: World,
}

impl Tree {
    fn new() -> Self {
        let world = World::new(1, Config::clean());
        let host = world.host("10.0.0.1");
        host.fs().create_dir_all("/srv").expect("an empty disk");
        // What was made in this very tick of the clock might change without showing.
        world.run_for(Duration::from_secs(3));
        let open = world.block_on(&host, async {
            let objects = Objects::in_memory(ObjectsOptions::default());
            // The simulated clock runs while operations do: nothing gets old.
            let cache = CacheOptions { ttl: Duration::from_secs(3600), ..CacheOptions::default() };
            let cache = Cache::sharing(cache, &objects);
            let spec = VolumeSpec::new("count".parse().expect("a name"), "/srv", VolumeOptions::default());
            let volume = Volume::open(&cache, &spec.writable_by(Writable::anyone())).expect("a directory");
            let root = volume.lookup(RelPath::ROOT).await.expect("it is there");
            let root = root.into_directory().expect("a directory").0;
            come_and_go(&root, "first").await;
            let how = CreateOptions { exclusive: true, mode: 0o644 };
            let kept = Name::parse(b"kept").expect("a name");
            let made = root.create(&Caller::anonymous(), kept, how).await.expect("room");
            volume.lookup(RelPath::parse(b"kept").expect("a path")).await.expect("it is there");
            (root, made.writer)
        });
        Self { open: Rc::new(RefCell::new(Some(open))), host, world }
    }

    fn run(&self, story: impl AsyncFn(&Directory, &Writer) + 'static) {
        let slot = Rc::clone(&self.open);
        self.world.block_on(&self.host, async move {
            let open = slot.take().expect(OPEN);
            story(&open.0, &open.1).await;
            slot.replace(Some(open));
        });
    }
}

impl Drop for Tree {
    /// Drops the open on its own host, as a descriptor ends where it lives.
    fn drop(&mut self) {
        let open = Rc::clone(&self.open);
        self.world.block_on(&self.host, async move { drop(open.take()) });
    }
}

async fn come_and_go(root: &Directory, name: &str) {
    let (anyone, name) = (Caller::anonymous(), Name::parse(name.as_bytes()).expect("a name"));
    let how = CreateOptions { exclusive: true, mode: 0o644 };
    drop(black_box(root.create(&anyone, name, how).await).expect("room"));
    root.remove(&anyone, name).await.expect("it is there");
}

fn names() -> Vec<String> {
    (0..ROUNDS).map(|n| format!("file-{n}")).collect()
}

library_benchmark_group!(
    name = in_vfs,
    benchmarks = [create_and_remove_64_files, write_64_times, look_up_64_promised_files]
);
const ROUNDS: u64 = 64;
const OPEN: &str = "the volume is open as long as its owner";
