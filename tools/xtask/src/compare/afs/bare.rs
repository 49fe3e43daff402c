//! Cost of the kernel alone for calls as small as a FetchStatus: threads with bare sockets over the same
//! path, an `fstat` and one datagram back for each that comes, and no protocol. A server that answers such
//! calls one by one cannot take less.

use std::fs::File;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::time::{ClockId, clock_gettime};

use super::site::Site;
use crate::compare::{median, rounded};

/// Result of the measurement.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(super) struct Bare {
    pub(super) calls_per_second: f64,
    pub(super) server_cpu_us_per_call: f64,
    pub(super) client_cpu_us_per_call: f64,
}

/// Has `clients` ask for so long, each one call after the other, as many threads on either side as there are CPUs.
pub(super) fn measure(site: &Site, clients: u32, seconds: u32) -> anyhow::Result<Bare> {
    let threads = std::thread::available_parallelism()?.get().min(clients as usize).max(1);
    let at = site.ours().address.ip();
    let (stop, file) = (AtomicBool::new(false), tempfile::tempfile()?);
    std::thread::scope(|scope| {
        let (mut serving, mut asking) = (Vec::new(), Vec::new());
        for number in 0..threads {
            let socket = site.at_ours(|| listen(at))?;
            let to = socket.local_addr()?;
            let count = (clients as usize - number).div_ceil(threads);
            let sockets =
                site.at_clients(|| (0..count).map(|_| connect(to)).collect::<Result<Vec<_>, _>>())?;
            let (stop, file) = (&stop, &file);
            serving.push(scope.spawn(move || answer(&socket, file, stop)));
            asking.push(scope.spawn(move || ask(&sockets, stop)));
        }
        let began = Instant::now();
        std::thread::sleep(Duration::from_secs(seconds.into()));
        stop.store(true, Ordering::Relaxed);
        let elapsed = began.elapsed().as_secs_f64();
        let (mut calls, mut server_s, mut client_s) = (0, 0.0, 0.0);
        for thread in serving {
            let (answered, cpu_s) = thread.join().expect("it does not panic")?;
            calls += answered;
            server_s += cpu_s;
        }
        for thread in asking {
            client_s += thread.join().expect("it does not panic")?;
        }
        let each_us = |cpu_s: f64| cpu_s * 1e6 / f64::max(calls as f64, 1.0);
        Ok(Bare {
            calls_per_second: calls as f64 / elapsed,
            server_cpu_us_per_call: each_us(server_s),
            client_cpu_us_per_call: each_us(client_s),
        })
    })
}

fn listen(at: IpAddr) -> anyhow::Result<UdpSocket> {
    let socket = UdpSocket::bind((at, 0))?;
    socket.set_read_timeout(Some(LOOK_EVERY))?;
    Ok(socket)
}

fn connect(to: SocketAddr) -> anyhow::Result<UdpSocket> {
    let socket = UdpSocket::bind(("0.0.0.0", 0))?;
    socket.connect(to)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Answers until it is to stop. Says how many calls there were, and its processor time in seconds.
fn answer(socket: &UdpSocket, file: &File, stop: &AtomicBool) -> anyhow::Result<(u64, f64)> {
    let (mut request, reply) = ([0; REQUEST_BYTES], [0; REPLY_BYTES]);
    let (mut calls, before) = (0, thread_seconds());
    while !stop.load(Ordering::Relaxed) {
        // Nothing came for a while.
        let Ok((_, from)) = socket.recv_from(&mut request) else { continue };
        rustix::fs::fstat(file)?;
        socket.send_to(&reply, from)?;
        calls += 1;
    }
    Ok((calls, thread_seconds() - before))
}

/// Asks by each socket when it has its answer, again after a while in which none came; its processor time.
fn ask(sockets: &[UdpSocket], stop: &AtomicBool) -> anyhow::Result<f64> {
    let (request, mut reply) = ([0; REQUEST_BYTES], [0; REPLY_BYTES]);
    let poll = epoll::create(CreateFlags::CLOEXEC)?;
    for (number, socket) in sockets.iter().enumerate() {
        epoll::add(&poll, socket, EventData::new_u64(number as u64), EventFlags::IN)?;
    }
    let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK_EVERY.as_nanos() as i64 };
    let mut ready: Vec<Event> = Vec::with_capacity(sockets.len());
    let before = thread_seconds();
    while !stop.load(Ordering::Relaxed) {
        if ready.is_empty() {
            // At first, and where all was lost.
            sockets.iter().try_for_each(|socket| socket.send(&request).map(drop))?;
        }
        ready.clear();
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut ready), Some(&timeout))?;
        for event in &ready {
            let socket = &sockets[event.data.u64() as usize];
            socket.recv(&mut reply).context("an answer that was there is gone")?;
            socket.send(&request)?;
        }
    }
    Ok(thread_seconds() - before)
}

fn thread_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

impl Bare {
    /// Returns the median of each field; `None` without any.
    pub(super) fn median_of(all: &[Self]) -> Option<Self> {
        let of = |field: fn(&Self) -> f64| rounded(median(all.iter().map(field)));
        (!all.is_empty()).then(|| Self {
            calls_per_second: of(|bare| bare.calls_per_second),
            server_cpu_us_per_call: of(|bare| bare.server_cpu_us_per_call),
            client_cpu_us_per_call: of(|bare| bare.client_cpu_us_per_call),
        })
    }
}

impl std::fmt::Display for Bare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "bare sockets {:.0} calls/s, {:.1} us/call, {:.1} us/call (clients)",
            self.calls_per_second, self.server_cpu_us_per_call, self.client_cpu_us_per_call
        )
    }
}

/// A FetchStatus and its reply, with Rx's header.
const REQUEST_BYTES: usize = 44;
const REPLY_BYTES: usize = 148;
/// Time for which a side waits before it looks whether it is over.
const LOOK_EVERY: Duration = Duration::from_millis(50);
