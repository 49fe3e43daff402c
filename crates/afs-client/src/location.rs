//! Location of volumes: the location service (VL) of a cell.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use afs_wire::{
    LocationChoice, LocationEntry, LocationEntryByUuid, LocationEntryOld, ServerChoice, VL_BACKUP_EXISTS,
    VL_BY_UUID, VL_NAME_SIZE, VL_READ_ONLY_EXISTS, VL_READ_WRITE_EXISTS, VL_SITE_BACKUP, VL_SITE_READ_ONLY,
    VL_SITE_READ_WRITE, VL_SITE_UUID, vl,
};
use rx_lane::Connection;
use xdr::Chars;
use xdr::afs::AfsUuid;
use xdr::rpc::{self, Call, Received};

use crate::client::Client;
use crate::error::Error;

/// Kind of a volume among the up to three of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The one that is written to.
    ReadWrite,
    /// The volume's copies, `NAME.readonly`.
    ReadOnly,
    /// The volume's clone, `NAME.backup`.
    Backup,
}

/// Location of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The volume's number.
    pub id: u32,
    /// The volume's name without `.readonly` and `.backup`.
    pub name: String,
    /// Kind of the volume.
    pub kind: Kind,
    /// Number of its read-only copies, where there are some.
    pub read_only: Option<u32>,
    /// Hosts that have it.
    pub hosts: Vec<IpAddr>,
}

/// A volume as a listing of its cell tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The volume's name, without `.readonly` and `.backup`.
    pub name: String,
    /// Numbers of the volume, its read-only copies and its backup clone, as far as it has them.
    pub read_write: Option<u32>,
    /// See [`read_write`](Self::read_write).
    pub read_only: Option<u32>,
    /// See [`read_write`](Self::read_write).
    pub backup: Option<u32>,
    /// Hosts that have any of them.
    pub hosts: Vec<IpAddr>,
}

/// A location service.
#[derive(Debug)]
pub(crate) struct Locations {
    address: SocketAddr,
    connection: Connection,
    /// Addresses of servers that entries name by their UUIDs.
    hosts: RefCell<HashMap<AfsUuid, Vec<IpAddr>>>,
}

/// An entry in any of its versions.
struct Entry {
    name: String,
    volumes: [u32; 3],
    flags: u32,
    sites: Vec<(Host, u32)>,
}

enum Host {
    Address(IpAddr),
    Uuid(AfsUuid),
}

