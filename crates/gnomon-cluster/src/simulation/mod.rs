//! Clusters in virtual time: members with the protocol's state machine, the ordered log, a network between them that
//! delays, loses and repeats, and clients.
//!
//! - `Cluster` (here): what happens, event by event; `data`: what a member stores; [`Job`], [`Mixed`]: what clients do;
//! - [`History`]: what clients saw, and whether it is what their levels promise.
//!
//! Promises: the same [`Options`] give the same run. The state machines are those of real members; what is simulated is
//! what is around them.
//!
//! What the log does is atomic, as one in etcd is to its clients: its own replication is a part of the time that a
//! message takes, and of the times in which it is not there.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    ops::RangeInclusive,
};

use gnomon_engine::env::Rng;

use crate::{
    order::{Appended, Ledger, Refused, Sender},
    protocol::{Apply, Entry, Member, PaperReplica, Protocol, Replica, Settings, TxnName, Version, Window},
};

mod clients;
mod data;
mod history;
mod job;
mod members;
mod network;

pub use data::{Change, Value};
use data::{Changes, Data};
pub use history::{End, History, Read, Record, Violation};
pub use job::{Job, Jobs, Mixed, Step};

/// Microseconds of virtual time.
pub type Micros = u64;

/// The protocol that members run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// That of the paper.
    Paper {
        /// True if a transaction that has missed too much is run again by its member, as in the paper's figure; the
        /// paper's measurements count it as aborted.
        restarts: bool,
    },
    /// That which is used.
    Used(Settings),
}

/// Durations of the simulated steps.
#[derive(Clone, Debug)]
pub struct Times {
    /// A message from a member to the log and its answer, half of it each: one for each member, which are taken in turns.
    pub to_log_us: Vec<Micros>,
    /// By how much messages are later than that, on average; most by less, few by much.
    pub jitter_us: Micros,
    /// To execute one step of a transaction.
    pub step_us: Micros,
    /// To apply a commit of another member.
    pub apply_us: RangeInclusive<Micros>,
    /// To apply one of the member's own.
    pub apply_own_us: RangeInclusive<Micros>,
}

impl Times {
    /// Machines in one room.
    pub fn lan() -> Times {
        Times {
            to_log_us: vec![400],
            jitter_us: 100,
            step_us: 200,
            apply_us: 200..=1_000,
            apply_own_us: 50..=200,
        }
    }
}

/// The faults, with an average time between two of a kind; none never happens.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// A member crashes: it forgets what is not durable, and comes back a while later.
    pub crash_us: Option<Micros>,
    /// A member stands still for a while.
    pub pause_us: Option<Micros>,
    /// A member is cut off from the log for a while.
    pub cut_us: Option<Micros>,
    /// The log is not there for a while.
    pub log_us: Option<Micros>,
    /// Something else than a member writes into the log.
    pub foreign_us: Option<Micros>,
    /// Percentage of messages that are lost, and of those that come twice.
    pub lost_percent: u64,
}

impl Faults {
    /// Everything, often.
    pub fn all() -> Faults {
        Faults {
            crash_us: Some(300_000),
            pause_us: Some(100_000),
            cut_us: Some(100_000),
            log_us: Some(300_000),
            foreign_us: Some(50_000),
            lost_percent: 5,
        }
    }
}

/// A simulated cluster and its clients.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed of the random numbers.
    pub seed: u64,
    /// Number of members.
    pub members: usize,
    /// The protocol that they run.
    pub which: Which,
    /// How long things take.
    pub times: Times,
    /// The faults that they meet.
    pub faults: Faults,
    /// Number of transactions.
    pub transactions: usize,
    /// The average time from one to the next, over all members.
    pub interarrival_us: Micros,
    /// A bug that is to be caught.
    #[cfg(test)]
    pub planted: Option<PlantedBug>,
}

/// Bugs that the checks must find.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// Transactions are certified as if their snapshot were newer by one.
    WrongWindow,
    /// A member sometimes applies a commit's changes after the next one's.
    AppliesOutOfOrder,
    /// Clients are told of a commit when it is asked for.
    AcknowledgesBeforeDelivery,
    /// After a connection was lost, a member goes on with what is newest.
    DropsAfterReconnecting,
    /// A batch whose answer was lost is sent as a new one.
    AppendsAgain,
    /// Bounds are not looked at when the turn has come.
    IgnoresBegin,
    /// Ranges count by the rows that were found.
    ForgetsGaps,
    /// A copy of a batch that no member has appended counts, for those that follow the log at the time.
    TakesForeign,
}

