//! Configuration of SMB: `[smb]`, and which volumes are shares by what name.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::Deserialize;
use service::admin_endpoint::AdminEndpoint;
use service::config::{ConfigError, Document, Keys, Size};
use service::volumes::VolumeSection;
use service::{ConnectionsMax, LoadContext, Problem, Role, Settings, Transport, Wanted};
use vfs::VolumeName;

pub(crate) use self::directory::Template;
use crate::admin::SmbAdmin;
use crate::server::ServerState;
use crate::service::SmbSite;

mod directory;

/// SMB as a service of a server: the one value of the process.
#[derive(Debug, Default)]
pub struct Smb {
    listen: Option<Vec<SocketAddr>>,
    server_state: Arc<ServerState>,
}

impl Smb {
    /// Listens at these instead of what the configuration says; `None` leaves that to the configuration, none of them
    /// switches it off.
    pub fn listening(listen: Option<Vec<SocketAddr>>) -> Self {
        Self { listen, server_state: Arc::default() }
    }
}

/// Rule for signing the messages of a session.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Signing {
    /// Messages are signed where the client asks for it.
    Allowed,
    /// Every client that has proved a password signs its messages. Guests and anonymous sessions, where they are let
    /// in, have no key of their own to sign with.
    #[default]
    Required,
}

/// Rule for encrypting the messages of a session.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Encryption {
    /// Messages are never encrypted.
    Off,
    /// Messages are encrypted where the client asks for it.
    #[default]
    Allowed,
    /// Messages are always encrypted; a client that cannot is refused.
    Required,
}

/// An address that clients get for more connections.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct InterfaceSection {
    /// Address of this machine.
    pub address: IpAddr,
    /// Bits a second.
    pub speed: u64,
    /// Several connections by it are worth it.
    #[serde(default)]
    pub rss: bool,
}

/// `[[smb.share]]`: a share that begins in a directory of a volume.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct ShareTable {
    /// Name of the share.
    pub name: String,
    /// The volume's name.
    pub volume: String,
    /// The directory, from the volume's own on: `%U` in it is the user that has signed in, `%t` the time of
    /// the connect.
    pub directory: String,
    /// The directory is made where it does not exist.
    #[serde(default)]
    pub create: bool,
}

/// `[smb]`
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct SmbSection {
    /// Addresses to listen at; clients other than smbclient and Linux's know port 445 alone.
    #[serde(deserialize_with = "service::config::addresses")]
    pub listen: Vec<SocketAddr>,
    /// Name of the server, at most 15 letters; without it, this machine's name.
    pub server_name: Option<String>,
    /// The workgroup.
    pub workgroup: String,
    /// Rule for signing messages.
    pub signing: Signing,
    /// Rule for encrypting messages.
    pub encryption: Encryption,
    /// Sessions may have several connections.
    pub multichannel: bool,
    /// AES-GMAC signs sessions that may have several connections, too: faster, and its key can be found by an
    /// eavesdropper of two bindings.
    pub gmac_over_channels: bool,
    /// Unknown user names come in as guests, with the rights of unauthenticated clients.
    pub guest: bool,
    /// Clients that give no name come in.
    pub anonymous: bool,
    /// Addresses that clients get for more connections; without any, those of this machine's interfaces, as they are at
    /// the moment.
    pub interface: Vec<InterfaceSection>,
    /// Shares beside those that are a whole volume.
    pub share: Vec<ShareTable>,
    /// Control codes of Samba's tests are obeyed from any client, shares may be slow, and failed sign-ins
    /// hold no client off.
    pub test_switches: bool,
    /// Connections of each lane.
    pub connections_per_lane: usize,
    /// Sessions in all.
    pub sessions: usize,
    /// Credits of a connection.
    pub credits: u16,
    /// Bytes of one READ or WRITE at most.
    pub transfer_max: Size,
    /// Bytes of each lane that requests and replies with data hold.
    pub memory_per_lane: Size,
}

