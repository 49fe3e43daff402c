//! Site of AFS, on its way to the lanes.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use identity::{Accounts, Writable};
use lane::fs::changes_identities;
use lane::socket::reuseport::Steering;
use rx::Dscp;
use service::socket::reachable;
use service::volumes::LaneVolumes;
use service::{Bound, Greeting, LaneService, LaneStart, LoadContext, Problem, Site};
use vfs::VolumeName;
use xdr::afs::AfsUuid;

use super::lane_service::LaneAfs;
use super::process_state::ProcessState;
use super::roles;
use crate::attached_volumes::{AttachedVolumes, Attachment, VolumeType};
use crate::cell::{Cell, Principals, ServerAddresses};
use crate::host::{HostOptions, Hosts};
use crate::oob::OobOptions;
use crate::settings::{AfsSettings, FILES_PORT, LOCATION_PORT, PROTECTION_PORT, VOLUME_PORT};

/// Site that a configuration has AFS serve.
pub(crate) struct AfsSite {
    cell: String,
    attachments: Vec<Attachment>,
    paths: Vec<PathBuf>,
    hindrance: Option<String>,
    accounts: Arc<Accounts>,
    principals: Arc<Principals>,
    uuid: AfsUuid,
    steering: Steering,
    bound: Vec<Bound>,
    server_addresses: Arc<ServerAddresses>,
    hosts: Hosts,
    process: Arc<ProcessState>,
    /// Volumes that may be written to, but not by AFS, since numbers of their files end at a first change.
    fixed: Vec<VolumeName>,
    /// Volumes that no lane attaches.
    left_out: Mutex<BTreeSet<VolumeName>>,
    oob: OobOptions,
    root_volumes: bool,
    dscp: Dscp,
    /// No number lasts, which is no trouble of the server that is to be.
    is_trial: bool,
}

impl AfsSite {
    pub(crate) fn load(settings: &AfsSettings, context: &LoadContext<'_>) -> Result<Self, Problem> {
        let process = Arc::clone(&settings.process);
        if let Some(trouble) = context.index_trouble {
            // Clients would know files by numbers that mean others after the next start, and not hear of what is over.
            settings.hinder(trouble.to_owned());
        }
        let uuid = match process.uuid(context.state_dir) {
            Ok(uuid) => uuid,
            Err(error) => {
                let problem = format!("the AFS server's UUID: {error}");
                if !settings.gives_way() {
                    return Err(problem.into());
                }
                settings.hinder(problem);
                AfsUuid::default()
            }
        };
        let hindrance = settings.hindrance().map(str::to_owned);
        let (mut attachments, mut fixed) = (settings.attachments.clone(), Vec::new());
        for (attachment, path) in attachments.iter_mut().zip(&settings.paths) {
            if attachment.kind == VolumeType::ReadWrite
                && changes_identities(path).is_ok_and(|changes| changes)
            {
                attachment.kind = VolumeType::ReadOnly;
                let mut named = context.volumes.iter().filter(|volume| volume.name == attachment.volume);
                if named.any(|volume| volume.writable != Writable::Nobody) {
                    fixed.push(attachment.volume.clone());
                }
            }
        }
        Ok(Self {
            cell: settings.section.cell.clone(),
            attachments,
            fixed,
            paths: settings.paths.clone(),
            hosts: match hindrance {
                None => process.hosts(uuid, context.objects),
                // No client is served, and those of a later reload are kept in the index.
                Some(_) => Hosts::new(HostOptions::default(), uuid, None),
            },
            hindrance,
            accounts: Arc::clone(context.accounts),
            principals: Arc::new(Principals::of(context.accounts)),
            uuid,
            steering: Steering::by_layout(context.layout)?,
            bound: Vec::new(),
            server_addresses: Arc::new(ServerAddresses::new(uuid, process.since(), &[])),
            process,
            left_out: Mutex::default(),
            root_volumes: settings.section.root_volumes,
            is_trial: context.is_trial,
            dscp: settings.section.code_point().unwrap_or_default(),
            oob: OobOptions {
                connections_max: context.connections_per_lane,
                ..settings.section.oob_options()
            },
        })
    }

