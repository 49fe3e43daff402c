use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;
use crate::accounts::NewUser;

struct Scene {
    dir: tempfile::TempDir,
    store: AccountsStore,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = AccountsStore::new(dir.path().join("accounts.toml"));
        Self { dir, store }
    }

    fn add(&self, name: &str) -> Result<(), AccountsError> {
        let user = NewUser { name: name.to_owned(), ..NewUser::default() };
        self.store.change(|edit| edit.add_user(&user).map(drop))
    }

    fn text(&self) -> String {
        fs::read_to_string(self.store.path()).unwrap()
    }

    fn set_mode(&self, mode: u32) {
        fs::set_permissions(self.store.path(), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn names(&self) -> Vec<String> {
        let names = fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn the_first_change_makes_the_file_for_its_owner_alone() {
    let dir = tempfile::tempdir().unwrap();
    let store = AccountsStore::new(dir.path().join("new/place/accounts.toml"));
    assert!(!store.exists());
    assert!(store.change(|edit| edit.remove_user("eve")).is_err() && !dir.path().join("new").exists());
    let error = store.read().unwrap_err();
    assert!(
        matches!(&error, AccountsError::Io { cause, .. } if cause.kind() == io::ErrorKind::NotFound),
        "{error}"
    );
    store.change(|edit| edit.add_group("staff", None)).unwrap();
    assert_eq!(fs::metadata(store.path()).unwrap().mode() & 0o777, 0o600);
    assert_eq!(store.read().unwrap().groups()[0].name, "staff");
}

#[test]
fn a_file_that_others_could_read_or_change_is_refused_with_the_command_that_mends_it() {
    let scene = Scene::new();
    scene.add("alice").unwrap();
    for mode in [0o644, 0o640, 0o620, 0o601] {
        scene.set_mode(mode);
        for error in [scene.store.read().unwrap_err(), scene.add("bob").unwrap_err()] {
            let shown = error.to_string();
            let wanted = format!("(mode {mode:04o}): chmod 600 {}", scene.store.path().display());
            assert!(matches!(error, AccountsError::Exposed { .. }) && shown.ends_with(&wanted), "{shown}");
        }
    }
    scene.set_mode(0o400);
    assert_eq!(scene.store.read().unwrap().users().len(), 1);
}

#[test]
fn what_is_no_file_is_refused_without_waiting_for_it() {
    let scene = Scene::new();
    rustix::fs::mkfifoat(rustix::fs::CWD, scene.store.path(), rustix::fs::Mode::RUSR).unwrap();
    assert!(scene.store.read().unwrap_err().to_string().ends_with("is no file"));
}

#[test]
fn a_refused_change_leaves_the_file_and_nothing_else() {
    let scene = Scene::new();
    scene.add("alice").unwrap();
    let before = scene.text();
    let names = scene.names();
    assert_eq!(names, ["accounts.toml", "accounts.toml.lock"]);
    let refused = scene.store.change(|edit| {
        edit.add_group("staff", None)?;
        edit.add_member("staff", "nobody")
    });
    assert!(refused.unwrap_err().to_string().contains("there is no user or group \"nobody\""));
    assert!(matches!(scene.add("alice").unwrap_err(), AccountsError::Exists(_)));
    assert_eq!((scene.text(), scene.names()), (before, names));
}

#[test]
fn an_invalid_file_is_neither_read_nor_changed() {
    let scene = Scene::new();
    fs::write(scene.store.path(), "version = 1\n\n[user.alice]\nid = 1000\npasswd = 'x'\n").unwrap();
    scene.set_mode(0o600);
    for error in [scene.store.read().unwrap_err(), scene.add("bob").unwrap_err()] {
        let wanted =
            format!("{}: line 5: user.alice.passwd: unknown key `passwd`", scene.store.path().display());
        assert!(error.to_string().starts_with(&wanted), "{error}");
    }
}

#[test]
fn a_value_that_is_not_allowed_is_told_with_file_line_and_key() {
    let scene = Scene::new();
    let text = "version = 1\n\n[user.alice]\nid = 1000\n[user.'alice.b']\nid = 1001\nuid = 4294967295\n";
    fs::write(scene.store.path(), text).unwrap();
    scene.set_mode(0o600);
    for error in [scene.store.read().unwrap_err(), scene.add("bob").unwrap_err()] {
        let wanted = format!("{}: line 7: user.alice.b.uid: 4294967295 is -1", scene.store.path().display());
        assert!(error.to_string().starts_with(&wanted), "{error}");
    }
}

#[test]
fn what_is_made_is_for_its_user_alone_whatever_the_umask_is() {
    let dir = tempfile::tempdir().unwrap();
    let store = AccountsStore::new(dir.path().join("a/b/accounts.toml"));
    let mask = rustix::process::umask(rustix::fs::Mode::empty());
    store.change(|edit| edit.add_group("staff", None)).unwrap();
    rustix::process::umask(mask);
    let mode = |name: &str| fs::metadata(dir.path().join(name)).unwrap().mode() & 0o777;
    assert_eq!(["a", "a/b"].map(mode), [0o700; 2]);
    assert_eq!(["a/b/accounts.toml", "a/b/accounts.toml.lock"].map(mode), [0o600; 2]);
}

#[test]
fn what_a_crash_left_is_overwritten() {
    let scene = Scene::new();
    fs::write(scene.dir.path().join("accounts.toml.new"), "half a fi").unwrap();
    scene.add("alice").unwrap();
    assert_eq!(scene.names(), ["accounts.toml", "accounts.toml.lock"]);
    assert_eq!(scene.store.read().unwrap().users()[0].name, "alice");
}

#[test]
fn a_link_stays_a_link() {
    let scene = Scene::new();
    let real = scene.dir.path().join("real.toml");
    symlink("real.toml", scene.store.path()).unwrap();
    AccountsStore::new(&real).change(|edit| edit.add_group("staff", None)).unwrap();
    scene.add("alice").unwrap();
    assert!(scene.store.path().symlink_metadata().unwrap().is_symlink());
    assert!(fs::read_to_string(real).unwrap().contains("alice"));
}

#[test]
fn two_at_once_lose_nothing() {
    let scene = Scene::new();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let scene = &scene;
            scope.spawn(move || (0..10).for_each(|n| scene.add(&format!("u{thread}-{n}")).unwrap()));
        }
    });
    let accounts = scene.store.read().unwrap();
    let mut ids: Vec<i32> = accounts.users().iter().map(|user| user.id.0).collect();
    ids.sort_unstable();
    assert_eq!(ids, (1000..1040).collect::<Vec<_>>());
}

#[test]
fn a_change_that_changes_nothing_writes_nothing() {
    let scene = Scene::new();
    scene.add("alice").unwrap();
    let inode = fs::metadata(scene.store.path()).unwrap().ino();
    scene.store.change(|edit| edit.set_disabled("alice", false)).unwrap();
    assert_eq!(fs::metadata(scene.store.path()).unwrap().ino(), inode);
}

#[test]
fn what_is_rehearsed_says_what_would_come_of_it_and_changes_nothing() {
    let scene = Scene::new();
    let add = |edit: &mut Edit| edit.add_user(&NewUser { name: "bob".to_owned(), ..NewUser::default() });
    assert_eq!(scene.store.rehearse(add).unwrap().0, 1000);
    assert!(scene.names().is_empty(), "nor is a file made");
    scene.add("alice").unwrap();
    let before = scene.text();
    assert_eq!(scene.store.rehearse(add).unwrap().0, 1001);
    assert!(scene.store.rehearse(|edit| edit.remove_user("eve")).is_err());
    assert_eq!(scene.text(), before);
}
