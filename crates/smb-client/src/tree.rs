//! Tree connects: a share as one channel sees it (MS-SMB2 3.2.4.2.4).

use std::sync::Arc;

use lane::buffer::Buf;
use smb_wire::body::ioctl::{FLAG_IS_FSCTL, IoctlRequest, IoctlRequestFixed};
use smb_wire::body::plain::Empty;
use smb_wire::body::tree_connect::{
    TreeConnectRequest, TreeConnectRequestFixed, TreeConnectResponse, share_flags,
};
use smb_wire::fixed::Fixed;
use smb_wire::fsctl::code;
use smb_wire::fsctl::interfaces::{self, Interface};
use smb_wire::fsctl::negotiate_info::{ValidateRequest, ValidateRequestFixed, ValidateResponse};
use smb_wire::{Command, Dialect, FileId, Response};
use zerocopy::FromBytes;
use zerocopy::little_endian::U16;

use crate::channel::Channel;
use crate::error::Error;
use crate::exchange::{OutgoingRequest, Pending, Reply};

/// A share, over one channel. [`Tree::over`] gives the same over another.
#[derive(Clone, Debug)]
pub struct Tree {
    channel: Channel,
    info: Arc<TreeConnectInfo>,
}

/// A share without a channel: it may go to any lane, and is used there over one more channel of its session.
#[derive(Clone, Debug)]
pub struct SharedTree {
    info: Arc<TreeConnectInfo>,
}

impl SharedTree {
    /// Returns the share over this channel of the session that it is of.
    pub fn over(&self, channel: &Channel) -> Tree {
        Tree { channel: channel.clone(), info: Arc::clone(&self.info) }
    }
}

#[derive(Debug)]
struct TreeConnectInfo {
    tree_id: u32,
    seal: bool,
    answer: TreeConnectResponse,
}

impl Tree {
    /// Connects to `\\server\share`. Below 3.1.1 the negotiation is confirmed once it can be signed (MS-SMB2 3.2.5.5).
    ///
    /// # Errors
    /// The server's refusal; the share wants encryption that cannot be had; the negotiation was changed.
    pub async fn connect(channel: &Channel, path: &str) -> Result<Self, Error> {
        let request = OutgoingRequest::new(Command::TreeConnect, |body| {
            TreeConnectRequest::write(body, TreeConnectRequestFixed::blank(), path);
        });
        // With 3.1.1 a TREE_CONNECT that is not encrypted is signed (MS-SMB2 3.2.4.1.1).
        let send_context = channel.signed_send_context(0);
        let [pending] = channel.connection().send(&send_context, [request], Vec::new()).await?;
        let reply = pending.await?;
        let Response::TreeConnect(answer) = reply.body()? else {
            return Err(Error::Unexpected("something else than a tree connect"));
        };
        let seal = answer.share_flags.get() & share_flags::ENCRYPT_DATA != 0;
        if seal && !channel.can_seal() {
            return Err(Error::NoEncryption);
        }
        let info = TreeConnectInfo { tree_id: reply.header().tree_id.get(), seal, answer: *answer };
        let tree = Self { channel: channel.clone(), info: Arc::new(info) };
        tree.confirm().await?;
        Ok(tree)
    }

    /// Returns the same share over another channel of the session.
    pub fn over(&self, channel: &Channel) -> Self {
        self.shared().over(channel)
    }

    /// Returns the same share for another lane.
    pub fn shared(&self) -> SharedTree {
        SharedTree { info: Arc::clone(&self.info) }
    }

    /// Returns the tree connect's channel.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Returns the tree connect's number in its session.
    pub fn id(&self) -> u32 {
        self.info.tree_id
    }

    /// Returns the server's answer to the TREE_CONNECT.
    pub fn answer(&self) -> &TreeConnectResponse {
        &self.info.answer
    }

    /// Leaves the share; what is open is closed.
    ///
    /// # Errors
    /// The request's.
    pub async fn disconnect(&self) -> Result<(), Error> {
        let request = OutgoingRequest::new(Command::TreeDisconnect, |body| body.push(&Empty::blank()));
        self.exchange(request).await?.body().map(|_| ())
    }

