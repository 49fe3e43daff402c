//! Log messages about clients that come with a token, which AFS here does not take yet.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rx::security::{SECURITY_RXGK, SECURITY_RXKAD, SECURITY_YFS_RXGK};

/// Addresses that the log has named lately, so that each is named once in a while.
#[derive(Debug, Default)]
pub(super) struct Tokens(Mutex<LoggedAddresses>);

#[derive(Debug, Default)]
struct LoggedAddresses {
    by_address: HashMap<IpAddr, Instant>,
    last: Option<Instant>,
}

impl Tokens {
    /// Logs that a client with a token was refused, once an hour for each address, and not more often than every ten
    /// seconds in all.
    pub(super) fn refused(&self, now: Instant, remote: SocketAddr, index: u8) {
        if !self.is_to_be_logged(now, remote.ip()) {
            return;
        }
        //@ cause: An AFS client has a token of a cell, or a tool was called with `-localauth`. This server knows no tokens of AFS yet.
        //@ remedy: Discard the token on the client by `unlog`, or call the tool without `-localauth`.
        tracing::warn!(
            "AFS client {remote}: it came with a token ({class}), which this server does not take yet; its calls are refused as not \
             authenticated. On the client discard the token (`unlog`), or call the tool without `-localauth`; it is then served \
             as system:anyuser [afs-token-refused]",
            class = class(index)
        );
    }

    fn is_to_be_logged(&self, now: Instant, address: IpAddr) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let within = |at: &Instant, time| now.saturating_duration_since(*at) < time;
        if told.last.as_ref().is_some_and(|at| within(at, EVERY)) {
            return false;
        }
        told.by_address.retain(|_, at| within(at, AGAIN_AFTER));
        if told.by_address.contains_key(&address) || told.by_address.len() >= ADDRESSES_MAX {
            return false;
        }
        told.by_address.insert(address, now);
        told.last = Some(now);
        true
    }
}

fn class(index: u8) -> &'static str {
    match index {
        SECURITY_RXKAD => "rxkad: Kerberos",
        SECURITY_RXGK => "rxgk: OpenAFS",
        SECURITY_YFS_RXGK => "rxgk: AuriStorFS",
        _ => "of an unknown class",
    }
}

/// Least time between two lines.
const EVERY: Duration = Duration::from_secs(10);
/// Time after which an address is named again.
const AGAIN_AFTER: Duration = Duration::from_secs(3600);
/// Addresses that are kept; others are not named meanwhile, as they may be forged.
const ADDRESSES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_named_once_an_hour_and_forged_ones_do_not_fill_the_log() {
        let (tokens, start) = (Tokens::default(), Instant::now());
        let address = |n: u32| IpAddr::from((0x0a00_0000 + n).to_be_bytes());
        assert!(tokens.is_to_be_logged(start, address(0)));
        assert!(!tokens.is_to_be_logged(start + EVERY / 2, address(1)), "too soon after the last line");
        assert!(tokens.is_to_be_logged(start + EVERY, address(1)));
        assert!(!tokens.is_to_be_logged(start + AGAIN_AFTER / 2, address(0)));
        assert!(tokens.is_to_be_logged(start + AGAIN_AFTER, address(0)));
        let flood = start + 2 * AGAIN_AFTER;
        let lines =
            (0..100_000).filter(|&n| tokens.is_to_be_logged(flood + EVERY * n / 100, address(n))).count();
        assert!(lines <= 1_000 && tokens.0.lock().unwrap().by_address.len() <= ADDRESSES_MAX, "{lines}");
    }
}
