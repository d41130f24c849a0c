//! The page's first screen: what was found, where and when, and each experiment's verdicts; then what was not run.

use std::path::Path;

use gnomon_bench::result::{Report, Verdict, machine::Machine, text::quoted};
use maud::{Markup, html};

use super::{anchor, count, counted, icon, minute, name_of, of_paper, paper_of, papers, words};
use crate::experiment::EXPERIMENTS;

/// The page's title.
pub fn title(reports: &[Report<String>]) -> String {
    let stated: usize = reports.iter().map(|report| report.claims.len()).sum();
    match stated {
        0 => "Transactions of one's own".to_owned(),
        stated => format!("{}, measured again", counted(stated, "stated figure", "stated figures")),
    }
}

/// The first screen.
pub fn render(reports: &[Report<String>], directory: &Path) -> Markup {
    let stated: usize = reports.iter().map(|report| report.claims.len()).sum();
    html! {
        header.cover #top {
            div.cover-head {
                div {
                    p.kicker { "Gnomon lab" }
                    h1 { (title(reports)) }
                    (provenance(reports))
                    (warnings(reports))
                }
                @if stated > 0 {
                    div.verdicts {
                        ul.totals {
                            @for verdict in Verdict::ALL {
                                @let (word, class) = words(verdict);
                                li.(class) {
                                    span.number { (count(reports, verdict)) }
                                    span.word { (icon(verdict)) (word) }
                                }
                            }
                        }
                        div.share aria-hidden="true" {
                            @for verdict in Verdict::ALL {
                                @let number = count(reports, verdict);
                                @if number > 0 { span.(words(verdict).1) style={ "flex-grow:" (number) } {} }
                            }
                        }
                    }
                }
            }
            nav.papers aria-label="Experiments" {
                @for (name, title, by) in papers(reports) {
                    @let has_experiments = EXPERIMENTS.iter().any(|known| paper_of(known.name) == name);
                    @if has_experiments || of_paper(reports, name).next().is_some() {
                        (group(reports, name, title, by))
                    }
                }
            }
        }
        (not_run(reports, directory))
    }
}

/// When, with which version, on what.
fn provenance(reports: &[Report<String>]) -> Markup {
    let moments = || reports.iter().map(|report| report.measured_at.as_str());
    let (first, last) = (moments().min().unwrap_or_default(), moments().max().unwrap_or_default());
    let (first, last) = (minute(first), minute(last));
    let when = match (first.strip_suffix(" UTC"), last.strip_prefix(first.get(..11).unwrap_or("-"))) {
        _ if first == last => first,
        (Some(first), Some(of_same_day)) => format!("{first} to {of_same_day}"),
        _ => format!("{first} to {last}"),
    };
    let versions = distinct(reports.iter().map(|report| report.version.as_str()));
    let machines = distinct(reports.iter().map(|report| &report.machine));
    html! {
        p.provenance {
            "Measured " strong { (when) } " with gnomon " (versions.join(", ")) " on "
            @match machines.as_slice() {
                [machine] => { (words_of(machine)) "." }
                several => { (several.len()) " machines, which each experiment names." }
            }
        }
    }
}

/// A machine in words.
pub fn words_of(machine: &Machine) -> String {
    let processors = counted(machine.processors, "processor", "processors");
    let mut parts = vec![match &machine.processor {
        Some(model) => format!("{processors} ({model})"),
        None => processors,
    }];
    parts.extend(
        machine.memory_bytes.map(|bytes| format!("{:.1} GiB of memory", bytes as f64 / (1u64 << 30) as f64)),
    );
    parts.extend(machine.kernel.clone());
    parts.extend(machine.file_system.as_ref().map(|file_system| format!("databases in {file_system}")));
    parts.join(", ")
}

/// The values of an iterator, each once, in the order in which they come.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}

/// What is to be known before a figure is believed.
fn warnings(reports: &[Report<String>]) -> Markup {
    let of = |is: fn(&Report<String>) -> bool| match reports.iter().filter(|report| is(report)).count() {
        0 => None,
        number if number == reports.len() => Some("All".to_owned()),
        number => Some(format!("{number} of {}", reports.len())),
    };
    html! {
        @if let Some(which) = of(|report| report.quick) {
            p.warning { strong { (which) " quick runs." } " Their figures show only that it works." }
        }
        @if let Some(which) = of(|report| report.debug_build) {
            p.warning { strong { (which) " by a debug build." } " Its speeds tell nothing." }
        }
    }
}

/// A paper's experiments, a row each.
fn group(reports: &[Report<String>], name: &str, title: &str, by: &str) -> Markup {
    let not_run =
        EXPERIMENTS.iter().filter(|known| paper_of(known.name) == name && !is_run(reports, known.name));
    html! {
        table.group {
            caption { span.paper-title { (title) } @if !by.is_empty() { " " span.by { (by) } } }
            thead {
                tr {
                    th scope="col" { (name) }
                    @for verdict in Verdict::ALL { th scope="col" { (breakable(verdict)) } }
                }
            }
            tbody {
                @for report in of_paper(reports, name) {
                    tr {
                        th scope="row" { a href={ "#" (anchor(&report.experiment)) } { (name_of(&report.experiment)) } }
                        @for verdict in Verdict::ALL {
                            @match count([report], verdict) {
                                0 => td.none { "·" },
                                number => td.(words(verdict).1) { (icon(verdict)) (number) },
                            }
                        }
                    }
                }
                @for known in not_run {
                    tr.absent {
                        th scope="row" { (name_of(known.name)) }
                        td colspan=(Verdict::ALL.len()) { a href="#not-run" { "not run" } }
                    }
                }
            }
        }
    }
}

/// A verdict's words, which may be broken where there is little room.
fn breakable(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Surpassed => "sur\u{ad}passed",
        Verdict::NotComparable => "not compar\u{ad}able",
        _ => words(verdict).0,
    }
}

fn is_run(reports: &[Report<String>], experiment: &str) -> bool {
    reports.iter().any(|report| report.experiment == experiment)
}

/// Experiments without a result, by paper, with the command that runs them.
fn not_run(reports: &[Report<String>], directory: &Path) -> Markup {
    let papers = papers(reports);
    let absent = papers.iter().filter_map(|(paper, ..)| {
        let names = EXPERIMENTS.iter().map(|known| known.name);
        let names: Vec<&str> =
            names.filter(|name| paper_of(name) == *paper && !is_run(reports, name)).collect();
        // Of one experiment alone, the report would stand in the directory itself.
        let out = match names.as_slice() {
            [] => return None,
            [name] => directory.join(name),
            _ => directory.to_path_buf(),
        };
        Some((names, out))
    });
    let commands: Vec<String> = absent
        .map(|(names, out)| {
            format!("gnomon-lab run {} --out {}", names.join(" "), quoted(&out.to_string_lossy()))
        })
        .collect();
    html! {
        @if !commands.is_empty() {
            section.absent #not-run {
                h2 { "Not run" }
                p { "These commands add what is missing; then " code { "gnomon-lab report" } " again." }
                @for command in commands { pre { code { (command) } } }
            }
        }
    }
}
