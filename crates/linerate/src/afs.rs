//! Common parts of the commands for files of AFS cells: choice of servers, and the checksum of a file.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use afs_client::fetch::{self, Plan};
use afs_client::{Address, Cell, Client, ClientOptions, Error, Found, Progress};
use aws_lc_rs::digest::{self, SHA256};
use cli::cell::{Where, new_uuid};

use crate::transfer_cmd::{Timed, hexadecimal, on_lane};

/// How a cell is reached.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Reach {
    #[command(flatten)]
    place: Where,
    /// Connections to each file server, over which the pieces of a large file come
    #[arg(short, long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    connections: u32,
}

/// How the bytes of large files come or go.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Bulk {
    /// Bytes from which on a piece of a file goes over TCP beside its call, where the server can; 0 for never
    #[arg(long, value_name = "BYTES", default_value = "1M", value_parser = cli::size)]
    oob_threshold: u32,
}

/// Client and cell that a command works with.
pub(crate) struct Reached {
    pub(crate) cell: Cell,
    pub(crate) progress: Arc<Progress>,
}

impl Reach {
    /// Does `work` on a lane, under a progress bar; afterwards all callbacks are given up.
    pub(crate) fn run<T: 'static>(
        &self,
        address: &Address,
        bulk: Option<Bulk>,
        work: impl AsyncFnOnce(&Reached) -> anyhow::Result<T> + 'static,
    ) -> anyhow::Result<Timed<T>> {
        let options = self.place.options(address)?;
        let mut client = ClientOptions::new(new_uuid());
        client.connections = self.connections as usize;
        client.patience = self.place.patience();
        let threshold = bulk.map_or(0, |bulk| bulk.oob_threshold);
        client.oob.threshold = (threshold > 0).then_some(threshold.into());
        on_lane(async move |progress| {
            let any = unspecified(options.file_server);
            let client = Client::bind(any, client)?;
            let reached = Reached { cell: Cell::new(&client, options)?, progress };
            let done = work(&reached).await;
            // A server that is gone needs no good-bye.
            let _ = lane::time::timeout(FAREWELL, reached.cell.close()).await;
            done
        })
    }
}

/// Returns any address of ours, of the kind that reaches `server`.
fn unspecified(server: SocketAddr) -> SocketAddr {
    let ip: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    (ip, 0).into()
}

/// Computes SHA-256 of what a file holds at its server, fetched once more from its start.
pub(crate) async fn sum_there(found: &Found) -> Result<String, Error> {
    let sum = RefCell::new(digest::Context::new(&SHA256));
    let plan = Plan::of(found.fid, &found.metadata);
    fetch::in_order(&found.server, plan, |_, bytes| sum.borrow_mut().update(bytes)).await?;
    Ok(hexadecimal(sum.into_inner()))
}

/// Time for which servers have to hear that the client goes.
const FAREWELL: Duration = Duration::from_secs(2);
