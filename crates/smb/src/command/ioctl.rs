//! IOCTL (MS-SMB2 3.3.5.15): what concerns the connection or the server is answered here.

use smb_rpc::Pipe;
use smb_wire::body::ioctl::{FLAG_IS_FSCTL, IoctlRequest};
use smb_wire::chain::EntryWriter;
use smb_wire::fsctl::code;
use smb_wire::fsctl::interfaces;
use smb_wire::fsctl::negotiate_info::{ValidateRequest, ValidateResponse};
use smb_wire::fsctl::pipe_wait;
use smb_wire::{Dialect, FileId, Status};
use zerocopy::IntoBytes;

use super::ioctl_response::answer;
use super::target::Target;
use super::test_controls;
use crate::connection::{Call, Reply};
use crate::pipe::PipeOpen;
use crate::session::TreeKind;

/// Carries out a control code.
pub(super) async fn ioctl(call: &Call<'_>, request: &IoctlRequest<'_>) -> Result<Reply, Status> {
    let fixed = request.fixed;
    //= MS-SMB2 3.3.5.15
    //# Flags other than SMB2_0_IOCTL_IS_FSCTL fail with STATUS_NOT_SUPPORTED.
    if fixed.flags.get() != FLAG_IS_FSCTL {
        return Err(Status::NOT_SUPPORTED);
    }
    let negotiated = call.negotiated()?;
    //= MS-SMB2 3.3.5.15
    //# More than MaxTransactSize fails with STATUS_INVALID_PARAMETER.
    let most = fixed.max_output_response.get().max(fixed.max_input_response.get());
    if most > negotiated.transact_max || fixed.input_count.get() > negotiated.transact_max {
        return Err(Status::INVALID_PARAMETER);
    }
    let output_max = fixed.max_output_response.get() as usize;
    match fixed.ctl_code.get() {
        code::VALIDATE_NEGOTIATE_INFO => {
            let output = validate_negotiate(call, request.input, output_max)?;
            Ok(answer(request, Status::SUCCESS, output))
        }
        code::QUERY_NETWORK_INTERFACE_INFO => {
            //= MS-SMB2 3.3.5.15
            //# The codes that concern no file take a FileId of all ones: any other fails with STATUS_INVALID_PARAMETER.
            if fixed.file_id != FileId::RELATED {
                return Err(Status::INVALID_PARAMETER);
            }
            Ok(answer(request, Status::SUCCESS, network_interfaces(call, output_max).await?))
        }
        code::PIPE_WAIT => {
            wait_for_pipe(call, request)?;
            Ok(answer(request, Status::SUCCESS, Vec::new()))
        }
        code::TEST_FORCE_UNACKED | code::TEST_ASYNC_SLEEP | code::TEST_PAD_IOCTL | code::TEST_PAD_READS => {
            test_controls::ioctl(call, request).await
        }
        //= MS-SMB2 3.3.5.15.2
        //# A server that knows no DFS fails with STATUS_FS_DRIVER_REQUIRED.
        code::DFS_GET_REFERRALS | code::DFS_GET_REFERRALS_EX => Err(Status::FS_DRIVER_REQUIRED),
        code => {
            let charge = call.output_room(most).await?;
            let answer = match call.target()? {
                Target::File { share, ctx, open } => {
                    let _entered = call.enter(&open)?;
                    let answer = share.ioctl(&ctx, &open, code, request.input, most).await?;
                    (answer.status, answer.output)
                }
                Target::Pipe(pipe) => of_pipe(call, &pipe, code, request.input, output_max).await?,
            };
            Ok(self::answer(request, answer.0, answer.1).paid_by(charge))
        }
    }
}

