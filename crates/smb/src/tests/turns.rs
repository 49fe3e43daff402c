//! Turns: long replies hold up no short ones.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use smb_client::{Open, OpenParams, Options, Sealing, Signing};
use smb_proto::sealing::Cipher;

use super::bed::{Bed, rules, run, sign_in};
use crate::connection::at_once;
use crate::cpu_scheduler::ROUND_COST;
use crate::options::Options as Rules;

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
                    let file = Open::create(&tree, "large", &OpenParams::read()).await.unwrap();
                    let mut large = Vec::new();
                    for _ in 0..LARGE {
                        let [asked] = tree.start([file.read_request(0, LENGTH as u32)]).await.unwrap();
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
                let file = Open::create(&tree, "large", &OpenParams::read()).await.unwrap();
                for _ in 0..ROUNDS {
                    let mut large = Vec::new();
                    for _ in 0..2 {
                        let [asked] = tree.start([file.read_request(0, LENGTH as u32)]).await.unwrap();
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

/// Steps that a sealed READ of 8 MiB takes, and what the longest of them costs.
fn steps_of_a_sealed_read(cipher: Cipher) -> (u64, usize) {
    const LONG: usize = 8 << 20;
    let told = Rc::new(Cell::new((0, 0)));
    let tell = Rc::clone(&told);
    run(10, Rules { transfer_max: LONG as u32, memory: 128 << 20, ..rules() }, async move |bed, world| {
        let data: Vec<u8> = (0..LONG + 5).map(|at| (at * 7 + at / 251) as u8).collect();
        bed.fs.write("/srv/large", data.clone()).unwrap();
        let (address, mut options) = (bed.address, bed.client());
        (options.sealing, options.ciphers) = (Sealing::Required, vec![cipher]);
        world
            .on(0, async move {
                let tree = sign_in(address, options).await.unwrap();
                let file = Open::create(&tree, "large", &OpenParams::read()).await.unwrap();
                assert!(file.read(5, LONG as u32).await.unwrap()[..] == data[5..]);
                tree.channel().log_off().await.unwrap();
            })
            .await;
        tell.set((bed.counters().long_steps.get(), bed.lane.cpu_scheduler.most.get()));
    });
    told.get()
}

#[test]
fn a_long_reply_sealed_by_ccm_holds_the_lane_no_longer_than_one_by_gcm() {
    let (gcm_steps, gcm) = steps_of_a_sealed_read(Cipher::Aes128Gcm);
    for cipher in [Cipher::Aes128Ccm, Cipher::Aes256Ccm] {
        let (steps, most) = steps_of_a_sealed_read(cipher);
        assert!(most <= ROUND_COST && most < gcm, "{cipher:?}: a step costs {most}, {gcm} by AES-GCM");
        assert!(steps >= gcm_steps + 60, "{cipher:?}: {steps} steps, {gcm_steps} by AES-GCM");
    }
}
