//! Path with loss: a UDP relay that forwards each datagram after a fixed delay, or drops it by a seeded draw.
//! Equal seeds lose the same datagrams of each direction, counted from the first.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Behaviour of the path, the same in both directions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) seed: u64,
    /// Datagrams lost of a hundred.
    pub(crate) loss: u64,
    /// Delay of one direction.
    pub(crate) delay: Duration,
}

/// Relay between one client and one server, stopped when dropped.
pub(crate) struct Relay {
    /// Address where the client finds the server.
    pub(crate) address: SocketAddr,
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

type Client = Arc<Mutex<Option<SocketAddr>>>;
type Datagram = (Instant, Vec<u8>);

impl Relay {
    pub(crate) fn start(server: SocketAddr, path: Path) -> Self {
        let (front, back) = (loopback(), loopback());
        back.connect(server).expect("loopback has a route");
        let address = front.local_addr().expect("it is bound");
        let (client, ended) = (Client::default(), Arc::new(AtomicBool::new(false)));
        let mut relay = Self { address, ended, threads: Vec::new() };
        let (front_out, back_out) =
            (front.try_clone().expect("descriptors"), back.try_clone().expect("descriptors"));
        let from = Arc::clone(&client);
        relay.carry(
            Path { seed: path.seed * 2, ..path },
            move |room| {
                let (len, sender) = front.recv_from(room)?;
                *from.lock().expect("no thread panics with it") = Some(sender);
                Ok(len)
            },
            move |datagram| back_out.send(datagram),
        );
        relay.carry(
            Path { seed: path.seed * 2 + 1, ..path },
            move |room| back.recv(room),
            move |datagram| {
                let to = *client.lock().expect("no thread panics with it");
                front_out.send_to(datagram, to.expect("a server speaks when spoken to"))
            },
        );
        relay
    }

    /// Starts the two threads of one direction: one takes and draws, one waits and forwards.
    fn carry(
        &mut self,
        path: Path,
        mut take: impl FnMut(&mut [u8]) -> io::Result<usize> + Send + 'static,
        mut give: impl FnMut(&[u8]) -> io::Result<usize> + Send + 'static,
    ) {
        let (queue, queued) = mpsc::channel::<Datagram>();
        let ended = Arc::clone(&self.ended);
        self.threads.push(thread::spawn(move || {
            let (mut room, mut draws) = (vec![0; 65_536], Draws(path.seed));
            while !ended.load(Ordering::Relaxed) {
                // A timeout, to look whether it is over, or news that a peer has gone.
                let Ok(len) = take(&mut room) else { continue };
                if draws.next() % 100 >= path.loss
                    && queue.send((Instant::now() + path.delay, room[..len].to_vec())).is_err()
                {
                    return;
                }
            }
        }));
        self.threads.push(thread::spawn(move || {
            for (due, datagram) in queued {
                thread::sleep(due.saturating_duration_since(Instant::now()));
                // The peer may have gone: lost, as on a real path.
                let _ = give(&datagram);
            }
        }));
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic there has been printed, and the calls that depend on it have failed.
            let _ = thread.join();
        }
    }
}

fn loopback() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has free ports");
    socket.set_read_timeout(Some(Duration::from_millis(20))).expect("it is above zero");
    socket
}

/// Random numbers of SplitMix64.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
