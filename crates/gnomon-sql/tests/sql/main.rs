//! Tests of SQL over sessions of databases in memory, in one binary: each binary contains the whole engine.

mod absent;
mod advisory_locks;
mod again;
mod calls;
mod cascades;
mod clauses;
mod copy_lines;
mod definitions;
mod explain;
mod exported_snapshots;
mod fuzz;
mod large;
mod limits;
mod locks;
mod memory;
mod names;
mod partitions;
mod row_lists;
mod semantic_locks;
mod sessions;
mod shared_plans;
mod slt;
mod subqueries;
mod support;
mod system_catalog;
mod timeouts;
