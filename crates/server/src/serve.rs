//! Running server: started as a whole or not at all, reloaded on SIGHUP, drained on SIGTERM and SIGINT.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use identity::Writable;
use lane::layout::{LaneCount, Layout, LayoutError, Wishes};
use lane::runtime::{LaneInfo, Runtime, RuntimeOptions};
use lane::topology::{CpuSet, Topology};
use service::config::is_narrowed_to_ipv4;
use service::pacer::RateShare;
use service::socket::Transport;
use service::volumes::{VolumeSection, VolumeTable};
use service::{Bound, Greeting};
use tokio::time::Instant;

use crate::admin::{self, AdminCounters, AdminSources};
use crate::config::{Config, ConfigError};
use crate::console;
use crate::control::{self, EventReceiver, LaneControl};
use crate::egress::{self, Egress};
use crate::lacks;
use crate::lane_main::{Boot, lane_main};
use crate::lane_messages::{Control, LaneEvent, Sites};
use crate::lane_services::ServicesStart;
use crate::listeners::Listeners;
use crate::loaded_sites::LoadedSites;
use crate::logs::{self, RequestLogs};
use crate::metrics::Blocks;
use crate::objects::{self, ProcessObjects, Use};
use crate::own_files::{OwnFiles, OwnFilesWatch};
use crate::pacing::Pacing;
use crate::process;
use crate::roots::{Root, VolumeRootMonitor};
use crate::server_error::ServerError;
use crate::signals::{Said, Signals};
use crate::silo::{Loads, MemoryWatch, Placement, Taking, who_serves_what};
use crate::startup_barrier::StartupBarrier;
use crate::state_dir;
use crate::tree_use;
use crate::trial::TrialState;
use crate::volumes::{Volumes, VolumesError};
use crate::writers;

use self::reloading::{ReloadCounters, Reloading};

mod reload;
mod reloading;
mod sites;
mod upkeep;
mod volumes;

/// Server with lanes that serve. [`Server::run`] stays until it is told to stop.
pub struct Server {
    housekeeping: tokio::runtime::Runtime,
    signals: Signals,
    serving: Serving,
}

/// Lanes, with the housekeeping thread's state about them.
struct Serving {
    runtime: Runtime,
    layout: Layout,
    listeners: Listeners,
    taking: Taking,
    placement: Arc<Placement>,
    /// Time when listeners were last repaired; `repair_at` is that of the next repair.
    repaired: Instant,
    repair_at: Option<Instant>,
    /// Reload under way, with whether another was asked for meanwhile.
    reloading: Option<Reloading>,
    reload_again: bool,
    /// Number of the last order to the lanes.
    orders: u64,
    reload_counters: Arc<ReloadCounters>,
    roots: VolumeRootMonitor,
    own_files: OwnFilesWatch,
    /// Troubles of volumes' directories, by volume, as `/health` shows them.
    root_troubles: BTreeMap<String, String>,
    /// Reasons why volumes that were opened for writing cannot be written to, by volume.
    hindered: BTreeMap<String, String>,
    controls: Vec<LaneControl>,
    pacing: Pacing,
    egress: Egress,
    events: EventReceiver,
    /// Thread that looks at memory until the server ends; `None` on one node.
    _memory: Option<MemoryWatch>,
    logs: RequestLogs,
    admin: Option<std::net::TcpListener>,
    console: Option<std::os::unix::net::UnixListener>,
    subject: AdminSources,
    /// Volumes as the lanes have them open.
    volumes: VolumeTable,
    objects: ProcessObjects,
    /// Sites that services serve on every lane.
    sites: Sites,
    /// Troubles of the configuration while it is in use, as [`service::Site::troubles`] has them.
    config_troubles: Vec<(String, String)>,
    /// Troubles of configuration and sites, as `/health` shows them.
    site_troubles: Vec<(String, String)>,
    /// Time when certificates and the like that the server makes were last renewed.
    renewed: Option<Instant>,
    /// Troubles with writing, as `/health` shows them.
    write_troubles: Vec<(String, String)>,
    /// Trouble with the index, as `/health` shows it.
    index_trouble: Option<String>,
    /// Reasons why volumes are served to administrators alone.
    seals: Vec<(String, String)>,
    /// Directories that have lost their access lists, with their volumes' names.
    lost_lists: Vec<(String, PathBuf)>,
    /// Set once the index's counters are shown.
    tells_of_index: bool,
    config: Config,
    /// Configuration of the start, whose start-only settings stay.
    started: Config,
    addresses: Addresses,
    greetings: Vec<Greeting>,
    warnings: Vec<String>,
}

