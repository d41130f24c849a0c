//! A sequential log of records with group commit.
//!
//! Promises: when [`Log::force`] returns, all records before the position survive a crash. After a crash the log is a
//! prefix of what was appended, and its end is told from everything that is left of other runs or of an earlier use of
//! a file. A write or a sync that fails ends the log for good: what it did is not known, and asking again would not
//! tell ([`disk`](crate::disk)).
//!
//! Positions ([`Lsn`]) count the bytes of the log without the headers of its files ([`segment`]). A force writes one
//! *block* ([`block`]); it begins at a sector, may reach over several segments, and is never written to again, so a
//! torn write damages nothing that was acknowledged. While a block is written the next one gathers; where that begins
//! is known, so that an append can tell its position at once.
//!
//! A thread that forces writes all that has gathered as one block (group commit), under a mutex. Threads that force
//! meanwhile wait for that; the first of them for which the block was not enough writes the next. No leader is elected
//! here: commits have theirs above ([`GroupCommit`](crate::store::GroupCommit)), which forces for all of them. The
//! mutex is for what forces beside it: checkpoints, superblocks that say how far the log reaches, commits when too much
//! is in memory, spheres. These cannot take the lead of commits instead: a leader itself may write a superblock or a
//! sphere.
//!
//! When a log is opened, blocks count from the tail on for as long as each is whole, says that it is where it is, and
//! is not of an older epoch than the one before it. That one cannot have been written after it: it is left from
//! before the end of the log was damaged there. As a block is written when the one before it is durable, only the
//! last one may be in nothing but the system's cache, or not even be about to leave that after a failed sync. It is
//! written once more before its records are read. And a whole block behind one that is not whole, and of no older
//! epoch than the one before that, shows that the log was damaged there ([`Error::Corrupt`]).
//!
//! A segment that was entered is known to be there by the note in the one before it, and the owner tells how far the
//! log reached when it last noted that ([`LogOptions::reaches`]): a log that ends before either is damaged.
//!
//! Not done: damage of the last block, or an older copy of the last file, is not told from the end of the log behind
//! what the owner knows that it reached. Nothing here bounds the memory that records take until they are forced. There
//! is one writer of blocks at a time, which waits for its sync.

mod block;
#[cfg(all(test, shuttle))]
mod schedules;
mod segment;
#[cfg(all(test, not(shuttle)))]
mod tests;

use crate::{
    Error, Result,
    disk::{Disk, SECTOR_BYTES},
    failpoint::{Failpoint, Failpoints},
    id::Lsn,
    sync::{Arc, Mutex},
};
use block::{Block, Header};
use segment::Segments;

/// Buffers up to this size are used again.
const BUFFER_BYTES_KEPT_MAX: usize = 4 << 20;

/// The identity of a log, and its storage.
#[derive(Clone)]
pub(crate) struct LogOptions {
    /// Its files are `<name>.<slot>`.
    pub name: String,
    /// The database's identity.
    pub database: u64,
    /// The size of a file, a multiple of 4 KiB.
    pub segment_bytes: u64,
    /// The run. Grows with each opening, durably before anything is appended.
    pub epoch: u32,
    /// The log is known to reach so far: one that ends before is damaged.
    pub reaches: Lsn,
    /// Faults that tests ask for.
    pub failpoints: Failpoints,
}

/// A record that is found when a log is opened.
pub(crate) struct Record<'a> {
    /// Its position.
    pub lsn: Lsn,
    /// The log does not reach beyond this.
    pub upto: Lsn,
    /// The run that wrote it.
    pub epoch: u32,
    /// The bytes that were appended.
    pub payload: &'a [u8],
}

/// Counts of writes to a log since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogCounts {
    /// Blocks, each with its syncs.
    pub forces: u64,
    /// Bytes of blocks and headers.
    pub bytes: u64,
}

/// A log. See the [module](self).
pub(crate) struct Log {
    segments: Segments,
    database: u64,
    epoch: u32,
    state: Mutex<State>,
    /// Held while a block is written; before `state`.
    writing: Mutex<()>,
    /// The block that was read last: an undo of a transaction reads a block's records in turn.
    last_read: Mutex<Option<Arc<Block>>>,
    failpoints: Failpoints,
}

struct State {
    /// The block that gathers, with space for its header; empty if it has no records.
    gathering: Vec<u8>,
    records: u32,
    /// Where it begins.
    start: u64,
    /// For the block after it.
    unused: Vec<u8>,
    failed: Option<Error>,
    /// Up to here all blocks are durable; where the next one begins, unless one is being written or has failed.
    forced: u64,
    tail: u64,
    counts: LogCounts,
}

