//! AFS on one lane: a driver for each address, which serve what is current.

use std::cell::{Cell as Slot, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use lane::counters::{CounterBlock, Reading};
use lane::net::{TcpStream, UdpSocket};
use rx::{Dscp, abort};
use rx_lane::{AbortCode, Driver, DriverConfig, RxCounters, ServerCall};
use service::commons::Commons;
use service::log::LaneLog;
use service::part::Part;
use service::volumes::LaneVolumes;
use service::{ConnectionRouter, LaneFuture, LaneService, LaneSocket, Role, Site, Switch};

use super::process_state::{PendingReset, ProcessState};
use super::roles;
use super::site::AfsSite;
use crate::audit::Audit;
use crate::cell::{Cell, CellCounters, Current, Location, Protection, Volumes};
use crate::fileserver::{FileServer, SERVICE as FILES};
use crate::host::{Hosts, LaneHosts};
use crate::oob::{LaneOob, OobOptions};

/// AFS on one lane.
pub(super) struct LaneAfs {
    current: Current<Cell>,
    /// The hosts; replaced only after a site by which no client was served.
    hosts: RefCell<Hosts>,
    process: Arc<ProcessState>,
    commons: Commons,
    audit: Option<LaneLog>,
    /// The file server while it listens.
    files: RefCell<Option<FileService>>,
    file_counters: Arc<DeferredCounters>,
    cell_counters: Arc<CellCounters>,
    /// Counters of the file server's driver.
    rx_counters: Arc<RxCounters>,
    /// Drivers of addresses, numbered as they were opened.
    drivers: RefCell<Vec<(u64, Driver)>>,
    opened: Slot<u64>,
    mark: Slot<u32>,
    /// Set before this lane serves any client, until clients of an earlier run have been notified.
    untold: RefCell<Option<Arc<PendingReset>>>,
    oob: LaneOob,
    dscp: Slot<Dscp>,
}

/// The file server of one driver, and the clients that it calls.
struct FileService {
    /// The driver's.
    number: u64,
    server: FileServer,
    hosts: Rc<LaneHosts>,
}

impl LaneAfs {
    pub(super) fn new(
        cell: Cell,
        hosts: Hosts,
        process: Arc<ProcessState>,
        commons: Commons,
        audit: Option<LaneLog>,
        oob: OobOptions,
    ) -> io::Result<Self> {
        let objects = cell.attached.all().first().and_then(|first| first.volume.cache().objects());
        let untold = objects.and_then(|objects| process.hold_changes(objects));
        let oob = LaneOob::new(oob, Some(Rc::clone(&commons.pacer)))?;
        Ok(Self {
            untold: RefCell::new(untold),
            current: Current::new(cell),
            hosts: RefCell::new(hosts),
            process,
            commons,
            audit,
            files: RefCell::default(),
            file_counters: Arc::default(),
            cell_counters: Arc::default(),
            rx_counters: Arc::default(),
            drivers: RefCell::default(),
            opened: Slot::new(0),
            mark: Slot::new(0),
            oob,
            dscp: Slot::default(),
        })
    }

    /// Connections of the file server that begin from now on are marked so.
    pub(super) fn set_dscp(&self, dscp: Dscp) {
        self.dscp.set(dscp);
        if let Some(files) = &*self.files.borrow() {
            files.server.set_dscp(dscp);
        }
    }

    /// Breaks the callbacks of the cell's synthetic roots, which have changed.
    fn break_root_callbacks(&self) {
        let hosts = self.files.borrow().as_ref().map(|files| Rc::clone(&files.hosts));
        if let Some(hosts) = hosts.filter(|_| self.process.synthetic.take_unreported()) {
            lane::spawn(async move { hosts.void_all().await }).detach();
        }
    }

    /// Starts the driver of a socket, once an earlier one of the same address has ended.
    async fn start(&self, socket: Rc<UdpSocket>, role: Role) -> io::Result<Driver> {
        let address = socket.local_addr()?;
        let lane_group = self.process.lane_group(role, address);
        let lane_group = lane_group.ok_or_else(|| io::Error::other("a socket that nobody has asked for"))?;
        let lane = lane::current().id().0.into();
        let links = loop {
            match lane_group.join(lane) {
                Some(links) => break links,
                None => lane::time::sleep(JOIN_INTERVAL).await,
            }
        };
        let (config, counters) = match role {
            roles::FILES => (DriverConfig::default(), Arc::clone(&self.rx_counters)),
            _ => (small(), Arc::default()),
        };
        let driver = Driver::start_counting(socket, links, config, counters).map_err(io::Error::other)?;
        let (cell, counters) = (self.current.clone(), Arc::clone(&self.cell_counters));
        match role {
            roles::PROTECTION => Protection::new(cell, counters).serve_on(&driver),
            roles::LOCATION => Location::new(cell, counters).serve_on(&driver),
            roles::VOLUMES => Volumes::new(cell, counters).serve_on(&driver),
            _ => {}
        }
        let part = Part::new(&self.commons.pacer);
        driver.set_rate_source(move |sent, waiting| part.exchange(sent, waiting));
        let process = Arc::clone(&self.process);
        driver
            .on_proof_refused(move |remote, index| process.tokens.refused(lane::time::now(), remote, index));
        // The server has reported where marks cannot be set.
        let _ = driver.set_mark(self.mark.get());
        Ok(driver)
    }

    /// Offers the file server, once clients of an earlier run have been notified that their callbacks are void.
    async fn offer_files(&self, number: u64, driver: &Driver) {
        let attached = Rc::clone(&self.current.get().attached);
        // Settings without a volume are refused.
        let Some(first) = attached.all().first() else { return };
        // Stock clients try again.
        driver.serve(FILES, async |_: ServerCall| Err::<(), _>(AbortCode(abort::RESTARTING)));
        let hosts = self.hosts.borrow().clone();
        let hosts = LaneHosts::new(&hosts, first.volume.cache(), driver);
        match self.process.reset.done(|| hosts.reset_recorded()).await {
            Some(Err(error)) => {
                //@ cause: The index, which remembers AFS clients with cached files, could not be read at the start.
                //@ remedy: Look at the disk of the state directory. On clients that show old content run `fs flushall`.
                tracing::error!(
                    "AFS: clients cannot be notified that the server has restarted, as the index cannot be read: {error}; they may show \
                     old content for up to some hours; look at the disk [afs-restart-untold]"
                )
            }
            Some(Ok(resets)) if resets.silent > 0 => {
                //@ cause: AFS clients that had cached files did not answer when the server notified them of its restart. They are switched
                //@ off, or a firewall drops UDP packets to their port 7001.
                //@ remedy: None is needed for clients that are off. Otherwise open UDP port 7001 of the clients to the server.
                tracing::warn!(
                    "AFS: {} clients did not answer the notice that the server has restarted; they are notified when they next ask, and \
                     may show old content until then; look at firewalls if they are up [afs-clients-silent]",
                    resets.silent
                );
            }
            _ => {}
        }
        self.process.let_changes_in();
        self.untold.take();
        // A reload may have come meanwhile.
        let attached = Rc::clone(&self.current.get().attached);
        let audit = Audit::new(self.audit.clone());
        let ProcessState { locks, dir_page_versions, totals, .. } = &*self.process;
        let server = FileServer::new(attached, Rc::clone(&hosts), locks, dir_page_versions, totals, audit);
        server.offer_oob(&self.oob);
        server.set_dscp(self.dscp.get());
        driver.serve(FILES, server.clone());
        self.file_counters.set(vec![Arc::clone(server.counters()) as _, Arc::clone(hosts.counters()) as _]);
        *self.files.borrow_mut() = Some(FileService { number, server, hosts });
    }

    /// Ends a driver when its socket is wanted no longer; what it has in hand may end within some time. At the end of the
    /// service [`LaneService::drain`] does it. Gives its number.
    fn end_with(self: &Rc<Self>, listening: &Rc<Listening>, driver: &Driver) -> u64 {
        let number = self.opened.get();
        self.opened.set(number + 1);
        self.drivers.borrow_mut().push((number, driver.clone()));
        let (me, listening, driver) = (Rc::downgrade(self), Rc::clone(listening), driver.clone());
        lane::spawn(async move {
            listening.over().await;
            if let Some(me) = me.upgrade() {
                me.drivers.borrow_mut().retain(|(known, _)| *known != number);
            }
            driver.close(LEAVE_WITHIN).await;
            // It has a handle to the driver, which would keep the socket open.
            let ended =
                me.upgrade().and_then(|me| me.files.borrow_mut().take_if(|files| files.number == number));
            drop(ended);
        })
        .detach();
        number
    }
}

/// Counters of a service that begins later than the lane.
#[derive(Default)]
struct DeferredCounters(Mutex<Vec<Arc<dyn CounterBlock>>>);

impl DeferredCounters {
    fn set(&self, blocks: Vec<Arc<dyn CounterBlock>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = blocks;
    }
}

impl CounterBlock for DeferredCounters {
    fn visit(&self, each: &mut dyn FnMut(Reading)) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|block| block.visit(each));
    }
}

