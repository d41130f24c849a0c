//! Opening a logged store: making one, and the redo pass of a crash recovery.
//!
//! The files of the log of pages are read side by side, twice. First each file tells which parts of which units it has,
//! and what they hold; put together that says which units are whole, and so which image of each page is the newest.
//! Then each file writes those that it has to their places. A unit that is not whole, and all that came after it in
//! the same run, never was: it ends the log, or in later runs the part of it that an earlier one wrote.
//!
//! Nothing is given up by it: after a crash before the log has gone on, the next opening reads the same again.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
};

use super::{
    Contents, FILE, LOG_FILES_MAX, Limits, LogShape, LoggedStore, PAGES_AT, PageLocks, Strategy,
    log::{Counters, PageLog, State, TxnState, UnitStart},
    logs::Logs,
    places::Places,
    record::Record,
    root::{Reaches, Root},
    space::{CHUNK_UNITS, MAP_SIZE, SpaceMap},
    sphere::Spheres,
    unit::malformed,
};
use crate::{
    Csn, Error, Result, TxnId,
    disk::{Disk, File, LIST_FILES},
    env::Clock,
    failpoint::Failpoints,
    id::{Lsn, SubtxnId},
    lock::{TableId, WaitCounter},
    page::{Identity, Page, PageSize, pool::Pool},
    store::commits::Commits,
    sync::{Arc, Mutex, RwLock, atomic::AtomicU64, thread},
    wal::{self, Log, LogOptions},
};

/// How a store is opened.
#[derive(Clone)]
pub struct Opening {
    /// Make the store if there is none, with this identity.
    pub create: Option<u64>,
    /// True if its users only read it. The disk must be one that may be written all the same.
    pub read_only: bool,
    /// The size of the smallest page of a new store, up to 4 KiB.
    pub unit: PageSize,
    /// The kind of data that level 1 keeps in it: a store of something else is refused.
    pub contents: Contents,
    /// The strategy of a new store.
    pub strategy: Strategy,
    /// The logs of a new store.
    pub logs: LogShape,
    /// The size of the pool in bytes.
    pub pool_bytes: usize,
    /// Limits for its dirty pages, log and spheres.
    pub limits: Limits,
    /// The table of page locks in the lock manager of the level that uses the store; its modes are those of keys.
    pub page_locks: TableId,
    /// Measures how long locks are waited for.
    pub clock: Arc<dyn Clock>,
}

/// A transaction that was running at a crash, and has left something behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loser {
    /// Its number.
    pub txn: TxnId,
    /// The subtransactions to be compensated, the one that ended last first.
    pub undo: Vec<(SubtxnId, Lsn)>,
}

/// The contents of the files of the log of pages.
#[derive(Default)]
struct Scan {
    parts: Vec<Part>,
    operations: Operations,
}

/// A part of a unit, and where it is.
struct Part {
    lsn: Lsn,
    epoch: u32,
    unit: u64,
    files: u64,
    subtxns: Vec<(TxnId, SubtxnId)>,
    committed: Vec<(TxnId, Csn)>,
    freed: Vec<(u64, PageSize)>,
    pages: Vec<(u64, PageSize)>,
}

/// The contents of the log of operations.
#[derive(Default)]
struct Operations {
    /// In the order of the log.
    undo: BTreeMap<TxnId, Vec<(SubtxnId, Lsn)>>,
    /// Each compensated subtransaction, with the one that compensates it.
    compensations: Vec<(SubtxnId, SubtxnId)>,
    ended: HashSet<TxnId>,
    committed: Csn,
    written: HashSet<SubtxnId>,
    id_max: u64,
}

impl Operations {
    fn note(&mut self, lsn: Lsn, record: Record<'_>) {
        let mut ids = |txn: TxnId, subtxn: SubtxnId| self.id_max = self.id_max.max(txn.0).max(subtxn.0);
        match record {
            Record::Undo { txn, subtxn, .. } => {
                ids(txn, subtxn);
                self.undo.entry(txn).or_default().push((subtxn, lsn));
            }
            Record::Compensation { txn, subtxn, undoes } => {
                ids(txn, subtxn);
                self.compensations.push((undoes, subtxn));
            }
            Record::End { txn, committed } => {
                self.id_max = self.id_max.max(txn.0);
                self.ended.insert(txn);
                self.committed = self.committed.max(committed.unwrap_or_default());
            }
            Record::Written { subtxns, .. } => self.written.extend(subtxns),
            Record::Unit(_) => {}
        }
    }
}

