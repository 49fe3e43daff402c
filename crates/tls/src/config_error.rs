//! What keeps TLS from being set up, and what an administrator should know though it is.

use std::io;
use std::path::{Path, PathBuf};

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
