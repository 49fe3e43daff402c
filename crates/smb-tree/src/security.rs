//! Security descriptors (MS-SMB2 3.3.5.20.3, 3.3.5.21.3), made of what the tree has: the owner's and group's numbers, and the access list
//! that counts. One that says what is so is taken; any other only where a directory's list can hold it.

use std::collections::BTreeMap;
use std::sync::Arc;

use identity::{Acl, Id, Nearest, Rights, Side};
use smb_sid::Sids;
use smb_wire::Status;
use smb_wire::body::query_info::security_information::{DACL, GROUP, OWNER};
use smb_wire::create::access::expand_generic;
use smb_wire::create::access::rights::{
    DELETE, DELETE_CHILD, FILE_ALL, READ_CONTROL, SYNCHRONIZE, WRITE_DAC, WRITE_OWNER,
};
use smb_wire::info::security::{Ace, Descriptor, Sid, ace_flags, ace_type, control};
use vfs::{Directory, Resolved};

use crate::Answer;
use crate::access::Allowed;
use crate::asker::Asker;
use crate::attributes::Info;
use crate::open::Open;
use crate::share::Share;
use crate::status;

impl Share {
    pub(crate) async fn query_security(
        &self,
        asker: &Asker,
        open: &Arc<Open>,
        wanted: u32,
        len_max: usize,
    ) -> Result<Answer, Status> {
        //= MS-SMB2 3.3.5.20.3
        //# Owner, group and list take READ_CONTROL.
        if wanted & (OWNER | GROUP | DACL) != 0 && !open.may(READ_CONTROL) {
            return Err(Status::ACCESS_DENIED);
        }
        let output = self.descriptor(asker, open, wanted).await?.to_bytes();
        if output.len() > len_max {
            //= MS-SMB2 3.3.5.20.3
            //# A descriptor that does not fit: STATUS_BUFFER_TOO_SMALL, and how long it is.
            return Err(Status::BUFFER_TOO_SMALL);
        }
        Ok(Answer { status: Status::SUCCESS, output })
    }

    /// What is so.
    async fn descriptor(&self, asker: &Asker, open: &Arc<Open>, wanted: u32) -> Result<Descriptor, Status> {
        let hand = self.hand(asker, open).await?;
        let info = self.info(&hand, None).await?;
        let mut descriptor = Descriptor::default();
        if wanted & OWNER != 0 {
            descriptor.owner = Some(Sids::of_uid(info.uid));
        }
        if wanted & GROUP != 0 {
            descriptor.group = Some(Sids::of_gid(info.gid));
        }
        if wanted & DACL != 0 {
            descriptor.dacl = Some(self.dacl(asker, open, &info).await?);
            descriptor.control |= control::DACL_AUTO_INHERITED;
        }
        Ok(descriptor)
    }

    /// Who may do what: the nearest list, or where there is none what the mode says.
    async fn dacl(&self, asker: &Asker, open: &Open, info: &Info) -> Result<Vec<Ace>, Status> {
        let directory = self.list_directory(asker, open, info.is_directory).await?;
        let nearest = directory.access_list(&asker.caller).await.map_err(status::of)?;
        Ok(match nearest {
            Nearest::List(acl) => self.listed(&acl, info.is_directory),
            Nearest::None => moded(info),
            Nearest::Unreadable => Vec::new(),
        })
    }

    /// The directory whose list counts for an open.
    async fn list_directory(
        &self,
        asker: &Asker,
        open: &Open,
        is_directory: bool,
    ) -> Result<Directory, Status> {
        let path = open.grants().path(self.volume()).ok_or(Status::FILE_DELETED)?;
        let at = if is_directory { Some(path.as_path()) } else { path.as_path().parent() };
        let at = at.ok_or(Status::FILE_DELETED)?;
        let found = self.volume().lookup_as(&asker.caller, at, Rights::NONE).await;
        Ok(found.and_then(Resolved::into_directory).map_err(status::of)?.0)
    }

