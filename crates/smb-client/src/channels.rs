//! The channels that a lane has of a session (MS-SMB2 3.2.1.3 `Session.ChannelList`). A request goes by the one with the least
//! under way; when its channel is lost before the answer came, it goes again by another, and says so where it has to.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use lane::time::{sleep, timeout};
use smb_wire::header::flags;
use smb_wire::{Guid, Status};

use crate::channel::Channel;
use crate::error::Error;
use crate::tree::Tree;

/// Channels of one session to one share, as a lane has them. Others, on other lanes too, may have more of them.
#[derive(Clone)]
pub struct Channels(Rc<ChannelsInner>);

struct ChannelsInner {
    trees: RefCell<Vec<Tree>>,
    /// Place from which on the next channel is looked for, so that equals take turns.
    next: Cell<usize>,
    patience: Option<Duration>,
    waiting: RefCell<Vec<Waker>>,
    lost: Cell<u64>,
    replays: Cell<u64>,
    refused: Cell<u64>,
}

impl Channels {
    /// Makes the channels of the session of `tree`, with its channel as the first. A channel that does not
    /// answer within `patience` is given up; where no channel is left, one that is bound is waited for as
    /// long. Without it answers are waited for as long as a connection stands, and a channel not at all.
    pub fn new(tree: Tree, patience: Option<Duration>) -> Self {
        Self(Rc::new(ChannelsInner {
            trees: RefCell::new(vec![tree]),
            next: Cell::default(),
            patience,
            waiting: RefCell::default(),
            lost: Cell::default(),
            replays: Cell::default(),
            refused: Cell::default(),
        }))
    }

    /// Adds a channel.
    pub fn add(&self, tree: Tree) {
        self.0.trees.borrow_mut().push(tree);
        self.0.waiting.take().into_iter().for_each(Waker::wake);
    }

    /// Returns how many there are.
    pub fn count(&self) -> usize {
        self.0.trees.borrow().len()
    }

    /// Channels that were lost.
    pub fn lost(&self) -> u64 {
        self.0.lost.get()
    }

    /// Requests that went again.
    pub fn replays(&self) -> u64 {
        self.0.replays.get()
    }

    /// Answers that were refused: whose signature was wrong, or that were not signed or sealed.
    pub fn refused(&self) -> u64 {
        self.0.refused.get() + self.0.trees.borrow().iter().map(refused).sum::<u64>()
    }

    /// Ends the session by one of them.
    ///
    /// # Errors
    /// The request's.
    pub async fn log_off(&self) -> Result<(), Error> {
        // One that is over and was not used since does not tell.
        let trees = self.0.trees.borrow().clone();
        let ended = trees.iter().filter(|tree| tree.channel().connection().ended().is_some());
        ended.for_each(|tree| self.lose(tree.channel()));
        self.pick().await?.channel().log_off().await
    }

    /// Asks whether the server is there.
    ///
    /// # Errors
    /// The request's.
    pub async fn echo(&self) -> Result<(), Error> {
        self.exchange(async |tree, _| tree.channel().echo().await).await
    }

    /// Has one of them lost, by a reset of its connection in the middle of whatever it does. What was under way goes again by others.
    pub fn kill(&self, channel: &Channel) {
        channel.connection().reset();
        self.lose(channel);
    }

    /// Asks by one channel after another, until one brings an answer. `asked` gets flags for the header, for what may be done once
    /// alone: SMB2_FLAGS_REPLAY_OPERATION when the same was asked by a channel that was lost.
    pub(crate) async fn exchange<T>(
        &self,
        mut asked: impl AsyncFnMut(&Tree, u32) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.exchange_with(TRIES_MAX, async |tree, flags| match self.0.patience {
            None => asked(tree, flags).await,
            Some(patience) => timeout(patience, asked(tree, flags)).await.unwrap_or_else(|_| {
                tree.channel().connection().break_off();
                Err(Error::Closed)
            }),
        })
        .await
    }

    /// Makes a request ([`Channels::request`]) for what others may keep waiting for as long as they like: it
    /// is waited for as long as its channel answers anything.
    pub(crate) async fn exchange_waiting<T>(
        &self,
        mut asked: impl AsyncFnMut(&Tree, u32) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.exchange_with(u32::MAX, async |tree, flags| self.while_alive(tree, asked(tree, flags)).await)
            .await
    }

