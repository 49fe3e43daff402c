//! Random histories of several clients on one object with two streams: each answer, each event and the state
//! after it are those of the model. Channels on any lanes come to this, as every call is made under the
//! object's lock, in some order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::model::{Came, Letters, Lock as ModelLock, Model, Open, Told, letters};
use crate::conflict::{FileOperation, RangeUse};
use crate::{
    Access, AdvisoryLock, Caching, CachingRequest, Change, Closed, Event, ExemptHolder, GrantResult, Holder,
    Home, Kind, Limits, Lock, NameEnd, Object, OpenId, Owner, Range, RangeLock, Refused, Request, Share,
    StatOpen, Ticket,
};

const SEEDS: u64 = 2000;
const STEPS: usize = 150;

#[test]
fn histories_are_those_of_the_model() {
    let mut seen = BTreeMap::<&str, usize>::new();
    for seed in 0..SEEDS {
        let mut history = History::new(seed);
        for step in 0..STEPS {
            history.at = format!("seed {seed}, step {step}");
            let what = history.step();
            *seen.entry(what).or_default() += 1;
            history.compare(&format!("{}: {what}", history.at));
        }
        history.at = format!("seed {seed}, the end");
        history.end();
    }
    // Each kind of thing has come about, also waiting and being told: a history of refusals would prove nothing.
    for what in
        ["open", "open waits", "close", "answer", "lock", "lock waits", "change", "change waits", "delete"]
    {
        assert!(seen.get(what).is_some_and(|&count| count > 1000), "{what}: {seen:?}");
    }
}

struct History {
    rng: SmallRng,
    object: Object<&'static str>,
    model: Model,
    start: Instant,
    events: Vec<Event>,
    next: u64,
    /// Seed and step, for messages.
    at: String,
    /// Waiting requests by ticket, as they are repeated.
    asking: BTreeMap<Ticket, Question>,
    in_line: BTreeSet<Ticket>,
}

#[derive(Clone)]
enum Question {
    Open(Box<Open>, bool, Option<(bool, &'static str)>),
    Change(&'static str, &'static str, Option<u64>),
    Dispose(u64, NameEnd),
    Lock(u64, Vec<ModelLock>, bool),
}

impl History {
    fn new(seed: u64) -> Self {
        Self {
            rng: SmallRng::seed_from_u64(seed),
            object: Object::new(&Limits::DEFAULT),
            model: Model::default(),
            start: Instant::now(),
            events: Vec::new(),
            next: 100,
            at: String::new(),
            asking: BTreeMap::new(),
            in_line: BTreeSet::new(),
        }
    }

    fn now(&self) -> Instant {
        self.start + Duration::from_secs(self.model.now)
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        *of.choose(&mut self.rng).unwrap()
    }

    fn any_open(&mut self) -> Option<Open> {
        self.model.opens.choose(&mut self.rng).cloned()
    }

    fn step(&mut self) -> &'static str {
        match self.rng.random_range(0..100) {
            0..25 => self.open(),
            25..37 => self.close(),
            37..55 => self.answer(),
            55..65 => self.ask_again(),
            65..75 => self.lock(),
            75..80 => self.unlock(),
            80..88 => self.change(),
            88..91 => self.delete(),
            91..93 => self.cancel(),
            93..96 => self.advise(),
            96..97 => self.check(),
            97..98 => self.rename(),
            _ => self.sleep(),
        }
    }

    fn open(&mut self) -> &'static str {
        if self.model.opens.len() > 7 {
            return "full";
        }
        self.next += 1;
        let id = self.next;
        let stream = self.pick(&["", "", "", "tags"]);
        // A lease is of one stream.
        let lease = self.pick(&[1, 2, 3]) + if stream.is_empty() { 0 } else { 10 };
        let want = match self.rng.random_range(0..10) {
            0..2 => None,
            2..5 => Some((true, self.pick(&["R", "RW", "RWH"]))),
            _ => Some((false, self.pick(&["R", "RH", "RW", "RWH"]))),
        };
        let holder = if matches!(want, Some((false, _))) { lease } else { id };
        let open = Open {
            id,
            stream,
            holder,
            does: letters(self.pick(&["", "r", "r", "rw", "rwd", "d"])),
            lets: letters(self.pick(&["rwd", "rwd", "rwd", "r", "rw", ""])),
            link: self.pick(&["page", "page", "other"]),
            deletes: false,
            ends_name: false,
            closes_name: false,
        };
        let overwrites = self.rng.random_bool(0.1);
        self.ask(Question::Open(Box::new(open), overwrites, want), None)
    }

