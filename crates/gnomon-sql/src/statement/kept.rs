//! Rows that a portal or cursor has yet to return: the rest of a query before another statement begins, and what DML
//! returns.
//!
//! They are kept as bytes, in memory as long as they are few, then in a temporary file without a name, which ends with
//! them whatever happens. The engine's trees are no place for them: they would end with the transaction, or with a
//! savepoint, before a cursor WITH HOLD does.

use std::io::{self, BufReader, Read as _, Seek as _, Write as _};

use gnomon_engine::sync::Arc;

use crate::{
    Result, SqlError, SqlState,
    dml::Output,
    memory::{Account, Held, RowsFile},
    query::ExecContext,
    types::{Datum, Row, tagged},
};

/// In front of a row, its length.
const LENGTH_BYTES: usize = 4;

/// Rows in the order in which they were added, read from the first on.
pub(crate) struct KeptRows {
    account: Arc<Account>,
    /// The rows that are not in the file, each behind its length.
    memory: Vec<u8>,
    /// Up to where these were read.
    read: usize,
    /// The memory that `memory` takes.
    held: Held,
    file: Option<Stored>,
    /// Why the file could not be read: then no row comes any more, rather than those behind it.
    failed: Option<SqlError>,
    /// The error of the query that comes behind its rows.
    end: Option<SqlError>,
}

/// The rows that were added first.
enum Stored {
    Written(RowsFile),
    Read { rows: BufReader<RowsFile>, left: u64 },
}

impl KeptRows {
    /// No rows, of a session with this account.
    pub(crate) fn new(account: Arc<Account>) -> Result<KeptRows> {
        let held = account.hold(0)?;
        Ok(KeptRows { account, memory: Vec::new(), read: 0, held, file: None, failed: None, end: None })
    }

    /// Adds a row. All are added before the first is read.
    ///
    /// # Errors
    /// 53200 if neither memory nor a file takes it, 53100 for a full disk.
    pub(crate) fn push(&mut self, row: &[Datum]) -> Result<()> {
        let start = self.memory.len();
        self.memory.extend([0; LENGTH_BYTES]);
        tagged::write_row(row, &mut self.memory)?;
        let length = u32::try_from(self.memory.len() - start - LENGTH_BYTES)
            .map_err(|_| crate::types::limit::too_long())?;
        self.memory[start..start + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
        let fits = self.memory.len() <= self.account.limits().rows_bytes
            && (self.memory.capacity() <= self.held.bytes() || self.held.set(self.memory.capacity()).is_ok());
        if fits || self.store()? { Ok(()) } else { self.held.set(self.memory.capacity()) }
    }

    /// Ends the rows with an error of their query, which is told when they have been read.
    pub(crate) fn end_by(&mut self, error: SqlError) {
        self.end = Some(error);
    }

    /// The error that the rows end with.
    pub(crate) fn end(&self) -> Option<&SqlError> {
        self.end.as_ref()
    }

    /// Moves the rows from memory to the file. False if there is none to be had.
    fn store(&mut self) -> Result<bool> {
        if self.file.is_none() {
            self.file = self.account.open_file().map_err(failed)?.map(Stored::Written);
        }
        let Some(Stored::Written(file)) = &mut self.file else { return Ok(false) };
        file.write_all(&self.memory).map_err(failed)?;
        self.memory.clear();
        // A long row's memory goes at once; what is usual is used again.
        self.memory.shrink_to(self.held.bytes().min(self.account.limits().rows_bytes));
        self.held.set(self.memory.capacity())?;
        Ok(true)
    }

    /// The next row, or none at the end.
    ///
    /// # Errors
    /// 58030 if the file cannot be read, also of each later call; the error that the rows end with.
    pub(crate) fn next(&mut self) -> Result<Option<Row>> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        match self.next_of_file() {
            Ok(None) => {}
            Ok(row) => return Ok(row),
            Err(error) => {
                self.failed = Some(error.clone());
                return Err(error);
            }
        }
        let Some(head) = self.memory.get(self.read..).and_then(<[u8]>::first_chunk::<LENGTH_BYTES>) else {
            self.memory = Vec::new();
            self.read = 0;
            self.held.set(0)?;
            return self.end.clone().map_or(Ok(None), Err);
        };
        let start = self.read + LENGTH_BYTES;
        self.read = start + u32::from_le_bytes(*head) as usize;
        tagged::read_row(self.memory.get(start..self.read).unwrap_or_default()).map(Some)
    }

    /// The next row of the file, which is dropped behind the last one.
    fn next_of_file(&mut self) -> Result<Option<Row>> {
        let Some(stored) = self.file.take() else { return Ok(None) };
        let mut stored = stored.rewound().map_err(failed)?;
        let row = stored.next()?;
        if row.is_some() {
            self.file = Some(stored);
        }
        Ok(row)
    }
}

