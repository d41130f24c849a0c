//! Room for records: files that the log will need are there before a commit takes its CSN, since nothing may fail for
//! want of them behind it.
//!
//! Invariant: the log's end and all that is promised, but for what is spent already, are within the files that there
//! are.
//!
//! Most commits look at their thread's share only, which has room for some dozens of them. A number that each of them
//! changed would travel between processors twice a commit.
//!
//! What it does not do: on a disk that is nearly full, what shares try to get may keep a record waiting for a
//! checkpoint that would fit without them.

use crate::{
    Error, Result,
    sync::{
        Line, Mutex,
        atomic::{AtomicU64, Ordering},
        slot_of_thread,
    },
    wal::Log,
};

/// Bytes of room that are made beyond what is needed, so that not every share has to look for it.
const SPARE_BYTES: u64 = 256 << 10;
/// Bytes that a share gets beyond what is needed.
const SHARE_BYTES: u64 = 64 << 10;
const SHARES: usize = 16;

/// The room in the files of a log.
#[derive(Default)]
pub(super) struct Room {
    /// Bytes promised to shares and to records that are not appended, and those that shares have spent and not told
    /// yet.
    promised: AtomicU64,
    /// There are files up to this position.
    upto: AtomicU64,
    shares: [Line<Mutex<Share>>; SHARES],
}

#[derive(Default)]
struct Share {
    /// Bytes that are promised to no record yet.
    left: u64,
    /// Bytes of records that are appended: the log's end is behind them.
    spent: u64,
}

/// Room for a record.
#[derive(Debug)]
#[must_use]
pub(super) struct Promise {
    share: usize,
    bytes: u64,
}

impl Room {
    /// Promises so many bytes of files, if this thread's share has them.
    pub fn promise_at_once(&self, bytes: u64) -> Option<Promise> {
        let number = slot_of_thread(SHARES);
        let mut share = self.shares[number].lock();
        share.left = share.left.checked_sub(bytes)?;
        Some(Promise { share: number, bytes })
    }

    /// Promises so many bytes of files, and gives this thread's share more.
    ///
    /// # Errors
    /// [`Error::DiskFull`]; what the log has is as it was.
    pub fn promise(&self, log: &Log, bytes: u64) -> Result<Promise> {
        let promise = Promise { share: slot_of_thread(SHARES), bytes };
        let share = &self.shares[promise.share];
        let spent = std::mem::take(&mut share.lock().spent);
        self.promised.fetch_sub(spent, Ordering::AcqRel);
        match self.add(log, bytes + SHARE_BYTES) {
            Ok(()) => share.lock().left += SHARE_BYTES,
            Err(Error::DiskFull) => {
                self.give_up_shares();
                self.add(log, bytes)?;
            }
            Err(error) => return Err(error),
        }
        Ok(promise)
    }

    /// Notes that the record is appended.
    pub fn spend(&self, promise: Promise) {
        let mut share = self.shares[promise.share].lock();
        share.spent += promise.bytes;
        self.give_up_much(&mut share);
    }

    /// Takes back room that no record needs.
    pub fn give_back(&self, promise: Promise) {
        let mut share = self.shares[promise.share].lock();
        share.left += promise.bytes;
        self.give_up_much(&mut share);
    }

    /// Gives up the room of a share if it is much: a record may have been long.
    fn give_up_much(&self, share: &mut Share) {
        if share.left + share.spent > 2 * SHARE_BYTES {
            self.give_up(share);
        }
    }

    fn give_up(&self, share: &mut Share) {
        let Share { left, spent } = std::mem::take(share);
        self.promised.fetch_sub(left + spent, Ordering::AcqRel);
    }

    fn give_up_shares(&self) {
        self.shares.iter().for_each(|share| self.give_up(&mut share.lock()));
    }

    /// Promises more.
    fn add(&self, log: &Log, bytes: u64) -> Result<()> {
        self.promised.fetch_add(bytes, Ordering::AcqRel);
        self.make(log).inspect_err(|_| {
            self.promised.fetch_sub(bytes, Ordering::AcqRel);
        })
    }

    /// Makes files for all that was promised, if there are too few.
    fn make(&self, log: &Log) -> Result<()> {
        // In this order: what is spent and told is behind the end that is seen then.
        let promised = self.promised.load(Ordering::Acquire);
        let end = log.end().0;
        if end + promised <= self.upto.load(Ordering::Acquire) {
            return Ok(());
        }
        let made = match log.ensure(promised + SPARE_BYTES) {
            Ok(()) => promised + SPARE_BYTES,
            Err(Error::DiskFull) => {
                log.ensure(promised)?;
                promised
            }
            Err(error) => return Err(error),
        };
        self.upto.fetch_max(end + made, Ordering::AcqRel);
        Ok(())
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::{
        disk::{Disk, MemDisk, SECTOR_BYTES},
        env::Rng,
        sync::{Arc, thread},
        wal::LogOptions,
    };

    /// Threads promise, append and give back: for all that is promised there are files at any time, and in the end
    /// nothing is promised.
    #[test]
    fn there_are_files_for_all_that_is_promised() {
        const THREADS: u64 = 3;
        const SEED: u64 = 5;
        let disk: Arc<dyn Disk> = Arc::new(MemDisk::new());
        let options = LogOptions {
            name: "log".into(),
            database: 7,
            segment_bytes: 1 << 16,
            epoch: 1,
            reaches: crate::id::Lsn(0),
            failpoints: Default::default(),
        };
        let log = Log::create(&disk, options).unwrap();
        let room = Room::default();
        // What the threads were promised and have not used.
        let outstanding = Mutex::new(0);
        let check = |outstanding: u64| {
            let (end, upto) = (log.end().0, room.upto.load(Ordering::Acquire));
            // A block that is forced ends with its sector, which was ensured with it.
            assert!(
                end + outstanding <= upto.next_multiple_of(SECTOR_BYTES as u64),
                "seed {SEED}: {end} + {outstanding} of {upto}"
            );
        };
        thread::scope(|scope| {
            for number in 0..THREADS {
                let (log, room, outstanding, check) = (&log, &room, &outstanding, &check);
                scope.spawn(move || {
                    let mut rng = Rng::from_seed(SEED + number);
                    let mut mine = Vec::new();
                    for _ in 0..2000 {
                        if rng.chance(1, 2) {
                            let longest = if rng.chance(1, 50) { 300_000 } else { 200 };
                            let record = vec![1; rng.below(longest) as usize];
                            let bytes = record.len() as u64 + super::super::BESIDE_BYTES;
                            let promise = room.promise_at_once(bytes);
                            mine.push((record, promise.unwrap_or_else(|| room.promise(log, bytes).unwrap())));
                            *outstanding.lock() += bytes;
                        } else if !mine.is_empty() {
                            let (record, promise) = mine.swap_remove(rng.below(mine.len() as u64) as usize);
                            let mut outstanding = outstanding.lock();
                            *outstanding -= promise.bytes;
                            match rng.chance(1, 4) {
                                true => room.give_back(promise),
                                false => {
                                    log.append(&[&record]);
                                    room.spend(promise);
                                }
                            }
                        }
                        if rng.chance(1, 20) {
                            log.force(log.end()).unwrap();
                        }
                        check(*outstanding.lock());
                    }
                    for (_, promise) in mine {
                        *outstanding.lock() -= promise.bytes;
                        room.give_back(promise);
                    }
                });
            }
        });
        room.give_up_shares();
        assert_eq!(room.promised.load(Ordering::Acquire), 0);
    }
}
