//! Wording of errors in PEM files.

use rustls::CertificateError;
use rustls::pki_types::pem::Error;

/// Words an error for the administrator; the library shows lines as numbers of bytes.
pub(crate) fn told(error: Error) -> String {
    match error {
        Error::MissingSectionEnd { end_marker } => {
            let marker = String::from_utf8_lossy(&end_marker).trim().to_owned();
            format!("it is cut: the line -----END {}----- is missing", label_of(&marker))
        }
        Error::IllegalSectionStart { line } => {
            format!("the line \"{}\" begins no section", String::from_utf8_lossy(&line).trim().escape_debug())
        }
        Error::Base64Decode(_) => "what stands between its BEGIN and END lines is no Base64".to_owned(),
        Error::Io(error) => error.to_string(),
        Error::NoItemsFound => "nothing of that kind is in it".to_owned(),
        other => other.to_string(),
    }
}

/// Words the error ([`told`]) of a file that should hold a private key.
pub(crate) fn told_of_key(error: Error, file: &[u8]) -> String {
    let is_encrypted = |line: &[u8]| line.starts_with(b"-----BEGIN ENCRYPTED");
    match error {
        Error::NoItemsFound if file.split(|byte| *byte == b'\n').any(is_encrypted) => {
            "its key is encrypted, and the server asks for no password: write it out without one by `openssl pkey -in FILE -out NEW`"
                .to_owned()
        }
        Error::NoItemsFound => "no PRIVATE KEY section".to_owned(),
        other => told(other),
    }
}

/// Words the error of a key that is whole PEM, but of no kind that the library knows.
pub(crate) fn told_of_unusable_key(error: &rustls::Error) -> String {
    match error {
        rustls::Error::General(_) => "it is no whole RSA, ECDSA (P-256, P-384, P-521) or Ed25519 key: make one of them, as by `openssl \
                                      genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256`, and have it certified"
            .to_owned(),
        other => other.to_string(),
    }
}

/// Words the error of a certificate that is whole PEM, but unusable.
pub(crate) fn told_of_content(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::BadEncoding) => NO_CERTIFICATE.to_owned(),
        other => other.to_string(),
    }
}

/// Message for content that is no certificate between a certificate's marks.
pub(crate) const NO_CERTIFICATE: &str = "what stands between its BEGIN and END lines is no X.509 certificate, or a part of one: copy the file anew";

/// Returns `CERTIFICATE` of `-----END CERTIFICATE-----` or of the bare word.
fn label_of(marker: &str) -> &str {
    marker.trim_start_matches("-----END ").trim_end_matches('-').trim()
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};

    use super::*;

    #[test]
    fn whatever_a_file_is_cut_to_it_is_told_in_words() {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        let whole = certificate.self_signed(&key).unwrap().pem() + &key.serialize_pem();
        let mut told_of = std::collections::BTreeSet::new();
        let damaged = |at: usize| [&whole[..at], "?", &whole[at + 1..]].concat();
        for at in 0..whole.len() {
            for text in [whole[..at].to_owned(), damaged(at)] {
                let errors = [
                    CertificateDer::from_pem_slice(text.as_bytes()).err(),
                    PrivateKeyDer::from_pem_slice(text.as_bytes()).err(),
                ];
                for told in errors.into_iter().flatten().map(told) {
                    assert!(!told.contains('[') && !told.contains("Some("), "{told}");
                    told_of.insert(told);
                }
            }
        }
        let some = [
            "-----END CERTIFICATE----- is missing",
            "PRIVATE KEY----- is missing",
            "no Base64",
            "of that kind",
        ];
        for words in some {
            assert!(told_of.iter().any(|told| told.contains(words)), "{words}: {told_of:?}");
        }
    }
}
