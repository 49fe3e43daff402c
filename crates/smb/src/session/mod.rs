//! Sessions, which lanes share (docs/design/smb.md "A session over lanes").
//!
//! A [`Session`] is one `Arc` in a table of the process. What it agreed on and its keys are read-only once it is
//! signed in; channels and trees are behind its lock, which is taken when one comes or goes. Each connection has a
//! [`Channel`] of its own on its lane, and with it all that a request needs: a request takes no lock of the session.

mod channels_per_session;
mod free_nonces;
mod pending_sign_ins;
mod table;
mod tree;
mod tree_connect_slots;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use identity::Principal;
use lane::mesh::Member;
use smb_proto::keys::Agreed;
use smb_proto::numbers::NumberMap;
use smb_proto::sealing::{Nonces, SealingKey};
use smb_proto::signing::SigningKey;
use smb_wire::{Guid, Status};

pub(crate) use self::channels_per_session::ChannelsPerSession;
pub(crate) use self::free_nonces::FreeNonces;
pub(crate) use self::pending_sign_ins::PendingSignIns;
pub(crate) use self::table::Sessions;
pub(crate) use self::tree::{LaneTree, TreeConnect, TreeKind};
pub(crate) use self::tree_connect_slots::{TreeConnectSlot, TreeConnectSlots};

/// One user of one client, by one connection or more.
pub(crate) struct Session {
    /// The session's id, never 0 and never given again while the process lives.
    pub(crate) id: u64,
    /// ClientGuid, by which a client is known on all its connections.
    pub(crate) client: Guid,
    /// Parameters that its connections agreed on: the same for each.
    pub(crate) agreed: Agreed,
    /// The session's connections hear of what the server does of its own accord
    /// (`Session.SupportsNotifications`).
    pub(crate) notifies: bool,
    /// The session's client is to hear that it is over.
    is_to_be_told: AtomicBool,
    /// The session's [`SessionState`] in the low bits, and above them how often its user has signed in again.
    state: AtomicU32,
    signed_in: OnceLock<SignedIn>,
    shared: Mutex<SessionTables>,
}

/// State that a sign-in leaves, for good.
pub(crate) struct SignedIn {
    /// User of the first sign-in, whose session it stays when another signs in again.
    pub(crate) owner: Principal,
    /// A user has authenticated: the keys are secret. Those of an anonymous session are public.
    pub(crate) is_proved: bool,
    /// Key that requests to bind a further channel are signed with.
    pub(crate) signing: Option<Arc<SigningKey>>,
    /// Nonces with which AES-GMAC may sign replies to them.
    pub(crate) free_nonces: FreeNonces,
    pub(crate) sealing: Option<Sealing>,
    /// Unsigned requests are refused.
    pub(crate) signing_required: bool,
    /// Unsealed requests are refused too.
    pub(crate) sealing_required: bool,
    /// Bits of [`smb_wire::body::session_setup::session_flags`].
    pub(crate) flags: u16,
}

/// Keys of both directions, of all channels.
pub(crate) struct Sealing {
    pub(crate) to_client: SealingKey,
    pub(crate) to_server: SealingKey,
}

/// The channels and tree connects of a session, which change during its life.
#[derive(Default)]
struct SessionTables {
    /// The principal whose rights count: the owner's as of the last sign-in, or an anonymous client's.
    principal: Option<Principal>,
    channels: Vec<ChannelEntry>,
    /// Connections that were lost and whose requests go on.
    left: Vec<LostChannel>,
    /// Channels there were: each has a number of its own, for its nonces.
    channels_made: u32,
    trees: HashMap<u32, Arc<TreeConnect>>,
    trees_made: u32,
}

/// A connection of the session, as others know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChannelEntry {
    /// [`Connection::number`](crate::connection::Connection::number).
    pub(crate) connection: u64,
    /// Lane of the channel.
    pub(crate) lane: Member,
}

/// A lost connection whose requests go on.
#[derive(Clone, Copy, Debug)]
struct LostChannel {
    entry: ChannelEntry,
    requests: usize,
}

/// Consequence for a session that has lost a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The channel was the session's last one.
    Over,
    /// The session has other channels. Without room for the requests that were under way they end.
    Continues { keeps_requests: bool },
}

/// The tree connects and channels of a session that has ended.
pub(crate) struct EndedSession {
    pub(crate) trees: Vec<Arc<TreeConnect>>,
    /// Lost ones too whose requests went on.
    pub(crate) channels: Vec<ChannelEntry>,
}

/// The life of a session (MS-SMB2 3.3.1.8 `Session.State`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum SessionState {
    /// The session's first sign-in is under way.
    InProgress = 0,
    /// The session can be used.
    Valid = 1,
    /// The session is over: no other bit takes this away.
    Closed = 2,
}

/// Part of a session that a connection has: on its lane, without a lock.
pub(crate) struct Channel {
    pub(crate) session: Arc<Session>,
    /// Key that this connection's messages are signed with.
    pub(crate) signing: Option<Arc<SigningKey>>,
    /// Nonces of messages that are sealed on this connection.
    pub(crate) nonces: Option<RefCell<Nonces>>,
    trees: RefCell<NumberMap<u32, Rc<LaneTree>>>,
}

