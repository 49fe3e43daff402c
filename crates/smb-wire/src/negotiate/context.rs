//! Negotiate contexts of 3.1.1 (MS-SMB2 2.2.3.1).

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32};

use crate::fixed::{prefix, prefix_of, wire};
use crate::malformed::Malformed;
use crate::message::Body;
use crate::text::Text;

/// Most contexts of one request that are looked at; eight are defined.
pub const CONTEXTS_MAX: u16 = 64;

/// Kinds of context: values of `ContextType`.
pub mod kind {
    /// Hashes for pre-authentication integrity.
    pub const PREAUTH_INTEGRITY: u16 = 0x0001;
    /// Ciphers.
    pub const ENCRYPTION: u16 = 0x0002;
    /// Compression.
    pub const COMPRESSION: u16 = 0x0003;
    /// The name by which the client knows the server.
    pub const NETNAME: u16 = 0x0005;
    /// SMB2_TRANSPORT_CAPABILITIES: security that the transport provides.
    pub const TRANSPORT: u16 = 0x0006;
    /// Transforms on RDMA.
    pub const RDMA_TRANSFORM: u16 = 0x0007;
    /// Signing algorithms.
    pub const SIGNING: u16 = 0x0008;
    /// POSIX extensions of Linux's client and Samba.
    pub const POSIX: u16 = 0x0100;
}

/// `HashAlgorithms`: SHA-512, the only one.
pub const SHA_512: u16 = 1;

/// Content of the POSIX context.
pub const POSIX_TAG: [u8; 16] =
    [0x93, 0xad, 0x25, 0x50, 0x9c, 0xb4, 0x11, 0xe7, 0xb4, 0x23, 0x83, 0xde, 0x96, 0x8b, 0xcd, 0x7c];

wire! {
    /// Head of each context, MS-SMB2 2.2.3.1.
    pub struct ContextHead {
        context_type: U16,
        data_length: U16,
        reserved: U32,
    }
}

wire! {
    /// MS-SMB2 2.2.3.1.1
    pub struct PreauthHead {
        hash_algorithm_count: U16,
        salt_length: U16,
    }
}

wire! {
    /// MS-SMB2 2.2.3.1.3
    pub struct CompressionHead {
        algorithm_count: U16,
        padding: U16,
        flags: U32,
    }
}

wire! {
    /// MS-SMB2 2.2.3.1.6
    pub struct RdmaHead {
        transform_count: U16,
        reserved1: U16,
        reserved2: U32,
    }
}

