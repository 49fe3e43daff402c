//! Files uploaded with curl, by users made with the program, as the README shows it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::support::{Launch, Server, linerate, output, patterned, tool, wait_for, write_patterned_pages};
use tempfile::TempDir;
use testkit::Disk;

/// A directory that alice may change, and its server.
struct Scene {
    dir: TempDir,
    served: PathBuf,
    server: Server,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let served = dir.path().join("served");
        std::fs::create_dir(&served).unwrap();
        Self::serving(dir, served, &[])
    }

    fn serving(dir: TempDir, served: PathBuf, args: &[&str]) -> Self {
        let accounts = dir.path().join("accounts.toml");
        let mut add =
            linerate(["user", "add", "alice", "--password-stdin", "--uid", "4242", "--gid", "4243"]);
        let mut child = add
            .env("LINERATE_ACCOUNTS", &accounts)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"open sesame\n").unwrap();
        assert!(child.wait().unwrap().success());
        let launch = Launch::dir(&served).arg("--writable").arg("alice");
        let launch = args.iter().fold(launch, |launch, arg| launch.arg(arg));
        let server = launch.env("LINERATE_ACCOUNTS", accounts.to_str().unwrap()).start();
        Self { dir, served, server }
    }

    /// A file to upload.
    fn file(&self, name: &str, content: &[u8]) -> String {
        let path = self.dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn served(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.served.join(name)).unwrap()
    }

    /// Checks the names in the served directory once abandoned uploads are gone: the server's own names too.
    fn expect_names(&self, expected: &[&str]) {
        wait_for("the names in the served directory", || (names(&self.served) == expected).then_some(()));
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The status that curl was answered with, and what it was told.
fn curl(args: &[&str], url: &str) -> (u16, String) {
    told(curl_command(args, url).stdin(Stdio::null()).output().unwrap())
}

fn curl_command(args: &[&str], url: &str) -> Command {
    let mut command = tool("curl", "curl");
    command.args(["--silent", "--insecure", "--max-time", "300", "--write-out", "\n%{http_code}"]);
    command.args(args).arg(url);
    command
}

fn told(output: Output) -> (u16, String) {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (said, status) = text.rsplit_once('\n').expect("curl writes the status last");
    (status.parse().unwrap(), said.to_owned())
}

const ALICE: [&str; 2] = ["--user", "alice:open sesame"];

#[test]
fn user_uploads_replaces_and_removes_over_every_protocol() {
    let scene = Scene::new();
    let content = patterned(3_000_001);
    let (first, second) = (scene.file("first", &content), scene.file("second", b"second\n"));
    let urls = [scene.server.url("/a%20b.bin"), scene.server.https_url("/a%20b.bin")];
    for url in urls {
        for protocol in ["--http1.1", "--http2"] {
            let alice = |args: &[&str]| curl(&[&[protocol][..], &ALICE, args].concat(), &url).0;
            assert_eq!(alice(&["--upload-file", &first]), 201, "{url} {protocol}");
            assert!(scene.served("a b.bin") == content, "{url} {protocol}");
            let found = scene.served.join("a b.bin").metadata().unwrap();
            let may_give = rustix::process::geteuid().is_root();
            assert_eq!((found.uid(), found.gid()) == (4242, 4243), may_give, "{found:?}");
            let got = output(tool("curl", "curl").args(["--silent", "--insecure", protocol]).arg(&url));
            assert!(got == content, "{url} {protocol}");
            assert_eq!(alice(&["--upload-file", &second]), 204);
            assert_eq!(scene.served("a b.bin"), b"second\n");
            assert_eq!(alice(&["--request", "DELETE"]), 204);
            assert_eq!(alice(&["--request", "DELETE"]), 404);
        }
    }
    scene.expect_names(&[]);
    assert_eq!(scene.server.counted("linerate_http_uploads", ""), 8);
}

#[test]
fn who_may_not_is_told_why() {
    let scene = Scene::new();
    let file = scene.file("f", b"new\n");
    std::fs::write(scene.served.join("old"), "old\n").unwrap();
    let put = ["--upload-file", file.as_str()];
    let upload = |more: &[&str], path: &str| curl(&[&put[..], more].concat(), &scene.server.url(path));
    let (status, said) = upload(&["--include"], "/f");
    assert!(status == 401 && said.contains("WWW-Authenticate: Basic realm=\"linerate\""), "{said}");
    for user in ["alice:wrong", "alice:", "bob:open sesame"] {
        let (status, said) = upload(&["--user", user], "/f");
        assert!(status == 401 && said.contains("Name or password is wrong"), "{user}: {said}");
    }
    for (more, path, status, words) in [
        (&["--continue-at", "2"][..], "/old", 400, "cannot go on where another ended"),
        (&["--header", "If-None-Match: *"], "/old", 412, "has changed"),
        (&["--header", "If-Match: \"other\""], "/old", 412, "has changed"),
        (&[], "/absent/f", 409, "no directory"),
        (&[], "/.secret", 403, "begin with a dot"),
        (&["--header", "Content-Encoding: br"], "/f", 415, "without Content-Encoding"),
    ] {
        let (found, said) = upload(&[&ALICE[..], more].concat(), path);
        assert!(found == status && said.contains(words), "{path} {more:?}: {found} {said}");
    }
    assert_eq!(scene.served("old"), b"old\n");
    scene.expect_names(&["old"]);
    assert_eq!(scene.server.counted("linerate_http_logins", "outcome=\"wrong\""), 3);
    // The tag that an upload was answered with is good for the next at once.
    let (_, said) = upload(&[&ALICE[..], &["--include"]].concat(), "/old");
    let tag = said.lines().find_map(|line| line.strip_prefix("ETag: ")).expect("a tag").trim();
    let condition = format!("If-Match: {tag}");
    assert_eq!(upload(&[&ALICE[..], &["--header", &condition]].concat(), "/old").0, 204);
    assert_eq!(
        upload(&[&ALICE[..], &["--header", &condition]].concat(), "/old").0,
        412,
        "it has another by now"
    );
    // So is one that was read, until another program puts as many bytes there, whatever time it gives them.
    let served = scene.served.join("old");
    let stamped = |content: &str| {
        std::fs::write(&served, content).unwrap();
        let stamp = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 7_000_000);
        std::fs::File::options().write(true).open(&served).unwrap().set_modified(stamp).unwrap();
    };
    stamped("one\n");
    let (status, said) = curl(&[&ALICE[..], &["--include"]].concat(), &scene.server.url("/old"));
    assert_eq!(status, 200);
    let tag = said.lines().find_map(|line| line.strip_prefix("ETag: ")).expect("a tag").trim().to_owned();
    stamped("two\n");
    let condition = format!("If-Match: {tag}");
    assert_eq!(upload(&[&ALICE[..], &["--header", &condition]].concat(), "/old").0, 412);
    assert_eq!(scene.served("old"), b"two\n");
}

