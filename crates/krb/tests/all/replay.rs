//! A replay cache that is full.

use krb::{Acceptor, Etype, Reason, ReplayCache, Request, Time};

use crate::forge::{Forge, NOW, request};

#[test]
fn a_full_cache_refuses_the_client_and_lets_it_in_when_its_old_authenticators_have_ended() {
    let forge = Forge::new(Etype::Aes128Sha1);
    let (keys, replays, acceptor) = (forge.keys(), ReplayCache::new(1), Acceptor::default());
    let token = |confounder, time| Forge { confounder, authenticator_time: time, ..forge.clone() }.token();
    acceptor.accept(&request(&token(1, NOW)), &keys, &replays).unwrap();
    let refusal = acceptor.accept(&request(&token(2, NOW)), &keys, &replays).unwrap_err();
    assert_eq!(refusal.reason, Reason::ReplayCacheFull);
    assert!(!refusal.is_recoverable());
    let later = token(3, NOW + 301);
    let request = Request { now: Time::from_seconds(NOW + 301), ..request(&later) };
    acceptor.accept(&request, &keys, &replays).unwrap();
    assert_eq!(replays.len(), 1);
}
