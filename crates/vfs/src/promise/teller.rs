//! How clients are told: a service says how, and this has each told on its home lane, in batches, one batch at a time.

use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use lane::mesh::Sender;

use super::{Client, Holder, Next, Notice};
use crate::counters::VfsCounters;
use crate::object::Objects;

/// How a service tells its clients. Each lane of a service that lets clients cache has one
/// ([`Cache::add_teller`](crate::Cache::add_teller)).
pub trait Teller {
    /// Whether this client is the service's own.
    fn knows(&self, holder: Holder) -> bool;

    /// Tells the client, at most [`Teller::batch_max`] objects in one call, or one volume, or that all is void. Ends when it has
    /// answered, or is known not to. It is given up after [`PromiseOptions::patience`](crate::PromiseOptions::patience).
    fn tell(&self, client: &Arc<Client>, notices: Vec<Notice>) -> Heard;

    /// Whether the client is known not to be there, as [`TellOutcome::Gone`]: asked where a reply to it takes long to arrive.
    fn is_gone(&self, _: &Arc<Client>) -> Gone {
        Box::pin(async { false })
    }

    /// Objects that it tells of at once.
    fn batch_max(&self) -> usize {
        50
    }
}

/// What becomes of telling a client.
pub type Heard = Pin<Box<dyn Future<Output = TellOutcome>>>;

/// Whether a client is known not to be there.
pub type Gone = Pin<Box<dyn Future<Output = bool>>>;

/// What became of telling a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TellOutcome {
    /// It has heard.
    Heard,
    /// It did not answer, or refused: it may be there all the same, and is told again.
    Silent,
    /// It is known not to be there: nobody waits for it, and it is told nothing more before it comes by itself. Only for what cannot
    /// be said of a client that is there and can be reached.
    Gone,
}

/// A batch on its way. Dropped with its lane, another lane takes it.
struct OnItsWay<'a> {
    objects: &'a Objects,
    ringer: &'a Sender<()>,
    client: &'a Arc<Client>,
    has_ended: bool,
}

/// Tells a client, on its home lane, until it has heard everything, or does not answer.
pub(crate) async fn tell(
    objects: Objects,
    ringer: Sender<()>,
    client: Arc<Client>,
    teller: Weak<dyn Teller>,
    counters: Arc<VfsCounters>,
) {
    let options = objects.options().promises;
    let mut on_its_way = OnItsWay { objects: &objects, ringer: &ringer, client: &client, has_ended: true };
    loop {
        // Without a service on this lane nobody is told here.
        let Some(teller) = teller.upgrade() else { return client.give_up() };
        let Some(notices) = client.next_batch(teller.batch_max()) else { return };
        on_its_way.has_ended = false;
        counters.clients_told.increment();
        let telling = teller.tell(&client, notices);
        drop(teller);
        let outcome = lane::time::timeout(options.patience, telling).await.unwrap_or(TellOutcome::Silent);
        on_its_way.has_ended = true;
        let late_max = match outcome {
            TellOutcome::Heard => {
                client.heard();
                continue;
            }
            TellOutcome::Silent => options.late_max,
            TellOutcome::Gone => 0,
        };
        counters.clients_late.increment();
        if client.not_heard(late_max) {
            counters.clients_down.increment();
            return;
        }
    }
}

/// Sees to it that what a client has yet to hear is told.
pub(crate) fn carry_on(objects: &Objects, ringer: &Sender<()>, client: &Arc<Client>, next: Next) {
    let Next::Tell(home) = next else { return };
    match objects.desks().call(home, client) {
        Some(lane) => {
            ringer.ring(lane);
        }
        None => client.give_up(),
    }
}

impl Drop for OnItsWay<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            carry_on(self.objects, self.ringer, self.client, self.client.left());
        }
    }
}

/// The service of this lane that knows a client.
pub(crate) fn teller_of(tellers: &[Weak<dyn Teller>], holder: Holder) -> Option<Rc<dyn Teller>> {
    tellers.iter().filter_map(Weak::upgrade).find(|teller| teller.knows(holder))
}
