//! Owners of new files: what a POSIX user makes belongs to it, where the server may give it away.

use std::sync::Arc;

use identity::{Accounts, Acl, Rights, Side, Writable};
use lane::backend::sim::{Config, Fs, World};
use lane::buffer::BufClass;
use lane::fs::{Allocate, AttributeChange, SetTime, XattrHow};
use vfs::{Caller, CreateOptions, Error, Expect, Replace};

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
            // What replaces a file belongs to its maker; what is only changed stays whose it was.
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
fn what_its_makers_quota_has_no_room_for_is_not_there() {
    let world = World::new(1, Config::clean());
    let process = giving(&world);
    let host = process.host.clone();
    world.block_on(&host, async move {
        let (fs, volume) = (process.host.fs(), process.volume());
        let (root, anne) = (root(&volume).await, user("anne"));
        make_all(&root, &anne, "before").await;
        fs.configure(|config| config.full_user = Some(501));
        let how = CreateOptions { exclusive: true, mode: 0o644 };
        let staged = root.stage(&anne, 0o644).await.unwrap();
        let over = root.stage(&anne, 0o644).await.unwrap();
        let refused = [
            root.create(&anne, name("file"), how).await.map(drop),
            staged.publish(&anne, name("staged"), Expect::Absent).await.map(drop),
            over.publish(&anne, name("before-file"), Expect::Anything).await.map(drop),
            root.make_directory(&anne, name("directory"), 0o755).await.map(drop),
            root.symlink(&anne, name("link"), b"anywhere").await,
        ];
        for (at, refused) in refused.iter().enumerate() {
            assert!(matches!(refused, Err(Error::Quota)), "{at}: {refused:?}");
        }
        for absent in ["file", "staged", "directory", "link"] {
            assert!(fs.stat(&format!("/srv/{absent}")).is_err(), "{absent} is there");
        }
        assert_eq!(owner(&fs, "before-file"), (501, 50));
        make_all(&root, &user("guest"), "others").await;
        assert_eq!(volume.counters().owners_kept.get(), 0);
    });
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
        let how = CreateOptions { exclusive: true, mode: 0o600 };
        root(&volume).await.create(&user("anne"), name("diary"), how).await.unwrap();
        let read = async |who: &str| volume.lookup_as(&user(who), path("diary"), Rights::READ).await;
        assert!(read("anne").await.is_ok());
        assert!(matches!(read("guest").await, Err(Error::Denied(_))));
        root(&volume).await.open_writer(&user("anne"), name("diary")).await.unwrap();
        let refused = root(&volume).await.open_writer(&user("guest"), name("diary")).await;
        assert!(matches!(refused, Err(Error::Denied(_))));
    });
}

#[test]
fn whoever_changes_content_takes_set_user_id_and_set_group_id_with_it_whatever_the_way() {
    const WAYS: [&str; 11] = [
        "write",
        "vectored",
        "append",
        "cut",
        "lengthen",
        "extend",
        "keep size",
        "punch",
        "zero",
        "copy",
        "announced",
    ];
    let world = World::new(1, Config::clean());
    let process = Process::with(&world, 1, |options| options.privileged = true);
    let host = process.host.clone();
    world.block_on(&host, async move {
        let fs = process.host.fs();
        fs.configure(|config| config.privileged = true);
        fs.set_mode("/srv", 0o777).unwrap();
        let volume = process.volume();
        let root = root(&volume).await;
        let mode = |file: &str| fs.stat(&format!("/srv/{file}")).unwrap().mode;
        let operator = super::access::operator();
        for (who, is_operator) in [(Caller::anonymous(), false), (user("anne"), false), (operator, true)] {
            for way in WAYS.iter().flat_map(|way| [(*way, false), (*way, true)]) {
                for (before, after) in [(0o6777, 0o777), (0o4777, 0o777), (0o2767, 0o2767), (0o1777, 0o1777)]
                {
                    fs.write("/srv/program", "runs with its owner's rights").unwrap();
                    fs.write("/srv/source", "another program").unwrap();
                    fs.set_mode("/srv/program", before).unwrap();
                    let writer = root.open_writer(&who, name("program")).await.unwrap();
                    change_by(&volume, &writer, &who, way).await;
                    let left = if is_operator { before } else { after };
                    assert_eq!(mode("program"), left, "{way:?} of {before:o}");
                    // What is put in its place is a file of its own.
                    let staged = root.stage(&who, 0o644).await.unwrap();
                    staged.publish(&who, name("program"), Expect::Anything).await.unwrap();
                    assert_eq!(mode("program"), 0o644);
                }
            }
        }
    });
}

