//! GET and HEAD of a directory without an index file: its listing, for people or programs.

use httptypes::StatusCode;
use vfs::{Caller, Directory, RelPath};

use super::dispatch::to_directory;
use super::reply::{Body, Reply};
use super::site::Site;
use crate::listing::{self, Entry, Format, Listing, Order, Rendering};
use crate::page;
use crate::path::RelativePath;
use crate::refusal::Refusal;
use crate::request::Head;
use crate::response::Answer;

/// Lists a directory of a volume, and what is mounted in it.
pub(super) async fn list_directory(
    site: &Site,
    head: &Head<'_>,
    who: &Caller,
    path: &[u8],
    directory: &Directory,
    query: Option<&[u8]>,
) -> Result<Reply, Refusal> {
    let listed = directory.entries_as(who, site.limits.listing_entries_max).await?;
    let order = Order::from_query(query);
    let added = mounted(site, path).await;
    Ok(reply(head, Listing::of_directory(path, order, listed, added).await))
}

/// Lists a directory that exists only because volumes are mounted below it.
pub(super) async fn list_mounts(
    site: &Site,
    head: &Head<'_>,
    path: &RelativePath<'_>,
    query: Option<&[u8]>,
) -> Result<Reply, Refusal> {
    if site.mounted_below(&path.bytes).is_empty() {
        return Err(Refusal::NotFound);
    }
    if !path.directory {
        return Ok(to_directory(&path.bytes, query));
    }
    let entries = mounted(site, &path.bytes).await;
    Ok(reply(head, Listing::of_entries(&path.bytes, Order::from_query(query), entries)))
}

/// What is mounted in a directory. A mounted volume's directory has a time of change, the way to one has not.
async fn mounted(site: &Site, path: &[u8]) -> Vec<Entry> {
    let mut entries = Vec::new();
    for (name, mount) in site.mounted_below(path) {
        let modified_s = match mount {
            Some(mount) => {
                mount.volume.lookup(RelPath::ROOT).await.ok().map(|root| root.attributes().mtime.secs)
            }
            None => None,
        };
        entries.push(Entry { name, directory: true, size: 0, modified_s });
    }
    entries
}

fn reply(head: &Head<'_>, listing: Listing) -> Reply {
    let format = if page::wants_json(head.fields.accept.as_deref()) { Format::Json } else { Format::Html };
    let is_html = format == Format::Html;
    let answer = Answer {
        status: StatusCode::OK,
        content_type: Some(if is_html { page::HTML } else { listing::JSON }),
        content_security_policy: is_html.then(listing::policy),
        vary: Some("Accept"),
        // The directory may change at any time, and no validator would say so.
        cache_control: Some("no-cache"),
        ..Answer::default()
    };
    Reply::new(answer, Body::Listing(Box::new(Rendering::new(listing, format))))
}
