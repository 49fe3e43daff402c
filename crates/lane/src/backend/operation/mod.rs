//! Operations: what a lane asks for once and gets an answer to later. Each is one file, which says all there
//! is to say of it:
//!
//! - what it works on and owns: the memory that the kernel may touch until it is done;
//! - *prepare*: its entry in the submission queue, or the call that a helper thread makes in its stead;
//! - *complete*: what the kernel's answer means, at once or in two steps ([`Operation::progress`]);
//! - *abandon*: what becomes of its outcome when its future was dropped first;
//! - *simulate*: the same in a simulated world, as strict as the kernel.
//!
//! A new operation is its file, and its name in the two lists below. What a socket does for as long as it is
//! open, accepting and receiving, is no operation: no task waits for one outcome of it; see
//! `uring/sockets.rs`.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::task::{Poll, Waker};

use io_uring::{cqueue, squeue};

#[cfg(feature = "sim")]
use super::sim::Step;
use super::uring::Uring;
use super::{Fd, StreamToken};

#[macro_use]
mod registry;

mod call;
mod compress;
mod connect;
mod copy_range;
mod create;
mod create_unnamed;
mod fallocate;
mod future;
mod get_xattr;
mod handle_of;
mod link;
mod list;
mod list_names;
mod list_part;
mod list_xattrs;
mod lock;
mod message;
mod mkdir;
mod open;
mod open_found;
mod open_handle;
mod open_parent;
mod path_of;
mod read;
mod read_link;
mod read_vectored;
mod ready;
mod receive_into;
mod reflink;
mod remove_xattr;
mod rename;
mod seek;
mod send;
mod send_message;
mod send_zero_copy;
mod set_attributes;
mod set_xattr;
mod splice;
mod stat;
mod stat_names;
mod stat_system;
mod statx;
mod symlink;
mod sync;
mod sync_range;
mod sync_system;
mod truncate;
mod unlink;
mod vectors;
mod warm;
mod write;
mod write_vectored;

pub(crate) use self::call::Call;
pub(crate) use self::future::OpFuture;
pub(crate) use self::handle_of::handle_at;
pub(crate) use self::lock::{find_lock, set_lock};
pub(crate) use self::message::datagram_control;
pub(crate) use self::send_zero_copy::FirstStep;
pub(crate) use self::splice::SpliceDirection;
pub(crate) use self::unlink::Unlinked;
pub(crate) use self::vectors::PARTS_MAX;

operations! {
    statx::Statx,
    compress::Compress,
    connect::Connect,
    copy_range::CopyRange,
    create::Create,
    create_unnamed::CreateUnnamed,
    fallocate::Fallocate,
    get_xattr::GetXattr,
    handle_of::HandleOf,
    link::Link,
    list::List,
    list_names::ListNames,
    list_part::ListPart,
    list_xattrs::ListXattrs,
    lock::FindLock,
    lock::Lock,
    mkdir::Mkdir,
    open::Open,
    open_found::OpenFound,
    open_handle::OpenHandle,
    open_parent::OpenParent,
    path_of::PathOf,
    read::Read,
    read_link::ReadLink,
    read_vectored::ReadVectored,
    ready::Ready,
    receive_into::ReceiveInto,
    reflink::Reflink,
    remove_xattr::RemoveXattr,
    rename::Rename,
    seek::Seek,
    send::Send,
    send_message::SendMessage,
    send_zero_copy::SendZeroCopy,
    set_attributes::SetAttributes,
    set_xattr::SetXattr,
    splice::Splice,
    stat::StatAt,
    stat_names::StatNames,
    stat_system::StatSystem,
    symlink::Symlink,
    sync::Sync,
    sync_range::SyncRange,
    sync_system::SyncSystem,
    truncate::Truncate,
    unlink::Unlink,
    warm::Warm,
    write::Write,
    write_vectored::WriteVectored,
}

/// Kind of operation. A value of it is one operation in flight, and owns what the kernel may touch until it
/// is done. It may move in memory meanwhile: what the kernel reads by address lies in buffers or in boxes.
pub(crate) trait Operation: Registered {
    /// Name of the operation in reports.
    const NAME: &'static str;

    /// Result of a successful operation.
    type Value: 'static;

    /// Value that the caller gets in any case: its arguments back, and the result or the error.
    type Output: 'static;

    /// Returns the descriptor that the operation works on.
    fn descriptor(&self) -> Fd;

    /// Returns the second descriptor that the operation works on, if any.
    fn second(&self) -> Option<Fd> {
        None
    }

    /// True when the kernel looks the descriptors up only at execution, as for directories of names; false
    /// when at submission.
    const LOOKED_UP_LATE: bool = false;

    /// Begins the operation: by its entry for the ring, or in another way.
    fn prepare(&mut self, ring: &Uring) -> Start;

    /// Takes the completion of one part, of which more follow, and returns the waker to call.
    fn progress(&mut self, completion: Completion, ring: &Uring) -> Option<Waker> {
        let _ = (completion, ring);
        unreachable!("{} completes once", Self::NAME)
    }

