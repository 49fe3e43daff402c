//! The client on simulated lanes against a peer that answers in any order, over paths that lose, cut and reset.

mod peer;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use lane::backend::sim::{Config, World, seeds};
use lane::net::TcpListener;
use peer::{FILE_BYTES, Manner, NT_HASH, Peer, byte};
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};
use smb_auth::Credentials;
use smb_client::{Channel, Connection, Error, Open, OpenParams, Options, Sealing, Signing, Tree};
use smb_wire::{Guid, Status};
use zeroize::Zeroizing;

/// Runs `scenario` with a tree of a peer of this manner.
fn run<F: Future<Output = ()>>(
    seed: u64,
    manner: Manner,
    sealing: Sealing,
    scenario: impl FnOnce(Tree, Rc<Peer>) -> F + 'static,
) {
    let mut config = Config::clean();
    config.net.tcp.split = 0.3;
    config.net.tcp.partial_send = 0.2;
    if seed % 2 == 1 {
        config.net.link.loss = 0.01;
        config.net.link.reorder = 0.02;
    }
    let world = World::new(seed, config);
    let (server, client) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
    let peer = Rc::new(Peer {
        manner,
        seed,
        // From fewer than a large read takes twice to many.
        window: [33, 64, 512, 8192][seed as usize % 4],
        out_of_window: Cell::new(0),
        reads: Cell::new(0),
        cancelled: Cell::new(0),
    });
    let serves = Rc::clone(&peer);
    server.spawn(async move {
        let listener = TcpListener::bind(([10, 0, 0, 1], 445).into(), &Default::default()).unwrap();
        peer::serve(serves, listener).await;
    });
    world.run_for(Duration::from_millis(1));
    let (done, looks) = (Rc::new(Cell::new(false)), Rc::clone(&peer));
    let tell = Rc::clone(&done);
    client.spawn(async move {
        let rng = std::cell::RefCell::new(StdRng::seed_from_u64(seed));
        let random = move |into: &mut [u8]| rng.borrow_mut().fill_bytes(into);
        let mut options = Options::new(Guid::new([1; 16]), Rc::new(random));
        (options.signing, options.sealing) = (Signing::Required, sealing);
        let connection = Connection::open(([10, 0, 0, 1], 445).into(), options).await.unwrap();
        let credentials = Credentials {
            domain: String::new(),
            user: "alice".to_owned(),
            nt_hash: Zeroizing::new(NT_HASH),
            workstation: String::new(),
        };
        let channel = Channel::sign_in(&connection, credentials).await.unwrap();
        let tree = Tree::connect(&channel, "\\\\peer\\share").await.unwrap();
        scenario(tree, looks).await;
        tell.set(true);
    });
    world.run_for(Duration::from_secs(600));
    assert!(done.get(), "seed {seed}: {}", world.report());
    assert_eq!(peer.out_of_window.get(), 0, "seed {seed}");
}

/// Reads here and there, many at once, and says what came of each.
async fn many_reads(tree: &Tree, seed: u64, count: usize) -> Vec<Result<(), Error>> {
    let open = Open::create(tree, "file", &OpenParams::read()).await.unwrap();
    let mut rng = StdRng::seed_from_u64(seed);
    let tasks: Vec<_> = (0..count)
        .map(|_| {
            let len = if rng.random_bool(0.1) { 1 << 20 } else { rng.random_range(1..100_000) };
            let (open, offset) = (open.clone(), rng.random_range(0..FILE_BYTES));
            lane::spawn(async move {
                let data = open.read(offset, len).await?;
                let end = (offset + u64::from(len)).min(FILE_BYTES);
                assert_eq!(data.len() as u64, end - offset);
                assert!(data.iter().zip(offset..).all(|(found, at)| *found == byte(at)));
                Ok(())
            })
        })
        .collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await);
    }
    results
}

