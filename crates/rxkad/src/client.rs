//! The client's end of a connection.

use std::ops::Range;
use std::task::{Poll, Waker};
use std::time::Duration;

use rx::security::{
    ConnectionContext, Expiry, PacketContext, Sealed, Security, SecurityError, SecurityStats, Surroundings,
};

use crate::stats::Counts;
use crate::wire::{Challenge, Proof, Response};
use crate::{Code, Level, PacketKey, Token};

/// The client's end of one connection, by a token and at a level.
#[derive(Debug)]
pub struct RxkadClient {
    token: Token,
    level: Level,
    packets: Option<PacketKey>,
    counts: Counts,
}

impl RxkadClient {
    /// Makes the end of a connection by this token. Packets of both directions have this level.
    pub fn new(token: Token, level: Level) -> Self {
        Self { token, level, packets: None, counts: Counts::default() }
    }

    fn answer(
        &self,
        connection: &ConnectionContext,
        challenge: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), SecurityError> {
        // What is no challenge is as if it had not come: any host can send that.
        let broken = |_| SecurityError { code: rx::abort::PROTOCOL_ERROR };
        let challenge = Challenge::parse(challenge).map_err(broken)?;
        if Level::from_number(challenge.min_level)? > self.level {
            return Err(Code::LevelFail.into());
        }
        let proof = Proof {
            epoch: connection.epoch,
            cid: connection.cid & !3,
            calls: connection.calls,
            nonce: challenge.nonce.wrapping_add(1),
            level: self.level as u32,
        };
        Response::encode(&proof, self.token.key(), self.token.kvno(), self.token.ticket(), out);
        Ok(())
    }
}

impl Security for RxkadClient {
    fn begin(&mut self, _: &mut Surroundings<'_>, connection: &ConnectionContext) {
        self.packets = Some(PacketKey::new(self.token.key(), connection.epoch, connection.cid));
    }

    fn expiry(&self) -> Option<Expiry> {
        let seconds = u64::try_from(self.token.end().seconds).unwrap_or(0);
        Some(Expiry { unix: Duration::from_secs(seconds), code: Code::Expired.number() })
    }

    fn header_room(&self) -> usize {
        self.level.header_len()
    }

    fn trailer_room(&self) -> usize {
        self.level.padding_max()
    }

    fn seal(
        &mut self,
        context: &PacketContext,
        payload: &mut [u8],
        data_len: usize,
    ) -> Result<Sealed, SecurityError> {
        let packets = self.packets.as_ref().ok_or(Code::NoAuth)?;
        let sealed = packets.seal(self.level, context, payload, data_len)?;
        self.counts.count_sent(data_len);
        Ok(sealed)
    }

    fn open(
        &mut self,
        context: &PacketContext,
        checksum: u16,
        payload: &mut [u8],
    ) -> Result<Range<usize>, SecurityError> {
        let packets = self.packets.as_ref().ok_or(Code::NoAuth)?;
        let data = packets.open(self.level, context, checksum, payload)?;
        self.counts.count_received(data.len());
        Ok(data)
    }

    fn respond(
        &mut self,
        _: &mut Surroundings<'_>,
        connection: &ConnectionContext,
        challenge: &[u8],
        _: &Waker,
        out: &mut Vec<u8>,
    ) -> Poll<Result<(), SecurityError>> {
        Poll::Ready(self.answer(connection, challenge, out))
    }

    fn statistics(&self) -> Option<SecurityStats> {
        let expires = u64::try_from(self.token.end().seconds).ok();
        Some(self.counts.statistics(Some(self.level), expires))
    }
}
