//! Security descriptors (MS-SMB2 3.3.5.20.3, 3.3.5.21.3), made of what the tree has: the owner's and group's numbers, and the access list
//! that counts; or the one that a file or directory has of its own. One that says what is so is taken, one that a directory's list can
//! hold becomes that, and any other is kept with the file.

use std::collections::BTreeMap;
use std::sync::Arc;

use identity::{Acl, Id, Nearest, Rights, Side};
use smb_wire::Status;
use smb_wire::body::query_info::security_information::{DACL, GROUP, LABEL, OWNER, SACL};
use smb_wire::create::access::expand_generic;
use smb_wire::create::access::rights::{
    DELETE, DELETE_CHILD, FILE_ALL, READ_CONTROL, SYNCHRONIZE, WRITE_DAC, WRITE_OWNER,
};
use smb_wire::info::security::{Ace, Descriptor, Sid, ace_flags, ace_type, control};
use vfs::{Directory, Error, Ownership, Resolved};

use crate::Answer;
use crate::access::Allowed;
use crate::attributes::Info;
use crate::by_name::NamedOpen;
use crate::lane_handle::LaneHandle;
use crate::open::Open;
use crate::request_context::RequestContext;
use crate::share::{Share, ShareOptions};
use crate::status;

impl Share {
    pub(crate) async fn query_security(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        wanted: u32,
        len_max: usize,
    ) -> Result<Answer, Status> {
        //= MS-SMB2 3.3.5.20.3
        //# Owner, group, list and label take READ_CONTROL, the audit list ACCESS_SYSTEM_SECURITY, which no open has.
        if wanted & SACL != 0 || wanted & (OWNER | GROUP | DACL | LABEL) != 0 && !open.may(READ_CONTROL) {
            return Err(Status::ACCESS_DENIED);
        }
        let output = self.descriptor(ctx, open, wanted).await?.to_bytes();
        if output.len() > len_max {
            //= MS-SMB2 3.3.5.20.3
            //# A descriptor that does not fit: STATUS_BUFFER_TOO_SMALL, and how long it is.
            let needed = u32::try_from(output.len()).unwrap_or(u32::MAX);
            return Ok(Answer { status: Status::BUFFER_TOO_SMALL, output: needed.to_le_bytes().into() });
        }
        Ok(Answer { status: Status::SUCCESS, output })
    }

    /// Returns what is so.
    async fn descriptor(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        wanted: u32,
    ) -> Result<Descriptor, Status> {
        let handle = self.handle(ctx, open).await?;
        let info = self.info(&handle, None).await?;
        if let Some(own) = own_of(&handle, open) {
            return Ok(self.part_of(&own, &info, wanted));
        }
        let mut descriptor = Descriptor::default();
        if wanted & OWNER != 0 {
            descriptor.owner = Some(self.owner_of(&info));
        }
        if wanted & GROUP != 0 {
            descriptor.group = Some(self.group_of(&info));
        }
        if wanted & DACL != 0 {
            descriptor.dacl = Some(self.dacl(ctx, open, &info).await?);
            descriptor.control |= control::DACL_AUTO_INHERITED;
        }
        Ok(descriptor)
    }

    /// Returns those parts of a kept descriptor that are asked for.
    fn part_of(&self, own: &Descriptor, info: &Info, wanted: u32) -> Descriptor {
        let of = |bit: u32, sid: Option<Sid>| sid.filter(|_| wanted & bit != 0);
        let owner = of(OWNER, own.owner.or_else(|| Some(self.owner_of(info))));
        let group = of(GROUP, own.group.or_else(|| Some(self.group_of(info))));
        let (control, dacl) = match wanted & DACL {
            0 => (0, None),
            _ => {
                let is_null = if own.dacl.is_none() { control::DACL_PRESENT } else { 0 };
                (own.control | is_null, own.dacl.clone())
            }
        };
        Descriptor { control, owner, group, dacl }
    }

    /// Returns the owner as a list can name it, where the accounts know it.
    fn owner_of(&self, info: &Info) -> Sid {
        self.options().sids.of_user(info.uid, &self.options().accounts)
    }

    fn group_of(&self, info: &Info) -> Sid {
        self.options().sids.of_group(info.gid, &self.options().accounts)
    }

