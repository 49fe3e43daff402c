//! AllocationSize is what the file system says that a file takes, in whatever is told of it.

use std::sync::Arc;

use smb_tree::{Open, RequestContext};
use smb_wire::body::query_directory::flags;
use smb_wire::create::Disposition;
use smb_wire::fsctl::code;
use smb_wire::info::directory::{Class, parse};
use smb_wire::info::file::{AllInformationFixed, NetworkOpenInformation, StandardInformation, class, plain};
use smb_wire::info::posix::PosixHead;
use smb_wire::info::stream;

use super::directories::{answered, root};
use super::information::{file, full, set};
use super::{Side, Wish, alone, request_context};

/// By each class and response that tells it, with the end of file beside.
async fn told(side: &Side, who: &RequestContext, open: &Arc<Open>, name: &str) -> Vec<(String, u64, u64)> {
    let mut all = Vec::new();
    let mut add = |by: &str, size: u64, allocation: u64| all.push((by.to_owned(), size, allocation));
    let output = file(side, who, open, class::STANDARD).await.unwrap();
    let standard = plain::<StandardInformation>(&output).unwrap();
    add("standard", standard.end_of_file.get(), standard.allocation_size.get());
    let output = file(side, who, open, class::ALL).await.unwrap();
    let standard = &plain::<AllInformationFixed>(&output).unwrap().standard;
    add("all", standard.end_of_file.get(), standard.allocation_size.get());
    let output = file(side, who, open, class::NETWORK_OPEN).await.unwrap();
    let network = plain::<NetworkOpenInformation>(&output).unwrap();
    add("network open", network.end_of_file.get(), network.allocation_size.get());
    let output = file(side, who, open, class::POSIX).await.unwrap();
    let posix = plain::<PosixHead>(&output).unwrap();
    add("posix", posix.end_of_file.get(), posix.allocation_size.get());
    let output = file(side, who, open, class::STREAM).await.unwrap();
    for (head, _) in stream::parse(&output).map(Result::unwrap).filter(|(_, name)| name.lossy() == "::$DATA")
    {
        add("streams", head.stream_size.get(), head.stream_allocation_size.get());
    }
    let directory = root(side, who).await;
    for class in Class::ALL.into_iter().filter(|class| *class != Class::Names) {
        let output = answered(side, who, &directory, (name, flags::REOPEN, class, 4096)).await.unwrap();
        for entry in parse(&output, class).map(Result::unwrap) {
            let by = format!("{class:?}");
            match (entry.head, entry.posix) {
                (Some(head), _) => add(&by, head.end_of_file.get(), head.allocation_size.get()),
                (None, Some((head, _))) => add(&by, head.end_of_file.get(), head.allocation_size.get()),
                (None, None) => panic!("{by} tells none"),
            }
        }
    }
    side.share.close(who, &directory, 0).await.unwrap();
    let created = side.create(who, name, &Wish::new(Disposition::Open)).await.unwrap();
    add("CREATE", created.fixed.end_of_file.get(), created.fixed.allocation_size.get());
    let closed = side.share.close(who, &created.open, 1).await.unwrap();
    add("CLOSE", closed.end_of_file.get(), closed.allocation_size.get());
    all
}

#[test]
fn every_class_and_response_tells_what_is_allocated() {
    alone(|side| async move {
        let who = RequestContext { posix: true, ..request_context(1) };
        let open = side.open(&who, "page", &full()).await;
        let is = async |what: &str, size: u64, allocation: u64| {
            for (by, end, allocated) in told(&side, &who, &open, "page").await {
                assert_eq!((end, allocated), (size, allocation), "{what}, {by}");
            }
        };
        is("nothing", 0, 0).await;
        side.share.ioctl(&who, &open, code::SET_SPARSE, &[], 0).await.unwrap();
        let gib = 1u64 << 30;
        set(&side, &who, &open, class::END_OF_FILE, &gib.to_le_bytes()).await.unwrap();
        is("a hole", gib, 0).await;
        side.share.write_bytes(&who, &open, 1 << 20, b"12345", false).await.unwrap();
        is("a page in it", gib, 4096).await;
        let zeroed = [0u64.to_le_bytes(), (1u64 << 21).to_le_bytes()].concat();
        side.share.ioctl(&who, &open, code::SET_ZERO_DATA, &zeroed, 0).await.unwrap();
        is("a hole again", gib, 0).await;
        set(&side, &who, &open, class::END_OF_FILE, &10u64.to_le_bytes()).await.unwrap();
        set(&side, &who, &open, class::ALLOCATION, &4096u64.to_le_bytes()).await.unwrap();
        is("room set aside", 10, 4096).await;
        side.share.close(&who, &open, 0).await.unwrap();
    });
}
