//! Replay: from the root that a crash left to the state after the last record.
//!
//! Writes of many commits are [gathered](super::gather), then applied in the order of trees and keys. So a key that
//! many commits have changed is changed once, and leaves are visited in order. No transaction reads meanwhile, so
//! there are no versions and no locks.
//!
//! A call runs once more, when all before it is applied that it may see: it reads what it read before, since calls are
//! serializable in the order of commits.
//!
//! Threads share the work ([`schedule`](super::schedule)). Of what is gathered, each applies ranges of keys, while
//! more is gathered. Calls that have used nothing but what they declare run beside each other where these are different
//! partitions, trees or keys; between them, a commit that is logged by value needs its keys. All others have the
//! database to themselves.
//!
//! A crash in the middle finds what it would have found before: roots written meanwhile have all commits up to one,
//! since none is written while threads are at work, and replay begins anew after that.

use super::{
    super::{
        ACCESSES_MAX, CallAccess, Calls, ENTRY_PART_BYTES, RunAlone,
        open::Replaying,
        shadow::{LeavesChanged, create, in_parts, leaves_of, pages_changed, pages_of_entry},
    },
    damaged,
    gather::{self, Gathered, Part, Run},
    record::{self, Found},
    schedule::{Mode, Needs, Schedule},
};
use crate::{
    Csn, Error, Result, TreeId,
    access::{Change, HeldLeaf, Placement, Tree},
    mvcc::Keyspace,
    page::{PageCounts, PageSize},
    store::{
        GroupCommit, PageWrite,
        shadow::{PageTxn, Purpose, ShadowStore},
    },
    sync::{Arc, thread},
    wal::{Log, Record},
    write_set::WriteSet,
};

/// Number of keys that change in one page transaction: each may need some pages of its own, for which there must be
/// room.
const KEYS_OF_RUN: usize = 4096;
/// No more keys than that are gathered within so many bytes.
pub(crate) const BYTES_OF_RUN: usize = KEYS_OF_RUN * gather::ENTRY_BYTES_MIN;
/// Fewer writes are not worth a thread of their own.
const WRITES_OF_PART_MIN: usize = 64;
/// Number of parts for each thread: none is idle for long when another has the last.
const PARTS_OF_THREAD: usize = 4;
/// Number of jobs that wait or run at a time.
const JOBS_MAX: usize = 256;
/// No more than this is gathered, whatever the option `replay_bytes_max` says, in bytes: positions take four bytes,
/// and the last commit is gathered as a whole.
const GATHERED_MAX: usize = 1 << 30;
/// A job that needs more things is run alone: to look for each among the others would take longer. A call needs no more
/// if it has declared what it uses.
const NEEDS_MAX: usize = ACCESSES_MAX;
/// After so many commits by value in a row, there seem to be no calls between them.
const VALUES_IN_ROW_MAX: usize = 64;

/// Replays the records that `open` visits. `root` is the last commit that the root has.
///
/// # Errors
/// [`Error::DiskFull`]; with more than one thread, or with more memory than [`BYTES_OF_RUN`], also where one with less
/// would find room for roots between what it gathers.
pub(super) fn replay(
    keyspace: &Keyspace,
    store: &Arc<ShadowStore>,
    root: Csn,
    with: Replaying,
    calls: &dyn Calls,
    open: impl FnOnce(&mut dyn FnMut(Record<'_>) -> Result<()>) -> Result<Log>,
) -> Result<Log> {
    let threads = with.threads;
    let schedule = Schedule::new(JOBS_MAX);
    let log = thread::scope(|scope| {
        for _ in 0..if threads > 1 { threads } else { 0 } {
            scope.spawn(|| schedule.work(|job| run(keyspace, store, calls, job)));
        }
        // However this ends, the others do.
        let _stop = Stop(&schedule);
        let mut replay = Replay {
            keyspace,
            store,
            calls,
            alone: calls.alone(),
            last: root,
            gathered: Gathered::default(),
            applied: Arc::default(),
            // One part is applied while the next is gathered.
            gathered_max: (with.bytes_max / if threads > 1 { 2 } else { 1 }).min(GATHERED_MAX),
            threads,
            schedule: &schedule,
            at_work: AtWork::Nobody,
            submitted: root,
            values_in_row: VALUES_IN_ROW_MAX,
        };
        let log = open(&mut |record| replay.record(&record))?;
        replay.apply_gathered()?;
        replay.drain()?;
        // The last commits may have written nothing.
        replay.reach(replay.last)?;
        Ok::<_, Error>(log)
    })?;
    keyspace.timeline.begin_at(store.last_csn());
    Ok(log)
}

struct Stop<'a>(&'a Schedule<Work>);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// A job of a thread.
enum Work {
    Call { procedure: u32, digest: u32, params: Box<[u8]> },
    Writes(WriteSet),
    Part(Part),
}

fn run(keyspace: &Keyspace, store: &ShadowStore, calls: &dyn Calls, job: Work) -> Result<()> {
    let writes = match job {
        Work::Writes(writes) => writes,
        Work::Call { procedure, digest, params } => calls.run(procedure, digest, &params)?,
        Work::Part(part) => {
            return part.sorted().runs(KEYS_OF_RUN).try_for_each(|run| {
                let pages = begin_run(keyspace, store, &run)?;
                change_run(keyspace, &pages, &run)
            });
        }
    };
    // No root may be written now: where the disk is too full for this, one thread alone may find room.
    let pages = begin(keyspace, store, &writes, &Found::Writes)?;
    // Neither makes trees.
    change(keyspace, &pages, Csn(0), writes)
}

/// The kind of jobs that the threads are at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AtWork {
    Nobody,
    /// Parts of what was gathered.
    Parts,
    /// Commits, each by itself.
    Commits,
}