    /// Entries of a list: what is denied stands first, as Windows orders them.
    fn listed(&self, acl: &Acl, is_directory: bool) -> Vec<Ace> {
        let mut aces = Vec::new();
        for (side, kind) in [(Side::Denied, ace_type::ACCESS_DENIED), (Side::Given, ace_type::ACCESS_ALLOWED)]
        {
            for entry in acl.entries(side) {
                // Nobody here is called so; who it is means nothing to a client.
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
        asker: &Asker,
        open: &Arc<Open>,
        wanted: u32,
        data: &[u8],
    ) -> Result<(), Status> {
        //= MS-SMB2 3.3.5.21.3
        //# The list takes WRITE_DAC, owner and group WRITE_OWNER.
        let needs = if wanted & DACL == 0 { 0 } else { WRITE_DAC }
            | if wanted & (OWNER | GROUP) == 0 { 0 } else { WRITE_OWNER };
        if open.granted_access() & needs != needs {
            return Err(Status::ACCESS_DENIED);
        }
        let asked = Descriptor::parse(data).map_err(|_| Status::INVALID_SECURITY_DESCR)?;
        let now = self.descriptor(asker, open, wanted).await?;
        let refused = || {
            self.counters().security_refused.increment();
            Status::ACCESS_DENIED
        };
        let changes_owner = wanted & OWNER != 0 && asked.owner.is_some() && asked.owner != now.owner;
        let changes_group = wanted & GROUP != 0 && asked.group.is_some() && asked.group != now.group;
        if changes_owner || changes_group {
            return Err(refused());
        }
        if wanted & DACL == 0 || is_same(asked.dacl.as_deref(), now.dacl.as_deref()) {
            return Ok(());
        }
        let acl = asked.dacl.as_deref().and_then(|aces| self.to_acl(aces));
        let (Some(acl), true) = (acl, open.is_directory()) else { return Err(refused()) };
        let directory = self.list_directory(asker, open, true).await?;
        directory.set_access_list(&asker.by(open), Some(&acl)).await.map_err(status::of)
    }

    /// The entries as a directory's list, if it can hold them.
    fn to_acl(&self, aces: &[Ace]) -> Option<Acl> {
        let mut all: BTreeMap<(u8, i32), Rights> = BTreeMap::new();
        for ace in aces {
            // What counts only below, or only here, no list can say.
            if ace.flags & (ace_flags::INHERIT_ONLY | ace_flags::NO_PROPAGATE_INHERIT) != 0 {
                return None;
            }
            let id = self.options().sids.id_of(&ace.sid)?;
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
}

/// Whether both lists say the same, in whatever order and however inherited.
fn is_same(a: Option<&[Ace]>, b: Option<&[Ace]>) -> bool {
    let sorted = |aces: &[Ace]| {
        let mut all: Vec<_> =
            aces.iter().map(|ace| (ace.kind, expand_generic(ace.mask), ace.sid.to_string())).collect();
        all.sort();
        all
    };
    match (a, b) {
        (Some(a), Some(b)) => sorted(a) == sorted(b),
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// Rights of a list as a mask.
fn mask_of(rights: Rights, is_directory: bool) -> u32 {
    let traverse = if rights.contains(Rights::LOOKUP) { Rights::TRAVERSE } else { Rights::NONE };
    let allowed =
        Allowed { own: rights | traverse, above: Some(rights), is_directory, is_administrator: false };
    allowed.mask()
}

/// The rights that a mask means in a directory, if there are such: what a list says more than the mask, or less, is another meaning.
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

/// What the mode says, of owner, group and everybody.
fn moded(info: &Info) -> Vec<Ace> {
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
    vec![of(6, Sids::of_uid(info.uid)), of(3, Sids::of_gid(info.gid)), of(0, Sid::EVERYONE)]
}

/// Files and directories below inherit it.
const INHERITED_BELOW: u8 = ace_flags::OBJECT_INHERIT | ace_flags::CONTAINER_INHERIT;
