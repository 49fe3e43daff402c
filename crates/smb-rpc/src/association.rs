//! Association that the two ends of a pipe have agreed on: fragments' length, and which interface a context
//! number means (C706 12.6.3.1, MS-RPCE 3.3.1.5).

use crate::interface::Interface;
use crate::pdu::{self, Broken, FRAGMENT_MAX, FRAGMENT_MIN, Fault, HEAD_LEN, Head, Syntax, flags, kind};

/// Contexts of one pipe, in all its binds.
pub(crate) const CONTEXTS_MAX: usize = 16;
/// Transfer syntaxes offered for one context.
const SYNTAXES_MAX: usize = 8;

/// Association of one pipe.
#[derive(Debug)]
pub(crate) struct Association {
    interface: Interface,
    /// Numbers that mean the interface.
    contexts: Vec<u16>,
    /// Longest fragment that the client takes; `None` before it has bound.
    fragment_max: Option<usize>,
}

/// Verdict on one context (C706 12.6.3.1, `p_cont_def_result_t`): result and reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Verdict(u16, u16);

impl Verdict {
    const ACCEPTED: Self = Self(0, 0);
    const NO_SUCH_INTERFACE: Self = Self(2, 1);
    const NO_SUCH_TRANSFER_SYNTAX: Self = Self(2, 2);
    const TOO_MANY: Self = Self(2, 3);
}

/// Reason why a bind is refused as a whole (MS-RPCE 2.2.2.5, `p_reject_reason_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
enum Refusal {
    /// Security of its own is not offered: the session is signed or sealed.
    AuthTypeNotRecognized = 8,
}

impl Association {
    pub(crate) fn new(interface: Interface) -> Self {
        Self { interface, contexts: Vec::new(), fragment_max: None }
    }

    /// Returns the longest fragment that the client takes.
    pub(crate) fn fragment_max(&self) -> usize {
        self.fragment_max.unwrap_or(FRAGMENT_MIN)
    }

    /// Returns whether any context means the interface.
    pub(crate) fn is_bound(&self) -> bool {
        !self.contexts.is_empty()
    }

    /// Returns the interface that a request of this context is for.
    pub(crate) fn interface(&self, context: u16) -> Result<Interface, Fault> {
        self.contexts.contains(&context).then_some(self.interface).ok_or(Fault::UNKNOWN_INTERFACE)
    }

    /// Answers `bind` and `alter_context`.
    pub(crate) fn bind(&mut self, head: &Head, body: &[u8]) -> Result<Vec<u8>, Broken> {
        let call = head.call.get();
        let is_alter = head.kind == kind::ALTER_CONTEXT;
        // Only what is bound can be altered, and nothing is bound twice.
        if is_alter != self.fragment_max.is_some() {
            return Err(Broken);
        }
        if head.auth_len.get() != 0 {
            //= MS-RPCE 3.3.1.5.2
            //# A security provider that the server does not have is refused with bind_nak, reason 8.
            return Ok(refused(call, Refusal::AuthTypeNotRecognized));
        }
        let (fixed, mut rest) = body.split_first_chunk::<12>().ok_or(Broken)?;
        let client_takes = usize::from(u16::from_le_bytes([fixed[2], fixed[3]]));
        let group = u32::from_le_bytes(fixed[4..8].try_into().expect("four of twelve"));
        let count = usize::from(fixed[8]);
        let mut verdicts = Vec::with_capacity(count);
        for _ in 0..count {
            let verdict;
            (verdict, rest) = self.context(rest)?;
            verdicts.push(verdict);
        }
        if !is_alter {
            self.fragment_max = Some(client_takes.clamp(FRAGMENT_MIN, FRAGMENT_MAX));
        }
        Ok(self.accepted(call, is_alter, group, &verdicts))
    }

    /// Returns what becomes of the context that `bytes` begin with.
    fn context<'a>(&mut self, bytes: &'a [u8]) -> Result<(Verdict, &'a [u8]), Broken> {
        let (head, rest) = bytes.split_first_chunk::<4>().ok_or(Broken)?;
        let number = u16::from_le_bytes([head[0], head[1]]);
        let offered = usize::from(head[2]);
        if offered > SYNTAXES_MAX {
            return Err(Broken);
        }
        let (interface, mut rest) = Syntax::read(rest)?;
        let mut has_ndr = false;
        for _ in 0..offered {
            let syntax;
            (syntax, rest) = Syntax::read(rest)?;
            has_ndr |= syntax == Syntax::NDR;
        }
        let verdict = match () {
            () if !self.interface.is(&interface) => Verdict::NO_SUCH_INTERFACE,
            //= MS-RPCE 3.3.1.5.6
            //# A transfer syntax that is not supported, such as NDR64, is rejected in its own context, and the client
            //# goes on with another one.
            () if !has_ndr => Verdict::NO_SUCH_TRANSFER_SYNTAX,
            () if self.contexts.contains(&number) => Verdict::ACCEPTED,
            () if self.contexts.len() == CONTEXTS_MAX => Verdict::TOO_MANY,
            () => {
                self.contexts.push(number);
                Verdict::ACCEPTED
            }
        };
        Ok((verdict, rest))
    }

    fn accepted(&self, call: u32, is_alter: bool, group: u32, verdicts: &[Verdict]) -> Vec<u8> {
        let answer = if is_alter { kind::ALTER_CONTEXT_RESPONSE } else { kind::BIND_ACK };
        pdu::write(answer, flags::FIRST | flags::LAST, call, |out| {
            let fragment = (self.fragment_max() as u16).to_le_bytes();
            out.extend(fragment);
            out.extend(fragment);
            // Pipes share no association: any number but zero will do.
            out.extend(if group == 0 { 0x53f0 } else { group }.to_le_bytes());
            let address =
                if is_alter { String::new() } else { format!("\\PIPE\\{}\0", self.interface.pipe()) };
            out.extend((address.len() as u16).to_le_bytes());
            out.extend(address.as_bytes());
            out.resize(out.len().next_multiple_of(4), 0);
            out.extend([verdicts.len() as u8, 0, 0, 0]);
            for verdict in verdicts {
                out.extend(verdict.0.to_le_bytes());
                out.extend(verdict.1.to_le_bytes());
                let syntax =
                    if *verdict == Verdict::ACCEPTED { Syntax::NDR } else { Syntax::new([0; 16], 0) };
                out.extend(zerocopy::IntoBytes::as_bytes(&syntax));
            }
        })
    }
}

fn refused(call: u32, refusal: Refusal) -> Vec<u8> {
    pdu::write(kind::BIND_NAK, flags::FIRST | flags::LAST, call, |out| {
        out.extend((refusal as u16).to_le_bytes());
        // One version of the protocol: 5.0.
        out.extend([1, 5, 0]);
    })
}

/// Parses the body of a request: context, number of the call, arguments.
pub(crate) fn request<'a>(head: &Head, fragment: &'a [u8]) -> Result<(u16, u16, &'a [u8]), Broken> {
    let object = if head.has(flags::OBJECT) { 16 } else { 0 };
    let stub = fragment.get(HEAD_LEN + 8 + object..).ok_or(Broken)?;
    let half = |at: usize| u16::from_le_bytes([fragment[HEAD_LEN + at], fragment[HEAD_LEN + at + 1]]);
    Ok((half(4), half(6), stub))
}