    /// The clients of all lanes.
    pub(super) fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// Bounds of out-of-band TCP.
    pub(super) fn oob(&self) -> OobOptions {
        self.oob
    }

    /// Returns what the file server's packets are marked with.
    pub(super) fn dscp(&self) -> Dscp {
        self.dscp
    }

    /// The cell's name, where its roots are made up.
    pub(super) fn root_of(&self) -> Option<&str> {
        self.root_volumes.then_some(self.cell.as_str())
    }

    /// Returns what a lane answers from.
    pub(super) fn open(&self, volumes: &LaneVolumes) -> Result<Cell, String> {
        // Without addresses no client asks, and the volumes have no numbers.
        let attachments = if self.hindrance.is_some() { &[][..] } else { &self.attachments[..] };
        let attached = AttachedVolumes::new(attachments, volumes)?
            .with_synthetic(self.process.synthetic.clone())
            .with_accounts(&self.accounts);
        let attached = Rc::new(attached);
        for (volume, why) in attached.left_out() {
            // Each lane finds the same.
            if self.left_out().insert(volume.clone()) && !self.is_trial {
                //@ cause: AFS names files by numbers that have to last, and the server cannot keep them for this volume. The line says why:
                //@ mostly the file system is read-only, or the server may not write to the directory.
                //@ remedy: Let the server write to the volume's directory once, then mount it read-only if you like. See docs/users/afs.md.
                tracing::warn!(
                    %volume,
                    "volume {volume}: AFS does not serve it, the other protocols do: {why}; AFS names files by numbers that have to \
                     last, for which the server must be able to write the volume's directory once [afs-volume-left-out]"
                );
            }
        }
        Ok(Cell {
            attached,
            server_addresses: Arc::clone(&self.server_addresses),
            principals: Arc::clone(&self.principals),
        })
    }

    fn left_out(&self) -> MutexGuard<'_, BTreeSet<VolumeName>> {
        self.left_out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn address(&self, role: service::Role) -> Option<SocketAddr> {
        self.bound.iter().find(|bound| bound.role == role).map(|bound| bound.address)
    }
}

impl Site for AfsSite {
    fn warnings(&self) -> Vec<String> {
        let fixed = self.troubles(SystemTime::now()).into_iter().map(|(_, told)| told);
        self.hindrance.iter().cloned().chain(fixed).collect()
    }

    fn troubles(&self, _: SystemTime) -> Vec<(String, String)> {
        let told = |volume: &VolumeName| {
            //@ level: WARN
            //@ cause: The volume lies on an overlayfs that gives no file handles. There a file of a lower layer becomes another one when it
            //@ is first changed, and the number by which clients of AFS know it ends.
            //@ remedy: Mount it with `nfs_export=on,index=on`, or serve a directory of another file system. To have it read-only, and not
            //@ be told, say `afs = "readonly"`.
            let told = format!(
                "volume {volume}: nobody can write to it by AFS, as overlayfs without nfs_export ends the numbers of files when they are \
                 first changed; mount it with nfs_export=on,index=on [afs-volume-layered]"
            );
            (format!("volume {volume}, AFS"), told)
        };
        // Without addresses no client asks.
        if self.hindrance.is_some() { Vec::new() } else { self.fixed.iter().map(told).collect() }
    }

    fn bound(&mut self, sockets: &[Bound]) {
        self.bound = sockets.to_vec();
        self.process.listens(sockets, &self.steering);
        let files: Vec<SocketAddr> = self.address(roles::FILES).into_iter().collect();
        self.server_addresses = Arc::new(ServerAddresses::new(self.uuid, self.process.since(), &files));
    }

