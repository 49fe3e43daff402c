//! `linerate get`, `put`, `ls` and `bench afs` against a stock cell and against our own server, which serves a directory over AFS
//! without being asked to.

use std::cell::Cell;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use afs_wire::rxafs::opcode::GET_TIME;
use rustix::process::Signal;
use rx::ack::{self, ACK_PAYLOAD_MAX, AckFields, AckReason, Trailer};
use rx::header::{HEADER_LEN, Header, PacketType, flags};
use serde_json::Value;
use smb_wire::create::access::attributes;
use smb_wire::dos::Dos;
use testkit::netns::Namespace;
use testkit::stock_cell::StockCell;

use crate::manners::get_replaces_nothing_but_files;
use crate::support::{Launch, Reloaded, Server, linerate, output, patterned, raw, wait_for};
use crate::volume::Mounted;

fn failure(command: &mut Command) -> (i32, String) {
    let Output { status, stderr, .. } = command.output().unwrap();
    (status.code().unwrap(), String::from_utf8_lossy(&stderr).into_owned())
}

fn json(command: &mut Command) -> Value {
    serde_json::from_slice(&output(command)).expect("one JSON object")
}

fn lines(command: &mut Command) -> Vec<Value> {
    let text = String::from_utf8(output(command)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn files_and_trees_of_a_stock_cell_are_put_listed_and_got() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    let Some(_cell) = StockCell::start_or_skip() else { return };
    files_and_trees_are_put_listed_and_got(&StockCell::ADDRESS.to_string());
}

/// A tree `pub` in this directory and the configuration of a cell that any user may write to, with these keys
/// of `[server]` beside.
fn writable_cell(dir: &Path, server: &str) -> (PathBuf, PathBuf) {
    let (tree, config) = (dir.join("pub"), dir.join("linerate.toml"));
    std::fs::create_dir(&tree).unwrap();
    let text = format!(
        "[server]\nlanes = 2\n{server}state_dir = 'state'\n[http]\nlisten = '127.0.0.1:0'\n[https]\nlisten = 'off'\n\
         [admin]\nlisten = '127.0.0.1:0'\n[afs]\nlisten = '127.0.0.1:7000'\n[[volume]]\nname = 'pub'\npath = {tree:?}\n\
         writable = 'anyone'\n"
    );
    std::fs::write(&config, text).unwrap();
    (tree, config)
}

#[test]
fn files_and_trees_of_our_own_server_are_put_listed_and_got() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (tree, config) = writable_cell(dir.path(), "");
    let server = Launch::config(&config).start();
    files_and_trees_are_put_listed_and_got("127.0.0.1");
    // What came by AFS is there by HTTP and on disk, byte for byte.
    let body = std::fs::read(tree.join("file")).unwrap();
    assert!(body == patterned(9_000_001));
    let first = raw::get(server.http[0], "/file");
    assert!(first.body == body);
    // What is written over one is there by the other at once, as something else.
    let (new, there) = (dir.path().join("new"), "afs://127.0.0.1/pub/file");
    std::fs::write(&new, "by AFS").unwrap();
    output(linerate(["put", "--overwrite"]).arg(&new).arg(there));
    let second = raw::get(server.http[0], "/file");
    assert_eq!(second.body, b"by AFS");
    assert_ne!(second.expect("etag"), first.expect("etag"));
    std::fs::write(&new, "by HTTP").unwrap();
    let mut curl = crate::support::tool("curl", "curl");
    output(curl.args(["-sf", "-T"]).arg(&new).arg(server.url("/file")));
    let got = dir.path().join("got");
    output(linerate(["get", there, "-o"]).arg(&got));
    assert_eq!(std::fs::read(got).unwrap(), b"by HTTP");
    assert_ne!(raw::get(server.http[0], "/file").expect("etag"), second.expect("etag"));
}

#[test]
fn what_is_kept_with_a_file_stays_where_another_is_put_over_it() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    // A directory whose file system keeps attributes, which that of temporary files may not.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let dir = &dir.path().canonicalize().unwrap();
    let (tree, config) = writable_cell(dir, "");
    let (file, new) = (tree.join("file"), dir.join("new"));
    std::fs::write(&file, "old").unwrap();
    let hidden = Dos { attributes: Some(attributes::HIDDEN), created: Some(7), changed: None };
    let kept = [("user.DOSATTRIB", hidden.to_bytes()), ("user.note", b"by a program".to_vec())];
    for (name, value) in &kept {
        rustix::fs::setxattr(&file, *name, value, rustix::fs::XattrFlags::empty()).unwrap();
    }
    let _server = Launch::config(&config).start();
    std::fs::write(&new, "by AFS").unwrap();
    let put = || output(linerate(["put", "--overwrite"]).arg(&new).arg("afs://127.0.0.1/pub/file"));
    put();
    let value = |name: &str| {
        let mut value = vec![0; 999];
        let len = rustix::fs::getxattr(&file, name, &mut value[..]).unwrap();
        value[..len].to_vec()
    };
    assert_eq!(std::fs::read(&file).unwrap(), b"by AFS");
    let dos = Dos::parse(&value("user.DOSATTRIB"));
    assert_eq!(dos, Dos { attributes: Some(attributes::HIDDEN | attributes::ARCHIVE), ..hidden });
    assert_eq!(value("user.note"), b"by a program");
    // What nothing is kept with is as any new file is.
    std::fs::remove_file(&file).unwrap();
    put();
    assert!(rustix::fs::getxattr(&file, "user.note", &mut [0; 99][..]).is_err());
}

