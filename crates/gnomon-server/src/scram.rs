//! SCRAM-SHA-256 (RFC 5802, RFC 7677) from the server's side, with stored verifiers in PostgreSQL's form.
//!
//! A verifier is `SCRAM-SHA-256$ITERATIONS:SALT$STOREDKEY:SERVERKEY`: a reader of it can neither learn the password
//! nor log in with it. An unknown user gets a salt too, always the same one, and fails at the last step as after a
//! wrong password, so that names cannot be tried out. Secrets are compared in constant time.
//!
//! SCRAM-SHA-256-PLUS binds the exchange to the server's certificate by `tls-server-end-point` (RFC 5929), so that no
//! program between client and server can pass it on. Passwords pass through SASLprep as in PostgreSQL: one that
//! it refuses is taken as it is.

use std::{collections::HashMap, num::NonZeroU32, path::Path};

use base64::{Engine, prelude::BASE64_STANDARD};
use gnomon_tls::secret::equal;
use ring::{
    digest, hmac, pbkdf2,
    rand::{SecureRandom, SystemRandom},
};

/// The mechanism's name.
pub const MECHANISM: &str = "SCRAM-SHA-256";
/// Its name with channel binding.
pub const MECHANISM_PLUS: &str = "SCRAM-SHA-256-PLUS";
/// The name of the channel binding.
const END_POINT: &str = "tls-server-end-point";
/// PostgreSQL's own number of iterations.
const ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).expect("4096 is not zero");
const SALT_BYTES: usize = 16;
const NONCE_BYTES: usize = 18;
const KEY_BYTES: usize = digest::SHA256_OUTPUT_LEN;

type Key = [u8; KEY_BYTES];

/// The verifier of a password, which the server keeps in its place.
#[derive(Clone)]
pub struct Verifier {
    iterations: NonZeroU32,
    salt: Vec<u8>,
    stored_key: Key,
    server_key: Key,
}

/// The operating system gave no random bytes; nothing can be authenticated.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the operating system gave no random bytes")]
pub struct NoRandomness;

/// `N` random bytes from the operating system.
pub fn random<const N: usize>() -> Result<[u8; N], NoRandomness> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(bytes)
}

fn hmac(key: &[u8], data: &[u8]) -> Key {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), data);
    let mut out = Key::default();
    out.copy_from_slice(tag.as_ref());
    out
}

fn sha256(data: &[u8]) -> Key {
    let mut out = Key::default();
    out.copy_from_slice(digest::digest(&digest::SHA256, data).as_ref());
    out
}

impl Verifier {
    /// Makes the verifier of a password, with a random salt.
    pub fn new(password: &str) -> Result<Verifier, NoRandomness> {
        Ok(Verifier::derive(password, random::<SALT_BYTES>()?.to_vec(), ITERATIONS))
    }

    fn derive(password: &str, salt: Vec<u8>, iterations: NonZeroU32) -> Verifier {
        let password = stringprep::saslprep(password).unwrap_or(password.into());
        let mut salted = Key::default();
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, &salt, password.as_bytes(), &mut salted);
        Verifier {
            iterations,
            salt,
            stored_key: sha256(&hmac(&salted, b"Client Key")),
            server_key: hmac(&salted, b"Server Key"),
        }
    }

    /// Reads PostgreSQL's form.
    pub fn parse(text: &str) -> Option<Verifier> {
        let mut parts = text.strip_prefix(MECHANISM)?.strip_prefix('$')?.split('$');
        let (iterations, salt) = parts.next()?.split_once(':')?;
        let (stored_key, server_key) = parts.next()?.split_once(':')?;
        if parts.next().is_some() {
            return None;
        }
        let bytes = |text| BASE64_STANDARD.decode(text).ok();
        Some(Verifier {
            iterations: iterations.parse().ok()?,
            salt: bytes(salt).filter(|salt| !salt.is_empty())?,
            stored_key: bytes(stored_key)?.try_into().ok()?,
            server_key: bytes(server_key)?.try_into().ok()?,
        })
    }
}

impl std::fmt::Display for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |bytes: &[u8]| BASE64_STANDARD.encode(bytes);
        write!(
            f,
            "{MECHANISM}${}:{}${}:{}",
            self.iterations,
            text(&self.salt),
            text(&self.stored_key),
            text(&self.server_key)
        )
    }
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Verifier(..)")
    }
}

