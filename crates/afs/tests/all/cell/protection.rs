//! PR: look-ups over the accounts, and what is refused.

use afs::attached_volumes::VolumeType;
use afs::cell::Protection;
use afs_wire::code::cell::{PRBADARG, PRNOENT, PRNOTGROUP, PRPERM};
use afs_wire::{self as wire, pr};
use xdr::rpc::{Call, Received};
use xdr::{Chars, List};

use crate::cell::with;

const NONE: &[(&str, VolumeType)] = &[];
const ANNE: i32 = 1001;
const BERT: i32 = 1002;
const STAFF: i32 = -2001;
const FRIENDS: i32 = -2002;
const ANYUSER: i32 = -101;
const AUTHUSER: i32 = -102;
const ADMINISTRATORS: i32 = -204;
const ANONYMOUS: i32 = 32766;

async fn ask<P: Call>(client: &crate::cell::Client, request: &P) -> Result<Received<P>, i32> {
    client.ask(Protection::SERVICE, request).await
}

#[test]
fn names_and_numbers_lead_to_each_other() {
    with(NONE, async |client| {
        let known = [
            ("anne", ANNE),
            ("anne:friends", FRIENDS),
            ("system:anyuser", ANYUSER),
            ("system:administrators", ADMINISTRATORS),
            ("anonymous", ANONYMOUS),
        ];
        let names: Vec<_> =
            known.iter().map(|(name, _)| Chars::from_text(name.as_bytes()).unwrap()).collect();
        let ids: Vec<_> = known.iter().map(|(_, id)| *id).collect();
        let reply = ask(&client, &pr::NameToID { names: List(names.clone()) }).await.unwrap();
        assert_eq!(reply.get().ids.0, ids);
        let reply = ask(&client, &pr::IDToName { ids: List(ids) }).await.unwrap();
        assert_eq!(reply.get().names.0, names);
        // An unknown name has the number of anonymous; an unknown number is its own name.
        let nobody = Chars::from_text(b"nobody").unwrap();
        let reply = ask(&client, &pr::NameToID { names: List(vec![nobody]) }).await.unwrap();
        assert_eq!(reply.get().ids.0, [ANONYMOUS]);
        let reply = ask(&client, &pr::IDToName { ids: List(vec![-77]) }).await.unwrap();
        assert_eq!(reply.get().names[0].text(), b"-77");
        let too_many = pr::IDToName { ids: List(vec![1; 1001]) };
        assert_eq!(ask(&client, &too_many).await.unwrap_err(), PRBADARG);
    });
}

#[test]
fn entries_members_and_groups_are_told() {
    with(NONE, async |client| {
        let entry = ask(&client, &pr::ListEntry { id: FRIENDS }).await.unwrap().get().entry;
        assert_eq!((entry.id, entry.owner, entry.count, entry.flags), (FRIENDS, ANNE, 1, 0x90));
        assert_eq!(entry.name.text(), b"anne:friends");
        let entry = ask(&client, &pr::ListEntry { id: ANNE }).await.unwrap().get().entry;
        assert_eq!((entry.id, entry.owner, entry.count), (ANNE, ADMINISTRATORS, 1));
        for (id, elements) in [(STAFF, vec![FRIENDS, ANNE]), (ANNE, vec![STAFF]), (ANYUSER, vec![])] {
            let reply = ask(&client, &pr::ListElements { id }).await.unwrap();
            assert_eq!((reply.get().ids.0, reply.get().over), (elements, 0));
        }
        let reply = ask(&client, &pr::ListSuperGroups { id: FRIENDS }).await.unwrap();
        assert_eq!(reply.get().ids.0, [STAFF]);
        let reply = ask(&client, &pr::ListOwned { id: ANNE, more: 0 }).await.unwrap();
        assert_eq!((reply.get().ids.0, reply.get().more), (vec![FRIENDS], 0));
        let reply = ask(&client, &pr::ListOwned { id: 0, more: 0 }).await.unwrap();
        assert!(reply.get().ids.is_empty());
        let reply = ask(&client, &pr::ListMax {}).await.unwrap();
        assert_eq!((reply.get().user, reply.get().group), (BERT, FRIENDS));
        let everybody = [(1, 3), (2, 5), (3, 8), (0, 0)];
        for (which, count) in everybody {
            let reply = ask(&client, &pr::ListEntries { which, start: 0 }).await.unwrap();
            assert_eq!((reply.get().entries.len(), reply.get().next), (count, -1));
        }
        let reply = ask(&client, &pr::ListEntries { which: 1, start: 2 }).await.unwrap();
        assert_eq!(reply.get().entries[0].id, ANONYMOUS);
        let place = |id| pr::WhereIsIt { id };
        assert_ne!(
            ask(&client, &place(ANNE)).await.unwrap().get().position,
            ask(&client, &place(BERT)).await.unwrap().get().position
        );
    });
}

