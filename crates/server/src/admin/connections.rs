//! Connections of the admin address: at most 64, each for as long as it asks and is answered. When all are in
//! use the one that was answered longest ago is closed, so that idle ones keep no other out.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, Sleep, sleep_until};

lane::counter_block! {
    /// Counters of the admin address.
    pub(crate) struct AdminCounters {
        gauge connections: "Connections open at the admin address.",
        count connections_evicted: "Connections of the admin address ended because others came and there were as many as may be.",
        count timed_out: "Connections of the admin address ended because nothing came or was taken in time.",
        count hosts_refused: "Requests at the admin address refused because their Host field does not name it.",
    }
}

/// Listener that accepts and bounds the connections.
pub(super) struct Listener {
    listener: TcpListener,
    places: Arc<AdminSlots>,
}

/// Connection of the admin address, which ends by itself when it is idle or slow.
pub(super) struct AdminConnection {
    stream: TcpStream,
    places: Arc<AdminSlots>,
    place: Arc<Mutex<AdminSlot>>,
    deadline: Pin<Box<Sleep>>,
    /// Set if bytes of a request came since the last answer.
    has_begun: bool,
}

/// Local address at which a connection came in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Local(pub(super) Option<IpAddr>);

struct AdminSlots {
    places: Mutex<Vec<Arc<Mutex<AdminSlot>>>>,
    patience: Patience,
    counters: Arc<AdminCounters>,
}

/// Time limits of a connection.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// Longest time from the first byte of a request, or the beginning of the connection, to the answer.
    request: Duration,
    /// Longest time without a request before a connection is closed.
    idle: Duration,
}

struct AdminSlot {
    /// Time of the connection's beginning or last answer.
    since: Instant,
    gave_way: bool,
    waker: Option<Waker>,
}

impl Listener {
    pub(super) fn new(listener: TcpListener, counters: Arc<AdminCounters>) -> Self {
        Self::with_patience(listener, PATIENCE, counters)
    }

    fn with_patience(listener: TcpListener, patience: Patience, counters: Arc<AdminCounters>) -> Self {
        let places = AdminSlots { places: Mutex::default(), patience, counters };
        Self { listener, places: Arc::new(places) }
    }
}

impl axum::serve::Listener for Listener {
    type Io = AdminConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (AdminConnection, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => return (AdminSlots::take(&self.places, stream), peer),
                // Out of descriptors, or the peer has left: both pass.
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Connected<IncomingStream<'_, Listener>> for Local {
    fn connect_info(stream: IncomingStream<'_, Listener>) -> Self {
        Self(stream.io().stream.local_addr().ok().map(|address| address.ip().to_canonical()))
    }
}

impl AdminSlots {
    fn take(places: &Arc<Self>, stream: TcpStream) -> AdminConnection {
        let now = Instant::now();
        let place = Arc::new(Mutex::new(AdminSlot { since: now, gave_way: false, waker: None }));
        {
            let mut all = lock(&places.places);
            if all.len() >= CONNECTIONS_MAX
                && let Some(oldest) = (0..all.len()).min_by_key(|&at| lock(&all[at]).since)
            {
                let oldest = all.swap_remove(oldest);
                let mut oldest = lock(&oldest);
                oldest.gave_way = true;
                oldest.waker.take().into_iter().for_each(Waker::wake);
                places.counters.connections_evicted.increment();
            }
            all.push(Arc::clone(&place));
            places.counters.connections.set(all.len() as u64);
        }
        let deadline = Box::pin(sleep_until(now + places.patience.request));
        AdminConnection { stream, places: Arc::clone(places), place, deadline, has_begun: false }
    }

    fn leave(&self, place: &Arc<Mutex<AdminSlot>>) {
        let mut all = lock(&self.places);
        all.retain(|other| !Arc::ptr_eq(other, place));
        self.counters.connections.set(all.len() as u64);
    }
}

impl AdminConnection {
    /// Returns an error once the connection has to end, and wakes its task then.
    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let mut place = lock(&self.place);
        if place.gave_way {
            return Poll::Ready(io::ErrorKind::ConnectionAborted.into());
        }
        place.waker = Some(cx.waker().clone());
        drop(place);
        self.deadline.as_mut().poll(cx).map(|()| {
            self.places.counters.timed_out.increment();
            io::ErrorKind::TimedOut.into()
        })
    }

    fn answered(&mut self) {
        let now = Instant::now();
        lock(&self.place).since = now;
        self.has_begun = false;
        let until = now + self.places.patience.idle;
        self.deadline.as_mut().reset(until);
    }
}

