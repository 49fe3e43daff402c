//! Bodies of requests: valid ones of every command, and such with a field that is not. What a body lies behind is 64 bytes of header.

use smb_wire::Command;
use smb_wire::create::context::{ContextWriter, tag};
use smb_wire::fsctl::code;
use smb_wire::header::HEADER_LEN;

use crate::decisions::Decisions;

/// Knowledge of a client, from which requests are made.
#[derive(Default)]
pub(super) struct Known {
    /// Open files, or such as were.
    pub(super) files: Vec<[u8; 16]>,
    /// Keys of leases.
    pub(super) leases: Vec<[u8; 16]>,
    /// CreateGuids of durable opens.
    pub(super) guids: Vec<[u8; 16]>,
    /// Keys of files that are copied from.
    pub(super) resume_keys: Vec<[u8; 24]>,
    /// Breaks to be acknowledged: bodies of the answers.
    pub(super) breaks: Vec<Vec<u8>>,
    /// Sessions' numbers.
    pub(super) sessions: Vec<u64>,
}

/// A body, and what kind of a request it is beside its command.
pub(super) struct Made {
    pub(super) body: Vec<u8>,
    pub(super) kind: u32,
    /// Bytes that its answer may have.
    pub(super) answer: u64,
}

/// Little-endian bytes, one field after another.
#[derive(Default)]
struct Out(Vec<u8>);

impl Out {
    fn sized(size: u16) -> Self {
        Self(size.to_le_bytes().to_vec())
    }

    fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    fn u16(mut self, value: u16) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn here(&self) -> u32 {
        (HEADER_LEN + self.0.len()) as u32
    }

    fn made(self, kind: u32, answer: u64) -> Made {
        Made { body: self.0, kind, answer }
    }
}

/// Returns a file that some request has opened; one that none has now and then.
pub(super) fn file(d: &mut Decisions<'_>, known: &Known) -> [u8; 16] {
    match d.below(32) {
        31 => [0xff; 16],
        30 => std::array::from_fn(|_| d.byte()),
        29 => {
            let mut file = known.files.last().copied().unwrap_or_default();
            file[d.below(16)] ^= 1 << d.below(8);
            file
        }
        at if known.files.is_empty() => [at as u8; 16],
        at if at < 16 => known.files[known.files.len() - 1],
        _ => d.of(&known.files),
    }
}

/// The kinds of bodies that are made, as often as they are wanted.
pub(super) const COMMANDS: [Command; 48] = {
    use Command::*;
    [
        Create,
        Create,
        Create,
        Create,
        Create,
        Create,
        Create,
        Create,
        Create,
        Create, //
        Close,
        Close,
        Close,
        Read,
        Read,
        Read,
        Write,
        Write,
        Write,
        Flush, //
        Lock,
        Lock,
        Lock,
        Ioctl,
        Ioctl,
        Ioctl,
        Ioctl,
        QueryDirectory,
        QueryDirectory,
        QueryDirectory, //
        ChangeNotify,
        ChangeNotify,
        QueryInfo,
        QueryInfo,
        QueryInfo,
        SetInfo,
        SetInfo,
        SetInfo,
        SetInfo,
        SetInfo, //
        OplockBreak,
        OplockBreak,
        Echo,
        TreeConnect,
        TreeDisconnect,
        Logoff,
        Cancel,
        ServerToClientNotification,
    ]
};

