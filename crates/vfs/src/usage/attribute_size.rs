//! Size of an extended attribute as it counts for a volume's usage.

use std::ffi::CStr;

/// Returns the bytes that an attribute counts as: those of its name and its value.
pub(crate) fn bytes_of(name: &CStr, value_len: usize) -> u64 {
    (name.count_bytes() + value_len) as u64
}
