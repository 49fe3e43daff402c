//! NEGOTIATE, the first exchange of a connection (MS-SMB2 3.2.4.2.2, 3.2.5.2).

use smb_proto::preauth::PreauthHash;
use smb_proto::sealing::Cipher;
use smb_proto::signing::SigningAlgorithm;
use smb_wire::negotiate::context::{NegotiateContext, SHA_512};
use smb_wire::negotiate::{NegotiateRequest, NegotiateResponse, capabilities, request, security_mode};
use smb_wire::{Command, Dialect, Guid, Response};
use zerocopy::little_endian::U16;

use super::{Connection, SendContext};
use crate::error::Error;
use crate::exchange::OutgoingRequest;
use crate::options::{Options, Sealing, Signing};

/// Parameters that a connection agreed on.
#[derive(Clone, Debug)]
pub struct Negotiated {
    /// The dialect.
    pub dialect: Dialect,
    /// The server's GUID.
    pub server_guid: Guid,
    /// Capabilities of the server: bits of [`smb_wire::negotiate::capabilities`].
    pub capabilities: u32,
    /// Bits of [`smb_wire::negotiate::security_mode`].
    pub security_mode: u16,
    /// Most bytes of a READ.
    pub max_read: u32,
    /// Most bytes of a WRITE.
    pub max_write: u32,
    /// Most bytes of other requests and answers.
    pub max_transact: u32,
    /// Set if requests pay by their length.
    pub multi_credit: bool,
    /// Algorithm by which messages are signed.
    pub signing: SigningAlgorithm,
    /// Cipher of messages, where they can be encrypted.
    pub cipher: Option<Cipher>,
    /// Offer of the client, which is confirmed later below 3.1.1.
    pub(crate) offered: Offered,
}

/// Offer of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offered {
    pub(crate) capabilities: u32,
    pub(crate) security_mode: u16,
}

impl Offered {
    fn of(options: &Options) -> Self {
        let mut capabilities =
            capabilities::LEASING | capabilities::LARGE_MTU | capabilities::DIRECTORY_LEASING;
        if options.multichannel {
            capabilities |= capabilities::MULTI_CHANNEL;
        }
        if options.sealing != Sealing::Never {
            capabilities |= capabilities::ENCRYPTION;
        }
        if options.notifications && options.dialects.contains(&Dialect::Smb311) {
            capabilities |= capabilities::NOTIFICATIONS;
        }
        if options.dialects.iter().all(|dialect| !dialect.is_smb3()) {
            capabilities = 0;
        }
        let required = match options.signing {
            Signing::IfRequired => 0,
            Signing::Required => security_mode::SIGNING_REQUIRED,
        };
        Self { capabilities, security_mode: security_mode::SIGNING_ENABLED | required }
    }
}

pub(super) async fn negotiate(connection: &Connection) -> Result<(), Error> {
    let options = &connection.shared().options;
    let offered = Offered::of(options);
    let mut salt = [0; 32];
    (options.random)(&mut salt);
    let ciphers: Vec<U16> = options.ciphers.iter().map(|cipher| U16::new(*cipher as u16)).collect();
    let signing: Vec<U16> = options.signing_algorithms.iter().map(|one| U16::new(*one as u16)).collect();
    let hashes = [U16::new(SHA_512)];
    let mut contexts = Vec::new();
    if options.dialects.contains(&Dialect::Smb311) {
        contexts.push(NegotiateContext::Preauth { hashes: &hashes, salt: &salt });
        if options.sealing != Sealing::Never && !ciphers.is_empty() {
            contexts.push(NegotiateContext::Encryption(&ciphers));
        }
        if !signing.is_empty() {
            contexts.push(NegotiateContext::Signing(&signing));
        }
    }
    let fixed = request(options.client_guid, offered.security_mode, offered.capabilities);
    let request = OutgoingRequest::new(Command::Negotiate, |body| {
        NegotiateRequest::write(body, fixed, &options.dialects, &contexts);
    });
    let send_context = SendContext { keep: true, ..SendContext::default() };
    let [mut pending] = connection.send(&send_context, [request], Vec::new()).await?;
    let sent = pending.sent.take().unwrap_or_default();
    let reply = (&mut pending).await?;
    let mut preauth = PreauthHash::new();
    preauth.update(&sent);
    preauth.update(reply.bytes());
    let Response::Negotiate(response) = reply.body()? else {
        return Err(Error::Unexpected("something else than a negotiation"));
    };
    let negotiated = agreed(options, offered, &response)?;
    if options.sealing == Sealing::Required && negotiated.cipher.is_none() {
        return Err(Error::NoEncryption);
    }
    connection.shared().preauth.set(preauth);
    *connection.shared().negotiated.borrow_mut() = Some(std::rc::Rc::new(negotiated));
    Ok(())
}

