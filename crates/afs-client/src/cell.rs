//! A cell: its volumes, their servers, and the way to a file.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;

use afs_wire::Fid;

use crate::address::{Address, TO_LOCATION_PORT};
use crate::client::Client;
use crate::error::Error;
use crate::file_server::FileServer;
use crate::location::{Kind, Listed, Located, Locations};
use crate::status::{Metadata, root_of};

/// Servers of a cell.
#[derive(Clone, Debug)]
pub struct CellOptions {
    /// File server that is asked itself for a volume named by number where no location service answers.
    pub file_server: SocketAddr,
    /// The location service.
    pub locations: SocketAddr,
    /// The cell's name, where mount points may say it.
    pub name: Option<String>,
}

/// A cell that a client talks to. It remembers where volumes are.
#[derive(Debug)]
pub struct Cell {
    client: Client,
    options: CellOptions,
    locations: Locations,
    servers: RefCell<HashMap<SocketAddr, FileServer>>,
    pub(crate) volumes: RefCell<HashMap<String, Rc<Volume>>>,
}

/// A volume and the server that it is read from.
#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) id: u32,
    pub(crate) kind: Kind,
    pub(crate) server: FileServer,
}

/// Target of a path.
#[derive(Clone, Debug)]
pub struct Found {
    /// The server that has the volume.
    pub server: FileServer,
    /// The file.
    pub fid: Fid,
    /// The file's status when it was found.
    pub metadata: Metadata,
}

impl CellOptions {
    /// Creates the cell of a server: its location service is on the same host, at a port 3 higher.
    ///
    /// # Errors
    /// The system's, where the host has no address.
    pub fn of(address: &Address) -> std::io::Result<Self> {
        let file_server = address.resolve()?;
        let mut locations = file_server;
        locations.set_port(file_server.port().saturating_add(TO_LOCATION_PORT));
        Ok(Self { file_server, locations, name: None })
    }
}

impl Cell {
    /// Creates a cell; nothing is sent yet.
    ///
    /// # Errors
    /// [`Error::Connect`].
    pub fn new(client: &Client, options: CellOptions) -> Result<Self, Error> {
        let locations = Locations::of(client, options.locations)?;
        Ok(Self {
            client: client.clone(),
            options,
            locations,
            servers: RefCell::default(),
            volumes: RefCell::default(),
        })
    }

    /// Returns where a volume is, as the location service says.
    ///
    /// # Errors
    /// [`Error::Refused`] with VL_NOENT; [`Error::Call`] where no server answers.
    pub async fn locate(&self, volume: &str) -> Result<Located, Error> {
        self.locations.find(volume).await
    }

    /// Returns the volumes of the cell, in the order in which the location service tells them; at most
    /// [`VOLUMES_MAX`].
    ///
    /// # Errors
    /// [`Error::Call`] where no server answers; [`Error::Refused`] where the service lists nothing to this
    /// client; [`Error::TooMany`].
    pub async fn volumes(&self) -> Result<Vec<Listed>, Error> {
        self.locations.list(VOLUMES_MAX).await
    }

    /// Tells all servers that nothing is relied on any more. It is a courtesy, and for a server that is gone none.
    pub async fn close(&self) {
        let servers: Vec<_> = self.servers.borrow().values().cloned().collect();
        for server in servers {
            let _ = server.give_up_all().await;
        }
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.options.name.as_deref()
    }

    pub(crate) async fn volume(&self, name: &str) -> Result<Rc<Volume>, Error> {
        if let Some(known) = self.volumes.borrow().get(name) {
            return Ok(Rc::clone(known));
        }
        let volume = Rc::new(self.open(name).await?);
        self.volumes.borrow_mut().insert(name.to_owned(), Rc::clone(&volume));
        Ok(volume)
    }

    async fn open(&self, name: &str) -> Result<Volume, Error> {
        let located = match self.locate(name).await {
            Ok(located) => located,
            Err(error @ Error::Call { .. }) => {
                let at = self.locations.address();
                let id = name.parse();
                let id = id.map_err(|_| Error::NoLocations(name.to_owned(), at, Box::new(error)))?;
                let server = self.server(self.options.file_server)?;
                return Ok(Volume { id, kind: Kind::ReadWrite, server });
            }
            Err(error) => return Err(error),
        };
        let server = self.reachable(name, &located).await?;
        Ok(Volume { id: located.id, kind: located.kind, server })
    }

    /// Finds the first of a volume's hosts that answers.
    async fn reachable(&self, name: &str, located: &Located) -> Result<FileServer, Error> {
        let mut last = Error::NoServer(name.to_owned());
        for &host in &located.hosts {
            let server = self.server(SocketAddr::new(host, self.options.file_server.port()))?;
            // With one host the first call that matters tells as well.
            if located.hosts.len() == 1 {
                return Ok(server);
            }
            match server.status(root_of(located.id)).await {
                Err(error @ Error::Call { .. }) => last = error,
                _ => return Ok(server),
            }
        }
        Err(last)
    }

    fn server(&self, address: SocketAddr) -> Result<FileServer, Error> {
        if let Some(known) = self.servers.borrow().get(&address) {
            return Ok(known.clone());
        }
        let server = self.client.file_server(address)?;
        self.servers.borrow_mut().insert(address, server.clone());
        Ok(server)
    }
}

//@ limit: volumes of a cell that are listed
//@ section: Clients of AFS
//@ unit: volume
//@ connection: {} of a server
//@ all: process: one listing at a time
//@ empty: an error
//@ counter: none
//@ attack: none, a client's own limit, against servers
//@ reach: server
/// Volumes of a cell that are listed.
pub const VOLUMES_MAX: usize = 100_000;
