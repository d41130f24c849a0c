//! The logged store under a small level 1, whose operations change several pages each: a crash at every event, and
//! what must come of it.
//!
//! A page has a number for each transaction, and operations add one to that number on several pages; their inverse
//! takes it off again, which is right once and wrong twice. Some operations make a page or give one back, and note that
//! in a page which all share. Several transactions run at a time, in turn.
//!
//! `GNOMON_SWEEP_SEEDS` sets how many workloads are swept.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::{
    disk::{Disk, SimDisk},
    env::{ManualClock, Rng},
    failpoint::Failpoint,
    lock::{KEY_MODES, LockManager, LockOwner, LockTable, WaitOptions},
    page::{Page, PageKind},
    store::{PageGuard, PageWrite},
};

const PAGES: usize = 10;
/// As many transactions have a number on a page.
const TXNS: usize = 40;
const AT_A_TIME: usize = 3;
const UNIT: PageSize = PageSize::MIN;

/// What pages say: of each of the first ones the numbers of all transactions, and the pages that some have made.
#[derive(Clone, Debug, Default, PartialEq)]
struct Contents {
    numbers: BTreeMap<(usize, usize), i64>,
    made: BTreeMap<usize, Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq)]
enum Operation {
    Add { number: usize, by: i64, to: Vec<u64> },
    Make { number: usize, contents: Vec<u8> },
    Free { number: usize },
}

impl Operation {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Operation::Add { number, by, to } => {
                bytes.extend([1, *number as u8, *by as u8]);
                to.iter().for_each(|page| bytes.extend(page.to_le_bytes()));
            }
            Operation::Make { number, contents } => {
                bytes.extend([2, *number as u8]);
                bytes.extend(contents);
            }
            Operation::Free { number } => bytes.extend([3, *number as u8]),
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Operation {
        let number = bytes[1] as usize;
        match bytes[0] {
            1 => {
                let to = bytes[3..].as_chunks::<8>().0.iter().map(|page| u64::from_le_bytes(*page)).collect();
                Operation::Add { number, by: i64::from(bytes[2] as i8), to }
            }
            2 => Operation::Make { number, contents: bytes[2..].to_vec() },
            _ => Operation::Free { number },
        }
    }
}

struct World {
    store: LoggedStore,
    locks: Arc<LockManager>,
    /// The page that tells of made ones, then those with numbers.
    pages: Vec<PageId>,
    losers: Vec<Loser>,
}

struct Running {
    txn: TxnId,
    owner: LockOwner,
    /// With one level, the one that is the transaction.
    whole: Option<Subtxn>,
    undo: Vec<(SubtxnId, Operation)>,
    done: Vec<Operation>,
    number: usize,
}

fn number_at(page: &Page, number: usize) -> i64 {
    i64::from_le_bytes(page.body()[number * 8..][..8].try_into().unwrap())
}

fn set_number(page: &mut Page, number: usize, value: i64) {
    page.body_mut()[number * 8..][..8].copy_from_slice(&value.to_le_bytes());
}

#[derive(Clone, Copy, Debug)]
struct Setting {
    strategy: Strategy,
    logs: LogShape,
    planted: Option<Failpoint>,
}

fn open(disk: &SimDisk, setting: Setting) -> Result<World> {
    let disk: Arc<dyn Disk> = Arc::new(disk.open_exclusive()?);
    let how = Opening {
        create: Some(7),
        read_only: false,
        contents: super::Contents::Objects,
        unit: UNIT,
        strategy: setting.strategy,
        logs: setting.logs,
        pool_bytes: 64 << 10,
        limits: Limits { dirty_bytes_max: 4 << 10, log_bytes_max: 8 << 10, sphere_pages_max: 8 },
        page_locks: TableId::new(0),
        clock: Arc::new(ManualClock::default()),
    };
    let (store, losers) = LoggedStore::open_on(&disk, how)?;
    store.failpoints.turn_on(setting.planted);
    let clock = Arc::new(ManualClock::new(std::time::Duration::ZERO));
    let locks = LockManager::new([LockTable::new("page", KEY_MODES)], clock);
    let first = store.first_page();
    let mut world = World { store, locks, pages: Vec::new(), losers };
    if world.store.is_new() {
        let txn = TxnId(world.store.log.new_id());
        let mut owner = world.locks.owner(txn);
        let subtxn = world.store.begin_subtxn(txn)?;
        {
            let pages = world.store.access(&subtxn, &mut owner, WaitOptions::default());
            for _ in 0..=PAGES {
                world.pages.push(pages.allocate(PageKind::ObjectData, UNIT)?.id());
            }
        }
        assert_eq!(world.pages[0], first);
        let csn = world.store.commit_whole(subtxn)?;
        world.store.wait_durable(csn)?;
    } else {
        world.pages = (0..=PAGES as u64).map(|page| PageId(first.0 + page)).collect();
    }
    Ok(world)
}

