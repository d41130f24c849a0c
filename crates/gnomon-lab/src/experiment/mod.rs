//! Experiments: what the papers state, measured again on Gnomon; what `gnomon-lab` runs.
//!
//! - [`EXPERIMENTS`] is the register: name, source, what the source states, settings, and what runs it;
//! - [`run`] runs one and returns its [`Report`];
//! - [`shadow`]: the experiments of "Shadow Paging Is Feasible";
//! - [`multilevel`]: the experiments of "A Performance Evaluation of Multi-Level Transaction Management";
//! - [`logging`]: the experiments of "Recovery algorithms for in-memory OLTP databases";
//! - [`semantics`]: the experiments of "Alternative Strategies for a Semantics-Based Operating System Transaction Manager",
//!   simulated;
//! - [`kbound`]: the experiments of "A Performance Analysis of K-Bound", simulated;
//! - [`operations`]: locks by meaning, this project's own.
//!
//! Promises: a report names everything that its figures depend on (settings, seed, version, machine), puts each stated
//! figure beside the measured one with a verdict, and says what differs in the set-up. A workload that ends with a broken
//! invariant is a failure, not a figure. Databases are made in a directory of the run's own, which is removed when it
//! ends, however it ends.

use std::{cmp, collections::BTreeMap, fmt, path::PathBuf, str::FromStr};

use gnomon_bench::{
    result::{About, Outcome, Report, Verdict, text::quoted},
    store::{Result, StoreError},
    workspace::Workspace,
};
use gnomon_engine::sync::{Arc, atomic::AtomicBool};
use gnomon_program::Progress;

pub mod kbound;
pub mod logging;
pub mod multilevel;
pub mod operations;
pub mod semantics;
pub mod shadow;

/// All experiments, in the order in which they are listed.
pub const EXPERIMENTS: &[Experiment] = &[
    shadow::tpcb::EXPERIMENT,
    shadow::cleaning::EXPERIMENT,
    shadow::snapshot::EXPERIMENT,
    multilevel::disjoint::EXPERIMENT,
    multilevel::sensitivity::EXPERIMENT,
    multilevel::foreign::EXPERIMENT,
    multilevel::sharing::EXPERIMENT,
    multilevel::logs::EXPERIMENT,
    multilevel::parallel::EXPERIMENT,
    multilevel::simulated::EXPERIMENT,
    multilevel::warmstart::EXPERIMENT,
    logging::voter::EXPERIMENT,
    logging::tpcc::EXPERIMENT,
    logging::bytes::EXPERIMENT,
    logging::truncated::EXPERIMENT,
    logging::recovery::EXPERIMENT,
    logging::group_commit::EXPERIMENT,
    logging::length::EXPERIMENT,
    logging::clients::EXPERIMENT,
    logging::hot_row::EXPERIMENT,
    semantics::granularity::EXPERIMENT,
    semantics::mpl::EXPERIMENT,
    semantics::compression::EXPERIMENT,
    semantics::lock_cost::EXPERIMENT,
    semantics::levels::EXPERIMENT,
    semantics::readings::EXPERIMENT,
    semantics::past::SKEW,
    semantics::past::UPPER_LEVELS,
    semantics::past::COMPRESSION_COST,
    semantics::past::TODAY,
    kbound::bounds::EXPERIMENT,
    kbound::mixes::SER_GSI,
    kbound::mixes::SER_GSI_WRITES,
    kbound::all::ALL,
    kbound::all::ALL_WITHOUT_SER,
    kbound::replicas::EXPERIMENT,
    kbound::append::EXPERIMENT,
    operations::hot_rows::EXPERIMENT,
    operations::patterns::EXPERIMENT,
];

/// An experiment.
pub struct Experiment {
    /// Its name: the paper's, and its own.
    pub name: &'static str,
    /// Where the paper has it; of this project's own, what it is about.
    pub source: &'static str,
    /// What it measures.
    pub measures: &'static str,
    /// What the paper (or, where it says so, this project) states.
    pub stated: &'static [&'static str],
    /// What can be set: its own, and what it has in common with others.
    pub settings: &'static [&'static [Setting]],
    /// What its tables' headings are short for.
    pub terms: &'static [&'static str],
    run: fn(&Values, &mut Workspace) -> Result<Outcome>,
}

