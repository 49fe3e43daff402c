//! Purpose of a completion, packed into the 64 bits that io_uring carries along.
//!
//! ```text
//! 63    56 55            32 31             0
//! | kind  |   generation   |     index      |
//! ```

/// Key of whatever waits for a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) kind: Kind,
    /// Number that tells a reused index from its predecessor; 24 bits, wrapping.
    pub(super) generation: u32,
    /// Descriptor number, or the slot of an operation.
    pub(super) index: u32,
}

/// The kinds of submissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Nothing waits: cancellations and closes.
    Ignored = 0,
    /// Multishot accept of the listener `index`.
    Accept = 1,
    /// The single operation in slot `index`.
    Op = 2,
    /// The eventfd that ends a park.
    Unpark = 3,
    /// Poll of the inotify descriptor.
    Watch = 4,
    /// Multishot receive of the stream `index`.
    Stream = 5,
    /// Multishot message receive of the UDP socket `index`.
    Datagrams = 6,
    /// Poll of the list of mounts.
    Mounts = 7,
}

impl Key {
    pub(super) const IGNORED: Self = Self { kind: Kind::Ignored, generation: 0, index: 0 };

    pub(super) fn pack(self) -> u64 {
        (self.kind as u64) << 56 | u64::from(self.generation & GENERATION_MASK) << 32 | u64::from(self.index)
    }

    pub(super) fn unpack(bits: u64) -> Self {
        let kind = match bits >> 56 {
            1 => Kind::Accept,
            2 => Kind::Op,
            3 => Kind::Unpark,
            4 => Kind::Watch,
            5 => Kind::Stream,
            6 => Kind::Datagrams,
            7 => Kind::Mounts,
            _ => Kind::Ignored,
        };
        let generation = (bits >> 32) as u32 & GENERATION_MASK;
        Self { kind, generation, index: bits as u32 }
    }
}

pub(super) const GENERATION_MASK: u32 = (1 << 24) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_packing() {
        for kind in [
            Kind::Ignored,
            Kind::Accept,
            Kind::Op,
            Kind::Unpark,
            Kind::Watch,
            Kind::Stream,
            Kind::Datagrams,
            Kind::Mounts,
        ] {
            let key = Key { kind, generation: 0x00ab_cdef, index: 0x8765_4321 };
            assert_eq!(Key::unpack(key.pack()), key);
        }
    }
}
