//! The result of a comparison or of an experiment: its report, for people, as a JSON object, and as files in a directory.
//!
//! - [`Report`] is the report, made of an [`About`] and an [`Outcome`]; [`read`] reads it again;
//! - [`machine`]: the machine that it is from; [`plot`]: its figures; [`text`]: its numbers; [`mod@file`]: its files.
//!
//! Promises: `result.json` has everything that the report says, so that it can be shown without a register of experiments
//! and on another machine; [`read`] gives it back, or says what to do instead. A format that changes so that an older
//! program would misread it gets a new number.
//!
//! Texts that the program itself has are `&'static str` in a report that was just made, and `String` in one that was
//! read: the parameter `T`.

pub mod file;
pub mod machine;
pub mod plot;
pub mod text;

use std::{collections::BTreeMap, fmt, path::Path};

use comfy_table::{Cell, CellAlignment, Table, presets};
use gnomon_engine::env::{Clock, SystemClock};
use serde::{Deserialize, Serialize};

use crate::store::{Result, StoreError};
use machine::Machine;
use plot::Figure;

/// The number of the format that is written.
pub const FORMAT: u32 = 1;

/// The file's name in a report's directory.
pub const FILE: &str = "result.json";

/// The report of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report<T = &'static str> {
    /// The number of its format.
    pub format: u32,
    /// The experiment's name: PAPER/NAME.
    pub experiment: String,
    /// Where the paper has it.
    pub source: T,
    /// The quantity that it measures.
    pub measures: T,
    /// The version of this program.
    pub version: T,
    /// True if it was built with debugging assertions, and so is slow.
    pub debug_build: bool,
    /// True if it was small and short, to see that it works.
    pub quick: bool,
    /// Where random numbers began.
    pub seed: u64,
    /// How it was set.
    pub settings: BTreeMap<String, String>,
    /// The command that runs the same again.
    pub command: String,
    /// When it ended: UTC, as in RFC 3339.
    pub measured_at: String,
    /// On what it ran.
    pub machine: Machine,
    /// Stated figures beside measured ones.
    pub claims: Vec<Claim<T>>,
    /// Differences from the paper's set-up; without a paper, remarks without which the figures may be misread.
    pub differences: Vec<String>,
    /// Sentences about the figures, if they can be computed.
    pub conclusions: Vec<String>,
    /// Texts that say what was run: files of one's own.
    #[serde(default)]
    pub listings: Vec<Listing>,
    /// The meanings of the tables' headings.
    pub terms: Vec<T>,
    /// The measurements, for people.
    pub tables: Vec<ResultTable<T>>,
    /// The same drawn.
    pub figures: Vec<Figure<T>>,
    /// Everything that was measured.
    pub data: serde_json::Value,
}

/// A text that was run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    /// Its file.
    pub title: String,
    /// The text.
    pub text: String,
}

/// A stated figure beside the measured one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim<T = &'static str> {
    /// The quantity.
    pub figure: T,
    /// The statement of the paper (or, where it says so, of this project).
    pub stated: T,
    /// The measured value.
    pub measured: String,
    /// How they compare.
    pub verdict: Verdict,
}

/// Rows of figures below a title and headings.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ResultTable<T = &'static str> {
    /// Their title.
    pub title: String,
    /// One for each column.
    pub headings: Vec<T>,
    /// As many cells each as there are headings.
    pub rows: Vec<Vec<String>>,
}

/// How a measured figure compares with the stated one. Of several, the last in this order is that of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Verdict {
    /// The stated figure was measured.
    #[serde(rename = "holds")]
    Holds,
    /// Something better was measured.
    #[serde(rename = "surpassed")]
    Surpassed,
    /// Something else was measured.
    #[serde(rename = "does not hold")]
    DoesNotHold,
    /// This machine, or this run, cannot tell.
    #[serde(rename = "not comparable")]
    NotComparable,
}

impl Verdict {
    /// All of them, in their order.
    pub const ALL: [Verdict; 4] =
        [Verdict::Holds, Verdict::Surpassed, Verdict::DoesNotHold, Verdict::NotComparable];

    /// Returns the verdict on a statement that can be compared.
    pub fn of(holds: bool) -> Verdict {
        if holds { Verdict::Holds } else { Verdict::DoesNotHold }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Holds => "holds",
            Verdict::Surpassed => "surpassed",
            Verdict::DoesNotHold => "DOES NOT HOLD",
            Verdict::NotComparable => "not comparable",
        })
    }
}

/// The run that a report is about.
pub struct About {
    /// The experiment's name: PAPER/NAME.
    pub experiment: String,
    /// Where the paper has it.
    pub source: &'static str,
    /// The quantity that it measures.
    pub measures: &'static str,
    /// The meanings of the tables' headings.
    pub terms: &'static [&'static str],
    /// True if it was small and short.
    pub quick: bool,
    /// The seed of its random numbers.
    pub seed: u64,
    /// Its settings, by name.
    pub settings: BTreeMap<String, String>,
    /// The command that runs the same again.
    pub command: String,
    /// The machine that it ran on.
    pub machine: Machine,
}

