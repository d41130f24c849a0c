//! The work of the threads of a member.

use std::time::Duration;

use gnomon_engine::{
    Conflict, Error,
    env::Clock,
    replication::{Called, Mark, Ordered},
    sync::{MutexGuard, thread},
};

use super::{Life, Shared, State, Stopped, has_lost_data, marks, session::touched_by_call};
use crate::{
    order::{Batch, LogError, Refused, Sender},
    protocol::{Apply, Entry, Outcome, Position, Protocol, Reason, Touched, TxnName, Work},
};

/// Maximum time that the log is waited for at a time.
pub(super) const WAIT: Duration = Duration::from_millis(100);
/// Time from a failed try to reach the log to the next one.
const PAUSE: Duration = Duration::from_millis(50);
/// Interval at which a full log is asked for room, in which nothing is appended.
const PAUSE_FULL: Duration = Duration::from_millis(200);
const ROOM_GRACE: Duration = Duration::from_millis(600);
/// Maximum time that a member that joins anew waits for its own name, which is taken until its former life is over.
const NAME_WAIT: Duration = Duration::from_secs(20);

/// Maximum number of calls whose effects are remembered, until others say what the calls have done there.
const CALLS_MAX: usize = 10_000;

impl Shared {
    /// Notes whether the log was reached.
    fn note_reached(&self, state: &mut State, reached: Result<(), &LogError>) {
        match reached {
            Ok(()) => {
                state.heard_at = self.clock.now();
                // A full log can be read.
                state.away = state.away.take().filter(|_| state.is_full);
            }
            Err(error) => {
                state.is_full |= matches!(error, LogError::Full(_));
                state.away = Some(error.to_string());
            }
        }
    }

    /// Appends batches, one after another, and joins anew when the log holds this member for gone.
    pub(super) fn append_all(&self) {
        while let Some(work) = self.next_to_append() {
            match work {
                Some(batch) => self.append(&batch),
                None => self.join_anew(),
            }
        }
    }

    /// The next batch, or that it must join anew; none when it has stopped.
    fn next_to_append(&self) -> Option<Option<Batch>> {
        let mut state = self.state.lock();
        loop {
            if state.stopped.is_some() {
                return None;
            }
            match state.life {
                Life::Over => return Some(None),
                Life::Present => {
                    if let Some(batch) = state.sender.batch() {
                        return Some(Some(batch.clone()));
                    }
                }
                Life::Next(_) => {}
            }
            self.to_append.wait(&mut state);
        }
    }

    fn append(&self, batch: &Batch) {
        let member = self.state.lock().machine.member();
        let answer = self.log.append(member, batch);
        let mut state = self.state.lock();
        match answer {
            Ok(_) => {
                state.is_full = false;
                self.note_reached(&mut state, Ok(()));
                state.sender.appended(batch.sequence);
            }
            Err(LogError::Refused(refused)) => {
                if state.sender.refused(batch.sequence, &refused) && state.life == Life::Present {
                    state.life = Life::Over;
                }
            }
            Err(error @ LogError::Foreign(_)) => {
                drop(state);
                self.stop(Stopped::Log(error));
            }
            Err(error) => {
                self.note_reached(&mut state, Err(&error));
                drop(state);
                match error {
                    LogError::Full(_) => self.wait_for_room(),
                    _ => thread::sleep(PAUSE),
                }
            }
        }
    }

    /// Waits until a full log has room, and then a moment, so that all can say what they need before it is full again.
    fn wait_for_room(&self) {
        while !self.is_over() {
            thread::sleep(PAUSE_FULL);
            if self.log.is_full().is_ok_and(|is_full| !is_full) {
                return thread::sleep(ROOM_GRACE);
            }
        }
    }

    fn join_anew(&self) {
        let mut begun = self.clock.now();
        while !self.is_over() {
            match self.log.join(&self.options.name, &self.options.address) {
                Ok(member) => return self.state.lock().life = Life::Next(member),
                Err(error @ (LogError::Unreachable(_) | LogError::Full(_))) => {
                    begun = self.clock.now();
                    self.note_reached(&mut self.state.lock(), Err(&error));
                }
                // A join whose answer was lost may have it.
                Err(LogError::Refused(Refused::NameInUse(_))) if self.clock.now() - begun < NAME_WAIT => {}
                Err(error) => return self.stop(Stopped::Log(error)),
            }
            thread::sleep(PAUSE);
        }
    }