#[test]
fn a_volume_that_a_reload_renames_is_served_on_with_the_numbers_that_it_has() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    for writable in ["", "writable = 'anyone'\n"] {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        for tree in [&one, &two] {
            std::fs::create_dir(tree).unwrap();
            std::fs::write(tree.join("file"), tree.file_name().unwrap().as_encoded_bytes()).unwrap();
        }
        let config = dir.path().join("linerate.toml");
        let admin = testkit::free_address();
        let configure = |volumes: &[(&str, &Path)]| {
            let mut text = format!(
                "[server]\nlanes = 2\nstate_dir = 'state'\n[http]\nlisten = '127.0.0.1:0'\n[https]\nlisten = 'off'\n\
                 [admin]\nlisten = '{admin}'\n[afs]\nlisten = '127.0.0.1:7000'\n"
            );
            for (name, path) in volumes {
                text.push_str(&format!(
                    "[[volume]]\nname = '{name}'\nmount = '/{name}'\npath = {path:?}\n{writable}"
                ));
            }
            std::fs::write(&config, text).unwrap();
        };
        let number = |name: &str| {
            let listed = lines(linerate(["ls", "--json"]).arg(format!("afs://127.0.0.1/{name}")));
            let file = listed.into_iter().find(|line| line["name"] == "file").expect("it is listed");
            ["volume", "vnode", "uniquifier"].map(|key| file[key].as_u64().expect("a number"))
        };
        configure(&[("a", &one), ("b", &two)]);
        let server = Launch::config(&config).start();
        let [first, second] = ["a", "b"].map(number);
        // One is renamed; they take each other's names; another tree takes a name that is given up; as it was.
        let third = dir.path().join("third");
        std::fs::create_dir(&third).unwrap();
        std::fs::write(third.join("file"), "third").unwrap();
        let (one, two) = (one.as_path(), two.as_path());
        for (names, extra) in
            [(["c", "b"], false), (["b", "c"], false), (["d", "c"], true), (["a", "b"], false)]
        {
            let mut volumes = vec![(names[0], one), (names[1], two)];
            if extra {
                volumes.push(("b", &third));
            }
            configure(&volumes);
            server.reload("reloaded");
            assert_eq!(names.map(number), [first, second], "{names:?}");
            for (name, tree) in &volumes {
                let expected = tree.file_name().unwrap().as_encoded_bytes();
                assert_eq!(raw::get(server.http[0], &format!("/{name}/file")).body, expected, "{name}");
                let (got, there) = (dir.path().join("got"), format!("afs://127.0.0.1/{name}/file"));
                output(linerate(["get", "--overwrite", "-o"]).arg(&got).arg(there));
                assert_eq!(std::fs::read(&got).unwrap(), expected, "{name}");
                if !writable.is_empty() {
                    let new = dir.path().join("new");
                    std::fs::write(&new, name).unwrap();
                    let there = format!("afs://127.0.0.1/{name}/other");
                    output(linerate(["put", "--overwrite"]).arg(&new).arg(&there));
                    assert_eq!(raw::get(server.http[0], &format!("/{name}/other")).body, name.as_bytes());
                }
            }
            assert_eq!(raw::get(server.admin, "/health").body, b"ok\n", "{names:?}");
        }
        let told = server.stderr();
        assert!(!told.contains("ERROR") && !told.contains("AFS does not serve"), "{told}");
        // Directories that change places keep their names: neither is taken for the other.
        let exchange = || {
            let aside = dir.path().join("aside");
            for (from, to) in [(one, aside.as_path()), (two, one), (aside.as_path(), two)] {
                std::fs::rename(from, to).unwrap();
            }
        };
        exchange();
        server.reload("reloaded");
        for (name, tree) in [("a", "two"), ("b", "one")] {
            assert_eq!(raw::get(server.http[0], &format!("/{name}/file")).body, tree.as_bytes(), "{name}");
            let listed = linerate(["ls"]).arg(format!("afs://127.0.0.1/{name}")).output().unwrap();
            assert!(!listed.status.success(), "{name}");
        }
        exchange();
        server.reload("reloaded");
        assert_eq!(["a", "b"].map(number), [first, second]);
        crate::support::wait_for("health", || {
            (raw::get(server.admin, "/health").body == b"ok\n").then_some(())
        });
    }
}

