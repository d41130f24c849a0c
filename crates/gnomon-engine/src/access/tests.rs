//! The tree against a model, under threads, and on damaged pages.

use std::{borrow::Cow, collections::BTreeMap};

use proptest::prelude::*;

use super::{
    Build, Change, HeldLeaf, LeafView, Reach, Search, Seek, Tree, Value,
    check::TreeReport,
    key_bytes_max,
    memory::{MemoryPages, Random},
    room_for,
};
use crate::{Error, KEY_BYTES_MAX, PageId, PageSize, VALUE_BYTES_MAX, page::PageCounts, sync::thread};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn put(tree: Tree, pages: &MemoryPages, key: &[u8], value: &[u8]) {
    tree.update(pages, key, &mut |_| Change::Put(Cow::Borrowed(value))).unwrap();
}

fn delete(tree: Tree, pages: &MemoryPages, key: &[u8]) {
    tree.update(pages, key, &mut |_| Change::Delete).unwrap();
}

/// All entries by a scan from leaf to leaf.
fn scan(tree: Tree, pages: &MemoryPages, forward: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    let owned = |leaf: &LeafView, index: usize| {
        let (key, value) = leaf.entry(index).unwrap().unwrap();
        let value = match value {
            Value::Inline(value) => value.to_vec(),
            Value::Large { bytes } => {
                let value = tree.get(pages, key).unwrap().unwrap();
                assert_eq!(value.len(), bytes);
                value
            }
        };
        (key.to_vec(), value)
    };
    let mut found = Vec::new();
    let mut leaf = tree.leaf(pages, if forward { Seek::First } else { Seek::Last }).unwrap();
    loop {
        assert!(matches!(leaf.entry(leaf.len()), Ok(None)));
        let entries = (0..leaf.len()).map(|index| owned(&leaf, index));
        if forward {
            found.extend(entries);
        } else {
            found.extend(entries.rev());
        }
        leaf = match (forward, leaf.lower(), leaf.upper()) {
            (true, _, Some(upper)) => {
                let next = tree.leaf_near(pages, &leaf, Seek::At(upper)).unwrap();
                assert_eq!(next.lower(), Some(upper));
                next
            }
            (false, Some(lower), _) => {
                let next = tree.leaf_near(pages, &leaf, Seek::Before(lower)).unwrap();
                assert_eq!(next.upper(), Some(lower));
                next
            }
            _ => break,
        };
    }
    found
}

/// Checks the tree, and that the store has no other pages than the tree's.
fn check(tree: Tree, pages: &MemoryPages) -> TreeReport {
    let mut visited = 0;
    let report = tree.check(pages, &mut |_| visited += 1).unwrap();
    assert!(report.damage.is_empty(), "{:?}", report.damage);
    assert_eq!(visited, pages.count(), "pages were lost");
    assert_eq!(visited as u64, report.leaf_pages + report.inner_pages + report.overflow_pages);
    report
}

fn check_against(tree: Tree, pages: &MemoryPages, model: &Model) {
    let report = check(tree, pages);
    assert_eq!(report.entries as usize, model.len());
    let entries: Vec<_> = model.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    assert!(scan(tree, pages, true) == entries, "the forward scan differs");
    let mut backward = scan(tree, pages, false);
    backward.reverse();
    assert!(backward == entries, "the backward scan differs");
}

fn new_tree() -> (MemoryPages, Tree) {
    new_tree_of(PageSize::DEFAULT)
}

fn new_tree_of(size: PageSize) -> (MemoryPages, Tree) {
    let pages = MemoryPages::default();
    let tree = Tree::create(&pages, size).unwrap();
    (pages, tree)
}

/// Nodes whose offsets count bytes, of less than 4 KiB, of 4 KiB, and of the largest body that they can count; and
/// nodes whose offsets count steps.
const SOME_SIZES: [usize; 6] = [512, 4096, 16 << 10, 64 << 10, 128 << 10, 1 << 20];

fn some_size() -> impl Strategy<Value = PageSize> {
    prop::sample::select(&SOME_SIZES).prop_map(|bytes| PageSize::from_bytes(bytes).unwrap())
}

/// The step for nodes of another size than 4 KiB: shorter keys for smaller nodes, longer values for larger ones.
fn resize(step: Step, size: PageSize) -> Step {
    let key = |mut key: Vec<u8>| {
        key.truncate(key_bytes_max(size));
        key
    };
    let value = |mut value: Vec<u8>| {
        let fill = value.first().copied().unwrap_or_default();
        let bytes = value.len() * size.bytes() / PageSize::DEFAULT.bytes();
        value.resize(bytes.min(if size > PageSize::DEFAULT { 300_000 } else { 20_000 }), fill);
        value
    };
    match step {
        Step::Put(k, v) => Step::Put(key(k), value(v)),
        Step::Sorted(changes) => {
            Step::Sorted(changes.into_iter().map(|(k, v)| (key(k), v.map(value))).collect())
        }
        Step::Delete(k) => Step::Delete(key(k)),
        Step::DeleteRange(a, b) => {
            let (a, b) = (key(a), key(b));
            Step::DeleteRange(a.clone().min(b.clone()), a.max(b))
        }
    }
}

