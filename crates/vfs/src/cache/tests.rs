//! Beliefs of the cache, with look and event in the orders that a busy lane may bring about.

use std::path::Path;

use lane::backend::sim::{Config, Fs, Remains, World};
use lane::time;

use super::*;
use crate::io_faults::FaultPlace;
use crate::name::RelPath;
use crate::spec::{VolumeOptions, VolumeSpec};

#[test]
fn an_event_heard_between_look_and_keeping_keeps_the_answer_out() {
    in_world(|fs| async move {
        fs.write("/srv/page", "old").unwrap();
        let (cache, root) = cache_and_root();
        let key = key(b"page");
        let validity = cache.validity_above(&root, key).await;
        assert!(validity.is_watched());
        let node = open(&cache, &root, key).await;
        fs.replace("/srv/page", "new").unwrap();
        time::sleep(Duration::from_millis(1)).await;
        cache.keep_open(key, node, validity.clone());
        assert!(cache.peek(key).is_none());
        cache.keep_absent(key, validity);
        assert!(cache.find(key).is_none());
        // Without an event in between, the answer is kept.
        let validity = cache.validity_above(&root, key).await;
        let node = open(&cache, &root, key).await;
        cache.keep_open(key, node, validity);
        assert!(matches!(cache.find(key), Some(CachedLookup::Open(_))));
    });
}

#[test]
fn an_event_for_another_name_leaves_kept_answers_alone() {
    in_world(|fs| async move {
        fs.write("/srv/page", "x").unwrap();
        let (cache, root) = cache_and_root();
        let key = key(b"page");
        let validity = cache.validity_above(&root, key).await;
        let node = open(&cache, &root, key).await;
        cache.keep_open(key, node, validity);
        fs.write("/srv/other", "x").unwrap();
        time::sleep(Duration::from_millis(1)).await;
        assert!(matches!(cache.find(key), Some(CachedLookup::Open(_))));
    });
}

#[test]
fn watches_end_with_the_last_answer_that_needs_them() {
    in_world(|fs| async move {
        fs.write("/srv/a/b/page", "x").unwrap();
        let (cache, root) = cache_and_root();
        let (page, upper) = (key(b"a/b/page"), key(b"a/b"));
        for key in [page, upper] {
            let validity = cache.validity_above(&root, key).await;
            let node = open(&cache, &root, key).await;
            cache.keep_open(key, node, validity);
        }
        assert_eq!(cache.counters().watches.get(), 3);
        cache.forget(page);
        assert_eq!(cache.counters().watches.get(), 2);
        cache.forget(upper);
        assert_eq!(cache.counters().watches.get(), 0);
    });
}

#[test]
fn a_scan_for_absent_names_evicts_no_open_file() {
    in_world(|fs| async move {
        fs.write("/srv/page", "x").unwrap();
        let (cache, root) = cache_and_root();
        let page = key(b"page");
        let validity = cache.validity_above(&root, page).await;
        let node = open(&cache, &root, page).await;
        cache.keep_open(page, node, validity.clone());
        for n in 0..10_000 {
            let name = format!("wp-{n}.php");
            let absent = KeyRef { path: RelPath::parse(name.as_bytes()).unwrap(), ..page };
            cache.keep_absent(absent, validity.clone());
        }
        assert!(matches!(cache.find(page), Some(CachedLookup::Open(_))));
        assert!(cache.counters().absent_cached.get() <= cache.options().absent_names_max as u64);
    });
}

fn in_world<F: Future<Output = ()> + 'static>(test: impl FnOnce(Fs) -> F) {
    let world = World::new(1, Config::clean());
    let host = world.host("10.0.0.1");
    let main = test(host.fs());
    world.block_on(&host, main);
    assert_eq!(world.end(), Remains::default());
}

fn cache_and_root() -> (Cache, Root) {
    let options =
        CacheOptions { ttl: Duration::from_secs(3600), absent_names_max: 100, ..CacheOptions::default() };
    let spec = VolumeSpec::new("test".parse().unwrap(), "/srv", VolumeOptions::default());
    (Cache::new(options), Root::open(&spec).unwrap())
}

fn key(path: &[u8]) -> KeyRef<'_> {
    KeyRef { volume: OpeningId(0), path: RelPath::parse(path).unwrap() }
}

async fn open(cache: &Cache, root: &Root, key: KeyRef<'_>) -> Node {
    let file = root.open_beneath(key.path).await.unwrap();
    let id = crate::attributes::Attributes::from(file.stat().unwrap()).id;
    let place = FaultPlace::new(&Path::new("/srv").into(), key.path);
    Node::File(Rc::new(OpenFile::new(file, id, place, None, Arc::clone(cache.counters()))))
}
