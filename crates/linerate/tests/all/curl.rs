//! The rules of the file service as real curl sees them, against the program as a user starts it.

use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::support::raw::Response;
use crate::support::{Launch, Server, output, patterned, tool, write_patterned_pages};

#[test]
fn get_sends_the_file_and_head_the_same_fields_without_it() {
    let (dir, server) = served(&[("a.txt", b"hello\n")]);
    let get = curl(&server.url("/a.txt"), &[]);
    assert_eq!((get.status, get.body.as_slice()), (200, b"hello\n".as_slice()));
    assert_eq!(get.expect("content-type"), "text/plain; charset=utf-8");
    assert_eq!(get.expect("accept-ranges"), "bytes");
    assert_eq!(get.expect("content-length"), "6");
    let modified = output(
        tool("date", "coreutils")
            .args(["-u", "+%a, %d %b %Y %H:%M:%S GMT", "-r"])
            .arg(dir.path().join("a.txt"))
            .env("LC_ALL", "C"),
    );
    assert_eq!(get.expect("last-modified"), String::from_utf8(modified).unwrap().trim());

    let mut head = curl(&server.url("/a.txt"), &["--head"]);
    assert!(head.body.is_empty());
    // Only the time of day may differ.
    let without_date = |response: &mut Response| response.headers.retain(|(name, _)| name != "date");
    let mut get = get;
    without_date(&mut head);
    without_date(&mut get);
    assert_eq!((head.status, head.headers), (200, get.headers));
}

#[test]
fn options_names_the_methods_and_others_are_refused_with_them() {
    let (_dir, server) = served(&[("a.txt", b"hello\n")]);
    let options = curl(&server.url("/a.txt"), &["--request", "OPTIONS"]);
    assert_eq!(options.expect("allow"), "GET, HEAD, OPTIONS");
    assert!(options.body.is_empty());
    let put = curl(&server.url("/a.txt"), &["--request", "PUT", "--data", "x"]);
    assert_eq!((put.status, put.expect("allow")), (405, "GET, HEAD, OPTIONS"));
    assert_eq!(curl(&server.url("/none"), &[]).status, 404);
    assert_eq!(server.counted("linerate_http_refused", "reason=\"method_not_allowed\""), 1);
    assert_eq!(server.counted("linerate_http_refused", "reason=\"not_found\""), 1);
}

#[test]
fn one_range_is_sent_as_it_is() {
    let body = patterned(100_000);
    let (_dir, server) = served(&[("f.bin", &body)]);
    for (range, start, end) in [
        ("0-0", 0, 1),
        ("5-9", 5, 10),
        ("-7", 99_993, 100_000),
        ("-200000", 0, 100_000),
        ("99999-", 99_999, 100_000),
        ("0-999999", 0, 100_000),
        ("20000-79999", 20_000, 80_000),
    ] {
        for url in [server.url("/f.bin"), server.https_url("/f.bin")] {
            let part = curl(&url, &["--range", range]);
            assert_eq!(part.status, 206, "{range}");
            assert_eq!(part.expect("content-range"), format!("bytes {start}-{}/100000", end - 1));
            assert!(part.body == body[start..end], "{range}");
        }
    }
}

#[test]
fn many_ranges_come_as_parts_of_one_body() {
    let body = patterned(100_000);
    let (_dir, server) = served(&[("f.bin", &body)]);
    for url in [server.url("/f.bin"), server.https_url("/f.bin")] {
        let response = curl(&url, &["--range", "0-9,500-40000,-3"]);
        assert_eq!(response.status, 206);
        let boundary = response.expect("content-type").strip_prefix("multipart/byteranges; boundary=");
        let delimiter = format!("\r\n--{}", boundary.expect("a boundary"));
        let expected = [0..10, 500..40_001, 99_997..100_000];
        let mut rest = response.body;
        for range in expected {
            rest = rest.strip_prefix(format!("{delimiter}\r\n").as_bytes()).expect("a delimiter").to_vec();
            let head = rest.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
            let fields = String::from_utf8(rest[..head].to_vec()).unwrap();
            assert!(
                fields.contains(&format!(
                    "Content-Range: bytes {}-{}/100000\r\n",
                    range.start,
                    range.end - 1
                )),
                "{fields}"
            );
            assert!(rest[head..head + range.len()] == body[range.clone()], "{range:?}");
            rest.drain(..head + range.len());
        }
        assert_eq!(rest, format!("{delimiter}--\r\n").as_bytes());
    }
}