#[test]
fn what_a_file_system_keeps_for_root_nobody_is_given_by_a_server_of_root_whatever_the_way() {
    const WAYS: [&str; 10] = [
        "write",
        "vectored",
        "append",
        "holes",
        "extend",
        "zero",
        "copy",
        "announced",
        "staged",
        "attributes",
    ];
    let mib = 1 << 20;
    for way in WAYS {
        let mut config = Config::clean();
        (config.fs.capacity_bytes, config.fs.reserved_bytes) = (4 * mib, mib);
        let world = World::new(1, config);
        let process = Process::with(&world, 1, |options| {
            (options.privileged, options.has_reserve) = (true, true);
        });
        let host = process.host.clone();
        world.block_on(&host, async move {
            let fs = process.host.fs();
            fs.configure(|config| config.privileged = true);
            fs.set_mode("/srv", 0o777).unwrap();
            fs.write("/srv/source", vec![1; 64 << 10]).unwrap();
            fs.write("/srv/there", vec![1; 64 << 10]).unwrap();
            let volume = process.volume();
            let root = root(&volume).await;
            let mut filled = Ok(());
            for at in 0..2000 {
                filled = fill_by(&volume, &root, way, at).await;
                if filled.is_err() {
                    break;
                }
            }
            if way != "attributes" {
                assert!(matches!(filled, Err(Error::NoSpace)), "{way}: {filled:?}");
            }
            // What is there is written to all the same.
            let there = root.open_writer(&Caller::anonymous(), name("there")).await.unwrap();
            there.write_at(&Caller::anonymous(), 4096, pages(1).await).await.0.unwrap();
            fs.configure(|config| config.reserved_bytes = 0);
            let room = volume.room().await.unwrap();
            let left = room.blocks_free * room.block_bytes;
            assert!(left >= mib, "{way} leaves {left} bytes");
            assert!(left < 2 * mib || way == "attributes", "{way} leaves {left} bytes");
        });
    }
}

/// Takes some more room by one way.
async fn fill_by(volume: &vfs::Volume, root: &vfs::Directory, way: &str, at: u64) -> Result<(), Error> {
    const STEP: u64 = 16 << 10;
    let who = Caller::anonymous();
    let offset = at * STEP;
    if way == "staged" {
        let staged = root.stage(&who, 0o644).await?;
        staged.write_at(0, pages(4).await).await.0?;
        return staged.publish(&who, name(&format!("staged-{at}")), Expect::Absent).await.map(drop);
    }
    let writer = match root.open_writer(&who, name("filled")).await {
        Err(Error::NotFound) => {
            root.create(&who, name("filled"), CreateOptions { exclusive: true, mode: 0o644 }).await?.writer
        }
        writer => writer?,
    };
    match way {
        "write" => writer.write_at(&who, offset, pages(4).await).await.0,
        "vectored" => writer.write_vectored_at(&who, offset, vec![pages(2).await, pages(2).await]).await.0,
        "append" => writer.append(&who, pages(4).await).await.0,
        "holes" => {
            writer.truncate(&who, 1 << 30).await?;
            writer.write_at(&who, 2 * offset, pages(4).await).await.0
        }
        "extend" => writer.allocate(&who, Allocate::Extend, offset, STEP).await,
        "zero" => writer.allocate(&who, Allocate::Zero, offset, STEP).await,
        "copy" => {
            let source = volume.lookup(path("source")).await?.into_file()?.0;
            writer.copy_from(&who, &source, 0, offset, STEP).await.map(drop)
        }
        "announced" => {
            let store = writer.store(&who);
            store.reserve(offset, 2 * STEP).await?;
            store.write_vectored_at(offset, vec![pages(4).await]).await.0
        }
        "attributes" => writer.set_extended(&who, b"large", vec![7; 4000], XattrHow::Any).await,
        other => panic!("{other}"),
    }
}

/// A buffer of whole pages.
async fn pages(n: usize) -> lane::buffer::Buf {
    let mut buf = lane::current().buffers().get(BufClass::Large).await;
    assert_eq!(buf.append(&vec![9; n << 12]), n << 12);
    buf
}

