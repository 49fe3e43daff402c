//! The client on simulated lanes against a small cell, on paths that lose packets.

mod small;

use std::cell::Cell as StdCell;
use std::ffi::CString;
use std::net::Ipv4Addr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use afs_client::{
    Cell, CellOptions, Client, ClientOptions, Error, FileType, Get, Heard, Progress, Put, directory, of_new,
};
use afs_wire::Fid;
use lane::backend::sim::{Config, World, seeds};
use lane::fs::Dir;
use lane::net::UdpSocket;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rx_lane::{Driver, DriverConfig, LaneGroupLink};
use small::{Manner, READ_ONLY, Small, VOLUME};
use xdr::afs::AfsUuid;

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

fn start(ip: Ipv4Addr, port: u16, seed: u64) -> Driver {
    let mut config = DriverConfig::default();
    config.endpoint.packets = 4096;
    let socket = UdpSocket::bind((ip, port).into(), &config.socket).unwrap();
    Driver::start_seeded(socket, LaneGroupLink::alone(), config, StdRng::seed_from_u64(seed).random())
}

/// Site of a scenario.
struct Site {
    client: Client,
    cell: Cell,
    local: Dir,
    small: Rc<Small>,
}

impl Site {
    fn put(&self, overwrite: bool) -> Put {
        Put { overwrite, progress: Arc::new(Progress::default()) }
    }

    fn get(&self) -> Get {
        Get { overwrite: true, resume: true, progress: Arc::new(Progress::default()) }
    }
}

fn name(text: &str) -> CString {
    CString::new(text).unwrap()
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 253 + at / 65_537) as u8).collect()
}

/// Runs `scenario` on a client with local files `/srv/small` and `/srv/large`; what is in `/srv/back` afterwards.
fn run<F: Future<Output = ()>>(
    seed: u64,
    manner: Manner,
    scenario: impl FnOnce(Site) -> F + 'static,
) -> Option<Vec<u8>> {
    let mut config = Config::clean();
    if seed % 2 == 1 {
        config.net.link.loss = 0.02;
        config.net.link.reorder = 0.03;
    }
    let world = World::new(seed, config);
    let (server, client) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
    client.fs().write("/srv/small", pattern(1000)).unwrap();
    client.fs().write("/srv/large", pattern(LARGE)).unwrap();
    let away = manner.away;
    let small = Rc::new(Small::new(SERVER, manner));
    let (serves, watched) = (Rc::clone(&small), Rc::clone(&small));
    let done = Rc::new(StdCell::new(false));
    let (tell, ended) = (Rc::clone(&done), Rc::clone(&done));
    server.spawn(async move {
        let files = start(SERVER, 7000, seed);
        small::DRIVER.with(|driver| *driver.borrow_mut() = Some(files.clone()));
        serves.serve(&files, &start(SERVER, 7003, seed + 1));
        while !ended.get() {
            lane::time::sleep(Duration::from_secs(1)).await;
        }
        small::DRIVER.with(|driver| driver.borrow_mut().take());
    });
    world.run_for(Duration::from_millis(1));
    client.spawn(async move {
        let mut options = ClientOptions::new(AfsUuid(*b"a client of sims"));
        options.connections = 3;
        let client = Client::on(start(Ipv4Addr::new(10, 0, 0, 2), 7001, seed + 2), &options);
        let at = CellOptions {
            file_server: (SERVER, 7000).into(),
            locations: (SERVER, 7003).into(),
            name: Some("here".to_owned()),
        };
        let cell = Cell::new(&client, at).unwrap();
        let local = Dir::open_root(Path::new("/srv")).unwrap();
        scenario(Site { client, cell, local, small }).await;
        tell.set(true);
    });
    if let Some((after, away)) = away {
        while !watched.names().iter().any(|name| name.ends_with(b".linerate-put")) {
            world.run_for(Duration::from_micros(100));
        }
        world.run_for(after);
        world.net().partition(&server, &client);
        world.run_for(away);
        world.net().heal(&server, &client);
    }
    world.run_for(Duration::from_secs(600));
    assert!(done.get(), "seed {seed}");
    client.fs().read("/srv/back").ok()
}

const LARGE: usize = 9 << 20;

