//! Tests against OpenSSL's s_client and s_server and against curl, over loopback.
//!
//! Needs the Debian packages openssl and curl.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tls::*;

#[test]
fn curl_reads_a_long_body_by_both_versions() {
    let server = Server::start();
    for version in ["1.2", "1.3"] {
        let output = Command::new("curl")
            .args(["--silent", "--show-error", "--fail", "--http1.1", "--max-time", "60"])
            .args([&format!("--tlsv{version}"), "--tls-max", version, "--cacert"])
            .arg(&server.certificate)
            .arg(format!("https://localhost:{}/{}", server.address.port(), 20 << 20))
            .output()
            .expect("needs the Debian package curl");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout == body(20 << 20), "TLS {version}");
    }
}

#[test]
fn curl_reuses_the_connection_for_many_requests() {
    let server = Server::start();
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--fail", "--http1.1", "--max-time", "60", "--cacert"])
        .arg(&server.certificate)
        .arg(format!("https://localhost:{}/[1-200]", server.address.port()))
        .output()
        .expect("needs the Debian package curl");
    let expected: Vec<u8> = (1..=200).flat_map(body).collect();
    assert!(output.stdout == expected, "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn s_client_reads_by_every_suite() {
    let server = Server::start();
    for (version, option, suite) in [
        ("-tls1_3", "-ciphersuites", "TLS_AES_128_GCM_SHA256"),
        ("-tls1_3", "-ciphersuites", "TLS_AES_256_GCM_SHA384"),
        ("-tls1_3", "-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256"),
        ("-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ("-tls1_2", "-cipher", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("-tls1_2", "-cipher", "ECDHE-ECDSA-CHACHA20-POLY1305"),
    ] {
        let client = SClient::start(&server, &[version, option, suite, "-quiet"]);
        let output = client.talk(&["GET /100000 HTTP/1.1\r\nConnection: close\r\n\r\n"]);
        let (head, received) = split_head(&output.stdout);
        assert!(head.starts_with("HTTP/1.1 200"), "{suite}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(received == body(100_000), "{suite}");
    }
}

#[test]
fn s_client_may_send_in_the_smallest_fragments() {
    let server = Server::start();
    for version in ["-tls1_2", "-tls1_3"] {
        let client = SClient::start(&server, &[version, "-max_send_frag", "512", "-quiet"]);
        let request = format!("GET /5 HTTP/1.1\r\nConnection: close\r\nX: {}\r\n\r\n", "x".repeat(8000));
        let output = client.talk(&[&request]);
        assert_eq!(split_head(&output.stdout).1, body(5), "{version}");
    }
}

#[test]
fn s_client_key_updates_with_and_without_request_are_followed() {
    let server = Server::start();
    let client = SClient::start(&server, &["-tls1_3"]);
    let output = client.talk(&[
        "K\n",
        "GET /7 HTTP/1.1\r\n\r\n",
        "k\n",
        "K\n",
        "GET /70000 HTTP/1.1\r\nConnection: close\r\n\r\n",
    ]);
    let stdout = &output.stdout;
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(stderr.matches("KEYUPDATE").count(), 3, "{stderr}");
    assert!(contains(stdout, &body(7)) && contains(stdout, &body(70_000)), "{stderr}");
}

#[test]
fn s_client_is_refused_renegotiation() {
    let server = Server::start();
    let client = SClient::start(&server, &["-tls1_2"]);
    let output = client.talk(&["R\n"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("RENEGOTIATING") && stderr.contains("no renegotiation"), "{stderr}");
}

#[test]
fn s_client_resumes_its_session() {
    let server = Server::start();
    let session = server.dir.path().join("session.pem");
    let session = session.to_str().unwrap();
    for version in ["-tls1_2", "-tls1_3"] {
        let request = "GET /9 HTTP/1.1\r\nConnection: close\r\n\r\n";
        SClient::start(&server, &[version, "-sess_out", session]).talk(&[request]);
        let output = SClient::start(&server, &[version, "-sess_in", session]).talk(&[request]);
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(stdout.contains("Reused, TLSv1."), "{version}: {stdout}");
    }
}

#[test]
fn s_client_agrees_on_the_application_protocol() {
    let server = Server::start();
    let client = SClient::start(&server, &["-alpn", "http/1.1"]);
    let output = client.talk(&["GET /1 HTTP/1.1\r\nConnection: close\r\n\r\n"]);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("ALPN protocol: http/1.1"), "{stdout}");
    assert!(stdout.contains("Verify return code: 0 (ok)"), "{stdout}");
}

#[test]
fn own_client_reads_from_s_server() {
    let server = Server::start(); // for its certificate and key
    for version in ["-tls1_2", "-tls1_3"] {
        let port = testkit::free_address().port();
        let mut s_server = Command::new("openssl")
            .args(["s_server", "-quiet", "-WWW", version, "-accept", &port.to_string(), "-cert"])
            .arg(&server.certificate)
            .arg("-key")
            .arg(server.certificate.with_extension("key"))
            .current_dir(server.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("needs the Debian package openssl");
        std::fs::write(server.dir.path().join("file.txt"), body(300_000)).unwrap();
        let response = get_with_own_client(port, &server.certificate, "/file.txt");
        s_server.kill().unwrap();
        s_server.wait().unwrap();
        let (head, received) = split_head(&response);
        assert!(head.starts_with("HTTP/1.0 200"), "{version}: {head}");
        assert!(received == body(300_000), "{version}");
    }
}

/// Server that answers `GET /N` with N bytes, on a thread for each connection.
struct Server {
    address: SocketAddr,
    certificate: PathBuf,
    dir: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config = TlsConfig::new(dir.path().join("state"));
        config.alpn = vec![Alpn::Http11];
        let tls = config.load(Arc::new(TicketKeys::new().unwrap())).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let config = Arc::clone(&tls.config);
                let stream = stream.unwrap();
                thread::spawn(move || serve(stream, TlsSession::server(config).unwrap()));
            }
        });
        Self { address, certificate: tls.self_signed.unwrap(), dir }
    }
}

