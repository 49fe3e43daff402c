//! Security identifiers of users and groups (MS-DTYP 2.4.2): in the descriptors of files and in the answers
//! of `lsarpc`. The one owner of that rule; it is arithmetic, and nothing is stored.
//!
//! | who | identifier |
//! |---|---|
//! | the accounts as a whole | `S-1-5-21-a-b-c`, of the server's name |
//! | a user or group of the accounts | that, and its AFS number + 999 (mod 2³²) |
//! | `system:administrators`, `system:anyuser`, `system:authuser`, anonymous | `S-1-5-32-544`, `S-1-1-0`, `S-1-5-11`, `S-1-5-7` |
//! | a POSIX user or group that no account maps to | `S-1-22-1-uid`, `S-1-22-2-gid`, as Samba calls them |

pub use self::inherit::{ENTRIES_MAX, inherited};
pub use self::judge::{mends, rights_of};

mod inherit;
mod judge;
pub mod ntacl;

use aws_lc_rs::digest::{SHA256, digest};
use identity::{Accounts, Id, Owner};
use smb_wire::info::security::Sid;

/// Difference between an AFS number and the last part of an identifier. Users begin at 1 and groups at -1000,
/// so that they come to 1000 upwards and 2³²-1 downwards: below 1000 are those that Windows knows by itself,
/// and neither meets the other.
const RID_FIRST: u32 = 999;

/// The domain of POSIX users and groups.
const UNIX: u64 = 22;

/// POSIX's user of files without a known owner.
const NOBODY: u32 = 65534;

/// Numbers that have an identifier of their own everywhere, which no domain gives.
const WELL_KNOWN: [(Id, WellKnown); 4] = [
    (
        Id::ADMINISTRATORS,
        WellKnown { domain: "BUILTIN", name: "Administrators", authority: 5, sub: &[32, 544] },
    ),
    (Id::ANYUSER, WellKnown { domain: "", name: "Everyone", authority: 1, sub: &[0] }),
    (
        Id::AUTHUSER,
        WellKnown { domain: "NT AUTHORITY", name: "Authenticated Users", authority: 5, sub: &[11] },
    ),
    (Id::ANONYMOUS, WellKnown { domain: "NT AUTHORITY", name: "Anonymous Logon", authority: 5, sub: &[7] }),
];

struct WellKnown {
    domain: &'static str,
    name: &'static str,
    authority: u64,
    sub: &'static [u32],
}

impl WellKnown {
    fn sid(&self) -> Sid {
        Sid::new(self.authority, self.sub).expect("two at most")
    }
}

/// Kind of a user or group, as `lsarpc` tells it (MS-LSAT 2.2.13, SID_NAME_USE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// A user.
    User = 1,
    /// A group of a domain.
    Group = 2,
    /// A domain itself.
    Domain = 3,
    /// A group of this server.
    Alias = 4,
    /// A group that exists everywhere.
    WellKnownGroup = 5,
    /// An unknown identifier.
    Unknown = 8,
}

/// The name of a user or group, and its domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The domain's name; empty where there is none.
    pub domain: String,
    /// The domain's identifier: the identifier without its last part.
    pub domain_sid: Sid,
    /// The name in that domain.
    pub name: String,
    /// The identifier.
    pub sid: Sid,
    /// Kind of the named one.
    pub kind: Kind,
}

/// The identifiers of one server.
#[derive(Clone, Debug)]
pub struct Sids {
    domain: Sid,
    name: Box<str>,
}

impl Sids {
    /// Creates the identifiers of the server of that name; case does not matter.
    ///
    /// The same name gives the same identifiers after a restart and on another machine, so that descriptors that
    /// clients keep go on meaning the same.
    pub fn new(server_name: &str) -> Self {
        let name = server_name.to_uppercase();
        let hash = digest(&SHA256, format!("account domain of {name}").as_bytes());
        let part = |at: usize| u32::from_le_bytes(hash.as_ref()[at..at + 4].try_into().expect("four bytes"));
        let domain = Sid::new(5, &[21, part(0), part(4), part(8)]).expect("four parts");
        Self { domain, name: name.into() }
    }

    /// Returns the identifier of the accounts as a whole.
    pub fn domain(&self) -> Sid {
        self.domain
    }

    /// Returns the name of the accounts as a whole: the server's, in capitals.
    pub fn domain_name(&self) -> &str {
        &self.name
    }

