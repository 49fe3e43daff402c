//! Operations in flight: what they work on, who waits, and what became of them.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::core::State;
use super::engine::{Engine, Event};
use super::fs::Inode;
use super::net::{HostId, SocketId};
use crate::backend::{Fd, Op, OpId, Outcome};

/// Names an operation; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct OpKey(pub(super) u64);

/// Every host's operations.
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
    /// Nobody wants the outcome: it is dropped when it comes.
    orphaned: bool,
}

enum Stage {
    Working(Op, Target),
    Done(Outcome<Fd>),
}

/// What the operation's descriptor named when it was submitted.
#[derive(Clone)]
pub(super) enum Target {
    Socket(SocketId),
    Inode(Rc<Inode>),
    /// Nothing: the outcome is this error.
    Invalid(i32),
}

impl Ops {
    pub(super) fn poll(&mut self, id: OpId, cx: &mut Context<'_>) -> Poll<Outcome<Fd>> {
        let key = OpKey(id.0);
        let pending = self.pending.get_mut(&key).expect("an operation is polled until it is ready");
        if let Stage::Working(..) = pending.stage {
            pending.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        match self.pending.remove(&key).expect("looked at above").stage {
            Stage::Done(outcome) => Poll::Ready(outcome),
            Stage::Working(..) => unreachable!("looked at above"),
        }
    }

    /// Drops the operations of a host that lost power.
    pub(super) fn lose_power(&mut self, host: HostId) -> Vec<Outcome<Fd>> {
        let lost: Vec<_> = self.pending.iter().filter(|(_, p)| p.host == host).map(|(&key, _)| key).collect();
        let stages = lost.into_iter().filter_map(|key| self.pending.remove(&key)).map(|p| p.stage);
        stages
            .filter_map(|stage| match stage {
                Stage::Done(outcome) => Some(outcome),
                Stage::Working(..) => None,
            })
            .collect()
    }

    /// Operations that somebody has to take or give up.
    pub(super) fn len(&self) -> usize {
        self.pending.values().filter(|pending| !pending.orphaned).count()
    }

    /// What a host waits for, for reports.
    pub(super) fn names(&self, host: HostId) -> Vec<&'static str> {
        self.pending.values().filter(|p| p.host == host).map(|p| p.what).collect()
    }

    fn insert(&mut self, host: HostId, op: Op, target: Target) -> OpKey {
        self.next += 1;
        let key = OpKey(self.next);
        let what = name(&op);
        self.pending.insert(
            key,
            Pending { host, what, stage: Stage::Working(op, target), waker: None, orphaned: false },
        );
        key
    }

    /// Hands the outcome to who waits for it; gives it back when nobody does.
    fn finish(&mut self, key: OpKey, outcome: Outcome<Fd>, engine: &mut Engine) -> Option<Outcome<Fd>> {
        let Some(pending) = self.pending.get_mut(&key).filter(|pending| !pending.orphaned) else {
            self.pending.remove(&key);
            return Some(outcome);
        };
        pending.stage = Stage::Done(outcome);
        engine.wake(pending.waker.take());
        None
    }
}

impl State {
    /// Starts an operation. Its first step is not taken here: a ring, too, works between two turns.
    pub(super) fn submit(&mut self, host: HostId, op: Op) -> OpId {
        let target = self.target(host, fd_of(&op));
        let is_file_work = matches!(target, Target::Inode(_));
        let key = self.ops.insert(host, op, target);
        let delay = match is_file_work {
            true => self.disks[host.0].delay(&mut self.engine),
            false => Duration::ZERO,
        };
        self.engine.after(delay, Event::Step(key));
        OpId(key.0)
    }

    /// Gives an operation up. Its cancellation may come too late: a send may have gone out all the same, and a name
    /// be opened after nobody wants it any more.
    pub(super) fn forget(&mut self, id: OpId) -> Option<Outcome<Fd>> {
        let key = OpKey(id.0);
        if self.engine.chance(0.5) {
            self.step(key);
        }
        let pending = self.ops.pending.get_mut(&key)?;
        if let Stage::Working(Op::OpenAt { .. }, _) = pending.stage
            && self.engine.chance(0.5)
        {
            (pending.orphaned, pending.waker) = (true, None);
            return None;
        }
        match self.ops.pending.remove(&key)?.stage {
            Stage::Done(outcome) => Some(outcome),
            Stage::Working(..) => None,
        }
    }

    /// Takes an operation as far as it goes now.
    pub(super) fn step(&mut self, key: OpKey) {
        let Some(pending) = self.ops.pending.get_mut(&key) else { return };
        let host = pending.host;
        let aborted = Stage::Done(Outcome::Done(Err(io::Error::from_raw_os_error(libc::EINTR)), None));
        match std::mem::replace(&mut pending.stage, aborted) {
            Stage::Working(op, target) => match self.work(host, key, op, target) {
                Ok(outcome) => {
                    let unwanted = self.ops.finish(key, outcome, &mut self.engine);
                    if let Some(Outcome::Opened(Ok(fd))) = unwanted {
                        // Its number is taken in any case; the lane that gave it up gives it back.
                        self.close(host, fd);
                    }
                }
                Err(working) => {
                    let pending = self.ops.pending.get_mut(&key).expect("nothing took it meanwhile");
                    pending.stage = working;
                }
            },
            done @ Stage::Done(_) => pending.stage = done,
        }
    }

