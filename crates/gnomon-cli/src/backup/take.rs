//! `gnomon backup`.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use comfy_table::{Table, presets};
use gnomon_engine::{Backup as Taken, BackupId, Database, Error, Options, check_backup};
use gnomon_program::{Failure, Progress, say, tell};
use serde_json::json;

use super::{
    header_json, kind_text, remote,
    set::{BackupSet, Stored},
    size_text, time_text,
};
use crate::storage::options;

/// The nice value of the backup of a served database.
const BACKUP_NICE: i32 = 10;

/// Backs up a database, all of it or what has changed since another backup: one that is served, while its clients go
/// on, or one that no process has open.
///
/// Backups are kept as files in a directory, or written to standard output. A backup is complete, checked and durable
/// when the command succeeds; one that is cut short leaves nothing. A page that is damaged ends the backup, and is
/// named.
///
/// While a served database is backed up, space that is given up is not used again: its file grows by about what is
/// changed meanwhile. The command lowers its own priority (nice 10), so that the server's clients go first.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gnomon backup bank.gnomon --to backups
  gnomon backup bank.gnomon --to backups --incremental
  gnomon backup postgres://gnomon@127.0.0.1:5433/gnomon --to backups
  gnomon backup bank.gnomon --to - | ssh vault 'cat > bank.gnomon-backup'
  gnomon backup --list backups
  psql -h 127.0.0.1 -p 5433 -c 'BACKUP TO STDOUT' > bank.gnomon-backup")]
pub struct Backup {
    /// The database's directory, or the server's URL.
    ///
    /// A URL has the form postgres://USER@HOST:PORT/gnomon; a password that is not in it is taken from PGPASSWORD. With
    /// ?sslmode=verify-full&sslrootcert=FILE the connection is encrypted and the server known; sslmode, sslrootcert,
    /// sslcert and sslkey are as libpq has them. A directory must not be open elsewhere.
    #[arg(value_name = "SOURCE", required_unless_present = "list")]
    source: Option<String>,
    /// The directory of backups, or - for standard output.
    ///
    /// It is made if it is not there. Its files are numbered, and each tells what it holds.
    #[arg(long, value_name = "DIR", required_unless_present = "list")]
    to: Option<PathBuf>,
    /// Only what has changed since the newest backup in the directory.
    ///
    /// It is restored together with that one, and with all that one goes on from. A database that was restored has to
    /// begin with a full backup.
    #[arg(long, conflicts_with = "since")]
    incremental: bool,
    /// Only what has changed since this backup.
    ///
    /// For backups that are written to standard output. The name is printed when a backup is taken, and by --list.
    #[arg(long, value_name = "NAME")]
    since: Option<String>,
    /// Show the backups in a directory.
    ///
    /// Together with --check all of them are read.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["source", "to", "incremental", "since"])]
    list: Option<PathBuf>,
    /// With --list: read the backups, and check every page.
    ///
    /// Exits with 1 if one is damaged, or goes on from one that is not in the directory.
    #[arg(long, requires = "list")]
    check: bool,
    /// Print JSON: one object, or one for each backup of a list.
    ///
    /// It goes to standard output, each object on one line; to standard error if that has the backup.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Backup) -> Result<ExitCode, Failure> {
    if let Some(path) = &arguments.list {
        return list(path, arguments);
    }
    let (Some(source), Some(to)) = (&arguments.source, &arguments.to) else {
        return Err(Failure("name what to back up, and --to where".into()));
    };
    let since = arguments.since.as_deref().map(str::parse).transpose();
    let since: Option<BackupId> = since.map_err(|error: Error| Failure(error.to_string()))?;
    if to == Path::new("-") {
        if arguments.incremental {
            return Err(Failure(
                "--incremental looks for the newest backup in a directory: to standard output, name it by --since".into(),
            ));
        }
        let taken = take(source, since, &mut io::stdout().lock())?;
        tell!("{}", summary(&taken, "standard output", arguments.json));
        return Ok(ExitCode::SUCCESS);
    }
    let set = BackupSet::open_for_writing(to)?;
    let newest = set.backups.last().map(|stored| stored.header.id);
    if arguments.incremental && newest.is_none() {
        return Err(Failure(format!(
            "there is no backup in {0} yet to go on from: take a full one first, without --incremental",
            to.display()
        )));
    }
    if let (true, Some(why)) = (arguments.incremental, set.unreadable_newest()) {
        return Err(Failure(format!("{why}; or take a full backup")));
    }
    let since = if arguments.incremental { newest } else { since };
    let (taken, name) = set.add(since.is_some(), |out| take(source, since, out))?;
    say!("{}", summary(&taken, &set.path_of(&name), arguments.json));
    Ok(ExitCode::SUCCESS)
}

