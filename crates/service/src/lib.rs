//! Kit for services: the interface between a service on lanes and the server, and what every service needs
//! for any protocol.
//!
//! The seam is in [`plug`]: [`Service`], [`Settings`], [`Site`], [`LaneService`]. The server knows these and
//! no protocol. What they need in common is here too: connections have [connection_slots](connections), which
//! are shared out by address and given up when they are short; they are asked to leave by a [`drain`]; what
//! they send is [paced](pacer) and what their replies hold is on [books](memory), both [shared](commons) by
//! the services of a lane; long work goes by [turns]; each request may leave a line in the access [log];
//! [volumes] are open once per lane, whichever services serve them.
//!
//! # How services fit
//!
//! | | HTTP(S) | AFS (Rx) | SMB | OOB TCP |
//! |---|---|---|---|---|
//! | tables | `[http]`, `[https]`; `mount`, … of a volume | `[afs]`: cell, keytab, addresses; the volume's number and type | `[smb]`: addresses, users; the volume's share name | of `[afs]`; where it is reached is told to clients through AFS |
//! | sockets | TCP: plain, TLS or redirect by [`Role`] | [`Transport::Rx`], one per lane: 7000, 7005 by role | TCP 445 | TCP, one role |
//! | another lane's connection | [`LaneService::take`] | none comes: a packet that strays is handed on by the transport | `take`, before the first byte | `take`; the grant says which lane holds it |
//! | [`Settings::load`] | certificates | keytab, cell keys | machine secret, users | shares the cell key of AFS by a handle that both factories hold |
//! | [`prepare`](LaneService::prepare) | mounts, TLS, limits | which volumes are attached; old calls keep the volume they began on | shares; open handles keep theirs | volumes that grants may name |
//! | [`drain`](LaneService::drain) | idle connections close, requests end | new calls are answered busy, calls in progress end; a connection is no reason to wait, a call is: [`drain::Drain::stay`] | sessions told to reconnect elsewhere, requests end | transfers end |
//! | [`dismiss`](LaneService::dismiss) | as drain, but goes on listening | nothing: clients follow the steering | idle sessions end | idle ones end |
//! | [`mark`](LaneService::mark) | SO_MARK on each socket | on the lane's UDP socket | on each socket | on each socket |
//! | pace | [`pacer::Ticket`] per connection | [`part::Part`]: the transport divides it over its connections | per connection | per transfer |
//! | descriptors | one per connection | none: `per_lane` is 0 | one per connection | one per connection |
//! | log record | request line | operation and FID | operation and share | range |

pub mod address;
pub mod admin_endpoint;
pub mod alarm;
pub mod commons;
pub mod config;
pub mod connection_slots;
pub mod connections;
pub mod counters;
pub mod datetime;
pub mod drain;
pub mod failures;
pub mod log;
pub mod memory;
pub mod pacer;
pub mod part;
pub mod plug;
pub mod port_check;
pub mod socket;
pub mod turns;
pub mod volumes;

pub use plug::{
    ConnectionsMax, Greeting, LaneFuture, LaneService, LaneStart, LoadContext, Problem, Service, Settings,
    Site, Switch,
};
pub use socket::{Bound, ConnectionRouter, LaneSocket, Role, Transport, Wanted};

mod bucket;
