//! Bad input and faults against the whole program: a clear status or a close, counted under its reason, and
//! other clients unharmed.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use testkit::Disk;
use testkit::netns::Namespace;

use crate::support::http2;
use crate::support::raw::{self, Response};
use crate::support::share::Share;
use crate::support::site::Site;
use crate::support::{Launch, Server, linerate, output, patterned, tool, wait_for};

#[test]
fn what_is_no_clear_request_is_refused_and_the_connection_closed() {
    let site = Site::new(&[("a.txt", b"hello\n"), ("secret", b"never asked for")], "");
    let server = site.start();
    let mut expected = BTreeMap::new();
    for (request, status, reason) in unclear_requests() {
        // What a smuggler hides behind it must never be answered.
        let hidden = b"GET /secret HTTP/1.1\r\nHost: a\r\n\r\n";
        let answer = raw::talk(server.http[0], &[request.as_slice(), hidden].concat());
        let shown = String::from_utf8_lossy(&request[..request.len().min(120)]).into_owned();
        let response = Response::parse(&answer);
        assert_eq!(response.status, status, "{shown:?}");
        assert_eq!(response.expect("connection"), "close", "{shown:?}");
        assert_eq!(
            response.expect("content-length"),
            response.body.len().to_string(),
            "one answer: {shown:?}"
        );
        *expected.entry(reason).or_insert(0) += 1;
    }
    for (reason, count) in expected {
        assert_eq!(
            server.counted("linerate_http_refused", &format!("reason=\"{reason}\"")),
            count,
            "{reason}"
        );
    }
    assert_serves(&server);
}

