//! TLS configuration of the server: certificates from files, their names, versions and ciphers.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::NoServerSessionStorage;
use rustls::sign::CertifiedKey;
use rustls::{CipherSuite, ServerConfig, SupportedCipherSuite, SupportedProtocolVersion, version};

use crate::handshake::Alpn;
use crate::self_signed;
use crate::sni::SniResolver;
use crate::tickets::TicketKeys;
use crate::validity::{self, Standing, Validity};

/// Time before a certificate's end from which a warning is given.
const WARN_BEFORE: Duration = Duration::from_secs(14 * 86_400);

/// Settings of a server's TLS.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    /// Certificates; the first serves clients that name no known server. Several of one name are for clients that
    /// verify different signatures, as ECDSA and RSA. With none, a self-signed one is made and kept in `state_dir`.
    pub certificates: Vec<CertificateFiles>,
    /// Directory of the self-signed certificate.
    pub state_dir: PathBuf,
    /// Protocol versions that the server offers.
    pub versions: Versions,
    /// Side that chooses the cipher.
    pub cipher_order: CipherOrder,
    /// Application protocols that the server offers, best first.
    pub alpn: Vec<Alpn>,
}

impl TlsConfig {
    /// Makes settings of TLS 1.2 and 1.3, HTTP/2 before HTTP/1.1, and a self-signed certificate kept in
    /// `state_dir`.
    pub fn new(state_dir: impl Into<PathBuf>) -> Self {
        Self {
            certificates: Vec::new(),
            state_dir: state_dir.into(),
            versions: Versions::default(),
            cipher_order: CipherOrder::default(),
            alpn: vec![Alpn::H2, Alpn::Http11],
        }
    }
}

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

/// Protocol versions that are offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Versions {
    /// Versions TLS 1.2 and 1.3.
    #[default]
    Tls12And13,
    /// Version TLS 1.3 alone.
    Tls13Only,
    /// Version TLS 1.2 alone, the only one that network cards offload (Linux' tls-offload).
    Tls12Only,
}

/// Side that chooses the cipher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CipherOrder {
    /// The server chooses: AES-128-GCM, the fastest, then AES-256-GCM, then ChaCha20-Poly1305.
    #[default]
    Fastest,
    /// The client chooses, by its own order.
    Client,
}

/// Configuration ready to serve with; connections that began under an old one keep that.
pub struct ServerTls {
    /// Configuration for [`TlsSession::server`](crate::TlsSession::server).
    pub config: Arc<ServerConfig>,
    /// Warnings for the administrator.
    pub warnings: Vec<Warning>,
    /// Path of the self-signed certificate, when one is used.
    pub self_signed: Option<PathBuf>,
    /// Validity of each certificate where it can be read.
    validities: Vec<(PathBuf, Validity)>,
}

impl ServerTls {
    /// Returns the certificates that clients refuse at this time, not valid yet or expired, with their files.
    pub fn out_of_time(&self, now: SystemTime) -> Vec<(PathBuf, Warning)> {
        let told = |(path, validity): &(PathBuf, Validity)| {
            let from = validity::day(validity.not_before);
            let until = validity::day(validity.not_after);
            let warning = match validity.at(now) {
                Standing::NotYet => Warning::NotYetValid { path: path.clone(), from, until },
                Standing::Over => Warning::Expired { path: path.clone(), from, until },
                Standing::Valid(_) => return None,
            };
            Some((path.clone(), warning))
        };
        self.validities.iter().filter_map(told).collect()
    }

    /// Returns the certificates that no name leads to, or that lack a configured name, with their files.
    pub fn misnamed(&self) -> impl Iterator<Item = (&Path, &Warning)> {
        self.warnings.iter().filter_map(|warning| match warning {
            Warning::OtherName { path, .. } | Warning::NoNames { path } => Some((&**path, warning)),
            _ => None,
        })
    }

    /// Returns whether the self-signed certificate is to be replaced at this time, which [`TlsConfig::load`]
    /// does.
    pub fn is_outdated(&self, now: SystemTime) -> bool {
        self.self_signed.is_some()
            && self.validities.iter().any(|(_, validity)| !self_signed::is_kept(*validity, now))
    }

