//! A member at work: a database whose transactions commit in the order of the cluster.
//!
//! - [`Node`]: the member; [`create`] makes the marks of a first one; [`Status`]: how it is;
//! - `working`: what its threads do; `session`: what sessions ask of it; `marks`: what it keeps in its database.
//!
//! Promises: a transaction that is told to have committed stands in the order, and each member has applied it or will. A
//! member that comes back goes on behind the last commit that its database has; what it applied is neither lost nor
//! applied twice, since each commit leaves its place in the order with its changes. One that the others held for gone
//! comes back by itself, as another one, when it has heard that. Whatever cannot be applied stops the member: it does not
//! guess, and the others go on. What no member has written into the log is skipped by all, told and counted.
//!
//! How: sessions hand their commits over ([`Replicator`](gnomon_engine::replication::Replicator)) and wait. Four threads do
//! the rest. One appends what the state machine wants ordered, in batches, and asks again until it is answered. One
//! follows the order, gives each entry to the state machine, and applies what that says. One asks for the newest
//! revision, once for all sessions that want to be fresh at the time. One does what is slow: it says how far the data
//! are durable and which members are gone, and trims the log. The machine is behind a mutex, which no thread holds
//! while it waits for the log or the database.
//!
//! An ordered commit is in the log, so a commit is as durable as the log when its client is told. A session that
//! wants it durable here, too, waits for its commit ticket.
//!
//! Not done here: copies of the data for new members.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc::{self, RecvTimeoutError},
    time::Duration,
};

use gnomon_engine::{
    Applier, Csn, Error, TreeId, TxnId,
    env::{Clock, SystemClock},
    sync::{Arc, Condvar, Mutex, thread},
};

use crate::{
    order::{Foreign, LogError, MemberInfo, OrderedLog, Sender},
    protocol::{
        Action, Apply, Commit, Entry, Level, Member, Position, Protocol, Reason, Replica, TxnName, Version,
    },
};

mod chores;
mod marks;
mod session;
mod working;

pub use chores::make_room_if_alone;
pub use marks::{Common, create, remove};

/// Maximum number of entries in a batch.
const ENTRIES_MAX: usize = 1000;
/// Transactions with larger bounds are counted together.
pub const BOUND_MAX: u32 = 10;
/// Time without an answer of the log after which nothing more is handed to it.
const AWAY_MAX: Duration = Duration::from_secs(2);

/// Maximum time that a member that stops waits for the log to say so.
const STOP_MAX: Duration = Duration::from_secs(2);

/// The reason why a member has stopped.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Stopped {
    /// It was asked to.
    #[error("it has left the cluster")]
    Left,
    /// Its database could not apply what all have applied.
    #[error("its database cannot follow the others: {0}")]
    Database(Error),
    /// A call of the procedure has done something else here than where its client was answered.
    #[error(
        "the procedure '{0}' has done something else here than at the member whose client has called it: have it \
         depend on nothing but its parameters and the database, and start this member with an empty directory, for a \
         copy of that one's data"
    )]
    Differs(String),
    /// The order that it read makes no sense, or is not kept any more; or the log is not that of its data.
    #[error(transparent)]
    Log(LogError),
}

/// Settings of a member.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name that no other member has.
    pub name: String,
    /// The address at which others reach it.
    pub address: String,
    /// The tree that [`create`] has made.
    pub marks: TreeId,
    /// The member as which this log was joined before, without an address, to have what follows a copy of the data
    /// kept. With none, the start joins it.
    pub joined: Option<Member>,
    /// Time without a sign of a member after which this one says that it is gone.
    pub silent_max: Duration,
    /// Time for which the log keeps what an absent member needs, unless the log is full.
    pub absent_max: Duration,
}

impl Options {
    /// A member with a name, and with marks in a tree.
    pub fn new(name: impl Into<String>, marks: TreeId) -> Options {
        Options {
            name: name.into(),
            address: String::new(),
            marks,
            joined: None,
            silent_max: Duration::from_secs(30),
            absent_max: Duration::from_secs(3600),
        }
    }
}

/// How a member is.
#[derive(Clone, Debug)]
pub struct Status {
    /// Its number in the order.
    pub member: Member,
    /// The last commit that it has applied.
    pub version: Version,
    /// The newest revision of the log that it has received.
    pub received: u64,
    /// Number of entries that it has received and that have not had their turn.
    pub waiting: usize,
    /// The reason why it does not reach the log, if it does not.
    pub away: Option<String>,
    /// The log has no space left: it can be read, and takes nothing.
    pub is_full: bool,
    /// The cluster as it has asked last: every second, while the log answers.
    pub overview: Overview,
    /// The absent members for which it has the log kept no more: they need a new copy.
    pub dropped: BTreeSet<String>,
    /// Number of transactions of its clients that have ended, by level and reason; none is a commit. Bounds of
    /// [`BOUND_MAX`] and more count as that.
    pub ended: BTreeMap<(Level, Option<Reason>), u64>,
    /// The entries of the log that it has skipped, since no member has written them.
    pub skipped: Skipped,
}

