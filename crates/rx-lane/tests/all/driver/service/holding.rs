//! Tests of packets that handlers hold, and of rooms that they fill.

use super::*;

/// Serves a call like StoreData: two words of arguments, data held while a slow disk writes it, and a word
/// behind it.
async fn store(mut call: ServerCall, seed: u64) -> Result<(), AbortCode> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut head = [0; 8];
    call.read_exact(&mut head).await?;
    let len = u64::from_be_bytes(head) as usize;
    let (mut disk, mut last) = (Vec::new(), None);
    while disk.len() < len {
        let held = call.read_held((len - disk.len()).min(rng.random_range(1..200_000))).await?;
        if held.is_empty() {
            return Err(AbortCode(112));
        }
        // The one before is still being written.
        drop(last.take());
        lane::time::sleep(Duration::from_millis(rng.random_range(0..5))).await;
        let from = rng.random_range(0..=held.len());
        held.slices().for_each(|slice| disk.extend_from_slice(slice));
        let rest: usize = held.io_slices(from).iter().map(|slice| slice.len()).sum();
        assert_eq!(rest, held.len() - from);
        last = Some(held);
    }
    let mut tail = [0; 4];
    call.read_exact(&mut tail).await?;
    assert_eq!(call.read_into(&mut [0; 9]).await?, 0, "the end of the request");
    assert!(disk == pattern(len) && tail == *b"tail", "seed {seed}");
    drop(last);
    call.write(&disk.len().to_be_bytes()).await?;
    Ok(call.finish().await?)
}

#[test]
fn store_gets_its_arguments_the_data_in_packets_and_what_comes_behind() {
    seeds(30, |seed| {
        let pair = Pair::new(seed, lossy(seed), config(), move |call| store(call, seed));
        pair.run(async move |_, connection| {
            let mut rng = StdRng::seed_from_u64(seed);
            for _ in 0..3 {
                let len: usize = rng.random_range(0..1_000_000);
                let request = [&len.to_be_bytes()[..], &pattern(len), b"tail"].concat();
                assert_eq!(ask(&connection, &request).await.unwrap(), len.to_be_bytes());
            }
            let short = [&500_000u64.to_be_bytes()[..], &pattern(499_999)].concat();
            assert_eq!(ask(&connection, &short).await, Err(CallError::Aborted(112)));
        });
        pair.assert_books_balance();
    });
}

/// Serves a call like FetchData: a head of 30 bytes, data read into rooms that outlive the borrow of the
/// call, a tail.
async fn fetch(mut call: ServerCall, seed: u64) -> Result<(), AbortCode> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut len = [0; 8];
    call.read_exact(&mut len).await?;
    call.read_to_end(0).await?;
    let (file, mut at) = (pattern(u64::from_be_bytes(len) as usize), 0);
    call.write(&[7; 30]).await?;
    while at < file.len() {
        let mut packet_buffers = call.packet_buffers((file.len() - at).min(100_000)).await?;
        assert_eq!(call.write(b"meanwhile").await, Err(CallError::Lent));
        lane::time::sleep(Duration::from_millis(rng.random_range(0..3))).await;
        // A read may come short, and now and then it fails.
        let read = rng.random_range(0..=packet_buffers.len());
        let mut left = &file[at..at + read];
        for room in packet_buffers.slices_mut() {
            let (now, later) = left.split_at(room.len().min(left.len()));
            room[..now.len()].copy_from_slice(now);
            left = later;
        }
        if rng.random_range(0..8) > 0 {
            packet_buffers.commit(read)?;
            at += read;
        }
    }
    call.write(b"tail").await?;
    Ok(call.finish().await?)
}

#[test]
fn fetch_fills_rooms_across_awaits_and_no_packet_leaves_half_empty() {
    seeds(30, |seed| {
        let pair = Pair::new(seed, lossy(seed), config(), move |call| fetch(call, seed));
        let packets = pair.run(async move |driver, connection| {
            let mut rng = StdRng::seed_from_u64(seed);
            let mut packets = 0;
            for _ in 0..3 {
                let len: usize = rng.random_range(0..1_000_000);
                let reply = ask(&connection, &len.to_be_bytes()).await.unwrap();
                assert!(reply == [&[7; 30][..], &pattern(len), b"tail"].concat(), "seed {seed}");
                packets += reply.len().div_ceil(1416) as u64;
            }
            // One that is given up while its rooms are out.
            let mut call = connection.call().await.unwrap();
            call.write(&3_000_000usize.to_be_bytes()).await.unwrap();
            call.finish().await.unwrap();
            call.read(|_| {}).await.unwrap();
            call.abort(3);
            drop(driver);
            packets
        });
        pair.assert_books_balance();
        let counters = pair.counters();
        assert!(seed % 2 == 1 || counters.data_sent.get() - counters.resends.get() >= packets);
    });
}

/// Kills a peer while its packets, and rooms for it, are held by a handler.
#[test]
fn client_that_dies_mid_hold_leaves_nothing_behind() {
    seeds(20, |seed| {
        let pair = Pair::new(seed, Config::default(), config(), async move |mut call: ServerCall| {
            let _shield = call.shield();
            let held = call.read_held(usize::MAX).await?;
            let packet_buffers = call.packet_buffers(100_000).await?;
            lane::time::sleep(Duration::from_millis(200)).await;
            assert!(!held.is_empty());
            let len = packet_buffers.len();
            assert_eq!(packet_buffers.commit(len), Err(CallError::Aborted(8)));
            assert_eq!(call.write(b"x").await, Err(CallError::Aborted(8)));
            drop(held);
            Ok::<(), CallError>(())
        });
        pair.run(async move |_, connection| {
            let mut calls = Vec::new();
            for _ in 0..4 {
                let mut call = connection.call().await.unwrap();
                call.write(&pattern(50_000)).await.unwrap();
                calls.push(call);
            }
            lane::time::sleep(Duration::from_millis(100)).await;
            calls.into_iter().for_each(|call| call.abort(8));
            lane::time::sleep(Duration::from_millis(50)).await;
        });
        pair.assert_books_balance();
        assert_eq!(pair.counters().handlers_cancelled.get(), 0, "all came to their end");
    });
}
