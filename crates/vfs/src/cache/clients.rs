//! A lane and its clients that cache: promises given to them here, and what they are told before it changes.

use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::{Either, LocalBoxFuture, select};
use lane::Task;
use lane::time;

use super::Cache;
use super::joined::Joined;
use crate::error::Error;
use crate::object::Object;
use crate::promise::{
    Answer, Answers, Arrivals, Broken, Client, Full, Holder, Leaving, Notice, Teller, Ticket, carry_on, tell,
    teller_of,
};

impl Cache {
    /// Has clients that cache told by this service, for as long as it lives, when what they were promised is broken: those whose
    /// home is this lane, and those whose home has ended.
    ///
    /// # Panics
    /// For a cache that does not [share](Cache::sharing).
    pub fn add_teller(&self, teller: &Rc<dyn Teller>) {
        self.joined().expect("only what lanes share is promised").add_teller(teller);
    }

    /// The record of a client, one for all lanes; a new one has this lane as its home, on which it is told. Keep it for as long
    /// as the client is known.
    ///
    /// # Errors
    /// [`Error::Busy`] when there are as many as may be; [`Error::ReadOnly`] for a cache that does not share.
    pub fn client(&self, holder: Holder) -> Result<Arc<Client>, Error> {
        let joined = self.joined().ok_or(Error::ReadOnly)?;
        joined.objects.client(holder, joined.member())
    }

    /// Makes this lane the client's home: its connection back is here now.
    ///
    /// # Panics
    /// As [`Cache::add_teller`].
    pub fn be_home_of(&self, client: &Client) {
        client.set_home(self.joined().expect("only what lanes share is promised").member());
    }

    /// To be waited for before a request of a client is answered: what it has missed so far it hears now. Where it has missed
    /// nothing this costs a look.
    ///
    /// # Errors
    /// [`Error::Busy`] when it cannot be told; its request is not to be answered then.
    pub fn greet<'a>(&'a self, client: &'a Arc<Client>) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            if !client.owes() {
                return Ok(());
            }
            let joined = self.joined().ok_or(Error::ReadOnly)?;
            let answers = Answers::default();
            joined.carry_on(client, |client| client.comes(&answers));
            let _ = time::timeout(joined.objects.options().promises.patience, answers).await;
            if client.owes() { Err(Error::Busy) } else { Ok(()) }
        })
    }

    /// Voids all that a client was promised, on every lane, and has it told so: it, or its connection, is not to be trusted to
    /// remember. Waits until it has heard, or will before it is served again.
    pub fn void_all<'a>(&'a self, client: &'a Arc<Client>) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            let Some(joined) = self.joined_rc() else { return };
            let answers = Answers::default();
            joined.void(client, answers.ask());
            if time::timeout(joined.objects.options().promises.patience, answers).await.is_err() {
                client.owe();
            }
        })
    }
}

impl Joined {
    fn add_teller(&self, teller: &Rc<dyn Teller>) {
        let mut tellers = self.tellers.borrow_mut();
        tellers.retain(|known| known.strong_count() > 0);
        tellers.push(Rc::downgrade(teller));
        self.objects.desks().tells(self.member());
    }

    /// As [`Promises::give`]; those who have to leave for it are told.
    pub(crate) fn give(
        self: &Rc<Self>,
        client: &Arc<Client>,
        object: &Arc<Object>,
        until: Instant,
    ) -> Result<Ticket, Full> {
        if client.is_retired() {
            return Err(Full);
        }
        let mut leaving = Vec::new();
        let (now, max) = (time::now(), self.objects.options().promises.promises_max);
        let given = self.promises.give(client, object, until, now, max, &mut leaving);
        if !leaving.is_empty() {
            self.counters.promises_evicted.add(leaving.len() as u64);
            self.have_told(leaving, None);
        }
        self.counters.promises_given.set(self.promises.given() as u64);
        self.sweep_later();
        given
    }

    /// Has this lane's clients told what is about to change; `until` is dropped when they have heard.
    pub(super) fn tell_clients(self: &Rc<Self>, broken: &Broken, until: impl FnOnce() -> Answer) {
        let leaving = self.promises.break_given(broken, time::now());
        if !leaving.is_empty() {
            self.counters.promises_broken.add(leaving.len() as u64);
            self.have_told(leaving, Some(until()));
        }
    }