impl Default for SmbSection {
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 445))],
            server_name: None,
            workgroup: "WORKGROUP".to_owned(),
            signing: Signing::default(),
            encryption: Encryption::default(),
            multichannel: true,
            gmac_over_channels: false,
            guest: false,
            anonymous: false,
            interface: Vec::new(),
            share: Vec::new(),
            test_switches: false,
            //@ limit: connections
            //@ section: SMB
            //@ unit: connection
            //@ address: as many as fit, until others come
            //@ all: lane: `smb.connections_per_lane` ({})
            //@ empty: the address that holds most gives one up, those that do nothing first; others feel nothing
            //@ counter: smb_connections, smb_connections_evicted, smb_connections_refused
            //@ attack: smb-silent-10000
            connections_per_lane: 4096,
            //@ limit: sessions
            //@ section: SMB
            //@ unit: session
            //@ connection: 256
            //@ address: three times what is free
            //@ all: process: `smb.sessions` ({})
            //@ empty: STATUS_INSUFFICIENT_RESOURCES; others feel nothing
            //@ counter: smb_sessions, smb_sessions_refused
            //@ attack: smb-pools
            sessions: 65_536,
            //@ limit: credits
            //@ section: SMB
            //@ unit: credit
            //@ connection: `smb.credits` (8,192)
            //@ empty: none more are given; others feel nothing
            //@ counter: none
            //@ attack: smb-padded
            credits: smb_proto::window::WINDOW_MAX,
            transfer_max: Size(8 << 20),
            //@ limit: memory of long WRITEs, READs and answers
            //@ section: SMB
            //@ unit: byte
            //@ connection: a thirty-second part of what is free, its first in any case
            //@ address: three times what is free
            //@ all: lane: `smb.memory_per_lane` ({:b})
            //@ empty: it waits, and the connection of its address that has stalled longest ends; others feel nothing
            //@ counter: smb_reply_memory_bytes, smb_reply_memory_waits, smb_ended_short
            //@ attack: smb-unread
            memory_per_lane: Size(256 << 20),
        }
    }
}

/// Keys of `[[volume]]` that are about SMB.
#[derive(Clone, Debug, Deserialize)]
struct VolumeKeys {
    #[serde(default)]
    smb: Attach,
    smb_share: Option<String>,
    #[serde(default)]
    smb_short_names: bool,
    #[serde(default)]
    smb_access_based_enumeration: bool,
    #[serde(default = "yes")]
    smb_acl_flag_inherited_canonicalization: bool,
    #[serde(default)]
    smb_write_time_delay_ms: u16,
    #[serde(default)]
    smb_hide: Vec<String>,
    #[serde(default)]
    smb_hide_attributes: Vec<String>,
    smb_test_delay_ms: Option<u16>,
}

fn yes() -> bool {
    true
}

/// Ways in which SMB serves a volume.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Attach {
    #[default]
    On,
    Off,
}

/// A volume, or a directory of one, by the name that clients know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShareSection {
    pub(crate) name: String,
    /// Directory of the volume where it begins, if not at its own directory.
    pub(crate) directory: Option<ShareDirectory>,
    pub(crate) volume: VolumeName,
    pub(crate) path: PathBuf,
    /// Some user may change it, as far as the volume says.
    pub(crate) writable: bool,
    /// Long names have short ones beside them.
    pub(crate) short_names: bool,
    /// Listings leave out what who lists may not read.
    pub(crate) hide_unreadable: bool,
    /// Set if a client's word that a list was inherited is kept.
    pub(crate) keep_inherited: bool,
    /// Delay after which an open tells that it has written.
    pub(crate) write_time_delay: Duration,
    /// Patterns of names with the attribute "hidden".
    pub(crate) hide: Vec<String>,
    /// Names of extended attributes that clients neither see nor set.
    pub(crate) hide_attributes: Vec<String>,
    /// Delay of its data, for tests.
    pub(crate) test_delay: Option<Duration>,
}