fn unclear_requests() -> Vec<(Vec<u8>, u16, &'static str)> {
    let text = |request: &str| request.as_bytes().to_vec();
    let with = |fields: &str| format!("GET /a.txt HTTP/1.1\r\nHost: a\r\n{fields}\r\n").into_bytes();
    vec![
        (text("GET\r\n\r\n"), 400, "request_line"),
        (text("GET /a.txt\r\nHost: a\r\n\r\n"), 400, "request_line"),
        (text("GET  /a.txt HTTP/1.1\r\nHost: a\r\n\r\n"), 400, "request_line"),
        (text("G\u{1}T /a.txt HTTP/1.1\r\nHost: a\r\n\r\n"), 400, "request_line"),
        (text("GET /a.txt HTTP/1.1 \r\nHost: a\r\n\r\n"), 400, "request_line"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec(), 400, "request_line"),
        (text("GET /a.txt HTTP/2.0\r\nHost: a\r\n\r\n"), 505, "version"),
        (text("GET /a.txt HTTP/0.9\r\nHost: a\r\n\r\n"), 505, "version"),
        (text("BREW /a.txt HTTP/1.1\r\nHost: a\r\n\r\n"), 501, "method_unknown"),
        (text("CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n"), 405, "method_not_allowed"),
        (text("GET a.txt HTTP/1.1\r\nHost: a\r\n\r\n"), 400, "target"),
        (text("GET /a.txt#part HTTP/1.1\r\nHost: a\r\n\r\n"), 400, "target"),
        (text("GET ftp://a/a.txt HTTP/1.1\r\nHost: a\r\n\r\n"), 400, "target"),
        (text("GET /a.txt HTTP/1.1\r\n\r\n"), 400, "host"),
        (with("Host: b\r\n"), 400, "host"),
        (text("GET /a.txt HTTP/1.1\r\nHost: a b\r\n\r\n"), 400, "host"),
        (text("GET /a.txt HTTP/1.1\nHost: a\n\n"), 400, "bare_lf"),
        (with("A: b\n"), 400, "bare_lf"),
        (with("A: b\r\n folded\r\n"), 400, "header_field"),
        (with("A : b\r\n"), 400, "header_field"),
        (with(": b\r\n"), 400, "header_field"),
        (with("A: \0\r\n"), 400, "header_field"),
        (with("A: b\rc\r\n"), 400, "header_field"),
        (with("Content-Length: 6\r\nTransfer-Encoding: chunked\r\n"), 400, "body_length"),
        (with("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n"), 400, "body_length"),
        (with("Content-Length: 1\r\nContent-Length: 2\r\n"), 400, "body_length"),
        (with("Content-Length: +1\r\n"), 400, "body_length"),
        (with("Content-Length: 0x10\r\n"), 400, "body_length"),
        (with("Content-Length: 18446744073709551616\r\n"), 400, "body_length"),
        (with("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"), 400, "body_length"),
        (text("POST /a.txt HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400, "body_length"),
        (with("Transfer-Encoding: xchunked\r\n"), 501, "transfer_coding"),
        (with("Transfer-Encoding: chunked, identity\r\n"), 501, "transfer_coding"),
        (with("Content-Length: 1000000\r\n"), 413, "body_too_large"),
        (with("Expect: 200-maybe\r\n"), 417, "expectation"),
        (with("Range: bytes=0-1\r\nRange: bytes=2-3\r\n"), 400, "duplicate_field"),
        (
            format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(9000)).into_bytes(),
            414,
            "target_too_long",
        ),
        (with(&"A: b\r\n".repeat(200)), 431, "head_too_large"),
        (with(&format!("A: {}\r\n", "x".repeat(20_000))), 431, "head_too_large"),
    ]
}

#[test]
fn a_flood_of_headers_is_cut_at_the_limit() {
    let site = Site::new(&[("a.txt", b"hello\n")], "");
    let server = site.start();
    let mut stream = raw::connect(server.http[0]);
    raw::send_all(&mut stream, b"GET /a.txt HTTP/1.1\r\nHost: a\r\n");
    let line = format!("X: {}\r\n", "y".repeat(500));
    let taken = (0..100_000).take_while(|_| stream.write_all(line.as_bytes()).is_ok()).count();
    assert!(taken < 20_000, "the server went on reading");
    server.wait_counted("linerate_http_refused", "reason=\"head_too_large\"", 1);
    assert_serves(&server);
}

#[test]
fn a_malformed_chunked_body_ends_the_connection_after_the_answer() {
    let site = Site::new(&[("a.txt", b"hello\n")], "");
    let server = site.start();
    let shapes = ["zz\r\n", "5\nhello", "5\r\nhelloX\r\n0\r\n\r\n", "ffffffffffffffffff\r\n", "fffff\r\n"];
    for shape in shapes {
        let head = "GET /a.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        let answer = raw::talk(server.http[0], format!("{head}{shape}").as_bytes());
        let response = Response::parse(&answer);
        assert_eq!((response.status, response.body.as_slice()), (200, b"hello\n".as_slice()), "{shape:?}");
    }
    server.wait_counted("linerate_http_aborted", "cause=\"request_body\"", shapes.len() as u64);
    assert_serves(&server);
}

#[test]
fn no_encoding_of_a_path_leads_out_of_the_directory() {
    let site = Site::new(&[("a.txt", b"hello\n")], "");
    std::fs::write(site.beside("secret.txt"), "secret").unwrap();
    std::fs::create_dir(site.path("sub")).unwrap();
    let server = site.start();
    for target in [
        "/../secret.txt",
        "/sub/../../secret.txt",
        "/%2e%2e/secret.txt",
        "/%2E%2E%2Fsecret.txt",
        "/.%2e/secret.txt",
        "/..%2fsecret.txt",
        "/..%5csecret.txt",
        "/..\\secret.txt",
        "/sub/..%5c..%5csecret.txt",
        "/%252e%252e/secret.txt",
        "/%c0%ae%c0%ae/secret.txt",
        "/..%00/secret.txt",
        "/..;/secret.txt",
        "/.../secret.txt",
        "//../secret.txt",
        "/./../secret.txt",
        "/sub/%2e%2e/%2e%2e/secret.txt",
        "http://a/../secret.txt",
        "/a.txt/../../secret.txt",
        "/%uff0e%uff0e/secret.txt",
        "/a.txt%00.html",
        "/proc/self/environ",
    ] {
        let response = raw::get(server.http[0], target);
        assert!(matches!(response.status, 400 | 404), "{target}: {}", response.status);
        assert!(
            !response.body.windows(6).any(|text| text == b"secret") || response.status != 200,
            "{target}"
        );
    }
    assert_serves(&server);
}

#[test]
fn links_and_special_files_are_not_a_way_out() {
    let site = Site::new(&[("a.txt", b"hello\n")], "");
    std::fs::write(site.beside("secret.txt"), "secret").unwrap();
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, site.path(name)).unwrap();
    link("a.txt", "inside");
    link("../secret.txt", "relative");
    link(site.beside("secret.txt").to_str().unwrap(), "absolute");
    link("..", "parent");
    link("/proc/self", "proc");
    link("loop", "loop");
    link("relative", "indirect");
    output(tool("mkfifo", "coreutils").arg(site.path("fifo")));
    let _socket = std::os::unix::net::UnixListener::bind(site.path("socket")).unwrap();
    let server = site.start();
    assert_eq!(raw::get(server.http[0], "/inside").body, b"hello\n");
    for target in [
        "/relative",
        "/absolute",
        "/parent/secret.txt",
        "/parent/",
        "/proc/environ",
        "/proc/root/etc/passwd",
        "/loop",
        "/indirect",
        "/fifo",
        "/socket",
    ] {
        let status = raw::get(server.http[0], target).status;
        assert!(matches!(status, 403 | 404), "{target}: {status}");
    }
    // Changed into a link after it was served.
    std::fs::remove_file(site.path("a.txt")).unwrap();
    std::fs::hard_link(site.beside("secret.txt"), site.beside("other.txt")).unwrap();
    link("../other.txt", "a.txt");
    crate::support::wait_for("the link to be refused", || {
        let response = raw::get(server.http[0], "/a.txt");
        assert_ne!(response.body, b"secret");
        (response.status != 200).then_some(())
    });
}

