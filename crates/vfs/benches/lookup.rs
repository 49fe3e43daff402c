//! Cost of a look-up: `cargo bench -p vfs`. Each figure is the best of several rounds, so that the machine's
//! other work shows least.

use std::hint::black_box;
use std::time::Instant;

use lane::runtime::{RuntimeOptions, run_here};
use vfs::{Cache, CacheOptions, RelPath, Resolved, Volume, VolumeOptions, VolumeSpec};

fn main() {
    let dir = tempfile::tempdir().unwrap();
    let sub = dir.path().join("static/images");
    std::fs::create_dir_all(&sub).unwrap();
    for n in 0..FILES {
        std::fs::write(sub.join(format!("photo-{n}.jpeg")), "x").unwrap();
    }
    let path = dir.path().to_owned();
    run_here(RuntimeOptions::default(), async move {
        // Nothing expires: `cargo bench` shows the hit, the miss below clears the cache itself.
        let options = CacheOptions { ttl: std::time::Duration::from_secs(3600), ..Default::default() };
        let cache = Cache::new(options);
        let spec = VolumeSpec::new("bench".parse().unwrap(), path, VolumeOptions::default());
        let volume = Volume::open(&cache, &spec).unwrap();
        let paths: Vec<_> = (0..FILES).map(|n| format!("static/images/photo-{n}.jpeg")).collect();
        let absent: Vec<_> = paths.iter().map(|path| format!("{path}.br")).collect();
        for path in &absent {
            assert!(volume.lookup(parse(path)).await.is_err());
        }

        measure("parse a path", &paths, |path| {
            black_box(parse(path));
        });
        let opened: Vec<_> = {
            let mut opened = Vec::new();
            for path in &paths {
                opened.push(volume.lookup(parse(path)).await.unwrap().into_file().unwrap().0);
            }
            opened
        };
        measure("fstat alone", &opened, |file| {
            black_box(file.attributes().unwrap());
        });
        measure("hit: an open file, with its fstat", &paths, |path| {
            let Some(Ok(Resolved::File(file, _))) = volume.try_lookup(parse(path)) else {
                unreachable!("looked up above")
            };
            black_box(file);
        });
        measure("hit: an absent name", &absent, |path| {
            assert!(matches!(volume.try_lookup(parse(path)), Some(Err(_))));
        });
        drop(opened);
        let started = Instant::now();
        for _ in 0..ROUNDS {
            cache.clear();
            for path in &paths {
                black_box(volume.lookup(parse(path)).await.unwrap());
            }
        }
        report("miss: opened anew, name known to the kernel", started, ROUNDS * FILES);
    })
    .unwrap();
}

fn parse(path: &str) -> RelPath<'_> {
    RelPath::parse(path.as_bytes()).unwrap()
}

fn measure<T>(what: &str, inputs: &[T], mut run: impl FnMut(&T)) {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        for _ in 0..PASSES {
            inputs.iter().for_each(&mut run);
        }
        best = best.min(started.elapsed().as_nanos() as f64 / (PASSES * inputs.len()) as f64);
    }
    println!("{best:8.0} ns  {what}");
}

fn report(what: &str, started: Instant, count: usize) {
    println!("{:8.0} ns  {what}", started.elapsed().as_nanos() as f64 / count as f64);
}

const FILES: usize = 500;
const PASSES: usize = 40;
const ROUNDS: usize = 10;
