//! Lost channels, and the ones that are left: each of their requests is answered once, and their credits come
//! back.

use std::rc::Rc;
use std::time::Duration;

use lane::backend::sim::seeds;
use lane::time::{sleep, timeout};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use smb_client::{Open, OpenParams, Sealing, Signing, Tree};
use smb_wire::create::Disposition;
use smb_wire::header::flags;

use super::bed::{Bed, bind, first_ten, rules, run, sign_in, until};

const CHANNELS: usize = 4;
const REQUESTS: usize = 80;

/// Credits of the client's connections, and those that the server has given to them and not seen again.
fn credits(bed: &Bed, trees: &[Tree]) -> (Vec<u32>, Vec<u32>) {
    let mut theirs: Vec<u32> = trees.iter().map(|tree| tree.channel().connection().credits()).collect();
    let connections = bed.lane.every_connection();
    let mut ours: Vec<u32> =
        connections.iter().map(|connection| connection.window.borrow().available()).collect();
    theirs.sort_unstable();
    ours.sort_unstable();
    (theirs, ours)
}

#[test]
fn each_request_of_the_channels_that_are_left_is_answered_once_and_their_credits_come_back() {
    seeds(30, |seed| {
        run(seed, rules(), async move |bed, world| {
            let (address, mut options, holder) = (bed.address, bed.client(), bed.client());
            match seed % 3 {
                0 => options.signing = Signing::Required,
                1 => options.sealing = Sealing::Required,
                _ => {}
            }
            let lane = Rc::clone(&bed);
            world
                .on(0, async move {
                    let mut rng = StdRng::seed_from_u64(seed);
                    let theirs = sign_in(address, holder).await.unwrap();
                    let held = Open::create(&theirs, "locked", &OpenParams::overwrite()).await.unwrap();
                    held.lock(0, &[first_ten()]).await.unwrap().await.unwrap();
                    let mut trees = vec![sign_in(address, options.clone()).await.unwrap()];
                    for _ in 1..CHANNELS {
                        trees.push(bind(&trees[0], address, options.clone()).await.unwrap());
                    }
                    let how = OpenParams { disposition: Disposition::Open, ..OpenParams::overwrite() };
                    let file = Open::create(&trees[0], "locked", &how).await.unwrap();
                    // Some are answered at once, others wait for a lock that is not given back, and one channel is lost among them.
                    let (mut asked, mut waiting) = (Vec::new(), Vec::new());
                    let (at_loss, lost) = (rng.random_range(0..REQUESTS), rng.random_range(0..CHANNELS));
                    let mut gone = None;
                    for at in 0..REQUESTS {
                        if at == at_loss {
                            let tree: Tree = trees.swap_remove(lost);
                            tree.channel().connection().break_off();
                            tree.channel().ticket().advance_sequence();
                            gone = Some(tree);
                        }
                        let tree = trees[rng.random_range(0..trees.len())].clone();
                        let file = file.over(&tree);
                        if rng.random() {
                            waiting.push((tree, file.lock(0, &[first_ten()]).await.unwrap()));
                        } else {
                            let replay = if rng.random() { flags::REPLAY_OPERATION } else { 0 };
                            let [pending] =
                                tree.start([file.read_request(20, 10).with(replay)]).await.unwrap();
                            asked.push((tree, pending));
                        }
                        if rng.random_range(0..8) == 0 {
                            sleep(Duration::from_micros(rng.random_range(0..3000))).await;
                        }
                    }
                    let is_left = |tree: &Tree| tree.channel().connection().ended().is_none();
                    for (tree, pending) in asked {
                        let answered =
                            timeout(Duration::from_secs(5), pending).await.expect("it is answered or lost");
                        assert!(answered.is_ok() || !is_left(&tree), "a channel that is left answers");
                    }
                    for (tree, mut pending) in waiting {
                        if is_left(&tree) {
                            timeout(Duration::from_secs(5), pending.interim())
                                .await
                                .expect("it is told to wait");
                            pending.cancel().unwrap();
                        }
                        let answered =
                            timeout(Duration::from_secs(5), pending).await.expect("it is answered or lost");
                        assert!(answered.is_ok() || !is_left(&tree), "a channel that is left answers");
                    }
                    drop(gone);
                    // What might come a second time comes before this.
                    for tree in &trees {
                        tree.channel().echo().await.unwrap();
                        let connection = tree.channel().connection();
                        assert_eq!((connection.counters().unasked.get(), connection.outstanding()), (0, 0));
                    }
                    assert_eq!(lane.counters().waiting.get(), 0);
                    let everybody: Vec<_> = trees.iter().chain([&theirs]).cloned().collect();
                    until("the lost one has gone", || lane.lane.connections().len() == everybody.len()).await;
                    let (clients, servers) = credits(&lane, &everybody);
                    assert_eq!(clients, servers, "no credit is lost on its way");
                    assert!(clients.iter().all(|credits| *credits >= 500), "{clients:?}");
                    for tree in [&trees[0], &theirs] {
                        tree.channel().log_off().await.unwrap();
                    }
                })
                .await;
            until("all connections have gone", || bed.lane.connections().is_empty()).await;
            bed.expect_empty();
        });
    });
}
