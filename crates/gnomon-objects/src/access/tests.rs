//! Objects against a model, with failures at every step, and on damaged pages.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    ops::{Deref, DerefMut},
    rc::Rc,
};

use gnomon_engine::level0::{MemoryPages, Random};

use super::{
    Error, Failpoint, Failpoints, Header, ObjectShape, PageGuard, PageId, PageKind, PageRead, PageSize,
    PageWrite, Reference, Result, append, check, create, free, header, read, set_foreign, update,
    value_bytes_max,
};

/// Says what is wrong instead of panicking, so that a planted bug can be told to be found.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err(format!($($text)+));
        }
    };
}

/// Pages that know what an operation does to them, and can fail.
#[derive(Default)]
struct Watched {
    pages: MemoryPages,
    watch: Rc<Watch>,
}

#[derive(Default)]
struct Watch {
    /// How many latches are held.
    held: Cell<usize>,
    /// What the operation has latched, and how (exclusively).
    latched: RefCell<BTreeSet<(PageId, bool)>>,
    /// What it has changed.
    changed: RefCell<BTreeSet<PageId>>,
    /// A page that it waited for with a latch in hand.
    waited: Cell<Option<PageId>>,
    /// How many calls are yet to succeed.
    calls_left: Cell<Option<usize>>,
    failed: Cell<bool>,
}

struct Held<G> {
    guard: G,
    watch: Rc<Watch>,
}

impl<G> Drop for Held<G> {
    fn drop(&mut self) {
        self.watch.held.update(|held| held - 1);
    }
}

impl<G: Deref> Deref for Held<G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut + PageGuard> DerefMut for Held<G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        self.watch.changed.borrow_mut().insert(self.guard.id());
        &mut self.guard
    }
}

impl<G: PageGuard> PageGuard for Held<G> {
    fn id(&self) -> PageId {
        self.guard.id()
    }
}

impl Watched {
    /// An operation begins, of which so many calls succeed; all if none is given.
    fn begin(&self, calls: Option<usize>) {
        self.watch.latched.take();
        self.watch.changed.take();
        self.watch.calls_left.set(calls);
        self.watch.failed.set(false);
    }

    fn call<G>(&self, error: Error, f: impl FnOnce() -> Result<G>) -> Result<Held<G>> {
        if let Some(left) = self.watch.calls_left.get() {
            if left == 0 {
                self.watch.failed.set(true);
                return Err(error);
            }
            self.watch.calls_left.set(Some(left - 1));
        }
        let guard = f()?;
        self.watch.held.update(|held| held + 1);
        Ok(Held { guard, watch: Rc::clone(&self.watch) })
    }

    fn latch<G>(&self, id: PageId, exclusive: bool, f: impl FnOnce() -> Result<G>) -> Result<Held<G>> {
        let is_first = self.watch.latched.borrow_mut().insert((id, exclusive));
        if is_first && self.watch.held.get() > 0 {
            self.watch.waited.set(Some(id));
        }
        self.call(Error::Closed, f)
    }
}

impl PageRead for Watched {
    type ReadGuard = Held<<MemoryPages as PageRead>::ReadGuard>;

    fn read(&self, id: PageId) -> Result<Self::ReadGuard> {
        self.latch(id, false, || self.pages.read(id))
    }
}

impl PageWrite for Watched {
    type WriteGuard = Held<<MemoryPages as PageWrite>::WriteGuard>;

    fn write(&self, id: PageId) -> Result<Self::WriteGuard> {
        self.latch(id, true, || self.pages.write(id))
    }

    fn allocate(&self, kind: PageKind, size: PageSize) -> Result<Self::WriteGuard> {
        let page = self.call(Error::DiskFull, || self.pages.allocate(kind, size))?;
        self.watch.latched.borrow_mut().insert((page.id(), true));
        Ok(page)
    }

    fn free(&self, guard: Self::WriteGuard) -> Result<()> {
        let id = guard.id();
        drop(guard);
        self.pages.free(self.pages.write(id)?)
    }
}

fn size(bytes: usize) -> PageSize {
    PageSize::from_bytes(bytes).unwrap()
}

/// What an object should be.
struct Model {
    own: Vec<Option<Vec<u8>>>,
    foreign: Vec<Reference>,
}

