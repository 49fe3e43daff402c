//! Memory of hosts, as an allocator takes it: counted, not reckoned.

use std::net::SocketAddr;

use lane::backend::sim::{Config, World};
use lane::memory::{Counting, Taken};
use vfs::{Cache, CacheOptions, Objects, ObjectsOptions};
use xdr::afs::AfsUuid;

use super::host_identity::{HostAddress, HostIdentity};
use super::table::{HostIdentification, IdentificationStep};
use super::{HostOptions, Hosts};

#[test]
fn a_host_takes_at_most_a_kibibyte_with_all_ways_that_lead_to_it() {
    let world = World::new(1, Config::clean());
    let host = world.host("10.0.0.1");
    world.block_on(&host, async {
        let objects = Objects::in_memory(ObjectsOptions { lanes_max: 1, ..Default::default() });
        let cache = Cache::sharing(CacheOptions::default(), &objects);
        let hosts = Hosts::new(HostOptions::default(), AfsUuid([1; 16]), None);
        let before = Taken::here();
        for n in 0..COUNT {
            let [_, a, b, c] = n.to_be_bytes();
            let place =
                HostAddress { address: SocketAddr::from(([10, a, b, c], 7001)), epoch: n, local: None };
            let mut uuid = [0; 16];
            uuid[..4].copy_from_slice(&n.to_be_bytes());
            let identity = HostIdentity { uuid: Some(AfsUuid(uuid)), interfaces: vec![place.address.ip()] };
            let mut identification = HostIdentification::new(place, identity);
            identification.reset();
            let mut removed = Vec::new();
            let step = hosts.step(&identification, &mut removed, |holder| cache.client(holder)).unwrap();
            assert!(matches!(step, (IdentificationStep::Make, Some(_))) && removed.is_empty());
        }
        let each = (Taken::here().now - before.now) / COUNT as isize;
        assert!(each <= 1024, "{each} bytes a host");
        println!("{each} bytes a host, its record in vfs included");
        assert_eq!(hosts.len(), COUNT as usize);
    });
}

const COUNT: u32 = 20_000;

#[global_allocator]
static COUNTING: Counting = Counting;
