//! The 64 bytes that every message begins with (MS-SMB2 2.2.1).

use zerocopy::little_endian::{U16, U32, U64};

use crate::command::Command;
use crate::fixed::{prefix, wire};
use crate::malformed::Malformed;
use crate::status::Status;

/// Length of the header, bytes.
pub const HEADER_LEN: usize = 64;
/// `ProtocolId`.
pub const PROTOCOL_ID: [u8; 4] = [0xfe, b'S', b'M', b'B'];
/// Bytes of the header that hold the offset of the next message.
pub const NEXT_COMMAND: std::ops::Range<usize> = 20..24;
/// Bytes of the header that hold the signature.
pub const SIGNATURE: std::ops::Range<usize> = 48..64;
/// `MessageId` of what the server sends unasked.
pub const UNSOLICITED: u64 = u64::MAX;

/// Bits of `Flags`.
pub mod flags {
    /// A response.
    pub const SERVER_TO_REDIR: u32 = 0x0000_0001;
    /// The header holds an `AsyncId` in place of the `TreeId`.
    pub const ASYNC_COMMAND: u32 = 0x0000_0002;
    /// Goes on with the session, tree and file of the operation before it in the compound.
    pub const RELATED_OPERATIONS: u32 = 0x0000_0004;
    /// The message is signed.
    pub const SIGNED: u32 = 0x0000_0008;
    /// Priority, 0 to 7 (3.1.1).
    pub const PRIORITY_MASK: u32 = 0x0000_0070;
    /// The path is one of DFS.
    pub const DFS_OPERATIONS: u32 = 0x1000_0000;
    /// Sent before on a channel that was lost (3.x).
    pub const REPLAY_OPERATION: u32 = 0x2000_0000;
}

wire! {
    /// The header, MS-SMB2 2.2.1.1 and 2.2.1.2.
    pub struct Header {
        protocol_id: [u8; 4],
        structure_size: U16,
        credit_charge: U16,
        /// Status of a response. In a request of 3.x its low 16 bits are the channel sequence; see
        /// [`Header::channel_sequence`].
        status: U32,
        command: U16,
        /// Credits asked for in a request, given in a response.
        credits: U16,
        flags: U32,
        /// Bytes from here to the next header of the compound; 0 in the last.
        next_command: U32,
        message_id: U64,
        /// First half of the `AsyncId` where the flag says so; [`Header::tree_id`] is the other.
        reserved: U32,
        tree_id: U32,
        session_id: U64,
        signature: [u8; 16],
    }
}

impl Header {
    /// Creates a request without credits, session or tree.
    pub fn request(command: Command, message_id: u64) -> Self {
        Self {
            protocol_id: PROTOCOL_ID,
            structure_size: U16::new(HEADER_LEN as u16),
            credit_charge: U16::ZERO,
            status: U32::ZERO,
            command: U16::new(command as u16),
            credits: U16::ZERO,
            flags: U32::ZERO,
            next_command: U32::ZERO,
            message_id: U64::new(message_id),
            reserved: U32::ZERO,
            tree_id: U32::ZERO,
            session_id: U64::ZERO,
            signature: [0; 16],
        }
    }

    /// Creates the response to `self`: same command, ids and charge, related as it was, unsigned, no credits yet.
    pub fn response(&self, status: Status) -> Self {
        //= MS-SMB2 3.3.4.1
        //# A response carries the request's command and MessageId, and SMB2_FLAGS_SERVER_TO_REDIR.
        Self {
            status: U32::new(status.0),
            credits: U16::ZERO,
            flags: U32::new(
                self.flags.get()
                    & (flags::RELATED_OPERATIONS | flags::PRIORITY_MASK | flags::REPLAY_OPERATION)
                    | flags::SERVER_TO_REDIR,
            ),
            next_command: U32::ZERO,
            signature: [0; 16],
            ..*self
        }
    }

    /// Returns the header that `bytes` begin with.
    pub fn parse(bytes: &[u8]) -> Result<&Self, Malformed> {
        let (header, _) = prefix::<Self>(bytes)?;
        if header.protocol_id != PROTOCOL_ID || usize::from(header.structure_size.get()) != HEADER_LEN {
            return Err(Malformed::Protocol);
        }
        Ok(header)
    }