/// The findings of a run.
pub struct Outcome {
    /// Stated figures beside measured ones.
    pub claims: Vec<Claim>,
    /// Differences from the paper's set-up.
    pub differences: Vec<String>,
    /// Everything that was measured: a JSON object.
    pub data: serde_json::Value,
    /// The same for people.
    pub tables: Vec<ResultTable>,
    /// The same drawn.
    pub figures: Vec<Figure>,
}

impl Report {
    /// Makes the report of a run that ends now.
    pub fn new(about: About, outcome: Outcome) -> Report {
        Report {
            format: FORMAT,
            experiment: about.experiment,
            source: about.source,
            measures: about.measures,
            version: env!("CARGO_PKG_VERSION"),
            debug_build: cfg!(debug_assertions),
            quick: about.quick,
            seed: about.seed,
            settings: about.settings,
            command: about.command,
            measured_at: now(),
            machine: about.machine,
            claims: outcome.claims,
            differences: outcome.differences,
            conclusions: Vec::new(),
            listings: Vec::new(),
            terms: about.terms.to_vec(),
            tables: outcome.tables,
            figures: outcome.figures,
            data: outcome.data,
        }
    }

    /// Adds sentences about the figures.
    #[must_use]
    pub fn with_conclusions(self, conclusions: Vec<String>) -> Report {
        Report { conclusions, ..self }
    }

    /// Adds texts that were run.
    #[must_use]
    pub fn with_listings(self, listings: Vec<Listing>) -> Report {
        Report { listings, ..self }
    }

    /// One JSON object on one line.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a report has string keys only")
    }

    /// Writes the JSON object as [`FILE`], the report as `report.txt` and each figure as an SVG file into a directory,
    /// which is made if absent. Those of an earlier report there are replaced, or removed. Returns their names.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write_to(&self, directory: &Path) -> std::io::Result<Vec<String>> {
        let mut files =
            vec![(FILE.to_owned(), self.to_json() + "\n"), ("report.txt".to_owned(), format!("{self}\n"))];
        files.extend(self.figures.iter().map(|figure| (format!("{}.svg", figure.name), figure.to_svg())));
        std::fs::create_dir_all(directory)?;
        let before = read(&directory.join(FILE)).map(|report| report.figures).unwrap_or_default();
        for (name, text) in &files {
            file::replace(&directory.join(name), text)?;
        }
        for old in before.into_iter().map(|figure| format!("{}.svg", figure.name)) {
            if !files.iter().any(|(name, _)| *name == old) && !old.contains(['/', '\\']) {
                // It may be gone.
                #[expect(clippy::disallowed_methods, reason = "a report is no part of a database")]
                let _ = std::fs::remove_file(directory.join(old));
            }
        }
        Ok(files.into_iter().map(|(name, _)| name).collect())
    }
}

/// Reads a report that [`Report::write_to`] has written.
///
/// # Errors
/// A file that cannot be read, is damaged or of another format: which one, and what to do.
pub fn read(file: &Path) -> Result<Report<String>> {
    #[derive(Deserialize)]
    struct Format {
        experiment: String,
        #[serde(default)]
        version: String,
        format: Option<u32>,
    }
    let failed = |what: String| StoreError::unexpected(format!("{}: {what}", file.display()));
    let damaged = |error: serde_json::Error| {
        failed(format!(
            "not a result of `gnomon compare` or `gnomon-lab run` as it was written ({error}): run it again, or remove the file"
        ))
    };
    let text = std::fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
    let Format { experiment, version, format } = serde_json::from_str(&text).map_err(damaged)?;
    match format {
        Some(FORMAT) => serde_json::from_str(&text).map_err(damaged),
        Some(newer) if newer > FORMAT => Err(failed(format!(
            "in format {newer}, and this program reads format {FORMAT}: use the version of gnomon that wrote it ({})",
            if version.is_empty() { "not named" } else { &version }
        ))),
        _ => Err(failed(format!(
            "by an older version, which did not store its tables: run `gnomon-lab run {experiment}` again"
        ))),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.experiment, self.source)?;
        let build = if self.debug_build { ", a debug build: its speeds tell nothing" } else { "" };
        let quick = if self.quick { ", a quick run: its figures show only that it works" } else { "" };
        writeln!(f, "gnomon {}{build}{quick}", self.version)?;
        let settings: Vec<_> = self.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        writeln!(f, "settings: {}, seed {}", settings.join(" "), self.seed)?;
        for ResultTable { title, headings, rows } in &self.tables {
            writeln!(f, "\n{title}")?;
            let mut table = Table::new();
            table.load_style(presets::ASCII_MARKDOWN);
            table.set_header(headings.clone());
            for row in rows {
                table.add_row(row.iter().map(|cell| Cell::new(cell).set_alignment(CellAlignment::Right)));
            }
            writeln!(f, "{table}")?;
        }
        if !self.claims.is_empty() {
            let mut claims = Table::new();
            claims.load_style(presets::ASCII_MARKDOWN);
            claims.set_header(["figure", "stated", "measured", "verdict"]);
            for claim in &self.claims {
                claims.add_row([claim.figure, claim.stated, &claim.measured, &claim.verdict.to_string()]);
            }
            write!(f, "\n{claims}")?;
        }
        for conclusion in &self.conclusions {
            write!(f, "\n{conclusion}")?;
        }
        if !self.terms.is_empty() {
            write!(f, "\n\nIn the tables:")?;
        }
        for term in &self.terms {
            write!(f, "\n- {term}")?;
        }
        if !self.differences.is_empty() {
            let heading = if self.claims.is_empty() { "Notes" } else { "What differs from the paper" };
            write!(f, "\n\n{heading}:")?;
        }
        for difference in &self.differences {
            write!(f, "\n- {difference}")?;
        }
        Ok(())
    }
}

