//! What the threads of a member do.

use std::{collections::BTreeMap, time::Duration};

use gnomon::{
    Error,
    env::Clock,
    replication::{Called, Mark, Ordered},
    sync::{MutexGuard, thread},
};

use super::{Life, Shared, State, Stopped, marks, session::touched_by_call};
use crate::{
    order::{Batch, LogError, MemberInfo, Refused, Sender},
    protocol::{Apply, Entry, Member, Outcome, Position, Protocol, Touched, TxnName, Work},
};

/// How long the log is waited for at a time.
pub(super) const WAIT: Duration = Duration::from_millis(100);
/// How long after the log was not reached it is tried again.
const PAUSE: Duration = Duration::from_millis(50);
/// After so many bytes of changes it is said how far the data are durable: a full log does not take that any more.
const UNSAID_BYTES_MAX: usize = 4 << 20;
/// How often is asked whether the log is full, by members that append nothing too.
const FULL_INTERVAL: Duration = Duration::from_secs(10);
/// How often a full log is given room, since it does not answer meanwhile: if more was trimmed, and otherwise.
const ROOM_INTERVAL: Duration = Duration::from_secs(5);
const ROOM_INTERVAL_IN_VAIN: Duration = Duration::from_secs(30);
/// How long a member that joins anew waits for its own name, which is taken until its former life is over.
const NAME_WAIT: Duration = Duration::from_secs(20);
/// How often a member looks after what is slow; and while the log is full, after which it fills again.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_FULL: Duration = Duration::from_millis(200);

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
        let begun = self.clock.now();
        while !self.is_over() {
            match self.log.join(&self.options.name, &self.options.address) {
                Ok(member) => return self.state.lock().life = Life::Next(member),
                Err(error @ (LogError::Unreachable(_) | LogError::Full(_))) => {
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
                    state.unsaid_bytes += entry.bytes();
                    if state.unsaid_bytes >= UNSAID_BYTES_MAX {
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
            Work::Call(call) => {
                let Called { touched, changes, answer } = self.applier.database().run_replicated(&call)?;
                let mut state = self.state.lock();
                let has_failed = answer.is_err();
                state.answer(txn, answer);
                if has_failed {
                    let mut out = Vec::new();
                    state.machine.applied(Outcome::Refused, &mut out);
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
                let pause = if state.is_full { LOOK_FULL } else { LOOK };
                let end = self.clock.now() + pause;
                while state.stopped.is_none()
                    && state.unsaid_bytes < UNSAID_BYTES_MAX
                    && self.clock.now() < end
                {
                    self.to_look.wait_for(&mut state, pause);
                }
                state.unsaid_bytes = 0;
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
        let (mut is_full, now) = (self.state.lock().is_full, self.clock.now());
        if is_full || known.asked_full_at.is_none_or(|at| now.saturating_sub(at) >= FULL_INTERVAL) {
            is_full = self.log.is_full()?;
            known.asked_full_at = Some(now);
        }
        let newest = if is_full { Some(self.log.newest()?) } else { None };
        let (last, member, has_all) = {
            let mut state = self.state.lock();
            state.note_full(is_full);
            let last = state.versions.back().map(|(csn, _, position)| (*csn, *position));
            (last, state.machine.member(), newest.is_some_and(|newest| state.has_applied(newest)))
        };
        // Only what is durable is said, and nobody else may have waited for that.
        if let Some((csn, position)) = last
            && self.applier.database().wait_durable(csn).is_ok()
        {
            // Of its own revision, later entries may be missing.
            let kept_after = position.revision.saturating_sub(1);
            if known.said != Some((member, kept_after)) {
                match self.log.keep_after(member, kept_after) {
                    Ok(()) => known.said = Some((member, kept_after)),
                    Err(LogError::Full(_)) => {
                        self.state.lock().note_full(true);
                        if has_all {
                            ignore_refusal(self.log.keep_after_when_full(member, kept_after))?;
                        }
                    }
                    said => ignore_refusal(said)?,
                }
            }
        }
        let (members, now) = (self.log.members()?, self.clock.now());
        if members.iter().all(|info| info.member != member || !info.is_alive) {
            self.state.lock().end_life(member);
            self.to_append.notify_all();
        }
        let silent = members.iter().filter(|info| !info.is_alive);
        let silent: BTreeMap<_, _> = silent
            .map(|info| (info.member, known.silent.get(&info.member).copied().unwrap_or(now)))
            .collect();
        for (member, since) in &silent {
            // Which a full log does not take.
            if now.saturating_sub(*since) >= self.options.silent_max && !is_full {
                self.log.gone(*member)?;
            }
        }
        known.silent = silent;
        // One of them trims.
        let is_alive = |info: &&MemberInfo| info.is_alive;
        let all = || members.iter();
        let trims =
            all().filter(is_alive).min_by_key(|info| info.member).or(all().min_by_key(|info| info.member));
        if trims.is_some_and(|info| info.member == member) {
            self.trim(known, &members, is_full)?;
        }
        Ok(())
    }

    /// Trims the log to what members need, and gives it room if it is full.
    fn trim(&self, known: &mut Known, members: &[MemberInfo], is_full: bool) -> Result<(), LogError> {
        let now = self.clock.now();
        // Of who may come back; in a full log for as long only as one that is there may be silent.
        let absent_max = if is_full { self.options.silent_max } else { self.options.absent_max };
        let is_there =
            |name: &String| members.iter().any(|info| info.name == *name && (info.is_alive || !is_full));
        let mut kept = self.log.kept_after()?;
        known.absent = kept
            .keys()
            .filter(|name| !is_there(name))
            .map(|name| (name.clone(), known.absent.get(name).copied().unwrap_or(now)))
            .collect();
        for (name, since) in &known.absent {
            if now.saturating_sub(*since) >= absent_max {
                self.log.keep_nothing(name)?;
                kept.remove(name);
            }
        }
        // Who has not said yet what it needs may need all.
        let all_said = members.iter().all(|info| kept.contains_key(&info.name) || !is_there(&info.name));
        let upto = kept.values().min().copied().filter(|_| all_said).unwrap_or(0);
        if upto > known.trimmed {
            self.log.trim(upto)?;
            known.trimmed = upto;
        }
        let is_room_due = known.made_room.is_none_or(|(at, trimmed)| {
            let interval = if known.trimmed > trimmed { ROOM_INTERVAL } else { ROOM_INTERVAL_IN_VAIN };
            now.saturating_sub(at) >= interval
        });
        if is_full && is_room_due {
            known.made_room = Some((now, known.trimmed));
            self.log.make_room()?;
        }
        Ok(())
    }
}

/// What was said before can be trimmed, which gives a full log room; or the member comes back as another one.
fn ignore_refusal(said: Result<(), LogError>) -> Result<(), LogError> {
    match said {
        Err(LogError::Full(_) | LogError::Refused(_)) => Ok(()),
        said => said,
    }
}

impl State {
    /// Notes whether the log says that it is full.
    fn note_full(&mut self, is_full: bool) {
        if std::mem::replace(&mut self.is_full, is_full) && !is_full {
            self.away = None;
        }
    }

    /// The log has not heard of this member for too long: it has to come back as another one.
    fn end_life(&mut self, member: Member) {
        if self.life == Life::Present && self.machine.member() == member {
            self.life = Life::Over;
        }
    }

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
    /// When it was asked last whether the log is full.
    asked_full_at: Option<Duration>,
    /// When room was made last, and up to where the log was trimmed then.
    made_room: Option<(Duration, u64)>,
}
