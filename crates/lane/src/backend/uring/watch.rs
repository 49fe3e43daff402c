//! Change notification: an inotify descriptor per lane, read when the ring says that it is readable.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

use crate::backend::Watch;
use crate::backend::file::{EntryChange, WatchEvent};

/// Inotify descriptor of a lane and the watches there.
pub(super) struct Watcher {
    inotify: OwnedFd,
}

impl Watcher {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { inotify: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)? })
    }

    pub(super) fn raw_fd(&self) -> RawFd {
        self.inotify.as_raw_fd()
    }

    /// Watches the file or directory itself, whatever its name is by now.
    pub(super) fn add(&self, fd: BorrowedFd<'_>) -> io::Result<Watch> {
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let flags = WatchFlags::ATTRIB
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::MODIFY
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF;
        Ok(Watch(inotify::add_watch(self.inotify.as_fd(), path, flags)?))
    }

    pub(super) fn remove(&self, watch: Watch) {
        // It may be gone already with its directory.
        let _ = inotify::remove_watch(self.inotify.as_fd(), watch.0);
    }

    /// Returns every event queued now.
    pub(super) fn read(&self) -> io::Result<Vec<WatchEvent>> {
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        let mut reader = Reader::new(self.inotify.as_fd(), &mut buffer);
        let mut events = Vec::new();
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(rustix::io::Errno::AGAIN) => return Ok(events),
                Err(error) => return Err(error.into()),
            };
            let watch = Watch(event.wd());
            let flags = event.events();
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                events.push(WatchEvent::Overflow);
            } else if flags.intersects(
                ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED | ReadFlags::UNMOUNT,
            ) {
                events.push(WatchEvent::Gone(watch));
            } else if let Some(name) = event.file_name() {
                let what = if flags.contains(ReadFlags::CREATE) {
                    EntryChange::Added
                } else if flags.contains(ReadFlags::DELETE) {
                    EntryChange::Removed
                } else if flags.contains(ReadFlags::MOVED_FROM) {
                    EntryChange::MovedAway
                } else if flags.contains(ReadFlags::MOVED_TO) {
                    EntryChange::MovedHere
                } else {
                    EntryChange::Modified
                };
                let (name, is_directory) = (name.to_bytes().to_vec(), flags.contains(ReadFlags::ISDIR));
                events.push(WatchEvent::Entry { watch, name, what, is_directory });
            } else {
                // An event without a name is the watched one's own.
                events.push(WatchEvent::Itself(watch));
            }
        }
    }
}
