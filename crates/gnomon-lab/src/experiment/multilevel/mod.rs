//! The experiments of C. Hasse and G. Weikum, "A Performance Evaluation of Multi-Level Transaction Management", 1991:
//! their benchmark ([`gnomon_bench::objects`]) on the engine's own strategies.
//!
//! The absolute figures are of another machine, 12 processors of 1991. What is compared is how the strategies stand to
//! each other, and which part of the time is waited. A stated figure holds if the measured one is within a quarter of
//! it, unless a claim says otherwise; with other settings than the paper's nothing is comparable.

mod bench;
pub mod disjoint;
pub mod foreign;
pub mod logs;
pub mod parallel;
pub mod sensitivity;
pub mod sharing;
pub mod simulated;
mod sweep;
pub mod warmstart;