impl World {
    fn begin(&self, number: usize) -> Running {
        let txn = TxnId(self.store.log.new_id());
        let (undo, done) = (Vec::new(), Vec::new());
        Running { txn, owner: self.locks.owner(txn), whole: None, undo, done, number }
    }

    /// Changes pages. False if one of them is locked by another transaction; then nothing has changed.
    fn change(
        &self,
        subtxn: &Subtxn,
        owner: &mut LockOwner,
        operation: &Operation,
    ) -> Result<Option<Operation>> {
        let wait = WaitOptions { nowait: true, ..WaitOptions::default() };
        let pages = self.store.access(subtxn, owner, wait);
        let refused = |error| match error {
            Error::LockTimeout => Ok(None),
            error => Err(error),
        };
        Ok(Some(match operation {
            Operation::Add { number, by, to } => {
                for page in to {
                    if let Err(error) = pages.write(PageId(*page)).map(drop) {
                        return refused(error);
                    }
                }
                for (done, page) in to.iter().enumerate() {
                    // As others may do at the same time.
                    if done == 2 {
                        self.store.write_batch()?;
                        self.store.log.place_oldest(u64::MAX)?;
                    }
                    let mut page = pages.write(PageId(*page))?;
                    let value = number_at(&page, *number) + by;
                    set_number(&mut page, *number, value);
                }
                Operation::Add { number: *number, by: -by, to: to.clone() }
            }
            Operation::Make { number, contents } => {
                let mut made = match pages.write(self.pages[0]) {
                    Ok(made) => made,
                    Err(error) => return refused(error),
                };
                assert_eq!(number_at(&made, *number), 0);
                let mut page = pages.allocate(PageKind::ObjectData, UNIT)?;
                page.body_mut()[..contents.len()].copy_from_slice(contents);
                set_number(&mut made, *number, page.id().0 as i64);
                Operation::Free { number: *number }
            }
            Operation::Free { number } => {
                let mut made = match pages.write(self.pages[0]) {
                    Ok(made) => made,
                    Err(error) => return refused(error),
                };
                let page = PageId(number_at(&made, *number) as u64);
                let page = match pages.write(page) {
                    Ok(page) => page,
                    Err(error) => return refused(error),
                };
                let contents = page.body()[..16].to_vec();
                pages.free(page)?;
                set_number(&mut made, *number, 0);
                Operation::Make { number: *number, contents }
            }
        }))
    }

    fn operate(&self, txn: &mut Running, operation: Operation) -> Result<bool> {
        if self.store.strategy() == Strategy::SingleLevel {
            if txn.whole.is_none() {
                txn.whole = Some(self.store.begin_subtxn(txn.txn)?);
            }
            let changed = self.change(txn.whole.as_ref().unwrap(), &mut txn.owner, &operation)?;
            if changed.is_some() {
                txn.done.push(operation);
            }
            return Ok(changed.is_some());
        }
        let mark = txn.owner.mark();
        let subtxn = self.store.begin_subtxn(txn.txn)?;
        let Some(undo) = self.change(&subtxn, &mut txn.owner, &operation)? else {
            self.store.abort(subtxn)?;
            txn.owner.release_since(mark);
            return Ok(false);
        };
        let id = subtxn.id();
        self.store.end(subtxn, Undo::Operation(&undo.encode()))?;
        txn.owner.release_since(mark);
        txn.undo.push((id, undo));
        txn.done.push(operation);
        Ok(true)
    }

    fn compensate(&self, txn: TxnId, owner: &mut LockOwner, id: SubtxnId, undo: &Operation) -> Result<bool> {
        let mark = owner.mark();
        let subtxn = self.store.begin_subtxn(txn)?;
        if self.change(&subtxn, owner, undo)?.is_none() {
            self.store.abort(subtxn)?;
            owner.release_since(mark);
            return Ok(false);
        }
        let undo = match self.store.failpoints.is_on(Failpoint::CompensationUnrecorded) {
            true => Undo::Nothing,
            false => Undo::Compensates(&[id]),
        };
        self.store.end(subtxn, undo)?;
        owner.release_since(mark);
        Ok(true)
    }

