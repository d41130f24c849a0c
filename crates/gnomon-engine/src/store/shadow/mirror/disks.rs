//! The disks of a store: which are there, reading and writing on them, and going on without one.
//!
//! Promises: what is written is written to every disk that it is meant for and that is still there, on all at the same
//! time; a read goes to the copy whose disk has less to do. In a mirrored store a disk whose writes or syncs fail is
//! *lost*: nothing is asked of it any more, and the next superblock, which is durable before any commit of that batch
//! is acknowledged, says so. When the last disk fails, or one of a store that is not mirrored, that is an error like
//! any other of the disk, and the caller stops the store.

use super::Mirror;
use crate::store::shadow::{
    allocator::{space::Space, spaces::Spaces},
    page_table::place::{self, DISKS_MAX, Place},
    superblock::{DiskEntry, DiskState, DiskTable, ListedRun, Superblock},
};
use crate::{
    Error, Result,
    disk::File,
    failpoint::Failpoint,
    page::PageSize,
    store::read_twice,
    sync::{
        Arc, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
        thread,
    },
};

/// The longest write, in bytes, but for a page.
const WRITE_BYTES: usize = 1 << 20;
/// Bytes written between two syncs, about, where syncs of other files should not wait long.
const GENTLE_BYTES: usize = 256 << 10;
/// Bytes of a large batch that go to one disk before another is chosen.
const STRIPE_BYTES: usize = 1 << 20;

/// The disks of a store, by number.
pub struct Disks {
    state: RwLock<State>,
    mirrored: AtomicBool,
    /// True if a disk is lost and no superblock says so yet.
    loss_unrecorded: AtomicBool,
    /// The size of a physical page.
    unit: PageSize,
    /// True if several disks are written at the same time. Tests that count events set it to false.
    pub parallel: AtomicBool,
    /// True if most commits are durable, or count as durable, before their batch is written. Then a batch is not
    /// urgent, and syncs of the log are not to wait long for its writes.
    pub batches_can_wait: AtomicBool,
}

#[derive(Default)]
struct State {
    members: [Option<Arc<Member>>; DISKS_MAX],
    /// The lost disks, as the last superblock with them described them.
    lost: [Option<DiskEntry>; DISKS_MAX],
    /// The disks as the published superblock describes them. The batch that is being built has changed the space
    /// already.
    published: [DiskEntry; DISKS_MAX],
}

/// A disk that is there.
pub struct Member {
    pub file: Arc<dyn File>,
    identity: u64,
    /// Its number among the disks that were given at opening or added since.
    pub given: usize,
    /// Number of pages that are being read or written.
    busy: AtomicU64,
}

impl Member {
    pub fn new(file: Arc<dyn File>, identity: u64, given: usize) -> Member {
        Member { file, identity, given, busy: AtomicU64::new(0) }
    }

    /// Runs `f`, and counts the disk as busy with `pages` pages meanwhile.
    fn busy<T>(&self, pages: u64, f: impl FnOnce(&dyn File) -> T) -> T {
        self.busy.fetch_add(pages, Ordering::Relaxed);
        let done = f(&*self.file);
        self.busy.fetch_sub(pages, Ordering::Relaxed);
        done
    }
}

impl Disks {
    pub fn new(mirrored: bool, unit: PageSize) -> Disks {
        Disks {
            unit,
            state: RwLock::default(),
            mirrored: AtomicBool::new(mirrored),
            loss_unrecorded: AtomicBool::new(false),
            parallel: AtomicBool::new(true),
            batches_can_wait: AtomicBool::new(false),
        }
    }

    /// Adds a disk that the published superblock describes with `entry`.
    pub fn add(&self, disk: usize, member: Member, entry: DiskEntry) {
        let mut state = self.state.write();
        state.published[disk] = entry;
        state.members[disk] = Some(Arc::new(member));
    }

    pub fn add_lost(&self, disk: usize, entry: DiskEntry) {
        self.state.write().lost[disk] = Some(DiskEntry { state: DiskState::Lost, ..entry });
    }

    pub fn lost(&self) -> Vec<(usize, DiskEntry)> {
        let lost = self.state.read().lost;
        lost.into_iter().enumerate().filter_map(|(disk, entry)| Some((disk, entry?))).collect()
    }

