//! Rx on a lane: one task owns the socket and the endpoint; calls are straight-line `async` code beside it.
//!
//! A pass of the task: take every datagram that has arrived, feed them to the [`Endpoint`], let the tasks they
//! woke run, then send all that came of it in one transmit pass. So ACKs of a batch are all processed before
//! anything is sent, and packets written by several calls leave in common bursts. Packets of connections that
//! another lane owns go to it through [`LaneGroupLink`].
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use rx_lane::{Driver, DriverConfig, ServerCall};
//!
//! let server = Driver::bind(([127, 0, 0, 1], 7009).into(), DriverConfig::default())?;
//! server.serve(147, async |mut call: ServerCall| {
//!     let request = call.read_to_end(1024).await?;
//!     call.write(&request).await?;
//!     call.finish().await
//! });
//!
//! let client = Driver::bind(([127, 0, 0, 1], 0).into(), DriverConfig::default())?;
//! let connection = client.connect(server.local_addr()?, 147, &rx_lane::Anonymous)?;
//! let mut call = connection.call().await?;
//! call.write(b"hello").await?;
//! call.finish().await?;
//! assert_eq!(call.read_to_end(1024).await?, b"hello");
//! # Ok(()) }
//! ```

mod call;
mod close_on_drop;
mod connection;
mod counters;
mod drain;
mod error;
mod handler;
mod handover;
mod held;
mod intake;
mod listen;
mod moderation;
mod offer;
mod packet_buffers;
mod pass;
mod rate;
mod server_call;
mod server_connection;
mod shares;
mod state;
mod stubs;

use std::cell::Ref;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use lane::backend::UdpOptions;
use lane::net::UdpSocket;

use rx::security::{NullSecurity, SECURITY_NULL, Security, SecurityFactory};
use rx::{ConnectError, ConnectOptions, Endpoint, EndpointConfig, Service};

pub use call::Call;
pub use connection::Connection;
pub use counters::RxCounters;
pub use drain::Drained;
pub use error::{CallError, StartError};
pub use handler::{AbortCode, Handler};
pub use handover::{LaneGroup, LaneGroupLink};
pub use held::Held;
pub use listen::open_group;
pub use packet_buffers::PacketBuffers;
pub use server_call::{ServerCall, Shield};
pub use server_connection::ServerConnection;

use handler::Offered;
use state::DriverShared;

/// Configuration of a driver.
#[derive(Clone, Debug)]
pub struct DriverConfig {
    /// Limits and timers of the protocol. The lane numbers in it are set from the driver's [`LaneGroupLink`].
    pub endpoint: EndpointConfig,
    /// Most calls that services handle at once; further ones are aborted, as are those of a host that has as
    /// many as are free.
    pub handlers_max: usize,
    /// Longest time for which the lane gathers packets of stock peers that come fast, on Linux from 6.12 on;
    /// zero for never. Shorter where few packets are under way, so that the peers do not run out of work.
    pub gather: Duration,
    /// Receive and send buffers of the socket, and coalesced receives.
    pub socket: UdpOptions,
}

/// Rx on the current lane. Clones are handles to the same driver; it runs until the lane ends, or it is
/// [closed](Driver::close).
#[derive(Clone)]
pub struct Driver {
    shared: Rc<DriverShared>,
}

/// Proof of a client's identity: makes the [`Security`] of a new connection.
pub trait Credentials {
    /// Returns the index of the security class.
    fn index(&self) -> u8;

    /// Returns the security state of one new connection.
    fn security(&self) -> Box<dyn Security>;
}

/// Credentials without proof: security class 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Anonymous;

impl Credentials for Anonymous {
    fn index(&self) -> u8 {
        SECURITY_NULL
    }

    fn security(&self) -> Box<dyn Security> {
        Box::new(NullSecurity)
    }
}