/// The directory of a volume that a share begins in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShareDirectory {
    pub(crate) template: Template,
    /// The directory is made where it does not exist.
    pub(crate) create: bool,
}

#[derive(Deserialize)]
struct Tables {
    smb: Option<SmbSection>,
}

/// Settings of SMB in a configuration.
#[derive(Debug)]
pub(crate) struct SmbSettings {
    pub(crate) section: SmbSection,
    /// Shares in the order of the configuration.
    pub(crate) shares: Vec<ShareSection>,
    /// The command line names a directory, and no configuration says more.
    pub(crate) is_directory: bool,
    hindrance: OnceLock<String>,
    pub(crate) server_state: Arc<ServerState>,
}

/// The only kind of socket.
const ROLE: Role = Role(0);

impl service::Service for Smb {
    fn name(&self) -> &'static str {
        "smb"
    }

    fn keys(&self) -> Keys {
        Keys {
            tables: &["smb"],
            volume: &[
                "smb",
                "smb_share",
                "smb_short_names",
                "smb_access_based_enumeration",
                "smb_acl_flag_inherited_canonicalization",
                "smb_write_time_delay_ms",
                "smb_hide",
                "smb_hide_attributes",
                "smb_test_delay_ms",
            ],
        }
    }

    fn listen_keys(&self) -> &'static [&'static str] {
        &["smb.listen"]
    }

    fn import_state(&self, left: Vec<u8>) {
        self.server_state.persisted_state.import(left);
    }

    fn export_state(&self) -> Option<Vec<u8>> {
        self.server_state.persisted_state.take_next()
    }

    fn admin_endpoint(&self) -> Option<Arc<dyn AdminEndpoint>> {
        Some(Arc::new(SmbAdmin(Arc::clone(&self.server_state))))
    }

    fn read(
        &self,
        document: &Document,
        volumes: &[VolumeSection],
    ) -> Result<Option<Arc<dyn Settings>>, ConfigError> {
        let table = document.tables::<Tables>()?.smb;
        // A directory is served by every protocol; a configuration says which.
        let is_said = table.is_some() || self.listen.is_some();
        if !is_said && document.directory().is_none() {
            return Ok(None);
        }
        let mut section = table.unwrap_or_default();
        if let Some(listen) = &self.listen {
            section.listen.clone_from(listen);
        }
        if section.listen.is_empty() {
            return Ok(None);
        }
        check(&section)?;
        let shares = shares(&section, volumes, &document.volumes()?)?;
        let (hindrance, server_state) = (OnceLock::new(), Arc::clone(&self.server_state));
        let is_directory = document.directory().is_some();
        let settings = SmbSettings { section, shares, is_directory, hindrance, server_state };
        if !is_said
            && !settings.server_state.has_listened()
            && let Some(taken) = service::port_check::unavailable(&settings.wanted(), "--smb off")
        {
            settings.hinder(taken);
        }
        Ok(Some(Arc::new(settings)))
    }
}

impl SmbSettings {
    /// Returns why it is not served though it is not switched off.
    pub(crate) fn hindrance(&self) -> Option<&str> {
        self.hindrance.get().map(String::as_str)
    }

    fn hinder(&self, why: String) {
        // The first reason is as good as any.
        //@ level: WARN
        //@ cause: `linerate serve DIR` serves all protocols, and the address of SMB is in use, or needs a privilege.
        //@ remedy: Stop the other server (such as smbd), name another address, or switch SMB off by `--smb off`.
        let _ = self.hindrance.set(format!("SMB is not served: {why} [smb-not-served]"));
    }

    fn wanted(&self) -> Vec<Wanted> {
        let wanted = |&address| Wanted { key: "smb.listen", address, transport: Transport::Tcp, role: ROLE };
        self.section.listen.iter().map(wanted).collect()
    }
}

