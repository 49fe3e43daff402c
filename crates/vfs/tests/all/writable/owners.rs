//! What a POSIX user makes is his, where the server may give it away.

use std::sync::Arc;

use identity::{Accounts, Rights, Writable};
use lane::backend::sim::{Config, Fs, World};
use vfs::{Caller, Error, Expect, How};

use super::{Process, name, path, root};

#[test]
fn what_a_posix_user_makes_is_his_where_the_server_may_give_it_away() {
    // The last believes that it may, and its file system refuses.
    for (gives_files, may_give) in [(true, true), (false, true), (true, false)] {
        let world = World::new(1, Config::clean());
        let mut process = Process::with(&world, 1, |options| {
            options.privileged = true;
            options.gives_files = gives_files;
        });
        process.writable = Writable::to(["anne".parse().unwrap(), "guest".parse().unwrap()]).unwrap();
        let host = process.host.clone();
        world.block_on(&host, async move {
            let fs = process.host.fs();
            fs.configure(|config| config.privileged = may_give);
            let gives_files = gives_files && may_give;
            let volume = process.volume();
            let root = root(&volume).await;
            let servers = owner(&fs, "");
            make_all(&root, &user("anne"), "annes").await;
            make_all(&root, &user("guest"), "guests").await;
            for what in ["file", "staged", "directory", "link"] {
                let annes = if gives_files { (501, 50) } else { servers };
                assert_eq!(owner(&fs, &format!("annes-{what}")), annes, "{what}");
                assert_eq!(owner(&fs, &format!("guests-{what}")), servers, "who is no POSIX user: {what}");
            }
            // What replaces a file is who made it's; what is only changed stays whose it was.
            let staged = root.stage(&user("anne"), 0o644).await.unwrap();
            staged.publish(&user("anne"), name("guests-file"), Expect::Anything).await.unwrap();
            assert_eq!(owner(&fs, "guests-file").0 == 501, gives_files);
            root.open_writer(&user("guest"), name("annes-file")).await.unwrap();
            assert_eq!(owner(&fs, "annes-file").0 == 501, gives_files);
            assert_eq!(volume.counters().owners_kept.get(), if may_give { 0 } else { 5 });
        });
    }
}

#[test]
fn mode_bits_count_for_him_who_made_the_file() {
    let world = World::new(1, Config::clean());
    let mut process = Process::with(&world, 1, |options| {
        options.privileged = true;
        options.gives_files = true;
    });
    process.writable = Writable::AsListed;
    let host = process.host.clone();
    world.block_on(&host, async move {
        process.host.fs().configure(|config| config.privileged = true);
        process.host.fs().set_mode("/srv", 0o777).unwrap();
        let volume = process.volume();
        let how = How { exclusive: true, mode: 0o600 };
        root(&volume).await.create(&user("anne"), name("diary"), how).await.unwrap();
        let read = async |who: &str| volume.lookup_as(&user(who), path("diary"), Rights::READ).await;
        assert!(read("anne").await.is_ok());
        assert!(matches!(read("guest").await, Err(Error::Denied(_))));
        root(&volume).await.open_writer(&user("anne"), name("diary")).await.unwrap();
        let refused = root(&volume).await.open_writer(&user("guest"), name("diary")).await;
        assert!(matches!(refused, Err(Error::Denied(_))));
    });
}

async fn make_all(root: &vfs::Directory, who: &Caller, prefix: &str) {
    let named = |what: &str| format!("{prefix}-{what}");
    let how = How { exclusive: true, mode: 0o644 };
    root.create(who, name(&named("file")), how).await.unwrap();
    let staged = root.stage(who, 0o644).await.unwrap();
    staged.publish(who, name(&named("staged")), Expect::Absent).await.unwrap();
    root.make_directory(who, name(&named("directory")), 0o755).await.unwrap();
    root.symlink(who, name(&named("link")), b"anywhere").await.unwrap();
}

fn user(name: &str) -> Caller {
    let accounts: Arc<Accounts> = Accounts::parse(
        "version = 1\n[user.anne]\nid = 1000\nuid = 501\ngid = 50\n[user.guest]\nid = 1001\n",
    )
    .unwrap();
    Caller::new(accounts.user(name).unwrap())
}

fn owner(fs: &Fs, at: &str) -> (u32, u32) {
    let found = fs.stat(&format!("/srv/{at}")).unwrap();
    (found.uid, found.gid)
}
