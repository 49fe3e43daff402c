//! CREATE (MS-SMB2 3.3.5.9, MS-FSA 2.1.5.1): a file, directory or named stream is opened or made.

use std::rc::Rc;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};

use futures_util::future::LocalBoxFuture;
use grants::Opened;
use smb_proto::channel_word::ChannelWord;
use smb_wire::Status;
use smb_wire::create::access::rights;
use smb_wire::create::lease::Lease;
use smb_wire::create::{CreateRequest, CreateResponseFixed, create_action, oplock_level};
use smb_wire::fixed::Fixed;

use self::ask::{Ask, Wishes};
use self::durable::Reconnect;
use self::granted::Granted;
use crate::asker::Asker;
use crate::attributes::allocated;
use crate::breaks::{Held, level};
use crate::hand::Hand;
use crate::open::{Open, OpenKind, State};
use crate::opens::Room;
use crate::replays::Entry;
use crate::share::Share;

pub(crate) mod alike;
pub(crate) mod ask;
mod contexts;
mod durable;
mod existing;
mod granted;
mod instance;
pub(crate) mod link;
mod made;
mod reconnect;
mod secured;

/// What was opened or made.
#[derive(Debug)]
pub struct Created {
    /// The open, which the table has.
    pub open: Arc<Open>,
    /// The response, but for where its contexts are.
    pub fixed: CreateResponseFixed,
    /// Its contexts.
    pub contexts: Vec<u8>,
}

/// Why nothing was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateError {
    /// The status.
    pub status: Status,
    /// Data of the error response: of `STATUS_STOPPED_ON_SYMLINK`; else none.
    pub data: Vec<u8>,
}

impl From<Status> for CreateError {
    fn from(status: Status) -> Self {
        Self { status, data: Vec::new() }
    }
}

/// What a response is made of.
struct Answering<'a> {
    wishes: &'a Wishes<'a>,
    open: &'a Arc<Open>,
    hand: &'a Hand,
    action: u32,
    /// What the client has of its lease or oplock.
    standing: Opened,
    /// It is told that the open is durable.
    tells_durable: bool,
}

impl Share {
    /// Opens or makes what the request names, or gives back an open that outlived its session. `channel_sequence` is that of its
    /// header, 0 before dialect 3.0; `replay` says whether it has SMB2_FLAGS_REPLAY_OPERATION.
    ///
    /// Waits for clients who have to give back what they cache of it, for 75 s at most.
    ///
    /// # Errors
    /// [`CreateError`].
    pub fn create<'a>(
        &'a self,
        asker: &'a Asker,
        request: &'a CreateRequest<'a>,
        channel_sequence: u16,
        replay: bool,
    ) -> LocalBoxFuture<'a, Result<Created, CreateError>> {
        Box::pin(async move {
            let created = self.try_create(asker, request, channel_sequence, replay).await;
            match created {
                Ok(created) => Ok(created),
                Err(status @ Status::STOPPED_ON_SYMLINK) => {
                    Err(CreateError { status, data: self.stopped_on(asker, request).await })
                }
                Err(status) => {
                    self.count_refused(status);
                    Err(status.into())
                }
            }
        })
    }

    async fn try_create(
        &self,
        asker: &Asker,
        request: &CreateRequest<'_>,
        channel_sequence: u16,
        replay: bool,
    ) -> Result<Created, Status> {
        if let Some(wanted) = Reconnect::of(asker, request)? {
            let again = self.reconnect(asker, request, wanted, channel_sequence).await;
            return again.inspect_err(|_| self.counters().durable_reconnect_refused.increment());
        }
        // While this lives the same CREATE finds that this one is under way.
        let oplock = request.fixed.requested_oplock_level;
        let wishes = Wishes::of(asker, request)?.with_lease_of(oplock);
        let replay = match self.replayed(asker, request, &wishes, replay, channel_sequence).await? {
            Ok(before) => return Ok(before),
            Err(entry) => entry,
        };
        let mut ask = Ask::of(request, wishes)?;
        if let Some(instance) = ask.wishes.instance {
            self.take_over(asker, &ask, instance).await?;
        }
        let room = self.opens().room(asker.session, asker.consumer());
        let room = room.inspect_err(|_| self.counters().opens_refused_limit.increment())?;
        ask.of_two = self.look_for_alike(asker, &ask).await;
        let granted = self.granted(asker, &ask, &room).await?;
        let (action, hand) = (granted.action, Rc::clone(&granted.hand));
        let open = self.new_open(asker, &ask, room, granted, channel_sequence, replay);
        self.opens().insert(&open);
        let hand = self.side().keep_hand(&open, hand, None);
        self.counters().made(&open);
        self.counters().durable_granted.add(open.is_durable().into());
        let unheard = Unheard { share: self, asker, open: Some(&open) };
        let standing = open.grants().opened();
        let answering = Answering {
            wishes: &ask.wishes,
            open: &open,
            hand: &hand,
            action,
            standing,
            tells_durable: true,
        };
        match self.response(asker, &answering).await {
            Ok((fixed, contexts)) => {
                if let Some(entry) = &open.replay {
                    entry.done(&open);
                }
                unheard.disarm();
                Ok(Created { open, fixed, contexts })
            }
            Err(status) => {
                // Before the client hears of it: the next CREATE may be of the same file.
                let _ = self.close(asker, &open, 0).await;
                unheard.disarm();
                Err(status)
            }
        }
    }

    fn new_open(
        &self,
        asker: &Asker,
        ask: &Ask<'_>,
        room: Room,
        granted: Granted,
        channel_sequence: u16,
        replay: Option<Entry>,
    ) -> Arc<Open> {
        let is_of_directory = granted.hand.directory().is_some();
        let kind = match (&granted.stream, is_of_directory) {
            (Some(_), _) => OpenKind::Stream,
            (None, true) => OpenKind::Directory,
            (None, false) if granted.hand.link().is_some() => OpenKind::Link,
            (None, false) => OpenKind::File,
        };
        let held = held(ask, &granted);
        let instances = self.opens().instances();
        let volatile = room.id().volatile.get();
        Arc::new(Open {
            held,
            action: granted.action,
            durability: ask.wishes.durable.of(&granted, held),
            create_guid: ask.wishes.durable.create_guid(),
            allocation: allocation(ask, &granted),
            replay: replay.filter(|_| kind != OpenKind::Directory && granted.access & REPLAYABLE != 0),
            instance: ask.wishes.instance.map(|instance| instances.join(instance, volatile)),
            grants: granted.open,
            became: OnceLock::new(),
            by_link: granted.by_link,
            room,
            _tellable: granted.tellable,
            _of_two: ask.of_two.clone(),
            tree: AtomicU32::new(asker.tree),
            made_by: asker.clone(),
            share: Arc::clone(&self.inner.name),
            root: Arc::clone(&self.root),
            kind,
            access: granted.access,
            maximal_access: granted.maximal_access,
            share_access: granted.share_access,
            options: ask.options,
            case: ask.case(),
            word: ChannelWord::new(channel_sequence),
            position: AtomicU64::new(0),
            writes: AtomicU32::new(0),
            state: Mutex::new(State { stream: granted.stream.map(Into::into), ..State::default() }),
        })
    }

    async fn response(
        &self,
        asker: &Asker,
        answering: &Answering<'_>,
    ) -> Result<(CreateResponseFixed, Vec<u8>), Status> {
        let &Answering { open, hand, action, standing, .. } = answering;
        let info = self.open_info(open, hand).await?;
        let mut fixed = CreateResponseFixed::blank();
        fixed.oplock_level = match open.held {
            Held::Nothing => oplock_level::NONE,
            Held::Oplock => level(standing.caching),
            Held::Lease { .. } => oplock_level::LEASE,
        };
        fixed.create_action.set(action);
        fixed.creation_time.set(info.created);
        fixed.last_access_time.set(info.accessed);
        fixed.last_write_time.set(info.written);
        fixed.change_time.set(info.changed);
        fixed.allocation_size.set(info.allocation.max(open.allocation));
        fixed.end_of_file.set(info.size);
        fixed.file_attributes.set(info.attributes);
        fixed.file_id = open.id();
        let contexts = contexts::write(asker, answering, &info);
        Ok((fixed, contexts))
    }

    fn count_refused(&self, status: Status) {
        let counters = self.counters();
        let counter = match status {
            Status::SHARING_VIOLATION => &counters.refused_sharing,
            Status::ACCESS_DENIED | Status::PRIVILEGE_NOT_HELD => &counters.refused_access,
            Status::OBJECT_NAME_NOT_FOUND
            | Status::OBJECT_PATH_NOT_FOUND
            | Status::OBJECT_NAME_COLLISION
            | Status::OBJECT_NAME_INVALID => &counters.refused_name,
            _ => &counters.refused_other,
        };
        counter.increment();
    }
}

