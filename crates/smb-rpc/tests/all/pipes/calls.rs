//! Answers of the interfaces, by caller.

use crate::pipes::world::{Stub, World, holds, returned, u16_at, u32_at};

fn share_enum(level: u32, resume: Option<u32>) -> Vec<u8> {
    let stub = Stub::default().words(&[0, level, level, 0x20000, 0, 0, u32::MAX]);
    match resume {
        Some(at) => stub.words(&[0x20004, at]).0,
        None => stub.words(&[0]).0,
    }
}

#[test]
fn shares_are_listed_and_where_they_are_is_told_to_administrators_alone() {
    let (alice, root) = (World::new("alice"), World::new("root"));
    for level in [0, 1, 501] {
        let all = alice.call(&mut alice.bound("srvsvc"), 15, &share_enum(level, None)).unwrap();
        assert_eq!((returned(&all), u32_at(&all, 12)), (0, 3), "{level}");
        assert!(holds(&all, "data\0") && holds(&all, "Häuser\0") && holds(&all, "IPC$\0"));
        assert_eq!(holds(&all, "All of it\0"), level > 0);
        assert!(!holds(&all, "/srv/data"));
    }
    for level in [2, 502] {
        let refused = alice.call(&mut alice.bound("srvsvc"), 15, &share_enum(level, None)).unwrap();
        assert_eq!((refused.len(), returned(&refused)), (24, 5), "{level}");
        let all = root.call(&mut root.bound("srvsvc"), 15, &share_enum(level, None)).unwrap();
        assert!(returned(&all) == 0 && holds(&all, "/srv/data\0"));
    }
    let refused = root.call(&mut root.bound("srvsvc"), 15, &share_enum(503, None)).unwrap();
    assert_eq!(returned(&refused), 124);
    let mismatched = Stub::default().words(&[0, 1, 2, 0x20000, 0, 0, u32::MAX, 0]).0;
    assert_eq!(alice.call(&mut alice.bound("srvsvc"), 15, &mismatched), Err(0x6f7));
}

#[test]
fn a_list_goes_on_where_the_client_says() {
    let world = World::new("alice");
    let mut pipe = world.bound("srvsvc");
    for (resume, count) in [(0, 3), (2, 1), (3, 0), (u32::MAX, 0)] {
        let all = world.call(&mut pipe, 15, &share_enum(1, Some(resume))).unwrap();
        assert_eq!((u32_at(&all, 12), u32_at(&all, all.len() - 4)), (count, 0), "{resume}");
        assert_eq!(u32_at(&all, all.len() - 16), 3, "how many there are does not change");
    }
}

#[test]
fn one_share_is_told_of_by_name_whatever_its_case() {
    let (alice, root) = (World::new("alice"), World::new("root"));
    let info = |world: &World, name: &str, level| {
        let stub = Stub::default().words(&[0]).text(name).words(&[level]).0;
        world.call(&mut world.bound("srvsvc"), 16, &stub).unwrap()
    };
    let one = info(&alice, "DATA", 1);
    assert!(returned(&one) == 0 && holds(&one, "data\0") && holds(&one, "All of it\0"));
    assert_eq!(u32_at(&info(&alice, "ipc$", 1), 12), 0x8000_0003);
    for (name, flags) in [("data", 0x800), ("häuser", 0)] {
        let told = info(&alice, name, 1005);
        assert_eq!((told.len(), u32_at(&told, 8), returned(&told)), (16, flags, 0), "{name}");
    }
    let all = info(&root, "häuser", 502);
    assert!(returned(&all) == 0 && holds(&all, "/srv/h\0"));
    assert_eq!((u32_at(&all, 24), u32_at(&all, 28)), (5, 0), "users at most, and now");
    for (world, name, level, error) in [
        (&alice, "none", 1, 2310),
        (&alice, "data", 2, 5),
        (&alice, "data", 502, 5),
        (&root, "data", 1501, 124),
    ] {
        let refused = info(world, name, level);
        assert_eq!((u32_at(&refused, 4), returned(&refused)), (0, error), "{name} {level}");
    }
}

