//! Ends sessions and tree connects, with their opens and their channels on all lanes.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use lane::DetachOnDrop;
use lane::mesh::Member;
use smb_tree::RequestContext;
use vfs::Caller;

use super::lane_mailbox::LaneMessage;
use super::lane_service::LaneSmb;
use super::notification;
use crate::connection::Connection;
use crate::session::{ChannelEntry, LaneTree, Loss, Session, SessionState, TreeKind};

impl LaneSmb {
    /// Closes what is open in a tree that was disconnected.
    pub(crate) async fn close_tree(self: &Rc<Self>, session: u64, tree: Rc<LaneTree>) {
        let me = Rc::clone(self);
        let closing = async move {
            me.server_state.pipes.close_all(session, Some(tree.connect.id));
            if let TreeKind::Disk { ctx, .. } = &tree.kind {
                me.of_trees().close_all(ctx, me.opens().of_tree(session, tree.connect.id)).await;
            }
        };
        DetachOnDrop::from(lane::spawn(closing)).await;
    }

    /// Ends a session on an administrator's word, with all that is open, durable or not; `false` where there is none.
    pub(crate) async fn expel(self: &Rc<Self>, session: u64) -> bool {
        let Some(session) = self.server_state.sessions.remove(session) else { return false };
        self.counters.sessions_expelled.increment();
        //= MS-SMB2 3.3.4.12
        //# Every open of a session that the server's application closes is closed.
        self.counters.sessions_ended.increment();
        let ended = session.expel();
        ended.trees.iter().for_each(|tree| tree.close());
        self.server_state.pipes.close_all(session.id, None);
        for open in self.opens().of_session(session.id) {
            self.of_trees().close_by_administrator(open.id().volatile.get()).await;
        }
        self.tell_ended(session.id, &ended.channels);
        true
    }

    /// Ends a session, wherever its channels are, with all that was open. It ends though the caller goes.
    pub(crate) async fn close_session(self: &Rc<Self>, connection: &Connection, session: &Arc<Session>) {
        if self.server_state.sessions.remove(session.id).is_none() {
            return;
        }
        self.counters.sessions_ended.increment();
        let ended = session.close();
        ended.trees.iter().for_each(|tree| tree.close());
        let (me, session, address) = (Rc::clone(self), Arc::clone(session), connection.peer);
        let closing = async move {
            me.server_state.pipes.close_all(session.id, None);
            let opens = me.opens().of_session(session.id);
            if let Some(principal) = session.principal().filter(|_| !opens.is_empty()) {
                let ctx = RequestContext {
                    caller: Caller::new(principal),
                    session: session.id,
                    tree: 0,
                    client: session.client,
                    address,
                    dialect: session.agreed.dialect,
                    posix: false,
                    apple: Arc::default(),
                };
                me.of_trees().leave_session(&ctx, opens).await;
            }
            me.tell_ended(session.id, &ended.channels);
        };
        DetachOnDrop::from(lane::spawn(closing)).await;
    }

    /// Has each lane forget what its connections have of a session.
    fn tell_ended(&self, session: u64, channels: &[ChannelEntry]) {
        let mut by_lane: HashMap<Member, Vec<u64>> = HashMap::new();
        channels.iter().for_each(|entry| by_lane.entry(entry.lane).or_default().push(entry.connection));
        for (lane, connections) in by_lane {
            if lane == self.lane_mailbox.here() {
                self.forget(session, &connections);
            } else if !self.lane_mailbox.send(lane, LaneMessage::Ended { session, connections }) {
                self.lane_mailbox.ring(lane);
            }
        }
    }

    /// Removes a session that is over: its requests are cancelled, and these connections have nothing of it any more.
    pub(super) fn forget(&self, session: u64, connections: &[u64]) {
        connections.iter().filter_map(|number| self.connection_table().including_lost(*number)).for_each(
            |connection| {
                notification::tell(&connection, session);
                connection.forget(session);
            },
        );
    }

    /// Looks for sessions that are over, as word of them may have been lost.
    pub(super) fn forget_ended(&self) {
        for connection in self.connection_table().all() {
            let ended: Vec<_> = {
                let channels = connection.channels.borrow();
                let is_over = |id: &&u64| channels[id].session.state() == SessionState::Closed;
                channels.keys().filter(is_over).copied().collect()
            };
            for session in ended {
                notification::tell(&connection, session);
                connection.forget(session);
            }
        }
    }

    /// Takes a lost connection out of a session. A session that has others goes on, with the requests that change
    /// something, and gets breaks by its other connections.
    pub(crate) async fn lost(self: &Rc<Self>, connection: &Connection, session: &Arc<Session>) {
        let requests = connection.requests.going_on(session.id);
        match session.lose_channel(connection.number, requests) {
            Loss::Over => {
                connection.requests.cancel_session(session.id);
                return self.close_session(connection, session).await;
            }
            //= MS-SMB2 3.3.7.1
            //# Requests of a lost connection are cancelled. Those that change something are not, as with Samba: their replay by
            //# another channel has to find that they are under way.
            Loss::Continues { keeps_requests: true } => self.counters.requests_left.add(requests as u64),
            Loss::Continues { keeps_requests: false } => {
                self.counters.requests_left_refused.add(requests as u64);
                connection.requests.cancel_session(session.id);
            }
        }
        self.counters.channels_lost.increment();
        let left = session.channels();
        let here = self.lane_mailbox.here();
        if left.iter().any(|entry| entry.lane == here) {
            return;
        }
        // Else breaks go by word of this lane: slower, and not lost.
        let _ = left.first().is_some_and(|entry| {
            self.lane_mailbox.send(entry.lane, LaneMessage::Adopt { session: session.id })
        });
    }

    /// Makes this lane the one that sends breaks of what the session has open.
    pub(super) fn adopt(&self, session: u64) {
        self.counters.sessions_adopted.increment();
        self.of_trees().adopt(&self.opens().of_session(session));
    }
}