    /// Undoes everything. False if a page is locked; the rest is still to be done.
    fn undo(&self, txn: &mut Running) -> Result<bool> {
        if let Some(whole) = txn.whole.take() {
            self.store.abort(whole)?;
        }
        while let Some((id, undo)) = txn.undo.last() {
            if !self.compensate(txn.txn, &mut txn.owner, *id, undo)? {
                return Ok(false);
            }
            txn.undo.pop();
        }
        self.store.end_undone(txn.txn);
        Ok(true)
    }

    /// The undo pass.
    fn recover(&self) -> Result<()> {
        for loser in &self.losers {
            let mut owner = self.locks.owner(loser.txn);
            for (index, (id, _)) in loser.undo.iter().enumerate() {
                let undo = Operation::decode(&self.store.log.undo_record(loser, index)?);
                assert!(self.compensate(loser.txn, &mut owner, *id, &undo)?, "nobody else is there");
            }
            self.store.end_undone(loser.txn);
        }
        Ok(())
    }

    fn contents(&self) -> Result<Contents> {
        let mut contents = Contents::default();
        for (index, page) in self.pages[1..].iter().enumerate() {
            let page = self.store.read(*page)?;
            for number in 0..TXNS {
                let value = number_at(&page, number);
                if value != 0 {
                    contents.numbers.insert((index, number), value);
                }
            }
        }
        let made = self.store.read(self.pages[0])?;
        let mut in_use: BTreeSet<u64> = self.pages.iter().map(|page| page.0).collect();
        for number in 0..TXNS {
            let page = number_at(&made, number) as u64;
            if page != 0 {
                contents.made.insert(number, self.store.read(PageId(page))?.body()[..16].to_vec());
                in_use.insert(page);
            }
        }
        // What was given back is free when the log has that.
        let all = self.store.log.state.lock().spheres.all();
        self.store.log.write_spheres(all)?;
        let found = self.store.log.state.lock().space.in_use();
        let map_units = 8 * self.store.log.state.lock().space.chunk_count();
        assert_eq!(
            found,
            in_use.len() as u64 + map_units,
            "pages that nobody knows are in use, or the other way round"
        );
        Ok(contents)
    }
}

impl Contents {
    fn apply(&mut self, done: &[Operation], first: PageId) {
        for operation in done {
            match operation {
                Operation::Add { number, by, to } => {
                    for page in to {
                        let entry = self.numbers.entry(((page - first.0 - 1) as usize, *number)).or_default();
                        *entry += by;
                    }
                }
                Operation::Make { number, contents } => drop(self.made.insert(*number, contents.clone())),
                Operation::Free { number } => drop(self.made.remove(number)),
            }
        }
    }
}

/// What a run did: what was there after each commit, by CSN; the newest acknowledged one; why it ended early.
struct History {
    states: BTreeMap<Csn, Contents>,
    acknowledged: Csn,
    error: Option<Error>,
}

fn run(disk: &SimDisk, seed: u64, setting: Setting, start: &Contents, first_number: usize) -> History {
    let mut history =
        History { states: BTreeMap::from([(Csn(0), start.clone())]), acknowledged: Csn(0), error: None };
    history.error = work(disk, seed, setting, first_number, &mut history).err();
    history
}

