//! Cases that are kept: files of bytes, each named by the hash of what is in it.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use rand::rngs::SmallRng;
use rand::{Rng, RngCore};

/// Bytes of a case.
pub const INPUT_MAX: usize = 4096;

/// Reads the cases of a directory, by name.
///
/// # Errors
/// Those of reading it; where there is none there are no cases.
pub fn load(directory: &Path) -> std::io::Result<BTreeMap<String, Vec<u8>>> {
    let mut cases = BTreeMap::new();
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(cases),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            cases.insert(entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path())?);
        }
    }
    Ok(cases)
}

/// Returns the name of a case.
pub fn name_of(input: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Keeps a case.
///
/// # Errors
/// Those of writing it.
pub fn save(directory: &Path, input: &[u8]) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(directory)?;
    let path = directory.join(name_of(input));
    std::fs::write(&path, input)?;
    Ok(path)
}

/// Cases that together show all that these do: the one that shows most first, then the one that adds most to
/// it.
pub fn cover(cases: &[(Vec<u8>, HashSet<u64>)], bytes_max: usize) -> Vec<usize> {
    let (mut seen, mut chosen, mut bytes) = (HashSet::new(), Vec::new(), 0);
    let mut left: Vec<usize> = (0..cases.len()).collect();
    loop {
        let adds = |at: &usize| cases[*at].1.difference(&seen).count();
        // What a byte shows.
        let worth = |at: &usize| (adds(at) << 20) / (cases[*at].0.len() + 64);
        left.retain(|at| adds(at) > 0);
        let Some(best) = left.iter().copied().max_by_key(worth) else { return chosen };
        bytes += cases[best].0.len();
        if bytes > bytes_max {
            return chosen;
        }
        seen.extend(&cases[best].1);
        chosen.push(best);
    }
}

/// Makes a new case of one or two that there are, or of nothing.
pub fn mutate(cases: &[Vec<u8>], rng: &mut SmallRng) -> Vec<u8> {
    if cases.is_empty() || rng.random_bool(0.05) {
        let mut input = vec![0; rng.random_range(16..2048)];
        rng.fill_bytes(&mut input);
        return input;
    }
    let one = |rng: &mut SmallRng| cases[rng.random_range(0..cases.len())].clone();
    let mut input = one(rng);
    let many = if rng.random_bool(0.3) { 24 } else { 4 };
    for _ in 0..rng.random_range(1..=many) {
        let len = input.len();
        if len == 0 {
            input.push(rng.random());
            continue;
        }
        let at = rng.random_range(0..len);
        let n = rng.random_range(1..=16.min(len - at));
        match rng.random_range(0..10) {
            0 => input[at] ^= 1 << rng.random_range(0..8),
            1 | 2 => input[at] = rng.random(),
            3 => input[at] = input[at].wrapping_add(rng.random_range(0..9)).wrapping_sub(4),
            4 => drop(input.drain(at..at + n)),
            5 => {
                let mut more = vec![0; n];
                rng.fill_bytes(&mut more);
                input.splice(at..at, more);
            }
            6 => {
                let part = input[at..at + n].to_vec();
                let to = rng.random_range(0..=len);
                input.splice(to..to, part);
            }
            7 => rng.fill_bytes(&mut input[at..at + n]),
            8 => {
                let other = one(rng);
                let from = rng.random_range(0..=other.len());
                let end = other.len().min(from + rng.random_range(1..256));
                input.splice(at..at, other[from..end].iter().copied());
            }
            _ => {
                let other = one(rng);
                let from = rng.random_range(0..=other.len());
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
        }
    }
    input.truncate(INPUT_MAX);
    input
}
