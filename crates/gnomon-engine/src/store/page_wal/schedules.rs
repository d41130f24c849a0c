//! Subtransactions, commits, spheres and the giving up of the log under seeded schedules, on a simulated disk.
//!
//! Each transaction adds one to a number of its own on two or three pages, by one operation for each pair of pages, and
//! commits or is undone. Meanwhile spheres are written, pages go to their places, and the log loses its beginning. What
//! a crash at any moment leaves must have, after the undo pass, each transaction on all of its pages or on none, all
//! that were acknowledged, and no commit without those before it.

use std::collections::BTreeMap;

use shuttle::rand::{Rng as _, thread_rng};

use super::{root::Root, *};
use crate::{
    disk::{Disk, SimDisk},
    env::ManualClock,
    failpoint::Failpoint,
    lock::{KEY_MODES, LockManager, LockOwner, LockTable, WaitOptions},
    page::{Page, PageKind},
    store::{PageGuard, PageWrite},
    sync::{Mutex, check_random, find_failing_seed, thread},
};

const SEEDS: u64 = 600;
const PAGES: usize = 4;
const THREADS: usize = 3;
const TXNS: usize = 2;

struct World {
    disk: SimDisk,
    store: LoggedStore,
    locks: Arc<LockManager>,
    ids: Vec<PageId>,
    /// By number, what a transaction did once it had committed.
    committed: Mutex<BTreeMap<usize, (Csn, Vec<usize>)>>,
}

fn open(disk: &SimDisk, strategy: Strategy, logs: LogShape) -> (LoggedStore, Vec<Loser>) {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let how = Opening {
        create: Some(7),
        read_only: false,
        contents: super::Contents::Objects,
        unit: PageSize::MIN,
        strategy,
        logs,
        pool_bytes: 64 << 10,
        limits: Limits { dirty_bytes_max: 1024, log_bytes_max: 2048, sphere_pages_max: 2 },
        page_locks: TableId::new(0),
        clock: Arc::new(ManualClock::default()),
    };
    LoggedStore::open_on(&disk, how).unwrap()
}

fn lock_manager() -> Arc<LockManager> {
    LockManager::new([LockTable::new("page", KEY_MODES)], Arc::new(ManualClock::default()))
}

fn number_at(page: &Page, number: usize) -> i64 {
    i64::from_le_bytes(page.body()[number * 8..][..8].try_into().unwrap())
}

/// Adds to a number on pages, all or none: false if it is the victim of a deadlock.
fn add(
    store: &LoggedStore,
    subtxn: &Subtxn,
    owner: &mut LockOwner,
    pages: &[PageId],
    number: usize,
    by: i64,
) -> Result<()> {
    let access = store.access(subtxn, owner, WaitOptions::default());
    for id in pages {
        // First shared, as a transaction does that reads before it changes: conversions meet.
        access.read(*id)?;
        let mut page = access.write(*id)?;
        let value = number_at(&page, number) + by;
        page.body_mut()[number * 8..][..8].copy_from_slice(&value.to_le_bytes());
    }
    Ok(())
}

/// One operation of a transaction, run until it is no victim.
fn operate(
    store: &LoggedStore,
    txn: TxnId,
    owner: &mut LockOwner,
    pages: &[PageId],
    number: usize,
    by: i64,
    undo: Undo<'_>,
) -> Result<SubtxnId> {
    loop {
        let subtxn = store.begin_subtxn(txn)?;
        let id = subtxn.id();
        match add(store, &subtxn, owner, pages, number, by) {
            Ok(()) => store.end(subtxn, undo)?,
            Err(Error::Deadlock) => {
                store.abort(subtxn)?;
                owner.release_all();
                continue;
            }
            Err(error) => return Err(error),
        }
        owner.release_all();
        return Ok(id);
    }
}

impl World {
    fn new(strategy: Strategy, logs: LogShape, planted: Option<Failpoint>) -> Arc<World> {
        let disk = SimDisk::new(1);
        let (store, _) = open(&disk, strategy, logs);
        let locks = lock_manager();
        let txn = TxnId(store.log.new_id());
        let subtxn = store.begin_subtxn(txn).unwrap();
        let mut owner = locks.owner(txn);
        let ids = {
            let pages = store.access(&subtxn, &mut owner, WaitOptions::default());
            let page = |_| pages.allocate(PageKind::ObjectData, PageSize::MIN).unwrap().id();
            (0..PAGES).map(page).collect()
        };
        let csn = store.commit_whole(subtxn).unwrap();
        store.wait_durable(csn).unwrap();
        drop(owner);
        store.failpoints.turn_on(planted);
        Arc::new(World { disk, store, locks, ids, committed: Mutex::default() })
    }

    /// Which pages an operation takes: neighbours, or both ends.
    fn choose() -> Vec<usize> {
        match thread_rng().gen_range(0..3) {
            0 => vec![0, 1],
            1 => vec![2, 1],
            _ => vec![PAGES - 1, 0],
        }
    }

