//! Access, against etcd processes with users and certificates.

use std::fs;

use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};

use super::*;
use crate::order::EtcdAccess;

/// Makes etcd do something with its users: a path and a request.
fn change_users(etcd: &Etcd, path: &str, request: &str) {
    let answer = etcd.local.post(0, path, request).unwrap();
    assert!(answer.contains("200 OK"), "{path} {request}: {answer}");
}

/// Makes root and a user, whose role may read and write the keys of a cluster, and asks for users from now on.
fn enable_users(etcd: &Etcd) {
    // It answers when it has joined itself.
    let log = etcd.log();
    log.newest().unwrap();
    // `/gnomon/` up to `/gnomon0`, and `gnomon-cluster-of-this-etcd`.
    let prefix = r#"{"name": "r", "perm": {"permType": "READWRITE", "key": "L2dub21vbi8=", "range_end": "L2dub21vbjA="}}"#;
    let owner =
        r#"{"name": "r", "perm": {"permType": "READWRITE", "key": "Z25vbW9uLWNsdXN0ZXItb2YtdGhpcy1ldGNk"}}"#;
    for (path, request) in [
        ("/v3/auth/user/add", r#"{"name": "root", "password": "of root"}"#),
        ("/v3/auth/role/add", r#"{"name": "root"}"#),
        ("/v3/auth/user/grant", r#"{"user": "root", "role": "root"}"#),
        ("/v3/auth/role/add", r#"{"name": "r"}"#),
        ("/v3/auth/role/grant", prefix),
        ("/v3/auth/role/grant", owner),
        ("/v3/auth/user/add", r#"{"name": "member", "password": "of member"}"#),
        ("/v3/auth/user/grant", r#"{"user": "member", "role": "r"}"#),
        ("/v3/auth/user/add", r#"{"name": "nobody", "password": "of nobody"}"#),
        ("/v3/auth/enable", "{}"),
    ] {
        change_users(etcd, path, request);
    }
}

fn by(user: &str, password: &str) -> EtcdAccess {
    EtcdAccess { user: Some((user.into(), password.into())), ..EtcdAccess::default() }
}

#[test]
fn a_user_goes_on_when_its_token_is_forgotten() {
    let Some(mut etcd) = Etcd::start(1, &["--bcrypt-cost=4"]) else { return };
    enable_users(&etcd);
    let all = EtcdOptions { ttl: Duration::from_secs(20), ..etcd.options(0) };
    let options = |access| EtcdOptions { access, ..all.clone() };
    for (access, what) in [
        (EtcdAccess::default(), "--etcd-user"),
        (by("member", "wrong"), "--etcd-password-file"),
        (by("else", "of else"), "--etcd-password-file"),
        (by("nobody", "of nobody"), "grant its role readwrite"),
    ] {
        let error = EtcdLog::open(&options(access)).unwrap_err();
        assert!(matches!(&error, LogError::Foreign(why) if why.contains(what)), "{what}: {error}");
    }
    let log = EtcdLog::open(&options(by("member", "of member"))).unwrap();
    let reader = EtcdLog::open(&options(by("root", "of root"))).unwrap();
    let member = log.join("one", "here").unwrap();
    let add = |log: &EtcdLog, sequence| log.append(member, &batch(sequence, &[entry(1, sequence)])).unwrap();
    let first = add(&log, 1);
    assert_eq!(all_after(&reader, 0).len(), 1);
    assert_eq!(all_after(&log, 0).len(), 1);
    // A node that starts anew knows no token, and ends watches.
    for sequence in 2..4 {
        etcd.kill(0);
        etcd.start_node(0);
        eventually_open(&etcd);
        add(&log, sequence);
        assert_eq!(all_after(&log, 0).len() as u64, sequence);
        assert_eq!(all_after(&reader, 0).len() as u64, sequence);
    }
    log.keep_after(member, first).unwrap();
    log.trim(first).unwrap();
    assert_eq!(log.is_full(), Ok(false));
    reader.make_room().unwrap();
    let refused = log.make_room().unwrap_err().to_string();
    assert!(refused.contains("permission denied"), "it takes the role root: {refused}");
    // Each change of users ends all tokens.
    let mut token = String::new();
    eventually("root gets a token", || {
        let request = r#"{"name": "root", "password": "of root"}"#;
        let answer = etcd.local.post(0, "/v3/auth/authenticate", request).unwrap();
        token =
            answer.split(r#""token":""#).nth(1).and_then(|rest| rest.split('"').next()).unwrap_or("").into();
        !token.is_empty()
    });
    let answer = etcd.local.post_with(0, "/v3/auth/role/add", r#"{"name": "another"}"#, &token).unwrap();
    assert!(answer.contains("200 OK"), "{answer}");
    add(&log, 4);
    assert_eq!(all_after(&log, first).len(), 3);
    // Without users every client is let in, with the name of one too.
    let answer = etcd.local.post_with(0, "/v3/auth/disable", "{}", &token).unwrap();
    assert!(answer.contains("200 OK"), "{answer}");
    add(&log, 5);
    let other = EtcdLog::open(&options(by("member", "of member"))).unwrap();
    assert_eq!(all_after(&other, first).len(), 4);
    log.gone(member).unwrap();
}

/// Waits until etcd answers.
fn eventually_open(etcd: &Etcd) {
    eventually("etcd answers", || etcd.local.post(0, "/v3/auth/authenticate", "{}").is_ok());
}

/// Certificates in a directory, as `NAME.crt` and `NAME.key`: of an authority, etcd, a member, and one that another
/// authority has signed.
struct Certificates(TempDir);

impl Certificates {
    fn make() -> Certificates {
        let made = Certificates(tempfile::tempdir().unwrap());
        let authority = made.authority("ca");
        made.sign("etcd", "etcd", &authority);
        made.sign("member", "member", &authority);
        let other = made.authority("other");
        made.sign("stranger", "member", &other);
        made
    }

    fn authority(&self, name: &str) -> Issuer<'static, KeyPair> {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        self.write(&format!("{name}.crt"), &params.self_signed(&key).unwrap().pem());
        Issuer::new(params, key)
    }

    fn sign(&self, name: &str, common: &str, authority: &Issuer<'static, KeyPair>) {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, common);
        let key = KeyPair::generate().unwrap();
        let made = params.signed_by(&key, authority).unwrap();
        self.write(&format!("{name}.crt"), &made.pem());
        self.write(&format!("{name}.key"), &key.serialize_pem());
    }

    #[allow(clippy::disallowed_methods, reason = "a certificate holds no bytes of the database")]
    fn write(&self, name: &str, content: &str) {
        fs::write(self.path(name), content).unwrap();
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    fn access(&self, authority: &str, identity: Option<&str>) -> EtcdAccess {
        EtcdAccess {
            authorities: Some(self.read(&format!("{authority}.crt"))),
            identity: identity
                .map(|name| (self.read(&format!("{name}.crt")), self.read(&format!("{name}.key")))),
            user: None,
        }
    }
}

#[test]
fn etcd_is_reached_by_tls() {
    let certificates = Certificates::make();
    let options = [
        format!("--cert-file={}", certificates.path("etcd.crt")),
        format!("--key-file={}", certificates.path("etcd.key")),
        "--client-cert-auth".to_owned(),
        format!("--trusted-ca-file={}", certificates.path("ca.crt")),
    ];
    let Some(mut etcd) = Etcd::start(1, &options.each_ref().map(String::as_str)) else { return };
    let right = certificates.access("ca", Some("member"));
    let log = EtcdLog::open(&EtcdOptions {
        access: right.clone(),
        ttl: Duration::from_secs(20),
        ..etcd.options(0)
    })
    .unwrap();
    for (access, what) in [
        (certificates.access("other", Some("member")), "is not one that --etcd-ca signs for"),
        // It says so, or ends the connection.
        (certificates.access("ca", None), "https://127.0.0.1"),
        (certificates.access("ca", Some("stranger")), "https://127.0.0.1"),
        (EtcdAccess::default(), "--etcd-ca"),
    ] {
        let options = EtcdOptions { access, timeout: Duration::from_millis(500), ..etcd.options(0) };
        let error = EtcdLog::open(&options).unwrap_err().to_string();
        assert!(error.contains(what), "{what}: {error}");
        println!("{error}");
    }
    let plain = etcd.options(0).endpoints.replace("https", "http");
    let error = EtcdLog::open(&EtcdOptions { access: right.clone(), endpoints: plain, ..etcd.options(0) });
    assert!(matches!(&error, Err(LogError::Foreign(why)) if why.contains("is not encrypted")), "{error:?}");
    conforms(|| EtcdLog::open(&EtcdOptions { access: right.clone(), ..etcd.options(0) }).unwrap());
    let member = log.join("one", "here").unwrap();
    let newest = log.append(member, &batch(1, &[entry(1, 1)])).unwrap();
    etcd.kill(0);
    etcd.start_node(0);
    assert_eq!(all_after(&log, newest - 1).len(), 1);
    log.gone(member).unwrap();
}