#[test]
fn where_mode_bits_count_only_its_owner_sets_a_files_mode_whatever_the_way() {
    // Nothing tells the maker of what is the server's user's here.
    const SERVER: u32 = 7;
    for gives_files in [true, false] {
        let world = World::new(1, Config::clean());
        let process = Process::with(&world, 1, |options| {
            options.privileged = true;
            options.gives_files = gives_files;
            options.user = SERVER;
        });
        let host = process.host.clone();
        world.block_on(&host, async move {
            let fs = process.host.fs();
            fs.configure(|config| config.privileged = true);
            fs.create_dir_all("/srv/d").unwrap();
            ["/srv", "/srv/d"].iter().for_each(|at| fs.set_mode(at, 0o777).unwrap());
            let volume = process.volume();
            let directory = super::directory(&volume, "d").await;
            let nobody = Caller::anonymous();
            let (anne, guest, operator) = (user("anne"), user("guest"), super::access::operator());
            let mode = || fs.stat("/srv/d/shared").unwrap().mode;
            for listed in [false, true] {
                if listed {
                    let mut list = Acl::new();
                    list.set(Side::Given, "system:anyuser".parse().unwrap(), Rights::WRITER).unwrap();
                    directory.set_access_list(&operator, Some(&list)).await.unwrap();
                }
                for (who, uid) in [(&anne, Some(501)), (&guest, None), (&nobody, None), (&operator, None)] {
                    for owner in [501, 502, SERVER] {
                        let is_servers = owner == SERVER && !gives_files;
                        let may = listed || std::ptr::eq(who, &operator) || uid == Some(owner) || is_servers;
                        for way in ["name", "number", "handle"] {
                            fs.write("/srv/d/shared", "everybody writes").unwrap();
                            fs.set_owner("/srv/d/shared", owner, owner).unwrap();
                            fs.set_mode("/srv/d/shared", 0o666).unwrap();
                            let change = AttributeChange { mode: Some(0), ..AttributeChange::NONE };
                            let writer = directory.open_writer(who, name("shared")).await.unwrap();
                            let number = writer.file().object().unwrap().number();
                            let set = match way {
                                "name" => directory.set_attributes_of(who, name("shared"), change).await,
                                "number" => {
                                    directory.set_attributes_if(who, number, name("shared"), change).await
                                }
                                _ => writer.set_attributes(who, change).await,
                            };
                            let case = format!("{way} by {uid:?} of {owner}, listed {listed}, {gives_files}");
                            match set {
                                Ok(()) => assert!(may && mode() == 0, "{case}: {:o}", mode()),
                                Err(Error::Denied(_)) => assert!(!may && mode() == 0o666, "{case}"),
                                Err(other) => panic!("{case}: {other}"),
                            }
                            // Times are the writers' as before.
                            fs.set_mode("/srv/d/shared", 0o666).unwrap();
                            let times = AttributeChange { mtime: SetTime::Now, ..AttributeChange::NONE };
                            directory.set_attributes_of(who, name("shared"), times).await.unwrap();
                        }
                    }
                }
            }
        });
    }
}

/// Owner of what a simulated server makes.
const SIMULATED: u32 = 1000;
/// Mode bits that keep others out of what has them.
const PRIVATE: [u32; 3] = [0o600, 0o640, 0o200];

#[test]
fn whoever_is_no_posix_user_goes_on_with_what_it_made_whatever_the_mode() {
    let world = World::new(1, Config::clean());
    let process = giving(&world);
    let host = process.host.clone();
    world.block_on(&host, async move {
        let volume = process.volume();
        let root = root(&volume).await;
        for (maker, is_everybodys) in [(Caller::anonymous(), true), (user("guest"), false)] {
            for other in [Caller::anonymous(), user("guest"), user("other"), user("anne")] {
                let is_maker = other.principal.id() == maker.principal.id();
                for mode in PRIVATE {
                    let may = goes_on(&volume, &root, &maker, &other, mode).await;
                    let case =
                        format!("{:?} with what {:?} made, {mode:o}", other.principal, maker.principal);
                    assert_eq!(may, is_maker || is_everybodys, "{case}");
                }
            }
        }
    });
}

