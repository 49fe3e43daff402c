//! Bytes of files, both ways.

use afs_wire::code::{EFBIG, EINVAL, EISDIR, VBUSY, VDISKFULL, VNOVNODE, VOVERQUOTA};
use afs_wire::{Fid, StoreStatus, rxafs};
use lane::backend::sim::Config;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rx_lane::CallError;
use vfs::Quota;

use super::bed::{Bed, Client, code, run, with, within};

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 253) as u8).collect()
}

async fn new_file(bed: &Bed, client: &Client, name: &str) -> (Fid, u64) {
    let made = client.create(bed.root(), name).await.unwrap();
    (made.fid, made.status.data_version())
}

#[test]
fn what_is_stored_is_fetched_in_every_part_and_a_store_raises_the_version_once() {
    run(async |bed| {
        let client = bed.client();
        let (fid, made) = new_file(&bed, &client, "f").await;
        // More than a window, and more than one burst.
        let bytes = pattern(3_000_000);
        let stored = client.store(fid, 0, &bytes, bytes.len() as u64).await.unwrap();
        assert_eq!(stored.data_version(), made + 1);
        assert_eq!(bed.fs.read("/srv/f").unwrap(), bytes);
        let end = bytes.len() as i64;
        for (offset, len) in [
            (0, end),
            (1, 5000),
            (end - 7, 7),
            (end - 7, 100),
            (end, 10),
            (end + 5, 10),
            (0, 0),
            (0, i64::MAX),
        ] {
            let (got, reply) = client.fetch(fid, offset, len).await.unwrap();
            let from = (offset as usize).min(bytes.len());
            let to = from.saturating_add(len as usize).min(bytes.len());
            assert!(got == bytes[from..to], "{offset}, {len}: {} bytes", got.len());
            assert_eq!(reply.status.data_version(), made + 1);
            assert!(reply.call_back.expires > 60);
        }
        assert_eq!(code(client.fetch(fid, -1, 1).await), EINVAL);
        assert_eq!(code(client.fetch(fid, 0, -1).await), EINVAL);
    });
}

#[test]
fn a_store_sets_the_length_too_and_each_one_is_a_version() {
    run(async |bed| {
        let client = bed.client();
        let (fid, made) = new_file(&bed, &client, "f").await;
        let stores: [(u64, &[u8], u64, &[u8]); 6] = [
            (0, b"hello world", 11, b"hello world"),
            (6, b"W", 11, b"hello World"),
            // Cut; the same again; lengthened; cut and written to.
            (0, b"", 5, b"hello"),
            (0, b"", 5, b"hello"),
            (0, b"", 8, b"hello\0\0\0"),
            (1, b"i", 2, b"hi"),
        ];
        for (at, (offset, bytes, length, content)) in stores.into_iter().enumerate() {
            let status = client.store(fid, offset, bytes, length).await.unwrap();
            assert_eq!(status.data_version(), made + 1 + at as u64, "store {at}");
            assert_eq!(bed.fs.read("/srv/f").unwrap(), content, "store {at}");
            assert_eq!(status.length_low as usize, content.len());
        }
    });
}