/// The skipped entries of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Number of skipped entries.
    pub count: u64,
    /// The last one.
    pub last: Option<String>,
}

impl Skipped {
    fn add(&mut self, foreign: Foreign) {
        self.count += 1;
        self.last = Some(foreign.what);
    }
}

/// The state of a cluster as its log tells it.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    /// The members, with those that are not heard of.
    pub members: Vec<MemberInfo>,
    /// The revision up to which each of them, and of those that may come back, is durable, by name.
    pub kept_after: BTreeMap<String, u64>,
    /// The revision of the newest append.
    pub newest: u64,
}

impl Overview {
    fn ask(log: &dyn OrderedLog) -> Result<Overview, LogError> {
        Ok(Overview { members: log.members()?, kept_after: log.kept_after()?, newest: log.newest()? })
    }
}

/// A member of a cluster. Dropped, it leaves.
pub struct Node {
    shared: Arc<Shared>,
    threads: Vec<thread::JoinHandle<()>>,
}

struct Shared {
    log: Arc<dyn OrderedLog>,
    applier: Arc<dyn Applier>,
    options: Options,
    window_commits: usize,
    /// The number of the data.
    data: u64,
    clock: SystemClock,
    state: Mutex<State>,
    /// Signals that there is something to append, or that no more will be.
    to_append: Condvar,
    /// Signals that more was received and applied, or that the member has come to its end.
    received: Condvar,
    /// Signals that a session wants to be fresh.
    to_be_fresh: Condvar,
    /// Signals that slow work is to be done at once, or that the member has stopped.
    to_look: Condvar,
}

/// A transaction that has begun or asks to commit.
struct Asking {
    level: Level,
    end: Option<Result<Csn, Reason>>,
    /// The answer, if it is a call.
    answer: Option<Result<Vec<u8>, Error>>,
    /// Tells its session, and no other one.
    ended: Arc<Condvar>,
}

/// A life of this member, as it comes to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// It goes on.
    Present,
    /// The log holds it for gone, or soon will: it must join anew.
    Over,
    /// It has joined anew, and goes on as this member when the order has said that the former one is gone.
    Next(Member),
}

struct State {
    machine: Replica,
    life: Life,
    sender: Sender,
    next_number: u64,
    /// The newest revision that has come as a whole.
    received: u64,
    /// The last commit that the database has, until that has come again: what is kept of it.
    last: Option<(Position, Commit)>,
    /// Bytes of changes since it was last said how far the data are durable.
    unsaid_bytes: usize,
    /// Bytes of entries behind the last commit.
    idle_bytes: usize,
    /// The calls that ran here last: the transaction, the procedure, and a checksum of what it has done.
    calls: VecDeque<(TxnName, String, u32)>,
    /// The digests of the calls of this member's clients, to be appended with the next entries.
    digests: Vec<Entry>,
    /// The procedure that has done something else elsewhere.
    differs: Option<String>,
    /// Transactions that were told of before they asked to commit.
    begun: BTreeMap<TxnId, u64>,
    /// Transactions by number, each until its session has heard of its end.
    asking: BTreeMap<u64, Asking>,
    /// The newest commits: where each is here, and in the order.
    versions: VecDeque<(Csn, Version, Position)>,
    /// The time as of which, or later, the newest revision is wanted.
    newest_wanted_at: Duration,
    /// When the newest revision was last asked for, and the answer.
    newest: Option<(Duration, u64)>,
    /// The time before which all that was ordered is applied.
    complete_at: Option<Duration>,
    /// When the log was heard of last.
    heard_at: Duration,
    /// True if the log is listened to, so that it should be heard of.
    is_listening: bool,
    /// The reason why the log was not reached at the last try, if it was not.
    away: Option<String>,
    /// The log has no space left.
    is_full: bool,
    overview: Overview,
    dropped: BTreeSet<String>,
    ended: BTreeMap<(Level, Option<Reason>), u64>,
    skipped: Skipped,
    stopped: Option<Stopped>,
}

impl State {
    /// The newest commit that a snapshot has.
    fn version_at(&self, snapshot: Csn) -> Version {
        let newer = self.versions.partition_point(|(csn, ..)| *csn <= snapshot);
        self.versions.get(newer.wrapping_sub(1)).map_or(Version(0), |(_, version, _)| *version)
    }

