//! Tests of certificates from files: their choice by client, and the errors of wrong files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustls::SignatureScheme;

use super::*;

fn make(dir: &Path, stem: &str, names: &[&str], not_after_year: i32) -> CertificateFiles {
    make_with(&rcgen::KeyPair::generate().unwrap(), dir, stem, names, not_after_year)
}

fn make_with(
    key: &rcgen::KeyPair,
    dir: &Path,
    stem: &str,
    names: &[&str],
    not_after_year: i32,
) -> CertificateFiles {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = rcgen::CertificateParams::new(names).unwrap();
    params.not_after = rcgen::date_time_ymd(not_after_year, 1, 1);
    let files = CertificateFiles {
        certificate: dir.join(format!("{stem}.crt")),
        key: dir.join(format!("{stem}.key")),
        names: Vec::new(),
    };
    fs::write(&files.certificate, params.self_signed(key).unwrap().pem()).unwrap();
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
    // It does not have that name, and clients that check it are told so.
    let other = Warning::OtherName { path: named.certificate.clone(), name: "Named.Example".to_owned() };
    assert_eq!(tls.warnings, [other]);
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

/// Makes a client that verifies only signatures of `schemes`.
fn client_that_verifies(schemes: &[SignatureScheme], versions: Versions) -> ClientConfig {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    let all = provider.signature_verification_algorithms;
    let known: Vec<_> = all.mapping.iter().filter(|(scheme, _)| schemes.contains(scheme)).copied().collect();
    provider.signature_verification_algorithms.mapping = known.leak();
    client::client_config_with(provider, &ClientTrust::AnyCertificate, versions, &[Alpn::Http11]).unwrap()
}

const RSA: [SignatureScheme; 2] = [SignatureScheme::RSA_PSS_SHA256, SignatureScheme::RSA_PKCS1_SHA256];
const P256: [SignatureScheme; 1] = [SignatureScheme::ECDSA_NISTP256_SHA256];
const P384: [SignatureScheme; 1] = [SignatureScheme::ECDSA_NISTP384_SHA384];
const ED25519: [SignatureScheme; 1] = [SignatureScheme::ED25519];

#[test]
fn certificates_of_one_name_go_to_the_clients_that_can_use_them() {
    let dir = tempfile::tempdir().unwrap();
    let kinds = [
        ("p256", &rcgen::PKCS_ECDSA_P256_SHA256, &P256[..]),
        ("p384", &rcgen::PKCS_ECDSA_P384_SHA384, &P384),
        ("ed25519", &rcgen::PKCS_ED25519, &ED25519),
        ("rsa", &rcgen::PKCS_RSA_SHA256, &RSA),
    ];
    let files = kinds.map(|(stem, algorithm, _)| {
        let key = rcgen::KeyPair::generate_for(algorithm).unwrap();
        make_with(&key, dir.path(), stem, &["a.example", "*.lab.example"], 2090)
    });
    for first in 0..kinds.len() {
        let mut order = files.to_vec();
        order.rotate_left(first);
        let tls = load(order).unwrap();
        assert_eq!(tls.warnings, []);
        for (files, (stem, _, schemes)) in files.iter().zip(kinds) {
            let expected = der_of(&fs::read_to_string(&files.certificate).unwrap());
            for name in ["a.example", "x.lab.example", "unknown.example", "127.0.0.1"] {
                for versions in [Versions::Tls13Only, Versions::Tls12Only] {
                    let client = client_that_verifies(schemes, versions);
                    assert_eq!(served_to(client, &tls, name), expected, "{stem} {name} {versions:?}");
                }
            }
        }
        let expected = der_of(&fs::read_to_string(&files[first].certificate).unwrap());
        assert_eq!(served_certificate(&tls, "a.example"), expected, "who can use all gets the first");
    }
    // By TLS 1.2 the cipher suite has its say too.
    let tls = load(files.to_vec()).unwrap();
    let client = client_with_suite(Versions::Tls12Only, CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256);
    let expected = der_of(&fs::read_to_string(&files[3].certificate).unwrap());
    assert_eq!(served_to(client, &tls, "a.example"), expected);
}

#[test]
fn certificate_that_no_client_would_get_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let both = make(dir.path(), "both", &["a.example", "b.example"], 2090);
    let one = make(dir.path(), "one", &["B.example"], 2090);
    let other = make(dir.path(), "other", &["b.example", "c.example"], 2090);
    let error = error_of(vec![both.clone(), one.clone()]);
    assert!(error.contains("one.crt would be used for nobody"), "{error}");
    assert!(error_of(vec![both.clone(), both.clone()]).contains("both.crt would be used for nobody"));
    assert!(load(vec![both.clone(), other]).is_ok(), "it has a name of its own");
    assert!(load(vec![one, both]).is_ok());
}

fn served_certificate(tls: &ServerTls, name: &str) -> Vec<u8> {
    served_to(any_client(Versions::Tls12And13), tls, name)
}

fn served_to(client: ClientConfig, tls: &ServerTls, name: &str) -> Vec<u8> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
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
fn names_that_no_client_asks_for_are_refused_and_such_as_the_certificate_has_are_taken() {
    let dir = tempfile::tempdir().unwrap();
    let files = make(dir.path(), "files", &["files.example", "*.lab.example"], 2090);
    let with = |name: &str| CertificateFiles { names: vec![name.to_owned()], ..files.clone() };
    for name in [
        "",
        " ",
        "a b",
        "*",
        "*.",
        "a.*.example",
        "*.*.example",
        "files.example:443",
        "https://files.example",
        "192.0.2.1",
    ] {
        let error = error_of(vec![with(name)]);
        assert!(
            error.contains("files.crt is to be used for") && error.contains(&format!("{name:?}")),
            "{error}"
        );
    }
    for name in ["files.example", "FILES.example", "*.lab.example", "a.lab.example"] {
        assert_eq!(load(vec![with(name)]).unwrap().warnings, [], "{name}");
    }
    for name in ["example", "*.files.example", "b.a.lab.example"] {
        let warned = Warning::OtherName { path: files.certificate.clone(), name: name.to_owned() };
        assert_eq!(load(vec![with(name)]).unwrap().warnings, [warned], "{name}");
    }
}