/// Linux's client takes the length that it hears for the file's, whatever it has written itself since, when a version is not the one after
/// what it knew.
#[test]
fn each_store_is_one_version_and_every_reply_tells_the_length_that_it_left() {
    for seed in 0..40 {
        run(async move |bed| {
            let mut random = SmallRng::seed_from_u64(seed);
            let client = bed.client();
            let (fid, mut known) = new_file(&bed, &client, "f").await;
            let mut content: Vec<u8> = Vec::new();
            for step in 0..60 {
                let at = random.random_range(0..100_000_usize);
                let bytes = pattern(random.random_range(1..30_000));
                let (status, stored) = match random.random_range(0..6) {
                    0 => (client.status(fid).await.unwrap(), 0),
                    1 => {
                        let (got, reply) = client.fetch(fid, at as i64, bytes.len() as i64).await.unwrap();
                        let from = at.min(content.len());
                        let to = (at + bytes.len()).min(content.len());
                        assert!(got == content[from..to], "seed {seed}, step {step}");
                        (reply.status, 0)
                    }
                    // A length alone.
                    2 => {
                        content.resize(at, 0);
                        (client.store_at(fid, at as u64, &[], at as u64, step).await.unwrap(), 1)
                    }
                    // As long as it is, shorter, or longer.
                    _ => {
                        let end = at + bytes.len();
                        let len = match random.random_range(0..3) {
                            0 => end,
                            1 => end.max(content.len()),
                            _ => end + random.random_range(0..50_000),
                        };
                        content.truncate(len);
                        content.resize(len, 0);
                        content[at..end].copy_from_slice(&bytes);
                        let stored = client.store_at(fid, at as u64, &bytes, len as u64, step).await;
                        (stored.unwrap(), 1)
                    }
                };
                let told = (status.data_version(), status.length_low as usize);
                assert_eq!(told, (known + stored, content.len()), "seed {seed}, step {step}");
                known += stored;
            }
            assert_eq!(client.broken(), []);
        });
    }
}

#[test]
fn the_calls_of_32_bits_do_the_same() {
    run(async |bed| {
        let client = bed.client();
        let (fid, _) = new_file(&bed, &client, "f").await;
        let mut call = client.connection.call().await.unwrap();
        let change = StoreStatus::default();
        let request = rxafs::StoreData { fid, change, offset: 0, length: 4, file_length: 4 };
        xdr::rpc::start(&mut call, &request).await.unwrap();
        call.write(b"text").await.unwrap();
        call.finish().await.unwrap();
        xdr::rpc::end::<rxafs::StoreData, _>(&mut call).await.unwrap();
        let mut call = client.connection.call().await.unwrap();
        xdr::rpc::start(&mut call, &rxafs::FetchData { fid, offset: 1, length: 100 }).await.unwrap();
        call.finish().await.unwrap();
        let mut head = [0; 4];
        call.read_exact(&mut head).await.unwrap();
        assert_eq!(u32::from_be_bytes(head), 3);
        let mut bytes = [0; 3];
        call.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"ext");
        let reply = xdr::rpc::end::<rxafs::FetchData, _>(&mut call).await.unwrap();
        assert_eq!(reply.get().status.length_low, 4);
    });
}

#[test]
fn the_fetch_of_a_file_that_is_cut_while_it_is_sent_is_aborted_and_no_byte_was_in_no_version() {
    for by_server in [true, false] {
        run(async move |bed| {
            let (reader, writer) = (bed.client(), bed.client());
            let (fid, _) = new_file(&bed, &writer, "f").await;
            let content = pattern(8 << 20);
            bed.fs.write("/srv/f", content.clone()).unwrap();
            let mut call = reader.connection.call().await.unwrap();
            let request = rxafs::FetchData64 { fid, offset: 0, length: content.len() as i64 };
            xdr::rpc::start(&mut call, &request).await.unwrap();
            call.finish().await.unwrap();
            let mut head = [0; 8];
            call.read_exact(&mut head).await.unwrap();
            assert_eq!(u64::from_be_bytes(head), content.len() as u64);
            match by_server {
                true => drop(writer.store(fid, 0, b"", 0).await.unwrap()),
                false => bed.fs.truncate("/srv/f", 0).unwrap(),
            }
            let (mut got, mut bytes) = (Vec::new(), [0; 1000]);
            let ended = loop {
                match call.read_into(&mut bytes).await {
                    Ok(0) => break None,
                    Ok(len) => got.extend_from_slice(&bytes[..len]),
                    Err(error) => break Some(error),
                }
            };
            assert!(got == content[..got.len()] && got.len() < content.len());
            assert_eq!(ended, Some(CallError::Aborted(VBUSY)));
            assert_eq!(reader.fetch(fid, 0, 100).await.unwrap().0, b"");
        });
    }
}

