//! Experiments of "Alternative Strategies for a Semantics-Based Operating System Transaction Manager" (Kumar and
//! Stonebraker 1987), simulated: `study.rs` has what they share.

pub mod compression;
pub mod granularity;
pub mod levels;
pub mod lock_cost;
pub mod mpl;
pub mod past;
pub mod readings;
mod study;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Experiment, check_quick_run};

    /// Quick runs, which are the same again, on any machine.
    #[test]
    fn quick_runs_compare_what_is_stated_and_repeat_themselves() {
        let all: [&'static Experiment; 9] = [
            &granularity::EXPERIMENT,
            &mpl::EXPERIMENT,
            &compression::EXPERIMENT,
            &lock_cost::EXPERIMENT,
            &levels::EXPERIMENT,
            &readings::EXPERIMENT,
            &past::SKEW,
            &past::UPPER_LEVELS,
            &past::COMPRESSION_COST,
        ];
        for experiment in all {
            check_quick_run(experiment, &[("seconds", "100"), ("warm-up", "20")]);
        }
        check_quick_run(&past::TODAY, &[("transactions", "20"), ("transactions-each", "0")]);
    }
}