/// Files go up and come back, whatever the cell's age.
async fn round_trip(site: Site) {
    let root = site.cell.root("vol").await.unwrap();
    assert_eq!(root.fid, Fid { volume: VOLUME, vnode: 1, uniquifier: 1 });
    for file in ["small", "large"] {
        site.put(false).file(&site.local, &name(file), &root, file.as_bytes()).await.unwrap();
    }
    let taken = site.put(false).file(&site.local, &name("large"), &root, b"small").await;
    assert!(matches!(taken, Err(Error::Taken(_))));
    let listed = directory::list_status(&root.server, root.fid).await.unwrap();
    let told: Vec<_> = listed.iter().map(|(entry, status)| (&*entry.name, status.unwrap().length)).collect();
    assert_eq!(told, [(&b"large"[..], LARGE as u64), (b"small", 1000)]);
    let found = site.cell.find("vol", &[b"large".to_vec()], true).await.unwrap();
    site.get().file(&found, &site.local, &name("back")).await.unwrap();
    site.cell.close().await;
    assert_eq!(site.small.given_up.get(), 1);
}

#[test]
fn files_come_back_as_they_went_over_paths_that_lose_packets() {
    seeds(8, |seed| {
        let back = run(seed, Manner::default(), round_trip);
        assert!(back.is_some_and(|back| back == pattern(LARGE)), "seed {seed}");
    });
}

#[test]
fn old_cells_are_spoken_to_as_they_can() {
    seeds(6, |seed| {
        let manner = Manner { old: true, locations_missing: 1 + (seed % 2) as usize, ..Manner::default() };
        let back = run(seed, manner, round_trip);
        assert!(back.is_some_and(|back| back == pattern(LARGE)), "seed {seed}");
    });
}

#[test]
fn a_busy_volume_is_waited_for_but_not_for_ever() {
    run(1, Manner { busy: 6, ..Manner::default() }, async |site: Site| {
        let began = lane::time::now();
        site.cell.root("vol").await.unwrap();
        let waited = lane::time::now() - began;
        assert!(waited > Duration::from_secs(5) && waited < Duration::from_secs(25), "{waited:?}");
    });
    run(2, Manner { busy: u32::MAX, ..Manner::default() }, async |site: Site| {
        let began = lane::time::now();
        let error = site.cell.root("vol").await.unwrap_err();
        let waited = lane::time::now() - began;
        assert!(error.to_string().starts_with("VBUSY (110)"), "{error}");
        assert!(waited > Duration::from_secs(20) && waited < Duration::from_secs(60), "{waited:?}");
    });
}

#[test]
fn the_server_is_answered_who_asks_and_tells() {
    run(3, Manner::default(), async |site: Site| {
        let root = site.cell.root("vol").await.unwrap();
        let heard = Heard { breaks: 1, files: 1, resets: 2, questions: 5 };
        assert_eq!(site.client.manager().heard(), heard);
        assert_eq!(site.client.manager().take_broken(), [root.fid]);
        assert_eq!(site.client.manager().take_broken(), []);
    });
}

#[test]
fn hosts_that_do_not_answer_are_passed_over() {
    let dead_hosts = vec![Ipv4Addr::new(10, 0, 0, 8), Ipv4Addr::new(10, 0, 0, 9)];
    for locations_missing in 0..3 {
        let manner = Manner { dead_hosts: dead_hosts.clone(), locations_missing, ..Manner::default() };
        run(4, manner, async |site: Site| {
            assert_eq!(site.cell.root("vol").await.unwrap().server.address(), (SERVER, 7000).into());
        });
    }
}

#[test]
fn a_file_that_changes_on_its_way_is_not_taken_for_whole() {
    let manner = Manner { changes_at: Some(8 << 20), ..Manner::default() };
    let back = run(5, manner, async |site: Site| {
        let root = site.cell.root("vol").await.unwrap();
        site.put(false).file(&site.local, &name("large"), &root, b"large").await.unwrap();
        let found = site.cell.find("vol", &[b"large".to_vec()], true).await.unwrap();
        let error = site.get().file(&found, &site.local, &name("back")).await.unwrap_err();
        assert!(matches!(error, Error::Changed(..)), "{error}");
    });
    assert_eq!(back, None);
}

