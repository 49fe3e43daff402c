//! One session of the load: its channels, and the share over each.

use std::rc::Rc;

use smb_client::{Channel, Connection, Error, Options, Sealing, Tree};
use smb_proto::sealing::Cipher;
use smb_proto::signing::SigningAlgorithm;
use smb_proto::window;
use smb_wire::{Dialect, Guid};

use super::load;

/// A share over each channel of one session.
pub(super) struct Session {
    pub(super) trees: Vec<Tree>,
}

impl Session {
    /// Signs in, and binds the other channels.
    pub(super) async fn open(options: &load::Options) -> Result<Self, Error> {
        let wire = wire_options(options)?;
        let connection = Connection::open(options.server, wire.clone()).await?;
        let channel = Channel::sign_in(&connection, options.credentials.clone()).await?;
        let tree = Tree::connect(&channel, &options.unc).await?;
        let mut trees = vec![tree];
        for _ in 1..options.channels {
            let connection = Connection::open(options.server, wire.clone()).await?;
            let channel = Channel::bind(&connection, &trees[0].channel().ticket()).await?;
            trees.push(trees[0].over(&channel));
        }
        let agreed = connection.negotiated();
        let most = match options.work {
            load::Work::Write => agreed.max_write,
            load::Work::Mixed => agreed.max_write.min(agreed.max_read),
            _ => agreed.max_read,
        };
        if options.size > most {
            return Err(Error::TooLarge);
        }
        Ok(Self { trees })
    }

    /// Says good-bye; a server that is gone has forgotten.
    pub(super) async fn end(&self) {
        if let Some(tree) = self.trees.first() {
            let _ = tree.channel().log_off().await;
        }
    }
}

fn wire_options(options: &load::Options) -> Result<Options, Error> {
    let mut guid = [0; 16];
    fill(&mut guid);
    let mut wire = Options::new(Guid::new(guid), Rc::new(fill));
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
    Ok(wire)
}

fn fill(into: &mut [u8]) {
    getrandom::fill(into).expect("a Linux machine has randomness");
}
