//! The crash sweep: a mixed workload is stopped at every write, sync and allocation of a simulated disk; from each
//! stop several images of what may be left are opened, and each must hold exactly the state of one commit, no older
//! than the last one acknowledged (invariants 2, 3, 4 and 6). Backups are taken on the way, of states that others have
//! left behind; each must restore to the state of its commit, and what was found after a crash must be what those from
//! before it and one of what has changed since restore to. Some writes are operations that others may apply to the same
//! key while a transaction is prepared. Some transactions are large: they change pages of their own,
//! which they write at any time. Some trees are bulk loaded. Bugs planted in the store show that it would tell.
//!
//! The same workload runs where a log of pages recovers ([`page_log`]), and with calls of procedures where a log of
//! commits keeps them or they run in partitions ([`calls`]).
//!
//! `GNOMON_SWEEP_SEEDS` sets how many workloads are swept.

mod calls;
mod failures;
mod page_log;
mod planted;

use std::{
    collections::{BTreeMap, btree_map::Entry},
    ops::Bound,
    time::Duration,
};

use crate::{
    Applied, Csn, Database, Direction, Error, Execution, Isolation, KeyRange, Load, Options, Placement,
    Records, Recovery, Result, Transaction, TreeId, TreeOptions, TxnOptions,
    disk::{Disk, MemDisk, SimDisk},
    env::Rng,
    failpoint::Failpoint,
    op::bytes,
    page::{FORMAT_VERSION, Page, PageSize},
    restore,
    store::{
        Store,
        page_wal::{LogShape, Strategy},
        shadow::{Backup, FILE, PinnedRoot},
    },
    sync::Arc,
    verify_with,
};

type Contents = BTreeMap<TreeId, BTreeMap<Vec<u8>, Vec<u8>>>;

/// What a database holds.
#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    contents: Contents,
    prepared: BTreeMap<String, Prepared>,
}

/// What a prepared transaction holds.
#[derive(Clone, Debug, Default, PartialEq)]
struct Prepared {
    writes: BTreeMap<(TreeId, Vec<u8>), Written>,
    /// Places within ranges that it has read under SERIALIZABLE, of keys that do not exist.
    locked_gaps: Vec<(TreeId, Vec<u8>)>,
}

/// What it makes of a key.
#[derive(Clone, Debug, PartialEq)]
enum Written {
    Value(Option<Vec<u8>>),
    /// Others may append, too, before it does.
    Appended(Vec<u8>),
}

impl State {
    fn end(&mut self, gid: &str, commit: bool) {
        let prepared = self.prepared.remove(gid).expect("it is prepared");
        for ((tree, key), written) in prepared.writes.into_iter().filter(|_| commit) {
            let entries = self.contents.get_mut(&tree).expect("its tree is locked");
            match written {
                Written::Value(Some(value)) => drop(entries.insert(key, value)),
                Written::Value(None) => drop(entries.remove(&key)),
                Written::Appended(bytes) => entries.get_mut(&key).expect("its key is locked").extend(bytes),
            };
        }
    }

    fn is_written(&self, tree: TreeId, key: &[u8]) -> bool {
        let written = |prepared: &Prepared| {
            matches!(prepared.writes.get(&(tree, key.to_vec())), Some(Written::Value(_)))
        };
        self.prepared.values().any(written)
    }

    fn is_locked(&self, tree: TreeId, key: &[u8]) -> bool {
        self.prepared.values().any(|prepared| prepared.writes.contains_key(&(tree, key.to_vec())))
    }
}

/// How a database recovers, and what is wrong with that.
#[derive(Clone, Copy)]
struct How {
    recovery: Recovery,
    planted: Option<Failpoint>,
    execution: Execution,
}

/// Shadow paging as it should be.
const SHADOW: How = How { recovery: Recovery::Shadow, planted: None, execution: Execution::Locked };
/// A log of commits beside it.
const VALUE_LOG: How = How { recovery: Recovery::CommitLog(Records::Values), ..SHADOW };

/// The same, of which some records are calls.
const COMMAND_LOG: How = How { recovery: Recovery::CommitLog(Records::Calls), ..SHADOW };

impl How {
    fn planted(bug: Failpoint) -> How {
        How { planted: Some(bug), ..SHADOW }
    }

