//! The start of a connection: encryption and the startup message.
//!
//! Until a client is authenticated it may send little (10,000 bytes a message), must be quick (the server closes
//! the socket at its deadline) and learns nothing about users or databases.

use std::borrow::Cow;

use gnomon_sql::{SqlError, SqlState, bool_word, types::text::cut_name};

use crate::{
    authentication::{authenticate, put_authentication, refuse_handshake},
    message::{Decoded, Reader, fatal, put, put_string, violation},
    server::Shared,
    wire::{End, Wire},
};

/// Protocol 3.0, the version that the server speaks.
const VERSION: i32 = 3 << 16;
const CANCEL_REQUEST: i32 = (1234 << 16) | 5678;
const SSL_REQUEST: i32 = (1234 << 16) | 5679;
const GSS_ENCRYPTION_REQUEST: i32 = (1234 << 16) | 5680;

/// The startup message of a client.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Startup {
    pub(crate) user: String,
    pub(crate) database: String,
    /// Settings for the session, in the order given.
    pub(crate) settings: Vec<(String, String)>,
    /// Names of protocol options, as PostgreSQL calls them; the server knows none.
    unknown: Vec<String>,
    minor_version: i32,
}

/// Brings a connection from its first byte to AuthenticationOk, which stands in the output. None for a cancel
/// request, which has been served.
pub(crate) fn start(shared: &Shared, wire: &mut Wire) -> Result<Option<Startup>, End> {
    let Some(startup) = read_startup(shared, wire)? else { return Ok(None) };
    if startup.minor_version > 0 || !startup.unknown.is_empty() {
        put(wire.output(), b'v', |out| {
            out.extend_from_slice(&VERSION.to_be_bytes());
            out.extend_from_slice(&u32::try_from(startup.unknown.len()).unwrap_or(0).to_be_bytes());
            for option in &startup.unknown {
                put_string(out, option);
            }
        });
    }
    authenticate(shared, wire, &startup)?;
    if shared.options.database.as_ref().is_some_and(|name| *name != startup.database) {
        return Err(End::Fatal(fatal(
            SqlState::INVALID_CATALOG_NAME,
            format!("database \"{}\" does not exist", startup.database),
        )));
    }
    put_authentication(wire, 0, b"");
    Ok(Some(startup))
}

fn read_startup(shared: &Shared, wire: &mut Wire) -> Result<Option<Startup>, End> {
    let (mut asked_tls, mut asked_gss) = (false, false);
    loop {
        let frame = wire.read_untyped()?;
        let mut reader = Reader::new(wire.body(&frame).map_err(End::Fatal)?);
        match reader.i32().map_err(End::by)? {
            SSL_REQUEST if !asked_tls && reader.is_empty() => {
                asked_tls = true;
                match &shared.options.tls {
                    // As in PostgreSQL, a Unix-domain socket is not encrypted.
                    Some(tls) if wire.is_tcp() => {
                        let connection = wire.connected_by()?;
                        if let Err(error) = wire.start_tls(tls.config.clone())? {
                            refuse_handshake(shared, connection, &error);
                            return Err(End::Gone);
                        }
                    }
                    _ => decline(wire, "SSL")?,
                }
            }
            GSS_ENCRYPTION_REQUEST if !asked_gss && reader.is_empty() => {
                asked_gss = true;
                decline(wire, "GSSAPI encryption")?;
            }
            CANCEL_REQUEST => {
                let id = reader.i32().map_err(End::by)?;
                shared.cancel(id, reader.rest());
                return Ok(None);
            }
            version if version >> 16 == VERSION >> 16 => {
                return parse(version & 0xffff, reader).map(Some).map_err(End::by);
            }
            version => {
                return Err(End::Fatal(fatal(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    format!(
                        "unsupported frontend protocol {}.{}: server supports 3.0 to 3.0",
                        version.cast_unsigned() >> 16,
                        version & 0xffff
                    ),
                )));
            }
        }
    }
}

/// Answers a request for encryption with no.
fn decline(wire: &mut Wire, what: &str) -> Result<(), End> {
    wire.output().push(b'N');
    wire.flush()?;
    wire.refuse_early_data(what)
}

/// Reads names and values up to the empty name that ends them. Of a name that is repeated, the last value holds; of two
/// values of one setting, that in `options` gives way.
fn parse(minor_version: i32, mut reader: Reader<'_>) -> Decoded<Startup> {
    let mut startup = Startup { minor_version, ..Startup::default() };
    let mut options = String::new();
    loop {
        let name = next_string(&mut reader)?;
        if name.is_empty() {
            break;
        }
        let value = next_string(&mut reader)?.into_owned();
        match &*name {
            "user" => startup.user = cut_name(&value).to_owned(),
            "database" => startup.database = cut_name(&value).to_owned(),
            "options" => options = value,
            "replication" => refuse_replication(&value)?,
            _ if name.starts_with("_pq_.") => startup.unknown.push(name.into_owned()),
            _ => startup.settings.push((name.into_owned(), value)),
        }
    }
    if !reader.is_empty() {
        return Err(without_terminator());
    }
    startup.settings.splice(0..0, parse_options(&options)?);
    if startup.user.is_empty() {
        return Err(SqlError::new(
            SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
            "no PostgreSQL user name specified in startup packet",
        ));
    }
    if startup.database.is_empty() {
        startup.database = startup.user.clone();
    }
    Ok(startup)
}

