//! Every synchronisation primitive of the engine: parking_lot and std in a build, shuttle under `cfg(shuttle)`,
//! so that the multi-threaded engine itself runs under a seeded scheduler.
//!
//! Promises: one API in both builds, in the manner of parking_lot (`lock()` returns the guard, nothing is
//! poisoned, a condition variable waits on `&mut guard`). What compiles in one build compiles in the other as long
//! as it keeps to the items listed here; the native types offer more (upgradable guards, mapped guards), which the
//! scheduled ones do not.
//!
//! - [`Mutex`], [`RwLock`], [`Condvar`] (`wait`, `wait_while`, `wait_for` a duration, `notify_one`, `notify_all`);
//! - [`Latch`], a reader-writer lock whose guards own their `Arc`, for frames of a buffer pool;
//! - [`atomic`], [`thread`], [`OnceLock`], [`Arc`], [`Weak`];
//! - [`Line`], which keeps a value that one thread changes apart from values that others read;
//! - [`prefetch`], which asks for memory before it is needed;
//! - `slot_of_thread`, which gives each thread one of several places.
//!
//! Under the scheduler there is no time: a timed wait runs out after a random number of steps of other threads,
//! however long its duration is, so that both outcomes are explored. All memory orderings are sequentially
//! consistent there; orderings too weak are not found. A thread-local of std is shared by all scheduled threads,
//! and a `HashMap` iterates in an order that no seed repeats: no result of the engine depends on either.
//!
//! Tests under the scheduler stand in modules `#[cfg(all(test, shuttle))]`, have names with `shuttle_`, call
//! `check_random`, and run by
//! `RUSTFLAGS="--cfg shuttle" cargo test -p gnomon-engine --target-dir target/shuttle shuttle_`.

#[cfg(all(test, shuttle))]
mod check;
mod line;
#[cfg(not(shuttle))]
mod native;
mod prefetch;
#[cfg(shuttle)]
mod scheduled;
mod slot;
#[cfg(test)]
mod tests;

#[cfg(all(test, shuttle))]
pub(crate) use check::{check_random, find_failing_seed, run_seed};
#[cfg(not(shuttle))]
use native as build;
#[cfg(shuttle)]
use scheduled as build;

pub use build::{
    Condvar, Latch, LatchRead, LatchWrite, Mutex, MutexGuard, OnceLock, RwLock, RwLockReadGuard,
    RwLockWriteGuard, WaitTimeoutResult, atomic, thread,
};
pub use line::Line;
pub use prefetch::prefetch;
pub(crate) use slot::slot_of_thread;
pub use std::sync::{Arc, Weak};