    /// With procedures in partitions.
    fn serial(self) -> How {
        How { execution: Execution::Serial { executors: 2, queue_max: 10 }, ..self }
    }

    fn is_serial(self) -> bool {
        self.execution != Execution::Locked
    }

    fn is_shadow(self) -> bool {
        !matches!(self.recovery, Recovery::PageLog(_))
    }
}

/// What a run did.
struct History {
    /// What was there after each commit, acknowledged or under way, by CSN.
    states: BTreeMap<Csn, State>,
    acknowledged: Csn,
    /// Why it ended early.
    error: Option<Error>,
    /// Backups, each a full one or going on from the one before it.
    backups: Vec<(Backup, Vec<u8>)>,
    /// How many transactions were large.
    large: u64,
}

impl History {
    /// The backups that restore the last of the first `count`.
    fn chain(&self, count: usize) -> Vec<&[u8]> {
        let backups = &self.backups[..count];
        let full = backups.iter().rposition(|(backup, _)| backup.header.since.is_none()).unwrap_or_default();
        backups[full..].iter().map(|(_, stream)| stream.as_slice()).collect()
    }
}

const TRANSACTIONS: usize = 24;
/// So many changed pages are kept: in one workload so few that transactions write some of theirs early, in the next so
/// many that they write none.
const DIRTY_PAGES: [usize; 2] = [6, 60];
/// Transactions whose changes and locks take more memory are large: some of them.
const ESCALATE_BYTES: usize = 2500;

/// The sizes of the trees of a workload, in turn.
const PAGE_BYTES_OF_TREES: [usize; 4] = [512, 4096, 16 << 10, 1024];

/// How the tree is made that comes after so many others.
fn tree_options(db: &Database, seed: u64, trees: usize) -> TreeOptions {
    let bytes = PAGE_BYTES_OF_TREES[(seed as usize + trees) % PAGE_BYTES_OF_TREES.len()];
    let size = PageSize::from_bytes(bytes).expect("pages can have that size");
    // It means nothing where calls take locks.
    let placement = Placement::Partition(trees as u32);
    TreeOptions { page_size: size.max(db.stats().page_size_min), placement }
}

fn open(disk: &SimDisk, how: How, seed: u64) -> Result<Database> {
    // In some databases there are smaller pages than a block of the page table.
    let is_new = !disk.list()?.iter().any(|name| name.ends_with("pages"));
    let page_bytes_min = is_new.then_some(if seed % 4 == 2 { 512 } else { 4096 });
    let options = Options {
        pool_bytes: 512 << 10,
        // Whole trees that are locked would only keep the transaction beside the others from its work.
        procedures: vec![calls::procedure()],
        execution: how.execution,
        // Of calls, which have no other.
        lock_timeout: Some(Duration::ZERO),
        escalate_bytes: if how.is_shadow() { ESCALATE_BYTES } else { usize::MAX },
        page_bytes_min,
        recovery: Some(how.recovery),
        logs: LogShape {
            redo_files: 1 + seed as usize % 3 / 2 * 2,
            shared: seed % 2 == 1,
            segment_bytes: 64 << 10,
        },
        log_bytes_max: 200 << 10,
        sphere_pages_max: 6,
        // So that what happens at the disk follows from the seed.
        replay_threads: 1,
        replay_bytes_max: [0, 4 << 10, 64 << 20][seed as usize % 3],
        seed: Some(7),
        degraded: disk.lacks_parts(),
        ..Options::default()
    };
    let set = if disk.parts() == 0 { (&disk.open_exclusive()?).into() } else { disk.set() };
    let db = Database::open_store(set, options, crate::recovery::Access::Write, |store| {
        store.failpoints().turn_on(how.planted);
        if how.is_shadow() {
            let store = store.shadow_mut();
            store.batcher.set_dirty_bytes_max(DIRTY_PAGES[seed as usize % 2] * 4096);
            store.write_in_order();
        }
    })?;
    // What they do is done by the workload, at moments that the seed decides. Calls in partitions are answered by the
    // thread that makes commits durable, and waited for.
    db.parts().background.stop_chores();
    Ok(db)
}

