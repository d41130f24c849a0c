//! A simulated disk that does to tests whatever the promises of [`Disk`] leave open, repeatably from a seed.
//!
//! What a process sees (the current bytes) and what a power failure leaves (the durable bytes) are kept apart. Every
//! call that changes something is an event with a number, from 0. A test runs the engine on a disk and then:
//!
//! 1. Crashes it: [`SimDisk::crash_at`] an event. That event is in flight when the machine stops: it fails for its
//!    caller and may or may not have had its effect. Every call after it fails.
//! 2. Takes images of what the crash may leave ([`SimDisk::crash_images`]): new disks, on which the engine recovers.
//!    Each sector that was changed since its file's last sync has in an image any one of the contents that it went
//!    through since then, whichever the other sectors have; so writes are lost, kept, torn between sectors and
//!    reordered, but no sector is torn in itself. The length is any one that the file went through.
//! 3. Or fails calls: a write that fails has written some whole sectors; a sync that fails has made a part durable, and
//!    the rest will not become durable by a later sync (nor, in half of the cases, be read any more), as operating
//!    systems do that mark pages clean before they are written.
//!
//! A name is durable when [`Disk::open`], [`Disk::rename`] or [`Disk::remove`] returns; in flight it may be there or
//! not. Whether the contents of a renamed file are durable is up to its own syncs.
//!
//! Several disks that crash together are parts of one ([`SimDisk::of_parts`]).
//!
//! Not simulated: reads that fail only at certain places (see [`SimDisk::flip_bit`] for damage), and time. Files are at
//! most 4 GiB long.

mod event;
mod file;
mod part;
#[cfg(all(test, not(shuttle)))]
mod tests;

pub use event::{Event, EventKind, Outcome};

use super::{
    Disk, File, check_name,
    sparse::{BLOCK_BYTES, range_end},
};
use crate::{
    Error, Result,
    env::Rng,
    sync::{Arc, Mutex},
};
use file::{Keep, SimFile};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
};

/// The length that no file exceeds, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 30;
/// Number of the latest events that are remembered without [`SimDisk::record_all`].
const HISTORY_EVENTS: usize = 32;

/// A simulated disk. Clones are the same disk, so that a test keeps one while the engine has another.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
    /// Set in handles from [`SimDisk::open_exclusive`], and in the files opened through them.
    hold: Option<Arc<Hold>>,
}

/// Ends the exclusive use of a disk with the last handle or file that shares it.
struct Hold {
    state: Arc<Mutex<State>>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.state.lock().held = false;
    }
}

struct SimHandle {
    state: Arc<Mutex<State>>,
    id: FileId,
    _hold: Option<Arc<Hold>>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FileId(usize);

struct State {
    rng: Rng,
    held: bool,
    /// Every file that ever was, since handles outlive names.
    files: Vec<SimFile>,
    /// The names that the process sees.
    names: BTreeMap<String, FileId>,
    /// The names that survive a crash for certain. Where the two differ, a change is in flight or has failed.
    durable_names: BTreeMap<String, FileId>,
    /// Bytes that the files may reserve together.
    capacity_bytes: Option<u64>,
    plan: Plan,
    crashed: bool,
    events: u64,
    history: VecDeque<Event>,
    history_events_max: usize,
    /// For each part, true if it is there; empty if it is one disk.
    parts: Vec<bool>,
    /// True if a database on its parts is mirrored.
    mirrored: bool,
}

/// The faults that are planned.
#[derive(Default)]
struct Plan {
    crash_at: Option<u64>,
    fail_events: BTreeSet<u64>,
    /// Number of calls of each kind that still succeed before one fails.
    writes_before_failure: Option<u64>,
    syncs_before_failure: Option<u64>,
    /// The event at which a part is removed, and that part.
    remove_part: Option<(u64, usize)>,
    reads_before_failure: Option<u64>,
    /// Number of reads that fail, from that one on.
    reads_failing: u64,
}

/// Counts a call towards a planned failure; true if this is the one that fails.
fn is_due(calls_before_failure: &mut Option<u64>) -> bool {
    match calls_before_failure {
        Some(0) => {
            *calls_before_failure = None;
            true
        }
        Some(calls) => {
            *calls -= 1;
            false
        }
        None => false,
    }
}

fn crash_error() -> io::Error {
    io::Error::other("simulated crash")
}

fn fault_error() -> io::Error {
    io::Error::other("simulated I/O error")
}

impl SimDisk {
    /// An empty disk. The seed decides what the faults without a seed of their own do.
    pub fn new(seed: u64) -> SimDisk {
        SimDisk::from_state(State {
            rng: Rng::from_seed(seed),
            held: false,
            files: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            capacity_bytes: None,
            plan: Plan::default(),
            crashed: false,
            events: 0,
            history: VecDeque::new(),
            history_events_max: HISTORY_EVENTS,
            parts: Vec::new(),
            mirrored: false,
        })
    }