/// Addresses where a server listens, with the ports that the kernel chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Addresses of services, by the service's name, in the order of the configuration.
    pub services: Vec<(&'static str, Bound)>,
    /// Admin address: metrics and health.
    pub admin: Option<SocketAddr>,
}

/// Purpose of checking a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckFor {
    /// Check for a start: all is started but no address listened at, so that what a start would refuse is
    /// found.
    Start,
    /// Check for a reload of the running server: its addresses are in use, and may be.
    Reload,
}

/// Purpose of lanes: to serve, or only to show that they could.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Serve,
    Check,
}

/// Checks a configuration and returns warnings for the administrator about a good one. Nothing is made that a
/// start would make: no state directory, no certificate, no logs.
///
/// # Errors
/// [`ServerError`].
pub fn check(config: &Config, what: CheckFor) -> Result<Vec<String>, ServerError> {
    config.check()?;
    logs::check(&config.log).map_err(|error| config.placed(error))?;
    if what == CheckFor::Start {
        process::prepare().map_err(io("the privileges of the process cannot be given up"))?;
        let Serving { runtime, warnings, controls, .. } = Serving::start(config.clone(), Purpose::Check)?;
        drop(controls);
        runtime.join().map_err(|_| ServerError::LaneEnded)?;
        return Ok(warnings.into_iter().chain(in_use(config)).chain(unusable_index(config)).collect());
    }
    let layout = layout(config, &Topology::of_this_machine()?)?;
    check_state_dir(config)?;
    let trial = trial_state(config)?;
    let loaded_sites = LoadedSites::load(config, &layout, &ProcessObjects::default(), trial.path(), true)?;
    for volume in &config.volumes {
        std::fs::read_dir(&volume.path).map_err(io(volume.path.display().to_string()))?;
    }
    taking(config, &layout)?;
    check_marks(config)?;
    Ok(loaded_sites.warnings().iter().cloned().chain(unusable_index(config)).collect())
}

/// Returns the reason why a start could not use the existing index, which is left as it is.
fn unusable_index(config: &Config) -> Option<String> {
    let state = config.server.state_dir()?;
    let is_numbered = |volume: &VolumeSection| volume.objects || volume.writable != Writable::Nobody;
    if !config.volumes.iter().any(is_numbered) {
        return None;
    }
    let problem = match Volumes::look_patiently(&state) {
        // A server that runs has it, which is told of where it matters.
        Ok(_) | Err(VolumesError::InUse) => return None,
        Err(problem) => problem,
    };
    //@ level: WARN
    //@ cause: `linerate serve --check` found an index in the state directory that cannot be read: it is damaged, or of a later program.
    //@ remedy: Do what the line says. A server that starts all the same lets no user write, and does not serve AFS.
    Some(format!(
        "index: the one in {} cannot be used: {problem}; a server that starts with it lets nobody write and does not serve AFS \
         [index-unusable]",
        state.display()
    ))
}

/// Returns what other processes hold that a start would need to write.
fn in_use(config: &Config) -> Vec<String> {
    let writable = config.volumes.iter().filter(|volume| volume.writable != Writable::Nobody);
    let of_others = writable.filter(|volume| matches!(tree_use::hold(&volume.path, true), Ok(None)));
    let told = of_others.map(|volume| {
        //@ level: WARN
        //@ cause: `linerate serve --check` found that a server which runs, or a command, writes to the directory of a volume.
        //@ remedy: Stop the other server, or serve one of them without `writable`. Where it is the server that this configuration is
        //@ for, check it by `--check=reload`.
        format!(
            "volume {}: another server that runs writes to {}; one started now could write nothing there: stop that one, or serve one of \
             them without writable; --check=reload checks for the server that runs [volume-in-use]",
            volume.name,
            volume.path.display()
        )
    });
    told.collect()
}