#[test]
fn a_range_outside_the_file_is_answered_with_its_length() {
    let (_dir, server) = served(&[("f.bin", &patterned(1000)), ("empty", b"")]);
    let refused = curl(&server.url("/f.bin"), &["--range", "1000-"]);
    assert_eq!((refused.status, refused.expect("content-range")), (416, "bytes */1000"));
    let refused = curl(&server.url("/empty"), &["--range", "1-"]);
    assert_eq!((refused.status, refused.expect("content-range")), (416, "bytes */0"));
    let whole = curl(&server.url("/empty"), &["--range", "0-"]);
    assert_eq!((whole.status, whole.expect("content-length")), (200, "0"));
    assert_eq!(server.counted("linerate_http_refused", "reason=\"range_not_satisfiable\""), 2);
}

#[test]
fn an_interrupted_download_is_resumed() {
    let body = patterned(3_000_000);
    let (_dir, server) = served(&[("f.bin", &body)]);
    let to = tempfile::tempdir().unwrap();
    let file = to.path().join("f.bin");
    std::fs::write(&file, &body[..1_234_567]).unwrap();
    output(
        tool("curl", "curl")
            .args(QUIET)
            .args(["--fail", "--continue-at", "-", "--output"])
            .arg(&file)
            .arg(server.url("/f.bin")),
    );
    assert!(std::fs::read(&file).unwrap() == body);
    assert_eq!(server.counted("linerate_http_body_bytes", ""), 3_000_000 - 1_234_567);
}

#[test]
fn conditions_hold_both_ways() {
    let (dir, server) = served(&[("a.txt", b"hello\n")]);
    let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    let file = std::fs::File::options().write(true).open(dir.path().join("a.txt")).unwrap();
    file.set_modified(hour_ago).unwrap();
    let url = server.url("/a.txt");
    let first = curl(&url, &[]);
    let (etag, modified) = (first.expect("etag").to_owned(), first.expect("last-modified").to_owned());
    assert!(etag.starts_with('"'), "a strong one: {etag}");
    let (before, after) = ("Sun, 06 Nov 1994 08:49:37 GMT", "Fri, 01 Jan 2100 00:00:00 GMT");
    for (field, value, status) in [
        ("If-None-Match", etag.as_str(), 304),
        ("If-None-Match", "\"other\"", 200),
        ("If-None-Match", &format!("\"other\", W/{etag}"), 304),
        ("If-None-Match", "*", 304),
        ("If-Modified-Since", &modified, 304),
        ("If-Modified-Since", before, 200),
        ("If-Match", &etag, 200),
        ("If-Match", "\"other\"", 412),
        ("If-Match", &format!("W/{etag}"), 412),
        ("If-Match", "*", 200),
        ("If-Unmodified-Since", &modified, 200),
        ("If-Unmodified-Since", after, 200),
        ("If-Unmodified-Since", before, 412),
    ] {
        let response = curl(&url, &["--header", &format!("{field}: {value}")]);
        assert_eq!(response.status, status, "{field}: {value}");
        if status == 304 {
            assert_eq!(response.expect("etag"), etag);
            assert!(response.body.is_empty());
        }
    }
    // As curl itself asks.
    assert_eq!(curl(&url, &["--time-cond", &modified]).status, 304);
    assert_eq!(curl(&url, &["--time-cond", &format!("-{before}")]).status, 412);
    assert_eq!(server.counted("linerate_http_refused", "reason=\"precondition_failed\""), 4);
}

#[test]
fn if_range_sends_the_part_of_the_same_version_and_else_the_whole() {
    let (_dir, server) = served(&[("a.txt", b"hello\n")]);
    let url = server.url("/a.txt");
    let etag = curl(&url, &["--head"]).expect("etag").to_owned();
    let same = curl(&url, &["--range", "1-2", "--header", &format!("If-Range: {etag}")]);
    assert_eq!((same.status, same.body.as_slice()), (206, b"el".as_slice()));
    for other in ["\"other\"", &format!("W/{etag}"), "Sun, 06 Nov 1994 08:49:37 GMT"] {
        let whole = curl(&url, &["--range", "1-2", "--header", &format!("If-Range: {other}")]);
        assert_eq!((whole.status, whole.body.as_slice()), (200, b"hello\n".as_slice()), "{other}");
    }
}

