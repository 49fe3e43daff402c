//! NAPI instances: which belong to which interface, asked of the kernel by generic netlink (family `netdev`,
//! Documentation/netlink/specs/netdev.yaml, `napi-get`; Linux 6.8 and later). sysfs does not tell.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

/// One NAPI instance, usually one queue of a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Napi {
    /// Its id, as `SO_INCOMING_NAPI_ID` reports it.
    pub id: u32,
    /// The interface it serves: the NIC, never the bond above.
    pub ifindex: u32,
}

/// Every instance of this network namespace, sorted by id.
///
/// # Errors
/// The kernel has no such family (`ENOENT`) or operation (`EOPNOTSUPP`, before 6.8), or does not answer.
pub fn napis() -> io::Result<Vec<Napi>> {
    let mut kernel = Netlink::open()?;
    let mut family = None;
    let name = [FAMILY.as_bytes(), b"\0"].concat();
    kernel.ask(
        GENL_ID_CTRL,
        NLM_F_ACK,
        CTRL_CMD_GETFAMILY,
        &attribute(CTRL_ATTR_FAMILY_NAME, &name),
        |attributes| {
            family =
                attributes.find(|(kind, _)| *kind == CTRL_ATTR_FAMILY_ID).and_then(|(_, data)| u16_of(data));
        },
    )?;
    let family = family.ok_or(io::ErrorKind::NotFound)?;
    let mut napis = Vec::new();
    kernel.ask(family, NLM_F_DUMP, NETDEV_CMD_NAPI_GET, &[], |attributes| {
        let (mut id, mut ifindex) = (None, None);
        for (kind, data) in attributes {
            match kind {
                NETDEV_A_NAPI_ID => id = u32_of(data),
                NETDEV_A_NAPI_IFINDEX => ifindex = u32_of(data),
                _ => {}
            }
        }
        if let (Some(id), Some(ifindex)) = (id, ifindex) {
            napis.push(Napi { id, ifindex });
        }
    })?;
    napis.sort_unstable();
    Ok(napis)
}

/// A generic-netlink socket, for one question after the other.
struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    fn open() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(netlink::GENERIC))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Sends a question and shows the attributes of every message of the answer to `each`, until the kernel says
    /// that the answer is complete.
    fn ask(
        &mut self,
        family: u16,
        flags: u16,
        command: u8,
        attributes: &[u8],
        mut each: impl FnMut(&mut Attributes<'_>),
    ) -> io::Result<()> {
        self.sequence += 1;
        let question = message(family, NLM_F_REQUEST | flags, self.sequence, command, attributes);
        send(&self.socket, &question, SendFlags::empty())?;
        let mut buffer = vec![0; RECEIVE_BYTES];
        loop {
            let mut waiting = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN)];
            let patience = Timespec::try_from(PATIENCE).map_err(io::Error::other)?;
            if poll(&mut waiting, Some(&patience))? == 0 {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let (_, received) = recv(&self.socket, &mut buffer, RecvFlags::empty())?;
            let mut rest = &buffer[..received.min(buffer.len())];
            while let Some(Message { kind, sequence, payload, next }) = Message::parse(rest) {
                rest = next;
                if sequence != self.sequence {
                    continue;
                }
                match kind {
                    NLMSG_DONE => return Ok(()),
                    NLMSG_ERROR => return error_of(payload),
                    _ => each(&mut Attributes { rest: payload.get(GENL_HEADER_BYTES..).unwrap_or_default() }),
                }
            }
        }
    }
}

/// One received message: `u32 length, u16 kind, u16 flags, u32 sequence, u32 port`, then the payload.
struct Message<'a> {
    kind: u16,
    sequence: u32,
    payload: &'a [u8],
    next: &'a [u8],
}

impl<'a> Message<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let length = u32_of(bytes.get(..4)?)? as usize;
        let payload = bytes.get(HEADER_BYTES..length)?;
        let next = bytes.get(padded(length)..).unwrap_or_default();
        Some(Self { kind: u16_of(&bytes[4..6])?, sequence: u32_of(&bytes[8..12])?, payload, next })
    }
}