    /// Follows the order.
    pub(super) fn follow(&self) {
        // Of the revision of the last commit, later entries may be missing.
        let mut received = self.state.lock().received;
        while !self.is_over() {
            self.state.lock().listen(self.clock.now());
            let appended = self.log.after(received, WAIT);
            match &appended {
                Ok(_) => {
                    let mut state = self.state.lock();
                    self.note_reached(&mut state, Ok(()));
                    state.is_listening = false;
                }
                Err(error @ (LogError::Unreachable(_) | LogError::Full(_))) => {
                    self.note_reached(&mut self.state.lock(), Err(error));
                    thread::sleep(PAUSE);
                    continue;
                }
                Err(error) => return self.stop(Stopped::Log(error.clone())),
            }
            for mut batch in appended.into_iter().flatten() {
                let revision = batch.revision;
                if let Some(foreign) = batch.foreign.take() {
                    self.state.lock().skip(foreign);
                }
                for (position, entry) in batch.positioned() {
                    let mut state = self.state.lock();
                    if let Some(procedure) = state.differs.take() {
                        drop(state);
                        return self.stop(Stopped::Differs(procedure));
                    }
                    if let Err(why) = state.recognize(position, &entry) {
                        drop(state);
                        return self.stop(Stopped::Log(why));
                    }
                    if position <= state.machine.delivered() {
                        continue;
                    }
                    if state.note_entry(&entry) {
                        self.to_look.notify_one();
                    }
                    let mut out = Vec::new();
                    state.machine.deliver(position, entry, &mut out);
                    let next = state.perform(out);
                    if !self.apply_all(state, next) {
                        return;
                    }
                }
                received = revision;
                let mut state = self.state.lock();
                state.received = revision;
                if let Some(procedure) = state.differs.take() {
                    drop(state);
                    return self.stop(Stopped::Differs(procedure));
                }
            }
            if !self.live_on() {
                return;
            }
            self.received.notify_all();
            self.to_append.notify_all();
        }
    }

    /// Goes on as the member that it has joined anew as, if the order has said that the former one is gone. False if it has
    /// stopped.
    fn live_on(&self) -> bool {
        let mut state = self.state.lock();
        let Life::Next(member) = state.life else { return true };
        if !state.machine.is_fenced() {
            return true;
        }
        let mut out = Vec::new();
        (state.life, state.sender) = (Life::Present, Sender::new(super::ENTRIES_MAX));
        state.digests.clear();
        state.machine.rejoin(member, &mut out);
        let next = state.perform(out);
        self.apply_all(state, next)
    }

    /// Applies commits until the machine waits for the order again. False if it has stopped.
    fn apply_all(&self, state: MutexGuard<'_, State>, mut next: Option<Apply>) -> bool {
        drop(state);
        while let Some(apply) = next {
            match self.apply(apply) {
                Ok(more) => next = more,
                Err(error) => {
                    self.stop(Stopped::Database(error));
                    return false;
                }
            }
        }
        true
    }

