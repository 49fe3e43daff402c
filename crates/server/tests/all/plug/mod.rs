//! Tests of services that plug in: a second one, known to the server by the interface alone, beside HTTP and
//! without it.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Signal, getpid, kill_process};
use server::config::Services;
use service::Transport::{Rx, Tcp};

use crate::plug::echo::Echo;
use crate::plug::perf::Perf;
use crate::plug::running::{PATIENCE, Running, connect, get, hear, read_config, say, send};

mod echo;
mod perf;
mod running;

fn both() -> Arc<Services> {
    Arc::new([Arc::new(http::Http::default()), Arc::new(Echo)])
}

fn only_echo() -> Arc<Services> {
    Arc::new([Arc::new(Echo)])
}

const ECHO: &str = "[echo]\nlisten = '127.0.0.1:0'\ndatagrams = '127.0.0.1:0'\n";
/// Configuration with times that no machine is too slow for.
const SERVER: &str = "[server]\nlanes = 2\ndrain_seconds = 300\n[admin]\nlisten = '127.0.0.1:0'\n";
const HTTP: &str =
    "[http]\nlisten = '127.0.0.1:0'\n[https]\nlisten = 'off'\n[http.limits]\nheader_seconds = 300\n";

fn volume(dir: &Path) -> String {
    format!("[[volume]]\nname = 'files'\npath = '{}'\n", dir.display())
}

fn directory(content: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.txt"), content).unwrap();
    dir
}

