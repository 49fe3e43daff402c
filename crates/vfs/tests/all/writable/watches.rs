//! Limits on directories that clients watch.

use std::net::{IpAddr, Ipv6Addr};

use budget::{Consumer, UserNumber};
use lane::backend::sim::Config;
use vfs::{EventMask, WatchOptions};

use super::{name, nobody, on_lanes, root};

#[test]
fn who_watches_from_many_addresses_leaves_some_to_others_and_gives_back_what_it_ends() {
    on_lanes(1, Config::clean(), 1, |_, _, volume| async move {
        let above = root(&volume).await;
        let mut directories = Vec::new();
        for n in 0..256 {
            let made = above.make_directory(&nobody(), name(&n.to_string()), 0o755).await;
            directories.push(made.unwrap());
        }
        let directory = |n: usize| &directories[n % directories.len()];
        let how = WatchOptions { beneath: false, kinds: EventMask::FILES };
        let v6 = |high: u128| IpAddr::from(Ipv6Addr::from_bits(0x2001_0db8 << 96 | high << 64 | 1));
        let user = Some(UserNumber(7));
        let crowds: [(Vec<Consumer>, usize); 4] = [
            (vec![IpAddr::from([192, 0, 2, 1]).into()], 3),
            ((0..256).map(|high| v6(high).into()).collect(), 4),
            ((0..256).map(|high| v6(high << 8).into()).collect(), 6),
            ((0..256).map(|n| Consumer { address: v6(n << 16), user }).collect(), 3),
        ];
        for (crowd, times) in crowds {
            let watch = |n: usize| directory(n / 256).watch(how, crowd[n % crowd.len()]);
            let watches: Vec<_> = (0..ALL).map_while(watch).collect();
            let share = ALL * times / (times + 1);
            assert!((share - 1..=share + 1).contains(&watches.len()), "{} of {share}", watches.len());
            let other = Consumer { address: [198, 51, 100, 7].into(), user: Some(UserNumber(8)) };
            assert!(directory(0).watch(how, other).is_some());
        }
    });
}

const ALL: usize = 65_536;
