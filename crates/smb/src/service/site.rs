//! What SMB is to serve, on its way to the lanes.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use service::socket::reachable;
use service::{Bound, Greeting, Ground, LaneService, LaneStart, Problem, Site};
use smb_auth::{Policy, Target};
use smb_sid::Sids;

use super::lane_service::LaneSmb;
use crate::interfaces::Told;
use crate::options::Options;
use crate::server::Kept;
use crate::settings::{SmbSection, SmbSettings};

/// What a configuration has SMB serve.
pub(crate) struct SmbSite {
    options: Arc<Options>,
    hindrance: Option<String>,
    /// Some user has a hash that SMB can sign him in by.
    has_users: bool,
    bound: Vec<Bound>,
    kept: Arc<Kept>,
}

impl SmbSite {
    pub(crate) fn load(settings: &SmbSettings, ground: &Ground<'_>) -> Result<Self, Problem> {
        let section = &settings.section;
        let target = target(section);
        let hindrance = settings.hindrance().map(str::to_owned);
        // Without addresses nobody asks, and the volumes have no objects.
        let shares = if hindrance.is_some() { Vec::new() } else { settings.shares.clone() };
        let options = Options {
            policy: Policy { guest: section.guest, anonymous: section.anonymous },
            signing: section.signing,
            encryption: section.encryption,
            multichannel: section.multichannel,
            accounts: Arc::clone(ground.accounts),
            sids: Sids::new(&target.netbios_name),
            target,
            shares,
            interfaces: Told::of(section),
            test_switches: section.test_switches,
            connections_max: section.connections_per_lane.min(ground.connections_per_lane),
            sessions_max: section.sessions,
            credits: section.credits,
            transfer_max: u32::try_from(section.transfer_max.0).expect("it was checked"),
            memory: usize::try_from(section.memory_per_lane.0).unwrap_or(usize::MAX),
        };
        Ok(Self {
            options: Arc::new(options),
            hindrance,
            has_users: ground.accounts.users().iter().any(|user| user.has_nt && !user.disabled),
            bound: Vec::new(),
            kept: Arc::clone(&settings.kept),
        })
    }

    pub(super) fn options(&self) -> &Arc<Options> {
        &self.options
    }
}

impl Site for SmbSite {
    fn warnings(&self) -> Vec<String> {
        let nobody = !self.has_users && !self.options.policy.guest && !self.options.policy.anonymous;
        let nobody = (nobody && !self.bound.is_empty()).then(|| {
            "SMB: nobody can sign in yet: give somebody a password for it by `linerate user add NAME --nt`, or let guests in by smb.guest"
                .to_owned()
        });
        let tests = self.options.test_switches.then(|| {
            "SMB: smb.test_switches is on: any client can have its connection ended and its requests held; for tests alone"
                .to_owned()
        });
        self.hindrance.iter().cloned().chain(nobody).chain(tests).collect()
    }

    fn bound(&mut self, sockets: &[Bound]) {
        self.bound = sockets.to_vec();
        if !sockets.is_empty() {
            self.kept.listens();
        }
    }

    fn greeting(&self) -> Greeting {
        let Some(address) = self.bound.first().map(|bound| bound.address) else {
            return Greeting::default();
        };
        let of = |share: &crate::settings::ShareSection| {
            format!("{} as share {}", share.path.display(), share.name)
        };
        let serves = self.options.shares.iter().map(of).collect();
        let urls = self.bound.iter().flat_map(|bound| reachable(bound.address));
        let urls = urls.map(|address| format!("smb://{address}/")).collect();
        Greeting { serves, urls, tries: self.tries(address) }
    }

    fn start(&self, lane: LaneStart<'_>) -> Result<Rc<dyn LaneService>, String> {
        Ok(LaneSmb::new(Arc::clone(&self.options), Arc::clone(&self.kept), &lane)?)
    }
}

impl SmbSite {
    /// How clients of each kind reach the first share.
    fn tries(&self, bound: SocketAddr) -> Vec<String> {
        let Some(share) = self.options.shares.first().map(|share| &share.name) else { return Vec::new() };
        let Some(address) = reachable(bound).first().copied() else { return Vec::new() };
        let (ip, port) = (address.ip(), address.port());
        let host = match ip {
            std::net::IpAddr::V4(ip) => ip.to_string(),
            std::net::IpAddr::V6(ip) => format!("[{ip}]"),
        };
        let user = if self.has_users { "-U NAME" } else { "-N" };
        let (of_smbclient, of_mount, of_url) = match port {
            445 => (String::new(), String::new(), String::new()),
            port => (format!(" -p {port}"), format!(",port={port}"), format!(":{port}")),
        };
        let as_who = if self.has_users { "username=NAME" } else { "guest" };
        let mut tries = vec![
            format!("smbclient{of_smbclient} {user} '//{ip}/{share}'"),
            format!("mount -t cifs -o {as_who},vers=3.1.1{of_mount} '//{ip}/{share}' /mnt"),
        ];
        // Windows knows no other port.
        if port == 445 && !ip.is_loopback() {
            tries.push(format!("in Windows: net use Z: \\\\{ip}\\{share} /user:NAME"));
        }
        tries.push(format!("in the Finder, Go > Connect to Server: smb://{host}{of_url}/{share}"));
        tries
    }
}

/// How the server calls itself: the first part of this machine's name, in capitals.
fn target(section: &SmbSection) -> Target {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let machine = machine.trim();
    let is_of_name = |c: &char| c.is_ascii_alphanumeric() || *c == '-';
    let short: String = machine.chars().take_while(is_of_name).take(15).collect();
    let short = if short.is_empty() { "LINERATE".to_owned() } else { short.to_uppercase() };
    let netbios_name = section.server_name.clone().unwrap_or(short);
    Target {
        dns_name: if machine.is_empty() { netbios_name.to_lowercase() } else { machine.to_owned() },
        netbios_name,
        netbios_domain: section.workgroup.clone(),
        dns_domain: String::new(),
    }
}
