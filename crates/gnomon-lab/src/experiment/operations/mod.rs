//! Experiments on what operations mean: this project's own.

pub mod hot_rows;
pub mod patterns;
