//! DELETE: takes a file's name away, or an empty directory's if the path ends in a slash (RFC 9110 9.3.5).

use httptypes::StatusCode;

use super::change_target::{ChangeTarget, expect, is_conditional};
use super::refuse::of_change;
use super::reply::{Body, Reply};
use super::site::Site;
use crate::request::Head;
use crate::request_error::RequestError;
use crate::response::Answer;

/// Removes what the request names. The answer means that it stays away.
pub(super) async fn remove(
    site: &Site,
    head: &Head<'_>,
    target: ChangeTarget<'_>,
) -> Result<Reply, RequestError> {
    let ChangeTarget { caller, directory, name, .. } = &target;
    let removed = match target.is_directory {
        // A directory has no version.
        true if is_conditional(&head.fields) => return Err(RequestError::PreconditionFailed),
        true => directory.remove_directory(caller, *name).await,
        false => {
            let allows = |found: Option<&_>| target.allows(&head.fields, found);
            directory.remove_if(caller, *name, expect(&head.fields, &allows)).await
        }
    };
    removed.map_err(|error| match error {
        vfs::Error::NotFound => RequestError::NotFound,
        other => of_change(other),
    })?;
    if site.uploads_synced {
        directory.sync().await.map_err(of_change)?;
    }
    let answer = Answer { status: StatusCode::NO_CONTENT, ..Answer::default() };
    Ok(Reply::new(answer, Body::Empty))
}
