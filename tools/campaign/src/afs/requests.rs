//! Arguments of calls: valid ones of every procedure, and such with a word that is not.

use afs_wire::Fid;

use crate::decisions::Decisions;

/// Knowledge of the clients.
#[derive(Default)]
pub(super) struct Known {
    pub(super) roots: Vec<Fid>,
    pub(super) fids: Vec<Fid>,
}

/// A call: what is sent at once, and what is sent behind it.
pub(super) struct Made {
    pub(super) operation: u32,
    pub(super) arguments: Vec<u8>,
    pub(super) data: Vec<u8>,
    /// The request's reply begins with a file that was made.
    pub(super) makes: bool,
}

/// Big-endian words.
#[derive(Default)]
struct Out(Vec<u8>);

impl Out {
    fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn fid(self, fid: Fid) -> Self {
        self.u32(fid.volume).u32(fid.vnode).u32(fid.uniquifier)
    }

    fn opaque(mut self, bytes: &[u8]) -> Self {
        self = self.u32(bytes.len() as u32);
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }
}

fn fid(d: &mut Decisions<'_>, known: &Known) -> Fid {
    let last = known.fids.last().copied().unwrap_or(known.roots[0]);
    match d.below(20) {
        0..=5 => known.roots[0],
        6..=11 => last,
        17 => Fid { volume: d.u32(), ..last },
        18 => Fid { vnode: d.small() as u32, ..last },
        19 => Fid { uniquifier: d.small() as u32, ..last },
        16 => known.roots[1],
        _ if known.fids.is_empty() => last,
        _ => d.of(&known.fids),
    }
}

fn directory(d: &mut Decisions<'_>, known: &Known) -> Fid {
    if d.one_in(3) { fid(d, known) } else { known.roots[0] }
}

fn name(d: &mut Decisions<'_>) -> Vec<u8> {
    const NAMES: [&str; 20] = [
        "a",
        "d",
        "link",
        "mount",
        "many",
        "new",
        "b",
        "c",
        ".",
        "..",
        "",
        "x/y",
        ".hidden",
        "caf\u{e9}",
        "a",
        "new",
        "b",
        "d",
        "A",
        "file.@sys",
    ];
    match d.below(28) {
        at if at < 20 => NAMES[at].into(),
        20 => vec![b'n'; 255],
        21 => vec![b'n'; 256],
        22 => vec![b'n'; 257],
        23 => vec![0xff, 0xfe, b'x'],
        24 => vec![b'a', 0, b'b'],
        25 => b".__afs1234".to_vec(),
        _ => {
            let n = d.below(10);
            d.bytes(n)
        }
    }
}

fn change(d: &mut Decisions<'_>, out: Out) -> Out {
    let mask = d.of(&[0u32, 0, 1, 8, 9, 0xf, 0x1f, 1024, u32::MAX]);
    out.u32(mask)
        .u32(d.of(&[0, 1_700_000_000, u32::MAX]))
        .u32(d.of(&[0, 1000, u32::MAX]))
        .u32(0)
        .u32(d.of(&[0o644, 0, 0o7777, u32::MAX]))
        .u32(0)
}

fn fids(d: &mut Decisions<'_>, known: &Known, mut out: Out) -> Out {
    let n = d.of(&[0u32, 1, 2, 3, 10, 50, 51, u32::MAX]);
    out = out.u32(n);
    let one = fid(d, known);
    for at in 0..n.min(60) {
        out = out.fid(if at < 4 { fid(d, known) } else { one });
    }
    out
}

fn list(d: &mut Decisions<'_>) -> Vec<u8> {
    const LISTS: [&str; 12] = [
        "1\n0\nsystem:anyuser 127\n",
        "2\n0\nsystem:anyuser 9\nalice 127\n",
        "0\n0\n",
        "1\n1\nalice 127\nbob 1\n",
        "1\n0\nnobody-known 7\n",
        "1\n0\nsystem:anyuser -1\n",
        "999999\n0\n",
        "",
        "1\n0\n",
        "1\n0\nsystem:anyuser 99999999999\n",
        "-1\n-1\n",
        "1\n0\nsystem:authuser\t9\n",
    ];
    let mut text = match d.below(16) {
        at if at < 12 => LISTS[at].as_bytes().to_vec(),
        12 => {
            format!("20\n0\n{}", (0..20).map(|at| format!("user{at} 1\n")).collect::<String>()).into_bytes()
        }
        13 => vec![b'1'; 1023],
        _ => {
            let n = d.below(40);
            d.bytes(n)
        }
    };
    if !d.one_in(4) {
        text.push(0);
    }
    text
}

fn extent(d: &mut Decisions<'_>) -> (u64, u64) {
    let offset = if d.one_in(8) { d.edge() } else { d.of(&[0, 0, 1, 4096, 50_000, 90_000, 1 << 20]) };
    let len = if d.one_in(10) { d.edge() } else { d.of(&[0, 1, 100, 1400, 5000, 30_000, 65_536, 200_000]) };
    (offset, len)
}

