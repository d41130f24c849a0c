//! Every synchronisation primitive of the engine: parking_lot and std in a build, shuttle under `cfg(shuttle)`,
//! so that the multi-threaded engine itself runs under a seeded scheduler.

pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use std::sync::{Arc, OnceLock, Weak};
/// Atomics.
pub mod atomic {
    pub use std::sync::atomic::*;
}
