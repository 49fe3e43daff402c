//! Against Debian's smbd.

use std::cell::Cell;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use identity::{NtHash, Secret};
use lane::buffer::Buf;
use lane::runtime::{RuntimeOptions, run_here};
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use smb_auth::Credentials;
use smb_client::{
    BreakNotification, Channel, Channels, Connection, Error, Handle, Open, OpenParams, Options, Sealing,
    Signing, Tree,
};
use smb_proto::sealing::Cipher;
use smb_proto::signing::SigningAlgorithm;
use smb_wire::body::change_notify::filter;
use smb_wire::body::lock::{LockElement, flags as lock_flags};
use smb_wire::body::query_info::info_type;
use smb_wire::create::Disposition;
use smb_wire::create::access::{attributes, rights};
use smb_wire::create::lease::{Lease, LeaseV2, state};
use smb_wire::create::oplock_level;
use smb_wire::info::file::class;
use smb_wire::info::notify;
use smb_wire::{Dialect, Guid, Response, Status};
use testkit::netns::Namespace;
use testkit::stock_smbd::StockSmbd;
use zeroize::Zeroizing;

/// Runs `scenario` against an smbd over a new directory, which it may look at.
fn with_smbd<F: Future<Output = ()>>(scenario: impl FnOnce(SocketAddr, std::path::PathBuf) -> F + 'static) {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    let (tree, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some(smbd) = StockSmbd::start_or_skip(tree.path(), work.path(), "") else { return };
    let (address, path) = (smbd.address(), tree.path().to_owned());
    let bounded = async move { lane::time::timeout(Duration::from_secs(120), scenario(address, path)).await };
    run_here(RuntimeOptions::default(), bounded).expect("the machine has io_uring").expect("ends in time");
}

fn options() -> Options {
    let state = Rc::new(Cell::new(0x5eed_u64));
    let random = move |into: &mut [u8]| {
        state.set(state.get() + 1);
        StdRng::seed_from_u64(state.get()).fill_bytes(into);
    };
    Options::new(Guid::new(*b"linerate-interop"), Rc::new(random))
}

fn credentials(password: &str) -> Credentials {
    let hash = NtHash::new(&Secret::from(password.as_bytes().to_vec())).unwrap();
    Credentials {
        domain: String::new(),
        user: StockSmbd::USER.to_owned(),
        nt_hash: Zeroizing::new(*hash.expose()),
        workstation: "TEST".to_owned(),
    }
}

async fn connect(address: SocketAddr, options: Options, share: &str) -> Result<Tree, Error> {
    let connection = Connection::open(address, options).await?;
    let channel = Channel::sign_in(&connection, credentials(StockSmbd::PASSWORD)).await?;
    Tree::connect(&channel, &format!("\\\\127.0.0.1\\{share}")).await
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 253 + at / 65_537) as u8).collect()
}

/// Writes and reads a file of 3 MiB and some with many requests at once, and compares it with the disk.
async fn round_trip(tree: &Tree, disk: &Path, name: &str) {
    let open = Open::create(tree, name, &OpenParams::overwrite()).await.unwrap();
    let bytes = pattern(3 << 20 | 12_345);
    let most = tree.channel().connection().negotiated().max_write.min(1 << 20) as usize;
    let tasks: Vec<_> = bytes
        .chunks(most)
        .enumerate()
        .map(|(at, chunk)| {
            let (open, chunk) = (open.clone(), chunk.to_vec());
            lane::spawn(async move {
                let len = chunk.len();
                let (written, back) = open.write((at * most) as u64, vec![Buf::from(chunk)]).await;
                assert_eq!((written.unwrap() as usize, back.len()), (len, 1));
            })
        })
        .collect();
    for task in tasks {
        task.await;
    }
    open.flush().await.unwrap();
    assert!(std::fs::read(disk.join(name)).unwrap() == bytes, "on disk is what was written");
    let reads: Vec<_> = (0..bytes.len().div_ceil(most))
        .map(|at| {
            let open = open.clone();
            lane::spawn(async move { open.read((at * most) as u64, most as u32).await.unwrap().to_vec() })
        })
        .collect();
    let mut back = Vec::new();
    for read in reads {
        back.extend(read.await);
    }
    assert!(back == bytes, "what is read is what was written");
    assert!(open.read(bytes.len() as u64, 10).await.unwrap().is_empty());
    let closed = open.close(1).await.unwrap();
    assert_eq!(closed.end_of_file.get(), bytes.len() as u64);
    assert_eq!(open.read(0, 1).await.unwrap_err().status(), Some(Status::FILE_CLOSED));
}

