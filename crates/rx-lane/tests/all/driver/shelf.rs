//! File service by generated stubs, and a client of it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use rx_lane::{CallError, Connection, Driver, ServerCall};
use xdr::List;
use xdr::rpc::{Failure, code};

#[allow(unreachable_pub, dead_code)]
mod interface {
    include!("../../../../rxgen/tests/generated/files.rs");
}

use interface::{CallBack, FIDS_MAX, Fid, Status, StoreStatus, WORDS_MAX, files};

pub(crate) const SERVICE: u16 = 77;
const NO_SUCH_FILE: i32 = 2;

/// Files by vnode, served from memory.
#[derive(Default)]
pub(crate) struct Shelf {
    files: RefCell<BTreeMap<u32, Vec<u8>>>,
    pub(crate) tally: files::Tally,
}

type Refused = Failure<CallError>;

impl Shelf {
    fn status(&self, fid: &Fid) -> Result<Status, Refused> {
        let files = self.files.borrow();
        let bytes = files.get(&fid.vnode).ok_or(Failure::Refused(NO_SUCH_FILE))?;
        Ok(Status { length: bytes.len() as u64, ..Status::default() })
    }
}

impl files::Server<ServerCall> for Shelf {
    async fn fetch_status(
        &self,
        call: &ServerCall,
        request: files::FetchStatus,
    ) -> Result<files::FetchStatusReply, Refused> {
        assert!(call.remote().is_some(), "the call tells who asks");
        Ok(files::FetchStatusReply { out: self.status(&request.fid)?, call_back: CallBack::default() })
    }

    async fn create_file(
        &self,
        _: &ServerCall,
        request: files::CreateFile<'_>,
    ) -> Result<files::CreateFileReply, Refused> {
        let out_fid = Fid { vnode: request.name.len() as u32, ..request.dir_fid };
        let out_fid_status = Status { unix_mode_bits: request.in_status.unix_mode_bits, ..Status::default() };
        Ok(files::CreateFileReply { out_fid, out_fid_status, call_back: CallBack::default() })
    }

    async fn lookup(
        &self,
        _: &ServerCall,
        request: files::Lookup<'_>,
    ) -> Result<files::LookupReply, Refused> {
        let names = &request.path.0;
        let bytes: usize = names.iter().map(|name| name.len()).sum();
        Ok(files::LookupReply {
            out_fid: Fid { vnode: (names.len() * 1000 + bytes) as u32, ..request.dir_fid },
        })
    }

    async fn inline_bulk_status(
        &self,
        _: &ServerCall,
        request: files::InlineBulkStatus,
    ) -> Result<files::InlineBulkStatusReply, Refused> {
        let fids = &request.fids_array.0;
        let statuses = fids.iter().map(|fid| self.status(fid).unwrap_or_default()).collect();
        let cb_array = List(vec![CallBack::default(); fids.len()]);
        Ok(files::InlineBulkStatusReply { stat_array: List(statuses), cb_array })
    }

    async fn get_capabilities(
        &self,
        _: &ServerCall,
        _: files::GetCapabilities,
    ) -> Result<files::GetCapabilitiesReply, Refused> {
        Ok(files::GetCapabilitiesReply { capabilities: List((0..WORDS_MAX).collect()) })
    }

    async fn fetch_data64(
        &self,
        call: &mut ServerCall,
        request: files::FetchData64,
    ) -> Result<files::FetchData64Reply, Refused> {
        let out_status = self.status(&request.fid)?;
        let bytes = self.files.borrow()[&request.fid.vnode].clone();
        call.write(&(bytes.len() as u64).to_be_bytes()).await?;
        for piece in bytes.chunks(50_000) {
            call.write(piece).await?;
        }
        let call_back = CallBack { expires: 60, ..CallBack::default() };
        Ok(files::FetchData64Reply { out_status, call_back })
    }

    async fn store_data64(
        &self,
        call: &mut ServerCall,
        request: files::StoreData64<'_>,
    ) -> Result<files::StoreData64Reply, Refused> {
        if &*request.reason == b"forbidden" {
            return Err(Failure::Refused(13));
        }
        let mut bytes = vec![0; request.length as usize];
        call.read_exact(&mut bytes).await?;
        self.files.borrow_mut().insert(request.fid.vnode, bytes);
        Ok(files::StoreData64Reply { out_status: self.status(&request.fid)? })
    }
}

fn fid(vnode: u32) -> Fid {
    Fid { volume: 1, vnode, unique: 9 }
}

async fn status(connection: &Connection, vnode: u32) -> Result<u64, Refused> {
    let mut call = connection.call().await?;
    let reply = xdr::rpc::call(&mut call, &files::FetchStatus { fid: fid(vnode) }).await?;
    Ok(reply.get().out.length)
}

