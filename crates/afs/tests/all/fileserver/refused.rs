//! Input that no good client sends.

use afs_wire::code::{EACCES, EINVAL, ENAMETOOLONG};
use afs_wire::{StoreStatus, rxafs};
use rx_lane::CallError;
use xdr::rpc::code::{DECODE, OPCODE, SS_UNMARSHAL};

use super::bed::{Client, code, run};

async fn raw(client: &Client, request: &[u8]) -> i32 {
    let mut call = client.connection.call().await.unwrap();
    call.write(request).await.unwrap();
    call.finish().await.unwrap();
    match call.read_to_end(1 << 20).await {
        Ok(_) => 0,
        Err(CallError::Aborted(code)) => code,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn names_that_cannot_be_are_refused() {
    run(async |bed| {
        let client = bed.client();
        let long = "n".repeat(256);
        for (name, expected) in [
            ("a/b", EINVAL),
            ("/", EINVAL),
            ("a\0b", EINVAL),
            ("", EINVAL),
            (".", EINVAL),
            ("..", EINVAL),
            ("bin.@sys", EINVAL),
            (long.as_str(), ENAMETOOLONG),
            (".linerate-1-2-3", EACCES),
        ] {
            assert_eq!(code(client.create(bed.root(), name).await), expected, "{name:?}");
            assert_eq!(code(client.make_dir(bed.root(), name).await), expected, "{name:?}");
            let remove = rxafs::RemoveFile { directory: bed.root(), name: name.into() };
            assert_eq!(code(client.call(&remove).await), expected, "{name:?}");
        }
        // One byte more breaks the interface: our stub does not even send it.
        let mut bytes = Vec::new();
        let mut request = xdr::Writer::new(&mut bytes);
        request.u32(rxafs::opcode::CREATE_FILE).unwrap();
        request.value(&bed.root()).unwrap();
        request.value(&xdr::Bytes::<1000>::from(vec![b'n'; 257])).unwrap();
        request.value(&StoreStatus::default()).unwrap();
        assert_eq!(raw(&client, &bytes).await, SS_UNMARSHAL);
        assert_eq!(client.status(bed.root()).await.unwrap().link_count, 2, "nothing was made");
    });
}

#[test]
fn what_is_not_served_is_refused_as_rxgen_has_it() {
    run(async |bed| {
        let client = bed.client();
        // GetVolumeInfo, NGetVolumeInfo, Lookup, DFSSymlink, FsCmd, those of others, and none.
        for opcode in [0_u32, 129, 148, 154, 161, 163, 165, 220, 65_535, 65_543, 65_551, 64_131, u32::MAX] {
            assert_eq!(raw(&client, &opcode.to_be_bytes()).await, OPCODE, "{opcode}");
        }
        assert_eq!(raw(&client, b"ab").await, DECODE);
        for opcode in [132_u32, 137, 65_536, 65_537] {
            assert_eq!(raw(&client, &opcode.to_be_bytes()).await, SS_UNMARSHAL, "{opcode}: no parameters");
        }
        let seen: Vec<u32> = rxafs::PROCEDURES.iter().map(|entry| entry.opcode).collect();
        for opcode in (130..=147).chain(149..=153).chain(155..=160).chain([162, 164]).chain(65_536..=65_542) {
            assert!(seen.contains(&opcode), "{opcode} is served");
        }
    });
}

#[test]
fn what_nobody_may_do_is_refused_as_afs_says_it() {
    run(async |bed| {
        let client = bed.client();
        let change = afs_wire::StoreVolumeStatus::default();
        let set = rxafs::SetVolumeStatus {
            volume: bed.root().volume,
            change,
            name: "".into(),
            offline_message: "".into(),
            message_of_the_day: "".into(),
        };
        assert_eq!(code(client.call(&set).await), EACCES);
        let token = rxafs::CheckToken { user: 1, token: b"".into() };
        assert_eq!(code(client.call(&token).await), EACCES);
    });
}
