//! Drives owners from one thread: a request either returns at once or stands in a queue, and its outcome is read
//! when it comes.

use super::*;
use crate::{
    Result,
    env::SystemClock,
    lock::manager::{Requested, Wait},
};

pub(super) fn manager() -> Arc<LockManager> {
    LockManager::new(tables(), Arc::new(SystemClock::new()))
}

/// An owner and its wait, if it waits.
pub(super) struct Actor {
    pub(super) owner: LockOwner,
    pub(super) wait: Option<Wait>,
}

impl Actor {
    pub(super) fn new(manager: &Arc<LockManager>, txn: u64) -> Actor {
        Actor { owner: manager.owner(TxnId(txn)), wait: None }
    }

    /// True if it was granted, false if it waits.
    pub(super) fn ask(&mut self, name: LockName<'_>, mode: Mode) -> Result<bool> {
        assert!(self.wait.is_none(), "{} waits already", self.owner.txn());
        match self.owner.request(&name, mode, true)? {
            Requested::Granted => Ok(true),
            Requested::Waiting(wait) => {
                self.wait = Some(wait);
                Ok(false)
            }
            Requested::Refused => unreachable!("it may wait"),
        }
    }

    /// How its wait ended, if it has.
    pub(super) fn poll(&mut self) -> Option<Result<()>> {
        self.wait.as_ref()?;
        let outcome = self.owner.try_outcome()?;
        let wait = self.wait.take()?;
        Some(self.owner.ended(wait, outcome))
    }

    /// As if its timeout ran out: true if it left the queue, false if it did not wait or was granted before.
    pub(super) fn give_up(&mut self) -> bool {
        self.wait.as_ref().is_some_and(|wait| self.owner.withdraw(wait)) && self.wait.take().is_some()
    }
}

pub(super) fn key(name: &[u8]) -> LockName<'_> {
    LockName::key(KEYS, 1, name)
}
