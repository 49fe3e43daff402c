//! A lane and its clients that cache: callbacks given to them here, and their breaks.

use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Instant;

use coherence::{Ack, Acks, CallbackRef, CallbackTableFull, Holder, InFlightReplies, NextStep};
use futures_util::future::{Either, LocalBoxFuture, select};
use lane::Task;
use lane::time;

use super::Cache;
use super::coherence_peer::CoherencePeer;
use crate::callback::{
    CallbackNotifier, Client, Invalidation, Notice, PendingBreak, notifier_of, notify_client,
};
use crate::error::Error;
use crate::object::Object;

impl Cache {
    /// Adds the notifier of a service, for as long as it lives: it sends callback breaks to clients whose home is
    /// this lane, or whose home has ended.
    ///
    /// # Panics
    /// For a cache that does not [share](Cache::sharing).
    pub fn add_callback_notifier(&self, notifier: &Rc<dyn CallbackNotifier>) {
        self.peer().expect("only what lanes share is promised").add_callback_notifier(notifier);
    }

    /// Returns the record of a client, one for all lanes; a new one has this lane as its home, from which it is
    /// notified. Keep it for as long as the client is known.
    ///
    /// # Errors
    /// [`Error::Busy`] when there are as many as may be; [`Error::ReadOnly`] for a cache that does not share.
    pub fn client(&self, holder: Holder) -> Result<Arc<Client>, Error> {
        let peer = self.peer().ok_or(Error::ReadOnly)?;
        peer.objects.client(holder, peer.member())
    }

    /// Makes this lane the client's home: its connection for callbacks is here now.
    ///
    /// # Panics
    /// As [`Cache::add_callback_notifier`].
    pub fn set_home_of(&self, client: &Client) {
        client.set_home(self.peer().expect("only what lanes share is promised").member());
    }

    /// Delivers the client's pending breaks, to be awaited before its request is answered. Where none is pending this
    /// costs one load.
    ///
    /// # Errors
    /// [`Error::Busy`] when it cannot be notified; its request is not to be answered then.
    pub fn flush_pending_breaks<'a>(
        &'a self,
        client: &'a Arc<Client>,
    ) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            if !client.has_pending_breaks() {
                return Ok(());
            }
            let peer = self.peer().ok_or(Error::ReadOnly)?;
            let acks = Acks::default();
            peer.notify_next(client, |client| client.note_reachable(&acks));
            let _ = time::timeout(peer.objects.options().callbacks.patience, acks).await;
            if client.has_pending_breaks() { Err(Error::Busy) } else { Ok(()) }
        })
    }

    /// Voids all callbacks of a client, on every lane, and notifies it: it, or its connection, is not to be trusted to
    /// remember them. Waits until it has acknowledged, or will before it is served again.
    pub fn void_all<'a>(&'a self, client: &'a Arc<Client>) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            let Some(peer) = self.peer_rc() else { return };
            let acks = Acks::default();
            peer.void(client, acks.issue());
            if time::timeout(peer.objects.options().callbacks.patience, acks).await.is_err() {
                client.defer_breaks();
            }
        })
    }
}

impl CoherencePeer {
    fn add_callback_notifier(&self, notifier: &Rc<dyn CallbackNotifier>) {
        let mut notifiers = self.notifiers.borrow_mut();
        notifiers.retain(|known| known.strong_count() > 0);
        notifiers.push(Rc::downgrade(notifier));
        self.objects.queues().serve_clients(self.member());
    }

    /// Gives a client a callback ([`CallbackTable::give`](crate::callback::CallbackTable::give)); clients
    /// whose callbacks are evicted for it are notified.
    pub(crate) fn give(
        self: &Rc<Self>,
        client: &Arc<Client>,
        object: &Arc<Object>,
        until: Instant,
    ) -> Result<CallbackRef, CallbackTableFull> {
        if client.is_retired() {
            return Err(CallbackTableFull);
        }
        let mut pending_breaks = Vec::new();
        let (now, max) = (time::now(), self.objects.options().callbacks.callbacks_max);
        let given = self.callbacks.give(client, object, until, now, max, &mut pending_breaks);
        if !pending_breaks.is_empty() {
            self.counters.callbacks_evicted.add(pending_breaks.len() as u64);
            self.notify_all(pending_breaks, None);
        }
        self.counters.callbacks_held.set(self.callbacks.callback_count() as u64);
        self.start_sweep();
        given
    }

