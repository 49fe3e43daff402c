//! Table `[server]`: lanes, silos, state and shutdown.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use serde::Deserialize;
use service::config::{ConfigError, Size};

/// Table `[server]`: lanes, silos, state and shutdown.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct ServerSection {
    /// Number of lanes in all; absent for one on each core.
    pub lanes: Option<usize>,
    /// CPUs of the lanes, one on each, such as `"0-3,8"`; excludes `lanes`.
    pub cpus: Option<String>,
    /// Set for one silo on each NUMA node.
    pub silos: bool,
    /// NUMA nodes whose lanes take no new connections; their NICs are served by the other nodes meanwhile.
    pub drained_nodes: Vec<u32>,
    /// Setting for lanes of nodes without a NIC.
    pub nodes_without_nic: NodesWithoutNic,
    /// Marks (SO_MARK) of the packets that leave a silo, by the name of its NIC: distinct, and not 0. Needs
    /// CAP_NET_ADMIN.
    pub egress_marks: BTreeMap<String, u32>,
    /// Sending rate of all services together, in bytes per second; absent for no bound.
    pub egress_rate: Option<Size>,
    /// Set if two lanes may share a core (SMT siblings).
    pub share_cores: bool,
    /// Directory of the self-signed certificate and other state; absent for the user's state directory.
    pub state_dir: Option<PathBuf>,
    /// Time for which transfers may go on after a request to stop, in seconds.
    pub drain_seconds: u64,
}

/// Behaviour of lanes whose node has no NIC.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum NodesWithoutNic {
    /// Lanes without a NIC serve only connections that come by no NIC.
    Idle,
    /// Lanes without a NIC also take connections of a NIC all whose own lanes are full.
    #[default]
    Assist,
}

impl ServerSection {
    /// Returns the directory for what outlives the process, if one is configured or known.
    pub fn state_dir(&self) -> Option<PathBuf> {
        self.state_dir.clone().or_else(default_state_dir)
    }

    /// Returns the sending rate of all services together, in bytes per second, if bounded.
    pub(crate) fn egress_rate(&self) -> Option<u64> {
        self.egress_rate.map(|Size(rate)| rate)
    }

    pub(super) fn check_egress_rate(&self) -> Result<(), ConfigError> {
        match self.egress_rate().filter(|rate| !RATES.contains(rate)) {
            None => Ok(()),
            Some(rate) => {
                let problem = format!("{rate} is not within {} to {}", RATES.start(), RATES.end());
                Err(ConfigError::invalid("server.egress_rate", problem))
            }
        }
    }

    pub(super) fn check_marks(&self) -> Result<(), ConfigError> {
        let problem = |problem: String| Err(ConfigError::invalid("server.egress_marks", problem));
        let mut seen = HashSet::new();
        for (nic, mark) in &self.egress_marks {
            if nic.is_empty() || nic.len() > NIC_NAME_BYTES_MAX || nic.contains(['/', ' ']) {
                return problem(format!("{nic:?} is no name of an interface, such as \"eth0\""));
            }
            if *mark == 0 {
                return problem(format!("0 stands for no mark: give {nic} another number"));
            }
            if !seen.insert(mark) {
                return problem(format!("{mark} is used twice: packets of two NICs could not be told apart"));
            }
        }
        Ok(())
    }
}

impl Default for ServerSection {
    fn default() -> Self {
        Self {
            lanes: None,
            cpus: None,
            silos: true,
            drained_nodes: Vec::new(),
            nodes_without_nic: NodesWithoutNic::default(),
            egress_marks: BTreeMap::new(),
            egress_rate: None,
            share_cores: false,
            state_dir: None,
            drain_seconds: 30,
        }
    }
}

/// Returns the directory of the XDG Base Directory Specification; for root that of the FHS, unless the former
/// is asked for. A service manager that keeps a directory for the server names it in STATE_DIRECTORY
/// (systemd.exec(5)). None where nothing says where: not the working directory, which may be any user's.
pub fn default_state_dir() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let root = || rustix::process::geteuid().is_root().then(|| PathBuf::from("/var/lib"));
    absolute("STATE_DIRECTORY").or_else(|| {
        absolute("XDG_STATE_HOME")
            .or_else(root)
            .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
            .map(|base| base.join("linerate"))
    })
}

/// Range of rates: beyond, a rate is 0, or sums overflow.
const RATES: std::ops::RangeInclusive<u64> = 1..=u64::MAX / 4;
/// Longest name of a NIC, in bytes: IFNAMSIZ, without the zero at the end.
const NIC_NAME_BYTES_MAX: usize = 15;