/// Where the newest image of a page is.
#[derive(Clone, Copy)]
struct Newest {
    file: usize,
    lsn: Lsn,
}

/// The state that the whole units of the log lead to.
#[derive(Default)]
struct Redo {
    newest: HashMap<u64, Newest>,
    subtxns: BTreeMap<TxnId, Vec<(u64, SubtxnId)>>,
    written: HashSet<SubtxnId>,
    committed: HashMap<TxnId, Csn>,
    csn: Csn,
    next_unit: u64,
}

fn log_options(root: &Root, name: String, reaches: Lsn) -> LogOptions {
    LogOptions {
        name,
        database: root.database,
        segment_bytes: root.logs.segment_bytes,
        epoch: root.epoch,
        reaches,
        failpoints: Failpoints::default(),
    }
}

fn redo_name(file: usize) -> String {
    format!("redo-{file}")
}

const OPS_NAME: &str = "ops";

impl LoggedStore {
    /// Returns true if a disk has such a store, whole or damaged.
    pub fn is_on(disk: &dyn Disk) -> Result<bool> {
        Ok(open_file(disk)?.is_some())
    }

    /// Opens the store on a disk, to the end of the redo pass. The losers are to be undone before anything else is
    /// done.
    pub fn open_on(disk: &Arc<dyn Disk>, how: Opening) -> Result<(LoggedStore, Vec<Loser>)> {
        let Some(file) = open_file(&**disk)? else {
            let database = how.create.ok_or_else(no_database)?;
            return LoggedStore::create(disk, database, &how).map(|store| (store, Vec::new()));
        };
        let root = Root::read(&*file)?.ok_or_else(|| Error::Corrupt {
            file: FILE.into(),
            page: 0,
            detail: "neither copy of the root can be read".into(),
        })?;
        if root.contents != how.contents {
            let detail = match root.contents {
                Contents::Trees => "it is a database of trees, for SQL and `Database`",
                Contents::Objects => "it is a database of complex objects, for `ObjectDatabase`",
            };
            return Err(Error::NotADatabase { path: String::new(), detail: detail.into() });
        }
        LoggedStore::recover(disk, file, root, &how)
    }

    fn create(disk: &Arc<dyn Disk>, database: u64, how: &Opening) -> Result<LoggedStore> {
        if how.logs.redo_files == 0 || how.logs.redo_files > LOG_FILES_MAX {
            let files = how.logs.redo_files;
            let detail = format!("a log of {files} files: give it from 1 to {LOG_FILES_MAX}");
            return Err(Error::BadOption(detail));
        }
        if how.logs.segment_bytes == 0 || !how.logs.segment_bytes.is_multiple_of(4096) {
            let bytes = how.logs.segment_bytes;
            return Err(Error::BadOption(format!("segments of {bytes} bytes: give a multiple of 4096")));
        }
        let names = disk.list()?;
        let is_log = |name: &str| [OPS_NAME, "redo-"].iter().any(|log| name.starts_with(log));
        let is_own = |name: &str| name == UNFINISHED_FILE || LIST_FILES.contains(&name) || is_log(name);
        let refuse = |detail| Err(Error::NotADatabase { path: String::new(), detail });
        if let Some(other) = names.iter().find(|name| !is_own(name)) {
            return refuse(format!(
                "it has other files, such as '{other}'; name an empty directory or a new one"
            ));
        }
        let is_unfinished = names.iter().any(|name| name == UNFINISHED_FILE);
        if let (false, Some(log)) = (is_unfinished, names.iter().find(|name| is_log(name))) {
            return refuse(format!(
                "it has a log, '{log}', without its '{FILE}'; put that back, or name an empty directory or a new one"
            ));
        }
        let root = Root {
            number: 1,
            epoch: 1,
            database,
            unit: how.unit,
            strategy: how.strategy,
            logs: how.logs,
            contents: how.contents,
            first_unit: 1,
            next_id: 1,
            csn: Csn(0),
            ops_tail: Lsn(0),
            tails: vec![Lsn(0); how.logs.redo_files],
            reaches: Reaches { ops: Lsn(0), redo: vec![Lsn(0); how.logs.redo_files] },
            end: 0,
        };
        // First of all: logs beside it are none of a database that was there.
        let file = disk.open(UNFINISHED_FILE, true)?;
        let log = |name| Log::create(disk, log_options(&root, name, Lsn(0)));
        let redo = (0..how.logs.redo_files).map(|file| log(redo_name(file))).collect::<Result<_>>()?;
        let ops = if how.logs.shared { None } else { Some(log(OPS_NAME.into())?) };
        file.truncate(0)?;
        file.allocate(PAGES_AT)?;
        root.write(&*file)?;
        // Under its name there is never half of one.
        disk.rename(UNFINISHED_FILE, FILE)?;
        let file = disk.open(FILE, false)?;
        let space = SpaceMap::new(how.unit);
        Ok(LoggedStore::assemble(file, redo, ops, root, how, space, Redo { next_unit: 1, ..Redo::default() }))
    }

