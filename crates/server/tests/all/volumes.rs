//! Tests of the index as commands use it while no server holds it.

use server::volumes::{VolumeName, Volumes, VolumesError};

#[test]
fn a_volume_is_made_found_again_and_forgotten_and_its_files_stay() {
    // Where its file system keeps attributes, which that of temporary files may not.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (state, tree) = (dir.path().join("state"), dir.path().join("tree"));
    let [home, other] = ["home", "other"].map(|name| name.parse::<VolumeName>().unwrap());
    assert!(Volumes::open(&state).unwrap().is_none() && !state.exists(), "a look makes nothing");
    let volumes = Volumes::open_or_make(&state).unwrap();
    let made = volumes.create(&home, &tree).unwrap();
    std::fs::write(tree.join("a"), "kept").unwrap();
    assert_eq!((made.id, made.trouble.as_deref()), (0x2000_0001, None));
    let refused = |name: &VolumeName| volumes.create(name, &tree).unwrap_err().to_string();
    assert!(refused(&home).contains("there is a volume home"), "{}", refused(&home));
    assert!(refused(&other).contains("is volume home already"), "{}", refused(&other));
    assert!(matches!(Volumes::open(&state), Err(VolumesError::InUse)));
    volumes.close().unwrap();

    let volumes = Volumes::open(&state).unwrap().unwrap();
    assert_eq!(volumes.list(), [made]);
    let moved = dir.path().join("moved");
    std::fs::rename(&tree, &moved).unwrap();
    assert!(volumes.list()[0].trouble.is_some());
    std::fs::create_dir(&tree).unwrap();
    assert_eq!(volumes.list()[0].trouble.as_deref(), Some("its directory bears no mark"));
    std::fs::remove_dir(&tree).unwrap();
    std::fs::rename(&moved, &tree).unwrap();
    volumes.remove("home").unwrap();
    assert!(volumes.list().is_empty());
    assert_eq!(std::fs::read_to_string(tree.join("a")).unwrap(), "kept");
    assert!(matches!(volumes.remove("home"), Err(VolumesError::Index(_))));
    // A tree whose mark had stayed would have its number again.
    assert_eq!(volumes.create(&home, &tree).unwrap().id, 0x2000_0004, "no number is given twice");
    volumes.close().unwrap();
}

#[test]
fn a_tree_keeps_its_number_in_another_servers_index() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let tree = dir.path().join("tree");
    let [first, second] =
        ["first", "second"].map(|state| Volumes::open_or_make(&dir.path().join(state)).unwrap());
    let [home, other] = ["home", "other"].map(|name| name.parse::<VolumeName>().unwrap());
    first.create(&other, &dir.path().join("other")).unwrap();
    let made = first.create(&home, &tree).unwrap();
    let taken = second.create(&home, &tree).unwrap();
    assert_eq!((taken.id, taken.trouble.as_deref()), (made.id, None));
    assert!(taken.generation > made.generation, "{taken:?}");
}
