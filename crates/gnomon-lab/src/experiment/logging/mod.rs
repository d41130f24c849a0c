//! The experiments of N. Malviya, "Recovery algorithms for in-memory OLTP databases", 2012: Voter and TPC-C by
//! procedures in partitions, with calls logged, what they write, or nothing.
//!
//! The absolute figures are of another machine, 8 processors of 2012, and of a system that keeps everything in memory.
//! What is compared is how the methods stand to each other. They take turns in every round, and the median over the
//! rounds counts. A stated share of a throughput holds if the measured one is within 5 points of it, another stated
//! figure if it is within a quarter; with other sizes of TPC-C than its own nothing of it is comparable.
//!
//! Not here: log records cut short, which the engine does not write ([`truncated`] does without the disk instead).

mod bare;
mod bench;
pub mod bytes;
pub mod clients;
pub mod group_commit;
pub mod hot_row;
pub mod length;
pub mod recovery;
mod sweep;
pub mod tpcc;
pub mod truncated;
pub mod voter;
