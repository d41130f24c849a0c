//! The study's system at work: terminals that run transactions, on processors, disks, a buffer, locks and a log.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::Duration,
};

use gnomon_engine::{
    env::Rng,
    sync::atomic::{AtomicBool, Ordering},
};
use serde::Serialize;

use super::{
    buffer::{Buffer, Miss},
    parameters::{DataLocks, LogDisk, LogWrite, Manager, Moved, Parameters, Search},
    workload::{Action, DATA_PAGES, INNER_PAGES, Kind, LEAVES, Plan, RECORD_BYTES, Workload},
};
use crate::simulation::{
    Simulation, Station,
    locks::{LockTable, Mode, NotGranted},
};

/// Between two checkpoints.
const CHECKPOINT: Duration = Duration::from_secs(300);
/// Pages of an index.
const INDEX_PAGES: u64 = 1 + INNER_PAGES + LEAVES;
/// Of a page of an index.
const ENTRIES: u64 = LEAVES / INNER_PAGES;
/// Places of records on a page.
const RECORDS_A_PAGE: u64 = 20;
/// Of each record of the database's log.
const HEADER_BYTES: f64 = 20.0;

/// What one run found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Found {
    /// Transactions a second.
    pub throughput: f64,
    /// Transactions that were given up and begun again, for each that committed.
    pub aborts: f64,
    /// Locks, for each that committed.
    pub locks: f64,
    /// Seconds waited for locks, for each that committed.
    pub lock_wait: f64,
    /// Bytes of the log, for each that committed.
    pub log_bytes: f64,
    /// I/Os, for each that committed.
    pub ios: f64,
    /// The part of the time that the processors were busy.
    pub cpu_busy: f64,
    /// And the disks.
    pub disks_busy: f64,
}

/// What has been counted since the beginning.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    commits: f64,
    aborts: f64,
    locks: f64,
    waited: f64,
    log_bytes: f64,
    ios: f64,
    cpu: f64,
    disks: f64,
}

/// How long a system is simulated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    /// So many simulated seconds, after so many that do not count.
    Seconds {
        /// Those that do not count.
        warm_up: f64,
        /// And those that do.
        counted: f64,
    },
    /// Until so many transactions have committed, after as many that do not count. Either part ends, too, when
    /// 10 times as many have ended in any way: where most are given up, that tells how few commit.
    Transactions(u64),
}

/// How many transactions end, for each that is to commit, at most.
const ATTEMPTS_MAX: u64 = 10;

/// Runs a system. When it is canceled, it ends early, and what it found tells nothing.
pub fn run(parameters: &Parameters, seed: u64, length: Length, cancel: &AtomicBool) -> Found {
    let simulation = Simulation::default();
    let system = Rc::new(System::new(parameters.clone(), &simulation));
    let mut seeds = Rng::from_seed(seed);
    for terminal in 0..parameters.mpl {
        let rng = Rng::from_seed(seeds.next_u64());
        simulation.start(system.clone().terminal(terminal as u64, rng));
    }
    simulation.start(system.clone().checkpoints());
    let goes_on = || !cancel.load(Ordering::Acquire);
    let (before, seconds) = match length {
        Length::Seconds { warm_up, counted } => {
            simulation.run_while(Duration::from_secs_f64(warm_up), goes_on);
            let before = system.counts();
            simulation.run_while(Duration::from_secs_f64(warm_up + counted), goes_on);
            (before, counted)
        }
        Length::Transactions(counted) => {
            let pass = || {
                let of = |counts: Counts| (counts.commits, counts.commits + counts.aborts);
                let (commits, ended) = of(system.counts.get());
                let limits = (commits + counted as f64, ended + (ATTEMPTS_MAX * counted) as f64);
                simulation.run_while(Duration::MAX, || {
                    let (commits, ended) = of(system.counts.get());
                    goes_on() && commits < limits.0 && ended < limits.1
                });
            };
            pass();
            let (before, from) = (system.counts(), simulation.now());
            pass();
            (before, (simulation.now() - from).as_secs_f64())
        }
    };
    let after = system.counts();
    simulation.end();
    let commits = after.commits - before.commits;
    let each = |of: fn(&Counts) -> f64| (of(&after) - of(&before)) / commits;
    Found {
        throughput: commits / seconds,
        aborts: each(|counts| counts.aborts),
        locks: each(|counts| counts.locks),
        lock_wait: each(|counts| counts.waited),
        log_bytes: each(|counts| counts.log_bytes),
        ios: each(|counts| counts.ios),
        cpu_busy: (after.cpu - before.cpu) / seconds / parameters.processors as f64,
        disks_busy: (after.disks - before.disks) / seconds / system.disks.len() as f64,
    }
}

