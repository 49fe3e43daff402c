//! Memory of a lane that replies hold while they wait for their clients, and the choice of connections to
//! evict when it is short.
//!
//! An account belongs to a connection, and counts for its address too (an IPv4 address, an IPv6 /64), and for
//! the /56 and /48 that it lies in. What is free bounds what any client may have: an address three times what
//! is left to all others, a /56 four times, a /48 six times ([`Shares::THRICE`]), a connection a
//! thirty-second part of that rest. So one address takes three quarters at most, two take three sevenths
//! each, and a newcomer always finds some. A connection that may not have more waits without memory, and
//! meanwhile that connection of its address is ended that has stalled longest; where many addresses together
//! leave too little, that of the address that holds most.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use budget::{Claimant, Consumer, Network, Shares};
use lane::time::{now, timeout_at};
use slab::Slab;

use crate::address::address_of;
use crate::counters::ConnectionCounters;

/// Accounts of one lane's reply memory.
pub struct ReplyMemory {
    /// Bytes that all connections together may hold.
    limit: usize,
    used: Cell<usize>,
    addresses: RefCell<HashMap<IpAddr, Rc<Address>>>,
    /// Holdings of the IPv6 /56 and /48 networks.
    wider: RefCell<HashMap<Network, Rc<Holdings>>>,
    /// Addresses with waiting connections, in the order of their turns.
    turns: RefCell<VecDeque<Rc<Address>>>,
}

/// Holdings and waiters of one address.
struct Address {
    name: IpAddr,
    own: Holdings,
    /// Holdings of an IPv6 address's /56 and /48.
    wider: Vec<Rc<Holdings>>,
    last_round: Cell<u64>,
    accounts: RefCell<Slab<Weak<Account>>>,
    /// Waiters, in the order of coming.
    waiting: RefCell<BTreeMap<u64, Waker>>,
    next_place: Cell<u64>,
}

/// Holdings of one network, or of one address.
struct Holdings {
    network: Network,
    /// Multiple of what is free that the network may hold.
    times: usize,
    held: Cell<usize>,
    /// Number of addresses with accounts.
    addresses: Cell<usize>,
    /// Time until which no connection is looked for, as none was found that may be ended.
    sheds_again: Cell<Option<Instant>>,
}

/// Account of one connection.
pub struct Account {
    memory: Rc<ReplyMemory>,
    /// Counters of the connection's service.
    counters: Arc<ConnectionCounters>,
    address: Rc<Address>,
    place: Cell<usize>,
    held: Cell<usize>,
    /// Bytes of the account that were asked for and granted.
    granted: Cell<usize>,
    stalled_since: Cell<Option<Instant>>,
    gives_way: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// Bytes that a connection holds until this is dropped.
pub struct Charge {
    account: Rc<Account>,
    bytes: usize,
    is_granted: bool,
}

/// Place in the queue of an address, until this is dropped.
struct MemoryPlace<'a> {
    account: &'a Account,
    number: Option<u64>,
}

/// Error of an evicted connection: the lane's memory for replies was short, and it had stalled longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted;

/// Holder that keeps a connection from having more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Short {
    /// The connection itself: what it has must leave first.
    Connection,
    /// The address, or the network at this index of its [`Address::wider`].
    Address,
    Network(usize),
    Lane,
}

impl ReplyMemory {
    /// Makes accounts over `limit` bytes.
    pub fn new(limit: usize) -> Rc<Self> {
        let (addresses, wider, turns) = Default::default();
        Rc::new(Self { limit, used: Cell::new(0), addresses, wider, turns })
    }

    /// Opens the account of a connection from `peer`, shown in the `counters` of its service.
    pub fn account(self: &Rc<Self>, peer: IpAddr, counters: &Arc<ConnectionCounters>) -> Rc<Account> {
        let name = address_of(peer);
        let address = {
            let mut addresses = self.addresses.borrow_mut();
            let address = addresses.entry(name).or_insert_with(|| Rc::new(self.address(name)));
            Rc::clone(address)
        };
        let account = Rc::new(Account {
            memory: Rc::clone(self),
            counters: Arc::clone(counters),
            address: Rc::clone(&address),
            place: Cell::new(0),
            held: Cell::new(0),
            granted: Cell::new(0),
            stalled_since: Cell::new(None),
            gives_way: Cell::new(false),
            waker: RefCell::new(None),
        });
        account.place.set(address.accounts.borrow_mut().insert(Rc::downgrade(&account)));
        account
    }

