//! Requirements of a start, which `--check` finds before.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::Signal;

use crate::support::raw;
use crate::support::site::{ANY_PORT, Site};
use crate::support::{Launch, linerate, output};

/// Returns whether the check is passed, and what it says.
fn check(site: &Site, how: &str) -> (bool, String) {
    let (status, said) = site.launch().arg(how).fail();
    (status.success(), said)
}

fn configuration(http: SocketAddr, admin: SocketAddr, more: &str) -> String {
    format!(
        "{more}\n[http]\nlisten = [\"{http}\"]\n[https]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"{admin}\"\n"
    )
}

#[test]
fn check_finds_addresses_in_use_unless_it_is_for_the_server_that_uses_them() {
    let site = Site::new(&[("a.txt", b"hello\n")], "");
    let (http, admin) = (testkit::free_address(), testkit::free_address());
    site.configure(&configuration(http, admin, ""));
    let (good, said) = check(&site, "--check");
    assert!(good, "{said}");
    drop(TcpListener::bind(http).expect("a check leaves no listener"));
    for held in [http, admin] {
        let holder = TcpListener::bind(held).unwrap();
        let (good, said) = check(&site, "--check");
        assert!(!good && said.contains(&held.to_string()) && said.contains("in use"), "{said}");
        assert!(check(&site, "--check=reload").0);
        drop(holder);
    }
    let server = site.launch().start_unheard(http, admin);
    assert!(!check(&site, "--check").0);
    let (good, said) = check(&site, "--check=reload");
    assert!(good, "{said}");
    assert_eq!(raw::get(http, "/a.txt").body, b"hello\n");
    assert_eq!(server.stderr().matches("listener").count(), 0, "{}", server.stderr());
}

