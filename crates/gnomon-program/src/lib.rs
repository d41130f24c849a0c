//! The parts that the programs `gnomon`, `gnomon-bench` and `gnomon-lab` share.
//!
//! - [`run`]: a program with its signals and exit codes; [`Failure`]: one line that says what failed and what to do;
//! - [`Progress`]: a bar on a terminal, lines elsewhere;
//! - [`say!`], [`tell!`]: lines on standard output and standard error, which may be full;
//! - [`signals`]: Ctrl-C, SIGTERM, and signals that a program survives;
//! - [`argument`]: parsers of numbers and switches on a command line; [`help`]: rules for the help of all arguments.
//!
//! Exit codes of all programs: 0 if all went well, 1 if not (with one line on standard error that says what to do), 2
//! for arguments that make no sense; SIGPIPE when the reader of the results is gone. Results go to standard output,
//! everything else to standard error.

pub mod argument;
mod failure;
pub mod help;
mod output;
mod progress;
pub mod signals;

pub use failure::{Failure, run};
pub use output::{print_line, tell_line};
pub use progress::Progress;