fn some_value(random: &mut Random, data: PageSize) -> Vec<u8> {
    let max = value_bytes_max(data);
    let bytes = match random.below(20) {
        0 => max - random.below(3),
        1 => random.below(max),
        2 => 124 + random.below(6),
        3 => max / 3,
        _ => random.below(24),
    };
    vec![random.next_u64() as u8; bytes]
}

fn some_foreign(random: &mut Random) -> Vec<Reference> {
    let count = random.below(30);
    (0..count)
        .map(|_| Reference { object: PageId(random.next_u64()), slot: random.next_u64() as u32 })
        .collect()
}

/// The object is what the model says, and has all pages that there are.
fn compare(pages: &Watched, object: PageId, model: &Model) -> Result<(), String> {
    pages.begin(None);
    let mut found = check(pages, object).map_err(|error| format!("check finds {error}"))?;
    found.sort_unstable();
    ensure!(
        found == pages.pages.ids(),
        "{} pages of the object, {} in all",
        found.len(),
        pages.pages.count()
    );
    let header = header(pages, object).map_err(|error| error.to_string())?;
    ensure!(header.own() as usize == model.own.len(), "{} subobjects, not {}", header.own(), model.own.len());
    ensure!(header.foreign().eq(model.foreign.iter().copied()), "the references differ");
    for (slot, value) in (0..).zip(&model.own) {
        let found = read(pages, &header, slot);
        ensure!(matches!(&found, Ok(found) if found == value), "slot {slot} is {found:?}, not {value:?}");
    }
    let beyond = header.own();
    ensure!(matches!(read(pages, &header, beyond), Ok(None)), "slot {beyond} was never made");
    Ok(())
}

/// Random operations, of which some fail for want of pages, of room, or because the store fails.
fn run(seed: u64) -> Result<(), String> {
    let mut random = Random::new(seed);
    let pages = Watched::default();
    let shape = ObjectShape {
        header: size(512 << random.below(3)),
        data: size([512, 1024, 2048, 4096, 32 << 10][random.below(5)]),
    };
    let own: Vec<Vec<u8>> = (0..random.below(60)).map(|_| some_value(&mut random, shape.data)).collect();
    let mut model = Model { own: own.into_iter().map(Some).collect(), foreign: some_foreign(&mut random) };
    let own: Vec<&[u8]> = model.own.iter().flatten().map(Vec::as_slice).collect();
    let mut allocations = 0;
    let object = loop {
        pages.pages.limit_allocations(Some(allocations));
        match create(&pages, shape, &own, &model.foreign) {
            Ok(object) => break object,
            Err(Error::ObjectFull) => return Ok(()),
            Err(error) => ensure!(matches!(error, Error::DiskFull), "create fails with {error}"),
        }
        ensure!(pages.pages.count() == 0, "{} pages are lost", pages.pages.count());
        allocations += 1;
    };
    ensure!(pages.pages.count() == allocations, "{allocations} pages were made");
    pages.pages.limit_allocations(None);
    compare(&pages, object, &model)?;

    for step in 0..200 {
        let calls = (random.below(3) == 0).then(|| random.below(8));
        let before = pages.pages.count();
        pages.begin(calls);
        let result = match random.below(12) {
            0 => {
                let foreign = some_foreign(&mut random);
                set_foreign(&pages, object, &foreign).map(|old| {
                    let expected = std::mem::replace(&mut model.foreign, foreign);
                    (old == expected, "the old references".to_owned())
                })
            }
            1..5 => {
                let value = some_value(&mut random, shape.data);
                append(&pages, object, &value).map(|slot| {
                    model.own.push(Some(value));
                    (slot as usize == model.own.len() - 1, format!("slot {slot}"))
                })
            }
            _ if model.own.is_empty() => continue,
            kind => {
                let slot = random.below(model.own.len());
                let value = (kind > 5).then(|| some_value(&mut random, shape.data));
                let bytes = value.as_ref().map_or(0, Vec::len);
                let result = update(&pages, object, slot as u32, value.as_deref());
                result.map(|old| {
                    let expected = std::mem::replace(&mut model.own[slot], value);
                    // Only a page that has no room is divided.
                    let changed = pages.watch.changed.borrow();
                    let fits = expected.as_ref().is_some_and(|expected| bytes <= expected.len());
                    let alone = changed.len() == 1 && !changed.contains(&object);
                    let divided = pages.pages.count() > before;
                    let as_said = if fits { alone } else { alone != divided };
                    (
                        old == expected && as_said,
                        format!("the old value of {slot}, and what changed: {changed:?}"),
                    )
                })
            }
        };
        match result {
            Ok((is_right, what)) => ensure!(is_right, "step {step}: {what} is wrong"),
            Err(Error::ObjectFull) => {}
            Err(error) => ensure!(pages.watch.failed.get(), "step {step} fails with {error}"),
        }
        ensure!(pages.watch.held.get() == 0, "step {step}: a latch is kept");
        if let Some(id) = pages.watch.waited.get() {
            return Err(format!("step {step}: page {id} was waited for with a latch in hand"));
        }
        compare(&pages, object, &model).map_err(|what| format!("step {step}: {what}"))?;
    }

    // Nothing is freed before all pages have been seen.
    let count = pages.pages.count();
    pages.begin(Some(random.below(count + 1)));
    ensure!(free(&pages, object).is_err(), "a failure is not told");
    compare(&pages, object, &model)?;
    pages.begin(None);
    free(&pages, object).map_err(|error| error.to_string())?;
    ensure!(pages.pages.count() == 0, "free leaves {} pages", pages.pages.count());
    Ok(())
}

