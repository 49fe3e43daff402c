//! Configuration of AFS: `[afs]`, and which volumes it serves by what name.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rx::Dscp;
use serde::Deserialize;
use service::config::{ConfigError, Document, Keys};
use service::volumes::VolumeSection;
use service::{Role, Settings, Transport, Wanted};

use crate::attached_volumes::{AfsName, Attachment, VolumeType};
use crate::oob::OobOptions;
use crate::service::{ProcessState, roles};

/// AFS as a service of a server: the one value of the process.
#[derive(Debug, Default)]
pub struct Afs {
    listen: Option<Vec<SocketAddr>>,
    process: Arc<ProcessState>,
}

impl Afs {
    /// Listens at this instead of what the configuration says; `None` leaves that to the configuration, none of them
    /// switches it off.
    pub fn listening(listen: Option<Vec<SocketAddr>>) -> Self {
        Self { listen, process: Arc::default() }
    }
}

/// `[afs]`
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct AfsSection {
    /// IPv4 address and port of the file server; `off`: none. Its cell's other servers have the same address.
    #[serde(deserialize_with = "service::config::address")]
    pub listen: Option<SocketAddr>,
    /// Name of the cell.
    pub cell: String,
    /// Set if `root.afs` and `root.cell` are made up where no volume is called so; else the first volume is both.
    pub root_volumes: bool,
    /// DSCP of packets to clients of the file server.
    pub dscp: u8,
    /// Port of the protection server (users and groups); stock clients know no other than 7002.
    ///
    /// For each of these three ports 0 means that there is no such server here. Without a value it is as far from the
    /// file server's as 7002, 7003 and 7005 are from 7000.
    pub protection_port: Option<u16>,
    /// Port of the location server, which says where volumes are; stock clients find another than 7003 only by DNS
    /// SRV.
    pub location_port: Option<u16>,
    /// Port of the volume server, which `vos` asks about volumes; `vos` knows no other than 7005.
    pub volume_port: Option<u16>,
    /// Set if large files go over TCP for clients that ask for it (docs/design/oob.md).
    pub oob: bool,
    /// TCP port of these transfers; without it the file server's number.
    pub oob_port: Option<u16>,
    /// Seconds that a connection is kept between two transfers.
    pub oob_idle_seconds: u32,
    /// Out-of-band connections of each lane.
    pub oob_connections_per_lane: usize,
    /// Transfers at once of each lane.
    pub oob_transfers_per_lane: usize,
}

impl AfsSection {
    /// Returns what the packets of the file server are marked with; `None` for what is no code point.
    pub(crate) fn code_point(&self) -> Option<Dscp> {
        Dscp::new(self.dscp)
    }

    /// Returns what it says of out-of-band TCP.
    pub(crate) fn oob_options(&self) -> OobOptions {
        OobOptions {
            idle: Duration::from_secs(self.oob_idle_seconds.into()),
            connections_max: self.oob_connections_per_lane,
            transfers_max: self.oob_transfers_per_lane,
            ..OobOptions::default()
        }
    }

    fn check_oob(&self) -> Result<(), ConfigError> {
        let within = |key: &str, value: usize, max: usize| match (1..=max).contains(&value) {
            true => Ok(()),
            false => Err(ConfigError::invalid(key, format!("{value} is not between 1 and {max}"))),
        };
        if self.oob_port == Some(0) {
            let problem =
                "0 is no port: give 1 to 65535, leave it away for that of afs.listen, or set afs.oob = false";
            return Err(ConfigError::invalid("afs.oob_port", problem));
        }
        within("afs.oob_idle_seconds", self.oob_idle_seconds as usize, 86_400)?;
        within("afs.oob_connections_per_lane", self.oob_connections_per_lane, 1 << 20)?;
        within("afs.oob_transfers_per_lane", self.oob_transfers_per_lane, 65_536)
    }
}

/// Settings of AFS in a configuration.
#[derive(Debug)]
pub struct AfsSettings {
    /// `[afs]`
    pub section: AfsSection,
    /// Address that the file server listens at.
    pub address: Ipv4Addr,
    /// Volumes that it serves, in the order of the configuration.
    pub attachments: Vec<Attachment>,
    /// Directories of these volumes, for messages.
    pub paths: Vec<PathBuf>,
    /// Reason why the volume is not served though it is not switched off: known when it is read, or when it
    /// is loaded.
    hindrance: OnceLock<String>,
    /// The volume was not asked for: it gives way to whatever is in its way.
    gives_way: bool,
    pub(crate) process: Arc<ProcessState>,
}

