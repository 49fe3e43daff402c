//! One task sends: frames are never mixed, also where a task gives up waiting, and small ones that are ready
//! together leave by one call.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use lane::buffer::Buf;

use super::ConnectionState;
use crate::error::Error;
use crate::exchange::RequestSlot;

/// Frames that wait to be sent: their requests have credits, which bounds them.
#[derive(Debug, Default)]
pub(super) struct FrameQueue {
    frames: VecDeque<QueuedFrame>,
    waker: Option<Waker>,
}

#[derive(Debug)]
struct QueuedFrame {
    head: Vec<u8>,
    payload: Vec<Buf>,
    /// Request that the payload belongs to.
    owner: Option<Rc<RequestSlot>>,
}

/// Frames that leave at once, and the request that gets each of its buffers back.
#[derive(Default)]
struct Batch {
    bufs: Vec<Buf>,
    owners: Vec<(Rc<RequestSlot>, std::ops::Range<usize>)>,
}

impl FrameQueue {
    pub(super) fn push(&mut self, head: Vec<u8>, payload: Vec<Buf>, owner: Option<Rc<RequestSlot>>) {
        self.frames.push_back(QueuedFrame { head, payload, owner });
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn batch(&mut self) -> Batch {
        let (mut batch, mut heads, mut bytes) = (Batch::default(), Vec::new(), 0);
        while bytes < BATCH_BYTES && batch.bufs.len() < BATCH_BUFS_MAX {
            let Some(frame) = self.frames.pop_front() else { break };
            bytes += frame.head.len() + frame.payload.iter().map(|part| part.len()).sum::<usize>();
            if heads.is_empty() {
                heads = frame.head;
            } else {
                heads.extend_from_slice(&frame.head);
            }
            if let Some(owner) = frame.owner {
                batch.bufs.push(Buf::from(std::mem::take(&mut heads)));
                let from = batch.bufs.len();
                batch.bufs.extend(frame.payload);
                batch.owners.push((owner, from..batch.bufs.len()));
            }
        }
        if !heads.is_empty() {
            batch.bufs.push(Buf::from(heads));
        }
        batch
    }
}

/// Sends until it fails.
pub(super) async fn run(shared: &ConnectionState) -> Error {
    loop {
        let batch = poll_fn(|cx| {
            let mut queue = shared.queue.borrow_mut();
            if queue.frames.is_empty() {
                queue.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(queue.batch())
        })
        .await;
        let (result, bufs) = shared.stream.send_message(batch.bufs, &[], false).await;
        let mut bufs = bufs.into_iter().enumerate().peekable();
        for (owner, range) in batch.owners {
            while bufs.next_if(|(at, _)| *at < range.start).is_some() {}
            let mut payload = Vec::with_capacity(range.len());
            while let Some((_, buf)) = bufs.next_if(|(at, _)| *at < range.end) {
                payload.push(buf);
            }
            owner.give_back(payload);
        }
        if let Err(error) = result {
            return error.into();
        }
    }
}

/// Bytes that leave by one call, and with them the frame that goes beyond.
const BATCH_BYTES: usize = 256 << 10;
const BATCH_BUFS_MAX: usize = 64;