#[test]
fn the_servers_own_files_are_served_to_nobody_and_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    for name in ["a.txt", "accounts.toml", "access.log", "audit.log", "keys/private.pem"] {
        std::fs::create_dir_all(path(name).parent().unwrap()).unwrap();
        std::fs::write(path(name), if name == "a.txt" { "text" } else { "" }).unwrap();
    }
    std::fs::write(path("accounts.toml"), "version = 1\n").unwrap();
    std::fs::set_permissions(path("accounts.toml"), PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::hard_link(path("accounts.toml"), path("other.toml")).unwrap();
    std::os::unix::fs::symlink("accounts.toml", path("link.toml")).unwrap();
    let at = dir.path().display();
    let config = |log: &str| {
        format!(
            "[server]\nlanes = 2\ndrain_seconds = 300\nstate_dir = '{at}/state'\n[admin]\nlisten = '127.0.0.1:0'\n{HTTP}\
             [identity]\naccounts = '{at}/accounts.toml'\n[log]\naccess = '{at}/access.log'\n{log}{}",
            volume(dir.path())
        )
    };
    let server = Running::start(both(), &config(""));
    let web = server.at("http", Tcp);
    // Others may be of the machine.
    let [warning] = &server.warnings.iter().filter(|told| told.starts_with("volume")).collect::<Vec<_>>()[..]
    else {
        panic!("{:?}", server.warnings)
    };
    for told in ["volume files: ", "/state", "/accounts.toml", "/access.log"] {
        assert!(warning.contains(told), "{told}: {warning}");
    }
    assert!(get(web, "/a.txt").ends_with("text"));
    // What is no file of this configuration is served.
    assert!(get(web, "/audit.log").starts_with("HTTP/1.1 200"));
    let own = [
        "accounts.toml",
        "other.toml",
        "link.toml",
        "access.log",
        "state/",
        "state/index.redb",
        "state/made",
    ];
    std::fs::write(path("state/made"), "later").unwrap();
    for name in own {
        let answer = get(web, &format!("/{name}"));
        assert!(answer.starts_with("HTTP/1.1 404"), "{name}: {answer}");
    }
    let listing = get(web, "/");
    assert!(listing.contains("a.txt"), "{listing}");
    for name in own {
        assert!(!listing.contains(name), "{name}: {listing}");
    }
    // A file that is replaced is known by its name, and what a reload brings is known from then on.
    std::fs::write(path("new.toml"), "version = 1\n").unwrap();
    std::fs::set_permissions(path("new.toml"), PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::rename(path("new.toml"), path("accounts.toml")).unwrap();
    assert!(server.reload(&config(&format!("audit = '{at}/audit.log'\n"))));
    for name in ["accounts.toml", "audit.log"] {
        testkit::wait_for(name, PATIENCE, || {
            get(web, &format!("/{name}")).starts_with("HTTP/1.1 404").then_some(())
        });
    }
    server.stop();
    server.end();
}

#[test]
fn what_replaces_the_servers_own_files_is_served_to_nobody_without_a_reload() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let accounts = |name: &str| {
        std::fs::write(path(name), "version = 1\n").unwrap();
        std::fs::set_permissions(path(name), PermissionsExt::from_mode(0o600)).unwrap();
    };
    for name in ["archive", "old", "logs"] {
        std::fs::create_dir(path(name)).unwrap();
    }
    std::fs::write(path("a.txt"), "text").unwrap();
    accounts("archive/accounts1.toml");
    let switch = |to: &str| {
        std::os::unix::fs::symlink(to, path("next")).unwrap();
        std::fs::rename(path("next"), path("accounts.toml")).unwrap();
    };
    switch("archive/accounts1.toml");
    let at = dir.path().display();
    let config = format!(
        "[server]\nlanes = 2\ndrain_seconds = 300\nstate_dir = '{at}/state'\n[admin]\nlisten = '127.0.0.1:0'\n{HTTP}\
         [identity]\naccounts = '{at}/accounts.toml'\n[log]\naccess = '{at}/logs/access.log'\n{}",
        volume(dir.path())
    );
    let server = Running::start(both(), &config);
    let web = server.at("http", Tcp);
    let is_served = |name: &str| get(web, &format!("/{name}")).starts_with("HTTP/1.1 200");
    assert!(is_served("a.txt") && !is_served("logs/access.log"));

    // A log that was not there at the start, as a rotation leaves it and those of rotations before.
    std::fs::write(path("logs/access.log.2"), "of before the start").unwrap();
    std::fs::write(path("logs/access.log.3.gz"), "of before the start").unwrap();
    std::fs::hard_link(path("logs/access.log"), path("old/alias")).unwrap();
    std::fs::rename(path("logs/access.log"), path("old/moved")).unwrap();
    for name in ["old/moved", "old/alias", "logs/access.log.2", "logs/access.log.3.gz"] {
        assert!(!is_served(name), "{name}");
    }
    kill_process(getpid(), Signal::USR1).unwrap();
    testkit::wait_for("the new log", PATIENCE, || path("logs/access.log").exists().then_some(()));
    testkit::wait_for("a line", PATIENCE, || {
        get(web, "/a.txt");
        (std::fs::metadata(path("logs/access.log")).unwrap().len() > 0).then_some(())
    });
    std::fs::hard_link(path("logs/access.log"), path("old/later")).unwrap();
    std::fs::rename(path("logs/access.log"), path("logs/rotated")).unwrap();
    for name in ["old/moved", "old/alias", "old/later", "logs/rotated"] {
        assert!(!is_served(name), "{name}");
    }

    // A version that a link is to be switched to is hidden from the start, and one before stays so.
    accounts("archive/accounts2.toml");
    assert!(!is_served("archive/accounts2.toml"));
    switch("archive/accounts2.toml");
    // Another name of what a rename has put there.
    accounts("new.toml");
    std::fs::hard_link(path("new.toml"), path("copy.toml")).unwrap();
    std::fs::rename(path("new.toml"), path("accounts.toml")).unwrap();
    assert!(!is_served("accounts.toml"));
    testkit::wait_for("the further name", PATIENCE, || (!is_served("copy.toml")).then_some(()));
    for name in ["archive/accounts1.toml", "archive/accounts2.toml", "accounts.toml.new", "accounts.toml~"] {
        assert!(!is_served(name), "{name}");
    }
    // Renamed away again it is what it was.
    accounts("third.toml");
    std::fs::rename(path("third.toml"), path("accounts.toml")).unwrap();
    assert!(!is_served("copy.toml") && is_served("a.txt"));
    server.stop();
    server.end();
}