#[test]
fn of_a_file_that_is_refused_half_way_nothing_stays() {
    let manner = Manner { full_at: Some(1), ..Manner::default() };
    run(6, manner, async |site: Site| {
        let root = site.cell.root("vol").await.unwrap();
        site.put(false).file(&site.local, &name("small"), &root, b"small").await.unwrap();
        // The second of its pieces is refused.
        let put = site.put(true);
        let large = name("huge");
        let file =
            site.local.create(&large, lane::fs::CreateHow { mode: 0o600, exclusive: true }).await.unwrap();
        file.truncate(20 << 20).await.unwrap();
        let error = put.file(&site.local, &large, &root, b"small").await.unwrap_err();
        assert!(error.to_string().starts_with("VDISKFULL (108)"), "{error}");
        assert_eq!(site.small.names(), [b"small"]);
        let found = site.cell.find("vol", &[b"small".to_vec()], true).await.unwrap();
        assert_eq!(found.metadata.length, 1000, "the file is as it was");
    });
}

#[test]
fn of_a_file_whose_server_goes_away_nothing_stays_once_it_is_back_or_the_error_names_it() {
    // The answer that the file was made is lost, or some of its bytes are.
    let after = [0, 500].map(Duration::from_micros);
    for (after, away, stays) in after
        .into_iter()
        .flat_map(|after| [(20, false), (40, false), (300, true)].map(|(away, stays)| (after, away, stays)))
    {
        let manner = Manner { away: Some((after, Duration::from_secs(away))), ..Manner::default() };
        run(8, manner, async move |site: Site| {
            let root = site.cell.root("vol").await.unwrap();
            let put = site.put(false).file(&site.local, &name("large"), &root, b"large").await;
            let Err(error) = put else {
                // A call outlives a short absence.
                assert!(away < 40, "{after:?}, {away} s");
                assert_eq!(site.small.names(), [b"large"]);
                return;
            };
            assert_eq!(matches!(error, Error::Left(..)), stays, "{error}");
            assert_eq!(
                error.to_string().contains(&format!("{} stays in the cell", transfer::staged_name("large"))),
                stays,
                "{error}"
            );
            assert_eq!(site.small.names().is_empty(), !stays, "after {away} s");
            if stays {
                lane::time::sleep(Duration::from_secs(300)).await;
                site.put(false).file(&site.local, &name("large"), &root, b"large").await.unwrap();
                assert_eq!(site.small.names(), [b"large"], "the next attempt replaces it");
            }
        });
    }
}

#[test]
fn mount_points_stay_in_read_only_copies_unless_they_say_otherwise() {
    run(7, Manner::default(), async |site: Site| {
        let root = site.cell.root("vol").await.unwrap();
        let (server, mode) = (&root.server, of_new(0o644, None));
        for (mount, text) in [
            (&b"again"[..], &b"#vol."[..]),
            (b"write", b"%vol."),
            (b"named", b"#here:vol."),
            (b"away", b"#there:vol."),
        ] {
            server.symlink(root.fid, mount, text, mode).await.unwrap();
        }
        let volume = async |from: &str, path: &[&[u8]]| {
            let path: Vec<_> = path.iter().map(|name| name.to_vec()).collect();
            site.cell.find(from, &path, true).await.map(|found| found.fid.volume)
        };
        assert_eq!(volume("vol.readonly", &[]).await.unwrap(), READ_ONLY);
        assert_eq!(volume("vol", &[b"again"]).await.unwrap(), VOLUME);
        assert_eq!(volume("vol.readonly", &[b"again"]).await.unwrap(), READ_ONLY);
        assert_eq!(volume("vol.readonly", &[b"again", b"named"]).await.unwrap(), READ_ONLY);
        assert_eq!(volume("vol.readonly", &[b"write"]).await.unwrap(), VOLUME);
        assert_eq!(volume("vol.readonly", &[b"write", b"..", b"again"]).await.unwrap(), READ_ONLY);
        assert!(matches!(volume("vol", &[b"away"]).await, Err(Error::OtherCell(..))));
        let many = vec![&b"again"[..]; 41];
        assert!(matches!(volume("vol", &many).await, Err(Error::TooManyLinks(_))));
        let link = site.cell.find("vol", &[b"again".to_vec()], false).await.unwrap();
        assert_eq!(link.metadata.kind, FileType::Directory, "mount points are always entered");
    });
}
