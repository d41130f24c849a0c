//! `gnomon lab`: experiments of the papers, in this process, and a page about their results.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Subcommand};
use gnomon::{
    env::Rng,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use gnomon_lab::{
    argument::parse_measured,
    experiment::{self, EXPERIMENTS, Experiment, Request},
    page::{self, Gathered},
    progress::Progress,
};

use crate::{Failure, signals};

#[derive(Args)]
pub struct Lab {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the experiments: what each measures, what its paper states, what can be set.
    #[command(after_help = "\
Examples:
  gnomon lab list")]
    List,
    /// Run experiments, and print what was measured beside what their papers state.
    ///
    /// Databases are made in a directory of the run's own, which is removed at the end. Ctrl-C ends a run early,
    /// without a report.
    #[command(after_help = "\
Examples:
  gnomon lab run shadow/tpcb --quick           a second, to see that it works
  gnomon lab run shadow/tpcb --out tpcb        also JSON and plots, into tpcb
  gnomon lab run shadow/tpcb --set branches=1  a hot row
  gnomon lab run 'semantics/*' --out study     all of a paper, a directory each
  gnomon lab run shadow/tpcb --json | jq .claims")]
    Run(Run),
    /// Write one HTML page about the runs whose results are in a directory.
    ///
    /// It shows what was stated beside what was measured, in figures and tables, and names the experiments that were not
    /// run. The page needs no other file. Of several runs of an experiment, it has the last one.
    #[command(after_help = "\
Examples:
  gnomon lab run 'semantics/*' --out study
  gnomon lab report study                    writes study/report.html
  gnomon lab report study --out page.html")]
    Report(Report),
}

#[derive(Args)]
struct Report {
    /// Where the results are.
    ///
    /// A directory that `gnomon lab run --out` was given, or one that has such directories.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The page's file.
    ///
    /// Without it, DIR/report.html. It is replaced if it is there.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Args)]
struct Run {
    /// The experiment's name, PAPER/NAME; several run one after another. `gnomon lab list` has them all.
    ///
    /// A * stands for any text: 'semantics/*', '*'.
    #[arg(value_name = "EXPERIMENT", required = true, value_parser = parse_experiments)]
    experiments: Vec<Experiments>,
    /// Small and short, to see that it works.
    ///
    /// Settings have other values then, which `gnomon lab list` shows. The figures tell nothing.
    #[arg(long)]
    quick: bool,
    /// How long to measure each point, in seconds.
    ///
    /// The same as `--set seconds=S`. The papers' minutes give the steadiest figures.
    #[arg(long, value_name = "S", value_parser = parse_measured)]
    seconds: Option<f64>,
    /// Where random numbers begin.
    ///
    /// Without it, a seed that no other run has. The report names it; with the same seed the choices are the same.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Change a setting; can be given several times.
    ///
    /// `gnomon lab list` has the settings of each experiment with their values and what they mean.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_setting)]
    set: Vec<(String, String)>,
    /// Where to make the databases.
    ///
    /// Without it, in the system's temporary directory. What is measured is the disk on which the directory is: a
    /// temporary directory in memory has none.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print one JSON object.
    ///
    /// It goes to standard output on one line; errors and progress stay on standard error.
    #[arg(long)]
    json: bool,
    /// Write the report into this directory too, as text, as JSON and with plots.
    ///
    /// It is made if absent. Files of an earlier run there are replaced. Of several experiments, each has a directory
    /// PAPER/NAME in it. `gnomon lab report DIR` makes a page of it.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// What one name stands for.
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

/// Whether a text is what a pattern says, in which a * stands for any text.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, behind)) => text.strip_prefix(before).is_some_and(|rest| {
            (0..=rest.len()).any(|at| rest.is_char_boundary(at) && fits(behind, &rest[at..]))
        }),
    }
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("not of the form NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub fn run(lab: &Lab) -> Result<ExitCode, Failure> {
    match &lab.command {
        Command::List => println!("{}", experiment::list()),
        Command::Run(arguments) => run_experiments(arguments)?,
        Command::Report(arguments) => report(arguments)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn run_experiments(arguments: &Run) -> Result<(), Failure> {
    let mut experiments: Vec<&'static Experiment> = Vec::new();
    for experiment in arguments.experiments.iter().flat_map(|Experiments(named)| named) {
        if !experiments.iter().any(|known| known.name == experiment.name) {
            experiments.push(experiment);
        }
    }
    let mut set = arguments.set.clone();
    set.extend(arguments.seconds.map(|seconds| ("seconds".to_owned(), seconds.to_string())));
    let request = Request {
        quick: arguments.quick,
        // A seed that people can read and type.
        seed: arguments.seed.unwrap_or_else(|| Rng::from_entropy().below(1_000_000)),
        set,
        dir: arguments.dir.clone(),
    };
    for experiment in &experiments {
        let check = experiment::check(experiment, &request);
        check.map_err(|error| Failure::new(format!("lab run {}", experiment.name), error))?;
    }
    let out = match &arguments.out {
        Some(directory) => Some(Out::make(directory)?),
        None => None,
    };
    let cancel = Arc::new(AtomicBool::new(false));
    let canceled = cancel.clone();
    signals::on_stop(move || canceled.store(true, Ordering::Release))
        .map_err(|error| Failure::new("cannot listen to signals", error))?;
    for (number, experiment) in experiments.iter().enumerate() {
        let report = experiment::run(experiment, &request, Progress::on_stderr(experiment.name), &cancel)
            .map_err(|error| Failure::new(format!("lab run {}", experiment.name), error))?;
        if arguments.json {
            println!("{}", report.to_json());
        } else {
            println!("{}{report}", if number > 0 { "\n" } else { "" });
        }
        if let Some(Out { directory, .. }) = &out {
            let of_one =
                if experiments.len() > 1 { directory.join(experiment.name) } else { directory.to_path_buf() };
            let files = report.write_to(&of_one).map_err(|error| Failure::new(of_one.display(), error))?;
            eprintln!("{}: {}", of_one.display(), files.join(", "));
        }
    }
    Ok(())
}

fn report(Report { directory, out }: &Report) -> Result<(), Failure> {
    let Gathered { reports, earlier } =
        page::gather(directory).map_err(|error| Failure::new("lab report", error))?;
    for file in earlier {
        eprintln!("{}: left out, there is a later run of its experiment", file.display());
    }
    let file = out.clone().unwrap_or_else(|| directory.join("report.html"));
    let page = page::render(&reports, directory);
    page::write(&page, &file).map_err(|error| Failure::new(file.display(), error))?;
    println!("{}", file.display());
    Ok(())
}

/// The directory of a report, made before a long run whose report would have no place. If nothing came of the run and
/// it was not there before, it goes again.
struct Out<'a> {
    directory: &'a Path,
    is_new: bool,
}

impl<'a> Out<'a> {
    fn make(directory: &'a Path) -> Result<Out<'a>, Failure> {
        let is_new = !directory.exists();
        std::fs::create_dir_all(directory).map_err(|error| Failure::new(directory.display(), error))?;
        Ok(Out { directory, is_new })
    }
}

impl Drop for Out<'_> {
    fn drop(&mut self) {
        if self.is_new {
            // Fails if there is a report in it.
            _ = std::fs::remove_dir(self.directory);
        }
    }
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
