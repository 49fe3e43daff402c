//! Files that change while real curl takes them, and listings that are not taken.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::raw;
use crate::support::site::Site;
use crate::support::{patterned, tool};

#[test]
fn a_log_that_is_written_on_arrives_with_the_length_it_had() {
    let (site, content) = (Site::new(&[], ""), patterned(20_000_000));
    std::fs::write(site.path("log"), &content).unwrap();
    let server = site.start();
    let over = Arc::new(AtomicBool::new(false));
    let writer = std::thread::spawn({
        let (over, path) = (Arc::clone(&over), site.path("log"));
        move || {
            let mut log = std::fs::OpenOptions::new().append(true).open(path).unwrap();
            while !over.load(Ordering::Relaxed) {
                log.write_all(b"one more line\n").unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    });
    for url in [server.url("/log"), server.https_url("/log")] {
        let args = ["--silent", "--show-error", "--fail", "--insecure", "--limit-rate", "10M"];
        let got = tool("curl", "curl").args(args).arg(url).output().unwrap();
        assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
        assert!(got.stdout.starts_with(&content), "{} bytes", got.stdout.len());
    }
    over.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    assert!(server.counted("linerate_vfs_grown_while_read", "") >= 2);
    assert_eq!(server.counted("linerate_http_aborted", "cause=\"file_changed\""), 0);
}

#[test]
fn a_file_that_is_truncated_meanwhile_is_cut() {
    let site = Site::new(&[], "");
    std::fs::write(site.path("f"), patterned(20_000_000)).unwrap();
    let server = site.start();
    let path = site.path("f");
    let truncating = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(1000).unwrap();
    });
    let args = ["--silent", "--fail", "--limit-rate", "5M", "--output", "/dev/null"];
    let got = tool("curl", "curl").args(args).arg(server.url("/f")).output().unwrap();
    truncating.join().unwrap();
    assert!(!got.status.success(), "what was promised is not there any more");
    server.wait_counted("linerate_http_aborted", "cause=\"file_changed\"", 1);
}

#[test]
fn a_large_listing_costs_little_while_nobody_takes_it() {
    const CLIENTS: u64 = 64;
    let site = Site::new(&[], "");
    for n in 0..10_000 {
        std::fs::write(site.path(&format!("a-file-with-a-rather-long-name-{n:06}")), b"").unwrap();
    }
    let server = site.start();
    let whole = || {
        let got = tool("curl", "curl").args(["--silent", "--fail"]).arg(server.url("/")).output().unwrap();
        assert!(got.status.success() && got.stdout.ends_with(b"</html>\n"));
        got.stdout
    };
    let page = whole();
    // Each lane has read the directory for itself.
    (0..16).for_each(|_| assert!(whole() == page));
    let before = resident_bytes(server.pid().as_raw_pid());
    let held: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let mut client = raw::connect(server.http[0]);
            client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            // The head has come, so the rest is on its way.
            raw::read_head(&mut client);
            client
        })
        .collect();
    assert!(whole() == page, "others are served meanwhile");
    let grown = resident_bytes(server.pid().as_raw_pid()).saturating_sub(before);
    assert!(page.len() > 2_500_000, "{}", page.len());
    assert!(grown < CLIENTS * 128 * 1024, "{grown} bytes for {CLIENTS} clients");
    drop(held);
}

/// Returns what a process has in memory.
fn resident_bytes(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}
