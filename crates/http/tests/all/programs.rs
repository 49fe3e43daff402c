//! Programs that fetch in parts, keep parts, or read listings by patterns, against the service on a real lane.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use crate::interop::{curl, start};

/// nginx in front, which asks for files in parts, keeps each for an hour, and compares their tags byte by byte.
fn nginx(upstream: &str) -> Proxy {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().display();
    let address = free_address();
    let temps: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {at}/{kind};"))
        .concat();
    let config = format!(
        "daemon off; master_process off; pid {at}/pid; error_log {at}/error.log; events {{}}\n\
             http {{ access_log off; {temps} proxy_cache_path {at}/cache keys_zone=parts:1m;\n\
             server {{ listen {address}; location / {{\n\
             slice 64k; proxy_cache parts; proxy_cache_key $uri$slice_range; proxy_cache_valid 200 206 1h;\n\
             proxy_set_header Range $slice_range; proxy_http_version 1.1; proxy_pass http://{upstream}; }} }} }}\n"
    );
    let file = dir.path().join("nginx.conf");
    std::fs::write(&file, config).unwrap();
    let mut command = Command::new("nginx");
    command.args(["-e", "stderr", "-p"]).arg(dir.path()).arg("-c").arg(&file);
    Proxy::started(command, address, dir).expect("nginx is installed: apt-get install nginx-light")
}

/// Varnish in front, which asks again by tag for what it has kept for a second.
fn varnish(upstream: &str) -> Option<Proxy> {
    let dir = tempfile::tempdir().unwrap();
    let address = free_address();
    let mut command = Command::new("varnishd");
    // Nobody's process has to read what is ours.
    command.args(["-F", "-j", "none", "-s", "malloc,64m", "-b", upstream, "-a", &address]);
    command.args(["-p", "default_ttl=1", "-p", "default_grace=0", "-p", "default_keep=60", "-n"]);
    command.arg(dir.path().join("varnish"));
    Proxy::started(command, address, dir)
}

/// HAProxy in front, which keeps what has a validator for a second.
fn haproxy(upstream: &str) -> Option<Proxy> {
    let dir = tempfile::tempdir().unwrap();
    let address = free_address();
    let config = format!(
        "defaults\n mode http\n timeout connect 5s\n timeout client 30s\n timeout server 30s\n\
         cache c\n total-max-size 64\n max-object-size 1000000\n max-age 1\n\
         frontend f\n bind {address}\n http-request cache-use c\n http-response cache-store c\n default_backend b\n\
         backend b\n server s {upstream}\n"
    );
    let file = dir.path().join("haproxy.cfg");
    std::fs::write(&file, config).unwrap();
    let mut command = Command::new("haproxy");
    command.arg("-db").arg("-f").arg(&file);
    Proxy::started(command, address, dir)
}

fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// A proxy that keeps what it was given.
struct Proxy {
    process: Child,
    address: String,
    _dir: tempfile::TempDir,
}

impl Proxy {
    /// `None` where the program is not installed.
    fn started(mut command: Command, address: String, dir: tempfile::TempDir) -> Option<Self> {
        let process = match command.stdout(Stdio::null()).spawn() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            process => process.unwrap(),
        };
        let proxy = Self { process, address, _dir: dir };
        for _ in 0..400 {
            if TcpStream::connect(&proxy.address).is_ok() {
                return Some(proxy);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{command:?} does not answer");
    }

    /// The body, and whether all of it came.
    fn get(&self, path: &str, arguments: &[&str]) -> (bool, Vec<u8>) {
        let output = run(Command::new("curl")
            .args(["-s", "--max-time", "30", "--fail"])
            .args(arguments)
            .arg(format!("http://{}{path}", self.address)));
        (output.status.success(), output.stdout)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Varnish has a child, which ends with it where it is asked to.
        let _ = Command::new("kill").arg(self.process.id().to_string()).status();
        let _ = self.process.wait();
    }
}

#[test]
fn cache_that_asks_in_parts_gets_fresh_and_empty_files_whole_and_never_a_mixture() {
    let served = tempfile::tempdir().unwrap();
    let (http, _) = start(served.path());
    let nginx = nginx(&http);
    let content = |seed: u8| -> Vec<u8> { (0..300_000u32).map(|n| (n / 7) as u8 ^ seed).collect() };
    let this_second = || {
        let since = SystemTime::UNIX_EPOCH.elapsed().unwrap();
        SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs())
    };
    let stamps: [(&str, Option<SystemTime>); 6] = [
        ("natural", None),
        ("this-second", Some(this_second())),
        ("of-an-archive", Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000))),
        ("zero", Some(SystemTime::UNIX_EPOCH)),
        ("one", Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1))),
        ("future", Some(SystemTime::UNIX_EPOCH + Duration::from_secs(4_102_444_800))),
    ];
    let write = |name: &str, stamp: Option<SystemTime>, content: &[u8]| {
        let path = served.path().join(name);
        std::fs::write(&path, content).unwrap();
        if let Some(stamp) = stamp {
            std::fs::File::open(&path).unwrap().set_modified(stamp).unwrap();
        }
    };
    for (name, stamp) in stamps {
        write(name, stamp, &content(1));
        // The first part is kept while the file is young, the others are asked for later.
        let (is_whole, part) = nginx.get(&format!("/{name}"), &["-r", "0-99"]);
        assert!(is_whole && part == content(1)[..100], "{name}");
    }
    let is_served = |name: &str| {
        let (is_whole, body) = nginx.get(&format!("/{name}"), &[]);
        is_whole && body == content(1)
    };
    for pause in [0, 500, 2500] {
        std::thread::sleep(Duration::from_millis(pause));
        for (name, _) in stamps {
            assert!(is_served(name), "{name} after {pause} ms");
        }
    }

    std::fs::write(served.path().join("empty"), "").unwrap();
    for _ in 0..2 {
        assert_eq!(nginx.get("/empty", &[]), (true, Vec::new()));
    }

    for (name, stamp) in stamps {
        let name = format!("{name}-replaced");
        write(&name, stamp, &content(2));
        assert!(nginx.get(&format!("/{name}"), &["-r", "0-99"]).0);
        std::thread::sleep(Duration::from_millis(30));
        write(&name, stamp, &content(3));
        let (is_whole, body) = nginx.get(&format!("/{name}"), &[]);
        assert!(!is_whole || body == content(2) || body == content(3), "{name}: parts of two versions");
    }
}

