//! Group commit by a leader: makes commits durable and tells the threads that wait for them. Every store does it so;
//! what a batch is, and how it is written, is the store's ([`GroupCommit::write_batch`]).
//!
//! A thread that waits for a commit while no batch is being written becomes the leader and writes the next batch
//! itself: a hand-off to another thread would cost more than the work. Threads that come meanwhile queue up. If there
//! are some when the batch is durable, the leader goes on with the next one, since no other thread could begin it
//! sooner; after some batches it has one of the others woken to lead. Before each batch it yields its processor once:
//! where there are more clients than processors, batches are larger for it; an interval may be set for which it
//! sleeps instead. Of the threads whose commits a batch holds, the leader wakes one, and that one wakes the rest, so
//! that the next batch does not wait for their wake-ups. Callbacks are called by the leader; it does not go on for
//! them, since one of them may be the last to hold the database, which is closed by leading once more.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use crate::{
    Csn, Error, Result,
    failpoint::{Failpoint, Failpoints},
    sync::{
        Arc, Condvar, Line, Mutex,
        atomic::{AtomicU64, Ordering},
        thread,
    },
};

type Callback = Box<dyn FnOnce(Result<Csn>) + Send>;

/// The durable commits, and the threads and callbacks that wait for more.
pub struct Durability {
    state: Mutex<State>,
    /// The state's durable CSN, for reads without its mutex.
    durable: Line<AtomicU64>,
    failpoints: Failpoints,
}

struct State {
    durable: Csn,
    leading: bool,
    failed: bool,
    /// Time that a leader waits before each batch.
    interval: Duration,
    waiting: Vec<Waiting>,
    /// To be called when it fails.
    on_failure: Vec<Box<dyn FnOnce() + Send>>,
}

struct Waiting {
    csn: Csn,
    then: Then,
}

enum Then {
    Wake(Arc<Sleeper>),
    Call(Callback),
}

/// Number of batches that one thread leads at most, while its own client waits.
const BATCHES_LED_MAX: usize = 8;

/// A thread that waits for a batch.
#[derive(Default)]
struct Sleeper {
    /// Set when it is to wake up: the threads that it has to wake in turn.
    woken: Mutex<Option<Vec<Arc<Sleeper>>>>,
    condvar: Condvar,
}

impl Sleeper {
    fn sleep(&self) {
        let mut woken = self.woken.lock();
        let others = loop {
            match woken.take() {
                Some(others) => break others,
                None => self.condvar.wait(&mut woken),
            }
        };
        drop(woken);
        others.iter().for_each(|other| other.wake());
    }

    fn wake(&self) {
        self.wake_to_wake(Vec::new());
    }

    /// Wakes the thread, which then wakes others.
    fn wake_to_wake(&self, others: Vec<Arc<Sleeper>>) {
        *self.woken.lock() = Some(others);
        self.condvar.notify_one();
    }
}

impl Durability {
    /// Returns the state for a store in which this commit and all before it are durable.
    pub fn new(durable: Csn, failpoints: Failpoints) -> Durability {
        Durability {
            state: Mutex::new(State {
                durable,
                leading: false,
                failed: false,
                interval: Duration::ZERO,
                waiting: Vec::new(),
                on_failure: Vec::new(),
            }),
            durable: Line(AtomicU64::new(durable.0)),
            failpoints,
        }
    }

    /// Notes the newest durable commit.
    fn note_durable(&self, state: &mut State, durable: Csn) {
        state.durable = state.durable.max(durable);
        self.durable.store(state.durable.0, Ordering::Release);
    }

    /// Sets the time that leaders wait for others before each batch.
    pub fn set_interval(&self, interval: Duration) {
        self.state.lock().interval = interval;
    }

