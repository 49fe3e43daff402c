//! Sequences of channels that were lost: what waits while they come round is of the past when it is answered.

use std::rc::Rc;

use smb_wire::body::change_notify::{ChangeNotifyRequest, filter};
use smb_wire::body::query_info::{QueryInfoRequest, QueryInfoRequestFixed, info_type};
use smb_wire::body::set_info::{SetInfoRequest, SetInfoRequestFixed};
use smb_wire::create::access::rights;
use smb_wire::fixed::Fixed;
use smb_wire::header::{HEADER_LEN, flags};
use smb_wire::info::file::class;
use smb_wire::{Command, FileId, Header, Message, Status};
use zerocopy::IntoBytes;

use super::bed::{rules, run, until};
use super::raw::{Raw, SHARE, status};

fn look(raw: &mut Raw, file: FileId) -> Vec<u8> {
    let fixed = QueryInfoRequestFixed {
        info_type: info_type::FILE,
        file_info_class: class::BASIC,
        output_buffer_length: 100.into(),
        file_id: file,
        ..QueryInfoRequestFixed::blank()
    };
    raw.request(Command::QueryInfo, 1, |body| QueryInfoRequest::write(body, fixed, &[]))
}

/// Sets attributes to what they are.
fn set(raw: &mut Raw, file: FileId) -> Vec<u8> {
    let fixed = SetInfoRequestFixed {
        info_type: info_type::FILE,
        file_info_class: class::BASIC,
        file_id: file,
        ..SetInfoRequestFixed::blank()
    };
    raw.request(Command::SetInfo, 1, |body| SetInfoRequest::write(body, fixed, &[0; 40]))
}

fn again(mut asked: Vec<u8>) -> Vec<u8> {
    let header = *Header::parse(&asked).unwrap();
    asked[..HEADER_LEN].copy_from_slice(header.with(flags::REPLAY_OPERATION).as_bytes());
    asked
}

async fn status_of(raw: &mut Raw, asked: Vec<u8>) -> Status {
    status(&raw.exchange(asked).await.unwrap())
}

#[test]
fn a_watch_that_waits_while_the_sequence_comes_round_holds_up_replays_until_it_is_answered() {
    // A client loses one channel after the other, or says that it has lost many.
    for step in [64, 0x4000] {
        run(61, rules(), async move |bed, world| {
            let (address, lane) = (bed.address, Rc::clone(&bed));
            world
                .on(1, async move {
                    let mut raw = Raw::smb3(address).await;
                    raw.sign_in().await;
                    raw.connect(SHARE).await;
                    let wanted = rights::READ_DATA | rights::READ_ATTRIBUTES | rights::WRITE_ATTRIBUTES;
                    let directory = raw.create("", wanted).await;
                    let fixed = ChangeNotifyRequest {
                        output_buffer_length: 4096.into(),
                        file_id: directory,
                        completion_filter: filter::FILE_NAME.into(),
                        ..ChangeNotifyRequest::blank()
                    };
                    let asked = raw.request(Command::ChangeNotify, 1, |body| body.push(&fixed));
                    let watch = Header::parse(&asked).unwrap().message_id.get();
                    assert_eq!(status_of(&mut raw, asked).await, Status::PENDING);
                    let open = lane.lane.opens().all().pop().unwrap();
                    loop {
                        raw.sequence = raw.sequence.wrapping_add(step);
                        let asked = look(&mut raw, directory);
                        assert_eq!(status_of(&mut raw, asked).await, Status::SUCCESS);
                        if raw.sequence == 0 {
                            break;
                        }
                    }
                    assert_eq!(open.word().outstanding(), 1, "the watch");
                    // What is of this sequence goes on, what comes late does not, and a replay waits for what it may repeat.
                    let asked = set(&mut raw, directory);
                    assert_eq!(status_of(&mut raw, asked).await, Status::SUCCESS);
                    raw.sequence = u16::MAX;
                    let asked = set(&mut raw, directory);
                    assert_eq!(status_of(&mut raw, asked).await, Status::FILE_NOT_AVAILABLE);
                    raw.sequence = 0;
                    let asked = again(set(&mut raw, directory));
                    assert_eq!(status_of(&mut raw, asked).await, Status::FILE_NOT_AVAILABLE);
                    let asked = raw.create_request("new", rights::READ_DATA);
                    raw.send(&asked).await;
                    let mut answered = Vec::new();
                    while answered.len() < 2 {
                        let reply = raw.receive().await.unwrap();
                        let header = *Message::new(&reply).unwrap().header();
                        assert_eq!(header.status(), Status::SUCCESS);
                        answered.push(header.message_id.get());
                    }
                    assert!(answered.contains(&watch), "{watch} is none of {answered:?}");
                    assert_eq!(open.word().outstanding(), 0);
                    let asked = again(set(&mut raw, directory));
                    assert_eq!(status_of(&mut raw, asked).await, Status::SUCCESS);
                    let asked = raw.close(directory);
                    assert_eq!(status_of(&mut raw, asked).await, Status::SUCCESS);
                })
                .await;
            until("all connections have gone", || bed.lane.connections().is_empty()).await;
            bed.expect_empty();
        });
    }
}
