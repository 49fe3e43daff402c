//! Common parts of the commands for files of SMB shares: how a server is reached and signed in to, the sum of
//! a file.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use aws_lc_rs::digest::{self, SHA256};
use smb_client::{
    Address, Channel, Connection, Get, Open, OpenParams, Options, Sealing, Signing, TransferError, Tree,
};
use smb_wire::create::access::{attributes, rights};
use smb_wire::{Guid, Status};
use transfer::Progress;

use crate::password::SignIn;
use crate::transfer_cmd::{Timed, hexadecimal, on_lane};

/// How a share is reached.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "smb")]
pub(crate) struct Reach {
    /// Sign every message, also where the server does not insist
    #[arg(long)]
    sign: bool,
    /// Encrypt every message
    #[arg(long)]
    seal: bool,
    #[command(flatten)]
    sign_in: SignIn,
}

/// Client and share that a command works with.
pub(crate) struct Reached {
    pub(crate) tree: Tree,
    pub(crate) progress: Arc<Progress>,
}

/// Kind of file under a name.
pub(crate) enum There {
    File { length: u64, written: u64, attributes: u32 },
    Directory,
    Nothing,
}

impl Reach {
    /// Returns whether standard input is read for a password.
    pub(crate) fn reads_stdin(&self) -> bool {
        self.sign_in.reads_stdin()
    }

    /// Does `work` on a lane, under a progress bar; the session is ended afterwards.
    pub(crate) fn run<T: 'static>(
        &self,
        address: &Address,
        work: impl AsyncFnOnce(&Reached) -> anyhow::Result<T> + 'static,
    ) -> anyhow::Result<Timed<T>> {
        let server = address.resolve().with_context(|| format!("cannot find {}", address.host))?;
        let credentials = self.sign_in.credentials(&address.user)?;
        let (unc, told) = (address.unc(), address.to_string());
        let mut guid = [0; 16];
        random(&mut guid);
        let (sign, seal) = (self.sign, self.seal);
        on_lane(async move |progress| {
            let mut options = Options::new(Guid::new(guid), Rc::new(random));
            options.signing = if sign { Signing::Required } else { Signing::IfRequired };
            options.sealing = if seal { Sealing::Required } else { Sealing::IfRequired };
            let reaching = async {
                let connection = Connection::open(server, options).await?;
                let channel = Channel::sign_in(&connection, credentials).await?;
                Tree::connect(&channel, &unc).await
            };
            let tree = reaching.await.with_context(|| format!("cannot reach {told}"))?;
            let reached = Reached { tree, progress };
            let done = work(&reached).await;
            // A server that is gone needs no good-bye.
            let _ = lane::time::timeout(FAREWELL, reached.tree.channel().log_off()).await;
            done
        })
    }
}

impl Reached {
    /// Returns what has this name of the share.
    pub(crate) async fn look(&self, name: &str) -> anyhow::Result<There> {
        if name.is_empty() {
            return Ok(There::Directory);
        }
        let how = OpenParams { access: rights::READ_ATTRIBUTES, options: 0, ..OpenParams::read() };
        let open = match Open::create(&self.tree, name, &how).await {
            Err(error) if is_not_there(error.status()) => return Ok(There::Nothing),
            open => open.with_context(|| name.to_owned())?,
        };
        let created = *open.created();
        open.close(0).await?;
        Ok(match created.file_attributes.get() {
            directory if directory & attributes::DIRECTORY != 0 => There::Directory,
            attributes => There::File {
                length: created.end_of_file.get(),
                written: created.last_write_time.get(),
                attributes,
            },
        })
    }

    /// Computes SHA-256 of what a file holds at its server, fetched once more from its start.
    pub(crate) async fn sum_there(&self, name: &str) -> anyhow::Result<String> {
        let sum = RefCell::new(digest::Context::new(&SHA256));
        let get = Get { overwrite: false, resume: false, progress: Arc::clone(&self.progress) };
        let open = Open::create(&self.tree, name, &OpenParams::read()).await?;
        let fetched = get.bytes(&open, name, 0, |data| {
            sum.borrow_mut().update(&data);
            std::future::ready(Ok::<_, TransferError>(()))
        });
        fetched.await?;
        open.close(0).await?;
        Ok(hexadecimal(sum.into_inner()))
    }
}

fn is_not_there(status: Option<Status>) -> bool {
    matches!(status, Some(Status::OBJECT_NAME_NOT_FOUND | Status::NO_SUCH_FILE))
}

fn random(into: &mut [u8]) {
    aws_lc_rs::rand::fill(into).expect("a Linux machine has randomness");
}

/// Time for which the answer to a good-bye is waited for.
const FAREWELL: Duration = Duration::from_secs(2);