#[test]
fn the_server_and_the_machine_tell_their_name_and_version() {
    let (alice, root, nobody) = (World::new("alice"), World::new("root"), World::new("anonymous"));
    let ask = |world: &World, pipe, number, level| {
        let stub = Stub::default().words(&[0x20000]).text("\\\\files").words(&[level]).0;
        world.call(&mut world.bound(pipe), number, &stub).unwrap()
    };
    for (world, level) in [(&alice, 100), (&alice, 101), (&root, 102)] {
        let server = ask(world, "srvsvc", 21, level);
        assert!(returned(&server) == 0 && holds(&server, "FILES\0"));
        assert_eq!(holds(&server, "for tests\0"), level > 100);
        let machine = ask(world, "wkssvc", 0, level);
        assert!(returned(&machine) == 0 && holds(&machine, "FILES\0") && holds(&machine, "WORKGROUP\0"));
    }
    assert_eq!(returned(&ask(&nobody, "wkssvc", 0, 100)), 0);
    for (world, pipe, number, level, error) in [
        (&alice, "srvsvc", 21, 102, 5),
        (&alice, "srvsvc", 21, 502, 124),
        (&alice, "wkssvc", 0, 102, 5),
        (&nobody, "wkssvc", 0, 101, 5),
        (&alice, "wkssvc", 0, 7, 124),
    ] {
        let refused = ask(world, pipe, number, level);
        assert_eq!((u32_at(&refused, 4), returned(&refused)), (0, error), "{pipe} {level}");
    }
    let tod = alice.call(&mut alice.bound("srvsvc"), 28, &[0; 4]).unwrap();
    let words: Vec<u32> = (1..13).map(|at| u32_at(&tod, 4 * at)).collect();
    assert_eq!(words, [951_782_399, 5000, 23, 59, 59, 0, 0, 310, 28, 2, 2000, 1]);
}

#[test]
fn who_else_is_here_and_every_change_is_refused() {
    let root = World::new("root");
    let mut pipe = root.bound("srvsvc");
    for (number, texts) in [(8, 1), (9, 2), (12, 2)] {
        let stub = Stub::default().words(&vec![0; 1 + texts]).words(&[1, 1, 0x20000, 0, 0, u32::MAX, 0]).0;
        let refused = root.call(&mut pipe, number, &stub).unwrap();
        assert_eq!((refused.len(), returned(&refused)), (24, 5), "{number}");
    }
    for number in [10, 11, 13, 14, 17, 18, 22] {
        assert_eq!(root.call(&mut pipe, number, &[0; 64]), Err(5), "{number}");
    }
}

fn opened(world: &World) -> (smb_rpc::Pipe, Vec<u8>) {
    let mut pipe = world.bound("lsarpc");
    let answer = world.call(&mut pipe, 44, &[0; 40]).unwrap();
    assert_eq!(returned(&answer), 0);
    (pipe, answer[..20].to_vec())
}

#[test]
fn a_policy_is_opened_by_who_has_said_who_he_is_and_closed_once() {
    let nobody = World::new("anonymous");
    let answer = nobody.call(&mut nobody.bound("lsarpc"), 6, &[0; 40]).unwrap();
    assert_eq!((&answer[..20], returned(&answer)), (&[0; 20][..], 0xc000_0022));
    let alice = World::new("alice");
    let (mut pipe, handle) = opened(&alice);
    assert_eq!(returned(&alice.call(&mut pipe, 0, &handle).unwrap()), 0);
    assert_eq!(alice.call(&mut pipe, 0, &handle), Err(0x1c00_001a));
    for _ in 0..64 {
        assert_eq!(returned(&alice.call(&mut pipe, 6, &[]).unwrap()), 0);
    }
    assert_eq!(returned(&alice.call(&mut pipe, 6, &[]).unwrap()), 0xc000_009a);
}

#[test]
fn the_accounts_have_a_domain_and_the_machine_is_in_none() {
    let alice = World::new("alice");
    let (mut pipe, handle) = opened(&alice);
    let mut query = |class: u16| {
        let stub = Stub::default().bytes(&handle).bytes(&class.to_le_bytes()).0;
        alice.call(&mut pipe, 7, &stub).unwrap()
    };
    let account = query(5);
    assert!(returned(&account) == 0 && holds(&account, "FILES"));
    let mut sid = Vec::new();
    alice.sids.domain().write(&mut sid);
    assert_eq!(account[account.len() - 4 - sid.len()..account.len() - 4], sid);
    assert!(holds(&query(3), "WORKGROUP") && holds(&query(12), "WORKGROUP"));
    assert_eq!((u16_at(&query(6), 4), u16_at(&query(6), 6), returned(&query(6))), (6, 3, 0));
    assert_eq!((query(2).len(), returned(&query(2))), (8, 0xc000_000d));
    let name = alice.call(&mut pipe, 45, &[0; 12]).unwrap();
    assert!(returned(&name) == 0 && holds(&name, "alice") && holds(&name, "FILES"));
}

