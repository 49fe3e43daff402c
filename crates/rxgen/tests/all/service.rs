//! unit: generated servers and clients over byte streams in memory, hostile clients among them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bolero::check;
use xdr::rpc::{ARGUMENTS_MAX, CallStream, Failure, Fault, SplitCall, code};
use xdr::{Error, List, Writer};

#[allow(unreachable_pub, dead_code)]
mod stubs {
    include!("../generated/files.rs");
}

use stubs::files::{self, Server, Tally};
use stubs::{CallBack, Fid, Status, StoreStatus};

/// Stream in memory: the peer's bytes so far, delivered in pieces of `piece` bytes, and the bytes that we
/// wrote.
#[derive(Default)]
struct Stream {
    input: Vec<u8>,
    read: usize,
    piece: usize,
    reads: usize,
    output: Vec<u8>,
    finished: bool,
}

/// Error of a client that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("gone")]
struct Gone;

impl CallStream for Stream {
    type Error = Gone;

    async fn read(&mut self, into: &mut [u8]) -> Result<usize, Gone> {
        let rest = &self.input[self.read..];
        let len = rest.len().min(into.len()).min(self.piece);
        into[..len].copy_from_slice(&rest[..len]);
        self.read += len;
        self.reads += 1;
        Ok(len)
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        self.output.extend_from_slice(bytes);
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), Gone> {
        self.finished = true;
        Ok(())
    }

    fn now(&self) -> Instant {
        Instant::now()
    }
}

impl Stream {
    fn of(input: Vec<u8>, piece: usize) -> Self {
        Self { input, piece, ..Self::default() }
    }

    async fn read_raw(&mut self, len: usize) -> Result<Vec<u8>, Gone> {
        let mut bytes = vec![0; len];
        let mut filled = 0;
        while filled < len {
            match self.read(&mut bytes[filled..]).await? {
                0 => return Err(Gone),
                count => filled += count,
            }
        }
        Ok(bytes)
    }
}

/// Runs a future that never waits.
fn now<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a stream in memory never waits"),
    }
}

const NO_SUCH_FILE: i32 = 2;

/// Files by vnode, served from memory.
#[derive(Default)]
struct Shelf {
    files: RefCell<BTreeMap<u32, Vec<u8>>>,
}

impl Shelf {
    fn status(&self, fid: &Fid) -> Result<Status, Failure<Gone>> {
        let files = self.files.borrow();
        let bytes = files.get(&fid.vnode).ok_or(Failure::Refused(NO_SUCH_FILE))?;
        Ok(Status { length: bytes.len() as u64, ..Status::default() })
    }
}

impl Server<Stream> for Shelf {
    async fn fetch_status(
        &self,
        _: &Stream,
        request: files::FetchStatus,
    ) -> Result<files::FetchStatusReply, Failure<Gone>> {
        let (out, call_back) = (self.status(&request.fid)?, CallBack { expires: 60, ..CallBack::default() });
        Ok(files::FetchStatusReply { out, call_back })
    }

    async fn inline_bulk_status(
        &self,
        _: &Stream,
        request: files::InlineBulkStatus,
    ) -> Result<files::InlineBulkStatusReply, Failure<Gone>> {
        let stats = request.fids_array.0.iter().map(|fid| self.status(fid).unwrap_or_default()).collect();
        Ok(files::InlineBulkStatusReply { stat_array: List(stats), cb_array: List::default() })
    }

    async fn get_capabilities(
        &self,
        _: &Stream,
        _: files::GetCapabilities,
    ) -> Result<files::GetCapabilitiesReply, Failure<Gone>> {
        // More than the interface lets through.
        Ok(files::GetCapabilitiesReply { capabilities: List(vec![1; 197]) })
    }

    async fn lookup(
        &self,
        _: &Stream,
        request: files::Lookup<'_>,
    ) -> Result<files::LookupReply, Failure<Gone>> {
        let depth = request.path.0.len() as u32;
        Ok(files::LookupReply { out_fid: Fid { vnode: depth, ..request.dir_fid } })
    }

    async fn fetch_data64(
        &self,
        call: &mut Stream,
        request: files::FetchData64,
    ) -> Result<files::FetchData64Reply, Failure<Gone>> {
        let out_status = self.status(&request.fid)?;
        let bytes = self.files.borrow()[&request.fid.vnode].clone();
        let part = &bytes[request.pos as usize..][..request.length as usize];
        call.write(&(part.len() as u64).to_be_bytes()).await?;
        call.write(part).await?;
        Ok(files::FetchData64Reply { out_status, call_back: CallBack::default() })
    }

