//! The choice of a database's store, and so of its recovery: the store that is there, or the one of a new database.

use super::{
    database::{Access, Options, PAGES},
    log,
    tree::{Directory, directory_damage},
};
use crate::{
    Error, Result, TxnId,
    disk::{Disk, DiskSet, Overlay, refuse_interrupted_restore},
    env::Clock,
    lock::LockManager,
    page::PageSize,
    store::{
        GroupCommit, Store,
        logged::{self, Contents, Limits, LoggedStore, Loser, Strategy},
        shadow::{self, ShadowStore},
    },
    sync::Arc,
};
use std::path::Path;

/// The recovery method of a database. It is chosen when the database is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Changed pages go to free space, and become the database's by a new root: no log, nothing to be undone (Shadows,
    /// 1995).
    Shadow,
    /// Pages as with shadow paging, and a log of commits behind the last commit batch, which is its checkpoint (Malviya
    /// 2012). Such a database has one disk.
    CommitLog(Records),
    /// Pages are changed in their places behind a log of them, and transactions are undone by operations (Hasse and
    /// Weikum, 1991). Such a database has one disk, and no backups while it is open.
    PageLog(Strategy),
}

/// The kind of records in a log of commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Records {
    /// The values that each commit has written: `value-log`.
    Values,
    /// Of a call of a [procedure](crate::Procedure), its name and parameters; of other commits, the values:
    /// `command-log`.
    Calls,
    /// Of a call, whichever is estimated to take less time to log and to replay: `adaptive`.
    Cheaper,
}

impl Recovery {
    /// All of them.
    pub const ALL: [Recovery; 7] = [
        Recovery::Shadow,
        Recovery::CommitLog(Records::Values),
        Recovery::CommitLog(Records::Calls),
        Recovery::CommitLog(Records::Cheaper),
        Recovery::PageLog(Strategy::SingleLevel),
        Recovery::PageLog(Strategy::TwoLevel),
        Recovery::PageLog(Strategy::TwoLevelDeferred),
    ];

    /// Returns its name: `shadow`, that of its log of commits, or that of the strategy.
    pub fn name(self) -> &'static str {
        match self {
            Recovery::Shadow => "shadow",
            Recovery::CommitLog(Records::Values) => "value-log",
            Recovery::CommitLog(Records::Calls) => "command-log",
            Recovery::CommitLog(Records::Cheaper) => "adaptive",
            Recovery::PageLog(strategy) => strategy.name(),
        }
    }

    /// Returns the method of a name; `page-log` is the one with the default strategy.
    ///
    /// # Errors
    /// [`Error::BadOption`] if there is none.
    pub fn from_name(name: &str) -> Result<Recovery> {
        if name == "page-log" {
            return Ok(Recovery::PageLog(Strategy::default()));
        }
        Recovery::ALL.into_iter().find(|recovery| recovery.name() == name).ok_or_else(|| {
            let names = Recovery::ALL.map(Recovery::name).join(", ");
            Error::BadOption(format!(
                "there is no recovery method '{name}': there are {names}, and page-log, which is {}",
                Strategy::default().name()
            ))
        })
    }

    /// Returns the method of an open store.
    pub(super) fn of(store: &Store) -> Result<Recovery> {
        match store {
            Store::Logged(logged) => Ok(Recovery::PageLog(logged.strategy())),
            Store::Shadow(shadow) if shadow.is_new() => Ok(Recovery::Shadow),
            Store::Shadow(shadow) => match Directory::open(ShadowStore::FIRST_PAGE).recovery(&**shadow)? {
                None => Ok(Recovery::Shadow),
                Some(code) => Recovery::of_code(code),
            },
        }
    }

    /// Returns the code of it in the directory of trees; none if the store itself tells.
    fn code(self) -> Option<u8> {
        match self {
            Recovery::CommitLog(Records::Values) => Some(1),
            Recovery::CommitLog(Records::Calls) => Some(2),
            Recovery::CommitLog(Records::Cheaper) => Some(3),
            Recovery::Shadow | Recovery::PageLog(_) => None,
        }
    }

    fn of_code(code: u8) -> Result<Recovery> {
        let found = Recovery::ALL.into_iter().find(|recovery| recovery.code() == Some(code));
        found.ok_or_else(|| directory_damage(format!("there is no recovery method {code}")))
    }

    /// Returns the kind of records in its log of commits, if it has one.
    pub fn records(self) -> Option<Records> {
        match self {
            Recovery::CommitLog(records) => Some(records),
            Recovery::Shadow | Recovery::PageLog(_) => None,
        }
    }

    /// Returns the method asked for, for a new database: by its options, or by the environment for all databases.
    pub(super) fn asked_for(options: &Options) -> Result<Option<Recovery>> {
        match (options.recovery, std::env::var("GNOMON_RECOVERY")) {
            (Some(recovery), _) => Ok(Some(recovery)),
            (None, Ok(name)) => Recovery::from_name(&name).map(Some),
            (None, Err(_)) => Ok(None),
        }
    }

    /// Returns the method of a new database. If none is asked for, a database with one disk logs what commits write:
    /// that has been faster than shadow paging under every load of the lab's `logging/hot-row` and `logging/clients`.
    fn of_new(options: &Options, has_one_disk: bool) -> Result<Recovery> {
        let unasked = if has_one_disk { Recovery::CommitLog(Records::Values) } else { Recovery::Shadow };
        Ok(Recovery::asked_for(options)?.unwrap_or(unasked))
    }
}

