//! The places of pages: the file of pages, in which each page stands where its number says.

use crate::{
    Error, PageId, Result,
    disk::File,
    page::{Identity, Page, PageSize},
    store::read_twice,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{FILE, root::PAGES_AT};

/// The file of pages.
pub struct Places {
    file: Arc<dyn File>,
    database: u64,
    /// The size of the smallest pages.
    pub unit: PageSize,
    pub placed_pages: AtomicU64,
    pub placed_bytes: AtomicU64,
    pub syncs: AtomicU64,
}

impl Places {
    pub fn new(file: Arc<dyn File>, database: u64, unit: PageSize) -> Places {
        let (placed_pages, placed_bytes, syncs) = Default::default();
        Places { file, database, unit, placed_pages, placed_bytes, syncs }
    }

    pub fn file(&self) -> &dyn File {
        &*self.file
    }

    /// Returns the database's identity.
    pub fn database(&self) -> u64 {
        self.database
    }

    /// Returns the number of smallest pages that the file has room for.
    pub fn units(&self) -> Result<u64> {
        Ok(self.file.len()?.saturating_sub(PAGES_AT) / self.unit.bytes() as u64)
    }

    /// Gives the file room for so many smallest pages.
    pub fn allocate(&self, units: u64) -> std::io::Result<()> {
        self.file.allocate(PAGES_AT + units * self.unit.bytes() as u64)
    }

    /// Makes what was written durable.
    pub fn sync(&self) -> Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        Ok(self.file.sync()?)
    }

    pub fn corrupt(&self, page: u64, detail: impl Into<String>) -> Error {
        let (file, page) = self.place_of(PageId(page));
        Error::Corrupt { file, page, detail: detail.into() }
    }

    /// Where a page is: the name of the file, and which of its physical pages.
    pub fn place_of(&self, page: PageId) -> (String, u64) {
        (FILE.into(), page.0 + PAGES_AT / self.unit.bytes() as u64)
    }

    /// Returns the identity that the page at a place has. It does not depend on when the page was written.
    fn identity_of(&self, page: u64) -> Identity {
        Identity { database: self.database, level: 0, logical: page, batch: 0, early: false }
    }

    fn offset_of(&self, page: u64) -> u64 {
        PAGES_AT + page * self.unit.bytes() as u64
    }

    /// Reads a page.
    pub fn read(&self, page: u64) -> Result<Page> {
        let past_end = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => self.corrupt(page, "it lies past the end of the file"),
            _ => error.into(),
        };
        let offset = self.offset_of(page);
        let mut block = vec![0; self.unit.bytes()];
        read_twice(&*self.file, offset, &mut block).map_err(past_end)?;
        let size = Page::size_told(&block).filter(|size| size.bytes() >= block.len());
        if let Some(size) = size.filter(|size| size.bytes() > self.unit.bytes()) {
            block.resize(size.bytes(), 0);
            let (_, rest) = block.split_at_mut(self.unit.bytes());
            read_twice(&*self.file, offset + self.unit.bytes() as u64, rest).map_err(past_end)?;
        }
        Page::unseal_expected(&block, self.identity_of(page)).map_err(|detail| self.corrupt(page, detail))
    }

    /// Writes pages, in the order of their numbers, to their places; neighbours together.
    pub fn write<'p>(&self, pages: impl Iterator<Item = (u64, &'p Page)>) -> Result<()> {
        let mut run: Vec<u8> = Vec::new();
        let mut at = PAGES_AT;
        let (mut count, mut bytes) = (0, 0);
        for (page, image) in pages {
            let offset = self.offset_of(page);
            if !run.is_empty() && offset != at + run.len() as u64 {
                self.file.write_at(at, &run)?;
                run.clear();
            }
            if run.is_empty() {
                at = offset;
            }
            let begin = run.len();
            run.resize(begin + image.size().bytes(), 0);
            image.seal(self.identity_of(page), &mut run[begin..]);
            count += 1;
            bytes += image.size().bytes() as u64;
        }
        if !run.is_empty() {
            self.file.write_at(at, &run)?;
        }
        self.placed_pages.fetch_add(count, Ordering::Relaxed);
        self.placed_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}