/// Runs a workload on top of what the disk holds, until its end or the first error.
fn run(disk: &SimDisk, seed: u64, transactions: usize, start: &State, how: How) -> History {
    let mut history = History {
        states: BTreeMap::from([(Csn(0), start.clone())]),
        acknowledged: Csn(0),
        error: None,
        backups: Vec::new(),
        large: 0,
    };
    history.error = work(disk, seed, transactions, how, &mut history).err();
    history
}

fn work(disk: &SimDisk, seed: u64, transactions: usize, how: How, history: &mut History) -> Result<()> {
    let mut rng = Rng::from_seed(seed);
    let mut current = history.states[&Csn(0)].clone();
    let db = open(disk, how, seed)?;
    let mut last = db.durable_csn();
    history.states = BTreeMap::from([(last, current.clone())]);
    history.acknowledged = last;
    // Of their own, so that backups change nothing of what else is done.
    let mut backups = Rng::from_seed(!seed);
    let mut loads = Rng::from_seed(!seed ^ 1);
    let mut pinned: Option<PinnedRoot> = None;
    let mut beside: Option<(Transaction, State)> = None;
    for _ in 0..transactions {
        // Where calls run in partitions, it would have them to itself.
        if !how.is_shadow() && !how.is_serial() {
            page_log::work_beside(&db, &mut rng, &mut current, &mut beside, history)?;
        }
        if rng.chance(1, 4) {
            crate::database::reclaim_some(&db.0.inner)?;
        }
        if how.recovery.records().is_some() && backups.chance(1, 6) {
            db.checkpoint()?;
        }
        if (how.is_serial() || matches!(how.recovery, Recovery::CommitLog(Records::Calls | Records::Cheaper)))
            && backups.chance(1, 2)
        {
            calls::call(&db, &mut backups, &mut current, &mut last, history)?;
        }
        let unasked = rng.chance(1, 10);
        match &db.0.inner.store {
            Store::Shadow(store) if unasked => store.batcher.confirm()?,
            Store::Logged(store) if unasked => store.write_large_spheres()?,
            _ => {}
        }
        match &pinned {
            _ if !how.is_shadow() => {}
            None if backups.chance(1, 3) => pinned = Some(db.0.inner.store.as_shadow().pin()),
            // Seldom in a long run, so that the places of pages that were let go of too early are used again.
            Some(state) if backups.chance(1, 1 + transactions as u64 / 12) => {
                let last = history.backups.last().map(|(backup, _)| backup.header.id);
                let since = last.filter(|_| backups.chance(2, 3));
                let mut stream = Vec::new();
                let backup = state.backup(since, Duration::ZERO, &mut stream, &mut |_, _| ())?;
                history.backups.push((backup, stream));
                pinned = None;
            }
            _ => {}
        }
        if rng.chance(1, 3)
            && let Some(gid) = current.prepared.keys().next().cloned()
        {
            let commit = rng.chance(2, 3);
            let mut next = current.clone();
            next.end(&gid, commit);
            let expected = Csn(db.0.inner.store.last_csn().0 + 1);
            history.states.insert(expected, next.clone());
            let prepared = db.claim_prepared(&gid)?;
            match (commit, rng.chance(2, 3)) {
                (false, _) => history.acknowledged = prepared.rollback()?,
                (true, true) => history.acknowledged = prepared.commit()?,
                (true, false) => assert_eq!(prepared.commit_ticket()?.csn(), expected),
            }
            (current, last) = (next, expected);
        }
        match (rng.below(8), db.0.inner.store.shadow()) {
            // Moves join the batch of whatever commits next, which may change what they move.
            (0, Some(store)) => drop(store.cleaner.move_some(crate::store::shadow::Young::Move)?),
            (1, Some(store)) => drop(store.cleaner.clean_some()?),
            _ => {}
        }
        let isolation = if rng.chance(1, 2) { Isolation::ReadCommitted } else { Isolation::Serializable };
        // Nobody else is running: what is locked is locked by a prepared transaction.
        let options = TxnOptions { isolation, lock_timeout: Some(Duration::ZERO), ..TxnOptions::default() };
        let mut txn = db.begin(options)?;
        let (mut next, mut own, mut changes_trees) = (current.clone(), Prepared::default(), false);
        for _ in 0..1 + rng.below(8) {
            let trees: Vec<TreeId> = next.contents.keys().copied().collect();
            let tree = (!trees.is_empty()).then(|| trees[rng.below(trees.len() as u64) as usize]);
            let key = some_key(&mut rng);
            let done = match (rng.below(20), tree) {
                (0, _) | (_, None) => {
                    let options = tree_options(&db, seed, next.contents.len());
                    let tree = txn.create_tree_with(options)?;
                    let loaded = match loads.chance(1, 2) {
                        true => load(&mut loads, &mut txn, tree),
                        false => Ok(BTreeMap::new()),
                    };
                    // A lock was needed by what it had changed before; then nothing was loaded.
                    let loaded = match loaded {
                        Err(Error::LockTimeout) => BTreeMap::new(),
                        loaded => loaded?,
                    };
                    next.contents.insert(tree, loaded);
                    changes_trees = true;
                    Ok(())
                }
                (1, Some(tree)) if trees.len() > 2 => txn.drop_tree(tree).map(|()| {
                    next.contents.remove(&tree);
                    own.writes.retain(|(of, _), _| *of != tree);
                    changes_trees = true;
                }),
                (2..6, Some(tree)) => txn.delete(tree, &key).map(|was| {
                    let removed = next.contents.get_mut(&tree).expect("chosen").remove(&key);
                    assert_eq!(removed.is_some(), was);
                    if was {
                        own.writes.insert((tree, key.clone()), Written::Value(None));
                    }
                }),
                (6..8, Some(tree)) => {
                    let end = [&key[..], &[0xff]].concat();
                    let range =
                        KeyRange { start: Bound::Included(key.clone()), end: Bound::Excluded(end.clone()) };
                    let mut found = Vec::new();
                    let scanned = txn.scan(tree, range, Direction::Forward).and_then(|mut cursor| {
                        while let Some((key, _)) = cursor.next(&mut txn)? {
                            found.push(key);
                        }
                        Ok(())
                    });
                    scanned.map(|()| {
                        let right =
                            next.contents[&tree].range(key.clone()..end.clone()).map(|(key, _)| key.clone());
                        assert_eq!(found, right.collect::<Vec<_>>());
                        if isolation == Isolation::Serializable {
                            own.locked_gaps.push((tree, [&key[..], &[0x80]].concat()));
                        }
                    })
                }
                (8..11, Some(tree)) => {
                    let bytes = vec![rng.below(256) as u8; 1 + rng.below(30) as usize];
                    let applied = txn.apply(tree, &key, &bytes::append(&bytes));
                    assert!(applied.is_err() || !current.is_written(tree, &key), "a lock is not there");
                    applied.map(|applied| {
                        let entry = next.contents.get_mut(&tree).expect("chosen").get_mut(&key);
                        assert_eq!(applied == Applied::Done, entry.is_some());
                        let Some(entry) = entry else { return };
                        entry.extend_from_slice(&bytes);
                        let nothing = || Written::Appended(Vec::new());
                        match own.writes.entry((tree, key.clone())).or_insert_with(nothing) {
                            Written::Value(Some(value)) | Written::Appended(value) => value.extend(&bytes),
                            Written::Value(None) => unreachable!("it is there"),
                        }
                    })
                }
                (_, Some(tree)) => {
                    let len = [10, 100, 900, 3000, 20_000][rng.below(5).min(rng.below(5)) as usize];
                    let value = vec![rng.below(256) as u8; rng.below(len) as usize];
                    let put = txn.put(tree, &key, &value);
                    assert!(put.is_err() || !current.is_locked(tree, &key), "a lock is not there");
                    put.map(|()| {
                        next.contents.get_mut(&tree).expect("chosen").insert(key.clone(), value.clone());
                        own.writes.insert((tree, key.clone()), Written::Value(Some(value)));
                    })
                }
            };
            match done {
                Err(Error::LockTimeout) => {
                    assert!(!current.prepared.is_empty() || beside.is_some(), "nobody holds a lock");
                }
                done => done?,
            }
            if let (Some(tree), true) = (tree, rng.chance(1, 6)) {
                write_in_vain(&mut rng, &mut txn, tree, &key)?;
            }
            if rng.chance(1, 2) {
                txn.end_statement()?;
            }
        }
        history.large += u64::from(txn.core().has_pages());
        if rng.chance(1, 10) {
            txn.rollback();
            continue;
        }
        // With immediate updates, others than commits take CSNs, too.
        let expected = Csn(db.0.inner.store.last_csn().0 + 1);
        assert!(expected == Csn(last.0 + 1) || !how.is_shadow());
        if !changes_trees
            && !txn.core().has_pages()
            && !how.is_serial()
            && current.prepared.len() < 3
            && rng.chance(1, 4)
        {
            let gid = format!("transaction {expected}");
            next = current.clone();
            next.prepared.insert(gid.clone(), own);
            // What was changed at once is taken back first.
            let expected = Csn(expected.0 + u64::from(txn.core().state.has_changed_trees()));
            history.states.insert(expected, next.clone());
            history.acknowledged = txn.prepare(&gid, b"")?;
            assert_eq!(history.acknowledged, expected);
            (current, last) = (next, expected);
            continue;
        }
        history.states.insert(expected, next.clone());
        // A third of the commits nobody waits for.
        let ticket = txn.order()?;
        if ticket.csn() < expected {
            // It wrote nothing.
            history.states.remove(&expected);
            continue;
        }
        assert_eq!(ticket.csn(), expected);
        if rng.chance(2, 3) {
            history.acknowledged = ticket.wait()?;
        }
        (current, last) = (next, expected);
    }
    let last = db.0.inner.store.last_csn();
    db.close()?;
    history.acknowledged = last;
    Ok(())
}

