//! The server and our client agree, whatever becomes of connections and packets.

use std::cell::Cell;
use std::ffi::CString;
use std::path::Path;
use std::rc::Rc;

use afs::oob::OobOptions;
use afs_client::fetch::{self, Plan, Sink};
use afs_client::store::{self, Source};
use afs_client::{Error, FileServer, Metadata, OobOptions as ClientOob, of_new};
use afs_wire::Fid;
use lane::backend::sim::{Config, seeds};
use lane::buffer::Buf;
use lane::fs::{Dir, File, OpenHow};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rx_lane::{Held, PacketBuffers};

use super::bed::{Bed, counted, pattern, run};

/// A file of the client's, as both ends of transfers use one.
pub(crate) struct Local(pub(crate) File);

impl Source for Local {
    async fn fill(&self, offset: u64, packet_buffers: &mut PacketBuffers) -> Result<usize, Error> {
        let (read, bufs) = self.0.read_vectored_at(offset, packet_buffers.len(), packet_buffers.bufs()).await;
        drop(bufs);
        read.map_err(|error| Error::Local("local".to_owned(), error))
    }

    fn file(&self) -> Result<Option<&File>, Error> {
        Ok(Some(&self.0))
    }
}

/// Bytes that a fetch has to bring.
pub(crate) struct Compared {
    with: Vec<u8>,
    came: Cell<u64>,
}

impl Compared {
    pub(crate) fn new(with: Vec<u8>) -> Self {
        Self { with, came: Cell::new(0) }
    }

    fn take_one(&self, offset: u64, bytes: &[u8]) {
        let at = offset as usize;
        assert!(self.with[at..at + bytes.len()] == *bytes, "other bytes than the file has, from {offset} on");
        self.came.set(self.came.get() + bytes.len() as u64);
    }
}

impl Sink for Compared {
    async fn take(&self, mut offset: u64, bytes: Held) -> Result<(), Error> {
        for slice in bytes.slices() {
            self.take_one(offset, slice);
            offset += slice.len() as u64;
        }
        Ok(())
    }

    async fn take_bytes(&self, offset: u64, bytes: Buf) -> Result<(), Error> {
        self.take_one(offset, &bytes);
        Ok(())
    }
}

pub(crate) async fn local(bed: &Bed, name: &str, bytes: &[u8]) -> Local {
    bed.host.fs().create_dir_all("/home").unwrap();
    bed.host.fs().write(&format!("/home/{name}"), bytes).unwrap();
    let home = Dir::open_root(Path::new("/home")).unwrap();
    Local(home.open(&CString::new(name).unwrap(), OpenHow::FOLLOW).await.unwrap())
}

pub(crate) fn server(bed: &Bed, oob: ClientOob) -> FileServer {
    bed.client(|options| options.oob = oob).file_server((super::bed::SERVER, 7000).into()).unwrap()
}

async fn put(bed: &Bed, server: &FileServer, name: &str, bytes: &[u8]) -> (Fid, Metadata) {
    let (change, source) = (of_new(0o644, None), local(bed, name, bytes).await);
    let fid = server.create(bed.served.root, name.as_bytes(), change).await.unwrap();
    let stored = store::whole(server, fid, change, bytes.len() as u64, &source, Rc::new(|_| {})).await;
    (fid, stored.unwrap())
}

async fn get(server: &FileServer, fid: Fid, metadata: &Metadata, bytes: &[u8]) {
    let sink = Rc::new(Compared::new(bytes.to_vec()));
    let got = fetch::whole(server, Plan::of(fid, metadata), Rc::clone(&sink), Rc::new(|_| {})).await;
    got.unwrap_or_else(|interrupted| panic!("{}", interrupted.error));
    assert!(sink.came.get() >= bytes.len() as u64, "all of it came, some perhaps twice");
}

/// Each byte once and in order, however often a connection breaks.
async fn get_in_order(server: &FileServer, fid: Fid, metadata: &Metadata, bytes: &[u8]) {
    let next = Cell::new(0);
    let give = |offset: u64, piece: &[u8]| {
        let at = next.replace(next.get() + piece.len());
        assert!(offset as usize == at && bytes[at..at + piece.len()] == *piece, "in order, from {offset} on");
    };
    fetch::in_order(server, Plan::of(fid, metadata), give).await.unwrap();
    assert_eq!(next.get(), bytes.len());
}

