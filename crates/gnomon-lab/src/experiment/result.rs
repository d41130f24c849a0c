//! What a run of an experiment found: its report, for people, as a JSON object, and as files in a directory.
//!
//! Promises: `result.json` has everything that the report says, so that it can be shown without this program's register
//! of experiments and on another machine; [`read`] gives it back, or says what to do instead. A format that changes so
//! that an older program would misread it gets a new number.
//!
//! Texts that the program itself has are `&'static str` in a report that was just made, and `String` in one that was
//! read: the parameter `T`.

use std::{borrow::Cow, collections::BTreeMap, fmt, path::Path};

use comfy_table::{Cell, CellAlignment, Table, presets};
use gnomon_engine::env::{Clock, SystemClock};
use serde::{Deserialize, Serialize};

use super::{Lab, Outcome, Values, machine::Machine, plot::Figure};
use crate::{
    file,
    store::{Result, StoreError},
};

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
    /// What it measures.
    pub measures: T,
    /// The version of this program.
    pub version: T,
    /// Whether it was built with debugging assertions, and so is slow.
    pub debug_build: bool,
    /// Whether it was small and short, to see that it works.
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
    /// What differs from the paper's set-up; of what is in no paper, what must be known of the figures.
    pub differences: Vec<String>,
    /// What the figures say, if that can be computed.
    pub conclusions: Vec<String>,
    /// Texts that say what was run: files of one's own.
    #[serde(default)]
    pub listings: Vec<Listing>,
    /// What the tables' headings are short for.
    pub terms: Vec<T>,
    /// What was measured, for people.
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
    /// What the figure is of.
    pub figure: T,
    /// What the paper (or, where it says so, this project) states.
    pub stated: T,
    /// What was measured.
    pub measured: String,
    /// How they compare.
    pub verdict: Verdict,
}

/// Rows of figures below a title and headings.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ResultTable<T = &'static str> {
    /// What they are.
    pub title: String,
    /// One for each column.
    pub headings: Vec<T>,
    /// As many cells each as there are headings.
    pub rows: Vec<Vec<String>>,
}

/// How a measured figure compares with the stated one. Of several, the last in this order is that of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Verdict {
    /// What is stated was measured.
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

    pub(super) fn of(holds: bool) -> Verdict {
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

/// What was run.
pub(crate) struct About {
    /// PAPER/NAME.
    pub experiment: String,
    /// Where the paper has it.
    pub source: &'static str,
    pub measures: &'static str,
    /// What its tables' headings are short for.
    pub terms: &'static [&'static str],
    pub quick: bool,
    /// That runs the same again.
    pub command: String,
}

impl Report {
    /// The report of what was found.
    pub(crate) fn new(about: About, settings: Values, lab: &Lab, outcome: Outcome) -> Report {
        Report {
            format: FORMAT,
            experiment: about.experiment,
            source: about.source,
            measures: about.measures,
            version: env!("CARGO_PKG_VERSION"),
            debug_build: cfg!(debug_assertions),
            quick: about.quick,
            seed: lab.seed,
            settings: settings.0.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            command: about.command,
            measured_at: now(),
            machine: lab.machine.clone(),
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

    /// With what the figures say.
    pub(crate) fn with_conclusions(self, conclusions: Vec<String>) -> Report {
        Report { conclusions, ..self }
    }

    /// With texts that were run.
    pub(crate) fn with_listings(self, listings: Vec<Listing>) -> Report {
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
            "not a result of `gnomon lab` as it was written ({error}): run it again, or remove the file"
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
            "by an older version, which did not store its tables: run `gnomon lab run {experiment}` again"
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

/// A word of a command as a shell reads it.
pub(crate) fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.,=/:+".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', "'\\''")).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        experiment::{Request, find, run},
        progress::Progress,
    };

    #[test]
    fn what_is_written_is_read_again_and_what_is_not_as_it_was_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let set = [("seconds", "50"), ("warm-up", "5"), ("replications", "1"), ("replications-max", "1")];
        let set = set.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let request = Request { quick: true, seed: 3, set, ..Request::default() };
        let experiment = find("semantics/mpl").unwrap();
        let mut report = run(experiment, &request, Progress::silent(), &Default::default()).unwrap();
        // Of the last digits of its many numbers nothing is promised.
        report.data = serde_json::json!({ "points": 1 });
        // What has no place in a figure has none in JSON.
        report.figures[0].panels[0].curves[0].points.push((20.0, f64::NAN));
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
        assert!(!same.tables.is_empty() && !same.terms.is_empty());

        let refused = |text: &str| {
            #[expect(clippy::disallowed_methods, reason = "a report is no part of a database")]
            std::fs::write(&file, text).unwrap();
            let error = read(&file).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{}: ", file.display())), "{error}");
            error
        };
        let json = report.to_json();
        assert!(refused(&json[..json.len() / 2]).ends_with("run it again, or remove the file"));
        assert!(refused("[]").contains("not a result of `gnomon lab`"));
        let newer = refused(&json.replacen("\"format\":1", "\"format\":2", 1));
        assert!(
            newer.contains("in format 2, ") && newer.ends_with(concat!("(", env!("CARGO_PKG_VERSION"), ")")),
            "{newer}"
        );
        let newer = refused(r#"{"experiment": "semantics/mpl", "format": 2}"#);
        assert!(newer.ends_with("(not named)"), "{newer}");
        let older = refused(r#"{"experiment": "semantics/mpl", "version": "0.0.1"}"#);
        assert!(older.ends_with("run `gnomon lab run semantics/mpl` again"), "{older}");
        assert!(read(&dir.path().join("none")).unwrap_err().to_string().contains("none: "));
    }
}