#[test]
fn the_admin_address_answers_by_its_own_names_and_in_the_format_that_is_asked_for() {
    let server = Running::start(only_echo(), &format!("{SERVER}names = ['files.example']\n{ECHO}"));
    let admin = server.addresses.admin.unwrap();
    let ask = |target: &str, fields: &str| {
        let mut stream = connect(admin);
        write!(stream, "GET {target} HTTP/1.1\r\n{fields}Connection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    for target in ["/", "/metrics", "/health", "/stats.json", "/none"] {
        let refused = ask(target, "Host: evil.example:8090\r\n");
        assert!(refused.starts_with("HTTP/1.1 421 ") && refused.contains("admin.names"), "{refused}");
    }
    for host in ["localhost", "files.example:8090", &admin.to_string(), "[::1]:8090"] {
        assert!(ask("/health", &format!("Host: {host}\r\n")).ends_with("ok\n"), "{host}");
    }
    assert_eq!(server.sum("linerate_admin_hosts_refused_total", ""), 5);
    let metrics = |accept: &str| ask("/metrics", &format!("Host: localhost\r\n{accept}")).to_lowercase();
    for (accept, kind, is_open) in [
        ("", "application/openmetrics-text", true),
        (
            "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n",
            "application/openmetrics-text",
            true,
        ),
        ("Accept: */*\r\n", "application/openmetrics-text", true),
        ("Accept: text/html,*/*;q=0.8\r\n", "text/plain; version=0.0.4", false),
    ] {
        let answer = metrics(accept);
        assert!(answer.contains(&format!("content-type: {kind}")), "{accept}: {answer}");
        assert_eq!(answer.contains("# eof"), is_open);
        assert!(answer.contains("# type linerate_admin_hosts_refused_total counter") != is_open);
    }
    server.stop();
    server.end();
}

#[test]
fn no_thread_of_a_server_has_privileges_that_it_does_not_need() {
    let threads = || -> Vec<_> {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        tasks.map(|task| task.unwrap().file_name().into_string().unwrap()).collect()
    };
    let before = threads();
    let dir = directory("text");
    let server = Running::start(both(), &format!("{SERVER}{HTTP}{}", volume(dir.path())));
    assert!(get(server.at("http", Tcp), "/a.txt").ends_with("text"));
    let kept = lane::privileges::KEPT.iter().fold(0, |all, kept| all | kept.capability.bits());
    let new = threads().into_iter().filter(|thread| !before.contains(thread));
    let statuses: Vec<_> = new
        .filter_map(|thread| std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).ok())
        .collect();
    let sets_of = |status: &str| -> Vec<u64> {
        let of = |line: &str| {
            let (name, set) = line.split_once(":\t")?;
            // What programs that it starts could have as well.
            let counts = ["CapPrm", "CapEff", "CapInh", "CapBnd", "CapAmb"].contains(&name);
            counts.then(|| u64::from_str_radix(set, 16).unwrap())
        };
        status.lines().filter_map(of).collect()
    };
    assert!(statuses.len() >= 3, "lanes, and who starts them");
    for status in statuses {
        let sets = sets_of(&status);
        assert!(sets.len() == 5 && sets.iter().all(|set| set & !kept == 0), "{sets:x?}");
        assert!(status.lines().any(|line| line == "NoNewPrivs:\t1"));
    }
    server.stop();
    server.end();
}

#[test]
fn a_service_is_served_without_http_and_without_volumes() {
    let server = Running::start(only_echo(), &format!("{SERVER}{ECHO}word = 'lo'\n"));
    let (lines, datagrams) = (server.at("echo", Tcp), server.at("echo", Rx));
    assert_eq!(server.greetings[0].urls, [format!("echo://{lines}"), format!("echo://{datagrams}")]);
    assert_eq!(server.warnings, ["echo: whatever is said is said twice [echo-twice]"]);
    for _ in 0..8 {
        assert_eq!(say(lines, "hello"), "lo hello");
        assert_eq!(send(datagrams, "world"), "lo world");
    }
    for name in ["linerate_echo_lines_total", "linerate_echo_datagrams_total"] {
        testkit::wait_for(name, PATIENCE, || (server.sum(name, "") == 8).then_some(()));
    }
    assert!(!get(server.addresses.admin.unwrap(), "/metrics").contains("linerate_http"));
    server.stop();
    server.end();
}

