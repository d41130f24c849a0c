//! `gnomon restore`.

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use gnomon_engine::{BackupId, Error, RestorePhase, disk::FileDisk};
use gnomon_program::{Failure, Progress, say};

use super::{header_json, set::BackupSet, time_text};

/// Makes a database of backups, in a directory that is empty or not there yet.
///
/// All backups are read side by side, every page of them is checked, and the new database is verified as by `gnomon
/// verify` before it gets its name: if the command does not succeed, there is no database. It has an identity of its
/// own, so its own backups begin with a full one.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gnomon restore backups bank.gnomon
  gnomon restore backups bank.gnomon --until 63033b0ca389c35a-6
  gnomon restore full.gnomon-backup monday.gnomon-backup bank.gnomon
  ssh vault 'cat bank.gnomon-backup' | gnomon restore - bank.gnomon")]
pub struct Restore {
    /// A directory of backups; or files, a full backup and those that go on from it; - is standard input.
    ///
    /// Of a directory the newest backup is restored, with all that it goes on from. Files are named in the order in
    /// which they were taken.
    #[arg(value_name = "SOURCE", required = true, num_args = 1..)]
    sources: Vec<PathBuf>,
    /// The directory of the new database.
    ///
    /// It must be empty, or not there yet.
    #[arg(value_name = "DIR", required = true)]
    directory: PathBuf,
    /// The backup to restore, of a directory of backups.
    ///
    /// `gnomon backup --list` shows their names.
    #[arg(long, value_name = "NAME")]
    until: Option<String>,
    /// Print one JSON object.
    ///
    /// It goes to standard output on one line; errors and progress stay on standard error.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Restore) -> Result<ExitCode, Failure> {
    let until = arguments.until.as_deref().map(str::parse).transpose();
    let until: Option<BackupId> = until.map_err(|error: Error| Failure(error.to_string()))?;
    let mut names = Vec::new();
    let mut inputs: Vec<Box<dyn Read>> = Vec::new();
    match arguments.sources.as_slice() {
        [path] if path.is_dir() => {
            let set = BackupSet::open(path)?;
            for stored in set.chain(until)? {
                names.push(set.path_of(&stored.name));
                inputs.push(Box::new(set.reader(stored)?));
            }
        }
        _ if until.is_some() => {
            return Err(Failure(
                "--until chooses from a directory of backups: name one, and nothing else".into(),
            ));
        }
        paths => {
            for path in paths {
                let is_input = path == Path::new("-");
                names.push(if is_input { "standard input".into() } else { path.display().to_string() });
                inputs.push(open(path)?);
            }
        }
    }
    let directory = &arguments.directory;
    let existed = directory.exists();
    let disk = FileDisk::open(directory, true).map_err(|error| Failure::of_engine(directory, &error))?;
    let mut writing = Progress::on_stderr("writing pages");
    let mut verifying = Progress::silent();
    let mut phase = RestorePhase::Writing;
    let restored = gnomon_engine::restore(inputs, &disk, None, &mut |now, done, total| {
        if phase != now {
            phase = now;
            writing = Progress::silent();
            verifying = Progress::on_stderr("verifying pages");
        }
        match now {
            RestorePhase::Writing => writing.set(done, total),
            RestorePhase::Verifying => verifying.set(done, total),
        }
    });
    drop((writing, verifying));
    let restored = restored.map_err(|error| {
        if !existed {
            // An empty one that stays does no harm.
            let _ = std::fs::remove_dir(directory);
        }
        match &error {
            Error::NotADatabase { detail, .. } => {
                Failure(format!("cannot restore to {}: {detail}", directory.display()))
            }
            Error::DiskFull => Failure(no_room_message(directory)),
            Error::Corrupt { .. } => Failure::new(directory.display(), &error),
            _ => Failure(super::explain(&error, |number| names[number].clone())),
        }
    })?;
    let header = &restored.backup.header;
    let stats = &restored.report.stats;
    if arguments.json {
        let mut object = header_json(header);
        object["path"] = directory.display().to_string().into();
        object["identity"] = format!("{:016x}", stats.identity).into();
        object["backups"] = names.into();
        object["pages"] = stats.used_pages.into();
        say!("{object}");
    } else {
        say!(
            "{}: {} pages from {}, backup {} of {}, newest commit {}: verified",
            directory.display(),
            stats.used_pages,
            if names.len() == 1 { "1 backup".into() } else { format!("{} backups", names.len()) },
            header.id,
            time_text(header.begun),
            header.csn
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// The message of a restore for which a disk has no room.
pub fn no_room_message(directory: &Path) -> String {
    format!(
        "cannot restore to {0}: its disk is full: free space there, or name a directory on a larger \
         disk; {0} holds nothing",
        directory.display()
    )
}

#[expect(clippy::disallowed_methods, reason = "a file that is a stream, and no part of a database")]
fn open(path: &Path) -> Result<Box<dyn Read>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    let file = std::fs::File::open(path)
        .map_err(|error| Failure::new(format!("cannot read the backup {}", path.display()), error))?;
    Ok(Box::new(io::BufReader::with_capacity(1 << 20, file)))
}
