//! Operations in flight: objects, waiting tasks and outcomes.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::core::{Descriptor, Process, SimState};
use super::engine::{Engine, Event};
use super::fs::{Disk, Inode, OpenFile};
use super::net::{HostId, Network, SocketId, Unreleased};
use crate::backend::operation::{Keeper, Op, Opened, Outcome};
use crate::backend::{Fd, HeldLock, KeepAlive, LockKind, OpId, StreamToken};
use crate::buffer::RecvBuf;

/// Key of an operation, never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct OpKey(pub(super) u64);

/// Operations of every host that are not taken or given up.
#[derive(Default)]
pub(super) struct Ops {
    pending: BTreeMap<OpKey, Pending>,
    next: u64,
}

struct Pending {
    host: HostId,
    what: &'static str,
    stage: Stage,
    waker: Option<Waker>,
    /// True where no task wants the outcome: it is dropped on arrival.
    orphaned: bool,
    /// Owner of what the operation works on, kept until it has ended.
    held: Option<KeepAlive>,
}

enum Stage {
    Working(Op, Targets),
    Done(Outcome),
    /// The operation changes from one stage to another.
    Moving,
}

/// Object that the operation's descriptor named at submission.
#[derive(Clone)]
enum Target {
    Socket(SocketId),
    File(Rc<OpenFile>),
    /// The descriptor named nothing: the outcome is this error.
    Invalid(i32),
}

/// Targets of the operation's one or two descriptors.
#[derive(Clone)]
struct Targets {
    first: Target,
    second: Option<Target>,
}

/// A look of an operation at the world.
pub(crate) struct Step<'a> {
    state: &'a mut SimState,
    host: HostId,
    key: OpKey,
    targets: &'a Targets,
}

/// The world as an operation on a socket finds it.
pub(crate) struct AtSocket<'a> {
    pub(crate) net: &'a mut Network,
    pub(crate) engine: &'a mut Engine,
    pub(crate) socket: SocketId,
    /// Key of the operation that is to look again.
    pub(crate) key: OpKey,
}

/// The world as an operation on a file or directory finds it.
pub(crate) struct AtFile<'a> {
    pub(crate) disk: &'a mut Disk,
    pub(crate) engine: &'a mut Engine,
    pub(crate) process: &'a mut Process,
    pub(crate) file: &'a Rc<OpenFile>,
    pub(crate) inode: &'a Rc<Inode>,
    second: Option<&'a Target>,
}

impl<'a> AtFile<'a> {
    /// Checks that the file was opened for writing: `EBADF` where not.
    pub(crate) fn check_writable(&self) -> io::Result<()> {
        if self.file.is_writable() { Ok(()) } else { Err(errno(libc::EBADF)) }
    }

    /// Checks that the file was opened for writing, as a change of length needs: `EINVAL` where not.
    pub(crate) fn check_resizable(&self) -> io::Result<()> {
        if self.file.is_writable() { Ok(()) } else { Err(errno(libc::EINVAL)) }
    }

    /// Locks a range for this description, or releases the description's locks there (`fcntl(2)`,
    /// `F_OFD_SETLK`).
    pub(crate) fn lock(&self, offset: u64, len: u64, kind: Option<LockKind>) -> io::Result<()> {
        let range = lock_range(offset, len)?;
        match kind {
            None => self.file.unlock(&range),
            Some(kind) => self.file.lock(range, kind)?,
        }
        Ok(())
    }

    /// Returns a lock in the way of another (`fcntl(2)`, `F_OFD_GETLK`).
    pub(crate) fn find_lock(&self, offset: u64, len: u64, kind: LockKind) -> io::Result<Option<HeldLock>> {
        let found = self.file.lock_in_the_way(&lock_range(offset, len)?, kind);
        Ok(found.map(|(range, kind)| {
            let len = if range.end == LOCK_END { 0 } else { range.end - range.start };
            HeldLock { kind, offset: range.start, len }
        }))
    }

    /// Returns the open file that the operation's second descriptor names.
    pub(crate) fn second(&self) -> io::Result<&'a Rc<OpenFile>> {
        match self.second {
            Some(Target::File(file)) => Ok(file),
            Some(Target::Invalid(number)) => Err(errno(*number)),
            Some(Target::Socket(_)) | None => Err(errno(libc::EINVAL)),
        }
    }
}