#[test]
fn every_method_with_a_body_that_is_refused_over_http2_is_answered() {
    let scene = Scene::new();
    let (small, large) = (scene.file("small", b"abc"), scene.file("large", &patterned(20_000_000)));
    let url = scene.server.https_url("/f");
    for (method, body) in [("POST", &small), ("POST", &large), ("PATCH", &large), ("DELETE", &large)] {
        for round in 0..20 {
            let data = format!("@{body}");
            let (status, said) = curl(&["--http2", "--request", method, "--data-binary", &data], &url);
            let expected: &[u16] = if method == "DELETE" { &[401, 403] } else { &[405] };
            assert!(expected.contains(&status), "{method} of {body}, round {round}: {status} {said}");
        }
    }
}

#[test]
fn reload_takes_new_users_and_passwords_from_the_next_request_on() {
    let scene = Scene::new();
    let accounts = scene.dir.path().join("accounts.toml");
    let file = scene.file("f", b"new\n");
    let url = scene.server.url("/f");
    let upload = |user: &str| curl(&["--upload-file", &file, "--user", user], &url).0;
    let change = |args: &[&str], password: &[u8]| {
        let mut command = linerate(args.iter().copied());
        command.env("LINERATE_ACCOUNTS", &accounts).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(password).unwrap();
        assert!(child.wait().unwrap().success());
    };
    assert_eq!(upload("alice:open sesame"), 201);
    change(&["user", "passwd", "alice", "--password-stdin"], b"another word\n");
    assert_eq!(upload("alice:open sesame"), 204, "the file alone changes nothing");
    scene.server.reload("reloaded");
    // It was right a moment ago, and remembered.
    assert_eq!(upload("alice:open sesame"), 401);
    assert_eq!(upload("alice:another word"), 204);
    change(&["user", "disable", "alice"], b"");
    scene.server.reload("reloaded");
    assert_eq!(upload("alice:another word"), 401);
    assert_eq!(scene.served("f"), b"new\n");
}