/// A page, or what is beneath it: the numbers of pages and of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Root(usize),
    Inner(usize, u64),
    Leaf(usize, u64),
    Data(u64),
    Log(u64),
}

impl Page {
    /// A number of its own, which tells its disk too.
    fn number(self) -> u64 {
        match self {
            Page::Data(page) => page,
            Page::Root(index) => DATA_PAGES + index as u64 * INDEX_PAGES,
            Page::Inner(index, page) => DATA_PAGES + index as u64 * INDEX_PAGES + 1 + page,
            Page::Leaf(index, page) => DATA_PAGES + index as u64 * INDEX_PAGES + 1 + INNER_PAGES + page,
            Page::Log(page) => (1 << 40) + page,
        }
    }
}

struct System {
    parameters: Parameters,
    workload: Workload,
    simulation: Simulation,
    cpu: Station,
    disks: Vec<Station>,
    log_disk: Option<Station>,
    buffer: RefCell<Buffer>,
    locks: LockTable,
    log_pages: Cell<u64>,
    counts: Cell<Counts>,
}

/// A transaction under way.
struct Running {
    owner: u64,
    /// When it is thought to be in a deadlock.
    until: Duration,
    /// What it has locked to its end.
    held: Vec<u64>,
    /// What is to be logged when it commits, in bytes.
    unlogged: f64,
}

impl System {
    fn new(parameters: Parameters, simulation: &Simulation) -> System {
        let own_log = parameters.readings.log_disk == LogDisk::Own;
        let mut buffer = Buffer::new(parameters.buf_size);
        let pages = DATA_PAGES + parameters.numindex as u64 * INDEX_PAGES;
        if parameters.buf_size as u64 >= pages {
            // It had them all long ago.
            for page in 0..pages {
                buffer.fetch(page, false);
            }
        }
        System {
            workload: Workload::new(&parameters),
            cpu: Station::new(simulation, parameters.processors),
            disks: (0..parameters.numdisks).map(|_| Station::new(simulation, 1)).collect(),
            log_disk: own_log.then(|| Station::new(simulation, 1)),
            buffer: RefCell::new(buffer),
            locks: LockTable::new(simulation),
            log_pages: Cell::new(0),
            counts: Cell::default(),
            simulation: simulation.clone(),
            parameters,
        }
    }