#[test]
fn behaves_like_a_vector_of_values() {
    for seed in 0..300 {
        run(seed).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}

/// Two objects of the same shape, with 3, 3 and 2 subobjects a page.
fn two_objects() -> (Watched, PageId, PageId) {
    let pages = Watched::default();
    let shape = ObjectShape::from(PageSize::MIN);
    let foreign = [Reference { object: PageId(7), slot: 3 }; 3];
    let [a, b] = [(); 2].map(|()| create(&pages, shape, &[], &foreign).unwrap());
    for round in 0..8u8 {
        append(&pages, a, &[round; 150]).unwrap();
        append(&pages, b, &[round; 150]).unwrap();
    }
    update(&pages, a, 3, None).unwrap();
    (pages, a, b)
}

/// Damages the first of two objects, and does everything with it. Errors are all that happens, and the second object
/// stays as it is. What [`check`] lets pass works; `found` says that it must not.
fn try_damage(what: &str, found: bool, damage: impl FnOnce(&MemoryPages)) -> Result<(), String> {
    let (pages, a, b) = two_objects();
    damage(&pages.pages);
    let errors = Cell::new(0);
    let told = |result: Result<()>| match result {
        Err(Error::Corrupt { .. }) => {
            errors.update(|errors| errors + 1);
            Ok(())
        }
        Ok(()) | Err(Error::ObjectFull | Error::SubobjectTooLong { .. } | Error::Operation(_)) => Ok(()),
        Err(error) => Err(format!("{what}: {error}")),
    };
    let is_sound = check(&pages, a).is_ok();
    ensure!(!(is_sound && found), "{what}: check finds nothing");
    if let Ok(header) = header(&pages, a) {
        for slot in (0..10).chain([u32::MAX - 1, u32::MAX]) {
            let page = header.page_of(slot);
            ensure!(page.is_some() == (slot < header.own()), "{what}: slot {slot} has page {page:?}");
            told(read(&pages, &header, slot).map(drop))?;
        }
    }
    for value in [&[1; 20][..], &[1; 440], &[1; 440]] {
        told(append(&pages, a, value).map(drop))?;
    }
    for slot in 0..9 {
        for value in [Some(&[9; 140][..]), Some(&[9; 400]), None, Some(&[9])] {
            told(update(&pages, a, slot, value).map(drop))?;
        }
    }
    told(set_foreign(&pages, a, &[]).map(drop))?;
    let is_sound_yet = check(&pages, a).is_ok();
    ensure!(!is_sound || errors.get() == 0 && is_sound_yet, "{what}: check found nothing at first");
    let count = pages.pages.count();
    let freed = free(&pages, a);
    ensure!(freed.is_ok() || pages.pages.count() == count, "{what}: half of the object is free");
    told(freed)?;
    ensure!(pages.watch.held.get() == 0, "{what}: a latch is kept");

    let header = header(&pages, b).map_err(|error| format!("{what}: the other object: {error}"))?;
    let whole = check(&pages, b).is_ok_and(|found| found.len() == 4)
        && (0..8)
            .all(|slot| read(&pages, &header, slot).is_ok_and(|value| value == Some(vec![slot as u8; 150])));
    ensure!(whole, "{what}: the other object has changed");
    Ok(())
}

/// Every byte of an object's pages, every number of their headers, and every pointer of the directory.
fn damage_all() -> Result<(), String> {
    let (pages, a, b) = two_objects();
    let [of_a, of_b] = [a, b].map(|object| check(&pages, object).unwrap());
    let directory = 16..16 + 12 * (of_a.len() - 1);
    for id in &of_a {
        // All but unused bytes, references and values.
        let found = |at| match *id == a {
            true => at == 0 || (4..12).contains(&at) || directory.contains(&at),
            false => at < 20,
        };
        for at in 0..PageSize::MIN.body_bytes() {
            for flip in [1, 2, 4, 0x80, 0xff] {
                let what = format!("byte {at} of page {id} with {flip:#x}");
                try_damage(&what, found(at), |pages| pages.damage(*id, |body| body[at] ^= flip))?;
            }
        }
        for at in (0..directory.end).step_by(4) {
            for number in [0u32, 1, 19, 20, 476, 477, 1 << 31, u32::MAX] {
                let what = format!("{number} at {at} of page {id}");
                try_damage(&what, false, |pages| {
                    pages.damage(*id, |body| body[at..at + 4].copy_from_slice(&number.to_le_bytes()));
                })?;
            }
        }
        for kind in [PageKind::TreeLeaf, PageKind::ObjectHeader, PageKind::ObjectData] {
            let page = pages.pages.read(*id).unwrap().kind();
            try_damage(&format!("page {id} is {kind:?}"), page != kind, |pages| {
                pages.write(*id).unwrap().set_kind(kind);
            })?;
        }
    }
    for (at, own) in directory.step_by(12).zip(&of_a[1..]) {
        for to in of_a.iter().chain(&of_b).chain(&[PageId(1000), PageId(u64::MAX)]) {
            try_damage(&format!("{to} in place of {own}"), to != own, |pages| {
                pages.damage(a, |body| body[at..at + 8].copy_from_slice(&to.0.to_le_bytes()));
            })?;
        }
    }
    Ok(())
}

#[test]
fn damage_makes_errors_and_nothing_worse() {
    damage_all().unwrap();
}

#[test]
fn planted_bugs_are_caught() {
    for bug in [
        Failpoint::PageUncut,
        Failpoint::NewPageLost,
        Failpoint::LatchedUnseen,
        Failpoint::OwnerUnchecked,
        Failpoint::RoomUnchecked,
    ] {
        Failpoints::of_thread().turn_on([bug]);
        let caught = if bug == Failpoint::OwnerUnchecked {
            damage_all().err()
        } else {
            (0..300).find_map(|seed| run(seed).err())
        };
        Failpoints::of_thread().turn_off();
        assert!(caught.is_some(), "{bug:?} is not caught");
    }
}

#[test]
fn nothing_is_appended_to_a_page_that_has_other_slots_than_the_header_says() {
    for (of_header, at, number) in [(false, 12, 1u32), (false, 12, 3), (true, 4, 7), (true, 4, 9)] {
        let (pages, a, _) = two_objects();
        let last = header(&pages, a).unwrap().pages().last().unwrap();
        let id = if of_header { a } else { last };
        pages.pages.damage(id, |body| body[at..at + 4].copy_from_slice(&number.to_le_bytes()));
        let changes = pages.pages.changes();
        assert!(matches!(append(&pages, a, b"new"), Err(Error::Corrupt { page, .. }) if page == last.0));
        assert_eq!(pages.pages.changes(), changes);
    }
}

/// What the database of the paper has: 1000 subobjects in 9 pages of 2 KiB, and 100 references beside their directory.
#[test]
fn an_object_of_1000_subobjects_takes_ten_pages_of_2_kib() {
    let pages = MemoryPages::default();
    let own: Vec<[u8; 16]> = (0..1000u128).map(u128::to_le_bytes).collect();
    let own: Vec<&[u8]> = own.iter().map(<[u8; 16]>::as_slice).collect();
    let foreign: Vec<Reference> =
        (0..100).map(|index| Reference { object: PageId(index), slot: index as u32 * 9 }).collect();
    let shape = ObjectShape::from(size(2048));
    let object = create(&pages, shape, &own, &foreign).unwrap();
    assert_eq!((pages.count(), check(&pages, object).unwrap().len()), (10, 10));
    let header = header(&pages, object).unwrap();
    assert_eq!((header.own(), header.pages().len(), header.foreign().len()), (1000, 9, 100));
    assert_eq!((header.object(), header.shape()), (object, shape));
    assert!(header.foreign().eq(foreign));
    for (slot, value) in (0..).zip(own) {
        assert_eq!(read(&pages, &header, slot).unwrap().as_deref(), Some(value));
    }
}

#[test]
fn a_full_header_refuses_what_needs_another_entry() {
    let pages = Watched::default();
    let object = create(&pages, ObjectShape::from(PageSize::MIN), &[], &[]).unwrap();
    let max = value_bytes_max(PageSize::MIN);
    let mut model = Model { own: Vec::new(), foreign: Vec::new() };
    let error = loop {
        let value = vec![model.own.len() as u8; max / 2 - 1];
        match append(&pages, object, &value) {
            Ok(_) => model.own.push(Some(value)),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::ObjectFull), "{error}");
    assert_eq!(pages.pages.count(), 1 + (PageSize::MIN.body_bytes() - 16) / 12);
    let reference = Reference { object, slot: 0 };
    assert!(matches!(set_foreign(&pages, object, &[reference]), Err(Error::ObjectFull)));
    assert!(matches!(update(&pages, object, 4, Some(&vec![0; max])), Err(Error::ObjectFull)));
    compare(&pages, object, &model).unwrap();

    // What needs none goes on.
    model.own[4] = None;
    update(&pages, object, 4, None).unwrap();
    model.own[5] = Some(vec![5; max - 1]);
    update(&pages, object, 5, model.own[5].as_deref()).unwrap();
    compare(&pages, object, &model).unwrap();
    let own = vec![&[][..]; 1000];
    let create = |foreign| create(&pages, ObjectShape::from(PageSize::MIN), &own, &vec![reference; foreign]);
    let pages_of_own = 1000usize.div_ceil(PageSize::MIN.body_bytes() - 20);
    assert!(matches!(create(39 - pages_of_own), Err(Error::ObjectFull)));
    assert!(create(38 - pages_of_own).is_ok());
}

#[test]
fn the_longest_subobject_fills_its_page() {
    for data in PageSize::all() {
        let pages = Watched::default();
        let max = value_bytes_max(data);
        let shape = ObjectShape { header: PageSize::MIN, data };
        let long = vec![1; max + 1];
        let too_long = |result: Result<()>| {
            assert!(
                matches!(result, Err(Error::SubobjectTooLong { bytes, max: m }) if bytes == m + 1 && m == max)
            );
        };
        too_long(create(&pages, shape, &[&long], &[]).map(drop));
        let third = vec![3; max / 3 - 2];
        let object = create(&pages, shape, &[third.as_slice(); 3], &[]).unwrap();
        too_long(append(&pages, object, &long).map(drop));
        too_long(update(&pages, object, 1, Some(&long)).map(drop));
        assert_eq!(pages.pages.count(), 2);

        // It leaves no room for those before it and after it.
        update(&pages, object, 1, Some(&long[..max])).unwrap();
        let model = Model {
            own: vec![Some(third.clone()), Some(long[..max].to_vec()), Some(third)],
            foreign: Vec::new(),
        };
        compare(&pages, object, &model).unwrap();
        assert_eq!(pages.pages.count(), 4);
        assert!(matches!(update(&pages, object, 3, None), Err(Error::Operation(_))));
    }
}

#[test]
fn a_header_stays_good_while_subobjects_are_made() {
    let pages = MemoryPages::default();
    let object = create(&pages, ObjectShape::from(PageSize::MIN), &[b"a", b"b"], &[]).unwrap();
    let before: Header = header(&pages, object).unwrap();
    let image = before.page.clone();
    for _ in 0..1000 {
        append(&pages, object, b"c").unwrap();
    }
    assert_eq!(read(&pages, &before, 1).unwrap().as_deref(), Some(&b"b"[..]));
    assert_eq!((read(&pages, &before, 2).unwrap(), before.own()), (None, 2));
    assert!(std::ptr::eq(image.body(), before.page.body()) && pages.count() > 2);
}
