//! GET and HEAD of a file: variant, conditions, ranges, in the order of RFC 9110 13.2.

use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use httptypes::StatusCode;
use lane::budget::Share;
use vfs::{Attributes, Caller, OpenFile, RelPath, Resolved, VersionCertainty};

use super::client::Client;
use super::reply::{Body, Reply, Version};
use super::shared::Service;
use super::site::{Mount, Site};
use crate::conditional::{self, Validators, Verdict};
use crate::encoding::{Accepted, Coding};
use crate::mime;
use crate::multipart::Multipart;
use crate::page;
use crate::range::{self, ByteRange, Selection};
use crate::request::{Head, Method};
use crate::request_error::RequestError;
use crate::response::{Answer, ContentRange};

/// A file that was found by the path of a request, and the caller that reads it.
pub(super) struct FoundFile<'a> {
    pub(super) caller: &'a Caller,
    pub(super) mount: &'a Mount,
    pub(super) path: RelPath<'a>,
    pub(super) file: Rc<OpenFile>,
    pub(super) attributes: Attributes,
    /// The client that a descriptor is charged to.
    pub(super) client: &'a Client,
}

/// Answers with the file, a part of it, or the news that the client's copy is good.
pub(super) async fn get_file(
    service: &Service,
    site: &Site,
    head: &Head<'_>,
    found: FoundFile<'_>,
) -> Result<Reply, RequestError> {
    let content_type = mime::of_name(found.path.as_bytes());
    // Files of types that do not shrink have no siblings.
    let (found_mount, client) = (found.mount, found.client);
    let implied_coding = mime::implied_coding(found.path.as_bytes());
    let has_variants =
        found.mount.precompressed && implied_coding.is_none() && mime::is_compressible(content_type);
    let (mut chosen, negotiated) = match has_variants {
        true => Box::pin(choose_variant(head, found)).await,
        false => (Chosen { file: found.file, attributes: found.attributes, coding: None }, false),
    };
    let sandboxes = found_mount.sandboxes && mime::is_active(content_type);
    let mut now = lane::time::wall_clock();
    let mut standing = chosen.attributes.version_certainty(now);
    if let VersionCertainty::SettlesIn(left) = standing {
        chosen.attributes = Box::pin(settled(&chosen.file, left)).await?;
        now = lane::time::wall_clock();
        standing = chosen.attributes.version_certainty(now);
    }
    let now_s = unix_s(now);
    let distrusted = found_mount.volume.distrusts_before();
    let validators = Validators::of(&chosen.attributes, distrusted, chosen.coding, standing, now);
    let size = chosen.attributes.size;
    let mut answer = Box::new(Answer {
        status: StatusCode::OK,
        content_encoding: chosen.coding.or(implied_coding).map(Coding::name),
        validators: Some(validators),
        accept_ranges: true,
        vary: negotiated.then_some("Accept-Encoding"),
        cache_control: site.cache_control,
        content_security_policy: sandboxes.then_some(page::SANDBOX),
        ..Answer::default()
    });

    match conditional::evaluate(head.method, &head.fields, &validators) {
        Verdict::Proceed => {}
        Verdict::NotModified => {
            answer.status = StatusCode::NOT_MODIFIED;
            return Ok(Reply::new(answer, Body::Empty));
        }
        Verdict::Failed => {
            return Ok(refuse_variant(service, head, negotiated, RequestError::PreconditionFailed));
        }
    }

    answer.content_type = Some(content_type);
    let content = match head.method {
        Method::Get => service.small_files.content(&chosen.file, &chosen.attributes),
        _ => None,
    };
    let mut version = Version::new(chosen.file, chosen.attributes.change_token(), content);
    if head.method == Method::Get && size > READ_AT_ONCE {
        version.descriptor = Some(Rc::new(descriptor(client)?));
    }
    // Range has a meaning for GET alone (RFC 9110 14.2). A part of what nothing names could be joined with anything.
    let asked = head.fields.range.filter(|_| {
        head.method == Method::Get
            && standing != VersionCertainty::Open
            && conditional::range_applies(head.fields.if_range, &validators, now_s)
    });
    let selection =
        asked.map_or(Selection::Whole, |field| range::select(field, size, site.limits.ranges_max));
    match selection {
        Selection::Whole => Ok(whole(answer, version, size)),
        Selection::Unsatisfiable => {
            let mut reply = refuse_variant(service, head, negotiated, RequestError::RangeNotSatisfiable);
            reply.answer.content_range = Some(ContentRange::Unsatisfied(size));
            Ok(reply)
        }
        Selection::Parts(parts) if parts.len() == 1 => Ok(one_part(answer, version, parts[0], size)),
        Selection::Parts(ranges) => {
            let boundary = Multipart::boundary(service.random.next());
            let multipart = Multipart { ranges, boundary, content_type, size };
            // Framing that outweighs what the ranges leave out helps no client.
            if multipart.len() >= size {
                return Ok(whole(answer, version, size));
            }
            Ok(many_parts(answer, version, multipart))
        }
    }
}