struct Replay<'a> {
    keyspace: &'a Keyspace,
    store: &'a Arc<ShadowStore>,
    calls: &'a dyn Calls,
    /// Runs calls while no other one runs.
    alone: Box<RunAlone<'a>>,
    /// The commit of the last record.
    last: Csn,
    gathered: Gathered,
    /// The writes that were gathered before, and may be in the hands of threads.
    applied: Arc<Gathered>,
    /// Bytes of writes that are gathered before they are applied.
    gathered_max: usize,
    threads: usize,
    schedule: &'a Schedule<Work>,
    at_work: AtWork,
    /// The last commit that threads have or had.
    submitted: Csn,
    /// Number of commits by value behind the last call.
    values_in_row: usize,
}

impl Replay<'_> {
    fn record(&mut self, record: &Record<'_>) -> Result<()> {
        let broken = |what: &str| damaged(format!("the record at {}: {what}", record.lsn));
        let csn = record::csn(record.payload).map_err(broken)?;
        if csn <= self.last {
            return Ok(());
        }
        let next = Csn(self.last.0 + 1);
        if csn != next {
            return Err(broken(&format!("it is of commit {csn}, and there is none of commit {next}")));
        }
        let is_among_calls = self.threads > 1 && self.values_in_row < VALUES_IN_ROW_MAX;
        let (found, writes) = record::decode(record.payload).map_err(broken)?;
        match found {
            Found::Call { procedure, digest, is_within, params } => {
                self.values_in_row = 0;
                self.apply_gathered()?;
                if !self.calls.check(procedure)? {
                    return Err(broken("it is of a procedure that there never was"));
                }
                if self.threads > 1
                    && is_within
                    && let Some(needs) = self.needs_of_call(procedure, params)
                {
                    let job = Work::Call { procedure, digest, params: params.into() };
                    return self.submit(csn, job, needs);
                }
                self.drain()?;
                let writes = (self.alone)(procedure, digest, params)?;
                self.apply_writes(csn, writes, &found)
            }
            // It was forced behind the root that has it.
            Found::InRoot => Err(broken("no root has what it stands for")),
            Found::Writes => {
                self.values_in_row += 1;
                if !is_among_calls && self.gathered.add(writes.clone()).map_err(broken)? {
                    self.last = csn;
                    let is_full = self.gathered.memory_bytes() >= self.gathered_max;
                    return if is_full { self.apply_gathered() } else { Ok(()) };
                }
                let writes = writes.write_set(&self.keyspace.operations, broken)?;
                if is_among_calls && let Some(needs) = self.needs_of(&writes) {
                    return self.submit(csn, Work::Writes(writes), needs);
                }
                self.apply_writes(csn, writes, &found)
            }
            Found::Entry { .. } | Found::End { .. } => {
                let writes = writes.write_set(&self.keyspace.operations, broken)?;
                self.apply_writes(csn, writes, &found)
            }
        }
    }

    /// Gives the work of a commit to a thread.
    fn submit(&mut self, csn: Csn, job: Work, needs: Needs) -> Result<()> {
        if self.at_work == AtWork::Parts {
            self.drain()?;
        }
        self.at_work = AtWork::Commits;
        (self.last, self.submitted) = (csn, csn);
        self.schedule.submit(job, needs)
    }

    /// Waits until no thread is at work. The database is then what it was after the last commit that was submitted.
    fn drain(&mut self) -> Result<()> {
        if self.at_work == AtWork::Nobody {
            return Ok(());
        }
        self.schedule.drain()?;
        self.at_work = AtWork::Nobody;
        self.reach(self.submitted)
    }

    /// Makes `csn` the newest commit of the store: the database is what it was after it.
    fn reach(&self, csn: Csn) -> Result<()> {
        if csn > self.store.last_csn() {
            self.store.begin_for(Purpose::Free, PageCounts::default())?.replay_to(csn);
        }
        Ok(())
    }

    /// Returns the needs of a call that uses what it declares. None if that is much, all partitions, or not known.
    fn needs_of_call(&self, procedure: u32, params: &[u8]) -> Option<Needs> {
        let mut needs = Needs::default();
        for access in self.calls.accesses(procedure, params)? {
            match access {
                CallAccess::Partition(partition) => needs.add(("partition", partition), Mode::Write),
                CallAccess::Tree { tree, key, writes } => {
                    self.add_access(&mut needs, tree, key.as_deref(), writes)?;
                }
            }
        }
        Some(needs)
    }

    /// Returns the needs of a commit. None if it writes many keys, makes or drops trees, or writes keys that all
    /// calls may read.
    fn needs_of(&self, writes: &WriteSet) -> Option<Needs> {
        let mut needs = Needs::default();
        for (tree, writes) in writes.trees() {
            if writes.created || writes.dropped {
                return None;
            }
            for key in writes.keys.keys() {
                self.add_access(&mut needs, tree, Some(key), true)?;
            }
        }
        Some(needs)
    }

    /// Adds a key, or all of a tree, with what that is in. None if there are too many needs, or all calls may read
    /// what it writes.
    fn add_access(&self, needs: &mut Needs, tree: TreeId, key: Option<&[u8]>, writes: bool) -> Option<()> {
        if needs.len() >= NEEDS_MAX {
            return None;
        }
        let (within, itself) = match writes {
            true => (Mode::IntentWrite, Mode::Write),
            false => (Mode::IntentRead, Mode::Read),
        };
        match self.keyspace.tree(tree).ok()?.placement {
            Placement::Anywhere => {}
            Placement::Partition(partition) => needs.add(("partition", partition), within),
            // Calls read it that declare nothing of it.
            Placement::Replicated if writes => return None,
            Placement::Replicated => {}
        }
        match key {
            None => needs.add(tree.0, itself),
            Some(key) => {
                needs.add(tree.0, within);
                needs.add((tree.0, key), itself);
            }
        }
        Some(())
    }

    /// Changes the pages by what is gathered, or gives that to threads.
    fn apply_gathered(&mut self) -> Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        self.drain()?;
        let gathered = Arc::new(std::mem::take(&mut self.gathered));
        // No thread is at work.
        let applied = std::mem::take(&mut self.applied);
        self.gather_where(applied);
        let threads = self.threads.min(gathered.len() / WRITES_OF_PART_MIN);
        if threads > 1 {
            self.at_work = AtWork::Parts;
            self.submitted = self.last;
            self.applied = gathered.clone();
            let mut parts = gathered.parts(threads * PARTS_OF_THREAD).into_iter();
            // Parts have no key in common.
            return parts.try_for_each(|part| self.schedule.submit(Work::Part(part), Needs::default()));
        }
        for part in gathered.parts(1) {
            // Roots have all of what is gathered, or nothing: only one page transaction can have one before it.
            let is_scarce = self.gathered_max <= BYTES_OF_RUN;
            for run in part.sorted().runs(if is_scarce { usize::MAX } else { KEYS_OF_RUN }) {
                let begin = || begin_run(self.keyspace, self.store, &run);
                let pages = match begin() {
                    Err(Error::DiskFull) if is_scarce => self.after_flush(begin),
                    pages => pages,
                };
                change_run(self.keyspace, &pages?, &run)?;
            }
        }
        self.gather_where(gathered);
        self.reach(self.last)
    }

    /// Sets the memory of applied writes to be what is gathered into next.
    fn gather_where(&mut self, applied: Arc<Gathered>) {
        self.gathered = Arc::into_inner(applied).unwrap_or_default();
        // Vectors that grow have room for twice as much.
        self.gathered.clear(2 * self.gathered_max);
    }

    /// Writes a root, so that what was replaced so far is free, then calls `then`.
    fn after_flush<T>(&self, then: impl FnOnce() -> Result<T>) -> Result<T> {
        self.store.flush()?;
        then()
    }

    /// Changes the pages by a commit, and by what its record has done beside its writes.
    fn apply_writes(&mut self, csn: Csn, writes: WriteSet, beside: &Found<'_>) -> Result<()> {
        self.apply_gathered()?;
        self.drain()?;
        self.last = csn;
        let begin = || begin(self.keyspace, self.store, &writes, beside);
        let mut pages = match begin() {
            Err(Error::DiskFull) => self.after_flush(begin),
            pages => pages,
        }?;
        pages.replay_to(self.last);
        change(self.keyspace, &pages, self.last, writes)?;
        let directory = &self.keyspace.directory;
        match beside {
            Found::InRoot | Found::Writes | Found::Call { .. } => Ok(()),
            Found::Entry { gid, entry } => {
                (0..).zip(entry.chunks(ENTRY_PART_BYTES)).try_for_each(|(part, bytes)| {
                    directory.set_prepared(&pages, gid, part, Some(bytes)).map(drop)
                })
            }
            Found::End { gid, parts } => directory.remove_prepared(&pages, gid, *parts),
        }
    }
}

