//! Options and output of the commands that measure and report: `gnomon compare` and `gnomon-lab run`.

use std::{
    fmt,
    io::Write as _,
    path::{Path, PathBuf},
};

use clap::Args;
use gnomon_engine::{
    env::Rng,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use gnomon_program::{Failure, signals, tell};

use crate::result::Report;

/// Parses a setting.
///
/// # Errors
/// A text that is not of the form NAME=VALUE.
pub fn parse_setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("not of the form NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Options of a command that measures and reports.
#[derive(Args)]
pub struct ReportOptions {
    /// Where random numbers begin.
    ///
    /// Without it, a seed that no other run has. The report names it; with the same seed the choices are the same.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Where to make the databases.
    ///
    /// Without it, in the system's temporary directory. What is measured is the disk on which the directory is: a
    /// temporary directory in memory has none.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Print one JSON object.
    ///
    /// It goes to standard output on one line; errors and progress stay on standard error.
    #[arg(long)]
    pub json: bool,
    /// Write the report into this directory too, as text, as JSON and with plots.
    ///
    /// It is made if absent. Files of an earlier run there are replaced. Of several experiments, each has a directory
    /// PAPER/NAME in it. `gnomon-lab report DIR` makes a page of it.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl ReportOptions {
    /// Returns the seed that was given, or a new one that is short enough to be typed.
    pub fn seed(&self) -> u64 {
        self.seed.unwrap_or_else(|| Rng::from_entropy().below(1_000_000))
    }

    /// Makes the directory for the report, if one was given.
    ///
    /// # Errors
    /// A directory that cannot be made.
    pub fn out(&self) -> Result<Option<ReportDirectory<'_>>, Failure> {
        self.out.as_deref().map(ReportDirectory::make).transpose()
    }

    /// Prints a report as the options ask for.
    ///
    /// # Errors
    /// An output that cannot be written.
    pub fn print(&self, report: &Report) -> Result<(), Failure> {
        match self.json {
            true => print(report.to_json()),
            false => print(report),
        }
    }
}

/// Prints a line, or more.
///
/// # Errors
/// An output that cannot be written.
pub fn print(what: impl fmt::Display) -> Result<(), Failure> {
    writeln!(std::io::stdout().lock(), "{what}")
        .map_err(|error| Failure::new("cannot write to standard output", error))
}

/// Returns a flag that the first Ctrl-C sets.
///
/// # Errors
/// Signals that cannot be listened to.
pub fn cancel_on_stop() -> Result<Arc<AtomicBool>, Failure> {
    let cancel = Arc::new(AtomicBool::new(false));
    let canceled = cancel.clone();
    signals::on_stop(move || {
        canceled.store(true, Ordering::Release);
        tell!("stopping; a second Ctrl-C ends it at once, and leaves databases that it has made");
    })
    .map_err(|error| Failure::new("cannot listen to signals", error))?;
    Ok(cancel)
}

/// The directory of a report, made before a long run whose report would otherwise have no place. A new one that is still
/// empty at the end of the run is removed.
pub struct ReportDirectory<'a> {
    directory: &'a Path,
    is_new: bool,
}

impl<'a> ReportDirectory<'a> {
    fn make(directory: &'a Path) -> Result<ReportDirectory<'a>, Failure> {
        let is_new = !directory.exists();
        std::fs::create_dir_all(directory).map_err(|error| Failure::new(directory.display(), error))?;
        Ok(ReportDirectory { directory, is_new })
    }

    /// Writes a report there, or in a directory in it.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(&self, report: &Report, within: Option<&str>) -> Result<(), Failure> {
        let directory =
            within.map_or_else(|| self.directory.to_path_buf(), |within| self.directory.join(within));
        let files = report.write_to(&directory).map_err(|error| Failure::new(directory.display(), error))?;
        tell!("{}: {}", directory.display(), files.join(", "));
        Ok(())
    }
}

impl Drop for ReportDirectory<'_> {
    fn drop(&mut self) {
        if self.is_new {
            // Fails if there is a report in it.
            _ = std::fs::remove_dir(self.directory);
        }
    }
}
