//! No lane, no signal and no end waits for a log: readers that stall or never come, full disks.

use std::fs::File;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, OFlags, mknodat};
use rustix::process::Signal;

use crate::support::http2::{self, ACK, PING, SETTINGS, frame};
use crate::support::raw;
use crate::support::site::Site;
use crate::support::{Launch, Server};

#[test]
fn acknowledgements_nobody_asked_for_and_a_stalled_stderr_stop_no_lane_and_no_signal() {
    let site = two_lanes("");
    let (_reader, full) = full_pipe();
    // As if nothing were left out: every frame is a warning.
    let mut server = site.launch().env("LINERATE_LOG", "info").stderr(full).start();
    flood(&server, 2, 1_500);
    server.wait_counted("linerate_diagnostics_lines_limited", "", 2_000);
    assert_both_lanes_serve(&server);
    server.wait_counted("linerate_diagnostics_stalled", "", 1);
    assert_ends_in_time(&mut server, Signal::TERM, Some(0));
}

#[test]
fn lines_that_nobody_took_are_counted_and_told_when_somebody_does() {
    let site = two_lanes("");
    let (reader, full) = full_pipe();
    let mut server = site.launch().env("LINERATE_LOG", "info,http2=trace").stderr(full).start();
    flood(&server, 2, 1_500);
    server.wait_counted("linerate_diagnostics_lines_lost", "", 1_000);
    assert_both_lanes_serve(&server);
    // Else the wait below could be over before it has begun.
    server.wait_counted("linerate_diagnostics_stalled", "", 1);

    let told = std::thread::spawn(move || {
        let mut text = Vec::new();
        File::from(reader).read_to_end(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    });
    crate::support::wait_for("the log to go on", || {
        (server.counted("linerate_diagnostics_stalled", "") == 0).then_some(())
    });
    assert_ends_in_time(&mut server, Signal::TERM, Some(0));
    let told = told.join().unwrap();
    let lost = told.lines().filter_map(|line| line.split_once(" messages were lost")?.0.rsplit(' ').next());
    assert!(lost.map(|lines| lines.parse::<u64>().unwrap()).sum::<u64>() >= 1_000, "{told}");
    assert!(told.contains("draining"), "{told}");
}

#[test]
fn by_default_nothing_is_said_about_what_clients_send() {
    let site = two_lanes("");
    let server = site.start();
    let before = crate::support::wait_for("the word about the certificate", || {
        Some(server.stderr()).filter(|text| text.contains("self-signed"))
    });
    flood(&server, 1, 20_000);
    assert_both_lanes_serve(&server);
    assert_eq!(server.stderr(), before);
    assert_eq!(server.counted("linerate_diagnostics_lines_limited", ""), 0);
}

#[test]
fn settings_and_pings_without_end_leave_their_lane_to_others() {
    let site = Site::new(&[("a.txt", b"hello\n")], "[server]\nlanes = 1");
    let server = site.start();
    let mut clients = Vec::new();
    for _ in 0..4 {
        let https = server.https[0];
        clients.push(std::thread::spawn(move || {
            let mut connection = http2::connect(https);
            let frames = [frame(SETTINGS, 0, 0, b""), frame(PING, 0, 0, b"12345678")].concat().repeat(500);
            let until = Instant::now() + Duration::from_secs(3);
            let mut sent = 0u64;
            // It reads no answers, so the server takes only as much as it has room to answer, or ends it.
            connection.sock.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
            while Instant::now() < until && connection.write_all(&frames).is_ok() {
                sent += 1_000;
            }
            sent
        }));
    }
    let mut slowest = Duration::ZERO;
    while !clients.iter().all(std::thread::JoinHandle::is_finished) {
        let begun = Instant::now();
        assert_eq!(raw::get(server.http[0], "/a.txt").body, b"hello\n");
        slowest = slowest.max(begun.elapsed());
    }
    assert!(clients.into_iter().map(|client| client.join().unwrap()).sum::<u64>() > 0);
    assert!(slowest < Duration::from_secs(5), "another client waited {slowest:?}");
}

#[test]
fn stdout_and_stderr_that_nobody_reads_keep_no_server_from_starting_and_ending() {
    let (http, admin) = (testkit::free_address(), testkit::free_address());
    let site = two_lanes("");
    site.configure(&addresses(http, admin, "-"));
    let ((_out, stdout), (_err, stderr)) = (full_pipe(), full_pipe());
    let mut server = site.launch().stdout(stdout).stderr(stderr).start_unheard(http, admin);
    for _ in 0..100 {
        assert_eq!(raw::get(http, "/a.txt").body, b"hello\n");
    }
    crate::support::wait_for("the access log to notice", || {
        (server.counted("linerate_access_log_stalled", "") == 1).then_some(())
    });
    assert_ends_in_time(&mut server, Signal::TERM, Some(0));
}

#[test]
fn a_server_that_cannot_start_ends_though_nobody_reads_why() {
    let (_reader, full) = full_pipe();
    let dir = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let (status, _) = Launch::dir(&dir.path().join("none")).stderr(full).fail();
    assert_eq!(status.code(), Some(1));
    assert!(begun.elapsed() < ENDS_WITHIN, "{:?}", begun.elapsed());
}

#[test]
fn access_log_into_a_fifo_without_a_reader_starts_serves_and_ends() {
    let site = two_lanes("");
    let fifo = fifo(&site);
    let mut server = site.launch().arg("--access-log").arg(fifo.to_str().unwrap()).start();
    assert_both_lanes_serve(&server);
    server.wait_counted("linerate_access_log_stalled", "", 1);

    // A late reader gets what was kept for it.
    let mut reader = reader(&fifo);
    let mut lines = String::new();
    crate::support::wait_for("the lines of before", || {
        let _ = reader.read_to_string(&mut lines);
        lines.contains("/a.txt").then_some(())
    });
    crate::support::wait_for("the word that it goes on", || {
        server.stderr().contains("is written again").then_some(())
    });
    drop(reader);
    assert_both_lanes_serve(&server);
    assert_ends_in_time(&mut server, Signal::TERM, Some(0));
    server.says("are lost, as it could not be written");
}

#[test]
fn access_log_into_a_fifo_whose_reader_stalls_holds_up_nobody() {
    let site = two_lanes("");
    let fifo = fifo(&site);
    let reader = reader(&fifo);
    let mut server = site.launch().arg("--access-log").arg(fifo.to_str().unwrap()).start();
    // Far more than the FIFO takes: a pipe has 64 KiB.
    for _ in 0..40 {
        let long = format!("/a.txt?{}", "x".repeat(3_000));
        let request = format!("GET {long} HTTP/1.1\r\nHost: a\r\n\r\n").repeat(50);
        let mut stream = raw::connect(server.http[0]);
        raw::send_all(&mut stream, request.as_bytes());
        for _ in 0..50 {
            assert_eq!(raw::read_response(&mut stream).status, 200);
        }
    }
    server.wait_counted("linerate_access_log_stalled", "", 1);
    assert_both_lanes_serve(&server);
    assert_ends_in_time(&mut server, Signal::TERM, Some(0));
    drop(reader);
}

#[test]
fn access_log_on_a_full_disk_says_so_once_and_goes_on_when_there_is_room_again() {
    let site = two_lanes("");
    let log = site.beside("access.log");
    std::os::unix::fs::symlink("/dev/full", &log).unwrap();
    let mut server = site.launch().arg("--access-log").arg(log.to_str().unwrap()).start();
    assert_both_lanes_serve(&server);
    crate::support::wait_for("the complaint", || server.stderr().contains("No space left").then_some(()));
    assert_both_lanes_serve(&server);
    let told = "ok\naccess log: it cannot be written: No space left on device";
    assert!(health(&server).starts_with(told), "{}", health(&server));

    std::fs::remove_file(&log).unwrap();
    server.signal(Signal::USR1);
    crate::support::wait_for("the word that it goes on", || {
        server.stderr().contains("is written again").then_some(())
    });
    assert_eq!(health(&server), "ok\n");
    assert_eq!(server.stderr().matches("No space left").count(), 1, "{}", server.stderr());
    assert!(!server.stderr().contains("reloaded"), "SIGUSR1 opens logs and does nothing else");
    crate::support::wait_for("the lines of before", || {
        let text = std::fs::read_to_string(&log).unwrap();
        (text.matches("/a.txt").count() >= 128).then_some(())
    });
    std::fs::rename(&log, site.beside("old.log")).unwrap();
    server.signal(Signal::USR1);
    crate::support::wait_for("the new file", || log.exists().then_some(()));
    assert_ends_in_time(&mut server, Signal::TERM, Some(0));
}

/// Two lanes and a short drain.
fn two_lanes(more: &str) -> Site {
    Site::new(&[("a.txt", b"hello\n")], &format!("[server]\nlanes = 2\ndrain_seconds = 2\n{more}"))
}

fn addresses(http: SocketAddr, admin: SocketAddr, log: &str) -> String {
    format!(
        "[server]\nlanes = 2\ndrain_seconds = 2\n[http]\nlisten = [\"{http}\"]\n[admin]\nlisten = \"{admin}\"\n\
         [log]\naccess = \"{log}\"\n"
    )
}

/// Makes a pipe that takes not one byte more until it is read.
fn full_pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let flags = rustix::fs::fcntl_getfl(&writer).unwrap();
    rustix::fs::fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    for size in [4096, 1] {
        while rustix::io::write(&writer, &b"\n".repeat(size)).is_ok() {}
    }
    // The server gets what a shell gives: a pipe whose writes wait.
    rustix::fs::fcntl_setfl(&writer, flags).unwrap();
    (reader, writer)
}

