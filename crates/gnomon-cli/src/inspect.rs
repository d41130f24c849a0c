//! `gnomon inspect`: what a database consists of.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use comfy_table::{Cell, CellAlignment, Table, presets};
use gnomon_engine::{Database, Error, TreeId, VerifyReport, disk::DiskSet};
use gnomon_program::{Failure, Progress, say};
use gnomon_sql::{
    SqlState,
    catalog::{CATALOG_TREE, Catalog, SEQUENCE_TREE},
};
use serde_json::json;

use crate::storage::options;

/// Shows sizes, commits and trees, with the tables and indexes of SQL that they hold. Reads everything that a
/// database has; changes nothing and needs no right to write. No process that writes may have it open.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gnomon inspect bank.gnomon
  gnomon inspect bank.gnomon --json | jq '.trees[] | {name, entries, pages}'")]
pub struct Inspect {
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

pub fn run(arguments: &Inspect) -> Result<ExitCode, Failure> {
    let directory = &arguments.directory;
    let mut progress = Progress::on_stderr("reading pages");
    let report = DiskSet::open_read_only(directory)
        .and_then(|disks| {
            gnomon_engine::verify_with(disks, options(), &mut |done, total| progress.set(done, total))
        })
        .map_err(|error| Failure::of_reading(directory, &error))?;
    drop(progress);
    let names = read_catalog(directory)?.map(|catalog| names(&catalog)).unwrap_or_default();
    if arguments.json {
        say!("{}", to_json(&directory.display().to_string(), &report, &names));
    } else {
        print_text(&directory.display().to_string(), &report, &names);
    }
    if !report.is_sound() {
        return Err(Failure(format!(
            "{0} is damaged: `gnomon verify {0}` lists the damage",
            directory.display()
        )));
    }
    Ok(ExitCode::SUCCESS)
}

/// The catalog of SQL: none in a database of another program, nor in one that is too damaged to have its names read.
fn read_catalog(directory: &Path) -> Result<Option<Catalog>, Failure> {
    let database = match Database::open_read_only(directory, options()) {
        Ok(database) => database,
        Err(Error::Corrupt { .. } | Error::Mismatch { .. }) => return Ok(None),
        Err(error) => return Err(Failure::of_reading(directory, &error)),
    };
    match Catalog::read(&database) {
        Err(error) if error.state() == SqlState::DATA_CORRUPTED => Ok(None),
        read => read.map_err(|error| Failure::new(directory.display(), error)),
    }
}

/// Returns the name of what SQL keeps in each tree.
fn names(catalog: &Catalog) -> BTreeMap<TreeId, String> {
    let mut names = BTreeMap::from([
        (CATALOG_TREE, "the catalog".to_owned()),
        (SEQUENCE_TREE, "positions of sequences".to_owned()),
    ]);
    for table in catalog.tables() {
        names.insert(table.tree, format!("table {}.{}", table.schema, table.name));
        for index in &table.indexes {
            names.insert(index.tree, format!("index {}.{}", table.schema, index.name));
        }
    }
    names
}

fn to_json(path: &str, report: &VerifyReport, names: &BTreeMap<TreeId, String>) -> serde_json::Value {
    let stats = &report.stats;
    let trees: Vec<_> = report
        .trees
        .iter()
        .map(|tree| {
            json!({
                "tree": tree.tree.0,
                "name": names.get(&tree.tree),
                "entries": tree.entries,
                "pages": tree.pages,
                "page_bytes": tree.page_size.bytes(),
                "height": tree.height,
                "leaf_fill": tree.leaf_fill,
                "dropped": tree.dropped,
            })
        })
        .collect();
    json!({
        "path": path,
        "format_version": stats.format_version,
        "identity": format!("{:016x}", stats.identity),
        "recovery": stats.recovery.name(),
        "log_bytes": stats.log_bytes,
        "csn": report.csn.0,
        "batches": stats.batches,
        "page_bytes_min": stats.page_size_min.bytes(),
        "file_pages": stats.file_pages,
        "used_pages": stats.used_pages,
        "free_pages": report.free_pages,
        "segments": stats.segments,
        "segments_empty": report.segments_empty,
        "table_pages": report.table_pages,
        "table_depth": stats.table_depth,
        "logical_pages": stats.logical_pages,
        "sound": report.is_sound(),
        "trees": trees,
    })
}

fn print_text(path: &str, report: &VerifyReport, names: &BTreeMap<TreeId, String>) {
    let stats = &report.stats;
    say!(
        "{path}: format {}, identity {:016x}, recovers by {}",
        stats.format_version,
        stats.identity,
        stats.recovery.name()
    );
    let pages = format!(
        "pages of {}: {} in the file, {} used, {} free",
        stats.page_size_min, stats.file_pages, stats.used_pages, report.free_pages
    );
    if stats.recovery.has_page_table() {
        say!("commits: newest {}, in {} batches", report.csn, stats.batches);
        say!("{pages}; page table of {} pages, {} levels", report.table_pages, stats.table_depth);
        let segment_kib = (128 * stats.page_size_min.bytes()) >> 10;
        say!(
            "segments of {segment_kib} KiB: {}, of which {} are empty",
            stats.segments,
            report.segments_empty
        );
    } else {
        say!("commits: newest {}", report.csn);
        say!("{pages}");
    }
    if let Some(kind) = stats.recovery.log_kind() {
        say!("log of {kind} that a restart reads: {} KiB", stats.log_bytes.div_ceil(1024));
    }
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["tree", "holds", "entries", "pages", "of", "height", "leaf fill"]);
    for tree in &report.trees {
        let name = names.get(&tree.tree).map_or("", String::as_str);
        let holds = if tree.dropped { "dropped, being given back" } else { name };
        let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        table.add_row([
            right(tree.tree.to_string()),
            Cell::new(holds),
            right(tree.entries.to_string()),
            right(tree.pages.to_string()),
            right(tree.page_size.to_string()),
            right(tree.height.to_string()),
            right(format!("{:.0} %", tree.leaf_fill * 100.0)),
        ]);
    }
    say!("{table}");
}