    fn from_state(state: State) -> SimDisk {
        SimDisk { state: Arc::new(Mutex::new(state)), hold: None }
    }

    /// Returns an exclusive handle: [`Error::InUse`] while another such handle, a clone of it, or a file opened
    /// through one lives. Shows that the engine lets go of everything when it is closed.
    pub fn open_exclusive(&self) -> Result<SimDisk> {
        let mut state = self.state.lock();
        if state.held {
            return Err(Error::InUse { path: "the simulated disk".to_owned() });
        }
        state.held = true;
        drop(state);
        let hold = Arc::new(Hold { state: self.state.clone() });
        Ok(SimDisk { state: self.state.clone(), hold: Some(hold) })
    }

    /// Returns the number of events so far, which is that of the next one.
    pub fn events(&self) -> u64 {
        self.state.lock().events
    }

    /// Stops the machine at the event of this number, or at the next one if that has passed.
    pub fn crash_at(&self, event: u64) {
        self.state.lock().plan.crash_at = Some(event);
    }

    /// Stops the machine now, with nothing in flight.
    pub fn crash(&self) {
        self.state.lock().crashed = true;
    }

    /// True if the machine has stopped.
    pub fn has_crashed(&self) -> bool {
        self.state.lock().crashed
    }

    /// Fails the event of this number.
    pub fn fail_event(&self, event: u64) {
        self.state.lock().plan.fail_events.insert(event);
    }

    /// Fails a write, after `calls` more that succeed.
    pub fn fail_write_after(&self, calls: u64) {
        self.state.lock().plan.writes_before_failure = Some(calls);
    }

    /// Fails a sync, after `calls` more that succeed.
    pub fn fail_sync_after(&self, calls: u64) {
        self.state.lock().plan.syncs_before_failure = Some(calls);
    }

    /// Fails a read, after `calls` more that succeed. Reads are no events.
    pub fn fail_read_after(&self, calls: u64) {
        self.fail_reads_after(calls, 1);
    }

    /// Fails `count` reads in a row, after `calls` more that succeed.
    pub fn fail_reads_after(&self, calls: u64, count: u64) {
        let plan = &mut self.state.lock().plan;
        (plan.reads_before_failure, plan.reads_failing) = (Some(calls), count);
    }

    /// Lets the disk run full when `bytes` more are reserved (in blocks of 4 KiB; none means never).
    pub fn full_after(&self, bytes: Option<u64>) {
        let mut state = self.state.lock();
        state.capacity_bytes = bytes.map(|bytes| state.used_bytes() + bytes);
    }

    /// Returns the bytes that the files reserve (in blocks of 4 KiB).
    pub fn used_bytes(&self) -> u64 {
        self.state.lock().used_bytes()
    }

    /// Flips one bit of a file, both where it is read and where it is durable; false if the file does not reach
    /// there.
    pub fn flip_bit(&self, name: &str, offset: u64, bit: u8) -> bool {
        let mut state = self.state.lock();
        let Some(&id) = state.names.get(name) else { return false };
        state.file(id).flip_bit(offset, bit)
    }