    /// Returns the identifier of a user or group.
    pub fn of_id(&self, id: Id) -> Sid {
        if let Some((_, known)) = WELL_KNOWN.iter().find(|(known, _)| *known == id) {
            return known.sid();
        }
        let rid = (id.0 as u32).wrapping_add(RID_FIRST);
        joined(&self.domain, rid).expect("a domain has four parts")
    }

    /// Returns the number of the identifier; `None`: no user or group of this server's accounts can have it.
    pub fn id_of(&self, sid: &Sid) -> Option<Id> {
        if let Some((id, _)) = WELL_KNOWN.iter().find(|(_, known)| known.sid() == *sid) {
            return Some(*id);
        }
        let (domain, rid) = split(sid)?;
        // Windows' own have no number here: 500 is no user's.
        let id = (domain == self.domain && rid > RID_FIRST).then(|| Id(rid.wrapping_sub(RID_FIRST) as i32));
        id.filter(|id| *id != Id::ANONYMOUS)
    }

    /// Returns the identifier of a POSIX user.
    pub fn of_uid(uid: u32) -> Sid {
        Sid::new(UNIX, &[1, uid]).expect("two parts")
    }

    /// Returns the identifier of a POSIX group.
    pub fn of_gid(gid: u32) -> Sid {
        Sid::new(UNIX, &[2, gid]).expect("two parts")
    }

    /// Returns the identifier of the account of a POSIX user, which a list can name; else the POSIX user's
    /// own.
    pub fn of_user(&self, uid: u32, accounts: &Accounts) -> Sid {
        accounts.user_of_uid(uid).map_or_else(|| Self::of_uid(uid), |id| self.of_id(id))
    }

    /// Returns the identifier of a group ([`Sids::of_user`]).
    pub fn of_group(&self, gid: u32, accounts: &Accounts) -> Sid {
        accounts.group_of_gid(gid).map_or_else(|| Self::of_gid(gid), |id| self.of_id(id))
    }

    /// Returns the account that a list names by this identifier, also as its POSIX user or group.
    pub fn listed(&self, sid: &Sid, accounts: &Accounts) -> Option<Id> {
        let user = || Self::uid_of(sid).and_then(|uid| accounts.user_of_uid(uid));
        let group = || Self::gid_of(sid).and_then(|gid| accounts.group_of_gid(gid));
        self.id_of(sid).or_else(user).or_else(group)
    }

    /// Returns the POSIX user of an identifier.
    pub fn uid_of(sid: &Sid) -> Option<u32> {
        unix(sid).and_then(|(kind, id)| (kind == 1).then_some(id))
    }

    /// Returns the POSIX group that is called so.
    pub fn gid_of(sid: &Sid) -> Option<u32> {
        unix(sid).and_then(|(kind, id)| (kind == 2).then_some(id))
    }

    /// Returns the owner of a file: the account, else the POSIX user.
    pub fn of_owner(&self, owner: &Owner) -> Sid {
        match owner.recorded {
            Some(id) => self.of_id(id),
            None => Self::of_uid(owner.uid.unwrap_or(NOBODY)),
        }
    }

    /// Returns the name of an identifier: what a client shows in place of the identifier. `None`: unknown.
    pub fn named(&self, sid: &Sid, accounts: &Accounts) -> Option<Named> {
        let (domain_sid, _) = split(sid).unwrap_or((*sid, 0));
        let named = |domain: &str, domain_sid, name: String, kind| {
            Some(Named { domain: domain.to_owned(), domain_sid, name, sid: *sid, kind })
        };
        if *sid == self.domain {
            return named(&self.name, self.domain, String::new(), Kind::Domain);
        }
        if let Some((kind, id)) = unix(sid) {
            let (domain, kind) = match kind {
                1 => ("Unix User", Kind::User),
                _ => ("Unix Group", Kind::Group),
            };
            return named(domain, domain_sid, id.to_string(), kind);
        }
        let id = self.id_of(sid)?;
        if let Some((_, known)) = WELL_KNOWN.iter().find(|(known, _)| *known == id) {
            let kind = if known.domain == "BUILTIN" { Kind::Alias } else { Kind::WellKnownGroup };
            return named(known.domain, domain_sid, known.name.to_owned(), kind);
        }
        let kind = if id.0 > 0 { Kind::User } else { Kind::Alias };
        accounts.name_of(id).and_then(|name| named(&self.name, self.domain, name.to_owned(), kind))
    }

