//! Users and groups of the protection service (PR): their numbers, names and groups.

use std::rc::Rc;
use std::sync::Arc;

use afs_wire::code::cell::{PRBADARG, PRNOENT, PRNOTGROUP, PRPERM};
use afs_wire::{self as wire, pr};
use identity::Id;
use rx_lane::ServerCall;
use xdr::rpc::Failure;
use xdr::{Chars, List};

use super::principals::PrincipalEntry;
use super::{Cell, CellCounters, Current, Refusal, refused};

/// The protection server of one lane.
pub struct Protection {
    cell: Current<Cell>,
    counters: Arc<CellCounters>,
    tally: pr::Tally,
}

impl Protection {
    /// The Rx service.
    pub const SERVICE: u16 = 73;

    /// Answers from `cell`.
    pub fn new(cell: Current<Cell>, counters: Arc<CellCounters>) -> Self {
        Self { cell, counters, tally: pr::Tally::default() }
    }

    /// Offers the service.
    pub fn serve_on(self, driver: &rx_lane::Driver) {
        let me = Rc::new(self);
        driver.serve(Self::SERVICE, move |mut call: ServerCall| {
            let me = Rc::clone(&me);
            async move {
                me.counters.protection_calls.increment();
                pr::serve(&*me, &mut call, &me.tally).await
            }
        });
    }

    /// Returns what `look` finds of a user or group.
    fn of<T>(&self, id: i32, look: impl FnOnce(&PrincipalEntry) -> T) -> Result<T, Refusal> {
        self.cell.get().principals.get(id).map(look).ok_or(Failure::Refused(PRNOENT))
    }

    fn subdomain(&self, id: i32) -> Result<Vec<i32>, Refusal> {
        self.cell.get().principals.subdomain(id).ok_or(Failure::Refused(PRNOENT))
    }
}

/// Returns as many numbers as fit an answer, and how many do not fit.
fn listed(mut ids: Vec<i32>) -> (wire::ProtectionIds, i32) {
    let over = ids.len().saturating_sub(wire::PR_IDS as usize);
    ids.truncate(wire::PR_IDS as usize);
    (List(ids), i32::try_from(over).unwrap_or(i32::MAX))
}

fn name_of(text: &str) -> Chars<64> {
    Chars::from_text(text.as_bytes()).expect("names are at most 63 bytes, without a zero")
}

fn entry(id: i32, person: &PrincipalEntry) -> wire::ProtectionEntry {
    let (told, listed) = if id < 0 {
        (wire::PR_STATUS_TOLD | wire::PR_MEMBERS_TOLD, person.members.len())
    } else {
        (wire::PR_STATUS_TOLD | wire::PR_MEMBERS_TOLD | wire::PR_OWNED_TOLD, person.groups.len())
    };
    wire::ProtectionEntry {
        flags: told as i32,
        id,
        owner: person.owner,
        creator: person.owner,
        count: i32::try_from(listed).unwrap_or(i32::MAX),
        name: name_of(&person.name),
        ..Default::default()
    }
}

impl pr::Server<ServerCall> for Protection {
    async fn name_to_id(&self, _: &ServerCall, request: pr::NameToID) -> Result<pr::NameToIDReply, Refusal> {
        let cell = self.cell.get();
        let id = |name: &Chars<64>| {
            let known = std::str::from_utf8(name.text()).ok().and_then(|name| cell.principals.id(name));
            known.unwrap_or(Id::ANONYMOUS.0)
        };
        Ok(pr::NameToIDReply { ids: request.names.iter().map(id).collect() })
    }

    async fn id_to_name(&self, _: &ServerCall, request: pr::IDToName) -> Result<pr::IDToNameReply, Refusal> {
        if request.ids.len() > wire::PR_NAMES as usize {
            return Err(Failure::Refused(PRBADARG));
        }
        let cell = self.cell.get();
        // A principal without a name goes by its number.
        let name = |id: &i32| {
            cell.principals.get(*id).map_or_else(|| name_of(&id.to_string()), |person| name_of(&person.name))
        };
        Ok(pr::IDToNameReply { names: request.ids.iter().map(name).collect() })
    }

    async fn list_entry(
        &self,
        _: &ServerCall,
        request: pr::ListEntry,
    ) -> Result<pr::ListEntryReply, Refusal> {
        Ok(pr::ListEntryReply { entry: self.of(request.id, |person| entry(request.id, person))? })
    }

    async fn list_entries(
        &self,
        _: &ServerCall,
        request: pr::ListEntries,
    ) -> Result<pr::ListEntriesReply, Refusal> {
        let start = usize::try_from(request.start).map_err(|_| Failure::Refused(PRBADARG))?;
        let (users, groups) = (wire::PR_LIST_USERS as i32, wire::PR_LIST_GROUPS as i32);
        let cell = self.cell.get();
        let is_wanted = |id: i32| request.which & (if id < 0 { groups } else { users }) != 0;
        let mut wanted = cell.principals.all().filter(|(id, _)| is_wanted(*id)).skip(start);
        let entries: Vec<_> = wanted.by_ref().take(PAGE).map(|(id, person)| entry(id, person)).collect();
        let next = match wanted.next() {
            Some(_) => i32::try_from(start + entries.len()).map_err(|_| Failure::Refused(PRBADARG))?,
            None => -1,
        };
        Ok(pr::ListEntriesReply { entries: List(entries), next })
    }