#[test]
fn a_head_that_takes_too_long_is_refused() {
    let site = Site::new(&[("a.txt", b"hello\n")], "[http.limits]\nheader_seconds = 1");
    let server = site.start();
    let begun = Instant::now();
    let mut stream = raw::connect(server.http[0]);
    let mut reader = stream.try_clone().unwrap();
    let dripping = std::thread::spawn(move || {
        let request = b"GET /a.txt HTTP/1.1\r\nHost: a\r\nA: a very long and very slow header\r\n\r\n";
        for byte in request {
            if stream.write_all(&[*byte]).is_err() || begun.elapsed() > Duration::from_secs(8) {
                return;
            }
            std::thread::sleep(Duration::from_millis(150));
        }
    });
    assert_serves(&server);
    let response = Response::parse(&raw::read_to_close(&mut reader));
    assert_eq!((response.status, response.expect("connection")), (408, "close"));
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(6), "{took:?}");
    assert_eq!(server.counted("linerate_http_refused", "reason=\"header_timeout\""), 1);
    dripping.join().unwrap();
}

#[test]
fn silent_clients_are_let_go() {
    let site = Site::new(&[("a.txt", b"hello\n")], "[http.limits]\nidle_seconds = 1\nhandshake_seconds = 1");
    let server = site.start();
    let (mut plain, mut tls) = (raw::connect(server.http[0]), raw::connect(server.https[0]));
    raw::send_all(&mut plain, b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(raw::read_response(&mut plain).status, 200);
    assert!(raw::read_to_close(&mut plain).is_empty(), "no answer without a request");
    assert!(raw::read_to_close(&mut tls).is_empty());
    assert_eq!(server.counted("linerate_http_closed", "reason=\"idle\""), 1);
    server.wait_counted("linerate_http_tls_handshakes", "kind=\"failed\"", 1);
}

#[test]
fn clients_that_never_read_are_cut_and_harm_nobody() {
    let body = patterned(16 << 20);
    let site = Site::new(&[("a.txt", b"hello\n"), ("big", &body)], "[http.limits]\nstall_seconds = 1");
    let server = site.start();
    let mute: Vec<TcpStream> = (0..100).map(|_| asking(server.http[0], "/big")).collect();
    let begun = Instant::now();
    for url in [server.url("/big"), server.https_url("/big")] {
        let mut curl = tool("curl", "curl");
        let fetched = output(curl.args(["--silent", "--insecure", "--max-time", "30"]).arg(url));
        assert!(fetched == body);
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "others wait for those who do not read");
    server.wait_counted("linerate_http_aborted", "cause=\"write_stalled\"", mute.len() as u64);
    for mut stream in mute {
        assert!(raw::read_to_close(&mut stream).len() < body.len(), "a cut transfer is seen as one");
    }
}

#[test]
fn clients_that_never_read_fill_little_of_the_kernels_memory() {
    const EACH: usize = 60;
    let site = Site::new(&[("a.txt", b"hello\n"), ("big", &patterned(16 << 20))], "[server]\nlanes = 1");
    let server = site.start();
    let ask = |mut stream: Box<dyn Write>| {
        stream.write_all(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        stream.flush().unwrap();
        stream
    };
    let _mute: Vec<_> = (0..EACH)
        .flat_map(|_| {
            let [plain, sealed] =
                [server.http[0], server.https[0]].map(|addr| raw::connect_narrow(addr, 4096));
            [ask(Box::new(plain)), ask(Box::new(http2::tls(sealed, b"http/1.1")))]
        })
        .collect();
    // It grows until every socket is full.
    let mut queued = Vec::new();
    wait_for("full sockets", || {
        std::thread::sleep(Duration::from_millis(500));
        let now = [server.http[0], server.https[0]].map(queued_bytes).concat();
        (std::mem::replace(&mut queued, now) == queued && queued.len() == 2 * EACH).then_some(())
    });
    // A part of 64 KiB is beside what may wait unsent.
    assert!(queued.iter().all(|bytes| *bytes <= (512 + 64 + 64) << 10), "{queued:?}");
    let all: usize = queued.iter().sum();
    assert!(all <= (48 << 20) + 2 * EACH * ((64 + 64 + 16) << 10), "{all}: one address has its share");
    assert!(server.counted("linerate_http_unsent_room_refused", "") > 0);
    assert!(server.counted("linerate_http_unsent_room_bytes", "") > 32 << 20);
    let fetched = output(tool("curl", "curl").args(["--silent", "--max-time", "30"]).arg(server.url("/big")));
    assert_eq!(fetched.len(), 16 << 20);
    assert_serves(&server);
}

/// What the sockets of a server's port hold for their peers, in bytes each.
fn queued_bytes(of: SocketAddr) -> Vec<usize> {
    let port = format!("0100007F:{:04X}", of.port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let of_line = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, _, state, queues) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let queued = usize::from_str_radix(queues.split(':').next()?, 16).ok()?;
        (local == port && state == "01").then_some(queued)
    };
    table.lines().filter_map(of_line).collect()
}

#[test]
fn a_transfer_that_stands_still_is_cut_by_every_way() {
    let body = patterned(24 << 20);
    let site = Site::new(&[("a.txt", b"hello\n"), ("big", &body)], "[http.limits]\nstall_seconds = 1");
    let server = site.start();
    for (cut, way) in WAYS.into_iter().enumerate() {
        let mut transfer = Transfer::begin(&server, "big", way);
        server.wait_counted("linerate_http_aborted", "cause=\"write_stalled\"", cut as u64 + 1);
        let (received, whole) = transfer.finish();
        assert!(received == body[..received.len()] && !whole, "{way:?}");
    }
    assert_serves(&server);
}

#[test]
fn readers_below_the_floor_are_cut() {
    let site = Site::new(&[("a.txt", b"hello\n"), ("big", &patterned(64 << 20))], FLOOR);
    let server = site.start();
    // A narrow window opens every few milliseconds, so that they are not taken for clients that stand still.
    let (http, https) = (
        raw::connect_narrow(server.http[0], NARROW_BYTES),
        raw::connect_narrow(server.https[0], NARROW_BYTES),
    );
    let received = std::thread::scope(|scope| {
        let plain = scope.spawn(|| read_slowly(http));
        let tls = scope.spawn(|| read_slowly(http2::tls(https, b"http/1.1")));
        server.wait_counted("linerate_http_aborted", "cause=\"too_slow\"", 2);
        assert_serves(&server);
        [plain.join().unwrap(), tls.join().unwrap()]
    });
    assert!(received.iter().all(|bytes| *bytes < 64 << 20), "cut: {received:?}");
}

/// More than a client reads that pauses between reads.
const FLOOR: &str = "[http.limits]\nstall_seconds = 4\nsend_rate_min = 50000000";

const NARROW_BYTES: usize = 64 << 10;

/// Asks for the big file and reads 2 MB/s of it at most; how much came before the connection ended.
fn read_slowly(mut stream: impl Read + Write) -> usize {
    stream.write_all(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    stream.flush().unwrap();
    let (mut received, mut chunk) = (0, [0; 16 << 10]);
    // A cut connection ends by a reset, and a TLS stream without the farewell of its protocol.
    while let Ok(bytes @ 1..) = stream.read(&mut chunk) {
        received += bytes;
        std::thread::sleep(Duration::from_millis(8));
    }
    received
}

#[test]
fn a_file_that_changes_while_it_is_sent_ends_short() {
    let (old, new) = (patterned(24 << 20), vec![0xff; 24 << 20]);
    type Change = fn(&Path, &[u8]);
    let changes: [(&str, Change); 3] = [
        ("truncated", |path, _| truncate(path, 5 << 20)),
        ("emptied", |path, _| truncate(path, 0)),
        ("overwritten", |path, new| write_over(path, new)),
    ];
    let names: Vec<String> = changes.iter().map(|(name, _)| (*name).to_owned()).collect();
    let files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), old.as_slice())).collect();
    let site = Site::new(&files, "");
    let server = site.start();
    let mut cut = 0;
    for (name, change) in changes {
        for way in WAYS {
            std::fs::write(site.path(name), &old).unwrap();
            let mut transfer = Transfer::begin(&server, name, way);
            change(&site.path(name), &new);
            let (received, status) = transfer.finish();
            assert!(received.len() < old.len(), "{name}, {way:?}: {} bytes", received.len());
            assert!(!status, "{name}, {way:?}: the client must see that it is cut");
            cut += 1;
            server.wait_counted("linerate_http_aborted", "cause=\"file_changed\"", cut);
        }
    }
    assert_eq!(raw::get(server.http[0], "/emptied").body, b"", "the next request gets what is there now");
}

