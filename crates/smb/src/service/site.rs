//! Site of SMB, on its way to the lanes.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use service::socket::reachable;
use service::{Bound, Greeting, LaneService, LaneStart, LoadContext, Problem, Site};
use smb_auth::{Policy, Target};
use smb_sid::Sids;

use super::lane_service::LaneSmb;
use crate::interfaces::AdvertisedInterfaces;
use crate::options::Options;
use crate::server::ServerState;
use crate::settings::{SmbSection, SmbSettings};

/// Site that a configuration has SMB serve.
pub(crate) struct SmbSite {
    options: Arc<Options>,
    hindrance: Option<String>,
    /// Guests come in because of `--writable anyone`.
    by_command: bool,
    /// A configuration asks for it: it is no more than one protocol of a directory that is served by all.
    is_configured: bool,
    bound: Vec<Bound>,
    server_state: Arc<ServerState>,
}

impl SmbSite {
    pub(crate) fn load(settings: &SmbSettings, context: &LoadContext<'_>) -> Result<Self, Problem> {
        let section = &settings.section;
        let target = target(section);
        let hindrance = settings.hindrance().map(str::to_owned);
        // Without addresses no client asks, and the volumes have no objects.
        let shares = if hindrance.is_some() { Vec::new() } else { settings.shares.clone() };
        // Set where the other protocols let anonymous clients write.
        let by_command = settings.is_directory && context.volumes.iter().any(|of| of.writable.is_anyones());
        let policy =
            Policy { guest: section.guest || by_command, anonymous: section.anonymous || by_command };
        let options = Options {
            policy,
            signing: section.signing,
            encryption: section.encryption,
            multichannel: section.multichannel,
            gmac_over_channels: section.gmac_over_channels,
            accounts: Arc::clone(context.accounts),
            has_users: context.accounts.users().iter().any(|user| user.has_nt && !user.disabled),
            sids: Sids::new(&target.netbios_name),
            target,
            shares,
            interfaces: AdvertisedInterfaces::of(section),
            test_switches: section.test_switches,
            connections_max: section.connections_per_lane.min(context.connections_per_lane),
            sessions_max: section.sessions,
            credits: section.credits,
            transfer_max: u32::try_from(section.transfer_max.0).expect("it was checked"),
            memory: usize::try_from(section.memory_per_lane.0).unwrap_or(usize::MAX),
        };
        // Descriptors mean the same to all protocols.
        if let Some(objects) = context.objects {
            objects.call_by(options.sids.clone());
        }
        settings.server_state.set_lane_nodes(context.layout.lanes().map(|lane| lane.node));
        Ok(Self {
            options: Arc::new(options),
            hindrance,
            by_command,
            is_configured: !settings.is_directory,
            bound: Vec::new(),
            server_state: Arc::clone(&settings.server_state),
        })
    }

    pub(super) fn options(&self) -> &Arc<Options> {
        &self.options
    }
}

impl Site for SmbSite {
    fn warnings(&self) -> Vec<String> {
        let nobody = (self.nobody_can_sign_in() && self.hindrance.is_none()).then(no_users);
        let guests = (self.by_command && self.hindrance.is_none()).then(|| {
            let windows = if self.options.requires_signing() {
                "Windows takes no guest's session of a server whose users sign"
            } else {
                "Windows refuses such servers unless an administrator there allows them by \
                 `Set-SmbClientConfiguration -EnableInsecureGuestLogons $true -RequireSecuritySignature $false`"
            };
            //@ level: WARN
            //@ cause: `--writable anyone` lets guests in over SMB, and sessions of guests cannot be signed or encrypted.
            //@ remedy: Where that is not meant, name users instead: `--writable NAME` and `linerate user add NAME --nt`.
            format!(
                "SMB: anyone comes in without a password, as --writable anyone says; nothing of a guest is signed or encrypted. \
                 {windows}; a user of `linerate user add NAME --nt` gets in as Windows is \
                 [smb-guests]"
            )
        });
        let tests = self.options.test_switches.then(|| {
            //@ level: WARN
            //@ cause: `smb.test_switches` is on, by which tests have the server misbehave.
            //@ remedy: Take it out of the configuration of a server that people use.
            "SMB: smb.test_switches is on: any client can have its connection ended and its requests held and padded, shares may be slow, \
             and passwords may be tried without limit; switch it off unless this is a test [smb-test-switches]"
                .to_owned()
        });
        self.hindrance.iter().cloned().chain(nobody).chain(guests).chain(tests).collect()
    }

    fn troubles(&self, _: SystemTime) -> Vec<(String, String)> {
        let is_one = self.is_configured && self.nobody_can_sign_in();
        is_one.then(|| ("SMB".to_owned(), no_users())).into_iter().collect()
    }

    fn bound(&mut self, sockets: &[Bound]) {
        self.bound = sockets.to_vec();
        if !sockets.is_empty() {
            self.server_state.set_listening();
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
        Ok(LaneSmb::new(Arc::clone(&self.options), Arc::clone(&self.server_state), &lane)?)
    }
}

fn no_users() -> String {
    //@ level: WARN
    //@ cause: SMB is served, no account has a password for SMB, and guests are not allowed.
    //@ remedy: Give a user such a password by `linerate user add NAME --nt`, or let guests in by `smb.guest`.
    "SMB: nobody can sign in yet: give a user a password for it by `linerate user add NAME --nt`, or let guests in by smb.guest \
     [smb-no-users]"
        .to_owned()
}

impl SmbSite {
    fn nobody_can_sign_in(&self) -> bool {
        !self.options.has_users && !self.options.policy.guest && !self.options.policy.anonymous
    }

