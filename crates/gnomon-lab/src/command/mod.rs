//! The commands of the program: the experiments are listed and run (`run.rs`), and their results become a page
//! (`report.rs`).

pub mod report;
pub mod run;
