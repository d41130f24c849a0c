//! Which store a database has, and so how it recovers: the one that is there, or the one that a new database gets.

use super::{
    database::{Access, Options, PAGES},
    tree::Directory,
};
use crate::{
    Error, Result, TxnId,
    disk::{Disk, DiskSet, Overlay},
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

/// How a database recovers. That is decided when it is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recovery {
    /// Changed pages go to free space, and become the database's by a new root: no log, nothing to be undone (Shadows,
    /// 1995).
    #[default]
    Shadow,
    /// Pages are changed in their places behind a log of them, and transactions are undone by operations (Hasse and
    /// Weikum, 1991). Such a database has one disk, and no backups while it is open.
    PageLog(Strategy),
}

impl Recovery {
    /// All of them.
    pub const ALL: [Recovery; 4] = [
        Recovery::Shadow,
        Recovery::PageLog(Strategy::SingleLevel),
        Recovery::PageLog(Strategy::TwoLevel),
        Recovery::PageLog(Strategy::TwoLevelDeferred),
    ];

    /// Its name: `shadow`, or that of the strategy.
    pub fn name(self) -> &'static str {
        match self {
            Recovery::Shadow => "shadow",
            Recovery::PageLog(strategy) => strategy.name(),
        }
    }

    /// That of a name; `page-log` is the one with the default strategy.
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

    /// That of an open store.
    pub(super) fn of(store: &Store) -> Recovery {
        store.logged().map_or(Recovery::Shadow, |logged| Recovery::PageLog(logged.strategy()))
    }

    fn of_environment() -> Result<Recovery> {
        match std::env::var("GNOMON_RECOVERY") {
            Ok(name) => Recovery::from_name(&name),
            Err(_) => Ok(Recovery::default()),
        }
    }
}

/// An open store, and the transactions that an earlier run left in it to be undone.
pub(super) struct Opened {
    pub store: Store,
    pub losers: Vec<Loser>,
}

fn one_disk() -> Error {
    Error::BadOption("a database that recovers by a log of pages has one disk".into())
}

/// Refuses a database that is to be made on more disks than it can have, before anything is written to them.
pub(super) fn check_disks(path: &Path, options: &Options) -> Result<()> {
    let wants_disks = !options.disks.is_empty() || options.mirrored || !options.spares.is_empty();
    if wants_disks
        && options.create
        && !path.join(shadow::FILE).exists()
        && options.recovery.map_or_else(Recovery::of_environment, Ok)? != Recovery::Shadow
    {
        return Err(one_disk());
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
    let unit = PageSize::smallest(options.page_bytes_min)?;
    let read_only = access == Access::Read;
    // Not on some of its disks only.
    let create = (options.create && !read_only && disks.missing().is_empty()).then(identity);
    let members: Vec<Arc<dyn Disk>> = disks.disks().cloned().collect();
    let mut is_logged = false;
    for disk in &members {
        is_logged |= LoggedStore::is_on(&**disk)?;
    }
    let recovery = match create.is_some() && !is_logged && !ShadowStore::is_on(&*members[0])? {
        true => options.recovery.map_or_else(Recovery::of_environment, Ok)?,
        false => Recovery::default(),
    };
    if is_logged || recovery != Recovery::Shadow {
        let [disk] = &*members else {
            return Err(one_disk());
        };
        let strategy = match recovery {
            Recovery::PageLog(strategy) => strategy,
            Recovery::Shadow => Strategy::default(),
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
            // What a warmstart changes is changed in memory.
            true => LoggedStore::open_on(&(Arc::new(Overlay::over(disk.clone())) as Arc<dyn Disk>), how)?,
            false => LoggedStore::open_on(disk, how)?,
        };
        let mut store = Store::Logged(Arc::new(store));
        prepare(&mut store);
        return Ok(Opened { store, losers });
    }
    let how = shadow::Opening {
        create,
        unit,
        mirrored: disks.is_mirrored(),
        degraded: options.degraded,
        pool_bytes: options.pool_bytes,
        read_only,
    };
    let members: Vec<&dyn Disk> = members.iter().map(|disk| &**disk).collect();
    let mut store = ShadowStore::open_on(&members, how)?;
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
    Ok(Opened { store: opened, losers: Vec::new() })
}

/// The directory of trees of a store, made if the store is new.
pub(super) fn directory(store: &Store, locks: &Arc<LockManager>) -> Result<Directory> {
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
