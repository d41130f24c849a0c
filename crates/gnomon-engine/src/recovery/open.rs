//! The choice of a database's recovery method: the one that it was made with, or that of a new database.

use std::{path::Path, time::Duration};

use super::{
    Method,
    deferred::DeferredUpdates,
    kind::{Commits, Records, Recovery},
    logical_wal, page_wal,
    shadow::{VerifiedPages, open_store, recovery_of},
};
use crate::{
    Error, Result,
    disk::{Disk, DiskSet, Overlay, refuse_interrupted_restore},
    env::Clock,
    page::PageSize,
    store::{
        Store,
        page_wal::{LogShape, LoggedStore, Strategy},
        shadow::{self, ShadowStore},
    },
    sync::Arc,
};

/// The purpose that a database is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// How a database is opened or made: what recovery methods need of its options, which describe each.
pub(crate) struct Setup<'a> {
    pub access: Access,
    /// The identity of a database that may be made.
    pub create: Option<u64>,
    /// The method that is asked for.
    pub recovery: Option<Recovery>,
    /// The same, if the database is new.
    pub recovery_of_new: Option<Recovery>,
    pub has_spares: bool,
    pub degraded: bool,
    pub pool_bytes: usize,
    pub fill_max: f64,
    pub page_bytes_min: Option<usize>,
    pub logs: LogShape,
    pub log_bytes_max: u64,
    pub sphere_pages_max: usize,
    pub commits: Commits,
    pub group_commit_interval: Duration,
    pub replay: Replaying,
    pub clock: &'a Arc<dyn Clock>,
}

/// How a log is replayed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replaying {
    /// How much a second of replay counts beside one of logging, where calls are logged as whatever is cheaper.
    pub weight: f64,
    pub threads: usize,
    /// Bytes of memory that writes take that are gathered, to be replayed together.
    pub bytes_max: usize,
}

impl Setup<'_> {
    pub fn is_read_only(&self) -> bool {
        self.access == Access::Read
    }
}

/// An open store, and its method.
pub(crate) struct Opened {
    pub store: Store,
    pub method: Box<dyn Method>,
}

impl Recovery {
    /// Returns the method of a new database. If none is asked for, a database with one disk logs what commits write:
    /// that has been faster than shadow paging under every load of the lab's `logging/hot-row` and `logging/clients`.
    fn of_new(setup: &Setup<'_>, has_one_disk: bool) -> Recovery {
        let unasked = if has_one_disk { Recovery::CommitLog(Records::Values) } else { Recovery::Shadow };
        setup.recovery_of_new.unwrap_or(unasked)
    }

    /// Returns the method of a database that lives in memory, if none is asked for: nothing outlives it, so a log would
    /// only take memory.
    pub(crate) fn in_memory() -> Recovery {
        Recovery::Shadow
    }
}

/// Returns the error of a database with several disks whose method has one.
pub(super) fn one_disk() -> Error {
    Error::BadOption(
        "a database that recovers by a log has one disk: make one that recovers by shadow paging (shadow) to have \
         several".into(),
    )
}

/// Returns the error of commits that are not to be forced, by a log.
pub(super) fn unforced_by_log() -> Error {
    Error::BadOption(
        "commits are made durable by the log of this database: unforced ones need shadow paging".into(),
    )
}

/// True if a directory has a database, of any recovery method.
pub fn has_database(directory: &Path) -> bool {
    [shadow::FILE, crate::store::page_wal::FILE].iter().any(|file| directory.join(file).exists())
}

/// Refuses a database that is to be made at `path` on more disks than it can have, before anything is written to them.
/// `wants_disks`: more than one is asked for. `has_spares`, `mirrored`: spare disks are, and copies of all pages.
pub(crate) fn check_disks(
    path: &Path,
    recovery: Option<Recovery>,
    wants_disks: bool,
    has_spares: bool,
    mirrored: bool,
) -> Result<()> {
    if path.join(shadow::FILE).exists() {
        return Ok(());
    }
    if wants_disks && recovery.is_some_and(|recovery| recovery != Recovery::Shadow) {
        return Err(one_disk());
    }
    if has_spares && !mirrored {
        return Err(Error::BadOption(
            "a spare disk is for a mirrored database: ask for one (--mirrored)".into(),
        ));
    }
    Ok(())
}

