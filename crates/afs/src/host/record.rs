//! One host: a client as all lanes know it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, UNIX_EPOCH};

use afs_wire::Fid;
use smallvec::SmallVec;
use vfs::{Client, Holder, Number, VolumeId};
use xdr::afs::AfsUuid;

use super::host_identity::HostIdentity;
use super::table::Resident;

/// A client with a cache, one record for all lanes. Where it is reached is in the table of hosts.
pub struct Host {
    /// The host's number, which no other host ever has.
    pub(super) number: u64,
    /// The identity that the client claims.
    pub(super) uuid: Option<AfsUuid>,
    /// Key of the host in the index.
    pub(super) key: [u8; 16],
    client: Arc<Client>,
    loses_overtaking: bool,
    /// Time when it last asked for something, in seconds of the table's clock.
    seen: AtomicU32,
    /// Time when the index last heard of it.
    pub(super) recorded: AtomicU32,
    /// Time since which it has not answered when it was called, in seconds of the table's clock, and one more; 0 if it
    /// has.
    silent_since: AtomicU32,
    /// Creation time of volumes for this host: see [`Host::relies_since`].
    relies_since: AtomicU32,
    has_left: AtomicBool,
    /// Set if the index has stored it with its addresses. Only then it is given callbacks.
    is_safe: AtomicBool,
    /// Numbers that it knows volumes by, beside their own.
    names: Mutex<SmallVec<[(VolumeId, u32); 2]>>,
}

/// The expiry of a callback, for `vfs` and for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallbackPromise {
    /// Expiry for `vfs`: the client is notified of changes before this moment.
    pub until: Instant,
    /// Expiry for the client, in seconds from its request. It is earlier than that for `vfs`.
    pub seconds: u32,
}

impl Host {
    pub(super) fn new(
        number: u64,
        told: &HostIdentity,
        key: [u8; 16],
        client: Arc<Client>,
        now: u32,
    ) -> Self {
        let (uuid, loses_overtaking) = (told.uuid, told.loses_overtaking());
        let (seen, recorded) = (AtomicU32::new(now), AtomicU32::new(now));
        let (silent_since, [has_left, is_safe]) =
            (AtomicU32::new(0), [(); 2].map(|()| AtomicBool::new(false)));
        let names = Mutex::default();
        Self {
            number,
            uuid,
            key,
            client,
            loses_overtaking,
            seen,
            recorded,
            silent_since,
            relies_since: AtomicU32::new(wall_milliseconds()),
            has_left,
            is_safe,
            names,
        }
    }

    /// Returns the host as `vfs` knows it, for callbacks.
    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// Returns the holder whose callbacks are spared by its own changes.
    pub fn holder(&self) -> Holder {
        self.client.holder()
    }

    /// Returns the identity that the client claims; `None` for a client that has no identity and is known by
    /// its address alone.
    pub fn uuid(&self) -> Option<AfsUuid> {
        self.uuid
    }

    /// Returns whether it would lose a break that overtakes the reply with the callback, and go on relying on that.
    /// Such a reply is held in flight ([`vfs::LookupWithCallback::in_flight_reply`]) until the client has acknowledged
    /// it. Linux's client does; it is recognised as it counts no addresses as its own. OpenAFS's notices, and may take
    /// 400 ms to acknowledge, for which changes would wait.
    pub fn loses_overtaking_breaks(&self) -> bool {
        self.loses_overtaking
    }

    /// Returns a number that changes each time that all it relied on was void, also by the server's being
    /// begun anew: the lower half of the milliseconds since 1970 at which that was. Linux's client (since
    /// 6.8) forgets at InitCallBackState3 no more than that the volume is as it was; once it has asked for
    /// one file of it, it goes on relying on all that it had of the others. A volume of which replies tell
    /// another creation it asks for anew, file by file.
    pub fn relies_since(&self) -> u32 {
        self.relies_since.load(Ordering::Acquire)
    }

    /// Voids all callbacks of the host; to be called before its client is notified.
    pub(super) fn void_promises(&self) {
        let now = wall_milliseconds();
        let next = |before: u32| Some(if now == before { now.wrapping_add(1) } else { now });
        let outcome = self.relies_since.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        outcome.expect("there is always a next");
    }

    /// Adds a number that the client knows this volume by, as that of its read-only name: breaks name that one as well.
    /// To be called before the client is given a callback there.
    pub fn add_volume_alias(&self, volume: VolumeId, number: u32) {
        let mut names = self.names.lock().expect("nobody panics while holding it");
        if number != volume.0 && !names.contains(&(volume, number)) {
            names.push((volume, number));
        }
    }

    /// Returns all FIDs that the client may know a file by.
    pub(super) fn fids(&self, volume: VolumeId, number: Number) -> SmallVec<[Fid; 3]> {
        let names = self.names.lock().expect("nobody panics while holding it");
        let others = names.iter().filter(|(of, _)| *of == volume).map(|(_, name)| *name);
        let fid = |volume| Fid { volume, vnode: number.vnode, uniquifier: number.uniquifier };
        std::iter::once(volume.0).chain(others).map(fid).collect()
    }

    /// Notes a call of the host. Written once a second at most: every lane that serves it reads this.
    pub(super) fn touch(&self, now: u32) {
        if self.seen.load(Ordering::Relaxed) != now {
            self.seen.store(now, Ordering::Relaxed);
        }
    }

    /// Notes that the host has answered a call.
    pub(super) fn has_answered(&self) {
        if self.did_not_answer() {
            self.silent_since.store(0, Ordering::Relaxed);
        }
    }

    /// Notes that the host has not answered a call: from then on until it does.
    pub(super) fn is_silent_at(&self, now: u32) {
        if !self.did_not_answer() {
            self.silent_since.store(now.saturating_add(1), Ordering::Relaxed);
        }
    }

    pub(super) fn did_not_answer(&self) -> bool {
        self.silent_since.load(Ordering::Relaxed) != 0
    }

    /// Returns whether it is no host any more: a client that comes from there is identified anew.
    pub(super) fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Acquire)
    }

    /// Returns whether it can be served as it is.
    pub(super) fn is_settled(&self) -> bool {
        self.is_safe() && !self.has_left()
    }

    pub(super) fn is_safe(&self) -> bool {
        self.is_safe.load(Ordering::Acquire)
    }

    pub(super) fn set_safe(&self, is_safe: bool) {
        self.is_safe.store(is_safe, Ordering::Release);
    }

    /// Ends the host, which gets no callbacks from here on.
    pub(super) fn leave(&self) {
        self.client.retire();
        self.has_left.store(true, Ordering::Release);
    }
}

/// Returns the milliseconds since 1970, as far as 32 bits have them.
fn wall_milliseconds() -> u32 {
    lane::time::wall_clock().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u32
}

impl CallbackPromise {
    pub(super) fn new(now: Instant, told: Duration, bias: Duration) -> Self {
        Self { until: now + told + bias, seconds: u32::try_from(told.as_secs()).unwrap_or(u32::MAX) }
    }
}

impl Resident for Arc<Host> {
    fn seen(&self) -> u32 {
        self.seen.load(Ordering::Relaxed)
    }

    fn silent_since(&self) -> Option<u32> {
        self.silent_since.load(Ordering::Relaxed).checked_sub(1)
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("number", &self.number).field("uuid", &self.uuid).finish_non_exhaustive()
    }
}
