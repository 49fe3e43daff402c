//! AFS stores that announce far more than they send, by clients that die in the middle: the disk holds what came and a window
//! ahead of it, and no more than what came once the server knows that they are gone.

use std::cell::Cell;
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use afs_client::store::{self, Piece, Source};
use afs_client::{Cell as AfsCell, Client, ClientOptions, Error, OobOptions, of_new};
use anyhow::{Context, ensure};
use lane::runtime::{RuntimeOptions, run_here};
use rx_lane::PacketBuffers;
use xdr::afs::AfsUuid;

use super::cell_of;
use crate::hostile::arena::SERVER;
use crate::hostile::scenario::{Field, Findings, Scenario, Service};
use crate::hostile::server::Wishes;

pub(crate) struct Announced;

impl Scenario for Announced {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "AFS stores that announce 4 GiB each and send 64 KiB, by clients that die in the middle"
    }

    /// Returns HTTP, over which the good client asks.
    fn service(&self) -> Service {
        Service::Http
    }

    fn prepare(&self, work: &Path) -> anyhow::Result<Wishes> {
        let stored = work.join(STORED);
        std::fs::create_dir(&stored)?;
        let config = format!(
            "[afs]\nlisten = '{SERVER}:{PORT}'\n[[volume]]\nname = '{STORED}'\npath = '{}'\nmount = '/{STORED}'\nwritable = 'anyone'",
            stored.display()
        );
        Ok(Wishes { config, ..Wishes::default() })
    }

    fn seconds_least(&self) -> u64 {
        STORING.as_secs() + GIVEN_BACK.as_secs() + 1
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let directory = stored_in(field)?;
        let (mut most, mut stores) = (0, 0u64);
        let until = Instant::now() + STORING;
        while Instant::now() < until {
            // Its lane ends with it, and its calls are reported to no client.
            let clients: Vec<_> = (0..CLIENTS).map(|n| stores + n).collect();
            let begun = run_here(RuntimeOptions::default(), async move {
                let storing = clients.into_iter().map(|n| lane::spawn(begin(n)));
                for one in storing.collect::<Vec<_>>() {
                    one.await?;
                }
                lane::time::sleep(MIDDLE).await;
                anyhow::Ok(())
            });
            begun.context("the attackers' lane")??;
            stores += CLIENTS;
            most = most.max(taken(&directory)?);
        }
        let sent = stores * SENT;
        // The server has to find out by itself.
        let gone = Instant::now();
        let mut left = taken(&directory)?;
        while left > sent + stores * SLACK && gone.elapsed() < GIVEN_BACK {
            std::thread::sleep(Duration::from_millis(100));
            left = taken(&directory)?;
        }
        ensure!(files(&directory)? >= stores, "the stores' files are not there");
        Ok(Findings::default()
            .with("stores", stores)
            .with("bytes announced", stores * ANNOUNCED)
            .with("bytes sent", sent)
            .with("bytes taken at most", most)
            .with("bytes left", left)
            .expect(most <= sent + stores * AHEAD, || format!("{most} bytes were taken for {sent} sent"))
            .expect(left <= sent + stores * SLACK, || format!("{left} bytes stay taken for {sent} sent")))
    }
}

/// Makes a file and sends the beginning of a store that announces all of it.
async fn begin(number: u64) -> anyhow::Result<()> {
    let mut options =
        ClientOptions::new(AfsUuid((0x0b5e_55ed_u128 << 64 | u128::from(number)).to_be_bytes()));
    options.driver.endpoint.packets = 512;
    options.oob = OobOptions { threshold: None, ..OobOptions::default() };
    let client = Client::bind((Ipv4Addr::UNSPECIFIED, 0).into(), options)?;
    let cell = AfsCell::new(&client, cell_of(PORT))?;
    let root = cell.root(STORED).await?;
    let fid = root.server.create(root.fid, format!("store-{number}").as_bytes(), of_new(0o666, None)).await?;
    let change = of_new(0o666, None);
    let piece = Piece { fid, change, offset: 0, length: ANNOUNCED, file_length: ANNOUNCED };
    let server = root.server.clone();
    lane::spawn(async move {
        // It waits for bytes that never come, until its lane is gone.
        let _ = store::range(&server, 0, piece, &Beginning(Cell::new(0))).await;
        drop((client, cell));
    })
    .detach();
    Ok(())
}

/// A body that sends so many bytes, and then none, ever.
struct Beginning(Cell<u64>);

impl Source for Beginning {
    async fn fill(&self, _offset: u64, packet_buffers: &mut PacketBuffers) -> Result<usize, Error> {
        let mut filled = 0;
        for room in packet_buffers.slices_mut() {
            let left = usize::try_from(SENT - self.0.get()).unwrap_or(usize::MAX).min(room.len());
            room[..left].fill(b's');
            self.0.set(self.0.get() + left as u64);
            filled += left;
        }
        if filled == 0 {
            std::future::pending::<()>().await;
        }
        Ok(filled)
    }
}

fn stored_in(field: &Field<'_>) -> anyhow::Result<PathBuf> {
    Ok(field.tree.parent().context("the tree lies beside what scenarios have")?.join(NAME).join(STORED))
}

/// Returns the bytes of the disk that a directory's files take.
fn taken(directory: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        // One that goes meanwhile takes nothing.
        let Ok(metadata) = entry.metadata() else { continue };
        bytes += if metadata.is_dir() { taken(&entry.path())? } else { metadata.blocks() * 512 };
    }
    Ok(bytes)
}

fn files(directory: &Path) -> std::io::Result<u64> {
    let named = std::fs::read_dir(directory)?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with("store-"));
    Ok(named.count() as u64)
}

const NAME: &str = "afs-announced-stores";
const STORED: &str = "stored";
const PORT: u16 = 7000;
const CLIENTS: u64 = 8;
/// Time from a store's first bytes to its client's death.
const MIDDLE: Duration = Duration::from_millis(300);
/// Time in which clients store and die.
const STORING: Duration = Duration::from_secs(3);
/// Time in which the server finds out that they have (12 s), and gives back what it had taken.
const GIVEN_BACK: Duration = Duration::from_secs(20);
const ANNOUNCED: u64 = 4 << 30;
const SENT: u64 = 64 << 10;
/// Bytes that a store may take ahead of what has come (docs/reference/limits.md), and rounded up.
const AHEAD: u64 = 2 << 20;
/// Bytes that a file system rounds up.
const SLACK: u64 = 64 << 10;
