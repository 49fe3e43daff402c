use super::*;
use crate::secret::Secret;
use crate::verifier::Strength;

const WRITTEN: &str = r#"# Ours.
version = 1 # of the format

# She founded it.
[user.alice]
id = 1000
uid = 501 # as on the workstations

[user.bob]
id = 1001

[group.staff]
id = -1000
members = ["alice", "bob"] # all of us
"#;

fn edited(text: &str, edit: impl FnOnce(&mut Edit)) -> String {
    let mut editing = Edit::new(text).unwrap();
    edit(&mut editing);
    editing.finish().unwrap().to_string()
}

fn user(name: &str) -> NewUser {
    NewUser { name: name.to_owned(), ..NewUser::default() }
}

#[test]
fn comments_and_order_stay() {
    assert_eq!(edited(WRITTEN, |_| {}), WRITTEN);
    let changed = edited(WRITTEN, |edit| {
        assert_eq!(edit.add_user(&NewUser { gid: Some(7), ..user("carol") }).unwrap(), Id(1002));
        assert!(edit.add_member("staff", "carol").unwrap());
        assert!(!edit.add_member("staff", "carol").unwrap(), "she is in it");
        edit.set_disabled("bob", true).unwrap();
    });
    let wanted = r#"# Ours.
version = 1 # of the format
last_user = 1002

# She founded it.
[user.alice]
id = 1000
uid = 501 # as on the workstations

[user.bob]
id = 1001
disabled = true

[user.carol]
id = 1002
gid = 7

[group.staff]
id = -1000
members = [
    "alice",
    "bob",
    "carol",
] # all of us
"#;
    assert_eq!(changed, wanted);
    let back = edited(&changed, |edit| {
        edit.remove_user("carol").unwrap();
        edit.set_disabled("bob", false).unwrap();
    });
    assert!(!back.contains("carol") && !back.contains("disabled"), "{back}");
    let next =
        edited(&back, |edit| assert_eq!(edit.add_user(&user("dave")).unwrap(), Id(1003), "1002 stays hers"));
    assert!(next.contains("last_user = 1003"));
}

#[test]
fn a_user_may_have_a_number_and_names_of_other_realms() {
    let carol = NewUser {
        id: Some(Id(77)),
        principals: vec!["carol@R".parse().unwrap(), "c@S".parse().unwrap()],
        ..user("carol")
    };
    let text = edited(WRITTEN, |edit| assert_eq!(edit.add_user(&carol).unwrap(), Id(77)));
    let accounts = Accounts::parse(&text).unwrap();
    assert_eq!(accounts.user_of_realm(&"c@S".parse().unwrap()).unwrap().id(), Id(77));
    assert!(!text.contains("last_user"), "the next is none after 77");
    let mut editing = Edit::new(WRITTEN).unwrap();
    let taken = editing.add_user(&NewUser { id: Some(Id(1000)), ..user("carol") }).unwrap_err().to_string();
    assert_eq!(taken, "user.carol.id: user.alice has 1000 too");
}

#[test]
fn names_are_taken_once_and_those_who_are_not_there_are_named() {
    let told = |edit: fn(&mut Edit) -> Result<(), AccountsError>| {
        edit(&mut Edit::new(WRITTEN).unwrap()).unwrap_err().to_string()
    };
    assert_eq!(told(|edit| edit.add_user(&user("alice")).map(drop)), "there is a user alice already");
    assert_eq!(told(|edit| edit.add_user(&user("staff")).map(drop)), "there is a group staff already");
    assert_eq!(told(|edit| edit.add_group("bob", None).map(drop)), "there is a user bob already");
    assert!(
        told(|edit| edit.add_user(&user("Bob")).map(drop)).starts_with("the name: \"Bob\" cannot be a name")
    );
    assert!(
        told(|edit| edit.add_group("system:anyuser", None).map(drop)).contains("only system:administrators")
    );
    assert_eq!(told(|edit| edit.remove_user("eve")), "there is no user eve");
    assert_eq!(told(|edit| edit.remove_group("alice")), "there is no group alice");
    assert_eq!(told(|edit| edit.set_disabled("eve", true)), "there is no user eve");
    assert_eq!(told(|edit| edit.set_password("eve", None, None)), "there is no user eve");
    assert_eq!(told(|edit| edit.add_member("eve", "bob").map(drop)), "there is no group eve");
    assert_eq!(told(|edit| edit.remove_member("staff", "eve")), "eve is not in the group staff");
    assert!(told(|edit| edit.add_member("staff", "eve").map(drop)).contains("no user or group \"eve\""));
    assert!(told(|edit| edit.add_member("staff", "staff").map(drop)).contains("holds itself: staff > staff"));
}

#[test]
fn groups_come_go_and_take_their_memberships_along() {
    let text = edited(WRITTEN, |edit| {
        assert_eq!(edit.add_group("alice:friends", Some(7)).unwrap(), Id(-1001));
        assert!(edit.add_member("staff", "alice:friends").unwrap());
        assert!(edit.add_member("alice:friends", "bob").unwrap());
        assert!(edit.add_member("system:administrators", "alice").unwrap(), "made with its first member");
    });
    let accounts = Accounts::parse(&text).unwrap();
    assert!(accounts.user("alice").unwrap().is_administrator());
    assert_eq!(accounts.groups().len(), 3);
    let text = edited(&text, |edit| {
        edit.remove_group("alice:friends").unwrap();
        edit.remove_member("staff", "alice").unwrap();
        edit.remove_member("staff", "bob").unwrap();
    });
    assert!(text.contains("members = [] # all of us"), "{text}");
    assert!(
        Accounts::parse(&text).unwrap().users().iter().all(|user| !user.groups.contains(&"staff".to_owned()))
    );
    assert_eq!(Accounts::parse(&text).unwrap().next_ids()[1], Some(Id(-1002)));
}

