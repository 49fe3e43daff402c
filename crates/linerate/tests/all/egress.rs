//! Marks of what the server sends: on the sockets that the kernel shows, or refused with a reason.

use std::io::Write;
use std::net::TcpStream;

use crate::support::site::{ANY_PORT, Site};
use crate::support::{output, raw, tool};
use lane::socket::options::can_mark;

/// Returns what `ss` shows of the server's end of a connection from `client`.
fn socket_of(client: &TcpStream) -> String {
    // Another server's end that waits in TIME-WAIT may know the same port of the client.
    let filter = format!("src {} and dst {}", client.peer_addr().unwrap(), client.local_addr().unwrap());
    String::from_utf8(output(tool("ss", "iproute2").args(["-tnaeH", &filter]))).unwrap()
}

#[test]
fn open_connections_follow_marks_that_a_reload_brings_changes_and_takes() {
    if let Err(problem) = can_mark() {
        return testkit::skip(format_args!("this process may not mark packets: {problem}"));
    }
    let site = Site::new(&[("a.txt", b"hello\n")], "");
    let marks = |marks: &str| format!("[server]\negress_marks = {{ {marks} }}\n{ANY_PORT}");
    site.configure(&marks("lo = 17"));
    let server = site.start();
    let mut client = TcpStream::connect(server.http[0]).unwrap();
    let steps = [
        (None, "fwmark:0x11"),
        (Some("lo = 18"), "fwmark:0x12"),
        (Some(""), ""),
        (Some("lo = 17"), "fwmark:0x11"),
    ];
    for (configured, kernel) in steps {
        if let Some(configured) = configured {
            site.configure(&marks(configured));
            server.reload("reloaded");
        }
        write!(client, "GET /a.txt HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert_eq!(raw::read_response(&mut client).body, b"hello\n");
        crate::support::wait_for("the mark of the open connection", || {
            let socket = socket_of(&client);
            let right = if kernel.is_empty() { !socket.contains("fwmark") } else { socket.contains(kernel) };
            right.then_some(())
        });
    }
    assert_eq!(server.counted("linerate_http_marks_failed", ""), 0);
    assert!(server.counted("linerate_http_connections_remarked", "") >= 3);
}

#[test]
fn what_the_kernel_still_holds_of_a_closed_connection_has_no_mark() {
    if let Err(problem) = can_mark() {
        return testkit::skip(format_args!("this process may not mark packets: {problem}"));
    }
    let body = crate::support::patterned(400_000);
    let site = Site::new(&[("f", &body)], "[server]\negress_marks = { lo = 17 }");
    let server = site.start();
    let mut client = TcpStream::connect(server.http[0]).unwrap();
    crate::support::wait_for("the mark of a connection", || {
        socket_of(&client).contains("fwmark:0x11").then_some(())
    });
    write!(client, "GET /f HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    // More than the window has room for, less than the server's end can hold: it closes with the rest unsent.
    crate::support::wait_for("the server to close, and to let go", || {
        let socket = socket_of(&client);
        (socket.starts_with("FIN-WAIT-1") && !socket.contains("fwmark")).then_some(())
    });
    assert_eq!(raw::read_response(&mut client).body, body, "the rest arrives");
}

#[test]
fn marks_are_refused_without_the_privilege_and_the_words_say_which() {
    let site = Site::new(&[("a.txt", b"hello\n")], "[server]\negress_marks = { lo = 17 }");
    let mut check = tool("setpriv", "util-linux");
    if can_mark().is_ok() {
        check.arg("--bounding-set=-net_admin,-net_raw");
    }
    check.arg(assert_cmd::cargo::cargo_bin!("linerate")).args(["serve", "--check", "--config"]);
    let refused = check.arg(site.config()).output().unwrap();
    let words = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success());
    assert!(words.contains("server.egress_marks") && words.contains("CAP_NET_ADMIN"), "{words}");
}