    fn about_to_end(&self, now: SystemTime) -> impl Iterator<Item = Warning> {
        self.validities.iter().filter_map(move |(path, validity)| match validity.at(now) {
            Standing::Valid(left) if left < WARN_BEFORE => {
                Some(Warning::ExpiresSoon { path: path.clone(), days: left.as_secs() / 86_400 })
            }
            _ => None,
        })
    }

    /// Returns a copy for one lane, so that lanes do not share the counter that each connection touches.
    pub fn lane_config(&self) -> Arc<ServerConfig> {
        Arc::new(ServerConfig::clone(&self.config))
    }
}

/// Warning about a configuration that works.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// Other users can read a private key.
    //@ level: WARN
    //@ cause: The private key of a certificate has a mode by which other users of the machine can read it.
    //@ remedy: Run `chmod 600` on the file. If others may have read it, renew the certificate with a new key.
    #[error("certificate key {}: other users can read it (mode {mode:04o}): chmod 600 it [key-readable]", path.display())]
    KeyMode {
        /// Path of the key file.
        path: PathBuf,
        /// Permission bits of the key file.
        mode: u32,
    },
    /// A certificate is no longer valid.
    //@ level: WARN
    //@ cause: The certificate's last day has passed.
    //@ remedy: Renew it, put it at the same path and reload the server (SIGHUP). Connections are not dropped.
    #[error(
        "certificate {}: it was valid from {from} until {until} and has expired, and clients refuse it; renew it and reload \
         [certificate-expired]",
        path.display()
    )]
    Expired {
        /// Path of the certificate file.
        path: PathBuf,
        /// First day of the validity, as `2026-11-21`.
        from: String,
        /// Last day of the validity, as `2026-11-21`.
        until: String,
    },
    /// A certificate is used for a name that it does not have.
    //@ level: WARN
    //@ cause: The configuration has a certificate used for a server name that is not among the certificate's own names.
    //@ remedy: Take the name out of `names`, or use a certificate that has it.
    #[error(
        "certificate {}: it does not have the name {name} that it is configured for, and clients that ask for that name refuse it; take \
         the name out, or use a certificate that has it [certificate-other-name]",
        path.display()
    )]
    OtherName {
        /// Path of the certificate file.
        path: PathBuf,
        /// Name that the configuration gives the certificate.
        name: String,
    },
    /// A certificate is not valid yet.
    //@ level: WARN
    //@ cause: The certificate's first day is to come, or this machine's clock is behind.
    //@ remedy: Look at the clock (`date`). If it is right, put a certificate that is valid now at the same path and reload the server
    //@ (SIGHUP).
    #[error(
        "certificate {}: it is valid from {from} until {until}, not yet by this machine's clock, and clients refuse it; set the clock, or \
         renew it and reload [certificate-not-yet-valid]",
        path.display()
    )]
    NotYetValid {
        /// Path of the certificate file.
        path: PathBuf,
        /// First day of the validity, as `2026-11-21`.
        from: String,
        /// Last day of the validity, as `2026-11-21`.
        until: String,
    },
    /// A certificate expires soon.
    //@ level: WARN
    //@ cause: The certificate's last day is near.
    //@ remedy: Renew it, put it at the same path and reload the server (SIGHUP). Connections are not dropped.
    #[error(
        "certificate {}: it expires in {days} day{}; renew it and reload [certificate-expires]",
        path.display(),
        if *days == 1 { "" } else { "s" }
    )]
    ExpiresSoon {
        /// Path of the certificate file.
        path: PathBuf,
        /// Whole days until the certificate expires.
        days: u64,
    },
    /// A certificate has no name by which clients could ask for it.
    //@ level: WARN
    //@ cause: The certificate has no DNS names of its own, and its table in the configuration has no `names`.
    //@ remedy: Configure `names` for it, or use a certificate with DNS names.
    #[error(
        "certificate {}: it has no DNS names and none are configured, so no client gets it by name; configure names \
         [certificate-no-names]",
        path.display()
    )]
    NoNames {
        /// Path of the certificate file.
        path: PathBuf,
    },
    /// A self-signed certificate was made.
    //@ level: WARN
    //@ cause: HTTPS is served without a certificate in the configuration, so the server made one that no authority has signed.
    //@ remedy: For browsers and other users configure a certificate of an authority. For a trial trust this one.
    #[error(
        "certificate {}: it was made now and is self-signed; browsers warn until they trust it [certificate-self-signed]",
        path.display()
    )]
    SelfSigned {
        /// Path of the certificate file.
        path: PathBuf,
    },
}