    /// Returns the access list: the nearest list, or where there is none what the mode says.
    async fn dacl(&self, ctx: &RequestContext, open: &Open, info: &Info) -> Result<Vec<Ace>, Status> {
        let directory = self.list_directory(ctx, open, info.is_directory).await?;
        let nearest = directory.access_list(&ctx.caller).await.map_err(status::of)?;
        Ok(match nearest {
            Nearest::List(acl) => self.listed(&acl, info.is_directory),
            Nearest::None => self.moded(info),
            Nearest::Unreadable => Vec::new(),
        })
    }

    /// Returns the directory whose list counts for an open.
    async fn list_directory(
        &self,
        ctx: &RequestContext,
        open: &Open,
        is_directory: bool,
    ) -> Result<Directory, Status> {
        let handle = self.lane_state().handle(open);
        let path = match &handle {
            Some(handle) => self.present_path(open, handle).await,
            None => open.grants().path(self.volume()),
        };
        let path = path.ok_or(Status::FILE_DELETED)?;
        let at = if is_directory { Some(path.as_path()) } else { path.as_path().parent() };
        let at = at.ok_or(Status::FILE_DELETED)?;
        let found = self.volume().lookup_as(&ctx.caller, at, Rights::NONE).await;
        Ok(found.and_then(Resolved::into_directory).map_err(status::of)?.0)
    }

    /// Entries of a list: what is denied stands first, as Windows orders them.
    pub(crate) fn listed(&self, acl: &Acl, is_directory: bool) -> Vec<Ace> {
        let mut aces = Vec::new();
        for (side, kind) in [(Side::Denied, ace_type::ACCESS_DENIED), (Side::Given, ace_type::ACCESS_ALLOWED)]
        {
            for entry in acl.entries(side) {
                // No user here has this SID; a client cannot use it.
                let Some(id) = self.options().accounts.id_of(&entry.who) else { continue };
                let flags = if is_directory { INHERITED_BELOW } else { ace_flags::INHERITED };
                let mask = mask_of(entry.rights, is_directory);
                aces.push(Ace { kind, flags, mask, sid: self.options().sids.of_id(id) });
            }
        }
        aces
    }

    pub(crate) async fn set_security(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        wanted: u32,
        data: &[u8],
    ) -> Result<(), Status> {
        //= MS-SMB2 3.3.5.21.3
        //# The list takes WRITE_DAC, owner and group WRITE_OWNER, the audit list ACCESS_SYSTEM_SECURITY, which no open has.
        if wanted & SACL != 0 {
            return Err(Status::ACCESS_DENIED);
        }
        let needs = if wanted & DACL == 0 { 0 } else { WRITE_DAC }
            | if wanted & (OWNER | GROUP) == 0 { 0 } else { WRITE_OWNER };
        if open.granted_access() & needs != needs {
            return Err(Status::ACCESS_DENIED);
        }
        let asked = Descriptor::parse(data).map_err(|_| Status::INVALID_SECURITY_DESCR)?;
        let handle = self.handle(ctx, open).await?;
        let now = self.descriptor(ctx, open, OWNER | GROUP | DACL).await?;
        // A user of the accounts also has the SID of its POSIX user, in descriptors that clients have kept.
        let other = |asked: Option<Sid>, now: Option<Sid>, bit: u32| {
            let asked = asked.filter(|_| wanted & bit != 0);
            asked.filter(|asked| now.is_none_or(|now| self.plain(asked) != self.plain(&now)))
        };
        let (owner, group) = (other(asked.owner, now.owner, OWNER), other(asked.group, now.group, GROUP));
        // A group that is named gets rights by the list, as an owner does.
        if [owner, group].into_iter().flatten().any(|named| !self.may_own(ctx, &named)) {
            return Err(self.security_refused());
        }
        let has_own = own_of(&handle, open).is_some();
        let is_same_list = wanted & DACL == 0
            || match has_own {
                true => {
                    asked.dacl == now.dacl
                        && self.kept_control(&asked) == now.control & !control::DACL_PRESENT
                }
                false => self.is_same(asked.dacl.as_deref(), now.dacl.as_deref()),
            };
        if owner.is_none() && group.is_none() {
            if is_same_list {
                return Ok(());
            }
            let acl = asked.dacl.as_deref().filter(|_| !has_own).and_then(|aces| self.to_acl(aces));
            if let (Some(acl), true) = (acl, open.is_directory()) {
                let directory = self.list_directory(ctx, open, true).await?;
                match directory.set_access_list(&ctx.by(open), Some(&acl)).await {
                    // The owner of a directory sets its access list, and with nothing else in the list's
                    // reach.
                    Err(Error::Denied(_)) => {}
                    set => return set.map_err(status::of),
                }
            }
        }
        let list = if is_same_list { &now } else { &asked };
        let new = Descriptor {
            control: match is_same_list {
                true => now.control & !control::DACL_PRESENT,
                false => self.kept_control(&asked),
            },
            owner: owner.or(now.owner),
            group: group.or(now.group),
            dacl: list.dacl.as_deref().map(kept_list).transpose()?,
        };
        self.keep_descriptor(ctx, open, &handle, &Arc::new(new)).await
    }