#[test]
fn a_record_of_a_maker_counts_where_mode_bits_do_and_for_the_uid_that_the_file_had() {
    let world = World::new(1, Config::clean());
    let process = giving(&world);
    let host = process.host.clone();
    world.block_on(&host, async move {
        let (fs, volume) = (process.host.fs(), process.volume());
        let (root, nobody) = (root(&volume).await, Caller::anonymous());
        let record = |uid: u32, id: i32| [&b"M\x01"[..], &uid.to_be_bytes(), &id.to_be_bytes()].concat();
        let server = fs.stat("/srv").unwrap().uid;
        let anonymous = record(server, 32766);
        for (at, (attribute, value, uid, may)) in [
            ("trusted.linerate.maker", anonymous.clone(), server, true),
            // Any user of the machine that may write to the file could write that.
            ("user.linerate.maker", anonymous.clone(), server, false),
            // Given to a user since.
            ("trusted.linerate.maker", anonymous.clone(), 501, false),
            ("trusted.linerate.maker", record(server, 1001), server, false),
            ("trusted.linerate.maker", anonymous[..9].to_vec(), server, false),
            ("trusted.linerate.maker", Vec::new(), server, false),
        ]
        .into_iter()
        .enumerate()
        {
            let file = format!("/srv/file-{at}");
            fs.write(&file, "private").unwrap();
            fs.set_mode(&file, 0o600).unwrap();
            fs.set_owner(&file, uid, 0).unwrap();
            fs.set_xattr(&file, attribute, &value).unwrap();
            let read = volume.lookup_as(&nobody, path(&file["/srv/".len()..]), Rights::READ).await;
            assert_eq!(read.is_ok(), may, "{at}: {read:?}");
        }
        // An administrator gives it to a user, and that may be the server's user.
        let how = CreateOptions { exclusive: true, mode: 0o600 };
        root.create(&nobody, name("taken"), how).await.unwrap();
        assert!(volume.lookup_as(&nobody, path("taken"), Rights::READ).await.is_ok());
        let operator = super::access::operator();
        let given = AttributeChange { uid: Some(server), ..AttributeChange::NONE };
        root.set_attributes_of(&operator, name("taken"), given).await.unwrap();
        let read = volume.lookup_as(&nobody, path("taken"), Rights::READ).await;
        assert!(matches!(read, Err(Error::Denied(_))), "{read:?}");
        // Beneath a list no user owns what anonymous made: a drop box shows no client's drops to the next.
        root.make_directory(&nobody, name("box"), 0o777).await.unwrap();
        let mut list = Acl::new();
        list.set(Side::Given, "system:anyuser".parse().unwrap(), Rights::INSERT | Rights::LOOKUP).unwrap();
        let dropped = super::directory(&volume, "box").await;
        dropped.set_access_list(&operator, Some(&list)).await.unwrap();
        dropped.create(&nobody, name("drop"), how).await.unwrap();
        dropped.create(&user("guest"), name("mine"), how).await.unwrap();
        for (who, file, may) in
            [(&nobody, "box/drop", false), (&user("guest"), "box/mine", true), (&nobody, "box/mine", false)]
        {
            let read = volume.lookup_as(who, path(file), Rights::READ).await;
            assert_eq!(read.is_ok(), may, "{file} by {:?}: {read:?}", who.principal);
        }
    });
}