    fn greeting(&self) -> Greeting {
        let Some(files) = self.address(roles::FILES) else { return Greeting::default() };
        let cell = &self.cell;
        let of = |(attachment, path): (&Attachment, &PathBuf)| {
            format!("{} as volume {} of the AFS cell {cell}", path.display(), attachment.name)
        };
        let left_out = self.left_out();
        let is_served = |(attachment, _): &(&Attachment, &PathBuf)| !left_out.contains(&attachment.volume);
        let serves = self.attachments.iter().zip(&self.paths).filter(is_served).map(of).collect();
        let location = self.address(roles::LOCATION).map(|address| address.port());
        let urls = reachable(files).iter().filter_map(|address| url(*address, location)).collect();
        let is_usual = |role, port| self.address(role).is_some_and(|address| address.port() == port);
        let known = [
            (roles::FILES, FILES_PORT),
            (roles::PROTECTION, PROTECTION_PORT),
            (roles::LOCATION, LOCATION_PORT),
            (roles::VOLUMES, VOLUME_PORT),
        ];
        // Stock clients find the servers of a cell at these ports and no others, and those that are elsewhere are not known here.
        let tries = match known.into_iter().all(|(role, port)| is_usual(role, port)) {
            true => self.tries(files),
            false => Vec::new(),
        };
        Greeting { serves, urls, tries }
    }

    fn start(&self, lane: LaneStart<'_>) -> Result<Rc<dyn LaneService>, String> {
        let cell = self.open(lane.volumes)?;
        self.process.synthetic.set(self.root_of(), &cell.attached);
        let (hosts, process) = (self.hosts.clone(), Arc::clone(&self.process));
        let afs = LaneAfs::new(cell, hosts, process, lane.commons, lane.audit, self.oob);
        let afs = afs.map_err(|error| format!("out-of-band TCP: {error}"))?;
        afs.set_dscp(self.dscp);
        Ok(Rc::new(afs))
    }
}

impl AfsSite {
    /// Returns how clients come to know the cell, and mount it.
    fn tries(&self, files: SocketAddr) -> Vec<String> {
        let cell = &self.cell;
        let Some(ip) = reachable(files).first().map(SocketAddr::ip) else { return Vec::new() };
        let root = self.attachments.iter().find(|attachment| attachment.name.as_str() == "root.cell");
        let Some(root) = root.or(self.attachments.first()) else { return Vec::new() };
        let mut tries = vec![
            format!(
                "modprobe kafs && echo 'add {cell} {ip}' >/proc/fs/afs/cells; mount -t afs '%{cell}:{}.' /mnt",
                root.name
            ),
            format!("printf '>{cell}\\n{ip} #{cell}\\n' >>/etc/openafs/CellServDB; ls /afs/{cell}"),
            format!("vos listvldb -cell {cell} -noauth"),
        ];
        if !ip.is_loopback() {
            tries.push(format!(
                "in the DNS instead: _afs3-vlserver._udp.{cell}. SRV 0 0 7003 HOST. (or {cell}. AFSDB 1 HOST.)"
            ));
        }
        tries
    }
}

/// Returns what `linerate ls` opens: it asks for volumes at a port 3 higher, or where it is told to. `None`:
/// the cell's location service is elsewhere.
fn url(files: SocketAddr, location: Option<u16>) -> Option<String> {
    let location = location?;
    Some(match files.port().checked_add(LOCATION_PORT - FILES_PORT) == Some(location) {
        true => format!("afs://{files}/"),
        false => format!("afs://{files}/ with --location {}", SocketAddr::new(files.ip(), location)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_with_what_it_takes_to_open_it() {
        let url = |text: &str, location| url(text.parse().unwrap(), location);
        assert_eq!(url("10.0.0.1:7000", Some(7003)).unwrap(), "afs://10.0.0.1:7000/");
        assert_eq!(url("10.0.0.1:27070", Some(27_073)).unwrap(), "afs://10.0.0.1:27070/");
        let elsewhere = url("10.0.0.1:27070", Some(7003)).unwrap();
        assert_eq!(elsewhere, "afs://10.0.0.1:27070/ with --location 10.0.0.1:7003");
        assert_eq!(url("10.0.0.1:7000", None), None);
    }
}