impl Server {
    /// Starts every lane and listener.
    ///
    /// # Errors
    /// [`ServerError`]; nothing is left running then.
    pub fn start(config: Config) -> Result<Self, ServerError> {
        config.check()?;
        process::prepare().map_err(io("the privileges of the process cannot be given up"))?;
        let housekeeping = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let housekeeping = housekeeping.map_err(io("the housekeeping thread"))?;
        let signals = {
            let _within = housekeeping.enter();
            Signals::catch().map_err(io("signals"))?
        };
        Ok(Self { housekeeping, signals, serving: Serving::start(config, Purpose::Serve)? })
    }

    /// Returns the addresses where the server listens.
    pub fn addresses(&self) -> &Addresses {
        &self.serving.addresses
    }

    /// Returns the lines for the user who started the server, by service.
    pub fn greetings(&self) -> &[Greeting] {
        &self.serving.greetings
    }

    /// Returns which lanes serve what, a line for each silo.
    pub fn who_serves_what(&self) -> Vec<String> {
        who_serves_what(&self.serving.layout, self.serving.config.server.nodes_without_nic)
    }

    /// Returns a line for each volume that some user may change: the users, or what prevents changes.
    pub fn who_may_write(&self) -> Vec<String> {
        let Serving { config, write_troubles, .. } = &self.serving;
        writers::told(&config.volumes, write_troubles, objects::reads_every_file())
    }

    /// Returns warnings for the administrator.
    pub fn warnings(&self) -> &[String] {
        &self.serving.warnings
    }

    /// Serves until SIGTERM or SIGINT, then drains. `load` reads the configuration again for SIGHUP.
    ///
    /// # Errors
    /// When a lane ended by itself, or the admin address cannot be served.
    pub fn run(self, load: impl Fn() -> Result<Config, String>) -> Result<(), ServerError> {
        let Self { housekeeping, mut signals, mut serving } = self;
        let ended = housekeeping.block_on(serving.housekeeping_loop(&mut signals, load));
        // Log lines of the last requests are written before the process ends.
        drop(std::mem::take(&mut serving.logs));
        ended?;
        let counters: Vec<_> = serving.runtime.lanes().map(|lane| Arc::clone(&lane.counters)).collect();
        let joined = serving.runtime.join();
        let abandoned: u64 = counters.iter().map(|lane| lane.abandoned.get()).sum();
        if abandoned > 0 {
            //@ cause: The server ended while reads or writes had not come back from the kernel, as when a disk or network file system hangs.
            //@ remedy: Look at the disk, and whether files written last are complete.
            tracing::error!(
                "disk: {} not ended when the server did, as when a disk does not answer; what was to be written may be missing; look at \
                 the disk [disk-abandoned]",
                logs::counted(abandoned, "operation had", "operations had")
            );
        }
        joined.map_err(|_| ServerError::LaneEnded)?;
        serving.objects.close(&serving.config);
        Ok(())
    }
}

