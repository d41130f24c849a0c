//! The thread that makes commits durable that no thread waits for: those whose tickets are kept, or have callbacks.
//!
//! Commits only raise a number, and look whether the thread sleeps. Both sides do so in one order ([`Shared::sleeps`]),
//! so that no commit is overlooked.

use super::{chores::Chores, join};
use crate::{
    Csn,
    sync::{
        Arc, Condvar, Line, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
        thread,
    },
};

pub(super) struct Forcer {
    shared: Arc<Shared>,
    chores: Chores,
}

struct Shared {
    /// Commits up to this one are to be made durable.
    wanted: Line<AtomicU64>,
    /// True if the thread sleeps, or will without another look at `wanted`, or was not started. A commit raises
    /// `wanted` first and then looks here; the thread sets this first and then looks at `wanted`.
    sleeps: Line<AtomicBool>,
    state: Mutex<State>,
    woken: Condvar,
}

#[derive(Default)]
struct State {
    stopped: bool,
    thread: Option<thread::JoinHandle<()>>,
}

impl Forcer {
    pub fn new(chores: Chores) -> Forcer {
        let shared = Shared {
            wanted: Line::default(),
            sleeps: Line(AtomicBool::new(true)),
            state: Mutex::default(),
            woken: Condvar::new(),
        };
        Forcer { shared: Arc::new(shared), chores }
    }

    /// Makes a commit durable soon, and starts the thread if there is none.
    pub fn make_durable(&self, csn: Csn) {
        self.shared.wanted.fetch_max(csn.0, Ordering::SeqCst);
        if !self.shared.sleeps.load(Ordering::SeqCst) {
            return;
        }
        let mut state = self.shared.state.lock();
        if state.thread.is_none() && !state.stopped {
            let (shared, chores) = (self.shared.clone(), self.chores.clone());
            state.thread = Some(thread::spawn(move || run(&shared, &chores)));
        }
        drop(state);
        self.shared.woken.notify_one();
    }

    /// Ends the thread, after what it is at.
    pub fn stop(&self) {
        let thread = {
            let mut state = self.shared.state.lock();
            state.stopped = true;
            state.thread.take()
        };
        self.shared.woken.notify_one();
        join(thread);
    }
}

impl Shared {
    /// Waits for a commit after the durable ones; none if the thread is to end.
    fn next(&self, chores: &Chores) -> Option<Csn> {
        let wanted = || Csn(self.wanted.load(Ordering::SeqCst));
        let is_durable = || wanted() <= chores.inner().last_durable();
        if is_durable() {
            let mut state = self.state.lock();
            self.sleeps.store(true, Ordering::SeqCst);
            while is_durable() && !state.stopped {
                self.woken.wait(&mut state);
            }
            self.sleeps.store(false, Ordering::SeqCst);
        }
        (!self.state.lock().stopped).then(wanted)
    }
}

fn run(shared: &Shared, chores: &Chores) {
    let inner = chores.inner();
    while let Some(csn) = shared.next(chores) {
        // A failure poisons the store, which returns it to every later caller.
        if inner.wait_durable(csn).is_err() {
            return;
        }
        inner.prune_unless_busy();
        chores.maintain();
    }
}