/// Users and their verifiers.
#[derive(Clone, Debug, Default)]
pub struct Users {
    verifiers: HashMap<String, Verifier>,
    /// The secret of the salts of names that are not users: it must not change while the users do not. It is computed
    /// from the users' keys; where there are none, there is no user to be told from.
    secret: Key,
}

impl Users {
    /// One user with a password, of which only a verifier is kept.
    pub fn single(user: &str, password: &str) -> Result<Users, NoRandomness> {
        Ok(Users::new(HashMap::from([(user.to_owned(), Verifier::new(password)?)])))
    }

    /// Reads a users file.
    ///
    /// # Errors
    /// The file cannot be read or is read by others too, or what [`Users::parse`] says of it.
    pub fn from_file(path: &Path) -> Result<Users, String> {
        let text = gnomon_tls::secret::read_text("users file", path)?;
        Users::parse(&text).map_err(|error| format!("users file {}: {error}", path.display()))
    }

    /// Reads lines of the form `USER:VERIFIER`. Empty lines and lines that begin with `#` are skipped.
    ///
    /// # Errors
    /// The first line that is neither; a user with two lines.
    pub fn parse(text: &str) -> Result<Users, String> {
        let mut users = HashMap::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let entry = line.find(":SCRAM-SHA-256$").and_then(|at| {
                let (user, verifier) = line.split_at(at);
                Some((user, Verifier::parse(&verifier[1..])?))
            });
            match entry {
                Some((user, verifier)) if !user.is_empty() => {
                    if users.insert(user.to_owned(), verifier).is_some() {
                        return Err(format!(
                            "line {}: user {user} stands here for the second time",
                            index + 1
                        ));
                    }
                }
                _ => {
                    return Err(format!(
                        "line {} is not of the form USER:SCRAM-SHA-256$ITERATIONS:SALT$STOREDKEY:SERVERKEY",
                        index + 1
                    ));
                }
            }
        }
        Ok(Users::new(users))
    }

    fn new(verifiers: HashMap<String, Verifier>) -> Users {
        let mut keys: Vec<Key> = verifiers.values().map(|verifier| verifier.server_key).collect();
        keys.sort_unstable();
        Users { verifiers, secret: sha256(keys.as_flattened()) }
    }

    /// Returns the verifier of `user` and true, or one that no password fits and false. Both take the same work, so that
    /// the time of an answer does not tell which users there are.
    fn verifier(&self, user: &str) -> Result<(Verifier, bool), NoRandomness> {
        let salt = hmac(&self.secret, user.as_bytes());
        let unfit = Verifier {
            iterations: ITERATIONS,
            salt: salt[..SALT_BYTES].to_vec(),
            stored_key: random()?,
            server_key: random()?,
        };
        Ok(match self.verifiers.get(user) {
            Some(verifier) => (verifier.clone(), true),
            None => (unfit, false),
        })
    }
}

/// The reason why an exchange failed.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// A message is not what the protocol wants; what is wrong with it.
    Malformed(&'static str),
    /// The client binds the channel in a way of this name, which the server does not know.
    UnknownBinding(String),
    /// The client's first message begins with this character, which tells nothing of channels.
    UnknownFlag(char),
    /// The client wants to act as another user than the one that it authenticates as.
    Identity,
    /// The last message binds something else than the first one announced.
    UnexpectedBinding,
    /// The client could bind the channel and was made to believe that the server cannot.
    Downgraded,
    /// The client has bound another channel: it saw another certificate.
    WrongBinding,
    /// Wrong password, or no such user.
    Refused {
        /// True if there is such a user.
        is_known: bool,
    },
    /// No random bytes.
    NoRandomness,
}

impl From<NoRandomness> for Failure {
    fn from(_: NoRandomness) -> Failure {
        Failure::NoRandomness
    }
}

/// The channel of an exchange.
#[derive(Clone, Copy)]
pub struct Channel<'a> {
    /// The channel binding that the server offers, if it does.
    pub end_point: Option<&'a [u8]>,
    /// True if the client chose the mechanism with channel binding.
    pub is_bound: bool,
}