impl Serving {
    fn start(mut config: Config, purpose: Purpose) -> Result<Self, ServerError> {
        lane::probe::require_calls()?;
        OwnFiles::of(&config).guard(&mut config.volumes);
        let roots = Root::all(&config.volumes);
        let volumes = Root::table(&roots, &VolumeTable::default(), &config.volumes);
        let topology = Topology::of_this_machine()?;
        let layout = layout(&config, &topology)?;
        check_state_dir(&config)?;
        let mut objects = ProcessObjects::default();
        let why = if purpose == Purpose::Serve { Use::Serve } else { Use::Try };
        let volumes = objects.give(volumes, layout.lane_count(), config.server.state_dir(), why)?;
        let trial = (purpose == Purpose::Check).then(|| trial_state(&config)).transpose()?;
        let state_dir = match &trial {
            Some(trial) => trial.path().map(std::path::Path::to_owned),
            None => config.server.state_dir(),
        };
        let is_trial = purpose == Purpose::Check;
        let mut loaded_sites = LoadedSites::load(&config, &layout, &objects, state_dir.as_deref(), is_trial)?;
        // What is made at a first start is there by now.
        OwnFiles::of(&config).withhold(objects.withheld());
        let mut warnings = loaded_sites.warnings().to_vec();
        let config_troubles = loaded_sites.troubles().to_vec();
        if is_narrowed_to_ipv4() {
            //@ level: WARN
            //@ cause: An address is `*:PORT`, and the kernel gives the server no sockets of IPv6.
            //@ remedy: None is needed where IPv6 is off on purpose: give `0.0.0.0:PORT` to be told no more.
            warnings.push(
                "listeners: this machine has no IPv6, and *:PORT stands for IPv4 alone; give 0.0.0.0:PORT where that is meant \
                 [addresses-narrowed]"
                    .to_owned(),
            );
        }
        let sends_datagrams = config.sockets().iter().any(|(_, wanted)| wanted.transport == Transport::Rx);
        warnings.extend(lacks::warnings(layout.lane_count(), sends_datagrams));
        let taking = taking(&config, &layout)?;
        let placement =
            Arc::new(Placement::new(&topology, &layout, &taking, config.server.nodes_without_nic));
        check_marks(&config)?;
        warnings.extend(egress::warnings(&config.server.egress_marks, &layout));
        let egress = Egress::new(&config.server.egress_marks, &layout);
        let mut listeners = Listeners::none();
        let change = listeners.change(&config.sockets(), &layout, &taking)?;
        loaded_sites.bound(&change);
        if purpose == Purpose::Serve {
            loaded_sites.bound_descriptors();
        }
        let services = config.bound(&change);
        let sites = loaded_sites.into_sites();
        let blocks = Blocks::default();
        logs::add_to(&blocks);
        let health = Arc::default();
        let logs = match purpose {
            Purpose::Serve => {
                let withheld = objects.withheld();
                let started = RequestLogs::start(&config.log, &blocks, &health, withheld);
                started.map_err(|error| config.placed(error))?
            }
            Purpose::Check => RequestLogs::default(),
        };
        let admin = config.admin.listen.map(admin::bind).transpose();
        let address = config.admin.listen.map(|address| format!(" {address}")).unwrap_or_default();
        let admin = admin.map_err(io(format!("the admin address{address} cannot be listened at")))?;

        let bound = admin.as_ref().and_then(|listener| listener.local_addr().ok());
        // Without one everything is served as well.
        let console = bound.map(console::bind).transpose().unwrap_or_else(|error| {
            //@ level: WARN
            //@ cause: The socket by which `linerate smb` and other commands ask the server could not be opened.
            //@ remedy: Look whether another server has the same admin address. Clients are served as ever.
            warnings.push(format!(
                "console: it cannot be opened: {error}; `linerate smb` and `linerate acl set` cannot ask this server, clients are served \
                 as ever [console-not-opened]"
            ));
            None
        });

        let (event_senders, mut events) = control::events(layout.lane_count());
        let (controls, orders) = control::controls(layout.lane_count(), CONTROLS_MAX);
        let mut boots = Vec::new();
        let shares = (0..layout.lane_count()).map(|_| Arc::<RateShare>::default()).collect();
        let pacing = Pacing::new(shares, config.server.egress_rate());
        let loads = Loads::new(layout.lane_count());
        let startup_barrier = StartupBarrier::new(layout.lane_count());
        for (lane, (control, events)) in orders.into_iter().zip(event_senders).enumerate() {
            boots.push(Some(Boot {
                services: ServicesStart {
                    sites: sites.clone(),
                    volumes: volumes.clone(),
                    withheld: Arc::clone(objects.withheld()),
                    blocks: blocks.clone(),
                    logs: logs.lane(),
                    share: pacing.share(lane),
                    seed: seed(lane),
                },
                listeners: if purpose == Purpose::Serve { change.for_lane(lane)? } else { Vec::new() },
                placement: Arc::clone(&placement),
                startup_barrier: Arc::clone(&startup_barrier),
                loads: loads.clone(),
                control,
                events,
                mark: egress.of_lane(lane),
            }));
        }
        if purpose == Purpose::Serve {
            change.listen()?;
        }
        listeners.commit(change);
        // From here on nothing but a defect keeps it from serving.
        objects.hand_over(&config);
        let boots = Arc::new(Mutex::new(boots));
        let runtime = Runtime::start(&layout, RuntimeOptions::default(), move |spec| {
            let boot = boots.lock().ok().and_then(|mut boots| boots[spec.id].take());
            lane_main(spec, boot.expect("every lane boots once"))
        })?;
        wait_until_serving(&mut events, layout.lane_count())?;
        // Only now do they know what they do not serve.
        let greetings = sites.iter().flatten().map(|site| site.greeting()).collect();
        if purpose == Purpose::Serve {
            warnings.extend(objects.news());
        }

        let lanes: Arc<[LaneInfo]> = runtime.lanes().cloned().collect();
        if purpose == Purpose::Serve && lanes.iter().any(|lane| !lane.is_pinned) {
            //@ cause: A seccomp filter, such as a container's, refuses sched_setaffinity(2).
            //@ remedy: Allow the call in the filter's profile. Without it lanes may move between CPUs, which costs throughput.
            tracing::warn!(
                "lane: none can be bound to its CPU, as sched_setaffinity(2) is refused; files are served at less than full speed; allow \
                 the call in the seccomp profile [lanes-unpinned]"
            );
        }
        let memory = MemoryWatch::start(&topology, &lanes, &blocks).map_err(io("the memory watch"))?;
        let asker = memory.as_ref().map(MemoryWatch::asker).unwrap_or_default();
        let addresses = Addresses { services, admin: bound };
        let roots = VolumeRootMonitor::start(roots, objects.objects().cloned())
            .map_err(io("the watch over volumes"))?;
        let own_files = OwnFilesWatch::start(OwnFiles::of(&config), Arc::clone(objects.withheld()));
        let own_files = own_files.map_err(io("the watch over the server's own files"))?;
        let reload_counters = Arc::new(ReloadCounters::default());
        blocks.add_of_process("server", Arc::clone(&reload_counters) as _);
        let draining = Arc::default();
        let admin_counters = Arc::<AdminCounters>::default();
        blocks.add_of_process("admin", Arc::clone(&admin_counters) as _);
        blocks.add_of_process("descriptors", Arc::clone(lane::descriptors::budget().counters()) as _);
        let subject = AdminSources {
            blocks,
            lanes,
            started: SystemTime::now(),
            draining,
            health,
            memory: asker,
            volumes: Arc::default(),
            names: config.admin.names.clone().into(),
            counters: admin_counters,
        };
        let mut serving = Self {
            runtime,
            layout,
            listeners,
            taking,
            placement,
            repaired: Instant::now(),
            repair_at: None,
            reloading: None,
            reload_again: false,
            orders: 0,
            reload_counters,
            roots,
            own_files,
            root_troubles: BTreeMap::new(),
            hindered: BTreeMap::new(),
            controls,
            pacing,
            egress,
            events,
            _memory: memory,
            logs,
            admin,
            console,
            subject,
            volumes,
            objects,
            sites,
            config_troubles,
            site_troubles: Vec::new(),
            renewed: None,
            write_troubles: Vec::new(),
            index_trouble: None,
            seals: Vec::new(),
            lost_lists: Vec::new(),
            tells_of_index: false,
            started: config.clone(),
            config,
            addresses,
            greetings,
            warnings,
        };
        if purpose == Purpose::Serve {
            serving.look_at_objects();
            serving.look_at_sites(true);
        }
        Ok(serving)
    }

