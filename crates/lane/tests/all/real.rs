//! Tests of the real backend against the kernel of this machine: sockets on loopback, files in a temporary
//! directory.

use std::ffi::CString;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use lane::backend::uring::RingOptions;
use lane::backend::{DatagramBatch, ListenOptions, UdpOptions};
use lane::buffer::BufClass;
use lane::fs::{Dir, EntryChange, File, OpenHow, OpenKind, WatchEvent};
use lane::mesh::{Exchange, Limits, Mail, Member};
use lane::net::tcp::SentFile;
use lane::net::{TcpListener, TcpStream, UdpSocket};
use lane::runtime::{RuntimeOptions, run_here};
use lane::{spawn, time};

#[test]
fn bytes_sent_on_a_stream_arrive_in_order_and_the_end_is_seen() {
    run(async {
        let (client, server) = pair().await;
        let echo = spawn(async move {
            loop {
                let received = server.recv().await.unwrap();
                if received.is_empty() {
                    return;
                }
                let mut buf = lane::current().buffers().get(BufClass::Small).await;
                buf.append(&received);
                drop(received);
                server.send(buf, false).await.0.unwrap();
            }
        });
        let message: Vec<u8> = (0..100_000u32).map(|n| (n % 251) as u8).collect();
        let mut back = Vec::new();
        for chunk in message.chunks(10_000) {
            let mut buf = lane::current().buffers().get(BufClass::Small).await;
            buf.append(chunk);
            client.send(buf, false).await.0.unwrap();
        }
        while back.len() < message.len() {
            back.extend_from_slice(&client.recv().await.unwrap());
        }
        assert_eq!(back, message);
        client.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(client.recv().await.unwrap().is_empty());
        echo.await;
    });
}

#[test]
fn a_lane_that_is_asked_tells_where_its_buffers_its_tasks_and_served_files_lie() {
    // Not in /tmp, which may be all memory.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::write(dir.path().join("file"), vec![1; 300_000]).unwrap();
    let root = dir.path().to_owned();
    run(async move {
        let root = Dir::open_root(&root).unwrap();
        let file = root.open(&CString::new("file").unwrap(), OpenHow::FOLLOW).await.unwrap();
        let memory = lane::current().memory().clone();
        let mut buf = lane::current().buffers().get(BufClass::Small).await;
        buf.append(b"touched");
        memory.ask();
        file.read_at(0, 20_000, lane::current().buffers().get(BufClass::Small).await).await.0.unwrap();
        // Tasks are named at the end of a round.
        time::sleep(Duration::from_millis(1)).await;
        let samples = memory.sample(0, 0);
        let (pools, tasks) = match (samples.pools, samples.tasks) {
            (Ok(pools), Ok(tasks)) => (pools, tasks),
            (Err(problem), _) | (_, Err(problem)) => {
                return testkit::skip(format_args!("the kernel does not tell where pages lie: {problem}"));
            }
        };
        assert!(pools.local + pools.remote >= 1 && pools.absent > 0, "{pools:?}");
        assert!(tasks.local + tasks.remote >= 1, "{tasks:?}");
        assert!(!samples.files.is_empty());
        assert!(memory.sample(0, 1).files.is_empty(), "each is looked up once");
    });
}

#[test]
fn a_file_goes_to_the_socket_whole_and_a_shorter_one_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..5_000_000u32).map(|n| (n % 241) as u8).collect();
    std::fs::write(dir.path().join("big"), &content).unwrap();
    let root = dir.path().to_owned();
    run(async move {
        let (client, server) = pair().await;
        let root = Dir::open_root(&root).unwrap();
        let file = root.open(&CString::new("big").unwrap(), OpenHow::FOLLOW).await.unwrap();
        let length = content.len() as u64;
        let sender = spawn(async move {
            let mut seen = 0;
            let sent = server.send_file(&file, 0, length, |n| seen += n).await.unwrap();
            assert_eq!((sent, seen), (SentFile::All, length));
            let sent = server.send_file(&file, length - 10, 20, |_| ()).await.unwrap();
            assert_eq!(sent, SentFile::EndedAfter(10));
        });
        let mut received = Vec::new();
        while received.len() < content.len() + 10 {
            received.extend_from_slice(&client.recv().await.unwrap());
        }
        sender.await;
        assert!(
            received[..content.len()] == content
                && received[content.len()..] == content[content.len() - 10..]
        );
    });
}

