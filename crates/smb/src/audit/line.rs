//! Lines of the audit log: JSON, and as OpenAFS's file server writes its own.

use std::io::Write;

use service::log::Format;
use service::log::openafs::{put_head, put_value};
use service::log::text::put_json_field;

use super::{Event, Record};

/// Appends the line of a record. Whatever a client sent, the result is one line of visible ASCII (as OpenAFS) or valid JSON in UTF-8.
pub(super) fn put_line(format: Format, record: &Record<'_>, out: &mut Vec<u8>) {
    match format {
        Format::Text => openafs(record, out),
        Format::Json => json(record, out),
    }
}

/// Appends what follows the head of a line: share, path, and what goes with them, as far as there is any.
fn openafs(record: &Record<'_>, out: &mut Vec<u8>) {
    put_head(record.event.into(), &record.act, out);
    let texts = [record.share, record.path, record.other];
    texts.into_iter().filter(|text| !text.is_empty()).for_each(|text| put_value("STR", text, out));
    if moves_bytes(record.event) {
        let _ = write!(out, "LONG {} LONG {} ", record.offset, record.length);
    }
    out.push(b'\n');
}

fn json(record: &Record<'_>, out: &mut Vec<u8>) {
    record.act.put_json_head(<&str>::from(record.event), out);
    let _ = write!(out, ",\"status\":\"{}\"", record.status());
    if record.session != 0 {
        let _ = write!(out, ",\"session\":\"{:x}\"", record.session);
    }
    put_json_field("share", record.share, out);
    put_json_field("path", record.path, out);
    if let Some(file) = record.file {
        let _ = write!(out, ",\"file\":\"{:x}.{:x}\"", file.persistent.get(), file.volatile.get());
    }
    match record.event {
        Event::SignIn => {
            put_json_field(if record.status().is_error() { "reason" } else { "as" }, record.other, out)
        }
        _ => put_json_field("to", record.other, out),
    }
    let _ = match record.event {
        event if moves_bytes(event) => {
            write!(out, ",\"offset\":{},\"length\":{}", record.offset, record.length)
        }
        Event::SetLength => write!(out, ",\"length\":{}", record.length),
        Event::Create => write!(out, ",\"access\":\"0x{:08x}\"", record.code),
        Event::Ioctl => write!(out, ",\"control\":\"0x{:08x}\"", record.code),
        Event::QueryInfo | Event::SetInfo | Event::QueryDirectory => {
            write!(out, ",\"class\":{}", record.code)
        }
        _ => Ok(()),
    };
    out.extend_from_slice(b"}\n");
}

fn moves_bytes(event: Event) -> bool {
    matches!(event, Event::Read | Event::Write | Event::Lock)
}

#[cfg(test)]
mod tests {
    use service::log::audit::Act;
    use smb_wire::Status;

    use super::super::record::tests::record;
    use super::*;

    fn line(format: Format, record: &Record<'_>) -> String {
        let mut out = Vec::new();
        put_line(format, record, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn refused() -> Record<'static> {
        Record {
            act: Act { code: Status::LOGON_FAILURE.0.into(), user: b"al\nice", user_id: 0, ..record().act },
            event: Event::SignIn,
            share: b"",
            path: b"",
            other: b"wrong name or password",
            file: None,
            ..record()
        }
    }

    #[test]
    fn text_is_as_openafs_writes_its_own_lines() {
        assert_eq!(
            line(Format::Text, &record()),
            "Sun Nov  6 08:49:37 1994 EVENT SMB_Read CODE 0 NAME alice HOST 192.0.2.1 ID 1000 STR files STR /dir/a\\x20b \
             LONG 4096 LONG 65536 \n"
        );
        assert!(line(Format::Text, &refused()).ends_with(
            "EVENT SMB_SignIn CODE -1073741715 NAME al\\x0Aice HOST 192.0.2.1 ID 0 STR wrong\\x20name\\x20or\\x20password \n"
        ));
    }

    #[test]
    fn json_holds_every_field() {
        let head = "{\"time\":\"1994-11-06T08:49:37.000042Z\",";
        assert_eq!(
            line(Format::Json, &record()),
            format!(
                "{head}\"call\":\"SMB_Read\",\"code\":0,\"peer\":\"192.0.2.1\",\"port\":50000,\
                 \"user_id\":1000,\"duration_us\":1234,\"user\":\"alice\",\"status\":\"STATUS_SUCCESS\",\"session\":\"1234\",\"share\":\"files\",\
                 \"path\":\"/dir/a b\",\"file\":\"1.2\",\"offset\":4096,\"length\":65536}}\n"
            )
        );
        assert_eq!(
            line(Format::Json, &refused()),
            format!(
                "{head}\"call\":\"SMB_SignIn\",\"code\":3221225581,\"peer\":\"192.0.2.1\",\
                 \"port\":50000,\"user_id\":0,\"duration_us\":1234,\"user\":\"al\\nice\",\"status\":\"STATUS_LOGON_FAILURE\",\"session\":\"1234\",\
                 \"reason\":\"wrong name or password\"}}\n"
            )
        );
        let renamed = Record { event: Event::Rename, other: b"/b", ..record() };
        assert!(line(Format::Json, &renamed).ends_with("\"file\":\"1.2\",\"to\":\"/b\"}\n"));
        let opened = Record { event: Event::Create, code: 0x12_0089, ..record() };
        assert!(line(Format::Json, &opened).ends_with("\"access\":\"0x00120089\"}\n"));
    }
}
