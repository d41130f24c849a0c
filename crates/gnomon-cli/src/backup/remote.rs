//! Backups of a database that is served: BACKUP TO STDOUT over the PostgreSQL protocol. What arrives is checked before
//! it counts.

use std::{
    io::{self, Read, Write},
    path::Path,
    time::Duration,
};

use gnomon_engine::{Backup, BackupId, Error, check_backup};
use gnomon_program::Failure;
use gnomon_tls::client::{Target, UrlError};
use postgres::Client;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after the last bytes until a host is asked whether it is there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);

/// True if a source means a server rather than a directory, be it written as a URL or in a form that is not taken.
pub fn is_server(source: &str) -> bool {
    const KEYWORDS: [&str; 8] =
        ["host=", "hostaddr=", "port=", "user=", "password=", "dbname=", "service=", "sslmode="];
    let is_keyword = |word: &str| KEYWORDS.iter().any(|keyword| word.starts_with(keyword));
    source.contains("://") || !Path::new(source).exists() && source.split_whitespace().any(is_keyword)
}

/// Returns the message of an error of a server or its connection.
fn text_of(error: &postgres::Error) -> String {
    let Some(reported) = error.as_db_error() else {
        let cause = std::error::Error::source(error);
        return cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"));
    };
    match reported.hint() {
        Some(hint) => format!("{} ({hint})", reported.message()),
        None => reported.message().to_owned(),
    }
}

/// Reads the URL of a server.
pub fn target(url: &str) -> Result<Target, Failure> {
    const FORM: &str = "write postgres://USER@HOST:PORT/gnomon";
    Target::parse(url).map_err(|error| match error {
        UrlError::Form(message) => Failure(format!("the URL is not understood: {message}: {FORM}")),
        UrlError::Tls(message) => Failure(format!("the URL cannot be used: {message}")),
        UrlError::Rest(error) => Failure(format!("the URL is not understood ({}): {FORM}", text_of(&error))),
    })
}

/// Connects to a server; a password that its URL does not have is this one, or comes from PGPASSWORD.
pub fn connect(mut target: Target, password: Option<&str>) -> Result<Client, Failure> {
    let config = &mut target.config;
    if config.get_password().is_none()
        && let Some(password) = password.map(str::to_owned).or_else(|| std::env::var("PGPASSWORD").ok())
    {
        config.password(password);
    }
    if config.get_user().is_none() {
        config.user("gnomon");
    }
    config.application_name("gnomon backup");
    // Of a host that is not there; one that is there and does nothing cannot be told from one that is slow.
    config.connect_timeout(CONNECT_TIMEOUT).keepalives_idle(KEEPALIVE_IDLE);
    let is_without_password = config.get_password().is_none();
    target.connect().map_err(|error| {
        let why = text_of(&error);
        match is_without_password && why.contains("password") {
            true => {
                Failure(format!("cannot connect to the server: {why}: give it by PGPASSWORD, or in the URL"))
            }
            false => Failure::new("cannot connect to the server", why),
        }
    })
}

/// Makes the server write a backup to `out`.
pub fn backup(
    client: &mut Client,
    since: Option<BackupId>,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Backup, Failure> {
    let statement = match since {
        // A name has hexadecimal digits, a dash and digits.
        Some(since) => format!("BACKUP TO STDOUT SINCE '{since}'"),
        None => "BACKUP TO STDOUT".into(),
    };
    let input = client.copy_out(&statement).map_err(|error| Failure(text_of(&error)))?;
    check_backup(Tee { input, out }, progress).map_err(|error| match &error {
        Error::BackupStream(cause) => {
            let inner = cause.get_ref().and_then(|inner| inner.downcast_ref::<postgres::Error>());
            Failure(inner.map_or_else(|| error.to_string(), text_of))
        }
        error => Failure::new("what the server sends", super::explain(error, |_| "it".into())),
    })
}

/// Makes the server write a full backup, to be read.
pub fn stream(client: &mut Client) -> Result<impl Read, Failure> {
    client.copy_out("BACKUP TO STDOUT").map_err(|error| Failure(text_of(&error)))
}

/// Passes on what is read.
struct Tee<'a, R> {
    input: R,
    out: &'a mut dyn Write,
}

impl<R: Read> Read for Tee<'_, R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buf)?;
        self.out.write_all(&buf[..count])?;
        Ok(count)
    }
}
