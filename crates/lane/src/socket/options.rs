//! Options of TCP and UDP sockets without a file of their own.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use super::{get_option, set_option};

/// Kernel buffer size after asking for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSize {
    /// Payload bytes that the kernel grants. Twice as many are booked, for overhead.
    pub granted_bytes: usize,
    /// True if `net.core.rmem_max` or `wmem_max` kept the size below the one asked for.
    pub limited: bool,
}

/// Requests a receive buffer: past `net.core.rmem_max` with CAP_NET_ADMIN (SO_RCVBUFFORCE), up to that limit
/// without. A buffer set by hand ends the kernel's own tuning of it.
pub fn set_receive_buffer(socket: impl AsFd, bytes: usize) -> io::Result<BufferSize> {
    set_buffer(socket, bytes, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF)
}

/// Requests a send buffer, as [`set_receive_buffer`] with `net.core.wmem_max`.
pub fn set_send_buffer(socket: impl AsFd, bytes: usize) -> io::Result<BufferSize> {
    set_buffer(socket, bytes, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)
}

/// Sets the number of unsent bytes at which a stream takes no more (TCP_NOTSENT_LOWAT). It is writable again
/// below half of that. What is under way does not count.
pub fn set_unsent_max(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &bytes)
}

//@ limit: connections of hosts that are gone
//@ section: SMB
//@ unit: time
//@ connection: {KEEP_ALIVE_IDLE} without a packet, then {KEEP_ALIVE_PROBES} questions {KEEP_ALIVE_INTERVAL} apart; some 15 minutes where something was sent meanwhile
//@ empty: closed, with its sessions and opens where no other connection has them; others feel nothing
//@ counter: smb_connections
//@ attack: smb-silent-10000
/// Time without a packet after which a listener's stream asks whether the peer is there.
pub const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(60);
/// Time between two questions whether the peer is there.
pub const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Number of probes that may stay without an answer: the stream fails with `ETIMEDOUT` then.
pub const KEEP_ALIVE_PROBES: u32 = 6;

/// Makes a stream ask whether its peer is still there while nothing else is sent (SO_KEEPALIVE). Streams that
/// a listener accepts do as it does.
pub(crate) fn keep_alive(socket: &socket2::Socket) -> io::Result<()> {
    let how = socket2::TcpKeepalive::new().with_time(KEEP_ALIVE_IDLE);
    socket.set_tcp_keepalive(&how.with_interval(KEEP_ALIVE_INTERVAL).with_retries(KEEP_ALIVE_PROBES))
}

/// Marks every packet that the socket sends from now on, retransmitted ones too (SO_MARK); 0 ends that.
///
/// # Errors
/// `EPERM` without CAP_NET_ADMIN (or, since Linux 5.17, CAP_NET_RAW).
pub fn set_mark(socket: impl AsFd, mark: u32) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_MARK, &mark)
}

/// Checks whether this process may mark packets: with the errors of [`set_mark`] when it may not.
pub fn can_mark() -> io::Result<()> {
    set_mark(std::net::UdpSocket::bind(("127.0.0.1", 0))?, 1)
}

/// Returns the bytes that a stream took for sending and the peer has not acknowledged yet (SIOCOUTQ, which
/// Linux calls TIOCOUTQ too).
pub fn unacknowledged(socket: impl AsFd) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open for as long as it is borrowed, and the kernel writes one int to the given address.
    let done = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::try_from(bytes).unwrap_or(0))
}

/// Returns the time that a stream now waits for an acknowledgment before it sends again (`tcpi_rto` of
/// TCP_INFO).
pub fn retransmission_timeout(socket: impl AsFd) -> io::Result<Duration> {
    // Two words of states stand before it; the kernel gives as much as there is room for.
    let [_, _, micros]: [u32; 3] = get_option(socket, libc::IPPROTO_TCP, libc::TCP_INFO)?;
    Ok(Duration::from_micros(micros.into()))
}

