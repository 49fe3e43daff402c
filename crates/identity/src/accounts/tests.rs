use std::path::Path;

use super::*;

const SAMPLE: &str = r#"
version = 1
realm = "EXAMPLE.COM"

[user.alice]
id = 1000
uid = 501
gid = 500
principals = ["alice/admin@EXAMPLE.COM", "al@OTHER.ORG"]

[user.bob]
id = 1001
disabled = true

[user.carol]
id = 1002

[group.staff]
id = -1000
gid = 50
members = ["alice", "alice:friends"]

[group."alice:friends"]
id = -1001
members = ["carol"]

[group."system:administrators"]
members = ["alice"]
"#;

fn ids(ids: &[i32]) -> Vec<Id> {
    ids.iter().copied().map(Id).collect()
}

#[test]
fn a_subdomain_is_oneself_everybody_and_all_groups_through_groups_too() {
    let accounts = Accounts::parse(SAMPLE).unwrap();
    let alice = accounts.user("alice").unwrap();
    assert_eq!(alice.subdomain(), ids(&[-1000, -204, -102, -101, 1000]));
    assert_eq!((alice.uid(), alice.gids()), (Some(501), &[500, 50][..]));
    assert!(alice.is_administrator() && alice.is_user() && !alice.is_local_administrator());
    let carol = accounts.user("carol").unwrap();
    assert_eq!(carol.subdomain(), ids(&[-1001, -1000, -102, -101, 1002]));
    assert_eq!((carol.uid(), carol.gids()), (None, &[50][..]));
    assert_eq!(accounts.anonymous().subdomain(), ids(&[-101, 32766]));
    assert!(accounts.local_administrator().is_administrator());
    assert_eq!(accounts.users()[2].groups, ["alice:friends", "staff"]);
    assert_eq!(accounts.groups()[2].id, Id::ADMINISTRATORS);
}

#[test]
fn posix_users_and_groups_lead_back_to_whom_they_were_given_first() {
    let accounts = Accounts::parse(SAMPLE).unwrap();
    assert_eq!((accounts.user_of_uid(501), accounts.group_of_gid(50)), (Some(Id(1000)), Some(Id(-1000))));
    // A user's first group is no group of the file.
    assert_eq!((accounts.user_of_uid(50), accounts.group_of_gid(500)), (None, None));
    let twice = "version = 1\n[user.a]\nid = 9\nuid = 501\n[user.b]\nid = 3\nuid = 501\n";
    assert_eq!(Accounts::parse(twice).unwrap().user_of_uid(501), Some(Id(3)));
}

#[test]
fn a_user_is_found_by_name_number_and_realm() {
    let accounts = Accounts::parse(SAMPLE).unwrap();
    for who in ["alice", "alice@EXAMPLE.COM", "alice/admin@EXAMPLE.COM", "al@OTHER.ORG"] {
        assert_eq!(accounts.user_of_realm(&who.parse().unwrap()).unwrap().id(), Id(1000), "{who}");
    }
    for who in ["al", "alice@OTHER.ORG", "staff", "system:anyuser", "nobody"] {
        assert!(accounts.user_of_realm(&who.parse().unwrap()).is_err(), "{who}");
    }
    assert_eq!(accounts.user_by_id(Id(1002)).unwrap().name(), "carol");
    assert_eq!(accounts.name_of(Id(-1001)), Some("alice:friends"));
    assert_eq!(accounts.name_of(Id::ANYUSER), Some("system:anyuser"));
    assert_eq!(accounts.user("bob").unwrap_err(), Refused::Disabled);
    assert_eq!(accounts.user_by_id(Id(1001)).unwrap_err(), Refused::Disabled);
    assert_eq!(accounts.user_by_id(Id(-1001)).unwrap_err(), Refused::Unknown);
}

