//! The program as a process: its scripts, its failures, and what a killed server has kept.

#![allow(clippy::disallowed_methods, reason = "tests look at a database from outside, in real time")]

mod access;
mod backup;
mod bench;
mod cluster;
mod cluster_access;
mod cluster_again;
mod cluster_faults;
mod cluster_foreign;
mod connections;
mod cut_short;
mod disks;
mod failures;
mod files;
mod harness;
mod history;
mod kill;
mod pgbench;
mod prepared;
mod psql;
mod scripts;