#[test]
fn a_posix_list_that_local_programs_set_lets_in_nobody_whom_it_keeps_out() {
    // Of u:501:rw, group ---, mask rw: the group's bits of the mode are 6.
    let list = |tags: &[(u16, u16, u32)]| {
        let entries = tags.iter().flat_map(|(tag, bits, id)| {
            [&tag.to_le_bytes()[..], &bits.to_le_bytes(), &id.to_le_bytes()].concat()
        });
        2u32.to_le_bytes().into_iter().chain(entries).collect::<Vec<u8>>()
    };
    let (owner, mask, others) = ((1, 7, u32::MAX), (0x10, 7, u32::MAX), (0x20, 5, u32::MAX));
    let of_another = list(&[owner, (2, 7, 777), (4, 0, u32::MAX), mask, others]);
    let denying = list(&[owner, (2, 0, 501), (4, 5, u32::MAX), mask, others]);
    let world = World::new(1, Config::clean());
    let mut process = giving(&world);
    process.writable = Writable::AsListed;
    let host = process.host.clone();
    world.block_on(&host, async move {
        let (fs, volume) = (process.host.fs(), process.volume());
        let anne = user("anne");
        for (at, (list, annes_group, may)) in
            [(&of_another, true, false), (&denying, false, false), (&of_another[..9].to_vec(), true, false)]
                .into_iter()
                .chain([(&list(&[owner, (2, 7, 777), (4, 5, u32::MAX), mask, others]), true, true)])
                .enumerate()
        {
            let (file, dir) = (format!("/srv/file-{at}"), format!("/srv/dir-{at}"));
            fs.write(&file, "private").unwrap();
            fs.create_dir_all(&dir).unwrap();
            fs.write(&format!("{dir}/f"), "within").unwrap();
            for made in [&file, &dir] {
                fs.set_owner(made, 7, if annes_group { 50 } else { 51 }).unwrap();
                fs.set_mode(made, 0o775).unwrap();
                fs.set_xattr(made, "system.posix_acl_access", list).unwrap();
            }
            for found in [file, format!("{dir}/f")] {
                let read = volume.lookup_as(&anne, path(&found["/srv/".len()..]), Rights::READ).await;
                assert_eq!(read.is_ok(), may, "{at} {found}: {read:?}");
            }
        }
    });
}

/// Makes a server that gives files away, over a directory in which every user may make files.
fn giving(world: &World) -> Process {
    let mut process = Process::with(world, 1, |options| {
        (options.privileged, options.gives_files) = (true, true);
        (options.trusted_attributes, options.user) = (true, SIMULATED);
    });
    process.writable = Writable::anyone();
    process.host.fs().configure(|config| config.privileged = true);
    process.host.fs().set_mode("/srv", 0o777).unwrap();
    process
}

/// Returns whether `other` may go on with all that `maker` makes with these bits: all of it, or none.
async fn goes_on(
    volume: &vfs::Volume,
    root: &vfs::Directory,
    maker: &Caller,
    other: &Caller,
    mode: u32,
) -> bool {
    let how = CreateOptions { exclusive: true, mode };
    root.create(maker, name("made"), how).await.unwrap();
    let staged = root.stage(maker, mode).await.unwrap();
    staged.publish(maker, name("staged"), Expect::Absent).await.unwrap();
    let made = root.make_directory(maker, name("directory"), 0o700).await.unwrap();
    let mut came = Vec::new();
    for file in ["made", "staged"] {
        let writer = root.open_writer(other, name(file)).await;
        came.push(match &writer {
            Ok(writer) => writer.truncate(other, 0).await,
            Err(_) => Err(Error::Denied(Rights::WRITE)),
        });
        let change = AttributeChange { mode: Some(0o600), ..AttributeChange::NONE };
        came.push(root.set_attributes_of(other, name(file), change).await);
        if came.last().is_some_and(Result::is_ok) {
            came.push(volume.lookup_as(other, path(file), Rights::READ).await.map(drop));
        }
        came.push(root.link(other, name(file), name("second")).await);
        let _ = root.remove_if(maker, name("second"), Expect::Anything).await;
        root.remove_if(maker, name(file), Expect::Anything).await.unwrap();
    }
    came.push(made.create(other, name("within"), how).await.map(drop));
    let open = AttributeChange { mode: Some(0o755), ..AttributeChange::NONE };
    came.push(made.set_attributes(other, open).await);
    let _ = made.remove_if(maker, name("within"), Expect::Anything).await;
    root.remove_directory(maker, name("directory")).await.unwrap();
    let may = came[0].is_ok();
    assert!(came.iter().all(|came| came.is_ok() == may), "{came:?}");
    may
}

#[test]
fn what_is_made_in_a_directory_with_a_set_group_id_bit_is_its_groups_whoever_makes_it() {
    let world = World::new(1, Config::clean());
    let mut process = Process::with(&world, 1, |options| {
        (options.privileged, options.gives_files) = (true, true);
    });
    process.writable = Writable::anyone();
    let host = process.host.clone();
    world.block_on(&host, async move {
        let fs = process.host.fs();
        fs.configure(|config| config.privileged = true);
        fs.set_owner("/srv", 7, 4321).unwrap();
        fs.set_mode("/srv", 0o2777).unwrap();
        let volume = process.volume();
        let root = root(&volume).await;
        let servers = fs.stat("/").unwrap().uid;
        let makers = [(user("anne"), "annes", 501), (user("guest"), "guests", servers)];
        for (who, of, uid) in makers.into_iter().chain([(Caller::anonymous(), "made", servers)]) {
            make_all(&root, &who, of).await;
            for what in ["file", "staged", "directory", "link"] {
                assert_eq!(owner(&fs, &format!("{of}-{what}")), (uid, 4321), "{of} {what}");
            }
            let made = fs.stat(&format!("/srv/{of}-directory")).unwrap().mode;
            assert_eq!(made & 0o2000, 0o2000, "it is handed down: {of}");
        }
    });
}

