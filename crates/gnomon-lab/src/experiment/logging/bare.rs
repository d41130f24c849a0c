//! A log without a database: what the disk and group commit allow, for comparison.

use std::path::Path;

use gnomon_bench::{
    drive::{Client, Load, Measured, drive_kinds},
    store::{Committed, Result, StoreError},
};
use gnomon_engine::{
    disk::{Disk, File, FileDisk},
    env::Rng,
    sync::{Arc, Condvar, Mutex},
};

/// What is written at once at least, in bytes.
const BLOCK: usize = 4096;
/// The file is written round and round, and was zero-filled before, as the segments of a log are.
const FILE_BYTES: u64 = 64 << 20;

/// Records that threads append and wait for: one of them writes and syncs what all have appended by then.
struct BareLog {
    file: Arc<dyn File>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    buffer: Vec<u8>,
    /// Bytes appended so far, and those of them that are durable.
    appended: u64,
    durable: u64,
    is_writing: bool,
    /// A write has failed: nothing is durable any more.
    has_failed: bool,
    /// Where the next block goes.
    at: u64,
}

impl BareLog {
    fn create(directory: &Path) -> Result<BareLog> {
        let disk = FileDisk::open(directory, true)?;
        BareLog::fill(disk.open("log", true).map_err(failed)?).map_err(failed)
    }

    fn fill(file: Arc<dyn File>) -> std::io::Result<BareLog> {
        let zeros = vec![0; 1 << 20];
        for at in (0..FILE_BYTES).step_by(zeros.len()) {
            file.write_at(at, &zeros)?;
        }
        file.sync()?;
        Ok(BareLog { file, state: Mutex::default(), changed: Condvar::new() })
    }

    /// Appends a record, and returns when it is durable.
    fn append(&self, record: &[u8]) -> std::io::Result<()> {
        let mut state = self.state.lock();
        state.buffer.extend_from_slice(record);
        state.appended += record.len() as u64;
        let mine = state.appended;
        while state.durable < mine {
            if state.has_failed {
                return Err(std::io::Error::other("another thread could not write"));
            }
            if state.is_writing {
                self.changed.wait(&mut state);
                continue;
            }
            state.is_writing = true;
            let mut block = std::mem::take(&mut state.buffer);
            let (upto, len) = (state.appended, block.len().next_multiple_of(BLOCK));
            let at = if state.at + len as u64 <= FILE_BYTES { state.at } else { 0 };
            state.at = at + len as u64;
            drop(state);
            block.resize(len, 0);
            let written = self.file.write_at(at, &block).and_then(|()| self.file.sync());
            state = self.state.lock();
            state.is_writing = false;
            match written {
                Ok(()) => state.durable = upto,
                Err(_) => state.has_failed = true,
            }
            self.changed.notify_all();
            written?;
        }
        Ok(())
    }
}

struct Appender<'a> {
    log: &'a BareLog,
    record: Vec<u8>,
}

impl Client for Appender<'_> {
    fn choose(&mut self, rng: &mut Rng) {
        self.record[0] = rng.below(256) as u8;
    }

    fn attempt(&mut self) -> Result<Committed> {
        self.log.append(&self.record).map_err(failed)?;
        Ok(Committed::Durable)
    }
}

fn failed(error: std::io::Error) -> StoreError {
    StoreError::Failed(error.into())
}

/// Lets clients append records of so many bytes (at least one) to a new log in a directory that is made. With one client
/// and records of a block, what is measured is a write and sync each.
pub(super) fn measure(directory: &Path, record_bytes: usize, load: &Load) -> Result<Measured> {
    let log = BareLog::create(directory)?;
    let kinds = drive_kinds(1, load, |_| Appender { log: &log, record: vec![0; record_bytes] })?;
    Ok(Measured::of_all(&kinds))
}