#[derive(Deserialize)]
struct AfsTables {
    afs: Option<AfsSection>,
}

/// Keys of `[[volume]]` that are about AFS.
#[derive(Clone, Debug, Deserialize)]
struct VolumeKeys {
    #[serde(default)]
    afs: Attach,
    afs_name: Option<String>,
}

/// Ways in which AFS serves a volume.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Attach {
    #[default]
    ReadWrite,
    ReadOnly,
    Off,
}

impl service::Service for Afs {
    fn name(&self) -> &'static str {
        "afs"
    }

    fn keys(&self) -> Keys {
        Keys { tables: &["afs"], volume: &["afs", "afs_name"] }
    }

    fn listen_keys(&self) -> &'static [&'static str] {
        &["afs.listen"]
    }

    fn read(
        &self,
        document: &Document,
        volumes: &[VolumeSection],
    ) -> Result<Option<Arc<dyn Settings>>, ConfigError> {
        let table = document.tables::<AfsTables>()?.afs;
        // A directory is served by every protocol; a configuration says which.
        let is_said = table.is_some() || self.listen.is_some();
        if !is_said && document.directory().is_none() {
            return Ok(None);
        }
        let mut section = table.unwrap_or_default();
        match self.listen.as_deref() {
            Some([_, _, ..]) => return Err(ConfigError::invalid("afs.listen", "give one address, or off")),
            Some(listen) => section.listen = listen.first().copied(),
            None => {}
        }
        let Some(listen) = section.listen else { return Ok(None) };
        let IpAddr::V4(address) = listen.ip() else {
            let problem = format!("{listen}: AFS tells clients IPv4 addresses alone, such as 0.0.0.0:7000");
            return Err(ConfigError::invalid("afs.listen", problem));
        };
        check_cell(&section.cell)?;
        if section.code_point().is_none() {
            return Err(ConfigError::invalid(
                "afs.dscp",
                format!("{} is not between 0 and 63", section.dscp),
            ));
        }
        section.check_oob()?;
        let (attachments, paths) = attachments(volumes, &document.volumes()?)?;
        let process = Arc::clone(&self.process);
        let (hindrance, gives_way) = (OnceLock::new(), !is_said);
        let settings = AfsSettings { section, address, attachments, paths, hindrance, gives_way, process };
        if gives_way
            && !settings.process.has_listened()
            && let Some(taken) = service::port_check::unavailable(&settings.wanted(), "--afs off")
        {
            settings.hinder(taken);
        }
        Ok(Some(Arc::new(settings)))
    }
}

impl AfsSettings {
    /// Returns why it is not served though it is not switched off.
    pub(crate) fn hindrance(&self) -> Option<&str> {
        self.hindrance.get().map(String::as_str)
    }

    /// Notes that the volume is not served: everything else is.
    pub(crate) fn hinder(&self, why: String) {
        // The first reason is as good as any.
        //@ level: WARN
        //@ cause: `linerate serve DIR` serves all protocols, and an address of AFS is in use, or the volume cannot be served by AFS.
        //@ remedy: Stop the other server, name another address, or switch AFS off by `--afs off`. Other protocols are served.
        let _ = self.hindrance.set(format!("AFS is not served: {why} [afs-not-served]"));
    }

    /// Returns whether it gives way to what is in its way, rather than keep the server from starting.
    pub(crate) fn gives_way(&self) -> bool {
        self.gives_way
    }

