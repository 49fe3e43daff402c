//! A client that takes nothing costs no more than one reply, and holds up no other.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use lane::time::{now, sleep};
use smb_client::{Open, OpenParams, Signing};
use smb_wire::body::plain::Empty;
use smb_wire::body::read::{ReadRequest, ReadResponse};
use smb_wire::compound::Compound;
use smb_wire::create::access::rights;
use smb_wire::fixed::Fixed;
use smb_wire::{Command, FileId, Message, Status};

use super::bed::{rules, run, sign_in, until};
use super::raw::{PIPES, Raw};
use crate::options::Options;

const LENGTH: usize = 1 << 20;
const CLIENTS: usize = 200;
const ASKED: usize = 64;

/// Asks for the file's bytes so many times, and takes nothing.
async fn ask(raw: &mut Raw, file: FileId, times: usize) {
    let request = ReadRequest { length: (LENGTH as u32).into(), file_id: file, ..ReadRequest::blank() };
    for _ in 0..times {
        let asked = raw.request(Command::Read, (LENGTH >> 16) as u16, |body| body.push(&request));
        if !raw.send(&asked).await {
            return;
        }
    }
}

#[test]
fn two_hundred_who_take_nothing_cost_a_reply_each_and_hold_up_nobody() {
    for seed in 0..2 {
        let mut options = rules();
        options.credits = 2048;
        run(seed, options, async move |bed, world| {
            bed.fs.write("/srv/large", vec![7; LENGTH]).unwrap();
            bed.fs.write("/srv/small", vec![8; 1000]).unwrap();
            let (address, mut good) = (bed.address, bed.client());
            good.signing = Signing::Required;
            let (is_over, all_asked) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
            let (over, asked) = (Rc::clone(&is_over), Rc::clone(&all_asked));
            let attack = world.hosts[1].start_on(0, async move {
                let mut held = Vec::new();
                for _ in 0..CLIENTS {
                    let mut raw = Raw::signed(address).await;
                    raw.sign_in().await;
                    let file = raw.open_file("large", rights::READ_DATA).await;
                    held.push((raw, file));
                }
                for (raw, file) in &mut held {
                    ask(raw, *file, ASKED).await;
                }
                asked.set(true);
                while !over.get() {
                    sleep(Duration::from_millis(10)).await;
                }
            });
            let asked = Rc::clone(&all_asked);
            let slowest = world
                .on(0, async move {
                    let tree = sign_in(address, good).await.unwrap();
                    let file = Open::create(&tree, "small", &OpenParams::read()).await.unwrap();
                    let (mut slowest, mut answered) = (Duration::ZERO, 0);
                    while answered < 100 {
                        let began = now();
                        assert_eq!(&file.read(0, 1000).await.unwrap()[..], [8; 1000]);
                        slowest = slowest.max(now() - began);
                        answered += usize::from(asked.get());
                        sleep(Duration::from_millis(5)).await;
                    }
                    tree.channel().log_off().await.unwrap();
                    slowest
                })
                .await;
            assert!(slowest < Duration::from_millis(50), "seed {seed}: {slowest:?}");
            // One each is read, and what the sockets have room for.
            let read = bed.counters().bytes_read.get() as usize / LENGTH;
            assert!(read <= CLIENTS * 4, "seed {seed}: {read} replies were read that nobody takes");
            assert_eq!(
                bed.counters().replies_pending.get(),
                0,
                "seed {seed}: nothing waits but for its client"
            );
            is_over.set(true);
            attack.await;
            until("everybody has gone", || bed.lane.connections().is_empty()).await;
            until("what was read is given back", || {
                bed.lane.connections().counters().reply_memory_bytes.get() == 0
            })
            .await;
            bed.expect_empty();
        });
    }
}

/// Asks for all of a file that has `left` bytes before most replies are due. How many replies were whole, had what is left, and had
/// nothing; each is signed.
fn replies_of_a_file_that_becomes_shorter(left: usize) -> (u32, u32, u32) {
    let counts = Rc::new(Cell::new((0, 0, 0)));
    let told = Rc::clone(&counts);
    run(9, rules(), async move |bed, world| {
        bed.fs.write("/srv/large", vec![7; LENGTH]).unwrap();
        let (address, fs) = (bed.address, bed.fs.clone());
        let seen = world
            .on(0, async move {
                let mut raw = Raw::signed(address).await;
                raw.sign_in().await;
                let file = raw.open_file("large", rights::READ_DATA).await;
                ask(&mut raw, file, 30).await;
                sleep(Duration::from_millis(500)).await;
                fs.write("/srv/large", vec![7; left]).unwrap();
                let (mut whole, mut shorter, mut at_end) = (0, 0, 0);
                for _ in 0..30 {
                    let reply = raw.receive().await.unwrap();
                    assert!(raw.is_signed(&reply));
                    let message = Message::new(&reply).unwrap();
                    match message.header().status() {
                        Status::SUCCESS => {
                            let data = ReadResponse::parse(&message).unwrap().data;
                            assert!(data.iter().all(|byte| *byte == 7));
                            whole += u32::from(data.len() == LENGTH);
                            shorter += u32::from(data.len() == left);
                        }
                        Status::END_OF_FILE => at_end += 1,
                        other => panic!("{other}"),
                    }
                }
                (whole, shorter, at_end)
            })
            .await;
        // Each has one line, which tells how it ended.
        let lines = bed.audited();
        let ended = |status: &str| {
            let of_reads = lines.iter().filter(|line| line.contains("\"call\":\"SMB_Read\""));
            of_reads.filter(|line| line.contains(&format!("\"status\":\"{status}\""))).count() as u32
        };
        let (whole, shorter, at_end) = seen;
        let counted = (ended("STATUS_SUCCESS"), ended("STATUS_END_OF_FILE"));
        assert_eq!(counted, (whole + shorter, at_end), "{lines:#?}");
        told.set(seen);
    });
    counts.get()
}