    /// The outcome, or the stage to go on from when there is none yet.
    fn work(&mut self, host: HostId, key: OpKey, op: Op, target: Target) -> Result<Outcome<Fd>, Stage> {
        match target {
            Target::Invalid(errno) => Ok(failed(op, io::Error::from_raw_os_error(errno))),
            Target::Inode(inode) => {
                let outcome = self.work_on_file(host, op, &inode);
                // The descriptor may have been closed meanwhile, and this have been the last hold.
                drop(inode);
                self.disks[host.0].sweep(&mut self.engine);
                Ok(outcome)
            }
            Target::Socket(socket) => self.work_on_socket(key, op, socket),
        }
    }

    fn work_on_socket(&mut self, key: OpKey, op: Op, socket: SocketId) -> Result<Outcome<Fd>, Stage> {
        let (net, engine) = (&mut self.net, &mut self.engine);
        match op {
            Op::Connect { addr, .. } => match net.connect(socket, addr, key, engine) {
                Ok(true) => Ok(Outcome::Done(Ok(0), None)),
                Ok(false) => Err(Stage::Working(op, Target::Socket(socket))),
                Err(error) => Ok(Outcome::Done(Err(error), None)),
            },
            Op::Ready { writable, .. } => match net.is_ready(socket, writable, key) {
                Ok(true) => Ok(Outcome::Done(Ok(0), None)),
                Ok(false) => Err(Stage::Working(op, Target::Socket(socket))),
                Err(error) => Ok(Outcome::Done(Err(error), None)),
            },
            Op::Send { buf, from, more, socket: fd } => {
                let sent = net.send(socket, &[IoSlice::new(&buf[from..])], more, engine);
                match sent {
                    Ok(Some(n)) => Ok(Outcome::Done(Ok(n), Some(buf))),
                    Err(error) => Ok(Outcome::Done(Err(error), Some(buf))),
                    Ok(None) => {
                        if net.is_ready(socket, true, key).is_ok_and(|ready| ready) {
                            engine.after(Duration::ZERO, Event::Step(key));
                        }
                        let op = Op::Send { buf, from, more, socket: fd };
                        Err(Stage::Working(op, Target::Socket(socket)))
                    }
                }
            }
            other => Ok(failed(other, io::Error::from_raw_os_error(libc::EINVAL))),
        }
    }

    fn work_on_file(&mut self, host: HostId, op: Op, inode: &Rc<Inode>) -> Outcome<Fd> {
        let (disk, engine) = (&mut self.disks[host.0], &mut self.engine);
        engine.note("file operation", &[host.0 as u64, inode.ino()]);
        match op {
            Op::ReadAt { offset, len, mut buf, .. } => {
                let len = len.min(buf.spare());
                inode.bring_in(offset, len);
                let read = disk.read(inode, offset, &mut buf.spare_mut()[..len], engine);
                if let Ok(n) = read {
                    buf.grow(n);
                }
                Outcome::Done(read, Some(buf))
            }
            Op::Warm { offset, len, .. } => {
                Outcome::Done(disk.warm(inode, offset, len, engine).map(|()| len), None)
            }
            Op::OpenAt { path, how, .. } => {
                let opened = disk.open(inode, path.as_bytes(), how, engine);
                Outcome::Opened(opened.and_then(|inode| self.hosts[host.0].add_file(inode)))
            }
            Op::StatAt { path, .. } => Outcome::Stat(disk.stat_at(inode, path.as_bytes(), engine)),
            Op::ReadLinkAt { path, .. } => Outcome::Link(disk.read_link_at(inode, path.as_bytes(), engine)),
            Op::ReadDir { max, .. } => Outcome::Entries(disk.entries(inode, max, engine)),
            other => failed(other, io::Error::from_raw_os_error(libc::ENOTSOCK)),
        }
    }

    fn target(&self, host: HostId, fd: Fd) -> Target {
        use super::core::Descriptor;
        match self.hosts[host.0].descriptor(fd) {
            Some(Descriptor::Socket(socket)) => Target::Socket(*socket),
            Some(Descriptor::File(inode)) => Target::Inode(Rc::clone(inode)),
            None => Target::Invalid(libc::EBADF),
        }
    }
}

/// The outcome of the kind `op` has, with its buffer if it has one.
fn failed(op: Op, error: io::Error) -> Outcome<Fd> {
    match op {
        Op::Send { buf, .. } | Op::ReadAt { buf, .. } => Outcome::Done(Err(error), Some(buf)),
        Op::Connect { .. } | Op::Ready { .. } | Op::Warm { .. } => Outcome::Done(Err(error), None),
        Op::OpenAt { .. } => Outcome::Opened(Err(error)),
        Op::StatAt { .. } => Outcome::Stat(Err(error)),
        Op::ReadLinkAt { .. } => Outcome::Link(Err(error)),
        Op::ReadDir { .. } => Outcome::Entries(Err(error)),
    }
}

fn fd_of(op: &Op) -> Fd {
    match *op {
        Op::Connect { socket, .. } | Op::Send { socket, .. } | Op::Ready { socket, .. } => socket,
        Op::ReadAt { file, .. } | Op::Warm { file, .. } => file,
        Op::OpenAt { dir, .. }
        | Op::StatAt { dir, .. }
        | Op::ReadLinkAt { dir, .. }
        | Op::ReadDir { dir, .. } => dir,
    }
}

fn name(op: &Op) -> &'static str {
    match op {
        Op::Connect { .. } => "connect",
        Op::Send { .. } => "send",
        Op::Ready { writable: true, .. } => "wait for room to send",
        Op::Ready { writable: false, .. } => "wait for bytes",
        Op::ReadAt { .. } => "read",
        Op::Warm { .. } => "warm",
        Op::OpenAt { .. } => "open",
        Op::StatAt { .. } => "stat",
        Op::ReadLinkAt { .. } => "read a link",
        Op::ReadDir { .. } => "list",
    }
}
