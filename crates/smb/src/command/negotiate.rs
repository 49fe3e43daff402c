//! NEGOTIATE (MS-SMB2 3.3.5.4), and the one of SMB1 that leads to it (3.3.5.3).

use std::rc::Rc;

use lane::time::wall_clock;
use smb_proto::preauth::PreauthHash;
use smb_proto::sealing::Cipher;
use smb_proto::signing::SigningAlgorithm;
use smb_wire::fixed::Fixed;
use smb_wire::header::flags;
use smb_wire::message::Body;
use smb_wire::negotiate::context::{NegotiateContext, POSIX_TAG, SHA_512};
use smb_wire::negotiate::{
    NegotiateRequest, NegotiateResponse, NegotiateResponseFixed, capabilities, security_mode, smb1,
};
use smb_wire::{Command, Dialect, Guid, Header, Status};
use zerocopy::little_endian::U16;

use crate::connection::{Call, Connection, Negotiated, Reply, send_alone};
use crate::options::Options;
use crate::server::file_time;
use crate::settings::Encryption;

/// Agrees on how the connection speaks.
pub(super) fn negotiate(call: &Call<'_>, request: &NegotiateRequest<'_>) -> Result<Reply, Status> {
    let connection = call.connection;
    let options = connection.lane.options();
    //= MS-SMB2 3.3.5.4
    //# A second negotiation disconnects.
    if connection.negotiated.get().is_some() {
        connection.lane.counters.ended_negotiate.increment();
        connection.end();
        return Err(Status::INVALID_PARAMETER);
    }
    //= MS-SMB2 3.3.5.2.4
    //# A NEGOTIATE that claims to be signed fails with STATUS_INVALID_PARAMETER.
    if call.header().has(flags::SIGNED) {
        return Err(Status::INVALID_PARAMETER);
    }
    //= MS-SMB2 3.3.5.4
    //# The greatest common dialect; STATUS_NOT_SUPPORTED where there is none.
    let dialect = Dialect::ALL.into_iter().rev().find(|dialect| request.offers(*dialect));
    let dialect = dialect.ok_or(Status::NOT_SUPPORTED)?;
    let client_capabilities = request.fixed.capabilities.get();
    //= MS-SMB2 3.3.5.4
    //# SMB2_GLOBAL_CAP_MULTI_CHANNEL in 3.x, where the server and the client have it.
    let has_many = options.multichannel && client_capabilities & capabilities::MULTI_CHANNEL != 0;
    let offer =
        if dialect == Dialect::Smb311 { offer(request, &options, has_many)? } else { Offer::default() };
    let cipher = match dialect {
        Dialect::Smb311 => offer.cipher.flatten(),
        dialect => (dialect.is_smb3()
            && client_capabilities & capabilities::ENCRYPTION != 0
            && options.encryption != Encryption::Off)
            .then_some(Cipher::Aes128Ccm),
    };
    let mut negotiated = Negotiated {
        client: request.fixed.client_guid,
        client_capabilities,
        client_security_mode: request.fixed.security_mode.get(),
        signing: offer.signing.unwrap_or(default_signing(dialect)),
        cipher,
        posix: offer.posix,
        ..agreed(dialect, &options, cipher)
    };
    if dialect.is_smb3() && has_many {
        negotiated.capabilities |= capabilities::MULTI_CHANNEL;
    }
    // Clients that have not announced it do not expect it.
    if dialect.is_smb3() {
        negotiated.capabilities |= client_capabilities & capabilities::DIRECTORY_LEASING;
    }
    //= MS-SMB2 3.3.5.4
    //# SMB2_GLOBAL_CAP_NOTIFICATIONS in 3.1.1, where the client has it.
    if dialect == Dialect::Smb311 {
        negotiated.capabilities |= client_capabilities & capabilities::NOTIFICATIONS;
    }
    let mut preauth = PreauthHash::new();
    preauth.update(call.message.bytes());
    connection.preauth.replace(preauth);
    count(connection, dialect);
    // No other request has set it since.
    let _ = connection.negotiated.set(negotiated);
    connection.lane.add_connection(connection);
    let (fixed, salt) = (response(connection, &negotiated), lane::random::array::<32>());
    Ok(Reply::of(move |body| {
        let one = |value: u16| [U16::new(value)];
        let (hashes, signing) = (one(SHA_512), one(negotiated.signing as u16));
        let cipher = one(negotiated.cipher.map_or(0, |cipher| cipher as u16));
        let mut contexts = Vec::new();
        if dialect == Dialect::Smb311 {
            contexts.push(NegotiateContext::Preauth { hashes: &hashes, salt: &salt });
            contexts.extend(offer.cipher.map(|_| NegotiateContext::Encryption(&cipher)));
            contexts.extend(offer.signing.map(|_| NegotiateContext::Signing(&signing)));
            contexts.extend(offer.posix.then_some(NegotiateContext::Posix(&POSIX_TAG)));
        }
        NegotiateResponse::write(body, fixed, &smb_auth::hint(), &contexts);
    }))
}

/// Hears of the reply as it leaves.
pub(super) fn answered(connection: &Connection, reply: &[u8]) {
    connection.preauth.borrow_mut().update(reply);
}