    /// Returns the position of a commit here.
    fn csn_of(&self, version: Version) -> Csn {
        let at = self.versions.partition_point(|(_, known, _)| *known < version);
        self.versions.get(at).map_or(Csn(0), |(csn, ..)| *csn)
    }

    /// Counts a transaction of this member's clients.
    fn count(&mut self, level: Level, end: Option<Reason>) {
        let level = match level {
            Level::KBound(k) => Level::KBound(k.min(BOUND_MAX)),
            level => level,
        };
        *self.ended.entry((level, end)).or_default() += 1;
    }

    fn end(&mut self, number: u64, end: Result<Csn, Reason>) {
        if let Some(asking) = self.asking.get_mut(&number) {
            asking.end = Some(end);
            asking.ended.notify_one();
        }
    }

    /// Does what needs neither the log nor the database; returns what is to be applied.
    fn perform(&mut self, actions: Vec<Action>) -> Option<Apply> {
        let mut apply = None;
        for action in actions {
            match action {
                Action::Append(entry) => {
                    self.append_digests();
                    self.sender.push(entry);
                }
                Action::Compare(txn, digest) => self.compare(txn, digest),
                Action::Apply(next) => apply = Some(next),
                Action::Refuse(number, reason) => self.end(number, Err(reason)),
                Action::Committed(number, version) => {
                    let csn = self.csn_of(version);
                    self.end(number, Ok(csn));
                }
                Action::Fenced if self.life == Life::Present => self.life = Life::Over,
                Action::Fenced => {}
                Action::Broadcast(..) | Action::Restart(_) => {
                    unreachable!("only the paper's protocol does that")
                }
            }
        }
        apply
    }

    /// Returns the reason why nothing more can be appended, if the log is full or not there.
    fn away(&self, now: Duration) -> Option<String> {
        if self.is_full {
            return self.away.clone().or_else(|| Some("the log of the cluster is full".into()));
        }
        self.silent(now)
    }

    /// The log is listened to from now on, if it was not.
    fn listen(&mut self, now: Duration) {
        if !std::mem::replace(&mut self.is_listening, true) {
            self.heard_at = now;
        }
    }

    /// Returns the reason why the log is not there, if it was not heard of for too long.
    fn silent(&self, now: Duration) -> Option<String> {
        let silent = now.saturating_sub(self.heard_at);
        let why = || format!("the log of the cluster has not answered for {} seconds", silent.as_secs());
        (self.is_listening && silent >= AWAY_MAX).then(|| self.away.clone().unwrap_or_else(why))
    }

    fn stop(&mut self, why: Stopped) {
        self.stopped.get_or_insert(why);
    }
}

impl Node {
    /// Makes a database a member from now on, which goes on behind the last commit that it has.
    ///
    /// # Errors
    /// What keeps it from joining: [`Stopped`].
    pub fn start(
        applier: Arc<dyn Applier>,
        log: Arc<dyn OrderedLog>,
        options: Options,
    ) -> Result<Node, Stopped> {
        let database = applier.database().clone();
        let marks = marks::read(&database, options.marks).map_err(Stopped::Database)?;
        let (window, delivered) = (marks.window, marks.delivered);
        check_data(&*log, marks.common.data, window.version(), delivered)?;
        let present = match options.joined {
            // Otherwise it was held for gone before, which what follows does not tell any more.
            Some(_) => log.members().map_err(Stopped::Log)?,
            None => Vec::new(),
        };
        let member = match options.joined.filter(|joined| present.iter().any(|info| info.member == *joined)) {
            Some(member) => member,
            None => log.join(&options.name, &options.address).map_err(Stopped::Log)?,
        };
        let overview = Overview::ask(&*log).map_err(|error| {
            let _ = log.gone(member);
            Stopped::Log(error)
        })?;
        let settings = marks.common.settings;
        let known = (database.durable_csn(), window.version(), delivered);
        let state = State {
            machine: Replica::new(member, settings, window, delivered),
            life: Life::Present,
            sender: Sender::new(ENTRIES_MAX),
            next_number: 0,
            received: delivered.revision.saturating_sub(1),
            last: marks.last.map(|last| (delivered, last)),
            unsaid_bytes: 0,
            idle_bytes: 0,
            calls: VecDeque::new(),
            digests: Vec::new(),
            differs: None,
            begun: BTreeMap::new(),
            asking: BTreeMap::new(),
            versions: VecDeque::from([known]),
            newest_wanted_at: Duration::ZERO,
            newest: None,
            complete_at: None,
            heard_at: Duration::ZERO,
            is_listening: false,
            away: None,
            is_full: false,
            overview,
            dropped: BTreeSet::new(),
            ended: BTreeMap::new(),
            skipped: Skipped::default(),
            stopped: None,
        };
        let shared = Arc::new(Shared {
            log,
            applier,
            options,
            window_commits: settings.window_commits,
            data: marks.common.data,
            clock: SystemClock::new(),
            state: Mutex::new(state),
            to_append: Condvar::new(),
            received: Condvar::new(),
            to_be_fresh: Condvar::new(),
            to_look: Condvar::new(),
        });
        if let Err(error) = database.set_replicator(Arc::new(session::Door(Arc::downgrade(&shared)))) {
            let _ = shared.log.gone(member);
            return Err(Stopped::Database(error));
        }
        let works = [Shared::append_all, Shared::follow, Shared::ask_newest, Shared::look_after];
        let threads = works.map(|work| {
            let shared = shared.clone();
            thread::spawn(move || {
                // No other thread would do its work.
                if catch_unwind(AssertUnwindSafe(|| work(&shared))).is_err() {
                    shared
                        .stop(Stopped::Database(Error::Operation("a thread of the member panicked".into())));
                }
            })
        });
        Ok(Node { shared, threads: threads.into() })
    }

