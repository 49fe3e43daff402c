//! Lines of the audit log: users and their operations.

use lane::buffer::Buf;
use smb_client::{Open, OpenParams, Tree};
use smb_wire::body::write::{WriteRequest, WriteRequestFixed};
use smb_wire::create::access::rights;
use smb_wire::fixed::Fixed;
use smb_wire::{Command, Message, Status};

use super::bed::{rules, run, sign_in};
use super::raw::Raw;

/// The lines with this in them.
fn with<'a>(lines: &'a [String], words: &[&str]) -> Vec<&'a String> {
    lines.iter().filter(|line| words.iter().all(|word| line.contains(word))).collect()
}

#[test]
fn each_request_leaves_a_line_with_who_what_and_how_it_ended() {
    run(1, rules(), async |bed, world| {
        let (address, options) = (bed.address, bed.client());
        world
            .on(0, async move {
                let tree = sign_in(address, options).await.unwrap();
                let file = Open::create(&tree, "Plans.txt", &OpenParams::overwrite()).await.unwrap();
                file.write(10, vec![Buf::from(b"secret".to_vec())]).await.0.unwrap();
                assert_eq!(&file.read(10, 6).await.unwrap()[..], b"secret");
                file.close(0).await.unwrap();
                // By other letters: the line has the name that the tree has.
                let file = Open::create(&tree, "PLANS.TXT", &OpenParams::read()).await.unwrap();
                file.close(0).await.unwrap();
                let none = Open::create(&tree, r"no\such", &OpenParams::read()).await.err().unwrap();
                assert_eq!(none.status(), Some(Status::OBJECT_PATH_NOT_FOUND));
                let none = Tree::connect(tree.channel(), r"\\10.0.0.1\other").await.err().unwrap();
                assert_eq!(none.status(), Some(Status::BAD_NETWORK_NAME));
                tree.disconnect().await.unwrap();
                tree.channel().log_off().await.unwrap();
            })
            .await;
        let lines = bed.audited();
        let of_alice = [
            "\"peer\":\"10.0.0.2\"",
            "\"user\":\"alice\"",
            "\"user_id\":1000",
            "\"status\":\"STATUS_SUCCESS\"",
        ];
        let whole = |words: &[&str]| with(&lines, &[&of_alice, words].concat()).len();
        assert_eq!(whole(&["\"call\":\"SMB_SignIn\"", "\"as\":\"user\""]), 1, "{lines:#?}");
        assert_eq!(
            whole(&["\"call\":\"SMB_TreeConnect\"", "\"share\":\"\\\\\\\\10.0.0.1\\\\files\""]),
            1,
            "{lines:#?}"
        );
        let file = ["\"share\":\"Files\"", "\"path\":\"/Plans.txt\"", "\"file\":\""];
        assert_eq!(
            whole(&[&file[..], &["\"call\":\"SMB_Create\"", "\"access\":\"0x"]].concat()),
            2,
            "{lines:#?}"
        );
        let moved = "\"offset\":10,\"length\":6}";
        assert_eq!(whole(&[&file[..], &["\"call\":\"SMB_Write\"", moved]].concat()), 1, "{lines:#?}");
        assert_eq!(whole(&[&file[..], &["\"call\":\"SMB_Read\"", moved]].concat()), 1, "{lines:#?}");
        assert_eq!(whole(&[&file[..], &["\"call\":\"SMB_Close\""]].concat()), 2, "{lines:#?}");
        assert_eq!(whole(&["\"call\":\"SMB_TreeDisconnect\"", "\"share\":\"Files\""]), 1, "{lines:#?}");
        assert_eq!(whole(&["\"call\":\"SMB_LogOff\""]), 1, "{lines:#?}");
        let refused = ["\"path\":\"/no/such\"", "\"status\":\"STATUS_OBJECT_PATH_NOT_FOUND\""];
        assert_eq!(with(&lines, &refused).len(), 1, "{lines:#?}");
        let refused = ["\\\\other\"", "\"status\":\"STATUS_BAD_NETWORK_NAME\""];
        assert_eq!(with(&lines, &refused).len(), 1, "{lines:#?}");
    });
}

#[test]
fn a_client_that_is_refused_without_end_has_so_many_lines_and_what_it_does_has_all() {
    run(3, rules(), async |bed, world| {
        let (address, options) = (bed.address, bed.client());
        world
            .on(0, async move {
                let tree = sign_in(address, options).await.unwrap();
                for n in 0..300 {
                    let none = Open::create(&tree, r"no\such", &OpenParams::read()).await.err().unwrap();
                    assert_eq!(none.status(), Some(Status::OBJECT_PATH_NOT_FOUND));
                    let made = Open::create(&tree, &format!("{n}"), &OpenParams::overwrite()).await.unwrap();
                    made.close(0).await.unwrap();
                }
            })
            .await;
        let lines = bed.audited();
        let refused = with(&lines, &["\"path\":\"/no/such\""]).len();
        assert!((100..130).contains(&refused), "{refused}");
        assert_eq!(with(&lines, &["\"call\":\"SMB_Create\"", "STATUS_SUCCESS"]).len(), 300);
        assert_eq!(with(&lines, &["\"call\":\"SMB_Close\""]).len(), 300);
    });
}

#[test]
fn a_write_alone_in_its_frame_whose_signature_is_wrong_leaves_a_line() {
    run(2, rules(), async |bed, world| {
        let address = bed.address;
        let status = world
            .on(0, async move {
                let mut raw = Raw::signed(address).await;
                raw.sign_in().await;
                let file = raw.open_file("kept", rights::WRITE_DATA).await;
                let fixed =
                    WriteRequestFixed { file_id: file, offset: 7.into(), ..WriteRequestFixed::blank() };
                let mut asked =
                    raw.request(Command::Write, 1, |body| WriteRequest::write(body, fixed, b"not mine"));
                *asked.last_mut().unwrap() ^= 1;
                assert!(raw.send(&asked).await);
                let reply = raw.receive().await.unwrap();
                Message::new(&reply).unwrap().header().status()
            })
            .await;
        assert_eq!(status, Status::ACCESS_DENIED);
        assert_eq!(bed.counters().signatures_wrong.get(), 1);
        assert_eq!(bed.fs.read("/srv/kept").unwrap(), b"");
        let lines = bed.audited();
        let refused = [
            "\"call\":\"SMB_Write\"",
            "\"status\":\"STATUS_ACCESS_DENIED\"",
            "\"user\":\"alice\"",
            "\"offset\":7,\"length\":8}",
        ];
        assert_eq!(with(&lines, &refused).len(), 1, "{lines:#?}");
    });
}
