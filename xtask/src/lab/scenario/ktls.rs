//! Kernel TLS: what curl and openssl get from it is right to the byte, and its key changes and ends are clean.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use super::Scenario;
use crate::lab::guest::metrics::Scrape;
use crate::lab::guest::server::Server;
use crate::lab::guest::{Guest, modprobe};

pub(crate) struct Ktls;

impl Scenario for Ktls {
    fn name(&self) -> &'static str {
        "ktls"
    }

    fn about(&self) -> &'static str {
        "HTTPS whose records the kernel makes: every suite, ranges, pipelining, key changes, truncation, fall back"
    }

    fn packages(&self) -> &'static [&'static str] {
        &["openssl", "diffutils"]
    }

    fn run(&self, guest: &mut Guest) -> anyhow::Result<()> {
        sh(TREE)?;
        without_the_module(guest)?;
        modprobe(&["tls"])?;
        let server = guest.serve(CONFIG)?;
        doctor_tells(guest)?;
        every_suite(guest, &server)?;
        small_files(guest)?;
        ranges_and_pipelining()?;
        guest.note("ranges and pipelining")?;
        key_updates(&server)?;
        guest.note("key updates")?;
        slow_reader_and_end()?;
        guest.note("slow reader")?;
        truncated_file_is_no_whole_answer(&server)?;
        sh(&format!("{CURL} {CHACHA} {URL}/big | cmp - /tmp/tree/big")).context("1 GiB")?;
        guest.note("1 GiB compared")
    }
}

/// Before anybody has loaded the module, and while nobody may, user space makes the records.
fn without_the_module(guest: &Guest) -> anyhow::Result<()> {
    sh(
        "rmmod tls 2>/dev/null; mkdir -p /run/modprobe.d; echo 'install tls /bin/false' > /run/modprobe.d/lab.conf",
    )?;
    let server = guest.serve(CONFIG)?;
    sh(&format!("{CURL} {URL}/mid | cmp - /tmp/tree/mid"))?;
    let kernel = total(&server.scrape()?, "linerate_http_kernel_tls")?;
    sh("rm /run/modprobe.d/lab.conf")?;
    ensure!(kernel == 0.0, "{kernel} connections in kernel TLS without the module");
    Ok(())
}

fn doctor_tells(guest: &Guest) -> anyhow::Result<()> {
    let out = guest.linerate().arg("doctor").output()?;
    let out = String::from_utf8_lossy(&out.stdout);
    let line = out.lines().find(|line| line.contains("kernel TLS ")).context("doctor names kernel TLS")?;
    ensure!(line.contains("works"), "doctor says: {line}");
    Ok(())
}

/// The kernel's own count and ours agree for each version and cipher.
fn every_suite(guest: &mut Guest, server: &Server) -> anyhow::Result<()> {
    // The server's question whether keys can be changed counts too, once.
    sh(&format!("{CURL} {URL}/small/00000 | cmp - /tmp/tree/small/00000"))?;
    for suite in SUITES {
        let (kernel, ours) = (tls_stat("TlsTxSw")?, total(&server.scrape()?, "linerate_http_kernel_tls")?);
        sh(&format!("{CURL} {suite} {URL}/mid | cmp - /tmp/tree/mid")).context(suite)?;
        ensure!(tls_stat("TlsTxSw")? == kernel + 1, "{suite}: not in the kernel's count");
        ensure!(
            total(&server.scrape()?, "linerate_http_kernel_tls")? == ours + 1.0,
            "{suite}: not in our count"
        );
    }
    guest.note(format!("{} suites compared", SUITES.len()))
}

/// All over one connection.
fn small_files(guest: &mut Guest) -> anyhow::Result<()> {
    let before = tls_stat("TlsTxSw")?;
    sh(&format!(
        "mkdir -p /tmp/got; {CURL} {CHACHA} -o '/tmp/got/#1' '{URL}/small/[00000-09999]' && diff -rq /tmp/tree/small /tmp/got"
    ))
    .context("10,000 small files")?;
    let connections = tls_stat("TlsTxSw")? - before;
    ensure!(connections == 1, "10,000 small files took {connections} connections");
    guest.note("10,000 small files compared")
}

fn ranges_and_pipelining() -> anyhow::Result<()> {
    sh(&format!(
        "{CURL} -r 1000000-1999999 {URL}/mid | cmp - <(tail -c +1000001 /tmp/tree/mid | head -c 1000000)"
    ))
    .context("a range")?;
    let parts = sh(&format!("{CURL} -r 0-99999,500000-599999 {URL}/mid | wc -c"))?;
    ensure!(parts.trim().parse::<u64>()? > 200_000, "two ranges are {parts} bytes");
    let answers = sh(&format!(
        "(for i in 1 2 3 4 5 6 7 8; do printf 'GET /small/0000%d HTTP/1.1\\r\\nHost: lab\\r\\n\\r\\n' $i; done; sleep 3) \
         | {S_CLIENT} -quiet 2>/dev/null | grep -ac '^HTTP/1.1 200'"
    ))?;
    ensure!(answers.trim() == "8", "8 pipelined requests got {answers} answers");
    Ok(())
}

