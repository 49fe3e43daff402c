//! The uploads of a lane: how many each address and connection has under way, and which gives way when there
//! are no more places. An upload holds a staged file, its buffers and a connection until it ends.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use budget::{Books, Claimant, Consumer, Network, Shares};
use lane::time::now;
use slab::Slab;

use super::client::Client;
use super::counters::HttpCounters;
use super::end_notice::EndNotice;
use crate::limits::Limits;
use crate::request_error::RequestError;

/// The uploads of one lane.
pub(super) struct Uploads {
    open: RefCell<Slab<Rc<Upload>>>,
    /// Numbers of uploads by client. Each call passes the limit.
    books: RefCell<Books>,
    counters: Arc<HttpCounters>,
}

/// One upload.
struct Upload {
    consumer: Consumer,
    began: Instant,
    bytes: Cell<u64>,
    /// Given where it has to give way.
    eviction: EndNotice,
}

/// The right to have an upload under way until this is dropped.
pub(super) struct UploadPlace {
    uploads: Rc<Uploads>,
    upload: Rc<Upload>,
    place: usize,
    of_connection: Option<Rc<Cell<usize>>>,
}

impl Uploads {
    pub(super) fn new(counters: Arc<HttpCounters>) -> Rc<Self> {
        let books = RefCell::new(Books::new(usize::MAX, Shares::THRICE));
        Rc::new(Self { open: RefCell::default(), books, counters })
    }

    /// Takes a place for one more upload of this client. When there is none the address, network or user that holds
    /// most for its share gives one up, if the client's hold fewer by two or more: that of its uploads which was
    /// slowest so far.
    ///
    /// # Errors
    /// [`RequestError::UploadsTooMany`].
    pub(super) fn begin(
        self: &Rc<Self>,
        client: &Client,
        limits: &Limits,
    ) -> Result<UploadPlace, RequestError> {
        let consumer = client.consumer();
        let of_address = self.books.borrow().held_by(Claimant::Network(Network::of_client(client.ip)));
        let of_connection = client.uploads.as_ref().map_or(0, |uploads| uploads.get());
        if of_address >= limits.uploads_per_address || of_connection >= limits.uploads_per_connection {
            return Err(RequestError::UploadsTooMany);
        }
        if self.open.borrow().len() >= limits.uploads_max {
            self.evict_slowest(consumer)?;
        }
        let upload =
            Rc::new(Upload { consumer, began: now(), bytes: Cell::new(0), eviction: EndNotice::default() });
        let place = self.open.borrow_mut().insert(Rc::clone(&upload));
        self.books.borrow_mut().charge(consumer, 1);
        if let Some(uploads) = &client.uploads {
            uploads.update(|uploads| uploads + 1);
        }
        self.counters.uploads_open.add(1);
        Ok(UploadPlace { uploads: Rc::clone(self), upload, place, of_connection: client.uploads.clone() })
    }

    fn evict_slowest(&self, newcomer: Consumer) -> Result<(), RequestError> {
        let books = self.books.borrow();
        let mine = books.weight(newcomer);
        let heaviest = books.heaviest().filter(|(_, weight)| *weight > mine + 1);
        let (heaviest, _) = heaviest.ok_or(RequestError::UploadsTooMany)?;
        let open = self.open.borrow();
        let theirs = open.iter().map(|(_, upload)| upload);
        let theirs = theirs.filter(|upload| upload.consumer.is_of(heaviest) && !upload.eviction.is_given());
        let slowest = theirs.min_by_key(|upload| upload.rate()).ok_or(RequestError::UploadsTooMany)?;
        slowest.eviction.give();
        self.counters.uploads_evicted.increment();
        Ok(())
    }
}

impl Upload {
    /// Returns the bytes per second so far.
    fn rate(&self) -> u64 {
        let millis = now().duration_since(self.began).as_millis() as u64;
        self.bytes.get().saturating_mul(1000) / millis.max(1)
    }
}

impl UploadPlace {
    /// Counts bytes that came.
    pub(super) fn count(&self, bytes: u64) {
        self.upload.bytes.update(|before| before + bytes);
    }

    /// Returns `future`'s output, unless the upload has to give way.
    ///
    /// # Errors
    /// [`RequestError::UploadsTooMany`].
    pub(super) async fn unless_evicted<F: Future>(&self, future: F) -> Result<F::Output, RequestError> {
        let mut future = pin!(future);
        let output = poll_fn(|cx| self.upload.eviction.poll(cx, future.as_mut())).await;
        output.ok_or(RequestError::UploadsTooMany)
    }
}

