//! The service as the server knows it: the settings make a site, the site a service for each lane.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use service::socket::reachable;
use service::{
    Bound, ConnectionsMax, Greeting, LaneService, LaneStart, LoadContext, Problem, Settings, Site, Wanted,
};
use vfs::VolumeName;

use super::lane_service::LaneAfs;
use super::roles;
use super::site::AfsSite;
use crate::attached_volumes::Attachment;
use crate::cell::ServerAddresses;
use crate::settings::{AfsSettings, FILES_PORT, LOCATION_PORT, PROTECTION_PORT, VOLUME_PORT};

impl Settings for AfsSettings {
    fn sockets(&self) -> Vec<Wanted> {
        if self.hindrance().is_some() { Vec::new() } else { self.wanted() }
    }

    fn connections(&self) -> ConnectionsMax {
        // A connection of Rx takes no descriptor.
        let per_lane = if self.section.oob && self.hindrance().is_none() {
            self.section.oob_connections_per_lane
        } else {
            0
        };
        ConnectionsMax { key: "afs.oob_connections_per_lane", per_lane }
    }

    fn needs_objects(&self, volume: &VolumeName) -> bool {
        self.hindrance().is_none() && self.attachments.iter().any(|attachment| attachment.volume == *volume)
    }

    fn load(&self, context: &LoadContext<'_>) -> Result<Box<dyn service::Site>, Problem> {
        Ok(Box::new(AfsSite::load(self, context)?))
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
        self.process.synthetic.set(self.root_of(), cell.attached.all());
        let (hosts, process) = (self.hosts.clone(), Arc::clone(&self.process));
        let afs = LaneAfs::new(cell, hosts, process, lane.commons, lane.audit, self.oob);
        let afs = afs.map_err(|error| format!("out-of-band TCP: {error}"))?;
        afs.set_dscp(self.dscp);
        Ok(Rc::new(afs))
    }
}

/// Returns what `linerate ls` opens: it asks for volumes at a port 3 higher, or where an option says. `None`: the
/// cell's location service is elsewhere.
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