/// Refuses options of a database to be made, if the one that is open was made otherwise.
///
/// # Errors
/// [`Error::BadOption`].
fn check_made(setup: &Setup<'_>, page_size: PageSize, is_mirrored: bool, has: Recovery) -> Result<()> {
    let (has, page_bytes) = (has.name(), page_size.bytes());
    if let Some(wanted) = setup.recovery.map(Recovery::name).filter(|wanted| *wanted != has) {
        return Err(Error::BadOption(format!(
            "the database recovers by {has}, as it was made: open it without asking for {wanted}"
        )));
    }
    if let Some(wanted) = setup.page_bytes_min.filter(|wanted| *wanted != page_bytes) {
        return Err(Error::BadOption(format!(
            "the smallest pages of the database have {page_bytes} bytes, as it was made: open it without asking for \
             {wanted}"
        )));
    }
    if setup.has_spares && !is_mirrored {
        return Err(Error::BadOption(
            "a spare disk is for a mirrored database, which this one is not".into(),
        ));
    }
    Ok(())
}

/// Opens the store that is on the disks, or makes one. `prepare` gets it while it has no other handle.
pub(crate) fn open(
    disks: &mut DiskSet,
    setup: &Setup<'_>,
    prepare: impl FnOnce(&mut Store),
) -> Result<Opened> {
    let unit = PageSize::smallest(setup.page_bytes_min.unwrap_or(PageSize::DEFAULT.bytes()))?;
    let read_only = setup.is_read_only();
    // Not on some of its disks only.
    let create = setup.create.filter(|_| !read_only && disks.missing().is_empty());
    let mut members: Vec<Arc<dyn Disk>> = disks.disks().cloned().collect();
    let mut has_page_wal = false;
    for disk in &members {
        refuse_interrupted_restore(&**disk, Path::new(""))?;
        has_page_wal |= LoggedStore::is_on(&**disk)?;
    }
    let wanted = match create {
        Some(_) => Recovery::of_new(setup, members.len() == 1 && !disks.is_mirrored() && !setup.has_spares),
        None => Recovery::Shadow,
    };
    let of_pages = match wanted {
        _ if has_page_wal => Some(Strategy::default()),
        Recovery::PageLog(strategy) if !ShadowStore::is_on(&*members[0])? => Some(strategy),
        _ => None,
    };
    if let Some(strategy) = of_pages {
        let [disk] = &*members else {
            return Err(one_disk());
        };
        let (store, method) = page_wal::open(disk, setup, create, unit, strategy, prepare)?;
        check_made(setup, store.stats().unit, false, method.recovery())?;
        if setup.commits == Commits::Unforced {
            return Err(unforced_by_log());
        }
        return Ok(Opened { store, method });
    }
    // What replay changes is changed in memory.
    let in_memory = read_only && logical_wal::is_on(&*members[0])?;
    if in_memory {
        members[0] = Arc::new(Overlay::over(members[0].clone()));
    }
    let store = open_store(disks, &members, setup, create, unit, read_only && !in_memory, prepare)?;
    let recovery = match (store.is_new(), wanted) {
        (true, Recovery::Shadow | Recovery::PageLog(_)) => Recovery::Shadow,
        (true, with_log) => with_log,
        (false, _) => recovery_of(&store)?,
    };
    let wal = match recovery.records() {
        None => None,
        Some(records) => {
            let [disk] = &*members else {
                return Err(one_disk());
            };
            Some(logical_wal::Wal::find(disk, &store, setup, records)?)
        }
    };
    check_made(setup, store.stats().unit, store.mirror.is_mirrored(), recovery)?;
    let method = Box::new(DeferredUpdates::new(store.clone(), wal, setup.commits)?);
    Ok(Opened { store: Store::Shadow(store), method })
}

/// Verifies the pages of a database before it is opened, as far as its method allows that: those of a page WAL are
/// whole only after its recovery.
pub(crate) fn verify_unopened(
    disks: &[&dyn Disk],
    pool_bytes: usize,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Option<VerifiedPages>> {
    for disk in disks {
        if LoggedStore::is_on(*disk)? {
            return Ok(None);
        }
    }
    super::verify_pages(disks, pool_bytes, progress).map(Some)
}