    /// Applies a commit, and returns the next one.
    fn apply(&self, apply: Apply) -> Result<Option<Apply>, Error> {
        let Apply { version, position, txn, work } = apply;
        let (touched, changes, is_call) = match work {
            Work::Changes(touched, changes) => (touched, changes, false),
            Work::Call(call) => {
                let called = self.applier.database().run_replicated(&call)?;
                let digest = digest_of(&called);
                let Called { procedure, touched, changes, answer } = called;
                let mut state = self.state.lock();
                state.note_call(txn, procedure, digest);
                let has_failed = answer.is_err();
                state.answer(txn, answer);
                if has_failed {
                    let mut out = Vec::new();
                    state.machine.applied(Outcome::Refused(Reason::Failed), &mut out);
                    return Ok(state.perform(out));
                }
                (touched_by_call(&touched), changes, true)
            }
        };
        let (key, value) = marks::of(version, position, txn, &touched);
        let forgotten = marks::forgotten(version, self.window_commits);
        let mark = Mark {
            tree: self.options.marks,
            key: &key,
            value: &value,
            forgets: forgotten.as_ref().map(|key| &key[..]),
        };
        let changed = touched.iter().filter(|touched| touched.is_change());
        let mut trees: Vec<_> = changed.map(|Touched { table, .. }| gnomon_engine::TreeId(*table)).collect();
        trees.dedup();
        let ticket = self.applier.apply(&Ordered { trees: &trees, changes: &changes, mark })?;
        let mut state = self.state.lock();
        let outcome = match &ticket {
            None => Outcome::Refused(Conflict::Bound.into()),
            Some(ticket) => {
                state.idle_bytes = 0;
                state.versions.push_back((ticket.csn(), version, position));
                while state.versions.len() > self.window_commits {
                    state.versions.pop_front();
                }
                // Those of a commit are known.
                Outcome::Committed(if is_call { touched } else { Vec::new() })
            }
        };
        let mut out = Vec::new();
        state.machine.applied(outcome, &mut out);
        Ok(state.perform(out))
    }

    /// Asks the log for its newest revision, whenever a session wants it as of a later time than that of the last
    /// question.
    pub(super) fn ask_newest(&self) {
        let mut state = self.state.lock();
        while state.stopped.is_none() {
            if state.newest.map_or(Duration::ZERO, |(at, _)| at) >= state.newest_wanted_at {
                self.to_be_fresh.wait(&mut state);
                continue;
            }
            drop(state);
            let at = self.clock.now();
            let newest = self.log.newest();
            if newest.is_err() {
                // The thread that follows the log tells whether it is there.
                thread::sleep(PAUSE);
            }
            state = self.state.lock();
            if let Ok(newest) = newest {
                state.newest = Some((at, newest));
                self.received.notify_all();
            }
        }
    }
}

/// A checksum of what a call has done. What it says of an error may differ.
fn digest_of(called: &Called) -> u32 {
    let done = |answer: &Vec<u8>| crc32c::crc32c_append(crc32c::crc32c(answer), &called.changes);
    called.answer.as_ref().map_or(0, done)
}

impl State {
    /// Notes what a call has done here, and has it told to the others if it is of this member.
    fn note_call(&mut self, txn: TxnName, procedure: String, digest: u32) {
        if txn.member == self.machine.member() {
            self.digests.push(Entry::Digest(txn, digest));
        }
        self.calls.push_back((txn, procedure, digest));
        if self.calls.len() > CALLS_MAX {
            self.calls.pop_front();
        }
    }

    /// Appends digests of what calls have done.
    pub(super) fn append_digests(&mut self) {
        self.digests.drain(..).for_each(|digest| self.sender.push(digest));
    }

    /// Compares what a call has done with what it has done elsewhere, if it is known here.
    pub(super) fn compare(&mut self, txn: TxnName, digest: u32) {
        let differs = self.calls.iter().rev().find(|(of, ..)| *of == txn).filter(|(.., own)| *own != digest);
        if let Some((_, procedure, _)) = differs {
            self.differs = Some(procedure.clone());
        }
    }

    /// Keeps the answer of a call of this member, for its session.
    fn answer(&mut self, txn: TxnName, answer: Result<Vec<u8>, Error>) {
        if txn.member == self.machine.member()
            && let Some(asking) = self.asking.get_mut(&txn.number)
        {
            asking.answer = Some(answer);
        }
    }

    /// Fails if the last commit that the database has does not stand in the log where it was: what follows is behind
    /// another one.
    fn recognize(&mut self, position: Position, entry: &Entry) -> Result<(), LogError> {
        let Some((last, kept)) = self.last.take_if(|(last, _)| *last <= position) else { return Ok(()) };
        let is_same = match entry {
            Entry::Commit(commit) => marks::kept(commit.txn, &commit.touched) == kept,
            Entry::Call(txn, _) => *txn == kept.txn,
            _ => false,
        };
        match is_same && last == position {
            true => Ok(()),
            false => Err(has_lost_data()),
        }
    }
}
