//! Information about a file (MS-FSCC 2.4).

use std::sync::Arc;

use smb_wire::body::query_info::QueryInfoRequest;
use smb_wire::chain::EntryWriter;
use smb_wire::create::access::rights::{READ_ATTRIBUTES, READ_EA};
use smb_wire::create::options;
use smb_wire::fsctl::compression;
use smb_wire::info::file::{
    AllInformationFixed, AttributeTagInformation, BasicInformation, CompressionInformation, IdInformation,
    NetworkOpenInformation, StandardInformation, class, write_all, write_name,
};
use smb_wire::info::posix::PosixHead;
use smb_wire::info::{ea as ea_wire, stream};
use smb_wire::{Dialect, Status};
use vfs::RelPath;
use zerocopy::{FromZeros, IntoBytes};

use super::cut;
use crate::attributes::Info;
use crate::lane_handle::LaneHandle;
use crate::names::{self, path_to_wire};
use crate::open::{Open, OpenKind};
use crate::request_context::RequestContext;
use crate::share::Share;
use crate::{Answer, ea, short_names, streams};

impl Share {
    pub(super) async fn query_file(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        class: u8,
        request: &QueryInfoRequest<'_>,
        len_max: usize,
    ) -> Result<Answer, Status> {
        //= MS-SMB2 3.3.5.20.1
        //# Classes that tell attributes take FILE_READ_ATTRIBUTES, the extended attributes FILE_READ_EA.
        let needs = match class {
            class::BASIC | class::ALL | class::NETWORK_OPEN | class::ATTRIBUTE_TAG => READ_ATTRIBUTES,
            class::FULL_EA => READ_EA,
            _ => 0,
        };
        if needs != 0 && !open.may(needs) {
            return Err(Status::ACCESS_DENIED);
        }
        let handle = self.handle(ctx, open).await?;
        if matches!(class, class::ALL | class::NORMALIZED_NAME | class::ALTERNATE_NAME) {
            self.present_path(open, &handle).await;
        }
        let whole = |output: Vec<u8>| {
            let len = output.len();
            cut(output, len, len_max)
        };
        match class {
            class::STREAM => self.query_streams(&handle, len_max).await,
            class::FULL_EA => query_eas(open, &handle, self.hidden(), request, len_max).await,
            class::ACCESS => whole(open.granted_access().to_le_bytes().to_vec()),
            class::POSITION => whole(open.position().to_le_bytes().to_vec()),
            class::MODE => whole(mode(open).to_le_bytes().to_vec()),
            class::ALIGNMENT => whole(vec![0; 4]),
            class::EA => whole(ea::size(&handle, self.hidden()).await?.to_le_bytes().to_vec()),
            //= MS-FSCC 2.4.35
            //# The normalized name is known since dialect 3.1.1, and begins without a backslash.
            class::NORMALIZED_NAME if ctx.dialect < Dialect::Smb311 => Err(Status::NOT_SUPPORTED),
            class::NORMALIZED_NAME => {
                let mut output = Vec::new();
                write_name(self.name_of(open).trim_start_matches('\\'), &mut output);
                cut(output, 4, len_max)
            }
            class::ALTERNATE_NAME => {
                let name = self.name_of(open);
                let last = name.rsplit('\\').next().unwrap_or_default();
                //= MS-FSCC 2.4.5
                //# A name that is short is its own short name. Others have one where the share gives them any.
                let beside = if self.options().short_names { short_names::beside(last) } else { None };
                if beside.is_none() && !names::is_short(last) {
                    return Err(Status::OBJECT_NAME_NOT_FOUND);
                }
                let mut output = Vec::new();
                write_name(beside.as_deref().unwrap_or(last), &mut output);
                cut(output, 8, len_max)
            }
            class::ALL => {
                let info = self.open_info(open, &handle).await?;
                let mut output = Vec::new();
                let size = ea::size(&handle, self.hidden()).await?;
                write_all(self.all(open, &info, size), &self.name_of(open), &mut output);
                cut(output, size_of::<AllInformationFixed>().next_multiple_of(8), len_max)
            }
            class => {
                let info = self.open_info(open, &handle).await?;
                whole(plain(ctx, open, &info, class).ok_or(Status::INVALID_INFO_CLASS)?)
            }
        }
    }

    /// Returns the path of an open below the share, as it is now, with its stream.
    pub(crate) fn name_of(&self, open: &Open) -> String {
        let path = open.grants().path(self.volume()).unwrap_or_default();
        let mut name = path_to_wire(self.root.inside(path.as_path()).unwrap_or(RelPath::ROOT));
        if let Some(stream) = open.stream() {
            name.push(':');
            name.push_str(&stream);
        }
        name
    }

    /// Returns the extended attributes that the share keeps for itself.
    fn hidden(&self) -> &[String] {
        &self.options().hide_attributes
    }

    fn all(&self, open: &Open, info: &Info, ea_size: u32) -> AllInformationFixed {
        AllInformationFixed {
            basic: basic(info),
            standard: standard(open, info),
            index_number: info.index.into(),
            ea_size: ea_size.into(),
            access_flags: open.granted_access().into(),
            current_byte_offset: open.position().into(),
            mode: mode(open).into(),
            alignment_requirement: 0.into(),
            file_name_length: 0.into(),
        }
    }