impl Stored {
    /// Goes to the first row, unless it is being read already.
    fn rewound(self) -> io::Result<Stored> {
        match self {
            Stored::Written(mut file) => {
                file.rewind()?;
                let left = file.length();
                Ok(Stored::Read { rows: BufReader::new(file), left })
            }
            read => Ok(read),
        }
    }

    fn next(&mut self) -> Result<Option<Row>> {
        let Stored::Read { rows, left } = self else { return Ok(None) };
        if *left == 0 {
            return Ok(None);
        }
        let mut length = [0; LENGTH_BYTES];
        rows.read_exact(&mut length).map_err(failed)?;
        let length = u32::from_le_bytes(length);
        let mut row = vec![0; length as usize];
        rows.read_exact(&mut row).map_err(failed)?;
        *left = left.saturating_sub(u64::from(length) + LENGTH_BYTES as u64);
        tagged::read_row(&row).map(Some)
    }
}

/// For a portal that hands them out later.
impl Output for KeptRows {
    fn row(&mut self, row: Row, _: &mut ExecContext<'_>) -> Result<()> {
        self.push(&row)
    }
}

pub(super) fn failed(error: io::Error) -> SqlError {
    let state = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => SqlState::DISK_FULL,
        _ => SqlState::IO_ERROR,
    };
    SqlError::new(state, format!("could not keep rows in a temporary file: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{MemoryLimits, Total};

    fn row(number: i32) -> Row {
        vec![Datum::Int4(number), Datum::text("x".repeat(number as usize % 50)), Datum::Null]
    }

    #[test]
    fn rows_come_in_their_order_wherever_they_are() {
        let total = Arc::new(Total::default());
        for (count, rows_bytes, in_file) in
            [(0, 100, false), (10, 10_000, false), (5000, 1000, true), (3, 0, true)]
        {
            let limits = MemoryLimits { rows_bytes, ..MemoryLimits::default() };
            let account = Account::new(total.clone(), Arc::new(limits));
            let mut kept = KeptRows::new(account).unwrap();
            (0..count).try_for_each(|number| kept.push(&row(number))).unwrap();
            assert_eq!(total.read().file_bytes > 0, in_file);
            assert!(total.read().bytes < 4096.max(rows_bytes as u64 * 2), "{:?}", total.read());
            for number in 0..count {
                let read = kept.next().unwrap();
                assert_eq!(format!("{read:?}"), format!("{:?}", Some(row(number))));
            }
            assert!(kept.next().unwrap().is_none());
            drop(kept);
            assert_eq!((total.read().bytes, total.read().file_bytes), (0, 0));
        }
    }

    #[test]
    fn behind_rows_that_cannot_be_read_none_come() {
        let limits = MemoryLimits { rows_bytes: 100, ..MemoryLimits::default() };
        let mut kept = KeptRows::new(Account::new(Arc::default(), Arc::new(limits))).unwrap();
        let mut count = 0;
        while count < 50 || kept.memory.is_empty() {
            kept.push(&row(count)).unwrap();
            count += 1;
        }
        kept.next().unwrap();
        let Some(Stored::Read { left, .. }) = &mut kept.file else { panic!("no file is read") };
        // The file seems to be cut.
        *left += 1;
        let mut read = 1;
        while let Ok(row) = kept.next() {
            assert!(row.is_some());
            read += 1;
        }
        assert!(read < count, "{read} of {count}");
        for _ in 0..3 {
            assert_eq!(kept.next().unwrap_err().state(), SqlState::IO_ERROR);
        }
    }

    #[test]
    fn without_a_file_the_limit_of_the_session_holds() {
        let limits = MemoryLimits {
            session_bytes: 100_000,
            rows_bytes: 1000,
            directory: Some("/nonexistent".into()),
            ..MemoryLimits::default()
        };
        let mut kept = KeptRows::new(Account::new(Arc::default(), Arc::new(limits))).unwrap();
        let refused = (0..1000).try_for_each(|number| kept.push(&row(number))).unwrap_err();
        assert_eq!(refused.state(), SqlState::IO_ERROR);
    }

    #[test]
    fn when_all_files_are_taken_the_limit_of_the_session_holds() {
        let total = Arc::new(Total::default());
        let limits = MemoryLimits { session_bytes: 300_000, rows_bytes: 1000, ..MemoryLimits::default() };
        let account = Account::new(total, Arc::new(limits));
        let files: Vec<RowsFile> = std::iter::from_fn(|| account.open_file().unwrap()).collect();
        let mut kept = KeptRows::new(account.clone()).unwrap();
        let refused = (0..100_000).try_for_each(|number| kept.push(&row(number))).unwrap_err();
        assert_eq!(refused.state(), SqlState::OUT_OF_MEMORY);
        drop((kept, files));
        assert!(account.open_file().unwrap().is_some(), "a file's place is free when it has gone");
    }
}