fn empty_out(tree: Tree, pages: &MemoryPages, keys: impl Iterator<Item = Vec<u8>>) {
    keys.for_each(|key| delete(tree, pages, &key));
    let report = check(tree, pages);
    assert_eq!((report.entries, pages.count()), (0, 1), "only the root remains");
}

fn reclaim(tree: Tree, pages: &MemoryPages, budget: usize) {
    let mut left = pages.count();
    while !tree.reclaim(pages, budget).unwrap() {
        check(tree, pages);
        assert!(pages.count() < left && pages.count() + budget + 8 >= left);
        left = pages.count();
    }
    assert_eq!(pages.count(), 0);
}

#[derive(Clone, Debug)]
enum Step {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    /// Deletes what lies in a range, as a way to many merges.
    DeleteRange(Vec<u8>, Vec<u8>),
    /// Changes of several keys, in their order, with leaves held from one to the next.
    Sorted(Changes),
}

/// Values to put, or none to delete.
type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Few letters, so that keys repeat and share prefixes; some as long as may be.
fn some_key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::collection::vec(0u8..4, 0..6),
        4 => (0u16..400).prop_map(|number| number.to_be_bytes().to_vec()),
        2 => (prop::collection::vec(0u8..3, 0..5), any::<u8>(), 0usize..2).prop_map(|(start, fill, short)| {
            let mut key = start;
            key.resize(KEY_BYTES_MAX - short, fill % 2);
            key
        }),
        1 => (0u8..250, 300usize..1000).prop_map(|(last, bytes)| {
            let mut key = vec![7; bytes];
            key.push(last);
            key
        }),
    ]
}

fn some_value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => prop::collection::vec(any::<u8>(), 0..40),
        3 => (any::<u8>(), 200usize..1400).prop_map(|(fill, bytes)| vec![fill; bytes]),
        1 => (any::<u8>(), 1300usize..20_000).prop_map(|(fill, bytes)| vec![fill; bytes]),
    ]
}

fn some_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (some_key(), some_value()).prop_map(|(key, value)| Step::Put(key, value)),
        5 => some_key().prop_map(Step::Delete),
        2 => prop::collection::btree_map(some_key(), prop::option::weighted(0.7, some_value()), 1..60)
            .prop_map(Step::Sorted),
        1 => (some_key(), some_key()).prop_map(|(a, b)| Step::DeleteRange(a.clone().min(b.clone()), a.max(b))),
    ]
}

/// Where keys were found, at any time before.
type Places = BTreeMap<Vec<u8>, Search>;

fn apply(tree: Tree, pages: &MemoryPages, model: &mut Model, places: &mut Places, step: &Step) {
    match step {
        Step::Put(key, value) => {
            let before = model.insert(key.clone(), value.clone());
            let mut calls = 0;
            tree.update(pages, key, &mut |old| {
                calls += 1;
                assert_eq!(old, before.as_deref());
                Change::Put(Cow::Borrowed(value))
            })
            .unwrap();
            assert_eq!(calls, 1);
            assert_eq!(tree.get(pages, key).unwrap().as_ref(), Some(value));
        }
        Step::Delete(key) => {
            let before = model.remove(key);
            let changes = pages.changes();
            tree.update(pages, key, &mut |old| {
                assert_eq!(old, before.as_deref());
                Change::Delete
            })
            .unwrap();
            assert!(before.is_some() || pages.changes() == changes, "nothing was there to delete");
            assert_eq!(tree.get(pages, key).unwrap(), None);
        }
        Step::Sorted(changes) => {
            // Where some of the keys are before any is changed; others were found long ago, or never.
            for (_, key) in changes.keys().enumerate().filter(|(index, _)| index % 3 > 0) {
                tree.contains(pages, key, places.entry(key.clone()).or_default()).unwrap();
            }
            let mut leaf = HeldLeaf::default();
            for (key, value) in changes {
                let place = places.get(key).and_then(Search::place);
                let before = match value {
                    Some(value) => model.insert(key.clone(), value.clone()),
                    None => model.remove(key),
                };
                tree.update_next(pages, key, place, &mut leaf, &mut |old| {
                    assert_eq!(old, before.as_deref());
                    value.as_deref().map_or(Change::Delete, |value| Change::Put(Cow::Borrowed(value)))
                })
                .unwrap();
            }
        }
        Step::DeleteRange(from, to) => {
            let keys: Vec<_> = model.range(from.clone()..to.clone()).map(|(key, _)| key.clone()).collect();
            for key in keys {
                model.remove(&key);
                delete(tree, pages, &key);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(48), ..ProptestConfig::default() })]

    #[test]
    fn behaves_like_a_sorted_map(
        steps in prop::collection::vec(some_step(), 1..400),
        size in some_size(),
        budget in 1usize..40,
    ) {
        let steps: Vec<Step> = steps.into_iter().map(|step| resize(step, size)).collect();
        let (pages, tree) = new_tree_of(size);
        let (mut model, mut places) = (Model::new(), Places::new());
        for (index, step) in steps.iter().enumerate() {
            apply(tree, &pages, &mut model, &mut places, step);
            if index % 64 == 0 {
                check(tree, &pages);
            }
        }
        check_against(tree, &pages, &model);
        for key in steps.iter().filter_map(|step| if let Step::Delete(key) = step { Some(key) } else { None }) {
            let found = tree.get(&pages, key).unwrap();
            prop_assert_eq!(found.as_ref(), model.get(key));
            seeks_agree(tree, &pages, &model, key);
        }
        if budget % 2 == 0 {
            empty_out(tree, &pages, model.into_keys());
        }
        reclaim(tree, &pages, budget);
    }
}

