//! `gnomon disk`: the disks of a database.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand};
use gnomon_engine::{Database, Options};
use gnomon_program::{Failure, Progress, say, tell};
use serde_json::json;

use crate::storage::options;

/// Shows the disks of a database, or adds one.
///
/// A database is kept in one directory, or spread over several on different disks; a mirrored one has two copies of
/// each page, on different disks. Any of its directories leads to the others: each names all, in the file `disks`.
#[derive(Args)]
pub struct Disk {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show the disks.
    List(List),
    /// Add a disk.
    Add(Add),
}

/// Shows the disks of a database: number, pages in use, pages of the file, directory.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gnomon disk list bank.gnomon
  gnomon disk list bank.gnomon --json")]
struct List {
    /// The database's directory; any of them.
    ///
    /// It is read, never written. No process that writes, such as a server, may have it open.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Print one JSON object.
    ///
    /// It goes to standard output on one line.
    #[arg(long)]
    json: bool,
}

/// Adds a disk to a database. Of a mirrored one, pages that lack a copy get it there: those that were on a disk that is
/// lost, too. This goes on until all are copied; cut short, it goes on when the database is opened next, beside all
/// else.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gnomon disk add bank.gnomon /mnt/b           more room, or one for a lost one
  gnomon disk add bank.gnomon /mnt/b --mirror  two copies of all from now on")]
struct Add {
    /// The database's directory; any of them.
    ///
    /// No other process may have it open.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// A directory on the disk to be added.
    ///
    /// It is made if it is not there, and must be empty.
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// Have two copies of everything, on different disks, from now on.
    ///
    /// A database that is mirrored stays so without it.
    #[arg(long)]
    mirror: bool,
    /// Open a mirrored database although a disk is missing, which is then not used again.
    ///
    /// What was committed while the missing disk alone was in use is not on the others.
    #[arg(long)]
    degraded: bool,
}

pub fn run(arguments: &Disk) -> Result<ExitCode, Failure> {
    match &arguments.command {
        Command::List(list) => run_list(list),
        Command::Add(add) => run_add(add),
    }
}

fn run_list(arguments: &List) -> Result<ExitCode, Failure> {
    let options = Options { degraded: true, ..options() };
    let database = Database::open_read_only(&arguments.directory, options)
        .map_err(|error| Failure::of_reading(&arguments.directory, &error))?;
    let (mirrored, whole) = database.mirroring();
    let disks = database.disks();
    if arguments.json {
        let disks: Vec<_> = disks
            .iter()
            .map(|(info, path)| {
                json!({
                    "number": info.number,
                    "directory": path.as_ref().map(|path| path.display().to_string()),
                    "lost": info.given.is_none(),
                    "used_pages": info.used_pages,
                    "file_pages": info.file_pages,
                })
            })
            .collect();
        say!("{}", json!({ "mirrored": mirrored, "copies_whole": whole, "disks": disks }));
        return Ok(ExitCode::SUCCESS);
    }
    say!("disk  used pages  file pages  directory");
    for (info, path) in &disks {
        let directory = match path {
            Some(path) if info.given.is_some() => path.display().to_string(),
            _ => "lost or missing".to_owned(),
        };
        say!("{:4}  {:10}  {:10}  {directory}", info.number, info.used_pages, info.file_pages);
    }
    match (mirrored, whole) {
        (false, _) => say!("not mirrored"),
        (true, true) => say!("mirrored: every page has two copies"),
        (true, false) => say!("mirrored: copies are missing"),
    }
    Ok(ExitCode::SUCCESS)
}

fn run_add(arguments: &Add) -> Result<ExitCode, Failure> {
    let failure = |error: &gnomon_engine::Error| Failure::of_engine(&arguments.directory, error);
    let options = Options { create: false, degraded: arguments.degraded, ..options() };
    let database = Database::open(&arguments.directory, options).map_err(|error| failure(&error))?;
    let number = database.add_disk(&arguments.new, arguments.mirror).map_err(|error| failure(&error))?;
    let mut progress = Progress::on_stderr("copying pages");
    let copied = database
        .make_copies(&mut |done, total| progress.set(done, total))
        .map_err(|error| failure(&error))?;
    drop(progress);
    for report in database.take_reports() {
        tell!("{report}");
    }
    database.close().map_err(|error| failure(&error))?;
    say!("{} is disk {number} of {}", arguments.new.display(), arguments.directory.display());
    if !copied {
        return Err(Failure(format!(
            "there is no room for copies of all pages of {}: add another disk, or free some space and open it again",
            arguments.directory.display()
        )));
    }
    Ok(ExitCode::SUCCESS)
}
