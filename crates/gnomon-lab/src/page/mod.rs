//! What runs of experiments found, as one HTML page; what `gnomon-lab report` writes.
//!
//! - [`gather`] reads the results in a directory; [`render`] makes a page of them: a summary (`summary.rs`), then each
//!   paper with its experiments (`section.rs`);
//! - how it looks stands in `style.css`, and of figures in [`plot::STYLE`].
//!
//! Promises: the page is one file that needs no other, and no script; it says of an experiment what its `result.json`
//! says, whatever this program's own register has, which is only asked for papers' titles and for what was not run. The
//! same results give the same page. A page is there as a whole or not at all.
//!
//! Not done here: comparing runs of one experiment; of several, the last one is shown.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use gnomon_bench::{
    result::{self, FILE, Report, Verdict, plot},
    store::{Result, StoreError},
};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::experiment::EXPERIMENTS;

mod section;
mod summary;

const STYLE: &str = include_str!("style.css");

/// How deep below the directory results are looked for: `PAPER/NAME`, in directories of a run each.
const DEPTH_MAX: usize = 3;

/// A paper whose experiments have names that begin with its own.
struct Paper {
    name: &'static str,
    title: &'static str,
    by: &'static str,
}

const PAPERS: &[Paper] = &[
    Paper { name: "shadow", title: "Shadow Paging Is Feasible", by: "Ylönen 1995" },
    Paper {
        name: "multilevel",
        title: "A Performance Evaluation of Multi-Level Transaction Management",
        by: "Hasse and Weikum 1991",
    },
    Paper { name: "logging", title: "Recovery algorithms for in-memory OLTP databases", by: "Malviya 2012" },
    Paper {
        name: "semantics",
        title: "Alternative Strategies for a Semantics-Based Operating System Transaction Manager",
        by: "Kumar and Stonebraker 1987",
    },
    Paper {
        name: "kbound",
        title: "A Performance Analysis of K-Bound, a Consistency Protocol Supporting Multiple Isolation Levels",
        by: "Salinas and Muñoz-Escoí 2008",
    },
    Paper { name: "operations", title: "Locks by meaning", by: "this project" },
    Paper { name: "compare", title: "Transactions of one's own", by: "gnomon compare" },
];

/// Results of a directory.
#[derive(Debug)]
pub struct Gathered {
    /// One for each experiment that was run: in the register's order, then by name.
    pub reports: Vec<Report<String>>,
    /// Files of earlier runs, which are not among them.
    pub earlier: Vec<PathBuf>,
}

/// Reads the results in a directory and below it.
///
/// # Errors
/// A directory that is not there or has none, and results that cannot be read: which, and what to do.
pub fn gather(directory: &Path) -> Result<Gathered> {
    let mut files = Vec::new();
    find(directory, DEPTH_MAX, &mut files)?;
    if files.is_empty() {
        return Err(StoreError::unexpected(format!(
            "there is no {FILE} in {0} or below: `gnomon-lab run 'semantics/*' --out {0}` writes some",
            directory.display()
        )));
    }
    files.sort();
    let mut last: BTreeMap<String, (PathBuf, Report<String>)> = BTreeMap::new();
    let mut earlier = Vec::new();
    for file in files {
        let report = result::read(&file)?;
        let known = last.get(&report.experiment);
        if known.is_some_and(|(_, known)| known.measured_at > report.measured_at) {
            earlier.push(file);
        } else if let Some((before, _)) = last.insert(report.experiment.clone(), (file, report)) {
            earlier.push(before);
        }
    }
    let mut reports: Vec<_> = last.into_values().map(|(_, report)| report).collect();
    let place = |name: &str| EXPERIMENTS.iter().position(|experiment| experiment.name == name);
    reports.sort_by_key(|report| place(&report.experiment).unwrap_or(usize::MAX));
    Ok(Gathered { reports, earlier })
}

/// Adds the results in a directory, and in those within it to a depth.
fn find(directory: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<()> {
    let failed = |error| StoreError::unexpected(format!("{}: {error}", directory.display()));
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_file() && entry.file_name() == FILE {
            files.push(entry.path());
        } else if kind.is_dir() && depth > 0 {
            find(&entry.path(), depth - 1, files)?;
        }
    }
    Ok(())
}