impl Session {
    pub(crate) fn new(id: u64, client: Guid, agreed: Agreed, notifies: bool) -> Self {
        let (state, signed_in, shared) =
            (AtomicU32::new(SessionState::InProgress as u32), OnceLock::new(), Mutex::default());
        Self { id, client, agreed, notifies, is_to_be_told: AtomicBool::new(false), state, signed_in, shared }
    }

    pub(crate) fn state(&self) -> SessionState {
        match self.state.load(Ordering::Acquire) & STATE_MASK {
            0 => SessionState::InProgress,
            1 => SessionState::Valid,
            _ => SessionState::Closed,
        }
    }

    /// Returns what sign-in left; `None` before its end.
    pub(crate) fn signed_in(&self) -> Option<&SignedIn> {
        self.signed_in.get()
    }

    /// Returns whether a user has authenticated.
    pub(crate) fn is_proved(&self) -> bool {
        self.signed_in().is_some_and(|signed_in| signed_in.is_proved)
    }

    /// Returns whether the first sign-in was of this user.
    pub(crate) fn is_of(&self, who: &Principal) -> bool {
        self.signed_in().is_some_and(|signed_in| signed_in.owner.name() == who.name())
    }

    /// Begins the session, as its first sign-in has ended well.
    pub(crate) fn begin(&self, signed_in: SignedIn) {
        self.shared().principal = Some(signed_in.owner.clone());
        // A session is begun by the one connection that made it.
        let _ = self.signed_in.set(signed_in);
        self.state.fetch_or(SessionState::Valid as u32, Ordering::Release);
    }

    /// Returns how often its user has signed in again: what lanes have derived from the principal is stale
    /// then.
    pub(crate) fn renewals(&self) -> u32 {
        self.state.load(Ordering::Relaxed) / RENEWAL
    }

    /// Returns the principal whose rights count; `None` before the end of sign-in.
    pub(crate) fn principal(&self) -> Option<Principal> {
        self.shared().principal.clone()
    }

    /// Renews the session for a user that may sign in again and has.
    pub(crate) fn renew(&self, principal: Principal) {
        self.shared().principal = Some(principal);
        self.state.fetch_add(RENEWAL, Ordering::Release);
    }

    /// Closes the session: its remaining holders refuse what comes. The trees and channels it had.
    pub(crate) fn close(&self) -> EndedSession {
        self.state.fetch_or(SessionState::Closed as u32, Ordering::Release);
        let mut shared = self.shared();
        let trees = shared.trees.drain().map(|(_, tree)| tree).collect();
        let mut channels = std::mem::take(&mut shared.channels);
        channels.extend(shared.left.drain(..).map(|left| left.entry));
        EndedSession { trees, channels }
    }

    /// Closes the session without its client's request: one of its channels notifies the client, where it understands
    /// that.
    pub(crate) fn expel(&self) -> EndedSession {
        self.is_to_be_told.store(self.notifies, Ordering::Release);
        self.close()
    }

    /// Returns whether its client must be notified that it is over: true for the first caller alone, which has to do
    /// that.
    pub(crate) fn is_to_be_told(&self) -> bool {
        self.is_to_be_told.swap(false, Ordering::AcqRel)
    }

