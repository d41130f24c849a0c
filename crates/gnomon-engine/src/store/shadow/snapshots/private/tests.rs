use super::*;
use crate::{
    access::{Change, Seek, Tree},
    disk::{Disk, MemDisk, SimDisk},
    env::Rng,
    store::GroupCommit,
    store::shadow::{FILE, Severity},
};

type Model = BTreeMap<PageId, u64>;

fn store(disk: &dyn Disk) -> Arc<ShadowStore> {
    Arc::new(ShadowStore::open(disk, Some(7), 1 << 20, false).unwrap())
}

fn set(pages: &impl PageWrite, id: PageId, value: u64) {
    pages.write(id).unwrap().body_mut()[..8].copy_from_slice(&value.to_le_bytes());
}

fn add(pages: &impl PageWrite, value: u64) -> PageId {
    let mut page = pages.allocate(PageKind::TreeLeaf, SIZES[value as usize % SIZES.len()]).unwrap();
    page.body_mut()[..8].copy_from_slice(&value.to_le_bytes());
    page.id()
}

/// The sizes of pages, by their first values: small ones, and one of 16 and one of 64 KiB.
const SIZES: [PageSize; 6] = {
    let [large, larger] =
        [PageSize::from_bytes(16 << 10).expect("a size"), PageSize::from_bytes(64 << 10).expect("a size")];
    let small = PageSize::DEFAULT;
    [small, small, large, small, small, larger]
};

/// A page of any of these.
fn any_page() -> PageCounts {
    let mut counts = PageCounts::default();
    SIZES.iter().for_each(|size| counts[*size] = 1);
    counts
}

fn check(pages: &impl PageRead, model: &Model, when: &str) {
    for (id, value) in model {
        let page = pages.read(*id).unwrap_or_else(|error| panic!("{when}: page {id}: {error}"));
        assert_eq!(page.body()[..8], value.to_le_bytes(), "{when}: page {id}");
    }
}

fn check_space(store: &ShadowStore) {
    store.flush().unwrap();
    let space = store.allocator.space.lock();
    assert_eq!(space.taken(), space.reachable(), "nothing is out of reach and not free");
}

fn verify(disk: &dyn Disk, model: &Model) {
    let store = ShadowStore::open(disk, None, 1 << 20, true).unwrap();
    check(&store, model, "opened again");
    let report = store.verify(&mut |_, _| ()).unwrap();
    assert!(report.findings.iter().all(|found| found.severity == Severity::Trace), "{:?}", report.findings);
    let pages: Vec<PageId> = report.data_pages.into_iter().collect();
    assert_eq!(pages, model.keys().copied().collect::<Vec<_>>());
}

/// Pages come, change and go in a view with layers, while others change other pages: each sees its own; what is dropped
/// leaves nothing, and what is published is there, after opening again too.
#[test]
fn layers_are_undone_merged_and_published() {
    let (mut undone, mut published) = (0, 0);
    for seed in 0..24 {
        let disk = MemDisk::new();
        let store = store(&disk);
        let mut rng = Rng::from_seed(seed);
        let begin = || store.begin(any_page()).unwrap();
        let mut others: Model = (0..20).map(|value| (add(&begin(), value), value)).collect();
        let mut own: Model = (0..40).map(|value| (add(&begin(), value), value)).collect();
        for round in 0..6 {
            // Otherwise numbers that were given back are used again in the same batch.
            if rng.chance(1, 2) {
                check_space(&store);
            }
            let before = (own.clone(), store.table.logical_end());
            let view = PrivatePages::new(&store, 8 + rng.below(20) as usize);
            let mut layers: Vec<(u64, Model)> = Vec::new();
            let mut number = 0;
            for _ in 0..rng.below(400) {
                let any = |model: &Model, rng: &mut Rng| {
                    *model.keys().nth(rng.below(model.len() as u64) as usize).unwrap()
                };
                let value = rng.next_u64();
                // A layer begins when something is changed.
                if rng.chance(1, 2)
                    && let Some((number, _)) = layers.last()
                {
                    view.change_in(*number);
                }
                let is_in_order =
                    layers.last().is_none_or(|(number, _)| *number == view.state.lock().current);
                match rng.below(24) {
                    0..15 if !is_in_order => {}
                    0..6 => drop(own.insert(add(&&view, value), value)),
                    6..12 => {
                        let id = any(&own, &mut rng);
                        set(&&view, id, value);
                        own.insert(id, value);
                    }
                    12..15 if own.len() > 5 => {
                        let id = any(&own, &mut rng);
                        let view = &view;
                        view.free(view.write(id).unwrap()).unwrap();
                        own.remove(&id);
                    }
                    15 => {
                        number += 1;
                        layers.push((number, own.clone()));
                    }
                    16 if !layers.is_empty() => {
                        let at = rng.below(layers.len() as u64) as usize;
                        view.drop_layers(layers[at].0);
                        view.change_in(at.checked_sub(1).map_or(0, |below| layers[below].0));
                        own = layers[at].1.clone();
                        layers.truncate(at);
                        check(&view, &own, "a layer was dropped");
                    }
                    17 if !layers.is_empty() => {
                        let at = rng.below(layers.len() as u64) as usize;
                        let into = at.checked_sub(1).map_or(0, |below| layers[below].0);
                        view.merge_layers(layers[at].0, into);
                        view.change_in(into);
                        layers.truncate(at);
                    }
                    18 => {
                        let id = any(&others, &mut rng);
                        set(&begin(), id, value);
                        others.insert(id, value);
                    }
                    19 => drop(others.insert(add(&begin(), value), value)),
                    20 => store.flush().unwrap(),
                    21 => drop(store.cleaner.clean_some().unwrap()),
                    _ => check(&view, &own, "changed"),
                }
                // A page may be there twice, as it is in two layers.
                assert!(view.len().1 < view.cached_max + 2 * 16, "{} of {}", view.len().1, view.cached_max);
            }
            check(&view, &own, "at the end");
            check(&*store, &others, "others");
            check(&*store, &before.0, "as others see it");
            if rng.chance(1, 3) {
                drop(view);
                own = before.0;
                undone += 1;
            } else {
                view.finish().unwrap();
                let pages = store.begin_publishing(Purpose::Use, 0u64, &view).unwrap();
                pages.publish(view);
                drop(pages);
                published += 1;
            }
            check(&*store, &own, &format!("seed {seed}, round {round}"));
            if rng.chance(1, 2) {
                // What was published changes once more in the same batch.
                let id = *own.keys().next().unwrap();
                set(&begin(), id, 77);
                own.insert(id, 77);
            }
        }
        check_space(&store);
        let all: Model = own.into_iter().chain(others).collect();
        check(&*store, &all, "flushed");
        let numbers = store.table.logical_end();
        assert!(numbers < 2000, "{numbers} numbers were used");
        store.close().unwrap();
        verify(&disk, &all);
    }
    assert!(undone > 20 && published > 50, "{undone} {published}");
}