impl Step<'_> {
    /// Returns the view of an operation on a socket.
    pub(crate) fn socket(&mut self) -> io::Result<AtSocket<'_>> {
        let SimState { net, engine, .. } = &mut *self.state;
        match &self.targets.first {
            &Target::Socket(socket) => Ok(AtSocket { net, engine, socket, key: self.key }),
            Target::File(_) => Err(errno(libc::EINVAL)),
            Target::Invalid(number) => Err(errno(*number)),
        }
    }

    /// Returns the view of an operation on a file or directory.
    pub(crate) fn file(&mut self) -> io::Result<AtFile<'_>> {
        let SimState { disks, engine, hosts, .. } = &mut *self.state;
        let (disk, process) = (&mut disks[self.host.0], &mut hosts[self.host.0]);
        match &self.targets.first {
            Target::File(file) => {
                let inode = &file.inode;
                if let Some(Target::File(second)) = &self.targets.second {
                    second.act();
                }
                file.act();
                engine.note("file operation", &[self.host.0 as u64, inode.ino()]);
                Ok(AtFile { disk, engine, process, file, inode, second: self.targets.second.as_ref() })
            }
            Target::Socket(_) => Err(errno(libc::ENOTSOCK)),
            &Target::Invalid(number) => Err(errno(number)),
        }
    }

    /// Returns whether the peer has acknowledged bytes of a stream; if not, this operation looks again later.
    pub(crate) fn is_released(&mut self, bytes: &Unreleased) -> bool {
        self.state.net.is_released(bytes, self.key)
    }

    /// Sends on a stream, waiting until the stream takes some bytes.
    pub(crate) fn send(&mut self, parts: &[IoSlice<'_>], more: bool) -> Poll<io::Result<usize>> {
        let at = self.socket()?;
        match at.net.send(at.socket, parts, more, at.engine)? {
            Some(n) => Poll::Ready(Ok(n)),
            None => {
                if at.net.is_writable(at.socket, at.key).is_ok_and(|ready| ready) {
                    at.engine.look_again(at.key, Duration::ZERO);
                }
                Poll::Pending
            }
        }
    }
}

impl Ops {
    pub(super) fn poll(&mut self, id: OpId, cx: &mut Context<'_>) -> Poll<Outcome> {
        let key = OpKey(id.0);
        let pending = self.pending.get_mut(&key).expect("an operation is polled until it is ready");
        if let Stage::Working(..) = pending.stage {
            pending.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        match self.pending.remove(&key).expect("looked at above").stage {
            Stage::Done(outcome) => Poll::Ready(outcome),
            Stage::Working(..) | Stage::Moving => unreachable!("looked at above"),
        }
    }

    /// Returns whether the operation works on a file, where there is no peer to wait for.
    fn is_file_work(&self, key: OpKey) -> bool {
        let pending = self.pending.get(&key).map(|pending| &pending.stage);
        matches!(pending, Some(Stage::Working(_, Targets { first: Target::File(_), .. })))
    }

    /// Returns the keys of a host's operations under way.
    pub(super) fn keys(&self, host: HostId) -> Vec<OpKey> {
        self.pending.iter().filter(|(_, pending)| pending.host == host).map(|(&key, _)| key).collect()
    }

    /// Drops the operations of a host that lost power.
    pub(super) fn lose_power(&mut self, host: HostId, engine: &mut Engine) -> Vec<Outcome> {
        let gone = self.keys(host).into_iter().filter_map(|key| self.pending.remove(&key));
        gone.filter_map(|pending| {
            engine.let_go(pending.held);
            match pending.stage {
                Stage::Done(outcome) => Some(outcome),
                Stage::Working(..) | Stage::Moving => None,
            }
        })
        .collect()
    }

    /// Returns the number of operations that still have to be taken or given up.
    pub(super) fn len(&self) -> usize {
        self.pending.values().filter(|pending| !pending.orphaned).count()
    }

    /// Returns the names of the operations that a host waits for, for reports.
    pub(super) fn names(&self, host: HostId) -> Vec<&'static str> {
        self.pending.values().filter(|p| p.host == host).map(|p| p.what).collect()
    }

    fn insert(&mut self, host: HostId, op: Op, targets: Targets) -> OpKey {
        self.next += 1;
        let key = OpKey(self.next);
        let (what, stage) = (op.name(), Stage::Working(op, targets));
        self.pending.insert(key, Pending { host, what, stage, waker: None, orphaned: false, held: None });
        key
    }
}

impl SimState {
    /// Starts an operation and returns its number. The first step is not taken here: a ring, too, works
    /// between two turns.
    pub(super) fn submit(&mut self, host: HostId, op: Op) -> OpId {
        let first = self.target(host, op.descriptor());
        let second = op.second().map(|fd| self.target(host, fd));
        let is_file_work = matches!(first, Target::File(_));
        let key = self.ops.insert(host, op, Targets { first, second });
        let delay = match is_file_work {
            true => self.disks[host.0].delay(&mut self.engine),
            false => Duration::ZERO,
        };
        self.engine.after(delay, Event::Step(key));
        OpId(key.0)
    }

    /// Gives an operation up. What it owns stays with the kernel for a while, and its cancellation may come
    /// too late: a send may have gone out all the same, and a name may be opened after no task wants it any
    /// more.
    pub(super) fn forget(&mut self, id: OpId, held: Option<KeepAlive>) {
        let key = OpKey(id.0);
        let Some(pending) = self.ops.pending.get_mut(&key) else { return self.engine.let_go(held) };
        (pending.orphaned, pending.waker, pending.held) = (true, None, held);
        let host = pending.host;
        if let Stage::Done(_) = pending.stage {
            let pending = self.ops.pending.remove(&key).expect("looked at above");
            self.engine.let_go(pending.held);
            let Stage::Done(outcome) = pending.stage else { unreachable!("looked at above") };
            return self.abandon(host, outcome);
        }
        if self.ops.is_file_work(key) && self.engine.chance(0.5) {
            // A thread of the kernel's is at it: it ends in its own time.
            return;
        }
        if self.engine.chance(0.5) {
            self.engine.after(Duration::ZERO, Event::Step(key));
        }
        self.engine.after(Duration::ZERO, Event::Cancel(key));
    }