/// Changes content by one way, alone or as one step of several.
async fn change_by(volume: &vfs::Volume, writer: &vfs::Writer, who: &Caller, (way, in_steps): (&str, bool)) {
    let buf = async || {
        let mut buf = lane::current().buffers().get(BufClass::Small).await;
        buf.append(b"content");
        buf
    };
    let store = writer.store(who);
    match (way, in_steps) {
        ("write", _) => writer.write_at(who, 0, buf().await).await.0.unwrap(),
        ("vectored", false) => writer.write_vectored_at(who, 0, vec![buf().await]).await.0.unwrap(),
        ("vectored", true) => store.write_vectored_at(0, vec![buf().await]).await.0.unwrap(),
        ("append", _) => writer.append(who, buf().await).await.0.unwrap(),
        ("cut", false) => writer.truncate(who, 1).await.unwrap(),
        ("cut", true) => store.truncate(1).await.unwrap(),
        ("lengthen", false) => writer.truncate(who, 100).await.unwrap(),
        ("lengthen", true) => store.truncate(100).await.unwrap(),
        ("extend", _) => writer.allocate(who, Allocate::Extend, 0, 100).await.unwrap(),
        ("keep size", _) => writer.allocate(who, Allocate::KeepSize, 0, 100).await.unwrap(),
        ("punch", _) => writer.allocate(who, Allocate::Punch, 0, 4).await.unwrap(),
        ("zero", _) => writer.allocate(who, Allocate::Zero, 0, 4).await.unwrap(),
        ("copy", _) => {
            let source = volume.lookup(path("source")).await.unwrap().into_file().unwrap().0;
            assert_eq!(writer.copy_from(who, &source, 0, 0, 7).await.unwrap(), 7);
        }
        ("announced", _) => {
            store.reserve(0, 1 << 22).await.unwrap();
            store.write_vectored_at(0, vec![buf().await]).await.0.unwrap();
        }
        other => panic!("{other:?}"),
    }
}

async fn make_all(root: &vfs::Directory, who: &Caller, prefix: &str) {
    let named = |what: &str| format!("{prefix}-{what}");
    let how = CreateOptions { exclusive: true, mode: 0o644 };
    root.create(who, name(&named("file")), how).await.unwrap();
    let staged = root.stage(who, 0o644).await.unwrap();
    staged.publish(who, name(&named("staged")), Expect::Absent).await.unwrap();
    root.make_directory(who, name(&named("directory")), 0o755).await.unwrap();
    root.symlink(who, name(&named("link")), b"anywhere").await.unwrap();
}

/// Ways in which a name in `d` is taken away, or comes to lead to something else.
const TAKES: [&str; 6] = ["remove", "move away", "move over", "change places", "publish over", "link over"];