#[test]
fn a_gibibyte_comes_whole_asked_for_or_in_chunks() {
    let scene = Scene::new();
    let source = scene.dir.path().join("source");
    write_patterned_pages(&source, 1 << 30);
    let sum = |path: &Path| output(tool("sha256sum", "coreutils").arg(path))[..64].to_vec();
    let expected = sum(&source);
    let path = source.to_str().unwrap();
    let args = [&ALICE[..], &["--upload-file", path, "--header", "Expect: 100-continue"]].concat();
    assert_eq!(curl(&args, &scene.server.url("/big")).0, 201);
    assert!(sum(&scene.served.join("big")) == expected);
    // From a pipe its length is not known beforehand.
    let command = [&ALICE[..], &["--upload-file", "-"]].concat();
    let mut upload = curl_command(&command, &scene.server.https_url("/big"));
    let given = upload.stdin(std::fs::File::open(&source).unwrap()).output().unwrap();
    assert_eq!(told(given).0, 204);
    assert!(sum(&scene.served.join("big")) == expected);
    scene.expect_names(&["big"]);
}

#[test]
fn of_ten_at_once_to_one_name_one_is_there_whole() {
    let scene = Scene::new();
    let files: Vec<_> =
        (0..10).map(|n| scene.file(&format!("f{n}"), &vec![b'a' + n as u8; 500_000 + n])).collect();
    let start = |file: &String| {
        let args = [&ALICE[..], &["--upload-file", file]].concat();
        curl_command(&args, &scene.server.url("/f")).stdout(Stdio::piped()).spawn().unwrap()
    };
    let all: Vec<_> = files.iter().map(start).collect();
    let mut statuses: Vec<_> =
        all.into_iter().map(|child| told(child.wait_with_output().unwrap()).0).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 204, 204, 204, 204, 204, 204, 204, 204, 204]);
    let content = scene.served("f");
    let n = usize::from(content[0] - b'a');
    assert!(content.len() == 500_000 + n && content.iter().all(|byte| *byte == content[0]));
    scene.expect_names(&["f"]);
}

#[test]
fn upload_that_breaks_off_leaves_the_old_file_and_nothing_else() {
    let scene = Scene::new();
    std::fs::write(scene.served.join("f"), "old\n").unwrap();
    let mut stream = TcpStream::connect(scene.server.http[0]).unwrap();
    let authorization = "Authorization: Basic YWxpY2U6b3BlbiBzZXNhbWU=";
    write!(stream, "PUT /f HTTP/1.1\r\nHost: a\r\n{authorization}\r\nContent-Length: 1000000\r\n\r\nnew")
        .unwrap();
    stream.write_all(&[b'n'; 400_000]).unwrap();
    scene.server.wait_counted("linerate_http_upload_bytes", "", 100_000);
    assert_eq!(scene.server.counted("linerate_http_uploads_open", ""), 1, "it is under way");
    drop(stream);
    let open = || scene.server.counted("linerate_http_uploads_open", "");
    wait_for("its end", || (open() == 0).then_some(()));
    scene.expect_names(&["f"]);
    assert_eq!(scene.served("f"), b"old\n");
}

