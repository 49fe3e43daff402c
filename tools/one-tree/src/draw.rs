//! Draws steps of a seed.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::operation::{
    Act, Amid, Condition, Disposition, End, FILES, Lease, Look, Looks, MODES, NAMES, Operation, Path, SLOTS,
    Step,
};

/// Parties of a run beside the clients, and how much is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Steps of a hundred that local programs do.
    pub local: u32,
    /// Steps of a thousand that end the server.
    pub ends: u32,
    /// Ways in which the server ends.
    pub kinds: &'static [End],
    /// Largest number of bytes that one step writes.
    pub len_max: u16,
    /// Number of looks of a protocol of which one is at everything, and one at nothing.
    pub whole: u32,
}

/// Draws the steps of a run. Each depends on the seed and its place alone, so a run with some of its steps left out
/// does the others as before.
pub fn steps(seed: u64, mix: &Mix, count: usize) -> Vec<Step> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut step = |index| {
        let operation = draw(&mut rng, mix);
        let [afs, smb, http] = [(); 3].map(|()| look(&mut rng, mix));
        let by_fid = rng.random_ratio(1, 3);
        Step { index, operation, looks: Looks { by_fid, afs, smb, http } }
    };
    (0..count).map(&mut step).collect()
}

fn look(rng: &mut SmallRng, mix: &Mix) -> Look {
    match rng.random_range(0..mix.whole) {
        0 => Look::All,
        1 => Look::Nothing,
        _ => Look::Touched,
    }
}

fn draw(rng: &mut SmallRng, mix: &Mix) -> Operation {
    if !mix.kinds.is_empty() && rng.random_range(0..1000) < mix.ends {
        return Operation::Restart { end: mix.kinds[rng.random_range(0..mix.kinds.len())] };
    }
    if mix.kinds.contains(&End::Kill) && rng.random_range(0..1000) < mix.ends {
        let change = [Amid::Put, Amid::Store][rng.random_range(0..2)];
        let (path, offset, len) = (path(rng), offset(rng, mix), len(rng, mix));
        return Operation::KillAmid { change, path, offset, len, after_us: rng.random_range(0..AMID_US) };
    }
    // Else hardly anything would be synced when the power goes.
    if mix.kinds.contains(&End::Power) && rng.random_range(0..1000) < mix.ends {
        return Operation::LocalSync;
    }
    if rng.random_range(0..100) < mix.local {
        return local(rng, mix);
    }
    match rng.random_range(0..100) {
        0..42 => smb(rng, mix),
        42..82 => afs(rng, mix),
        _ => http(rng, mix),
    }
}

fn smb(rng: &mut SmallRng, mix: &Mix) -> Operation {
    let (client, slot, path) = (rng.random_range(0..2), rng.random_range(0..SLOTS), path(rng));
    match rng.random_range(0..23) {
        0..6 => {
            let disposition = [
                Disposition::Open,
                Disposition::Open,
                Disposition::Create,
                Disposition::OpenIf,
                Disposition::Overwrite,
                Disposition::OverwriteIf,
            ][rng.random_range(0..6)];
            let (writes, shares) = (rng.random_ratio(3, 4), rng.random_ratio(5, 6));
            Operation::SmbOpen { client, slot, path, disposition, writes, shares, lease: lease(rng) }
        }
        6..9 => Operation::SmbWrite { client, slot, offset: offset(rng, mix), len: len(rng, mix) },
        9 => Operation::SmbTruncate { client, slot, len: len(rng, mix) },
        10..12 => Operation::SmbRename { client, slot, to: path, replace: rng.random() },
        12 => Operation::SmbLink { client, slot, to: path },
        13..15 => Operation::SmbClose { client, slot },
        15 => Operation::SmbMove { client, from: path, to: self::path(rng), replace: rng.random() },
        16 => Operation::SmbLinkName { client, from: path, to: self::path(rng) },
        17..19 => Operation::SmbRemove { client, path },
        19 => Operation::SmbDispose { client, slot },
        20..22 => {
            let path = match rng.random_range(0..4) {
                place @ 1..3 => Path::of_directory(place),
                _ => path,
            };
            let shares = rng.random_ratio(5, 6);
            Operation::SmbOpenDirectory { client, slot, path, shares, lease: lease(rng) }
        }
        _ => Operation::SmbMakeDirectory { client, path },
    }
}