/// One context. Lists are in the sender's order of preference; they may hold unknown numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NegotiateContext<'a> {
    /// Hashes for pre-authentication integrity, and a salt.
    Preauth {
        /// Values like [`SHA_512`].
        hashes: &'a [U16],
        /// Random bytes.
        salt: &'a [u8],
    },
    /// Ciphers: CCM-128 1, GCM-128 2, CCM-256 3, GCM-256 4.
    Encryption(&'a [U16]),
    /// Compression.
    Compression {
        /// LZNT1 1, LZ77 2, LZ77 with Huffman 3, patterns 4, LZ4 5.
        algorithms: &'a [U16],
        /// 1: chained.
        flags: u32,
    },
    /// The name by which the client knows the server.
    NetName(Text<'a>),
    /// 1: the transport's security is taken for SMB's.
    Transport(u32),
    /// Encryption 1, signing 2.
    RdmaTransform(&'a [U16]),
    /// HMAC-SHA256 0, AES-CMAC 1, AES-GMAC 2.
    Signing(&'a [U16]),
    /// POSIX extensions; [`POSIX_TAG`] means those that are known.
    Posix(&'a [u8]),
    /// Context of an unknown type, which is passed over.
    Unknown(u16, &'a [u8]),
}

impl<'a> NegotiateContext<'a> {
    /// Parses the context of type `kind` that `data` is.
    pub fn parse(kind: u16, data: &'a [u8]) -> Result<Self, Malformed> {
        Ok(match kind {
            kind::PREAUTH_INTEGRITY => {
                let (head, rest) = prefix::<PreauthHead>(data)?;
                let hashes = list(rest, head.hash_algorithm_count)?;
                let salt =
                    rest.get(2 * hashes.len()..).and_then(|rest| rest.get(..head.salt_length.get().into()));
                Self::Preauth { hashes, salt: salt.ok_or(Malformed::Count)? }
            }
            // One of none is no fault (MS-SMB2 3.3.5.4): nothing is in common then.
            kind::ENCRYPTION => {
                let (count, rest) = prefix::<U16>(data)?;
                Self::Encryption(prefix_of(rest, count.get().into())?)
            }
            kind::COMPRESSION => {
                let (head, rest) = prefix::<CompressionHead>(data)?;
                Self::Compression { algorithms: list(rest, head.algorithm_count)?, flags: head.flags.get() }
            }
            kind::NETNAME => Self::NetName(Text::new(data)?),
            kind::TRANSPORT => Self::Transport(prefix::<U32>(data)?.0.get()),
            kind::RDMA_TRANSFORM => {
                let (head, rest) = prefix::<RdmaHead>(data)?;
                Self::RdmaTransform(list(rest, head.transform_count)?)
            }
            kind::SIGNING => Self::Signing(counted(data)?),
            kind::POSIX => Self::Posix(data),
            unknown => Self::Unknown(unknown, data),
        })
    }

    fn kind(&self) -> u16 {
        match self {
            Self::Preauth { .. } => kind::PREAUTH_INTEGRITY,
            Self::Encryption(_) => kind::ENCRYPTION,
            Self::Compression { .. } => kind::COMPRESSION,
            Self::NetName(_) => kind::NETNAME,
            Self::Transport(_) => kind::TRANSPORT,
            Self::RdmaTransform(_) => kind::RDMA_TRANSFORM,
            Self::Signing(_) => kind::SIGNING,
            Self::Posix(_) => kind::POSIX,
            Self::Unknown(kind, _) => *kind,
        }
    }

    fn data(&self) -> Vec<u8> {
        let count = |list: &[U16]| U16::new(u16::try_from(list.len()).expect("a short list"));
        let mut data = Vec::new();
        match self {
            Self::Preauth { hashes, salt } => {
                let salt_length = U16::new(u16::try_from(salt.len()).expect("a short salt"));
                data.extend(PreauthHead { hash_algorithm_count: count(hashes), salt_length }.as_bytes());
                data.extend(hashes.as_bytes());
                data.extend(*salt);
            }
            Self::Encryption(list) | Self::Signing(list) => {
                data.extend(count(list).as_bytes());
                data.extend(list.as_bytes());
            }
            Self::Compression { algorithms, flags } => {
                let algorithm_count = count(algorithms);
                let head = CompressionHead { algorithm_count, padding: U16::ZERO, flags: (*flags).into() };
                data.extend(head.as_bytes());
                data.extend(algorithms.as_bytes());
            }
            Self::NetName(name) => data.extend(name.units().flat_map(u16::to_le_bytes)),
            Self::Transport(flags) => data.extend(flags.to_le_bytes()),
            Self::RdmaTransform(list) => {
                let head =
                    RdmaHead { transform_count: count(list), reserved1: U16::ZERO, reserved2: U32::ZERO };
                data.extend(head.as_bytes());
                data.extend(list.as_bytes());
            }
            Self::Posix(bytes) | Self::Unknown(_, bytes) => data.extend(*bytes),
        }
        data
    }
}

fn counted(data: &[u8]) -> Result<&[U16], Malformed> {
    let (count, rest) = prefix::<U16>(data)?;
    list(rest, *count)
}

/// Parses a list that must name something (MS-SMB2 3.3.5.4 refuses one that does not).
fn list(bytes: &[u8], count: U16) -> Result<&[U16], Malformed> {
    if count == U16::ZERO {
        return Err(Malformed::Count);
    }
    prefix_of(bytes, count.get().into())
}

/// The contexts of a message. Each is read when it is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Contexts<'a> {
    bytes: &'a [u8],
    count: u16,
}

impl<'a> Contexts<'a> {
    /// Parses the `count` contexts at `offset` of `message`, none of which begins before `end`.
    pub(crate) fn parse(message: &'a [u8], offset: u32, count: u16, end: usize) -> Result<Self, Malformed> {
        if count == 0 {
            return Ok(Self::default());
        }
        if count > CONTEXTS_MAX {
            return Err(Malformed::Count);
        }
        if !offset.is_multiple_of(8) {
            return Err(Malformed::Alignment);
        }
        if (offset as usize) < end {
            return Err(Malformed::Offset);
        }
        Ok(Self { bytes: message.get(offset as usize..).ok_or(Malformed::Offset)?, count })
    }

    /// Returns how many there are said to be.
    pub fn len(&self) -> usize {
        self.count.into()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the contexts, in order; a refusal ends them.
    pub fn iter(&self) -> impl Iterator<Item = Result<NegotiateContext<'a>, Malformed>> + use<'a> {
        let mut left = self.count;
        let mut rest = Some(self.bytes);
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let taken = rest.ok_or(Malformed::Count).and_then(take);
            match taken {
                Ok((context, behind)) => {
                    rest = behind;
                    Some(Ok(context))
                }
                Err(why) => {
                    left = 0;
                    Some(Err(why))
                }
            }
        })
    }
}

/// Parses the context that `bytes` begin with, and what lies behind its padding.
fn take(bytes: &[u8]) -> Result<(NegotiateContext<'_>, Option<&[u8]>), Malformed> {
    let (head, rest) = prefix::<ContextHead>(bytes)?;
    let len = usize::from(head.data_length.get());
    let data = rest.get(..len).ok_or(Malformed::Count)?;
    let context = NegotiateContext::parse(head.context_type.get(), data)?;
    Ok((context, rest.get(len.next_multiple_of(8)..)))
}

/// Appends `contexts`, where the message is aligned to 8.
pub(crate) fn write(body: &mut Body<'_>, contexts: &[NegotiateContext<'_>]) {
    for context in contexts {
        body.align(8);
        let data = context.data();
        let data_length = U16::new(u16::try_from(data.len()).expect("a short context"));
        body.push(&ContextHead { context_type: context.kind().into(), data_length, reserved: U32::ZERO });
        body.bytes(&data);
    }
}