    /// Makes the entry of a new address, counted in its networks.
    fn address(&self, name: IpAddr) -> Address {
        let mut claimants =
            Consumer::from(name).claimants(SHARES).filter_map(|(claimant, times)| match claimant {
                Claimant::Network(network) => Some((network, times)),
                Claimant::User(_) => None,
            });
        let (network, times) = claimants.next().expect("every address is a network by itself");
        let wider = claimants.map(|(network, times)| {
            let mut known = self.wider.borrow_mut();
            let holdings = known.entry(network).or_insert_with(|| Rc::new(Holdings::new(network, times)));
            holdings.addresses.update(|addresses| addresses + 1);
            Rc::clone(holdings)
        });
        Address {
            name,
            own: Holdings::new(network, times),
            wider: wider.collect(),
            last_round: Cell::new(0),
            accounts: RefCell::default(),
            waiting: RefCell::default(),
            next_place: Cell::new(0),
        }
    }

    /// Forgets an address without accounts.
    fn forget(&self, address: &Address) {
        self.addresses.borrow_mut().remove(&address.name);
        for holdings in &address.wider {
            holdings.addresses.update(|addresses| addresses - 1);
            if holdings.addresses.get() == 0 {
                self.wider.borrow_mut().remove(&holdings.network);
            }
        }
    }

    fn free(&self) -> usize {
        self.limit.saturating_sub(self.used.get())
    }

    /// Tells a connection to end: one of the address or network that holds most in proportion to its share.
    fn shed(&self) {
        let addresses = self.addresses.borrow();
        let address = addresses.values().max_by_key(|address| address.own.weight());
        let wider = self.wider.borrow();
        match (address, wider.values().max_by_key(|holdings| holdings.weight())) {
            (Some(address), Some(wide)) if wide.weight() > address.own.weight() => self.shed_of(wide),
            (Some(address), _) => address.shed(),
            (None, _) => {}
        }
    }

    /// Ends a stalled connection of the addresses in one network.
    fn shed_of(&self, wide: &Holdings) {
        let addresses = self.addresses.borrow();
        wide.shed(addresses.values().filter(|address| wide.network.contains(address.name)));
    }

    /// Wakes the first waiter of the address whose turn it is.
    fn wake_next(&self) {
        let mut turns = self.turns.borrow_mut();
        let Some(address) = turns.pop_front() else { return };
        let mut waiting = address.waiting.borrow_mut();
        let first = waiting.pop_first();
        if !waiting.is_empty() {
            turns.push_back(Rc::clone(&address));
        }
        drop((waiting, turns));
        first.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

impl Address {
    /// Returns the holdings that count for the address: its own and those of its networks.
    fn holdings(&self) -> impl Iterator<Item = &Holdings> {
        std::iter::once(&self.own).chain(self.wider.iter().map(|holdings| &**holdings))
    }

    /// Tells the connection of the address to end that has stalled longest, if long enough.
    fn shed(self: &Rc<Self>) {
        self.own.shed(std::iter::once(self));
    }
}

impl Holdings {
    fn new(network: Network, times: usize) -> Self {
        let (held, addresses, sheds_again) = Default::default();
        Self { network, times, held, addresses, sheds_again }
    }

    fn may_take(&self, bytes: usize, free: usize) -> bool {
        self.held.get() + bytes <= SHARES.may_hold(self.times, free)
    }

    fn weight(&self) -> usize {
        SHARES.weight(self.held.get(), self.times)
    }

    /// Tells the connection from `addresses` to end that has stalled longest, if long enough.
    fn shed<'a>(&self, addresses: impl Iterator<Item = &'a Rc<Address>>) {
        // A crowd that waits would look through itself each time one of it asks.
        if self.sheds_again.get().is_some_and(|again| now() < again) {
            return;
        }
        let accounts = addresses.flat_map(|address| {
            let accounts = address.accounts.borrow();
            accounts.iter().filter_map(|(_, account)| account.upgrade()).collect::<Vec<_>>()
        });
        let stalled = accounts.filter_map(|account| {
            let since = account.stalled_since.get()?;
            let may_go = account.held.get() > 0 && !account.gives_way.get() && now() >= since + PATIENCE;
            may_go.then_some((since, account))
        });
        match stalled.min_by_key(|(since, _)| *since) {
            Some((_, account)) => {
                account.gives_way.set(true);
                account.waker.take().into_iter().for_each(Waker::wake);
            }
            None => self.sheds_again.set(Some(now() + SHED_PAUSE)),
        }
    }
}

impl Account {
    /// Charges `bytes` more, if they may be had now.
    pub fn try_charge(self: &Rc<Self>, bytes: usize) -> Option<Charge> {
        self.ask(bytes, 0).ok()
    }

