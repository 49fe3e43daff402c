//! Receive buffer of a stock peer's socket, as Linux accounts it: by the memory that a datagram lies in, and
//! given back late. The last tests hold it against a socket of this machine's kernel, which may be kinder and
//! never harder.

use std::collections::VecDeque;
use std::time::Instant;

#[derive(Clone, Debug)]
pub(crate) struct SocketBuffer {
    /// Limit in bytes of memory: twice the size asked for by SO_RCVBUF.
    limit: u64,
    charged: u64,
    /// Bytes of the limit that are free again and not yet given back.
    owed: u64,
    /// Size of each datagram, and the time of its reading.
    queued: VecDeque<(u64, Instant)>,
}

impl SocketBuffer {
    /// Makes the buffer of a socket that asked for `asked` bytes by SO_RCVBUF.
    pub(crate) fn new(asked: u64) -> Self {
        Self { limit: asked * 2, charged: 0, owed: 0, queued: VecDeque::new() }
    }

    /// Takes a datagram of `len` bytes in `fragments` IP fragments, to be read at `read_at`; returns false if
    /// it finds no room.
    pub(crate) fn take(&mut self, len: usize, fragments: usize, read_at: Instant) -> bool {
        let charge = charge_of(len, fragments);
        if self.charged + charge > self.limit {
            return false;
        }
        self.charged += charge;
        self.queued.push_back((charge, read_at));
        true
    }

    /// Reads the datagrams whose time has come by `now`.
    pub(crate) fn read_until(&mut self, now: Instant) {
        while self.queued.front().is_some_and(|&(_, at)| at <= now) {
            self.read();
        }
    }

    /// Reads a datagram. The memory counts as taken until a quarter of the buffer is free again, or all of
    /// it.
    fn read(&mut self) {
        let Some((charge, _)) = self.queued.pop_front() else { return };
        self.owed += charge;
        if self.owed >= self.limit / 4 || self.queued.is_empty() {
            self.charged -= std::mem::take(&mut self.owed);
        }
    }
}

/// Returns the bytes of memory that a datagram takes: data, headers and bookkeeping in the next power of two,
/// and a descriptor. A fragment is a packet of its own.
fn charge_of(len: usize, fragments: usize) -> u64 {
    let each = len.div_ceil(fragments.max(1));
    let one = (each + BOOKKEEPING).next_power_of_two().max(SMALLEST) + DESCRIPTOR;
    (one * fragments.max(1)) as u64
}

/// Bytes of headers down to Ethernet's, and of `struct skb_shared_info`.
const BOOKKEEPING: usize = 28 + 16 + 320;
/// Smallest piece of memory in bytes: small packets lie in pieces of a cache of their own.
const SMALLEST: usize = 640;
/// Bytes of `struct sk_buff`.
const DESCRIPTOR: usize = 256;

#[test]
fn what_was_read_is_given_back_a_quarter_at_a_time() {
    let (mut buffer, now) = (SocketBuffer::new(65_536), Instant::now());
    let fill = |buffer: &mut SocketBuffer| {
        std::iter::repeat_with(|| buffer.take(1444, 1, now)).take_while(|&took| took).count()
    };
    assert_eq!(fill(&mut buffer), 56);
    (0..14).for_each(|_| buffer.read());
    assert_eq!(fill(&mut buffer), 0, "14 packets are no quarter");
    buffer.read();
    assert_eq!(fill(&mut buffer), 15);
    buffer.read_until(now);
    assert_eq!((buffer.charged, fill(&mut buffer)), (0, 56));
}

mod parity {
    use std::net::UdpSocket;
    use std::time::{Duration, Instant};

    use socket2::SockRef;

    use super::SocketBuffer;

    /// Buffer of the kernel: a socket on loopback with another that sends there.
    struct Real {
        receiver: UdpSocket,
        sender: UdpSocket,
        sent: u64,
        read: u64,
    }

    impl Real {
        fn new() -> Self {
            let bind = || UdpSocket::bind("127.0.0.1:0").unwrap();
            let (receiver, sender) = (bind(), bind());
            SockRef::from(&receiver).set_recv_buffer_size(65_536).unwrap();
            SockRef::from(&sender).set_send_buffer_size(1 << 20).unwrap();
            receiver.set_nonblocking(true).unwrap();
            sender.connect(receiver.local_addr().unwrap()).unwrap();
            Self { receiver, sender, sent: 0, read: 0 }
        }

