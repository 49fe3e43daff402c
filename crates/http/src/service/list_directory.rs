//! GET and HEAD of a directory without an index file: its listing, for people or programs.

use httptypes::StatusCode;
use vfs::{Caller, Directory, Error, RelPath};

use super::reply::{Body, Reply};
use super::site::Site;
use crate::listing::{self, Format, Listing, MountEntry, Order, Rendering, Streamed};
use crate::page;
use crate::path::RelativePath;
use crate::redirect;
use crate::request::Head;
use crate::request_error::RequestError;
use crate::response::Answer;

/// Lists a directory of a volume, and what is mounted in it: sorted, or as it is read where it has more entries than are sorted.
pub(super) async fn list_directory(
    site: &Site,
    head: &Head<'_>,
    caller: &Caller,
    path: &[u8],
    directory: &Directory,
    query: Option<&[u8]>,
) -> Result<Reply, RequestError> {
    let (sorted_max, entries_max) = (site.limits.listing_sorted_max, site.limits.listing_entries_max);
    let position = match position(query) {
        Some(position) => position,
        None => match directory.entries_as(caller, sorted_max.min(entries_max)).await {
            Ok(listed) => {
                let order = Order::from_query(query);
                let added = mounted(site, path).await;
                let listing = Listing::of_directory(path, order, listed, added).await;
                return Ok(reply(Rendering::new(listing, format(head))));
            }
            Err(Error::TooLarge { .. }) if entries_max > sorted_max => 0,
            Err(error) => return Err(error.into()),
        },
    };
    let descriptor =
        lane::descriptors::budget().take(caller.consumer, 1).map_err(|_| RequestError::Overloaded)?;
    let parts = directory.parts_as(caller, position).await?;
    let added = mounted(site, path).await;
    let streamed = Streamed::new(path, parts, added, entries_max, descriptor);
    let mut rendering = Rendering::streamed(streamed, format(head));
    // What fails at once is refused; what fails later cuts the answer.
    rendering.prepare(None).await?;
    Ok(reply(rendering))
}

/// Sends the client to the name with a slash, so that relative links in the directory's page work.
pub(super) fn to_directory(path: &[u8], query: Option<&[u8]>) -> Reply {
    let answer = Answer {
        status: StatusCode::MOVED_PERMANENTLY,
        location: Some(redirect::to_directory(path, query)),
        content_length: Some(0),
        ..Answer::default()
    };
    Reply::new(answer, Body::Empty)
}

/// Returns where a part of a large directory begins: `after=POSITION` of a query.
fn position(query: Option<&[u8]>) -> Option<u64> {
    let mut pairs = query?.split(|byte| *byte == b'&');
    let digits = pairs.find_map(|pair| pair.strip_prefix(b"after="))?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Lists a directory that exists only because volumes are mounted below it.
pub(super) async fn list_mounts(
    site: &Site,
    head: &Head<'_>,
    path: &RelativePath<'_>,
    query: Option<&[u8]>,
) -> Result<Reply, RequestError> {
    if site.mounted_below(&path.bytes).is_empty() {
        return Err(RequestError::NotFound);
    }
    if !path.directory {
        return Ok(to_directory(&path.bytes, query));
    }
    let entries = mounted(site, &path.bytes).await;
    let listing = Listing::of_entries(&path.bytes, Order::from_query(query), entries);
    Ok(reply(Rendering::new(listing, format(head))))
}

/// Returns what is mounted in a directory. A mounted volume's directory has a time of change, the way to one
/// has not.
async fn mounted(site: &Site, path: &[u8]) -> Vec<MountEntry> {
    let mut entries = Vec::new();
    for (name, mount) in site.mounted_below(path) {
        let modified_s = match mount {
            Some(mount) => {
                mount.volume.lookup(RelPath::ROOT).await.ok().map(|root| root.attributes().mtime.secs)
            }
            None => None,
        };
        entries.push(MountEntry { name, directory: true, size: 0, modified_s });
    }
    entries
}

fn format(head: &Head<'_>) -> Format {
    if page::wants_json(head.fields.accept.as_deref()) { Format::Json } else { Format::Html }
}

fn reply(rendering: Rendering) -> Reply {
    let is_html = rendering.format() == Format::Html;
    let answer = Answer {
        status: StatusCode::OK,
        content_type: Some(if is_html { page::HTML } else { listing::JSON }),
        content_security_policy: is_html.then(listing::policy),
        vary: Some("Accept"),
        // The directory may change at any time, and no validator would say so.
        cache_control: Some("no-cache"),
        ..Answer::default()
    };
    Reply::new(answer, Body::Listing(Box::new(rendering)))
}