    /// Forgets disks that are lost: no page is on them any more.
    pub fn forget(&self, lost: &[usize]) {
        let mut state = self.state.write();
        lost.iter().for_each(|&disk| state.lost[disk] = None);
    }

    /// Returns a number that no disk has.
    pub fn unused(&self) -> Option<usize> {
        let state = self.state.read();
        (0..DISKS_MAX).find(|&disk| state.members[disk].is_none() && state.lost[disk].is_none())
    }

    /// Returns the size of a physical page.
    pub fn unit(&self) -> PageSize {
        self.unit
    }

    pub fn is_mirrored(&self) -> bool {
        self.mirrored.load(Ordering::Acquire)
    }

    pub fn set_mirrored(&self) {
        self.mirrored.store(true, Ordering::Release);
    }

    pub fn member(&self, disk: usize) -> Option<Arc<Member>> {
        self.state.read().members.get(disk)?.clone()
    }

    pub fn is_there(&self, physical: u64) -> bool {
        self.state.read().members.get(place::disk_of(physical)).is_some_and(Option::is_some)
    }

    pub fn present(&self) -> Vec<(usize, Arc<Member>)> {
        let members = &self.state.read().members;
        members.iter().enumerate().filter_map(|(disk, member)| Some((disk, member.clone()?))).collect()
    }

    /// True if a superblock must say that a disk is lost before anything else is acknowledged.
    pub fn has_unrecorded_loss(&self) -> bool {
        self.loss_unrecorded.load(Ordering::Acquire)
    }

    /// Returns where a physical page begins in the file of its disk, in bytes.
    pub fn offset(&self, physical: u64) -> u64 {
        place::page_of(physical) * self.unit.bytes() as u64
    }

    /// Reads pages that follow each other on a disk.
    pub fn read(&self, physical: u64, blocks: &mut [u8]) -> std::io::Result<()> {
        let Some(member) = self.member(place::disk_of(physical)) else {
            return Err(std::io::ErrorKind::NotFound.into());
        };
        let pages = (blocks.len() / self.unit.bytes()) as u64;
        member.busy(pages, |file| read_twice(file, self.offset(physical), blocks))
    }

    /// Returns the copies of a place on disks that are there: first the one whose disk has less to do.
    pub fn readable(&self, place: Place) -> impl Iterator<Item = u64> + use<> {
        let copies = if place.second == 0 {
            // The read will show if it is there.
            [Some(place.first), None]
        } else {
            let state = self.state.read();
            let busy = |copy: u64| {
                let member = state.members[place::disk_of(copy)].as_ref()?;
                Some((member.busy.load(Ordering::Relaxed), copy))
            };
            let mut copies = [busy(place.first), busy(place.second)];
            copies.sort_unstable_by_key(|copy| copy.map_or(u64::MAX, |(busy, _)| busy));
            copies.map(|copy| copy.map(|(_, copy)| copy))
        };
        copies.into_iter().flatten()
    }

    /// Chooses the disks for the next pages, one for each copy. Also returns how many pages at most may go there
    /// before the next choice. `chosen` counts the pages that went to each disk lately; disks in `full` are not used.
    ///
    /// While there is space enough on each, those that have the least to do (Shadows, section 2.4), or else have the
    /// fewest pages; otherwise those with most space, one page after the other, so that all that is promised finds
    /// room.
    pub fn choose(
        &self,
        spaces: &Spaces,
        copies: usize,
        chosen: &[u64; DISKS_MAX],
        full: &[usize],
    ) -> (Vec<usize>, u64) {
        let promised = spaces.promised();
        let candidate = |(disk, space): (usize, &Space)| {
            let busy = self.member(disk).map_or(u64::MAX, |member| member.busy.load(Ordering::Relaxed));
            let ample = space.free() >= promised;
            let order = match ample {
                true => (0, busy.saturating_add(chosen[disk]), space.taken()),
                false => (1, u64::MAX - space.free(), 0),
            };
            (order, disk, ample)
        };
        let mut candidates: Vec<_> =
            spaces.disks().filter(|(disk, _)| !full.contains(disk)).map(candidate).collect();
        candidates.sort_unstable();
        let alternatives = candidates.len() > copies;
        candidates.truncate(copies);
        let ample = candidates.iter().all(|(.., ample)| *ample);
        let pages = match (alternatives, ample) {
            (false, _) => u64::MAX,
            (true, true) => (STRIPE_BYTES / self.unit.bytes()) as u64,
            (true, false) => 1,
        };
        (candidates.into_iter().map(|(_, disk, _)| disk).collect(), pages)
    }
}