    /// Returns how clients of each kind reach the first share.
    fn tries(&self, bound: SocketAddr) -> Vec<String> {
        // What cannot work is not proposed: a warning says what is missing.
        if self.nobody_can_sign_in() {
            return Vec::new();
        }
        let Some(share) = self.options.shares.first().map(|share| &share.name) else { return Vec::new() };
        let Some(address) = reachable(bound).first().copied() else { return Vec::new() };
        let (ip, port) = (address.ip(), address.port());
        let host = match ip {
            std::net::IpAddr::V4(ip) => ip.to_string(),
            std::net::IpAddr::V6(ip) => format!("[{ip}]"),
        };
        let sign_in_hint = self.sign_in_hint();
        let (of_smbclient, of_mount, of_url) = match port {
            445 => (String::new(), String::new(), String::new()),
            port => (format!(" -p {port}"), format!(",port={port}"), format!(":{port}")),
        };
        let (of_user, as_who, in_windows) = match sign_in_hint {
            SignInHint::User => ("-U NAME", "username=NAME", "/user:NAME"),
            SignInHint::Guest => ("-U guest%", "username=guest,password=", "/user:guest \"\""),
            SignInHint::Anonymous => ("-N", "sec=none", "\"\" /user:\"\""),
        };
        let mut tries = vec![
            format!("smbclient{of_smbclient} {of_user} '//{ip}/{share}'"),
            format!("mount -t cifs -o {as_who},vers=3.1.1{of_mount} '//{ip}/{share}' /mnt"),
        ];
        // Windows knows no other port.
        if port == 445 && !ip.is_loopback() {
            tries.push(format!("in Windows: net use Z: \\\\{ip}\\{share} {in_windows}"));
        }
        // It has no way to sign in anonymously.
        if sign_in_hint != SignInHint::Anonymous {
            tries.push(format!("in the Finder, Go > Connect to Server: smb://{host}{of_url}/{share}"));
        }
        tries
    }

    /// Returns the user name that a client is proposed to sign in with.
    fn sign_in_hint(&self) -> SignInHint {
        match (self.options.has_users, self.options.policy.guest) {
            (true, _) => SignInHint::User,
            (false, true) => SignInHint::Guest,
            (false, false) => SignInHint::Anonymous,
        }
    }
}

/// The kind of user that may sign in, for the hints of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SignInHint {
    User,
    Guest,
    Anonymous,
}

/// Returns how the server calls itself: the first part of this machine's name, in capitals.
fn target(section: &SmbSection) -> Target {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let machine = machine.trim();
    let netbios_name = section.server_name.clone().unwrap_or_else(smb_sid::machine_name);
    Target {
        dns_name: if machine.is_empty() { netbios_name.to_lowercase() } else { machine.to_owned() },
        netbios_name,
        netbios_domain: section.workgroup.clone(),
        dns_domain: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::bed::rules;

    /// Returns what is said of a site before any address is bound, as a start and a check ask.
    fn warns_that_nobody_comes_in(has_users: bool, guest: bool, hindrance: Option<&str>) -> bool {
        let mut options = rules();
        (options.policy.guest, options.has_users) = (guest, has_users);
        let site = SmbSite {
            options: Arc::new(options),
            hindrance: hindrance.map(str::to_owned),
            by_command: false,
            is_configured: true,
            bound: Vec::new(),
            server_state: Arc::default(),
        };
        site.warnings().iter().any(|warning| warning.contains("nobody can sign in yet"))
    }

    #[test]
    fn a_start_proposes_to_sign_in_as_somebody_who_may() {
        for (has_users, guest, anonymous, proposed) in [
            (true, true, true, Some("-U NAME")),
            (false, true, true, Some("-U guest%")),
            (false, true, false, Some("-U guest%")),
            (false, false, true, Some("-N")),
            (false, false, false, None),
        ] {
            let mut options = rules();
            (options.policy.guest, options.policy.anonymous, options.has_users) =
                (guest, anonymous, has_users);
            let site = SmbSite {
                options: Arc::new(options),
                hindrance: None,
                by_command: false,
                is_configured: true,
                bound: Vec::new(),
                server_state: Arc::default(),
            };
            let tries = site.tries(([127, 0, 0, 1], 4450).into());
            let expected = proposed.map(|who| format!("smbclient -p 4450 {who} '//127.0.0.1/"));
            assert_eq!(tries.is_empty(), expected.is_none(), "{tries:?}");
            assert!(expected.is_none_or(|expected| tries[0].starts_with(&expected)), "{tries:?}");
        }
    }

    #[test]
    fn a_start_says_that_nobody_can_sign_in_where_nobody_can() {
        assert!(warns_that_nobody_comes_in(false, false, None));
        assert!(!warns_that_nobody_comes_in(true, false, None));
        assert!(!warns_that_nobody_comes_in(false, true, None));
        assert!(!warns_that_nobody_comes_in(false, false, Some("SMB is not served")), "nobody would");
    }
}
