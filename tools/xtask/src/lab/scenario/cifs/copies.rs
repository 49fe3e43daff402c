//! A tree of files is copied into the mount and out of it.

use std::fs;
use std::ops::Range;

use super::{TREE, at};
use crate::lab::guest::{Guest, disk};
use crate::process;

/// Files of a few bytes each, beside the mount.
pub(super) struct Copies {
    files: usize,
}

impl Copies {
    pub(super) fn prepare(files: usize) -> anyhow::Result<Self> {
        for directory in [SOURCE, BACK] {
            if fs::exists(directory)? {
                fs::remove_dir_all(directory)?;
            }
        }
        for number in 0..files {
            let directory = format!("{SOURCE}/{}/{}", number / THOUSAND, number / 100 % 10);
            if number % 100 == 0 {
                fs::create_dir_all(&directory)?;
            }
            let text = number.to_string().repeat(number % 50);
            fs::write(format!("{directory}/a file, number {number}"), text)?;
        }
        Ok(Self { files })
    }

    /// Checks that the copy in the mount is the same in the tree. Its copy beside the mount is the same again, once
    /// the client and the server have forgotten every page.
    pub(super) fn there_and_back(&self, guest: &mut Guest) -> anyhow::Result<()> {
        self.copied(guest, SOURCE, &at("copy"), "into the mount")?;
        process::output("diff", &["-r", SOURCE, &format!("{TREE}/copy")])?;
        disk::drop_caches()?;
        self.copied(guest, &at("copy"), BACK, "out of it")?;
        process::output("diff", &["-r", SOURCE, BACK])?;
        Ok(())
    }

    /// Copies the directories, a thousand files at a time, and notes each for the person at the terminal.
    fn copied(&self, guest: &mut Guest, from: &str, to: &str, way: &str) -> anyhow::Result<()> {
        fs::create_dir(to)?;
        for directory in self.directories() {
            process::output("cp", &["-r", &format!("{from}/{directory}"), to])?;
            if self.files > THOUSAND {
                guest.note(format!("{} files are copied {way}", (directory + 1) * THOUSAND))?;
            }
        }
        Ok(())
    }

    fn directories(&self) -> Range<usize> {
        0..self.files.div_ceil(THOUSAND)
    }
}

const SOURCE: &str = "/tmp/source";
const BACK: &str = "/tmp/back";
const THOUSAND: usize = 1000;
