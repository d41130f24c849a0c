//! An experiment on the page: what it measures, its figures, what is stated beside what was measured, and how to run it
//! again.

use gnomon_bench::result::{
    Claim, Report, ResultTable,
    plot::{Figure, Key},
};
use maud::{Markup, html};

use super::{anchor, icon, minute, summary::words_of, words};

/// An experiment.
pub fn render(report: &Report<String>) -> Markup {
    html! {
        article.experiment #(anchor(&report.experiment)) {
            header {
                div.name {
                    h3 { (report.experiment) }
                    a.up href="#top" { "overview" }
                }
                p.measures { (sentence(&report.measures)) }
                p.source { (report.source) }
                @if report.quick {
                    p.warning { strong { "A quick run." } " Its figures show only that it works." }
                }
                @if report.debug_build {
                    p.warning { strong { "A debug build." } " Its speeds tell nothing." }
                }
            }
            div.findings.one[report.figures.iter().map(|figure| figure.panels.len()).sum::<usize>() == 1] {
                @if !report.figures.is_empty() {
                    div.figures { @for figure in &report.figures { (draw(figure)) } }
                }
                (claims(&report.claims))
            }
            @for conclusion in &report.conclusions { p.conclusion { (conclusion) } }
            @for table in &report.tables { (measured(table)) }
            @for listing in &report.listings {
                details.listing {
                    summary { (listing.title) }
                    pre { code { (listing.text) } }
                }
            }
            div.notes {
                (notes("What the headings are short for", &report.terms))
                @let is_stated = !report.claims.is_empty();
                (notes(if is_stated { "What differs from the paper" } else { "Notes" }, &report.differences))
            }
            (rerun(report))
        }
    }
}

/// A text that begins like a sentence.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn draw(figure: &Figure<String>) -> Markup {
    html! {
        // How many panels there are beside each other depends on how many there are.
        figure.{ "n" (figure.panels.len().min(5)) } {
            figcaption { (figure.title) }
            (legend(&figure.keys()))
            div.panels {
                @for panel in &figure.panels {
                    div.panel {
                        (legend(&figure.keys_of(panel)))
                        (panel.draw())
                    }
                }
            }
        }
    }
}

fn legend(keys: &[Key]) -> Markup {
    html! {
        @if !keys.is_empty() {
            ul.legend { @for key in keys { li { (key.draw()) (key.label) } } }
        }
    }
}

fn claims(claims: &[Claim<String>]) -> Markup {
    html! {
        @if !claims.is_empty() {
            div {
                h4 { "Stated and measured" }
                table.claims {
                    thead {
                        tr {
                            @for heading in ["figure", "stated", "measured", "verdict"] { th scope="col" { (heading) } }
                        }
                    }
                    tbody { @for claim in claims { (row(claim)) } }
                }
            }
        }
    }
}

fn row(claim: &Claim<String>) -> Markup {
    let (word, class) = words(claim.verdict);
    let measured = if claim.measured.is_empty() { "–" } else { &claim.measured };
    html! {
        tr {
            th scope="row" { (claim.figure) }
            td data-heading="stated" { (claim.stated) }
            td.measured data-heading="measured" { (measured) }
            td.verdict { span.badge.(class) { (icon(claim.verdict)) (word) } }
        }
    }
}

/// A table in a box of its own, within which it scrolls. Columns of numbers are aligned at the right.
fn measured(table: &ResultTable<String>) -> Markup {
    // The best of a comparison has a star before it.
    let is_number = |cell: &String| {
        cell.trim_start_matches("* ")
            .starts_with(|first: char| first.is_ascii_digit() || "-+–".contains(first))
    };
    let numbers: Vec<bool> = (0..table.headings.len())
        .map(|column| {
            table.rows.iter().filter_map(|row| row.get(column)).all(|cell| cell.is_empty() || is_number(cell))
        })
        .collect();
    let class = |column: usize| numbers.get(column).copied().unwrap_or(false).then_some("number");
    html! {
        h4 { (table.title) }
        div.scroll tabindex="0" role="region" aria-label=(table.title) {
            table.data {
                thead {
                    tr {
                        @for (column, heading) in table.headings.iter().enumerate() {
                            th scope="col" class=[class(column)] { (heading) }
                        }
                    }
                }
                tbody {
                    @for row in &table.rows {
                        tr { @for (column, cell) in row.iter().enumerate() { td class=[class(column)] { (cell) } } }
                    }
                }
            }
        }
    }
}

fn notes(heading: &str, notes: &[String]) -> Markup {
    html! {
        @if !notes.is_empty() {
            section {
                h4 { (heading) }
                ul { @for note in notes { li { (note) } } }
            }
        }
    }
}

fn rerun(report: &Report<String>) -> Markup {
    html! {
        h4 { "Run it again" }
        pre { code { (report.command) } }
        p.ran {
            "Measured " (minute(&report.measured_at)) " with gnomon " (report.version) ", seed " (report.seed) ", on "
            (words_of(&report.machine)) "."
        }
        @if !report.settings.is_empty() {
            details {
                summary { "All settings" }
                p.settings {
                    @for (name, value) in &report.settings { code { (name) "=" (value) } " " }
                }
            }
        }
    }
}
