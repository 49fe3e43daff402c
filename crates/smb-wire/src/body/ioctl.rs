//! IOCTL (MS-SMB2 2.2.31, 2.2.32). What the codes carry is in [`crate::fsctl`].

use zerocopy::little_endian::{U16, U32};

use crate::fixed::body;
use crate::guid::FileId;
use crate::malformed::Malformed;
use crate::message::{Body, Message, apart};

/// `Flags`: the code is one of file systems, not of devices.
pub const FLAG_IS_FSCTL: u32 = 1;

body! {
    /// Fixed part of the request, MS-SMB2 2.2.31.
    pub struct IoctlRequestFixed = 57 {
        reserved: U16,
        ctl_code: U32,
        file_id: FileId,
        input_offset: U32,
        input_count: U32,
        max_input_response: U32,
        output_offset: U32,
        output_count: U32,
        max_output_response: U32,
        flags: U32,
        reserved2: U32,
    }
}

body! {
    /// Fixed part of the response, MS-SMB2 2.2.32.
    pub struct IoctlResponseFixed = 49 {
        reserved: U16,
        ctl_code: U32,
        file_id: FileId,
        input_offset: U32,
        input_count: U32,
        output_offset: U32,
        output_count: U32,
        flags: U32,
        reserved2: U32,
    }
}

/// A control code and what goes with it.
#[derive(Clone, Copy, Debug)]
pub struct IoctlRequest<'a> {
    /// The fixed part.
    pub fixed: &'a IoctlRequestFixed,
    /// Input of the control code.
    pub input: &'a [u8],
}

impl<'a> IoctlRequest<'a> {
    /// Reads the request. Its output, which must be empty, is checked and not kept.
    pub fn parse(message: &Message<'a>) -> Result<Self, Malformed> {
        let fixed = message.fixed::<IoctlRequestFixed>()?;
        let input = (fixed.input_offset.get(), fixed.input_count.get());
        let output = (fixed.output_offset.get(), fixed.output_count.get());
        message.part::<IoctlRequestFixed>(output.0, output.1)?;
        apart(input, output)?;
        Ok(Self { fixed, input: message.part::<IoctlRequestFixed>(input.0, input.1)? })
    }

    /// Appends a request.
    pub fn write(body: &mut Body<'_>, mut fixed: IoctlRequestFixed, input: &[u8]) {
        body.push(&fixed);
        let input = body.bytes(input);
        fixed.input_offset.set(if input.len == 0 { 0 } else { input.offset });
        fixed.input_count.set(input.len);
        body.set_fixed(&fixed);
    }
}

/// An IOCTL response.
#[derive(Clone, Copy, Debug)]
pub struct IoctlResponse<'a> {
    /// The fixed part.
    pub fixed: &'a IoctlResponseFixed,
    /// Output of the control code.
    pub output: &'a [u8],
}

impl<'a> IoctlResponse<'a> {
    /// Reads the response.
    pub fn parse(message: &Message<'a>) -> Result<Self, Malformed> {
        let fixed = message.fixed::<IoctlResponseFixed>()?;
        let output =
            message.part::<IoctlResponseFixed>(fixed.output_offset.get(), fixed.output_count.get())?;
        Ok(Self { fixed, output })
    }

    /// Appends a response.
    pub fn write(body: &mut Body<'_>, fixed: IoctlResponseFixed, output: &[u8]) {
        Self::write_behind(body, fixed, &[], output);
    }

    /// Writes the response with padding before the output ([`IoctlResponse::write`]).
    pub fn write_behind(body: &mut Body<'_>, mut fixed: IoctlResponseFixed, padding: &[u8], output: &[u8]) {
        body.push(&fixed);
        body.bytes(padding);
        let output = body.bytes(output);
        //= MS-SMB2 3.3.5.15
        //# InputOffset is where the buffer begins, InputCount zero.
        fixed.input_offset.set(output.offset);
        fixed.output_offset.set(output.offset);
        fixed.output_count.set(output.len);
        body.set_fixed(&fixed);
    }
}
