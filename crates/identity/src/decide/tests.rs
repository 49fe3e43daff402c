use super::*;
use crate::accounts::Accounts;

/// Accounts of the tests: alice owns things (uid 501); bob is in staff (gid 50); carol is in staff through
/// friends; root administrates.
const ACCOUNTS: &str = "
version = 1
realm = 'HERE'
[user.alice]
id = 1000
uid = 501
principals = ['al@THERE']
[user.bob]
id = 1001
uid = 502
[user.carol]
id = 1002
[user.root]
id = 1003
[user.dave]
id = 1004
[group.staff]
id = -1000
gid = 50
members = ['bob', 'friends']
[group.friends]
id = -1001
members = ['carol']
[group.'system:administrators']
members = ['root']
";

fn principals() -> Vec<Principal> {
    let accounts = Accounts::parse(ACCOUNTS).unwrap();
    let users = ["alice", "bob", "carol", "root", "dave"].map(|name| accounts.user(name).unwrap());
    [accounts.anonymous(), accounts.local_administrator()].into_iter().chain(users).collect()
}

fn acl(text: &str) -> Nearest {
    let mut acl = Acl::new();
    for entry in text.split_whitespace() {
        let (side, entry) = entry.strip_prefix('-').map_or((Side::Given, entry), |rest| (Side::Denied, rest));
        let (who, rights) = entry.split_once('=').unwrap();
        acl.set(side, who.parse().unwrap(), rights.parse().unwrap()).unwrap();
    }
    Nearest::List(Arc::new(acl))
}

const ALICES: Owner = Owner { uid: Some(501), recorded: None };
const NOBODYS: Owner = Owner { uid: Some(0), recorded: None };

fn object(kind: Kind, mode: u32) -> Object {
    Object { kind, mode, gid: 50, owner: ALICES }
}

fn policy(privileged: bool, writable: &str) -> VolumePolicy {
    VolumePolicy { privileged, writable: writable.parse().unwrap(), owner: NOBODYS }
}

/// Formats the rights of anonymous, alice, bob, carol and dave; `+` stands for traversal without `l`.
fn given(object: &Object, nearest: &Nearest, volume: &VolumePolicy) -> String {
    let shown = |who: &Principal| {
        let rights = decide(who, object, nearest, volume);
        let passes = rights.contains(Rights::TRAVERSE) && !rights.contains(Rights::LOOKUP);
        format!("{rights}{}", if passes { "+" } else { "" })
    };
    let principals = principals();
    [0, 2, 3, 4, 6].map(|at| shown(&principals[at])).join(" ")
}

#[test]
fn without_a_list_everybody_reads_and_nobody_writes() {
    for kind in [Kind::Directory, Kind::Symlink] {
        let got = given(&object(kind, 0o755), &Nearest::None, &policy(false, "nobody"));
        assert_eq!(got, "rl rl rl rl rl", "{kind:?}");
    }
    let got = given(&object(Kind::File, 0o644), &Nearest::None, &policy(false, "nobody"));
    assert_eq!(got, "rl rl rl rl rl");
    // What the server's own user may not read, it cannot open.
    let got = given(&object(Kind::File, 0), &Nearest::None, &policy(false, "nobody"));
    assert_eq!(got, "rl rl rl rl rl");
}

#[test]
fn without_a_list_an_unprivileged_server_lets_those_write_whom_it_was_told() {
    for (writable, got) in [
        ("listed", "rl rl rl rl rl"),
        ("anyone", "rlidwk rlidwk rlidwk rlidwk rlidwk"),
        ("alice", "rl rlidwk rl rl rl"),
        ("staff", "rl rl rlidwk rlidwk rl"),
        ("alice,friends", "rl rlidwk rl rlidwk rl"),
        ("system:authuser", "rl rlidwk rlidwk rlidwk rlidwk"),
        ("ghost", "rl rl rl rl rl"),
    ] {
        let volume = policy(false, writable);
        assert_eq!(given(&object(Kind::Directory, 0o755), &Nearest::None, &volume), got, "{writable}");
        assert_eq!(given(&object(Kind::File, 0o644), &Nearest::None, &volume), got, "{writable}");
    }
    let got = given(&object(Kind::File, 0o444), &Nearest::None, &policy(false, "bob"));
    assert_eq!(got, "rl rl rlidk rl rl", "the owner's bits say that nobody writes it");
}