    /// Asks the object and the model, and compares their answers.
    fn ask(&mut self, question: Question, ticket: Option<Ticket>) -> &'static str {
        // The model has no numbers of its own.
        let mut number = ticket.map_or(u64::MAX, |ticket| ticket.0);
        let (came, ticket, kind) = match &question {
            Question::Open(open, overwrites, want) => {
                let answer = self.ask_open(open, *overwrites, *want, ticket);
                let came = self.model.open(number, (**open).clone(), *overwrites, *want);
                self.same(answer.map(|opened| of(opened.caching)), came, ["open", "open waits"])
            }
            Question::Change(stream, does, by) => {
                let operation = operation(does);
                let change = Change { operation, by: by.map(|by| ExemptHolder::Holder(Holder(by))) };
                let answer =
                    self.object.change(self.now(), stream.as_bytes(), change, ticket, &mut self.events);
                let came = self.model.change(number, stream, does, *by);
                self.same(answer.map(|()| Letters::new()), came, ["change", "change waits"])
            }
            Question::Dispose(open, end) => {
                let now = self.now();
                let answer =
                    self.object.set_deletion(now, OpenId(*open), Some(*end), ticket, &mut self.events);
                let came = self.model.dispose(number, *open, true, *end == NameEnd::OwnClose);
                self.same(answer.map(|()| Letters::new()), came, ["delete", "delete waits"])
            }
            Question::Lock(open, locks, waits) => {
                let wanted: Vec<_> = locks.iter().map(range_lock).collect();
                let now = self.now();
                let answer = self.object.lock(now, OpenId(*open), &wanted, *waits, ticket, &mut self.events);
                let by = self.model.opens.iter().find(|it| it.id == *open).map(|it| it.holder);
                let came = self.model.lock(number, by, locks, *waits);
                if let GrantResult::Granted(Lock::Waits(ticket)) = answer {
                    assert_eq!(came, Came::InLine);
                    self.model.in_line.push((ticket.0, locks[0].clone()));
                    self.in_line.insert(ticket);
                    (Came::InLine, None, "lock waits")
                } else {
                    self.same(answer.map(|_| Letters::new()), came, ["lock", "lock waits"])
                }
            }
        };
        if let (Came::Waits, Some(ticket)) = (&came, ticket) {
            if number == u64::MAX {
                number = ticket.0;
                self.model.waiting.iter_mut().filter(|it| it.0 == u64::MAX).for_each(|it| it.0 = number);
            }
            self.asking.insert(ticket, question);
        } else if number != u64::MAX {
            self.leave(Ticket(number));
        }
        kind
    }

    fn leave(&mut self, ticket: Ticket) {
        self.object.leave(ticket);
        self.model.waiting.retain(|it| it.0 != ticket.0);
        self.asking.remove(&ticket);
    }

    fn ask_open(
        &mut self,
        open: &Open,
        overwrites: bool,
        want: Option<(bool, &str)>,
        ticket: Option<Ticket>,
    ) -> GrantResult<crate::Opened> {
        let bits = |letters: &Letters| {
            "rwd"
                .chars()
                .zip([1, 2, 4])
                .filter(|(it, _)| letters.contains(it))
                .map(|(_, bit)| bit)
                .sum::<u8>()
        };
        let want = want.map(|(is_oplock, caching)| CachingRequest {
            holder: Holder(open.holder),
            kind: if is_oplock { Kind::Oplock } else { Kind::Lease { epoch: None } },
            caching: caching_of(&letters(caching)),
            home: Home(0),
            key: None,
        });
        let request = Request {
            open: OpenId(open.id),
            consumer: super::client(open.id % 3),
            access: Access::from_bits(bits(&open.does)),
            share: Share::from_bits(bits(&open.lets)),
            looks: if open.does.is_empty() { StatOpen::Attributes } else { StatOpen::No },
            overwrites,
            is_directory: false,
            link: open.link,
            parent: None,
            want,
        };
        self.object.open(self.now(), open.stream.as_bytes(), request, ticket, &mut self.events)
    }

    fn same(
        &self,
        answer: GrantResult<Letters>,
        came: Came,
        [done, waits]: [&'static str; 2],
    ) -> (Came, Option<Ticket>, &'static str) {
        let (ours, ticket, kind) = match answer {
            GrantResult::Granted(letters) => (Came::Done(letters), None, done),
            GrantResult::Wait(wait) => (Came::Waits, Some(wait.ticket), waits),
            GrantResult::Refused(why) => (refused(why), None, "refused"),
        };
        assert_eq!(ours, came, "{}: what comes of it", self.at);
        (came, ticket, kind)
    }

    fn close(&mut self) -> &'static str {
        let Some(open) = self.any_open() else { return "nothing" };
        let closed = self.object.close(self.now(), OpenId(open.id), &mut self.events).unwrap();
        let expected = match self.model.close(open.id) {
            None => Closed::Stays,
            Some("tags") => Closed::DeleteStream,
            Some(link) => Closed::DeleteName { link, parent: None },
        };
        assert_eq!(closed, expected, "{}", self.at);
        // Questions of an open that is gone are asked no more.
        let gone = self.asking.iter().filter(|(_, question)| match question {
            Question::Dispose(id, _) | Question::Lock(id, ..) => *id == open.id,
            _ => false,
        });
        let gone: Vec<_> = gone.map(|(ticket, _)| *ticket).collect();
        gone.into_iter().for_each(|ticket| self.leave(ticket));
        if let Closed::DeleteName { link, .. } = closed
            && self.rng.random_bool(0.7)
        {
            self.end_deletion(link);
        }
        "close"
    }

    fn end_deletion(&mut self, link: &'static str) {
        self.object.deleted(&link, &mut self.events);
        self.model.deleted(link);
    }

    fn end_deletions(&mut self) {
        ["page", "other", "moved"].into_iter().for_each(|link| self.end_deletion(link));
    }

    fn answer(&mut self) -> &'static str {
        let told: Vec<_> = self.model.caches.iter().filter(|(_, cache)| cache.told.is_some()).collect();
        let chosen =
            told.choose(&mut self.rng).map(|(holder, cache)| (**holder, cache.told.clone().unwrap().0));
        let (holder, left) = chosen.unwrap_or((2, letters("R")));
        let keeps = match self.rng.random_range(0..10) {
            0 => letters("RWH"),
            1 => Letters::new(),
            2 if left.contains(&'R') => letters("R"),
            _ => left,
        };
        let now = self.now();
        let kept = self.object.acknowledge(now, Holder(holder), caching_of(&keeps), &mut self.events);
        assert_eq!(kept.is_ok(), self.model.answer(holder, &keeps), "{}", self.at);
        if kept.is_ok() { "answer" } else { "bad answer" }
    }

    fn ask_again(&mut self) -> &'static str {
        if let Some(&link) = self.model.due.first().filter(|_| self.rng.random_bool(0.3)) {
            self.end_deletion(link);
            return "deleted";
        }
        let waiting: Vec<_> = self.asking.keys().copied().collect();
        let Some(&ticket) = waiting.choose(&mut self.rng) else { return "nothing" };
        if self.rng.random_bool(0.1) {
            self.leave(ticket);
            return "leave";
        }
        let question = self.asking[&ticket].clone();
        self.ask(question, Some(ticket))
    }

    fn some_lock(&mut self, open: &Open) -> ModelLock {
        ModelLock {
            stream: open.stream,
            owner: open.id,
            is_advisory: false,
            from: self.rng.random_range(0..10),
            len: self.rng.random_range(0..5),
            exclusive: self.rng.random_bool(0.5),
            until: None,
        }
    }

    fn lock(&mut self) -> &'static str {
        let Some(open) = self.any_open() else { return "nothing" };
        let count = self.pick(&[1, 1, 2]);
        let locks: Vec<_> = (0..count).map(|_| self.some_lock(&open)).collect();
        let waits = self.rng.random_bool(0.5);
        self.ask(Question::Lock(open.id, locks, waits), None)
    }

    fn unlock(&mut self) -> &'static str {
        let held: Vec<_> = self.model.locks.clone();
        let Some(lock) = held.choose(&mut self.rng) else { return "nothing" };
        let range = range_lock(lock).range;
        let unlocked = if lock.is_advisory {
            let name = lock.stream.as_bytes();
            self.object.unlock_advisory(name, lock.owner, range, &mut self.events)
        } else {
            self.object.unlock(OpenId(lock.owner), &[range], &mut self.events)
        };
        assert_eq!(unlocked, Ok(()));
        assert_eq!(self.model.unlock(lock), Came::Done(Letters::new()));
        "unlock"
    }

    fn change(&mut self) -> &'static str {
        let does = self.pick(&["write", "write", "remove", "rename", "read", "names"]);
        let stream = self.pick(&["", "", "tags"]);
        let by = match self.any_open() {
            Some(open) if self.rng.random_bool(0.4) => Some(self.pick(&[open.holder, open.id])),
            _ => None,
        };
        self.ask(Question::Change(stream, does, by), None)
    }

    fn delete(&mut self) -> &'static str {
        let Some(open) = self.any_open() else { return "nothing" };
        match self.rng.random_range(0..4) {
            0 => {
                let end = self.pick(&[NameEnd::LastClose, NameEnd::OwnClose]);
                let set = self.object.delete_on_close(OpenId(open.id), Some(end)).is_ok();
                assert_eq!(set, open.does.contains(&'d'));
                self.model.opens.iter_mut().filter(|it| it.id == open.id && set).for_each(|it| {
                    // The last that is said of it counts, but what was set by itself stays.
                    it.deletes = true;
                    it.closes_name = end == NameEnd::OwnClose;
                });
                "delete"
            }
            1 => {
                let now = self.now();
                let answer = self.object.set_deletion(now, OpenId(open.id), None, None, &mut self.events);
                let came = self.model.dispose(u64::MAX, open.id, false, false);
                self.same(answer.map(|()| Letters::new()), came, ["delete", "delete waits"]).2
            }
            _ => {
                let end = self.pick(&[NameEnd::LastClose, NameEnd::OwnClose]);
                self.ask(Question::Dispose(open.id, end), None)
            }
        }
    }

    fn cancel(&mut self) -> &'static str {
        let Some(ticket) = self.in_line.pop_first() else { return "nothing" };
        assert_eq!(self.object.cancel(ticket), self.model.cancel(ticket.0));
        "cancel"
    }

    fn advise(&mut self) -> &'static str {
        let (owner, exclusive) = (self.pick(&[7, 8]), self.rng.random_bool(0.5));
        let until = Some(self.model.now + self.pick(&[5, 300]));
        let lock = ModelLock { stream: "", owner, is_advisory: true, from: 0, len: 40, exclusive, until };
        let advisory = AdvisoryLock {
            owner,
            lock: range_lock(&lock),
            until: until.map(|until| self.start + Duration::from_secs(until)),
        };
        let now = self.now();
        let answer = self.object.lock_advisory(now, b"", advisory, None, &mut self.events);
        let came = self.model.lock(u64::MAX, None, &[lock], false);
        let (_, ticket, kind) = self.same(answer.map(|_| Letters::new()), came, ["advise", "advise waits"]);
        if let Some(ticket) = ticket {
            self.object.leave(ticket);
            self.model.waiting.retain(|it| it.0 != u64::MAX);
        }
        kind
    }

    fn check(&mut self) -> &'static str {
        let Some(open) = self.any_open() else { return "nothing" };
        for from in 0..10 {
            for len in 0..4 {
                for (wants, writes) in [(RangeUse::Reading, false), (RangeUse::Writing, true)] {
                    let may = self.object.check(OpenId(open.id), Range { offset: from, len }, wants).is_ok();
                    assert_eq!(may, self.model.may(open.id, open.stream, from, len, writes));
                }
            }
        }
        "check"
    }

    fn rename(&mut self) -> &'static str {
        if self.model.pending.contains("moved") || self.model.opens.iter().any(|open| open.link == "moved") {
            return "nothing";
        }
        let (from, to) = self.pick(&[("page", "moved"), ("moved", "page")]);
        if self.model.opens.iter().any(|open| open.link == to) || self.model.pending.contains(to) {
            return "nothing";
        }
        self.object.renamed(&from, &to);
        self.model.opens.iter_mut().filter(|open| open.link == from).for_each(|open| open.link = to);
        for set in [&mut self.model.pending, &mut self.model.due] {
            if set.remove(from) {
                set.insert(to);
            }
        }
        "rename"
    }

    fn sleep(&mut self) -> &'static str {
        let seconds = self.pick(&[1, 10, 40]);
        self.model.sleep(seconds);
        self.object.handle_timeout(self.now(), &mut self.events);
        "sleep"
    }

    /// Compares the state and the events with the model's.
    fn compare(&mut self, at: &str) {
        let mut told: Vec<_> = self.events.drain(..).map(told).collect();
        let mut expected = std::mem::take(&mut self.model.told);
        told.sort();
        expected.sort();
        assert_eq!(told, expected, "{at}");
        for event in told {
            if let Told::Locked(ticket) | Told::Cancelled(ticket) = event {
                self.in_line.remove(&Ticket(ticket));
            }
        }
        let caching_grants = || self.object.streams.iter().flat_map(|stream| &stream.caching_grants);
        let held: BTreeMap<_, _> =
            caching_grants().map(|it| (it.holder.0, (of(it.caching), it.is_breaking()))).collect();
        let expected = self.model.caches.iter();
        let expected: BTreeMap<_, _> =
            expected.map(|(holder, cache)| (*holder, (cache.has.clone(), cache.told.is_some()))).collect();
        assert_eq!(held, expected, "{at}");
        self.compare_locks(at);
        self.check_invariants(at);
    }

    fn compare_locks(&self, at: &str) {
        let plain = |owner, lock: RangeLock, name: &[u8]| {
            let (id, is_advisory) = match owner {
                Owner::Open(OpenId(id)) => (id, false),
                Owner::AdvisoryLock(id) => (id, true),
            };
            (name.to_vec(), id, is_advisory, lock.range.offset, lock.range.len, lock.exclusive)
        };
        let streams = self.object.streams.iter();
        let mut held: Vec<_> = streams
            .flat_map(|stream| stream.ranges.held().map(|(owner, lock)| plain(owner, lock, &stream.name)))
            .collect();
        let expected = self.model.locks.iter();
        let mut expected: Vec<_> = expected
            .map(|it| (it.stream.into(), it.owner, it.is_advisory, it.from, it.len, it.exclusive))
            .collect();
        held.sort();
        expected.sort();
        assert_eq!(held, expected, "{at}");
    }

    fn check_invariants(&self, at: &str) {
        for stream in &self.object.streams {
            // A holder that writes on its own is alone in relying on anything.
            let relied = || stream.caching_grants.iter().map(|it| it.relied_on()).filter(|it| !it.is_none());
            if relied().any(|it| it.contains(Caching::W)) {
                assert_eq!(relied().count(), 1, "{at}");
            }
            assert!(!stream.ranges.has_waiting_that_could_be_had(), "{at}: a lock is forgotten");
            let opens = |caching_grant: &&crate::caching_grant::CachingGrant| {
                stream.opens.iter().any(|open| open.holder == Some(caching_grant.holder))
            };
            assert!(stream.caching_grants.iter().all(|it| opens(&it)), "{at}: a lease without an open");
        }
        for waiter in self.object.waiting.sleeping() {
            let stream = self.object.streams.iter().find(|stream| stream.name == waiter.stream);
            let breaking =
                stream.is_some_and(|stream| stream.caching_grants.iter().any(|it| it.is_breaking()));
            let going = waiter.stream.is_empty() && self.object.deletions.has_due();
            assert!(breaking || going, "{at}: nobody will wake {waiter:?}");
        }
    }

    /// Advances time without answers until no break or lock is left that can end.
    fn end(&mut self) {
        let at = &self.at.clone();
        self.end_deletions();
        while !self.asking.is_empty() {
            self.model.sleep(40);
            self.object.handle_timeout(self.now(), &mut self.events);
            let (&ticket, question) = self.asking.first_key_value().unwrap();
            let question = question.clone();
            self.ask(question, Some(ticket));
            // A few times at most: each break ends, and no waiting request is given more.
            self.compare(at);
        }
        while !self.model.opens.is_empty() {
            self.close();
            self.compare(at);
        }
        self.end_deletions();
        self.model.sleep(400);
        self.object.handle_timeout(self.now(), &mut self.events);
        assert!(self.object.is_empty(), "{at}");
    }
}