fn some_key(rng: &mut Rng) -> Vec<u8> {
    [&vec![b'k'; 1 + rng.below(3) as usize * 40][..], &[rng.below(60) as u8]].concat()
}

/// Loads a new tree with entries in any order, in several runs perhaps. Returns what it holds.
fn load(rng: &mut Rng, txn: &mut Transaction, tree: TreeId) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let memory_bytes = [1, 2000, 1 << 20][rng.below(3) as usize];
    let mut load = Load::begin(txn, tree, memory_bytes)?;
    let mut loaded = BTreeMap::new();
    for _ in 0..rng.below(60) {
        let (key, value) = (some_key(rng), vec![rng.below(256) as u8; rng.below(600) as usize]);
        if let Entry::Vacant(place) = loaded.entry(key) {
            load.add(txn, place.key(), &value)?;
            place.insert(value);
        }
    }
    assert_eq!(load.finish(txn)?, None);
    Ok(loaded)
}

/// Writes a key, if it is not locked, and takes that back.
fn write_in_vain(rng: &mut Rng, txn: &mut Transaction, tree: TreeId, key: &[u8]) -> Result<()> {
    let savepoint = txn.savepoint();
    let mut written = txn.put(tree, key, b"never");
    if written.is_ok() && rng.chance(2, 3) {
        txn.end_statement()?;
        written = txn.delete(tree, key).map(drop);
    }
    match written {
        Ok(()) | Err(Error::LockTimeout | Error::NoSuchTree(_)) => txn.rollback_to(savepoint),
        Err(error) => Err(error),
    }
}

