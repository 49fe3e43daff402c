//! What an acceptor accepts.

use super::Reason;
use crate::gss::ChannelBindings;
use crate::message::Principal;

/// Rules by which an acceptor accepts a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The services that tickets may be for; empty: any that a key opens.
    pub services: Vec<ServiceName>,
    /// Most that a client's clock may be off, seconds.
    pub clock_skew_seconds: u32,
    /// Most that a ticket's start may lie ahead, seconds.
    pub ticket_start_ahead_seconds: u32,
    /// Time after its end during which a ticket is still accepted, seconds.
    pub ticket_end_grace_seconds: u32,
    /// The longest life of a ticket, seconds.
    pub ticket_lifetime_seconds_max: Option<u32>,
    /// Set if tickets that passed realms must carry the KDC's flag that it checked these realms. Active Directory does
    /// not set it.
    pub is_transit_checked: bool,
    /// Set if a client that has the AFS cell's key is its superuser, as with `-localauth`.
    pub has_local_auth: bool,
}

impl Policy {
    /// Returns the policy for rxkad: no grace at the end, a start up to 15 minutes ahead, 30 days at most, local
    /// superusers.
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
    /// Returns a policy of any service, clocks 300 s apart, no local superusers.
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
    /// Returns true if a ticket for `service` is a ticket for this service.
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

/// Check of the channel bindings that a client gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindingCheck {
    /// Bindings are not looked at: there is no channel to be bound to, or it does not matter.
    Ignored,
    /// Bindings must be these if the client gives any.
    IfGiven(ChannelBindings),
    /// The client must give these.
    Required(ChannelBindings),
}