    async fn store_data64(
        &self,
        call: &mut Stream,
        request: files::StoreData64<'_>,
    ) -> Result<files::StoreData64Reply, Failure<Gone>> {
        let bytes = call.read_raw(request.length as usize).await?;
        self.files.borrow_mut().insert(request.fid.vnode, bytes);
        Ok(files::StoreData64Reply { out_status: self.status(&request.fid)? })
    }
}

fn serve(shelf: &Shelf, tally: &Tally, call: &mut Stream) -> Result<(), Failure<Gone>> {
    now(files::serve(shelf, call, tally))
}

fn fid(vnode: u32) -> Fid {
    Fid { volume: 1, vnode, unique: 9 }
}

fn store(vnode: u32, data: &[u8]) -> Vec<u8> {
    let request = files::StoreData64 {
        fid: fid(vnode),
        in_status: StoreStatus::default(),
        reason: "because".into(),
        pos: 0,
        length: data.len() as u64,
        file_length: data.len() as u64,
    };
    let mut wire = Vec::new();
    request.start(&mut Writer::new(&mut wire)).unwrap();
    [wire, data.to_vec()].concat()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

#[test]
fn data_goes_between_the_parameters_whatever_pieces_it_comes_in() {
    for piece in [1, 3, 4, 7, 1000, 1 << 20] {
        let (shelf, tally) = (Shelf::default(), Tally::default());
        let data: Vec<u8> = (0..10_000).map(|at| at as u8).collect();
        let mut call = Stream::of(store(5, &data), piece);
        serve(&shelf, &tally, &mut call).unwrap();
        assert!(call.finished && shelf.files.borrow()[&5] == data);
        let mut client = Stream::of(call.output, piece);
        let reply = now(xdr::rpc::end::<files::StoreData64<'_>, _>(&mut client)).unwrap();
        assert_eq!(reply.get().out_status.length, 10_000);

        let fetch = files::FetchData64 { fid: fid(5), pos: 100, length: 5_000 };
        let mut client = Stream::default();
        now(xdr::rpc::start(&mut client, &fetch)).unwrap();
        let mut call = Stream::of(client.output, piece);
        serve(&shelf, &tally, &mut call).unwrap();
        let mut client = Stream::of(call.output, piece);
        let length = now(client.read_raw(8)).unwrap();
        assert_eq!(length, 5_000u64.to_be_bytes());
        assert_eq!(now(client.read_raw(5_000)).unwrap(), data[100..5_100]);
        let reply = now(xdr::rpc::end::<files::FetchData64, _>(&mut client)).unwrap();
        assert_eq!(reply.get().out_status.length, 10_000);
        assert_eq!((tally.of(4).replied, tally.of(5).replied), (1, 1));
    }
}

#[test]
fn plain_calls_go_there_and_back_and_refusals_are_their_codes() {
    let (shelf, tally) = (Shelf::default(), Tally::default());
    shelf.files.borrow_mut().insert(3, vec![0; 33]);
    for (vnode, expected) in [(3, Ok(33)), (4, Err(NO_SUCH_FILE))] {
        let request = files::FetchStatus { fid: fid(vnode) };
        let mut client = Stream { piece: 100, ..Stream::default() };
        // Without a reply yet.
        let early = now(xdr::rpc::call(&mut client, &request)).unwrap_err();
        assert_eq!(early.abort_code(), Some(code::CC_UNMARSHAL));
        let mut call = Stream::of(client.output, 5);
        let outcome = serve(&shelf, &tally, &mut call);
        assert_eq!(outcome.map_err(|failure| failure.abort_code().unwrap()), expected.map(drop));
        if let Ok(length) = expected {
            let mut client = Stream::of(call.output, 100);
            let reply = now(xdr::rpc::call(&mut client, &request)).unwrap();
            assert_eq!((reply.get().out.length, reply.get().call_back.expires), (length, 60));
        }
    }
    let counts = tally.of(0);
    assert_eq!((counts.calls, counts.replied, counts.refused, counts.faults), (2, 1, 1, 0));
    assert!(counts.took_us >= counts.took_us_max);
}

#[test]
fn what_is_no_procedure_or_not_written_is_refused_as_rxgen_opcode() {
    let (shelf, tally) = (Shelf::default(), Tally::default());
    let outcome =
        |input: Vec<u8>| serve(&shelf, &tally, &mut Stream::of(input, 100)).unwrap_err().abort_code();
    assert_eq!(outcome(words(&[999])), Some(code::OPCODE));
    assert_eq!(outcome(words(&[65539])), Some(code::OPCODE), "declared, not written");
    assert_eq!(outcome(vec![0, 0, 0]), Some(code::DECODE));
    assert_eq!((tally.unknown_opcodes(), tally.without_opcode(), tally.of(7).faults), (1, 1, 1));
}

#[test]
fn reply_beyond_the_interface_is_not_sent() {
    let (shelf, tally) = (Shelf::default(), Tally::default());
    let mut call = Stream::of(words(&[65540]), 100);
    let failure = serve(&shelf, &tally, &mut call).unwrap_err();
    assert_eq!(failure.abort_code(), Some(code::SS_MARSHAL));
    assert!(call.output.is_empty() && !call.finished);
}

#[test]
fn hostile_lengths_are_refused_before_what_they_announce_comes() {
    let (shelf, tally) = (Shelf::default(), Tally::default());
    for input in [
        words(&[65536, 51]),
        words(&[65536, u32::MAX]),
        [words(&[65538, 1, 2, 3, 0, 0, 0, 257]), vec![b'x'; 300]].concat(),
        words(&[161, 1, 2, 3, u32::MAX]),
    ] {
        // Endless zeros behind it, if the reader asks for them.
        let mut call = Stream::of([input.clone(), vec![0; 1 << 20]].concat(), 1 << 20);
        let failure = serve(&shelf, &tally, &mut call).unwrap_err();
        assert_eq!(failure.abort_code(), Some(code::SS_UNMARSHAL), "{input:?}");
        assert!(call.read <= input.len() + 64, "{} bytes taken for {}", call.read, input.len());
    }
}

#[test]
fn request_that_never_ends_is_refused_at_the_limit_in_bounded_work() {
    let (shelf, tally) = (Shelf::default(), Tally::default());
    // A list without a bound of its own, of empty names, in tiny pieces.
    let count = 70_000;
    let input = [words(&[161, 1, 2, 3, count]), vec![0; 4 * count as usize]].concat();
    let mut call = Stream::of(input, 4);
    let failure = serve(&shelf, &tally, &mut call).unwrap_err();
    assert_eq!(failure.abort_code(), Some(code::SS_UNMARSHAL));
    assert!(call.read <= ARGUMENTS_MAX + 100);
    // What is just within it is served.
    let count = 60_000;
    let input = [words(&[161, 1, 2, 3, count]), vec![0; 4 * count as usize]].concat();
    serve(&shelf, &tally, &mut Stream::of(input, 4)).unwrap();
    assert_eq!((tally.of(2).replied, tally.of(2).faults), (1, 1));
}

#[test]
fn request_cut_short_anywhere_is_a_fault_and_nothing_is_stored() {
    let whole = store(5, b"0123456789");
    for len in 0..whole.len() {
        let (shelf, tally) = (Shelf::default(), Tally::default());
        let failure = serve(&shelf, &tally, &mut Stream::of(whole[..len].to_vec(), 6)).unwrap_err();
        let parameters = whole.len() - 10;
        match len {
            0..4 => assert!(matches!(failure, Failure::Fault(Fault::NoOpcode { .. }))),
            len if len < parameters => {
                let truncated = |error: Error| error.is_truncated();
                assert!(
                    matches!(failure, Failure::Fault(Fault::DecodeRequest { error, .. }) if truncated(error))
                );
            }
            _ => assert_eq!(failure, Failure::Stream(Gone)),
        }
        assert!(shelf.files.borrow().is_empty());
    }
}

#[test]
fn any_bytes_are_served_or_refused() {
    check!().for_each(|input: &[u8]| {
        let opcode =
            [132u32, 137, 161, 65536, 65538, 65540][input.first().map_or(0, |byte| *byte as usize % 6)];
        let input = [opcode.to_be_bytes().to_vec(), input.to_vec()].concat();
        let _ = serve(&Shelf::default(), &Tally::default(), &mut Stream::of(input, 7));
    });
}