/// How many cases a property is tried with; a long sweep sets more.
fn cases(default: u32) -> u32 {
    std::env::var("GNOMON_TREE_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// What a scan that starts at a key in the middle finds next.
fn seeks_agree(tree: Tree, pages: &MemoryPages, model: &Model, key: &[u8]) {
    let at = tree.leaf(pages, Seek::At(key)).unwrap();
    assert!(at.lower().is_none_or(|lower| lower <= key) && at.upper().is_none_or(|upper| key < upper));
    assert_eq!(at.search(key).unwrap().is_ok(), model.contains_key(key));
    assert_eq!(tree.contains(pages, key, &mut Search::default()).unwrap(), model.contains_key(key));
    let before = tree.leaf(pages, Seek::Before(key)).unwrap();
    assert!(
        before.lower().is_none_or(|lower| lower < key) && before.upper().is_none_or(|upper| key <= upper)
    );
    let (Ok(index) | Err(index)) = before.search(key).unwrap();
    let previous = index.checked_sub(1).and_then(|index| before.entry(index).unwrap());
    let previous = previous.map(|(key, _)| key.to_vec());
    let expected = model.range(..key.to_vec()).next_back().map(|(key, _)| key.clone());
    // The leaf may begin with the first key that is not less than `key` only if there is none before in the tree's
    // part that the leaf covers; a scan then goes on below its lower fence.
    match previous {
        Some(previous) => assert_eq!(Some(previous), expected),
        None => assert!(before.lower().is_none_or(|lower| expected.is_none_or(|key| key.as_slice() < lower))),
    }
}

#[test]
fn keys_and_values_at_their_limits() {
    let (pages, tree) = new_tree();
    let longest = vec![0xff; KEY_BYTES_MAX];
    let largest: Vec<u8> = (0..VALUE_BYTES_MAX).map(|index| (index / 1000) as u8).collect();
    for (key, value) in
        [(&b""[..], &b""[..]), (b"", b"x"), (&longest, b""), (b"\0", &largest), (&longest, &largest)]
    {
        put(tree, &pages, key, value);
        assert!(tree.get(&pages, key).unwrap().as_deref() == Some(value));
    }
    check(tree, &pages);
    let too_long = vec![0; KEY_BYTES_MAX + 1];
    let error = tree.update(&pages, &too_long, &mut |_| unreachable!("the key is refused first"));
    assert!(
        matches!(error, Err(Error::KeyTooLong { bytes, max: KEY_BYTES_MAX }) if bytes == KEY_BYTES_MAX + 1)
    );
    assert_eq!(tree.get(&pages, &too_long).unwrap(), None);
    let changes = pages.changes();
    let too_large = vec![0; VALUE_BYTES_MAX + 1];
    let error = tree.update(&pages, b"", &mut |_| Change::Put(Cow::Borrowed(&too_large)));
    assert!(matches!(error, Err(Error::ValueTooLong { bytes }) if bytes == VALUE_BYTES_MAX + 1));
    assert_eq!(pages.changes(), changes);
    reclaim(tree, &pages, 1000);
}

/// The longest keys with values that just fit beside them, and just do not, in nodes of every size.
#[test]
fn nodes_of_every_size_split_at_their_limits() {
    for size in PageSize::all() {
        let (pages, tree) = new_tree_of(size);
        let mut random = Random::new(size.bytes() as u64);
        let mut model = Model::new();
        let longest = tree.key_bytes_max();
        assert_eq!(longest, (size.bytes() / 4).min(KEY_BYTES_MAX));
        let third = size.body_bytes() / 3;
        for round in 0..if size.bytes() > 64 << 10 { 60 } else { 200 } {
            let mut key = vec![1; [4, longest / 2, longest][random.below(3)]];
            key[..2].copy_from_slice(&(random.next_u64() as u16).to_be_bytes());
            let room = third.saturating_sub(key.len()).min(65_520 - longest);
            let value =
                vec![7; [0, 5, room / 2, room - 20, room - 10, room, third, 2 * third][random.below(8)]];
            put(tree, &pages, &key, &value);
            model.insert(key, value);
            if round % 20 == 19 {
                check(tree, &pages);
            }
        }
        check_against(tree, &pages, &model);
        let error =
            tree.update(&pages, &vec![0; longest + 1], &mut |_| unreachable!("the key is refused first"));
        assert!(matches!(error, Err(Error::KeyTooLong { max, .. }) if max == longest));
        let nodes = pages.sizes()[size];
        assert!(nodes >= 2, "{size}: {nodes}");
        let mut keys: Vec<_> = model.into_keys().collect();
        for index in (1..keys.len()).rev() {
            keys.swap(index, random.below(index + 1));
        }
        empty_out(tree, &pages, keys.into_iter());
    }
}

/// A large value takes few large pages, and little more than its length.
#[test]
fn large_values_lie_on_pages_that_fit_them() {
    for node in [PageSize::MIN, PageSize::DEFAULT, PageSize::MAX] {
        let (pages, tree) = new_tree_of(node);
        let smallest = node.min(PageSize::DEFAULT);
        let lengths = (0..15)
            .flat_map(|shift| [1500 << shift, (4096 << shift) - 44, 4096 << shift, (5 << shift) * 1000]);
        for bytes in lengths.filter(|bytes| *bytes <= VALUE_BYTES_MAX).chain([VALUE_BYTES_MAX]) {
            let value: Vec<u8> = (0..bytes).map(|at| (at / 100) as u8).collect();
            put(tree, &pages, b"key", &value);
            assert!(tree.get(&pages, b"key").unwrap().as_ref() == Some(&value));
            let mut sizes = pages.sizes();
            sizes[node] -= 1;
            let taken: usize = sizes.iter().map(|(size, count)| size.bytes() * count as usize).sum();
            if taken == 0 {
                assert!(bytes * 3 < node.bytes(), "{bytes} bytes are in the leaf");
                continue;
            }
            let mut beside = PageCounts::default();
            room_for(node, PageSize::MAX, 3, bytes, &mut beside);
            assert_eq!(beside, sizes);
            assert!(
                taken - bytes <= bytes / 3 + smallest.bytes() + 44 * sizes.pages() as usize,
                "{bytes}: {sizes:?}"
            );
            assert!(sizes.pages() as usize <= bytes / (1 << 20) + 12, "{bytes}: {sizes:?}");
            assert!(sizes.iter().all(|(size, _)| size >= smallest));
        }
        let sizes = pages.sizes();
        assert!(node == PageSize::MAX || sizes[PageSize::MAX] == 16 && sizes.pages() <= 19, "{sizes:?}");
        check(tree, &pages);
        reclaim(tree, &pages, 3);
    }
}

/// A node of another size than the tree's is damage.
#[test]
fn nodes_of_two_sizes_are_no_tree() {
    let (pages, tree) = new_tree_of(PageSize::MIN);
    (0..100u8).for_each(|number| put(tree, &pages, &[number], &[number; 50]));
    let other = Tree::open(tree.root(), PageSize::DEFAULT);
    for result in [
        other.get(&pages, b"key").map(|_| ()),
        other.leaf(&pages, Seek::First).map(|_| ()),
        other.update(&pages, b"key", &mut |_| Change::Delete),
    ] {
        assert!(matches!(result, Err(Error::Corrupt { .. })));
    }
    assert_eq!(other.check(&pages, &mut |_| ()).unwrap().damage.len(), 1);
}

#[test]
fn keys_in_order_fill_the_leaves() {
    for (name, descending) in [("ascending", false), ("descending", true)] {
        let (pages, tree) = new_tree();
        for number in 0..20_000u32 {
            let number = if descending { u32::MAX - number } else { number };
            put(tree, &pages, &number.to_be_bytes(), &[7; 30]);
        }
        let report = check(tree, &pages);
        assert!(report.leaf_fill > 0.95, "{name}: {}", report.leaf_fill);
        assert_eq!(report.height, 3, "{name}");
    }
}

#[test]
fn a_tree_is_built_from_entries_in_order() {
    let key = |number: u32| [&number.to_be_bytes()[..], &vec![7; number as usize % 5 * 60]].concat();
    for size in PageSize::all().filter(|size| size.bytes() <= 16 << 10) {
        for count in [0, 1, 2, 30, 3000] {
            let (pages, mut model) = (MemoryPages::default(), Model::new());
            let mut build = Build::begin(&pages, size).unwrap();
            for from in (0..count).step_by(700) {
                let mut end = build.append(&pages).unwrap();
                for number in from..count.min(from + 700) {
                    let mut key = key(number);
                    key.truncate(key_bytes_max(size));
                    // Some values are large.
                    let value = vec![number as u8; [3, 40, size.bytes()][(number % 20 / 9) as usize]];
                    end.push(&key, &value).unwrap();
                    model.insert(key, value);
                }
                drop(end);
                check_against(build.tree(), &pages, &model);
            }
            let tree = build.tree();
            let fill = check(tree, &pages).leaf_fill;
            assert!(count < 3000 || size.bytes() < 4096 || fill > 0.8, "{size}: {fill}");
            // It can be changed as any other.
            for (number, key) in model.keys().cloned().collect::<Vec<_>>().into_iter().enumerate() {
                match number % 3 {
                    0 => delete(tree, &pages, &key),
                    1 => put(tree, &pages, &key, &[8; 50]),
                    _ => put(tree, &pages, &[&key[..key.len() - 1], &[1]].concat(), &[9; 20]),
                }
            }
            check(tree, &pages);
            reclaim(tree, &pages, 50);
        }
    }
}

#[test]
fn a_build_takes_no_key_twice() {
    let pages = MemoryPages::default();
    let mut build = Build::begin(&pages, PageSize::DEFAULT).unwrap();
    let mut end = build.append(&pages).unwrap();
    end.push(b"b", b"").unwrap();
    for key in [&b"b"[..], b"a"] {
        assert!(matches!(end.push(key, b""), Err(Error::Corrupt { .. })));
    }
    assert!(matches!(end.push(&[9; 2000], b""), Err(Error::KeyTooLong { .. })));
    end.push(b"c", b"").unwrap();
    drop(end);
    assert_eq!(check(build.tree(), &pages).entries, 2);
}

#[test]
fn random_keys_fill_two_thirds() {
    let (pages, tree) = new_tree();
    let mut random = Random::new(1);
    for _ in 0..20_000 {
        put(tree, &pages, &random.next_u64().to_be_bytes(), &[7; 30]);
    }
    let report = check(tree, &pages);
    assert!((0.6..0.8).contains(&report.leaf_fill), "{}", report.leaf_fill);
}

/// The longest keys and entries of every size: each split must find a cut that fits.
#[test]
fn entries_of_the_largest_sizes_split_anywhere() {
    for seed in 0..200 {
        let (pages, tree) = new_tree();
        let mut random = Random::new(seed);
        let mut model = Model::new();
        let fill = random.below(2) as u8;
        for _ in 0..60 {
            let bytes = [1, 10, 300, 1000, KEY_BYTES_MAX][random.below(5)];
            let mut key = vec![fill; bytes];
            let last = key.len() - 1;
            key[random.below(bytes.min(3))] = random.below(4) as u8;
            key[last] = random.below(8) as u8;
            let value = vec![3; [0, 30, 318, 322, 1000, 1300, 1340, 1350][random.below(8)]];
            put(tree, &pages, &key, &value);
            model.insert(key, value);
        }
        check_against(tree, &pages, &model);
        let mut keys: Vec<_> = model.into_keys().collect();
        for index in (1..keys.len()).rev() {
            keys.swap(index, random.below(index + 1));
        }
        empty_out(tree, &pages, keys.into_iter());
    }
}

/// Separators are prefixes of keys and rarely keys; here they become keys, where nodes split at them.
#[test]
fn separators_can_be_keys() {
    for seed in 0..40 {
        let (pages, tree) = new_tree();
        let mut random = Random::new(seed);
        let mut model = Model::new();
        for round in 0..300 {
            // Separators are about as long as what the keys have in common.
            let mut key = vec![1; [2, 700, 1000][seed as usize % 3]];
            key.extend_from_slice(&(random.next_u64() as u16).to_be_bytes());
            if round % 3 == 0 {
                let leaf = tree.leaf(&pages, Seek::At(&key)).unwrap();
                key = leaf.lower().or(leaf.upper()).map_or(key, <[u8]>::to_vec);
            }
            let value = vec![5; [0, 900][random.below(2)]];
            put(tree, &pages, &key, &value);
            model.insert(key, value);
            if round % 10 == 9 {
                let key = model.keys().nth(random.below(model.len())).unwrap().clone();
                delete(tree, &pages, &key);
                model.remove(&key);
            }
        }
        check_against(tree, &pages, &model);
        empty_out(tree, &pages, model.into_keys());
    }
}

#[test]
fn deletes_give_pages_back_in_every_order() {
    const COUNT: u32 = 4000;
    let key = |number: u32| (u64::from(number)).to_be_bytes().repeat(3);
    for order in 0..4 {
        let (pages, tree) = new_tree();
        (0..COUNT).for_each(|number| put(tree, &pages, &key(number), &[1; 50]));
        let full = pages.count();
        let mut numbers: Vec<u32> = (0..COUNT).collect();
        match order {
            0 => {}
            1 => numbers.reverse(),
            2 => numbers.sort_by_key(|number| (number % 7, *number)),
            _ => {
                let mut random = Random::new(order);
                numbers.sort_by_cached_key(|_| random.next_u64());
            }
        }
        let (first, second) = numbers.split_at(COUNT as usize * 9 / 10);
        first.iter().for_each(|number| delete(tree, &pages, &key(*number)));
        let report = check(tree, &pages);
        assert!(pages.count() * 2 < full, "order {order}: {} of {full} pages left", pages.count());
        assert!(report.leaf_fill > 0.24, "order {order}: {report:?}");
        empty_out(tree, &pages, second.iter().map(|number| key(*number)));
    }
}

/// A store without space refuses an update, and the tree is as before, at whichever allocation it happens.
#[test]
fn a_full_store_changes_nothing() {
    let (pages, tree) = new_tree();
    let mut model = Model::new();
    let mut random = Random::new(5);
    let mut refused = 0;
    for round in 0..1500 {
        let mut key = vec![0; [4, 1000][random.below(2)]];
        key[..4].copy_from_slice(&(random.next_u64() as u32).to_be_bytes());
        let value = vec![9; [10, 700, 9000][random.below(3)]];
        pages.limit_allocations(Some(round % 4));
        match tree.update(&pages, &key, &mut |_| Change::Put(Cow::Borrowed(&value))) {
            Ok(()) => drop(model.insert(key, value)),
            Err(Error::DiskFull) => {
                refused += 1;
                assert_eq!(tree.get(&pages, &key).unwrap().as_ref(), model.get(&key));
                check(tree, &pages);
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 100);
    check_against(tree, &pages, &model);
}

/// Writers on keys of their own and readers of everything, while the tree grows and shrinks.
#[test]
fn threads_share_a_tree() {
    const WRITERS: u64 = 4;
    const READERS: u64 = 2;
    let rounds = if cfg!(shuttle) { 0 } else { u64::from(cases(48)) * 100 };
    let (pages, tree) = new_tree();
    let pages = &pages;
    let model = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || write_own_keys(tree, pages, writer, rounds, &WAYS)))
            .collect();
        for reader in 0..READERS {
            scope.spawn(move || read_all(tree, pages, reader, rounds / 20));
        }
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect::<Model>()
    });
    check_against(tree, pages, &model);
    empty_out(tree, pages, model.into_keys());
}

