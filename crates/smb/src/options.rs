//! Options of a server, as one site has them: read-only, shared by the lanes.

use std::sync::Arc;

use identity::Accounts;
use smb_auth::{Policy, Target};
use smb_proto::sealing::Cipher;
use smb_sid::Sids;

use crate::interfaces::AdvertisedInterfaces;
use crate::settings::{Encryption, ShareSection, Signing};

/// The rules of a site.
pub(crate) struct Options {
    pub(crate) target: Target,
    pub(crate) policy: Policy,
    pub(crate) signing: Signing,
    pub(crate) encryption: Encryption,
    /// Sessions may have several connections.
    pub(crate) multichannel: bool,
    /// AES-GMAC may sign where sessions may have several connections.
    pub(crate) gmac_over_channels: bool,
    pub(crate) accounts: Arc<Accounts>,
    /// Set if any user has an NT hash, without which no user can sign in by SMB.
    pub(crate) has_users: bool,
    /// Security identifiers of users and groups.
    pub(crate) sids: Sids,
    pub(crate) shares: Vec<ShareSection>,
    pub(crate) interfaces: AdvertisedInterfaces,
    /// FSCTLs of Samba's tests are obeyed.
    pub(crate) test_switches: bool,
    pub(crate) connections_max: usize,
    pub(crate) sessions_max: usize,
    pub(crate) credits: u16,
    /// Bytes of one READ or WRITE.
    pub(crate) transfer_max: u32,
    /// Bytes that a lane's requests and replies hold.
    pub(crate) memory: usize,
}

impl Options {
    /// Returns true when NEGOTIATE says that signing is required: where users with a key may sign in. A client of
    /// MS-SMB2 takes no guest's session of a server that says so (3.2.5.3.1), and where guests alone come no client
    /// could sign.
    pub(crate) fn requires_signing(&self) -> bool {
        let guests_alone = !self.has_users && (self.policy.guest || self.policy.anonymous);
        self.signing == Signing::Required && !guests_alone
    }

    /// Ciphers that may be agreed on.
    pub(crate) fn ciphers(&self) -> &'static [Cipher] {
        if self.encryption == Encryption::Off { &[] } else { &Cipher::PREFERRED }
    }

    /// Returns the number of bytes of the longest answer of what is not READ, and of the longest input of what is not
    /// WRITE.
    pub(crate) fn transact_max(&self) -> u32 {
        self.transfer_max.min(TRANSACT_MAX)
    }
}

/// MaxTransactSize, where READ and WRITE are as long: what Windows and Samba offer, and clients ask for. An answer is never longer
/// than [`smb_tree::ANSWER_MAX`].
const TRANSACT_MAX: u32 = 8 << 20;