    /// Returns what `asking` comes to, as long as the channel that it is asked by answers an ECHO now and
    /// then.
    async fn while_alive<T>(
        &self,
        tree: &Tree,
        asking: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let Some(patience) = self.0.patience else { return asking.await };
        let mut asking = pin!(asking);
        loop {
            if let Ok(answer) = timeout(patience, &mut asking).await {
                return answer;
            }
            let channel = tree.channel();
            // The caller learns what is wrong with its answer.
            if timeout(patience, channel.echo()).await.is_err() {
                channel.connection().break_off();
                return Err(Error::Closed);
            }
        }
    }

    async fn exchange_with<T>(
        &self,
        tries_max: u32,
        mut asked: impl AsyncFnMut(&Tree, u32) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut header_flags = 0;
        let mut pause = PAUSE;
        for _ in 0..tries_max {
            let tree = self.pick().await?;
            let connection = tree.channel().connection();
            let answer = asked(&tree, header_flags).await;
            match answer {
                // The server has what is repeated under way still, or this was overtaken by word that a channel was lost.
                Err(error) if error.status() == Some(Status::FILE_NOT_AVAILABLE) && self.has_lost(&tree) => {
                    sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                Err(Error::Status { .. }) | Ok(_) => return answer,
                Err(_) if connection.ended().is_some() => {
                    self.lose(tree.channel());
                    if self.0.patience.is_none() && self.count() == 0 {
                        return answer;
                    }
                    // What was under way on it is replayed on another (MS-SMB2 3.2.7.1).
                    header_flags = flags::REPLAY_OPERATION;
                }
                Err(_) => return answer,
            }
            self.0.replays.update(|replays| replays + 1);
        }
        Err(Error::Closed)
    }

    /// Returns a number for a CREATE by which the server knows it again; `None` where there is no channel to replay it
    /// by.
    pub(crate) fn create_guid(&self) -> Option<Guid> {
        let trees = self.0.trees.borrow();
        let channel = trees.first()?.channel();
        (channel.ticket().channels() > 1).then(|| {
            let mut guid = [0; 16];
            (channel.connection().shared().options.random)(&mut guid);
            Guid::new(guid)
        })
    }

    /// Returns whether a channel of the session was ever lost, by this lane or another.
    fn has_lost(&self, tree: &Tree) -> bool {
        tree.channel().ticket().sequence() != 0
    }

    /// Returns the channel with the least under way.
    async fn pick(&self) -> Result<Tree, Error> {
        let picked = poll_fn(|cx| match self.least() {
            Some(tree) => Poll::Ready(Ok(tree)),
            None if self.0.patience.is_none() => Poll::Ready(Err(Error::Closed)),
            None => {
                self.0.waiting.borrow_mut().push(cx.waker().clone());
                Poll::Pending
            }
        });
        match self.0.patience {
            Some(patience) if self.count() == 0 => {
                timeout(patience, picked).await.unwrap_or(Err(Error::Closed))
            }
            _ => picked.await,
        }
    }

    fn least(&self) -> Option<Tree> {
        let trees = self.0.trees.borrow();
        let from = self.0.next.get() % trees.len().max(1);
        self.0.next.set(from + 1);
        let in_turn = trees[from..].iter().chain(&trees[..from]);
        in_turn.min_by_key(|tree| tree.channel().connection().outstanding()).cloned()
    }

    /// Drops a lost channel. The first that finds out notifies all.
    fn lose(&self, channel: &Channel) {
        let is_lost = |tree: &mut Tree| tree.channel().connection().is(channel.connection());
        let lost: Vec<_> = self.0.trees.borrow_mut().extract_if(.., is_lost).collect();
        for tree in lost {
            // Session.ChannelSequence is incremented by 1 with each (MS-SMB2 3.2.7.1).
            channel.ticket().advance_sequence();
            self.0.lost.update(|lost| lost + 1);
            self.0.refused.update(|sum| sum + refused(&tree));
        }
    }
}

impl std::fmt::Debug for Channels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Channels")
            .field("count", &self.count())
            .field("lost", &self.lost())
            .finish_non_exhaustive()
    }
}

fn refused(tree: &Tree) -> u64 {
    let counters = tree.channel().connection().counters();
    counters.wrong_signatures.get() + counters.unsigned.get() + counters.unsealed.get()
}

/// A request is given up after so many channels and refusals.
const TRIES_MAX: u32 = 200;
/// Time for which a server has for what it has under way, before it is asked again.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(100);