impl Driver {
    /// Starts Rx on a socket of its own, for clients (port 0) and servers of one lane.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn bind(address: SocketAddr, config: DriverConfig) -> Result<Self, StartError> {
        let socket = UdpSocket::bind(address, &config.socket)
            .map_err(|source| StartError::Bind { address, source })?;
        Self::start(socket, LaneGroupLink::alone(), config)
    }

    /// Starts Rx on a socket that may share its address with other lanes', as [`open_group`] or a server
    /// makes them.
    ///
    /// # Errors
    /// [`StartError::Random`].
    pub fn start(
        socket: impl Into<Rc<UdpSocket>>,
        link: LaneGroupLink,
        config: DriverConfig,
    ) -> Result<Self, StartError> {
        Self::start_counting(socket, link, config, Arc::default())
    }

    /// Starts the driver ([`start`](Self::start)) with existing counters, of one driver at a time.
    ///
    /// # Errors
    /// [`StartError::Random`].
    pub fn start_counting(
        socket: impl Into<Rc<UdpSocket>>,
        link: LaneGroupLink,
        config: DriverConfig,
        counters: Arc<RxCounters>,
    ) -> Result<Self, StartError> {
        let mut seed = [0; 32];
        lane::random::fill(&mut seed).map_err(StartError::Random)?;
        Ok(Self::started(socket, link, config, seed, counters))
    }

    /// Starts the driver ([`start`](Self::start)) with everything random drawn from `seed`: for simulated
    /// lanes.
    pub fn start_seeded(
        socket: impl Into<Rc<UdpSocket>>,
        link: LaneGroupLink,
        config: DriverConfig,
        seed: [u8; 32],
    ) -> Self {
        Self::started(socket, link, config, seed, Arc::default())
    }

    fn started(
        socket: impl Into<Rc<UdpSocket>>,
        link: LaneGroupLink,
        config: DriverConfig,
        seed: [u8; 32],
        counters: Arc<RxCounters>,
    ) -> Self {
        let lane = u32::try_from(link.lane()).expect("far fewer lanes");
        let lanes = u32::try_from(link.lanes()).expect("far fewer lanes");
        let mut endpoint =
            Endpoint::new(lane::time::now(), EndpointConfig { lane, lanes, ..config.endpoint }, seed);
        endpoint.set_time_of_day(lane::time::now(), time_of_day());
        endpoint.join(Arc::clone(link.lane_map()), link.lane());
        let socket = socket.into();
        // Without it calls to a server that is gone end by their dead time.
        let _ = socket.report_unreachable();
        let shared = Rc::new(DriverShared::new(endpoint, socket, config.handlers_max, counters));
        let running = pass::run(Rc::clone(&shared), link, config.gather);
        // After a panic the state of the protocol is unknown.
        lane::spawn_critical("Rx driver", async move {
            running.await;
            lane::Ended::Done
        })
        .detach();
        Self { shared }
    }

    /// Offers a service. A later handler for the same id replaces the earlier one for new calls.
    pub fn serve(&self, service: u16, handler: impl Handler) {
        self.serve_as(service, Service::default(), handler);
    }

    /// Offers a service ([`serve`](Self::serve)) with options, such as its upgrade.
    pub fn serve_as(&self, id: u16, service: Service, handler: impl Handler) {
        self.shared.state.borrow_mut().endpoint.add_service(id, service);
        self.shared.add_handler(id, Offered::offer(service, handler));
    }

    /// Adds a security class whose connections are accepted.
    pub fn add_security(&self, factory: Box<dyn SecurityFactory>) {
        self.shared.state.borrow_mut().endpoint.add_security(factory);
    }

    /// Opens a connection; nothing is sent before its first call.
    ///
    /// # Errors
    /// [`ConnectError`] when the endpoint has its limit of connections.
    pub fn connect(
        &self,
        remote: SocketAddr,
        service: u16,
        credentials: &dyn Credentials,
    ) -> Result<Connection, ConnectError> {
        self.connect_with(remote, service, credentials, ConnectOptions::default())
    }

    /// Opens a connection ([`connect`](Self::connect)) with a service upgrade or from one address: a server
    /// that calls its client back passes [`ServerCall::local_ip`].
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn connect_with(
        &self,
        remote: SocketAddr,
        service: u16,
        credentials: &dyn Credentials,
        options: ConnectOptions,
    ) -> Result<Connection, ConnectError> {
        let handle = self.shared.state.borrow_mut().endpoint.connect(
            lane::time::now(),
            remote,
            service,
            credentials.index(),
            credentials.security(),
            options,
        )?;
        Ok(Connection::new(Rc::clone(&self.shared), handle))
    }

    /// Sets the mark of every packet that the lane's socket sends from now on (SO_MARK), as for a listener's
    /// TCP connections; 0 removes it.
    ///
    /// # Errors
    /// The system's: it needs CAP_NET_ADMIN.
    pub fn set_mark(&self, mark: u32) -> io::Result<()> {
        self.shared.socket.set_mark(mark)
    }

    /// Sets the source of a rate that all DATA of this lane obeys and shares with others. The source gets in
    /// each pass the bytes, with Rx headers, that were sent under the bound since the last one, and the
    /// number of connections that wait for their turn; it returns the bytes a second that may be sent, `None`
    /// for no bound. A service of a server passes `service::part::Part::exchange`.
    pub fn set_rate_source(&self, source: impl FnMut(u64, usize) -> Option<u64> + 'static) {
        *self.shared.share.borrow_mut() = Some(rate::Share::new(source));
        self.shared.kick();
    }

    /// Sets the callback for clients that come with a security class which is not offered: an address, which
    /// may be forged, and the class's index. Called at most once a second; it must not use the driver.
    pub fn on_proof_refused(&self, tell: impl Fn(SocketAddr, u8) + 'static) {
        *self.shared.proof_refused.borrow_mut() = Some(Box::new(tell));
    }

    /// Returns the socket's address.
    ///
    /// # Errors
    /// The system's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.shared.socket.local_addr()
    }

    /// Returns the lane's Rx counters, to be read from any thread.
    pub fn counters(&self) -> Arc<RxCounters> {
        Arc::clone(&self.shared.counters)
    }

    /// Borrows the protocol's state, to look at. The borrow must not be held across an await.
    pub fn endpoint(&self) -> Ref<'_, Endpoint> {
        Ref::map(self.shared.state.borrow(), |state| &state.endpoint)
    }
}

/// Returns the time of day since 1970.
fn time_of_day() -> Duration {
    lane::time::wall_clock().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl Default for DriverConfig {
    fn default() -> Self {
        Self {
            endpoint: EndpointConfig::default(),
            //@ limit: calls in the hands of services
            //@ section: Rx
            //@ unit: call
            //@ connection: 4
            //@ address: as many as are free, at least 16
            //@ all: lane: `handlers_max` ({})
            //@ empty: aborted; others feel nothing while their share is free
            //@ counter: rx_handlers_refused, rx_handlers
            //@ attack: rx-connections
            handlers_max: 16 * 1024,
            gather: moderation::WAIT,
            socket: UdpOptions::default(),
        }
    }
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("socket", &self.shared.socket).finish_non_exhaustive()
    }
}
