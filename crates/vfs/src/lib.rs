//! VFS.
