//! Location service (VL): clients ask for one by name or number, `vos` lists them. All of them are at this
//! server.

use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::Arc;

use afs_wire::code::cell::{
    VL_BADINDEX, VL_BADMASK, VL_BADNAME, VL_BADVOLTYPE, VL_INDEXERANGE, VL_NOENT, VL_PERM,
};
use afs_wire::{self as wire, vl};
use rx_lane::ServerCall;
use xdr::rpc::Failure;
use xdr::{Chars, List};

use super::server_addresses::AddressList;
use super::{Cell, CellCounters, Current, Refusal, refused};
use crate::attached_volumes::{VolumeEntry, VolumeType};

/// The location server of one lane.
pub struct Location {
    cell: Current<Cell>,
    counters: Arc<CellCounters>,
    tally: vl::Tally,
}

impl Location {
    /// The Rx service.
    pub const SERVICE: u16 = 52;

    /// Answers from `cell`.
    pub fn new(cell: Current<Cell>, counters: Arc<CellCounters>) -> Self {
        Self { cell, counters, tally: vl::Tally::default() }
    }

    /// Offers the service.
    pub fn serve_on(self, driver: &rx_lane::Driver) {
        let me = Rc::new(self);
        driver.serve(Self::SERVICE, move |mut call: ServerCall| {
            let me = Rc::clone(&me);
            async move {
                me.counters.location_calls.increment();
                vl::serve(&*me, &mut call, &me.tally).await
            }
        });
    }

    fn by_name(&self, name: &[u8]) -> Result<Located, Refusal> {
        // Tools send the zero at its end, too.
        let name = name.strip_suffix(b"\0").unwrap_or(name);
        let number = std::str::from_utf8(name).ok().and_then(|name| name.parse().ok());
        if let Some(number) = number {
            return self.by_id(number, ANY_KIND);
        }
        if name.is_empty() || name.len() >= wire::VL_NAME_SIZE as usize {
            return Err(Failure::Refused(VL_BADNAME));
        }
        self.found(self.cell.get().attached.located_by_name(name))
    }

    /// Finds a volume by its number. `kind` is what the number is said to be of; [`ANY_KIND`] says nothing.
    fn by_id(&self, id: u32, kind: i32) -> Result<Located, Refusal> {
        if !(ANY_KIND..=2).contains(&kind) {
            return Err(Failure::Refused(VL_BADVOLTYPE));
        }
        let found = self.cell.get().attached.located(id);
        self.found(found.filter(|(_, of)| kind == ANY_KIND || of.index() as i32 == kind))
    }

    fn found(&self, volume: Option<Located>) -> Result<Located, Refusal> {
        volume.ok_or_else(|| {
            self.counters.volumes_not_found.increment();
            Failure::Refused(VL_NOENT)
        })
    }

    fn addresses(&self, call: &ServerCall) -> AddressList {
        self.cell.get().server_addresses.address_list(call.local_ip())
    }

    /// Returns the entry behind the first `previous`, and where to go on.
    fn next(&self, previous: i32) -> Result<Option<(VldbEntry, i32, i32)>, Refusal> {
        let cell = self.cell.get();
        let all = cell.attached.known();
        let at = usize::try_from(previous).ok().filter(|at| *at <= all.len());
        let at = at.ok_or(Failure::Refused(VL_BADINDEX))?;
        let entry = |volume| (VldbEntry::listed(volume), count(all.len() - at), count(at + 1));
        Ok(all.get(at).map(entry))
    }

    /// Returns the volumes that are chosen, in the order of the configuration.
    fn chosen(&self, choice: &wire::LocationChoice) -> Result<Vec<VldbEntry>, Refusal> {
        let cell = self.cell.get();
        let by = |bit: u32| choice.mask & bit != 0;
        if choice.mask & !(wire::VL_BY_SERVER | wire::VL_BY_PARTITION | wire::VL_BY_VOLUME | wire::VL_BY_FLAG)
            != 0
        {
            return Err(Failure::Refused(VL_BADMASK));
        }
        if by(wire::VL_BY_SERVER)
            && !cell.server_addresses.addresses().contains(&Ipv4Addr::from(choice.server))
        {
            return Ok(Vec::new());
        }
        let is_chosen = |volume: &&VolumeEntry| {
            (!by(wire::VL_BY_PARTITION) || i32::from(volume.partition) == choice.partition)
                && (!by(wire::VL_BY_VOLUME)
                    || choice.volume.checked_sub(volume.first).is_some_and(|by| by < 3))
                && (!by(wire::VL_BY_FLAG) || VldbEntry::listed(volume).flags & choice.flag != 0)
        };
        Ok(cell.attached.known().iter().filter(is_chosen).map(VldbEntry::listed).collect())
    }
}

