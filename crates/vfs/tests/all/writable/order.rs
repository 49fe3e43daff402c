//! Creates, removes, renames and looks of several lanes at once, in a tree so small that they meet all the time.

use std::time::Duration;

use lane::backend::sim::{Config, seeds};
use lane::time;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use vfs::{CreateOptions, Directory, Error, Replace, Volume};

use super::history::{Asked, Came, Operation, explain};
use super::{inode, name, nobody, on_lanes, root};

#[test]
fn changes_of_several_lanes_equal_some_order_and_show_at_the_next_look() {
    seeds(1000, |seed| {
        let histories = on_lanes(seed, config(), 3, move |lane, _, volume| async move {
            let inode = root(&volume).await.id().ino;
            (inode, change_at_random(volume, seed * 3 + lane as u64).await)
        });
        let root = histories[0].0;
        let operations: Vec<_> = histories.into_iter().flat_map(|(_, operations)| operations).collect();
        explain(root, &operations);
    });
}

fn config() -> Config {
    let mut config = Config::clean();
    config.fs.delay = Duration::ZERO..Duration::from_micros(300);
    config.fs.cold_open = 0.5;
    config
}

async fn change_at_random(volume: Volume, seed: u64) -> Vec<Operation> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut open = vec![root(&volume).await];
    let mut operations = Vec::new();
    for _ in 0..12 {
        time::sleep(Duration::from_micros(rng.random_range(0..200))).await;
        let began = time::now();
        let (asked, came) = one_at_random(&volume, &mut open, &mut rng).await;
        operations.push(Operation { began, ended: time::now(), asked, came });
    }
    operations
}

async fn one_at_random(volume: &Volume, open: &mut Vec<Directory>, rng: &mut SmallRng) -> (Asked, Came) {
    let at = open.choose(rng).unwrap().clone();
    let (here, name_here) = (at.id().ino, *NAMES.choose(rng).unwrap());
    match rng.random_range(0..16) {
        0..5 => look(volume, open, rng).await,
        5..7 => {
            let how = CreateOptions { exclusive: true, mode: 0o644 };
            let created = at.create(&nobody(), name(name_here), how).await;
            (Asked::Create(here, name_here), came(created.map(|created| created.attributes.id.ino)))
        }
        7..9 => {
            let made = at.make_directory(&nobody(), name(name_here), 0o755).await;
            let came = came(made.as_ref().map(|made| made.id().ino));
            open.extend(made.ok());
            (Asked::MakeDirectory(here, name_here), came)
        }
        9 => (Asked::Remove(here, name_here), done(at.remove(&nobody(), name(name_here)).await)),
        10 => {
            let removed = at.remove_directory(&nobody(), name(name_here)).await;
            (Asked::RemoveDirectory(here, name_here), done(removed))
        }
        11 | 12 => {
            let (there, other) = (open.choose(rng).unwrap().clone(), *NAMES.choose(rng).unwrap());
            let exchanged = at.exchange(&nobody(), name(name_here), &there, name(other)).await;
            (Asked::Exchange((here, name_here), (there.id().ino, other)), done(exchanged))
        }
        _ => {
            let (there, to) = (open.choose(rng).unwrap().clone(), *NAMES.choose(rng).unwrap());
            let replace = rng.random();
            let over = if replace { Replace::Existing } else { Replace::Never };
            let renamed = at.rename(&nobody(), name(name_here), &there, name(to), over).await;
            let asked = Asked::Rename { from: (here, name_here), to: (there.id().ino, to), replace };
            (asked, done(renamed))
        }
    }
}

async fn look(volume: &Volume, open: &mut Vec<Directory>, rng: &mut SmallRng) -> (Asked, Came) {
    let depth = rng.random_range(1..4);
    let names: Vec<_> = (0..depth).map(|_| *NAMES.choose(rng).unwrap()).collect();
    let found = inode(volume, &names.join("/")).await;
    if open.len() < 4
        && let Ok(resolved) = volume.lookup(super::path(&names.join("/"))).await
        && let Ok((directory, _)) = resolved.into_directory()
    {
        open.push(directory);
    }
    (Asked::Look(names), found.map_or(Came::Refused, Came::Inode))
}

fn came<E: std::borrow::Borrow<Error>>(result: Result<u64, E>) -> Came {
    match result {
        Ok(inode) => Came::Inode(inode),
        Err(error) => refused(error.borrow()),
    }
}

fn done(result: Result<(), Error>) -> Came {
    match result {
        Ok(()) => Came::Done,
        Err(error) => refused(&error),
    }
}

/// By the rules of the tree, as against for want of something.
fn refused(error: &Error) -> Came {
    use Error::{Exists, IntoItself, IsADirectory, NotADirectory, NotEmpty, NotFound, Stale};
    assert!(
        matches!(error, Exists | IntoItself | IsADirectory | NotADirectory | NotEmpty | NotFound | Stale),
        "{error}: {error:?}"
    );
    Came::Refused
}

const NAMES: [&str; 3] = ["a", "b", "c"];
