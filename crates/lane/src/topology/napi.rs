//! NAPI instances and their interfaces, asked of the kernel by generic netlink (family `netdev`,
//! Documentation/netlink/specs/netdev.yaml, `napi-get`; Linux 6.8 and later).

use std::io;

use crate::netlink::{Attributes, NLM_F_ACK, NLM_F_DUMP, Netlink, attribute, u16_of, u32_of};

/// A NAPI instance, usually of one queue of a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Napi {
    /// Id of the instance, as `SO_INCOMING_NAPI_ID` reports it.
    pub id: u32,
    /// Index of the interface that the instance serves: the NIC, never the bond above.
    pub ifindex: u32,
}

/// Reads every instance of this network namespace, sorted by id.
///
/// # Errors
/// The kernel has no such family (`ENOENT`) or operation (`EOPNOTSUPP`, before 6.8), or does not answer.
pub fn napis() -> io::Result<Vec<Napi>> {
    let mut kernel = Netlink::generic()?;
    let mut family = None;
    let name = [FAMILY.as_bytes(), b"\0"].concat();
    let question = body(CTRL_CMD_GETFAMILY, &attribute(CTRL_ATTR_FAMILY_NAME, &name));
    kernel.ask(GENL_ID_CTRL, NLM_F_ACK, &question, |answer| {
        family = Attributes::after(answer, GENL_HEADER_BYTES).data(CTRL_ATTR_FAMILY_ID).and_then(u16_of);
    })?;
    let family = family.ok_or(io::ErrorKind::NotFound)?;
    let mut napis = Vec::new();
    kernel.ask(family, NLM_F_DUMP, &body(NETDEV_CMD_NAPI_GET, &[]), |answer| {
        let number = |kind| Attributes::after(answer, GENL_HEADER_BYTES).data(kind).and_then(u32_of);
        if let (Some(id), Some(ifindex)) = (number(NETDEV_A_NAPI_ID), number(NETDEV_A_NAPI_IFINDEX)) {
            napis.push(Napi { id, ifindex });
        }
    })?;
    napis.sort_unstable();
    Ok(napis)
}

/// Returns a message's body: generic netlink's header, `u8 command, u8 version`, two of padding, and the
/// attributes.
fn body(command: u8, attributes: &[u8]) -> Vec<u8> {
    [&[command, GENL_VERSION, 0, 0], attributes].concat()
}

const FAMILY: &str = "netdev";
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
}
