//! What sessions ask of a member: to begin, to commit, to be fresh.

use std::time::Duration;

use gnomon::{
    Csn, Error, InterruptReason, Isolation, TxnId,
    env::Clock,
    lock::{Interrupt, WaitOptions},
    replication::{CommitRequest, Replicator, Touching},
    sync::{Arc, MutexGuard, Weak},
};

use super::{Asking, Shared, State, working::WAIT};
use crate::{
    order::LogError,
    protocol::{Access, Level, Protocol, Range, ReadSet, Reason, Touched},
};

/// Of more ranges that were read, neighbours become one.
const READS_MAX: usize = 10_000;

/// By which a database reaches its member, as long as that is there: the member has the database, not the other way
/// round.
pub(super) struct Door(pub Weak<Shared>);

impl Door {
    fn shared(&self) -> Result<Arc<Shared>, Error> {
        self.0.upgrade().ok_or_else(|| Error::Apart("it has left the cluster".into()))
    }
}

impl Replicator for Door {
    fn begin(&self, txn: TxnId, missed_max: u32, snapshot: Csn) {
        if let Some(shared) = self.0.upgrade() {
            shared.begin(txn, missed_max, snapshot);
        }
    }

    fn commit(&self, request: CommitRequest, interrupt: Option<&Interrupt>) -> Result<Csn, Error> {
        self.shared()?.commit(request, interrupt)
    }

    fn abandon(&self, txn: TxnId) {
        if let Some(shared) = self.0.upgrade() {
            shared.abandon(txn);
        }
    }

    fn freshen(&self, age_max: Duration, wait: &WaitOptions<'_>) -> Result<Csn, Error> {
        self.shared()?.freshen(age_max, wait)
    }
}

impl State {
    fn new_number(&mut self, level: Level) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        self.asking.insert(number, Asking { level, end: None, ended: Arc::default() });
        number
    }

    /// Fails if the member has stopped, or the log is not there.
    fn check_going(&self, now: Duration) -> Result<(), Error> {
        let stopped = self.stopped.as_ref().map(ToString::to_string);
        match stopped.or_else(|| self.away(now)) {
            Some(why) => Err(Error::Apart(why.into())),
            None => Ok(()),
        }
    }
}

impl Shared {
    fn begin(&self, txn: TxnId, missed_max: u32, snapshot: Csn) {
        let level = Level::KBound(missed_max);
        let mut state = self.state.lock();
        let number = state.new_number(level);
        let start = state.version_at(snapshot);
        state.begun.insert(txn, number);
        let mut out = Vec::new();
        state.machine.begin(number, level, start, ReadSet::default(), &mut out);
        state.perform(out);
        drop(state);
        self.to_append.notify_one();
    }

    fn abandon(&self, txn: TxnId) {
        let mut state = self.state.lock();
        if let Some(number) = state.begun.remove(&txn) {
            state.asking.remove(&number);
            state.machine.abandon(number);
        }
    }

    fn commit(&self, request: CommitRequest, interrupt: Option<&Interrupt>) -> Result<Csn, Error> {
        let mut state = self.state.lock();
        if let Err(error) = state.check_going(self.clock.now()) {
            drop(state);
            self.abandon(request.txn);
            return Err(error);
        }
        let number = self.ask(&mut state, request);
        self.to_append.notify_one();
        self.wait_for_end(state, number, interrupt)
    }