    /// Wakes or calls those that wait for commits up to this one, which is noted as durable.
    fn advance(&self, durable: Csn) {
        let done: Vec<Waiting> = {
            let mut state = self.state.lock();
            debug_assert!(state.durable >= durable);
            state.waiting.extract_if(.., |waiting| waiting.csn <= durable).collect()
        };
        let (mut sleepers, mut calls) = (Vec::with_capacity(done.len()), Vec::new());
        for waiting in done {
            match waiting.then {
                Then::Wake(sleeper) => sleepers.push(sleeper),
                Then::Call(call) => calls.push((waiting.csn, call)),
            }
        }
        if let Some(first) = sleepers.pop() {
            first.wake_to_wake(sleepers);
        }
        calls.into_iter().for_each(|(csn, call)| tell(call, Ok(csn)));
    }

    /// Wakes all waiting threads, which find that the store is poisoned, and calls all callbacks.
    pub fn fail(&self) {
        let (waiting, on_failure) = {
            let mut state = self.state.lock();
            state.failed = true;
            (std::mem::take(&mut state.waiting), std::mem::take(&mut state.on_failure))
        };
        for call in on_failure {
            let _ = catch_unwind(AssertUnwindSafe(call));
        }
        for waiting in waiting {
            match waiting.then {
                Then::Wake(sleeper) => sleeper.wake(),
                // The error itself is the store's; see `GroupCommit::when_durable`.
                Then::Call(call) => tell(call, Err(Error::Closed)),
            }
        }
    }
}

impl Durability {
    /// Calls `call` when the store fails, or at once if it has. It must not block.
    pub fn when_failed(&self, call: impl FnOnce() + Send + 'static) {
        let mut state = self.state.lock();
        match state.failed {
            false => state.on_failure.push(Box::new(call)),
            true => {
                drop(state);
                call();
            }
        }
    }
}

/// Calls a callback. A panic in it does not keep the others from being called.
fn tell(call: Callback, result: Result<Csn>) {
    let _ = catch_unwind(AssertUnwindSafe(|| call(result)));
}

/// Poisons the store if its leader panics, so that waiting threads get an error.
struct PoisonOnPanic<'a, S: GroupCommit>(&'a S);

impl<S: GroupCommit> Drop for PoisonOnPanic<'_, S> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.poison(&Error::Poisoned("a panic while a batch was written".into()));
        }
    }
}

