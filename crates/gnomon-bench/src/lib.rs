//! Workloads, and the comparison of recovery methods: what `gnomon bench` and `gnomon compare` run, and what the
//! experiments of `gnomon-lab` and the comparison with other embedded stores (`peers`) are made of.
//!
//! - [`store`]: the operations that a workload needs of a store, so that the same operations run against Gnomon and
//!   against others; [`store::server`]: a server as a store;
//! - [`drive`]: a closed loop of clients, with warm-up, latencies, aborts and refusals;
//! - [`workload`]: workloads over tables, each with an invariant: transactions of a bank, transfers between hot accounts,
//!   sales of few items, counters; the course of their run;
//! - [`procedure`]: workloads of registered procedures over partitions: orders of a wholesaler (TPC-C), votes by telephone;
//! - [`objects`]: transactions on complex objects, on every recovery method;
//! - [`compare`]: scripts of one's own under every recovery method;
//! - [`recovery`], [`isolation`]: recovery methods and isolation levels, by name;
//! - [`report`]: the report of a workload; [`result`]: that of a comparison or an experiment, with tables and figures;
//! - [`workspace`]: a directory for the databases of a measurement; [`command`]: the options of commands that measure.
//!
//! A workload is durable unless its settings say otherwise, repeats its operations from a seed (their interleaving is
//! the machine's), and checks at its end that the database has what was done.
//!
//! Not done here: experiments (`gnomon-lab`), and other embedded stores, which stand in a package of their own (`peers`),
//! so that building Gnomon does not build them.

pub mod command;
pub mod compare;
pub mod drive;
pub mod isolation;
pub mod objects;
pub mod procedure;
pub mod recovery;
pub mod report;
pub mod result;
pub mod store;
pub mod workload;
pub mod workspace;
