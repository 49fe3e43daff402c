//! A server's life: start, reload, log rotation, drain and end, without a dropped transfer.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;

use rustix::process::Signal;

use crate::support::raw::{self, Response};
use crate::support::site::Site;
use crate::support::{Launch, Server, output, patterned, tool};

#[test]
fn sigterm_lets_transfers_end_and_takes_no_more() {
    let body = patterned(32 << 20);
    let site = Site::new(&[("big", &body), ("a.txt", b"hello\n")], "");
    let mut server = site.start();
    let mut idle = asking(server.http[0], "/a.txt");
    assert_eq!(raw::read_response(&mut idle).status, 200);
    let mut transfer = asking(server.http[0], "/big");
    let head = raw::read_head(&mut transfer);
    assert_eq!(health(&server), (200, b"ok\n".to_vec()));

    server.signal(Signal::TERM);
    assert!(raw::read_to_close(&mut idle).is_empty(), "idle connections close at once");
    assert_eq!(health(&server), (503, b"draining\n".to_vec()));
    crate::support::wait_for("the listener to close", || TcpStream::connect(server.http[0]).err());
    assert!(server.is_running(), "a transfer is under way");

    let received = raw::read_to_close(&mut transfer);
    assert_eq!(head.expect("content-length"), received.len().to_string());
    assert!(received == body);
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn drain_ends_at_its_time_and_says_what_it_cut() {
    let site = Site::new(&[("big", &patterned(32 << 20))], "[server]\ndrain_seconds = 1");
    let mut server = site.start();
    let mut transfer = asking(server.http[0], "/big");
    raw::read_head(&mut transfer);
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    assert!(server.stderr().contains("cut, as the drain time was over"), "{}", server.stderr());
    assert!(raw::read_to_close(&mut transfer).len() < 32 << 20);
}

#[test]
fn a_second_sigint_ends_at_once() {
    let site = Site::new(&[("big", &patterned(32 << 20))], "");
    let mut server = site.start();
    let mut transfer = asking(server.http[0], "/big");
    raw::read_head(&mut transfer);
    server.signal(Signal::INT);
    crate::support::wait_for("the drain", || server.stderr().contains("draining").then_some(()));
    server.signal(Signal::INT);
    assert_eq!(server.wait().code(), Some(130));
}

#[test]
fn reload_changes_everything_under_a_running_transfer() {
    let body = patterned(32 << 20);
    let site = Site::new(&[("big", &body), ("a.txt", b"old\n")], "");
    std::fs::create_dir(site.beside("other")).unwrap();
    std::fs::write(site.beside("other/a.txt"), "new\n").unwrap();
    make_certificate(&site, "new.example");
    let (old, new, tls) = (testkit::free_address(), testkit::free_address(), testkit::free_address());
    let addresses = |http: SocketAddr, certificate: &str| {
        format!(
            "[http]\nlisten = [\"{http}\"]\n[https]\nlisten = [\"{tls}\"]\n\
             [admin]\nlisten = \"127.0.0.1:0\"\n{certificate}"
        )
    };
    site.configure(&addresses(old, ""));
    let server = site.start();
    let first = fingerprint(tls);
    let mut plain = asking(old, "/big");
    assert_eq!(raw::read_head(&mut plain).expect("content-length"), body.len().to_string());
    let mut kept = asking(old, "/a.txt");
    assert_eq!(raw::read_response(&mut kept).body, b"old\n");
    let mut curl = tool("curl", "curl");
    curl.args(["--silent", "--insecure", "--http1.1", "--max-time", "60"]).arg(format!("https://{tls}/big"));
    let mut sealed = curl.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut sealed_out = sealed.stdout.take().unwrap();
    let mut sealed_body = vec![0];
    sealed_out.read_exact(&mut sealed_body).unwrap();

    let certificate = "[[https.certificate]]\ncert = \"new.example.crt\"\nkey = \"new.example.key\"\n";
    let mut text = addresses(new, certificate);
    text.push_str("[[volume]]\nname = \"other\"\npath = \"other\"\nmount = \"/other\"\n");
    site.configure(&text);
    server.reload("reloaded");

    assert_eq!(raw::get(new, "/a.txt").body, b"old\n");
    assert_eq!(raw::get(new, "/other/a.txt").body, b"new\n");
    crate::support::wait_for("the old address to close", || TcpStream::connect(old).err());
    assert_ne!(fingerprint(tls), first, "the new certificate is shown");
    raw::send_all(&mut kept, b"GET /other/a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(
        raw::read_response(&mut kept).body,
        b"new\n",
        "a kept connection sees it from its next request"
    );

    let mut rest = vec![0; body.len()];
    plain.read_exact(&mut rest).unwrap();
    assert!(rest == body);
    sealed_out.read_to_end(&mut sealed_body).unwrap();
    assert!(sealed.wait().unwrap().success() && sealed_body == body);
}

#[test]
fn an_address_may_change_its_role_on_reload() {
    let site = Site::new(&[("a.txt", b"hello\n")], "");
    let (http, https) = (testkit::free_address(), testkit::free_address());
    let text = |redirect: bool| {
        format!(
            "[http]\nlisten = [\"{http}\"]\nredirect_to_https = {redirect}\n[https]\nlisten = [\"{https}\"]\n\
             [admin]\nlisten = \"127.0.0.1:0\"\n"
        )
    };
    site.configure(&text(false));
    let server = site.start();
    for redirect in [true, false, true] {
        site.configure(&text(redirect));
        server.reload("reloaded");
        let status = if redirect { 308 } else { 200 };
        crate::support::wait_for("the new role on every lane", || {
            (0..20).all(|_| raw::get(http, "/a.txt").status == status).then_some(())
        });
    }
}

#[test]
fn a_bad_configuration_on_reload_leaves_the_old_one_in_force() {
    let site = Site::new(&[("a.txt", b"hello\n")], "");
    let (http, admin) = (testkit::free_address(), testkit::free_address());
    let good =
        format!("[http]\nlisten = [\"{http}\"]\n[https]\nlisten = []\n[admin]\nlisten = \"{admin}\"\n");
    site.configure(&good);
    let mut server = site.start();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    for (bad, named) in [
        ("[http]\nlissen = []\n".to_owned(), "lissen".to_owned()),
        ("[http\n".to_owned(), "line 1".to_owned()),
        (good.replace(&http.to_string(), &taken.to_string()), taken.to_string()),
        (
            good.replace("[https]\nlisten = []", "[https]\nlisten = [\"127.0.0.1:0\"]")
                + "[[https.certificate]]\ncert = \"none.crt\"\nkey = \"none.key\"\n",
            "none.crt".to_owned(),
        ),
    ] {
        site.configure(&bad);
        server.reload("stays in use");
        server.says(&named);
        assert_eq!(raw::get(http, "/a.txt").body, b"hello\n");
    }
    site.configure(&good);
    server.reload("reloaded");
    for _ in 0..20 {
        assert_eq!(raw::get(http, "/a.txt").body, b"hello\n");
    }
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_start_that_cannot_succeed_says_what_to_do() {
    let site = Site::new(&[("a.txt", b"hello\n")], "");
    let refused = |text: &str, named: &[&str]| {
        site.configure(text);
        let (status, said) = site.launch().fail();
        assert_eq!(status.code(), Some(1), "{said}");
        for word in named {
            assert!(said.contains(word), "{word:?} is missing in: {said}");
        }
        // Where a start failed, --check fails alike.
        let (status, said) = site.launch().arg("--check").fail();
        assert!(!status.success() && named.iter().all(|word| said.contains(word)), "{said}");
    };
    refused(
        "[http.limits]\nheader_secs = 1\n",
        &["unknown key `header_secs`", "header_seconds", "linerate.toml"],
    );
    refused("[http]\nlisten = [\"localhost:80\"]\n", &["listen", "localhost:80"]);
    refused(
        "[http]\nlisten = []\n[https]\nlisten = []\n[admin]\nlisten = \"off\"\n",
        &["http.listen", "give", "admin.listen"],
    );
    refused("[server]\ncpus = \"0-\"\n", &["server.cpus", "0-3,8"]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    refused(&format!("[http]\nlisten = [\"{addr}\"]\n[https]\nlisten = []\n"), &[&addr, "in use"]);
    refused(
        &format!("[http]\nlisten = []\n[https]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"{addr}\"\n"),
        &[&addr, "in use"],
    );
    let (status, said) = Launch::dir(&site.beside("none")).fail();
    assert!(!status.success() && said.contains("none"), "{said}");
}

#[test]
fn without_http_a_server_lives_at_its_admin_address_and_http_comes_and_goes_by_reloads() {
    let site = Site::new(&[("a.txt", b"hello\n")], "");
    let [http, admin] = [testkit::free_address(), testkit::free_address()];
    let configure = |listen: &str| {
        let text = format!("[http]\nlisten = \"{listen}\"\n[https]\nlisten = \"off\"\n");
        site.configure(&format!("{text}[admin]\nlisten = \"{admin}\"\n"));
    };
    configure("off");
    let mut server = site.start();
    assert!(server.http.is_empty() && server.https.is_empty());
    assert_eq!(server.counted("linerate_silo_listeners", ""), 0);
    assert_eq!(health(&server), (200, b"ok\n".to_vec()));

    configure(&http.to_string());
    server.reload("reloaded");
    assert_eq!(raw::get(http, "/a.txt").body, b"hello\n");
    assert_eq!(server.counted("linerate_http_requests", "method=\"GET\""), 1);

    // Off again its connections end; on again it goes on counting where it was.
    let mut idle = asking(http, "/a.txt");
    assert_eq!(raw::read_response(&mut idle).status, 200);
    configure("off");
    server.reload("reloaded");
    assert!(raw::read_to_close(&mut idle).is_empty());
    assert!(TcpStream::connect(http).is_err());
    configure(&http.to_string());
    server.reload("reloaded");
    assert_eq!(raw::get(http, "/a.txt").body, b"hello\n");
    assert_eq!(server.counted("linerate_http_requests", "method=\"GET\""), 3);
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn the_self_signed_certificate_is_made_once_and_kept() {
    let site = Site::new(&[("a.txt", b"hello\n")], "");
    let state = tempfile::tempdir().unwrap();
    let server = site.launch().state(state.path()).start();
    let first = fingerprint(server.https[0]);
    server.says("self-signed.crt"); // The user is told where it is.
    let certificate = state.path().join("linerate/self-signed.crt");
    // A client that trusts it needs no --insecure.
    let mut curl = tool("curl", "curl");
    curl.args(["--silent", "--show-error", "--cacert"]).arg(&certificate).arg(server.https_url("/a.txt"));
    assert_eq!(output(&mut curl), b"hello\n");
    drop(server);
    let server = site.launch().state(state.path()).start();
    assert_eq!(fingerprint(server.https[0]), first);
    let mode = |name: &str| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(state.path().join("linerate").join(name)).unwrap().permissions().mode() & 0o777
    };
    assert_eq!(mode("self-signed.key"), 0o600, "nobody else reads the key");
}

/// A certificate that is valid from and until so many seconds from now, and its key, as PEM.
fn certificate(name: &str, from: i64, until: i64) -> (String, String) {
    let now = std::time::SystemTime::now();
    let at = |seconds: i64| {
        let by = std::time::Duration::from_secs(seconds.unsigned_abs());
        if seconds < 0 { now - by } else { now + by }
    };
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
    (params.not_before, params.not_after) = (at(from).into(), at(until).into());
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

fn write_pair(dir: &Path, stem: &str, (certificate, key): (String, String)) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(dir.join(format!("{stem}.crt")), certificate).unwrap();
    std::fs::write(dir.join(format!("{stem}.key")), key).unwrap();
    std::fs::set_permissions(dir.join(format!("{stem}.key")), PermissionsExt::from_mode(0o600)).unwrap();
}

#[test]
fn certificates_that_the_time_has_left_or_not_reached_are_told_in_health_while_they_are_served() {
    const DAY: i64 = 86_400;
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("tree")).unwrap();
    write_pair(home.path(), "ends", certificate("ends.example", -400 * DAY, 20));
    write_pair(home.path(), "begins", certificate("begins.example", 20, 400 * DAY));
    write_pair(home.path(), "over", certificate("over.example", -400 * DAY, -DAY));
    let pair = |stem: &str| format!("[[https.certificate]]\ncert = '{stem}.crt'\nkey = '{stem}.key'\n");
    let config = home.path().join("linerate.toml");
    let tables = "[http]\nlisten = 'off'\n[https]\nlisten = '127.0.0.1:0'\n[admin]\nlisten = '127.0.0.1:0'\n";
    let volume = "[[volume]]\nname = 'tree'\npath = 'tree'\n";
    let text = format!("{tables}{}{}{}{volume}", pair("ends"), pair("begins"), pair("over"));
    std::fs::write(&config, text).unwrap();
    let server = Launch::config(&config).start();
    let lines = || String::from_utf8(health(&server).1).unwrap();
    let of = |stem: &str, text: &str| {
        let subject = format!("certificate {}", home.path().join(format!("{stem}.crt")).display());
        text.lines().find(|line| line.starts_with(&subject)).map(str::to_owned)
    };
    let is_dated = |line: &str| {
        let words: Vec<_> = line.split([' ', ',']).collect();
        let dates = words.iter().filter(|word| word.len() == 10 && word.matches('-').count() == 2);
        dates.count() == 2
    };
    let first = lines();
    let (begins, over) =
        (of("begins", &first).expect("it begins later"), of("over", &first).expect("it ended"));
    assert!(begins.contains("not yet") && is_dated(&begins), "{begins}");
    assert!(over.contains("has expired") && is_dated(&over), "{over}");
    assert_eq!(of("ends", &first), None, "{first}");
    let told = || {
        ["[certificate-expired]", "[certificate-not-yet-valid]"]
            .map(|word| server.stderr().matches(word).count())
    };
    crate::support::wait_for("the log", || (told() == [1, 1]).then_some(()));

    let ends = crate::support::wait_for("the one to expire", || of("ends", &lines()));
    assert!(ends.contains("has expired") && is_dated(&ends), "{ends}");
    crate::support::wait_for("the other to begin", || of("begins", &lines()).is_none().then_some(()));
    assert!(of("over", &lines()).is_some());
    crate::support::wait_for("the log", || (told() == [2, 1]).then_some(()));
}

#[test]
fn a_self_signed_certificate_is_replaced_while_the_server_runs_when_the_time_has_come() {
    const DAY: i64 = 86_400;
    let site = Site::new(&[("a.txt", b"hello\n")], "");
    let state = tempfile::tempdir().unwrap();
    let kept = state.path().join("linerate");
    std::fs::create_dir(&kept).unwrap();
    // It is replaced 30 days before its end.
    write_pair(&kept, "self-signed", certificate("localhost", -400 * DAY, 30 * DAY + 15));
    let server = site.launch().state(state.path()).start();
    let first = fingerprint(server.https[0]);
    let mut idle = asking(server.http[0], "/a.txt");
    assert_eq!(raw::read_response(&mut idle).status, 200);
    assert!(!server.stderr().contains("[certificate-self-signed]"), "{}", server.stderr());
    let second = crate::support::wait_for("another certificate", || {
        Some(fingerprint(server.https[0])).filter(|print| *print != first)
    });
    server.says("[certificate-self-signed]");
    raw::send_all(&mut idle, b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(raw::read_response(&mut idle).status, 200, "connections go on");
    assert_eq!(health(&server).1, b"ok\n");
    drop(server);
    assert_eq!(fingerprint(site.launch().state(state.path()).start().https[0]), second, "it is kept");
}

#[test]
fn clients_resume_their_tls_sessions() {
    let site = Site::new(&[("a.txt", b"hello\n")], "");
    let server = site.start();
    for version in ["-tls1_2", "-tls1_3"] {
        let session = site.beside(version);
        for (option, resumed) in [("-sess_out", false), ("-sess_in", true)] {
            let mut client = tool("openssl", "openssl");
            client.args(["s_client", "-connect", &server.https[0].to_string(), version, "-ign_eof", option]);
            client.arg(&session).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
            let mut client = client.stderr(std::process::Stdio::null()).spawn().unwrap();
            let mut stdin = client.stdin.take().unwrap();
            std::io::Write::write_all(
                &mut stdin,
                b"GET /a.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            )
            .unwrap();
            let said = client.wait_with_output().unwrap().stdout;
            let said = String::from_utf8_lossy(&said);
            assert!(said.contains("hello\n"), "{said}");
            assert_eq!(said.contains("Reused, "), resumed, "{version}: {said}");
        }
    }
    assert_eq!(server.counted("linerate_http_tls_handshakes", "kind=\"resumed\""), 2);
    assert_eq!(server.counted("linerate_http_tls_handshakes", "kind=\"full\""), 2);
}

#[test]
fn the_access_log_follows_a_rotation() {
    for (format, names) in [
        ("combined", ["\"GET /a.txt HTTP/1.1\" 200 6 \"-\"", "\"GET /b HTTP/1.1\" 404 "]),
        ("json", ["\"target\":\"/a.txt\"", "\"target\":\"/b\""]),
    ] {
        let site = Site::new(
            &[("a.txt", b"hello\n")],
            &format!("[log]\naccess = \"access.log\"\nformat = \"{format}\"\n"),
        );
        let server = site.start();
        raw::get(server.http[0], "/a.txt");
        let log = site.beside("access.log");
        let line_in = |path: &Path, name: &str| {
            crate::support::wait_for(name, || {
                let text = std::fs::read_to_string(path).ok()?;
                text.lines().find(|line| line.contains(name)).map(str::to_owned)
            })
        };
        let line = line_in(&log, names[0]);
        if format == "json" {
            let line: serde_json::Value = serde_json::from_str(&line).unwrap();
            assert_eq!((&line["status"], &line["bytes"]), (&200.into(), &6.into()));
            assert_eq!((&line["method"], &line["host"]), (&"GET".into(), &"localhost".into()));
        } else {
            assert!(line.starts_with("127.0.0.1 - - ["), "{line}");
        }
        std::fs::rename(&log, site.beside("access.log.1")).unwrap();
        server.reload("reloaded");
        raw::get(server.http[0], "/b");
        line_in(&log, names[1]);
        let rotated = std::fs::read_to_string(site.beside("access.log.1")).unwrap();
        assert!(rotated.contains(names[0]) && !rotated.contains(names[1]), "{rotated}");
        assert!(!std::fs::read_to_string(&log).unwrap().contains(names[0]));
    }
}

#[test]
fn the_end_of_the_server_loses_no_line_of_the_log() {
    let site = Site::new(&[("a.txt", b"hello\n")], "[log]\naccess = \"-\"\n");
    let mut server = site.start();
    for _ in 0..100 {
        raw::get(server.http[0], "/a.txt");
    }
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    assert_eq!(server.stdout().matches("\"GET /a.txt HTTP/1.1\" 200 6").count(), 100);
}

#[test]
fn metrics_tell_what_was_served() {
    let site = Site::new(&[("a.txt", b"hello\n")], "");
    let server = site.start();
    for _ in 0..10 {
        raw::get(server.http[0], "/a.txt");
    }
    raw::get(server.http[0], "/none");
    assert_eq!(server.counted("linerate_http_requests", "method=\"GET\""), 11);
    assert_eq!(server.counted("linerate_http_responses", "class=\"2xx\""), 10);
    assert_eq!(server.counted("linerate_http_responses", "class=\"4xx\""), 1);
    assert_eq!(server.counted("linerate_http_connections_accepted", "scheme=\"http\""), 11);
    assert!(server.counted("linerate_http_body_bytes", "") >= 60);
    assert!(server.counted("linerate_lane_bytes_out", "") > 60);
    crate::support::wait_for("every connection to be gone", || {
        (server.counted("linerate_http_connections", "") == 0).then_some(())
    });
    assert!(server.counted("process_resident_memory_bytes", "") > 1 << 20);
    let index = raw::get(server.admin, "/");
    assert!(String::from_utf8(index.body).unwrap().contains("/metrics"));
}

fn asking(addr: SocketAddr, target: &str) -> TcpStream {
    let mut stream = raw::connect(addr);
    raw::send_all(&mut stream, format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    stream
}

fn health(server: &Server) -> (u16, Vec<u8>) {
    let Response { status, body, .. } = raw::get(server.admin, "/health");
    (status, body)
}

/// SHA-256 of the certificate that is shown at `addr`.
fn fingerprint(addr: SocketAddr) -> String {
    let shown = output(tool("openssl", "openssl").args(["s_client", "-connect", &addr.to_string()]));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("shown.pem");
    std::fs::write(&file, shown).unwrap();
    let print = output(
        tool("openssl", "openssl").args(["x509", "-noout", "-fingerprint", "-sha256", "-in"]).arg(file),
    );
    String::from_utf8(print).unwrap()
}

fn make_certificate(site: &Site, name: &str) {
    let file = |suffix: &str| site.beside(&format!("{name}.{suffix}"));
    let mut openssl = tool("openssl", "openssl");
    openssl.args([
        "req",
        "-x509",
        "-nodes",
        "-days",
        "30",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
    ]);
    openssl.args(["-subj", &format!("/CN={name}"), "-addext", &format!("subjectAltName=DNS:{name}")]);
    output(openssl.arg("-out").arg(file("crt")).arg("-keyout").arg(file("key")));
}