    fn assemble(
        file: Arc<dyn File>,
        redo: Vec<Log>,
        ops: Option<Log>,
        root: Root,
        how: &Opening,
        space: SpaceMap,
        done: Redo,
    ) -> LoggedStore {
        let first = UnitStart { unit: root.first_unit, at: root.tails.clone(), csn: root.csn };
        let csn = done.csn.max(root.csn);
        let failpoints = Failpoints::default();
        let log = PageLog {
            commits: Commits::new(csn, how.read_only, failpoints.clone()),
            places: Places::new(file, root.database, root.unit),
            logs: Logs { redo, ops },
            strategy: root.strategy,
            pool: Pool::new(how.pool_bytes),
            state: Mutex::new(State {
                spheres: Spheres::new(failpoints.clone()),
                active: HashMap::new(),
                logged: HashMap::new(),
                by_age: BTreeSet::new(),
                logged_bytes: 0,
                placed: HashMap::new(),
                superseded: VecDeque::new(),
                units: VecDeque::from([first]),
                next_unit: done.next_unit,
                forced_unit: done.next_unit,
                logged_csn: csn,
                committed: Vec::new(),
                txns: HashMap::new(),
                space,
            }),
            placing: Mutex::default(),
            growing: Mutex::default(),
            shorten_beyond: AtomicU64::new(0),
            next_id: AtomicU64::new(root.next_id),
            root: Mutex::new(root),
            limits: how.limits,
            counters: Counters::default(),
            failpoints: failpoints.clone(),
        };
        let locks =
            PageLocks { table: how.page_locks, waits: WaitCounter::default(), clock: how.clock.clone() };
        LoggedStore { log, locks, closed: RwLock::new(false), failpoints }
    }