impl AsyncRead for AdminConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Poll::Ready(over) = self.poll_over(cx) {
            return Poll::Ready(Err(over));
        }
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if read.is_ready() && !self.has_begun {
            // What follows it does not move the end of its time.
            self.has_begun = true;
            let until = Instant::now() + self.places.patience.request;
            self.deadline.as_mut().reset(until);
        }
        read
    }
}

impl AsyncWrite for AdminConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Poll::Ready(over) = self.poll_over(cx) {
            return Poll::Ready(Err(over));
        }
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if written.is_ready() {
            self.answered();
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl Drop for AdminConnection {
    fn drop(&mut self) {
        self.places.leave(&self.place);
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

//@ limit: connections of the admin address
//@ section: Logs, control and descriptors
//@ unit: connection
//@ connection: 10 s from a request's first byte to its answer, 60 s between two
//@ all: process: {}
//@ empty: the one that was answered longest ago gives way; others feel nothing
//@ counter: admin_connections, admin_connections_evicted, admin_timed_out
//@ attack: admin-places
/// Most connections at the same time.
pub(crate) const CONNECTIONS_MAX: usize = 64;
/// Time limits for scrapers, which ask once a minute at least.
const PATIENCE: Patience = Patience { request: Duration::from_secs(10), idle: Duration::from_secs(60) };
const RETRY: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::get;

    use super::*;

    async fn start(patience: Patience) -> (SocketAddr, Arc<AdminCounters>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, counters) = (listener.local_addr().unwrap(), Arc::<AdminCounters>::default());
        let listener = Listener::with_patience(listener, patience, Arc::clone(&counters));
        let router = Router::new().route("/", get(async || "here\n"));
        tokio::spawn(async move { axum::serve(listener, router).await });
        (address, counters)
    }

    async fn say(stream: &TcpStream, text: &[u8]) -> io::Result<()> {
        stream.writable().await?;
        stream.try_write(text).map(|written| assert_eq!(written, text.len()))
    }

    async fn receive(stream: &TcpStream) -> io::Result<Vec<u8>> {
        let mut answer = vec![0; 4096];
        loop {
            stream.readable().await?;
            match stream.try_read(&mut answer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => {
                    answer.truncate(read?);
                    return Ok(answer);
                }
            }
        }
    }

    async fn is_ended(stream: &TcpStream) -> bool {
        receive(stream).await.map_or(true, |heard| heard.is_empty())
    }

    async fn ask(address: SocketAddr) -> String {
        let stream = TcpStream::connect(address).await.unwrap();
        say(&stream, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        while let Ok(heard) = receive(&stream).await
            && !heard.is_empty()
        {
            answer.extend(heard);
        }
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test]
    async fn idle_connections_keep_nobody_out_and_take_no_more_places_than_there_are() {
        let (address, counters) = start(PATIENCE).await;
        let mut held = Vec::new();
        for _ in 0..5 * CONNECTIONS_MAX {
            let stream = TcpStream::connect(address).await.unwrap();
            // In the middle of a head.
            say(&stream, b"GET / HT").await.unwrap();
            held.push(stream);
        }
        for _ in 0..10 {
            assert!(ask(address).await.ends_with("here\n"));
        }
        assert!(counters.connections.get() <= CONNECTIONS_MAX as u64);
        assert!(counters.connections_evicted.get() >= 4 * CONNECTIONS_MAX as u64);
        assert!(is_ended(&held[0]).await);
    }

    #[tokio::test]
    async fn who_does_not_come_to_an_end_of_his_request_or_does_nothing_has_his_time() {
        let (request, idle) = (Duration::from_millis(500), Duration::from_secs(3));
        let (address, counters) = start(Patience { request, idle }).await;
        let connect = async || TcpStream::connect(address).await.unwrap();
        let (silent, slow, kept) = (connect().await, connect().await, connect().await);
        say(&kept, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        let began = Instant::now();
        let mut answer = Vec::new();
        while !answer.ends_with(b"here\n") {
            answer.extend(receive(&kept).await.unwrap());
        }
        // A byte now and then moves the end of its time no further.
        while say(&slow, b"G").await.is_ok() {
            assert!(began.elapsed() < 2 * idle, "it is never ended");
            tokio::time::sleep(request / 8).await;
        }
        assert!(is_ended(&silent).await);
        assert_eq!(counters.timed_out.get(), 2, "who was answered may wait longer");
        assert!(is_ended(&kept).await);
        assert!(began.elapsed() >= idle);
    }
}
