//! Instructions that one HTTP request takes outside of the kernel: parse the head, read the ranges, write a
//! response head; and all together for a small file.

mod whole;

use std::hint::black_box;

use gungraun::{library_benchmark, library_benchmark_group};
use http::conditional::Validators;
use http::date;
use http::etag::ETag;
use http::limits::Limits;
use http::range::{Selection, select};
use http::request::parse;
use http::response::{Answer, HEAD_BYTES_MAX, Persistence, Writer};
use lane::fs::Timestamp;
use vfs::VersionName;
use whole::Served;

#[library_benchmark]
#[bench::wrk(received(WRK))]
#[bench::browser(received(BROWSER))]
fn parse_request_head(bytes: Vec<u8>) -> (usize, Vec<u8>) {
    let parsed = parse(black_box(&bytes), &Limits::default()).expect("a good head");
    let (head, len) = black_box(parsed).expect("a whole head");
    (len + head.raw_target.len(), bytes)
}

/// Copies a request to the heap, where its alignment is always the same: a constant's place, chosen by the
/// linker, made 4 % of the count.
fn received(text: &[u8]) -> Vec<u8> {
    text.to_vec()
}

#[library_benchmark]
#[bench::static_file(file_answer())]
fn write_200_response_head(input: (Answer, [u8; date::LEN], Vec<u8>)) -> (Answer, Vec<u8>, usize) {
    let (answer, date, mut buf) = input;
    let mut out = Writer::new(&mut buf);
    answer.put_http1(&date, Persistence::KeepAlive, &mut out);
    let len = out.finish().expect("the head fits");
    (answer, buf, len)
}

#[library_benchmark]
#[bench::one(b"bytes=1048576-2097151")]
#[bench::suffix(b"bytes=-500")]
#[bench::five_unordered(b"bytes=9000-9999, 0-99, 500-999, 900-1499, -1")]
fn select_ranges(field: &[u8]) -> Selection {
    select(black_box(field), black_box(FILE_SIZE), RANGES_MAX)
}

// Requests that came together are answered together.
#[library_benchmark]
#[bench::http1(Served::http1())]
fn get_64_small_files(served: Served) -> Served {
    assert_eq!(black_box(&served).get_pipelined(64), 64);
    served
}

#[library_benchmark]
#[bench::tls(Served::http2())]
fn get_64_small_files_by_http2(served: Served) -> Served {
    assert_eq!(black_box(&served).get_streams(64), 64);
    served
}

// Each is written aside and takes the name of the one before.
#[library_benchmark]
#[bench::http1(Served::writable())]
fn put_64_small_files(served: Served) -> Served {
    assert_eq!(black_box(&served).put_one_by_one(64), 64);
    served
}

fn file_answer() -> (Answer, [u8; date::LEN], Vec<u8>) {
    let answer = Answer {
        content_type: Some("text/html; charset=utf-8"),
        content_length: Some(FILE_SIZE),
        validators: Some(Validators {
            etag: ETag::strong(
                &VersionName { size: FILE_SIZE, mtime: MODIFIED, ctime: MODIFIED, distrusted: 0 },
                None,
            ),
            modified_s: Some(MODIFIED.secs),
            is_date_strong: true,
        }),
        accept_ranges: true,
        vary: Some("Accept-Encoding"),
        ..Answer::default()
    };
    (answer, date::imf_fixdate(1_790_000_000), vec![0; HEAD_BYTES_MAX])
}

library_benchmark_group!(
    name = in_http,
    benchmarks = [
        parse_request_head,
        write_200_response_head,
        select_ranges,
        get_64_small_files,
        get_64_small_files_by_http2,
        put_64_small_files
    ]
);
const MODIFIED: Timestamp = Timestamp { secs: 1_789_000_000, nanos: 123_456_789 };
const WRK: &[u8] = b"GET /1k.bin HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";
const BROWSER: &[u8] = b"GET /photos/2026/summer.html?size=large HTTP/1.1\r\n\
    Host: files.example.org\r\n\
    Connection: keep-alive\r\n\
    sec-ch-ua: \"Chromium\";v=\"142\", \"Not_A Brand\";v=\"99\"\r\n\
    sec-ch-ua-mobile: ?0\r\n\
    sec-ch-ua-platform: \"Linux\"\r\n\
    Upgrade-Insecure-Requests: 1\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) \
    Chrome/142.0.0.0 Safari/537.36\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,\
    image/webp,image/apng,*/*;q=0.8\r\n\
    Sec-Fetch-Site: same-origin\r\n\
    Sec-Fetch-Mode: navigate\r\n\
    Sec-Fetch-User: ?1\r\n\
    Sec-Fetch-Dest: document\r\n\
    Referer: https://files.example.org/photos/2026/\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Accept-Language: en-GB,en;q=0.9\r\n\
    If-None-Match: \"0123456789abcdef\"\r\n\
    If-Modified-Since: Sat, 21 Nov 2026 08:00:00 GMT\r\n\r\n";
const FILE_SIZE: u64 = 1 << 30;
const RANGES_MAX: usize = 16;