    async fn housekeeping_loop(
        &mut self,
        signals: &mut Signals,
        load: impl Fn() -> Result<Config, String>,
    ) -> Result<(), ServerError> {
        if let Some(listener) = self.admin.take() {
            let listener = tokio::net::TcpListener::from_std(listener).map_err(io("the admin address"))?;
            tokio::spawn(admin::serve(listener, self.subject.clone()));
        }
        if let Some(listener) = self.console.take() {
            let services = self.config.wishes.iter().map(|wish| &wish.service);
            let rights = self.objects.rights_endpoint();
            let endpoints = services
                .filter_map(|service| Some((service.name(), service.admin_endpoint()?)))
                .chain(rights)
                .collect();
            tokio::spawn(console::serve(listener, endpoints));
        }
        let mut rounds = tokio::time::interval(upkeep::LOOK_AROUND_PERIOD);
        let mut health = tokio::time::interval(upkeep::HEALTH_PERIOD);
        health.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let (repair, reload_late) = (at(self.repair_at), at(self.reload_due()));
            tokio::select! {
                said = signals.next() => match said {
                    Said::Reload => self.reload(&load),
                    Said::ReopenLogs => self.reopen_logs(),
                    Said::Stop => return self.drain(signals).await,
                },
                () = self.pacing.tick() => {}
                events = self.events.recv() => self.on_event(events.ok_or(ServerError::LaneEnded)?)?,
                () = repair => self.mend_listeners(),
                () = reload_late => self.reload_late(),
                () = Self::closed(self.reloading.as_ref()) => self.taken(),
                sighting = self.roots.next() => self.on_root_observed(sighting),
                () = self.egress.next_look() => self.follow_links(),
                _ = rounds.tick() => {
                    self.look_around();
                    self.renew();
                }
                _ = health.tick() => {
                    self.look_at_objects();
                    self.look_at_sites(false);
                }
            }
            if self.reload_again && self.reloading.is_none() {
                self.reload(&load);
            }
        }
    }

    /// Opens log files again, after a rotation moved them.
    fn reopen_logs(&self) {
        self.logs.reopen();
    }

    async fn drain(&mut self, signals: &mut Signals) -> Result<(), ServerError> {
        let patience = self.config.drain();
        tracing::info!(
            seconds = patience.as_secs(),
            "draining: transfers in progress may end; again to stop at once"
        );
        self.subject.draining.store(true, Ordering::Relaxed);
        self.forget_reload();
        let mut unheard: Vec<usize> = (0..self.controls.len()).collect();
        self.listeners.close_all();
        let deadline = tokio::time::Instant::now() + patience + Duration::from_secs(5);
        let (mut ended, mut cut) = (0, 0);
        while ended < self.controls.len() {
            // A full box is a lane that has not come round to it yet.
            unheard.retain(|&lane| self.controls[lane].send(Control::Drain(patience)).is_err());
            let ask_again = async {
                match unheard.is_empty() {
                    true => std::future::pending().await,
                    false => tokio::time::sleep(ASK_AGAIN).await,
                }
            };
            tokio::select! {
                () = ask_again => {}
                () = self.pacing.tick() => {}
                () = self.egress.next_look() => self.follow_links(),
                events = self.events.recv() => match events {
                    Some(LaneEvent::Ended { cut: more }) => (ended, cut) = (ended + 1, cut + more),
                    Some(_) => {}
                    None => break,
                },
                said = signals.next() => match said {
                    Said::Reload => {}
                    Said::ReopenLogs => self.reopen_logs(),
                    Said::Stop => exit_at_once(),
                },
                () = tokio::time::sleep_until(deadline) => {
                    //@ cause: A lane (thread) did not end within the drain time and some seconds more, as when a disk keeps it waiting.
                    //@ remedy: Look at the disks. The server ends all the same, and its open connections are cut.
                    tracing::error!(
                        "lane: it does not end in time, and the server stops without it; its connections are cut; look at the disks \
                         [lane-does-not-end]"
                    );
                    exit_at_once();
                }
            }
        }
        if cut > 0 {
            //@ cause: The server was asked to stop, and transfers were not over within `drain_seconds`.
            //@ remedy: Raise `drain_seconds` if such transfers should end. Clients see a broken connection and may try again.
            tracing::warn!(
                "connections: {} cut, as the drain time was over; raise drain_seconds if transfers should end [connections-cut]",
                logs::counted(cut as u64, "transfer was", "transfers were")
            );
        }
        Ok(())
    }
}

