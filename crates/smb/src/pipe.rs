//! Named pipes: opens of the share `IPC$`, process-wide, each of which talks to one interface of `smb_rpc`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::UNIX_EPOCH;

use lane::random;
use lane::time::wall_clock;
use smb_rpc::{Answer, Facts, Pipe, ShareFact, ShareKind};
use smb_tree::consumer_of;
use smb_wire::body::query_info::{QueryInfoRequest, info_type};
use smb_wire::create::access::attributes;
use smb_wire::create::{CreateRequest, CreateResponseFixed};
use smb_wire::fixed::Fixed;
use smb_wire::info::file::{StandardInformation, class};
use smb_wire::{FileId, Status};
use zerocopy::{FromZeros, IntoBytes};

use crate::connection::Call;
use crate::pipe_memory::PipeMemory;
use crate::settings::PIPES;

/// Every open pipe.
#[derive(Debug, Default)]
pub(crate) struct Pipes {
    table: Mutex<PipeTable>,
    /// Memory that they keep.
    pub(crate) memory: PipeMemory,
}

/// Open pipes, and how many each session has.
#[derive(Debug, Default)]
struct PipeTable {
    opens: HashMap<FileId, Arc<PipeOpen>>,
    by_session: HashMap<u64, Vec<FileId>>,
}

/// One open pipe.
#[derive(Debug)]
pub(crate) struct PipeOpen {
    id: FileId,
    session: u64,
    tree: u32,
    state: Mutex<PipeState>,
}

#[derive(Debug)]
struct PipeState {
    pipe: Pipe,
    is_closed: bool,
    /// Tasks that wait for something to read.
    waiting: Vec<Waker>,
}

impl Pipes {
    /// Opens the pipe that the request names.
    pub(crate) fn open(
        &self,
        call: &Call<'_>,
        tree: u32,
        request: &CreateRequest<'_>,
    ) -> Result<(FileId, CreateResponseFixed), Status> {
        let name = request.name.decode().ok_or(Status::OBJECT_NAME_INVALID)?;
        let (connection, session) = (call.connection, &call.channel()?.session);
        let who = session.principal().ok_or(Status::USER_SESSION_DELETED)?;
        let consumer = consumer_of(connection.peer, &who);
        let charge = self.memory.charge(session.id, consumer, connection.lane.lane_mailbox.here());
        let pipe = Pipe::open(&name)?.charged_to(charge);
        let (id, lost) = self.lock().open(session.id, tree, pipe)?;
        if let Some(lost) = lost {
            lost.close();
            connection.lane.counters.pipes_displaced.add(1);
        }
        let mut fixed = CreateResponseFixed::blank();
        fixed.create_action.set(ACTION_OPENED);
        fixed.allocation_size.set(4096);
        fixed.file_attributes.set(attributes::NORMAL);
        fixed.file_id = id;
        Ok((id, fixed))
    }

    /// Finds an open pipe of this tree.
    pub(crate) fn find(&self, session: u64, tree: u32, id: FileId) -> Result<Arc<PipeOpen>, Status> {
        let pipes = self.lock();
        let found = pipes.opens.get(&id).filter(|open| open.session == session && open.tree == tree);
        found.cloned().ok_or(Status::FILE_CLOSED)
    }

    /// Closes one.
    pub(crate) fn close(&self, open: &PipeOpen) {
        self.lock().remove(open);
        open.close();
    }

    /// Closes those of a session, or of one tree of it.
    pub(crate) fn close_all(&self, session: u64, tree: Option<u32>) {
        let of = |open: &PipeOpen| open.session == session && tree.is_none_or(|tree| open.tree == tree);
        let mut pipes = self.lock();
        // Most sessions that end have none, and all sessions' are looked through for one that has.
        if !pipes.by_session.contains_key(&session) {
            return;
        }
        let closed: Vec<_> = pipes.opens.values().filter(|open| of(open)).map(Arc::clone).collect();
        closed.iter().for_each(|open| pipes.remove(open));
        drop(pipes);
        closed.iter().for_each(|open| open.close());
    }

