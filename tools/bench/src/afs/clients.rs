//! The clients of a load, each a host of its own.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use afs_client::{CellOptions, Client, ClientOptions, FileServer, OobOptions};
use rx_lane::DriverConfig;
use xdr::afs::AfsUuid;

/// Identities of the clients, and the files of their load.
#[derive(Clone, Debug)]
pub struct Clients {
    /// Options of finding the cell.
    pub cell: CellOptions,
    /// The volume.
    pub volume: String,
    /// Path of a file or directory in the volume.
    pub path: Vec<Vec<u8>>,
    /// Number of clients.
    pub count: usize,
    /// Connections of each.
    pub connections: usize,
    /// Time for which one waits for a busy volume within a call.
    pub patience: Duration,
    /// Conditions under which bytes go over TCP beside the call.
    pub oob: OobOptions,
    /// Limits, timers and socket of each.
    pub driver: DriverConfig,
    /// Identity of the first; the others count up from it.
    pub uuid: AfsUuid,
    /// Process whose CPU time or memory is reported, which is the server's.
    pub pid: Option<u32>,
}

impl Clients {
    /// Starts the client of this number.
    pub(super) fn start(&self, number: usize) -> Result<Client, rx_lane::StartError> {
        let mut uuid = u128::from_be_bytes(self.uuid.0);
        uuid = uuid.wrapping_add(number as u128);
        let any: SocketAddr = match self.cell.file_server {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let mut client = ClientOptions::new(AfsUuid(uuid.to_be_bytes()));
        client.driver = self.driver.clone();
        client.connections = self.connections;
        client.patience = self.patience;
        client.oob = self.oob;
        Client::bind(any, client)
    }
}

/// Gives the clients' callbacks up, as clients do that end: else the server would call them for an hour.
pub(super) async fn give_up(clients: &[(Client, FileServer)]) {
    let leaving = |(_, server): &(Client, FileServer)| {
        let server = server.clone();
        // A server that is gone has forgotten.
        lane::spawn(async move { drop(lane::time::timeout(FAREWELL, server.give_up_all()).await) })
    };
    for one in clients.iter().map(leaving).collect::<Vec<_>>() {
        one.await;
    }
}

/// Time for which a client waits for the answer to its good-bye.
const FAREWELL: Duration = Duration::from_secs(2);
