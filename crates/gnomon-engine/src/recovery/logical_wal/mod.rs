//! The log of commits: a record for each commit, of what it writes, beside a store that recovers by shadow paging.
//! (N. Malviya, "Recovery algorithms for in-memory OLTP databases", MIT 2012, chapters 3 and 6: value logging, with
//! commit batches for checkpoints.)
//!
//! Promises: a commit is durable when its record is, and with it every commit before it. Opening finds the last durable
//! root with the commits after it replayed, in their order, each once. Transactions do not wait for checkpoints, unless
//! the disk is full or they are larger than memory.
//!
//! How:
//!
//! - *A commit* takes its CSN and its place in the log in one step ([`Pending::append`]), so records stand in the
//!   order of CSNs, without a gap. It is acknowledged when a leader has forced the log that far
//!   ([`GroupCommit`]); pages wait for the next checkpoint.
//! - *A record* ([`record`]) has the write set: values, and operations as operations. What is larger than memory is not
//!   logged: the record of such a commit is empty, and is held with all after it until a root has the commit. So no
//!   record of a larger CSN is durable, or acknowledged, before the root is.
//! - *A checkpoint* notes the end of the log, writes a commit batch, whose root has every commit that had its CSN when
//!   the end was noted, and gives up the log before that ([`control`] says so first).
//! - *A call* of a procedure can be its name and parameters instead ([`procedure`](crate::procedure)); replay runs it
//!   once more.
//! - *Replay* ([`replay`]) skips records of commits that the root has, and refuses a log that lacks one after it.
//!
//! Room for a record is made before the commit takes its CSN: a full disk is an error of that transaction only. A
//! failure to write the log stops the database ([`ShadowStore::poison`]), as one to write a batch does.
//!
//! Not here: more than one disk. A root may be ahead of the log, so a log alone tells nothing.

mod control;
mod cost;
mod fit;
mod gather;
mod open;
mod record;
mod replay;
mod room;
mod schedule;
#[cfg(all(test, not(shuttle)))]
mod tests;

pub(super) use open::Wal;
pub(super) use record::Logged;
pub(crate) use record::{decode_writes, encode_writes};
pub(crate) use replay::BYTES_OF_RUN;

use super::{Access, Recovering};
use crate::{
    Csn, Error, Result,
    bytes::put_varint,
    disk::Disk,
    failpoint::{Failpoint, Failpoints},
    id::Lsn,
    mvcc::Keyspace,
    store::{
        Durability, GroupCommit,
        shadow::{LogMark, PageTxn, ShadowStore},
    },
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        thread,
    },
    wal::{self, Log, LogCounts, LogOptions},
};
use control::{Control, ControlFile};
use fit::{Decision, LogSays, PagesSay};
use room::{Promise, Room};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// The file that says where the log begins. Its segments have the same name with a number behind.
const FILE: &str = "commits";
/// Bytes of a record beside its content, at most: its CSN and its length, and if it is alone in a block, the header
/// and the padding of that, and the header of a segment.
const BESIDE_BYTES: u64 = 16 + 3 * 512;
/// Bytes of the log that may be in memory alone, about, before commits wait for the disk.
const UNFORCED_BYTES_MAX: u64 = 32 << 20;
/// The longest record, in bytes.
const RECORD_BYTES_MAX: usize = 2 << 30;

/// A log that was found on a disk or made there, before it is read.
pub(super) struct Unread {
    disk: Arc<dyn Disk>,
    control: ControlFile,
    /// The log, if it is new.
    new: Option<Log>,
    /// The run that is to begin.
    epoch: u32,
    /// The log reaches at least so far.
    reaches: Lsn,
}

fn log_options(control: &Control, epoch: u32, reaches: Lsn) -> LogOptions {
    LogOptions {
        name: FILE.into(),
        database: control.database,
        segment_bytes: control.segment_bytes,
        epoch,
        reaches,
        failpoints: Failpoints::default(),
    }
}

fn damaged(detail: impl Into<String>) -> Error {
    Error::Corrupt { file: FILE.into(), page: 0, detail: detail.into() }
}

/// True if a disk has something of such a log.
pub(super) fn is_on(disk: &dyn Disk) -> Result<bool> {
    match disk.open(FILE, false) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        opened => Ok(!opened?.is_empty()?),
    }
}