impl Settings for SmbSettings {
    fn sockets(&self) -> Vec<Wanted> {
        if self.hindrance().is_some() { Vec::new() } else { self.wanted() }
    }

    fn connections(&self) -> ConnectionsMax {
        let per_lane = if self.hindrance().is_some() { 0 } else { self.section.connections_per_lane };
        ConnectionsMax { key: "smb.connections_per_lane", per_lane }
    }

    fn needs_objects(&self, volume: &VolumeName) -> bool {
        self.hindrance().is_none() && self.shares.iter().any(|share| share.volume == *volume)
    }

    fn load(&self, context: &LoadContext<'_>) -> Result<Box<dyn service::Site>, Problem> {
        Ok(Box::new(SmbSite::load(self, context)?))
    }
}

/// Refuses what cannot stand.
fn check(section: &SmbSection) -> Result<(), ConfigError> {
    let within = |key: &str, value: u64, min: u64, max: u64| match (min..=max).contains(&value) {
        true => Ok(()),
        false => Err(ConfigError::invalid(key, format!("{value} is not between {min} and {max}"))),
    };
    within("smb.connections_per_lane", section.connections_per_lane as u64, 1, 1 << 20)?;
    within("smb.sessions", section.sessions as u64, 1, 1 << 24)?;
    within("smb.credits", section.credits.into(), 16, smb_proto::window::WINDOW_MAX.into())?;
    within("smb.transfer_max", section.transfer_max.0, 64 << 10, TRANSFER_MAX)?;
    // The longest WRITE must find room, and a READ beside it.
    within("smb.memory_per_lane", section.memory_per_lane.0, 4 * section.transfer_max.0, 1 << 40)?;
    within("smb.interface", section.interface.len() as u64, 0, INTERFACES_MAX as u64)?;
    for (at, interface) in section.interface.iter().enumerate() {
        within(&format!("smb.interface[{at}].speed"), interface.speed, 1, i64::MAX.cast_unsigned())?;
    }
    for (key, name) in
        [("smb.server_name", section.server_name.as_deref()), ("smb.workgroup", Some(&*section.workgroup))]
    {
        if name.is_some_and(|name| !is_netbios_name(name)) {
            let problem = "give 1 to 15 letters, digits and hyphens, such as \"FILES\"";
            return Err(ConfigError::invalid(key, problem));
        }
    }
    if section.encryption == Encryption::Required && (section.guest || section.anonymous) {
        let problem =
            "guests have no key to encrypt with: leave it at \"allowed\", or guest and anonymous out";
        return Err(ConfigError::invalid("smb.encryption", problem));
    }
    Ok(())
}

