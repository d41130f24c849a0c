//! The files of the disks: their names, and how they are made.

use crate::{
    Result,
    disk::{Disk, File, LIST_FILES},
    page::PAGE_BYTES,
    store::shadow::{
        page_table::place::SUPERBLOCK_PAGES,
        superblock::{DiskTable, Superblock},
    },
    sync::Arc,
};

/// The file of a disk, which holds all its pages.
pub const FILE: &str = "pages";
/// Its name until it is a database.
pub const UNFINISHED_FILE: &str = "pages.new";

/// Returns the identity of a disk that is added under this number after this batch.
pub fn disk_identity(database: u64, disk: usize, batch: u64) -> u64 {
    let bytes = [database, disk as u64, batch].map(u64::to_le_bytes).concat();
    let (low, high) = (crc32c::crc32c(&bytes), crc32c::crc32c(&bytes[..20]));
    database.rotate_left(disk as u32) ^ u64::from(low) ^ u64::from(high) << 32
}

/// Makes the file of a new disk, under the name of an unfinished one, with this superblock in all places.
pub fn make_file(
    disk: &dyn Disk,
    superblock: &Superblock,
    table: &DiskTable,
    number: usize,
) -> Result<Arc<dyn File>> {
    let file = disk.open(UNFINISHED_FILE, true)?;
    file.truncate(0)?;
    file.allocate(SUPERBLOCK_PAGES * PAGE_BYTES as u64)?;
    superblock.write_all(&*file, table, number)?;
    file.sync()?;
    Ok(file)
}

/// Returns the name of a file on a disk that is not the rest of an interrupted creation, if there is one.
pub fn foreign_file(disk: &dyn Disk) -> Result<Option<String>> {
    Ok(disk.list()?.into_iter().find(|name| name != UNFINISHED_FILE && !LIST_FILES.contains(&name.as_str())))
}

/// Returns the name of a disk's file, for messages.
pub fn file_name(disk: usize) -> String {
    match disk {
        0 => FILE.into(),
        disk => format!("{FILE} (disk {disk})"),
    }
}
