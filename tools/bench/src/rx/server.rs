//! The rxperf service on lanes that share one address.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, mpsc};

use lane::layout::Layout;
use lane::net::UdpSocket;
use lane::runtime::{LaneInfo, Runtime, RuntimeOptions};
use lane::socket::reuseport::{GroupError, Steering, SteeringError};
use rx_lane::{Driver, DriverConfig, LaneGroupLink, RxCounters, open_group};

/// Options of the server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Address and port; port 0 chooses one.
    pub listen: SocketAddr,
    /// Limits, timers and socket of each lane.
    pub driver: DriverConfig,
}

/// A running service.
pub struct Serving {
    /// Address that it listens at.
    pub address: SocketAddr,
    /// Each lane's counters, in the order of the lanes.
    pub counters: Vec<Arc<RxCounters>>,
    runtime: Runtime,
}

/// A service that could not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The lanes.
    #[error(transparent)]
    Lanes(#[from] lane::runtime::StartError),
    /// The sockets.
    #[error(transparent)]
    Sockets(#[from] GroupError),
    /// Lanes could not be assigned to NICs.
    #[error(transparent)]
    Steering(#[from] SteeringError),
    /// Rx on a lane.
    #[error(transparent)]
    Rx(#[from] rx_lane::StartError),
}

/// Serves on the lanes of `layout` until the process ends.
///
/// # Errors
/// [`ServeError`].
pub fn serve(options: &ServerOptions, layout: &Layout) -> Result<Serving, ServeError> {
    let steering = Steering::by_layout(layout)?;
    let all_links = LaneGroupLink::over(&steering, HANDOVERS_MAX);
    let group = open_group(options.listen, &options.driver.socket, steering)?;
    let lanes = layout.lane_count();
    let mut parts = Vec::new();
    for links in all_links {
        parts.push(Some((group.descriptor(links.lane())?, links)));
    }
    let (parts, driver) = (Arc::new(Mutex::new(parts)), options.driver.clone());
    let (report, started) = mpsc::channel();
    let runtime = Runtime::start(layout, RuntimeOptions::default(), move |spec| {
        let part = parts.lock().expect("no lane panics here")[spec.id].take();
        let (descriptor, links) = part.expect("every lane starts once");
        let (config, report) = (driver.clone(), report.clone());
        async move {
            let started = UdpSocket::adopt(descriptor)
                .map_err(|source| rx_lane::StartError::Adopt { source })
                .and_then(|socket| Driver::start(socket, links, config));
            match started {
                Ok(driver) => {
                    driver.serve(rxperf::SERVICE, rxperf::serve);
                    // The receiver waits for every lane's word.
                    let _ = report.send((spec.id, Ok(driver.counters())));
                    std::future::pending::<()>().await;
                }
                Err(error) => {
                    let _ = report.send((spec.id, Err(error)));
                }
            }
        }
    })?;
    let mut counters = Vec::new();
    for (lane, started) in started.iter().take(lanes) {
        counters.push((lane, started?));
    }
    counters.sort_by_key(|(lane, _)| *lane);
    let counters = counters.into_iter().map(|(_, counters)| counters).collect();
    Ok(Serving { address: group.address(), counters, runtime })
}

impl Serving {
    /// Returns the lanes, in the order of the counters.
    pub fn lanes(&self) -> impl Iterator<Item = &LaneInfo> {
        self.runtime.lanes()
    }

    /// Waits for the lanes, which end with the process.
    pub fn wait(self) {
        self.runtime.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }
}

/// Runs of packets that may wait on their way from one lane to another.
const HANDOVERS_MAX: usize = 1024;
