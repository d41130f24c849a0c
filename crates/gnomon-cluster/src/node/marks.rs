//! Marks: rows that commits leave beside their changes. Each has the commit's place in the order and what it touched;
//! they are kept for the newest commits. So a member that comes back knows where to go on and what to certify
//! against.
//!
//! The key of a row is the number of the commit (8 bytes, big-endian). Its value is the revision (8) and the index (4) of
//! its entry, and an entry of the log of the same transaction that has touched the same and changes nothing.
//!
//! Number 0, which is no commit, has what all members have in common: version (1 byte, now 1), the number of their data
//! (8), whether serializable transactions vote and whether bounds count rows (1 each), of how many commits rows are kept
//! (8). Numbers are big-endian.

use gnomon_engine::{Database, Direction, Error, KeyRange, Result, TreeId, TxnOptions};

use crate::{
    order::encoding,
    protocol::{Commit, Entry, Level, Position, ReadSet, Settings, Touched, TxnName, Version, Window},
};

/// The number of the data and the settings that the members of a cluster have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Common {
    /// The number of the data, which others do not have: the log is for these alone.
    pub data: u64,
    /// How they run the protocol.
    pub settings: Settings,
}

impl Common {
    fn encode(&self) -> Vec<u8> {
        let Settings { voting, bounds_by_rows, window_commits } = self.settings;
        let mut value = vec![1];
        value.extend(self.data.to_be_bytes());
        value.extend([u8::from(voting), u8::from(bounds_by_rows)]);
        value.extend((window_commits as u64).to_be_bytes());
        value
    }

    fn decode(value: &[u8]) -> Option<Common> {
        let (data, rest) = value.strip_prefix(&[1])?.split_first_chunk()?;
        let ([voting, bounds_by_rows], window) = rest.split_first_chunk::<2>()?;
        let settings = Settings {
            voting: *voting == 1,
            bounds_by_rows: *bounds_by_rows == 1,
            window_commits: usize::try_from(u64::from_be_bytes(window.try_into().ok()?)).ok()?,
        };
        Some(Common { data: u64::from_be_bytes(*data), settings })
    }
}

/// The position of a database in the order, as its marks tell it.
pub(super) struct Marks {
    pub common: Common,
    /// The changes of the newest commits.
    pub window: Window,
    /// The position of the last commit.
    pub delivered: Position,
    /// The transaction of the last commit, and what it has touched.
    pub last: Option<Commit>,
}

/// Makes the tree of marks, in a database that is the first member of a new cluster. All that it has is what all members
/// begin with.
///
/// # Errors
/// Those of the database.
pub fn create(database: &Database, common: &Common) -> Result<TreeId> {
    let mut txn = database.begin(TxnOptions::default())?;
    let marks = txn.create_tree()?;
    txn.put(marks, &Version(0).0.to_be_bytes(), &common.encode())?;
    txn.commit()?;
    Ok(marks)
}

/// The mark of a commit: key and value.
pub(super) fn of(
    version: Version,
    position: Position,
    txn: TxnName,
    touched: &[Touched],
) -> ([u8; 8], Vec<u8>) {
    let mut value = position.revision.to_be_bytes().to_vec();
    value.extend(position.index.to_be_bytes());
    value.extend(encoding::encode(&[Entry::Commit(kept(txn, touched))]));
    (version.0.to_be_bytes(), value)
}

/// Returns the part of a commit that marks keep: its transaction, and the rows that it has changed.
pub(super) fn kept(txn: TxnName, touched: &[Touched]) -> Commit {
    Commit {
        txn,
        level: Level::Snapshot,
        start: Version(0),
        touched: touched.iter().filter(|touched| touched.is_change()).cloned().collect(),
        reads: ReadSet::default(),
        changes: Vec::new(),
    }
}

/// The key of the mark that leaves the window when a commit comes to it.
pub(super) fn forgotten(version: Version, window_commits: usize) -> Option<[u8; 8]> {
    version.0.checked_sub(window_commits as u64).filter(|old| *old > 0).map(u64::to_be_bytes)
}

/// Reads the marks of a database.
pub(super) fn read(database: &Database, marks: TreeId) -> Result<Marks> {
    let damaged = || Error::Operation("the marks of the cluster in this database cannot be read".into());
    let mut txn = database.begin(TxnOptions::default())?;
    let mut scan = txn.scan(marks, KeyRange::all(), Direction::Forward)?;
    let (_, common) = scan.next(&mut txn)?.filter(|(key, _)| *key == [0; 8]).ok_or_else(damaged)?;
    let common = Common::decode(&common).ok_or_else(damaged)?;
    let window_commits = common.settings.window_commits;
    let (mut found, mut kept): (Option<(Window, Position)>, _) = (None, None);
    while let Some((key, value)) = scan.next(&mut txn)? {
        let version = u64::from_be_bytes(key.as_slice().try_into().map_err(|_| damaged())?);
        let (revision, rest) = value.split_first_chunk().ok_or_else(damaged)?;
        let (index, rest) = rest.split_first_chunk().ok_or_else(damaged)?;
        let position =
            Position { revision: u64::from_be_bytes(*revision), index: u32::from_be_bytes(*index) };
        let entries = encoding::decode(rest).map_err(|why| {
            Error::Operation(format!("a mark of the cluster in this database cannot be read: {why}").into())
        })?;
        let [Entry::Commit(commit)] = &entries[..] else { return Err(damaged()) };
        let (window, last) = found.get_or_insert_with(|| {
            (Window::new(window_commits, Version(version.saturating_sub(1))), Position::default())
        });
        if window.push(&commit.touched) != Version(version) {
            return Err(damaged());
        }
        *last = position;
        kept = Some(commit.clone());
    }
    let (window, delivered) =
        found.unwrap_or_else(|| (Window::new(window_commits, Version(0)), Position::default()));
    Ok(Marks { common, window, delivered, last: kept })
}

/// Takes a database out of its cluster: the marks go.
///
/// # Errors
/// Those of the database.
pub fn remove(database: &Database, marks: TreeId) -> Result<()> {
    let mut txn = database.begin(TxnOptions::default())?;
    txn.drop_tree(marks)?;
    txn.commit()?;
    Ok(())
}
