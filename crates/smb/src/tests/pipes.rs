//! Named pipes that keep what their clients send and do not read.

use std::sync::Arc;

use smb_wire::body::write::{WriteRequest, WriteRequestFixed};
use smb_wire::create::access::rights;
use smb_wire::fixed::Fixed;
use smb_wire::{Command, FileId, Status};

use super::bed::{rules, run, until};
use super::raw::{PIPES, Raw, status};
use crate::options::Options;

/// Fragments of a request without a last one: 15 of 4,000 bytes of arguments.
fn endless() -> Vec<u8> {
    let fragment = |first: bool| {
        let len = 24 + ARGUMENTS as u16;
        let mut out = vec![5, 0, 0, u8::from(first), 0x10, 0, 0, 0];
        out.extend(len.to_le_bytes());
        out.extend([0, 0, 2, 0, 0, 0]);
        out.extend((ARGUMENTS as u32).to_le_bytes());
        out.extend([0, 0, 15, 0]);
        out.resize(len.into(), b'x');
        out
    };
    (0..15).flat_map(|n| fragment(n == 0)).collect()
}

async fn open(raw: &mut Raw) -> FileId {
    raw.create("srvsvc", rights::READ_DATA | rights::WRITE_DATA).await
}

async fn write(raw: &mut Raw, pipe: FileId, bytes: &[u8]) -> Status {
    let fixed = WriteRequestFixed { file_id: pipe, ..WriteRequestFixed::blank() };
    let asked = raw.request(Command::Write, 1, |body| WriteRequest::write(body, fixed, bytes));
    status(&raw.exchange(asked).await.unwrap())
}

#[test]
fn pipes_of_unfinished_requests_are_refused_memory_and_others_use_theirs() {
    let rules = Options { credits: 2048, ..rules() };
    run(80, rules, async |bed, world| {
        let (address, counters) = (bed.address, Arc::clone(&bed.lane.counters));
        let state = Arc::clone(&bed.server_state);
        world
            .on(1, async move {
                let mut raw = Raw::large(address).await;
                raw.sign_in().await;
                raw.connect(PIPES).await;
                let mut pipes = Vec::new();
                let refused = loop {
                    let pipe = open(&mut raw).await;
                    pipes.push(pipe);
                    match write(&mut raw, pipe, &endless()).await {
                        Status::SUCCESS => assert!(pipes.len() < 200, "{}", state.pipes.memory.held()),
                        status => break status,
                    }
                };
                assert_eq!(refused, Status::INSUFFICIENT_RESOURCES);
                assert!(pipes.len() > 20, "{}", pipes.len());
                assert!(state.pipes.memory.held() <= 2 << 20);
                assert_eq!(counters.pipe_memory_refused.get(), 1);
                // A pipe that goes leaves its memory to another.
                let last = pipes.pop().unwrap();
                let asked = raw.close(pipes[0]);
                assert_eq!(status(&raw.exchange(asked).await.unwrap()), Status::SUCCESS);
                assert_eq!(write(&mut raw, last, &endless()).await, Status::SUCCESS);
                // One pipe has its bound: it ends, and keeps nothing.
                let asked = raw.close(pipes[1]);
                assert_eq!(status(&raw.exchange(asked).await.unwrap()), Status::SUCCESS);
                let before = state.pipes.memory.held();
                let on = &endless()[24 + ARGUMENTS..];
                assert_eq!(write(&mut raw, last, on).await, Status::PIPE_DISCONNECTED);
                assert!(state.pipes.memory.held() + (58 << 10) < before);

                let mut other = Raw::large(address).await;
                other.negotiate().await;
                other.set_up("bob").await.unwrap();
                other.connect(PIPES).await;
                let pipe = open(&mut other).await;
                assert_eq!(write(&mut other, pipe, &endless()).await, Status::SUCCESS, "others have theirs");
            })
            .await;
        until("everybody has gone", || bed.lane.connections().is_empty()).await;
        bed.expect_empty();
    });
}

/// Bytes of arguments of each fragment.
const ARGUMENTS: usize = 4000;
