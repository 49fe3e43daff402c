//! Common parts of stubs made by `rxgen`: the procedure traits and rxgen's error codes.
//!
//! A request is the opcode as a word, then the IN and INOUT parameters in order; a reply is the INOUT and OUT
//! parameters in order, with no status word, since failures travel as an Rx abort. In a split call raw bytes of the
//! application follow the request's parameters or precede the reply's; the interface says which and how many.
//! Bytes behind the last parameter are left to the caller: stock peers ignore them.

mod stream;
mod tally;

use crate::{Decode, Encode, Error, Reader, Sink, Writer};

pub use stream::{
    ARGUMENTS_MAX, Arguments, CallStream, Failure, REPLY_MAX, Received, call, end, opcode, reply, start,
};
pub use tally::{ProcedureCounts, Tally};

/// Abort codes that rxgen stubs send, from OpenAFS's `rxgen_consts.h`.
pub mod code {
    /// The client could not encode a request.
    pub const CC_MARSHAL: i32 = -450;
    /// The client could not decode a reply.
    pub const CC_UNMARSHAL: i32 = -451;
    /// The server could not encode a reply.
    pub const SS_MARSHAL: i32 = -452;
    /// The server could not decode the parameters of a request.
    pub const SS_UNMARSHAL: i32 = -453;
    /// The server found no opcode in a request.
    pub const DECODE: i32 = -454;
    /// The server has no procedure with the request's opcode.
    pub const OPCODE: i32 = -455;
    /// The server could not release a request's memory. Listed because stock servers send it.
    pub const SS_XDRFREE: i32 = -456;
    /// The client could not release a reply's memory.
    pub const CC_XDRFREE: i32 = -457;
}

/// Reason why a stub gave up. [`Fault::abort_code`] is the code that the peer gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Client: a parameter of the request does not fit its declaration or the buffer.
    #[error("{procedure}: request cannot be encoded: {error}")]
    EncodeRequest {
        /// Package and name of the procedure.
        procedure: &'static str,
        /// Error of the encoding.
        error: Error,
    },
    /// Client: the reply is not what the interface declares.
    #[error("{procedure}: reply cannot be decoded: {error}")]
    DecodeReply {
        /// Package and name of the procedure.
        procedure: &'static str,
        /// Error of the encoding.
        error: Error,
    },
    /// Server: a parameter of the reply does not fit its declaration or the buffer.
    #[error("{procedure}: reply cannot be encoded: {error}")]
    EncodeReply {
        /// Package and name of the procedure.
        procedure: &'static str,
        /// Error of the encoding.
        error: Error,
    },
    /// Server: the request's parameters are not what the interface declares.
    #[error("{procedure}: request cannot be decoded: {error}")]
    DecodeRequest {
        /// Package and name of the procedure.
        procedure: &'static str,
        /// Error of the encoding.
        error: Error,
    },
    /// Server: the request is too short to hold an opcode.
    #[error("request has no opcode: {error}")]
    NoOpcode {
        /// Error of the encoding.
        error: Error,
    },
    /// Server: the interface has no procedure with this opcode.
    #[error("no procedure has opcode {opcode}")]
    UnknownOpcode {
        /// Opcode of the request.
        opcode: u32,
    },
}

impl Fault {
    /// Returns the code to abort the call with (see [`code`]).
    pub const fn abort_code(&self) -> i32 {
        match self {
            Self::EncodeRequest { .. } => code::CC_MARSHAL,
            Self::DecodeReply { .. } => code::CC_UNMARSHAL,
            Self::EncodeReply { .. } => code::SS_MARSHAL,
            Self::DecodeRequest { .. } => code::SS_UNMARSHAL,
            Self::NoOpcode { .. } => code::DECODE,
            Self::UnknownOpcode { .. } => code::OPCODE,
        }
    }