impl Locations {
    /// Makes the service at this address; nothing is sent yet.
    pub(crate) fn of(client: &Client, address: SocketAddr) -> Result<Self, Error> {
        let connection = client.connect(address, SERVICE)?;
        Ok(Self { address, connection, hosts: RefCell::default() })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Finds a volume by name (also `NAME.readonly`, `NAME.backup`) or number.
    ///
    /// # Errors
    /// [`Error::Refused`] with VL_NOENT; [`Error::NoServer`].
    pub(crate) async fn find(&self, volume: &str) -> Result<Located, Error> {
        let entry = self.entry(volume).await?;
        let (kind, id) = entry.chosen(volume).ok_or_else(|| Error::NoServer(volume.to_owned()))?;
        let mut hosts = Vec::new();
        for host in entry.hosts(kind) {
            match host {
                Host::Address(address) => hosts.push(*address),
                Host::Uuid(uuid) => hosts.extend(self.addresses(*uuid).await?),
            }
        }
        // The one that we ask is known to be within reach.
        hosts.sort_by_key(|host| *host != self.address.ip());
        hosts.dedup();
        let read_only = (entry.flags & VL_READ_ONLY_EXISTS != 0).then_some(entry.volumes[1]);
        Ok(Located { id, name: entry.name, kind, read_only, hosts })
    }

    /// Lists all volumes, a page at a time.
    pub(crate) async fn list(&self, limit: usize) -> Result<Vec<Listed>, Error> {
        let (mut listed, mut start) = (Vec::new(), 0);
        loop {
            let choice = LocationChoice::default();
            let reply = self.call(&vl::ListAttributesN2 { choice, name: b"".into(), start }).await?;
            let page = reply.get();
            listed.extend(page.entries.0.iter().map(|entry| Entry::by_address(entry).listed()));
            if listed.len() > limit {
                return Err(Error::TooMany { server: self.address, limit });
            }
            // A service that stays where it is would be asked for ever.
            if page.next <= start {
                return Ok(listed);
            }
            start = page.next;
        }
    }

    /// Asks for a volume's entry by the newest procedure that the service knows.
    async fn entry(&self, volume: &str) -> Result<Entry, Error> {
        let name = || volume.as_bytes().into();
        match self.call(&vl::GetEntryByNameU { name: name() }).await {
            Err(Error::Refused(code)) if code.is_unknown_procedure() => {}
            done => return done.map(|reply| Entry::by_uuid(&reply.get().entry)),
        }
        match self.call(&vl::GetEntryByNameN { name: name() }).await {
            Err(Error::Refused(code)) if code.is_unknown_procedure() => {}
            done => return done.map(|reply| Entry::by_address(&reply.get().entry)),
        }
        let reply = self.call(&vl::GetEntryByName { name: name() }).await?;
        Ok(Entry::old(&reply.get().entry))
    }

    async fn addresses(&self, uuid: AfsUuid) -> Result<Vec<IpAddr>, Error> {
        if let Some(known) = self.hosts.borrow().get(&uuid) {
            return Ok(known.clone());
        }
        let choice = ServerChoice { mask: VL_BY_UUID.cast_signed(), uuid, ..ServerChoice::default() };
        let reply = self.call(&vl::GetAddrsU { choice }).await?;
        let addresses: Vec<IpAddr> = reply.get().addresses.0.iter().map(|&word| of_word(word)).collect();
        self.hosts.borrow_mut().insert(uuid, addresses.clone());
        Ok(addresses)
    }

    async fn call<P: Call>(&self, request: &P) -> Result<Received<P>, Error> {
        let call = self.connection.call().await;
        let mut call = call.map_err(|error| Error::of_call(self.address, error.into()))?;
        match rpc::call(&mut call, request).await {
            Ok(reply) => Ok(reply),
            Err(failure) => {
                if let Some(code) = failure.abort_code() {
                    call.abort(code);
                }
                Err(Error::of_call(self.address, failure))
            }
        }
    }
}

impl Entry {
    fn by_uuid(entry: &LocationEntryByUuid) -> Self {
        let host = |at: usize, flags: u32| {
            let uuid = entry.server[at];
            if flags & VL_SITE_UUID != 0 {
                return Host::Uuid(uuid);
            }
            // Of a server without an identity, the first field is the address.
            let [a, b, c, d, ..] = uuid.0;
            Host::Address(Ipv4Addr::new(a, b, c, d).into())
        };
        let name = name_of(&entry.name);
        Self::new(name, entry.volume, entry.flags, entry.site_count, &entry.site_flags, host)
    }

    fn by_address(entry: &LocationEntry) -> Self {
        let host = |at: usize, _| Host::Address(of_word(entry.server[at]));
        let name = name_of(&entry.name);
        Self::new(name, entry.volume, entry.flags, entry.site_count, &entry.site_flags, host)
    }

    fn old(entry: &LocationEntryOld) -> Self {
        let host = |at: usize, _| Host::Address(of_word(entry.server[at]));
        let name = name_of(&entry.name);
        Self::new(name, entry.volume, entry.flags, entry.site_count, &entry.site_flags, host)
    }

    fn new(
        name: String,
        volumes: [u32; 3],
        flags: i32,
        sites: i32,
        site_flags: &[i32],
        host: impl Fn(usize, u32) -> Host,
    ) -> Self {
        let count = usize::try_from(sites).unwrap_or(0).min(site_flags.len());
        let sites =
            (0..count).map(|at| (host(at, site_flags[at].cast_unsigned()), site_flags[at].cast_unsigned()));
        Self { name, volumes, flags: flags.cast_unsigned(), sites: sites.collect() }
    }