impl Channel<'_> {
    /// Takes the header of the client's first message; returns the message without it, and what the last one must bind.
    ///
    /// The header tells whether the client binds the channel (`n`: it cannot, `y`: it could but was not offered it, `p=`
    /// the way), then an identity to act as, which no client may.
    fn bind(self, first: &str) -> Result<(&str, Vec<u8>), Failure> {
        let flag = first.chars().next().ok_or(Failure::Malformed("the client's first message is empty"))?;
        let (name, rest) = match flag {
            'n' | 'y' => ("", &first[1..]),
            'p' => {
                let named = first.strip_prefix("p=").and_then(|named| named.split_once(','));
                let (name, _) = named.ok_or(Failure::Malformed("the channel binding has no name"))?;
                (name, &first["p=".len() + name.len()..])
            }
            flag => return Err(Failure::UnknownFlag(flag)),
        };
        let mut binding = Vec::new();
        match (flag, self.is_bound, self.end_point) {
            ('p', true, Some(_)) if name != END_POINT => {
                return Err(Failure::UnknownBinding(name.chars().filter(|c| !c.is_control()).collect()));
            }
            ('p', true, Some(end_point)) => binding.extend_from_slice(end_point),
            ('p', ..) => {
                return Err(Failure::Malformed(
                    "The client selected SCRAM-SHA-256 without channel binding, but the SCRAM message includes channel \
                     binding data.",
                ));
            }
            (_, true, _) => {
                return Err(Failure::Malformed(
                    "The client selected SCRAM-SHA-256-PLUS, but the SCRAM message does not include channel binding \
                     data.",
                ));
            }
            ('y', _, Some(_)) => return Err(Failure::Downgraded),
            _ => {}
        }
        if rest.starts_with(",a") {
            return Err(Failure::Identity);
        }
        let bare = rest.strip_prefix(",,").ok_or(Failure::Malformed("the header has no end"))?;
        let header = &first.as_bytes()[..first.len() - bare.len()];
        Ok((bare, [header, &binding].concat()))
    }
}

/// An exchange after the client's first message.
pub struct Exchange {
    verifier: Verifier,
    known: bool,
    /// The client's first message without its header, a comma, and the server's first message.
    transcript: String,
    /// The binding that the client must send back: its header, and the channel's binding if it binds it.
    binding: Vec<u8>,
    is_bound: bool,
    nonce: String,
}

impl Exchange {
    /// Takes the client's first message; returns the exchange and the server's first message.
    pub fn begin(
        users: &Users,
        user: &str,
        first: &[u8],
        channel: Channel<'_>,
    ) -> Result<(Exchange, String), Failure> {
        let nonce = BASE64_STANDARD.encode(random::<NONCE_BYTES>()?);
        Exchange::begin_with(users.verifier(user)?, first, channel, &nonce)
    }

    fn begin_with(
        (verifier, known): (Verifier, bool),
        first: &[u8],
        channel: Channel<'_>,
        server_nonce: &str,
    ) -> Result<(Exchange, String), Failure> {
        let first = std::str::from_utf8(first).map_err(|_| Failure::Malformed("a message is not UTF-8"))?;
        let (bare, binding) = channel.bind(first)?;
        // The name in it is ignored, as PostgreSQL does: the user is the one of the startup message.
        let mut attributes = bare.split(',');
        if !attributes.next().is_some_and(|user| user.starts_with("n=")) {
            return Err(Failure::Malformed("the client's first message has no user"));
        }
        let client_nonce = attributes
            .next()
            .and_then(|attribute| attribute.strip_prefix("r="))
            .filter(|nonce| !nonce.is_empty() && nonce.bytes().all(|byte| byte.is_ascii_graphic()))
            .ok_or(Failure::Malformed("the client's first message has no nonce"))?;
        let nonce = format!("{client_nonce}{server_nonce}");
        let reply =
            format!("r={nonce},s={},i={}", BASE64_STANDARD.encode(&verifier.salt), verifier.iterations);
        let transcript = format!("{bare},{reply}");
        let is_bound = channel.is_bound;
        Ok((Exchange { verifier, known, transcript, binding, is_bound, nonce }, reply))
    }

