//! Interfaces and their pipes.

use crate::facts::Facts;
use crate::lsarpc::{self, Handles};
use crate::ndr::{Reader, Writer};
use crate::pdu::{Fault, Syntax};
use crate::{srvsvc, wkssvc};

/// An interface, and the pipe of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interface {
    /// The server and its shares, MS-SRVS.
    Srvsvc,
    /// The machine as a workstation, MS-WKST.
    Wkssvc,
    /// Names and identifiers, MS-LSAD and MS-LSAT.
    Lsarpc,
}

const ALL: [(Interface, &str, Syntax); 3] = [
    (Interface::Srvsvc, "srvsvc", srvsvc::SYNTAX),
    (Interface::Wkssvc, "wkssvc", wkssvc::SYNTAX),
    (Interface::Lsarpc, "lsarpc", lsarpc::SYNTAX),
];

impl Interface {
    /// Returns the interface of the pipe of that name, as CREATE on `IPC$` has it; case does not matter.
    pub(crate) fn of_pipe(name: &str) -> Option<Self> {
        let name = name.strip_prefix('\\').unwrap_or(name).to_ascii_lowercase();
        ALL.iter().find(|(_, pipe, _)| *pipe == name).map(|(interface, _, _)| *interface)
    }

    /// Returns the name of its pipe.
    pub(crate) fn pipe(self) -> &'static str {
        ALL[self as usize].1
    }

    /// Returns whether it is the one that a client means.
    pub(crate) fn is(self, syntax: &Syntax) -> bool {
        // A client of a smaller minor version is served; there is none greater than 0 here.
        ALL[self as usize].2 == *syntax
    }

    /// Answers a call.
    pub(crate) fn call(
        self,
        number: u16,
        stub: &[u8],
        handles: &mut Handles,
        facts: &Facts<'_>,
    ) -> Result<Vec<u8>, Fault> {
        let mut read = Reader::new(stub);
        let mut out = Writer::default();
        match self {
            Self::Srvsvc => srvsvc::call(number, &mut read, &mut out, facts),
            Self::Wkssvc => wkssvc::call(number, &mut read, &mut out, facts),
            Self::Lsarpc => lsarpc::call(number, &mut read, &mut out, handles, facts),
        }?;
        Ok(out.into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_found_by_their_pipes() {
        for (index, (interface, pipe, syntax)) in ALL.iter().enumerate() {
            assert_eq!(*interface as usize, index);
            assert_eq!(Interface::of_pipe(pipe), Some(*interface));
            assert_eq!(Interface::of_pipe(&format!("\\{}", pipe.to_uppercase())), Some(*interface));
            assert!(interface.is(syntax) && !interface.is(&Syntax::NDR));
        }
        for name in ["", "samr", "\\\\srvsvc", "srvsvc\\", "pipe\\srvsvc"] {
            assert_eq!(Interface::of_pipe(name), None, "{name}");
        }
        assert_eq!(srvsvc::SYNTAX.id.to_string(), "4b324fc8-1670-01d3-1278-5a47bf6ee188");
        assert_eq!(wkssvc::SYNTAX.id.to_string(), "6bffd098-a112-3610-9833-46c3f87e345a");
        assert_eq!(lsarpc::SYNTAX.id.to_string(), "12345778-1234-abcd-ef00-0123456789ab");
        assert_eq!(Syntax::NDR.id.to_string(), "8a885d04-1ceb-11c9-9fe8-08002b104860");
    }
}
