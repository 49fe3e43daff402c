//! Which certificate a client gets: by server name, with wildcards, else the first one.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

thread_local! {
    /// The name in the ClientHello that the resolver looked at last on this thread.
    static SEEN_NAME: RefCell<Option<Box<str>>> = const { RefCell::new(None) };
}

/// Takes the server name that the resolver has seen since the last call, on this thread.
///
/// rustls' unbuffered connection does not tell the name, but calls the resolver for every ClientHello,
/// resumed or not, on the thread and within the call that processes it.
pub(crate) fn take_seen_name() -> Option<Box<str>> {
    SEEN_NAME.take()
}

/// Certificates by server name (RFC 6066 section 3).
#[derive(Debug)]
pub struct SniResolver {
    by_name: HashMap<Box<str>, Arc<CertifiedKey>>,
    default: Arc<CertifiedKey>,
}

impl SniResolver {
    /// A resolver that gives `default` to clients that send no name, or one that no certificate has.
    pub fn new(default: Arc<CertifiedKey>) -> Self {
        Self { by_name: HashMap::new(), default }
    }

    /// Serves `key` for `name`, which may begin with `*.`; a name that is taken already stays as it is.
    pub fn add(&mut self, name: &str, key: &Arc<CertifiedKey>) {
        let name = name.to_ascii_lowercase().into_boxed_str();
        self.by_name.entry(name).or_insert_with(|| Arc::clone(key));
    }

    /// The certificate for `name`: exact, then the wildcard one label up, then the default.
    pub fn find(&self, name: Option<&str>) -> &Arc<CertifiedKey> {
        name.and_then(|name| {
            self.by_name.get(name).or_else(|| {
                let (_, parent) = name.split_once('.')?;
                self.by_name.get(format!("*.{parent}").as_str())
            })
        })
        .unwrap_or(&self.default)
    }
}

impl ResolvesServerCert for SniResolver {
    fn resolve(&self, client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = client_hello.server_name().map(str::to_ascii_lowercase);
        let key = Arc::clone(self.find(name.as_deref()));
        SEEN_NAME.set(name.map(String::into_boxed_str));
        Some(key)
    }
}
