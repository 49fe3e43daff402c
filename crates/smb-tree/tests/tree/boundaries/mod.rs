//! Boundary values of each field of each SET_INFO, of CREATE's contexts, of control codes and of names: negative, zero, -1, -2, the largest,
//! empty, itself. What MS-FSA and MS-SMB2 answer; docs/design/smb.md lists where Samba differs.

use std::sync::Arc;

use smb_tree::{Open, RequestContext};
use smb_wire::Status;
use smb_wire::create::access::rights;
use smb_wire::create::{Disposition, options};
use smb_wire::fixed::Layout;

use crate::information::full;
use crate::{Side, Wish};

mod chains;
mod contexts;
mod control_codes;
mod copies;
mod names;
mod set_info;
mod streams;

const NEGATIVE: [i64; 4] = [-3, -1000, i64::MIN, i64::MIN + 1];
const LARGEST: u64 = 0xfff_ffff_0000;

/// A structure with one field at a boundary value, all others as they were.
struct Variant {
    field: &'static str,
    /// As a signed number of the field's length; of a longer field zeros (0) or ones (-1).
    value: i64,
    bytes: Vec<u8>,
}

/// A structure with each of its fields at each boundary value: 0, 1, 2, -1, -2, the largest and the smallest of its length.
fn varied<T: Layout>(valid: &T) -> Vec<Variant> {
    let mut variants = Vec::new();
    for field in T::FIELDS {
        let values = match field.len {
            len @ ..=8 => {
                let (max, min) = (i64::MAX >> (64 - 8 * len), i64::MIN >> (64 - 8 * len));
                vec![0, 1, 2, max, min, min + 1, -2, -1]
            }
            _ => vec![0, -1],
        };
        for value in values {
            let mut bytes = valid.as_bytes().to_vec();
            let sign = if value < 0 { 0xff } else { 0 };
            let long = value.to_le_bytes().into_iter().chain(std::iter::repeat(sign));
            bytes[field.offset..][..field.len]
                .iter_mut()
                .zip(long)
                .for_each(|(byte, of_value)| *byte = of_value);
            variants.push(Variant { field: field.name, value, bytes });
        }
    }
    variants
}

/// A CREATE of `made` with these contexts, what it comes to, and whether there is anything after it.
async fn with_contexts(side: &Side, who: &RequestContext, contexts: &[u8], oplock: u8) -> (Status, bool) {
    let wish = Wish { contexts: contexts.to_vec(), oplock, ..Wish::new(Disposition::Create) };
    let status = side.status(who, "made", &wish).await;
    let goes = Wish { access: rights::DELETE, ..Wish::new(Disposition::Open) };
    let is_there = side.status(who, "made", &goes.with(options::DELETE_ON_CLOSE)).await == Status::SUCCESS;
    (status, is_there)
}

/// What there is to set something of.
struct Opens {
    page: Arc<Open>,
    directory: Arc<Open>,
    stream: Arc<Open>,
    of_directory: Arc<Open>,
}

impl Opens {
    async fn of(side: &Side, who: &RequestContext) -> Self {
        side.make(who, "page", b"12345").await;
        let directory = side.open(who, "sub", &full().with(options::DIRECTORY_FILE)).await;
        let page = side.open(who, "page", &full()).await;
        let stream = side.open(who, "page:one", &full()).await;
        let of_directory = side.open(who, "sub:one", &full()).await;
        Self { page, directory, stream, of_directory }
    }

    fn all(&self) -> [(&'static str, &Arc<Open>); 4] {
        [
            ("a file", &self.page),
            ("a directory", &self.directory),
            ("a stream", &self.stream),
            ("a directory's stream", &self.of_directory),
        ]
    }

    async fn close(&self, side: &Side, who: &RequestContext) {
        for (_, open) in self.all() {
            side.share.close(who, open, 0).await.unwrap();
        }
    }
}