#[test]
fn the_subdomain_has_groups_of_groups() {
    with(NONE, async |client| {
        let bert = vec![FRIENDS, STAFF, AUTHUSER, ANYUSER, BERT];
        assert_eq!(ask(&client, &pr::GetCPS { id: BERT }).await.unwrap().get().ids.0, bert);
        assert_eq!(ask(&client, &pr::GetCPS2 { id: BERT, host: 1 }).await.unwrap().get().ids.0, bert);
        let anonymous = ask(&client, &pr::GetCPS { id: ANONYMOUS }).await.unwrap();
        assert_eq!(anonymous.get().ids.0, [ANYUSER, ANONYMOUS]);
        assert!(ask(&client, &pr::GetHostCPS { host: 1 }).await.unwrap().get().ids.is_empty());
        for (user, group, is) in
            [(BERT, STAFF, 1), (ANNE, FRIENDS, 0), (ANONYMOUS, AUTHUSER, 0), (ANONYMOUS, ANYUSER, 1)]
        {
            assert_eq!(ask(&client, &pr::IsAMemberOf { user, group }).await.unwrap().get().is, is);
        }
    });
}

#[test]
fn who_is_nobody_or_no_group_is_refused() {
    with(NONE, async |client| {
        assert_eq!(ask(&client, &pr::ListEntry { id: 5 }).await.unwrap_err(), PRNOENT);
        assert_eq!(ask(&client, &pr::ListElements { id: 5 }).await.unwrap_err(), PRNOENT);
        assert_eq!(ask(&client, &pr::GetCPS { id: 5 }).await.unwrap_err(), PRNOENT);
        assert_eq!(ask(&client, &pr::WhereIsIt { id: 5 }).await.unwrap_err(), PRNOENT);
        assert_eq!(ask(&client, &pr::ListOwned { id: 5, more: 0 }).await.unwrap_err(), PRNOENT);
        assert_eq!(ask(&client, &pr::IsAMemberOf { user: 5, group: STAFF }).await.unwrap_err(), PRNOENT);
        assert_eq!(ask(&client, &pr::IsAMemberOf { user: ANNE, group: -5 }).await.unwrap_err(), PRNOENT);
        assert_eq!(ask(&client, &pr::IsAMemberOf { user: ANNE, group: BERT }).await.unwrap_err(), PRNOTGROUP);
        assert_eq!(ask(&client, &pr::ListEntries { which: 3, start: -1 }).await.unwrap_err(), PRBADARG);
    });
}

#[test]
fn nothing_can_be_changed_or_dumped() {
    with(NONE, async |client| {
        let name = || "carl".into();
        let update = wire::ProtectionUpdate::default();
        let fields = pr::SetFieldsEntry { id: ANNE, ..Default::default() };
        let refusals = [
            ask(&client, &pr::INewEntry { name: name(), id: 7, owner: 0 }).await.err(),
            ask(&client, &pr::NewEntry { name: name(), flag: 0, owner: 0 }).await.err(),
            ask(&client, &pr::AddToGroup { user: BERT, group: STAFF }).await.err(),
            ask(&client, &pr::Delete { id: ANNE }).await.err(),
            ask(&client, &pr::RemoveFromGroup { id: ANNE, group: STAFF }).await.err(),
            ask(&client, &pr::SetMax { id: 9, groups: 0 }).await.err(),
            ask(&client, &pr::ChangeEntry { id: ANNE, name: name(), owner: 0, new_id: 0 }).await.err(),
            ask(&client, &fields).await.err(),
            ask(&client, &pr::UpdateEntry { id: ANNE, name: name(), update }).await.err(),
            ask(&client, &pr::DumpEntry { position: 64 }).await.err(),
        ];
        assert_eq!(refusals, [Some(PRPERM); 10]);
        assert_eq!((client.counters.changes_refused.get(), client.counters.protection_calls.get()), (10, 10));
    });
}
