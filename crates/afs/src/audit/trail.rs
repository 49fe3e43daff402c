//! One call on its way: what is known of it so far, recorded when it ends.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::time::Instant;

use afs_wire::Fid;
use service::log::LaneLog;
use service::log::audit::Act;

use super::{Event, Files, Record};

/// A lane's end of the audit log, or none where none is configured.
#[derive(Default)]
pub struct Audit {
    log: Option<RefCell<LaneLog>>,
}

/// The user and client that a call acts for.
#[derive(Clone, Debug)]
pub struct AuditIdentity {
    /// The client.
    pub peer: SocketAddr,
    /// The user's name; empty for anonymous.
    pub user: Box<[u8]>,
    /// The user's AFS number.
    pub user_id: i32,
}

/// Record of a call, written when it ends: by [`Trail::end`], or, where its handler is dropped, as a call
/// that died. Costs nothing where there is no log.
pub struct Trail<'a> {
    inner: Option<TrailInner<'a>>,
}

struct TrailInner<'a> {
    log: &'a RefCell<LaneLog>,
    event: Event,
    who: AuditIdentity,
    begun: Instant,
    code: i32,
    files: Files,
    names: [Box<[u8]>; 2],
    acl: Box<[u8]>,
}

impl Audit {
    /// Creates an audit that writes to this log; without a log it writes nothing.
    pub fn new(log: Option<LaneLog>) -> Self {
        Self { log: log.map(RefCell::new) }
    }

    /// Begins the record of a call; `who` is called where there is a log.
    pub fn begin(&self, event: Event, who: impl FnOnce() -> AuditIdentity) -> Trail<'_> {
        let inner = self.log.as_ref().map(|log| TrailInner {
            log,
            event,
            who: who(),
            begun: lane::time::now(),
            code: DIED,
            files: Files::new(),
            names: Default::default(),
            acl: Box::default(),
        });
        Trail { inner }
    }

    /// Hands over what there is: a quiet server's log is not late.
    pub fn flush(&self) {
        if let Some(log) = &self.log {
            log.borrow_mut().flush();
        }
    }
}

impl Trail<'_> {
    /// Adds a file that the call is about, after those added before.
    #[must_use]
    pub fn of(mut self, fid: Fid) -> Self {
        self.file(fid);
        self
    }

    /// Adds a name in the file added last, which is a directory.
    #[must_use]
    pub fn name(mut self, name: &[u8]) -> Self {
        if let Some(inner) = &mut self.inner {
            let place = inner.files.len().saturating_sub(1);
            if let Some(of_place) = inner.names.get_mut(place) {
                *of_place = name.into();
            }
        }
        self
    }

    /// Adds these files.
    #[must_use]
    pub fn all(mut self, fids: &[Fid]) -> Self {
        if let Some(inner) = &mut self.inner {
            inner.files.extend_from_slice(fids);
        }
        self
    }

    /// Adds a file that became known during the call: what was created.
    pub fn file(&mut self, fid: Fid) {
        if let Some(inner) = &mut self.inner {
            inner.files.push(fid);
        }
    }

    /// Records the access list that is read or set.
    pub fn acl(&mut self, text: &[u8]) {
        if let Some(inner) = &mut self.inner {
            inner.acl = text.into();
        }
    }

    /// Ends the record with the result: 0, or what it is aborted with.
    pub fn end(mut self, code: i32) {
        if let Some(inner) = &mut self.inner {
            inner.code = code;
        }
    }
}

impl Drop for Trail<'_> {
    fn drop(&mut self) {
        let Some(TrailInner { log, event, who, begun, code, files, names, acl }) = self.inner.take() else {
            return;
        };
        let [name, other] = &names;
        let act = Act::ended(begun, code.into(), who.peer, &who.user, who.user_id);
        let record = Record { act, event, files, names: [name, other], acl: &acl };
        let mut log = log.borrow_mut();
        match code {
            0 => log.push(&record),
            _ => log.push_failed(who.peer.ip(), lane::time::now(), &record),
        }
    }
}

/// RX_CALL_DEAD: the client gave up, or went away.
const DIED: i32 = rx::abort::CALL_DEAD;

#[cfg(test)]
mod tests {
    use service::log::{Format, channel};

    use super::*;

    #[test]
    fn a_call_leaves_one_line_whether_it_ends_or_is_dropped() {
        let (log, reader) = channel(1);
        let fid = |vnode| Fid { volume: 9, vnode, uniquifier: 1 };
        let told = lane::runtime::run_here(lane::runtime::RuntimeOptions::default(), async move {
            let audit = Audit::new(Some(log));
            let peer = "192.0.2.7:7001".parse().unwrap();
            let who = || AuditIdentity { peer, user: (*b"alice").into(), user_id: 7 };
            let mut trail = audit.begin(Event::CreateFile, who).of(fid(1)).name(b"new");
            trail.file(fid(2));
            trail.end(0);
            drop(audit.begin(Event::Rename, who).of(fid(1)).name(b"a").of(fid(3)).name(b"b"));
            let mut trail = audit.begin(Event::StoreAcl, who).of(fid(1));
            trail.acl(b"0\n0\n");
            trail.end(13);
            audit.begin(Event::BulkStatus, who).all(&[fid(2), fid(4)]).end(0);
            audit.flush();
            let none = Audit::default();
            none.begin(Event::FetchData, who).of(fid(2)).end(0);
            none.flush();
        });
        told.unwrap();
        let mut lines = Vec::new();
        while reader.read(Format::Text, &mut lines) {}
        let lines = String::from_utf8(lines).unwrap();
        let mut ends = lines.lines().map(|line| line.split_once("EVENT ").unwrap().1.trim_end());
        for wanted in [
            "AFS_SRX_CrFile CODE 0 NAME alice HOST 192.0.2.7 ID 7 FID 9:1:1 STR new FID 9:2:1",
            "AFS_SRX_RNmFile CODE -1 NAME alice HOST 192.0.2.7 ID 7 FID 9:1:1 STR a FID 9:3:1 STR b",
            "AFS_SRX_StACL CODE 13 NAME alice HOST 192.0.2.7 ID 7 FID 9:1:1 ACL 0\\x0A0\\x0A",
            "AFS_SRX_BFchSta CODE 0 NAME alice HOST 192.0.2.7 ID 7 FIDS 2 FID 9:2:1 FID 9:4:1",
        ] {
            assert_eq!(ends.next(), Some(wanted));
        }
        assert_eq!(ends.next(), None);
    }
}
