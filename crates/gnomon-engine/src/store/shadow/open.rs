//! Opening a store: finding its newest durable state on its disks, and making one.
//!
//! Promises: opening reads the superblocks and what the newest lists, however large the store is. What it finds is
//! durable on every disk before anything is served. A disk that is missing, or was used without the others, is told of;
//! a mirrored store is opened without it only if the caller says so, since what was committed while it alone was there
//! is on it alone.

use std::collections::BTreeSet;

use super::{
    ShadowStore,
    allocator::{Allocator, space::Space, spaces::Spaces},
    batcher::Batcher,
    cleaner::Cleaner,
    counters::{Counted, Counters},
    mirror::{
        FoundCopies, Mirror,
        disks::{Disks, Member},
        files::{FILE, UNFINISHED_FILE, disk_identity, file_name, foreign_file, make_file},
        repair::Repairer,
    },
    page_table::{PageTable, node::PageEntry, place::DISKS_MAX},
    snapshots::Snapshots,
    superblock::{self, DiskEntry, DiskState, DiskTable, LogMark, Superblock, SuperblockCopy},
};
use crate::{
    Csn, Error, Result,
    disk::{Disk, File},
    failpoint::Failpoints,
    page::{PAGE_BYTES, PageSize, pool::Pool},
    store::commits::Commits,
    sync::{Arc, Line, Mutex},
};

/// How a store is opened.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// Make the store if there is none, with this identity.
    pub create: Option<u64>,
    /// The size of the physical pages of a new store, and of its smallest page: up to 4 KiB.
    pub unit: PageSize,
    /// True if a new store of several disks is mirrored.
    pub mirrored: bool,
    /// True to go on without disks that are missing.
    pub degraded: bool,
    /// The buffer pool's size in bytes.
    pub pool_bytes: usize,
    /// True if nothing is to be written.
    pub read_only: bool,
}

/// The state that was found on the disks that were given.
struct Found {
    newest: SuperblockCopy,
    /// The file of each disk that belongs to the newest state, by its number, and which of those given it is.
    files: [Option<(Arc<dyn File>, usize)>; DISKS_MAX],
    /// Disks of the newest state that are missing, or were left behind.
    missing: Vec<usize>,
    /// The reasons why some of them were left behind.
    reports: Vec<String>,
    /// True if every copy of the superblock on every disk is whole.
    superblocks_whole: bool,
}

impl Found {
    fn file(&self, disk: usize) -> Option<Arc<dyn File>> {
        self.files.get(disk)?.as_ref().map(|(file, _)| file.clone())
    }

    fn present(&self) -> impl Iterator<Item = (usize, &Arc<dyn File>)> {
        let files = self.files.iter().enumerate();
        files.filter_map(|(disk, file)| Some((disk, &file.as_ref()?.0)))
    }
}

impl ShadowStore {
    /// Opens the store on one disk; see [`ShadowStore::open_on`].
    #[cfg(test)]
    pub fn open(
        disk: &dyn Disk,
        create: Option<u64>,
        pool_bytes: usize,
        read_only: bool,
    ) -> Result<ShadowStore> {
        let unit = PageSize::DEFAULT;
        let how = Opening { create, unit, mirrored: false, degraded: false, pool_bytes, read_only };
        ShadowStore::open_on(&[disk], how)
    }

    /// Opens the store on its disks, in any order, or makes one if there is none and `how` says so.
    /// Reads the superblocks only, however large the store is.
    pub fn open_on(disks: &[&dyn Disk], how: Opening) -> Result<ShadowStore> {
        let mut files: Vec<Option<Arc<dyn File>>> = Vec::new();
        for disk in disks {
            let open = || -> std::io::Result<Option<Arc<dyn File>>> {
                let has_file = disk.list()?.iter().any(|name| name == FILE);
                // Not to make it, but for its name to be durable: a crash may have come before that.
                has_file.then(|| disk.open(FILE, !how.read_only)).transpose()
            };
            files.push(match open() {
                // As good as not there.
                Err(_) if how.degraded && disks.len() > 1 => None,
                file => file?,
            });
        }
        if Self::is_unmade(&files)? {
            let Some(database) = how.create else {
                return Err(not_a_database(format!(
                    "it has no file '{FILE}'; create a database there first"
                )));
            };
            files = Self::create(disks, database, how)?;
        }
        let mut found = Self::find(files, how.degraded)?;
        let is_clean = found.newest.superblock.closed && found.superblocks_whole && found.missing.is_empty();
        if !is_clean && !how.read_only {
            Self::recover(&mut found)?;
        }
        if !how.read_only {
            Self::cut_part_of_page(&found)?;
        }
        Self::assemble(&found, how)
    }