    /// Returns whether the input merely ended too soon, so that the caller may wait for more bytes and decode
    /// again.
    pub const fn is_incomplete(&self) -> bool {
        match self {
            Self::DecodeReply { error, .. }
            | Self::DecodeRequest { error, .. }
            | Self::NoOpcode { error } => error.is_truncated(),
            Self::EncodeRequest { .. } | Self::EncodeReply { .. } | Self::UnknownOpcode { .. } => false,
        }
    }
}

/// A procedure of an interface, implemented by the struct of its IN and INOUT parameters.
pub trait Procedure: Encode {
    /// Package and name, as `RXAFS_FetchStatus`.
    const NAME: &'static str;
    /// The number that stands first in a request.
    const OPCODE: u32;
    /// True when the interface allows the call to be made to many servers at once (`multi`).
    const MULTI: bool;
    /// The IN and INOUT parameters, borrowed from a request's bytes: this struct.
    type Request<'a>: Decode<'a>;
    /// The INOUT and OUT parameters.
    type Reply<'a>: Encode + Decode<'a>;

    /// Writes `reply`, as the server; in a split call that is the part behind the raw bytes.
    fn encode_reply<S: Sink>(reply: &Self::Reply<'_>, writer: &mut Writer<S>) -> Result<(), Fault> {
        writer.value(reply).map_err(|error| Fault::EncodeReply { procedure: Self::NAME, error })
    }
}

/// A procedure whose request and reply hold nothing but parameters.
pub trait Call: Procedure {
    /// Writes the whole request, as the client.
    fn encode_request<S: Sink>(&self, writer: &mut Writer<S>) -> Result<(), Fault> {
        encode_request(self, writer)
    }

    /// Reads the reply, as the client.
    fn decode_reply<'a>(reader: &mut Reader<'a>) -> Result<Self::Reply<'a>, Fault> {
        decode_reply::<Self>(reader)
    }
}

/// A `split` procedure: the caller moves raw bytes between [`SplitCall::start`] and [`SplitCall::end`].
pub trait SplitCall: Procedure {
    /// Writes the opcode and the parameters that open the request, as the client.
    fn start<S: Sink>(&self, writer: &mut Writer<S>) -> Result<(), Fault> {
        encode_request(self, writer)
    }

    /// Reads the parameters that close the reply, as the client, with the reader behind the raw bytes.
    fn end<'a>(reader: &mut Reader<'a>) -> Result<Self::Reply<'a>, Fault> {
        decode_reply::<Self>(reader)
    }
}

/// Entry of an interface's table of procedures. Its index in the table is the one that call statistics use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Package and name of the procedure.
    pub name: &'static str,
    /// The number that stands first in a request.
    pub opcode: u32,
    /// True when raw bytes go between the parameters.
    pub split: bool,
    /// True when the call may be made to many servers at once.
    pub multi: bool,
}

/// Reads the opcode, as the server.
pub fn decode_opcode(reader: &mut Reader<'_>) -> Result<u32, Fault> {
    reader.u32().map_err(|error| Fault::NoOpcode { error })
}

/// Reads the parameters of `P`, as the server, with the reader behind the opcode.
pub fn decode_arguments<'a, P: Procedure + Decode<'a>>(reader: &mut Reader<'a>) -> Result<P, Fault> {
    reader.value().map_err(|error| Fault::DecodeRequest { procedure: P::NAME, error })
}

fn encode_request<P: Procedure + ?Sized, S: Sink>(
    arguments: &P,
    writer: &mut Writer<S>,
) -> Result<(), Fault> {
    writer
        .u32(P::OPCODE)
        .and_then(|()| arguments.encode(writer))
        .map_err(|error| Fault::EncodeRequest { procedure: P::NAME, error })
}

fn decode_reply<'a, P: Procedure + ?Sized>(reader: &mut Reader<'a>) -> Result<P::Reply<'a>, Fault> {
    reader.value().map_err(|error| Fault::DecodeReply { procedure: P::NAME, error })
}
