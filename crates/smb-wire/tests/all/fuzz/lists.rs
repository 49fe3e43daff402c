//! Any list and any structure that is read later is read or refused.

use smb_wire::body::error::SymlinkError;
use smb_wire::chain::Entries;
use smb_wire::create::context::Contexts;
use smb_wire::fsctl::{copy, interfaces, negotiate_info, pipe_wait, ranges, reparse};
use smb_wire::info::{directory, ea, file, notify, security, stream};

#[test]
fn any_list_is_read_or_refused() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let total: usize = Entries::new(bytes, 8, 8).map_while(Result::ok).map(<[u8]>::len).sum();
        assert!(total <= bytes.len());
        if let Ok(contexts) = Contexts::parse(bytes) {
            contexts.iter().for_each(drop);
        }
        for class in directory::Class::ALL {
            for entry in directory::parse(bytes, class).flatten() {
                assert!(entry.name.len() * 2 <= bytes.len());
            }
        }
        assert!(ea::parse(bytes).count() <= bytes.len());
        assert!(notify::parse(bytes).count() <= bytes.len());
        assert!(stream::parse(bytes).count() <= bytes.len());
        assert!(interfaces::parse(bytes).count() <= bytes.len());
    });
}

#[test]
fn any_structure_is_read_or_refused() {
    bolero::check!().for_each(|bytes: &[u8]| {
        if let Ok(descriptor) = security::Descriptor::parse(bytes) {
            let again =
                security::Descriptor::parse(&descriptor.to_bytes()).expect("what was read can be written");
            assert_eq!(again, descriptor);
        }
        if let Ok((_, data)) = reparse::parse(bytes)
            && let Ok(link) = reparse::Symlink::parse(data)
            && let Some(again) = link.to_bytes()
        {
            let (_, data) = reparse::parse(&again).expect("whole");
            assert_eq!(reparse::Symlink::parse(data), Ok(link));
        }
        let _ = SymlinkError::parse(bytes);
        let _ = file::Rename::parse(bytes);
        let _ = file::parse_name(bytes);
        let _ = copy::Copy::parse(bytes).map(|copy| copy.is_too_much());
        let _ = negotiate_info::ValidateRequest::parse(bytes).map(|request| request.to_bytes());
        let _ = pipe_wait::parse(bytes).map(|name| assert!(name.len() * 2 <= bytes.len()));
        let _ = (ranges::parse_zero(bytes), ranges::parse_query(bytes), ranges::parse_allocated(bytes));
    });
}