/// Carries out a control code of pipes (MS-SMB2 3.3.5.15.3, 3.3.5.15.4).
async fn of_pipe(
    call: &Call<'_>,
    pipe: &PipeOpen,
    code: u32,
    input: &[u8],
    output_max: usize,
) -> Result<(Status, Vec<u8>), Status> {
    match code {
        code::PIPE_TRANSCEIVE => {
            let answer = pipe.transact(call, input, output_max).await?;
            Ok((answer.status, answer.data))
        }
        code::PIPE_PEEK => {
            // State (connected), bytes there, messages, and the length of the first.
            let there = pipe.available() as u32;
            let words = [PIPE_CONNECTED, there, u32::from(there > 0), there];
            let output: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
            if output.len() > output_max {
                Err(Status::BUFFER_TOO_SMALL)
            } else {
                Ok((Status::SUCCESS, output))
            }
        }
        _ => Err(Status::INVALID_DEVICE_REQUEST),
    }
}

/// Checks whether a pipe can be opened: each that there is always can, so no request waits.
fn wait_for_pipe(call: &Call<'_>, request: &IoctlRequest<'_>) -> Result<(), Status> {
    //= MS-SMB2 3.3.5.15
    //# FSCTL_PIPE_WAIT names its pipe itself: a FileId other than all ones fails with STATUS_INVALID_PARAMETER.
    if request.fixed.file_id != FileId::RELATED {
        return Err(Status::INVALID_PARAMETER);
    }
    //= MS-SMB2 3.3.5.15.10
    //# What is there and is no pipe fails with STATUS_INVALID_DEVICE_REQUEST, a name that is malformed or unknown with
    //# STATUS_OBJECT_NAME_NOT_FOUND.
    if !matches!(call.tree()?.kind, TreeKind::Pipes) {
        return Err(Status::INVALID_DEVICE_REQUEST);
    }
    let name = pipe_wait::parse(request.input).ok().and_then(|name| name.decode());
    let is_there = name.is_some_and(|name| Pipe::is_there(&name));
    if is_there { Ok(()) } else { Err(Status::OBJECT_NAME_NOT_FOUND) }
}

/// Returns whether the negotiation was changed on its way: the connection ends then.
fn validate_negotiate(call: &Call<'_>, input: &[u8], output_max: usize) -> Result<Vec<u8>, Status> {
    let (connection, negotiated) = (call.connection, call.negotiated()?);
    let request = ValidateRequest::parse(input).map_err(|malformed| malformed.status())?;
    let offered = |dialect: Dialect| request.dialects.iter().any(|offered| offered.get() == dialect as u16);
    let best = Dialect::ALL.into_iter().rev().find(|dialect| offered(*dialect));
    //= MS-SMB2 3.3.5.15.12
    //# Anything other than was negotiated, or too little room for the answer, ends the connection.
    let is_same = best == Some(negotiated.dialect)
        && request.fixed.capabilities.get() == negotiated.client_capabilities
        && request.fixed.guid == negotiated.client
        && request.fixed.security_mode.get() == negotiated.client_security_mode;
    let response = ValidateResponse {
        capabilities: negotiated.capabilities.into(),
        guid: connection.lane.server_state.guid(),
        security_mode: negotiated.security_mode.into(),
        dialect: (negotiated.dialect as u16).into(),
    };
    if !is_same || output_max < size_of_val(&response) {
        connection.lane.counters.ended_negotiate.increment();
        connection.end();
        return Err(Status::ACCESS_DENIED);
    }
    Ok(response.as_bytes().to_vec())
}

/// Returns where else the server can be reached.
async fn network_interfaces(call: &Call<'_>, output_max: usize) -> Result<Vec<u8>, Status> {
    let connection = call.connection;
    let here = connection.stream.local_addr().map_err(|_| Status::INVALID_PARAMETER)?;
    let told = connection.lane.options().interfaces.of_client(here, &connection.lane.server_state).await;
    let mut output = Vec::new();
    let mut list = EntryWriter::new(&mut output, 8, output_max);
    let fits = told.iter().all(|interface| interfaces::write(&mut list, interface));
    //= MS-SMB2 3.3.5.15.11
    //# What does not fit fails with STATUS_BUFFER_TOO_SMALL.
    if fits { Ok(output) } else { Err(Status::BUFFER_TOO_SMALL) }
}

/// `NamedPipeState`.
const PIPE_CONNECTED: u32 = 3;