#[test]
fn many_requests_at_once_are_answered_right_within_their_credits_in_any_order() {
    seeds(60, |seed| {
        let sealing = if seed % 3 == 0 { Sealing::Required } else { Sealing::IfRequired };
        run(seed, Manner::Good, sealing, move |tree, peer| async move {
            let results = many_reads(&tree, seed, 60).await;
            assert!(results.iter().all(Result::is_ok), "{results:?}");
            assert_eq!(peer.reads.get(), 60);
            let counters = tree.channel().connection().counters();
            assert_eq!((counters.wrong_signatures.get(), counters.unsigned.get()), (0, 0));
            // All answered: nothing is left of the credits' line, and small requests still pass.
            tree.channel().echo().await.unwrap();
        });
    });
}

#[test]
fn an_answer_that_was_changed_or_is_not_signed_fails_its_request_alone() {
    for manner in [Manner::Changes, Manner::Unsigned] {
        seeds(10, |seed| {
            run(seed, manner, Sealing::IfRequired, move |tree, _| async move {
                let results = many_reads(&tree, seed, 40).await;
                let failed = results.iter().filter_map(|result| result.as_ref().err());
                let (mut wrong, mut unsigned) = (0, 0);
                for error in failed {
                    match error {
                        Error::WrongSignature => wrong += 1,
                        Error::Unsigned => unsigned += 1,
                        other => panic!("{other}"),
                    }
                }
                let counters = tree.channel().connection().counters();
                assert_eq!((counters.wrong_signatures.get(), counters.unsigned.get()), (wrong, unsigned));
                assert_eq!(
                    (wrong > 0, unsigned > 0),
                    (manner == Manner::Changes, manner == Manner::Unsigned)
                );
                assert!(results.iter().any(Result::is_ok));
                tree.channel().echo().await.unwrap();
            });
        });
    }
}

#[test]
fn a_plain_answer_to_an_encrypted_request_is_refused() {
    seeds(10, |seed| {
        run(seed, Manner::Unsealed, Sealing::Required, move |tree, _| async move {
            let results = many_reads(&tree, seed, 40).await;
            let refused = results.iter().filter(|result| matches!(result, Err(Error::Unsealed))).count();
            assert!(refused > 0 && results.iter().any(Result::is_ok));
            assert_eq!(tree.channel().connection().counters().unsealed.get(), refused as u64);
        });
    });
}

#[test]
fn a_connection_that_ends_fails_all_that_waits_and_nothing_hangs() {
    for manner in [Manner::Ends(10), Manner::Unasked] {
        seeds(20, |seed| {
            run(seed, manner, Sealing::IfRequired, move |tree, _| async move {
                let results = many_reads(&tree, seed, 60).await;
                assert!(results.iter().any(Result::is_err), "{results:?}");
                let connection = tree.channel().connection();
                let why = connection.wait_ended().await;
                if manner == Manner::Unasked {
                    assert!(matches!(why, Error::Unexpected(_)), "{why}");
                    assert_eq!(connection.counters().unasked.get(), 1);
                }
                assert!(tree.channel().echo().await.is_err());
                assert!(connection.next_break().await.is_err());
            });
        });
    }
}

#[test]
fn what_waits_is_given_up_when_it_is_cancelled() {
    seeds(20, |seed| {
        let sealing = if seed % 2 == 0 { Sealing::Required } else { Sealing::IfRequired };
        run(seed, Manner::Good, sealing, move |tree, peer| async move {
            let open = Open::create(&tree, "", &OpenParams::list()).await.unwrap();
            let mut waiting = open.notify(0, 1, 4096).await.unwrap();
            assert_eq!(waiting.interim().await, Some(7));
            let results = many_reads(&tree, seed, 20).await;
            assert!(results.iter().all(Result::is_ok));
            waiting.cancel().unwrap();
            assert_eq!(waiting.await.unwrap().status(), Status::CANCELLED);
            assert_eq!(peer.cancelled.get(), 1);
        });
    });
}
