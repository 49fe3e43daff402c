//! Instructions that requests of a file server take, with the client's part of them and the simulated world's own, which are the same
//! every time.

use std::cell::RefCell;
use std::hint::black_box;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use gungraun::{library_benchmark, library_benchmark_group};
use identity::{Accounts, NtHash, Writable};
use lane::backend::ListenOptions;
use lane::backend::sim::{Config, Host, World};
use lane::buffer::Buf;
use lane::layout::Layout;
use lane::net::{TcpListener, TcpStream};
use service::commons::Commons;
use service::config::Document;
use service::volumes::{LaneVolumes, VolumeSection, VolumeTable};
use service::{ConnectionRouter, LaneService, LaneSocket, LaneStart, LoadContext, Role, Service, Site};
use smb::Smb;
use smb_auth::Credentials;
use smb_client::{Channel, Connection, Open, OpenParams, Options, Sealing, Signing, Tree};
use smb_wire::Guid;
use vfs::{Cache, CacheOptions, Objects, ObjectsOptions};
use zeroize::Zeroizing;

#[library_benchmark]
#[bench::plain(Cell::new(Protection::None))]
#[bench::signed(Cell::new(Protection::Signed))]
#[bench::sealed(Cell::new(Protection::Sealed))]
fn read_4_kib_64_times(cell: Cell) -> Cell {
    cell.run(async |open| {
        // As many at once as go into a batch or two.
        for _ in 0..ROUNDS / AT_ONCE {
            let reading: Vec<_> = (0..AT_ONCE)
                .map(|at| {
                    let open = open.clone();
                    lane::spawn(async move { open.read(at as u64 * 4096, 4096).await })
                })
                .collect();
            for read in reading {
                let data = black_box(read.await).expect("it is there");
                assert_eq!(data.len(), 4096);
            }
        }
    });
    cell
}

#[library_benchmark]
#[bench::plain(Cell::new(Protection::None))]
#[bench::signed(Cell::new(Protection::Signed))]
#[bench::sealed(Cell::new(Protection::Sealed))]
fn read_1_mib_8_times(cell: Cell) -> Cell {
    cell.run(async |open| {
        for _ in 0..ROUNDS / AT_ONCE {
            let data = black_box(open.read(0, MIB as u32).await).expect("it is there");
            assert_eq!(data.len(), MIB);
        }
    });
    cell
}

#[library_benchmark]
#[bench::plain(Cell::new(Protection::None))]
#[bench::signed(Cell::new(Protection::Signed))]
#[bench::sealed(Cell::new(Protection::Sealed))]
fn write_1_mib_8_times(cell: Cell) -> Cell {
    cell.run(async |open| {
        let mut payload = vec![Buf::from(vec![7; MIB])];
        for _ in 0..ROUNDS / AT_ONCE {
            let written;
            (written, payload) = open.write(0, payload).await;
            assert_eq!(black_box(written).expect("there is room") as usize, MIB);
        }
    });
    cell
}

