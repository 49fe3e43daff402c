//! A simulated host that serves `/srv`.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use http::limits::Limits;
use http::service::{HttpCounters, Mount, Role, Service, Site};
use lane::backend::ListenOptions;
use lane::backend::sim::{Config, Host, World};
use lane::net::TcpListener;
use rustls::ServerConfig;
use service::commons::Commons;
use service::counters::ConnectionCounters;
use service::pacer::RateShare;
use tls::{KtlsPolicy, TicketKeys, TlsConfig};
use vfs::{Cache, CacheOptions, Volume, VolumeOptions, VolumeSpec};

/// Address that the server listens at.
pub(crate) const ADDRESS: &str = "10.0.0.1:80";

/// A world with a server and a client in it.
pub(crate) struct Pair {
    pub(crate) world: World,
    pub(crate) server: Host,
    pub(crate) client: Host,
    pub(crate) counters: Arc<HttpCounters>,
    pub(crate) connections: Arc<ConnectionCounters>,
    /// Rate that all connections share.
    pub(crate) share: Arc<RateShare>,
    /// Weak: what a service owns must end on its lane.
    service: Rc<RefCell<Weak<Service>>>,
}

impl Pair {
    /// Starts a server of these files with these limits.
    pub(crate) fn new(seed: u64, config: Config, limits: Limits, files: &[(&str, &[u8])]) -> Self {
        Self::serving(seed, config, limits, files, Role::Plain, site)
    }

    /// Starts a server with TLS, with kernel TLS where the world has it.
    pub(crate) fn tls(seed: u64, config: Config, limits: Limits, files: &[(&str, &[u8])]) -> Self {
        Self::serving(seed, config, limits, files, Role::Tls, site)
    }

    /// Starts a server of the site that `site` makes on its lane.
    pub(crate) fn serving(
        seed: u64,
        config: Config,
        limits: Limits,
        files: &[(&str, &[u8])],
        role: Role,
        site: impl FnOnce() -> Site + 'static,
    ) -> Self {
        let world = World::new(seed, config);
        let (server, client) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
        server.fs().create_dir_all("/srv").unwrap();
        for (name, content) in files {
            server.fs().write(&format!("/srv/{name}"), *content).unwrap();
        }
        // What was written in this very tick of the clock, or by a coarse one, might change without showing.
        world.run_for(Duration::from_secs(3));
        let counters = Arc::new(HttpCounters::default());
        let service: Rc<RefCell<Weak<Service>>> = Rc::default();
        let share: Arc<RateShare> = Arc::default();
        let connections = Arc::new(ConnectionCounters::default());
        let (their_counters, theirs, their_share, slot) =
            (Arc::clone(&counters), Arc::clone(&connections), Arc::clone(&share), Rc::clone(&service));
        server.spawn(async move {
            let mut site = site();
            site.limits = limits;
            site.tls = (role == Role::Tls).then(|| Arc::clone(&TLS));
            let service = Service::new(
                site,
                their_counters,
                theirs,
                None,
                KtlsPolicy::Auto,
                Commons::new(their_share),
                1,
            );
            *slot.borrow_mut() = Rc::downgrade(&service);
            let listener = TcpListener::bind(ADDRESS.parse().unwrap(), &ListenOptions::default()).unwrap();
            service.listen(listener, role).await;
        });
        world.run_for(Duration::from_millis(100));
        Self { world, server, client, counters, connections, share, service }
    }

    /// The running service.
    pub(crate) fn service(&self) -> Rc<Service> {
        self.service.borrow().upgrade().expect("the service runs")
    }

    /// Runs a client's story to its end.
    pub(crate) fn run<T: 'static>(&self, story: impl Future<Output = T> + 'static) -> T {
        self.world.block_on(&self.client, story)
    }

    /// Ends the world and asserts that nothing leaked.
    pub(crate) fn end(self) {
        assert_eq!(self.world.end(), Default::default());
    }
}

/// Returns what the server serves; to be made on its lane.
pub(crate) fn site() -> Site {
    Site::new(vec![mount("/", "/srv")])
}

/// The directory `path` at `place`; to be made on the lane.
pub(crate) fn mount(place: &str, path: &str) -> Mount {
    let cache = Cache::new(CacheOptions::default());
    let spec = VolumeSpec::new("sim".parse().unwrap(), path, VolumeOptions::default());
    Mount::new(place, Volume::open(&cache, &spec).unwrap(), true)
}

/// Bytes that differ at every place and for every seed.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

/// The certificate is made once and shared.
static TLS: LazyLock<Arc<ServerConfig>> = LazyLock::new(|| {
    let state = tempfile::tempdir().unwrap();
    TlsConfig::new(state.path()).load(Arc::new(TicketKeys::new().unwrap())).unwrap().config
});
