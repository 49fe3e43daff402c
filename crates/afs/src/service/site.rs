//! Site of AFS, on its way to the lanes.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use identity::{Accounts, Writable};
use lane::fs::changes_identities;
use lane::socket::reuseport::Steering;
use rx::Dscp;
use service::socket::reachable;
use service::volumes::LaneVolumes;
use service::{Bound, LoadContext, Problem};
use vfs::VolumeName;
use xdr::afs::AfsUuid;

use super::process_state::ProcessState;
use crate::attached_volumes::{AttachedVolumes, Attachment, VolumeType};
use crate::cell::{Cell, Principals, ServerAddresses};
use crate::host::{HostOptions, Hosts};
use crate::oob::OobOptions;
use crate::settings::AfsSettings;

/// Site that a configuration has AFS serve.
pub(crate) struct AfsSite {
    pub(super) cell: String,
    pub(super) attachments: Vec<Attachment>,
    pub(super) paths: Vec<PathBuf>,
    pub(super) hindrance: Option<String>,
    pub(super) accounts: Arc<Accounts>,
    pub(super) principals: Arc<Principals>,
    pub(super) uuid: AfsUuid,
    pub(super) steering: Steering,
    pub(super) bound: Vec<Bound>,
    pub(super) server_addresses: Arc<ServerAddresses>,
    pub(super) hosts: Hosts,
    pub(super) process: Arc<ProcessState>,
    /// Volumes that may be written to, but not by AFS, since numbers of their files end at a first change.
    pub(super) fixed: Vec<VolumeName>,
    /// Volumes that no lane attaches.
    pub(super) left_out: Mutex<BTreeSet<VolumeName>>,
    pub(super) oob: OobOptions,
    pub(super) root_volumes: bool,
    pub(super) dscp: Dscp,
    /// Set for a check before a start: no number lasts then, which is no trouble of the server that is to be.
    pub(super) is_trial: bool,
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

    /// Returns the clients of all lanes.
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

    /// Returns the cell's name, where its roots are made up.
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

    pub(super) fn left_out(&self) -> MutexGuard<'_, BTreeSet<VolumeName>> {
        self.left_out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn address(&self, role: service::Role) -> Option<SocketAddr> {
        self.bound.iter().find(|bound| bound.role == role).map(|bound| bound.address)
    }
}

impl AfsSite {
    /// Returns how clients come to know the cell, and mount it.
    pub(super) fn tries(&self, files: SocketAddr) -> Vec<String> {
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