/// Takes the client's share of descriptors while a body is on its way to it, which may be long: what is read
/// at once is not held.
fn descriptor(client: &Client) -> Result<Share, RequestError> {
    lane::descriptors::budget().take(client.consumer(), 1).map_err(|_| RequestError::Overloaded)
}

/// Returns the attributes of a file once the clock that stamped it has moved on, so that its tag need not
/// change then. A file that is written all the time is not waited for.
async fn settled(file: &OpenFile, left: Duration) -> Result<Attributes, RequestError> {
    // The lane's clock is that of the turn's begin, so that the first wait may be too short.
    let mut left = left;
    for _ in 0..WAITS_MAX {
        lane::time::sleep(left).await;
        let attributes = file.attributes()?;
        match attributes.version_certainty(lane::time::wall_clock()) {
            VersionCertainty::SettlesIn(more) => left = more,
            _ => return Ok(attributes),
        }
    }
    Ok(file.attributes()?)
}

fn whole(mut answer: Box<Answer>, version: Version, size: u64) -> Reply {
    let body = match size {
        0 => Body::Empty,
        _ => version.part(ByteRange { start: 0, end: size }),
    };
    answer.content_length = Some(size);
    Reply::new(answer, body)
}

fn one_part(mut answer: Box<Answer>, version: Version, part: ByteRange, size: u64) -> Reply {
    answer.status = StatusCode::PARTIAL_CONTENT;
    answer.content_length = Some(part.len());
    answer.content_range = Some(ContentRange::Part(part, size));
    Reply::new(answer, version.part(part))
}

fn many_parts(mut answer: Box<Answer>, version: Version, multipart: Multipart) -> Reply {
    answer.status = StatusCode::PARTIAL_CONTENT;
    answer.content_type = Some("multipart/byteranges");
    answer.boundary = Some(multipart.boundary);
    answer.content_length = Some(multipart.len());
    Reply::new(answer, Body::Multipart(version, Box::new(multipart)))
}

/// Refuses because of what was found of the variant chosen: another Accept-Encoding may get another answer.
fn refuse_variant(service: &Service, head: &Head<'_>, negotiated: bool, refusal: RequestError) -> Reply {
    let mut reply = super::refuse::refuse(service, refusal, &head.fields);
    if negotiated {
        reply.answer.vary = Some("Accept-Encoding, Accept");
    }
    reply
}

/// The file or one of its precompressed siblings.
struct Chosen {
    file: Rc<OpenFile>,
    attributes: Attributes,
    coding: Option<Coding>,
}

/// Picks a sibling that the client takes. The flag says that another client may get another variant,
/// which caches must know.
async fn choose_variant(head: &Head<'_>, found: FoundFile<'_>) -> (Chosen, bool) {
    let (caller, mount, path) = (found.caller, found.mount, found.path);
    let plain = Chosen { file: found.file, attributes: found.attributes, coding: None };
    let accepted = Accepted::parse(head.fields.accept_encoding.as_deref());
    for coding in accepted.preference() {
        if let Some((file, attributes)) = sibling(caller, mount, path, coding, &plain.attributes).await {
            return (Chosen { file, attributes, coding: Some(coding) }, true);
        }
    }
    for coding in Coding::ALL {
        if sibling(caller, mount, path, coding, &plain.attributes).await.is_some() {
            return (plain, true);
        }
    }
    (plain, false)
}

/// Finds the sibling of this coding, unless it was made before the file had its present content, or has another owner.
/// A user that may make a name in a directory may not say by that what another one's file holds.
async fn sibling(
    caller: &Caller,
    mount: &Mount,
    path: RelPath<'_>,
    coding: Coding,
    plain: &Attributes,
) -> Option<(Rc<OpenFile>, Attributes)> {
    let mut name = smallvec::SmallVec::<[u8; 256]>::from_slice(path.as_bytes());
    name.extend_from_slice(coding.suffix().as_bytes());
    match mount.lookup(caller, RelPath::parse(&name).ok()?).await {
        // Compressors give the file's own time stamp to what they make, so equal is not older.
        Ok(Resolved::File(file, attributes)) => {
            let stands_for_it = attributes.mtime >= plain.mtime && attributes.has_owner_of(plain);
            stands_for_it.then_some((file, attributes))
        }
        // Whatever keeps a sibling from being served, the file itself can be.
        _ => None,
    }
}

fn unix_s(now: SystemTime) -> i64 {
    now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64
}

/// Waits for one file to settle, each of a few milliseconds.
const WAITS_MAX: usize = 3;
/// Bytes of a body that are read into memory as soon as there is some.
const READ_AT_ONCE: u64 = 64 << 10;
