//! The rows that a cursor has returned, for going back to them.

use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};

use gnomon_engine::sync::Arc;

use super::kept::failed;
use crate::{
    Result,
    memory::{Account, Held, RowsFile},
    types::{Datum, Row, tagged},
};

/// Rows by their number: the first ones in a temporary file, once they are many, the others in memory.
pub(crate) struct PassedRows {
    account: Arc<Account>,
    file: Option<RowsFile>,
    /// Number of bytes of the file.
    file_bytes: u64,
    memory: Vec<u8>,
    /// Where each row begins, counted over the file and then the memory.
    starts: Vec<u64>,
    /// The memory that all of this takes.
    held: Held,
}

impl PassedRows {
    /// No rows, of a session with this account.
    pub(crate) fn new(account: Arc<Account>) -> Result<PassedRows> {
        let held = account.hold(0)?;
        Ok(PassedRows { account, file: None, file_bytes: 0, memory: Vec::new(), starts: Vec::new(), held })
    }

    /// True if they have more bytes than rows may have in memory.
    pub(crate) fn are_many(&self) -> bool {
        self.file.is_some() || self.memory.len() > self.account.limits().rows_bytes
    }

    /// Adds a row.
    ///
    /// # Errors
    /// 53200 if neither memory nor a file takes it, 53100 for a full disk.
    pub(crate) fn push(&mut self, row: &[Datum]) -> Result<()> {
        self.starts.push(self.file_bytes + self.memory.len() as u64);
        tagged::write_row(row, &mut self.memory)?;
        if self.memory.len() > self.account.limits().rows_bytes {
            self.store()?;
        }
        self.held.set(self.memory.capacity() + self.starts.capacity() * size_of::<u64>())
    }

    /// Moves the rows from memory to the file, if there is one to be had.
    fn store(&mut self) -> Result<()> {
        if self.file.is_none() {
            self.file = self.account.open_file().map_err(failed)?;
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        file.seek(SeekFrom::Start(self.file_bytes)).map_err(failed)?;
        file.write_all(&self.memory).map_err(failed)?;
        self.file_bytes += self.memory.len() as u64;
        self.memory = Vec::new();
        Ok(())
    }

    /// Returns the row of a number, from 0; none beyond the last.
    ///
    /// # Errors
    /// 58030 if the file cannot be read.
    pub(crate) fn get(&mut self, number: u64) -> Result<Option<Row>> {
        let Ok(number) = usize::try_from(number) else { return Ok(None) };
        let Some(start) = self.starts.get(number).copied() else { return Ok(None) };
        let all = self.file_bytes + self.memory.len() as u64;
        let end = self.starts.get(number + 1).copied().unwrap_or(all);
        if start >= self.file_bytes {
            let (start, end) = ((start - self.file_bytes) as usize, (end - self.file_bytes) as usize);
            return tagged::read_row(self.memory.get(start..end).unwrap_or_default()).map(Some);
        }
        let mut row = vec![0; usize::try_from(end - start).unwrap_or(0)];
        let Some(file) = &mut self.file else { return Err(failed(io::ErrorKind::NotFound.into())) };
        file.seek(SeekFrom::Start(start)).map_err(failed)?;
        file.read_exact(&mut row).map_err(failed)?;
        tagged::read_row(&row).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{MemoryLimits, Total};

    #[test]
    fn rows_are_found_by_number_wherever_they_are() {
        let total = Arc::new(Total::default());
        for (rows_bytes, in_file) in [(1 << 20, false), (1000, true), (0, true)] {
            let limits = MemoryLimits { rows_bytes, ..MemoryLimits::default() };
            let account = Account::new(total.clone(), Arc::new(limits));
            let mut passed = PassedRows::new(account).expect("no rows");
            let row =
                |number: u64| vec![Datum::Int8(number as i64), Datum::text("x".repeat(number as usize % 90))];
            let mut seed = 7_u64;
            for number in 0..2000 {
                passed.push(&row(number)).expect("a row");
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
                let wanted = (seed >> 33) % (number + 1);
                let found = passed.get(wanted).expect("to be read");
                assert_eq!(format!("{found:?}"), format!("{:?}", Some(row(wanted))));
            }
            assert!(passed.get(2000).expect("nothing to read").is_none());
            assert_eq!((total.read().file_bytes > 0, passed.are_many()), (in_file, in_file));
            drop(passed);
            assert_eq!((total.read().bytes, total.read().file_bytes), (0, 0));
        }
    }
}
