//! Transactions of the study: what they read and change (its section 3).

use gnomon_bench::workload::zipf::Zipf;
use gnomon_engine::env::Rng;

use super::parameters::Parameters;

/// Pages of the second level of each index; the root has an entry for each.
pub const INNER_PAGES: u64 = 100;
/// Leaves of each index; pages of the second level have a hundred entries each.
pub const LEAVES: u64 = 10_000;
/// Records.
pub const RECORDS: u64 = 1_000_000;
/// Pages with records, which are 70 % full.
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
    /// The record.
    pub record: u64,
    /// Of what decides, in each index, how far up a change goes.
    split_seed: u64,
}

/// A transaction: a series of actions, or two with a pause between them.
#[derive(Clone, Debug)]
pub struct Plan {
    /// One or two series of actions.
    pub series: Vec<Vec<Action>>,
    /// Seconds between two series.
    pub think: f64,
}

impl Plan {
    /// How many actions it has.
    pub fn actions(&self) -> usize {
        self.series.iter().map(Vec::len).sum()
    }
}

/// Chooses transactions.
pub struct Workload {
    /// Of records, unless all are equally likely.
    skew: Option<Zipf>,
    updates: f64,
    inserts: f64,
    indexes: u64,
    think: f64,
}

impl Workload {
    /// As the parameters say.
    pub fn new(parameters: &Parameters) -> Workload {
        let Parameters { modify1, modify2, numindex, past, .. } = parameters;
        Workload {
            skew: (past.skew > 0.0).then(|| Zipf::new(RECORDS, past.skew)),
            updates: *modify1,
            inserts: *modify2,
            indexes: *numindex as u64,
            think: past.think,
        }
    }

    /// Chooses one.
    pub fn choose(&self, rng: &mut Rng) -> Plan {
        let series = if rng.chance(1, 2) { 1 } else { 2 };
        let (updates, inserts) = (2.0 * self.updates * rng.unit(), 2.0 * self.inserts * rng.unit());
        let action = |rng: &mut Rng| {
            let kind = match (rng.unit() < updates, rng.unit() < inserts) {
                (false, _) => Kind::Read,
                (true, false) => Kind::Rewrite,
                (true, true) => Kind::InsertOrDelete,
            };
            let record = match &self.skew {
                Some(skew) => skew.choose(rng),
                None => rng.below(RECORDS),
            };
            Action { kind, index: rng.below(self.indexes) as usize, record, split_seed: rng.next_u64() }
        };
        let series = (0..series).map(|_| (0..10 + rng.below(11)).map(|_| action(rng)).collect()).collect();
        Plan { series, think: self.think * (2.0 + 2.0 * rng.unit()) / 3.0 }
    }
}

impl Action {
    /// The record's page.
    pub fn page(&self) -> u64 {
        self.record * DATA_PAGES / RECORDS
    }

    /// Where on its page the record is, in parts of the page of 2^32.
    pub fn place(&self) -> u32 {
        ((((self.record * DATA_PAGES) % RECORDS) << 32) / RECORDS) as u32
    }

    /// The leaf and the place on it, in parts of 2^32, of the record's entry in an index: in each index it is elsewhere.
    pub fn entry(&self, index: usize) -> (u64, u32) {
        let mut rng = Rng::from_seed(self.record << 8 | index as u64);
        (rng.below(LEAVES), rng.next_u64() as u32)
    }

    /// How many pages of an index, from the leaf up, a change of the record's entry changes. Each page above the leaf
    /// changes with so much probability if that below it does.
    pub fn pages_changed(&self, index: usize, split: f64) -> usize {
        let mut rng = Rng::from_seed(self.split_seed.wrapping_add(index as u64));
        let mut pages = 1;
        while pages < 3 && rng.unit() < split {
            pages += 1;
        }
        pages
    }
}
