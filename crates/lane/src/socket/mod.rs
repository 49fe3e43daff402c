//! Socket features of the kernel, one file per feature.

pub mod cbpf;
pub mod control;
pub mod fragment;
pub mod gro;
pub mod gso;
pub mod incoming;
pub mod ktls;
mod message;
pub mod options;
pub mod pacing;
pub mod pktinfo;
pub mod reuseport;
pub mod traffic_class;
pub mod udp;
pub mod unreachable;

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Number that the kernel takes or gives as a socket option: plain bytes of a fixed size.
trait OptionValue: Copy + Default {}
impl OptionValue for i32 {}
impl OptionValue for u32 {}
impl OptionValue for u64 {}
impl<const N: usize> OptionValue for [u32; N] where [u32; N]: Default {}

fn set_option<T: OptionValue>(socket: impl AsFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    // SAFETY: an integer is readable as the bytes it consists of.
    let bytes = unsafe { std::slice::from_raw_parts((&raw const *value).cast::<u8>(), size_of::<T>()) };
    set_option_bytes(socket, level, name, bytes)
}

fn set_option_bytes(socket: impl AsFd, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `value` is readable for the length given, and the kernel copies it.
    let result =
        unsafe { libc::setsockopt(fd, level, name, value.as_ptr().cast(), value.len() as libc::socklen_t) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn get_option<T: OptionValue>(socket: impl AsFd, level: i32, name: i32) -> io::Result<T> {
    let mut value = T::default();
    let mut length = size_of::<T>() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `value` is writable for `length` bytes, and every bit pattern is a valid integer.
    let result = unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &mut length) };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}
