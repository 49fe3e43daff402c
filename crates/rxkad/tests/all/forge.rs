//! A KDC and a cell in one: makes tickets and tokens, right unless a test changes a field.

use krb::crypto::usage;
use krb::keytab::{KeyEntry, KeyUse};
use krb::message::{AuthorizationData, EncTicketPart, EncryptedData, Principal, Ticket, TicketFlags};
use krb::{Etype, Key, Keys, SessionKey, Time};
use rxkad::wire::KVNO_TICKET;
use rxkad::{DesKey, ServiceKeys, Token};

/// 2026-11-30, about.
pub(crate) const NOW: i64 = 1_796_000_000;

#[derive(Clone)]
pub(crate) struct Forge {
    pub(crate) key: Key,
    pub(crate) kvno: u32,
    /// The type's number that the ticket names.
    pub(crate) etype: i32,
    pub(crate) client: Principal,
    pub(crate) session: SessionKey,
    pub(crate) flags: TicketFlags,
    pub(crate) auth_time: i64,
    pub(crate) end_time: i64,
}

impl Forge {
    pub(crate) fn new() -> Self {
        Self {
            key: key(Etype::Aes256Sha1, 0x11),
            kvno: 3,
            etype: 18,
            client: Principal::new(&["alice"], "TEST.LOCAL"),
            session: SessionKey::from(&key(Etype::Aes256Sha1, 0x22)),
            flags: TicketFlags::default(),
            auth_time: NOW - 3_600,
            end_time: NOW + 3_600,
        }
    }

    pub(crate) fn of(components: &[&str], realm: &str) -> Self {
        Self { client: Principal::new(components, realm), ..Self::new() }
    }

    /// The cell's key, as KeyFileExt has it.
    pub(crate) fn entry(&self) -> KeyEntry {
        KeyEntry {
            file: "forged".into(),
            number: 1,
            principal: None,
            kvno: self.kvno,
            etype: self.key.etype().number(),
            written: None,
            key_use: KeyUse::RxkadKrb5,
            key: Ok(self.key.clone()),
        }
    }

    pub(crate) fn keys(&self) -> ServiceKeys {
        ServiceKeys::new(Keys::new([self.entry()]))
    }

    fn cipher(&self) -> Vec<u8> {
        let part = EncTicketPart {
            flags: self.flags,
            key: self.session.clone(),
            client: self.client.clone(),
            transited_type: 1,
            transited: &[],
            auth_time: Time::from_seconds(self.auth_time),
            start_time: None,
            end_time: Time::from_seconds(self.end_time),
            renew_till: None,
            authorization_data: AuthorizationData::default(),
        };
        self.key.encrypt(usage::TICKET, &part.encode(), &[7; 16])
    }

    pub(crate) fn ticket(&self) -> Vec<u8> {
        let cipher = self.cipher();
        let encrypted = EncryptedData { etype: self.etype, kvno: Some(self.kvno), cipher: &cipher };
        Ticket { service: Principal::new(&["afs", "test.local"], "TEST.LOCAL"), encrypted }.encode()
    }

    /// The ticket's encrypted part alone.
    pub(crate) fn encrypted_part(&self) -> Vec<u8> {
        let cipher = self.cipher();
        EncryptedData { etype: self.etype, kvno: Some(self.kvno), cipher: &cipher }.encode()
    }

    pub(crate) fn token(&self) -> Token {
        let end = Time::from_seconds(self.end_time);
        Token::from_service_ticket(&self.ticket(), &self.session, end).expect("a token")
    }

    /// A token of any kvno field and ticket, with the key that is right for this session.
    pub(crate) fn token_of(&self, kvno: u32, ticket: &[u8]) -> Token {
        let key = DesKey::derive(&self.session).unwrap_or(DesKey::from_bytes([8; 8]));
        Token::new(kvno, ticket, key, Time::from_seconds(self.end_time)).expect("a token")
    }

    /// As [`token`](Self::token), of whatever session key.
    pub(crate) fn any_token(&self) -> Token {
        self.token_of(KVNO_TICKET, &self.ticket())
    }

    pub(crate) fn local_auth(&self) -> Token {
        Token::local_auth(&self.entry(), *b"\x01\x23\x45\x67\x89\xab\xcd\xef", &[9; 16]).expect("a token")
    }
}

pub(crate) fn key(etype: Etype, byte: u8) -> Key {
    Key::new(etype, &vec![byte; etype.key_len()]).expect("a key")
}