/// Returns whether a name can be one of NetBIOS.
fn is_netbios_name(name: &str) -> bool {
    (1..=15).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Returns the volumes that are not switched off, then the directories that have a table of their own.
fn shares(
    section: &SmbSection,
    volumes: &[VolumeSection],
    keys: &[VolumeKeys],
) -> Result<Vec<ShareSection>, ConfigError> {
    let (mut shares, mut seen) = (Vec::new(), HashSet::new());
    for (index, (volume, keys)) in volumes.iter().zip(keys).enumerate() {
        if keys.smb_test_delay_ms.is_some() && keys.smb == Attach::On && !section.test_switches {
            let problem = "only tests want a share to be slow: leave it out, or set smb.test_switches = true";
            return Err(ConfigError::invalid(format!("volume[{index}].smb_test_delay_ms"), problem));
        }
        if keys.smb == Attach::On {
            let name = keys.smb_share.as_deref().unwrap_or(volume.name.as_str());
            check_name(name, &mut seen).map_err(|problem| {
                ConfigError::invalid(
                    format!("volume[{index}].smb_share"),
                    format!("{problem}; or set smb = \"off\""),
                )
            })?;
            shares.push(share(index, volume, keys, name)?);
        }
    }
    for (at, table) in section.share.iter().enumerate() {
        let invalid =
            |key: &str, problem: String| ConfigError::invalid(format!("smb.share[{at}].{key}"), problem);
        check_name(&table.name, &mut seen).map_err(|problem| invalid("name", problem))?;
        let index = volumes.iter().position(|volume| volume.name.as_str() == table.volume);
        let index =
            index.ok_or_else(|| invalid("volume", format!("there is no [[volume]] {}", table.volume)))?;
        let template = Template::parse(&table.directory).map_err(|problem| invalid("directory", problem))?;
        let whole = share(index, &volumes[index], &keys[index], &table.name)?;
        if table.create && !whole.writable {
            let problem =
                format!("nobody may write in {}, so nothing is made there: set its writable", table.volume);
            return Err(invalid("create", problem));
        }
        let (path, directory) =
            (whole.path.join(&table.directory), ShareDirectory { template, create: table.create });
        shares.push(ShareSection { path, directory: Some(directory), ..whole });
    }
    if shares.is_empty() {
        return Err(ConfigError::invalid("smb.listen", "there is no [[volume]] to be served by SMB"));
    }
    Ok(shares)
}

/// Checks whether a share may be called so, beside those before.
fn check_name(name: &str, seen: &mut HashSet<String>) -> Result<(), String> {
    //= MS-SMB2 2.2.9
    //# A share's name is of at most 80 characters.
    let fits = (1..=80).contains(&name.encode_utf16().count());
    if !fits || name.contains(|c: char| c < ' ' || "\\/:*?\"<>|".contains(c)) {
        return Err(format!("{name:?} is no name of a share"));
    }
    if name.eq_ignore_ascii_case(PIPES) {
        return Err(format!("{PIPES} is the share of named pipes; give another name"));
    }
    if !seen.insert(name.to_lowercase()) {
        return Err(format!("\"{name}\" is used twice"));
    }
    Ok(())
}

/// Returns a volume by this name, with what its keys say of shares.
fn share(
    index: usize,
    volume: &VolumeSection,
    keys: &VolumeKeys,
    name: &str,
) -> Result<ShareSection, ConfigError> {
    Ok(ShareSection {
        name: name.to_owned(),
        directory: None,
        volume: volume.name.clone(),
        path: volume.path.clone(),
        writable: volume.writable != identity::Writable::Nobody,
        short_names: keys.smb_short_names,
        hide_unreadable: keys.smb_access_based_enumeration,
        keep_inherited: !keys.smb_acl_flag_inherited_canonicalization,
        write_time_delay: Duration::from_millis(keys.smb_write_time_delay_ms.into()),
        hide: hidden(index, "smb_hide", &keys.smb_hide)?,
        hide_attributes: hidden(index, "smb_hide_attributes", &keys.smb_hide_attributes)?,
        test_delay: keys.smb_test_delay_ms.map(|delay| Duration::from_millis(delay.into())),
    })
}

/// Checks names, or patterns of names, that are looked at for each listed file.
fn hidden(volume: usize, key: &str, names: &[String]) -> Result<Vec<String>, ConfigError> {
    let is_name = |name: &String| (1..=255).contains(&name.len()) && !name.contains(['/', '\\']);
    if names.len() > HIDDEN_MAX || !names.iter().all(is_name) {
        let problem = format!("at most {HIDDEN_MAX} names of 1 to 255 bytes without a slash");
        return Err(ConfigError::invalid(format!("volume[{volume}].{key}"), problem));
    }
    Ok(names.to_vec())
}

/// The share of named pipes, which every server has.
pub(crate) const PIPES: &str = "IPC$";
/// Longest READ and WRITE: with headers it must fit a frame.
const TRANSFER_MAX: u64 = 0xff_0000;
/// Names that a share hides.
const HIDDEN_MAX: usize = 64;
/// Addresses that one answer tells.
const INTERFACES_MAX: usize = 64;

#[cfg(test)]
mod tests;
