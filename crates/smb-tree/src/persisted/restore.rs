//! A server begins: opens that the last one has written down are there again, as far as the tree and the users still bear them out.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use grants::{Holder, Share as Shares};
use smb_proto::channel_word::ChannelWord;
use vfs::{Caller, Error, OpenError, OpenHow, PersistedOpen, RelPath, RequestedCaching};

use super::SavedPage;
use super::record::{ContentStamp, OpenRecord};
use super::save::since_1970_ms;
use crate::access;
use crate::breaks::{BreakTarget, GrantedCaching};
use crate::create::params::lease_key;
use crate::disconnected::Durability;
use crate::lock_sequences::Sequences;
use crate::names::Case;
use crate::open::{Open, OpenKind, OpenState};
use crate::opens::{BreakRegistration, Room};
use crate::replays::{ReplayEntry, ReplayLookup};
use crate::request_context::RequestContext;
use crate::root::Root;
use crate::share::Share;
use crate::streams;
use crate::tree::Tree;

/// The numbers of saved opens that were restored and that were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoredOpens {
    /// Number of opens that wait for their clients.
    pub restored: usize,
    /// Number of opens that are gone.
    pub lost: usize,
}

/// The saved page cannot be read: no server writes such a one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedPage;

/// The reason why a saved open was not restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotRestored {
    /// The open's time is over, or the server took too long to look at them all.
    Late,
    /// The file is not there, or another is.
    Gone,
    /// Something has changed the file.
    Changed,
    /// The user is gone, or may not do any more what it is for.
    User,
    /// The share is gone or shows another volume, or that was opened by another server since.
    Share,
    /// The open conflicts with others, or another program has locked the file.
    Conflict,
}

/// The grants and registrations of a restored open.
struct RestoredGrants {
    grants: vfs::Open,
    break_registration: BreakRegistration,
    ctx: RequestContext,
    room: Room,
}

