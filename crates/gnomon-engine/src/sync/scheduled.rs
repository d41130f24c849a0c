//! The primitives under shuttle's scheduler, with the API of the native ones.
//!
//! All scheduled threads share one thread of the system and switch only inside shuttle's primitives. State that
//! is touched between two switches may therefore lie under a parking_lot lock, which is then always free.

use parking_lot::lock_api::{ArcRwLockReadGuard, ArcRwLockWriteGuard};
use parking_lot::{Mutex as Unscheduled, RawRwLock};
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync as scheduler;
use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::{
        Arc, PoisonError, TryLockError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

pub use shuttle::sync::{RwLockReadGuard, RwLockWriteGuard, atomic};

/// A timed wait runs out after fewer steps of the waiter than this, unless it is notified before.
const TIMED_WAIT_STEPS_MAX: usize = 24;

/// A mutual exclusion lock.
#[derive(Default)]
pub struct Mutex<T: ?Sized>(scheduler::Mutex<T>);

/// Holds a [`Mutex`].
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    /// None only inside [`Condvar::wait`].
    held: Option<scheduler::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    /// Makes a lock that is free.
    pub const fn new(value: T) -> Self {
        Mutex(scheduler::Mutex::new(value))
    }

    /// Unwraps the value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    fn acquire(&self) -> scheduler::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the lock is free, then takes it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self, held: Some(self.acquire()) }
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let held = match self.0.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(held)) => held.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(MutexGuard { mutex: self, held: Some(held) })
    }

    /// The value, which a mutable reference holds anyway.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect("a guard in use holds its lock")
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("a guard in use holds its lock")
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Mutex::new(value)
    }
}

/// The result of a timed wait: true if the time ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// True if the time ran out before a notification.
    pub fn timed_out(self) -> bool {
        self.0
    }
}

/// A condition variable. Shuttle's own has no timed wait, so this one is made of parking: a waiter puts itself
/// on the list before it gives the mutex away, and a notification takes it off the list.
#[derive(Default)]
pub struct Condvar {
    waiters: Unscheduled<Vec<Arc<Waiter>>>,
}

struct Waiter {
    notified: AtomicBool,
    thread: shuttle::thread::Thread,
}

/// A waiter's place on the list, left when the wait ends, by unwinding too.
struct Place<'a> {
    condvar: &'a Condvar,
    waiter: Arc<Waiter>,
}

impl Place<'_> {
    fn notified(&self) -> bool {
        self.waiter.notified.load(Ordering::Relaxed)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.condvar.waiters.lock().retain(|waiter| !Arc::ptr_eq(waiter, &self.waiter));
    }
}

impl Condvar {
    /// Makes a condition variable without waiters.
    pub const fn new() -> Self {
        Condvar { waiters: parking_lot::const_mutex(Vec::new()) }
    }

    fn enter(&self) -> Place<'_> {
        let waiter =
            Arc::new(Waiter { notified: AtomicBool::new(false), thread: shuttle::thread::current() });
        self.waiters.lock().push(waiter.clone());
        Place { condvar: self, waiter }
    }

    /// Gives the mutex away, waits for a notification, and takes the mutex again.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        let place = self.enter();
        guard.held = None;
        while !place.notified() {
            shuttle::thread::park();
        }
        drop(place);
        guard.held = Some(guard.mutex.acquire());
    }

    /// Waits until the condition is false.
    pub fn wait_while<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) {
        while condition(&mut **guard) {
            self.wait(guard);
        }
    }

    /// Waits for a notification, but not for ever: the scheduler decides when the time has run out.
    pub fn wait_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        _duration: Duration,
    ) -> WaitTimeoutResult {
        let place = self.enter();
        guard.held = None;
        for _ in 0..thread_rng().gen_range(0..TIMED_WAIT_STEPS_MAX) {
            if place.notified() {
                break;
            }
            shuttle::thread::yield_now();
        }
        let timed_out = !place.notified();
        drop(place);
        guard.held = Some(guard.mutex.acquire());
        WaitTimeoutResult(timed_out)
    }

    /// Wakes a random waiter; false if there was none.
    pub fn notify_one(&self) -> bool {
        shuttle::thread::sleep(Duration::ZERO);
        let count = self.waiters.lock().len();
        if count == 0 {
            return false;
        }
        let index = thread_rng().gen_range(0..count);
        let waiter = self.waiters.lock().swap_remove(index);
        waiter.notified.store(true, Ordering::Relaxed);
        waiter.thread.unpark();
        true
    }

    /// Wakes all waiting threads, and returns their number.
    pub fn notify_all(&self) -> usize {
        shuttle::thread::sleep(Duration::ZERO);
        let waiters = std::mem::take(&mut *self.waiters.lock());
        for waiter in &waiters {
            waiter.notified.store(true, Ordering::Relaxed);
        }
        for waiter in &waiters {
            waiter.thread.unpark();
        }
        waiters.len()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}