#[test]
fn without_a_list_a_privileged_server_keeps_to_mode_bits() {
    for (kind, mode, got) in [
        // anonymous, alice (owner), bob and carol (group), dave (other).
        (Kind::Directory, 0o755, "rl rlidwk rl rl rl"),
        (Kind::Directory, 0o775, "rl rlidwk rlidwk rlidwk rl"),
        (Kind::Directory, 0o711, "none+ rlidwk none+ none+ none+"),
        (Kind::Directory, 0o700, "none rlidwk none none none"),
        (Kind::Directory, 0o744, "none rlidwk none none none"),
        (Kind::Directory, 0o057, "rlidwk none rl rl rlidwk"),
        (Kind::Directory, 0o733, "idwk+ rlidwk idwk+ idwk+ idwk+"),
        (Kind::Directory, 0o1777, "rliwk rlidwk rliwk rliwk rliwk"),
        (Kind::File, 0o644, "rlk rlwka rlk rlk rlk"),
        (Kind::File, 0o600, "l rlwka l l l"),
        (Kind::File, 0o060, "l la rlwk rlwk l"),
        (Kind::File, 0o111, "l la l l l"),
        (Kind::File, 0o666, "rlwk rlwka rlwk rlwk rlwk"),
        (Kind::Symlink, 0o777, "rl rla rl rl rl"),
    ] {
        let got_here = given(&object(kind, mode), &Nearest::None, &policy(true, "listed"));
        assert_eq!(got_here, got, "{kind:?} {mode:o}");
    }
    let read_only = given(&object(Kind::Directory, 0o777), &Nearest::None, &policy(true, "nobody"));
    assert_eq!(read_only, "rl rl rl rl rl");
}

#[test]
fn a_privileged_server_opens_for_writing_only_what_everybody_may_read() {
    let volume = policy(true, "dave");
    for (kind, mode, daves) in [
        (Kind::Directory, 0o755, "rlidwk"),
        (Kind::Directory, 0o700, "none"),
        (Kind::Directory, 0o711, "none+"),
        (Kind::File, 0o644, "rlidwk"),
        (Kind::File, 0o444, "rlidk"),
        (Kind::File, 0o600, "l"),
        (Kind::File, 0o640, "l"),
    ] {
        let got = given(&object(kind, mode), &Nearest::None, &volume);
        assert_eq!(got.split(' ').next_back(), Some(daves), "{kind:?} {mode:o}");
    }
}

#[test]
fn a_list_gives_what_it_says_and_mode_bits_add_nothing() {
    for (text, got) in [
        ("", "none none none none none"),
        ("system:anyuser=rl", "rl rl rl rl rl"),
        ("system:authuser=rlidwk", "none rlidwk rlidwk rlidwk rlidwk"),
        ("alice=write staff=read", "none rlidwk rl rl none"),
        ("alice@HERE=rl al@THERE=w", "none rlw none none none"),
        ("alice@THERE=rl", "none none none none none"),
        ("staff=rlidwk -friends=idw", "none none rlidwk rlk none"),
        ("system:anyuser=rl -dave=rl", "rl rl rl rl none"),
        ("system:anyuser=rl -system:anyuser=r", "l l l l l"),
        ("ghost=rl", "none none none none none"),
        ("system:anyuser=rl alice=rlidwk -ghost=w", "rl rlidk rl rl rl"),
        ("system:anyuser=rl -bob@THERE=r", "l l l l l"),
        ("system:anyuser=a", "a a a a a"),
        ("bob=rA", "none none rA none none"),
    ] {
        for privileged in [false, true] {
            for mode in [0o700, 0o777] {
                let object = object(Kind::Directory, mode);
                let volume = policy(privileged, "anyone");
                assert_eq!(given(&object, &acl(text), &volume), got, "{text}");
            }
        }
    }
    let unreadable = given(&object(Kind::Directory, 0o777), &Nearest::Unreadable, &policy(true, "anyone"));
    assert_eq!(unreadable, "none none none none none");
}

#[test]
fn the_owners_bits_mask_what_a_list_gives_over_a_file() {
    let list = acl("system:anyuser=rlidwk");
    for (mode, privileged, got) in [
        (0o644, true, "rlidwk rlidwka rlidwk rlidwk rlidwk"),
        (0o600, true, "rlidwk rlidwka rlidwk rlidwk rlidwk"),
        (0o400, true, "rlidk rlidwka rlidk rlidk rlidk"),
        (0o100, true, "rlidk rlidwka rlidk rlidk rlidk"),
        (0o077, true, "lidk rlidwka lidk lidk lidk"),
        // No user is known to own it: the server's files all are its own user's.
        (0o077, false, "lidk lidk lidk lidk lidk"),
    ] {
        assert_eq!(given(&object(Kind::File, mode), &list, &policy(privileged, "listed")), got, "{mode:o}");
    }
}