/// Answers a negotiation of SMB1 that offers SMB2: "negotiate again", or 2.0.2. `false`: it does not, or comes too late.
pub(crate) fn from_smb1(connection: &Rc<Connection>, offer: smb1::Offer) -> bool {
    let is_late = connection.negotiated.get().is_some() || connection.is_asked_again.get();
    if is_late || !(offer.wildcard || offer.smb202) || connection.window.borrow_mut().take(0, 1).is_err() {
        return false;
    }
    let options = connection.lane.options();
    let negotiated = agreed(Dialect::Smb202, &options, None);
    let mut fixed = response(connection, &negotiated);
    //= MS-SMB2 3.3.5.3.1
    //# "SMB 2.???" is answered by the dialect 0x02FF, after which the client negotiates in SMB2.
    if offer.wildcard {
        fixed.dialect.set(Dialect::WILDCARD);
        connection.is_asked_again.set(true);
    } else {
        count(connection, Dialect::Smb202);
        // No other request has set it since.
        let _ = connection.negotiated.set(negotiated);
        connection.lane.add_connection(connection);
    }
    let mut header = Header::request(Command::Negotiate, 0).with(flags::SERVER_TO_REDIR);
    header.credits.set(connection.window.borrow_mut().grant(1, 1, false));
    send_alone(connection, &header, |body: &mut Body<'_>| {
        NegotiateResponse::write(body, fixed, &smb_auth::hint(), &[]);
    });
    true
}

/// Offer of 3.1.1's contexts, as far as it is taken.
#[derive(Clone, Copy, Default)]
struct Offer {
    /// `None`: ciphers were not offered. None of them in common is an answer too.
    cipher: Option<Option<Cipher>>,
    signing: Option<SigningAlgorithm>,
    posix: bool,
}

fn offer(request: &NegotiateRequest<'_>, options: &Options, has_many: bool) -> Result<Offer, Status> {
    let (mut taken, mut has_hash) = (Offer::default(), false);
    let values = |list: &[U16]| list.iter().map(|value| value.get()).collect::<Vec<_>>();
    for context in request.contexts.iter() {
        match context.map_err(|malformed| malformed.status())? {
            //= MS-SMB2 3.3.5.4
            //# More than one context of integrity, encryption or signing fails with STATUS_INVALID_PARAMETER.
            NegotiateContext::Preauth { .. } if has_hash => return Err(Status::INVALID_PARAMETER),
            NegotiateContext::Encryption(_) if taken.cipher.is_some() => {
                return Err(Status::INVALID_PARAMETER);
            }
            NegotiateContext::Signing(_) if taken.signing.is_some() => return Err(Status::INVALID_PARAMETER),
            NegotiateContext::Preauth { hashes, .. } => {
                if !values(hashes).contains(&SHA_512) {
                    return Err(Status::SMB_NO_PREAUTH_INTEGRITY_HASH_OVERLAP);
                }
                has_hash = true;
            }
            NegotiateContext::Encryption(ciphers) => {
                taken.cipher = Some(Cipher::choose(values(ciphers), options.ciphers()));
            }
            NegotiateContext::Signing(algorithms) => {
                taken.signing = Some(SigningAlgorithm::choose(
                    values(algorithms),
                    has_many && !options.gmac_over_channels,
                ));
            }
            NegotiateContext::Posix(tag) => taken.posix |= tag == POSIX_TAG,
            // Compression is declined, a server's name is of no matter, and TCP secures nothing.
            _ => {}
        }
    }
    //= MS-SMB2 3.3.5.4
    //# 3.1.1 without integrity fails with STATUS_INVALID_PARAMETER.
    if has_hash { Ok(taken) } else { Err(Status::INVALID_PARAMETER) }
}

fn default_signing(dialect: Dialect) -> SigningAlgorithm {
    if dialect.is_smb3() { SigningAlgorithm::AesCmac } else { SigningAlgorithm::HmacSha256 }
}

/// Returns what the server brings to a dialect.
fn agreed(dialect: Dialect, options: &Options, cipher: Option<Cipher>) -> Negotiated {
    let mut offered = 0;
    if dialect >= Dialect::Smb210 {
        offered |= capabilities::LEASING | capabilities::LARGE_MTU;
    }
    if dialect.is_smb3() && dialect < Dialect::Smb311 && cipher.is_some() {
        offered |= capabilities::ENCRYPTION;
    }
    let large = dialect >= Dialect::Smb210;
    Negotiated {
        dialect,
        client: Guid::default(),
        client_capabilities: 0,
        client_security_mode: 0,
        capabilities: offered,
        security_mode: security_mode::SIGNING_ENABLED
            | if options.requires_signing() { security_mode::SIGNING_REQUIRED } else { 0 },
        signing: default_signing(dialect),
        cipher,
        posix: false,
        //= MS-SMB2 3.3.5.4
        //# Without multi-credit requests nothing is longer than 64 KiB.
        transfer_max: if large { options.transfer_max } else { SMALL_MAX },
        transact_max: if large { options.transact_max() } else { SMALL_MAX },
    }
}

fn response(connection: &Connection, negotiated: &Negotiated) -> NegotiateResponseFixed {
    let server_state = &connection.lane.server_state;
    NegotiateResponseFixed {
        security_mode: negotiated.security_mode.into(),
        dialect: (negotiated.dialect as u16).into(),
        server_guid: server_state.guid(),
        capabilities: negotiated.capabilities.into(),
        max_transact_size: negotiated.transact_max.into(),
        max_read_size: negotiated.transfer_max.into(),
        max_write_size: negotiated.transfer_max.into(),
        system_time: file_time(wall_clock()).into(),
        server_start_time: 0.into(),
        ..NegotiateResponseFixed::blank()
    }
}

fn count(connection: &Connection, dialect: Dialect) {
    let counters = &connection.lane.counters;
    match dialect {
        Dialect::Smb202 => &counters.negotiated_202,
        Dialect::Smb210 => &counters.negotiated_210,
        Dialect::Smb300 => &counters.negotiated_300,
        Dialect::Smb302 => &counters.negotiated_302,
        Dialect::Smb311 => &counters.negotiated_311,
    }
    .increment();
}

/// Largest READ, WRITE and transaction of dialect 2.0.2, bytes.
const SMALL_MAX: u32 = 64 << 10;