#[test]
fn a_file_that_became_shorter_before_its_reply_was_due_is_at_its_end() {
    let (whole, _, at_end) = replies_of_a_file_that_becomes_shorter(0);
    assert!(whole > 0 && at_end > 0 && whole + at_end == 30, "{whole} whole, {at_end} at the end");
}

#[test]
fn a_reply_with_less_than_was_granted_is_signed_as_it_is() {
    let (whole, shorter, _) = replies_of_a_file_that_becomes_shorter(300_001);
    assert!(whole > 0 && shorter > 0 && whole + shorter == 30, "{whole} whole, {shorter} shorter");
}

#[test]
fn an_unprotected_reply_of_a_file_that_becomes_shorter_has_its_length_and_zeros() {
    run(10, rules(), async move |bed, world| {
        bed.fs.write("/srv/large", vec![7; LENGTH]).unwrap();
        let (address, fs) = (bed.address, bed.fs.clone());
        let (whole, cut, at_end) = world
            .on(0, async move {
                let mut raw = Raw::large(address).await;
                raw.sign_in().await;
                let file = raw.open_file("large", rights::READ_DATA).await;
                ask(&mut raw, file, 30).await;
                sleep(Duration::from_millis(500)).await;
                fs.write("/srv/large", vec![7; 1000]).unwrap();
                let (mut whole, mut cut, mut at_end) = (0, 0, 0);
                for _ in 0..30 {
                    let reply = raw.receive().await.unwrap();
                    let message = Message::new(&reply).unwrap();
                    if message.header().status() == Status::END_OF_FILE {
                        at_end += 1;
                        continue;
                    }
                    assert_eq!(message.header().status(), Status::SUCCESS);
                    let data = ReadResponse::parse(&message).unwrap().data;
                    let server_state = data.iter().take_while(|byte| **byte == 7).count();
                    assert!(data[server_state..].iter().all(|byte| *byte == 0));
                    match (data.len(), server_state) {
                        (LENGTH, LENGTH) => whole += 1,
                        (LENGTH, _) => cut += 1,
                        // Granted when the file was as short as that.
                        (1000, 1000) => at_end += 1,
                        other => panic!("{other:?}"),
                    }
                }
                (whole, cut, at_end)
            })
            .await;
        assert!(cut > 0 && whole + cut + at_end == 30, "{whole} whole, {cut} cut, {at_end} at the end");
        assert_eq!(bed.counters().reads_cut.get(), cut);
    });
}

#[test]
fn who_takes_nothing_for_a_minute_is_let_go() {
    run(11, rules(), async move |bed, world| {
        bed.fs.write("/srv/large", vec![7; LENGTH]).unwrap();
        let (address, counters) = (bed.address, bed.lane.counters.clone());
        world
            .on(0, async move {
                let (mut plain, mut signed) = (Raw::large(address).await, Raw::signed(address).await);
                for raw in [&mut plain, &mut signed] {
                    raw.sign_in().await;
                    let file = raw.open_file("large", rights::READ_DATA).await;
                    ask(raw, file, ASKED).await;
                }
                let mut idle = Raw::large(address).await;
                idle.sign_in().await;
                sleep(Duration::from_secs(58)).await;
                assert_eq!(counters.ended_stalled.get(), 0);
                sleep(Duration::from_secs(5)).await;
                assert_eq!(counters.ended_stalled.get(), 2);
                let asked = idle.empty(Command::Echo);
                assert!(idle.exchange(asked).await.is_some(), "who is owed nothing may say nothing");
            })
            .await;
        until("everybody has gone", || bed.lane.connections().is_empty()).await;
        bed.expect_empty();
    });
}

#[test]
fn a_connection_whose_waiting_requests_keep_the_memory_of_its_next_one_ends() {
    const LONG: usize = 66_000;
    let options = Options { memory: 512 << 10, transfer_max: 128 << 10, ..rules() };
    run(12, options, async |bed, world| {
        for is_compound in [false, true] {
            let address = bed.address;
            let told = async move {
                let mut raw = Raw::large(address).await;
                raw.sign_in().await;
                raw.connect(PIPES).await;
                let pipe = raw.create("srvsvc", rights::READ_DATA | rights::WRITE_DATA).await;
                // Nothing was asked of the pipe: this waits.
                let read = ReadRequest { length: 10.into(), file_id: pipe, ..ReadRequest::blank() };
                let frame = if is_compound {
                    let (first, second) = (raw.header(Command::Echo), raw.header(Command::Read));
                    let mut out = Vec::new();
                    let mut compound = Compound::new(&mut out);
                    let mut echo = compound.begin(&first);
                    echo.push(&Empty::blank());
                    echo.bytes(&[0; LONG]);
                    compound.begin(&second).push(&read);
                    out
                } else {
                    raw.request(Command::Read, 1, |body| {
                        body.push(&read);
                        body.bytes(&[0; LONG]);
                    })
                };
                raw.send(&frame).await;
                sleep(Duration::from_secs(1)).await;
                let long = raw.request(Command::Echo, 1, |body| {
                    body.push(&Empty::blank());
                    body.bytes(&[0; LONG]);
                });
                raw.send(&long).await;
                sleep(Duration::from_secs(1)).await;
            };
            world.on(0, told).await;
            // The client has gone.
            sleep(Duration::from_secs(180)).await;
            bed.expect_empty();
        }
        assert_eq!(bed.counters().ended_unserved.get(), 2);
    });
}
