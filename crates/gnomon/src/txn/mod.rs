//! Level 1: transactions. PROVISIONAL in-memory stand-in with the final signatures.

use std::{collections::BTreeMap, ops::Bound, path::Path, time::Duration};

use crate::{
    Csn, Error, Interrupt, Result, TreeId, TxnId,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// How a database is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Make the database if there is none at the path.
    pub create: bool,
    /// The buffer pool's size in bytes.
    pub pool_bytes: usize,
    /// How long a transaction waits for a lock unless it says otherwise; none waits for ever.
    pub lock_timeout: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Options { create: true, pool_bytes: 64 << 20, lock_timeout: None }
    }
}

/// What a transaction sees of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement sees what was committed when it began.
    #[default]
    ReadCommitted,
    /// As if transactions ran one after another, in the order of their commits (two-phase, next-key locks).
    Serializable,
}

/// How a transaction begins.
#[derive(Clone, Debug, Default)]
pub struct TxnOptions {
    /// What it sees of others.
    pub isolation: Isolation,
    /// It promises to write nothing. Under READ COMMITTED it then sees only durable commits (and at least
    /// `after`), and its own commit waits for nothing.
    pub read_only: bool,
    /// Its snapshots include at least this commit: a session passes the last one that it was told of.
    pub after: Csn,
    /// Its lock timeout; none takes the database's.
    pub lock_timeout: Option<Duration>,
    /// Ends its waits and scans from elsewhere.
    pub interrupt: Option<Arc<Interrupt>>,
}

/// The strength of a lock on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowLock {
    /// Nobody changes it until this transaction ends (FOR SHARE).
    Share,
    /// As share, and at most one holder: who means to change it (no conversion deadlock).
    Update,
    /// Nobody else reads it under a lock (FOR UPDATE).
    Exclusive,
}

/// The strength of a lock on a whole tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeLock {
    /// Intention to read or lock single keys shared. Taken by every read, until EOT.
    IntentionShared,
    /// Intention to write single keys. Taken by every write, until EOT.
    IntentionExclusive,
    /// Nobody writes.
    Shared,
    /// Nobody else does anything (DROP, TRUNCATE, index build).
    Exclusive,
}

/// Which way a scan runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From small keys to large.
    Forward,
    /// From large keys to small.
    Backward,
}

/// A range of keys.
#[derive(Clone, Debug)]
pub struct KeyRange {
    /// Where it begins.
    pub start: Bound<Vec<u8>>,
    /// Where it ends.
    pub end: Bound<Vec<u8>>,
}

impl KeyRange {
    /// Every key.
    pub fn all() -> KeyRange {
        KeyRange { start: Bound::Unbounded, end: Bound::Unbounded }
    }
    /// Every key that begins with `prefix`.
    pub fn prefix(prefix: &[u8]) -> KeyRange {
        let mut end = prefix.to_vec();
        while let Some(last) = end.pop() {
            if last < 0xff {
                end.push(last + 1);
                return KeyRange { start: Bound::Included(prefix.to_vec()), end: Bound::Excluded(end) };
            }
        }
        KeyRange { start: Bound::Included(prefix.to_vec()), end: Bound::Unbounded }
    }
}

type Data = BTreeMap<(TreeId, Vec<u8>), Vec<u8>>;

#[derive(Default)]
struct Inner {
    data: Mutex<Data>,
    next_txn: AtomicU64,
    next_tree: AtomicU64,
    csn: AtomicU64,
}

/// An open database. Clones are handles of the same one.
#[derive(Clone, Default)]
pub struct Database(Arc<Inner>);

impl Database {
    /// Opens the database in the directory `path`, recovering it if need be.
    pub fn open(_path: impl AsRef<Path>, options: Options) -> Result<Database> {
        Database::in_memory(options)
    }

    /// A database that lives in memory and ends with its last handle.
    pub fn in_memory(_options: Options) -> Result<Database> {
        Ok(Database::default())
    }

    /// Begins a transaction.
    pub fn begin(&self, options: TxnOptions) -> Result<Transaction> {
        let id = TxnId(self.0.next_txn.fetch_add(1, Ordering::Relaxed) + 1);
        Ok(Transaction { db: self.clone(), id, options, writes: BTreeMap::new() })
    }

    /// The newest durable commit.
    pub fn durable_csn(&self) -> Csn {
        Csn(self.0.csn.load(Ordering::Relaxed))
    }

    /// Waits until all commits are durable, then closes the files. Transactions still open fail from here on.
    pub fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// A transaction. Dropped without commit, it is rolled back.
///
/// After [`Error::Deadlock`], [`Error::Serialization`] or any other error than [`Error::KeyExists`] and those of bad input,
/// only rolling back makes sense; the caller does it.
pub struct Transaction {
    db: Database,
    id: TxnId,
    options: TxnOptions,
    writes: BTreeMap<(TreeId, Vec<u8>), Option<Vec<u8>>>,
}

/// The promise that a commit will be durable.
#[derive(Debug)]
pub struct Ticket {
    csn: Csn,
}

impl Ticket {
    /// The commit's place in the order of commits.
    pub fn csn(&self) -> Csn {
        self.csn
    }
    /// Waits until the commit is durable.
    pub fn wait(self) -> Result<Csn> {
        Ok(self.csn)
    }
    /// Whether the commit is durable by now.
    pub fn is_durable(&self) -> Result<bool> {
        Ok(true)
    }
    /// Calls `f` once the commit is durable or has failed, on a thread of the engine's or at once on this one.
    /// `f` must not block.
    pub fn on_durable(self, f: impl FnOnce(Result<Csn>) + Send + 'static) {
        f(Ok(self.csn))
    }
}

impl Transaction {
    /// The transaction's number among those running.
    pub fn id(&self) -> TxnId {
        self.id
    }