/// A leaf is where it was only as long as none was split or merged.
#[test]
fn finds_a_place_that_is_trusted_after_a_split() {
    for way in [Way::Known, Way::Reach] {
        let (mut pages, tree) = new_tree();
        write_own_keys(tree, &pages, 0, 2000, &WAYS);
        pages.forgets_splits = true;
        let trusted = || write_own_keys(tree, &pages, 1, 2000, &[way]);
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(trusted)).is_err(), "{way:?}");
    }
}

/// The leaf beside one is where the parent had it only as long as none was split or merged.
#[test]
fn scans_go_on_beside_a_leaf_while_leaves_are_split_and_merged() {
    let (pages, tree) = new_tree();
    assert!(scan_beside_changes(tree, &pages) > 500);
    let (mut pages, tree) = new_tree();
    pages.forgets_splits = true;
    let trusting = || scan_beside_changes(tree, &pages);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(trusting)).is_err());
}

/// Scans both ways while the tree grows and shrinks. Each leaf must be the one that a search finds. Returns the number
/// of leaves.
fn scan_beside_changes(tree: Tree, pages: &MemoryPages) -> usize {
    let owned = |key: Option<&[u8]>| key.map(<[u8]>::to_vec);
    let contents = |leaf: &LeafView| {
        let keys = (0..leaf.len()).map(|index| owned(leaf.entry(index).unwrap().map(|(key, _)| key)));
        (owned(leaf.lower()), owned(leaf.upper()), keys.collect::<Vec<_>>())
    };
    let (mut random, mut leaves) = (Random::new(7), 0);
    for round in 0..60 {
        let forward = round % 2 == 0;
        let mut leaf = tree.leaf(pages, if forward { Seek::First } else { Seek::Last }).unwrap();
        loop {
            let changes = [0, 0, 1, 30][random.below(4)];
            for _ in 0..changes {
                let key = (random.below(600) as u16).to_be_bytes();
                match random.below(10) < if round / 10 % 2 == 0 { 8 } else { 2 } {
                    true => put(tree, pages, &key, &[1; 1300][..[3, 60, 400, 1300][random.below(4)]]),
                    false => delete(tree, pages, &key),
                }
            }
            let next = match (forward, leaf.lower(), leaf.upper()) {
                (true, _, Some(upper)) => Seek::At(upper),
                (false, Some(lower), _) => Seek::Before(lower),
                _ => break,
            };
            let near = tree.leaf_near(pages, &leaf, next).unwrap();
            assert_eq!(contents(&near), contents(&tree.leaf(pages, next).unwrap()));
            leaf = near;
            leaves += 1;
        }
    }
    leaves
}

