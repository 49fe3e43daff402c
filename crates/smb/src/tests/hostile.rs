//! Arbitrary bytes, before and after sign-in: an answer or an end, and nothing is left of it.

use std::time::Duration;

use lane::buffer::Buf;
use lane::time::sleep;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use smb_proto::sealing::Cipher;
use smb_wire::compound::Compound;
use smb_wire::header::flags;
use smb_wire::{Command, Dialect};

use super::bed::{rules, run, sign_in};
use super::raw::Raw;

/// A frame that may be anything: often nearly right.
fn frame(raw: &mut Raw, rng: &mut StdRng) -> Vec<u8> {
    let mut out = Vec::new();
    let mut compound = Compound::new(&mut out);
    for at in 0..rng.random_range(1..4) {
        let command = Command::ALL[rng.random_range(0..Command::ALL.len())];
        let mut header = raw.header(command);
        header.tree_id.set(rng.random_range(0..3));
        if at > 0 && rng.random() {
            header = header.with(flags::RELATED_OPERATIONS);
        }
        match rng.random_range(0..12) {
            0 => header.message_id.set(rng.random()),
            1 => header.credit_charge.set(rng.random()),
            2 => header.session_id.set(rng.random()),
            3 => header.credits.set(0),
            4 => header = header.with(flags::SIGNED),
            5 => header.flags.set(rng.random()),
            _ => {}
        }
        let mut body = compound.begin(&header);
        // The right size of the fixed part gets further in.
        let size: u16 = [36, 25, 4, 9, 57, 24, 49, 48, 33, 32, 41, 88][rng.random_range(0..12)];
        let len = rng.random_range(0..160);
        let mut bytes: Vec<u8> = (0..len).map(|_| if rng.random() { 0 } else { rng.random() }).collect();
        if let Some(head) = bytes.first_chunk_mut::<2>() {
            *head = size.to_le_bytes();
        }
        body.bytes(&bytes);
    }
    for _ in 0..rng.random_range(0..3) {
        let at = rng.random_range(0..out.len());
        out[at] = rng.random();
    }
    if rng.random_range(0..8) == 0 {
        out.truncate(rng.random_range(0..out.len()));
    }
    if out.len() > 4 && rng.random_range(0..10) == 0 {
        out[..4].copy_from_slice(&[0xfd, b'S', b'M', b'B']);
    }
    out
}

#[test]
fn whatever_comes_is_answered_or_ends_its_connection_and_leaves_nothing() {
    for seed in 0..60 {
        run(seed, rules(), async move |bed, world| {
            let (address, options) = (bed.address, bed.client());
            let good = world.on(0, async move { sign_in(address, options).await.unwrap() }).await;
            world
                .on(1, async move {
                    let mut rng = StdRng::seed_from_u64(seed);
                    for round in 0..20 {
                        let mut raw = match round % 4 {
                            0 | 1 => Raw::open(address).await,
                            2 => Raw::signed(address).await,
                            _ if seed % 2 == 0 => {
                                Raw::sealed(address, Dialect::Smb311, Cipher::Aes256Gcm).await
                            }
                            _ => Raw::sealed(address, Dialect::Smb302, Cipher::Aes128Ccm).await,
                        };
                        if round % 4 > 0 {
                            raw.sign_in().await;
                        }
                        for _ in 0..rng.random_range(1..12) {
                            let mut frame = frame(&mut raw, &mut rng);
                            // What is wrong lies behind signature and seal as a rule.
                            if rng.random_range(0..8) > 0 {
                                frame = raw.protect(frame);
                            }
                            if !raw.send(&frame).await {
                                break;
                            }
                        }
                        // What is announced and does not come ends with the connection.
                        if rng.random() {
                            let _ = raw.stream.send(Buf::from(vec![0, 0, 1, 0, 0xfe]), false).await;
                        }
                        if rng.random() {
                            raw.receive().await;
                        }
                    }
                })
                .await;
            let channel = good.channel().clone();
            world.on(0, async move { channel.echo().await.unwrap() }).await;
            world
                .on(0, async move {
                    good.channel().log_off().await.unwrap();
                    drop(good);
                })
                .await;
            for _ in 0..200 {
                if bed.lane.connections().is_empty() {
                    break;
                }
                sleep(Duration::from_secs(1)).await;
            }
            bed.expect_empty();
        });
    }
}