    fn recover(
        disk: &Arc<dyn Disk>,
        file: Arc<dyn File>,
        root: Root,
        how: &Opening,
    ) -> Result<(LoggedStore, Vec<Loser>)> {
        let mut root = Root { number: root.number + 1, epoch: root.epoch + 1, ..root };
        check_length(&*file, &root)?;
        let (redo, scans) = scan_files(disk, &root)?;
        let mut operations = Operations::default();
        let mut files = Vec::new();
        for scan in scans {
            files.push(scan.parts);
            if root.logs.shared && files.len() == 1 {
                operations = scan.operations;
            }
        }
        let ops = match root.logs.shared {
            true => None,
            false => {
                let options = log_options(&root, OPS_NAME.into(), root.reaches.ops);
                Some(Log::open(disk, options, root.ops_tail, &mut |found| {
                    let record = Record::decode(found.payload).ok_or_else(|| malformed(found.lsn))?;
                    operations.note(found.lsn, record);
                    Ok(())
                })?)
            }
        };
        // Before anything is appended: what an earlier run left half written is known by its epoch.
        root.write(&*file)?;
        let units = whole_units(&files, root.first_unit);
        let (mut space, maps) = read_maps(&*file, &root)?;
        let (done, maps) = put_together(root.first_unit, &units, &redo, &mut space, maps)?;
        if let Some(error) = maps.into_values().find_map(Result::err) {
            return Err(error);
        }
        space.settle();
        root.next_id = root.next_id.max(operations.id_max + 1);
        for (txn, subtxns) in &done.subtxns {
            root.next_id = root.next_id.max(txn.0 + 1);
            root.next_id = subtxns.iter().fold(root.next_id, |next, (_, subtxn)| next.max(subtxn.0 + 1));
        }
        // As far as the log knows pages, the file has to reach.
        file.allocate(PAGES_AT + space.end() * root.unit.bytes() as u64)?;
        root.next_id = done.committed.keys().fold(root.next_id, |next, txn| next.max(txn.0 + 1));
        let done = Redo { csn: done.csn.max(operations.committed), ..done };
        let newest = done.newest.clone();
        let (losers, txns) = losers(&operations, &done);
        let store = LoggedStore::assemble(file, redo, ops, root, how, space, done);
        store.log.redo(&newest)?;
        if !how.read_only {
            store.log.begin_run()?;
        }
        {
            let mut state = store.log.state.lock();
            state.txns = txns;
            store.log.forget_ended(&mut state);
        }
        Ok((store, losers))
    }
}

impl PageLog {
    /// Begins a new run: a record that says nothing makes each log longer than every earlier copy of it, and the root
    /// says so. On a full disk the run begins without.
    fn begin_run(&self) -> Result<()> {
        for log in self.logs.all() {
            match log.ensure(BEGIN_BYTES) {
                Err(Error::DiskFull) => return Ok(()),
                made => made?,
            }
            Record::Written { txn: TxnId(0), subtxns: Vec::new() }.encode(|pieces| log.append(pieces));
            log.force(log.end())?;
        }
        let mut root = self.root.lock();
        // It was synced when the newest images had been written to it.
        let end = self.places.units()?;
        let next = Root { number: root.number + 1, reaches: self.logs.reaches(), end, ..root.clone() };
        next.write(self.places.file())?;
        *root = next;
        Ok(())
    }

    /// Writes the newest images of pages to their places, each file of the log by itself.
    fn redo(&self, newest: &HashMap<u64, Newest>) -> Result<()> {
        let mut by_record: Vec<BTreeMap<Lsn, BTreeSet<u64>>> = vec![BTreeMap::new(); self.logs.redo.len()];
        for (page, at) in newest {
            by_record[at.file].entry(at.lsn).or_default().insert(*page);
        }
        let replay = |log: &Log, records: &BTreeMap<Lsn, BTreeSet<u64>>| {
            records.iter().try_for_each(|(lsn, wanted)| {
                let record = log.read(*lsn)?;
                let Some(Record::Unit(part)) = Record::decode(&record) else { return Err(malformed(*lsn)) };
                let images = part.pages.iter().filter(|image| wanted.contains(&image.page));
                let images: BTreeMap<u64, Page> = images.map(|image| (image.page, image.to_page())).collect();
                self.places.write(images.iter().map(|(page, image)| (*page, image)))
            })
        };
        on_each(self.logs.redo.iter().zip(&by_record), |(log, records)| replay(log, records))?;
        Ok(self.places.file().sync()?)
    }
}

/// The length in a log of the record that begins a run, with all that is beside it, in bytes.
const BEGIN_BYTES: u64 = 2048;

/// Refuses a file of pages that has lost its end.
fn check_length(file: &dyn File, root: &Root) -> Result<()> {
    let unit = root.unit.bytes() as u64;
    let end = file.len()?.saturating_sub(PAGES_AT) / unit;
    if end < root.end {
        let detail = format!("the file ends here, but should have {} pages: restore a backup", root.end);
        return Err(Error::Corrupt { file: FILE.into(), page: PAGES_AT / unit + end, detail });
    }
    Ok(())
}

