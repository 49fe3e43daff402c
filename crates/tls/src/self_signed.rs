//! Self-signed certificate of a server without one: made on the first run, kept, and replaced before it
//! expires or when not valid yet.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::certificate_files::CertificateFiles;
use crate::config_error::ConfigError;
use crate::pem;
use crate::validity::{self, Standing, Validity};

/// Validity of a new certificate, the longest that Apple's clients accept even from a user who trusts it.
const VALIDITY: Duration = Duration::from_secs(825 * 86_400);

/// Time before a kept certificate's end from which a start replaces it.
const RENEW_BEFORE: Duration = Duration::from_secs(30 * 86_400);

/// Time by which a new certificate's validity begins earlier, for clients whose clock runs behind.
const CLOCK_SLACK: Duration = Duration::from_secs(86_400);

/// Returns the self-signed certificate and key in `state_dir`, made there when missing, about to end or not
/// valid yet.
///
/// The key file has mode 0600 and never exists with another.
///
/// # Errors
/// [`ConfigError::StateDir`] when a file cannot be read or written, [`ConfigError::Generate`] when the
/// certificate cannot be made. A kept certificate that cannot be read is an error, not replaced: the
/// user may have told clients to trust it.
pub(crate) fn load_or_create(
    state_dir: &Path,
    now: SystemTime,
) -> Result<(CertificateFiles, bool), ConfigError> {
    let files = CertificateFiles {
        certificate: state_dir.join("self-signed.crt"),
        key: state_dir.join("self-signed.key"),
        names: Vec::new(),
    };
    let is_there = exists(&files.certificate)? && exists(&files.key)?;
    if is_there && is_good(&files.certificate, now)? {
        return Ok((files, false));
    }
    create(state_dir, &files, now)?;
    Ok((files, true))
}

/// Returns the names of a self-signed certificate: this machine, as its users may call it.
pub(crate) fn names() -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    let uname = rustix::system::uname();
    let hostname = uname.nodename().to_string_lossy().to_ascii_lowercase();
    let is_name = !hostname.is_empty()
        && hostname.len() <= 253
        && hostname.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'));
    if is_name && !names.contains(&hostname) {
        names.push(hostname);
    }
    names
}

fn exists(path: &Path) -> Result<bool, ConfigError> {
    path.try_exists().map_err(|source| ConfigError::StateDir { path: path.to_owned(), source })
}

fn is_good(certificate: &Path, now: SystemTime) -> Result<bool, ConfigError> {
    let unreadable = |reason: String| ConfigError::Certificate { path: certificate.to_owned(), reason };
    let der = CertificateDer::from_pem_file(certificate).map_err(|error| unreadable(pem::told(error)))?;
    let validity = validity::of(&der).ok_or_else(|| unreadable("its validity cannot be read".to_owned()))?;
    Ok(is_kept(validity, now))
}

/// Returns whether a certificate with this validity is kept at this time.
pub(crate) fn is_kept(validity: Validity, now: SystemTime) -> bool {
    matches!(validity.at(now), Standing::Valid(left) if left >= RENEW_BEFORE)
}

fn create(state_dir: &Path, files: &CertificateFiles, now: SystemTime) -> Result<(), ConfigError> {
    let generate = |error: rcgen::Error| ConfigError::Generate(error.to_string());
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(generate)?;
    let mut params = CertificateParams::new(names()).map_err(generate)?;
    params.distinguished_name.push(DnType::CommonName, "Linerate self-signed");
    params.not_before = (now - CLOCK_SLACK).into();
    params.not_after = (now + VALIDITY - CLOCK_SLACK).into();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = params.self_signed(&key).map_err(generate)?;

    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(state_dir)
        .map_err(|source| ConfigError::StateDir { path: state_dir.to_owned(), source })?;
    // The key first: a certificate on disk then always has its key beside it.
    let key_pem = zeroize::Zeroizing::new(key.serialize_pem());
    replace(&files.key, key_pem.as_bytes(), 0o600)?;
    replace(&files.certificate, certificate.pem().as_bytes(), 0o644)
}

/// Writes a file under another name, then renames it: readers see the old content or the new.
fn replace(path: &Path, content: &[u8], mode: u32) -> Result<(), ConfigError> {
    let mut new_name = path.as_os_str().to_owned();
    new_name.push(".new");
    let new_path = PathBuf::from(new_name);
    write_new(&new_path, content, mode)
        .and_then(|()| fs::rename(&new_path, path))
        .map_err(|source| ConfigError::StateDir { path: path.to_owned(), source })
}

fn write_new(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn first_run_makes_a_certificate_and_the_next_run_keeps_it() {
        let dir = tempfile::tempdir().unwrap();
        let state_dir = dir.path().join("deep/state");
        let (files, is_new) = load_or_create(&state_dir, SystemTime::now()).unwrap();
        assert!(is_new);
        let before = (fs::read(&files.certificate).unwrap(), fs::read(&files.key).unwrap());
        let (again, is_new) = load_or_create(&state_dir, SystemTime::now()).unwrap();
        assert!(!is_new);
        assert_eq!(before, (fs::read(&again.certificate).unwrap(), fs::read(&again.key).unwrap()));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&files.key), 0o600);
        assert_eq!(mode(&state_dir), 0o700);
    }

    #[test]
    fn certificate_about_to_end_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        load_or_create(dir.path(), now).unwrap();
        let near_end = now + VALIDITY - RENEW_BEFORE - CLOCK_SLACK;
        assert!(!load_or_create(dir.path(), near_end - Duration::from_secs(60)).unwrap().1);
        assert!(load_or_create(dir.path(), near_end + Duration::from_secs(60)).unwrap().1);
    }

    #[test]
    fn certificate_of_a_clock_that_was_ahead_is_replaced_and_one_of_a_clock_that_was_behind_kept() {
        let dir = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        let year = Duration::from_secs(365 * 86_400);
        load_or_create(dir.path(), now + year).unwrap();
        assert!(
            load_or_create(dir.path(), now).unwrap().1,
            "its clients would be told that it is not valid yet"
        );
        assert!(!load_or_create(dir.path(), now).unwrap().1);
        load_or_create(dir.path(), now - 3 * year).unwrap();
        assert!(load_or_create(dir.path(), now).unwrap().1);
        assert!(!load_or_create(dir.path(), now + year).unwrap().1);
        // A clock that is behind by less than the slack finds it good.
        assert!(!load_or_create(dir.path(), now - CLOCK_SLACK / 2).unwrap().1);
    }

    #[test]
    fn unreadable_certificate_is_an_error_that_names_it_and_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (files, _) = load_or_create(dir.path(), SystemTime::now()).unwrap();
        fs::write(&files.certificate, "not a certificate").unwrap();
        let error = load_or_create(dir.path(), SystemTime::now()).unwrap_err().to_string();
        assert!(error.contains("self-signed.crt"), "{error}");
        assert_eq!(fs::read(&files.certificate).unwrap(), b"not a certificate");
    }

    #[test]
    fn state_dir_that_cannot_be_made_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let error = load_or_create(&file.join("state"), SystemTime::now()).unwrap_err().to_string();
        assert!(error.contains("file/state"), "{error}");
    }
}
