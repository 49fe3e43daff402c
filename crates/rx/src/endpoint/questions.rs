//! DEBUG questions (`rxdebug`).
//!
//! They concern no connection and ask about everything here, so the endpoint does not answer them: it limits
//! how many are taken, and passes questions out and answers on.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use super::Endpoint;
use crate::header::{Header, PacketType, flags};

/// Question of DEBUG to answer by [`Endpoint::answer`], or not at all: its client repeats it.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// Address that the question came from.
    pub remote: SocketAddr,
    /// Address that the question came to.
    pub local_ip: Option<IpAddr>,
    /// Header of the question.
    pub header: Header,
    /// Words of the question: type and index.
    pub words: [u32; 2],
    /// Set if the asker may see connection ids and serials: it is on this host, or in `debug_ids`.
    pub sees_ids: bool,
}

impl Endpoint {
    /// Returns the next DEBUG question that is within the limits.
    pub fn poll_question(&mut self) -> Option<Question> {
        self.questions.pop_front()
    }

    /// Queues an answer; false if there is no room for it.
    pub fn answer(&mut self, question: &Question, payload: &[u8]) -> bool {
        let flags = question.header.flags & !flags::CLIENT_INITIATED;
        let header = Header { flags, kind: PacketType::Debug, ..question.header };
        let sent = self.send_loose(question.remote, question.local_ip, &header, payload);
        self.shared.stats.debugs_sent += u64::from(sent);
        sent
    }

    pub(super) fn on_debug(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        local_ip: Option<IpAddr>,
        header: &Header,
        payload: &[u8],
    ) {
        // Longer ones are taken, as stock servers do.
        let Some(([kind, index], _)) =
            payload.split_first_chunk::<8>().map(|(words, rest)| (two(*words), rest))
        else {
            self.shared.stats.misplaced += 1;
            return;
        };
        if !header.from_client() {
            self.shared.stats.misplaced += 1;
            return;
        }
        if !self.may_answer(now, remote) {
            return;
        }
        if self.questions.len() >= QUESTIONS_MAX {
            self.shared.stats.answers_limited += 1;
            return;
        }
        let ip = remote.ip().to_canonical();
        let sees_ids = ip.is_loopback()
            || local_ip == Some(remote.ip())
            || self.shared.config.debug_ids.iter().any(|range| range.contains(ip));
        self.questions.push_back(Question {
            remote,
            local_ip,
            header: *header,
            words: [kind, index],
            sees_ids,
        });
    }
}

fn two(bytes: [u8; 8]) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = bytes;
    [u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])]
}

/// Most questions that wait to be taken.
const QUESTIONS_MAX: usize = 256;
