//! Nodes of pages, by move_pages(2) without a destination: the kernel looks the pages up in the page tables.

use std::io;

/// Returns the node of each page, `None` where there is no page or none that counts: nothing was written yet,
/// or nothing is mapped. Addresses are looked up and never followed, so memory that is gone is no error.
///
/// # Errors
/// `EPERM` where a container forbids the call, `ENOSYS` on a kernel without NUMA.
pub(super) fn nodes_of(addresses: &[usize]) -> io::Result<Vec<Option<u32>>> {
    if addresses.is_empty() {
        return Ok(Vec::new());
    }
    let pages: Vec<*const libc::c_void> =
        addresses.iter().map(|&at| std::ptr::without_provenance(at)).collect();
    let mut nodes = vec![-libc::ENOENT; pages.len()];
    let (this_process, no_destination, no_flags) = (0, std::ptr::null::<libc::c_int>(), 0);
    // SAFETY: both arrays have as many elements as is said and live across the call, which writes `nodes` alone.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            this_process,
            pages.len(),
            pages.as_ptr(),
            no_destination,
            nodes.as_mut_ptr(),
            no_flags,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(nodes.into_iter().map(|node| u32::try_from(node).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Mapping;

    #[test]
    fn a_page_has_a_node_once_it_is_written() {
        let mapping = Mapping::new(8 * 4096).unwrap();
        // SAFETY: the only reference into the mapping.
        unsafe { mapping.slice_mut(4096, 1)[0] = 1 };
        let base = mapping.base() as usize;
        let Ok(nodes) = nodes_of(&[base, base + 4096, 0x1000]) else { return };
        assert!(nodes[0].is_none() && nodes[1].is_some() && nodes[2].is_none(), "{nodes:?}");
    }
}