fn fifo(site: &Site) -> PathBuf {
    let path = site.beside("fifo");
    mknodat(CWD, &path, FileType::Fifo, 0o600.into(), 0).unwrap();
    path
}

fn reader(fifo: &Path) -> File {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    File::options().read(true).custom_flags(flags).open(fifo).unwrap()
}

/// Sends acknowledgements of pings that were not sent.
fn flood(server: &Server, connections: usize, frames: usize) {
    for _ in 0..connections {
        let mut connection = http2::connect(server.https[0]);
        let frames = frame(PING, ACK, 0, b"unasked!").repeat(frames);
        connection.write_all(&frames).unwrap();
        // The answer to the last one says that all before were read.
        connection.write_all(&frame(PING, 0, 0, b"the last")).unwrap();
        connection.flush().unwrap();
        let mut said = Vec::new();
        while !said.windows(8).any(|bytes| bytes == b"the last") {
            let mut chunk = [0; 4096];
            let n = connection.read(&mut chunk).expect("the server answers");
            assert!(n > 0, "the server has closed the connection");
            said.extend_from_slice(&chunk[..n]);
        }
    }
}

/// New connections reach either lane, and both answer; so does the admin address.
fn assert_both_lanes_serve(server: &Server) {
    let served = |lane: &str| server.counted("linerate_http_requests", lane);
    let lanes = ["lane=\"0\"", "lane=\"1\""];
    let before = lanes.map(served);
    for _ in 0..64 {
        assert_eq!(raw::get(server.http[0], "/a.txt").body, b"hello\n");
    }
    for (lane, before) in lanes.into_iter().zip(before) {
        assert!(served(lane) > before, "{lane} has served nobody");
    }
    assert!(health(server).starts_with("ok\n"));
}

fn health(server: &Server) -> String {
    String::from_utf8(raw::get(server.admin, "/health").body).unwrap()
}

fn assert_ends_in_time(server: &mut Server, signal: Signal, code: Option<i32>) {
    let begun = Instant::now();
    server.signal(signal);
    assert_eq!(server.wait().code(), code);
    assert!(begun.elapsed() < ENDS_WITHIN, "the end took {:?}", begun.elapsed());
}

/// The drain of two seconds and what the logs may take, on a busy machine.
const ENDS_WITHIN: Duration = Duration::from_secs(10);
