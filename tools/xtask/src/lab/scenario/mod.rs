//! Scenarios of the lab: one file each. A scenario is data (its machines) and one function that runs inside
//! every one of them, as root, with the host's files around it.

use std::time::Duration;

use anyhow::bail;

use super::guest::Guest;
use super::machine::Machine;

mod afs_long_link;
mod afs_sites;
mod cifs;
mod egress;
mod four_nodes;
mod fsx;
mod kafs;
mod ktls;
mod long_link;
mod numa_listeners;
mod numa_memory;
mod pacing;
mod project;
mod ways;

/// Every scenario, in the order `lab all` runs them.
pub(crate) const ALL: &[&dyn Scenario] = &[
    &numa_listeners::NumaListeners,
    &four_nodes::FourNodes,
    &numa_memory::NumaMemory,
    &egress::Egress,
    &ktls::Ktls,
    &ktls::KtlsLarge,
    &ktls::KtlsPeer,
    &long_link::LongLink,
    &pacing::Pacing,
    &ways::Ways,
    &kafs::Kafs,
    &kafs::KafsFsx,
    &kafs::KafsMapped,
    &afs_long_link::AfsLongLink,
    &cifs::Cifs,
    &cifs::CifsOld,
    &cifs::CifsMapped,
    &cifs::CifsMany,
    &cifs::CifsFsx,
    &cifs::CifsChannels,
];

/// One scenario.
pub(crate) trait Scenario: Sync {
    /// Returns the scenario's name on the command line.
    fn name(&self) -> &'static str;

    /// Returns what it shows, in a line.
    fn about(&self) -> &'static str;

    /// Returns the machines of the guests that it needs; most need one.
    fn machines(&self) -> Vec<Machine> {
        vec![Machine::two_nodes()]
    }

    /// Returns the Debian packages whose programs it runs inside, besides those of the lab itself.
    fn packages(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the time after which it is killed.
    fn limit(&self) -> Duration {
        Duration::from_secs(240)
    }

    /// Returns whether `cargo xtask test` runs it.
    fn on_every_change(&self) -> bool {
        false
    }

    /// Runs inside the guest; with several, in each of them, told apart by [`Guest::name`].
    ///
    /// # Errors
    /// What did not hold.
    fn run(&self, guest: &mut Guest) -> anyhow::Result<()>;
}

/// Returns the scenarios of these names; `all` stands for each.
pub(crate) fn choose(names: &[String]) -> anyhow::Result<Vec<&'static dyn Scenario>> {
    let mut chosen: Vec<&'static dyn Scenario> = Vec::new();
    for name in names {
        if name == "all" {
            chosen.extend(ALL);
            continue;
        }
        match ALL.iter().find(|scenario| scenario.name() == name) {
            Some(scenario) => chosen.push(*scenario),
            None => bail!("no scenario {name}; `cargo xtask lab list` names them"),
        }
    }
    Ok(chosen)
}
