//! The files of the scenario: noise, so that no byte can stand for another.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::ensure;

/// A tree of `mid` (4 MiB), `wide` (32 MiB), `big` (1 GiB) and 10,000 files of 1000 bytes.
pub(super) struct Tree {
    noise: Vec<u8>,
}

impl Tree {
    pub(super) fn create() -> anyhow::Result<Self> {
        let mut noise = vec![0; WIDE_BYTES];
        File::open("/dev/urandom")?.read_exact(&mut noise)?;
        let tree = Self { noise };
        std::fs::create_dir_all(Path::new(ROOT).join("small"))?;
        tree.write("mid", tree.mid())?;
        tree.write("wide", tree.wide())?;
        for index in 0..SMALL_FILES {
            tree.write(&small_name(index), tree.small(index))?;
        }
        let big = File::create(Path::new(ROOT).join("big"))?;
        big.set_len(BIG_BYTES)?;
        for block in 0..BIG_BYTES / BLOCK {
            big.write_all_at(tree.page(block), block * BLOCK)?;
        }
        Ok(tree)
    }

    pub(super) fn write(&self, name: &str, content: &[u8]) -> anyhow::Result<()> {
        Ok(std::fs::write(Path::new(ROOT).join(name), content)?)
    }

    pub(super) fn mid(&self) -> &[u8] {
        &self.noise[..MID_BYTES]
    }

    pub(super) fn wide(&self) -> &[u8] {
        &self.noise
    }

    pub(super) fn small(&self, index: usize) -> &[u8] {
        &self.noise[index * SMALL_BYTES..][..SMALL_BYTES]
    }

    /// Compares a part of `big`, which lies at `at`.
    pub(super) fn is_big_at(&self, at: u64, mut bytes: &[u8]) -> anyhow::Result<()> {
        let mut at = at;
        while !bytes.is_empty() {
            let (block, within) = (at / BLOCK, (at % BLOCK) as usize);
            let page = self.page(block);
            let expected = if within < page.len() { &page[within..] } else { &ZEROS[within..BLOCK as usize] };
            let len = expected.len().min(bytes.len());
            ensure!(bytes[..len] == expected[..len], "wrong bytes after {at}");
            at += len as u64;
            bytes = &bytes[len..];
        }
        Ok(())
    }

    /// Returns the noise that a block of `big` begins with; the rest is a hole, which costs no memory.
    fn page(&self, block: u64) -> &[u8] {
        let pages = (self.noise.len() - PAGE) as u64;
        // An odd step: no two blocks begin alike.
        &self.noise[(block * 1021 % pages) as usize..][..PAGE]
    }
}

pub(super) fn small_name(index: usize) -> String {
    format!("small/{index:05}")
}

pub(super) const ROOT: &str = "/tmp/tree";
pub(super) const BIG_BYTES: u64 = 1 << 30;
pub(super) const SMALL_FILES: usize = 10_000;
const SMALL_BYTES: usize = 1000;
const MID_BYTES: usize = 4 << 20;
const WIDE_BYTES: usize = 32 << 20;
const PAGE: usize = 4096;
const BLOCK: u64 = 16 << 10;
const ZEROS: [u8; BLOCK as usize] = [0; BLOCK as usize];