/// The name of the file of pages until it is one.
const UNFINISHED_FILE: &str = "logged-pages.new";

/// The file of pages, if there is one.
fn open_file(disk: &dyn Disk) -> Result<Option<Arc<dyn File>>> {
    match disk.open(FILE, false) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        opened => Ok(Some(opened?)),
    }
}

fn no_database() -> Error {
    Error::NotADatabase { path: String::new(), detail: "it has no logged store".into() }
}

/// Does something with each of several things, in threads of their own but for the first.
fn on_each<T: Send, R: Send>(
    things: impl IntoIterator<Item = T>,
    f: impl Fn(T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let mut things = things.into_iter();
    let Some(first) = things.next() else { return Ok(Vec::new()) };
    thread::scope(|scope| {
        let f = &f;
        let others: Vec<_> = things.map(|thing| scope.spawn(move || f(thing))).collect();
        let first = f(first);
        let joined = others.into_iter().map(|other| other.join().expect("opening does not panic"));
        std::iter::once(first).chain(joined).collect()
    })
}

/// Opens the files of the log of pages, and tells what they have.
fn scan_files(disk: &Arc<dyn Disk>, root: &Root) -> Result<(Vec<Log>, Vec<Scan>)> {
    let opened = on_each(0..root.logs.redo_files, |file| {
        let mut scan = Scan::default();
        let mut visit = |found: wal::Record<'_>| {
            match Record::decode(found.payload).ok_or_else(|| malformed(found.lsn))? {
                Record::Unit(part) => scan.parts.push(Part {
                    lsn: found.lsn,
                    epoch: found.epoch,
                    unit: part.unit,
                    files: part.files,
                    pages: part.pages.iter().map(|image| (image.page, image.size)).collect(),
                    subtxns: part.subtxns,
                    committed: part.committed,
                    freed: part.freed,
                }),
                record => scan.operations.note(found.lsn, record),
            }
            Ok(())
        };
        let options = log_options(root, redo_name(file), root.reaches.redo[file]);
        let log = Log::open(disk, options, root.tails[file], &mut visit)?;
        Ok((log, scan))
    })?;
    Ok(opened.into_iter().unzip())
}

/// The units that are whole, from the first one that is needed on, each with its parts and the files that have them.
fn whole_units(files: &[Vec<Part>], first: u64) -> Vec<Vec<(usize, &Part)>> {
    let mut found: BTreeMap<(u32, u64), Vec<(usize, &Part)>> = BTreeMap::new();
    for (file, parts) in files.iter().enumerate() {
        for part in parts.iter().filter(|part| part.unit >= first) {
            found.entry((part.epoch, part.unit)).or_default().push((file, part));
        }
    }
    let mut whole = Vec::new();
    let (mut next, mut ended) = (first, None);
    for ((epoch, unit), parts) in found {
        if ended == Some(epoch) {
            continue;
        }
        let expected = parts[0].1.files;
        let there = parts.iter().fold(0, |files: u64, (file, _)| files | 1 << file);
        if there != expected || unit != next {
            ended = Some(epoch);
            continue;
        }
        next += 1;
        whole.push(parts);
    }
    whole
}

type Maps = BTreeMap<u64, Result<()>>;

/// Reads the maps of pages in use from their places, and tells which of them cannot be read there.
fn read_maps(file: &dyn File, root: &Root) -> Result<(SpaceMap, Maps)> {
    let mut space = SpaceMap::new(root.unit);
    space.grown(file.len()?.saturating_sub(PAGES_AT) / root.unit.bytes() as u64);
    let mut maps = Maps::new();
    for chunk in 0..space.chunk_count() {
        let page = SpaceMap::map_page(chunk);
        let mut block = vec![0; MAP_SIZE.bytes()];
        match file.read_at(PAGES_AT + page * root.unit.bytes() as u64, &mut block) {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => continue,
            read => read?,
        }
        // No map was ever written.
        if block.iter().all(|byte| *byte == 0) {
            continue;
        }
        let identity = Identity { database: root.database, level: 0, logical: page, batch: 0, early: false };
        let read = Page::unseal_expected(&block, identity).map_err(|detail| Error::Corrupt {
            file: FILE.into(),
            page,
            detail,
        });
        maps.insert(chunk, read.map(|map| space.load(chunk, &map)));
    }
    Ok((space, maps))
}

