//! Certificates and keys as files, and what is read from a certificate: its subject and its channel binding.

use std::path::Path;

use crate::{
    der::{self, Reader},
    secret, unusable,
};
use ring::digest;
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

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
    let mut algorithm = Fields::read(certificate)?.signature_algorithm;
    let function = match algorithm.object_identifier()?.as_str() {
        // RSASSA-PSS names its hash in its parameters (RFC 4055); it is SHA-1 if it is not named.
        "1.2.840.113549.1.1.10" => match algorithm.within(der::SEQUENCE)?.within(der::FIELD_0) {
            Some(mut named) => hash_function(&named.within(der::SEQUENCE)?.object_identifier()?)?,
            None => &digest::SHA256,
        },
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
    let mut subject = Fields::read(certificate)?.subject;
    let mut names = Vec::new();
    while !subject.is_empty() {
        let mut attributes = subject.within(der::SET)?;
        while !attributes.is_empty() {
            let mut attribute = attributes.within(der::SEQUENCE)?;
            let (kind, value) = (attribute.object_identifier()?, attribute.value()?);
            if kind == COMMON_NAME {
                names.push(value);
            }
        }
    }
    let &[(tag, name)] = names.as_slice() else { return None };
    let is_text =
        [der::UTF8_STRING, der::PRINTABLE_STRING, der::NUMERIC_STRING, der::IA5_STRING].contains(&tag);
    let name = std::str::from_utf8(name).ok()?;
    (is_text && !name.contains('\0')).then(|| name.to_owned())
}

/// True if a certificate's period of validity contains this second since 1970.
pub fn is_valid_at(certificate: &CertificateDer<'_>, second: u64) -> bool {
    let validity = Fields::read(certificate)
        .and_then(|mut fields| Some((fields.validity.time()?, fields.validity.time()?)));
    validity.zip(i64::try_from(second).ok()).is_some_and(|((first, last), now)| (first..=last).contains(&now))
}

/// The object identifier of the attribute CN.
const COMMON_NAME: &str = "2.5.4.3";

/// Fields of a certificate (RFC 5280, section 4.1), as far as they are read here.
struct Fields<'a> {
    signature_algorithm: Reader<'a>,
    validity: Reader<'a>,
    subject: Reader<'a>,
}

impl<'a> Fields<'a> {
    fn read(certificate: &'a [u8]) -> Option<Fields<'a>> {
        let mut certificate = Reader::new(certificate).within(der::SEQUENCE)?;
        let mut signed = certificate.within(der::SEQUENCE)?;
        let signature_algorithm = certificate.within(der::SEQUENCE)?;
        // A certificate of version 1 does not name its version. A serial number, the algorithm again, and the issuer
        // follow.
        signed.tagged(der::FIELD_0);
        signed.tagged(der::INTEGER)?;
        signed.tagged(der::SEQUENCE)?;
        signed.tagged(der::SEQUENCE)?;
        let (validity, subject) = (signed.within(der::SEQUENCE)?, signed.within(der::SEQUENCE)?);
        Some(Fields { signature_algorithm, validity, subject })
    }
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

    /// Another program's reading of the same bytes, if it can read them: the CN, and the first and the last second.
    fn oracle(certificate: &[u8]) -> Option<(Option<String>, i64, i64)> {
        let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
        let names: Vec<_> = parsed.subject().iter_common_name().collect();
        let name = match names.as_slice() {
            [name] => name.as_str().ok().filter(|name| !name.contains('\0')).map(str::to_owned),
            _ => None,
        };
        let validity = parsed.validity();
        Some((name, validity.not_before.timestamp(), validity.not_after.timestamp()))
    }

    #[test]
    fn fields_are_those_that_another_program_reads_also_of_damaged_certificates() {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "o".repeat(200));
        params.distinguished_name.push(DnType::CommonName, "J\u{f6}rg");
        // The first has two digits in the certificate, the other four.
        params.not_before = rcgen::date_time_ymd(1999, 12, 31);
        params.not_after = rcgen::date_time_ymd(2060, 2, 29);
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let whole = params.self_signed(&key).unwrap().der().to_vec();
        let fields = |bytes: &[u8]| {
            let mut validity = Fields::read(bytes)?.validity;
            Some((common_name(&CertificateDer::from(bytes)), validity.time()?, validity.time()?))
        };
        assert_eq!(fields(&whole).unwrap().0.as_deref(), Some("J\u{f6}rg"));
        assert_eq!(fields(&whole), oracle(&whole));
        let mut read_by_both = 0;
        for at in 0..whole.len() {
            assert_eq!(fields(&whole[..at]), None, "{at}");
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << bit;
                end_point(&CertificateDer::from(damaged.as_slice()));
                if let (Some(ours), Some(theirs)) = (fields(&damaged), oracle(&damaged)) {
                    // A text in parts is none in DER, but the other program reads it.
                    assert!(ours.0.is_none() || ours.0 == theirs.0, "bit {bit} of byte {at}: {ours:?}");
                    assert_eq!((ours.1, ours.2), (theirs.1, theirs.2), "bit {bit} of byte {at}");
                    read_by_both += 1;
                }
            }
        }
        assert!(read_by_both > 100, "{read_by_both}");
    }

    #[test]
    fn a_certificate_is_valid_from_its_first_to_its_last_second() {
        let certificate = certificate(&rcgen::PKCS_ED25519, &["x"]);
        let (_, first, last) = oracle(&certificate).unwrap();
        let valid = [first - 1, first, last, last + 1]
            .map(|second| is_valid_at(&certificate, u64::try_from(second).unwrap()));
        assert_eq!(valid, [false, true, true, false]);
        assert!(!is_valid_at(&CertificateDer::from(vec![0; 40]), 0));
    }
}