    fn counts(&self) -> Counts {
        Counts {
            waited: self.locks.waited().as_secs_f64(),
            cpu: self.cpu.service().as_secs_f64(),
            disks: self.disks.iter().map(|disk| disk.service().as_secs_f64()).sum(),
            ..self.counts.get()
        }
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    /// Runs transactions one after another; one that is given up is begun again.
    async fn terminal(self: Rc<Self>, terminal: u64, mut rng: Rng) {
        let mut owner = terminal;
        loop {
            let plan = self.workload.choose(&mut rng);
            loop {
                // No two transactions have one number.
                owner += self.parameters.mpl as u64;
                let allowed = plan.actions() as f64 * self.parameters.max_action_len
                    + plan.think * (plan.series.len() - 1) as f64;
                let until = self.simulation.now() + Duration::from_secs_f64(allowed);
                let mut running = Running { owner, until, held: Vec::new(), unlogged: 0.0 };
                let ended = self.transaction(&plan, &mut running).await;
                running.held.iter().for_each(|lock| self.locks.release(owner, *lock));
                match ended {
                    Ok(()) => break self.count(|counts| counts.commits += 1.0),
                    Err(NotGranted) => self.count(|counts| counts.aborts += 1.0),
                }
            }
        }
    }

    /// A transaction from begin to commit.
    async fn transaction(&self, plan: &Plan, running: &mut Running) -> Result<(), NotGranted> {
        for (number, series) in plan.series.iter().enumerate() {
            if number > 0 {
                self.simulation.pass(Duration::from_secs_f64(plan.think)).await;
            }
            for action in series {
                self.action(action, running).await?;
            }
        }
        // The commit record, with what has not been written yet.
        self.write_log(running.unlogged + HEADER_BYTES).await;
        Ok(())
    }

    /// Finds a record through an index, and does something with it.
    async fn action(&self, action: &Action, running: &mut Running) -> Result<(), NotGranted> {
        let Parameters { cpu_read, cpu_write, cpu_ins_del, cpu_present, readings, .. } = self.parameters;
        let mut log_bytes = 0.0;
        let instructions = match action.kind {
            Kind::Read => cpu_read,
            Kind::Rewrite => cpu_write,
            Kind::InsertOrDelete => cpu_ins_del,
        };
        let changes_entry = match action.kind {
            Kind::Read => false,
            Kind::Rewrite => readings.rewrite_changes_index,
            Kind::InsertOrDelete => true,
        };
        // An insert or delete changes all indexes; the rest is about one.
        let others = (0..self.parameters.numindex)
            .filter(|index| *index != action.index && action.kind == Kind::InsertOrDelete);
        for index in std::iter::once(action.index).chain(others) {
            log_bytes += self.index(action, index, changes_entry, running).await?;
        }
        log_bytes += self.record(action, running).await?;
        self.compute(instructions + cpu_present).await;
        let compression = self.parameters.compression();
        if compression > 0.0 {
            self.compute(log_bytes * self.parameters.past.cpu_compress).await;
        }
        let log_bytes = log_bytes * (1.0 - compression);
        let written = match self.parameters.manager {
            Manager::Dbms => readings.dbms_log,
            Manager::Os(_) => readings.os_log,
        };
        match written {
            LogWrite::AtAction if log_bytes > 0.0 => self.write_log(log_bytes).await,
            _ => running.unlogged += log_bytes,
        }
        Ok(())
    }

    /// Goes down an index to a record's entry, which may change. Returns what that adds to the log, in bytes.
    async fn index(
        &self,
        action: &Action,
        index: usize,
        changes: bool,
        running: &mut Running,
    ) -> Result<f64, NotGranted> {
        let Parameters { manager, readings, past, .. } = self.parameters;
        let (leaf, place) = action.entry(index);
        let inner = leaf / ENTRIES;
        let changed = if changes { action.pages_changed(index, past.split) } else { 0 };
        let path = [
            (Page::Root(index), place_of(inner, INNER_PAGES)),
            (Page::Inner(index, inner), place_of(leaf % ENTRIES, ENTRIES)),
            (Page::Leaf(index, leaf), place),
        ];
        let mut log_bytes = 0.0;
        for (depth, (page, place)) in path.into_iter().enumerate() {
            let is_short = manager.has_short_index_locks();
            let changes = depth + changed >= path.len();
            let is_leaf = depth + 1 == path.len();
            let is_searched =
                !changes || (manager != Manager::Dbms && (!is_leaf || readings.searches_changed_leaf));
            if is_searched {
                let cpu = if changes { 0.0 } else { readings.cpu_index_page };
                self.visit(page, &self.searched(place), Mode::Shared, is_short, cpu, running).await?;
            }
            if changes {
                let moved = self.moved(place);
                self.visit(page, &moved, Mode::Exclusive, is_short, readings.cpu_index_page, running).await?;
                if manager.logs_indexes() {
                    log_bytes += moved.len() as f64 * self.images_bytes();
                }
            }
        }
        Ok(log_bytes)
    }

    /// Comes to a record. Returns what that adds to the log, in bytes.
    async fn record(&self, action: &Action, running: &mut Running) -> Result<f64, NotGranted> {
        let granule = match (self.parameters.manager, self.parameters.past.dbms_locks) {
            (Manager::Dbms, DataLocks::Pages) => 0,
            (Manager::Dbms, DataLocks::Records) => part(action.place(), RECORDS_A_PAGE) as u32,
            (Manager::Os(_), _) => part(action.place(), self.granules().into()) as u32,
        };
        let page = Page::Data(action.page());
        if self.parameters.manager != Manager::Dbms && self.parameters.readings.reads_directory {
            self.visit(page, &[0], Mode::Shared, false, 0.0, running).await?;
        }
        let mode = if action.kind == Kind::Read { Mode::Shared } else { Mode::Exclusive };
        self.visit(page, &[granule], mode, false, 0.0, running).await?;
        let images = match action.kind {
            Kind::Read => return Ok(0.0),
            Kind::Rewrite => 2.0,
            Kind::InsertOrDelete => 1.0,
        };
        Ok(match self.parameters.manager {
            Manager::Dbms => HEADER_BYTES + images * RECORD_BYTES,
            Manager::Os(_) => self.images_bytes(),
        })
    }

    /// The images of a granule in the operating system's log, from before and after, in bytes.
    fn images_bytes(&self) -> f64 {
        f64::from(2 * self.parameters.sub_page_size + self.parameters.readings.os_header_bytes)
    }

    /// How many granules a page has.
    fn granules(&self) -> u32 {
        (self.parameters.page_size / self.parameters.sub_page_size).max(1)
    }

    /// The granules of a page of an index that an entry at a place moves when it comes or goes.
    fn moved(&self, place: u32) -> Vec<u32> {
        let granules = self.granules();
        match (self.parameters.manager, self.parameters.readings.moved) {
            (Manager::Dbms, _) => vec![0],
            (Manager::Os(_), Moved::Half) => (granules - granules.div_ceil(2)..granules).collect(),
            (Manager::Os(_), Moved::Behind) => (part(place, granules.into()) as u32..granules).collect(),
        }
    }

    /// The granules of a page of an index that a search for a place comes to.
    fn searched(&self, place: u32) -> Vec<u32> {
        if self.parameters.manager == Manager::Dbms {
            return vec![0];
        }
        let granules = self.granules();
        if self.parameters.readings.search == Search::Direct {
            return vec![part(place, granules.into()) as u32];
        }
        let (mut low, mut high, mut searched) = (0, ENTRIES, Vec::new());
        let entry = part(place, ENTRIES);
        while low < high {
            let middle = (low + high) / 2;
            let granule = (middle * u64::from(granules) / ENTRIES) as u32;
            if !searched.contains(&granule) {
                searched.push(granule);
            }
            if middle < entry { low = middle + 1 } else { high = middle }
        }
        searched
    }

    /// Locks granules of a page, has the page there, and works on it for so many instructions. Short locks are given back
    /// after that.
    async fn visit(
        &self,
        page: Page,
        granules: &[u32],
        mode: Mode,
        is_short: bool,
        instructions: f64,
        running: &mut Running,
    ) -> Result<(), NotGranted> {
        self.count(|counts| counts.locks += granules.len() as f64);
        self.compute(granules.len() as f64 * self.parameters.cpu_lock).await;
        let lock_of = |granule: u32| page.number() << 12 | u64::from(granule);
        let mut granted = Vec::new();
        for granule in granules {
            let lock = lock_of(*granule);
            self.locks.acquire(running.owner, lock, mode, running.until).await.inspect_err(|_| {
                granted.iter().for_each(|lock| self.locks.release(running.owner, *lock));
            })?;
            if is_short { granted.push(lock) } else { running.held.push(lock) }
        }
        self.fetch(page, mode == Mode::Exclusive).await;
        self.compute(instructions).await;
        granted.iter().for_each(|lock| self.locks.release(running.owner, *lock));
        Ok(())
    }

    /// Fetches a page into the buffer.
    async fn fetch(&self, page: Page, changes: bool) {
        let miss = self.buffer.borrow_mut().fetch(page.number(), changes);
        let Some(Miss { write }) = miss else { return };
        if let Some(victim) = write {
            self.transfer(victim).await;
        }
        self.transfer(page.number()).await;
    }

    /// Reads or writes a page.
    async fn transfer(&self, page: u64) {
        self.count(|counts| counts.ios += 1.0);
        self.compute(self.parameters.cpu_io).await;
        let time = Duration::from_secs_f64(self.parameters.disk_io / 1000.0);
        match (&self.log_disk, page >= Page::Log(0).number()) {
            (Some(log_disk), true) => log_disk.serve(time).await,
            _ => self.disks[(page % self.disks.len() as u64) as usize].serve(time).await,
        }
    }

    /// Writes so many bytes of the log, in whole pages.
    async fn write_log(&self, bytes: f64) {
        self.count(|counts| counts.log_bytes += bytes);
        let pages = (bytes / f64::from(self.parameters.page_size)).ceil() as u64;
        for _ in 0..pages {
            let page = self.log_pages.get();
            self.log_pages.set(page + 1);
            self.transfer(Page::Log(page).number()).await;
        }
    }

    async fn compute(&self, instructions: f64) {
        if instructions > 0.0 {
            self.cpu.serve(Duration::from_secs_f64(instructions / (self.parameters.cpu_mips * 1e6))).await;
        }
    }

    /// Writes all changed pages every now and then, while transactions go on.
    async fn checkpoints(self: Rc<Self>) {
        loop {
            self.simulation.pass(CHECKPOINT).await;
            let changed = self.buffer.borrow_mut().clean();
            for page in changed {
                let system = self.clone();
                self.simulation.start(async move { system.transfer(page).await });
            }
        }
    }
}

/// Where an entry is among so many, in parts of 2^32.
fn place_of(entry: u64, entries: u64) -> u32 {
    (((entry << 32) + (1 << 31)) / entries) as u32
}

/// In which of so many equal parts a place is.
fn part(place: u32, parts: u64) -> u64 {
    (u64::from(place) * parts) >> 32
}
