//! The program as a process: its commands, its refusals, and its page in a browser.

#![allow(clippy::disallowed_methods, reason = "tests look at results from outside")]

mod commands;
mod harness;
mod page;
