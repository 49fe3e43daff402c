//! Client configurations for the load generator and for tests; sessions are [`TlsSession::client`].
//!
//! [`TlsSession::client`]: crate::TlsSession::client

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::config::Versions;
use crate::config_error::ConfigError;
use crate::handshake::Alpn;

/// Server certificates that a client trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientTrust {
    /// Certificates in this PEM file, or issued by one of them.
    Roots(PathBuf),
    /// Every certificate, for benchmarks and tests only: nothing proves which server answers.
    AnyCertificate,
}

/// Makes a client configuration whose sessions can be taken over by our record layer.
///
/// # Errors
/// [`ConfigError`] naming the file with the roots when it is not usable.
pub fn client_config(
    trust: &ClientTrust,
    versions: Versions,
    alpn: &[Alpn],
) -> Result<ClientConfig, ConfigError> {
    client_config_with(aws_lc_rs::default_provider(), trust, versions, alpn)
}

/// Makes the client's configuration with chosen cipher suites and key exchanges.
pub fn client_config_with(
    provider: CryptoProvider,
    trust: &ClientTrust,
    versions: Versions,
    alpn: &[Alpn],
) -> Result<ClientConfig, ConfigError> {
    let provider = Arc::new(provider);
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions.supported())?;
    let mut config = match trust {
        ClientTrust::Roots(path) => builder.with_root_certificates(read_roots(path)?).with_no_client_auth(),
        ClientTrust::AnyCertificate => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
            .with_no_client_auth(),
    };
    config.alpn_protocols = alpn.iter().map(|alpn| alpn.wire_name().to_vec()).collect();
    config.enable_secret_extraction = true;
    Ok(config)
}

fn read_roots(path: &PathBuf) -> Result<RootCertStore, ConfigError> {
    let unusable = |reason: String| ConfigError::Certificate { path: path.clone(), reason };
    let pem = std::fs::read(path).map_err(|source| ConfigError::Read { path: path.clone(), source })?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| unusable(crate::pem::told(error)))?;
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(unusable("no CERTIFICATE section".to_owned()));
    }
    Ok(roots)
}

/// Verifier that accepts every certificate, but checks that the server holds its key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
