//! Kernel TLS of simulated hosts. The simulator knows no cipher: a test lends it one.

use std::fmt;
use std::io::{self, IoSlice};
use std::sync::Arc;

use super::stream::{Around, Conn, Side};
use super::{Engine, Network, SocketId};
use crate::socket::control::ControlMessages;
use crate::socket::ktls::KtlsRefusal;

/// Makes records of what one stream sends, as the kernel would.
pub trait RecordLayer: Send {
    /// Takes the first or the next key, as the kernel's `crypto_info` structure.
    fn set_key(&mut self, crypto_info: &[u8]) -> Result<(), KtlsRefusal>;

    /// Makes a record of at most 16 KiB of plaintext.
    fn seal(&mut self, record_type: u8, plain: &[u8]) -> Vec<u8>;
}

/// The kernel TLS that a world's hosts have.
#[derive(Clone)]
pub struct KernelTls {
    make: Arc<dyn Fn() -> Box<dyn RecordLayer> + Send + Sync>,
    can_change_key: bool,
}

impl KernelTls {
    /// Makes kernel TLS that asks `make` for a record layer for each stream. `can_change_key` is false for
    /// kernels before 6.14: a second key is refused then without asking the record layer.
    pub fn new(
        can_change_key: bool,
        make: impl Fn() -> Box<dyn RecordLayer> + Send + Sync + 'static,
    ) -> Self {
        Self { make: Arc::new(make), can_change_key }
    }

    pub(in crate::backend::sim) fn can_change_key(&self) -> bool {
        self.can_change_key
    }
}

impl fmt::Debug for KernelTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelTls").field("can_change_key", &self.can_change_key).finish_non_exhaustive()
    }
}

impl Network {
    /// Gives a stream the first or next key.
    pub(in crate::backend::sim) fn set_ktls_key(
        &mut self,
        socket: SocketId,
        crypto_info: &[u8],
    ) -> Result<(), KtlsRefusal> {
        let kernel = self.config.tcp.kernel_tls.clone().ok_or(KtlsRefusal::NoModule)?;
        let (conn, side) = self.stream_of(socket).map_err(|_| KtlsRefusal::NotConnected)?;
        let conn = self.conns.get_mut(&conn).ok_or(KtlsRefusal::NotConnected)?;
        conn.set_ktls_key(side, &kernel, crypto_info)
    }

    /// Returns whether the host makes TLS records of what the stream sends.
    pub(crate) fn makes_records(&self, socket: SocketId) -> io::Result<bool> {
        let (conn, side) = self.stream_of(socket)?;
        Ok(self.conns.get(&conn).is_some_and(|c| c.ends[side as usize].records.is_some()))
    }

    /// Sends with control messages. As in Linux, a stream without kernel TLS pays no heed to TLS's, and none is refused but
    /// those to the socket itself that it does not know.
    pub(crate) fn send_control(
        &mut self,
        socket: SocketId,
        bytes: &[u8],
        control: &[u8],
        engine: &mut Engine,
    ) -> io::Result<Option<usize>> {
        let told = ControlMessages::new(control);
        let known = [libc::SO_MARK, libc::SO_TIMESTAMPING, libc::SCM_TXTIME, libc::SCM_RIGHTS];
        if told.clone().any(|message| message.level == libc::SOL_SOCKET && !known.contains(&message.kind)) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let record_type =
            told.find_data(libc::SOL_TLS, libc::TLS_SET_RECORD_TYPE).and_then(|data| data.first().copied());
        let (conn, side) = self.stream_of(socket)?;
        self.try_with_conn(conn, engine, |c, around| match record_type {
            Some(record_type) => c.send_record(side, record_type, bytes, around),
            None => c.send(side, &[IoSlice::new(bytes)], false, around),
        })?
    }
}

impl Conn {
    fn set_ktls_key(
        &mut self,
        side: Side,
        kernel: &KernelTls,
        crypto_info: &[u8],
    ) -> Result<(), KtlsRefusal> {
        let (end, peer_ended) = (&mut self.ends[side as usize], self.flows[side.other() as usize].eof);
        match &mut end.records {
            Some(_) if !kernel.can_change_key => Err(KtlsRefusal::KeyFixed),
            Some(records) => records.set_key(crypto_info),
            None if end.broken || peer_ended => Err(KtlsRefusal::NotConnected),
            None => {
                let mut records = (kernel.make)();
                records.set_key(crypto_info)?;
                end.records = Some(records);
                Ok(())
            }
        }
    }

    fn send_record(
        &mut self,
        side: Side,
        record_type: u8,
        bytes: &[u8],
        around: &mut Around<'_>,
    ) -> io::Result<Option<usize>> {
        let writable = self.is_writable(side);
        let Some(records) = &mut self.ends[side as usize].records else {
            return self.send(side, &[IoSlice::new(bytes)], false, around);
        };
        if !writable {
            return Ok(None);
        }
        let record = records.seal(record_type, bytes);
        self.send_whole(side, &record, around).map(|()| Some(bytes.len()))
    }
}
