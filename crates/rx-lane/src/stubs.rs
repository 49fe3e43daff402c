//! Calls as the streams of generated stubs (`rxgen`, `xdr::rpc`); a [`ServerCall`](crate::ServerCall) is one
//! by its inner call.

use std::time::Instant;

use xdr::rpc::{CallStream, Failure};

use crate::{AbortCode, Call, CallError};

impl CallStream for Call {
    type Error = CallError;

    async fn read(&mut self, into: &mut [u8]) -> Result<usize, CallError> {
        self.read_into(into).await
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), CallError> {
        Call::write(self, bytes).await
    }

    async fn finish(&mut self) -> Result<(), CallError> {
        Call::finish(self).await
    }

    fn now(&self) -> Instant {
        lane::time::clock()
    }
}

impl From<Failure<CallError>> for AbortCode {
    fn from(failure: Failure<CallError>) -> Self {
        match failure {
            Failure::Stream(error) => error.into(),
            Failure::Fault(fault) => fault.abort_code().into(),
            Failure::Refused(code) => code.into(),
        }
    }
}
