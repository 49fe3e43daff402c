//! Requests of users under way on a lane: they end when a reload brings accounts that lack their user, or have it
//! disabled.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;

use identity::{Accounts, Principal};
use slab::Slab;

use super::end_notice::EndNotice;

/// The requests of users on one lane.
#[derive(Default)]
pub(super) struct UserRequests {
    open: RefCell<Slab<Rc<Running>>>,
}

struct Running {
    principal: Principal,
    /// Given once the user may do nothing more.
    end: EndNotice,
    /// Callback in place of the notice, called once, where no task waits for the request.
    teller: RefCell<Option<Box<dyn FnOnce()>>>,
}

/// A user's request, until this is dropped.
pub(super) struct UserRequest {
    requests: Rc<UserRequests>,
    running: Rc<Running>,
    place: usize,
}

/// Error of a request whose user the accounts no longer let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UserGone;

impl UserRequests {
    /// Notes a request of this user.
    pub(super) fn begin(self: &Rc<Self>, principal: Principal) -> UserRequest {
        let (end, teller) = Default::default();
        let running = Rc::new(Running { principal, end, teller });
        let place = self.open.borrow_mut().insert(Rc::clone(&running));
        UserRequest { requests: Rc::clone(self), running, place }
    }

    /// Ends the requests of users that these accounts do not let in.
    pub(super) fn judge(&self, accounts: &Accounts) {
        let open = self.open.borrow();
        let over = open.iter().map(|(_, running)| running);
        let over: Vec<_> =
            over.filter(|running| accounts.renewed(&running.principal).is_none()).cloned().collect();
        drop(open);
        for running in over {
            running.end.give();
            if let Some(tell) = running.teller.take() {
                tell();
            }
        }
    }
}

impl UserRequest {
    /// Returns the output of `future`, unless the user is gone before.
    pub(super) async fn unless_gone<F: Future>(&self, future: F) -> Result<F::Output, UserGone> {
        let mut future = pin!(future);
        let output = poll_fn(|cx| self.running.end.poll(cx, future.as_mut())).await;
        output.ok_or(UserGone)
    }

    /// Has `tell` called once the user is gone, perhaps now.
    pub(super) fn tell(&self, tell: impl FnOnce() + 'static) {
        if self.running.end.is_given() {
            tell();
        } else {
            *self.running.teller.borrow_mut() = Some(Box::new(tell));
        }
    }
}

impl std::fmt::Debug for UserRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("UserRequest").field(&self.running.principal).finish()
    }
}

impl Drop for UserRequest {
    fn drop(&mut self) {
        self.requests.open.borrow_mut().remove(self.place);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::task::{Poll, Waker};

    use super::*;

    const BOTH: &str = "version = 1\n[user.alice]\nid = 7\n[user.bob]\nid = 8\n";

    #[test]
    fn requests_of_users_that_are_gone_disabled_or_others_by_now_end() {
        for (text, is_over) in [
            (BOTH, false),
            ("version = 1\n[user.bob]\nid = 8\n", true),
            ("version = 1\n[user.alice]\nid = 7\ndisabled = true\n[user.bob]\nid = 8\n", true),
            ("version = 1\n[user.alice]\nid = 9\n[user.bob]\nid = 8\n", true),
        ] {
            let requests = Rc::new(UserRequests::default());
            let before = Accounts::parse(BOTH).unwrap();
            let [alice, bob] = ["alice", "bob"].map(|name| requests.begin(before.user(name).unwrap()));
            let told: Rc<Cell<u32>> = Rc::default();
            let teller = Rc::clone(&told);
            alice.tell(move || teller.set(teller.get() + 1));
            requests.judge(&Accounts::parse(text).unwrap());
            let waits = |request: &UserRequest| {
                let waiting = pin!(request.unless_gone(std::future::pending::<()>()));
                waiting.poll(&mut std::task::Context::from_waker(Waker::noop()))
            };
            let gone = if is_over { Poll::Ready(Err(UserGone)) } else { Poll::Pending };
            assert_eq!((waits(&alice), waits(&bob), told.get()), (gone, Poll::Pending, u32::from(is_over)));
            drop((alice, bob));
            assert!(requests.open.borrow().is_empty());
        }
    }
}