#[test]
fn what_is_put_may_be_a_link_or_a_stream_and_an_input_that_is_closed_replaces_nothing() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (tree, config) = writable_cell(dir.path(), "");
    let _server = Launch::config(&config).start();
    let (local, link, fifo) = (dir.path().join("local"), dir.path().join("link"), dir.path().join("fifo"));
    std::fs::write(&local, "by a link").unwrap();
    std::os::unix::fs::symlink("local", &link).unwrap();
    output(linerate(["put"]).arg(&link).arg("afs://127.0.0.1/pub"));
    assert_eq!(std::fs::read(tree.join("link")).unwrap(), b"by a link");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    let writing = {
        let fifo = fifo.clone();
        std::thread::spawn(move || std::fs::write(fifo, "by a FIFO").unwrap())
    };
    output(linerate(["put"]).arg(&fifo).arg("afs://127.0.0.1/pub"));
    writing.join().unwrap();
    assert_eq!(std::fs::read(tree.join("fifo")).unwrap(), b"by a FIFO");
    let program = linerate(["put", "--overwrite"]).get_program().to_owned();
    let mut closed = Command::new("sh");
    closed.args(["-c", "exec \"$0\" put --overwrite - afs://127.0.0.1/pub/link <&-"]).arg(program);
    let (code, told) = failure(&mut closed);
    assert!(code == 1 && told.contains("standard input is closed"), "{code} {told}");
    assert_eq!(std::fs::read(tree.join("link")).unwrap(), b"by a link");
    let mut empty = linerate(["put", "--overwrite", "-", "afs://127.0.0.1/pub/link"]);
    output(empty.stdin(std::fs::File::open("/dev/null").unwrap()));
    assert_eq!(std::fs::read(tree.join("link")).unwrap(), b"");
}

/// `afsio`, which is about to do this (`fidread`) with a file of the volume `pub`; `None` where there is none.
fn stock_client(home: &Path, does: &str, name: &str) -> Option<Command> {
    if Command::new("afsio").arg("help").output().is_err() {
        testkit::skip("the Debian package openafs-client is not installed; `cargo xtask test` installs it");
        return None;
    }
    let listed = lines(linerate(["ls", "--json", "afs://127.0.0.1/pub"]).stdin(Stdio::null()));
    let found = listed.iter().find(|line| line["name"] == name).expect("it is listed");
    let number = |key: &str| found[key].as_u64().expect("a number");
    let fid = format!("{}.{}.{}", number("volume"), number("vnode"), number("uniquifier"));
    let etc = home.join("etc");
    std::fs::create_dir_all(&etc).unwrap();
    std::fs::write(etc.join("ThisCell"), "linerate.internal\n").unwrap();
    std::fs::write(etc.join("CellServDB"), ">linerate.internal\n127.0.0.1 #server\n").unwrap();
    let mut command = Command::new("unshare");
    // It takes the place of the shell, which has that of `unshare`: what is killed is the client.
    let script = "mount --bind etc /etc/openafs && exec afsio \"$@\"";
    command.args(["-m", "sh", "-c", script, "sh", does, &fid]).current_dir(home);
    Some(command)
}

