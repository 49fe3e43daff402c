//! Tests of every cell of the tables, of each part's rules, and histories beside a model that shares no code.

mod deletions;
mod history;
mod leases;
mod locks;
mod memory;
mod model;
mod restores;
mod tables;

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use budget::Consumer;

use crate::{
    Access, Caching, CachingRequest, Event, GrantResult, Holder, Home, Kind, Limits, Object, OpenId, Opened,
    Request, Share, StatOpen, Ticket,
};

/// Object with its clock, and the events since the last look.
struct Bench {
    object: Object<&'static str>,
    now: Instant,
    events: Vec<Event>,
}

impl Bench {
    fn new() -> Self {
        Self { object: Object::new(&Limits::DEFAULT), now: Instant::now(), events: Vec::new() }
    }

    fn open(&mut self, request: Request<&'static str>) -> GrantResult<Opened> {
        self.open_again(request, None)
    }

    fn open_again(&mut self, request: Request<&'static str>, ticket: Option<Ticket>) -> GrantResult<Opened> {
        self.object.open(self.now, b"", request, ticket, &mut self.events)
    }

    fn granted(&mut self, request: Request<&'static str>) -> Opened {
        match self.open(request) {
            GrantResult::Granted(opened) => opened,
            other => panic!("{other:?}"),
        }
    }

    fn close(&mut self, open: u64) -> crate::Closed<&'static str> {
        self.object.close(self.now, OpenId(open), &mut self.events).unwrap()
    }

    /// Takes the breaks sent so far: holder, caching left, and whether an acknowledgement is due.
    fn breaks(&mut self) -> Vec<(u64, Caching, bool)> {
        let told = |event: Event| match event {
            Event::Break(told) => Some((told.holder.0, told.to, told.acknowledge)),
            _ => None,
        };
        self.events.drain(..).filter_map(told).collect()
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.object.handle_timeout(self.now, &mut self.events);
    }
}

/// Returns a client with an address of its own.
fn client(number: u64) -> Consumer {
    IpAddr::from(Ipv4Addr::from_bits(number as u32)).into()
}

/// Returns a request for an open that shares everything and may do everything.
fn request(open: u64) -> Request<&'static str> {
    Request {
        open: OpenId(open),
        consumer: client(open),
        access: Access::READ | Access::WRITE | Access::DELETE,
        share: Share::ALL,
        looks: StatOpen::No,
        overwrites: false,
        is_directory: false,
        link: "page",
        parent: None,
        want: None,
    }
}

fn with_lease(open: u64, lease: u64, caching: Caching) -> Request<&'static str> {
    let kind = Kind::Lease { epoch: Some(0) };
    let (holder, key) = (Holder(lease), Some([lease as u8; 16]));
    Request { want: Some(CachingRequest { holder, kind, caching, home: Home(3), key }), ..request(open) }
}

fn with_oplock(open: u64, caching: Caching) -> Request<&'static str> {
    let want = CachingRequest { holder: Holder(open), kind: Kind::Oplock, caching, home: Home(3), key: None };
    Request { want: Some(want), ..request(open) }
}
