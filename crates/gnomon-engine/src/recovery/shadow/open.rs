//! Opening a store with shadow paging.

use crate::{
    Error, Result,
    access::Directory,
    disk::{Disk, DiskSet},
    page::PageSize,
    recovery::{Recovery, Setup},
    store::{
        Store,
        shadow::{Opening, ShadowStore},
    },
    sync::Arc,
};

/// Opens the store that is on the disks, `members` of the set, or makes one with the identity `create`. `read_only`: no
/// byte is to change. `prepare` gets the store while it has no other handle.
pub(in crate::recovery) fn open_store(
    disks: &mut DiskSet,
    members: &[Arc<dyn Disk>],
    setup: &Setup<'_>,
    create: Option<u64>,
    unit: PageSize,
    read_only: bool,
    prepare: impl FnOnce(&mut Store),
) -> Result<Arc<ShadowStore>> {
    // Without the list nothing was looked for: that is no reason to go on without the other disks.
    let without_list = disks.refusal_without_list()?;
    let how = Opening {
        create,
        unit,
        mirrored: disks.is_mirrored(),
        degraded: setup.degraded && without_list.is_none(),
        pool_bytes: setup.pool_bytes,
        read_only,
    };
    let by_ref: Vec<&dyn Disk> = members.iter().map(|disk| &**disk).collect();
    let mut store = ShadowStore::open_on(&by_ref, how).map_err(|error| match (error, without_list) {
        (Error::DiskMissing { .. }, Some(refusal)) => refusal,
        (error, _) => error,
    })?;
    store.set_fill_max(setup.fill_max);
    let mut opened = Store::Shadow(Arc::new(store));
    prepare(&mut opened);
    let store = opened.shadow().expect("it is one").clone();
    let nothing_lost = store.repairer.disk_infos().iter().all(|info| info.given.is_some());
    if !setup.is_read_only() && nothing_lost {
        // Without it the database is as good: a full disk is no reason not to open it.
        if let Err(error) =
            disks.mend_lists(store.mirror.is_mirrored(), |given| store.mirror.uses_disk(given))
        {
            store.mirror.report(format!("a list of directories could not be written anew: {error}"));
        }
    }
    Ok(store)
}

/// Returns the method of the database that a store has.
pub(in crate::recovery) fn recovery_of(store: &ShadowStore) -> Result<Recovery> {
    if store.is_new() {
        return Ok(Recovery::Shadow);
    }
    match Directory::open(ShadowStore::FIRST_PAGE).recovery(store)? {
        None => Ok(Recovery::Shadow),
        Some(code) => Recovery::of_code(code),
    }
}
