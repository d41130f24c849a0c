//! Verification: reads everything that a database has and says what is wrong with it.

use std::{collections::BTreeSet, path::Path};

use super::{Database, Options, Stats};
use crate::{
    Csn, Error, PageId, Result, TreeId,
    access::{Directory, Tree, directory_damage},
    disk::{Disk, DiskSet, LIST_FILE, refuse_interrupted_restore},
    lock::LockWaits,
    page::PageSize,
    recovery::{Access, VerifiedPages, verify_pages, verify_unopened},
    store::{FILE, Finding, PageRead, Severity, Store},
    txn::check_entry,
};

/// Frames for reading: verification reads each page about twice.
const POOL_BYTES: usize = 16 << 20;

/// A tree, as verification found it.
#[derive(Clone, Debug)]
pub struct VerifiedTree {
    /// Its number.
    pub tree: TreeId,
    /// Number of its entries.
    pub entries: u64,
    /// The size of its nodes.
    pub page_size: PageSize,
    /// Number of its pages, of all kinds and sizes.
    pub pages: u64,
    /// Number of nodes from its root to a leaf, both included.
    pub height: u32,
    /// Average fill of its leaves: 1 is full.
    pub leaf_fill: f64,
    /// True if it is dropped and its pages are being given back.
    pub dropped: bool,
}

/// The result of a verification.
#[derive(Clone, Debug)]
pub struct VerifyReport {
    /// The newest commit.
    pub csn: Csn,
    /// How much of the database is in use.
    pub stats: Stats,
    /// Pages read.
    pub pages_read: u64,
    /// Pages of the file that are not in use.
    pub free_pages: u64,
    /// Segments of the file without a page in use: all of them, unlike in `stats`.
    pub segments_empty: u64,
    /// Disks that are lost or missing: what was on them has one copy only, until there are others for it.
    pub disks_lost: u64,
    /// Pages of the page table.
    pub table_pages: u64,
    /// The trees.
    pub trees: Vec<VerifiedTree>,
    /// True if nothing was ever committed.
    pub is_new: bool,
    /// True if the database opens as it stands. If not, a finding says why, and what to do.
    pub opens: bool,
    /// The problems that were found.
    pub findings: Vec<Finding>,
}

impl VerifyReport {
    /// True if nothing is wrong, and the database opens as it stands.
    pub fn is_sound(&self) -> bool {
        self.opens && self.severity() <= Some(Severity::Trace)
    }

    /// Returns the severity of the worst finding; none if there are none.
    pub fn severity(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }
}

/// Reads everything on the disks and checks it: each page's checksum, version and identity, the page table, the map
/// of space, and every tree's structure. Changes nothing. The database must not be open elsewhere.
///
/// `progress` is called with the pages read and, as far as it is known, the pages to read.
///
/// # Errors
/// Of opening and reading. Damage is no error but a finding, unless there is no state of the database to check.
pub fn verify(disks: impl Into<DiskSet>, progress: &mut dyn FnMut(u64, u64)) -> Result<VerifyReport> {
    verify_with(disks, Options::default(), progress)
}