/// Makes a call.
pub(super) fn made(d: &mut Decisions<'_>, known: &Known) -> Made {
    let operation = d.of(&[
        130u32,
        65_537,
        65_537,
        131,
        132,
        132,
        133,
        65_538,
        65_538,
        65_538,
        134,
        135,
        135,
        136,
        136,
        137,
        137,
        137,
        138,
        138,
        138,
        139,
        140,
        140,
        141,
        141,
        142,
        143,
        144,
        145,
        146,
        147,
        149,
        150,
        151,
        152,
        153,
        155,
        156,
        156,
        157,
        158,
        159,
        160,
        162,
        164,
        164,
        65_536,
        65_539,
        65_540,
        65_541,
        65_542,
        1_280_180_224,
        1_280_180_225,
        1_280_180_226,
        0,
        148,
        u32::MAX,
    ]);
    let out = Out::default();
    let (mut data, mut makes) = (Vec::new(), false);
    let out = match operation {
        130 => {
            let (offset, len) = extent(d);
            out.fid(fid(d, known)).u32(offset as u32).u32(len as u32)
        }
        65_537 => {
            let (offset, len) = extent(d);
            out.fid(fid(d, known)).u64(offset).u64(len)
        }
        133 | 65_538 => {
            let (offset, len) = extent(d);
            let file = fid(d, known);
            let end = if d.one_in(4) { d.edge() } else { offset.saturating_add(len) };
            let out = change(d, out.fid(file));
            // It lies about what follows.
            let sent = if d.one_in(5) { d.of(&[0u64, 1, 100, 70_000]) } else { len };
            data = vec![d.byte(); sent.min(300_000) as usize];
            if operation == 133 {
                out.u32(offset as u32).u32(len as u32).u32(end as u32)
            } else {
                out.u64(offset).u64(len).u64(end)
            }
        }
        131 | 132 | 144 | 145 | 157 | 158 => out.fid(fid(d, known)),
        134 | 164 => out.fid(fid(d, known)).opaque(&list(d)),
        135 => {
            let file = fid(d, known);
            change(d, out.fid(file))
        }
        136 | 142 => out.fid(directory(d, known)).opaque(&name(d)),
        137 | 141 => {
            makes = true;
            let out = out.fid(directory(d, known)).opaque(&name(d));
            change(d, out)
        }
        138 => out.fid(directory(d, known)).opaque(&name(d)).fid(directory(d, known)).opaque(&name(d)),
        139 => {
            makes = true;
            let out = out.fid(directory(d, known)).opaque(&name(d));
            let target = d.of(&["a", "d/x", "../..", "#files:root.", "%cell:files.", "", "/etc/passwd"]);
            let out = if d.one_in(8) {
                out.opaque(&vec![b't'; d.of(&[1023, 1024, 1025])])
            } else {
                out.opaque(target.as_bytes())
            };
            change(d, out)
        }
        140 => out.fid(directory(d, known)).opaque(&name(d)).fid(fid(d, known)),
        143 => out.fid(fid(d, known)).u32(d.of(&[0, 1, 2, u32::MAX])).u64(0).u64(0).u64(0),
        156 => out.fid(fid(d, known)).u32(d.of(&[0, 1, 1, 2, u32::MAX])),
        147 => {
            let out = fids(d, known, out);
            let n = d.of(&[0u32, 1, 2, 50]);
            (0..n * 3).fold(out.u32(n), |out, at| out.u32(at % 4))
        }
        149 => out.u32(d.of(&[known.roots[0].volume, known.roots[1].volume, 0, u32::MAX])),
        150 => out
            .u32(known.roots[0].volume)
            .u32(3)
            .u32(0)
            .u32(d.edge() as u32)
            .opaque(&name(d))
            .opaque(b"off")
            .opaque(b"motd"),
        152 => out.u32(d.u32()).opaque(&name(d)),
        155 | 65_536 => fids(d, known, out),
        160 => out.u32(d.small() as u32).u32(d.of(&[0, 1, 2, 3, u32::MAX])),
        162 => out.u32(2).u64(d.u64()).u32(1).u32(d.u32()).u32(0),
        65_541 => out.u32(d.u32()),
        65_542 => out.u32(d.small() as u32),
        1_280_180_225 | 1_280_180_226 => {
            let (offset, len) = extent(d);
            let mut out = out.fid(fid(d, known));
            if operation == 1_280_180_226 {
                out = change(d, out);
            }
            out = out.u64(offset).u64(len);
            if operation == 1_280_180_226 {
                out = out.u64(offset.saturating_add(len));
            }
            let n = d.of(&[0u32, 0, 0, 1, 8, 9]);
            let out = out
                .u32(d.of(&[1, 1, 1, 0, 2]))
                .u32(d.of(&[0, 0, 0, 1]))
                .u32(d.of(&[1, 1, 2, 8, 9, 0]))
                .u64(d.small())
                .u32(n);
            (0..n.min(9)).fold(out, |out, at| out.u64(u64::from(at) + 1))
        }
        _ => {
            let n = d.below(20);
            Out(d.bytes(n))
        }
    };
    let mut arguments = out.0;
    if d.one_in(10) {
        mutate(d, &mut arguments);
    }
    Made { operation, arguments, data, makes }
}

fn mutate(d: &mut Decisions<'_>, bytes: &mut Vec<u8>) {
    let at = d.below(256) % bytes.len().max(1);
    match d.below(6) {
        0 => bytes.truncate(at),
        1 => bytes.extend(d.bytes(7)),
        2 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = d.byte();
            }
        }
        _ => {
            let value = (d.edge() as u32).to_be_bytes();
            for (place, byte) in bytes.iter_mut().skip(at & !3).zip(value) {
                *place = byte;
            }
        }
    }
}
