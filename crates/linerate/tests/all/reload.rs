//! A reload happens on every lane or on none, whatever fails in the middle.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::support::Server;
use crate::support::raw;
use crate::support::site::Site;

#[test]
fn a_reload_that_runs_out_of_descriptors_on_one_lane_changes_nothing_on_any() {
    let site = Site::new(&[("a.txt", b"old\n")], "");
    let (old, new, admin) = (testkit::free_address(), testkit::free_address(), testkit::free_address());
    site.configure(&configuration(&[old], admin, 0));
    let server = site.launch().open_files(DESCRIPTORS).start();
    // Lanes keep what they have served open: both have seen all names of the test before it counts.
    for _ in 0..32 {
        assert_eq!(raw::get(old, "/a.txt").body, b"old\n");
        assert_eq!(raw::get(old, "/0/a.txt").status, 404);
    }
    let before = descriptors(&server);

    // Lane 0 could open that many directories; for both there are not enough descriptors.
    site.configure(&configuration(&[old, new], admin, (DESCRIPTORS * 3 / 4) as usize));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let knocking = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let refused = TcpStream::connect(new).expect_err("nobody serves there");
                assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
            }
        });
        server.reload("stays");
        stop.store(true, Ordering::Relaxed);
        knocking.join().unwrap();
    });
    server.says("lane "); // It says which lane.
    for _ in 0..32 {
        assert_eq!(raw::get(old, "/a.txt").body, b"old\n");
        assert_eq!(raw::get(old, "/0/a.txt").status, 404, "no lane serves a part of what was refused");
    }
    let health = raw::get(server.admin, "/health");
    let text = String::from_utf8(health.body).unwrap();
    assert!(health.status == 200 && text.starts_with("ok\nreload: the last one was refused"), "{text}");
    assert_eq!(server.counted("linerate_server_reloads", "outcome=\"refused\""), 1);
    assert_eq!(server.counted("linerate_server_last_reload_refused", ""), 1);
    crate::support::wait_for("descriptors to be closed again", || {
        (descriptors(&server) <= before + 2).then_some(())
    });

    site.configure(&configuration(&[old, new], admin, 3));
    server.reload("reloaded");
    for _ in 0..32 {
        assert_eq!(raw::get(new, "/2/a.txt").body, b"old\n");
    }
    assert_eq!(raw::get(server.admin, "/health").body, b"ok\n");
    assert_eq!(server.counted("linerate_server_last_reload_refused", ""), 0);
}

#[test]
fn whoever_can_connect_to_a_new_address_is_answered_from_the_first_connection_on() {
    let site = Site::new(&[("a.txt", b"hello\n")], "");
    let (old, admin) = (testkit::free_address(), testkit::free_address());
    site.configure(&configuration(&[old], admin, 0));
    let server = site.start();
    for round in 0..5 {
        let new = testkit::free_address();
        let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
        site.configure(&configuration(&[old, new], admin, round));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    if TcpStream::connect(new).is_ok() {
                        // It listens; from now on no client is refused, reset or left waiting.
                        assert_eq!(raw::get(new, "/a.txt").body, b"hello\n");
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
            server.reload("reloaded");
            crate::support::wait_for("some answers", || {
                (answered.load(Ordering::Relaxed) >= 10).then_some(())
            });
            stop.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn kernel_tls_is_switched_off_and_on_for_connections_to_come() {
    let site = Site::new(&[("a.txt", b"text\n")], "");
    let (https, admin) = (testkit::free_address(), testkit::free_address());
    let configure = |kernel_tls: bool| {
        site.configure(&format!(
            "[server]\nlanes = 1\n[http]\nlisten = [\"127.0.0.1:0\"]\n[https]\nlisten = [\"{https}\"]\n\
             kernel_tls = {kernel_tls}\n[admin]\nlisten = \"{admin}\"\n"
        ));
    };
    configure(true);
    let server = site.launch().start();
    // Whether this kernel has it or not, it is asked unless the configuration forbids it.
    let forbidden_after_one_more = || {
        let mut curl = crate::support::tool("curl", "curl");
        curl.args(["--silent", "--show-error", "--fail", "--insecure", "--http1.1"]);
        assert_eq!(crate::support::output(curl.arg(format!("https://{https}/a.txt"))), b"text\n");
        server.counted("linerate_http_user_tls", "reason=\"configured\"")
    };
    assert_eq!(forbidden_after_one_more(), 0);
    configure(false);
    server.reload("reloaded");
    assert_eq!(forbidden_after_one_more(), 1);
    configure(true);
    server.reload("reloaded");
    assert_eq!(forbidden_after_one_more(), 1);
}

/// Two lanes, and volumes that all show the same directory.
fn configuration(http: &[SocketAddr], admin: SocketAddr, volumes: usize) -> String {
    let http: Vec<String> = http.iter().map(|address| format!("\"{address}\"")).collect();
    let mut text = format!(
        "[server]\nlanes = 2\n[http]\nlisten = [{}]\n[https]\nlisten = [\"127.0.0.1:0\"]\n[admin]\n\
         listen = \"{admin}\"\n",
        http.join(", ")
    );
    for number in 0..volumes {
        text.push_str(&format!("[[volume]]\nname = \"v{number}\"\npath = \"root\"\nmount = \"/{number}\"\n"));
    }
    text
}

fn descriptors(server: &Server) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", server.pid().as_raw_nonzero())).unwrap().count()
}

/// A server of two lanes takes some sixty.
const DESCRIPTORS: u64 = 256;
