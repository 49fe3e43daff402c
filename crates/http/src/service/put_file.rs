//! PUT: the body becomes a file of its own aside, which takes the name in one step when it is whole (RFC 9110 9.3.4).
//!
//! Whatever happens before that, the name leads to what it led to, and nothing is left behind.

use std::time::{Duration, Instant};

use httptypes::StatusCode;
use identity::Rights;
use lane::time::now;
use vfs::{Caller, Published, Resolved, Staged};

use super::change_target::{ChangeTarget, expect, is_conditional};
use super::client::Client;
use super::refuse::of_change;
use super::reply::{Body, Reply};
use super::request_body::RequestBody;
use super::requests::UserGone;
use super::shared::Service;
use super::site::Site;
use super::uploads::UploadPlace;
use crate::limits::Limits;
use crate::path;
use crate::request::{Fields, Head};
use crate::request_error::RequestError;
use crate::response::Answer;

/// Stores a file. Everything that can be known beforehand is, before the body is asked for.
pub(super) async fn put_file(
    service: &Service,
    site: &Site,
    head: &Head<'_>,
    client: &Client,
    target: ChangeTarget<'_>,
    body: &mut RequestBody<'_>,
) -> Result<Reply, RequestError> {
    let fields = &head.fields;
    check_form(fields, &target)?;
    let length = body.length();
    if length.is_some_and(|length| length > site.limits.upload_bytes_max) {
        return Err(RequestError::UploadTooLarge);
    }
    let is_long = length.is_none_or(|length| length >= ASKED_FROM);
    if is_conditional(fields) || head.expect_continue || is_long {
        check_found(fields, &target).await?;
    }
    if let Some(length) = length.filter(|&length| length >= ASKED_FROM) {
        check_room(&target, length).await?;
    }
    let place = service.uploads.begin(client, &site.limits)?;
    let (caller, directory) = (target.caller, &target.directory);
    directory.volume().fits(length.unwrap_or(0)).map_err(of_change)?;
    let staged = directory.stage(caller, MODE).await.map_err(of_change)?;
    body.invite().await?;
    let filling = fill(service, &site.limits, &place, &staged, body);
    match client.running.get() {
        Some(running) => {
            running.unless_gone(filling).await.map_err(|UserGone| RequestError::LoginWrong)??
        }
        None => filling.await?,
    }
    let stamp = staged.stamp().await.map_err(of_change)?;
    if site.uploads_synced {
        staged.sync().await.map_err(of_change)?;
    }
    let allows = |found: Option<&_>| target.allows(fields, found);
    let caller = &present_caller(service, client)?;
    let published = staged.publish(caller, target.name, expect(fields, &allows)).await.map_err(of_change)?;
    if site.uploads_synced {
        directory.sync().await.map_err(of_change)?;
    }
    service.counters.uploads.increment();
    Ok(stored(&target, &published, published.attributes.mtime == stamp))
}

/// Returns the caller by the accounts of now: those in which it was found may have gone while the body came.
fn present_caller(service: &Service, client: &Client) -> Result<Caller, RequestError> {
    let site = service.site();
    let Some(principal) = client.principal.get() else { return Ok(site.anonymous.clone()) };
    site.accounts.renewed(principal).map(Caller::new).ok_or(RequestError::LoginWrong)
}

/// Refuses what is no upload of a whole file.
fn check_form(fields: &Fields<'_>, target: &ChangeTarget<'_>) -> Result<(), RequestError> {
    if fields.content_range.is_some() {
        return Err(RequestError::ContentRange);
    }
    let is_coded = |coding: &[u8]| !coding.trim_ascii().eq_ignore_ascii_case(b"identity");
    if fields
        .content_encoding
        .as_deref()
        .is_some_and(|codings| codings.split(|byte| *byte == b',').any(is_coded))
    {
        return Err(RequestError::ContentCoding);
    }
    if target.is_directory { Err(RequestError::IsDirectory) } else { Ok(()) }
}

/// Refuses early what would be refused at the end.
async fn check_found(fields: &Fields<'_>, target: &ChangeTarget<'_>) -> Result<(), RequestError> {
    let found = match target.found(Rights::DELETE).await? {
        Some(Resolved::Directory(..)) => return Err(RequestError::IsDirectory),
        Some(Resolved::File(_, attributes)) => Some(attributes),
        None => None,
    };
    if target.allows(fields, found.as_ref()) { Ok(()) } else { Err(RequestError::PreconditionFailed) }
}

/// Refuses what there is no room for beside what the name leads to now, which stays until the end.
async fn check_room(target: &ChangeTarget<'_>, length: u64) -> Result<(), RequestError> {
    // A file system that does not tell refuses when it is full.
    match target.mount.volume.room().await {
        Ok(room) if room.blocks_free.saturating_mul(room.block_bytes) < length => Err(RequestError::NoSpace),
        _ => Ok(()),
    }
}

/// Writes the body to the staged file, each piece from where it was received.
async fn fill(
    service: &Service,
    limits: &Limits,
    place: &UploadPlace,
    staged: &Staged,
    body: &mut RequestBody<'_>,
) -> Result<(), RequestError> {
    let mut pace = Pace::new(limits);
    let mut at = 0;
    while let Some(piece) = place.unless_evicted(body.next(pace.deadline(at))).await?? {
        let (begun, len) = (now(), piece.len());
        if at + len > limits.upload_bytes_max {
            return Err(RequestError::UploadTooLarge);
        }
        let (written, _) = staged.write_vectored_at(at, piece.bufs).await;
        written.map_err(of_change)?;
        at += len;
        place.count(len);
        service.counters.upload_bytes.add(len);
        pace.pause(now().duration_since(begun));
        // A client that always has more must not keep the lane to itself.
        lane::yield_if_due().await;
    }
    Ok(())
}

/// Time when a client must have sent more.
struct Pace {
    /// Time that the disk took does not count.
    started: Instant,
    patience: Duration,
    rate_min: u64,
}

impl Pace {
    fn new(limits: &Limits) -> Self {
        Self { started: now(), patience: limits.write_stall_timeout, rate_min: limits.upload_rate_min }
    }

    /// Returns the deadline of a client that has sent so many bytes.
    fn deadline(&self, bytes: u64) -> Instant {
        let stands_still = now() + self.patience;
        if self.rate_min == 0 {
            return stands_still;
        }
        let paid = Duration::from_millis(bytes.saturating_mul(1000) / self.rate_min);
        self.started.checked_add(paid + self.patience).map_or(stands_still, |slow| slow.min(stands_still))
    }

    fn pause(&mut self, time: Duration) {
        self.started += time;
    }
}

/// Answers 201 for a new file, 204 for a new version of one. `has_own_stamp` says that its tag will never be another's.
fn stored(target: &ChangeTarget<'_>, published: &Published, has_own_stamp: bool) -> Reply {
    let answer = Answer {
        status: if published.is_new { StatusCode::CREATED } else { StatusCode::NO_CONTENT },
        content_length: published.is_new.then_some(0),
        location: published.is_new.then(|| location(target)),
        validators: has_own_stamp.then(|| target.validators(&published.attributes)),
        ..Answer::default()
    };
    Reply::new(answer, Body::Empty)
}

/// Returns the path as this server writes it.
fn location(target: &ChangeTarget<'_>) -> Vec<u8> {
    format!("/{}", path::encode(target.url)).into_bytes()
}

/// Mode of new files, as other programs make them: the umask takes what it takes.
const MODE: u32 = 0o666;
/// A longer body is not asked for in vain, a shorter one is here before its file is looked at.
const ASKED_FROM: u64 = 4 << 20;