/// One that wants no answer changes nothing. One that does is answered from Linux 6.14 on, and ends the connection
/// with close_notify before.
fn key_updates(server: &Server) -> anyhow::Result<()> {
    let ask = |command: char| {
        sh(&format!(
            "(sleep 1; echo {command}; sleep 1; printf 'GET /small/00001 HTTP/1.1\\r\\nHost: lab\\r\\n\\r\\n'; sleep 2) \
             | {S_CLIENT} -tls1_3 2>&1 | grep -ac '^HTTP/1.1 200' || true"
        ))
    };
    ensure!(ask('k')?.trim() == "1", "a key update without a request of one was not followed");
    let before = total(&server.scrape()?, "linerate_http_closed")?;
    let answered = ask('K')?.trim() == "1";
    let closed = total(&server.scrape()?, "linerate_http_closed")? - before;
    ensure!(
        answered || closed == 1.0,
        "a key update with request was neither answered nor ended the connection"
    );
    Ok(())
}

/// Whoever reads slowly has all of a long answer although the server is done long before, and knows that it is all.
fn slow_reader_and_end() -> anyhow::Result<()> {
    sh(&format!("{CURL} {CHACHA} --limit-rate 4M -H 'Connection: close' {URL}/mid | cmp - /tmp/tree/mid"))
        .context("a slow reader of an answer that ends the connection")?;
    Ok(())
}

fn truncated_file_is_no_whole_answer(server: &Server) -> anyhow::Result<()> {
    let before = total(&server.scrape()?, "linerate_http_aborted")?;
    let code = sh(&format!(
        "head -c 33554432 /tmp/tree/mid > /tmp/tree/cut; ({CURL} {CHACHA} --limit-rate 2M {URL}/cut > /tmp/cut; echo $? > /tmp/code) & \
         sleep 2; truncate -s 1000000 /tmp/tree/cut; wait; cat /tmp/code"
    ))?;
    ensure!(code.trim() != "0", "curl took a truncated file for whole");
    ensure!(total(&server.scrape()?, "linerate_http_aborted")? > before, "the end was not counted");
    sh("cmp -n $(stat -c %s /tmp/cut) /tmp/cut /tmp/tree/mid").context("wrong bytes before the end")?;
    Ok(())
}

fn total(scrape: &Scrape, name: &str) -> anyhow::Result<f64> {
    scrape.sum(name, &[])
}

fn tls_stat(name: &str) -> anyhow::Result<u64> {
    let text = std::fs::read_to_string(Path::new("/proc/net/tls_stat")).context("/proc/net/tls_stat")?;
    let value =
        text.lines().find_map(|line| line.strip_prefix(name)).context("a counter of the kernel's TLS")?;
    Ok(value.trim().parse()?)
}

fn sh(script: &str) -> anyhow::Result<String> {
    let mut command = Command::new("bash");
    let out = command.args(["-c", &format!("set -o pipefail; {script}")]).output()?;
    let errors = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "{script}: {}; {errors}", out.status);
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// A sparse gibibyte with noise every 32 MiB, 32 MiB of noise, and small files.
const TREE: &str = "mkdir -p /tmp/tree/small; cd /tmp/tree; head -c 33554432 /dev/urandom > mid; truncate -s 1G big; \
    for i in $(seq 0 31); do dd if=mid of=big bs=1M count=1 skip=$i seek=$((i * 32)) conv=notrunc status=none; done; \
    head -c 10000000 mid | split -b 1000 -d -a 5 - small/";
const CURL: &str = "curl -sSk --http1.1 --max-time 200";
const S_CLIENT: &str = "timeout 20 openssl s_client -connect 127.0.0.1:8443";
const URL: &str = "https://127.0.0.1:8443";
const CHACHA: &str = "--tlsv1.3 --tls13-ciphers TLS_CHACHA20_POLY1305_SHA256";
const SUITES: [&str; 6] = [
    "--tlsv1.3 --tls13-ciphers TLS_AES_128_GCM_SHA256",
    "--tlsv1.3 --tls13-ciphers TLS_AES_256_GCM_SHA384",
    CHACHA,
    "--tls-max 1.2 --ciphers ECDHE-ECDSA-AES128-GCM-SHA256",
    "--tls-max 1.2 --ciphers ECDHE-ECDSA-AES256-GCM-SHA384",
    "--tls-max 1.2 --ciphers ECDHE-ECDSA-CHACHA20-POLY1305",
];
const CONFIG: &str = r#"
[[volume]]
name = "tree"
path = "/tmp/tree"
[http]
listen = []
[https]
listen = ["127.0.0.1:8443"]
"#;