/// Puts units together, in their order. Returns the state that they lead to, and the maps that no unit has.
fn put_together(
    first: u64,
    units: &[Vec<(usize, &Part)>],
    redo: &[Log],
    space: &mut SpaceMap,
    mut maps: Maps,
) -> Result<(Redo, Maps)> {
    let mut done = Redo { next_unit: first, ..Redo::default() };
    for parts in units {
        let unit = parts[0].1.unit;
        for (file, part) in parts {
            for (page, size) in &part.pages {
                done.newest.insert(*page, Newest { file: *file, lsn: part.lsn });
                let is_map = page.is_multiple_of(CHUNK_UNITS);
                if !is_map && !space.fits(*page, *size) {
                    return Err(malformed(part.lsn));
                }
                space.grown(page + space.units_of(*size));
                if !is_map {
                    space.log_taken(*page, *size);
                    continue;
                }
                let record = redo[*file].read(part.lsn)?;
                let Some(Record::Unit(images)) = Record::decode(&record) else {
                    return Err(malformed(part.lsn));
                };
                if let Some(image) = images.pages.iter().find(|image| image.page == *page) {
                    space.load(page / CHUNK_UNITS, &image.to_page());
                    maps.remove(&(page / CHUNK_UNITS));
                }
            }
            for (txn, subtxn) in &part.subtxns {
                done.subtxns.entry(*txn).or_default().push((unit, *subtxn));
                done.written.insert(*subtxn);
            }
            for (txn, csn) in &part.committed {
                done.committed.insert(*txn, *csn);
                done.csn = done.csn.max(*csn);
            }
        }
        // A page that is given back is not made in the same unit.
        for (page, size) in parts.iter().flat_map(|(_, part)| &part.freed) {
            done.newest.remove(page);
            if !space.fits(*page, *size) {
                return Err(malformed(parts[0].1.lsn));
            }
            // That it was made so long is not known to be durable.
            space.grown(page + space.units_of(*size));
            space.log_freed(*page, *size);
        }
        done.next_unit = unit + 1;
    }
    Ok((done, maps))
}

/// Returns the losers, and the store's state of the transactions whose end is not in the log.
fn losers(operations: &Operations, done: &Redo) -> (Vec<Loser>, HashMap<TxnId, TxnState>) {
    let is_written = |subtxn: &SubtxnId| done.written.contains(subtxn) || operations.written.contains(subtxn);
    let compensated: HashSet<SubtxnId> =
        operations.compensations.iter().filter(|(_, by)| is_written(by)).map(|(undone, _)| *undone).collect();
    let (mut losers, mut txns) = (Vec::new(), HashMap::new());
    for (txn, undo) in &operations.undo {
        if operations.ended.contains(txn) {
            continue;
        }
        let committed = done.committed.get(txn);
        // The order of undo records is that in which subtransactions ended; those of one transaction may have begun in
        // another.
        let left: Vec<(SubtxnId, Lsn)> = undo
            .iter()
            .rev()
            .filter(|(subtxn, _)| committed.is_none() && is_written(subtxn) && !compensated.contains(subtxn))
            .copied()
            .collect();
        let written = done.subtxns.get(txn).cloned().unwrap_or_default();
        let state = TxnState {
            first_undo: undo.first().map(|(_, lsn)| *lsn),
            last_unit: written.iter().map(|(unit, _)| *unit).max().unwrap_or_default(),
            written,
            // Of those that need nothing, only that has to be noted, before the log that tells it is given up.
            ended: left.is_empty().then_some(committed.copied()),
            ..TxnState::default()
        };
        txns.insert(*txn, state);
        if !left.is_empty() {
            losers.push(Loser { txn: *txn, undo: left });
        }
    }
    // As one pass backward over the log would.
    losers.sort_unstable_by_key(|loser| Reverse(loser.undo[0].1));
    (losers, txns)
}
