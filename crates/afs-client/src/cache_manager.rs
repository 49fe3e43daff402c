//! Callback service of a client: a cache manager's side of RXAFSCB.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::rc::Rc;

use afs_wire::{CAPABILITY_ERROR_TRANSLATION, Fid, INTERFACES_MAX, Interfaces, rxafscb};
use rx_lane::{CallError, Driver, ServerCall};
use xdr::List;
use xdr::afs::AfsUuid;
use xdr::rpc::Failure;

/// The callback service of one client: it answers with the client's identity, and counts what servers ask and report.
#[derive(Debug)]
pub struct CacheManager {
    uuid: AfsUuid,
    tally: rxafscb::Tally,
    heard: Cell<Heard>,
    broken: RefCell<VecDeque<Fid>>,
}

/// Calls that servers made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Calls that broke callbacks.
    pub breaks: u64,
    /// Files that they named.
    pub files: u64,
    /// Times that all callbacks of a server became void.
    pub resets: u64,
    /// Times that the client was asked for its identity, or whether we are there.
    pub questions: u64,
}

type Refused = Failure<CallError>;

impl CacheManager {
    pub(crate) fn new(uuid: AfsUuid) -> Self {
        Self { uuid, tally: rxafscb::Tally::default(), heard: Cell::default(), broken: RefCell::default() }
    }

    /// Serves it on the client's own socket, where servers look for it.
    pub(crate) fn serve(self: &Rc<Self>, driver: &Driver) {
        let manager = Rc::clone(self);
        driver.serve(SERVICE, move |mut call: ServerCall| {
            let manager = Rc::clone(&manager);
            async move { rxafscb::serve(&*manager, &mut call, &manager.tally).await }
        });
    }

    /// Returns the client's identity.
    pub fn uuid(&self) -> AfsUuid {
        self.uuid
    }

    /// Returns what servers have asked and reported so far.
    pub fn heard(&self) -> Heard {
        self.heard.get()
    }

    /// Returns the files last broken, at most 1,000 of them, oldest first; each is returned once.
    pub fn take_broken(&self) -> Vec<Fid> {
        self.broken.borrow_mut().drain(..).collect()
    }

    fn count(&self, change: impl FnOnce(&mut Heard)) {
        let mut heard = self.heard.get();
        change(&mut heard);
        self.heard.set(heard);
    }

    /// Returns one address: that of ours which the server uses.
    fn interfaces(&self, call: &ServerCall) -> Interfaces {
        let mut addresses = [0; INTERFACES_MAX as usize];
        let known = match call.local_ip() {
            Some(IpAddr::V4(ip)) => {
                addresses[0] = ip.to_bits();
                1
            }
            _ => 0,
        };
        Interfaces {
            count: known,
            uuid: self.uuid,
            addresses,
            netmasks: [0; INTERFACES_MAX as usize],
            packet_sizes: [0; INTERFACES_MAX as usize],
        }
    }
}

impl rxafscb::Server<ServerCall> for CacheManager {
    async fn call_back(
        &self,
        _: &ServerCall,
        request: rxafscb::CallBack,
    ) -> Result<rxafscb::CallBackReply, Refused> {
        let files = &request.files.0;
        self.count(|heard| {
            heard.breaks += 1;
            heard.files += files.len() as u64;
        });
        let mut broken = self.broken.borrow_mut();
        broken.extend(files.iter().copied());
        let surplus = broken.len().saturating_sub(BROKEN_MAX);
        broken.drain(..surplus);
        Ok(rxafscb::CallBackReply {})
    }

    async fn init_call_back_state(
        &self,
        _: &ServerCall,
        _: rxafscb::InitCallBackState,
    ) -> Result<rxafscb::InitCallBackStateReply, Refused> {
        self.count(|heard| heard.resets += 1);
        Ok(rxafscb::InitCallBackStateReply {})
    }

    async fn probe(&self, _: &ServerCall, _: rxafscb::Probe) -> Result<rxafscb::ProbeReply, Refused> {
        self.count(|heard| heard.questions += 1);
        Ok(rxafscb::ProbeReply {})
    }

    async fn who_are_you(
        &self,
        call: &ServerCall,
        _: rxafscb::WhoAreYou,
    ) -> Result<rxafscb::WhoAreYouReply, Refused> {
        self.count(|heard| heard.questions += 1);
        Ok(rxafscb::WhoAreYouReply { interfaces: self.interfaces(call) })
    }

    async fn init_call_back_state3(
        &self,
        _: &ServerCall,
        _: rxafscb::InitCallBackState3,
    ) -> Result<rxafscb::InitCallBackState3Reply, Refused> {
        self.count(|heard| heard.resets += 1);
        Ok(rxafscb::InitCallBackState3Reply {})
    }

    async fn probe_uuid(
        &self,
        _: &ServerCall,
        request: rxafscb::ProbeUuid,
    ) -> Result<rxafscb::ProbeUuidReply, Refused> {
        self.count(|heard| heard.questions += 1);
        if request.client == self.uuid {
            return Ok(rxafscb::ProbeUuidReply {});
        }
        // Another client is at this address now.
        Err(Failure::Refused(ANOTHER))
    }

    async fn tell_me_about_yourself(
        &self,
        call: &ServerCall,
        _: rxafscb::TellMeAboutYourself,
    ) -> Result<rxafscb::TellMeAboutYourselfReply, Refused> {
        self.count(|heard| heard.questions += 1);
        let capabilities = List(vec![CAPABILITY_ERROR_TRANSLATION]);
        Ok(rxafscb::TellMeAboutYourselfReply { interfaces: self.interfaces(call), capabilities })
    }
}

/// RXAFSCB.
const SERVICE: u16 = 1;
/// Answer to `ProbeUuid` for another client.
const ANOTHER: i32 = 1;
//@ limit: files that servers say have changed
//@ section: Clients of AFS
//@ unit: file
//@ all: process: {} of a client
//@ empty: the oldest goes; all are counted
//@ counter: none
//@ attack: none, a client's own limit, against servers
//@ reach: server
const BROKEN_MAX: usize = 1000;
