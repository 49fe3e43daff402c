//! fuzz: a whole connection. Whatever a client sends, before or behind its sign-in, is answered or ends the connection; nothing is
//! left of it, and another client is served.

use std::net::SocketAddr;
use std::time::Duration;

use lane::time::sleep;
use smb_proto::sealing::Cipher;
use smb_wire::compound::Compound;
use smb_wire::create::access::rights;
use smb_wire::header::flags;
use smb_wire::{Command, Dialect, FileId};
use zerocopy::IntoBytes;

use super::bed::{rules, run, sign_in};
use super::raw::Raw;

/// Script of a client: the first byte says how far it comes first (% 3: not at all, signed in, with a file
/// open) and how its messages are protected once it has signed in (/ 3 % 4: not at all, signed, sealed by
/// AES-GCM, sealed by AES-CCM), which is done to what a script makes of them: what lies behind signature and
/// seal is reached. Behind that there are parts, each of a kind (one byte), a length (two, little-endian) and
/// its bytes:
///
/// | kind % 3 | bytes |
/// |---|---|
/// | 0 | a frame as it is |
/// | 1 | a message alone in its frame: a command, and the body of a request of the client's session and tree |
/// | 2 | the same as a related one, in one frame with the message before |
///
/// Where kind / 3 is odd its frame goes as it is, unsigned and unsealed.
///
/// Sixteen bytes of 0xEE where a body has a FileId stand for that of the open file.
struct Script<'a>(&'a [u8]);

struct Part<'a> {
    kind: u8,
    is_bare: bool,
    bytes: &'a [u8],
}

impl<'a> Iterator for Script<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        let ([kind, low, high], rest) = self.0.split_first_chunk()?;
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (bytes, rest) = rest.split_at(len);
        self.0 = rest;
        Some(Part { kind: kind % 3, is_bare: kind / 3 % 2 == 1, bytes })
    }
}

#[test]
fn any_script_of_a_connection_is_answered_or_ends_it() {
    bolero::check!().with_iterations(150).for_each(|input: &[u8]| {
        let Some((&reach, script)) = input.split_first() else { return };
        let script = script.to_vec();
        run(1, rules(), async move |bed, world| {
            let (address, options) = (bed.address, bed.client());
            world.on(1, async move { play(address, reach, &script).await }).await;
            let served = async move {
                let tree = sign_in(address, options).await.unwrap();
                tree.channel().echo().await.unwrap();
                tree.channel().log_off().await.unwrap();
            };
            world.on(0, served).await;
            // A durable open stays for as long as it asks for, five minutes at most.
            for _ in 0..400 {
                if bed.lane.connections().is_empty() && bed.lane.opens().usage().opens == 0 {
                    break;
                }
                sleep(Duration::from_secs(1)).await;
            }
            bed.expect_empty();
        });
    });
}

async fn play(address: SocketAddr, reach: u8, script: &[u8]) {
    let mut raw = match reach / 3 % 4 {
        0 => Raw::open(address).await,
        1 => Raw::signed(address).await,
        2 => Raw::sealed(address, Dialect::Smb311, Cipher::Aes128Gcm).await,
        _ => Raw::sealed(address, Dialect::Smb300, Cipher::Aes128Ccm).await,
    };
    let mut file = FileId::RELATED;
    if !reach.is_multiple_of(3) {
        raw.sign_in().await;
    }
    if reach % 3 == 2 {
        file = raw.open_file("f", rights::READ_DATA | rights::WRITE_DATA | rights::DELETE).await;
    }
    let (mut frame, mut last, mut bare) = (Vec::new(), None, false);
    for Part { kind, is_bare, bytes } in Script(script).take(PARTS_MAX) {
        if kind != 2 && !frame.is_empty() {
            leave(&mut raw, std::mem::take(&mut frame), bare).await;
            last = None;
            sleep(Duration::from_millis(1)).await;
        }
        bare = is_bare;
        let Some((&command, body)) = bytes.split_first() else { continue };
        if kind == 0 {
            frame = bytes.to_vec();
            continue;
        }
        let command = Command::ALL[usize::from(command) % Command::ALL.len()];
        let mut header = raw.header(command);
        if last.is_some() {
            header = header.with(flags::RELATED_OPERATIONS);
        }
        let mut compound = Compound::going_on(&mut frame, last);
        compound.begin(&header).bytes(&with_file(command, body, file));
        last = compound.last();
    }
    leave(&mut raw, frame, bare).await;
    sleep(Duration::from_millis(50)).await;
}

async fn leave(raw: &mut Raw, frame: Vec<u8>, bare: bool) {
    let frame = if bare { frame } else { raw.protect(frame) };
    raw.send(&frame).await;
}

fn with_file(command: Command, body: &[u8], file: FileId) -> Vec<u8> {
    let mut body = body.to_vec();
    if let Some(at) = command.file_id_offset()
        && let Some(place) = body.get_mut(at..at + size_of::<FileId>())
        && place == STANDS_FOR_FILE
    {
        place.copy_from_slice(file.as_bytes());
    }
    body
}

const STANDS_FOR_FILE: [u8; 16] = [0xee; 16];
/// More show nothing new, and each waits a moment.
const PARTS_MAX: usize = 40;