#[test]
fn a_file_that_grows_while_it_is_sent_arrives_as_it_was_promised() {
    let (old, more) = (patterned(24 << 20), vec![0xff; 1 << 20]);
    let site = Site::new(&[("grown", &old)], "");
    let server = site.start();
    for way in WAYS {
        std::fs::write(site.path("grown"), &old).unwrap();
        let mut transfer = Transfer::begin(&server, "grown", way);
        append(&site.path("grown"), &more);
        let (received, whole) = transfer.finish();
        assert!(whole && received == old, "{way:?}: {} bytes", received.len());
    }
    assert_eq!(server.counted("linerate_http_aborted", "cause=\"file_changed\""), 0);
}

#[test]
fn a_file_replaced_while_it_is_sent_is_never_mixed() {
    let (old, new) = (patterned(24 << 20), vec![0xff; 24 << 20]);
    let site = Site::new(&[("f", &old)], "");
    let server = site.start();
    for way in WAYS {
        std::fs::write(site.path("f"), &old).unwrap();
        let mut transfer = Transfer::begin(&server, "f", way);
        std::fs::write(site.path("f.new"), &new).unwrap();
        std::fs::rename(site.path("f.new"), site.path("f")).unwrap();
        let (received, whole) = transfer.finish();
        assert!(received == old[..received.len()], "{way:?}: bytes of another version");
        assert_eq!(whole, received.len() == old.len(), "{way:?}");
        crate::support::wait_for("the new version", || {
            let mut now = Transfer::begin(&server, "f", way);
            let (received, whole) = now.finish();
            assert!(whole && (received == new || received == old), "{way:?}: mixed");
            (received == new).then_some(())
        });
    }
}

