//! A client: a socket, its identity, and its connections.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use rx_lane::{Anonymous, Connection, Driver, DriverConfig, StartError};
use xdr::afs::AfsUuid;

use crate::cache_manager::CacheManager;
use crate::error::Error;
use crate::file_server::FileServer;
use crate::oob_connections::OobOptions;

/// Options of a client.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Limits and timers of Rx, and the socket.
    pub driver: DriverConfig,
    /// The identity that the client claims. Servers keep what they know of a client by this.
    pub uuid: AfsUuid,
    /// Connections to one file server, for large files.
    pub connections: usize,
    /// Time for which a busy or offline volume, or a server that restarts, is waited for.
    pub patience: Duration,
    /// Conditions under which pieces of files go over TCP beside their call.
    pub oob: OobOptions,
}

/// A client of AFS on the current lane. Clones are handles to the same one.
#[derive(Clone, Debug)]
pub struct Client {
    driver: Driver,
    manager: Rc<CacheManager>,
    connections: usize,
    patience: Duration,
    oob: OobOptions,
}

impl ClientOptions {
    /// Returns the defaults, for a client with this identity.
    pub fn new(uuid: AfsUuid) -> Self {
        Self {
            driver: DriverConfig::default(),
            uuid,
            connections: 4,
            patience: Duration::from_secs(30),
            oob: OobOptions::default(),
        }
    }
}

impl Client {
    /// Starts one on a socket of its own.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn bind(address: SocketAddr, options: ClientOptions) -> Result<Self, StartError> {
        let driver = Driver::bind(address, options.driver.clone())?;
        Ok(Self::on(driver, &options))
    }

    /// Makes a client of a driver that offers no service 1 yet; `options.driver` does not count.
    pub fn on(driver: Driver, options: &ClientOptions) -> Self {
        let manager = Rc::new(CacheManager::new(options.uuid));
        manager.serve(&driver);
        let (connections, patience) = (options.connections.max(1), options.patience);
        Self { driver, manager, connections, patience, oob: options.oob }
    }

    /// Returns the callback service, which counts what servers ask and report.
    pub fn manager(&self) -> &CacheManager {
        &self.manager
    }

    /// Returns the client's Rx driver.
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// Returns a file server; nothing is sent before the first call.
    ///
    /// # Errors
    /// [`Error::Connect`].
    pub fn file_server(&self, address: SocketAddr) -> Result<FileServer, Error> {
        let connections = (0..self.connections).map(|_| self.connect(address, FILE_SERVICE));
        Ok(FileServer::new(address, connections.collect::<Result<_, _>>()?, self.patience, self.oob))
    }

    pub(crate) fn connect(&self, server: SocketAddr, service: u16) -> Result<Connection, Error> {
        let connected = self.driver.connect(server, service, &Anonymous);
        connected.map_err(|error| Error::Connect { server, error })
    }
}

/// RXAFS.
const FILE_SERVICE: u16 = 1;
