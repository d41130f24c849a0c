//! `gnomon verify`: reads everything and says what is damaged.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use gnomon_engine::{
    Error, Finding, Severity, VerifyReport,
    disk::{DiskSet, LIST_FILE},
};
use gnomon_program::{Failure, Progress, say};
use serde_json::json;

use crate::storage::options;

/// Checks every page's checksum, version and identity, the page table, the map of space and the structure of every
/// tree. Changes nothing and needs no right to write. No process that writes may have the database open.
///
/// Exits with 1 if anything is damaged, or a server would refuse to open the database, such as one with a disk missing.
/// A page table pointer that a crash cut short is no damage, and is listed.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gnomon verify bank.gnomon
  gnomon verify bank.gnomon --json | jq .findings")]
pub struct Verify {
    /// The database's directory.
    ///
    /// It is read, never written. No process that writes, such as a server, may have it open.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Print one JSON object.
    ///
    /// It goes to standard output on one line; errors and progress stay on standard error.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Verify) -> Result<ExitCode, Failure> {
    let directory = &arguments.directory;
    let mut progress = Progress::on_stderr("verifying pages");
    let verified = DiskSet::open_read_only(directory).and_then(|disks| {
        gnomon_engine::verify_with(disks, options(), &mut |done, total| progress.set(done, total))
    });
    drop(progress);
    let (report, findings) = match verified {
        Ok(report) => {
            let findings = report.findings.clone();
            (Some(report), findings)
        }
        // Not even a state to check is left.
        Err(Error::Corrupt { file, page, detail }) => {
            (None, vec![Finding { file, page, detail, severity: Severity::Data }])
        }
        Err(Error::Mismatch { file, detail }) => {
            (None, vec![Finding { file, page: 0, detail, severity: Severity::Data }])
        }
        Err(error) => return Err(Failure::of_reading(directory, &error)),
    };
    let damaged = findings.iter().filter(|finding| finding.severity > Severity::Trace).count();
    if arguments.json {
        say!("{}", to_json(directory.display().to_string(), report.as_ref(), &findings));
    } else {
        for finding in &findings {
            let grade = match finding.severity {
                Severity::Trace => "harmless",
                Severity::Spare => "damaged, nothing lost",
                Severity::Data => "damaged",
            };
            say!("{grade}: file {} page {}: {}", finding.file, finding.page, finding.detail);
        }
        if let Some(report) = &report {
            let entries: u64 = report.trees.iter().map(|tree| tree.entries).sum();
            say!(
                "{}: {} pages read, {} trees with {entries} entries, newest commit {}: {}",
                directory.display(),
                report.pages_read,
                report.trees.len(),
                report.csn,
                if damaged == 0 { "sound" } else { "DAMAGED" }
            );
            if report.disks_lost > 0 {
                say!(
                    "lost or missing disks: {}; until `gnomon disk add {} DIR` what was on them has one copy only",
                    report.disks_lost,
                    directory.display()
                );
            }
        }
    }
    if damaged == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    let lost = findings.iter().any(|finding| finding.severity == Severity::Data);
    if report.as_ref().is_some_and(|report| !report.opens) && !lost {
        return Err(Failure(format!(
            "{} does not open as it stands: what is listed says why, and what to do",
            directory.display()
        )));
    }
    let only_lists =
        findings.iter().all(|finding| finding.file == LIST_FILE || finding.severity == Severity::Trace);
    Err(Failure(format!(
        "{} is damaged in {damaged} {}: {}",
        directory.display(),
        if damaged == 1 { "place" } else { "places" },
        if only_lists {
            "nothing is lost; if a directory was moved, open the database once by any command that writes"
        } else if lost {
            "restore a copy"
        } else {
            "nothing is lost, but do not trust this disk: move the database to another one"
        }
    )))
}

fn to_json(path: String, report: Option<&VerifyReport>, findings: &[Finding]) -> serde_json::Value {
    let findings_json: Vec<_> = findings
        .iter()
        .map(|finding| {
            json!({
                "file": finding.file,
                "page": finding.page,
                "detail": finding.detail,
                "severity": match finding.severity {
                    Severity::Trace => "trace",
                    Severity::Spare => "spare",
                    Severity::Data => "data",
                },
            })
        })
        .collect();
    json!({
        "path": path,
        "sound": !findings.iter().any(|finding| finding.severity > Severity::Trace),
        "opens": report.is_some_and(|report| report.opens),
        "csn": report.map(|report| report.csn.0),
        "pages_read": report.map(|report| report.pages_read),
        "free_pages": report.map(|report| report.free_pages),
        "disks_lost": report.map(|report| report.disks_lost),
        "findings": findings_json,
    })
}