impl Options {
    /// Small and quick, with nothing that fails.
    pub fn new(seed: u64, members: usize, which: Which) -> Options {
        Options {
            seed,
            members,
            which,
            times: Times::lan(),
            faults: Faults::default(),
            transactions: 100,
            interarrival_us: 1_000,
            #[cfg(test)]
            planted: None,
        }
    }
}

/// Time without a sign of a member after which it is held for gone.
const GONE_US: Micros = 40_000;
/// Time to wait for an answer before asking again.
const RESEND_US: Micros = 8_000;
/// Maximum duration of a fault.
const FAULT_US: Micros = 60_000;
/// Time behind the last transaction at which all is to be over, at the latest.
const DRAIN_US: Micros = 20_000_000;
const ENTRIES_MAX: usize = 64;

#[derive(Clone, Debug)]
enum Event {
    Arrive(usize),
    Step(At, u64),
    Applied(At),
    Request(At, Member, u64, Vec<Entry>),
    Answer(At, u64, Result<u64, Refused>),
    Resend(At, u64),
    Delivery(At, u64, Appended),
    Decision(At, TxnName, bool),
    Crash(usize),
    Restart(usize),
    Pause(usize),
    Cut(usize),
    Healed(usize),
    LogDown,
    LogUp,
    Gone(Member, usize),
    Foreign,
}

/// A member in one of its lives: events of an earlier one are void.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct At {
    node: usize,
    life: u64,
}

/// The work of a commit: changes, or a call that makes them.
#[derive(Clone, Debug)]
enum Work {
    Changes(Changes),
    Call(Job),
}

/// A transaction that runs.
#[derive(Clone, Debug)]
struct Running {
    job: Job,
    record: usize,
    step: usize,
    start: Version,
    changes: Changes,
}

struct Node {
    life: u64,
    member: Member,
    machine: Box<dyn Protocol>,
    sender: Sender,
    /// The present connection to the log, over which entries come.
    stream: u64,
    /// The newest revision that has come.
    received: u64,
    /// The earliest time at which the next message over the connection arrives.
    stream_free_at: Micros,
    is_up: bool,
    is_cut: bool,
    /// Until when it stands still.
    paused_until: Micros,
    running: BTreeMap<u64, Running>,
    applying: Option<Apply>,
    data: Data,
    /// Number of commits that are durable.
    durable: usize,
    /// Changes that wait for those of the next commit, by a planted bug.
    #[cfg(test)]
    late: Option<Changes>,
}

impl Node {
    fn is_connected(&self) -> bool {
        self.is_up && !self.is_cut
    }
}

/// A cluster that runs.
pub struct Cluster<'j> {
    options: Options,
    rng: Rng,
    now: Micros,
    count: u64,
    events: BinaryHeap<Reverse<(Micros, u64)>>,
    pending: BTreeMap<u64, Event>,
    ledger: Ledger,
    /// The newest revision that was sent to the connected members.
    told: u64,
    is_log_up: bool,
    nodes: Vec<Node>,
    jobs: &'j mut dyn Jobs,
    arrived: usize,
    next_number: u64,
    /// The work of transactions, with the index of each one's record; an entry has its index here for its changes.
    work: Vec<(Work, usize)>,
    history: History,
}

/// Runs a cluster to its end: all transactions have one, all that failed is mended, and all members have the same data.
///
/// # Errors
/// What is not as promised.
pub fn run(options: &Options, jobs: &mut dyn Jobs) -> Result<History, Violation> {
    let mut cluster = Cluster::new(options.clone(), jobs);
    cluster.run()?;
    cluster.finish()
}