#[test]
fn etag_lives_over_a_restart_and_ends_with_the_content() {
    let (dir, server) = served(&[("a.txt", b"hello\n")]);
    let to = tempfile::tempdir().unwrap();
    let saved = to.path().join("etag");
    let saved = saved.to_str().unwrap();
    assert_eq!(curl(&server.url("/a.txt"), &["--etag-save", saved]).status, 200);
    drop(server);
    let server = Server::start(dir.path());
    assert_eq!(curl(&server.url("/a.txt"), &["--etag-compare", saved]).status, 304);
    assert_eq!(curl(&server.https_url("/a.txt"), &["--etag-compare", saved]).status, 304);
    // The same length, another content.
    std::fs::write(dir.path().join("a.txt"), b"HELLO\n").unwrap();
    let changed = curl(&server.url("/a.txt"), &["--etag-compare", saved]);
    assert_eq!((changed.status, changed.body.as_slice()), (200, b"HELLO\n".as_slice()));
}

/// `cp -p`, `rsync -t` and `touch -r` set the time of change: to whole seconds, to parts of them, to none that says anything.
#[test]
fn a_tag_is_of_one_content_and_lasts_whatever_time_the_file_is_given() {
    let (dir, server) = served(&[("a.txt", b"hello\n")]);
    let (path, other) = (dir.path().join("a.txt"), dir.path().join("other"));
    let url = server.url("/a.txt");
    let epoch = std::time::UNIX_EPOCH;
    for (secs, nanos) in [(1_000_000_000, 0), (1_000_000_000, 7_000_000), (0, 0), (4_102_444_800, 0)] {
        let stamp = epoch + std::time::Duration::new(secs, nanos);
        let stamped = |path: &Path, content: &[u8]| {
            std::fs::write(path, content).unwrap();
            std::fs::File::options().write(true).open(path).unwrap().set_modified(stamp).unwrap();
        };
        let tag = || curl(&url, &[]).expect("etag").to_owned();
        stamped(&path, b"hello\n");
        let first = tag();
        assert!(first.starts_with('"'), "a strong one at once: {first}");
        std::thread::sleep(std::time::Duration::from_millis(2100));
        assert_eq!(tag(), first, "nothing has changed it");
        for is_moved in [false, true] {
            let (old, content) = (tag(), if is_moved { b"Hello\n" } else { b"HELLO\n" });
            if is_moved {
                stamped(&other, content);
                std::fs::rename(&other, &path).unwrap();
            } else {
                stamped(&path, content);
            }
            for (field, status) in [("If-None-Match", 200), ("If-Range", 200), ("If-Match", 412)] {
                let asked = format!("{field}: {old}");
                let range: &[&str] = if field == "If-Range" { &["--range", "1-2"] } else { &[] };
                let answer = curl(&url, &[range, &["--header", &asked]].concat());
                assert_eq!(answer.status, status, "{secs}.{nanos}, moved: {is_moved}: {field}");
                assert!(status != 200 || answer.body == content);
            }
        }
    }
}

#[test]
fn compressed_siblings_are_chosen_by_accept_encoding() {
    let (dir, server) = served(&[("page.html", b"<p>plain</p>\n"), ("lonely.html", b"<p>alone</p>\n")]);
    output(tool("gzip", "gzip").arg("--keep").arg(dir.path().join("page.html")));
    // Told apart by their content; no client decodes these two here.
    std::fs::write(dir.path().join("page.html.br"), b"brotli").unwrap();
    std::fs::write(dir.path().join("page.html.zst"), b"zstandard").unwrap();
    let url = server.url("/page.html");
    let mut etags = std::collections::HashSet::new();
    for (accept, encoding, body) in [
        ("br", Some("br"), Some(b"brotli".as_slice())),
        ("zstd", Some("zstd"), Some(b"zstandard".as_slice())),
        ("gzip", Some("gzip"), None),
        ("gzip;q=1, br;q=0.5", Some("gzip"), None),
        ("br;q=0, identity", None, Some(b"<p>plain</p>\n".as_slice())),
        ("identity", None, Some(b"<p>plain</p>\n".as_slice())),
    ] {
        let response = curl(&url, &["--header", &format!("Accept-Encoding: {accept}")]);
        assert_eq!(response.header("content-encoding"), encoding, "{accept}");
        assert_eq!(response.expect("vary"), "Accept-Encoding");
        assert_eq!(response.expect("content-type"), "text/html; charset=utf-8");
        assert_eq!(response.expect("content-length"), response.body.len().to_string());
        assert!(body.is_none_or(|body| response.body == body), "{accept}");
        etags.insert(response.expect("etag").to_owned());
    }
    assert_eq!(etags.len(), 4, "every variant has a tag of its own");
    std::fs::remove_file(dir.path().join("page.html.br")).unwrap();
    std::fs::remove_file(dir.path().join("page.html.zst")).unwrap();
    crate::support::wait_for("the removed siblings to be forgotten", || {
        let decoded = curl(&url, &["--compressed"]);
        (decoded.header("content-encoding") == Some("gzip"))
            .then(|| assert_eq!(decoded.body, b"<p>plain</p>\n"))
    });
    let alone = curl(&server.url("/lonely.html"), &["--compressed"]);
    assert_eq!((alone.header("vary"), alone.body.as_slice()), (None, b"<p>alone</p>\n".as_slice()));
}