    /// Sends a request, and returns its answer.
    ///
    /// # Errors
    /// The connection's; what is wrong with the answer. Its status is not looked at.
    pub async fn exchange(&self, request: OutgoingRequest<'_>) -> Result<Reply, Error> {
        let [pending] = self.start([request]).await?;
        pending.await
    }

    /// Sends requests as one frame (MS-SMB2 3.2.4.1.4), and does not wait for the answers.
    ///
    /// # Errors
    /// The connection's.
    pub async fn start<const N: usize>(
        &self,
        requests: [OutgoingRequest<'_>; N],
    ) -> Result<[Pending; N], Error> {
        self.channel
            .connection()
            .send(&self.channel.send_context(self.id(), self.info.seal), requests, Vec::new())
            .await
    }

    /// Sends a request whose body is followed by `payload`.
    pub(crate) async fn start_with(
        &self,
        request: OutgoingRequest<'_>,
        payload: Vec<Buf>,
    ) -> Result<Pending, Error> {
        let send_context = self.channel.send_context(self.id(), self.info.seal);
        let [pending] = self.channel.connection().send(&send_context, [request], payload).await?;
        Ok(pending)
    }

    /// Returns where the server can be reached (MS-SMB2 3.2.4.20.10): what more channels are made to.
    ///
    /// # Errors
    /// The request's.
    pub async fn interfaces(&self) -> Result<Vec<Interface>, Error> {
        let reply = self.exchange(fsctl(code::QUERY_NETWORK_INTERFACE_INFO, Vec::new(), 64 << 10)).await?;
        let Response::Ioctl(answer) = reply.body()? else {
            return Err(Error::Unexpected("something else than interfaces"));
        };
        Ok(interfaces::parse(answer.output).collect::<Result<_, _>>()?)
    }

    /// Has the server repeat, signed, what was negotiated in the clear.
    async fn confirm(&self) -> Result<(), Error> {
        let connection = self.channel.connection();
        let (negotiated, options) = (connection.negotiated(), &connection.shared().options);
        let send_context = self.channel.signed_send_context(self.id());
        // Below 3.1.1 a client that can sign validates the negotiation (MS-SMB2 3.2.5.5).
        if negotiated.dialect == Dialect::Smb311
            || !options.dialects.iter().any(|dialect| dialect.is_smb3())
            || !(send_context.sign || send_context.seal)
        {
            return Ok(());
        }
        let dialects: Vec<U16> = options.dialects.iter().map(|dialect| U16::new(*dialect as u16)).collect();
        let fixed = ValidateRequestFixed {
            capabilities: negotiated.offered.capabilities.into(),
            guid: options.client_guid,
            security_mode: negotiated.offered.security_mode.into(),
            dialect_count: (dialects.len() as u16).into(),
        };
        let input = ValidateRequest { fixed: &fixed, dialects: &dialects }.to_bytes();
        let request = fsctl(code::VALIDATE_NEGOTIATE_INFO, input, size_of::<ValidateResponse>() as u32);
        let [pending] = connection.send(&send_context, [request], Vec::new()).await?;
        let reply = pending.await?;
        let Ok(Response::Ioctl(answer)) = reply.body() else {
            // An old server knows no such code; that it does not is signed.
            return if negotiated.dialect.is_smb3() { Err(Error::Downgraded) } else { Ok(()) };
        };
        let (said, _) = ValidateResponse::ref_from_prefix(answer.output).map_err(|_| Error::Downgraded)?;
        let is_same = said.capabilities.get() == negotiated.capabilities
            && said.guid == negotiated.server_guid
            && said.security_mode.get() == negotiated.security_mode
            && said.dialect.get() == negotiated.dialect as u16;
        if is_same { Ok(()) } else { Err(Error::Downgraded) }
    }
}

/// Creates the request of a control code that belongs to no file, or to none yet.
fn fsctl(code: u32, input: Vec<u8>, output_max: u32) -> OutgoingRequest<'static> {
    let fixed = IoctlRequestFixed {
        ctl_code: code.into(),
        file_id: FileId::RELATED,
        max_output_response: output_max.into(),
        flags: FLAG_IS_FSCTL.into(),
        ..IoctlRequestFixed::blank()
    };
    let sent = input.len() as u32;
    OutgoingRequest::new(Command::Ioctl, move |body| IoctlRequest::write(body, fixed, &input))
        .carrying(sent, output_max)
}