#[test]
fn an_owner_finishes_what_he_dropped_and_only_he() {
    let mut file = object(Kind::File, 0o600);
    file.owner = Owner { uid: Some(501), recorded: Some(Id(1001)) };
    let drop_box = acl("system:anyuser=li");
    for privileged in [false, true] {
        let volume = policy(privileged, "listed");
        assert_eq!(given(&file, &drop_box, &volume), "li li rliwa li li", "what is recorded counts");
        assert_eq!(given(&file, &acl("bob=l"), &volume), "none none la none none");
    }
    file.owner.recorded = Some(Id::ANONYMOUS);
    assert_eq!(given(&file, &drop_box, &policy(false, "listed")), "li li li li li");
}

#[test]
fn the_volumes_owner_can_mend_lists_and_administrators_can_everywhere() {
    let mut volume = policy(true, "listed");
    volume.owner = ALICES;
    let nothing = acl("");
    assert_eq!(given(&object(Kind::Directory, 0o700), &nothing, &volume), "none la none none none");
    let mut other = object(Kind::File, 0o600);
    other.owner = NOBODYS;
    assert_eq!(given(&other, &nothing, &volume), "none none none none none");

    let principals = principals();
    let root = &principals[5];
    let decide_for = |kind, mode, nearest: &Nearest, writable| {
        decide(root, &object(kind, mode), nearest, &policy(true, writable)).to_string()
    };
    for kind in [Kind::Directory, Kind::File, Kind::Symlink] {
        assert_eq!(decide_for(kind, 0, &Nearest::Unreadable, "listed"), "la");
        assert_eq!(
            decide_for(kind, 0, &acl("-system:administrators=la"), "listed"),
            "la",
            "not to be denied"
        );
        assert_eq!(decide_for(kind, 0, &nothing, "nobody"), "l");
    }
    assert_eq!(decide_for(Kind::File, 0, &acl("system:anyuser=rw"), "listed"), "rlwa", "no bits mask theirs");
    let operator = &principals[1];
    let all = decide(operator, &object(Kind::File, 0), &nothing, &policy(false, "listed"));
    assert!(all.contains(Rights::LISTED));
    let read_only = decide(operator, &object(Kind::File, 0), &nothing, &policy(false, "nobody"));
    assert_eq!((read_only & Rights::ALL).to_string(), "rl");
}

/// Checks properties of each answer, over every principal, kind, mode, owner, list and policy.
#[test]
fn what_holds_whatever_the_case() {
    let principals = principals();
    let lists = [
        Nearest::None,
        Nearest::Unreadable,
        acl(""),
        acl("system:anyuser=rlidwka"),
        acl("alice=rlidwka staff=rli -friends=l"),
        acl("system:authuser=rlidwkaAH -ghost=w"),
    ];
    let owners = [ALICES, NOBODYS, Owner::default(), Owner { uid: Some(501), recorded: Some(Id(1001)) }];
    let policies: Vec<VolumePolicy> = [false, true]
        .into_iter()
        .flat_map(|privileged| ["nobody", "listed", "anyone", "alice"].map(|text| policy(privileged, text)))
        .collect();
    let mut cases = 0u32;
    for kind in [Kind::Directory, Kind::File, Kind::Symlink] {
        for mode in (0..0o1000).chain([0o1777, 0o1755, 0o1700, 0o1007]) {
            for object in owners.map(|owner| Object { kind, mode, gid: 50, owner }) {
                for (list, volume) in
                    lists.iter().flat_map(|list| policies.iter().map(move |volume| (list, volume)))
                {
                    for who in &principals {
                        cases += 1;
                        check_rules(who, &object, list, volume);
                    }
                }
            }
        }
    }
    assert_eq!(cases, 3 * 516 * 4 * 6 * 8 * 7);
}