/// As [`verify`], of a database whose log has operations or calls of procedures that are not built in:
/// [`Options::operations`] and [`Options::procedures`] of the options are used.
///
/// # Errors
/// As [`verify`]; [`Error::NoSuchOperation`] and [`Error::ProcedureUnknown`] of those that are not there.
pub fn verify_with(
    disks: impl Into<DiskSet>,
    options: Options,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<VerifyReport> {
    let options = Options {
        pool_bytes: POOL_BYTES,
        operations: options.operations,
        procedures: options.procedures,
        ..Options::default()
    };
    let disks: DiskSet = disks.into();
    disks.disks().try_for_each(|disk| refuse_interrupted_restore(&**disk, Path::new("")))?;
    let of_list = |index: usize| Finding {
        file: LIST_FILE.into(),
        page: 0,
        detail: format!(
            "the list in {} is missing, was damaged, or changed by hand: opening the database makes it anew when all \
             that it names is there",
            disks.path(index).unwrap_or(Path::new("memory")).display()
        ),
        severity: Severity::Spare,
    };
    let of_lists: Vec<Finding> = disks.damaged_lists()?.into_iter().map(of_list).collect();
    let found = {
        let disks: Vec<&dyn Disk> = disks.disks().map(|disk| &**disk).collect();
        verify_unopened(&disks, POOL_BYTES, progress).transpose()
    };
    let Some(found) = found else { return verify_recovered(disks, options, progress) };
    let verified = found.and_then(verify_trees);
    match verified {
        Ok(mut report) => {
            report.findings.extend(of_lists);
            if !report.is_new {
                verify_opened(disks, options, &mut report)?;
            }
            Ok(report)
        }
        // The list may be why something is missing.
        Err(error) => match of_lists.into_iter().next() {
            Some(Finding { file, page, detail, .. }) => {
                Err(Error::Corrupt { file, page, detail: format!("{detail} ({error})") })
            }
            None if matches!(error, Error::DiskMissing { .. }) => {
                Err(disks.refusal_without_list()?.unwrap_or(error))
            }
            None => Err(error),
        },
    }
}

/// As [`verify`] does, of a database whose pages can be verified before it is opened.
pub(super) fn verify_disks(disks: &[&dyn Disk], progress: &mut dyn FnMut(u64, u64)) -> Result<VerifyReport> {
    verify_trees(verify_pages(disks, POOL_BYTES, progress)?)
}

/// Verifies the trees on pages that were verified.
fn verify_trees(found: VerifiedPages) -> Result<VerifyReport> {
    let store = &found.store;
    let mut check = Check::new(store, found.findings);
    if !store.is_new() && check.all()? {
        let lost: Vec<PageId> = found.data_pages.difference(&check.owned).copied().collect();
        check.find_lost(lost);
    }
    Ok(VerifyReport {
        csn: store.last_csn(),
        stats: Stats::new(store, found.recovery, 0, LockWaits::default()),
        pages_read: found.pages_read,
        free_pages: found.free_pages,
        segments_empty: found.segments_empty,
        disks_lost: found.disks_lost,
        table_pages: found.table_pages,
        trees: check.trees,
        is_new: store.is_new(),
        opens: true,
        findings: check.findings,
    })
}

/// Opens the database as a server does, so that nothing is called sound that does not open. What a log of commits adds
/// to a root is replayed in memory: then the report is of the state after that, but for pages of the file.
fn verify_opened(disks: DiskSet, options: Options, report: &mut VerifyReport) -> Result<()> {
    let db = match Database::open_store(disks, options, Access::Read, |_| ()) {
        Ok(db) => db,
        Err(error) => {
            report.opens = false;
            let refusal = refusal(error)?;
            // It may be damage that was found already.
            let is_it = |found: &Finding| (&found.file, found.page) == (&refusal.file, refusal.page);
            if !report.findings.iter().any(|found| is_it(found) && found.severity >= refusal.severity) {
                report.findings.push(refusal);
            }
            return Ok(());
        }
    };
    if report.stats.recovery.records().is_none() {
        return Ok(());
    }
    let inner = &db.0.inner;
    let mut check = Check::new(&inner.store, std::mem::take(&mut report.findings));
    check.all()?;
    report.findings = check.findings;
    report.trees = check.trees;
    report.csn = inner.store.last_csn();
    let now = db.stats();
    report.stats = Stats { log_bytes: now.log_bytes, durable_csn: now.durable_csn, ..report.stats };
    Ok(())
}

/// The finding that stands for a refusal to open a database whose pages have been read; the error itself if that is not
/// about its files.
fn refusal(error: Error) -> Result<Finding> {
    let text = error.to_string();
    Ok(match error {
        Error::Corrupt { file, page, detail } => Finding { file, page, detail, severity: Severity::Data },
        Error::Mismatch { file, detail } => Finding { file, page: 0, detail, severity: Severity::Data },
        // Without it everything was read, from the copies.
        Error::DiskMissing { .. } => {
            Finding { file: FILE.into(), page: 0, detail: text, severity: Severity::Spare }
        }
        Error::NotADatabase { detail, .. } => {
            Finding { file: FILE.into(), page: 0, detail, severity: Severity::Data }
        }
        // The options are this module's, so only a list can be wrong.
        Error::BadOption(detail) => {
            Finding { file: LIST_FILE.into(), page: 0, detail, severity: Severity::Spare }
        }
        error => return Err(error),
    })
}

/// Verifies a database as it is after a crash recovery in memory.
fn verify_recovered(
    disks: DiskSet,
    options: Options,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<VerifyReport> {
    let db = Database::open_store(disks, options, Access::Read, |_| ())?;
    let (store, method) = (&db.0.inner.store, &db.0.inner.method);
    let log_bytes = db.stats().log_bytes;
    // What was given back is free then, and the log in memory is empty.
    db.close()?;
    let mut check = Check::new(store, Vec::new());
    let whole = check.all()?;
    let pages_read = check.owned.len() as u64;
    if let (true, Some(in_use)) = (whole, method.pages_in_use()) {
        let unit = store.stats().unit.bytes();
        let mut owned = BTreeSet::new();
        let pages: Vec<PageId> = check.owned.iter().copied().collect();
        for (number, page) in pages.iter().enumerate() {
            progress(number as u64, pages_read);
            let units = (store.read(*page)?.size().bytes() / unit).max(1) as u64;
            owned.extend((page.0..page.0 + units).map(PageId));
        }
        let in_use: BTreeSet<PageId> = in_use.into_iter().collect();
        check.find_lost(in_use.difference(&owned).copied());
        for page in owned.difference(&in_use) {
            check.find(*page, "a tree has it, but it is free", None);
        }
    }
    let stats = Stats { log_bytes, ..Stats::new(store, method.recovery(), 0, LockWaits::default()) };
    Ok(VerifyReport {
        csn: store.last_csn(),
        pages_read,
        free_pages: stats.file_pages - stats.used_pages,
        stats,
        segments_empty: 0,
        disks_lost: 0,
        table_pages: 0,
        trees: check.trees,
        is_new: false,
        opens: true,
        findings: check.findings,
    })
}

struct Check<'a> {
    store: &'a Store,
    /// Pages that a tree has.
    owned: BTreeSet<PageId>,
    findings: Vec<Finding>,
    trees: Vec<VerifiedTree>,
}

impl<'a> Check<'a> {
    fn new(store: &'a Store, findings: Vec<Finding>) -> Check<'a> {
        Check { store, owned: BTreeSet::new(), findings, trees: Vec::new() }
    }

    /// Checks all trees and what is prepared; true if all are whole.
    fn all(&mut self) -> Result<bool> {
        let directory = Directory::open(self.store.first_page());
        let mut whole = self.tree(directory.tree(), None)?;
        // What a damaged directory leads to would be guessed.
        if whole {
            match directory.all(self.store) {
                Ok(trees) => {
                    for (id, tree, live) in trees {
                        whole &= self.tree(&tree, Some((id, !live)))?;
                    }
                }
                Err(error) => {
                    whole = false;
                    self.damage(error, None)?;
                }
            }
        }
        if whole {
            let prepared = directory.visit_prepared(self.store, |gid, _, bytes| match check_entry(&bytes)? {
                Ok(_) => Ok(()),
                Err(what) => Err(directory_damage(format!("the prepared transaction '{gid}': {what}"))),
            });
            if let Err(error) = prepared {
                self.damage(error, None)?;
            }
        }
        // Below damage nothing was reached.
        Ok(whole)
    }

    /// Notes pages that are lost.
    fn find_lost(&mut self, pages: impl IntoIterator<Item = PageId>) {
        for page in pages {
            self.find(page, "no tree has it, but it is not free", None);
        }
    }

    /// Notes that a logical page is wrong; `tree` is the one that it was found in.
    fn find(&mut self, page: PageId, detail: &str, tree: Option<TreeId>) {
        let (file, physical) = self.store.place_of(page).unwrap_or_else(|| (FILE.into(), 0));
        self.find_at(file, physical, format!("logical page {page}: {detail}"), tree);
    }

    /// Notes that a physical page is wrong, once.
    fn find_at(&mut self, file: String, page: u64, detail: String, tree: Option<TreeId>) {
        let of_tree = tree.map(|tree| format!(" (of tree {tree})")).unwrap_or_default();
        // The page was found damaged already, and that is why nothing can be read from it.
        if let Some(finding) =
            self.findings.iter_mut().find(|finding| finding.page == page && finding.file == file)
        {
            if !finding.detail.ends_with(&of_tree) {
                finding.detail += &of_tree;
            }
            return;
        }
        let detail = detail + &of_tree;
        self.findings.push(Finding { file, page, detail, severity: Severity::Data });
    }

    fn damage(&mut self, error: Error, tree: Option<TreeId>) -> Result<()> {
        match error {
            Error::Corrupt { file, page, detail } if file == crate::LOGICAL_PAGES => {
                self.find(PageId(page), &detail, tree);
            }
            Error::Corrupt { file, page, detail } => self.find_at(file, page, detail, tree),
            error => return Err(error),
        }
        Ok(())
    }

    /// Checks a tree; true if it is whole.
    fn tree(&mut self, tree: &Tree, id: Option<(TreeId, bool)>) -> Result<bool> {
        let mut shared = Vec::new();
        let owned = &mut self.owned;
        let report = tree.check(self.store, &mut |page| {
            if !owned.insert(page) {
                shared.push(page);
            }
        })?;
        let whole = shared.is_empty() && report.damage.is_empty();
        let number = id.map(|(tree, _)| tree);
        for page in shared {
            self.find(page, "two trees have it", number);
        }
        for damage in report.damage {
            self.damage(damage, number)?;
        }
        if let Some((number, dropped)) = id {
            self.trees.push(VerifiedTree {
                tree: number,
                entries: report.entries,
                page_size: tree.size(),
                pages: report.leaf_pages + report.inner_pages + report.overflow_pages,
                height: report.height,
                leaf_fill: report.leaf_fill,
                dropped,
            });
        }
        Ok(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Database, KeyRange, Options, TreeOptions, TxnOptions, disk::SimDisk, sync::Arc};

    fn options() -> Options {
        Options {
            pool_bytes: 1 << 20,
            escalate_bytes: 1 << 20,
            write_bytes_max: 1 << 20,
            version_bytes_max: 1 << 20,
            prepared_max: 4,
            seed: Some(1),
            ..Options::shadow()
        }
    }

    /// A database with one tree, all pages of one size.
    fn filled() -> (SimDisk, TreeId) {
        let disk = SimDisk::new(1);
        let db = Database::open_on(Arc::new(disk.clone()), options()).unwrap();
        let mut tree = TreeId(0);
        for round in 0..20u32 {
            let mut txn = db.begin(TxnOptions::default()).unwrap();
            if round == 0 {
                tree = txn.create_tree().unwrap();
            }
            for key in 0..50u32 {
                let value = vec![key as u8; (key * 11 % 300) as usize];
                txn.put(tree, &(round * 37 % 400 + key).to_be_bytes(), &value).unwrap();
            }
            txn.put(tree, b"large", &vec![1; 3_000]).unwrap();
            txn.commit().unwrap();
        }
        db.close().unwrap();
        (disk, tree)
    }

    /// A database with trees of several sizes and large values, much of which was written more than once.
    fn filled_with_sizes(disk: &SimDisk, page_bytes_min: usize) -> (Options, Vec<TreeId>) {
        let options = Options { page_bytes_min: Some(page_bytes_min), ..options() };
        let db = Database::open_on(disk.set(), options.clone()).unwrap();
        let mut txn = db.begin(TxnOptions::default()).unwrap();
        let sizes =
            [page_bytes_min, 4096, 16 << 10, 64 << 10].map(|bytes| PageSize::from_bytes(bytes).unwrap());
        let trees: Vec<TreeId> = sizes
            .map(|page_size| {
                txn.create_tree_with(TreeOptions { page_size, ..TreeOptions::default() }).unwrap()
            })
            .into();
        txn.commit().unwrap();
        for round in 0..12u32 {
            let mut txn = db.begin(TxnOptions::default()).unwrap();
            for &tree in &trees {
                for key in 0..30u32 {
                    let value = vec![key as u8; (key * 11 % 130) as usize];
                    txn.put(tree, &(round * 37 % 200 + key).to_be_bytes(), &value).unwrap();
                }
                txn.put(tree, b"large", &vec![round as u8; 10_000 << (round % 5)]).unwrap();
            }
            txn.commit().unwrap();
        }
        db.close().unwrap();
        drop(db);
        (options, trees)
    }

    #[test]
    fn every_flipped_byte_of_pages_of_several_sizes_and_of_several_disks_is_found() {
        for (page_bytes_min, disk) in [
            (512, SimDisk::new(1)),
            (4096, SimDisk::new(1)),
            (4096, SimDisk::striped(1, 2)),
            (4096, SimDisk::of_parts(1, 2)),
        ] {
            let (options, trees) = filled_with_sizes(&disk, page_bytes_min);
            let entries = |disk: &SimDisk| -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
                let db = Database::open_on(disk.set(), Options { create: false, ..options.clone() })?;
                let mut txn = db.begin(TxnOptions::default())?;
                let mut found = Vec::new();
                for &tree in &trees {
                    let mut cursor = txn.scan(tree, KeyRange::all(), crate::Direction::Forward)?;
                    while let Some(entry) = cursor.next(&mut txn)? {
                        found.push(entry);
                    }
                }
                Ok(found)
            };
            let report = run(&disk).unwrap();
            assert_eq!(report.findings, []);
            assert_eq!(report.trees.len(), trees.len());
            let right = entries(&disk.crash_image_synced()).unwrap();
            let names: Vec<String> = match disk.parts() {
                0 => vec![FILE.into()],
                parts => (0..parts).map(|part| format!("{part}-{FILE}")).collect(),
            };
            let stride = std::env::var("GNOMON_FLIP_STRIDE").map_or(19973, |stride| stride.parse().unwrap());
            let (mut large, mut free) = (0, 0);
            for (part, name) in names.iter().enumerate() {
                let len = disk.open(name, false).unwrap().len().unwrap();
                for offset in (0..len).step_by(stride) {
                    let damaged = disk.crash_image_synced();
                    assert!(damaged.flip_bit(name, offset, (offset % 8) as u8));
                    let report = run(&damaged).unwrap();
                    let [finding] = &*report.findings else {
                        panic!("byte {offset} of {name} was flipped: {:?}", report.findings);
                    };
                    assert!(!report.is_sound());
                    assert!(finding.file.contains(&part.to_string()) || part == 0, "{finding:?}");
                    let begin = finding.page * page_bytes_min as u64;
                    assert!((begin..begin + (1 << 20)).contains(&offset), "byte {offset}: {finding:?}");
                    large += u32::from(offset - begin >= 4096);
                    free += u32::from(finding.detail.contains("free page"));
                    if let Ok(found) = entries(&damaged) {
                        assert_eq!(found, right, "byte {offset} of {name} was flipped");
                    }
                }
            }
            assert!(large > 2 && free > 5, "{large} in large pages, {free} in free space");
        }
    }

    fn run(disk: &SimDisk) -> Result<VerifyReport> {
        verify(disk.set(), &mut |_, _| ())
    }

    #[test]
    fn a_database_in_order_has_no_findings() {
        let (disk, tree) = filled();
        let report = run(&disk).unwrap();
        assert_eq!(report.findings, []);
        assert_eq!(report.trees[0].tree, tree);
        assert!(report.trees[0].entries > 400 / 37);
        assert!(report.free_pages > 0);
    }

    /// Every byte of every page in turn would take minutes: a stride that is prime to the page size meets every offset.
    #[test]
    fn every_flipped_byte_is_found_and_no_wrong_value_is_read() {
        let (disk, tree) = filled();
        let entries = |disk: &SimDisk| -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
            let db = Database::open_on(Arc::new(disk.clone()), Options { create: false, ..options() })?;
            let mut txn = db.begin(TxnOptions::default())?;
            let mut cursor = txn.scan(tree, KeyRange::all(), crate::Direction::Forward)?;
            let mut found = Vec::new();
            while let Some(entry) = cursor.next(&mut txn)? {
                found.push(entry);
            }
            Ok(found)
        };
        let right = entries(&disk.crash_image_synced()).unwrap();
        let len = disk.open(FILE, false).unwrap().len().unwrap();
        let stride = std::env::var("GNOMON_FLIP_STRIDE").map_or(1009, |stride| stride.parse().unwrap());
        for offset in (0..len).step_by(stride) {
            let damaged = disk.crash_image_synced();
            assert!(damaged.flip_bit(FILE, offset, (offset % 8) as u8));
            let report = run(&damaged).unwrap();
            assert!(!report.is_sound(), "byte {offset} was flipped and not found");
            let pages: Vec<u64> = report.findings.iter().map(|finding| finding.page).collect();
            assert_eq!(pages, [offset / 4096], "byte {offset}: {:?}", report.findings);
            if let Ok(found) = entries(&damaged) {
                assert_eq!(found, right, "byte {offset} was flipped");
            }
        }
    }
}
