//! Tickets without an authenticator, as rxkad has them, and the checks that every ticket passes.

use super::{Acceptor, Client, OpenTicket, Reason, TicketKey};
use crate::Time;
use crate::keytab::Keys;
use crate::message::{EncTicketPart, EncryptedData, Principal, Ticket, TicketFlags, ad_type};
use crate::pac::Pac;

impl Acceptor {
    /// Opens a whole ticket: what comes with version 256 in rxkad.
    ///
    /// Its sender must still prove that it has the session key.
    pub fn open_ticket(&self, ticket: &[u8], keys: &Keys, now: Time) -> Result<OpenTicket, Reason> {
        if ticket.len() > Self::TOKEN_BYTES_MAX {
            return Err(Reason::TooLong);
        }
        let ticket = Ticket::parse(ticket)?;
        self.policy.check_service(&ticket.service)?;
        self.open(&ticket.encrypted, Some(&ticket.service), keys, now, &mut None)
    }

    /// Opens the encrypted part of a ticket alone: what comes with version 213 in rxkad.
    ///
    /// Its sender must still prove that it has the session key.
    pub fn open_encrypted_part(&self, part: &[u8], keys: &Keys, now: Time) -> Result<OpenTicket, Reason> {
        if part.len() > Self::TOKEN_BYTES_MAX {
            return Err(Reason::TooLong);
        }
        self.open(&EncryptedData::parse(part)?, None, keys, now, &mut None)
    }

    /// Decrypts and checks; `named` becomes the client as soon as it is known.
    pub(super) fn open(
        &self,
        sealed: &EncryptedData<'_>,
        service: Option<&Principal>,
        keys: &Keys,
        now: Time,
        named: &mut Option<Principal>,
    ) -> Result<OpenTicket, Reason> {
        let opened = keys.open(sealed, service)?;
        let ticket = EncTicketPart::parse(&opened.plain)?;
        *named = Some(ticket.client.clone());
        let client = self.client(&ticket)?;
        let start_time = ticket.start_time.unwrap_or(ticket.auth_time);
        self.check_times(&ticket, start_time, now)?;
        if self.policy.is_transit_checked
            && !ticket.transited.is_empty()
            && !ticket.flags.contains(TicketFlags::TRANSITED_POLICY_CHECKED)
        {
            return Err(Reason::Transited);
        }
        let pac = match &client {
            Client::Principal(client) => pac(&ticket, client, opened.key)?,
            Client::LocalAuth => None,
        };
        Ok(OpenTicket {
            client,
            session_key: ticket.key,
            flags: ticket.flags,
            auth_time: ticket.auth_time,
            start_time,
            end_time: ticket.end_time,
            pac,
            opened_by: TicketKey {
                kvno: opened.entry.kvno,
                etype: opened.entry.etype,
                file: opened.entry.file.clone(),
            },
        })
    }

    fn client(&self, ticket: &EncTicketPart<'_>) -> Result<Client, Reason> {
        let client = &ticket.client;
        // No KDC has an empty realm: the writer has the cell's key.
        if client.realm.is_empty() && client.components == ["afs"] && self.policy.has_local_auth {
            return Ok(Client::LocalAuth);
        }
        if client.is_unambiguous() { Ok(Client::Principal(client.clone())) } else { Err(Reason::Client) }
    }

    fn check_times(&self, ticket: &EncTicketPart<'_>, start: Time, now: Time) -> Result<(), Reason> {
        let (start, end) = (start.seconds, ticket.end_time.seconds);
        let latest_start = now.seconds.saturating_add(self.policy.ticket_start_ahead_seconds.into());
        if end.saturating_add(self.policy.ticket_end_grace_seconds.into()) < now.seconds {
            return Err(Reason::Expired);
        }
        if start > latest_start || ticket.flags.contains(TicketFlags::INVALID) {
            return Err(Reason::NotYetValid);
        }
        match self.policy.ticket_lifetime_seconds_max {
            // Tickets of `-localauth` begin at 0.
            Some(max) if start != 0 && end.saturating_sub(start) > i64::from(max) => Err(Reason::Lifetime),
            _ => Ok(()),
        }
    }
}

/// Verifies the certificate in a ticket; what must be understood and is not is refused (RFC 4120 5.2.6).
fn pac(ticket: &EncTicketPart<'_>, client: &Principal, key: &crate::Key) -> Result<Option<Pac>, Reason> {
    let mut elements = ticket.authorization_data.elements().iter();
    if let Some(unknown) =
        elements.find(|element| element.is_critical && element.ad_type != ad_type::WIN2K_PAC)
    {
        return Err(Reason::AuthorizationData(unknown.ad_type));
    }
    let pac = ticket.authorization_data.find(ad_type::WIN2K_PAC);
    Ok(pac.map(|pac| Pac::verify(pac, key, client, ticket.auth_time)).transpose()?)
}