    /// Asks for memory. `mine` bytes of the connection's grants are the caller's, which would otherwise wait
    /// for itself.
    fn ask(self: &Rc<Self>, bytes: usize, mine: usize) -> Result<Charge, Short> {
        let (free, granted) = (self.memory.free(), self.granted.get());
        if bytes > free {
            return Err(Short::Lane);
        }
        if !self.address.own.may_take(bytes, free) {
            return Err(Short::Address);
        }
        if let Some(at) = self.address.wider.iter().position(|wide| !wide.may_take(bytes, free)) {
            return Err(Short::Network(at));
        }
        // A connection without any gets its first where its address may have it.
        let others = granted.saturating_sub(mine);
        if others > 0 && others + bytes > free / CONNECTION_DIVISOR {
            return Err(Short::Connection);
        }
        self.granted.set(granted + bytes);
        self.count(bytes);
        Ok(Charge { account: Rc::clone(self), bytes, is_granted: true })
    }

    /// Charges `bytes` that are held already, even above the limits.
    pub fn charge(self: &Rc<Self>, bytes: usize) -> Charge {
        self.count(bytes);
        if self.memory.used.get() > self.memory.limit {
            self.memory.shed();
        }
        Charge { account: Rc::clone(self), bytes, is_granted: false }
    }

    fn count(&self, bytes: usize) {
        self.held.update(|held| held + bytes);
        self.address.holdings().for_each(|of| of.held.update(|held| held + bytes));
        self.memory.used.update(|used| used + bytes);
        self.counters.reply_memory_bytes.add(bytes as u64);
    }

    /// Charges `bytes` more as soon as they may be had; until then the caller is woken to ask again.
    fn poll_charge(
        self: &Rc<Self>,
        cx: &mut Context<'_>,
        place: &mut MemoryPlace<'_>,
        bytes: usize,
        mine: usize,
    ) -> Poll<Charge> {
        match self.ask(bytes, mine) {
            Ok(charge) => return Poll::Ready(charge),
            Err(Short::Lane) => self.memory.shed(),
            Err(Short::Address) => self.address.shed(),
            Err(Short::Network(at)) => self.memory.shed_of(&self.address.wider[at]),
            Err(Short::Connection) => {}
        }
        place.wait(cx);
        Poll::Pending
    }

    /// Charges `bytes` more, as soon as they may be had.
    pub async fn acquire(self: &Rc<Self>, bytes: usize) -> Charge {
        self.acquire_beside(bytes, 0).await
    }

    /// Charges `bytes` as soon as they may be had, while the caller keeps `mine` bytes: only what other tasks
    /// of its connection hold is in the way. Callers should set a time limit, as several may hold what each
    /// of them waits for.
    pub async fn acquire_beside(self: &Rc<Self>, bytes: usize, mine: usize) -> Charge {
        if let Ok(charge) = self.ask(bytes, mine) {
            return charge;
        }
        let mut place = MemoryPlace { account: self, number: None };
        loop {
            // No connection may have stalled for long enough when it asked: now and then it looks for itself.
            let deadline = now() + PATIENCE;
            let asking = poll_fn(|cx| self.poll_charge(cx, &mut place, bytes, mine));
            if let Ok(charge) = timeout_at(deadline, asking).await {
                return charge;
            }
        }
    }

