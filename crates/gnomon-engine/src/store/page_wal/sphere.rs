//! Persistence spheres: which changed pages must reach the log together (Hasse and Weikum 1991, section 2).
//!
//! A subtransaction that has ended leaves the pages that it changed in its sphere. If one of them is in another sphere,
//! or if it has read a page of one, both become one. A sphere is written to the log as a whole, so what is in the log
//! is made of whole subtransactions. It ends when it is written: its pages are in no sphere then, until they change
//! again.
//!
//! A subtransaction that changes nothing has no sphere, although the paper's definition gives it one by what it has
//! read. What it has read is of a transaction that commits before its own does, and is durable then since commits are
//! durable in their order; or of one that its own commutes with, so that what comes of it does not depend on that.
//!
//! Plain data; the store holds it under its mutex.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::{
    TxnId,
    failpoint::{Failpoint, Failpoints},
    id::{Lsn, SubtxnId},
    page::{Page, PageSize},
};

/// The state of a page after the subtransactions that have ended.
#[derive(Clone)]
pub enum After {
    /// In use, with this image.
    Image(Page),
    /// Given back; it had this size.
    Freed(PageSize),
}

impl After {
    /// Returns the size of the page.
    pub fn size(&self) -> PageSize {
        match self {
            After::Image(page) => page.size(),
            After::Freed(size) => *size,
        }
    }

    /// Bytes that it takes in the log, about.
    pub fn bytes(&self) -> usize {
        match self {
            After::Image(page) => page.size().bytes(),
            After::Freed(_) => 0,
        }
    }
}

/// A subtransaction that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    pub id: SubtxnId,
    pub txn: TxnId,
    /// Where its undo record ends in the log of operations, if it has one.
    pub undo_end: Lsn,
}

/// The spheres that are not written yet.
#[derive(Default)]
pub struct Spheres {
    pages: HashMap<u64, InSphere>,
    spheres: BTreeMap<SphereId, Sphere>,
    /// Of each transaction, the spheres that have something of it.
    of_txn: HashMap<TxnId, BTreeSet<SphereId>>,
    bytes: usize,
    failpoints: Failpoints,
}

/// A sphere, by the subtransaction that it began with.
pub type SphereId = SubtxnId;

struct InSphere {
    sphere: SphereId,
    after: After,
}

#[derive(Default)]
struct Sphere {
    pages: Vec<u64>,
    subtxns: Vec<Ended>,
}

/// Pages and subtransactions that are taken to be written as a unit.
#[derive(Default)]
pub struct Taken {
    /// In the order of their numbers.
    pub pages: BTreeMap<u64, After>,
    /// In the order of their numbers.
    pub subtxns: Vec<Ended>,
}

impl Spheres {
    pub fn new(failpoints: Failpoints) -> Spheres {
        Spheres { failpoints, ..Spheres::default() }
    }

    /// Puts the pages that a subtransaction has changed in a sphere, with all those that they overlap with, and those
    /// that have a page which it has read. Returns that sphere.
    pub fn end(
        &mut self,
        subtxn: Ended,
        changed: impl IntoIterator<Item = (u64, After)>,
        read: impl IntoIterator<Item = u64>,
    ) -> SphereId {
        let id = subtxn.id;
        let mut merged: BTreeSet<SphereId> =
            read.into_iter().filter_map(|page| self.pages.get(&page)).map(|page| page.sphere).collect();
        if self.failpoints.is_on(Failpoint::OverlapIgnored) {
            merged.clear();
        }
        let mut sphere = Sphere { pages: Vec::new(), subtxns: vec![subtxn] };
        for (page, after) in changed {
            self.bytes += after.bytes();
            let Some(before) = self.pages.get_mut(&page) else {
                self.pages.insert(page, InSphere { sphere: id, after });
                sphere.pages.push(page);
                continue;
            };
            self.bytes -= before.after.bytes();
            before.after = after;
            if self.failpoints.is_on(Failpoint::OverlapIgnored) {
                if let Some(other) = self.spheres.get_mut(&before.sphere) {
                    other.pages.retain(|other| *other != page);
                }
                before.sphere = id;
                sphere.pages.push(page);
                continue;
            }
            merged.insert(before.sphere);
        }
        self.of_txn.entry(subtxn.txn).or_default().insert(id);
        self.spheres.insert(id, sphere);
        merged.into_iter().fold(id, |id, other| self.merge(id, other))
    }

