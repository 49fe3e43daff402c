//! A server begins: opens that the last one has written down are there again, as far as the tree and the users still bear them out.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use grants::{Holder, Share as Shares};
use smb_proto::channel_word::ChannelWord;
use vfs::{Caller, Error, KeptOpen, OpenError, OpenHow, RelPath, Wanted};

use super::Page;
use super::put_down::since_1970_ms;
use super::record::{Record, Stamp};
use crate::access;
use crate::breaks::{Held, Told};
use crate::create::params::lease_key;
use crate::disconnected::Durability;
use crate::lock_sequences::Sequences;
use crate::names::Case;
use crate::open::{Open, OpenKind, State};
use crate::opens::{Room, Tellable};
use crate::replays::{Entry, Known};
use crate::request_context::RequestContext;
use crate::root::Root;
use crate::share::Share;
use crate::streams;
use crate::tree::Tree;

/// What became of the opens that were kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakenUp {
    /// They wait for their clients.
    pub restored: usize,
    /// They are no more.
    pub lost: usize,
}

/// What was kept is nothing that a server writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

/// Why an open is not had again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    /// Its time is over, or the server took too long to look at them all.
    Late,
    /// The file is not there, or another is.
    Gone,
    /// Something has changed the file.
    Changed,
    /// The user is gone, or may not do any more what it is for.
    User,
    /// The share is gone or shows another volume, or that was opened by another server since.
    Share,
    /// It cannot stand beside others, or another program has locked the file.
    Conflict,
}

/// What holds an open that was put back.
struct Restored {
    grants: vfs::Open,
    tellable: Tellable,
    ctx: RequestContext,
    room: Room,
}