/// A reader-writer lock.
#[derive(Default)]
pub struct RwLock<T: ?Sized>(scheduler::RwLock<T>);

impl<T> RwLock<T> {
    /// Makes a lock that is free.
    pub const fn new(value: T) -> Self {
        RwLock(scheduler::RwLock::new(value))
    }

    /// Unwraps the value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until no thread holds it exclusively, then holds it shared.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is free, then holds it exclusively.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds it shared if no thread holds it exclusively.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        match self.0.try_read() {
            Ok(held) => Some(held),
            Err(TryLockError::Poisoned(held)) => Some(held.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Holds it exclusively if it is free.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        match self.0.try_write() {
            Ok(held) => Some(held),
            Err(TryLockError::Poisoned(held)) => Some(held.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The value, which a mutable reference holds anyway.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLock").finish_non_exhaustive()
    }
}

/// A reader-writer lock whose guards own their `Arc`. A scheduled mutex and condition variable decide which thread may
/// enter; the value itself lies in a parking_lot lock, which an admitted thread takes without waiting.
pub struct Latch<T> {
    admission: Mutex<Admission>,
    left: Condvar,
    value: Arc<parking_lot::RwLock<T>>,
}

/// The holders of a latch, and the writers that wait for it.
#[derive(Default)]
struct Admission {
    readers: usize,
    writer: bool,
    /// They keep new readers out, as in the native latch: a thread that asks twice can block itself.
    writers_waiting: usize,
}

/// Holds a [`Latch`] shared.
pub struct LatchRead<T> {
    latch: Arc<Latch<T>>,
    /// None only while it is dropped.
    value: Option<ArcRwLockReadGuard<RawRwLock, T>>,
}

/// Holds a [`Latch`] exclusively.
pub struct LatchWrite<T> {
    latch: Arc<Latch<T>>,
    /// None only while it is dropped.
    value: Option<ArcRwLockWriteGuard<RawRwLock, T>>,
}

impl<T> Latch<T> {
    /// Makes a latch that is free.
    pub fn new(value: T) -> Self {
        Latch {
            admission: Mutex::default(),
            left: Condvar::new(),
            value: Arc::new(parking_lot::RwLock::new(value)),
        }
    }

    /// Waits until no thread holds or awaits it exclusively, then holds it shared.
    pub fn read_arc(self: &Arc<Self>) -> LatchRead<T> {
        let mut admission = self.admission.lock();
        self.left.wait_while(&mut admission, |a| a.writer || a.writers_waiting > 0);
        admission.readers += 1;
        drop(admission);
        self.admitted_read()
    }

    /// Waits until it is free, then holds it exclusively.
    pub fn write_arc(self: &Arc<Self>) -> LatchWrite<T> {
        let mut admission = self.admission.lock();
        admission.writers_waiting += 1;
        self.left.wait_while(&mut admission, |a| a.writer || a.readers > 0);
        admission.writers_waiting -= 1;
        admission.writer = true;
        drop(admission);
        self.admitted_write()
    }

    /// Holds it shared if no thread holds or awaits it exclusively.
    pub fn try_read_arc(self: &Arc<Self>) -> Option<LatchRead<T>> {
        let mut admission = self.admission.lock();
        if admission.writer || admission.writers_waiting > 0 {
            return None;
        }
        admission.readers += 1;
        drop(admission);
        Some(self.admitted_read())
    }

    /// Holds it exclusively if it is free.
    pub fn try_write_arc(self: &Arc<Self>) -> Option<LatchWrite<T>> {
        let mut admission = self.admission.lock();
        if admission.writer || admission.readers > 0 {
            return None;
        }
        admission.writer = true;
        drop(admission);
        Some(self.admitted_write())
    }

    fn admitted_read(self: &Arc<Self>) -> LatchRead<T> {
        let value = self.value.try_read_arc().expect("an admitted reader finds no writer");
        LatchRead { latch: self.clone(), value: Some(value) }
    }

    fn admitted_write(self: &Arc<Self>) -> LatchWrite<T> {
        let value = self.value.try_write_arc().expect("an admitted writer is alone");
        LatchWrite { latch: self.clone(), value: Some(value) }
    }

    fn leave(&self, change: impl FnOnce(&mut Admission)) {
        change(&mut self.admission.lock());
        self.left.notify_all();
    }
}

impl<T> Drop for LatchRead<T> {
    fn drop(&mut self) {
        self.value = None;
        self.latch.leave(|a| a.readers -= 1);
    }
}

impl<T> Drop for LatchWrite<T> {
    fn drop(&mut self) {
        self.value = None;
        self.latch.leave(|a| a.writer = false);
    }
}

impl<T> Deref for LatchRead<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("a guard in use holds its latch")
    }
}