/// Time for which the caches of [`varnish`] and [`haproxy`] believe what they have, and more.
const KEPT: Duration = Duration::from_millis(1300);

#[test]
fn caches_that_ask_again_by_tag_give_what_is_there() {
    let served = tempfile::tempdir().unwrap();
    let (http, _) = start(served.path());
    let (Some(varnish), Some(haproxy)) = (varnish(&http), haproxy(&http)) else {
        return testkit::skip(
            "the Debian packages haproxy and varnish are not installed; `cargo xtask test` installs them",
        );
    };
    let content = |seed: u8| -> Vec<u8> { (0..300_000u32).map(|n| (n / 7) as u8 ^ seed).collect() };
    let at = |secs, nanos| Some(SystemTime::UNIX_EPOCH + Duration::new(secs, nanos));
    let stamps = [
        ("natural", None),
        ("of-an-archive", at(1_000_000_000, 0)),
        ("of-a-mirror", at(1_000_000_000, 7)),
        ("zero", at(0, 0)),
        ("future", at(4_102_444_800, 0)),
    ];
    let write = |seed: u8| {
        for (name, stamp) in stamps {
            let path = served.path().join(name);
            std::fs::write(&path, content(seed)).unwrap();
            if let Some(stamp) = stamp {
                std::fs::File::open(&path).unwrap().set_modified(stamp).unwrap();
            }
        }
    };
    let proxies = [("varnish", &varnish), ("haproxy", &haproxy)];
    let gets = |seed: u8, when: &str| {
        for (proxy, through) in proxies {
            for (name, _) in stamps {
                let (is_whole, body) = through.get(&format!("/{name}"), &[]);
                assert!(is_whole && body == content(seed), "{proxy}, {name}: {when}");
            }
        }
    };
    std::fs::write(served.path().join("empty"), "").unwrap();
    write(1);
    gets(1, "fresh");
    std::thread::sleep(KEPT);
    gets(1, "asked for again");
    let tag = |through: &Proxy, name: &str| {
        let (_, head) = through.get(&format!("/{name}"), &["--head"]);
        let head = String::from_utf8(head).unwrap().to_lowercase();
        head.lines().find_map(|line| line.strip_prefix("etag: ")).expect("a tag").trim().to_owned()
    };
    let tags = proxies.map(|(_, through)| stamps.map(|(name, _)| tag(through, name)));
    write(2);
    std::thread::sleep(KEPT);
    gets(2, "replaced");
    std::thread::sleep(KEPT);
    for ((proxy, through), tags) in proxies.into_iter().zip(tags) {
        for ((name, _), old) in stamps.into_iter().zip(tags) {
            let part = ["-r", "5-9", "-H", &format!("If-Range: {old}")];
            let (_, body) = through.get(&format!("/{name}"), &part);
            assert!(body == content(2), "{proxy}, {name}: a part of another content");
        }
        assert_eq!(through.get("/empty", &[]), (true, Vec::new()), "{proxy}");
    }
}