    /// Breaks the callbacks of this lane's clients that an invalidation concerns; `until` is dropped when they have
    /// acknowledged.
    pub(super) fn notify_clients(self: &Rc<Self>, invalidation: &Invalidation, until: impl FnOnce() -> Ack) {
        let pending_breaks = self.callbacks.begin_breaks(invalidation, time::now());
        if !pending_breaks.is_empty() {
            self.counters.callbacks_broken.add(pending_breaks.len() as u64);
            self.notify_all(pending_breaks, Some(until()));
        }
    }

    /// Sends pending breaks, all at once, and waits for each client for as long as its patience lasts.
    fn notify_all(self: &Rc<Self>, pending_breaks: Vec<PendingBreak>, until: Option<Ack>) {
        let acks = Acks::default();
        for one in &pending_breaks {
            let ack = acks.issue();
            let (client, notice, matters_until) = (Arc::clone(&one.client), one.what.notice(), one.until);
            if one.in_flight.is_empty() {
                self.post(&client, notice, matters_until, ack);
                continue;
            }
            // The reply that carries the promise comes first: a client that hears of its end before it has it would keep it.
            let (peer, in_flight) = (Rc::clone(self), one.in_flight.clone());
            lane::spawn(async move {
                let overtake_max = peer.objects.options().callbacks.overtake_max;
                let _ = time::timeout(overtake_max, peer.delivered_or_gone(&client, &in_flight)).await;
                peer.post(&client, notice, matters_until, ack);
            })
            .detach();
        }
        let waiting = BreakWait { peer: Rc::clone(self), since: time::now(), pending_breaks, until };
        lane::spawn(async move {
            let patience = waiting.peer.objects.options().callbacks.patience;
            let mut acks = pin!(acks);
            if time::timeout(patience / 4, acks.as_mut()).await.is_err() {
                // A client that asks for something meanwhile can be reached, and has to hear first.
                waiting.pending_breaks.iter().for_each(|one| one.client.defer_breaks());
                if time::timeout(patience - patience / 4, acks).await.is_err() {
                    waiting.peer.counters.clients_not_waited_for.increment();
                }
            }
            waiting.end();
        })
        .detach();
    }

    /// Waits until none of these replies is in flight, or their client is known to be gone.
    async fn delivered_or_gone(&self, client: &Arc<Client>, in_flight: &[Rc<InFlightReplies>]) {
        let mut over = pin!(all_delivered(in_flight));
        let soon = self.objects.options().callbacks.overtake_max / 10;
        if time::timeout(soon, over.as_mut()).await.is_ok() {
            return;
        }
        let is_gone = match notifier_of(&self.notifiers.borrow(), client.holder()) {
            Some(notifier) => notifier.is_gone(client),
            None => Box::pin(async { false }),
        };
        match select(over, is_gone).await {
            Either::Left(_) | Either::Right((true, _)) => {}
            Either::Right((false, over)) => over.await,
        }
    }

    fn post(&self, client: &Arc<Client>, notice: Option<Notice>, until: Instant, ack: Ack) {
        match notice {
            Some(notice) => {
                self.notify_next(client, |client| client.post(notice, until, ack, time::now()));
            }
            None => client.join_all(ack),
        }
    }

    fn notify_next(&self, client: &Arc<Client>, act: impl FnOnce(&Client) -> NextStep) {
        let next = act(client);
        self.objects.queues().notify_next(self.member(), client, next);
    }

    /// Notifies the clients in this lane's queue.
    pub(super) fn notify_queued_clients(&self) {
        while let Some(client) = self.objects.queues().next_client(self.member()) {
            let notifier = notifier_of(&self.notifiers.borrow(), client.holder());
            let Some(notifier) = notifier else {
                client.give_up();
                continue;
            };
            let (objects, counters) = (self.objects.clone(), Arc::clone(&self.counters));
            let notified = notify_client(objects, self.member(), client, Rc::downgrade(&notifier), counters);
            lane::spawn(notified).detach();
        }
    }

    /// Starts the task that removes expired callbacks, unless it runs.
    fn start_sweep(self: &Rc<Self>) {
        let mut sweeper = self.sweeper.borrow_mut();
        if sweeper.as_ref().is_none_or(Task::is_finished) {
            *sweeper = Some(lane::spawn(sweep(Rc::downgrade(self))));
        }
    }