#[test]
fn what_the_peer_has_not_acknowledged_is_told() {
    run(async {
        let (client, server) = pair().await;
        let bytes = vec![7; 1 << 20];
        let mut sent = 0;
        while let Some(n) = server.try_send(&[IoSlice::new(&bytes)], false).unwrap() {
            sent += n;
        }
        assert!(server.unacknowledged().unwrap() > 0, "the window is full and nobody reads");
        let timeout = server.retransmission_timeout().unwrap();
        let is_loopbacks = Duration::from_millis(1)..=Duration::from_secs(2);
        assert!(is_loopbacks.contains(&timeout), "{timeout:?}");
        let mut received = 0;
        while received < sent {
            received += client.recv().await.unwrap().len();
        }
        while server.unacknowledged().unwrap() > 0 {
            time::sleep(Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn a_burst_of_datagrams_arrives_whole_with_its_sender_and_local_address() {
    run(async {
        let options = UdpOptions { recv_buffer: 4 << 20, ..UdpOptions::default() };
        let sender = UdpSocket::bind(LOOPBACK, &options).unwrap();
        let receiver = UdpSocket::bind(LOOPBACK, &options).unwrap();
        let to = receiver.local_addr().unwrap();
        let payload: Vec<u8> = (0..45 * 1444 + 100u32).map(|n| (n % 253) as u8).collect();
        for segment in [1444, 100] {
            // 65,080 bytes go out as one GSO call at 1444 and as sendmmsg calls at 100.
            let (mut sent, mut received) = (0, Vec::new());
            while sent < payload.len() {
                let parts = [IoSlice::new(&payload[sent..])];
                let batch = DatagramBatch::new(to, segment, &parts);
                match sender.try_send(&batch).unwrap() {
                    Some(n) => sent += n,
                    None => sender.writable().await.unwrap(),
                }
            }
            while received.len() < payload.len() {
                let mut batch = Vec::new();
                time::timeout(Duration::from_secs(5), receiver.recv(&mut batch, 64)).await.unwrap().unwrap();
                for datagram in &batch {
                    assert_eq!(datagram.from, sender.local_addr().unwrap());
                    assert_eq!(datagram.local, Some(to.ip()));
                    assert!(datagram.segment == segment || datagram.buf.len() < usize::from(segment));
                    datagram.segments().for_each(|bytes| received.extend_from_slice(bytes));
                }
            }
            assert!(received == payload, "in datagrams of {segment} bytes");
        }
    });
}

#[test]
fn names_never_lead_out_of_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/etc/passwd", dir.path().join("escape")).unwrap();
    std::os::unix::fs::symlink("inner", dir.path().join("alias")).unwrap();
    std::fs::write(dir.path().join("inner"), "x").unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        dir.path().join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let root = dir.path().to_owned();
    run(async move {
        let root = Dir::open_root(&root).unwrap();
        let open = |name: &str, how| {
            let name = CString::new(name).unwrap();
            let root = &root;
            async move { root.open(&name, how).await.map(drop).map_err(|e| e.raw_os_error().unwrap()) }
        };
        assert_eq!(open("escape", OpenHow::FOLLOW).await, Err(libc::EXDEV));
        assert_eq!(open("../..", OpenHow::FOLLOW).await, Err(libc::EXDEV));
        assert_eq!(open("/etc/passwd", OpenHow::FOLLOW).await, Err(libc::EXDEV));
        assert_eq!(open("alias", OpenHow::FOLLOW).await, Ok(()));
        assert_eq!(open("alias", OpenHow::NO_SYMLINKS).await, Err(libc::ELOOP));
        assert_eq!(open("pipe", OpenHow::FOLLOW).await, Err(libc::ENXIO));
        assert_eq!(open("absent", OpenHow::FOLLOW).await, Err(libc::ENOENT));
        let mut names: Vec<_> = root.entries(100).await.unwrap().into_iter().map(|e| e.name).collect();
        names.sort();
        assert_eq!(names, [b"alias".to_vec(), b"escape".to_vec(), b"inner".to_vec(), b"pipe".to_vec()]);
        assert_eq!(root.entries(3).await.unwrap_err().raw_os_error(), Some(libc::EFBIG));
    });
}

#[test]
fn parts_of_a_directory_are_bounded_and_hold_each_name_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut names: Vec<_> = (0..1000).map(|number| format!("name {number}")).collect();
    for name in &names {
        std::fs::write(dir.path().join(name), name).unwrap();
    }
    let root = dir.path().to_owned();
    run(async move {
        let root = Dir::open_root(&root).unwrap();
        let (mut found, mut position, mut middle) = (Vec::new(), 0, None);
        loop {
            // The open directory has moved on; a second one begins in the middle.
            let again =
                root.open(&CString::new(".").unwrap(), OpenHow::FOLLOW).await.unwrap().into_dir().unwrap();
            let part = again.entries_part(position, 2048).await.unwrap();
            let Some(next) = part.next else { break };
            assert!(part.entries.len() <= 2048 / 24, "{} entries", part.entries.len());
            for entry in part.entries {
                assert_eq!(entry.stat.unwrap().size, entry.name.len() as u64);
                found.push(String::from_utf8(entry.name).unwrap());
            }
            position = next;
            middle = middle.or((found.len() > 500).then_some((position, found.len())));
        }
        let (mut alone, mut position) = (Vec::new(), 0);
        loop {
            let part = root.names_part(position, 2048).await.unwrap();
            alone.extend(part.iter().map(|name| String::from_utf8(name.to_vec()).unwrap()));
            let Some(next) = part.next else { break };
            assert!(part.iter().count() <= 2048 / 24);
            position = next;
        }
        assert_eq!(alone, found, "the names alone come in the same order");
        let (middle, before) = middle.unwrap();
        let mut rest = 0;
        let mut position = Some(middle);
        while let Some(at) = position {
            let part = root.entries_part(at, 65_536).await.unwrap();
            rest += part.entries.len();
            position = part.next;
        }
        assert_eq!(before + rest, 1000);
        assert_eq!(root.entries_part(u64::MAX, 2048).await.unwrap_err().raw_os_error(), Some(libc::EINVAL));
        found.sort();
        names.sort();
        assert_eq!(found, names);
    });
}

#[test]
fn what_is_no_file_is_refused_before_it_is_opened_whichever_way_leads_there() {
    use rustix::fs::{CWD, FileType, Mode, inotify, makedev, mknodat};
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let mut special = vec!["pipe", "socket"];
    mknodat(CWD, path("pipe"), FileType::Fifo, Mode::from(0o666), 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
    // The device that takes everything: making one takes a privilege.
    match mknodat(CWD, path("device"), FileType::CharacterDevice, Mode::from(0o666), makedev(1, 3)) {
        Ok(()) => special.push("device"),
        Err(error) => testkit::skip(format!("no device can be made here: {error}")),
    }
    let heard = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    for name in &special {
        inotify::add_watch(&heard, path(name), inotify::WatchFlags::OPEN).unwrap();
        std::os::unix::fs::symlink(name, path(&format!("to {name}"))).unwrap();
    }
    std::fs::write(path("file"), "content").unwrap();
    std::fs::create_dir(path("dir")).unwrap();
    let root = dir.path().to_owned();
    run(async move {
        let root = Dir::open_root(&root).unwrap();
        let c_name = |name: &str| CString::new(name).unwrap();
        let errno = |opened: std::io::Result<File>| opened.map(drop).map_err(|e| e.raw_os_error().unwrap());
        for write in [false, true] {
            let how = |kind, symlinks| OpenHow { kind, symlinks, write };
            for name in &special {
                let to = c_name(&format!("to {name}"));
                let open = async |name: &CString, how| errno(root.open(name, how).await);
                assert_eq!(open(&c_name(name), how(OpenKind::Any, false)).await, Err(libc::ENXIO), "{name}");
                assert_eq!(open(&to, how(OpenKind::Any, true)).await, Err(libc::ENXIO), "{name}");
                let as_directory = open(&c_name(name), how(OpenKind::Directory, false)).await;
                assert_eq!(as_directory, Err(libc::ENOTDIR), "{name}");
                match root.handle_at(&c_name(name)).await {
                    Ok(handle) => match errno(root.open_handle(&handle, write).await) {
                        Err(libc::EPERM) => testkit::skip("files are not opened by handle here"),
                        opened => assert_eq!(opened, Err(libc::ENXIO), "{name}"),
                    },
                    Err(error) => testkit::skip(format!("no handles here: {error}")),
                }
            }
            let file = root.open(&c_name("file"), how(OpenKind::Any, false)).await.unwrap();
            assert_eq!(file.stat().unwrap().size, 7);
            assert_eq!(file.truncate(7).await.is_ok(), write, "opened as it was to be");
            let dir = errno(root.open(&c_name("dir"), how(OpenKind::Any, false)).await);
            assert_eq!(dir, if write { Err(libc::EISDIR) } else { Ok(()) });
        }
    });
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(&heard, &mut buffer);
    let event = reader.next().map(|event| event.events());
    assert!(event.is_err(), "somebody opened one: {event:?}");
}

#[test]
fn a_change_in_a_watched_directory_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_owned();
    run(async move {
        let root = Dir::open_root(&path).unwrap();
        let watch = root.watch().unwrap();
        std::fs::write(path.join("new"), "content").unwrap();
        let events = time::timeout(Duration::from_secs(5), lane::fs::watch_events()).await.unwrap().unwrap();
        let (name, what) = (b"new".to_vec(), EntryChange::Added);
        let added = WatchEvent::Entry { watch, name, what, is_directory: false };
        assert!(events.contains(&added), "{events:?}");
    });
}

#[test]
fn a_message_from_another_thread_ends_a_park() {
    let exchange = Exchange::<u32>::new(2, Limits { messages: 4, calls: 4 });
    let mut port = exchange.open(Member::from(0)).unwrap();
    let sender = exchange.sender(Member::from(1));
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        sender.cast(Member::from(0), 42).unwrap();
    });
    let began = Instant::now();
    run(async move {
        let mail = time::timeout(Duration::from_secs(10), port.recv()).await;
        assert!(matches!(mail, Ok(Some(Mail::Cast(_, 42)))), "{mail:?}");
    });
    assert!(began.elapsed() < Duration::from_secs(5));
    thread.join().unwrap();
}

#[test]
fn a_send_meets_the_reset_that_the_receive_beside_it_took() {
    run(async {
        let (client, server) = pair().await;
        client.try_send(&[IoSlice::new(b"hello")], false).unwrap();
        // The receive goes on beside whatever else happens, and is the first to learn.
        assert_eq!(*server.recv().await.unwrap(), *b"hello");
        client.reset();
        time::sleep(Duration::from_millis(100)).await;
        for _ in 0..2 {
            let error = server.try_send(&[IoSlice::new(b"for nobody")], false).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
        }
        assert_eq!(server.recv().await.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    });
}

#[test]
fn a_reader_that_never_takes_its_bytes_starves_nobody() {
    run(async {
        let (flooder, hoarder) = pair().await;
        let flood = spawn(async move {
            loop {
                let mut buf = lane::current().buffers().get(BufClass::Small).await;
                buf.append(&[7; 32_768]);
                if flooder.send(buf, false).await.0.is_err() {
                    return;
                }
            }
        });
        // Arms the hoarder's receive, then leaves what comes.
        let _ = hoarder.recv().await.unwrap();
        let (client, server) = pair().await;
        for round in 0..100u8 {
            client.try_send(&[IoSlice::new(&[round])], false).unwrap();
            let received = time::timeout(Duration::from_secs(5), server.recv()).await.unwrap().unwrap();
            assert_eq!(&received[..], &[round]);
        }
        drop(flood);
        // What the hoarder left is still there, in order.
        assert_eq!(hoarder.recv().await.unwrap()[0], 7);
    });
}

#[test]
fn clients_that_send_byte_by_byte_and_are_not_heard_keep_nobody_waiting() {
    run(async {
        let unheard = unheard(160).await;
        let (client, server) = pair().await;
        let before = lane::current().counters().turns.get();
        for round in 1..=10u8 {
            for (client, _) in &unheard {
                client.try_send(&[IoSlice::new(&[b'0' + round])], false).unwrap();
            }
            time::sleep(Duration::from_millis(50)).await;
            client.try_send(&[IoSlice::new(&[round])], false).unwrap();
            let served = time::timeout(Duration::from_secs(1), server.recv()).await;
            assert_eq!(&served.expect("another client is served at once").unwrap()[..], &[round]);
        }
        let counters = lane::current().counters().clone();
        assert_eq!(counters.recv_starved.get(), 0, "single bytes hold no buffers");
        let turns = counters.turns.get() - before;
        assert!(turns < 10_000, "the lane spun: {turns} turns");
        for (_, server) in &unheard {
            let mut heard = Vec::new();
            while heard.len() < 10 {
                heard.extend_from_slice(&server.recv().await.unwrap());
            }
            assert_eq!(heard, b"123456789:");
        }
    });
}

#[test]
fn clients_that_fill_their_share_and_are_not_heard_keep_nobody_waiting() {
    let ring = RingOptions { stream_buffers: 64, stream_buffer_bytes: 4096, ..RingOptions::default() };
    let options = RuntimeOptions { ring, ..RuntimeOptions::default() };
    run_here(options, async {
        let unheard = unheard(100).await;
        let bytes: Vec<u8> = (0..200_000u32).map(|n| (n % 251) as u8).collect();
        let sent: Vec<usize> = unheard
            .iter()
            .map(|(client, _)| client.try_send(&[IoSlice::new(&bytes)], false).unwrap().unwrap_or(0))
            .collect();
        let counters = lane::current().counters().clone();
        let before = counters.turns.get();
        let (client, server) = pair().await;
        for round in 0..100u8 {
            client.try_send(&[IoSlice::new(&[round])], false).unwrap();
            let served = time::timeout(Duration::from_secs(1), server.recv()).await;
            assert_eq!(&served.expect("another client is served at once").unwrap()[..], &[round]);
        }
        time::sleep(Duration::from_millis(200)).await;
        let turns = counters.turns.get() - before;
        assert!(turns < 10_000, "the lane spun: {turns} turns");
        // Each can fail once where all come in one turn, and again with what one more turn brings.
        let starved = counters.recv_starved.get();
        assert!(starved <= 400, "{starved} receives found no buffer");
        for ((_, server), sent) in unheard.iter().zip(sent) {
            let mut heard = Vec::new();
            while heard.len() < sent {
                heard.extend_from_slice(&server.recv().await.unwrap());
            }
            assert!(heard == bytes[..sent]);
        }
        // The gauge follows with the next turn.
        while counters.recv_held_bytes.get() > 0 {
            time::sleep(Duration::from_millis(1)).await;
        }
    })
    .unwrap();
}

#[test]
fn copies_of_what_nobody_takes_keep_to_their_budget() {
    let ring = RingOptions { stream_buffers: 64, stream_buffer_bytes: 4096, ..RingOptions::default() };
    let options = RuntimeOptions { ring, ..RuntimeOptions::default() };
    run_here(options, async {
        let listener = TcpListener::bind(LOOPBACK, &ListenOptions::default()).unwrap();
        let addr = listener.local_addr().unwrap();
        let mut unheard = Vec::new();
        for _ in 0..400 {
            let client = TcpStream::connect(addr).await.unwrap();
            let server = listener.accept().await.unwrap();
            client.try_send(&[IoSlice::new(b"0")], false).unwrap();
            assert_eq!(*server.recv().await.unwrap(), *b"0");
            unheard.push((client, server));
        }
        let counters = lane::current().counters().clone();
        for (n, (client, _)) in unheard.iter().enumerate() {
            client.try_send(&[IoSlice::new(&[7; 28_000])], false).unwrap();
            if n % 5 == 0 {
                time::sleep(Duration::from_micros(100)).await;
            }
        }
        time::sleep(Duration::from_millis(50)).await;
        let held = counters.recv_held_bytes.get();
        assert!(held > 0 && held <= 4 * 64 * 4096, "{held} bytes of 11 MB");
    })
    .unwrap();
}

#[test]
fn a_burst_behind_requests_that_were_waited_for_keeps_to_the_budget() {
    let ring = RingOptions { stream_buffers: 64, stream_buffer_bytes: 4096, ..RingOptions::default() };
    let options = RuntimeOptions { ring, ..RuntimeOptions::default() };
    run_here(options, async {
        let listener = TcpListener::bind(LOOPBACK, &ListenOptions::default()).unwrap();
        let addr = listener.local_addr().unwrap();
        let (mut clients, mut tasks) = (Vec::new(), Vec::new());
        for _ in 0..400 {
            clients.push(TcpStream::connect(addr).await.unwrap());
            let server = listener.accept().await.unwrap();
            // Each waits for its request and leaves what comes with it until it is told to go on.
            tasks.push(spawn(async move {
                let first = server.recv().await.unwrap().to_vec();
                (first, server)
            }));
        }
        let bytes: Vec<u8> = (0..28_000u32).map(|n| (n % 251) as u8).collect();
        for (n, client) in clients.iter().enumerate() {
            client.try_send(&[IoSlice::new(&bytes)], false).unwrap();
            if n % 5 == 0 {
                time::sleep(Duration::from_micros(100)).await;
            }
        }
        let mut served = Vec::new();
        for task in tasks {
            served.push(time::timeout(Duration::from_secs(5), task).await.expect("each is heard once"));
        }
        let counters = lane::current().counters().clone();
        let held = counters.recv_held_bytes.get();
        assert!(counters.recv_disarmed.get() > 0);
        assert!(held > 0 && held <= 4 * 64 * 4096, "{held} bytes of 11 MB");
        for (mut heard, server) in served {
            while heard.len() < bytes.len() {
                heard.extend_from_slice(&server.recv().await.unwrap());
            }
            assert!(heard == bytes);
        }
    })
    .unwrap();
}

#[test]
fn dropped_operations_never_touch_a_reused_descriptor() {
    run(async {
        let listener = Rc::new(TcpListener::bind(LOOPBACK, &ListenOptions::default()).unwrap());
        let addr = listener.local_addr().unwrap();
        for _ in 0..50 {
            let client = TcpStream::connect(addr).await.unwrap();
            let server = listener.accept().await.unwrap();
            let mut buf = lane::current().buffers().get(BufClass::Small).await;
            buf.append(b"stale");
            // Queued in the ring, then given up and the stream closed before the kernel saw it.
            let mut send = Box::pin(server.send(buf, false));
            std::future::poll_fn(|cx| {
                let _ = send.as_mut().poll(cx);
                std::task::Poll::Ready(())
            })
            .await;
            drop(send);
            drop(server);
            let client2 = TcpStream::connect(addr).await.unwrap();
            let server2 = listener.accept().await.unwrap();
            server2.try_send(&[IoSlice::new(b"fresh")], false).unwrap();
            assert_eq!(&client2.recv().await.unwrap()[..], b"fresh");
            drop(client);
        }
        let usage = lane::current().buffers().usage(BufClass::Small);
        assert_eq!(usage.allocated, usage.free + usage.in_use);
    });
}

#[test]
fn an_open_that_was_given_up_leaves_no_descriptor() {
    // The kernel never answers for these names from its cache, so each open goes through the ring.
    let dir = std::fs::canonicalize("/proc/self/fdinfo").unwrap();
    let held = tempfile::tempfile().unwrap();
    let name = std::os::fd::AsRawFd::as_raw_fd(&held).to_string();
    let path = dir.join(&name);
    let open_now = move || {
        let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        links.filter(|link| std::fs::read_link(link.path()).is_ok_and(|target| target == path)).count()
    };
    let after_the_lane = open_now.clone();
    run(async move {
        let root = Dir::open_root(&dir).unwrap();
        let name = CString::new(name).unwrap();
        let counters = lane::current().counters().clone();
        let files = counters.files.get();
        drop(root.open(&name, OpenHow::FOLLOW).await.unwrap());
        for turns in 0..3 {
            let submitted = counters.submissions.get();
            for _ in 0..200 {
                let mut open = Box::pin(root.open(&name, OpenHow::FOLLOW));
                std::future::poll_fn(|cx| {
                    assert!(open.as_mut().poll(cx).is_pending(), "an open through the ring waits");
                    std::task::Poll::Ready(())
                })
                .await;
                for _ in 0..turns {
                    lane::yield_now().await;
                    time::sleep(Duration::from_micros(10)).await;
                }
                drop(open);
            }
            let began = Instant::now();
            while open_now() > 0 {
                assert!(began.elapsed() < Duration::from_secs(5), "{} are open still", open_now());
                time::sleep(Duration::from_millis(1)).await;
            }
            assert!(counters.submissions.get() >= submitted + 200);
            assert_eq!(counters.files.get(), files);
        }
        // Given up with the lane itself.
        let mut open = Box::pin(root.open(&name, OpenHow::FOLLOW));
        std::future::poll_fn(|cx| {
            assert!(open.as_mut().poll(cx).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        std::mem::forget(open);
    });
    assert_eq!(after_the_lane(), 0);
}

#[test]
fn connections_that_nobody_took_are_closed_with_their_listener_and_with_the_lane() {
    for with_the_lane in [false, true] {
        let peers = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let made = std::sync::Arc::clone(&peers);
        run(async move {
            let listener = TcpListener::bind(LOOPBACK, &ListenOptions::default()).unwrap();
            let addr = listener.local_addr().unwrap();
            // Arms the accept, which takes connections ahead of the first request.
            let mut accept = Box::pin(listener.accept());
            std::future::poll_fn(|cx| {
                assert!(accept.as_mut().poll(cx).is_pending());
                std::task::Poll::Ready(())
            })
            .await;
            let accepted = lane::current().counters().accepted.get();
            for _ in 0..10 {
                made.lock().unwrap().push(std::net::TcpStream::connect(addr).unwrap());
            }
            while lane::current().counters().accepted.get() < accepted + 10 {
                time::sleep(Duration::from_millis(1)).await;
            }
            drop(accept);
            if with_the_lane {
                std::mem::forget(listener);
            }
        });
        for mut peer in peers.lock().unwrap().drain(..) {
            peer.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let ended = std::io::Read::read(&mut peer, &mut [0]);
            assert!(
                matches!(&ended, Ok(0))
                    || ended.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset),
                "{ended:?}"
            );
        }
    }
}

fn run(main: impl Future<Output = ()> + 'static) {
    run_here(RuntimeOptions::default(), main).unwrap();
}

/// Returns streams with the first request taken, and a task that does not listen on during the answer.
async fn unheard(count: usize) -> Vec<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind(LOOPBACK, &ListenOptions::default()).unwrap();
    let mut unheard = Vec::new();
    for _ in 0..count {
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let server = listener.accept().await.unwrap();
        client.try_send(&[IoSlice::new(b"0")], false).unwrap();
        assert_eq!(*server.recv().await.unwrap(), *b"0");
        unheard.push((client, server));
    }
    unheard
}

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(LOOPBACK, &ListenOptions::default()).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (client, listener.accept().await.unwrap())
}

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