/// Reason why a configuration cannot be used, with the file and a remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The state directory cannot be used.
    #[error(
        "cannot keep the self-signed certificate at {}: {source}; \
         make the directory writable or configure a certificate",
        path.display()
    )]
    StateDir {
        /// Path of the file or directory.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A certificate file is not usable.
    #[error(
        "{} holds no usable certificate: {reason}; it must be PEM, the server's certificate first",
        path.display()
    )]
    Certificate {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem.
        reason: String,
    },
    /// A key file is not usable.
    #[error(
        "{} holds no usable private key: {reason}; \
         it must be an unencrypted PEM key (RSA, ECDSA or Ed25519)",
        path.display()
    )]
    Key {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem.
        reason: String,
    },
    /// A key does not belong to its certificate.
    #[error(
        "the key {} does not belong to the certificate {}; \
         check which key the certificate was issued for",
        key.display(),
        certificate.display()
    )]
    Mismatch {
        /// Path of the certificate file.
        certificate: PathBuf,
        /// Path of the key file.
        key: PathBuf,
    },
    /// A certificate is shadowed by others, so that no client gets it.
    #[error(
        "the certificate {} would be used for nobody: certificates before it have all its names and keys of its kind; \
         take it out, or configure other names for it",
        certificate.display()
    )]
    Unused {
        /// Path of the certificate file.
        certificate: PathBuf,
    },
    /// A configured name is one that no client can ask for.
    #[error(
        "the certificate {} is to be used for {name:?}, which is no server name: a name is a DNS name such as files.example.org, or all \
         names of a domain, *.example.org; without `names` those of the certificate count",
        certificate.display()
    )]
    Name {
        /// Path of the certificate file.
        certificate: PathBuf,
        /// Name as configured.
        name: String,
    },
    /// The self-signed certificate cannot be made.
    #[error("cannot make a self-signed certificate: {0}")]
    Generate(String),
    /// The system gives no random bytes.
    #[error("the system's random source failed")]
    Random(#[from] aws_lc_rs::error::Unspecified),
    /// rustls refuses the combination.
    #[error("TLS cannot be set up: {0}")]
    Rustls(#[from] rustls::Error),
}

impl ConfigError {
    /// Returns the configured file that it is about, where it is about one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Read { path, .. } | Self::Certificate { path, .. } | Self::Key { path, .. } => Some(path),
            Self::Mismatch { key, .. } => Some(key),
            Self::Unused { certificate } | Self::Name { certificate, .. } => Some(certificate),
            Self::StateDir { .. } | Self::Generate(_) | Self::Random(_) | Self::Rustls(_) => None,
        }
    }
}

impl TlsConfig {
    /// Reads all files and builds what the lanes share.
    ///
    /// Ticket keys are the caller's, so that sessions resume over reloads.
    pub fn load(&self, tickets: Arc<TicketKeys>) -> Result<ServerTls, ConfigError> {
        let now = SystemTime::now();
        let mut warnings = Vec::new();
        let mut self_signed = None;
        let mut certificates = self.certificates.clone();
        if certificates.is_empty() {
            let (files, is_new) = self_signed::load_or_create(&self.state_dir, now)?;
            if is_new {
                warnings.push(Warning::SelfSigned { path: files.certificate.clone() });
            }
            self_signed = Some(files.certificate.clone());
            certificates.push(files);
        }
        let provider = Arc::new(self.provider());
        let mut validities = Vec::new();
        let resolver = load_certificates(&certificates, &provider, &mut validities, &mut warnings)?;
        let config = self.build(provider, Arc::new(resolver), tickets)?;
        let mut tls = ServerTls { config: Arc::new(config), warnings, self_signed, validities };
        let out_of_time = tls.out_of_time(now).into_iter().map(|(_, warning)| warning);
        let of_time: Vec<_> = out_of_time.chain(tls.about_to_end(now)).collect();
        tls.warnings.splice(0..0, of_time);
        Ok(tls)
    }