#[test]
fn a_state_directory_that_others_can_change_is_refused_by_start_check_and_doctor() {
    let site = Site::new(&[("a.txt", b"hello\n")], "");
    site.configure(&format!("[server]\nstate_dir = \"state\"\n{ANY_PORT}"));
    let state = site.beside("state");
    std::fs::create_dir(&state).unwrap();
    let doctor = || {
        let done = linerate(["doctor", "--json", "--config"]).arg(site.config()).output().unwrap();
        let findings: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
        let found =
            findings.as_array().unwrap().iter().find(|found| found["name"] == "state directory's owner");
        found.map(|found| (found["verdict"].clone(), found["advice"].as_str().unwrap().to_owned()))
    };
    let is_root = rustix::process::geteuid().is_root();
    let cases = [(None, 0o700, None), (None, 0o755, None), (None, 0o777, Some("(mode 0777)"))]
        .into_iter()
        .chain([(None, 0o1777, Some("(mode 1777)")), (None, 0o720, Some("(mode 0720)"))])
        .chain(is_root.then_some((Some(65534), 0o700, Some("belongs to the user 65534"))));
    for (owner, mode, words) in cases {
        std::os::unix::fs::chown(&state, owner, None).unwrap();
        std::fs::set_permissions(&state, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        for how in ["--check", "--check=reload"] {
            let (good, said) = check(&site, how);
            assert_eq!(good, words.is_none(), "{how} {mode:o}: {said}");
            assert!(
                words.is_none_or(|words| said.contains("server.state_dir") && said.contains(words)),
                "{said}"
            );
        }
        let Some(words) = words else {
            assert_eq!(doctor(), None, "{mode:o}");
            continue;
        };
        let (status, said) = site.launch().fail();
        assert!(!status.success() && said.contains(words), "a start says the same: {said}");
        assert_eq!(std::fs::read_dir(&state).unwrap().count(), 0, "nothing is made there");
        let (verdict, advice) = doctor().expect("doctor tells it");
        assert!(verdict == "BAD" && advice.contains(words), "{verdict} {advice}");
    }
}

#[test]
fn check_finds_what_a_start_cannot_open_and_leaves_nothing_behind() {
    let site = Site::new(&[("a.txt", b"hello\n")], "");
    let file = site.path("a.txt");
    let cases = [
        ("[log]\naccess = \"none/access.log\"\n".to_owned(), "none/access.log"),
        (format!("[server]\nstate_dir = \"{}/state\"\n", file.display()), "a.txt/state"),
        ("[[https.certificate]]\ncert = \"no.crt\"\nkey = \"no.key\"\n".to_owned(), "no.crt"),
        ("[server]\ndrained_nodes = [77]\n".to_owned(), "77"),
        ("[server]\nlanes = 100000\n".to_owned(), "100000"),
    ];
    for (wrong, word) in cases {
        let (server, rest) = if wrong.starts_with("[server]") { (&*wrong, "") } else { ("", &*wrong) };
        site.configure(&format!("{server}{}{rest}", ANY_PORT));
        let (good, said) = check(&site, "--check");
        assert!(!good && said.contains(word), "{wrong}: {said}");
        let (status, started) = site.launch().fail();
        assert!(!status.success() && started.contains(word), "a start says the same: {started}");
    }
    site.configure(&format!("{ANY_PORT}[log]\naccess = \"access.log\"\n"));
    assert!(check(&site, "--check").0);
    assert!(!site.beside("access.log").exists());
}

#[test]
fn without_a_home_the_state_is_kept_where_the_configuration_says_or_nowhere() {
    let site = Site::new(&[("a.txt", b"hello\n")], "");
    let run = |more: &str| {
        site.configure(&format!("{more}\n{ANY_PORT}"));
        let mut command: Command = linerate(["serve", "--check=reload", "--config"]);
        command.arg(site.config()).env_clear().current_dir("/");
        if rustix::process::geteuid().is_root() {
            // Root has /var/lib; another user has nothing.
            for open in [site.config().parent().unwrap().to_owned(), site.root()] {
                std::fs::set_permissions(open, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
            }
            command.uid(65534).gid(65534);
        }
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let (good, said) = run("");
    assert!(!good && said.contains("server.state_dir") && said.contains("HOME"), "{said}");
    let (good, said) = run("[server]\nstate_dir = \"state\"");
    assert!(good && !site.beside("state").exists(), "a check leaves nothing behind: {said}");
}

#[test]
fn one_word_listens_at_both_families_and_off_at_nothing() {
    let site = Site::new(&[("a.txt", b"hello\n")], "");
    let port = testkit::free_address().port();
    site.configure(&format!(
        "[http]\nlisten = \"*:{port}\"\n[https]\nlisten = \"off\"\n[admin]\nlisten = \"off\"\n"
    ));
    let http = SocketAddr::from(([127, 0, 0, 1], port));
    let server = site.launch().start_unheard(http, http);
    assert_eq!(raw::get(http, "/a.txt").body, b"hello\n");
    let six: SocketAddr = format!("[::1]:{port}").parse().unwrap();
    if std::path::Path::new("/proc/net/if_inet6").exists() && TcpListener::bind("[::1]:0").is_ok() {
        assert_eq!(raw::get(six, "/a.txt").body, b"hello\n");
    }
    let said = crate::support::wait_for("the greeting", || {
        Some(server.stdout()).filter(|text| text.contains("Ctrl-C"))
    });
    assert!(!said.contains("linerate stat") && !said.contains("https://"), "{said}");
    assert!(TcpStream::connect("127.0.0.1:8090").is_err() || !said.contains("8090"));
}

#[test]
fn a_start_that_is_refused_is_no_server_that_was_killed() {
    let site = Site::new(&[("a.txt", b"hello\n")], "");
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let configure = |http: SocketAddr, more: &str| {
        let text = configuration(http, any, "[server]\nlanes = 1\nstate_dir = 'state'\n");
        let volume = "[[volume]]\nname = 'files'\npath = 'root'\nwritable = 'anyone'\n";
        std::fs::write(site.config(), format!("{text}{more}{volume}")).unwrap();
    };
    let holder = TcpListener::bind(any).unwrap();
    let held = holder.local_addr().unwrap();
    let refused = || {
        for (http, more, words) in
            [(held, "", "in use"), (any, "[identity]\naccounts = 'none.toml'\n", "none.toml")]
        {
            configure(http, more);
            let (status, told) = site.launch().fail();
            assert!(!status.success() && told.contains(words), "{told}");
        }
        configure(any, "");
    };
    // Of a state directory that is new, and of one that a server has left in order.
    for _ in 0..2 {
        refused();
        let mut server = site.start();
        server.signal(Signal::TERM);
        assert!(server.wait().success());
        assert!(!server.stderr().contains("[index-after-"), "{}", server.stderr());
    }
    // What is to be told is told by the start that comes to serve.
    let mut server = site.start();
    server.signal(Signal::KILL);
    server.wait();
    refused();
    site.start().says("[index-after-");
}

#[test]
fn a_server_whose_rings_fail_ends_with_the_cause_and_is_not_deaf() {
    let site = Site::new(&[("a.txt", b"hello\n")], "");
    // io_uring_setup, io_uring_enter, io_uring_register: of each kind of filter that people have.
    let rings = [&["425=1"][..], &["426=1"], &["425=38"], &["426=38"], &["425=1", "426=1", "427=1"]];
    for calls in rings.into_iter().chain([&["427=1"][..], &["427=38"]]) {
        let began = std::time::Instant::now();
        let (status, told) = site.launch().without(calls).fail();
        assert!(!status.success() && status.code().is_some(), "{calls:?}: {status}: {told}");
        let is_told =
            ["not permitted", "not implemented", "io_uring"].iter().any(|cause| told.contains(cause));
        assert!(is_told && !told.contains("panicked"), "{calls:?}: {told}");
        assert!(began.elapsed().as_secs() < 10, "{calls:?}: {:?}", began.elapsed());
    }
}

#[test]
fn a_start_without_a_call_that_it_needs_is_refused_by_its_name_before_anything_is_made() {
    let site = Site::new(&[("a.txt", b"hello\n")], "[server]\nstate_dir = 'state'\n");
    for (calls, name) in [
        (&["425=1"][..], "io_uring_setup"),
        (&["426=38"], "io_uring_enter"),
        (&["427=1"], "io_uring_register"),
        (&["427=38"], "io_uring_register"),
        (&["437=1"], "openat2"),
        (&["437=38"], "openat2"),
    ] {
        for check in [false, true] {
            let launch = site.launch().without(calls);
            let (status, told) = if check { launch.arg("--check").fail() } else { launch.fail() };
            assert_eq!(status.code(), Some(1), "{calls:?}: {told}");
            assert!(
                told.contains(name) && told.contains("allow ") && told.contains("seccomp"),
                "{calls:?}: {told}"
            );
            assert!(!site.beside("state").exists(), "{calls:?}");
        }
    }
}

#[test]
fn what_the_kernel_lacks_is_said_once_and_the_rest_is_served() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.txt"), "hello\n").unwrap();
    for (what, calls, word) in [
        ("IPv6", &["41:0=10=97"][..], Some("[addresses-narrowed]")),
        // No datagrams are sent here.
        ("UDP segmentation", &["55:2=103=92"], None),
        ("fanotify", &["300=38"], None),
        ("inotify", &["294=38"], Some("[changes-unwatched]")),
        ("further inotify instances", &["294=24"], Some("raise fs.inotify.max_user_instances")),
        ("handles", &["303=95", "304=1"], None),
        ("a filter that lets handles be asked for", &["303=1", "304=1"], None),
        ("the calls of handles", &["303=38", "304=38"], None),
        ("memory policies", &["237=1", "238=1"], None),
        ("affinity that is read", &["204=38"], None),
        ("affinity that is set", &["203=1"], Some("[lanes-unpinned]")),
    ] {
        let launch = Launch::dir(dir.path()).arg("--http").arg("*:0").without(calls);
        let mut server = launch.start();
        for address in server.http.iter().filter(|address| address.is_ipv4()) {
            let address = SocketAddr::from(([127, 0, 0, 1], address.port()));
            assert_eq!(raw::get(address, "/a.txt").body, b"hello\n", "{what}");
        }
        server.signal(Signal::TERM);
        assert!(server.wait().success(), "{what}");
        let told = server.stderr();
        word.iter().for_each(|word| assert_eq!(told.matches(word).count(), 1, "{what}: {told}"));
        let lines: Vec<_> =
            told.lines().map(|line| line.split_once(' ').map_or(line, |(_, text)| text)).collect();
        let once: std::collections::HashSet<_> = lines.iter().collect();
        assert_eq!(once.len(), lines.len(), "{what}: something is said twice: {told}");
    }
}

#[test]
fn a_kernel_without_udp_segmentation_is_told_where_afs_is_served() {
    let Some(_namespace) = testkit::netns::Namespace::new_or_skip() else { return };
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.txt"), "hello\n").unwrap();
    for (calls, is_told) in [(&["55:2=103=92"][..], true), (&["55:2=103=1"], true), (&[], false)] {
        let launch = Launch::every_protocol(dir.path()).arg("--smb").arg("off").without(calls);
        let mut server = launch.start();
        assert!(server.stdout().contains("afs://127.0.0.1:7000/"), "{}", server.stdout());
        let listed = output(&mut linerate(["ls", "afs://127.0.0.1/"]));
        assert!(!listed.is_empty());
        server.signal(Signal::TERM);
        assert!(server.wait().success());
        let told = server.stderr();
        assert_eq!(told.matches("[packets-unsegmented]").count(), usize::from(is_told), "{calls:?}: {told}");
    }
}

#[test]
fn what_stands_in_place_of_a_word_is_told_with_the_words_that_may_and_keys_by_plain_words() {
    let site = Site::new(&[("a.txt", b"hello\n")], "");
    std::fs::create_dir(site.beside("b")).unwrap();
    for (text, words) in [
        (
            "[smb]\nsigning = 1\n",
            &[
                "line 2,",
                "this is the number 1, where one of the words \"allowed\" or \"required\" is wanted",
            ][..],
        ),
        ("[smb]\nencryption = false\n", &["line 2,", "this is false,", "\"off\", \"allowed\", \"required\""]),
        ("[log]\naudit_format = 3\n", &["line 2,", "this is the number 3,", "\"json\" or \"openafs\""]),
        (
            "[server]\nnodes_without_nic = 3\n",
            &["line 2,", "this is the number 3,", "\"idle\" or \"assist\""],
        ),
        (
            "[[volume]]\nname = 'b'\npath = 'b'\ncontent_security_policy = 5\n",
            &["line 4,", "this is the number 5,", "\"auto\", \"sandbox\", \"off\""],
        ),
        (
            "[[volume]]\nname = 'b'\npath = 'b'\nauth = false\n",
            &["line 4,", "this is false,", "\"off\", \"when_required\", \"always\""],
        ),
        ("[[volume]]\nname = 'b'\n", &["line 1,", "the key `path` is missing here"]),
        ("[http]\nlisten = 'off'\nlisten = 'off'\n", &["line 3,", "this key is given twice in one table"]),
        (
            "[smb]\nsining = 'allowed'\n",
            &["line 2,", "unknown key `sining`: the keys here are ", "`signing`"],
        ),
    ] {
        site.configure(text);
        let (good, said) = check(&site, "--check=reload");
        let is_told = words.iter().all(|words| said.contains(words)) && said.contains("linerate.toml");
        assert!(!good && is_told, "{text}: {said}");
    }
}

/// Keys of which 0 says something, as docs/reference/configuration.md has it.
const ZEROS: [&str; 10] = [
    "drain_seconds",
    "smb_write_time_delay_ms",
    "dscp",
    "protection_port",
    "location_port",
    "volume_port",
    "body_bytes",
    "send_rate_min",
    "upload_rate_min",
    "requests_per_connection",
];

/// The keys of the documentation, each with the header of its table.
fn documented_keys() -> Vec<(String, String)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/configuration.md");
    let (mut header, mut keys) = (String::new(), Vec::new());
    for line in std::fs::read_to_string(path).unwrap().lines() {
        if let Some((table, _)) = line.strip_prefix("## `").and_then(|rest| rest.split_once('`')) {
            header = table.to_owned();
        }
        let cell =
            line.strip_prefix("| ").and_then(|rest| rest.split_once(" | ")).map_or("", |(cell, _)| cell);
        let named = cell.split('`').skip(1).step_by(2).filter(|key| !key.starts_with('['));
        // One that is given with its table stands outside of all.
        let header = |key: &str| if key.contains('.') { String::new() } else { header.clone() };
        keys.extend(named.map(|key| (header(key), key.to_owned())));
    }
    keys
}

#[test]
fn what_is_no_value_of_a_key_is_told_in_words_of_configurations_with_file_and_line() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("data")).unwrap();
    let file = dir.path().join("linerate.toml");
    let keys = documented_keys();
    assert!(keys.len() > 80, "{keys:?}");
    let mut refused = 0;
    for (header, key) in keys {
        for value in [
            "-1",
            "0",
            "1.5",
            "true",
            "'no such'",
            "''",
            "[[1]]",
            "{ a = 1 }",
            "1979-05-27",
            "1000000",
            "[1000000]",
            "9223372036854775807",
            "99999999999999999999",
        ] {
            let line = format!("{key} = {value}\n");
            let name = |own: &str, line: &str| if key == own { String::new() } else { line.to_owned() };
            let volume =
                format!("[[volume]]\n{}{}", name("name", "name = 'a'\n"), name("path", "path = 'data'\n"));
            std::fs::write(
                &file,
                match header.as_str() {
                    "[[volume]]" => format!("{volume}{line}[afs]\n[smb]\n"),
                    _ => format!("{header}\n{line}[[volume]]\nname = 'a'\npath = 'data'\n"),
                },
            )
            .unwrap();
            let mut check = linerate(["serve", "--check=reload", "--config"]);
            let done = check.arg(&file).env("XDG_STATE_HOME", dir.path()).output().unwrap();
            let told = String::from_utf8_lossy(&done.stderr);
            if done.status.success() {
                assert!(value != "0" || ZEROS.contains(&key.as_str()), "{header} {line}");
                continue;
            }
            refused += 1;
            assert!(told.contains("linerate.toml") && told.contains("line "), "{header} {line}{told}");
            // But for what the line itself says.
            let words = told.lines().filter(|of| !of.contains(line.trim_end()));
            let words = words.flat_map(|of| of.split(|char: char| !char.is_ascii_alphanumeric()));
            let known = |word: &&str| {
                [
                    "usize", "u8", "u16", "u32", "u64", "i64", "i128", "map", "sequence", "struct",
                    "integer", "boolean",
                ]
                .contains(word)
            };
            assert_eq!(words.filter(known).collect::<Vec<_>>(), [""; 0], "{header} {line}{told}");
            let of_the_reader =
                ["wanted string or table", "unknown variant", "unknown field", "missing field"];
            assert!(!of_the_reader.iter().any(|words| told.contains(words)), "{header} {line}{told}");
            assert!(told.contains(&key), "{header} {line}{told}");
        }
    }
    assert!(refused > 300, "{refused}");
}