    /// Returns the output of `future`. While it waits the connection counts as stalled, and may be evicted.
    pub async fn unless_short<F: Future>(&self, future: F) -> Result<F::Output, Evicted> {
        let mut future = pin!(future);
        let stalled = Stalled(self);
        poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            stalled.0.poll_evicted(cx).map(|()| Err(Evicted))
        })
        .await
    }

    /// Returns ready once the connection is evicted for the sake of others.
    pub fn poll_evicted(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.gives_way.get() {
            return Poll::Ready(());
        }
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        self.stall(true);
        Poll::Pending
    }

    /// Returns the round in which the address had its last turn at the lane's time, for
    /// [`Turns`](crate::turns::Turns).
    pub fn last_round(&self) -> &Cell<u64> {
        &self.address.last_round
    }

    /// Notes whether the connection waits for its peer.
    pub fn stall(&self, stalls: bool) {
        match (stalls, self.stalled_since.get()) {
            (true, None) => self.stalled_since.set(Some(now())),
            (false, Some(_)) => self.stalled_since.set(None),
            _ => {}
        }
    }
}

impl MemoryPlace<'_> {
    /// Registers for the next chance: in the place before, or at the end after a chance.
    fn wait(&mut self, cx: &mut Context<'_>) {
        let Account { address, memory, counters, .. } = self.account;
        let mut waiting = address.waiting.borrow_mut();
        if waiting.is_empty() {
            memory.turns.borrow_mut().push_back(Rc::clone(address));
        }
        let number = self.number.filter(|number| waiting.contains_key(number)).unwrap_or_else(|| {
            if self.number.is_none() {
                counters.reply_memory_waits.increment();
            }
            address.next_place.replace(address.next_place.get() + 1)
        });
        self.number = Some(number);
        waiting.insert(number, cx.waker().clone());
    }
}

impl Drop for MemoryPlace<'_> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let Account { address, memory, .. } = self.account;
        let mut waiting = address.waiting.borrow_mut();
        if waiting.remove(&number).is_some() && waiting.is_empty() {
            memory.turns.borrow_mut().retain(|turn| !Rc::ptr_eq(turn, address));
        }
    }
}

impl Charge {
    /// Returns the bytes of the charge.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Joins two granted charges of the same connection.
    pub fn and(mut self, mut other: Self) -> Self {
        assert!(Rc::ptr_eq(&self.account, &other.account) && self.is_granted && other.is_granted);
        self.bytes += std::mem::take(&mut other.bytes);
        self
    }
}

/// Guard that ends a wait for the peer.
struct Stalled<'a>(&'a Account);

impl Drop for Stalled<'_> {
    fn drop(&mut self) {
        self.0.stall(false);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let mut accounts = self.address.accounts.borrow_mut();
        accounts.remove(self.place.get());
        if accounts.is_empty() {
            self.memory.forget(&self.address);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let Self { account, bytes, is_granted } = self;
        if *is_granted {
            account.granted.update(|granted| granted - *bytes);
        }
        account.held.update(|held| held - *bytes);
        account.address.holdings().for_each(|of| of.held.update(|held| held - *bytes));
        account.memory.used.update(|used| used - *bytes);
        account.counters.reply_memory_bytes.sub(*bytes as u64);
        account.memory.wake_next();
    }
}

