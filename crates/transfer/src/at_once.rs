//! Several files of one directory at once.

use futures_util::{StreamExt, TryStreamExt, stream};

/// Moves these files, a few at a time, and says how many bytes they were together.
///
/// # Errors
/// That of the first which fails; the others are not moved to their end.
pub async fn files_at_once<F: Future<Output = Result<u64, E>>, E>(
    files: impl IntoIterator<Item = F>,
) -> Result<u64, E> {
    let moving = stream::iter(files).buffer_unordered(AT_ONCE);
    moving.try_fold(0, |sum, bytes| async move { Ok(sum + bytes) }).await
}

const AT_ONCE: usize = 8;
