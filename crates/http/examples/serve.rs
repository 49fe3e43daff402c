//! Serves a directory over HTTP, and over HTTPS if a second address is given, on one lane:
//! `cargo run -p linerate-http --example serve -- DIR 127.0.0.1:8080 [127.0.0.1:8443]`.

use std::sync::Arc;

use http::service::{Mount, Role, Service, Site};
use lane::backend::ListenOptions;
use lane::net::TcpListener;
use service::commons::Commons;
use tls::{KtlsPolicy, TicketKeys, TlsConfig};
use vfs::{Cache, CacheOptions, Volume, VolumeOptions, VolumeSpec};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("usage: serve DIR ADDRESS [TLS-ADDRESS]")?;
    let plain = arguments.next().ok_or("usage: serve DIR ADDRESS [TLS-ADDRESS]")?.parse()?;
    let tls = arguments.next().map(|address| address.parse()).transpose()?;
    let state_dir = std::env::temp_dir().join("linerate-example");
    let tickets = Arc::new(TicketKeys::new()?);
    let certificates = tls.map(|_| TlsConfig::new(state_dir).load(tickets)).transpose()?;
    lane::runtime::run_here(Default::default(), async move {
        let cache = Cache::new(CacheOptions::default());
        let name = "files".parse().expect("a valid name");
        let spec = VolumeSpec::new(name, &directory, VolumeOptions::default());
        let volume = Volume::open(&cache, &spec).expect("the directory can be opened");
        let mut site = Site::new(vec![Mount::new("/", volume, true)]);
        site.tls = certificates.map(|certificates| certificates.config);
        let service = Service::new(
            site,
            Arc::default(),
            Arc::default(),
            None,
            KtlsPolicy::Auto,
            Commons::new(Arc::default()),
            1,
        );
        if let Some(address) = tls {
            let listener =
                TcpListener::bind(address, &ListenOptions::default()).expect("the address is free");
            lane::spawn(service.clone().listen(listener, Role::Tls)).detach();
        }
        let listener = TcpListener::bind(plain, &ListenOptions::default()).expect("the address is free");
        service.listen(listener, Role::Plain).await;
    })?;
    Ok(())
}