fn contents(db: &Database) -> Result<Contents> {
    let inner = &db.0.inner;
    let mut found = Contents::new();
    for (id, _, live) in inner.directory.all(&inner.store)? {
        if live {
            let mut txn = db.begin(TxnOptions::default())?;
            let mut cursor = txn.scan(id, KeyRange::all(), Direction::Forward)?;
            let entries = found.entry(id).or_default();
            while let Some((key, value)) = cursor.next(&mut txn)? {
                entries.insert(key, value);
            }
        }
    }
    Ok(found)
}

/// The largest batch number in the header of any page: a later page of that number could be taken for one of these.
fn newest_page(image: &SimDisk) -> u64 {
    let files = image.list().expect("it can be read").into_iter().filter(|name| name.ends_with(FILE));
    let newest = files.map(|name| {
        let file = image.open(&name, false).expect("it can be read");
        let mut blocks = vec![0; file.len().expect("it can be read") as usize];
        file.read_at(0, &mut blocks).expect("it can be read");
        let pages = (0..blocks.len()).step_by(512).filter_map(|at| {
            let size = Page::size_told(&blocks[at..])?;
            let block = blocks.get(at..at + size.bytes()).filter(|block| block[4] == FORMAT_VERSION)?;
            Page::check(block).ok()
        });
        pages.map(|(_, identity)| identity.batch).max().unwrap_or_default()
    });
    newest.max().unwrap_or_default()
}

