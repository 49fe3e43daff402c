//! Fields of every line of the audit log, for any protocol: their packed form, and the beginning of JSON
//! lines.

use std::fmt::Display;
use std::io::Write;
use std::net::SocketAddr;
use std::time::Instant;

use super::packed::{put_address, put_text, take, take_address, take_text};
use super::text::put_json_field;
use crate::datetime::Moment;

/// Operation that a user did, or was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Act<'a> {
    /// Time of the operation's end, in microseconds since 1970.
    pub unix_us: u64,
    /// Duration of the operation, in microseconds.
    pub duration_us: u32,
    /// Result of the operation: 0, or the error's code.
    pub code: i64,
    /// Address of the client.
    pub peer: SocketAddr,
    /// Name of the user; empty when the client named none. Cut at [`Act::USER_MAX`] bytes.
    pub user: &'a [u8],
    /// AFS number of the user.
    pub user_id: i32,
}

impl<'a> Act<'a> {
    /// Longest user's name that the log shows, in bytes.
    pub const USER_MAX: usize = 256;
    /// Longest packed form, in bytes.
    pub const PACKED_MAX: usize = 8 + 4 + 8 + 4 + 16 + 2 + 2 + Self::USER_MAX;

    /// Makes the record of an operation that ends now.
    pub fn ended(begun: Instant, code: i64, peer: SocketAddr, user: &'a [u8], user_id: i32) -> Self {
        let took = lane::time::now().saturating_duration_since(begun);
        let duration_us = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        Self { unix_us: Moment::now().unix_us, duration_us, code, peer, user, user_id }
    }

    /// Appends the packed form to a batch.
    pub fn pack(&self, batch: &mut Vec<u8>) {
        batch.extend_from_slice(&self.unix_us.to_le_bytes());
        batch.extend_from_slice(&self.duration_us.to_le_bytes());
        batch.extend_from_slice(&self.code.to_le_bytes());
        batch.extend_from_slice(&self.user_id.to_le_bytes());
        put_address(self.peer.ip(), batch);
        batch.extend_from_slice(&self.peer.port().to_le_bytes());
        put_text(self.user, Self::USER_MAX, batch);
    }

    /// Takes a packed record off the front of a batch; `None` at its end.
    pub fn unpack(batch: &mut &'a [u8]) -> Option<Self> {
        let unix_us = u64::from_le_bytes(take(batch)?);
        let duration_us = u32::from_le_bytes(take(batch)?);
        let code = i64::from_le_bytes(take(batch)?);
        let user_id = i32::from_le_bytes(take(batch)?);
        let ip = take_address(batch)?;
        let peer = SocketAddr::new(ip, u16::from_le_bytes(take(batch)?));
        Some(Self { unix_us, duration_us, code, peer, user: take_text(batch)?, user_id })
    }

    /// Appends the beginning of a line:
    /// `{"time":…,"call":…,"code":…,"peer":…,"port":…,"user_id":…,"duration_us":…,"user":…`. Times are UTC.
    pub fn put_json_head(&self, call: impl Display, out: &mut Vec<u8>) {
        let _ = write!(
            out,
            "{{\"time\":\"{}\",\"call\":\"{call}\",\"code\":{},\"peer\":\"{}\",\"port\":{},\"user_id\":{},\"duration_us\":{}",
            Moment { unix_us: self.unix_us },
            self.code,
            self.peer.ip(),
            self.peer.port(),
            self.user_id,
            self.duration_us
        );
        put_json_field("user", self.user, out);
    }
}
