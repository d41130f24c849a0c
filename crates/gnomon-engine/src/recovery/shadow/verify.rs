//! Verification of the pages of a store with shadow paging, before the database is opened.

use std::collections::BTreeSet;

use super::recovery_of;
use crate::{
    Error, PageId, Result,
    disk::Disk,
    page::PageSize,
    recovery::Recovery,
    store::{
        Store,
        shadow::{FILE, Finding, Opening, Severity, ShadowStore},
    },
    sync::Arc,
};

/// The pages of a store, as they were found.
pub(crate) struct VerifiedPages {
    pub store: Store,
    pub recovery: Recovery,
    pub findings: Vec<Finding>,
    /// Logical pages that the page table has and that are not its own.
    pub data_pages: BTreeSet<PageId>,
    pub pages_read: u64,
    pub free_pages: u64,
    pub segments_empty: u64,
    pub table_pages: u64,
    /// Disks that are lost or missing.
    pub disks_lost: u64,
}

/// Opens the store on these disks for reading, with so much memory, and checks everything beneath trees.
pub(crate) fn verify_pages(
    disks: &[&dyn Disk],
    pool_bytes: usize,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<VerifiedPages> {
    let how = Opening {
        create: None,
        unit: PageSize::DEFAULT,
        mirrored: false,
        degraded: true,
        pool_bytes,
        read_only: true,
    };
    let store = Arc::new(ShadowStore::open_on(disks, how)?);
    let of_disk = |detail| Finding { file: FILE.into(), page: 0, detail, severity: Severity::Spare };
    let left_behind: Vec<Finding> = store.mirror.take_reports().into_iter().map(of_disk).collect();
    let found = store.verify(progress)?;
    // Of a damaged directory the finding tells.
    let recovery = match recovery_of(&store) {
        Err(Error::Corrupt { .. }) => Recovery::Shadow,
        recovery => recovery?,
    };
    Ok(VerifiedPages {
        recovery,
        findings: [left_behind, found.findings].concat(),
        data_pages: found.data_pages,
        pages_read: found.pages_read,
        free_pages: found.free_pages,
        segments_empty: found.segments_empty,
        table_pages: found.table_pages,
        disks_lost: store.repairer.disk_infos().iter().filter(|info| info.given.is_none()).count() as u64,
        store: Store::Shadow(store),
    })
}