/// The state that a superblock describes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum StateOf {
    /// The newest one that is durable.
    Published,
    /// The one that the batch being built makes.
    Built,
}

/// The blocks that a disk writes: for each the page of the disk, and the index of the block.
type Column = Vec<(u64, usize)>;

impl Mirror {
    /// Calls `f` for every disk that is there, on all at the same time. A mirrored store goes on without those that
    /// fail, as long as one does not.
    pub fn on_all(&self, f: impl Fn(usize, &Member) -> std::io::Result<()> + Sync) -> Result<()> {
        let members = self.disks.present();
        let (first, others) = members.split_first().ok_or(Error::Closed)?;
        let failed: Vec<(usize, std::io::Error)> =
            if others.is_empty() || !self.disks.parallel.load(Ordering::Relaxed) {
                let results = members.iter().map(|(disk, member)| (*disk, f(*disk, member)));
                results.filter_map(|(disk, result)| Some((disk, result.err()?))).collect()
            } else {
                thread::scope(|scope| {
                    let f = &f;
                    let spawn = |(disk, member): &(usize, Arc<Member>)| {
                        let (disk, member) = (*disk, member.clone());
                        (disk, scope.spawn(move || f(disk, &member)))
                    };
                    let running: Vec<_> = others.iter().map(spawn).collect();
                    let done = (first.0, f(first.0, &first.1));
                    let joined = running
                        .into_iter()
                        .map(|(disk, running)| (disk, running.join().expect("writing does not panic")));
                    let results = std::iter::once(done).chain(joined);
                    results.filter_map(|(disk, result)| Some((disk, result.err()?))).collect()
                })
            };
        failed.into_iter().try_for_each(|(disk, error)| self.lose(disk, error))
    }

    /// Goes on without a disk, if that is possible.
    pub fn lose(&self, disk: usize, error: std::io::Error) -> Result<()> {
        let mut space = self.space.lock();
        let mut state = self.disks.state.write();
        // Another thread may have noticed first.
        let Some(member) = &state.members[disk] else { return Ok(()) };
        let others = state.members.iter().flatten().count() > 1;
        // If pages lack copies, this disk may have the only ones.
        if !self.disks.is_mirrored() || !others || !self.copies_whole.load(Ordering::Acquire) {
            return Err(error.into());
        }
        let told = if self.failpoints.is_on(Failpoint::LossUnrecorded) {
            DiskState::Present
        } else {
            DiskState::Lost
        };
        let entry = DiskEntry {
            identity: member.identity,
            state: told,
            ..entry_of(&space, disk).unwrap_or_default()
        };
        state.lost[disk] = Some(entry);
        state.members[disk] = None;
        drop(state);
        space.remove(disk);
        drop(space);
        self.disks.loss_unrecorded.store(true, Ordering::Release);
        self.note_missing_copies();
        self.wants_disk.store(true, Ordering::Release);
        self.report(format!("disk {disk} is lost, and the database goes on without it: {error}"));
        Ok(())
    }

    /// Makes everything that was written durable on all disks.
    pub fn sync(&self) -> Result<()> {
        self.on_all(|_, member| member.file.sync())
    }

    /// Returns the disks as the superblock of a state describes them.
    pub fn disk_table(&self, of: StateOf) -> DiskTable {
        let space = self.space.lock();
        let state = self.disks.state.read();
        let mut disks: Vec<DiskEntry> = (0..DISKS_MAX)
            .map(|disk| match (&state.members[disk], state.lost[disk]) {
                (Some(member), _) => {
                    let now = entry_of(&space, disk).unwrap_or_default();
                    let used = match of {
                        StateOf::Published => state.published[disk].used,
                        StateOf::Built => now.used,
                    };
                    DiskEntry { identity: member.identity, used, ..now }
                }
                (None, Some(lost)) => lost,
                (None, None) => DiskEntry::default(),
            })
            .collect();
        while disks.pop_if(|disk| disk.state == DiskState::Absent).is_some() {}
        DiskTable { mirrored: self.disks.is_mirrored(), disks }
    }