/// Returns the CPU on which the kernel last handled a packet of this socket.
pub fn incoming_cpu(socket: impl AsFd) -> io::Result<Option<u32>> {
    // -1 before any packet.
    Ok(u32::try_from(get_option::<i32>(socket, libc::SOL_SOCKET, libc::SO_INCOMING_CPU)?).ok())
}

/// Returns the NAPI instance, hence NIC queue, of the last packet: the slave's even behind a bond. `None` for
/// loopback and other traffic without one.
pub fn incoming_napi_id(socket: impl AsFd) -> io::Result<Option<u32>> {
    Ok(Some(get_option(socket, libc::SOL_SOCKET, libc::SO_INCOMING_NAPI_ID)?).filter(|&id| id != 0))
}

fn set_buffer(socket: impl AsFd, bytes: usize, forced: i32, capped: i32) -> io::Result<BufferSize> {
    // The kernel doubles it into an int.
    let wanted = i32::try_from(bytes).unwrap_or(i32::MAX).min(i32::MAX / 2);
    match set_option(&socket, libc::SOL_SOCKET, forced, &wanted) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            set_option(&socket, libc::SOL_SOCKET, capped, &wanted)?;
        }
        other => other?,
    }
    let booked: i32 = get_option(&socket, libc::SOL_SOCKET, capped)?;
    let granted_bytes = usize::try_from(booked / 2).unwrap_or(0);
    Ok(BufferSize { granted_bytes, limited: granted_bytes < bytes })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;

    #[test]
    fn buffer_is_granted_or_said_to_be_limited() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let both: [fn(&UdpSocket, usize) -> io::Result<BufferSize>; 2] = [
            |socket, bytes| set_receive_buffer(socket, bytes),
            |socket, bytes| set_send_buffer(socket, bytes),
        ];
        for set in both {
            let size = set(&socket, 64 << 20).unwrap();
            assert_eq!(size.limited, size.granted_bytes < 64 << 20);
            assert!(!set(&socket, 64 << 10).unwrap().limited);
        }
        assert!(set_receive_buffer(&socket, usize::MAX).unwrap().limited);
    }

    #[test]
    fn stream_takes_no_more_than_may_wait_unsent() {
        use std::io::Write;

        const UNSENT_MAX: u32 = 32 << 10;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // Accepted connections have it too; the kernel books twice of it.
        set_receive_buffer(&listener, 16 << 10).unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_receiver, _) = listener.accept().unwrap();
        sender.set_nonblocking(true).unwrap();
        set_send_buffer(&sender, 8 << 20).unwrap();
        set_unsent_max(&sender, UNSENT_MAX).unwrap();
        let mut taken = 0;
        while let Ok(n) = sender.write(&[0; 4096]) {
            taken += n;
        }
        // What the receiver's host took, what may wait, and a packet of the largest size above it.
        assert!((UNSENT_MAX as usize..256 << 10).contains(&taken), "{taken}");
    }

    #[test]
    fn accepted_connection_tells_its_cpu_and_no_napi_on_loopback() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let cpus = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
        let cpus: crate::topology::CpuSet = cpus.parse().unwrap();
        assert!(incoming_cpu(&accepted).unwrap().is_some_and(|cpu| cpus.contains(cpu)));
        assert_eq!(incoming_napi_id(&accepted).unwrap(), None);
    }

    #[test]
    fn mark_is_kept_by_those_who_may_set_it() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mark = || get_option::<u32>(&socket, libc::SOL_SOCKET, libc::SO_MARK).unwrap();
        match can_mark() {
            Ok(()) => {
                set_mark(&socket, 17).unwrap();
                assert_eq!(mark(), 17);
                set_mark(&socket, 0).unwrap();
                assert_eq!(mark(), 0);
            }
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
                assert!(set_mark(&socket, 17).is_err());
            }
        }
    }
}