    /// Returns its status.
    pub fn status(&self) -> Status {
        let state = self.shared.state.lock();
        let away = state.silent(self.shared.clock.now());
        Status {
            member: state.machine.member(),
            version: state.machine.version(),
            received: state.received,
            waiting: state.machine.waiting(),
            away,
            is_full: state.is_full,
            overview: state.overview.clone(),
            dropped: state.dropped.clone(),
            ended: state.ended.clone(),
            skipped: state.skipped.clone(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.shared.options.name
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
            if state.has_applied(newest) {
                return Ok(());
            }
            self.shared.received.wait_for(&mut state, working::WAIT);
        }
    }

    /// Returns the reason why it has stopped, if it has.
    pub fn stopped(&self) -> Option<Stopped> {
        self.shared.state.lock().stopped.clone()
    }
}

impl State {
    /// True if all up to a revision is applied.
    fn has_applied(&self, revision: u64) -> bool {
        self.received >= revision && self.machine.waiting() == 0
    }
}

/// Fails unless a log is for data of this number and reaches to where these end, or is for none yet, and the data were in
/// no order.
fn check_data(log: &dyn OrderedLog, data: u64, version: Version, delivered: Position) -> Result<(), Stopped> {
    let claimed = (version == Version(0)).then_some(data);
    let foreign = |why: &str| Err(Stopped::Log(LogError::Foreign(why.into())));
    match log.data(claimed).map_err(Stopped::Log)? {
        Some(known) if known == data => {
            // Whether its last commit is there is seen when the member comes to it.
            match version > Version(0) && log.newest().map_err(Stopped::Log)? < delivered.revision {
                true => Err(Stopped::Log(has_lost_data())),
                false => Ok(()),
            }
        }
        Some(_) => foreign(
            "this database is of another cluster than the one whose log that is: give the log of its own, or start with \
             an empty directory to have a copy of what that cluster has",
        ),
        None => foreign(
            "the log of the cluster is empty, and this database has followed one: if its log is lost, take the database \
             out of the cluster (gnomon serve DIR --leave-cluster), and start a new one from it",
        ),
    }
}

/// A log without the last commit of this database.
fn has_lost_data() -> LogError {
    LogError::Foreign(
        "the log has not the last commit of this database where that was ordered: etcd has lost data; start a new \
         cluster from a member's data (gnomon serve DIR --leave-cluster)"
            .into(),
    )
}

impl Drop for Node {
    fn drop(&mut self) {
        let is_away = {
            let state = self.shared.state.lock();
            state.away.is_some() || state.away(self.shared.clock.now()).is_some()
        };
        let log = self.shared.log.clone();
        let (ended, end) = mpsc::channel::<()>();
        // Dropping what it waits for wakes it.
        let closing = thread::spawn(move || {
            if is_away || end.recv_timeout(STOP_MAX) == Err(RecvTimeoutError::Timeout) {
                log.close();
            }
        });
        self.shared.stop(Stopped::Left);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        // If it is not reached, the others will say so.
        if !is_away {
            let member = self.shared.state.lock().machine.member();
            let _ = self.shared.log.gone(member);
        }
        drop(ended);
        let _ = closing.join();
    }
}

impl Shared {
    fn is_over(&self) -> bool {
        self.state.lock().stopped.is_some()
    }

    fn stop(&self, why: Stopped) {
        let mut state = self.state.lock();
        state.stop(why);
        for waiting in [&self.received, &self.to_append, &self.to_be_fresh, &self.to_look] {
            waiting.notify_all();
        }
        for asking in state.asking.values() {
            asking.ended.notify_all();
        }
    }
}

#[cfg(test)]
mod tests;