impl<T> Deref for LatchWrite<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("a guard in use holds its latch")
    }
}

impl<T> DerefMut for LatchWrite<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("a guard in use holds its latch")
    }
}

impl<T> fmt::Debug for Latch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latch").finish_non_exhaustive()
    }
}

/// A cell that is written once. Its initialisation may wait in the scheduler, for which a second initialiser
/// waits in a scheduled mutex.
pub struct OnceLock<T> {
    initialising: Mutex<()>,
    value: std::sync::OnceLock<T>,
}

impl<T> OnceLock<T> {
    /// An empty cell.
    pub const fn new() -> Self {
        OnceLock { initialising: Mutex::new(()), value: std::sync::OnceLock::new() }
    }

    /// The value, if it was set.
    pub fn get(&self) -> Option<&T> {
        self.value.get()
    }

    /// Sets the value, or gives it back if there is one.
    pub fn set(&self, value: T) -> Result<(), T> {
        let _alone = self.initialising.lock();
        self.value.set(value)
    }

    /// The value, made by `f` if there is none yet.
    pub fn get_or_init(&self, f: impl FnOnce() -> T) -> &T {
        if let Some(value) = self.value.get() {
            return value;
        }
        let _alone = self.initialising.lock();
        self.value.get_or_init(f)
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        OnceLock::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

/// Threads.
pub mod thread {
    pub use shuttle::thread::{
        JoinHandle, Scope, ScopedJoinHandle, Thread, ThreadId, current, park, scope, sleep, spawn, yield_now,
    };
    pub use std::thread::Result;
    use std::{io, time::Duration};

    /// Starts a thread with a name.
    pub fn spawn_named<T: Send + 'static>(
        name: impl Into<String>,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        shuttle::thread::Builder::new().name(name.into()).spawn(f)
    }

    /// Starts a thread of a scope.
    pub fn spawn_scoped<'scope, T: Send + 'scope>(
        scope: &'scope Scope<'scope, '_>,
        f: impl FnOnce() -> T + Send + 'scope,
    ) -> io::Result<ScopedJoinHandle<'scope, T>> {
        Ok(scope.spawn(f))
    }

    /// Starts a thread with a name and a stack of `stack_bytes`.
    pub fn spawn_sized<T: Send + 'static>(
        name: impl Into<String>,
        stack_bytes: usize,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        shuttle::thread::Builder::new().name(name.into()).stack_size(stack_bytes).spawn(f)
    }

    /// Waits to be unparked, but not for ever. A token given meanwhile stays for the next park, which then
    /// returns at once, as every park may.
    pub fn park_timeout(_duration: Duration) {
        use shuttle::rand::Rng;
        for _ in 0..shuttle::rand::thread_rng().gen_range(0..super::TIMED_WAIT_STEPS_MAX) {
            yield_now();
        }
    }
}