    /// Keeps a descriptor with what is open.
    async fn keep_descriptor(
        &self,
        ctx: &RequestContext,
        open: &Open,
        handle: &LaneHandle,
        descriptor: &Arc<Descriptor>,
    ) -> Result<(), Status> {
        let caller = ctx.by(open);
        if let Some(directory) = handle.directory() {
            return directory.set_descriptor(&caller, descriptor).await.map_err(status::of);
        }
        if handle.link().is_some() {
            return Err(self.security_refused());
        }
        let object = open.grants().object();
        let set = self.by_name(&caller, NamedOpen::of_file(open, handle), async |directory, name| {
            Ok(directory.set_descriptor_of(&caller, name, object, descriptor).await?)
        });
        set.await?;
        //= MS-FSA 2.1.5.17
        //# A file whose descriptor is set has FILE_ATTRIBUTE_ARCHIVE.
        self.archive(ctx, open, handle).await;
        Ok(())
    }

    /// Returns whether the caller may name this owner or group for its files: itself, or one of its groups;
    /// administrators any.
    pub(crate) fn may_own(&self, ctx: &RequestContext, named: &Sid) -> bool {
        let who = &ctx.caller.principal;
        who.is_administrator() || (who.is_user() && self.options().sids.is_called(who, named))
    }

    /// Returns what cannot be held is refused, and counted.
    pub(crate) fn security_refused(&self) -> Status {
        self.counters().security_refused.increment();
        Status::ACCESS_DENIED
    }

    /// Returns the entries as a directory's list, if it can hold them.
    pub(crate) fn to_acl(&self, aces: &[Ace]) -> Option<Acl> {
        let mut all: BTreeMap<(u8, i32), Rights> = BTreeMap::new();
        for ace in aces {
            // What counts only below, or only here, no list can say.
            if ace.flags & !ace_flags::INHERITED != INHERITED_BELOW {
                return None;
            }
            let id = self.options().sids.listed(&ace.sid, &self.options().accounts)?;
            let rights = rights_of(ace.mask)?;
            *all.entry((ace.kind, id.0)).or_insert(Rights::NONE) |= rights;
        }
        let mut acl = Acl::new();
        for ((kind, id), rights) in all {
            let name = self.options().accounts.name_of(Id(id))?;
            let side = if kind == ace_type::ACCESS_DENIED { Side::Denied } else { Side::Given };
            acl.set(side, name.parse().ok()?, rights).ok()?;
        }
        Some(acl)
    }

    /// Returns what is kept of a descriptor's bits. That its list was inherited is so only where that was
    /// asked for, or the share takes it as it is said.
    pub(crate) fn kept_control(&self, of: &Descriptor) -> u16 {
        let said = control::DACL_AUTO_INHERITED;
        let needs = if self.options().keep_inherited { said } else { said | control::DACL_AUTO_INHERIT_REQ };
        let inherited = if of.control & needs == needs { said } else { 0 };
        inherited | (of.control & control::DACL_PROTECTED)
    }

    /// Returns the SID that the user has here.
    fn plain(&self, sid: &Sid) -> Sid {
        let ShareOptions { sids, accounts, .. } = self.options();
        sids.listed(sid, accounts).map_or(*sid, |id| sids.of_id(id))
    }

