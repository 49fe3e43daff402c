//! A lane's replies to an administrator: every open and lock of the process, and the end of one or of a session.

use std::rc::{Rc, Weak};
use std::sync::Arc;

use lane::Task;
use smb_tree::Open;
use smb_wire::create::access::{rights, share};

use super::lane_service::LaneSmb;
use crate::admin::{AdminCommand, AdminRequest, LockReport, OpenReport, json};
use crate::server::ServerState;

/// Answers for as long as the lane serves.
pub(super) fn answer(lane: Weak<LaneSmb>, server_state: Arc<ServerState>) -> Task<()> {
    lane::spawn(async move {
        loop {
            let request = server_state.admin_requests.next().await;
            let Some(lane) = lane.upgrade() else { return request.answer(None) };
            lane.answer(request).await;
        }
    })
}

impl LaneSmb {
    async fn answer(self: &Rc<Self>, request: AdminRequest) {
        let answer = match request.command {
            AdminCommand::Opens => {
                Some(json(&self.every_open(|lane, open, all| all.push(lane.shown(open))).await))
            }
            AdminCommand::Locks => Some(json(&self.every_open(Self::locks_of).await)),
            AdminCommand::EndSession(id) => self.expel(id).await.then(String::new),
            AdminCommand::CloseOpen(id) => self.of_trees().close_by_administrator(id).await.then(String::new),
        };
        request.answer(answer);
    }

    /// Looks at each open, a few in each turn of the lane.
    async fn every_open<T>(&self, look: impl Fn(&Self, &Open, &mut Vec<T>)) -> Vec<T> {
        let mut opens = self.opens().all();
        opens.sort_by_key(|open| open.id().volatile.get());
        let mut all = Vec::new();
        for some in opens.chunks(OPENS_OF_A_TURN) {
            some.iter().for_each(|open| look(self, open, &mut all));
            lane::yield_if_due().await;
        }
        all
    }

    fn shown(&self, open: &Open) -> OpenReport {
        OpenReport {
            id: open.id().volatile.get(),
            session: open.session(),
            user: open.user().to_owned(),
            address: open.address(),
            share: open.share_name().to_owned(),
            path: self.of_trees().path_of(open),
            stream: open.stream().map(|stream| stream.to_string()),
            directory: open.is_directory(),
            access: letters(
                open.granted_access(),
                [
                    (rights::READ_DATA | rights::EXECUTE, 'r'),
                    (rights::WRITE_DATA | rights::APPEND_DATA, 'w'),
                    (rights::DELETE, 'd'),
                ],
            ),
            sharing: letters(
                open.share_access(),
                [(share::READ, 'r'), (share::WRITE, 'w'), (share::DELETE, 'd')],
            ),
            caching: letters(open.caching().bits().into(), [(1, 'R'), (2, 'H'), (4, 'W')]),
            leased: open.is_leased(),
            durable: open.is_durable(),
            locks: open.locked().len(),
        }
    }

    fn locks_of(&self, open: &Open, all: &mut Vec<LockReport>) {
        all.extend(open.locked().into_iter().map(|lock| LockReport {
            open: open.id().volatile.get(),
            session: open.session(),
            user: open.user().to_owned(),
            share: open.share_name().to_owned(),
            path: self.of_trees().path_of(open),
            offset: lock.range.offset,
            length: lock.range.len,
            exclusive: lock.exclusive,
        }));
    }
}

/// Returns a letter for each of these bits that is set.
fn letters<const N: usize>(bits: u32, of: [(u32, char); N]) -> String {
    of.into_iter().filter(|(bit, _)| bits & bit != 0).map(|(_, letter)| letter).collect()
}

const OPENS_OF_A_TURN: usize = 64;
