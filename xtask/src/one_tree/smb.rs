//! A client of SMB whose opens live on.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;

use identity::NtHash;
use lane::buffer::Buf;
use smb_client::{Channel, Connection, Error, How, Open, Options, Tree};
use smb_wire::Guid;
use smb_wire::body::query_info::info_type;
use smb_wire::create::access::{rights, share};
use smb_wire::create::{Disposition as Wire, options};
use smb_wire::info::file::{RenameFixed, class};
use zerocopy::{FromZeros, IntoBytes};

use super::operation::{Disposition, Path, SLOTS};
use super::site::{PASSWORD, SHARE, USER};

pub(super) struct Redirector {
    tree: Tree,
    opens: [Option<Open>; SLOTS as usize],
}

impl Redirector {
    /// Signs in.
    pub(super) async fn new(server: SocketAddr, number: u8) -> anyhow::Result<Self> {
        let state = Cell::new(u64::from(number) + 1);
        let random = move |bytes: &mut [u8]| {
            for byte in bytes {
                state.set(state.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
                *byte = (state.get() >> 33) as u8;
            }
        };
        let options = Options::new(Guid::new([number + 1; 16]), Rc::new(random));
        let connection = Connection::open(server, options).await?;
        let credentials = smb_auth::Credentials {
            domain: String::new(),
            user: USER.to_owned(),
            nt_hash: (*NtHash::new(&PASSWORD.into()).expect("it is a password").expose()).into(),
            workstation: "CLIENT".to_owned(),
        };
        let channel = Channel::sign_in(&connection, credentials).await?;
        let tree = Tree::connect(&channel, SHARE).await?;
        Ok(Self { tree, opens: Default::default() })
    }

    pub(super) fn tree(&self) -> &Tree {
        &self.tree
    }

    pub(super) fn open(&self, slot: u8) -> Option<&Open> {
        self.opens[usize::from(slot)].as_ref()
    }

    pub(super) async fn opens(
        &mut self,
        slot: u8,
        path: Path,
        disposition: Disposition,
        writes: bool,
        shares: bool,
    ) -> Result<(), Error> {
        let disposition = match disposition {
            Disposition::Open => Wire::Open,
            Disposition::Create => Wire::Create,
            Disposition::OpenIf => Wire::OpenIf,
            Disposition::Overwrite => Wire::Overwrite,
            Disposition::OverwriteIf => Wire::OverwriteIf,
        };
        let access = rights::FILE_READ | rights::DELETE | if writes { rights::FILE_WRITE } else { 0 };
        let share = if shares { share::ALL } else { share::READ };
        let how = How { access, share, disposition, ..How::read() };
        self.opens[usize::from(slot)] = Some(Open::create(&self.tree, &path.smb(), &how).await?);
        Ok(())
    }

    pub(super) async fn closes(&mut self, slot: u8) -> Result<(), Error> {
        match self.opens[usize::from(slot)].take() {
            Some(open) => open.close(0).await.map(drop),
            None => Ok(()),
        }
    }

    /// An open of a file or directory for one purpose alone.
    async fn with<T>(
        &self,
        path: Path,
        access: u32,
        act: impl AsyncFnOnce(&Open) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let how = How { access: access | rights::READ_ATTRIBUTES, options: 0, ..How::read() };
        let open = Open::create(&self.tree, &path.smb(), &how).await?;
        let done = act(&open).await;
        let closed = open.close(0).await;
        let done = done?;
        closed?;
        Ok(done)
    }

    pub(super) async fn moves(&self, from: Path, to: Path, replace: bool) -> Result<(), Error> {
        self.with(from, rights::DELETE, async |open| open.rename(&to.smb(), replace).await).await
    }

    pub(super) async fn links_name(&self, from: Path, to: Path) -> Result<(), Error> {
        self.with(from, rights::WRITE_ATTRIBUTES, async |open| links(open, to).await).await
    }

    pub(super) async fn removes(&self, path: Path) -> Result<(), Error> {
        let how = How { options: options::DELETE_ON_CLOSE, ..How::delete() };
        Open::create(&self.tree, &path.smb(), &how).await?.close(0).await.map(drop)
    }

    pub(super) async fn makes_directory(&self, path: Path) -> Result<(), Error> {
        Open::create(&self.tree, &path.smb(), &How::make_directory()).await?.close(0).await.map(drop)
    }
}

pub(super) async fn writes(open: &Open, offset: u64, bytes: Vec<u8>) -> Result<(), Error> {
    open.write(offset, vec![Buf::from(bytes)]).await.0.map(drop)
}

pub(super) async fn cuts(open: &Open, len: u64) -> Result<(), Error> {
    open.set(info_type::FILE, class::END_OF_FILE, 0, &len.to_le_bytes()).await
}

/// Gives the file one more name (FileLinkInformation).
pub(super) async fn links(open: &Open, to: Path) -> Result<(), Error> {
    let name: Vec<u8> = to.smb().encode_utf16().flat_map(u16::to_le_bytes).collect();
    let fixed = RenameFixed { file_name_length: (name.len() as u32).into(), ..RenameFixed::new_zeroed() };
    open.set(info_type::FILE, class::LINK, 0, &[fixed.as_bytes(), &name].concat()).await
}