/// Where a search begins.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Where the key was found before, or at the root.
    Known,
    /// On the leaf that was found last.
    Reach,
    /// Where the key has just been prefetched.
    Prefetch,
}

const WAYS: [Way; 3] = [Way::Known, Way::Reach, Way::Prefetch];

/// Puts and deletes keys that end with `writer`; each value begins with its key.
fn write_own_keys(tree: Tree, pages: &MemoryPages, writer: u64, rounds: u64, ways: &[Way]) -> Model {
    let mut random = Random::new(writer + 100);
    let mut own = Model::new();
    // Where keys were found, sometimes long ago, and the leaf that was found last.
    let mut searches = BTreeMap::<_, Search>::new();
    let (mut reach, mut reached) = (None, 0);
    for round in 0..rounds {
        let way = ways[random.below(ways.len())];
        let number = match way {
            Way::Reach => (reached + random.below(6)) % 600,
            Way::Known | Way::Prefetch => random.below(600),
        };
        let key = [&(number as u16).to_be_bytes()[..], &[writer as u8]].concat();
        // Mostly puts in some phases, mostly deletes in others, so that nodes split and merge.
        let puts = if round / 500 % 2 == 0 { 8 } else { 2 };
        let value = (random.below(10) < puts).then(|| {
            let bytes = [3, 60, 400, 1300, 6000][random.below(5)];
            let mut value = key.clone();
            value.resize(bytes, writer as u8);
            value
        });
        let search = searches.entry(key.clone()).or_default();
        match way {
            Way::Known => {}
            Way::Reach => *search = Search::at(reach.as_ref().and_then(|reach: &Reach| reach.place(&key))),
            Way::Prefetch => {
                let other = (random.below(600) as u16).to_be_bytes();
                let mut found = [None; 2];
                tree.prefetch(pages, &[&other[..], &key], &mut found);
                *search = Search::at(found[1]);
            }
        }
        if random.below(4) > 0 {
            assert_eq!(tree.contains(pages, &key, search).unwrap(), own.contains_key(&key));
            // Kept long enough for the leaf to be split.
            if reach.is_none() || random.below(20) == 0 {
                reach = search.clone().reach(&key).or(reach);
                reached = number;
            }
        }
        let entry = tree.entry(pages, &key, search.place()).unwrap();
        assert_eq!(entry.value().unwrap().as_deref(), own.get(&key).map(Vec::as_slice));
        let change = value.as_deref().map_or(Change::Delete, |value| Change::Put(value.into()));
        entry.change(change).unwrap();
        match value {
            Some(value) => own.insert(key, value),
            None => own.remove(&key),
        };
    }
    own
}