    async fn list_max(&self, _: &ServerCall, _: pr::ListMax) -> Result<pr::ListMaxReply, Refusal> {
        let (user, group) = self.cell.get().principals.last();
        Ok(pr::ListMaxReply { user, group })
    }

    async fn list_elements(
        &self,
        _: &ServerCall,
        request: pr::ListElements,
    ) -> Result<pr::ListElementsReply, Refusal> {
        let elements = |person: &PrincipalEntry| {
            if request.id < 0 { person.members.clone() } else { person.groups.clone() }
        };
        let (ids, over) = listed(self.of(request.id, elements)?);
        Ok(pr::ListElementsReply { ids, over })
    }

    async fn list_super_groups(
        &self,
        _: &ServerCall,
        request: pr::ListSuperGroups,
    ) -> Result<pr::ListSuperGroupsReply, Refusal> {
        let (ids, over) = listed(self.of(request.id, |person| person.groups.clone())?);
        Ok(pr::ListSuperGroupsReply { ids, over })
    }

    async fn list_owned(
        &self,
        _: &ServerCall,
        request: pr::ListOwned,
    ) -> Result<pr::ListOwnedReply, Refusal> {
        let cell = self.cell.get();
        // 0 asks for groups whose owner is gone; there are none.
        if request.id != 0 && cell.principals.get(request.id).is_none() {
            return Err(Failure::Refused(PRNOENT));
        }
        let start = usize::try_from(request.more).map_err(|_| Failure::Refused(PRBADARG))?;
        let is_owned = |(id, person): &(i32, &PrincipalEntry)| {
            *id < 0 && person.owner == request.id && *id != request.id
        };
        let mut owned = cell.principals.all().filter(is_owned).map(|(id, _)| id).skip(start);
        let ids: Vec<i32> = owned.by_ref().take(wire::PR_IDS as usize).collect();
        let more = owned.next().map_or(0, |_| i32::try_from(start + ids.len()).unwrap_or_default());
        Ok(pr::ListOwnedReply { ids: List(ids), more })
    }

    async fn is_a_member_of(
        &self,
        _: &ServerCall,
        request: pr::IsAMemberOf,
    ) -> Result<pr::IsAMemberOfReply, Refusal> {
        if request.group >= 0 {
            return Err(Failure::Refused(PRNOTGROUP));
        }
        self.of(request.group, |_| ())?;
        let is_member = self.subdomain(request.user)?.contains(&request.group);
        Ok(pr::IsAMemberOfReply { is: is_member.into() })
    }

    async fn get_cps(&self, _: &ServerCall, request: pr::GetCPS) -> Result<pr::GetCPSReply, Refusal> {
        let (ids, over) = listed(self.subdomain(request.id)?);
        Ok(pr::GetCPSReply { ids, over })
    }

    async fn get_cps2(&self, _: &ServerCall, request: pr::GetCPS2) -> Result<pr::GetCPS2Reply, Refusal> {
        // No group has hosts in it.
        let (ids, over) = listed(self.subdomain(request.id)?);
        Ok(pr::GetCPS2Reply { ids, over })
    }

    async fn get_host_cps(&self, _: &ServerCall, _: pr::GetHostCPS) -> Result<pr::GetHostCPSReply, Refusal> {
        Ok(pr::GetHostCPSReply::default())
    }

    async fn where_is_it(
        &self,
        _: &ServerCall,
        request: pr::WhereIsIt,
    ) -> Result<pr::WhereIsItReply, Refusal> {
        let cell = self.cell.get();
        let place = cell.principals.all().position(|(id, _)| id == request.id);
        let place = place.and_then(|place| i32::try_from(place + 1).ok()).ok_or(Failure::Refused(PRNOENT))?;
        Ok(pr::WhereIsItReply { position: place })
    }

    refused! {
        PRPERM,
        dump_entry(pr::DumpEntry) -> pr::DumpEntryReply;
        i_new_entry(pr::INewEntry<'_>) -> pr::INewEntryReply;
        add_to_group(pr::AddToGroup) -> pr::AddToGroupReply;
        delete(pr::Delete) -> pr::DeleteReply;
        remove_from_group(pr::RemoveFromGroup) -> pr::RemoveFromGroupReply;
        new_entry(pr::NewEntry<'_>) -> pr::NewEntryReply;
        set_max(pr::SetMax) -> pr::SetMaxReply;
        change_entry(pr::ChangeEntry<'_>) -> pr::ChangeEntryReply;
        set_fields_entry(pr::SetFieldsEntry) -> pr::SetFieldsEntryReply;
        update_entry(pr::UpdateEntry<'_>) -> pr::UpdateEntryReply;
    }
}

/// Entries of one answer.
const PAGE: usize = 500;