#[test]
fn who_takes_all_descriptors_gives_them_up_to_newcomers_and_nobody_else_feels_it() {
    let site = Site::new(&[("a.txt", b"hello\n"), ("b.txt", b"bye\n")], "[server]\nlanes = 1");
    let server = site.launch().open_files(128).start();
    crate::support::wait_for("the word that limits and descriptors do not fit", || {
        server.stderr().contains("open files").then_some(())
    });
    let mut first = raw::connect(server.http[0]);
    raw::send_all(&mut first, b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(raw::read_response(&mut first).status, 200);
    let other = Ipv4Addr::new(127, 0, 0, 2);
    let hogs: Vec<TcpStream> = (0..300).map(|_| raw::connect_from(other, server.http[0])).collect();
    for round in 0..20 {
        let begun = Instant::now();
        assert_serves(&server);
        assert!(begun.elapsed() < Duration::from_secs(5), "newcomer {round} waited {:?}", begun.elapsed());
    }
    // A client that was in before goes on.
    for target in ["/a.txt", "/b.txt"] {
        raw::send_all(&mut first, format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        assert_eq!(raw::read_response(&mut first).status, 200, "{target}");
    }
    assert!(server.counted("linerate_http_connections_evicted", "state=\"opening\"") > 200);
    drop(hogs);
    assert_serves(&server);
}

#[test]
fn heads_that_never_end_from_one_address_lock_out_no_other() {
    let site =
        Site::new(&[("a.txt", b"hello\n")], "[server]\nlanes = 1\n[http.limits]\nconnections_per_lane = 200");
    let server = site.start();
    let mut kept = raw::connect(server.http[0]);
    raw::send_all(&mut kept, b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(raw::read_response(&mut kept).status, 200);
    let attacker = Ipv4Addr::new(127, 0, 0, 3);
    let mut heads = Vec::new();
    for round in 0..600 {
        // Half of them stop in the handshake.
        let to = if round % 2 == 0 { server.http[0] } else { server.https[0] };
        let mut head = raw::connect_from(attacker, to);
        raw::send_all(
            &mut head,
            if round % 2 == 0 { b"GET / HTTP/1.1\r\nHost: a\r\nX:" } else { b"\x16\x03\x01" },
        );
        heads.push(head);
        if round % 20 == 0 {
            assert_serves(&server);
        }
    }
    raw::send_all(&mut kept, b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(raw::read_response(&mut kept).status, 200, "an idle connection of another keeps its place");
    assert!(server.counted("linerate_http_connections_evicted", "state=\"opening\"") >= 350);
    assert_eq!(server.counted("linerate_http_connections_refused", ""), 0);
}

#[test]
fn a_full_accept_queue_loses_no_client() {
    // Every connection here needs a descriptor in this process too.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let site = Site::new(&[("a.txt", b"hello\n")], "[server]\nlanes = 1");
    let server = site.start();
    server.signal(Signal::STOP);
    let connect = || TcpStream::connect_timeout(&server.http[0], Duration::from_millis(200));
    let mut clients: Vec<TcpStream> = (0..10_000).map_while(|_| connect().ok()).collect();
    assert!(clients.len() < 10_000, "the queue has an end");
    server.signal(Signal::CONT);
    clients.extend((0..100).map(|_| raw::connect(server.http[0])));
    for stream in &mut clients {
        raw::send_all(stream, b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    for stream in &mut clients {
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        assert_eq!(raw::read_response(stream).body, b"hello\n");
    }
}

#[test]
fn connections_beyond_the_limit_are_told_to_come_back() {
    let big = patterned(32 << 20);
    let configuration = "[server]\nlanes = 1\n[http.limits]\nconnections_per_lane = 4";
    let site = Site::new(&[("a.txt", b"hello\n"), ("big", &big)], configuration);
    let server = site.start();
    // All of one address, and all being answered: none gives way to one more of them.
    let mut inside: Vec<TcpStream> = (0..4).map(|_| asking(server.http[0], "/big")).collect();
    inside.iter_mut().for_each(|stream| assert_eq!(raw::read_head(stream).status, 200));
    let refused = Response::parse(&raw::talk(server.http[0], b""));
    assert_eq!((refused.status, refused.expect("connection")), (503, "close"));
    assert_eq!(refused.expect("retry-after"), "1");
    assert!(raw::read_to_close(&mut raw::connect(server.https[0])).is_empty(), "closed before the handshake");
    assert_eq!(server.counted("linerate_http_connections_refused", ""), 2);
    assert_eq!(server.counted("linerate_http_connections", ""), 4);
    drop(inside.pop());
    crate::support::wait_for("the place to be free", || {
        (server.counted("linerate_http_connections", "") == 3).then_some(())
    });
    assert_serves(&server);
}

fn assert_serves(server: &Server) {
    let response = raw::get(server.http[0], "/a.txt");
    assert_eq!((response.status, response.body.as_slice()), (200, b"hello\n".as_slice()));
}

/// A connection with one request on its way.
fn asking(addr: SocketAddr, target: &str) -> TcpStream {
    let mut stream = raw::connect(addr);
    raw::send_all(&mut stream, format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    stream
}

/// The ways a body leaves the server: from the page cache, through records, through frames in records.
#[derive(Clone, Copy, Debug)]
enum Way {
    Plain,
    Tls,
    Http2,
}

const WAYS: [Way; 3] = [Way::Plain, Way::Tls, Way::Http2];

/// A curl whose output is not taken, so that the transfer stands still in its middle.
struct Transfer {
    curl: Child,
    out: ChildStdout,
    first: [u8; 1],
}

impl Transfer {
    fn begin(server: &Server, name: &str, way: Way) -> Self {
        let (url, version) = match way {
            Way::Plain => (server.url("/"), "--http1.1"),
            Way::Tls => (server.https_url("/"), "--http1.1"),
            Way::Http2 => (server.https_url("/"), "--http2"),
        };
        let mut command = tool("curl", "curl");
        command.args(["--silent", "--insecure", version, "--no-buffer", "--max-time", "60"]);
        let mut curl = command.arg(format!("{url}{name}")).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = curl.stdout.take().unwrap();
        let mut first = [0];
        out.read_exact(&mut first).unwrap();
        let full = rustix::pipe::fcntl_getpipe_size(&out).unwrap() as u64 - CURL_WRITE_BYTES;
        crate::support::wait_for("curl to stand at a full pipe", || {
            (rustix::io::ioctl_fionread(&out).unwrap() > full).then_some(())
        });
        Self { curl, out, first }
    }

    /// Returns what came, and whether curl calls it whole.
    fn finish(&mut self) -> (Vec<u8>, bool) {
        let mut received = self.first.to_vec();
        self.out.read_to_end(&mut received).unwrap();
        (received, self.curl.wait().unwrap().success())
    }
}

/// The most that curl writes at once.
const CURL_WRITE_BYTES: u64 = 16 << 10;

fn truncate(path: &Path, len: u64) {
    std::fs::File::options().write(true).open(path).unwrap().set_len(len).unwrap();
}

fn write_over(path: &Path, content: &[u8]) {
    std::fs::File::options().write(true).open(path).unwrap().write_all(content).unwrap();
}

fn append(path: &Path, content: &[u8]) {
    std::fs::File::options().append(true).open(path).unwrap().write_all(content).unwrap();
}

/// A file system that does not answer writers, until this is dropped.
struct Frozen<'a>(&'a Path);

impl<'a> Frozen<'a> {
    fn new(at: &'a Path) -> Self {
        output(tool("fsfreeze", "util-linux").arg("-f").arg(at));
        Self(at)
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        let _ = tool("fsfreeze", "util-linux").arg("-u").arg(self.0).status();
    }
}

/// Returns what the admin address says of the index.
fn told_of_index(server: &Server) -> Option<String> {
    let health = raw::get(server.admin, "/health");
    let health = String::from_utf8(health.body).unwrap();
    health.lines().find(|line| line.starts_with("index: ")).map(str::to_owned)
}

#[test]
fn a_state_directory_that_is_full_or_does_not_answer_is_told_of_while_files_are_served() {
    for freezes in [false, true] {
        let disk = if freezes { Disk::new("ext4", 64, &[]) } else { Disk::in_memory(16) };
        let disk = match disk {
            Ok(disk) => disk,
            Err(error) => return testkit::skip(format_args!("nothing can be mounted ({error})")),
        };
        // Where the file system keeps attributes, which that of temporary files may not.
        let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let home = home.path().canonicalize().unwrap();
        std::fs::create_dir(home.join("tree")).unwrap();
        std::fs::write(home.join("tree/page"), "page").unwrap();
        let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(home.join("tree"), everybody).unwrap();
        let state = disk.path().join("state");
        let text = format!(
            "[server]\nlanes = 1\nstate_dir = '{}'\n[http]\nlisten = '127.0.0.1:0'\n[https]\nlisten = 'off'\n\
             [admin]\nlisten = '127.0.0.1:0'\n[[volume]]\nname = 'tree'\npath = 'tree'\nwritable = 'anyone'\n",
            state.display()
        );
        std::fs::write(home.join("linerate.toml"), text).unwrap();
        let server = Launch::config(&home.join("linerate.toml")).start();
        let mut puts = 0..;
        let mut put = || {
            let head = format!("PUT /f{} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n", puts.next().unwrap());
            let request = format!("{head}Content-Length: 1\r\n\r\nx");
            Response::parse(&raw::talk(server.http[0], request.as_bytes())).status
        };
        assert_eq!(put(), 201);
        assert_eq!(told_of_index(&server), None);
        let filler = disk.path().join("filler");
        let at = disk.path();
        let frozen = freezes.then(|| Frozen::new(&at));
        if !freezes {
            let mut filler = std::fs::File::create(&filler).unwrap();
            while filler.write_all(&[1; 4096]).is_ok() {}
        }
        let told = wait_for("the index to be told of", || {
            // What is new has to be written there, and waits; no other client has to wait for that.
            for _ in 0..50 {
                assert_eq!(put(), 201);
            }
            told_of_index(&server)
        });
        assert!(told.contains(&*state.to_string_lossy()) && told.contains(" since 2"), "{told}");
        assert_eq!(told.contains("has not answered"), freezes, "{told}");
        assert_eq!(raw::get(server.http[0], "/page").body, b"page");
        assert_eq!(raw::get(server.http[0], "/f0").body, b"x");
        drop(frozen);
        if !freezes {
            std::fs::remove_file(&filler).unwrap();
        }
        wait_for("the index to be well", || told_of_index(&server).is_none().then_some(()));
        server.says("it can be written again");
        assert_eq!(put(), 201);
        let said = server.stderr();
        for once in ["[index-not-written]", "it can be written again"] {
            assert_eq!(said.matches(once).count(), 1, "{said}");
        }
    }
}

#[test]
fn files_of_the_server_are_served_to_nobody_by_any_protocol_under_any_name() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let home = &home.path().canonicalize().unwrap();
    for directory in ["open", "logs"] {
        std::fs::create_dir(home.join(directory)).unwrap();
    }
    std::fs::write(home.join("open/page"), "page").unwrap();
    std::fs::write(home.join("logs/audit.log"), "yet to be").unwrap();
    // Only their withholding keeps the server's files from clients.
    output(linerate(["acl", "set", "--clear", ".", "system:anyuser=all"]).current_dir(home));
    // Clients' own files lie elsewhere.
    let outside = tempfile::tempdir().unwrap();
    let tables = "[afs]\nlisten = '127.0.0.1:7000'\n[log]\naccess = 'logs/access.log'\n";
    let share = Share::new(home, home, tables, "serve_dotfiles = true\n");
    let server = &share.server;
    let at = |path: &str| home.join(path);
    std::fs::hard_link(at("accounts.toml"), at("open/hard")).unwrap();
    std::fs::hard_link(at("state/index.redb"), at("open/index")).unwrap();
    let links = [
        ("../accounts.toml", "open/soft"),
        ("../state", "open/state"),
        ("soft", "open/chain"),
        (&at("linerate.toml").display().to_string(), "open/absolute"),
    ];
    for (to, link) in links {
        std::os::unix::fs::symlink(to, at(link)).unwrap();
    }
    let by_http = |path: &str| {
        let got = raw::get(server.http[0], &format!("/{path}"));
        (got.status == 200).then_some(got.body)
    };
    let by_smb = |path: &str| {
        let got = outside.path().join("got");
        let _ = std::fs::remove_file(&got);
        share.asks(&format!("get \"{path}\" \"{}\"", got.display()));
        std::fs::read(got).ok()
    };
    let by_afs = |path: &str| {
        let got = outside.path().join("got");
        let mut get = linerate(["get", "--overwrite", &format!("afs://127.0.0.1/tree/{path}"), "-o"]);
        get.arg(&got).current_dir(outside.path()).stdin(Stdio::null());
        let _ = std::fs::remove_file(&got);
        get.output().unwrap();
        std::fs::read(got).ok()
    };
    // A file that is not the server's is served, and the audit log is none yet.
    for path in ["open/page", "logs/audit.log"] {
        for (way, got) in [by_http(path), by_smb(path), by_afs(path)].into_iter().enumerate() {
            assert!(got.is_some(), "{path}, way {way}");
        }
    }
    let config = std::fs::read_to_string(at("linerate.toml")).unwrap();
    let config = config.replace("access = ", "audit = 'logs/audit.log'\naccess = ");
    std::fs::write(at("linerate.toml"), config).unwrap();
    server.reload("reloaded");
    std::fs::rename(at("logs/access.log"), at("logs/access.log.1")).unwrap();
    server.signal(Signal::USR1);
    wait_for("another log", || at("logs/access.log").exists().then_some(()));
    let attacked = [
        "accounts.toml",
        "accounts.toml.lock",
        "linerate.toml",
        "state/index.redb",
        "state/room-ahead",
        "open/hard",
        "open/index",
        "open/soft",
        "open/chain",
        "open/absolute",
        "open/state/index.redb",
        "logs/access.log",
        "logs/access.log.1",
        "logs/audit.log",
    ];
    let kept = ["accounts.toml", "linerate.toml"].map(|path| std::fs::read(at(path)).unwrap());
    for path in attacked {
        for (way, got) in
            [by_http(path), by_smb(path), by_smb(&path.to_uppercase()), by_afs(path)].into_iter().enumerate()
        {
            let shown = got.map(|bytes| String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned());
            assert_eq!(shown, None, "{path}, way {way}");
        }
    }
    assert_eq!(by_http("open/page").as_deref(), Some(&b"page"[..]));
    for path in attacked.iter().filter(|path| !links.iter().any(|(_, link)| path.starts_with(link))) {
        for method in ["PUT", "DELETE"] {
            let head = format!("{method} /{path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n");
            let request = format!("{head}Content-Length: 1\r\n\r\nx");
            let status = Response::parse(&raw::talk(server.http[0], request.as_bytes())).status;
            assert!(status >= 400, "{method} {path}: {status}");
        }
        std::fs::write(outside.path().join("new"), "x").unwrap();
        let new = outside.path().join("new");
        let new = new.display();
        for command in [
            format!("put \"{new}\" \"{path}\""),
            format!("del \"{path}\""),
            format!("rename \"{path}\" moved"),
        ] {
            share.asks(&command);
        }
        let mut put = linerate([
            "put",
            "--overwrite",
            "--patience",
            "1",
            &new.to_string(),
            &format!("afs://127.0.0.1/tree/{path}"),
        ]);
        put.stdin(Stdio::null()).output().unwrap();
        assert!(at(path).exists(), "{path} is gone");
        assert_ne!(std::fs::read(at(path)).unwrap(), b"x", "{path} is another");
        assert!(!at("moved").exists(), "{path} was moved");
    }
    // What leads to them stays, or a client that put another directory in its place would write where the
    // server reads.
    for command in ["rename logs moved", "mkdir other; rename other logs", "rmdir logs"] {
        let told = share.asks(command);
        let refusals = ["ACCESS_DENIED", "NAME_COLLISION", "NOT_EMPTY"];
        assert!(refusals.iter().any(|status| told.contains(status)), "{command}: {told}");
    }
    assert!(at("logs/access.log").exists() && !at("moved").exists());
    assert_eq!(kept, ["accounts.toml", "linerate.toml"].map(|path| std::fs::read(at(path)).unwrap()));
    let listed = share.asks("ls; ls logs\\*; ls open\\*");
    for name in ["accounts.toml", "linerate.toml", "access.log", "audit.log", "hard", "index"] {
        assert!(!listed.contains(name), "{name} is listed: {listed}");
    }
}
