//! Delivery of callback breaks: each client is notified on its home lane, one batch at a time, by its service.

use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use coherence::Holder;
use lane::mesh::Member;

use super::{Client, Notice};
use crate::counters::VfsCounters;
use crate::object::Objects;

/// Sends callback breaks to the clients of a service. Each lane of a service that lets clients cache has one
/// ([`Cache::add_callback_notifier`](crate::Cache::add_callback_notifier)).
pub trait CallbackNotifier {
    /// Returns whether this client is the service's own.
    fn knows(&self, holder: Holder) -> bool;

    /// Sends breaks to the client: at most [`CallbackNotifier::batch_max`] objects, or one volume, or that all
    /// callbacks are void. Completes when the client has acknowledged, or is known not to. It is given up after
    /// [`CallbackOptions::patience`](crate::CallbackOptions::patience).
    fn notify(&self, client: &Arc<Client>, notices: Vec<Notice>) -> NotifyFuture;

    /// Returns whether the client is known not to be there, as [`NotifyOutcome::Gone`]: asked where a reply
    /// to it takes long to arrive.
    fn is_gone(&self, _: &Arc<Client>) -> GoneFuture {
        Box::pin(async { false })
    }

    /// Returns the largest number of objects of one notice.
    fn batch_max(&self) -> usize {
        50
    }
}

/// Future of one batch of breaks to a client.
pub type NotifyFuture = Pin<Box<dyn Future<Output = NotifyOutcome>>>;

/// Future that says whether a client is known to be gone.
pub type GoneFuture = Pin<Box<dyn Future<Output = bool>>>;

/// Outcome of one batch of breaks to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotifyOutcome {
    /// The client has acknowledged the notice.
    Acknowledged,
    /// The client did not answer, or refused: it may be there all the same, and is notified again.
    NoReply,
    /// The client is known not to be there: no change waits for it, and it is not notified again before it comes by
    /// itself. Use it only for what a client that can be reached never causes.
    Gone,
}

/// A batch in flight to a client. Where it is dropped with its lane, another lane takes the batch.
struct InFlightBatch<'a> {
    objects: &'a Objects,
    lane: Member,
    client: &'a Arc<Client>,
    has_ended: bool,
}

/// Sends a client its pending breaks, on its home lane, until none is left or it does not answer.
pub(crate) async fn notify_client(
    objects: Objects,
    lane: Member,
    client: Arc<Client>,
    notifier: Weak<dyn CallbackNotifier>,
    counters: Arc<VfsCounters>,
) {
    let options = objects.options().callbacks;
    let mut batch = InFlightBatch { objects: &objects, lane, client: &client, has_ended: true };
    loop {
        // Without a service on this lane no client is told here.
        let Some(notifier) = notifier.upgrade() else { return client.give_up() };
        let Some(notices) = client.next_batch(notifier.batch_max()) else {
            return objects.queues().notify_next(lane, &client, client.resume());
        };
        batch.has_ended = false;
        counters.clients_told.increment();
        let telling = notifier.notify(&client, notices);
        drop(notifier);
        let outcome = lane::time::timeout(options.patience, telling).await.unwrap_or(NotifyOutcome::NoReply);
        batch.has_ended = true;
        let late_max = match outcome {
            NotifyOutcome::Acknowledged => {
                client.note_acknowledged();
                continue;
            }
            NotifyOutcome::NoReply => options.late_max,
            NotifyOutcome::Gone => 0,
        };
        counters.clients_late.increment();
        if client.note_no_reply(late_max) {
            counters.clients_down.increment();
            return;
        }
    }
}

impl Drop for InFlightBatch<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.objects.queues().notify_next(self.lane, self.client, self.client.hand_back());
        }
    }
}

/// Returns the notifier of this lane whose service knows the client.
pub(crate) fn notifier_of(
    notifiers: &[Weak<dyn CallbackNotifier>],
    holder: Holder,
) -> Option<Rc<dyn CallbackNotifier>> {
    notifiers.iter().filter_map(Weak::upgrade).find(|notifier| notifier.knows(holder))
}