    fn build(
        &self,
        provider: Arc<CryptoProvider>,
        resolver: Arc<SniResolver>,
        tickets: Arc<TicketKeys>,
    ) -> Result<ServerConfig, ConfigError> {
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(self.versions.supported())?
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        config.alpn_protocols = self.alpn.iter().map(|alpn| alpn.wire_name().to_vec()).collect();
        config.ignore_client_order = self.cipher_order == CipherOrder::Fastest;
        // Resumption by tickets alone: a session store would be a lock that all lanes share.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = tickets;
        config.enable_secret_extraction = true;
        Ok(config)
    }

    fn provider(&self) -> CryptoProvider {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        if self.cipher_order == CipherOrder::Fastest {
            provider.cipher_suites.sort_by_key(speed_rank);
        }
        provider
    }
}

impl Versions {
    pub(crate) fn supported(self) -> &'static [&'static SupportedProtocolVersion] {
        static BOTH: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];
        match self {
            Self::Tls12And13 => &BOTH,
            Self::Tls13Only => &BOTH[..1],
            Self::Tls12Only => &BOTH[1..],
        }
    }
}

/// Returns the rank of a cipher suite: lower is faster, newer protocol versions stay in front.
fn speed_rank(suite: &SupportedCipherSuite) -> (bool, u8) {
    let rank = match suite.suite() {
        CipherSuite::TLS13_AES_128_GCM_SHA256
        | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
        | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => 0,
        CipherSuite::TLS13_AES_256_GCM_SHA384
        | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
        | CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => 1,
        _ => 2,
    };
    (suite.tls13().is_none(), rank)
}

fn load_certificates(
    certificates: &[CertificateFiles],
    provider: &CryptoProvider,
    validities: &mut Vec<(PathBuf, Validity)>,
    warnings: &mut Vec<Warning>,
) -> Result<SniResolver, ConfigError> {
    let mut resolver = SniResolver::new();
    for (index, files) in certificates.iter().enumerate() {
        let key = Arc::new(files.load(provider)?);
        files.check_mode(warnings)?;
        let validity = key.cert.first().and_then(validity::of);
        validities.extend(validity.map(|validity| (files.certificate.clone(), validity)));
        let names = files.names_of(&key, warnings)?;
        let mut is_used = resolver.add_default(&key);
        if names.is_empty() && index > 0 {
            warnings.push(Warning::NoNames { path: files.certificate.clone() });
            is_used = true;
        }
        for name in &names {
            is_used |= resolver.add(name, &key);
        }
        if !is_used {
            return Err(ConfigError::Unused { certificate: files.certificate.clone() });
        }
    }
    Ok(resolver)
}

impl CertificateFiles {
    fn load(&self, provider: &CryptoProvider) -> Result<CertifiedKey, ConfigError> {
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

    fn check_mode(&self, warnings: &mut Vec<Warning>) -> Result<(), ConfigError> {
        let metadata = std::fs::metadata(&self.key)
            .map_err(|source| ConfigError::Read { path: self.key.clone(), source })?;
        let mode = metadata.permissions().mode() & 0o7777;
        if mode & 0o007 != 0 {
            warnings.push(Warning::KeyMode { path: self.key.clone(), mode });
        }
        Ok(())
    }

    fn names_of(&self, key: &CertifiedKey, warnings: &mut Vec<Warning>) -> Result<Vec<String>, ConfigError> {
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
