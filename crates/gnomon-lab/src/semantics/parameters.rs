//! What a simulated system is: the parameters of the study's Tables 1 and 2 by the names they have there, and the readings
//! of what its text leaves open.

use serde::Serialize;

/// A transaction manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Manager {
    /// One within the database: locks data to the end and pages of indexes while it is on them; logs changes of records.
    Dbms,
    /// One within the operating system, which locks and logs granules of pages, of which it knows so much.
    Os(Level),
}

/// How much an operating system's manager knows (the study's Table 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Nothing: it locks to the end whatever is touched, and logs whatever is changed.
    Physical,
    /// What pages of indexes are: it locks them while they are used.
    ShortIndexLocks,
    /// And how to compress the log.
    Compressed,
    /// Instead of that, that changes of indexes follow from changes of records: it does not log them.
    NoIndexLog,
}

impl Level {
    /// In the order of Table 4, from 0 on.
    pub const ALL: [Level; 4] =
        [Level::Physical, Level::ShortIndexLocks, Level::Compressed, Level::NoIndexLog];
}

impl Manager {
    /// Whether pages of indexes are locked only while they are used.
    pub fn has_short_index_locks(self) -> bool {
        match self {
            Manager::Dbms => true,
            Manager::Os(level) => level >= Level::ShortIndexLocks,
        }
    }

    /// Whether changes of indexes are logged.
    pub fn logs_indexes(self) -> bool {
        match self {
            Manager::Dbms => false,
            Manager::Os(level) => level < Level::NoIndexLog,
        }
    }
}

/// A simulated system.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parameters {
    /// Who manages its transactions.
    pub manager: Manager,
    /// Pages in the buffer.
    pub buf_size: usize,
    /// Instructions of an insert or delete.
    pub cpu_ins_del: f64,
    /// Instructions of a read.
    pub cpu_read: f64,
    /// Instructions of a rewrite.
    pub cpu_write: f64,
    /// Instructions of a pair of lock and unlock.
    pub cpu_lock: f64,
    /// Instructions of an I/O.
    pub cpu_io: f64,
    /// Instructions of presenting an action's result.
    pub cpu_present: f64,
    /// Millions of instructions a second, of each processor.
    pub cpu_mips: f64,
    /// Processors.
    pub processors: usize,
    /// Milliseconds of an I/O of a page.
    pub disk_io: f64,
    /// Disks, over which pages are spread.
    pub numdisks: usize,
    /// Mean part of updates among actions, up to a half.
    pub modify1: f64,
    /// Mean part of inserts and deletes among updates, up to a half.
    pub modify2: f64,
    /// Transactions under way.
    pub mpl: usize,
    /// Indexes.
    pub numindex: usize,
    /// Bytes of a page.
    pub page_size: u32,
    /// Bytes of a granule, which an operating system locks and logs.
    pub sub_page_size: u32,
    /// By what part the operating system's log is compressed.
    pub comp_ratio: f64,
    /// Seconds that an action may take, before its transaction is thought to be in a deadlock.
    pub max_action_len: f64,
    /// What the text leaves open.
    pub readings: Readings,
    /// What the study leaves for later.
    pub past: Past,
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters {
            manager: Manager::Dbms,
            buf_size: 500,
            cpu_ins_del: 18_000.0,
            cpu_read: 7_000.0,
            cpu_write: 12_000.0,
            cpu_lock: 2_000.0,
            cpu_io: 3_000.0,
            cpu_present: 10_000.0,
            cpu_mips: 2.0,
            processors: 1,
            disk_io: 30.0,
            numdisks: 2,
            modify1: 0.25,
            modify2: 0.5,
            mpl: 15,
            numindex: 5,
            page_size: 2048,
            sub_page_size: 100,
            comp_ratio: 0.0,
            max_action_len: 4.0,
            readings: Readings::default(),
            past: Past::default(),
        }
    }
}

impl Parameters {
    /// By what part the log is compressed.
    pub fn compression(&self) -> f64 {
        /// The study's estimate at level 2.
        const AT_LEVEL_2: f64 = 0.4;
        match self.manager {
            Manager::Dbms => 0.0,
            Manager::Os(Level::Compressed) => AT_LEVEL_2.max(self.comp_ratio),
            Manager::Os(_) => self.comp_ratio,
        }
    }
}

/// What the study's text leaves open. The defaults come closest to what it states.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Readings {
    /// When the operating system's log is written.
    pub os_log: LogWrite,
    /// When the database's log is written.
    pub dbms_log: LogWrite,
    /// What stands before the images of a granule in the operating system's log, in bytes.
    pub os_header_bytes: u32,
    /// Where logs are.
    pub log_disk: LogDisk,
    /// What a search in a page of an index touches.
    pub search: Search,
    /// Whether a leaf that changes is searched first, with locks for that.
    pub searches_changed_leaf: bool,
    /// What an entry that comes or goes moves of its leaf.
    pub moved: Moved,
    /// Whether a rewrite changes its record's entry in one index.
    pub rewrite_changes_index: bool,
    /// Whether who finds a record on its page reads a directory there, which the operating system's manager locks.
    pub reads_directory: bool,
    /// Instructions of processing a page of an index, beside those of its action.
    pub cpu_index_page: f64,
}

impl Default for Readings {
    fn default() -> Readings {
        Readings {
            os_log: LogWrite::AtAction,
            dbms_log: LogWrite::AtCommit,
            os_header_bytes: 50,
            log_disk: LogDisk::Shared,
            search: Search::Binary,
            searches_changed_leaf: false,
            moved: Moved::Half,
            rewrite_changes_index: true,
            reads_directory: true,
            cpu_index_page: 0.0,
        }
    }
}

/// When a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogWrite {
    /// After each action, in whole pages.
    AtAction,
    /// When the transaction commits, in whole pages.
    AtCommit,
}

/// Where a log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogDisk {
    /// On the disks of the data, each page an I/O.
    Shared,
    /// On one of its own, each page an I/O.
    Own,
}

/// What a search in a page of an index touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Search {
    /// The granules that a binary search comes to.
    Binary,
    /// The granule of the entry that is found.
    Direct,
}

/// What an entry that comes or goes moves of its leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Moved {
    /// The second half.
    Half,
    /// What is behind it, which is half on the average.
    Behind,
}

/// What the study leaves for later, or names as what it leaves out; by default it is left out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Past {
    /// What the database's manager locks of data.
    pub dbms_locks: DataLocks,
    /// The exponent of Zipf's law by which records are chosen.
    pub skew: f64,
    /// How probable it is that an entry that comes or goes changes the page above its own too.
    pub split: f64,
    /// Instructions of compressing a byte of the log.
    pub cpu_compress: f64,
    /// The mean of seconds of thought between two series of actions: uniform from two thirds to four thirds of it.
    pub think: f64,
}

impl Default for Past {
    fn default() -> Past {
        Past { dbms_locks: DataLocks::Pages, skew: 0.0, split: 0.0, cpu_compress: 0.0, think: 15.0 }
    }
}

/// What the database's manager locks of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DataLocks {
    /// Pages.
    Pages,
    /// Records.
    Records,
}
