//! Replies of a compound are bounded together, and none waits for what the others hold.

use std::time::Duration;

use lane::time::timeout;
use smb_client::{
    Open, OpenParams, Options as ClientOptions, OutgoingRequest, Pending, Sealing, Signing, Tree,
};
use smb_wire::body::ioctl::{FLAG_IS_FSCTL, IoctlRequest, IoctlRequestFixed};
use smb_wire::body::query_directory::{QueryDirectoryRequest, QueryDirectoryRequestFixed};
use smb_wire::body::query_info::{QueryInfoRequest, QueryInfoRequestFixed, info_type};
use smb_wire::fixed::Fixed;
use smb_wire::fsctl::code;
use smb_wire::info::file::class;
use smb_wire::{Command, Response, Status};

use super::bed::{Bed, rules, run, sign_in, until};
use crate::options::Options;

const MIB: usize = 1 << 20;

/// Long transfers, with so much memory.
fn site(memory: usize) -> Options {
    Options { transfer_max: 8 << 20, memory, credits: 4096, ..rules() }
}

fn ways(bed: &Bed) -> [ClientOptions; 3] {
    let [mut plain, mut signed, mut sealed] = [bed.client(), bed.client(), bed.client()];
    signed.signing = Signing::Required;
    sealed.sealing = Sealing::Required;
    for options in [&mut plain, &mut signed, &mut sealed] {
        options.credits = 4096;
    }
    [plain, signed, sealed]
}

/// The answers' statuses and lengths, each within a minute.
async fn answers<const N: usize>(asked: [Pending; N]) -> Vec<(Status, usize)> {
    let mut answers = Vec::new();
    for pending in asked {
        let reply = timeout(Duration::from_secs(60), pending).await.expect("an answer").unwrap();
        answers.push((reply.status(), reply.bytes().len()));
    }
    answers
}