/// The time, in whole seconds.
fn now() -> String {
    let seconds = SystemClock::new().unix_time().as_secs().cast_signed();
    jiff::Timestamp::from_second(seconds).map_or_else(|_| String::new(), |now| now.to_string())
}

#[cfg(test)]
mod tests {
    use super::{
        plot::{Axis, Curve, Panel, Scale},
        *,
    };

    fn report() -> Report {
        let axis = |label| Axis { label, scale: Scale::Linear };
        // A value that has no place in a figure has none in JSON.
        let curve = Curve { label: "DBMS".into(), points: vec![(5.0, 0.4), (15.0, 0.36), (20.0, f64::NAN)] };
        let panel = Panel { x: axis("level"), y: axis("tps"), curves: vec![curve], stated: Vec::new() };
        let about = About {
            experiment: "semantics/mpl".into(),
            source: "a paper",
            measures: "throughput by multiprogramming level",
            terms: &["tps: transactions a second"],
            quick: true,
            seed: 3,
            settings: [("seconds".to_owned(), "50".to_owned())].into(),
            command: "gnomon-lab run semantics/mpl --quick --seed 3".into(),
            machine: Machine::here(Path::new("/")),
        };
        let claim = Claim {
            figure: "throughput",
            stated: "rises sharply",
            measured: "rises".into(),
            verdict: Verdict::NotComparable,
        };
        let table = ResultTable {
            title: "Throughput".into(),
            headings: vec!["level", "tps"],
            rows: vec![vec!["5".into(), "0.40".into()]],
        };
        let figure = Figure { name: "mpl".into(), title: "Throughput".into(), panels: vec![panel] };
        let outcome = Outcome {
            claims: vec![claim],
            differences: vec!["the text leaves things open".into()],
            data: serde_json::json!({ "points": 1 }),
            tables: vec![table],
            figures: vec![figure],
        };
        let listing = Listing { title: "script.sql".into(), text: "SELECT 1;".into() };
        Report::new(about, outcome).with_conclusions(vec!["It rises.".into()]).with_listings(vec![listing])
    }

    #[test]
    fn a_report_is_read_as_it_was_written_and_other_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let report = report();
        report.write_to(dir.path()).unwrap();
        let file = dir.path().join(FILE);
        let same = read(&file).unwrap();
        assert_eq!(serde_json::to_string(&same).unwrap(), report.to_json());
        assert!(
            same.measured_at.ends_with('Z') && same.measured_at.starts_with("20"),
            "{}",
            same.measured_at
        );
        assert_eq!(same.figures[0].panels[0].curves[0].points.len(), 2);

        let refused = |text: &str| {
            #[expect(clippy::disallowed_methods, reason = "a report is no part of a database")]
            std::fs::write(&file, text).unwrap();
            let error = read(&file).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{}: ", file.display())), "{error}");
            error
        };
        let json = report.to_json();
        assert!(refused(&json[..json.len() / 2]).ends_with("run it again, or remove the file"));
        assert!(refused("[]").contains("not a result of `gnomon compare` or "));
        let newer = refused(&json.replacen("\"format\":1", "\"format\":2", 1));
        assert!(
            newer.contains("in format 2, ") && newer.ends_with(concat!("(", env!("CARGO_PKG_VERSION"), ")")),
            "{newer}"
        );
        let newer = refused(r#"{"experiment": "semantics/mpl", "format": 2}"#);
        assert!(newer.ends_with("(not named)"), "{newer}");
        let older = refused(r#"{"experiment": "semantics/mpl", "version": "0.0.1"}"#);
        assert!(older.ends_with("run `gnomon-lab run semantics/mpl` again"), "{older}");
        assert!(read(&dir.path().join("none")).unwrap_err().to_string().contains("none: "));
    }
}
