//! Data of QUERY_INFO, SET_INFO, QUERY_DIRECTORY and CHANGE_NOTIFY (MS-FSCC 2.4, 2.5, 2.7).

pub mod directory;
pub mod ea;
pub mod file;
pub mod file_system;
pub mod notify;
pub mod posix;
pub mod security;
pub mod stream;