/// What verification needs to replay a log.
fn verify_options() -> Options {
    Options { procedures: vec![calls::procedure()], ..Options::default() }
}

/// Opens what a crash left and compares it with what may be there. The text says what is wrong.
fn check(image: &SimDisk, history: &History, how: How) -> Result<State, String> {
    let newest_page = newest_page(image);
    let copy = same(image);
    // What a crash leaves is no damage, before anybody has opened it.
    if let Ok(report) = verify_with(image.set(), verify_options(), &mut |_, _| ())
        && !report.is_sound()
        && !image.lacks_parts()
    {
        return Err(format!("has findings before it is opened: {:?}", report.findings));
    }
    let (csn, found) = {
        let db = open(image, how, 0).map_err(|error| format!("cannot be opened: {error}"))?;
        let found = contents(&db).map_err(|error| format!("cannot be read: {error}"))?;
        let Some(store) = db.0.inner.store.shadow() else {
            let csn = db.durable_csn();
            drop(db);
            return check_state(image, &copy, history, how, csn, found);
        };
        if store.next_batch() <= newest_page {
            return Err(format!("would use the number of batch {newest_page} again"));
        }
        let mut stream = Vec::new();
        let since = history.backups.last().map(|(backup, _)| backup.header.id);
        db.backup(since, &mut stream, &mut |_, _| ())
            .map_err(|error| format!("cannot be backed up: {error}"))?;
        let mut chain = history.chain(history.backups.len());
        chain.push(&stream);
        if restored(&chain)?.0 != found {
            return Err(format!("is not what {} backups restore to", chain.len()));
        }
        (db.durable_csn(), found)
    };
    check_state(image, &copy, history, how, csn, found)
}

/// Compares what was found with what may be there.
fn check_state(
    image: &SimDisk,
    copy: &SimDisk,
    history: &History,
    how: How,
    csn: Csn,
    found: Contents,
) -> Result<State, String> {
    if csn < history.acknowledged {
        return Err(format!("holds commits up to {csn}, but {} was acknowledged", history.acknowledged));
    }
    let newest = history.states.range(..=csn).next_back();
    // Of a database whose opening was cut short the state is known, and not its number.
    let fits = |of: Csn| of == csn || of == Csn(0) || !how.is_shadow();
    let Some((_, state)) = newest.filter(|(of, _)| fits(**of)) else {
        return Err(format!("says that it holds commits up to {csn}, of which there is none"));
    };
    if state.contents != found {
        return Err(format!("does not hold the state of commit {csn}"));
    }
    check_prepared(copy, state, csn, how).map_err(|wrong| format!("after commit {csn}: {wrong}"))?;
    let report = verify_with(image.set(), verify_options(), &mut |_, _| ())
        .map_err(|error| format!("cannot be verified: {error}"))?;
    if !report.is_sound() {
        return Err(format!("has findings: {:?}", report.findings));
    }
    Ok(state.clone())
}

/// Another disk with the same contents.
fn same(image: &SimDisk) -> SimDisk {
    let copy = image.crash_image_everything();
    (0..image.parts()).filter(|&part| !image.has_part(part)).for_each(|part| copy.remove_part(part));
    copy
}