    /// Has the machine want a commit, and returns its number.
    fn ask(&self, state: &mut MutexGuard<'_, State>, request: CommitRequest) -> u64 {
        let mut out = Vec::new();
        let mut touched = Vec::with_capacity(request.touched.len());
        for touch in &request.touched {
            let access = match touch.how {
                Touching::Locks => Access::Read,
                Touching::Applies(kind) => Access::Commute(kind),
                Touching::Writes => Access::Write,
            };
            let since = request.snapshot.is_none().then(|| state.version_at(touch.based_on));
            touched.push(Touched { table: touch.tree.0, key: touch.key.clone(), access, since });
        }
        let start = match request.snapshot {
            Some(snapshot) => state.version_at(snapshot),
            None => touched.iter().filter_map(|touched| touched.since).min().unwrap_or_default(),
        };
        // What a serializable transaction that changes something has read is there when it commits, so it has missed
        // nothing.
        let is_bounded = request.isolation != Isolation::Serializable || request.changes.is_empty();
        let begun = state.begun.remove(&request.txn);
        let number = match begun.filter(|_| is_bounded) {
            Some(number) => number,
            None => {
                if let Some(number) = begun {
                    state.asking.remove(&number);
                    state.machine.abandon(number);
                }
                let level = match request.isolation {
                    Isolation::ReadCommitted => Level::ReadCommitted,
                    Isolation::Snapshot => Level::Snapshot,
                    Isolation::Serializable => Level::Serializable,
                };
                let number = state.new_number(level);
                state.machine.begin(number, level, start, ReadSet::default(), &mut out);
                number
            }
        };
        let mut reads = ReadSet::default();
        for (tree, range) in &request.reads {
            reads.add(tree.0, range_of(range));
        }
        reads.coarsen(READS_MAX);
        state.machine.note(number, touched, reads, &mut out);
        state.machine.request(number, request.changes, &mut out);
        state.perform(out);
        number
    }

    /// Waits until a transaction is at its end: what is ordered commits or not, and only that tells.
    fn wait_for_end(
        &self,
        mut state: MutexGuard<'_, State>,
        number: u64,
        interrupt: Option<&Interrupt>,
    ) -> Result<Csn, Error> {
        let unresolved = |why: String| Error::Unresolved(why.into());
        let why = loop {
            let Some(asking) = state.asking.get(&number) else { unreachable!("its session takes it away") };
            let ended = asking.ended.clone();
            if let Some(end) = asking.end {
                let level = asking.level;
                state.asking.remove(&number);
                *state.ended.entry((level, end.err())).or_default() += 1;
                return end.map_err(|_: Reason| Error::Serialization);
            }
            if let Some(stopped) = &state.stopped {
                break unresolved(stopped.to_string());
            }
            match interrupt.map_or(Ok(()), Interrupt::check) {
                Ok(()) => {}
                Err(Error::Interrupted(InterruptReason::Shutdown)) => {
                    break unresolved("the server stops".into());
                }
                Err(_) => break unresolved("it was not waited for, on request".into()),
            }
            ended.wait_for(&mut state, WAIT);
        };
        state.asking.remove(&number);
        Err(why)
    }

    fn freshen(&self, age_max: Duration, wait: &WaitOptions<'_>) -> Result<Csn, Error> {
        let begun = self.clock.now();
        let newest = |state: &State| state.versions.back().map_or(Csn(0), |(csn, ..)| *csn);
        {
            let state = self.state.lock();
            state.check_going(begun)?;
            if state.complete_at.is_some_and(|at| begun.saturating_sub(at) <= age_max) {
                return Ok(newest(&state));
            }
        }
        let ordered = self.log.newest().map_err(|error: LogError| Error::Apart(error.to_string().into()))?;
        let mut state = self.state.lock();
        while !state.has_applied(ordered) {
            state.check_going(self.clock.now())?;
            wait.interrupt.map_or(Ok(()), Interrupt::check)?;
            if wait.timeout.is_some_and(|timeout| self.clock.now().saturating_sub(begun) >= timeout) {
                return Err(Error::LockTimeout);
            }
            self.received.wait_for(&mut state, WAIT.min(wait.timeout.unwrap_or(WAIT)));
        }
        state.complete_at = state.complete_at.max(Some(begun));
        Ok(newest(&state))
    }
}

/// A range of keys as the protocol has it.
fn range_of(range: &gnomon::KeyRange) -> Range {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let behind = |key: &[u8]| [key, &[0]].concat();
    Range {
        low: match &range.start {
            Included(key) => key.as_slice().into(),
            Excluded(key) => behind(key).into(),
            Unbounded => Box::default(),
        },
        high: match &range.end {
            Included(key) => Some(behind(key).into()),
            Excluded(key) => Some(key.as_slice().into()),
            Unbounded => None,
        },
    }
}
