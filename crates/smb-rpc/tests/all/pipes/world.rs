//! A server's facts, and a client that builds its fragments by hand.

use std::sync::Arc;

use identity::{Accounts, Principal};
use smb_rpc::{Answer, Facts, Pipe, ShareFact, ShareKind};
use smb_sid::Sids;
use smb_wire::Status;

pub(crate) const SRVSVC: [u8; 20] =
    *b"\xc8\x4f\x32\x4b\x70\x16\xd3\x01\x12\x78\x5a\x47\xbf\x6e\xe1\x88\x03\0\0\0";
pub(crate) const WKSSVC: [u8; 20] =
    *b"\x98\xd0\xff\x6b\x12\xa1\x10\x36\x98\x33\x46\xc3\xf8\x7e\x34\x5a\x01\0\0\0";
pub(crate) const LSARPC: [u8; 20] =
    *b"\x78\x57\x34\x12\x34\x12\xcd\xab\xef\x00\x01\x23\x45\x67\x89\xab\0\0\0\0";
pub(crate) const NDR: [u8; 20] =
    *b"\x04\x5d\x88\x8a\xeb\x1c\xc9\x11\x9f\xe8\x08\x00\x2b\x10\x48\x60\x02\0\0\0";
pub(crate) const NDR64: [u8; 20] =
    *b"\x33\x05\x71\x71\xba\xbe\x37\x49\x83\x19\xb5\xdb\xef\x9c\xcc\x36\x01\0\0\0";

pub(crate) const SHARES: [ShareFact<'static>; 3] = [
    ShareFact {
        name: "data",
        kind: ShareKind::Disk,
        is_hidden: false,
        hides_unreadable: true,
        comment: "All of it",
        path: "/srv/data",
        users_max: None,
        users: 2,
    },
    ShareFact {
        name: "Häuser",
        kind: ShareKind::Disk,
        is_hidden: false,
        hides_unreadable: false,
        comment: "",
        path: "/srv/h",
        users_max: Some(5),
        users: 0,
    },
    ShareFact {
        name: "IPC$",
        kind: ShareKind::Pipe,
        is_hidden: true,
        hides_unreadable: false,
        comment: "",
        path: "",
        users_max: None,
        users: 1,
    },
];

pub(crate) struct World {
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) sids: Sids,
    pub(crate) shares: Vec<ShareFact<'static>>,
    pub(crate) caller: Principal,
}

impl World {
    /// Makes a world asked by `alice`, a common user; `root` is an administrator.
    pub(crate) fn new(caller: &str) -> Self {
        let accounts = Accounts::parse(
            "version = 1\n[user.alice]\nid = 1000\n[user.root]\nid = 1\n\
             [group.\"system:administrators\"]\nmembers = [\"root\"]\n[group.staff]\nid = -1000\nmembers = [\"alice\"]\n",
        )
        .unwrap();
        let caller = match caller {
            "anonymous" => accounts.anonymous(),
            name => accounts.user(name).unwrap(),
        };
        Self { accounts, sids: Sids::new("files"), shares: SHARES.to_vec(), caller }
    }

    pub(crate) fn facts(&self) -> Facts<'_> {
        Facts {
            server_name: "FILES",
            comment: "for tests",
            shares: &self.shares,
            accounts: &self.accounts,
            sids: &self.sids,
            caller: &self.caller,
            now_s: 951_782_399,
            uptime_ms: 5000,
        }
    }

    /// The pipe of that name, bound to its interface.
    pub(crate) fn bound(&self, name: &str) -> Pipe {
        let mut pipe = Pipe::open(name).unwrap();
        let syntax = match name {
            "srvsvc" => SRVSVC,
            "wkssvc" => WKSSVC,
            _ => LSARPC,
        };
        let answer = self.exchange(&mut pipe, &bind(11, &[(0, syntax, &[NDR])]));
        assert_eq!((answer[2], &answer[answer.len() - 24..answer.len() - 20]), (12, &[0; 4][..]));
        pipe
    }

    /// One message there and one back, whole.
    pub(crate) fn exchange(&self, pipe: &mut Pipe, message: &[u8]) -> Vec<u8> {
        let answer = pipe.transact(message, 1 << 20, &self.facts()).unwrap().unwrap();
        assert_eq!(answer.status, Status::SUCCESS);
        answer.data
    }

    /// Calls, and gives the results; a fault is an error.
    pub(crate) fn call(&self, pipe: &mut Pipe, number: u16, stub: &[u8]) -> Result<Vec<u8>, u32> {
        let first = self.exchange(pipe, &request(3, 0, number, stub));
        if first[2] == 3 {
            return Err(u32_at(&first, 24));
        }
        let mut stub = Vec::new();
        let mut fragment = first;
        loop {
            assert_eq!((fragment[2], u32_at(&fragment, 12)), (2, 7), "a response to call 7");
            stub.extend(&fragment[24..]);
            if fragment[3] & 2 != 0 {
                return Ok(stub);
            }
            let Answer { data, status } = pipe.read(1 << 20).unwrap().unwrap();
            assert_eq!(status, Status::SUCCESS);
            fragment = data;
        }
    }
}

pub(crate) fn fragment(kind: u8, flags: u8, body: &[u8]) -> Vec<u8> {
    let len = (16 + body.len()) as u16;
    let mut out = vec![5, 0, kind, flags, 0x10, 0, 0, 0];
    out.extend(len.to_le_bytes());
    out.extend([0, 0, 7, 0, 0, 0]);
    out.extend(body);
    out
}

/// A context that a bind asks for: its number, the interface, and transfer syntaxes.
pub(crate) type Context<'a> = (u16, [u8; 20], &'a [[u8; 20]]);

/// Kind 11 is bind, 14 alter context.
pub(crate) fn bind(kind: u8, contexts: &[Context<'_>]) -> Vec<u8> {
    let mut body = vec![0xb8, 0x10, 0xb8, 0x10, 0, 0, 0, 0, contexts.len() as u8, 0, 0, 0];
    for (number, interface, syntaxes) in contexts {
        body.extend(number.to_le_bytes());
        body.extend([syntaxes.len() as u8, 0]);
        body.extend(interface);
        body.extend(syntaxes.concat());
    }
    fragment(kind, 3, &body)
}

pub(crate) fn request(flags: u8, context: u16, number: u16, stub: &[u8]) -> Vec<u8> {
    let mut body = (stub.len() as u32).to_le_bytes().to_vec();
    body.extend(context.to_le_bytes());
    body.extend(number.to_le_bytes());
    body.extend(stub);
    fragment(0, flags, &body)
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap())
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Returns what a call returned: the last word.
pub(crate) fn returned(stub: &[u8]) -> u32 {
    u32_at(stub, stub.len() - 4)
}

/// Arguments: words, and texts as pointers to them take them.
#[derive(Default)]
pub(crate) struct Stub(pub(crate) Vec<u8>);

impl Stub {
    pub(crate) fn words(mut self, words: &[u32]) -> Self {
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self.0.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        self
    }

    pub(crate) fn text(self, text: &str) -> Self {
        let units: Vec<u16> = text.encode_utf16().chain([0]).collect();
        let len = units.len() as u32;
        let mut stub = self.words(&[len, 0, len]);
        stub.0.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
        stub
    }

    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }
}

/// Returns whether `stub` holds `text` in UTF-16.
pub(crate) fn holds(stub: &[u8], text: &str) -> bool {
    let wanted: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    stub.windows(wanted.len()).any(|part| part == wanted)
}