#[test]
fn every_dialect_signed_and_unsigned_moves_bytes() {
    with_smbd(|address, disk| async move {
        for dialect in Dialect::ALL {
            for signing in [Signing::IfRequired, Signing::Required] {
                let options = Options { dialects: vec![dialect], signing, ..options() };
                let tree = connect(address, options, "plain").await.unwrap();
                assert_eq!(tree.channel().connection().negotiated().dialect, dialect);
                assert_eq!(tree.channel().protection(), (signing == Signing::Required, false));
                round_trip(&tree, &disk, &format!("file-{dialect}-{signing:?}")).await;
                tree.disconnect().await.unwrap();
                tree.channel().log_off().await.unwrap();
            }
        }
    });
}

#[test]
fn every_signature_and_cipher_is_understood() {
    with_smbd(|address, disk| async move {
        for algorithm in [SigningAlgorithm::AesCmac, SigningAlgorithm::AesGmac, SigningAlgorithm::HmacSha256]
        {
            let signing = Signing::Required;
            let options = Options { signing, signing_algorithms: vec![algorithm], ..options() };
            let tree = connect(address, options, "plain").await.unwrap();
            assert_eq!(tree.channel().connection().negotiated().signing, algorithm);
            round_trip(&tree, &disk, &format!("{algorithm:?}")).await;
        }
        for cipher in Cipher::PREFERRED {
            let options = Options { sealing: Sealing::Required, ciphers: vec![cipher], ..options() };
            let tree = connect(address, options, "plain").await.unwrap();
            assert_eq!(tree.channel().connection().negotiated().cipher, Some(cipher));
            round_trip(&tree, &disk, &format!("{cipher:?}")).await;
            assert_eq!(tree.channel().connection().counters().unsealed.get(), 0);
        }
        // 3.0 knows one cipher, and says so by a bit.
        let dialects = vec![Dialect::Smb300];
        let options_300 = Options { sealing: Sealing::Required, dialects, ..options() };
        round_trip(&connect(address, options_300, "plain").await.unwrap(), &disk, "ccm-3.0").await;
        let sealed = connect(address, options(), "sealed").await.unwrap();
        round_trip(&sealed, &disk, "sealed").await;
        let never = Options { sealing: Sealing::Never, ..options() };
        assert!(connect(address, never, "sealed").await.is_err());
    });
}

#[test]
fn a_wrong_password_and_a_missing_share_are_named() {
    with_smbd(|address, _| async move {
        let connection = Connection::open(address, options()).await.unwrap();
        let refused = Channel::sign_in(&connection, credentials("wrong")).await.unwrap_err();
        assert_eq!(refused.status(), Some(Status::LOGON_FAILURE));
        // The connection is as good as before.
        let channel = Channel::sign_in(&connection, credentials(StockSmbd::PASSWORD)).await.unwrap();
        channel.echo().await.unwrap();
        let missing = Tree::connect(&channel, "\\\\127.0.0.1\\missing").await.unwrap_err();
        assert_eq!(missing.status(), Some(Status::BAD_NETWORK_NAME));
        let tree = Tree::connect(&channel, "\\\\127.0.0.1\\plain").await.unwrap();
        let missing = Open::create(&tree, "missing", &OpenParams::read()).await.unwrap_err();
        assert_eq!(missing.status(), Some(Status::OBJECT_NAME_NOT_FOUND));
    });
}

#[test]
fn listings_compounds_and_changes_of_names_work() {
    with_smbd(|address, disk| async move {
        let tree = connect(address, options(), "plain").await.unwrap();
        Open::create(&tree, "many", &OpenParams::make_directory()).await.unwrap().close(0).await.unwrap();
        for at in 0..2000 {
            std::fs::write(disk.join(format!("many/name {at:04} äß")), [7; 5]).unwrap();
        }
        let many = Open::create(&tree, "many", &OpenParams::list()).await.unwrap();
        let listed = many.list("*").await.unwrap();
        assert_eq!(listed.len(), 2002);
        let files = listed.iter().filter(|one| one.attributes & attributes::DIRECTORY == 0);
        assert!(files.clone().all(|one| one.length == 5) && files.count() == 2000);
        assert_eq!(many.list("name 199?*").await.unwrap().len(), 10);
        assert!(many.list("nothing*").await.unwrap().is_empty());

        std::fs::write(disk.join("small"), b"twelve bytes").unwrap();
        assert_eq!(&*tree.read("small", 4096).await.unwrap(), b"twelve bytes");
        let all = tree.query("small", info_type::FILE, class::STANDARD, 256).await.unwrap();
        assert_eq!(all.len(), 24);
        tree.remove("small").await.unwrap();
        assert!(!disk.join("small").exists());
        assert_eq!(tree.remove("small").await.unwrap_err().status(), Some(Status::OBJECT_NAME_NOT_FOUND));
    });
}

