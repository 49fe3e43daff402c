//! Memory of objects and callbacks, as an allocator of glibc's kind takes it: counted, not reckoned.

use std::sync::Arc;
use std::time::{Duration, Instant};

use coherence::Holder;
use lane::memory::{Counting, Taken};
use lane::mesh::Member;

use super::{CallbackTable, Client};
use crate::object::{Identity, Objects, ObjectsOptions, Place, SharedVolume};

#[test]
fn a_million_objects_with_callbacks_fit_in_512_mib_and_a_callback_takes_at_most_100_bytes() {
    let before = Taken::here();
    let options = ObjectsOptions { objects_max: COUNT + 1, ..Default::default() };
    let objects = Objects::in_memory(options);
    let volume = SharedVolume::of_nothing(&objects, "test");
    let get = |n: usize| objects.get(&volume, identity(n)).unwrap();
    let directory = get(COUNT);
    let all: Vec<_> = (0..COUNT).map(get).collect();
    for (object, n) in all.iter().zip(0..) {
        let name = format!("page-{n:07}").into_bytes().into();
        object.set_place(Place { directory: Arc::clone(&directory), name });
    }
    // The list of them is the test's own.
    let list = size_of_val(&*all) as isize;
    let of_objects = (Taken::here().now - before.now - list) / COUNT as isize;

    let lane = Member::from(0);
    let now = Instant::now();
    let (callbacks, until) = (CallbackTable::new(lane, now), now + Duration::from_secs(3600));
    let clients: Vec<_> = (0..CLIENTS).map(|n| Client::new(Holder(n), lane, 256)).collect();
    let given = Taken::here();
    let give = |nth: usize| {
        let mut pending_breaks = Vec::new();
        for (object, n) in all.iter().zip(0..) {
            let client = &clients[(n + nth) % clients.len()];
            let callback_ref =
                callbacks.give(client, object, until, now, 2 * COUNT, &mut pending_breaks).unwrap();
            // The reply leaves nothing behind.
            drop(callbacks.in_flight_reply(callback_ref));
        }
        assert!(pending_breaks.is_empty());
    };
    give(0);
    let first = Taken::here();
    // Of every object with its first callback: all that leads to either.
    let of_first = (first.now - given.now) / COUNT as isize;
    assert_eq!(
        (objects.in_use(), callbacks.object_count(), callbacks.callback_count()),
        (COUNT + 1, COUNT, COUNT)
    );
    assert!(of_first <= 100, "{of_first} bytes for a callback and the lane's record of its object");
    let most = first.most - before.now - list;
    assert!(most <= 512 << 20, "{most} bytes at most, {of_objects} + {of_first} each");

    give(1);
    let of_next = (Taken::here().now - first.now) / COUNT as isize;
    assert_eq!(callbacks.callback_count(), 2 * COUNT);
    assert!(of_next <= 100, "{of_next} bytes for a callback to another client");
    println!(
        "{of_objects} bytes for an object, {of_first} for its first callback, {of_next} for the next; {most} at most"
    );

    drop((all, directory, callbacks));
    assert_eq!(objects.in_use(), 0);
}

/// Makes an identity like those of ext4 and XFS: an inode number and a generation.
fn identity(n: usize) -> Identity {
    let mut handle = [0; 12];
    handle[..8].copy_from_slice(&(n as u64).to_le_bytes());
    Identity::of_handle(1, 1, &handle)
}

const COUNT: usize = 1_000_000;
const CLIENTS: u64 = 100;

#[global_allocator]
static COUNTING: Counting = Counting;