#[test]
fn a_password_replaces_all_that_the_old_one_left() {
    let strength = Strength { memory_kib: 8, passes: 1, lanes: 1 };
    let password = |text: &str| PasswordHash::new(&text.into(), strength);
    let nt = NtHash::new(&"old".into()).unwrap();
    let with_old = edited(WRITTEN, |edit| {
        edit.set_password("alice", Some(&password("old")), Some(&nt)).unwrap();
    });
    assert!(with_old.contains(&**nt.to_text()));
    let with_new =
        edited(&with_old, |edit| edit.set_password("alice", Some(&password("new")), None).unwrap());
    assert!(!with_new.contains(&**nt.to_text()), "it would let the old password in by SMB");
    let accounts = Accounts::parse(&with_new).unwrap();
    let fits = |password: &str| accounts.verify("alice", &Secret::from(password)).is_ok();
    assert!(fits("new") && !fits("old"));
    let without = edited(&with_new, |edit| edit.set_password("alice", None, None).unwrap());
    assert_eq!(without, WRITTEN);
}

#[test]
fn tables_that_a_person_wrote_inline_are_understood() {
    let text = "version = 1\nuser = { alice = { id = 1000 } }\n[group]\nstaff = { id = -1000, members = ['alice'] }\n";
    let text = edited(text, |edit| {
        edit.add_user(&user("bob")).unwrap();
        edit.add_member("staff", "bob").unwrap();
        edit.set_disabled("alice", true).unwrap();
    });
    let accounts = Accounts::parse(&text).unwrap();
    assert!(accounts.users()[0].disabled && accounts.users()[1].groups == ["staff"], "{text}");
}

#[test]
fn users_are_imported_together_and_those_that_there_are_keep_all_but_their_hash() {
    let [old, new] = ["old", "new"].map(|password| NtHash::new(&password.into()).unwrap());
    let password = PasswordHash::new(&"web".into(), Strength { memory_kib: 8, passes: 1, lanes: 1 });
    let with_old = edited(WRITTEN, |edit| edit.set_password("bob", Some(&password), Some(&old)).unwrap());
    let named = |name: &str| NewUser { nt: Some(new.clone()), uid: Some(1002), ..user(name) };
    let users = [named("carol"), named("bob"), named("dave")];
    let mut editing = Edit::new(&with_old).unwrap();
    assert!(matches!(editing.import_users(&users, false), Err(AccountsError::Exists(_))));
    assert!(
        matches!(editing.import_users(&[named("staff")], true), Err(AccountsError::Exists(_))),
        "a group"
    );
    let changed = edited(&with_old, |edit| {
        let done = edit.import_users(&users, true).unwrap();
        assert_eq!(done, [(Id(1002), false), (Id(1001), true), (Id(1003), false)]);
    });
    let accounts = Accounts::parse(&changed).unwrap();
    assert!(["bob", "carol", "dave"].iter().all(|name| accounts.nt_hash(name).expose() == new.expose()));
    assert!(accounts.verify("bob", &"web".into()).is_ok(), "other services know him as before");
    assert_eq!(accounts.user("bob").unwrap().uid(), None);
    assert_eq!(accounts.user("carol").unwrap().uid(), Some(1002));
    assert!(changed.contains("last_user = 1003\n") && accounts.next_ids()[0] == Some(Id(1004)));
    assert_eq!(edited(WRITTEN, |edit| drop(edit.import_users(&[], false).unwrap())), WRITTEN);
}

#[test]
fn after_the_last_number_none_is_given_again() {
    let file = "version = 1\nlast_user = 2147483647\nlast_group = -2147483648\n";
    let alice = || NewUser { name: "alice".to_owned(), ..NewUser::default() };
    let refused = |change: &dyn Fn(&mut Edit) -> Result<(), AccountsError>| {
        let mut edit = Edit::new(file).unwrap();
        let told = change(&mut edit).unwrap_err().to_string();
        assert_eq!(*edit.finish().unwrap(), file, "nothing is changed");
        told
    };
    for told in [
        refused(&|edit| edit.add_user(&alice()).map(drop)),
        refused(&|edit| edit.import_users(&[alice()], false).map(drop)),
        refused(&|edit| edit.add_group("staff", None).map(drop)),
    ] {
        assert!(told.contains("no number is left for a "), "{told}");
    }
    let told = refused(&|edit| edit.add_user(&alice()).map(drop));
    assert!(told.ends_with("numbers are not given twice; give one that is free by `--id`"), "{told}");
    let mut edit = Edit::new(file).unwrap();
    assert_eq!(
        edit.add_user(&NewUser { id: Some(Id(7)), ..alice() }).unwrap(),
        Id(7),
        "a free one that was named"
    );
    assert_eq!(edit.add_group("system:administrators", None).unwrap(), Id::ADMINISTRATORS);
    let text = edit.finish().unwrap();
    assert!(text.contains("last_user = 2147483647\n"), "{}", *text);

    // The last ones are given, and to one each.
    let mut edit = Edit::new("version = 1\nlast_user = 2147483646\nlast_group = -2147483647\n").unwrap();
    assert_eq!(edit.add_user(&alice()).unwrap(), Id(i32::MAX));
    assert!(edit.add_user(&NewUser { name: "bob".to_owned(), ..NewUser::default() }).is_err());
    assert_eq!(edit.add_group("staff", None).unwrap(), Id(i32::MIN));
    assert!(edit.add_group("others", None).is_err());
}