    /// Voids the callbacks of every client of this lane, on all lanes.
    pub(super) fn void_clients(self: &Rc<Self>) {
        for client in self.callbacks.clients() {
            self.void(&client, Acks::default().issue());
        }
    }

    /// Voids the callbacks of a client, on all lanes, at once. It is notified after the replies that are on their way
    /// to it, from whichever lane: else it would keep what it gets by them. `ack` is dropped when it has acknowledged.
    fn void(self: &Rc<Self>, client: &Arc<Client>, ack: Ack) {
        client.hold_all();
        let held = VoidHold { peer: Rc::clone(self), client: Arc::clone(client) };
        let now = time::now();
        self.notify_next(client, |client| client.post_all(now + VOID_KEPT, ack, now));
        let acks = Acks::default();
        self.objects.queues().await_in_flight(self.member(), client, &acks.issue());
        let in_flight = self.callbacks.in_flight_to(client);
        lane::spawn(async move {
            let all = async {
                all_delivered(&in_flight).await;
                acks.await;
            };
            let _ = time::timeout(held.peer.objects.options().callbacks.overtake_max, all).await;
            drop(held);
        })
        .detach();
    }

    /// Acknowledges voided callbacks to other lanes, once no reply to the client is in flight from here.
    pub(super) fn ack_voided_clients(&self) {
        while let Some((client, ack)) = self.objects.queues().next_voided(self.member()) {
            let in_flight = self.callbacks.in_flight_to(&client);
            if !in_flight.is_empty() {
                let overtake_max = self.objects.options().callbacks.overtake_max;
                lane::spawn(async move {
                    let _ = time::timeout(overtake_max, all_delivered(&in_flight)).await;
                    drop(ack);
                })
                .detach();
            }
        }
    }

    /// Ends the lane: all its clients are notified that their callbacks are void, as it cannot break them any more.
    pub(super) fn end(&self) {
        self.callbacks.end().end(self.objects.queues(), self.member(), VOID_KEPT, time::now);
    }
}

/// Waits until none of these replies is in flight.
async fn all_delivered(in_flight: &[Rc<InFlightReplies>]) {
    for one in in_flight {
        one.delivered().await;
    }
}

/// Guard that holds back the break that voids all callbacks of a client.
struct VoidHold {
    peer: Rc<CoherencePeer>,
    client: Arc<Client>,
}

impl Drop for VoidHold {
    fn drop(&mut self) {
        self.peer.notify_next(&self.client, Client::release_all);
    }
}

/// A change that waits for clients of this lane.
struct BreakWait {
    peer: Rc<CoherencePeer>,
    since: Instant,
    pending_breaks: Vec<PendingBreak>,
    until: Option<Ack>,
}

impl BreakWait {
    fn end(mut self) {
        self.pending_breaks.drain(..).for_each(|one| self.peer.callbacks.remove_broken(&one.what));
        self.until = None;
    }
}

impl Drop for BreakWait {
    /// Has the change go on waiting for the clients, as the lane ends before they have acknowledged.
    fn drop(&mut self) {
        if let Some(until) = self.until.take() {
            self.peer.objects.queues().leave_ack(self.peer.member(), self.since, until);
        }
    }
}

async fn sweep(peer: Weak<CoherencePeer>) {
    loop {
        time::sleep(SWEEP_EVERY).await;
        let mut from = Some(0);
        while let Some(next) = from {
            let Some(peer) = peer.upgrade() else { return };
            let (rest, over) = peer.callbacks.sweep(next, SWEPT_AT_ONCE, time::now());
            peer.counters.callbacks_expired.add(over as u64);
            peer.counters.callbacks_held.set(peer.callbacks.callback_count() as u64);
            if peer.callbacks.callback_count() == 0 {
                return;
            }
            drop(peer);
            lane::yield_now().await;
            from = rest;
        }
    }
}

/// Interval at which expired callbacks are looked for: they cost memory and a question until then.
const SWEEP_EVERY: std::time::Duration = std::time::Duration::from_secs(8);
/// Callbacks looked at before other tasks of the lane run: some ten microseconds.
const SWEPT_AT_ONCE: u32 = 1024;
/// Longest time for which any callback may last.
const VOID_KEPT: std::time::Duration = std::time::Duration::from_secs(7 * 86_400);