#[test]
fn redirects_lead_to_https_and_to_directories() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir_all(root.join("sub dir")).unwrap();
    std::fs::write(root.join("sub dir/index.html"), b"<p>index</p>\n").unwrap();
    let config = dir.path().join("linerate.toml");
    std::fs::write(
        &config,
        "[[volume]]\nname = \"files\"\npath = \"root\"\n[http]\nlisten = [\"127.0.0.1:0\"]\n\
         redirect_to_https = true\n[https]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\n",
    )
    .unwrap();
    let server = Launch::config(&config).start();
    let first = curl(&server.url("/sub%20dir?x=1"), &[]);
    assert_eq!(first.status, 308);
    let https = format!("https://127.0.0.1:{}/sub%20dir?x=1", server.https[0].port());
    assert_eq!(first.expect("location"), https);
    let second = curl(&https, &[]);
    assert_eq!(second.expect("location"), "/sub%20dir/?x=1");
    let args = ["--location", "--insecure", "--write-out", "%{num_redirects}"];
    let followed =
        tool("curl", "curl").args(QUIET).args(args).arg(server.url("/sub%20dir?x=1")).output().unwrap();
    assert_eq!(String::from_utf8(followed.stdout).unwrap(), "<p>index</p>\n2");
}

#[test]
fn a_directory_is_its_index_or_a_listing_for_people_or_programs() {
    let (dir, server) = served(&[("b.txt", b"12345"), ("a & <b>.txt", b""), (".secret", b"")]);
    std::fs::create_dir(dir.path().join("sub")).unwrap();
    let page = curl(&server.url("/"), &["--header", "Accept: text/html"]);
    assert_eq!(page.expect("content-type"), "text/html; charset=utf-8");
    let html = String::from_utf8(page.body).unwrap();
    assert!(html.contains("a &amp; &lt;b&gt;.txt") && html.contains("<a href=\"sub/\""), "{html}");
    assert!(!html.contains(".secret"));

    let json = curl(&server.url("/?sort=size&order=desc"), &["--header", "Accept: application/json"]);
    assert_eq!(json.expect("content-type"), "application/json");
    assert_eq!(json.expect("vary"), "Accept");
    let listing: serde_json::Value = serde_json::from_slice(&json.body).unwrap();
    assert_eq!(listing["path"], "/");
    let entries = listing["entries"].as_array().unwrap();
    let of = |name: &str| entries.iter().find(|entry| entry["name"] == name).unwrap();
    assert_eq!(entries.len(), 3);
    assert_eq!((&of("b.txt")["type"], &of("b.txt")["size"]), (&"file".into(), &5.into()));
    assert_eq!((&of("sub")["type"], &of("sub")["href"]), (&"directory".into(), &"sub/".into()));
    let awkward = of("a & <b>.txt")["href"].as_str().unwrap();
    assert_eq!(curl(&server.url(&format!("/{awkward}")), &[]).status, 200);
    assert_eq!(curl(&server.url("/.secret"), &[]).status, 404);

    std::fs::write(dir.path().join("index.html"), b"<p>index</p>\n").unwrap();
    crate::support::wait_for("the index to be noticed", || {
        (curl(&server.url("/"), &[]).body == b"<p>index</p>\n").then_some(())
    });
}

#[test]
fn one_connection_serves_many_requests() {
    let (_dir, server) = served(&[("a.txt", b"hello\n")]);
    for url in [server.url("/a.txt"), server.https_url("/a.txt")] {
        let args = ["--insecure", "--http1.1", "--write-out", "%{num_connects} ", "--output", "/dev/null"];
        let mut command = tool("curl", "curl");
        command.args(QUIET).args(args).arg(&url);
        for _ in 0..3 {
            command.args(["--output", "/dev/null"]).arg(&url);
        }
        assert_eq!(output(&mut command), b"1 0 0 0 ", "{url}");
    }
}

#[test]
fn http_1_0_is_answered_and_closed() {
    let body = patterned(50_000);
    let (_dir, server) = served(&[("f.bin", &body)]);
    let response = curl(&server.url("/f.bin"), &["--http1.0"]);
    assert_eq!((response.status, response.expect("connection")), (200, "close"));
    assert!(response.body == body);
    let kept = curl(&server.url("/f.bin"), &["--http1.0", "--header", "Connection: keep-alive"]);
    assert_eq!(kept.expect("connection"), "keep-alive");
}

