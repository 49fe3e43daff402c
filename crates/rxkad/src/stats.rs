//! What a connection tells `rxdebug` of its proof.

use rx::security::{SecurityKind, SecurityStats};

use crate::Level;

/// Counts of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    received: [u32; 2],
    sent: [u32; 2],
}

impl Counts {
    pub(crate) fn count_received(&mut self, len: usize) {
        add(&mut self.received, len);
    }

    pub(crate) fn count_sent(&mut self, len: usize) {
        add(&mut self.sent, len);
    }

    /// Returns the statistics of a connection; `level` is `None` until its client has proved itself.
    pub(crate) fn statistics(&self, level: Option<Level>, expires_unix_s: Option<u64>) -> SecurityStats {
        SecurityStats {
            kind: SecurityKind::Kad,
            level: level.unwrap_or_default() as u8,
            flags: if level.is_some() { AUTHENTICATED | CHECKSUMS } else { NOT_SET_UP },
            expires: expires_unix_s.map_or(0, |expires| u32::try_from(expires).unwrap_or(u32::MAX)),
            packets_received: self.received[0],
            packets_sent: self.sent[0],
            bytes_received: self.received[1],
            bytes_sent: self.sent[1],
        }
    }
}

fn add(counts: &mut [u32; 2], len: usize) {
    counts[0] = counts[0].wrapping_add(1);
    counts[1] = counts[1].wrapping_add(len as u32);
}

const NOT_SET_UP: u32 = 1;
const AUTHENTICATED: u32 = 2;
const CHECKSUMS: u32 = 8;
