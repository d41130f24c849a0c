//! K-Bound as its paper has it (Salinas, Muñoz-Escoí 2008, Figure 1), to measure against. The numbers of steps are the
//! figure's.
//!
//! Promises, if no member fails: all members commit the same transactions in the same order; promises 2 and 3 of
//! [`protocol`](super) for transactions that change something, 3 by the tables that are declared; serializable
//! transactions that change something have read rows as they are at their commit, but may miss rows that others
//! insert; read committed loses updates. A member that fails before a decision is broadcast has all others wait for
//! ever.
//!
//! Where the figure cannot be taken by its letters:
//!
//! - Only transactions with a bound have their T.ID ordered (step I.1.a), as the text says; no other has a use for it.
//! - A decision is broadcast in step IV.4, not in III.0 as well: step IV.3.d may still change it.
//! - Step III.2 numbers a serializable transaction that step IV.4 may abort, and IV.7 counts only those that commit.
//!   By that, snapshots would fall behind the numbers for ever. Here the last committed number is the transaction's.
//! - Local transactions are aborted in steps IV.3.c and d if they still run. Those that have asked to commit are
//!   certified in step III anyway; read committed ones commit there, by what the paper calls applying their own write
//!   set.

use std::collections::{BTreeMap, VecDeque};

use gnomon_engine::Conflict;

use super::{
    Action, Apply, Commit, Entry, Level, Member, Outcome, Position, Protocol, ReadSet, Reason, Touched,
    TxnName, Version, Window, Work,
};

/// A transaction of this member.
#[derive(Debug)]
struct Local {
    level: Level,
    start: Version,
    /// The tables that it declares to read.
    tables_read: ReadSet,
    touched: Vec<Touched>,
    reads: ReadSet,
    conflicts: usize,
    aborted: bool,
    si: bool,
    /// The changes with which it has asked to commit.
    requested: Option<Vec<u8>>,
    /// True if its commit is on its way.
    is_ordered: bool,
    decision: bool,
}

/// A transaction of this member, by its T.ID, or one with its changes, that waits for its turn to commit.
#[derive(Debug)]
enum ToCommit {
    Id(u64),
    Transaction(Version, Position, Commit),
}

/// A member's part.
#[derive(Debug)]
pub struct PaperReplica {
    me: Member,
    /// `ws_list`, and with it `lastvalidated_tid`.
    validated: Window,
    /// `lastcommitted_tid`.
    committed: Version,
    to_commit: VecDeque<ToCommit>,
    /// The commit that is being applied: its number, and its transaction.
    applying: Option<(Version, TxnName)>,
    locals: BTreeMap<u64, Local>,
    decisions: BTreeMap<TxnName, bool>,
}

impl PaperReplica {
    /// A member of a new cluster, which keeps the write sets of the newest `window_commits`.
    pub fn new(me: Member, window_commits: usize) -> PaperReplica {
        PaperReplica {
            me,
            validated: Window::new(window_commits, Version(0)),
            committed: Version(0),
            to_commit: VecDeque::new(),
            applying: None,
            locals: BTreeMap::new(),
            decisions: BTreeMap::new(),
        }
    }

    fn own(&self, txn: TxnName) -> Option<u64> {
        (txn.member == self.me).then_some(txn.number)
    }

    fn refuse(&mut self, number: u64, reason: Reason, out: &mut Vec<Action>) {
        if self.locals.remove(&number).is_some() {
            out.push(Action::Refuse(number, reason));
        }
    }

    /// Step I.2, when it may commit.
    fn commit_if_ready(&mut self, number: u64, out: &mut Vec<Action>) {
        let Some(local) = self.locals.get_mut(&number).filter(|local| !local.aborted) else { return };
        let is_bounded = matches!(local.level, Level::KBound(_));
        let changes_something = local.touched.iter().any(Touched::is_change);
        if changes_something && is_bounded && !local.si {
            return;
        }
        let Some(changes) = local.requested.take() else { return };
        if !changes_something {
            let start = local.start;
            self.locals.remove(&number);
            out.push(Action::Committed(number, start));
            return;
        }
        local.is_ordered = true;
        out.push(Action::Append(Entry::Commit(Commit {
            txn: TxnName { member: self.me, number },
            level: local.level,
            start: local.start,
            touched: local.touched.clone(),
            reads: ReadSet::default(),
            changes,
        })));
    }

    /// Step III.
    fn validate(&mut self, position: Position, commit: Commit, out: &mut Vec<Action>) {
        let own = self.own(commit.txn);
        // 0.
        if let Some(local) = own.and_then(|number| self.locals.get_mut(&number))
            && local.level == Level::Serializable
            && self.validated.changed_since(&local.reads, local.start).is_some()
        {
            local.decision = false;
        }
        // 1.
        let is_certified = !matches!(commit.level, Level::Serializable | Level::ReadCommitted);
        let too_old = commit.start < self.validated.horizon();
        if is_certified && (too_old || self.validated.contradicted(&commit.touched, commit.start).is_some()) {
            let reason = if too_old { Conflict::TooOld.into() } else { Conflict::Write.into() };
            own.into_iter().for_each(|number| self.refuse(number, reason, out));
            return;
        }
        // 2.
        let end = self.validated.push(&commit.touched);
        // 3.
        for (&number, local) in &mut self.locals {
            if local.si || local.aborted || own == Some(number) {
                continue;
            }
            let conflicts = commit.touched.iter().any(|touched| local.tables_read.meets(touched));
            local.conflicts += usize::from(conflicts);
            if let Level::KBound(k) = local.level {
                local.aborted = local.conflicts > k as usize;
            }
        }
        self.to_commit.push_back(ToCommit::Transaction(end, position, commit));
    }