    async fn query_streams(&self, handle: &LaneHandle, len_max: usize) -> Result<Answer, Status> {
        let mut output = Vec::new();
        let mut entries = EntryWriter::new(&mut output, 8, len_max);
        let info = self.info(handle, None).await?;
        let mut fits = info.is_directory || stream::write(&mut entries, "", info.size, info.allocation);
        for it in streams::all(handle).await? {
            let allocation = crate::attributes::allocated(it.size);
            fits = fits && stream::write(&mut entries, &it.name, it.size, allocation);
        }
        match fits {
            false if len_max < STREAM_LEN_MIN => Err(Status::INFO_LENGTH_MISMATCH),
            false => Ok(Answer { status: Status::BUFFER_OVERFLOW, output }),
            true => Ok(Answer { status: Status::SUCCESS, output }),
        }
    }
}

async fn query_eas(
    open: &Open,
    handle: &LaneHandle,
    hidden: &[String],
    request: &QueryInfoRequest<'_>,
    len_max: usize,
) -> Result<Answer, Status> {
    let bits = request.fixed.flags.get();
    let first = if bits & EA_RESTART == 0 { open.state().ea_next } else { 0 };
    if !request.input.is_empty() {
        return ea::named(handle, hidden, request.input, len_max).await;
    }
    let (answer, next) = ea::list(handle, hidden, first, bits & EA_SINGLE != 0, len_max).await?;
    open.state().ea_next = next;
    debug_assert!(answer.output.len() <= len_max && ea_wire::parse(&answer.output).all(|ea| ea.is_ok()));
    Ok(answer)
}

/// Classes of fixed length that say what the file is.
fn plain(ctx: &RequestContext, open: &Open, info: &Info, class: u8) -> Option<Vec<u8>> {
    Some(match class {
        class::BASIC => basic(info).as_bytes().to_vec(),
        class::STANDARD => standard(open, info).as_bytes().to_vec(),
        class::INTERNAL => info.index.to_le_bytes().to_vec(),
        class::COMPRESSION => {
            let compression = CompressionInformation {
                //= MS-FSA 2.1.5.12.8
                //# Of what is compressed the room that it takes; else its size.
                compressed_file_size: match info.compression() {
                    compression::NONE => info.size.into(),
                    _ => info.allocation.into(),
                },
                compression_format: info.compression().into(),
                ..CompressionInformation::new_zeroed()
            };
            compression.as_bytes().to_vec()
        }
        class::NETWORK_OPEN => {
            let network = NetworkOpenInformation {
                creation_time: info.created.into(),
                last_access_time: info.accessed.into(),
                last_write_time: info.written.into(),
                change_time: info.changed.into(),
                allocation_size: info.allocation.into(),
                end_of_file: info.size.into(),
                file_attributes: info.attributes.into(),
                reserved: 0.into(),
            };
            network.as_bytes().to_vec()
        }
        class::ATTRIBUTE_TAG => {
            let tag = AttributeTagInformation {
                file_attributes: info.attributes.into(),
                reparse_tag: info.reparse_tag.into(),
            };
            tag.as_bytes().to_vec()
        }
        class::ID => {
            let mut file_id = [0; 16];
            file_id[..8].copy_from_slice(&info.index.to_le_bytes());
            let id = IdInformation { volume_serial_number: info.device.into(), file_id };
            id.as_bytes().to_vec()
        }
        class::POSIX if ctx.posix => posix(info),
        _ => return None,
    })
}

fn basic(info: &Info) -> BasicInformation {
    BasicInformation {
        creation_time: info.created.into(),
        last_access_time: info.accessed.into(),
        last_write_time: info.written.into(),
        change_time: info.changed.into(),
        file_attributes: info.attributes.into(),
        reserved: 0.into(),
    }
}

fn standard(open: &Open, info: &Info) -> StandardInformation {
    //= MS-FSA 2.1.5.12.27
    //# What has no name any more goes: DeletePending is 1.
    let goes = open.named().is_deleting() || (info.links == 0 && open.by_link.is_none());
    let links = if open.kind() == OpenKind::Directory { info.links.min(1) } else { info.links };
    StandardInformation {
        allocation_size: info.allocation.into(),
        end_of_file: info.size.into(),
        // A name that goes is no longer counted; that of a link to the file never was.
        number_of_links: links.saturating_sub(u32::from(goes && open.by_link.is_none())).into(),
        delete_pending: goes.into(),
        directory: (open.kind() == OpenKind::Directory).into(),
        reserved: 0.into(),
    }
}

/// Options of the open that FILE_MODE_INFORMATION tells.
fn mode(open: &Open) -> u32 {
    let told = options::WRITE_THROUGH | options::NO_INTERMEDIATE_BUFFERING | options::DELETE_ON_CLOSE;
    let made = open.options & (told | MODE_SETTABLE);
    open.state().mode.map_or(made, |set| set | made & !MODE_SETTABLE)
}

/// Returns what Linux's client asks for with the POSIX extensions.
fn posix(info: &Info) -> Vec<u8> {
    let head = PosixHead {
        creation_time: info.created.into(),
        last_access_time: info.accessed.into(),
        last_write_time: info.written.into(),
        change_time: info.changed.into(),
        end_of_file: info.size.into(),
        allocation_size: info.allocation.into(),
        file_attributes: info.attributes.into(),
        index_number: info.index.into(),
        device: (info.device as u32).into(),
        reserved: 0.into(),
    };
    let mut out = head.as_bytes().to_vec();
    info.posix().write(&mut out);
    out
}

/// Options that [`class::MODE`] sets.
pub(crate) const MODE_SETTABLE: u32 =
    options::SEQUENTIAL_ONLY | options::SYNCHRONOUS_IO_ALERT | options::SYNCHRONOUS_IO_NONALERT;
/// Flags where the extended attributes are asked for.
const EA_RESTART: u32 = 1;
const EA_SINGLE: u32 = 2;
/// A stream's entry without its name, whole units of 8.
const STREAM_LEN_MIN: usize = 32;