#[test]
fn waiting_requests_are_answered_later_and_can_be_cancelled() {
    with_smbd(|address, _| async move {
        let tree = connect(address, options(), "plain").await.unwrap();
        // smbd's process that tells of changes may not have begun yet: a watch that it missed hears nothing.
        let mut heard = None;
        for at in 0.. {
            let root = Open::create(&tree, "", &OpenParams::list()).await.unwrap();
            let mut waiting = root.notify(0, filter::FILE_NAME, 4096).await.unwrap();
            assert!(waiting.interim().await.is_some());
            let made = Open::create(&tree, &format!("made {at}"), &OpenParams::overwrite()).await.unwrap();
            made.close(0).await.unwrap();
            heard = lane::time::timeout(Duration::from_secs(2), &mut waiting).await.ok();
            if heard.is_some() {
                break;
            }
            waiting.cancel().unwrap();
            assert_eq!(waiting.await.unwrap().status(), Status::CANCELLED);
        }
        let reply = heard.unwrap().unwrap();
        let Response::ChangeNotify(output) = reply.body().unwrap() else { panic!("{reply:?}") };
        let changes: Vec<_> = notify::parse(output.data).map(Result::unwrap).collect();
        assert!(!changes.is_empty() && changes.iter().all(|(action, _)| *action == notify::action::ADDED));

        // A lock that waits goes on to be answered: given up, and granted.
        let both = OpenParams { access: rights::FILE_READ | rights::FILE_WRITE, ..OpenParams::read() };
        let made = Open::create(&tree, "made", &OpenParams::overwrite()).await.unwrap();
        let other = Open::create(&tree, "made", &both).await.unwrap();
        let range = |flags| LockElement {
            offset: 0.into(),
            length: 10.into(),
            flags: u32::into(flags),
            reserved: 0.into(),
        };
        let held =
            made.lock(0, &[range(lock_flags::EXCLUSIVE | lock_flags::FAIL_IMMEDIATELY)]).await.unwrap();
        held.await.unwrap().body().unwrap();
        let mut waits = other.lock(0, &[range(lock_flags::EXCLUSIVE)]).await.unwrap();
        assert!(waits.interim().await.is_some());
        waits.cancel().unwrap();
        assert_eq!(waits.await.unwrap().status(), Status::CANCELLED);
        let mut waits = other.lock(0, &[range(lock_flags::EXCLUSIVE)]).await.unwrap();
        assert!(waits.interim().await.is_some());
        made.lock(0, &[range(lock_flags::UNLOCK)]).await.unwrap().await.unwrap().body().unwrap();
        waits.await.unwrap().body().unwrap();
        let counters = tree.channel().connection().counters();
        assert!(counters.interim.get() >= 3 && counters.unasked.get() == 0);
    });
}

#[test]
fn oplocks_and_leases_are_broken_and_acknowledged() {
    with_smbd(|address, disk| async move {
        std::fs::write(disk.join("file"), b"first").unwrap();
        let one = connect(address, options(), "plain").await.unwrap();
        let two = connect(address, Options { client_guid: Guid::new([9; 16]), ..options() }, "plain")
            .await
            .unwrap();
        let how = OpenParams {
            oplock: oplock_level::BATCH,
            access: rights::FILE_READ | rights::FILE_WRITE,
            ..OpenParams::read()
        };
        let open = Open::create(&one, "file", &how).await.unwrap();
        assert_eq!(open.created().oplock_level, oplock_level::BATCH);
        let second = lane::spawn({
            let (two, how) = (two.clone(), OpenParams { oplock: 0, ..how.clone() });
            async move { Open::create(&two, "file", &how).await.unwrap() }
        });
        let broken = one.channel().connection().next_break().await.unwrap();
        let BreakNotification::Oplock { file, level } = broken else { panic!("{broken:?}") };
        assert_eq!((file, level), (open.id(), oplock_level::II));
        one.acknowledge_oplock(file, level).await.unwrap();
        second.await.close(0).await.unwrap();
        open.close(0).await.unwrap();

        let key = Guid::new(*b"the-lease-of-one");
        let wanted = LeaseV2 {
            lease_key: key,
            lease_state: (state::READ | state::WRITE | state::HANDLE).into(),
            lease_flags: 0.into(),
            lease_duration: 0.into(),
            parent_lease_key: Guid::default(),
            epoch: 7.into(),
            reserved: 0.into(),
        };
        let leased = Open::create(&one, "file", &how.clone().lease(&Lease::V2(&wanted))).await.unwrap();
        assert_eq!(leased.lease(), Some((state::READ | state::WRITE | state::HANDLE, 8)));
        let second =
            lane::spawn(async move { Open::create(&two, "file", &OpenParams::read()).await.unwrap() });
        let broken = one.channel().connection().next_break().await.unwrap();
        let BreakNotification::Lease { key: of, new, epoch, acknowledge, .. } = broken else {
            panic!("{broken:?}")
        };
        assert_eq!((of, new, epoch, acknowledge), (key, state::READ | state::HANDLE, 9, true));
        one.acknowledge_lease(key, new).await.unwrap();
        second.await.close(0).await.unwrap();
        assert_eq!(one.channel().connection().counters().breaks.get(), 2);
    });
}

