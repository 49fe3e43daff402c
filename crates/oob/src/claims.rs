//! Tokens that were given out: each is good once, from one address, for a while.

use std::net::IpAddr;
use std::time::Instant;

use crate::claim::{RANDOM_BYTES, Token};

/// Calls of one lane that wait for connections, each with a value of the caller's.
#[derive(Debug)]
pub struct Claims<T> {
    lane: u16,
    places: Vec<Option<Awaited<T>>>,
    free: Vec<u32>,
    max: usize,
}

#[derive(Debug)]
struct Awaited<T> {
    token: Token,
    from: IpAddr,
    until: Instant,
    what: T,
}

/// Right to [withdraw](Claims::withdraw) a token that was given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issued(Token);

/// Reason why a claim is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No call waits for the token: unknown, ended, or already connected.
    #[error("nobody waits for the token")]
    Unknown,
    /// The claim came too late.
    #[error("the token has expired")]
    Expired,
    /// The claim came from another address than the call.
    #[error("the token was given to another address")]
    Address,
}

impl<T> Claims<T> {
    //@ limit: tokens that wait for their connection
    //@ section: Out-of-band TCP
    //@ unit: token, for 10 s
    //@ connection: one for each stream
    //@ address: as its transfers
    //@ all: lane: 8 for each transfer there may be
    //@ empty: the call fails (OOB_UNCLAIMED); others feel nothing
    //@ counter: oob_unclaimed, oob_tokens_unclaimed
    //@ attack: oob-pools
    /// Makes the table of lane number `lane`, with place for at most `max` calls.
    pub fn new(lane: u16, max: usize) -> Self {
        Self { lane, places: Vec::new(), free: Vec::new(), max }
    }

    /// Gives out a token for a connection that is to come from `from` before `until`; `None` when there are too many.
    pub fn issue(
        &mut self,
        random: [u8; RANDOM_BYTES],
        from: IpAddr,
        until: Instant,
        what: T,
    ) -> Option<Issued> {
        let place = match self.free.pop() {
            Some(place) => place,
            None if self.places.len() < self.max => {
                self.places.push(None);
                u32::try_from(self.places.len() - 1).ok()?
            }
            None => return None,
        };
        let token = Token::new(self.lane, place, random);
        self.places[place as usize] = Some(Awaited { token, from: from.to_canonical(), until, what });
        Some(Issued(token))
    }

    /// Returns the value of the call that waits for a connection with this token. A token is good once;
    /// refused, it stays for the client it was given to, until its time ends.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn claim(&mut self, token: &Token, from: IpAddr, now: Instant) -> Result<T, Refusal> {
        let slot = self.places.get_mut(token.place() as usize).ok_or(Refusal::Unknown)?;
        let awaited = slot.as_ref().filter(|awaited| awaited.token.is(token)).ok_or(Refusal::Unknown)?;
        if awaited.from != from.to_canonical() {
            return Err(Refusal::Address);
        }
        let in_time = now < awaited.until;
        let taken = slot.take().ok_or(Refusal::Unknown)?;
        self.free.push(token.place());
        if in_time { Ok(taken.what) } else { Err(Refusal::Expired) }
    }

    /// Withdraws a token that no call waits for any more.
    pub fn withdraw(&mut self, issued: Issued) -> Option<T> {
        let slot = self.places.get_mut(issued.0.place() as usize)?;
        let taken = slot.take_if(|awaited| awaited.token.is(&issued.0))?;
        self.free.push(issued.0.place());
        Some(taken.what)
    }

    /// Returns the number of tokens that are given out and not claimed.
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Returns whether no token is given out.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Issued {
    /// Returns the token that was given out.
    pub fn token(&self) -> &Token {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn a_token_is_good_once_from_one_address_in_time() {
        let now = Instant::now();
        let until = now + Duration::from_secs(10);
        let mut claims = Claims::new(3, 2);
        let one = claims.issue([1; RANDOM_BYTES], HERE, until, "one").unwrap();
        let two = claims.issue([2; RANDOM_BYTES], HERE, until, "two").unwrap();
        assert_eq!(claims.issue([3; RANDOM_BYTES], HERE, until, "three"), None, "there are two places");
        assert_eq!((one.token().lane(), claims.len()), (3, 2));
        assert_eq!(claims.claim(one.token(), THERE, now), Err(Refusal::Address));
        let mapped = "::ffff:10.0.0.1".parse().unwrap();
        assert_eq!(claims.claim(one.token(), mapped, now), Ok("one"), "of a socket for both families");
        assert_eq!(claims.claim(one.token(), HERE, now), Err(Refusal::Unknown), "a replay");
        assert_eq!(claims.claim(two.token(), HERE, until), Err(Refusal::Expired));
        assert!(claims.is_empty());
    }

    #[test]
    fn a_place_that_is_used_again_knows_no_old_token() {
        let now = Instant::now();
        let until = now + Duration::from_secs(10);
        let mut claims = Claims::new(0, 1);
        let old = claims.issue([1; RANDOM_BYTES], HERE, until, "old").unwrap();
        assert_eq!(claims.withdraw(old), Some("old"));
        let new = claims.issue([2; RANDOM_BYTES], HERE, until, "new").unwrap();
        assert_eq!(claims.claim(old.token(), HERE, now), Err(Refusal::Unknown));
        assert_eq!(claims.withdraw(old), None);
        let forged = Token::new(0, 7, [2; RANDOM_BYTES]);
        assert_eq!(claims.claim(&forged, HERE, now), Err(Refusal::Unknown));
        assert_eq!(claims.withdraw(new), Some("new"));
    }
}
