//! A volume as a share, on one lane.

use std::rc::Rc;
use std::sync::Arc;

use identity::{Accounts, Rights};
use smb_sid::Sids;
use smb_wire::Status;
use vfs::{RelPath, Volume};

use crate::access::Allowed;
use crate::asker::Asker;
use crate::counters::TreeCounters;
use crate::hand::{Hand, REOPENED};
use crate::open::Open;
use crate::opens::Opens;
use crate::status;
use crate::tree::Side;

/// How a volume is shown.
#[derive(Clone, Debug)]
pub struct ShareOptions {
    /// Files whose names begin with a dot have the attribute "hidden" (Samba's `hide dot files`).
    pub hide_dot_files: bool,
    /// Names of a directory that are read to find one in another case, or to list it.
    pub names_max: usize,
    /// Who is who in security descriptors,
    pub accounts: Arc<Accounts>,
    /// and by which identifiers.
    pub sids: Sids,
}

impl Default for ShareOptions {
    fn default() -> Self {
        Self {
            hide_dot_files: true,
            names_max: 1_000_000,
            accounts: Accounts::none(),
            sids: Sids::new("linerate"),
        }
    }
}

/// A volume as a share, on this lane. Cloning it is cheap.
#[derive(Clone)]
pub struct Share {
    pub(crate) inner: Rc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) name: Arc<str>,
    pub(crate) volume: Volume,
    pub(crate) options: ShareOptions,
    pub(crate) side: Rc<Side>,
}

impl Share {
    /// How clients name it.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// What it shows.
    pub fn volume(&self) -> &Volume {
        &self.inner.volume
    }

    /// Whether nobody may change anything.
    pub fn is_read_only(&self) -> bool {
        !self.inner.volume.is_writable()
    }

    /// What somebody may do in its root at most: `MaximalAccess` of TREE_CONNECT.
    pub async fn maximal_access(&self, asker: &Asker) -> Result<u32, Status> {
        let found = self.volume().lookup_with_rights(&asker.caller, RelPath::ROOT, Rights::NONE).await;
        let found = found.map_err(status::of)?;
        let who = &asker.caller.principal;
        Ok(Allowed::new(who, found.rights(who), None, true).mask())
    }

    pub(crate) fn options(&self) -> &ShareOptions {
        &self.inner.options
    }

    pub(crate) fn side(&self) -> &Side {
        &self.inner.side
    }

    pub(crate) fn opens(&self) -> &Arc<Opens> {
        self.inner.side.opens()
    }

    pub(crate) fn counters(&self) -> &Arc<TreeCounters> {
        self.inner.side.counters()
    }

    /// What an open is of, as this lane has it: opened again where another lane has made the open.
    pub(crate) async fn hand(&self, asker: &Asker, open: &Arc<Open>) -> Result<Rc<Hand>, Status> {
        if let Some(hand) = self.side().hand(open) {
            return Ok(hand);
        }
        let identity = open.grants().object().identity();
        let found = self.volume().reopen(&asker.caller, identity, REOPENED).await;
        self.counters().hands_reopened.increment();
        let hand = Rc::new(Hand::new(found.map_err(status::of)?, None));
        Ok(self.side().keep_hand(open, hand))
    }
}

impl std::fmt::Debug for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Share").field("name", &self.inner.name).finish_non_exhaustive()
    }
}