    /// Takes an operation as far as possible now.
    pub(super) fn step(&mut self, key: OpKey) {
        let Some(pending) = self.ops.pending.get_mut(&key) else { return };
        let host = pending.host;
        match std::mem::replace(&mut pending.stage, Stage::Moving) {
            Stage::Working(op, targets) => {
                let mut step = Step { state: self, host, key, targets: &targets };
                match op.simulate(&mut step) {
                    Ok(outcome) => self.finish(key, outcome),
                    Err(op) => {
                        let pending = self.ops.pending.get_mut(&key).expect("nothing took it meanwhile");
                        pending.stage = Stage::Working(op, targets);
                        return;
                    }
                }
                self.let_go(host, targets);
            }
            other => pending.stage = other,
        }
    }

    /// Ends an operation that was given up, where the cancellation comes before another end.
    pub(super) fn cancel(&mut self, key: OpKey) {
        let pending = self.ops.pending.get(&key);
        let stands =
            |pending: &Pending| !matches!(&pending.stage, Stage::Working(op, _) if op.can_be_cancelled());
        if pending.is_none_or(stands) {
            return;
        }
        self.end(key);
    }

    /// Takes an operation from the kernel, at any stage.
    fn end(&mut self, key: OpKey) {
        let Some(pending) = self.ops.pending.remove(&key) else { return };
        self.engine.let_go(pending.held);
        if let Stage::Working(op, targets) = pending.stage {
            self.let_go(pending.host, targets);
            self.abandon(pending.host, op.refuse(errno(libc::ECANCELED)));
        }
    }

    /// Drops the targets of an operation that is over. The descriptors may have been closed meanwhile, and
    /// this have been the last hold.
    fn let_go(&mut self, host: HostId, targets: Targets) {
        for target in [Some(targets.first), targets.second].into_iter().flatten() {
            if let Target::File(file) = target {
                self.disks[host.0].closed(file, &mut self.engine);
            }
        }
    }

    /// Hands the outcome to the task that waits for the operation.
    fn finish(&mut self, key: OpKey, outcome: Outcome) {
        let pending = self.ops.pending.get_mut(&key).expect("it was there when it took its step");
        let host = pending.host;
        if pending.orphaned {
            let pending = self.ops.pending.remove(&key).expect("looked at above");
            self.engine.let_go(pending.held);
            return self.abandon(host, outcome);
        }
        pending.stage = Stage::Done(outcome);
        self.engine.wake(pending.waker.take());
    }

    /// Ends operations that were given up and are not over, as the world ends.
    pub(super) fn cancel_given_up(&mut self) {
        let given_up: Vec<_> =
            self.ops.pending.iter().filter(|(_, p)| p.orphaned).map(|(&key, _)| key).collect();
        given_up.into_iter().for_each(|key| self.end(key));
    }

    fn abandon(&mut self, host: HostId, outcome: Outcome) {
        outcome.abandon(&mut LeftOn { state: self, host });
    }

    fn target(&self, host: HostId, fd: Fd) -> Target {
        match self.hosts[host.0].descriptor(fd) {
            Some(Descriptor::Socket(socket)) => Target::Socket(*socket),
            Some(Descriptor::File(file)) => Target::File(Rc::clone(file)),
            None => Target::Invalid(libc::EBADF),
        }
    }
}

/// The host that an operation was given up on.
struct LeftOn<'a> {
    state: &'a mut SimState,
    host: HostId,
}

impl Keeper for LeftOn<'_> {
    fn close(&mut self, opened: Opened) {
        if let Opened::Simulated(fd) = opened {
            self.state.close(self.host, fd);
        }
    }

    fn put_back(&mut self, stream: StreamToken, bytes: Vec<u8>) {
        self.state.net.put_back(stream, RecvBuf::from_vec(bytes), &mut self.state.engine);
    }
}

fn lock_range(offset: u64, len: u64) -> io::Result<Range<u64>> {
    let signed = |n: u64| i64::try_from(n).map_err(|_| errno(libc::EINVAL));
    let (offset, len) = (signed(offset)?, signed(len)?);
    let end = match len {
        0 => LOCK_END,
        // The last byte, not the one behind it, must have a number.
        len => offset.checked_add(len - 1).ok_or_else(|| errno(libc::EOVERFLOW))?.cast_unsigned() + 1,
    };
    Ok(offset.cast_unsigned()..end)
}

/// Offset behind the last byte that a file can have: a lock to there is one to the end.
const LOCK_END: u64 = 1 << 63;

fn errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}
