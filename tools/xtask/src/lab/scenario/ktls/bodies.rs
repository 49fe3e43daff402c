//! Bodies are right to the byte: of every suite, small and many, in parts, in turns, and long.

use anyhow::{Context, ensure};

use super::content::{BIG_BYTES, SMALL_FILES, Tree, small_name};
use super::{ADDRESS, AES, CHACHA, Guest, Https, SUITES, Server, counts, request, tls_stat};

/// Checks that the kernel's own counts and ours agree for each version and cipher.
pub(super) fn every_suite(guest: &mut Guest, server: &Server, tree: &Tree) -> anyhow::Result<()> {
    // The server's question whether keys can be changed is a connection of the kernel's too, once.
    Https::connect(ADDRESS, AES)?.get("/small/00000", "", tree.small(0))?;
    for suite in SUITES {
        let name = suite.suite();
        let before = tls_stat("TlsTxSw")?;
        let ours = server.scrape()?.sum("linerate_http_kernel_tls", &[])?;
        let mut client = Https::connect(ADDRESS, suite)?;
        client.get("/mid", "", tree.mid()).with_context(|| format!("{name:?}"))?;
        let kernels = tls_stat("TlsTxSw")? - before;
        ensure!(kernels == 1, "{name:?}: the kernel counts {kernels} connections");
        counts(server, "linerate_http_kernel_tls", &[], ours + 1.0)?;
        counts(server, "linerate_http_tls_connections", &["kernel"], 1.0)?;
    }
    guest.note(format!("{} suites, as the kernel counts them too", SUITES.len()))
}

/// Fetches all small files over one connection, a few at a time.
pub(super) fn small_files(guest: &mut Guest, tree: &Tree) -> anyhow::Result<()> {
    let before = tls_stat("TlsTxSw")?;
    let mut client = Https::connect(ADDRESS, CHACHA)?;
    let indices: Vec<usize> = (0..SMALL_FILES).collect();
    for some in indices.chunks(50) {
        let requests: String =
            some.iter().map(|&index| request(&format!("/{}", small_name(index)), "")).collect();
        client.send(&requests)?;
        for &index in some {
            client.expect(tree.small(index)).with_context(|| small_name(index))?;
        }
    }
    let connections = tls_stat("TlsTxSw")? - before;
    ensure!(connections == 1, "{SMALL_FILES} small files took {connections} connections");
    guest.note(format!("{SMALL_FILES} small files, pipelined"))
}

/// Answers of every kind come in the order of their requests.
pub(super) fn ranges_and_pipelining(guest: &mut Guest, tree: &Tree) -> anyhow::Result<()> {
    let mut client = Https::connect(ADDRESS, CHACHA)?;
    let mid = tree.mid();
    let range = client.get("/mid", "Range: bytes=1000001-1999999\r\n", &mid[1_000_001..2_000_000])?;
    ensure!(range.status == 206, "a range is answered with {}", range.status);
    let last = client.get("/big", "Range: bytes=-1\r\n", &[0])?;
    let about = last.field("content-range").unwrap_or_default();
    ensure!(about == format!("bytes {}-{}/{BIG_BYTES}", BIG_BYTES - 1, BIG_BYTES - 1), "{about}");
    several_ranges(&mut client, mid)?;

    let requests = [
        request("/mid", ""),
        request("/none", ""),
        request("/small/00001", ""),
        request("/mid", "").replacen("GET", "HEAD", 1),
        request("/mid", "Range: bytes=70000-169999\r\n"),
        request("/mid", "Range: bytes=9999999-\r\n"),
        request("/small/00002", "Connection: close\r\n"),
    ];
    client.send(&requests.concat())?;
    client.expect(mid)?;
    let missing = client.head()?;
    client.body(missing.length()?, |_, _| Ok(()))?;
    client.expect(tree.small(1))?;
    let head = client.head()?;
    ensure!(head.length()? == mid.len() as u64, "HEAD says {}", head.length()?);
    client.expect(&mid[70_000..170_000])?;
    let outside = client.head()?;
    client.body(outside.length()?, |_, _| Ok(()))?;
    ensure!((missing.status, outside.status) == (404, 416), "{missing:?} {outside:?}");
    client.expect(tree.small(2))?;
    let end = client.end(|_, _| Ok(()))?;
    ensure!(end == (0, super::ends::CLEAN), "behind the last answer: {end:?}");
    guest.note("ranges and pipelining")
}

fn several_ranges(client: &mut Https, mid: &[u8]) -> anyhow::Result<()> {
    client.send(&request("/mid", "Range: bytes=0-99999,500000-599999\r\n"))?;
    let head = client.head()?;
    let kind = head.field("content-type").unwrap_or_default();
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=").context(kind.to_owned())?;
    let mut body = Vec::new();
    client.body(head.length()?, |_, bytes| {
        body.extend_from_slice(bytes);
        Ok(())
    })?;
    let mut rest = &body[..];
    for part in [&mid[..100_000], &mid[500_000..600_000]] {
        let gap = rest.windows(4).position(|window| window == b"\r\n\r\n").context("a part's head")?;
        let lines = String::from_utf8_lossy(&rest[..gap]);
        ensure!(lines.trim_start().starts_with(&format!("--{}", boundary.trim_matches('"'))), "{lines}");
        ensure!(rest[gap + 4..].starts_with(part), "wrong bytes of {lines}");
        rest = &rest[gap + 4 + part.len()..];
    }
    Ok(())
}