fn of(caching: Caching) -> Letters {
    let bits = [(Caching::R, 'R'), (Caching::W, 'W'), (Caching::H, 'H')];
    bits.into_iter().filter(|(bit, _)| caching.contains(*bit)).map(|(_, letter)| letter).collect()
}

fn caching_of(letters: &Letters) -> Caching {
    let bits = [('R', 1), ('H', 2), ('W', 4)];
    Caching::from_bits(bits.into_iter().filter(|(it, _)| letters.contains(it)).map(|(_, bit)| bit).sum())
}

fn range_lock(lock: &ModelLock) -> RangeLock {
    RangeLock { range: Range { offset: lock.from, len: lock.len }, exclusive: lock.exclusive }
}

fn operation(does: &str) -> FileOperation {
    match does {
        "read" => FileOperation::Read,
        "write" => FileOperation::Write,
        "remove" => FileOperation::Remove,
        "rename" => FileOperation::Rename,
        "names" => FileOperation::Names,
        other => panic!("{other}"),
    }
}

fn refused(why: Refused) -> Came {
    match why {
        Refused::Sharing => Came::Sharing,
        Refused::DeletePending => Came::Pending,
        Refused::Locked => Came::Locked,
        Refused::Access => Came::Access,
        other => panic!("{other}"),
    }
}

fn told(event: Event) -> Told {
    match event {
        Event::Break(it) => Told::Break(it.holder.0, of(it.to), it.acknowledge),
        Event::Wake(ticket) => Told::Wake(ticket.0),
        Event::Locked(ticket) => Told::Locked(ticket.0),
        Event::Cancelled(ticket) => Told::Cancelled(ticket.0),
        Event::Expired(holder) => Told::Expired(holder.0),
    }
}