impl Tree {
    /// Restores the opens that [`Tree::save_opens`] has written down in another process, in `within` at most. Called at the start of the
    /// process, before any lane serves requests; a page is for one such start.
    ///
    /// # Errors
    /// [`DamagedPage`]: nothing of it is there then.
    pub fn restore_opens<'a>(
        &'a self,
        page: &'a [u8],
        within: Duration,
    ) -> LocalBoxFuture<'a, Result<RestoredOpens, DamagedPage>> {
        Box::pin(async move {
            let page = SavedPage::read(page).ok_or(DamagedPage)?;
            let until = lane::time::now() + within;
            let now_ms = since_1970_ms(lane::time::wall_clock());
            // A clock that was set back makes nothing of it younger than it was.
            let passed = Duration::from_millis(now_ms.saturating_sub(page.written_ms));
            let mut taken = RestoredOpens::default();
            for record in &page.records {
                let restored = match lane::time::now() < until {
                    true => lane::time::timeout_at(until, self.restore(record, passed)).await,
                    false => Ok(Err(NotRestored::Late)),
                };
                match restored.unwrap_or(Err(NotRestored::Late)) {
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

    async fn restore(&self, record: &OpenRecord, passed: Duration) -> Result<(), NotRestored> {
        let left = record.left.checked_sub(passed).filter(|left| !left.is_zero()).ok_or(NotRestored::Late)?;
        let share = self.share(&record.share).filter(|share| share.name() == record.share);
        let share = share.ok_or(NotRestored::Share)?;
        let before = share.volume().shared().and_then(|volume| volume.opening_before());
        if before != Some(record.opening) {
            return Err(NotRestored::Share);
        }
        let restored = self.restore_grants(&share, record).await?;
        let open = self.open_of(&share, record, restored);
        let opens = self.opens();
        opens.insert(&open);
        if let Some(entry) = &open.replay {
            entry.done(&open);
        }
        self.counters().made(&open);
        if let Some(goes) = self.lane_state().keep_disconnected(&open, left) {
            self.lane_state().closer().close(goes).await;
        }
        Ok(())
    }

    /// Restores the grants and locks of a saved open, if its file is unchanged and its user still may have them.
    async fn restore_grants(
        &self,
        share: &Share,
        record: &OpenRecord,
    ) -> Result<RestoredGrants, NotRestored> {
        let principal = record.recorded_user.principal(&share.options().accounts).ok_or(NotRestored::User)?;
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
        let room = self.opens().room_again(record.volatile, ctx.consumer()).ok_or(NotRestored::Conflict)?;
        let stream = record.stream.as_deref().map(streams::folded).unwrap_or_default();
        let kept = PersistedOpen {
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
        let path = RelPath::parse(&record.path).map_err(|_| NotRestored::Gone)?;
        let (is_changed, break_registration) = (Cell::new(false), Cell::new(None));
        let is_it = |attributes: &vfs::Attributes| {
            is_changed.set(ContentStamp::from(attributes) != record.stamp);
            !is_changed.get()
        };
        let mut tell = |holder: Holder| {
            let break_target = break_target(&room, record);
            break_registration.set(Some(self.opens().register_break_target(
                holder,
                break_target,
                &ctx,
                path,
            )));
        };
        let restored = share.volume().restore_open(&ctx.caller, path, &kept, &is_it, &mut tell).await;
        let grants = restored.map_err(|error| match error {
            _ if is_changed.get() => NotRestored::Changed,
            OpenError::Refused(_) | OpenError::LeaseOfOtherFile(_) => NotRestored::Conflict,
            OpenError::Failed(Error::Denied(_) | Error::ReadOnly) => NotRestored::User,
            OpenError::Failed(_) => NotRestored::Gone,
        })?;
        room.has_ranges(record.locks.len());
        let break_registration = break_registration.into_inner().expect("who is put back has been told of");
        Ok(RestoredGrants { grants, break_registration, ctx, room })
    }

    fn open_of(&self, share: &Share, record: &OpenRecord, restored: RestoredGrants) -> Arc<Open> {
        let RestoredGrants { grants, break_registration, ctx, room } = restored;
        let opens = self.opens();
        let join = |app_instance| opens.app_instances().join(app_instance, record.volatile);
        let state = OpenState {
            stream: record.stream.as_deref().map(Into::into),
            mode: record.mode,
            sticky: record.sticky,
            lock_sequences: Sequences::of_numbers(record.sequences),
            ..OpenState::default()
        };
        Arc::new(Open {
            grants,
            room,
            became: OnceLock::new(),
            by_link: None,
            _break_registration: Some(break_registration),
            _shared_lease_key: None,
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
            app_instance: record.app_instance.map(join),
            // A client that reconnects it begins the sequence anew.
            word: ChannelWord::new(0),
            writes: AtomicU32::new(0),
            position: AtomicU64::new(record.position),
            state: Mutex::new(state),
        })
    }

    /// Returns the open's place among CREATEs that may be replayed.
    fn replay_of(&self, record: &OpenRecord) -> Option<ReplayEntry> {
        if !record.is_replayable || record.create_guid.is_zero() {
            return None;
        }
        match self.opens().replays().look(record.client, record.create_guid) {
            ReplayLookup::First(entry) => Some(entry),
            ReplayLookup::UnderWay | ReplayLookup::Done(_) => None,
        }
    }

    fn count_lost(&self, why: NotRestored) {
        let counters = self.counters();
        let counter = match why {
            NotRestored::Late => &counters.durable_lost_late,
            NotRestored::Gone => &counters.durable_lost_gone,
            NotRestored::Changed => &counters.durable_lost_changed,
            NotRestored::User => &counters.durable_lost_user,
            NotRestored::Share => &counters.durable_lost_share,
            NotRestored::Conflict => &counters.durable_lost_conflict,
        };
        counter.increment();
    }
}

fn wanted(ctx: &RequestContext, record: &OpenRecord) -> RequestedCaching {
    match record.held {
        GrantedCaching::Lease { key, .. } => RequestedCaching::Lease {
            key: lease_key(ctx, key),
            caching: record.caching,
            epoch: record.epoch,
            parent: record.parent,
        },
        GrantedCaching::Oplock | GrantedCaching::Nothing => RequestedCaching::Oplock(record.caching),
    }
}

fn break_target(room: &Room, record: &OpenRecord) -> BreakTarget {
    match record.held {
        GrantedCaching::Lease { key, .. } => BreakTarget::Lease { client: record.client, key },
        GrantedCaching::Oplock | GrantedCaching::Nothing => {
            BreakTarget::Oplock { open: room.id(), session: 0 }
        }
    }
}