impl Experiment {
    fn settings(&self) -> impl Iterator<Item = &'static Setting> {
        self.settings.iter().copied().flatten()
    }

    /// Whether it has a setting of this name.
    pub fn has_setting(&self, name: &str) -> bool {
        self.settings().any(|setting| setting.name == name)
    }
}

/// Something about an experiment that can be set.
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// What it is, and in which unit.
    pub help: &'static str,
    /// Its value unless set.
    pub full: &'static str,
    /// Its value in a quick run, unless set.
    pub quick: &'static str,
}

impl Setting {
    /// One that has the same value in a quick run.
    const fn same(name: &'static str, help: &'static str, value: &'static str) -> Setting {
        Setting { name, help, full: value, quick: value }
    }

    /// The same with another value of its own.
    const fn at(self, value: &'static str) -> Setting {
        Setting { full: value, quick: value, ..self }
    }

    fn own(&self, quick: bool) -> &'static str {
        if quick { self.quick } else { self.full }
    }
}

/// What is to be run.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Small and short, to see that it works.
    pub quick: bool,
    /// Where random numbers begin.
    pub seed: u64,
    /// Settings that are not to have their own values: name and value.
    pub set: Vec<(String, String)>,
    /// Where the databases are made (and removed); none takes the system's temporary directory.
    pub dir: Option<PathBuf>,
}

/// The values of an experiment's settings, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values(BTreeMap<&'static str, String>);

impl Values {
    fn new(experiment: &Experiment, request: &Request) -> Result<Values> {
        let own = |setting: &'static Setting| (setting.name, setting.own(request.quick).to_owned());
        let mut values: BTreeMap<&'static str, String> = experiment.settings().map(own).collect();
        for (name, value) in &request.set {
            let Some(known) = values.get_mut(name.as_str()) else {
                let names: Vec<_> = experiment.settings().map(|setting| setting.name).collect();
                return Err(StoreError::unexpected(format!(
                    "{} has no setting '{name}': it has {}",
                    experiment.name,
                    names.join(", ")
                )));
            };
            value.clone_into(known);
        }
        Ok(Values(values))
    }

    /// Whether there is a setting of this name.
    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn text(&self, name: &str) -> Result<&str> {
        self.0
            .get(name)
            .map(String::as_str)
            .ok_or_else(|| StoreError::unexpected(format!("there is no setting '{name}'")))
    }

    /// A number within bounds.
    fn number<T: FromStr + PartialOrd + fmt::Display>(&self, name: &str, min: T, max: T) -> Result<T> {
        self.list(name, min, max)?.pop().ok_or_else(|| StoreError::unexpected(format!("'{name}' is empty")))
    }

    /// Numbers within bounds, separated by commas.
    fn list<T: FromStr + PartialOrd + fmt::Display>(&self, name: &str, min: T, max: T) -> Result<Vec<T>> {
        let part = |part: &str| match part.trim().parse::<T>() {
            Ok(number) if number >= min && number <= max => Ok(number),
            _ => Err(StoreError::unexpected(format!("{name}: '{part}' is not a number from {min} to {max}"))),
        };
        self.text(name)?.split(',').map(part).collect()
    }

    /// Words of a few, separated by commas.
    fn words<T: Copy>(&self, name: &str, known: &[(&str, T)]) -> Result<Vec<T>> {
        let word = |word: &str| {
            let found = known.iter().find(|(known, _)| *known == word.trim());
            found.map(|(_, meant)| *meant).ok_or_else(|| {
                let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
                StoreError::unexpected(format!("{name}: '{word}' is none of {}", names.join(", ")))
            })
        };
        self.text(name)?.split(',').map(word).collect()
    }
}

