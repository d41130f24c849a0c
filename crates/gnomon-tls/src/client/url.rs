//! The settings of TLS in a URL, which the crate postgres does not know or knows in part.

use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use postgres::config::{Host, SslMode};

use super::UrlError;

/// `sslmode`, but `allow`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    Disable,
    #[default]
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// The settings of TLS in a URL.
#[derive(Debug, Default)]
pub(super) struct Settings {
    pub(super) mode: Mode,
    pub(super) root_certificates: Option<PathBuf>,
    pub(super) certificates: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
}

impl Settings {
    /// Returns what the crate postgres is told: Unix-domain sockets are not encrypted.
    pub(super) fn mode_for(&self, hosts: &[Host]) -> SslMode {
        let is_local = |host: &Host| matches!(host, Host::Unix(_));
        match self.mode {
            _ if !hosts.is_empty() && hosts.iter().all(is_local) => SslMode::Disable,
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        }
    }
}

/// Takes the settings of TLS out of a URL.
pub(super) fn split(url: &str) -> Result<(String, Settings), UrlError> {
    let Some(rest) = ["postgres://", "postgresql://"].iter().find_map(|scheme| url.strip_prefix(scheme))
    else {
        return Err(UrlError::Form(
            "it does not begin with postgres:// or postgresql://; a string of keywords (host=... sslmode=...) is not \
             taken",
        ));
    };
    // A password may have a question mark in it, and ends at the first @. One after a slash is not of the credentials
    // for libpq, and is for the crate postgres.
    let credentials = url.find('@').unwrap_or(0);
    if rest.find('/').is_some_and(|slash| rest[slash..].contains('@')) {
        return Err(UrlError::Form(
            "an @ stands after a /: write %40 for @ and %2F for / in names and passwords",
        ));
    }
    let user =
        rest.split_once('@').map(|(credentials, _)| credentials.split(':').next().unwrap_or(credentials));
    if user.is_some_and(|user| user.contains('?')) {
        // Rather a setting with an @ in it than a name, and shown as that.
        return Err(UrlError::Form(
            "a ? stands before an @: write %3F for ? in names, and %40 for @ in settings",
        ));
    }
    let Some(query) = url[credentials..].find('?').map(|at| credentials + at) else {
        return Ok((url.to_owned(), Settings::default()));
    };
    let mut settings = Settings::default();
    let mut rest = Vec::new();
    for parameter in url[query + 1..].split('&') {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let decoded = |text| percent_decode_str(text).decode_utf8();
        let name = decoded(name).map_err(|_| UrlError::Form("the name of a setting is not UTF-8"))?;
        let taken = decoded(value)
            .map_err(|_| format!("the value of {name} is not UTF-8"))
            .and_then(|value| take(&mut settings, &name, &value));
        if !taken.map_err(UrlError::Tls)? {
            rest.push(parameter);
        }
    }
    let separator = if rest.is_empty() { "" } else { "?" };
    Ok((format!("{}{separator}{}", &url[..query], rest.join("&")), settings))
}

/// Takes a setting if it is one of TLS.
fn take(settings: &mut Settings, name: &str, value: &str) -> Result<bool, String> {
    let path = |value: &str| (!value.is_empty()).then(|| PathBuf::from(value));
    match name {
        "sslmode" => settings.mode = mode(value)?,
        "sslrootcert" => settings.root_certificates = path(value),
        "sslcert" => settings.certificates = path(value),
        "sslkey" => settings.key = path(value),
        _ => return Ok(false),
    }
    Ok(true)
}

fn mode(value: &str) -> Result<Mode, String> {
    Ok(match value {
        "disable" => Mode::Disable,
        "prefer" => Mode::Prefer,
        "require" => Mode::Require,
        "verify-ca" => Mode::VerifyCa,
        "verify-full" => Mode::VerifyFull,
        _ => {
            return Err(format!(
                "sslmode is {value}: give disable, prefer, require, verify-ca or verify-full"
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_tls_are_taken_out() {
        for (url, rest, mode) in [
            ("postgres://h/d", "postgres://h/d", Mode::Prefer),
            ("postgres://h/d?sslmode=require", "postgres://h/d", Mode::Require),
            (
                "postgres://u:a?b@h/d?x=1&sslmode=verify-full&y=2",
                "postgres://u:a?b@h/d?x=1&y=2",
                Mode::VerifyFull,
            ),
            ("postgresql://h?ssl%6Dode=require", "postgresql://h", Mode::Require),
            ("postgres://h?sslmode=verify%2Dca&sslkey=", "postgres://h", Mode::VerifyCa),
        ] {
            let (left, settings) = split(url).unwrap();
            assert_eq!((left.as_str(), settings.mode), (rest, mode), "{url}");
        }
        let (_, settings) = split("postgres://h?sslrootcert=/a%20b/c.pem&sslcert=c&sslkey=k").unwrap();
        assert_eq!(settings.root_certificates, Some("/a b/c.pem".into()));
        assert_eq!((settings.certificates, settings.key), (Some("c".into()), Some("k".into())));
    }

    #[test]
    fn what_is_not_understood_is_told() {
        for url in ["postgres://h?sslmode=allow", "postgres://h?sslmode=", "postgres://h?sslrootcert=%ff"] {
            assert!(matches!(split(url), Err(UrlError::Tls(_))), "{url}");
        }
        for url in ["postgres://h?sslcrl=x", "postgres://h?sslpassword=x"] {
            assert!(matches!(super::super::Target::parse(url), Err(UrlError::Rest(_))), "{url}");
        }
    }

    #[test]
    fn what_is_no_url_is_refused_before_anything_of_it_is_used() {
        for text in [
            "host=h user=u sslmode=require",
            "host=h",
            "",
            "Postgres://h?sslmode=require",
            "postgres:h",
            "postgres://h/d?password=a@b&sslmode=require",
            "postgres://u:a/b@h?sslmode=require",
            "postgres://h?user=a@b",
            "postgres://h?ssl%ffmode=require",
        ] {
            assert!(matches!(split(text), Err(UrlError::Form(_))), "{text}");
        }
    }

    #[test]
    fn a_unix_socket_is_not_encrypted() {
        let settings = Settings { mode: Mode::VerifyFull, ..Settings::default() };
        let (unix, tcp) = (Host::Unix("/run".into()), Host::Tcp("h".into()));
        assert_eq!(settings.mode_for(std::slice::from_ref(&unix)), SslMode::Disable);
        assert_eq!(settings.mode_for(&[unix, tcp]), SslMode::Require);
    }
}
