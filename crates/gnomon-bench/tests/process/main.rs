//! The program as a process.

#![allow(clippy::disallowed_methods, reason = "tests look at results from outside")]

mod compare;
mod harness;