/// Begins the page transaction that applies writes, and what a record does beside them.
fn begin<'a>(
    keyspace: &Keyspace,
    store: &'a ShadowStore,
    writes: &WriteSet,
    beside: &Found<'_>,
) -> Result<PageTxn<'a>> {
    begin_with(store, |part_max| {
        Ok(pages_changed(keyspace, writes, part_max)? + pages_beside(beside, part_max)?)
    })
}

/// Begins a page transaction that changes so many pages, with large values on pages of up to a size.
fn begin_with(store: &ShadowStore, changed: impl Fn(PageSize) -> Result<PageCounts>) -> Result<PageTxn<'_>> {
    in_parts(|part_max| {
        let mut pages = store.begin_for(Purpose::Free, changed(part_max)?)?;
        pages.set_part_size_max(part_max);
        Ok(pages)
    })
}

/// Changes the pages.
fn change(keyspace: &Keyspace, pages: &PageTxn<'_>, csn: Csn, writes: WriteSet) -> Result<()> {
    pages.note_changed(writes.changed_bytes());
    for (id, writes) in writes.into_trees() {
        match (writes.created, writes.dropped) {
            (true, true) => {}
            (true, false) => create(keyspace, pages, csn, id, writes)?,
            (false, true) => {
                keyspace.directory.drop_tree(pages, id, &keyspace.tree(id)?.tree)?;
                keyspace.forget_tree(id);
            }
            (false, false) => {
                let tree = keyspace.tree(id)?.tree;
                let mut leaf = HeldLeaf::default();
                for (key, write) in writes.entries() {
                    update(&tree, pages, key, &mut leaf, &mut |there| {
                        Ok(write.value(there)?.map_or(Change::Delete, Change::Put))
                    })?;
                }
            }
        }
    }
    Ok(())
}