fn next_string<'a>(reader: &mut Reader<'a>) -> Decoded<Cow<'a, str>> {
    if reader.ends_with_nul() { reader.string() } else { Err(without_terminator()) }
}

fn without_terminator() -> SqlError {
    violation("invalid startup packet layout: expected terminator as last byte")
}

/// Refuses a connection that asks for the replication protocol.
fn refuse_replication(value: &str) -> Decoded<()> {
    match bool_word(value) {
        Some(false) => Ok(()),
        None if value != "database" => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("invalid value for parameter \"replication\": \"{value}\""),
        )
        .hint("Valid values are: \"false\", 0, \"true\", 1, \"database\".")),
        _ => Err(SqlError::unsupported("the replication protocol")),
    }
}

/// Reads the command line in `options`: `-c name=value`, `-cname=value` and `--name=value`, words separated by
/// white space, of which a backslash takes the meaning.
fn parse_options(options: &str) -> Decoded<Vec<(String, String)>> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = options.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => word.get_or_insert_default().extend(characters.next()),
            _ if character.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);

    let mut settings = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let (switch, setting) = match word.strip_prefix("--") {
            Some(setting) => ("--", Some(setting.to_owned())),
            None if word == "-c" => ("-c ", words.next()),
            None => ("-c ", word.strip_prefix("-c").map(str::to_owned)),
        };
        let setting = setting.ok_or_else(|| {
            let message = format!("invalid command-line argument for server process: {word}");
            SqlError::new(SqlState::SYNTAX_ERROR, message)
        })?;
        let (name, value) = setting.split_once('=').ok_or_else(|| {
            SqlError::new(SqlState::SYNTAX_ERROR, format!("{switch}{setting} requires a value"))
        })?;
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_pairs(pairs: &str) -> Decoded<Startup> {
        parse(0, Reader::new(pairs.as_bytes()))
    }

    #[test]
    fn a_startup_message() {
        let startup = parse_pairs(
            "user\0ann\0application_name\0psql\0options\0-c a=1 --b-c=2\\ 3 -cd=\0_pq_.x\0y\0replication\0off\0\0",
        )
        .unwrap();
        let settings = [("a", "1"), ("b_c", "2 3"), ("d", ""), ("application_name", "psql")];
        assert_eq!(
            startup,
            Startup {
                user: "ann".into(),
                database: "ann".into(),
                settings: settings.map(|(name, value)| (name.into(), value.into())).into(),
                unknown: vec!["_pq_.x".into()],
                minor_version: 0,
            }
        );
    }

    #[test]
    fn the_last_value_of_a_name_holds() {
        let startup = parse_pairs(
            "user\0eve\0user\0ann\0a\x001\0options\0-c b=2\0options\0-c a=2 -c c=3\0replication\0NO\0\0",
        )
        .unwrap();
        assert_eq!(startup.user, "ann");
        let settings = [("a", "2"), ("c", "3"), ("a", "1")];
        assert_eq!(startup.settings, settings.map(|(name, value)| (name.into(), value.into())));
    }

    #[test]
    fn long_names_are_cut() {
        let long = "ü".repeat(40);
        let startup = parse_pairs(&format!("user\0{long}\0\0")).unwrap();
        assert_eq!((startup.user.as_str(), &startup.database), (&*"ü".repeat(31), &startup.user));
    }

    #[test]
    fn startup_messages_that_are_refused() {
        for (pairs, state) in [
            ("", "08P01"),
            ("user\0ann", "08P01"),
            ("user\0ann\0", "08P01"),
            ("user\0ann\0\0more", "08P01"),
            ("database\0d\0\0", "28000"),
            ("user\0ann\0replication\0database\0\0", "0A000"),
            ("user\0ann\0replication\0perhaps\0\0", "22023"),
            ("user\0ann\0application_name\0", "08P01"),
            ("user\0ann\0options\0nonsense\0\0", "42601"),
            ("user\0ann\0options\0--work_mem\0\0", "42601"),
            ("user\0ann\0options\0-c\0\0", "42601"),
        ] {
            assert_eq!(parse_pairs(pairs).unwrap_err().state().0, state, "{pairs:?}");
        }
    }
}
