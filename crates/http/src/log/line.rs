//! Lines of the access log: the combined format that log tools read, and JSON.

use std::io::Write;

use service::datetime::{MONTHS, Moment};
use service::log::Format;
use service::log::text::{put_escaped, put_escaped_word, put_json_string};

use super::Record;

/// Appends the line of a record. Whatever a client sent, the result is one line of visible ASCII
/// (combined) or valid JSON in UTF-8.
pub fn put_line(format: Format, record: &Record<'_>, out: &mut Vec<u8>) {
    match format {
        Format::Text => combined(record, out),
        Format::Json => json(record, out),
    }
}

fn combined(record: &Record<'_>, out: &mut Vec<u8>) {
    let at = Moment { unix_us: record.unix_us }.date_time();
    let month = MONTHS[at.month as usize - 1].escape_ascii();
    let _ = write!(out, "{} - ", record.peer);
    put_escaped_word(or_dash(record.user), out);
    let _ = write!(
        out,
        " [{:02}/{month}/{:04}:{:02}:{:02}:{:02} +0000] \"",
        at.day, at.year, at.hour, at.minute, at.second,
    );
    put_escaped_word(record.method_text(), out);
    out.push(b' ');
    put_escaped(record.target, out);
    let _ = write!(out, " {}\" {} {} \"", record.protocol.name(), record.status, record.body_bytes);
    put_escaped(or_dash(record.referer), out);
    out.extend_from_slice(b"\" \"");
    put_escaped(or_dash(record.user_agent), out);
    out.extend_from_slice(b"\"\n");
}

fn json(record: &Record<'_>, out: &mut Vec<u8>) {
    let mut method = String::new();
    put_json_string(&String::from_utf8_lossy(record.method_text()), &mut method);
    let _ = write!(
        out,
        "{{\"time\":\"{}\",\"peer\":\"{}\",\"tls\":{},\
         \"protocol\":\"{}\",\"method\":{},\"status\":{},\"bytes\":{},\"duration_us\":{}",
        Moment { unix_us: record.unix_us },
        record.peer,
        record.tls,
        record.protocol.name(),
        method,
        record.status,
        record.body_bytes,
        record.duration_us
    );
    let texts = [
        ("user", record.user),
        ("host", record.host),
        ("target", record.target),
        ("referer", record.referer),
        ("user_agent", record.user_agent),
    ];
    for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        let mut value = String::with_capacity(text.len() + 2);
        put_json_string(&String::from_utf8_lossy(text), &mut value);
        let _ = write!(out, ",\"{name}\":{value}");
    }
    out.extend_from_slice(b"}\n");
}

fn or_dash(text: &[u8]) -> &[u8] {
    if text.is_empty() { b"-" } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Protocol;
    use crate::request::Method;

    fn record() -> Record<'static> {
        Record {
            peer: "192.0.2.1".parse().unwrap(),
            unix_us: 784_111_777_000_042,
            duration_us: 1234,
            status: 200,
            body_bytes: 2326,
            method: Method::Get,
            method_name: b"",
            protocol: Protocol::Http11,
            tls: false,
            user: b"",
            target: b"/a?b=c",
            host: b"example.org",
            referer: b"",
            user_agent: b"curl/8",
        }
    }

    fn line(format: Format, record: &Record<'_>) -> String {
        let mut out = Vec::new();
        put_line(format, record, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn combined_line_is_what_log_tools_expect() {
        assert_eq!(
            line(Format::Text, &record()),
            "192.0.2.1 - - [06/Nov/1994:08:49:37 +0000] \"GET /a?b=c HTTP/1.1\" 200 2326 \"-\" \"curl/8\"\n"
        );
    }

    #[test]
    fn users_stand_where_log_tools_look_for_them() {
        let combined = line(Format::Text, &Record { user: b"a b", ..record() });
        assert!(combined.starts_with("192.0.2.1 - a\\x20b [06/Nov"), "{combined}");
        let json = line(Format::Json, &Record { user: b"alice", ..record() });
        assert!(json.contains(",\"user\":\"alice\",\"host\":"), "{json}");
    }

    #[test]
    fn json_line_holds_every_field() {
        assert_eq!(
            line(Format::Json, &record()),
            "{\"time\":\"1994-11-06T08:49:37.000042Z\",\"peer\":\"192.0.2.1\",\"tls\":false,\
             \"protocol\":\"HTTP/1.1\",\"method\":\"GET\",\"status\":200,\"bytes\":2326,\
             \"duration_us\":1234,\"host\":\"example.org\",\"target\":\"/a?b=c\",\"user_agent\":\"curl/8\"}\n"
        );
    }

    #[test]
    fn hostile_bytes_cannot_forge_a_line() {
        let other = |name| Record { method: Method::Other, method_name: name, ..record() };
        let methods =
            [(&b"PROPFIND"[..], "\"PROPFIND /"), (b"A B\"\x1b", "\"A\\x20B\\x22\\x1B /"), (b"", "\"- /")];
        for (name, shown) in methods {
            let line = line(Format::Text, &other(name));
            assert!(line.contains(shown), "{line}");
        }
        assert!(line(Format::Json, &other(b"LO\"CK")).contains("\"method\":\"LO\\\"CK\""));
        let hostile = Record { target: b"/\"\n127.0.0.1 - -", user_agent: b"\x1b[2J\\\"\xff\r", ..record() };
        let combined = line(Format::Text, &hostile);
        assert_eq!(combined.matches('\n').count(), 1);
        assert!(combined.contains("/\\x22\\x0A127.0.0.1"), "{combined}");
        assert!(combined.contains("\"\\x1B[2J\\x5C\\x22\\xFF\\x0D\""), "{combined}");
        let json = line(Format::Json, &hostile);
        assert_eq!(json.matches('\n').count(), 1);
        assert!(json.contains("\"user_agent\":\"\\u001b[2J\\\\\\\"\u{fffd}\\r\""), "{json}");
    }
}