    /// Returns the identifier of `NAME`, `DOMAIN\NAME` or `NAME@DOMAIN`, as a client writes it; case does not
    /// matter, for none of our users has capitals. `None`: unknown.
    pub fn find(&self, text: &str, accounts: &Accounts) -> Option<Named> {
        let (domain, name) = match (text.split_once('\\'), text.rsplit_once('@')) {
            (Some((domain, name)), _) | (None, Some((name, domain))) => (domain, name),
            (None, None) => ("", text),
        };
        let same = |a: &str, b: &str| a.to_lowercase() == b.to_lowercase();
        let is_known =
            |known: &WellKnown| same(known.name, name) && (domain.is_empty() || same(known.domain, domain));
        if let Some((_, known)) = WELL_KNOWN.iter().find(|(_, known)| is_known(known)) {
            return self.named(&known.sid(), accounts);
        }
        if let Some(sid) = unix_named(domain, name) {
            return self.named(&sid, accounts);
        }
        if !domain.is_empty() && !same(domain, &self.name) {
            return None;
        }
        if same(name, &self.name) && domain.is_empty() {
            return self.named(&self.domain, accounts);
        }
        let who = identity::Who::new(&name.to_lowercase(), "").ok()?;
        self.named(&self.of_id(accounts.id_of(&who)?), accounts)
    }
}

/// Returns what a server is called that was given no name: the first part of this machine's, in capitals, of
/// at most 15 characters.
pub fn machine_name() -> String {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let is_of_name = |c: &char| c.is_ascii_alphanumeric() || *c == '-';
    let short: String = machine.trim().chars().take_while(is_of_name).take(15).collect();
    if short.is_empty() { "LINERATE".to_owned() } else { short.to_uppercase() }
}

/// Returns an identifier below a domain's.
fn joined(domain: &Sid, rid: u32) -> Option<Sid> {
    Sid::new(domain.authority(), &[domain.sub_authorities(), &[rid]].concat())
}

/// Splits an identifier into that of its domain and the last part.
fn split(sid: &Sid) -> Option<(Sid, u32)> {
    let (rid, domain) = sid.sub_authorities().split_last()?;
    Some((Sid::new(sid.authority(), domain)?, *rid))
}

/// Returns the kind, POSIX user (1) or group (2), and its number.
fn unix(sid: &Sid) -> Option<(u32, u32)> {
    match (sid.authority(), sid.sub_authorities()) {
        (UNIX, [kind @ 1..=2, id]) => Some((*kind, *id)),
        _ => None,
    }
}

