//! Failpoints: named faults beside the code that tests turn on, to see that they would be found. They are nothing in a
//! normal build: [`Failpoints`] has no size there, and [`Failpoints::is_on`] is the constant `false`. They are something
//! in the tests of this crate, and with its feature `testing`, which the tests of `gnomon-objects` turn on.
//!
//! A set of failpoints belongs to one store, log or lock manager and to all its parts, which have clones of it. Tests
//! run in parallel, so no set is global. Code without an instance, such as the access methods, takes the set of its
//! thread ([`Failpoints::of_thread`]).
//!
//! # Adding one
//!
//! 1. Name the fault in [`Failpoint`], under its room: the state of affairs that it brings about, not an order.
//! 2. Ask for it where the code would go wrong: `if !self.failpoints.is_on(Failpoint::MoveUnsynced) { file.sync()? }`.
//!    A fault that is longer than a line gets a function of its own below.
//! 3. Turn it on in a test, `Failpoints::turn_on`, and require that the test fails. Tests in which threads run by a
//!    seeded schedule make room for a race by [`Failpoints::linger`].
//!
//! No other file has a `cfg` for faults. What they do is compiled in every build, and left out of a normal one, as
//! the branch is never taken.

pub use set::Failpoints;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failpoint {
    // page
    /// A frame counts as unpinned before its holder lets go of it.
    UnpinnedEarly,

    // lock
    /// A sleeper can miss its wake-up.
    LockWakeupLost,
    /// No request looks for deadlocks.
    DeadlocksIgnored,
    /// A request for a strong mode overlooks the holders of weak ones.
    WeakHoldersOverlooked,
    /// A request for a weak mode overlooks that an owner has asked for a strong one.
    ContendersOverlooked,

    // wal
    /// A force returns before the sync.
    ForceUnsynced,
    /// The epoch of blocks is not looked at.
    EpochUnchecked,
    /// A segment that is used again keeps its old header.
    OldHeaderKept,
    /// The epoch in the headers of segments is not looked at.
    EntryOfAnyRun,
    /// The last block is not written again when the log is opened.
    LastBlockTrusted,
    /// A block is written while another one is.
    WriterNotAlone,
    /// A damaged block is taken for the end of the log, whatever is behind it.
    DamageUnseen,
    /// A block counts of which only a part was written.
    TornTailAccepted,

    // gnomon-objects
    /// A page that is divided keeps what it has.
    PageUncut,
    /// When a page is divided in three and the second new one cannot be had, the first is not given back.
    NewPageLost,
    /// A data page is latched beside the header that was not latched before.
    LatchedUnseen,
    /// The data page of another object counts as one's own.
    OwnerUnchecked,
    /// More is written to a header than there is room for.
    RoomUnchecked,

    // store
    /// A thread that waits for a batch is not put on the list at once.
    WakeupLost,
    /// No thread is woken to write the next batch.
    LeaderNotWoken,

    // store::shadow
    /// The superblock of a large batch is written without syncing what it points to.
    BatchUnsynced,
    /// A superblock does not list what is synced together with it.
    ListMissing,
    /// A batch counts as durable without its last sync.
    SyncNotWaitedFor,
    /// A page is written where its old version is.
    OverwriteInPlace,
    /// A page that is given up is free although a pinned state needs it.
    PinsIgnored,
    /// A superblock takes the number of a batch that has pages on the disk already.
    ConfirmedOverEarlyFlush,
    /// Pages are flushed early in the background while a batch may be closed.
    FlushedOutsideGate,
    /// Checksums are not compared.
    ChecksumUnchecked,
    /// A batch points to copies of moved pages that were not synced.
    MoveUnsynced,
    /// The file is cut before the superblock knows.
    CutBeforeSuperblock,
    /// An extent that is given up stays in use with its last physical page.
    ExtentFreedShort,
    /// A batch points to private pages without syncing them first.
    PublishedUnsynced,
    /// A page's second copy is not written.
    SecondCopyUnwritten,
    /// No superblock says that a disk is lost.
    LossUnrecorded,
    /// A batch is closed while transactions are in the gate.
    GateLeftOpen,
    /// A batch is closed over half of a transaction whose application failed.
    PoisonUnseen,
    /// The translation cache takes in what was found before a batch was published.
    TranslationOutdated,
    /// A page that cannot be read where it was is not looked for where it may be now.
    MovedUnseen,
    /// A page is moved although it has changed.
    MovedOutdated,
    /// Places that become free are overwritten with nonsense. No fault: it makes others visible.
    FreeScribbled,

    // store::page_wal
    /// Pages of a subtransaction are logged before its undo record is durable.
    UndoNotForced,
    /// Spheres with a page in common stay apart.
    OverlapIgnored,
    /// The first half of a unit counts as a whole one.
    EosEarly,
    /// A compensation leaves no record of what it undid.
    CompensationUnrecorded,
    /// Changes of an incomplete subtransaction are written to a page's place.
    Stolen,
    /// The beginning of the log is given up before the pages that it has are in their places for certain.
    PlacesUnsynced,
    /// A page is changed under its latch alone that an incomplete subtransaction has changed.
    LightUnchecked,

    // recovery::logical_wal
    /// The log is given up before a superblock has what it says.
    GivenUpFirst,
    /// Commits are replayed that the superblock has.
    ReplayedTwice,
    /// A commit that only a superblock has counts as durable before that.
    SuperblockNotAwaited,
    /// A commit is acknowledged before its record is forced.
    RecordNotForced,
    /// A commit takes its CSN and its place in the log in two steps.
    RecordOutOfOrder,
    /// A checkpoint gives up the log up to where it ends when the batch is written.
    CheckpointBehindBatch,

    // txn
    /// The entry of a prepared transaction is gone before its changes are there.
    EntryRemovedFirst,
    /// A key's version is published when the key has changed already.
    VersionAfterChange,
    /// A transaction's locks are released before its changes are there.
    LocksBeforeApply,
    /// The watermark passes commits that are not applied.
    WatermarkOutOfOrder,
    /// A serializable scan looks at pending keys after the tree.
    PendingAfterTree,
    /// Inserts do not notice a serializable scan.
    ScanNotCounted,
    /// A transaction notes what it saw of others before it waits for their locks.
    SeenBeforeLock,
    /// A reader does not notice that pages were replaced while it read them.
    ReplacedUnseen,
    /// Operations on one key have the versions of the order in which they were applied.
    VersionsInApplyOrder,
    /// A statement's snapshot does not wait for what the transaction has built on.
    SnapshotBehindOwnWrites,
    /// An executor uses its partitions without a lock on them.
    PartitionsNotLocked,
}