impl Drop for UploadPlace {
    fn drop(&mut self) {
        self.uploads.counters.uploads_open.sub(1);
        self.uploads.open.borrow_mut().remove(self.place);
        self.uploads.books.borrow_mut().give_back(self.upload.consumer, 1);
        if let Some(uploads) = &self.of_connection {
            uploads.update(|uploads| uploads - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use identity::Accounts;
    use lane::backend::sim::{Config, World};

    use super::*;

    fn client(ip: &str) -> Client {
        Client::new(ip.parse().unwrap(), true)
    }

    #[test]
    fn who_holds_most_gives_way_to_a_newcomer_and_not_to_himself() {
        let world = World::new(1, Config::default());
        let host = world.host("10.0.0.1");
        world.block_on(&host, async {
            let uploads = Uploads::new(Arc::default());
            let limits = Limits { uploads_per_address: 4, uploads_max: 5, ..Limits::default() };
            let (crowd, one, other) = (client("192.0.2.1"), client("192.0.2.2"), client("192.0.2.3"));
            let begin = |client: &Client| uploads.begin(client, &limits);
            let mut theirs: Vec<_> = (0..4).map(|_| begin(&crowd).unwrap()).collect();
            assert_eq!(begin(&crowd).err(), Some(RequestError::UploadsTooMany), "an address has its share");
            lane::time::sleep(Duration::from_secs(1)).await;
            theirs.iter().enumerate().for_each(|(n, place)| place.count(if n == 2 { 1 } else { 1000 }));
            let mine = begin(&one).unwrap();
            assert!(theirs.iter().all(|place| !place.upload.eviction.is_given()), "there was room");
            let _others = begin(&other).unwrap();
            let gave_way: Vec<_> = theirs.iter().map(|place| place.upload.eviction.is_given()).collect();
            assert_eq!(gave_way, [false, false, true, false], "the slowest");
            let waits = theirs[2].unless_evicted(std::future::pending::<()>()).await;
            assert_eq!(waits, Err(RequestError::UploadsTooMany));
            assert_eq!(mine.unless_evicted(std::future::ready(3)).await, Ok(3));
            theirs.clear();
            assert_eq!((uploads.open.borrow().len(), uploads.books.borrow().held()), (2, 2));
        });
    }

    #[test]
    fn a_network_or_user_that_holds_most_gives_way_from_however_many_addresses() {
        let users = Accounts::parse("version = 1\n[user.alice]\nid = 7\n").unwrap();
        let as_alice = |ip: String| {
            let client = client(&ip);
            assert!(client.principal.set(users.user("alice").unwrap()).is_ok());
            client
        };
        let crowds: [Vec<Client>; 3] = [
            (0..40).map(|n| client(&format!("2001:db8:1:{n:x}::1"))).collect(),
            (0..40).map(|n| client(&format!("2001:db8:1:{:x}::1", n << 8))).collect(),
            (0..40).map(|n| as_alice(format!("192.0.2.{n}"))).collect(),
        ];
        for crowd in crowds {
            let world = World::new(1, Config::default());
            let host = world.host("10.0.0.1");
            world.block_on(&host, async move {
                let uploads = Uploads::new(Arc::default());
                let limits = Limits { uploads_max: 41, ..Limits::default() };
                let begin = |client: &Client| uploads.begin(client, &limits);
                let mine = begin(&client("198.51.100.7")).unwrap();
                let theirs: Vec<_> = crowd.iter().map(|client| begin(client).unwrap()).collect();
                assert!(begin(&crowd[0]).is_err(), "none of the crowd gives way to its own");
                let _second = begin(&client("198.51.100.8")).unwrap();
                let gave_way = theirs.iter().filter(|place| place.upload.eviction.is_given()).count();
                assert_eq!((gave_way, mine.upload.eviction.is_given()), (1, false));
                drop((theirs, mine, _second));
                assert!(uploads.books.borrow().is_empty());
            });
        }
    }

    #[test]
    fn a_connection_of_many_streams_has_its_share_too() {
        let world = World::new(1, Config::default());
        let host = world.host("10.0.0.1");
        world.block_on(&host, async {
            let uploads = Uploads::new(Arc::default());
            let limits = Limits { uploads_per_connection: 2, ..Limits::default() };
            let one = Client { uploads: Some(Rc::default()), ..client("192.0.2.1") };
            let held = [uploads.begin(&one, &limits).unwrap(), uploads.begin(&one, &limits).unwrap()];
            assert!(uploads.begin(&one, &limits).is_err());
            drop(held);
            assert!(uploads.begin(&one, &limits).is_ok());
        });
    }
}
