//! Lines of the audit log: as OpenAFS's file server writes them, and JSON.

use std::io::Write;

use afs_wire::Fid;
use service::log::Format;
use service::log::openafs::{put_head, put_value};
use service::log::text::put_json_field;

use super::{Event, Record};

/// Appends the line of a record. Whatever a client sent, the result is one line of visible ASCII (as OpenAFS) or valid JSON in UTF-8.
pub fn put_line(format: Format, record: &Record<'_>, out: &mut Vec<u8>) {
    match format {
        Format::Text => openafs(record, out),
        Format::Json => json(record, out),
    }
}

/// Appends what follows the head of a line: the files, names in them, and lists.
fn openafs(record: &Record<'_>, out: &mut Vec<u8>) {
    put_head(record.event.into(), &record.act, out);
    match record.event {
        Event::GetVolumeStatus | Event::SetVolumeStatus => {
            record.files.iter().for_each(|file| _ = write!(out, "LONG {} ", file.volume));
        }
        Event::BulkStatus | Event::InlineBulkStatus => {
            let _ = write!(out, "FIDS {} ", record.files.len());
            record.files.iter().for_each(|file| put_fid(*file, out));
        }
        _ => files(record, out),
    }
    if !record.acl.is_empty() {
        put_value("ACL", record.acl, out);
    }
    out.push(b'\n');
}

/// Appends each file, and behind it its name.
fn files(record: &Record<'_>, out: &mut Vec<u8>) {
    for (place, file) in record.files.iter().enumerate() {
        put_fid(*file, out);
        if let Some(name) = record.names.get(place).filter(|name| !name.is_empty()) {
            put_value("STR", name, out);
        }
    }
}

fn put_fid(Fid { volume, vnode, uniquifier }: Fid, out: &mut Vec<u8>) {
    let _ = write!(out, "FID {volume}:{vnode}:{uniquifier} ");
}

fn json(record: &Record<'_>, out: &mut Vec<u8>) {
    record.act.put_json_head(format_args!("{:?}", record.event), out);
    out.extend_from_slice(b",\"files\":[");
    for (place, file) in record.files.iter().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        let _ = write!(out, "{comma}{{\"fid\":\"{file}\"");
        put_json_field("name", record.names.get(place).copied().unwrap_or_default(), out);
        out.push(b'}');
    }
    out.push(b']');
    put_json_field("acl", record.acl, out);
    out.extend_from_slice(b"}\n");
}

#[cfg(test)]
mod tests {
    use service::log::audit::Act;

    use super::super::record::tests::record;
    use super::*;

    fn line(format: Format, record: &Record<'_>) -> String {
        let mut out = Vec::new();
        put_line(format, record, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn renaming() -> Record<'static> {
        let fid = |vnode| Fid { volume: 5, vnode, uniquifier: 2 };
        Record {
            event: Event::Rename,
            act: Act { code: 13, user: b"alice", user_id: 1000, ..record().act },
            files: [fid(1), fid(3)].into_iter().collect(),
            names: [b"a b", b"c\n"],
            ..record()
        }
    }

    #[test]
    fn lines_are_as_openafs_writes_them() {
        assert_eq!(
            line(Format::Text, &record()),
            "Sun Nov  6 08:49:37 1994 EVENT AFS_SRX_FchData CODE 0 NAME --UnAuth-- HOST 192.0.2.1 ID 32766 \
             FID 536870912:4:7 \n"
        );
        assert!(line(Format::Text, &renaming()).ends_with(
            "EVENT AFS_SRX_RNmFile CODE 13 NAME alice HOST 192.0.2.1 ID 1000 FID 5:1:2 STR a\\x20b FID 5:3:2 STR c\\x0A \n"
        ));
        let bulk = Record { event: Event::BulkStatus, names: [b"", b""], ..renaming() };
        assert!(line(Format::Text, &bulk).ends_with("ID 1000 FIDS 2 FID 5:1:2 FID 5:3:2 \n"));
        let list = Record { event: Event::StoreAcl, acl: b"1\n0\na 7\n", ..record() };
        assert!(
            line(Format::Text, &list).ends_with("FID 536870912:4:7 ACL 1\\x0A0\\x0Aa\\x207\\x0A \n"),
            "{}",
            line(Format::Text, &list)
        );
        let volume = Record { event: Event::GetVolumeStatus, ..record() };
        assert!(line(Format::Text, &volume).ends_with("ID 32766 LONG 536870912 \n"));
    }

    #[test]
    fn json_holds_every_field() {
        assert_eq!(
            line(Format::Json, &renaming()),
            "{\"time\":\"1994-11-06T08:49:37.000042Z\",\"call\":\"Rename\",\"code\":13,\"peer\":\"192.0.2.1\",\
             \"port\":7001,\"user_id\":1000,\"duration_us\":1234,\"user\":\"alice\",\
             \"files\":[{\"fid\":\"5.1.2\",\"name\":\"a b\"},{\"fid\":\"5.3.2\",\"name\":\"c\\n\"}]}\n"
        );
    }
}