#[cfg(not(any(test, feature = "testing")))]
mod set {
    use super::Failpoint;

    /// The failpoints of an instance, all off.
    #[derive(Clone, Debug, Default)]
    pub struct Failpoints {}

    impl Failpoints {
        /// Returns the set of this thread.
        #[inline(always)]
        pub const fn of_thread() -> Failpoints {
            Failpoints {}
        }

        /// True if a fault is to happen.
        #[inline(always)]
        pub const fn is_on(&self, _: Failpoint) -> bool {
            false
        }

        /// Lets other threads run for a while, if a fault is to happen and a seeded schedule decides which thread runs.
        #[inline(always)]
        pub const fn linger(&self, _: Failpoint) {}
    }
}

#[cfg(any(test, feature = "testing"))]
mod set {
    use std::sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    };

    use super::Failpoint;

    /// The failpoints of an instance. Clones are the same set.
    #[derive(Clone, Debug, Default)]
    pub struct Failpoints {
        /// A bit for each. Not the engine's atomics: schedules are not about them.
        bits: Arc<[AtomicU64; 2]>,
    }

    thread_local! {
        static OF_THREAD: Failpoints = Failpoints::default();
    }

    impl Failpoints {
        /// Returns the set of this thread.
        pub fn of_thread() -> Failpoints {
            OF_THREAD.with(Failpoints::clone)
        }

        /// True if a fault is to happen.
        pub fn is_on(&self, point: Failpoint) -> bool {
            let point = point as usize;
            self.bits[point / 64].load(Ordering::Relaxed) & 1 << (point % 64) != 0
        }

        /// Makes faults happen from now on.
        pub fn turn_on(&self, points: impl IntoIterator<Item = Failpoint>) {
            for point in points {
                let point = point as usize;
                self.bits[point / 64].fetch_or(1 << (point % 64), Ordering::Relaxed);
            }
        }

        /// Makes no fault happen any more.
        pub fn turn_off(&self) {
            self.bits.iter().for_each(|bits| bits.store(0, Ordering::Relaxed));
        }

        /// Lets other threads run for a while, if a fault is to happen and a seeded schedule decides which thread runs.
        #[cfg(shuttle)]
        pub fn linger(&self, point: Failpoint) {
            if self.is_on(point) {
                use shuttle::rand::Rng as _;
                // Long enough for a batch or a commit.
                let steps = shuttle::rand::thread_rng().gen_range(0..1000);
                (0..steps).for_each(|_| crate::sync::thread::yield_now());
            }
        }

        /// Does nothing: no schedule decides which thread runs.
        #[cfg(not(shuttle))]
        pub fn linger(&self, _: Failpoint) {}
    }
}
