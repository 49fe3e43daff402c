//! GET and HEAD of a directory without an index file: its listing, for people or programs.

use httptypes::StatusCode;
use vfs::Directory;

use super::dispatch::to_directory;
use super::reply::Reply;
use super::site::Site;
use crate::listing::{self, Entry, Listing, Order};
use crate::page;
use crate::path::RelativePath;
use crate::refusal::Refusal;
use crate::request::Head;
use crate::response::Answer;

/// Lists a directory of a volume, and what is mounted in it.
pub(super) async fn list_directory(
    site: &Site,
    head: &Head<'_>,
    path: &[u8],
    directory: &Directory,
    query: Option<&[u8]>,
) -> Result<Reply, Refusal> {
    let listed = directory.entries(site.limits.listing_entries_max).await?;
    let mut entries: Vec<Entry> = listed
        .iter()
        .map(|entry| Entry {
            name: entry.name.to_vec(),
            directory: entry.attributes.is_directory(),
            size: if entry.attributes.is_directory() { 0 } else { entry.attributes.size },
            modified_s: entry.attributes.mtime.secs,
        })
        .collect();
    for name in site.mounted_below(path) {
        entries.retain(|entry| entry.name != name);
        entries.push(Entry { name, directory: true, size: 0, modified_s: 0 });
    }
    Ok(reply(head, path, entries, query))
}

/// Lists a directory that exists only because volumes are mounted below it.
pub(super) fn list_mounts(
    site: &Site,
    head: &Head<'_>,
    path: &RelativePath<'_>,
    query: Option<&[u8]>,
) -> Result<Reply, Refusal> {
    let names = site.mounted_below(&path.bytes);
    if names.is_empty() {
        return Err(Refusal::NotFound);
    }
    if !path.directory {
        return Ok(to_directory(&path.bytes, query));
    }
    let entries =
        names.into_iter().map(|name| Entry { name, directory: true, size: 0, modified_s: 0 }).collect();
    Ok(reply(head, &path.bytes, entries, query))
}

fn reply(head: &Head<'_>, path: &[u8], mut entries: Vec<Entry>, query: Option<&[u8]>) -> Reply {
    let order = Order::from_query(query);
    order.sort(&mut entries);
    let listing = Listing { path, entries: &entries, order };
    let mut body = Vec::new();
    let json = page::wants_json(head.fields.accept);
    if json {
        listing::json(&listing, &mut body);
    } else {
        listing::html(&listing, &mut body);
    }
    let answer = Answer {
        status: StatusCode::OK,
        content_type: Some(if json { listing::JSON } else { page::HTML }),
        content_security_policy: (!json).then(listing::policy),
        vary: Some("Accept"),
        // The directory may change at any time, and no validator would say so.
        cache_control: Some("no-cache"),
        ..Answer::default()
    };
    Reply::memory(answer, body)
}
