//! On whose behalf a request is answered.

use std::borrow::Cow;

use identity::Rights;
use vfs::{Caller, Error, RelPath, Resolved};

use super::client::Client;
use super::listener::Service;
use super::site::{Mount, Site};
use crate::basic;
use crate::refusal::Refusal;
use crate::request::{Credentials, Fields};
use crate::settings::Auth;

/// Who makes a request of something in a volume. Of somebody who says nothing, where nothing must be said, it costs no
/// more than a look at the fields.
///
/// # Errors
/// [`Refusal::LoginNeeded`], [`Refusal::LoginWrong`], [`Refusal::LoginInsecure`], [`Refusal::LoginsTooMany`],
/// [`Refusal::Overloaded`].
pub(super) async fn who<'s>(
    service: &Service,
    site: &'s Site,
    mount: &Mount,
    fields: &Fields<'_>,
    client: &Client,
) -> Result<Cow<'s, Caller>, Refusal> {
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

/// What a refusal means to this client: who is nobody yet is asked who he is, if that can help.
pub(super) fn told(refusal: Refusal, mount: &Mount, client: &Client) -> Refusal {
    match refusal {
        Refusal::Denied if mount.auth != Auth::Off && client.who.get().is_none() => challenge(client),
        other => other,
    }
}

async fn login<'s>(
    service: &Service,
    site: &'s Site,
    mount: &Mount,
    credentials: Credentials<'_>,
    client: &Client,
) -> Result<Cow<'s, Caller>, Refusal> {
    // A password that anybody may have read is not looked at: its user is to learn that.
    if !client.is_private {
        return Err(Refusal::LoginInsecure);
    }
    let Some(basic) = basic::parse(credentials) else {
        // Of a scheme that is not offered nothing is known.
        return match mount.auth {
            Auth::Always => Err(Refusal::LoginNeeded),
            _ => Ok(Cow::Borrowed(&site.anonymous)),
        };
    };
    let principal = service.logins.verify(&site.accounts, client.ip, basic).await?;
    Ok(Cow::Owned(Caller::new(client.who.get_or_init(|| principal).clone())))
}

/// Passwords are not asked for where others may listen.
fn challenge(client: &Client) -> Refusal {
    if client.is_private { Refusal::LoginNeeded } else { Refusal::LoginInsecure }
}

impl Mount {
    /// What `path` names, to be read by `who`.
    pub(super) async fn lookup(&self, who: &Caller, path: RelPath<'_>) -> Result<Resolved, Error> {
        let found = self.volume.lookup_as(who, path, Rights::READ).await?;
        self.volume.note_look(path, &found);
        Ok(found)
    }
}