/// Looks keys up and scans both ways; whatever is found must be whole, and in order.
fn read_all(tree: Tree, pages: &MemoryPages, reader: u64, rounds: u64) {
    let is_whole = |key: &[u8], value: &[u8]| {
        let (start, rest) = value.split_at(3);
        start == key && rest.iter().all(|byte| *byte == key[2])
    };
    let mut random = Random::new(reader + 200);
    let mut searches = BTreeMap::new();
    for round in 0..rounds {
        for _ in 0..20 {
            let key = [&(random.below(600) as u16).to_be_bytes()[..], &[random.below(4) as u8]].concat();
            let search = searches.entry(key.clone()).or_default();
            if let Some(value) = tree.get_at(pages, &key, search).unwrap() {
                assert!(is_whole(&key, &value));
            }
        }
        let forward = round % 2 == 0;
        let mut last: Option<Vec<u8>> = None;
        let mut leaf = tree.leaf(pages, if forward { Seek::First } else { Seek::Last }).unwrap();
        loop {
            for index in 0..leaf.len() {
                let index = if forward { index } else { leaf.len() - 1 - index };
                let (key, value) = leaf.entry(index).unwrap().unwrap();
                if let Value::Inline(value) = value {
                    assert!(is_whole(key, value));
                }
                // A leaf that was merged meanwhile may begin with keys that were seen before.
                if last.as_deref().is_none_or(|last| if forward { last < key } else { key < last }) {
                    last = Some(key.to_vec());
                }
            }
            let next = match (forward, leaf.lower(), leaf.upper()) {
                (true, _, Some(upper)) => Seek::At(upper),
                (false, Some(lower), _) => Seek::Before(lower),
                _ => break,
            };
            leaf = tree.leaf_near(pages, &leaf, next).unwrap();
        }
    }
}

