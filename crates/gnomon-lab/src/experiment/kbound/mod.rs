//! Experiments of "A Performance Analysis of K-Bound, a Consistency Protocol Supporting Multiple Isolation Levels"
//! (Salinas and Muñoz-Escoí 2008), on simulated clusters: `bench.rs` has what they share.
//!
//! The state machines are those of real members, the paper's own and the one that is used; what is simulated is the
//! network, and how long it takes to execute and to apply. The paper does not say how many rows a job reads and writes,
//! how hot the hot spot is, or how long its databases took: these are settings, whose values are such that snapshot
//! transactions take as long, and fail as often, as in its Figure 2.
//!
//! [`append`] and [`nodes`] are on real members and etcd.

pub mod all;
pub mod append;
mod bench;
pub mod bounds;
pub mod mixes;
pub mod nodes;
pub mod replicas;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        experiment::{Experiment, Request, Verdict, run},
        progress::Progress,
    };

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
            let quick = || {
                let set = vec![("transactions".to_owned(), "200".to_owned())];
                let request = Request { quick: true, seed: 1, set, ..Request::default() };
                let mut report = run(experiment, &request, Progress::silent(), &Default::default()).unwrap();
                report.measured_at.clear();
                report
            };
            let report = quick();
            assert_eq!(report.claims.len(), experiment.stated.len());
            assert!(report.claims.iter().any(|claim| claim.verdict != Verdict::NotComparable));
            assert_eq!(report.to_json(), quick().to_json());
        }
    }
}
