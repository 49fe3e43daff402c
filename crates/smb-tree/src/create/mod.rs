//! CREATE (MS-SMB2 3.3.5.9, MS-FSA 2.1.5.1): a file, directory or named stream is opened or made.

use std::rc::Rc;
use std::sync::{Arc, Mutex};

use smb_proto::channel_word::ChannelWord;
use smb_wire::Status;
use smb_wire::create::{CreateRequest, CreateResponseFixed, create_action, oplock_level};
use smb_wire::fixed::Fixed;

use self::ask::Ask;
use self::granted::Granted;
use crate::asker::Asker;
use crate::attributes::allocated;
use crate::breaks::{Held, level};
use crate::hand::Hand;
use crate::open::{Open, OpenKind, State};
use crate::opens::Room;
use crate::share::Share;

pub(crate) mod ask;
mod contexts;
mod existing;
mod granted;
mod made;

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

impl Share {
    /// Opens or makes what the request names. `channel_sequence` is that of its header, 0 before dialect 3.0.
    ///
    /// Waits for clients who have to give back what they cache of it, for 75 s at most.
    ///
    /// # Errors
    /// [`CreateError`].
    pub async fn create(
        &self,
        asker: &Asker,
        request: &CreateRequest<'_>,
        channel_sequence: u16,
    ) -> Result<Created, CreateError> {
        let created = self.try_create(asker, request, channel_sequence).await;
        created.map_err(|status| {
            self.count_refused(status);
            status.into()
        })
    }

    async fn try_create(
        &self,
        asker: &Asker,
        request: &CreateRequest<'_>,
        channel_sequence: u16,
    ) -> Result<Created, Status> {
        let ask = Ask::of(asker, request)?;
        let room = self.opens().room(asker.session, asker.address);
        let room = room.inspect_err(|_| self.counters().opens_refused_limit.increment())?;
        let granted = self.granted(asker, &ask, &room).await?;
        let (action, hand) = (granted.action, Rc::clone(&granted.hand));
        let open = self.new_open(asker, &ask, room, granted, channel_sequence);
        self.opens().insert(&open);
        let hand = self.side().keep_hand(&open, hand);
        self.counters().opens_made.increment();
        match self.response(asker, &ask, &open, &hand, action).await {
            Ok((fixed, contexts)) => Ok(Created { open, fixed, contexts }),
            Err(status) => {
                // The client never hears of it.
                let _ = self.close(asker, &open, 0).await;
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
    ) -> Arc<Open> {
        let is_of_directory = granted.hand.directory().is_some();
        let kind = match (&granted.stream, is_of_directory) {
            (Some(_), _) => OpenKind::Stream,
            (None, true) => OpenKind::Directory,
            (None, false) => OpenKind::File,
        };
        Arc::new(Open {
            held: held(ask, &granted),
            grants: granted.open,
            room,
            _tellable: granted.tellable,
            session: asker.session,
            tree: asker.tree,
            client: asker.client,
            address: asker.address,
            share: Arc::clone(&self.inner.name),
            user: asker.caller.principal.name().into(),
            kind,
            stream: granted.stream.map(String::into_boxed_str),
            access: granted.access,
            maximal_access: granted.maximal_access,
            share_access: ask.share_access,
            options: ask.options,
            word: ChannelWord::new(channel_sequence),
            state: Mutex::new(State::default()),
        })
    }

    async fn response(
        &self,
        asker: &Asker,
        ask: &Ask<'_>,
        open: &Arc<Open>,
        hand: &Hand,
        action: u32,
    ) -> Result<(CreateResponseFixed, Vec<u8>), Status> {
        let info = self.open_info(open, hand).await?;
        let mut fixed = CreateResponseFixed::blank();
        fixed.oplock_level = match open.held {
            Held::Nothing => oplock_level::NONE,
            Held::Oplock => level(open.grants().opened().caching),
            Held::Lease { .. } => oplock_level::LEASE,
        };
        fixed.create_action.set(action);
        fixed.creation_time.set(info.created);
        fixed.last_access_time.set(info.accessed);
        fixed.last_write_time.set(info.written);
        fixed.change_time.set(info.changed);
        //= MS-SMB2 3.3.5.9.2
        //# AllocationSize is what is set aside, where that was asked for.
        let asked = ask.wishes.allocation.filter(|_| action == create_action::CREATED && !info.is_directory);
        fixed.allocation_size.set(info.allocation.max(asked.map_or(0, allocated)));
        fixed.end_of_file.set(info.size);
        fixed.file_attributes.set(info.attributes);
        fixed.file_id = open.id();
        let contexts = contexts::write(&ask.wishes, asker, open, &info);
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

/// What of caching the open has.
fn held(ask: &Ask<'_>, granted: &Granted) -> Held {
    match (&ask.wishes.lease, &granted.tellable) {
        (_, None) => Held::Nothing,
        (Some(lease), Some(_)) => Held::Lease { key: lease.key() },
        (None, Some(_)) => Held::Oplock,
    }
}
