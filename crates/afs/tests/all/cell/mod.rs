//! sim: the cell's servers on a simulated lane, asked by a client beside them.

use std::rc::Rc;
use std::sync::Arc;

use afs::attached_volumes::{AttachedVolumes, Attachment, VolumeType};
use afs::cell::{Cell, CellCounters, Current, Location, Principals, Protection, ServerAddresses, Volumes};
use afs::roots::SyntheticVolumes;
use identity::{Accounts, Writable};
use lane::backend::UdpOptions;
use lane::backend::sim::{Config, World};
use lane::net::UdpSocket;
use rx_lane::{AbortCode, Anonymous, Connection, Driver, DriverConfig, LaneGroupLink};
use vfs::{Cache, CacheOptions, Objects, ObjectsOptions, Volume, VolumeOptions, VolumeSpec};
use xdr::afs::AfsUuid;
use xdr::rpc::{Call, Received};

mod location;
mod protection;
mod volumes;

const ADDRESS: &str = "10.0.0.1";
const UUID: AfsUuid = AfsUuid(*b"a server's uuid.");
const SINCE: u32 = 1_000_000_000;
/// Anne and her friend Bert, in groups.
const ACCOUNTS: &str = include_str!("../../accounts.toml");

/// A client of the cell's servers.
struct Client {
    driver: Driver,
    cell: Current<Cell>,
    counters: Arc<CellCounters>,
    port: u16,
}

impl Client {
    fn connect(&self, service: u16) -> Connection {
        let address = format!("{ADDRESS}:{}", self.port).parse().unwrap();
        self.driver.connect(address, service, &Anonymous).unwrap()
    }

    /// Makes a call; refused, it gives the abort code.
    async fn ask<P: Call>(&self, service: u16, request: &P) -> Result<Received<P>, i32> {
        let mut call = self.connect(service).call().await.unwrap();
        let reply = xdr::rpc::call(&mut call, request).await;
        reply.map_err(|failure| AbortCode::from(failure).0)
    }

    /// The cell has roots from now on.
    fn set_synthetic(&self, synthetic: &SyntheticVolumes) {
        let before = self.cell.get();
        let volumes = before.attached.all().iter().map(|served| {
            let (volume, name) = (served.volume.name().clone(), served.name.parse().unwrap());
            (Attachment { volume, name, kind: served.kind }, served.volume.clone())
        });
        let attached = AttachedVolumes::of(volumes).unwrap().with_synthetic(synthetic.clone());
        assert!(synthetic.set(Some("test.example"), attached.all()));
        let (server_addresses, principals) =
            (Arc::clone(&before.server_addresses), Arc::clone(&before.principals));
        self.cell.set(Cell { attached: Rc::new(attached), server_addresses, principals });
    }

    /// The number that the first volume has.
    fn first(&self) -> u32 {
        self.cell.get().attached.all()[0].first
    }
}

fn cell(volumes: &[(&str, VolumeType)]) -> Cell {
    let cache = Cache::sharing(CacheOptions::default(), &Objects::in_memory(ObjectsOptions::default()));
    let open = |&(name, kind): &(&str, VolumeType)| {
        let spec = VolumeSpec::new(name.parse().unwrap(), format!("/{name}"), VolumeOptions::default());
        let volume = Volume::open(&cache, &spec.writable_by(Writable::anyone())).unwrap();
        let (volume_name, name) = (name.parse().unwrap(), name.parse().unwrap());
        (Attachment { volume: volume_name, name, kind }, volume)
    };
    Cell {
        attached: Rc::new(AttachedVolumes::of(volumes.iter().map(open)).unwrap()),
        server_addresses: Arc::new(ServerAddresses::new(
            UUID,
            SINCE,
            &[format!("{ADDRESS}:7000").parse().unwrap()],
        )),
        principals: Arc::new(Principals::of(&Accounts::parse(ACCOUNTS).unwrap())),
    }
}

/// Runs `test` beside servers of these volumes.
fn with(volumes: &'static [(&str, VolumeType)], test: impl AsyncFnOnce(Client) + 'static) {
    let world = World::new(1, Config::default());
    let host = world.host(ADDRESS);
    volumes.iter().for_each(|(name, _)| host.fs().create_dir_all(&format!("/{name}")).unwrap());
    world.block_on(&host, async move {
        let bind = |seed| {
            let socket = UdpSocket::bind(format!("{ADDRESS}:0").parse().unwrap(), &UdpOptions::default());
            Driver::start_seeded(socket.unwrap(), LaneGroupLink::alone(), DriverConfig::default(), [seed; 32])
        };
        let (server, client) = (bind(1), bind(2));
        let (cell, counters) = (Current::new(cell(volumes)), Arc::<CellCounters>::default());
        Location::new(cell.clone(), Arc::clone(&counters)).serve_on(&server);
        Protection::new(cell.clone(), Arc::clone(&counters)).serve_on(&server);
        Volumes::new(cell.clone(), Arc::clone(&counters)).serve_on(&server);
        let port = server.local_addr().unwrap().port();
        test(Client { driver: client, cell, counters, port }).await;
    });
}
