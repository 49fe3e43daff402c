//! Memory that a grant takes.

use std::sync::Arc;

use crate::Object;
use crate::caching_grant::CachingGrant;
use crate::stream::{Open, Stream};

#[test]
fn an_open_with_a_lease_takes_at_most_168_bytes_and_an_object_in_use_300() {
    type Link = Arc<str>;
    let (open, caching_grant) = (size_of::<Open<Arc<u8>>>(), size_of::<CachingGrant>());
    assert!(open <= 88, "{open}");
    assert!(caching_grant <= 80, "{caching_grant}");
    let (object, stream) = (size_of::<Object<Link>>(), size_of::<Stream<Link>>());
    assert!(object + stream <= 300, "{object} + {stream}");
}