    /// Makes one of two spheres, under the number of the larger one, which it gives.
    fn merge(&mut self, a: SphereId, b: SphereId) -> SphereId {
        let size = |id| self.spheres.get(&id).map_or(0, |sphere| sphere.pages.len() + sphere.subtxns.len());
        let (into, from) = if size(a) < size(b) { (b, a) } else { (a, b) };
        let Some(mut smaller) = self.spheres.remove(&from) else { return into };
        for page in &smaller.pages {
            if let Some(page) = self.pages.get_mut(page) {
                page.sphere = into;
            }
        }
        for subtxn in &smaller.subtxns {
            if let Some(of) = self.of_txn.get_mut(&subtxn.txn) {
                of.remove(&from);
                of.insert(into);
            }
        }
        if let Some(larger) = self.spheres.get_mut(&into) {
            larger.pages.append(&mut smaller.pages);
            larger.subtxns.append(&mut smaller.subtxns);
        }
        into
    }

    /// The spheres that have something of a transaction.
    pub fn of_txn(&self, txn: TxnId) -> BTreeSet<SphereId> {
        self.of_txn.get(&txn).cloned().unwrap_or_default()
    }

    /// Some page of a sphere.
    pub fn a_page_of(&self, sphere: SphereId) -> Option<u64> {
        self.spheres.get(&sphere)?.pages.first().copied()
    }

    /// The sphere that a page is in.
    pub fn of_page(&self, page: u64) -> Option<SphereId> {
        self.pages.get(&page).map(|page| page.sphere)
    }

    /// All of them.
    pub fn all(&self) -> BTreeSet<SphereId> {
        self.spheres.keys().copied().collect()
    }

    /// The one with the most pages, and how many it has.
    pub fn largest(&self) -> Option<(SphereId, usize)> {
        self.spheres.iter().map(|(id, sphere)| (*id, sphere.pages.len())).max_by_key(|(_, pages)| *pages)
    }

    /// The position in the log of operations up to which it must be durable before these spheres may be written, for
    /// the sake of all transactions but those given.
    pub fn undo_end(&self, spheres: &BTreeSet<SphereId>, but: &BTreeSet<TxnId>) -> Lsn {
        let subtxns = spheres.iter().filter_map(|id| self.spheres.get(id)).flat_map(|sphere| &sphere.subtxns);
        subtxns
            .filter(|subtxn| !but.contains(&subtxn.txn))
            .map(|subtxn| subtxn.undo_end)
            .max()
            .unwrap_or_default()
    }

    /// Takes spheres out, to be written as one.
    pub fn take(&mut self, spheres: &BTreeSet<SphereId>) -> Taken {
        let mut taken = Taken::default();
        for id in spheres {
            let Some(sphere) = self.spheres.remove(id) else { continue };
            for page in sphere.pages {
                if let Some(page_in) = self.pages.remove(&page) {
                    self.bytes -= page_in.after.bytes();
                    taken.pages.insert(page, page_in.after);
                }
            }
            for subtxn in &sphere.subtxns {
                if let Some(of) = self.of_txn.get_mut(&subtxn.txn) {
                    of.remove(id);
                    if of.is_empty() {
                        self.of_txn.remove(&subtxn.txn);
                    }
                }
            }
            taken.subtxns.extend(sphere.subtxns);
        }
        taken.subtxns.sort_by_key(|subtxn| subtxn.id);
        taken
    }

    /// True if a page is in a sphere.
    pub fn contains(&self, page: u64) -> bool {
        self.pages.contains_key(&page)
    }

    /// True if a page was given back, and no log has that yet.
    pub fn has_freed(&self, page: u64) -> bool {
        self.pages.get(&page).is_some_and(|page| matches!(page.after, After::Freed(_)))
    }

    /// Returns the bytes that the pages of all spheres take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{env::Rng, page::PageKind};

    fn image(fill: u8) -> After {
        let mut page = Page::sized(PageKind::ObjectData, PageSize::MIN);
        page.body_mut().fill(fill);
        After::Image(page)
    }

    fn ended(txn: u64, id: u64) -> Ended {
        Ended { id: SubtxnId(id), txn: TxnId(txn), undo_end: Lsn(id * 100) }
    }