fn lease(rng: &mut SmallRng) -> Lease {
    [
        Lease::None,
        Lease::Read,
        Lease::ReadHandle,
        Lease::ReadWriteHandle,
        Lease::ReadWriteHandle,
        Lease::LevelTwo,
        Lease::Exclusive,
        Lease::Batch,
    ][rng.random_range(0..8)]
}

fn afs(rng: &mut SmallRng, mix: &Mix) -> Operation {
    let (client, path) = (rng.random_range(0..2), path(rng));
    match rng.random_range(0..24) {
        0..5 => Operation::AfsRead { client, path },
        5..8 => Operation::AfsList { client, directory: path.directory() },
        8..11 => Operation::AfsCreate { client, path },
        11..14 => Operation::AfsStore { client, path, offset: offset(rng, mix), len: len(rng, mix) },
        14 => Operation::AfsTruncate { client, path, len: len(rng, mix) },
        15..17 => Operation::AfsRename { client, from: path, to: self::path(rng) },
        17..19 => {
            let name = rng.random_range(0..NAMES.len() as u8);
            let to = Path(path.directory() * NAMES.len() as u8 + name);
            Operation::AfsLink { client, from: path, to }
        }
        19..21 => Operation::AfsRemove { client, path },
        21 => Operation::AfsMakeDirectory { client, path },
        22 => Operation::AfsRemoveDirectory { client, path },
        _ => Operation::AfsGiveUp { client },
    }
}

fn http(rng: &mut SmallRng, mix: &Mix) -> Operation {
    let path = path(rng);
    if rng.random_ratio(1, 3) {
        return Operation::Delete { path };
    }
    let condition = match rng.random_range(0..6) {
        0 => Condition::AsRead,
        1 => Condition::Nothing,
        _ => Condition::Anything,
    };
    Operation::Put { path, condition, len: len(rng, mix) }
}

fn local(rng: &mut SmallRng, mix: &Mix) -> Operation {
    let path = path(rng);
    match rng.random_range(0..23) {
        0..2 => Operation::LocalCreate { path, len: len(rng, mix) },
        2..5 => Operation::LocalWrite { path, offset: offset(rng, mix), len: len(rng, mix) },
        5 => Operation::LocalTruncate { path, len: len(rng, mix) },
        6..8 => Operation::LocalReplace { path, len: len(rng, mix) },
        8 => Operation::LocalChmod { path, mode: MODES[rng.random_range(0..MODES.len())] },
        9..13 => Operation::LocalRename { from: path, to: self::path(rng) },
        13..15 => Operation::LocalLink { from: path, to: self::path(rng) },
        15..17 => Operation::LocalRemove { path },
        17 => Operation::LocalSync,
        18 => Operation::LocalSwap,
        19..22 => Operation::LocalSwapThen {
            act: act(rng),
            path: Path(rng.random_range(NAMES.len() as u8..FILES)),
            offset: offset(rng, mix),
            len: len(rng, mix),
            after_us: [0, rng.random_range(0..SWAP_US)][rng.random_range(0..2)],
        },
        _ => Operation::LocalMakeDirectory { path },
    }
}

fn act(rng: &mut SmallRng) -> Act {
    match rng.random_range(0..10) {
        0 => Act::Create,
        1..3 => Act::Write,
        3 => Act::Truncate,
        4 => Act::Replace,
        5 => Act::Chmod,
        6..8 => Act::Rename { to: path(rng) },
        8 => Act::Link { to: path(rng) },
        _ => Act::Remove,
    }
}

fn path(rng: &mut SmallRng) -> Path {
    Path(rng.random_range(0..FILES))
}

fn offset(rng: &mut SmallRng, mix: &Mix) -> u16 {
    if rng.random_ratio(1, 2) { 0 } else { rng.random_range(0..mix.len_max) }
}

fn len(rng: &mut SmallRng, mix: &Mix) -> u16 {
    rng.random_range(1..=mix.len_max)
}

/// Longer than the server takes to hear of a move, and to look where that led.
const SWAP_US: u16 = 60_000;
/// A change of a file takes less.
const AMID_US: u16 = 4_000;