#[test]
fn clients_that_are_killed_hold_up_no_change_and_no_stop() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (tree, config) = writable_cell(dir.path(), "drain_seconds = 30\n");
    std::fs::File::create(tree.join("big")).unwrap().set_len(1 << 40).unwrap();
    let new = dir.path().join("new");
    std::fs::write(&new, "by HTTP").unwrap();
    let stops = |mut server: Server| {
        let began = Instant::now();
        server.signal(Signal::TERM);
        assert!(server.wait().success());
        let took = began.elapsed();
        assert!(took < Duration::from_secs(2), "a stop took {took:?}");
        took
    };

    let server = Launch::config(&config).start();
    // By Rx alone, as any client of AFS does.
    let mut get = linerate(["get", "--oob-threshold", "0", "afs://127.0.0.1/pub/big"]);
    // Where it leaves what it has fetched.
    let get = get.current_dir(dir.path());
    let mut get = get.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    server.wait_counted("linerate_rx_bytes_sent", "", 20 << 20);
    assert!(get.try_wait().unwrap().is_none(), "it fetches");
    get.kill().unwrap();
    get.wait().unwrap();
    let began = Instant::now();
    let mut curl = crate::support::tool("curl", "curl");
    output(curl.args(["-sf", "-T"]).arg(&new).arg(server.url("/big")));
    let put = began.elapsed();
    assert!(put < Duration::from_secs(1), "a PUT took {put:?}");
    assert_eq!(std::fs::read(tree.join("big")).unwrap(), b"by HTTP");
    println!("a PUT took {put:?}, and a stop after it {:?}", stops(server));

    // A stock client: one that is killed before it has acknowledged its first replies, and one that is in the middle of a file.
    for bytes in [1 << 10, 40 << 10] {
        let server = Launch::config(&config).start();
        std::fs::File::create(tree.join("big")).unwrap().set_len(4 << 30).unwrap();
        let Some(mut afsio) = stock_client(dir.path(), "fidread", "big") else { break };
        let before = server.counted("linerate_rx_bytes_sent", "");
        let mut afsio = afsio.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        server.wait_counted("linerate_rx_bytes_sent", "", before + bytes);
        assert!(afsio.try_wait().unwrap().is_none(), "it reads, until nobody takes what it has read");
        afsio.kill().unwrap();
        afsio.wait().unwrap();
        let began = Instant::now();
        let mut curl = crate::support::tool("curl", "curl");
        output(curl.args(["-sf", "-T"]).arg(&new).arg(server.url("/big")));
        let put = began.elapsed();
        assert!(put < Duration::from_secs(1), "a PUT took {put:?}");
        println!("a PUT took {put:?}, and a stop after a stock client {:?}", stops(server));
    }

    // One that ended by itself a moment ago may not have acknowledged the last reply.
    let server = Launch::config(&config).start();
    output(&mut linerate(["ls", "afs://127.0.0.1/pub"]));
    println!("a stop after a listing took {:?}", stops(server));
}

#[test]
fn a_tree_of_layers_is_read_only_to_afs_where_numbers_end_and_the_start_health_and_doctor_say_so() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for (name, options, lasts) in [("plain", "", false), ("lasting", ",nfs_export=on,index=on", true)] {
        let dir = home.path().join(name);
        for name in ["lower", "upper", "work"] {
            std::fs::create_dir_all(dir.join(name)).unwrap();
        }
        for file in ["file", "other"] {
            std::fs::write(dir.join("lower").join(file), "of the lower layer").unwrap();
        }
        let (tree, config) = writable_cell(&dir, "");
        let of = |name: &str| dir.join(name).display().to_string();
        let layers =
            format!("lowerdir={},upperdir={},workdir={}{options}", of("lower"), of("upper"), of("work"));
        let _mounted = Mounted::new(&tree, &["-t", "overlay", "overlay", "-o", &layers]);
        let server = Launch::config(&config).start();

        if !lasts {
            server.says("[afs-volume-layered]");
        }
        let health = String::from_utf8(raw::get(server.admin, "/health").body).unwrap();
        assert_eq!(health.contains("volume pub, AFS: nobody can write to it by AFS"), !lasts, "{health}");
        let doctor = linerate(["doctor", "--json"]).arg(&tree).output().unwrap();
        let findings: Value = serde_json::from_slice(&doctor.stdout).unwrap();
        let name = format!("{} identities", tree.display());
        let found = findings.as_array().unwrap().iter().find(|finding| finding["name"] == *name);
        assert_eq!(found.map(|found| &found["verdict"]), (!lasts).then_some(&"warn".into()), "{findings}");

        // What is written in place is there, or nothing is and the client says so.
        if let Some(mut afsio) = stock_client(&dir, "fidwrite", "file") {
            let mut afsio = afsio.arg("-force").stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            std::io::Write::write_all(&mut afsio.stdin.take().unwrap(), b"by AFS").unwrap();
            let done = afsio.wait_with_output().unwrap();
            let is_done = std::fs::read(tree.join("file")).unwrap().starts_with(b"by AFS");
            let said = String::from_utf8_lossy(&done.stderr);
            assert_eq!(is_done, lasts, "{}: {said}", done.status);
            assert!(lasts || !said.trim().is_empty(), "it says nothing");
        }
        let new = dir.join("new");
        std::fs::write(&new, "anew").unwrap();
        let put =
            linerate(["put", "--overwrite"]).arg(&new).arg("afs://127.0.0.1/pub/other").output().unwrap();
        let is_done = std::fs::read(tree.join("other")).unwrap() == b"anew";
        assert_eq!(
            (put.status.success(), is_done),
            (lasts, lasts),
            "{}",
            String::from_utf8_lossy(&put.stderr)
        );
        // By other protocols it can be written to, and read by all.
        let mut curl = crate::support::tool("curl", "curl");
        output(curl.args(["-sf", "-T"]).arg(&new).arg(server.url("/other")));
        let got = dir.join("got");
        output(linerate(["get", "afs://127.0.0.1/pub/other", "-o"]).arg(&got));
        assert_eq!(std::fs::read(got).unwrap(), b"anew");
        let told = server.stderr();
        assert_eq!(told.matches("[afs-volume-layered]").count(), usize::from(!lasts), "{told}");
    }
}

