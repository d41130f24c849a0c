//! A member at work: a database whose transactions commit in the order of the cluster.
//!
//! Promises: a transaction that is told to have committed stands in the order, and each member has applied it or will. A
//! member that comes back goes on behind the last commit that its database has; what it applied is neither lost nor
//! applied twice, since each commit leaves its place in the order with its changes (`marks`). Whatever cannot be applied
//! stops the member: it does not guess, and the others go on.
//!
//! How: sessions hand their commits over ([`Replicator`]) and wait. Two threads do the rest: one appends what the state
//! machine wants ordered, in batches, and asks again until it is answered; one follows the order, gives each entry to the
//! state machine, and applies what that says. The machine is behind a mutex, which nobody holds while he waits for the
//! log or the database.
//!
//! Not done here: who is a member at all, copies of the data for new members, procedures.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use gnomon::{
    Csn, Database, Error, Isolation, TreeId, TxnId,
    replication::{CommitRequest, Mark, Replicator, Touching},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
        thread,
    },
};

use crate::{
    order::{LogError, OrderedLog, Sender},
    protocol::{
        Access, Action, Apply, Level, Member, Outcome, Position, Protocol, Range, ReadSet, Reason, Replica,
        Settings, Touched, Version, Work,
    },
};

mod marks;

pub use marks::create;

/// So many entries go into a batch at most.
const ENTRIES_MAX: usize = 1000;
/// How long the log is waited for at a time.
const WAIT: Duration = Duration::from_millis(100);
/// How long after the log was not reached it is tried again.
const PAUSE: Duration = Duration::from_millis(50);

/// Why a member has stopped.
#[derive(Clone, Debug)]
pub enum Stopped {
    /// It was asked to.
    Left,
    /// The others hold it for gone: it can start again.
    Fenced,
    /// Its database could not apply what all have applied.
    Database(Error),
    /// What it read of the order makes no sense, or is not there any more.
    Log(LogError),
}

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stopped::Left => f.write_str("it has left the cluster"),
            Stopped::Fenced => f.write_str("the others hold it for gone: start it again"),
            Stopped::Database(error) => write!(f, "its database cannot follow the others: {error}"),
            Stopped::Log(error) => error.fmt(f),
        }
    }
}

/// How a member runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name that no other member has.
    pub name: String,
    /// The tree that [`create`] has made.
    pub marks: TreeId,
    /// As all members have them.
    pub settings: Settings,
}

/// A member of a cluster. Dropped, it leaves.
pub struct Node {
    shared: Arc<Shared>,
    threads: Vec<thread::JoinHandle<()>>,
}

struct Shared {
    log: Arc<dyn OrderedLog>,
    options: Options,
    member: Member,
    state: Mutex<State>,
    /// There is something to append, or no more will be.
    to_append: Condvar,
    /// A transaction has come to its end, or the member.
    ended: Condvar,
    is_stopping: AtomicBool,
}

struct State {
    machine: Replica,
    sender: Sender,
    next_number: u64,
    /// The newest revision that has come as a whole.
    received: u64,
    /// Transactions that began before they asked to commit.
    begun: BTreeMap<TxnId, u64>,
    /// What became of transactions whose sessions wait, by number.
    ends: BTreeMap<u64, Option<Result<Csn, Reason>>>,
    /// The newest commits: where each is here.
    versions: VecDeque<(Csn, Version)>,
    stopped: Option<Stopped>,
}

impl State {
    /// The newest commit that a snapshot has.
    fn version_at(&self, snapshot: Csn) -> Version {
        let newer = self.versions.partition_point(|(csn, _)| *csn <= snapshot);
        self.versions.get(newer.wrapping_sub(1)).map_or(Version(0), |(_, version)| *version)
    }

    /// Where a commit is here.
    fn csn_of(&self, version: Version) -> Csn {
        let at = self.versions.partition_point(|(_, known)| *known < version);
        self.versions.get(at).map_or(Csn(0), |(csn, _)| *csn)
    }

    fn end(&mut self, number: u64, end: Result<Csn, Reason>) {
        if let Some(waits) = self.ends.get_mut(&number) {
            *waits = Some(end);
        }
    }