    /// Flips a bit chosen by the seed, all bits of the disk being equally likely, and says which: file, offset, bit.
    /// None if there are no bytes.
    pub fn flip_random_bit(&self, seed: u64) -> Option<(String, u64, u8)> {
        let mut rng = Rng::from_seed(seed);
        let mut state = self.state.lock();
        let State { names, files, .. } = &mut *state;
        let total = names.values().map(|id| files[id.0].current.len()).sum();
        let mut offset = rng.below(total);
        let bit = rng.below(8) as u8;
        for (name, id) in names {
            let len = files[id.0].current.len();
            if offset < len {
                files[id.0].flip_bit(offset, bit);
                return Some((name.clone(), offset, bit));
            }
            offset -= len;
        }
        None
    }

    /// Returns the disk that a crash at this moment leaves if nothing unsynced survives.
    pub fn crash_image_synced(&self) -> SimDisk {
        self.image(0, Keep::Nothing)
    }

    /// Returns the disk that a crash at this moment leaves if everything unsynced survives.
    pub fn crash_image_everything(&self) -> SimDisk {
        self.image(0, Keep::Everything)
    }

    /// Returns a disk that a crash at this moment may leave. Images are new disks with no faults planned, endless
    /// space and event numbers from 0, and seeds of their own.
    pub fn crash_image(&self, seed: u64) -> SimDisk {
        let mut rng = Rng::from_seed(seed);
        // Some images lack nearly nothing, some nearly everything.
        let [lost, torn, kept] = [(1, 1, 1), (1, 1, 30), (30, 1, 1), (0, 1, 0), (1, 0, 1)]
            .map(|(lost, torn, kept)| [lost, torn, kept])[rng.below(5) as usize];
        self.image(rng.next_u64(), Keep::Some { lost, torn, kept })
    }

    /// The two extreme images and as many others.
    pub fn crash_images(&self, others: u64) -> impl Iterator<Item = SimDisk> + '_ {
        let extremes = [self.crash_image_synced(), self.crash_image_everything()];
        extremes.into_iter().chain((0..others).map(|seed| self.crash_image(seed)))
    }

    fn image(&self, seed: u64, keep: Keep) -> SimDisk {
        let mut rng = Rng::from_seed(seed);
        let state = self.state.lock();
        let names: BTreeSet<&String> = state.names.keys().chain(state.durable_names.keys()).collect();
        let mut files = Vec::new();
        let mut image_names = BTreeMap::new();
        let mut renamed = BTreeMap::new();
        for name in names {
            let (visible, durable) = (state.names.get(name), state.durable_names.get(name));
            let survivor = match keep {
                Keep::Nothing => durable,
                Keep::Everything => visible,
                // The two names of a file that is being renamed change together.
                Keep::Some { .. }
                    if *renamed.entry(visible.or(durable)).or_insert_with(|| rng.chance(1, 2)) =>
                {
                    durable
                }
                Keep::Some { .. } => visible,
            };
            if let Some(id) = survivor {
                let bytes = state.files[id.0].crash_image(&mut rng, keep);
                image_names.insert(name.clone(), FileId(files.len()));
                files.push(SimFile::from_durable(name.clone(), bytes));
            }
        }
        let (parts, mirrored) = (vec![true; state.parts.len()], state.mirrored);
        drop(state);
        let image = SimDisk::new(rng.next_u64());
        let mut state = image.state.lock();
        state.parts = parts;
        state.mirrored = mirrored;
        state.files = files;
        state.durable_names = image_names.clone();
        state.names = image_names;
        drop(state);
        image
    }

    /// Remembers every event from now on, not only the latest.
    pub fn record_all(&self) {
        self.state.lock().history_events_max = usize::MAX;
    }

