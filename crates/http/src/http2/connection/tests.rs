//! Demands of RFC 9113 on a server, case by case, and clients that wear one out.

use std::time::Duration;

use super::*;
use crate::http2::frame::*;
use crate::http2::hpack::unindexed;

const BOUNDS: Bounds = Bounds { streams_max: 4, head_bytes_max: 2000, fields_max: 20 };

/// A client of the connection under test.
struct Client {
    connection: Connection,
    now: Instant,
    events: Vec<FrameEvent>,
}

/// A frame that the connection sent: type, flags, stream, payload.
type Sent = (u8, u8, u32, Vec<u8>);

impl Client {
    /// Makes a connection that has sent the preface, and was answered.
    fn new() -> Self {
        let mut client = Self::silent();
        client.send(PREFACE);
        client.frame(SETTINGS, 0, 0, b"");
        let replies = client.replies();
        assert_eq!(
            replies.iter().map(|sent| (sent.0, sent.1)).collect::<Vec<_>>(),
            [(SETTINGS, 0), (SETTINGS, ACK)]
        );
        client
    }

    fn silent() -> Self {
        let now = Instant::now();
        Self { connection: Connection::new(BOUNDS, now), now, events: Vec::new() }
    }

    /// Bytes in any cut are the same to the connection: here the whole.
    fn send(&mut self, mut bytes: &[u8]) {
        loop {
            let (consumed, event) = self.connection.handle(bytes, self.now);
            self.events.extend(event);
            bytes = &bytes[consumed..];
            if consumed == 0 || bytes.is_empty() {
                return;
            }
        }
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let mut bytes = Vec::new();
        put(&mut bytes, kind, flags, stream, payload);
        self.send(&bytes);
    }

    fn get(&mut self, stream: u32) {
        self.frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(&GET));
    }

    /// A request whose body is still to come.
    fn post(&mut self, stream: u32, fields: &[(&str, &str)]) {
        self.frame(HEADERS, END_HEADERS, stream, &block(&[&GET[..], fields].concat()));
    }

    fn replies(&mut self) -> Vec<Sent> {
        let mut bytes = std::mem::take(self.connection.replies());
        let mut sent = Vec::new();
        while let Some(head) = bytes.first_chunk().map(FrameHead::parse) {
            let payload = bytes[HEAD_BYTES..HEAD_BYTES + head.len].to_vec();
            bytes.drain(..HEAD_BYTES + head.len);
            sent.push((head.kind, head.flags, head.stream, payload));
        }
        sent
    }

    /// The connection has ended for this reason.
    fn is_ended(&mut self, reason: Reason) -> bool {
        let replies = self.replies();
        let Some((GOAWAY, _, 0, payload)) = replies.last() else { return false };
        self.connection.is_over() && payload[4..] == (reason as u32).to_be_bytes()
    }

    /// The stream was reset for this reason, and the connection goes on.
    fn is_reset(&mut self, stream: u32, reason: Reason) -> bool {
        let expected = (RST_STREAM, 0, stream, (reason as u32).to_be_bytes().to_vec());
        self.replies() == [expected] && !self.connection.is_over()
    }

    fn requests(&self) -> Vec<u32> {
        let request = |event: &FrameEvent| match event {
            FrameEvent::Request(stream, _) => Some(*stream),
            _ => None,
        };
        self.events.iter().filter_map(request).collect()
    }
}

const GET: [(&str, &str); 3] = [(":method", "GET"), (":scheme", "https"), (":path", "/")];

fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    fields.iter().for_each(|(name, value)| unindexed(&mut block, name.as_bytes(), value.as_bytes()));
    block
}

#[test]
fn frames_are_taken_however_they_are_cut() {
    let mut bytes = PREFACE.to_vec();
    put(&mut bytes, SETTINGS, 0, 0, b"");
    put(&mut bytes, HEADERS, END_HEADERS | END_STREAM, 1, &block(&GET));
    put(&mut bytes, PING, 0, 0, b"12345678");
    let mut client = Client::silent();
    let mut inbox = Vec::new();
    for byte in bytes {
        inbox.push(byte);
        loop {
            let (consumed, event) = client.connection.handle(&inbox, client.now);
            client.events.extend(event);
            inbox.drain(..consumed);
            if consumed == 0 || inbox.is_empty() {
                break;
            }
        }
    }
    assert_eq!(client.requests(), [1]);
    let replies = client.replies();
    assert_eq!(replies.last().unwrap(), &(PING, ACK, 0, b"12345678".to_vec()));
}