//@ limit: memory of replies that wait for their client
//@ section: HTTP
//@ unit: byte, in buffers of 32 KiB
//@ connection: 32 KiB, and beyond that a part of {} of what is free
//@ address: three times what is free, so that a newcomer finds some
//@ all: lane: 30 MiB for all services together
//@ empty: a connection that may have no more waits, at most `stall_seconds`; of the address or network with most the connection that stalled longest ends
//@ counter: http_reply_memory_bytes, http_reply_memory_waits, http_aborted{cause="evicted"}
//@ attack: http-stalled-files
/// Divisor of what is free that gives a connection's share.
const CONNECTION_DIVISOR: usize = 32;
/// Shares of what is free that an address, and a network, may hold.
const SHARES: Shares = Shares::THRICE;
/// Time for which a client may take nothing where memory is short.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// Time between two searches through an address's connections for one to end.
const SHED_PAUSE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use lane::backend::sim::{Config, World};
    use lane::time::sleep;

    use super::*;

    const LIMIT: usize = 1 << 20;
    const PIECE: usize = 16 << 10;

    /// Accounts with the counters of the only service.
    struct Memory {
        books: Rc<ReplyMemory>,
        counters: Arc<ConnectionCounters>,
    }

    impl Memory {
        fn account(&self, peer: IpAddr) -> Rc<Account> {
            self.books.account(peer, &self.counters)
        }
    }

    /// Runs `story` in a simulated lane, for its clock.
    fn in_a_lane<F: Future<Output = ()> + 'static>(
        story: impl FnOnce(Memory, Arc<ConnectionCounters>) -> F + 'static,
    ) {
        let world = World::new(1, Config::default());
        let host = world.host("10.0.0.1");
        world.block_on(&host, async move {
            let counters = Arc::new(ConnectionCounters::default());
            story(Memory { books: ReplyMemory::new(LIMIT), counters: Arc::clone(&counters) }, counters).await;
        });
    }

    /// Lets connections from `peers` take in turn until all are refused, and returns what each has, with the
    /// charges.
    fn taken(memory: &Memory, peers: &[&str]) -> (Vec<usize>, Vec<Charge>) {
        let accounts: Vec<_> = peers.iter().map(|peer| memory.account(peer.parse().unwrap())).collect();
        let (mut got, mut charges) = (vec![0; peers.len()], Vec::new());
        loop {
            let before = charges.len();
            for (account, got) in accounts.iter().zip(&mut got) {
                if let Some(charge) = account.try_charge(PIECE) {
                    *got += PIECE;
                    charges.push(charge);
                }
            }
            if charges.len() == before {
                return (got, charges);
            }
        }
    }

    #[test]
    fn one_address_takes_three_quarters_at_most_and_a_newcomer_finds_some() {
        in_a_lane(|memory, counters| async move {
            let (got, held) = taken(&memory, &["192.0.2.1"; 64]);
            let all: usize = got.iter().sum();
            assert!((LIMIT / 4 * 3 - 2 * PIECE..=LIMIT / 4 * 3).contains(&all), "{all}");
            assert!(*got.iter().max().unwrap() <= LIMIT / CONNECTION_DIVISOR, "{got:?}");
            assert_eq!(counters.reply_memory_bytes.get(), all as u64);
            let (newcomer, more) = taken(&memory, &["192.0.2.2"; 64]);
            assert!(newcomer.iter().sum::<usize>() >= LIMIT / 16 * 3 - 2 * PIECE, "{newcomer:?}");
            drop((held, more));
            assert_eq!(counters.reply_memory_bytes.get(), 0);
            assert!(memory.books.addresses.borrow().is_empty() && memory.books.wider.borrow().is_empty());
        });
    }

    #[test]
    fn a_network_leaves_some_to_others_from_however_many_addresses() {
        let network = |network: fn(u16) -> String| (0..64).map(network).collect::<Vec<_>>();
        let of_56 = network(|n| format!("2001:db8:1:{n:x}::1"));
        let of_48 = network(|n| format!("2001:db8:1:{:x}::1", n << 8));
        for (peers, times) in [(of_56, 4), (of_48, 6)] {
            in_a_lane(move |memory, counters| async move {
                let peers: Vec<_> = peers.iter().map(String::as_str).collect();
                let (got, held) = taken(&memory, &peers);
                let (all, share) = (got.iter().sum::<usize>(), LIMIT * times / (times + 1));
                assert!((share - PIECE..=share + PIECE).contains(&all), "{all} of {share}");
                let (newcomer, more) = taken(&memory, &["2001:db8:2::1"; 64]);
                assert!(newcomer.iter().sum::<usize>() >= LIMIT / (times + 1) / 2, "{newcomer:?}");
                drop((held, more));
                assert_eq!(counters.reply_memory_bytes.get(), 0);
                assert!(memory.books.wider.borrow().is_empty());
            });
        }
    }

    #[test]
    fn a_network_of_many_addresses_gives_way_before_an_address_that_holds_more_than_each_of_them() {
        in_a_lane(|memory, _| async move {
            let stall = |account: &Rc<Account>| {
                let account = Rc::clone(account);
                lane::spawn(async move { account.unless_short(std::future::pending::<()>()).await })
            };
            let honest = memory.account("192.0.2.1".parse().unwrap());
            let many: Vec<_> =
                (0..8).map(|n| memory.account(format!("2001:db8:1:{n:x}::1").parse().unwrap())).collect();
            let mut held = vec![honest.charge(LIMIT / 4)];
            held.extend(many.iter().map(|account| account.charge(LIMIT / 8)));
            let of_honest = stall(&honest);
            let of_many: Vec<_> = many.iter().map(stall).collect();
            sleep(2 * PATIENCE).await;
            held.push(honest.charge(1));
            lane::yield_now().await;
            assert_eq!(of_many.iter().filter(|task| task.is_finished()).count(), 1);
            assert!(!of_honest.is_finished());
        });
    }

    #[test]
    fn addresses_that_want_all_get_the_same() {
        in_a_lane(|memory, _| async move {
            let peers: Vec<_> = (0..90).map(|n| ["192.0.2.1", "192.0.2.2", "2001:db8::1"][n % 3]).collect();
            let (got, _held) = taken(&memory, &peers);
            for address in 0..3 {
                let part: usize = got.iter().skip(address).step_by(3).sum();
                assert!((LIMIT / 10 * 3 - 3 * PIECE..=LIMIT / 10 * 3 + 3 * PIECE).contains(&part), "{part}");
            }
        });
    }

    #[test]
    fn who_may_have_no_more_gets_it_when_others_let_go() {
        in_a_lane(|memory, counters| async move {
            let (_, mut held) = taken(&memory, &["192.0.2.1"; 64]);
            let account = memory.account("192.0.2.1".parse().unwrap());
            let waiting = lane::spawn(async move { drop(account.acquire(PIECE).await) });
            lane::yield_now().await;
            assert_eq!((waiting.is_finished(), counters.reply_memory_waits.get()), (false, 1));
            let begun = now();
            held.truncate(1);
            waiting.await;
            assert!(now() < begun + PATIENCE, "it was woken");
        });
    }

    #[test]
    fn what_somebody_holds_himself_is_not_in_his_way_and_two_rights_become_one() {
        in_a_lane(|memory, counters| async move {
            let account = memory.account("192.0.2.1".parse().unwrap());
            let first = account.acquire(LIMIT / CONNECTION_DIVISOR).await;
            assert!(account.try_charge(PIECE).is_none(), "it has what a connection may have");
            let second = account.acquire_beside(PIECE, first.bytes()).await;
            let both = first.and(second);
            assert_eq!(both.bytes(), LIMIT / CONNECTION_DIVISOR + PIECE);
            assert_eq!(counters.reply_memory_bytes.get(), both.bytes() as u64);
            drop(both);
            assert_eq!(counters.reply_memory_bytes.get(), 0);
            assert!(account.try_charge(LIMIT / CONNECTION_DIVISOR).is_some(), "nothing is left of them");
        });
    }

    #[test]
    fn where_it_is_short_the_longest_stalled_of_the_greatest_holder_goes() {
        in_a_lane(|memory, _| async move {
            let accounts =
                ["192.0.2.1", "192.0.2.1", "192.0.2.2"].map(|peer| memory.account(peer.parse().unwrap()));
            let [first, second, other] = accounts;
            let held = [first.charge(LIMIT / 2), second.charge(LIMIT / 8), other.charge(LIMIT / 2 - PIECE)];
            let stall = |account: &Rc<Account>| {
                let account = Rc::clone(account);
                lane::spawn(async move { account.unless_short(std::future::pending::<()>()).await })
            };
            let (three, two) = (stall(&other), stall(&second));
            sleep(Duration::from_millis(10)).await;
            let one = stall(&first);
            sleep(2 * PATIENCE).await;
            let more = first.charge(1);
            assert!(matches!(two.await, Err(Evicted)));
            assert!(!one.is_finished() && !three.is_finished(), "one at a time");
            drop((held, more));
        });
    }

    #[test]
    fn hosts_of_one_ipv6_network_are_one_address() {
        in_a_lane(|memory, _| async move {
            let (got, _held) = taken(&memory, &["2001:db8::1", "2001:db8::2", "2001:db8::ffff:3"]);
            assert!(got.iter().sum::<usize>() <= LIMIT / 2);
            assert_eq!(memory.books.addresses.borrow().len(), 1);
            let _other = memory.account("2001:db8:0:1::1".parse().unwrap());
            let _same = memory.account("::ffff:192.0.2.1".parse().unwrap());
            let _again = memory.account("192.0.2.1".parse().unwrap());
            assert_eq!(memory.books.addresses.borrow().len(), 3);
        });
    }
}