/// Whether exactly those transactions are prepared that should be, hold their locks, and can be ended.
fn check_prepared(image: &SimDisk, state: &State, csn: Csn, how: How) -> Result<(), String> {
    let db =
        open(image, How { planted: None, ..how }, 0).map_err(|error| format!("cannot be opened: {error}"))?;
    let gids: Vec<String> =
        db.prepared().map_err(|error| error.to_string())?.into_iter().map(|info| info.gid).collect();
    if !gids.iter().eq(state.prepared.keys()) {
        return Err(format!("{gids:?} are prepared, not {:?}", state.prepared.keys()));
    }
    let mut txn = db
        .begin(TxnOptions { lock_timeout: Some(Duration::ZERO), ..TxnOptions::default() })
        .map_err(|error| error.to_string())?;
    let mut left = state.clone();
    for (gid, prepared) in &state.prepared {
        let written = prepared.writes.keys();
        for (tree, key) in written.chain(&prepared.locked_gaps) {
            let blocked = txn.put(*tree, key, b"x");
            if !matches!(blocked, Err(Error::LockTimeout)) {
                return Err(format!("{gid} has lost its lock on {key:?} of {tree}: {blocked:?}"));
            }
        }
    }
    drop(txn);
    for (number, gid) in gids.iter().enumerate() {
        let commit = !(csn.0 + number as u64).is_multiple_of(3);
        let ended = if commit { db.commit_prepared(gid) } else { db.rollback_prepared(gid) };
        ended.map_err(|error| format!("{gid} cannot be ended: {error}"))?;
        left.end(gid, commit);
    }
    match contents(&db) {
        Ok(found) if found == left.contents => {}
        found => return Err(format!("{gids:?} were ended, and something else is there: {:?}", found.err())),
    }
    match db.locks().is_empty() {
        true => Ok(()),
        false => Err("locks are left".into()),
    }
}

/// What a chain of backups restores to, and the names of the transactions that are prepared in it.
fn restored(chain: &[&[u8]]) -> Result<(Contents, Vec<String>), String> {
    let disk = Arc::new(MemDisk::new());
    restore(chain.iter().copied(), &*disk, Some(8), &mut |_, _, _| ())
        .map_err(|error| format!("cannot be restored from {} backups: {error}", chain.len()))?;
    let options = Options { create: false, pool_bytes: 512 << 10, ..Options::default() };
    let found = Database::open_on(disk, options).and_then(|db| Ok((contents(&db)?, prepared(&db)?)));
    found.map_err(|error| format!("cannot be read when it was restored: {error}"))
}

fn prepared(db: &Database) -> Result<Vec<String>> {
    Ok(db.prepared()?.into_iter().map(|info| info.gid).collect())
}

/// Compares what each backup restores to with the state of its commit.
fn check_backups(history: &History) -> Result<(), String> {
    for (number, (backup, _)) in history.backups.iter().enumerate() {
        let (contents, prepared) = restored(&history.chain(number + 1))?;
        let state = history.states.get(&backup.header.csn);
        if !state.is_some_and(|state| state.contents == contents && state.prepared.keys().eq(&prepared)) {
            return Err(format!("backup {number} is not the state of commit {}", backup.header.csn));
        }
    }
    Ok(())
}

/// Sweeps one workload; returns how many images it checked, in how many of them transactions were prepared, and how
/// many transactions were large, or what was wrong with one.
fn sweep(seed: u64, empty: impl Fn(u64) -> SimDisk, how: How) -> Result<(u64, u64, u64), String> {
    let whole = empty(seed);
    let (parts, mirrored) = (whole.parts(), whole.is_mirrored());
    let history = run(&whole, seed, TRANSACTIONS, &State::default(), how);
    if let Some(error) = history.error {
        return Err(format!("seed {seed}: without a crash: {error}"));
    }
    check_backups(&history).map_err(|wrong| format!("seed {seed}: without a crash: {wrong}"))?;
    let (mut images, mut prepared, large) = (0, 0, history.large);
    // With several disks there is more to each, and more of them where every operation is forced.
    let step = match how.recovery {
        _ if seeds() >= 10 => 1,
        Recovery::PageLog(Strategy::TwoLevel) => 3,
        _ if parts > 0 => 4,
        _ => 1,
    };
    for event in (0..whole.events()).step_by(step) {
        let disk = empty(seed);
        disk.crash_at(event);
        let history = run(&disk, seed, TRANSACTIONS, &State::default(), how);
        for (number, image) in disk.crash_images(3).enumerate() {
            images += 1;
            let place = || format!("seed {seed}, crash at event {event}, image {number}");
            // Any disk may be lost in the crash. What was never made on all need not be there.
            let part = (event as usize + number) % parts.max(1);
            if mirrored && history.acknowledged > Csn(0) {
                let rest = same(&image);
                rest.remove_part(part);
                check(&rest, &history, how).map_err(|wrong| {
                    format!("{}, without disk {part}: {wrong}\n{}", place(), disk.history())
                })?;
            }
            let found = check(&image, &history, how)
                .map_err(|wrong| format!("{}: {wrong}\n{}", place(), disk.history()))?;
            prepared += u64::from(!found.prepared.is_empty());
            // Life goes on from there, and crashes again.
            if (event + number as u64).is_multiple_of(5) {
                image.crash_at(image.events() + 3 + event % 17);
                let history = run(&image, seed + event, 4, &found, how);
                let again = image.crash_image(event);
                images += 1;
                check_backups(&history)
                    .and_then(|()| check(&again, &history, how))
                    .map_err(|wrong| format!("{}, and again: {wrong}\n{}", place(), image.history()))?;
            }
        }
    }
    Ok((images, prepared, large))
}

