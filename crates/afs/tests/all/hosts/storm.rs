//! A hundred clients that rely on ten thousand files each, a million callbacks, on real lanes over loopback: the directory of all is
//! renamed, and each client has heard before that is answered.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use afs::host::{Contact, HostOptions, Hosts, LaneHosts};
use identity::{Rights, Writable};
use lane::runtime::{RuntimeOptions, run_here};
use rx_lane::{AbortCode, Driver, DriverConfig, Handler, ServerCall, ServerConnection};
use vfs::{
    Cache, CacheOptions, Caller, Name, Objects, ObjectsOptions, RelPath, Replace, Volume, VolumeOptions,
    VolumeSpec,
};

use super::client::{Client, Kind};
use super::server::{SERVICE, UUID};

const CLIENTS: u8 = 100;
const FILES: usize = 10_000;
const RELY: u8 = 10;
const RENAME: u8 = 11;

#[test]
#[ignore = "measures: cargo test --release -p afs --test all storm -- --ignored --nocapture"]
fn a_million_callbacks_are_broken_by_a_rename_within_two_seconds() {
    let tree = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("storm-{}", std::process::id()));
    fs::create_dir_all(tree.join("top")).unwrap();
    for n in 0..FILES {
        fs::write(tree.join(format!("top/{n}")), "x").unwrap();
    }
    let (tell, told) = channel();
    let (stop, stopped) = channel();
    let served = tree.clone();
    let server = std::thread::spawn(move || {
        run_here(RuntimeOptions::default(), serve(served, tell, stopped)).expect("the machine has io_uring")
    });
    let address = told.recv().unwrap();
    run_here(RuntimeOptions::default(), ask(address)).expect("the machine has io_uring");
    stop.send(()).unwrap();
    server.join().unwrap();
    fs::remove_dir_all(tree).unwrap();
}

async fn serve(tree: PathBuf, tell: Sender<SocketAddr>, stopped: Receiver<()>) {
    let driver = Driver::bind((Ipv4Addr::LOCALHOST, 0).into(), DriverConfig::default()).unwrap();
    let objects = Objects::in_memory(ObjectsOptions { lanes_max: 8, ..Default::default() });
    let open_files_max = 2 * FILES;
    let cache = Cache::sharing(CacheOptions { open_files_max, ..Default::default() }, &objects);
    let spec = VolumeSpec::new("home".parse().unwrap(), &tree, VolumeOptions::default());
    let volume = Volume::open(&cache, &spec.writable_by(Writable::anyone())).unwrap();
    let hosts = LaneHosts::new(&Hosts::new(HostOptions::default(), UUID, None), &cache, &driver);
    driver.serve(SERVICE, Storm(Rc::new((hosts, volume))));
    tell.send(driver.local_addr().unwrap()).unwrap();
    while stopped.try_recv().is_err() {
        lane::time::sleep(Duration::from_millis(20)).await;
    }
}

struct Storm(Rc<(Rc<LaneHosts>, Volume)>);

impl Handler for Storm {
    type Connection = Contact;
    type Error = AbortCode;

    fn connected(&self, connection: &ServerConnection) -> Contact {
        Contact::new(connection)
    }

    fn handle(&self, mut call: ServerCall<Contact>) -> impl Future<Output = Result<(), AbortCode>> + 'static {
        let served = Rc::clone(&self.0);
        async move {
            let (hosts, volume) = &*served;
            let request = call.read_to_end(16).await?;
            let host = hosts.of(call.data()).await?;
            let caller = Caller::anonymous().sparing(host.holder());
            if request == [RELY] {
                for n in 0..FILES {
                    let path = format!("top/{n}");
                    let path = RelPath::parse(path.as_bytes()).unwrap();
                    let until = hosts.promise().until;
                    let promised =
                        volume.lookup_with_callback(&caller, host.client(), path, Rights::READ, until).await;
                    assert!(promised.unwrap().confirm().is_some());
                    if n % 64 == 0 {
                        lane::yield_now().await;
                    }
                }
            } else {
                let root = volume.lookup(RelPath::ROOT).await.unwrap().into_directory().unwrap().0;
                let [from, to] = [&b"top"[..], b"moved"].map(|name| Name::parse(name).unwrap());
                let given = volume.counters().callbacks_held.get();
                let began = Instant::now();
                root.rename(&caller, from, &root, to, Replace::Never).await.unwrap();
                println!(
                    "{given} promises of {} clients broken in {:?}",
                    hosts.hosts().len(),
                    began.elapsed()
                );
            }
            Ok(call.finish().await?)
        }
    }
}

async fn ask(server: SocketAddr) {
    let clients: Vec<_> = (0..CLIENTS).map(|n| Client::new(None, Kind::Today, n + 1, true)).collect();
    let working: Vec<_> = clients
        .iter()
        .zip(0..)
        .map(|(client, n)| {
            client.server.set(server);
            client.begin(0, n);
            let client = Rc::clone(client);
            lane::spawn(async move { client.call(0, &[RELY]).await.unwrap() })
        })
        .collect();
    for one in working {
        one.await;
    }
    let before: u64 = clients.iter().map(|client| client.files_told.get()).sum();
    let began = Instant::now();
    clients[0].call(0, &[RENAME]).await.unwrap();
    let took = began.elapsed();
    let told: u64 = clients.iter().map(|client| client.files_told.get()).sum();
    assert_eq!((before, told), (0, CLIENTS.into()), "each is told of the volume as one");
    assert!(took < Duration::from_secs(2), "{took:?}");
    clients.iter().for_each(|client| client.end());
}
