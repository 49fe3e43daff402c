//! Files of `root.afs` and `root.cell` where these are made up. Clients hold callbacks of them as of all others: when
//! they change, all callbacks of every host become void.

use afs_wire::code::{VNOVNODE, VNOVOL};
use afs_wire::rxafs::{FetchACL, GetVolumeStatus};
use afs_wire::{CALL_BACK_SHARED, CALL_BACK_VERSION, CallBack, Fid, VolumeStatus};
use identity::{Acl, Rights, Side, Who};

use super::access::text_of;
use super::call_context::Reply;
use super::fetch_data::FetchContent;
use super::status_and_callback::StatusAndCallback;
use super::{Call, CallFailure, ServedCall};
use crate::fid;
use crate::roots::{self, RootFile};

impl ServedCall {
    /// Returns the status and callback of a file that is made up, and its content; `None` of any other file.
    pub(super) async fn synthetic(
        &self,
        call: &Call,
        fid: Fid,
    ) -> Result<Option<(StatusAndCallback, FetchContent)>, CallFailure> {
        if !roots::has_number(fid.volume) {
            return Ok(None);
        }
        // A client that is a host before the look is notified when what was seen becomes void.
        self.host(call).await?;
        let roots = self.server.inner.attached.borrow().synthetic().now();
        let root = roots.by_id(fid.volume).ok_or(VNOVOL)?;
        let file = root.file(fid::number(fid)).ok_or(VNOVNODE)?;
        let promise = self.server.inner.hosts.promise();
        let call_back =
            CallBack { version: CALL_BACK_VERSION, expires: promise.seconds, r#type: CALL_BACK_SHARED };
        let content = match file {
            RootFile::Directory(directory) => FetchContent::Directory(directory.clone()),
            RootFile::Link(target) => FetchContent::Link(target.as_bytes().to_vec()),
        };
        Ok(Some((StatusAndCallback { status: root.status(file), call_back }, content)))
    }

    /// Returns what `fs listacl` shows of a synthetic directory: every client may read it, none may do more.
    pub(super) async fn synthetic_acl(
        &self,
        call: &Call,
        fid: Fid,
    ) -> Result<Option<Reply<FetchACL>>, CallFailure> {
        let Some((found, _)) = self.synthetic(call, fid).await? else { return Ok(None) };
        let mut acl = Acl::new();
        let anyone: Who = "system:anyuser".parse().expect("it names somebody");
        acl.set(Side::Given, anyone, Rights::READER).expect("a list has room for one");
        let access_list = (text_of(&acl) + "\0").into_bytes().into();
        Ok(Some(Reply::<FetchACL> { access_list, status: found.status, sync: self.sync(call) }))
    }

    /// Returns what `fs examine` shows of one.
    pub(super) fn synthetic_volume(&self, id: u32) -> Result<Option<Reply<GetVolumeStatus>>, CallFailure> {
        if !roots::has_number(id) {
            return Ok(None);
        }
        let roots = self.server.inner.attached.borrow().synthetic().now();
        let root = roots.by_id(id).ok_or(VNOVOL)?;
        let known = root.known();
        let kibibytes = i32::try_from(root.bytes() >> 10).unwrap_or(i32::MAX);
        let status = VolumeStatus {
            id: id as i32,
            parent_id: known.first as i32,
            online: 1,
            in_service: 1,
            blessed: 1,
            blocks_in_use: kibibytes,
            partition_blocks: kibibytes,
            ..VolumeStatus::default()
        };
        Ok(Some(Reply::<GetVolumeStatus> {
            status,
            name: known.name.as_bytes().to_vec().into(),
            offline_message: Vec::new().into(),
            message_of_the_day: Vec::new().into(),
        }))
    }
}
