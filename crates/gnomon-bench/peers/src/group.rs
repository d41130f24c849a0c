//! Group commit for stores whose transactions can commit first and be made durable later: one client makes durable
//! what all have committed so far, the others wait for it. The same that Gnomon does inside.

use gnomon_engine::sync::{Condvar, Mutex};

#[derive(Default)]
struct State {
    /// Commits so far.
    committed: u64,
    /// Of these, durable ones.
    durable: u64,
    syncing: bool,
}

/// Makes commits durable in groups.
#[derive(Default)]
pub struct GroupCommit {
    state: Mutex<State>,
    changed: Condvar,
}

impl GroupCommit {
    /// Returns when the commit that the caller has just made is durable. `sync` makes durable what was committed
    /// before it was called.
    pub fn wait<E>(&self, sync: impl Fn() -> Result<(), E>) -> Result<(), E> {
        let mut state = self.state.lock();
        state.committed += 1;
        let mine = state.committed;
        while state.durable < mine {
            if state.syncing {
                self.changed.wait(&mut state);
                continue;
            }
            state.syncing = true;
            let upto = state.committed;
            drop(state);
            let result = sync();
            state = self.state.lock();
            state.syncing = false;
            if result.is_ok() {
                state.durable = state.durable.max(upto);
            }
            self.changed.notify_all();
            result?;
        }
        Ok(())
    }
}