    fn lock(&self) -> MutexGuard<'_, PipeTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PipeTable {
    /// Opens a pipe. Where there are as many as there may be, the session with the most of them loses one,
    /// which is answered too.
    fn open(
        &mut self,
        session: u64,
        tree: u32,
        pipe: Pipe,
    ) -> Result<(FileId, Option<Arc<PipeOpen>>), Status> {
        let held = self.by_session.get(&session).map_or(0, Vec::len);
        if held >= PER_SESSION_MAX {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        let lost = if self.opens.len() < ALL_MAX { None } else { Some(self.lose_one(held)?) };
        let id = FileId::new(u64::from_le_bytes(random::array()), u64::from_le_bytes(random::array()));
        let state = Mutex::new(PipeState { pipe, is_closed: false, waiting: Vec::new() });
        self.opens.insert(id, Arc::new(PipeOpen { id, session, tree, state }));
        self.by_session.entry(session).or_default().push(id);
        Ok((id, lost))
    }

    /// Takes one of the session that has the most, if it has two more than `held`.
    fn lose_one(&mut self, held: usize) -> Result<Arc<PipeOpen>, Status> {
        let most = self.by_session.values().max_by_key(|ids| ids.len());
        let last = most.filter(|ids| ids.len() > held + 1).and_then(|ids| ids.last());
        let lost = last.and_then(|id| self.opens.get(id)).cloned().ok_or(Status::INSUFFICIENT_RESOURCES)?;
        self.remove(&lost);
        Ok(lost)
    }

    /// Takes it out, once.
    fn remove(&mut self, open: &PipeOpen) {
        if self.opens.remove(&open.id).is_none() {
            return;
        }
        if let Entry::Occupied(mut held) = self.by_session.entry(open.session) {
            held.get_mut().retain(|id| *id != open.id);
            if held.get().is_empty() {
                held.remove();
            }
        }
    }
}

impl PipeOpen {
    /// Returns at most `max` bytes of the next message, once there is one.
    pub(crate) async fn read(&self, max: usize) -> Result<Answer, Status> {
        poll_fn(|cx| {
            let mut state = self.state();
            if state.is_closed {
                return Poll::Ready(Err(Status::PIPE_DISCONNECTED));
            }
            match state.pipe.read(max) {
                Some(answer) => Poll::Ready(answer),
                None => {
                    state.waiting.retain(|waker| !waker.will_wake(cx.waker()));
                    state.waiting.push(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Takes all of the bytes.
    pub(crate) fn write(&self, call: &Call<'_>, bytes: &[u8]) -> Result<u32, Status> {
        let written = with_facts(call, |facts| self.state().pipe.write(bytes, facts))?;
        self.count(call);
        written?;
        self.wake();
        Ok(bytes.len() as u32)
    }

    /// Takes the bytes, and gives the answer.
    pub(crate) async fn transact(&self, call: &Call<'_>, input: &[u8], max: usize) -> Result<Answer, Status> {
        let answer = with_facts(call, |facts| self.state().pipe.transact(input, max, facts))?;
        self.count(call);
        match answer {
            Some(answer) => answer,
            None => self.read(max).await,
        }
    }

    /// Returns the number of bytes of the message that is next.
    pub(crate) fn available(&self) -> usize {
        self.state().pipe.available()
    }

    /// Returns what is known of a pipe.
    pub(crate) fn query_info(&self, request: &QueryInfoRequest<'_>) -> Result<Vec<u8>, Status> {
        let (kind, class) = (request.fixed.info_type, request.fixed.file_info_class);
        if (kind, class) != (info_type::FILE, class::STANDARD) {
            return Err(Status::NOT_SUPPORTED);
        }
        let mut standard = StandardInformation::new_zeroed();
        standard.allocation_size.set(4096);
        standard.number_of_links.set(1);
        // It goes when it is closed.
        standard.delete_pending = 1;
        let output = standard.as_bytes().to_vec();
        let fits = output.len() <= request.fixed.output_buffer_length.get() as usize;
        if fits { Ok(output) } else { Err(Status::INFO_LENGTH_MISMATCH) }
    }

    /// Counts what the pipe was asked for since the last time.
    fn count(&self, call: &Call<'_>) {
        let (tally, counters) = (self.state().pipe.tally(), &call.connection.lane.counters);
        counters.pipe_calls.add(tally.calls);
        counters.pipe_faults.add(tally.faults);
        counters.pipe_refused.add(tally.refused);
        counters.pipe_broken.add(tally.broken);
        counters.pipe_memory_refused.add(tally.short);
    }

    /// Closes it; its memory is free at once, though requests may still hold it.
    fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.pipe.end();
        drop(state);
        self.wake();
    }

    fn wake(&self) {
        let waiting = std::mem::take(&mut self.state().waiting);
        waiting.into_iter().for_each(Waker::wake);
    }

    fn state(&self) -> MutexGuard<'_, PipeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs `tell` with the facts of the server that pipes tell clients.
fn with_facts<T>(call: &Call<'_>, tell: impl FnOnce(&Facts<'_>) -> T) -> Result<T, Status> {
    let lane = &call.connection.lane;
    let options = lane.options();
    let caller = call.channel()?.session.principal().ok_or(Status::USER_SESSION_DELETED)?;
    let pipes = ShareFact {
        name: PIPES,
        kind: ShareKind::Pipe,
        is_hidden: true,
        hides_unreadable: false,
        comment: "Named pipes",
        path: "",
        users_max: None,
        users: 0,
    };
    let disk = options.shares.iter().map(|share| ShareFact {
        name: &share.name,
        kind: ShareKind::Disk,
        is_hidden: share.name.ends_with('$'),
        hides_unreadable: share.hide_unreadable,
        comment: "",
        path: share.path.to_str().unwrap_or_default(),
        ..pipes
    });
    let shares: Vec<_> = disk.chain([pipes]).collect();
    let now = wall_clock().duration_since(UNIX_EPOCH).unwrap_or_default();
    let facts = Facts {
        server_name: &options.target.netbios_name,
        comment: "Linerate",
        shares: &shares,
        accounts: &options.accounts,
        sids: &options.sids,
        caller: &caller,
        now_s: now.as_secs(),
        uptime_ms: lane.server_state.uptime_ms(),
    };
    Ok(tell(&facts))
}

/// `CreateAction`: it was there.
const ACTION_OPENED: u32 = 1;
/// Pipes of a session: as many as eight channels have requests under way.
const PER_SESSION_MAX: usize = 4096;
//@ limit: open pipes
//@ section: SMB
//@ unit: pipe
//@ connection: {PER_SESSION_MAX} of a session
//@ all: process: {}
//@ empty: STATUS_INSUFFICIENT_RESOURCES; the session that has most loses one (STATUS_PIPE_DISCONNECTED)
//@ counter: smb_pipes_displaced, smb_opens_made
//@ attack: smb-pools
/// Pipes of all sessions.
const ALL_MAX: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_that_have_the_most_pipes_lose_some_to_those_that_want_one() {
        let pipes = Pipes::default();
        let open = |session| pipes.lock().open(session, 1, Pipe::open("lsarpc").unwrap());
        let hoarders = (ALL_MAX / PER_SESSION_MAX) as u64;
        for session in 0..hoarders {
            (0..PER_SESSION_MAX).for_each(|_| assert!(open(session).unwrap().1.is_none()));
            assert_eq!(open(session).unwrap_err(), Status::INSUFFICIENT_RESOURCES);
        }
        for session in 100..140 {
            let (id, lost) = open(session).unwrap();
            assert!(lost.unwrap().session < hoarders);
            assert!(pipes.find(session, 1, id).is_ok());
        }
        assert_eq!(pipes.lock().opens.len(), ALL_MAX);
        (0..hoarders).for_each(|session| pipes.close_all(session, None));
        let table = pipes.lock();
        assert_eq!((table.opens.len(), table.by_session.len()), (40, 40));
    }
}
