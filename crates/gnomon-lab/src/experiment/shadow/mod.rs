//! The experiments of T. Ylönen, "Shadow Paging Is Feasible", 1995.

pub mod tpcb;