    /// Returns whether both lists say the same, in whatever order and however inherited.
    pub(crate) fn is_same(&self, a: Option<&[Ace]>, b: Option<&[Ace]>) -> bool {
        let entry = |ace: &Ace| (ace.kind, expand_generic(ace.mask), self.plain(&ace.sid).to_string());
        let sorted = |aces: &[Ace]| {
            let mut all: Vec<_> = aces.iter().map(entry).collect();
            all.sort();
            all
        };
        match (a, b) {
            (Some(a), Some(b)) => sorted(a) == sorted(b),
            (a, b) => a.is_none() && b.is_none(),
        }
    }

    /// Returns the entries that the mode gives owner, group and all others.
    fn moded(&self, info: &Info) -> Vec<Ace> {
        let of = |shift: u32, sid: Sid| {
            let bits = info.mode >> shift & 7;
            let mut rights = Rights::NONE;
            if bits & 4 != 0 {
                rights |= Rights::READ | Rights::LOOKUP;
            }
            if bits & 2 != 0 {
                rights |= Rights::WRITE | Rights::INSERT | Rights::DELETE;
            }
            if shift == 6 {
                rights |= Rights::ADMINISTER | Rights::LOOKUP;
            }
            let mask = mask_of(rights, info.is_directory);
            Ace { kind: ace_type::ACCESS_ALLOWED, flags: 0, mask, sid }
        };
        vec![of(6, self.owner_of(info)), of(3, self.group_of(info)), of(0, Sid::EVERYONE)]
    }
}

/// Returns the descriptor that what is open has of its own; links have none.
fn own_of(handle: &LaneHandle, open: &Open) -> Option<Arc<Descriptor>> {
    open.grants().object().descriptor().filter(|_| handle.link().is_none())
}

/// Returns what is kept of a list: generic rights are what they mean, but where they wait for what is below.
///
/// # Errors
/// `STATUS_INVALID_SECURITY_DESCR` for one that is too long.
pub(crate) fn kept_list(aces: &[Ace]) -> Result<Vec<Ace>, Status> {
    if aces.len() > smb_sid::ENTRIES_MAX {
        return Err(Status::INVALID_SECURITY_DESCR);
    }
    let kept = |ace: &Ace| match ace.flags & ace_flags::INHERIT_ONLY {
        0 => Ace { mask: expand_generic(ace.mask), ..*ace },
        _ => *ace,
    };
    Ok(aces.iter().map(kept).collect())
}

/// Returns the rights of a list as a mask.
fn mask_of(rights: Rights, is_directory: bool) -> u32 {
    let traverse = if rights.contains(Rights::LOOKUP) { Rights::TRAVERSE } else { Rights::NONE };
    let (own, above) = (rights | traverse, Some(rights));
    let (is_administrator, is_user, ownership) = (false, false, Ownership::Others);
    Allowed { own, above, is_directory, is_administrator, is_user, ownership, granted: None }.mask()
}

/// Returns the rights that a mask means in a directory, if there are such: what a list says more than the mask, or
/// less, is another meaning.
fn rights_of(mask: u32) -> Option<Rights> {
    let mask = expand_generic(mask);
    if mask & FILE_ALL == FILE_ALL {
        return Some(Rights::ALL);
    }
    let loose = SYNCHRONIZE | READ_CONTROL | DELETE | DELETE_CHILD;
    let mut rights = Rights::NONE;
    for right in [Rights::READ, Rights::LOOKUP, Rights::INSERT, Rights::WRITE, Rights::ADMINISTER] {
        let means = mask_of(right, true) & !loose;
        if means & !mask == 0 && means != 0 {
            rights |= right;
        }
    }
    if rights.contains(Rights::LOOKUP) {
        rights |= Rights::READ;
    }
    if rights.contains(Rights::WRITE) {
        rights |= Rights::LOCK;
    }
    if mask & (DELETE | DELETE_CHILD) != 0 {
        rights |= Rights::DELETE;
    }
    let means = mask_of(rights, true);
    ((mask & !loose & !WRITE_OWNER) & !means == 0 && !rights.is_empty()).then_some(rights)
}

/// Files and directories below inherit it.
const INHERITED_BELOW: u8 = ace_flags::OBJECT_INHERIT | ace_flags::CONTAINER_INHERIT;