/// A list of experiments for people: what each measures, what is stated, and what can be set.
pub fn list<'e>(experiments: impl IntoIterator<Item = &'e Experiment>) -> String {
    let mut text = String::new();
    for experiment in experiments {
        text += &format!("{}: {}\n  {}\n", experiment.name, experiment.source, experiment.measures);
        for stated in experiment.stated {
            text += &format!("  stated: {stated}\n");
        }
        for Setting { name, help, full, quick } in experiment.settings() {
            text += &format!("  {name}={full} ({quick} if quick): {help}\n");
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
}

/// Whether an experiment has the settings that a request names.
///
/// # Errors
/// That it has not.
pub fn check(experiment: &Experiment, request: &Request) -> Result<()> {
    Values::new(experiment, request).map(drop)
}

/// Runs an experiment. `cancel` ends it early, which then fails.
///
/// # Errors
/// Settings that make no sense, failures of the database or the disk, and broken invariants.
pub fn run(
    experiment: &'static Experiment,
    request: &Request,
    progress: Progress,
    cancel: &Arc<AtomicBool>,
) -> Result<Report> {
    let settings = Values::new(experiment, request)?;
    let mut workspace = Workspace::new(progress, cancel, request.seed, request.dir.as_deref())?;
    let about = About {
        experiment: experiment.name.to_owned(),
        source: experiment.source,
        measures: experiment.measures,
        terms: experiment.terms,
        quick: request.quick,
        seed: request.seed,
        command: command(experiment, request, &settings),
        settings: settings.0.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        machine: workspace.machine.clone(),
    };
    let outcome = (experiment.run)(&settings, &mut workspace)?;
    Ok(Report::new(about, outcome))
}

/// The command that runs the same again, for a shell: with whatever is not as it would be by itself.
fn command(experiment: &Experiment, request: &Request, values: &Values) -> String {
    let mut words = vec!["gnomon-lab run".to_owned(), experiment.name.to_owned()];
    if request.quick {
        words.push("--quick".to_owned());
    }
    words.push(format!("--seed {}", request.seed));
    for setting in experiment.settings() {
        if let Some(value) = values.0.get(setting.name).filter(|value| *value != setting.own(request.quick)) {
            words.push(format!("--set {}", quoted(&format!("{}={value}", setting.name))));
        }
    }
    if let Some(directory) = &request.dir {
        words.push(format!("--dir {}", quoted(&directory.to_string_lossy())));
    }
    words.join(" ")
}

/// Whether a figure is within a quarter of what is stated.
fn is_near(measured: f64, stated: f64) -> bool {
    (stated / 1.25..=stated * 1.25).contains(&measured)
}

/// Of what holds, if it is comparable.
fn verdict(comparable: bool, holds: Option<bool>) -> Verdict {
    match holds {
        Some(holds) if comparable => Verdict::of(holds),
        _ => Verdict::NotComparable,
    }
}

/// Compares a figure with one that is stated about. `better`: how it compares with that if it is better.
fn verdict_about(comparable: bool, measured: Option<f64>, stated: f64, better: cmp::Ordering) -> Verdict {
    let is_better = |measured: f64| {
        measured.is_finite() && measured > 0.0 && measured.partial_cmp(&stated) == Some(better)
    };
    match measured {
        Some(measured) if comparable && is_better(measured) && !is_near(measured, stated) => {
            Verdict::Surpassed
        }
        _ => verdict(comparable, measured.map(|measured| is_near(measured, stated))),
    }
}

/// Checks of tests that a quick run compares what is stated, and is the same again.
#[cfg(test)]
fn check_quick_run(experiment: &'static Experiment, set: &[(&str, &str)]) {
    let quick = || {
        let set = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let request = Request { quick: true, seed: 1, set, ..Request::default() };
        let mut report = run(experiment, &request, Progress::silent(), &Default::default()).unwrap();
        report.measured_at.clear();
        report
    };
    let report = quick();
    assert_eq!(report.claims.len(), experiment.stated.len());
    assert!(report.claims.iter().any(|claim| claim.verdict != Verdict::NotComparable));
    assert_eq!(report.to_json(), quick().to_json());
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_list_is_as_it_was_reviewed() {
        assert_eq!(
            list(EXPERIMENTS) + "\n",
            include_str!("list.txt"),
            "if the new one is meant: gnomon-lab list > crates/gnomon-lab/src/experiment/list.txt"
        );
    }

    #[test]
    fn names_are_unique_and_stated_figures_are_there() {
        let names: BTreeSet<_> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
        assert_eq!(names.len(), EXPERIMENTS.len());
        for experiment in EXPERIMENTS {
            let names: BTreeSet<_> = experiment.settings().map(|setting| setting.name).collect();
            assert_eq!(names.len(), experiment.settings().count(), "{}", experiment.name);
            assert!(!experiment.stated.is_empty());
        }
    }

    #[test]
    fn settings_that_make_no_sense_are_refused_with_what_would() {
        let refused = |name: &str, value: &str| {
            let request =
                Request { quick: true, set: vec![(name.into(), value.into())], ..Request::default() };
            let run = run(&EXPERIMENTS[0], &request, Progress::silent(), &Arc::default());
            run.err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert!(refused("colour", "red").contains("it has levels, "), "{}", refused("colour", "red"));
        assert_eq!(refused("levels", "1,x"), "levels: 'x' is not a number from 1 to 1024");
        assert_eq!(refused("runs", "0"), "runs: '0' is not a number from 1 to 100");
        assert_eq!(refused("seconds", ""), "seconds: '' is not a number from 0.01 to 86400");
    }

    #[test]
    fn a_report_has_the_command_that_runs_it_again() {
        let of = |request: &Request| {
            let experiment = &EXPERIMENTS[0];
            command(experiment, request, &Values::new(experiment, request).unwrap())
        };
        let mut request = Request { quick: true, seed: 7, ..Request::default() };
        assert_eq!(of(&request), "gnomon-lab run shadow/tpcb --quick --seed 7");
        request.set = [("runs", "1"), ("levels", "1, 2"), ("seconds", "0.5")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec();
        request.dir = Some("it's here".into());
        assert_eq!(
            of(&request),
            "gnomon-lab run shadow/tpcb --quick --seed 7 --set 'levels=1, 2' --set seconds=0.5 --dir 'it'\\''s here'",
            "what is set to its own value need not be said"
        );
    }

    #[test]
    fn stated_figures_are_compared_within_a_quarter_and_with_the_stated_settings_only() {
        assert!(is_near(2.0, 2.5) && is_near(3.1, 2.5) && !is_near(1.9, 2.5) && !is_near(3.2, 2.5));
        assert!(!is_near(f64::NAN, 2.5) && !is_near(f64::INFINITY, 2.5));
        for (measured, better, expected) in [
            (2.0, cmp::Ordering::Greater, Verdict::Holds),
            (1.0, cmp::Ordering::Greater, Verdict::DoesNotHold),
            (9.0, cmp::Ordering::Greater, Verdict::Surpassed),
            (1.0, cmp::Ordering::Less, Verdict::Surpassed),
            (0.0, cmp::Ordering::Less, Verdict::DoesNotHold),
            (f64::INFINITY, cmp::Ordering::Greater, Verdict::DoesNotHold),
            (f64::NAN, cmp::Ordering::Greater, Verdict::DoesNotHold),
        ] {
            assert_eq!(verdict_about(true, Some(measured), 2.5, better), expected, "{measured}");
        }
        assert_eq!(verdict_about(false, Some(9.0), 2.5, cmp::Ordering::Greater), Verdict::NotComparable);
        assert_eq!(verdict(true, Some(true)), Verdict::Holds);
        assert_eq!(verdict(true, Some(false)), Verdict::DoesNotHold);
        assert_eq!(verdict(false, Some(true)), Verdict::NotComparable);
        assert_eq!(verdict(true, None), Verdict::NotComparable);
    }

    #[test]
    fn a_canceled_run_fails_and_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let cancel = Arc::new(AtomicBool::new(true));
        for experiment in EXPERIMENTS {
            let request = Request { quick: true, dir: Some(dir.path().into()), ..Request::default() };
            let error = run(experiment, &request, Progress::silent(), &cancel).err().unwrap();
            assert_eq!(error.to_string(), "canceled");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
