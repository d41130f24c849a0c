//! Writes persistence spheres that have grown large, so that no commit has to wait for them.

use gnomon_engine::sync::{Arc, Condvar, Mutex, thread};

use super::Inner;

#[derive(Default)]
pub(super) struct Background {
    state: Mutex<State>,
    changed: Condvar,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

#[derive(Default)]
struct State {
    wanted: bool,
    stopped: bool,
}

impl Background {
    /// Asks the thread to write large spheres soon.
    pub fn wake(&self) {
        self.state.lock().wanted = true;
        self.changed.notify_all();
    }

    /// Waits until there is something to do; false if there never will be.
    fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while !state.wanted && !state.stopped {
            self.changed.wait(&mut state);
        }
        state.wanted = false;
        !state.stopped
    }

    /// Ends the thread. Called by the thread itself, which then ends, or by other threads, which wait for it.
    pub fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_all();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id()) {
            let _ = thread.join();
        }
    }
}

/// Starts the thread of a database, which lives as long as that.
pub(super) fn start(inner: &Arc<Inner>) {
    let (weak, background) = (Arc::downgrade(inner), inner.background.clone());
    let run = move || {
        while background.wait() {
            // An error has stopped the store, which reports it at its next use.
            if weak.upgrade().is_none_or(|inner| inner.store.write_large_spheres().is_err()) {
                break;
            }
        }
    };
    *inner.background.thread.lock() = Some(thread::spawn(run));
}