/// Changes a key, if `change` does not fail.
fn update<'v, P: PageWrite>(
    tree: &Tree,
    pages: &P,
    key: &[u8],
    leaf: &mut HeldLeaf<P::WriteGuard>,
    change: &mut dyn FnMut(Option<&[u8]>) -> Result<Change<'v>>,
) -> Result<()> {
    let mut done = Ok(());
    tree.update_next(pages, key, None, leaf, &mut |there| {
        change(there).unwrap_or_else(|error| {
            done = Err(error);
            Change::Keep
        })
    })?;
    done
}

/// Begins the page transaction that applies a run.
fn begin_run<'a>(keyspace: &Keyspace, store: &'a ShadowStore, run: &Run<'_>) -> Result<PageTxn<'a>> {
    begin_with(store, |part_max| {
        let mut pages = PageCounts::default();
        for (id, of_tree) in run.trees() {
            let mut changed = LeavesChanged::new(keyspace.tree(id)?.tree, part_max);
            of_tree.keys().try_for_each(|key| key.count(&keyspace.operations, &mut changed))?;
            pages += changed.pages(|tree| leaves_of(keyspace, tree, of_tree.keys().map(|key| key.key())))?;
        }
        Ok(pages)
    })
}

/// Changes the pages by a run.
fn change_run(keyspace: &Keyspace, pages: &PageTxn<'_>, run: &Run<'_>) -> Result<()> {
    for (id, of_tree) in run.trees() {
        let tree = keyspace.tree(id)?.tree;
        let mut leaf = HeldLeaf::default();
        for of_key in of_tree.keys() {
            update(&tree, pages, of_key.key(), &mut leaf, &mut |there| {
                of_key.change(&keyspace.operations, there)
            })?;
        }
    }
    Ok(())
}

/// Returns how many pages change at most by what a record does beside its writes.
fn pages_beside(beside: &Found<'_>, part_max: PageSize) -> Result<PageCounts> {
    Ok(match beside {
        Found::InRoot | Found::Writes | Found::Call { .. } => PageCounts::default(),
        Found::Entry { entry, .. } => pages_of_entry(entry.len() as u64, part_max)?.1,
        Found::End { parts, .. } => pages_of_entry(u64::from(*parts) * ENTRY_PART_BYTES as u64, part_max)?.2,
    })
}
