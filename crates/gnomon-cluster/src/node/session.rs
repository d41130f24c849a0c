//! The requests of sessions to a member: to begin, to commit, to be fresh.

use std::{collections::BTreeMap, time::Duration};

use gnomon_engine::{
    Conflict, Csn, Error, InterruptReason, Isolation, KeyRange, TreeId, TxnId,
    env::Clock,
    lock::Interrupt,
    replication::{Abandoned, CommitRequest, Note, Replicator, Touch, Touching},
    sync::{Arc, MutexGuard, Weak},
};

use super::{Asking, Life, Shared, State, working::WAIT};
use crate::protocol::{Access, Action, Level, Protocol, Range, ReadSet, Reason, Table, Touched, Version};

/// Maximum number of ranges that were read; beyond it, neighbours become one.
const READS_MAX: usize = 10_000;
/// Bytes of keys in a table from which on the whole table counts as touched.
pub(super) const TOUCHED_BYTES_MAX: usize = 1 << 20;
/// Bytes that a row takes beside its key.
pub(super) const ROW_BYTES: usize = 32;

/// The way from a database to its member, as long as that is there: the member has the database, not the other way
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

    fn note(&self, note: Note) -> Result<(), Error> {
        self.shared()?.note(note)
    }

    fn commit(&self, request: CommitRequest, interrupt: Option<&Interrupt>) -> Result<Csn, Error> {
        self.shared()?.commit(request, interrupt)
    }

    fn call(&self, call: Vec<u8>) -> Result<(Csn, Result<Vec<u8>, Error>), Error> {
        self.shared()?.call(call)
    }

    fn abandon(&self, abandoned: Abandoned) {
        if let Some(shared) = self.0.upgrade() {
            shared.abandon(abandoned);
        }
    }

    fn freshen(&self, age_max: Duration, interrupt: Option<&Interrupt>) -> Result<Csn, Error> {
        self.shared()?.freshen(age_max, interrupt)
    }
}

/// The end of a transaction, and its answer.
struct Asked {
    end: Result<Csn, Error>,
    /// The answer of a call.
    answer: Option<Result<Vec<u8>, Error>>,
}

impl State {
    /// Forgets a transaction that has not asked to commit.
    fn forget(&mut self, txn: TxnId) {
        if let Some(number) = self.begun.remove(&txn) {
            self.asking.remove(&number);
            self.machine.abandon(number);
        }
    }

    /// A serializable transaction changes something, and so has missed nothing if it commits.
    fn forget_bound(&mut self, txn: TxnId) {
        let begun = self.begun.get(&txn).and_then(|number| self.asking.get(number));
        if begun.is_some_and(|asking| matches!(asking.level, Level::KBound(_))) {
            self.forget(txn);
        }
    }

