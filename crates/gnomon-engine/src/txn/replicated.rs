//! Commits of a database that is a member of a cluster: a [`Replicator`] orders them, and has to know what they rest
//! on.
//!
//! Promises: in a database that has a [`Replicator`], no transaction changes anything by itself. What it has written,
//! what that rests on and, if that matters, what it has read is handed over when it commits; the changes come back, in
//! their place among those of all members, by [`Database::apply_replicated`], and are the same everywhere. A
//! transaction runs as ever until then: its locks and its reads are those of this database.
//!
//! How: [`Observed`] notes, of each key that a transaction locks, the newest commit before it looks at the key.
//! Changes are applied without locks, since running transactions may hold locks for long. A transaction that rests on
//! something that has changed is refused at its turn in the order, by the versions that it names. So locks keep
//! transactions of one member apart, as far as that helps them, and the order keeps apart all others.
//!
//! SERIALIZABLE runs on a snapshot here, and is made serializable by what it has read. Operations claim nothing:
//! their bounds are asked when they are applied, in the order, where nothing else is applied beside them.
//!
//! Not here: the order, and the decision which transactions are refused. Transactions on pages of their own, serial
//! execution, two-phase commit, logs of pages.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    ops::Bound,
    time::Duration,
};

use super::{
    commit::{Ticket, apply_in_order, begin},
    database::{Database, Inner, TREES},
    key::{Key, KeyBytes},
    log::{Logged, decode_writes, encode_writes},
    range::KeyRange,
    transaction::{Covered, Isolation, Transaction, Used},
    writes::{BoundCall, TreeWrites, Write, WriteSet},
};
use crate::{
    Conflict, Csn, Error, Result, TreeId, TxnId,
    lock::{Interrupt, LockName, first_refused, tree_mode},
    op,
    store::Store,
    sync::{Arc, atomic::Ordering},
};

/// The component that orders the commits of a member.
pub trait Replicator: Send + Sync {
    /// Tells that a transaction that accepts to have missed so many commits
    /// ([`TxnOptions::missed_max`](crate::TxnOptions)) has taken its snapshot.
    fn begin(&self, txn: TxnId, missed_max: u32, snapshot: Csn);

    /// Tells what the statements of a transaction rest on so far, before it goes on with another one.
    ///
    /// # Errors
    /// [`Error::Serialization`] if it cannot commit any more.
    fn note(&self, note: Note) -> Result<()>;

    /// Orders a commit, and returns its place here when it is applied. Called for transactions that have written
    /// something, and for those that were told of by [`Replicator::begin`] or [`Replicator::note`].
    ///
    /// # Errors
    /// [`Error::Serialization`] if it cannot commit in its place, and [`Error::Apart`] if it has not come to one:
    /// then nothing of it is there. [`Error::Unresolved`] if this member cannot tell what became of it, because it
    /// has stopped, or because the wait was interrupted.
    fn commit(&self, request: CommitRequest, interrupt: Option<&Interrupt>) -> Result<Csn>;

    /// Orders a call of a procedure, which each member runs in its place there ([`Database::run_replicated`]).
    /// Returns that place here with the call's answer, which may be its own error.
    ///
    /// # Errors
    /// [`Error::Serialization`] and [`Error::Apart`] if it has not run, [`Error::Unresolved`] if this member cannot
    /// tell.
    fn call(&self, call: Vec<u8>) -> Result<(Csn, Result<Vec<u8>>)>;

    /// Tells that a transaction ends without a commit that was told of by [`Replicator::begin`] or
    /// [`Replicator::note`], or that was refused here before it could ask.
    fn abandon(&self, abandoned: Abandoned);

    /// Waits until this member has all that was ordered up to so long ago, and returns the newest commit of that.
    ///
    /// # Errors
    /// [`Error::Apart`] if it does not get it, and [`Error::Interrupted`].
    fn freshen(&self, age_max: Duration, interrupt: Option<&Interrupt>) -> Result<Csn>;
}