#[test]
fn what_does_not_begin_as_http2_ends() {
    let mut client = Client::silent();
    client.send(b"GET / HTTP/1.1\r\n");
    assert!(client.is_ended(Reason::Protocol));
    for (kind, flags) in [(PING, 0), (SETTINGS, ACK), (HEADERS, END_HEADERS)] {
        let mut client = Client::silent();
        client.send(PREFACE);
        client.frame(kind, flags, 0, &[0; 8]);
        assert!(client.is_ended(Reason::Protocol), "frame {kind}");
    }
}

#[test]
fn frames_that_break_the_connection_end_it_with_the_right_reason() {
    let settings = |name: u16, value: u32| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat();
    let good = block(&GET);
    let cases = vec![
        ("data on no stream", DATA, 0, 0, vec![0], Reason::Protocol),
        ("data on an idle stream", DATA, 0, 5, vec![0], Reason::Protocol),
        ("data on an even stream", DATA, 0, 2, vec![0], Reason::Protocol),
        ("data on a closed stream", DATA, 0, 1, vec![0], Reason::StreamClosed),
        ("padding longer than the frame", DATA, PADDED, 3, vec![2, 0], Reason::Protocol),
        ("padded without a length", DATA, PADDED, 3, vec![], Reason::FrameSize),
        ("a request on no stream", HEADERS, END_HEADERS, 0, good.clone(), Reason::Protocol),
        ("a request on an even stream", HEADERS, END_HEADERS, 2, good.clone(), Reason::Protocol),
        ("a request on a closed stream", HEADERS, END_HEADERS, 1, good.clone(), Reason::StreamClosed),
        ("a block that is none", HEADERS, END_HEADERS, 5, vec![0x80], Reason::Compression),
        ("half a priority", HEADERS, END_HEADERS | HAS_PRIORITY, 5, vec![0; 4], Reason::FrameSize),
        ("a continuation of nothing", CONTINUATION, END_HEADERS, 3, good.clone(), Reason::Protocol),
        ("a priority of no stream", PRIORITY, 0, 0, vec![0; 5], Reason::Protocol),
        ("a reset of no stream", RST_STREAM, 0, 0, vec![0; 4], Reason::Protocol),
        ("a reset of an idle stream", RST_STREAM, 0, 5, vec![0; 4], Reason::Protocol),
        ("a short reset", RST_STREAM, 0, 3, vec![0; 3], Reason::FrameSize),
        ("settings of a stream", SETTINGS, 0, 1, vec![], Reason::Protocol),
        ("settings cut short", SETTINGS, 0, 0, vec![0; 5], Reason::FrameSize),
        ("an acknowledgement with settings", SETTINGS, ACK, 0, vec![0; 6], Reason::FrameSize),
        ("push neither on nor off", SETTINGS, 0, 0, settings(ENABLE_PUSH, 2), Reason::Protocol),
        ("a window too large", SETTINGS, 0, 0, settings(INITIAL_WINDOW_SIZE, 1 << 31), Reason::FlowControl),
        ("frames too small", SETTINGS, 0, 0, settings(MAX_FRAME_SIZE, 16_383), Reason::Protocol),
        ("frames too large", SETTINGS, 0, 0, settings(MAX_FRAME_SIZE, 1 << 24), Reason::Protocol),
        ("a promise", PUSH_PROMISE, END_HEADERS, 3, vec![0; 4], Reason::Protocol),
        ("a ping of a stream", PING, 0, 1, vec![0; 8], Reason::Protocol),
        ("a short ping", PING, 0, 0, vec![0; 7], Reason::FrameSize),
        ("a farewell on a stream", GOAWAY, 0, 1, vec![0; 8], Reason::Protocol),
        ("a short farewell", GOAWAY, 0, 0, vec![0; 7], Reason::FrameSize),
        ("a window by nothing", WINDOW_UPDATE, 0, 0, vec![0; 4], Reason::Protocol),
        ("a window of an idle stream", WINDOW_UPDATE, 0, 5, vec![0, 0, 0, 1], Reason::Protocol),
        ("a short window", WINDOW_UPDATE, 0, 0, vec![0; 3], Reason::FrameSize),
        ("a window too wide", WINDOW_UPDATE, 0, 0, vec![0x7f, 0xff, 0xff, 0xff], Reason::FlowControl),
        ("a frame too long", DATA, 0, 3, vec![0; FRAME_BYTES + 1], Reason::FrameSize),
    ];
    for (what, kind, flags, stream, payload, reason) in cases {
        let mut client = Client::new();
        // Stream 1 is closed, stream 3 is open.
        client.get(1);
        client.connection.head(1, true, 200, |_| {});
        client.post(3, &[]);
        client.frame(kind, flags, stream, &payload);
        assert!(client.is_ended(reason), "{what}");
        client.get(7);
        assert_eq!(client.requests(), [1, 3], "{what}: nothing is taken after the end");
    }
}