    /// True if there is no database yet: no disk has a file, or the making of one was cut short when some had.
    fn is_unmade(files: &[Option<Arc<dyn File>>]) -> Result<bool> {
        // The first disk gets its name last.
        if files.first().is_none_or(Option::is_some) {
            return Ok(false);
        }
        for file in files.iter().flatten() {
            let copies = superblock::read_copies(&**file)?;
            if !copies.iter().flatten().all(|copy| copy.superblock.depth == 0)
                || copies.iter().any(Result::is_err)
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Finds the newest durable state.
    fn find(given: Vec<Option<Arc<dyn File>>>, degraded: bool) -> Result<Found> {
        let mut copies = Vec::new();
        let mut superblocks_whole = true;
        // Which disk each of those given is.
        let mut owners: Vec<Option<SuperblockCopy>> = Vec::new();
        for file in &given {
            let on_disk = match file {
                Some(file) => match superblock::read_copies(&**file) {
                    // As good as not there.
                    Err(_) if degraded && given.len() > 1 => Vec::new(),
                    copies => copies?.into(),
                },
                None => Vec::new(),
            };
            superblocks_whole &= on_disk.iter().all(Result::is_ok);
            owners.push(on_disk.iter().flatten().max_by_key(|copy| copy.superblock.batch).cloned());
            copies.extend(on_disk);
        }
        let mut numbers = BTreeSet::new();
        for owner in owners.iter().flatten() {
            let first = owners.iter().flatten().next().expect("this is one");
            if owner.superblock.database != first.superblock.database {
                return Err(not_a_database(
                    "of the directories that belong together some hold another database, perhaps one that was made when the right directory was missing: move it out of the way".into(),
                ));
            }
            if !numbers.insert((owner.disk, identity_of(owner))) {
                return Err(not_a_database(format!(
                    "two of the directories hold disk {}; name each once",
                    owner.disk
                )));
            }
        }
        // Of a disk that was left behind, the superblocks of its time are no state of today.
        let by_number = |disk: usize| -> Option<Arc<dyn File>> {
            let is_it =
                |owner: &Option<SuperblockCopy>| owner.as_ref().is_some_and(|owner| owner.disk == disk);
            let newest = (0..given.len())
                .filter(|&at| is_it(&owners[at]))
                .max_by_key(|&at| owners[at].as_ref().map(|owner| owner.superblock.batch));
            given[newest?].clone()
        };
        let newest = superblock::newest(&by_number, &copies)?;
        let mirrored = newest.disks.mirrored;
        let least = least_batch(&newest, &copies);
        let mut found = Found {
            newest,
            files: [const { None }; DISKS_MAX],
            missing: Vec::new(),
            reports: Vec::new(),
            superblocks_whole,
        };
        for (number, entry) in found.newest.disks.present() {
            let at = owners.iter().position(|owner| {
                let owner = owner.as_ref();
                owner.is_some_and(|owner| owner.disk == number && identity_of(owner) == Some(entry.identity))
            });
            let old = at.and_then(|at| left_behind(owners[at].as_ref()?, &found.newest, least));
            match (at.and_then(|at| Some((given[at].clone()?, at))), old) {
                (Some(_), Some(detail)) if mirrored && degraded => {
                    found.reports.push(format!("{}: {detail}", file_name(number)));
                    found.missing.push(number);
                }
                (Some(_), Some(detail)) => {
                    return Err(Error::Mismatch {
                        file: file_name(number),
                        detail: with_advice(detail, mirrored),
                    });
                }
                (Some(file), None) => found.files[number] = Some(file),
                (None, _) => found.missing.push(number),
            }
        }
        for owner in owners.iter().flatten() {
            let calls_lost = |one: &SuperblockCopy, other: &SuperblockCopy| {
                one.disks.disks.get(other.disk).is_some_and(|entry| {
                    entry.state == DiskState::Lost && Some(entry.identity) == identity_of(other)
                })
            };
            if calls_lost(owner, &found.newest) && calls_lost(&found.newest, owner) {
                return Err(not_a_database(format!(
                    "disks {} and {} were each used without the other, and hold different states: open the one that is right with the other's directory out of the way, then add that, emptied, as a fresh disk",
                    owner.disk, found.newest.disk
                )));
            }
        }
        let used = |disk: usize| found.newest.disks.disks[disk].used;
        let most = found.present().map(|(disk, _)| used(disk)).max().unwrap_or_default();
        // A disk that is being filled has fewer pages than the one that it is filled from.
        let lacks = |disk: &usize| !found.newest.superblock.copies_whole && used(*disk) > most;
        if mirrored && degraded && (found.missing.len() > 1 || found.missing.iter().any(lacks)) {
            return Err(not_a_database(format!(
                "disk {} is missing, and pages have copies nowhere else: going on without it would lose them for good; bring it back, or restore a backup",
                found.missing[0]
            )));
        }
        if let Some(&disk) = found.missing.first()
            && !(mirrored && degraded && found.present().next().is_some())
        {
            return Err(Error::DiskMissing { disk, mirrored });
        }
        for (number, file) in found.present() {
            let unit = found.newest.superblock.unit.bytes() as u64;
            let (pages, end) = (file.len()? / unit, found.newest.disks.disks[number].end);
            if pages < end && !mirrored {
                return Err(Error::Corrupt {
                    file: file_name(number),
                    page: pages,
                    detail: format!("the file ends here, but should have {end} pages: restore a backup"),
                });
            }
        }
        Ok(found)
    }

    /// Cuts a part of a page at the end of a file. A file that was to grow when the disk was full, or at a crash, may
    /// end within a page, which is not in use.
    fn cut_part_of_page(found: &Found) -> Result<()> {
        let unit = found.newest.superblock.unit.bytes() as u64;
        for (_, file) in found.present() {
            let len = file.len()?;
            if !len.is_multiple_of(unit) {
                file.truncate(len / unit * unit)?;
            }
        }
        Ok(())
    }

    /// Makes sure that the state found is durable: after a crash of the process alone, or a sync that failed, what can
    /// be read may not be on the disks.
    fn recover(found: &mut Found) -> Result<()> {
        let files = |disk: usize| found.file(disk);
        for (number, file) in found.present() {
            // Pages that a mirrored disk has lost at its end are found to be damaged, and repaired from the copies.
            let len = found.newest.disks.disks[number].end * found.newest.superblock.unit.bytes() as u64;
            if file.len()? < len {
                file.allocate(len)?;
            }
        }
        found.newest.write_listed(&files)?;
        found.present().try_for_each(|(_, file)| file.sync())?;
        let mut table = found.newest.disks.clone();
        for &disk in &found.missing {
            table.disks[disk].state = DiskState::Lost;
        }
        let copies_whole = found.newest.superblock.copies_whole && found.missing.is_empty();
        let superblock = Superblock { closed: false, copies_whole, ..found.newest.superblock };
        let (disk, place) = (found.newest.disk, found.newest.place);
        let present: Vec<(usize, &dyn File)> = found.present().map(|(disk, file)| (disk, &**file)).collect();
        let superblock = renew(&present, superblock, &table, disk, place)?;
        // And the pair that it stood in.
        let superblock = superblock.of_new_run();
        for (disk, file) in &present {
            superblock.write(*file, &table, *disk, &[])?;
        }
        present.iter().try_for_each(|(_, file)| file.sync())?;
        found.newest.superblock = superblock;
        found.newest.disks = table;
        Ok(())
    }

    /// Makes the store of the state that was found.
    fn assemble(found: &Found, how: Opening) -> Result<ShadowStore> {
        let Found { newest, .. } = found;
        let superblock = newest.superblock;
        let mirrored = newest.disks.mirrored;
        let counters = Arc::<Counters>::default();
        let disks = Disks::new(mirrored, superblock.unit);
        let mut spaces = Spaces::new(mirrored, (PAGE_BYTES / superblock.unit.bytes()) as u64);
        for (number, entry) in newest.disks.disks.iter().enumerate() {
            match (&found.files[number], entry.state) {
                (Some((file, given)), _) => {
                    let counted = Counted { file: file.clone(), counters: counters.clone() };
                    disks.add(number, Member::new(Arc::new(counted), entry.identity, *given), *entry);
                    // The file can be longer than the superblock knows, if a crash came after it grew.
                    let file_pages = (file.len()? / superblock.unit.bytes() as u64).max(entry.end);
                    spaces.add(number, Space::new(file_pages, entry.used, entry.cursor));
                }
                (None, DiskState::Lost | DiskState::Present) => disks.add_lost(number, *entry),
                (None, DiskState::Absent) => {}
            }
        }
        let failpoints = Failpoints::default();
        let pool = Pool::new(how.pool_bytes);
        let commits = Arc::new(Commits::new(superblock.csn, how.read_only, failpoints.clone()));
        let space = Arc::new(Line(Mutex::new(spaces)));
        let copies = FoundCopies {
            whole: superblock.copies_whole && found.missing.is_empty(),
            wants_disk: mirrored && found.present().count() < 2,
            reports: found.reports.clone(),
        };
        let mirror =
            Mirror::new(disks, space.clone(), superblock.database, counters, copies, failpoints.clone());
        let mirror = Arc::new(mirror);
        let table = Arc::new(PageTable::new(superblock, mirror.clone(), pool.clone(), failpoints.clone()));
        let allocator =
            Arc::new(Allocator::new(commits.clone(), mirror.clone(), table.clone(), space, superblock.unit));
        let snapshots = Arc::new(Snapshots::new(mirror.clone(), table.clone(), allocator.clone()));
        let batcher = Arc::new(Batcher::new(
            commits.clone(),
            mirror.clone(),
            table.clone(),
            allocator.clone(),
            snapshots.clone(),
            pool,
            failpoints.clone(),
        ));
        Ok(ShadowStore {
            cleaner: Cleaner::new(&batcher),
            repairer: Repairer::new(&batcher),
            commits,
            mirror,
            table,
            allocator,
            snapshots,
            batcher,
            failpoints,
        })
    }

    /// Makes a database on empty disks. Gives their files.
    fn create(disks: &[&dyn Disk], database: u64, how: Opening) -> Result<Vec<Option<Arc<dyn File>>>> {
        let Opening { mirrored, unit, .. } = how;
        let root_pages = superblock::physical_pages(unit);
        if disks.len() > DISKS_MAX || mirrored && disks.len() < 2 {
            return Err(Error::BadOption(format!(
                "a database has 1 to {DISKS_MAX} disks, and 2 at least if it is mirrored, but {} are given",
                disks.len()
            )));
        }
        let mut table = DiskTable { mirrored, disks: Vec::new() };
        for (number, disk) in disks.iter().enumerate() {
            if let Some(other) = foreign_file(*disk)?.filter(|name| name != FILE) {
                return Err(not_a_database(format!(
                    "it has other files, such as '{other}'; name an empty directory or a new one"
                )));
            }
            table.disks.push(DiskEntry {
                identity: disk_identity(database, number, 0),
                end: root_pages,
                used: root_pages,
                cursor: root_pages,
                state: DiskState::Present,
            });
        }
        let superblock = Superblock {
            database,
            unit,
            batch: 0,
            csn: Csn(0),
            // Number 0 is the first bitmap's.
            logical_end: 1,
            used: disks.len() as u64 * root_pages,
            depth: 0,
            closed: true,
            copies_whole: true,
            table: PageEntry::default(),
            log: LogMark::default(),
        };
        // A crash leaves files of the other name, or such of new databases, which are no database yet.
        let mut files = Vec::new();
        for (number, disk) in disks.iter().enumerate() {
            files.push(make_file(*disk, &superblock, &table, number)?);
        }
        for disk in disks.iter().rev() {
            disk.rename(UNFINISHED_FILE, FILE)?;
        }
        Ok(files.into_iter().map(Some).collect())
    }
}

/// Writes the superblock anew under the number of a new run, into the other pairs of copies, durably. It was read on
/// disk `read_on` at `place`.
///
/// After a sync that failed it may have been read from memory only, and the other pair may be all that the disk has. So
/// it is made durable first in its own pair, beside the copy that was read: if the disk does have that, it survives
/// there; if not, the other pair holds the state. On the other disks it may not be in that pair at all.
fn renew(
    files: &[(usize, &dyn File)],
    superblock: Superblock,
    table: &DiskTable,
    read_on: usize,
    place: u64,
) -> Result<Superblock> {
    for (disk, file) in files {
        if *disk == read_on {
            file.write_at((place ^ 1) * PAGE_BYTES as u64, &superblock.encode(table, *disk, &[]))?;
        } else {
            superblock.write(*file, table, *disk, &[])?;
        }
    }
    files.iter().try_for_each(|(_, file)| file.sync())?;
    let superblock = superblock.of_new_run();
    for (disk, file) in files {
        superblock.write(*file, table, *disk, &[])?;
    }
    files.iter().try_for_each(|(_, file)| file.sync())?;
    Ok(superblock)
}

/// Returns the batch that every disk of a state had durably before the newest was begun.
fn least_batch(
    newest: &SuperblockCopy,
    copies: &[Result<SuperblockCopy, superblock::SuperblockFault>],
) -> u64 {
    // Superblocks are written to the pairs of copies in turn, so the other pair on that disk has the one before.
    let on_it = copies.iter().flatten().filter(|copy| copy.disk == newest.disk);
    let before =
        on_it.map(|copy| copy.superblock.batch).filter(|batch| *batch < newest.superblock.batch).max();
    before.unwrap_or(newest.superblock.batch.saturating_sub(BATCHES_OF_RUN_MAX))
}

/// A batch has a number that is by so much larger at most than that of the one before ([`Superblock::of_new_run`]).
const BATCHES_OF_RUN_MAX: u64 = 4;

/// Returns the reason if a disk's file is not as it was when the newest state was written. Each batch is durable on all
/// disks before the next one is begun, and a disk that fails is lost by the next superblock.
fn left_behind(owner: &SuperblockCopy, newest: &SuperblockCopy, least: u64) -> Option<String> {
    let (its, new) = (&owner.superblock, &newest.superblock);
    let state = |superblock: &Superblock| (superblock.csn, superblock.table, superblock.logical_end);
    if its.batch < least {
        return Some(format!(
            "it is an older copy, of batch {} (commit {}), and the others have batch {} (commit {})",
            its.batch, its.csn, new.batch, new.csn
        ));
    }
    (its.batch == new.batch && state(its) != state(new)).then(|| {
        format!("its batch {} is another one than that of the others: it was used without them", its.batch)
    })
}

fn with_advice(detail: String, mirrored: bool) -> String {
    match mirrored {
        true => format!(
            "{detail}; put the newest one back, or open the database degraded (`--degraded`), without it, and add its directory, emptied, as a fresh disk"
        ),
        false => format!("{detail}; put the newest one back, or restore a backup"),
    }
}

fn identity_of(copy: &SuperblockCopy) -> Option<u64> {
    copy.disks.disks.get(copy.disk).map(|entry| entry.identity)
}

fn not_a_database(detail: String) -> Error {
    Error::NotADatabase { path: String::new(), detail }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::disk::SimDisk;

    /// The copy that was read, and the other pair, are not written before a copy is durable beside the first.
    #[test]
    fn renewing_writes_one_place_at_a_time() {
        let disk = SimDisk::new(1);
        drop(ShadowStore::open(&disk, Some(7), 1 << 20, false).unwrap());
        let file = disk.open(FILE, false).unwrap();
        let copies = superblock::read_copies(&*file).unwrap();
        let old = copies[0].clone().unwrap();
        let events = disk.events() as usize;
        let renewed = renew(&[(0, &*file)], old.superblock, &old.disks, 0, 1).unwrap();
        let traced: Vec<String> = disk.trace()[events..].iter().map(ToString::to_string).collect();
        let expected = ["write pages 0+4096", "sync pages", "write pages 8192+8192", "sync pages"];
        assert!(traced.iter().zip(expected).all(|(event, end)| event.ends_with(end)), "{traced:?}");
        assert_eq!(renewed, Superblock { batch: old.superblock.batch + 3, ..old.superblock });
    }
}