    /// Returns the addresses of the cell.
    pub(crate) fn wanted(&self) -> Vec<Wanted> {
        let AfsSection { listen, protection_port, location_port, volume_port, .. } = self.section;
        let wanted = |key, port: u16, role: Role| {
            let address = SocketAddr::from((self.address, port));
            Wanted { key, address, transport: Transport::Rx, role }
        };
        let mut all = vec![wanted("afs.listen", listen.map_or(0, |listen| listen.port()), roles::FILES)];
        let others = [
            ("afs.protection_port", protection_port, PROTECTION_PORT, roles::PROTECTION),
            ("afs.location_port", location_port, LOCATION_PORT, roles::LOCATION),
            ("afs.volume_port", volume_port, VOLUME_PORT, roles::VOLUMES),
        ]
        .map(|(key, said, usual, role)| (key, said.unwrap_or_else(|| beside(listen, usual)), role));
        // The cell may have others of them, or clients none.
        let here = others.into_iter().filter(|(_, port, _)| *port != 0);
        all.extend(here.map(|(key, port, role)| wanted(key, port, role)));
        if self.section.oob {
            let port = self.section.oob_port.or(listen.map(|listen| listen.port())).unwrap_or(0);
            let bulk = wanted("afs.oob_port", port, roles::BULK);
            all.push(Wanted { transport: Transport::Tcp, ..bulk });
        }
        all
    }
}

/// Returns the port of a server of the cell, from that of its file server: where `usual` is from 7000. Where that is
/// chosen by the kernel, or the other would be none, it is `usual`.
fn beside(listen: Option<SocketAddr>, usual: u16) -> u16 {
    let files = listen.map(|listen| listen.port()).filter(|port| *port != 0);
    files.and_then(|files| files.checked_add(usual - FILES_PORT)).unwrap_or(usual)
}

pub(crate) const FILES_PORT: u16 = 7000;
pub(crate) const PROTECTION_PORT: u16 = 7002;
pub(crate) const LOCATION_PORT: u16 = 7003;
pub(crate) const VOLUME_PORT: u16 = 7005;

impl Default for AfsSection {
    fn default() -> Self {
        Self {
            listen: Some(SocketAddr::from(([127, 0, 0, 1], 7000))),
            cell: "linerate.internal".to_owned(),
            root_volumes: true,
            dscp: 0,
            protection_port: None,
            location_port: None,
            volume_port: None,
            oob: true,
            oob_port: None,
            //@ limit: connections between two transfers
            //@ section: Out-of-band TCP
            //@ unit: time
            //@ connection: `afs.oob_idle_seconds` ({} s)
            //@ address: as connections
            //@ empty: closed; others feel nothing
            //@ counter: oob_idle, oob_idle_expired
            //@ attack: oob-pools
            oob_idle_seconds: 600,
            //@ limit: connections
            //@ section: Out-of-band TCP
            //@ unit: connection
            //@ connection: 8 of a call
            //@ address: as many as fit, until others come
            //@ all: lane: `afs.oob_connections_per_lane` ({})
            //@ empty: the address that holds most gives one up, those that do nothing first; others feel nothing
            //@ counter: oob_connections, oob_connections_evicted, oob_connections_refused
            //@ attack: oob-pools
            oob_connections_per_lane: 1024,
            //@ limit: transfers
            //@ section: Out-of-band TCP
            //@ unit: transfer
            //@ connection: 8 streams, one part of each at least 1 MiB
            //@ address: as many as are free
            //@ all: lane: `afs.oob_transfers_per_lane` ({})
            //@ empty: the call is refused (OOB_BUSY), and its client uses Rx
            //@ counter: oob_transfers, oob_refused{reason="busy"}
            //@ attack: oob-pools
            oob_transfers_per_lane: 256,
        }
    }
}

/// Returns the attachments of the volumes that are not switched off, and the directories of these volumes.
fn attachments(
    volumes: &[VolumeSection],
    keys: &[VolumeKeys],
) -> Result<(Vec<Attachment>, Vec<PathBuf>), ConfigError> {
    let (mut attachments, mut paths, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
    for (index, (volume, keys)) in volumes.iter().zip(keys).enumerate() {
        let kind = match keys.afs {
            Attach::ReadWrite => VolumeType::ReadWrite,
            Attach::ReadOnly => VolumeType::ReadOnly,
            Attach::Off => continue,
        };
        let invalid = |problem: String| ConfigError::invalid(format!("volume[{index}].afs_name"), problem);
        let name: AfsName = keys
            .afs_name
            .as_deref()
            .unwrap_or(volume.name.as_str())
            .parse()
            .map_err(|problem| invalid(format!("{problem}; or set afs = \"off\"")))?;
        if !seen.insert(name.clone()) {
            return Err(invalid(format!("\"{name}\" is used twice")));
        }
        attachments.push(Attachment { volume: volume.name.clone(), name, kind });
        paths.push(volume.path.clone());
    }
    if attachments.is_empty() {
        return Err(ConfigError::invalid("afs.listen", "there is no [[volume]] to be served by AFS"));
    }
    Ok((attachments, paths))
}

/// Cells are named as domains are, in small letters.
fn check_cell(cell: &str) -> Result<(), ConfigError> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(is_plain) && !label.starts_with('-') && !label.ends_with('-')
    };
    if cell.len() <= CELL_MAX && cell.split('.').all(is_label) {
        return Ok(());
    }
    let problem = format!(
        "{cell:?} is no name of a cell: a domain's, such as \"example.org\", of at most {CELL_MAX} bytes"
    );
    Err(ConfigError::invalid("afs.cell", problem))
}

