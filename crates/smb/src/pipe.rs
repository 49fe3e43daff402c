//! Named pipes: opens of the share `IPC$`, process-wide, each of which talks to one interface of `smb_rpc`.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::UNIX_EPOCH;

use lane::time::wall_clock;
use smb_rpc::{Answer, Facts, Pipe, ShareFact, ShareKind};
use smb_wire::body::query_info::{QueryInfoRequest, info_type};
use smb_wire::create::access::attributes;
use smb_wire::create::{CreateRequest, CreateResponseFixed};
use smb_wire::fixed::Fixed;
use smb_wire::info::file::{StandardInformation, class};
use smb_wire::{FileId, Status};
use zerocopy::{FromZeros, IntoBytes};

use crate::connection::Call;
use crate::server::random;
use crate::session::Channel;
use crate::settings::PIPES;

/// Every open pipe.
#[derive(Debug, Default)]
pub(crate) struct Pipes(Mutex<HashMap<FileId, Arc<PipeOpen>>>);

/// One open pipe.
#[derive(Debug)]
pub(crate) struct PipeOpen {
    id: FileId,
    session: u64,
    tree: u32,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    pipe: Pipe,
    is_closed: bool,
    /// Who waits for something to read.
    waiting: Vec<Waker>,
}

impl Pipes {
    /// Opens the pipe that the request names.
    pub(crate) fn open(
        &self,
        channel: &Channel,
        tree: u32,
        request: &CreateRequest<'_>,
    ) -> Result<(FileId, CreateResponseFixed), Status> {
        let name = request.name.decode().ok_or(Status::OBJECT_NAME_INVALID)?;
        let pipe = Pipe::open(&name)?;
        let session = channel.session.id;
        let mut pipes = self.lock();
        let held = pipes.values().filter(|open| open.session == session).count();
        if held >= PER_SESSION_MAX || pipes.len() >= ALL_MAX {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        let id = FileId::new(u64::from_le_bytes(random()), u64::from_le_bytes(random()));
        let state = Mutex::new(State { pipe, is_closed: false, waiting: Vec::new() });
        pipes.insert(id, Arc::new(PipeOpen { id, session, tree, state }));
        let mut fixed = CreateResponseFixed::blank();
        fixed.create_action.set(ACTION_OPENED);
        fixed.allocation_size.set(4096);
        fixed.file_attributes.set(attributes::NORMAL);
        fixed.file_id = id;
        Ok((id, fixed))
    }

    /// An open pipe of this tree.
    pub(crate) fn find(&self, session: u64, tree: u32, id: FileId) -> Result<Arc<PipeOpen>, Status> {
        let pipes = self.lock();
        let found = pipes.get(&id).filter(|open| open.session == session && open.tree == tree);
        found.cloned().ok_or(Status::FILE_CLOSED)
    }

    /// Closes one.
    pub(crate) fn close(&self, open: &PipeOpen) {
        self.lock().remove(&open.id);
        open.close();
    }

    /// Closes those of a session, or of one tree of it.
    pub(crate) fn close_all(&self, session: u64, tree: Option<u32>) {
        let of = |open: &PipeOpen| open.session == session && tree.is_none_or(|tree| open.tree == tree);
        let closed: Vec<_> = self.lock().extract_if(|_, open| of(open)).map(|(_, open)| open).collect();
        closed.iter().for_each(|open| open.close());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<FileId, Arc<PipeOpen>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PipeOpen {
    /// At most `max` bytes of the next message, once there is one.
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

    /// Bytes of the message that is next.
    pub(crate) fn available(&self) -> usize {
        self.state().pipe.available()
    }

    /// What is known of a pipe.
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

    /// What it was asked for since the last time is counted.
    fn count(&self, call: &Call<'_>) {
        let (tally, counters) = (self.state().pipe.tally(), &call.connection.lane.counters);
        counters.pipe_calls.add(tally.calls);
        counters.pipe_faults.add(tally.faults);
        counters.pipe_refused.add(tally.refused);
        counters.pipe_broken.add(tally.broken);
    }

    fn close(&self) {
        self.state().is_closed = true;
        self.wake();
    }

    fn wake(&self) {
        let waiting = std::mem::take(&mut self.state().waiting);
        waiting.into_iter().for_each(Waker::wake);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What pipes tell of the server, to who asks.
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
        uptime_ms: lane.kept.uptime_ms(),
    };
    Ok(tell(&facts))
}

/// `CreateAction`: it was there.
const ACTION_OPENED: u32 = 1;
/// Pipes of a session.
const PER_SESSION_MAX: usize = 1024;
/// Pipes of all sessions.
const ALL_MAX: usize = 16_384;
