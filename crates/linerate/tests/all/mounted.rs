//! Mounts over what clients cache: the holders of leases and callbacks hear of them.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use afs_client::{Cell, CellOptions, Client, ClientOptions};
use afs_wire::Fid;
use lane::runtime::{RuntimeOptions, run_here};
use lane::time;
use smb_client::{BreakNotification, Open, OpenParams, Tree};
use smb_wire::Guid;
use smb_wire::create::access::share;
use smb_wire::create::lease::{Lease, LeaseV2, state};
use xdr::afs::AfsUuid;
use zerocopy::FromZeros;

use crate::support::share::Share;
use crate::support::{linerate, output, raw};

/// Within so long the kernel tells of mounts, and the server looks at what they hide.
const SOON: Duration = Duration::from_secs(1);

/// A mount of something beside the tree over something in it, and the file that clients rely on.
struct Mount {
    what: &'static str,
    over: &'static str,
    relied: &'static str,
}

const MOUNTS: [Mount; 4] = [
    Mount { what: "other/file", over: "file", relied: "file" },
    Mount { what: "other", over: "d", relied: "d/file" },
    Mount { what: "other", over: "d", relied: "d/e/file" },
    Mount { what: "other", over: "d/e", relied: "d/e/file" },
];

/// A client of AFS and what it has heard.
struct Holder {
    client: Client,
    cell: Cell,
}

impl Holder {
    /// Asks for a file, and holds a callback on it.
    async fn relies_on(&self, path: &str) -> Fid {
        let path: Vec<Vec<u8>> = path.split('/').map(|name| name.as_bytes().to_vec()).collect();
        let found = self.cell.find("tree", &path, false).await.unwrap();
        found.server.status(found.fid).await.unwrap();
        self.client.manager().take_broken();
        found.fid
    }

    /// Returns whether it hears within this time that the file is another, or that nothing is promised any more.
    async fn hears_of(&self, fid: Fid, resets: u64) -> bool {
        let give_up = time::now() + SOON;
        loop {
            let manager = self.client.manager();
            let is_told = manager.heard().resets > resets
                || manager.take_broken().iter().any(|broken| broken.vnode == 0 || *broken == fid);
            if is_told || time::now() > give_up {
                return is_told;
            }
            time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn resets(&self) -> u64 {
        self.client.manager().heard().resets
    }
}

async fn with_lease(tree: &Tree, path: &str, key: u8) -> Open {
    let (lease_key, lease_state) = (Guid::new([key; 16]), (state::READ | state::HANDLE).into());
    let asked = LeaseV2 { lease_key, lease_state, ..LeaseV2::new_zeroed() };
    let how = OpenParams { share: share::ALL, ..OpenParams::read() }.lease(&Lease::V2(&asked));
    let open = Open::create(tree, &path.replace('/', "\\"), &how).await.unwrap();
    assert_eq!(open.lease().map(|(state, _)| state), Some(state::READ | state::HANDLE), "{path}");
    open
}

/// Returns what is left of the lease that is broken next, if one is soon.
async fn broken(tree: &Tree) -> Option<(Guid, u32)> {
    let told = time::timeout(SOON, tree.channel().connection().next_break()).await.ok()?.unwrap();
    let BreakNotification::Lease { key, new, acknowledge, .. } = told else { panic!("{told:?}") };
    if acknowledge {
        tree.acknowledge_lease(key, new).await.unwrap();
    }
    Some((key, new))
}

fn content_of(share: &Share, path: &str) -> String {
    let response = raw::get(share.server.http[0], &format!("/{path}"));
    assert_eq!(response.status, 200, "{path}");
    String::from_utf8(response.body).unwrap()
}

fn mounted(home: &Path, Mount { what, over, .. }: &Mount) {
    output(Command::new("mount").arg("--bind").arg(home.join(what)).arg(home.join("tree").join(over)));
}

fn unmounted(home: &Path, Mount { over, .. }: &Mount) {
    output(Command::new("umount").arg("--lazy").arg(home.join("tree").join(over)));
}

#[test]
fn who_caches_a_file_hears_within_a_second_of_a_mount_over_it_or_above_it_and_of_its_end() {
    // Mounts are seen by this thread alone, and by what it starts.
    if let Err(error) = testkit::Disk::in_memory(1) {
        return testkit::skip(format_args!("nothing can be mounted ({error})"));
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for (path, content) in [("tree", "served"), ("other", "mounted")] {
        for directory in ["", "d", "d/e", "e"] {
            let directory = dir.path().join(path).join(directory);
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join("file"), content).unwrap();
        }
    }
    let tree = dir.path().join("tree").display().to_string();
    output(&mut linerate(["acl", "set", "--clear", &tree, "system:anyuser=all"]));
    let (afs, locations) = (testkit::free_address(), testkit::free_address());
    let tables = format!(
        "signing = 'allowed'\n[afs]\nlisten = '{afs}'\ncell = 'one.example'\nprotection_port = 0\nvolume_port = 0\n\
         location_port = {}\n",
        locations.port()
    );
    let share = Share::new(dir.path(), &dir.path().join("tree"), &tables, "");
    run_here(RuntimeOptions::default(), async move {
        let tree = Share::tree(share.address).await;
        let client =
            Client::bind((Ipv4Addr::LOCALHOST, 0).into(), ClientOptions::new(AfsUuid([9; 16]))).unwrap();
        let cell = CellOptions { file_server: afs, locations, name: None };
        let holder = Holder { cell: Cell::new(&client, cell).unwrap(), client };
        let mut key = 0;
        for mount in &MOUNTS {
            let relied = mount.relied;
            let mut opens = Vec::new();
            for is_mounted in [false, true] {
                let what = format!("{} over {}, {relied}, mounted: {is_mounted}", mount.what, mount.over);
                assert_eq!(
                    content_of(&share, relied),
                    if is_mounted { "mounted" } else { "served" },
                    "{what}"
                );
                key += 1;
                opens.push(with_lease(&tree, relied, key).await);
                // By number a mounted file is not told: it is another file system's.
                let fid = match is_mounted {
                    false => Some(holder.relies_on(relied).await),
                    true => None,
                };
                let resets = holder.resets();
                time::sleep(SOON / 2).await;
                match is_mounted {
                    false => mounted(dir.path(), mount),
                    true => unmounted(dir.path(), mount),
                }
                if let Some(fid) = fid {
                    assert!(holder.hears_of(fid, resets).await, "{what}");
                }
                assert_eq!(broken(&tree).await, Some((Guid::new([key; 16]), 0)), "{what}");
                assert_eq!(
                    content_of(&share, relied),
                    if is_mounted { "served" } else { "mounted" },
                    "{what}"
                );
            }
            for open in opens {
                open.close(0).await.unwrap();
            }
        }
    })
    .unwrap();
}