/// Bytes of the longest name of a cell, as stock clients keep it.
const CELL_MAX: usize = 63;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use service::Service as _;

    use super::*;

    const VOLUME: &str = "[[volume]]\nname = 'files'\npath = 'data'\n";

    fn read(text: &str) -> Result<Option<Arc<dyn Settings>>, String> {
        let document = Document::of_text(Path::new("/etc/linerate.toml"), text);
        let volumes = VolumeSection::all(&document).map_err(|error| error.to_string())?;
        Afs::default().read(&document, &volumes).map_err(|error| error.to_string())
    }

    fn addresses(settings: &dyn Settings) -> Vec<String> {
        settings.sockets().iter().map(|wanted| wanted.address.to_string()).collect()
    }

    #[test]
    fn a_directory_is_served_by_its_own_name_whatever_that_is() {
        let long = "n".repeat(40);
        for base in ["pub", "2024", "My Files", "a.readonly", ".backup", "..", "\u{65e5}\u{672c}", &long] {
            let path = Path::new("/srv").join(base);
            let afs = Afs::listening(Some(vec![([127, 0, 0, 1], 7000).into()]));
            let document = Document::for_directory(&path);
            let volumes = VolumeSection::all(&document).unwrap();
            let keys = document.volumes().unwrap();
            let (attachments, _) = attachments(&volumes, &keys).unwrap();
            assert_eq!(attachments[0].name.as_str(), volumes[0].name.as_str(), "{base}");
            assert!(afs.read(&document, &volumes).unwrap().is_some());
        }
    }

    #[test]
    fn a_configuration_asks_for_it_by_its_table_and_has_the_ports_that_clients_know() {
        assert!(read(VOLUME).unwrap().is_none());
        assert!(read(&format!("{VOLUME}[afs]\nlisten = 'off'\n")).unwrap().is_none());
        let settings = read(&format!("{VOLUME}[afs]\n")).unwrap().unwrap();
        assert_eq!(
            addresses(&*settings),
            ["127.0.0.1:7000", "127.0.0.1:7002", "127.0.0.1:7003", "127.0.0.1:7005", "127.0.0.1:7000"]
        );
        let everywhere = read(&format!("{VOLUME}[afs]\nlisten = '0.0.0.0:7000'\nvolume_port = 17005\n"));
        assert_eq!(
            addresses(&*everywhere.unwrap().unwrap())[2..],
            ["0.0.0.0:7003", "0.0.0.0:17005", "0.0.0.0:7000"]
        );
        assert_eq!(settings.connections().per_lane, 1024);
    }

    #[test]
    fn a_file_server_at_another_port_has_the_cells_servers_beside_it() {
        let ports = |text: &str| {
            let settings = read(&format!("{VOLUME}[afs]\noob = false\n{text}\n")).unwrap().unwrap();
            settings.sockets().iter().map(|wanted| wanted.address.port()).collect::<Vec<_>>()
        };
        assert_eq!(ports("listen = '127.0.0.1:27070'"), [27_070, 27_072, 27_073, 27_075]);
        assert_eq!(ports("listen = '127.0.0.1:27070'\nlocation_port = 7003"), [27_070, 27_072, 7003, 27_075]);
        assert_eq!(ports("listen = '127.0.0.1:65533'"), [65_533, 65_535, 7003, 7005], "there are no more");
        assert_eq!(ports("listen = '127.0.0.1:0'"), [0, 7002, 7003, 7005]);
    }

    #[test]
    fn the_cells_other_servers_may_be_elsewhere() {
        let text = format!("{VOLUME}[afs]\noob = false\nprotection_port = 0\nlocation_port = 0\n");
        let settings = read(&text).unwrap().unwrap();
        assert_eq!(addresses(&*settings), ["127.0.0.1:7000", "127.0.0.1:7005"]);
    }

    #[test]
    fn large_files_go_over_tcp_at_the_same_port_unless_another_is_said_or_none() {
        let sockets = |text: &str| read(&format!("{VOLUME}[afs]\n{text}\n")).unwrap().unwrap().sockets();
        let last = sockets("listen = '127.0.0.1:17000'").pop().unwrap();
        assert_eq!((last.transport, last.address.to_string().as_str()), (Transport::Tcp, "127.0.0.1:17000"));
        assert_eq!(sockets("oob_port = 17001").pop().unwrap().address.port(), 17001);
        let none = read(&format!("{VOLUME}[afs]\noob_port = 0\n")).unwrap_err().to_string();
        assert!(none.starts_with("afs.oob_port: 0 is no port"), "{none}");
        let off = sockets("oob = false");
        assert!(off.iter().all(|wanted| wanted.transport == Transport::Rx), "{off:?}");
        assert_eq!(
            read(&format!("{VOLUME}[afs]\noob = false\n")).unwrap().unwrap().connections().per_lane,
            0
        );
    }

    #[test]
    fn volumes_have_objects_only_where_afs_serves_them() {
        let text = format!(
            "{VOLUME}afs_name = 'root.cell'\n[[volume]]\nname = 'b'\npath = 'b'\nafs = 'off'\n[afs]\n"
        );
        let settings = read(&text).unwrap().unwrap();
        let needs = |name: &str| settings.needs_objects(&name.parse().unwrap());
        assert!(needs("files") && !needs("b"));
    }

    #[test]
    fn contradictions_name_their_key_and_what_would_do() {
        let long = "v".repeat(30);
        for (text, start, word) in [
            (format!("{VOLUME}[afs]\nlisten = '[::]:7000'\n"), "afs.listen: ", "0.0.0.0:7000"),
            (format!("{VOLUME}[afs]\ncell = 'Example.org'\n"), "afs.cell: ", "example.org"),
            (format!("{VOLUME}[afs]\ncell = 'a..b'\n"), "afs.cell: ", "63"),
            (format!("{VOLUME}afs = 'off'\n[afs]\n"), "afs.listen: ", "[[volume]]"),
            (format!("[[volume]]\nname = '{long}'\npath = 'a'\n[afs]\n"), "volume[0].afs_name: ", "off"),
            (format!("{VOLUME}afs_name = 'a.readonly'\n[afs]\n"), "volume[0].afs_name: ", ".readonly"),
            (
                format!("{VOLUME}[[volume]]\nname = 'b'\npath = 'b'\nafs_name = 'files'\n[afs]\n"),
                "volume[1].afs_name: ",
                "twice",
            ),
            (format!("{VOLUME}[afs]\noob_idle_seconds = 0\n"), "afs.oob_idle_seconds: ", "86400"),
            (format!("{VOLUME}[afs]\noob_transfers_per_lane = 0\n"), "afs.oob_transfers_per_lane: ", "65536"),
            (format!("{VOLUME}[afs]\ndscp = 64\n"), "afs.dscp: ", "63"),
            (format!("{VOLUME}[afs]\nport = 1\n"), "in /etc/linerate.toml: ", "unknown key `port`"),
        ] {
            let problem = read(&text).unwrap_err();
            assert!(problem.starts_with(start) && problem.contains(word), "{text:?} gave {problem}");
        }
    }

    #[test]
    fn the_command_line_has_the_last_word() {
        let document = Document::of_text(Path::new("/x"), format!("{VOLUME}[afs]\n"));
        let volumes = VolumeSection::all(&document).unwrap();
        let off = Afs::listening(Some(Vec::new()));
        assert!(off.read(&document, &volumes).unwrap().is_none());
        let given = Afs::listening(Some(vec![SocketAddr::from(([127, 0, 0, 1], 17000))]));
        let settings = given.read(&document, &volumes).unwrap().unwrap();
        assert_eq!(addresses(&*settings)[0], "127.0.0.1:17000");
    }
}
