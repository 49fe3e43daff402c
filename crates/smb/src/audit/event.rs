//! Events of the audit log, and their names.

use smb_wire::body::query_info::{QueryInfoRequestFixed, info_type};
use smb_wire::body::set_info::SetInfoRequestFixed;
use smb_wire::info::file::class;
use smb_wire::{Command, Message};
use strum::{FromRepr, IntoStaticStr, VariantArray};

/// A request that the audit log records: a command, or what it does where that is the point of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromRepr, IntoStaticStr, VariantArray)]
#[strum(prefix = "SMB_")]
#[repr(u8)]
pub(crate) enum Event {
    SignIn = 1,
    LogOff = 2,
    TreeConnect = 3,
    TreeDisconnect = 4,
    Create = 5,
    Close = 6,
    Flush = 7,
    Read = 8,
    Write = 9,
    Lock = 10,
    Ioctl = 11,
    QueryDirectory = 12,
    ChangeNotify = 13,
    QueryInfo = 14,
    QuerySecurity = 15,
    SetInfo = 16,
    SetSecurity = 17,
    SetLength = 18,
    SetDeletion = 19,
    Rename = 20,
    Link = 21,
}

impl Event {
    /// Makes the event of a request; `None` for what reads and changes nothing. Sign-ins are logged by the
    /// code that makes them.
    pub(super) fn of(command: Command, message: &Message<'_>) -> Option<Self> {
        Some(match command {
            Command::Logoff => Self::LogOff,
            Command::TreeConnect => Self::TreeConnect,
            Command::TreeDisconnect => Self::TreeDisconnect,
            Command::Create => Self::Create,
            Command::Close => Self::Close,
            Command::Flush => Self::Flush,
            Command::Read => Self::Read,
            Command::Write => Self::Write,
            Command::Lock => Self::Lock,
            Command::Ioctl => Self::Ioctl,
            Command::QueryDirectory => Self::QueryDirectory,
            Command::ChangeNotify => Self::ChangeNotify,
            Command::QueryInfo => match message.fixed::<QueryInfoRequestFixed>() {
                Ok(fixed) if fixed.info_type == info_type::SECURITY => Self::QuerySecurity,
                _ => Self::QueryInfo,
            },
            Command::SetInfo => match message.fixed::<SetInfoRequestFixed>() {
                Ok(fixed) => Self::of_set_info(fixed),
                Err(_) => Self::SetInfo,
            },
            Command::Negotiate
            | Command::SessionSetup
            | Command::Cancel
            | Command::Echo
            | Command::OplockBreak
            | Command::ServerToClientNotification => return None,
        })
    }

    pub(super) fn of_set_info(fixed: &SetInfoRequestFixed) -> Self {
        match (fixed.info_type, fixed.file_info_class) {
            (info_type::SECURITY, _) => Self::SetSecurity,
            (info_type::FILE, class::END_OF_FILE | class::ALLOCATION) => Self::SetLength,
            (info_type::FILE, class::DISPOSITION | class::DISPOSITION_EX) => Self::SetDeletion,
            (info_type::FILE, class::RENAME | class::RENAME_EX) => Self::Rename,
            (info_type::FILE, class::LINK) => Self::Link,
            _ => Self::SetInfo,
        }
    }
}
