//! Channels that die in the middle of a transfer, and are bound again.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use smb_client::{Channel, Channels};

use super::options::Options;
use super::session::Board;

/// Kills the channels of one session that a lane has, each in its turn; other lanes kill theirs.
pub(super) struct Killer {
    pub(super) options: Options,
    pub(super) board: Board,
    /// Set while the session has a channel less: of all lanes one kills at a time.
    pub(super) is_down: Arc<AtomicBool>,
    /// The session's number.
    pub(super) session: usize,
    /// Channels of this lane, by number.
    pub(super) mine: HashMap<usize, Channel>,
    pub(super) channels: Channels,
}

impl Killer {
    /// Kills one of the session's channels `every` so often until the load ends. Returns how many of them were this
    /// lane's.
    pub(super) async fn run(mut self, began: Instant, every: Duration) -> u64 {
        let end = began + self.options.duration;
        let (mut kills, mut turn) = (0, 0);
        loop {
            // Turns that went by while a channel was bound are left out.
            turn = (turn + 1).max((began.elapsed().as_nanos() / every.as_nanos()) as u32 + 1);
            let at = began + every * turn;
            if at >= end {
                return kills;
            }
            lane::time::sleep_until(at).await;
            let number = turn as usize % self.options.channels;
            let is_mine = self.mine.contains_key(&number);
            if !is_mine || self.is_down.swap(true, Ordering::AcqRel) {
                continue;
            }
            if let Some(channel) = self.mine.remove(&number) {
                self.channels.kill(&channel);
                kills += 1;
            }
            self.bind(number, end).await;
            self.is_down.store(false, Ordering::Release);
        }
    }

    /// Binds a channel in place of one that was killed. One that cannot be bound is tried again until the load is long
    /// over, and then is missing: requests say so.
    async fn bind(&mut self, number: usize, end: Instant) {
        while lane::time::now() < end + BINDING_MAX {
            let binding = self.board.bind(&self.options, self.session, number);
            if let Ok(Ok(Some(tree))) = lane::time::timeout(BINDING_MAX, binding).await {
                self.mine.insert(number, tree.channel().clone());
                self.channels.add(tree);
                return;
            }
            lane::time::sleep(RETRY_DELAY).await;
        }
    }
}

const BINDING_MAX: Duration = Duration::from_secs(5);
const RETRY_DELAY: Duration = Duration::from_millis(10);