/// Attributes of a message: `u16 length, u16 kind`, the data, padding to a multiple of 4.
struct Attributes<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(u16_of(self.rest.get(..2)?)?);
        let kind = u16_of(self.rest.get(2..4)?)? & NLA_TYPE_MASK;
        let data = self.rest.get(4..length)?;
        self.rest = self.rest.get(padded(length)..).unwrap_or_default();
        Some((kind, data))
    }
}

fn message(family: u16, flags: u16, sequence: u32, command: u8, attributes: &[u8]) -> Vec<u8> {
    let length = (HEADER_BYTES + GENL_HEADER_BYTES + attributes.len()) as u32;
    let mut bytes = Vec::with_capacity(length as usize);
    bytes.extend_from_slice(&length.to_ne_bytes());
    bytes.extend_from_slice(&family.to_ne_bytes());
    bytes.extend_from_slice(&flags.to_ne_bytes());
    bytes.extend_from_slice(&sequence.to_ne_bytes());
    bytes.extend_from_slice(&0u32.to_ne_bytes());
    bytes.extend_from_slice(&[command, GENL_VERSION, 0, 0]);
    bytes.extend_from_slice(attributes);
    bytes
}

fn attribute(kind: u16, data: &[u8]) -> Vec<u8> {
    let length = 4 + data.len();
    let mut bytes = [(length as u16).to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend_from_slice(data);
    bytes.resize(padded(length), 0);
    bytes
}

/// The first field of an error message is the negated error number; 0 acknowledges.
fn error_of(payload: &[u8]) -> io::Result<()> {
    match payload.get(..4).and_then(u32_of).map(u32::cast_signed) {
        Some(0) => Ok(()),
        Some(error) => Err(io::Error::from_raw_os_error(error.saturating_neg())),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn u16_of(bytes: &[u8]) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.try_into().ok()?))
}

fn u32_of(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

fn padded(length: usize) -> usize {
    length.next_multiple_of(4)
}

const FAMILY: &str = "netdev";
// linux/netlink.h
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLA_TYPE_MASK: u16 = 0x3fff;
const HEADER_BYTES: usize = 16;
// linux/genetlink.h
const GENL_ID_CTRL: u16 = 16;
const GENL_HEADER_BYTES: usize = 4;
const GENL_VERSION: u8 = 1;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
// linux/netdev.h
const NETDEV_CMD_NAPI_GET: u8 = 11;
const NETDEV_A_NAPI_IFINDEX: u16 = 1;
const NETDEV_A_NAPI_ID: u16 = 2;
/// The kernel sends at most 32 KiB at once of a dump.
const RECEIVE_BYTES: usize = 64 << 10;
const PATIENCE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_lists_instances_of_interfaces_that_exist_or_says_that_it_cannot() {
        match napis() {
            Ok(napis) => {
                for napi in napis {
                    let exists = std::fs::read_dir("/sys/class/net").unwrap().any(|entry| {
                        let index = std::fs::read_to_string(entry.unwrap().path().join("ifindex"));
                        index.is_ok_and(|index| index.trim() == napi.ifindex.to_string())
                    });
                    assert!(exists && napi.id > 0, "{napi:?}");
                }
            }
            Err(error) => {
                let reasons = [libc::ENOENT, libc::EOPNOTSUPP, libc::EAFNOSUPPORT, libc::EPROTONOSUPPORT];
                assert!(error.raw_os_error().is_some_and(|code| reasons.contains(&code)), "{error}");
            }
        }
    }

    #[test]
    fn truncated_answers_end_the_reading() {
        let whole = message(20, 0, 7, 1, &attribute(NETDEV_A_NAPI_ID, &9u32.to_ne_bytes()));
        for length in 0..whole.len() {
            assert!(Message::parse(&whole[..length]).is_none());
        }
        let parsed = Message::parse(&whole).unwrap();
        let mut attributes = Attributes { rest: &parsed.payload[GENL_HEADER_BYTES..] };
        assert_eq!(attributes.next(), Some((NETDEV_A_NAPI_ID, &9u32.to_ne_bytes()[..])));
        assert_eq!(attributes.next(), None);
        assert_eq!(Attributes { rest: &[3, 0, 1] }.next(), None);
        assert_eq!(Attributes { rest: &[2, 0, 1, 0] }.next(), None);
        assert_eq!(Attributes { rest: &[200, 0, 1, 0] }.next(), None);
    }
}