#[test]
fn versions_count_on_over_a_stop_in_order_and_over_a_kill() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    // A directory whose file system keeps attributes, which that of temporary files may not.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::create_dir_all(dir.path().join("pub/d")).unwrap();
    let config = dir.path().join("linerate.toml");
    let text = "[server]\nlanes = 2\nstate_dir = 'state'\n[http]\nlisten = '127.0.0.1:0'\n[https]\nlisten = 'off'\n\
                [admin]\nlisten = '127.0.0.1:0'\n[afs]\nlisten = '127.0.0.1:7000'\n[[volume]]\nname = 'pub'\npath = 'pub'\n\
                writable = 'anyone'\n";
    std::fs::write(&config, text).unwrap();
    let local = dir.path().join("local");
    std::fs::write(&local, "text").unwrap();
    let put = |name: &str| {
        // A server that has just begun may say that it is to be asked again.
        testkit::wait_for("a file to be put", PATIENCE, || {
            let mut put = linerate(["put", "--overwrite"]);
            put.arg(&local).arg(format!("afs://127.0.0.1/pub/d/{name}"));
            put.output().unwrap().status.success().then_some(())
        });
    };
    // Of the directory, and of the file in it that is put first.
    let versions = || {
        let of = |path: &str| {
            testkit::wait_for("a version to be told", PATIENCE, || {
                let listed = linerate(["ls", "--json", path]).output().unwrap();
                let line: Value =
                    serde_json::from_slice(listed.stdout.split(|&byte| byte == b'\n').next()?).ok()?;
                line["data_version"].as_u64()
            })
        };
        (of("afs://127.0.0.1/pub"), of("afs://127.0.0.1/pub/d"))
    };
    let start = || Launch::config(&config).start();
    let mut server = start();
    // How the pages of a directory lie that was changed the lanes know that keep them. Any other reads it anew, and clients fetch it
    // once more by a version that no change brings. Of two lanes the one that is asked to put a file may do so, and then the one that is
    // asked for the version.
    const READING: u64 = 4096;
    let after_a_start = |version: u64| version.next_multiple_of(READING);
    let counts_on = |from: u64, to: u64| match (to / READING).checked_sub(from / READING) {
        Some(0) => (from + 1..from + 8).contains(&to),
        readings => readings.is_some_and(|readings| readings <= 2) && to % READING < 8,
    };
    // It gets its name after its last store.
    put("a");
    let (before, file) = versions();
    put("b");
    let (changed, _) = versions();
    assert!(counts_on(before, changed), "{before} {changed}");

    server.signal(Signal::TERM);
    assert!(server.wait().success());
    server = start();
    let kept = after_a_start(changed);
    assert_eq!(versions(), (kept, file), "a stop in order");
    put("c");
    let (changed, same) = versions();
    assert!(
        counts_on(kept, changed) && same == file,
        "and a change after it: {kept} {changed}, {file} {same}"
    );

    // What was changed in the last moments before a kill has another version.
    std::thread::sleep(Duration::from_millis(200));
    server.signal(Signal::KILL);
    server.wait();
    let server = start();
    let kept = after_a_start(changed);
    assert_eq!(versions(), (kept, file), "a kill");
    put("d");
    let (changed, same) = versions();
    assert!(
        counts_on(kept, changed) && same == file,
        "and a change after it: {kept} {changed}, {file} {same}"
    );
    drop(server);
}

#[test]
fn a_directory_is_served_over_afs_unless_something_is_in_its_way() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    let (dir, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(dir.path().join("page"), "text").unwrap();
    let launch = || Launch::every_protocol(dir.path());
    let first = launch().state(state.path()).start();
    let greeting = first.stdout();
    let volume = greeting.split_once(" as volume ").expect("it says what AFS serves").1;
    let (volume, rest) = volume.split_once(' ').unwrap();
    assert!(rest.starts_with("of the AFS cell linerate.internal"), "{greeting}");
    for told in ["afs://127.0.0.1:7000/", "modprobe kafs && ", "mount -t afs", "CellServDB", "vos listvldb"] {
        assert!(greeting.contains(told), "{told}: {greeting}");
    }
    let page = format!("afs://127.0.0.1/{volume}/page");
    let got = state.path().join("got");
    output(linerate(["get", &page, "-o"]).arg(&got));
    assert_eq!(std::fs::read(got).unwrap(), b"text");

    // Another server of the same machine has the ports already, and one of the same user the index: all else goes on.
    for (launch, why) in [
        (launch(), "AFS is not served: UDP 127.0.0.1:7000 cannot be had"),
        (launch().state(state.path()).arg("--afs").arg("127.0.0.2:7000"), "AFS is not served: the index in"),
    ] {
        let other = launch.start();
        other.says(why);
        assert!(!other.stdout().contains("afs://"), "{}", other.stdout());
        assert_eq!(raw::get(other.http[0], "/page").body, b"text");
    }
    drop(first);
    let again = launch().state(state.path()).start();
    assert!(again.stdout().contains("afs://127.0.0.1:7000/"), "{}", again.stdout());
}