    /// Does what needs neither the log nor the database; returns what is to be applied.
    fn perform(&mut self, actions: Vec<Action>) -> Option<Apply> {
        let mut apply = None;
        for action in actions {
            match action {
                Action::Append(entry) => self.sender.push(entry),
                Action::Apply(next) => apply = Some(next),
                Action::Refuse(number, reason) => self.end(number, Err(reason)),
                Action::Committed(number, version) => {
                    let csn = self.csn_of(version);
                    self.end(number, Ok(csn));
                }
                Action::Fenced => self.stop(Stopped::Fenced),
                Action::Broadcast(..) | Action::Restart(_) => {
                    unreachable!("only the paper's protocol does that")
                }
            }
        }
        apply
    }

    fn stop(&mut self, why: Stopped) {
        self.stopped.get_or_insert(why);
    }
}

impl Node {
    /// Has a database be a member from now on, and go on behind the last commit that it has.
    ///
    /// # Errors
    /// What keeps it from joining: [`Stopped`].
    pub fn start(database: Database, log: Arc<dyn OrderedLog>, options: Options) -> Result<Node, Stopped> {
        let (window, delivered) = marks::read(&database, options.marks, options.settings.window_commits)
            .map_err(Stopped::Database)?;
        let member = log.join(&options.name).map_err(Stopped::Log)?;
        let version = window.version();
        let newest = database.durable_csn();
        let state = State {
            machine: Replica::new(member, options.settings, window, delivered),
            sender: Sender::new(ENTRIES_MAX),
            next_number: 0,
            received: 0,
            begun: BTreeMap::new(),
            ends: BTreeMap::new(),
            versions: VecDeque::from([(newest, version)]),
            stopped: None,
        };
        let shared = Arc::new(Shared {
            log,
            options,
            member,
            state: Mutex::new(state),
            to_append: Condvar::new(),
            ended: Condvar::new(),
            is_stopping: AtomicBool::new(false),
        });
        if let Err(error) = database.set_replicator(shared.clone()) {
            let _ = shared.log.gone(member);
            return Err(Stopped::Database(error));
        }
        let (appends, follows) = (shared.clone(), shared.clone());
        let threads = vec![
            thread::spawn(move || appends.append_all()),
            // The database knows the member, so the member does not keep the database.
            thread::spawn(move || follows.follow(&database, delivered)),
        ];
        Ok(Node { shared, threads })
    }

    /// Its number in the order.
    pub fn member(&self) -> Member {
        self.shared.member
    }

    /// The last commit that it has applied.
    pub fn version(&self) -> Version {
        self.shared.state.lock().machine.version()
    }

    /// Waits until it has applied all that was ordered before the call.
    ///
    /// # Errors
    /// That it has stopped, or does not reach the log.
    pub fn catch_up(&self) -> Result<(), Stopped> {
        let newest = self.shared.log.newest().map_err(Stopped::Log)?;
        let mut state = self.shared.state.lock();
        loop {
            if let Some(stopped) = &state.stopped {
                return Err(stopped.clone());
            }
            if state.received >= newest && state.machine.waiting() == 0 {
                return Ok(());
            }
            self.shared.ended.wait_for(&mut state, WAIT);
        }
    }

    /// Why it has stopped, if it has.
    pub fn stopped(&self) -> Option<Stopped> {
        self.shared.state.lock().stopped.clone()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::Release);
        self.shared.state.lock().stop(Stopped::Left);
        self.shared.to_append.notify_all();
        self.shared.ended.notify_all();
        for thread in self.threads.drain(..) {
            // A panic there has been told.
            let _ = thread.join();
        }
        // If it is not reached, the others will say so.
        let _ = self.shared.log.gone(self.shared.member);
    }
}