fn check_rules(who: &Principal, object: &Object, list: &Nearest, volume: &VolumePolicy) {
    let rights = decide(who, object, list, volume);
    let told = || format!("{who:?} {object:?} {list:?} {volume:?}: {rights:?}");
    let owns = object.owner.is(who, volume.privileged);
    let any = |wanted: Rights| rights.intersects(wanted);
    let is_read_only = volume.writable == Writable::Nobody;
    assert!(!is_read_only || !any(Rights::CHANGES | Rights::ADMINISTER), "{}", told());
    assert!(!any(Rights::LOOKUP) || any(Rights::TRAVERSE), "{}", told());
    let is_sticky = object.kind == Kind::Directory && volume.privileged && object.mode & 0o1000 != 0;
    let is_kept_from = is_sticky && !who.is_administrator() && !object.owner.is_by_mode(who);
    assert!(!(is_kept_from && any(Rights::DELETE)), "{}", told());
    assert!(is_kept_from || !any(Rights::DELETE_OWN), "{}", told());
    if who.is_local_administrator() {
        assert!(rights.contains(Rights::READER), "{}", told());
        return;
    }
    if who.is_administrator() {
        assert!(any(Rights::LOOKUP) && (is_read_only || any(Rights::ADMINISTER)), "{}", told());
        return;
    }
    if object.kind != Kind::Directory && !is_read_only {
        assert_eq!(any(Rights::ADMINISTER), owns, "{}", told());
    }
    match list {
        Nearest::Unreadable => assert!(rights.without(Rights::ADMINISTER).is_empty(), "{}", told()),
        Nearest::None => assert!(!any(Rights::AUXILIARY), "{}", told()),
        Nearest::List(acl) if acl.is_empty() => {
            assert!(rights.without(Rights::ADMINISTER).is_empty(), "{}", told());
        }
        Nearest::List(_) => {}
    }
    if object.kind == Kind::File && !owns && object.mode & 0o222 == 0 {
        assert!(!any(Rights::WRITE), "{}", told());
    }
    let is_hidden = object.mode & 0o007 == 0 && !owns && !who.gids().contains(&object.gid);
    if volume.privileged && *list == Nearest::None && is_hidden && object.kind != Kind::Symlink {
        assert!(!any(Rights::READ | Rights::CHANGES), "{}", told());
    }
}

#[test]
fn words_for_who_may_write() {
    for text in ["nobody", "listed", "anyone", "alice", "alice,staff", "bob@THERE", "system:authuser"] {
        assert_eq!(text.parse::<Writable>().unwrap().to_string(), text);
    }
    assert_eq!("staff, alice".parse::<Writable>().unwrap().to_string(), "alice,staff");
    assert_eq!("system:anyuser".parse::<Writable>().unwrap(), Writable::anyone());
    assert!(
        Writable::anyone().is_anyones() && "alice,system:anyuser".parse::<Writable>().unwrap().is_anyones()
    );
    assert!(!Writable::AsListed.is_anyones() && !"alice".parse::<Writable>().unwrap().is_anyones());
    for text in ["", "alice,", "a b", "-alice"] {
        let error = text.parse::<Writable>().unwrap_err().to_string();
        assert!(error.contains("give nobody, listed, anyone, or users"), "{error}");
    }
    assert!((0..21).map(|n| format!("u{n}")).collect::<Vec<_>>().join(",").parse::<Writable>().is_err());
}

#[test]
fn what_a_descriptor_gives_stands_but_for_who_mends_it_and_for_who_may_change_nothing() {
    let shown = |at: usize, kind, owner, given: &str, writable: &str| {
        let volume = VolumePolicy { owner, ..policy(true, writable) };
        decide_described(&principals()[at], &object(kind, 0), given.parse().unwrap(), &volume).to_string()
    };
    let (file, directory) = (Kind::File, Kind::Directory);
    for (at, kind, owner, given, writable, expected) in [
        // Bits and owners say nothing: the descriptor has heard of both.
        (2, file, NOBODYS, "none", "anyone", "none"),
        (2, file, ALICES, "rw", "anyone", "rw"),
        (0, file, NOBODYS, "rlidwka", "nobody", "rl"),
        (2, directory, ALICES, "none", "anyone", "la"),
        (5, file, NOBODYS, "none", "anyone", "la"),
        (1, file, NOBODYS, "none", "listed", "rlidwkaABCDEFGH"),
    ] {
        assert_eq!(shown(at, kind, owner, given, writable), expected, "{at} {kind:?} {given} {writable}");
    }
    let appends =
        decide_described(&principals()[2], &object(file, 0), Rights::APPEND, &policy(true, "nobody"));
    assert_eq!(appends, Rights::NONE);
}
