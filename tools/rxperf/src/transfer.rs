//! The bytes of an rxperf call as they come and go: server's and client's side, without buffers for the payload.

use xdr::Reader;

use crate::{COOKIE, Error, Plan, Request};

/// Server: takes a call's bytes from the client as they come, in pieces of any size.
#[derive(Debug, Default)]
pub struct Inbound {
    /// Received part of the head. Empty once it is complete.
    head: Vec<u8>,
    request: Option<(Request, Plan)>,
    payload: u64,
}

impl Inbound {
    /// Takes the next bytes. After an error the call is to be aborted.
    pub fn handle(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        if self.request.is_none() {
            let known = self.head.len();
            self.head.extend_from_slice(bytes);
            let mut reader = Reader::new(&self.head);
            match Request::decode(&mut reader) {
                Ok(request) => {
                    // What was known before did not make a head, so the head ends in this piece.
                    bytes = &bytes[reader.position() - known..];
                    let plan = request.work.plan()?;
                    self.request = Some((request, plan));
                    self.head = Vec::new();
                }
                Err(error) if error.is_incomplete() => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.payload += bytes.len() as u64;
        match &self.request {
            Some((_, plan)) if self.payload > plan.from_client => Err(Error::Excess),
            _ => Ok(()),
        }
    }

    /// Returns the request, once its head is complete.
    pub fn request(&self) -> Option<&Request> {
        self.request.as_ref().map(|(request, _)| request)
    }

    /// Ends the client's side; returns what to send back.
    pub fn finish(&self) -> Result<Outbound, Error> {
        let Some((_, plan)) = &self.request else {
            let ended = xdr::Error::Truncated { offset: self.head.len(), missing: 1 };
            return Err(Error::Head(ended));
        };
        match plan.from_client - self.payload {
            0 => Ok(Outbound::reply(plan)),
            missing => Err(Error::Missing(missing)),
        }
    }
}

/// Client: takes a call's bytes from the server as they come.
#[derive(Debug)]
pub struct Reply {
    payload_left: u64,
    cookie_due: bool,
    /// Received bytes behind the payload.
    tail: Vec<u8>,
}

impl Reply {
    /// Expects what `plan` says.
    pub const fn new(plan: &Plan) -> Self {
        Self { payload_left: plan.to_client, cookie_due: plan.cookie, tail: Vec::new() }
    }

    /// Takes the next bytes. After an error the call is to be aborted.
    pub fn handle(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let payload = self.payload_left.min(bytes.len() as u64);
        self.payload_left -= payload;
        let tail = &bytes[payload as usize..];
        if self.tail.len() + tail.len() > self.tail_len() {
            return Err(Error::Excess);
        }
        self.tail.extend_from_slice(tail);
        Ok(())
    }

    /// Ends the server's side: all payload must be there, and the cookie if one is due.
    pub fn finish(&self) -> Result<(), Error> {
        let missing = self.payload_left + (self.tail_len() - self.tail.len()) as u64;
        if missing > 0 {
            return Err(Error::Missing(missing));
        }
        match Reader::new(&self.tail).u32() {
            Ok(word) if word != COOKIE => Err(Error::Cookie(word)),
            _ => Ok(()),
        }
    }

    const fn tail_len(&self) -> usize {
        if self.cookie_due { size_of_val(&COOKIE) } else { 0 }
    }
}

/// The bytes of one side of a call, made as they are asked for, so that a call of gigabytes needs no memory.
#[derive(Debug, Clone)]
pub struct Outbound {
    head: Vec<u8>,
    /// Zeros behind the head.
    payload: u64,
    tail: &'static [u8],
    /// Bytes taken, of all three.
    taken: u64,
}

impl Outbound {
    /// Makes a client's transfer: the head of `request` and its payload. Fails as [`Request::encode`] does.
    pub fn request(request: &Request) -> Result<Self, Error> {
        let payload = request.work.plan()?.from_client;
        Ok(Self { head: request.encode()?, payload, tail: &[], taken: 0 })
    }

    /// Makes a server's transfer: the payload and cookie that `plan` says.
    pub const fn reply(plan: &Plan) -> Self {
        const TAIL: [u8; 4] = COOKIE.to_be_bytes();
        Self {
            head: Vec::new(),
            payload: plan.to_client,
            tail: if plan.cookie { &TAIL } else { &[] },
            taken: 0,
        }
    }

    /// Returns the bytes not taken yet.
    pub const fn remaining(&self) -> u64 {
        self.head.len() as u64 + self.payload + self.tail.len() as u64 - self.taken
    }

    /// Fills `buffer` from its start with the next bytes; returns how many there were. Less than the buffer's size
    /// means that these are the last.
    pub fn fill(&mut self, buffer: &mut [u8]) -> usize {
        let mut filled = 0;
        while filled < buffer.len() && self.remaining() > 0 {
            let part = self.next_part(&mut buffer[filled..]);
            self.taken += part as u64;
            filled += part;
        }
        filled
    }

    /// Puts what comes next of one of the three parts into `room`; returns its length.
    fn next_part(&self, room: &mut [u8]) -> usize {
        let payload_start = self.head.len() as u64;
        let payload_end = payload_start + self.payload;
        let fixed = if self.taken < payload_start {
            &self.head[self.taken as usize..]
        } else if self.taken < payload_end {
            let len = (payload_end - self.taken).min(room.len() as u64) as usize;
            room[..len].fill(0);
            return len;
        } else {
            &self.tail[(self.taken - payload_end) as usize..]
        };
        let len = fixed.len().min(room.len());
        room[..len].copy_from_slice(&fixed[..len]);
        len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Work;

    fn head(work: Work) -> Vec<u8> {
        Request::new(work).encode().unwrap()
    }

    /// Runs a call between our client and server, moving `step` bytes at a time.
    fn run(work: Work, step: usize) -> (u64, u64) {
        let request = Request::new(work);
        let mut buffer = vec![0xff; step];
        let (mut up, mut down) = (0, 0);

        let mut client = Outbound::request(&request).unwrap();
        let mut server = Inbound::default();
        while client.remaining() > 0 {
            let len = client.fill(&mut buffer);
            up += len as u64;
            server.handle(&buffer[..len]).unwrap();
        }
        assert_eq!(server.request(), Some(&request));

        let mut answer = server.finish().unwrap();
        let mut reply = Reply::new(&request.work.plan().unwrap());
        while answer.remaining() > 0 {
            let len = answer.fill(&mut buffer);
            down += len as u64;
            reply.handle(&buffer[..len]).unwrap();
        }
        reply.finish().unwrap();
        (up, down)
    }

    #[test]
    fn every_work_runs_in_pieces_of_any_size() {
        for step in [1, 3, 4, 7, 1444, 100_000] {
            assert_eq!(run(Work::Send { bytes: 5000 }, step), (20 + 5000, 4));
            assert_eq!(run(Work::Receive { bytes: 5000 }, step), (20, 5000 + 4));
            assert_eq!(run(Work::Rpc { send: 32, receive: 33 }, step), (24 + 32, 33 + 4));
            assert_eq!(run(Work::Rpc { send: 0, receive: 0 }, step), (24, 4));
            assert_eq!(run(Work::File(vec![2, 3, 0, 5, 6]), step), (20 + 20 + 20, 44));
            assert_eq!(run(Work::File(Vec::new()), step), (20, 0));
        }
    }

    #[test]
    fn server_refuses_payload_beyond_or_short_of_the_request() {
        let mut server = Inbound::default();
        server.handle(&head(Work::Send { bytes: 4 })).unwrap();
        server.handle(&[0; 3]).unwrap();
        assert_eq!(server.finish().unwrap_err(), Error::Missing(1));
        assert_eq!(server.handle(&[0; 2]), Err(Error::Excess));
    }

    #[test]
    fn server_refuses_a_head_cut_short() {
        let mut server = Inbound::default();
        server.handle(&head(Work::Receive { bytes: 4 })[..19]).unwrap();
        assert!(server.request().is_none());
        assert!(server.finish().unwrap_err().is_incomplete());
    }

    #[test]
    fn client_wants_all_payload_and_the_cookie() {
        let plan = Work::Receive { bytes: 2 }.plan().unwrap();
        let mut reply = Reply::new(&plan);
        reply.handle(&[1, 2, 0, 0, 0x47]).unwrap();
        assert_eq!(reply.finish(), Err(Error::Missing(1)));
        reply.handle(&[0x12]).unwrap();
        assert_eq!(reply.finish(), Err(Error::Cookie(0x4712)));
        assert_eq!(reply.handle(&[0]), Err(Error::Excess));
    }

    #[test]
    fn any_head_decodes_to_itself_or_is_refused() {
        bolero::check!().for_each(|input: &[u8]| {
            let mut reader = Reader::new(input);
            if let Ok(request) = Request::decode(&mut reader) {
                assert_eq!(request.encode().unwrap(), input[..reader.position()]);
            }
            let mut server = Inbound::default();
            let taken = input.chunks(5).try_for_each(|piece| server.handle(piece));
            let _ = taken.and_then(|()| server.finish().map(drop));
        });
    }
}