fn work(
    disk: &SimDisk,
    seed: u64,
    setting: Setting,
    first_number: usize,
    history: &mut History,
) -> Result<()> {
    let mut rng = Rng::from_seed(seed);
    let world = open(disk, setting)?;
    world.recover()?;
    let mut current = history.states[&Csn(0)].clone();
    let last = world.store.last_csn();
    history.states.insert(last, current.clone());
    let mut running: Vec<Running> = Vec::new();
    let mut undoing: Vec<Running> = Vec::new();
    let mut next = first_number;
    while next < TXNS || !running.is_empty() || !undoing.is_empty() {
        let mut left = Vec::new();
        for mut txn in undoing {
            if !world.undo(&mut txn)? {
                left.push(txn);
            }
        }
        undoing = left;
        if running.len() + undoing.len() < AT_A_TIME && next < TXNS {
            running.push(world.begin(next));
            next += 1;
            continue;
        }
        if running.is_empty() {
            continue;
        }
        let at = rng.below(running.len() as u64) as usize;
        match rng.below(10) {
            0..3 => {
                let txn = running.swap_remove(at);
                let mut after = current.clone();
                after.apply(&txn.done, world.store.first_page());
                if txn.done.is_empty() {
                    continue;
                }
                history.states.insert(Csn(world.store.last_csn().0 + 1), after.clone());
                let csn = match txn.whole {
                    Some(whole) => world.store.commit_whole(whole)?,
                    None => world.store.commit(txn.txn)?,
                };
                drop(txn.owner);
                current = after;
                if rng.chance(2, 3) {
                    world.store.wait_durable(csn)?;
                    history.acknowledged = csn;
                }
            }
            3 => undoing.push(running.swap_remove(at)),
            4 => world.store.log.write_large_spheres()?,
            operation => {
                let txn = &mut running[at];
                let number = txn.number;
                let makes = |done: &Operation| matches!(done, Operation::Make { .. });
                let frees = |of: usize| move |done: &Operation| matches!(done, Operation::Free { number } if *number == of);
                let operation = match operation {
                    5 if !txn.done.iter().any(makes) => {
                        Operation::Make { number, contents: vec![number as u8 + 1; 16] }
                    }
                    6 => {
                        let made: Vec<usize> = current.made.keys().copied().collect();
                        let Some(number) = made.get(rng.below(made.len().max(1) as u64) as usize).copied()
                        else {
                            continue;
                        };
                        // As a lock of level 1 would see to.
                        let taken = |txn: &Running| txn.done.iter().any(frees(number));
                        if running.iter().chain(&undoing).any(taken) {
                            continue;
                        }
                        Operation::Free { number }
                    }
                    _ => {
                        let mut to = BTreeSet::new();
                        for _ in 0..1 + rng.below(3) {
                            to.insert(world.pages[1 + rng.below(PAGES as u64) as usize].0);
                        }
                        Operation::Add { number, by: 1, to: to.into_iter().collect() }
                    }
                };
                world.operate(&mut running[at], operation)?;
            }
        }
    }
    world.store.close()?;
    history.acknowledged = world.store.last_csn();
    Ok(())
}

/// Opens what a crash left, maybe crashing again on the way, and compares it with what is allowed.
fn check(image: &SimDisk, history: &History, setting: Setting) -> Result<Contents, String> {
    let world = open(image, setting).map_err(|error| format!("it does not open: {error}"))?;
    world.recover().map_err(|error| format!("the undo pass fails: {error}"))?;
    let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.contents()))
        .map_err(|panic| panic.downcast_ref::<String>().cloned().unwrap_or_default())?
        .map_err(|error| error.to_string())?;
    let csn = world.store.durable_csn();
    if csn < history.acknowledged {
        return Err(format!("{csn} is durable, {} was acknowledged", history.acknowledged));
    }
    match history.states.get(&csn) {
        // The first commit makes the pages.
        None if csn.0 <= 1 && found == Contents::default() => Ok(found),
        None => Err(format!("{csn} was never committed")),
        Some(state) if *state == found => Ok(found),
        Some(state) => Err(format!("after {csn} there should be {state:?}, there is {found:?}")),
    }
}

fn sweep(seed: u64, setting: Setting, step: usize) -> Result<u64, String> {
    let whole = SimDisk::new(seed);
    let history = run(&whole, seed, setting, &Contents::default(), 0);
    if let Some(error) = history.error {
        return Err(format!("seed {seed}: {error}"));
    }
    let mut images = 0;
    for event in (0..whole.events()).step_by(step) {
        let disk = SimDisk::new(seed);
        disk.crash_at(event);
        let history = run(&disk, seed, setting, &Contents::default(), 0);
        for (number, image) in disk.crash_images(2).enumerate() {
            images += 1;
            let place = |wrong: String| {
                format!(
                    "{setting:?}, seed {seed}, event {event}, image {number}: {wrong}\n{}",
                    disk.history()
                )
            };
            // A second crash, in the crash recovery, and a third.
            let mut image = image;
            for again in 0..2 {
                image.crash_at(image.events() + (event * 7 + again * 3 + number as u64) % 23);
                let opened = open(&image, setting).and_then(|world| world.recover());
                if opened.is_ok() && !image.has_crashed() {
                    image.crash();
                }
                image = image.crash_image(event + again);
            }
            check(&image, &history, setting).map_err(place)?;
        }
    }
    Ok(images)
}