/// Bytes of random pages are changed: every call returns, with a result or an error.
#[test]
fn damaged_pages_make_errors_and_nothing_worse() {
    let mut refused = 0;
    for seed in 0..u64::from(cases(48)) * 8 {
        let bytes = SOME_SIZES[(seed % 3) as usize];
        let (pages, tree) = new_tree_of(PageSize::from_bytes(bytes).unwrap());
        let mut random = Random::new(seed);
        let wide = random.below(2) == 0;
        let some_key = |random: &mut Random| {
            let mut key = vec![1; if wide { 4 + random.below(tree.key_bytes_max() - 4) } else { 4 }];
            key[..2].copy_from_slice(&(random.below(300) as u16).to_be_bytes());
            key
        };
        for _ in 0..300 {
            let key = some_key(&mut random);
            put(tree, &pages, &key, &vec![2; [5, 300, 5000][random.below(3)]]);
        }
        let ids = pages.ids();
        for _ in 0..1 + random.below(4) {
            pages.damage(ids[random.below(ids.len())], |body| {
                for _ in 0..1 + random.below(3) {
                    // Mostly where the headers and slots are.
                    let end = if random.below(4) == 0 { body.len() } else { 64 };
                    let at = random.below(end);
                    body[at] = match random.below(3) {
                        0 => random.next_u64() as u8,
                        1 => body[at] ^ (1 << random.below(8)),
                        _ => body[at].wrapping_add(1),
                    };
                }
                if random.below(4) == 0 {
                    // A pointer to a page of the same tree.
                    let start = random.below(body.len() - 8);
                    body[start..start + 8].copy_from_slice(&ids[random.below(ids.len())].0.to_le_bytes());
                }
            });
        }
        let mut note = |failed: bool| refused += u32::from(failed);
        note(!tree.check(&pages, &mut |_: PageId| {}).unwrap().damage.is_empty());
        for _ in 0..60 {
            let key = some_key(&mut random);
            match random.below(6) {
                0 => note(tree.get(&pages, &key).is_err()),
                1 | 2 => note(tree.update(&pages, &key, &mut |_| Change::Delete).is_err()),
                3 | 4 => {
                    let value = vec![4; [5, 300, 5000][random.below(3)]];
                    note(tree.update(&pages, &key, &mut |_| Change::Put(Cow::Borrowed(&value))).is_err());
                }
                _ => {
                    for seek in [Seek::At(&key), Seek::Before(&key), Seek::First, Seek::Last] {
                        match tree.leaf(&pages, seek) {
                            Ok(leaf) => (0..leaf.len()).for_each(|index| note(leaf.entry(index).is_err())),
                            Err(_) => note(true),
                        }
                    }
                }
            }
        }
        // Fences ascend whatever the pages say, so a scan ends.
        let mut seek = Some(Vec::new());
        while let Some(from) = seek {
            match tree.leaf(&pages, Seek::At(&from)) {
                Ok(leaf) => {
                    assert!(leaf.upper().is_none_or(|upper| upper > from.as_slice()));
                    seek = leaf.upper().map(<[u8]>::to_vec);
                }
                Err(_) => seek = None,
            }
        }
        while let Ok(false) = tree.reclaim(&pages, 10) {}
    }
    assert!(refused > 100, "the damage was hardly noticed: {refused} errors");
}

