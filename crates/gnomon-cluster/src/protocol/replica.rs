//! The protocol that is used: K-Bound (Salinas, Muñoz-Escoí 2008) with its weak places mended.
//!
//! A transaction's way:
//!
//! 1. It begins with the member's newest snapshot. One with a bound has [`Entry::Begin`] ordered, and works on meanwhile.
//! 2. What it touches and reads is noted. If a commit that is applied contradicts that, it is refused at once.
//! 3. When it asks to commit, and something is changed, [`Entry::Commit`] is ordered. One with a bound waits for its
//!    `Begin` before, so that all are known that it may have missed.
//! 4. When the entry's turn has come, and all before it are applied, each member certifies it against the
//!    [`Window`], and applies it or not.
//!
//! Entries have their turns one after another: what a commit is certified against is what was committed, never what may
//! still fail. So a transaction can fail when it is applied (a bound was reached), alike everywhere, and the window
//! holds commits only.
//!
//! Where this differs from the paper's Figure 1, and why:
//!
//! - *Bounds count what was read.* Reads are noted as they happen, so nothing is declared by hand, and what counts is
//!   rows ([`Settings::bounds_by_rows`]) or tables.
//! - *A transaction that only reads within a bound waits for its `Begin`*, and is refused like any other if it has
//!   missed too much. In the paper, it commits at once, whatever it has missed.
//! - *Nothing is restarted* behind the client's back; it is refused, and told so.
//! - *Serializable transactions are certified everywhere* by what they read. By [`Settings::voting`] their delegate
//!   decides, as in the paper, which keeps its reads to itself and makes all members wait; the decision stands in the
//!   order here, so that a delegate's end ([`Entry::Gone`]) decides too.
//! - *They read ranges*, so that what others insert there contradicts them (phantoms), and they may not change what
//!   others have changed.
//! - *Read committed* certifies each row by the version on which it is based, which the paper's GRC does not.
//! - *Changes that commute do not contradict each other*, procedures never fail by certification.

use std::collections::{BTreeMap, VecDeque};

use gnomon_engine::Conflict;

use super::{
    Action, Apply, Commit, Entry, Level, Member, Outcome, Position, Protocol, ReadSet, Reason, Touched,
    TxnName, Version, Window, Work,
};

/// Settings of the protocol, which are the same for all members of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// True if serializable transactions are decided by their delegate instead of everywhere.
    pub voting: bool,
    /// True if a bound counts the commits that have changed rows which were read, instead of tables.
    pub bounds_by_rows: bool,
    /// Number of commits whose changes are kept to certify against.
    pub window_commits: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { voting: false, bounds_by_rows: true, window_commits: 10_000 }
    }
}

/// A transaction of this member.
#[derive(Debug)]
struct Local {
    level: Level,
    start: Version,
    touched: Vec<Touched>,
    reads: ReadSet,
    /// The last commit that it should see, once that is known.
    begun: Option<Version>,
    stage: Stage,
}

#[derive(Debug, PartialEq, Eq)]
enum Stage {
    /// It runs.
    Running,
    /// It has asked to commit, and waits for its `Begin`.
    Waiting(Vec<u8>),
    /// Its `Commit` is on its way.
    Ordered,
}

impl Local {
    /// True if it is not known yet what it should see before it may commit.
    fn waits_for_begin(&self) -> bool {
        matches!(self.level, Level::KBound(_)) && self.begun.is_none()
    }
}

/// The work on an entry that keeps the next one from its turn.
#[derive(Debug)]
enum Busy {
    /// An entry is applied.
    Applying { txn: TxnName, touched: Vec<Touched> },
    /// A commit's delegate has to decide.
    Undecided(Position, Commit),
}

/// A member's part.
#[derive(Debug)]
pub struct Replica {
    me: Member,
    settings: Settings,
    window: Window,
    /// The last entry that was delivered.
    delivered: Position,
    /// Entries that were delivered and have not had their turn.
    queue: VecDeque<(Position, Entry)>,
    busy: Option<Busy>,
    locals: BTreeMap<u64, Local>,
    is_fenced: bool,
}

impl Replica {
    /// A member that has applied all up to `delivered`, and has a window of what was committed there.
    pub fn new(me: Member, settings: Settings, window: Window, delivered: Position) -> Replica {
        Replica {
            me,
            settings,
            window,
            delivered,
            queue: VecDeque::new(),
            busy: None,
            locals: BTreeMap::new(),
            is_fenced: false,
        }
    }

