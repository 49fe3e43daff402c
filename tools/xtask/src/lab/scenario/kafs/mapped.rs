//! The random load with mappings on a stock server and on Linerate: what Linux's client gets wrong by itself it gets wrong on both.

use std::fs;
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::lab::guest::{Guest, modprobe};
use crate::lab::machine::Machine;
use crate::lab::scenario::Scenario;
use crate::lab::scenario::afs_sites::{self, OURS, STOCK, Sites};
use crate::lab::scenario::fsx::{self, Mapping};
use crate::process;

pub(crate) struct KafsMapped;

impl Scenario for KafsMapped {
    fn name(&self) -> &'static str {
        "kafs-mapped"
    }

    fn about(&self) -> &'static str {
        "a file mapped at random by Linux's AFS client holds what it must wherever it does on a stock server"
    }

    fn packages(&self) -> &'static [&'static str] {
        afs_sites::PACKAGES
    }

    fn machines(&self) -> Vec<Machine> {
        vec![Machine { nodes: 1, memory_mib_per_node: 1536, nics: Vec::new(), ..Machine::two_nodes() }]
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(900)
    }

    fn run(&self, guest: &mut Guest) -> anyhow::Result<()> {
        let _sites = Sites::start(guest)?;
        modprobe(&["kafs"])?;
        let mut wrong = Vec::new();
        for site in [STOCK, OURS] {
            let mount = format!("/tmp/{}", site.cell);
            fs::create_dir_all(&mount)?;
            fs::write("/proc/fs/afs/cells", format!("add {} {}", site.cell, site.address))
                .context("/proc/fs/afs/cells")?;
            process::output("mount", &["-t", "afs", &format!("%{}:{}.", site.cell, site.volume), &mount])?;
            for mapping in [Mapping::Unmapped, Mapping::Mapped] {
                match fsx::run(&format!("{mount}/{mapping:?}"), LOAD, mapping) {
                    Ok((steps, _)) => guest.figure(&format!("{}, {mapping:?}", site.name), steps, "steps")?,
                    Err(error) => {
                        let told = format!("{error:#}");
                        let lines: Vec<&str> = told.trim().lines().collect();
                        let last = lines[lines.len().saturating_sub(LINES_TOLD)..].join("\n    ");
                        guest.note(format!("{}, {mapping:?}: {last}", site.name))?;
                        wrong.push((site.name, mapping));
                    }
                }
            }
        }
        let on_stock = |mapping| wrong.contains(&(STOCK.name, mapping));
        for mapping in [Mapping::Unmapped, Mapping::Mapped] {
            let on_ours = wrong.contains(&(OURS.name, mapping));
            ensure!(
                !on_ours || on_stock(mapping),
                "{mapping:?}: wrong on Linerate, right on the stock server"
            );
        }
        Ok(())
    }
}

const LOAD: Duration = Duration::from_secs(60);
const LINES_TOLD: usize = 4;