#[cfg(shuttle)]
mod scheduled {
    use super::*;
    use crate::sync::check_random;

    /// Few entries, of which four fill a leaf, so that nearly every update splits or merges.
    #[test]
    fn shuttle_splits_and_merges_beside_readers() {
        check_random("splits_and_merges_beside_readers", 1000, || writers_beside_reader(8));
    }

    /// As before, but the root is a leaf at times.
    #[test]
    fn shuttle_grows_and_shrinks_beside_readers() {
        check_random("grows_and_shrinks_beside_readers", 1000, || writers_beside_reader(1));
    }

    fn writers_beside_reader(fixed: usize) {
        let (pages, tree) = new_tree();
        let pages = crate::sync::Arc::new(pages);
        let key = |number: usize, writer: u8| {
            let mut key = vec![number as u8; 900];
            key.push(writer);
            key
        };
        (0..fixed).for_each(|number| put(tree, &pages, &key(number, 9), b"fixed"));
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let pages = pages.clone();
                thread::spawn(move || {
                    // Above the limit of a leaf, and below.
                    let value = vec![writer; if writer == 0 { 2000 } else { 400 }];
                    for number in [1, 6, 3] {
                        let (key, mut search) = (key(number, writer), Search::default());
                        assert!(!tree.contains(&*pages, &key, &mut search).unwrap());
                        let entry = tree.entry(&*pages, &key, search.place()).unwrap();
                        entry.change(Change::Put(Cow::Borrowed(&value))).unwrap();
                        assert_eq!(tree.get_at(&*pages, &key, &mut search).unwrap().as_ref(), Some(&value));
                    }
                    for number in [1, 6, 3] {
                        assert_eq!(tree.get(&*pages, &key(number, writer)).unwrap().as_ref(), Some(&value));
                    }
                    for number in [6, 1, 3] {
                        delete(tree, &pages, &key(number, writer));
                    }
                })
            })
            .collect();
        let reader = {
            let pages = pages.clone();
            thread::spawn(move || {
                for number in 0..fixed {
                    let found = tree.get(&*pages, &key(number, 9)).unwrap();
                    assert_eq!(found.as_deref(), Some(&b"fixed"[..]));
                }
                for number in [3, 6, 1] {
                    if let Some(value) = tree.get(&*pages, &key(number, 0)).unwrap() {
                        assert_eq!(value, vec![0; 2000]);
                    }
                }
                let mut seen = Vec::new();
                let mut leaf = tree.leaf(&*pages, Seek::First).unwrap();
                loop {
                    let keys =
                        (0..leaf.len()).filter_map(|index| leaf.entry(index).unwrap()).map(|(key, _)| key);
                    seen.extend(keys.filter(|key| key.last() == Some(&9)).map(|key| usize::from(key[0])));
                    let Some(upper) = leaf.upper().map(<[u8]>::to_vec) else { break };
                    leaf = tree.leaf_near(&*pages, &leaf, Seek::At(&upper)).unwrap();
                }
                seen.sort_unstable();
                seen.dedup();
                assert_eq!(seen, (0..fixed).collect::<Vec<_>>(), "the scan missed keys that nobody touched");
            })
        };
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        reader.join().unwrap();
        check(tree, &pages);
        empty_out(tree, &pages, (0..fixed).map(|number| key(number, 9)));
    }
}
