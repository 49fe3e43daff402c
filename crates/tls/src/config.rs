//! TLS configuration of the server: certificates from files, their names, versions and ciphers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::crypto::CryptoProvider;
use rustls::server::NoServerSessionStorage;
use rustls::{CipherSuite, ServerConfig, SupportedCipherSuite, SupportedProtocolVersion, version};

use crate::certificate_files::CertificateFiles;
use crate::config_error::{ConfigError, Warning};
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
