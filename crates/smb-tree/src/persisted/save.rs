//! Saves durable opens when the last lane of the process ends.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::LocalBoxFuture;
use grants::Kind;
use vfs::{Attributes, Resolved};

use super::PageWriter;
use super::record::{ContentStamp, OpenRecord, RecordedUser};
use crate::breaks::GrantedCaching;
use crate::open::Open;
use crate::tree::Tree;

/// The saved opens for the next server, and how many there are.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SavedOpens {
    /// Page for [`Tree::restore_opens`]; `None` where there is nothing to be kept.
    pub page: Option<Vec<u8>>,
    /// Opens in it.
    pub kept: usize,
    /// Durable opens that are lost: their files cannot be looked at any more, or there is no room or time for them.
    pub left_out: usize,
}

impl Tree {
    /// Saves the durable opens of the process, with a session or without, in `within` at most, and releases all opens with their
    /// files and grants. Called at the end of the process, when no lane serves requests any more.
    pub fn save_opens<'a>(&'a self, within: Duration) -> LocalBoxFuture<'a, SavedOpens> {
        Box::pin(async move {
            let until = lane::time::now() + within;
            let opens = self.opens().all();
            let mut down = SavedOpens::default();
            let mut page = PageWriter::new(since_1970_ms(lane::time::wall_clock()));
            for open in opens.iter().filter(|open| open.outlives_session()) {
                let record = match lane::time::now() < until {
                    true => lane::time::timeout_at(until, self.record_of(open)).await.ok().flatten(),
                    false => None,
                };
                match record.is_some_and(|record| page.push(&record)) {
                    true => down.kept += 1,
                    false => down.left_out += 1,
                }
            }
            for open in opens {
                self.opens().disconnected().claim(&open);
                self.lane_state().forget_open(&open);
            }
            self.counters().durable_kept.add(down.kept as u64);
            down.page = (down.kept > 0).then(|| page.out.into_bytes());
            down
        })
    }

    async fn record_of(&self, open: &Arc<Open>) -> Option<OpenRecord> {
        if open.by_link.is_some() {
            // The record has no room for the link: a reconnected client would delete what it leads to.
            return None;
        }
        let share = self.share(open.share_name())?;
        let volume = share.volume();
        let opening = volume.shared().filter(|shared| shared.trouble().is_none())?.opening()?;
        if open.is_writing() {
            // What a request that was given up has written is part of the file that is looked at.
            lane::time::timeout(WRITTEN_WITHIN, open.grants().settled(volume)).await.ok()?.ok()?;
        }
        let path = open.grants().path(volume)?;
        let object = open.grants().object();
        let attributes = loop {
            let now = lane::time::wall_clock();
            let found = volume.lookup_as(&open.made_by.caller, path.as_path(), identity::Rights::NONE).await;
            match found.ok()? {
                it if it.object().is_none_or(|it| !Arc::ptr_eq(it, object)) => return None,
                Resolved::Directory(..) => return None,
                Resolved::File(_, attributes) if is_settled(&attributes, now) => break attributes,
                Resolved::File(..) => lane::time::sleep(LOOK_AGAIN).await,
            }
        };
        let standing = open.grants().standing();
        let timeout = open.durability?.timeout;
        let left = self.opens().disconnected().left(open, lane::time::now());
        let state = open.state();
        Some(OpenRecord {
            volatile: open.id().volatile.get(),
            recorded_user: RecordedUser::of(&open.made_by.caller.principal)?,
            client: open.client(),
            address: open.address(),
            dialect: open.made_by.dialect,
            posix: open.made_by.posix,
            share: open.share_name().to_owned(),
            opening,
            words: object.lasting_words(),
            path: path.as_path().as_bytes().to_vec(),
            stamp: ContentStamp::from(&attributes),
            stream: open.stream().map(|stream| stream.to_string()),
            access: open.access,
            maximal_access: open.maximal_access,
            share_access: open.share_access,
            options: open.options,
            is_exact: open.case == crate::names::Case::Exact,
            action: open.action,
            allocation: open.allocation,
            held: Some(open.held).filter(|held| *held != GrantedCaching::Nothing)?,
            caching: standing.caching,
            epoch: match standing.kind? {
                Kind::Lease { epoch } => epoch.map(|_| standing.epoch),
                Kind::Oplock => None,
            },
            parent: open.grants().parent_key(),
            timeout,
            left: left.unwrap_or(timeout).min(timeout),
            create_guid: open.create_guid,
            is_replayable: open.replay.as_ref().is_some_and(|entry| !entry.has_ended()),
            app_instance: open.app_instance.as_ref().map(|member| member.app_instance),
            locks: open.locked(),
            sequences: state.lock_sequences.numbers(),
            position: open.position(),
            mode: state.mode,
            sticky: state.sticky,
        })
    }
}

/// Returns whether any further change has another time.
fn is_settled(attributes: &Attributes, now: SystemTime) -> bool {
    Attributes { mtime: attributes.ctime, ..*attributes }.is_settled(now)
}

pub(super) fn since_1970_ms(at: SystemTime) -> u64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Time for each file that the kernel still writes to.
const WRITTEN_WITHIN: Duration = Duration::from_millis(300);
/// Pause until a file's clock has moved on: a fraction of its tick.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