    /// Returns which volume of the entry the name `asked` means; `None` where there is none.
    fn chosen(&self, asked: &str) -> Option<(Kind, u32)> {
        let kinds = [
            (Kind::ReadWrite, VL_READ_WRITE_EXISTS),
            (Kind::ReadOnly, VL_READ_ONLY_EXISTS),
            (Kind::Backup, VL_BACKUP_EXISTS),
        ];
        let there = |at: usize| self.flags & kinds[at].1 != 0;
        let by_number = asked.parse().ok().and_then(|id: u32| self.volumes.iter().position(|&own| own == id));
        let at = by_number.or_else(|| match asked {
            name if name.ends_with(".readonly") => Some(1),
            name if name.ends_with(".backup") => Some(2),
            _ => (0..2).find(|&at| there(at)),
        });
        at.filter(|&at| there(at)).map(|at| (kinds[at].0, self.volumes[at]))
    }

    fn listed(self) -> Listed {
        let number = |at: usize, flag: u32| (self.flags & flag != 0).then_some(self.volumes[at]);
        let (read_write, read_only) = (number(0, VL_READ_WRITE_EXISTS), number(1, VL_READ_ONLY_EXISTS));
        let backup = number(2, VL_BACKUP_EXISTS);
        let address = |(host, _): &(Host, u32)| match host {
            Host::Address(address) => Some(*address),
            Host::Uuid(_) => None,
        };
        let mut hosts: Vec<_> = self.sites.iter().filter_map(address).collect();
        hosts.sort_unstable();
        hosts.dedup();
        Listed { name: self.name, read_write, read_only, backup, hosts }
    }

    fn hosts(&self, kind: Kind) -> impl Iterator<Item = &Host> {
        let wanted = match kind {
            Kind::ReadWrite => VL_SITE_READ_WRITE,
            Kind::ReadOnly => VL_SITE_READ_ONLY,
            // A clone is where its volume is, and not every entry says so.
            Kind::Backup => VL_SITE_BACKUP | VL_SITE_READ_WRITE,
        };
        let has_it = move |flags: u32| flags & wanted != 0 && flags & DO_NOT_USE == 0;
        self.sites.iter().filter(move |(_, flags)| has_it(*flags)).map(|(host, _)| host)
    }
}

fn name_of(name: &Chars<{ VL_NAME_SIZE as usize }>) -> String {
    String::from_utf8_lossy(name.text()).into_owned()
}

fn of_word(word: u32) -> IpAddr {
    Ipv4Addr::from_bits(word).into()
}

/// VL.
const SERVICE: u16 = 52;
/// A site whose copy is not whole yet.
const DO_NOT_USE: u32 = 0x20;

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(flags: u32) -> Entry {
        let host = |at: u8| Host::Address(IpAddr::from([10, 0, 0, at]));
        let sites = vec![
            (host(1), VL_SITE_READ_WRITE),
            (host(1), VL_SITE_READ_ONLY),
            (host(2), VL_SITE_READ_ONLY),
            (host(3), VL_SITE_READ_ONLY | DO_NOT_USE),
        ];
        Entry { name: "v".to_owned(), volumes: [7, 8, 9], flags, sites }
    }

    #[test]
    fn a_name_or_number_says_which_volume_is_meant() {
        let all = entry(VL_READ_WRITE_EXISTS | VL_READ_ONLY_EXISTS);
        assert_eq!(all.chosen("v"), Some((Kind::ReadWrite, 7)));
        assert_eq!(all.chosen("v.readonly"), Some((Kind::ReadOnly, 8)));
        assert_eq!(all.chosen("8"), Some((Kind::ReadOnly, 8)));
        assert_eq!(all.chosen("v.backup"), None);
        assert_eq!(entry(VL_READ_ONLY_EXISTS).chosen("v"), Some((Kind::ReadOnly, 8)));
    }

    #[test]
    fn a_listed_volume_tells_what_there_is_of_it_and_each_host_once() {
        let listed = entry(VL_READ_WRITE_EXISTS | VL_BACKUP_EXISTS).listed();
        assert_eq!((listed.read_write, listed.read_only, listed.backup), (Some(7), None, Some(9)));
        assert_eq!(listed.hosts.len(), 3);
    }

    #[test]
    fn only_sites_that_have_the_kind_whole_are_called() {
        let all = entry(VL_READ_WRITE_EXISTS | VL_READ_ONLY_EXISTS);
        assert_eq!(all.hosts(Kind::ReadWrite).count(), 1);
        assert_eq!(all.hosts(Kind::ReadOnly).count(), 2);
        assert_eq!(all.hosts(Kind::Backup).count(), 1);
    }
}