/// Waits until the time `time`; for ever without one.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Ends the process without ending its lanes, once the last messages are out.
fn exit_at_once() -> ! {
    logs::finish();
    std::process::exit(EXIT_AT_ONCE)
}

fn wait_until_serving(events: &mut EventReceiver, lanes: usize) -> Result<(), ServerError> {
    let mut serving = 0;
    while serving < lanes {
        match events.blocking_recv() {
            Some(LaneEvent::Serving) => serving += 1,
            Some(LaneEvent::Prepared { .. } | LaneEvent::Switched { .. }) => {}
            Some(LaneEvent::Failed(problem)) => return Err(ServerError::Serve(problem)),
            Some(LaneEvent::ListenerDied { problem, .. }) => return Err(ServerError::Serve(problem)),
            Some(LaneEvent::Ended { .. } | LaneEvent::StoppedListening { .. }) | None => {
                return Err(ServerError::LaneEnded);
            }
        }
    }
    Ok(())
}

/// Checks that no other user can change the state directory, if it is there.
fn check_state_dir(config: &Config) -> Result<(), ServerError> {
    let trouble = config.server.state_dir().and_then(|state| state_dir::trouble(&state));
    trouble.map_or(Ok(()), |why| Err(config.placed(ConfigError::invalid("server.state_dir", why)).into()))
}