/// An open in the table of which no client has heard yet: it is closed where this is dropped, as nobody else would.
///
/// A CREATE ends early where its client cancels it or its session ends. The session's own opens may have been
/// closed before this one came into the table.
struct Unheard<'a> {
    share: &'a Share,
    asker: &'a Asker,
    open: Option<&'a Arc<Open>>,
}

impl Unheard<'_> {
    /// The client is told, or it is closed.
    fn disarm(mut self) {
        self.open = None;
    }
}

impl Drop for Unheard<'_> {
    fn drop(&mut self) {
        let Some(open) = self.open else { return };
        let (share, asker, open) = (self.share.clone(), self.asker.clone(), Arc::clone(open));
        lane::spawn(async move {
            // Who closed it before was the end of its session.
            let _ = share.close(&asker, &open, 0).await;
        })
        .detach();
    }
}

/// Room that was set aside for a file that was made.
fn allocation(ask: &Ask<'_>, granted: &Granted) -> u64 {
    //= MS-SMB2 3.3.5.9.2
    //# AllocationSize is what is set aside, where that was asked for.
    let is_made = granted.action == create_action::CREATED && granted.hand.directory().is_none();
    ask.wishes.allocation.filter(|_| is_made).map_or(0, allocated)
}

/// What of caching the open has.
fn held(ask: &Ask<'_>, granted: &Granted) -> Held {
    match (&ask.wishes.lease, &granted.tellable) {
        // Its key is told all the same, with nothing.
        (Some(lease), None) if ask.of_two.is_some() => {
            Held::Lease { key: lease.key(), version: contexts::version(lease, &granted.open.opened()) }
        }
        (_, None) => Held::Nothing,
        (Some(Lease::V1(_)), Some(_)) if granted.hand.directory().is_some() => Held::Nothing,
        (Some(lease), Some(_)) => {
            Held::Lease { key: lease.key(), version: contexts::version(lease, &granted.open.opened()) }
        }
        (None, Some(_)) => Held::Oplock,
    }
}

/// Rights with one of which an open's CREATE may come again (MS-SMB2 3.3.5.9.10).
const REPLAYABLE: u32 =
    rights::READ_DATA | rights::EXECUTE | rights::WRITE_DATA | rights::APPEND_DATA | rights::DELETE;