    /// Returns the member that this replica is, in its present life.
    pub fn member(&self) -> Member {
        self.me
    }

    /// Returns the changes of the newest commits.
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Returns the position of the last entry that was delivered.
    pub fn delivered(&self) -> Position {
        self.delivered
    }

    /// Returns the number of entries that were delivered and are not finished.
    pub fn waiting(&self) -> usize {
        self.queue.len() + usize::from(self.busy.is_some())
    }

    /// True if the order has said that this member is gone. No entry behind that has its turn.
    pub fn is_fenced(&self) -> bool {
        self.is_fenced
    }

    /// Forgets what was noted of a transaction, which is about to be noted as a whole: with `start`, which may be earlier
    /// than what was known when it was first noted.
    pub fn forget_notes(&mut self, number: u64, start: Version) {
        if let Some(local) = self.locals.get_mut(&number) {
            local.start = local.start.min(start);
            local.touched.clear();
            local.reads = ReadSet::default();
        }
    }

    /// Comes back as another member, with the data that it has; what of its former life was not ordered is refused. For
    /// one that the order has said to be gone.
    pub fn rejoin(&mut self, me: Member, out: &mut Vec<Action>) {
        assert!(self.is_fenced && self.locals.is_empty(), "its former life is over");
        (self.me, self.is_fenced) = (me, false);
        self.go_on(out);
    }

    fn name(&self, number: u64) -> TxnName {
        TxnName { member: self.me, number }
    }

    /// The number of a transaction of this member's.
    fn own(&self, txn: TxnName) -> Option<u64> {
        (txn.member == self.me).then_some(txn.number)
    }

    fn refuse(&mut self, number: u64, reason: Reason, out: &mut Vec<Action>) {
        if self.locals.remove(&number).is_some() {
            out.push(Action::Refuse(number, reason));
        }
    }

    /// Gives entries their turns.
    fn go_on(&mut self, out: &mut Vec<Action>) {
        while !self.is_fenced {
            match self.busy.take() {
                None => {}
                Some(Busy::Undecided(position, commit)) => match self.decision(commit.txn) {
                    None => {
                        self.busy = Some(Busy::Undecided(position, commit));
                        return;
                    }
                    Some(Ok(())) => {
                        self.apply(position, commit, out);
                        return;
                    }
                    Some(Err(reason)) => self.fail(commit.txn, reason, out),
                },
                busy @ Some(Busy::Applying { .. }) => {
                    self.busy = busy;
                    return;
                }
            }
            let Some((position, entry)) = self.queue.pop_front() else { return };
            self.turn(position, entry, out);
        }
    }

    /// Returns the decision on a transaction, if one of the entries that were delivered and wait has it.
    fn decision(&self, txn: TxnName) -> Option<Result<(), Reason>> {
        self.queue.iter().find_map(|(_, entry)| match entry {
            Entry::Decision(of, commits) if *of == txn => {
                Some(commits.then_some(()).ok_or(Conflict::Read.into()))
            }
            Entry::Gone(member) if *member == txn.member => Some(Err(Conflict::Gone.into())),
            _ => None,
        })
    }

    /// An entry has its turn: all before it are applied.
    fn turn(&mut self, position: Position, entry: Entry, out: &mut Vec<Action>) {
        match entry {
            Entry::Begin(txn) => {
                let version = self.window.version();
                let Some(number) = self.own(txn) else { return };
                let Some(local) = self.locals.get_mut(&number) else { return };
                local.begun = Some(version);
                self.check_bound(number, out);
                self.commit_if_begun(number, out);
            }
            Entry::Commit(commit) => match self.certify(&commit) {
                Err(reason) => self.fail(commit.txn, reason, out),
                Ok(()) if commit.level == Level::Serializable && self.settings.voting => {
                    if let Some(number) = self.own(commit.txn) {
                        let commits = self.locals.get(&number).is_some_and(|local| {
                            self.window.changed_since(&local.reads, local.start).is_none()
                        });
                        out.push(Action::Append(Entry::Decision(commit.txn, commits)));
                    }
                    self.busy = Some(Busy::Undecided(position, commit));
                }
                Ok(()) => self.apply(position, commit, out),
            },
            Entry::Call(txn, procedure) => {
                let version = Version(self.window.version().0 + 1);
                self.busy = Some(Busy::Applying { txn, touched: Vec::new() });
                out.push(Action::Apply(Apply { version, position, txn, work: Work::Call(procedure) }));
            }
            // It was looked for when it was needed.
            Entry::Decision(..) => {}
            Entry::Digest(txn, digest) => out.push(Action::Compare(txn, digest)),
            Entry::Gone(member) if member == self.me => {
                self.is_fenced = true;
                for number in std::mem::take(&mut self.locals).into_keys() {
                    out.push(Action::Refuse(number, Conflict::Gone.into()));
                }
                out.push(Action::Fenced);
            }
            Entry::Gone(_) => {}
        }
    }