/// The target of changes in their order: a database, or a component that keeps some of its data in memory beside it.
pub trait Applier: Send + Sync {
    /// The database.
    fn database(&self) -> &Database;

    /// As [`Database::apply_replicated`].
    ///
    /// # Errors
    /// As there.
    fn apply(&self, ordered: &Ordered<'_>) -> Result<Option<Ticket>>;
}

impl Applier for Database {
    fn database(&self) -> &Database {
        self
    }

    fn apply(&self, ordered: &Ordered<'_>) -> Result<Option<Ticket>> {
        self.apply_replicated(ordered)
    }
}

/// The changes of a transaction in their place in the order of all members.
#[derive(Clone, Copy, Debug)]
pub struct Ordered<'a> {
    /// The trees that they change.
    pub trees: &'a [TreeId],
    /// The changes: [`CommitRequest::changes`].
    pub changes: &'a [u8],
    /// The row that is left beside them.
    pub mark: Mark<'a>,
}

/// The result of a call that has run in its place in the order. Nothing has changed yet.
#[derive(Clone, Debug)]
pub struct Called {
    /// The name of the procedure.
    pub procedure: String,
    /// The keys that it writes, as in [`CommitRequest::touched`].
    pub touched: Vec<Touch>,
    /// Its changes for [`Database::apply_replicated`], which is not called if the answer is an error.
    pub changes: Vec<u8>,
    /// Its answer, at all members.
    pub answer: Result<Vec<u8>>,
}

/// The reads and keys that statements of a transaction rest on, as far as they were not told before.
#[derive(Clone, Debug)]
pub struct Note {
    /// Its number here.
    pub txn: TxnId,
    /// Its isolation level.
    pub isolation: Isolation,
    /// As in [`CommitRequest::snapshot`].
    pub snapshot: Option<Csn>,
    /// As in [`CommitRequest::touched`].
    pub touched: Vec<Touch>,
    /// As in [`CommitRequest::reads`].
    pub reads: Vec<(TreeId, KeyRange)>,
}

/// A transaction that asks to commit.
#[derive(Clone, Debug)]
pub struct CommitRequest {
    /// Its number here.
    pub txn: TxnId,
    /// Its isolation level.
    pub isolation: Isolation,
    /// Its snapshot: it has read all commits up to here, and none behind. None under READ COMMITTED.
    pub snapshot: Option<Csn>,
    /// The keys and trees that must be as they were.
    pub touched: Vec<Touch>,
    /// The ranges that it has read, if that is noted: for serializable ones and those that may not have missed much.
    pub reads: Vec<(TreeId, KeyRange)>,
    /// Its changes, for [`Database::apply_replicated`]; empty if there are none.
    pub changes: Vec<u8>,
}

/// A transaction that has not asked to commit, and does not any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abandoned {
    /// Its number here.
    pub txn: TxnId,
    /// Its isolation level.
    pub isolation: Isolation,
    /// Number of commits that it accepts to have missed, if that is bounded.
    pub missed_max: Option<u32>,
    /// The conflict that has kept it here from going on, if there was one.
    pub refused: Option<Conflict>,
}

/// A key, or a whole tree, on which a commit rests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The tree.
    pub tree: TreeId,
    /// The key; none is all keys.
    pub key: Option<Box<[u8]>>,
    /// The way in which the commit uses it.
    pub how: Touching,
    /// The newest commit that it counts on; later changes contradict it.
    pub based_on: Csn,
}

/// The way in which a transaction uses a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touching {
    /// It has locked it.
    Locks,
    /// It applies operations of a kind, which commute with others of the kind and have seen nothing.
    Applies(u32),
    /// It writes it.
    Writes,
}