impl Tree {
    /// Has opens again that [`Tree::put_down`] has written down in another process, in `within` at most. For the begin of the process,
    /// before anybody asks for anything on any lane; what was kept is for one such begin.
    ///
    /// # Errors
    /// [`Damaged`]: nothing of it is there then.
    pub fn take_up<'a>(
        &'a self,
        page: &'a [u8],
        within: Duration,
    ) -> LocalBoxFuture<'a, Result<TakenUp, Damaged>> {
        Box::pin(async move {
            let page = Page::read(page).ok_or(Damaged)?;
            let until = lane::time::now() + within;
            let now_ms = since_1970_ms(lane::time::wall_clock());
            // A clock that was set back makes nothing of it younger than it was.
            let passed = Duration::from_millis(now_ms.saturating_sub(page.written_ms));
            let mut taken = TakenUp::default();
            for record in &page.records {
                let restored = match lane::time::now() < until {
                    true => lane::time::timeout_at(until, self.restore(record, passed)).await,
                    false => Ok(Err(Lost::Late)),
                };
                match restored.unwrap_or(Err(Lost::Late)) {
                    Ok(()) => taken.restored += 1,
                    Err(why) => {
                        self.count_lost(why);
                        taken.lost += 1;
                    }
                }
            }
            self.counters().durable_restored.add(taken.restored as u64);
            Ok(taken)
        })
    }

    async fn restore(&self, record: &Record, passed: Duration) -> Result<(), Lost> {
        let left = record.left.checked_sub(passed).filter(|left| !left.is_zero()).ok_or(Lost::Late)?;
        let share = self.share(&record.share).filter(|share| share.name() == record.share);
        let share = share.ok_or(Lost::Share)?;
        let before = share.volume().shared().and_then(|volume| volume.opening_before());
        if before != Some(record.opening) {
            return Err(Lost::Share);
        }
        let restored = self.put_back(&share, record).await?;
        let open = self.open_of(&share, record, restored);
        let opens = self.opens();
        opens.insert(&open);
        if let Some(entry) = &open.replay {
            entry.done(&open);
        }
        self.counters().made(&open);
        if let Some(goes) = self.lane_state().rest(&open, left) {
            self.lane_state().closer().close(goes).await;
        }
        Ok(())
    }

    /// Has the file held as it was.
    async fn put_back(&self, share: &Share, record: &Record) -> Result<Restored, Lost> {
        let principal = record.who.principal(&share.options().accounts).ok_or(Lost::User)?;
        let ctx = RequestContext {
            caller: Caller::new(principal),
            session: 0,
            tree: 0,
            client: record.client,
            address: record.address,
            dialect: record.dialect,
            posix: record.posix,
            apple: Arc::default(),
        };
        let room = self.opens().room_again(record.volatile, ctx.consumer()).ok_or(Lost::Conflict)?;
        let stream = record.stream.as_deref().map(streams::folded).unwrap_or_default();
        let kept = KeptOpen {
            words: &record.words,
            how: OpenHow {
                stream: stream.as_bytes(),
                access: access::borne(record.access),
                share: Shares::from_bits(record.share_access as u8),
                need: access::needed(record.access, false),
                looks: access::looks(record.access),
                overwrites: false,
                consumer: ctx.consumer(),
                wanted: Some(wanted(&ctx, record)),
            },
            locks: &record.locks,
        };
        let path = RelPath::parse(&record.path).map_err(|_| Lost::Gone)?;
        let (is_changed, tellable) = (Cell::new(false), Cell::new(None));
        let is_it = |attributes: &vfs::Attributes| {
            is_changed.set(Stamp::from(attributes) != record.stamp);
            !is_changed.get()
        };
        let mut tell = |holder: Holder| {
            let told = told(&room, record);
            tellable.set(Some(self.opens().tellable(holder, told, &ctx, path)));
        };
        let restored = share.volume().restore_open(&ctx.caller, path, &kept, &is_it, &mut tell).await;
        let grants = restored.map_err(|error| match error {
            _ if is_changed.get() => Lost::Changed,
            OpenError::Refused(_) | OpenError::NotHere(_) => Lost::Conflict,
            OpenError::Failed(Error::Denied(_) | Error::ReadOnly) => Lost::User,
            OpenError::Failed(_) => Lost::Gone,
        })?;
        room.has_ranges(record.locks.len());
        let tellable = tellable.into_inner().expect("who is put back has been told of");
        Ok(Restored { grants, tellable, ctx, room })
    }

    fn open_of(&self, share: &Share, record: &Record, restored: Restored) -> Arc<Open> {
        let Restored { grants, tellable, ctx, room } = restored;
        let opens = self.opens();
        let join = |instance| opens.instances().join(instance, record.volatile);
        let state = State {
            stream: record.stream.as_deref().map(Into::into),
            mode: record.mode,
            sticky: record.sticky,
            lock_sequences: Sequences::of_numbers(record.sequences),
            ..State::default()
        };
        Arc::new(Open {
            grants,
            room,
            became: OnceLock::new(),
            by_link: None,
            _tellable: Some(tellable),
            _of_two: None,
            tree: AtomicU32::new(0),
            replay: self.replay_of(record),
            made_by: ctx,
            share: Arc::clone(&share.inner.name),
            root: Root::whole(),
            kind: if record.stream.is_some() { OpenKind::Stream } else { OpenKind::File },
            access: record.access,
            maximal_access: record.maximal_access,
            share_access: record.share_access,
            options: record.options,
            case: if record.is_exact { Case::Exact } else { Case::Any },
            held: record.held,
            action: record.action,
            allocation: record.allocation,
            durability: Some(Durability { timeout: record.timeout }),
            create_guid: record.create_guid,
            instance: record.instance.map(join),
            // Whoever has it again begins the sequence anew.
            word: ChannelWord::new(0),
            writes: AtomicU32::new(0),
            position: AtomicU64::new(record.position),
            state: Mutex::new(state),
        })
    }

    /// Its place among CREATEs that may come again.
    fn replay_of(&self, record: &Record) -> Option<Entry> {
        if !record.is_replayable || record.create_guid.is_zero() {
            return None;
        }
        match self.opens().replays().look(record.client, record.create_guid) {
            Known::First(entry) => Some(entry),
            Known::UnderWay | Known::Done(_) => None,
        }
    }

    fn count_lost(&self, why: Lost) {
        let counters = self.counters();
        let counter = match why {
            Lost::Late => &counters.durable_lost_late,
            Lost::Gone => &counters.durable_lost_gone,
            Lost::Changed => &counters.durable_lost_changed,
            Lost::User => &counters.durable_lost_user,
            Lost::Share => &counters.durable_lost_share,
            Lost::Conflict => &counters.durable_lost_conflict,
        };
        counter.increment();
    }
}

fn wanted(ctx: &RequestContext, record: &Record) -> Wanted {
    match record.held {
        Held::Lease { key, .. } => Wanted::Lease {
            key: lease_key(ctx, key),
            caching: record.caching,
            epoch: record.epoch,
            parent: record.parent,
        },
        Held::Oplock | Held::Nothing => Wanted::Oplock(record.caching),
    }
}

fn told(room: &Room, record: &Record) -> Told {
    match record.held {
        Held::Lease { key, .. } => Told::Lease { client: record.client, key },
        Held::Oplock | Held::Nothing => Told::Oplock { open: room.id(), session: 0 },
    }
}