/// A store whose commits become durable in batches.
pub trait GroupCommit: Send + Sync + Sized + 'static {
    /// Returns the durable commits and the threads that wait.
    fn durability(&self) -> &Durability;
    /// The last CSN that was taken.
    fn last_csn(&self) -> Csn;
    /// Fails if the store is poisoned.
    fn check(&self) -> Result<()>;
    /// Stops the store: every later call fails with this cause, in the error returned.
    fn poison(&self, cause: &Error) -> Error;
    /// Makes everything durable that was changed by now, which is not called by two threads at a time. Returns the
    /// newest commit that is durable then. A failure poisons the store.
    fn write_batch(&self) -> Result<Csn>;

    /// The newest durable commit.
    fn durable_csn(&self) -> Csn {
        Csn(self.durability().durable.load(Ordering::Acquire))
    }

    /// Waits until a commit is durable. Writes commit batches if no other thread does.
    fn wait_durable(&self, csn: Csn) -> Result<()> {
        debug_assert!(csn <= self.last_csn());
        loop {
            let sleeper = {
                let mut state = self.durability().state.lock();
                if state.durable >= csn {
                    return Ok(());
                }
                self.check()?;
                if state.leading {
                    let sleeper = Arc::new(Sleeper::default());
                    if self.durability().failpoints.is_on(Failpoint::WakeupLost) {
                        drop(state);
                        thread::yield_now();
                        state = self.durability().state.lock();
                    }
                    state.waiting.push(Waiting { csn, then: Then::Wake(sleeper.clone()) });
                    Some(sleeper)
                } else {
                    state.leading = true;
                    None
                }
            };
            match sleeper {
                Some(sleeper) => sleeper.sleep(),
                None => self.lead_batches()?,
            }
        }
    }

    /// Writes batches for as long as others wait for some, up to `BATCHES_LED_MAX`.
    fn lead_batches(&self) -> Result<()> {
        let interval = self.durability().state.lock().interval;
        let mut led = 0;
        loop {
            led += 1;
            let panicked = PoisonOnPanic(self);
            match interval {
                // A thread that could run in this one's place commits first, and is in the batch. No other is waited
                // for.
                Duration::ZERO => thread::yield_now(),
                interval => thread::sleep(interval),
            }
            let durable = self.write_batch();
            let Ok(durable) = durable else { return self.end_lead(durable) };
            let mut state = self.durability().state.lock();
            let is_next = |waiting: &Waiting| {
                matches!(waiting.then, Then::Wake(_)) && waiting.csn > durable && waiting.csn < Csn(u64::MAX)
            };
            let others = state.waiting.iter().any(is_next);
            if !others || led == BATCHES_LED_MAX {
                drop(state);
                return self.end_lead(Ok(durable));
            }
            self.durability().note_durable(&mut state, durable);
            drop(state);
            self.durability().advance(durable);
            drop(panicked);
        }
    }

    /// Makes everything durable that was changed by now, with or without a commit.
    fn flush(&self) -> Result<()> {
        self.lead_next(Self::write_batch)
    }

    /// Waits until no thread writes a batch or a root, and then writes one by `write`.
    fn lead_next(&self, write: impl FnOnce(&Self) -> Result<Csn>) -> Result<()> {
        loop {
            let mut state = self.durability().state.lock();
            self.check()?;
            if state.leading {
                let sleeper = Arc::new(Sleeper::default());
                // Woken as the next leader at the latest: nothing reaches this CSN.
                state.waiting.push(Waiting { csn: Csn(u64::MAX), then: Then::Wake(sleeper.clone()) });
                drop(state);
                sleeper.sleep();
            } else {
                state.leading = true;
                drop(state);
                return self.lead(write);
            }
        }
    }

    /// Calls `call` once a commit is durable or has failed: at once, or on the thread that writes its batch. Some
    /// thread must write that batch: see [`GroupCommit::wait_durable`].
    fn when_durable(self: &Arc<Self>, csn: Csn, call: impl FnOnce(Result<Csn>) + Send + 'static) {
        let store = Arc::downgrade(self);
        let call = move |result: Result<Csn>| match result {
            Ok(csn) => call(Ok(csn)),
            error => call(store.upgrade().map_or(error, |store| store.check().map(|()| csn))),
        };
        let mut state = self.durability().state.lock();
        if state.durable < csn && !state.failed {
            state.waiting.push(Waiting { csn, then: Then::Call(Box::new(call)) });
            return;
        }
        let result = if state.durable >= csn { Ok(csn) } else { Err(Error::Closed) };
        drop(state);
        call(result);
    }

    /// Writes a batch or a root by `write`, unless a thread is writing one.
    fn lead_if_free(&self, write: impl FnOnce(&Self) -> Result<Csn>) -> Result<()> {
        let mut state = self.durability().state.lock();
        self.check()?;
        if state.leading {
            return Ok(());
        }
        state.leading = true;
        drop(state);
        self.lead(write)
    }

    /// Writes a batch or a root, by `write`, and hands the lead on. `leading` is set by the caller.
    fn lead(&self, write: impl FnOnce(&Self) -> Result<Csn>) -> Result<()> {
        let panicked = PoisonOnPanic(self);
        let written = write(self);
        drop(panicked);
        self.end_lead(written)
    }

    /// Hands the lead on, after something was written that makes commits durable.
    fn end_lead(&self, written: Result<Csn>) -> Result<()> {
        let next = {
            let mut state = self.durability().state.lock();
            state.leading = false;
            let durable = *written.as_ref().unwrap_or(&state.durable);
            // Before another leads: it would write a batch for what is durable.
            self.durability().note_durable(&mut state, durable);
            let next = state.waiting.iter().position(|w| w.csn > durable && matches!(w.then, Then::Wake(_)));
            next.map(|at| state.waiting.swap_remove(at))
        };
        // The next leader first: its batch can begin while the others wake up.
        if let Some(Waiting { then: Then::Wake(sleeper), .. }) = next
            && !self.durability().failpoints.is_on(Failpoint::LeaderNotWoken)
        {
            sleeper.wake();
        }
        written.map(|durable| self.durability().advance(durable))
    }
}