    /// The events remembered, oldest first.
    pub fn trace(&self) -> Vec<Event> {
        self.state.lock().history.iter().cloned().collect()
    }

    /// The events remembered, one a line, for the message of a failed test.
    pub fn history(&self) -> String {
        self.trace().iter().map(|event| format!("{event}\n")).collect()
    }
}

impl State {
    fn file(&mut self, id: FileId) -> &mut SimFile {
        &mut self.files[id.0]
    }

    fn used_bytes(&self) -> u64 {
        self.names.values().map(|id| self.files[id.0].reserved.len() as u64 * BLOCK_BYTES as u64).sum()
    }

    /// True if the disk has room for the blocks of a range that the file has not reserved yet.
    fn has_room(&self, id: FileId, offset: u64, len: u64) -> bool {
        let Some(capacity) = self.capacity_bytes else { return true };
        self.used_bytes() + self.files[id.0].unreserved_bytes(offset, len) <= capacity
    }

    fn check_read(&mut self) -> io::Result<()> {
        if self.crashed {
            Err(crash_error())
        } else if is_due(&mut self.plan.reads_before_failure) {
            self.plan.reads_failing -= 1;
            if self.plan.reads_failing > 0 {
                self.plan.reads_before_failure = Some(0);
            }
            Err(fault_error())
        } else {
            Ok(())
        }
    }

    /// Counts an event, and says how it will turn out. After a crash there are no events.
    fn begin_event(&mut self, kind: EventKind, file: &str, offset: u64, len: u64) -> io::Result<Outcome> {
        if self.crashed {
            return Err(crash_error());
        }
        let number = self.events;
        self.events += 1;
        let failed = self.plan.fail_events.remove(&number)
            | match kind {
                EventKind::Write => is_due(&mut self.plan.writes_before_failure),
                EventKind::Sync => is_due(&mut self.plan.syncs_before_failure),
                _ => false,
            };
        self.crashed = self.plan.crash_at.is_some_and(|at| at <= number);
        if let Some((_, part)) = self.plan.remove_part.filter(|(at, _)| *at <= number) {
            self.parts[part] = false;
        }
        let outcome = match () {
            () if self.crashed => Outcome::Crashed,
            () if failed => Outcome::Failed,
            () => Outcome::Done,
        };
        if self.history.len() >= self.history_events_max {
            self.history.pop_front();
        }
        self.history.push_back(Event { number, kind, file: file.to_owned(), offset, len, outcome });
        Ok(outcome)
    }

    /// The event just begun finds the disk full, unless the machine stops first.
    fn run_full(&mut self, outcome: Outcome) -> io::Error {
        if outcome == Outcome::Crashed {
            return crash_error();
        }
        if let Some(event) = self.history.back_mut() {
            event.outcome = Outcome::Full;
        }
        io::ErrorKind::StorageFull.into()
    }

    /// Runs the event of a change to a file. In flight at a crash it has its effect, unsynced; when it fails, it
    /// may.
    fn change(
        &mut self,
        kind: EventKind,
        id: FileId,
        offset: u64,
        len: u64,
        change: impl FnOnce(&mut SimFile),
    ) -> io::Result<()> {
        let name = self.files[id.0].name.clone();
        let outcome = self.begin_event(kind, &name, offset, len)?;
        if kind == EventKind::Allocate && !self.has_room(id, offset, len) {
            return Err(self.run_full(outcome));
        }
        if outcome != Outcome::Failed || self.rng.chance(1, 2) {
            change(self.file(id));
        }
        outcome.result()
    }
}

impl Outcome {
    fn result(self) -> io::Result<()> {
        match self {
            Outcome::Done => Ok(()),
            Outcome::Failed => Err(fault_error()),
            Outcome::Full => Err(io::ErrorKind::StorageFull.into()),
            Outcome::Crashed => Err(crash_error()),
        }
    }
}