async fn store(connection: &Connection, vnode: u32, data: &[u8], reason: &str) -> Result<u64, Refused> {
    let mut call = connection.call().await?;
    let length = data.len() as u64;
    let request = files::StoreData64 {
        fid: fid(vnode),
        in_status: StoreStatus::default(),
        reason: reason.into(),
        pos: 0,
        length,
        file_length: length,
    };
    xdr::rpc::start(&mut call, &request).await?;
    call.write(data).await?;
    call.finish().await?;
    let reply = xdr::rpc::end::<files::StoreData64<'_>, _>(&mut call).await?;
    Ok(reply.get().out_status.length)
}

async fn fetch(connection: &Connection, vnode: u32) -> Result<Vec<u8>, Refused> {
    let mut call = connection.call().await?;
    let request = files::FetchData64 { fid: fid(vnode), pos: 0, length: i64::MAX };
    xdr::rpc::start(&mut call, &request).await?;
    call.finish().await?;
    let mut length = [0; 8];
    call.read_exact(&mut length).await?;
    let mut bytes = vec![0; u64::from_be_bytes(length) as usize];
    call.read_exact(&mut bytes).await?;
    let reply = xdr::rpc::end::<files::FetchData64, _>(&mut call).await?;
    assert_eq!(reply.get().out_status.length, bytes.len() as u64);
    Ok(bytes)
}

/// Serves the files of `shelf` by `driver`.
pub(crate) fn serve(driver: &Driver, shelf: Rc<Shelf>) {
    driver.serve(SERVICE, move |mut call: ServerCall| {
        let shelf = Rc::clone(&shelf);
        async move { files::serve(&*shelf, &mut call, &shelf.tally).await }
    });
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 253) as u8).collect()
}

/// Calls procedures with lists and names as parameters.
async fn lists(connection: &Connection) -> Result<(), Refused> {
    let mut call = connection.call().await?;
    let path = List([&b"a"[..], b"bcdef", b""].map(Into::into).to_vec());
    let reply = xdr::rpc::call(&mut call, &files::Lookup { dir_fid: fid(1), path }).await?;
    assert_eq!(reply.get().out_fid, fid(3006));
    let mut call = connection.call().await?;
    let fids_array = List((0..FIDS_MAX).map(fid).collect());
    let reply = xdr::rpc::call(&mut call, &files::InlineBulkStatus { fids_array }).await?;
    assert_eq!((reply.get().stat_array.0.len(), reply.get().cb_array.0.len()), (50, 50));
    assert!(reply.get().stat_array.0[5].length >= 300_000, "what was stored");
    let mut call = connection.call().await?;
    let reply = xdr::rpc::call(&mut call, &files::GetCapabilities {}).await?;
    assert!(reply.get().capabilities.0.iter().copied().eq(0..WORDS_MAX));
    Ok(())
}

/// Calls every procedure, also with requests that break the interface, on a server without files at first.
pub(crate) async fn scenario(connection: Connection, seed: u64) {
    let data = pattern(300_000 + seed as usize % 12 * 777);
    assert_eq!(status(&connection, 5).await, Err(Failure::Stream(CallError::Aborted(NO_SUCH_FILE))));
    assert_eq!(store(&connection, 5, &data, "because").await, Ok(data.len() as u64));
    assert_eq!(status(&connection, 5).await, Ok(data.len() as u64));
    assert!(fetch(&connection, 5).await.expect("stored") == data, "bytes differ");
    // Empty files have their parameters right behind one another.
    assert_eq!(store(&connection, 6, b"", "").await, Ok(0));
    assert_eq!(fetch(&connection, 6).await, Ok(Vec::new()));
    let refused = store(&connection, 7, &data, "forbidden").await;
    assert_eq!(refused, Err(Failure::Stream(CallError::Aborted(13))));
    assert_eq!(fetch(&connection, 7).await, Err(Failure::Stream(CallError::Aborted(NO_SUCH_FILE))));
    lists(&connection).await.expect("answered");
    for (opcode, expected) in [(999u32, code::OPCODE), (65539, code::OPCODE)] {
        let mut call = connection.call().await.expect("a channel");
        call.write(&opcode.to_be_bytes()).await.expect("lives");
        call.finish().await.expect("lives");
        assert_eq!(call.read_to_end(1).await, Err(CallError::Aborted(expected)));
    }
    let mut call = connection.call().await.expect("a channel");
    call.write(&[0, 1, 0, 2, 0, 0]).await.expect("lives");
    call.finish().await.expect("lives");
    assert_eq!(call.read_to_end(1).await, Err(CallError::Aborted(code::SS_UNMARSHAL)));
}
