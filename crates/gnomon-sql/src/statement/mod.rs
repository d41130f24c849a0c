//! Queries, DML and CALL from syntax tree to result.
//!
//! - [`plan`]: a statement, bound and planned against a version of the catalog;
//! - [`run`]: locks its tables, plans it again if the catalog has changed meanwhile, and computes its rows;
//! - [`compiled`]: procedures, parsed and planned; [`call`]: their statements, one after another;
//!   [`replay`]: calls in the log of commits;
//! - [`lift`]: literals as parameters, so that texts share a plan;
//! - [`kept`]: rows that wait for their client; [`scroll`]: those that a cursor can go back to.

mod call;
mod compiled;
mod kept;
mod lift;
mod plan;
mod replay;
mod run;
mod scroll;

pub(crate) use compiled::{Compiled, Procedures, check_body};
pub(crate) use kept::KeptRows;
pub(crate) use lift::LiftedLiterals;
pub(crate) use plan::{Kind, Plan, plan};
pub use replay::procedures;
pub(crate) use run::{Executor, Running, begin, bind_arguments, fetch};
pub(crate) use scroll::PassedRows;