#[test]
fn both_are_served_counted_and_logged_side_by_side() {
    let dir = directory("text");
    let log = dir.path().join("access.log");
    let text = format!(
        "{SERVER}{HTTP}{ECHO}word = 'lo'\n[log]\naccess = '{}'\n{}echoed = true\n",
        log.display(),
        volume(dir.path())
    );
    // The key of a volume belongs to one service, a table to another.
    let refused = read_config(&format!("{text}mislaid = 1\n"), &both()).unwrap_err();
    assert!(
        refused.contains("`mislaid`") && refused.contains("`mount`") && refused.contains("`echoed`"),
        "{refused}"
    );
    let refused = read_config(&text.replace("word", "words"), &both()).unwrap_err();
    assert!(refused.contains("unknown key `words`"), "{refused}");
    let refused = read_config(&text.replace("'lo'", "'l o'"), &both()).unwrap_err();
    assert!(refused.starts_with("echo.word: one word, please (") && refused.contains(", line "), "{refused}");

    let server = Running::start(both(), &text);
    assert!(get(server.at("http", Tcp), "/a.txt").ends_with("text"));
    assert_eq!(say(server.at("echo", Tcp), "hello"), "lo hello");
    // Counted once it has left, which the client may see first.
    for (name, label) in [("linerate_http_requests_total", "GET"), ("linerate_echo_lines_total", "")] {
        testkit::wait_for(name, PATIENCE, || (server.sum(name, label) == 1).then_some(()));
    }
    server.stop();
    server.end();
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("\"GET /a.txt HTTP/1.1\" 200 4") && log.contains("echoed 6 bytes\n"), "{log}");
}

#[test]
fn where_one_service_cannot_prepare_on_one_lane_both_stay_as_they_were_everywhere() {
    let [old, new] = ["old", "new"].map(directory);
    let text =
        |dir: &tempfile::TempDir, echo: &str| format!("{SERVER}{HTTP}{ECHO}{echo}\n{}", volume(dir.path()));
    let server = Running::start(both(), &text(&old, "word = 'old'"));
    let (web, lines, datagrams) = (server.at("http", Tcp), server.at("echo", Tcp), server.at("echo", Rx));
    let all_say = |word: &str| {
        // Connections are dealt out to both lanes.
        for _ in 0..16 {
            assert!(get(web, "/a.txt").ends_with(word));
            assert_eq!(say(lines, "x"), format!("{word} x"));
            assert_eq!(send(datagrams, "y"), format!("{word} y"));
        }
    };
    let mut open = connect(lines);
    all_say("old");
    for refused in ["word = 'new'\nbroken_lane = 1", "word = 'new'\nbroken_lane = 0", "word = 'unspeakable'"]
    {
        assert!(!server.reload(&text(&new, refused)), "{refused}");
        all_say("old");
    }
    let health = get(server.addresses.admin.unwrap(), "/health");
    assert!(health.contains("the word cannot be said"), "{health}");

    assert!(server.reload(&text(&new, "word = 'new'")));
    all_say("new");
    assert_eq!(server.sum("linerate_echo_volumes_opened_total", ""), 2, "another directory, on both lanes");
    // What nothing happened to is the object that it was, whatever service serves it.
    assert!(server.reload(&text(&new, "word = 'newer'")));
    assert_eq!(server.sum("linerate_echo_volumes_kept_total", ""), 2);
    assert_eq!(server.sum("linerate_echo_volumes_opened_total", ""), 2);
    // A connection from before is served on, with what is new.
    open.write_all(b"z\n").unwrap();
    assert_eq!(hear(&mut open), "newer z");
    server.stop();
    server.end();
}