#[test]
fn in_a_sticky_directory_nobody_takes_what_is_anothers_whatever_lets_him_delete_and_whatever_the_way() {
    let everyone = |rights| {
        let mut acl = Acl::new();
        acl.set(Side::Given, "system:anyuser".parse().unwrap(), rights).unwrap();
        acl
    };
    let world = World::new(1, Config::clean());
    let process = giving(&world);
    let host = process.host.clone();
    world.block_on(&host, async move {
        let (fs, volume) = (process.host.fs(), process.volume());
        let (root, head) = (root(&volume).await, user("head"));
        let d = root.make_directory(&head, name("d"), 0o777).await.unwrap();
        let out = root.make_directory(&head, name("out"), 0o777).await.unwrap();
        fs.set_mode("/srv/out", 0o777).unwrap();
        for (is_sticky, list) in [(true, None), (true, Some(Rights::ALL)), (false, None)] {
            d.set_access_list(&head, list.map(everyone).as_ref()).await.unwrap();
            out.set_access_list(&head, list.map(everyone).as_ref()).await.unwrap();
            fs.set_mode("/srv/d", if is_sticky { 0o1777 } else { 0o777 }).unwrap();
            // Another user, one of no uid, anonymous, the owner of the directory, of the file, an administrator.
            for (who, dirs_owner, is_kept_out) in [
                (user("ben"), 500, true),
                (user("guest"), 500, true),
                (Caller::anonymous(), 500, true),
                (user("ben"), 503, false),
                (user("anne"), 500, false),
                (head.clone(), 500, false),
            ] {
                fs.set_owner("/srv/d", dirs_owner, 0).unwrap();
                process.objects.revalidate_rights();
                for (way, is_directory) in TAKES.iter().flat_map(|way| [(*way, false), (*way, true)]) {
                    let case = format!(
                        "{way}, directory {is_directory}, sticky {is_sticky}, {list:?}, {:?}",
                        who.principal
                    );
                    if is_directory && matches!(way, "publish over" | "link over") {
                        continue;
                    }
                    make(&d, &user("anne"), "annes", is_directory).await;
                    let annes = fs.stat("/srv/d/annes").unwrap().ino;
                    let taken = take(&d, &out, &who, way, is_directory).await;
                    let denied = matches!(taken, Err(Error::Denied(_)));
                    assert_eq!(denied, is_sticky && is_kept_out, "{case}: {taken:?}");
                    assert!(denied || taken.is_ok(), "{case}: {taken:?}");
                    let is_there = fs.stat("/srv/d/annes").is_ok_and(|found| found.ino == annes);
                    assert_eq!(denied, is_there, "{case}");
                    for at in ["/srv/d/annes", "/srv/d/mine", "/srv/d/moved", "/srv/out/annes"] {
                        let _ = fs.remove(at);
                    }
                    lane::time::sleep(std::time::Duration::from_millis(5)).await;
                }
            }
        }
    });
}

/// Takes what Anne has in `d` away, or puts something in its place; what comes of it.
async fn take(
    d: &vfs::Directory,
    out: &vfs::Directory,
    who: &Caller,
    way: &str,
    is_directory: bool,
) -> Result<(), Error> {
    let (at, mine) = (name("annes"), name("mine"));
    match way {
        "remove" if is_directory => d.remove_directory(who, at).await,
        "remove" => d.remove(who, at).await,
        "move away" => d.rename(who, at, out, at, Replace::Never).await,
        "move over" => {
            make(d, who, "mine", is_directory).await;
            d.rename(who, mine, d, at, Replace::Existing).await
        }
        "change places" => {
            make(d, who, "mine", is_directory).await;
            d.exchange(who, mine, d, at).await
        }
        "publish over" => {
            let staged = d.stage(who, 0o644).await.unwrap();
            staged.publish(who, at, Expect::Anything).await.map(drop)
        }
        "link over" => {
            make(d, who, "mine", is_directory).await;
            let found = d.lookup_as(who, mine, Rights::NONE).await.unwrap();
            let which = found.object().unwrap().number();
            d.link_to(who, which, mine, d, at, Replace::Existing).await
        }
        other => panic!("{other}"),
    }
}

async fn make(d: &vfs::Directory, by: &Caller, called: &str, is_directory: bool) {
    let how = CreateOptions { exclusive: true, mode: 0o666 };
    match is_directory {
        true => drop(d.make_directory(by, name(called), 0o777).await.unwrap()),
        false => drop(d.create(by, name(called), how).await.unwrap()),
    }
}

fn user(name: &str) -> Caller {
    let accounts: Arc<Accounts> = Accounts::parse(
        "version = 1\n[user.anne]\nid = 1000\nuid = 501\ngid = 50\n[user.guest]\nid = 1001\n[user.other]\nid = 1002\n[user.ben]\nid = 1003\nuid = 503\ngid = 50\n\
         [user.head]\nid = 1004\nuid = 504\n[group.\"system:administrators\"]\nmembers = [\"head\"]\n",
    )
    .unwrap();
    Caller::new(accounts.user(name).unwrap())
}

fn owner(fs: &Fs, at: &str) -> (u32, u32) {
    let found = fs.stat(&format!("/srv/{at}")).unwrap();
    (found.uid, found.gid)
}
