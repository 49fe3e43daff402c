//! Memory policy: where the kernel puts the pages that a thread touches first, page-cache fills among them.

use std::io;

/// Undoes an inherited policy that would scatter the calling thread's memory, such as that of
/// `numactl --interleave`. Pages are taken from the node of its CPU again. A binding (`--membind`) is the
/// administrator's word on which memory may be used at all, and stays.
///
/// # Errors
/// `EPERM` where a container forbids to look or to set. The inherited policy stays then.
pub(crate) fn allocate_where_running() -> io::Result<()> {
    let mut mode: libc::c_int = 0;
    // SAFETY: the kernel writes one int; without a mask and an address it touches nothing else.
    let got = unsafe { libc::syscall(libc::SYS_get_mempolicy, &raw mut mode, NO_MASK, 0, NO_MASK, 0) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    match mode & !MODE_FLAGS {
        libc::MPOL_DEFAULT | libc::MPOL_LOCAL | libc::MPOL_BIND => Ok(()),
        _ => {
            // SAFETY: the default policy takes no mask, so no memory is passed.
            let set = unsafe { libc::syscall(libc::SYS_set_mempolicy, libc::MPOL_DEFAULT, NO_MASK, 0) };
            if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
        }
    }
}

const NO_MASK: *const libc::c_ulong = std::ptr::null();
/// Flags MPOL_F_STATIC_NODES, MPOL_F_RELATIVE_NODES and MPOL_F_NUMA_BALANCING, which come with the mode.
const MODE_FLAGS: libc::c_int = 0b111 << 13;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inherited_interleave_is_undone() {
        let node_0: libc::c_ulong = 1;
        // SAFETY: the mask is one word of 64 bits, and the policy is this thread's alone.
        let set =
            unsafe { libc::syscall(libc::SYS_set_mempolicy, libc::MPOL_INTERLEAVE, &raw const node_0, 64) };
        if set < 0 {
            return; // A container that forbids it.
        }
        allocate_where_running().unwrap();
        let mut mode: libc::c_int = -1;
        // SAFETY: as in `allocate_where_running`.
        unsafe { libc::syscall(libc::SYS_get_mempolicy, &raw mut mode, NO_MASK, 0, NO_MASK, 0) };
        assert_eq!(mode, libc::MPOL_DEFAULT);
    }
}