#[test]
fn a_link_to_what_nobody_is_served_is_listed_as_itself() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (tree, config) = writable_cell(dir.path(), "");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{text}[log]\naccess = 'pub/access.log'\n")).unwrap();
    std::fs::write(tree.join(".h"), "h").unwrap();
    std::fs::create_dir(tree.join(".d")).unwrap();
    let long = "n".repeat(300);
    let links = [
        ("to-hidden", ".h"),
        ("to-hidden-below", ".d/none"),
        ("to-log", "access.log"),
        ("to-long", &*long),
        ("to-nothing", "none"),
        ("to-outside", "/etc/hostname"),
        ("to-page", "zz"),
    ];
    for (name, target) in links.into_iter().chain([(".link", "zz")]) {
        std::os::unix::fs::symlink(target, tree.join(name)).unwrap();
    }
    std::fs::write(tree.join("zz"), "text").unwrap();
    let _server = Launch::config(&config).start();
    let wanted: Vec<_> =
        links.map(|(name, target)| (name, Some(target))).into_iter().chain([("zz", None)]).collect();
    // Again, by what the server keeps of them since the first time.
    for _ in 0..2 {
        let listed = lines(&mut linerate(["ls", "--json", "afs://127.0.0.1/pub"]));
        let told: Vec<_> =
            listed.iter().map(|line| (line["name"].as_str().unwrap(), line["target"].as_str())).collect();
        assert_eq!(told, wanted);
    }
}

#[test]
fn an_address_that_is_printed_opens_as_it_is_printed_and_a_check_tells_nothing_of_itself() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let tree = home.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    let config = |name: &str, afs: &str| {
        let path = home.path().join(name);
        let text = format!(
            "[server]\nstate_dir = 'state-{name}'\n[http]\nlisten = '127.0.0.1:0'\n[https]\nlisten = '127.0.0.1:0'\n\
             [admin]\nlisten = '127.0.0.1:0'\n[afs]\n{afs}\n[[volume]]\nname = 'tree'\npath = 'tree'\nwritable = 'anyone'\n"
        );
        std::fs::write(&path, text).unwrap();
        Launch::config(&path)
    };
    let by_flag =
        || Launch::every_protocol(&tree).arg("--smb").arg("off").arg("--afs").arg("127.0.0.1:27070");
    let elsewhere = || config("a", "listen = '127.0.0.1:28080'\nlocation_port = 7103");
    for (launch, checked) in [(by_flag(), by_flag()), (elsewhere(), elsewhere())] {
        let (status, said) = checked.state(home.path()).arg("--check").fail();
        let of_itself = ["trial", "self-signed", "linerate-check", "AFS does not serve"];
        assert!(status.success() && !of_itself.iter().any(|words| said.contains(words)), "{said}");
        let server = launch.state(home.path()).start();
        let greeting = server.stdout();
        let line = greeting.lines().find(|line| line.trim().starts_with("afs://")).expect(&greeting);
        let words = line.split_whitespace().filter(|word| *word != "with");
        let listed = output(linerate(["ls"]).args(words));
        assert!(String::from_utf8_lossy(&listed).contains("tree"), "{line}");
    }
}

#[test]
fn packets_to_clients_have_the_configured_code_point_on_connections_that_begin_from_then_on() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("linerate.toml");
    let configure = |dscp: u8| {
        let text = format!(
            "[server]\nlanes = 2\nstate_dir = 'state'\n[http]\nlisten = '127.0.0.1:0'\n[https]\nlisten = 'off'\n\
             [admin]\nlisten = '127.0.0.1:0'\n[afs]\nlisten = '127.0.0.1:7000'\ndscp = {dscp}\n[[volume]]\nname = 'pub'\n\
             path = {:?}\n",
            dir.path()
        );
        std::fs::write(&config, text).unwrap();
    };
    configure(46);
    let server = Launch::config(&config).start();
    let first = Asking::new();
    assert_eq!(first.class_of_reply(), 46 << 2);
    configure(8);
    server.reload("reloaded");
    assert_eq!(Asking::new().class_of_reply(), 8 << 2);
    assert_eq!(first.class_of_reply(), 46 << 2, "a connection keeps what it began with");
}