    /// Returns the command, if there is one of that number.
    pub fn command(&self) -> Result<Command, Malformed> {
        Command::from_wire(self.command.get())
    }

    /// Returns what a response says of its request.
    pub fn status(&self) -> Status {
        Status(self.status.get())
    }

    /// Returns a request's channel sequence, from 3.0 on (MS-SMB2 2.2.1.2).
    pub fn channel_sequence(&self) -> u16 {
        self.status.get() as u16
    }

    /// Returns whether all of `flags` are set.
    pub fn has(&self, flags: u32) -> bool {
        self.flags.get() & flags == flags
    }

    /// Sets `flags`.
    pub fn with(mut self, flags: u32) -> Self {
        self.flags.set(self.flags.get() | flags);
        self
    }

    /// Returns the number of an operation that goes on after its interim response, where the header holds one.
    pub fn async_id(&self) -> Option<u64> {
        let id = u64::from(self.tree_id.get()) << 32 | u64::from(self.reserved.get());
        self.has(flags::ASYNC_COMMAND).then_some(id)
    }

    /// Returns the header with that number in place of the tree.
    pub fn with_async_id(mut self, id: u64) -> Self {
        self.reserved.set(id as u32);
        self.tree_id.set((id >> 32) as u32);
        self.with(flags::ASYNC_COMMAND)
    }

    /// Credits that the request pays with; 0 is 1 (MS-SMB2 3.3.5.2.3).
    pub fn charge(&self) -> u16 {
        self.credit_charge.get().max(1)
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::*;

    #[test]
    fn fields_stand_where_the_specification_puts_them() {
        let mut header = Header::request(Command::Read, 0x0102_0304_0506_0708);
        header.credit_charge.set(0x1112);
        header.status.set(0x2122);
        header.credits.set(0x3132);
        header.next_command.set(0x4142);
        header.tree_id.set(0x5152_5354);
        header.session_id.set(0x6162);
        header.signature = [0x71; 16];
        let bytes = header.with(flags::SIGNED).as_bytes().to_vec();
        assert_eq!(bytes.len(), HEADER_LEN);
        assert_eq!(bytes[..12], [0xfe, b'S', b'M', b'B', 64, 0, 0x12, 0x11, 0x22, 0x21, 0, 0]);
        assert_eq!(bytes[12..24], [8, 0, 0x32, 0x31, 8, 0, 0, 0, 0x42, 0x41, 0, 0]);
        assert_eq!(bytes[24..40], [8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0, 0, 0x54, 0x53, 0x52, 0x51]);
        assert_eq!(bytes[SIGNATURE], [0x71; 16]);
        assert_eq!(Header::parse(&bytes).unwrap().channel_sequence(), 0x2122);
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let header = Header::request(Command::Echo, 1);
        assert_eq!(Header::parse(&header.as_bytes()[..63]), Err(Malformed::Short));
        let mut smb1 = header;
        smb1.protocol_id[0] = 0xff;
        assert_eq!(Header::parse(smb1.as_bytes()), Err(Malformed::Protocol));
        let mut short = header;
        short.structure_size.set(63);
        assert_eq!(Header::parse(short.as_bytes()), Err(Malformed::Protocol));
    }

    #[test]
    fn a_response_answers_its_request_and_an_async_id_takes_the_trees_place() {
        let mut request = Header::request(Command::Lock, 9).with(flags::SIGNED | flags::RELATED_OPERATIONS);
        request.tree_id.set(5);
        request.next_command.set(72);
        let response = request.response(Status::PENDING);
        assert_eq!(response.status(), Status::PENDING);
        assert_eq!(
            (response.message_id.get(), response.tree_id.get(), response.next_command.get()),
            (9, 5, 0)
        );
        assert!(
            response.has(flags::SERVER_TO_REDIR | flags::RELATED_OPERATIONS) && !response.has(flags::SIGNED)
        );
        assert_eq!(response.async_id(), None);
        assert_eq!(response.with_async_id(0x1_0000_0002).async_id(), Some(0x1_0000_0002));
        assert_eq!(request.charge(), 1);
    }
}