/// The page of some results. `directory`: where they are, for the commands that add to them.
pub fn render(reports: &[Report<String>], directory: &Path) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (summary::title(reports)) }
                style { (PreEscaped(plot::STYLE)) (PreEscaped(STYLE)) }
            }
            body {
                (icons())
                (summary::render(reports, directory))
                main {
                    @for (name, title, by) in papers(reports) {
                        @let of_paper = of_paper(reports, name);
                        @if of_paper.clone().next().is_some() {
                            section.paper {
                                header.paper-head {
                                    h2 id=(name) { (title) }
                                    @if !by.is_empty() { p.by { (by) } }
                                }
                                @for report in of_paper { (section::render(report)) }
                            }
                        }
                    }
                }
            }
        }
    };
    page.into_string()
}

/// Name, title and authors of the papers that are known or have a result, in their order.
fn papers(reports: &[Report<String>]) -> Vec<(&str, &str, &str)> {
    let mut papers: Vec<_> = PAPERS.iter().map(|paper| (paper.name, paper.title, paper.by)).collect();
    for report in reports {
        let name = paper_of(&report.experiment);
        if !papers.iter().any(|(known, ..)| *known == name) {
            papers.push((name, name, ""));
        }
    }
    papers
}

fn of_paper<'r>(
    reports: &'r [Report<String>],
    name: &str,
) -> impl Iterator<Item = &'r Report<String>> + Clone {
    reports.iter().filter(move |report| paper_of(&report.experiment) == name)
}

fn paper_of(experiment: &str) -> &str {
    experiment.split('/').next().unwrap_or_default()
}

/// The name of an experiment within its paper.
fn name_of(experiment: &str) -> &str {
    experiment.split_once('/').map_or(experiment, |(_, name)| name)
}

/// What a link to an experiment's section leads to.
fn anchor(experiment: &str) -> String {
    experiment.replace(|c: char| !c.is_ascii_alphanumeric(), "-")
}

/// How many claims of some results have a verdict.
fn count<'r>(reports: impl IntoIterator<Item = &'r Report<String>>, verdict: Verdict) -> usize {
    reports.into_iter().flat_map(|report| &report.claims).filter(|claim| claim.verdict == verdict).count()
}

/// A verdict's words, and the class that has its colour.
fn words(verdict: Verdict) -> (&'static str, &'static str) {
    match verdict {
        Verdict::Holds => ("holds", "holds"),
        Verdict::Surpassed => ("surpassed", "surpassed"),
        Verdict::DoesNotHold => ("does not hold", "fails"),
        Verdict::NotComparable => ("not comparable", "unknown"),
    }
}

/// The icon of a verdict, which says nothing that the word beside it does not.
fn icon(verdict: Verdict) -> Markup {
    let (_, class) = words(verdict);
    html! { svg.icon.(class) viewBox="0 0 16 16" aria-hidden="true" { use href={ "#i-" (class) } {} } }
}

/// The icons' shapes, once for the page.
fn icons() -> Markup {
    let shapes = [
        (Verdict::Holds, "M3.5 8.5l3 3 6-7"),
        (Verdict::Surpassed, "M3.5 8.5l4.5-4.5 4.5 4.5M8 4.5v8.5"),
        (Verdict::DoesNotHold, "M4 4l8 8M12 4l-8 8"),
        (Verdict::NotComparable, "M8 2.8a5.2 5.2 0 1 0 .01 0zM4.4 11.6l7.2-7.2"),
    ];
    html! {
        svg.icons width="0" height="0" aria-hidden="true" {
            @for (verdict, path) in shapes {
                symbol id={ "i-" (words(verdict).1) } viewBox="0 0 16 16" { path d=(path) {} }
            }
        }
    }
}

/// A moment for people: UTC, to the minute.
fn minute(moment: &str) -> String {
    match (moment.get(..10), moment.get(11..16)) {
        (Some(day), Some(minute)) => format!("{day} {minute} UTC"),
        _ => moment.to_owned(),
    }
}

/// How many there are of something.
fn counted(number: usize, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

#[cfg(test)]
mod tests;
