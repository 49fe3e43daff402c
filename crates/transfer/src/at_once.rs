//! Several files of one directory at once.

use std::cell::Cell;
use std::future::ready;

use futures_util::{StreamExt, stream};

use crate::progress::Tree;

/// Moves files, a few at a time, and counts each in `tree`: `Some` bytes for a moved file, `None` for a file
/// that was left out.
///
/// # Errors
/// The first. No file is begun after it; those under way come to their end, so that they clean up.
pub async fn files_at_once<F: Future<Output = Result<Option<u64>, E>>, E>(
    tree: &mut Tree,
    files: impl IntoIterator<Item = F>,
) -> Result<(), E> {
    let is_over = Cell::new(false);
    let begun = stream::iter(files).take_while(|_| ready(!is_over.get()));
    let mut moving = begun.buffer_unordered(AT_ONCE);
    let mut first = Ok(());
    while let Some(moved) = moving.next().await {
        match moved {
            Ok(Some(bytes)) => {
                tree.files += 1;
                tree.bytes += bytes;
            }
            Ok(None) => tree.failed += 1,
            Err(error) => {
                is_over.set(true);
                first = first.and(Err(error));
            }
        }
    }
    first
}

const AT_ONCE: usize = 8;

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_file_that_fails_is_counted_and_an_error_lets_those_under_way_end() {
        let mut tree = Tree::default();
        let moved = (0..30).map(|n| ready(Ok::<_, ()>((n % 3 > 0).then_some(n))));
        assert_eq!(files_at_once(&mut tree, moved).now_or_never(), Some(Ok(())));
        assert_eq!((tree.files, tree.failed, tree.bytes), (20, 10, (0..30).filter(|n| n % 3 > 0).sum()));
        let (begun, ended) = (Cell::new(0), Cell::new(0));
        let (begun, ended) = (&begun, &ended);
        let moving = (0..30).map(|n| async move {
            begun.set(begun.get() + 1);
            if n == 2 {
                return Err(n);
            }
            // It is waited for once more, so that the error comes before its end.
            let mut is_late = false;
            std::future::poll_fn(|context| {
                context.waker().wake_by_ref();
                if std::mem::replace(&mut is_late, true) {
                    std::task::Poll::Ready(())
                } else {
                    std::task::Poll::Pending
                }
            })
            .await;
            ended.set(ended.get() + 1);
            Ok(Some(1))
        });
        let error = lane_free(files_at_once(&mut Tree::default(), moving));
        assert_eq!(error, Err(2));
        assert_eq!(begun.get(), ended.get() + 1, "what was begun came to its end");
        assert!(begun.get() < 30, "{}", begun.get());
    }

    /// Runs a future that never waits for anything outside.
    fn lane_free<T>(future: impl Future<Output = T>) -> T {
        let mut future = Box::pin(future);
        loop {
            if let Some(done) = future.as_mut().now_or_never() {
                return done;
            }
        }
    }
}
