//! Drives owners from one thread: a request either returns at once or stands in a queue, and its outcome is read
//! when it comes.

use super::*;
use crate::{
    Result,
    env::SystemClock,
    lock::{
        manager::{Patience, Requested, Wait},
        park::Outcome,
        shard::Fate,
    },
};

pub(super) fn manager() -> Arc<LockManager> {
    LockManager::new(tables(), Arc::new(SystemClock::new()))
}

/// An owner and its wait, if it waits.
pub(super) struct Actor {
    pub(super) owner: LockOwner,
    pub(super) wait: Option<Wait>,
    /// The claim that was refused last, if it was.
    pub(super) refused: Option<usize>,
}

impl Actor {
    pub(super) fn new(manager: &Arc<LockManager>, txn: u64) -> Actor {
        Actor { owner: manager.owner(TxnId(txn)), wait: None, refused: None }
    }

    /// True if it was granted, false if it waits.
    pub(super) fn ask(&mut self, name: LockName<'_>, mode: Mode) -> Result<bool> {
        assert!(self.wait.is_none(), "{} waits already", self.owner.txn());
        match self.owner.request(&name, mode, Patience::Wait)? {
            Requested::Granted => Ok(true),
            Requested::Waiting(wait) => {
                self.wait = Some(wait);
                Ok(false)
            }
            Requested::Refused | Requested::Denied(_) => unreachable!("it may wait"),
        }
    }

    /// As if it woke up: how its wait ended, if it has.
    pub(super) fn poll(&mut self) -> Option<Result<()>> {
        let fate = self.owner.fate(self.wait.as_ref()?);
        self.end(fate)
    }

    /// As if its timeout ran out: none if it left the queue or did not wait, else how its wait ended before.
    pub(super) fn give_up(&mut self) -> Option<Result<()>> {
        let fate = self.owner.give_up(self.wait.as_ref()?);
        let ended = self.end(fate);
        self.wait = None;
        ended
    }

    fn end(&mut self, fate: Fate) -> Option<Result<()>> {
        if let Fate::Withdrawn = fate {
            assert_eq!(self.owner.try_outcome(), Some(Outcome::Victim), "nothing is under way");
        }
        let ended = self.owner.ended(self.wait.as_ref()?, fate)?;
        self.wait = None;
        Some(ended.map(|claimed| {
            self.refused = claimed.and_then(|claimed| claimed.refused);
        }))
    }

    /// True if its claims were decided, [`Actor::refused`] tells how; false if they wait.
    pub(super) fn claim(&mut self, name: LockName<'_>, claims: &[Claim], keeps: bool) -> Result<bool> {
        assert!(self.wait.is_none(), "{} waits already", self.owner.txn());
        self.refused = None;
        match self.owner.request_claims(&name, claims, keeps, Patience::Wait)? {
            Requested::Granted => Ok(true),
            Requested::Denied(place) => {
                self.refused = Some(place);
                Ok(true)
            }
            Requested::Waiting(wait) => {
                self.wait = Some(wait);
                Ok(false)
            }
            Requested::Refused => unreachable!("it may wait"),
        }
    }
}

pub(super) fn key(name: &[u8]) -> LockName<'_> {
    LockName::key(KEYS, 1, name)
}
