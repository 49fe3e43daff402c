//! The rxperf service as the server hosts a service, which shows the division of one rate between Rx and
//! other connections. On one lane, since a driver of several needs to know its siblings.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use lane::counters::CounterBlock;
use lane::net::TcpStream;
use rx_lane::{Anonymous, Driver, DriverConfig, LaneGroupLink, RxCounters};
use rxperf::{Request, Work};
use serde::Deserialize;
use service::commons::Commons;
use service::config::{ConfigError, Document, Keys};
use service::drain::Drain;
use service::part::Part;
use service::volumes::{LaneVolumes, VolumeSection};
use service::{
    Bound, ConnectionRouter, ConnectionsMax, Greeting, LaneFuture, LaneService, LaneSocket, LaneStart,
    LoadContext, Problem, Role, Service, Settings, Site, Switch, Transport, Wanted,
};

/// Service rxperf, process-wide, with its driver's counters for the test.
#[derive(Default)]
pub(crate) struct Perf(pub(crate) Arc<Mutex<Option<Arc<RxCounters>>>>);

/// Table `[perf]` of the configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    listen: SocketAddr,
    #[serde(skip)]
    counters: Arc<Mutex<Option<Arc<RxCounters>>>>,
}

impl Service for Perf {
    fn name(&self) -> &'static str {
        "perf"
    }

    fn keys(&self) -> Keys {
        Keys { tables: &["perf"], volume: &[] }
    }

    fn listen_keys(&self) -> &'static [&'static str] {
        &["perf.listen"]
    }

    fn read(
        &self,
        document: &Document,
        _: &[VolumeSection],
    ) -> Result<Option<Arc<dyn Settings>>, ConfigError> {
        #[derive(Deserialize)]
        struct Tables {
            perf: Option<Section>,
        }
        let section = document.tables::<Tables>()?.perf;
        let counters = Arc::clone(&self.0);
        Ok(section.map(|section| Arc::new(Section { counters, ..section }) as _))
    }
}

impl Settings for Section {
    fn sockets(&self) -> Vec<Wanted> {
        let (key, address) = ("perf.listen", self.listen);
        vec![Wanted { key, address, transport: Transport::Rx, role: Role(0) }]
    }

    fn connections(&self) -> ConnectionsMax {
        ConnectionsMax { key: "perf.connections", per_lane: 100 }
    }

    fn load(&self, _: &LoadContext<'_>) -> Result<Box<dyn Site>, Problem> {
        Ok(Box::new(PerfSite(self.clone())))
    }
}

struct PerfSite(Section);

impl Site for PerfSite {
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    fn bound(&mut self, _: &[Bound]) {}

    fn greeting(&self) -> Greeting {
        Greeting::default()
    }

    fn start(&self, start: LaneStart<'_>) -> Result<Rc<dyn LaneService>, String> {
        Ok(Rc::new(LanePerf {
            driver: RefCell::default(),
            counters: Arc::clone(&self.0.counters),
            commons: start.commons,
            drain: Drain::default(),
        }))
    }
}

struct LanePerf {
    driver: RefCell<Option<Driver>>,
    counters: Arc<Mutex<Option<Arc<RxCounters>>>>,
    commons: Commons,
    drain: Drain,
}

impl LaneService for LanePerf {
    fn counters(&self) -> Vec<(&'static str, Arc<dyn CounterBlock>)> {
        Vec::new()
    }

    fn listen(
        self: Rc<Self>,
        socket: LaneSocket,
        _: Role,
        _: Rc<dyn ConnectionRouter>,
    ) -> LaneFuture<io::Result<()>> {
        Box::pin(async move {
            let LaneSocket::Udp(socket) = socket else { return Err(io::ErrorKind::Unsupported.into()) };
            let driver = Driver::start(socket, LaneGroupLink::alone(), DriverConfig::default());
            let driver = driver.map_err(io::Error::other)?;
            driver.serve(rxperf::SERVICE, rxperf::serve);
            let part = Part::new(&self.commons.pacer);
            driver.set_rate_source(move |sent, waiting| part.exchange(sent, waiting));
            *self.counters.lock().unwrap() = Some(driver.counters());
            *self.driver.borrow_mut() = Some(driver);
            self.drain.unless_asked(std::future::pending::<()>()).await;
            Ok(())
        })
    }

    fn take(self: Rc<Self>, _: TcpStream, _: Role) {}

    fn prepare(self: Rc<Self>, _: &dyn Site, _: &LaneVolumes) -> Result<Switch, String> {
        Ok(Box::new(|| {}))
    }

    fn mark(&self, _: u32) {}

    fn dismiss(&self) {}

    fn drain(self: Rc<Self>, deadline: Instant) -> LaneFuture<usize> {
        Box::pin(async move {
            self.drain.ask(deadline).await;
            let driver = self.driver.borrow().clone();
            let Some(driver) = driver else { return 0 };
            driver.drain(deadline.saturating_duration_since(lane::time::now())).await.cut
        })
    }

    fn flush_log(&self) {}
}

/// Receives a number of bytes by one call, as a client of its own, and returns how many came.
pub(crate) fn receive(from: SocketAddr, bytes: u32) -> usize {
    let received = lane::runtime::run_here(lane::runtime::RuntimeOptions::default(), async move {
        let client = Driver::bind(([127, 0, 0, 1], 0).into(), DriverConfig::default()).unwrap();
        let connection = client.connect(from, rxperf::SERVICE, &Anonymous).unwrap();
        let mut call = connection.call().await.unwrap();
        call.write(&Request::new(Work::Receive { bytes }).encode().unwrap()).await.unwrap();
        call.finish().await.unwrap();
        call.read_to_end(2 * bytes as usize).await.unwrap().len()
    });
    received.unwrap()
}