#[test]
fn who_reads_a_file_hears_before_another_has_written_and_who_writes_hears_nothing() {
    run(async |bed| {
        let (writer, reader) = (bed.client(), bed.client());
        let (fid, _) = new_file(&bed, &writer, "f").await;
        writer.store(fid, 0, b"one", 3).await.unwrap();
        assert_eq!(reader.fetch(fid, 0, 10).await.unwrap().0, b"one");
        assert_eq!((reader.broken(), writer.broken()), (vec![], vec![]));
        let status = writer.store(fid, 0, b"two", 3).await.unwrap();
        assert_eq!((reader.broken(), writer.broken()), (vec![fid], vec![]));
        let (bytes, reply) = reader.fetch(fid, 0, 10).await.unwrap();
        assert_eq!((bytes.as_slice(), reply.status.data_version()), (&b"two"[..], status.data_version()));
    });
}

#[test]
fn a_client_that_dies_in_mid_store_leaves_what_has_come_and_nobody_believes_the_old_version() {
    run(async |bed| {
        let (writer, reader) = (bed.client(), bed.client());
        let (fid, _) = new_file(&bed, &writer, "f").await;
        let first = writer.store(fid, 0, &pattern(100_000), 100_000).await.unwrap().data_version();
        assert_eq!(reader.fetch(fid, 0, 1).await.unwrap().0.len(), 1);
        let mut call = writer.connection.call().await.unwrap();
        let change = StoreStatus::default();
        let request = rxafs::StoreData64 { fid, change, offset: 0, length: 1 << 20, file_length: 1 << 20 };
        xdr::rpc::start(&mut call, &request).await.unwrap();
        call.write(&[7; 50_000]).await.unwrap();
        call.flush().await.unwrap();
        lane::time::sleep(std::time::Duration::from_millis(500)).await;
        call.abort(-5);
        lane::time::sleep(std::time::Duration::from_millis(500)).await;
        assert_eq!(reader.broken(), [fid]);
        let status = reader.status(fid).await.unwrap();
        assert_eq!(status.data_version(), first + 1);
        let (bytes, _) = reader.fetch(fid, 0, 200_000).await.unwrap();
        assert_eq!(bytes.len(), 100_000, "it had no more");
        let written = bytes.iter().take_while(|byte| **byte == 7).count();
        assert!(written >= 1000 && bytes[written..] == pattern(100_000)[written..], "{written}");
        // What is said and not sent is refused, too.
        let mut call = writer.connection.call().await.unwrap();
        xdr::rpc::start(&mut call, &request).await.unwrap();
        call.write(b"short").await.unwrap();
        call.finish().await.unwrap();
        assert!(xdr::rpc::end::<rxafs::StoreData64, _>(&mut call).await.is_err());
        assert_eq!(bed.server.counters().stores_short.get(), 1);
    });
}

#[test]
fn a_full_disk_leaves_file_and_version_as_they_were() {
    let mut config = Config::clean();
    config.fs.capacity_bytes = 4 << 20;
    with(config, async |bed| {
        let client = bed.client();
        let (fid, _) = new_file(&bed, &client, "f").await;
        let before = client.store(fid, 0, b"text", 4).await.unwrap();
        let refused = client.store(fid, 0, &pattern(8 << 20), 8 << 20).await;
        assert_eq!(code(refused), VDISKFULL);
        assert_eq!(client.status(fid).await.unwrap(), before);
        assert_eq!(bed.fs.read("/srv/f").unwrap(), b"text");
    });
}

#[test]
fn what_cannot_be_stored_is_refused() {
    run(async |bed| {
        let client = bed.client();
        let (fid, _) = new_file(&bed, &client, "f").await;
        assert_eq!(code(client.store(bed.root(), 0, b"x", 1).await), EISDIR);
        assert_eq!(code(client.store(fid, u64::MAX, b"x", 1).await), EFBIG);
        assert_eq!(code(client.store(fid, 1 << 63, b"x", 1).await), EFBIG);
        bed.fs.write("/srv/other", "x").unwrap();
        let gone = client.create(bed.root(), "gone").await.unwrap().fid;
        client.call(&rxafs::RemoveFile { directory: bed.root(), name: "gone".into() }).await.unwrap();
        assert_eq!(code(client.store(gone, 0, b"x", 1).await), VNOVNODE);
        assert_eq!(code(client.fetch(gone, 0, 1).await), VNOVNODE);
    });
}