#[test]
fn frames_that_break_a_stream_reset_it_and_others_go_on() {
    let itself = [0, 0, 0, 5, 16];
    let good = block(&GET);
    let one = |what: &str, frames: &[(u8, u8, Vec<u8>)], reason: Reason| {
        let mut client = Client::new();
        for (kind, flags, payload) in frames {
            client.frame(*kind, *flags, 5, payload);
        }
        assert!(client.is_reset(5, reason), "{what}");
        client.get(7);
        assert!(client.requests().contains(&7), "{what}");
    };
    let open = (HEADERS, END_HEADERS, good.clone());
    let whole = (HEADERS, END_HEADERS | END_STREAM, good.clone());
    one("a malformed request", &[(HEADERS, END_HEADERS, block(&GET[..2]))], Reason::Protocol);
    one(
        "a request that depends on itself",
        &[(HEADERS, END_HEADERS | HAS_PRIORITY, [&itself[..], &good].concat())],
        Reason::Protocol,
    );
    one("a priority that does", &[open.clone(), (PRIORITY, 0, itself.to_vec())], Reason::Protocol);
    one("a short priority", &[open.clone(), (PRIORITY, 0, vec![0; 4])], Reason::FrameSize);
    one("a body behind the end", &[whole.clone(), (DATA, 0, vec![1])], Reason::StreamClosed);
    one(
        "fields behind the end",
        &[whole.clone(), (HEADERS, END_HEADERS | END_STREAM, vec![])],
        Reason::StreamClosed,
    );
    one("trailers that do not end", &[open.clone(), (HEADERS, END_HEADERS, vec![])], Reason::Protocol);
    one(
        "trailers of the protocol's own",
        &[open.clone(), (HEADERS, END_HEADERS | END_STREAM, block(&GET[..1]))],
        Reason::Protocol,
    );
    one("a window by nothing", &[open.clone(), (WINDOW_UPDATE, 0, vec![0; 4])], Reason::Protocol);
    one(
        "a window too wide",
        &[open.clone(), (WINDOW_UPDATE, 0, vec![0x7f, 0xff, 0xff, 0xff])],
        Reason::FlowControl,
    );
    let announced = (HEADERS, END_HEADERS, block(&[&GET[..], &[("content-length", "3")]].concat()));
    one("more than announced", &[announced.clone(), (DATA, 0, vec![0; 4])], Reason::Protocol);
    one("less than announced", &[announced.clone(), (DATA, END_STREAM, vec![0; 2])], Reason::Protocol);
    one(
        "nothing of what was announced",
        &[(HEADERS, END_HEADERS | END_STREAM, announced.2)],
        Reason::Protocol,
    );
}

#[test]
fn blocks_in_parts_are_one_and_nothing_comes_between() {
    let block = block(&GET);
    let mut client = Client::new();
    client.frame(HEADERS, END_STREAM, 1, &block[..5]);
    client.frame(CONTINUATION, 0, 1, &block[5..9]);
    client.frame(CONTINUATION, END_HEADERS, 1, &block[9..]);
    assert_eq!(client.requests(), [1]);
    for (kind, stream) in [(CONTINUATION, 5), (PING, 0), (HEADERS, 3), (0xb, 3)] {
        client = Client::new();
        client.frame(HEADERS, END_STREAM, 3, &block[..5]);
        client.frame(kind, END_HEADERS, stream, &[0; 8]);
        assert!(client.is_ended(Reason::Protocol), "frame {kind}");
    }
}

