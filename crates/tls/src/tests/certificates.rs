//! Certificates from files: who gets which, and what a wrong file is told.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;

fn make(dir: &Path, stem: &str, names: &[&str], not_after_year: i32) -> CertificateFiles {
    let key = rcgen::KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = rcgen::CertificateParams::new(names).unwrap();
    params.not_after = rcgen::date_time_ymd(not_after_year, 1, 1);
    let files = CertificateFiles {
        certificate: dir.join(format!("{stem}.crt")),
        key: dir.join(format!("{stem}.key")),
        names: Vec::new(),
    };
    fs::write(&files.certificate, params.self_signed(&key).unwrap().pem()).unwrap();
    fs::write(&files.key, key.serialize_pem()).unwrap();
    fs::set_permissions(&files.key, fs::Permissions::from_mode(0o600)).unwrap();
    files
}

fn load(certificates: Vec<CertificateFiles>) -> Result<ServerTls, ConfigError> {
    let config = TlsConfig { certificates, ..TlsConfig::new("/nonexistent") };
    config.load(Arc::new(TicketKeys::new().unwrap()))
}

fn error_of(certificates: Vec<CertificateFiles>) -> String {
    match load(certificates) {
        Ok(_) => panic!("loaded"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn clients_get_the_certificate_of_the_name_they_ask_for() {
    let dir = tempfile::tempdir().unwrap();
    let first = make(dir.path(), "first", &["files.example"], 2090);
    let wild = make(dir.path(), "wild", &["*.lab.example"], 2090);
    let mut named = make(dir.path(), "named", &["other.example"], 2090);
    named.names = vec!["Named.Example".to_owned()];
    let tls = load(vec![first.clone(), wild.clone(), named.clone()]).unwrap();
    assert_eq!(tls.warnings, []);
    assert_eq!(tls.self_signed, None);
    for (name, expected) in [
        ("files.example", &first),
        ("a.lab.example", &wild),
        ("A.LAB.example", &wild),
        ("a.b.lab.example", &first),
        ("lab.example", &first),
        ("named.example", &named),
        ("other.example", &first),
        ("127.0.0.1", &first),
    ] {
        let served = served_certificate(&tls, name);
        let expected_pem = fs::read_to_string(&expected.certificate).unwrap();
        assert_eq!(served, der_of(&expected_pem), "{name}");
    }
}

fn served_certificate(tls: &ServerTls, name: &str) -> Vec<u8> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let config = Arc::new(any_client(Versions::Tls12And13));
    let mut client = ClientConnection::new(config, name).unwrap();
    let mut server = TlsSession::server(Arc::clone(&tls.config)).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    received(&mut server, hello).unwrap();
    client.read_tls(&mut &*server.take_output()).unwrap();
    client.process_new_packets().unwrap();
    client.peer_certificates().unwrap()[0].to_vec()
}

fn der_of(pem: &str) -> Vec<u8> {
    use rustls::pki_types::pem::PemObject;
    rustls::pki_types::CertificateDer::from_pem_slice(pem.as_bytes()).unwrap().to_vec()
}

#[test]
fn self_signed_certificate_is_believed_by_clients_that_trust_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let tls = TlsConfig::new(dir.path()).load(Arc::new(TicketKeys::new().unwrap())).unwrap();
    let path = tls.self_signed.unwrap();
    assert_eq!(tls.warnings, [Warning::SelfSigned { path: path.clone() }]);
    let trust = ClientTrust::Roots(path);
    let client = Arc::new(client_config(&trust, Versions::Tls12And13, &[Alpn::H2]).unwrap());
    for name in ["localhost", "127.0.0.1", "::1"] {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut client = TlsSession::client(Arc::clone(&client), name).unwrap();
        let mut server = TlsSession::server(Arc::clone(&tls.config)).unwrap();
        while client.has_output() || server.has_output() {
            received(&mut server, client.take_output()).unwrap();
            received(&mut client, server.take_output()).unwrap();
        }
        assert!(client.info().is_some());
    }
    let other = ServerName::try_from("other.example").unwrap();
    let mut client = TlsSession::client(client, other).unwrap();
    let mut server = TlsSession::server(tls.config).unwrap();
    received(&mut server, client.take_output()).unwrap();
    assert!(matches!(received(&mut client, server.take_output()), Err(TlsError::Handshake(_))));
    // The client says why, and the server reports that.
    let error = received(&mut server, client.take_output()).unwrap_err();
    assert!(error.to_string().contains("BadCertificate"), "{error}");
}

#[test]
fn wrong_files_are_named_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let good = make(dir.path(), "good", &["a.example"], 2090);
    let other = make(dir.path(), "other", &["b.example"], 2090);

    let missing = CertificateFiles { certificate: dir.path().join("missing.crt"), ..good.clone() };
    assert!(error_of(vec![missing]).contains("missing.crt"));

    let swapped = CertificateFiles { key: good.certificate.clone(), ..good.clone() };
    let error = error_of(vec![swapped]);
    assert!(error.contains("good.crt holds no usable private key"), "{error}");

    let no_certificate = CertificateFiles { certificate: good.key.clone(), ..good.clone() };
    let error = error_of(vec![no_certificate]);
    assert!(error.contains("no CERTIFICATE section"), "{error}");

    let mismatch = CertificateFiles { key: other.key.clone(), ..good.clone() };
    let error = error_of(vec![mismatch]);
    assert!(error.contains("other.key does not belong to the certificate"), "{error}");

    let garbage = dir.path().join("garbage.crt");
    fs::write(&garbage, "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n").unwrap();
    let error = error_of(vec![CertificateFiles { certificate: garbage, ..good }]);
    assert!(error.contains("garbage.crt"), "{error}");
}

#[test]
fn expired_soon_expiring_and_world_readable_files_bring_warnings() {
    let dir = tempfile::tempdir().unwrap();
    let expired = make(dir.path(), "expired", &["a.example"], 2020);
    let nameless = make(dir.path(), "nameless", &[], 2090);
    fs::set_permissions(&nameless.key, fs::Permissions::from_mode(0o644)).unwrap();
    let warnings = load(vec![expired.clone(), nameless.clone()]).unwrap().warnings;
    assert_eq!(
        warnings,
        [
            Warning::Expired { path: expired.certificate },
            Warning::KeyMode { path: nameless.key, mode: 0o644 },
            Warning::NoNames { path: nameless.certificate },
        ]
    );
}

#[test]
fn forced_version_refuses_the_other_one() {
    for (server, client) in
        [(Versions::Tls12Only, Versions::Tls13Only), (Versions::Tls13Only, Versions::Tls12Only)]
    {
        let config = TlsConfig { versions: server, ..TlsConfig::new(&*STATE_DIR) };
        let config = config.load(Arc::new(TicketKeys::new().unwrap())).unwrap().config;
        let mut client = TlsSession::client(Arc::new(any_client(client)), localhost()).unwrap();
        let mut server = TlsSession::server(config).unwrap();
        assert!(matches!(received(&mut server, client.take_output()), Err(TlsError::Handshake(_))));
        let error = received(&mut client, server.take_output()).unwrap_err();
        assert!(error.to_string().contains("ProtocolVersion"), "{error}");
    }
}
