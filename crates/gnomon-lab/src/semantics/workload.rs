//! Transactions of the study: what they read and change (its section 3).

use gnomon::env::Rng;

use super::parameters::Parameters;

/// Pages of the second level of each index; the root has an entry for each.
pub const INNER_PAGES: u64 = 100;
/// Leaves of each index; pages of the second level have a hundred entries each.
pub const LEAVES: u64 = 10_000;
/// Pages with records: a million of 100 bytes, on pages that are 70 % full.
pub const DATA_PAGES: u64 = 71_000;
/// Bytes of a record.
pub const RECORD_BYTES: f64 = 100.0;

/// What an action does with its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads it.
    Read,
    /// Changes it in its place.
    Rewrite,
    /// Inserts or deletes it.
    InsertOrDelete,
}

/// An action: it finds one record through an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    /// What it does.
    pub kind: Kind,
    /// The index.
    pub index: usize,
    /// Of each index, where on its leaves the record's entry is.
    pub seed: u64,
    /// The record's page.
    pub page: u64,
    /// Where on it the record is, in parts of the page of 2^32.
    pub place: u32,
}

/// A transaction: a series of actions, or two with a pause between them.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Of actions, one or two.
    pub series: Vec<Vec<Action>>,
    /// Seconds between two series.
    pub think: f64,
}

impl Plan {
    /// How many actions it has.
    pub fn actions(&self) -> usize {
        self.series.iter().map(Vec::len).sum()
    }

    /// Chooses one.
    pub fn choose(parameters: &Parameters, rng: &mut Rng) -> Plan {
        let series = if rng.chance(1, 2) { 1 } else { 2 };
        let (updates, inserts) =
            (2.0 * parameters.modify1 * rng.unit(), 2.0 * parameters.modify2 * rng.unit());
        let action = |rng: &mut Rng| {
            let kind = match (rng.unit() < updates, rng.unit() < inserts) {
                (false, _) => Kind::Read,
                (true, false) => Kind::Rewrite,
                (true, true) => Kind::InsertOrDelete,
            };
            Action {
                kind,
                index: rng.below(parameters.numindex as u64) as usize,
                seed: rng.next_u64(),
                page: rng.below(DATA_PAGES),
                place: rng.next_u64() as u32,
            }
        };
        let series = (0..series).map(|_| (0..10 + rng.below(11)).map(|_| action(rng)).collect()).collect();
        Plan { series, think: 10.0 + 10.0 * rng.unit() }
    }
}

impl Action {
    /// The leaf and the place on it, in parts of 2^32, of the record's entry in an index.
    pub fn entry(&self, index: usize) -> (u64, u32) {
        let mut rng = Rng::from_seed(self.seed.wrapping_add(index as u64));
        (rng.below(LEAVES), rng.next_u64() as u32)
    }
}
