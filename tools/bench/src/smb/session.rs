//! The sessions of the load: each signs in on one lane, and its further channels are bound on the lanes behind that.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use smb_client::{Channel, Channels, Connection, Error, Options, Sealing, SessionTicket, SharedTree, Tree};
use smb_proto::sealing::Cipher;
use smb_proto::signing::SigningAlgorithm;
use smb_proto::window;
use smb_wire::{Dialect, Guid};

use super::options as load;

/// One session, on the lane where it signed in.
pub(super) struct Session {
    /// The session's channels on this lane.
    pub(super) channels: Channels,
    /// Channel of the sign-in, for the task that kills it: with another holder its connection would outlive
    /// that.
    pub(super) first: Cell<Option<Channel>>,
    told: Told,
}

/// Data of a session that other lanes need to bind channels.
#[derive(Clone)]
struct Told {
    client: Guid,
    ticket: SessionTicket,
    tree: SharedTree,
    /// A channel is lost, and not bound again yet: while one is, no other is killed.
    is_down: Arc<AtomicBool>,
}

/// Table in which lanes publish their sessions, by number; `None` is one that did not sign in.
#[derive(Clone, Default)]
pub(super) struct Board(Arc<Mutex<HashMap<usize, Option<Told>>>>);

impl Session {
    /// Signs in by the first interface.
    pub(super) async fn open(options: &load::Options, client: Guid) -> Result<Self, Error> {
        let wire = wire_options(options, client);
        let connection = Connection::open(options.address_of(0), wire).await?;
        let channel = Channel::sign_in(&connection, options.credentials.clone()).await?;
        let tree = Tree::connect(&channel, &options.unc).await?;
        let agreed = connection.negotiated();
        let most = match options.work {
            load::Work::Write => agreed.max_write,
            load::Work::Mixed => agreed.max_write.min(agreed.max_read),
            _ => agreed.max_read,
        };
        if options.size > most {
            return Err(Error::TooLarge);
        }
        let told = Told { client, ticket: channel.ticket(), tree: tree.shared(), is_down: Arc::default() };
        Ok(Self { channels: options.channels_of(tree), first: Cell::new(Some(channel)), told })
    }

    /// Says good-bye; a server that is gone has forgotten.
    pub(super) async fn end(&self) {
        let _ = self.channels.log_off().await;
    }
}

impl Board {
    /// Publishes a session, or that there is none.
    pub(super) fn tell(&self, number: usize, session: Option<&Session>) {
        let told = session.map(|session| session.told.clone());
        self.0.lock().expect("nobody panics with it").insert(number, told);
    }

    /// Binds channel `channel` of a session to this lane, once that has signed in; `None` where it did not.
    pub(super) async fn bind(
        &self,
        options: &load::Options,
        number: usize,
        channel: usize,
    ) -> Result<Option<Tree>, Error> {
        let told = loop {
            match self.told(number) {
                Some(told) => break told,
                None => lane::time::sleep(LOOK_INTERVAL).await,
            }
        };
        let Some(Told { client, ticket, tree, .. }) = told else { return Ok(None) };
        let connection = Connection::open(options.address_of(channel), wire_options(options, client)).await?;
        let channel = Channel::bind(&connection, &ticket).await?;
        Ok(Some(tree.over(&channel)))
    }

    /// Returns whether a session has a channel less at the moment.
    pub(super) fn is_down(&self, number: usize) -> Option<Arc<AtomicBool>> {
        Some(self.told(number)??.is_down)
    }

    fn told(&self, number: usize) -> Option<Option<Told>> {
        self.0.lock().expect("nobody panics with it").get(&number).cloned()
    }
}

/// Draws a ClientGuid that there was never before.
pub(super) fn new_client() -> Guid {
    let mut guid = [0; 16];
    fill(&mut guid);
    Guid::new(guid)
}

fn wire_options(options: &load::Options, client: Guid) -> Options {
    let mut wire = Options::new(client, Rc::new(fill));
    wire.signing = options.signing;
    wire.sealing = options.sealing;
    if options.sealing == Sealing::Required {
        wire.ciphers = vec![Cipher::Aes128Gcm];
    }
    wire.signing_algorithms = SigningAlgorithm::PREFERRED.to_vec();
    wire.dialects = Dialect::ALL.into_iter().filter(|dialect| *dialect <= options.dialect_max).collect();
    let charge = window::charge(options.size, options.size);
    let wanted = (options.depth as u64 + 1) * u64::from(charge) + 16;
    wire.credits = u16::try_from(wanted).unwrap_or(u16::MAX).clamp(64, window::WINDOW_MAX);
    wire
}

fn fill(into: &mut [u8]) {
    getrandom::fill(into).expect("a Linux machine has randomness");
}

/// Interval at which a lane looks whether another has signed in.
const LOOK_INTERVAL: Duration = Duration::from_micros(500);
