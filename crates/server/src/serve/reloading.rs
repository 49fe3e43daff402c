//! A reload under way, and the counters of reloads.

use service::volumes::VolumeTable;

use crate::config::Config;
use crate::lane_messages::Sites;
use crate::listeners::Change;
use crate::objects::Closing;
use crate::reload_transaction::ReloadTransaction;
use crate::roots::Root;
use crate::silo::Taking;

lane::counter_block! {
    /// Counters of the control thread's reloads.
    pub(super) struct ReloadCounters {
        count taken as reloads [outcome = "taken"]: "Configurations taken over while the server runs.",
        count refused as reloads [outcome = "refused"]: "Configurations taken over while the server runs.",
        gauge last_reload_refused: "1 when the last reload was refused: the server goes on with what it had.",
        gauge last_reload_seconds: "When the last reload was taken or refused, seconds since 1970.",
        count volumes_lost: "Times the directory of a volume could not be reached.",
        count volumes_hung: "Times the file system of a volume did not answer for seconds.",
        count volumes_reopened: "Volumes opened anew because their path led to another directory.",
    }
}

/// Reload that the lanes prepare or carry out.
pub(super) struct Reloading {
    pub(super) transaction: ReloadTransaction,
    pub(super) sites: Sites,
    /// Troubles of the configuration while it is in use.
    pub(super) troubles: Vec<(String, String)>,
    pub(super) config: Config,
    pub(super) taking: Taking,
    /// Change of listeners: bound, but taking no connections before the verdict.
    pub(super) change: Change,
    pub(super) roots: Vec<Root>,
    pub(super) volumes: VolumeTable,
    /// Changes under way since before, once the lanes serve the new configuration.
    pub(super) closing: Option<Closing>,
    /// Name of the only volume that is reopened, if the reload is no more than that.
    pub(super) reopened: Option<String>,
}
