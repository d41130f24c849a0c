//! What the threads of a member do.

use std::{collections::BTreeMap, time::Duration};

use gnomon::{
    Error, Reaction,
    env::Clock,
    replication::{Called, Mark, Ordered},
    sync::{MutexGuard, thread},
};

use super::{Life, Shared, State, Stopped, marks, session::touched_by_call};
use crate::{
    order::{Batch, LogError, Sender},
    protocol::{Apply, Entry, Member, Outcome, Position, Protocol, Touched, TxnName, Work},
};

/// How long the log is waited for at a time.
pub(super) const WAIT: Duration = Duration::from_millis(100);
/// How long after the log was not reached it is tried again.
const PAUSE: Duration = Duration::from_millis(50);
/// How often a member looks after what is slow.
const LOOK: Duration = Duration::from_secs(1);

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
                thread::sleep(PAUSE);
            }
        }
    }

    fn join_anew(&self) {
        match self.log.join(&self.options.name, &self.options.address) {
            Ok(member) => self.state.lock().life = Life::Next(member),
            Err(error @ (LogError::Unreachable(_) | LogError::Full(_))) => {
                self.note_reached(&mut self.state.lock(), Err(&error));
                thread::sleep(PAUSE);
            }
            Err(error) => self.stop(Stopped::Log(error)),
        }
    }

    /// Follows the order.
    pub(super) fn follow(&self) {
        // Of the revision of the last commit, later entries may be missing.
        let mut received = self.state.lock().received;
        while !self.is_over() {
            self.state.lock().is_listening = true;
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
            for batch in appended.into_iter().flatten() {
                let revision = batch.revision;
                for (position, entry) in batch.positioned() {
                    let mut state = self.state.lock();
                    if let Err(why) = state.recognize(position, &entry) {
                        drop(state);
                        return self.stop(Stopped::Log(why));
                    }
                    if position <= state.machine.delivered() {
                        continue;
                    }
                    let mut out = Vec::new();
                    state.machine.deliver(position, entry, &mut out);
                    let next = state.perform(out);
                    if !self.apply_all(state, next) {
                        return;
                    }
                }
                received = revision;
                self.state.lock().received = revision;
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
            Work::Call(call) => match self.applier.call(&call) {
                Ok(Called { touched, changes, answer }) => {
                    self.state.lock().answer(txn, Ok(answer));
                    (touched_by_call(&touched), changes, true)
                }
                Err(error) if is_of_call(&error) => {
                    let mut state = self.state.lock();
                    state.answer(txn, Err(error));
                    let mut out = Vec::new();
                    state.machine.applied(Outcome::Refused, &mut out);
                    return Ok(state.perform(out));
                }
                Err(error) => return Err(error),
            },
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
        let mut trees: Vec<_> = changed.map(|Touched { table, .. }| gnomon::TreeId(*table)).collect();
        trees.dedup();
        let ticket = self.applier.apply(&Ordered { trees: &trees, changes: &changes, mark })?;
        let mut state = self.state.lock();
        let outcome = match &ticket {
            None => Outcome::Refused,
            Some(ticket) => {
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

    /// Asks the log what is newest, whenever somebody wants to know it as of a later time than that of the last question.
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
                // Whoever follows the log tells whether it is there.
                thread::sleep(PAUSE);
            }
            state = self.state.lock();
            if let Ok(newest) = newest {
                state.newest = Some((at, newest));
                self.received.notify_all();
            }
        }
    }

    /// Looks after what is slow, until it has stopped.
    pub(super) fn look_after(&self) {
        let mut known = Known::default();
        loop {
            {
                let mut state = self.state.lock();
                let end = self.clock.now() + LOOK;
                while state.stopped.is_none() && self.clock.now() < end {
                    self.over.wait_for(&mut state, LOOK);
                }
                if state.stopped.is_some() {
                    return;
                }
            }
            match self.look(&mut known) {
                Ok(()) | Err(LogError::Unreachable(_) | LogError::Full(_) | LogError::Refused(_)) => {}
                Err(error) => self.stop(Stopped::Log(error)),
            }
        }
    }

    fn look(&self, known: &mut Known) -> Result<(), LogError> {
        let (last, member, is_full) = {
            let state = self.state.lock();
            let last = state.versions.back().map(|(csn, _, position)| (*csn, *position));
            (last, state.machine.member(), state.is_full)
        };
        // Nobody here may wait for what others have committed.
        if let Some((csn, position)) = last
            && self.applier.database().wait_durable(csn).is_ok()
        {
            // Of its own revision, later entries may be missing.
            let kept_after = position.revision.saturating_sub(1);
            if known.said != Some((member, kept_after)) {
                match self.log.keep_after(member, kept_after) {
                    Ok(()) => known.said = Some((member, kept_after)),
                    // What was said before can be trimmed all the same, which makes room.
                    Err(LogError::Full(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        let (members, now) = (self.log.members()?, self.clock.now());
        let silent = members.iter().filter(|info| !info.is_alive);
        let silent: BTreeMap<_, _> = silent
            .map(|info| (info.member, known.silent.get(&info.member).copied().unwrap_or(now)))
            .collect();
        for (member, since) in &silent {
            if now.saturating_sub(*since) >= self.options.silent_max {
                self.log.gone(*member)?;
            }
        }
        known.silent = silent;
        // One of them trims.
        if members.iter().filter(|info| info.is_alive).map(|info| info.member).min() == Some(member) {
            let mut kept = self.log.kept_after()?;
            let absent = kept.keys().filter(|name| members.iter().all(|info| info.name != **name));
            let absent: BTreeMap<_, _> =
                absent.map(|name| (name.clone(), known.absent.get(name).copied().unwrap_or(now))).collect();
            for (name, since) in &absent {
                if is_full || now.saturating_sub(*since) >= self.options.absent_max {
                    self.log.keep_nothing(name)?;
                    kept.remove(name);
                }
            }
            known.absent = absent;
            // Who has not said yet what it needs may need all.
            let all_said = members.iter().all(|info| kept.contains_key(&info.name));
            let upto = kept.values().min().copied().filter(|_| all_said).unwrap_or(0);
            if upto > known.trimmed {
                self.log.trim(upto)?;
                known.trimmed = upto;
            }
            if is_full && known.made_room != Some(upto) {
                self.log.make_room()?;
                known.made_room = Some(upto);
            }
        }
        Ok(())
    }
}

/// Whether an error is a call's own, which it has met at all members.
fn is_of_call(error: &Error) -> bool {
    let is_of_program = matches!(
        error,
        Error::NoSuchProcedure(_) | Error::ProcedureDiffers(_) | Error::NoSuchOperation { .. }
    );
    error.reaction() == Reaction::FixInput && !is_of_program
}

impl State {
    /// Keeps what a call of this member answers, for its session.
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
            false => Err(LogError::Foreign(
                "the log has not the last commit of this database where that was ordered: etcd has lost data; start a \
                 new cluster from a member's data (gnomon serve DIR --leave-cluster)"
                    .into(),
            )),
        }
    }
}

/// What a member knows when it looks again.
#[derive(Default)]
struct Known {
    /// What it has said last that it does not need.
    said: Option<(Member, u64)>,
    /// Since when members were not heard of.
    silent: BTreeMap<Member, Duration>,
    /// Since when members are not there for whom the log is kept.
    absent: BTreeMap<String, Duration>,
    /// Up to where the log was trimmed.
    trimmed: u64,
    /// And when room was made last.
    made_room: Option<u64>,
}