impl State {
    fn end(&self) -> u64 {
        self.start + self.gathering.len() as u64
    }
}

/// Fails the log if the thread that writes a block panics, so that waiting threads get an error.
struct FailOnPanic<'a>(&'a Log);

impl Drop for FailOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.state.lock().failed = Some(Error::Poisoned("a panic while the log was written".into()));
        }
    }
}

/// The newest run of which the files of a log have a block, whatever else is lost of it; none if there is none.
pub(crate) fn newest_run(disk: &Arc<dyn Disk>, name: &str, database: u64) -> Result<Option<u32>> {
    segment::newest_run(disk, name, database)
}

impl Log {
    /// Makes a log, durably, in place of what is left of one of that name.
    pub fn create(disk: &Arc<dyn Disk>, how: LogOptions) -> Result<Log> {
        Ok(Log::new(Segments::create(disk, how.clone())?, how, 0, 0))
    }

    /// Opens a log, which is durable from `tail` to its end when this returns. Visits every record from `tail` on in
    /// order, each when it is durable. The tail is a position before which all was forced once, and which is stored
    /// durably: a log that ends before it is [`Error::Corrupt`], as is one with a whole block behind its end.
    pub fn open(
        disk: &Arc<dyn Disk>,
        how: LogOptions,
        tail: Lsn,
        visit: &mut dyn FnMut(Record<'_>) -> Result<()>,
    ) -> Result<Log> {
        let failpoints = how.failpoints.clone();
        let segments = Segments::open(disk, how.clone())?;
        let upto = Lsn(segments.upto());
        let mut visit_all = |block: &Block| {
            block.records().try_for_each(|(at, payload)| match Lsn(block.header.start + at as u64) {
                lsn if lsn < tail => Ok(()),
                lsn => visit(Record { lsn, upto, epoch: block.header.epoch, payload }),
            })
        };
        let reaches = tail.max(how.reaches);
        let lost = |end| {
            let detail = format!(
                "the log ends at {end}, but reached {reaches} before: a file of it is gone, cut or an older copy"
            );
            segments.damaged_at(tail.0, detail)
        };
        let (mut end, mut newest) = segments.begin(tail.0).ok_or_else(|| lost(0))?;
        let mut last: Option<Block> = None;
        while let Some(block) = segments.read(end)? {
            let epoch = block.header.epoch;
            if epoch < newest && !failpoints.is_on(Failpoint::EpochUnchecked) {
                break;
            }
            if epoch >= how.epoch {
                let detail = format!(
                    "position {end} is of run {epoch}, and '{}' knows runs before {} only: it is damaged, or an older one",
                    how.name, how.epoch
                );
                return Err(segments.damaged_at(end, detail));
            }
            end += block.bytes.len() as u64;
            newest = epoch;
            if let Some(durable) = last.replace(block) {
                segments.found(durable.header.start);
                visit_all(&durable)?;
            }
        }
        if end < reaches.0 {
            return Err(lost(end));
        }
        // A test of blocks of older epochs must come to them.
        let looks =
            !failpoints.is_on(Failpoint::DamageUnseen) && !failpoints.is_on(Failpoint::EpochUnchecked);
        if looks && let Some(behind) = segments.block_behind(end, newest)? {
            let detail =
                format!("position {end} of the log is damaged: a whole block is behind it, at {behind}");
            return Err(segments.damaged_at(end, detail));
        }
        if looks {
            segments.check_left(end)?;
        }
        if let Some(block) = last {
            if failpoints.is_on(Failpoint::LastBlockTrusted) {
                segments.found(block.header.start);
            } else {
                segments.write(&block)?;
            }
            visit_all(&block)?;
        }
        segments.settle(tail.0, end)?;
        Ok(Log::new(segments, how, tail.0, end))
    }

    fn new(segments: Segments, how: LogOptions, tail: u64, end: u64) -> Log {
        Log {
            segments,
            database: how.database,
            epoch: how.epoch,
            state: Mutex::new(State {
                gathering: Vec::new(),
                records: 0,
                start: end,
                unused: Vec::new(),
                failed: None,
                forced: end,
                tail,
                counts: LogCounts::default(),
            }),
            writing: Mutex::new(()),
            last_read: Mutex::new(None),
            failpoints: how.failpoints,
        }
    }

    /// Adds a record, the parts one after the other, in memory. Returns its position. A record is shorter than 4 GiB.
    pub fn append(&self, parts: &[&[u8]]) -> Lsn {
        let mut state = self.state.lock();
        if state.gathering.is_empty() {
            state.gathering.resize(block::HEADER_BYTES, 0);
        }
        let lsn = Lsn(state.end());
        block::push(&mut state.gathering, parts);
        state.records += 1;
        lsn
    }

    /// Where the log ends: a later append comes here or after it.
    pub fn end(&self) -> Lsn {
        Lsn(self.state.lock().end())
    }

    /// Every record before this position is durable.
    pub fn forced(&self) -> Lsn {
        Lsn(self.state.lock().forced)
    }

    /// Makes every record before a position durable.
    pub fn force(&self, upto: Lsn) -> Result<()> {
        let upto = upto.min(self.end());
        if self.forced() >= upto {
            return Ok(());
        }
        let _writing = match self.failpoints.is_on(Failpoint::WriterNotAlone) {
            true => None,
            false => Some(self.writing.lock()),
        };
        let mut state = self.state.lock();
        if state.forced >= upto.0 {
            return Ok(());
        }
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        let mut block = self.take_gathered(&mut state);
        drop(state);
        let panicked = FailOnPanic(self);
        block.seal();
        let written = self.segments.write(&block);
        drop(panicked);
        let mut state = self.state.lock();
        let bytes = written.inspect_err(|error| state.failed = Some(error.clone()))?;
        state.forced = block.header.start + block.bytes.len() as u64;
        state.counts.forces += 1;
        state.counts.bytes += bytes;
        if block.bytes.capacity() <= BUFFER_BYTES_KEPT_MAX {
            block.bytes.clear();
            state.unused = block.bytes;
        }
        Ok(())
    }

    /// Takes what has gathered, which is something, as the block to write. The next one gathers from then on.
    fn take_gathered(&self, state: &mut State) -> Block {
        assert_eq!(state.forced, state.start, "blocks are written one after the other");
        let unused = std::mem::take(&mut state.unused);
        let bytes = std::mem::replace(&mut state.gathering, unused);
        let header = Header {
            start: state.start,
            database: self.database,
            bytes: bytes.len() as u64,
            epoch: self.epoch,
            records: std::mem::take(&mut state.records),
        };
        state.start += header.bytes.next_multiple_of(SECTOR_BYTES as u64);
        Block { header, bytes }
    }

    /// The payload of a record that is in the files: one that was forced, or found when the log was opened, and that is
    /// not before the tail.
    pub fn read(&self, lsn: Lsn) -> Result<Vec<u8>> {
        let damaged = |detail: &str| self.segments.damaged_at(lsn.0, detail.into());
        let start = self.segments.block_of(lsn.0).ok_or_else(|| damaged("no record begins there"))?;
        let known = self.last_read.lock().clone().filter(|block| block.header.start == start);
        let block = match known {
            Some(block) => block,
            None => {
                let block = self.segments.read(start)?.ok_or_else(|| damaged("its block is not whole"))?;
                let block = Arc::new(block);
                *self.last_read.lock() = Some(block.clone());
                block
            }
        };
        let found = block.records().find(|(at, _)| start + *at as u64 == lsn.0);
        found.map(|(_, payload)| payload.to_vec()).ok_or_else(|| damaged("no record begins there"))
    }

    /// Nothing before a position is needed any more: the segments before it are used again. The position was forced,
    /// and is stored durably as the tail for the next opening.
    pub fn recycle(&self, tail: Lsn) -> Result<()> {
        let mut state = self.state.lock();
        debug_assert!(tail.0 <= state.forced);
        state.tail = state.tail.max(tail.0);
        let tail = state.tail;
        drop(state);
        self.segments.recycle(tail)
    }

    /// Makes files for so many more bytes of the log than there are, in blocks or gathered for one, so that a force
    /// within that needs no more space. Headers and padding of blocks count. [`Error::DiskFull`] if there is no room;
    /// the log goes on as it is.
    pub fn ensure(&self, bytes: u64) -> Result<()> {
        let end = self.state.lock().end();
        self.segments.ensure(end.next_multiple_of(SECTOR_BYTES as u64).saturating_add(bytes))
    }

    /// Returns the bytes of the log that are not durable yet, about.
    pub fn unforced_bytes(&self) -> u64 {
        let state = self.state.lock();
        state.end() - state.forced
    }

    /// The length of the log from its tail to its end.
    pub fn live_bytes(&self) -> u64 {
        let state = self.state.lock();
        state.end() - state.tail
    }

    /// Returns the counts of writes since the log was opened.
    pub fn counts(&self) -> LogCounts {
        self.state.lock().counts
    }
}