fn seeds() -> u64 {
    std::env::var("GNOMON_SWEEP_SEEDS").map_or(1, |seeds| seeds.parse().expect("a number"))
}

fn settings() -> Vec<Setting> {
    let logs = |redo_files, shared| LogShape { redo_files, shared, segment_bytes: 4096 };
    let shapes = [logs(1, true), logs(1, false), logs(3, false), logs(2, true)];
    let of = |strategy| shapes.map(|logs| Setting { strategy, logs, planted: None });
    Strategy::ALL.into_iter().flat_map(of).collect()
}

#[test]
fn a_log_without_its_pages_is_left_alone() {
    for setting in settings() {
        let disk = SimDisk::new(1);
        drop(open(&disk, setting).unwrap());
        let left = {
            let disk = disk.open_exclusive().unwrap();
            disk.remove(super::FILE).unwrap();
            disk.list().unwrap()
        };
        let opened = open(&disk, setting).map(drop);
        assert!(matches!(&opened, Err(Error::NotADatabase { .. })), "{opened:?}");
        assert_eq!(disk.open_exclusive().unwrap().list().unwrap(), left, "{setting:?}");
    }
}

/// Subtransactions of one transaction that run at the same time end in another order than they begin.
#[test]
fn what_ended_last_is_undone_first() {
    for setting in settings() {
        if setting.strategy == Strategy::SingleLevel {
            continue;
        }
        let disk = SimDisk::new(1);
        let world = open(&disk, setting).unwrap();
        let txn = TxnId(world.store.log.new_id());
        let [first, second] = [(); 2].map(|()| world.store.begin_subtxn(txn).unwrap());
        let ids = [first.id(), second.id()];
        for subtxn in [second, first] {
            let mut owner = world.locks.owner(txn);
            let add = Operation::Add { number: 0, by: 1, to: vec![world.pages[1].0] };
            let undo = world.change(&subtxn, &mut owner, &add).unwrap().unwrap();
            world.store.end(subtxn, Undo::Operation(&undo.encode())).unwrap();
        }
        let spheres = world.store.log.state.lock().spheres.all();
        world.store.log.write_spheres(spheres).unwrap();
        let world = open(&disk.crash_image_synced(), setting).unwrap();
        let undone = world.losers.iter().flat_map(|loser| loser.undo.iter().map(|(subtxn, _)| *subtxn));
        assert_eq!(undone.collect::<Vec<_>>(), ids, "{setting:?}");
    }
}

#[test]
fn every_crash_leaves_whole_transactions() {
    for setting in settings() {
        for seed in 1..=seeds() {
            let images = sweep(seed, setting, 7).unwrap_or_else(|wrong| panic!("{wrong}"));
            println!("{setting:?}: {images} images");
        }
    }
}

/// The bugs that the sweep over a strategy must catch.
#[test]
fn planted_bugs_are_caught() {
    let logs = LogShape { redo_files: 1, shared: false, segment_bytes: 4096 };
    for (bug, strategies) in [
        (Failpoint::UndoNotForced, &[Strategy::TwoLevel, Strategy::TwoLevelDeferred][..]),
        (Failpoint::OverlapIgnored, &[Strategy::TwoLevelDeferred]),
        (Failpoint::EosEarly, &Strategy::ALL),
        (Failpoint::CompensationUnrecorded, &[Strategy::TwoLevel, Strategy::TwoLevelDeferred]),
        (Failpoint::Stolen, &Strategy::ALL),
        (Failpoint::PlacesUnsynced, &Strategy::ALL),
    ] {
        for strategy in strategies {
            let setting = Setting { strategy: *strategy, logs, planted: Some(bug) };
            let caught = (1..20).find_map(|seed| {
                std::panic::catch_unwind(|| sweep(seed, setting, 3))
                    .map_or(Some("it panics".into()), Result::err)
            });
            let caught = caught.unwrap_or_else(|| panic!("{bug:?} under {strategy:?} was not caught"));
            println!("{bug:?}, {strategy:?}: {}", caught.lines().next().unwrap_or_default());
        }
    }
}
