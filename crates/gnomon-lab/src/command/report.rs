//! `gnomon-lab report`: a page about the results of runs.

use std::path::PathBuf;

use clap::Args;
use gnomon_bench::{command::print, result::file};
use gnomon_program::{Failure, tell};

use crate::page::{self, Gathered};

#[derive(Args)]
pub struct Report {
    /// Where the results are.
    ///
    /// A directory that `--out` of `gnomon-lab run` or `gnomon compare` was given, or one that has such directories.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The page's file.
    ///
    /// Without it, DIR/report.html. It is replaced if it is there.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub fn run(Report { directory, out }: &Report) -> Result<(), Failure> {
    let Gathered { reports, earlier } =
        page::gather(directory).map_err(|error| Failure::new("report", error))?;
    for earlier in earlier {
        tell!("{}: left out, there is a later run of its experiment", earlier.display());
    }
    let place = out.clone().unwrap_or_else(|| directory.join("report.html"));
    let page = page::render(&reports, directory);
    file::replace(&place, &page).map_err(|error| Failure::new(place.display(), error))?;
    print(place.display())
}