        /// Returns the size asked of the system for the buffer, as granted.
        fn asked(&self) -> u64 {
            SockRef::from(&self.receiver).recv_buffer_size().unwrap() as u64 / 2
        }

        /// Sends `count` datagrams, and returns how many of them found room.
        fn send(&mut self, len: usize, count: usize) -> u64 {
            let before = self.drops();
            let payload = vec![7; len];
            for _ in 0..count {
                self.sender.send(&payload).unwrap();
            }
            self.sent += count as u64;
            // Loopback delivers within the send, unless the kernel has put that off for others' sake.
            let give_up = Instant::now() + Duration::from_secs(10);
            let mut quiet = 0;
            let mut last = self.state();
            while quiet < 10 && Instant::now() < give_up {
                std::thread::sleep(Duration::from_millis(5));
                let state = self.state();
                quiet = if state == last { quiet + 1 } else { 0 };
                last = state;
            }
            count as u64 - (self.drops() - before)
        }

        fn read(&mut self, count: usize) {
            let mut bytes = [0; 16 * 1024];
            for _ in 0..count {
                self.receiver.recv(&mut bytes).unwrap();
                self.read += 1;
            }
        }

        fn drops(&self) -> u64 {
            self.state().1
        }

        /// Returns the bytes of memory in the queue, and the datagrams dropped before.
        fn state(&self) -> (u64, u64) {
            let port = format!(":{:04X}", self.receiver.local_addr().unwrap().port());
            let table = std::fs::read_to_string("/proc/thread-self/net/udp").unwrap();
            let line = table
                .lines()
                .find(|line| line.split_whitespace().nth(1).is_some_and(|at| at.ends_with(&port)));
            let words: Vec<_> = line.unwrap().split_whitespace().collect();
            let queued = words[4].split_once(':').unwrap().1;
            (u64::from_str_radix(queued, 16).unwrap(), words.last().unwrap().parse().unwrap())
        }
    }

    fn accepted(buffer: &mut SocketBuffer, len: usize, count: usize) -> u64 {
        let now = Instant::now();
        (0..count).filter(|_| buffer.take(len, 1, now)).count() as u64
    }

    /// Lengths of ACKs, packets, and jumbograms of two to six packets.
    const LENGTHS: [usize; 8] = [65, 600, 1440, 1444, 2856, 5688, 7104, 8520];

    #[test]
    fn buffer_holds_no_more_than_the_kernels_and_little_less() {
        for len in LENGTHS {
            let mut real = Real::new();
            let mut buffer = SocketBuffer::new(real.asked());
            let (really, simulated) = (real.send(len, 400), accepted(&mut buffer, len, 400));
            assert!(simulated <= really, "{len} bytes: {simulated} fit, and really {really}");
            assert!(simulated * 5 >= really * 3, "{len} bytes: {simulated} fit, and really {really}");
        }
    }

    #[test]
    fn buffer_gives_back_no_sooner_than_the_kernels() {
        for len in [1444, 7104] {
            let (mut real, mut simulated, mut really) = (Real::new(), 0, 0);
            let mut buffer = SocketBuffer::new(real.asked());
            let mut lie = (real.send(len, 100), accepted(&mut buffer, len, 100));
            // Reads of a few, each with as many sent after it.
            for few in [2, 5, 9, 1, 3, 8] {
                let few = few.min(lie.0.min(lie.1) as usize);
                real.read(few);
                (0..few).for_each(|_| buffer.read());
                let came = (real.send(len, few), accepted(&mut buffer, len, few));
                lie = (lie.0 - few as u64 + came.0, lie.1 - few as u64 + came.1);
                (really, simulated) = (really + came.0, simulated + came.1);
                assert!(
                    simulated <= really,
                    "{len} bytes: {simulated} found room again, and really {really}"
                );
            }
            assert!(simulated > 0 && lie.1 > 0, "{len} bytes");
        }
    }
}