    fn end(spheres: &mut Spheres, txn: u64, id: u64, changed: &[u64], read: &[u64]) {
        spheres.end(
            ended(txn, id),
            changed.iter().map(|page| (*page, image(id as u8))),
            read.iter().copied(),
        );
    }

    fn written(spheres: &mut Spheres, txn: u64) -> (Vec<u64>, Vec<u64>) {
        let taken = spheres.take(&spheres.of_txn(TxnId(txn)));
        (taken.pages.into_keys().collect(), taken.subtxns.iter().map(|subtxn| subtxn.id.0).collect())
    }

    /// Fig. 1 of the paper: T11 changes p and q, T21 p and r, T12 r and s; PS(T2) is all of it.
    #[test]
    fn the_papers_example() {
        let [p, q, r, s] = [1, 2, 3, 4];
        let mut spheres = Spheres::default();
        end(&mut spheres, 1, 11, &[p, q], &[p, q]);
        end(&mut spheres, 2, 21, &[p, r], &[p, r]);
        end(&mut spheres, 1, 12, &[r, s], &[r, s]);
        let only_t2 = BTreeSet::from([TxnId(2)]);
        assert_eq!(spheres.undo_end(&spheres.of_txn(TxnId(2)), &only_t2), Lsn(1200), "T1 can be undone");
        assert_eq!(written(&mut spheres, 2), (vec![p, q, r, s], vec![11, 12, 21]));
        assert_eq!(written(&mut spheres, 1), (vec![], vec![]));
        assert_eq!((spheres.bytes(), spheres.all().len()), (0, 0));
    }

    #[test]
    fn what_was_read_is_merged_if_it_led_to_a_change() {
        let mut spheres = Spheres::default();
        end(&mut spheres, 1, 1, &[1], &[]);
        end(&mut spheres, 2, 2, &[2], &[1, 9]);
        end(&mut spheres, 3, 3, &[3], &[4]);
        assert_eq!(written(&mut spheres, 2).0, [1, 2]);
        assert_eq!(written(&mut spheres, 3).0, [3]);
    }

    /// Against a relation that is closed by brute force.
    #[test]
    fn spheres_are_the_closure_of_overlaps_and_reads() {
        for seed in 0..300 {
            let mut rng = Rng::from_seed(seed);
            let mut spheres = Spheres::default();
            // By subtransaction, since the last time that it was written: pages changed and read, transaction.
            let mut model: BTreeMap<u64, (BTreeSet<u64>, BTreeSet<u64>, u64)> = BTreeMap::new();
            // Pairs of subtransactions: the second changes or reads a page that the first one has changed.
            let mut related: Vec<(u64, u64)> = Vec::new();
            for id in 1..60 {
                let mut pages = |most| (0..rng.below(most)).map(|_| rng.below(24)).collect::<BTreeSet<u64>>();
                let (mut changed, read) = (pages(4), pages(4));
                changed.insert(id % 24);
                let txn = 1 + rng.below(5);
                for (other, (their, ..)) in &model {
                    if their.iter().any(|page| changed.contains(page) || read.contains(page)) {
                        related.push((*other, id));
                    }
                }
                let (changed, read): (Vec<u64>, Vec<u64>) =
                    (changed.into_iter().collect(), read.into_iter().collect());
                end(&mut spheres, txn, id, &changed, &read);
                model.insert(id, (changed.into_iter().collect(), read.into_iter().collect(), txn));
                if rng.chance(1, 4) {
                    let txn = 1 + rng.below(5);
                    let mut closed: BTreeSet<u64> =
                        model.iter().filter(|(_, (.., of))| *of == txn).map(|(id, _)| *id).collect();
                    while let Some(more) =
                        related.iter().find_map(|(a, b)| match (closed.contains(a), closed.contains(b)) {
                            (true, false) => Some(*b),
                            (false, true) => Some(*a),
                            _ => None,
                        })
                    {
                        closed.insert(more);
                    }
                    let mut pages = BTreeSet::new();
                    for id in &closed {
                        pages.extend(model.remove(id).unwrap().0);
                    }
                    related.retain(|(a, _)| !closed.contains(a));
                    let found = written(&mut spheres, txn);
                    let expected: (Vec<u64>, Vec<u64>) =
                        (pages.into_iter().collect(), closed.into_iter().collect());
                    assert_eq!(found, expected, "seed {seed}");
                }
            }
        }
    }
}