#[test]
fn one_session_has_several_channels() {
    with_smbd(|address, disk| async move {
        for (dialect, sealing) in [
            (Dialect::Smb300, Sealing::IfRequired),
            (Dialect::Smb311, Sealing::IfRequired),
            (Dialect::Smb311, Sealing::Required),
        ] {
            let options =
                Options { dialects: vec![dialect], signing: Signing::Required, sealing, ..options() };
            let first = connect(address, options.clone(), "plain").await.unwrap();
            let ticket = first.channel().ticket();
            let connection = Connection::open(address, options).await.unwrap();
            let channel = Channel::bind(&connection, &ticket).await.unwrap();
            let second = first.over(&channel);
            let name = format!("{dialect}-{sealing:?}");
            round_trip(&second, &disk, &name).await;
            let open = Open::create(&first, &name, &OpenParams::read()).await.unwrap();
            let other = open.over(&second);
            assert!(*open.read(100, 5000).await.unwrap() == *other.read(100, 5000).await.unwrap());
            // The session outlives the channel that made it.
            first.channel().connection().break_off();
            assert!(matches!(open.read(0, 10).await, Err(Error::Closed)));
            ticket.advance_sequence();
            assert_eq!(&*other.read(0, 10).await.unwrap(), &pattern(10));
            assert_eq!(ticket.channels(), 2);
        }
    });
}

#[test]
fn channels_that_are_killed_lose_nothing_with_smbd() {
    with_smbd(|address, disk| async move {
        let options = options();
        let first = connect(address, options.clone(), "plain").await.unwrap();
        let channels = Channels::new(first.clone(), Some(Duration::from_secs(30)));
        let mut trees = vec![first];
        let (piece, rounds) = (256 << 10, 12);
        let bytes = pattern(rounds * piece);
        let kept = Handle::create(&channels, "kept", &OpenParams::overwrite()).await.unwrap();
        for round in 0..rounds {
            while trees.len() < 3 {
                let connection = Connection::open(address, options.clone()).await.unwrap();
                let bound = Channel::bind(&connection, &trees[0].channel().ticket()).await.unwrap();
                trees.push(trees[0].over(&bound));
                channels.add(trees[trees.len() - 1].clone());
            }
            let offset = round * piece;
            let part = bytes[offset..offset + piece].to_vec();
            let writing = {
                let (kept, again) = (kept.clone(), part.clone());
                let fresh = move || vec![Buf::from(again.clone())];
                lane::spawn(async move { kept.write(offset as u64, fresh(), fresh).await.0 })
            };
            let making = {
                let how = OpenParams { disposition: Disposition::Create, ..OpenParams::overwrite() };
                let (channels, name) = (channels.clone(), format!("made-{round}"));
                lane::spawn(async move { Handle::create(&channels, &name, &how).await?.close().await })
            };
            // Both are on their way.
            lane::yield_if_due().await;
            channels.kill(trees.swap_remove(round % trees.len()).channel());
            assert_eq!(writing.await.unwrap() as usize, piece);
            making.await.unwrap();
            channels.remove(&format!("made-{round}")).await.unwrap();
        }
        kept.close().await.unwrap();
        assert_eq!(std::fs::read(disk.join("kept")).unwrap(), bytes);
        assert_eq!(std::fs::read_dir(&disk).unwrap().count(), 1);
        assert!(channels.replays() > 0 && channels.lost() == rounds as u64);
    });
}