    /// Takes the client's last message; returns the server's last one, which proves that it knows the verifier.
    pub fn finish(&self, last: &[u8]) -> Result<String, Failure> {
        let last = std::str::from_utf8(last).map_err(|_| Failure::Malformed("a message is not UTF-8"))?;
        let (unproved, proof) =
            last.rsplit_once(",p=").ok_or(Failure::Malformed("the client's last message has no proof"))?;
        let mut attributes = unproved.split(',');
        let binding = attributes.next().and_then(|attribute| attribute.strip_prefix("c="));
        let binding = binding.and_then(|binding| BASE64_STANDARD.decode(binding).ok());
        if binding.as_ref() != Some(&self.binding) {
            return Err(if self.is_bound { Failure::WrongBinding } else { Failure::UnexpectedBinding });
        }
        if attributes.next().and_then(|attribute| attribute.strip_prefix("r=")) != Some(&self.nonce) {
            return Err(Failure::Malformed("the nonce does not match"));
        }
        let proof: Key = BASE64_STANDARD
            .decode(proof)
            .ok()
            .and_then(|proof| proof.try_into().ok())
            .ok_or(Failure::Malformed("the proof is not 32 bytes in base64"))?;

        let transcript = format!("{},{unproved}", self.transcript);
        let signature = hmac(&self.verifier.stored_key, transcript.as_bytes());
        let mut client_key = proof;
        for (byte, mask) in client_key.iter_mut().zip(signature) {
            *byte ^= mask;
        }
        let proved = equal(&sha256(&client_key), &self.verifier.stored_key);
        if !proved || !self.known {
            return Err(Failure::Refused { is_known: self.known });
        }
        Ok(format!("v={}", BASE64_STANDARD.encode(hmac(&self.verifier.server_key, transcript.as_bytes()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND_HEADER: &str = "p=tls-server-end-point,,";
    const PLAIN: Channel<'_> = Channel { end_point: None, is_bound: false };

    /// The example of RFC 7677, section 3.
    #[test]
    fn an_exchange_of_the_standard() {
        let salt = BASE64_STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = Verifier::derive("pencil", salt, ITERATIONS);
        let (exchange, reply) = Exchange::begin_with(
            (verifier, true),
            b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
            PLAIN,
            "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        )
        .unwrap();
        assert_eq!(
            reply,
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        );
        let last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                    p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(
            exchange.finish(last.as_bytes()).unwrap(),
            "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
        );
    }

    #[test]
    fn verifiers_survive_their_text() {
        let verifier = Verifier::new("geheim").unwrap();
        let text = verifier.to_string();
        assert!(text.starts_with("SCRAM-SHA-256$4096:"));
        assert!(!text.contains("geheim"));
        assert_eq!(Verifier::parse(&text).unwrap().to_string(), text);
        for bad in [
            "",
            "md5abc",
            "SCRAM-SHA-256$",
            "SCRAM-SHA-256$0:AAAA$AAAA:AAAA",
            "SCRAM-SHA-256$4096:AAAA$AAAA:AAAA",
            &text[..text.len() - 1],
            &format!("{text}$"),
        ] {
            assert!(Verifier::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_users_file() {
        let verifier = Verifier::new("x").unwrap();
        let users = Users::parse(&format!("# people\n\n ann:{verifier}\nbob:x:{verifier}\n")).unwrap();
        assert!(users.verifiers.contains_key("ann") && users.verifiers.contains_key("bob:x"));
        assert!(Users::parse("ann:secret").unwrap_err().contains("line 1"));
        assert!(Users::parse(&format!("a:{verifier}\na:{verifier}")).unwrap_err().contains("line 2"));
    }

    #[test]
    fn an_unknown_user_keeps_a_salt_and_is_refused() {
        let users = Users::single("ann", "secret").unwrap();
        let begin = || Exchange::begin(&users, "eve", b"n,,n=,r=abc", PLAIN).unwrap();
        let salt = |reply: &str| reply.split(',').nth(1).unwrap().to_owned();
        let ((exchange, first), (_, second)) = (begin(), begin());
        assert_eq!(salt(&first), salt(&second));
        let last = format!("c=biws,r={},p={}", exchange.nonce, BASE64_STANDARD.encode([0; 32]));
        assert_eq!(exchange.finish(last.as_bytes()).unwrap_err(), Failure::Refused { is_known: false });
    }

    #[test]
    fn malformed_messages_are_told_apart() {
        let users = Users::single("ann", "secret").unwrap();
        for bad in [
            &b""[..],
            b"n,,",
            b"p=tls-unique,,n=,r=a",
            b"p=tls",
            b"n,b,n=,r=a",
            b"n,,n=,r=",
            b"\xff",
            b"n,,r=a,n=",
        ] {
            let begun = Exchange::begin(&users, "ann", bad, PLAIN);
            assert!(matches!(begun, Err(Failure::Malformed(_))), "{bad:?}");
        }
        for bad in ["", "c=biws", "c=biws,r=wrong,p=AAAA", "c=biws,r=NONCE,p=AAAA"] {
            let (exchange, _) = Exchange::begin(&users, "ann", b"n,,n=,r=a", PLAIN).unwrap();
            let bad = bad.replace("NONCE", &exchange.nonce);
            assert!(matches!(exchange.finish(bad.as_bytes()), Err(Failure::Malformed(_))), "{bad}");
        }
    }

    /// Carries an exchange out as a client that knows the password.
    fn log_in(first: &str, channel: Channel<'_>, sent: &[u8]) -> Result<(), Failure> {
        let verifier = Verifier::derive("secret", vec![1; SALT_BYTES], ITERATIONS);
        let (exchange, reply) = Exchange::begin_with((verifier, true), first.as_bytes(), channel, "server")?;
        let bare = &first[first.find(",,").unwrap() + 2..];
        let unproved = format!("c={},r={}", BASE64_STANDARD.encode(sent), exchange.nonce);
        let mut salted = Key::default();
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ITERATIONS, &[1; SALT_BYTES], b"secret", &mut salted);
        let client_key = hmac(&salted, b"Client Key");
        let signature = hmac(&sha256(&client_key), format!("{bare},{reply},{unproved}").as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(signature).map(|(key, mask)| key ^ mask).collect();
        exchange.finish(format!("{unproved},p={}", BASE64_STANDARD.encode(proof)).as_bytes()).map(|_| ())
    }

    #[test]
    fn the_channel_is_bound_or_not_as_both_sides_can() {
        const FIRST: &str = "n=,r=abc";
        let bound = [BOUND_HEADER.as_bytes(), b"hash"].concat();
        let relayed = [BOUND_HEADER.as_bytes(), b"hush"].concat();
        let offered = |is_bound| Channel { end_point: Some(b"hash"), is_bound };
        let malformed = |result: &Result<(), Failure>| matches!(result, Err(Failure::Malformed(_)));
        for (header, channel, sent, expected) in [
            ("n,,", PLAIN, &b"n,,"[..], Some(Ok(()))),
            ("y,,", PLAIN, b"y,,", Some(Ok(()))),
            ("n,,", PLAIN, b"y,,", Some(Err(Failure::UnexpectedBinding))),
            ("q,,", PLAIN, b"q,,", Some(Err(Failure::UnknownFlag('q')))),
            ("n,a=eve,,", PLAIN, b"n,a=eve,,", Some(Err(Failure::Identity))),
            ("n,,", offered(false), b"n,,", Some(Ok(()))),
            ("y,,", offered(false), b"y,,", Some(Err(Failure::Downgraded))),
            (BOUND_HEADER, offered(true), &bound, Some(Ok(()))),
            (BOUND_HEADER, offered(true), &relayed, Some(Err(Failure::WrongBinding))),
            (BOUND_HEADER, offered(true), BOUND_HEADER.as_bytes(), Some(Err(Failure::WrongBinding))),
            (BOUND_HEADER, offered(true), b"n,,", Some(Err(Failure::WrongBinding))),
            ("p=tls-unique,,", offered(true), b"", Some(Err(Failure::UnknownBinding("tls-unique".into())))),
            ("n,,", offered(true), b"n,,", None),
            ("y,,", offered(true), b"y,,", None),
            (BOUND_HEADER, offered(false), &bound, None),
            (BOUND_HEADER, PLAIN, &bound, None),
            ("p=tls-server-end-point,a=eve,,", offered(true), &bound, Some(Err(Failure::Identity))),
        ] {
            let result = log_in(&format!("{header}{FIRST}"), channel, sent);
            match expected {
                Some(expected) => assert_eq!(result, expected, "{header}"),
                None => assert!(malformed(&result), "{header}: {result:?}"),
            }
        }
    }
}