/// Of 500 seeds most lose packets, cut streams anywhere, or reset connections now and then.
#[test]
fn files_come_back_as_they_went_though_connections_are_reset_and_packets_lost() {
    seeds(500, |seed| {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut config = if seed % 5 == 0 { Config::clean() } else { Config::default() };
        if seed % 2 == 1 {
            (config.net.link.loss, config.net.link.reorder) = (0.02, 0.02);
        }
        if seed % 3 == 1 {
            config.net.tcp.reset = rng.random_range(0.0..0.05);
        }
        if seed % 7 == 2 {
            (config.net.tcp.send_buffer, config.net.tcp.recv_buffer) = (16 << 10, 16 << 10);
        }
        let resets = config.net.tcp.reset > 0.0;
        run(seed, config, OobOptions::default(), async move |bed: Rc<Bed>| {
            let threshold = rng.random_range(1..100_000);
            let oob = ClientOob {
                threshold: Some(threshold),
                streams: rng.random_range(1..4),
                ..ClientOob::default()
            };
            let server = server(&bed, oob);
            let mut over_tcp = 0;
            for round in 0..3 {
                let len = rng.random_range(0..3 * threshold as usize + 10);
                let bytes = pattern(len, seed + round);
                let (fid, metadata) = put(&bed, &server, &format!("file-{round}"), &bytes).await;
                assert_eq!(metadata.length, len as u64);
                assert!(
                    bed.served.fs.read(&format!("/srv/file-{round}")).unwrap() == bytes,
                    "as it was stored"
                );
                get(&server, fid, &metadata, &bytes).await;
                if round == 2 && resets {
                    get_in_order(&server, fid, &metadata, &bytes).await;
                }
                over_tcp += if len as u64 >= threshold { 2 } else { 0 };
            }
            let used = server.out_of_band();
            if resets {
                assert!(used.transfers + used.fell_back >= over_tcp, "{used:?}");
            } else {
                assert_eq!((used.transfers, used.fell_back), (over_tcp, 0), "{used:?}");
                assert!(used.connections <= 8, "they are kept: {used:?}");
                assert_eq!(counted!(bed, broken) + counted!(bed, frames_refused), 0);
            }
            drop(server);
            bed.settled().await;
        });
    });
}

#[test]
fn long_files_go_over_several_connections_at_once_and_those_are_used_again() {
    run(3, Config::clean(), OobOptions::default(), async |bed: Rc<Bed>| {
        let server = server(&bed, ClientOob { streams: 4, ..ClientOob::default() });
        let bytes = pattern((5 << 20) + 7, 1);
        let (fid, metadata) = put(&bed, &server, "long", &bytes).await;
        assert_eq!(server.out_of_band().connections, 4, "a part is 1 MiB at least");
        get(&server, fid, &metadata, &bytes).await;
        get(&server, fid, &metadata, &bytes).await;
        let used = server.out_of_band();
        assert_eq!((used.transfers, used.connections, used.fell_back), (3, 4, 0));
        assert_eq!(used.bytes, 3 * bytes.len() as u64);
        assert_eq!((counted!(bed, streams_new), counted!(bed, streams_idle)), (4, 8));
        assert!(counted!(bed, handed_over) > 0, "some came to the other lane");
        assert_eq!(counted!(bed, fetched_bytes), 2 * bytes.len() as u64);
        assert_eq!(counted!(bed, stored_bytes), bytes.len() as u64);
        get_in_order(&server, fid, &metadata, &bytes).await;
        bed.settled().await;
        assert_eq!(counted!(bed, idle), 4);
    });
}

/// One byte, and around the threshold: what is shorter goes over Rx.
#[test]
fn the_threshold_decides_what_goes_over_tcp() {
    run(4, Config::default(), OobOptions::default(), async |bed: Rc<Bed>| {
        let server = server(&bed, ClientOob { threshold: Some(4096), ..ClientOob::default() });
        for (len, transfers) in [(0, 0), (1, 0), (4095, 0), (4096, 2), (4097, 4)] {
            let bytes = pattern(len, 2);
            let (fid, metadata) = put(&bed, &server, &format!("of-{len}"), &bytes).await;
            get(&server, fid, &metadata, &bytes).await;
            assert_eq!(server.out_of_band().transfers, transfers, "{len} bytes");
        }
        bed.settled().await;
    });
}

#[test]
fn a_server_that_offers_none_is_asked_once_and_everything_goes_over_rx() {
    run(5, Config::default(), OobOptions::default(), async |bed: Rc<Bed>| {
        // No listener is open any more on the lane of the calls.
        bed.served.oob[0].drain(lane::time::now()).await;
        bed.until("the listener is gone", |bed| !bed.served.oob[0].is_listening()).await;
        let server = server(&bed, ClientOob { threshold: Some(1), ..ClientOob::default() });
        for round in 0..3 {
            let bytes = pattern(50_000, round);
            let (fid, metadata) = put(&bed, &server, &format!("file-{round}"), &bytes).await;
            get(&server, fid, &metadata, &bytes).await;
        }
        let used = server.out_of_band();
        assert_eq!((used.transfers, used.fell_back), (0, 0), "{used:?}");
        let index = afs_wire::rxafs::PROCEDURES.iter().position(|entry| entry.opcode == 1_280_180_224);
        assert_eq!(bed.served.files.tally().of(index.unwrap()).calls, 1, "asked once");
        bed.settled().await;
    });
}

#[test]
fn a_connection_that_died_in_the_pool_costs_an_attempt_and_no_transfer() {
    run(6, Config::clean(), OobOptions::default(), async |bed: Rc<Bed>| {
        let server = server(&bed, ClientOob { threshold: Some(1), ..ClientOob::default() });
        let bytes = pattern(100_000, 3);
        let (fid, metadata) = put(&bed, &server, "file", &bytes).await;
        assert_eq!(bed.net.reset_connections(&bed.host, &bed.server), 1);
        get(&server, fid, &metadata, &bytes).await;
        let used = server.out_of_band();
        assert_eq!((used.transfers, used.connections, used.fell_back), (2, 2, 0), "{used:?}");
        bed.settled().await;
    });
}
