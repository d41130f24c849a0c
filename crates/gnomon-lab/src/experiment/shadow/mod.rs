//! The experiments of T. Ylönen, "Shadow Paging Is Feasible", 1995.

pub mod cleaning;
mod limited;
mod sampling;
pub mod snapshot;
pub mod tpcb;
