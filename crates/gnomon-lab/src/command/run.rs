//! `gnomon-lab run`: experiments of the papers.

use clap::Args;
use gnomon_bench::command::{ReportOptions, cancel_on_stop, parse_setting, print};
use gnomon_program::{Failure, Progress, argument::parse_measured, tell};

use crate::experiment::{self, EXPERIMENTS, Experiment, Request};

#[derive(Args)]
pub struct Run {
    /// The experiment's name, PAPER/NAME; several run one after another. `gnomon-lab list` has them all.
    ///
    /// A * stands for any text: 'semantics/*', '*'.
    #[arg(value_name = "EXPERIMENT", required = true, value_parser = parse_experiments)]
    experiments: Vec<Experiments>,
    /// Small and short, to see that it works.
    ///
    /// Settings have other values then, which `gnomon-lab list` shows. The figures tell nothing.
    #[arg(long)]
    quick: bool,
    /// How long to measure each point, in seconds.
    ///
    /// The same as `--set seconds=S`. The papers' minutes give the steadiest figures.
    #[arg(long, value_name = "S", value_parser = parse_measured)]
    seconds: Option<f64>,
    /// Change a setting; can be given several times.
    ///
    /// Of several experiments, those are changed that have it. `gnomon-lab list` has the settings of each experiment with
    /// their values and what they mean.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_setting)]
    set: Vec<(String, String)>,
    #[command(flatten)]
    report: ReportOptions,
}

/// Which experiments are listed.
#[derive(Args)]
pub struct List {
    /// Names of experiments.
    ///
    /// A * in one stands for any text. Without names, all are listed.
    #[arg(value_name = "NAME", value_parser = parse_experiments)]
    experiments: Vec<Experiments>,
}

/// Prints the list.
pub fn list(List { experiments }: &List) -> Result<(), Failure> {
    print(match experiments.is_empty() {
        true => experiment::list(EXPERIMENTS),
        false => experiment::list(experiments.iter().flat_map(|named| named.0.iter().copied())),
    })
}

/// The experiments that one name stands for.
#[derive(Clone)]
struct Experiments(Vec<&'static Experiment>);

fn parse_experiments(name: &str) -> Result<Experiments, String> {
    let named: Vec<_> = EXPERIMENTS.iter().filter(|experiment| fits(name, experiment.name)).collect();
    if named.is_empty() {
        let names: Vec<_> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
        return Err(format!("there are {}", names.join(", ")));
    }
    Ok(Experiments(named))
}

/// True if a text matches a pattern, in which a * stands for any text.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, behind)) => text.strip_prefix(before).is_some_and(|rest| {
            (0..=rest.len()).any(|at| rest.is_char_boundary(at) && fits(behind, &rest[at..]))
        }),
    }
}

pub fn run(arguments: &Run) -> Result<(), Failure> {
    let mut experiments: Vec<&'static Experiment> = Vec::new();
    for experiment in arguments.experiments.iter().flat_map(|Experiments(named)| named) {
        if !experiments.iter().any(|known| known.name == experiment.name) {
            experiments.push(experiment);
        }
    }
    let mut set = arguments.set.clone();
    set.extend(arguments.seconds.map(|seconds| ("seconds".to_owned(), seconds.to_string())));
    let fits = |name: &str, experiment: &Experiment| {
        experiment.has_setting(name) || !experiments.iter().any(|other| other.has_setting(name))
    };
    let seed = arguments.report.seed();
    let request = |experiment: &Experiment| Request {
        quick: arguments.quick,
        seed,
        set: set.iter().filter(|(name, _)| fits(name, experiment)).cloned().collect(),
        dir: arguments.report.dir.clone(),
    };
    for experiment in &experiments {
        let check = experiment::check(experiment, &request(experiment));
        check.map_err(|error| Failure::new(format!("run {}", experiment.name), error))?;
    }
    for experiment in &experiments {
        let unset =
            set.iter().filter(|(name, _)| !experiment.has_setting(name)).map(|(name, _)| name.as_str());
        let unset: Vec<&str> = unset.collect();
        if !unset.is_empty() {
            tell!("{} has no setting {}, and runs as it is", experiment.name, unset.join(", "));
        }
    }
    let out = arguments.report.out()?;
    let cancel = cancel_on_stop()?;
    for (number, experiment) in experiments.iter().enumerate() {
        let report =
            experiment::run(experiment, &request(experiment), Progress::on_stderr(experiment.name), &cancel)
                .map_err(|error| Failure::new(format!("run {}", experiment.name), error))?;
        if let Some(out) = &out {
            out.write(&report, (experiments.len() > 1).then_some(experiment.name))?;
        }
        if number > 0 && !arguments.report.json {
            print("")?;
        }
        arguments.report.print(&report)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_have_stars() {
        for (pattern, text) in [
            ("a/b", "a/b"),
            ("*", "a/b"),
            ("a/*", "a/b"),
            ("a*b", "a/b"),
            ("*/*", "a/b"),
            ("a/b*", "a/b"),
            ("*b", "bab"),
        ] {
            assert!(fits(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("a", "a/b"), ("b/*", "a/b"), ("", "a"), ("a*c", "a/b"), ("*é", "a/b")] {
            assert!(!fits(pattern, text), "{pattern} {text}");
        }
        let named = |name| parse_experiments(name).map(|Experiments(named)| named.len());
        assert_eq!((named("shadow/tpcb"), named("*")), (Ok(1), Ok(EXPERIMENTS.len())));
        assert!(named("shadow/none").unwrap_err().contains("there are shadow/tpcb, "));
    }
}