/// A volume, and which of its kinds was asked for.
type Located = (VolumeEntry, VolumeType);

/// Entry of a volume, for every form of answer.
struct VldbEntry {
    volume: VolumeEntry,
    flags: i32,
    /// Flags of each site; all are this server's.
    sites: Vec<i32>,
}

impl VldbEntry {
    /// Makes the entry that clients get.
    fn listed(volume: &VolumeEntry) -> Self {
        let (exists, site) = flags(volume.kind);
        Self { volume: volume.clone(), flags: exists, sites: vec![site] }
    }

    /// Makes the entry for a client that asked for the tree or a copy of it. The entry has no copy that the client has
    /// not asked for: clients would take it in place of the tree.
    fn asked((volume, kind): &Located) -> Self {
        let mut entry = Self::listed(volume);
        let (exists, site) = flags(*kind);
        if entry.flags & exists == 0 && *kind != VolumeType::ReadWrite {
            entry.flags |= exists;
            entry.sites.push(site);
        }
        entry
    }

    fn name(&self) -> Chars<65> {
        Chars::from_text(self.volume.name.as_bytes()).expect("names of AFS are shorter")
    }

    fn volumes(&self) -> [u32; 3] {
        VolumeType::ALL.map(|kind| self.volume.first + kind.index())
    }

    /// Returns the value of each site, and zeros.
    fn by_site<T: Default + Copy, const N: usize>(&self, value: impl Fn(i32) -> T) -> [T; N] {
        let mut all = [T::default(); N];
        for (place, flags) in all.iter_mut().zip(&self.sites) {
            *place = value(*flags);
        }
        all
    }

    fn old(&self, addresses: &AddressList) -> wire::LocationEntryOld {
        wire::LocationEntryOld {
            name: self.name(),
            site_count: count(self.sites.len()),
            server: self.by_site(|_| addresses.first()),
            partition: self.by_site(|_| self.volume.partition.into()),
            site_flags: self.by_site(|flags| flags),
            volume: self.volumes(),
            flags: self.flags,
            ..Default::default()
        }
    }

    fn plain(&self, addresses: &AddressList) -> wire::LocationEntry {
        wire::LocationEntry {
            name: self.name(),
            site_count: count(self.sites.len()),
            server: self.by_site(|_| addresses.first()),
            partition: self.by_site(|_| self.volume.partition.into()),
            site_flags: self.by_site(|flags| flags),
            volume: self.volumes(),
            flags: self.flags,
            ..Default::default()
        }
    }

    fn by_uuid(&self, addresses: &AddressList, cell: &Cell) -> wire::LocationEntryByUuid {
        wire::LocationEntryByUuid {
            name: self.name(),
            site_count: count(self.sites.len()),
            server: self.by_site(|_| cell.server_addresses.uuid),
            unique: self.by_site(|_| addresses.unique),
            partition: self.by_site(|_| self.volume.partition.into()),
            site_flags: self.by_site(|flags| flags | wire::VL_SITE_UUID as i32),
            volume: self.volumes(),
            flags: self.flags,
            ..Default::default()
        }
    }
}

impl AddressList {
    fn first(&self) -> u32 {
        self.addresses.first().copied().unwrap_or_default()
    }
}

/// Returns the flags of an entry and of its site where there is a volume of this type.
fn flags(kind: VolumeType) -> (i32, i32) {
    let (exists, site) = match kind {
        VolumeType::ReadWrite => (wire::VL_READ_WRITE_EXISTS, wire::VL_SITE_READ_WRITE),
        VolumeType::ReadOnly => (wire::VL_READ_ONLY_EXISTS, wire::VL_SITE_READ_ONLY),
        VolumeType::Backup => (wire::VL_BACKUP_EXISTS, wire::VL_SITE_BACKUP),
    };
    (exists as i32, site as i32)
}