#[test]
fn who_made_a_file_finishes_it_whatever_its_mode_and_others_may_not() {
    run(async |bed| {
        let (maker, other) = (bed.client(), bed.client());
        let change =
            StoreStatus { mask: afs_wire::SET_MODE, unix_mode_bits: 0o444, ..StoreStatus::default() };
        let request = rxafs::CreateFile { directory: bed.root(), name: "object".into(), change };
        let made = maker.call(&request).await.unwrap().get();
        assert_eq!(made.status.unix_mode_bits, 0o444);
        maker.store(made.fid, 0, b"blob", 4).await.unwrap();
        assert_eq!(code(other.store(made.fid, 0, b"X", 4).await), afs_wire::code::EACCES);
        assert_eq!(other.fetch(made.fid, 0, 9).await.unwrap().0, b"blob");
    });
}

#[test]
fn what_does_not_fit_the_quota_is_refused_and_changes_neither_file_nor_version() {
    within(Quota { bytes: Some(256 << 10), files: None }, async |bed| {
        let client = bed.client();
        let fid = client.create(bed.root(), "f").await.unwrap().fid;
        let before = client.store(fid, 0, &[7; 100_000], 100_000).await.unwrap();
        let more = client.store(fid, 100_000, &[8; 300_000], 400_000).await;
        assert_eq!(code(more), VOVERQUOTA);
        let status = client.status(fid).await.unwrap();
        assert_eq!((status.data_version_low, status.length_low), (before.data_version_low, 100_000));
        assert!(client.fetch(fid, 0, 1 << 20).await.unwrap().0 == [7; 100_000]);
        let told = client.call(&rxafs::GetVolumeStatus { volume: fid.volume }).await.unwrap();
        assert_eq!(told.get().status.max_quota, 256);
        // What it has counts with what comes, in one store and in several.
        let more = client.store(fid, 100_000, &[8; 200_000], 300_000).await;
        assert_eq!(code(more), VOVERQUOTA);
        let other = client.create(bed.root(), "g").await.unwrap().fid;
        assert_eq!(code(client.store(other, 0, &[8; 200_000], 200_000).await), VOVERQUOTA);
        let status = client.status(fid).await.unwrap();
        assert_eq!((status.data_version_low, status.length_low), (before.data_version_low, 100_000));
        // The length that the file is to have in the end counts before its first byte.
        let longer = client.store(fid, 8, b"ABCD", 400_000).await;
        assert_eq!(code(longer), VOVERQUOTA);
        let status = client.status(fid).await.unwrap();
        assert_eq!((status.data_version_low, status.length_low), (before.data_version_low, 100_000));
        assert!(client.fetch(fid, 0, 1 << 20).await.unwrap().0 == [7; 100_000]);
        // What is given up makes room.
        client.store(fid, 0, &[], 0).await.unwrap();
        client.store(fid, 0, &[9; 200_000], 200_000).await.unwrap();
    });
}

#[test]
fn a_file_that_is_removed_behind_a_store_gives_its_room_back() {
    run(async |bed| {
        let client = bed.client();
        let (fid, _) = new_file(&bed, &client, "f").await;
        let bytes = pattern(100_000);
        client.store(fid, 0, &bytes, bytes.len() as u64).await.unwrap();
        client.call(&rxafs::RemoveFile { directory: bed.root(), name: "f".into() }).await.unwrap();
        // What the lane has open for look-ups goes too.
        lane::time::sleep(std::time::Duration::from_secs(600)).await;
        assert_eq!(bed.fs.unnamed(), lane::backend::sim::Unnamed { pages: 0, inodes: 0 });
    });
}
