//! Workloads and experiments: what `gnomon bench` runs, and what the comparison programs share with it.
//!
//! - [`store`]: what a workload asks of a store, so that the same operations run against Gnomon and against others;
//! - [`sql`]: a server as a store;
//! - [`drive`]: a closed loop of clients, with warm-up, latencies, aborts and refusals;
//! - [`workload`]: what workloads have in common, and the course of a run; [`argument`]: what their numbers may be;
//! - [`tpcb`]: transactions of a bank with an invariant;
//! - [`hotspot`], [`stock`], [`counter`]: transfers between hot accounts, sales of few items, counters that may not be
//!   there yet, each with an invariant; [`zipf`] has the skew;
//! - [`tpcc`], [`voter`]: orders of a wholesaler and votes by telephone, as registered procedures over partitions
//!   ([`calls`] runs them); [`fields`] has how their rows and parameters are encoded;
//! - [`objects`]: transactions on complex objects, on every recovery method;
//! - [`simulation`]: processes in virtual time; [`semantics`]: a simulated system whose transaction manager knows more or
//!   less of what it manages;
//! - [`experiment`]: what the papers state, measured again; [`page`]: what that found, as an HTML page;
//! - [`compare`]: scripts of one's own under every recovery method;
//! - [`recovery`]: how databases recover, by name;
//! - [`report`]: what every workload reports, for people and as JSON;
//! - [`mod@file`]: files that are there as a whole;
//! - [`progress`]: a bar on a terminal, lines elsewhere.
//!
//! A workload is durable unless its settings say otherwise, repeats its operations from a seed (their interleaving is
//! the machine's), and checks at its end that what it did is what is stored.
//!
//! Not done here: comparing with other embedded stores. They stand in a package of their own (`peers`), so that
//! building Gnomon does not build them.

pub mod argument;
pub mod calls;
pub mod compare;
pub mod counter;
pub mod drive;
pub mod experiment;
pub mod fields;
pub mod file;
pub mod hotspot;
pub mod objects;
pub mod page;
pub mod progress;
pub mod recovery;
pub mod report;
pub mod row;
pub mod semantics;
pub mod simulation;
pub mod sql;
pub mod stock;
pub mod store;
pub mod tpcb;
pub mod tpcc;
pub mod voter;
mod window;
pub mod workload;
pub mod zipf;