/// The keys, trees and reads that a transaction rests on.
#[derive(Default)]
pub(super) struct Observed {
    /// True if it is to be serializable, which its snapshot is not.
    pub is_serializable: bool,
    /// True if the replicator was told of it.
    pub is_begun: bool,
    /// The last conflict that it was refused for, before it could ask to commit.
    pub refused: Option<Conflict>,
    /// The keys that the replicator was not told of yet.
    untold: Vec<(TreeId, Key)>,
    /// Number of the reads that the replicator was told of.
    told_reads: usize,
    keys: BTreeMap<TreeId, BTreeMap<Key, Csn>>,
    /// Of trees that are locked as a whole.
    trees: BTreeMap<TreeId, Csn>,
    reads: Vec<(TreeId, KeyRange)>,
}

impl Observed {
    /// Returns the number of keys that were not told of yet.
    pub(super) fn untold_count(&self) -> usize {
        self.untold.len()
    }

    /// Forgets a key of which nothing is to stay, if it is one of those that were noted since `untold_count` was so
    /// much and that were not told of.
    pub(super) fn forget_untold(&mut self, tree: TreeId, key: &[u8], count: usize) {
        let later = self.untold.get(count..).unwrap_or_default();
        let Some(at) = later.iter().rposition(|(of, untold)| *of == tree && **untold == *key) else { return };
        self.untold.remove(count + at);
        if let Some(keys) = self.keys.get_mut(&tree) {
            keys.remove(KeyBytes::of(key));
        }
    }

    /// Returns the isolation level of a transaction that runs here under `here`.
    fn isolation(&self, here: Isolation) -> Isolation {
        if self.is_serializable { Isolation::Serializable } else { here }
    }
}

/// A row that an applied commit leaves beside its own, so that what was applied can be told.
#[derive(Clone, Copy, Debug)]
pub struct Mark<'a> {
    /// Its tree.
    pub tree: TreeId,
    /// Its key.
    pub key: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// The key of one that is not needed any more, which goes.
    pub forgets: Option<&'a [u8]>,
}

impl Transaction {
    /// Notes that a key is about to be looked at behind a lock.
    ///
    /// # Errors
    /// Those of taking the snapshot, which must not have what the look does not see.
    pub(super) fn rest_on_key(&mut self, tree: TreeId, key: &[u8]) -> Result<()> {
        self.fix_base()?;
        let Some(observed) = &mut self.observed else { return Ok(()) };
        let newest = self.handle.inner.timeline.watermark();
        if let Entry::Vacant(entry) = observed.keys.entry(tree).or_default().entry(key.into()) {
            observed.untold.push((tree, entry.key().clone()));
            entry.insert(newest);
        }
        Ok(())
    }

    /// Notes, in a member of a cluster, that the transaction counts on a key that it has read elsewhere and that is
    /// what it is now. Where others order commits, each later change of the key contradicts it.
    ///
    /// # Errors
    /// Those of taking the snapshot, which must not be newer.
    pub fn rest_on(&mut self, tree: TreeId, key: &[u8]) -> Result<()> {
        self.rest_on_key(tree, key)
    }

    /// Takes the one snapshot of a transaction before it looks at what is newest: others do not wait for its locks to
    /// change that, and what they change behind the snapshot contradicts it.
    fn fix_base(&mut self) -> Result<()> {
        match (&self.observed, self.options.isolation) {
            (Some(_), Isolation::Snapshot) => self.fix_snapshot(),
            _ => Ok(()),
        }
    }

    /// Notes that a tree is locked as a whole, if it is.
    ///
    /// # Errors
    /// Those of [`Transaction::rest_on_key`].
    pub(super) fn rest_on_tree(&mut self, used: &Used) -> Result<()> {
        if used.covered() < Covered::Reads {
            return Ok(());
        }
        self.fix_base()?;
        let Some(observed) = &mut self.observed else { return Ok(()) };
        let newest = self.handle.inner.timeline.watermark();
        observed.trees.entry(used.id).or_insert(newest);
        Ok(())
    }