    /// Appends a commit that changes nothing.
    pub fn commit_nothing(&mut self, number: u64, out: &mut Vec<Action>) {
        let commit = Commit {
            txn: self.name(number),
            level: Level::ReadCommitted,
            start: self.window.version(),
            touched: Vec::new(),
            reads: ReadSet::default(),
            changes: Vec::new(),
        };
        out.push(Action::Append(Entry::Commit(commit)));
    }

    /// Certifies a transaction: fails if it may not commit now, as far as all members can tell.
    fn certify(&self, commit: &Commit) -> Result<(), Reason> {
        if commit.start < self.window.horizon() {
            return Err(Conflict::TooOld.into());
        }
        if self.window.contradicted(&commit.touched, commit.start).is_some() {
            return Err(Conflict::Write.into());
        }
        if self.window.changed_since(&commit.reads, commit.start).is_some() {
            return Err(Conflict::Read.into());
        }
        Ok(())
    }

    fn fail(&mut self, txn: TxnName, reason: Reason, out: &mut Vec<Action>) {
        if let Some(number) = self.own(txn) {
            self.refuse(number, reason, out);
        }
    }

    fn apply(&mut self, position: Position, commit: Commit, out: &mut Vec<Action>) {
        let version = Version(self.window.version().0 + 1);
        let Commit { txn, touched, changes, .. } = commit;
        self.busy = Some(Busy::Applying { txn, touched: touched.clone() });
        out.push(Action::Apply(Apply { version, position, txn, work: Work::Changes(touched, changes) }));
    }

    /// Refuses a transaction that has missed more than it accepts, as far as that is known.
    fn check_bound(&mut self, number: u64, out: &mut Vec<Action>) {
        let Some(local) = self.locals.get(&number) else { return };
        let Level::KBound(k) = local.level else { return };
        if local.start < self.window.horizon() && local.begun.is_none() {
            return self.refuse(number, Conflict::TooOld.into(), out);
        }
        let reads = match self.settings.bounds_by_rows {
            true => local.reads.clone(),
            false => local.reads.by_tables(),
        };
        let upto = local.begun.unwrap_or(self.window.version());
        let missed = self.window.count_changing(&reads, Version(local.start.0 + 1)..=upto);
        if missed > k as usize {
            self.refuse(number, Conflict::Stale.into(), out);
        }
    }

    /// Goes on with a transaction that has asked to commit, unless it must wait for its `Begin`.
    fn commit_if_begun(&mut self, number: u64, out: &mut Vec<Action>) {
        let Some(local) = self.locals.get_mut(&number).filter(|local| !local.waits_for_begin()) else {
            return;
        };
        if !matches!(local.stage, Stage::Waiting(_)) {
            return;
        }
        let Stage::Waiting(changes) = std::mem::replace(&mut local.stage, Stage::Ordered) else { return };
        if !local.touched.iter().any(Touched::is_change) {
            let start = local.start;
            self.locals.remove(&number);
            out.push(Action::Committed(number, start));
            return;
        }
        let is_certified = local.level == Level::Serializable && !self.settings.voting;
        let commit = Commit {
            level: local.level,
            start: local.start,
            touched: local.touched.clone(),
            reads: if is_certified { local.reads.clone() } else { ReadSet::default() },
            changes,
            txn: self.name(number),
        };
        out.push(Action::Append(Entry::Commit(commit)));
    }