    /// Has clients told, all at once, and waits for each for as long as there is patience.
    fn have_told(self: &Rc<Self>, leaving: Vec<Leaving>, until: Option<Answer>) {
        let answers = Answers::default();
        for one in &leaving {
            let answer = answers.ask();
            let (client, notice, matters_until) = (Arc::clone(&one.client), one.what.notice(), one.until);
            if one.arriving.is_empty() {
                self.post(&client, notice, matters_until, answer);
                continue;
            }
            // The reply that carries the promise comes first: a client that hears of its end before it has it would keep it.
            let (joined, arriving) = (Rc::clone(self), one.arriving.clone());
            lane::spawn(async move {
                let overtake_max = joined.objects.options().promises.overtake_max;
                let _ = time::timeout(overtake_max, joined.over_or_gone(&client, &arriving)).await;
                joined.post(&client, notice, matters_until, answer);
            })
            .detach();
        }
        let waiting = Waiting { joined: Rc::clone(self), since: time::now(), leaving, until };
        lane::spawn(async move {
            let patience = waiting.joined.objects.options().promises.patience;
            let mut answers = pin!(answers);
            if time::timeout(patience / 4, answers.as_mut()).await.is_err() {
                // A client that asks for something meanwhile can be reached, and has to hear first.
                waiting.leaving.iter().for_each(|one| one.client.owe());
                if time::timeout(patience - patience / 4, answers).await.is_err() {
                    waiting.joined.counters.clients_not_waited_for.increment();
                }
            }
            waiting.end();
        })
        .detach();
    }

    /// Waits until none of these is on its way any more, or their client is known not to be there.
    async fn over_or_gone(&self, client: &Arc<Client>, arriving: &[Rc<Arrivals>]) {
        let mut over = pin!(over(arriving));
        let soon = self.objects.options().promises.overtake_max / 10;
        if time::timeout(soon, over.as_mut()).await.is_ok() {
            return;
        }
        let is_gone = match teller_of(&self.tellers.borrow(), client.holder()) {
            Some(teller) => teller.is_gone(client),
            None => Box::pin(async { false }),
        };
        match select(over, is_gone).await {
            Either::Left(_) | Either::Right((true, _)) => {}
            Either::Right((false, over)) => over.await,
        }
    }

    fn post(&self, client: &Arc<Client>, notice: Option<Notice>, until: Instant, answer: Answer) {
        match notice {
            Some(notice) => {
                self.carry_on(client, |client| client.post(notice, until, answer, time::now()));
            }
            None => client.join_all(answer),
        }
    }

    fn carry_on(&self, client: &Arc<Client>, act: impl FnOnce(&Client) -> crate::promise::Next) {
        let next = act(client);
        carry_on(&self.objects, &self.ringer, client, next);
    }

    /// Has the clients told that this lane is to tell.
    pub(super) fn tell_those_who_wait(&self) {
        while let Some(client) = self.objects.desks().next_call(self.member()) {
            let teller = teller_of(&self.tellers.borrow(), client.holder());
            let Some(teller) = teller else {
                client.give_up();
                continue;
            };
            let (objects, ringer) = (self.objects.clone(), self.ringer.clone());
            let counters = Arc::clone(&self.counters);
            lane::spawn(tell(objects, ringer, client, Rc::downgrade(&teller), counters)).detach();
        }
    }

    /// Sees to it that promises that are over are forgotten.
    fn sweep_later(self: &Rc<Self>) {
        let mut sweeper = self.sweeper.borrow_mut();
        if sweeper.as_ref().is_none_or(Task::is_finished) {
            *sweeper = Some(lane::spawn(sweep(Rc::downgrade(self))));
        }
    }

    /// Voids what every client of this lane was promised, on all lanes.
    pub(super) fn void_clients(self: &Rc<Self>) {
        for client in self.promises.clients() {
            self.void(&client, Answers::default().ask());
        }
    }

