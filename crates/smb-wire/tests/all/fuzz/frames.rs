//! Any frame is read or refused, and every view that comes of it lies within it.

use smb_wire::compound::{MESSAGES_MAX, Messages, ranges};
use smb_wire::framing::{self, Frame};
use smb_wire::negotiate::smb1;
use smb_wire::transform::{FrameKind, TransformHeader};
use smb_wire::{Command, Header, Message, Request, Response};

#[test]
fn any_frame_is_read_or_refused() {
    bolero::check!().for_each(|frame: &[u8]| {
        if let Some(prefix) = frame.first_chunk()
            && let Ok(Frame::Message(len)) = framing::parse(*prefix, 1 << 20)
        {
            assert!(len <= 1 << 20);
        }
        let _ = smb1::parse(frame);
        match FrameKind::of(frame) {
            Ok(FrameKind::Sealed) => {
                if let Ok((_, sealed)) = TransformHeader::parse(frame) {
                    assert!(sealed.len() >= 64 && sealed.len() + 52 == frame.len());
                }
            }
            Ok(FrameKind::Plain) => check_messages(frame),
            _ => {}
        }
    });
}

/// Each command, with a body of any bytes: random frames seldom have a valid header. The first byte of an input says which command (% 20)
/// and, in its highest bit, whether the body has its own size in front; the next four are the status, and the rest is the body.
#[test]
fn any_body_of_any_command_is_read_or_refused() {
    bolero::check!().for_each(|input: &[u8]| {
        let Some(([which, status @ ..], body)) = input.split_first_chunk::<5>() else { return };
        let command = Command::ALL[usize::from(which & 0x7f) % Command::ALL.len()];
        let mut header = Header::request(command, 1);
        header.status.set(u32::from_le_bytes(*status));
        let mut frame = zerocopy::IntoBytes::as_bytes(&header).to_vec();
        frame.extend(body);
        // Half of them have the right size in front, or nothing behind it is reached.
        if which & 0x80 == 0 && frame.len() >= 66 {
            frame[64..66].copy_from_slice(&structure_size(command).to_le_bytes());
        }
        check_messages(&frame);
    });
}

fn structure_size(command: Command) -> u16 {
    match command {
        Command::Negotiate => 36,
        Command::SessionSetup => 25,
        Command::TreeConnect => 9,
        Command::Create | Command::Ioctl => 57,
        Command::Close | Command::Flush | Command::OplockBreak => 24,
        Command::Read | Command::Write => 49,
        Command::Lock => 48,
        Command::QueryDirectory | Command::SetInfo => 33,
        Command::ChangeNotify => 32,
        Command::QueryInfo => 41,
        Command::ServerToClientNotification => 12,
        _ => 4,
    }
}

fn check_messages(frame: &[u8]) {
    let mut total = 0;
    let mut count = 0;
    for message in Messages::new(frame) {
        count += 1;
        let Ok(message) = message else { break };
        total += message.bytes().len();
        check_request(&message);
        let _ = Response::parse(&message);
    }
    assert!(total <= frame.len() && count <= MESSAGES_MAX + 1);
    let whole: Vec<_> = ranges(frame).map_while(Result::ok).collect();
    assert!(whole.windows(2).all(|pair| pair[0].end == pair[1].start));
    assert_eq!(whole.last().map_or(0, |range| range.end), total);
}

fn check_request(message: &Message<'_>) {
    let Ok(request) = Request::parse(message) else { return };
    let within = |part: &[u8]| {
        let all = message.bytes().as_ptr_range();
        let part = part.as_ptr_range();
        assert!(part.is_empty() || all.start <= part.start && part.end <= all.end);
    };
    match request {
        Request::Negotiate(request) => {
            assert!(request.contexts.iter().count() <= request.contexts.len());
            assert!(!request.dialects.is_empty());
        }
        Request::SessionSetup(request) => within(request.security),
        Request::TreeConnect(request) => {
            let _ = smb_wire::name::parse_share(request.path);
        }
        Request::Create(request) => {
            assert!(request.contexts.iter().count() <= smb_wire::create::context::CONTEXTS_MAX);
            if let Ok(name) = smb_wire::name::Name::parse(request.name) {
                let again = smb_wire::text::encoded(&name.to_text());
                assert_eq!(smb_wire::name::Name::parse(smb_wire::text::Text::new(&again).unwrap()), Ok(name));
            }
        }
        Request::Write(request) => within(request.data),
        Request::Lock(request) => assert!(!request.locks.is_empty()),
        Request::Ioctl(request) => within(request.input),
        Request::QueryInfo(request) => within(request.input),
        Request::SetInfo(request) => within(request.data),
        _ => {}
    }
}