#[library_benchmark]
#[bench::one_by_one(Cell::new(Protection::None))]
fn open_and_close_64_times(cell: Cell) -> Cell {
    cell.run(async |open| {
        for _ in 0..ROUNDS {
            let open = Open::create(open.tree(), FILE, &OpenParams::read()).await.expect("it is there");
            black_box(open.close(0).await).expect("it is open");
        }
    });
    cell
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Protection {
    None,
    Signed,
    Sealed,
}

/// Simulated server and its client on another machine, with an open file on which every path has been taken
/// before.
struct Cell {
    open: Rc<RefCell<Option<Open>>>,
    server: Rc<RefCell<Option<Server>>>,
    client: Host,
    host: Host,
    world: World,
}

struct Server {
    _lane: Rc<dyn LaneService>,
    _volumes: LaneVolumes,
    _site: Box<dyn Site>,
}

impl Cell {
    fn new(protection: Protection) -> Self {
        let world = World::new(1, Config::clean());
        let (host, client) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
        host.fs().create_dir_all("/srv").expect("an empty disk");
        host.fs().write(&format!("/srv/{FILE}"), vec![7; MIB]).expect("an empty disk");
        let server = world.block_on(&host, async { Server::start() });
        let open = world.block_on(&client, async move {
            let connection = Connection::open(ADDRESS, options(protection)).await.expect("a server");
            let channel = Channel::sign_in(&connection, credentials()).await.expect("it knows us");
            let tree = Tree::connect(&channel, r"\\10.0.0.1\files").await.expect("a share");
            Open::create(
                &tree,
                FILE,
                &OpenParams { access: OpenParams::overwrite().access, ..OpenParams::read() },
            )
            .await
            .expect("a file")
        });
        let (open, server) = (Rc::new(RefCell::new(Some(open))), Rc::new(RefCell::new(Some(server))));
        let cell = Self { open, server, client, host, world };
        cell.run(async |open| {
            for _ in 0..2 {
                open.read(0, MIB as u32).await.expect("it is there");
                open.read(0, 4096).await.expect("it is there");
                open.write(0, vec![Buf::from(vec![7; MIB])]).await.0.expect("there is room");
                let another =
                    Open::create(open.tree(), FILE, &OpenParams::read()).await.expect("it is there");
                another.close(0).await.expect("it is open");
            }
        });
        cell
    }

    fn run(&self, work: impl AsyncFnOnce(&Open) + 'static) {
        let slot = Rc::clone(&self.open);
        self.world.block_on(&self.client, async move {
            let open = slot.take().expect("one at a time");
            work(&open).await;
            slot.replace(Some(open));
        });
    }
}

impl Drop for Cell {
    /// Drops the parts that own sockets on their own hosts.
    fn drop(&mut self) {
        let (open, server) = (Rc::clone(&self.open), Rc::clone(&self.server));
        self.world.block_on(&self.client, async move { drop(open.take()) });
        self.world.block_on(&self.host, async move { drop(server.take()) });
    }
}

/// Connection router that keeps every connection on its own lane.
struct Here;

impl ConnectionRouter for Here {
    fn place(&self, stream: TcpStream, _: Role) -> Option<TcpStream> {
        Some(stream)
    }
}

impl Server {
    fn start() -> Self {
        let objects = Objects::in_memory(ObjectsOptions::default());
        let mut section = VolumeSection::new("files".parse().expect("a name"), "/srv".into());
        (section.writable, section.objects) = (Writable::anyone(), true);
        let sections = [section];
        let table = VolumeTable::default().followed_by(&sections, |_| None).sharing(&objects);
        let volumes = LaneVolumes::new(Cache::sharing(CacheOptions::default(), &objects));
        let volumes = volumes.followed_by(&table).expect("a directory");
        let text = format!(
            "[[volume]]\nname = 'files'\npath = '/srv'\n[smb]\nlisten = ['{ADDRESS}']\nsigning = 'allowed'\n"
        );
        let document = Document::of_text(Path::new("/linerate.toml"), text);
        let settings = Smb::default().read(&document, &sections).expect("it is right").expect("it is wanted");
        let nt = NtHash::new(&PASSWORD.into()).expect("a password");
        let accounts = format!("version = 1\n[user.alice]\nid = 1000\nnt = '{}'\n", *nt.to_text());
        let context = LoadContext {
            is_trial: false,
            state_dir: None,
            connections_per_lane: 16,
            accounts: &Accounts::parse(&accounts).expect("an account"),
            layout: &Layout { silos: Vec::new(), shared_nics: Vec::new() },
            objects: Some(&objects),
            index_trouble: None,
            volumes: &sections,
        };
        let site = settings.load(&context).expect("there is all");
        let start = LaneStart {
            volumes: &volumes,
            commons: Commons::new(Arc::default()),
            log: None,
            audit: None,
            seed: 1,
        };
        let lane = site.start(start).expect("it starts");
        let listener = TcpListener::bind(ADDRESS, &ListenOptions::default()).expect("a free port");
        let listening = Rc::clone(&lane).listen(LaneSocket::Tcp(Rc::new(listener)), Role(0), Rc::new(Here));
        lane::spawn(listening).detach();
        Self { _lane: lane, _volumes: volumes, _site: site }
    }
}

fn options(protection: Protection) -> Options {
    let state = std::cell::Cell::new(1_u64);
    let random = move |bytes: &mut [u8]| {
        for byte in bytes {
            state.set(state.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
            *byte = (state.get() >> 33) as u8;
        }
    };
    let mut options = Options::new(Guid::new([7; 16]), Rc::new(random));
    match protection {
        Protection::None => {}
        Protection::Signed => options.signing = Signing::Required,
        Protection::Sealed => options.sealing = Sealing::Required,
    }
    options
}

fn credentials() -> Credentials {
    let nt = NtHash::new(&PASSWORD.into()).expect("a password");
    Credentials {
        domain: String::new(),
        user: "alice".to_owned(),
        nt_hash: Zeroizing::new(*nt.expose()),
        workstation: "CLIENT".to_owned(),
    }
}

library_benchmark_group!(
    name = in_smb,
    benchmarks = [read_4_kib_64_times, read_1_mib_8_times, write_1_mib_8_times, open_and_close_64_times]
);
const ROUNDS: usize = 64;
const AT_ONCE: usize = 8;
const MIB: usize = 1 << 20;
const FILE: &str = "file";
const PASSWORD: &str = "open sesame";
const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)), 445);
