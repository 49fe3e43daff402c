//! Checks that more given rights never take any, and more denied ones never give any, over lists, accounts
//! and objects.

use std::collections::BTreeSet;
use std::sync::Arc;

use identity::{
    Accounts, Acl, Id, Kind, Nearest, Object, Owner, Principal, Rights, Side, VolumePolicy, decide,
};
use proptest::prelude::*;

const NAMES: [&str; 9] =
    ["u0", "u1", "g0", "g1", "g2", "system:anyuser", "system:authuser", "system:administrators", "unknown"];

/// Memberships of u0, u1, g0 in g0, g1, g2: a group holds only those before it, so there is no circle.
type Edges = BTreeSet<(usize, usize)>;

fn accounts(edges: &Edges) -> Arc<Accounts> {
    let members = |group: usize| {
        let of = edges.iter().filter(|edge| edge.1 == group).map(|edge| format!("'{}'", NAMES[edge.0]));
        of.collect::<Vec<_>>().join(", ")
    };
    let mut text = "version = 1\n[user.u0]\nid = 1000\nuid = 1\n[user.u1]\nid = 1001\nuid = 2\n".to_owned();
    for (group, name) in NAMES.iter().enumerate().take(5).skip(2) {
        text += &format!("[group.{name}]\nid = -{}\nmembers = [{}]\n", 1000 + group, members(group));
    }
    Accounts::parse(&text).unwrap()
}

fn entries() -> impl Strategy<Value = Vec<(bool, usize, u32)>> {
    proptest::collection::vec((any::<bool>(), 0..NAMES.len(), 0u32..128), 0..8)
}

fn edges() -> impl Strategy<Value = Edges> {
    let edge = (2usize..5).prop_flat_map(|group| (0..group, Just(group)));
    proptest::collection::btree_set(edge, 0..8)
}

fn acl(entries: &[(bool, usize, u32)]) -> Acl {
    let mut acl = Acl::new();
    for (given, name, bits) in entries {
        let side = if *given { Side::Given } else { Side::Denied };
        add(&mut acl, side, NAMES[*name], Rights::from_bits(*bits).unwrap());
    }
    acl
}

fn add(acl: &mut Acl, side: Side, name: &str, rights: Rights) {
    let who = name.parse().unwrap();
    let before = acl.entries(side).iter().find(|entry| entry.who == who).map(|entry| entry.rights);
    acl.set(side, who, rights | before.unwrap_or_default()).unwrap();
}

fn everybody(accounts: &Accounts) -> [Principal; 4] {
    let [first, second] = ["u0", "u1"].map(|name| accounts.user(name).unwrap());
    [accounts.anonymous(), first, second, accounts.local_administrator()]
}

/// Returns whether `rights` allow all that `before` gave: deletion covers deletion of own files.
fn covers(rights: Rights, before: Rights) -> bool {
    let own = if rights.contains(Rights::DELETE) { Rights::DELETE_OWN } else { Rights::NONE };
    (rights | own).contains(before)
}

fn objects() -> impl Strategy<Value = (Object, VolumePolicy)> {
    let kind = prop_oneof![Just(Kind::Directory), Just(Kind::File), Just(Kind::Symlink)];
    let recorded = proptest::option::of(prop_oneof![1000i32..1003, Just(Id::ANONYMOUS.0)]);
    let writable = prop_oneof![Just("nobody"), Just("listed"), Just("anyone"), Just("u0")];
    (kind, 0u32..0o2000, 0u32..4, recorded, any::<bool>(), writable, 0u32..3).prop_map(
        |(kind, mode, uid, recorded, privileged, writable, root)| {
            let owner = Owner { uid: Some(uid), recorded: recorded.map(Id) };
            let object = Object { kind, mode, gid: 50, owner };
            let owner = Owner { uid: Some(root), recorded: None };
            (object, VolumePolicy { privileged, writable: writable.parse().unwrap(), owner })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_positive_entry_never_takes_and_a_negative_one_never_gives(
        entries in entries(),
        edges in edges(),
        (object, volume) in objects(),
        name in 0..NAMES.len(),
        bits in 0u32..128,
    ) {
        let before = acl(&entries);
        let [mut given, mut denied] = [before.clone(), before.clone()];
        let rights = Rights::from_bits(bits).unwrap();
        add(&mut given, Side::Given, NAMES[name], rights);
        add(&mut denied, Side::Denied, NAMES[name], rights);
        let [before, given, denied] = [before, given, denied].map(|acl| Nearest::List(Arc::new(acl)));
        for who in everybody(&accounts(&edges)) {
            let [before, given, denied] = [&before, &given, &denied].map(|list| decide(&who, &object, list, &volume));
            prop_assert!(covers(given, before), "{who:?}: {before:?} became {given:?}");
            prop_assert!(covers(before, denied), "{who:?}: {before:?} became {denied:?}");
        }
    }

    #[test]
    fn one_group_more_never_takes_from_a_list_without_negative_entries(
        entries in entries(),
        few in edges(),
        more in edges(),
        (object, volume) in objects(),
    ) {
        let given: Vec<_> = entries.into_iter().map(|(_, name, bits)| (true, name, bits)).collect();
        let list = Nearest::List(Arc::new(acl(&given)));
        let all: Edges = few.union(&more).copied().collect();
        let [before, after] = [few, all].map(|edges| everybody(&accounts(&edges)));
        for (before, after) in before.iter().zip(&after) {
            let [had, has] = [before, after].map(|who| decide(who, &object, &list, &volume));
            prop_assert!(covers(has, had), "{before:?}: {had:?} became {has:?}");
            prop_assert!(after.subdomain().iter().filter(|id| before.is_member(**id)).count() == before.subdomain().len());
        }
    }

    #[test]
    fn a_user_has_what_anonymous_has_unless_something_is_denied(
        entries in entries(),
        edges in edges(),
        (object, volume) in objects(),
    ) {
        let given: Vec<_> = entries.into_iter().map(|(_, name, bits)| (true, name, bits)).collect();
        let list = Nearest::List(Arc::new(acl(&given)));
        let [anonymous, first, second, operator] = everybody(&accounts(&edges));
        let of = |who: &Principal| decide(who, &object, &list, &volume);
        for user in [first, second, operator] {
            prop_assert!(covers(of(&user), of(&anonymous)), "{user:?}");
        }
    }

    #[test]
    fn what_is_encoded_decodes_to_itself(entries in entries()) {
        let acl = acl(&entries);
        prop_assert_eq!(Acl::decode(&acl.encode()), Ok(acl));
    }
}