#[test]
fn unknown_frames_and_settings_mean_nothing() {
    let mut client = Client::new();
    client.frame(0xfe, 0xff, 77, b"whatever");
    client.frame(SETTINGS, 0, 0, &[0xff, 0xff, 1, 2, 3, 4]);
    client.frame(PRIORITY, 0, 9, &[0, 0, 0, 1, 16]);
    client.get(1);
    assert_eq!(client.requests(), [1]);
}

#[test]
fn no_more_streams_at_a_time_than_allowed() {
    let mut client = Client::new();
    (0..BOUNDS.streams_max as u32).for_each(|n| client.get(2 * n + 1));
    assert!(client.replies().is_empty());
    client.get(9);
    assert!(client.is_reset(9, Reason::RefusedStream));
    client.connection.head(1, true, 200, |_| {});
    client.replies();
    client.get(11);
    assert_eq!(client.requests(), [1, 3, 5, 7, 11]);
}

#[test]
fn windows_bound_what_is_sent_and_follow_the_settings() {
    let mut client = Client::new();
    client.get(1);
    assert_eq!(client.connection.room(1), WINDOW_INITIAL as usize);
    client.connection.data(1, 16_000, false);
    assert_eq!(client.connection.room(1), WINDOW_INITIAL as usize - 16_000);
    // A smaller window takes from streams too, below nothing even (RFC 9113 6.9.2).
    client.frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 10]);
    assert_eq!(client.connection.room(1), 0);
    client.frame(WINDOW_UPDATE, 0, 1, &16_000u32.to_be_bytes());
    assert_eq!(client.connection.room(1), 10);
    client.frame(SETTINGS, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]);
    // The connection's own is what is left.
    assert_eq!(client.connection.room(1), WINDOW_INITIAL as usize - 16_000);
    let widened = client.events.iter().filter(|event| matches!(event, FrameEvent::Room(_))).count();
    assert_eq!(widened, 2);
    assert_eq!(client.connection.room(3), 0, "no stream, no room");
}

#[test]
fn bodies_are_thrown_away_and_only_the_connection_s_window_is_given_back() {
    let mut client = Client::new();
    client.post(1, &[]);
    for _ in 0..3 {
        client.frame(DATA, 0, 1, &[0; 16_000]);
    }
    let replies = client.replies();
    assert_eq!(replies, [(WINDOW_UPDATE, 0, 0, 48_000u32.to_be_bytes().to_vec())]);
    client.frame(DATA, 0, 1, &[0; 16_000]);
    client.frame(DATA, 0, 1, &[0; 16_000]);
    assert!(client.is_reset(1, Reason::FlowControl));
    // An answer that ends before the request tells the client to stop, once it had a moment to see it; what is on its way is
    // passed over.
    client.post(3, &[]);
    client.connection.head(3, true, 405, |_| {});
    let sent = |client: &mut Client| client.replies().iter().map(|sent| (sent.0, sent.2)).collect::<Vec<_>>();
    assert_eq!(sent(&mut client), [(HEADERS, 3)]);
    assert_eq!(client.connection.take_answered_early(), [3]);
    client.connection.end_upload(3);
    assert_eq!(sent(&mut client), [(RST_STREAM, 3)]);
    client.frame(DATA, 0, 3, &[0; 100]);
    client.frame(HEADERS, END_HEADERS | END_STREAM, 3, &block(&[("a", "b")]));
    client.frame(WINDOW_UPDATE, 0, 3, &[0, 0, 0, 1]);
    client.frame(RST_STREAM, 0, 3, &[0; 4]);
    assert!(!client.connection.is_over());
}