fn take(source: &str, since: Option<BackupId>, out: &mut dyn Write) -> Result<Taken, Failure> {
    let mut progress = Progress::on_stderr("backing up pages");
    let mut show = |done, total| progress.set(done, total);
    if remote::is_server(source) {
        // Where processors are scarce, the server and its clients go first. Without it nothing else is different.
        let _ = rustix::process::setpriority_process(None, BACKUP_NICE);
        return remote::backup(&mut remote::connect(remote::target(source)?, None)?, since, out, &mut show);
    }
    let directory = Path::new(source);
    let failed = |error: Error| match error {
        Error::InUse { .. } => Failure(format!(
            "{source} is in use by another process: back up a server by its URL, postgres://USER@HOST:PORT/gnomon"
        )),
        Error::BackupStream(_) | Error::BackupChain(_) | Error::BadOption(_) => Failure(error.to_string()),
        error => Failure::of_reading(directory, &error),
    };
    let options = Options { create: false, ..options() };
    // For writing, so that it is recovered if need be; what cannot be written has to be in order.
    let database = match Database::open(directory, options.clone()) {
        Err(error @ Error::Io(_)) => Database::open_read_only(directory, options).map_err(|_| error),
        opened => opened,
    };
    let database = database.map_err(failed)?;
    let taken = database.backup(since, out, &mut show).map_err(failed)?;
    out.flush().map_err(|error| Failure::new("cannot write the backup", error))?;
    Ok(taken)
}

fn summary(taken: &Taken, place: &str, as_json: bool) -> String {
    let header = &taken.header;
    if as_json {
        let mut object = header_json(header);
        object["path"] = place.into();
        object["pages"] = taken.pages.into();
        object["bytes"] = taken.bytes.into();
        return object.to_string();
    }
    format!(
        "{} backup {} in {place}: {} pages, {}, up to commit {}",
        kind_text(header),
        header.id,
        taken.pages,
        size_text(taken.bytes),
        header.csn
    )
}

fn list(path: &Path, arguments: &Backup) -> Result<ExitCode, Failure> {
    let set = BackupSet::open(path)?;
    let (mut damaged, mut incomplete) = (0, 0);
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["file", "name", "goes on from", "begun", "newest commit", "size", "state"]);
    for stored in &set.backups {
        let wrong = if arguments.check { check(&set, stored)? } else { None };
        damaged += usize::from(wrong.is_some());
        let gap = set.gap_before(stored);
        incomplete += usize::from(gap.is_some());
        if arguments.json {
            let mut object = header_json(&stored.header);
            object["path"] = set.path_of(&stored.name).into();
            object["bytes"] = stored.bytes.into();
            object["complete"] = gap.is_none().into();
            if arguments.check {
                object["sound"] = (wrong.is_none() && gap.is_none()).into();
                object["detail"] = json!(wrong.as_ref().or(gap.as_ref()));
            }
            say!("{object}");
        }
        let state = match (&wrong, &gap, arguments.check) {
            (Some(_), _, _) => "DAMAGED",
            (None, Some(_), _) => "INCOMPLETE",
            (None, None, true) => "sound",
            (None, None, false) => "not checked",
        };
        for wrong in wrong.iter().chain(&gap) {
            tell!("gnomon: {wrong}");
        }
        let header = &stored.header;
        table.add_row([
            stored.name.clone(),
            header.id.to_string(),
            header.since.map_or_else(String::new, |since| since.to_string()),
            time_text(header.begun),
            header.csn.to_string(),
            size_text(stored.bytes),
            state.into(),
        ]);
    }
    for other in &set.unreadable {
        damaged += 1;
        tell!("gnomon: {}", other.why);
        if arguments.json {
            say!("{}", json!({ "path": set.path_of(&other.name), "sound": false, "detail": other.why }));
        }
        let nothing = String::new;
        let row =
            [other.name.clone(), nothing(), nothing(), nothing(), nothing(), nothing(), "UNREADABLE".into()];
        table.add_row(row);
    }
    if !arguments.json {
        say!("{table}");
    }
    if !arguments.check || damaged + incomplete == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure(format!(
        "of {} backups in {}, {damaged} are damaged and {incomplete} go on from one that is missing: \
         take a full backup now",
        set.backups.len() + set.unreadable.len(),
        path.display()
    )))
}

/// Returns the damage of a backup, or none.
fn check(set: &BackupSet, stored: &Stored) -> Result<Option<String>, Failure> {
    let path = set.path_of(&stored.name);
    let mut progress = Progress::on_stderr(&format!("checking {path}"));
    match check_backup(set.reader(stored)?, &mut |done, total| progress.set(done, total)) {
        Ok(_) => Ok(None),
        Err(error @ Error::BackupDamaged { .. }) => Ok(Some(super::explain(&error, |_| path.clone()))),
        Err(error) => Err(Failure::new(path, error)),
    }
}