    /// Makes a new transaction note what it rests on, if others order commits.
    pub(super) fn observe_for_others(&mut self) {
        if self.inner().replicator().is_none() {
            return;
        }
        let is_serializable = self.options.isolation == Isolation::Serializable;
        if is_serializable {
            self.options.isolation = Isolation::Snapshot;
        }
        self.writes.keep_claims();
        self.observed = Some(Box::new(Observed { is_serializable, ..Observed::default() }));
    }

    pub(super) fn notes_reads(&self) -> bool {
        let Some(observed) = &self.observed else { return false };
        observed.is_serializable || self.options.missed_max.is_some()
    }

    /// Notes that keys were read.
    pub(super) fn note_range(&mut self, tree: TreeId, range: impl FnOnce() -> KeyRange) {
        if !self.notes_reads() {
            return;
        }
        let (Some(observed), range) = (&mut self.observed, range()) else { return };
        match observed.reads.last_mut() {
            // The next step of a scan.
            Some((of, last)) if *of == tree && is_behind(&range.start, &last.end) => last.end = range.end,
            _ => observed.reads.push((tree, range)),
        }
    }

    /// Returns the newest commit that a snapshot must have that may not be old. To be called before it is taken.
    pub(super) fn freshen(&self) -> Result<Csn> {
        let replicator = self.handle.inner.replicator().filter(|_| self.observed.is_some());
        match (self.options.age_max, replicator) {
            (Some(age_max), Some(replicator)) => {
                let interrupt = self.options.interrupt.clone();
                replicator.freshen(age_max, interrupt.as_deref())
            }
            _ => Ok(Csn(0)),
        }
    }

    /// Tells of a snapshot that may not have missed much.
    pub(super) fn tell_begin(&mut self, snapshot: Csn) {
        if let (Some(observed), Some(missed_max)) = (&mut self.observed, self.options.missed_max)
            && let Some(replicator) = self.handle.inner.replicator()
            && !std::mem::replace(&mut observed.is_begun, true)
        {
            replicator.begin(self.id(), missed_max, snapshot);
        }
    }

    /// Before another statement: tells what those before it rest on, so that a transaction that cannot commit any more
    /// does not go on. One of a single statement tells nothing.
    pub(super) fn tell_statements(&mut self) -> Result<()> {
        let (id, snapshot) = (self.id(), self.snapshot());
        let Some(observed) = &mut self.observed else { return Ok(()) };
        let Some(replicator) = self.handle.inner.replicator() else { return Ok(()) };
        let snapshot = snapshot.filter(|_| self.options.isolation != Isolation::ReadCommitted);
        if observed.untold.is_empty() && observed.reads.len() == observed.told_reads {
            return Ok(());
        }
        observed.is_begun = true;
        let untold = std::mem::take(&mut observed.untold);
        let keys = &observed.keys;
        let touch = |(tree, key): (TreeId, Key)| {
            let how = match self.writes.get(tree, &key) {
                None => Touching::Locks,
                Some(Write::Put(_) | Write::Delete) => Touching::Writes,
                Some(Write::Apply(calls)) => kind_of(calls.iter()),
            };
            let locked = keys.get(&tree).and_then(|keys| keys.get(&key)).copied();
            let based_on = snapshot.or(locked).unwrap_or_default();
            Touch { tree, key: Some((*key).into()), how, based_on }
        };
        let touched = untold.into_iter().map(touch).collect();
        // A scan may have gone on in the last one.
        let reads = observed.reads[observed.told_reads.saturating_sub(1)..].to_vec();
        observed.told_reads = observed.reads.len();
        let isolation = observed.isolation(self.options.isolation);
        let told = replicator.note(Note { txn: id, isolation, snapshot, touched, reads });
        if let Err(Error::Serialization(conflict)) = told {
            observed.refused = Some(conflict);
        }
        told
    }

    /// Returns the error of a transaction that cannot be serialized with what is committed here.
    pub(super) fn refuse(&mut self, conflict: Conflict) -> Error {
        if let Some(observed) = &mut self.observed {
            observed.refused = Some(conflict);
        }
        Error::Serialization(conflict)
    }

