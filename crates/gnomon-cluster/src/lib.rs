//! Replication of Gnomon databases: every member has all data, changes come to all in one order, and each transaction
//! picks its isolation and how stale its snapshot may be.
//!
//! - [`protocol`]: the state machine that says what commits;
//! - [`order`]: the log that orders what members say;
//! - [`node`]: a member at work, with its database;
//! - [`simulation`]: clusters of such state machines in virtual time, with networks that fail.

pub mod node;
pub mod order;
pub mod protocol;
pub mod simulation;