impl Unread {
    /// Makes a log for a database that has no commits yet, or has them all in its root. What is left of another one is
    /// removed.
    pub fn create(
        disk: &Arc<dyn Disk>,
        store: &ShadowStore,
        segment_bytes: u64,
        epoch: u32,
    ) -> Result<Unread> {
        let control = Control {
            number: 0,
            epoch,
            database: store.stats().identity,
            segment_bytes,
            tail: Lsn(0),
            base: store.last_csn(),
            reaches: 0,
        };
        let log = Log::create(disk, log_options(&control, epoch, Lsn(0)))?;
        // Last: as long as it is not there, neither is the log.
        let control = ControlFile::create(&**disk, FILE, control)?;
        Ok(Unread { disk: disk.clone(), control, new: Some(log), epoch, reaches: Lsn(0) })
    }

    /// Finds the log of a database, and decides whether it goes with the pages. None if the log is neither there nor
    /// needed, and none is to be made, since the database `looks` only.
    ///
    /// # Errors
    /// Those of [`fit::decide`].
    pub fn find(
        disk: &Arc<dyn Disk>,
        store: &ShadowStore,
        segment_bytes: u64,
        looks: bool,
    ) -> Result<Option<Unread>> {
        let control = match ControlFile::open(&**disk, FILE) {
            Err(Error::TooOld { .. }) if store.was_closed() => None,
            opened => opened?,
        };
        let blocks_of = || wal::newest_run(disk, FILE, store.stats().identity);
        let says = match &control {
            None => LogSays::Nothing { blocks_of: blocks_of()? },
            Some(None) => LogSays::Damaged { blocks_of: blocks_of()? },
            Some(Some(file)) => LogSays::Begins(file.control()),
        };
        let pages = PagesSay {
            database: store.stats().identity,
            csn: store.last_csn(),
            is_closed: store.was_closed(),
            log: store.log_mark(),
        };
        match (fit::decide(pages, says)?, control.flatten()) {
            (Decision::Read { reaches }, Some(control)) => {
                let next = control.control().epoch.checked_add(1);
                let epoch = next.ok_or_else(|| damaged("it was opened too often"))?;
                let reaches = Lsn(reaches);
                Ok(Some(Unread { disk: disk.clone(), control, new: None, epoch, reaches }))
            }
            (Decision::MakeAnew { epoch }, _) if !looks => {
                Unread::create(disk, store, segment_bytes, epoch).map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// Bytes of the log between two calls of `progress`.
const PROGRESS_BYTES: u64 = 1 << 20;

/// The log of an open database.
pub(super) struct CommitLog {
    store: Arc<ShadowStore>,
    log: Log,
    /// The number of the run.
    epoch: u32,
    control: Mutex<ControlFile>,
    durability: Durability,
    order: Mutex<Order>,
    room: Room,
    /// Bytes that the log may have, about.
    log_bytes_max: u64,
    /// True if it is so long, or so many changed pages wait, that a checkpoint should be taken or some of them should be
    /// flushed.
    wants_checkpoint: AtomicBool,
    failpoints: Failpoints,
}

/// The order of records: the last one in the log, and those that are held back.
struct Order {
    /// The commit of the last record.
    appended: Csn,
    /// The first commit that only a root will have, and those after it: no record of them is appended before a root has
    /// the first, since whatever is forced takes all records with it.
    held: VecDeque<Held>,
}

struct Held {
    csn: Csn,
    bytes: Vec<u8>,
    room: Promise,
    is_in_root: bool,
}

/// A record that is to be appended, and the room for it.
pub(super) struct Pending {
    log: Arc<CommitLog>,
    bytes: Vec<u8>,
    /// Until it is appended, or held.
    room: Option<Promise>,
    is_in_root: bool,
}

impl Pending {
    /// Returns the bytes of the record without its CSN.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Takes the CSN of a page transaction and its place in the log in one step.
    pub fn append(mut self, pages: &mut PageTxn<'_>) -> Csn {
        let log = self.log.clone();
        if log.failpoints.is_on(Failpoint::RecordOutOfOrder) {
            let csn = pages.take_csn();
            thread::yield_now();
            let mut order = log.order.lock();
            log.append(csn, &self.bytes);
            order.appended = order.appended.max(csn);
            return csn;
        }
        let mut order = log.order.lock();
        let csn = pages.take_csn();
        let is_in_root = self.is_in_root && !log.failpoints.is_on(Failpoint::SuperblockNotAwaited);
        let room = self.room.take().expect("it is appended once");
        if is_in_root || !order.held.is_empty() {
            let bytes = std::mem::take(&mut self.bytes);
            order.held.push_back(Held { csn, bytes, room, is_in_root });
        } else {
            log.append(csn, &self.bytes);
            order.appended = csn;
            drop(order);
            log.room.spend(room);
        }
        csn
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(room) = self.room.take() {
            self.log.room.give_back(room);
        }
    }
}

impl CommitLog {
    /// Reads the log, and replays it in a database that is not open yet.
    pub fn open(
        store: &Arc<ShadowStore>,
        keyspace: &Keyspace,
        unread: Unread,
        with: &open::How,
        recovering: Recovering<'_>,
    ) -> Result<Arc<CommitLog>> {
        let Recovering { access, calls, progress } = recovering;
        let Unread { disk, mut control, new, epoch, reaches } = unread;
        let how = log_options(&control.control(), epoch, reaches);
        let is_new = new.is_some();
        let failpoints = store.failpoints.clone();
        let root = match failpoints.is_on(Failpoint::ReplayedTwice) {
            true => Csn(store.last_csn().0.saturating_sub(1)),
            false => store.last_csn(),
        };
        let log = match new {
            Some(log) => log,
            None => {
                let tail = control.control().tail;
                let mut told = tail.0;
                replay::replay(keyspace, store, root, with.replay, calls, |visit| {
                    Log::open(&disk, how, tail, &mut |record| {
                        if record.lsn.0 >= told {
                            progress(record.lsn.0 - tail.0, record.upto.0 - tail.0);
                            told = record.lsn.0 + PROGRESS_BYTES;
                        }
                        visit(record)
                    })
                })?
            }
        };
        let csn = store.last_csn();
        if access == Access::Write && !is_new {
            begin_run(&log, &mut control, epoch, csn)?;
        }
        let log = Arc::new(CommitLog {
            log,
            epoch,
            control: Mutex::new(control),
            durability: Durability::new(csn, failpoints.clone()),
            order: Mutex::new(Order { appended: csn, held: VecDeque::new() }),
            room: Room::default(),
            log_bytes_max: with.log_bytes_max,
            wants_checkpoint: AtomicBool::new(false),
            store: store.clone(),
            failpoints,
        });
        log.durability.set_interval(with.group_commit_interval);
        log.look_for_checkpoint();
        let told = Arc::downgrade(&log);
        store.tell_when_poisoned(move || {
            if let Some(log) = told.upgrade() {
                log.durability.fail();
            }
        });
        let marks = Arc::downgrade(&log);
        store.batcher.mark_superblocks(move || match marks.upgrade() {
            Some(log) => log.mark().map(Some),
            None => Ok(None),
        });
        // From now on commits are in the log alone for a while: the root says no more that it has everything.
        if access == Access::Write {
            store.batcher.before_writing()?;
        }
        store.let_pages_wait();
        Ok(log)
    }

    /// Makes the log durable as far as it has commits of the pages as they are, and returns how far that is.
    fn mark(&self) -> Result<LogMark> {
        let end = {
            // Behind records of commits that are about to be appended.
            let _order = self.order.lock();
            self.log.end()
        };
        self.log.force(end)?;
        Ok(LogMark { epoch: self.epoch, reaches: self.log.forced().0 })
    }

    /// Makes a record, and room for it. Called outside of the gate.
    ///
    /// # Errors
    /// [`Error::DiskFull`]; [`Error::TransactionTooLarge`] for a record.
    pub fn prepare(self: &Arc<CommitLog>, change: &Logged<'_>) -> Result<Pending> {
        let is_in_root = matches!(change, Logged::InRoot);
        let bytes = record::encode(change);
        if bytes.len() > RECORD_BYTES_MAX {
            return Err(Error::TransactionTooLarge);
        }
        let room = self.make_room(bytes.len() as u64 + BESIDE_BYTES)?;
        Ok(Pending { log: self.clone(), bytes, room: Some(room), is_in_root })
    }

    fn make_room(&self, bytes: u64) -> Result<Promise> {
        if let Some(room) = self.room.promise_at_once(bytes) {
            return Ok(room);
        }
        if self.log.unforced_bytes() > UNFORCED_BYTES_MAX {
            self.log.force(self.log.end()).map_err(|error| self.store.poison(&error))?;
        }
        match self.room.promise(&self.log, bytes) {
            Err(Error::DiskFull) => {
                self.checkpoint()?;
                self.room.promise(&self.log, bytes)
            }
            promised => promised,
        }
    }

    /// Adds a record. The caller holds `order`.
    fn append(&self, csn: Csn, bytes: &[u8]) {
        let mut head = SmallVec::<[u8; 10]>::new();
        put_varint(&mut head, csn.0);
        self.log.append(&[&head, bytes]);
    }

    /// Adds the records that were held, up to the next commit that no root has.
    fn append_held(&self, order: &mut Order) {
        let in_root = self.store.durable_csn();
        let goes = |held: &Held| !held.is_in_root || held.csn <= in_root;
        while order.held.front().is_some_and(goes)
            && let Some(held) = order.held.pop_front()
        {
            self.append(held.csn, &held.bytes);
            order.appended = held.csn;
            self.room.spend(held.room);
        }
    }

    /// True if [`CommitLog::take_due_checkpoint`] should be called.
    pub fn wants_checkpoint(&self) -> bool {
        self.wants_checkpoint.load(Ordering::Acquire)
    }

    fn look_for_checkpoint(&self) {
        let wants = self.is_checkpoint_due() || self.store.batcher.wants_flush();
        self.wants_checkpoint.store(wants, Ordering::Release);
    }

    fn is_checkpoint_due(&self) -> bool {
        // The log grows while one is under way.
        self.log.live_bytes() > self.log_bytes_max / 2 || self.store.batcher.has_many_dirty_pages()
    }

    /// Flushes dirty pages if many wait, and takes a checkpoint if the log or the batch has become long.
    pub fn take_due_checkpoint(&self) -> Result<()> {
        self.store.batcher.flush_some()?;
        if self.is_checkpoint_due() {
            return self.checkpoint();
        }
        self.look_for_checkpoint();
        Ok(())
    }

    /// Returns counts of what was written to it since it was opened.
    pub fn counts(&self) -> LogCounts {
        self.log.counts()
    }

    /// Returns how many bytes of it opening the database would read.
    pub fn live_bytes(&self) -> u64 {
        self.log.live_bytes()
    }

    /// Takes a checkpoint: writes a root that has every commit so far, and gives up their records.
    pub fn checkpoint(&self) -> Result<()> {
        let (csn, tail) = {
            let order = self.order.lock();
            (order.appended, self.log.end())
        };
        if self.failpoints.is_on(Failpoint::GivenUpFirst) {
            self.give_up(tail, csn)?;
        }
        self.store.flush()?;
        assert!(self.store.durable_csn() >= csn, "a batch has every commit that had its CSN before");
        let tail = match self.failpoints.is_on(Failpoint::CheckpointBehindBatch) {
            true => self.log.end(),
            false => tail,
        };
        self.give_up(tail, csn)
    }

    /// Gives up the log before a position. A root has what is there, the commits up to `base`.
    fn give_up(&self, tail: Lsn, base: Csn) -> Result<()> {
        let given_up = self.log.force(tail).and_then(|()| {
            let mut control = self.control.lock();
            let now = control.control();
            if now.tail < tail {
                let base = now.base.max(base);
                control.write(Control { tail, base, reaches: self.log.forced().0, ..now })?;
            }
            drop(control);
            self.log.recycle(tail)
        });
        self.look_for_checkpoint();
        given_up.map_err(|error| self.store.poison(&error))
    }

    /// Makes everything durable, with a root that has it; nothing may be committed any more.
    pub fn close(&self) -> Result<()> {
        if self.store.is_read_only() {
            return Ok(());
        }
        // First: it waits for commits that are in the gate, and have not appended their records yet.
        self.store.flush()?;
        // Wakes the threads that wait for commits.
        self.flush()?;
        self.store.close()?;
        self.give_up(self.log.end(), self.store.durable_csn())
    }
}

/// Begins a new run of a log that was read: a record that no root lacks makes it longer than every earlier copy of it,
/// and the file of its beginning says so. On a full disk the run begins without.
fn begin_run(log: &Log, control: &mut ControlFile, epoch: u32, csn: Csn) -> Result<()> {
    let begun = Control { epoch, ..control.control() };
    control.write(begun)?;
    match log.ensure(BESIDE_BYTES) {
        Err(Error::DiskFull) => return Ok(()),
        made => made?,
    }
    let mut record = SmallVec::<[u8; 10]>::new();
    put_varint(&mut record, csn.0);
    log.append(&[&record]);
    log.force(log.end())?;
    control.write(Control { reaches: log.forced().0, ..begun })
}

impl GroupCommit for CommitLog {
    fn durability(&self) -> &Durability {
        &self.durability
    }

    fn last_csn(&self) -> Csn {
        self.store.last_csn()
    }

    fn check(&self) -> Result<()> {
        self.store.check()
    }

    fn poison(&self, cause: &Error) -> Error {
        self.store.poison(cause)
    }

    fn write_batch(&self) -> Result<Csn> {
        self.store.check()?;
        if !self.order.lock().held.is_empty() {
            self.store.flush()?;
        }
        let (csn, end) = {
            let mut order = self.order.lock();
            self.append_held(&mut order);
            (order.appended, self.log.end())
        };
        if self.failpoints.is_on(Failpoint::RecordNotForced) {
            return Ok(csn);
        }
        self.log.force(end).map_err(|error| self.store.poison(&error))?;
        self.look_for_checkpoint();
        Ok(csn)
    }
}