    /// Voids what a client was promised, on all lanes, at once. It is told so after the replies that are on their way to it, from whichever
    /// lane: else it would keep what it gets by them. `answer` is dropped when it has heard.
    fn void(self: &Rc<Self>, client: &Arc<Client>, answer: Answer) {
        client.hold_all();
        let held = Held { joined: Rc::clone(self), client: Arc::clone(client) };
        let now = time::now();
        self.carry_on(client, |client| client.post_all(now + VOID_KEPT, answer, now));
        let answers = Answers::default();
        self.objects.desks().ask_for_arrivals(&self.ringer, client, &answers);
        let arriving = self.promises.arriving_to(client);
        lane::spawn(async move {
            let all = async {
                over(&arriving).await;
                answers.await;
            };
            let _ = time::timeout(held.joined.objects.options().promises.overtake_max, all).await;
            drop(held);
        })
        .detach();
    }

    /// Answers other lanes that void what clients were promised, once no reply is on its way from here.
    pub(super) fn wait_for_those_who_are_voided(&self) {
        while let Some((client, answer)) = self.objects.desks().next_voided(self.member()) {
            let arriving = self.promises.arriving_to(&client);
            if !arriving.is_empty() {
                let overtake_max = self.objects.options().promises.overtake_max;
                lane::spawn(async move {
                    let _ = time::timeout(overtake_max, over(&arriving)).await;
                    drop(answer);
                })
                .detach();
            }
        }
    }

    /// The lane ends. What it has promised it can break no longer, so all its clients are told that everything is void; until they
    /// have heard, changes wait for them as if it were here.
    pub(super) fn end(&self) {
        let ended = self.promises.end();
        let left = match ended.clients.is_empty() {
            true => {
                ended.take_bits_back(self.member());
                self.objects.desks().close(self.member())
            }
            false => self.objects.desks().mourn(self.member()),
        };
        if !ended.clients.is_empty() {
            let (mourning, now) = (ended.mourning(&self.objects, self.member()), time::now());
            for client in &ended.clients {
                let answer = Answer::mourning(&mourning);
                self.carry_on(client, |client| client.post_all(now + VOID_KEPT, answer, now));
                client.owe();
            }
        }
        for client in left {
            self.carry_on(&client, |client| client.left());
        }
    }
}

/// Waits until none of these is on its way any more.
async fn over(arriving: &[Rc<Arrivals>]) {
    for one in arriving {
        one.over().await;
    }
}

/// Keeps back that all is void.
struct Held {
    joined: Rc<Joined>,
    client: Arc<Client>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.joined.carry_on(&self.client, Client::release_all);
    }
}

/// A change that waits for clients of this lane.
struct Waiting {
    joined: Rc<Joined>,
    since: Instant,
    leaving: Vec<Leaving>,
    until: Option<Answer>,
}

impl Waiting {
    fn end(mut self) {
        self.leaving.drain(..).for_each(|one| self.joined.promises.has_left(&one.what));
        self.until = None;
    }
}

impl Drop for Waiting {
    /// The lane ends before they have heard: the change goes on waiting for them.
    fn drop(&mut self) {
        if let Some(until) = self.until.take() {
            self.joined.objects.desks().leave(self.joined.member(), self.since, until);
        }
    }
}

async fn sweep(joined: Weak<Joined>) {
    loop {
        time::sleep(SWEEP_EVERY).await;
        let mut from = Some(0);
        while let Some(next) = from {
            let Some(joined) = joined.upgrade() else { return };
            let (rest, over) = joined.promises.sweep(next, SWEPT_AT_ONCE, time::now());
            joined.counters.promises_expired.add(over as u64);
            joined.counters.promises_given.set(joined.promises.given() as u64);
            if joined.promises.given() == 0 {
                return;
            }
            drop(joined);
            lane::yield_now().await;
            from = rest;
        }
    }
}

/// How often promises that are over are looked for: they cost memory and a question until then.
const SWEEP_EVERY: std::time::Duration = std::time::Duration::from_secs(8);
/// Promises looked at in one turn of the lane: some ten microseconds.
const SWEPT_AT_ONCE: u32 = 1024;
/// As long as any promise may last.
const VOID_KEPT: std::time::Duration = std::time::Duration::from_secs(7 * 86_400);