/// Nothing is left on the books when all have gone.
async fn gone(bed: &Bed) {
    until("everybody has gone", || bed.lane.connections().is_empty()).await;
    bed.expect_empty();
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// Reads the whole file `times` times by one frame.
async fn read_together<const N: usize>(tree: &Tree, expected: &[u8]) {
    let file = Open::create(tree, "large", &OpenParams::read()).await.unwrap();
    // A connection has to earn its credits.
    while tree.channel().connection().credits() < 1024 {
        tree.channel().echo().await.unwrap();
    }
    let asked = tree.start(std::array::from_fn::<_, N, _>(|_| file.read_request(0, expected.len() as u32)));
    for pending in asked.await.unwrap() {
        let reply = timeout(Duration::from_secs(60), pending).await.expect("an answer").unwrap();
        let Ok(Response::Read(answer)) = reply.body() else { panic!("{}", reply.status()) };
        assert!(answer.data == expected);
    }
    file.close(0).await.unwrap();
    tree.channel().log_off().await.unwrap();
}

#[test]
fn reads_of_a_compound_do_not_wait_for_memory_that_the_ones_before_them_hold() {
    run(1, site(64 << 20), async |bed, world| {
        let data = pattern(8 * MIB);
        bed.fs.write("/srv/large", data.clone()).unwrap();
        for options in ways(&bed) {
            let (address, expected) = (bed.address, data.clone());
            world
                .on(0, async move {
                    let tree = sign_in(address, options).await.unwrap();
                    read_together::<3>(&tree, &expected).await;
                })
                .await;
        }
        gone(&bed).await;
    });
}

#[test]
fn replies_of_a_compound_that_no_frame_has_room_for_leave_by_several() {
    run(2, site(2 << 30), async |bed, world| {
        let data = pattern(8 * MIB);
        bed.fs.write("/srv/large", data.clone()).unwrap();
        for options in ways(&bed) {
            let (address, expected) = (bed.address, data.clone());
            world
                .on(0, async move {
                    let tree = sign_in(address, options).await.unwrap();
                    read_together::<4>(&tree, &expected).await;
                })
                .await;
        }
        gone(&bed).await;
    });
}

#[test]
fn what_else_a_compound_gathers_does_not_wait_for_its_own_either() {
    // A connection that holds some may have one MiB more.
    run(3, Options { memory: 32 << 20, ..rules() }, async |bed, world| {
        for number in 0..100 {
            bed.fs.write(&format!("/srv/a file with a long name, number {number}"), Vec::new()).unwrap();
        }
        let (address, options) = (bed.address, bed.client());
        world
            .on(0, async move {
                let tree = sign_in(address, options).await.unwrap();
                let root = Open::create(&tree, "", &OpenParams::list()).await.unwrap();
                let id = root.id();
                let names = || {
                    let fixed = QueryDirectoryRequestFixed {
                        file_information_class: class::ID_BOTH_DIRECTORY,
                        file_id: id,
                        output_buffer_length: (MIB as u32).into(),
                        ..QueryDirectoryRequestFixed::blank()
                    };
                    OutgoingRequest::new(Command::QueryDirectory, move |body| {
                        QueryDirectoryRequest::write(body, fixed, "*");
                    })
                    .carrying(0, MIB as u32)
                };
                let facts = || {
                    let fixed = QueryInfoRequestFixed {
                        info_type: info_type::FILE,
                        file_info_class: class::STANDARD,
                        output_buffer_length: (MIB as u32).into(),
                        file_id: id,
                        ..QueryInfoRequestFixed::blank()
                    };
                    OutgoingRequest::new(Command::QueryInfo, move |body| {
                        QueryInfoRequest::write(body, fixed, &[])
                    })
                    .carrying(0, MIB as u32)
                };
                let control = || {
                    let fixed = IoctlRequestFixed {
                        ctl_code: code::GET_COMPRESSION.into(),
                        file_id: id,
                        max_output_response: (MIB as u32).into(),
                        flags: FLAG_IS_FSCTL.into(),
                        ..IoctlRequestFixed::blank()
                    };
                    OutgoingRequest::new(Command::Ioctl, move |body| IoctlRequest::write(body, fixed, &[]))
                        .carrying(0, MIB as u32)
                };
                let asked = tree.start([names(), facts(), control(), facts(), control()]);
                let told = answers(asked.await.unwrap()).await;
                assert!(told[0].0 == Status::SUCCESS && told[0].1 > 10_000, "{told:?}");
                assert_eq!(told[1].0, Status::SUCCESS);
                assert_eq!((told[1], told[2]), (told[3], told[4]));
                root.close(0).await.unwrap();
                tree.channel().log_off().await.unwrap();
            })
            .await;
        gone(&bed).await;
    });
}

/// A control code with a long input and room for a long answer.
async fn long_control(tree: &Tree) -> Status {
    let file = Open::create(tree, "file", &OpenParams::overwrite()).await.unwrap();
    let input = vec![0; 200 << 10];
    let asking = file.control(code::SRV_COPYCHUNK, &input, MIB as u32);
    let told = timeout(Duration::from_secs(60), asking);
    let status = told.await.expect("an answer").err().and_then(|error| error.status());
    file.close(0).await.unwrap();
    status.expect("the key of no file is zero")
}

#[test]
fn a_long_request_does_not_wait_for_its_own_memory_and_not_for_ever_for_that_of_others() {
    run(4, Options { memory: 32 << 20, ..rules() }, async |bed, world| {
        let (address, first, second) = (bed.address, bed.client(), bed.client());
        let status =
            world.on(0, async move { long_control(&sign_in(address, first).await.unwrap()).await }).await;
        assert_eq!(status, Status::OBJECT_NAME_NOT_FOUND);
        assert_eq!(bed.counters().requests_refused_memory.get(), 0);
        // Others hold so much that there is room for the request and none for its answer.
        let (others, _ticket) = bed.lane.accounts("10.0.0.9".parse().unwrap());
        let held = others.charge((32 << 20) - (1 << 20));
        let status =
            world.on(0, async move { long_control(&sign_in(address, second).await.unwrap()).await }).await;
        assert_eq!(status, Status::INSUFFICIENT_RESOURCES);
        assert_eq!(bed.counters().requests_refused_memory.get(), 1);
        drop(held);
        gone(&bed).await;
    });
}
