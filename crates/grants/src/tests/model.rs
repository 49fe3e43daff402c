//! Model of the grants on one object: letters, sets of bytes, and one list for everything. It shares no table
//! and no rule with the code that it is held against.

use std::collections::{BTreeMap, BTreeSet};

/// Set of the letters `R`, `W` and `H`.
pub(super) type Letters = BTreeSet<char>;

pub(super) fn letters(text: &str) -> Letters {
    text.chars().collect()
}

#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) id: u64,
    pub(super) stream: &'static str,
    pub(super) holder: u64,
    /// Access as letters of `rwd`.
    pub(super) does: Letters,
    pub(super) lets: Letters,
    pub(super) link: &'static str,
    pub(super) deletes: bool,
    /// The name goes with it, if it goes.
    pub(super) ends_name: bool,
    /// So it does if it deletes on close.
    pub(super) closes_name: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Cache {
    pub(super) stream: &'static str,
    pub(super) is_oplock: bool,
    pub(super) has: Letters,
    /// Break under way: the caching sent, what is left since, and the deadline.
    pub(super) told: Option<(Letters, Letters, u64)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lock {
    pub(super) stream: &'static str,
    pub(super) owner: u64,
    pub(super) is_advisory: bool,
    pub(super) from: u64,
    pub(super) len: u64,
    pub(super) exclusive: bool,
    pub(super) until: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Told {
    Break(u64, Letters, bool),
    Wake(u64),
    Locked(u64),
    Cancelled(u64),
    Expired(u64),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Came {
    /// The request was granted, with this caching for opens.
    Done(Letters),
    Waits,
    /// The lock waits in the queue.
    InLine,
    Sharing,
    Pending,
    Locked,
    NotLocked,
    Access,
}

#[derive(Default)]
pub(super) struct Model {
    /// Time in seconds.
    pub(super) now: u64,
    pub(super) opens: Vec<Open>,
    pub(super) caches: BTreeMap<u64, Cache>,
    pub(super) locks: Vec<Lock>,
    pub(super) in_line: Vec<(u64, Lock)>,
    /// Names and named streams to be deleted.
    pub(super) pending: BTreeSet<&'static str>,
    pub(super) due: BTreeSet<&'static str>,
    /// Waiting requests: ticket, stream, holder, operation, and whether it sleeps.
    pub(super) waiting: Vec<(u64, &'static str, Option<u64>, &'static str, bool)>,
    pub(super) told: Vec<Told>,
}

const PATIENCE: u64 = 35;

/// Returns the caching left to a holder after another's operation, and whether that waits for it.
fn left(does: &str, cache: &Cache) -> (Letters, bool) {
    let has = |letter| cache.has.contains(&letter);
    let but = |letter: char| cache.has.iter().copied().filter(|&it| it != letter).collect::<Letters>();
    let none = Letters::new();
    if cache.is_oplock && does == "names" {
        return (cache.has.clone(), false);
    }
    match does {
        "look" => (cache.has.clone(), false),
        // What is written back first is still read afterwards; an oplock then is level two.
        "open" | "read" if has('W') && cache.is_oplock => (letters("R"), true),
        "open" | "read" => (but('W'), has('W')),
        "overwrite" | "write" | "lock" => (none, has('W')),
        "share" | "delete" if has('H') && cache.is_oplock => (letters("R"), true),
        "rename" if has('H') && cache.is_oplock => (none, true),
        "share" | "delete" | "rename" => (but('H'), has('H')),
        "remove" => (none, has('W') || has('H')),
        "names" => (none, false),
        other => panic!("{other}"),
    }
}

/// Returns the places that a range covers: bytes have even numbers, gaps between them odd ones.
fn places(from: u64, len: u64) -> BTreeSet<u64> {
    if len == 0 {
        // Between the byte before and its own.
        return if from == 0 { BTreeSet::new() } else { BTreeSet::from([2 * from - 1]) };
    }
    (2 * from..=2 * (from + len - 1)).collect()
}

fn meet(a: &Lock, b: &Lock) -> bool {
    a.stream == b.stream
        && (a.len > 0 || b.len > 0)
        && !places(a.from, a.len).is_disjoint(&places(b.from, b.len))
}

impl Model {
    pub(super) fn sleep(&mut self, seconds: u64) {
        self.now += seconds;
        self.time();
    }

    /// Ends all that has expired by now.
    pub(super) fn time(&mut self) {
        let now = self.now;
        for stream in ["", "tags"] {
            let mut any = false;
            for (&holder, cache) in self.caches.iter_mut().filter(|(_, cache)| cache.stream == stream) {
                if cache.told.as_ref().is_some_and(|told| told.2 <= now) {
                    (cache.has, cache.told) = (Letters::new(), None);
                    self.told.push(Told::Expired(holder));
                    any = true;
                }
            }
            if any {
                self.wake(stream);
            }
        }
        let before = self.locks.len();
        self.locks.retain(|lock| lock.until.is_none_or(|until| until > now));
        if self.locks.len() < before {
            self.serve();
        }
    }

    fn wake(&mut self, stream: &str) {
        for waiter in self.waiting.iter_mut().filter(|waiter| waiter.1 == stream) {
            if std::mem::replace(&mut waiter.4, false) {
                self.told.push(Told::Wake(waiter.0));
            }
        }
    }

    /// Returns whether a holder has to be waited for.
    fn ask(&mut self, stream: &str, does: &str, by: Option<u64>) -> bool {
        let mut waits = false;
        for (&holder, cache) in self.caches.iter_mut().filter(|(_, cache)| cache.stream == stream) {
            let is_level_two = cache.is_oplock && cache.has == letters("R");
            if by == Some(holder) && !(is_level_two && matches!(does, "write" | "lock")) {
                continue;
            }
            let (left, is_awaited) = left(does, cache);
            if left == cache.has {
                waits |= does == "open" && !cache.is_oplock && cache.told.is_some();
                continue;
            }
            waits |= is_awaited;
            if let Some((told, finally, _)) = &mut cache.told {
                *finally = &*finally & &left;
                waits |= told != finally;
            } else if cache.has == letters("R") {
                self.told.push(Told::Break(holder, left.clone(), false));
                cache.has = left;
            } else {
                self.told.push(Told::Break(holder, left.clone(), true));
                cache.told = Some((left.clone(), left, self.now + PATIENCE));
            }
        }
        waits
    }

    fn stand(&mut self, ticket: u64, stream: &'static str, by: Option<u64>, does: &'static str) -> Came {
        self.waiting.retain(|waiter| waiter.0 != ticket);
        self.waiting.push((ticket, stream, by, does, true));
        Came::Waits
    }

    fn bears(&self, stream: &str, does: &Letters, lets: &Letters) -> bool {
        let beside = self.opens.iter().filter(|open| open.stream == stream);
        does.is_empty()
            || beside
                .filter(|open| !open.does.is_empty())
                .all(|open| does.is_subset(&open.lets) && open.does.is_subset(lets))
    }

    /// Returns whether the opens of other streams allow an open, as a file is deleted with its streams.
    fn bears_deletion(&self, stream: &str, does: &Letters, lets: &Letters) -> bool {
        let uses = |open: &&Open| open.stream != stream && !open.does.is_empty();
        let mut beside = self.opens.iter().filter(uses);
        if stream.is_empty() {
            !does.contains(&'d') || beside.all(|open| open.lets.contains(&'d'))
        } else {
            let mut main = beside.filter(|open| open.stream.is_empty());
            does.is_empty() || lets.contains(&'d') || !main.any(|open| open.does.contains(&'d'))
        }
    }

    pub(super) fn open(
        &mut self,
        ticket: u64,
        open: Open,
        overwrites: bool,
        want: Option<(bool, &str)>,
    ) -> Came {
        self.time();
        let Open { id, stream, holder, .. } = open;
        if self.pending.contains(open.link) || self.pending.contains(stream) {
            return Came::Pending;
        }
        if !self.bears_deletion(stream, &open.does, &open.lets) {
            return Came::Sharing;
        }
        let mut asked = open.does.clone();
        asked.extend(overwrites.then_some('w'));
        let bears = self.bears(stream, &asked, &open.lets);
        let does = match (bears, overwrites) {
            (false, _) => "share",
            (true, true) => "overwrite",
            (true, false) if open.does.is_empty() => "look",
            _ => "open",
        };
        let by = want.map(|_| holder);
        if self.ask(stream, does, by) {
            return self.stand(ticket, stream, by, does);
        }
        if !bears {
            return Came::Sharing;
        }
        self.opens.push(open);
        let Some((is_oplock, wanted)) = want else { return Came::Done(Letters::new()) };
        let has = self.cache(ticket, id, stream, holder, is_oplock, &letters(wanted));
        Came::Done(has)
    }

    fn cache(
        &mut self,
        ticket: u64,
        id: u64,
        stream: &'static str,
        holder: u64,
        is_oplock: bool,
        wanted: &Letters,
    ) -> Letters {
        // What others rely on: a holder that was told and has nothing to write back does so no more.
        let others = self.caches.iter().filter(|(other, cache)| **other != holder && cache.stream == stream);
        let relied = others.map(|(_, cache)| {
            let now = match &cache.told {
                Some((told, ..)) if !cache.has.contains(&'W') => &cache.has & told,
                _ => cache.has.clone(),
            };
            (cache.is_oplock, now)
        });
        let relied: Vec<_> = relied.filter(|(_, now)| !now.is_empty()).collect();
        let mut gets = wanted.clone();
        let other_opens = |open: &Open| {
            open.stream == stream && open.id != id && open.holder != holder && !open.does.is_empty()
        };
        if !relied.is_empty() || self.opens.iter().any(other_opens) {
            gets.remove(&'W');
        }
        if is_oplock {
            if gets != letters("RWH") && gets != letters("RW") {
                gets = &gets & &letters("R");
            }
            if relied.iter().any(|(_, now)| now.contains(&'H')) {
                gets.clear();
            }
        } else if relied.iter().any(|(is_oplock, _)| *is_oplock) {
            gets.remove(&'H');
        }
        let locked = self.locks.iter().any(|lock| lock.stream == stream);
        if locked || relied.iter().any(|(_, now)| now.contains(&'W')) || !gets.contains(&'R') {
            gets.clear();
        }
        for (_, _, _, does, _) in
            self.waiting.iter().filter(|it| it.0 != ticket && it.1 == stream && it.2 != Some(holder))
        {
            // What it would only ask back.
            loop {
                let cache = Cache { stream, is_oplock, has: gets.clone(), told: None };
                let (less, _) = left(does, &cache);
                if less == gets {
                    break;
                }
                gets = less;
            }
        }
        match self.caches.get_mut(&holder) {
            None if gets.is_empty() => Letters::new(),
            None => {
                self.caches.insert(holder, Cache { stream, is_oplock, has: gets.clone(), told: None });
                gets
            }
            Some(cache) => {
                if cache.told.is_none() && gets == *wanted && cache.has.is_subset(wanted) {
                    cache.has = gets;
                }
                cache.has.clone()
            }
        }
    }

    /// Closes an open, and returns the name, or `tags`, that is deleted with it.
    pub(super) fn close(&mut self, id: u64) -> Option<&'static str> {
        self.time();
        let at = self.opens.iter().position(|open| open.id == id).unwrap();
        let (stream, holder) = (self.opens[at].stream, self.opens[at].holder);
        if self.opens[at].deletes {
            self.ask(stream, "delete", Some(holder));
        }
        let open = self.opens.remove(at);
        self.locks.retain(|lock| lock.is_advisory || lock.owner != id);
        let gone = self
            .in_line
            .extract_if(.., |(_, lock)| lock.owner == id)
            .map(|(ticket, _)| Told::Cancelled(ticket));
        self.told.extend(gone);
        self.serve();
        if !self.opens.iter().any(|other| other.holder == open.holder && other.stream == open.stream) {
            self.caches.remove(&open.holder);
        }
        if open.deletes {
            self.pending.insert(if open.stream.is_empty() { open.link } else { open.stream });
        }
        self.wake(open.stream);
        let stays = |of: fn(&Open) -> &'static str, it| self.opens.iter().any(|open| of(open) == it);
        if !open.stream.is_empty()
            && !stays(|open| open.stream, open.stream)
            && self.pending.remove(open.stream)
        {
            return Some(open.stream);
        }
        let ends_name = open.stream.is_empty() && (open.ends_name || open.deletes && open.closes_name);
        let is_due = self.pending.contains(open.link) && (ends_name || !stays(|open| open.link, open.link));
        (is_due && self.due.insert(open.link)).then_some(open.link)
    }

    pub(super) fn answer(&mut self, holder: u64, keeps: &Letters) -> bool {
        self.time();
        let Some(cache) = self.caches.get_mut(&holder) else { return false };
        let Some((told, finally, _)) = &cache.told else { return false };
        if !keeps.is_subset(told) {
            return false;
        }
        let finally = finally & keeps;
        (cache.has, cache.told) = (keeps.clone(), None);
        if finally != *keeps {
            if *keeps == letters("R") {
                cache.has = finally.clone();
                self.told.push(Told::Break(holder, finally, false));
            } else {
                let next = if *keeps == letters("RH") { letters("R") } else { finally.clone() };
                cache.told = Some((next.clone(), finally, self.now + PATIENCE));
                self.told.push(Told::Break(holder, next, true));
            }
        }
        let stream = cache.stream;
        self.wake(stream);
        true
    }

    pub(super) fn change(
        &mut self,
        ticket: u64,
        stream: &'static str,
        does: &'static str,
        by: Option<u64>,
    ) -> Came {
        self.time();
        let needs = match does {
            "read" => "r",
            "write" => "w",
            "rename" | "remove" => "d",
            _ => "",
        };
        let is_opener = self
            .opens
            .iter()
            .any(|open| open.stream == stream && (by == Some(open.holder) || by == Some(open.id)));
        if stream.is_empty() && matches!(does, "write" | "rename") && !is_opener && !self.due.is_empty() {
            return self.stand(ticket, stream, by, does);
        }
        let bears = is_opener || self.bears(stream, &letters(needs), &letters("rwd"));
        let does = if bears { does } else { "share" };
        if self.ask(stream, does, by) {
            return self.stand(ticket, stream, by, does);
        }
        if bears { Came::Done(Letters::new()) } else { Came::Sharing }
    }

    pub(super) fn dispose(&mut self, ticket: u64, id: u64, deletes: bool, ends_name: bool) -> Came {
        self.time();
        let open = self.opens.iter().find(|open| open.id == id).unwrap().clone();
        if !open.does.contains(&'d') {
            return Came::Access;
        }
        if deletes && self.ask(open.stream, "delete", Some(open.holder)) {
            return self.stand(ticket, open.stream, Some(open.holder), "delete");
        }
        let what = if open.stream.is_empty() { open.link } else { open.stream };
        for other in self.opens.iter_mut().filter(|other| open.stream.is_empty() && other.stream.is_empty()) {
            if other.id == id || other.link == open.link && !deletes {
                other.ends_name = deletes && ends_name;
            }
        }
        if deletes {
            self.pending.insert(what);
        } else if !self.due.contains(what) {
            self.pending.remove(what);
        }
        Came::Done(Letters::new())
    }

    pub(super) fn deleted(&mut self, link: &'static str) {
        self.pending.remove(link);
        if self.due.remove(link) && self.due.is_empty() {
            self.wake("");
        }
    }

    fn is_free(&self, wanted: &Lock) -> bool {
        self.locks.iter().filter(|held| meet(held, wanted)).all(|held| {
            match (held.exclusive, wanted.exclusive) {
                (false, false) => true,
                // Its own to read upon its own to write.
                (true, false) => (held.owner, held.is_advisory) == (wanted.owner, wanted.is_advisory),
                (_, true) => false,
            }
        })
    }

    fn serve(&mut self) {
        let mut left = Vec::new();
        for (ticket, lock) in std::mem::take(&mut self.in_line) {
            if self.is_free(&lock) {
                self.locks.push(lock);
                self.told.push(Told::Locked(ticket));
            } else {
                left.push((ticket, lock));
            }
        }
        self.in_line = left;
    }

    pub(super) fn lock(&mut self, ticket: u64, by: Option<u64>, locks: &[Lock], waits: bool) -> Came {
        self.time();
        let stream = locks[0].stream;
        if self.ask(stream, "lock", by) {
            return self.stand(ticket, stream, by, "lock");
        }
        let before = self.locks.clone();
        for lock in locks {
            if !self.is_free(lock) {
                self.locks = before;
                return if waits && locks.len() == 1 { Came::InLine } else { Came::Locked };
            }
            self.locks.push(lock.clone());
        }
        Came::Done(Letters::new())
    }

    pub(super) fn unlock(&mut self, like: &Lock) -> Came {
        let is_it = |held: &Lock, exclusive| Lock { exclusive, until: held.until, ..like.clone() } == *held;
        let at = self.locks.iter().position(|held| is_it(held, true));
        let at = at.or_else(|| self.locks.iter().position(|held| is_it(held, false)));
        let Some(at) = at else { return Came::NotLocked };
        self.locks.remove(at);
        self.serve();
        Came::Done(Letters::new())
    }

    pub(super) fn cancel(&mut self, ticket: u64) -> bool {
        let before = self.in_line.len();
        self.in_line.retain(|(waiting, _)| *waiting != ticket);
        self.in_line.len() < before
    }

    pub(super) fn may(&self, id: u64, stream: &'static str, from: u64, len: u64, writes: bool) -> bool {
        let asked = Lock { stream, owner: id, is_advisory: false, from, len, exclusive: writes, until: None };
        let bound = self.locks.iter().filter(|held| !held.is_advisory && len > 0 && meet(held, &asked));
        bound.into_iter().all(|held| if held.exclusive { held.owner == id } else { !writes })
    }
}