    fn transaction(&self, number: usize) -> Result<()> {
        let txn = TxnId(self.store.log.new_id());
        let mut owner = self.locks.owner(txn);
        let mut done: Vec<(SubtxnId, Vec<usize>)> = Vec::new();
        let gives_up = thread_rng().gen_bool(0.3);
        let mut whole = None;
        if self.store.strategy() == Strategy::SingleLevel {
            let subtxn = self.store.begin_subtxn(txn)?;
            for _ in 0..2 {
                let pages = World::choose();
                let ids: Vec<PageId> = pages.iter().map(|page| self.ids[*page]).collect();
                match add(&self.store, &subtxn, &mut owner, &ids, number, 1) {
                    Ok(()) => done.push((subtxn.id(), pages)),
                    Err(Error::Deadlock) => return self.store.abort(subtxn),
                    Err(error) => return Err(error),
                }
            }
            if gives_up {
                return self.store.abort(subtxn);
            }
            whole = Some(subtxn);
        } else {
            for _ in 0..2 {
                let pages = World::choose();
                let ids: Vec<PageId> = pages.iter().map(|page| self.ids[*page]).collect();
                let undo: Vec<u8> = pages.iter().map(|page| *page as u8).chain([number as u8]).collect();
                let id = operate(&self.store, txn, &mut owner, &ids, number, 1, Undo::Operation(&undo))?;
                done.push((id, pages));
            }
            if gives_up {
                for (id, pages) in done.iter().rev() {
                    let ids: Vec<PageId> = pages.iter().map(|page| self.ids[*page]).collect();
                    operate(&self.store, txn, &mut owner, &ids, number, -1, Undo::Compensates(&[*id]))?;
                }
                self.store.end_undone(txn);
                return Ok(());
            }
        }
        // In one step, so that the list is right whenever a thread looks.
        let csn = {
            let mut committed = self.committed.lock();
            let csn = match whole {
                Some(whole) => self.store.commit_whole(whole)?,
                None => self.store.commit(txn)?,
            };
            committed.insert(number, (csn, done.into_iter().flat_map(|(_, pages)| pages).collect()));
            csn
        };
        drop(owner);
        if thread_rng().gen_bool(0.7) {
            self.store.wait_durable(csn)?;
            self.check_image(&self.disk.crash_image_synced(), csn);
        }
        Ok(())
    }

    /// What a crash left is whole, and has everything up to a commit that was acknowledged.
    fn check_image(&self, image: &SimDisk, acknowledged: Csn) {
        let root = Root::read(&*Disk::open(image, FILE, false).unwrap()).unwrap().unwrap();
        let (store, losers) = open(image, root.strategy, root.logs);
        let locks = lock_manager();
        for loser in &losers {
            let mut owner = locks.owner(loser.txn);
            for (index, (id, _)) in loser.undo.iter().enumerate() {
                let undo = store.log.undo_record(loser, index).unwrap();
                let (number, pages) = undo.split_last().unwrap();
                let ids: Vec<PageId> = pages.iter().map(|page| self.ids[usize::from(*page)]).collect();
                let undoes = [*id];
                let compensates = Undo::Compensates(&undoes);
                operate(&store, loser.txn, &mut owner, &ids, usize::from(*number), -1, compensates).unwrap();
            }
            store.end_undone(loser.txn);
        }
        let durable = store.durable_csn();
        assert!(durable >= acknowledged, "{durable} is durable, {acknowledged} was acknowledged");
        let pages: Vec<Vec<i64>> = self
            .ids
            .iter()
            .map(|id| {
                let page = store.read(*id).unwrap();
                (0..THREADS * TXNS).map(|number| number_at(&page, number)).collect()
            })
            .collect();
        let committed = self.committed.lock();
        for number in 0..THREADS * TXNS {
            let found: Vec<i64> = pages.iter().map(|page| page[number]).collect();
            let mut expected = vec![0; PAGES];
            if let Some((csn, changed)) = committed.get(&number)
                && *csn <= durable
            {
                changed.iter().for_each(|page| expected[*page] += 1);
            }
            assert_eq!(found, expected, "transaction {number} at {durable}, {committed:?}");
        }
    }
}

fn random_transactions(strategy: Strategy, logs: LogShape, planted: Option<Failpoint>) {
    let world = World::new(strategy, logs, planted);
    let writers: Vec<_> = (0..THREADS)
        .map(|thread| {
            let world = world.clone();
            thread::spawn(move || (0..TXNS).for_each(|step| world.transaction(thread * TXNS + step).unwrap()))
        })
        .collect();
    let tidier = thread::spawn({
        let world = world.clone();
        move || {
            for _ in 0..2 {
                match thread_rng().gen_range(0..3) {
                    0 => world.store.log.write_large_spheres().unwrap(),
                    1 => world.store.log.place_oldest(u64::MAX).unwrap(),
                    _ => world.store.log.give_up_log(u64::MAX).unwrap(),
                }
                let durable = world.store.durable_csn();
                world.check_image(&world.disk.crash_image(thread_rng().gen_range(0..100)), durable);
            }
        }
    });
    for thread in writers.into_iter().chain([tidier]) {
        thread.join().unwrap();
    }
    let last = world.store.last_csn();
    world.store.wait_durable(last).unwrap();
    world.check_image(&world.disk.crash_image_synced(), last);
    world.store.close().unwrap();
    world.check_image(&world.disk.crash_image_synced(), last);
}

fn shapes() -> [LogShape; 2] {
    let logs = |redo_files, shared| LogShape { redo_files, shared, segment_bytes: 4096 };
    [logs(1, false), logs(2, true)]
}

#[test]
fn shuttle_the_logs_hold_whole_subtransactions_and_all_that_is_acknowledged() {
    for strategy in Strategy::ALL {
        for logs in shapes() {
            let name = format!("{} {logs:?}", strategy.name());
            check_random(&name, SEEDS / 6, move || random_transactions(strategy, logs, None));
        }
    }
}

#[test]
fn shuttle_planted_bugs_of_the_logged_store_are_caught() {
    for bug in [Failpoint::UndoNotForced, Failpoint::OverlapIgnored, Failpoint::Stolen] {
        let run = move || random_transactions(Strategy::TwoLevelDeferred, shapes()[0], Some(bug));
        let (seed, _) =
            find_failing_seed(0..SEEDS, Arc::new(run)).unwrap_or_else(|| panic!("{bug:?} was not caught"));
        println!("{bug:?}: seed {seed}");
    }
}
