//! Answers every call with the same bytes and says who called: `rxkad_serve KEYFILEEXT ADDRESS SERVICE HEX`.
//!
//! `rxkad_serve KeyFileExt 10.0.0.1:7002 73 000003e8ffffff33` is a ptserver to `pts listmax -localauth`.

use std::error::Error;
use std::net::UdpSocket;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rx::{CallHandle, Endpoint, EndpointConfig, Event, ReadError, Service};
use rxkad::{Policy, RxkadServer, ServiceKeys};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, address, service, hex] = &arguments[..] else {
        return Err("rxkad_serve KEYFILEEXT ADDRESS SERVICE HEX".into());
    };
    let keys = krb::keytab::parse_key_file_ext(file, &std::fs::read(file)?)?;
    let answer: Result<Vec<u8>, _> =
        (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16)).collect();
    let answer = answer?;
    let mut seed = [0; 32];
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut seed)?;
    let socket = UdpSocket::bind(address)?;
    socket.set_read_timeout(Some(Duration::from_millis(20)))?;
    let mut endpoint = Endpoint::new(Instant::now(), EndpointConfig::default(), seed);
    endpoint.set_time_of_day(Instant::now(), SystemTime::now().duration_since(UNIX_EPOCH)?);
    endpoint.add_service(service.parse()?, Service::default());
    let keys = ServiceKeys::new(krb::Keys::new(keys));
    endpoint.add_security(Box::new(RxkadServer::new(keys, Policy::default())));
    let mut datagram = vec![0; 65_536];
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
            if let Event::Readable(call) = event {
                serve(&mut endpoint, call, &answer)?;
            }
        }
    }
}

fn serve(endpoint: &mut Endpoint, handle: CallHandle, answer: &[u8]) -> Result<(), Box<dyn Error>> {
    while let Some(mut call) = endpoint.call(Instant::now(), handle) {
        let count = match call.read() {
            Ok(bytes) => bytes.len(),
            Err(ReadError::End) => {
                println!("{:?}", call.principal());
                call.write(answer)?;
                call.finish()?;
                return Ok(());
            }
            Err(_) => return Ok(()),
        };
        call.consume(count);
    }
    Ok(())
}