fn seeds() -> u64 {
    std::env::var("GNOMON_SWEEP_SEEDS").map_or(2, |seeds| seeds.parse().expect("a number"))
}

#[test]
fn every_crash_leaves_a_state_that_is_allowed() {
    let (mut images, mut prepared, mut large) = (0, 0, 0);
    for seed in 1..=seeds() {
        let counts = sweep(seed, SimDisk::new, SHADOW).unwrap_or_else(|wrong| panic!("{wrong}"));
        (images, prepared, large) = (images + counts.0, prepared + counts.1, large + counts.2);
    }
    println!(
        "{images} crash images were opened and compared, {prepared} with prepared transactions; {large} transactions were large"
    );
    assert!(images > 300 * seeds() && prepared > 50 * seeds() && large >= seeds());
}

#[test]
fn every_crash_leaves_a_state_that_is_allowed_with_a_log_of_commits() {
    for how in [VALUE_LOG, COMMAND_LOG, COMMAND_LOG.serial()] {
        let (mut images, mut prepared, mut large) = (0, 0, 0);
        for seed in 1..=seeds() {
            let counts = sweep(seed, SimDisk::new, how).unwrap_or_else(|wrong| panic!("{wrong}"));
            (images, prepared, large) = (images + counts.0, prepared + counts.1, large + counts.2);
        }
        println!(
            "{}: {images} crash images, {prepared} with prepared transactions; {large} transactions were large",
            how.recovery.name()
        );
        assert!(images > 300 * seeds() && large >= seeds());
        assert!(prepared > 50 * seeds() || how.is_serial());
    }
}

/// With procedures that run in partitions, and transactions of others that take those as a whole.
#[test]
fn every_crash_leaves_a_state_that_is_allowed_with_serial_execution() {
    let of_pages =
        [Strategy::SingleLevel, Strategy::TwoLevel, Strategy::TwoLevelDeferred].map(Recovery::PageLog);
    for recovery in [SHADOW.recovery, VALUE_LOG.recovery].into_iter().chain(of_pages) {
        let how = How { recovery, ..SHADOW };
        let images: u64 = (1..=seeds())
            .map(|seed| sweep(seed, SimDisk::new, how.serial()).unwrap_or_else(|wrong| panic!("{wrong}")).0)
            .sum();
        println!("{}: {images} crash images", how.recovery.name());
        assert!(images > 300 * seeds());
    }
}

/// With two copies of everything on two disks or three, of which one may be lost in the crash.
#[test]
fn every_crash_of_mirrored_disks_leaves_a_state_that_is_allowed() {
    for seed in 1..=seeds() {
        let parts = 2 + seed as usize % 2;
        sweep(seed, |seed| SimDisk::of_parts(seed, parts), SHADOW)
            .unwrap_or_else(|wrong| panic!("{parts} disks: {wrong}"));
    }
    let caught = sweep(2, |seed| SimDisk::of_parts(seed, 2), How::planted(Failpoint::SecondCopyUnwritten))
        .expect_err("a planted bug is caught");
    println!("{}", caught.lines().next().unwrap_or_default());
}

/// With pages spread over two disks or three, each needed.
#[test]
fn every_crash_of_striped_disks_leaves_a_state_that_is_allowed() {
    for seed in 1..=seeds() {
        let parts = 2 + seed as usize % 2;
        sweep(seed, |seed| SimDisk::striped(seed, parts), SHADOW)
            .unwrap_or_else(|wrong| panic!("{parts} disks: {wrong}"));
    }
}
