//! The commands (MS-SMB2 2.2.1.2).

use crate::malformed::Malformed;

/// Command of a message, request or response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
#[allow(missing_docs, reason = "they are the specification's names")]
pub enum Command {
    Negotiate = 0x00,
    SessionSetup = 0x01,
    Logoff = 0x02,
    TreeConnect = 0x03,
    TreeDisconnect = 0x04,
    Create = 0x05,
    Close = 0x06,
    Flush = 0x07,
    Read = 0x08,
    Write = 0x09,
    Lock = 0x0a,
    Ioctl = 0x0b,
    Cancel = 0x0c,
    Echo = 0x0d,
    QueryDirectory = 0x0e,
    ChangeNotify = 0x0f,
    QueryInfo = 0x10,
    SetInfo = 0x11,
    OplockBreak = 0x12,
    ServerToClientNotification = 0x13,
}

impl Command {
    /// Every command, by number.
    pub const ALL: [Self; 20] = [
        Self::Negotiate,
        Self::SessionSetup,
        Self::Logoff,
        Self::TreeConnect,
        Self::TreeDisconnect,
        Self::Create,
        Self::Close,
        Self::Flush,
        Self::Read,
        Self::Write,
        Self::Lock,
        Self::Ioctl,
        Self::Cancel,
        Self::Echo,
        Self::QueryDirectory,
        Self::ChangeNotify,
        Self::QueryInfo,
        Self::SetInfo,
        Self::OplockBreak,
        Self::ServerToClientNotification,
    ];

    /// Returns the command of a wire value.
    pub fn from_wire(value: u16) -> Result<Self, Malformed> {
        Self::ALL.get(usize::from(value)).copied().ok_or(Malformed::Command(value))
    }

    /// Returns whether it means something only within a session (MS-SMB2 3.3.5.2.9).
    pub fn needs_session(self) -> bool {
        !matches!(self, Self::Negotiate | Self::SessionSetup | Self::Cancel | Self::Echo)
    }

    /// Returns whether it means something only within a tree connect (MS-SMB2 3.3.5.2.11).
    pub fn needs_tree(self) -> bool {
        self.needs_session() && !matches!(self, Self::Logoff | Self::TreeConnect | Self::OplockBreak)
    }

    /// Returns where the body of a request holds the `FileId` that it is about; `None` where there is none,
    /// or where it is no open of the requester's tree that a compound could hand on.
    pub fn file_id_offset(self) -> Option<usize> {
        match self {
            Self::Close
            | Self::Flush
            | Self::Lock
            | Self::Ioctl
            | Self::QueryDirectory
            | Self::ChangeNotify => Some(8),
            Self::Read | Self::Write | Self::SetInfo => Some(16),
            Self::QueryInfo => Some(24),
            _ => None,
        }
    }

    /// Returns whether it fails with STATUS_FILE_NOT_AVAILABLE when it comes late on another channel (MS-SMB2
    /// 3.3.5.2.10).
    pub fn modifies(self) -> bool {
        matches!(self, Self::Write | Self::SetInfo | Self::Ioctl)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_its_own_command() {
        for (number, command) in (0u16..).zip(Command::ALL) {
            assert_eq!(command as u16, number);
            assert_eq!(Command::from_wire(number), Ok(command));
            assert!(command.needs_session() || !command.needs_tree());
            assert!(command.needs_tree() || command.file_id_offset().is_none());
        }
        assert_eq!(Command::from_wire(0x14), Err(Malformed::Command(0x14)));
    }
}
