//! Certificates for tests, as files: an authority, and what it signs.

use std::{fs::Permissions, os::unix::fs::PermissionsExt, path::PathBuf};

use gnomon_server::TlsFiles;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, SignatureAlgorithm,
};
use rustls::pki_types::CertificateDer;

/// An authority with a directory of its own, in which `NAME.crt` and `NAME.key` are what it has made.
pub struct Authority {
    dir: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub fn new() -> Authority {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority =
            Authority { dir: tempfile::tempdir().unwrap(), issuer: Issuer::new(params.clone(), key) };
        authority.write("ca.crt", &params.self_signed(authority.issuer.key()).unwrap().pem(), 0o644);
        authority
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    #[allow(clippy::disallowed_methods, reason = "a certificate holds no bytes of the database")]
    pub fn write(&self, name: &str, content: &str, mode: u32) {
        std::fs::write(self.path(name), content).unwrap();
        std::fs::set_permissions(self.path(name), Permissions::from_mode(mode)).unwrap();
    }

    /// Makes `NAME.crt`, with the common name and the alternative names, and `NAME.key`.
    pub fn sign(&self, name: &str, common: &str, names: &[&str]) -> CertificateDer<'static> {
        let names: Vec<String> = names.iter().copied().map(str::to_owned).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, common);
        let key = KeyPair::generate().unwrap();
        let made = params.signed_by(&key, &self.issuer).unwrap();
        self.write(&format!("{name}.crt"), &made.pem(), 0o644);
        self.write(&format!("{name}.key"), &key.serialize_pem(), 0o600);
        made.der().clone()
    }

    /// Makes a certificate of localhost that signs itself and may sign others, as openssl makes it by default.
    pub fn self_signed(&self, name: &str, algorithm: &'static SignatureAlgorithm) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate_for(algorithm).unwrap();
        let made = params.self_signed(&key).unwrap();
        self.write(&format!("{name}.crt"), &made.pem(), 0o644);
        self.write(&format!("{name}.key"), &key.serialize_pem(), 0o600);
        made.der().clone()
    }

    pub fn tls(&self, name: &str) -> TlsFiles {
        TlsFiles::new(self.path(&format!("{name}.crt")), self.path(&format!("{name}.key")))
    }
}