#[test]
fn a_renewed_principal_is_the_same_user_or_nobody() {
    let before = Accounts::parse(SAMPLE).unwrap();
    let [alice, carol] = ["alice", "carol"].map(|name| before.user(name).unwrap());
    let changed = SAMPLE.replace("\"alice\", ", "").replace("id = 1002", "id = 1003");
    let after = Accounts::parse(&changed).unwrap();
    assert!(after.generation() > before.generation());
    let renewed = after.renewed(&alice).unwrap();
    assert_eq!(renewed.generation(), after.generation());
    assert!(!renewed.is_member(Id(-1000)));
    assert!(after.renewed(&carol).is_none(), "another number is another person");
    let disabled = Accounts::parse(&SAMPLE.replace("id = 1000", "id = 1000\ndisabled = true")).unwrap();
    assert!(disabled.renewed(&alice).is_none());
    assert!(disabled.renewed(&before.anonymous()).unwrap().is_anonymous());
    assert!(disabled.renewed(&before.local_administrator()).unwrap().is_local_administrator());
}

#[test]
fn mistakes_are_refused_with_their_place() {
    let user = "[user.alice]\nid = 1000\n";
    for (text, told) in [
        ("", "version: is missing: write `version = 1` above all else"),
        ("version = 2\nnews = true", "it is of version 2, this program knows version 1"),
        (
            "version = 1\nrealms = 'X'",
            "line 2: realms: unknown key `realms`: the keys here are `version`, `realm`",
        ),
        (
            "version = 1\n[user.a]\nid = 1000\npasword = 'x'",
            "line 4: user.a.pasword: unknown key `pasword`: the keys here are `id`",
        ),
        (
            "version = 1\n[user.a]\nid = 1000\npassword = 'secret'",
            "line 4: user.a.password: it is no argon2id hash",
        ),
        (
            "version = 1\n[user.a]\nid = 'x'",
            "line 3: user.a.id: this is the text \"x\", where a number from -2147483648 to 2147483647 is wanted",
        ),
        (
            "version = 1\n[user.a]\nid = 1000\nuid = -1",
            "line 4: user.a.uid: this is the number -1, where a number from 0 to 4294967295 is wanted",
        ),
        ("version = 1\n[user]\na = [1000]", "line 3: user.a: this is a list, where a table is wanted"),
        ("version = 1\n[[user]]\nid = 1", "line 2: user: this is a list, where a table is wanted"),
        ("version = '1'", "line 1: version: this is the text \"1\", where a number is wanted"),
        (
            "version = 1\n[user.a]\nid = 1000\ndisabled = 'yes'",
            "line 4: user.a.disabled: this is the text \"yes\", where true or false is wanted",
        ),
        (
            "version = 1\n[group.g]\nid = -1000\nmembers = 'a'",
            "line 4: group.g.members: this is the text \"a\", where a list is wanted",
        ),
        ("version = 1\n[user.a]\nuid = 7", "line 2: user.a: the key `id` is missing here"),
        (
            "version = 1\n[user.a]\nid = 1000\nnt = 55555555",
            "line 4: user.a.nt: this is a number, where a text is wanted",
        ),
        ("version = 1\n[user.a", "line 2: "),
        ("version = 1\nrealm = 'a b'", "realm: "),
        ("version = 1\n[user.Alice]\nid = 1000", "user.Alice: \"Alice\" cannot be a name"),
        ("version = 1\n[user.a]\nid = -1000", "user.a.id: numbers of users are positive"),
        (
            "version = 1\n[user.a]\nid = 32766",
            "user.a.id: numbers of users are positive, and 32766 is anonymous",
        ),
        ("version = 1\n[user.a]\nid = 1000\nuid = 0", "user.a.uid: nobody acts as root"),
        (
            "version = 1\n[user.a]\nid = 1000\nuid = 4294967295",
            "user.a.uid: 4294967295 is -1, by which system calls",
        ),
        (
            "version = 1\n[user.a]\nid = 1000\ngid = 4294967295",
            "user.a.gid: 4294967295 is -1, by which system calls",
        ),
        ("version = 1\n[group.g]\nid = -1000\ngid = 4294967295", "group.g.gid: 4294967295 is -1"),
        ("version = 1\n[user.a]\nid = 1000\nprincipals = ['b']", "user.a.principals: b has no realm"),
        ("version = 1\n[group.g]", "group.g: its id is missing"),
        (
            "version = 1\n[group.g]\nid = -101",
            "group.g.id: numbers of groups are negative, and those above -1000",
        ),
        ("version = 1\n[group.g]\nid = -1000\ngid = 0", "group.g.gid: nobody acts as root"),
        ("version = 1\n[group.'system:anyuser']\nid = -101", "group.system:anyuser: "),
        ("version = 1\n[group.'system:administrators']\nid = -5", "group.system:administrators.id: "),
        (
            "version = 1\n[group.g]\nid = -1000\nmembers = ['x']",
            "group.g.members: there is no user or group \"x\"",
        ),
        (
            "version = 1\n[group.g]\nid = -1000\nmembers = ['system:authuser']",
            "group.g.members: system:authuser cannot be a member",
        ),
        (
            "version = 1\n[group.g]\nid = -1000\nmembers = ['g']",
            "group.g.members: a group holds itself: g > g",
        ),
    ] {
        let error = Accounts::parse(text).unwrap_err().to_string();
        assert!(error.starts_with(told), "{text:?}: {error}");
        assert!(!error.contains("secret") && !error.contains('\n'), "{error}");
    }
    for (more, told) in [
        ("[user.bob]\nid = 1000", "user.bob.id: user.alice has 1000 too"),
        ("[group.alice]\nid = -1000", "group.alice: a user has this name too"),
        (
            "[user.bob]\nid = 1001\nprincipals = ['alice@R']",
            "user.bob.principals: alice@R is somebody else too",
        ),
    ] {
        let error =
            Accounts::parse(&format!("version = 1\nrealm = 'R'\n{user}{more}")).unwrap_err().to_string();
        assert_eq!(error, told);
    }
}