    /// How it was begun.
    pub fn options(&self) -> &TxnOptions {
        &self.options
    }

    /// Changes the time that it waits for a lock from now on.
    pub fn set_lock_timeout(&mut self, timeout: Option<Duration>) {
        self.options.lock_timeout = timeout;
    }

    /// Begins a statement: under READ COMMITTED, later reads see what is committed now. Writes of this
    /// transaction are seen at once, by the statement that makes them too.
    pub fn start_statement(&mut self) -> Result<()> {
        Ok(())
    }

    /// Makes a new, empty tree, which exists for others when this transaction has committed.
    pub fn create_tree(&mut self) -> Result<TreeId> {
        Ok(TreeId(self.db.0.next_tree.fetch_add(1, Ordering::Relaxed) + 1))
    }

    /// Drops a tree with all that it holds, when this transaction commits. Take [`TreeLock::Exclusive`] first if
    /// others may use it.
    pub fn drop_tree(&mut self, tree: TreeId) -> Result<()> {
        let keys: Vec<_> = self.db.0.data.lock().keys().filter(|(t, _)| *t == tree).cloned().collect();
        for key in keys {
            self.writes.insert(key, None);
        }
        Ok(())
    }

    /// Locks a whole tree until the transaction ends.
    pub fn lock_tree(&mut self, _tree: TreeId, _lock: TreeLock) -> Result<()> {
        Ok(())
    }

    /// The value of a key as this transaction sees it: its own write, else by its isolation.
    pub fn get(&mut self, tree: TreeId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let at = (tree, key.to_vec());
        Ok(match self.writes.get(&at) {
            Some(own) => own.clone(),
            None => self.db.0.data.lock().get(&at).cloned(),
        })
    }

    /// Locks a key until the transaction ends, then returns its own write or the newest committed value (which may
    /// be newer than the statement's snapshot). A key that is absent is locked too: nobody inserts it.
    pub fn get_locked(&mut self, tree: TreeId, key: &[u8], _lock: RowLock) -> Result<Option<Vec<u8>>> {
        self.get(tree, key)
    }

    /// Writes a key that must be absent; [`Error::KeyExists`] otherwise, and then nothing is written and the
    /// transaction can go on. Waits for others that write the key, and looks at what they committed.
    pub fn insert(&mut self, tree: TreeId, key: &[u8], value: &[u8]) -> Result<()> {
        if self.get(tree, key)?.is_some() {
            return Err(Error::KeyExists);
        }
        self.put(tree, key, value)
    }

    /// Writes a key, present or not.
    pub fn put(&mut self, tree: TreeId, key: &[u8], value: &[u8]) -> Result<()> {
        if key.len() > crate::KEY_BYTES_MAX {
            return Err(Error::KeyTooLong { bytes: key.len() });
        }
        self.writes.insert((tree, key.to_vec()), Some(value.to_vec()));
        Ok(())
    }

    /// Deletes a key; false if it was absent.
    pub fn delete(&mut self, tree: TreeId, key: &[u8]) -> Result<bool> {
        let present = self.get(tree, key)?.is_some();
        self.writes.insert((tree, key.to_vec()), None);
        Ok(present)
    }

    /// Begins a scan; entries come by [`Cursor::next`], which borrows the transaction only for the call, so that
    /// it can write between two entries. The scan sees the transaction's own writes.
    pub fn scan(&mut self, tree: TreeId, range: KeyRange, direction: Direction) -> Result<Cursor> {
        let mut all: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for ((t, k), v) in self.db.0.data.lock().iter() {
            if *t == tree {
                all.insert(k.clone(), v.clone());
            }
        }
        for ((t, k), v) in &self.writes {
            if *t == tree {
                match v {
                    Some(v) => all.insert(k.clone(), v.clone()),
                    None => all.remove(k),
                };
            }
        }
        let inside = |k: &Vec<u8>| {
            (match &range.start {
                Bound::Included(s) => k >= s,
                Bound::Excluded(s) => k > s,
                Bound::Unbounded => true,
            }) && (match &range.end {
                Bound::Included(e) => k <= e,
                Bound::Excluded(e) => k < e,
                Bound::Unbounded => true,
            })
        };
        let mut entries: Vec<_> = all.into_iter().filter(|(k, _)| inside(k)).collect();
        if direction == Direction::Forward {
            entries.reverse();
        }
        Ok(Cursor { entries })
    }

    /// Commits, and returns when the commit is durable. A transaction that wrote nothing returns when all that
    /// it read is durable.
    pub fn commit(self) -> Result<Csn> {
        self.commit_ticket()?.wait()
    }

    /// Commits and returns at once; the ticket tells when the commit is durable. Locks are released already.
    pub fn commit_ticket(self) -> Result<Ticket> {
        let mut data = self.db.0.data.lock();
        for (key, value) in self.writes {
            match value {
                Some(value) => data.insert(key, value),
                None => data.remove(&key),
            };
        }
        Ok(Ticket { csn: Csn(self.db.0.csn.fetch_add(1, Ordering::Relaxed) + 1) })
    }

    /// Undoes everything. The same as dropping it.
    pub fn rollback(self) {}
}

/// A scan in progress.
pub struct Cursor {
    entries: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Cursor {
    /// The next entry (key, value), or none at the end of the range. `txn` must be the one that began the scan.
    #[expect(clippy::should_implement_trait, reason = "it borrows the transaction for each step")]
    pub fn next(&mut self, txn: &mut Transaction) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let _ = txn;
        Ok(self.entries.pop())
    }
}