/// Signal that a socket is no longer wanted.
#[derive(Default)]
struct Listening {
    is_over: Slot<bool>,
    waiting: RefCell<Option<Waker>>,
}

/// Raises the signal when it is dropped.
struct Listener(Rc<Listening>);

impl Listening {
    async fn over(&self) {
        poll_fn(|cx| {
            if self.is_over.get() {
                return Poll::Ready(());
            }
            *self.waiting.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.is_over.set(true);
        if let Some(waker) = self.0.waiting.borrow_mut().take() {
            waker.wake();
        }
    }
}

impl LaneService for LaneAfs {
    fn counters(&self) -> Vec<(&'static str, Arc<dyn CounterBlock>)> {
        vec![
            ("rx", Arc::clone(&self.rx_counters) as _),
            ("afs", Arc::clone(&self.file_counters) as _),
            ("afs", Arc::clone(&self.cell_counters) as _),
            ("oob", Arc::clone(self.oob.counters()) as _),
            ("oob", Arc::clone(self.oob.connection_counters()) as _),
        ]
    }

    fn listen(
        self: Rc<Self>,
        socket: LaneSocket,
        role: Role,
        _: Rc<dyn ConnectionRouter>,
    ) -> LaneFuture<io::Result<()>> {
        Box::pin(async move {
            let socket = match socket {
                LaneSocket::Udp(socket) => socket,
                LaneSocket::Tcp(listener) => return self.oob.listen(&listener).await,
            };
            let driver = self.start(socket, role).await?;
            let listener = Listener(Rc::default());
            let number = self.end_with(&listener.0, &driver);
            if role == roles::FILES {
                self.offer_files(number, &driver).await;
            }
            // Until the server drops it: a drain takes the drivers as they are.
            std::future::pending().await
        })
    }

    fn take(self: Rc<Self>, stream: TcpStream, _: Role) {
        self.oob.accept_stream(stream);
    }

    fn prepare(self: Rc<Self>, site: &dyn Site, volumes: &LaneVolumes) -> Result<Switch, String> {
        let site = site.expect::<AfsSite>();
        let (cell, hosts, oob) = (site.open(volumes)?, site.hosts().clone(), site.oob());
        let (roots, dscp) = (site.root_of().map(str::to_owned), site.dscp());
        Ok(Box::new(move || {
            self.process.synthetic.set(roots.as_deref(), cell.attached.all());
            *self.hosts.borrow_mut() = hosts;
            if let Some(files) = &*self.files.borrow() {
                files.server.attach(Rc::clone(&cell.attached));
            }
            self.current.set(cell);
            self.oob.set_options(oob);
            self.set_dscp(dscp);
            self.break_root_callbacks();
        }))
    }

    fn mark(&self, mark: u32) {
        self.oob.set_mark(mark);
        self.mark.set(mark);
        for (_, driver) in self.drivers.borrow().iter() {
            let _ = driver.set_mark(mark);
        }
    }

    fn dismiss(&self) {
        self.oob.dismiss();
    }

    fn drain(self: Rc<Self>, deadline: Instant) -> LaneFuture<usize> {
        Box::pin(async move {
            let within = deadline.saturating_duration_since(lane::time::now());
            let drivers = self.drivers.take().into_iter();
            let drains: Vec<_> = drivers
                .map(|(_, driver)| lane::spawn(async move { driver.drain(within).await.cut }))
                .collect();
            // Clients are called back meanwhile, each from its own lane: so none ends before all have heard.
            let hosts = self.files.borrow().as_ref().map(|files| Rc::clone(&files.hosts));
            if let Some(hosts) = hosts {
                let released = self.process.released.done(|| hosts.release_all());
                // A client that is silent now is notified by the next server.
                let until = deadline.min(lane::time::now() + RELEASED_WITHIN);
                let _ = lane::time::timeout_at(until, released).await;
            }
            let mut cut = 0;
            for drain in drains {
                cut += drain.await;
            }
            // Calls are over by now, and their transfers with them.
            self.oob.drain(deadline).await;
            cut
        })
    }

    fn flush_log(&self) {
        if let Some(files) = &*self.files.borrow() {
            files.server.flush_audit();
        }
    }
}

//@ limit: a stop that tells hosts
//@ section: AFS hosts
//@ unit: time
//@ all: process: {}, all at once, and never beyond `drain_seconds`
//@ empty: those that were silent are told at the next start
//@ counter: none
//@ attack: afs-pools
/// Time for which a stop waits for hosts to hear that it goes: as long as one may take to answer, and a
/// little.
const RELEASED_WITHIN: Duration = Duration::from_secs(5);

/// Returns the configuration of a server that is asked now and then.
fn small() -> DriverConfig {
    //@ limit: calls of the location, protection and volume servers
    //@ section: AFS cell
    //@ unit: call in hand
    //@ connection: 4
    //@ address: as of every Rx service
    //@ all: lane: 256 of each of the three; 1,024 packet buffers and 4,096 connections
    //@ empty: calls are refused as busy, those of a client that has as many as are free first; each server has its own
    //@ counter: afs_cell_calls
    //@ attack: afs-pools
    let mut config = DriverConfig { handlers_max: 256, ..DriverConfig::default() };
    config.endpoint.packets = 1024;
    config.endpoint.connections_max = 4096;
    config.endpoint.unproved_max = 512;
    config
}

/// Time between two checks that the last driver of an address has ended.
const JOIN_INTERVAL: Duration = Duration::from_millis(5);
/// Time for which calls of an address that is given up may go on.
const LEAVE_WITHIN: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use identity::{Accounts, Writable};
    use index::{HostRecord, HostState};
    use lane::backend::sim::{Config, World};
    use rx_lane::LaneGroupLink;
    use vfs::{Cache, CacheOptions, Caller, CreateOptions, Name, Objects, ObjectsOptions, RelPath, Volume};
    use vfs::{VolumeOptions, VolumeSpec};
    use xdr::afs::AfsUuid;

    use super::*;
    use crate::attached_volumes::{AttachedVolumes, Attachment, VolumeType};
    use crate::cell::{Principals, ServerAddresses};
    use crate::host::HostOptions;

    #[test]
    fn nothing_is_changed_from_before_a_lane_serves_until_clients_of_an_earlier_run_have_had_their_time() {
        let world = World::new(1, Config::clean());
        let host = world.host("10.0.0.1");
        host.fs().create_dir_all("/srv").unwrap();
        world.block_on(&host, async {
            let objects = Objects::in_memory(ObjectsOptions::default());
            let index = objects.persistent_index().unwrap();
            let now = lane::time::wall_clock().duration_since(UNIX_EPOCH).unwrap();
            // No client is there.
            let addresses = vec![([10, 0, 0, 9], 7001).into()];
            let record = HostRecord { epoch: 1, state: HostState::Up, seen: now.as_secs() as i64, addresses };
            index.record_host([7; 16], record).unwrap();
            let cache = Cache::sharing(CacheOptions::default(), &objects);
            let spec = VolumeSpec::new("home".parse().unwrap(), "/srv", VolumeOptions::default());
            let volume = Volume::open(&cache, &spec.writable_by(Writable::anyone())).unwrap();
            let attachment = Attachment {
                volume: "home".parse().unwrap(),
                name: "home".parse().unwrap(),
                kind: VolumeType::ReadWrite,
            };
            let attached = Rc::new(AttachedVolumes::of([(attachment, volume.clone())]).unwrap());
            let uuid = AfsUuid([1; 16]);
            let (server_addresses, principals) =
                (Arc::new(ServerAddresses::new(uuid, 0, &[])), Arc::new(Principals::of(&Accounts::none())));
            let hosts = Hosts::new(HostOptions::default(), uuid, Some(Arc::clone(index)));
            let (cell, process) =
                (Cell { attached, server_addresses, principals }, Arc::<ProcessState>::default());
            let (commons, oob) = (Commons::new(Arc::default()), OobOptions::default());
            let lane_afs = LaneAfs::new(cell, hosts, Arc::clone(&process), commons, None, oob).unwrap();
            let put = lane::spawn(async move {
                let root = volume.lookup(RelPath::ROOT).await.unwrap().into_directory().unwrap().0;
                let (name, how) =
                    (Name::parse(b"x").unwrap(), CreateOptions { exclusive: true, mode: 0o644 });
                root.create(&Caller::anonymous(), name, how).await.unwrap();
            });
            lane::time::sleep(Duration::from_secs(1)).await;
            assert!(!put.is_finished(), "AFS does not even listen yet");
            let socket = UdpSocket::bind(([10, 0, 0, 1], 7000).into(), &DriverConfig::default().socket);
            let driver = Driver::start_seeded(socket.unwrap(), LaneGroupLink::alone(), small(), [0; 32]);
            lane_afs.offer_files(0, &driver).await;
            put.await;
            assert_eq!(index.hosts().unwrap(), []);
        });
    }
}