#[test]
fn zsync_fetches_what_has_changed_and_ends() {
    let served = tempfile::tempdir().unwrap();
    let new: Vec<u8> = (0..700_000u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let mut old = new.clone();
    for spot in [100_000, 1_300_000, 2_500_000] {
        old[spot..spot + 3000].fill(b'x');
    }
    std::fs::write(served.path().join("file"), &new).unwrap();
    let mine = tempfile::tempdir().unwrap();
    std::fs::write(mine.path().join("old"), &old).unwrap();
    let zsync = |program: &str| {
        let mut command = Command::new("timeout");
        command.args(["30", program]);
        command
    };
    let (control, file) = (served.path().join("file.zsync"), served.path().join("file"));
    let made = run(zsync("zsyncmake").args(["-u", "file", "-o"]).arg(&control).arg(&file));
    assert!(made.status.success(), "zsync is installed: apt-get install zsync: {made:?}");
    let (http, _) = start(served.path());
    let got = run(zsync("zsync")
        .current_dir(mine.path())
        .args(["-q", "-i", "old", "-o", "new"])
        .arg(format!("http://{http}/file.zsync")));
    assert!(got.status.success(), "{got:?}");
    assert!(std::fs::read(mine.path().join("new")).unwrap() == new);
}

#[test]
fn zchunk_fetches_what_has_changed_whatever_the_number_of_its_ranges() {
    let served = tempfile::tempdir().unwrap();
    let mine = tempfile::tempdir().unwrap();
    let zchunk = |program: &str| {
        let mut command = Command::new("timeout");
        command.args(["60", program]);
        command
    };
    let mut state = 1u64;
    let new: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        b'a' + (state >> 33) as u8 % 26
    })
    .take(12_000_000)
    .collect();
    let mut old = new.clone();
    old.chunks_mut(50_000).for_each(|spot| spot[..20].fill(b'!'));
    for (directory, name, content) in [(&served, "new", &new), (&mine, "old", &old)] {
        std::fs::write(directory.path().join(name), content).unwrap();
        let made = run(zchunk("zck").current_dir(directory.path()).arg(name));
        assert!(made.status.success(), "zchunk is installed: apt-get install zchunk: {made:?}");
    }
    let (http, _) = start(served.path());
    let got = run(zchunk("zckdl")
        .current_dir(mine.path())
        .args(["--fail-no-ranges", "-s", "old.zck"])
        .arg(format!("http://{http}/new.zck")));
    let said = String::from_utf8_lossy(&got.stdout).into_owned();
    assert!(got.status.success(), "{got:?}");
    let missing =
        said.split("Missing chunks: ").nth(1).and_then(|text| text.split_whitespace().next()?.parse().ok());
    assert!(missing.is_some_and(|count: u32| count > 127), "{said}");
    let (fetched, whole) = (mine.path().join("new.zck"), served.path().join("new.zck"));
    assert!(std::fs::read(fetched).unwrap() == std::fs::read(whole).unwrap());
}

#[test]
fn curl_gets_more_ranges_than_any_client_asks_for_at_once() {
    let served = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..1_000_000u32).map(|n| n as u8).collect();
    std::fs::write(served.path().join("f"), &content).unwrap();
    let (http, _) = start(served.path());
    for count in [2, 127, 128, 200] {
        let ranges: Vec<_> = (0..count).map(|n| format!("{}-{}", n * 3000, n * 3000 + 9)).collect();
        let body = curl("--http1.1", &["-r", &ranges.join(",")], &format!("http://{http}/f"));
        let parts = body.windows(14).filter(|text| text == b"Content-Range:").count();
        assert_eq!(parts, count, "{count}");
        assert!(body.starts_with(b"\r\n--linerate"));
    }
}

#[test]
fn programs_that_mirror_listings_fetch_each_directory_once_and_all_files() {
    let served = tempfile::tempdir().unwrap();
    let names = ["plain.txt", "with space.txt", "größe", "a&b", "x/of: colon", "x/y/deep", "z/100%"];
    for name in names {
        let path = served.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, name).unwrap();
    }
    let (http, _) = start(served.path());
    let expected = |root: &Path| {
        names.iter().all(|name| std::fs::read(root.join(name)).is_ok_and(|bytes| bytes == name.as_bytes()))
    };

    let by_wget = tempfile::tempdir().unwrap();
    let wget = run(Command::new("wget")
        .args(["-m", "-nH", "-nv", "-e", "robots=off", "--restrict-file-names=nocontrol", "-P"])
        .arg(by_wget.path())
        .arg(format!("http://{http}/")));
    let log = String::from_utf8_lossy(&wget.stderr).into_owned();
    assert!(expected(by_wget.path()), "wget is installed: apt-get install wget: {log}");
    assert_eq!(log.matches("/index.html\" [").count(), 4, "{log}");
    assert!(!log.contains('?'), "{log}");

    let by_lftp = tempfile::tempdir().unwrap();
    let script = format!("set net:max-retries 1; open http://{http}/; mirror / {}", by_lftp.path().display());
    let lftp = run(Command::new("timeout").args(["60", "lftp", "-c", &script]));
    assert!(expected(by_lftp.path()), "lftp is installed: apt-get install lftp: {lftp:?}");
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}
