//! A KDC and a client in one: makes what the tests send, right unless a test changes a field.

use krb::crypto::usage;
use krb::gss::{Framed, GssChecksum, Mechanism, TokenKind};
use krb::keytab::{KeyEntry, KeyUse};
use krb::message::{
    ApReq, Authenticator, AuthenticatorChecksum, AuthorizationData, Element, EncTicketPart, EncryptedData,
    Ticket, TicketFlags,
};
use krb::{
    Accepted, Acceptor, BindingCheck, Etype, GssFlags, Key, Keys, Policy, Principal, Reason, Refusal,
    ReplayCache, Request, SessionKey, Time,
};

/// 2026-11-30, about.
pub(crate) const NOW: i64 = 1_796_000_000;

#[derive(Clone)]
pub(crate) struct Forge {
    pub(crate) key: Key,
    pub(crate) kvno: Option<u32>,
    pub(crate) ticket_etype: i32,
    pub(crate) service: Principal,
    pub(crate) client: Principal,
    pub(crate) session: SessionKey,
    pub(crate) ticket_flags: TicketFlags,
    pub(crate) transited: Vec<u8>,
    pub(crate) auth_time: i64,
    pub(crate) start_time: Option<i64>,
    pub(crate) end_time: i64,
    /// Type, whether it is critical, data.
    pub(crate) ticket_data: Vec<(i32, bool, Vec<u8>)>,
    pub(crate) authenticator_client: Option<Principal>,
    pub(crate) authenticator_time: i64,
    pub(crate) subkey: Option<SessionKey>,
    pub(crate) seq_number: Option<u32>,
    pub(crate) checksum: Option<(i32, Vec<u8>)>,
    pub(crate) authenticator_data: Vec<(i32, bool, Vec<u8>)>,
    pub(crate) mutual: bool,
    pub(crate) user_to_user: bool,
    pub(crate) mechanism: Option<Mechanism>,
    /// Of both encryptions, so that no two tokens are the same unless a test wants that.
    pub(crate) confounder: u8,
}

impl Forge {
    pub(crate) fn new(etype: Etype) -> Self {
        let checksum = GssChecksum { bindings: [0; 16], flags: GssFlags(0x2e) };
        Self {
            key: key(etype, 0x11),
            kvno: Some(3),
            ticket_etype: etype.number(),
            service: Principal::new(&["cifs", "fs1.test.local"], "TEST.LOCAL"),
            client: Principal::new(&["alice"], "TEST.LOCAL"),
            session: SessionKey::from(&key(etype, 0x22)),
            ticket_flags: TicketFlags::default(),
            transited: Vec::new(),
            auth_time: NOW - 3_600,
            start_time: None,
            end_time: NOW + 3_600,
            ticket_data: Vec::new(),
            authenticator_client: None,
            authenticator_time: NOW,
            subkey: Some(SessionKey::from(&key(etype, 0x33))),
            seq_number: Some(77),
            checksum: Some((GssChecksum::TYPE, checksum.encode())),
            authenticator_data: Vec::new(),
            mutual: true,
            user_to_user: false,
            mechanism: Some(Mechanism::Krb5),
            confounder: 0,
        }
    }

    pub(crate) fn entry(&self) -> KeyEntry {
        KeyEntry {
            file: "forged".into(),
            number: 1,
            principal: Some(self.service.clone()),
            kvno: 3,
            etype: self.key.etype().number(),
            written: None,
            key_use: KeyUse::Service,
            key: Ok(self.key.clone()),
        }
    }

    pub(crate) fn keys(&self) -> Keys {
        Keys::new([self.entry()])
    }

    pub(crate) fn encrypted_part(&self) -> Vec<u8> {
        let part = EncTicketPart {
            flags: self.ticket_flags,
            key: self.session.clone(),
            client: self.client.clone(),
            transited_type: 1,
            transited: &self.transited,
            auth_time: Time::from_seconds(self.auth_time),
            start_time: self.start_time.map(Time::from_seconds),
            end_time: Time::from_seconds(self.end_time),
            renew_till: None,
            authorization_data: data(&self.ticket_data),
        };
        self.key.encrypt(usage::TICKET, &part.encode(), &[self.confounder; 16])
    }

    pub(crate) fn ticket(&self) -> Vec<u8> {
        let cipher = self.encrypted_part();
        self.ticket_of(&cipher).encode()
    }

    fn ticket_of<'a>(&self, cipher: &'a [u8]) -> Ticket<'a> {
        let encrypted = EncryptedData { etype: self.ticket_etype, kvno: self.kvno, cipher };
        Ticket { service: self.service.clone(), encrypted }
    }

    pub(crate) fn token(&self) -> Vec<u8> {
        let checksum = self.checksum.as_ref();
        let authenticator = Authenticator {
            client: self.authenticator_client.clone().unwrap_or(self.client.clone()),
            checksum: checksum
                .map(|(checksum_type, bytes)| AuthenticatorChecksum { checksum_type: *checksum_type, bytes }),
            time: Time { seconds: self.authenticator_time, microseconds: 42 },
            subkey: self.subkey.clone(),
            seq_number: self.seq_number,
            authorization_data: data(&self.authenticator_data),
        };
        let session = self.session.key().unwrap_or(key(Etype::Aes256Sha1, 0));
        let sealed =
            session.encrypt(usage::AP_REQ_AUTHENTICATOR, &authenticator.encode(), &[self.confounder; 16]);
        let cipher = self.encrypted_part();
        let ap_req = ApReq {
            use_session_key: self.user_to_user,
            mutual_required: self.mutual,
            ticket: self.ticket_of(&cipher),
            authenticator: EncryptedData { etype: session.etype().number(), kvno: None, cipher: &sealed },
        };
        let message = ap_req.encode();
        match self.mechanism {
            Some(mechanism) => Framed { mechanism, kind: TokenKind::ApReq, message: &message }.encode(),
            None => message,
        }
    }

    /// Signs in with a new acceptor of the default policy.
    pub(crate) fn accept(&self) -> Result<Accepted, Box<Refusal>> {
        self.accept_by(Policy::default(), BindingCheck::Ignored)
    }

    pub(crate) fn accept_by(&self, policy: Policy, bindings: BindingCheck) -> Result<Accepted, Box<Refusal>> {
        let token = self.token();
        let request = Request { bindings, ..request(&token) };
        Acceptor::new(policy).accept(&request, &self.keys(), &ReplayCache::new(64))
    }

    pub(crate) fn reason(&self) -> Reason {
        self.accept().expect_err("it is refused").reason
    }
}

pub(crate) fn request(token: &[u8]) -> Request<'_> {
    Request { token, now: Time::from_seconds(NOW), random: &[0xf0; 20], bindings: BindingCheck::Ignored }
}

pub(crate) fn key(etype: Etype, byte: u8) -> Key {
    Key::new(etype, &vec![byte; etype.key_len()]).unwrap()
}

fn data(elements: &[(i32, bool, Vec<u8>)]) -> AuthorizationData<'_> {
    elements
        .iter()
        .map(|(ad_type, is_critical, data)| Element { ad_type: *ad_type, is_critical: *is_critical, data })
        .collect()
}
