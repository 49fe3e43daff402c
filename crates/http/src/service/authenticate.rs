//! Authentication of requests (RFC 9110 11, RFC 7617): the caller that a request acts for.

use std::borrow::Cow;

use identity::Rights;
use vfs::{Caller, Error, RelPath, Resolved};

use super::client::Client;
use super::shared::Service;
use super::site::{Mount, Site};
use crate::basic;
use crate::request::{Credentials, Fields};
use crate::request_error::RequestError;
use crate::settings::Auth;

/// Authenticates the client of a request for something in `mount`, by its Authorization field. Where none is required and
/// none was sent, it costs no more than a look at the fields.
///
/// # Errors
/// [`RequestError::LoginNeeded`], [`RequestError::LoginWrong`], [`RequestError::LoginInsecure`], [`RequestError::LoginsTooMany`],
/// [`RequestError::Overloaded`].
pub(super) async fn authenticate<'s>(
    service: &Service,
    site: &'s Site,
    mount: &Mount,
    fields: &Fields<'_>,
    client: &Client,
) -> Result<Cow<'s, Caller>, RequestError> {
    let counts = match mount.auth {
        Auth::Off => false,
        Auth::WhenRequired => mount.volume.has_objects(),
        Auth::Always => true,
    };
    match fields.authorization {
        Some(credentials) if counts => Box::pin(login(service, site, mount, credentials, client)).await,
        None if mount.auth == Auth::Always => Err(challenge(client)),
        _ => Ok(Cow::Borrowed(&site.anonymous)),
    }
}

/// Turns [`RequestError::Denied`] into a challenge (RFC 9110 11.3) where the client is anonymous and a login could help.
pub(super) fn challenge_if_anonymous(refusal: RequestError, mount: &Mount, client: &Client) -> RequestError {
    match refusal {
        RequestError::Denied if mount.auth != Auth::Off && client.principal.get().is_none() => {
            challenge(client)
        }
        other => other,
    }
}

async fn login<'s>(
    service: &Service,
    site: &'s Site,
    mount: &Mount,
    credentials: Credentials<'_>,
    client: &Client,
) -> Result<Cow<'s, Caller>, RequestError> {
    // A password that an eavesdropper may have read is not looked at: its user is to learn that.
    if !client.is_private {
        return Err(RequestError::LoginInsecure);
    }
    let Some(basic) = basic::parse(credentials) else {
        // Of a scheme that is not offered nothing is known.
        return match mount.auth {
            Auth::Always => Err(RequestError::LoginNeeded),
            _ => Ok(Cow::Borrowed(&site.anonymous)),
        };
    };
    let principal = service.logins.verify(&site.accounts, client.ip, basic).await?;
    // It may have waited for longer than the accounts were in force.
    if service.site().accounts.renewed(&principal).is_none() {
        return Err(RequestError::LoginWrong);
    }
    client.running.get_or_init(|| service.user_requests.begin(principal.clone()));
    Ok(Cow::Owned(Caller::new(client.principal.get_or_init(|| principal).clone())))
}

/// Passwords are not asked for where others may listen.
fn challenge(client: &Client) -> RequestError {
    if client.is_private { RequestError::LoginNeeded } else { RequestError::LoginInsecure }
}

impl Mount {
    /// Returns what `path` names, to be read by `caller`.
    pub(super) async fn lookup(&self, caller: &Caller, path: RelPath<'_>) -> Result<Resolved, Error> {
        let found = self.volume.lookup_as(caller, path, Rights::READ).await?;
        self.volume.note_look(path, &found);
        Ok(found)
    }
}