#[test]
fn both_tls_versions_are_spoken_and_older_ones_are_not() {
    let (_dir, server) = served(&[("a.txt", b"hello\n")]);
    for (version, name) in [("1.2", "TLSv1.2"), ("1.3", "TLSv1.3")] {
        let tls = format!("--tlsv{version}");
        let mut command = tool("curl", "curl");
        command.args(["--silent", "--show-error", "--insecure", "--verbose", &tls, "--tls-max", version]);
        let done = command.arg(server.https_url("/a.txt")).output().unwrap();
        let told = String::from_utf8_lossy(&done.stderr);
        assert!(told.contains(&format!("SSL connection using {name}")), "{told}");
        assert_eq!(done.stdout, b"hello\n");
    }
    let mut old = tool("curl", "curl");
    old.args(QUIET).args(["--insecure", "--tlsv1.0", "--tls-max", "1.1"]).arg(server.https_url("/a.txt"));
    assert!(!old.output().unwrap().status.success());
    server.wait_counted("linerate_http_tls_handshakes", "kind=\"failed\"", 1);
}

#[test]
fn plain_http_on_the_tls_port_is_told_so() {
    let (_dir, server) = served(&[("a.txt", b"hello\n")]);
    let response = curl(&format!("http://{}/a.txt", server.https[0]), &[]);
    assert_eq!(response.status, 400);
    assert!(String::from_utf8(response.body).unwrap().contains("https://"));
}

#[test]
fn many_streams_share_one_http_2_connection() {
    let body = patterned(300_000);
    let (_dir, server) = served(&[("f.bin", &body)]);
    let response = curl(&server.https_url("/f.bin"), &["--http2"]);
    assert!(response.status == 200 && response.body == body);
    let to = tempfile::tempdir().unwrap();
    let format = "%{http_version} %{num_connects} ";
    let mut command = tool("curl", "curl");
    command.current_dir(to.path()).args(QUIET).args([
        "--insecure",
        "--http2",
        "--parallel",
        "--write-out",
        format,
    ]);
    command.args(["--parallel-max", "20", "--output", "#1"]).arg(server.https_url("/f.bin?[1-20]"));
    let report = String::from_utf8(output(&mut command)).unwrap();
    let versions = report.split(' ').step_by(2).filter(|version| *version == "2").count();
    assert_eq!(versions, 20, "{report}");
    for stream in 1..=20 {
        assert!(std::fs::read(to.path().join(stream.to_string())).unwrap() == body, "stream {stream}");
    }
    assert_eq!(server.counted("linerate_http_requests_http2", ""), 21);
}

#[test]
fn a_gibibyte_arrives_whole_by_every_way() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("big.bin");
    write_patterned_pages(&file, 1 << 30);
    let expected = sha256(Stdio::from(std::fs::File::open(&file).unwrap()));
    let server = Server::start(dir.path());
    for (url, version) in [
        (server.url("/big.bin"), "--http1.1"),
        (server.https_url("/big.bin"), "--http1.1"),
        (server.https_url("/big.bin"), "--http2"),
    ] {
        let mut command = tool("curl", "curl");
        command.args(["--silent", "--show-error", "--insecure", "--max-time", "120", version]).arg(&url);
        let mut transfer = command.stdout(Stdio::piped()).spawn().unwrap();
        let received = sha256(Stdio::from(transfer.stdout.take().unwrap()));
        assert!(transfer.wait().unwrap().success(), "{url}");
        assert_eq!(received, expected, "{url}");
    }
}

fn served(files: &[(&str, &[u8])]) -> (TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        write(&dir.path().join(name), content);
    }
    let server = Server::start(dir.path());
    (dir, server)
}

fn write(path: &Path, content: &[u8]) {
    std::fs::write(path, content).unwrap();
}

/// One transfer; redirects are not followed, certificates not checked.
fn curl(url: &str, args: &[&str]) -> Response {
    let mut command: Command = tool("curl", "curl");
    Response::parse(&output(command.args(QUIET).args(["--insecure", "--include"]).args(args).arg(url)))
}

fn sha256(input: Stdio) -> Vec<u8> {
    let done = tool("sha256sum", "coreutils").stdin(input).output().unwrap();
    assert!(done.status.success());
    done.stdout
}

const QUIET: [&str; 4] = ["--silent", "--show-error", "--max-time", "60"];
