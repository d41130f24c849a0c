//! The primitives of a build: parking_lot and std.

pub use parking_lot::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
};
pub use std::sync::{OnceLock, atomic};

/// A reader-writer lock for one object in memory, held for short and never while waiting for a lock of a
/// transaction. [`read_arc`](parking_lot::lock_api::RwLock::read_arc), `write_arc`, `try_read_arc` and
/// `try_write_arc` take an `&Arc<Latch<T>>` and return guards that own a clone of it.
///
/// Fair enough: a waiting writer keeps new readers out, so a thread that holds it shared must not ask again.
pub type Latch<T> = parking_lot::RwLock<T>;
/// Holds a [`Latch`] shared.
pub type LatchRead<T> = parking_lot::ArcRwLockReadGuard<parking_lot::RawRwLock, T>;
/// Holds a [`Latch`] exclusively.
pub type LatchWrite<T> = parking_lot::ArcRwLockWriteGuard<parking_lot::RawRwLock, T>;

/// Threads.
pub mod thread {
    pub use std::thread::{
        JoinHandle, Result, Scope, ScopedJoinHandle, Thread, ThreadId, current, park, park_timeout, scope,
        yield_now,
    };
    use std::{io, time::Duration};

    /// Starts a thread.
    #[expect(clippy::disallowed_methods, reason = "this is where the engine's threads come from")]
    pub fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        std::thread::spawn(f)
    }

    /// Starts a thread with a name, which debuggers show. Fails when the system has no thread left to give.
    pub fn spawn_named<T: Send + 'static>(
        name: impl Into<String>,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        std::thread::Builder::new().name(name.into()).spawn(f)
    }

    /// Starts a thread with a name and a stack of `stack_bytes`.
    pub fn spawn_sized<T: Send + 'static>(
        name: impl Into<String>,
        stack_bytes: usize,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        std::thread::Builder::new().name(name.into()).stack_size(stack_bytes).spawn(f)
    }

    /// Starts a thread of a scope. Fails when the system has no thread left to give.
    pub fn spawn_scoped<'scope, T: Send + 'scope>(
        scope: &'scope Scope<'scope, '_>,
        f: impl FnOnce() -> T + Send + 'scope,
    ) -> io::Result<ScopedJoinHandle<'scope, T>> {
        std::thread::Builder::new().spawn_scoped(scope, f)
    }

    /// Sleeps for a duration.
    #[expect(clippy::disallowed_methods, reason = "this is where the engine sleeps")]
    pub fn sleep(duration: Duration) {
        std::thread::sleep(duration);
    }
}
