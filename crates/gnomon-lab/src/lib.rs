//! Workloads and experiments: what `gnomon bench` runs, and what the comparison programs share with it.
//!
//! - [`store`]: what a workload asks of a store, so that the same operations run against Gnomon and against others;
//! - [`drive`]: a closed loop of clients, with warm-up, latencies and aborts;
//! - [`tpcb`]: transactions of a bank with an invariant;
//! - [`experiment`]: what the papers state, measured again;
//! - [`report`]: what every workload reports, for people and as JSON;
//! - [`progress`]: a bar on a terminal, lines elsewhere.
//!
//! A workload is durable unless its settings say otherwise, repeats its operations from a seed (their interleaving is
//! the machine's), and checks at its end that what it did is what is stored.
//!
//! Not done here: comparing with other stores. They stand in a package of their own (`peers`), so that building
//! Gnomon does not build them.

pub mod drive;
pub mod experiment;
pub mod progress;
pub mod report;
pub mod row;
pub mod store;
pub mod tpcb;
