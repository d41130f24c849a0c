//! A simulation of how much a transaction manager knows of what it manages.
//! (A. Kumar, M. Stonebraker, "Alternative Strategies for a Semantics-Based Operating System Transaction Manager",
//! Memorandum UCB/ERL M87/19, 1987.)
//!
//! A fixed number of transactions reads and changes a million records through indexes, on a processor and some disks with
//! a buffer. A manager within the database is compared with one within the operating system, which locks and logs granules
//! of pages, and may know more or less of what they are ([`parameters`]).
//!
//! - [`parameters`]: the study's, by its names, the readings of what its text leaves open, and what it leaves for later;
//! - [`workload`]: transactions, as they are chosen;
//! - [`buffer`]: pages in memory;
//! - [`model`]: transactions at work.
//!
//! As in the study, deadlocks end by a timeout. Read into it: an abort takes no time, and what it has written stays
//! written; each commit writes a page of the log of its own. Unless a parameter says otherwise, nodes of indexes do not split, so that only
//! leaves change.

pub mod buffer;
pub mod model;
pub mod parameters;
pub mod workload;

#[cfg(test)]
mod tests;