#[test]
fn afs_goes_and_comes_back_at_its_address_by_reloads() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("linerate.toml");
    let configure = |afs: &str| {
        let text = format!(
            "[server]\nlanes = 2\nstate_dir = 'state'\n[http]\nlisten = '127.0.0.1:0'\n[https]\nlisten = 'off'\n\
             [admin]\nlisten = '127.0.0.1:0'\n[[volume]]\nname = 'pub'\npath = {:?}\n{afs}",
            dir.path()
        );
        std::fs::write(&config, text).unwrap();
    };
    let at = |address: &str| format!("[afs]\nlisten = '{address}'\n");
    configure(&at("127.0.0.1:7000"));
    let server = Launch::config(&config).start();
    lines(&mut linerate(["ls", "--json", "afs://127.0.0.1/"]));
    configure("");
    server.reload("reloaded");
    configure(&at("127.0.0.1:7000"));
    // Calls of the client may go on for a while, and the refusal says so.
    wait_for("AFS at its address", || {
        std::thread::sleep(Duration::from_millis(200));
        (server.reload_or("was given up by a reload") == Reloaded::Yes).then_some(())
    });
    lines(&mut linerate(["ls", "--json", "afs://127.0.0.1/"]));
}

/// A client with one connection, which looks at the headers of what it is sent.
struct Asking {
    socket: UdpSocket,
    header: Cell<Header>,
}

impl Asking {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        lane::socket::traffic_class::report(&socket).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let header = Header {
            epoch: 0x5eed_0000 + u32::from(socket.local_addr().unwrap().port()),
            cid: 4,
            call: 0,
            seq: 1,
            serial: 0,
            kind: PacketType::Data,
            flags: flags::CLIENT_INITIATED | flags::LAST_PACKET,
            user_status: 0,
            security: 0,
            checksum: 0,
            service: 1,
        };
        Self { socket, header: Cell::new(header) }
    }

    /// Asks for the time; says the octet of the IP header of the packet that has it.
    fn class_of_reply(&self) -> u8 {
        self.begin();
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            self.send(self.next(), &GET_TIME.to_be_bytes());
            let mut bytes = [0; 2048];
            // Looking waits for a packet, receiving does not.
            while self.socket.peek(&mut bytes).is_ok() {
                let received = lane::socket::udp::receive(self.socket.as_fd(), &mut bytes).unwrap();
                let (reply, _) = Header::parse(&bytes[..received.length]).unwrap();
                match reply.kind {
                    _ if reply.call != self.header.get().call => {}
                    PacketType::Data => return received.class.expect("it was asked for"),
                    // A server that has just started lets no client in before it knows which ones relied on
                    // an earlier run.
                    PacketType::Abort => {
                        std::thread::sleep(Duration::from_millis(100));
                        self.begin();
                        break;
                    }
                    PacketType::Ack if reply.flags & flags::REQUEST_ACK != 0 => self.is_here(&reply),
                    _ => {}
                }
            }
        }
        panic!("the server does not answer");
    }

    /// Answers the server that asks whether a client is at this address, before it serves that.
    fn is_here(&self, ping: &Header) {
        let fields = AckFields {
            first: 1,
            previous: 0,
            serial: ping.serial,
            reason: AckReason::PingResponse,
            trailer: Trailer { max_mtu: 1444, if_mtu: 1444, window: 32, jumbo_max: 1 },
            extended: false,
        };
        let mut payload = [0; ACK_PAYLOAD_MAX];
        let length = ack::encode(&mut payload, &fields, |_| 0, || None);
        let header = Header { kind: PacketType::Ack, seq: 0, flags: flags::CLIENT_INITIATED, ..self.next() };
        self.send(header, &payload[..length]);
    }

    /// Begins another call.
    fn begin(&self) {
        let header = self.header.get();
        self.header.set(Header { call: header.call + 1, ..header });
    }

    /// The header of the call's one packet of DATA, under the next serial number.
    fn next(&self) -> Header {
        let header = self.header.get();
        let header = Header { serial: header.serial + 1, ..header };
        self.header.set(header);
        header
    }

    fn send(&self, header: Header, payload: &[u8]) {
        let mut packet = [0; HEADER_LEN];
        header.encode(&mut packet);
        self.socket.send_to(&[&packet[..], payload].concat(), "127.0.0.1:7000").unwrap();
    }
}

