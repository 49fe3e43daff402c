//! What an acceptor accepts.

use super::Reason;
use crate::gss::ChannelBindings;
use crate::message::Principal;

/// What an acceptor accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The services that tickets may be for; empty: any that a key opens.
    pub services: Vec<ServiceName>,
    /// How far a client's clock may be off, seconds.
    pub clock_skew_seconds: u32,
    /// How far ahead a ticket's start may lie, seconds.
    pub ticket_start_ahead_seconds: u32,
    /// How long after its end a ticket is accepted, seconds.
    pub ticket_end_grace_seconds: u32,
    /// The longest life of a ticket, seconds.
    pub ticket_lifetime_seconds_max: Option<u32>,
    /// Whether tickets that passed realms must have the KDC's word that it checked them. Active Directory does not give it.
    pub is_transit_checked: bool,
    /// Set if a client that has the AFS cell's key is its superuser, as with `-localauth`.
    pub has_local_auth: bool,
}

impl Policy {
    /// For rxkad: no grace at the end, a start up to 15 minutes ahead, 30 days at most, local superusers.
    pub fn rxkad() -> Self {
        Self {
            ticket_start_ahead_seconds: 15 * 60,
            ticket_end_grace_seconds: 0,
            ticket_lifetime_seconds_max: Some(30 * 86_400),
            has_local_auth: true,
            ..Self::default()
        }
    }

    pub(super) fn check_service(&self, service: &Principal) -> Result<(), Reason> {
        if self.services.is_empty() || self.services.iter().any(|name| name.matches(service)) {
            Ok(())
        } else {
            Err(Reason::Service(service.clone()))
        }
    }
}

impl Default for Policy {
    /// Any service, clocks 300 s apart, no local superusers.
    fn default() -> Self {
        Self {
            services: Vec::new(),
            clock_skew_seconds: 300,
            ticket_start_ahead_seconds: 300,
            ticket_end_grace_seconds: 300,
            ticket_lifetime_seconds_max: None,
            is_transit_checked: true,
            has_local_auth: false,
        }
    }
}

/// A service that tickets may be for. The name on a ticket is not protected: it keeps honest clients apart, keys keep others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceName {
    /// Any host's service of this class, such as `cifs`; case does not matter. `host` is the machine's account too: `NAME$`.
    Class(String),
    /// This principal alone.
    Principal(Principal),
}

impl ServiceName {
    /// Whether a ticket's service is this one.
    pub fn matches(&self, service: &Principal) -> bool {
        match self {
            Self::Class(class) => match &service.components[..] {
                [first, _, ..] => first.eq_ignore_ascii_case(class),
                [account] => account.ends_with('$') && class.eq_ignore_ascii_case("host"),
                [] => false,
            },
            Self::Principal(principal) => principal == service,
        }
    }
}

/// How the channel bindings of a client are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindingCheck {
    /// There is no channel to be bound to, or it does not matter.
    Ignored,
    /// They must be these if the client gives any.
    IfGiven(ChannelBindings),
    /// The client must give these.
    Required(ChannelBindings),
}