    /// Writes a superblock to all disks, and makes it durable there.
    pub fn write_superblock(&self, superblock: &Superblock, listed: &[ListedRun]) -> Result<()> {
        let table = self.disk_table(StateOf::Published);
        self.on_all(|disk, member| {
            superblock.write(&*member.file, &table, disk, listed)?;
            member.file.sync()
        })?;
        self.superblock_written(table);
        Ok(())
    }

    /// Notes that a superblock with this table was written: it is the published one, and the losses in it are recorded.
    pub fn superblock_written(&self, table: DiskTable) {
        let told = |disk: usize| table.disks.get(disk).is_some_and(|entry| entry.state == DiskState::Lost);
        if self.disks.lost().iter().all(|(disk, _)| told(*disk)) {
            self.disks.loss_unrecorded.store(false, Ordering::Release);
        }
        let mut state = self.disks.state.write();
        for (published, entry) in state.published.iter_mut().zip(table.disks) {
            *published = entry;
        }
    }

    /// Writes blocks, each of which is made where it is needed, to the places given, in long writes on each disk;
    /// then calls `then` for each disk.
    pub fn write_blocks<F: Fn(&mut [u8]) + Sync>(
        &self,
        blocks: &[(Place, PageSize, F)],
        then: impl Fn(usize, &dyn File) -> std::io::Result<()> + Sync,
    ) -> Result<()> {
        let mut columns = [const { Column::new() }; DISKS_MAX];
        for (index, (place, ..)) in blocks.iter().enumerate() {
            let skipped =
                if self.failpoints.is_on(Failpoint::SecondCopyUnwritten) { place.second } else { 0 };
            for copy in place.copies().filter(|copy| *copy != skipped) {
                columns[place::disk_of(copy)].push((place::page_of(copy), index));
            }
        }
        columns.iter_mut().for_each(|column| column.sort_unstable());
        self.on_all(|disk, member| {
            let column = &columns[disk];
            let unit = self.unit.bytes();
            let bytes: usize = column.iter().map(|(_, index)| blocks[*index].1.bytes()).sum();
            let unsynced_max =
                if self.disks.batches_can_wait.load(Ordering::Relaxed) { GENTLE_BYTES } else { usize::MAX };
            member.busy((bytes / unit) as u64, |file| {
                let size = |index: usize| blocks[index].1.bytes();
                write_column(file, unit, column, unsynced_max, size, |index, block| blocks[index].2(block))
            })?;
            then(disk, &*member.file)
        })
    }
}

/// Writes blocks of the sizes given, in long writes. Syncs the file after each `unsynced_max` bytes.
fn write_column(
    file: &dyn File,
    unit: usize,
    column: &Column,
    unsynced_max: usize,
    size: impl Fn(usize) -> usize,
    make: impl Fn(usize, &mut [u8]),
) -> std::io::Result<()> {
    let mut buffer = Vec::new();
    let (mut start, mut unsynced) = (0, 0);
    for &(page, index) in column {
        let (offset, bytes) = (page * unit as u64, size(index));
        let full = buffer.len() + bytes > WRITE_BYTES.min(unsynced_max);
        if !buffer.is_empty() && (full || start + buffer.len() as u64 != offset) {
            file.write_at(start, &buffer)?;
            unsynced += buffer.len();
            buffer.clear();
            if unsynced >= unsynced_max {
                file.sync()?;
                unsynced = 0;
            }
        }
        if buffer.is_empty() {
            start = offset;
        }
        let at = buffer.len();
        buffer.resize(at + bytes, 0);
        make(index, &mut buffer[at..]);
    }
    if buffer.is_empty() { Ok(()) } else { file.write_at(start, &buffer) }
}

fn entry_of(spaces: &Spaces, disk: usize) -> Option<DiskEntry> {
    let (_, space) = spaces.disks().find(|(number, _)| *number == disk)?;
    Some(DiskEntry {
        identity: 0,
        end: space.file_end(),
        used: space.reachable(),
        cursor: space.cursor(),
        state: DiskState::Present,
    })
}