impl<'j> Cluster<'j> {
    fn new(options: Options, jobs: &'j mut dyn Jobs) -> Cluster<'j> {
        let rng = Rng::from_seed(options.seed);
        let mut cluster = Cluster {
            rng,
            now: 0,
            count: 0,
            events: BinaryHeap::new(),
            pending: BTreeMap::new(),
            ledger: Ledger::default(),
            told: 0,
            is_log_up: true,
            nodes: Vec::new(),
            jobs,
            arrived: 0,
            next_number: 0,
            work: Vec::new(),
            history: History::default(),
            options,
        };
        for node in 0..cluster.options.members {
            let member = cluster.ledger.join(&format!("node {node}"), "").expect("names differ");
            let machine = cluster.machine(member, &Data::default());
            cluster.nodes.push(Node {
                life: 0,
                member,
                machine,
                sender: Sender::new(ENTRIES_MAX),
                stream: 0,
                received: 0,
                stream_free_at: 0,
                is_up: true,
                is_cut: false,
                paused_until: 0,
                running: BTreeMap::new(),
                applying: None,
                data: Data::default(),
                durable: 0,
                #[cfg(test)]
                late: None,
            });
        }
        let received = cluster.ledger.revision();
        cluster.nodes.iter_mut().for_each(|node| node.received = received);
        let faults = cluster.options.faults.clone();
        for node in 0..cluster.options.members {
            cluster.fault(faults.crash_us, Event::Crash(node));
            cluster.fault(faults.pause_us, Event::Pause(node));
            cluster.fault(faults.cut_us, Event::Cut(node));
        }
        cluster.fault(faults.log_us, Event::LogDown);
        cluster.fault(faults.foreign_us, Event::Foreign);
        let first = cluster.rng.below(cluster.options.members as u64) as usize;
        cluster.schedule(0, Event::Arrive(first));
        cluster
    }

    fn machine(&self, member: Member, data: &Data) -> Box<dyn Protocol> {
        match self.options.which {
            Which::Paper { .. } => Box::new(PaperReplica::new(member, usize::MAX)),
            Which::Used(settings) => {
                let commits = data.commits();
                let kept = commits.len().saturating_sub(settings.window_commits);
                let mut window = Window::new(settings.window_commits, Version(kept as u64));
                for commit in &commits[kept..] {
                    let version = window.push(&commit.touched);
                    assert_eq!(version, commit.version, "versions are counted");
                }
                let delivered = commits.last().map(|commit| commit.position).unwrap_or_default();
                Box::new(Replica::new(member, settings, window, delivered))
            }
        }
    }

    fn schedule(&mut self, after: Micros, event: Event) {
        self.count += 1;
        self.events.push(Reverse((self.now + after, self.count)));
        self.pending.insert(self.count, event);
    }

    /// Schedules a fault of a kind, as long as there are transactions.
    fn fault(&mut self, average_us: Option<Micros>, event: Event) {
        if let Some(average_us) = average_us
            && self.arrived < self.options.transactions
        {
            let after = 1 + self.rng.below(2 * average_us);
            self.schedule(after, event);
        }
    }

    /// Keeps what is to be applied, and returns what stands for it.
    fn keep(&mut self, work: Work, record: usize) -> Vec<u8> {
        self.work.push((work, record));
        (self.work.len() as u64 - 1).to_le_bytes().to_vec()
    }

    /// How long something takes that takes so long on average, most of the time less.
    fn about(&mut self, average_us: Micros) -> Micros {
        (-(1.0 - self.rng.unit()).ln() * average_us as f64) as Micros
    }

    fn one_way(&mut self, node: usize) -> Micros {
        let times = &self.options.times;
        let base = times.to_log_us[node % times.to_log_us.len()] / 2;
        let jitter = times.jitter_us;
        base + self.about(jitter)
    }

    fn within(&mut self, range: &RangeInclusive<Micros>) -> Micros {
        range.start() + self.rng.below(range.end() - range.start() + 1)
    }

    #[cfg(test)]
    fn is_planted(&self, bug: PlantedBug) -> bool {
        self.options.planted == Some(bug)
    }

    fn run(&mut self) -> Result<(), Violation> {
        let mut ends_at = Micros::MAX;
        while let Some(Reverse((at, number))) = self.events.pop() {
            self.now = at;
            let Some(event) = self.pending.remove(&number) else { continue };
            if self.arrived >= self.options.transactions && ends_at == Micros::MAX {
                ends_at = at + DRAIN_US;
            }
            if at > ends_at {
                return Err(Violation::new("the cluster does not come to an end"));
            }
            if let Some(node) = event.node()
                && self.nodes[node].paused_until > at
            {
                // It is met by what waits when it goes on, in the same order.
                self.events.push(Reverse((self.nodes[node].paused_until, number)));
                self.pending.insert(number, event);
                continue;
            }
            self.happen(event)?;
        }
        Ok(())
    }

    /// The member at which something happens, if it lives as it did when that was caused.
    fn alive(&self, at: At) -> bool {
        let node = &self.nodes[at.node];
        node.is_up && node.life == at.life
    }

    fn at(&self, node: usize) -> At {
        At { node, life: self.nodes[node].life }
    }

    fn happen(&mut self, event: Event) -> Result<(), Violation> {
        match event {
            Event::Arrive(node) => self.arrive(node)?,
            Event::Step(at, number) if self.alive(at) => self.step(at.node, number)?,
            Event::Applied(at) if self.alive(at) => self.applied(at.node)?,
            Event::Request(at, member, sequence, entries) => self.requested(at, member, sequence, entries),
            Event::Answer(at, sequence, answer) if self.alive(at) => self.answered(at, sequence, answer),
            Event::Resend(at, sequence) if self.alive(at) => {
                if self.nodes[at.node].sender.batch().is_some_and(|batch| batch.sequence == sequence) {
                    self.send(at.node);
                }
            }
            Event::Delivery(at, stream, appended) if self.alive(at) => {
                self.delivered(at.node, stream, appended)?;
            }
            Event::Decision(at, txn, commits) if self.alive(at) => {
                let mut out = Vec::new();
                self.nodes[at.node].machine.decided(txn, commits, &mut out);
                self.perform(at.node, out)?;
            }
            Event::Step(..)
            | Event::Applied(_)
            | Event::Answer(..)
            | Event::Resend(..)
            | Event::Delivery(..)
            | Event::Decision(..) => {}
            Event::Crash(node) => self.crash(node, true),
            Event::Restart(node) => self.restart(node)?,
            Event::Pause(node) => {
                let until = self.now + self.rng.below(FAULT_US);
                self.nodes[node].paused_until = self.nodes[node].paused_until.max(until);
                let again = self.options.faults.pause_us;
                self.fault(again, Event::Pause(node));
            }
            Event::Cut(node) => {
                if !self.nodes[node].is_cut {
                    self.nodes[node].is_cut = true;
                    self.nodes[node].stream += 1;
                    self.watch(node);
                    let after = self.rng.below(FAULT_US);
                    self.schedule(after, Event::Healed(node));
                }
                let again = self.options.faults.cut_us;
                self.fault(again, Event::Cut(node));
            }
            Event::Healed(node) => {
                self.nodes[node].is_cut = false;
                if self.nodes[node].is_up {
                    self.connect(node);
                }
            }
            Event::LogDown => {
                self.is_log_up = false;
                (0..self.nodes.len()).for_each(|node| self.nodes[node].stream += 1);
                let after = self.rng.below(FAULT_US);
                self.schedule(after, Event::LogUp);
                let again = self.options.faults.log_us;
                self.fault(again, Event::LogDown);
            }
            Event::LogUp => {
                self.is_log_up = true;
                (0..self.nodes.len()).for_each(|node| self.connect(node));
            }
            Event::Foreign => self.write_foreign(),
            Event::Gone(member, node) => {
                if !self.is_log_up {
                    // It gives members another time when it is back.
                    self.schedule(GONE_US, Event::Gone(member, node));
                } else if self.nodes[node].member == member && !self.nodes[node].is_connected() {
                    self.ledger.gone(member);
                    self.deliver_newest();
                }
            }
        }
        Ok(())
    }

    /// Makes the log look after a member that it does not hear of.
    fn watch(&mut self, node: usize) {
        let member = self.nodes[node].member;
        self.schedule(GONE_US, Event::Gone(member, node));
    }

    fn finish(self) -> Result<History, Violation> {
        let data: Vec<&Data> = self.nodes.iter().map(|node| &node.data).collect();
        for (node, other) in data.iter().enumerate().skip(1) {
            if other.version() != data[0].version() {
                return Err(Violation::new(format!(
                    "member {node} ends with commit {}, and member 0 with {}",
                    other.version().0,
                    data[0].version().0
                )));
            }
            if !other.rows().eq(data[0].rows()) {
                return Err(Violation::new(format!("member {node} has other data than member 0")));
            }
        }
        match self.options.which {
            Which::Paper { .. } => self.history.check(data[0], true)?,
            Which::Used(settings) => {
                self.history.check(data[0], false)?;
                self.history.check_bounds(settings.bounds_by_rows)?;
            }
        }
        Ok(self.history)
    }
}

impl Event {
    /// The member that does something by it, unless it stands still.
    fn node(&self) -> Option<usize> {
        match self {
            Event::Step(at, _)
            | Event::Applied(at)
            | Event::Answer(at, ..)
            | Event::Resend(at, _)
            | Event::Delivery(at, ..)
            | Event::Decision(at, ..) => Some(at.node),
            Event::Arrive(node) => Some(*node),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