/// A tree far larger than the caches is made, read, and given up or published.
#[test]
fn a_tree_is_larger_than_memory() {
    let disk = MemDisk::new();
    let store = store(&disk);
    let pages = store.begin(any_page()).unwrap();
    let tree = Tree::create(&pages, crate::PageSize::DEFAULT).unwrap();
    drop(pages);
    check_space(&store);
    let used = store.stats().used_pages;
    let numbers = store.table.logical_end();
    let fill = |view: &PrivatePages, rows: u64| {
        for row in 0..rows {
            let key = (row * 7919 % rows).to_be_bytes();
            tree.update(&view, &key, &mut |_| Change::Put(vec![row as u8; 200].into())).unwrap();
        }
        let (pages, cached) = view.len();
        assert!(pages > 20 * cached && cached <= 21, "{pages} pages, {cached} in memory");
    };
    let count = |pages: &dyn Fn(Seek<'_>) -> Result<crate::access::LeafView>| {
        let mut leaf = pages(Seek::First).unwrap();
        let mut entries = leaf.len();
        while let Some(upper) = leaf.upper().map(<[u8]>::to_vec) {
            leaf = pages(Seek::At(&upper)).unwrap();
            entries += leaf.len();
        }
        entries
    };
    let view = PrivatePages::new(&store, 20);
    fill(&view, 10_000);
    assert_eq!(count(&|seek| tree.leaf(&view, seek)), 10_000);
    assert_eq!(count(&|seek| tree.leaf(&*store, seek)), 0);
    assert_eq!(tree.get(&view, &5u64.to_be_bytes()).unwrap().map(|value| value.len()), Some(200));
    drop(view);
    check_space(&store);
    assert_eq!(store.stats().used_pages, used);
    let free = store.table.free_numbers();
    assert_eq!(store.table.logical_end() - free, numbers, "all numbers were given back");
    let view = PrivatePages::new(&store, 20);
    fill(&view, 10_000);
    view.finish().unwrap();
    let pages = store.begin_publishing(Purpose::Use, 0u64, &view).unwrap();
    pages.publish(view);
    drop(pages);
    assert_eq!(count(&|seek| tree.leaf(&*store, seek)), 10_000);
    check_space(&store);
    // The cleaner and backups take such pages for what they are.
    let pinned = store.pin();
    let mut full = Vec::new();
    pinned.backup(None, std::time::Duration::ZERO, &mut full, &mut |_, _| ()).unwrap();
    drop(pinned);
    store.allocator.space.lock().set_spare_pages_max(64);
    while store.cleaner.clean_some().unwrap() {}
    assert_eq!(count(&|seek| tree.leaf(&*store, seek)), 10_000);
    store.close().unwrap();
    let opened = ShadowStore::open(&disk, None, 1 << 20, true).unwrap();
    assert_eq!(opened.verify(&mut |_, _| ()).unwrap().findings, []);
    let restored = MemDisk::new();
    crate::store::shadow::restore([full.as_slice()], &restored, FILE, |_| 8, &mut |_, _| ()).unwrap();
    let opened = ShadowStore::open(&restored, None, 1 << 20, true).unwrap();
    assert_eq!(count(&|seek| tree.leaf(&opened, seek)), 10_000);
    assert_eq!(opened.verify(&mut |_, _| ()).unwrap().findings, []);
}

/// A full disk is an error of the write; the view stays as it was, and gives everything back.
#[test]
fn a_full_disk_is_an_error_of_the_view_alone() {
    let disk = SimDisk::new(1);
    let store = store(&disk);
    let mut model: Model =
        (0..8).map(|value| (add(&store.begin(any_page()).unwrap(), value), value)).collect();
    check_space(&store);
    disk.full_after(Some(4 << 20));
    let view = PrivatePages::new(&store, 16);
    let mut own = model.clone();
    let error = loop {
        let view = &view;
        match view.allocate(PageKind::TreeLeaf, crate::PageSize::DEFAULT) {
            Ok(mut page) => {
                page.body_mut()[..8].copy_from_slice(&9u64.to_le_bytes());
                own.insert(page.id(), 9);
            }
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::DiskFull), "{error}");
    assert!(own.len() > 500, "{}", own.len());
    check(&view, &own, "full");
    drop(view);
    check_space(&store);
    let id = *model.keys().next().unwrap();
    set(&store.begin(any_page()).unwrap(), id, 5);
    model.insert(id, 5);
    store.close().unwrap();
    verify(&disk, &model);
}
