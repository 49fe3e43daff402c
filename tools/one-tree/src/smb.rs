//! A client of SMB whose opens live on, and which gives back what is asked back of their leases.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use identity::NtHash;
use lane::Task;
use lane::buffer::Buf;
use smb_client::{BreakNotification, Channel, Connection, Error, Open, OpenParams, Options, Tree};
use smb_wire::body::query_info::info_type;
use smb_wire::create::access::{rights, share};
use smb_wire::create::lease::{self, LeaseV2, state};
use smb_wire::create::{Disposition as Wire, oplock_level, options};
use smb_wire::info::file::{RenameFixed, class};
use smb_wire::{FileId, Guid};
use zerocopy::{FromZeros, IntoBytes};

use crate::operation::{Disposition, Lease, Path, SLOTS};
use crate::site::Place;

/// Leases and oplocks, as breaks have left them.
type Leases = Rc<RefCell<Vec<(Key, u32)>>>;

/// Identity of a lease or an oplock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Lease(Guid),
    Oplock(FileId),
}

pub(crate) struct Redirector {
    tree: Tree,
    opens: [Option<(Open, Key)>; SLOTS as usize],
    leases: Leases,
    serial: u32,
    number: u8,
    _breaks: Task<()>,
}

impl Redirector {
    /// Signs in.
    pub(crate) async fn new(place: &Place, number: u8) -> anyhow::Result<Self> {
        let state = Cell::new(u64::from(number) + 1);
        let random = move |bytes: &mut [u8]| {
            for byte in bytes {
                state.set(state.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
                *byte = (state.get() >> 33) as u8;
            }
        };
        let options = Options::new(Guid::new([number + 1; 16]), Rc::new(random));
        let connection = Connection::open(place.smb, options).await?;
        let password = place.password.as_str().into();
        let credentials = smb_auth::Credentials {
            domain: String::new(),
            user: place.user.clone(),
            nt_hash: (*NtHash::new(&password).expect("it is a password").expose()).into(),
            workstation: "CLIENT".to_owned(),
        };
        let channel = Channel::sign_in(&connection, credentials).await?;
        let tree = Tree::connect(&channel, &place.share).await?;
        let leases = Leases::default();
        let breaks = lane::spawn(give_back(tree.clone(), Rc::clone(&leases)));
        Ok(Self { tree, opens: Default::default(), leases, serial: 0, number, _breaks: breaks })
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    pub(crate) fn open(&self, slot: u8) -> Option<&Open> {
        self.opens[usize::from(slot)].as_ref().map(|(open, _)| open)
    }

    /// Returns what is left of an open's lease.
    pub(crate) fn lease(&self, slot: u8) -> u32 {
        let Some((_, key)) = &self.opens[usize::from(slot)] else { return 0 };
        self.leases.borrow().iter().find(|(known, _)| known == key).map_or(0, |(_, state)| *state)
    }

    pub(crate) async fn opens(
        &mut self,
        slot: u8,
        path: Path,
        how: OpenParams,
        lease: Lease,
    ) -> Result<(), Error> {
        let (wish, oplock) = match lease {
            Lease::None => (0, oplock_level::NONE),
            Lease::Read => (state::READ, oplock_level::LEASE),
            Lease::ReadHandle => (state::READ | state::HANDLE, oplock_level::LEASE),
            Lease::ReadWriteHandle => (state::READ | state::WRITE | state::HANDLE, oplock_level::LEASE),
            Lease::LevelTwo => (0, oplock_level::II),
            Lease::Exclusive => (0, oplock_level::EXCLUSIVE),
            Lease::Batch => (0, oplock_level::BATCH),
        };
        self.serial += 1;
        let mut key = [self.number + 1; 16];
        key[..4].copy_from_slice(&self.serial.to_le_bytes());
        let key = Guid::new(key);
        let asked = LeaseV2 { lease_key: key, lease_state: wish.into(), ..LeaseV2::new_zeroed() };
        let how = match wish {
            0 => OpenParams { oplock, ..how },
            _ => how.lease(&lease::Lease::V2(&asked)),
        };
        // A break may come as soon as the answer that grants.
        let key = Key::Lease(key);
        self.leases.borrow_mut().push((key, wish));
        let opened = Open::create(&self.tree, &path.smb(), &how).await;
        let mut leases = self.leases.borrow_mut();
        let open = match opened {
            Ok(open) => open,
            Err(error) => {
                leases.retain(|(known, _)| *known != key);
                return Err(error);
            }
        };
        let (key, granted) = match wish {
            0 => (Key::Oplock(open.id()), caches(open.created().oplock_level)),
            _ => (key, open.lease().map_or(0, |(state, _)| state)),
        };
        match leases.iter_mut().find(|(known, _)| *known == key) {
            Some((_, state)) => *state &= granted,
            None => leases.push((key, granted)),
        }
        drop(leases);
        self.opens[usize::from(slot)] = Some((open, key));
        Ok(())
    }

    pub(crate) async fn closes(&mut self, slot: u8) -> Result<(), Error> {
        let Some((open, key)) = self.opens[usize::from(slot)].take() else { return Ok(()) };
        self.leases.borrow_mut().retain(|(known, _)| *known != key);
        open.close(0).await.map(drop)
    }

    /// Opens a file or directory for one purpose alone.
    async fn with<T>(
        &self,
        path: Path,
        access: u32,
        act: impl AsyncFnOnce(&Open) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let how = OpenParams { access: access | rights::READ_ATTRIBUTES, options: 0, ..OpenParams::read() };
        let open = Open::create(&self.tree, &path.smb(), &how).await?;
        let done = act(&open).await;
        let closed = open.close(0).await;
        let done = done?;
        closed?;
        Ok(done)
    }

    pub(crate) async fn moves(&self, from: Path, to: Path, replace: bool) -> Result<(), Error> {
        self.with(from, rights::DELETE, async |open| open.rename(&to.smb(), replace).await).await
    }

    pub(crate) async fn links_name(&self, from: Path, to: Path) -> Result<(), Error> {
        self.with(from, rights::WRITE_ATTRIBUTES, async |open| links(open, to).await).await
    }

    pub(crate) async fn removes(&self, path: Path) -> Result<(), Error> {
        let how = OpenParams { options: options::DELETE_ON_CLOSE, ..OpenParams::delete() };
        Open::create(&self.tree, &path.smb(), &how).await?.close(0).await.map(drop)
    }

    pub(crate) async fn makes_directory(&self, path: Path) -> Result<(), Error> {
        Open::create(&self.tree, &path.smb(), &OpenParams::make_directory()).await?.close(0).await.map(drop)
    }
}

/// Returns the options of opening a file.
pub(crate) fn how(disposition: Disposition, writes: bool, shares: bool) -> OpenParams {
    let disposition = match disposition {
        Disposition::Open => Wire::Open,
        Disposition::Create => Wire::Create,
        Disposition::OpenIf => Wire::OpenIf,
        Disposition::Overwrite => Wire::Overwrite,
        Disposition::OverwriteIf => Wire::OverwriteIf,
    };
    let access = rights::FILE_READ | rights::DELETE | if writes { rights::FILE_WRITE } else { 0 };
    OpenParams { access, share: share_of(shares), disposition, ..OpenParams::read() }
}

/// Returns the options of opening a directory.
pub(crate) fn how_directory(shares: bool, moves: bool) -> OpenParams {
    let access = rights::FILE_READ | if moves { rights::DELETE } else { 0 };
    OpenParams { access, share: share_of(shares), ..OpenParams::list() }
}

fn share_of(shares: bool) -> u32 {
    if shares { share::ALL } else { share::READ }
}

/// Converts an oplock level to what its holder may cache, as the state of a lease.
fn caches(level: u8) -> u32 {
    match level {
        oplock_level::II => state::READ,
        oplock_level::EXCLUSIVE => state::READ | state::WRITE,
        oplock_level::BATCH => state::READ | state::WRITE | state::HANDLE,
        _ => 0,
    }
}

/// Answers breaks, until the connection ends: nothing is kept back that would have to be written first.
async fn give_back(tree: Tree, leases: Leases) {
    while let Ok(broken) = tree.channel().connection().next_break().await {
        let (key, new) = match broken {
            BreakNotification::Lease { key, new, .. } => (Key::Lease(key), new),
            BreakNotification::Oplock { file, level } => (Key::Oplock(file), caches(level)),
            BreakNotification::SessionClosed { .. } => continue,
        };
        let (before, left) = {
            let mut leases = leases.borrow_mut();
            match leases.iter_mut().find(|(known, _)| *known == key) {
                Some((_, state)) => {
                    let before = *state;
                    *state &= new;
                    (before, *state)
                }
                // The answer that grants an oplock is still to come.
                None => {
                    leases.push((key, new));
                    (state::WRITE, new)
                }
            }
        };
        // Of a file that was closed meanwhile there is none to give back. A level II oplock ends without an answer.
        match broken {
            BreakNotification::Lease { key, acknowledge: true, .. } => {
                let _ = tree.acknowledge_lease(key, left).await;
            }
            BreakNotification::Oplock { file, level } if before & state::WRITE != 0 => {
                let _ = tree.acknowledge_oplock(file, level).await;
            }
            _ => {}
        }
    }
}

pub(crate) async fn writes(open: &Open, offset: u64, bytes: Vec<u8>) -> Result<(), Error> {
    open.write(offset, vec![Buf::from(bytes)]).await.0.map(drop)
}

pub(crate) async fn cuts(open: &Open, len: u64) -> Result<(), Error> {
    open.set(info_type::FILE, class::END_OF_FILE, 0, &len.to_le_bytes()).await
}

/// Has the file deleted with its last open (FileDispositionInformation).
pub(crate) async fn disposes(open: &Open) -> Result<(), Error> {
    open.set(info_type::FILE, class::DISPOSITION, 0, &[1]).await
}

/// Gives the file one more name (FileLinkInformation).
pub(crate) async fn links(open: &Open, to: Path) -> Result<(), Error> {
    let name: Vec<u8> = to.smb().encode_utf16().flat_map(u16::to_le_bytes).collect();
    let fixed = RenameFixed { file_name_length: (name.len() as u32).into(), ..RenameFixed::new_zeroed() };
    open.set(info_type::FILE, class::LINK, 0, &[fixed.as_bytes(), &name].concat()).await
}