/// Returns the temporary state directory for the check of a configuration.
fn trial_state(config: &Config) -> Result<TrialState, ServerError> {
    let state = config.server.state_dir();
    TrialState::of(state.as_deref()).map_err(|error| {
        let dir = state.as_deref().unwrap_or(std::path::Path::new("")).display();
        config.placed(ConfigError::invalid("server.state_dir", format!("{dir}: {error}"))).into()
    })
}

fn layout(config: &Config, topology: &Topology) -> Result<Layout, ServerError> {
    let lanes = match (&config.server.cpus, config.server.lanes) {
        (Some(list), _) => LaneCount::Cpus(cpus_of(list).map_err(|error| config.placed(error))?),
        (None, Some(count)) => LaneCount::Total(count),
        (None, None) => LaneCount::All,
    };
    let wishes = Wishes {
        lanes,
        silos: config.server.silos,
        share_cores: config.server.share_cores,
        helper_threads: None,
    };
    Layout::new(topology, &wishes).map_err(|error| {
        let limit = match &error {
            LayoutError::TooManyInAll { usable, .. } => format!("; give 1 to {usable}"),
            _ => String::new(),
        };
        match (&config.server.cpus, config.server.lanes) {
            (Some(_), _) => config.refused("server.cpus", error),
            (None, Some(_)) => config.refused("server.lanes", format!("{error}{limit}")),
            (None, None) => error.into(),
        }
    })
}

/// Returns the silos that take connections.
fn taking(config: &Config, layout: &Layout) -> Result<Taking, ServerError> {
    Taking::new(layout, &config.server.drained_nodes)
        .map_err(|error| config.refused("server.drained_nodes", error))
}

fn check_marks(config: &Config) -> Result<(), ServerError> {
    egress::check(&config.server.egress_marks).map_err(|error| config.refused("server.egress_marks", error))
}

fn cpus_of(list: &str) -> Result<CpuSet, ConfigError> {
    let refused = |problem: String| ConfigError::invalid("server.cpus", problem);
    let cpus: CpuSet =
        list.parse().map_err(|error| refused(format!("{error}; give a list such as \"0-3,8\"")))?;
    match cpus.is_empty() {
        true => Err(refused(
            "it names no CPU: give a list such as \"0-3,8\", or leave it away for all".to_owned(),
        )),
        false => Ok(cpus),
    }
}

/// Returns a seed that differs for each lane and run, and guards no secret.
fn seed(lane: usize) -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (now.as_nanos() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ ((lane as u64) << 48)
}

impl Addresses {
    /// Returns the addresses of the service of this name.
    pub fn of(&self, service: &str) -> Vec<Bound> {
        let of = |(name, bound): &(&'static str, Bound)| (*name == service).then_some(*bound);
        self.services.iter().filter_map(of).collect()
    }
}

fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> ServerError {
    let what = what.into();
    move |source| ServerError::Io { what, source }
}

//@ limit: orders of the control thread to a lane
//@ section: Logs, control and descriptors
//@ unit: message
//@ all: lane: {} that wait
//@ empty: a reload is refused for all lanes; others feel nothing
//@ counter: server_reloads{outcome="refused"}, server_last_reload_refused
//@ attack: none, an administrator's orders
//@ reach: server
/// Most messages that wait for a lane: a few reloads and the drain.
const CONTROLS_MAX: usize = 8;
/// Time between two attempts to reach a lane whose box is full.
const ASK_AGAIN: Duration = Duration::from_millis(50);
/// Exit code of an end by SIGINT, as shells report it.
const EXIT_AT_ONCE: i32 = 130;
