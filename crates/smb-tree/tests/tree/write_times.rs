//! Times of the last write, as clients hear them.

use std::sync::Arc;
use std::time::Duration;

use smb_tree::{Open, RequestContext, ShareOptions};
use smb_wire::body::close::FLAG_POSTQUERY_ATTRIB;
use smb_wire::info::file::{BasicInformation, class, plain};
use zerocopy::{FromZeros, IntoBytes};

use super::information::{file, full, set};
use super::{Side, alone, request_context};

async fn told(side: &Side, who: &RequestContext, open: &Arc<Open>) -> u64 {
    let told = file(side, who, open, class::BASIC).await.unwrap();
    plain::<BasicInformation>(&told).unwrap().last_write_time.get()
}

async fn write(side: &Side, who: &RequestContext, open: &Arc<Open>) {
    lane::time::sleep(Duration::from_millis(100)).await;
    side.share.write_bytes(who, open, 0, b"some", false).await.unwrap();
}

#[test]
fn an_open_tells_at_once_that_it_has_written() {
    alone(|side| async move {
        let who = request_context(1);
        let open = side.open(&who, "page", &full()).await;
        let made = told(&side, &who, &open).await;
        write(&side, &who, &open).await;
        assert!(told(&side, &who, &open).await > made);
        side.share.close(&who, &open, 0).await.unwrap();
    });
}

#[test]
fn where_the_share_says_so_the_open_that_writes_tells_it_late_and_once() {
    alone(|side| async move {
        let who = request_context(1);
        let options = ShareOptions { write_time_delay: Duration::from_secs(2), ..ShareOptions::default() };
        let share = side.tree.add_share("late", side.volume.clone(), options);
        let side = Side { share, ..side.clone() };
        let (open, other) = (side.open(&who, "page", &full()).await, side.open(&who, "page", &full()).await);
        let made = told(&side, &who, &open).await;
        write(&side, &who, &open).await;
        assert_eq!(told(&side, &who, &open).await, made);
        let first = told(&side, &who, &other).await;
        assert!(first > made, "to others it is as it is");
        lane::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(told(&side, &who, &open).await, first);
        write(&side, &who, &open).await;
        assert_eq!(told(&side, &who, &open).await, first, "a second write moves nothing");
        side.share.flush(&who, &open).await.unwrap();
        let flushed = told(&side, &who, &open).await;
        assert!(flushed > first);
        // A length or times, even none, end it too.
        for end in [class::BASIC, class::END_OF_FILE] {
            let before = told(&side, &who, &open).await;
            write(&side, &who, &open).await;
            assert_eq!(told(&side, &who, &open).await, before);
            let none = BasicInformation::new_zeroed();
            let data = if end == class::BASIC { none.as_bytes() } else { &4u64.to_le_bytes()[..] };
            set(&side, &who, &open, end, data).await.unwrap();
            assert!(told(&side, &who, &open).await > before);
        }
        write(&side, &who, &open).await;
        let closed = side.share.close(&who, &open, FLAG_POSTQUERY_ATTRIB).await.unwrap();
        assert_eq!(closed.last_write_time.get(), told(&side, &who, &other).await);
        side.share.close(&who, &other, 0).await.unwrap();
    });
}
