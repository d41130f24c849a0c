//! Certificates and keys as files, and what is read from a certificate: its subject and its channel binding.

use std::path::Path;

use ring::digest;
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use x509_parser::{
    objects::{oid_registry, oid2abbrev},
    prelude::{FromDer, X509Name},
    signature_algorithm::RsaSsaPssParams,
};

use crate::{secret, unusable};

/// Reads the certificates of a PEM file, of which there is at least one.
///
/// # Errors
/// The file cannot be read or is no PEM file with certificates; the text names it.
pub fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unusable(path, error))?;
    match chain.is_empty() {
        true => Err(unusable(path, "no certificate in this file")),
        false => Ok(chain),
    }
}

/// Reads the private key of a PEM file.
///
/// # Errors
/// Others can read the file ([`secret`]), or it has no key that is not encrypted; the text names it.
pub fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let text = secret::read("private key file", path)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| unusable(path, error))
}

/// Returns the authorities whose certificates are `certificates`, which come from `path`.
///
/// # Errors
/// One is no certificate of version 3; the text names the file.
pub fn roots(path: &Path, certificates: &[CertificateDer<'static>]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate.clone()).map_err(|error| unusable(path, error))?;
    }
    Ok(roots)
}

/// Returns the channel binding `tls-server-end-point` (RFC 5929) of a server with this certificate: its hash, by the
/// function of its signature, or SHA-256 where that is MD5 or SHA-1. None where no such function is defined, as for
/// Ed25519, or where it is SHA-224, which the library does not have.
pub fn end_point(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let algorithm = &parsed.signature_algorithm;
    let function = match algorithm.algorithm.to_id_string().as_str() {
        // RSASSA-PSS names its hash in its parameters.
        "1.2.840.113549.1.1.10" => {
            let parameters = RsaSsaPssParams::try_from(algorithm.parameters.as_ref()?).ok()?;
            hash_function(&parameters.hash_algorithm_oid().to_id_string())?
        }
        signature => hash_of_signature(signature)?,
    };
    Some(digest::digest(function, certificate).as_ref().to_vec())
}

fn hash_function(id: &str) -> Option<&'static digest::Algorithm> {
    match id {
        // SHA-1 (PSS cannot have MD5); SHA-256.
        "1.3.14.3.2.26" | "2.16.840.1.101.3.4.2.1" => Some(&digest::SHA256),
        "2.16.840.1.101.3.4.2.2" => Some(&digest::SHA384),
        "2.16.840.1.101.3.4.2.3" => Some(&digest::SHA512),
        _ => None,
    }
}

fn hash_of_signature(id: &str) -> Option<&'static digest::Algorithm> {
    match id {
        // RSA with MD5, SHA-1, SHA-256; ECDSA with SHA-1, SHA-256; DSA with SHA-1, SHA-256.
        "1.2.840.113549.1.1.4"
        | "1.2.840.113549.1.1.5"
        | "1.2.840.113549.1.1.11"
        | "1.2.840.10045.4.1"
        | "1.2.840.10045.4.3.2"
        | "1.2.840.10040.4.3"
        | "2.16.840.1.101.3.4.3.2" => Some(&digest::SHA256),
        "1.2.840.113549.1.1.12" | "1.2.840.10045.4.3.3" => Some(&digest::SHA384),
        "1.2.840.113549.1.1.13" | "1.2.840.10045.4.3.4" => Some(&digest::SHA512),
        _ => None,
    }
}

/// Returns the common name (CN) of a certificate's subject, if it has exactly one and that is text without a NUL, which
/// could hide the rest of the name from others.
pub fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let mut names = parsed.subject().iter_common_name();
    let name = names.next()?.as_str().ok()?;
    (names.next().is_none() && !name.contains('\0')).then(|| name.to_owned())
}

/// Returns a certificate's subject, serial number and issuer: names as in `/C=SE/CN=ann`, the number in decimal digits.
pub fn names(certificate: &CertificateDer<'_>) -> Option<[String; 3]> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let serial = parsed.serial.to_string();
    Some([one_line(parsed.subject()), serial, one_line(parsed.issuer())])
}

/// A name of parts, each with its abbreviation, or its number where that is not known.
fn one_line(name: &X509Name<'_>) -> String {
    let mut line = String::new();
    for part in name.iter_attributes() {
        let kind = part.attr_type();
        let known = oid2abbrev(kind, oid_registry()).map_or_else(|_| kind.to_id_string(), str::to_owned);
        let value = part.as_str().unwrap_or_default();
        line.push_str(&format!("/{known}={value}"));
    }
    line
}

/// True if a certificate's period of validity contains this second since 1970.
#[cfg(feature = "client")]
pub(crate) fn is_valid_at(certificate: &CertificateDer<'_>, second: u64) -> bool {
    let now =
        i64::try_from(second).ok().and_then(|now| x509_parser::time::ASN1Time::from_timestamp(now).ok());
    let parsed = x509_parser::certificate::X509Certificate::from_der(certificate).ok();
    now.zip(parsed).is_some_and(|(now, (_, parsed))| parsed.validity().is_valid_at(now))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SignatureAlgorithm};

    use super::*;

    fn certificate(algorithm: &'static SignatureAlgorithm, names: &[&str]) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for name in names {
            params.distinguished_name.push(DnType::CommonName, *name);
        }
        let key = KeyPair::generate_for(algorithm).unwrap();
        params.self_signed(&key).unwrap().der().clone()
    }

    #[test]
    fn the_signature_chooses_the_hash_of_the_binding() {
        for (algorithm, function) in [
            (&rcgen::PKCS_ECDSA_P256_SHA256, Some(&digest::SHA256)),
            (&rcgen::PKCS_ECDSA_P384_SHA384, Some(&digest::SHA384)),
            (&rcgen::PKCS_ED25519, None),
        ] {
            let certificate = certificate(algorithm, &["x"]);
            let expected = function.map(|function| digest::digest(function, &certificate).as_ref().to_vec());
            assert_eq!(end_point(&certificate), expected, "{algorithm:?}");
        }
        for (id, bits) in
            [("1.2.840.113549.1.1.4", 256), ("1.2.840.113549.1.1.5", 256), ("1.2.840.113549.1.1.13", 512)]
        {
            assert_eq!(hash_of_signature(id).unwrap().output_len() * 8, bits, "{id}");
        }
        assert!(hash_of_signature("1.2.840.113549.1.1.14").is_none(), "SHA-224");
        assert!(end_point(&CertificateDer::from(vec![0; 40])).is_none());
    }

    #[test]
    fn a_common_name_is_one_name() {
        for (names, common) in [(&["ann"][..], Some("ann")), (&[], None), (&["a\0b"], None)] {
            assert_eq!(
                common_name(&certificate(&rcgen::PKCS_ED25519, names)).as_deref(),
                common,
                "{names:?}"
            );
        }
        assert!(common_name(&CertificateDer::from(vec![1, 2, 3])).is_none());
    }

    #[test]
    fn names_stand_on_one_line() {
        let made = certificate(&rcgen::PKCS_ED25519, &["ann"]);
        let [subject, serial, issuer] = names(&made).unwrap();
        assert_eq!((subject.as_str(), issuer.as_str()), ("/CN=ann", "/CN=ann"));
        assert!(!serial.is_empty() && serial.bytes().all(|byte| byte.is_ascii_digit()), "{serial}");
        assert!(names(&CertificateDer::from(vec![1, 2, 3])).is_none());
    }
}