/// Makes the body of a request.
pub(super) fn body(d: &mut Decisions<'_>, command: Command, known: &mut Known) -> Made {
    match command {
        Command::Create => create(d, known),
        Command::Close => {
            let file = file(d, known);
            Out::sized(24).u16(d.below(3) as u16).u32(0).bytes(&file).made(0, 0)
        }
        Command::Flush => Out::sized(24).u16(0).u32(0).bytes(&file(d, known)).made(0, 0),
        Command::Read => {
            let (length, offset, file) = (length(d), offset(d), file(d, known));
            let out =
                Out::sized(49).u8(0x50).u8(d.of(&[0, 0, 0, 1, 2, 3])).u32(length).u64(offset).bytes(&file);
            let out =
                out.u32(d.of(&[0, 0, 0, 1, 70_000])).u32(d.of(&[0, 0, 0, 0, 0, 1, 2])).u32(0).u32(0).u8(0);
            out.made(0, length.into())
        }
        Command::Write => {
            let (len, offset, file) = (length(d) as usize % 70_000, offset(d), file(d, known));
            let out = Out::sized(49).u16(112).u32(len as u32).u64(offset).bytes(&file);
            let out = out.u32(d.of(&[0, 0, 0, 0, 0, 1])).u32(0).u32(0).u32(d.of(&[0, 0, 0, 1, 2, 3]));
            out.bytes(&vec![d.byte(); len]).made(0, 0)
        }
        Command::Lock => lock(d, known),
        Command::Ioctl => ioctl(d, known),
        Command::QueryDirectory => {
            let class = d.of(&[1, 2, 3, 12, 37, 38, 60, 63, 100, 37, 78, 0]);
            let flags = d.of(&[0, 0, 1, 1, 2, 3, 4, 0x10, 0x13, 0xff]);
            let (file, pattern, answer) = (file(d, known), pattern(d), answer_len(d));
            let out = Out::sized(33).u8(class).u8(flags).u32(d.of(&[0, 0, 0, 1, u32::MAX])).bytes(&file);
            let out = out.u16(96).u16(pattern.len() as u16).u32(answer).bytes(&pattern);
            out.made(class.into(), answer.into())
        }
        Command::ChangeNotify => {
            let (file, answer) = (file(d, known), answer_len(d));
            let filter = d.of(&[0xfff, 0xfff, 1, 2, 0x17, 0x100, 0, u32::MAX]);
            let out = Out::sized(32).u16(d.of(&[0, 1, 0xffff])).u32(answer).bytes(&file).u32(filter).u32(0);
            out.made(filter & 0xf, answer.into())
        }
        Command::QueryInfo => query_info(d, known),
        Command::SetInfo => set_info(d, known),
        Command::OplockBreak => acknowledgement(d, known),
        Command::TreeConnect => {
            let share =
                d.of(&["files", "files", "listed", "listed", "shut", "home", "IPC$", "FILES", "none", ""]);
            let host = d.of(&[r"\\10.0.0.1\", r"\\FILES\", r"\\x\y\", "", r"\"]);
            let path = utf16(&format!("{host}{share}"));
            Out::sized(9)
                .u16(d.of(&[0, 0, 0, 1, 2, 4]))
                .u16(72)
                .u16(path.len() as u16)
                .bytes(&path)
                .made(share.len() as u32, 0)
        }
        Command::ServerToClientNotification => Out::sized(12).u16(0).u32(0).u32(0).made(0, 0),
        // NEGOTIATE and SESSION_SETUP are made by the sign-in; here they are odd.
        Command::Negotiate => {
            let n = d.below(6) as u16;
            let mut out = Out::sized(36).u16(n).u16(1).u16(0).u32(d.small() as u32).bytes(&[7; 16]);
            out = out.u32(d.of(&[0, 112, 104, 65_535])).u16(d.of(&[0, 1, 4, 65_535])).u16(0);
            for _ in 0..n {
                out = out.u16(d.of(&[0x0202, 0x0210, 0x0300, 0x0302, 0x0311, 0x02ff]));
            }
            out.bytes(&[0; 8]).made(0, 0)
        }
        Command::SessionSetup => {
            let n = d.below(80);
            let token = d.bytes(n);
            let previous = if d.one_in(3) {
                d.of(&[0, 1, u64::MAX])
            } else {
                known.sessions.last().copied().unwrap_or(0)
            };
            let out =
                Out::sized(25).u8(d.of(&[0, 0, 1])).u8(1).u32(1).u32(0).u16(88).u16(n as u16).u64(previous);
            out.bytes(&token).made(0, 0)
        }
        Command::Logoff | Command::TreeDisconnect | Command::Cancel | Command::Echo => {
            Out::sized(4).u16(0).made(0, 0)
        }
    }
}

/// Changes one field, or makes the body shorter or longer.
pub(super) fn mutate(d: &mut Decisions<'_>, body: &mut Vec<u8>) {
    for _ in 0..=d.below(3) {
        let at = usize::from(d.u16()) % body.len().max(1);
        // Fields of fixed parts, rather than of data.
        let at = if d.one_in(3) { at } else { at % 64.min(body.len().max(1)) };
        let value = d.edge();
        let width = d.of(&[1, 2, 2, 4, 4, 8]);
        match d.below(8) {
            7 => body.truncate(at),
            6 => body.extend(d.bytes(8)),
            _ => {
                for (place, byte) in body.iter_mut().skip(at).zip(value.to_le_bytes()).take(width) {
                    *place = byte;
                }
            }
        }
    }
}

fn length(d: &mut Decisions<'_>) -> u32 {
    d.of(&[0, 1, 10, 512, 4096, 5000, 16_384, 32_768, 65_535, 65_536, 65_537, 1 << 20, u32::MAX])
}

fn answer_len(d: &mut Decisions<'_>) -> u32 {
    d.of(&[65_536, 4096, 4096, 1024, 256, 100, 64, 8, 1, 0, 65_537, u32::MAX])
}

fn offset(d: &mut Decisions<'_>) -> u64 {
    match d.below(8) {
        7 => d.edge(),
        6 => u64::from(d.u16()) << 6,
        _ => d.of(&[0, 0, 1, 100, 4096, 8192, 40_000, 65_536, 1 << 20]),
    }
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn name(d: &mut Decisions<'_>) -> Vec<u8> {
    const NAMES: [&str; 48] = [
        "a",
        "b",
        "c",
        "d",
        "d\\x",
        "d\\y",
        "d\\sub",
        "d\\sub\\new",
        "new",
        "A",
        "D\\X",
        "a:s",
        "a:t:$DATA",
        "a::$DATA",
        "",
        "b:s", //
        "link",
        "out",
        "loop",
        "link\\x",
        "out\\passwd",
        "..",
        "d\\..\\a",
        "d\\.\\x",
        "a.",
        "a ",
        ".hidden",
        "secret1",
        "desktop.ini",
        "CON",
        "NEW~1",
        "home\\alice", //
        "d:s",
        "d::$INDEX_ALLOCATION",
        "a:AFP_AfpInfo",
        "a:AFP_Resource:$DATA",
        "a*",
        "a?",
        "\\a",
        "d\\",
        "none\\x",
        "a\\x",
        "a:s:$BAD",
        ":s",
        "a:",
        "@GMT-2020.01.01-00.00.00\\a",
        "srvsvc",
        "lsarpc",
    ];
    match d.below(60) {
        at if at < 48 => utf16(NAMES[at]),
        48 => utf16("wkssvc"),
        49 => utf16(&"n".repeat(255)),
        50 => utf16(&"n".repeat(256)),
        51 => utf16(&"d\\".repeat(130)),
        // Half of a surrogate pair, and what maps to a byte that names cannot have.
        52 => vec![b'x', 0, 0, 0xd8],
        53 => vec![0x22, 0xf0, b'x', 0],
        54 => vec![b'x', 0, 0, 0, b'y', 0],
        55 => vec![b'x', 0, b'y'],
        56 => utf16("\u{e9}\u{df}\u{1f600}"),
        57 => utf16("e\u{301}ß"),
        _ => {
            let n = d.below(12);
            utf16(&format!("f{n}"))
        }
    }
}

fn pattern(d: &mut Decisions<'_>) -> Vec<u8> {
    utf16(d.of(&[
        "*",
        "*",
        "*",
        "",
        "a",
        "A*",
        "d",
        "?",
        "<",
        ">>",
        "*.*",
        "<.txt",
        "\"x",
        "*a*b*c*d*",
        "d\\*",
        "nothing*",
        "*\u{0}",
    ]))
}

fn create(d: &mut Decisions<'_>, known: &mut Known) -> Made {
    let oplock = d.of(&[0, 0, 1, 8, 9, 0xff, 0xff, 0xff, 7]);
    let access = d.of(&[
        0x0012_019f,
        0x0012_019f,
        0x001f_01ff,
        0x0012_0089,
        0x0001_0080,
        0x0200_0000,
        0x1000_0000,
        0x8000_0000,
        0x80,
        0x0100_0000,
        0,
        4,
        0x000c_0000,
    ]);
    let attributes = d.of(&[0, 0x80, 0x10, 1, 2, 0x26, 0x200, 0x100, 0x4000, u32::MAX]);
    let share = d.of(&[7, 7, 7, 7, 0, 1, 3, 4, 0xff]);
    let disposition = d.of(&[3, 3, 3, 1, 1, 2, 0, 5, 4, 6]);
    let options = d.of(&[
        0,
        0,
        0,
        0x40,
        0x40,
        1,
        1,
        0x21,
        0x1000,
        0x1041,
        0x20_0000,
        0x20_0040,
        0x1_0000,
        0x8,
        0x2,
        0x100,
        0x2000,
        0x4000,
        0x10,
        u32::MAX,
    ]);
    let name = name(d);
    let contexts = contexts(d, known, oplock == 0xff);
    let out = Out::sized(57).u8(0).u8(oplock).u32(d.of(&[2, 2, 2, 0, 3, 4])).u64(0).u64(0);
    let out = out.u32(access).u32(attributes).u32(share).u32(disposition).u32(options);
    let names_at = 120u32;
    let padded = name.len().next_multiple_of(8).max(8);
    let (at, len) =
        if contexts.is_empty() { (0, 0) } else { (names_at + padded as u32, contexts.len() as u32) };
    let out = out.u16(names_at as u16).u16(name.len() as u16).u32(at).u32(len);
    let mut buffer = name;
    buffer.resize(padded, 0);
    out.bytes(&buffer).bytes(&contexts).made(u32::from(oplock) << 8 | disposition, 0)
}

fn key(d: &mut Decisions<'_>, keys: &mut Vec<[u8; 16]>) -> [u8; 16] {
    let n = d.below(6);
    if n < 4 {
        let key = [n as u8 + 1; 16];
        if !keys.contains(&key) {
            keys.push(key);
        }
        return key;
    }
    keys.last().copied().unwrap_or([9; 16])
}

fn contexts(d: &mut Decisions<'_>, known: &mut Known, leased: bool) -> Vec<u8> {
    let mut out = ContextWriter::new();
    if leased {
        let (key, state) = (key(d, &mut known.leases), d.of(&[7u32, 7, 3, 1, 5, 0, 4, 2, u32::MAX]));
        let mut lease =
            [&key[..], &state.to_le_bytes(), &d.of(&[0u32, 0, 4, 2]).to_le_bytes(), &[0; 8]].concat();
        if d.one_in(2) {
            lease.extend([d.below(5) as u8; 16]);
            lease.extend(d.u16().to_le_bytes());
            lease.extend([0; 2]);
        }
        out.push(tag::LEASE, &lease);
    }
    let n = d.of(&[0, 0, 0, 1, 1, 2, 3, 5]);
    for _ in 0..n {
        match d.below(18) {
            0 => out.push(tag::DURABLE_REQUEST, &[0; 16]),
            1 | 2 => {
                let guid = key(d, &mut known.guids);
                let timeout = d.of(&[0u32, 1, 1000, 60_000, 300_000, u32::MAX]);
                let flags = d.of(&[0u32, 0, 2, 1]);
                out.push(
                    tag::DURABLE_REQUEST_V2,
                    &[&timeout.to_le_bytes()[..], &flags.to_le_bytes(), &[0; 8], &guid].concat(),
                );
            }
            3 => out.push(tag::DURABLE_RECONNECT, &file(d, known)),
            4 | 5 => {
                let (file, guid) = (file(d, known), key(d, &mut known.guids));
                out.push(
                    tag::DURABLE_RECONNECT_V2,
                    &[&file[..], &guid, &d.of(&[0u32, 2]).to_le_bytes()].concat(),
                );
            }
            6 => out.push(tag::ALLOCATION_SIZE, &d.edge().to_le_bytes()),
            7 => out.push(tag::MAXIMAL_ACCESS, if d.one_in(2) { &[0; 8] } else { &[] }),
            8 => out.push(tag::ON_DISK_ID, &[]),
            9 => out.push(tag::TIMEWARP, &d.edge().to_le_bytes()),
            10 => out.push(tag::EA_BUFFER, &attributes(d)),
            11 => out.push(tag::SD_BUFFER, &descriptor(d)),
            12 => {
                let id = [d.below(3) as u8; 16];
                out.push(tag::APP_INSTANCE_ID, &[&[20, 0, 0, 0][..], &id].concat());
            }
            13 => {
                let version =
                    [&[24, 0, 0, 0, 0, 0, 0, 0][..], &d.small().to_le_bytes(), &d.small().to_le_bytes()]
                        .concat();
                out.push(tag::APP_INSTANCE_VERSION, &version);
            }
            14 => out.push(
                tag::AAPL,
                &[&d.of(&[1u32, 2]).to_le_bytes()[..], &[0; 4], &d.small().to_le_bytes(), &[0; 8]].concat(),
            ),
            15 => out.push(tag::POSIX, &d.of(&[0o644u32, 0o1777, u32::MAX]).to_le_bytes()),
            16 => {
                let n = d.below(20);
                out.push(b"ABCD", &d.bytes(n));
            }
            // A context that there is, with other data.
            _ => {
                let tag = d.of(&[
                    tag::LEASE,
                    tag::DURABLE_REQUEST_V2,
                    tag::EA_BUFFER,
                    tag::SD_BUFFER,
                    tag::APP_INSTANCE_ID,
                    tag::AAPL,
                ]);
                let n = d.below(60);
                out.push(tag, &d.bytes(n));
            }
        }
    }
    let mut bytes = out.bytes().to_vec();
    if d.one_in(16) {
        mutate(d, &mut bytes);
    }
    bytes
}

/// Makes a list of extended attributes.
fn attributes(d: &mut Decisions<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let n = d.below(4);
    for at in 0..=n {
        let name = d.of(&["A", "user.x", "LONGNAME", "", "com.apple.x", "\u{1}", "A"]);
        let len = d.of(&[0usize, 1, 10, 200, 300, 5000, 65_535]);
        let mut entry = Out::default()
            .u8(d.of(&[0, 0, 0, 0x80]))
            .u8(name.len() as u8)
            .u16(len as u16)
            .bytes(name.as_bytes());
        entry = entry.u8(0).bytes(&vec![d.byte(); len.min(6000)]);
        let next = if at == n { 0 } else { (4 + entry.0.len()).next_multiple_of(4) as u32 };
        let start = out.len();
        out.extend(next.to_le_bytes());
        out.extend(entry.0);
        if next > 0 {
            out.resize(start + next as usize, 0);
        }
    }
    if d.one_in(8) {
        mutate(d, &mut out);
    }
    out
}

fn sid(d: &mut Decisions<'_>) -> Vec<u8> {
    let (authority, parts): (u8, Vec<u32>) = match d.below(10) {
        0 => (1, vec![0]),
        1 => (5, vec![18]),
        2 => (22, vec![1, 1000]),
        3 => (22, vec![2, 100]),
        4 => (3, vec![0]),
        5 => (3, vec![1]),
        6 => (5, vec![32, 544]),
        7 => (5, vec![21, 1, 2, 3, d.u16().into()]),
        8 => (5, vec![88, 3, 0o644]),
        _ => (d.byte(), (0..d.below(17)).map(|_| d.u32()).collect()),
    };
    let mut out = vec![1, parts.len() as u8, 0, 0, 0, 0, 0, authority];
    parts.iter().for_each(|part| out.extend(part.to_le_bytes()));
    out
}

fn list(d: &mut Decisions<'_>) -> Vec<u8> {
    let n = d.of(&[0usize, 1, 2, 3, 8, 40, 200]);
    let mut entries = Vec::new();
    let (mask, flags, who) =
        (d.of(&[0x001f_01ffu32, 0x0012_0089, 0x1000_0000, 0, u32::MAX]), d.of(&[0u8, 3, 0x13, 0xb]), sid(d));
    for at in 0..n {
        let (kind, who) = if at < 4 { (d.of(&[0u8, 0, 1, 2, 5, 17]), sid(d)) } else { (0, who.clone()) };
        let mask = if at < 4 { d.of(&[mask, 0x001f_01ff, 1]) } else { mask };
        entries.extend([kind, flags]);
        entries.extend((8 + who.len() as u16).to_le_bytes());
        entries.extend(mask.to_le_bytes());
        entries.extend(who);
    }
    let mut out = vec![d.of(&[2, 2, 4, 1]), 0];
    out.extend((8 + entries.len() as u16).to_le_bytes());
    out.extend((n as u16).to_le_bytes());
    out.extend([0; 2]);
    out.extend(entries);
    out
}

/// Makes a security descriptor, relative to itself.
fn descriptor(d: &mut Decisions<'_>) -> Vec<u8> {
    let control = d.of(&[0x8004u16, 0x8404, 0x9404, 0x8000, 0x8014, 0x0004, u16::MAX]);
    let mut out = vec![1, 0];
    out.extend(control.to_le_bytes());
    out.extend([0; 16]);
    for part in 0..4usize {
        let bytes = match part {
            _ if d.one_in(3) => continue,
            0 | 1 => sid(d),
            _ => list(d),
        };
        let at = out.len() as u32;
        out[4 + 4 * part..8 + 4 * part].copy_from_slice(&at.to_le_bytes());
        out.extend(bytes);
        out.resize(out.len().next_multiple_of(4), 0);
    }
    if d.one_in(6) {
        mutate(d, &mut out);
    }
    out
}

fn lock(d: &mut Decisions<'_>, known: &Known) -> Made {
    let (n, sequence, file) =
        (d.of(&[1usize, 1, 1, 2, 3, 0, 64, 65]), d.of(&[0u32, 0, 0x11, 0x12, 0xffff_ffff]), file(d, known));
    let mut out = Out::sized(48).u16(n as u16).u32(sequence).bytes(&file);
    let flags = d.of(&[0x12u32, 0x11, 0x12, 0x11, 2, 1, 4, 0x14, 0, 3]);
    for at in 0..n.max(1) {
        let (offset, length) =
            if at < 3 { (offset(d), d.of(&[10u64, 1, 0, 100, u64::MAX, 4096])) } else { (at as u64 * 16, 8) };
        let flags = if d.one_in(4) { d.of(&[4, 2, 1, 0x12]) } else { flags };
        out = out.u64(offset).u64(length).u32(flags).u32(0);
    }
    out.made(flags, 0)
}

fn query_info(d: &mut Decisions<'_>, known: &Known) -> Made {
    let kind = d.of(&[1u8, 1, 1, 1, 2, 3, 3, 4, 0]);
    let class = match kind {
        2 => d.of(&[1u8, 2, 3, 4, 5, 6, 7, 8, 11, 100, 9]),
        3 => 0,
        _ => d.of(&[
            4u8, 5, 6, 7, 8, 9, 14, 15, 16, 17, 18, 21, 22, 23, 24, 28, 34, 35, 48, 59, 100, 64, 0, 255,
        ]),
    };
    let (answer, file) = (answer_len(d), file(d, known));
    let input = match (kind, class) {
        (1, 15) if d.one_in(2) => {
            // FILE_GET_EA_INFORMATION
            let name = d.of(&["A", "user.x", "LONGNAME", ""]);
            [&[0, 0, 0, 0, name.len() as u8][..], name.as_bytes(), &[0]].concat()
        }
        _ => Vec::new(),
    };
    let additional = d.of(&[7u32, 4, 1, 0xf, 0x10, 0xffff_ffff, 0]);
    let out = Out::sized(41).u8(kind).u8(class).u32(answer).u16(104).u16(0).u32(input.len() as u32);
    let out = out.u32(additional).u32(d.of(&[0, 1, 2, 4, 7])).bytes(&file).bytes(&input);
    out.made(u32::from(kind) << 8 | u32::from(class), answer.into())
}

fn set_info(d: &mut Decisions<'_>, known: &Known) -> Made {
    let (kind, class) = d.of(&[
        (1u8, 4u8),
        (1, 10),
        (1, 10),
        (1, 65),
        (1, 11),
        (1, 13),
        (1, 13),
        (1, 64),
        (1, 64),
        (1, 15),
        (1, 19),
        (1, 20),
        (1, 20),
        (1, 14),
        (1, 16),
        (1, 39),
        (1, 40),
        (1, 23),
        (3, 0),
        (3, 0),
        (4, 0),
        (2, 6),
        (2, 2),
        (1, 100),
    ]);
    let data = match (kind, class) {
        (1, 4) => {
            let mut out = Out::default();
            for _ in 0..4 {
                out = out.u64(d.of(&[0, u64::MAX, u64::MAX - 1, 0x01d0_0000_0000_0000, 1, i64::MAX as u64]));
            }
            out.u32(d.of(&[0, 0x80, 1, 2, 0x10, 0x200, u32::MAX])).u32(0).0
        }
        (1, 10 | 65 | 11) => {
            let name = name(d);
            let root = if d.one_in(16) { d.small() } else { 0 };
            Out::default()
                .u8(d.of(&[0, 1, 3, 0x43]))
                .bytes(&[0; 7])
                .u64(root)
                .u32(name.len() as u32)
                .bytes(&name)
                .0
        }
        (1, 13) => vec![d.of(&[1, 1, 0, 2])],
        (1, 64) => Out::default().u32(d.of(&[1, 3, 0, 0x13, 9, 0xb, u32::MAX])).0,
        (1, 15) => attributes(d),
        (1, 19 | 20 | 14 | 39) => d.edge().to_le_bytes().to_vec(),
        (1, 16 | 23) => Out::default().u32(d.of(&[0, 2, 8, 0x10, u32::MAX])).u32(0).0,
        (1, 40) => {
            let name = name(d);
            Out::default().u32(name.len() as u32).bytes(&name).0
        }
        (3, _) => descriptor(d),
        _ => {
            let n = d.below(60);
            d.bytes(n)
        }
    };
    let (additional, file) =
        (if kind == 3 { d.of(&[4u32, 7, 1, 2, 8, 0xf, 0x10, 0]) } else { 0 }, file(d, known));
    let out = Out::sized(33)
        .u8(kind)
        .u8(class)
        .u32(data.len() as u32)
        .u16(96)
        .u16(0)
        .u32(additional)
        .bytes(&file)
        .bytes(&data);
    out.made(u32::from(kind) << 8 | u32::from(class), 0)
}

fn acknowledgement(d: &mut Decisions<'_>, known: &mut Known) -> Made {
    if !known.breaks.is_empty() && !d.one_in(6) {
        let at = d.below(known.breaks.len());
        let body = if d.one_in(8) { known.breaks[at].clone() } else { known.breaks.swap_remove(at) };
        return Out(body).made(1, 0);
    }
    if d.one_in(2) {
        let key = if known.leases.is_empty() { [1; 16] } else { d.of(&known.leases) };
        let out = Out::sized(36).u16(0).u32(d.below(3) as u32).bytes(&key).u32(d.below(9) as u32).u64(0);
        return out.made(2, 0);
    }
    Out::sized(24).u8(d.of(&[0, 1, 8, 9, 0xff])).u8(0).u32(0).bytes(&file(d, known)).made(3, 0)
}

fn ioctl(d: &mut Decisions<'_>, known: &Known) -> Made {
    let code = d.of(&[
        code::SRV_REQUEST_RESUME_KEY,
        code::SRV_REQUEST_RESUME_KEY,
        code::SRV_COPYCHUNK,
        code::SRV_COPYCHUNK_WRITE,
        code::SRV_COPYCHUNK,
        code::DUPLICATE_EXTENTS_TO_FILE,
        code::DUPLICATE_EXTENTS_TO_FILE_EX,
        code::SET_ZERO_DATA,
        code::SET_ZERO_DATA,
        code::SET_SPARSE,
        code::QUERY_ALLOCATED_RANGES,
        code::SET_REPARSE_POINT,
        code::GET_REPARSE_POINT,
        code::DELETE_REPARSE_POINT,
        code::GET_COMPRESSION,
        code::SET_COMPRESSION,
        code::CREATE_OR_GET_OBJECT_ID,
        code::PIPE_TRANSCEIVE,
        code::PIPE_TRANSCEIVE,
        code::PIPE_PEEK,
        code::PIPE_WAIT,
        code::VALIDATE_NEGOTIATE_INFO,
        code::QUERY_NETWORK_INTERFACE_INFO,
        code::LMR_REQUEST_RESILIENCY,
        code::SRV_ENUMERATE_SNAPSHOTS,
        code::DFS_GET_REFERRALS,
        code::FILE_LEVEL_TRIM,
        code::OFFLOAD_READ,
        code::TEST_ASYNC_SLEEP,
        code::TEST_PAD_READS,
        code::TEST_PAD_IOCTL,
        code::TEST_FORCE_UNACKED,
        0x0009_ffff,
    ]);
    let file = match code {
        code::VALIDATE_NEGOTIATE_INFO
        | code::QUERY_NETWORK_INTERFACE_INFO
        | code::DFS_GET_REFERRALS
        | code::PIPE_WAIT
            if !d.one_in(4) =>
        {
            [0xff; 16]
        }
        _ => file(d, known),
    };
    let input = match code {
        code::SRV_COPYCHUNK | code::SRV_COPYCHUNK_WRITE => {
            let key = if known.resume_keys.is_empty() || d.one_in(16) {
                [d.byte(); 24]
            } else {
                d.of(&known.resume_keys)
            };
            let n = d.of(&[1u32, 1, 2, 4, 0, 16, 256, 257, u32::MAX]);
            let mut out = Out::default().bytes(&key).u32(n).u32(0);
            for at in 0..n.min(257) {
                let (from, to, len) =
                    if at < 4 { (offset(d), offset(d), length(d)) } else { (0, u64::from(at) << 12, 4096) };
                out = out.u64(from).u64(to).u32(len).u32(0);
            }
            out.0
        }
        code::DUPLICATE_EXTENTS_TO_FILE | code::DUPLICATE_EXTENTS_TO_FILE_EX => {
            let source = self::file(d, known);
            let (from, to, len) = (
                d.of(&[0u64, 4096, 1, 65_536, u64::MAX]),
                d.of(&[0u64, 4096, 3, 1 << 40]),
                d.of(&[4096u64, 8192, 0, 1, 1 << 40]),
            );
            let out = if code == code::DUPLICATE_EXTENTS_TO_FILE {
                Out::default()
            } else {
                Out::default().u64(0x30)
            };
            let out = out.bytes(&source).u64(from).u64(to).u64(len);
            if code == code::DUPLICATE_EXTENTS_TO_FILE { out.0 } else { out.u32(d.below(3) as u32).u32(0).0 }
        }
        code::SET_ZERO_DATA | code::QUERY_ALLOCATED_RANGES => Out::default().u64(offset(d)).u64(d.edge()).0,
        code::SET_SPARSE => d.bytes(1),
        code::SET_COMPRESSION => Out::default().u16(d.of(&[0, 1, 2, 3])).0,
        code::SET_REPARSE_POINT => {
            let target = utf16(d.of(&["d\\x", "a", "..\\..\\x", "\\??\\C:\\x", "", "loop2", "d"]));
            let relative = u32::from(!d.one_in(4));
            let body = Out::default()
                .u16(0)
                .u16(target.len() as u16)
                .u16(target.len() as u16)
                .u16(target.len() as u16)
                .u32(relative);
            let body = body.bytes(&target).bytes(&target).0;
            let tag = d.of(&[0xa000_000cu32, 0xa000_000c, 0x8000_0014, 0xa000_0003, 0]);
            let mut out = Out::default().u32(tag).u16(body.len() as u16).u16(0).bytes(&body).0;
            if d.one_in(6) {
                mutate(d, &mut out);
            }
            out
        }
        code::DELETE_REPARSE_POINT => Out::default().u32(0xa000_000c).u16(0).u16(0).0,
        code::PIPE_TRANSCEIVE => rpc(d),
        code::PIPE_WAIT => {
            let name = utf16(d.of(&["srvsvc", "x", ""]));
            Out::default().u64(d.small()).u32(name.len() as u32).u8(1).u8(0).bytes(&name).0
        }
        code::VALIDATE_NEGOTIATE_INFO => {
            Out::default()
                .u32(d.of(&[0x7f, 4, 0]))
                .bytes(&[9; 16])
                .u16(1)
                .u16(1)
                .u16(d.of(&[0x0210, 0x0300, 0x0302, 0x0311]))
                .0
        }
        code::LMR_REQUEST_RESILIENCY => Out::default().u32(d.edge() as u32).u32(0).0,
        code::DFS_GET_REFERRALS => Out::default().u16(4).bytes(&utf16(r"\FILES\files")).u16(0).0,
        code::TEST_ASYNC_SLEEP => Out::default().u32(d.of(&[0, 1, 50, 5000])).0,
        _ => {
            let n = d.below(40);
            d.bytes(n)
        }
    };
    let answer = answer_len(d);
    let out = Out::sized(57).u16(0).u32(code).bytes(&file).u32(120).u32(input.len() as u32).u32(d.of(&[
        0,
        0,
        0,
        u32::MAX,
    ]));
    let out = out.u32(0).u32(0).u32(answer).u32(d.of(&[1, 1, 1, 0])).u32(0);
    debug_assert_eq!(out.here(), 120);
    out.bytes(&input).made(code, answer.into())
}

/// Makes a fragment of DCE/RPC: a bind, or a call.
pub(super) fn rpc(d: &mut Decisions<'_>) -> Vec<u8> {
    // srvsvc, wkssvc, lsarpc
    const INTERFACES: [([u8; 16], u32); 3] = [
        ([0xc8, 0x4f, 0x32, 0x4b, 0x70, 0x16, 0xd3, 0x01, 0x12, 0x78, 0x5a, 0x47, 0xbf, 0x6e, 0xe1, 0x88], 3),
        ([0x98, 0xd0, 0xff, 0x6b, 0x12, 0xa1, 0x10, 0x36, 0x98, 0x33, 0x46, 0xc3, 0xf8, 0x7e, 0x34, 0x5a], 1),
        ([0x78, 0x57, 0x34, 0x12, 0x34, 0x12, 0xcd, 0xab, 0xef, 0x00, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab], 0),
    ];
    const NDR: [u8; 16] =
        [0x04, 0x5d, 0x88, 0x8a, 0xeb, 0x1c, 0xc9, 0x11, 0x9f, 0xe8, 0x08, 0x00, 0x2b, 0x10, 0x48, 0x60];
    let (kind, rest) = if d.one_in(2) {
        let (interface, version) = d.of(&INTERFACES);
        let out = Out::default().u16(4280).u16(4280).u32(0).u32(d.of(&[1, 1, 2, 0])).u16(0).u16(1);
        (d.of(&[11u8, 11, 14]), out.bytes(&interface).u32(version).bytes(&NDR).u32(2).0)
    } else {
        let n = d.below(120);
        let operation = d.of(&[15u16, 16, 21, 0, 10, 44, 45, 46, 57, 58, 6, 77, 255]);
        let mut stub = Out::default()
            .u32(0x20000)
            .u32(8)
            .u32(0)
            .u32(8)
            .bytes(&utf16(r"\\FILES"))
            .u16(0)
            .u32(1)
            .u32(1)
            .u32(0x20004)
            .0;
        if d.one_in(2) {
            stub = d.bytes(n);
        }
        (0u8, Out::default().u32(stub.len() as u32).u16(0).u16(operation).bytes(&stub).0)
    };
    let flags = d.of(&[3u8, 3, 3, 1, 2, 0]);
    let mut out = Out::default()
        .u8(5)
        .u8(0)
        .u8(kind)
        .u8(flags)
        .bytes(&[0x10, 0, 0, 0])
        .u16(16 + rest.len() as u16)
        .u16(0)
        .u32(1)
        .bytes(&rest)
        .0;
    if d.one_in(6) {
        mutate(d, &mut out);
    }
    out
}