#[test]
fn full_disk_is_answered_507_and_keeps_nothing() {
    let disk = match Disk::in_memory(4) {
        Ok(disk) => disk,
        Err(error) => return testkit::skip(format_args!("a tmpfs cannot be mounted ({error})")),
    };
    let dir = tempfile::tempdir().unwrap();
    let served = disk.path();
    let scene = Scene::serving(dir, served, &[]);
    let (small, big) = (scene.file("small", &patterned(1_000_000)), scene.file("big", &patterned(8_000_000)));
    for url in [scene.server.url("/f"), scene.server.https_url("/f")] {
        let upload = |file: &str| curl(&[&ALICE[..], &["--upload-file", file]].concat(), &url);
        assert!(matches!(upload(&small).0, 201 | 204));
        let (status, said) = upload(&big);
        assert!(status == 507 && said.contains("disk is full"), "{status} {said}");
        scene.expect_names(&["f"]);
        assert!(scene.served("f") == patterned(1_000_000), "the old one");
    }
    drop(scene);
}

#[test]
fn posix_access_lists_keep_out_whom_they_deny_by_what_the_kernel_hands_down_too() {
    let Some(disk) = Disk::new_or_skip("ext4", 16, &[]) else { return };
    let served = disk.path();
    let list = |entries: &[(u16, u16, u32)]| {
        let entry = |(tag, bits, id): &(u16, u16, u32)| {
            [&tag.to_le_bytes()[..], &bits.to_le_bytes(), &id.to_le_bytes()].concat()
        };
        [2u32.to_le_bytes().to_vec(), entries.iter().flat_map(entry).collect()].concat()
    };
    // `setfacl -m u:777:---`, of what every user may read.
    let denies = list(&[(1, 6, !0), (2, 0, 777), (4, 4, !0), (0x10, 4, !0), (0x20, 4, !0)]);
    let set = |at: &Path, name: &str, list: &[u8]| {
        rustix::fs::setxattr(at, name, list, rustix::fs::XattrFlags::empty()).unwrap();
    };
    std::fs::write(served.join("listed"), "private").unwrap();
    set(&served.join("listed"), "system.posix_acl_access", &denies);
    for name in ["made", "plain"] {
        std::fs::create_dir(served.join(name)).unwrap();
        rustix::fs::chmod(served.join(name), 0o777.into()).unwrap();
    }
    set(&served.join("made"), "system.posix_acl_default", &denies);
    let scene = Scene::serving(tempfile::tempdir().unwrap(), served, &[]);
    let file = scene.file("f", b"text\n");
    let status = |path: &str| curl(&[], &scene.server.url(path)).0;
    for (path, told) in [("/made/f", 401), ("/plain/f", 200)] {
        let put = curl(&[&ALICE[..], &["--upload-file", &file]].concat(), &scene.server.url(path)).0;
        assert_eq!(put, 201, "{path}");
        assert_eq!(status(path), told, "{path}");
    }
    assert_eq!(status("/listed"), 401);
    drop(scene);
}

#[test]
fn uploads_leave_a_full_disk_what_it_keeps_for_root() {
    // A fifth is root's, as ext4 keeps 5 % unless it is told otherwise.
    let Some(disk) = Disk::new_or_skip("ext4", 64, &["-m", "20"]) else { return };
    let served = disk.path();
    let scene = Scene::serving(tempfile::tempdir().unwrap(), served.clone(), &[]);
    let file = scene.file("part", &patterned(1_000_000));
    let put = |n: usize| {
        curl(&[&ALICE[..], &["--upload-file", &file]].concat(), &scene.server.url(&format!("/{n}"))).0
    };
    let refused = (0..100).position(|n| put(n) == 507).expect("it is full at last");
    assert!(refused > 20, "after {refused} MB");
    let room = rustix::fs::statvfs(&served).unwrap();
    let (left, kept) = (room.f_bfree * room.f_frsize, (room.f_bfree - room.f_bavail) * room.f_frsize);
    assert!(kept > 10 << 20, "it keeps {kept} bytes");
    assert!(left >= kept && left < kept + (4 << 20), "{left} bytes are left, and {kept} kept");
    assert!(scene.served("0") == patterned(1_000_000));
    std::fs::remove_file(served.join("1")).unwrap();
    wait_for("room again", || (put(1) == 201).then_some(()));
    drop(scene);
}