#[test]
fn a_certificate_of_days_to_come_brings_a_warning_with_both_dates() {
    let dir = tempfile::tempdir().unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let files = make_with(&key, dir.path(), "later", &["a.example"], 2090);
    let mut params = rcgen::CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2089, 2, 3);
    params.not_after = rcgen::date_time_ymd(2090, 1, 1);
    fs::write(&files.certificate, params.self_signed(&key).unwrap().pem()).unwrap();
    let warnings = load(vec![files]).unwrap().warnings;
    let [told] = &warnings[..] else { panic!("{warnings:?}") };
    let told = told.to_string();
    assert!(told.contains("from 2089-02-03 until 2090-01-01, not yet"), "{told}");
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
            Warning::Expired {
                path: expired.certificate,
                from: "1975-01-01".to_owned(),
                until: "2020-01-01".to_owned(),
            },
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

/// Encodes `der` as a PEM section with this label.
fn pem_of(label: &str, der: &[u8]) -> String {
    let base64 = base64(der);
    let lines: Vec<_> = base64.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= chunk.len() { digit as char } else { '=' });
        }
    }
    text
}

#[test]
fn content_that_is_no_certificate_and_no_usable_key_is_told_in_words_of_people() {
    let dir = tempfile::tempdir().unwrap();
    let files = make(dir.path(), "a", &["a.example"], 2090);
    let good = [&files.certificate, &files.key].map(|path| fs::read_to_string(path).unwrap());
    let of_library =
        ["invalid peer", "BadEncoding", "BadDer", "unexpected error", "failed to parse", "General("];
    let told = |certificate: &str, key: &str| {
        fs::write(&files.certificate, certificate).unwrap();
        fs::write(&files.key, key).unwrap();
        let told = error_of(vec![files.clone()]);
        assert!(!of_library.iter().any(|words| told.contains(words)), "{told}");
        told
    };
    let certificate = der_of(&good[0]);
    let whole: &[u8] = certificate.as_ref();
    for cut in (0..whole.len()).step_by(7) {
        let part = pem_of("CERTIFICATE", &whole[..cut]);
        for names in [Vec::new(), vec!["a.example".to_owned()]] {
            let named = CertificateFiles { names, ..files.clone() };
            fs::write(&files.certificate, &part).unwrap();
            let told = error_of(vec![named]);
            let says = told.contains("no X.509 certificate, or a part of one");
            assert!(says && !of_library.iter().any(|words| told.contains(words)), "{cut}: {told}");
        }
    }
    let key = rcgen::KeyPair::generate().unwrap().serialize_der();
    for cut in (0..key.len()).step_by(7) {
        let part = pem_of("PRIVATE KEY", &key[..cut]);
        assert!(told(&good[0], &part).contains("no whole RSA, ECDSA"), "{cut}");
    }
    // X25519, which agrees on keys and signs nothing.
    let of_other_kind =
        [&[0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x6e, 4, 0x22, 4, 0x20][..], &[7; 32]];
    let other = pem_of("PRIVATE KEY", &of_other_kind.concat());
    assert!(told(&good[0], &other).contains("no whole RSA, ECDSA (P-256, P-384, P-521) or Ed25519 key"));
    assert!(told(&good[0], &pem_of("RSA PRIVATE KEY", &key)).contains("no whole RSA, ECDSA"));
    assert!(told(&good[0], &pem_of("ENCRYPTED PRIVATE KEY", &key)).contains("openssl pkey -in FILE"));
    assert!(told(&good[0], &good[0]).contains("no PRIVATE KEY section"));
}

#[test]
fn certificate_is_out_of_time_before_its_first_and_after_its_last_second() {
    let dir = tempfile::tempdir().unwrap();
    let files = make(dir.path(), "a", &["a.example"], 2031);
    let tls = load(vec![files.clone()]).unwrap();
    let at = |seconds: u64| std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
    // 2031-01-01; rcgen begins in 1975.
    let end = 1_924_992_000;
    for (now, is_told) in [(at(0), true), (at(end - 1), false), (at(end + 1), true)] {
        let told = tls.out_of_time(now);
        assert_eq!(told.len(), usize::from(is_told), "{now:?}: {told:?}");
        for (path, warning) in told {
            let text = warning.to_string();
            assert!(
                path == files.certificate && text.contains("2031-01-01") && text.contains("1975-01-01"),
                "{text}"
            );
        }
        assert!(!tls.is_outdated(now), "the administrator renews it");
    }
}

#[test]
fn self_signed_certificate_is_outdated_where_a_start_would_replace_it() {
    let dir = tempfile::tempdir().unwrap();
    let config = TlsConfig::new(dir.path());
    let tls = config.load(Arc::new(TicketKeys::new().unwrap())).unwrap();
    let now = std::time::SystemTime::now();
    let days = |days: u64| std::time::Duration::from_secs(days * 86_400);
    for (at, is_outdated) in [
        (now, false),
        (now - days(2), true),
        (now + days(790), false),
        (now + days(800), true),
        (now + days(3650), true),
    ] {
        assert_eq!(tls.is_outdated(at), is_outdated, "{at:?}");
    }
}