fn agreed(
    options: &Options,
    offered: Offered,
    response: &NegotiateResponse<'_>,
) -> Result<Negotiated, Error> {
    let fixed = response.fixed;
    let dialect = Dialect::from_wire(fixed.dialect.get()).filter(|chosen| options.dialects.contains(chosen));
    let dialect = dialect.ok_or(Error::Unexpected("a dialect that was not offered"))?;
    let capabilities = fixed.capabilities.get();
    let mut signing =
        if dialect.is_smb3() { SigningAlgorithm::AesCmac } else { SigningAlgorithm::HmacSha256 };
    let encrypts = capabilities & capabilities::ENCRYPTION != 0 && options.sealing != Sealing::Never;
    let mut cipher = (dialect.is_smb3() && encrypts).then_some(Cipher::Aes128Ccm);
    if dialect == Dialect::Smb311 {
        cipher = None;
        let mut is_hashed = false;
        for context in response.contexts.iter() {
            match context? {
                NegotiateContext::Preauth { hashes, .. } => {
                    is_hashed = hashes.iter().map(|hash| hash.get()).eq([SHA_512]);
                }
                NegotiateContext::Encryption(chosen) => cipher = one_of(chosen, &options.ciphers)?,
                NegotiateContext::Signing(chosen) => {
                    let chosen = chosen.first().and_then(|chosen| SigningAlgorithm::from_wire(chosen.get()));
                    signing = chosen
                        .filter(|chosen| options.signing_algorithms.contains(chosen))
                        .ok_or(Error::Unexpected("a signing algorithm that was not offered"))?;
                }
                _ => {}
            }
        }
        // A response of 3.1.1 has exactly one hash, and one that was offered (MS-SMB2 3.2.5.2).
        if !is_hashed {
            return Err(Error::Unexpected("no hash of the negotiation"));
        }
    }
    let max = [fixed.max_read_size, fixed.max_write_size, fixed.max_transact_size].map(|max| max.get());
    if max.iter().any(|max| *max < LEN_LEAST) {
        return Err(Error::Unexpected("lengths that no file fits through"));
    }
    Ok(Negotiated {
        dialect,
        server_guid: fixed.server_guid,
        capabilities,
        security_mode: fixed.security_mode.get(),
        max_read: max[0],
        max_write: max[1],
        max_transact: max[2],
        multi_credit: dialect > Dialect::Smb202 && capabilities & capabilities::LARGE_MTU != 0,
        signing,
        cipher,
        offered,
    })
}

/// Returns the one cipher that the server chose; 0 is none.
fn one_of(chosen: &[U16], offered: &[Cipher]) -> Result<Option<Cipher>, Error> {
    match chosen {
        [none] if none.get() == 0 => Ok(None),
        [one] => match Cipher::from_wire(one.get()).filter(|cipher| offered.contains(cipher)) {
            Some(cipher) => Ok(Some(cipher)),
            None => Err(Error::Unexpected("a cipher that was not offered")),
        },
        _ => Err(Error::Unexpected("several ciphers")),
    }
}

/// Servers give 64 KiB at least (MS-SMB2 3.3.5.4); less than this is no file server.
const LEN_LEAST: u32 = 4 << 10;