/// Returns accounts with groups nested `count` deep: `g0` in `g1` and so on.
fn nested(count: usize) -> String {
    let mut text = "version = 1\n[user.alice]\nid = 1000\n".to_owned();
    for n in 0..count {
        let member = if n == 0 { "alice".to_owned() } else { format!("g{}", n - 1) };
        text += &format!("[group.g{n}]\nid = -{}\nmembers = ['{member}']\n", 1000 + n);
    }
    text
}

#[test]
fn groups_lie_in_each_other_to_a_depth_of_16_and_never_in_a_circle() {
    let deepest = Accounts::parse(&nested(Accounts::NESTING_MAX)).unwrap();
    assert_eq!(deepest.user("alice").unwrap().subdomain().len(), 3 + Accounts::NESTING_MAX);
    let error = Accounts::parse(&nested(Accounts::NESTING_MAX + 1)).unwrap_err().to_string();
    assert!(error.contains("more than 16 groups lie in each other"), "{error}");
    let circle = nested(3).replace("'alice'", "'alice', 'g2'");
    let error = Accounts::parse(&circle).unwrap_err().to_string();
    assert_eq!(error, "group.g0.members: a group holds itself: g0 > g2 > g1 > g0");
    // Many ways up are no circle, and cost no more than there are groups.
    let mut wide = nested(2);
    for n in 2..14 {
        wide += &format!("[group.g{n}]\nid = -{}\nmembers = ['g{}', 'g{}']\n", 1000 + n, n - 1, n - 2);
    }
    assert_eq!(Accounts::parse(&wide).unwrap().user("alice").unwrap().subdomain().len(), 3 + 14);
}

#[test]
fn passwords_are_verified_and_nobody_is_told_from_somebody() {
    let cheap = Strength { memory_kib: 8, passes: 1, lanes: 1 };
    let hash = PasswordHash::new(&"open sesame".into(), cheap).to_text();
    let with = |more: &str| {
        let text = format!("version = 1\n[user.alice]\nid = 1000\npassword = '{}'\n{more}", *hash);
        Accounts::parse(&text).unwrap()
    };
    let accounts = with("[user.bob]\nid = 1001");
    assert_eq!(accounts.verify("alice", &"open sesame".into()).unwrap().id(), Id(1000));
    for (name, password, refused) in [
        ("alice", "open", Refused::Wrong),
        ("alice", "", Refused::Wrong),
        ("Alice", "open sesame", Refused::Unknown),
        ("mallory", "open sesame", Refused::Unknown),
        ("bob", "open sesame", Refused::NoVerifier),
        ("bob", "", Refused::NoVerifier),
    ] {
        assert_eq!(accounts.verify(name, &password.into()).unwrap_err(), refused, "{name} {password}");
    }
    assert_eq!(accounts.decoy.strength(), cheap, "as much work for nobody as for most");
    let disabled = with("disabled = true");
    assert_eq!(disabled.verify("alice", &"open sesame".into()).unwrap_err(), Refused::Disabled);
    assert_eq!(Accounts::none().decoy.strength(), Strength::default());
}