    fn new_number(&mut self, level: Level) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        self.asking.insert(number, Asking { level, end: None, answer: None, ended: Arc::default() });
        number
    }

    /// Begins a transaction without a bound, and returns its number.
    fn begin(&mut self, level: Level, start: Version, out: &mut Vec<Action>) -> u64 {
        let number = self.new_number(level);
        self.machine.begin(number, level, start, ReadSet::default(), out);
        number
    }

    /// Returns what a transaction touches, in the protocol's terms, and the last commit that it could see from its
    /// beginning on.
    fn touched(&self, touches: &[Touch], snapshot: Option<Csn>) -> (Vec<Touched>, Version) {
        let touched = |touch: &Touch| {
            let access = match touch.how {
                Touching::Locks => Access::Read,
                Touching::Applies(kind) => Access::Commute(kind),
                Touching::Writes => Access::Write,
            };
            let since = snapshot.is_none().then(|| self.version_at(touch.based_on));
            Touched { table: touch.tree.0, key: touch.key.clone(), access, since }
        };
        let touched = whole_tables(touches.iter().map(touched).collect());
        let start = match snapshot {
            Some(snapshot) => self.version_at(snapshot),
            None => touched.iter().filter_map(|touched| touched.since).min().unwrap_or_default(),
        };
        (touched, start)
    }

    /// Returns the position of the newest commit here.
    fn newest_commit(&self) -> Csn {
        self.versions.back().map_or(Csn(0), |(csn, ..)| *csn)
    }

    /// Fails if the member has stopped, or nothing more can be appended to the log.
    fn check_going(&self, now: Duration) -> Result<(), Error> {
        self.check_stopped_or(|| self.away(now))
    }

    /// Fails if the member has stopped, or does not follow the log.
    fn check_following(&self, now: Duration) -> Result<(), Error> {
        self.check_stopped_or(|| self.silent(now))
    }

    fn check_stopped_or(&self, apart: impl FnOnce() -> Option<String>) -> Result<(), Error> {
        match self.stopped.as_ref().map(ToString::to_string).or_else(apart) {
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

    fn abandon(&self, abandoned: Abandoned) {
        let mut state = self.state.lock();
        state.forget(abandoned.txn);
        if let Some(conflict) = abandoned.refused {
            // What is to be serializable and changes something is not bounded.
            let is_bounded = abandoned.isolation != Isolation::Serializable || conflict == Conflict::Stale;
            let bound = abandoned.missed_max.filter(|_| is_bounded).map(Level::KBound);
            state.count(bound.unwrap_or(level_of(abandoned.isolation)), Some(conflict.into()));
        }
    }

    /// The state, when something can be ordered.
    fn ready(&self, interrupt: Option<&Interrupt>) -> Result<MutexGuard<'_, State>, Error> {
        let mut state = self.state.lock();
        loop {
            state.check_going(self.clock.now())?;
            if state.life == Life::Present {
                return Ok(state);
            }
            // It comes back as another member, which is soon.
            interrupt.map_or(Ok(()), Interrupt::check)?;
            self.received.wait_for(&mut state, WAIT);
        }
    }

    fn commit(&self, request: CommitRequest, interrupt: Option<&Interrupt>) -> Result<Csn, Error> {
        let mut state = self.ready(interrupt).inspect_err(|_| self.state.lock().forget(request.txn))?;
        let number = self.ask(&mut state, request);
        self.to_append.notify_one();
        self.wait_for_end(state, number, interrupt).and_then(|asked| asked.end)
    }

    fn call(&self, call: Vec<u8>) -> Result<(Csn, Result<Vec<u8>, Error>), Error> {
        let mut state = self.ready(None)?;
        let number = state.new_number(Level::Serializable);
        let mut out = Vec::new();
        state.machine.call(number, call, &mut out);
        state.perform(out);
        self.to_append.notify_one();
        let Asked { end, answer } = self.wait_for_end(state, number, None)?;
        match (answer, end) {
            (Some(Ok(answer)), end) => Ok((end?, Ok(answer))),
            // What it saw is what is committed.
            (Some(Err(error)), _) => Ok((self.state.lock().newest_commit(), Err(error))),
            (None, end) => Err(end.err().unwrap_or_else(|| Error::Unresolved("its answer is lost".into()))),
        }
    }

    /// Tells the machine what a transaction rests on that goes on.
    fn note(&self, note: Note) -> Result<(), Error> {
        let mut state = self.state.lock();
        let mut out = Vec::new();
        let (touched, start) = state.touched(&note.touched, note.snapshot);
        let changes = |touch: &Touch| touch.how != Touching::Locks;
        if note.isolation == Isolation::Serializable && note.touched.iter().any(changes) {
            state.forget_bound(note.txn);
        }
        let number = match state.begun.get(&note.txn) {
            Some(number) => *number,
            None => {
                let number = state.begin(level_of(note.isolation), start, &mut out);
                state.begun.insert(note.txn, number);
                number
            }
        };
        state.machine.note(number, touched, read_set(&note.reads), &mut out);
        state.perform(out);
        match state.asking.get(&number) {
            Some(Asking { end: Some(Err(reason)), .. }) => Err(error_of(*reason)),
            _ => Ok(()),
        }
    }

    /// Hands a commit to the machine, and returns its number.
    fn ask(&self, state: &mut MutexGuard<'_, State>, request: CommitRequest) -> u64 {
        let mut out = Vec::new();
        let (touched, start) = state.touched(&request.touched, request.snapshot);
        // What a serializable transaction that changes something has read is there when it commits, so it has missed
        // nothing.
        let is_bounded = request.isolation != Isolation::Serializable || request.changes.is_empty();
        let begun = state.begun.remove(&request.txn);
        let keeps = |asking: &Asking| is_bounded || !matches!(asking.level, Level::KBound(_));
        let number = match begun.filter(|number| state.asking.get(number).is_some_and(keeps)) {
            Some(number) => {
                state.machine.forget_notes(number, start);
                number
            }
            None => {
                if let Some(number) = begun {
                    state.asking.remove(&number);
                    state.machine.abandon(number);
                }
                state.begin(level_of(request.isolation), start, &mut out)
            }
        };
        state.machine.note(number, touched, read_set(&request.reads), &mut out);
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
    ) -> Result<Asked, Error> {
        let unresolved = |why: String| Error::Unresolved(why.into());
        let why = loop {
            let Some(asking) = state.asking.get_mut(&number) else {
                unreachable!("its session takes it away")
            };
            let ended = asking.ended.clone();
            if let Some(end) = asking.end {
                let (level, answer) = (asking.level, asking.answer.take());
                state.asking.remove(&number);
                state.count(level, end.err());
                return Ok(Asked { end: end.map_err(error_of), answer });
            }
            if let Some(stopped) = &state.stopped {
                break unresolved(stopped.to_string());
            }
            match interrupt.map_or(Ok(()), Interrupt::check) {
                Ok(()) => {}
                Err(Error::Interrupted(InterruptReason::Shutdown)) => {
                    break unresolved("the server stops".into());
                }
                Err(Error::Interrupted(InterruptReason::Timeout)) => {
                    break unresolved("it was not waited for any longer (statement_timeout)".into());
                }
                Err(_) => break unresolved("it was not waited for any longer, on request".into()),
            }
            ended.wait_for(&mut state, WAIT);
        };
        state.asking.remove(&number);
        Err(why)
    }

    fn freshen(&self, age_max: Duration, interrupt: Option<&Interrupt>) -> Result<Csn, Error> {
        let begun = self.clock.now();
        let oldest = begun.saturating_sub(age_max);
        let mut state = self.state.lock();
        // What was newest at that time or later, as soon as that is known.
        let mut ordered = None;
        while state.complete_at.is_none_or(|at| at < oldest) {
            match ordered.or(state.newest.filter(|(at, _)| *at >= oldest)) {
                Some((at, newest)) if state.has_applied(newest) => {
                    state.complete_at = state.complete_at.max(Some(at));
                    break;
                }
                Some(known) => ordered = Some(known),
                None => {
                    state.newest_wanted_at = state.newest_wanted_at.max(begun);
                    self.to_be_fresh.notify_one();
                }
            }
            state.check_following(self.clock.now())?;
            interrupt.map_or(Ok(()), Interrupt::check)?;
            self.received.wait_for(&mut state, WAIT);
        }
        Ok(state.newest_commit())
    }
}