#[test]
fn body_that_is_kept_has_its_windows_back_as_it_is_taken() {
    let mut client = Client::new();
    client.post(1, &[]);
    assert!(client.connection.keep_body(1));
    client.connection.want_body(1, true);
    let replies = client.replies();
    let windows: Vec<_> = replies.iter().map(|sent| (sent.0, sent.2)).collect();
    assert_eq!(windows, [(HEADERS, 1), (WINDOW_UPDATE, 1), (WINDOW_UPDATE, 0)]);
    for _ in 0..16 {
        client.frame(DATA, PADDED, 1, &[&[2][..], &[7; 15_997], &[0; 2]].concat());
    }
    let bodies = client.events.iter().filter_map(|event| match event {
        FrameEvent::Body { stream: 1, content, ends: false } => Some(content.clone()),
        _ => None,
    });
    assert_eq!(
        bodies.collect::<Vec<_>>(),
        vec![10..10 + 15_997; 16],
        "behind the head and the padding's length"
    );
    assert!(client.replies().is_empty(), "nobody has taken any");
    client.connection.take_body(1, 3 * 15_997);
    let taken: Vec<_> = client.replies().iter().map(|sent| (sent.0, sent.2)).collect();
    assert_eq!(taken, [(WINDOW_UPDATE, 1), (WINDOW_UPDATE, 0)]);
    // More than the window is too much; what was not taken is given back to the connection.
    (0..4).for_each(|_| client.frame(DATA, 0, 1, &[0; 16_000]));
    let replies = client.replies();
    assert_eq!(
        replies.last(),
        Some(&(RST_STREAM, 0, 1, (Reason::FlowControl as u32).to_be_bytes().to_vec()))
    );
    assert_eq!(client.connection.received - client.connection.taken, 0);
    client.connection.take_body(1, 15_997);
    client.post(3, &[]);
    assert!(client.connection.keep_body(3));
    client.frame(DATA, END_STREAM, 3, &[0; 100]);
    assert!(matches!(client.events.last(), Some(FrameEvent::Body { stream: 3, ends: true, .. })));
    client.get(5);
    assert!(!client.connection.keep_body(5), "it has none");
}

#[test]
fn upload_that_is_answered_early_is_told_to_stop_a_moment_later() {
    let mut client = Client::new();
    for stream in [1, 3, 5] {
        client.post(stream, &[]);
        assert!(client.connection.keep_body(stream));
        client.connection.drop_body(stream);
        client.connection.head(stream, true, 507, |_| {});
    }
    assert!(client.replies().iter().all(|sent| sent.0 == HEADERS));
    assert_eq!(client.connection.take_answered_early(), [1, 3, 5]);
    // A client that ends by itself is told nothing.
    client.frame(DATA, END_STREAM, 1, b"rest");
    client.frame(HEADERS, END_HEADERS | END_STREAM, 3, &block(&[("a", "b")]));
    [1, 3, 5].into_iter().for_each(|stream| client.connection.end_upload(stream));
    assert!(client.is_reset(5, Reason::NoError));
    client.frame(DATA, 0, 5, b"on its way");
    assert!(client.connection.streams.is_empty() && !client.connection.is_over());
}

#[test]
fn requests_taken_back_without_end_end_the_connection() {
    let mut client = Client::new();
    let mut taken_back = 0;
    for stream in (1..).step_by(2) {
        client.get(stream);
        client.frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]);
        taken_back += 1;
        if client.connection.is_over() {
            break;
        }
    }
    assert_eq!(taken_back, 201);
    assert!(client.is_ended(Reason::EnhanceYourCalm));
    // A client that makes the server reset streams pays as much.
    let mut client = Client::new();
    let refused = (1..1000u32).step_by(2).take_while(|stream| {
        client.frame(HEADERS, END_HEADERS, *stream, &block(&GET[..2]));
        !client.connection.is_over()
    });
    assert_eq!(refused.count(), 200);
    // A slow client may do it for ever.
    let mut client = Client::new();
    for stream in (1..4000).step_by(2) {
        client.now += Duration::from_millis(25);
        client.get(stream);
        client.frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]);
        client.replies();
    }
    assert!(!client.connection.is_over());
}