    /// Converts the kernel's last answer to a result; not called where a helper thread makes the call.
    ///
    /// # Errors
    /// The kernel's.
    fn complete(&mut self, completion: Completion, ring: &Uring) -> io::Result<Self::Value> {
        let _ = (completion, ring);
        unreachable!("{} is no operation of the ring", Self::NAME)
    }

    /// Runs the operation as far as it goes now in a simulated world. Before it waits it registers for its
    /// wake-up.
    #[cfg(feature = "sim")]
    fn simulate(&mut self, step: &mut Step<'_>) -> Poll<io::Result<Self::Value>>;

    /// Returns whether a cancellation that comes now may end the operation. One that cannot be cancelled only
    /// reads what it owns, until its peer is done.
    fn can_be_cancelled(&self) -> bool {
        true
    }

    /// Returns the arguments that the operation owned, with its result.
    fn finish(self, result: io::Result<Self::Value>) -> Self::Output;

    /// Disposes of an output that no task takes: what it brought goes where it belongs. Memory is freed by
    /// being dropped.
    fn abandon(output: Self::Output, keeper: &mut dyn Keeper) {
        let _ = keeper;
        drop(output);
    }
}

/// Way in which an operation begins.
pub(crate) enum Start {
    /// The operation begins by an entry on the ring. All that the entry points to is the operation's, and
    /// does not move with it.
    Ring(squeue::Entry),
    /// The operation begins by a call on a helper thread, with a duplicate of the descriptor, as the lane may
    /// close the file meanwhile.
    Helper(Fd, Job),
    /// The operation has ended already, with this answer of the kernel.
    Ended(Completion),
    /// The operation has ended already, with this outcome.
    Done(Outcome),
}

/// Call for a helper thread, given its descriptor.
pub(crate) type Job = Box<dyn FnOnce(OwnedFd) -> Answer + std::marker::Send>;

/// Answer of a helper thread, applied to the operation on its lane.
pub(crate) type Answer = Box<dyn FnOnce(Op) -> Outcome + std::marker::Send>;

/// Answer of the kernel to an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    result: i32,
}

/// Descriptor that an operation opened and that has no owner yet.
#[derive(Debug)]
pub(crate) enum Opened {
    /// Descriptor of the kernel.
    Kernel(OwnedFd),
    /// Descriptor of a simulated host.
    Simulated(Fd),
}

/// Receiver of what abandoned operations leave behind.
pub(crate) trait Keeper {
    /// Closes a descriptor that has no owner.
    fn close(&mut self, opened: Opened);

    /// Gives bytes back to the stream that they came from.
    fn put_back(&mut self, stream: StreamToken, bytes: Vec<u8>);
}

impl Start {
    /// Begins an operation by a call on a helper thread.
    pub(crate) fn on_helper<O>(
        file: Fd,
        call: impl FnOnce(BorrowedFd<'_>) -> io::Result<O::Value> + std::marker::Send + 'static,
    ) -> Self
    where
        O: Operation<Value: std::marker::Send>,
    {
        use std::os::fd::AsFd;
        Self::Helper(
            file,
            Box::new(move |file| {
                let result = call(file.as_fd());
                Box::new(move |op| O::outcome(O::of(op).finish(result)))
            }),
        )
    }
}

impl Completion {
    /// Makes the completion of a call that the lane made itself.
    pub(crate) fn of(called: rustix::io::Result<usize>) -> Self {
        let bytes = |n| i32::try_from(n).expect("a call moves less than 2 GiB");
        Self { result: called.map_or_else(|error| -error.raw_os_error(), bytes) }
    }

    /// Converts to the result that the system call would have returned.
    pub(crate) fn result(self) -> io::Result<u32> {
        u32::try_from(self.result).map_err(|_| io::Error::from_raw_os_error(self.result.wrapping_neg()))
    }

    /// Returns whether the kernel has copied after all, from the second step of a zero-copy send
    /// (IORING_NOTIF_USAGE_ZC_COPIED).
    pub(crate) fn was_copied(self) -> bool {
        self.result < 0
    }

    /// Converts to the number of bytes moved.
    pub(crate) fn bytes(self) -> io::Result<usize> {
        self.result().map(|n| n as usize)
    }
}

impl From<&cqueue::Entry> for Completion {
    fn from(entry: &cqueue::Entry) -> Self {
        Self { result: entry.result() }
    }
}

/// Kind of operation with its place in [`Op`] and [`Outcome`], implemented by the macro `operations`.
pub(crate) trait Registered: Sized + Into<Op> {
    /// Returns the operation of this kind that `op` is.
    fn of(op: Op) -> Self;

    fn outcome(output: <Self as Operation>::Output) -> Outcome
    where
        Self: Operation;

    fn output(outcome: Outcome) -> <Self as Operation>::Output
    where
        Self: Operation;
}
