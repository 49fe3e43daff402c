//! The random load with mappings on smbd and on Linerate in turns: what Linux's client gets wrong by itself it gets wrong on both.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use testkit::stock_smbd::StockSmbd;

use super::{MOUNT, PASSWORD, SERVER, TREE, USER, at, mount_share, serve, told};
use crate::lab::guest::{Guest, modprobe};
use crate::lab::machine::Machine;
use crate::lab::scenario::Scenario;
use crate::lab::scenario::fsx::{self, Mapping};
use crate::process;

pub(crate) struct CifsMapped;

/// A share, its users, and where its files lie.
struct Site {
    name: &'static str,
    source: String,
    options: String,
    tree: &'static str,
}

impl Scenario for CifsMapped {
    fn name(&self) -> &'static str {
        "cifs-mapped"
    }

    fn about(&self) -> &'static str {
        "a file mapped at random by Linux's SMB client holds what it must wherever it does on smbd"
    }

    fn packages(&self) -> &'static [&'static str] {
        &["e2fsprogs", "gcc", "libc6-dev", "samba"]
    }

    fn machines(&self) -> Vec<Machine> {
        vec![Machine {
            nodes: 1,
            nics: Vec::new(),
            memory_mib_per_node: 1536,
            disk_mib: Some(512),
            ..Machine::two_nodes()
        }]
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(1800)
    }

    fn run(&self, guest: &mut Guest) -> anyhow::Result<()> {
        let server = serve(guest)?;
        modprobe(&["cifs"])?;
        fs::create_dir_all(STOCK_TREE)?;
        let _stock = StockSmbd::start(
            Path::new(STOCK_TREE),
            Path::new("/tmp/smbd"),
            ([127, 0, 0, 1], STOCK_PORT).into(),
            "",
        )?;
        let sites = [
            Site {
                name: "smbd",
                source: format!("//{SERVER}/plain"),
                options: format!(
                    "port={STOCK_PORT},username={},password={}",
                    StockSmbd::USER,
                    StockSmbd::PASSWORD
                ),
                tree: STOCK_TREE,
            },
            Site {
                name: "Linerate",
                source: format!("//{SERVER}/tree"),
                options: format!("username={USER},password={PASSWORD}"),
                tree: TREE,
            },
        ];
        let mut wrong = [0, 0];
        for round in 0..ROUNDS {
            for (site, wrong) in sites.iter().zip(&mut wrong) {
                if let Err(error) = random_load(guest, site, round) {
                    guest.note(format!("{}, round {round}: {error:#}", site.name))?;
                    *wrong += 1;
                }
            }
        }
        let [on_stock, on_ours] = wrong;
        for (site, wrong) in sites.iter().zip(wrong) {
            guest.figure(
                &format!("{}: loads that left other bytes", site.name),
                f64::from(wrong),
                "loads",
            )?;
        }
        told(guest, &server)?;
        ensure!(
            on_ours == 0 || on_stock > 0,
            "{on_ours} of {ROUNDS} loads are wrong on Linerate, none on smbd"
        );
        Ok(())
    }
}

/// Runs the random load, whose bytes are compared here and in the tree.
fn random_load(guest: &mut Guest, site: &Site, round: u32) -> anyhow::Result<()> {
    mount_share(&site.source, &format!("ip={SERVER},vers=3.0,seal,{}", site.options))?;
    let name = format!("fsx-{round}");
    let load = fsx::run(&at(&name), LOAD, Mapping::Mapped);
    let outcome = load.and_then(|(steps, good)| {
        guest.figure(&format!("{}, round {round}", site.name), steps, "steps")?;
        let there = fs::read(format!("{}/{name}", site.tree))?;
        let again = fs::read(at(&name))?;
        fsx::compare(&there, &good).with_context(|| match again == good {
            true => "in the tree, and right to the client",
            false => "in the tree, and wrong to the client",
        })
    });
    process::output("umount", &[MOUNT])?;
    outcome
}

const STOCK_TREE: &str = "/srv/stock";
const STOCK_PORT: u16 = 4455;
const ROUNDS: u32 = 2;
const LOAD: Duration = Duration::from_secs(90);
