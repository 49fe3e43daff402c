//! Arbitrary bytes in a file's attribute are read or refused, and what was read is judged and handed down.

use identity::Accounts;
use smb_sid::{Sids, inherited, ntacl};
use smb_wire::info::security::Sid;

#[test]
fn any_attribute_is_read_or_refused() {
    let (sids, who) = (Sids::new("files"), Accounts::none().anonymous());
    bolero::check!().for_each(|bytes: &[u8]| {
        let Ok(descriptor) = ntacl::parse(bytes) else { return };
        let again = ntacl::encode(&descriptor).map(|value| ntacl::parse(&value));
        assert_eq!(again, Some(Ok(descriptor.clone())));
        let _ = sids.granted(&who, &descriptor);
        if let Some(made) = inherited(&descriptor, true, Sid::LOCAL_SYSTEM, Sid::LOCAL_SYSTEM) {
            assert!(made.dacl.as_ref().is_some_and(|aces| !aces.is_empty()));
            let again = ntacl::encode(&made).map(|value| ntacl::parse(&value));
            assert_eq!(again, Some(Ok(made)));
        }
    });
}