    /// Makes a connection a channel, and returns its number.
    ///
    /// # Errors
    /// As the specification says where there are too many, or the session is over.
    pub(crate) fn add_channel(&self, connection: u64, lane: Member) -> Result<u32, Status> {
        let mut shared = self.shared();
        // The lane that ends it says so before it takes the existing channels.
        if self.state() == SessionState::Closed {
            return Err(Status::USER_SESSION_DELETED);
        }
        //= MS-SMB2 3.3.5.5
        //# A 33rd channel fails with STATUS_INSUFFICIENT_RESOURCES.
        if shared.channels.len() >= CHANNELS_MAX {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        let number = shared.channels_made;
        shared.channels_made += 1;
        shared.channels.push(ChannelEntry { connection, lane });
        Ok(number)
    }

    /// Removes a connection from the channels. Returns true if it was the last.
    pub(crate) fn remove_channel(&self, connection: u64) -> bool {
        let mut shared = self.shared();
        shared.channels.retain(|channel| channel.connection != connection);
        shared.channels.is_empty()
    }

    /// Removes a connection that was lost with so many requests under way, which go on while there are few of them.
    pub(crate) fn lose_channel(&self, connection: u64, requests: usize) -> Loss {
        let mut shared = self.shared();
        let at = shared.channels.iter().position(|channel| channel.connection == connection);
        let entry = at.map(|at| shared.channels.remove(at));
        if shared.channels.is_empty() {
            return Loss::Over;
        }
        let left: usize = shared.left.iter().map(|left| left.requests).sum();
        let keeps_requests = left + requests <= LEFT_MAX;
        if let Some(entry) = entry.filter(|_| keeps_requests && requests > 0) {
            shared.left.push(LostChannel { entry, requests });
        }
        Loss::Continues { keeps_requests }
    }

    /// Notes that none of a lost connection's requests goes on any more.
    pub(crate) fn has_left(&self, connection: u64) {
        self.shared().left.retain(|left| left.entry.connection != connection);
    }

    /// Returns the session's connections, the oldest first.
    pub(crate) fn channels(&self) -> Vec<ChannelEntry> {
        self.shared().channels.clone()
    }

    /// Returns whether there is no room for one more.
    pub(crate) fn is_full(&self) -> bool {
        self.shared().channels.len() >= CHANNELS_MAX
    }

    /// Connects a tree.
    ///
    /// # Errors
    /// `STATUS_INSUFFICIENT_RESOURCES` where there are too many.
    pub(crate) fn add_tree(&self, make: impl FnOnce(u32) -> TreeConnect) -> Result<Arc<TreeConnect>, Status> {
        let mut shared = self.shared();
        if shared.trees.len() >= TREES_MAX {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        shared.trees_made = shared.trees_made.wrapping_add(1).max(1);
        while shared.trees_made == u32::MAX || shared.trees.contains_key(&shared.trees_made) {
            shared.trees_made = shared.trees_made.wrapping_add(1).max(1);
        }
        let tree = Arc::new(make(shared.trees_made));
        shared.trees.insert(tree.id, Arc::clone(&tree));
        Ok(tree)
    }

    /// Returns a tree by its id.
    pub(crate) fn tree(&self, id: u32) -> Option<Arc<TreeConnect>> {
        self.shared().trees.get(&id).cloned()
    }

    /// Returns how many trees it has.
    fn trees_len(&self) -> usize {
        self.shared().trees.len()
    }

    /// Returns a tree of files, if it has one: of any share but `pipes`.
    pub(crate) fn disk_tree(&self, pipes: &str) -> Option<u32> {
        let shared = self.shared();
        shared.trees.values().find(|tree| &*tree.share != pipes).map(|tree| tree.id)
    }

    /// Returns the shares that it is connected to.
    pub(crate) fn shares(&self) -> Vec<String> {
        let shared = self.shared();
        let mut shares: Vec<_> = shared.trees.values().map(|tree| tree.share.to_string()).collect();
        shares.sort();
        shares.dedup();
        shares
    }

    /// Disconnects a tree; `None` if it is gone already.
    pub(crate) fn remove_tree(&self, id: u32) -> Option<Arc<TreeConnect>> {
        let tree = self.shared().trees.remove(&id)?;
        tree.close();
        Some(tree)
    }

    fn shared(&self) -> MutexGuard<'_, SessionTables> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("id", &self.id).field("state", &self.state()).finish_non_exhaustive()
    }
}

impl Channel {
    pub(crate) fn new(
        session: Arc<Session>,
        signing: Option<Arc<SigningKey>>,
        nonces: Option<Nonces>,
    ) -> Rc<Self> {
        Rc::new(Self { session, signing, nonces: nonces.map(RefCell::new), trees: RefCell::default() })
    }

    /// Returns the keys that it seals with.
    pub(crate) fn sealing(&self) -> Option<&Sealing> {
        self.session.signed_in()?.sealing.as_ref()
    }

    /// Returns a tree of the session on this lane: `make` is asked at its first use here, and again after a reload.
    ///
    /// # Errors
    /// `STATUS_NETWORK_NAME_DELETED` where there is none of that id, or what `make` says.
    pub(crate) fn tree(
        &self,
        id: u32,
        generation: u64,
        make: impl FnOnce(Arc<TreeConnect>) -> Result<LaneTree, Status>,
    ) -> Result<Rc<LaneTree>, Status> {
        let known = self.trees.borrow().get(&id).cloned();
        match known {
            Some(tree) if tree.is_of(generation, &self.session) => return Ok(tree),
            Some(_) => {
                self.trees.borrow_mut().remove(&id);
            }
            None => {}
        }
        //= MS-SMB2 3.3.5.2.11
        //# A tree id that is not in the session's table fails with STATUS_NETWORK_NAME_DELETED.
        let tree = Rc::new(make(self.session.tree(id).ok_or(Status::NETWORK_NAME_DELETED)?)?);
        let mut trees = self.trees.borrow_mut();
        // Trees that other channels have disconnected are known here until then.
        if trees.len() >= self.session.trees_len() {
            trees.retain(|_, tree| tree.connect.is_open());
        }
        trees.insert(id, Rc::clone(&tree));
        Ok(tree)
    }
}

/// Bits of [`SessionState`].
const STATE_MASK: u32 = 3;
/// Value that counts one more sign-in of the user.
const RENEWAL: u32 = 4;
//@ limit: channels of a session
//@ section: SMB
//@ unit: connection
//@ connection: 1 of each session
//@ address: {} of a session
//@ empty: STATUS_INSUFFICIENT_RESOURCES; others feel nothing
//@ counter: smb_channels_bound, smb_channels_refused
//@ attack: smb-pools
/// Channels of a session.
const CHANNELS_MAX: usize = 32;
/// Requests of a session that go on without their connections: as many as two connections may have waiting.
const LEFT_MAX: usize = 1022;
/// Trees of a session.
const TREES_MAX: usize = 4096;

#[cfg(test)]
mod tests;
