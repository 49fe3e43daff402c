//! Test whether a UDP socket still exists after this process closed its descriptor.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Returns the number that identifies the socket in `/proc/net/udp`.
pub(super) fn inode(socket: impl AsFd) -> io::Result<u64> {
    Ok(rustix::fs::fstat(socket)?.st_ino)
}

/// Waits at most a second for the socket's end; returns false when something still holds the socket. Where
/// `/proc` cannot be read the socket is taken to be closed.
pub(super) fn wait_until_closed(inode: u64) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while exists(inode) {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
    true
}

fn exists(inode: u64) -> bool {
    let inode = inode.to_string();
    TABLES.iter().any(|table| {
        let sockets = fs::read_to_string(table).unwrap_or_default();
        sockets.lines().any(|line| line.split_whitespace().nth(INODE_COLUMN) == Some(&inode))
    })
}

const TABLES: [&str; 2] = ["/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"];
const INODE_COLUMN: usize = 9;
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn socket_exists_until_its_last_descriptor_is_closed() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(socket) = UdpSocket::bind(address) else { continue };
            let inode = inode(&socket).unwrap();
            let copy = socket.try_clone().unwrap();
            drop(socket);
            assert!(exists(inode));
            drop(copy);
            assert!(wait_until_closed(inode));
        }
    }
}
