//! The same code on io_uring and in a world: what it sees must not differ.

use std::ffi::CString;
use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use lane::backend::sim::{Config, Fs, ReceiveConfig, World};
use lane::backend::uring::RingOptions;
use lane::backend::{DatagramBatch, ListenOptions, UdpOptions, Watch};
use lane::buffer::BufClass;
use lane::fs::{Dir, OpenHow, OpenKind, WatchEvent, watch_events};
use lane::net::{TcpListener, TcpStream, UdpSocket};
use lane::runtime::{RuntimeOptions, run_here};
use lane::time;

/// A file tree to build on either side.
enum Entry {
    File(&'static str, &'static str),
    Link(&'static str, &'static str),
    Pipe(&'static str),
}

/// A change of the tree while a scenario runs. What directories it needs are made.
#[derive(Clone, Copy, Debug)]
enum Edit {
    Write(&'static str, &'static str),
    Append(&'static str, &'static str),
    Mode(&'static str, u32),
    Rename(&'static str, &'static str),
    Remove(&'static str),
}

/// Makes changes on the side that a scenario runs on.
type Editor = Rc<dyn Fn(Edit)>;

/// Runs `scenario` on both backends, in a directory with `tree`, and compares what it saw, one by one.
fn same_on_both<T, F>(tree: &[Entry], scenario: impl Fn(PathBuf, Editor) -> F)
where
    T: PartialEq + Debug + 'static,
    F: Future<Output = Vec<T>> + 'static,
{
    same_on_both_with(&RuntimeOptions::default(), &Config::default(), tree, scenario);
}

/// As [`same_on_both`] with sizes of choice.
fn same_on_both_with<T, F>(
    options: &RuntimeOptions,
    config: &Config,
    tree: &[Entry],
    scenario: impl Fn(PathBuf, Editor) -> F,
) where
    T: PartialEq + Debug + 'static,
    F: Future<Output = Vec<T>> + 'static,
{
    let real_dir = tempfile::tempdir().unwrap();
    let real_root = real_dir.path().join("srv");
    build_real(&real_root, tree);
    let editor = real_editor(real_root.clone());
    let real = run_here(*options, scenario(real_root, editor)).unwrap();
    for seed in 0..20 {
        let world = World::new(seed, config.clone());
        let host = world.host("10.0.0.1");
        build_simulated(&host.fs(), tree);
        let simulated = world.block_on(&host, scenario(PathBuf::from("/srv"), simulated_editor(host.fs())));
        let differ: Vec<_> =
            simulated.iter().zip(&real).filter(|(simulated, real)| simulated != real).collect();
        assert!(differ.is_empty(), "seed {seed}, simulated and real: {differ:#?}");
        assert_eq!(simulated.len(), real.len());
    }
}

fn build_real(root: &Path, tree: &[Entry]) {
    let at = |path: &str| {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    std::fs::create_dir_all(root).unwrap();
    for entry in tree {
        match entry {
            Entry::File(path, bytes) => std::fs::write(at(path), bytes).unwrap(),
            Entry::Link(path, target) => std::os::unix::fs::symlink(target, at(path)).unwrap(),
            Entry::Pipe(path) => {
                use rustix::fs::{CWD, FileType, Mode, mknodat};
                mknodat(CWD, at(path), FileType::Fifo, Mode::RUSR, 0).unwrap();
            }
        }
    }
}

fn build_simulated(fs: &Fs, tree: &[Entry]) {
    fs.create_dir_all("/srv").unwrap();
    for entry in tree {
        match entry {
            Entry::File(path, bytes) => fs.write(&format!("/srv/{path}"), *bytes).unwrap(),
            Entry::Link(path, target) => fs.symlink(target, &format!("/srv/{path}")).unwrap(),
            Entry::Pipe(path) => fs.pipe(&format!("/srv/{path}")).unwrap(),
        }
    }
}

fn real_editor(root: PathBuf) -> Editor {
    use std::io::Write;
    Rc::new(move |edit| {
        let at = |path: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            path
        };
        match edit {
            Edit::Write(path, bytes) => std::fs::write(at(path), bytes).unwrap(),
            Edit::Append(path, bytes) => {
                let mut file = std::fs::OpenOptions::new().append(true).open(at(path)).unwrap();
                file.write_all(bytes.as_bytes()).unwrap();
            }
            Edit::Mode(path, mode) => {
                use std::os::unix::fs::PermissionsExt;
                std::fs::set_permissions(at(path), std::fs::Permissions::from_mode(mode)).unwrap();
            }
            Edit::Rename(from, to) => std::fs::rename(at(from), at(to)).unwrap(),
            Edit::Remove(path) if at(path).is_dir() => std::fs::remove_dir_all(at(path)).unwrap(),
            Edit::Remove(path) => std::fs::remove_file(at(path)).unwrap(),
        }
    })
}

fn simulated_editor(fs: Fs) -> Editor {
    Rc::new(move |edit| {
        let at = |path: &str| format!("/srv/{path}");
        match edit {
            Edit::Write(path, bytes) => fs.write(&at(path), bytes).unwrap(),
            Edit::Append(path, bytes) => fs.append(&at(path), bytes.as_bytes()).unwrap(),
            Edit::Mode(path, mode) => fs.set_mode(&at(path), mode).unwrap(),
            Edit::Rename(from, to) => fs.rename(&at(from), &at(to)).unwrap(),
            Edit::Remove(path) => fs.remove(&at(path)).unwrap(),
        }
    })
}

/// The error number, for errors that came from a kernel.
fn errno<T>(result: io::Result<T>) -> Result<T, Option<i32>> {
    result.map_err(|error| error.raw_os_error())
}

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(LOOPBACK, &ListenOptions::default()).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (client, listener.accept().await.unwrap())
}

async fn settle() {
    time::sleep(Duration::from_millis(20)).await;
}

async fn receive(stream: &TcpStream) -> Result<Vec<u8>, Option<i32>> {
    errno(stream.recv().await.map(|bytes| bytes.to_vec()))
}

#[test]
fn names_resolve_alike() {
    let tree = [
        Entry::File("file", "content"),
        Entry::File("dir/inner", "x"),
        Entry::File("dir/deep/er", "x"),
        Entry::Link("link", "file"),
        Entry::Link("dirlink", "dir"),
        Entry::Link("dirlink_slash", "dir/"),
        Entry::Link("filelink_slash", "file/"),
        Entry::Link("absolute", "/etc"),
        Entry::Link("escape", "../outside"),
        Entry::Link("dangling", "nowhere"),
        Entry::Link("loop", "loop"),
        Entry::Link("loop_a", "loop_b"),
        Entry::Link("loop_b", "loop_a"),
        Entry::Link("dir/up", ".."),
        Entry::Link("dir/upup", "../.."),
        Entry::Link("dir/self", "."),
        Entry::Link("chain", "dir/up/link"),
        Entry::Pipe("pipe"),
        Entry::Link("to_pipe", "pipe"),
    ];
    same_on_both(&tree, |root, _| async move {
        let root = Dir::open_root(&root).unwrap();
        let mut seen = Vec::new();
        for path in PATHS {
            let name = CString::new(*path).unwrap();
            for kind in [OpenKind::Any, OpenKind::Directory] {
                for symlinks in [true, false] {
                    let opened = root.open(&name, OpenHow { kind, symlinks }).await;
                    let found = errno(opened.map(|file| file.stat().unwrap().kind));
                    seen.push(format!("open {path:?} {kind:?} links {symlinks}: {found:?}"));
                }
            }
            let found = errno(root.stat_at(&name).await.map(|stat| stat.kind));
            seen.push(format!("stat {path:?}: {found:?}"));
        }
        seen
    });
}

#[test]
fn reads_end_alike() {
    same_on_both(&[Entry::File("file", "0123456789"), Entry::File("dir/x", "")], |root, _| async move {
        let root = Dir::open_root(&root).unwrap();
        let file = root.open(&CString::new("file").unwrap(), OpenHow::FOLLOW).await.unwrap();
        let dir = root.open(&CString::new("dir").unwrap(), OpenHow::FOLLOW).await.unwrap();
        let mut seen = Vec::new();
        for (file, offset, len) in
            [(&file, 0, 4), (&file, 8, 10), (&file, 10, 1), (&file, 99, 1), (&file, 0, 0), (&dir, 0, 1)]
        {
            let buf = lane::current().buffers().get(BufClass::Small).await;
            let (read, buf) = file.read_at(offset, len, buf).await;
            seen.push((errno(read), buf.to_vec()));
        }
        let stat = file.stat().unwrap();
        seen.push((Ok(stat.size as usize), Vec::new()));
        seen.push((Ok(stat.nlink as usize), Vec::new()));
        seen.push((errno(file.into_dir()).map(|_| 0), Vec::new()));
        seen
    });
}

#[test]
fn streams_end_alike() {
    same_on_both(&[], |_, _| async {
        let mut seen = Vec::new();
        // A half-closed stream still gives the other way.
        let (client, server) = pair().await;
        client.shutdown(Shutdown::Write).unwrap();
        seen.push(("half-closed", receive(&server).await));
        crate::send(&server, b"still here").await.unwrap();
        let mut other_way = Vec::new();
        while other_way.len() < 10 {
            other_way.extend(receive(&client).await.unwrap());
        }
        seen.push(("other way", Ok(other_way)));
        let refused = errno(client.try_send(&[IoSlice::new(b"x")], false));
        seen.push(("send after shutdown", refused.map(|_| Vec::new())));
        // Closed with bytes untaken.
        let (client, server) = pair().await;
        client.try_send(&[IoSlice::new(b"never taken")], false).unwrap();
        settle().await;
        drop(server);
        seen.push(("untaken", receive(&client).await));
        seen.push(("after the reset", receive(&client).await));
        let broken = errno(client.try_send(&[IoSlice::new(b"x")], false));
        seen.push(("send after the reset", broken.map(|_| Vec::new())));
        // Bytes before a reset can still be taken.
        let (client, server) = pair().await;
        server.try_send(&[IoSlice::new(b"before")], false).unwrap();
        settle().await;
        server.reset();
        settle().await;
        let broken = errno(client.try_send(&[IoSlice::new(b"x")], false));
        seen.push(("send learns of the reset first", broken.map(|_| Vec::new())));
        // Sending to a stream closed in good order: the first takes, the next learns.
        let (client, server) = pair().await;
        drop(server);
        settle().await;
        seen.push(("end", receive(&client).await));
        seen.push(("first", errno(client.try_send(&[IoSlice::new(b"x")], false)).map(|_| Vec::new())));
        settle().await;
        seen.push(("second", errno(client.try_send(&[IoSlice::new(b"x")], false)).map(|_| Vec::new())));
        // No more reading.
        let (client, server) = pair().await;
        client.shutdown(Shutdown::Read).unwrap();
        seen.push(("shut for reading", receive(&client).await));
        drop(server);
        seen
    });
}

#[test]
fn a_ring_of_few_buffers_serves_whoever_listens_alike() {
    let (buffers, buffer_bytes) = (16, 1024);
    let ring = RingOptions { stream_buffers: 16, stream_buffer_bytes: 1024, ..RingOptions::default() };
    let mut config = Config::default();
    config.net.receive = ReceiveConfig { buffers, buffer_bytes, ..ReceiveConfig::default() };
    let options = RuntimeOptions { ring, ..RuntimeOptions::default() };
    same_on_both_with(&options, &config, &[], move |_, _| async move {
        let counters = lane::current().counters().clone();
        let mut seen = Vec::new();
        let mut unheard = Vec::new();
        for _ in 0..60 {
            let (client, server) = pair().await;
            client.try_send(&[IoSlice::new(b"!")], false).unwrap();
            assert_eq!(receive(&server).await.unwrap(), b"!");
            unheard.push((client, server, Vec::new()));
        }
        let (client, server) = pair().await;
        // Single bytes from many that nobody listens to, then more than all may hold.
        for piece in [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3000, 3000, 20_000] {
            for (client, _, sent) in &mut unheard {
                let bytes = crate::pattern(sent.len() + piece).split_off(sent.len());
                crate::send(client, &bytes).await.unwrap();
                sent.extend(bytes);
            }
            settle().await;
            client.try_send(&[IoSlice::new(b"?")], false).unwrap();
            let served = time::timeout(Duration::from_millis(500), receive(&server)).await;
            seen.push((format!("beside {piece}"), served.ok()));
        }
        let held = counters.recv_held_bytes.get() as usize;
        // Half of the budget of four rings, an eighth more for each round of disarming, and what one is late.
        seen.push((format!("bounded: {}", held <= 5 * buffers * buffer_bytes), None));
        // A receive that nobody waits for ends where it finds no buffer, too.
        let starved = counters.recv_starved.get();
        let stopped = counters.recv_disarmed.get() + counters.recv_paused.get() + starved;
        seen.push((format!("stopped: {}", stopped >= 60), None));
        seen.push((format!("few starved: {}", starved <= 60 * 4), None));
        for (_, server, sent) in &unheard {
            let mut heard = Vec::new();
            while heard.len() < sent.len() {
                heard.extend(receive(server).await.unwrap());
            }
            assert!(heard == *sent);
        }
        seen
    });
}

#[test]
fn addresses_are_taken_and_shared_alike() {
    same_on_both(&[], |_, _| async {
        let alone = ListenOptions::default();
        let shared = ListenOptions { reuse_port: true, ..alone.clone() };
        let first = TcpListener::bind(LOOPBACK, &alone).unwrap();
        let addr = first.local_addr().unwrap();
        let wildcard = SocketAddr::from(([0, 0, 0, 0], addr.port()));
        let foreign = SocketAddr::from(([192, 0, 2, 1], 0));
        let mut seen = Vec::new();
        for (addr, options) in
            [(addr, &alone), (addr, &shared), (wildcard, &alone), (wildcard, &shared), (foreign, &alone)]
        {
            seen.push(errno(TcpListener::bind(addr, options).map(drop)));
        }
        drop(first);
        settle().await;
        let members = [TcpListener::bind(addr, &shared), TcpListener::bind(addr, &shared)];
        seen.extend(members.iter().map(|member| member.as_ref().map(drop).map_err(io::Error::raw_os_error)));
        seen.push(errno(TcpListener::bind(addr, &alone).map(drop)));
        drop(members);
        settle().await;
        seen.push(errno(TcpStream::connect(addr).await.map(drop)));
        let udp = UdpSocket::bind(addr, &UdpOptions::default());
        seen.push(errno(udp.map(drop)));
        let listener = TcpListener::bind(LOOPBACK, &alone).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let server = listener.accept().await.unwrap();
        assert_eq!(client.local_addr().unwrap(), server.peer_addr());
        assert_eq!(server.local_addr().unwrap(), client.peer_addr());
        seen
    });
}

#[test]
fn changes_are_told_alike() {
    let tree = [Entry::File("kept", ""), Entry::File("sub/x", ""), Entry::File("open/x", "")];
    same_on_both(&tree, |root, edit| async move {
        let dir = Dir::open_root(&root).unwrap();
        let watch = dir.watch().unwrap();
        assert_eq!(dir.watch().unwrap(), watch);
        let open_beneath = async |name: &str| {
            let sub = dir.open(&CString::new(name).unwrap(), OpenHow::FOLLOW).await.unwrap();
            sub.into_dir().unwrap()
        };
        let sub_watch = open_beneath("sub").await.watch().unwrap();
        let kept_open = open_beneath("open").await;
        let open_watch = kept_open.watch().unwrap();
        let nothing = time::timeout(Duration::from_millis(20), watch_events()).await;
        assert!(nothing.is_err(), "{nothing:?}");
        let name_of = |watch_told: Watch| match watch_told {
            told if told == watch => "root",
            told if told == sub_watch => "sub",
            told if told == open_watch => "open",
            _ => "unknown",
        };
        let told = async || {
            settle().await;
            let mut told = Vec::new();
            while let Ok(events) = time::timeout(Duration::from_millis(20), watch_events()).await {
                told.extend(events.unwrap().into_iter().map(|event| match event {
                    WatchEvent::Entry { watch, name } => {
                        format!("{} {}", name_of(watch), String::from_utf8(name).unwrap())
                    }
                    WatchEvent::Gone(watch) => format!("{} gone", name_of(watch)),
                    WatchEvent::Overflow => "overflow".to_owned(),
                }));
            }
            told.dedup();
            told
        };
        let mut seen = Vec::new();
        for change in [
            Edit::Write("new", "content"),
            Edit::Write("new", "other"),
            Edit::Append("kept", "more"),
            Edit::Mode("kept", 0o600),
            Edit::Rename("new", "newer"),
            Edit::Rename("newer", "sub/newest"),
            Edit::Rename("sub/newest", "kept"),
            Edit::Write("unwatched/x", "content"),
            Edit::Append("unwatched/x", "more"),
            Edit::Remove("kept"),
            Edit::Remove("sub"),
            Edit::Remove("open"),
        ] {
            edit(change);
            seen.push((format!("{change:?}"), told().await));
        }
        drop(kept_open);
        seen.push(("the removed directory is closed".to_owned(), told().await));
        lane::fs::unwatch(watch);
        seen.push(("unwatched".to_owned(), told().await));
        edit(Edit::Write("unseen", ""));
        seen.push(("written".to_owned(), told().await));
        seen
    });
}

#[test]
fn bursts_of_datagrams_go_alike() {
    same_on_both(&[], |_, _| async {
        let receiver = UdpSocket::bind(LOOPBACK, &UdpOptions::default()).unwrap();
        let sender = UdpSocket::bind(LOOPBACK, &UdpOptions::default()).unwrap();
        let to = receiver.local_addr().unwrap();
        let mut seen = Vec::new();
        for (total, segment) in
            [(10_000, 1000), (10_001, 1000), (999, 1000), (0, 1000), (10_000, 100), (10, 0)]
        {
            let bytes = vec![7; total];
            let parts = [IoSlice::new(&bytes)];
            let batch = DatagramBatch { to, from: None, segment, dont_fragment: false, parts: &parts };
            let sent = loop {
                match sender.try_send(&batch) {
                    Ok(None) => sender.writable().await.unwrap(),
                    Ok(Some(n)) => break Ok(n),
                    Err(error) => break Err(error.kind()),
                }
            };
            let mut lengths = Vec::new();
            while let Ok(n) = sent
                && (lengths.is_empty() || lengths.iter().sum::<usize>() < n)
            {
                let mut received = Vec::new();
                receiver.recv(&mut received, 16).await.unwrap();
                for datagram in &received {
                    assert_eq!(datagram.from, sender.local_addr().unwrap());
                    assert_eq!(datagram.local, Some(to.ip()));
                    match datagram.buf.len() {
                        0 => lengths.push(0),
                        _ => lengths.extend(datagram.segments().map(<[u8]>::len)),
                    }
                }
            }
            seen.push((sent, lengths));
        }
        seen
    });
}

#[test]
fn datagrams_that_somebody_keeps_are_missed_by_nobody_on_either_side() {
    let ring = RingOptions { datagram_buffers: 16, ..RingOptions::default() };
    let mut config = Config::default();
    config.net.receive = ReceiveConfig { datagram_buffers: 16, ..ReceiveConfig::default() };
    let options = RuntimeOptions { ring, ..RuntimeOptions::default() };
    same_on_both_with(&options, &config, &[], |_, _| async {
        let bind = || UdpSocket::bind(LOOPBACK, &UdpOptions { gro: false, ..UdpOptions::default() }).unwrap();
        let (sender, keeper, other) = (bind(), bind(), bind());
        let send = async |to: &UdpSocket, byte: u8| {
            let payload = [byte];
            let parts = [IoSlice::new(&payload)];
            let to = to.local_addr().unwrap();
            let batch = DatagramBatch { to, from: None, segment: 1, dont_fragment: false, parts: &parts };
            while sender.try_send(&batch).unwrap().is_none() {
                sender.writable().await.unwrap();
            }
        };
        let (mut kept, mut seen) = (Vec::new(), Vec::new());
        for round in 0..40 {
            send(&keeper, round).await;
            keeper.recv(&mut kept, 1).await.unwrap();
            send(&other, round).await;
            let mut received = Vec::new();
            let served = time::timeout(Duration::from_millis(500), other.recv(&mut received, 4)).await;
            assert!(served.is_ok(), "round {round}");
            seen.push(received.iter().map(|datagram| datagram.buf.to_vec()).collect());
        }
        // Twelve are lent; what came beyond was copied: the rest of the keeper's and what the other got then.
        let counters = lane::current().counters().clone();
        seen.push(vec![format!("copied {}", counters.recv_copied.get()).into_bytes()]);
        seen.push(vec![format!("starved {}", counters.recv_starved.get()).into_bytes()]);
        seen.push(kept.iter().map(|datagram| datagram.buf.to_vec()).collect::<Vec<Vec<u8>>>());
        seen
    });
}

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

const PATHS: &[&str] = &[
    "",
    ".",
    "./",
    "/",
    "/etc/passwd",
    "..",
    "../srv/file",
    "file",
    "./file",
    "file/",
    "file/.",
    "file/x",
    "dir",
    "dir/",
    "dir//inner",
    "dir/.",
    "dir/..",
    "dir/../file",
    "dir/../..",
    "dir/deep/../../file",
    "dir/deep/../../../srv/file",
    "absent",
    "absent/x",
    "absent/..",
    "link",
    "link/",
    "link/x",
    "dirlink",
    "dirlink/",
    "dirlink/inner",
    "dirlink/../file",
    "dirlink_slash",
    "dirlink_slash/inner",
    "filelink_slash",
    "absolute",
    "absolute/passwd",
    "escape",
    "dangling",
    "dangling/x",
    "loop",
    "loop/x",
    "loop_a",
    "dir/up/file",
    "dir/up/dir/up/link",
    "dir/upup",
    "dir/upup/srv",
    "dir/self/self/inner",
    "chain",
    "pipe",
    "pipe/",
    "to_pipe",
];

#[test]
fn datagrams_for_a_closed_port_are_reported_alike_and_fail_no_others() {
    same_on_both(&[], |_, _| async {
        let bind = || UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
        let (sender, receiver, closed) = (bind(), bind(), bind());
        let nobody = closed.local_addr().unwrap();
        drop(closed);
        settle().await;
        let send = async |to: SocketAddr, payload: &[u8]| {
            let parts = [IoSlice::new(payload)];
            let batch = DatagramBatch { to, from: None, segment: 100, dont_fragment: false, parts: &parts };
            while sender.try_send(&batch).unwrap().is_none() {
                sender.writable().await.unwrap();
            }
        };
        let mut seen = Vec::new();
        let mut received = Vec::new();
        // Nobody asked for reports yet.
        send(nobody, b"lost").await;
        let silent = time::timeout(Duration::from_millis(50), sender.recv(&mut received, 16)).await.is_err();
        seen.push((silent, sender.try_take_unreachable().map(|report| report.quoted)));
        sender.report_unreachable().unwrap();
        for payload in [&[1; 300][..], &[2; 30]] {
            send(nobody, payload).await;
            // Meets the report of the one before, or not.
            send(receiver.local_addr().unwrap(), payload).await;
            let told = time::timeout(Duration::from_secs(5), sender.recv(&mut received, 16)).await.unwrap();
            let report = sender.try_take_unreachable().unwrap();
            assert_eq!(report.peer, nobody);
            seen.push((told.is_err(), Some(report.quoted)));
            while sender.try_take_unreachable().is_some() {}
            let mut bytes = 0;
            while bytes < payload.len() {
                receiver.recv(&mut received, 16).await.unwrap();
                bytes += received.drain(..).map(|datagram| datagram.buf.len()).sum::<usize>();
            }
            assert_eq!(bytes, payload.len());
        }
        // The receive begins again after it.
        let parts = [IoSlice::new(b"answer")];
        let to = sender.local_addr().unwrap();
        let batch = DatagramBatch { to, from: None, segment: 100, dont_fragment: false, parts: &parts };
        while receiver.try_send(&batch).unwrap().is_none() {
            receiver.writable().await.unwrap();
        }
        while received.is_empty() {
            // Reports of the datagrams after the first may come late.
            let _ = sender.recv(&mut received, 16).await;
        }
        seen.push((false, Some(received[0].buf.to_vec())));
        seen
    });
}