#[test]
fn a_name_that_is_added_beside_a_file_does_not_say_what_the_file_holds() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    // Of each: whether the volume may be written to, its key, whether the sibling has another owner, and whether it is sent.
    let cases = [
        ("read", false, "", false, true),
        ("write", true, "", false, false),
        ("asked", true, "precompressed = true\n", false, true),
        ("others", true, "precompressed = true\n", true, false),
        ("other-read", false, "", true, false),
    ];
    let mut config = "[http]\nlisten = '127.0.0.1:0'\n[admin]\nlisten = '127.0.0.1:0'\n".to_owned();
    for (name, is_writable, key, is_others, _) in cases {
        std::fs::create_dir(at(name)).unwrap();
        std::fs::write(at(name).join("page.html"), "the page").unwrap();
        std::fs::write(at(name).join("page.html.gz"), "another").unwrap();
        let writable = if is_writable { "writable = 'anyone'\n" } else { "" };
        config +=
            &format!("[[volume]]\nname = '{name}'\npath = '{name}'\nmount = '/{name}'\n{writable}{key}");
        if is_others && rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(at(name).join("page.html.gz"), Some(4242), None).unwrap();
        }
    }
    std::fs::write(at("linerate.toml"), config).unwrap();
    let server = Launch::config(&at("linerate.toml")).start();
    for (name, _, _, is_others, is_sent) in cases {
        if is_others && !rustix::process::geteuid().is_root() {
            continue;
        }
        let url = format!("http://{}/{name}/page.html", server.http[0]);
        let told = curl(&["--header", "Accept-Encoding: gzip"], &url);
        assert_eq!(told, (200, if is_sent { "another" } else { "the page" }.to_owned()), "{name}");
    }
}

#[test]
fn clients_that_send_their_bodies_by_drops_are_let_go_and_others_upload() {
    let dir = tempfile::tempdir().unwrap();
    let served = dir.path().join("served");
    std::fs::create_dir(&served).unwrap();
    let config = dir.path().join("linerate.toml");
    let text = "[server]\nlanes = 1\n[http.limits]\nstall_seconds = 2\nuploads_per_lane = 60\nuploads_per_address = 50\n\
        [http]\nlisten = [\"127.0.0.1:0\"]\n[https]\nlisten = []\n[admin]\nlisten = \"127.0.0.1:0\"\n\
        [[volume]]\nname = \"files\"\npath = \"served\"\nwritable = \"anyone\"\n";
    std::fs::write(&config, text).unwrap();
    let server = Launch::config(&config).start();
    let head = "PUT /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n";
    let mut slow: Vec<_> = (0..70)
        .map(|_| {
            let mut stream = TcpStream::connect(server.http[0]).unwrap();
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    server.wait_counted("linerate_http_refused", "reason=\"uploads_too_many\"", 20);
    assert_eq!(server.counted("linerate_http_uploads_open", ""), 50);
    let answers = slow.iter_mut().map(|stream| {
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        String::from_utf8(answer[9..].to_vec()).unwrap()
    });
    let answers: Vec<_> = answers.collect();
    assert_eq!(answers.iter().filter(|status| *status == "503").count(), 20);
    assert_eq!(answers.iter().filter(|status| *status == "408").count(), 50);
    drop(slow);
    wait_for("the staged files to go", || names(&served).is_empty().then_some(()));
    let file = dir.path().join("f");
    std::fs::write(&file, "fine\n").unwrap();
    assert_eq!(curl(&["--upload-file", file.to_str().unwrap()], &server.url("/f")).0, 201);
}
