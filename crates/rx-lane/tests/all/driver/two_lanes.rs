//! Server of two real lanes on one address.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use lane::layout::{LaneCount, Layout, Wishes};
use lane::net::UdpSocket;
use lane::runtime::{Runtime, RuntimeOptions};
use lane::socket::reuseport::Steering;
use lane::topology::Topology;
use rx_lane::{Driver, DriverConfig, LaneGroupLink, RxCounters, open_group};

/// Two lanes that serve until this is dropped.
pub(crate) struct TwoLanes {
    pub(crate) address: SocketAddr,
    /// Counters by lane.
    pub(crate) counters: Vec<Arc<RxCounters>>,
    stop: Arc<AtomicBool>,
    runtime: Option<Runtime>,
}

impl TwoLanes {
    /// Starts two lanes that share a port of loopback; `serve` offers the services of each. `None` where
    /// there is one CPU only: the test is skipped.
    #[track_caller]
    pub(crate) fn start(steering: Steering, config: DriverConfig, serve: fn(&Driver)) -> Option<Self> {
        let topology = Topology::read(Path::new("/")).unwrap();
        let wishes = Wishes { lanes: LaneCount::Total(2), ..Wishes::default() };
        let Ok(layout) = Layout::new(&topology, &wishes) else {
            testkit::skip("this machine has no two CPUs for two lanes");
            return None;
        };
        let links = LaneGroupLink::over(&steering, 64);
        let group = open_group(([127, 0, 0, 1], 0).into(), &config.socket, steering).unwrap();
        let address = group.address();
        let parts: Vec<_> =
            links.into_iter().map(|links| Some((group.descriptor(links.lane()).unwrap(), links))).collect();
        let parts = Arc::new(Mutex::new(parts));
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (report, started) = mpsc::channel();
        let runtime = Runtime::start(&layout, RuntimeOptions::default(), move |spec| {
            let (descriptor, links) = parts.lock().unwrap()[spec.id].take().unwrap();
            let (report, stop, config) = (report.clone(), Arc::clone(&stopped), config.clone());
            async move {
                let socket = UdpSocket::adopt(descriptor).unwrap();
                let driver = Driver::start(socket, links, config).unwrap();
                serve(&driver);
                report.send((spec.id, driver.counters())).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    lane::time::sleep(Duration::from_millis(20)).await;
                }
            }
        })
        .unwrap();
        let mut counters: Vec<_> = started.iter().take(2).collect();
        counters.sort_by_key(|(lane, _)| *lane);
        let counters = counters.into_iter().map(|(_, counters)| counters).collect();
        drop(group);
        Some(Self { address, counters, stop, runtime: Some(runtime) })
    }

    /// Returns the sum of a counter over both lanes.
    pub(crate) fn sum(&self, of: fn(&RxCounters) -> u64) -> u64 {
        self.counters.iter().map(|lane| of(lane)).sum()
    }
}

impl Drop for TwoLanes {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.runtime.take().unwrap().join().unwrap();
    }
}