    /// Step IV.
    fn go_on(&mut self, out: &mut Vec<Action>) {
        while self.applying.is_none() {
            match self.to_commit.front() {
                None => return,
                // 2.
                Some(&ToCommit::Id(number)) => {
                    self.to_commit.pop_front();
                    let Some(local) = self.locals.get_mut(&number) else { continue };
                    local.si = true;
                    if local.aborted {
                        self.locals.remove(&number);
                        out.push(Action::Restart(number));
                    } else {
                        self.commit_if_ready(number, out);
                    }
                }
                Some(ToCommit::Transaction(end, position, commit)) => {
                    let (end, position, txn) = (*end, *position, commit.txn);
                    let own = self.own(txn);
                    // 4.
                    if commit.level == Level::Serializable {
                        let decision = match own {
                            Some(number) => {
                                let decision = self.locals.get(&number).is_some_and(|local| local.decision);
                                out.push(Action::Broadcast(txn, decision));
                                decision
                            }
                            None => match self.decisions.remove(&txn) {
                                Some(decision) => decision,
                                None => return,
                            },
                        };
                        if !decision {
                            own.into_iter()
                                .for_each(|number| self.refuse(number, Conflict::Read.into(), out));
                            self.to_commit.pop_front();
                            self.committed = end;
                            continue;
                        }
                    }
                    let Some(ToCommit::Transaction(_, _, commit)) = self.to_commit.pop_front() else {
                        return;
                    };
                    // 3.
                    if own.is_none() {
                        self.abort_contradicted(&commit.touched, out);
                    }
                    self.applying = Some((end, txn));
                    let work = Work::Changes(commit.touched, commit.changes);
                    out.push(Action::Apply(Apply { version: end, position, txn, work }));
                }
            }
        }
    }

    /// Steps IV.3.c and IV.3.d.
    fn abort_contradicted(&mut self, changes: &[Touched], out: &mut Vec<Action>) {
        let mut refused = Vec::new();
        for (&number, local) in &mut self.locals {
            let writes = |touched: &Touched| changes.iter().any(|change| change.conflicts_with(touched));
            let reads = || {
                local.level == Level::Serializable && changes.iter().any(|change| local.reads.meets(change))
            };
            if !local.is_ordered && local.touched.iter().any(writes) {
                refused.push((number, Conflict::Write.into()));
            } else if reads() {
                match local.is_ordered {
                    true => local.decision = false,
                    false => refused.push((number, Conflict::Read.into())),
                }
            }
        }
        refused.into_iter().for_each(|(number, reason)| self.refuse(number, reason, out));
    }
}

impl Protocol for PaperReplica {
    fn begin(&mut self, number: u64, level: Level, start: Version, declared: ReadSet, out: &mut Vec<Action>) {
        let local = Local {
            level,
            start,
            tables_read: declared,
            touched: Vec::new(),
            reads: ReadSet::default(),
            conflicts: 0,
            aborted: false,
            si: false,
            requested: None,
            is_ordered: false,
            decision: true,
        };
        self.locals.insert(number, local);
        if matches!(level, Level::KBound(_)) {
            out.push(Action::Append(Entry::Begin(TxnName { member: self.me, number })));
        }
    }

    fn note(&mut self, number: u64, touched: Vec<Touched>, reads: ReadSet, _: &mut Vec<Action>) {
        if let Some(local) = self.locals.get_mut(&number) {
            local.touched.extend(touched);
            local.reads.extend(reads);
        }
    }

    fn request(&mut self, number: u64, changes: Vec<u8>, out: &mut Vec<Action>) {
        if let Some(local) = self.locals.get_mut(&number) {
            local.requested = Some(changes);
            self.commit_if_ready(number, out);
        }
    }

    fn call(&mut self, _: u64, _: Vec<u8>, _: &mut Vec<Action>) {
        unreachable!("the paper has no procedures");
    }

    fn abandon(&mut self, number: u64) {
        self.locals.remove(&number);
    }

    fn deliver(&mut self, position: Position, entry: Entry, out: &mut Vec<Action>) {
        match entry {
            // Step II.
            Entry::Begin(txn) => {
                if let Some(number) = self.own(txn) {
                    self.to_commit.push_back(ToCommit::Id(number));
                }
            }
            Entry::Commit(commit) => self.validate(position, commit, out),
            Entry::Decision(..) | Entry::Call(..) | Entry::Digest(..) | Entry::Gone(_) => {}
        }
        self.go_on(out);
    }

    fn decided(&mut self, txn: TxnName, commits: bool, out: &mut Vec<Action>) {
        if self.own(txn).is_none() {
            self.decisions.insert(txn, commits);
            self.go_on(out);
        }
    }

    fn applied(&mut self, outcome: Outcome, out: &mut Vec<Action>) {
        let Some((end, txn)) = self.applying.take() else { unreachable!("something is applied") };
        self.committed = end;
        if let Some(number) = self.own(txn) {
            match outcome {
                Outcome::Committed(_) if self.locals.remove(&number).is_some() => {
                    out.push(Action::Committed(number, end));
                }
                Outcome::Committed(_) => {}
                Outcome::Refused(reason) => self.refuse(number, reason, out),
            }
        }
        self.go_on(out);
    }

    fn version(&self) -> Version {
        self.committed
    }
}