#[test]
fn a_service_that_is_no_longer_wanted_ends_and_the_other_goes_on() {
    let dir = directory("text");
    let server = Running::start(both(), &format!("{SERVER}{HTTP}{ECHO}word = 'lo'\n{}", volume(dir.path())));
    let (web, lines) = (server.at("http", Tcp), server.at("echo", Tcp));
    let mut idle = connect(lines);
    idle.write_all(b"one\ntw").unwrap();
    assert_eq!(hear(&mut idle), "lo one");
    assert!(server.reload(&format!("{SERVER}{HTTP}{}", volume(dir.path()))));
    // Its line is still answered; then the connection leaves.
    idle.write_all(b"o\n").unwrap();
    assert_eq!(hear(&mut idle), "lo two");
    assert_eq!(idle.read(&mut [0]).unwrap(), 0);
    assert!(std::net::TcpStream::connect(lines).is_err());
    assert!(get(web, "/a.txt").ends_with("text"));
    server.stop();
    server.end();
}

#[test]
fn drain_waits_for_what_is_under_way_in_both() {
    let dir = directory("text");
    let server = Running::start(both(), &format!("{SERVER}{HTTP}{ECHO}word = 'lo'\n{}", volume(dir.path())));
    let (mut web, mut echo) = (connect(server.at("http", Tcp)), connect(server.at("echo", Tcp)));
    let mut idle = connect(server.at("echo", Tcp));
    idle.write_all(b"x\n").unwrap();
    assert_eq!(hear(&mut idle), "lo x");
    // An answer each, and the beginning of what comes next, which arrives with it.
    web.write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\nGET /a.txt HTTP/1.1\r\nHo").unwrap();
    echo.write_all(b"one\ntw").unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"text") {
        let mut byte = [0];
        web.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    assert_eq!(hear(&mut echo), "lo one");

    server.stop();
    assert_eq!(idle.read(&mut [0]).unwrap(), 0, "who is idle leaves at once");
    assert!(server.goes_on());
    echo.write_all(b"o\n").unwrap();
    assert_eq!(hear(&mut echo), "lo two");
    assert_eq!(echo.read(&mut [0]).unwrap(), 0);
    assert!(server.goes_on());
    web.write_all(b"st: a\r\n\r\n").unwrap();
    let mut last = String::new();
    web.read_to_string(&mut last).unwrap();
    assert!(last.contains("Connection: close") && last.ends_with("text"), "{last}");
    server.end();
}

#[test]
fn an_rx_service_has_its_part_of_the_servers_rate_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("large"), vec![7; RATED_BYTES]).unwrap();
    let perf = Perf::default();
    let counters = Arc::clone(&perf.0);
    let services: Arc<Services> = Arc::new([Arc::new(http::Http::default()), Arc::new(perf)]);
    // The client leaves without a word, so the last call is there until its deadline.
    let server = SERVER.replace("lanes = 2", "lanes = 1").replace("drain_seconds = 300", "drain_seconds = 1");
    let server = server.replace("[server]", &format!("[server]\negress_rate = {RATE}"));
    let text = format!("{server}{HTTP}[perf]\nlisten = '127.0.0.1:0'\n{}", volume(dir.path()));
    let server = Running::start(services, &text);
    let (web, perf) = (server.at("http", Tcp), server.at("perf", Rx));
    let began = Instant::now();
    let by_rx = std::thread::spawn(move || crate::plug::perf::receive(perf, RATED_BYTES as u32));
    let by_http = get(web, "/large").len();
    let by_rx = by_rx.join().unwrap();
    assert!(by_rx >= RATED_BYTES && by_http >= RATED_BYTES, "{by_rx}, {by_http}");
    // A bucket may have been full when they began.
    let least = Duration::from_secs_f64(2.0 * RATED_BYTES as f64 / RATE as f64) / 2;
    assert!(began.elapsed() > least, "{:?} for {} bytes", began.elapsed(), by_rx + by_http);
    let waited = counters.lock().unwrap().as_ref().unwrap().share_waits.get();
    assert!(waited > 0, "calls waited for their turn");
    server.stop();
    server.end();
}

/// Rate of all that the server sends, in bytes a second.
const RATE: usize = 2_000_000;
const RATED_BYTES: usize = 2_000_000;