/// The end of a range; an error where a simulated file cannot reach so far.
fn sim_range_end(offset: u64, len: u64) -> io::Result<u64> {
    let end = range_end(offset, len)?;
    if end > FILE_BYTES_MAX { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(end) }
}

impl Disk for SimDisk {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn File>> {
        check_name(name)?;
        let mut state = self.state.lock();
        if state.crashed {
            return Err(crash_error());
        }
        let id = match state.names.get(name).copied() {
            Some(id) if create && state.durable_names.get(name) != Some(&id) => {
                state.begin_event(EventKind::Create, name, 0, 0)?.result()?;
                state.durable_names.insert(name.to_owned(), id);
                id
            }
            Some(id) => id,
            None if create => {
                let outcome = state.begin_event(EventKind::Create, name, 0, 0)?;
                let id = FileId(state.files.len());
                state.files.push(SimFile::from_durable(name.to_owned(), Default::default()));
                state.names.insert(name.to_owned(), id);
                outcome.result()?;
                state.durable_names.insert(name.to_owned(), id);
                id
            }
            None => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok(Arc::new(SimHandle { state: self.state.clone(), id, _hold: self.hold.clone() }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut state = self.state.lock();
        state.check_read()?;
        Ok(state.names.keys().cloned().collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(to)?;
        let mut state = self.state.lock();
        if state.crashed {
            return Err(crash_error());
        }
        let Some(&id) = state.names.get(from) else { return Err(io::ErrorKind::NotFound.into()) };
        let outcome = state.begin_event(EventKind::Rename, from, 0, 0)?;
        state.names.remove(from);
        state.names.insert(to.to_owned(), id);
        state.file(id).name = to.to_owned();
        outcome.result()?;
        state.durable_names.remove(from);
        state.durable_names.insert(to.to_owned(), id);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        if state.crashed {
            return Err(crash_error());
        }
        if !state.names.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let outcome = state.begin_event(EventKind::Remove, name, 0, 0)?;
        state.names.remove(name);
        outcome.result()?;
        state.durable_names.remove(name);
        Ok(())
    }
}

impl File for SimHandle {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let mut state = self.state.lock();
        state.check_read()?;
        state.file(self.id).current.read(offset, buf)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        sim_range_end(offset, buf.len() as u64)?;
        if buf.is_empty() {
            return Ok(());
        }
        let mut state = self.state.lock();
        let name = state.file(self.id).name.clone();
        let outcome = state.begin_event(EventKind::Write, &name, offset, buf.len() as u64)?;
        if !state.has_room(self.id, offset, buf.len() as u64) {
            return Err(state.run_full(outcome));
        }
        let written = match outcome {
            // Up to the end of a sector.
            Outcome::Failed => {
                let end = offset + state.rng.below(buf.len() as u64 + 1);
                (end - end % super::SECTOR_BYTES as u64).saturating_sub(offset) as usize
            }
            _ => buf.len(),
        };
        state.file(self.id).write(offset, &buf[..written]);
        outcome.result()
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        let name = state.file(self.id).name.clone();
        let outcome = state.begin_event(EventKind::Sync, &name, 0, 0)?;
        let State { files, rng, .. } = &mut *state;
        match outcome {
            Outcome::Done => files[self.id.0].sync(),
            Outcome::Failed => files[self.id.0].fail_sync(rng),
            // In flight: all of its effects are among those that the images choose from anyway.
            Outcome::Crashed | Outcome::Full => (),
        }
        outcome.result()
    }

    fn len(&self) -> io::Result<u64> {
        let mut state = self.state.lock();
        state.check_read()?;
        Ok(state.file(self.id).current.len())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        sim_range_end(0, len)?;
        self.state.lock().change(EventKind::Allocate, self.id, 0, len, |file| file.allocate(len))
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.state.lock().change(EventKind::Truncate, self.id, len, 0, |file| file.truncate(len))
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        range_end(offset, len)?;
        self.state.lock().change(EventKind::Punch, self.id, offset, len, |file| file.punch(offset, len))
    }
}