    /// Tells the replicator of the end of a transaction that it was told of, or that was refused.
    pub(super) fn tell_end(&mut self) {
        if let Some(observed) = self.observed.take()
            && (observed.is_begun || observed.refused.is_some())
            && let Some(replicator) = self.handle.inner.replicator()
        {
            replicator.abandon(Abandoned {
                txn: self.id(),
                isolation: observed.isolation(self.options.isolation),
                missed_max: self.options.missed_max,
                refused: observed.refused,
            });
        }
    }

    /// Hands the transaction over, if it has changed something or was told of, and returns when its changes are applied
    /// in their place. None if it is to end as any other that has changed nothing.
    pub(super) fn hand_over(&mut self) -> Result<Option<Csn>> {
        if self.observed.is_none() {
            return Ok(None);
        }
        self.check_committable()?;
        let handle = self.handle.clone();
        let is_begun = self.observed.as_ref().is_some_and(|observed| observed.is_begun);
        let Some(replicator) = handle.inner.replicator().filter(|_| is_begun || !self.writes.is_empty())
        else {
            // It may have been refused for something, but it went back and commits.
            self.observed = None;
            return Ok(None);
        };
        if self.has_pages() {
            return Err(Error::TransactionTooLarge);
        }
        let snapshot = match self.options.isolation {
            Isolation::ReadCommitted => None,
            _ => Some(self.statement_snapshot()?),
        };
        self.release_snapshot();
        // From here on the transaction is at its end, whatever the outcome, and is not to be reported as abandoned.
        // Its locks are released when it is dropped.
        let Some(observed) = self.observed.take() else { return Ok(None) };
        let mut writes = std::mem::take(&mut self.writes);
        writes.forget_marks();
        let isolation = observed.isolation(self.options.isolation);
        let request = CommitRequest {
            txn: self.id(),
            isolation,
            snapshot,
            touched: touched(&observed, &self.used, &writes, snapshot),
            reads: observed.reads,
            changes: if writes.is_empty() { Vec::new() } else { encode_writes(&writes) },
        };
        drop(writes);
        let interrupt = self.options.interrupt.clone();
        replicator.commit(request, interrupt.as_deref()).map(Some)
    }
}

/// Returns the keys and trees that a transaction rests on, with the way in which it uses each.
fn touched(observed: &Observed, used: &[Used], writes: &WriteSet, snapshot: Option<Csn>) -> Vec<Touch> {
    let based_on = |locked: Option<Csn>| snapshot.or(locked).unwrap_or_default();
    let makes_or_drops = writes.trees().any(|(_, writes)| writes.created != writes.dropped);
    let mut touched = Vec::new();
    for (tree, writes) in writes.trees().filter(|(_, writes)| !(writes.created && writes.dropped)) {
        if writes.created || writes.dropped {
            // A tree that is not there yet cannot have been changed by others, in whichever commit.
            let locked = observed.trees.get(&tree).copied().or(writes.created.then_some(Csn(u64::MAX)));
            let based_on = based_on(locked);
            touched.push(Touch { tree, key: None, how: Touching::Writes, based_on });
            continue;
        }
        let (of_tree, locked) = (observed.trees.get(&tree).copied(), observed.keys.get(&tree));
        for (key, write) in writes.entries() {
            let how = match write {
                Write::Put(_) | Write::Delete => Touching::Writes,
                Write::Apply(calls) => kind_of(calls.iter()),
            };
            let locked = locked.and_then(|keys| keys.get(KeyBytes::of(key)).copied());
            let based_on = based_on(locked.or(of_tree));
            touched.push(Touch { tree, key: Some(key.into()), how, based_on });
        }
    }
    for (tree, keys) in &observed.keys {
        for (key, locked) in keys.iter().filter(|(key, _)| writes.get(*tree, key).is_none()) {
            let key = Some((**key).into());
            touched.push(Touch { tree: *tree, key, how: Touching::Locks, based_on: based_on(Some(*locked)) });
        }
    }
    for (tree, locked) in &observed.trees {
        let is_new = writes.tree(*tree).is_some_and(|writes| writes.created || writes.dropped);
        let Some(used) = used.iter().find(|used| used.id == *tree).filter(|_| !is_new) else { continue };
        // An index build reads the table, and others must not go on writing as if there were no index.
        let is_exclusive = !matches!(used.mode, tree_mode::S | tree_mode::U);
        let how = if is_exclusive || makes_or_drops { Touching::Writes } else { Touching::Locks };
        touched.push(Touch { tree: *tree, key: None, how, based_on: based_on(Some(*locked)) });
    }
    touched
}