impl Shared {
    fn is_over(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire) || self.state.lock().stopped.is_some()
    }

    fn stop(&self, why: Stopped) {
        self.state.lock().stop(why);
        self.ended.notify_all();
        self.to_append.notify_all();
    }

    /// Appends batches, one after another.
    fn append_all(&self) {
        loop {
            let batch = {
                let mut state = self.state.lock();
                loop {
                    if state.stopped.is_some() {
                        return;
                    }
                    match state.sender.batch() {
                        Some(batch) => break batch.clone(),
                        None => self.to_append.wait(&mut state),
                    }
                }
            };
            match self.log.append(self.member, &batch) {
                Ok(_) => self.state.lock().sender.appended(batch.sequence),
                Err(LogError::Refused(refused)) => {
                    if self.state.lock().sender.refused(batch.sequence, &refused) {
                        return self.stop(Stopped::Fenced);
                    }
                }
                Err(error @ LogError::Foreign(_)) => return self.stop(Stopped::Log(error)),
                Err(LogError::Unreachable(_) | LogError::Full(_)) => thread::sleep(PAUSE),
            }
        }
    }

    /// Follows the order.
    fn follow(&self, database: &Database, from: Position) {
        // Of the revision of the last commit, later entries may be missing.
        let mut received = from.revision.saturating_sub(1);
        while !self.is_over() {
            let appended = match self.log.after(received, WAIT) {
                Ok(appended) => appended,
                Err(LogError::Unreachable(_) | LogError::Full(_)) => {
                    thread::sleep(PAUSE);
                    continue;
                }
                Err(error) => return self.stop(Stopped::Log(error)),
            };
            for batch in appended {
                let revision = batch.revision;
                for (position, entry) in batch.positioned() {
                    let mut state = self.state.lock();
                    if position <= state.machine.delivered() {
                        continue;
                    }
                    let mut out = Vec::new();
                    state.machine.deliver(position, entry, &mut out);
                    let mut next = state.perform(out);
                    drop(state);
                    while let Some(apply) = next {
                        match self.apply(database, apply) {
                            Ok(more) => next = more,
                            Err(error) => return self.stop(Stopped::Database(error)),
                        }
                    }
                }
                received = revision;
                self.state.lock().received = revision;
            }
            self.ended.notify_all();
            self.to_append.notify_all();
        }
    }

    /// Applies a commit, and returns the next one.
    fn apply(&self, database: &Database, apply: Apply) -> Result<Option<Apply>, Error> {
        let Apply { version, position, work, .. } = apply;
        let Work::Changes(touched, changes) = work else {
            return Err(Error::Operation("a member with a newer program runs procedures everywhere".into()));
        };
        let (key, value) = marks::of(version, position, &touched);
        let forgotten = marks::forgotten(version, self.options.settings.window_commits);
        let mark = Mark {
            tree: self.options.marks,
            key: &key,
            value: &value,
            forgets: forgotten.as_ref().map(|key| &key[..]),
        };
        let ticket = database.apply_replicated(&changes, mark)?;
        let mut state = self.state.lock();
        let outcome = match &ticket {
            None => Outcome::Refused,
            Some(ticket) => {
                state.versions.push_back((ticket.csn(), version));
                while state.versions.len() > self.options.settings.window_commits {
                    state.versions.pop_front();
                }
                Outcome::Committed(Vec::new())
            }
        };
        let mut out = Vec::new();
        state.machine.applied(outcome, &mut out);
        let next = state.perform(out);
        drop(state);
        self.ended.notify_all();
        Ok(next)
    }
}

impl Replicator for Shared {
    fn begin(&self, txn: TxnId, missed_max: u32, snapshot: Csn) {
        let mut state = self.state.lock();
        let number = state.next_number;
        state.next_number += 1;
        let start = state.version_at(snapshot);
        state.begun.insert(txn, number);
        state.ends.insert(number, None);
        let mut out = Vec::new();
        state.machine.begin(number, Level::KBound(missed_max), start, ReadSet::default(), &mut out);
        state.perform(out);
        drop(state);
        self.to_append.notify_one();
    }

    fn commit(&self, request: CommitRequest) -> Result<Csn, Error> {
        let mut state = self.state.lock();
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
        let number = match state.begun.remove(&request.txn) {
            Some(number) => number,
            None => {
                let number = state.next_number;
                state.next_number += 1;
                let level = match request.isolation {
                    Isolation::ReadCommitted => Level::ReadCommitted,
                    Isolation::Snapshot => Level::Snapshot,
                    Isolation::Serializable => Level::Serializable,
                };
                state.ends.insert(number, None);
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
        self.to_append.notify_one();
        // Whatever interrupts the session: what is ordered commits or not, and only its end tells.
        loop {
            if let Some(Some(end)) = state.ends.get(&number) {
                let end = *end;
                state.ends.remove(&number);
                return end.map_err(|_| Error::Serialization);
            }
            if state.stopped.is_some() {
                state.ends.remove(&number);
                return Err(Error::Closed);
            }
            self.ended.wait(&mut state);
        }
    }

    fn abandon(&self, txn: TxnId) {
        let mut state = self.state.lock();
        if let Some(number) = state.begun.remove(&txn) {
            state.ends.remove(&number);
            state.machine.abandon(number);
        }
    }
}

/// Of more ranges that were read, neighbours become one.
const READS_MAX: usize = 10_000;

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

#[cfg(test)]
mod tests;
