//! Tests of what cannot be brought about from outside: jobs that panic, operations that the kernel does not
//! let go of.

use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

use super::*;
use crate::backend::operation::{Read, SendZeroCopy, StatAt, Truncate};
use crate::buffer::{BufClass, BufferCounts, BufferPool};

fn uring(patience: Duration) -> Uring {
    let options = RingOptions { patience, ..RingOptions::default() };
    let helpers = HelperPool::start("test", &[], 1, false, 8).unwrap();
    Uring::new(options, helpers, Arc::default(), Arc::default()).unwrap()
}

/// Turns the ring until the operation has ended.
fn outcome(uring: &Uring, id: OpId) -> Outcome {
    let give_up = Instant::now() + Duration::from_secs(5);
    loop {
        let mut cx = Context::from_waker(Waker::noop());
        if let Poll::Ready(outcome) = uring.poll_op(id, &mut cx) {
            return outcome;
        }
        assert!(Instant::now() < give_up, "its future would wait for ever");
        uring.turn(Park::Until(Some(Instant::now() + Duration::from_millis(10)))).unwrap();
    }
}

#[test]
fn a_job_that_panics_fails_its_operation_and_no_other() {
    let uring = uring(Duration::from_secs(5));
    let root = uring.open_root(Path::new("/")).unwrap();
    let stat = StatAt { dir: root.fd(), path: c"etc".to_owned() };
    let (key, _) = uring.ops.borrow_mut().insert(stat.into());
    uring.submit_to_helper(key, root.fd(), Box::new(|_| panic!("expected by the test")));
    let Outcome::StatAt(Err(error)) = outcome(&uring, OpId(key.pack())) else {
        panic!("a job that panics is an error")
    };
    assert_eq!(error.to_string(), "the helper's job panicked");
    assert_eq!(uring.counters.helper_panics.get(), 1);
    let key = uring.submit(StatAt { dir: root.fd(), path: c"etc".to_owned() }.into());
    assert!(matches!(outcome(&uring, key), Outcome::StatAt(Ok(_))));
}

#[test]
fn pool_that_cannot_be_registered_is_counted_and_used_all_the_same() {
    let uring = uring(Duration::from_secs(5));
    let pools = [(); 2].map(|()| BufferPool::new(BufferCounts { small: 4, large: 1 }).unwrap());
    // A ring has one table of buffers: the second pool is refused, whatever may be locked in memory.
    pools.iter().for_each(|pool| uring.register_buffers(pool));
    let unregistered = uring.counters.buffers_unregistered.get();
    assert!((1..=2).contains(&unregistered), "{unregistered}");
    let buf = pools[1].try_get(BufClass::Large).unwrap();
    assert_eq!(buf.registered(), None);
    // Not /dev/zero: a read that may not sleep ends early there when another thread is due.
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[7; 100_000]).unwrap();
    let id = uring.submit(Read { file: Fd(file.as_raw_fd()), offset: 0, len: 100_000, buf }.into());
    let Outcome::Read((read, buf)) = outcome(&uring, id) else { panic!("a read ends as one") };
    assert_eq!((read.unwrap(), buf.len()), (100_000, 100_000));
}

#[test]
fn a_number_is_no_other_files_while_an_operation_that_was_given_up_has_it() {
    let uring = uring(Duration::from_secs(5));
    let home = tempfile::tempdir().unwrap();
    let root = uring.open_root(home.path()).unwrap();
    let stat = StatAt { dir: root.fd(), path: c"etc".to_owned() };
    let (key, _) = uring.ops.borrow_mut().insert(stat.into());
    let (release, wait) = std::sync::mpsc::channel::<()>();
    uring.submit_to_helper(
        key,
        root.fd(),
        Box::new(move |_| {
            let _ = wait.recv();
            Box::new(|op| op.refuse(io::Error::from_raw_os_error(libc::ENOENT)))
        }),
    );
    uring.forget(OpId(key.pack()), None);
    let fd = root.fd();
    root.forget();
    uring.close(fd);
    // Another test's thread may have been given the number.
    let is_open =
        || std::fs::read_link(format!("/proc/self/fd/{}", fd.0)).is_ok_and(|open| open == home.path());
    (0..3).for_each(|_| uring.turn(Park::No).unwrap());
    assert!(is_open());
    drop(release);
    let give_up = Instant::now() + Duration::from_secs(5);
    while uring.ops.borrow().in_flight() > 0 || uring.closing.borrow().has_named() {
        assert!(Instant::now() < give_up);
        uring.turn(Park::Until(Some(Instant::now() + Duration::from_millis(10)))).unwrap();
    }
    uring.turn(Park::No).unwrap();
    assert!(!is_open());
}