fn unix_named(domain: &str, name: &str) -> Option<Sid> {
    let id = name.parse().ok()?;
    match domain.to_lowercase().as_str() {
        "unix user" => Some(Sids::of_uid(id)),
        "unix group" => Some(Sids::of_gid(id)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn accounts() -> std::sync::Arc<Accounts> {
        Accounts::parse(
            "version = 1\n[user.alice]\nid = 1000\n[user.bob]\nid = 7\n[group.staff]\nid = -1000\n",
        )
        .unwrap()
    }

    #[test]
    fn identifiers_stay_what_they_were() {
        let sids = Sids::new("files");
        assert_eq!(sids.domain(), Sids::new("FILES").domain());
        assert_ne!(sids.domain(), Sids::new("files2").domain());
        let domain = sids.domain().to_string();
        // Descriptors lie in clients' archives: another value here would leave their files without an owner.
        assert_eq!(domain, "S-1-5-21-3816597219-1506872087-4254144403");
        for (id, text) in [
            (Id(1), format!("{domain}-1000")),
            (Id(1000), format!("{domain}-1999")),
            (Id(-1000), format!("{domain}-4294967295")),
            (Id(i32::MAX), format!("{domain}-2147484646")),
            (Id(i32::MIN), format!("{domain}-2147484647")),
            (Id::ADMINISTRATORS, "S-1-5-32-544".to_owned()),
            (Id::ANYUSER, "S-1-1-0".to_owned()),
            (Id::AUTHUSER, "S-1-5-11".to_owned()),
            (Id::ANONYMOUS, "S-1-5-7".to_owned()),
        ] {
            assert_eq!(sids.of_id(id).to_string(), text);
            assert_eq!(sids.id_of(&sids.of_id(id)), Some(id));
        }
    }

    #[test]
    fn what_is_not_ours_is_nobodys() {
        let sids = Sids::new("files");
        let below = |rid| joined(&sids.domain(), rid).unwrap();
        for sid in [
            sids.domain(),
            below(500),
            below(999),
            below(999 + Id::ANONYMOUS.0 as u32),
            Sids::new("other").of_id(Id(1)),
            Sids::of_uid(1000),
            Sid::CREATOR_OWNER,
            Sid::new(5, &[]).unwrap(),
        ] {
            assert_eq!(sids.id_of(&sid), None, "{sid}");
        }
    }

    #[test]
    fn posix_users_are_called_as_samba_calls_them() {
        assert_eq!(Sids::of_uid(1000).to_string(), "S-1-22-1-1000");
        assert_eq!((Sids::uid_of(&Sids::of_uid(7)), Sids::gid_of(&Sids::of_uid(7))), (Some(7), None));
        assert_eq!((Sids::gid_of(&Sids::of_gid(7)), Sids::uid_of(&Sids::of_gid(7))), (Some(7), None));
        let sids = Sids::new("files");
        let owner = |uid, recorded| sids.of_owner(&Owner { uid, recorded });
        assert_eq!(owner(Some(5), Some(Id(9))), sids.of_id(Id(9)));
        assert_eq!(owner(Some(5), None), Sids::of_uid(5));
        assert_eq!(owner(None, None), Sids::of_uid(65534));
    }

    #[test]
    fn whom_the_accounts_know_is_called_by_his_number_there_and_understood_as_posix_user_too() {
        let text = "version = 1\n[user.alice]\nid = 1000\nuid = 501\n[group.staff]\nid = -1000\ngid = 50\n";
        let (sids, accounts) = (Sids::new("files"), Accounts::parse(text).unwrap());
        assert_eq!(sids.of_user(501, &accounts), sids.of_id(Id(1000)));
        assert_eq!(sids.of_group(50, &accounts), sids.of_id(Id(-1000)));
        assert_eq!(sids.of_user(502, &accounts), Sids::of_uid(502));
        assert_eq!(sids.of_group(501, &accounts), Sids::of_gid(501), "a user is no group");
        for (sid, who) in [
            (sids.of_id(Id(1000)), Some(Id(1000))),
            (Sids::of_uid(501), Some(Id(1000))),
            (Sids::of_gid(50), Some(Id(-1000))),
            (Sids::of_uid(50), None),
            (Sid::EVERYONE, Some(Id::ANYUSER)),
        ] {
            assert_eq!(sids.listed(&sid, &accounts), who, "{sid}");
        }
    }

    #[test]
    fn names_go_over_and_come_back() {
        let (sids, accounts) = (Sids::new("files"), accounts());
        for (text, domain, name, kind) in [
            ("alice", "FILES", "alice", Kind::User),
            ("Files\\ALICE", "FILES", "alice", Kind::User),
            ("bob@files", "FILES", "bob", Kind::User),
            ("staff", "FILES", "staff", Kind::Alias),
            ("FILES", "FILES", "", Kind::Domain),
            ("everyone", "", "Everyone", Kind::WellKnownGroup),
            ("BUILTIN\\administrators", "BUILTIN", "Administrators", Kind::Alias),
            (
                "nt authority\\authenticated users",
                "NT AUTHORITY",
                "Authenticated Users",
                Kind::WellKnownGroup,
            ),
            ("Unix User\\1000", "Unix User", "1000", Kind::User),
            ("unix group\\5", "Unix Group", "5", Kind::Group),
        ] {
            let found = sids.find(text, &accounts).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((found.domain.as_str(), found.name.as_str(), found.kind), (domain, name, kind));
            assert_eq!(sids.named(&found.sid, &accounts), Some(found));
        }
        for text in
            ["carol", "other\\alice", "", "\\", "BUILTIN\\alice", "a b", "unix user\\x", "alice@other"]
        {
            assert_eq!(sids.find(text, &accounts), None, "{text}");
        }
        assert_eq!(sids.named(&sids.of_id(Id(8)), &accounts), None, "no such account");
    }

    proptest! {
        #[test]
        fn no_two_numbers_share_an_identifier(a in prop_oneof![1.., i32::MIN..=-1000], b in prop_oneof![1.., i32::MIN..=-1000]) {
            let sids = Sids::new("files");
            prop_assert_eq!(sids.id_of(&sids.of_id(Id(a))), Some(Id(a)));
            prop_assert_eq!(a == b, sids.of_id(Id(a)) == sids.of_id(Id(b)));
        }
    }
}