/// Arguments of a look-up of names, without what servers pass over.
fn lookup_names(handle: &[u8], names: &[&str]) -> Vec<u8> {
    let count = names.len() as u32;
    let mut stub = Stub::default().bytes(handle).words(&[count, count]);
    for name in names {
        let len = 2 * name.encode_utf16().count() as u32;
        stub = stub.words(&[len | len << 16, 0x20000]);
    }
    for name in names {
        let units: Vec<u16> = name.encode_utf16().collect();
        let len = units.len() as u32;
        stub = stub.words(&[len, 0, len]);
        stub.0.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
    }
    stub.words(&[0, 0, 1, 0]).0
}

#[test]
fn names_and_identifiers_are_told_and_what_is_nobodys_stands_beside() {
    let alice = World::new("alice");
    let (mut pipe, handle) = opened(&alice);
    let mut call = |number, stub: &[u8]| alice.call(&mut pipe, number, stub).unwrap();
    for (names, status) in [
        (&["alice", "files\\staff", "Everyone"][..], 0),
        (&["alice", "nobody"], 0x107),
        (&["nobody"], 0xc000_0073),
        (&[], 0),
    ] {
        for number in [14, 58, 68] {
            assert_eq!(returned(&call(number, &lookup_names(&handle, names))), status, "{names:?} {number}");
        }
    }
    // One user: domain list, one entry of kind 1, number 1000 + 999, domain 0.
    let one = call(14, &lookup_names(&handle, &["ALICE"]));
    let words: Vec<u32> = one[one.len() - 28..].chunks(4).map(|word| u32_at(word, 0)).collect();
    assert_eq!(words[1..], [1, 1, 1999, 0, 1, 0].map(|word: u32| word)[..], "{words:x?}");

    let ids = [identity::Id(1000), identity::Id::ANYUSER, identity::Id(5)];
    let mut stub = Stub::default().bytes(&handle).words(&[3, 0x20000, 3, 0x20004, 0x20008, 0x2000c]).0;
    for id in ids {
        let sid = alice.sids.of_id(id);
        stub.extend((sid.sub_authorities().len() as u32).to_le_bytes());
        sid.write(&mut stub);
    }
    stub.extend([0; 16]);
    for number in [15, 57] {
        let found = call(number, &stub);
        assert_eq!((returned(&found), u32_at(&found, found.len() - 8)), (0x107, 2), "{number}");
        assert!(holds(&found, "alice") && holds(&found, "Everyone"));
        assert!(holds(&found, &alice.sids.of_id(ids[2]).to_string()));
    }
    for number in [76, 77] {
        assert_eq!(returned(&call(number, &stub[20..])), 0xc000_0022, "{number}");
    }
}

#[test]
fn look_ups_whose_counts_lie_are_no_arguments() {
    let alice = World::new("alice");
    let (mut pipe, handle) = opened(&alice);
    let with = |words: &[u32]| Stub::default().bytes(&handle).words(words).0;
    for (number, stub) in [
        (14, with(&[1, 2, 0, 0])),
        (14, with(&[1001, 1001])),
        (14, with(&[u32::MAX, u32::MAX])),
        (14, with(&[1, 1, 0x0004_0004, 0x20000, 1, 0, 1, 0x41])),
        (15, with(&[1, 0])),
        (15, with(&[1, 0x20000, 1, 0])),
        (15, with(&[u32::MAX, 0x20000, u32::MAX])),
        (15, with(&[1, 0x20000, 1, 0x20000, 1, 0x0000_0301])),
        (15, handle[..19].to_vec()),
        (7, handle.clone()),
    ] {
        assert_eq!(
            alice.call(&mut pipe, number, &stub),
            Err(0x6f7),
            "{number} {:?}",
            &stub[20.min(stub.len())..]
        );
    }
    assert_eq!(alice.call(&mut pipe, 15, &[1; 40]), Err(0x1c00_001a));
}
