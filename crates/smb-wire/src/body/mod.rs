//! Bodies of the commands, requests and responses, one file each.

pub mod change_notify;
pub mod close;
pub mod error;
pub mod flush;
pub mod ioctl;
pub mod lock;
pub mod notification;
pub mod oplock_break;
pub mod plain;
pub mod query_directory;
pub mod query_info;
pub mod read;
pub mod session_setup;
pub mod set_info;
pub mod tree_connect;
pub mod write;
