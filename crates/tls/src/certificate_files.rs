//! Certificates in files: read, checked, and the names that they are for.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::CertifiedKey;

use crate::config_error::{ConfigError, Warning};

/// Files of a certificate chain and its key, both PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// Path of the chain, with the server's own certificate first.
    pub certificate: PathBuf,
    /// Path of the private key: PKCS #8, SEC1 or PKCS #1.
    pub key: PathBuf,
    /// Server names that the certificate serves; empty for the names in the certificate.
    pub names: Vec<String>,
}

impl CertificateFiles {
    pub(crate) fn load(&self, provider: &CryptoProvider) -> Result<CertifiedKey, ConfigError> {
        let bad_key = |reason: String| ConfigError::Key { path: self.key.clone(), reason };
        let pem = read(&self.certificate)?;
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&pem)
            .collect::<Result<_, _>>()
            .map_err(|error| self.bad_certificate(crate::pem::told(error)))?;
        if chain.is_empty() {
            return Err(self.bad_certificate("no CERTIFICATE section".to_owned()));
        }
        let pem = zeroize::Zeroizing::new(read(&self.key)?);
        let key = PrivateKeyDer::from_pem_slice(&pem)
            .map_err(|error| bad_key(crate::pem::told_of_key(error, &pem)))?;
        let key = provider.key_provider.load_private_key(key);
        let key = key.map_err(|error| bad_key(crate::pem::told_of_unusable_key(&error)))?;
        let certified = CertifiedKey::new(chain, key);
        match certified.keys_match() {
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => Ok(certified),
            Err(rustls::Error::InconsistentKeys(_)) => {
                Err(ConfigError::Mismatch { certificate: self.certificate.clone(), key: self.key.clone() })
            }
            Err(error) => Err(self.bad_certificate(crate::pem::told_of_content(&error))),
        }
    }

    pub(crate) fn check_mode(&self, warnings: &mut Vec<Warning>) -> Result<(), ConfigError> {
        let metadata = std::fs::metadata(&self.key)
            .map_err(|source| ConfigError::Read { path: self.key.clone(), source })?;
        let mode = metadata.permissions().mode() & 0o7777;
        if mode & 0o007 != 0 {
            warnings.push(Warning::KeyMode { path: self.key.clone(), mode });
        }
        Ok(())
    }

    pub(crate) fn names_of(
        &self,
        key: &CertifiedKey,
        warnings: &mut Vec<Warning>,
    ) -> Result<Vec<String>, ConfigError> {
        let der = key.end_entity_cert()?;
        let parsed = webpki::EndEntityCert::try_from(der);
        if self.names.is_empty() {
            let certificate =
                parsed.map_err(|_| self.bad_certificate(crate::pem::NO_CERTIFICATE.to_owned()))?;
            return Ok(certificate.valid_dns_names().map(str::to_owned).collect());
        }
        for name in &self.names {
            let subject = subject_of(name).ok_or_else(|| ConfigError::Name {
                certificate: self.certificate.clone(),
                name: name.clone(),
            })?;
            let has_it = |certificate: &webpki::EndEntityCert<'_>| {
                certificate.verify_is_valid_for_subject_name(&subject).is_ok()
            };
            if parsed.as_ref().is_ok_and(|certificate| !has_it(certificate)) {
                warnings.push(Warning::OtherName { path: self.certificate.clone(), name: name.clone() });
            }
        }
        Ok(self.names.clone())
    }

    fn bad_certificate(&self, reason: String) -> ConfigError {
        ConfigError::Certificate { path: self.certificate.clone(), reason }
    }
}

/// Returns whether a client may ask for a server of this name, or of the domain behind `*.`.
pub fn is_server_name(name: &str) -> bool {
    subject_of(name).is_some()
}

/// Converts a configured name to a server name that a client may send; `None` where no client can.
fn subject_of(name: &str) -> Option<ServerName<'static>> {
    let of_domain = name.strip_prefix("*.").map(|domain| format!("any.{domain}"));
    match ServerName::try_from(of_domain.unwrap_or_else(|| name.to_owned())) {
        // Clients send no addresses and no dot at the end (RFC 6066 section 3).
        Ok(subject @ ServerName::DnsName(_)) if !name.ends_with('.') => Some(subject),
        _ => None,
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ConfigError> {
    std::fs::read(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })
}