/// Returns what a call has written, in the protocol's terms.
pub(super) fn touched_by_call(touches: &[Touch]) -> Vec<Touched> {
    let touched = |touch: &Touch| Touched {
        table: touch.tree.0,
        key: touch.key.clone(),
        access: Access::Write,
        since: None,
    };
    whole_tables(touches.iter().map(touched).collect())
}

/// Puts whole tables in the place of very many of their rows: each member keeps what a commit touches for a while.
fn whole_tables(touched: Vec<Touched>) -> Vec<Touched> {
    let bytes_of = |touched: &Touched| touched.key.as_ref().map_or(0, |key| key.len() + ROW_BYTES);
    let mut bytes: BTreeMap<Table, usize> = BTreeMap::new();
    for row in &touched {
        *bytes.entry(row.table).or_default() += bytes_of(row);
    }
    let total: usize = bytes.values().sum();
    let is_large = |table: &Table| bytes[table] > TOUCHED_BYTES_MAX || total > 8 * TOUCHED_BYTES_MAX;
    let mut whole: BTreeMap<Table, Touched> = BTreeMap::new();
    let mut kept = Vec::with_capacity(touched.len());
    for row in touched {
        if !is_large(&row.table) {
            kept.push(row);
            continue;
        }
        let all = whole.entry(row.table).or_insert_with(|| Touched { key: None, ..row.clone() });
        all.since = all.since.min(row.since);
        all.access = if row.is_change() || all.is_change() { Access::Write } else { Access::Read };
    }
    kept.extend(whole.into_values());
    kept
}

/// The error of a transaction that does not commit.
fn error_of(reason: Reason) -> Error {
    match reason {
        Reason::Conflict(conflict) => Error::Serialization(conflict),
        Reason::Failed => Error::Operation("the call has failed".into()),
    }
}

fn level_of(isolation: Isolation) -> Level {
    match isolation {
        Isolation::ReadCommitted => Level::ReadCommitted,
        Isolation::Snapshot => Level::Snapshot,
        Isolation::Serializable => Level::Serializable,
    }
}

fn read_set(ranges: &[(TreeId, KeyRange)]) -> ReadSet {
    let mut reads = ReadSet::default();
    for (tree, range) in ranges {
        reads.add(tree.0, range_of(range));
    }
    reads.coarsen(READS_MAX);
    reads
}

/// A range of keys as the protocol has it.
fn range_of(range: &KeyRange) -> Range {
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
