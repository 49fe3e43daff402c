//! The bytes of a file: what readers see at once, and what of it has reached the disk.

use rand::Rng;

use crate::backend::sim::engine::Engine;

/// A file's bytes. Writes show at once and are safe only after a sync.
#[derive(Default)]
pub(super) struct Content {
    bytes: Vec<u8>,
    /// What a loss of power falls back to; `None` when all is synced.
    durable: Option<Vec<u8>>,
    unsynced: Vec<Write>,
}

/// One write since the last sync, in order.
enum Write {
    At { offset: usize, bytes: Vec<u8> },
    Resize(usize),
}

impl Content {
    /// Bytes that are safe.
    pub(super) fn synced(bytes: Vec<u8>) -> Self {
        Self { bytes, durable: None, unsynced: Vec::new() }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn write_at(&mut self, offset: usize, bytes: &[u8]) {
        self.begin();
        let write = Write::At { offset, bytes: bytes.to_vec() };
        write.apply(&mut self.bytes);
        self.unsynced.push(write);
    }

    pub(super) fn resize(&mut self, len: usize) {
        self.begin();
        self.bytes.resize(len, 0);
        self.unsynced.push(Write::Resize(len));
    }

    /// All that was written since the last sync is safe, were it well or not.
    pub(super) fn sync(&mut self) {
        let Some(durable) = &mut self.durable else { return };
        for write in self.unsynced.drain(..) {
            write.apply(durable);
        }
        if *durable == self.bytes {
            self.durable = None;
        }
    }

    /// The disk has refused some of it. The kernel keeps showing what it could not write, and never writes it again.
    pub(super) fn fail_sync(&mut self, engine: &mut Engine) {
        let Some(durable) = &mut self.durable else { return };
        for write in self.unsynced.drain(..) {
            write.tear(durable, engine);
        }
    }

    /// Of every unsynced write, each sector has reached the disk or not: earlier ones no likelier than later.
    pub(super) fn lose_power(&mut self, engine: &mut Engine) {
        let Some(mut durable) = self.durable.take() else { return };
        for write in std::mem::take(&mut self.unsynced) {
            write.tear(&mut durable, engine);
        }
        self.bytes = durable;
    }

    fn begin(&mut self) {
        if self.durable.is_none() {
            self.durable = Some(self.bytes.clone());
        }
    }
}

impl Write {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Self::Resize(len) => to.resize(*len, 0),
            Self::At { offset, bytes } => write_into(to, *offset, bytes),
        }
    }

    fn tear(&self, disk: &mut Vec<u8>, engine: &mut Engine) {
        match self {
            Self::Resize(len) => {
                if engine.rng.random_bool(0.5) {
                    disk.resize(*len, 0);
                }
            }
            Self::At { offset, bytes } => {
                let mut done = 0;
                while done < bytes.len() {
                    let n = (SECTOR - (offset + done) % SECTOR).min(bytes.len() - done);
                    if engine.rng.random_bool(0.5) {
                        write_into(disk, offset + done, &bytes[done..done + n]);
                    }
                    done += n;
                }
            }
        }
    }
}

fn write_into(to: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if to.len() < end {
        to.resize(end, 0);
    }
    to[offset..end].copy_from_slice(bytes);
}

/// What a disk writes whole or not at all, bytes.
const SECTOR: usize = 512;