fn files_and_trees_are_put_listed_and_got(host: &str) {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    let there = |path: &str| format!("afs://{host}/pub{path}");
    let body = patterned(9_000_001);
    std::fs::write(at("file"), &body).unwrap();
    std::fs::create_dir_all(at("tree/below")).unwrap();
    std::fs::write(at("tree/below/x"), b"x").unwrap();

    let put = json(linerate(["put", "--verify", "--json"]).arg(at("file")).arg(there("/file")));
    assert_eq!(put["bytes"], body.len(), "{put}");
    assert!(put["sha256"].as_str().unwrap().len() == 64, "{put}");
    let put = json(linerate(["put", "--recursive", "--json"]).arg(at("tree")).arg(there("")));
    assert_eq!((&put["files"], &put["directories"]), (&1.into(), &2.into()), "{put}");

    let listed = lines(&mut linerate(["ls", "--json", &there("")]));
    let told: Vec<_> = listed.iter().map(|line| (line["name"].as_str(), line["type"].as_str())).collect();
    assert_eq!(told, [(Some("file"), Some("file")), (Some("tree"), Some("directory"))]);
    assert_eq!(listed[0]["size"], body.len());
    for cell in [format!("afs://{host}/"), format!("afs://{host}")] {
        let volumes = lines(&mut linerate(["ls", "--json", &cell]));
        let named = volumes.iter().find(|volume| volume["name"] == "pub").expect("the volume is listed");
        assert!(named["volume"].is_u64() && named["hosts"].as_array().unwrap().len() == 1, "{named}");
        let table = String::from_utf8(output(&mut linerate(["ls", &cell]))).unwrap();
        assert!(
            table
                .lines()
                .any(|line| line.contains(&named["volume"].to_string()) && line.trim_end().ends_with("pub")),
            "{table}"
        );
    }
    let table = String::from_utf8(output(&mut linerate(["ls", &there("/tree/")]))).unwrap();
    assert!(table.lines().any(|line| line.contains("drwx") && line.contains("below")), "{table}");

    output(linerate(["get", "--verify", &there("/file"), "-o"]).arg(at("back")));
    assert!(std::fs::read(at("back")).unwrap() == body);
    output(linerate(["get", "--recursive", &there("/tree"), "-o"]).arg(at("tree-back")));
    assert_eq!(std::fs::read(at("tree-back/below/x")).unwrap(), b"x");

    let (code, said) = failure(linerate(["get", &there("/file"), "-o"]).arg(at("back")));
    assert!(code == 1 && said.contains("--overwrite"), "{said}");
    let (code, said) = failure(linerate(["put"]).arg(at("file")).arg(there("/file")));
    assert!(code == 1 && said.contains("--overwrite"), "{said}");
    let (code, said) = failure(&mut linerate(["get", &there("/tree")]));
    assert!(code == 1 && said.contains("--recursive"), "{said}");
    let (code, said) = failure(&mut linerate(["ls", "--location", "127.0.0.1:9", &format!("afs://{host}/")]));
    assert!(code == 1 && said.contains("cannot list the volumes of afs://"), "{said}");
    let (code, said) = failure(&mut linerate(["ls", &format!("afs://{host}/none")]));
    assert!(code == 1 && said.contains("VL_NOENT (363524)"), "{said}");

    let here = tempfile::tempdir().unwrap();
    get_replaces_nothing_but_files(|| linerate(["get", &there("/file")]), here.path(), &body);
    interrupted_transfers_leave_nothing_half_done(&at("large"), &there(""));

    for (mode, target) in
        [("fetch", "/file"), ("stat", "/file"), ("store", "/tree"), ("names", "/tree"), ("mixed", "/tree")]
    {
        let mut bench = linerate(["bench", "afs", &there(target), "--mode", mode, "--verify"]);
        bench.args(["--clients", "3", "--seconds", "1", "--chunk", "64k", "--threads", "1", "--json"]);
        let report = json(&mut bench);
        assert_eq!(report["errors"], serde_json::json!({}), "{report}");
        assert!(report["calls"].as_u64().unwrap() > 3, "{report}");
    }
    // What a load stored is gone with it.
    let listed = lines(&mut linerate(["ls", "--json", &there("/tree")]));
    assert_eq!(listed.len(), 1, "{listed:?}");
}

/// A put takes away what it made, a get keeps what came for another attempt.
fn interrupted_transfers_leave_nothing_half_done(large: &Path, root: &str) {
    std::fs::File::create(large).unwrap().set_len(2 << 30).unwrap();
    let mut put = linerate(["put"]).arg(large).arg(root).stderr(Stdio::piped()).spawn().unwrap();
    let names = || {
        let listed = lines(&mut linerate(["ls", "--json", root]));
        listed.iter().map(|line| line["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    crate::support::wait_for("the file under way", || {
        names().iter().any(|name| transfer::is_staged(name.as_bytes())).then_some(())
    });
    let interrupt = |pid: u32| {
        output(Command::new("kill").args(["-INT", &pid.to_string()]));
    };
    interrupt(put.id());
    assert_eq!(put.wait().unwrap().code(), Some(130));
    assert!(!names().iter().any(|name| name.contains("large")), "{:?}", names());
}

/// Time for which a server may take to let a client in.
const PATIENCE: Duration = Duration::from_secs(60);