#[test]
fn an_nt_hash_is_that_of_the_user_or_one_that_nothing_fits() {
    let nt = NtHash::new(&"Password".into()).unwrap();
    let text =
        format!("version = 1\n[user.alice]\nid = 1000\nnt = '{}'\n[user.bob]\nid = 1001", *nt.to_text());
    let accounts = Accounts::parse(&text).unwrap();
    assert_eq!(accounts.nt_hash("alice").expose(), nt.expose());
    let decoy = accounts.nt_hash("bob").expose();
    assert_eq!(accounts.nt_hash("mallory").expose(), decoy);
    let disabled = Accounts::parse(&text.replace("id = 1000", "id = 1000\ndisabled = true")).unwrap();
    assert_ne!(disabled.nt_hash("alice").expose(), nt.expose());
}

#[test]
fn numbers_of_those_who_are_gone_are_not_given_again() {
    let next = |text: &str| {
        Accounts::parse(&format!("version = 1\n{text}")).unwrap().next_ids().map(|id| id.map(|id| id.0))
    };
    assert_eq!(next(""), [Some(1000), Some(-1000)]);
    assert_eq!(next("last_user = 1005\nlast_group = -1007"), [Some(1006), Some(-1008)]);
    let text = "last_user = 5\n[user.a]\nid = 1010\n[group.g]\nid = -2000";
    assert_eq!(next(text), [Some(1011), Some(-2001)]);
    assert_eq!(next("last_user = 32765"), [Some(32767), Some(-1000)], "32766 is anonymous");
    assert_eq!(next("last_user = 2147483646\nlast_group = -2147483647"), [Some(i32::MAX), Some(i32::MIN)]);
    assert_eq!(next("last_user = 2147483647\nlast_group = -2147483648"), [None, None]);
    assert_eq!(next("[user.a]\nid = 2147483647\n[group.g]\nid = -2147483648"), [None, None]);
}

#[test]
fn nothing_of_a_user_is_printed() {
    let shown = format!("{:?} {:?}", Accounts::parse(SAMPLE).unwrap(), Accounts::none().anonymous());
    assert!(!shown.contains("alice"), "{shown}");
}

#[test]
fn what_is_no_value_of_a_key_is_told_with_line_and_key_in_words_of_files() {
    let values = [
        "-1",
        "0",
        "1.5",
        "true",
        "'x'",
        "''",
        "[[1]]",
        "{ a = 1 }",
        "1979-05-27",
        "99999999999",
        "99999999999999999999",
        "[]",
    ];
    let user = ["id", "password", "nt", "uid", "gid", "principals", "disabled"].map(|key| ("user.a", key));
    let group = ["id", "gid", "members"].map(|key| ("group.g", key));
    let top = ["version", "realm", "last_user", "last_group", "user", "group"].map(|key| ("", key));
    let mut refused = 0;
    for (table, key) in top.into_iter().chain(user).chain(group) {
        for value in values {
            let id = if key == "id" { "" } else { "id = 1000\n" };
            let line = format!("{key} = {value}");
            let (text, at) = match table {
                "" if key == "version" => (line.clone(), 1),
                "" => (format!("version = 1\n{line}"), 2),
                table => {
                    let id =
                        if table.starts_with("group") { id.replace("1000", "-1000") } else { id.to_owned() };
                    (format!("version = 1\n[{table}]\n{line}\n{id}"), 3)
                }
            };
            let Err(error) = Accounts::parse(&text) else { continue };
            refused += 1;
            let told = error.in_file(Path::new("/x"), &text).to_string();
            let named = if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") };
            assert!(
                told.starts_with(&format!("/x: line {at}: {named}")) || told.contains("it is of version"),
                "{text}: {told}"
            );
            for word in [
                "invalid",
                "expected",
                "i32",
                "u32",
                "i64",
                "map",
                "sequence",
                "struct",
                "unknown field",
                "integer",
            ] {
                assert!(!told.contains(word), "{text}: {told}");
            }
        }
    }
    assert!(refused > 120, "{refused}");
}