    /// Refuses transactions of this member that what was committed last contradicts.
    fn refuse_contradicted(&mut self, out: &mut Vec<Action>) {
        let version = self.window.version();
        let Some((_, changes)) = self.window.after(Version(version.0 - 1)).next() else { return };
        let mut refused = Vec::new();
        let mut bounded = Vec::new();
        for (&number, local) in &self.locals {
            // What is ordered will be certified, and calls are not.
            if local.stage == Stage::Ordered || local.start >= version {
                continue;
            }
            let conflicts = |touched: &Touched| {
                touched.since.is_none_or(|since| since < version)
                    && changes.iter().any(|change| change.conflicts_with(touched))
            };
            if local.touched.iter().any(conflicts) {
                refused.push((number, Conflict::Write.into()));
            } else if local.level == Level::Serializable
                && local.touched.iter().any(Touched::is_change)
                && changes.iter().any(|change| local.reads.meets(change))
            {
                refused.push((number, Conflict::Read.into()));
            } else if local.waits_for_begin() {
                bounded.push(number);
            }
        }
        refused.into_iter().for_each(|(number, reason)| self.refuse(number, reason, out));
        bounded.into_iter().for_each(|number| self.check_bound(number, out));
    }
}

impl Protocol for Replica {
    fn begin(&mut self, number: u64, level: Level, start: Version, declared: ReadSet, out: &mut Vec<Action>) {
        if self.is_fenced {
            return out.push(Action::Refuse(number, Conflict::Gone.into()));
        }
        let local =
            Local { level, start, touched: Vec::new(), reads: declared, begun: None, stage: Stage::Running };
        if matches!(level, Level::KBound(_)) {
            out.push(Action::Append(Entry::Begin(self.name(number))));
        }
        self.locals.insert(number, local);
        self.check_bound(number, out);
    }

    fn note(&mut self, number: u64, touched: Vec<Touched>, reads: ReadSet, out: &mut Vec<Action>) {
        let Some(local) = self.locals.get_mut(&number) else { return };
        let start = local.start;
        let reason = if self.window.contradicted(&touched, start).is_some() {
            Some(Conflict::Write.into())
        } else if start < self.window.horizon() {
            Some(Conflict::TooOld.into())
        } else {
            None
        };
        local.touched.extend(touched);
        let is_read = !reads.is_empty();
        local.reads.extend(reads);
        match reason {
            Some(reason) => self.refuse(number, reason, out),
            None if is_read => self.check_bound(number, out),
            None => {}
        }
    }

    fn request(&mut self, number: u64, changes: Vec<u8>, out: &mut Vec<Action>) {
        let Some(local) = self.locals.get_mut(&number) else { return };
        local.stage = Stage::Waiting(changes);
        self.commit_if_begun(number, out);
    }

    fn call(&mut self, number: u64, procedure: Vec<u8>, out: &mut Vec<Action>) {
        if self.is_fenced {
            return out.push(Action::Refuse(number, Conflict::Gone.into()));
        }
        let local = Local {
            level: Level::Serializable,
            start: self.window.version(),
            touched: Vec::new(),
            reads: ReadSet::default(),
            begun: None,
            stage: Stage::Ordered,
        };
        self.locals.insert(number, local);
        out.push(Action::Append(Entry::Call(self.name(number), procedure)));
    }

    fn abandon(&mut self, number: u64) {
        self.locals.remove(&number);
    }

    fn deliver(&mut self, position: Position, entry: Entry, out: &mut Vec<Action>) {
        assert!(position > self.delivered, "entries are delivered in their order, each once");
        self.delivered = position;
        self.queue.push_back((position, entry));
        self.go_on(out);
    }

    fn decided(&mut self, _: TxnName, _: bool, _: &mut Vec<Action>) {
        unreachable!("decisions stand in the order");
    }

    fn applied(&mut self, outcome: Outcome, out: &mut Vec<Action>) {
        let Some(Busy::Applying { txn, mut touched }) = self.busy.take() else {
            unreachable!("something is applied");
        };
        match outcome {
            Outcome::Refused(reason) => self.fail(txn, reason, out),
            Outcome::Committed(more) => {
                touched.extend(more);
                let version = self.window.push(&touched);
                if let Some(number) = self.own(txn)
                    && self.locals.remove(&number).is_some()
                {
                    out.push(Action::Committed(number, version));
                }
                self.refuse_contradicted(out);
            }
        }
        self.go_on(out);
    }

    fn version(&self) -> Version {
        self.window.version()
    }
}