/// Converts a number for the wire; what does not fit becomes `i32::MAX`.
fn count(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

impl vl::Server<ServerCall> for Location {
    async fn probe(&self, _: &ServerCall, _: vl::Probe) -> Result<vl::ProbeReply, Refusal> {
        Ok(vl::ProbeReply {})
    }

    async fn get_entry_by_id(
        &self,
        call: &ServerCall,
        request: vl::GetEntryByID,
    ) -> Result<vl::GetEntryByIDReply, Refusal> {
        let volume = self.by_id(request.volume, request.kind)?;
        Ok(vl::GetEntryByIDReply { entry: VldbEntry::asked(&volume).old(&self.addresses(call)) })
    }

    async fn get_entry_by_name(
        &self,
        call: &ServerCall,
        request: vl::GetEntryByName<'_>,
    ) -> Result<vl::GetEntryByNameReply, Refusal> {
        let volume = self.by_name(&request.name)?;
        Ok(vl::GetEntryByNameReply { entry: VldbEntry::asked(&volume).old(&self.addresses(call)) })
    }

    async fn get_entry_by_idn(
        &self,
        call: &ServerCall,
        request: vl::GetEntryByIDN,
    ) -> Result<vl::GetEntryByIDNReply, Refusal> {
        let volume = self.by_id(request.volume, request.kind)?;
        Ok(vl::GetEntryByIDNReply { entry: VldbEntry::asked(&volume).plain(&self.addresses(call)) })
    }

    async fn get_entry_by_name_n(
        &self,
        call: &ServerCall,
        request: vl::GetEntryByNameN<'_>,
    ) -> Result<vl::GetEntryByNameNReply, Refusal> {
        let volume = self.by_name(&request.name)?;
        Ok(vl::GetEntryByNameNReply { entry: VldbEntry::asked(&volume).plain(&self.addresses(call)) })
    }

    async fn get_entry_by_idu(
        &self,
        call: &ServerCall,
        request: vl::GetEntryByIDU,
    ) -> Result<vl::GetEntryByIDUReply, Refusal> {
        let volume = self.by_id(request.volume, request.kind)?;
        let entry = VldbEntry::asked(&volume).by_uuid(&self.addresses(call), &self.cell.get());
        Ok(vl::GetEntryByIDUReply { entry })
    }

    async fn get_entry_by_name_u(
        &self,
        call: &ServerCall,
        request: vl::GetEntryByNameU<'_>,
    ) -> Result<vl::GetEntryByNameUReply, Refusal> {
        let volume = self.by_name(&request.name)?;
        let entry = VldbEntry::asked(&volume).by_uuid(&self.addresses(call), &self.cell.get());
        Ok(vl::GetEntryByNameUReply { entry })
    }

    async fn list_entry(
        &self,
        call: &ServerCall,
        request: vl::ListEntry,
    ) -> Result<vl::ListEntryReply, Refusal> {
        let addresses = self.addresses(call);
        let next = self.next(request.previous)?;
        let reply = |(entry, count, next): (VldbEntry, _, _)| vl::ListEntryReply {
            count,
            next,
            entry: entry.old(&addresses),
        };
        Ok(next.map(reply).unwrap_or_default())
    }

    async fn list_entry_n(
        &self,
        call: &ServerCall,
        request: vl::ListEntryN,
    ) -> Result<vl::ListEntryNReply, Refusal> {
        let addresses = self.addresses(call);
        let next = self.next(request.previous)?;
        let reply = |(entry, count, next): (VldbEntry, _, _)| vl::ListEntryNReply {
            count,
            next,
            entry: entry.plain(&addresses),
        };
        Ok(next.map(reply).unwrap_or_default())
    }

    async fn list_attributes(
        &self,
        call: &ServerCall,
        request: vl::ListAttributes,
    ) -> Result<vl::ListAttributesReply, Refusal> {
        let (addresses, chosen) = (self.addresses(call), self.chosen(&request.choice)?);
        let entries: Vec<_> = chosen.iter().take(LISTED_MAX).map(|entry| entry.old(&addresses)).collect();
        Ok(vl::ListAttributesReply { count: count(entries.len()), entries: List(entries) })
    }

    async fn list_attributes_n(
        &self,
        call: &ServerCall,
        request: vl::ListAttributesN,
    ) -> Result<vl::ListAttributesNReply, Refusal> {
        let (addresses, chosen) = (self.addresses(call), self.chosen(&request.choice)?);
        let entries: Vec<_> = chosen.iter().take(LISTED_MAX).map(|entry| entry.plain(&addresses)).collect();
        Ok(vl::ListAttributesNReply { count: count(entries.len()), entries: List(entries) })
    }

    async fn list_attributes_n2(
        &self,
        call: &ServerCall,
        request: vl::ListAttributesN2<'_>,
    ) -> Result<vl::ListAttributesN2Reply, Refusal> {
        let (addresses, mut chosen) = (self.addresses(call), self.chosen(&request.choice)?);
        let name = request.name.strip_suffix(b"\0").unwrap_or(&request.name);
        if !EVERY_NAME.contains(&name) {
            chosen.retain(|entry| entry.volume.name.as_bytes() == name);
        }
        let start = usize::try_from(request.start).map_err(|_| Failure::Refused(VL_BADINDEX))?;
        let page = chosen.iter().skip(start).take(PAGE);
        let entries: Vec<_> = page.map(|entry| entry.plain(&addresses)).collect();
        let end = start.saturating_add(entries.len());
        let next = if end < chosen.len() { count(end) } else { -1 };
        Ok(vl::ListAttributesN2Reply { count: count(entries.len()), entries: List(entries), next })
    }

    async fn get_stats(&self, _: &ServerCall, _: vl::GetStats) -> Result<vl::GetStatsReply, Refusal> {
        let cell = self.cell.get();
        let mut statistics =
            wire::LocationStatistics { since: cell.server_addresses.since, ..Default::default() };
        for (index, procedure) in vl::PROCEDURES.iter().enumerate() {
            // They are counted by the distance from the first.
            let place = procedure.opcode.checked_sub(vl::opcode::CREATE_ENTRY).unwrap_or(u32::MAX) as usize;
            let counts = self.tally.of(index);
            if let Some(requests) = statistics.requests.get_mut(place) {
                *requests = counts.calls as i32;
                statistics.aborts[place] = (counts.refused + counts.faults) as i32;
            }
        }
        let all = cell.attached.known();
        let of = |kind| count(all.iter().filter(|volume| volume.kind == kind).count());
        let header = wire::LocationHeader {
            version: DATABASE_VERSION,
            last_volume: all.iter().map(|volume| volume.first + 2).max().unwrap_or_default(),
            entries: VolumeType::ALL.map(of),
            ..Default::default()
        };
        Ok(vl::GetStatsReply { statistics, header })
    }

    async fn get_addrs(&self, call: &ServerCall, _: vl::GetAddrs) -> Result<vl::GetAddrsReply, Refusal> {
        let addresses = vec![self.addresses(call).first()];
        Ok(vl::GetAddrsReply {
            count: count(addresses.len()),
            addresses: List(addresses),
            ..Default::default()
        })
    }

    async fn get_addrs_u(
        &self,
        call: &ServerCall,
        request: vl::GetAddrsU,
    ) -> Result<vl::GetAddrsUReply, Refusal> {
        let (cell, choice) = (self.cell.get(), request.choice);
        let is_here = match choice.mask as u32 {
            wire::VL_BY_ADDRESS => {
                cell.server_addresses.addresses().contains(&Ipv4Addr::from(choice.address))
            }
            wire::VL_BY_INDEX if choice.index == 1 => true,
            wire::VL_BY_INDEX => return Err(Failure::Refused(VL_INDEXERANGE)),
            wire::VL_BY_UUID => choice.uuid == cell.server_addresses.uuid,
            _ => return Err(Failure::Refused(VL_BADMASK)),
        };
        if !is_here {
            return Err(Failure::Refused(VL_NOENT));
        }
        let AddressList { addresses, unique } = self.addresses(call);
        let count = count(addresses.len());
        Ok(vl::GetAddrsUReply { uuid: cell.server_addresses.uuid, unique, count, addresses: List(addresses) })
    }

    refused! {
        VL_PERM,
        register_addrs(vl::RegisterAddrs) -> vl::RegisterAddrsReply;
        create_entry(vl::CreateEntry) -> vl::CreateEntryReply;
        delete_entry(vl::DeleteEntry) -> vl::DeleteEntryReply;
        get_new_volume_id(vl::GetNewVolumeId) -> vl::GetNewVolumeIdReply;
        replace_entry(vl::ReplaceEntry) -> vl::ReplaceEntryReply;
        update_entry(vl::UpdateEntry) -> vl::UpdateEntryReply;
        set_lock(vl::SetLock) -> vl::SetLockReply;
        release_lock(vl::ReleaseLock) -> vl::ReleaseLockReply;
        change_addr(vl::ChangeAddr) -> vl::ChangeAddrReply;
        create_entry_n(vl::CreateEntryN) -> vl::CreateEntryNReply;
        replace_entry_n(vl::ReplaceEntryN) -> vl::ReplaceEntryNReply;
        update_entry_by_name(vl::UpdateEntryByName<'_>) -> vl::UpdateEntryByNameReply;
    }
}

/// Matches a number of any kind.
const ANY_KIND: i32 = -1;
/// Version of the database of a stock server that knows servers by UUID.
const DATABASE_VERSION: i32 = 4;
//@ limit: entries of one answer
//@ section: AFS cell
//@ unit: entry
//@ connection: {} of a list that can be gone on with, {LISTED_MAX} of another; names and numbers as the interface says
//@ empty: the client asks for the rest, or is told how many there are
//@ counter: afs_cell_calls
//@ attack: afs-pools
/// Entries of one answer where the list can be gone on with.
const PAGE: usize = 500;
/// Largest number of entries of a list that cannot be gone on with.
const LISTED_MAX: usize = 10_000;
/// Patterns by which a list that could be of some names is of all; any other pattern stands for itself alone.
const EVERY_NAME: [&[u8]; 3] = [b"", b".*", b"^.*$"];
