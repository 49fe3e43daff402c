//! What is long holds up nothing that is short.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use smb_client::{How, Open, Options, Sealing, Signing};

use super::bed::{Bed, rules, run, sign_in};
use crate::connection::at_once;

const LENGTH: usize = 1 << 20;

fn ways(bed: &Bed) -> [Options; 3] {
    let (plain, mut signed, mut sealed) = (bed.client(), bed.client(), bed.client());
    signed.signing = Signing::Required;
    sealed.sealing = Sealing::Required;
    [plain, signed, sealed]
}

#[test]
fn a_small_request_does_not_wait_for_all_that_is_large_before_it() {
    const LARGE: usize = 6;
    run(7, rules(), async |bed, world| {
        bed.fs.write("/srv/large", vec![7; LENGTH]).unwrap();
        for options in ways(&bed) {
            let (address, told) = (bed.address, format!("{options:?}"));
            let overtaken = world
                .on(0, async move {
                    let tree = sign_in(address, options).await.unwrap();
                    let file = Open::create(&tree, "large", &How::read()).await.unwrap();
                    let mut large = Vec::new();
                    for _ in 0..LARGE {
                        let [asked] = tree.start([file.read_ask(0, LENGTH as u32)]).await.unwrap();
                        large.push(asked);
                    }
                    tree.channel().echo().await.unwrap();
                    let mut overtaken = 0;
                    for mut asked in large {
                        let reply = match at_once(&mut asked).await {
                            Some(reply) => reply,
                            None => {
                                overtaken += 1;
                                asked.await
                            }
                        };
                        assert!(reply.unwrap().bytes().len() > LENGTH);
                    }
                    overtaken
                })
                .await;
            assert!(overtaken > 0, "all that is large came first: {told}");
        }
    });
}

#[test]
fn a_client_that_reads_much_does_not_hold_up_another() {
    const ROUNDS: usize = 5;
    run(8, rules(), async |bed, world| {
        bed.fs.write("/srv/large", vec![7; LENGTH]).unwrap();
        for options in ways(&bed) {
            let (address, told, other) = (bed.address, format!("{options:?}"), bed.client());
            let (is_done, answered, slowest) =
                (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)), Rc::new(Cell::new(Duration::ZERO)));
            let done = Rc::clone(&is_done);
            let reading = world.hosts[0].start_on(0, async move {
                let tree = sign_in(address, options).await.unwrap();
                let file = Open::create(&tree, "large", &How::read()).await.unwrap();
                for _ in 0..ROUNDS {
                    let mut large = Vec::new();
                    for _ in 0..2 {
                        let [asked] = tree.start([file.read_ask(0, LENGTH as u32)]).await.unwrap();
                        large.push(asked);
                    }
                    for asked in large {
                        asked.await.unwrap();
                    }
                }
                done.set(true);
            });
            let (count, longest, done) = (Rc::clone(&answered), Rc::clone(&slowest), Rc::clone(&is_done));
            let asking = world.hosts[1].start_on(0, async move {
                let tree = sign_in(address, other).await.unwrap();
                while !done.get() {
                    let asked = lane::time::now();
                    tree.channel().echo().await.unwrap();
                    longest.set(longest.get().max(lane::time::now() - asked));
                    count.set(count.get() + 1);
                }
            });
            reading.await;
            asking.await;
            assert!(answered.get() >= ROUNDS, "{} answers: {told}", answered.get());
            assert!(slowest.get() < Duration::from_secs(1), "{:?}: {told}", slowest.get());
        }
    });
}
