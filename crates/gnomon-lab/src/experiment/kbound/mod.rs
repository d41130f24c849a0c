//! Experiments of "A Performance Analysis of K-Bound, a Consistency Protocol Supporting Multiple Isolation Levels"
//! (Salinas and Muñoz-Escoí 2008), on simulated clusters: `bench.rs` has what they share.
//!
//! The state machines are those of real members, the paper's own and the one that is used; what is simulated is the
//! network, and how long it takes to execute and to apply. The paper does not say how many rows a job reads and writes,
//! how hot the hot spot is, or how long its databases took: these are settings, whose values are such that snapshot
//! transactions take as long, and fail as often, as in its Figure 2.
//!
//! `members.rs` has the same job on real members and etcd, by the setting `on`; [`append`] is about their commits beside
//! bare appends.

pub mod all;
pub mod append;
mod bench;
pub mod bounds;
mod members;
pub mod mixes;
pub mod replicas;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Experiment, check_quick_run};

    /// Quick runs, which are the same again.
    #[test]
    fn quick_runs_compare_what_is_stated_and_repeat_themselves() {
        let all: [&'static Experiment; 6] = [
            &bounds::EXPERIMENT,
            &mixes::SER_GSI,
            &mixes::SER_GSI_WRITES,
            &all::ALL,
            &all::ALL_WITHOUT_SER,
            &replicas::EXPERIMENT,
        ];
        for experiment in all {
            check_quick_run(experiment, &[("transactions", "200")]);
        }
    }
}
