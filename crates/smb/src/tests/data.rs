//! Data comes back as it was written, however it is protected.

use std::time::Duration;

use lane::buffer::Buf;
use lane::time::sleep;
use smb_client::{Open, OpenParams, Sealing, Signing as Signs};
use smb_proto::sealing::Cipher;
use smb_proto::signing::SigningAlgorithm;
use smb_wire::create::access::rights;
use smb_wire::create::{Disposition, options};
use smb_wire::{Command, Dialect, Status};

use super::bed::{rules, run, sign_in};
use super::raw::{Raw, status};
use crate::connection::INTERIM_DELAY;

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[test]
fn bytes_come_back_as_they_were_in_every_dialect_signed_sealed_or_plain() {
    run(1, rules(), async |bed, world| {
        let mut ways = Vec::new();
        for dialect in Dialect::ALL {
            let mut options = bed.client();
            options.dialects = vec![dialect];
            ways.push(options);
            for signing in SigningAlgorithm::PREFERRED.into_iter().take(2) {
                let mut options = bed.client();
                options.dialects = vec![dialect];
                (options.signing, options.signing_algorithms) = (Signs::Required, vec![signing]);
                ways.push(options);
            }
            for cipher in Cipher::PREFERRED.into_iter().filter(|_| dialect.is_smb3()) {
                let mut options = bed.client();
                options.dialects = vec![dialect];
                (options.sealing, options.ciphers) = (Sealing::Required, vec![cipher]);
                ways.push(options);
            }
        }
        let (address, count) = (bed.address, ways.len());
        for (number, options) in ways.into_iter().enumerate() {
            let (dialect, name) = (options.dialects[0], format!("file-{number}"));
            let told = format!("{options:?}");
            let (path, data) = (format!("/srv/{name}"), pattern(300_000));
            let sent = data.clone();
            let read = world
                .on(0, async move {
                    let tree = sign_in(address, options).await.unwrap();
                    let file = Open::create(&tree, &name, &OpenParams::overwrite()).await.unwrap();
                    // 2.0.2 has 64 KiB a request.
                    let step = if dialect == Dialect::Smb202 { 60_000 } else { 200_000 };
                    for (at, part) in sent.chunks(step).enumerate() {
                        let (written, _) =
                            file.write((at * step) as u64, vec![Buf::from(part.to_vec())]).await;
                        assert_eq!(written.unwrap() as usize, part.len());
                    }
                    let mut read = Vec::new();
                    while read.len() < sent.len() {
                        let part = file.read(read.len() as u64, step as u32).await.unwrap();
                        read.extend_from_slice(&part);
                    }
                    file.close(0).await.unwrap();
                    tree.disconnect().await.unwrap();
                    tree.channel().log_off().await.unwrap();
                    read
                })
                .await;
            assert!(read == data, "{told}");
            assert!(bed.fs.read(&path).unwrap() == data, "{told}");
        }
        assert_eq!(bed.counters().signed_in.get() as usize, count);
        while !bed.lane.connections().is_empty() {
            lane::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        bed.expect_empty();
    });
}

#[test]
fn a_file_is_written_and_read_within_compounds() {
    run(4, rules(), async |bed, world| {
        let (address, options) = (bed.address, bed.client());
        let read = world
            .on(0, async move {
                let tree = sign_in(address, options).await.unwrap();
                let file = Open::create(&tree, "small", &OpenParams::overwrite()).await.unwrap();
                let (written, _) = file.write(0, vec![Buf::from(b"twelve bytes".to_vec())]).await;
                assert_eq!(written.unwrap(), 12);
                file.close(0).await.unwrap();
                // CREATE, READ and CLOSE in one frame.
                let read = tree.read("small", 100).await.unwrap();
                tree.channel().log_off().await.unwrap();
                read.to_vec()
            })
            .await;
        assert_eq!(read, b"twelve bytes");
    });
}

#[test]
fn a_request_that_is_under_way_while_its_open_is_closed_leaves_no_descriptor() {
    let mut options = rules();
    options.shares[0].test_delay = Some(Duration::from_millis(200));
    run(4, options, async |bed, world| {
        bed.fs.write("/srv/f", vec![7; 1000]).unwrap();
        sleep(Duration::from_secs(1000)).await;
        let before = bed.host.descriptors();
        let address = bed.address;
        let told = async move {
            let mut raw = Raw::smb3(address).await;
            raw.sign_in().await;
            let file = raw.open_file("f", rights::READ_DATA).await;
            let read = raw.read(file);
            raw.send(&read).await;
            sleep(Duration::from_millis(50)).await;
            let disconnect = raw.empty(Command::TreeDisconnect);
            raw.send(&disconnect).await;
            for _ in 0..2 {
                raw.receive().await.unwrap();
            }
            let log_off = raw.empty(Command::Logoff);
            assert_eq!(status(&raw.exchange(log_off).await.unwrap()), Status::SUCCESS);
        };
        world.on(0, told).await;
        // What the cache has open goes.
        sleep(Duration::from_secs(1000)).await;
        assert_eq!(bed.host.descriptors(), before);
    });
}

#[test]
fn a_request_that_waits_for_a_disk_gets_an_interim_reply_after_a_second_alone() {
    for (delay, expected) in [(INTERIM_DELAY / 4 * 3, 0), (INTERIM_DELAY * 2, 3)] {
        let mut options = rules();
        options.shares[0].test_delay = Some(delay);
        run(5, options, async move |bed, world| {
            let (address, options) = (bed.address, bed.client());
            let story = async move {
                let tree = sign_in(address, options).await.unwrap();
                let file = Open::create(&tree, "f", &OpenParams::overwrite()).await.unwrap();
                let (written, _) = file.write(0, vec![Buf::from(pattern(100))]).await;
                assert_eq!(written.unwrap(), 100);
                file.flush().await.unwrap();
                assert_eq!(file.read(0, 100).await.unwrap().to_vec(), pattern(100));
                tree.channel().log_off().await.unwrap();
            };
            world.on(0, story).await;
            assert_eq!(bed.counters().replies_pending.get(), expected, "{delay:?}");
        });
    }
}

#[test]
fn a_name_with_a_backslash_at_its_end_arrives_as_it_was_sent_and_is_no_files() {
    run(1, rules(), async |bed, world| {
        bed.fs.write("/srv/page", "1").unwrap();
        bed.fs.create_dir_all("/srv/sub").unwrap();
        let (address, options) = (bed.address, bed.client());
        let story = async move {
            let tree = sign_in(address, options).await.unwrap();
            let other = options::NON_DIRECTORY_FILE;
            let (ok, no_name) = (Status::SUCCESS, Status::OBJECT_NAME_INVALID);
            for (name, disposition, bits, expected) in [
                ("page", Disposition::Open, other, ok),
                ("page\\", Disposition::Open, other, no_name),
                ("page\\", Disposition::Open, 0, no_name),
                ("page\\", Disposition::OverwriteIf, other, no_name),
                ("page\\", Disposition::Open, options::DIRECTORY_FILE, Status::NOT_A_DIRECTORY),
                ("sub", Disposition::Open, other, Status::FILE_IS_A_DIRECTORY),
                ("sub\\", Disposition::Open, other, no_name),
                ("sub\\", Disposition::Open, 0, ok),
                ("sub\\", Disposition::Open, options::DIRECTORY_FILE, ok),
                ("none\\", Disposition::Create, other, no_name),
                ("none\\", Disposition::Create, 0, no_name),
                ("none\\", Disposition::Open, 0, Status::OBJECT_NAME_NOT_FOUND),
            ] {
                let how = OpenParams { disposition, options: bits, ..OpenParams::read() };
                let came = match Open::create(&tree, name, &how).await {
                    Ok(open) => open.close(0).await.map(|_| ok).unwrap(),
                    Err(error) => error.status().expect("the server refuses it"),
                };
                assert_eq!(came, expected, "{name} {disposition:?} {bits:x}");
            }
            tree.channel().log_off().await.unwrap();
        };
        world.on(0, story).await;
        assert_eq!(bed.fs.read("/srv/page").unwrap(), b"1");
    });
}