/// An open store, and the transactions that an earlier run left in it to be undone.
pub(super) struct Opened {
    pub store: Store,
    pub losers: Vec<Loser>,
    pub recovery: Recovery,
    /// The log of commits.
    pub log: Option<log::Unread>,
}

pub(super) fn one_disk() -> Error {
    Error::BadOption(
        "a database that recovers by a log has one disk: make one that recovers by shadow paging (shadow) to have \
         several".into(),
    )
}

/// Refuses a database that is to be made on more disks than it can have, before anything is written to them.
pub(super) fn check_disks(path: &Path, options: &Options) -> Result<()> {
    let wants_disks = !options.disks.is_empty() || options.mirrored || !options.spares.is_empty();
    if wants_disks
        && options.create
        && !path.join(shadow::FILE).exists()
        && Recovery::asked_for(options)?.is_some_and(|recovery| recovery != Recovery::Shadow)
    {
        return Err(one_disk());
    }
    if options.create && !options.spares.is_empty() && !options.mirrored && !path.join(shadow::FILE).exists()
    {
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
pub(super) fn check_made(options: &Options, store: &Store, has: Recovery) -> Result<()> {
    let (has, page_bytes) = (has.name(), store.stats().unit.bytes());
    if let Some(wanted) = options.recovery.map(Recovery::name).filter(|wanted| *wanted != has) {
        return Err(Error::BadOption(format!(
            "the database recovers by {has}, as it was made: open it without asking for {wanted}"
        )));
    }
    if let Some(wanted) = options.page_bytes_min.filter(|wanted| *wanted != page_bytes) {
        return Err(Error::BadOption(format!(
            "the smallest pages of the database have {page_bytes} bytes, as it was made: open it without asking for \
             {wanted}"
        )));
    }
    let is_mirrored = store.shadow().is_some_and(|store| store.is_mirrored());
    if !options.spares.is_empty() && !is_mirrored {
        return Err(Error::BadOption(
            "a spare disk is for a mirrored database, which this one is not".into(),
        ));
    }
    Ok(())
}

/// Opens the store that is on the disks, or makes one.
pub(super) fn open(
    disks: &mut DiskSet,
    options: &Options,
    access: Access,
    identity: impl FnOnce() -> u64,
    clock: &Arc<dyn Clock>,
    prepare: impl FnOnce(&mut Store),
) -> Result<Opened> {
    let unit = PageSize::smallest(options.page_bytes_min.unwrap_or(PageSize::DEFAULT.bytes()))?;
    let read_only = access == Access::Read;
    // Not on some of its disks only.
    let create = (options.create && !read_only && disks.missing().is_empty()).then(identity);
    let members: Vec<Arc<dyn Disk>> = disks.disks().cloned().collect();
    let mut is_logged = false;
    for disk in &members {
        refuse_interrupted_restore(&**disk, Path::new(""))?;
        is_logged |= LoggedStore::is_on(&**disk)?;
    }
    let wanted = match create {
        Some(_) => {
            let has_one_disk = members.len() == 1 && !disks.is_mirrored() && options.spares.is_empty();
            Recovery::of_new(options, has_one_disk)?
        }
        None => Recovery::Shadow,
    };
    let of_pages = match wanted {
        _ if is_logged => Some(Strategy::default()),
        Recovery::PageLog(strategy) if !ShadowStore::is_on(&*members[0])? => Some(strategy),
        _ => None,
    };
    if let Some(strategy) = of_pages {
        let [disk] = &*members else {
            return Err(one_disk());
        };
        let how = logged::Opening {
            create,
            read_only,
            unit,
            contents: Contents::Trees,
            strategy,
            logs: options.logs,
            pool_bytes: options.pool_bytes,
            limits: Limits {
                dirty_bytes_max: options.pool_bytes / 2,
                log_bytes_max: options.log_bytes_max,
                sphere_pages_max: options.sphere_pages_max,
            },
            page_locks: PAGES,
            clock: clock.clone(),
        };
        let (store, losers) = match read_only {
            // What a crash recovery changes is changed in memory.
            true => LoggedStore::open_on(&(Arc::new(Overlay::over(disk.clone())) as Arc<dyn Disk>), how)?,
            false => LoggedStore::open_on(disk, how)?,
        };
        let mut store = Store::Logged(Arc::new(store));
        let recovery = Recovery::of(&store)?;
        prepare(&mut store);
        return Ok(Opened { store, losers, recovery, log: None });
    }
    let mut members = members;
    // What replay changes is changed in memory.
    let in_memory = read_only && log::is_on(&*members[0])?;
    if in_memory {
        members[0] = Arc::new(Overlay::over(members[0].clone()));
    }
    // Without the list nothing was looked for: that is no reason to go on without the other disks.
    let without_list = disks.refusal_without_list()?;
    let how = shadow::Opening {
        create,
        unit,
        mirrored: disks.is_mirrored(),
        degraded: options.degraded && without_list.is_none(),
        pool_bytes: options.pool_bytes,
        read_only: read_only && !in_memory,
    };
    let by_ref: Vec<&dyn Disk> = members.iter().map(|disk| &**disk).collect();
    let mut store = ShadowStore::open_on(&by_ref, how).map_err(|error| match (error, without_list) {
        (Error::DiskMissing { .. }, Some(refusal)) => refusal,
        (error, _) => error,
    })?;
    store.set_fill_max(options.fill_max);
    let mut opened = Store::Shadow(Arc::new(store));
    prepare(&mut opened);
    if let Some(store) = opened.shadow() {
        let nothing_lost = store.disk_infos().iter().all(|info| info.given.is_some());
        if !read_only && nothing_lost {
            // Without it the database is as good: a full disk is no reason not to open it.
            if let Err(error) = disks.mend_lists(store.is_mirrored(), |given| store.uses_disk(given)) {
                store.report(format!("a list of directories could not be written anew: {error}"));
            }
        }
    }
    let (recovery, log) = find_log(&opened, &members, options, wanted, read_only)?;
    Ok(Opened { store: opened, losers: Vec::new(), recovery, log })
}

/// Returns the method of a database with shadow paging, which is `wanted` if it is new; and its log of commits, if it
/// has one that is to be read. `looks` is true if nothing is to be written.
fn find_log(
    store: &Store,
    disks: &[Arc<dyn Disk>],
    options: &Options,
    wanted: Recovery,
    looks: bool,
) -> Result<(Recovery, Option<log::Unread>)> {
    let shadow = store.shadow_for("a log of commits")?;
    let recovery = match (store.is_new(), wanted) {
        (true, Recovery::Shadow | Recovery::PageLog(_)) => Recovery::Shadow,
        (true, with_log) => with_log,
        (false, _) => Recovery::of(store)?,
    };
    if recovery.records().is_none() {
        return Ok((recovery, None));
    }
    let [disk] = disks else {
        return Err(one_disk());
    };
    let log = match store.is_new() {
        true => Some(log::Unread::create(disk, shadow, options.logs.segment_bytes, 1)?),
        false => log::Unread::find(disk, shadow, options.logs.segment_bytes, looks)?,
    };
    Ok((recovery, log))
}

/// Returns the directory of trees of a store, made if the store is new.
pub(super) fn directory(store: &Store, recovery: Recovery, locks: &Arc<LockManager>) -> Result<Directory> {
    if !store.is_new() {
        return Ok(Directory::open(store.first_page()));
    }
    let directory = match store {
        store if store.is_read_only() => {
            let detail = "nothing was ever committed to it".into();
            return Err(Error::NotADatabase { path: String::new(), detail });
        }
        Store::Shadow(store) => {
            let pages = store.begin(1)?;
            let directory = Directory::create(&pages)?;
            if let Some(code) = recovery.code() {
                directory.set_recovery(&pages, code)?;
            }
            drop(pages);
            store.flush()?;
            directory
        }
        Store::Logged(store) => {
            let mut page_locks = locks.owner(TxnId(store.new_id()));
            let directory = super::immediate::create_directory(store, &mut page_locks)?;
            store.flush()?;
            directory
        }
    };
    assert_eq!(directory.tree().root(), store.first_page(), "the directory is the first thing in a store");
    Ok(directory)
}