/// Returns the way in which operations use a key: those of one mode commute.
fn kind_of<'c>(mut calls: impl Iterator<Item = &'c BoundCall>) -> Touching {
    let Some(mode) = calls.next().map(|call| call.operation.mode) else { return Touching::Writes };
    match op::class_number(mode) {
        Some(class) if calls.all(|call| call.operation.mode == mode) => Touching::Applies(class),
        _ => Touching::Writes,
    }
}

impl Database {
    /// True if it is a member of a cluster: others order its commits.
    pub fn is_member(&self) -> bool {
        self.0.inner.replicator().is_some()
    }

    /// Waits until a member has all that was ordered up to so long ago, and returns the newest commit of that.
    ///
    /// # Errors
    /// Those of [`Replicator::freshen`].
    pub fn freshen(&self, age_max: Duration, interrupt: Option<&Interrupt>) -> Result<Csn> {
        match self.0.inner.replicator() {
            Some(replicator) => replicator.freshen(age_max, interrupt),
            None => Ok(Csn(0)),
        }
    }

    /// Sets the component that orders the commits of this database from now on.
    ///
    /// # Errors
    /// [`Error::BadOption`] if it has a log of pages, runs procedures serially, has prepared transactions, or has a
    /// replicator already.
    pub fn set_replicator(&self, replicator: Arc<dyn Replicator>) -> Result<()> {
        let inner = &self.0.inner;
        let refuse = |why: &str| Err(Error::BadOption(format!("a member of a cluster {why}")));
        if inner.store.shadow().is_none() {
            return refuse(
                "recovers by shadow paging or a log of commits: make the database anew with --recovery value-log",
            );
        }
        if inner.is_serial {
            return refuse("runs procedures by locks: leave --execution serial out");
        }
        if !self.prepared()?.is_empty() {
            return refuse("has no prepared transactions: commit or roll back those that there are first");
        }
        match inner.replicator.set(replicator) {
            Ok(()) => Ok(()),
            Err(_) => refuse("is one of one cluster"),
        }
    }

    /// Runs a call in its place in the order of all members: all before it is applied, and nothing else is until its
    /// own changes are. It locks nothing, and finds what is committed.
    ///
    /// # Errors
    /// Those that another member need not meet, [`Error::NoSuchProcedure`] and [`Error::ProcedureDiffers`] among them,
    /// if this one has not the procedure that was called.
    pub fn run_replicated(&self, call: &[u8]) -> Result<Called> {
        self.0.inner.check_open()?;
        let (procedure, mut txn, answer) = self.run_call(call)?;
        let writes = match answer {
            Ok(_) => std::mem::take(&mut txn.writes),
            Err(_) => WriteSet::default(),
        };
        let touch =
            |tree, key: &[u8]| Touch { tree, key: Some(key.into()), how: Touching::Writes, based_on: Csn(0) };
        let of_tree = |(tree, writes): (TreeId, &TreeWrites)| {
            writes.entries().map(|(key, _)| touch(tree, key)).collect::<Vec<_>>()
        };
        let touched = writes.trees().flat_map(of_tree).collect();
        Ok(Called { procedure, touched, changes: encode_writes(&writes), answer })
    }

