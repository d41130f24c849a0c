//! `gnomon scrub`: reads every copy of everything, and repairs what is damaged.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use gnomon_engine::{Database, Finding, Options};
use gnomon_program::{Failure, Progress, say, tell};
use serde_json::json;

use crate::storage::options;

/// Reads every copy of every page, and of the page table pointer. In a mirrored database what is damaged gets a new
/// copy made of the other one; what is damaged of free space is zeroed.
///
/// Exits with 1 if something is lost, or copies are missing that there is no room for.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gnomon scrub bank.gnomon
  gnomon scrub bank.gnomon --json | jq .repaired")]
pub struct Scrub {
    /// The database's directory; any of them.
    ///
    /// No other process may have it open.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Open a mirrored database although a disk is missing, which is then not used again.
    ///
    /// What was committed while the missing disk alone was in use is not on the others.
    #[arg(long)]
    degraded: bool,
    /// Print one JSON object.
    ///
    /// It goes to standard output on one line; errors and progress stay on standard error.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Scrub) -> Result<ExitCode, Failure> {
    let directory = &arguments.directory;
    let failure = |error: &gnomon_engine::Error| Failure::of_reading(directory, error);
    let options = Options { create: false, degraded: arguments.degraded, ..options() };
    let database = Database::open(directory, options).map_err(|error| failure(&error))?;
    let mut progress = Progress::on_stderr("scrubbing pages");
    let report =
        database.scrub(&mut |done, total| progress.set(done, total)).map_err(|error| failure(&error))?;
    drop(progress);
    database.close().map_err(|error| failure(&error))?;
    for report in database.take_reports() {
        tell!("{report}");
    }
    if arguments.json {
        let findings = |findings: &[Finding]| -> Vec<_> {
            let one =
                |found: &Finding| json!({ "file": found.file, "page": found.page, "detail": found.detail });
            findings.iter().map(one).collect()
        };
        say!(
            "{}",
            json!({
                "directory": directory.display().to_string(),
                "copies_checked": report.copies_checked,
                "repaired": findings(&report.repaired),
                "zeroed": report.zeroed,
                "lost": findings(&report.lost),
                "missing": report.missing,
            })
        );
    } else {
        for (what, findings) in [("repaired", &report.repaired), ("lost", &report.lost)] {
            for found in findings {
                say!("{what}: file {} page {}: {}", found.file, found.page, found.detail);
            }
        }
        say!(
            "{}: {} copies checked, {} repaired, {} free pages zeroed, {} lost",
            directory.display(),
            report.copies_checked,
            report.repaired.len(),
            report.zeroed,
            report.lost.len()
        );
    }
    if !report.lost.is_empty() {
        return Err(Failure(format!(
            "{0} has lost data: `gnomon verify {0}` lists which trees it was of; restore a backup",
            directory.display()
        )));
    }
    if database.disks().iter().any(|(info, _)| info.given.is_none()) {
        return Err(Failure(format!(
            "a disk of {0} is lost: give it a fresh one by `gnomon disk add {0} DIR`",
            directory.display()
        )));
    }
    if report.missing > 0 {
        return Err(Failure(format!(
            "{} copies are missing: give the database a fresh disk by `gnomon disk add {} DIR`",
            report.missing,
            directory.display()
        )));
    }
    Ok(ExitCode::SUCCESS)
}