#[test]
fn a_helper_closes_what_waits_for_the_disk_once_the_ring_has_found_it() {
    let uring = uring(Duration::from_secs(5));
    // Beside the program, which lies on a disk where there is one.
    let home = tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap();
    for name in ["kept", "removed", "cut"] {
        let path = home.path().join(name);
        let file = std::fs::File::options().create_new(true).read(true).write(true).open(&path).unwrap();
        let other = file.try_clone().unwrap();
        if name == "removed" {
            std::fs::remove_file(&path).unwrap();
        }
        let (file, before) = (uring.register_file(file.into()), uring.counters.closes_aside.get());
        let fd = file.fd();
        let on_disk = uring.system_of(fd).is_some();
        if name == "cut" {
            let cut = Truncate { file: fd, len: 0 };
            outcome(&uring, uring.start(cut.into()));
        }
        file.forget();
        // Queued before the close, hence done before it.
        let write = opcode::Write::new(RingFd(fd.0), b"bytes".as_ptr(), 5).build();
        uring.push(&write, Key::IGNORED);
        uring.close(fd);
        let closes = u64::from(on_disk && name != "kept");
        assert_eq!(uring.counters.closes_aside.get() - before, closes, "{name}");
        let give_up = Instant::now() + Duration::from_secs(5);
        // The other descriptor is left.
        while descriptors_of(&other) > 1 || other.metadata().unwrap().len() < 5 {
            assert!(Instant::now() < give_up, "{name}");
            uring.turn(Park::Until(Some(Instant::now() + Duration::from_millis(10)))).unwrap();
        }
    }
}

/// Returns how many descriptors of this process lead to a file.
fn descriptors_of(file: &std::fs::File) -> usize {
    let wanted = file.metadata().unwrap();
    let open =
        std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| entry.ok()?.path().metadata().ok());
    open.filter(|found| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino())).count()
}

#[test]
fn memory_that_the_kernel_keeps_is_never_used_again() {
    let uring = uring(Duration::from_millis(20));
    let pool = BufferPool::new(BufferCounts { small: 1, large: 0 }).unwrap();
    let buf = pool.try_get(BufClass::Small).unwrap();
    // As if a disk never answered: nothing will complete it.
    uring.ops.borrow_mut().insert(Read { file: Fd(0), offset: 0, len: 1, buf }.into());
    let (streams, counters) = (Rc::downgrade(&uring.streams), Arc::clone(&uring.counters));
    drop(uring);
    assert!(pool.try_get(BufClass::Small).is_none(), "the kernel may write into it");
    assert!(streams.upgrade().is_some(), "the ring's buffers stay mapped");
    assert_eq!(counters.abandoned.get(), 1);
}

#[test]
fn lane_that_ends_does_not_wait_long_for_peers_that_acknowledge_nothing() {
    let uring = uring(Duration::from_secs(60));
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    // What is accepted later has it too.
    socket2::SockRef::from(&listener).set_recv_buffer_size(4096).unwrap();
    let ours = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    socket2::SockRef::from(&ours).set_send_buffer_size(4 << 20).unwrap();
    let (_theirs, _) = listener.accept().unwrap();
    let stream = uring.adopt(ours.into(), SocketKind::Stream).unwrap();
    let pool = BufferPool::new(BufferCounts { small: 0, large: 4 }).unwrap();
    let bufs: Vec<_> = (0..4).map(|_| pool.try_get(BufClass::Large).unwrap()).collect();
    let bufs = bufs.into_iter().map(|mut buf| {
        buf.append(&[7; 200_000]);
        buf
    });
    let (op, first) = SendZeroCopy::new(stream.fd(), bufs.collect(), 0, false);
    let id = uring.submit(op.into());
    let sent = loop {
        uring.turn(Park::Until(Some(Instant::now() + Duration::from_millis(10)))).unwrap();
        if let Some(sent) = first.take(Waker::noop()) {
            break sent;
        }
    };
    if sent.is_err() {
        testkit::skip("the kernel has no zero-copy sends");
        return;
    }
    uring.forget(id, None);
    let (counters, began) = (Arc::clone(&uring.counters), Instant::now());
    drop(uring);
    assert!(began.elapsed() < Duration::from_secs(30), "its peer reads nothing");
    assert_eq!(counters.abandoned.get(), 1);
    assert!(pool.try_get(BufClass::Large).is_none(), "the kernel still sends from it");
}

#[test]
fn a_lane_that_ends_waits_for_the_receives_it_has_armed_and_keeps_no_memory() {
    let uring = uring(Duration::from_secs(5));
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let stream = uring.adopt(ours.into(), SocketKind::Stream).unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    assert!(uring.poll_recv(stream.fd(), &mut cx).is_pending());
    uring.turn(Park::No).unwrap();
    assert_eq!(uring.multishots.get(), 1);
    let (streams, counters) = (Rc::downgrade(&uring.streams), Arc::clone(&uring.counters));
    drop(uring);
    assert!(streams.upgrade().is_none());
    assert_eq!(counters.abandoned.get(), 0);
    assert_eq!(std::io::Read::read(&mut &theirs, &mut [0]).unwrap(), 0, "it is closed");
}
