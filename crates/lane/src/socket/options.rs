//! Plain socket options, set by value or by bytes.

use std::io;
use std::os::fd::RawFd;

/// Sets an option whose value is a plain integer.
pub(crate) fn set<T: Integer>(fd: RawFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    // SAFETY: an integer is `size_of::<T>()` initialised bytes.
    let bytes = unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) };
    set_bytes(fd, level, name, bytes)
}

/// Sets an option whose value is a string of bytes.
pub(crate) fn set_bytes(fd: RawFd, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    let len = libc::socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    // SAFETY: the kernel reads `len` bytes at the pointer, all of them `value`'s.
    let result = unsafe { libc::setsockopt(fd, level, name, value.as_ptr().cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Integers the kernel takes as option values.
pub(crate) trait Integer: Copy {}

impl Integer for i32 {}
impl Integer for u32 {}
impl Integer for u64 {}