#[test]
fn frames_of_nothing_and_blocks_without_end_end_the_connection() {
    let mut client = Client::new();
    client.post(1, &[]);
    (0..3000).for_each(|_| client.frame(DATA, 0, 1, b""));
    assert!(client.is_ended(Reason::EnhanceYourCalm));
    let mut client = Client::new();
    client.frame(HEADERS, 0, 1, b"");
    (0..3000).for_each(|_| client.frame(CONTINUATION, 0, 1, b""));
    assert!(client.is_ended(Reason::EnhanceYourCalm));
    let mut client = Client::new();
    client.frame(HEADERS, 0, 1, b"");
    (0..5).for_each(|_| client.frame(CONTINUATION, 0, 1, &[0; 16_000]));
    assert!(client.is_ended(Reason::EnhanceYourCalm));
}

#[test]
fn rest_of_a_frame_or_block_is_awaited_from_its_first_byte_to_its_last() {
    let mut client = Client::new();
    let block = block(&GET);
    let begun = client.now;
    let tick = |client: &mut Client| client.now += Duration::from_secs(1);
    client.frame(HEADERS, END_STREAM, 1, &block[..1]);
    for byte in &block[1..6] {
        tick(&mut client);
        client.frame(CONTINUATION, 0, 1, &[*byte]);
        assert_eq!(client.connection.cut_since(), Some(begun), "more of it is not its end");
    }
    client.frame(CONTINUATION, END_HEADERS, 1, &block[6..]);
    assert_eq!((client.connection.cut_since(), client.requests()), (None, vec![1]));
    let mut ping = Vec::new();
    put(&mut ping, PING, 0, 0, &[0; 8]);
    for end in 1..ping.len() {
        assert_eq!(client.connection.handle(&ping[..end], client.now).0, 0);
        assert_eq!(client.connection.cut_since(), Some(begun + Duration::from_secs(5)));
    }
    client.send(&ping);
    assert_eq!(client.connection.cut_since(), None);
    // A body may take longer.
    client.post(3, &[]);
    client.connection.handle(&[0, 0, 9, DATA, 0, 0, 0, 0, 3, 1], client.now);
    assert_eq!(client.connection.cut_since(), None);
    client.connection.give_up();
    assert!(client.is_ended(Reason::EnhanceYourCalm));
}

#[test]
fn heads_of_answers_use_the_table_that_the_client_keeps() {
    let mut client = Client::new();
    let answer = |client: &mut Client, stream| {
        client.get(stream);
        client.replies();
        client.connection.head(stream, true, 200, |block| block.field("Server", b"linerate"));
        client.replies()[0].3.len()
    };
    let first = answer(&mut client, 1);
    assert_eq!(answer(&mut client, 3), 2);
    client.frame(SETTINGS, 0, 0, &[0, 1, 0, 0, 0, 0]);
    assert_eq!(answer(&mut client, 5), first - 2, "two bytes less to tell the table's size");
    // Of a request taken back no block is made that would not be sent.
    client.frame(SETTINGS, 0, 0, &[0, 1, 0, 0, 16, 0]);
    client.get(7);
    client.frame(RST_STREAM, 0, 7, &[0; 4]);
    client.connection.head(7, true, 200, |_| unreachable!());
    assert_eq!(answer(&mut client, 9), first);
}

#[test]
fn farewell_lets_what_is_on_its_way_arrive_and_nothing_after() {
    let mut client = Client::new();
    client.get(1);
    client.connection.leave();
    client.connection.leave();
    let replies = client.replies();
    assert_eq!(replies.iter().map(|sent| sent.0).collect::<Vec<_>>(), [GOAWAY, PING]);
    client.get(3);
    client.frame(PING, ACK, 0, &replies[1].3);
    assert_eq!(client.replies()[0].3[..4], 3u32.to_be_bytes());
    client.get(5);
    assert_eq!(client.requests(), [1, 3]);
    client.connection.head(1, true, 200, |_| {});
    assert!(!client.connection.is_over());
    client.connection.head(3, true, 200, |_| {});
    assert!(client.connection.is_over());
}

#[test]
fn any_bytes_leave_the_connection_whole() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let mut client = Client::new();
        client.get(1);
        client.send(bytes);
        let streams = client.connection.streams.len();
        assert!(streams <= BOUNDS.streams_max && client.connection.let_go.len() <= LET_GO_MAX);
        assert!((0..20).all(|stream| client.connection.room(stream) <= WINDOW_MAX as usize));
        client.replies();
    });
}
