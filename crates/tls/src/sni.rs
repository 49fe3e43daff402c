//! Choice of a client's certificate: by server name, with wildcards, and by the signatures that the client
//! can verify.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

thread_local! {
    /// Server name in the ClientHello that the resolver handled last on this thread.
    static SEEN_NAME: RefCell<Option<Box<str>>> = const { RefCell::new(None) };
}

/// Takes the server name that the resolver has seen since the last call, on this thread.
///
/// rustls' unbuffered connection does not tell the name, but calls the resolver for every ClientHello,
/// resumed or not, on the thread and within the call that processes it.
pub(crate) fn take_seen_name() -> Option<Box<str>> {
    SEEN_NAME.take()
}

/// Certificates by server name (RFC 6066 section 3). Those of one name differ in kind, as an ECDSA and an RSA
/// one do.
#[derive(Debug, Default)]
pub struct SniResolver {
    by_name: HashMap<Box<str>, Vec<Arc<CertifiedKey>>>,
    /// Certificates for clients that send no name, or one without a certificate.
    default: Vec<Arc<CertifiedKey>>,
}

impl SniResolver {
    /// Makes a resolver without certificates.
    pub fn new() -> Self {
        Self::default()
    }

    /// Serves `key` for `name`, which may begin with `*.`, to clients that can use no key added before.
    /// Returns false when there is no such client.
    pub fn add(&mut self, name: &str, key: &Arc<CertifiedKey>) -> bool {
        add(self.by_name.entry(name.to_ascii_lowercase().into_boxed_str()).or_default(), key)
    }

    /// Adds a certificate for clients that name no server with a certificate.
    pub fn add_default(&mut self, key: &Arc<CertifiedKey>) -> bool {
        add(&mut self.default, key)
    }

    /// Returns the certificate for `name` and a client that verifies these signatures: exact, then the
    /// wildcard one label up, then the default. Of one name's certificates the first that the client can use
    /// is taken; a client that can use none gets the first, and ends the handshake itself. `None`: there is
    /// no certificate.
    pub fn find(&self, name: Option<&str>, schemes: &[SignatureScheme]) -> Option<&Arc<CertifiedKey>> {
        let named = name.and_then(|name| {
            self.by_name.get(name).or_else(|| {
                let (_, parent) = name.split_once('.')?;
                self.by_name.get(format!("*.{parent}").as_str())
            })
        });
        let keys = named.unwrap_or(&self.default);
        keys.iter().find(|key| key.key.choose_scheme(schemes).is_some()).or(keys.first())
    }
}

/// Appends a key if it makes a signature that no earlier one does, and returns whether it did.
fn add(keys: &mut Vec<Arc<CertifiedKey>>, key: &Arc<CertifiedKey>) -> bool {
    let makes = |key: &CertifiedKey, scheme| key.key.choose_scheme(&[scheme]).is_some();
    let is_new = SCHEMES
        .into_iter()
        .any(|scheme| makes(key, scheme) && !keys.iter().any(|before| makes(before, scheme)));
    if is_new {
        keys.push(Arc::clone(key));
    }
    is_new
}

impl ResolvesServerCert for SniResolver {
    fn resolve(&self, client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = client_hello.server_name().map(str::to_ascii_lowercase);
        // Of TLS 1.2, rustls leaves those out that the client's cipher suites cannot use.
        let key = self.find(name.as_deref(), client_hello.signature_schemes()).cloned();
        SEEN_NAME.set(name.map(String::into_boxed_str));
        key
    }
}

/// Signature schemes that a server's key may use.
const SCHEMES: [SignatureScheme; 10] = [
    SignatureScheme::RSA_PKCS1_SHA256,
    SignatureScheme::RSA_PKCS1_SHA384,
    SignatureScheme::RSA_PKCS1_SHA512,
    SignatureScheme::RSA_PSS_SHA256,
    SignatureScheme::RSA_PSS_SHA384,
    SignatureScheme::RSA_PSS_SHA512,
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ECDSA_NISTP521_SHA512,
    SignatureScheme::ED25519,
];