    /// Applies changes in their place in the order of all members, and their mark with them. None if that is not
    /// possible, because an operation's condition does not hold there: then nothing has changed. It is called for one
    /// commit after another.
    ///
    /// # Errors
    /// Of the disk, before anything has changed; [`Error::Corrupt`] if the changes do not fit this database.
    pub fn apply_replicated(&self, &Ordered { changes, mark, .. }: &Ordered<'_>) -> Result<Option<Ticket>> {
        let inner = &self.0.inner;
        inner.check_open()?;
        let Store::Shadow(store) = &inner.store else { unreachable!("a member has such a store") };
        let damaged = |what: &str| Error::Corrupt {
            file: "the changes of another member".into(),
            page: 0,
            detail: what.into(),
        };
        let mut writes = decode_writes(changes, &inner.operations, damaged)?;
        if !resolve(inner, &mut writes)? {
            return Ok(None);
        }
        writes.put(mark.tree, mark.key, Some(mark.value));
        if let Some(forgotten) = mark.forgets {
            writes.put(mark.tree, forgotten, None);
        }
        for (tree, writes) in writes.trees().filter(|(_, writes)| writes.created) {
            debug_assert!(!writes.dropped);
            inner.next_tree.fetch_max(tree.0 + 1, Ordering::Relaxed);
        }
        let dropped = writes.trees().any(|(_, writes)| writes.dropped);
        let changed = writes.keys();
        let record = inner.record(&Logged::Writes(&writes))?;
        let pages = begin(inner, store, &mut writes, None)?;
        // Inside the gate, as in every commit.
        inner.check_open()?;
        let (csn, _) = apply_in_order(inner, pages, record, writes, |_, _| Ok(()))?;
        inner.forget_after(changed);
        if dropped {
            self.0.background.reclaim();
        }
        Ok(Some(Ticket::new(self.0.clone(), csn)))
    }
}

/// Asks the conditions of operations, whose keys no other commit changes now, and does those at once that may change
/// the length of a value. True if all conditions are met.
fn resolve(inner: &Arc<Inner>, writes: &mut WriteSet) -> Result<bool> {
    let mut puts: Vec<(TreeId, Key, Vec<u8>)> = Vec::new();
    for (tree, of_tree) in writes.trees() {
        if of_tree.created || of_tree.dropped {
            continue;
        }
        for (key, write) in of_tree.entries() {
            let Write::Apply(calls) = write else { continue };
            let Some(mut value) = inner.tree(tree)?.tree.get(&inner.store, key)? else { return Ok(false) };
            for BoundCall { operation, args } in calls.iter() {
                let claims = operation.operation.claims(args, &value)?;
                if first_refused(&claims).is_some() {
                    return Ok(false);
                }
                value = operation.operation.apply(args, &value)?;
            }
            if !calls.keep_length() {
                puts.push((tree, key.into(), value));
            }
        }
    }
    puts.into_iter().for_each(|(tree, key, value)| writes.put(tree, &key, Some(&value)));
    Ok(true)
}

impl Inner {
    /// Returns the component that orders commits, if this database is a member.
    pub fn replicator(&self) -> Option<&Arc<dyn Replicator>> {
        self.replicator.get()
    }

    /// True if transactions still use a dropped tree: another member has dropped it, without a lock here.
    pub fn is_in_use(&self, tree: TreeId) -> bool {
        self.replicator().is_some()
            && !self.locks.owner(self.new_txn_id()).try_lock(LockName::whole(TREES, tree.0), tree_mode::X)
    }

    /// True if a member has a dropped tree left. After reclaiming, that is one that transactions still use.
    pub fn has_dropped_in_use(&self) -> bool {
        self.replicator().is_some()
            && self.directory.dropped(&self.store, |_| false).is_ok_and(|tree| tree.is_some())
    }
}

/// True if a range that begins at `start` goes on where one ends at `end`.
fn is_behind(start: &Bound<Vec<u8>>, end: &Bound<Vec<u8>>) -> bool {
    matches!((start, end), (Bound::Excluded(start), Bound::Included(end)) if start == end)
}

#[cfg(all(test, not(shuttle)))]
mod tests;
