//! Calls a stock server as the cell's superuser, at each level: `rxkad_probe KEYFILEEXT ADDRESS SERVICE OPCODE`.
//!
//! `rxkad_probe /etc/openafs/server/KeyFileExt 10.0.0.1:7002 73 510` asks a ptserver for its highest ids.

use std::error::Error;
use std::io::Read as _;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rx::{ConnectOptions, Endpoint, EndpointConfig, Event, ReadError};
use rxkad::{INDEX, Level, RxkadClient, Token};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, address, service, opcode] = &arguments[..] else {
        return Err("rxkad_probe KEYFILEEXT ADDRESS SERVICE OPCODE".into());
    };
    let keys = krb::keytab::parse_key_file_ext(file, &std::fs::read(file)?)?;
    let key = keys.iter().filter(|entry| entry.key.is_ok()).max_by_key(|entry| (entry.kvno, entry.etype));
    let key = key.ok_or("no key that is used")?;
    for level in [Level::Clear, Level::Auth, Level::Crypt] {
        let token = Token::local_auth(key, random()?, &random()?)?;
        let reply = call(address.parse()?, service.parse()?, opcode.parse()?, token, level)?;
        println!("{level}: {reply:02x?}");
    }
    Ok(())
}

fn random<const LEN: usize>() -> std::io::Result<[u8; LEN]> {
    let mut bytes = [0; LEN];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Makes one call without arguments, and returns its reply.
fn call(
    server: SocketAddr,
    service: u16,
    opcode: u32,
    token: Token,
    level: Level,
) -> Result<Vec<u8>, Box<dyn Error>> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.set_read_timeout(Some(Duration::from_millis(20)))?;
    let mut endpoint = Endpoint::new(Instant::now(), EndpointConfig::default(), random()?);
    endpoint.set_time_of_day(Instant::now(), SystemTime::now().duration_since(UNIX_EPOCH)?);
    let security = Box::new(RxkadClient::new(token, level));
    let options = ConnectOptions::default();
    let connection = endpoint.connect(Instant::now(), server, service, INDEX, security, options)?;
    let handle = endpoint.open_call(Instant::now(), connection)?;
    let mut call = endpoint.call(Instant::now(), handle).ok_or("the call is gone")?;
    call.write(&opcode.to_be_bytes())?;
    call.finish()?;
    let (mut reply, mut datagram) = (Vec::new(), vec![0; 65_536]);
    loop {
        let now = Instant::now();
        endpoint.handle_timeout(now);
        while let Some(transmit) = endpoint.poll_transmit(now) {
            for bytes in transmit.datagrams(endpoint.pool()) {
                socket.send_to(&bytes, transmit.destination)?;
            }
            endpoint.transmit_done(transmit);
        }
        if let Ok((len, from)) = socket.recv_from(&mut datagram) {
            endpoint.handle_datagram(Instant::now(), from, None, &datagram[..len]);
        }
        while let Some(event) = endpoint.poll_event() {
            match event {
                Event::Readable(handle) => {
                    while let Some(mut call) = endpoint.call(Instant::now(), handle) {
                        match call.read() {
                            Ok(bytes) => {
                                let count = bytes.len();
                                reply.extend_from_slice(bytes);
                                call.consume(count);
                            }
                            Err(ReadError::Blocked | ReadError::Held | ReadError::End) => break,
                        }
                    }
                }
                Event::Finished(_) => return Ok(reply),
                Event::Aborted { code, .. } => return Err(format!("{level}: abort code {code}").into()),
                Event::Dead { .. } => return Err(format!("{level}: no answer").into()),
                _ => {}
            }
        }
    }
}