fn serve(mut stream: TcpStream, mut session: TlsSession) {
    let mut requests = Vec::new();
    let mut input = vec![0; 4096];
    loop {
        let Ok(len @ 1..) = stream.read(&mut input) else {
            return;
        };
        let outcome = receive(&mut session, &mut input[..len], &mut requests);
        if stream.write_all(&session.take_output()).is_err() || outcome.is_err() {
            return;
        }
        while let Some(end) = requests.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(requests.drain(..end + 4).collect()).unwrap();
            let path_len = head.split(['/', ' ']).nth(2).and_then(|len| len.parse().ok()).unwrap_or(0);
            if answer(&mut stream, &mut session, path_len).is_err() {
                return;
            }
            if head.contains("Connection: close") {
                session.close();
                let _ = stream.write_all(&session.take_output());
                return;
            }
        }
    }
}

/// Appends the plaintext of `input`; true once the peer has closed.
fn receive(session: &mut TlsSession, input: &mut [u8], plain: &mut Vec<u8>) -> Result<bool, TlsError> {
    let mut is_closed = false;
    let mut receive = session.receive(input);
    while let Some(event) = receive.next()? {
        match event {
            TlsEvent::Established => {}
            TlsEvent::Data(data) => plain.extend_from_slice(data),
            TlsEvent::PeerClosed => is_closed = true,
        }
    }
    Ok(is_closed)
}

/// Sends head and body as the real server does: laid out in the slots of a 256 KiB buffer.
fn answer(stream: &mut TcpStream, session: &mut TlsSession, len: usize) -> std::io::Result<()> {
    let mut rest = format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n").into_bytes();
    rest.extend(body(len));
    let layout = session.layout().expect("established");
    let mut buf = vec![0; 256 << 10];
    let mut rest = rest.as_slice();
    while !rest.is_empty() {
        let plain_len = layout.plain_capacity(buf.len()).min(rest.len());
        let (now, later) = rest.split_at(plain_len);
        layout.copy_in(&mut buf, 0, now);
        let control = session.seal(&mut buf, plain_len).expect("open");
        stream.write_all(&control)?;
        stream.write_all(&buf[..layout.sealed_len(plain_len)])?;
        rest = later;
    }
    Ok(())
}

fn get_with_own_client(port: u16, roots: &Path, path: &str) -> Vec<u8> {
    let trust = ClientTrust::Roots(roots.to_owned());
    let config = client_config(&trust, Versions::Tls12And13, &[]).unwrap();
    let name = "localhost".to_owned().try_into().unwrap();
    let mut session = TlsSession::client(Arc::new(config), name).unwrap();
    let mut stream = connect(port);
    let (mut response, mut input, mut is_sent) = (Vec::new(), vec![0; 5000], false);
    loop {
        stream.write_all(&session.take_output()).unwrap();
        if session.info().is_some() && !is_sent {
            is_sent = true;
            session.write(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).unwrap();
            continue;
        }
        // s_server keeps the connection until it has our close_notify too.
        let len = stream.read(&mut input).unwrap();
        if receive(&mut session, &mut input[..len], &mut response).unwrap() {
            session.close();
            stream.write_all(&session.take_output()).unwrap();
            return response;
        }
        assert_ne!(len, 0, "the response ended without close_notify");
    }
}

/// Connects to a server that was just started, waiting until it listens.
fn connect(port: u16) -> TcpStream {
    for _ in 0..100 {
        if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            return stream;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("nothing listens on port {port}");
}

struct SClient(Child);

impl SClient {
    fn start(server: &Server, options: &[&str]) -> Self {
        let child = Command::new("timeout")
            .args(["30", "openssl", "s_client", "-verify_return_error", "-verify_hostname", "localhost"])
            .args(["-connect", &server.address.to_string(), "-CAfile"])
            .arg(&server.certificate)
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("needs the Debian package openssl");
        Self(child)
    }

    /// Types each line after a pause, as s_client takes commands only at the start of a read, then waits for
    /// the server to close.
    fn talk(mut self, lines: &[&str]) -> Output {
        let mut stdin = self.0.stdin.take().unwrap();
        for line in lines {
            thread::sleep(Duration::from_millis(300));
            stdin.write_all(line.as_bytes()).unwrap();
        }
        let output = self.0.wait_with_output().unwrap();
        drop(stdin);
        output
    }
}

fn split_head(response: &[u8]) -> (String, &[u8]) {
    let end = response.windows(4).position(|window| window == b"\r\n\r\n").map_or(0, |at| at + 4);
    (String::from_utf8_lossy(&response[..end]).into_owned(), &response[end..])
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

fn body(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251) as u8).collect()
}
